/* memory_test.c: the host's memory runs out at the n-th allocation, for every n. Each time the call
 * says LS_ERROR_MEMORY, nothing leaks (the last line counts), and the same context goes on. */
#include "failing_memory.h"
#include "fixtures.h"

#include <stdlib.h>
#include <string.h>

/* A list of two tensors, a graph of it, then one of five: what a failed bind or launch leaves of
 * the first still works. */
static ls_status use_lists(ls_context *context, ls_program *program, ls_step **step,
                           ls_graph **graph) {
    static _Alignas(16) float p[64], g[64];
    const int64_t lengths[5] = {7, 3, 0, 4, 20};
    ls_tensor tp[5], tg[5], output[5];
    size_t given;
    for (int i = 0; i < 5; i++) {
        tp[i] = tensor_of(p + 8 * i, LS_F32, 1, &lengths[i]);
        tg[i] = tensor_of(g + 8 * i, LS_F32, 1, &lengths[i]);
    }
    ls_status status = ls_step_create(program, "lists", step);
    if (status == LS_OK) status = ls_step_set_number(*step, "lr", 1);
    if (status == LS_OK) status = ls_step_set_number(*step, "decay", 1);
    for (size_t count = 2; count <= 5 && status == LS_OK; count += 3) {
        status = ls_step_bind_list(*step, "p", tp, count);
        if (status == LS_OK) status = ls_step_bind_list(*step, "g", tg, count);
        if (status == LS_OK) status = ls_step_prepare(*step);
        if (status == LS_OK && count == 2) {
            status = ls_graph_begin(context);
            if (status != LS_OK) return status;
            ls_status launched = ls_step_launch(*step);
            status = ls_graph_end(context, graph);
            if (launched != LS_OK) return launched;
        }
        if (status == LS_OK) status = ls_graph_launch(*graph);
        long before = memory_until_failure;
        if (status == LS_OK) status = ls_step_launch(*step);
        assert_int_equal(memory_until_failure, before); /* prepared: no allocation */
        if (status == LS_OK) status = ls_step_output_list(*step, "w", output, 5, &given);
        if (status == LS_OK) assert_int_equal(given, count);
    }
    if (status == LS_OK) return status;
    long kept = memory_until_failure; /* with memory again the same step goes on */
    memory_until_failure = 0;
    if (*step) {
        EXPECT_OK(context, ls_step_set_number(*step, "lr", 1));
        EXPECT_OK(context, ls_step_set_number(*step, "decay", 1));
        EXPECT_OK(context, ls_step_bind_list(*step, "p", tp, 5));
        EXPECT_OK(context, ls_step_bind_list(*step, "g", tg, 5));
        EXPECT_OK(context, ls_step_launch(*step));
        if (*graph) EXPECT_OK(context, ls_graph_launch(*graph));
    }
    memory_until_failure = kept;
    return status;
}

/* Everything the API allocates for. Stops at the first failure and reports it. */
static ls_status use_everything(bool *message_fits) {
    static _Alignas(16) float p[64], g[64];
    const int64_t shape[2] = {8, 8}, larger[2] = {1, 64};
    const ls_image *images[] = {&image_descend, &image_fixed, &image_lists};
    ls_context *context = NULL;
    ls_program *program = NULL;
    ls_step *step = NULL, *lists = NULL;
    ls_graph *graph = NULL, *lists_graph = NULL;
    ls_event *event = NULL;
    void *memory[101] = {NULL};
    ls_tensor tp = tensor_of(p, LS_F32, 2, shape), tg = tensor_of(g, LS_F32, 2, shape), output;
    *message_fits = true;
    ls_status status = ls_context_create("cpu", NULL, &context);
    if (status != LS_OK) {
        assert_null(context);
        *message_fits = strstr(ls_error_message(NULL), "ran out of memory") != NULL;
        return status;
    }
    status = ls_program_from_images(context, images, 3, NULL, NULL, NULL, &program);
    if (status == LS_OK) status = ls_step_create(program, "descend", &step);
    if (status == LS_OK) status = ls_step_bind(step, "p", &tp);
    if (status == LS_OK) status = ls_step_bind(step, "g", &tg);
    if (status == LS_OK) status = ls_step_set_number(step, "lr", 1);
    if (status == LS_OK) status = ls_step_prepare(step);
    bool begun = status == LS_OK && (status = ls_graph_begin(context)) == LS_OK;
    for (int i = 0; i < 5 && status == LS_OK; i++) status = ls_step_launch(step);
    if (begun && status != LS_OK) {
        assert_int_equal(ls_graph_end(context, &graph), LS_ERROR_STATE);
        assert_null(graph);
    }
    if (status == LS_OK) status = ls_graph_end(context, &graph);
    if (status == LS_OK) status = ls_graph_launch(graph);
    tp.shape = tg.shape = larger; /* the same size, then a launch without a capture */
    if (status == LS_OK) status = ls_step_bind(step, "p", &tp);
    if (status == LS_OK) status = ls_step_bind(step, "g", &tg);
    if (status == LS_OK) status = ls_step_output(step, "w", &output);
    for (int i = 0; i < 3 && status == LS_OK; i++) {
        long before = memory_until_failure;
        status = ls_step_launch(step);
        assert_int_equal(memory_until_failure, before); /* steady state: no allocation */
    }
    if (status == LS_OK) status = use_lists(context, program, &lists, &lists_graph);
    if (status == LS_OK) status = ls_event_create(context, &event);
    for (int i = 0; i < 100 && status == LS_OK; i++) status = ls_alloc(context, 100, &memory[i]);
    if (status == LS_OK) status = ls_alloc_labeled(context, 3 << 20, "weights", &memory[100]);
    if (status == LS_OK) status = ls_memory_trim(context, 0);
    if (status != LS_OK) {
        const char *message = ls_error_message(context);
        *message_fits = strstr(message, "memory") || strstr(message, " more on ");
        long kept =
            memory_until_failure; /* and now that there is memory again, the context still works */
        memory_until_failure = 0;
        void *more;
        EXPECT_OK(context, ls_alloc(context, 1 << 20, &more));
        ls_free(context, more);
        memory_until_failure = kept;
    }
    for (int i = 0; i < 100; i += 2)
        ls_free(context, memory[i]); /* the others go with the context */
    ls_event_destroy(event);
    ls_graph_destroy(lists_graph);
    ls_graph_destroy(graph);
    ls_step_destroy(lists);
    ls_step_destroy(step);
    ls_program_destroy(program);
    ls_context_destroy(context);
    return status;
}

static void every_allocation(void **state) {
    (void)state;
    setenv("LOCKSTEP_THREADS", "2", 1);
    bool fits;
    assert_int_equal(use_everything(&fits), LS_OK); /* what is allocated once, such as setenv's */
    long before = memory_live, n = 0;
    ls_status status = LS_ERROR_MEMORY;
    while (status != LS_OK) {
        memory_until_failure = ++n;
        status = use_everything(&fits);
        bool reached = memory_until_failure == 0;
        memory_until_failure = 0;
        if (reached && status != LS_ERROR_MEMORY && status != LS_OK)
            fail_msg("allocation %ld: %s", n, ls_status_name(status));
        if (!fits) fail_msg("allocation %ld: the message does not speak of memory", n);
        if (memory_live != before) fail_msg("allocation %ld: %ld leaked", n, memory_live - before);
        if (!reached)
            assert_int_equal(status, LS_OK);
        else if (status == LS_OK)
            status = LS_ERROR_MEMORY; /* it did without; try the next */
    }
    assert_true(n > 40);
}

static void statistics(void **state) {
    (void)state;
    setenv("LOCKSTEP_THREADS", "1", 1);
    ls_context *context;
    ls_memory_statistics s;
    void *memory[1000];
    uint64_t calls = 0;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) EXPECT_OK(context, ls_alloc(context, 10, &memory[i]));
        ls_memory_stats(context, &s);
        assert_int_equal(s.in_use, 10000);
        assert_int_equal(s.allocations, 1000);
        for (int i = 0; i < 1000; i++) ls_free(context, memory[(i * 7 + round) % 1000]);
        ls_memory_stats(context, &s);
        assert_int_equal(s.in_use, 0);
        assert_int_equal(s.allocations, 0);
        assert_int_equal(s.peak, 10000);
        assert_int_equal(s.served, 1000 * (round + 1));
        if (round == 0) calls = s.driver_calls;
        assert_int_equal(s.driver_calls, calls); /* what was freed is used again */
    }
    int stranger;
    ls_free(context, &stranger); /* not ours: left alone */
    ls_free(context, NULL);
    void *pointer = &stranger;
    EXPECT_OK(context, ls_memory_limit(context, 1 << 20));
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, ls_alloc(context, 3 << 20, &pointer),
                   "no 3.0 MiB more on " DEVICE_NAME, "this context holds 0 B in 0 allocations");
    assert_null(pointer);
    EXPECT_OK(context, ls_memory_limit(context, 0));
    EXPECT_OK(context, ls_alloc(context, 0, &pointer));
    assert_non_null(pointer);
    EXPECT_OK(context, ls_alloc(context, 5 << 20, &memory[0])); /* on huge pages */
    if (ON_CPU) assert_int_equal((uintptr_t)memory[0] % (2 << 20), 0);
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_copy_in(context, NULL, &s, 4), "device is NULL");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_copy_out(context, NULL, pointer, 4),
                   "host is NULL");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_alloc(context, 4, NULL), "pointer is NULL");
    EXPECT_OK(context, ls_copy_in(context, NULL, NULL, 0));
    void *host;
    EXPECT_OK(context, ls_alloc_host(context, 0, &host));
    ls_free_host(context, host);
    EXPECT_OK(context, ls_alloc_host(context, 1000, &host));
    memset(host, 1, 1000);
    EXPECT_OK(context, ls_copy_in(context, pointer, host, 1));
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_alloc_host(context, 4, NULL), "pointer is NULL");
    void *none = &stranger;
    EXPECT_FAILURE(context, LS_ERROR_MEMORY, ls_alloc_host(context, (size_t)1 << 60, &none),
                   "the host has no 1152921504606846976 bytes of page-locked memory left");
    assert_null(none);
    ls_free_host(context, host);
    ls_free_host(context, NULL);
    EXPECT_OK(context, ls_context_use_stream(context, ls_context_stream(context)));
    ls_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation),
        cmocka_unit_test(statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
