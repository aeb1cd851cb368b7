/* options_test.c: what ls_program_load and the compiler's own functions say of options that are
 * wrong or half set, what imports bring into a program, and that flat arrays of lists with axes of
 * their own are one tensor each. */
#include "fixtures.h"

#include <stdio.h>
#include <string.h>

static const char text[] = "const scale = 2\n"
                           "step double[n](x: f32[n], out y: f32[n]) {\n"
                           "    y = x * scale\n"
                           "}\n";

static void refuse(ls_compile_options options, const char *message) {
    ls_context *context;
    ls_program *program;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_FAILURE(
        context, LS_ERROR_ARGUMENT,
        ls_program_load_text(context, "double.step", text, strlen(text), &options, &program),
        message);
    assert_null(program);
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT,
                   ls_program_load(context, "std/optim", &options, &program), message);
    ls_context_destroy(context);
}

static void options(void **state) {
    static const char *const good[] = {"scale=3"}, *const hole[] = {"scale=3", NULL};
    static const ls_source nameless = {NULL, "", 0};
    (void)state;
    refuse((ls_compile_options){.defines = hole, .define_count = 2}, "options.defines[1] is NULL");
    refuse((ls_compile_options){.define_count = 2},
           "options.defines is NULL, but options.define_count is 2");
    refuse((ls_compile_options){.defines = good},
           "options.define_count is 0, but options.defines is not NULL");
    refuse((ls_compile_options){.import_paths = hole, .import_path_count = 2},
           "options.import_paths[1] is NULL");
    refuse((ls_compile_options){.import_paths = good}, "options.import_path_count is 0");
    refuse((ls_compile_options){.math = (ls_math)9}, "options.math is 9");
    refuse((ls_compile_options){.math = (ls_math)-1}, "options.math is -1");
    refuse((ls_compile_options){.sources = &nameless}, "options.source_count is 0");
    refuse((ls_compile_options){.sources = &nameless, .source_count = 1}, "without a name");
}

/* The compiler's functions take NULL, and paths and texts that are NULL are errors. */
static void compilations(void **state) {
    ls_compilation *compilation;
    const ls_image *image;
    const char *data;
    size_t size;
    (void)state;
    assert_string_equal(ls_compilation_message(NULL), "the compilation is NULL");
    assert_string_equal(ls_compilation_message_color(NULL), "the compilation is NULL");
    assert_int_equal(ls_compilation_diagnostic_count(NULL), 0);
    assert_null(ls_compilation_diagnostic(NULL, 0));
    assert_int_equal(ls_compilation_step_count(NULL), 0);
    assert_int_equal(ls_compilation_own_step_count(NULL), 0);
    assert_null(ls_compilation_step_name(NULL, 0));
    assert_int_equal(ls_compilation_file_count(NULL), 0);
    assert_null(ls_compilation_file(NULL, 0));
    assert_int_equal(ls_compilation_check(NULL), LS_ERROR_ARGUMENT);
    assert_int_equal(ls_compilation_image(NULL, 0, "cpu", &image), LS_ERROR_ARGUMENT);
    assert_int_equal(ls_compilation_emit(NULL, 0, "c", &data, &size), LS_ERROR_ARGUMENT);
    ls_compilation_destroy(NULL);
    assert_int_equal(ls_compile_file(NULL, NULL, &compilation), LS_ERROR_ARGUMENT);
    assert_string_equal(ls_compilation_message(compilation), "the name of the text is NULL");
    ls_compilation_destroy(compilation);
    assert_int_equal(ls_compile_text("a.step", NULL, 1, NULL, &compilation), LS_ERROR_ARGUMENT);
    assert_string_equal(ls_compilation_message(compilation), "the text is NULL");
    ls_compilation_destroy(compilation);
}

/* Imported steps can be had by their names; a message about a name that is none lists the file's
 * own. */
static void imports(void **state) {
    static const char importing[] = "import \"std/optim\"\n"
                                    "import \"std/norms\"\n"
                                    "step double[n](x: f32[n], out y: f32[n]) {\n"
                                    "    y = x * 2\n"
                                    "}\n";
    ls_context *context;
    ls_program *program;
    ls_step *step;
    (void)state;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context, ls_program_load_text(context, "double.step", importing, strlen(importing),
                                            NULL, &program));
    assert_true(ls_program_step_count(program) > 40);
    assert_string_equal(ls_program_step_name(program, 0), "double");
    EXPECT_OK(context, ls_step_create(program, "layer_norm_backward", &step));
    assert_string_equal(ls_step_image(step)->step, "layer_norm_backward");
    ls_step_destroy(step);
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_step_create(program, "layer_norm_bakward", &step),
                   "did you mean `layer_norm_backward`?");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_step_create(program, "quantum", &step),
                   "no step `quantum`; there is `double`");
    assert_null(strstr(ls_error_message(context), "adamw"));
    ls_program_destroy(program);
    ls_context_destroy(context);
}

/* A step of the library is compiled when it is asked for, once. */
static void late_steps(void **state) {
    ls_compilation *compilation;
    const ls_image *image;
    size_t step = 0;
    (void)state;
    static const char importing[] = "import \"std/optim\"\n";
    assert_int_equal(ls_compile_text("a.step", importing, strlen(importing), NULL, &compilation),
                     LS_OK);
    assert_int_equal(ls_compilation_own_step_count(compilation), 0);
    while (strcmp(ls_compilation_step_name(compilation, step), "adamw") != 0) step++;
    assert_int_equal(ls_compilation_image(compilation, step, "cpu", &image), LS_OK);
    assert_string_equal(image->step, "adamw");
    assert_int_equal(ls_compilation_image(compilation, step, "cpu", &image), LS_OK);
    assert_int_equal(ls_compilation_image(compilation, 100000, "cpu", &image), LS_ERROR_ARGUMENT);
    ls_compilation_destroy(compilation);
}

static void flat_axes(void **state) {
    static const char both[] = "step both[t, n of t, m of t](p: f32[t, n], q: f32[t, m],\n"
                               "        out r: f32[t]) {\n"
                               "    r = sum[n](p) + sum[m](q)\n"
                               "}\n";
    static float p[5] = {1, 2, 3, 4, 5}, q[3] = {10, 20, 30}, r;
    const int64_t n = 5, m = 3, one = 1;
    const ls_tensor arrays[] = {tensor_of(p, LS_F32, 1, &n), tensor_of(q, LS_F32, 1, &m),
                                tensor_of(&r, LS_F32, 1, &one)};
    ls_context *context;
    ls_program *program;
    ls_step *step;
    (void)state;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_OK(context,
              ls_program_load_text(context, "both.step", both, sizeof both - 1, NULL, &program));
    EXPECT_OK(context, ls_step_create(program, "both", &step));
    EXPECT_OK(context, ls_step_bind(step, "p", &arrays[0]));
    EXPECT_OK(context, ls_step_bind(step, "q", &arrays[1]));
    EXPECT_OK(context, ls_step_bind(step, "r", &arrays[2]));
    const ls_status status = ls_step_launch(step);
    if (status != LS_ERROR_TOOLCHAIN) { /* there is a host compiler */
        EXPECT_OK(context, status);
        EXPECT_OK(context, ls_synchronize(context));
        assert_true(r == 15 + 60);
    }
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),    cmocka_unit_test(compilations), cmocka_unit_test(imports),
        cmocka_unit_test(late_steps), cmocka_unit_test(flat_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
