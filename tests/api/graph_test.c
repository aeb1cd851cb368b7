/* graph_test.c: graphs whose bindings change, and graphs repeated: the same bits as launches. */
#include "failing_memory.h"
#include "fixtures.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 61, COLUMNS = 1013, ELEMENTS = ROWS * COLUMNS, SETS = 3 };
static _Alignas(64) float p[SETS][ELEMENTS], g[SETS][ELEMENTS], twin[SETS][ELEMENTS];

static void fill_arrays(void) {
    for (int set = 0; set < SETS; set++)
        for (int i = 0; i < ELEMENTS; i++) {
            p[set][i] = (float)(i % 977 - 400) / 7;
            g[set][i] = (float)((i + set) % 31) / 3;
        }
    memcpy(twin, p, sizeof p);
}

static void bind(Fixture *f, const char *name, ls_type type, uint32_t rank, void *data,
                 const int64_t *lengths) {
    const ls_tensor tensor = tensor_of(data, type, rank, lengths);
    EXPECT_OK(f->context, ls_step_bind(f->step, name, &tensor));
}

static void bind_set(Fixture *f, float (*arrays)[ELEMENTS], int set, int64_t rows) {
    const int64_t lengths[2] = {rows, COLUMNS};
    bind(f, "p", LS_F32, 2, arrays[set], lengths);
    bind(f, "g", LS_F32, 2, g[set], lengths);
}

static Fixture open_step(int threads) {
    Fixture f = open_fixture(&image_descend, threads);
    fill_arrays();
    bind_set(&f, p, 0, ROWS);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0.25));
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    return f;
}

static ls_graph *record(Fixture *f, int launches) {
    ls_graph *graph;
    EXPECT_OK(f->context, ls_graph_begin(f->context));
    for (int i = 0; i < launches; i++) EXPECT_OK(f->context, ls_step_launch(f->step));
    EXPECT_OK(f->context, ls_graph_end(f->context, &graph));
    return graph;
}

static ls_graph_statistics stats_of(Fixture *f, const ls_graph *graph) {
    ls_graph_statistics statistics;
    EXPECT_OK(f->context, ls_graph_stats(graph, &statistics));
    return statistics;
}

static double total_of(Fixture *f, ls_step *step) {
    double total;
    EXPECT_OK(f->context, ls_step_get(step, "total", &total));
    return total;
}

/* Replays on the twins with plain launches, set by set. */
static void repeats(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 5};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        Fixture f = open_step(threads[t]), plain = f;
        ls_graph *graph = record(&f, 2);
        EXPECT_OK(f.context, ls_step_create(f.program, "descend", &plain.step));
        bind_set(&plain, twin, 0, ROWS);
        for (int round = 0; round < 4; round++) {
            EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1.0 / (round + 3)));
            EXPECT_OK(f.context, ls_step_set_number(plain.step, "lr", 1.0 / (round + 3)));
            EXPECT_OK(f.context, ls_graph_repeat(graph, (uint64_t)round * 15));
            for (int i = 0; i < round * 30; i++) EXPECT_OK(f.context, ls_step_launch(plain.step));
            EXPECT_OK(f.context, ls_synchronize(f.context));
            assert_memory_equal(p[0], twin[0], sizeof p[0]);
        }
        int32_t count;
        double totals[2] = {total_of(&f, f.step), total_of(&f, plain.step)};
        assert_memory_equal(&totals[0], &totals[1], sizeof totals[0]);
        EXPECT_OK(f.context, ls_step_get(f.step, "count", &count));
        assert_int_equal(count, 3 + 180);
        const ls_graph_statistics statistics = stats_of(&f, graph);
        assert_true(statistics.native == 1 && statistics.launches == 4 && statistics.nodes == 4);
        assert_int_equal(statistics.replays, 90);
        assert_int_equal(statistics.loops, strcmp(ls_context_device(f.context), "cuda:0") == 0);
        ls_graph_destroy(graph);
        ls_step_destroy(plain.step);
        close_fixture(&f);
    }
}

/* Arrays change, lengths too; a graph beside it keeps what it has. */
static void updates(void **state) {
    (void)state;
    Fixture f = open_step(2), plain = f;
    ls_graph *graph = record(&f, 1), *other = record(&f, 1);
    EXPECT_OK(f.context, ls_step_create(f.program, "descend", &plain.step));
    EXPECT_OK(f.context, ls_step_set_number(plain.step, "lr", 0.25));
    static const struct {
        int set;
        int64_t rows;
    } rounds[] = {{1, ROWS}, {2, ROWS}, {2, 7}, {0, 7}, {1, ROWS}};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        bind_set(&f, p, rounds[i].set, rounds[i].rows);
        EXPECT_OK(f.context, ls_graph_update(graph));
        EXPECT_OK(f.context, ls_graph_repeat(graph, 2));
        bind_set(&plain, twin, rounds[i].set, rounds[i].rows);
        for (int k = 0; k < 2; k++) EXPECT_OK(f.context, ls_step_launch(plain.step));
        double totals[2] = {total_of(&f, f.step), total_of(&f, plain.step)};
        assert_memory_equal(&totals[0], &totals[1], sizeof totals[0]);
        assert_memory_equal(p, twin, sizeof p);
    }
    EXPECT_OK(f.context, ls_graph_update(graph)); /* nothing changed */
    ls_graph_statistics statistics = stats_of(&f, graph);
    assert_int_equal(statistics.updates, 6);
    assert_int_equal(statistics.updated, 5 * 2);
    assert_int_equal(statistics.reinstantiations, 0);
    EXPECT_OK(f.context, ls_graph_launch(other)); /* set 0, all rows */
    bind_set(&plain, twin, 0, ROWS);
    EXPECT_OK(f.context, ls_step_launch(plain.step));
    assert_true(total_of(&f, f.step) == total_of(&f, plain.step));
    assert_memory_equal(p, twin, sizeof p);
    EXPECT_OK(f.context, ls_step_bind(f.step, "p", NULL));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_graph_update(graph), "ls_graph_update", "`p`",
                   "not bound");
    EXPECT_OK(f.context, ls_graph_launch(graph)); /* as it was */
    ls_graph_destroy(other);
    ls_graph_destroy(graph);
    ls_step_destroy(plain.step);
    close_fixture(&f);
}

/* Another variant has another kernel. */
static void variants(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_fixed, 1);
    static _Alignas(64) double x[4 * 40], y[40];
    const int64_t lengths[][2] = {{4, 5}, {4, 40}};
    uint64_t size;
    bind(&f, "x", LS_F64, 2, x, lengths[0]);
    bind(&f, "y", LS_F64, 1, y, &lengths[0][1]);
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    ls_graph *graph = record(&f, 1);
    for (int i = 0; i < 4; i++) {
        bind(&f, "x", LS_F64, 2, x, lengths[i % 2]);
        bind(&f, "y", LS_F64, 1, y, &lengths[i % 2][1]);
        EXPECT_OK(f.context, ls_graph_update(graph));
        EXPECT_OK(f.context, ls_graph_launch(graph));
        EXPECT_OK(f.context, ls_step_get(f.step, "size", &size));
        assert_int_equal(size, i % 2 ? 140 : 5);
    }
    ls_graph_destroy(graph);
    close_fixture(&f);
}

enum { TENSORS = 3 };
static void bind_lists(Fixture *f, int set) {
    static const int64_t lengths[TENSORS] = {5, 0, 9};
    ls_tensor lists[2][TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        lists[0][i] = tensor_of(p[set] + 16 * i, LS_F32, 1, &lengths[i]);
        lists[1][i] = tensor_of(g[set] + 16 * i, LS_F32, 1, &lengths[i]);
    }
    EXPECT_OK(f->context, ls_step_bind_list(f->step, "p", lists[0], TENSORS));
    EXPECT_OK(f->context, ls_step_bind_list(f->step, "g", lists[1], TENSORS));
}

/* Tables of pointers are made anew at each update, and the old ones do not pile up. */
static void lists(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_lists, 2);
    ls_memory_statistics before = {0}, after;
    fill_arrays();
    for (int set = 0; set < SETS; set++)
        for (int i = 0; i < 64; i++) p[set][i] = (float)(100 * set), g[set][i] = 1;
    bind_lists(&f, 0);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    ls_graph *graph = record(&f, 1);
    for (int i = 0; i < 60; i++) {
        bind_lists(&f, i % SETS);
        EXPECT_OK(f.context, ls_graph_update(graph));
        EXPECT_OK(f.context, ls_graph_launch(graph));
        assert_true(total_of(&f, f.step) == 14.0 * (100 * (i % SETS) - i / SETS - 1));
        if (i == 5) ls_memory_stats(f.context, &before);
    }
    ls_memory_stats(f.context, &after);
    assert_int_equal(before.allocations, after.allocations);
    assert_int_equal(before.in_use, after.in_use);
    ls_graph_destroy(graph);
    close_fixture(&f);
}

/* Nor do they where several graphs share the step. */
static void many_updates(void **state) {
    (void)state;
    enum { GRAPHS = 3 };
    Fixture f = open_fixture(&image_lists, 2);
    ls_memory_statistics before = {0}, after;
    ls_graph *graphs[GRAPHS];
    fill_arrays();
    bind_lists(&f, 0);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    for (int i = 0; i < GRAPHS; i++) graphs[i] = record(&f, 1);
    for (int i = 0; i < 60; i++) {
        bind_lists(&f, (i + 1) % SETS);
        EXPECT_OK(f.context, ls_graph_update(graphs[i % GRAPHS]));
        for (int k = 0; k < GRAPHS; k++) EXPECT_OK(f.context, ls_graph_launch(graphs[k]));
        if (i == 5) ls_memory_stats(f.context, &before);
    }
    ls_memory_stats(f.context, &after);
    assert_int_equal(before.allocations, after.allocations);
    assert_int_equal(before.in_use, after.in_use);
    for (int i = 0; i < GRAPHS; i++) ls_graph_destroy(graphs[i]);
    close_fixture(&f);
}

/* A table that an update replaces stays for another graph, also when the caller has let the step
 * go.
 */
static void shared_lists(void **state) {
    (void)state;
    enum { TAKEN = 64 };
    Fixture f = open_fixture(&image_lists, 2);
    void *taken[TAKEN];
    fill_arrays();
    for (int set = 0; set < 2; set++)
        for (int i = 0; i < 64; i++) p[set][i] = (float)(100 * set), g[set][i] = 1;
    bind_lists(&f, 0);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    ls_graph *updated = record(&f, 1), *kept = record(&f, 1);
    bind_lists(&f, 1);
    ls_step_destroy(f.step);
    f.step = NULL;
    EXPECT_OK(f.context, ls_graph_update(updated));
    for (int i = 0; i < TAKEN; i++) {
        EXPECT_OK(f.context, ls_alloc(f.context, 40, &taken[i]));
        EXPECT_OK(f.context, ls_fill_zero(f.context, taken[i], 40));
    }
    EXPECT_OK(f.context, ls_graph_launch(kept));
    EXPECT_OK(f.context, ls_graph_launch(updated));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_true(p[0][0] == -1.0f && p[0][4] == -1.0f && p[0][32] == -1.0f);
    assert_true(p[1][0] == 99.0f && p[1][4] == 99.0f && p[1][32] == 99.0f);
    for (int i = 0; i < TAKEN; i++) ls_free(f.context, taken[i]);
    ls_graph_destroy(updated);
    ls_graph_destroy(kept);
    close_fixture(&f);
}

/* Replays allocate nothing; an update without memory leaves the graph as it was. */
static void without_memory(void **state) {
    (void)state;
    Fixture f = open_step(2);
    ls_graph *graph = record(&f, 2);
    EXPECT_OK(f.context, ls_graph_repeat(graph, 2));
    memory_until_failure = 1;
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_graph_repeat(graph, 7));
    EXPECT_OK(f.context, ls_graph_update(graph)); /* nothing to do */
    assert_int_equal(memory_until_failure, 1);
    memory_until_failure = 0;
    bool done = false;
    for (int n = 1; !done; n++) {
        bind_set(&f, p, n % 2 + 1, ROWS);
        EXPECT_OK(f.context, ls_step_prepare(f.step));
        const float old = p[n % 2 + 1][0];
        memory_until_failure = n;
        ls_status status = ls_graph_update(graph);
        done = memory_until_failure != 0;
        memory_until_failure = 0;
        assert_int_equal(status, done ? LS_OK : LS_ERROR_MEMORY);
        EXPECT_OK(f.context, ls_graph_launch(graph));
        EXPECT_OK(f.context, ls_synchronize(f.context));
        assert_true((p[n % 2 + 1][0] != old) == done);
        assert_true(n < 50);
    }
    ls_graph_destroy(graph);
    close_fixture(&f);
    assert_int_equal(memory_live, 0);
}

static void set_after(void *argument, uint64_t first, uint64_t last) {
    int32_t *count = argument;
    (void)first, (void)last;
    if (++*count == 4) *(unsigned char *)(count + 1) = 1;
}

/* Until a byte of the device's memory is set: the second of a count that each replay advances. */
static void until(void **state) {
    static const int threads[] = {1, 3};
    (void)state;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        Fixture f = open_step(threads[t]);
        void *memory;
        int32_t value = 250;
        uint64_t times = 77;
        EXPECT_OK(f.context, ls_alloc(f.context, sizeof value, &memory));
        const ls_tensor count = tensor_of(memory, LS_I32, 0, NULL);
        EXPECT_OK(f.context, ls_copy_in(f.context, memory, &value, sizeof value));
        EXPECT_OK(f.context, ls_step_bind(f.step, "count", &count));
        EXPECT_OK(f.context, ls_step_prepare(f.step));
        ls_graph *graph = record(&f, 1);
        const char *stop = (const char *)memory + 1;
        EXPECT_OK(f.context, ls_graph_repeat_until(graph, stop, 100, &times));
        assert_int_equal(times, 6);
        EXPECT_OK(f.context, ls_copy_out(f.context, &value, memory, sizeof value));
        assert_int_equal(value, 256);
        EXPECT_OK(f.context, ls_graph_repeat_until(graph, stop, 100, &times)); /* set already */
        assert_int_equal(times, 0);
        value = 0;
        EXPECT_OK(f.context, ls_copy_in(f.context, memory, &value, sizeof value));
        EXPECT_OK(f.context, ls_graph_repeat_until(graph, stop, 3, NULL)); /* never set */
        EXPECT_OK(f.context, ls_graph_repeat_until(graph, stop, 0, &times));
        assert_int_equal(times, 0);
        EXPECT_OK(f.context, ls_copy_out(f.context, &value, memory, sizeof value));
        assert_int_equal(value, 3);
        assert_int_equal(stats_of(&f, graph).replays, 9);
        if (!ON_CPU)
            assert_int_equal(stats_of(&f, graph).loops,
                             ls_context_kind(f.context) == LS_DEVICE_CUDA);
        EXPECT_OK(f.context, ls_profile_begin(f.context)); /* timed one by one, the same */
        value = 254;
        EXPECT_OK(f.context, ls_copy_in(f.context, memory, &value, sizeof value));
        EXPECT_OK(f.context, ls_graph_repeat_until(graph, stop, 100, &times));
        assert_int_equal(times, 2);
        EXPECT_OK(f.context, ls_profile_end(f.context));
        EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_graph_repeat_until(graph, NULL, 1, NULL),
                       "stop is NULL");
        EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_graph_repeat_until(NULL, stop, 1, NULL),
                       "graph is NULL");
        ls_graph_destroy(graph);

        /* with work of the host's, which no loop of a device has; it reaches all memory here */
        int32_t words[2] = {0, 0};
        const ls_host_work work = {set_after, words, 1};
        EXPECT_OK(f.context, ls_graph_begin(f.context));
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_host_call(f.context, &work));
        EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
        EXPECT_OK(f.context, ls_graph_repeat_until(graph, words + 1, 100, &times));
        assert_int_equal(times, 4);
        ls_graph_destroy(graph);
        EXPECT_OK(f.context, ls_step_bind(f.step, "count", NULL));
        ls_free(f.context, memory);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats),        cmocka_unit_test(updates),
        cmocka_unit_test(variants),       cmocka_unit_test(lists),
        cmocka_unit_test(many_updates),   cmocka_unit_test(shared_lists),
        cmocka_unit_test(without_memory), cmocka_unit_test(until),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
