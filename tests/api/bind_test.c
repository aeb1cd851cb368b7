/* bind_test.c: what a step refuses, by which words, and what it accepts. */
#include "fixtures.h"

#include <stdlib.h>
#include <string.h>

static _Alignas(64) float p[64], g[64], w[64];
static const int64_t shape[2] = {4, 8};

static void bind(Fixture *f, const char *name, const ls_tensor *tensor) {
    EXPECT_OK(f->context, ls_step_bind(f->step, name, tensor));
}

/* Everything bound as it should be. */
static Fixture open_bound(void) {
    Fixture f = open_fixture(&image_descend, 1);
    ls_tensor tp = tensor_of(p, LS_F32, 2, shape), tg = tensor_of(g, LS_F32, 2, shape);
    ls_tensor tw = tensor_of(w, LS_F32, 2, shape);
    bind(&f, "p", &tp);
    bind(&f, "g", &tg);
    bind(&f, "w", &tw);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0.5));
    return f;
}

static void names(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 1);
    ls_tensor tensor = tensor_of(p, LS_F32, 2, shape);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind(f.step, "conut", &tensor),
                   "step `descend` has no parameter `conut`", "did you mean `count`?");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind(f.step, "momentum", &tensor),
                   "no parameter `momentum`", "it has `p`, `g`, `w`, `count`, `lr`, `total`");
    char endless[5000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = 0;
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind(f.step, endless, &tensor),
                   "xxx`; it has");
    ls_step *step;
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_create(f.program, "ascend", &step),
                   "no step `ascend`", "`descend`");
    assert_null(step);
    close_fixture(&f);
}

static void types_and_ranks(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 1);
    ls_tensor half = tensor_of(p, LS_F16, 2, shape), flat = tensor_of(p, LS_F32, 1, shape);
    EXPECT_FAILURE(
        f.context, LS_ERROR_BIND, ls_step_bind(f.step, "p", &half),
        "parameter `p` of step `descend` is f32[r, n], but an f16 array of rank 2 was bound");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "p", &flat),
                   "is f32[r, n], but an f32 array of rank 1 was bound");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "lr", &flat),
                   "parameter `lr` of step `descend` is f32, but an f32 array of rank 1 was bound");
    ls_tensor wrong = tensor_of(p, LS_TYPE_COUNT, 2, shape),
              formless = tensor_of(p, LS_F32, 2, NULL);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind(f.step, "p", &wrong),
                   "no element type");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind(f.step, "p", &formless), "no shape");
    close_fixture(&f);
}

static void lengths(void **state) {
    (void)state;
    Fixture f = open_bound();
    const int64_t longer[2] = {4, 9}, negative[2] = {4, -1}, giant[2] = {INT64_MAX, 2};
    ls_tensor tensor = tensor_of(g, LS_F32, 2, longer);
    bind(&f, "g", &tensor);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "axis `n` of step `descend` is 8 in `p` and 9 in `g`");
    tensor = tensor_of(g, LS_F32, 2, negative);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "g", &tensor), "axis `n` of `g`",
                   "cannot have -1 elements");
    tensor = tensor_of(g, LS_F32, 2, giant);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "g", &tensor),
                   "larger than memory");
    close_fixture(&f);

    f = open_fixture(&image_fixed, 1);
    double x[20] = {0};
    const int64_t five[2] = {5, 4};
    tensor = tensor_of(x, LS_F64, 2, five);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "x", &tensor),
                   "axis `k` of step `fixed` is fixed at 4, but it is 5 in `x`");
    close_fixture(&f);

    ls_image empty = image_fixed;
    ls_image_axis axes[2];
    assert_true(empty.axis_count <= 2);
    memcpy(axes, empty.axes, empty.axis_count * sizeof *axes);
    for (uint32_t i = 0; i < empty.axis_count; i++)
        if (axes[i].fixed >= 0) axes[i].fixed = 0;
    empty.axes = axes;
    f = open_fixture(&empty, 1);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "x", &tensor),
                   "axis `k` of step `fixed` is fixed at 0, but it is 5 in `x`");
    close_fixture(&f);
}

static void missing(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 1);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "step `descend` cannot run: parameters `p`, `g` and `lr` are not bound");
    ls_tensor tensor = tensor_of(p, LS_F32, 2, shape);
    bind(&f, "p", &tensor);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_prepare(f.step), "parameter `g` is not bound");
    tensor.data = g;
    bind(&f, "g", &tensor);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    bind(&f, "p", NULL); /* taken back */
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "parameter `p` is not bound");
    close_fixture(&f);
}

static void memory_of_arrays(void **state) {
    (void)state;
    Fixture f = open_bound();
    ls_tensor tensor = tensor_of(NULL, LS_F32, 2, shape);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "p", &tensor), "`p`", "NULL",
                   "only an empty array");
    tensor.data = (char *)p + 2;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "p", &tensor),
                   "not a multiple of the element size, 4");
    const int64_t broadcast[2] = {0, 1}, far[2] = {INT64_MAX / 8, 1}, folded[2] = {7, 1};
    tensor.data = p;
    tensor.strides = broadcast;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "p", &tensor), "`p`",
                   "strides (0, 1)", "share memory");
    tensor.strides = folded;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "w", &tensor), "strides (7, 1)");
    tensor.strides = far;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind(f.step, "p", &tensor),
                   "larger than memory");
    tensor.strides = broadcast;
    bind(&f, "g", &tensor); /* only read: fine in itself, but it lies in p */
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step),
                   "`p` and `g` of step `descend` overlap in memory, and `p` is written");
    tensor.data = g;
    bind(&f, "g", &tensor);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    close_fixture(&f);
}

static void overlaps(void **state) {
    (void)state;
    Fixture f = open_bound();
    ls_tensor tensor = tensor_of(p + 28, LS_F32, 2, shape); /* its first four are p's last four */
    bind(&f, "w", &tensor);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "`p` and `w`", "overlap");
    tensor.data = p + 32;
    bind(&f, "w", &tensor);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    /* Two halves of the columns of one matrix, interleaved but apart. */
    const int64_t half[2] = {4, 4}, strides[2] = {8, 1}, step_two[2] = {16, 2};
    ls_tensor left = {p, LS_F32, 2, half, strides}, right = {p + 4, LS_F32, 2, half, strides};
    ls_tensor other = tensor_of(w, LS_F32, 2, half);
    bind(&f, "p", &left);
    bind(&f, "g", &right);
    bind(&f, "w", &other);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    right.data = p + 3;
    bind(&f, "g", &right);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "overlap");
    /* Even and odd elements. */
    left.strides = right.strides = step_two;
    right.data = p + 1;
    bind(&f, "p", &left);
    bind(&f, "g", &right);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    /* A cell inside a written array. */
    ls_tensor cell = tensor_of(p, LS_F32, 0, NULL);
    bind(&f, "lr", &cell);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "`p` and `lr`", "overlap");
    close_fixture(&f);
}

/* Walks every address of both arrays and compares with what the step thinks. */
static bool truly_disjoint(const ls_tensor *a, const ls_tensor *b) {
    for (int64_t i = 0; i < a->shape[0] * a->shape[1]; i++)
        for (int64_t k = 0; k < b->shape[0] * b->shape[1]; k++) {
            int64_t x = i / a->shape[1] * a->strides[0] + i % a->shape[1] * a->strides[1];
            int64_t y = k / b->shape[1] * b->strides[0] + k % b->shape[1] * b->strides[1];
            if ((float *)a->data + x == (float *)b->data + y) return false;
        }
    return true;
}

/* Random pairs: an overlap is never missed. */
static void overlaps_at_random(void **state) {
    (void)state;
    Fixture f = open_bound();
    static float arena[512];
    uint32_t seed = 1, accepted = 0;
    for (int round = 0; round < 20000; round++) {
        int64_t lengths_[2], strides[2][2], offset[2];
        for (int i = 0; i < 2; i++) {
            seed = seed * 1664525u + 1013904223u;
            lengths_[i] = 1 + (seed >> 16) % 4;
        }
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < 2; k++) {
                seed = seed * 1664525u + 1013904223u;
                strides[i][k] = (int64_t)((seed >> 16) % 25) - 12;
            }
            seed = seed * 1664525u + 1013904223u;
            offset[i] = 200 + (int64_t)((seed >> 16) % 24);
        }
        ls_tensor a = {arena + offset[0], LS_F32, 2, lengths_, strides[0]};
        ls_tensor b = {arena + offset[1], LS_F32, 2, lengths_, strides[1]};
        ls_tensor c = tensor_of(w, LS_F32, 2, lengths_);
        if (ls_step_bind(f.step, "p", &a) != LS_OK) continue;
        bind(&f, "g", &b);
        bind(&f, "w", &c);
        bool allowed = ls_step_prepare(f.step) == LS_OK;
        if (allowed && !truly_disjoint(&a, &b))
            fail_msg("an overlap was missed in round %d", round);
        accepted += allowed;
    }
    assert_true(accepted > 1000);
    close_fixture(&f);
}

static void lengths_unknown(void **state) {
    (void)state;
    static const uint8_t axes[] = {0};
    static const ls_image_axis axis[] = {{.name = "n", .fixed = -1}};
    static const ls_image_parameter parameter[] = {{"y", LS_OUT, LS_F32, 1, axes, 0, 0, 1, 0}};
    ls_image image = image_descend;
    image.axis_count = 1;
    image.axes = axis;
    image.parameter_count = 1;
    image.parameters = parameter;
    Fixture f = open_fixture(&image, 1);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_prepare(f.step),
                   "gives the length of axis `n`");
    close_fixture(&f);
}

static void no_variant(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend_dense_only, 1);
    const int64_t strides[2] = {1, 4};
    ls_tensor tp = tensor_of(p, LS_F32, 2, shape), tg = {g, LS_F32, 2, shape, strides};
    bind(&f, "p", &tp);
    bind(&f, "g", &tg);
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 1));
    EXPECT_FAILURE(f.context, LS_ERROR_UNSUPPORTED, ls_step_launch(f.step),
                   "contiguous arrays on 16-byte boundaries", "`g` is not one");
    close_fixture(&f);
}

static void outputs(void **state) {
    (void)state;
    Fixture f = open_bound();
    ls_tensor tensor;
    bind(&f, "w", NULL);
    for (int i = 0; i < 64; i++) p[i] = (float)i, g[i] = 2;
    EXPECT_OK(f.context, ls_step_want(f.step, "w"));
    EXPECT_OK(f.context, ls_step_output(f.step, "w", &tensor));
    assert_int_equal(tensor.rank, 2);
    assert_int_equal(tensor.shape[0], 4);
    assert_int_equal(tensor.shape[1], 8);
    assert_int_equal(tensor.strides[0], 8);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    float result[32];
    EXPECT_OK(f.context, ls_copy_out(f.context, result, tensor.data, sizeof result));
    for (int i = 0; i < 32; i++) assert_true(result[i] == (float)i - 1);
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_want(f.step, "p"), "`p`", "not an `out`");
    close_fixture(&f);
}

/* Kernels that can do without an out get NULL until it is bound or asked for. */
static void optional_outputs(void **state) {
    (void)state;
    ls_image image = image_shapes;
    ls_image_parameter parameters[16];
    memcpy(parameters, image.parameters, image.parameter_count * sizeof *parameters);
    image.parameters = parameters;
    uint32_t x = 0, most = 0;
    for (uint32_t i = 0; i < image.parameter_count; i++) {
        parameters[i].optional = parameters[i].role == LS_OUT;
        if (strcmp(parameters[i].name, "x") == 0) x = image.axis_count + i;
        if (strcmp(parameters[i].name, "most") == 0) most = image.axis_count + i;
    }
    Fixture f = open_fixture(&image, 1);
    static const int64_t matrices[2] = {2, 3}, tiles[2] = {2, 2}, packed[2] = {3, 4}, five = 5;
    ls_tensor tensor = tensor_of(p, LS_F32, 2, matrices);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "matrix", &tensor, 1));
    tensor = tensor_of(p, LS_F32, 2, tiles);
    EXPECT_OK(f.context, ls_step_bind_list(f.step, "tiles", &tensor, 1));
    tensor = tensor_of(p, LS_F32, 2, packed);
    bind(&f, "packed", &tensor);
    tensor = tensor_of(p, LS_F32, 1, &five);
    bind(&f, "half", &tensor);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_equal(shapes_words[x], 0);
    assert_int_equal(shapes_words[most], 0);
    EXPECT_OK(f.context, ls_step_want(f.step, "x"));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_not_equal(shapes_words[x], 0);
    assert_int_equal(shapes_words[most], 0);
    size_t count;
    EXPECT_OK(f.context, ls_step_output_list(f.step, "most", &tensor, 1, &count));
    assert_int_equal(count, 1);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_synchronize(f.context));
    assert_int_not_equal(shapes_words[most], 0);
    assert_ptr_equal(*(void **)(uintptr_t)shapes_words[most], tensor.data);
    close_fixture(&f);
}

static void null_arguments(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 1);
    ls_tensor tensor = tensor_of(p, LS_F32, 2, shape);
    ls_step *step;
    ls_program *program;
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_step_bind(NULL, "p", &tensor), "step is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind(f.step, NULL, &tensor),
                   "parameter is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_step_launch(NULL), "step is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_step_prepare(NULL), "step is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_step_create(NULL, "x", &step), "program is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_create(f.program, NULL, &step),
                   "name is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_create(f.program, "x", NULL),
                   "step is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_output(f.step, "w", NULL),
                   "tensor is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_stats(f.step, NULL), "statistics is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT,
                   ls_program_from_images(f.context, NULL, 1, NULL, NULL, NULL, &program),
                   "images");
    ls_step_destroy(NULL);
    ls_program_destroy(NULL);
    ls_context_destroy(NULL);
    ls_graph_destroy(NULL);
    ls_event_destroy(NULL);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(types_and_ranks),
        cmocka_unit_test(lengths),
        cmocka_unit_test(missing),
        cmocka_unit_test(memory_of_arrays),
        cmocka_unit_test(overlaps),
        cmocka_unit_test(overlaps_at_random),
        cmocka_unit_test(lengths_unknown),
        cmocka_unit_test(no_variant),
        cmocka_unit_test(outputs),
        cmocka_unit_test(optional_outputs),
        cmocka_unit_test(null_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
