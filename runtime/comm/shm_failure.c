/* shm_failure.c: the one failure of a communicator of the engine "shm", sleep, and what a rank that
 * waits looks at: whether those it waits for have ended, left, or do something else. */
#include "runtime.h"
#include "comm/shm.h"

#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_NANOSECONDS = 20000000 };

/* A process does not know whose memory the word is, so the futex is not a private one. */
void shm_sleep(Shm *shm, unsigned bell) {
    ShmRank *own = &shm->header->ranks[shm->rank];
    const struct timespec slice = {.tv_nsec = SLICE_NANOSECONDS};
    atomic_store(&own->sleeps, 1);
    if (atomic_load(&own->bell) == bell)
        syscall(SYS_futex, &own->bell, FUTEX_WAIT, bell, &slice, NULL, 0);
    atomic_store(&own->sleeps, 0);
}

void shm_ring(Shm *shm, int rank) {
    ShmRank *other = &shm->header->ranks[rank];
    atomic_fetch_add(&other->bell, 1);
    if (atomic_load(&other->sleeps)) syscall(SYS_futex, &other->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

ls_status shm_failed(const Shm *shm, Error *error) {
    if (atomic_load(&shm->header->failed) != SHM_FAILED) return LS_OK;
    return error_set(error, LS_ERROR_COMM, "%s", shm->header->reason);
}

ls_status shm_fail(Shm *shm, Error *error, const char *format, ...) {
    ShmHeader *header = shm->header;
    unsigned fine = SHM_FINE;
    char reason[SHM_REASON];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (atomic_compare_exchange_strong(&header->failed, &fine, SHM_FAILING)) {
        memcpy(header->reason, reason, sizeof reason);
        atomic_store(&header->failed, SHM_FAILED);
        for (int rank = 0; rank < shm->size; rank++) shm_ring(shm, rank);
    }
    const ls_status status = shm_failed(shm, error); /* still being written: one's own words */
    return status != LS_OK ? status : error_set(error, LS_ERROR_COMM, "%s", reason);
}

/* ---- what a rank that waits finds ---- */

ls_status shm_differ(Shm *shm, Error *error, int other, uint64_t doing) {
    const uint64_t own = atomic_load(&shm->header->ranks[shm->rank].doing);
    return shm_fail(shm, error,
                    "the ranks call different operations: rank %d is in %s, rank %d in %s",
                    shm->rank, transfer_describe(own).text, other, transfer_describe(doing).text);
}

static bool has_ended(const Shm *shm, int rank) {
    struct pollfd life = {.fd = shm->lives[rank], .events = POLLIN};
    return life.fd >= 0 && poll(&life, 1, 0) == 1 && life.revents & POLLIN;
}

void shm_look(const Shm *shm, const bool *wanted, ShmState *states) {
    for (int rank = 0; rank < shm->size; rank++) {
        states[rank] = (ShmState)atomic_load(&shm->header->ranks[rank].state);
        if (wanted[rank] && states[rank] != SHM_LEFT && has_ended(shm, rank))
            states[rank] = SHM_ENDED;
    }
}

ls_status shm_missing(Shm *shm, Error *error, const bool *wanted, const ShmState *states) {
    const uint64_t own = atomic_load(&shm->header->ranks[shm->rank].doing);
    for (int rank = 0; rank < shm->size; rank++) {
        const ShmRank *other = &shm->header->ranks[rank];
        if (!wanted[rank]) continue;
        if (states[rank] == SHM_ENDED)
            return shm_fail(shm, error, "rank %d (process %d) ended while rank %d was in %s", rank,
                            other->process, shm->rank, transfer_describe(own).text);
        if (states[rank] == SHM_LEFT)
            return shm_fail(shm, error,
                            "rank %d called ls_comm_destroy after %llu operations while rank %d "
                            "was in %s",
                            rank, (unsigned long long)atomic_load(&other->number), shm->rank,
                            transfer_describe(own).text);
        const uint64_t doing = atomic_load(&other->doing);
        if (doing && doing != own && transfer_number(doing) == transfer_number(own))
            return shm_differ(shm, error, rank, doing);
    }
    return LS_OK;
}

ls_status shm_timed_out(Shm *shm, Error *error, const bool *wanted) {
    char what[SHM_REASON / 2];
    const uint64_t own = atomic_load(&shm->header->ranks[shm->rank].doing);
    size_t used = 0;
    for (int rank = 0; rank < shm->size && used < sizeof what; rank++) {
        const ShmRank *other = &shm->header->ranks[rank];
        const uint64_t doing = atomic_load(&other->doing);
        if (rank == shm->rank || !wanted[rank]) continue;
        const int wrote =
            doing ? snprintf(what + used, sizeof what - used, "%srank %d is in %s",
                             used ? ", " : "", rank, transfer_describe(doing).text)
                  : snprintf(what + used, sizeof what - used,
                             "%srank %d (process %d) does something else after %llu operations",
                             used ? ", " : "", rank, other->process,
                             (unsigned long long)atomic_load(&other->number));
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return shm_fail(shm, error, "rank %d waited for %.3g s in %s: %s", shm->rank, shm->timeout_s,
                    transfer_describe(own).text, used ? what : "nobody is missing");
}
