/* copy_stream_test.c: state that lives in the host's memory and comes to the device part by part:
 * order, bytes, and wrong calls. On the emulated devices queued work runs late and in an order that
 * a seed picks, so what is not ordered by an event differs for one of them. */
#include "fixtures.h"
#include "failing_memory.h"

#ifdef API_DEVICE
#include "stand_in.h"
#endif

#include <dlfcn.h>
#include <string.h>

enum { PARTS = 5, RING = 2, LENGTH = 300, ROUNDS = 3, SEEDS = 8 };

static const char text[] = "step next[n](inout x: i32[n], inout calls: i32) {\n"
                           "    calls += 1\n"
                           "    x = 3 * x + i32(index(n)) + calls\n"
                           "}\n";

/* Buffers on the device take turns; in each round every part comes, is changed, and goes back. */
typedef struct Offload {
    Fixture f;
    ls_copy_stream *in, *out;
    ls_event *there[RING], *used[RING], *free[RING];
    void *buffers[RING], *calls;
    ls_step *steps[RING];
    int32_t *host; /* page-locked: the parts, one behind the other */
} Offload;

static void open(Offload *o) {
    Fixture *f = &o->f;
    void *memory;
    const int64_t length = LENGTH;
    *o = (Offload){.f = {0}};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &f->context));
    ls_context *c = f->context;
    EXPECT_OK(c, ls_program_load_text(c, "next.step", text, sizeof text - 1, NULL, &f->program));
    EXPECT_OK(c, ls_copy_stream_create(c, &o->in));
    EXPECT_OK(c, ls_copy_stream_create(c, &o->out));
    EXPECT_OK(c, ls_alloc_host(c, PARTS * LENGTH * sizeof(int32_t), &memory));
    EXPECT_OK(c, ls_alloc(c, sizeof(int32_t), &o->calls));
    o->host = memory;
    for (int i = 0; i < RING; i++) {
        const ls_tensor cell = {.data = o->calls, .type = LS_I32};
        EXPECT_OK(c, ls_alloc(c, LENGTH * sizeof(int32_t), &o->buffers[i]));
        const ls_tensor x = tensor_of(o->buffers[i], LS_I32, 1, &length);
        EXPECT_OK(c, ls_event_create(c, &o->there[i]));
        EXPECT_OK(c, ls_event_create(c, &o->used[i]));
        EXPECT_OK(c, ls_event_create(c, &o->free[i]));
        EXPECT_OK(c, ls_step_create(f->program, "next", &o->steps[i]));
        EXPECT_OK(c, ls_step_bind(o->steps[i], "x", &x));
        EXPECT_OK(c, ls_step_bind(o->steps[i], "calls", &cell));
        EXPECT_OK(c, ls_step_prepare(o->steps[i]));
    }
}

static void close(Offload *o) {
    ls_context *c = o->f.context;
    ls_copy_stream_destroy(o->in);
    ls_copy_stream_destroy(o->out);
    ls_free_host(c, o->host);
    for (int i = 0; i < RING; i++) {
        ls_event_destroy(o->there[i]);
        ls_event_destroy(o->used[i]);
        ls_event_destroy(o->free[i]);
        ls_step_destroy(o->steps[i]);
        ls_free(c, o->buffers[i]);
    }
    ls_free(c, o->calls);
    close_fixture(&o->f);
}

/* `lacks`: the wait that is left out, 0 for none. */
static void run(Offload *o, int lacks) {
    ls_context *c = o->f.context;
    for (int n = 0; n < ROUNDS * PARTS; n++) {
        const int k = n % RING;
        int32_t *part = o->host + n % PARTS * LENGTH;
        const size_t bytes = LENGTH * sizeof *part;
        /* and so the part itself, which went out before, is there */
        if (lacks != 1) EXPECT_OK(c, ls_copy_stream_wait(o->in, o->free[k]));
        EXPECT_OK(c, ls_copy_stream_in(o->in, o->buffers[k], part, bytes));
        EXPECT_OK(c, ls_copy_stream_record(o->in, o->there[k]));
        if (lacks != 2) EXPECT_OK(c, ls_event_wait(o->there[k]));
        EXPECT_OK(c, ls_step_launch(o->steps[k]));
        EXPECT_OK(c, ls_event_record(o->used[k]));
        if (lacks != 3) EXPECT_OK(c, ls_copy_stream_wait(o->out, o->used[k]));
        EXPECT_OK(c, ls_copy_stream_out(o->out, part, o->buffers[k], bytes));
        EXPECT_OK(c, ls_copy_stream_record(o->out, o->free[k]));
    }
    EXPECT_OK(c, ls_copy_stream_synchronize(o->out));
}

static void begin(Offload *o) {
    const int32_t none = 0;
    for (int i = 0; i < PARTS * LENGTH; i++) o->host[i] = i;
    EXPECT_OK(o->f.context, ls_copy_in(o->f.context, o->calls, &none, sizeof none));
}

static bool is_right(const Offload *o) {
    static int32_t expected[PARTS * LENGTH];
    for (int i = 0; i < PARTS * LENGTH; i++) expected[i] = i;
    for (int n = 0; n < ROUNDS * PARTS; n++)
        for (int i = 0; i < LENGTH; i++) {
            int32_t *x = &expected[n % PARTS * LENGTH + i];
            *x = 3 * *x + i + n + 1;
        }
    return memcmp(expected, o->host, sizeof expected) == 0;
}

/* The adversary of tests/driver/late.h. */
static void set_seed(int seed) {
#ifdef API_DEVICE
    StandInFunction *state;
    void *library = dlopen(EMULATED_PATH, RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "stand_in") : NULL;
    assert_non_null(address);
    memcpy(&state, &address, sizeof address); /* ISO C has no cast for this */
    state()->seed = (uint64_t)seed;
    dlclose(library);
#else
    (void)seed;
#endif
}

static void in_order(void **state) {
    (void)state;
    Offload o;
    open(&o);
    for (int seed = 0; seed < SEEDS; seed++) {
        ls_copy_statistics before, after;
        set_seed(seed);
        begin(&o);
        ls_copy_stats(o.f.context, &before);
        run(&o, 0);
        ls_copy_stats(o.f.context, &after);
        if (!is_right(&o)) fail_msg("with seed %d", seed);
        const uint64_t bytes = (uint64_t)ROUNDS * PARTS * LENGTH * sizeof(int32_t);
        assert_int_equal(after.to_device - before.to_device, ROUNDS * PARTS);
        assert_int_equal(after.from_device - before.from_device, ROUNDS * PARTS);
        assert_int_equal(after.to_device_bytes - before.to_device_bytes, bytes);
        assert_int_equal(after.from_device_bytes - before.from_device_bytes, bytes);
    }
    close(&o);
}

/* Each wait is needed: without it some order gives something else. */
static void out_of_order(void **state) {
    (void)state;
    if (ON_CPU) skip();
    for (int lacks = 1; lacks <= 3; lacks++) {
        int wrong = 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            Offload o;
            set_seed(seed);
            open(&o);
            begin(&o);
            run(&o, lacks);
            wrong += !is_right(&o);
            close(&o);
        }
        if (wrong == 0) fail_msg("nothing is wrong without wait %d", lacks);
    }
}

static void wrong_calls(void **state) {
    (void)state;
    Offload o;
    ls_copy_stream *none;
    ls_context *other;
    ls_event *foreign;
    ls_graph *graph;
    open(&o);
    ls_context *c = o.f.context;
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_copy_stream_create(NULL, &none), "context is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_create(c, NULL), "stream is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_copy_stream_in(NULL, o.calls, o.host, 4), "stream");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_copy_stream_synchronize(NULL), "stream is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_event_wait(NULL), "ls_event_wait: event is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_in(o.in, NULL, o.host, 4),
                   "ls_copy_stream_in: device is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_in(o.in, o.calls, NULL, 4),
                   "ls_copy_stream_in: host is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_out(o.out, NULL, o.calls, 4),
                   "ls_copy_stream_out: host is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_out(o.out, o.host, NULL, 4),
                   "ls_copy_stream_out: device is NULL");
    EXPECT_OK(c, ls_copy_stream_in(o.in, NULL, NULL, 0));
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_wait(o.in, NULL), "event is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_record(o.in, NULL), "event is NULL");
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &other));
    EXPECT_OK(other, ls_event_create(other, &foreign));
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy_stream_wait(o.in, foreign), "another context");
    ls_event_destroy(foreign);
    ls_context_destroy(other);
    EXPECT_OK(c, ls_event_wait(o.there[0])); /* never recorded */
    EXPECT_OK(c, ls_copy_stream_wait(o.in, o.used[0]));
    EXPECT_OK(c, ls_graph_begin(c));
    EXPECT_FAILURE(c, LS_ERROR_STATE, ls_copy_stream_in(o.in, o.calls, o.host, 4),
                   "ls_graph_begin");
    assert_int_equal(ls_graph_end(c, &graph), LS_ERROR_STATE);
    ls_copy_stream_destroy(NULL);
    close(&o);
}

static void no_memory(void **state) {
    (void)state;
    Fixture f = {0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &f.context));
    for (int n = 1; n < 8; n++) {
        const long live = memory_live;
        ls_copy_stream *stream;
        memory_until_failure = n;
        ls_status status = ls_copy_stream_create(f.context, &stream);
        memory_until_failure = 0;
        if (status != LS_OK) assert_int_equal(status, LS_ERROR_MEMORY);
        if (status != LS_OK) assert_null(stream);
        ls_copy_stream_destroy(stream);
        assert_int_equal(memory_live, live);
    }
    ls_context_destroy(f.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(out_of_order),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
