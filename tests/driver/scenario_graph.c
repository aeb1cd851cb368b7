/* scenario_graph.c: graphs of the driver's own: updated, instantiated and captured again, repeated.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 20500, SHORT = 100 };

typedef struct Graphs {
    ls_context *context;
    ls_program *program;
    ls_step *steps[2];
    ls_graph *graph;
    ls_host_work work;
    int64_t done;
} Graphs;

static _Alignas(64) float arrays[3][LENGTH];
static const uint64_t *last_words; /* of `drive` */
static uint64_t seen[5];
static unsigned seen_grid, seen_block; /* of `drive` */

static void note_words(const char *kernel, const uint64_t *words, unsigned grid, unsigned block) {
    drive_hook(kernel, words, grid, block);
    memcpy(seen, words, sizeof seen);
    if (strcmp(kernel, "drive") == 0) seen_grid = grid, seen_block = block;
    last_words = seen;
}

static void count_items(void *argument, uint64_t first, uint64_t last) {
    *(int64_t *)argument += (int64_t)(last - first);
}

static ls_status bind(ls_step *step, float *array, int64_t length) {
    const ls_tensor tensor = tensor_of(array, LS_F32, 1, &length);
    return ls_step_bind(step, "p", &tensor);
}

static ls_status open_steps(Graphs *s) {
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_program_from_images(s->context, drive_images, 1, NULL, NULL, NULL, &s->program));
    for (int i = 0; i < 2; i++) {
        DO(ls_step_create(s->program, "drive", &s->steps[i]));
        DO(ls_step_set_number(s->steps[i], "flag", 1));
        DO(bind(s->steps[i], arrays[i], LENGTH));
        DO(ls_step_prepare(s->steps[i]));
    }
    return LS_OK;
}

/* Step 0, the host, step 1, step 0 again. */
static ls_status record(Graphs *s) {
    s->work = (ls_host_work){count_items, &s->done, 3};
    DO(ls_graph_begin(s->context));
    ls_status status = ls_step_launch(s->steps[0]);
    if (status == LS_OK) status = ls_host_call(s->context, &s->work);
    if (status == LS_OK) status = ls_step_launch(s->steps[1]);
    if (status == LS_OK) status = ls_step_launch(s->steps[0]);
    ls_status ended = ls_graph_end(s->context, &s->graph);
    return status == LS_OK ? ended : status;
}

static ls_status use_graphs(void *session) {
    Graphs *s = session;
    int64_t count = 0;
    DO(open_steps(s));
    DO(record(s));
    DO(ls_graph_launch(s->graph));
    DO(bind(s->steps[0], arrays[2], LENGTH));
    DO(ls_graph_update(s->graph));
    DO(ls_graph_repeat(s->graph, 35));
    DO(ls_step_set_number(s->steps[1], "count", 100)); /* between replays */
    DO(ls_graph_launch(s->graph));
    DO(ls_step_get(s->steps[0], "count", &count));
    assert_int_equal(count, 5 + 2 * 37);
    DO(ls_step_get(s->steps[1], "count", &count));
    assert_int_equal(count, 100 + 1);
    assert_int_equal(s->done, 3 * 37);
    return LS_OK;
}

static ls_status use_recapture(void *session) {
    Graphs *s = session;
    int64_t count = 0;
    DO(open_steps(s));
    DO(record(s));
    DO(bind(s->steps[1], arrays[0], SHORT)); /* one block: another kind of launch */
    DO(ls_graph_update(s->graph));
    DO(ls_graph_repeat(s->graph, 2));
    DO(ls_step_get(s->steps[1], "count", &count));
    assert_int_equal(count, 5 + 2);
    assert_int_equal(s->done, 3 * 2);
    return LS_OK;
}

static void close_graphs(void *session) {
    Graphs *s = session;
    ls_graph_destroy(s->graph);
    ls_step_destroy(s->steps[0]);
    ls_step_destroy(s->steps[1]);
    ls_program_destroy(s->program);
    ls_context_destroy(s->context);
}

/* A driver that captures no host functions, as of HIP 7. */
void host_work_not_recorded(void **state) {
    (void)state;
    Graphs s = {0};
    stand_in_reset(drive_hook);
    EXPECT_OK(NULL, open_steps(&s));
    control->fail_verb = VERB_host_function;
    control->fail_with = 900;
    EXPECT_FAILURE(s.context, LS_ERROR_UNSUPPORTED, record(&s),
                   "driver records no host functions (");
    assert_null(s.graph);
    control->fail_verb = 0;
    EXPECT_OK(s.context, record(&s)); /* the capture was ended */
    close_graphs(&s);
    assert_nothing_left();
}

/* What goes into a loop on the device, which it can do without. */
#define LOOP_VERBS                                                                                \
    VERB_graph_create, VERB_graph_condition, VERB_graph_add, VERB_graph_child, VERB_graph_kernel, \
        VERB_module_load, VERB_module_function, VERB_memory_allocate, VERB_graph_instantiate,     \
        VERB_stream_synchronize
static const GpuVerb survives_a_loop[] = {LOOP_VERBS, VERB_executable_set, VERB_COUNT};

/* The old graph is taken down, with the device current or without. */
static const GpuVerb taken_down[] = {VERB_context_current, VERB_context_use, VERB_device_current,
                                     VERB_device_use,      LOOP_VERBS,       VERB_COUNT};
const Scenario scenario_recapture = {
    "graphs captured again", drive_hook, use_recapture, close_graphs, sizeof(Graphs), taken_down};

/* Without host work the device repeats it by itself; where a call for that fails, we do. */
static ls_status use_repeat(void *session) {
    Graphs *s = session;
    int64_t count = 0;
    DO(open_steps(s));
    DO(ls_graph_begin(s->context));
    ls_status status = ls_step_launch(s->steps[0]);
    if (status == LS_OK) status = ls_step_launch(s->steps[1]);
    ls_status ended = ls_graph_end(s->context, &s->graph);
    DO(status);
    DO(ended);
    DO(ls_graph_repeat(s->graph, 3)); /* too few for a loop */
    DO(ls_graph_repeat(s->graph, 0));
    DO(ls_graph_repeat(s->graph, 1));
    DO(ls_graph_repeat(s->graph, 1000));
    DO(bind(s->steps[0], arrays[2], LENGTH));
    DO(ls_graph_update(s->graph));
    DO(ls_graph_repeat(s->graph, 2));
    for (int i = 0; i < 2; i++) {
        DO(ls_step_get(s->steps[i], "count", &count));
        assert_int_equal(count, 5 + 1006);
    }
    return LS_OK;
}

const Scenario scenario_repeat = {"repeated graphs", drive_hook,     use_repeat,
                                  close_graphs,      sizeof(Graphs), survives_a_loop};

/* What the device repeats: one launch, with the parameters as they are now. */
void graph_repeats(void **state) {
    (void)state;
    const bool cuda = strcmp(DEVICE, "cuda") == 0;
    Graphs s = {0};
    stand_in_reset(note_words);
    EXPECT_OK(s.context, use_repeat(&s));
    ls_graph_statistics now;
    EXPECT_OK(s.context, ls_graph_stats(s.graph, &now));
    assert_int_equal(now.loops, cuda);
    assert_int_equal(now.replays, 1006);
    /* Of 4 nodes 16 times in the body; 1000 is 62 rounds and 8. */
    assert_int_equal(control->graph_launches, cuda ? 3 + 1 + (1 + 8) + 2 : 1006);
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_ptr_equal((void *)(uintptr_t)last_words[1], arrays[1]);
    EXPECT_OK(s.context, bind(s.steps[1], arrays[0], LENGTH));
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    EXPECT_OK(s.context, ls_graph_repeat(s.graph, 32));
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_ptr_equal((void *)(uintptr_t)last_words[1], arrays[0]);
    assert_int_equal(control->graph_launches, cuda ? 3 + 1 + (1 + 8) + 2 + 1 : 1038);
    ls_graph_destroy(s.graph);
    s.graph = NULL;
    EXPECT_OK(s.context, record(&s)); /* with host work: not on the device */
    EXPECT_OK(s.context, ls_graph_repeat(s.graph, 40));
    EXPECT_OK(s.context, ls_graph_stats(s.graph, &now));
    assert_int_equal(now.loops, 0);
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_int_equal(s.done, 3 * 40);
    close_graphs(&s);
    assert_nothing_left();
    assert_int_equal(control->strays, 0);
}

/* Where new parameters are refused the graph is instantiated again. */
static const GpuVerb survived[] = {VERB_executable_set, LOOP_VERBS, VERB_COUNT};
const Scenario scenario_graph = {"graphs",     drive_hook,     use_graphs,
                                 close_graphs, sizeof(Graphs), survived};

static ls_graph_statistics stats_of(const Graphs *s) {
    ls_graph_statistics statistics;
    EXPECT_OK(s->context, ls_graph_stats(s->graph, &statistics));
    return statistics;
}

/* Only what changed is set, in the graph and in what was instantiated from it. */
void graph_updates(void **state) {
    (void)state;
    Graphs s = {0};
    stand_in_reset(note_words);
    EXPECT_OK(s.context, open_steps(&s));
    EXPECT_OK(s.context, record(&s));
    ls_graph_statistics now = stats_of(&s);
    assert_true(now.native == 1 && now.launches == 7 && now.nodes == 7 && now.updates == 0);
    EXPECT_OK(s.context, bind(s.steps[1], arrays[1], LENGTH)); /* the same */
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    assert_int_equal(control->node_sets, 0);
    EXPECT_OK(s.context, bind(s.steps[1], arrays[2], LENGTH));
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    assert_int_equal(control->node_sets, 2 * 2); /* its two kernels */
    now = stats_of(&s);
    assert_true(now.updates == 2 && now.updated == 2 && now.reinstantiations == 0);
    EXPECT_OK(s.context, bind(s.steps[0], arrays[1], LENGTH));
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    assert_int_equal(stats_of(&s).updated, 2 + 4);
    EXPECT_OK(s.context, ls_graph_launch(s.graph));
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_ptr_equal((void *)(uintptr_t)last_words[1], arrays[1]); /* step 0 came last */
    assert_int_equal(control->instantiations, 1);
    /* A graph that does not take them. */
    control->updates = 0;
    EXPECT_OK(s.context, bind(s.steps[0], arrays[0], LENGTH));
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    assert_int_equal(control->instantiations, 2);
    assert_int_equal(stats_of(&s).reinstantiations, 1);
    EXPECT_OK(s.context, ls_graph_launch(s.graph));
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_ptr_equal((void *)(uintptr_t)last_words[1], arrays[0]);
    /* Other lengths, the same kernels: a grid is a parameter too. */
    control->updates = 1;
    EXPECT_OK(s.context, bind(s.steps[0], arrays[0], 18500));
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    assert_int_equal(control->instantiations, 2);
    EXPECT_OK(s.context, ls_graph_launch(s.graph));
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_int_equal(seen_grid, 19);
    assert_int_equal(seen_block, 128);
    /* A launch that is no longer cooperative: captured again. */
    EXPECT_OK(s.context, bind(s.steps[0], arrays[0], SHORT));
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    assert_int_equal(control->instantiations, 3);
    now = stats_of(&s);
    assert_true(now.reinstantiations == 2 && now.nodes == 7);
    EXPECT_OK(s.context, ls_synchronize(s.context));
    long together = control->launches_together;
    EXPECT_OK(s.context, ls_graph_launch(s.graph));
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_int_equal(control->launches_together, together + 1); /* step 1 only */
    assert_int_equal(last_words[0], SHORT);
    assert_int_equal(stats_of(&s).replays, 4);
    close_graphs(&s);
    assert_nothing_left();
    assert_int_equal(control->strays, 0);
}

/* The one kernel that the runtime brings itself, through the vendor's assembler. */
void repeat_code(void **state) {
    (void)state;
#ifdef PTXAS
    static const char *const targets[] = {"sm_75", "sm_90", "sm_120"};
    if (strcmp(DEVICE, "cuda") != 0) return;
    for (size_t i = 0; i < COUNT(targets); i++) {
        char command[512];
        snprintf(command, sizeof command, PTXAS " -c -arch %s -o /dev/null -", targets[i]);
        FILE *assembler = popen(command, "w");
        assert_non_null(assembler);
        fputs(vendor_cuda.repeat_code, assembler);
        if (pclose(assembler) != 0) fail_msg("ptxas refuses ls_repeat for %s", targets[i]);
    }
#else
    skip();
#endif
}

/* With work of the trainer's in it a graph cannot be captured again. */
void graph_of_both(void **state) {
    (void)state;
    Graphs s = {0};
    stand_in_reset(drive_hook);
    EXPECT_OK(s.context, open_steps(&s));
    EXPECT_OK(s.context, ls_graph_begin(s.context));
    EXPECT_OK(s.context, ls_step_launch(s.steps[0]));
    VENDORS(host_function, ls_context_stream(s.context), (void (*)(void *))abort, NULL);
    EXPECT_OK(s.context, ls_graph_end(s.context, &s.graph));
    assert_true(stats_of(&s).launches == 2 && stats_of(&s).nodes == 3);
    EXPECT_OK(s.context, bind(s.steps[0], arrays[2], LENGTH));
    EXPECT_OK(s.context, ls_graph_update(s.graph)); /* new pointers are fine */
    EXPECT_OK(s.context, bind(s.steps[0], arrays[2], SHORT));
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_graph_update(s.graph), "ls_graph_update",
                   "other kernels", "record it again");
    EXPECT_OK(s.context, bind(s.steps[0], arrays[1], LENGTH));
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    close_graphs(&s);
    assert_nothing_left();
}

/* An update that fails half way: the graph waits for one that succeeds. */
void graph_update_fails(void **state) {
    (void)state;
    Graphs s = {0};
    stand_in_reset(note_words);
    EXPECT_OK(s.context, open_steps(&s));
    EXPECT_OK(s.context, record(&s));
    EXPECT_OK(s.context, bind(s.steps[0], arrays[2], LENGTH));
    EXPECT_OK(s.context, ls_step_prepare(s.steps[0]));
    control->updates = 0;
    control->fail_verb = VERB_graph_instantiate;
    control->fail_with = STAND_IN_ERROR;
    assert_int_equal(ls_graph_update(s.graph), LS_ERROR_DEVICE);
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_graph_launch(s.graph), "ls_graph_launch",
                   "the last ls_graph_update failed half way");
    control->fail_verb = 0;
    control->updates = 1;
    EXPECT_OK(s.context, ls_graph_update(s.graph));
    EXPECT_OK(s.context, ls_graph_launch(s.graph));
    EXPECT_OK(s.context, ls_synchronize(s.context));
    assert_ptr_equal((void *)(uintptr_t)last_words[1], arrays[2]);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_graph_update(NULL), "graph is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_graph_repeat(NULL, 1), "graph is NULL");
    EXPECT_FAILURE(s.context, LS_ERROR_ARGUMENT, ls_graph_stats(s.graph, NULL),
                   "statistics is NULL");
    close_graphs(&s);
    assert_nothing_left();
}

static void make_another_current(void) {
    if (strcmp(DEVICE, "cuda") == 0)
        VENDORS(context_use, NULL);
    else
        VENDORS(device_use, 1);
}

/* Where the device could not be made current at first, the capture is ended all the same, and what
 * was current is so again. */
void graph_end_fails(void **state) {
    (void)state;
    const GpuCurrent before = thread_current();
    for (long call = 1; call <= 2; call++) { /* asking what is current, making ours so */
        Graphs s = {0};
        stand_in_reset(drive_hook);
        make_another_current();
        const GpuCurrent own = thread_current();
        EXPECT_OK(s.context, open_steps(&s));
        EXPECT_OK(s.context, ls_graph_begin(s.context));
        control->fail_at = control->calls + call;
        control->fail_with = STAND_IN_ERROR;
        assert_int_equal(ls_graph_end(s.context, &s.graph), LS_ERROR_DEVICE);
        control->fail_at = 0;
        const GpuCurrent after = thread_current();
        assert_memory_equal(&after, &own, sizeof own);
        EXPECT_OK(s.context, ls_step_launch(s.steps[0]));
        close_graphs(&s);
        if (strcmp(DEVICE, "cuda") == 0)
            VENDORS(context_use, before.context);
        else
            VENDORS(device_use, before.device);
        assert_nothing_left();
    }
}

/* Any call of beginning a capture fails, putting back what was current before too, when the stream
 * captures already: what is launched then runs. */
void graph_begin_fails(void **state) {
    (void)state;
    const bool cuda = strcmp(DEVICE, "cuda") == 0;
    const GpuCurrent before = thread_current();
    ls_status status = LS_ERROR_DEVICE;
    long call = 1;
    for (; status != LS_OK; call++) {
        Graphs s = {0};
        int64_t count;
        stand_in_reset(drive_hook);
        make_another_current(); /* not the one that is used */
        EXPECT_OK(s.context, open_steps(&s));
        control->fail_at = control->calls + call;
        control->fail_with = STAND_IN_ERROR;
        status = ls_graph_begin(s.context);
        control->fail_at = 0;
        if (status == LS_OK) EXPECT_OK(s.context, ls_graph_end(s.context, &s.graph));
        EXPECT_OK(s.context, ls_step_launch(s.steps[0]));
        EXPECT_OK(s.context, ls_step_get(s.steps[0], "count", &count));
        assert_int_equal(count, 6);
        close_graphs(&s);
        if (cuda)
            VENDORS(context_use, before.context);
        else
            VENDORS(device_use, before.device);
        assert_nothing_left();
    }
    assert_true(call > 5); /* two calls, the capture, and one back */
}
