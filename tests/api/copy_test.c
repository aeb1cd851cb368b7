/* copy_test.c: copies and fills within the device's memory, of any strides, also in graphs; and
 * what of all copies is counted. On the stand-ins of GPUs' drivers the same. */
#include "fixtures.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, RANK = 5 };

typedef struct Memory {
    Fixture f;
    char *device, *mirror; /* what the device's is to be */
} Memory;

static Memory open_memory(void) {
    Memory m = {.f = open_fixture(&image_cells, 3), .mirror = malloc(BYTES)};
    void *device;
    assert_non_null(m.mirror);
    for (int i = 0; i < BYTES; i++) m.mirror[i] = (char)(i * 31 + i / 251);
    EXPECT_OK(m.f.context, ls_alloc(m.f.context, BYTES, &device));
    EXPECT_OK(m.f.context, ls_copy_in(m.f.context, device, m.mirror, BYTES));
    m.device = device;
    return m;
}

static void expect_mirrored(const Memory *m) {
    static char now[BYTES];
    EXPECT_OK(m->f.context, ls_copy_out(m->f.context, now, m->device, BYTES));
    assert_memory_equal(now, m->mirror, BYTES);
}

static void close_memory(Memory *m) {
    free(m->mirror);
    ls_free(m->f.context, m->device);
    close_fixture(&m->f);
}

/* Element after element, in the mirror. */
static void mirror(const Memory *m, const ls_tensor *to, const ls_tensor *from, const void *value) {
    const size_t size = ls_type_size(to->type);
    int64_t at[RANK] = {0};
    for (;;) {
        int64_t target = 0, source = 0;
        for (uint32_t i = 0; i < to->rank; i++) {
            target += at[i] * to->strides[i];
            if (from) source += at[i] * from->strides[i];
        }
        char *place = m->mirror + ((char *)to->data - m->device) + target * (int64_t)size;
        memcpy(place,
               from ? m->mirror + ((char *)from->data - m->device) + source * (int64_t)size : value,
               size);
        uint32_t axis = to->rank;
        while (axis-- > 0) {
            if (++at[axis] < to->shape[axis]) break;
            at[axis] = 0;
        }
        if (axis == UINT32_MAX) return;
    }
}

static uint32_t random_below(uint32_t limit) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

/* An array in one half of the memory: its axes in any order, with gaps, some of them backwards. */
static ls_tensor make_array(const Memory *m, ls_type type, uint32_t rank, const int64_t *shape,
                            int64_t *strides, int half) {
    uint32_t order[RANK];
    int64_t stride = 1 + (int64_t)random_below(2), offset = 0;
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t place = random_below(i + 1);
        order[i] = order[place];
        order[place] = i;
    }
    if (random_below(3) == 0)
        for (uint32_t i = 0; i < rank; i++) order[i] = rank - 1 - i; /* contiguous, perhaps */
    if (random_below(3) == 0) stride = 1;
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t axis = order[i];
        const bool back = random_below(4) == 0;
        strides[axis] = back ? -stride : stride;
        if (back) offset += stride * (shape[axis] - 1);
        stride = stride * shape[axis] + (random_below(3) == 0);
    }
    return (ls_tensor){m->device + half * (BYTES / 2) + offset * (int64_t)ls_type_size(type), type,
                       rank, shape, strides};
}

static const ls_type types[] = {LS_U8, LS_BF16, LS_F32, LS_F64};

static void make_shape(uint32_t *rank, int64_t *shape) {
    *rank = random_below(RANK);
    for (uint32_t i = 0; i < *rank; i++) shape[i] = 1 + random_below(7);
}

static void strides(void **state) {
    Memory m = open_memory();
    (void)state;
    for (int i = 0; i < 300; i++) {
        int64_t shape[RANK], to_strides[RANK], from_strides[RANK];
        uint32_t rank;
        make_shape(&rank, shape);
        const ls_type type = types[random_below(4)];
        const int half = (int)random_below(2);
        const ls_tensor to = make_array(&m, type, rank, shape, to_strides, half);
        const ls_tensor from = make_array(&m, type, rank, shape, from_strides, 1 - half);
        if (rank && random_below(6) == 0) { /* one row, or column, again and again */
            from_strides[0] = 0;
        }
        EXPECT_OK(m.f.context, ls_copy(m.f.context, &to, &from));
        mirror(&m, &to, &from, NULL);
        const ls_tensor filled = make_array(&m, type, rank, shape, to_strides, half);
        const uint64_t value = 0x0123456789abcdefu * (uint64_t)(i % 3 + 1);
        EXPECT_OK(m.f.context, ls_fill(m.f.context, &filled, &value));
        mirror(&m, &filled, NULL, &value);
        if (i % 10 == 0) expect_mirrored(&m);
    }
    expect_mirrored(&m);
    close_memory(&m);
}

/* Larger than what one thread takes, in one row, in rows and transposed. */
static void large(void **state) {
    enum { ROWS = 1000, COLUMNS = 501, COUNT = ROWS * COLUMNS };
    static const int64_t shape[] = {ROWS, COLUMNS}, across[] = {1, ROWS}, wide[] = {512, 1};
    Fixture f = open_fixture(&image_cells, 3);
    float *host = malloc(COUNT * sizeof *host), *found = malloc(ROWS * 512 * sizeof *found);
    const float seven = 7;
    void *from, *to;
    (void)state;
    for (int i = 0; i < COUNT; i++) host[i] = (float)i;
    EXPECT_OK(f.context, ls_alloc(f.context, COUNT * sizeof *host, &from));
    EXPECT_OK(f.context, ls_alloc(f.context, ROWS * 512 * sizeof *host, &to));
    EXPECT_OK(f.context, ls_copy_in(f.context, from, host, COUNT * sizeof *host));
    const ls_tensor source = {from, LS_F32, 2, shape, NULL}, row = {to, LS_F32, 2, shape, NULL},
                    pitched = {to, LS_F32, 2, shape, wide};
    EXPECT_OK(f.context, ls_copy(f.context, &row, &source));
    EXPECT_OK(f.context, ls_copy_out(f.context, found, to, COUNT * sizeof *host));
    assert_memory_equal(found, host, COUNT * sizeof *host);
    if (ON_CPU) { /* 501,000 single elements are many calls of a driver */
        const ls_tensor transposed = {to, LS_F32, 2, shape, across};
        EXPECT_OK(f.context, ls_copy(f.context, &transposed, &source));
        EXPECT_OK(f.context, ls_copy_out(f.context, found, to, COUNT * sizeof *host));
        for (int i = 0; i < COUNT; i++)
            assert_true(found[i % COLUMNS * ROWS + i / COLUMNS] == host[i]);
    }
    EXPECT_OK(f.context, ls_fill(f.context, &row, &seven));
    EXPECT_OK(f.context, ls_copy(f.context, &pitched, &source));
    EXPECT_OK(f.context, ls_copy_out(f.context, found, to, ROWS * 512 * sizeof *host));
    for (int i = 0; i < COUNT; i++) assert_true(found[i / COLUMNS * 512 + i % COLUMNS] == host[i]);
    assert_true(found[COLUMNS] == 7);
    free(host);
    free(found);
    ls_free(f.context, from);
    ls_free(f.context, to);
    close_fixture(&f);
}

/* In a graph: at each replay, and beside a step whose arrays change. */
static void graphs(void **state) {
    static const int64_t shape[] = {3, 5}, turned[] = {1, 3}, lengths[] = {15};
    Memory m = open_memory();
    ls_context *context = m.f.context;
    ls_graph *graph;
    ls_copy_statistics before, after;
    (void)state;
    const ls_tensor to = {m.device, LS_F32, 2, shape, NULL},
                    from = {m.device + 1024, LS_F32, 2, shape, turned},
                    wide = {m.device + 2048, LS_F64, 1, lengths, NULL};
    const float value = 2;
    const double number = 0.1;
    EXPECT_OK(context, ls_graph_begin(context));
    EXPECT_OK(context, ls_fill(context, &to, &value));
    EXPECT_OK(context, ls_fill(context, &wide, &number));
    EXPECT_OK(context, ls_copy(context, &to, &from));
    EXPECT_OK(context, ls_graph_end(context, &graph));
    expect_mirrored(&m); /* recorded, not run */
    for (uint64_t i = 0; i < 2; i++) {
        const ls_tensor dense = {to.data, LS_F32, 2, shape, (const int64_t[]){5, 1}};
        const ls_tensor line = {wide.data, LS_F64, 1, lengths, (const int64_t[]){1}};
        const float other = (float)i;
        ls_copy_stats(context, &before);
        EXPECT_OK(context, ls_graph_repeat(graph, 3));
        ls_copy_stats(context, &after);
        assert_int_equal(after.within - before.within, 9);
        assert_int_equal(after.within_bytes - before.within_bytes, 3 * (60 + 60 + 120));
        mirror(&m, &dense, &from, NULL);
        mirror(&m, &line, NULL, &number);
        expect_mirrored(&m);
        EXPECT_OK(context, ls_fill(context, &from, &other));
        mirror(&m, &from, NULL, &other);
        EXPECT_OK(context, ls_graph_update(graph)); /* nothing to take over */
    }
    ls_graph_destroy(graph);
    close_memory(&m);
}

static void counts(void **state) {
    static const int64_t shape[] = {100};
    Memory m = open_memory();
    ls_copy_statistics copies;
    ls_step_statistics step;
    int32_t h;
    (void)state;
    ls_copy_stats(m.f.context, &copies);
    assert_int_equal(copies.to_device, 1);
    assert_int_equal(copies.to_device_bytes, BYTES);
    const ls_tensor to = {m.device, LS_U8, 1, shape, NULL},
                    from = {m.device + 200, LS_U8, 1, shape, NULL};
    EXPECT_OK(m.f.context, ls_copy(m.f.context, &to, &from));
    for (int i = 0; i < 7; i++)
        EXPECT_OK(m.f.context, ls_step_set_number(m.f.step, (const char[]){(char)('a' + i), 0}, 1));
    EXPECT_OK(m.f.context, ls_step_set_number(m.f.step, "h", 5));
    EXPECT_OK(m.f.context, ls_step_get(m.f.step, "h", &h));
    assert_int_equal(h, 5);
    ls_copy_stats(m.f.context, &copies);
    assert_int_equal(copies.to_device, 1);
    assert_int_equal(copies.from_device, 1);
    assert_int_equal(copies.from_device_bytes, 4);
    assert_int_equal(copies.within, 1);
    assert_int_equal(copies.within_bytes, 100);
    EXPECT_OK(m.f.context, ls_step_stats(m.f.step, &step));
    assert_int_equal(step.copies.from_device, 1);
    assert_int_equal(step.copies.to_device, 0);
    ls_copy_stats(NULL, &copies);
    assert_int_equal(copies.within, 0);
    close_memory(&m);
}

static void refusals(void **state) {
    static const int64_t shape[] = {4, 4}, other[] = {4, 5}, same[] = {0, 1}, negative[] = {-1, 1};
    Memory m = open_memory();
    ls_context *c = m.f.context;
    (void)state;
    const ls_tensor to = {m.device, LS_F32, 2, shape, NULL};
    ls_tensor from = {m.device + 4096, LS_F32, 2, shape, NULL}, wrong = from;
    const float value = 1;
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_copy(NULL, &to, &from), "context is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy(c, NULL, &from), "ls_copy: to is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_copy(c, &to, NULL), "from is NULL");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_fill(c, &to, NULL), "ls_fill: value is NULL");
    wrong.type = LS_I32;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_copy(c, &to, &wrong), "`to` is f32 and `from` is i32");
    wrong = from;
    wrong.shape = other;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_copy(c, &to, &wrong), "different shapes");
    wrong = from;
    wrong.data = m.device + 8;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_copy(c, &to, &wrong), "share memory");
    wrong = to;
    wrong.strides = same;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_copy(c, &wrong, &from), "elements that share memory");
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_fill(c, &wrong, &value), "elements that share memory");
    wrong = from;
    wrong.data = NULL;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_copy(c, &to, &wrong), "NULL data pointer");
    wrong.shape = negative;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_fill(c, &wrong, &value), "negative length");
    wrong = from;
    wrong.shape = NULL;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_fill(c, &wrong, &value), "no shape");
    wrong.type = (ls_type)77;
    EXPECT_FAILURE(c, LS_ERROR_BIND, ls_fill(c, &wrong, &value), "no element type");
    const ls_tensor empty = {NULL, LS_F32, 2, (const int64_t[]){0, 4}, NULL};
    EXPECT_OK(c, ls_copy(c, &empty, &empty));
    EXPECT_OK(c, ls_fill(c, &empty, &value));
    expect_mirrored(&m);
    close_memory(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides), cmocka_unit_test(large),    cmocka_unit_test(graphs),
        cmocka_unit_test(counts),  cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
