/* scenario_fallback.c: what is done where a device or a driver lacks something: the same results,
 * and one line of log that says why. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 20500 };
#define CUDA (strcmp(DEVICE, "cuda") == 0)

/* Calls that the driver does not have: any whose name holds this. The test is linked with --wrap.
 */
static const char *hidden;
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name) {
    return hidden && strstr(name, hidden) ? NULL : __real_dlsym(handle, name);
}

/* ---- the log ---- */

typedef struct Log {
    int before;
    FILE *file;
    char text[8192];
} Log;

static void log_begin(Log *log) {
    fflush(stderr);
    log->file = tmpfile();
    assert_non_null(log->file);
    log->before = dup(STDERR_FILENO);
    assert_true(dup2(fileno(log->file), STDERR_FILENO) >= 0);
    setenv("LOCKSTEP_LOG", "info", 1);
}

static void log_end(Log *log) {
    unsetenv("LOCKSTEP_LOG");
    fflush(stderr);
    dup2(log->before, STDERR_FILENO);
    close(log->before);
    rewind(log->file);
    log->text[fread(log->text, 1, sizeof log->text - 1, log->file)] = 0;
    fclose(log->file);
}

static size_t lines_with(const Log *log, const char *piece) {
    size_t count = 0;
    for (const char *at = log->text; (at = strstr(at, piece)) != NULL; at++) count++;
    return count;
}

/* ---- work whose results tell whether anything was left out or done twice ---- */

typedef struct Results {
    float arrays[2][LENGTH];
    int64_t counts[2];
} Results;

static void work_hook(const char *kernel, const uint64_t *words, unsigned grid, unsigned block) {
    float *p = (float *)(uintptr_t)words[1];
    const int64_t count = *(const int64_t *)(uintptr_t)words[2];
    drive_hook(kernel, words, grid, block);
    if (strcmp(kernel, "drive") != 0) return;
    for (uint64_t i = 0; i < words[0]; i++) p[i] = p[i] * 0.75f + (float)((int64_t)i % 7 + count);
}

static void bind(ls_context *context, ls_step *step, float *array, int64_t length) {
    const ls_tensor tensor = tensor_of(array, LS_F32, 1, &length);
    EXPECT_OK(context, ls_step_bind(step, "p", &tensor));
}

static void do_work(Results *results, ls_graph_statistics *statistics) {
    static _Alignas(64) float arrays[2][LENGTH];
    ls_context *context;
    ls_program *program;
    ls_step *steps[2];
    ls_graph *graph;
    memset(arrays, 0, sizeof arrays);
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
    EXPECT_OK(context,
              ls_program_from_images(context, drive_images, 1, NULL, NULL, NULL, &program));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(context, ls_step_create(program, "drive", &steps[i]));
        EXPECT_OK(context, ls_step_set_number(steps[i], "flag", 1));
        bind(context, steps[i], arrays[i], LENGTH);
        EXPECT_OK(context, ls_step_launch(steps[i]));
    }
    EXPECT_OK(context, ls_graph_begin(context));
    for (int i = 0; i < 3; i++) EXPECT_OK(context, ls_step_launch(steps[i % 2]));
    EXPECT_OK(context, ls_graph_end(context, &graph));
    EXPECT_OK(context, ls_graph_launch(graph));
    EXPECT_OK(context, ls_graph_repeat(graph, 25));
    bind(context, steps[0], arrays[1], LENGTH);
    bind(context, steps[1], arrays[0], LENGTH);
    EXPECT_OK(context, ls_graph_update(graph));
    EXPECT_OK(context, ls_graph_repeat(graph, 3));
    EXPECT_OK(context, ls_step_set_number(steps[1], "count", 40));
    EXPECT_OK(context, ls_graph_launch(graph));
    for (int i = 0; i < 2; i++)
        EXPECT_OK(context, ls_step_get(steps[i], "count", &results->counts[i]));
    memcpy(results->arrays, arrays, sizeof arrays);
    EXPECT_OK(context, ls_graph_stats(graph, statistics));
    ls_graph_destroy(graph);
    ls_step_destroy(steps[0]);
    ls_step_destroy(steps[1]);
    ls_program_destroy(program);
    ls_context_destroy(context);
    assert_nothing_left();
}

typedef struct Lack {
    const char *hidden, *line;
    int version; /* of the driver; 0: new */
    GpuVerb refused;
    bool not_cooperative, unrecorded;
    int refuses_together; /* with this error, though the device can */
    size_t steps;         /* a line for each; 0: one line */
    int native, renewed;  /* what the graph's statistics then say */
} Lack;

static void expect_same(const Results *expected, const Lack *lack) {
    static Results results;
    ls_graph_statistics statistics;
    Log log;
    stand_in_reset(work_hook);
    hidden = lack->hidden;
    if (lack->version) control->version = lack->version;
    control->fail_verb = lack->refused;
    control->fail_with = 801;
    control->cooperative = !lack->not_cooperative;
    control->unrecorded = lack->unrecorded;
    control->refuses_together = lack->refuses_together;
    log_begin(&log);
    do_work(&results, &statistics);
    log_end(&log);
    hidden = NULL;
    if (lines_with(&log, lack->line) != (lack->steps ? lack->steps : 1))
        fail_msg("not as many lines as expected with \"%s\" but %zu in:\n%s", lack->line,
                 lines_with(&log, lack->line), log.text);
    assert_memory_equal(&results, expected, sizeof results);
    assert_int_equal(statistics.native, lack->native);
    assert_int_equal(statistics.reinstantiations, lack->renewed);
}

void fallbacks(void **state) {
    (void)state;
    static Results expected;
    static const Lack both[] = {
        {.not_cooperative = true,
         .steps = 2,
         .native = 1,
         .line = "has no kernels whose blocks wait for each other (the device cannot), so `tiles` "
                 "is not used"},
        /* as under MPS: the first launch of the first step finds out */
        {.refuses_together = 801,
         .steps = 2,
         .native = 1,
         .line = "CooperativeKernel failed with STAND_IN_OTHER (801)), so `tiles` is not used"},
        {.refuses_together = 720,
         .steps = 2,
         .native = 1,
         .line = "CooperativeKernel failed with STAND_IN_OTHER (720)), so `tiles` is not used"},
        /* as on a context of some of the multiprocessors */
        {.refuses_together = 800,
         .steps = 2,
         .native = 1,
         .line = "CooperativeKernel failed with STAND_IN_OTHER (800)), so `tiles` is not used"},
        {.hidden = "LaunchCooperativeKernel", .steps = 2, .native = 1, .line = "driver lacks "},
        {.hidden = "GraphExecKernelNodeSetParams",
         .native = 1,
         .renewed = 1,
         .line = "has no new parameters for a graph's kernels ("},
    };
    static const Lack cuda[] = {
        {.version = 12030,
         .native = 1,
         .line = "cuda:0 has no graphs that repeat themselves (they take CUDA 12.4 (NVIDIA driver "
                 "550)): one is launched as often as it is repeated"},
        {.hidden = "GraphConditional",
         .native = 1,
         .line = "(the CUDA driver lacks cuGraphConditionalHandleCreate): one is launched"},
        {.refused = VERB_graph_condition,
         .native = 1,
         .line = "the device cannot repeat this graph by itself (cuGraphConditionalHandleCreate "
                 "failed with "},
    };
    static const Lack hip[] = {
        {.native = 1,
         .line = "hip:0 has no graphs that repeat themselves (the HIP driver has no such thing)"},
        {.hidden = "R0600", /* before HIP 6 the device's name lies elsewhere */
         .native = 1,
         .line = "context on hip:0: Stand-in 0, gfx90a, 10 multiprocessors"},
        {.version = 60399999,
         .unrecorded = true,
         .steps = 2,
         .native = 1,
         .line = "hip:0 has no kernels whose blocks wait for each other (HIP before 6.4 runs them "
                 "at once when a graph is captured), so `tiles` is not used"},
        {.version = 50200000,
         .line =
             "hip:0 has no graphs (those of ROCm before 5.3 are not to be relied on): a graph's "
             "launches are recorded and launched one by one"},
    };
    ls_graph_statistics statistics;
    stand_in_reset(work_hook);
    do_work(&expected, &statistics);
    assert_true(expected.counts[0] == 5 + 1 + 2 * 30 && expected.counts[1] == 40 + 1);
    assert_int_equal(statistics.native, 1);
    assert_int_equal(statistics.loops, CUDA);
    for (size_t i = 0; i < COUNT(both); i++) expect_same(&expected, &both[i]);
    for (size_t i = 0; CUDA && i < COUNT(cuda); i++) expect_same(&expected, &cuda[i]);
    for (size_t i = 0; !CUDA && i < COUNT(hip); i++) expect_same(&expected, &hip[i]);
}

static void do_nothing(void *argument, uint64_t first, uint64_t last) {
    (void)argument, (void)first, (void)last;
}

void host_work_lacking(void **state) {
    static const ls_host_work work = {.run = do_nothing, .items = 1};
    ls_context *context;
    (void)state;
    stand_in_reset(work_hook);
    hidden = "LaunchHostFunc";
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_host_call(context, &work), "driver lacks ",
                   "LaunchHostFunc; install a newer one");
    ls_context_destroy(context);
    hidden = NULL;
    assert_nothing_left();
}

/* The driver copies rows whose number and distances fit what its call takes. */
void rows_of_copies(void **state) {
    (void)state;
    static const char from[1];
    const Copy good = {.from = from, .width = 4, .rank = 1, .axes = {{INT32_MAX, 8, 16}}};
    Copy copy = good;
    assert_true(gpu_copies(&copy));
    copy.axes[0].length++;
    assert_false(gpu_copies(&copy));
    copy = good;
    copy.axes[0].from = 3;
    assert_false(gpu_copies(&copy));
    copy = good;
    copy.axes[0].to = (int64_t)INT32_MAX + 1;
    assert_false(gpu_copies(&copy));
}

/* Of a driver that runs what it should record nobody knew: a failure that says what happened, and
 * from then on other kernels, in our captures and in the program's. */
void unrecorded(void **state) {
    (void)state;
    enum { LENGTH_OF_TWO = 2 * LENGTH };
    static _Alignas(64) float array[LENGTH_OF_TWO];
    static const char message[] =
        "of step `drive` on " DEVICE ":0: it was to be recorded in a graph, "
        "and the driver ran it at once";
    for (int theirs = 0; theirs < 2; theirs++) {
        ls_context *context;
        ls_program *program;
        ls_step *step;
        ls_graph *graph;
        void *stream = NULL, *recording = NULL, *primary = NULL;
        const GpuCurrent current = thread_current();
        Log log;
        stand_in_reset(work_hook);
        if (theirs && CUDA) {
            VENDORS(context_retain, &primary, 0);
            VENDORS(context_use, primary);
        }
        if (theirs) VENDORS(stream_create, &stream, 0);
        EXPECT_OK(NULL, ls_context_create(DEVICE, stream, &context));
        EXPECT_OK(context,
                  ls_program_from_images(context, drive_images, 1, NULL, NULL, NULL, &program));
        EXPECT_OK(context, ls_step_create(program, "drive", &step));
        EXPECT_OK(context, ls_step_set_number(step, "flag", 1));
        bind(context, step, array, LENGTH);
        EXPECT_OK(context, ls_step_launch(step));
        EXPECT_OK(context, ls_synchronize(context));
        control->unrecorded = 1;
        control->launches_together = 0;
        EXPECT_OK(context, ls_step_launch(step)); /* where nothing is captured all is well */
        EXPECT_OK(context, ls_synchronize(context));
        assert_int_equal(control->launches_together, 1);
        if (theirs)
            VENDORS(capture_begin, stream, GPU_CAPTURE_RELAXED);
        else
            EXPECT_OK(context, ls_graph_begin(context));
        EXPECT_FAILURE(context, LS_ERROR_DEVICE, ls_step_launch(step), message);
        EXPECT_FAILURE(context, LS_ERROR_STATE, ls_step_launch(step), "is not prepared");
        if (theirs) {
            VENDORS(capture_end, stream, &recording);
            VENDORS(graph_destroy, recording);
        } else {
            EXPECT_FAILURE(context, LS_ERROR_STATE, ls_graph_end(context, &graph),
                           "no graph was made, because a call during the capture failed");
        }
        log_begin(&log);
        EXPECT_OK(context, ls_step_prepare(step));
        log_end(&log);
        EXPECT_OK(context, ls_synchronize(context));
        assert_int_equal(lines_with(&log,
                                    "(the driver runs them at once when a graph is captured), "
                                    "so `tiles` is not used"),
                         1);
        control->launches_together = 0;
        const long launches = control->launches;
        EXPECT_OK(context, ls_graph_begin(context));
        EXPECT_OK(context, ls_step_launch(step));
        EXPECT_OK(context, ls_graph_end(context, &graph));
        assert_int_equal(control->launches, launches); /* nothing ran at once */
        EXPECT_OK(context, ls_graph_repeat(graph, 3));
        bind(context, step, array + LENGTH, LENGTH);
        EXPECT_OK(context, ls_graph_update(graph));
        EXPECT_OK(context, ls_graph_launch(graph));
        EXPECT_OK(context, ls_synchronize(context));
        assert_int_equal(control->launches_together, 0);
        assert_true(control->launches > launches);
        ls_graph_destroy(graph);
        ls_step_destroy(step);
        ls_program_destroy(program);
        ls_context_destroy(context);
        if (theirs) VENDORS(stream_destroy, stream);
        if (primary) {
            VENDORS(context_release, 0);
            VENDORS(context_use, current.context);
        }
        assert_nothing_left();
    }
}

/* A GPU that is too old: `auto` goes on to the next device. Code for another one: the nearest. */
void old_devices(void **state) {
    (void)state;
    if (!CUDA) return;
    Log log;
    ls_context *context;
    ls_program *program;
    ls_step *step;
    stand_in_reset(drive_hook);
    setenv("LOCKSTEP_HIP", "/nonexistent", 1);
    control->capability = 52;
    EXPECT_FAILURE(NULL, LS_ERROR_DEVICE, ls_context_create("cuda", NULL, &context),
                   "Stand-in 0 is too old, sm_52: Lockstep needs compute capability 6.0 or newer");
    log_begin(&log);
    EXPECT_OK(NULL, ls_context_create("auto", NULL, &context));
    log_end(&log);
    unsetenv("LOCKSTEP_HIP");
    assert_int_equal(ls_context_kind(context), LS_DEVICE_CPU);
    assert_int_equal(lines_with(&log, "auto passes over cuda: "), 1);
    assert_int_equal(lines_with(&log, "is too old, sm_52"), 1);
    ls_context_destroy(context);
    control->capability = 86;
    ls_image older = *drive_images[0], portable = older;
    older.target = "sm_80";
    portable.target = "compute_75";
    ls_image newer = older; /* of the same generation, and not for this one */
    newer.target = "sm_89";
    const ls_image *const orders[][3] = {
        {&newer, &older, &portable}, {&older, &portable, &newer}, {&portable, &newer, &older}};
    EXPECT_OK(NULL, ls_context_create("cuda", NULL, &context));
    for (size_t i = 0; i < COUNT(orders); i++) {
        EXPECT_OK(context,
                  ls_program_from_images(context, orders[i], 3, NULL, NULL, NULL, &program));
        EXPECT_OK(context, ls_step_create(program, "drive", &step));
        assert_ptr_equal(ls_step_image(step), &older);
        ls_step_destroy(step);
        ls_program_destroy(program);
    }
    EXPECT_OK(context, ls_program_from_images(context, orders[2], 3, NULL, NULL, NULL, &program));
    log_begin(&log);
    EXPECT_OK(context, ls_step_create(program, "drive", &step));
    log_end(&log);
    assert_int_equal(
        lines_with(&log,
                   "step `drive`: there is no code for cuda:0, which is sm_86: that for sm_80 "
                   "is used"),
        1);
    assert_ptr_equal(ls_step_image(step), &older);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    assert_nothing_left();
}
