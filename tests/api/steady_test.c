/* steady_test.c: training in its stride allocates nothing: once steps are bound and have run, what
 * a trainer does between two batches, launches, replays, numbers set and read, asks the C library
 * for no memory, whether one thread does the work or several. Skipped where there is no host
 * compiler. */
#include "failing_memory.h"
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>

static const char source[] =
    "step train[b, k](x: f32[b, k], y: f32[b], inout w: f32[k], inout bias: f32, inout seen: i64,\n"
    "                 out loss: f32, lr: f32 = 0.01) {\n"
    "    let l = mean((sum[k](x * w) + bias - y) ** 2)\n"
    "    let dw, dbias = grad(l, w, bias)\n"
    "    w -= lr * dw\n"
    "    bias -= lr * dbias\n"
    "    seen += size(b)\n"
    "    loss = l\n"
    "}\n"
    "step decay[t, n of t](inout p: f32[t, n], factor: f32[t], out norm: f32) {\n"
    "    norm = sqrt(sum(p ** 2))\n"
    "    p -= factor * p\n"
    "}\n";

enum { TENSORS = 5, LAUNCHES = 50, PLENTY = 1 << 20 };

typedef struct Training {
    ls_context *context;
    ls_program *program;
    ls_step *train, *decay;
    ls_graph *graph;
    float *memory;
} Training;

static void bind(const Training *t, ls_step *step, const char *name, size_t at, uint32_t rank,
                 const int64_t *shape) {
    const ls_tensor tensor = {t->memory + at, LS_F32, rank, shape, NULL};
    EXPECT_OK(t->context, ls_step_bind(step, name, &tensor));
}

static Training open_training(const char *threads, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns}, tensors[] = {TENSORS};
    const size_t elements = (size_t)(rows * columns);
    Training t = {.memory = calloc(2 * elements + (size_t)(rows + columns) + TENSORS, 4)};
    ls_tensor list[TENSORS];
    assert_non_null(t.memory);
    assert_int_equal(setenv("LOCKSTEP_THREADS", threads, 1), 0);
    /* or code for the lengths of the rows comes when it comes */
    assert_int_equal(setenv("LOCKSTEP_LENGTHS", "now", 1), 0);
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &t.context));
    EXPECT_OK(t.context, ls_program_load_text(t.context, "steady.step", source, sizeof source - 1,
                                              NULL, &t.program));
    EXPECT_OK(t.context, ls_step_create(t.program, "train", &t.train));
    EXPECT_OK(t.context, ls_step_create(t.program, "decay", &t.decay));
    bind(&t, t.train, "x", 0, 2, shape);
    bind(&t, t.train, "y", 2 * elements, 1, &shape[0]);
    bind(&t, t.train, "w", 2 * elements + (size_t)rows, 1, &shape[1]);
    EXPECT_OK(t.context, ls_step_set_number(t.train, "bias", 0));
    EXPECT_OK(t.context, ls_step_set_number(t.train, "seen", 0));
    for (int i = 0; i < TENSORS; i++)
        list[i] = (ls_tensor){t.memory + elements + (size_t)i * (elements / TENSORS), LS_F32, 1,
                              i % 2 ? &shape[0] : &shape[1], NULL};
    EXPECT_OK(t.context, ls_step_bind_list(t.decay, "p", list, TENSORS));
    bind(&t, t.decay, "factor", 2 * elements + (size_t)(rows + columns), 1, tensors);
    EXPECT_OK(t.context, ls_step_launch(t.train)); /* what is compiled is so before a capture */
    EXPECT_OK(t.context, ls_step_launch(t.decay));
    EXPECT_OK(t.context, ls_graph_begin(t.context));
    EXPECT_OK(t.context, ls_step_launch(t.train));
    EXPECT_OK(t.context, ls_step_launch(t.decay));
    EXPECT_OK(t.context, ls_graph_end(t.context, &t.graph));
    return t;
}

/* What happens between two batches. */
static void train_a_while(const Training *t) {
    for (int i = 0; i < LAUNCHES; i++) {
        float loss, norm;
        const float lr = 0.01f / (float)(i + 1);
        EXPECT_OK(t->context, ls_step_set(t->train, "lr", &lr));
        EXPECT_OK(t->context, ls_step_launch(t->train));
        EXPECT_OK(t->context, ls_step_launch(t->decay));
        EXPECT_OK(t->context, ls_graph_launch(t->graph));
        EXPECT_OK(t->context, ls_graph_repeat(t->graph, 3));
        EXPECT_OK(t->context, ls_step_get(t->train, "loss", &loss));
        EXPECT_OK(t->context, ls_step_get(t->decay, "norm", &norm));
        EXPECT_OK(t->context, ls_synchronize(t->context));
    }
}

static void close_training(Training *t) {
    ls_graph_destroy(t->graph);
    ls_step_destroy(t->decay);
    ls_step_destroy(t->train);
    ls_program_destroy(t->program);
    ls_context_destroy(t->context);
    free(t->memory);
}

static void check(const char *threads, int64_t rows, int64_t columns) {
    Training t = open_training(threads, rows, columns);
    train_a_while(&t);
    memory_until_failure = PLENTY; /* goes down by one for each */
    train_a_while(&t);
    const long taken = PLENTY - memory_until_failure;
    memory_until_failure = 0;
    assert_int_equal(taken, 0);
    memory_until_failure = PLENTY; /* the count does count */
    ls_step *another;
    EXPECT_OK(t.context, ls_step_create(t.program, "train", &another));
    ls_step_destroy(another);
    assert_true(memory_until_failure < PLENTY);
    memory_until_failure = 0;
    close_training(&t);
}

static void one_thread(void **state) {
    (void)state;
    check("1", 64, 40);
}

static void several_threads(void **state) {
    (void)state;
    check("3", 4096, 70);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread),
                                       cmocka_unit_test(several_threads)};
    char version[256];
    if (!ls_toolchain_describe("host", version, sizeof version)) {
        printf("no host compiler: %s\n", version);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
