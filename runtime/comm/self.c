/* self.c: the engine of one rank, which has nobody to send to. */
#include "runtime.h"
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Self {
    atomic_bool aborted;
    char reason[256];
} Self;

static ls_status self_open(CommPlace *place, Error *error, void **state) {
    (void)place;
    *state = calloc(1, sizeof(Self));
    return *state ? LS_OK : error_memory(error, "ls_comm_create");
}

static ls_status self_check(void *state, Error *error) {
    Self *self = state;
    if (!atomic_load(&self->aborted)) return LS_OK;
    return error_set(error, LS_ERROR_COMM, "rank 0 aborted%s", self->reason);
}

static ls_status self_run(void *state, const Transfer *transfer, Error *error, double *waited_us) {
    (void)transfer, (void)waited_us;
    return self_check(state, error);
}

static void self_abort(void *state, const char *reason) {
    Self *self = state;
    if (atomic_load(&self->aborted)) return;
    snprintf(self->reason, sizeof self->reason, "%s%.200s", reason ? ": " : "",
             reason ? reason : "");
    atomic_store(&self->aborted, true);
}

const CommEngine engine_self = {
    .name = "self",
    .most = 1,
    .open = self_open,
    .run = self_run,
    .abort = self_abort,
    .check = self_check,
    .close = free,
};
