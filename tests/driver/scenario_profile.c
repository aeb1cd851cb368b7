/* scenario_profile.c: steps and a graph are timed, and written as a trace. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Session {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_graph *graph;
    bool begun;
} Session;

static _Alignas(64) float elements[2500];

static ls_status launches(Session *s) {
    const int64_t length = 2500;
    ls_tensor tensor = tensor_of(elements, LS_F32, 1, &length);
    DO(ls_step_bind(s->step, "p", &tensor));
    DO(ls_step_set_number(s->step, "flag", 1));
    DO(ls_step_prepare(s->step));
    DO(ls_profile_begin(s->context));
    s->begun = true;
    for (int i = 0; i < 3; i++) DO(ls_step_launch(s->step));
    DO(ls_graph_begin(s->context));
    ls_status launched = ls_step_launch(s->step);
    ls_status ended = ls_graph_end(s->context, &s->graph);
    if (launched != LS_OK) return launched;
    if (ended != LS_OK) return ended;
    DO(ls_graph_launch(s->graph));
    return LS_OK;
}

static ls_status use(void *session) {
    Session *s = session;
    DO(ls_context_create(DEVICE, NULL, &s->context));
    DO(ls_program_from_images(s->context, drive_images, 1, NULL, NULL, NULL, &s->program));
    DO(ls_step_create(s->program, "drive", &s->step));
    DO(launches(s));
    s->begun = false;
    DO(ls_profile_end(s->context));
    ls_profile_row rows[8];
    assert_int_equal(ls_profile_rows(s->context, rows, 8), 4);
    assert_string_equal(rows[0].step, "drive");
    assert_null(rows[0].kernel);
    assert_string_equal(rows[2].kernel, "drive_end");
    assert_string_equal(rows[3].step, "graph of drive");
    assert_int_equal(rows[0].count, 3);
    assert_int_equal(rows[1].count, 4); /* one of a replay */
    assert_int_equal(rows[3].count, 1);
    assert_true(rows[1].median_us == 1500); /* as the stand-in has it */
    assert_true(rows[0].median_us == 3000 && rows[2].median_us == 1500);
    assert_true(rows[3].median_us == 3000);
    assert_int_equal(rows[1].bytes_read, 10000);
    assert_true(rows[1].gb_s > 0.0133 && rows[1].gb_s < 0.0134);
    DO(ls_profile_trace(s->context, "/dev/null/no folder") == LS_ERROR_FILE ? LS_OK
                                                                            : LS_ERROR_INTERNAL);
    return LS_OK;
}

static void finish(void *session) {
    Session *s = session;
    if (s->begun) ls_profile_end(s->context);
    ls_graph_destroy(s->graph);
    ls_step_destroy(s->step);
    ls_program_destroy(s->program);
    ls_context_destroy(s->context);
}

const Scenario scenario_profile = {"profile", drive_hook, use, finish, sizeof(Session), NULL};

/* Where the device's clock stands still, no rate is infinite. */
void profile_of_no_time(void **state) {
    (void)state;
    stand_in_reset(drive_hook);
    control->timeless = 1;
    Session s = {0};
    ls_profile_row rows[4];
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &s.context));
    EXPECT_OK(s.context,
              ls_program_from_images(s.context, drive_images, 1, NULL, NULL, NULL, &s.program));
    EXPECT_OK(s.context, ls_step_create(s.program, "drive", &s.step));
    EXPECT_OK(s.context, launches(&s));
    s.begun = false;
    EXPECT_OK(s.context, ls_profile_end(s.context));
    assert_int_equal(ls_profile_rows(s.context, rows, 4), 4);
    for (size_t i = 0; i < 4; i++) assert_true(rows[i].median_us == 0 && rows[i].gb_s == 0);
    assert_int_equal(rows[1].bytes_read, 10000);
    finish(&s);
    assert_nothing_left();
}
