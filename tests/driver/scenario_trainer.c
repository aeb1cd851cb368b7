/* scenario_trainer.c: a context on a stream that the program around us made, in its own context,
 * while it captures a graph of its own. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_CALL(verb, ...) \
    if (strcmp(DEVICE, "cuda") == 0) VENDORS(verb, __VA_ARGS__)

typedef struct Trainer {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    void *stream, *recording, *executable;
    void *primary; /* CUDA: the trainer's hold of device 1 */
    GpuCurrent before;
    float *p;
    void *host; /* page-locked */
} Trainer;

static void make_current(int device, void *context) {
    if (strcmp(DEVICE, "cuda") == 0)
        VENDORS(context_use, context);
    else
        VENDORS(device_use, device);
}

/* The trainer works on device 1, whose primary context it holds. */
static void begin(Trainer *s) {
    s->before = thread_current();
    CUDA_CALL(context_retain, &s->primary, 1);
    make_current(1, s->primary);
    VENDORS(stream_create, &s->stream, 0);
}

static ls_status use_trainer(void *session) {
    static const int64_t length = 100;
    Trainer *s = session;
    int64_t count = 0;
    s->p = calloc((size_t)length, sizeof *s->p);
    assert_non_null(s->p);
    begin(s);
    DO(ls_context_create(DEVICE ":1", s->stream, &s->context));
    assert_ptr_equal(ls_context_stream(s->context), s->stream);
    DO(ls_program_from_images(s->context, drive_images, 1, NULL, NULL, NULL, &s->program));
    DO(ls_step_create(s->program, "drive", &s->step));
    ls_tensor tensor = tensor_of(s->p, LS_F32, 1, &length);
    DO(ls_step_bind(s->step, "p", &tensor));
    DO(ls_step_set_number(s->step, "flag", 1));
    DO(ls_step_prepare(s->step));
    VENDORS(capture_begin, s->stream, GPU_CAPTURE_RELAXED);
    ls_status launched = ls_step_launch(s->step);
    VENDORS(capture_end, s->stream, &s->recording);
    DO(launched);
    DO(ls_step_get(s->step, "count", &count));
    assert_int_equal(count, 5); /* recorded, not run */
    VENDORS(graph_instantiate, &s->executable, s->recording, 0);
    VENDORS(graph_launch, s->executable, s->stream);
    VENDORS(graph_launch, s->executable, s->stream);
    DO(ls_step_get(s->step, "count", &count));
    assert_int_equal(count, 7);
    DO(ls_context_use_stream(s->context, NULL)); /* its own, and back */
    DO(ls_context_use_stream(s->context, s->stream));
    DO(ls_alloc_host(s->context, sizeof count, &s->host));
    DO(ls_step_get_async(s->step, "count", s->host));
    return ls_synchronize(s->context);
}

static void close_trainer(void *session) {
    Trainer *s = session;
    if (s->stream) VENDORS(stream_synchronize, s->stream);
    if (s->executable) VENDORS(graph_release, s->executable);
    if (s->recording) VENDORS(graph_destroy, s->recording);
    ls_free_host(s->context, s->host);
    ls_step_destroy(s->step);
    ls_program_destroy(s->program);
    ls_context_destroy(s->context);
    VENDORS(stream_destroy, s->stream); /* nobody else did */
    CUDA_CALL(context_release, 1);
    make_current(s->before.device, s->before.context);
    free(s->p);
}

const Scenario scenario_trainer = {"trainer",     drive_hook,      use_trainer,
                                   close_trainer, sizeof(Trainer), NULL};

/* What would break the trainer's capture is refused, and the capture goes on. */
void trainer_captures(void **state) {
    (void)state;
    Trainer s = {0};
    float other[100];
    const int64_t length = 100;
    const ls_tensor tensor = tensor_of(other, LS_F32, 1, &length);
    char bytes[4] = "";
    ls_graph *graph;
    stand_in_reset(drive_hook);
    EXPECT_OK(s.context, use_trainer(&s));
    long streams = control->streams;
    VENDORS(capture_begin, s.stream, GPU_CAPTURE_RELAXED);
    static const char why[] = "the program is capturing the context's stream";
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_synchronize(s.context), "ls_synchronize", why);
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_step_set_number(s.step, "count", 1), why);
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_step_bind(s.step, "p", &tensor), why);
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_copy_in(s.context, s.p, bytes, 4), why);
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_graph_begin(s.context), why);
    EXPECT_OK(s.context, ls_step_launch(s.step));
    void *recording;
    VENDORS(capture_end, s.stream, &recording);
    VENDORS(graph_destroy, recording);
    EXPECT_OK(s.context, ls_step_bind(s.step, "p", &tensor));
    VENDORS(capture_begin, s.stream, GPU_CAPTURE_RELAXED);
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_step_launch(s.step),
                   "step `drive` is not prepared", "ls_step_prepare before");
    VENDORS(capture_end, s.stream, &recording);
    VENDORS(graph_destroy, recording);
    EXPECT_OK(s.context, ls_step_launch(s.step));
    EXPECT_OK(s.context, ls_graph_begin(s.context));
    EXPECT_OK(s.context, ls_step_launch(s.step));
    EXPECT_OK(s.context, ls_graph_end(s.context, &graph));
    EXPECT_OK(s.context, ls_graph_launch(graph));
    EXPECT_OK(s.context, ls_graph_repeat(graph, 3));
    int64_t count, more;
    EXPECT_OK(s.context, ls_step_get(s.step, "count", &count));
    long launches = control->graph_launches;
    VENDORS(capture_begin, s.stream, GPU_CAPTURE_RELAXED);
    EXPECT_OK(s.context, ls_graph_repeat(graph, 3)); /* its launches, in the trainer's graph */
    VENDORS(capture_end, s.stream, &recording);
    assert_int_equal(control->graph_launches, launches);
    ls_graph_destroy(graph);
    VENDORS(graph_release, s.executable);
    VENDORS(graph_instantiate, &s.executable, recording, 0);
    VENDORS(graph_destroy, recording);
    EXPECT_OK(s.context, ls_step_get(s.step, "count", &more));
    assert_int_equal(more, count);
    VENDORS(graph_launch, s.executable, s.stream);
    EXPECT_OK(s.context, ls_step_get(s.step, "count", &more));
    assert_int_equal(more, count + 3);
    ls_context *wrong;
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create(DEVICE ":0", s.stream, &wrong),
                   "the stream belongs to " DEVICE ":1, not to " DEVICE ":0");
    assert_int_equal(control->streams, streams);
    close_trainer(&s);
    assert_nothing_left();
    assert_int_equal(control->strays, 0);
}

/* The current stream changes, as a framework's does: work goes to the new one, into the graph that
 * is captured there too, and back to one of the context's own. */
void other_streams(void **state) {
    (void)state;
    Trainer s = {0};
    void *other = NULL, *elsewhere = NULL, *recording;
    int64_t count, more;
    stand_in_reset(drive_hook);
    EXPECT_OK(s.context, use_trainer(&s));
    long streams = control->streams;
    VENDORS(stream_create, &other, 0);
    EXPECT_OK(s.context, ls_step_get(s.step, "count", &count));
    long calls = control->calls;
    EXPECT_OK(s.context, ls_context_use_stream(s.context, s.stream));
    assert_int_equal(control->calls, calls); /* it is the one in use */
    VENDORS(capture_begin, other, 0);
    EXPECT_OK(s.context, ls_context_use_stream(s.context, other));
    assert_ptr_equal(ls_context_stream(s.context), other);
    EXPECT_OK(s.context, ls_step_launch(s.step));
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_synchronize(s.context), "capturing");
    VENDORS(capture_end, other, &recording);
    VENDORS(graph_destroy, recording);
    EXPECT_OK(s.context, ls_step_get(s.step, "count", &more));
    assert_int_equal(more, count); /* recorded, not run */
    ls_graph *graph;
    EXPECT_OK(s.context, ls_graph_begin(s.context));
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_context_use_stream(s.context, s.stream),
                   "not allowed between ls_graph_begin and ls_graph_end");
    EXPECT_FAILURE(s.context, LS_ERROR_STATE, ls_graph_end(s.context, &graph),
                   "not allowed between");
    assert_ptr_equal(ls_context_stream(s.context), other);

    make_current(0, NULL);
    if (strcmp(DEVICE, "cuda") == 0) make_current(0, s.before.context);
    void *first = NULL;
    CUDA_CALL(context_retain, &first, 0);
    make_current(0, first);
    VENDORS(stream_create, &elsewhere, 0);
    EXPECT_FAILURE(s.context, LS_ERROR_ARGUMENT, ls_context_use_stream(s.context, elsewhere),
                   "the stream is not one of " DEVICE ":1");
    VENDORS(stream_destroy, elsewhere);
    CUDA_CALL(context_release, 0);
    make_current(1, s.primary);
    assert_ptr_equal(ls_context_stream(s.context), other);

    EXPECT_OK(s.context, ls_context_use_stream(s.context, NULL));
    void *own = ls_context_stream(s.context);
    assert_true(own && own != other && own != s.stream);
    EXPECT_OK(s.context, ls_context_use_stream(s.context, NULL));
    EXPECT_OK(s.context, ls_step_launch(s.step));
    EXPECT_OK(s.context, ls_context_use_stream(s.context, s.stream));
    EXPECT_OK(s.context, ls_context_use_stream(s.context, NULL));
    assert_ptr_equal(ls_context_stream(s.context), own);
    EXPECT_OK(s.context, ls_step_get(s.step, "count", &more));
    assert_int_equal(more, count + 1);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_use_stream(NULL, other), "context is NULL");
    VENDORS(stream_destroy, other);
    assert_int_equal(control->streams, streams); /* one of its own is enough */
    close_trainer(&s);
    assert_nothing_left();
    assert_int_equal(control->strays, 0);
}

/* Frameworks capture in the strict mode, on streams of their own: what we make and give up
 * meanwhile does not end the capture. */
void strict_captures(void **state) {
    (void)state;
    Trainer s = {0};
    void *memory, *recording, *stream = NULL;
    ls_program *program;
    ls_step *step;
    const int64_t length = 100;
    stand_in_reset(drive_hook);
    EXPECT_OK(s.context, use_trainer(&s));
    const ls_tensor tensor = tensor_of(s.p, LS_F32, 1, &length);
    VENDORS(stream_create, &stream, 0);
    VENDORS(capture_begin, stream, 0);
    EXPECT_OK(s.context, ls_alloc(s.context, (size_t)64 << 20, &memory));
    EXPECT_OK(s.context,
              ls_program_from_images(s.context, drive_images, 1, NULL, NULL, NULL, &program));
    EXPECT_OK(s.context, ls_step_create(program, "drive", &step));
    EXPECT_OK(s.context, ls_step_bind(step, "p", &tensor));
    EXPECT_OK(s.context, ls_step_set_number(step, "flag", 1));
    EXPECT_OK(s.context, ls_step_launch(step));
    ls_graph *graph;
    EXPECT_OK(s.context, ls_graph_begin(s.context));
    EXPECT_OK(s.context, ls_step_launch(step));
    EXPECT_OK(s.context, ls_graph_end(s.context, &graph));
    EXPECT_OK(s.context, ls_graph_repeat(graph, 100));
    ls_graph_destroy(graph);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_free(s.context, memory);
    assert_int_equal(control->forbidden, 0);
    VENDORS(capture_end, stream, &recording);
    VENDORS(graph_destroy, recording);
    VENDORS(stream_destroy, stream);
    close_trainer(&s);
    assert_int_equal(control->forbidden, 0);
    assert_nothing_left();
}

/* Two devices in turn, and the thread's own as it was. */
void two_devices(void **state) {
    (void)state;
    ls_context *contexts[2];
    void *memory[2];
    stand_in_reset(drive_hook);
    GpuCurrent before = thread_current();
    EXPECT_OK(NULL, ls_context_create(DEVICE ":0", NULL, &contexts[0]));
    EXPECT_OK(NULL, ls_context_create(DEVICE ":1", NULL, &contexts[1]));
    for (int i = 0; i < 6; i++) {
        ls_context *context = contexts[i % 2];
        if (i < 2) EXPECT_OK(context, ls_alloc(context, 64, &memory[i]));
        EXPECT_OK(context, ls_fill_zero(context, memory[i % 2], 64));
        EXPECT_OK(context, ls_synchronize(context));
        GpuCurrent now = thread_current();
        assert_memory_equal(&now, &before, sizeof now);
    }
    ls_context_destroy(contexts[0]);
    EXPECT_OK(contexts[1], ls_synchronize(contexts[1]));
    ls_context_destroy(contexts[1]);
    assert_nothing_left();
    assert_int_equal(control->strays, 0);
}

/* Lists bound anew after the trainer captured a launch of theirs: what its graph reads stays, once.
 */
void trainer_lists(void **state) {
    (void)state;
    static const int64_t length = 8;
    static _Alignas(64) float p[2][8], g[8];
    Trainer s = {0};
    void *recording;
    stand_in_reset(drive_hook);
    s.p = calloc(1, sizeof *s.p);
    begin(&s);
    EXPECT_OK(NULL, ls_context_create(DEVICE ":1", s.stream, &s.context));
    EXPECT_OK(s.context, ls_program_from_images(s.context, list_images_of_device(), 1, NULL, NULL,
                                                NULL, &s.program));
    EXPECT_OK(s.context, ls_step_create(s.program, "lists", &s.step));
    EXPECT_OK(s.context, ls_step_set_number(s.step, "decay", 0));
    EXPECT_OK(s.context, ls_step_set_number(s.step, "lr", 1));
    const ls_tensor changes = tensor_of(g, LS_F32, 1, &length);
    EXPECT_OK(s.context, ls_step_bind_list(s.step, "g", &changes, 1));
    ls_memory_statistics before = {0}, after;
    for (int i = 0; i < 20; i++) {
        const ls_tensor tensor = tensor_of(p[i % 2], LS_F32, 1, &length);
        EXPECT_OK(s.context, ls_step_bind_list(s.step, "p", &tensor, 1));
        EXPECT_OK(s.context, ls_step_prepare(s.step));
        if (i == 3) VENDORS(capture_begin, s.stream, GPU_CAPTURE_RELAXED);
        EXPECT_OK(s.context, ls_step_launch(s.step));
        if (i == 3) VENDORS(capture_end, s.stream, &recording);
        if (i == 5) ls_memory_stats(s.context, &before);
    }
    ls_memory_stats(s.context, &after);
    assert_int_equal(after.allocations, before.allocations);
    VENDORS(graph_destroy, recording);
    close_trainer(&s);
    assert_nothing_left();
}

/* The trainer's context is used, whichever it is, and none is made beside it. */
void trainers_contexts(void **state) {
    (void)state;
    stand_in_reset(drive_hook);
    if (strcmp(DEVICE, "cuda") != 0) return;
    ls_context *context;
    GpuCurrent before = thread_current();
    void *primary, *own;
    VENDORS(context_retain, &primary, 1);
    own = (char *)primary + STAND_IN_DEVICES; /* cuCtxCreate's, of the same device */
    VENDORS(context_release, 1);
    make_current(1, own);
    EXPECT_OK(NULL, ls_context_create(DEVICE ":1", NULL, &context));
    assert_int_equal(control->contexts, 0);
    assert_ptr_equal(thread_current().context, own);
    EXPECT_OK(context, ls_synchronize(context));
    make_current(0, NULL);
    EXPECT_OK(context, ls_synchronize(context)); /* as from another thread */
    assert_null(thread_current().context);
    ls_context_destroy(context);
    make_current(1, own);
    EXPECT_OK(NULL, ls_context_create(DEVICE ":0", NULL, &context)); /* another device */
    assert_int_equal(control->contexts, 1);
    ls_context_destroy(context);
    VENDORS(context_retain, &primary, 1); /* both are there: the thread's counts */
    EXPECT_OK(NULL, ls_context_create(DEVICE ":1", NULL, &context));
    assert_int_equal(control->contexts, 1);
    make_current(1, primary);
    ls_context_destroy(context);
    EXPECT_OK(NULL, ls_context_create(DEVICE ":1", NULL, &context));
    assert_int_equal(control->contexts, 2); /* held by us too */
    ls_context_destroy(context);
    VENDORS(context_release, 1);
    make_current(before.device, before.context);
    assert_nothing_left();
}

/* After an error that ends the device for the process nothing is asked of the driver again. */
void device_lost(void **state) {
    (void)state;
    static const int finals[] = {700, 214, 719, 702, 4};
    for (size_t i = 0; i < COUNT(finals); i++) {
        ls_context *context;
        ls_event *event;
        char number[16];
        stand_in_reset(NULL);
        EXPECT_OK(NULL, ls_context_create(DEVICE, NULL, &context));
        EXPECT_OK(context, ls_event_create(context, &event));
        control->fail_for_good = finals[i];
        snprintf(number, sizeof number, "(%d)", finals[i]);
        EXPECT_FAILURE(context, LS_ERROR_DEVICE, ls_synchronize(context), number,
                       "lost to this process", "start a new process");
        long calls = control->calls;
        void *pointer;
        EXPECT_FAILURE(context, LS_ERROR_DEVICE, ls_synchronize(context),
                       DEVICE ":0 is lost to this process since a call failed", number);
        assert_int_equal(ls_alloc(context, 100, &pointer), LS_ERROR_DEVICE);
        assert_null(pointer);
        assert_int_equal(ls_event_record(event), LS_ERROR_DEVICE);
        assert_int_equal(ls_graph_begin(context), LS_ERROR_DEVICE);
        ls_event_destroy(event);
        ls_context_destroy(context);
        assert_int_equal(control->calls, calls); /* what could hang */
        control->fail_for_good = 0;
        control->streams = control->contexts = control->events = 0; /* the process ends */
    }
}

/* `drive` marks its temporary memory. */
static void mark_temporary(const char *kernel, const uint64_t *words, unsigned grid,
                           unsigned block) {
    drive_hook(kernel, words, grid, block);
    if (strcmp(kernel, "drive") == 0) *(uint32_t *)(uintptr_t)words[4] = 77;
}

/* What the trainer has captured goes on with the memory of that time, which nobody else gets, also
 * when larger arrays made the step take another one. */
void trainer_keeps_memory(void **state) {
    (void)state;
    enum { PIECES = 300, PIECE = 256, LARGE = 20500 };
    static _Alignas(64) float large[LARGE];
    static uint8_t bytes[PIECE], zeros[PIECE];
    const int64_t length = LARGE;
    const ls_tensor tensor = tensor_of(large, LS_F32, 1, &length);
    Trainer s = {0};
    void *pieces[PIECES];
    stand_in_reset(mark_temporary);
    EXPECT_OK(s.context, use_trainer(&s));
    void *between; /* so that what the step gives up is a piece of its own */
    EXPECT_OK(s.context, ls_alloc(s.context, PIECE, &between));
    EXPECT_OK(s.context, ls_step_bind(s.step, "p", &tensor));
    EXPECT_OK(s.context, ls_step_launch(s.step));
    for (int i = 0; i < PIECES; i++) {
        EXPECT_OK(s.context, ls_alloc(s.context, PIECE, &pieces[i]));
        EXPECT_OK(s.context, ls_fill_zero(s.context, pieces[i], PIECE));
    }
    VENDORS(graph_launch, s.executable, s.stream);
    for (int i = 0; i < PIECES; i++) {
        EXPECT_OK(s.context, ls_copy_out(s.context, bytes, pieces[i], PIECE));
        assert_memory_equal(bytes, zeros, PIECE);
    }
    close_trainer(&s);
    assert_nothing_left();
}
