/* list_test.c: lists of tensors: what binds, what is refused by which words, and what kernels see
 * of lengths, pointers and tables. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MANY = 100000 };

/* `count` tensors of these lengths in one allocation of the host, each on a 16-byte boundary. */
typedef struct Tensors {
    float *memory;
    ls_tensor *tensors;
    int64_t *lengths;
    size_t count;
} Tensors;

static Tensors make_tensors(const int64_t *lengths, size_t count, float value) {
    Tensors made = {NULL, calloc(count + 1, sizeof(ls_tensor)), calloc(count + 1, sizeof(int64_t)),
                    count};
    size_t total = 0;
    for (size_t i = 0; i < count; i++) total += (size_t)(lengths[i] + 3) / 4 * 4;
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, total * sizeof(float) + 64), 0);
    made.memory = memory;
    for (size_t i = 0; i < total; i++) made.memory[i] = value;
    float *next = made.memory;
    for (size_t i = 0; i < count; i++) {
        made.lengths[i] = lengths[i];
        made.tensors[i] = tensor_of(lengths[i] ? next : NULL, LS_F32, 1, &made.lengths[i]);
        next += (lengths[i] + 3) / 4 * 4;
    }
    return made;
}

static void free_tensors(Tensors *tensors) {
    free(tensors->memory);
    free(tensors->tensors);
    free(tensors->lengths);
}

static void bind_list(Fixture *f, const char *name, const Tensors *tensors) {
    EXPECT_OK(f->context, ls_step_bind_list(f->step, name, tensors->tensors, tensors->count));
}

static float at(const Tensors *tensors, size_t tensor, size_t element) {
    return ((const float *)tensors->tensors[tensor].data)[element];
}

static double total_of(Fixture *f) {
    double total;
    EXPECT_OK(f->context, ls_step_get(f->step, "total", &total));
    return total;
}

/* Lists of any count and lengths give what a loop over their tensors would. */
static void counts_and_lengths(void **state) {
    (void)state;
    static const int64_t few[] = {5, 0, 1, 4, 13}, none[] = {0, 0, 0}, one[] = {1};
    static const struct {
        const int64_t *lengths;
        size_t count;
    } cases[] = {{few, 5}, {none, 3}, {one, 1}, {NULL, 0}, {few, 3}, {few, 5}};
    for (int threads = 1; threads <= 3; threads += 2) {
        Fixture f = open_fixture(&image_lists, threads);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            Tensors p = make_tensors(cases[c].lengths, cases[c].count, 10);
            Tensors g = make_tensors(cases[c].lengths, cases[c].count, 2);
            const float decay[5] = {0, 1, 2, 3, 4};
            int64_t count = (int64_t)p.count;
            ls_tensor d = tensor_of((void *)(uintptr_t)decay, LS_F32, 1, &count);
            bind_list(&f, "p", &p);
            bind_list(&f, "g", &g);
            EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &d));
            EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0.5));
            EXPECT_OK(f.context, ls_step_launch(f.step));
            double expected = 0;
            ls_tensor w[8];
            size_t given;
            EXPECT_OK(f.context, ls_step_output_list(f.step, "w", w, 8, &given));
            EXPECT_OK(f.context, ls_synchronize(f.context));
            assert_int_equal(given, p.count);
            for (size_t i = 0; i < p.count; i++) {
                assert_int_equal(w[i].rank, 1);
                assert_int_equal(w[i].shape[0], p.lengths[i]);
                assert_int_equal((uintptr_t)w[i].data % 16, 0);
                for (int64_t k = 0; k < p.lengths[i]; k++) {
                    float wanted = 10 - 0.5f * (2 + decay[i] * 10);
                    assert_true(at(&p, i, (size_t)k) == wanted);
                    assert_true(((const float *)w[i].data)[k] == wanted);
                    expected += (double)wanted;
                }
            }
            assert_true(total_of(&f) == expected);
            free_tensors(&p);
            free_tensors(&g);
        }
        close_fixture(&f);
    }
}

/* p, g bound with the lengths {3, 4, 9}, decay filled. */
static const int64_t three_lengths[] = {3, 4, 9};
static Fixture open_lists(Tensors *p, Tensors *g) {
    Fixture f = open_fixture(&image_lists, 1);
    *p = make_tensors(three_lengths, 3, 1);
    *g = make_tensors(three_lengths, 3, 1);
    bind_list(&f, "p", p);
    bind_list(&f, "g", g);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    return f;
}

static void close_lists(Fixture *f, Tensors *p, Tensors *g) {
    close_fixture(f);
    free_tensors(p);
    free_tensors(g);
}

static void lengths_disagree(void **state) {
    (void)state;
    Tensors p, g;
    Fixture f = open_lists(&p, &g);
    g.lengths[1] = 3;
    bind_list(&f, "g", &g);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "tensor 1 has 4 elements in `p` and 3 in `g`");
    g.lengths[1] = 4;
    g.count = 2;
    bind_list(&f, "g", &g);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "axis `t` of step `lists` is 3 in `p`, but `g` has 2 tensors");
    g.count = 3;
    bind_list(&f, "g", &g);
    const int64_t four = 4;
    static float decay[4];
    ls_tensor d = tensor_of(decay, LS_F32, 1, &four);
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &d));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "axis `t` of step `lists` is 3 in `p` and 4 in `decay`");
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", NULL)); /* filled again */
    EXPECT_OK(f.context, ls_step_launch(f.step));
    close_lists(&f, &p, &g);
}

static void refused_tensors(void **state) {
    (void)state;
    Tensors p, g;
    Fixture f = open_lists(&p, &g);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    const int64_t shape[2] = {3, 3}, across[2] = {1, 3}, negative = -1;
    const int64_t huge[2] = {INT64_MAX / 2, 4};
    ls_tensor bad[3];
#define REFUSED(field, value, ...)                                                       \
    do {                                                                                 \
        memcpy(bad, g.tensors, sizeof bad);                                              \
        bad[2].field = value;                                                            \
        EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_list(f.step, "g", bad, 3), \
                       "tensor 2 for `g` of step `lists`", __VA_ARGS__);                 \
    } while (0)
    REFUSED(type, LS_BF16, "is a bf16 array, but the parameter is f32[t, n]");
    REFUSED(data, NULL, "NULL data pointer; only an empty one");
    REFUSED(data, (char *)g.tensors[2].data + 1, "not a multiple of the element size");
    REFUSED(shape, &negative, "cannot have -1 elements");
    memcpy(bad, g.tensors, sizeof bad);
    bad[2] = (ls_tensor){g.tensors[2].data, LS_F32, 2, shape, across};
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_list(f.step, "g", bad, 3),
                   "tensor 2 for `g`", "is not contiguous", "bind a contiguous copy");
    bad[2] = tensor_of(g.tensors[2].data, LS_F32, 2, huge);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_list(f.step, "g", bad, 3),
                   "larger than memory");
    bad[2] = tensor_of(g.tensors[2].data, LS_F32, 1, NULL);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_list(f.step, "g", bad, 3),
                   "has no shape");
    bad[2] = tensor_of(g.tensors[2].data, LS_TYPE_COUNT, 1, shape);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_list(f.step, "g", bad, 3),
                   "no element type");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_list(f.step, "lr", bad, 3),
                   "`lr` of step `lists` is f32, not a list of tensors; use ls_step_bind");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_list(f.step, "g", NULL, 3),
                   "tensors is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_output(f.step, "w", bad),
                   "use ls_step_output_list");
    size_t count;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_output_list(f.step, "lr", bad, 3, &count),
                   "use ls_step_output");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_output_list(f.step, "w", bad, 3, NULL),
                   "count is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_output_list(f.step, "w", NULL, 3, &count),
                   "tensors is NULL");
    EXPECT_OK(f.context, ls_step_output_list(f.step, "w", NULL, 0, &count));
    assert_int_equal(count, 3);
    EXPECT_OK(f.context, ls_step_launch(f.step)); /* the earlier binding stayed */
    EXPECT_OK(f.context, ls_step_bind(f.step, "g", NULL));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "parameter `g` is not bound");
    close_lists(&f, &p, &g);
}

/* Any rank counts as its elements; strides may say that it is contiguous. */
static void any_rank(void **state) {
    (void)state;
    Tensors p, g;
    Fixture f = open_lists(&p, &g);
    const int64_t square[2] = {3, 3}, strides[2] = {3, 1}, thin[3] = {1, 3, 1};
    const int64_t odd[3] = {77, 1, -5};
    ls_tensor mixed[3] = {{g.tensors[0].data, LS_F32, 3, thin, odd},
                          g.tensors[1],
                          {g.tensors[2].data, LS_F32, 2, square, strides}};
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", mixed, 3));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    assert_true(total_of(&f) == 0); /* every p was 1, and 1 was taken */
    const int64_t one = 1;
    ls_tensor single = tensor_of(p.memory, LS_F32, 0, NULL),
              same = tensor_of(g.memory, LS_F32, 1, &one);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "p", &single, 1));
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", &same, 1));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    assert_true(total_of(&f) == -1);
    close_lists(&f, &p, &g);
}

static void overlaps(void **state) {
    (void)state;
    Tensors p, g;
    Fixture f = open_lists(&p, &g);
    ls_tensor tied[3];
    memcpy(tied, p.tensors, sizeof tied);
    tied[1].data = (float *)p.tensors[2].data + 4;
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "p", tied, 3));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "tensors 1 and 2 of `p` of step `lists` overlap in memory, and `p` is written",
                   "tied weights once");
    bind_list(&f, "p", &p);
    memcpy(tied, g.tensors, sizeof tied);
    tied[0].data = (float *)p.tensors[2].data + 8; /* its last element, and what follows */
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", tied, 3));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "tensor 2 of `p` and tensor 0 of `g` of step `lists` overlap",
                   "and `p` is written");
    /* What is only read may be read twice, also where one lies inside another. */
    tied[0].data = (float *)g.tensors[2].data + 4;
    tied[1].data = g.tensors[2].data;
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", tied, 3));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    ls_tensor cell = tensor_of((float *)p.tensors[1].data + 3, LS_F32, 0, NULL);
    EXPECT_OK(f.context, ls_step_bind(f.step, "lr", &cell));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "tensor 1 of `p` and `lr` of step `lists` overlap");
    EXPECT_OK(f.context, ls_step_bind(f.step, "lr", NULL));
    /* An array with gaps: its elements lie between the tensors, or in one. */
    const int64_t count = 3, two = 4;
    ls_tensor gaps = {(float *)p.tensors[0].data + 3, LS_F32, 1, &count, &two};
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &gaps)); /* 3, 7 and 11: 7 is in tensor 1 */
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "tensor 1 of `p` and `decay`");
    close_lists(&f, &p, &g);
}

/* Random ranges in a small arena, against comparing each with each. */
static void overlaps_at_random(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_lists, 1);
    static _Alignas(64) float arena[4096];
    enum { TENSORS = 12 };
    int64_t lengths[TENSORS];
    ls_tensor p[TENSORS], g[TENSORS];
    uint32_t seed = 7, accepted = 0;
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0));
    for (int round = 0; round < 3000; round++) {
        size_t range = round % 2 ? 4000 : 1000;
        for (int i = 0; i < TENSORS; i++) {
            seed = seed * 1664525u + 1013904223u;
            lengths[i] = (seed >> 16) % (round % 3 ? 30 : 60);
            seed = seed * 1664525u + 1013904223u;
            p[i] = tensor_of(arena + (seed >> 10) % range, LS_F32, 1, &lengths[i]);
            seed = seed * 1664525u + 1013904223u;
            g[i] = tensor_of(arena + (seed >> 10) % range, LS_F32, 1, &lengths[i]);
        }
        bool disjoint = true;
        for (int i = 0; i < TENSORS; i++)
            for (int k = 0; k < 2 * TENSORS; k++) {
                const ls_tensor *other = k < TENSORS ? &p[k] : &g[k - TENSORS];
                const float *a = p[i].data, *b = other->data;
                if (k == i || !lengths[i] || !other->shape[0]) continue;
                disjoint = disjoint && (a + lengths[i] <= b || b + other->shape[0] <= a);
            }
        EXPECT_OK(f.context, ls_step_bind_list(f.step, "p", p, TENSORS));
        EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", g, TENSORS));
        ls_status status = ls_step_prepare(f.step);
        assert_int_equal(status, disjoint ? LS_OK : LS_ERROR_BIND);
        accepted += disjoint;
    }
    assert_true(accepted > 100 && accepted < 2900);
    close_fixture(&f);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A hundred thousand tensors, most of one element; read ones may all be the same memory. */
static void many(void **state) {
    (void)state;
    static int64_t lengths[MANY];
    for (size_t i = 0; i < MANY; i++) lengths[i] = (int64_t)(i % 7 == 0 ? 0 : (i % 1000 ? 1 : 9));
    Fixture f = open_fixture(&image_lists, 2);
    Tensors p = make_tensors(lengths, MANY, 3), g = make_tensors(lengths, MANY, 1);
    for (size_t i = 0; i < MANY; i++)
        if (lengths[i]) g.tensors[i].data = g.memory;
    double start = seconds();
    bind_list(&f, "p", &p);
    bind_list(&f, "g", &g);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    double took = seconds() - start;
    if (took > 20) fail_msg("binding took %.1f s", took); /* comparing each with each: minutes */
    EXPECT_OK(f.context, ls_step_launch(f.step));
    double elements = 0;
    for (size_t i = 0; i < MANY; i++) elements += (double)lengths[i];
    assert_true(total_of(&f) == 2 * elements);
    ls_step_statistics statistics;
    EXPECT_OK(f.context, ls_step_stats(f.step, &statistics));
    assert_true(statistics.table_bytes >= MANY * 8 * 5);
    start = seconds();
    for (int i = 0; i < 10; i++) { /* the same again: nothing is made anew */
        bind_list(&f, "p", &p);
        bind_list(&f, "g", &g);
        EXPECT_OK(f.context, ls_step_prepare(f.step));
    }
    assert_true(seconds() - start < 10 * took + 0.1);
    free_tensors(&p);
    free_tensors(&g);
    close_fixture(&f);
}

/* A graph keeps the lists it was captured with; a later binding is the step's own. */
static void graphs(void **state) {
    (void)state;
    Tensors p, g, other;
    Fixture f = open_lists(&p, &g);
    ls_graph *graph, *second;
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    static const int64_t longer[] = {30, 2, 0, 7, 100};
    for (int round = 0; round < 3; round++) {
        other = make_tensors(longer, 5, 50);
        Tensors changes = make_tensors(longer, 5, 1);
        bind_list(&f, "p", &other);
        bind_list(&f, "g", &changes);
        EXPECT_OK(f.context, ls_step_launch(f.step));
        assert_true(total_of(&f) == 49.0 * 139);
        EXPECT_OK(f.context, ls_graph_launch(graph));
        assert_true(total_of(&f) == 16.0 * -round);
        assert_true(at(&p, 2, 8) == (float)-round);
        assert_true(at(&other, 4, 99) == 49);
        if (round == 1) { /* a second graph on the new lists */
            EXPECT_OK(f.context, ls_graph_begin(f.context));
            EXPECT_OK(f.context, ls_step_launch(f.step));
            EXPECT_OK(f.context, ls_graph_end(f.context, &second));
            EXPECT_OK(f.context, ls_graph_launch(second));
            assert_true(total_of(&f) == 48.0 * 139);
            ls_graph_destroy(second);
        }
        free_tensors(&other);
        free_tensors(&changes);
    }
    ls_memory_statistics before, after;
    ls_memory_stats(f.context, &before);
    for (int i = 0; i < 50; i++) { /* new addresses each time, as a trainer's gradients have */
        bind_list(&f, "p", &p);
        bind_list(&f, i % 2 ? "g" : "w", &g);
        if (i % 2 == 0) EXPECT_OK(f.context, ls_step_bind(f.step, "g", NULL));
        other = make_tensors(three_lengths, 3, 1);
        if (i % 2 == 0) bind_list(&f, "g", &other);
        if (i % 2) EXPECT_OK(f.context, ls_step_bind(f.step, "w", NULL));
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_step_bind(f.step, "w", NULL));
        EXPECT_OK(f.context, ls_step_bind(f.step, "g", NULL));
        free_tensors(&other);
        if (i == 5) ls_memory_stats(f.context, &before);
    }
    ls_memory_stats(f.context, &after);
    assert_int_equal(before.allocations, after.allocations); /* rebinding does not pile up */
    ls_graph_destroy(graph);
    close_lists(&f, &p, &g);
}

static void unaligned(void **state) {
    (void)state;
    Tensors p, g;
    Fixture f = open_lists(&p, &g);
    ls_step_statistics statistics;
    EXPECT_OK(f.context, ls_step_stats(f.step, &statistics));
    assert_string_equal(statistics.variant, "tiles, dense");
    ls_tensor shifted[3];
    memcpy(shifted, g.tensors, sizeof shifted);
    shifted[0].data = (float *)g.tensors[0].data + 1;
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", shifted, 3));
    EXPECT_OK(f.context, ls_step_stats(f.step, &statistics));
    assert_string_equal(statistics.variant, "tiles, strided");
    EXPECT_OK(f.context, ls_step_launch(f.step));
    assert_true(total_of(&f) == 0);
    close_lists(&f, &p, &g);
}

/* A number given for an array over the list: before and after the count is known. */
static void filled(void **state) {
    (void)state;
    Tensors p, g;
    Fixture f = open_lists(&p, &g);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0.5));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 4));
    EXPECT_OK(f.context, ls_step_launch(f.step)); /* 1 - 0.5 * (1 + 4) = -1.5 */
    assert_true(total_of(&f) == -1.5 * 16);
    const float two = 2;
    EXPECT_OK(f.context, ls_step_set(f.step, "decay", &two));
    EXPECT_OK(f.context, ls_step_launch(f.step)); /* -1.5 - 0.5 * (1 - 3) = -0.5 */
    assert_true(total_of(&f) == -0.5 * 16);
    static const int64_t longer[] = {1, 1, 1, 1, 1, 1};
    Tensors more = make_tensors(longer, 6, 1), changes = make_tensors(longer, 6, 1);
    bind_list(&f, "p", &more);
    bind_list(&f, "g", &changes);
    EXPECT_OK(f.context, ls_step_launch(f.step)); /* 1 - 0.5 * (1 + 2) */
    assert_true(total_of(&f) == -0.5 * 6);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_set_number(f.step, "p", 1),
                   "`p` of step `lists` is f32[t, n], not a rank-0 value");
    float value;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_get(f.step, "decay", &value),
                   "not a rank-0 value");
    free_tensors(&more);
    free_tensors(&changes);
    close_lists(&f, &p, &g);
}

/* ---- image_shapes ---- */

enum { T, R, C, V, N, Q, K, H, W, B, D, E, PARAMETERS };
static const int64_t *lengths_at(int axis) {
    return (const int64_t *)(uintptr_t)shapes_words[axis];
}

static _Alignas(64) float shapes_memory[4096];
/* matrix: 2 x 3, 0 x 5, 1 x 1; packed: 3 blocks; half: 5; tiles: 2, 0 and 1 blocks of 2. */
static Fixture open_shapes(void) {
    static const int64_t matrices[3][2] = {{2, 3}, {0, 5}, {1, 1}};
    static const int64_t tiles[3][2] = {{2, 2}, {0, 2}, {1, 2}}, packed[2] = {3, 4}, five = 5;
    Fixture f = open_fixture(&image_shapes, 1);
    ls_tensor list[3], array = tensor_of(shapes_memory, LS_F32, 2, packed);
    for (int i = 0; i < 3; i++) list[i] = tensor_of(shapes_memory, LS_F32, 2, matrices[i]);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "matrix", list, 3));
    for (int i = 0; i < 3; i++) list[i] = tensor_of(shapes_memory, LS_F32, 2, tiles[i]);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "tiles", list, 3));
    EXPECT_OK(f.context, ls_step_bind(f.step, "packed", &array));
    array = tensor_of(shapes_memory, LS_F32, 1, &five);
    EXPECT_OK(f.context, ls_step_bind(f.step, "half", &array));
    return f;
}

static void lengths_that_follow(void **state) {
    (void)state;
    Fixture f = open_shapes();
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    static const int64_t expected[][3] = {
        [R] = {2, 0, 1}, [C] = {3, 5, 1}, [V] = {6, 0, 1}, [B] = {4, 0, 2}, [D] = {2, 0, 1}};
    static const int ragged[] = {R, C, V, B, D};
    for (size_t i = 0; i < sizeof ragged / sizeof *ragged; i++)
        assert_memory_equal(lengths_at(ragged[i]), expected[ragged[i]], sizeof expected[0]);
    static const struct {
        int axis;
        uint64_t length;
    } plain[] = {{T, 3}, {N, 12}, {Q, 3}, {K, 4}, {H, 5}, {W, 11}, {E, 2}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_int_equal(shapes_words[plain[i].axis], plain[i].length);
    ls_tensor rows[3];
    size_t count;
    EXPECT_OK(f.context, ls_step_output_list(f.step, "rows", rows, 3, &count));
    assert_int_equal(rows[0].shape[0], 2);
    assert_int_equal(rows[0].shape[1], 5);
    assert_int_equal(rows[1].shape[0], 0);
    /* An array over n says where the last block ends. */
    static float x[10];
    const int64_t ten = 10;
    ls_tensor array = tensor_of(x, LS_F32, 1, &ten);
    EXPECT_OK(f.context, ls_step_bind(f.step, "x", &array));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(shapes_words[N], 10);
    assert_int_equal(shapes_words[Q], 3);
    static const int64_t short_lengths[3] = {3, 0, 1};
    ls_tensor blocked[3];
    static float y[3][4];
    for (int i = 0; i < 3; i++) blocked[i] = tensor_of(y[i], LS_F32, 1, &short_lengths[i]);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "blocked", blocked, 3));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_memory_equal(lengths_at(B), short_lengths, sizeof short_lengths);
    assert_memory_equal(lengths_at(D), expected[D], sizeof expected[D]);
    /* The words of draws come last. */
    uint64_t *shard = shapes_words + image_shapes.axis_count + image_shapes.parameter_count;
    assert_int_equal(shard[0], 0);
    EXPECT_OK(f.context, ls_step_shard(f.step, 7, 1LL << 40));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(shard[0], 7);
    assert_int_equal(shard[1], 1LL << 40);
    ls_graph *graph; /* the last word alone changes */
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    EXPECT_OK(f.context, ls_step_shard(f.step, 7, 5));
    EXPECT_OK(f.context, ls_graph_update(graph));
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(shard[0], 7);
    assert_int_equal(shard[1], 5);
    ls_step *instance; /* with the place of what it is made of */
    shard[0] = shard[1] = 0;
    EXPECT_OK(f.context, ls_step_instance(f.step, &instance));
    EXPECT_OK(f.context, ls_step_launch(instance));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(shard[0], 7);
    assert_int_equal(shard[1], 5);
    ls_step_destroy(instance);
    ls_graph_destroy(graph);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_shard(f.step, -1, 0),
                   "the first tensor is -1");
    close_fixture(&f);
}

/* Tensors anywhere in one piece of memory, within and across each other: refused when one that is
 * written overlaps another, however the others that are read lie. */
static void overlaps_of_many(void **state) {
    (void)state;
    enum { TENSORS = 4, ROOM = 900, TRIALS = 3000 };
    static _Alignas(64) float memory[ROOM];
    Fixture f = open_fixture(&image_lists, 1);
    uint32_t dice = 1;
    int refused = 0;
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    for (int trial = 0; trial < TRIALS; trial++) {
        ls_tensor p[TENSORS], g[TENSORS];
        int64_t lengths[TENSORS], from[2][TENSORS];
        bool expected = false;
        for (int i = 0; i < TENSORS; i++) {
            lengths[i] = (dice = dice * 1664525u + 1013904223u) >> 24 & 1 ? 300 : 4;
            for (int k = 0; k < 2; k++)
                from[k][i] =
                    (dice = dice * 1664525u + 1013904223u) % (uint32_t)(ROOM - 300) / 4 * 4;
            p[i] = tensor_of(memory + from[0][i], LS_F32, 1, &lengths[i]);
            g[i] = tensor_of(memory + from[1][i], LS_F32, 1, &lengths[i]);
        }
        for (int i = 0; i < TENSORS; i++) /* of p, with all other */
            for (int k = 0; k < 2 * TENSORS; k++) {
                const int64_t first = from[k / TENSORS][k % TENSORS], length = lengths[k % TENSORS];
                expected |=
                    i != k && first < from[0][i] + lengths[i] && from[0][i] < first + length;
            }
        EXPECT_OK(f.context, ls_step_bind_list(f.step, "p", p, TENSORS));
        EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", g, TENSORS));
        assert_int_equal(ls_step_prepare(f.step), expected ? LS_ERROR_BIND : LS_OK);
        refused += expected;
    }
    assert_true(refused > TRIALS / 4 && refused < TRIALS - TRIALS / 50);
    close_fixture(&f);
}

/* An expression is solved for the axis that nothing else gives, where one length does. */
static void lengths_backwards(void **state) {
    (void)state;
    static float memory[256];
    static const struct {
        int64_t gates, h;
    } cases[] = {{1, 0}, {3, 1}, {201, 100}, {2, -1}, {0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_image image = image_shapes;
        ls_image_parameter parameters[16];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < image.parameter_count; k++) /* without the one over h alone */
            if (strcmp(image.parameters[k].name, "half") != 0)
                parameters[kept++] = image.parameters[k];
        image.parameters = parameters;
        image.parameter_count = kept;
        Fixture f = open_fixture(&image, 1);
        static const int64_t matrix[2] = {2, 3}, tiles[2] = {2, 2}, packed[2] = {3, 4};
        ls_tensor tensor = tensor_of(memory, LS_F32, 2, matrix);
        EXPECT_OK(f.context, ls_step_bind_list(f.step, "matrix", &tensor, 1));
        tensor = tensor_of(memory, LS_F32, 2, tiles);
        EXPECT_OK(f.context, ls_step_bind_list(f.step, "tiles", &tensor, 1));
        tensor = tensor_of(memory, LS_F32, 2, packed);
        EXPECT_OK(f.context, ls_step_bind(f.step, "packed", &tensor));
        tensor = tensor_of(memory + 32, LS_F32, 1, &cases[i].gates);
        EXPECT_OK(f.context, ls_step_bind(f.step, "gates", &tensor));
        if (cases[i].h >= 0) {
            EXPECT_OK(f.context, ls_step_launch(f.step));
            EXPECT_OK(f.context, ls_synchronize(f.context));
            assert_int_equal(shapes_words[H], cases[i].h);
        } else {
            EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                           "is (2 * h) + 1, and no one length of `h` makes that");
        }
        close_fixture(&f);
    }
}

static void lengths_that_do_not_follow(void **state) {
    (void)state;
    static float memory[64];
    Fixture f = open_shapes();
    const int64_t nine = 9, ten = 10, four = 4;
    ls_tensor array = tensor_of(memory, LS_F32, 1, &ten);
    EXPECT_OK(f.context, ls_step_bind(f.step, "gates", &array));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "axis `w` of step `shapes` is (2 * h) + 1 = 11, but it is 10 in `gates`");
    EXPECT_OK(f.context, ls_step_bind(f.step, "gates", NULL));
    array = tensor_of(memory, LS_F32, 1, &four);
    EXPECT_OK(f.context, ls_step_bind(f.step, "scale", &array));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "axis `q`", "in `packed`",
                   "4 in `scale`");
    EXPECT_OK(f.context, ls_step_bind(f.step, "scale", NULL));
    array = tensor_of(memory, LS_F32, 1, &four);
    EXPECT_OK(f.context, ls_step_bind(f.step, "x", &array));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "axis `n` of step `shapes` has 4 elements in `x`, which is 1 block of 4, but "
                   "axis `q` is 3 in `packed`");
    EXPECT_OK(f.context, ls_step_bind(f.step, "x", NULL));
    static const int64_t flat[3] = {6, 0, 2};
    ls_tensor list[3];
    for (int i = 0; i < 3; i++) list[i] = tensor_of(memory + 8 * i, LS_F32, 1, &flat[i]);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "flat", list, 3));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "axis `v` of tensor 2 of step `shapes` is r * c = 1, but it is 2 in `flat`");
    EXPECT_OK(f.context, ls_step_bind(f.step, "flat", NULL));
    for (int i = 0; i < 3; i++) list[i] = tensor_of(memory + 8 * i, LS_F32, 1, &nine);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_list(f.step, "matrix", list, 3),
                   "tensor 0 for `matrix`", "has rank 1, but the parameter is f32[t, r, c]",
                   "tensors have rank 2");
    static const int64_t wrong[2] = {1, 3}, rows[2] = {2, 6};
    array = tensor_of(memory, LS_F32, 2, wrong);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "packed", &array),
                   "axis `k` of step `shapes` is fixed at 4, but it is 3");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_list(f.step, "tiles", &array, 1),
                   "has 3 elements along axis `e`", "2");
    for (int i = 0; i < 3; i++) list[i] = tensor_of(memory + 16 * i, LS_F32, 2, rows);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "rows", list, 3));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "axis `r` of step `shapes` is 0 in tensor 1 of `matrix` and 2 in tensor 1 of "
                   "`rows`");
    EXPECT_OK(f.context, ls_step_bind(f.step, "rows", NULL));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    close_fixture(&f);
}

/* A variant for lists of which a tensor has so many elements, and none more. */
static void conditions_of_tensors(void **state) {
    (void)state;
    CPU_ONLY();
    static const struct {
        int64_t lengths[3];
        const char *variant;
    } cases[] = {{{0, 0, 0}, "tiles, strided"},
                 {{0, 1, 0}, "tiles, dense"},
                 {{7, 7, 6}, "tiles, dense"},
                 {{1, 2, 8}, "tiles, strided"}};
    const ls_image_condition largest = {{1, 1, {{2, 0, 1, 0}}, 1}, 1, 1, 7, 0};
    ls_image image = image_lists;
    ls_image_variant variants[2] = {image_lists.variants[0], image_lists.variants[1]};
    variants[0].condition_count = 1;
    variants[0].conditions = &largest;
    image.variants = variants;
    Fixture f = open_fixture(&image, 1);
    static _Alignas(64) const float decay[3];
    const int64_t count = 3;
    const ls_tensor d = tensor_of((void *)(uintptr_t)decay, LS_F32, 1, &count);
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &d));
    EXPECT_OK(f.context, ls_step_bind(f.step, "w", NULL));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_step_statistics statistics;
        Tensors p = make_tensors(cases[i].lengths, 3, 1), g = make_tensors(cases[i].lengths, 3, 1);
        bind_list(&f, "p", &p);
        bind_list(&f, "g", &g);
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_step_stats(f.step, &statistics));
        assert_string_equal(statistics.variant, cases[i].variant);
        free_tensors(&p);
        free_tensors(&g);
    }
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_lengths),
        cmocka_unit_test(lengths_disagree),
        cmocka_unit_test(refused_tensors),
        cmocka_unit_test(any_rank),
        cmocka_unit_test(overlaps),
        cmocka_unit_test(overlaps_at_random),
        cmocka_unit_test(many),
        cmocka_unit_test(graphs),
        cmocka_unit_test(unaligned),
        cmocka_unit_test(filled),
        cmocka_unit_test(lengths_that_follow),
        cmocka_unit_test(overlaps_of_many),
        cmocka_unit_test(lengths_backwards),
        cmocka_unit_test(lengths_that_do_not_follow),
        cmocka_unit_test(conditions_of_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
