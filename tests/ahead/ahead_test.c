/* ahead_test.c: steps built ahead of time give the bits of the same steps compiled at run time, on
 * every target the files hold: the CPU, and emulated GPUs in place of CUDA's and HIP's libraries
 * (ahead_test_on_cuda, ahead_test_on_hip). */
#include <stdlib.h>
#include <string.h>

#include "adamw.h"
#include "adamw_8bit.h"
#include "dropout_forward.h"
#include "fixtures.h"
#include "layer_norm_backward.h"
#include "linreg.h"
#include "loops.h"
#include "net_adamw.h"
#include "quantise.h"

typedef struct Run {
    ls_context *context;
    ls_program *program; /* compiled now */
    ls_step *ahead, *now;
} Run;

static Run open_run(void) {
    Run run = {0};
    if (ls_context_create("cpu", NULL, &run.context) != LS_OK)
        fail_msg("%s", ls_error_message(NULL));
    return run;
}

static void load(Run *run, const char *file, const char *step) {
    EXPECT_OK(run->context, ls_program_load(run->context, file, NULL, &run->program));
    EXPECT_OK(run->context, ls_step_create(run->program, step, &run->now));
}

static void close_run(Run *run) {
    ls_step_destroy(run->ahead);
    ls_step_destroy(run->now);
    ls_program_destroy(run->program);
    ls_context_destroy(run->context);
}

/* `count` numbers on the device, the same for the same seed. */
static void *numbers(const Run *run, size_t count, uint32_t seed) {
    float *host = malloc((count + 1) * sizeof *host);
    void *made;
    assert_non_null(host);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        host[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    EXPECT_OK(run->context, ls_alloc(run->context, (count + 1) * sizeof *host, &made));
    EXPECT_OK(run->context, ls_copy_in(run->context, made, host, count * sizeof *host));
    free(host);
    return made;
}

/* A length that is meant to be 0 is said to be so. */
static int64_t length(int64_t n) {
    return n ? n : LS_EMPTY;
}

static void expect_same(const Run *run, const void *a, const void *b, size_t bytes) {
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    assert_non_null(x);
    assert_non_null(y);
    EXPECT_OK(run->context, ls_copy_out(run->context, x, a, bytes));
    EXPECT_OK(run->context, ls_copy_out(run->context, y, b, bytes));
    assert_memory_equal(x, y, bytes);
    free(x);
    free(y);
}

static void bind(const Run *run, const char *name, void *data, uint32_t rank,
                 const int64_t *shape) {
    const ls_tensor tensor = {.data = data, .type = LS_F32, .rank = rank, .shape = shape};
    EXPECT_OK(run->context, ls_step_bind(run->now, name, &tensor));
}

static void test_arrays_and_cells(void **state) {
    enum { B = 37, K = 5 };
    const int64_t shape[] = {B, K};
    Run run = open_run();
    (void)state;
    load(&run, LINREG, "linreg");
    void *x = numbers(&run, B * K, 1), *y = numbers(&run, B, 2);
    void *w[2] = {numbers(&run, K, 3), numbers(&run, K, 3)};
    const struct linreg_args args = {.b = B, .k = K, .x = x, .y = y, .w = w[0]};
    EXPECT_OK(run.context, linreg_bind(run.context, &args, &run.ahead));
    EXPECT_FAILURE(run.context, ls_step_launch(run.ahead), LS_ERROR_BIND, "bias", "seen");
    static const char *const cells[] = {"bias", "loss_sum", "seen", "nan_seen"};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        EXPECT_OK(run.context, ls_step_set_number(run.ahead, cells[i], 0));
        EXPECT_OK(run.context, ls_step_set_number(run.now, cells[i], 0));
    }
    bind(&run, "x", x, 2, shape);
    bind(&run, "y", y, 1, shape);
    bind(&run, "w", w[1], 1, shape + 1);
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(run.context, ls_step_launch(run.ahead));
        EXPECT_OK(run.context, ls_step_launch(run.now));
    }
    expect_same(&run, w[0], w[1], K * sizeof(float));
    float losses[2];
    int64_t seen;
    EXPECT_OK(run.context, ls_step_get(run.ahead, "loss_sum", &losses[0]));
    EXPECT_OK(run.context, ls_step_get(run.now, "loss_sum", &losses[1]));
    EXPECT_OK(run.context, ls_step_get(run.ahead, "seen", &seen));
    assert_memory_equal(&losses[0], &losses[1], sizeof losses[0]);
    assert_int_equal(seen, 3 * B);
    close_run(&run);
}

static void test_lists(void **state) {
    enum { T = 4 };
    static const int64_t lengths[T] = {1025, 0, 1, 300};
    const char *const names[] = {"p", "m", "v", "g"};
    void *lists[2][4][T];
    float *p[2][T], *m[2][T], *v[2][T];
    const float *g[2][T];
    Run run = open_run();
    (void)state;
    load(&run, "std/optim", "adamw");
    for (int side = 0; side < 2; side++)
        for (uint32_t t = 0; t < T; t++) {
            for (uint32_t i = 0; i < 4; i++)
                lists[side][i][t] = numbers(&run, (size_t)lengths[t], i == 2 ? 7 : 10 * t + i);
            p[side][t] = lists[side][0][t];
            m[side][t] = lists[side][1][t];
            v[side][t] = lists[side][2][t];
            g[side][t] = lists[side][3][t];
        }
    const struct adamw_args args = {
        .t = T, .n = lengths, .p = p[0], .m = m[0], .v = v[0], .g = g[0]};
    EXPECT_OK(run.context, adamw_bind(run.context, &args, &run.ahead));
    for (int i = 0; i < 4; i++) {
        ls_tensor tensors[T];
        for (int t = 0; t < T; t++) tensors[t] = tensor_of(lists[1][i][t], LS_F32, 1, &lengths[t]);
        EXPECT_OK(run.context, ls_step_bind_list(run.now, names[i], tensors, T));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(run.context, ls_step_launch(run.ahead));
        EXPECT_OK(run.context, ls_step_launch(run.now));
    }
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < T; t++)
            expect_same(&run, lists[0][i][t], lists[1][i][t], (size_t)lengths[t] * sizeof(float));
    close_run(&run);
}

/* Values in the structure do what device scalars do; one that does not begin with the defaults is
 * refused. */
static void test_values(void **state) {
    const int64_t n[] = {777};
    Run run = open_run();
    (void)state;
    load(&run, "std/optim", "adamw");
    float *p[2], *m[2], *v[2];
    const float *g = numbers(&run, 777, 4);
    for (int side = 0; side < 2; side++) {
        p[side] = numbers(&run, 777, 1);
        m[side] = numbers(&run, 777, 2);
        v[side] = numbers(&run, 777, 7);
    }
    struct net_adamw_args args = {net_adamw_defaults, .t = 1,     .n = n, .p = &p[0],
                                  .m = &m[0],         .v = &v[0], .g = &g};
    args.lr = 0.25f;
    args.decay = 0;
    EXPECT_OK(run.context, net_adamw_bind(run.context, &args, &run.ahead));
    float *const sides[] = {p[1], m[1], v[1], (float *)(uintptr_t)g};
    static const char *const names[] = {"p", "m", "v", "g"};
    for (int i = 0; i < 4; i++) {
        const ls_tensor tensor = tensor_of(sides[i], LS_F32, 1, n);
        EXPECT_OK(run.context, ls_step_bind_list(run.now, names[i], &tensor, 1));
    }
    EXPECT_OK(run.context, ls_step_set_number(run.now, "lr", 0.25));
    EXPECT_OK(run.context, ls_step_set_number(run.now, "decay", 0));
    EXPECT_OK(run.context, ls_step_launch(run.ahead));
    EXPECT_OK(run.context, ls_step_launch(run.now));
    expect_same(&run, p[0], p[1], sizeof(float[777]));
    expect_same(&run, v[0], v[1], sizeof(float[777]));
    args.defaults_ = 0;
    EXPECT_FAILURE(run.context, LS_ERROR_ARGUMENT, net_adamw_launch(run.context, &args),
                   "adamw_defaults");
    close_run(&run);
}

static void test_rows_and_columns(void **state) {
    enum { B = 70, C = 1100 };
    const int64_t shape[] = {B, C};
    Run run = open_run();
    (void)state;
    load(&run, "std/norms", "layer_norm_backward");
    void *x = numbers(&run, B * C, 1), *gain = numbers(&run, C, 2), *dy = numbers(&run, B * C, 3);
    void *shift = numbers(&run, C, 7);
    void *dx[2], *dgain[2], *dshift[2];
    for (int side = 0; side < 2; side++) {
        dx[side] = numbers(&run, B * C, 4);
        dgain[side] = numbers(&run, C, 5);
        dshift[side] = numbers(&run, C, 6);
    }
    struct layer_norm_backward_args args = {.b = B, .c = C, .x = x, .gain = gain, .dy = dy};
    args.shift = shift;
    args.dx = dx[0];
    args.dgain = dgain[0];
    args.dshift = dshift[0];
    EXPECT_OK(run.context, layer_norm_backward_launch(run.context, &args));
    bind(&run, "x", x, 2, shape);
    bind(&run, "gain", gain, 1, shape + 1);
    bind(&run, "shift", shift, 1, shape + 1);
    bind(&run, "dy", dy, 2, shape);
    bind(&run, "dx", dx[1], 2, shape);
    bind(&run, "dgain", dgain[1], 1, shape + 1);
    bind(&run, "dshift", dshift[1], 1, shape + 1);
    EXPECT_OK(run.context, ls_step_launch(run.now));
    expect_same(&run, dx[0], dx[1], B * C * sizeof(float));
    expect_same(&run, dgain[0], dgain[1], C * sizeof(float));
    expect_same(&run, dshift[0], dshift[1], C * sizeof(float));
    close_run(&run);
}

static void test_random_numbers_and_own_outputs(void **state) {
    enum { N = 5000 };
    const int64_t shape[] = {N};
    ls_tensor given[2];
    Run run = open_run();
    (void)state;
    load(&run, "std/activations", "dropout_forward");
    void *x = numbers(&run, N, 1);
    const struct dropout_forward_args args = {.n = N, .x = x};
    EXPECT_OK(run.context, dropout_forward_bind(run.context, &args, &run.ahead));
    bind(&run, "x", x, 1, shape);
    ls_step *steps[2] = {run.ahead, run.now};
    for (int side = 0; side < 2; side++) {
        EXPECT_OK(run.context, ls_step_want(steps[side], "y"));
        EXPECT_OK(run.context, ls_step_set_number(steps[side], "seed", 11));
        EXPECT_OK(run.context, ls_step_launch(steps[side]));
        EXPECT_OK(run.context, ls_step_output(steps[side], "y", &given[side]));
    }
    expect_same(&run, given[0].data, given[1].data, N * sizeof(float));
    close_run(&run);
}

/* Lengths that end within a block, at its end, and behind it: the arrays over blocks follow from
 * the one length that is given. */
static void test_blocks(void **state) {
    enum { K = 256 };
    static const int64_t lengths[] = {1000, 256, 257, 1, 0};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t n = lengths[i], q = (n + K - 1) / K, shape[] = {q, K};
        Run run = open_run();
        ls_tensor tensor;
        load(&run, QUANTISE, "quantise");
        void *x = numbers(&run, (size_t)n, 1), *w = numbers(&run, (size_t)(q * K), 2);
        void *scale[2], *code[2], *sums[2], *padded[2], *error[2];
        for (uint32_t side = 0; side < 2; side++) {
            scale[side] = numbers(&run, (size_t)q, 3);
            code[side] = numbers(&run, (size_t)n, 4); /* any bytes */
            sums[side] = numbers(&run, (size_t)q, 5 + side);
            /* what the last block lacks is not written */
            padded[side] = numbers(&run, (size_t)(q * K), 7);
            error[side] = numbers(&run, 1, 9 + side);
        }
        const struct quantise_args args = {.n = length(n),
                                           .x = x,
                                           .w = w,
                                           .scale = scale[0],
                                           .code = code[0],
                                           .sums = sums[0],
                                           .error = error[0],
                                           .padded = padded[0]};
        EXPECT_OK(run.context, quantise_bind(run.context, &args, &run.ahead));
        bind(&run, "x", x, 1, &n);
        bind(&run, "w", w, 2, shape);
        bind(&run, "scale", scale[1], 1, shape);
        bind(&run, "sums", sums[1], 1, shape);
        bind(&run, "error", error[1], 0, NULL);
        bind(&run, "padded", padded[1], 2, shape);
        tensor = tensor_of(code[1], LS_I8, 1, &n);
        EXPECT_OK(run.context, ls_step_bind(run.now, "code", &tensor));
        for (int launch = 0; launch < 2; launch++) {
            EXPECT_OK(run.context, ls_step_launch(run.ahead));
            EXPECT_OK(run.context, ls_step_launch(run.now));
        }
        expect_same(&run, scale[0], scale[1], (size_t)q * sizeof(float));
        expect_same(&run, code[0], code[1], (size_t)n);
        expect_same(&run, sums[0], sums[1], (size_t)q * sizeof(float));
        expect_same(&run, error[0], error[1], sizeof(float));
        expect_same(&run, padded[0], padded[1], (size_t)(q * K) * sizeof(float));
        close_run(&run);
    }
}

/* A list in blocks: bytes for codes, a scale for each block of each tensor. */
static void test_lists_of_blocks(void **state) {
    enum { T = 5, K = 256 };
    static const int64_t lengths[T] = {1000, 0, 256, 257, 1};
    static const char *const names[] = {"p", "m", "m_scale", "v", "v_scale", "g"};
    static const ls_type types[] = {LS_F32, LS_I8, LS_F32, LS_U8, LS_F32, LS_F32};
    enum { ARRAYS = 6 };
    void *lists[2][ARRAYS][T];
    int64_t shapes[ARRAYS][T];
    Run run = open_run();
    (void)state;
    load(&run, "std/optim", "adamw_8bit");
    for (uint32_t i = 0; i < ARRAYS; i++)
        for (uint32_t t = 0; t < T; t++) {
            shapes[i][t] = i == 2 || i == 4 ? (lengths[t] + K - 1) / K : lengths[t];
            for (int side = 0; side < 2; side++)
                lists[side][i][t] = numbers(&run, (size_t)shapes[i][t], 10 * i + t);
            for (int side = 0; side < 2 && i > 0 && i < 5; side++) /* codes and scales: zeros */
                EXPECT_OK(run.context, ls_fill_zero(run.context, lists[side][i][t],
                                                    (size_t)shapes[i][t] * ls_type_size(types[i])));
        }
    const struct adamw_8bit_args args = {.t = T,
                                         .n = lengths,
                                         .p = (float *const *)lists[0][0],
                                         .m = (int8_t *const *)lists[0][1],
                                         .m_scale = (float *const *)lists[0][2],
                                         .v = (uint8_t *const *)lists[0][3],
                                         .v_scale = (float *const *)lists[0][4],
                                         .g = (const float *const *)lists[0][5]};
    EXPECT_OK(run.context, adamw_8bit_bind(run.context, &args, &run.ahead));
    for (int i = 0; i < ARRAYS; i++) {
        ls_tensor tensors[T];
        for (int t = 0; t < T; t++)
            tensors[t] = tensor_of(lists[1][i][t], types[i], 1, &shapes[i][t]);
        EXPECT_OK(run.context, ls_step_bind_list(run.now, names[i], tensors, T));
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(run.context, ls_step_launch(run.ahead));
        EXPECT_OK(run.context, ls_step_launch(run.now));
    }
    for (int i = 0; i < ARRAYS; i++)
        for (int t = 0; t < T; t++)
            expect_same(&run, lists[0][i][t], lists[1][i][t],
                        (size_t)shapes[i][t] * ls_type_size(types[i]));
    close_run(&run);
}

/* A cell of the step's own begins anew with every launch that lets go; one given goes on. */
static void test_cells_last_where_they_are_given(void **state) {
    static const int64_t lengths[1] = {0};
    Run run = open_run();
    (void)state;
    void *count;
    int32_t counted = 5;
    EXPECT_OK(run.context, ls_alloc(run.context, sizeof counted, &count));
    EXPECT_OK(run.context, ls_copy_in(run.context, count, &counted, sizeof counted));
    float *none[1] = {NULL};
    const float *no_gradient[1] = {NULL};
    const struct adamw_args args = {
        .t = 1, .n = lengths, .p = none, .m = none, .v = none, .g = no_gradient, .count = count};
    EXPECT_OK(run.context, adamw_launch(run.context, &args));
    EXPECT_OK(run.context, adamw_launch(run.context, &args));
    EXPECT_OK(run.context, ls_copy_out(run.context, &counted, count, sizeof counted));
    assert_int_equal(counted, 7);
    ls_free(run.context, count);
    ls_context_destroy(run.context);
}

/* Slices that begin on a 16-byte boundary and such that do not; no iteration at all. */
static void test_loops(void **state) {
    static const int64_t lengths[][3] = {{6, 3, 40}, {5, 0, 7}, {0, 10, 3}, {1, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t t = lengths[i][0], k = lengths[i][1], n = lengths[i][2], shape[] = {t, n};
        Run run = open_run();
        load(&run, LOOPS, "loops");
        void *x = numbers(&run, (size_t)(t * n), 1), *s[2], *y[2], *ticks[2];
        float counted = 0, expected = 0;
        for (uint32_t side = 0; side < 2; side++) {
            s[side] = numbers(&run, (size_t)n, 2);
            y[side] = numbers(&run, (size_t)(t * n), 3 + side);
            ticks[side] = numbers(&run, 1, 5 + side);
        }
        const struct loops_args args = {
            .t = length(t), .k = k, .n = n, .x = x, .s = s[0], .y = y[0], .ticks = ticks[0]};
        EXPECT_OK(run.context, loops_bind(run.context, &args, &run.ahead));
        bind(&run, "x", x, 2, shape);
        bind(&run, "s", s[1], 1, shape + 1);
        bind(&run, "y", y[1], 2, shape);
        bind(&run, "ticks", ticks[1], 0, NULL);
        EXPECT_OK(run.context, ls_step_set_length(run.now, "k", k));
        for (int launch = 0; launch < 2; launch++) {
            EXPECT_OK(run.context, ls_step_launch(run.ahead));
            EXPECT_OK(run.context, ls_step_launch(run.now));
        }
        expect_same(&run, s[0], s[1], (size_t)n * sizeof(float));
        expect_same(&run, y[0], y[1], (size_t)(t * n) * sizeof(float));
        for (int64_t at = k; at-- > 0;) expected = expected * 2 + (float)at;
        EXPECT_OK(run.context, ls_copy_out(run.context, &counted, ticks[0], sizeof counted));
        assert_true(counted == expected);
        close_run(&run);
    }
}

static void test_mistakes(void **state) {
    Run run = open_run();
    (void)state;
    const struct dropout_forward_args args = {.n = 3};
    EXPECT_FAILURE(run.context, dropout_forward_bind(run.context, &args, &run.ahead), LS_ERROR_BIND,
                   "`x`");
    assert_null(run.ahead);
    float x[3] = {0};
    const struct dropout_forward_args forgotten = {.x = x};
    EXPECT_FAILURE(run.context, dropout_forward_launch(run.context, &forgotten), LS_ERROR_BIND,
                   "length `n` is 0, but array `x` is not NULL", "LS_EMPTY");
    const float *g[1] = {x};
    const struct adamw_args lengthless = {.t = 1, .g = g};
    EXPECT_FAILURE(run.context, adamw_launch(run.context, &lengthless), LS_ERROR_BIND,
                   "length `n` is NULL, but array `g` is not NULL");
    EXPECT_FAILURE(run.context, dropout_forward_bind(run.context, NULL, &run.ahead),
                   LS_ERROR_ARGUMENT, "dropout_forward_bind", "arguments");
    ls_context_destroy(run.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arrays_and_cells),
                                       cmocka_unit_test(test_lists),
                                       cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_rows_and_columns),
                                       cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_lists_of_blocks),
                                       cmocka_unit_test(test_random_numbers_and_own_outputs),
                                       cmocka_unit_test(test_cells_last_where_they_are_given),
                                       cmocka_unit_test(test_loops),
                                       cmocka_unit_test(test_mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
