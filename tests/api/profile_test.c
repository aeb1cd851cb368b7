/* profile_test.c: profiles and traces on the CPU: what is counted, what is refused, and what is
 * left when memory runs out. */
#include "failing_memory.h"
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 4, COLUMNS = 100, ELEMENTS = ROWS * COLUMNS };

/* 4 bytes of each element are read; of 8 rows and fewer what is gathered, above that all of it. */
static const ls_image_extent all[] = {{4, 1, {{3, 0, 1, 0}}, 0}};
static const ls_image_extent gathered[] = {{32, 1, {{1, 0, 1, 0}}, 0}, {8, 0, {{0, 0, 1, 0}}, 0}};
static const ls_image_flow flows[] = {
    {.array = 0,
     .again = LS_FLOW_LARGEST,
     .count = 2,
     .bytes = gathered,
     .most = {4, 1, {{3, 0, 1, 0}}, 0}},
    {.array = 0, .again = LS_FLOW_LARGEST, .count = 1, .bytes = all},
    {.array = 0, .again = LS_FLOW_FAR, .count = 1, .bytes = all},
    {.array = 1, .written = 1, .count = 1, .bytes = all},
    {.array = 2, .written = 1, .count = 1, .bytes = all, .above = {4, 1, {{3, 0, 1, 0}}, 0}},
};
static const ls_image_row rows_of[] = {{{4, 1, {{3, 0, 1, 0}}, 0}, {1, 1, {{1, 0, 1, 0}}, 0}, 2}};
static ls_image_traffic traffic[] = {{5, 1, flows, rows_of, 800}, {0, 0, NULL, NULL, 0}};

static ls_image counted_image(ls_image_variant *variant) {
    ls_image image = image_descend_dense_only;
    *variant = image.variants[0];
    variant->traffic = traffic;
    image.variants = variant;
    image.variant_count = 1;
    image.source_file = "folder/descend \"1\".step";
    image.line = 7;
    return image;
}

static float p[ELEMENTS], g[ELEMENTS], w[ELEMENTS];

static void bind_all(Fixture *f) {
    const int64_t shape[2] = {ROWS, COLUMNS};
    float *data[] = {p, g, w};
    const char *names[] = {"p", "g", "w"};
    for (int i = 0; i < 3; i++) {
        ls_tensor tensor = tensor_of(data[i], LS_F32, 2, shape);
        EXPECT_OK(f->context, ls_step_bind(f->step, names[i], &tensor));
    }
    EXPECT_OK(f->context, ls_step_set_number(f->step, "lr", 0.25));
}

static void counts(void **state) {
    (void)state;
    enum { LAUNCHES = 5000, REPLAYS = 3 }; /* many batches of events, more than are kept */
    ls_image_variant variant;
    const ls_image image = counted_image(&variant);
    Fixture f = open_fixture(&image, 2);
    bind_all(&f);
    ls_profile_row rows[5];
    assert_int_equal(ls_profile_rows(f.context, rows, 5), 0);
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    EXPECT_OK(f.context, ls_profile_begin(f.context));
    for (int i = 0; i < LAUNCHES; i++) EXPECT_OK(f.context, ls_step_launch(f.step));
    ls_graph *graph;
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    for (int i = 0; i < REPLAYS; i++) EXPECT_OK(f.context, ls_graph_launch(graph));
    EXPECT_OK(f.context, ls_profile_end(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step)); /* after the end: not counted */

    assert_int_equal(ls_profile_rows(f.context, NULL, 0), 4);
    assert_int_equal(ls_profile_rows(f.context, rows, 5), 4);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(rows[i].step, "descend");
        assert_string_equal(rows[i].file, "folder/descend \"1\".step");
        assert_int_equal(rows[i].line, 7);
        /* a replay's two launches are timed too, kernel by kernel */
        assert_int_equal(rows[i].count, LAUNCHES + (i ? 2 * REPLAYS : 0));
        assert_true(rows[i].min_us >= 0 && rows[i].min_us <= rows[i].median_us + 1e-3);
        assert_true(rows[i].median_us <= rows[i].max_us + 1e-3);
        assert_true(rows[i].total_us >= rows[i].max_us);
        /* two rows of 400 bytes are near: all of it once */
        assert_int_equal(rows[i].bytes_read, 4 * ELEMENTS);
        assert_int_equal(rows[i].bytes_written, 4 * ELEMENTS);
    }
    assert_null(rows[0].kernel);
    assert_string_equal(rows[1].kernel, variant.kernels[0].name);
    assert_string_equal(rows[2].kernel, variant.kernels[1].name);
    assert_int_equal(rows[2].bytes_read + rows[2].bytes_written, 0);
    assert_int_equal(rows[2].count, LAUNCHES + 2 * REPLAYS);
    assert_string_equal(rows[3].step, "graph of 2 launches");
    assert_int_equal(rows[3].count, REPLAYS);
    assert_int_equal(rows[3].bytes_written, 2 * 4 * ELEMENTS);
    ls_graph_destroy(graph);

    traffic[0].near = 799; /* no longer near: what is read again moves again */
    EXPECT_OK(f.context, ls_step_bind(f.step, "p", NULL));
    bind_all(&f);
    close_fixture(&f);
    f = open_fixture(&image, 2);
    bind_all(&f);
    EXPECT_OK(f.context, ls_profile_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_profile_end(f.context));
    assert_int_equal(ls_profile_rows(f.context, rows, 5), 3);
    assert_int_equal(rows[1].bytes_read, 136 + 2 * 4 * ELEMENTS);
    traffic[0].near = 800;
    close_fixture(&f);
}

/* What nobody asks for is not written, until somebody does. */
static void left_out(void **state) {
    (void)state;
    const int64_t shape[2] = {ROWS, COLUMNS};
    const ls_image_flow written[] = {{.array = 0, .written = 1, .count = 1, .bytes = all},
                                     {.array = 2, .written = 1, .count = 1, .bytes = all}};
    const ls_image_traffic own[] = {{2, 0, written, NULL, 0}, {0, 0, NULL, NULL, 0}};
    ls_image_variant variant;
    ls_image image = counted_image(&variant);
    ls_image_parameter parameters[16];
    memcpy(parameters, image.parameters, image.parameter_count * sizeof *parameters);
    parameters[2].optional = 1;
    image.parameters = parameters;
    variant.traffic = own;
    Fixture f = open_fixture(&image, 1);
    ls_tensor tensor = tensor_of(p, LS_F32, 2, shape);
    EXPECT_OK(f.context, ls_step_bind(f.step, "p", &tensor));
    tensor = tensor_of(g, LS_F32, 2, shape);
    EXPECT_OK(f.context, ls_step_bind(f.step, "g", &tensor));
    EXPECT_OK(f.context, ls_step_set_number(f.step, "lr", 0.25));
    for (int asked = 0; asked < 2; asked++) {
        ls_profile_row rows[4];
        if (asked) EXPECT_OK(f.context, ls_step_want(f.step, "w"));
        EXPECT_OK(f.context, ls_profile_begin(f.context));
        EXPECT_OK(f.context, ls_step_launch(f.step));
        EXPECT_OK(f.context, ls_profile_end(f.context));
        assert_int_equal(ls_profile_rows(f.context, rows, 4), 3);
        assert_int_equal(rows[1].bytes_written, (1 + asked) * 4 * ELEMENTS);
    }
    close_fixture(&f);
}

static void refusals(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 1);
    bind_all(&f);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_profile_begin(NULL), "context is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_profile_end(f.context), "ls_profile_begin first");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_profile_trace(f.context, "x"), "no profile yet");
    EXPECT_OK(f.context, ls_profile_begin(f.context));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_profile_begin(f.context), "ls_profile_end first");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_profile_trace(f.context, "x"), "ls_profile_end");
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_profile_end(f.context), "ls_profile_end");
    ls_graph *graph;
    assert_int_not_equal(ls_graph_end(f.context, &graph), LS_OK);
    EXPECT_OK(f.context, ls_profile_end(f.context));
    assert_int_equal(ls_profile_rows(f.context, NULL, 0), 0);
    EXPECT_FAILURE(f.context, LS_ERROR_FILE, ls_profile_trace(f.context, "/dev/null/none/x"),
                   "/dev/null/none/x could not be written");
    close_fixture(&f);
}

static const char trace_path[] = "profile_test.json";

static void expect_in_trace(const char *words) {
    static char text[1 << 16];
    FILE *file = fopen(trace_path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if (!strstr(text, words)) fail_msg("`%s` is not in the trace", words);
}

/* One that fails leaves the old file and no other. Names are UTF-8, or what stands for it. */
static void trace(void **state) {
    (void)state;
    ls_image_variant variant;
    ls_image image = counted_image(&variant);
    image.source_file = "\xdf\xbf \xef\xbf\xbd \xf0\x9f\x98\x80 \xff.step";
    Fixture f = open_fixture(&image, 1);
    bind_all(&f);
    EXPECT_OK(f.context, ls_profile_begin(f.context));
    for (int i = 0; i < 10; i++) EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_profile_end(f.context));
    EXPECT_OK(f.context, ls_profile_trace(f.context, trace_path));
    EXPECT_OK(f.context, ls_profile_trace(f.context, trace_path)); /* again: replaced */
    expect_in_trace("\xdf\xbf \xef\xbf\xbd \xf0\x9f\x98\x80 \\ufffd.step");
    struct stat status;
    assert_int_equal(stat(trace_path, &status), 0);
    assert_int_equal(status.st_mode & 0400, 0400);
    assert_int_equal(status.st_mode & 0111, 0);
    close_fixture(&f);
}

/* The launches happen, and the end says what was lost. */
static void no_memory(void **state) {
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        Fixture f = open_fixture(&image_descend, 1);
        bind_all(&f);
        memset(p, 0, sizeof p);
        for (int i = 0; i < ELEMENTS; i++) g[i] = 4;
        EXPECT_OK(f.context, ls_step_prepare(f.step));
        memory_until_failure = n;
        ls_status status = ls_profile_begin(f.context);
        if (status == LS_OK) {
            for (int i = 0; i < 20; i++) EXPECT_OK(f.context, ls_step_launch(f.step));
            status = ls_profile_end(f.context);
            assert_true(p[0] == -20);
        }
        if (status == LS_OK) status = ls_profile_trace(f.context, trace_path);
        reached = memory_until_failure == 0;
        memory_until_failure = 0;
        if (reached && status != LS_OK) assert_int_equal(status, LS_ERROR_MEMORY);
        if (!reached) assert_int_equal(status, LS_OK);
        close_fixture(&f);
    }
    assert_int_equal(memory_live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),    cmocka_unit_test(left_out), cmocka_unit_test(refusals),
        cmocka_unit_test(no_memory), cmocka_unit_test(trace),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(trace_path);
    return failed;
}
