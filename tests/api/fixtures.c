/* fixtures.c: see fixtures.h. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* descend: words are r, n, p, g, w, count, lr, total, parts, and for strides p p g g w w. */
static void descend(const uint64_t *words, const int64_t *p_step, const int64_t *g_step,
                    const int64_t *w_step, uint64_t first, uint64_t last, uint32_t worker) {
    int64_t columns = (int64_t)words[1];
    float *p = (float *)(uintptr_t)words[2], *w = (float *)(uintptr_t)words[4];
    const float *g = (const float *)(uintptr_t)words[3];
    const float lr = *(const float *)(uintptr_t)words[6];
    double *parts = (double *)(uintptr_t)words[8];
    parts[worker] = 0;
    for (uint64_t i = first; i < last; i++) {
        int64_t row = (int64_t)i / columns, column = (int64_t)i % columns;
        float *here = &p[row * p_step[0] + column * p_step[1]];
        *here -= lr * g[row * g_step[0] + column * g_step[1]];
        if (w) w[row * w_step[0] + column * w_step[1]] = *here;
        parts[worker] += (double)*here;
    }
    parts[64 + worker] = 1; /* took part */
}

static void descend_dense(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                          uint32_t workers) {
    const uint64_t *words = arguments;
    const int64_t strides[2] = {(int64_t)words[1], 1};
    (void)workers;
    descend(words, strides, strides, strides, first, last, worker);
}

static void descend_strided(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                            uint32_t workers) {
    const uint64_t *words = arguments;
    const int64_t *strides = (const int64_t *)(words + 9);
    (void)workers;
    descend(words, strides, strides + 2, strides + 4, first, last, worker);
}

/* Adds the parts up, and leaves them clear for the next launch. */
static void descend_finish(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                           uint32_t workers) {
    const uint64_t *words = arguments;
    double *parts = (double *)(uintptr_t)words[8], total = 0;
    assert_int_equal(first, 0);
    assert_int_equal(last, 1);
    assert_int_equal(worker, 0);
    assert_int_equal(workers, 1);
    for (int i = 0; i < 64; i++) {
        total += parts[64 + i] != 0 ? parts[i] : 0;
        parts[64 + i] = 0;
    }
    *(double *)(uintptr_t)words[7] = total;
    *(int32_t *)(uintptr_t)words[5] += 1;
}

typedef void (*Function)(const void *, uint64_t, uint64_t, uint32_t, uint32_t);
static const uint8_t both[] = {0, 1}, second[] = {1};
static const ls_image_axis descend_axes[] = {{.name = "r", .fixed = -1},
                                             {.name = "n", .fixed = -1}};
static const ls_image_parameter descend_parameters[] = {
    {"p", LS_INOUT, LS_F32, 2, both, 0, 0, 1, 0}, {"g", LS_IN, LS_F32, 2, both, 0, 0, 2, 0},
    {"w", LS_OUT, LS_F32, 2, both, 0, 0, 3, 0},   {"count", LS_INOUT, LS_I32, 0, NULL, 1, 3, 4, 0},
    {"lr", LS_IN, LS_F32, 0, NULL, 0, 0, 5, 0},   {"total", LS_OUT, LS_F64, 0, NULL, 0, 0, 6, 0},
};
static const ls_image_kernel descend_kernels[] = {
    {"descend", {1, 1, {{3, 0, 1, 0}}, 0}, 256, 128, 4, 0, 1, 0, 0, NULL, NO_TILES},
    {"descend_finish", {1, 0, {{0, 0, 0, 0}}, 0}, 1, 32, 1, 1, 1, 0, 0, NULL, NO_TILES},
};
static const ls_image_temporary descend_temporaries[] = {
    {"parts", {1024, 0, {{0, 0, 0, 0}}, 0}, 1, 0, 0, 0}};
static const Function descend_dense_functions[] = {descend_dense, descend_finish};
static const Function descend_strided_functions[] = {descend_strided, descend_finish};
static const ls_image_variant descend_variants[] = {
    {.name = "tiles, dense",
     .layout = LS_LAYOUT_DENSE,
     .work_limit = UINT64_MAX,
     .temporary_count = 1,
     .temporaries = descend_temporaries,
     .kernel_count = 2,
     .kernels = descend_kernels,
     .functions = descend_dense_functions},
    {.name = "tiles, strided",
     .layout = LS_LAYOUT_STRIDED,
     .work_limit = UINT64_MAX,
     .temporary_count = 1,
     .temporaries = descend_temporaries,
     .kernel_count = 2,
     .kernels = descend_kernels,
     .functions = descend_strided_functions},
};
const ls_image image_descend =
    IMAGE("descend", "cpu", descend_axes, 2, descend_parameters, descend_variants, 2);
const ls_image image_descend_dense_only =
    IMAGE("descend", "cpu", descend_axes, 2, descend_parameters, descend_variants, 1);

/* fixed: words are k, n, x, y, size. */
static void fixed_small(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                        uint32_t workers) {
    const uint64_t *words = arguments;
    const double *x = (const double *)(uintptr_t)words[2];
    double *y = (double *)(uintptr_t)words[3];
    (void)worker, (void)workers;
    assert_int_equal(words[0], 4);
    for (uint64_t i = first; i < last; i++) y[i] = x[i];
    *(uint64_t *)(uintptr_t)words[4] = words[1];
}

static void fixed_large(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                        uint32_t workers) {
    const uint64_t *words = arguments;
    fixed_small(arguments, first, last, worker, workers);
    *(uint64_t *)(uintptr_t)words[4] += 100;
}

static const ls_image_axis fixed_axes[] = {{.name = "k", .fixed = 4}, {.name = "n", .fixed = -1}};
static const ls_image_parameter fixed_parameters[] = {
    {"x", LS_IN, LS_F64, 2, both, 0, 0, 1, 0},
    {"y", LS_OUT, LS_F64, 1, second, 0, 0, 2, 0},
    {"size", LS_OUT, LS_U64, 0, NULL, 0, 0, 3, 0},
};
static const ls_image_extent fixed_work[] = {{1, 1, {{2, 0, 1, 0}}, 0}};
static const ls_image_kernel fixed_kernels[] = {
    {"fixed", {1, 1, {{2, 0, 1, 0}}, 0}, 1, 1, 1, 1, 1, 0, 0, NULL, NO_TILES}};
static const Function fixed_small_functions[] = {fixed_small},
                      fixed_large_functions[] = {fixed_large};
static const ls_image_variant fixed_variants[] = {
    {.name = "one block",
     .layout = LS_LAYOUT_DENSE,
     .work_count = 1,
     .work = fixed_work,
     .work_limit = 8,
     .kernel_count = 1,
     .kernels = fixed_kernels,
     .functions = fixed_small_functions},
    {.name = "grid",
     .layout = LS_LAYOUT_DENSE,
     .work_count = 1,
     .work = fixed_work,
     .work_limit = UINT64_MAX,
     .kernel_count = 1,
     .kernels = fixed_kernels,
     .functions = fixed_large_functions},
};
const ls_image image_fixed =
    IMAGE("fixed", "cpu", fixed_axes, 2, fixed_parameters, fixed_variants, 2);

/* lists: words are t, n, p, g, w, decay, lr, total, then the temporaries step and parts, then the
 * table and its count. */
static void lists_run(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                      uint32_t workers) {
    const uint64_t *words = arguments;
    const int64_t *n = (const int64_t *)(uintptr_t)words[1];
    float *const *p = (float *const *)(uintptr_t)words[2];
    float *const *g = (float *const *)(uintptr_t)words[3];
    float *const *w = (float *const *)(uintptr_t)words[4];
    const float *decay = (const float *)(uintptr_t)words[5];
    const float lr = *(const float *)(uintptr_t)words[6];
    float *const *change = (float *const *)(uintptr_t)words[8];
    double *parts = (double *)(uintptr_t)words[9];
    const ls_image_entry *entries = (const ls_image_entry *)(uintptr_t)words[10];
    (void)worker, (void)workers;
    assert_true(last <= words[11]);
    for (uint64_t i = first; i < last; i++) {
        int64_t tensor = entries[i].tensor, begin = entries[i].item * LIST_TILE;
        assert_true(tensor >= 0 && tensor < (int64_t)words[0] && begin < n[tensor]);
        parts[i] = 0;
        for (int64_t k = begin; k < n[tensor] && k < begin + LIST_TILE; k++) {
            change[tensor][k] = lr * (g[tensor][k] + decay[tensor] * p[tensor][k]);
            p[tensor][k] -= change[tensor][k];
            w[tensor][k] = p[tensor][k];
            parts[i] += (double)p[tensor][k];
        }
    }
}

static void lists_finish(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                         uint32_t workers) {
    const uint64_t *words = arguments;
    const double *parts = (const double *)(uintptr_t)words[9];
    double total = 0;
    (void)first, (void)last, (void)worker, (void)workers;
    for (uint64_t i = 0; i < words[11]; i++) total += parts[i];
    *(double *)(uintptr_t)words[7] = total;
}

static const ls_image_axis lists_axes[] = {{.name = "t", .fixed = -1},
                                           {.name = "n", .fixed = -1, .parent = 1}};
static const uint8_t first_axis[] = {0};
static const ls_image_parameter lists_parameters[] = {
    {"p", LS_INOUT, LS_F32, 2, both, 0, 0, 1, 0},
    {"g", LS_IN, LS_F32, 2, both, 0, 0, 2, 0},
    {"w", LS_OUT, LS_F32, 2, both, 0, 0, 3, 0},
    {"decay", LS_IN, LS_F32, 1, first_axis, 0, 0, 4, 0},
    {"lr", LS_IN, LS_F32, 0, NULL, 0, 0, 5, 0},
    {"total", LS_OUT, LS_F64, 0, NULL, 0, 0, 6, 0},
};
#define TILES(scale) \
    { scale, 1, {{2, 0, LIST_TILE, 0}}, 1 /* t */ }
static const ls_image_kernel lists_kernels[] = {
    {"lists", TILES(1), 1, 128, 4, 0, LIST_TILE, 0, 0, NULL, NO_TILES},
    {"lists_finish", {1, 0, {{0, 0, 0, 0}}, 0}, 1, 32, 1, 1, 1, 0, 0, NULL, NO_TILES},
};
static const ls_image_temporary lists_temporaries[] = {
    {"change", {4, 1, {{2, 0, 1, 0}}, 1}, 0, 1, 0, 0},
    {"parts", TILES(8), 0, 0, 0, 0},
};
static const ls_image_table lists_tables[] = {{TILES(1)}};
static const Function lists_functions[] = {lists_run, lists_finish};
#define LISTS(name_, layout_)                                                             \
    {                                                                                     \
        .name = name_, .layout = layout_, .work_limit = UINT64_MAX, .temporary_count = 2, \
        .temporaries = lists_temporaries, .kernel_count = 2, .kernels = lists_kernels,    \
        .functions = lists_functions, .table_count = 1, .tables = lists_tables            \
    }
static const ls_image_variant lists_variants[] = {LISTS("tiles, dense", LS_LAYOUT_DENSE),
                                                  LISTS("tiles, strided", LS_LAYOUT_STRIDED)};
const ls_image image_lists =
    IMAGE("lists", "cpu", lists_axes, 2, lists_parameters, lists_variants, 2);

/* shapes: axes by number. */
enum { T, R, C, V, N, Q, K, H, W, B, D, E };
static const ls_image_term r_times_c[] = {
    {LS_TERM_AXIS, R}, {LS_TERM_AXIS, C}, {LS_TERM_MULTIPLY, 0}};
static const ls_image_term two_h_and_one[] = {{LS_TERM_NUMBER, 2},
                                              {LS_TERM_AXIS, H},
                                              {LS_TERM_MULTIPLY, 0},
                                              {LS_TERM_NUMBER, 1},
                                              {LS_TERM_ADD, 0}};
static const ls_image_axis shapes_axes[] = {
    [T] = {.name = "t", .fixed = -1},
    [R] = {.name = "r", .fixed = -1, .parent = 1 + T},
    [C] = {.name = "c", .fixed = -1, .parent = 1 + T},
    [V] = {.name = "v", .fixed = -1, .parent = 1 + T, .terms = r_times_c, .term_count = 3},
    [N] = {.name = "n", .fixed = -1, .length = 4},
    [Q] = {.name = "q", .fixed = -1, .whole = 1 + N, .length = 4},
    [K] = {.name = "k", .fixed = 4, .parent = 1 + Q, .whole = 1 + N, .length = 4},
    [H] = {.name = "h", .fixed = -1},
    [W] = {.name = "w", .fixed = -1, .terms = two_h_and_one, .term_count = 5},
    [B] = {.name = "b", .fixed = -1, .parent = 1 + T, .length = 2},
    [D] = {.name = "d", .fixed = -1, .parent = 1 + T, .whole = 1 + B, .length = 2},
    [E] = {.name = "e", .fixed = 2, .parent = 1 + D, .whole = 1 + B, .length = 2},
};
static const uint8_t t_r_c[] = {T, R, C}, t_v[] = {T, V}, only_n[] = {N}, only_q[] = {Q},
                     q_k[] = {Q, K}, only_h[] = {H}, only_w[] = {W}, t_b[] = {T, B}, t_d[] = {T, D},
                     t_d_e[] = {T, D, E}, t_r_h[] = {T, R, H};
static const ls_image_parameter shapes_parameters[] = {
    {"matrix", LS_IN, LS_F32, 3, t_r_c, 0, 0, 1, 0},
    {"flat", LS_OUT, LS_F32, 2, t_v, 0, 0, 2, 0},
    {"x", LS_OUT, LS_F32, 1, only_n, 0, 0, 3, 0},
    {"scale", LS_OUT, LS_F32, 1, only_q, 0, 0, 4, 0},
    {"packed", LS_IN, LS_F32, 2, q_k, 0, 0, 5, 0},
    {"half", LS_IN, LS_F32, 1, only_h, 0, 0, 6, 0},
    {"gates", LS_OUT, LS_F32, 1, only_w, 0, 0, 7, 0},
    {"blocked", LS_OUT, LS_F32, 2, t_b, 0, 0, 8, 0},
    {"most", LS_OUT, LS_F32, 2, t_d, 0, 0, 9, 0},
    {"tiles", LS_IN, LS_F32, 3, t_d_e, 0, 0, 10, 0},
    {"rows", LS_OUT, LS_F32, 3, t_r_h, 0, 0, 11, 0},
};
uint64_t shapes_words[SHAPES_WORDS];
static void shapes_run(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                       uint32_t workers) {
    (void)first, (void)last, (void)worker, (void)workers;
    memcpy(shapes_words, arguments, (ROWS_OF(shapes_axes) + ROWS_OF(shapes_parameters) + 2) * 8);
}
static const Function shapes_functions[] = {shapes_run};
static const ls_image_kernel shapes_kernel[] = {
    {"run", {1, 0, {{0, 0, 0, 0}}, 0}, 1, 1, 1, 1, 1, 0, 0, NULL, NO_TILES}};
static const ls_image_variant shapes_variants[] = {{.name = "only",
                                                    .layout = LS_LAYOUT_DENSE,
                                                    .work_limit = UINT64_MAX,
                                                    .kernel_count = 1,
                                                    .kernels = shapes_kernel,
                                                    .functions = shapes_functions}};
const ls_image image_shapes = {.version = LS_IMAGE_VERSION,
                               .step = "shapes",
                               .target = "cpu",
                               .source_file = "shapes.step",
                               .axis_count = ROWS_OF(shapes_axes),
                               .axes = shapes_axes,
                               .parameter_count = ROWS_OF(shapes_parameters),
                               .parameters = shapes_parameters,
                               .variant_count = 1,
                               .variants = shapes_variants,
                               .draws = 1};

static void cells_run(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                      uint32_t workers) {
    const uint64_t *words = arguments;
    (void)first, (void)last, (void)worker, (void)workers;
    *(int32_t *)(uintptr_t)words[7] = 1;
}

static const ls_image_parameter cells_parameters[] = {
    {"a", LS_IN, LS_F64, 0, NULL, 0, 0, 1, 0},  {"b", LS_IN, LS_F32, 0, NULL, 0, 0, 2, 0},
    {"c", LS_IN, LS_I64, 0, NULL, 0, 0, 3, 0},  {"d", LS_IN, LS_I32, 0, NULL, 0, 0, 4, 0},
    {"e", LS_IN, LS_U64, 0, NULL, 0, 0, 5, 0},  {"f", LS_IN, LS_U32, 0, NULL, 0, 0, 6, 0},
    {"g", LS_IN, LS_BOOL, 0, NULL, 0, 0, 7, 0}, {"h", LS_INOUT, LS_I32, 0, NULL, 0, 0, 8, 0},
};
static const ls_image_kernel one_kernel[] = {
    {"run", {1, 0, {{0, 0, 0, 0}}, 0}, 1, 1, 1, 1, 1, 0, 0, NULL, NO_TILES}};
static const Function cells_functions[] = {cells_run};
static const ls_image_variant cells_variants[] = {
    {.name = "one block",
     .layout = LS_LAYOUT_DENSE,
     .work_limit = UINT64_MAX,
     .kernel_count = 1,
     .kernels = one_kernel,
     .functions = cells_functions},
};
const ls_image image_cells = IMAGE("cells", "cpu", NULL, 0, cells_parameters, cells_variants, 1);

static void environment_run(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                            uint32_t workers) {
    const uint64_t *words = arguments;
    uint64_t *control = (uint64_t *)(uintptr_t)words[0];
    (void)first, (void)last, (void)worker, (void)workers;
#if defined(__x86_64__)
    *control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x9fc0); /* a kernel's own change must not leak out either */
#else
    *control = 0x1f80;
#endif
}

static const ls_image_parameter environment_parameters[] = {
    {"control", LS_OUT, LS_U64, 0, NULL, 0, 0, 1, 0}};
static const Function environment_functions[] = {environment_run};
static const ls_image_variant environment_variants[] = {
    {.name = "one block",
     .layout = LS_LAYOUT_DENSE,
     .work_limit = UINT64_MAX,
     .kernel_count = 1,
     .kernels = one_kernel,
     .functions = environment_functions},
};
const ls_image image_environment =
    IMAGE("environment", "cpu", NULL, 0, environment_parameters, environment_variants, 1);

Fixture open_fixture(const ls_image *image, int threads) {
    Fixture fixture = {NULL, NULL, NULL};
    char text[16];
    snprintf(text, sizeof text, "%d", threads);
    setenv("LOCKSTEP_THREADS", text, 1);
    if (ls_context_create("cpu", NULL, &fixture.context) != LS_OK)
        fail_msg("%s", ls_error_message(NULL));
    EXPECT_OK(fixture.context, ls_program_from_images(fixture.context, &image, 1, NULL, NULL, NULL,
                                                      &fixture.program));
    EXPECT_OK(fixture.context, ls_step_create(fixture.program, image->step, &fixture.step));
    return fixture;
}

void close_fixture(Fixture *fixture) {
    ls_step_destroy(fixture->step);
    ls_program_destroy(fixture->program);
    ls_memory_statistics statistics;
    ls_memory_stats(fixture->context, &statistics);
    assert_int_equal(statistics.allocations, 0); /* a step gives everything back */
    assert_int_equal(statistics.in_use, 0);
    ls_context_destroy(fixture->context);
}

ls_tensor tensor_of(void *data, ls_type type, uint32_t rank, const int64_t *shape) {
    return (ls_tensor){data, type, rank, shape, NULL};
}

void expect_failure(const ls_context *context, ls_status expected, ls_status status, ...) {
    const char *message = ls_error_message(context), *piece;
    if (status != expected)
        fail_msg("expected %s, got %s: %s", ls_status_name(expected), ls_status_name(status),
                 message);
    va_list pieces;
    va_start(pieces, status);
    while ((piece = va_arg(pieces, const char *)))
        if (!strstr(message, piece)) fail_msg("the message lacks \"%s\": %s", piece, message);
    va_end(pieces);
}
