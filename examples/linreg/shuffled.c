/* shuffled.c: linreg.c on an ls_dataset: one step and one graph for all minibatches.
 *
 * The data set is loaded once. The step itself knows which samples come next (shuffled.step), in a
 * new order each epoch, so a training step is the same one call for ever; nothing is bound or
 * decided in between. A tenth of the samples is kept for validation. */
#include "data.h"

#include <lockstep/lockstep.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 10000, TRAINING = 9000, FEATURES = 64, BATCH = 256, KEPT = SAMPLES - TRAINING };
enum { EPOCH = (TRAINING + BATCH - 1) / BATCH }; /* steps between two lines of output */

typedef struct Trainer {
    ls_context *context;
    ls_program *program;
    ls_step *train, *validate;
    ls_dataset *dataset;
    ls_split *training, *kept;
    ls_graph *graph;
    void *w; /* device memory */
} Trainer;

static bool done(const Trainer *t, ls_status status, const char *what) {
    if (status == LS_OK) return true;
    fprintf(stderr, "shuffled: %s: %s\n", what, ls_error_message(t->context));
    return false;
}

static bool load(Trainer *t, float *x, float *y) {
    const int64_t x_shape[] = {SAMPLES, FEATURES}, y_shape[] = {SAMPLES};
    const ls_dataset_array arrays[] = {{.name = "x", .tensor = {x, LS_F32, 2, x_shape, NULL}},
                                       {.name = "y", .tensor = {y, LS_F32, 1, y_shape, NULL}}};
    const ls_split_options training = {.count = TRAINING, .batch = BATCH, .seed = 1};
    const ls_split_options kept = {.first = TRAINING, .batch = KEPT, .in_order = 1};
    return done(t, ls_dataset_create(t->context, arrays, 2, NULL, &t->dataset), "loading") &&
           done(t, ls_split_create(t->dataset, &training, &t->training), "splitting") &&
           done(t, ls_split_create(t->dataset, &kept, &t->kept), "splitting");
}

static bool bind_weights(Trainer *t, ls_step *step) {
    const int64_t features = FEATURES;
    const ls_tensor w = {t->w, LS_F32, 1, &features, NULL};
    return done(t, ls_step_bind(step, "w", &w), "binding w");
}

static bool open_trainer(Trainer *t, const char *device, float *x, float *y) {
    return done(t, ls_context_create(device, NULL, &t->context), "opening the device") &&
           done(t, ls_program_load(t->context, SHUFFLED_STEP, NULL, &t->program),
                "reading shuffled.step") &&
           done(t, ls_step_create(t->program, "train", &t->train), "train") &&
           done(t, ls_step_create(t->program, "validate", &t->validate), "validate") &&
           done(t, ls_alloc(t->context, sizeof(float) * FEATURES, &t->w), "allocating") &&
           done(t, ls_fill_zero(t->context, t->w, sizeof(float) * FEATURES), "clearing") &&
           load(t, x, y) && done(t, ls_split_bind(t->training, t->train), "binding") &&
           done(t, ls_split_bind(t->kept, t->validate), "binding") && bind_weights(t, t->train) &&
           bind_weights(t, t->validate) && done(t, ls_step_prepare(t->train), "compiling") &&
           done(t, ls_graph_begin(t->context), "starting the capture") &&
           done(t, ls_step_launch(t->train), "launching") &&
           done(t, ls_graph_end(t->context, &t->graph), "capturing");
}

static void close_trainer(Trainer *t) {
    ls_graph_destroy(t->graph);
    ls_split_destroy(t->training);
    ls_split_destroy(t->kept);
    ls_step_destroy(t->train);
    ls_step_destroy(t->validate);
    ls_dataset_destroy(t->dataset);
    ls_program_destroy(t->program);
    if (t->context) ls_free(t->context, t->w);
    ls_context_destroy(t->context);
}

/* A line of output: the losses of the samples trained on since the last one, and of those kept. */
static bool look(Trainer *t, long step) {
    float loss_sum, bias, kept;
    int64_t seen, at;
    bool nan_seen;
    const float no_loss = 0;
    const int64_t none = 0;
    if (!done(t, ls_step_get(t->train, "loss_sum", &loss_sum), "reading the loss") ||
        !done(t, ls_step_get(t->train, "seen", &seen), "reading the count") ||
        !done(t, ls_step_get(t->train, "at", &at), "reading the place") ||
        !done(t, ls_step_get(t->train, "bias", &bias), "reading the bias") ||
        !done(t, ls_step_get(t->train, "nan_seen", &nan_seen), "reading the flag") ||
        !done(t, ls_step_set(t->train, "loss_sum", &no_loss), "clearing the loss") ||
        !done(t, ls_step_set(t->train, "seen", &none), "clearing the count") ||
        !done(t, ls_step_set(t->validate, "bias", &bias), "handing on the bias") ||
        !done(t, ls_split_next(t->kept), "the kept samples") ||
        !done(t, ls_step_want(t->validate, "loss"), "asking for the loss") ||
        !done(t, ls_step_launch(t->validate), "validating") ||
        !done(t, ls_step_get(t->validate, "loss", &kept), "reading the loss"))
        return false;
    printf("step %6ld   epoch %6.2f   loss %.6f   kept samples %.6f\n", step, (double)at / TRAINING,
           (double)loss_sum / (double)seen, (double)kept);
    if (nan_seen) fprintf(stderr, "shuffled: the loss became NaN: try a smaller lr\n");
    return !nan_seen;
}

static bool train(Trainer *t, long steps) {
    for (long step = 1; step <= steps; step++)
        if (!done(t, ls_split_next(t->training), "the next samples") ||
            !done(t, ls_graph_launch(t->graph), "replaying a training step") ||
            ((step % EPOCH == 0 || step == steps) && !look(t, step)))
            return false;
    return true;
}

int main(int count, char **arguments) {
    const char *device = count > 1 ? arguments[1] : NULL;
    if (count > 2) {
        fprintf(stderr, "usage: shuffled [auto|cpu|cuda|hip]\n");
        return 2;
    }
    float weights[FEATURES], *x = malloc(sizeof *x * SAMPLES * FEATURES);
    float *y = malloc(sizeof *y * SAMPLES);
    Trainer trainer;
    memset(&trainer, 0, sizeof trainer);
    bool ok = x && y;
    if (ok) {
        make_data(SAMPLES, FEATURES, 0.5f, 0.1f, x, y, weights);
        ok = open_trainer(&trainer, device, x, y) && train(&trainer, 1000);
    } else {
        fprintf(stderr, "shuffled: out of memory\n");
    }
    close_trainer(&trainer);
    free(x);
    free(y);
    return ok ? 0 : 1;
}
