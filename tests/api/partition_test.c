/* partition_test.c: lists cut into runs: where the cuts may be, how even the runs are, and that the
 * pieces of all runs are each element once. */
#include "fixtures.h"

#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 40, RUNS_MAX = 64 };

static uint32_t random_state = 7;
static uint32_t below(uint32_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

typedef struct List {
    size_t count;
    int64_t shapes[TENSORS_MAX][2], units[TENSORS_MAX];
    ls_tensor tensors[TENSORS_MAX];
    int64_t distance[TENSORS_MAX]; /* from one place for a cut to the next */
} List;

static int64_t elements(const List *list, size_t i) {
    return list->shapes[i][0] * list->shapes[i][1];
}

static void draw_list(List *list) {
    static const ls_type types[] = {LS_F32, LS_BF16, LS_U8, LS_F64};
    static const int64_t units[] = {0, 1, 1024, 256, 2048, 384, 768};
    static const int64_t common[] = {0, 1024, 1024, 1024, 2048, 3072, 3072};
    list->count = below(TENSORS_MAX) + 1;
    for (size_t i = 0; i < list->count; i++) {
        list->shapes[i][0] = below(4) == 0 ? below(3) : below(3000);
        list->shapes[i][1] = below(50);
        const uint32_t unit = below(7);
        list->units[i] = units[unit];
        list->distance[i] = unit == 0 ? elements(list, i) : common[unit];
        if (list->distance[i] > elements(list, i)) list->distance[i] = elements(list, i);
        list->tensors[i] = tensor_of(NULL, types[below(4)], 2, list->shapes[i]);
    }
}

static uint64_t bytes_of(const List *list, ls_partition_piece piece) {
    return (uint64_t)piece.count * ls_type_size(list->tensors[piece.tensor].type);
}

static void check_list(const List *list, int runs) {
    ls_cut cuts[RUNS_MAX + 1];
    ls_partition_piece pieces[TENSORS_MAX];
    int64_t seen[TENSORS_MAX] = {0};
    uint64_t all = 0, largest = 0, most = 0;
    EXPECT_OK(NULL, ls_partition(list->tensors, list->count, list->units, runs, cuts));
    for (size_t i = 0; i < list->count; i++) {
        const uint64_t size = ls_type_size(list->tensors[i].type);
        all += (uint64_t)elements(list, i) * size;
        if ((uint64_t)list->distance[i] * size > largest)
            largest = (uint64_t)list->distance[i] * size;
    }
    size_t next = 0;
    for (int run = 0; run < runs; run++) {
        const size_t count = ls_partition_run(list->tensors, list->count, cuts, run, NULL);
        assert_true(count <= list->count);
        assert_int_equal(ls_partition_run(list->tensors, list->count, cuts, run, pieces), count);
        uint64_t bytes = 0;
        for (size_t k = 0; k < count; k++) {
            const size_t tensor = pieces[k].tensor;
            assert_true(tensor >= next && tensor < list->count);
            next = tensor;
            assert_int_equal(pieces[k].first, seen[tensor]);
            if (pieces[k].first) assert_int_equal(pieces[k].first % list->distance[tensor], 0);
            seen[tensor] += pieces[k].count;
            bytes += bytes_of(list, pieces[k]);
        }
        if (bytes > most) most = bytes;
    }
    for (size_t i = 0; i < list->count; i++) assert_int_equal(seen[i], elements(list, i));
    assert_true(most <= all / (uint64_t)runs + 1 + largest);
}

static void random_lists(void **state) {
    static const int runs[] = {1, 2, 3, 4, 7, 8, 16, 64};
    List list;
    (void)state;
    for (int round = 0; round < 400; round++) {
        draw_list(&list);
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) check_list(&list, runs[i]);
    }
}

static void known_cuts(void **state) {
    static const int64_t shapes[3][1] = {{4096}, {1000}, {4096}};
    ls_tensor tensors[3];
    ls_cut cuts[5];
    (void)state;
    for (int i = 0; i < 3; i++) tensors[i] = tensor_of(NULL, LS_F32, 1, shapes[i]);
    EXPECT_OK(NULL, ls_partition(tensors, 3, NULL, 4, cuts)); /* at 2298, 4596 and 6894 of 9192 */
    assert_true(cuts[0].tensor == 0 && cuts[0].element == 0);
    assert_true(cuts[1].tensor == 0 && cuts[1].element == 2048);
    assert_true(cuts[2].tensor == 1 && cuts[2].element == 0);
    assert_true(cuts[3].tensor == 2 && cuts[3].element == 2048);
    assert_true(cuts[4].tensor == 3 && cuts[4].element == 0);
    EXPECT_OK(NULL, ls_partition(NULL, 0, NULL, 2, cuts));
    assert_true(cuts[2].tensor == 0 && ls_partition_run(NULL, 0, cuts, 1, NULL) == 0);
}

static void large_lists(void **state) {
    static const int64_t shape[2] = {1 << 20, 1 << 20};
    ls_tensor tensors[4];
    ls_cut cuts[4];
    (void)state;
    for (int i = 0; i < 4; i++) tensors[i] = tensor_of(NULL, LS_F32, 2, shape);
    EXPECT_OK(NULL, ls_partition(tensors, 4, NULL, 3, cuts));
    assert_int_equal(cuts[1].tensor, 1);
    assert_int_equal(cuts[1].element,
                     ((INT64_C(1) << 42) / 3 - (INT64_C(1) << 40) + 512) / 1024 * 1024);
}

static void wrong_calls(void **state) {
    static const int64_t shape[2] = {INT64_C(1) << 40, INT64_C(1) << 40}, less[1] = {-1};
    static const int64_t units[1] = {-5}, few[1] = {3};
    ls_cut cuts[2];
    ls_tensor tensor = tensor_of(NULL, LS_F32, 2, shape);
    (void)state;
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_partition(&tensor, 1, NULL, 1, cuts), "no memory");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_partition(&tensor, 1, NULL, 0, cuts), "1 run");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_partition(NULL, 1, NULL, 1, cuts), "tensors");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_partition(&tensor, 1, NULL, 1, NULL), "cuts");
    tensor = tensor_of(NULL, LS_F32, 1, less);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_partition(&tensor, 1, NULL, 1, cuts), "no memory");
    tensor = tensor_of(NULL, LS_F32, 1, few);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_partition(&tensor, 1, units, 1, cuts), "below 0");
    tensor.shape = NULL;
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_partition(&tensor, 1, NULL, 1, cuts), "no shape");
    assert_int_equal(ls_partition_run(&tensor, 1, NULL, 0, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lists),
        cmocka_unit_test(known_cuts),
        cmocka_unit_test(large_lists),
        cmocka_unit_test(wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
