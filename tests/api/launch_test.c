/* launch_test.c: launches, variants, thread counts, cells, graphs, events and loaded code. */
#include "fixtures.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 61, COLUMNS = 1013, ELEMENTS = ROWS * COLUMNS }; /* far beyond one worker's share */

typedef struct Arrays {
    float *p, *g, *w;
} Arrays;

static Arrays allocate(ls_context *context, size_t elements) {
    Arrays arrays;
    void *memory[3];
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(context, ls_alloc(context, elements * sizeof(float), &memory[i]));
        assert_int_equal((uintptr_t)memory[i] % 256, 0);
        EXPECT_OK(context, ls_fill_zero(context, memory[i], elements * sizeof(float)));
    }
    EXPECT_OK(context, ls_synchronize(context));
    arrays = (Arrays){memory[0], memory[1], memory[2]};
    return arrays;
}

static void release(ls_context *context, Arrays *arrays) {
    ls_free(context, arrays->p);
    ls_free(context, arrays->g);
    ls_free(context, arrays->w);
}

static void bind(Fixture *f, const char *name, const ls_tensor *tensor) {
    EXPECT_OK(f->context, ls_step_bind(f->step, name, tensor));
}

static void bind_all(Fixture *f, const Arrays *arrays, const int64_t *shape,
                     const int64_t *strides) {
    float *data[] = {arrays->p, arrays->g, arrays->w};
    const char *names[] = {"p", "g", "w"};
    for (int i = 0; i < 3; i++) {
        ls_tensor tensor = {data[i], LS_F32, 2, shape, strides};
        bind(f, names[i], &tensor);
    }
    EXPECT_OK(f->context, ls_step_set_number(f->step, "lr", 0.25));
}

static void any_thread_count(void **state) {
    (void)state;
    const int threads[] = {1, 2, 7};
    const int64_t shape[2] = {ROWS, COLUMNS};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        Fixture f = open_fixture(&image_descend, threads[t]);
        Arrays arrays = allocate(f.context, ELEMENTS);
        for (int i = 0; i < ELEMENTS; i++) arrays.p[i] = (float)(i % 100), arrays.g[i] = 4;
        bind_all(&f, &arrays, shape, NULL);
        ls_step_statistics statistics;
        EXPECT_OK(f.context, ls_step_stats(f.step, &statistics));
        assert_int_equal(statistics.threads, ON_CPU ? threads[t] : 128);
        assert_int_equal(statistics.launches, 2);
        assert_int_equal(statistics.temporary_bytes, 1024);
        assert_string_equal(statistics.variant, "tiles, dense");
        for (int i = 0; i < 50; i++) EXPECT_OK(f.context, ls_step_launch(f.step));
        double total, expected = 0;
        int32_t count;
        EXPECT_OK(f.context, ls_step_get(f.step, "total", &total));
        EXPECT_OK(f.context, ls_step_get(f.step, "count", &count));
        assert_int_equal(count, 53);
        for (int i = 0; i < ELEMENTS; i++) {
            assert_true(arrays.p[i] == (float)(i % 100 - 50) && arrays.w[i] == arrays.p[i]);
            expected += (double)arrays.p[i];
        }
        assert_true(total == expected); /* whole numbers: exact in any order */
        release(f.context, &arrays);
        close_fixture(&f);
    }
}

static void strides(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 2);
    Arrays arrays = allocate(f.context, 64);
    const int64_t shape[2] = {3, 4};
    static const int64_t cases[][3] = {{4, 1, 0},  {1, 3, 0},    {8, 2, 0},
                                       {-4, 1, 8}, {-4, -1, 11}, {5, 1, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int i = 0; i < 64; i++) arrays.p[i] = (float)i, arrays.g[i] = 4, arrays.w[i] = -9;
        Arrays offset = {arrays.p + cases[c][2], arrays.g + cases[c][2], arrays.w + cases[c][2]};
        bind_all(&f, &offset, shape, cases[c]);
        EXPECT_OK(f.context, ls_step_launch(f.step));
        ls_step_statistics statistics;
        EXPECT_OK(f.context, ls_step_stats(f.step, &statistics));
        assert_string_equal(statistics.variant, c == 0 ? "tiles, dense" : "tiles, strided");
        EXPECT_OK(f.context, ls_synchronize(f.context));
        int touched = 0;
        for (int64_t i = 0; i < 12; i++) {
            int64_t at = cases[c][2] + i / 4 * cases[c][0] + i % 4 * cases[c][1];
            assert_true(arrays.w[at] == (float)at - 1);
        }
        for (int i = 0; i < 64; i++) touched += arrays.w[i] != -9 || arrays.p[i] != (float)i;
        assert_int_equal(touched, 12);
    }
    /* Contiguous, but not on a 16-byte boundary. */
    Arrays odd = {arrays.p + 1, arrays.g, arrays.w};
    bind_all(&f, &odd, shape, NULL);
    ls_step_statistics statistics;
    EXPECT_OK(f.context, ls_step_stats(f.step, &statistics));
    assert_string_equal(statistics.variant, "tiles, strided");
    release(f.context, &arrays);
    close_fixture(&f);
}

static void empty_arrays(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 2);
    static const int64_t shapes[][2] = {{0, 5}, {5, 0}, {0, 0}, {0, INT64_MAX}};
    Arrays none = {NULL, NULL, NULL};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bind_all(&f, &none, shapes[i], NULL);
        bind(&f, "w", NULL); /* allocated, with nothing in it */
        EXPECT_OK(f.context, ls_step_launch(f.step));
        double total = 1;
        int32_t count;
        EXPECT_OK(f.context, ls_step_get(f.step, "total", &total));
        EXPECT_OK(f.context, ls_step_get(f.step, "count", &count));
        assert_true(total == 0);
        assert_int_equal(count, 4 + (int)i); /* rank-0 statements still run */
    }
    close_fixture(&f);
}

static void variants(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_fixed, 2);
    static _Alignas(16) double x[64];
    for (int64_t n = 7; n < 11; n++) {
        const int64_t shape[2] = {4, n};
        ls_tensor tensor = tensor_of(x, LS_F64, 2, shape), y;
        for (int i = 0; i < 64; i++) x[i] = i;
        bind(&f, "x", &tensor);
        EXPECT_OK(f.context, ls_step_launch(f.step));
        uint64_t size;
        EXPECT_OK(f.context, ls_step_get(f.step, "size", &size));
        assert_int_equal(size, n <= 8 ? n : n + 100);
        EXPECT_OK(f.context, ls_step_output(f.step, "y", &y));
        assert_int_equal(y.shape[0], n);
        double values[16];
        EXPECT_OK(f.context, ls_copy_out(f.context, values, y.data, (size_t)n * sizeof(double)));
        assert_true(values[n - 1] == (double)(n - 1));
    }
    close_fixture(&f);
}

static void cells(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_cells, 1);
    double a = 0;
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_step_get(f.step, "a", &a), "`a`",
                   "has no value yet");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "`a`, `b`, `c`, `d`, `e`, `f`, `g` and `h` are not bound");
    static const struct {
        const char *name;
        double value;
        bool fits;
    } rows[] = {
        {"a", 0x1p1000, true},
        {"a", NAN, true},
        {"a", -0.0, true},
        {"b", 0.1, true},
        {"b", 1e39, false},
        {"b", INFINITY, true},
        {"b", 3.4028235e38, true},
        {"c", 0x1p63, false},
        {"c", -0x1p63, true},
        {"c", 0.5, false},
        {"c", NAN, false},
        {"d", 2147483647, true},
        {"d", 2147483648, false},
        {"d", -2147483648.0, true},
        {"d", -2147483649.0, false},
        {"e", 0x1.fffffffffffffp63, true},
        {"e", 0x1p64, false},
        {"e", -1, false},
        {"f", 4294967295.0, true},
        {"f", 4294967296.0, false},
        {"g", 1, true},
        {"g", 2, false},
        {"g", 0.5, false},
        {"h", -1, true},
        {"h", INFINITY, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_status status = ls_step_set_number(f.step, rows[i].name, rows[i].value);
        if ((status == LS_OK) != rows[i].fits)
            fail_msg("%s = %g: %s", rows[i].name, rows[i].value, ls_status_name(status));
        if (!rows[i].fits) EXPECT_FAILURE(f.context, LS_ERROR_BIND, status, "does not hold");
    }
    int64_t c;
    uint64_t e;
    int32_t d, h;
    float b;
    unsigned char g;
    EXPECT_OK(f.context, ls_step_get(f.step, "b", &b));
    assert_true(b == 3.4028235e38f);
    EXPECT_OK(f.context, ls_step_get(f.step, "c", &c));
    assert_true(c == INT64_MIN);
    EXPECT_OK(f.context, ls_step_get(f.step, "d", &d));
    assert_true(d == INT32_MIN);
    EXPECT_OK(f.context, ls_step_get(f.step, "e", &e));
    assert_true(e == 0xfffffffffffff800u);
    EXPECT_OK(f.context, ls_step_get(f.step, "g", &g));
    assert_int_equal(g, 1);
    EXPECT_OK(f.context, ls_step_set(f.step, "f", &(uint32_t){7}));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_step_get_async(f.step, "h", &h));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(h, 1);

    int32_t mine = 5; /* the caller's own cell takes precedence, and can be taken back */
    ls_tensor cell = tensor_of(&mine, LS_I32, 0, NULL);
    EXPECT_OK(f.context, ls_step_set(f.step, "h", &(int32_t){9}));
    bind(&f, "h", &cell);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(mine, 1);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "h", 12));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(mine, 12);
    bind(&f, "h", NULL);
    EXPECT_OK(f.context, ls_step_get(f.step, "h", &h));
    assert_int_equal(h, 9);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_set_number(f.step, "i", 1),
                   "parameter `i`");
    close_fixture(&f);

    f = open_fixture(&image_descend, 1);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_set_number(f.step, "p", 1),
                   "parameter `p` of step `descend` is f32[r, n], not a rank-0 value");
    EXPECT_OK(f.context, ls_step_get(f.step, "count", &d)); /* its default */
    assert_int_equal(d, 3);
    close_fixture(&f);
}

static void float_environment(void **state) {
    (void)state;
    CPU_ONLY();
#if defined(__x86_64__)
    Fixture f = open_fixture(&image_environment, 1);
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0xffc0); /* flush to zero, denormals are zero, round towards zero */
    unsigned set = __builtin_ia32_stmxcsr(); /* valgrind keeps only some of the bits */
    ls_status status = ls_step_launch(f.step);
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    EXPECT_OK(f.context, status);
    uint64_t seen;
    EXPECT_OK(f.context, ls_step_get(f.step, "control", &seen));
    assert_int_equal(seen & 0xffc0, 0x1f80);
    assert_int_equal(after & 0xffc0, set & 0xffc0); /* the low bits are sticky flags */
    close_fixture(&f);
#endif
}

#if defined(__x86_64__)
/* Each item notes what it runs with, and leaves something else behind. */
static void note_control(void *argument, uint64_t first, uint64_t last) {
    unsigned *controls = argument;
    for (uint64_t i = first; i < last; i++) controls[i] = __builtin_ia32_stmxcsr() & 0xffc0;
    __builtin_ia32_ldmxcsr(0x9fc0);
}
#endif

/* The program's own work has the program's own control, on every thread; kernels beside it not. */
static void host_work_environment(void **state) {
    (void)state;
    CPU_ONLY();
#if defined(__x86_64__)
    Fixture f = open_fixture(&image_environment, 3);
    unsigned controls[64] = {0}, before = __builtin_ia32_stmxcsr();
    const ls_host_work work = {note_control, controls, 64};
    uint64_t kernels;
    ls_graph *graph;
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_host_call(f.context, &work));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    for (int way = 0; way < 2; way++) {
        __builtin_ia32_ldmxcsr(0xffc0);
        unsigned set = __builtin_ia32_stmxcsr() & 0xffc0;
        ls_status status = way ? ls_graph_repeat(graph, 2) : ls_host_call(f.context, &work);
        unsigned after = __builtin_ia32_stmxcsr() & 0xffc0;
        __builtin_ia32_ldmxcsr(before);
        EXPECT_OK(f.context, status);
        assert_int_equal(after, set);
        for (int i = 0; i < 64; i++) {
            assert_int_equal(controls[i], set);
            controls[i] = 0;
        }
    }
    EXPECT_OK(f.context, ls_step_get(f.step, "control", &kernels));
    assert_int_equal(kernels & 0xffc0, 0x1f80);
    ls_graph_destroy(graph);
    close_fixture(&f);
#endif
}

static void graphs(void **state) {
    (void)state;
    const int64_t shape[2] = {ROWS, COLUMNS};
    Fixture f = open_fixture(&image_descend, 2);
    Arrays arrays = allocate(f.context, ELEMENTS), twins = allocate(f.context, ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++) arrays.p[i] = arrays.g[i] = sinf((float)i);
    memcpy(twins.p, arrays.p, ELEMENTS * sizeof(float));
    memcpy(twins.g, arrays.g, ELEMENTS * sizeof(float));
    bind_all(&f, &arrays, shape, NULL);
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    ls_graph *graph;
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    int32_t count;
    EXPECT_OK(f.context, ls_step_get(f.step, "count", &count));
    assert_int_equal(count, 3); /* recorded, not run */
    for (int i = 0; i < 10; i++) {
        EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1.0 / (i + 2)));
        EXPECT_OK(f.context, ls_graph_launch(graph));
    }
    double total, plain;
    EXPECT_OK(f.context, ls_step_get(f.step, "count", &count));
    EXPECT_OK(f.context, ls_step_get(f.step, "total", &total));
    assert_int_equal(count, 23);

    ls_step *step; /* the same with plain launches */
    EXPECT_OK(f.context, ls_step_create(f.program, "descend", &step));
    Fixture second = {f.context, f.program, step};
    bind_all(&second, &twins, shape, NULL);
    for (int i = 0; i < 20; i++) {
        EXPECT_OK(f.context, ls_step_set_number(step, "lr", 1.0 / (i / 2 + 2)));
        EXPECT_OK(f.context, ls_step_launch(step));
    }
    EXPECT_OK(f.context, ls_step_get(step, "total", &plain));
    assert_memory_equal(arrays.p, twins.p, ELEMENTS * sizeof(float));
    assert_memory_equal(&total, &plain, sizeof total);

    /* A graph keeps its step, its bindings and its memory when the caller lets go of them. */
    float before = arrays.p[1];
    bind_all(&f, &twins, shape, NULL);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_true(arrays.p[1] == before);
    ls_step_destroy(f.step);
    f.step = step;
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_true(arrays.p[1] != before);
    ls_graph_destroy(graph);
    release(f.context, &arrays);
    release(f.context, &twins);
    close_fixture(&f);
}

/* Host work: what it finds and leaves shows that it runs between the launches around it, in graphs
 * too; its items are shared by the workers and done once each. */
typedef struct Middle {
    float *p, *seen;
} Middle;

static void move_middle(void *argument, uint64_t first, uint64_t last) {
    const Middle *middle = argument;
    for (uint64_t i = first; i < last; i++) {
        middle->seen[i] = middle->p[i];
        middle->p[i] = (float)i;
    }
}

static void host_work(void **state) {
    (void)state;
    const int64_t shape[2] = {ROWS, COLUMNS};
    for (int threads = 1; threads <= 3; threads++) {
        Fixture f = open_fixture(&image_descend, threads);
        Arrays arrays = allocate(f.context, ELEMENTS), twins = allocate(f.context, ELEMENTS);
        float seen[ELEMENTS];
        Middle middle = {arrays.p, seen};
        const ls_host_work work = {move_middle, &middle, ELEMENTS};
        ls_graph *graph;
        for (int i = 0; i < ELEMENTS; i++) {
            twins.p[i] = arrays.p[i] = sinf((float)i);
            arrays.g[i] = twins.g[i] = cosf((float)i);
        }
        bind_all(&f, &twins, shape, NULL);
        EXPECT_OK(f.context, ls_step_launch(f.step));
        bind_all(&f, &arrays, shape, NULL);
        EXPECT_OK(f.context, ls_step_prepare(f.step));
        EXPECT_OK(f.context, ls_graph_begin(f.context));
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_host_call(f.context, &work));
        EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
        assert_true(arrays.p[1] == sinf(1.0f)); /* recorded, not run */
        EXPECT_OK(f.context, ls_graph_launch(graph));
        EXPECT_OK(f.context, ls_synchronize(f.context));
        assert_memory_equal(seen, twins.p, sizeof seen); /* after the launch ahead of it */
        for (int i = 0; i < ELEMENTS; i++) assert_true(arrays.p[i] == (float)i);
        EXPECT_OK(f.context, ls_step_launch(f.step)); /* and without a graph */
        EXPECT_OK(f.context, ls_synchronize(f.context));
        assert_true(arrays.p[1] != 1.0f);
        EXPECT_OK(f.context, ls_host_call(f.context, &work));
        EXPECT_OK(f.context, ls_synchronize(f.context));
        for (int i = 0; i < ELEMENTS; i++) assert_true(arrays.p[i] == (float)i);
        ls_graph_destroy(graph);
        const ls_host_work nothing = {move_middle, &middle, 0}, nobody = {NULL, &middle, 1};
        EXPECT_OK(f.context, ls_host_call(f.context, &nothing));
        EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_host_call(f.context, NULL), "work is NULL");
        EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_host_call(f.context, &nobody),
                       "work->run is NULL");
        assert_true((ls_context_stream(f.context) == NULL) == ON_CPU);
        release(f.context, &arrays);
        release(f.context, &twins);
        close_fixture(&f);
    }
}

/* A step whose own memory grows while a graph still uses the old. */
typedef struct Caller {
    pthread_t thread;
    int elsewhere; /* how often another thread did the work */
} Caller;

static void note_thread(void *argument, uint64_t first, uint64_t last) {
    Caller *caller = argument;
    (void)first, (void)last;
    caller->elsewhere += !pthread_equal(pthread_self(), caller->thread);
}

static void take_time(void *argument, uint64_t first, uint64_t last) {
    struct timespec now, begin;
    (void)argument;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec <
           (long)(last - first) * 20000);
}

/* The launching thread's, though others wait for work that they share. */
static void host_work_of_one_item(void **state) {
    (void)state;
    CPU_ONLY();
    Fixture f = open_fixture(&image_fixed, 4);
    Caller caller = {.thread = pthread_self()};
    const ls_host_work many = {.run = take_time, .items = 4};
    const ls_host_work one = {.run = note_thread, .argument = &caller, .items = 1};
    ls_graph *graph;
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_host_call(f.context, &many));
    EXPECT_OK(f.context, ls_host_call(f.context, &one));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    EXPECT_OK(f.context, ls_graph_repeat(graph, 1000));
    assert_int_equal(caller.elsewhere, 0);
    ls_graph_destroy(graph);
    close_fixture(&f);
}

static void graph_keeps_memory(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_fixed, 1);
    static _Alignas(16) double x[4 * 4096];
    int64_t shape[2] = {4, 5};
    ls_tensor tensor = tensor_of(x, LS_F64, 2, shape), old, grown;
    ls_graph *graph;
    for (int i = 0; i < 4 * 4096; i++) x[i] = i;
    bind(&f, "x", &tensor);
    EXPECT_OK(f.context, ls_step_output(f.step, "y", &old));
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    shape[1] = 4096;
    bind(&f, "x", &tensor);
    double *data = old.data;
    EXPECT_OK(f.context, ls_step_output(f.step, "y", &grown));
    assert_ptr_not_equal(grown.data, data);
    data[4] = -1;
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_true(data[4] == 4);
    ls_graph_destroy(graph);
    close_fixture(&f);
}

static void graph_mistakes(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 1);
    Arrays arrays = allocate(f.context, 64);
    const int64_t shape[2] = {8, 8};
    ls_graph *graph;
    ls_event *event;
    ls_step *other;
    EXPECT_OK(f.context, ls_event_create(f.context, &event));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_graph_end(f.context, &graph),
                   "no graph is being captured", "ls_graph_begin");
    assert_null(graph);
    bind_all(&f, &arrays, shape, NULL);
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_graph_begin(f.context), "being captured already");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_step_launch(f.step),
                   "step `descend` is not prepared", "call ls_step_prepare before ls_graph_begin");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_graph_end(f.context, &graph), "no graph was made",
                   "ls_graph_begin: a graph is being captured already");
    assert_null(graph);
    EXPECT_OK(f.context, ls_step_launch(f.step)); /* the context is fine */

    ls_tensor tensor = tensor_of(arrays.p, LS_F32, 2, shape);
    float value;
    double ms;
    EXPECT_OK(f.context, ls_graph_begin(f.context));
#define REFUSED(call) EXPECT_FAILURE(f.context, LS_ERROR_STATE, call, "between ls_graph_begin")
    REFUSED(ls_step_bind(f.step, "p", &tensor));
    REFUSED(ls_step_want(f.step, "w"));
    REFUSED(ls_step_set_number(f.step, "lr", 1));
    REFUSED(ls_step_get(f.step, "lr", &value));
    REFUSED(ls_step_create(f.program, "descend", &other));
    REFUSED(ls_copy_in(f.context, arrays.p, &value, 4));
    REFUSED(ls_copy_out(f.context, &value, arrays.p, 4));
    REFUSED(ls_fill_zero(f.context, arrays.p, 4));
    REFUSED(ls_synchronize(f.context));
    REFUSED(ls_event_record(event));
    REFUSED(ls_event_elapsed(event, event, &ms));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_graph_end(f.context, &graph), "ls_step_bind");
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_graph_end(f.context, NULL), "graph is NULL");
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph)); /* an empty one */
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    REFUSED(ls_graph_launch(graph));
    ls_event_destroy(event);
    ls_graph_destroy(graph);
    ls_step_destroy(f.step);
    ls_program_destroy(f.program);
    ls_context_destroy(f.context); /* in the middle of a capture, and with memory still held */
}

/* Contexts on different threads do not know of each other. cmocka's checks are for its own thread
 * only. */
static void *train_alone(void *argument) {
    int64_t *failures = argument;
    const int64_t shape[2] = {ROWS, COLUMNS};
    const ls_image *images[] = {&image_descend};
    ls_context *context;
    ls_program *program;
    ls_step *step;
    void *memory;
    *failures = 1;
    if (ls_context_create("cpu", NULL, &context) != LS_OK) return NULL;
    *failures = ls_program_from_images(context, images, 1, NULL, NULL, NULL, &program) != LS_OK;
    *failures += ls_step_create(program, "descend", &step) != LS_OK;
    *failures += ls_alloc(context, sizeof(float) * ELEMENTS * 2, &memory) != LS_OK;
    *failures += ls_fill_zero(context, memory, sizeof(float) * ELEMENTS * 2) != LS_OK;
    ls_tensor p = tensor_of(memory, LS_F32, 2, shape);
    ls_tensor g = tensor_of((float *)memory + ELEMENTS, LS_F32, 2, shape);
    *failures += ls_step_bind(step, "p", &p) != LS_OK;
    *failures += ls_step_bind(step, "g", &g) != LS_OK;
    *failures += ls_step_set_number(step, "lr", 1) != LS_OK;
    for (int i = 0; i < 20; i++) *failures += ls_step_launch(step) != LS_OK;
    int32_t count = 0;
    *failures += ls_step_get(step, "count", &count) != LS_OK || count != 23;
    *failures += ls_step_bind(step, "x", &g) != LS_ERROR_ARGUMENT;
    *failures += strstr(ls_error_message(context), "no parameter `x`") == NULL;
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    return NULL;
}

static void many_contexts(void **state) {
    (void)state;
    pthread_t threads[4];
    int64_t failures[4];
    setenv("LOCKSTEP_THREADS", "2", 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_alone, &failures[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(failures[i], 0);
    }
}

/* A forked child has none of the threads: its launches work, and destroying returns. */
static int train_on(Fixture *f, ls_graph *graph) {
    int32_t count = 0;
    alarm(20);
    int failures = ls_step_launch(f->step) != LS_OK;
    failures += ls_graph_launch(graph) != LS_OK;
    failures += ls_step_get(f->step, "count", &count) != LS_OK || count != 3 + 3;
    ls_graph_destroy(graph);
    ls_step_destroy(f->step);
    ls_program_destroy(f->program);
    ls_context_destroy(f->context);
    return failures;
}

static void forked_child(void **state) {
    (void)state;
    if (!ON_CPU) skip(); /* tests/driver/scenario_fork.c */
    const int64_t shape[2] = {ROWS, COLUMNS};
    for (int threads = 1; threads <= 4; threads++) {
        Fixture f = open_fixture(&image_descend, threads);
        Arrays arrays = allocate(f.context, ELEMENTS);
        ls_graph *graph;
        int status = -1;
        for (int i = 0; i < ELEMENTS; i++) arrays.p[i] = (float)(i % 100), arrays.g[i] = 4;
        bind_all(&f, &arrays, shape, NULL);
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_graph_begin(f.context));
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
        if (threads > 2) usleep(20000); /* the threads sleep */
        const pid_t child = fork();
        if (child == 0) _exit(train_on(&f, graph));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        EXPECT_OK(f.context, ls_graph_launch(graph));
        EXPECT_OK(f.context, ls_synchronize(f.context));
        for (int i = 0; i < ELEMENTS; i++) assert_true(arrays.p[i] == (float)(i % 100 - 2));
        ls_graph_destroy(graph);
        release(f.context, &arrays);
        close_fixture(&f);
    }
}

static void events(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_environment, 1), g = open_fixture(&image_environment, 1);
    ls_event *start, *end, *foreign;
    double ms = -1;
    EXPECT_OK(f.context, ls_event_create(f.context, &start));
    EXPECT_OK(f.context, ls_event_create(f.context, &end));
    EXPECT_OK(g.context, ls_event_create(g.context, &foreign));
    EXPECT_OK(f.context, ls_event_record(start));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_event_elapsed(start, end, &ms),
                   "end event was never");
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_event_record(end));
    EXPECT_OK(f.context, ls_event_elapsed(start, end, &ms));
    assert_true(ms > 0 && ms < 10000);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_event_elapsed(start, foreign, &ms),
                   "different");
    ls_event_destroy(start);
    ls_event_destroy(end);
    ls_event_destroy(foreign);
    close_fixture(&f);
    close_fixture(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_thread_count),
        cmocka_unit_test(strides),
        cmocka_unit_test(empty_arrays),
        cmocka_unit_test(variants),
        cmocka_unit_test(cells),
        cmocka_unit_test(float_environment),
        cmocka_unit_test(host_work_environment),
        cmocka_unit_test(graphs),
        cmocka_unit_test(host_work),
        cmocka_unit_test(host_work_of_one_item),
        cmocka_unit_test(graph_keeps_memory),
        cmocka_unit_test(graph_mistakes),
        cmocka_unit_test(events),
        cmocka_unit_test(many_contexts),
        cmocka_unit_test(forked_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
