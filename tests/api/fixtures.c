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
        w[row * w_step[0] + column * w_step[1]] = *here;
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
    {"p", LS_INOUT, LS_F32, 2, both, 0, 0, 1}, {"g", LS_IN, LS_F32, 2, both, 0, 0, 2},
    {"w", LS_OUT, LS_F32, 2, both, 0, 0, 3},   {"count", LS_INOUT, LS_I32, 0, NULL, 1, 3, 4},
    {"lr", LS_IN, LS_F32, 0, NULL, 0, 0, 5},   {"total", LS_OUT, LS_F64, 0, NULL, 0, 0, 6},
};
static const ls_image_kernel descend_kernels[] = {
    {"descend", {1, 1, {{3, 0, 1}}, 0}, 256, 128, 4, 0, 1},
    {"descend_finish", {1, 0, {{0, 0, 0}}, 0}, 1, 32, 1, 1, 1},
};
static const ls_image_temporary descend_temporaries[] = {
    {"parts", {1024, 0, {{0, 0, 0}}, 0}, 1, 0}};
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
    {"x", LS_IN, LS_F64, 2, both, 0, 0, 1},
    {"y", LS_OUT, LS_F64, 1, second, 0, 0, 2},
    {"size", LS_OUT, LS_U64, 0, NULL, 0, 0, 3},
};
static const ls_image_extent fixed_work[] = {{1, 1, {{2, 0, 1}}, 0}};
static const ls_image_kernel fixed_kernels[] = {{"fixed", {1, 1, {{2, 0, 1}}, 0}, 1, 1, 1, 1, 1}};
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

static void cells_run(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                      uint32_t workers) {
    const uint64_t *words = arguments;
    (void)first, (void)last, (void)worker, (void)workers;
    *(int32_t *)(uintptr_t)words[7] = 1;
}

static const ls_image_parameter cells_parameters[] = {
    {"a", LS_IN, LS_F64, 0, NULL, 0, 0, 1},  {"b", LS_IN, LS_F32, 0, NULL, 0, 0, 2},
    {"c", LS_IN, LS_I64, 0, NULL, 0, 0, 3},  {"d", LS_IN, LS_I32, 0, NULL, 0, 0, 4},
    {"e", LS_IN, LS_U64, 0, NULL, 0, 0, 5},  {"f", LS_IN, LS_U32, 0, NULL, 0, 0, 6},
    {"g", LS_IN, LS_BOOL, 0, NULL, 0, 0, 7}, {"h", LS_INOUT, LS_I32, 0, NULL, 0, 0, 8},
};
static const ls_image_kernel one_kernel[] = {{"run", {1, 0, {{0, 0, 0}}, 0}, 1, 1, 1, 1, 1}};
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
    {"control", LS_OUT, LS_U64, 0, NULL, 0, 0, 1}};
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
