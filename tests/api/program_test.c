/* program_test.c: contexts and devices by name, images that do not fit, code made on demand. */
#include "fixtures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The processor's name as Linux tells it, where it does. */
static void expect_model(const char *description) {
    char line[256], model[101] = "CPU";
    FILE *file = fopen("/proc/cpuinfo", "r");
    for (bool found = false; file && !found && fgets(line, sizeof line, file);)
        found = sscanf(line, "model name : %100[^\n]", model) == 1;
    if (file) fclose(file);
    if (strncmp(description, model, strlen(model)) != 0)
        fail_msg("`%s` does not begin with `%s`", description, model);
}

static void devices(void **state) {
    (void)state;
    ls_device_info info[16];
    setenv("LOCKSTEP_THREADS", "3", 1);
    size_t count = ls_devices(NULL, 0);
    assert_true(count >= 3);
    assert_int_equal(ls_devices(info, 16), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(info[i].name) >= 3);
        assert_true(strlen(info[i].description) > 5);
        for (const char *c = info[i].description; *c; c++)
            if (*c < ' ' || *c > '~') fail_msg("`%s` is no line of text", info[i].description);
    }
    assert_string_equal(info[count - 1].name, "cpu");
    assert_true(info[count - 1].usable);
    assert_non_null(strstr(info[count - 1].description, "3 threads"));
    expect_model(info[count - 1].description);
}

static void contexts(void **state) {
    (void)state;
    CPU_ONLY();
    ls_context *context = (ls_context *)&state;
    static const char *const wrong[] = {"tpu",   "cpu:",      "cpu:x", "cuda:-1",
                                        "cuda1", "hip:99999", "CPU"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create(wrong[i], NULL, &context),
                       wrong[i], "names no device");
        assert_null(context);
    }
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create("cpu:1", NULL, &context), "no cpu:1");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create("cpu", &context, &context), "stream");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create("cpu", NULL, NULL),
                   "context is NULL");
    static const char *const counts[] = {"0", "two", "-1", "1025", "3x", " 3"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        setenv("LOCKSTEP_THREADS", counts[i], 1);
        EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create("cpu", NULL, &context),
                       "LOCKSTEP_THREADS", counts[i]);
    }
    setenv("LOCKSTEP_THREADS", "", 1);
    setenv("LOCKSTEP_DEVICE", "quantum", 1);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create("auto", NULL, &context), "`quantum`",
                   "LOCKSTEP_DEVICE");
    setenv("LOCKSTEP_DEVICE", "cpu:0", 1);
    EXPECT_OK(NULL, ls_context_create(NULL, NULL, &context));
    assert_string_equal(ls_context_device(context), "cpu");
    assert_string_equal(ls_context_target(context), "cpu");
    assert_int_equal(ls_context_kind(context), LS_DEVICE_CPU);
    assert_non_null(strstr(ls_context_describe(context), "thread"));
    assert_string_equal(ls_error_message(context), "no call has failed");
    ls_context_destroy(context);
    unsetenv("LOCKSTEP_DEVICE");
    EXPECT_OK(NULL, ls_context_create(NULL, NULL, &context)); /* whatever is there */
    ls_context_destroy(context);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(ls_status_name(LS_ERROR_BIND), "LS_ERROR_BIND");
    assert_string_equal(ls_status_name((ls_status)99), "?");
    assert_string_equal(ls_type_name(LS_BF16), "bf16");
    assert_string_equal(ls_type_name(LS_U8), "u8");
    assert_string_equal(ls_type_name(LS_TYPE_COUNT), "?");
    assert_int_equal(ls_type_size(LS_BF16), 2);
    assert_int_equal(ls_type_size(LS_TYPE_COUNT), 0);
}

static void images(void **state) {
    (void)state;
    CPU_ONLY();
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_image newer = image_cells, gpu = image_cells, amd = image_cells;
    const ls_image *list[] = {&newer}, *foreign[] = {&gpu, &amd},
                   *mixed[] = {&gpu, &image_cells, &image_fixed};
    char format[32];
    newer.version = LS_IMAGE_VERSION + 1;
    snprintf(format, sizeof format, "format %d", LS_IMAGE_VERSION + 1);
    gpu.target = "sm_90";
    amd.target = "gfx90a";
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED,
                   ls_program_from_images(context, list, 1, NULL, NULL, NULL, &program), format,
                   "build it again");
    assert_null(program);
    EXPECT_OK(context, ls_program_from_images(context, foreign, 2, NULL, NULL, NULL, &program));
    assert_int_equal(ls_program_step_count(program), 1);
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_step_create(program, "cells", &step),
                   "built for sm_90, gfx90a", "cpu needs cpu");
    ls_program_destroy(program);
    EXPECT_OK(context, ls_program_from_images(context, mixed, 3, NULL, NULL, NULL, &program));
    assert_int_equal(ls_program_step_count(program), 2);
    assert_string_equal(ls_program_step_name(program, 1), "fixed");
    assert_null(ls_program_step_name(program, 2));
    EXPECT_OK(context, ls_step_create(program, "cells", &step));
    assert_ptr_equal(ls_step_image(step), &image_cells);
    ls_step_destroy(step);
    ls_program_destroy(program);
    EXPECT_OK(context, ls_program_from_images(context, NULL, 0, NULL, NULL, NULL, &program));
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_step_create(program, "cells", &step),
                   "none at all");
    ls_program_destroy(program);
    ls_context_destroy(context);
}

/* Code made on demand: reads one of the shared objects that the build made. */
typedef struct Maker {
    const char *path;
    ls_status status;
    void *code;
    int calls, released;
} Maker;

static ls_status make(void *argument, const ls_image *image, size_t variant, const void **code,
                      size_t *size, int *from_cache, const char **message) {
    Maker *maker = argument;
    assert_string_equal(image->step, "loaded");
    assert_int_equal(variant, 0);
    maker->calls++;
    *message = "the toolchain is on strike";
    if (maker->status != LS_OK) return maker->status;
    FILE *file = fopen(maker->path, "rb");
    assert_non_null(file);
    free(maker->code);
    maker->code = malloc(1 << 20);
    *size = fread(maker->code, 1, 1 << 20, file);
    *code = maker->code;
    *from_cache = 1;
    return fclose(file) == 0 ? LS_OK : LS_ERROR_FILE;
}

static void release(void *argument) {
    ((Maker *)argument)->released++;
}

static const uint8_t axes[] = {0};
static const ls_image_axis axis[] = {{.name = "n", .fixed = -1}};
static const ls_image_parameter parameters[] = {{"x", LS_IN, LS_I32, 1, axes, 0, 0, 1, 0},
                                                {"y", LS_OUT, LS_I32, 1, axes, 0, 0, 2, 0}};
static ls_image_kernel kernel[] = {
    {"loaded_run", {1, 1, {{1, 0, 1, 0}}, 0}, 1, 1, 1, 0, 1, 0, 0, NULL, NO_TILES}};
static const ls_image_variant variant[] = {
    {.name = "tiles",
     .layout = LS_LAYOUT_DENSE,
     .work_limit = UINT64_MAX,
     .kernel_count = 1,
     .kernels = kernel,
     .source = "source"},
};
static const ls_image image_loaded = IMAGE("loaded", "cpu", axis, 1, parameters, variant, 1);

static const int64_t three[] = {3};
static _Alignas(16) int32_t x[3] = {1, 2, 3};

static ls_step *open_step(ls_context *context, ls_program *program) {
    ls_step *step;
    ls_tensor tensor = tensor_of(x, LS_I32, 1, three);
    EXPECT_OK(context, ls_step_create(program, "loaded", &step));
    EXPECT_OK(context, ls_step_bind(step, "x", &tensor));
    return step;
}

static int32_t last_of(ls_context *context, ls_step *step) {
    ls_tensor y;
    EXPECT_OK(context, ls_step_launch(step));
    EXPECT_OK(context, ls_step_output(step, "y", &y));
    return ((int32_t *)y.data)[2];
}

static void code_on_demand(void **state) {
    (void)state;
    CPU_ONLY();
    ls_context *context;
    ls_program *first, *second, *codeless;
    const ls_image *list[] = {&image_loaded};
    Maker one = {LOADED_CODE_1, LS_OK, NULL, 0, 0},
          two = {LOADED_CODE_2, LS_ERROR_TOOLCHAIN, NULL, 0, 0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, make, &one, release, &first));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, make, &two, release, &second));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, NULL, NULL, NULL, &codeless));
    ls_step *a = open_step(context, first), *b = open_step(context, second),
            *c = open_step(context, first);
    ls_step *d = open_step(context, codeless);
    assert_int_equal(last_of(context, a), 1003);
    EXPECT_FAILURE(context, LS_ERROR_TOOLCHAIN, ls_step_launch(b),
                   "no code for step `loaded` (tiles)", "on strike");
    two.status = LS_OK; /* work resumes */
    assert_int_equal(last_of(context, b), 2003);
    assert_int_equal(last_of(context, a), 1003); /* two objects with the same symbols stay apart */
    assert_int_equal(last_of(context, c), 1003);
    assert_int_equal(one.calls, 1); /* two steps share what is loaded */
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_step_launch(d), "without code", "liblockstep");
    ls_step_statistics statistics;
    EXPECT_OK(context, ls_step_stats(a, &statistics));
    assert_true(statistics.from_cache && statistics.compile_ms > 0);
    ls_step_destroy(a);
    ls_step_destroy(b);
    ls_step_destroy(d);
    ls_program_destroy(first);
    assert_int_equal(one.released, 0); /* a step still uses it */
    assert_int_equal(last_of(context, c), 1003);
    ls_step_destroy(c);
    assert_int_equal(one.released, 1);
    ls_program_destroy(second);
    ls_program_destroy(codeless);
    assert_int_equal(two.released, 1);
    ls_context_destroy(context);
    free(one.code);
    free(two.code);
}

/* Linked with --wrap=memfd_create. */
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
static bool memory_files = true;
int __wrap_memfd_create(const char *name, unsigned flags) {
    if (memory_files) return __real_memfd_create(name, flags);
    errno = ENOSYS;
    return -1;
}

static void no_memory_files(void **state) {
    (void)state;
    CPU_ONLY();
    ls_context *context;
    ls_program *program;
    const ls_image *list[] = {&image_loaded};
    Maker maker = {LOADED_CODE_2, LS_OK, NULL, 0, 0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, make, &maker, NULL, &program));
    ls_step *step = open_step(context, program);
    memory_files = false;
    setenv("TMPDIR", "/nonexistent", 1);
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_step_launch(step), "/nonexistent/lockstep-",
                   "set TMPDIR");
    unsetenv("TMPDIR");
    assert_int_equal(last_of(context, step), 2003);
    memory_files = true;
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    free(maker.code);
}

static void broken_code(void **state) {
    (void)state;
    CPU_ONLY();
    ls_context *context;
    ls_program *program;
    const ls_image *list[] = {&image_loaded};
    Maker maker = {"/proc/self/status", LS_OK, NULL, 0, 0}; /* no shared object at all */
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, make, &maker, NULL, &program));
    ls_step *step = open_step(context, program);
    EXPECT_FAILURE(context, LS_ERROR_DEVICE, ls_step_launch(step), "step `loaded`",
                   "dynamic loader refused");
    maker.path = LOADED_CODE_1;
    kernel[0].name = "absent";
    EXPECT_FAILURE(context, LS_ERROR_INTERNAL, ls_step_launch(step), "no kernel `absent`");
    kernel[0].name = "loaded_run";
    assert_int_equal(last_of(context, step), 1003);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    free(maker.code);
}

/* Code that was built into a program, and is not what it was. */
static void damaged_code(void **state) {
    (void)state;
    CPU_ONLY();
    static const char *const text[] = {"#####~", NULL};
    const ls_image_packed packed = {text};
    ls_image_variant damaged = image_loaded.variants[0];
    ls_image image = image_loaded;
    const ls_image *list[] = {&image};
    ls_context *context;
    ls_program *program;
    damaged.packed = &packed;
    damaged.code_size = 1000;
    image.variants = &damaged;
    image.variant_count = 1;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, NULL, NULL, NULL, &program));
    ls_step *step = open_step(context, program);
    EXPECT_FAILURE(context, LS_ERROR_FILE, ls_step_launch(step), "the code of step `loaded`",
                   "is damaged; build it again");
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

/* A step of parts, the first of which needs more words than a kernel takes. */
static void too_large_a_part(void **state) {
    (void)state;
    CPU_ONLY();
    ls_image_variant wide = image_fixed.variants[0];
    ls_image large = image_fixed, whole = image_fixed;
    const ls_image_part parts[2] = {{.image = &large}, {.image = &image_fixed}};
    const ls_image *list[] = {&whole};
    ls_context *context;
    ls_program *program;
    ls_step *step;
    wide.temporary_count = LS_ARGUMENTS_MAX;
    large.variants = &wide;
    large.variant_count = 1;
    large.step = "large";
    whole.parts = parts;
    whole.part_count = 2;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_from_images(context, list, 1, NULL, NULL, NULL, &program));
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_step_create(program, "fixed", &step),
                   "step `large` needs", "argument words");
    ls_program_destroy(program);
    ls_context_destroy(context);
}

/* Lengths that are computed of others; words that are none, and what no 64 bits hold. */
static void computed_lengths(void **state) {
    (void)state;
    const ls_image_term two = {LS_TERM_NUMBER, 2}, seven = {LS_TERM_AXIS, 1};
    const ls_image_term add = {LS_TERM_ADD, 0}, multiply = {LS_TERM_MULTIPLY, 0};
    const int64_t lengths[2] = {5, 7}, large[2] = {0, INT64_MAX}, least[2] = {0, INT64_MIN};
    int64_t value = 0;
    ls_image_term terms[40] = {seven, two, add, two, multiply};
    assert_int_equal(ls_image_length(terms, 5, lengths, &value), 1);
    assert_int_equal(value, (7 + 2) * 2);
    assert_int_equal(ls_image_length(terms, 3, large, &value), 0);
    assert_int_equal(ls_image_length(terms, 2, lengths, &value), 0);
    terms[2].operation = LS_TERM_DIVIDE; /* floors */
    assert_int_equal(ls_image_length(terms, 3, lengths, &value), 1);
    assert_int_equal(value, 3);
    terms[1].value = 0;
    value = 1;
    assert_int_equal(ls_image_length(terms, 3, lengths, &value), 1);
    assert_int_equal(value, 0);
    terms[1].value = -1;
    assert_int_equal(ls_image_length(terms, 3, lengths, &value), 1);
    assert_int_equal(value, -7);
    assert_int_equal(ls_image_length(terms, 3, least, &value), 0); /* its negative is no length */
    terms[2].operation = LS_TERM_REMAINDER;
    assert_int_equal(ls_image_length(terms, 3, least, &value), 1);
    assert_int_equal(value, 0);
    terms[1].value = -4; /* floors: of its sign */
    assert_int_equal(ls_image_length(terms, 3, lengths, &value), 1);
    assert_int_equal(value, -1);
    terms[2].operation = LS_TERM_DIVIDE;
    assert_int_equal(ls_image_length(terms, 3, lengths, &value), 1);
    assert_int_equal(value, -2);
    terms[1] = add; /* of one */
    assert_int_equal(ls_image_length(terms, 2, lengths, &value), 0);
    assert_int_equal(ls_image_length(terms, 0, lengths, &value), 0);
    for (int i = 0; i < 40; i++) terms[i] = i < 20 ? two : add;
    assert_int_equal(ls_image_length(terms, 39, lengths, &value), 0); /* too deep */
}

static uint64_t of_scale(const void *of, const ls_image_extent *extent, uint32_t largest) {
    (void)of, (void)largest;
    return extent->scale;
}

/* Strips have the work that is wanted, in whole steps; an axis without coordinates has none. */
static void strips(void **state) {
    (void)state;
    const ls_image_extent work = {.scale = 6400}, bytes = {.scale = 8};
    const ls_image_strips few = {.work = 500, .array_count = 1, .bytes = &bytes};
    const ls_image_strips many = {.work = 2000, .array_count = 1, .bytes = &bytes};
    ls_image_variant variant = {.strips = &few, .work_count = 1, .work = &work};
    assert_int_equal(ls_image_strip(&variant, 64, of_scale, NULL), 16); /* 5 of 100 each */
    assert_int_equal(ls_image_strip(&variant, 7, of_scale, NULL), 7);
    assert_int_equal(ls_image_strip(&variant, 0, of_scale, NULL), 0);
    variant.strips = &many;
    assert_int_equal(ls_image_strip(&variant, 64, of_scale, NULL), 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),         cmocka_unit_test(contexts),
        cmocka_unit_test(names),           cmocka_unit_test(images),
        cmocka_unit_test(code_on_demand),  cmocka_unit_test(broken_code),
        cmocka_unit_test(no_memory_files), cmocka_unit_test(computed_lengths),
        cmocka_unit_test(strips),          cmocka_unit_test(too_large_a_part),
        cmocka_unit_test(damaged_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
