/* compile_test.c: programs from source on the CPU: what liblockstep adds to the runtime. Skipped
 * where there is no host compiler. */
#include "failing_memory.h"
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char source[] =
    "step descend[r, n](inout p: f32[r, n], g: f32[r, n], out w: bf16[r, n],\n"
    "                   inout count: i32, out total: f32, lr: f32 = 0.25) {\n"
    "    p -= lr * g\n"
    "    w = p\n"
    "    count += 1\n"
    "    total = sum(p)\n"
    "}\n"
    "step double[n](x: f32[n], out y: f32[n]) {\n"
    "    y = x + x\n"
    "}\n"
    "step total[n](x: f32[n], out all: f32, out least: f32) {\n"
    "    all = sum(x)\n"
    "    least = min(x - all)\n"
    "}\n";

static ls_context *open_context(const char *threads) {
    ls_context *context;
    setenv("LOCKSTEP_THREADS", threads, 1);
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    return context;
}

enum { ROWS = 37, COLUMNS = 1021, ELEMENTS = ROWS * COLUMNS };

static void fill(float *data, int seed) {
    for (int i = 0; i < ELEMENTS; i++) data[i] = (float)((i * 37 + seed) % 1001 - 500) / 16;
}

/* Three launches; gives the total's bits and leaves the arrays. */
static uint32_t train(const char *threads, bool captured, float *p, const int64_t *strides) {
    static _Alignas(16) float g[ELEMENTS];
    const int64_t shape[2] = {ROWS, COLUMNS};
    ls_context *context = open_context(threads);
    ls_program *program;
    ls_step *step;
    ls_graph *graph = NULL;
    fill(g, 5);
    EXPECT_OK(context, ls_program_load_text(context, "descend.step", source, sizeof source - 1,
                                            NULL, &program));
    assert_int_equal(ls_program_step_count(program), 3);
    EXPECT_OK(context, ls_step_create(program, "descend", &step));
    ls_tensor tp = {p, LS_F32, 2, shape, strides}, tg = tensor_of(g, LS_F32, 2, shape);
    EXPECT_OK(context, ls_step_bind(step, "p", &tp));
    EXPECT_OK(context, ls_step_bind(step, "g", &tg));
    EXPECT_OK(context, ls_step_set_number(step, "count", 40));
    EXPECT_OK(context, ls_step_prepare(step));
    if (captured) {
        EXPECT_OK(context, ls_graph_begin(context));
        EXPECT_OK(context, ls_step_launch(step));
        EXPECT_OK(context, ls_graph_end(context, &graph));
    }
    for (int i = 0; i < 3; i++)
        EXPECT_OK(context, captured ? ls_graph_launch(graph) : ls_step_launch(step));
    int32_t count;
    uint32_t total;
    EXPECT_OK(context, ls_step_get(step, "count", &count));
    EXPECT_OK(context, ls_step_get(step, "total", &total));
    assert_int_equal(count, 43);
    ls_graph_destroy(graph);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    return total;
}

static void same_bits_however_run(void **state) {
    (void)state;
    static _Alignas(16) float first[ELEMENTS], other[ELEMENTS], wide[2 * ELEMENTS];
    fill(first, 0);
    uint32_t total = train("1", false, first, NULL);
    assert_true(first[0] != (float)-500 / 16);
    static const char *const threads[] = {"1", "2", "7"};
    for (int i = 0; i < 6; i++) {
        fill(other, 0);
        assert_int_equal(train(threads[i % 3], i >= 3, other, NULL), total);
        assert_memory_equal(first, other, sizeof first);
    }
    const int64_t strides[2] = {2 * COLUMNS, 2};
    fill(other, 0);
    for (int i = 0; i < ELEMENTS; i++) wide[2 * i] = other[i];
    assert_int_equal(train("2", false, wide, strides), total);
    for (int i = 0; i < ELEMENTS; i++) assert_true(wide[2 * i] == first[i]);
}

/* Which variant two arrays of these strides get: they are ROWS by `columns` and one behind the
 * other, `off` elements from a 16-byte boundary. */
static void expect_layout_of(int64_t columns, const char *wanted, int64_t row, int64_t column,
                             int off) {
    static _Alignas(16) float memory[2][(2 * ELEMENTS + 16) / 4 * 4];
    const int64_t shape[2] = {ROWS, columns}, strides[2] = {row, column};
    ls_context *context = open_context("1");
    ls_program *program;
    ls_step *step;
    ls_step_statistics statistics;
    EXPECT_OK(context, ls_program_load_text(context, "descend.step", source, sizeof source - 1,
                                            NULL, &program));
    EXPECT_OK(context, ls_step_create(program, "descend", &step));
    for (int i = 0; i < 2; i++) {
        const ls_tensor tensor = {memory[i] + off, LS_F32, 2, shape, strides};
        EXPECT_OK(context, ls_step_bind(step, i ? "g" : "p", &tensor));
    }
    EXPECT_OK(context, ls_step_set_number(step, "count", 1));
    EXPECT_OK(context, ls_step_prepare(step));
    EXPECT_OK(context, ls_step_stats(step, &statistics));
    if (!strstr(statistics.variant, wanted)) assert_string_equal(statistics.variant, wanted);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

static void expect_layout(const char *wanted, int64_t row, int64_t column, int off) {
    expect_layout_of(COLUMNS, wanted, row, column, off);
}

/* Rows of neighbours are enough for code that goes along rows, wherever they begin. */
static void layouts(void **state) {
    (void)state;
    CPU_ONLY();
    expect_layout("contiguous arrays", COLUMNS, 1, 0);
    expect_layout("contiguous rows", COLUMNS, 1, 1);
    expect_layout("contiguous rows", COLUMNS + 3, 1, 0);
    expect_layout("contiguous rows", 2 * COLUMNS, 1, 3);
    expect_layout("any strides", 2 * COLUMNS, 2, 0);
    expect_layout("any strides", 1, ROWS, 0);
    expect_layout_of(1, "contiguous rows", 3, 2, 0); /* of one element there are no neighbours */
}

/* Many replays with one call, on a GPU a loop of its own, whose bindings then change. */
static void repeated(void **state) {
    (void)state;
    enum { LENGTH = 1000, TIMES = 70 };
    static _Alignas(16) float p[2][LENGTH], twin[2][LENGTH], g[LENGTH];
    const int64_t shape[2] = {1, LENGTH};
    ls_context *context = open_context("2");
    ls_program *program;
    ls_step *steps[2];
    ls_graph *graph;
    for (int i = 0; i < LENGTH; i++) {
        g[i] = (float)(i % 17 - 8);
        for (int k = 0; k < 2; k++) p[k][i] = twin[k][i] = (float)(i * (k + 1) % 101);
    }
    EXPECT_OK(context, ls_program_load_text(context, "descend.step", source, sizeof source - 1,
                                            NULL, &program));
    for (int i = 0; i < 2; i++) {
        ls_tensor tp = tensor_of(i ? twin[0] : p[0], LS_F32, 2, shape);
        ls_tensor tg = tensor_of(g, LS_F32, 2, shape);
        EXPECT_OK(context, ls_step_create(program, "descend", &steps[i]));
        EXPECT_OK(context, ls_step_bind(steps[i], "p", &tp));
        EXPECT_OK(context, ls_step_bind(steps[i], "g", &tg));
        EXPECT_OK(context, ls_step_set_number(steps[i], "count", 0));
        EXPECT_OK(context, ls_step_prepare(steps[i]));
    }
    EXPECT_OK(context, ls_graph_begin(context));
    EXPECT_OK(context, ls_step_launch(steps[0]));
    EXPECT_OK(context, ls_graph_end(context, &graph));
    for (int k = 0; k < 2; k++) {
        ls_tensor tp = tensor_of(p[k], LS_F32, 2, shape);
        ls_tensor other = tensor_of(twin[k], LS_F32, 2, shape);
        EXPECT_OK(context, ls_step_bind(steps[0], "p", &tp));
        EXPECT_OK(context, ls_graph_update(graph));
        EXPECT_OK(context, ls_graph_repeat(graph, TIMES));
        EXPECT_OK(context, ls_step_bind(steps[1], "p", &other));
        for (int i = 0; i < TIMES; i++) EXPECT_OK(context, ls_step_launch(steps[1]));
        EXPECT_OK(context, ls_synchronize(context));
        assert_memory_equal(p, twin, sizeof p);
        assert_true(p[k][0] != 0);
    }
    ls_graph_statistics statistics;
    EXPECT_OK(context, ls_graph_stats(graph, &statistics));
    assert_int_equal(statistics.loops, ls_context_kind(context) == LS_DEVICE_CUDA);
    assert_int_equal(statistics.reinstantiations, 0);
    ls_graph_destroy(graph);
    for (int i = 0; i < 2; i++) ls_step_destroy(steps[i]);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

static void refusals(void **state) {
    (void)state;
    ls_context *context = open_context("1");
    ls_program *program;
    static const char wrong[] = "step s[n](inout x: f32[n]) {\n    x = y\n}\n";
    EXPECT_FAILURE(
        context, LS_ERROR_PROGRAM,
        ls_program_load_text(context, "wrong.step", wrong, sizeof wrong - 1, NULL, &program),
        "wrong.step:2:", "`y`");
    assert_null(program);
    EXPECT_FAILURE(context, LS_ERROR_FILE,
                   ls_program_load(context, "/nonexistent/file.step", NULL, &program),
                   "/nonexistent/file.step");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_program_load(context, NULL, NULL, &program),
                   "path");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_program_load(context, "x", NULL, NULL),
                   "program");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_program_load(NULL, "x", NULL, &program), "context");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT,
                   ls_program_load_text(context, NULL, wrong, 1, NULL, &program), "name is NULL");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT,
                   ls_program_load_text(context, "x", NULL, 1, NULL, &program), "text is NULL");
    ls_context_destroy(context);
}

static void a_compiler_that_fails(void **state) {
    (void)state;
    CPU_ONLY();
    ls_context *context = open_context("1");
    ls_program *program;
    ls_step *step;
    const ls_compile_options options = {.no_cache = 1};
    static _Alignas(16) float x[4] = {1, 2, 3, 4};
    const int64_t four = 4;
    ls_tensor tensor = tensor_of(x, LS_F32, 1, &four);
    EXPECT_OK(context, ls_program_load_text(context, "descend.step", source, sizeof source - 1,
                                            &options, &program));
    EXPECT_OK(context, ls_step_create(program, "double", &step));
    EXPECT_OK(context, ls_step_bind(step, "x", &tensor));
    const char *before = getenv("LOCKSTEP_CC");
    char *kept = before ? strdup(before) : NULL;
    setenv("LOCKSTEP_CC", "/bin/false", 1);
    EXPECT_FAILURE(context, LS_ERROR_TOOLCHAIN, ls_step_launch(step), "no code for step `double`");
    if (kept)
        setenv("LOCKSTEP_CC", kept, 1);
    else
        unsetenv("LOCKSTEP_CC");
    free(kept);
    EXPECT_OK(context, ls_step_launch(step)); /* the step is fine, and so is the context */
    ls_tensor y;
    EXPECT_OK(context, ls_step_output(step, "y", &y));
    assert_true(((float *)y.data)[3] == 8);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
}

/* Imports find texts that the caller gives, beside the importing file and on the library path. */
/* What kernels hand on lies elsewhere for other lengths: a graph keeps the memory it goes by, with
 * counters that nobody else has written over. */
static void graphs_keep_their_temporaries(void **state) {
    (void)state;
    enum { LARGE = 160 << 10, SMALL = 80 << 10 };
    float *x = aligned_alloc(16, LARGE * sizeof *x);
    const int64_t large = LARGE, small = SMALL;
    ls_context *context = open_context("2");
    ls_program *program;
    ls_step *step;
    ls_graph *graph;
    float all;
    assert_non_null(x);
    for (int i = 0; i < LARGE; i++) x[i] = 1;
    EXPECT_OK(context, ls_program_load_text(context, "descend.step", source, sizeof source - 1,
                                            NULL, &program));
    EXPECT_OK(context, ls_step_create(program, "total", &step));
    ls_tensor tensor = {x, LS_F32, 1, &large, NULL};
    EXPECT_OK(context, ls_step_bind(step, "x", &tensor));
    EXPECT_OK(context, ls_step_prepare(step));
    EXPECT_OK(context, ls_graph_begin(context));
    EXPECT_OK(context, ls_step_launch(step));
    EXPECT_OK(context, ls_graph_end(context, &graph));
    tensor.shape = &small;
    EXPECT_OK(context, ls_step_bind(step, "x", &tensor));
    for (int i = 0; i < 4; i++) {
        if (i & 1)
            EXPECT_OK(context, ls_graph_launch(graph));
        else
            EXPECT_OK(context, ls_step_launch(step));
        EXPECT_OK(context, ls_step_get(step, "all", &all));
        assert_true(all == (i & 1 ? LARGE : SMALL));
        EXPECT_OK(context, ls_step_get(step, "least", &all));
        assert_true(all == 1 - (i & 1 ? LARGE : SMALL));
    }
    ls_graph_destroy(graph);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    free(x);
}

static ls_status compile_c(const char *header, ls_compilation **compilation) {
    static const char text[] =
        "import c \"own.h\"\nstep main(x: f32, out y: f32) {\n    y = own(x)\n}\n";
    const ls_source sources[] = {{"own.h", header, strlen(header)}};
    const ls_compile_options options = {.sources = sources, .source_count = 1};
    return ls_compile_text("main.step", text, sizeof text - 1, &options, compilation);
}

/* The process that tries headers first looks for them where this one is by then: a file that is no
 * regular one is refused there alone. */
static void headers_in_another_folder(void **state) {
    (void)state;
    char folder[] = "/tmp/lockstep-headers-XXXXXX", before[4096];
    ls_compilation *compilation;
    assert_non_null(getcwd(before, sizeof before));
    if (compile_c("static inline float own(float x) { return x; }\n", &compilation) != LS_OK) {
        assert_non_null(strstr(ls_compilation_message(compilation), "needs libclang"));
        ls_compilation_destroy(compilation);
        skip();
    }
    ls_compilation_destroy(compilation);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(symlink("/dev/null", "null.h"), 0);
    const ls_status status = compile_c(
        "#include \"null.h\"\nstatic inline float own(float x) { return x; }\n", &compilation);
    unlink("null.h");
    assert_int_equal(chdir(before), 0);
    rmdir(folder);
    assert_int_equal(status, LS_ERROR_PROGRAM);
    assert_non_null(strstr(ls_compilation_message(compilation), "null.h, which is no file"));
    ls_compilation_destroy(compilation);
}

static void imports_from_memory(void **state) {
    (void)state;
    static const char text[] = "import \"parts/scale\"\nimport \"shelf\" as s\n"
                               "step main(x: f32, out y: f32) {\n    y = scaled(x) + s.one\n}\n";
    static const char scale[] = "import \"../factor\"\nfn scaled(x) = factor * x\n"
                                "step other(inout x: f32) {\n    x *= factor\n}\n";
    static const char factor[] = "const factor = 3\n", shelf[] = "const one = 1\n";
    const ls_source sources[] = {{"parts/scale.step", scale, sizeof scale - 1},
                                 {"./factor.step", factor, sizeof factor - 1},
                                 {"shelves/shelf.step", shelf, sizeof shelf - 1}};
    const char *const paths[] = {"shelves"}, *const defines[] = {"factor=4"};
    ls_compile_options options = {.sources = sources,
                                  .source_count = 3,
                                  .import_paths = paths,
                                  .import_path_count = 1,
                                  .defines = defines,
                                  .define_count = 1};
    ls_compilation *compilation;
    const char *ir;
    size_t size;
    assert_int_equal(ls_compile_text("main.step", text, sizeof text - 1, &options, &compilation),
                     LS_OK);
    assert_int_equal(ls_compilation_step_count(compilation), 2);
    assert_int_equal(ls_compilation_own_step_count(compilation), 1);
    assert_string_equal(ls_compilation_step_name(compilation, 1), "other");
    assert_int_equal(ls_compilation_emit(compilation, 0, "ir", &ir, &size), LS_OK);
    assert_non_null(strstr(ir, "const 4 : f32"));
    ls_compilation_destroy(compilation);
    options.source_count = 2;
    assert_int_equal(ls_compile_text("main.step", text, sizeof text - 1, &options, &compilation),
                     LS_ERROR_PROGRAM);
    assert_string_equal(ls_compilation_diagnostic(compilation, 0)->code, "import-missing");
    ls_compilation_destroy(compilation);
}

/* Sums that wait for each other: each has an array of its own among the arguments. */
static void write_dependent(char *text, size_t size, int sums) {
    int at = snprintf(text, size, "step s[n](x: f32[n], out y: f32) {\n    let a0 = sum(x)\n");
    for (int i = 1; i < sums; i++)
        at += snprintf(text + at, size - (size_t)at, "    let a%d = sum(x * a%d)\n", i, i - 1);
    snprintf(text + at, size - (size_t)at, "    y = a%d\n}\n", sums - 1);
}

static void a_check_finds_what_cannot_be_built(void **state) {
    (void)state;
    static char text[1 << 16];
    ls_compilation *compilation;
    const ls_image *image;
    for (int large = 0; large < 2; large++) {
        write_dependent(text, sizeof text, large ? 600 : 6);
        const ls_status expected = large ? LS_ERROR_PROGRAM : LS_OK;
        assert_int_equal(ls_compile_text("s.step", text, strlen(text), NULL, &compilation), LS_OK);
        assert_int_equal(ls_compilation_check(compilation), expected);
        assert_int_equal(ls_compilation_check(compilation), expected); /* and says it once */
        assert_int_equal(ls_compilation_diagnostic_count(compilation), large);
        assert_int_equal(ls_compilation_image(compilation, 0, "cpu", &image), expected);
        if (large) {
            const ls_diagnostic *diagnostic = ls_compilation_diagnostic(compilation, 0);
            assert_string_equal(diagnostic->code, "unbuildable");
            assert_int_equal(diagnostic->line, 1);
            assert_int_equal(diagnostic->column, 6);
            assert_non_null(strstr(diagnostic->message, "argument words"));
        }
        ls_compilation_destroy(compilation);
    }
}

/* Memory runs out at the n-th allocation, for every n, of a program that is right and one that is
 * not. */
static void memory_runs_out(void **state) {
    (void)state;
    static const char wrong[] = "step s[n](inout x: f32[n]) {\n    x = y + z\n    q = 3\n}\n";
    const char *const texts[] = {source, wrong};
    for (int i = 0; i < 2; i++) {
        ls_context *context = open_context("1");
        ls_status status = LS_ERROR_MEMORY, expected = i == 0 ? LS_OK : LS_ERROR_PROGRAM;
        long n = 0, before = memory_live;
        while (status == LS_ERROR_MEMORY) {
            ls_program *program;
            memory_until_failure = ++n;
            status = ls_program_load_text(context, "text.step", texts[i], strlen(texts[i]), NULL,
                                          &program);
            memory_until_failure = 0;
            ls_program_destroy(program);
            assert_int_equal(memory_live, before);
        }
        assert_int_equal(status, expected);
        assert_true(n > 3);
        ls_context_destroy(context);
    }
}

/* A compiler that goes on only when another runs beside it. */
static const char meeting[] = "#!/bin/sh\n"
                              "case \"$*\" in *-c*) ;; *) exec cc \"$@\" ;; esac\n"
                              ": >$MEETING/$$\n"
                              "for i in $(seq 500); do\n"
                              "    [ $(ls $MEETING | wc -l) -ge 2 ] && exec cc \"$@\"\n"
                              "    sleep 0.01\n"
                              "done\n"
                              "echo nobody came >&2\nexit 1\n";

static void steps_compile_at_once(void **state) {
    (void)state;
    CPU_ONLY();
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) skip();
    char folder[] = "/tmp/lockstep-meeting-XXXXXX", compiler[64], command[160];
    assert_non_null(mkdtemp(folder));
    snprintf(compiler, sizeof compiler, "%s.cc", folder);
    FILE *file = fopen(compiler, "w");
    assert_non_null(file);
    fputs(meeting, file);
    assert_int_equal(fchmod(fileno(file), 0700), 0);
    fclose(file);
    setenv("MEETING", folder, 1);
    setenv("LOCKSTEP_CC", compiler, 1);
    static float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int64_t shape[1] = {8};
    const ls_compile_options options = {.no_cache = 1};
    ls_context *context = open_context("1");
    ls_program *program;
    ls_step *steps[2];
    const char *names[] = {"double", "total"};
    EXPECT_OK(context, ls_program_load_text(context, "descend.step", source, sizeof source - 1,
                                            &options, &program));
    ls_tensor tx = tensor_of(x, LS_F32, 1, shape);
    for (size_t i = 0; i < 2; i++) {
        EXPECT_OK(context, ls_step_create(program, names[i], &steps[i]));
        EXPECT_OK(context, ls_step_bind(steps[i], "x", &tx));
    }
    EXPECT_OK(context, ls_steps_prepare(steps, 2));
    EXPECT_OK(context, ls_steps_prepare(steps, 2)); /* which has nothing to do */
    float all;
    for (size_t i = 0; i < 2; i++) {
        ls_step_statistics statistics;
        EXPECT_OK(context, ls_step_launch(steps[i]));
        EXPECT_OK(context, ls_step_stats(steps[i], &statistics));
        assert_false(statistics.from_cache);
    }
    EXPECT_OK(context, ls_step_get(steps[1], "all", &all));
    assert_true(all == 36);
    for (size_t i = 0; i < 2; i++) ls_step_destroy(steps[i]);
    ls_program_destroy(program);
    unsetenv("LOCKSTEP_CC");
    snprintf(command, sizeof command, "rm -r %s %s", folder, compiler);
    assert_int_equal(system(command), 0);
    assert_int_equal(ls_steps_prepare((ls_step *[]){NULL}, 1), LS_ERROR_ARGUMENT);
    ls_context_destroy(context);
}

/* On an emulated device every array ends at a page that nobody may touch: the pool is off there. */
static void ends_are_watched(void **state) {
    (void)state;
    ls_context *context = open_context("1");
    ls_memory_statistics statistics;
    void *memory;
    for (int i = 0; i < 2; i++) EXPECT_OK(context, ls_alloc(context, 100, &memory));
    ls_memory_stats(context, &statistics);
    assert_int_equal(statistics.chunks, ON_CPU ? 1 : 2);
    ls_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_run),
        cmocka_unit_test(layouts),
        cmocka_unit_test(repeated),
        cmocka_unit_test(refusals),
        cmocka_unit_test(a_compiler_that_fails),
        cmocka_unit_test(imports_from_memory),
        cmocka_unit_test(headers_in_another_folder),
        cmocka_unit_test(graphs_keep_their_temporaries),
        cmocka_unit_test(a_check_finds_what_cannot_be_built),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(steps_compile_at_once),
        cmocka_unit_test(ends_are_watched),
    };
    char version[256];
    if (!ls_toolchain_describe("host", version, sizeof version)) {
        printf("no host compiler: %s\n", version);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
