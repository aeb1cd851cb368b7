/* shm_run.c: a transfer of the engine "shm": writes and reads chunks as they can be. */
#include "runtime.h"
#include "comm/shm.h"

#include <string.h>

enum { SPINS = 200 };

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

typedef struct Run {
    Shm *shm;
    const Transfer *transfer;
    Error *error;
    uint64_t doing;
    bool writing; /* something is left to be written */
    bool first;   /* no chunk of the operation is written yet */
    int reading;  /* ranks from which more comes */
} Run;

static void open_run(Run *run) {
    Shm *shm = run->shm;
    run->writing = shm->size > 1 && transfer_sends(run->transfer, shm->rank);
    for (int rank = 0; rank < shm->size; rank++) {
        shm->out[rank] = cursor_open(transfer_to(run->transfer, shm->rank, rank));
        shm->in[rank] = cursor_open(transfer_from(run->transfer, shm->rank, rank));
        shm->done[rank] = rank == shm->rank || !transfer_sends(run->transfer, rank);
        run->reading += !shm->done[rank];
    }
}

/* ---- writing ---- */

static bool slot_is_free(const Shm *shm) {
    if (shm->written < SHM_SLOTS) return true;
    for (int rank = 0; rank < shm->size; rank++)
        if (rank != shm->rank &&
            atomic_load_explicit(shm_taken(shm, shm->rank, rank), memory_order_acquire) +
                    SHM_SLOTS <=
                shm->written)
            return false;
    return true;
}

/* All readers get the same bytes. */
static bool fill_with_one(Shm *shm, ShmSlot *slot) {
    const int any = shm->rank == 0;
    Cursor *cursor = &shm->out[any];
    const uint64_t total = slot->entries[any].total;
    const uint64_t bytes = cursor->left < SHM_SLOT_BYTES ? cursor->left : SHM_SLOT_BYTES;
    cursor_take(cursor, shm_slot_data(shm, slot), bytes);
    for (int rank = 0; rank < shm->size; rank++)
        slot->entries[rank] = (ShmEntry){.bytes = bytes, .total = total};
    return cursor->left == 0;
}

/* Each reader gets bytes of its own, in equal shares of those who still want some. */
static bool fill_with_each(Shm *shm, ShmSlot *slot) {
    uint64_t want = 0, at = 0;
    bool last = true;
    for (int rank = 0; rank < shm->size; rank++) want += shm->out[rank].left > 0;
    const uint64_t share = SHM_SLOT_BYTES / (want ? want : 1) / SHM_LINE * SHM_LINE;
    for (int step = 1; step < shm->size; step++) {
        const int rank = (shm->rank + step) % shm->size;
        Cursor *cursor = &shm->out[rank];
        const uint64_t bytes = cursor->left < share ? cursor->left : share;
        cursor_take(cursor, shm_slot_data(shm, slot) + at, bytes);
        slot->entries[rank].at = at;
        slot->entries[rank].bytes = bytes;
        at += (bytes + SHM_LINE - 1) / SHM_LINE * SHM_LINE;
        last &= cursor->left == 0;
    }
    return last;
}

static bool write_chunk(Run *run) {
    Shm *shm = run->shm;
    if (!run->writing || !slot_is_free(shm)) return false;
    ShmSlot *slot = shm_slot(shm, shm->rank, shm->written);
    slot->doing = run->doing;
    for (int rank = 0; rank < shm->size; rank++)
        slot->entries[rank].total = part_bytes(transfer_to(run->transfer, shm->rank, rank));
    const bool each = run->transfer->kind == TRANSFER_ALL_TO_ALL;
    const bool last = each ? fill_with_each(shm, slot) : fill_with_one(shm, slot);
    slot->last = last;
    run->writing = !last;
    shm->written++;
    atomic_store_explicit(&shm->header->ranks[shm->rank].written, shm->written,
                          memory_order_release);
    for (int rank = 0; rank < shm->size; rank++)
        if (rank != shm->rank) shm_ring(shm, rank);
    return true;
}

/* ---- reading ---- */

static ls_status check_chunk(Run *run, int from, const ShmSlot *slot) {
    Shm *shm = run->shm;
    const ShmEntry *entry = &slot->entries[shm->rank];
    const uint64_t wanted = part_bytes(transfer_from(run->transfer, shm->rank, from));
    if (slot->doing != run->doing) return shm_differ(shm, run->error, from, slot->doing);
    if (entry->total == wanted && entry->bytes <= shm->in[from].left) return LS_OK;
    return shm_fail(shm, run->error,
                    "the ranks disagree about sizes: in operation %llu, %s, rank %d sends %llu "
                    "bytes to rank %d, which wants %llu",
                    (unsigned long long)shm->operations, transfer_name(run->transfer->kind), from,
                    (unsigned long long)entry->total, shm->rank, (unsigned long long)wanted);
}

static ls_status read_chunk(Run *run, int from, bool *progress) {
    Shm *shm = run->shm;
    const uint64_t chunk = shm->taken[from];
    if (shm->done[from] ||
        atomic_load_explicit(&shm->header->ranks[from].written, memory_order_acquire) == chunk)
        return LS_OK;
    ShmSlot *slot = shm_slot(shm, from, chunk);
    ls_status status = check_chunk(run, from, slot);
    if (status != LS_OK) return status;
    const ShmEntry *entry = &slot->entries[shm->rank];
    cursor_give(&shm->in[from], shm_slot_data(shm, slot) + entry->at, entry->bytes);
    if (slot->last) {
        shm->done[from] = true;
        run->reading--;
    }
    shm->taken[from]++;
    atomic_store_explicit(shm_taken(shm, from, shm->rank), chunk + 1, memory_order_release);
    shm_ring(shm, from);
    *progress = true;
    return LS_OK;
}

/* One look at everything that can be written or read now. */
static ls_status go_on(Run *run, bool *progress) {
    Shm *shm = run->shm;
    *progress = write_chunk(run);
    for (int step = 1; step < shm->size; step++) {
        ls_status status = read_chunk(run, (shm->rank + step) % shm->size, progress);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* ---- waiting ---- */

/* Those without whom it does not go on. */
static void find_wanted(const Run *run, bool *wanted) {
    const Shm *shm = run->shm;
    for (int rank = 0; rank < shm->size; rank++)
        wanted[rank] = rank != shm->rank &&
                       (!shm->done[rank] ||
                        (run->writing &&
                         atomic_load(shm_taken(shm, shm->rank, rank)) + SHM_SLOTS <= shm->written));
}

/* Until the bell rings. A rank may have written its last before it ended, so what is there is read
 * before anybody is found missing. */
static ls_status wait_for_bell(Run *run, unsigned bell, double since_us, bool *progress) {
    Shm *shm = run->shm;
    const atomic_uint *own = &shm->header->ranks[shm->rank].bell;
    bool wanted[SHM_RANKS];
    ShmState gone[SHM_RANKS];
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(own, memory_order_relaxed) != bell) return LS_OK;
        relax();
    }
    shm_sleep(shm, bell);
    if (atomic_load(own) != bell) return LS_OK;
    find_wanted(run, wanted);
    shm_look(shm, wanted, gone);
    ls_status status = go_on(run, progress);
    if (status != LS_OK || *progress) return status;
    status = shm_missing(shm, run->error, wanted, gone);
    if (status != LS_OK) return status;
    return time_us() - since_us < shm->timeout_s * 1e6 ? LS_OK
                                                       : shm_timed_out(shm, run->error, wanted);
}

/* A failure counts where the operation cannot go on: one that all have done their part of ends well
 * on all. */
ls_status shm_run(void *state, const Transfer *transfer, Error *error, double *waited_us) {
    Shm *shm = state;
    ShmRank *own = &shm->header->ranks[shm->rank];
    Run run = {.shm = shm, .transfer = transfer, .error = error};
    run.doing = transfer_doing(++shm->operations, transfer->kind, transfer->root);
    atomic_store(&own->doing, run.doing);
    open_run(&run);
    ls_status status = shm_failed(shm, error);
    double since = 0;
    while (status == LS_OK && (run.writing || run.reading > 0)) {
        const unsigned bell = atomic_load(&own->bell);
        bool progress;
        status = go_on(&run, &progress);
        const bool blocked = !progress && (run.writing || run.reading > 0);
        if (blocked && status == LS_OK) status = shm_failed(shm, error);
        if (blocked && status == LS_OK) {
            if (since == 0) since = time_us();
            status = wait_for_bell(&run, bell, since, &progress);
        }
        if (progress && since > 0) {
            *waited_us += time_us() - since;
            since = 0;
        }
    }
    if (since > 0) *waited_us += time_us() - since;
    atomic_store(&own->number, shm->operations);
    atomic_store(&own->doing, 0);
    return status;
}
