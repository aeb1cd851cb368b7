/* pool_test.c: the pool of device memory: what it hands out is nobody else's, what it counts is
 * exact, what is freed is used again without the device, and who holds what is told. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_context *open_context(void) {
    ls_context *context;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    return context;
}

static ls_memory_statistics statistics_of(const ls_context *context) {
    ls_memory_statistics s;
    ls_memory_stats(context, &s);
    assert_int_equal(s.reserved, s.in_use + s.rounding + s.free_bytes);
    assert_true(s.largest_free <= s.free_bytes);
    assert_true(s.peak >= s.in_use && s.reserved_peak >= s.reserved);
    return s;
}

static uint32_t state = 1;
static uint32_t next_random(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Thousands of allocations of all sizes, freed in any order: each keeps what was written to it. */
static void a_model(void **unused) {
    (void)unused;
    enum { SLOTS = 64, ROUNDS = 4000 };
    struct {
        unsigned char *data;
        size_t bytes;
        unsigned char fill;
    } slots[SLOTS] = {{NULL, 0, 0}};
    ls_context *context = open_context();
    uint64_t in_use = 0, live = 0, peak = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t at = next_random() % SLOTS, bytes = slots[at].bytes;
        if (slots[at].data) {
            for (size_t i = 0; i < bytes; i += bytes < 4096 ? 1 : 1009)
                if (slots[at].data[i] != slots[at].fill) fail_msg("byte %zu of %zu", i, bytes);
            if (bytes) assert_int_equal(slots[at].data[bytes - 1], slots[at].fill);
            ls_free(context, slots[at].data);
            slots[at].data = NULL;
            in_use -= bytes;
            live--;
        } else {
            void *data;
            bytes = next_random() % ((size_t)1 << next_random() % 20);
            if (next_random() % 50 == 0) bytes += 1 << 20;
            EXPECT_OK(context, ls_alloc(context, bytes, &data));
            assert_int_equal((uintptr_t)data % 256, 0);
            slots[at].data = data;
            slots[at].bytes = bytes;
            slots[at].fill = (unsigned char)round;
            for (size_t i = 0; i < bytes; i += bytes < 4096 ? 1 : 1009)
                slots[at].data[i] = slots[at].fill;
            if (bytes) slots[at].data[bytes - 1] = slots[at].fill;
            in_use += bytes;
            live++;
        }
        if (in_use > peak) peak = in_use;
        ls_memory_statistics s = statistics_of(context);
        assert_int_equal(s.in_use, in_use);
        assert_int_equal(s.allocations, live);
        assert_int_equal(s.peak, peak);
    }
    for (size_t i = 0; i < SLOTS; i++) ls_free(context, slots[i].data);
    ls_memory_statistics s = statistics_of(context);
    assert_int_equal(s.in_use, 0);
    assert_int_equal(s.free_bytes, s.reserved);
    assert_int_equal(s.free_ranges, s.chunks); /* all grown together again */
    EXPECT_OK(context, ls_memory_trim(context, 0));
    s = statistics_of(context);
    assert_int_equal(s.reserved, 0);
    assert_int_equal(s.chunks, 0);
    ls_context_destroy(context);
}

/* A steady state asks the device for nothing. */
static void reuse(void **unused) {
    (void)unused;
    static const size_t sizes[] = {100, 3 << 20, 4096, 700 << 10, 9 << 20, 1};
    enum { COUNT_OF_SIZES = sizeof sizes / sizeof *sizes };
    ls_context *context = open_context();
    void *memory[COUNT_OF_SIZES], *again;
    uint64_t calls = 0;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < COUNT_OF_SIZES; i++)
            EXPECT_OK(context, ls_alloc(context, sizes[i], &memory[i]));
        if (round == 0) calls = statistics_of(context).driver_calls;
        for (size_t i = 0; i < COUNT_OF_SIZES; i++)
            ls_free(context, memory[(i * 5 + (size_t)round) % COUNT_OF_SIZES]);
    }
    assert_int_equal(statistics_of(context).driver_calls, calls);
    EXPECT_OK(context, ls_alloc(context, 1000, &memory[0]));
    ls_free(context, memory[0]);
    EXPECT_OK(context, ls_alloc(context, 1000, &again));
    assert_ptr_equal(again, memory[0]); /* at once */
    ls_context_destroy(context);        /* with what is left */
}

/* A new chunk for small arrays is as large as all before. */
static void small_chunks(void **unused) {
    (void)unused;
    enum { ARRAYS = 256, BYTES = 4096 };
    ls_context *context = open_context();
    void *memory;
    for (int i = 0; i < ARRAYS; i++) EXPECT_OK(context, ls_alloc(context, BYTES, &memory));
    const ls_memory_statistics s = statistics_of(context);
    assert_int_equal(s.reserved, ARRAYS * BYTES);
    assert_int_equal(s.chunks, 5); /* 64, 64, 128, 256 and 512 KiB */
    ls_context_destroy(context);
}

/* Free memory between what is in use: visible, and told when it is in the way. */
static void fragments(void **unused) {
    (void)unused;
    enum { MIB = 1 << 20 };
    ls_context *context = open_context();
    void *all, *parts[8], *more;
    EXPECT_OK(context, ls_alloc(context, 16 * MIB, &all)); /* one chunk, then cut in eight */
    ls_free(context, all);
    for (int i = 0; i < 8; i++) EXPECT_OK(context, ls_alloc(context, 2 * MIB, &parts[i]));
    assert_int_equal(statistics_of(context).chunks, 1);
    assert_int_equal(statistics_of(context).free_bytes, 0);
    for (int i = 0; i < 8; i += 2) ls_free(context, parts[i]);
    ls_memory_statistics s = statistics_of(context);
    assert_int_equal(s.free_bytes, 8 * MIB);
    assert_int_equal(s.free_ranges, 4);
    assert_int_equal(s.largest_free, 2 * MIB);
    EXPECT_OK(context, ls_memory_limit(context, 24 * MIB));
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, ls_alloc(context, 9 * MIB, &more),
                   "no 9.0 MiB more on " DEVICE_NAME, "holds 8.0 MiB in 4 allocations",
                   "8.0 MiB of its 16.0 MiB are free, in one piece at most 2.0 MiB",
                   "raise ls_memory_limit, which is 24.0 MiB");
    EXPECT_OK(context, ls_alloc(context, 7 * MIB, &more)); /* of a second chunk: there is room */
    ls_free(context, more);
    assert_int_equal(statistics_of(context).reserved, 24 * MIB);
    EXPECT_OK(context, ls_memory_limit(context, 23 * MIB));
    ls_free(context, parts[1]);
    s = statistics_of(context);
    assert_int_equal(s.largest_free, 8 * MIB); /* the second chunk; in the first 6 in one piece */
    ls_free(context, parts[7]);
    ls_free(context, parts[5]);
    ls_free(context, parts[3]);
    assert_int_equal(statistics_of(context).free_ranges, 2);
    /* The limit has no room for another chunk: what is idle is given back, and it fits. */
    EXPECT_OK(context, ls_alloc(context, 20 * MIB, &more));
    s = statistics_of(context);
    assert_int_equal(s.reserved, 20 * MIB);
    assert_int_equal(s.chunks, 1);
    assert_string_equal(ls_error_message(context) + strlen("ls_alloc: no "),
                        strstr(ls_error_message(context), "9.0 MiB")); /* no new failure */
    ls_context_destroy(context);
}

static void trimming(void **unused) {
    (void)unused;
    enum { MIB = 1 << 20 };
    ls_context *context = open_context();
    void *memory[4];
    for (int i = 0; i < 4; i++) EXPECT_OK(context, ls_alloc(context, 4 * MIB, &memory[i]));
    ls_free(context, memory[0]);
    ls_free(context, memory[2]);
    ls_free(context, memory[3]);
    EXPECT_OK(context, ls_memory_trim(context, 13 * MIB));
    assert_true(statistics_of(context).reserved <= 13 * MIB);
    assert_true(statistics_of(context).reserved >= 8 * MIB);
    EXPECT_OK(context, ls_memory_trim(context, 0));
    assert_int_equal(statistics_of(context).reserved, 4 * MIB); /* what is held stays */
    assert_int_equal(statistics_of(context).reserved_peak, 18 * MIB);
    ls_graph *graph;
    EXPECT_OK(context, ls_graph_begin(context));
    EXPECT_FAILURE(context, LS_ERROR_STATE, ls_memory_trim(context, 0), "ls_memory_trim");
    EXPECT_FAILURE(context, LS_ERROR_STATE, ls_graph_end(context, &graph), "ls_memory_trim");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_memory_trim(NULL, 0), "context is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_memory_limit(NULL, 0), "context is NULL");
    ls_context_destroy(context);
}

static void labels(void **unused) {
    (void)unused;
    ls_context *context = open_context();
    ls_memory_label rows[8];
    void *weights[2], *gradients, *other;
    char text[1000], small[20];
    for (int i = 0; i < 2; i++)
        EXPECT_OK(context, ls_alloc_labeled(context, 3 << 20, "weights", &weights[i]));
    EXPECT_OK(context, ls_alloc_labeled(context, 2 << 20, "gradients", &gradients));
    EXPECT_OK(context, ls_alloc(context, 500, &other));
    assert_int_equal(ls_memory_labels(context, rows, 8), 3);
    assert_string_equal(rows[0].label, "weights");
    assert_int_equal(rows[0].in_use, 6 << 20);
    assert_int_equal(rows[0].allocations, 2);
    assert_string_equal(rows[1].label, "gradients");
    assert_string_equal(rows[2].label, "ls_alloc");
    assert_int_equal(rows[2].in_use, 500);
    ls_free(context, weights[0]);
    ls_free(context, weights[1]);
    assert_int_equal(ls_memory_labels(context, rows, 1), 3);
    assert_string_equal(rows[0].label, "gradients");
    assert_int_equal(ls_memory_labels(context, NULL, 0), 3);
    assert_int_equal(ls_memory_labels(context, rows, 8), 3);
    assert_string_equal(rows[2].label, "weights");
    assert_int_equal(rows[2].in_use, 0);
    assert_int_equal(rows[2].peak, 6 << 20);
    assert_int_equal(rows[2].allocations, 0);
    size_t length = ls_memory_report(context, text, sizeof text);
    assert_int_equal(length, strlen(text));
    static const char *const pieces[] = {
        "memory of " DEVICE_NAME ": 2.0 MiB in use (at most 8.0 MiB) in 2 allocations, ",
        "  free in the pool: ",
        "the largest ",
        "  free on the device: ",
        "       2.0 MiB 100.0 %      1 x  gradients (at most 2.0 MiB)\n",
        "         500 B   0.0 %      1 x  ls_alloc (at most 500 B)\n"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (!strstr(text, pieces[i])) fail_msg("\"%s\" is not in:\n%s", pieces[i], text);
    assert_null(strstr(text, "weights"));
    assert_true(strstr(text, "gradients") < strstr(text, "ls_alloc"));
    assert_int_equal(ls_memory_report(context, small, sizeof small), length);
    assert_int_equal(strlen(small), sizeof small - 1);
    assert_memory_equal(small, text, sizeof small - 1);
    assert_int_equal(ls_memory_report(context, NULL, 0), length);
    assert_int_equal(ls_memory_report(context, NULL, 9), length);
    assert_int_equal(ls_memory_labels(context, NULL, 9), ls_memory_labels(context, NULL, 0));
    assert_int_equal(ls_memory_report(NULL, small, sizeof small), 0);
    assert_int_equal(ls_memory_labels(NULL, NULL, 0), 0);
    ls_memory_stats(NULL, NULL);
    EXPECT_OK(context, ls_memory_limit(context, 10 << 20));
    EXPECT_FAILURE(context, LS_ERROR_MEMORY,
                   ls_alloc_labeled(context, 1 << 30, "activations", &other), "no 1.0 GiB more",
                   ", for activations; ", "the largest: gradients 2.0 MiB, ls_alloc 500 B",
                   "raise ls_memory_limit");
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, ls_alloc(context, SIZE_MAX, &other), "EiB more");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_alloc_labeled(context, 1, NULL, &other),
                   "label is NULL");
    ls_context_destroy(context);
}

/* Any number of labels: a new one takes the place of one that nobody uses. */
static void many_labels(void **unused) {
    (void)unused;
    ls_context *context = open_context();
    void *kept, *memory;
    char name[200];
    EXPECT_OK(context, ls_alloc_labeled(context, 7, "kept", &kept));
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "%d", i);
        EXPECT_OK(context, ls_alloc_labeled(context, 1, name, &memory));
        ls_free(context, memory);
    }
    assert_int_equal(ls_memory_labels(context, NULL, 0), 4096);
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 2; i++) EXPECT_OK(context, ls_alloc_labeled(context, 100, name, &memory));
    ls_memory_label rows[2];
    assert_int_equal(ls_memory_labels(context, rows, 2), 4096);
    assert_int_equal(strlen(rows[0].label), 95);
    assert_int_equal(rows[0].allocations, 2);
    assert_string_equal(rows[1].label, "kept");
    ls_context_destroy(context);
}

/* What steps hold is under their names; a graph's memory stays the graph's. */
static void of_steps(void **unused) {
    (void)unused;
    static _Alignas(16) float p[4096], g[4096];
    Fixture f = open_fixture(&image_descend, 1);
    ls_memory_label rows[8];
    const int64_t small[2] = {4, 4}, large[2] = {64, 64};
    ls_tensor tp = tensor_of(p, LS_F32, 2, small), tg = tensor_of(g, LS_F32, 2, small);
    ls_tensor before, after;
    ls_graph *graph;
    void *memory;
    for (int i = 0; i < 4096; i++) g[i] = 1;
    EXPECT_OK(f.context, ls_step_bind(f.step, "p", &tp));
    EXPECT_OK(f.context, ls_step_bind(f.step, "g", &tg));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_OK(f.context, ls_step_output(f.step, "w", &before));
    assert_int_equal(ls_memory_labels(f.context, rows, 8), 3);
    assert_string_equal(rows[0].label, "step descend: all temporaries");
    assert_string_equal(rows[1].label, "step descend: rank-0 values");
    assert_string_equal(rows[2].label, "step descend: output w");
    assert_int_equal(rows[2].in_use, 64);
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    tp.shape = tg.shape = large;
    EXPECT_OK(f.context, ls_step_bind(f.step, "p", &tp));
    EXPECT_OK(f.context, ls_step_bind(f.step, "g", &tg));
    EXPECT_OK(f.context, ls_step_output(f.step, "w", &after));
    assert_ptr_not_equal(before.data, after.data);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    /* The whole reserve is taken: none of it is where the graph writes. */
    for (int i = 0; i < 100; i++) {
        EXPECT_OK(f.context, ls_alloc(f.context, 64, &memory));
        memset(memory, 0x55, 64);
    }
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    for (int i = 0; i < 16; i++) {
        assert_true(((float *)before.data)[i] == -2);
        assert_true(((float *)after.data)[i] == -1);
    }
    ls_graph_destroy(graph);
    /* No memory for the output: told whose, and with memory again it goes on. */
    const int64_t huge[2] = {1 << 10, 1 << 14};
    static float *many;
    many = malloc((size_t)(1 << 26));
    assert_non_null(many);
    tp.shape = tg.shape = huge;
    tp.data = many;
    EXPECT_OK(f.context, ls_step_bind(f.step, "p", &tp));
    EXPECT_OK(f.context, ls_memory_limit(f.context, 1 << 20));
    tg.data = calloc(1 << 24, sizeof(float));
    EXPECT_OK(f.context, ls_step_bind(f.step, "g", &tg));
    EXPECT_FAILURE(f.context, LS_ERROR_MEMORY, ls_step_launch(f.step),
                   "ls_step_launch: no 64.0 MiB more on " DEVICE_NAME,
                   "for step descend: output w; ", "the largest: ls_alloc ");
    tp.shape = tg.shape = small;
    EXPECT_OK(f.context, ls_step_bind(f.step, "p", &tp));
    EXPECT_OK(f.context, ls_step_bind(f.step, "g", &tg));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    free(tg.data);
    free(many);
    ls_step_destroy(f.step);
    ls_program_destroy(f.program);
    ls_context_destroy(f.context);
}

/* Every allocation the device's own, for tools that watch its end. */
static void without(void **unused) {
    (void)unused;
    setenv("LOCKSTEP_POOL", "off", 1);
    ls_context *context = open_context();
    void *memory[3];
    for (int i = 0; i < 3; i++) EXPECT_OK(context, ls_alloc(context, 100, &memory[i]));
    ls_memory_statistics s = statistics_of(context);
    assert_int_equal(s.chunks, 3);
    assert_int_equal(s.reserved, 300);
    assert_int_equal(s.driver_calls, 3);
    ls_free(context, memory[1]);
    s = statistics_of(context);
    assert_int_equal(s.reserved, 200);
    assert_int_equal(s.chunks, 2);
    ls_context_destroy(context);
    setenv("LOCKSTEP_POOL", "on", 1);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_context_create("cpu", NULL, &context),
                   "LOCKSTEP_POOL is `on`; it takes off");
    unsetenv("LOCKSTEP_POOL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model),      cmocka_unit_test(reuse),    cmocka_unit_test(fragments),
        cmocka_unit_test(small_chunks), cmocka_unit_test(trimming), cmocka_unit_test(labels),
        cmocka_unit_test(many_labels),  cmocka_unit_test(of_steps), cmocka_unit_test(without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
