/* known_test.c: code in which the lengths of short rows are constants is made beside a program that
 * launches a step often, takes the place of the general code in launches and in graphs, and gives
 * the same bits. What was made is read in the log. Skipped where there is no host compiler. */
#include "fixtures.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char source[] =
    "step norm[b, c](x: f32[b, c], gain: f32[c], out y: f32[b, c], out top: f32[b]) {\n"
    "    y = x * rsqrt(mean[c](x * x) + 1e-5) * gain\n"
    "    top = logsumexp[c](x)\n"
    "}\n"
    "step turns[t, b, c](x: f32[t, b, c], inout y: f32[b, c]) {\n"
    "    for t {\n"
    "        let s = sum[c](y * x)\n"
    "        y = x + y * s / (1 + abs(s))\n"
    "    }\n"
    "}\n";

enum { ROWS = 37, TURNS = 3, MOST = 1500, PATIENCE = 100 /* seconds */ };

static char folder[] = "/tmp/lockstep-known-XXXXXX", log_path[64];

typedef struct Run {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    float *x, *gain, *y, *top;
} Run;

/* LOCKSTEP_LENGTHS and the folder of the cache are as `lengths` and `cache` say. */
static Run open_run(const char *lengths, const char *cache, const char *step) {
    Run r = {.x = malloc(sizeof(float) * TURNS * ROWS * MOST),
             .gain = malloc(sizeof(float) * MOST),
             .y = malloc(sizeof(float) * ROWS * MOST),
             .top = malloc(sizeof(float) * ROWS)};
    char path[128];
    assert_true(r.x && r.gain && r.y && r.top);
    for (size_t i = 0; i < TURNS * ROWS * MOST; i++)
        r.x[i] = (float)((i * 2654435761u) >> 8 & 0xffff) / 3e4f - 1;
    for (size_t i = 0; i < MOST; i++) r.gain[i] = 1 + (float)i / MOST;
    for (size_t i = 0; i < ROWS * MOST; i++) r.y[i] = r.x[i] / 2;
    snprintf(path, sizeof path, "%s/%s", folder, cache);
    setenv("LOCKSTEP_CACHE_DIR", path, 1);
    setenv("LOCKSTEP_LENGTHS", lengths, 1);
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &r.context));
    EXPECT_OK(r.context, ls_program_load_text(r.context, "known.step", source, sizeof source - 1,
                                              NULL, &r.program));
    EXPECT_OK(r.context, ls_step_create(r.program, step, &r.step));
    return r;
}

static void close_run(Run *r) {
    ls_step_destroy(r->step);
    ls_program_destroy(r->program);
    ls_context_destroy(r->context);
    free(r->x), free(r->gain), free(r->y), free(r->top);
}

static void bind_one(const Run *r, const char *name, float *data, uint32_t rank,
                     const int64_t *shape) {
    const ls_tensor tensor = {data, LS_F32, rank, shape, NULL};
    EXPECT_OK(r->context, ls_step_bind(r->step, name, &tensor));
}

static void bind_norm(const Run *r, int64_t columns) {
    const int64_t shape[] = {ROWS, columns};
    bind_one(r, "x", r->x, 2, shape);
    bind_one(r, "gain", r->gain, 1, &shape[1]);
    bind_one(r, "y", r->y, 2, shape);
    bind_one(r, "top", r->top, 1, shape);
}

/* How often the log has the words since it was emptied. */
static size_t count_logged(const char *words) {
    static char text[1 << 16];
    const int file = open(log_path, O_RDONLY);
    assert_true(file >= 0);
    const ssize_t size = read(file, text, sizeof text - 1);
    assert_true(size >= 0);
    close(file);
    text[size] = 0;
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) count++;
    return count;
}

static void empty_log(void) {
    fflush(stderr);
    assert_int_equal(ftruncate(STDERR_FILENO, 0), 0);
}

/* The same launch by code that knows no length. */
static void expect_general(int64_t columns, const Run *run) {
    Run general = open_run("off", "general", "norm");
    bind_norm(&general, columns);
    EXPECT_OK(general.context, ls_step_launch(general.step));
    assert_memory_equal(run->y, general.y, sizeof(float) * ROWS * (size_t)columns);
    assert_memory_equal(run->top, general.top, sizeof(float) * ROWS);
    close_run(&general);
}

static void launches(void **state) {
    (void)state;
    Run r = open_run("", "launches", "norm");
    bind_norm(&r, 80);
    empty_log();
    for (int i = 0; i < 10; i++) EXPECT_OK(r.context, ls_step_launch(r.step));
    assert_int_equal(count_logged("code for c=80"), 0);
    for (time_t end = time(NULL) + PATIENCE; !count_logged("code for c=80 compiled");) {
        assert_true(time(NULL) < end);
        EXPECT_OK(r.context, ls_step_launch(r.step));
    }
    memset(r.y, 0, sizeof(float) * ROWS * 80);
    memset(r.top, 0, sizeof(float) * ROWS);
    EXPECT_OK(r.context, ls_step_launch(r.step));
    expect_general(80, &r);
    close_run(&r);

    r = open_run("", "launches", "norm"); /* of the next process, as it were */
    bind_norm(&r, 80);
    empty_log();
    EXPECT_OK(r.context, ls_step_launch(r.step));
    assert_int_equal(count_logged("code for c=80 from the cache"), 1);
    expect_general(80, &r);
    bind_norm(&r, 81); /* other rows by the same variant */
    EXPECT_OK(r.context, ls_step_launch(r.step));
    expect_general(81, &r);
    close_run(&r);
}

static void graphs(void **state) {
    (void)state;
    Run r = open_run("", "graphs", "norm");
    ls_graph *graph;
    ls_graph_statistics statistics;
    bind_norm(&r, 72);
    empty_log();
    EXPECT_OK(r.context, ls_step_launch(r.step));
    EXPECT_OK(r.context, ls_graph_begin(r.context));
    EXPECT_OK(r.context, ls_step_launch(r.step));
    EXPECT_OK(r.context, ls_graph_end(r.context, &graph));
    for (time_t end = time(NULL) + PATIENCE; !count_logged("code for c=72 compiled");) {
        assert_true(time(NULL) < end);
        EXPECT_OK(r.context, ls_graph_repeat(graph, 2));
    }
    memset(r.y, 0, sizeof(float) * ROWS * 72);
    EXPECT_OK(r.context, ls_graph_launch(graph));
    expect_general(72, &r);
    EXPECT_OK(r.context, ls_graph_update(graph)); /* its launches are those of the step */
    EXPECT_OK(r.context, ls_graph_stats(graph, &statistics));
    assert_int_equal(statistics.updated, 0);

    bind_norm(&r, 73); /* the graph keeps its rows, and their code */
    EXPECT_OK(r.context, ls_step_launch(r.step));
    memset(r.y, 0, sizeof(float) * ROWS * 72);
    EXPECT_OK(r.context, ls_graph_launch(graph));
    expect_general(72, &r);
    EXPECT_OK(r.context, ls_graph_update(graph));
    EXPECT_OK(r.context, ls_graph_stats(graph, &statistics));
    assert_int_equal(statistics.updated, 1);
    memset(r.y, 0, sizeof(float) * ROWS * 73);
    EXPECT_OK(r.context, ls_graph_launch(graph));
    expect_general(73, &r);
    ls_graph_destroy(graph);
    close_run(&r);
}

/* Nothing of a capture may depend on code that comes meanwhile. */
static void captures(void **state) {
    (void)state;
    Run r = open_run("", "captures", "norm");
    ls_graph *graph;
    bind_norm(&r, 48);
    for (int i = 0; i < 40; i++) EXPECT_OK(r.context, ls_step_launch(r.step));
    EXPECT_OK(r.context, ls_graph_begin(r.context));
    for (int i = 0; i < 100; i++) {
        EXPECT_OK(r.context, ls_step_launch(r.step));
        usleep(5000);
    }
    EXPECT_OK(r.context, ls_graph_end(r.context, &graph));
    EXPECT_OK(r.context, ls_graph_launch(graph));
    expect_general(48, &r);
    ls_graph_destroy(graph);
    close_run(&r);
}

static void four_at_most(void **state) {
    (void)state;
    static const int64_t columns[] = {1, 17, 64, 1500, 257, 1023, 80, 64, 17};
    Run r = open_run("now", "four", "norm");
    empty_log();
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        bind_norm(&r, columns[i]);
        EXPECT_OK(r.context, ls_step_launch(r.step));
        expect_general(columns[i], &r);
    }
    assert_int_equal(count_logged("code for c="), 4);
    assert_int_equal(count_logged("code for c=1500"), 0);
    assert_int_equal(count_logged("code for c=1023"), 0);
    close_run(&r);
}

static void loops(void **state) {
    (void)state;
    Run r[] = {open_run("off", "loops", "turns"), open_run("now", "loops", "turns")};
    const int64_t columns = 80, x[] = {TURNS, ROWS, columns};
    empty_log();
    for (int i = 0; i < 2; i++) {
        bind_one(&r[i], "x", r[i].x, 3, x);
        bind_one(&r[i], "y", r[i].y, 2, &x[1]);
        EXPECT_OK(r[i].context, ls_step_launch(r[i].step));
        assert_int_equal(count_logged("code for c=80 compiled") > 0, i);
    }
    assert_memory_equal(r[0].y, r[1].y, sizeof(float) * ROWS * (size_t)columns);
    for (int i = 0; i < 2; i++) close_run(&r[i]);

    Run beside = open_run("", "beside", "turns");
    bind_one(&beside, "x", beside.x, 3, x);
    bind_one(&beside, "y", beside.y, 2, &x[1]);
    empty_log();
    for (time_t end = time(NULL) + PATIENCE; !count_logged("code for c=80 compiled");) {
        assert_true(time(NULL) < end);
        EXPECT_OK(beside.context, ls_step_launch(beside.step));
    }
    close_run(&beside);
}

static void refused(void **state) {
    (void)state;
    ls_context *context;
    setenv("LOCKSTEP_LENGTHS", "later", 1);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create("cpu", NULL, &context),
                   "LOCKSTEP_LENGTHS is `later`; it takes off or now");
    setenv("LOCKSTEP_LENGTHS", "", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches),     cmocka_unit_test(graphs), cmocka_unit_test(captures),
        cmocka_unit_test(four_at_most), cmocka_unit_test(loops),  cmocka_unit_test(refused),
    };
    char version[256];
    if (!ls_toolchain_describe("host", version, sizeof version)) {
        printf("no host compiler: %s\n", version);
        return 77;
    }
    if (!mkdtemp(folder)) return 1;
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    setenv("LOCKSTEP_LOG", "info", 1);
    const int said = dup(STDERR_FILENO);
    if (said < 0 || !freopen(log_path, "a", stderr)) return 1;
    setvbuf(stderr, NULL, _IONBF, 0);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "cat %s >&2; rm -rf %s", failed ? log_path : "/dev/null",
             folder);
    fflush(stderr);
    dup2(said, STDERR_FILENO);
    return system(command) != 0 || failed;
}
