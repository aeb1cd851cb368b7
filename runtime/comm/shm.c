/* shm.c: the engine "shm": ranks of one machine, processes or threads, by shared memory. */
#include "runtime.h"
#include "comm/shm.h"

#include <stdlib.h>
#include <unistd.h>

static void shm_close(void *state) {
    Shm *shm = state;
    if (shm->header) {
        atomic_store(&shm->header->ranks[shm->rank].state, SHM_LEFT);
        for (int rank = 0; rank < shm->size; rank++)
            if (rank != shm->rank) shm_ring(shm, rank);
    }
    for (int rank = 0; rank < shm->size && shm->lives; rank++)
        if (shm->lives[rank] >= 0) close(shm->lives[rank]);
    shm_unmap(shm->map);
    free(shm->lives);
    free(shm->taken);
    free(shm->out);
    free(shm->in);
    free(shm->done);
    free(shm);
}

static ls_status shm_open(CommPlace *place, Error *error, void **state) {
    const size_t size = (size_t)place->size;
    *state = NULL;
    Shm *shm = calloc(1, sizeof *shm);
    if (!shm) return error_memory(error, "ls_comm_create");
    *shm = (Shm){.rank = place->rank,
                 .size = place->size,
                 .timeout_s = place->timeout_s,
                 .lives = malloc(size * sizeof *shm->lives),
                 .taken = calloc(size, sizeof *shm->taken),
                 .out = calloc(size, sizeof *shm->out),
                 .in = calloc(size, sizeof *shm->in),
                 .done = calloc(size, sizeof *shm->done)};
    for (size_t rank = 0; rank < size && shm->lives; rank++) shm->lives[rank] = -1;
    ls_status status = shm->lives && shm->taken && shm->out && shm->in && shm->done
                           ? shm_join(shm, place, error)
                           : error_memory(error, "ls_comm_create");
    if (status != LS_OK) {
        shm_close(shm);
        return status;
    }
    atomic_store(&shm->header->ranks[shm->rank].state, SHM_JOINED);
    *state = shm;
    return LS_OK;
}

static void shm_abort(void *state, const char *reason) {
    Shm *shm = state;
    Error unused = {0};
    shm_fail(shm, &unused, "rank %d (process %d) aborted%s%.200s", shm->rank, (int)getpid(),
             reason ? ": " : "", reason ? reason : "");
}

static ls_status shm_check(void *state, Error *error) {
    return shm_failed(state, error);
}

const CommEngine engine_shm = {
    .name = "shm",
    .most = SHM_RANKS,
    .open = shm_open,
    .run = shm_run,
    .abort = shm_abort,
    .check = shm_check,
    .close = shm_close,
};
