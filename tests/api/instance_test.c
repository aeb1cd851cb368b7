/* instance_test.c: many handles of one step: other arrays, the same values. */
#include "fixtures.h"

#include <string.h>

enum { LAYERS = 20, ROWS = 3, COLUMNS = 7, ELEMENTS = ROWS * COLUMNS };
static _Alignas(16) float p[LAYERS][24], g[LAYERS][24];

static void bind(ls_context *context, ls_step *step, const char *name, float *data) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    const ls_tensor tensor = tensor_of(data, LS_F32, 2, shape);
    EXPECT_OK(context, ls_step_bind(step, name, &tensor));
}

static void fill(void) {
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < ELEMENTS; i++) {
            p[l][i] = (float)(l * 100 + i);
            g[l][i] = (float)l;
        }
}

static void layers(void **state) {
    Fixture f = open_fixture(&image_descend, 2);
    ls_step *steps[LAYERS] = {f.step};
    ls_graph *graph;
    int32_t count;
    (void)state;
    fill();
    bind(f.context, f.step, "p", p[0]);
    bind(f.context, f.step, "g", g[0]);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    for (int l = 1; l < LAYERS; l++) {
        EXPECT_OK(f.context, ls_step_instance(steps[l / 2], &steps[l])); /* of instances too */
        bind(f.context, steps[l], "p", p[l]);
        bind(f.context, steps[l], "g", g[l]);
    }
    EXPECT_OK(f.context, ls_steps_prepare(steps, LAYERS));
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    for (int l = 0; l < LAYERS; l++) EXPECT_OK(f.context, ls_step_launch(steps[l]));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_step_set_number(steps[5], "lr", 2)); /* for all of them */
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < ELEMENTS; i++)
            assert_true(p[l][i] == (float)(l * 100 + i) - 3 * (float)l);
    /* what is written is each one's own */
    EXPECT_OK(f.context, ls_step_launch(steps[3]));
    EXPECT_OK(f.context, ls_step_get(steps[3], "count", &count));
    assert_int_equal(count, 3 + 3);
    EXPECT_OK(f.context, ls_step_get(steps[4], "count", &count));
    assert_int_equal(count, 3 + 2);
    /* other arrays for one of them */
    bind(f.context, steps[7], "p", p[6]);
    EXPECT_OK(f.context, ls_graph_update(graph));
    const float before = p[6][0], other = p[7][0];
    EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_true(p[6][0] == before - 2 * 6 - 2 * 7 && p[7][0] == other);
    /* the step may go before its instances do */
    ls_graph_destroy(graph);
    ls_step_destroy(f.step);
    f.step = NULL;
    EXPECT_OK(f.context, ls_step_set_number(steps[2], "lr", 1));
    EXPECT_OK(f.context, ls_step_launch(steps[1]));
    for (int l = 1; l < LAYERS; l++) ls_step_destroy(steps[l]);
    close_fixture(&f);
}

/* Back to the step's own value, after one of the caller's. */
static void values(void **state) {
    Fixture f = open_fixture(&image_descend, 1);
    ls_step *instance;
    void *memory;
    const float half = 0.5f;
    (void)state;
    fill();
    EXPECT_OK(f.context, ls_alloc(f.context, sizeof half, &memory));
    EXPECT_OK(f.context, ls_copy_in(f.context, memory, &half, sizeof half));
    bind(f.context, f.step, "p", p[1]);
    bind(f.context, f.step, "g", g[1]);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 4));
    EXPECT_OK(f.context, ls_step_instance(f.step, &instance));
    const ls_tensor rate = tensor_of(memory, LS_F32, 0, NULL);
    EXPECT_OK(f.context, ls_step_bind(instance, "lr", &rate));
    EXPECT_OK(f.context, ls_step_launch(instance));
    EXPECT_OK(f.context, ls_step_bind(instance, "lr", NULL));
    EXPECT_OK(f.context, ls_step_launch(instance));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_true(p[1][0] == 100 - 0.5f - 4);
    EXPECT_FAILURE(f.context, LS_ERROR_UNSUPPORTED,
                   ls_step_bind_sum(instance, "g", &(ls_tensor){.type = LS_F32}, 1), "descend");
    ls_step_destroy(instance);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_instance(f.step, NULL),
                   "instance is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_instance(NULL, &instance), "step is NULL");
    assert_null(instance);
    ls_free(f.context, memory);
    EXPECT_OK(f.context, ls_step_instance(f.step, &instance));
    ls_step_destroy(instance);
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_step_instance(f.step, &instance), "ls_graph_end");
    ls_graph *graph;
    assert_int_not_equal(ls_graph_end(f.context, &graph), LS_OK);
    close_fixture(&f);
}

static void lists(void **state) {
    enum { TENSORS = 3 };
    static const int64_t lengths[] = {4, 0, 9};
    static float decays[TENSORS] = {0, 0, 0};
    Fixture f = open_fixture(&image_lists, 2);
    ls_step *instance;
    double totals[2];
    (void)state;
    fill();
    ls_tensor tensors[2][2][TENSORS];
    for (int side = 0; side < 2; side++)
        for (int t = 0; t < TENSORS; t++) {
            tensors[side][0][t] = tensor_of(p[side * 4 + t], LS_F32, 1, &lengths[t]);
            tensors[side][1][t] = tensor_of(g[side * 4 + t], LS_F32, 1, &lengths[t]);
        }
    const int64_t count = TENSORS;
    const ls_tensor decay = tensor_of(decays, LS_F32, 1, &count);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "p", tensors[0][0], TENSORS));
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "g", tensors[0][1], TENSORS));
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &decay));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_OK(f.context, ls_step_instance(f.step, &instance));
    EXPECT_OK(f.context, ls_step_launch(instance)); /* bound as the step is */
    EXPECT_OK(f.context, ls_step_bind_list(instance, "p", tensors[1][0], TENSORS));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_step_launch(instance));
    EXPECT_OK(f.context, ls_step_get(f.step, "total", &totals[0]));
    EXPECT_OK(f.context, ls_step_get(instance, "total", &totals[1]));
    /* 0..3 less 0, and 200..208 less 2 twice; 400..403 and 600..608 less 2 */
    assert_true(totals[0] == 6 + 1836 - 36);
    assert_true(totals[1] == 1606 + 5436 - 18);
    ls_step_destroy(instance);
    close_fixture(&f);
}

/* A value that the step gets after its instances are made, on whichever handle. */
static void later(void **state) {
    Fixture f = open_fixture(&image_descend, 1);
    ls_step *steps[3] = {f.step};
    float rate = 0;
    (void)state;
    fill();
    for (int l = 1; l < 3; l++) EXPECT_OK(f.context, ls_step_instance(f.step, &steps[l]));
    for (int l = 0; l < 3; l++) {
        bind(f.context, steps[l], "p", p[l]);
        bind(f.context, steps[l], "g", g[l]);
    }
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(steps[2]), "`lr` is not bound");
    EXPECT_OK(f.context, ls_step_set_number(steps[1], "lr", 2));
    for (int l = 0; l < 3; l++) EXPECT_OK(f.context, ls_step_launch(steps[l]));
    for (int l = 0; l < 3; l++) {
        EXPECT_OK(f.context, ls_step_get(steps[l], "lr", &rate));
        assert_true(rate == 2 && p[l][0] == (float)(l * 100) - 2 * (float)l);
    }
    for (int l = 1; l < 3; l++) ls_step_destroy(steps[l]);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers),
        cmocka_unit_test(values),
        cmocka_unit_test(lists),
        cmocka_unit_test(later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
