/* trainer.c: the device, its memory, the steps of an iteration and the graph that they make.
 *
 * Parameters of the steps are bound by their names: arrays, rank-0 values and numbers have a table
 * each. An iteration (an episode, what is compared, the gradients, the updates) is one graph, and
 * any number of iterations one call. */
#include "grpo.h"

#include <stdio.h>
#include <string.h>

/* ---- what the names of parameters stand for ---- */

typedef struct Array {
    const char *name;
    ls_type type;
    const char *axes; /* a letter each, as in catcher.step */
} Array;
static const Array arrays[] = {
    {"place", LS_F32, "tg"},    {"start", LS_F32, "g"},      {"x", LS_F32, "b"},
    {"fx", LS_F32, "fb"},       {"fy", LS_F32, "fb"},        {"live", LS_BOOL, "fb"},
    {"noise", LS_F32, "tab"},   {"seen", LS_F32, "tib"},     {"action", LS_U8, "tb"},
    {"old", LS_F32, "tb"},      {"reference", LS_F32, "tb"}, {"reward", LS_F32, "tb"},
    {"advantage", LS_F32, "b"}, {"best", LS_F32, "pg"},      {"w1", LS_F32, "ih"},
    {"b1", LS_F32, "h"},        {"w2", LS_F32, "ha"},        {"b2", LS_F32, "a"},
    {"dw1", LS_F32, "ih"},      {"db1", LS_F32, "h"},        {"dw2", LS_F32, "ha"},
    {"db2", LS_F32, "a"},       {"r1", LS_F32, "ih"},        {"c1", LS_F32, "h"},
    {"r2", LS_F32, "ha"},       {"c2", LS_F32, "a"},         {"m", LS_F32, "w"},
    {"v", LS_F32, "w"},
};
_Static_assert(COUNT(arrays) <= sizeof((Trainer *)0)->arrays / sizeof(void *),
               "Trainer.arrays has a place for each");

/* Lists of tensors: by the names of their arrays, or as the parts of one. */
static const char *const policy[TENSORS] = {"w1", "b1", "w2", "b2"};
static const char *const gradients[TENSORS] = {"dw1", "db1", "dw2", "db2"};
static const char *const reference[TENSORS] = {"r1", "c1", "r2", "c2"};
typedef struct List {
    const char *name;
    const char *const *tensors; /* NULL: pieces of the array of the list's own name */
} List;
static const List lists[] = {
    {"p", policy}, {"d", gradients}, {"r", reference}, {"m", NULL}, {"v", NULL}};

#define METRIC(name, type) \
    { #name, type, offsetof(Metrics, name) }
static const struct {
    const char *name;
    ls_type type;
    size_t at; /* in Metrics */
} values[] = {METRIC(episode, LS_I64),    METRIC(caught, LS_I64),   METRIC(reachable, LS_I64),
              METRIC(reward_sum, LS_F32), METRIC(loss, LS_F32),     METRIC(entropy, LS_F32),
              METRIC(kl, LS_F32),         METRIC(clipped, LS_F32),  METRIC(norm_sum, LS_F32),
              METRIC(count, LS_I32),      METRIC(nan_seen, LS_BOOL)};

static bool find_number(const Options *options, const char *name, double *number) {
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"seed", (double)options->seed},
                   {"group", GROUP},
                   {"period", (double)options->reference},
                   {"share", 1 / (double)options->micro},
                   {"clip", options->clip},
                   {"kl_weight", options->kl_weight},
                   {"entropy_weight", options->entropy_weight},
                   {"rate", options->rate},
                   {"decay", options->decay},
                   {"most", options->most}};
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (strcmp(numbers[i].name, name) == 0) {
            *number = numbers[i].number;
            return true;
        }
    return false;
}

static int64_t axis_length(const Options *options, char axis) {
    switch (axis) {
    case 't': return options->ticks;
    case 'b': return options->environments;
    case 'g': return options->environments / GROUP;
    case 'f': return FRUITS;
    case 'i': return INPUTS;
    case 'h': return HIDDEN;
    case 'a': return ACTIONS;
    case 'p': return PLACES;
    default: return INPUTS * HIDDEN + HIDDEN + HIDDEN * ACTIONS + ACTIONS; /* all weights */
    }
}

static size_t find_array(const char *name) {
    size_t i = 0;
    while (i < COUNT(arrays) && strcmp(arrays[i].name, name) != 0) i++;
    return i;
}

/* ---- binding ---- */

static bool done(const Trainer *trainer, ls_status status, const char *what) {
    return status == LS_OK || fail("%s: %s", what, ls_error_message(trainer->context));
}

enum { RANK_MAX = 3 };
typedef struct Shaped {
    ls_tensor tensor;
    int64_t shape[RANK_MAX], strides[RANK_MAX], elements;
} Shaped;

/* The array, or of its environments those of one micro-batch. */
static void shape_array(const Trainer *trainer, size_t array, int64_t micro, int64_t micros,
                        Shaped *shaped) {
    const Array *row = &arrays[array];
    const uint32_t rank = (uint32_t)strlen(row->axes);
    char *data = trainer->arrays[array];
    shaped->elements = 1;
    for (uint32_t i = rank; i-- > 0;) {
        const int64_t length = axis_length(trainer->options, row->axes[i]);
        const bool divided = row->axes[i] == 'b';
        shaped->shape[i] = divided ? length / micros : length;
        shaped->strides[i] = shaped->elements;
        if (divided)
            data += (size_t)(micro * shaped->shape[i] * shaped->elements) * ls_type_size(row->type);
        shaped->elements *= length;
    }
    shaped->tensor = (ls_tensor){.data = data,
                                 .type = row->type,
                                 .rank = rank,
                                 .shape = shaped->shape,
                                 .strides = shaped->strides};
}

static bool bind_list(Trainer *trainer, ls_step *step, const List *list) {
    ls_tensor tensors[TENSORS];
    int64_t lengths[TENSORS];
    float *piece = list->tensors ? NULL : trainer->arrays[find_array(list->name)];
    for (size_t i = 0; i < TENSORS; i++) {
        Shaped shaped;
        shape_array(trainer, find_array((list->tensors ? list->tensors : policy)[i]), 0, 1,
                    &shaped);
        lengths[i] = shaped.elements;
        tensors[i] = (ls_tensor){.data = piece ? piece : shaped.tensor.data,
                                 .type = LS_F32,
                                 .rank = 1,
                                 .shape = &lengths[i]};
        if (piece) piece += lengths[i];
    }
    return done(trainer, ls_step_bind_list(step, list->name, tensors, TENSORS), list->name);
}

/* Whatever the parameter's name stands for. */
static bool bind_parameter(Trainer *trainer, ls_step *step, const char *name, int64_t micro,
                           int64_t micros) {
    const size_t array = find_array(name);
    double number;
    for (size_t i = 0; i < COUNT(lists); i++)
        if (strcmp(lists[i].name, name) == 0) return bind_list(trainer, step, &lists[i]);
    if (array < COUNT(arrays)) {
        Shaped shaped;
        shape_array(trainer, array, micro, micros, &shaped);
        return done(trainer, ls_step_bind(step, name, &shaped.tensor), name);
    }
    for (size_t i = 0; i < COUNT(values); i++)
        if (strcmp(values[i].name, name) == 0) {
            const ls_tensor tensor = {.data = (char *)trainer->metrics + values[i].at,
                                      .type = values[i].type};
            return done(trainer, ls_step_bind(step, name, &tensor), name);
        }
    if (!find_number(trainer->options, name, &number))
        return fail("there is nothing to bind the parameter `%s` to", name);
    return done(trainer, ls_step_set_number(step, name, number), name);
}

/* Adds a step to those of an iteration: all environments, or a micro-batch of `micros`. */
static bool add_step(Trainer *trainer, const char *name, int64_t micro, int64_t micros) {
    ls_step *step;
    if (!done(trainer, ls_step_create(trainer->program, name, &step), name)) return false;
    trainer->steps[trainer->step_count++] = step;
    const ls_image *image = ls_step_image(step);
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (!bind_parameter(trainer, step, image->parameters[i].name, micro, micros)) return false;
    return true;
}

/* ---- memory ---- */

static bool allocate(Trainer *trainer) {
    const bool refers = trainer->options->reference > 0;
    for (size_t i = 0; i < COUNT(arrays); i++) {
        Shaped shaped;
        if (!refers && strcmp(arrays[i].name, "reference") == 0) {
            trainer->arrays[i] = trainer->arrays[find_array("old")];
            continue;
        }
        shape_array(trainer, i, 0, 1, &shaped);
        const size_t bytes = (size_t)shaped.elements * ls_type_size(arrays[i].type);
        if (!done(trainer,
                  ls_alloc_labeled(trainer->context, bytes, arrays[i].name, &trainer->arrays[i]),
                  "allocating device memory") ||
            !done(trainer, ls_fill_zero(trainer->context, trainer->arrays[i], bytes), "clearing"))
            return false;
    }
    return done(trainer,
                ls_alloc_labeled(trainer->context, sizeof(Metrics), "metrics",
                                 (void **)&trainer->metrics),
                "allocating device memory") &&
           done(trainer, ls_fill_zero(trainer->context, trainer->metrics, sizeof(Metrics)),
                "clearing");
}

/* Draws the weights of a matrix; biases stay 0. */
static bool initialise(Trainer *trainer, const char *name, double scale, int count) {
    Shaped shaped;
    ls_step *step;
    shape_array(trainer, find_array(name), 0, 1, &shaped);
    const ls_tensor flat = {
        .data = shaped.tensor.data, .type = LS_F32, .rank = 1, .shape = &shaped.elements};
    if (!done(trainer, ls_step_create(trainer->program, "initialise", &step), name)) return false;
    const bool ok =
        done(trainer, ls_step_bind(step, "w", &flat), name) &&
        done(trainer, ls_step_set_number(step, "scale", scale), name) &&
        done(trainer, ls_step_set_number(step, "seed", (double)trainer->options->seed), name) &&
        done(trainer, ls_step_set_number(step, "count", count), name) &&
        done(trainer, ls_step_launch(step), name);
    ls_step_destroy(step);
    return ok;
}

/* ---- an iteration ---- */

static bool add_steps(Trainer *trainer) {
    static const char *const episode[] = {"begin", "draw", "play", "compare", "reach"};
    const Options *options = trainer->options;
    for (size_t i = 0; i < COUNT(episode); i++)
        if (!add_step(trainer, episode[i], 0, 1)) return false;
    if (options->reference > 0 && !add_step(trainer, "refer", 0, 1)) return false;
    for (long update = 0; update < options->updates; update++) {
        for (long micro = 0; micro < options->micro; micro++)
            if (!add_step(trainer, "learn", micro, options->micro)) return false;
        if (!add_step(trainer, "update", 0, 1)) return false;
    }
    return options->reference == 0 || add_step(trainer, "follow", 0, 1);
}

static bool capture(Trainer *trainer) {
    if (!done(trainer, ls_graph_begin(trainer->context), "starting the capture")) return false;
    for (size_t i = 0; i < trainer->step_count; i++)
        if (!done(trainer, ls_step_launch(trainer->steps[i]), "launching")) return false;
    return done(trainer, ls_graph_end(trainer->context, &trainer->graph), "capturing");
}

/* Says on what an iteration runs, and how. */
static void describe(const Trainer *trainer) {
    ls_graph_statistics graph;
    const char *how = "launched one after another, as the driver has no graphs";
    if (ls_graph_stats(trainer->graph, &graph) != LS_OK) return;
    if (graph.native && ls_context_kind(trainer->context) == LS_DEVICE_CPU)
        how = "one graph";
    else if (graph.native)
        how = graph.loops ? "one graph, which the device repeats" : "one graph";
    printf("device    %s, %s\n", ls_context_device(trainer->context),
           ls_context_describe(trainer->context));
    printf("iteration %zu steps, %llu launches, %s\n", trainer->step_count,
           (unsigned long long)graph.launches, how);
}

static bool open_on(Trainer *trainer, const char *device) {
    const char *const penalised = "penalised=true";
    const bool apart = trainer->options->kl_weight > 0;
    const ls_compile_options compile = {.defines = apart ? &penalised : NULL,
                                        .define_count = apart};
    if (ls_context_create(device, NULL, &trainer->context) != LS_OK)
        return fail("%s: %s", device, ls_error_message(NULL));
    return done(trainer, ls_program_load(trainer->context, GRPO_STEP, &compile, &trainer->program),
                "reading catcher.step") &&
           allocate(trainer) && initialise(trainer, "w1", 0.5, 0) &&
           initialise(trainer, "w2", 0.15, 1) && initialise(trainer, "r1", 0.5, 0) &&
           initialise(trainer, "r2", 0.15, 1) && add_steps(trainer) &&
           done(trainer, ls_steps_prepare(trainer->steps, trainer->step_count),
                "compiling catcher.step") &&
           capture(trainer);
}

bool trainer_open(Trainer *trainer, const Options *options) {
    enum { DEVICES = 32 };
    ls_device_info devices[DEVICES];
    const size_t count = ls_devices(devices, DEVICES);
    const bool automatic = strcmp(options->device, "auto") == 0;
    bool ok = false;
    *trainer = (Trainer){.options = options};
    if (!automatic) ok = open_on(trainer, options->device);
    for (size_t i = 0; automatic && !ok && i < count && i < DEVICES; i++) {
        if (!devices[i].usable) continue;
        ok = open_on(trainer, devices[i].name);
        if (ok) break;
        trainer_close(trainer);
        *trainer = (Trainer){.options = options};
        fail("%s cannot train the policy; the next device is tried", devices[i].name);
    }
    if (automatic && !ok) fail("no device can train the policy; `lockstep devices` says why");
    if (ok) describe(trainer);
    return ok;
}

bool trainer_run(Trainer *trainer, uint64_t iterations, Metrics *metrics) {
    const size_t sums = offsetof(Metrics, caught), end = offsetof(Metrics, count);
    return done(trainer, ls_graph_repeat(trainer->graph, iterations), "training") &&
           done(trainer, ls_copy_out(trainer->context, metrics, trainer->metrics, sizeof *metrics),
                "reading the metrics") &&
           done(trainer,
                ls_fill_zero(trainer->context, (char *)trainer->metrics + sums, end - sums),
                "clearing the metrics");
}

void trainer_close(Trainer *trainer) {
    if (trainer->graph) ls_graph_destroy(trainer->graph);
    for (size_t i = 0; i < trainer->step_count; i++) ls_step_destroy(trainer->steps[i]);
    if (trainer->program) ls_program_destroy(trainer->program);
    if (!trainer->context) return;
    const size_t old = find_array("old");
    for (size_t i = 0; i < COUNT(arrays); i++)
        if (i == old || trainer->arrays[i] != trainer->arrays[old])
            ls_free(trainer->context, trainer->arrays[i]);
    ls_free(trainer->context, trainer->metrics);
    ls_context_destroy(trainer->context);
}
