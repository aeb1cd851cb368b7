/* trainer.c: a trainer that holds its own compiled steps and needs the runtime only.
 *
 * spirals.h and spirals.c were made of spirals.step while this program was built. All that training
 * changes (weights, moments, counters, the sum of the losses) lies in one piece of device memory,
 * so a checkpoint is that piece in a file, and a training step is one graph of two steps. The loss
 * is copied in the order of the stream and printed when the next copy is queued: nothing stops. */
#include "spirals.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4000, INPUTS = 2, HIDDEN = 64, LOOK_EVERY = 250, ALIGNMENT = 16 };

/* The trained tensors in the order of the lists that `update` is given. */
enum { W1, B1, W2, B2, TENSORS };
static const int64_t elements[TENSORS] = {HIDDEN * INPUTS, HIDDEN, HIDDEN, 1};

/* What there is of each tensor. Gradients are made anew at every step, but lie with the rest. */
enum { VALUE, FIRST_MOMENT, SECOND_MOMENT, GRADIENT, KINDS };

/* The rank-0 values, sums since the last look first. */
typedef struct Counters {
    int64_t right, seen;
    float loss_sum;
    int32_t count;
    int64_t at;
} Counters;
#define SUM_BYTES offsetof(Counters, count)

typedef struct Trainer {
    ls_context *context;
    ls_step *gradients, *update;
    ls_graph *graph;
    float *x, *y;                         /* device memory: all samples */
    char *state;                          /* device memory: Counters, then the tensors */
    size_t offset[KINDS][TENSORS], bytes; /* in it; and of it */
    Counters *looks;                      /* two, in page-locked memory of the host */
    ls_event *copied[2];                  /* behind the copies to them */
} Trainer;

static bool done(const Trainer *trainer, ls_status status, const char *what) {
    if (status == LS_OK) return true;
    fprintf(stderr, "trainer: %s: %s\n", what, ls_error_message(trainer->context));
    return false;
}

static void lay_out(Trainer *trainer) {
    size_t at = sizeof(Counters);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < TENSORS; i++) {
            at = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            trainer->offset[kind][i] = at;
            at += (size_t)elements[i] * sizeof(float);
        }
    trainer->bytes = at;
}

static float *tensor(const Trainer *trainer, int kind, int i) {
    return (float *)(void *)(trainer->state + trainer->offset[kind][i]);
}

/* ---- data and first weights: any that are the same on every machine ---- */

static float uniform(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) * 0x1p-24f;
}

static bool upload(Trainer *trainer, float **device, const float *host, size_t count) {
    void *memory = NULL;
    const size_t bytes = count * sizeof *host;
    if (!done(trainer, ls_alloc_labeled(trainer->context, bytes, "samples", &memory),
              "allocating memory"))
        return false;
    *device = memory;
    return done(trainer, ls_copy_in(trainer->context, memory, host, bytes), "copying the samples");
}

static bool make_samples(Trainer *trainer) {
    float *x = malloc(sizeof *x * SAMPLES * INPUTS), *y = malloc(sizeof *y * SAMPLES);
    uint64_t seed = 1;
    bool ok = x && y;
    if (!ok) fprintf(stderr, "trainer: out of memory\n");
    for (int i = 0; ok && i < SAMPLES; i++) {
        const float along = uniform(&seed), angle = 9.5f * along + (i % 2 ? 3.14159265f : 0);
        x[INPUTS * i] = along * cosf(angle) + 0.04f * (uniform(&seed) - 0.5f);
        x[INPUTS * i + 1] = along * sinf(angle) + 0.04f * (uniform(&seed) - 0.5f);
        y[i] = (float)(i % 2);
    }
    ok = ok && upload(trainer, &trainer->x, x, SAMPLES * INPUTS) &&
         upload(trainer, &trainer->y, y, SAMPLES);
    free(x);
    free(y);
    return ok;
}

/* Weights of the first layer in -8 ... 8, of the second in -0.1 ... 0.1; all else begins at 0. */
static void first_state(const Trainer *trainer, char *state) {
    static const float reach[TENSORS] = {8.0f, 3.0f, 0.1f, 0.0f};
    uint64_t seed = 2;
    memset(state, 0, trainer->bytes);
    for (int i = 0; i < TENSORS; i++) {
        float *values = (float *)(void *)(state + trainer->offset[VALUE][i]);
        for (int64_t k = 0; k < elements[i]; k++) values[k] = reach[i] * (2 * uniform(&seed) - 1);
    }
}

/* ---- checkpoints: the state as it lies on the device ---- */

static bool save(const Trainer *trainer, const char *path) {
    char *state = malloc(trainer->bytes), part[4096];
    if (!state) return fprintf(stderr, "trainer: out of memory\n"), false;
    snprintf(part, sizeof part, "%s.part", path);
    bool ok = done(trainer, ls_copy_out(trainer->context, state, trainer->state, trainer->bytes),
                   "reading the state");
    FILE *file = ok ? fopen(part, "wb") : NULL;
    if (ok) {
        const bool wrote = file && fwrite(state, 1, trainer->bytes, file) == trainer->bytes;
        const bool closed = file && fclose(file) == 0;
        ok = wrote && closed && rename(part, path) == 0;
        if (!ok) perror(path);
    }
    free(state);
    return ok;
}

static bool load(const char *path, char *state, size_t bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) return perror(path), false;
    const bool fits = fread(state, 1, bytes, file) == bytes && fgetc(file) == EOF;
    fclose(file);
    if (!fits) fprintf(stderr, "trainer: %s is not a checkpoint of this network\n", path);
    return fits;
}

static bool begin_state(Trainer *trainer, const char *resume) {
    void *memory = NULL;
    char *state = malloc(trainer->bytes);
    if (!state) return fprintf(stderr, "trainer: out of memory\n"), false;
    bool ok = true;
    if (resume)
        ok = load(resume, state, trainer->bytes);
    else
        first_state(trainer, state);
    ok = ok && done(trainer, ls_alloc_labeled(trainer->context, trainer->bytes, "state", &memory),
                    "allocating memory");
    trainer->state = memory;
    ok = ok && done(trainer, ls_copy_in(trainer->context, memory, state, trainer->bytes),
                    "copying the state");
    free(state);
    return ok;
}

/* ---- the steps and their graph ---- */

/* Every length and pointer is a field with its own type; the kernels come from spirals.c. */
static bool bind(Trainer *trainer) {
    Counters *counters = (Counters *)(void *)trainer->state;
    float *lists[KINDS][TENSORS];
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < TENSORS; i++) lists[kind][i] = tensor(trainer, kind, i);
    const struct gradients_args gradients = {
        .s = SAMPLES,
        .x = trainer->x,
        .y = trainer->y,
        .at = &counters->at,
        .w1 = lists[VALUE][W1],
        .b1 = lists[VALUE][B1],
        .w2 = lists[VALUE][W2],
        .b2 = lists[VALUE][B2],
        .dw1 = lists[GRADIENT][W1],
        .db1 = lists[GRADIENT][B1],
        .dw2 = lists[GRADIENT][W2],
        .db2 = lists[GRADIENT][B2],
        .loss_sum = &counters->loss_sum,
        .right = &counters->right,
        .seen = &counters->seen,
    };
    const struct update_args update = {
        .t = TENSORS,
        .n = elements,
        .p = lists[VALUE],
        .m = lists[FIRST_MOMENT],
        .v = lists[SECOND_MOMENT],
        .g = (const float *const *)lists[GRADIENT],
        .count = &counters->count,
    };
    return done(trainer, gradients_bind(trainer->context, &gradients, &trainer->gradients),
                "step gradients") &&
           done(trainer, update_bind(trainer->context, &update, &trainer->update), "step update");
}

static bool capture(Trainer *trainer) {
    return done(trainer, ls_graph_begin(trainer->context), "starting the capture") &&
           done(trainer, ls_step_launch(trainer->gradients), "launching") &&
           done(trainer, ls_step_launch(trainer->update), "launching") &&
           done(trainer, ls_graph_end(trainer->context, &trainer->graph), "capturing");
}

static bool make_looks(Trainer *trainer) {
    void *memory = NULL;
    bool ok = done(trainer, ls_alloc_host(trainer->context, 2 * sizeof(Counters), &memory),
                   "allocating memory of the host");
    trainer->looks = memory;
    for (int i = 0; i < 2; i++)
        ok = ok && done(trainer, ls_event_create(trainer->context, &trainer->copied[i]),
                        "creating an event");
    return ok;
}

static void close_trainer(Trainer *trainer) {
    if (!trainer->context) return;
    ls_synchronize(trainer->context); /* so that nothing is under way when the graph goes */
    ls_event_destroy(trainer->copied[0]);
    ls_event_destroy(trainer->copied[1]);
    ls_graph_destroy(trainer->graph);
    ls_step_destroy(trainer->gradients);
    ls_step_destroy(trainer->update);
    ls_free(trainer->context, trainer->x);
    ls_free(trainer->context, trainer->y);
    ls_free(trainer->context, trainer->state);
    ls_free_host(trainer->context, trainer->looks);
    ls_context_destroy(trainer->context);
}

/* ---- training ---- */

/* Queues a copy of the sums behind the steps queued so far, clears them, and marks the place. The
 * next look's copy goes to the other half of `looks`. */
static bool take_look(Trainer *trainer, long look) {
    Counters *counters = &trainer->looks[look % 2];
    ls_step *step = trainer->gradients;
    return done(trainer, ls_step_get_async(step, "loss_sum", &counters->loss_sum), "the loss") &&
           done(trainer, ls_step_get_async(step, "right", &counters->right), "the hits") &&
           done(trainer, ls_step_get_async(step, "seen", &counters->seen), "the count") &&
           done(trainer, ls_fill_zero(trainer->context, trainer->state, SUM_BYTES), "clearing") &&
           done(trainer, ls_event_record(trainer->copied[look % 2]), "marking a look");
}

/* Waits for that look's copy, not for what was queued since. */
static bool print_look(Trainer *trainer, long look) {
    const Counters *counters = &trainer->looks[look % 2];
    ls_event *copied = trainer->copied[look % 2];
    double unused;
    if (!done(trainer, ls_event_elapsed(copied, copied, &unused), "waiting for a look"))
        return false;
    printf("step %6ld   loss %.5f   right %.2f %%\n", look * LOOK_EVERY,
           (double)counters->loss_sum / (double)counters->seen,
           100 * (double)counters->right / (double)counters->seen);
    return true;
}

static bool train(Trainer *trainer, long steps) {
    Counters counters;
    if (!done(trainer, ls_copy_out(trainer->context, &counters, trainer->state, sizeof counters),
              "reading the counters"))
        return false;
    long look = 0; /* the one under way; 0: none */
    for (long step = counters.count + 1; step <= steps; step++) {
        if (!done(trainer, ls_graph_launch(trainer->graph), "replaying a training step"))
            return false;
        if (step % LOOK_EVERY != 0) continue;
        if (!take_look(trainer, step / LOOK_EVERY)) return false;
        if (look && !print_look(trainer, look)) return false;
        look = step / LOOK_EVERY;
    }
    if (look) return print_look(trainer, look);
    printf("step %6ld   the loss is printed every %d steps\n", steps, LOOK_EVERY);
    return true;
}

typedef struct Options {
    const char *device, *resume, *save;
    long steps;
} Options;

static bool read_options(int count, char **arguments, Options *options) {
    *options = (Options){.device = "cpu", .steps = 3000};
    for (int i = 1; i + 1 < count; i += 2) {
        char *value = arguments[i + 1], *end = value;
        if (strcmp(arguments[i], "--device") == 0)
            options->device = value;
        else if (strcmp(arguments[i], "--resume") == 0)
            options->resume = value;
        else if (strcmp(arguments[i], "--save") == 0)
            options->save = value;
        else if (strcmp(arguments[i], "--steps") == 0)
            options->steps = strtol(value, &end, 10);
        else
            return false;
        if (end != value && (*end || options->steps < 0)) return false;
    }
    return count % 2 == 1;
}

int main(int count, char **arguments) {
    Options options;
    if (!read_options(count, arguments, &options)) {
        fprintf(stderr, "usage: trainer [--device cpu|cuda|hip] [--steps N] [--resume FILE] "
                        "[--save FILE]\n");
        return 2;
    }
    Trainer trainer;
    memset(&trainer, 0, sizeof trainer);
    lay_out(&trainer);
    bool ok = done(&trainer, ls_context_create(options.device, NULL, &trainer.context),
                   "opening the device");
    ok = ok && make_samples(&trainer) && begin_state(&trainer, options.resume) && bind(&trainer) &&
         capture(&trainer) && make_looks(&trainer) && train(&trainer, options.steps) &&
         (!options.save || save(&trainer, options.save));
    close_trainer(&trainer);
    return ok ? 0 : 1;
}
