/* feed_test.c: batches through a feed on the CPU: shapes, short batches, graphs, wrong calls, and
 * every allocation failing in turn. */
#include "fixtures.h"
#include "failing_memory.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 4, WIDTH = 3 };
static const int64_t x_shape[] = {BATCH, WIDTH}, y_shape[] = {BATCH};
static const ls_feed_array arrays[] = {{"x", LS_F32, 2, x_shape}, {"y", LS_I32, 1, y_shape}};

static const char text[] =
    "step take[b, k](x: f32[b, k], y: i32[b], feed_samples: i64, inout total: f64 = 0.0,\n"
    "                inout rows: i64 = 0, inout given: i64 = 0) {\n"
    "    total += f64(sum(x)) + f64(sum(y))\n"
    "    rows += size(b)\n"
    "    given += feed_samples\n"
    "}\n";

static void open(Fixture *f) {
    *f = (Fixture){0};
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &f->context));
    EXPECT_OK(f->context, ls_program_load_text(f->context, "take.step", text, sizeof text - 1, NULL,
                                               &f->program));
    EXPECT_OK(f->context, ls_step_create(f->program, "take", &f->step));
}

static ls_status submit(ls_feed *feed, int64_t samples, int value) {
    void *host[2];
    ls_status status = ls_feed_acquire(feed, host);
    if (status != LS_OK) return status;
    for (int64_t i = 0; i < samples * WIDTH; i++) ((float *)host[0])[i] = (float)value;
    for (int64_t i = 0; i < samples; i++) ((int32_t *)host[1])[i] = value;
    return ls_feed_submit(feed, samples);
}

static void expect_sums(Fixture *f, double total, int64_t rows, int64_t given) {
    double sum;
    int64_t counts[2];
    EXPECT_OK(f->context, ls_step_get(f->step, "total", &sum));
    EXPECT_OK(f->context, ls_step_get(f->step, "rows", &counts[0]));
    EXPECT_OK(f->context, ls_step_get(f->step, "given", &counts[1]));
    assert_true(sum == total);
    assert_int_equal(counts[0], rows);
    assert_int_equal(counts[1], given);
}

static void in_place(void **state) {
    (void)state;
    CPU_ONLY();
    Fixture f;
    ls_feed *feed;
    ls_tensor x;
    open(&f);
    EXPECT_OK(f.context, ls_feed_create(f.context, arrays, 2, 2, 0, &feed));
    EXPECT_OK(f.context, ls_feed_bind(feed, f.step));
    EXPECT_OK(f.context, ls_feed_bind(feed, f.step)); /* once more is no other binding */
    void *host[2];
    EXPECT_OK(f.context, ls_feed_acquire(feed, host));
    EXPECT_OK(f.context, submit(feed, BATCH, 1));
    EXPECT_OK(f.context, ls_feed_next(feed));
    EXPECT_OK(f.context, ls_feed_tensor(feed, 0, &x));
    assert_ptr_equal(x.data, host[0]); /* nothing is copied on a CPU */
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, submit(feed, 3, 2));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_feed_acquire(feed, host), "all 2 slots");
    EXPECT_OK(f.context, ls_feed_next(feed));
    EXPECT_OK(f.context, ls_feed_tensor(feed, 0, &x));
    assert_int_equal(x.shape[0], 3);
    EXPECT_OK(f.context, ls_step_launch(f.step));
    expect_sums(&f, 16 + 24, 7, 7);
    ls_feed_destroy(feed);
    close_fixture(&f);
}

static void at_one_place(void **state) {
    (void)state;
    Fixture f;
    ls_feed *feed;
    ls_graph *graph;
    open(&f);
    EXPECT_OK(f.context, ls_feed_create(f.context, arrays, 2, 0, 1, &feed));
    EXPECT_OK(f.context, ls_feed_bind(feed, f.step));
    EXPECT_OK(f.context, ls_step_prepare(f.step));
    EXPECT_OK(f.context, ls_graph_begin(f.context));
    EXPECT_OK(f.context, ls_step_launch(f.step));
    EXPECT_OK(f.context, ls_graph_end(f.context, &graph));
    static const int64_t samples[] = {4, 4, 1, 3, 4};
    double total = 0;
    int64_t given = 0;
    EXPECT_OK(f.context, submit(feed, samples[0], 1));
    for (int i = 0; i < 5; i++) {
        if (i < 4) EXPECT_OK(f.context, submit(feed, samples[i + 1], i + 2));
        EXPECT_OK(f.context, ls_feed_next(feed));
        EXPECT_OK(f.context, ls_graph_launch(graph));
        total += (double)((i + 1) * samples[i] * (WIDTH + 1));
        given += samples[i];
    }
    expect_sums(&f, total, (int64_t)5 * BATCH, given);
    ls_feed_statistics statistics;
    ls_feed_stats(feed, &statistics);
    assert_int_equal(statistics.batches, 5);
    assert_int_equal(statistics.bytes, (uint64_t)given * (WIDTH + 1) * 4);
    assert_int_equal(statistics.slots, 3);
    assert_int_equal(statistics.waiting, 0);
    assert_int_equal(statistics.waits, ON_CPU ? 0 : 5 - 3);
    ls_graph_destroy(graph);
    ls_feed_destroy(feed);
    close_fixture(&f);
}

static void wrong_calls(void **state) {
    (void)state;
    Fixture f;
    ls_feed *feed;
    ls_graph *graph;
    ls_tensor tensor;
    open(&f);
    ls_context *c = f.context;
    static const int64_t other[] = {5}, none[] = {0}, negative[] = {4, -1};
    const ls_feed_array differ[] = {arrays[0], {"y", LS_I32, 1, other}};
    const ls_feed_array empty[] = {{"x", LS_F32, 1, none}}, below[] = {{"x", LS_F32, 2, negative}};
    const ls_feed_array rank[] = {{"x", LS_F32, 0, other}}, nameless[] = {{NULL, LS_F32, 1, other}};
    const ls_feed_array stranger[] = {{"z", LS_F32, 1, other}};
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_create(c, arrays, 0, 0, 0, &feed), "one array");
    assert_null(feed);
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_create(c, arrays, 2, 1, 0, &feed), "2 to 64");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_create(c, differ, 2, 0, 0, &feed),
                   "`y` has 5 samples in a batch, `x` has 4");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_create(c, empty, 1, 0, 0, &feed), "`x`");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_create(c, below, 1, 0, 0, &feed), "negative");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_create(c, rank, 1, 0, 0, &feed), "axes");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_create(c, nameless, 1, 0, 0, &feed), "name");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_feed_create(NULL, arrays, 2, 0, 0, &feed), "NULL");
    EXPECT_OK(c, ls_feed_create(c, stranger, 1, 0, 0, &feed));
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_bind(feed, f.step), "step `take`", "`z`");
    ls_feed_destroy(feed);
    EXPECT_OK(c, ls_feed_create(c, arrays, 2, 0, 0, &feed));
    EXPECT_FAILURE(c, LS_ERROR_STATE, ls_feed_submit(feed, 1), "ls_feed_acquire first");
    EXPECT_FAILURE(c, LS_ERROR_STATE, ls_feed_next(feed), "no batch is waiting");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, submit(feed, 0, 1), "1 to 4");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, submit(feed, 5, 1), "5 samples");
    EXPECT_FAILURE(c, LS_ERROR_ARGUMENT, ls_feed_tensor(feed, 2, &tensor), "no array 2");
    EXPECT_OK(c, submit(feed, 4, 1));
    EXPECT_OK(c, ls_graph_begin(c));
    EXPECT_FAILURE(c, LS_ERROR_STATE, ls_feed_next(feed), "ls_graph_begin");
    assert_int_equal(ls_graph_end(c, &graph), LS_ERROR_STATE);
    EXPECT_OK(c, ls_feed_next(feed));
    ls_feed_destroy(feed);
    ls_feed_destroy(NULL);
    close_fixture(&f);
}

static ls_status use(Fixture *f) {
    ls_feed *feed = NULL;
    ls_status status = ls_feed_create(f->context, arrays, 2, 0, 1, &feed);
    if (status == LS_OK) status = ls_feed_bind(feed, f->step);
    if (status == LS_OK) status = submit(feed, 2, 1);
    if (status == LS_OK) status = ls_feed_next(feed);
    ls_feed_destroy(feed);
    return status;
}

static void no_memory(void **state) {
    (void)state;
    Fixture f;
    open(&f);
    EXPECT_OK(f.context, use(&f)); /* what the step keeps */
    long n = 0, live = memory_live;
    for (bool reached = true; reached;) {
        memory_until_failure = ++n;
        ls_status status = use(&f);
        reached = memory_until_failure == 0;
        memory_until_failure = 0;
        if (status != LS_OK) assert_int_equal(status, LS_ERROR_MEMORY);
        assert_int_equal(memory_live, live);
    }
    assert_true(n > 10);
    close_fixture(&f);
}

/* ---- several producers ---- */

enum { PRODUCERS = 4, TICKETS = 40, SKIPPED = 7 };

/* Ticket t has a batch of t + 1 in each of its first 1 + t % BATCH samples; one in seven is
 * skipped.
 */
static bool produce_one(ls_feed *feed) {
    uint64_t ticket;
    void *host[2];
    if (ls_feed_claim(feed, &ticket, host) != LS_OK) return false;
    if (ticket >= TICKETS) {
        ls_feed_close(feed);
        ls_feed_deliver(feed, ticket, 0);
        return false;
    }
    const int64_t samples = 1 + (int64_t)(ticket % BATCH);
    nanosleep(&(struct timespec){.tv_nsec = (long)(ticket * 7919 % 5) * 200000}, NULL);
    for (int64_t i = 0; i < samples * WIDTH; i++) ((float *)host[0])[i] = (float)(ticket + 1);
    for (int64_t i = 0; i < samples; i++) ((int32_t *)host[1])[i] = (int32_t)ticket + 1;
    return ls_feed_deliver(feed, ticket, ticket % SKIPPED == SKIPPED - 1 ? 0 : samples) == LS_OK;
}

static void *produce(void *feed) {
    while (produce_one(feed)) continue;
    return NULL;
}

/* All batches come, in the order of their tickets. */
static void expect_in_order(Fixture *f, ls_feed *feed) {
    double total = 0, sum;
    ls_tensor y;
    for (uint64_t ticket = 0; ticket < TICKETS; ticket++) {
        if (ticket % SKIPPED == SKIPPED - 1) continue;
        const int64_t samples = 1 + (int64_t)(ticket % BATCH);
        EXPECT_OK(f->context, ls_feed_next(feed));
        EXPECT_OK(f->context, ls_feed_tensor(feed, 1, &y));
        assert_int_equal(y.shape[0], samples);
        EXPECT_OK(f->context, ls_step_launch(f->step));
        total += (double)((ticket + 1) * (uint64_t)samples * (WIDTH + 1));
        EXPECT_OK(f->context, ls_step_get(f->step, "total", &sum));
        assert_true(sum == total);
    }
    EXPECT_FAILURE(f->context, LS_ERROR_STATE, ls_feed_next(feed), "closed and has no more");
}

static void from_threads(void **state) {
    (void)state;
    Fixture f;
    ls_feed *feed;
    pthread_t threads[PRODUCERS];
    open(&f);
    for (uint32_t slots = 2; slots <= 5; slots += 3) {
        const double none = 0;
        EXPECT_OK(f.context, ls_step_set(f.step, "total", &none));
        EXPECT_OK(f.context, ls_feed_create(f.context, arrays, 2, slots, LS_FEED_THREADS, &feed));
        EXPECT_OK(f.context, ls_feed_bind(feed, f.step));
        for (int i = 0; i < PRODUCERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, produce, feed), 0);
        expect_in_order(&f, feed);
        for (int i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
        ls_feed_statistics statistics;
        ls_feed_stats(feed, &statistics);
        assert_int_equal(statistics.batches, TICKETS - TICKETS / SKIPPED);
        assert_true(statistics.producer_waits > 0 && statistics.producer_waited_ms > 0);
        assert_true(ON_CPU ? statistics.copies == 0 : statistics.copies >= statistics.batches);
        ls_feed_destroy(feed);
    }
    close_fixture(&f);
}

static void from_processes(void **state) {
    (void)state;
    CPU_ONLY();
    Fixture f;
    ls_feed *feed;
    pid_t workers[PRODUCERS];
    open(&f);
    EXPECT_OK(f.context, ls_feed_create(f.context, arrays, 2, 3, LS_FEED_PROCESSES, &feed));
    EXPECT_OK(f.context, ls_feed_bind(feed, f.step));
    for (int i = 0; i < PRODUCERS; i++) {
        workers[i] = fork();
        if (workers[i] == 0) _exit(produce(feed) != NULL);
    }
    expect_in_order(&f, feed);
    for (int i = 0; i < PRODUCERS; i++) {
        int status;
        assert_int_equal(waitpid(workers[i], &status, 0), workers[i]);
        assert_int_equal(status, 0);
    }
    ls_feed_destroy(feed);
    /* one that is killed with a ticket in its hand, after one that it has delivered */
    EXPECT_OK(f.context, ls_feed_create(f.context, arrays, 2, 3, LS_FEED_PROCESSES, &feed));
    pid_t worker = fork();
    if (worker == 0) {
        uint64_t ticket;
        void *host[2];
        produce_one(feed);
        ls_feed_claim(feed, &ticket, host);
        raise(SIGKILL);
    }
    EXPECT_OK(f.context, ls_feed_next(feed));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_feed_next(feed), "producer process",
                   "ended without delivering ticket 1");
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    ls_feed_destroy(feed);
    close_fixture(&f);
}

static void wrong_tickets(void **state) {
    (void)state;
    Fixture f;
    ls_feed *feed;
    uint64_t ticket;
    void *host[2];
    open(&f);
    EXPECT_FAILURE(f.context, LS_ERROR_ARGUMENT, ls_feed_create(f.context, arrays, 2, 3, 8, &feed),
                   "the flags are");
    EXPECT_OK(f.context, ls_feed_create(f.context, arrays, 2, 3, 0, &feed));
    EXPECT_FAILURE(NULL, LS_ERROR_STATE, ls_feed_claim(feed, &ticket, host), "LS_FEED_THREADS");
    EXPECT_FAILURE(NULL, LS_ERROR_STATE, ls_feed_deliver(feed, 0, 1), "LS_FEED_THREADS");
    EXPECT_FAILURE(NULL, LS_ERROR_STATE, ls_feed_close(feed), "LS_FEED_THREADS");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_feed_close(NULL), "NULL");
    ls_feed_destroy(feed);
    EXPECT_OK(f.context, ls_feed_create(f.context, arrays, 2, 3, LS_FEED_THREADS, &feed));
    EXPECT_FAILURE(f.context, LS_ERROR_STATE, ls_feed_acquire(feed, host), "ls_feed_claim");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_feed_claim(feed, NULL, host), "ticket is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_STATE, ls_feed_deliver(feed, 0, 1), "ticket 0 is not claimed");
    EXPECT_OK(NULL, ls_feed_claim(feed, &ticket, host));
    assert_int_equal(ticket, 0);
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_feed_deliver(feed, 0, BATCH + 1), "5 samples");
    EXPECT_OK(NULL, ls_feed_deliver(feed, 0, BATCH));
    EXPECT_FAILURE(NULL, LS_ERROR_STATE, ls_feed_deliver(feed, 0, 1), "delivered before");
    EXPECT_OK(NULL, ls_feed_close(feed));
    EXPECT_FAILURE(NULL, LS_ERROR_STATE, ls_feed_claim(feed, &ticket, host), "closed");
    EXPECT_OK(f.context, ls_feed_next(feed));
    ls_feed_destroy(feed);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place),      cmocka_unit_test(at_one_place),
        cmocka_unit_test(wrong_calls),   cmocka_unit_test(no_memory),
        cmocka_unit_test(from_threads),  cmocka_unit_test(from_processes),
        cmocka_unit_test(wrong_tickets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
