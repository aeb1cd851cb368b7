/* training.c: the loop of examples/linreg for 1,000 steps, and the hash of everything it leaves
 * behind. A change of the hash is a change of what programs compute, on every machine: a deliberate
 * act that comes with a new numeric version. */
#include "exec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/linreg/data.h"
#include "base/base.h"
#include "ir/ir.h"
#include "interp.h"

#define GOLDEN UINT64_C(0x8622c2e2e5e883e3)

enum { SAMPLES = 10000, FEATURES = 64, BATCH = 256, STEPS = 1000 };
enum { BATCHES = (SAMPLES + BATCH - 1) / BATCH };
enum { REPEATED = 5 }; /* epochs, the last ones */
_Static_assert(STEPS % BATCHES == 0, "the last epochs are whole");

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
    return hash;
}

typedef struct Cells {
    int64_t seen;
    float loss_sum, bias, w[FEATURES];
    uint8_t nan_seen;
} Cells;

static bool bind(Runner *runner, ls_context *context, ls_step *step, const char *name, void *data,
                 ls_type type, uint32_t rank, const int64_t *shape) {
    const ls_tensor tensor = {.data = data, .type = type, .rank = rank, .shape = shape};
    return runner_check(runner, context, ls_step_bind(step, name, &tensor), name);
}

static bool bind_batch(Runner *runner, ls_context *context, ls_step *step, size_t batch, float *x,
                       float *y, char *cells) {
    const size_t first = batch * BATCH, rest = SAMPLES - first;
    const int64_t shape[2] = {rest < BATCH ? (int64_t)rest : BATCH, FEATURES}, features = FEATURES;
    return bind(runner, context, step, "x", x + first * FEATURES, LS_F32, 2, shape) &&
           bind(runner, context, step, "y", y + first, LS_F32, 1, shape) &&
           bind(runner, context, step, "w", cells + offsetof(Cells, w), LS_F32, 1, &features) &&
           bind(runner, context, step, "bias", cells + offsetof(Cells, bias), LS_F32, 0, NULL) &&
           bind(runner, context, step, "loss_sum", cells + offsetof(Cells, loss_sum), LS_F32, 0,
                NULL) &&
           bind(runner, context, step, "seen", cells + offsetof(Cells, seen), LS_I64, 0, NULL) &&
           bind(runner, context, step, "nan_seen", cells + offsetof(Cells, nan_seen), LS_BOOL, 0,
                NULL);
}

/* An epoch as one graph, several times with one call. */
static bool repeat_epochs(Runner *runner, ls_context *context, ls_step *const *steps) {
    ls_graph *graph = NULL;
    bool ok = runner_check(runner, context, ls_graph_begin(context), "ls_graph_begin");
    for (size_t b = 0; ok && b < BATCHES; b++)
        ok = runner_check(runner, context, ls_step_launch(steps[b]), "ls_step_launch");
    ok = ok && runner_check(runner, context, ls_graph_end(context, &graph), "ls_graph_end") &&
         runner_check(runner, context, ls_graph_repeat(graph, REPEATED), "ls_graph_repeat") &&
         runner_check(runner, context, ls_synchronize(context), "ls_synchronize");
    if (graph) ls_graph_destroy(graph);
    return ok;
}

/* Trains on one context; even batches are launched, odd ones are replayed from a graph, and the
 * last epochs are one call. */
static bool train(Runner *runner, ls_context *context, const float *x, const float *y,
                  Cells *cells) {
    ls_program *program = NULL;
    ls_step *steps[BATCHES] = {NULL};
    ls_graph *graphs[BATCHES] = {NULL};
    void *device[3] = {NULL};
    const size_t sizes[3] = {sizeof *x * SAMPLES * FEATURES, sizeof *y * SAMPLES, sizeof *cells};
    const void *host[3] = {x, y, cells};
    bool ok = runner_check(
        runner, context,
        ls_program_load(context, EXEC_SOURCE "/examples/linreg/linreg.step", NULL, &program),
        "linreg.step");
    for (size_t i = 0; ok && i < 3; i++)
        ok = runner_check(runner, context, ls_alloc(context, sizes[i], &device[i]), "ls_alloc") &&
             runner_check(runner, context, ls_copy_in(context, device[i], host[i], sizes[i]),
                          "ls_copy_in");
    for (size_t b = 0; ok && b < BATCHES; b++) {
        ok =
            runner_check(runner, context, ls_step_create(program, "linreg", &steps[b]), "linreg") &&
            bind_batch(runner, context, steps[b], b, device[0], device[1], device[2]) &&
            runner_check(runner, context, ls_step_prepare(steps[b]), "ls_step_prepare");
        if (ok && b % 2)
            ok = runner_check(runner, context, ls_graph_begin(context), "ls_graph_begin") &&
                 runner_check(runner, context, ls_step_launch(steps[b]), "ls_step_launch") &&
                 runner_check(runner, context, ls_graph_end(context, &graphs[b]), "ls_graph_end");
    }
    for (size_t step = 0; ok && step < STEPS - REPEATED * BATCHES; step++) {
        const size_t b = step % BATCHES;
        ok = graphs[b]
                 ? runner_check(runner, context, ls_graph_launch(graphs[b]), "ls_graph_launch")
                 : runner_check(runner, context, ls_step_launch(steps[b]), "ls_step_launch");
    }
    ok = ok && repeat_epochs(runner, context, steps) &&
         runner_check(runner, context, ls_copy_out(context, cells, device[2], sizeof *cells),
                      "ls_copy_out");
    for (size_t b = 0; b < BATCHES; b++) {
        if (graphs[b]) ls_graph_destroy(graphs[b]);
        if (steps[b]) ls_step_destroy(steps[b]);
    }
    if (program) ls_program_destroy(program);
    for (size_t i = 0; i < 3; i++)
        if (device[i]) ls_free(context, device[i]);
    return ok;
}

/* The same loop in the interpreter. */
static bool train_interpreted(const float *x, const float *y, Cells *cells) {
    ls_compilation *compilation = NULL;
    bool ok =
        ls_compile_file(EXEC_SOURCE "/examples/linreg/linreg.step", NULL, &compilation) == LS_OK;
    const Function *function = ok ? compilation_function(compilation, 0, STAGE_DERIVED) : NULL;
    float lr = 0.01f; /* the default of linreg.step */
    for (size_t step = 0; function && step < STEPS; step++) {
        const size_t first = step % BATCHES * BATCH, rest = SAMPLES - first;
        const int64_t sizes[2] = {rest < BATCH ? (int64_t)rest : BATCH, FEATURES};
        void *const data[] = {(void *)(uintptr_t)(x + first * FEATURES),
                              (void *)(uintptr_t)(y + first),
                              cells->w,
                              &cells->bias,
                              &cells->loss_sum,
                              &cells->seen,
                              &cells->nan_seen,
                              &lr};
        if (!interpret_plain(function, sizes, data)) function = NULL;
    }
    if (!function) printf("  the interpreter cannot run linreg.step\n");
    ls_compilation_destroy(compilation);
    return function != NULL;
}

static uint64_t hash_cells(const Cells *cells) {
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, cells->w, sizeof cells->w);
    hash = hash_bytes(hash, &cells->bias, sizeof cells->bias);
    hash = hash_bytes(hash, &cells->loss_sum, sizeof cells->loss_sum);
    hash = hash_bytes(hash, &cells->seen, sizeof cells->seen);
    return hash_bytes(hash, &cells->nan_seen, sizeof cells->nan_seen);
}

static double distance_to(const float *weights, const Cells *cells) {
    double sum = 0;
    for (size_t k = 0; k < FEATURES; k++) {
        const double difference = (double)cells->w[k] - (double)weights[k];
        sum += difference * difference;
    }
    return sqrt(sum);
}

bool run_training(Runner *runner, bool print_hash) {
    float *x = must_allocate(sizeof *x * SAMPLES * FEATURES),
          *y = must_allocate(sizeof *y * SAMPLES);
    float weights[FEATURES];
    make_data(SAMPLES, FEATURES, 0.5f, 0.1f, x, y, weights);
    bool good = true, others = false;
    for (size_t c = 0; c <= runner->context_count; c++) { /* the last one is the interpreter */
        const bool interpreted = c == runner->context_count;
        const char *where = interpreted ? "interpreter" : runner->threads[c];
        Cells cells;
        memset(&cells, 0, sizeof cells);
        const bool ran = interpreted ? train_interpreted(x, y, &cells)
                                     : train(runner, runner->contexts[c], x, y, &cells);
        const uint64_t hash = hash_cells(&cells);
        const double distance = distance_to(weights, &cells);
        const bool learnt = distance < 0.05 && !cells.nan_seen, same = hash == GOLDEN;
        runner->runs++;
        if (print_hash || (ran && !same))
            printf("  training hash 0x%016" PRIx64 " (expected 0x%016" PRIx64 "), %s: %s\n", hash,
                   GOLDEN, interpreted ? "by" : "threads", where);
        if (ran && !learnt)
            printf("  training did not learn: %.6f from the true weights\n", distance);
        others = others || (ran && !same);
        runner->mismatches += !(ran && learnt && same);
        good = good && ran && learnt && same;
    }
    if (others)
        puts(
            "  1,000 steps of training leave other bits than before. Where only some of the hashes "
            "above\n  are new, those who have them are wrong. Where all are, what programs compute "
            "has changed;\n  if that is meant, it is a new numeric version: raise NUMERIC_SERIAL "
            "in compiler/target/target.h (a text in\n  templates/ counts by itself), put the new "
            "hash "
            "into tests/exec/training.c, and say so in\n  the commit.");
    free(x);
    free(y);
    return good;
}
