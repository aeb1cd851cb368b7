/* failing_test.c: a program compiled, launched, captured and replayed on an emulated device, whose
 * kernels are the compiler's own, with every call of the driver failing once. What failed can be
 * done again in the same context, and gives the right values. */
#include "scenario.h"

#include <stdlib.h>
#include <string.h>

static const char source[] =
    "step train[r, k](inout p: f32[r, k], g: f32[r, k], out most: f32[r], out total: f32,\n"
    "                 inout count: i32 = 0, lr: f32 = 1) {\n"
    "    p -= lr * g\n"
    "    most = max[k](p)\n"
    "    total = sum(most)\n"
    "    count += 1\n"
    "}\n";
enum { ROWS = 3, COLUMNS = 300, ELEMENTS = ROWS * COLUMNS };
static const int64_t shape[2] = {ROWS, COLUMNS};

/* What is there; the rest is still to be done. */
typedef struct Session {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_graph *graph;
    ls_event *start, *end;
    void *p, *g;
    bool recorded;
} Session;

/* One after the other: begun anew after a failure, a capture too. */
static ls_status capture(Session *s) {
    DO(ls_step_prepare(s->step));
    DO(ls_graph_begin(s->context));
    ls_status status = ls_step_launch(s->step);
    ls_status ended = ls_graph_end(s->context, &s->graph);
    return status != LS_OK ? status : ended;
}

static ls_status use(void *session) {
    Session *s = session;
    static float values[ELEMENTS], largest[ROWS];
    double ms;
    float total;
    int32_t count, zero = 0;
    if (!s->context) DO(ls_context_create(DEVICE, NULL, &s->context));
    if (!s->p) DO(ls_alloc_labeled(s->context, sizeof values, "weights", &s->p));
    if (!s->g) DO(ls_alloc_labeled(s->context, sizeof values, "gradients", &s->g));
    if (!s->program)
        DO(ls_program_load_text(s->context, "train.step", source, sizeof source - 1, NULL,
                                &s->program));
    if (!s->step) DO(ls_step_create(s->program, "train", &s->step));
    if (!s->start) DO(ls_event_create(s->context, &s->start));
    if (!s->end) DO(ls_event_create(s->context, &s->end));
    const ls_tensor p = {s->p, LS_F32, 2, shape, NULL}, g = {s->g, LS_F32, 2, shape, NULL};
    ls_tensor most;
    for (int i = 0; i < ELEMENTS; i++) values[i] = (float)(i % 7);
    DO(ls_copy_in(s->context, s->g, values, sizeof values));
    for (int i = 0; i < ELEMENTS; i++) values[i] = (float)(4 * (i % 7) + i / COLUMNS);
    DO(ls_copy_in(s->context, s->p, values, sizeof values));
    DO(ls_step_bind(s->step, "p", &p));
    DO(ls_step_bind(s->step, "g", &g));
    DO(ls_step_output(s->step, "most", &most));
    DO(ls_step_set(s->step, "count", &zero));
    if (!s->graph) DO(capture(s));
    DO(ls_event_record(s->start));
    DO(ls_step_launch(s->step));
    for (int i = 0; i < 3; i++) DO(ls_graph_launch(s->graph));
    DO(ls_event_record(s->end));
    DO(ls_event_elapsed(s->start, s->end, &ms));
    DO(ls_step_get(s->step, "count", &count));
    DO(ls_step_get(s->step, "total", &total));
    DO(ls_copy_out(s->context, values, s->p, sizeof values));
    DO(ls_copy_out(s->context, largest, most.data, sizeof largest));
    DO(ls_memory_trim(s->context, 0));
    assert_int_equal(count, 4);
    assert_true(total == 0 + 1 + 2);
    for (int i = 0; i < ELEMENTS; i++) assert_true(values[i] == (float)(i / COLUMNS));
    for (int i = 0; i < ROWS; i++) assert_true(largest[i] == (float)i);
    return LS_OK;
}

static void finish(void *session) {
    Session *s = session;
    ls_event_destroy(s->start);
    ls_event_destroy(s->end);
    ls_graph_destroy(s->graph);
    ls_step_destroy(s->step);
    ls_program_destroy(s->program);
    ls_free(s->context, s->p);
    ls_context_destroy(s->context); /* with the gradients */
}

/* Memory from the pool on CUDA, and on HIP the driver's own, between pages that nobody may touch.
 */
static void every_call(void **state) {
    (void)state;
    const Scenario scenario = {"compiled", NULL, use, finish, sizeof(Session), NULL};
    setenv(COMPILER, STAND_IN_PATH, 1);
    setenv("SIMT_WATCH", "off", 1); /* races are looked for elsewhere */
    setenv("LOCKSTEP_POOL", strcmp(DEVICE, "cuda") == 0 ? "" : "off", 1);
    fail_every_call_and_resume(&scenario, STAND_IN_ERROR);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call)};
    return cmocka_run_group_tests(tests, open_control, NULL);
}
