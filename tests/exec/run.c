/* run.c: one program: every step, size, fill, layout and context, each against the interpreter. */
#include "bounds.h"
#include "exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "interp.h"
#include "nests.h"

enum { PARAMETERS = 128, VARIANTS = 48, LARGE = 100000, QUICK_LARGE = 64000, ZEROS_LARGE = 140000 };
/* Nests do not run on arrays of more elements than the first; with --quick, on arrays of more than
 * the second, a third of the schedules runs at each size but a step's first of that kind. */
enum { NESTS_LARGE = 2500, NESTS_SHARED = 128, NESTS_SHARE = 3 };

/* A step of each layout, and a dense one whose optional outs nobody binds. */
enum { SPARING = LAYOUT_COUNT, STEPS };

/* What an image, or one of a part of it, says of its variants. */
typedef struct Limits {
    const ls_image *image;
    uint64_t work[VARIANTS], block[VARIANTS], strip[VARIANTS];
} Limits;

typedef struct Run { /* one step at one size with one fill */
    Runner *runner;
    const Program *program;
    const Directives *directives;
    const ls_image *image;
    const Sizes *sizes;
    Fill fill;
    Array arrays[PARAMETERS];
    bool unset[PARAMETERS]; /* left to its default */
    bool sparing;           /* optional outs are left unbound */
    const Limits *limits;   /* of the image, and those of its parts */
    uint32_t *turns;        /* by layout: which of its variants is the next */
    bool *ran;              /* by variant of the image: whether it has run */
} Run;

/* Random data, the values the directives ask for, defaults where the normal fill leaves a cell
 * alone. */
static void make_inputs(Run *run, uint64_t *state) {
    const ls_image *image = run->image;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        Array *array = &run->arrays[i];
        array_open(array, run->sizes, i);
        double value;
        run->unset[i] = run->fill == FILL_NORMAL && parameter->has_default;
        if (parameter->role != LS_OUT)
            fill_array(run->fill, parameter->type,
                       directives_positive(run->directives, parameter->name), state, array->input,
                       array->count);
        if (parameter->role == LS_INOUT)
            canonical_nans(parameter->type, array->input, array->count);
        if (run->fill == FILL_NORMAL && parameter->rank == 0 &&
            directives_value(run->directives, parameter->name, &value)) {
            store_number(parameter->type, value, array->input);
            run->unset[i] = false;
        }
        if (run->unset[i]) memcpy(array->input, &parameter->initial, array->element);
        memcpy(array->expected, array->input, array->count * array->element);
    }
}

/* A list as the interpreter and the runtime want it: a pointer to each tensor. */
static void **tensor_pointers(const Array *array, uint8_t *dense) {
    void **pointers = must_allocate((array->tensor_count + 1) * sizeof *pointers);
    for (size_t t = 0; t < array->tensor_count; t++)
        pointers[t] = dense + array->tensors[t].begin * array->element;
    return pointers;
}

/* A program may say of itself what must be true: in `out must_hold: bool`. */
static bool must_hold(const Run *run) {
    for (uint32_t i = 0; i < run->image->parameter_count; i++) {
        if (strcmp(run->image->parameters[i].name, "must_hold") != 0) continue;
        if (run->arrays[i].expected[0] == 1) continue;
        printf("  FAILED %s: must_hold is false\n", run->image->step);
        return false;
    }
    return true;
}

/* ---- nests ---- */

typedef struct NestsUser {
    Run *run;
    uint8_t *results[PARAMETERS];
    void *data[PARAMETERS];
} NestsUser;

static void reset_nests(void *user) {
    NestsUser *u = user;
    for (uint32_t i = 0; i < u->run->image->parameter_count; i++)
        memcpy(u->results[i], u->run->arrays[i].input,
               u->run->arrays[i].count * u->run->arrays[i].element);
}

static bool compare_nests(void *user, const char *way) {
    const NestsUser *u = user;
    for (uint32_t i = 0; i < u->run->image->parameter_count; i++) {
        const Array *array = &u->run->arrays[i];
        for (size_t k = 0; k < array->count; k++) {
            if (memcmp(u->results[i] + k * array->element, array->expected + k * array->element,
                       array->element) == 0)
                continue;
            printf("  FAILED %s:%s, %s inputs, nests of %s: %s differs at element %zu\n",
                   u->run->program->name, u->run->image->step, fill_names[u->run->fill], way,
                   u->run->image->parameters[i].name, k);
            return false;
        }
    }
    return true;
}

static void count_nests(Runner *runner, const NestsJob *job, bool ok) {
    runner->runs += job->ran;
    runner->scheduled += job->scheduled;
    runner->rows += job->rows;
    runner->not_rows += job->not_rows;
    runner->ran_rows += job->ran_rows;
    runner->unscheduled += job->unscheduled;
    runner->mismatches += !ok;
}

/* Whether an array has so many elements that not every way runs. */
static void share_ways(const Run *run, NestsJob *job) {
    size_t largest = 0;
    for (uint32_t i = 0; i < run->image->parameter_count; i++)
        if (run->arrays[i].count > largest) largest = run->arrays[i].count;
    job->turn = run->runner->turn++;
    if (run->runner->quick && largest > NESTS_SHARED && run->runner->large++ > 0)
        job->share = NESTS_SHARE;
}

/* The plan as nests on the host, instead of kernels on a device. */
static bool run_nests(Run *run) {
    NestsUser user = {.run = run};
    const uint32_t count = run->image->parameter_count;
    for (uint32_t i = 0; i < count; i++) {
        const Array *array = &run->arrays[i];
        user.results[i] = must_allocate(array->count * array->element + 64);
        user.data[i] =
            array->list ? (void *)tensor_pointers(array, user.results[i]) : (void *)user.results[i];
    }
    NestsJob job = {.function = run->runner->planned,
                    .sizes = (const int64_t *const *)run->sizes->of,
                    .data = user.data,
                    .first = run->directives->shard,
                    .launches = run->directives->launches,
                    .transformed = run->fill == FILL_NORMAL,
                    .seed = run->runner->seed,
                    .reset = reset_nests,
                    .compare = compare_nests,
                    .user = &user,
                    .made = &run->runner->nests_made};
    share_ways(run, &job);
    const bool ok = nests_run(&job);
    count_nests(run->runner, &job, ok);
    for (uint32_t i = 0; i < count; i++) {
        if (run->arrays[i].list) free(user.data[i]);
        free(user.results[i]);
    }
    return ok;
}

/* ---- the nests of a part of a step with `for` ---- */

typedef struct PartUser {
    const Run *run;
    const PartRun *part;
} PartUser;

static void reset_part(void *user) {
    sequence_reset(((const PartUser *)user)->part);
}

static bool compare_part(void *user, const char *way) {
    const PartUser *u = user;
    const int differs = sequence_differs(u->part);
    if (differs < 0) return true;
    const Function *f = u->run->runner->oracle.parts[u->part->number];
    printf("  FAILED %s:%s, %s inputs, nests of %s: %s differs\n", u->run->program->name, f->name,
           fill_names[u->run->fill], way, f->parameters[differs].name);
    return false;
}

/* The lengths that a part has as it is planned, where it says which strip it is for: all of it. */
static bool run_part_nests(void *user, const PartRun *part) {
    static const int64_t begin = 0;
    Run *run = user;
    Oracle *oracle = &run->runner->oracle;
    const Function *f = oracle->planned[part->number];
    const int64_t *sizes[LS_AXES_MAX];
    PartUser own = {run, part};
    memcpy(sizes, part->sizes, sizeof sizes);
    if (f->iteration && f->iteration->strip >= 0) {
        sizes[f->iteration->begin] = &begin;
        sizes[f->iteration->all] = sizes[f->iteration->strip];
    }
    NestsJob job = {.function = f,
                    .sizes = sizes,
                    .data = part->data,
                    .first = run->directives->shard,
                    .launches = 1,
                    .transformed = run->fill == FILL_NORMAL,
                    .seed = run->runner->seed,
                    .reset = reset_part,
                    .compare = compare_part,
                    .user = &own,
                    .made = &oracle->nests_made[part->number]};
    share_ways(run, &job);
    const bool ok = nests_run(&job);
    count_nests(run->runner, &job, ok);
    return ok;
}

/* ---- what is expected ---- */

static bool interpret_all(Run *run, const Function *function) {
    void *data[PARAMETERS];
    const uint32_t count = run->image->parameter_count;
    bool ok = true;
    for (uint32_t i = 0; i < count; i++) {
        data[i] = run->arrays[i].expected;
        if (run->arrays[i].list) data[i] = tensor_pointers(&run->arrays[i], data[i]);
    }
    const Oracle *oracle = &run->runner->oracle;
    for (int launch = 0; ok && oracle->sequence && launch < run->directives->launches; launch++)
        ok = run->runner->nests /* the parts as they are planned, else the statements as written */
                 ? interpret_watched(oracle->sequence, oracle->parts,
                                     (const int64_t *const *)run->sizes->of, data,
                                     run->directives->shard, launch ? NULL : run_part_nests, run)
                 : interpret_sequence(oracle->sequence->source, oracle->source,
                                      (const int64_t *const *)run->sizes->of, data,
                                      run->directives->shard);
    for (int launch = 0; ok && !oracle->sequence && launch < run->directives->launches; launch++)
        ok = interpret(function, (const int64_t *const *)run->sizes->of, data,
                       run->directives->shard);
    if (!ok) printf("  the interpreter refused %s\n", run->image->step);
    for (uint32_t i = 0; i < count; i++)
        if (run->arrays[i].list) free(data[i]);
    return ok && must_hold(run);
}

static bool bind_list(Run *run, ls_context *context, ls_step *step, const Array *array) {
    const ls_image_parameter *parameter = array->parameter;
    ls_tensor *tensors = must_allocate((array->tensor_count + 1) * sizeof *tensors);
    for (size_t t = 0; t < array->tensor_count; t++)
        tensors[t] = (ls_tensor){.data = (uint8_t *)array->device + array->tensors[t].place,
                                 .type = parameter->type,
                                 .rank = parameter->rank - 1,
                                 .shape = array->tensors[t].shape};
    const bool ok = runner_check(
        run->runner, context,
        ls_step_bind_list(step, parameter->name, tensors, array->tensor_count), parameter->name);
    free(tensors);
    return ok;
}

static bool bind_array(Run *run, ls_context *context, ls_step *step, Layout layout,
                       const Array *array) {
    const ls_image_parameter *parameter = array->parameter;
    if (array->list) return bind_list(run, context, step, array);
    const ls_tensor tensor = {.data = (uint8_t *)array->device + array->first,
                              .type = parameter->type,
                              .rank = parameter->rank,
                              .shape = array->shape,
                              .strides = layout == LAYOUT_DENSE ? NULL : array->strides};
    return runner_check(run->runner, context, ls_step_bind(step, parameter->name, &tensor),
                        parameter->name);
}

/* Whether other arrays give the lengths of all of a parameter's axes. */
static bool has_lengths(const ls_image_parameter *rows, uint32_t count, uint32_t parameter) {
    uint32_t missing = 0;
    for (uint32_t i = 0; i < rows[parameter].rank; i++) missing |= 1u << rows[parameter].axes[i];
    for (uint32_t p = 0; p < count; p++)
        for (uint32_t i = 0; !rows[p].optional && i < rows[p].rank; i++)
            missing &= ~(1u << rows[p].axes[i]);
    return missing == 0;
}

/* Whether the array is one that the kernels have to do without. */
static bool is_spared(const Run *run, uint32_t parameter) {
    const ls_image_parameter *rows = run->image->parameters;
    return run->sparing && rows[parameter].optional &&
           has_lengths(rows, run->image->parameter_count, parameter);
}

/* Of the axes that no parameter has. */
static bool set_lengths(Run *run, ls_context *context, ls_step *step) {
    uint32_t arrays = 0;
    bool ok = true;
    for (uint32_t p = 0; p < run->image->parameter_count; p++)
        for (uint32_t i = 0; i < run->image->parameters[p].rank; i++)
            arrays |= 1u << run->image->parameters[p].axes[i];
    for (uint32_t a = 0; a < run->image->axis_count && ok; a++) {
        const ls_image_axis *axis = &run->image->axes[a];
        if ((arrays >> a & 1) || axis->parent || axis->whole || axis->terms) continue;
        ok = runner_check(run->runner, context,
                          ls_step_set_length(step, axis->name, run->sizes->of[a][0]), axis->name);
    }
    return ok;
}

/* Puts the inputs on the device and binds them. Cells go through the step's own in the dense layout
 * and through memory of ours in the others. */
static bool bind_all(Run *run, ls_context *context, ls_step *step, Layout layout) {
    if (!set_lengths(run, context, step)) return false;
    for (uint32_t i = 0; i < run->image->parameter_count; i++) {
        Array *array = &run->arrays[i];
        const ls_image_parameter *parameter = array->parameter;
        const char *name = parameter->name;
        if (is_spared(run, i)) continue;
        if (parameter->rank == 0 && layout == LAYOUT_DENSE) {
            const ls_status status = parameter->role == LS_OUT
                                         ? ls_step_want(step, name)
                                         : ls_step_set(step, name, array->input);
            if (!runner_check(run->runner, context, status, name)) return false;
            continue;
        }
        memcpy(array->result, array->image, array->bytes);
        array_scatter(array, array->input, array->result);
        if (!runner_check(run->runner, context, ls_alloc(context, array->bytes, &array->device),
                          "ls_alloc") ||
            !runner_check(run->runner, context,
                          ls_copy_in(context, array->device, array->result, array->bytes),
                          "ls_copy_in"))
            return false;
        if (!bind_array(run, context, step, layout, array)) return false;
    }
    return true;
}

static bool set_shard(Run *run, ls_context *context, ls_step *step) {
    const int64_t *shard = run->directives->shard;
    return !run->image->draws ||
           runner_check(run->runner, context, ls_step_shard(step, shard[0], shard[1]),
                        "ls_step_shard");
}

/* The arrays from now on are others of the same form, or the first ones again. */
static bool swap_arrays(Run *run, ls_context *context, ls_step *step, Layout layout,
                        void **others) {
    bool ok = true;
    for (uint32_t i = 0; ok && i < run->image->parameter_count; i++) {
        Array *array = &run->arrays[i];
        if (!array->device) continue; /* a cell of the step's */
        if (!others[i])
            ok = runner_check(run->runner, context, ls_alloc(context, array->bytes, &others[i]),
                              "ls_alloc");
        void *given = array->device;
        array->device = others[i];
        others[i] = given;
        ok = ok && bind_array(run, context, step, layout, array);
    }
    return ok;
}

/* A graph of one launch that is recorded with other arrays and then gets these. */
static bool record(Run *run, ls_context *context, ls_step *step, Layout layout, ls_graph **graph) {
    void *others[PARAMETERS] = {NULL};
    bool ok = swap_arrays(run, context, step, layout, others) &&
              runner_check(run->runner, context, ls_step_prepare(step), "ls_step_prepare") &&
              runner_check(run->runner, context, ls_graph_begin(context), "ls_graph_begin") &&
              runner_check(run->runner, context, ls_step_launch(step), "captured ls_step_launch") &&
              runner_check(run->runner, context, ls_graph_end(context, graph), "ls_graph_end");
    ok = swap_arrays(run, context, step, layout, others) && ok &&
         runner_check(run->runner, context, ls_graph_update(*graph), "ls_graph_update");
    bounds_add(step);
    for (uint32_t i = 0; i < run->image->parameter_count; i++) ls_free(context, others[i]);
    return ok;
}

/* The first launches go one by one; the last of several is replayed from a graph, the last two of
 * more by one call. */
static bool launch_all(Run *run, ls_context *context, ls_step *step, Layout layout) {
    const int launches = run->directives->launches, replays = launches < 3 ? launches - 1 : 2;
    ls_graph *graph = NULL;
    bool ok = true;
    for (int launch = 0; ok && launch < launches - replays; launch++) {
        ok = runner_check(run->runner, context, ls_step_prepare(step), "ls_step_prepare") &&
             bounds_poison(context, step);
        bounds_add(step);
        ok = ok && runner_check(run->runner, context, ls_step_launch(step), "ls_step_launch");
    }
    if (!ok || replays == 0) return ok;
    ok = record(run, context, step, layout, &graph) &&
         runner_check(run->runner, context, ls_graph_repeat(graph, (uint64_t)replays),
                      "ls_graph_repeat") &&
         runner_check(run->runner, context, ls_synchronize(context), "ls_synchronize");
    if (graph) ls_graph_destroy(graph);
    return ok;
}

static bool read_back(Run *run, ls_context *context, ls_step *step, Layout layout) {
    for (uint32_t i = 0; i < run->image->parameter_count; i++) {
        Array *array = &run->arrays[i];
        if (is_spared(run, i)) continue;
        array_scatter(array, array->expected, array->image);
        if (array->parameter->rank == 0 && layout == LAYOUT_DENSE) {
            memcpy(array->result, array->image, array->bytes);
            if (array->parameter->role == LS_IN) continue;
            if (!runner_check(
                    run->runner, context,
                    ls_step_get(step, array->parameter->name, array->result + array->first),
                    array->parameter->name))
                return false;
        } else if (!runner_check(run->runner, context,
                                 ls_copy_out(context, array->result, array->device, array->bytes),
                                 "ls_copy_out")) {
            return false;
        }
    }
    return true;
}

static const char *const layout_names[] = {"dense", "pitched", "strided"};

/* Whether arrays of the layout may run the variant, and it is one of that layout's own: what stands
 * before those for contiguous arrays is tried first for these. */
static bool suits(const ls_image *image, uint32_t number, Layout layout) {
    static const ls_image_layout own[] = {[LAYOUT_DENSE] = LS_LAYOUT_DENSE,
                                          [LAYOUT_PITCHED] = LS_LAYOUT_PITCHED,
                                          [LAYOUT_STRIDED] = LS_LAYOUT_STRIDED};
    bool first = layout == LAYOUT_DENSE;
    for (uint32_t v = 0; v <= number; v++) first &= image->variants[v].layout != LS_LAYOUT_DENSE;
    return first || image->variants[number].layout == own[layout];
}

static uint32_t variants_of(const ls_image *image, Layout layout) {
    uint32_t count = 0;
    for (uint32_t v = 0; v < image->variant_count; v++) count += suits(image, v, layout);
    return count;
}

/* Every variant has its turn, which the runtime alone would not give it at these sizes: those
 * before it are taken out of the runtime's choice, and its conditions hold whatever the sizes,
 * unless it would be wrong elsewhere.
 * Every other time blocks that wait for each other do so however little there is to do, and strips
 * are as short as they can be. The image's
 * tables are memory of the loaded program. */
static void choose_variant(const Limits *limits, Layout layout, uint32_t turn, bool waits) {
    const ls_image *image = limits->image;
    ls_image_variant *variants = (ls_image_variant *)(uintptr_t)image->variants;
    turn %= variants_of(image, layout) + !variants_of(image, layout);
    for (uint32_t v = 0; v < image->variant_count && v < VARIANTS; v++) {
        const bool before = suits(image, v, layout) && turn > 0;
        turn -= before;
        variants[v].work_limit = before ? 0 : limits->work[v];
        variants[v].one_block_limit = waits ? 0 : limits->block[v];
        if (variants[v].strips)
            ((ls_image_strips *)(uintptr_t)variants[v].strips)->work = waits ? 1 : limits->strip[v];
        for (uint32_t i = 0; i < variants[v].condition_count; i++) {
            ls_image_condition *c = (ls_image_condition *)(uintptr_t)&variants[v].conditions[i];
            if (c->required) continue;
            c->at_least = 0;
            c->at_most = UINT64_MAX;
        }
    }
}

/* The image that the step has, and those of its parts. */
static const ls_image *image_of(const ls_image *image, uint32_t number) {
    return number ? image->parts[number - 1].image : image;
}

static void choose_variants(const Run *run, ls_step *step, Layout layout, bool waits) {
    const uint32_t turn = run->turns[layout]++;
    for (uint32_t i = 0; i <= run->image->part_count; i++) {
        Limits limits = run->limits[i];
        limits.image = image_of(ls_step_image(step), i);
        choose_variant(&limits, layout, turn + i, waits);
    }
}

/* Marks the variants of the name that the last launch had. */
static void mark_variant(Run *run, ls_step *step) {
    ls_step_statistics statistics;
    if (ls_step_stats(step, &statistics) != LS_OK || !statistics.variant) return;
    for (uint32_t v = 0; v < run->image->variant_count && v < VARIANTS; v++)
        run->ran[v] |= strcmp(run->image->variants[v].name, statistics.variant) == 0;
}

static bool run_on(Run *run, size_t context_index, ls_step *step, Layout layout, uint64_t *state) {
    ls_context *context = run->runner->contexts[context_index];
    choose_variants(run, step, layout, random_bits(state) % 2 != 0);
    for (uint32_t i = 0; i < run->image->parameter_count; i++)
        array_place(&run->arrays[i], layout, state);
    bool ok = bind_all(run, context, step, layout) && set_shard(run, context, step) &&
              launch_all(run, context, step, layout) && read_back(run, context, step, layout);
    bounds_clear();
    if (ok) runner_count_variant(run->runner, step), mark_variant(run, step);
    char situation[256], sizes[128] = "";
    for (uint32_t i = 0, used = 0; i < run->image->axis_count && used < sizeof sizes - 32; i++)
        if (run->sizes->of[i])
            used += (uint32_t)snprintf(sizes + used, sizeof sizes - used, " %s=%" PRId64 "%s",
                                       run->image->axes[i].name, run->sizes->of[i][0],
                                       run->image->axes[i].parent ? "+.." : "");
    ls_step_statistics statistics = {.variant = "no plan"};
    if (ok) ls_step_stats(step, &statistics);
    snprintf(situation, sizeof situation,
             "%s:%s%s, %s inputs, %s arrays%s, %s threads, plan '%s', seed %" PRIu64,
             run->program->name, run->image->step, sizes, fill_names[run->fill],
             layout_names[layout], run->sparing ? ", optional outs unbound" : "",
             run->runner->threads[context_index], statistics.variant ? statistics.variant : "?",
             run->runner->seed);
    size_t bad = 0;
    for (uint32_t i = 0; ok && i < run->image->parameter_count && bad < 8; i++)
        if (!is_spared(run, i))
            bad +=
                !compare_array(run->arrays, run->image->parameter_count, i, run->image, situation);
    if (!ok) printf("  FAILED %s\n", situation);
    for (uint32_t i = 0; i < run->image->parameter_count; i++) {
        if (run->arrays[i].device) ls_free(context, run->arrays[i].device);
        run->arrays[i].device = NULL;
    }
    run->runner->runs++;
    run->runner->mismatches += bad;
    return ok && bad == 0;
}

/* Of the matrix's largest each program has one of the first two fills: both would cost minutes in
 * all. Zeros tell what they have to tell in fewer tiles. */
static bool is_left_out(const Run *run, size_t largest) {
    const bool *fills = run->directives->fill;
    unsigned sum = 0;
    if (run->runner->nests && largest > NESTS_LARGE) return true;
    if (run->runner->quick && largest > QUICK_LARGE && !run->directives->large) return true;
    if ((run->fill == FILL_MINUS || run->fill == FILL_ZEROS) && largest > ZEROS_LARGE) return true;
    if (!run->program->single || largest <= LARGE || !fills[0] || !fills[1]) return false;
    for (const char *c = run->program->name; *c; c++) sum += (unsigned char)*c;
    return run->fill == (Fill)(sum % 2);
}

/* Of a list without tensors only those bound would say so. */
static bool has_optional(const Run *run) {
    bool any = false;
    for (uint32_t i = 0; i < run->image->parameter_count; i++) {
        if (run->arrays[i].list && run->arrays[i].tensor_count == 0) return false;
        any |= run->image->parameters[i].optional;
    }
    return any;
}

/* The contexts a run goes to: all of them when the arrays are large enough for threads to share,
 * but for the matrix's largest elementwise ones, where a second opinion would cost minutes too. */
static bool run_at(Run *run, const Function *function, ls_step *steps[CONTEXTS][STEPS],
                   uint32_t rounds, uint64_t *state) {
    make_inputs(run, state);
    size_t largest = 0;
    for (uint32_t i = 0; i < run->image->parameter_count; i++)
        if (run->arrays[i].count > largest) largest = run->arrays[i].count;
    bool ok = true;
    if (!is_left_out(run, largest)) {
        const size_t count = run->runner->context_count;
        const bool dense = variants_of(run->image, LAYOUT_DENSE) > 0;
        const bool strided = variants_of(run->image, LAYOUT_STRIDED) > 0;
        const bool pitched = variants_of(run->image, LAYOUT_PITCHED) > 0;
        ok = interpret_all(run, function);
        if (ok && run->runner->nests && !run->runner->oracle.sequence) ok = run_nests(run);
        if (run->runner->nests) rounds = 0;
        for (uint32_t round = 0; ok && round < rounds; round++) {
            const size_t turn = random_bits(state) % count;
            for (size_t c = 0; ok && dense && c < count; c++)
                if (c == turn || (largest > 4000 && !(run->program->single && largest > LARGE)))
                    ok = run_on(run, c, steps[c][LAYOUT_DENSE], LAYOUT_DENSE, state) && ok;
            const Layout other =
                pitched && random_bits(state) % 3 ? LAYOUT_PITCHED : LAYOUT_STRIDED;
            if (ok && (other == LAYOUT_PITCHED || strided))
                ok = run_on(run, turn, steps[turn][other], other, state);
            run->sparing = true;
            if (ok && dense && has_optional(run))
                ok = run_on(run, turn, steps[turn][SPARING], LAYOUT_DENSE, state);
            run->sparing = false;
        }
    }
    for (uint32_t i = 0; i < run->image->parameter_count; i++) array_close(&run->arrays[i]);
    return ok;
}

/* Whether the fill is run at the size, by their numbers. On GPUs, emulated ones, the suite has one
 * fill for each size, in turn; the CPU has all of both. */
static bool has_turn(const Runner *runner, const Directives *directives, size_t set, int fill) {
    size_t fills = 0, number = 0;
    for (int i = 0; i < FILL_COUNT; i++) {
        number += i < fill && directives->fill[i];
        fills += directives->fill[i];
    }
    const bool all =
        !(runner->suite || runner->sample) || strcmp(runner->device, LS_TARGET_CPU) == 0;
    return directives->fill[fill] && (all || fills > directives->set_count ||
                                      (set + set / directives->set_count) % fills == number);
}

/* So many times each size is run that every variant has its turn. In a sample it is once; in the
 * suite too, and sizes come again. */
static uint32_t rounds_of(const Runner *runner, const Directives *directives, uint32_t most) {
    uint32_t runs = 0;
    for (size_t fill = 0; fill < FILL_COUNT; fill++)
        runs += (uint32_t)(directives->fill[fill] * directives->set_count);
    return runner->sample || runner->suite || runs == 0 ? 1 : (most + runs - 1) / runs;
}

/* In the suite sizes come again until every variant has run. Some give their turns up, which are at
 * sizes not theirs, and some have no size here: at most three turns each. */
static bool comes_again(const Runner *runner, const ls_image *image, const bool *ran, size_t set,
                        uint32_t most) {
    bool all = true;
    if (!runner->suite || set >= 3 * most) return false;
    for (uint32_t v = 0; v < image->variant_count && v < VARIANTS; v++) all &= ran[v];
    return set < most || !all;
}

/* In the suite: which variants have no size here, or no turn at one. */
static void print_never_ran(const Runner *runner, const ls_image *image, const bool *ran,
                            const char *step) {
    for (uint32_t v = 0; runner->suite && v < image->variant_count && v < VARIANTS; v++)
        if (!ran[v]) printf("  never ran: plan '%s' of %s\n", image->variants[v].name, step);
}

static bool run_step(Runner *runner, const Program *program, const Directives *directives,
                     const Function *function, ls_program *const *loaded, const char *name,
                     uint64_t *state) {
    ls_step *steps[CONTEXTS][STEPS] = {{NULL}};
    bool ok = true;
    for (size_t c = 0; ok && c < runner->context_count; c++)
        for (size_t layout = 0; ok && layout < STEPS; layout++)
            ok = runner_check(runner, runner->contexts[c],
                              ls_step_create(loaded[c], name, &steps[c][layout]), name);
    const ls_image *image = ok ? ls_step_image(steps[0][0]) : NULL;
    if (ok && image->parameter_count > PARAMETERS) {
        printf("  %s has more than %d parameters\n", name, PARAMETERS);
        ok = false;
    }
    Run *run = must_allocate(sizeof *run);
    const uint32_t images = ok ? image->part_count + 1 : 0;
    Limits *limits = must_allocate((images + 1) * sizeof *limits);
    for (uint32_t i = 0; i < images; i++) {
        limits[i].image = image_of(image, i);
        for (uint32_t v = 0; v < limits[i].image->variant_count && v < VARIANTS; v++) {
            limits[i].work[v] = limits[i].image->variants[v].work_limit;
            limits[i].block[v] = limits[i].image->variants[v].one_block_limit;
            if (limits[i].image->variants[v].strips)
                limits[i].strip[v] = limits[i].image->variants[v].strips->work;
        }
    }
    uint32_t turns[LAYOUT_COUNT] = {(uint32_t)random_bits(state) % 64,
                                    (uint32_t)random_bits(state) % 64,
                                    (uint32_t)random_bits(state) % 64};
    uint32_t most = 1;
    bool ran[VARIANTS] = {false};
    runner->large = 0;
    for (int layout = 0; layout < LAYOUT_COUNT; layout++)
        for (uint32_t i = 0; i < images; i++)
            if (variants_of(limits[i].image, (Layout)layout) > most)
                most = variants_of(limits[i].image, (Layout)layout);
    const size_t sets = directives->set_count;
    for (size_t set = 0; ok && (set < sets || comes_again(runner, image, ran, set, most)); set++) {
        Sizes sizes;
        if (!sizes_open(&sizes, &directives->sets[set % sets], image)) {
            printf("  the directives of %s do not name every axis of %s\n", program->name, name);
            ok = false;
        }
        for (int fill = 0; ok && fill < FILL_COUNT; fill++) {
            if (!has_turn(runner, directives, set, fill)) continue;
            *run = (Run){.runner = runner,
                         .program = program,
                         .directives = directives,
                         .image = image,
                         .sizes = &sizes,
                         .fill = (Fill)fill,
                         .limits = limits,
                         .turns = turns,
                         .ran = ran};
            ok = run_at(run, function, steps, rounds_of(runner, directives, most), state);
        }
        sizes_close(&sizes);
    }
    if (ok) print_never_ran(runner, image, ran, name);
    free(run);
    free(limits);
    for (size_t c = 0; c < runner->context_count; c++)
        for (size_t layout = 0; layout < STEPS; layout++)
            if (steps[c][layout]) ls_step_destroy(steps[c][layout]);
    return ok;
}

/* The name is part of the seed, so that a program alone sees what it sees among all. */
static uint64_t program_seed(const Runner *runner, const Program *program) {
    uint64_t state = runner->seed;
    for (const char *c = program->name; *c; c++)
        state = (state ^ (uint64_t)(uint8_t)*c) * 0x100000001b3u;
    return state;
}

bool run_loaded(Runner *runner, const Program *program, const Directives *directives,
                ls_compilation *compilation, ls_program *const *loaded) {
    uint64_t state = program_seed(runner, program);
    const size_t steps = ls_compilation_step_count(compilation);
    bool ok = true;
    const size_t count = runner->sample && steps > STEPS_MOST ? STEPS_MOST : steps;
    const size_t begin = steps ? state % steps : 0;
    for (size_t i = 0; i < count; i++) {
        const size_t s = (begin + i) % steps;
        const Function *function = compilation_function(compilation, s, STAGE_DERIVED);
        if (!function) {
            printf("  %s\n", ls_compilation_message(compilation));
            return false;
        }
        runner->oracle = (Oracle){.sequence = compilation_sequence(compilation, s)};
        if (runner->oracle.sequence && (runner->oracle.sequence->part_count > PARTS ||
                                        runner->oracle.sequence->source->part_count > PARTS)) {
            printf("  %s has more than %d parts\n", ls_compilation_step_name(compilation, s),
                   PARTS);
            return false;
        }
        for (size_t p = 0; runner->oracle.sequence && p < runner->oracle.sequence->part_count;
             p++) {
            runner->oracle.parts[p] = compilation_part(compilation, s, p, STAGE_DERIVED);
            runner->oracle.planned[p] = compilation_part(compilation, s, p, STAGE_GATHERED);
        }
        for (size_t p = 0;
             runner->oracle.sequence && p < runner->oracle.sequence->source->part_count; p++)
            runner->oracle.source[p] = runner->oracle.sequence->source->parts[p].function;
        runner->planned = compilation_function(compilation, s, STAGE_GATHERED);
        runner->nests_made = NULL;
        ok = run_step(runner, program, directives, function, loaded,
                      ls_compilation_step_name(compilation, s), &state) &&
             ok;
    }
    return ok;
}
