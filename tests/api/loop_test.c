/* loop_test.c: steps with `for` through the API: lengths that no array gives, launches, graphs and
 * profiles of all iterations, and other bindings and lengths afterwards. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char source[] =
    "step sums[t, k, u = 1, b](x: f32[t, b], inout s: f32[b], out y: f32[t, b],\n"
    "                   inout ticks: i64 = 0, inout turns: i64 = 0) {\n"
    "    for t {\n"
    "        s = s * 2 + x\n"
    "        y = s + sum[b](s)\n"
    "    }\n"
    "    for k {\n"
    "        for u {\n"
    "            ticks += index(k)\n"
    "        }\n"
    "        turns += 1\n"
    "    }\n"
    "}\n"
    "step cells[t, b, h](x: f32[t, b, h], inout s: f32[b, h], out y: f32[t, b]) {\n"
    "    let scale = max(x)\n"
    "    for t {\n"
    "        s = s * 0.5 + x * scale\n"
    "        y = sum[h](s)\n"
    "    }\n"
    "}\n"
    "step nest[t, u, b](x: f32[t, u, b], inout s: f32[b]) {\n"
    "    for t {\n"
    "        s = s * 2 + 1\n"
    "        for u {\n"
    "            s = s + x\n"
    "        }\n"
    "    }\n"
    "}\n";

static const char list_source[] = "step lists[t, n of t, i](inout p: f32[t, n]) {\n"
                                  "    for i {\n"
                                  "        p = p + 1\n"
                                  "    }\n"
                                  "}\n";

typedef struct Loops {
    ls_context *context;
    ls_program *program;
    ls_step *step;
} Loops;

static Loops open_loops(void) {
    Loops l = {0};
    if (ls_context_create("cpu", NULL, &l.context) != LS_OK) fail_msg("%s", ls_error_message(NULL));
    EXPECT_OK(l.context, ls_program_load_text(l.context, "sums.step", source, sizeof source - 1,
                                              NULL, &l.program));
    EXPECT_OK(l.context, ls_step_create(l.program, "sums", &l.step));
    return l;
}

static void close_loops(Loops *l) {
    ls_step_destroy(l->step);
    ls_program_destroy(l->program);
    ls_context_destroy(l->context);
}

static void bind(Loops *l, const char *name, float *data, uint32_t rank, const int64_t *shape) {
    ls_tensor tensor = tensor_of(data, LS_F32, rank, shape);
    EXPECT_OK(l->context, ls_step_bind(l->step, name, &tensor));
}

static int64_t ticks_of(Loops *l) {
    int64_t ticks;
    EXPECT_OK(l->context, ls_step_get(l->step, "ticks", &ticks));
    return ticks;
}

/* What the step does, in plain C; the sums of integers are exact. */
static void compute(const float *x, float *s, float *y, int64_t t, int64_t b) {
    for (int64_t i = 0; i < t; i++) {
        float sum = 0;
        for (int64_t j = 0; j < b; j++) sum += s[j] = s[j] * 2 + x[i * b + j];
        for (int64_t j = 0; j < b; j++) y[i * b + j] = s[j] + sum;
    }
}

enum { T = 6, B = 5 };
static const int64_t shape[2] = {T, B};

static void lengths(void **state) {
    (void)state;
    float x[T * B] = {1}, s[B] = {0}, y[T * B];
    Loops l = open_loops();
    bind(&l, "x", x, 2, shape);
    bind(&l, "s", s, 1, shape + 1);
    bind(&l, "y", y, 2, shape);
    EXPECT_FAILURE(l.context, LS_ERROR_BIND, ls_step_launch(l.step),
                   "length of axis `k` of step `sums`", "ls_step_set_length");
    EXPECT_FAILURE(l.context, LS_ERROR_ARGUMENT, ls_step_set_length(l.step, "z", 1),
                   "step `sums` has no axis `z`");
    EXPECT_FAILURE(l.context, LS_ERROR_BIND, ls_step_set_length(l.step, "k", -1),
                   "axis `k` of step `sums` cannot have -1 elements");
    EXPECT_FAILURE(l.context, LS_ERROR_ARGUMENT, ls_step_set_length(l.step, NULL, 1),
                   "axis is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_step_set_length(NULL, "k", 1), "step is NULL");
    EXPECT_OK(l.context, ls_step_set_length(l.step, "k", 4));
    EXPECT_OK(l.context, ls_step_set_length(l.step, "t", T + 1));
    EXPECT_FAILURE(l.context, LS_ERROR_BIND, ls_step_launch(l.step), "axis `t` of step `sums` is 6",
                   "7 in `ls_step_set_length`");
    EXPECT_OK(l.context, ls_step_set_length(l.step, "t", T));
    EXPECT_OK(l.context, ls_step_launch(l.step));
    assert_int_equal(ticks_of(&l), 6);
    EXPECT_OK(l.context, ls_step_set_length(l.step, "k", 1000)); /* more launches than before */
    EXPECT_OK(l.context, ls_step_launch(l.step));
    assert_int_equal(ticks_of(&l), 6 + 499500);
    EXPECT_OK(l.context, ls_step_set_length(l.step, "k", 0));
    EXPECT_OK(l.context, ls_step_launch(l.step));
    assert_int_equal(ticks_of(&l), 6 + 499500);
    close_loops(&l);
}

/* A graph keeps the launches of its time; an update gives it those of now. */
static void graphs(void **state) {
    (void)state;
    static _Alignas(16) float x[T * B], s[2][B], y[2][T * B], expected[B], seen[T * B];
    Loops l = open_loops();
    ls_graph *graph;
    ls_step_statistics statistics;
    for (int i = 0; i < T * B; i++) x[i] = (float)(i % 7 - 3);
    bind(&l, "x", x, 2, shape);
    bind(&l, "s", s[0], 1, shape + 1);
    bind(&l, "y", y[0], 2, shape);
    EXPECT_OK(l.context, ls_step_set_length(l.step, "k", 3));
    EXPECT_OK(l.context, ls_step_stats(l.step, &statistics));
    assert_int_equal(statistics.launches, 1 + 6); /* one for all of t, two for each of k */
    EXPECT_OK(l.context, ls_graph_begin(l.context));
    EXPECT_OK(l.context, ls_step_launch(l.step));
    EXPECT_OK(l.context, ls_graph_end(l.context, &graph));
    bind(&l, "s", s[1], 1, shape + 1); /* the graph goes on with the first */
    bind(&l, "y", y[1], 2, shape);
    EXPECT_OK(l.context, ls_graph_repeat(graph, 2));
    EXPECT_OK(l.context, ls_synchronize(l.context));
    for (int i = 0; i < 2; i++) compute(x, expected, seen, T, B);
    assert_memory_equal(s[0], expected, sizeof expected);
    assert_memory_equal(y[0], seen, sizeof seen);
    assert_int_equal(ticks_of(&l), 6);
    EXPECT_OK(l.context, ls_graph_update(graph));
    EXPECT_OK(l.context, ls_graph_launch(graph));
    EXPECT_OK(l.context, ls_synchronize(l.context));
    memset(expected, 0, sizeof expected);
    compute(x, expected, seen, T, B);
    assert_memory_equal(s[1], expected, sizeof expected);
    assert_memory_equal(y[1], seen, sizeof seen);
    EXPECT_OK(l.context, ls_step_set_length(l.step, "k", 5)); /* another number of launches */
    EXPECT_OK(l.context, ls_graph_update(graph));
    EXPECT_OK(l.context, ls_graph_launch(graph));
    EXPECT_OK(l.context, ls_synchronize(l.context));
    assert_int_equal(ticks_of(&l), 6 + 3 + 10);
    ls_graph_destroy(graph);
    close_loops(&l);
}

/* Arrays of other lengths and strides; time stands last in memory. */
static void other_arrays(void **state) {
    (void)state;
    static _Alignas(16) float x[64], turned[64], s[16], y[64], expected[16], seen[64];
    const int64_t forms[][2] = {{4, 3}, {2, 16}, {8, 8}, {1, 1}, {0, 3}};
    Loops l = open_loops();
    EXPECT_OK(l.context, ls_step_set_length(l.step, "k", 2));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const int64_t t = forms[i][0], b = forms[i][1], strides[2] = {1, t};
        for (int64_t k = 0; k < t * b; k++) x[k] = (float)(k % 5 - 2);
        for (int64_t k = 0; k < t; k++)
            for (int64_t j = 0; j < b; j++) turned[j * t + k] = x[k * b + j];
        memset(s, 0, sizeof s);
        memset(expected, 0, sizeof expected);
        ls_tensor tx = tensor_of(turned, LS_F32, 2, forms[i]);
        tx.strides = strides;
        EXPECT_OK(l.context, ls_step_bind(l.step, "x", &tx));
        bind(&l, "s", s, 1, &forms[i][1]);
        bind(&l, "y", y, 2, forms[i]);
        EXPECT_OK(l.context, ls_step_launch(l.step));
        compute(x, expected, seen, t, b);
        assert_memory_equal(s, expected, (size_t)b * sizeof *s);
        assert_memory_equal(y, seen, (size_t)(t * b) * sizeof *y);
    }
    close_loops(&l);
}

/* Every iteration counts in a profile, under the step's name. */
static void profiles(void **state) {
    (void)state;
    float x[T * B] = {1}, s[B] = {0}, y[T * B];
    Loops l = open_loops();
    bind(&l, "x", x, 2, shape);
    bind(&l, "s", s, 1, shape + 1);
    bind(&l, "y", y, 2, shape);
    EXPECT_OK(l.context, ls_step_set_length(l.step, "k", 7));
    EXPECT_OK(l.context, ls_step_prepare(l.step));
    EXPECT_OK(l.context, ls_profile_begin(l.context));
    EXPECT_OK(l.context, ls_step_launch(l.step));
    EXPECT_OK(l.context, ls_profile_end(l.context));
    ls_profile_row entries[16];
    size_t count = ls_profile_rows(l.context, entries, 16), ticks = 0;
    for (size_t i = 0; i < count && i < 16; i++) {
        assert_string_equal(entries[i].step, "sums");
        if (entries[i].kernel && strstr(entries[i].kernel, "sums__2")) ticks += entries[i].count;
    }
    assert_int_equal(ticks, 7);
    close_loops(&l);
}

enum { CELLS_T = 3, CELLS_B = 128, CELLS_H = 40 };

/* From the same state each time, on a program loaded with or without what tune has kept. */
static void run_cells(Loops *l, float *s, float *y) {
    static float x[CELLS_T * CELLS_B * CELLS_H];
    static const int64_t lengths[] = {CELLS_T, CELLS_B, CELLS_H};
    for (int i = 0; i < CELLS_T * CELLS_B * CELLS_H; i++) x[i] = (float)(i % 17) * 0.3f - 2;
    for (int i = 0; i < CELLS_B * CELLS_H; i++) s[i] = (float)(i % 5);
    bind(l, "x", x, 3, lengths);
    bind(l, "s", s, 2, lengths + 1);
    bind(l, "y", y, 2, lengths);
    EXPECT_OK(l->context, ls_step_launch(l->step));
}

static Loops open_cells(void) {
    Loops l = open_loops();
    ls_step_destroy(l.step);
    EXPECT_OK(l.context, ls_step_create(l.program, "cells", &l.step));
    return l;
}

/* Parts are tuned one by one, by number: every variant gives the same bits, one that does not suit
 * is refused, and what is kept for a part is used by the next program. */
static void tunings(void **state) {
    (void)state;
    static _Alignas(16) float s[2][CELLS_B * CELLS_H], y[2][CELLS_T * CELLS_B];
    char folder[] = "/tmp/lockstep-loops-XXXXXX", reason[300], command[100];
    assert_non_null(mkdtemp(folder));
    setenv("LOCKSTEP_CACHE_DIR", folder, 1);
    setenv("LOCKSTEP_THREADS", "2", 1);
    Loops l = open_cells();
    run_cells(&l, s[0], y[0]);
    assert_null(ls_step_part(l.step, 2));
    assert_null(ls_step_part(NULL, 0));
    const ls_image *image = ls_step_image(l.step);
    size_t tried = 0, strips = 0;
    for (uint32_t p = 0; p < image->part_count; p++) {
        const ls_image *own = image->parts[p].image;
        ls_step *part = ls_step_part(l.step, p);
        for (uint32_t v = 0; v < own->variant_count; v++)
            for (uint32_t workers = 1; workers <= 2; workers++) {
                ls_step_statistics statistics;
                EXPECT_OK(l.context,
                          ls_step_tune(part, &(ls_image_tuning){.variant = v, .workers = workers}));
                const ls_status status = ls_step_stats(part, &statistics);
                if (status == LS_ERROR_UNSUPPORTED) continue;
                EXPECT_OK(l.context, status);
                assert_true(statistics.tuned && statistics.parts <= workers);
                assert_string_equal(statistics.variant, own->variants[v].name);
                run_cells(&l, s[1], y[1]);
                assert_memory_equal(s[0], s[1], sizeof *s);
                assert_memory_equal(y[0], y[1], sizeof *y);
                strips += own->variants[v].strips != NULL;
                tried++;
            }
        EXPECT_OK(l.context, ls_step_tune(part, NULL));
    }
    assert_true(tried > 8 && strips >= 2);
    ls_step_statistics usual, tuned;
    EXPECT_OK(l.context, ls_step_stats(ls_step_part(l.step, 1), &usual));
    assert_non_null(strstr(usual.variant, "strips"));
    ls_tuning_record record = {.tuning = {.at_least = usual.work, .at_most = usual.work},
                               .sizes = "t=3",
                               .usual_us = 2,
                               .best_us = 1};
    const ls_image *part = image->parts[1].image;
    while (part->variants[record.tuning.variant].work_limit != UINT64_MAX) record.tuning.variant++;
    snprintf(record.device, sizeof record.device, "%s", ls_context_describe(l.context));
    EXPECT_OK(l.context, ls_tuning_keep(part, &record, reason, sizeof reason));
    close_loops(&l);
    l = open_cells();
    run_cells(&l, s[1], y[1]);
    assert_memory_equal(s[0], s[1], sizeof *s);
    EXPECT_OK(l.context, ls_step_stats(ls_step_part(l.step, 1), &tuned));
    assert_true(tuned.tuned);
    assert_null(strstr(tuned.variant, "strips"));
    EXPECT_OK(l.context, ls_step_stats(ls_step_part(l.step, 0), &tuned));
    assert_false(tuned.tuned);
    close_loops(&l);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void run_nest(Loops *l, int64_t u, float expected) {
    static _Alignas(16) float x[2 * 3 * 4], s[4];
    ls_step_statistics statistics;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 1;
    for (size_t i = 0; i < 4; i++) s[i] = 0;
    bind(l, "x", x, 3, (int64_t[]){2, u, 4});
    bind(l, "s", s, 1, (int64_t[]){4});
    EXPECT_OK(l->context, ls_step_launch(l->step));
    EXPECT_OK(l->context, ls_step_stats(l->step, &statistics));
    assert_int_equal(statistics.launches, 1);
    for (size_t i = 0; i < 4; i++) assert_true(s[i] == expected);
}

/* The part that runs where the inner loop is empty is compiled once it does, and runs then, with
 * other lengths in between, too. */
static void empty_inner_loop(void **state) {
    (void)state;
    ls_step_statistics part;
    setenv("LOCKSTEP_CACHE", "off", 1);
    Loops l = open_loops();
    ls_step_destroy(l.step);
    EXPECT_OK(l.context, ls_step_create(l.program, "nest", &l.step));
    assert_int_equal(ls_step_image(l.step)->part_count, 2);
    run_nest(&l, 3, 12);
    EXPECT_OK(l.context, ls_step_stats(ls_step_part(l.step, 1), &part));
    assert_int_equal(part.launches, 0);
    assert_true(part.compile_ms == 0);
    run_nest(&l, 0, 3);
    EXPECT_OK(l.context, ls_step_stats(ls_step_part(l.step, 1), &part));
    assert_int_equal(part.launches, 1);
    assert_true(part.compile_ms > 0);
    run_nest(&l, 1, 6);
    EXPECT_OK(l.context, ls_step_stats(ls_step_part(l.step, 1), &part));
    assert_int_equal(part.launches, 0);
    run_nest(&l, 0, 3);
    close_loops(&l);
    unsetenv("LOCKSTEP_CACHE");
}

/* The tables of a part are copied to the device once, and counted for the step. */
static void tables_of_parts(void **state) {
    (void)state;
    enum { FIRST = 5, SECOND = 3 };
    float p[FIRST + SECOND] = {0};
    const int64_t lengths[2] = {FIRST, SECOND};
    const ls_tensor tensors[2] = {tensor_of(p, LS_F32, 1, &lengths[0]),
                                  tensor_of(p + FIRST, LS_F32, 1, &lengths[1])};
    ls_step_statistics statistics;
    ls_copy_statistics copies;
    Loops l = {0};
    if (ls_context_create("cpu", NULL, &l.context) != LS_OK) fail_msg("%s", ls_error_message(NULL));
    EXPECT_OK(l.context, ls_program_load_text(l.context, "lists.step", list_source,
                                              sizeof list_source - 1, NULL, &l.program));
    EXPECT_OK(l.context, ls_step_create(l.program, "lists", &l.step));
    EXPECT_OK(l.context, ls_step_bind_list(l.step, "p", tensors, 2));
    EXPECT_OK(l.context, ls_step_set_length(l.step, "i", 4));
    for (int launch = 1; launch <= 2; launch++) {
        EXPECT_OK(l.context, ls_step_launch(l.step));
        EXPECT_OK(l.context, ls_step_stats(l.step, &statistics));
        for (int i = 0; i < FIRST + SECOND; i++) assert_true(p[i] == 4.0f * (float)launch);
        ls_copy_stats(l.context, &copies); /* all are this step's */
        assert_true(copies.to_device > 0);
        assert_memory_equal(&statistics.copies, &copies, sizeof copies);
    }
    close_loops(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),        cmocka_unit_test(graphs),
        cmocka_unit_test(other_arrays),   cmocka_unit_test(profiles),
        cmocka_unit_test(tunings),        cmocka_unit_test(empty_inner_loop),
        cmocka_unit_test(tables_of_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
