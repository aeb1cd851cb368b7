/* scenario_fork.c: a child that was forked while a context was there: nothing is asked of the
 * driver in it, calls fail at once, and destroying returns. */
#include "scenario.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIME_LIMIT = 20, LENGTH = 600 };

typedef struct Family {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    ls_graph *graph;
    ls_feed *feed;
    ls_event *event;
    void *memory;
} Family;

static void open_all(Family *s) {
    static _Alignas(64) float p[LENGTH];
    static const int64_t shape[] = {LENGTH};
    static const ls_feed_array array = {"other", LS_F32, 1, shape};
    const ls_tensor tensor = tensor_of(p, LS_F32, 1, shape);
    void *host;
    EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &s->context));
    EXPECT_OK(s->context,
              ls_program_from_images(s->context, drive_images, 1, NULL, NULL, NULL, &s->program));
    EXPECT_OK(s->context, ls_step_create(s->program, "drive", &s->step));
    EXPECT_OK(s->context, ls_step_set_number(s->step, "flag", 1));
    EXPECT_OK(s->context, ls_step_bind(s->step, "p", &tensor));
    EXPECT_OK(s->context, ls_step_prepare(s->step));
    EXPECT_OK(s->context, ls_graph_begin(s->context));
    EXPECT_OK(s->context, ls_step_launch(s->step));
    EXPECT_OK(s->context, ls_graph_end(s->context, &s->graph));
    EXPECT_OK(s->context, ls_feed_create(s->context, &array, 1, 2, 0, &s->feed));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(s->context, ls_feed_acquire(s->feed, &host));
        EXPECT_OK(s->context, ls_feed_submit(s->feed, LENGTH));
    }
    for (int i = 0; i < 2; i++) EXPECT_OK(s->context, ls_feed_next(s->feed));
    EXPECT_OK(s->context, ls_event_create(s->context, &s->event));
    EXPECT_OK(s->context, ls_alloc(s->context, 100, &s->memory));
    EXPECT_OK(s->context, ls_step_launch(s->step)); /* it may be under way */
}

static void close_all(Family *s) {
    ls_event_destroy(s->event);
    ls_feed_destroy(s->feed);
    ls_graph_destroy(s->graph);
    ls_step_destroy(s->step);
    ls_program_destroy(s->program);
    ls_free(s->context, s->memory);
    ls_context_destroy(s->context);
}

/* Gives what went wrong, or 0. */
static int live_on(Family *s) {
    const long calls = control->calls;
    static const char why[] = "cannot be used in a process that was forked after ls_context_create";
    int64_t count;
    void *host;
    alarm(TIME_LIMIT);
    if (ls_step_launch(s->step) != LS_ERROR_DEVICE) return 1;
    if (!strstr(ls_error_message(s->context), why)) return 2;
    if (ls_graph_launch(s->graph) != LS_ERROR_DEVICE) return 3;
    if (ls_synchronize(s->context) != LS_ERROR_DEVICE) return 4;
    if (ls_step_get(s->step, "count", &count) != LS_ERROR_DEVICE) return 5;
    if (ls_graph_begin(s->context) != LS_ERROR_DEVICE) return 6;
    if (ls_feed_acquire(s->feed, &host) != LS_ERROR_DEVICE) return 7;
    close_all(s);
    return control->calls == calls ? 0 : 8;
}

void forked_child(void **state) {
    (void)state;
    Family s = {0};
    const GpuCurrent before = thread_current();
    int status = -1;
    int64_t count;
    stand_in_reset(drive_hook);
    if (strcmp(DEVICE, "cuda") == 0) VENDORS(context_use, NULL); /* a context of our own */
    open_all(&s);
    const pid_t child = fork();
    if (child == 0) _exit(live_on(&s));
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    EXPECT_OK(s.context, ls_step_get(s.step, "count", &count)); /* the parent goes on */
    assert_int_equal(count, 6);
    close_all(&s);
    if (strcmp(DEVICE, "cuda") == 0) VENDORS(context_use, before.context);
    assert_nothing_left();
}
