/* flat_test.c: one array where a list is wanted: cut as the other lists say, or its only tensor. */
#include "fixtures.h"

#include <string.h>

enum { TENSORS = 4, ALL = 7 + 0 + 1 + 12 };
static const int64_t lengths[TENSORS] = {7, 0, 1, 12};
static _Alignas(16) float p[ALL], twin[ALL], g[ALL], w[ALL];
static float decays[TENSORS] = {0.5f, 1, 0.25f, 0};

static void fill(void) {
    for (int i = 0; i < ALL; i++) {
        p[i] = twin[i] = (float)(i * 3 - 20);
        g[i] = (float)(i % 5);
    }
}

static void bind_list(Fixture *f, const char *name, float *memory) {
    ls_tensor tensors[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        tensors[t] = tensor_of(memory, LS_F32, 1, &lengths[t]);
        memory += lengths[t];
    }
    EXPECT_OK(f->context, ls_step_bind_list(f->step, name, tensors, TENSORS));
}

static void bind_flat(Fixture *f, const char *name, float *memory, int64_t count) {
    const ls_tensor tensor = tensor_of(memory, LS_F32, 1, &count);
    EXPECT_OK(f->context, ls_step_bind(f->step, name, &tensor));
}

static Fixture open_step(int64_t tensors) {
    Fixture f = open_fixture(&image_lists, 2);
    const ls_tensor decay = tensor_of(decays, LS_F32, 1, &tensors);
    fill();
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &decay));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0.5));
    return f;
}

/* What the step does to the twin. */
static void advance(int64_t tensors) {
    for (int64_t t = 0, i = 0; t < tensors; t++)
        for (int64_t end = i + (tensors == 1 ? ALL : lengths[t]); i < end; i++)
            twin[i] -= 0.5f * (g[i] + decays[t] * twin[i]);
}

static void cut(void **state) {
    Fixture f = open_step(TENSORS);
    ls_tensor outputs[TENSORS];
    ls_graph *graph;
    size_t count;
    (void)state;
    bind_list(&f, "p", p);
    bind_flat(&f, "g", g, ALL);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    advance(TENSORS);
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_memory_equal(p, twin, sizeof p);
    /* the other way round, and what is written */
    bind_flat(&f, "p", p, ALL);
    bind_list(&f, "g", g);
    bind_flat(&f, "w", w, ALL);
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    EXPECT_OK(f.context, ls_step_output_list(f.step, "w", outputs, TENSORS, &count));
    assert_int_equal(count, TENSORS);
    assert_ptr_equal(outputs[3].data, w + 8);
    assert_int_equal(outputs[3].shape[0], 12);
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    EXPECT_OK(f.context, ls_graph_launch(graph));
    advance(TENSORS);
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_memory_equal(p, twin, sizeof p);
    assert_memory_equal(w, twin, sizeof w);
    ls_graph_destroy(graph);
    /* an instance has it too */
    ls_step *instance;
    EXPECT_OK(f.context, ls_step_instance(f.step, &instance));
    EXPECT_OK(f.context, ls_step_launch(instance));
    advance(TENSORS);
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_memory_equal(p, twin, sizeof p);
    ls_step_destroy(instance);
    close_fixture(&f);
}

/* All of them flat: one tensor; and back to lists. */
static void whole(void **state) {
    Fixture f = open_fixture(&image_lists, 2);
    const int64_t one = 1, many = TENSORS;
    ls_tensor decay = tensor_of(decays, LS_F32, 1, &one);
    (void)state;
    fill();
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0.5));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "decay", 0.5)); /* for each tensor */
    bind_flat(&f, "p", p, ALL);
    bind_flat(&f, "g", g, ALL);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    advance(1);
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_memory_equal(p, twin, sizeof p);
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &decay));
    decay.shape = &many;
    EXPECT_OK(f.context, ls_step_bind(f.step, "decay", &decay));
    bind_list(&f, "p", p);
    bind_list(&f, "g", g);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    advance(TENSORS);
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_memory_equal(p, twin, sizeof p);
    close_fixture(&f);
}

static void refusals(void **state) {
    Fixture f = open_step(TENSORS);
    const int64_t shape[] = {4, 5}, gaps[] = {6, 1};
    ls_tensor tensor = {g, LS_F32, 2, shape, gaps};
    (void)state;
    bind_list(&f, "p", p);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "g", &tensor),
                   "the array for `g` of step `lists` is not contiguous");
    tensor.type = LS_I32;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "g", &tensor),
                   "the array for `g` of step `lists` is an i32 array, but the parameter is f32");
    bind_flat(&f, "g", g, ALL - 1);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "the tensors of `g` in step `lists` have 20 elements, but the array that is "
                   "bound for all of them has 19");
    bind_flat(&f, "p", p, ALL); /* four tensors, but of which lengths? */
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "the lengths of axis `n`");
    bind_flat(&f, "g", g, ALL);
    bind_list(&f, "p", g); /* the same memory */
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "`p`");
    bind_list(&f, "p", p);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut),
        cmocka_unit_test(whole),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
