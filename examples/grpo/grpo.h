/* grpo.h: the parts of the fruit catcher's trainer, a file each. */
#ifndef GRPO_H
#define GRPO_H

#include "../common/common.h"

#include <lockstep/lockstep.h>

enum { GROUP = 16, FRUITS = 3, INPUTS = 5, HIDDEN = 32, ACTIONS = 3, PLACES = 16 };
enum { TENSORS = 4 }; /* of the policy */

/* options.c: the command line */
typedef struct Options {
    long environments, ticks, iterations, micro, updates, reference, report, seed;
    double rate, decay, clip, kl_weight, entropy_weight, most;
    const char *device, *curve;
} Options;
/* 0: go on; -1: help was printed; WRONG_ARGUMENTS after a message. */
int options_read(Options *options, int count, char **arguments);

/* trainer.c: the device, its memory, the steps and the graph of an iteration */
typedef struct Metrics { /* the rank-0 values of the steps, side by side on the device */
    int64_t episode;
    int64_t caught, reachable; /* these and the sums are since the host last looked */
    float reward_sum, loss, entropy, kl, clipped, norm_sum;
    int32_t count; /* updates so far */
    bool nan_seen;
} Metrics;

enum { STEPS_MAX = 1024 };
typedef struct Trainer {
    const Options *options;
    ls_context *context;
    ls_program *program;
    ls_step *steps[STEPS_MAX]; /* those of the graph, in their order */
    size_t step_count;
    ls_graph *graph;
    void *arrays[32]; /* by row of the table of arrays */
    Metrics *metrics; /* on the device */
} Trainer;
/* On the device that the options name, or on the best one that can do it; says which. */
bool trainer_open(Trainer *trainer, const Options *options);
/* Runs so many iterations with one call, and gives what they measured. */
bool trainer_run(Trainer *trainer, uint64_t iterations, Metrics *metrics);
void trainer_close(Trainer *trainer);

/* curve.c: what was measured, and its picture */
typedef struct Point {
    double iteration, caught, reward; /* caught: a share of what can be */
} Point;
typedef struct Curve {
    Point *points;
    size_t count, capacity;
} Curve;
bool curve_add(Curve *curve, Point point);
bool curve_write(const Curve *curve, const char *path);
void curve_close(Curve *curve);

#endif
