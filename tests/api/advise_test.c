/* advise_test.c: what ls_compilation_advise says of memory, held against a context with a limit:
 * the largest batch that it finds fits, with the step's temporaries, and one more does not; what
 * loops carry; and what it refuses. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/compiler.h>

/* A row has 2 MiB, the unit in which the pool takes large arrays. */
enum { ROW = 1 << 19, THREADS = 2, ARRAYS = 3 };
#define MIB ((uint64_t)1 << 20)

static const char source[] =
    "step scale[b, c](x: f32[b, c], out y: f32[b, c], a: f32 = 2) { y = a * x }\n"
    "step soften[b, c](x: f32[b, c], out y: f32[b, c]) {\n"
    "    let e = exp(x - max[c](x))\n"
    "    y = e / sum[c](e)\n"
    "}\n"
    "step spread[b, c](inout x: f32[b, c], w: f32[c]) {\n"
    "    x = x[b, size(c) - 1 - index(c)] * w\n" /* through a temporary of x's size */
    "}\n";

static const ls_memory_rate rate = {1, 10, 10};

static ls_status advise(ls_compilation *compilation, size_t step, int64_t rows, ls_advice *advice) {
    char words[2][32];
    const char *sizes[] = {words[0], words[1]};
    snprintf(words[0], sizeof words[0], "b=%lld", (long long)rows);
    snprintf(words[1], sizeof words[1], "c=%d", ROW);
    const ls_advise_options options = {.target = "cpu",
                                       .sizes = sizes,
                                       .size_count = 2,
                                       .plan_only = 1,
                                       .machine = {&rate, 1, 1e9, 1e-6, THREADS}};
    return ls_compilation_advise(compilation, step, &options, advice);
}

/* Makes all of the step's arrays, in the order of its parameters, and what it needs besides. */
static ls_status hold(ls_context *context, ls_step *step, int64_t rows, void *arrays[ARRAYS]) {
    const ls_image *image = ls_step_image(step);
    const int64_t shape[] = {rows, ROW};
    ls_status status = LS_OK;
    for (uint32_t i = 0; i < image->parameter_count && status == LS_OK; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        if (parameter->rank == 0) continue;
        const int64_t count = parameter->rank == 2 ? rows * ROW : ROW;
        status = ls_alloc(context, (size_t)count * sizeof(float), &arrays[i]);
        if (status != LS_OK) break;
        const ls_tensor tensor = {arrays[i], LS_F32, parameter->rank,
                                  parameter->rank == 2 ? shape : &shape[1], NULL};
        status = ls_step_bind(step, parameter->name, &tensor);
    }
    return status == LS_OK ? ls_step_launch(step) : status;
}

static ls_status try_rows(ls_program *program, ls_context *context, const char *name,
                          int64_t rows) {
    void *arrays[ARRAYS] = {NULL};
    ls_step *step;
    EXPECT_OK(context, ls_step_create(program, name, &step));
    ls_status status = hold(context, step, rows, arrays);
    ls_step_destroy(step);
    for (size_t i = 0; i < ARRAYS; i++) ls_free(context, arrays[i]);
    EXPECT_OK(context, ls_memory_trim(context, 0));
    return status;
}

static void fits(void **state) {
    (void)state;
    ls_compilation *compilation;
    ls_context *context;
    ls_program *program;
    setenv("LOCKSTEP_THREADS", "2", 1);
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_load_text(context, "advise.step", source, sizeof source - 1, NULL,
                                            &program));
    assert_int_equal(ls_compile_text("advise.step", source, sizeof source - 1, NULL, &compilation),
                     LS_OK);
    for (size_t i = 0; i < ls_compilation_step_count(compilation); i++) {
        const char *name = ls_compilation_step_name(compilation, i);
        const uint64_t limit = 51 * MIB;
        ls_advice advice;
        int64_t largest = 0;
        for (int64_t rows = 1;; largest = rows++) {
            assert_int_equal(advise(compilation, i, rows, &advice), LS_OK);
            if (advice.array_bytes + advice.temporary_bytes > limit) break;
        }
        assert_true(largest > 4 && largest < 30);
        EXPECT_OK(context, ls_memory_limit(context, limit));
        EXPECT_OK(context, try_rows(program, context, name, largest));
        assert_int_equal(try_rows(program, context, name, largest + 1), LS_ERROR_MEMORY);
    }
    ls_compilation_destroy(compilation);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

/* The message that a step's own memory does not fit says what would. */
static void says(void **state) {
    (void)state;
    enum { SPREAD = 2, LIMIT = 51 };
    void *arrays[ARRAYS] = {NULL};
    ls_compilation *compilation;
    ls_advice advice;
    ls_context *context;
    ls_program *program;
    ls_step *step;
    char expected[80];
    int64_t largest = 1;
    setenv("LOCKSTEP_THREADS", "2", 1);
    assert_int_equal(ls_compile_text("advise.step", source, sizeof source - 1, NULL, &compilation),
                     LS_OK);
    for (;; largest++) {
        assert_int_equal(advise(compilation, SPREAD, largest + 1, &advice), LS_OK);
        if (advice.array_bytes + advice.temporary_bytes > LIMIT * MIB) break;
    }
    ls_compilation_destroy(compilation);
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_load_text(context, "advise.step", source, sizeof source - 1, NULL,
                                            &program));
    EXPECT_OK(context, ls_step_create(program, "spread", &step));
    EXPECT_OK(context, ls_memory_limit(context, LIMIT * MIB));
    snprintf(expected, sizeof expected, "with b=%lld in place of 20 step spread would have fitted",
             (long long)largest);
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, hold(context, step, 20, arrays), expected);
    ls_step_destroy(step);
    for (size_t i = 0; i < ARRAYS; i++) ls_free(context, arrays[i]);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

/* More rows take longer, and each of them no longer than before. */
static void grows(void **state) {
    (void)state;
    ls_compilation *compilation;
    assert_int_equal(ls_compile_text("advise.step", source, sizeof source - 1, NULL, &compilation),
                     LS_OK);
    for (size_t i = 0; i < ls_compilation_step_count(compilation); i++) {
        ls_advice few, many;
        assert_int_equal(advise(compilation, i, 8, &few), LS_OK);
        assert_int_equal(advise(compilation, i, 64, &many), LS_OK);
        assert_true(few.time_s > 0 && many.time_s > few.time_s);
        assert_true(many.time_s / 64 < few.time_s / 8 * 1.001);
        assert_true(few.kernel_count > 0 && few.kernels[0].time_s >= few.kernels[0].memory_s);
        assert_true(few.bytes_moved >= few.bytes_minimum);
    }
    ls_compilation_destroy(compilation);
}

/* What a CPU computes for each operation of a map with these axes, in units of that of one along a
 * long row. */
static double stretch(const char *text, const char *n, const char *u) {
    const char *sizes[] = {n, u};
    ls_compilation *compilation;
    ls_advice advice;
    const ls_advise_options options = {.target = "cpu",
                                       .sizes = sizes,
                                       .size_count = 2,
                                       .plan_only = 1,
                                       .machine = {&rate, 1, 1e9, 1e-6, 1}};
    assert_int_equal(ls_compile_text("map.step", text, strlen(text), NULL, &compilation), LS_OK);
    assert_int_equal(ls_compilation_advise(compilation, 0, &options, &advice), LS_OK);
    assert_int_equal(advice.kernel_count, 1);
    const double found = advice.kernels[0].instructions_s * 1e9 / advice.kernels[0].operations;
    ls_compilation_destroy(compilation);
    return found;
}

/* A map's loop goes along the axes that all arrays have alike: where these are short, most of each
 * vector is empty. */
static void short_runs(void **state) {
    (void)state;
    const double whole =
        stretch("step s[n, u](x: f32[n, u], out y: f32[n, u]) { y = exp(x) }", "n=65536", "u=2");
    const double pairs = stretch("step s[n, u](x: f32[n], out y: f32[n, u]) {\n"
                                 "    y = exp(x) * f32(index(u))\n}\n",
                                 "n=65536", "u=2");
    const double rows = stretch("step s[n, u](x: f32[n], out y: f32[n, u]) {\n"
                                "    y = exp(x) * f32(index(u))\n}\n",
                                "n=64", "u=4096");
    assert_true(whole > 0.99 && whole < 1.01);
    assert_true(pairs > 15.9 && pairs < 16.1); /* two vectors of 16 for two elements */
    assert_true(rows > 0.99 && rows < 1.01);
}

/* What all iterations keep in registers is read and written once, and takes that time. */
static void carries(void **state) {
    (void)state;
    static const char leak[] = "step leak[t, b](x: f32[t], inout s: f32[b], inout r: f32[b]) {\n"
                               "    for t {\n"
                               "        s = s * 0.5 + x\n"
                               "        r = r * 0.5 + s\n"
                               "    }\n"
                               "}\n";
    const char *sizes[] = {"t=2", "b=16777216"};
    ls_compilation *compilation;
    ls_advice advice;
    const ls_advise_options options = {
        .target = "sm_90", .sizes = sizes, .size_count = 2, .plan_only = 1};
    assert_int_equal(ls_compile_text("leak.step", leak, sizeof leak - 1, NULL, &compilation),
                     LS_OK);
    assert_int_equal(ls_compilation_advise(compilation, 0, &options, &advice), LS_OK);
    assert_int_equal(advice.kernel_count, 1);
    const ls_advice_kernel *kernel = &advice.kernels[0];
    assert_true(kernel->bytes_read == 2 * 4 + 2 * 4 * 16777216.0);
    assert_true(kernel->bytes_written == 2 * 4 * 16777216.0);
    assert_true(kernel->bytes_read + kernel->bytes_written == advice.bytes_moved);
    assert_true(advice.time_s > advice.traffic_s);
    assert_true(kernel->instructions_s > 4 * kernel->launch_s);
    ls_compilation_destroy(compilation);
}

static void refuses(void **state) {
    (void)state;
    ls_compilation *compilation;
    ls_advice advice;
    const char *sizes[] = {"b=1", "c=1"};
    ls_advise_options options = {.target = "sm_86", .sizes = sizes, .size_count = 2};
    assert_int_equal(ls_compile_text("advise.step", source, sizeof source - 1, NULL, &compilation),
                     LS_OK);
    assert_int_equal(ls_compilation_advise(compilation, 0, &options, &advice), LS_ERROR_ARGUMENT);
    assert_non_null(strstr(ls_compilation_message(compilation), "sm_86"));
    assert_int_equal(advice.kernel_count, 0);
    options.target = "nonsense";
    assert_int_equal(ls_compilation_advise(compilation, 0, &options, &advice), LS_ERROR_ARGUMENT);
    assert_non_null(strstr(ls_compilation_message(compilation), "unknown target nonsense"));
    options.target = "cpu";
    assert_int_equal(ls_compilation_advise(compilation, 0, &options, &advice), LS_ERROR_ARGUMENT);
    options.target = "sm_90";
    options.size_count = 1;
    assert_int_equal(ls_compilation_advise(compilation, 0, &options, &advice), LS_ERROR_ARGUMENT);
    assert_non_null(strstr(ls_compilation_message(compilation), "axis c"));
    options.size_count = 2;
    options.plan_only = 1;
    assert_int_equal(ls_compilation_advise(compilation, 0, &options, &advice), LS_OK);
    assert_string_equal(advice.device, "H200");
    assert_int_equal(ls_compilation_advise(compilation, 9, &options, &advice), LS_ERROR_ARGUMENT);
    assert_int_equal(ls_compilation_advise(compilation, 0, NULL, &advice), LS_ERROR_ARGUMENT);
    assert_int_equal(ls_compilation_advise(NULL, 0, &options, &advice), LS_ERROR_ARGUMENT);
    ls_compilation_destroy(compilation);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fits),    cmocka_unit_test(says),
                                       cmocka_unit_test(grows),   cmocka_unit_test(short_runs),
                                       cmocka_unit_test(carries), cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
