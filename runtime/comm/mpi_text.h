/* comm/mpi_text.h: the engine "mpi" for one interface: included by mpi_open_mpi.c and mpi_mpich.c,
 * which define what differs.
 *
 * An operation begins with a word from every rank to every other, which says what it does and how
 * many bytes come, so that ranks that differ are found at once. Then parts go as messages of up to
 * 2^30 bytes, those of several pieces by a type that names their addresses. Nothing blocks:
 * requests are tested until all are done, a notice of a failure has come, or the time is over. A
 * failure is sent to all ranks as a notice, for which each has a receive open. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MPI_MULTIPLE = 3,
    MPI_ALL_DONE = -32766, /* what Testsome gives where no request is open */
    ERROR_BYTES = 8192,
    CHUNK_BYTES = 1 << 30,
    NOTICE_BYTES = 640,
    SPINS = 50,
    LOOKS = 3, /* for a notice ahead of an operation: MPI moves messages while it is called */
    DRAIN_US = 2000000,
    SLEEP_NANOSECONDS = 50000
};
typedef enum Tag { TAG_WORD = 1, TAG_DATA, TAG_NOTICE } Tag;

typedef struct Calls {
#define MPI(name, parameters, arguments) int(*name) parameters;
#include "comm/mpi.def"
} Calls;

typedef struct Word { /* ahead of an operation's bytes */
    uint64_t doing, total;
} Word;

typedef struct Notice {
    int rank;
    uint64_t left; /* the rank ends well after so many operations; UINT64_MAX: a failure */
    char text[NOTICE_BYTES];
} Notice;

typedef struct Mpi {
    MpiHead head;
    struct Mpi *next; /* of those closed */
    Calls calls;
    Handle comm, byte, none; /* none: no request */
    int rank, size;
    double timeout_s;
    bool noticing;
    uint64_t operations, doing;
    Word *out, *in;
    uint64_t *left; /* by rank: after how many operations it ended; UINT64_MAX: it has not */
    Handle *requests, *types;
    int *indices;
    size_t request_count, request_capacity, index_capacity, type_count, type_capacity;
    Handle notice_request;
    Notice notice;
    char reason[NOTICE_BYTES]; /* once failed; written before */
    atomic_int failed;
    atomic_bool told; /* the others know of it */
} Mpi;

static ls_status call_failed(const Mpi *mpi, Error *error, const char *call, int code) {
    char text[ERROR_BYTES] = "";
    int length = 0;
    mpi->calls.Error_string(code, text, &length);
    return error_set(error, LS_ERROR_COMM, "%s failed: %.400s", call, text);
}
#define CHECK(mpi, error, name, ...)              \
    ((code = (mpi)->calls.name(__VA_ARGS__)) == 0 \
         ? LS_OK                                  \
         : call_failed((mpi), (error), "MPI_" #name, code))

/* ---- the failure, and notices of it ---- */

/* What is sent must stay: MPI may read it for as long as the process lives. */
static void tell_all(Mpi *mpi, uint64_t left, const char *text) {
    Notice *notice = calloc(1, sizeof *notice);
    if (!notice) return;
    notice->rank = mpi->rank;
    notice->left = left;
    snprintf(notice->text, sizeof notice->text, "%s", text);
    for (int rank = 0; rank < mpi->size; rank++) {
        Handle request = mpi->none;
        if (rank != mpi->rank && mpi->calls.Isend(notice, (int)sizeof *notice, mpi->byte, rank,
                                                  TAG_NOTICE, mpi->comm, &request) == 0)
            mpi->calls.Request_free(&request);
    }
}

/* The first failure keeps its words. */
static void keep_reason(Mpi *mpi, const char *text) {
    int fine = 0;
    if (!atomic_compare_exchange_strong(&mpi->failed, &fine, 1)) return;
    snprintf(mpi->reason, sizeof mpi->reason, "%s", text);
    atomic_store(&mpi->failed, 2);
    mpi_has_failed();
}

static ls_status check(void *state, Error *error) {
    const Mpi *mpi = state;
    if (atomic_load(&mpi->failed) != 2) return LS_OK;
    return error_set(error, LS_ERROR_COMM, "%s", mpi->reason);
}

/* Keeps the failure that is in `error`, and tells the others. */
static ls_status fail_all(Mpi *mpi, Error *error) {
    keep_reason(mpi, error->text);
    if (!atomic_exchange(&mpi->told, true)) tell_all(mpi, UINT64_MAX, mpi->reason);
    return check(mpi, error);
}

static ls_status open_notice(Mpi *mpi, Error *error) {
    int code;
    ls_status status = CHECK(mpi, error, Irecv, &mpi->notice, (int)sizeof mpi->notice, mpi->byte,
                             ANY_SOURCE, TAG_NOTICE, mpi->comm, &mpi->notice_request);
    mpi->noticing = status == LS_OK;
    return status;
}

/* Takes the notices that have come; a failure among them is everybody's. */
static ls_status take_notices(Mpi *mpi, Error *error) {
    while (mpi->noticing) {
        int done = 0, code;
        ls_status status = CHECK(mpi, error, Test, &mpi->notice_request, &done, NO_STATUS);
        if (status != LS_OK || !done) return status;
        mpi->noticing = false;
        if (mpi->notice.left == UINT64_MAX) {
            atomic_store(&mpi->told, true); /* who found it has told all */
            keep_reason(mpi, mpi->notice.text);
            return check(mpi, error);
        }
        mpi->left[mpi->notice.rank] = mpi->notice.left;
        status = open_notice(mpi, error);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

static void abort_all(void *state, const char *reason) {
    Mpi *mpi = state;
    char text[NOTICE_BYTES];
    snprintf(text, sizeof text, "rank %d aborted%s%.200s", mpi->rank, reason ? ": " : "",
             reason ? reason : "");
    keep_reason(mpi, text);
    if (mpi->head.any_thread && !atomic_exchange(&mpi->told, true))
        tell_all(mpi, UINT64_MAX, mpi->reason); /* else the next call does */
}

/* ---- requests ---- */

static ls_status new_request(Mpi *mpi, Error *error, Handle **request) {
    const size_t count = mpi->request_count + 1;
    if (!array_grow(&mpi->requests, &mpi->request_capacity, count, sizeof *mpi->requests) ||
        !array_grow(&mpi->indices, &mpi->index_capacity, count, sizeof *mpi->indices))
        return error_memory(error, "an operation");
    *request = &mpi->requests[mpi->request_count++];
    **request = mpi->none;
    return LS_OK;
}

/* Pieces as one type over addresses. */
static ls_status make_type(Mpi *mpi, Error *error, int count, const int *lengths,
                           const ptrdiff_t *places, Handle *type) {
    int code;
    if (!array_grow(&mpi->types, &mpi->type_capacity, mpi->type_count + 1, sizeof *mpi->types))
        return error_memory(error, "an operation");
    ls_status status =
        CHECK(mpi, error, Type_create_hindexed, count, lengths, places, mpi->byte, type);
    if (status != LS_OK) return status;
    mpi->types[mpi->type_count++] = *type;
    return CHECK(mpi, error, Type_commit, type);
}

typedef struct Blocks {
    int count;
    int *lengths;
    ptrdiff_t *places;
} Blocks;

/* The next message of a part: at most CHUNK_BYTES, so that both ends cut alike. */
static void next_blocks(Cursor *cursor, Blocks *blocks) {
    char *data = NULL;
    uint64_t left = CHUNK_BYTES, bytes;
    blocks->count = 0;
    while (left > 0 && (bytes = cursor_next(cursor, left, &data)) > 0) {
        blocks->lengths[blocks->count] = (int)bytes;
        blocks->places[blocks->count++] = (ptrdiff_t)(intptr_t)data;
        left -= bytes;
    }
}

static ls_status start_message(Mpi *mpi, Error *error, const Blocks *blocks, int rank, bool send) {
    Handle *request = NULL, type = mpi->byte;
    int code, count = blocks->lengths[0];
    char *data = (char *)(intptr_t)blocks->places[0];
    ls_status status = new_request(mpi, error, &request);
    if (status == LS_OK && blocks->count > 1) {
        status = make_type(mpi, error, blocks->count, blocks->lengths, blocks->places, &type);
        data = NULL; /* MPI_BOTTOM */
        count = 1;
    }
    if (status != LS_OK) return status;
    return send ? CHECK(mpi, error, Isend, data, count, type, rank, TAG_DATA, mpi->comm, request)
                : CHECK(mpi, error, Irecv, data, count, type, rank, TAG_DATA, mpi->comm, request);
}

static ls_status start_part(Mpi *mpi, Error *error, const ls_comm_part *part, int rank, bool send) {
    Cursor cursor = cursor_open(part);
    if (cursor.left == 0) return LS_OK;
    Blocks blocks = {.lengths = malloc(part->count * sizeof(int)),
                     .places = malloc(part->count * sizeof(ptrdiff_t))};
    ls_status status =
        blocks.lengths && blocks.places ? LS_OK : error_memory(error, "an operation");
    while (status == LS_OK && cursor.left > 0) {
        next_blocks(&cursor, &blocks);
        status = start_message(mpi, error, &blocks, rank, send);
    }
    free(blocks.lengths);
    free(blocks.places);
    return status;
}

/* Receives that are given up take nothing any more. */
static void drop_requests(Mpi *mpi, bool done) {
    for (size_t i = 0; i < mpi->request_count && !done; i++) {
        if (mpi->requests[i] == mpi->none) continue;
        mpi->calls.Cancel(&mpi->requests[i]);
        mpi->calls.Request_free(&mpi->requests[i]);
    }
    for (size_t i = 0; i < mpi->type_count; i++) mpi->calls.Type_free(&mpi->types[i]);
    mpi->request_count = mpi->type_count = 0;
}

/* ---- waiting ---- */

/* Those that have not said that they are in the operation. */
static ls_status timed_out(const Mpi *mpi, Error *error) {
    char who[NOTICE_BYTES / 2] = "";
    size_t used = 0;
    for (int rank = 0; rank < mpi->size && used < sizeof who - 8; rank++)
        if (rank != mpi->rank && mpi->in[rank].doing == 0)
            used += (size_t)snprintf(who + used, sizeof who - used, "%s%d", used ? ", " : "", rank);
    return error_set(error, LS_ERROR_COMM, "rank %d waited for %.3g s in %s: %s%s", mpi->rank,
                     mpi->timeout_s, transfer_describe(mpi->doing).text,
                     used ? "nothing came from rank " : "the bytes do not move", who);
}

static ls_status check_left(const Mpi *mpi, Error *error) {
    for (int rank = 0; rank < mpi->size; rank++)
        if (mpi->left[rank] < mpi->operations && mpi->in[rank].doing == 0)
            return error_set(error, LS_ERROR_COMM,
                             "rank %d called ls_comm_destroy after %llu operations while rank %d "
                             "was in %s",
                             rank, (unsigned long long)mpi->left[rank], mpi->rank,
                             transfer_describe(mpi->doing).text);
    return LS_OK;
}

static ls_status wait_all(Mpi *mpi, Error *error, double *waited_us) {
    double since = 0;
    int idle = 0;
    for (;;) {
        int done = 0, code;
        ls_status status = CHECK(mpi, error, Testsome, (int)mpi->request_count, mpi->requests,
                                 &done, mpi->indices, NO_STATUS);
        if (status == LS_OK && done == 0) status = take_notices(mpi, error);
        if (status == LS_OK && done == 0) status = check(mpi, error);
        if (status == LS_OK && done == 0) status = check_left(mpi, error);
        const double now = time_us();
        if (done != 0 && since > 0) {
            *waited_us += now - since;
            since = 0;
            idle = 0;
        }
        if (status != LS_OK || done == MPI_ALL_DONE) return status;
        if (done > 0) continue;
        if (since == 0) since = now;
        if (now - since > mpi->timeout_s * 1e6) return timed_out(mpi, error);
        if (++idle > SPINS) {
            const struct timespec little = {.tv_nsec = SLEEP_NANOSECONDS};
            nanosleep(&little, NULL);
        }
    }
}

/* ---- operations ---- */

static ls_status exchange_words(Mpi *mpi, Error *error, const Transfer *transfer,
                                double *waited_us) {
    ls_status status = LS_OK;
    int code;
    Handle *request;
    for (int rank = 0; rank < mpi->size && status == LS_OK; rank++) {
        mpi->in[rank] = (Word){0, 0};
        if (rank == mpi->rank) continue;
        mpi->out[rank] = (Word){mpi->doing, part_bytes(transfer_to(transfer, mpi->rank, rank))};
        status = new_request(mpi, error, &request);
        if (status == LS_OK)
            status = CHECK(mpi, error, Irecv, &mpi->in[rank], (int)sizeof(Word), mpi->byte, rank,
                           TAG_WORD, mpi->comm, request);
        if (status == LS_OK) status = new_request(mpi, error, &request);
        if (status == LS_OK)
            status = CHECK(mpi, error, Isend, &mpi->out[rank], (int)sizeof(Word), mpi->byte, rank,
                           TAG_WORD, mpi->comm, request);
    }
    if (status == LS_OK) status = wait_all(mpi, error, waited_us);
    drop_requests(mpi, status == LS_OK);
    return status;
}

static ls_status check_words(const Mpi *mpi, Error *error, const Transfer *transfer) {
    for (int rank = 0; rank < mpi->size; rank++) {
        const Word *word = &mpi->in[rank];
        if (rank == mpi->rank) continue;
        if (word->doing != mpi->doing)
            return error_set(error, LS_ERROR_COMM,
                             "the ranks call different operations: rank %d is in %s, rank %d in %s",
                             mpi->rank, transfer_describe(mpi->doing).text, rank,
                             transfer_describe(word->doing).text);
        const uint64_t wanted = part_bytes(transfer_from(transfer, mpi->rank, rank));
        if (word->total != wanted)
            return error_set(error, LS_ERROR_COMM,
                             "the ranks disagree about sizes: in %s, rank %d sends %llu bytes to "
                             "rank %d, which wants %llu",
                             transfer_describe(mpi->doing).text, rank,
                             (unsigned long long)word->total, mpi->rank,
                             (unsigned long long)wanted);
    }
    return LS_OK;
}

static ls_status exchange_bytes(Mpi *mpi, Error *error, const Transfer *transfer,
                                double *waited_us) {
    ls_status status = LS_OK;
    for (int step = 1; step < mpi->size && status == LS_OK; step++) {
        const int from = (mpi->rank + mpi->size - step) % mpi->size;
        status = start_part(mpi, error, transfer_from(transfer, mpi->rank, from), from, false);
    }
    for (int step = 1; step < mpi->size && status == LS_OK; step++) {
        const int to = (mpi->rank + step) % mpi->size;
        status = start_part(mpi, error, transfer_to(transfer, mpi->rank, to), to, true);
    }
    if (status == LS_OK) status = wait_all(mpi, error, waited_us);
    drop_requests(mpi, status == LS_OK);
    return status;
}

static ls_status run(void *state, const Transfer *transfer, Error *error, double *waited_us) {
    Mpi *mpi = state;
    ls_status status = check(mpi, error);
    mpi->doing = transfer_doing(++mpi->operations, transfer->kind, transfer->root);
    for (int look = 0; look < LOOKS && status == LS_OK; look++) status = take_notices(mpi, error);
    if (status == LS_OK) status = exchange_words(mpi, error, transfer, waited_us);
    if (status == LS_OK) status = check_words(mpi, error, transfer);
    if (status == LS_OK) status = exchange_bytes(mpi, error, transfer, waited_us);
    return status == LS_OK ? LS_OK : fail_all(mpi, error);
}

/* ---- life ---- */

static ls_status find_calls(void *library, Calls *calls, Error *error) {
    const struct {
        const char *name;
        void *call;
    } rows[] = {
#define MPI(name, parameters, arguments) {"MPI_" #name, &calls->name},
#include "comm/mpi.def"
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        void *address = dlsym(library, rows[i].name);
        if (!address)
            return error_set(error, LS_ERROR_UNSUPPORTED, "the MPI library has no %s",
                             rows[i].name);
        memcpy(rows[i].call, &address, sizeof address); /* ISO C has no cast for this */
    }
    return LS_OK;
}

static void free_state(Mpi *mpi) {
    if (mpi->noticing) {
        mpi->calls.Cancel(&mpi->notice_request);
        mpi->calls.Request_free(&mpi->notice_request);
    }
    free(mpi->out);
    free(mpi->in);
    free(mpi->left);
    free(mpi->requests);
    free(mpi->types);
    free(mpi->indices);
    free(mpi);
}

/* Those closed, until the process ends: what others send about the end of theirs is received, as
 * MPI_Finalize wants it. */
static _Atomic(Mpi *) closed;

static bool all_have_left(Mpi *mpi) {
    Error unused = {0};
    bool all = true;
    if (take_notices(mpi, &unused) != LS_OK) return true;
    for (int rank = 0; rank < mpi->size; rank++)
        all = all && (rank == mpi->rank || mpi->left[rank] != UINT64_MAX);
    return all;
}

static void finalize(void) {
    Mpi *mpi = atomic_load(&closed);
    int (*call)(void) = mpi ? mpi->calls.Finalize : NULL;
    const double until = time_us() + DRAIN_US;
    for (Mpi *next; mpi; mpi = next) {
        next = mpi->next;
        while (!all_have_left(mpi) && time_us() < until) continue;
        free_state(mpi);
    }
    if (call) call();
}

/* Operations may run on a thread of a driver's, and abort on any. */
static ls_status initialise(Mpi *mpi, Error *error) {
    int done = 0, over = 0, provided = 0, code;
    ls_status status = CHECK(mpi, error, Initialized, &done);
    if (status == LS_OK) status = CHECK(mpi, error, Finalized, &over);
    if (status == LS_OK && over)
        return error_set(error, LS_ERROR_STATE, "MPI_Finalize has been called in this process");
    if (status == LS_OK && !done) {
        status = CHECK(mpi, error, Init_thread, NULL, NULL, MPI_MULTIPLE, &provided);
        if (status == LS_OK) mpi_finalize_at_exit(finalize);
    } else if (status == LS_OK) {
        status = CHECK(mpi, error, Query_thread, &provided);
    }
    mpi->head.any_thread = provided == MPI_MULTIPLE;
    return status;
}

static ls_status join(Mpi *mpi, void *library, CommPlace *place, Error *error) {
    (void)library; /* handles that are numbers need none */
    Handle from = FIND_WORLD(library);
    int code;
    if (place->given) memcpy(&from, place->given, sizeof from);
    ls_status status = CHECK(mpi, error, Comm_dup, from, &mpi->comm);
    if (status == LS_OK)
        status = CHECK(mpi, error, Comm_set_errhandler, mpi->comm, FIND_ERRORS_RETURN(library));
    if (status == LS_OK) status = CHECK(mpi, error, Comm_rank, mpi->comm, &mpi->rank);
    if (status == LS_OK) status = CHECK(mpi, error, Comm_size, mpi->comm, &mpi->size);
    if (status == LS_OK && !place->given && (mpi->rank != place->rank || mpi->size != place->size))
        return error_set(error, LS_ERROR_COMM,
                         "%s says that this is rank %d of %d, not %d of %d: was it started by "
                         "another MPI's mpirun? LOCKSTEP_MPI names a library",
                         INTERFACE_NAME, mpi->rank, mpi->size, place->rank, place->size);
    place->rank = mpi->rank;
    place->size = mpi->size;
    return status;
}

static void close_state(void *state) {
    Mpi *mpi = state;
    const bool fine = mpi->size > 0 && !atomic_load(&mpi->failed);
    if (mpi->size > 1 && atomic_load(&mpi->failed) && !atomic_exchange(&mpi->told, true))
        tell_all(mpi, UINT64_MAX, mpi->reason);
    if (fine) tell_all(mpi, mpi->operations, "");
    if (!fine || !mpi_is_ours()) {
        free_state(mpi);
        return;
    }
    mpi->next = atomic_load(&closed);
    while (!atomic_compare_exchange_weak(&closed, &mpi->next, mpi)) continue;
}

static ls_status open_state(void *library, CommPlace *place, Error *error, void **state) {
    Mpi *mpi = calloc(1, sizeof *mpi);
    *state = NULL;
    if (!mpi) return error_memory(error, "ls_comm_create");
    mpi->head.interface = &INTERFACE;
    mpi->timeout_s = place->timeout_s;
    ls_status status = find_calls(library, &mpi->calls, error);
    if (status == LS_OK) status = initialise(mpi, error);
    mpi->byte = FIND_BYTE(library);
    mpi->none = FIND_NO_REQUEST(library);
    if (status == LS_OK) status = join(mpi, library, place, error);
    if (status == LS_OK) {
        const size_t size = (size_t)mpi->size;
        mpi->out = calloc(size, sizeof *mpi->out);
        mpi->in = calloc(size, sizeof *mpi->in);
        mpi->left = malloc(size * sizeof *mpi->left);
        if (!mpi->out || !mpi->in || !mpi->left) status = error_memory(error, "ls_comm_create");
        for (size_t rank = 0; mpi->left && rank < size; rank++) mpi->left[rank] = UINT64_MAX;
    }
    if (status == LS_OK) status = open_notice(mpi, error);
    if (status != LS_OK) {
        mpi->size = 0; /* nobody is told */
        close_state(mpi);
        return status;
    }
    *state = mpi;
    return LS_OK;
}

const MpiInterface INTERFACE = {
    .name = INTERFACE_NAME,
    .open = open_state,
    .run = run,
    .abort = abort_all,
    .check = check,
    .close = close_state,
};
