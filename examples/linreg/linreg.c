/* linreg.c: trains a linear model with the classic minibatch loop, on the device from end to end.
 *
 * linreg.step holds the whole training step: forward, gradient, update and metrics are one launch.
 * Each minibatch has its own ls_step bound to its rows, all of them share the weights and the
 * metrics, and each is captured once into a graph. A training step is then one ls_graph_launch; the
 * host copies the metrics back every 50 steps and otherwise never waits. */
#include "data.h"

#include <lockstep/lockstep.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 10000, FEATURES = 64, BATCH = 256, BATCHES = (SAMPLES + BATCH - 1) / BATCH };
enum { LOOK_EVERY = 50 };

/* The rank-0 values of the step, side by side on the device: a look at them is one small copy. */
typedef struct Metrics {
    int64_t seen;
    float loss_sum, bias;
    bool nan_seen;
} Metrics;

typedef struct Trainer {
    ls_context *context;
    ls_program *program;
    ls_step *steps[BATCHES];
    ls_graph *graphs[BATCHES];
    float *x, *y, *w; /* device memory */
    Metrics *metrics; /* device memory */
} Trainer;

static bool done(const Trainer *trainer, ls_status status, const char *what) {
    if (status == LS_OK) return true;
    fprintf(stderr, "linreg: %s: %s\n", what, ls_error_message(trainer->context));
    return false;
}

static bool upload(Trainer *trainer, void **device, const void *host, size_t bytes) {
    return done(trainer, ls_alloc(trainer->context, bytes, device), "allocating device memory") &&
           done(trainer, ls_copy_in(trainer->context, *device, host, bytes),
                "copying to the device");
}

static bool bind(Trainer *trainer, ls_step *step, const char *name, void *data, ls_type type,
                 uint32_t rank, const int64_t *shape) {
    ls_tensor tensor = {.data = data, .type = type, .rank = rank, .shape = shape};
    return done(trainer, ls_step_bind(step, name, &tensor), name);
}

/* Creates the step of one minibatch, binds it, and captures its launch. */
static bool prepare_batch(Trainer *trainer, size_t batch) {
    const size_t first = batch * BATCH, rest = SAMPLES - first;
    const int64_t shape[2] = {rest < BATCH ? (int64_t)rest : BATCH, FEATURES};
    const int64_t features = FEATURES;
    if (!done(trainer, ls_step_create(trainer->program, "linreg", &trainer->steps[batch]),
              "creating the step"))
        return false;
    ls_step *step = trainer->steps[batch];
    char *metrics = (char *)trainer->metrics;
    if (!bind(trainer, step, "x", trainer->x + first * FEATURES, LS_F32, 2, shape) ||
        !bind(trainer, step, "y", trainer->y + first, LS_F32, 1, shape) ||
        !bind(trainer, step, "w", trainer->w, LS_F32, 1, &features) ||
        !bind(trainer, step, "bias", metrics + offsetof(Metrics, bias), LS_F32, 0, NULL) ||
        !bind(trainer, step, "loss_sum", metrics + offsetof(Metrics, loss_sum), LS_F32, 0, NULL) ||
        !bind(trainer, step, "seen", metrics + offsetof(Metrics, seen), LS_I64, 0, NULL) ||
        !bind(trainer, step, "nan_seen", metrics + offsetof(Metrics, nan_seen), LS_BOOL, 0, NULL))
        return false;
    return done(trainer, ls_step_prepare(step), "compiling linreg.step") &&
           done(trainer, ls_graph_begin(trainer->context), "starting the capture") &&
           done(trainer, ls_step_launch(step), "launching") &&
           done(trainer, ls_graph_end(trainer->context, &trainer->graphs[batch]), "capturing");
}

static bool open_trainer(Trainer *trainer, const char *device, const float *x, const float *y) {
    const float zeros[FEATURES] = {0};
    Metrics metrics;
    memset(&metrics, 0, sizeof metrics);
    if (!done(trainer, ls_context_create(device, NULL, &trainer->context), "opening the device") ||
        !done(trainer, ls_program_load(trainer->context, LINREG_STEP, NULL, &trainer->program),
              "reading linreg.step") ||
        !upload(trainer, (void **)&trainer->x, x, sizeof *x * SAMPLES * FEATURES) ||
        !upload(trainer, (void **)&trainer->y, y, sizeof *y * SAMPLES) ||
        !upload(trainer, (void **)&trainer->w, zeros, sizeof zeros) ||
        !upload(trainer, (void **)&trainer->metrics, &metrics, sizeof metrics))
        return false;
    for (size_t batch = 0; batch < BATCHES; batch++)
        if (!prepare_batch(trainer, batch)) return false;
    return true;
}

static void close_trainer(Trainer *trainer) {
    for (size_t batch = 0; batch < BATCHES; batch++) {
        if (trainer->graphs[batch]) ls_graph_destroy(trainer->graphs[batch]);
        if (trainer->steps[batch]) ls_step_destroy(trainer->steps[batch]);
    }
    if (trainer->program) ls_program_destroy(trainer->program);
    if (trainer->context) {
        void *memory[] = {trainer->x, trainer->y, trainer->w, trainer->metrics};
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
            if (memory[i]) ls_free(trainer->context, memory[i]);
        ls_context_destroy(trainer->context);
    }
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Runs the loop. The mean loss printed is over the samples seen since the last look. */
static bool train(Trainer *trainer, long steps, const float *true_weights, float true_bias) {
    Metrics metrics;
    const double start = seconds();
    for (long step = 1; step <= steps; step++) {
        const size_t batch = (size_t)(step - 1) % BATCHES;
        if (!done(trainer, ls_graph_launch(trainer->graphs[batch]), "replaying a training step"))
            return false;
        if (step % LOOK_EVERY != 0 && step != steps) continue;
        if (!done(trainer,
                  ls_copy_out(trainer->context, &metrics, trainer->metrics, sizeof metrics),
                  "reading the metrics"))
            return false;
        printf("step %6ld   loss %.6f\n", step, (double)metrics.loss_sum / (double)metrics.seen);
        if (metrics.nan_seen) {
            fprintf(stderr, "linreg: the loss became NaN before step %ld: try a smaller lr\n",
                    step);
            return false;
        }
        /* loss_sum and seen start over; the bias behind them stays. */
        char *sums = (char *)trainer->metrics;
        if (!done(trainer,
                  ls_fill_zero(trainer->context, sums + offsetof(Metrics, loss_sum),
                               sizeof metrics.loss_sum),
                  "clearing the loss") ||
            !done(
                trainer,
                ls_fill_zero(trainer->context, sums + offsetof(Metrics, seen), sizeof metrics.seen),
                "clearing the count"))
            return false;
    }
    const double elapsed = seconds() - start;
    float w[FEATURES];
    if (!done(trainer, ls_copy_out(trainer->context, w, trainer->w, sizeof w),
              "reading the weights"))
        return false;
    double distance = 0, length = 0;
    for (size_t k = 0; k < FEATURES; k++) {
        const double difference = (double)w[k] - (double)true_weights[k];
        distance += difference * difference;
        length += (double)true_weights[k] * (double)true_weights[k];
    }
    if (steps > 0)
        printf("bias           %.5f (true: %.5f)\n", (double)metrics.bias, (double)true_bias);
    printf("distance to the true weights  %.5f (at the start: %.5f)\n", sqrt(distance),
           sqrt(length));
    printf("%.0f steps/s (%ld steps in %.3f s)\n", (double)steps / elapsed, steps, elapsed);
    return true;
}

int main(int count, char **arguments) {
    long steps = 1000;
    const char *device = NULL;
    for (int i = 1; i < count; i++) {
        char *end = NULL;
        if (i + 1 < count && strcmp(arguments[i], "--steps") == 0) {
            steps = strtol(arguments[++i], &end, 10);
            if (*end == '\0' && end != arguments[i] && steps >= 0) continue;
        } else if (i + 1 < count && strcmp(arguments[i], "--device") == 0) {
            device = arguments[++i];
            continue;
        }
        fprintf(stderr, "usage: linreg [--steps N] [--device auto|cpu|cuda|hip]\n");
        return 2;
    }

    const float true_bias = 0.5f, noise = 0.1f;
    float true_weights[FEATURES];
    float *x = malloc(sizeof *x * SAMPLES * FEATURES), *y = malloc(sizeof *y * SAMPLES);
    Trainer trainer;
    memset(&trainer, 0, sizeof trainer);
    bool ok = x && y;
    if (ok) {
        make_data(SAMPLES, FEATURES, true_bias, noise, x, y, true_weights);
        const double start = seconds();
        ok = open_trainer(&trainer, device, x, y);
        ls_step_statistics statistics;
        if (ok && ls_step_stats(trainer.steps[0], &statistics) == LS_OK)
            printf("%s (%s): %u launch%s per training step, ready in %.0f ms (kernel %s)\n",
                   ls_context_device(trainer.context), ls_context_describe(trainer.context),
                   statistics.launches, statistics.launches == 1 ? "" : "es",
                   1e3 * (seconds() - start),
                   statistics.from_cache ? "from the cache" : "compiled now");
        ok = ok && train(&trainer, steps, true_weights, true_bias);
    } else {
        fprintf(stderr, "linreg: out of memory\n");
    }
    close_trainer(&trainer);
    free(x);
    free(y);
    return ok ? 0 : 1;
}
