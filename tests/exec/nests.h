/* nests.h: a step's plan as plain nests, run on the host. */
#ifndef NESTS_H
#define NESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "ir/ir.h"

/* Plans the step, and for every way of the plan makes its kernels' nests and runs them on `data`,
 * which is as interpret() takes it and is put back to `inputs` before each way; after each
 * `compare` looks at it. `launches` times in a row. False after a message on stdout. Counts the
 * nests that ran in `ran` and the kernels that have no plain nest yet in `refused`; then the phases
 * one by one, those with a schedule by that, which `scheduled` counts. */
typedef struct NestsJob {
    const Function *function;
    const int64_t *const *sizes;
    void *const *data;
    const int64_t *first; /* two */
    int launches;
    bool transformed; /* too: each again behind the passes that apply to it */
    uint64_t seed;
    size_t share, turn; /* of schedules and units each `share`-th runs, whose turn it is; 0: all */
    void (*reset)(void *user);
    bool (*compare)(void *user, const char *way);
    void *user;
    struct NestsMade **made; /* of the step, NULL before the first run of it; in its memory */
    size_t ran, refused, scheduled, unscheduled;
    size_t rows, not_rows, ran_rows; /* kernels of rows in registers; and runs of them */
} NestsJob;
bool nests_run(NestsJob *job);

#endif
