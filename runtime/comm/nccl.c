/* nccl.c: the engines "nccl" and "rccl": sends and receives of the vendor's library, in the order
 * of a stream, so that nothing goes through the host and graphs hold them.
 *
 * A rank that dies keeps the others' kernels waiting for ever: a thread looks at the operations
 * under way, and when one is not through in time, or the library reports an error, it aborts the
 * communicator, which ends the kernels. Operations in graphs are not timed. */
#include "runtime.h"
#include "comm/comm.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct NcclId {
    char internal[128];
} NcclId;
typedef struct ncclComm *NcclComm;
typedef int NcclResult;
typedef int NcclType;
enum { NCCL_BYTES = 1, NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { WATCHED = 64, LOOK_MS = 20, REASON_BYTES = 640 };

typedef struct NcclCalls {
#define NCCL(type, name, parameters, arguments) type(*name) parameters;
#include "comm/nccl.def"
} NcclCalls;

typedef struct Watched { /* an operation under way */
    void *event;         /* behind it; NULL: it is being queued */
    double since_us;
    uint64_t doing;
} Watched;

typedef struct Nccl {
    NcclCalls calls;
    ls_context *context;
    NcclComm comm;
    bool given; /* it is the trainer's */
    int rank, size;
    double timeout_s;
    uint64_t operations;
    char *scratch; /* device memory, two bytes for each rank: of barriers */
    pthread_t thread;
    bool watching;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t change;
    bool closing;
    Watched watched[WATCHED]; /* the oldest first */
    size_t watched_count;
    Watched queueing;          /* since_us 0: nothing is */
    void *events[2 * WATCHED]; /* to be used again */
    size_t event_count;
    atomic_int failed; /* 1: being written, 2: `reason` is there */
    char reason[REASON_BYTES];
} Nccl;

/* ---- the libraries ---- */

typedef struct Vendors {
    const char *engine, *driver, *libraries[2];
} Vendors;
static const Vendors vendors[] = {{"nccl", "cuda", {"libnccl.so.2", "libnccl.so"}},
                                  {"rccl", "hip", {"librccl.so.1", "librccl.so"}}};

static ls_status find_calls(void *library, NcclCalls *calls, Error *error) {
    const struct {
        const char *name;
        void *call;
    } rows[] = {
#define NCCL(type, name, parameters, arguments) {"nccl" #name, &calls->name},
#include "comm/nccl.def"
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        void *address = dlsym(library, rows[i].name);
        if (!address)
            return error_set(error, LS_ERROR_UNSUPPORTED, "the library has no %s", rows[i].name);
        memcpy(rows[i].call, &address, sizeof address); /* ISO C has no cast for this */
    }
    return LS_OK;
}

/* It stays loaded. */
static ls_status load(const Vendors *vendor, NcclCalls *calls, Error *error) {
    const char *path = host_environment(VARIABLE_LOCKSTEP_NCCL);
    void *library = NULL;
    if (path && *path) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return error_set(error, LS_ERROR_UNSUPPORTED, "LOCKSTEP_NCCL: %.400s", dlerror());
    }
    for (size_t i = 0; i < COUNT(vendor->libraries) && !library; i++)
        library = dlopen(vendor->libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (library) return find_calls(library, calls, error);
    return error_set(error, LS_ERROR_UNSUPPORTED,
                     "%s was not found: install it, or name the file by LOCKSTEP_NCCL; engines shm "
                     "and mpi need none",
                     vendor->libraries[0]);
}

static ls_status make_id(const Vendors *vendor, ls_comm_id *id, Error *error) {
    NcclCalls calls;
    NcclId made;
    ls_status status = load(vendor, &calls, error);
    if (status != LS_OK) return status;
    const int code = calls.GetUniqueId(&made);
    if (code != NCCL_SUCCESS)
        return error_set(error, LS_ERROR_COMM, "ncclGetUniqueId failed: %.400s",
                         calls.GetErrorString(code));
    memcpy(id->bytes, made.internal, sizeof id->bytes);
    return LS_OK;
}

static ls_status make_nccl_id(ls_comm_id *id, Error *error) {
    return make_id(&vendors[0], id, error);
}

static ls_status make_rccl_id(ls_comm_id *id, Error *error) {
    return make_id(&vendors[1], id, error);
}

/* ---- failure ---- */

/* The first failure keeps its words, and ends the kernels under way. */
static void fail(Nccl *nccl, const char *reason) {
    int fine = 0;
    if (!atomic_compare_exchange_strong(&nccl->failed, &fine, 1)) return;
    snprintf(nccl->reason, sizeof nccl->reason, "%s", reason);
    atomic_store(&nccl->failed, 2);
    if (nccl->comm) nccl->calls.CommAbort(nccl->comm);
}

/* What happened on the device, the library tells when it is asked. */
static void ask_library(Nccl *nccl) {
    char reason[REASON_BYTES];
    NcclResult code = NCCL_SUCCESS;
    if (!nccl->comm || atomic_load(&nccl->failed) != 0) return;
    const int asked = nccl->calls.CommGetAsyncError(nccl->comm, &code);
    if (asked != NCCL_SUCCESS) code = asked;
    if (code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS) return;
    snprintf(reason, REASON_BYTES, "rank %d: the library reports: %.300s", nccl->rank,
             nccl->calls.GetErrorString(code));
    fail(nccl, reason);
}

static ls_status check(void *state, Error *error) {
    Nccl *nccl = state;
    ask_library(nccl);
    if (atomic_load(&nccl->failed) != 2) return LS_OK;
    return error_set(error, LS_ERROR_COMM, "%s", nccl->reason);
}

static ls_status call_failed(Nccl *nccl, Error *error, const char *call, int code) {
    char reason[REASON_BYTES];
    snprintf(reason, sizeof reason, "rank %d: %s failed in %s: %.300s", nccl->rank, call,
             transfer_describe(nccl->queueing.doing).text, nccl->calls.GetErrorString(code));
    fail(nccl, reason);
    return check(nccl, error);
}

static void abort_all(void *state, const char *reason) {
    Nccl *nccl = state;
    char text[REASON_BYTES];
    snprintf(text, sizeof text, "rank %d aborted%s%.200s", nccl->rank, reason ? ": " : "",
             reason ? reason : "");
    fail(nccl, text);
}

/* ---- the watch ---- */

static void *spare_event(Nccl *nccl) {
    void *event = NULL;
    pthread_mutex_lock(&nccl->lock);
    if (nccl->event_count > 0) event = nccl->events[--nccl->event_count];
    pthread_mutex_unlock(&nccl->lock);
    return event;
}

static void drop_done(Nccl *nccl) {
    const ls_context *context = nccl->context;
    while (nccl->watched_count > 0 &&
           context->driver->event_done(context->device, nccl->watched[0].event)) {
        nccl->events[nccl->event_count++] = nccl->watched[0].event;
        nccl->watched_count--;
        memmove(nccl->watched, nccl->watched + 1, nccl->watched_count * sizeof *nccl->watched);
    }
}

/* With the lock: an operation that is not through in time. */
static void look_at_time(Nccl *nccl) {
    char reason[REASON_BYTES];
    const double before = time_us() - nccl->timeout_s * 1e6;
    if (nccl->watched_count > 0 && nccl->watched[0].since_us < before) drop_done(nccl);
    const Watched *oldest = nccl->watched_count           ? &nccl->watched[0]
                            : nccl->queueing.since_us > 0 ? &nccl->queueing
                                                          : NULL;
    if (!oldest || oldest->since_us >= before) return;
    snprintf(reason, REASON_BYTES, "rank %d waited for %.3g s in %s: a rank did not come",
             nccl->rank, nccl->timeout_s, transfer_describe(oldest->doing).text);
    fail(nccl, reason);
}

static void *watch(void *argument) {
    Nccl *nccl = argument;
    pthread_mutex_lock(&nccl->lock);
    while (!nccl->closing && atomic_load(&nccl->failed) == 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&nccl->change, &nccl->lock, &until);
        if (nccl->closing || atomic_load(&nccl->failed) != 0) break;
        ask_library(nccl);
        look_at_time(nccl);
    }
    pthread_mutex_unlock(&nccl->lock);
    return NULL;
}

static void begin(Nccl *nccl, uint64_t doing) {
    pthread_mutex_lock(&nccl->lock);
    nccl->queueing = (Watched){NULL, time_us(), doing};
    pthread_mutex_unlock(&nccl->lock);
}

/* What is queued counts from now; where many are under way the older ones are watched. */
static ls_status end(Nccl *nccl, void *stream, bool captured) {
    const ls_context *context = nccl->context;
    ls_status status = LS_OK;
    const Watched queued = nccl->queueing;
    void *event = captured ? NULL : spare_event(nccl);
    if (!captured && !event) status = context->driver->event_create(context->device, false, &event);
    if (event && status == LS_OK)
        status = context->driver->stream_record(context->device, stream, event);
    pthread_mutex_lock(&nccl->lock);
    nccl->queueing.since_us = 0;
    if (nccl->watched_count == WATCHED) drop_done(nccl);
    if (event && status == LS_OK && nccl->watched_count < WATCHED)
        nccl->watched[nccl->watched_count++] = (Watched){event, time_us(), queued.doing};
    else if (event && nccl->event_count < WATCHED)
        nccl->events[nccl->event_count++] = event;
    else if (event)
        context->driver->event_destroy(context->device, event);
    pthread_mutex_unlock(&nccl->lock);
    return status;
}

/* ---- operations ---- */

typedef struct Queue {
    Nccl *nccl;
    void *stream;
    const Transfer *transfer;
    Error *error;
} Queue;

static int queue_part(const Queue *q, const ls_comm_part *part, int peer, bool send) {
    const Nccl *nccl = q->nccl;
    if (part_bytes(part) == 0) return NCCL_SUCCESS;
    const ls_comm_piece *piece = part->pieces; /* parts come in one piece */
    return send ? nccl->calls.Send(piece->data, (size_t)piece->bytes, NCCL_BYTES, peer, nccl->comm,
                                   q->stream)
                : nccl->calls.Recv(piece->data, (size_t)piece->bytes, NCCL_BYTES, peer, nccl->comm,
                                   q->stream);
}

/* A byte from everyone to everyone. */
static ls_comm_part scratch_part(const Nccl *nccl, int peer, bool send, ls_comm_piece *piece) {
    *piece = (ls_comm_piece){nccl->scratch + 2 * peer + send, 1};
    return (ls_comm_part){piece, 1};
}

static ls_status queue_all(void *argument) {
    const Queue *q = argument;
    Nccl *nccl = q->nccl;
    const bool barrier = q->transfer->kind == TRANSFER_BARRIER;
    int code = nccl->calls.GroupStart();
    if (code != NCCL_SUCCESS) return call_failed(nccl, q->error, "ncclGroupStart", code);
    const char *call = "ncclSend";
    for (int step = 1; step < 2 * nccl->size && code == NCCL_SUCCESS; step++) {
        const bool send = step < nccl->size;
        const int peer = (nccl->rank + step) % nccl->size;
        ls_comm_piece piece;
        ls_comm_part scratch = scratch_part(nccl, peer, send, &piece);
        const ls_comm_part *part = barrier ? &scratch
                                   : send  ? transfer_to(q->transfer, nccl->rank, peer)
                                           : transfer_from(q->transfer, nccl->rank, peer);
        if (peer == nccl->rank) continue;
        call = send ? "ncclSend" : "ncclRecv";
        code = queue_part(q, part, peer, send);
    }
    const int ended = nccl->calls.GroupEnd(); /* of a group with a failure, too */
    if (code != NCCL_SUCCESS) return call_failed(nccl, q->error, call, code);
    if (ended != NCCL_SUCCESS && ended != NCCL_IN_PROGRESS)
        return call_failed(nccl, q->error, "ncclGroupEnd", ended);
    return LS_OK;
}

static ls_status queue(void *state, const Transfer *transfer, void *stream, bool captured,
                       Error *error) {
    Nccl *nccl = state;
    const ls_context *context = nccl->context;
    Queue all = {nccl, stream, transfer, error};
    if (!stream) all.stream = context->driver->stream(context->device);
    ls_status status = check(nccl, error);
    if (status != LS_OK) return status;
    begin(nccl, transfer_doing(++nccl->operations, transfer->kind, transfer->root));
    status = check(nccl, error); /* the watch may have aborted meanwhile */
    if (status != LS_OK) {
        end(nccl, stream, captured);
        return status;
    }
    status = context->driver->with_device(context->device, queue_all, &all);
    if (status != LS_OK && !error->text[0]) error_set(error, status, "%s", context->error.text);
    const ls_status ended = end(nccl, stream, captured);
    if (status == LS_OK && ended != LS_OK)
        return error_set(error, ended, "%.4000s", context->error.text);
    return status;
}

/* ---- life ---- */

/* An id of another engine's: rank 0 makes one of the library's and hands it over by that engine. */
static ls_status hand_over_id(Nccl *nccl, const CommPlace *place, NcclId *id, Error *error) {
    const bool here = place->local_size == 0 || place->local_size == place->size;
    const CommEngine *engine = here ? &engine_shm : &engine_mpi;
    CommPlace own = *place;
    void *state = NULL;
    double waited_us = 0;
    const ls_comm_piece piece = {id, sizeof *id};
    const ls_comm_part part = {&piece, 1};
    Transfer transfer = {.kind = TRANSFER_BROADCAST};
    ls_status status = engine->open(&own, error, &state);
    if (status != LS_OK) return status;
    const int code = place->rank == 0 ? nccl->calls.GetUniqueId(id) : NCCL_SUCCESS;
    if (code != NCCL_SUCCESS) {
        error_set(error, LS_ERROR_COMM, "ncclGetUniqueId failed: %.300s",
                  nccl->calls.GetErrorString(code));
        engine->abort(state, error->text);
        engine->close(state);
        return LS_ERROR_COMM;
    }
    *(place->rank == 0 ? &transfer.send : &transfer.receive) = &part;
    status = engine->run(state, &transfer, error, &waited_us);
    if (status == LS_OK)
        status = engine->run(state, &(Transfer){.kind = TRANSFER_BARRIER}, error, &waited_us);
    engine->close(state);
    return status;
}

static bool is_ours(const ls_comm_id *id) {
    return strncmp(id->bytes, "lockstep ", 9) == 0 || strncmp(id->bytes, "run ", 4) == 0;
}

typedef struct Join {
    Nccl *nccl;
    CommPlace *place;
    NcclId id;
    Error *error;
} Join;

static ls_status join_failed(const Join *j, const char *call, int code) {
    return error_set(j->error, LS_ERROR_COMM, "%s failed: %.400s", call,
                     j->nccl->calls.GetErrorString(code));
}

static ls_status join(void *argument) {
    const Join *j = argument;
    Nccl *nccl = j->nccl;
    int code;
    if (!j->place->given) {
        code = nccl->calls.CommInitRank(&nccl->comm, j->place->size, j->id, j->place->rank);
        if (code != NCCL_SUCCESS) nccl->comm = NULL;
        if (code != NCCL_SUCCESS) return join_failed(j, "ncclCommInitRank", code);
    } else {
        memcpy(&nccl->comm, j->place->given, sizeof nccl->comm);
    }
    code = nccl->calls.CommCount(nccl->comm, &nccl->size);
    if (code != NCCL_SUCCESS) return join_failed(j, "ncclCommCount", code);
    code = nccl->calls.CommUserRank(nccl->comm, &nccl->rank);
    return code == NCCL_SUCCESS ? LS_OK : join_failed(j, "ncclCommUserRank", code);
}

static ls_status leave(void *argument) {
    Nccl *nccl = argument;
    if (nccl->comm && !nccl->given && atomic_load(&nccl->failed) == 0)
        nccl->calls.CommDestroy(nccl->comm);
    return LS_OK;
}

static void close_nccl(void *state) {
    Nccl *nccl = state;
    const ls_context *context = nccl->context;
    pthread_mutex_lock(&nccl->lock);
    nccl->closing = true;
    pthread_cond_signal(&nccl->change);
    pthread_mutex_unlock(&nccl->lock);
    if (nccl->watching) pthread_join(nccl->thread, NULL);
    context->driver->with_device(context->device, leave, nccl);
    for (size_t i = 0; i < nccl->watched_count; i++)
        context->driver->event_destroy(context->device, nccl->watched[i].event);
    for (size_t i = 0; i < nccl->event_count; i++)
        context->driver->event_destroy(context->device, nccl->events[i]);
    memory_free(nccl->context, nccl->scratch);
    pthread_mutex_destroy(&nccl->lock);
    pthread_cond_destroy(&nccl->change);
    free(nccl);
}

static ls_status open_joined(Nccl *nccl, const Vendors *vendor, CommPlace *place, Error *error) {
    const ls_context *context = nccl->context;
    Join all = {.nccl = nccl, .place = place, .error = error};
    ls_status status = load(vendor, &nccl->calls, error);
    if (status == LS_OK && !place->given) {
        const bool ours = !place->id || is_ours(place->id); /* one rank may come without */
        if (place->id) memcpy(&all.id, place->id, sizeof all.id);
        if (place->size > 1 && ours)
            status = hand_over_id(nccl, place, &all.id, error);
        else if (ours && nccl->calls.GetUniqueId(&all.id) != NCCL_SUCCESS)
            status = error_set(error, LS_ERROR_COMM, "ncclGetUniqueId failed");
    }
    if (status == LS_OK) status = context->driver->with_device(context->device, join, &all);
    if (status != LS_OK) return status;
    place->rank = nccl->rank;
    place->size = nccl->size;
    const size_t bytes = 2 * (size_t)nccl->size;
    status = memory_allocate_for(nccl->context, "ls_comm_create", "ls_comm: barriers", bytes,
                                 (void **)&nccl->scratch);
    if (status == LS_OK && thread_start(&nccl->thread, watch, nccl) != 0)
        status = error_memory(error, "ls_comm_create");
    nccl->watching = status == LS_OK;
    if (status != LS_OK && !error->text[0]) error_set(error, status, "%s", context->error.text);
    return status;
}

static ls_status open_nccl(const Vendors *vendor, CommPlace *place, Error *error, void **state) {
    *state = NULL;
    if (strcmp(place->context->driver->name, vendor->driver) != 0)
        return error_set(error, LS_ERROR_UNSUPPORTED,
                         "it moves the memory of %s devices, and this context's is %s",
                         vendor->driver, place->context->device->name);
    Nccl *nccl = calloc(1, sizeof *nccl);
    if (!nccl) return error_memory(error, "ls_comm_create");
    nccl->context = place->context;
    nccl->timeout_s = place->timeout_s;
    nccl->given = place->given != NULL;
    pthread_mutex_init(&nccl->lock, NULL);
    pthread_cond_init(&nccl->change, NULL);
    ls_status status = open_joined(nccl, vendor, place, error);
    if (status == LS_OK)
        *state = nccl;
    else
        close_nccl(nccl);
    return status;
}

static ls_status open_on_cuda(CommPlace *place, Error *error, void **state) {
    return open_nccl(&vendors[0], place, error, state);
}

static ls_status open_on_hip(CommPlace *place, Error *error, void **state) {
    return open_nccl(&vendors[1], place, error, state);
}

const CommEngine engine_nccl = {
    .name = "nccl",
    .most = 1 << 20,
    .takes = true,
    .make_id = make_nccl_id,
    .open = open_on_cuda,
    .queue = queue,
    .abort = abort_all,
    .check = check,
    .close = close_nccl,
};
const CommEngine engine_rccl = {
    .name = "rccl",
    .most = 1 << 20,
    .takes = true,
    .make_id = make_rccl_id,
    .open = open_on_hip,
    .queue = queue,
    .abort = abort_all,
    .check = check,
    .close = close_nccl,
};
