/* handles_test.c: calls without a handle: no crash, and a message where the caller looks. */
#include "fixtures.h"
#include "lockstep/comm.h"

#include <string.h>

/* Every function that cannot fail, with NULL. */
static void getters(void **state) {
    ls_memory_statistics memory;
    ls_feed_statistics feed;
    ls_comm_statistics comm;
    (void)state;
    assert_int_equal(ls_context_kind(NULL), LS_DEVICE_CPU);
    assert_string_equal(ls_context_device(NULL), "?");
    assert_string_equal(ls_context_describe(NULL), "?");
    assert_string_equal(ls_context_target(NULL), "?");
    assert_null(ls_context_stream(NULL));
    assert_int_equal(ls_context_shares_memory(NULL), 0);
    assert_non_null(strstr(ls_error_message(NULL), "ls_context_shares_memory: context is NULL"));
    assert_int_equal(ls_program_step_count(NULL), 0);
    assert_null(ls_program_step_name(NULL, 0));
    assert_null(ls_step_image(NULL));
    assert_int_equal(ls_dataset_samples(NULL), 0);
    assert_int_equal(ls_dataset_resident(NULL), 0);
    assert_int_equal(ls_split_sample(NULL, 0), -1);
    assert_int_equal(ls_comm_rank(NULL), 0);
    assert_int_equal(ls_comm_size(NULL), 1);
    assert_string_equal(ls_comm_engine(NULL), "?");
    assert_int_equal(ls_memory_labels(NULL, NULL, 0), 0);
    assert_int_equal(ls_memory_report(NULL, NULL, 0), 0);
    assert_int_equal(ls_profile_rows(NULL, NULL, 0), 0);
    ls_memory_stats(NULL, &memory);
    ls_feed_stats(NULL, &feed);
    ls_comm_stats(NULL, &comm);
    assert_int_equal(memory.in_use, 0);
    assert_int_equal(feed.batches, 0);
    assert_int_equal(comm.operations, 0);
    ls_free(NULL, NULL);
    ls_free_host(NULL, NULL);
    ls_comm_abort(NULL, NULL);
}

/* A call with a NULL handle knows no context: the one in hand gives its message all the same, until
 * something of its own fails. */
static void messages(void **state) {
    Fixture f = open_fixture(&image_cells, 1);
    ls_graph *graph = NULL;
    (void)state;
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_launch(NULL),
                   "ls_step_launch: step is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_graph_launch(graph), "graph is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_shard(NULL, 0, 0),
                   "ls_step_shard: step is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_set_number(f.step, "q", 1),
                   "no parameter `q`");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_bind(NULL, "a", NULL), "step is NULL");
    close_fixture(&f);
}

/* A capture that failed names the call that failed first, one without a handle too. */
static void captures(void **state) {
    Fixture f = open_fixture(&image_cells, 1);
    ls_graph *graph;
    float value;
    (void)state;
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_step_get(f.step, "b", &value), "ls_step_get");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_synchronize(f.context), "ls_synchronize");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_graph_end(f.context, &graph), "no graph was made",
                   "failed: ls_step_get");
    assert_null(graph);
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_launch(NULL), "step is NULL");
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_graph_end(f.context, &graph),
                   "failed: ls_step_launch: step is NULL");
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    ls_graph_destroy(graph);
    close_fixture(&f);
}

/* A name that is nearly one of the steps'. */
static void step_names(void **state) {
    Fixture f = open_fixture(&image_descend, 1);
    ls_step *step;
    (void)state;
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_create(f.program, "desend", &step),
                   "no step `desend`; did you mean `descend`?");
    assert_null(step);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_create(f.program, "ascent", &step),
                   "no step `ascent`; there is `descend`");
    close_fixture(&f);
}

/* Parts of a step take kernels that a program from images cannot make. */
static void no_parts(void **state) {
    (void)state;
    Fixture f = open_fixture(&image_descend, 1), other = open_fixture(&image_descend, 1);
    const ls_cut cuts[2] = {{0}};
    const ls_partition_parts parts = {.cuts = cuts};
    ls_comm *comm, *others;
    EXPECT_OK(f.context, ls_comm_create(f.context, "self", NULL, &comm));
    EXPECT_OK(other.context, ls_comm_create(other.context, "self", NULL, &others));
    EXPECT_FAILURE(f.context, LS_ERROR_UNSUPPORTED, ls_step_partition(f.step, comm, &parts),
                   "step `descend` was built ahead of time, and parts take other kernels");
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_step_partition(f.step, others, &parts),
                   "and the communicator are of different contexts");
    ls_comm_destroy(comm);
    ls_comm_destroy(others);
    close_fixture(&other);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(getters),    cmocka_unit_test(messages), cmocka_unit_test(captures),
        cmocka_unit_test(step_names), cmocka_unit_test(no_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
