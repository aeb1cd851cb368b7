/* sum_test.c: steps on what ranks have. Read-only parameters bound to several arrays, whose sum
 * they are: against the same step with a sum added up by hand in the same order, bit for bit; what
 * stays when the number of arrays changes; wrong calls. Runs of a list, with the draws of the
 * whole. */
#include "fixtures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 3, PARTS = 8, ROWS = 37, COLUMNS = 300, TOTAL = ROWS * COLUMNS };
static const int64_t lengths[TENSORS] = {1500, 7, 2600};

static const char text[] =
    "import \"std/optim\"\n"
    "step update[t, n of t](inout p: f32[t, n], inout m: f32[t, n], inout v: f32[t, n],\n"
    "                       g: f32[t, n], out w: bf16[t, n], out length: f32, decay: f32[t],\n"
    "                       lr: f32, inout count: i32) {\n"
    "    length = norm[t, n](g)\n"
    "    adamw_grouped(p = p, m = m, v = v, g = g / (1.0 + length), decay = decay,\n"
    "                  lr_scale = decay, count = count, lr = lr)\n"
    "    w = p\n"
    "}\n"
    "step use[r, c](x: bf16[r, c], i: i64[r], y: f32[r, c], out a: f32[r, c], out b: f32[c],\n"
    "               out s: f32[r], g_0: f32) {\n"
    "    a = x[i, c] * g_0 + y\n"
    "    b = sum[r](x * x)\n"
    "    s = logsumexp[c](x)\n"
    "}\n"
    "step writes[n](inout x: f32[n], y: i32[n], z: f64[n], k: f32, out u: f64[n]) {\n"
    "    x = x + f32(y) + f32(z) + k\n"
    "    u = z\n"
    "}\n"
    "step rounded[t, n of t](inout p: bf16[t, n], g: f32[t, n], inout count: i32) {\n"
    "    count += 1\n"
    "    p = bf16_stochastic(p - 0.1 * g + 0.01 * normal(3, count), bits(5, count))\n"
    "}\n"
    "step loop[n, k](x: f32[n], inout y: f32[n]) {\n"
    "    for k {\n"
    "        y = y + x\n"
    "    }\n"
    "}\n";

static void open(Fixture *f, const char *step) {
    *f = (Fixture){0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &f->context));
    EXPECT_OK(f->context, ls_program_load_text(f->context, "sum.step", text, sizeof text - 1, NULL,
                                               &f->program));
    EXPECT_OK(f->context, ls_step_create(f->program, step, &f->step));
}

static uint32_t random_state;
static float draw(void) { /* of many magnitudes, so that orders differ */
    random_state = random_state * 1664525u + 1013904223u;
    const float value = (float)(int32_t)random_state * 0x1p-31f;
    return ldexpf(value, (int)(random_state >> 9 & 15) - 8);
}

static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t value) {
    const uint32_t bits = (uint32_t)value << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* Neighbours first: pairs, then pairs of pairs; what has no neighbour goes up as it is. */
static float tree(const float *values, size_t count) {
    float level[128];
    memcpy(level, values, count * sizeof *level);
    for (; count > 1; count = (count + 1) / 2) {
        for (size_t i = 0; i + 1 < count; i += 2) level[i / 2] = level[i] + level[i + 1];
        if (count % 2) level[count / 2] = level[count - 1];
    }
    return level[0];
}

/* ---- a list, in an optimizer ---- */

typedef struct Lists {
    Fixture f;
    int64_t total;
    char *device;
    ls_tensor p[TENSORS], m[TENSORS], v[TENSORS], w[TENSORS], g[TENSORS], parts[PARTS][TENSORS];
    const ls_tensor *pointers[PARTS];
} Lists;

static void place(Lists *l, ls_tensor *tensors, ls_type type, char **next) {
    for (int t = 0; t < TENSORS; t++) {
        tensors[t] = tensor_of(*next, type, 1, &lengths[t]);
        *next += (lengths[t] * 4 + 15) / 16 * 16;
    }
    (void)l;
}

static void fill(Lists *l, const ls_tensor *tensors, const float *values) {
    for (int t = 0; t < TENSORS; values += lengths[t++])
        EXPECT_OK(l->f.context, ls_copy_in(l->f.context, tensors[t].data, values,
                                           (size_t)lengths[t] * sizeof *values));
}

static void open_lists(Lists *l) {
    void *memory = NULL;
    open(&l->f, "update");
    l->total = lengths[0] + lengths[1] + lengths[2];
    EXPECT_OK(l->f.context,
              ls_alloc(l->f.context, (size_t)(l->total + 64) * 4 * (PARTS + 5), &memory));
    char *next = l->device = memory;
    place(l, l->p, LS_F32, &next);
    place(l, l->m, LS_F32, &next);
    place(l, l->v, LS_F32, &next);
    place(l, l->g, LS_F32, &next);
    place(l, l->w, LS_BF16, &next);
    for (int i = 0; i < PARTS; i++) {
        place(l, l->parts[i], LS_F32, &next);
        l->pointers[i] = l->parts[i];
    }
}

static void begin(Lists *l) {
    float *values = malloc((size_t)l->total * sizeof *values);
    random_state = 99;
    for (int64_t i = 0; i < l->total; i++) values[i] = draw();
    fill(l, l->p, values);
    memset(values, 0, (size_t)l->total * sizeof *values);
    fill(l, l->m, values);
    fill(l, l->v, values);
    free(values);
}

static void bind_all(Lists *l, ls_step *step) {
    EXPECT_OK(l->f.context, ls_step_bind_list(step, "p", l->p, TENSORS));
    EXPECT_OK(l->f.context, ls_step_bind_list(step, "m", l->m, TENSORS));
    EXPECT_OK(l->f.context, ls_step_bind_list(step, "v", l->v, TENSORS));
    EXPECT_OK(l->f.context, ls_step_bind_list(step, "w", l->w, TENSORS));
    EXPECT_OK(l->f.context, ls_step_set_number(step, "lr", 0.01));
    EXPECT_OK(l->f.context, ls_step_set_number(step, "decay", 0.1));
    EXPECT_OK(l->f.context, ls_step_set_number(step, "count", 0));
}

typedef struct Result {
    float p[8192];
    uint16_t w[8192];
    float length;
    int32_t count;
} Result;

static void take(Lists *l, ls_step *step, Result *result) {
    memset(result, 0, sizeof *result);
    int64_t at = 0;
    EXPECT_OK(l->f.context, ls_step_get(step, "length", &result->length));
    EXPECT_OK(l->f.context, ls_step_get(step, "count", &result->count));
    for (int t = 0; t < TENSORS; at += lengths[t++]) {
        EXPECT_OK(l->f.context, ls_copy_out(l->f.context, result->p + at, l->p[t].data,
                                            (size_t)lengths[t] * sizeof(float)));
        EXPECT_OK(l->f.context, ls_copy_out(l->f.context, result->w + at, l->w[t].data,
                                            (size_t)lengths[t] * sizeof(uint16_t)));
    }
}

/* Gradients of `count` parts for one step, and their sum in g. */
static void draw_parts(Lists *l, size_t count, uint32_t seed) {
    float(*values)[PARTS] = malloc((size_t)l->total * sizeof *values);
    float *run = malloc((size_t)l->total * sizeof *run);
    random_state = seed;
    for (int64_t i = 0; i < l->total; i++)
        for (size_t k = 0; k < PARTS; k++) values[i][k] = draw();
    for (size_t k = 0; k < count; k++) {
        for (int64_t i = 0; i < l->total; i++) run[i] = values[i][k];
        fill(l, l->parts[k], run);
    }
    for (int64_t i = 0; i < l->total; i++) run[i] = tree(values[i], count);
    fill(l, l->g, run);
    free(values);
    free(run);
}

enum { STEPS = 3 };

static void sums_of_lists(void **state) {
    static const size_t counts[] = {1, 2, 3, 4, 5, 8};
    static Result expected, found;
    (void)state;
    Lists l;
    ls_step *plain;
    open_lists(&l);
    bind_all(&l, l.f.step);
    EXPECT_OK(l.f.context, ls_step_create(l.f.program, "update", &plain));
    bind_all(&l, plain);
    EXPECT_OK(l.f.context, ls_step_bind_list(plain, "g", l.g, TENSORS));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        begin(&l);
        EXPECT_OK(l.f.context, ls_step_set_number(plain, "count", 0));
        for (uint32_t k = 0; k < STEPS; k++) {
            draw_parts(&l, counts[i], k);
            EXPECT_OK(l.f.context, ls_step_launch(plain));
        }
        take(&l, plain, &expected);
        begin(&l);
        EXPECT_OK(l.f.context,
                  ls_step_bind_sum_list(l.f.step, "g", l.pointers, counts[i], TENSORS));
        EXPECT_OK(l.f.context, ls_step_set_number(l.f.step, "count", 0));
        for (uint32_t k = 0; k < STEPS; k++) {
            draw_parts(&l, counts[i], k);
            EXPECT_OK(l.f.context, ls_step_launch(l.f.step));
        }
        take(&l, l.f.step, &found);
        assert_int_equal(found.count, STEPS);
        assert_memory_equal(&expected, &found, sizeof found);
        assert_int_equal(ls_step_image(l.f.step)->parameter_count, 9 - 1 + counts[i]);
    }
    ls_step_destroy(plain);
    ls_free(l.f.context, l.device);
    close_fixture(&l.f);
}

/* What was bound and set stays, the count goes on; a graph takes other arrays by an update. */
static void sums_in_graphs(void **state) {
    static Result expected, found;
    (void)state;
    Lists l;
    ls_graph *graph;
    open_lists(&l);
    bind_all(&l, l.f.step);
    begin(&l);
    EXPECT_OK(l.f.context, ls_step_bind_sum_list(l.f.step, "g", l.pointers, 2, TENSORS));
    draw_parts(&l, 4, 5);
    EXPECT_OK(l.f.context, ls_step_launch(l.f.step));
    EXPECT_OK(l.f.context, ls_step_bind_sum_list(l.f.step, "g", l.pointers + 2, 2, TENSORS));
    EXPECT_OK(l.f.context, ls_step_launch(l.f.step));
    take(&l, l.f.step, &expected);
    assert_int_equal(expected.count, 2);
    begin(&l);
    EXPECT_OK(l.f.context, ls_step_set_number(l.f.step, "count", 0));
    EXPECT_OK(l.f.context, ls_step_bind_sum_list(l.f.step, "g", l.pointers, 2, TENSORS));
    EXPECT_OK(l.f.context, ls_step_prepare(l.f.step));
    EXPECT_OK(l.f.context, ls_graph_begin(l.f.context));
    EXPECT_OK(l.f.context, ls_step_launch(l.f.step));
    EXPECT_OK(l.f.context, ls_graph_end(l.f.context, &graph));
    EXPECT_OK(l.f.context, ls_graph_launch(graph));
    EXPECT_FAILURE(l.f.context, LS_ERROR_STATE,
                   ls_step_bind_sum_list(l.f.step, "g", l.pointers, 3, TENSORS), "a graph holds");
    EXPECT_OK(l.f.context, ls_step_bind_sum_list(l.f.step, "g", l.pointers + 2, 2, TENSORS));
    EXPECT_OK(l.f.context, ls_graph_update(graph));
    EXPECT_OK(l.f.context, ls_graph_launch(graph));
    take(&l, l.f.step, &found);
    assert_memory_equal(&expected, &found, sizeof found);
    ls_graph_destroy(graph);
    ls_free(l.f.context, l.device);
    close_fixture(&l.f);
}

/* ---- an array of bf16, read in several ways; the sum is of bf16 or of f32 ---- */

static void *copy_of(const Fixture *f, const void *values, size_t bytes) {
    void *memory = NULL;
    EXPECT_OK(f->context, ls_alloc(f->context, bytes, &memory));
    EXPECT_OK(f->context, ls_copy_in(f->context, memory, values, bytes));
    return memory;
}

typedef struct Outputs {
    float a[TOTAL], b[COLUMNS], s[ROWS];
} Outputs;

static void read_outputs(const Fixture *f, Outputs *outputs) {
    static const char *const names[] = {"a", "b", "s"};
    void *const to[] = {outputs->a, outputs->b, outputs->s};
    const size_t bytes[] = {sizeof outputs->a, sizeof outputs->b, sizeof outputs->s};
    for (int i = 0; i < 3; i++) {
        ls_tensor tensor;
        EXPECT_OK(f->context, ls_step_want(f->step, names[i]));
        EXPECT_OK(f->context, ls_step_launch(f->step));
        EXPECT_OK(f->context, ls_step_output(f->step, names[i], &tensor));
        EXPECT_OK(f->context, ls_copy_out(f->context, to[i], tensor.data, bytes[i]));
    }
}

static void sums_of_narrow_arrays(void **state) {
    static const int64_t shape[2] = {ROWS, COLUMNS};
    static uint16_t parts[4][TOTAL];
    static float wide[4][TOTAL], y[TOTAL];
    static Outputs from_narrow, from_wide;
    int64_t rows[ROWS];
    void *memory[10];
    ls_tensor narrow_tensors[4], wide_tensors[4];
    Fixture f;
    (void)state;
    open(&f, "use");
    random_state = 3;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < TOTAL; i++) {
            parts[k][i] = to_bf16(draw() * 0.125f);
            wide[k][i] = from_bf16(parts[k][i]);
            y[i] = draw();
        }
    for (int i = 0; i < ROWS; i++) rows[i] = i * 5 % (ROWS + 3); /* some out of range */
    for (int k = 0; k < 4; k++) {
        memory[k] = copy_of(&f, parts[k], sizeof parts[k]);
        memory[4 + k] = copy_of(&f, wide[k], sizeof wide[k]);
        narrow_tensors[k] = tensor_of(memory[k], LS_BF16, 2, shape);
        wide_tensors[k] = tensor_of(memory[4 + k], LS_F32, 2, shape);
    }
    memory[8] = copy_of(&f, rows, sizeof rows);
    memory[9] = copy_of(&f, y, sizeof y);
    const ls_tensor rows_tensor = tensor_of(memory[8], LS_I64, 1, shape);
    const ls_tensor y_tensor = tensor_of(memory[9], LS_F32, 2, shape);
    EXPECT_OK(f.context, ls_step_bind(f.step, "i", &rows_tensor));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "g_0", 3));
    EXPECT_OK(f.context, ls_step_bind_sum(f.step, "x", narrow_tensors, 4));
    EXPECT_OK(f.context, ls_step_bind_sum(f.step, "y", &y_tensor, 1));
    read_outputs(&f, &from_narrow);
    EXPECT_OK(f.context, ls_step_bind_sum(f.step, "x", wide_tensors, 4));
    read_outputs(&f, &from_wide);
    assert_memory_equal(&from_narrow, &from_wide, sizeof from_wide);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            float values[4] = {0};
            for (int k = 0; k < 4 && rows[r] < ROWS; k++)
                values[k] = wide[k][rows[r] * COLUMNS + c];
            const float product = tree(values, 4) * 3.0f;
            if (from_wide.a[r * COLUMNS + c] != product + y[r * COLUMNS + c])
                fail_msg("a[%d, %d]", r, c);
        }
    for (int k = 0; k < 10; k++) ls_free(f.context, memory[k]);
    close_fixture(&f);
}

/* ---- runs of a list ---- */

enum { RUNS = 5 };

/* The step on this run, whose first tensor may begin within one of the whole. */
static void launch_run(Lists *l, const ls_cut *cuts, int run) {
    ls_partition_piece pieces[TENSORS];
    ls_tensor p[TENSORS], g[TENSORS];
    ls_step *step;
    const size_t count = ls_partition_run(l->p, TENSORS, cuts, run, pieces);
    for (size_t i = 0; i < count; i++) {
        const ls_tensor *whole_p = &l->w[pieces[i].tensor], *whole_g = &l->g[pieces[i].tensor];
        p[i] = tensor_of((char *)whole_p->data + pieces[i].first * 2, LS_BF16, 1, &pieces[i].count);
        g[i] = tensor_of((char *)whole_g->data + pieces[i].first * 4, LS_F32, 1, &pieces[i].count);
    }
    EXPECT_OK(l->f.context, ls_step_create(l->f.program, "rounded", &step));
    EXPECT_OK(l->f.context, ls_step_bind_list(step, "p", p, count));
    EXPECT_OK(l->f.context, ls_step_bind_list(step, "g", g, count));
    EXPECT_OK(l->f.context, ls_step_set_number(step, "count", 7));
    EXPECT_OK(l->f.context, ls_step_shard(step, (int64_t)cuts[run].tensor, cuts[run].element));
    EXPECT_OK(l->f.context, ls_step_launch(step));
    ls_step_destroy(step);
}

static void draws_of_the_whole(void **state) {
    static Result expected, found;
    (void)state;
    Lists l;
    ls_cut cuts[RUNS + 1];
    bool within = false;
    open_lists(&l);
    draw_parts(&l, 1, 11);
    for (int runs = 1; runs <= RUNS; runs++) {
        Result *result = runs == 1 ? &expected : &found;
        memset(result, 0, sizeof *result);
        for (int t = 0; t < TENSORS; t++)
            EXPECT_OK(l.f.context, ls_fill_zero(l.f.context, l.w[t].data, (size_t)lengths[t] * 2));
        EXPECT_OK(l.f.context, ls_partition(l.g, TENSORS, NULL, runs, cuts));
        for (int run = 0; run < runs; run++) {
            launch_run(&l, cuts, run);
            within |= cuts[run].element > 0;
        }
        int64_t at = 0;
        for (int t = 0; t < TENSORS; at += lengths[t++])
            EXPECT_OK(l.f.context, ls_copy_out(l.f.context, result->w + at, l.w[t].data,
                                               (size_t)lengths[t] * sizeof(uint16_t)));
        if (runs > 1) assert_memory_equal(&expected, &found, sizeof found);
    }
    assert_true(within);
    ls_free(l.f.context, l.device);
    close_fixture(&l.f);
}

/* ---- wrong calls ---- */

static void wrong_calls(void **state) {
    static float values[64];
    static const int64_t shape[1] = {8}, other[1] = {9};
    (void)state;
    Fixture f;
    open(&f, "writes");
    void *memory = values; /* no kernel runs */
    ls_tensor tensors[2] = {tensor_of(memory, LS_F32, 1, shape),
                            tensor_of(memory, LS_F32, 1, shape)};
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_step_bind_sum(NULL, "x", tensors, 2),
                   "step is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_sum(f.step, NULL, tensors, 2),
                   "parameter is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_sum(f.step, "x", NULL, 2),
                   "parts is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_sum(f.step, "x", tensors, 0),
                   "1 to 128");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_sum(f.step, "x", tensors, 129),
                   "1 to 128");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind_sum(f.step, "q", tensors, 2), "`q`");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_sum(f.step, "x", tensors, 2), "`x`",
                   "is written");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_sum(f.step, "y", tensors, 2), "`y`",
                   "no sum in f32");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_sum(f.step, "z", tensors, 2), "`z`",
                   "no sum in f32");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_sum(f.step, "k", tensors, 2), "`k`");
    close_fixture(&f);
    open(&f, "loop");
    EXPECT_FAILURE(f.context, LS_ERROR_UNSUPPORTED, ls_step_bind_sum(f.step, "x", tensors, 2),
                   "`for`");
    close_fixture(&f);
    open(&f, "use");
    static const int64_t square[2] = {4, 8};
    ls_tensor pair[2] = {tensor_of(memory, LS_F32, 2, square), tensor_of(memory, LS_F32, 1, other)};
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_sum(f.step, "x", pair, 2), "x_1");
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_launch(f.step), "x_0");
    pair[0].type = pair[1].type = LS_F16;
    EXPECT_FAILURE(f.context, LS_ERROR_BIND, ls_step_bind_sum(f.step, "x", pair, 2), "bf16 or f32");
    close_fixture(&f);
}

static void ahead_of_time(void **state) {
    static float values[4];
    static const int64_t shape[2] = {1, 4};
    const ls_tensor tensor = tensor_of(values, LS_F32, 2, shape);
    CPU_ONLY();
    (void)state;
    Fixture f = open_fixture(&image_descend, 1);
    EXPECT_FAILURE(f.context, LS_ERROR_UNSUPPORTED, ls_step_bind_sum(f.step, "g", &tensor, 1),
                   "ahead of time");
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_lists),         cmocka_unit_test(sums_in_graphs),
        cmocka_unit_test(sums_of_narrow_arrays), cmocka_unit_test(wrong_calls),
        cmocka_unit_test(draws_of_the_whole),    cmocka_unit_test(ahead_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
