/* stand_in_nccl.c: NCCL and RCCL for devices that stand in, whose memory is the host's: the calls
 * of comm/nccl.def over the runtime's own shared memory, as work of the stream that the driver's
 * host functions put in order and into graphs. Built twice, with STAND_IN_CUDA and STAND_IN_HIP.
 *
 * STAND_IN_NCCL_FAIL=ncclSend makes the first call of that name fail;
 * STAND_IN_NCCL_HANG=ncclGroupEnd makes such a call wait until the communicator is aborted, as
 * where a rank does not come. STAND_IN_NCCL_TIMEOUT=1 is the seconds that ranks wait; 60 else. */
#include "runtime.h"
#include "comm/comm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef STAND_IN_CUDA
static const char driver[] = "LOCKSTEP_CUDA", launch_call[] = "cuLaunchHostFunc";
#else
static const char driver[] = "LOCKSTEP_HIP", launch_call[] = "hipLaunchHostFunc";
#endif
enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, PARTS = 64 };

typedef struct NcclId {
    char internal[128];
} NcclId;
typedef struct ncclComm *NcclComm;
typedef int NcclResult;
typedef int NcclType;

typedef struct Job { /* a group's sends and receives */
    struct Job *next;
    NcclComm comm;
    ls_comm_piece pieces[2][PARTS];
    ls_comm_part parts[2][PARTS]; /* of sends, of receives, by rank */
} Job;

struct ncclComm {
    void *state;
    int rank, size;
    int (*launch)(void *stream, void (*function)(void *), void *argument);
    Job *jobs; /* graphs may hold them as long as the communicator is there */
    atomic_int error;
};

static _Thread_local Job *group;
static _Thread_local void *group_stream;
static _Thread_local int depth;

#define NCCL(type, name, parameters, arguments) type nccl##name parameters;
#include "comm/nccl.def"

static bool is_to_fail(const char *call) {
    static atomic_bool done;
    const char *wanted = getenv("STAND_IN_NCCL_FAIL");
    return wanted && strcmp(wanted, call) == 0 && !atomic_exchange(&done, true);
}
#define FAIL_WHERE_ASKED() \
    if (is_to_fail(__func__)) return SYSTEM_ERROR

const char *ncclGetErrorString(NcclResult error) {
    return error == SYSTEM_ERROR   ? "unhandled system error (of the stand-in)"
           : error == REMOTE_ERROR ? "remote process exited or there was a network error"
                                   : "an error of the stand-in";
}

int ncclGetUniqueId(NcclId *id) {
    ls_comm_id made;
    FAIL_WHERE_ASKED();
    if (ls_comm_id_create("shm", &made) != LS_OK) return SYSTEM_ERROR;
    snprintf(id->internal, sizeof id->internal, "nccl%.120s", made.bytes);
    return 0;
}

int ncclCommInitRank(NcclComm *comm, int size, NcclId id, int rank) {
    FAIL_WHERE_ASKED();
    const char *path = getenv(driver);
    void *library = dlopen(path ? path : "", RTLD_NOW | RTLD_NOLOAD), *call = NULL;
    if (library) call = dlsym(library, launch_call);
    if (!call || size > PARTS) return SYSTEM_ERROR;
    NcclComm made = calloc(1, sizeof *made);
    Error error = {0};
    const char *timeout = getenv("STAND_IN_NCCL_TIMEOUT");
    CommPlace place = {.rank = rank,
                       .size = size,
                       .id = (const ls_comm_id *)&id,
                       .timeout_s = timeout ? atof(timeout) : 60};
    if (!made) return SYSTEM_ERROR;
    made->rank = rank;
    made->size = size;
    memcpy(&made->launch, &call, sizeof call);
    if (engine_shm.open(&place, &error, &made->state) != LS_OK) {
        free(made);
        return SYSTEM_ERROR;
    }
    *comm = made;
    return 0;
}

static void free_comm(NcclComm comm) {
    engine_shm.close(comm->state);
    while (comm->jobs) {
        Job *job = comm->jobs;
        comm->jobs = job->next;
        free(job);
    }
    free(comm);
}

int ncclCommDestroy(NcclComm comm) {
    free_comm(comm);
    FAIL_WHERE_ASKED();
    return 0;
}

/* Ends what waits; who waits still has the communicator. */
int ncclCommAbort(NcclComm comm) {
    engine_shm.abort(comm->state, NULL);
    atomic_store(&comm->error, REMOTE_ERROR);
    return 0;
}

int ncclCommGetAsyncError(NcclComm comm, NcclResult *error) {
    FAIL_WHERE_ASKED();
    *error = atomic_load(&comm->error);
    return 0;
}

int ncclCommCount(NcclComm comm, int *count) {
    FAIL_WHERE_ASKED();
    *count = comm->size;
    return 0;
}

int ncclCommUserRank(NcclComm comm, int *rank) {
    FAIL_WHERE_ASKED();
    *rank = comm->rank;
    return 0;
}

int ncclGroupStart(void) {
    FAIL_WHERE_ASKED();
    depth++;
    return 0;
}

static void run_job(void *argument) {
    const Job *job = argument;
    Error error = {0};
    double waited_us = 0;
    const Transfer transfer = {
        .kind = TRANSFER_ALL_TO_ALL, .send = job->parts[0], .receive = job->parts[1]};
    if (engine_shm.run(job->comm->state, &transfer, &error, &waited_us) != LS_OK)
        atomic_store(&job->comm->error, REMOTE_ERROR);
}

int ncclGroupEnd(void) {
    Job *job = group;
    group = NULL;
    if (depth == 0) return INVALID_USAGE;
    depth--;
    if (!job) {
        FAIL_WHERE_ASKED();
        return 0;
    }
    job->next = job->comm->jobs;
    job->comm->jobs = job;
    while (getenv("STAND_IN_NCCL_HANG") && atomic_load(&job->comm->error) == 0) usleep(1000);
    if (atomic_load(&job->comm->error)) return REMOTE_ERROR;
    FAIL_WHERE_ASKED();
    return job->comm->launch(group_stream, run_job, job) ? SYSTEM_ERROR : 0;
}

static int add(const void *data, size_t count, NcclType type, int peer, NcclComm comm, void *stream,
               bool receive) {
    if (depth == 0 || type != 1 || peer < 0 || peer >= comm->size || peer == comm->rank)
        return INVALID_ARGUMENT;
    if (!group) group = calloc(1, sizeof *group);
    if (!group) return SYSTEM_ERROR;
    ls_comm_part *part = &group->parts[receive][peer];
    if (part->count > 0) return INVALID_USAGE; /* our engine sends a part at once */
    group->comm = comm;
    group_stream = stream;
    group->pieces[receive][peer] = (ls_comm_piece){(void *)(uintptr_t)data, count};
    *part = (ls_comm_part){&group->pieces[receive][peer], 1};
    return 0;
}

int ncclSend(const void *data, size_t count, NcclType type, int peer, NcclComm comm, void *stream) {
    FAIL_WHERE_ASKED();
    return add(data, count, type, peer, comm, stream, false);
}

int ncclRecv(void *data, size_t count, NcclType type, int peer, NcclComm comm, void *stream) {
    FAIL_WHERE_ASKED();
    return add(data, count, type, peer, comm, stream, true);
}
