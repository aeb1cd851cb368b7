/* nccl_test.c: the engines "nccl" and "rccl" on stand-ins for the device and for the library: every
 * byte of every operation, also in graphs; ids; a trainer's communicator; each call of the library
 * failing once; a rank that does not come. Ranks are processes. */
#include "fixtures.h"
#include "comm_ranks.h"
#include "stand_in.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4 };

static void __attribute__((constructor)) choose_library(void) {
    setenv("LOCKSTEP_NCCL", NCCL_PATH, 1);
}

static void run_processes(int size, const char *id_of, double timeout_s, Scenario *scenario,
                          bool joins) {
    pid_t processes[RANKS];
    Rank rank = {.size = size, .timeout_s = timeout_s, .engine = API_ENGINE};
    EXPECT_OK(NULL, ls_comm_id_create(id_of, &rank.id));
    fflush(NULL);
    for (int k = 0; k < size; k++) {
        processes[k] = fork();
        assert_true(processes[k] >= 0);
        if (processes[k] > 0) continue;
        rank.rank = k;
        alarm(120); /* a test that hangs has failed */
        if (joins)
            rank_run(&rank, scenario);
        else
            scenario(&rank);
        if (rank.wrong[0]) fprintf(stderr, "%s\n", rank.wrong);
        fflush(NULL);
        exit(rank.wrong[0] != 0);
    }
    int failed = 0;
    for (int k = 0; k < size; k++) {
        int status = 0;
        assert_int_equal(waitpid(processes[k], &status, 0), processes[k]);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
}

static void every_byte(void **state) {
    static Scenario *const all[] = {all_to_all_of_many_sizes,  all_gather_of_uneven_parts,
                                    broadcasts_that_run_ahead, operations_in_a_graph,
                                    two_communicators,         random_operations,
                                    checks_of_arguments};
    static const int sizes[] = {1, 2, 4};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            run_processes(sizes[k], i % 2 ? API_ENGINE : "shm", 0, all[i], true);
}

static void large_sizes(void **state) {
    (void)state;
    run_processes(2, API_ENGINE, 0, beyond_two_to_the_31, true);
}

/* ---- beside the launches ---- */

/* The device's state; ranks are forked, and each has its own. */
static StandIn *device(void) {
    StandInFunction *stand_in = NULL;
    void *library = dlopen(STAND_IN_PATH, RTLD_NOW), *found = dlsym(library, "stand_in");
    memcpy(&stand_in, &found, sizeof found);
    return stand_in();
}

/* Streams that run late, each in an order of its own: see late.h. */
static void in_any_order(void **state) {
    static const uint64_t seeds[] = {0, 1, 2, 3, 4, 5, 6, 7};
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        device()->seed = seeds[i];
        run_processes(2 + 2 * (int)(i % 2), API_ENGINE, 0, exchanges_beside_launches, true);
    }
    device()->seed = 0;
}

/* Operations are watched by events that are used again: there are as many as are under way, however
 * many operations there are. */
static void uses_events_again(Rank *rank) {
    const long before = device()->events;
    char *memory = NULL;
    WORKS(ls_alloc(rank->context, (uint64_t)rank->size, (void **)&memory));
    ls_comm_piece pieces[RANKS];
    ls_comm_part parts[RANKS];
    for (int k = 0; k < rank->size; k++) {
        pieces[k] = (ls_comm_piece){memory + k, 1};
        parts[k] = (ls_comm_part){&pieces[k], 1};
    }
    for (int i = 0; i < 400; i++) {
        WORKS(ls_comm_all_gather(rank->comm, parts));
        if (i % 50 == 0) WORKS(ls_synchronize(rank->context));
    }
    WORKS(ls_synchronize(rank->context));
    HOLDS(device()->events <= before + 128);
    ls_free(rank->context, memory);
}

static void many_operations(void **state) {
    (void)state;
    run_processes(2, API_ENGINE, 0, uses_events_again, true);
}

enum { FEW = 1000 };
typedef struct Beside { /* an exchange of one value with each rank */
    char *out, *in;
    ls_comm_piece pieces[2][RANKS];
    ls_comm_part send[RANKS], receive[RANKS];
    int seen; /* what host work between begin and wait found in `in`; -1: it did not run */
} Beside;

static void look(void *argument, uint64_t first, uint64_t last) {
    Beside *beside = argument;
    (void)first, (void)last;
    beside->seen = beside->in[0] | beside->in[RANKS * FEW - 1];
}

static void open_beside(Rank *rank, Beside *beside) {
    char values[RANKS * FEW];
    void *memory[2] = {NULL, NULL};
    memset(values, rank->rank + 1, sizeof values);
    for (int i = 0; i < 2; i++) WORKS(ls_alloc(rank->context, sizeof values, &memory[i]));
    *beside = (Beside){.out = memory[0], .in = memory[1], .seen = -1};
    WORKS(ls_copy_in(rank->context, beside->out, values, sizeof values));
    memset(values, 0, sizeof values);
    WORKS(ls_copy_in(rank->context, beside->in, values, sizeof values));
    for (int k = 0; k < rank->size; k++) {
        beside->pieces[0][k] = (ls_comm_piece){beside->out + k * FEW, FEW};
        beside->pieces[1][k] = (ls_comm_piece){beside->in + k * FEW, FEW};
        beside->send[k] = (ls_comm_part){&beside->pieces[0][k], 1};
        beside->receive[k] = (ls_comm_part){&beside->pieces[1][k], 1};
    }
    beside->pieces[0][rank->rank].bytes = beside->pieces[1][rank->rank].bytes = 0;
}

static bool has_come(Rank *rank, const Beside *beside) {
    char values[RANKS * FEW];
    bool all = true;
    WORKS(ls_copy_out(rank->context, values, beside->in, sizeof values));
    for (int i = 0; i < rank->size * FEW; i++)
        all &= values[i] == (i / FEW == rank->rank ? 0 : i / FEW + 1);
    return all;
}

static void close_beside(Rank *rank, const Beside *beside) {
    ls_free(rank->context, beside->out);
    ls_free(rank->context, beside->in);
}

/* Nothing that is begun runs before it must (seed 0), and so what is launched behind it runs while
 * it is still to come: it holds nothing up, at once and in a graph. */
static void launches_go_on(Rank *rank) {
    Beside beside;
    const ls_host_work work = {look, &beside, 1};
    ls_graph *graph = NULL;
    for (int captured = 0; captured < 2; captured++) {
        open_beside(rank, &beside);
        if (captured) WORKS(ls_graph_begin(rank->context));
        WORKS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive));
        WORKS(ls_host_call(rank->context, &work));
        if (!captured) WORKS(ls_synchronize(rank->context));
        HOLDS(beside.seen == (captured ? -1 : 0));
        WORKS(ls_comm_wait(rank->comm));
        if (captured) WORKS(ls_graph_end(rank->context, &graph));
        if (captured) WORKS(ls_graph_launch(graph));
        HOLDS(has_come(rank, &beside) && beside.seen == 0);
        ls_graph_destroy(graph);
        close_beside(rank, &beside);
    }
}

/* A graph begins behind what was begun before it, and ends behind what was begun in it. */
static void graphs_wait(Rank *rank) {
    Beside beside;
    ls_comm_piece pieces[RANKS];
    ls_comm_part parts[RANKS];
    char values[RANKS * FEW];
    ls_graph *graph = NULL;
    open_beside(rank, &beside);
    WORKS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive));
    WORKS(ls_graph_begin(rank->context));
    for (int k = 0; k < rank->size; k++) {
        pieces[k] = (ls_comm_piece){beside.out + k * FEW, FEW};
        parts[k] = (ls_comm_part){&pieces[k], 1};
    }
    WORKS(ls_comm_begin_all_gather(rank->comm, parts));
    WORKS(ls_graph_end(rank->context, &graph));
    HOLDS(has_come(rank, &beside));
    WORKS(ls_graph_launch(graph));
    WORKS(ls_copy_out(rank->context, values, beside.out, sizeof values));
    for (int k = 0; k < rank->size; k++) HOLDS(values[k * FEW] == k + 1);
    ls_graph_destroy(graph);
    close_beside(rank, &beside);
}

/* A communicator that goes takes what it began to its end. */
static void goes_with_what_it_began(Rank *rank) {
    Beside beside;
    open_beside(rank, &beside);
    WORKS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive));
    ls_comm_destroy(rank->comm);
    rank->comm = NULL;
    HOLDS(has_come(rank, &beside));
    close_beside(rank, &beside);
}

/* Each call that it takes fails on all ranks, which say so and can go on. */
static void calls_of_the_device_fail(Rank *rank) {
    static const GpuVerb verbs[] = {VERB_event_create, VERB_stream_create, VERB_event_record,
                                    VERB_stream_wait};
    Beside beside;
    open_beside(rank, &beside);
    device()->fail_with = STAND_IN_ERROR;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        device()->fail_verb = verbs[i];
        HOLDS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive) == LS_ERROR_DEVICE);
    }
    device()->fail_verb = 0;
    WORKS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive));
    for (size_t i = 2; i < sizeof verbs / sizeof *verbs; i++) {
        device()->fail_verb = verbs[i];
        HOLDS(ls_comm_wait(rank->comm) == LS_ERROR_DEVICE);
    }
    device()->fail_verb = 0;
    WORKS(ls_comm_wait(rank->comm));
    HOLDS(has_come(rank, &beside));
    close_beside(rank, &beside);
}

/* A program that captures a stream of its own, which the context works on. */
static void captures_of_the_program(Rank *rank) {
    const Driver *driver = rank->context->driver;
    Device *gpu = rank->context->device;
    void *stream = NULL;
    size_t nodes;
    Beside beside;
    open_beside(rank, &beside);
    WORKS(driver->stream_create(gpu, &stream));
    WORKS(ls_context_use_stream(rank->context, stream));
    WORKS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive));
    WORKS(driver->capture_begin(gpu));
    HOLDS(ls_comm_wait(rank->comm) == LS_ERROR_STATE);
    HOLDS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive) == LS_ERROR_STATE);
    HOLDS(strstr(ls_error_message(rank->context), "call ls_comm_wait ahead of the capture"));
    WORKS(driver->capture_end(gpu, NULL, &nodes));
    WORKS(ls_comm_wait(rank->comm));
    HOLDS(has_come(rank, &beside));
    WORKS(driver->capture_begin(gpu));
    WORKS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive));
    HOLDS(driver->capture_end(gpu, NULL, &nodes) == LS_ERROR_DEVICE); /* a branch is left */
    WORKS(driver->capture_begin(gpu));                                /* the next is as any */
    WORKS(ls_comm_all_to_all(rank->comm, beside.send, beside.receive));
    WORKS(ls_comm_begin_all_to_all(rank->comm, beside.send, beside.receive));
    WORKS(ls_comm_wait(rank->comm));
    WORKS(driver->capture_end(gpu, NULL, &nodes));
    close_beside(rank, &beside);
    WORKS(ls_context_use_stream(rank->context, NULL));
    driver->stream_destroy(gpu, stream);
}

static void beside_launches(void **state) {
    (void)state;
    run_processes(3, API_ENGINE, 0, launches_go_on, true);
    run_processes(3, API_ENGINE, 0, graphs_wait, true);
    run_processes(2, API_ENGINE, 0, goes_with_what_it_began, true);
    run_processes(2, API_ENGINE, 0, calls_of_the_device_fail, true);
    run_processes(2, API_ENGINE, 0, captures_of_the_program, true);
}

/* ---- a communicator of the trainer's ---- */

typedef struct NcclId {
    char internal[128];
} NcclId;

static void of_the_trainer(Rank *rank) {
    NcclId id;
    void *handle = NULL, *library = dlopen(NCCL_PATH, RTLD_NOW);
    int (*init)(void **, int, NcclId, int) = NULL;
    int (*destroy)(void *) = NULL;
    void *calls[2] = {dlsym(library, "ncclCommInitRank"), dlsym(library, "ncclCommDestroy")};
    memcpy(&init, &calls[0], sizeof init);
    memcpy(&destroy, &calls[1], sizeof destroy);
    memcpy(&id, &rank->id, sizeof id);
    WORKS(ls_context_create("cpu", NULL, &rank->context));
    HOLDS(init(&handle, rank->size, id, rank->rank) == 0);
    WORKS(ls_comm_import(rank->context, API_ENGINE, &handle, &rank->comm));
    if (!rank->comm) return;
    HOLDS(ls_comm_rank(rank->comm) == rank->rank && ls_comm_size(rank->comm) == rank->size);
    all_gather_of_uneven_parts(rank);
    ls_comm_destroy(rank->comm);
    HOLDS(destroy(handle) == 0); /* it is still there */
    ls_context_destroy(rank->context);
}

static void imported(void **state) {
    (void)state;
    run_processes(3, API_ENGINE, 0, of_the_trainer, false);
}

/* ---- failures ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The library's call does not return before its communicator is aborted. */
static void call_that_hangs(Rank *rank) {
    WORKS(ls_comm_barrier(rank->comm));
    setenv("STAND_IN_NCCL_HANG", "on", 1);
    const double before = seconds();
    const ls_status status = ls_comm_barrier(rank->comm);
    HOLDS(rank_failed(rank, status, "waited for 0.5 s in operation 2, barrier"));
    HOLDS(seconds() - before < 3);
    HOLDS(ls_comm_barrier(rank->comm) == LS_ERROR_COMM);
    HOLDS(ls_comm_check(rank->comm) == LS_ERROR_COMM);
    HOLDS(ls_synchronize(rank->context) == LS_ERROR_COMM);
}

/* The kernels of the others would wait for ever; the library says so. */
static void rank_that_does_not_come(Rank *rank) {
    WORKS(ls_comm_barrier(rank->comm));
    if (rank->rank == rank->size - 1) return;
    HOLDS(rank_failed(rank, ls_comm_barrier(rank->comm), "the library reports: remote process"));
    HOLDS(ls_synchronize(rank->context) == LS_ERROR_COMM);
}

static void *abort_soon(void *argument) {
    usleep(200000);
    ls_comm_abort(argument, "no more data");
    return NULL;
}

/* From another thread, while an operation waits. */
static void rank_that_aborts(Rank *rank) {
    pthread_t thread;
    WORKS(ls_comm_barrier(rank->comm));
    if (rank->rank == 1) usleep(600000);
    HOLDS(rank->rank == 1 || pthread_create(&thread, NULL, abort_soon, rank->comm) == 0);
    const ls_status status = ls_comm_barrier(rank->comm);
    HOLDS(rank_failed(rank, status, rank->rank == 0 ? "rank 0 aborted: no more data" : "rank"));
    if (rank->rank == 0) pthread_join(thread, NULL);
}

static void time_outs(void **state) {
    (void)state;
    run_processes(3, API_ENGINE, 0.5, call_that_hangs, true);
    run_processes(3, API_ENGINE, 0, rank_that_does_not_come, true);
    run_processes(2, API_ENGINE, 0, rank_that_aborts, true);
}

static const char *failing, *failing_words; /* call, and what is told of it */

/* On rank 0 it fails, and says so; the others are not left waiting. */
static void with_a_failing_call(Rank *rank) {
    const ls_comm_options options = {
        .rank = rank->rank, .size = rank->size, .id = &rank->id, .timeout_s = 1};
    ls_comm *comm = NULL;
    setenv("STAND_IN_NCCL_TIMEOUT", "1", 1);
    if (rank->rank == 0) setenv("STAND_IN_NCCL_FAIL", failing, 1);
    WORKS(ls_context_create("cpu", NULL, &rank->context));
    ls_status status = ls_comm_create(rank->context, API_ENGINE, &options, &comm);
    if (status == LS_OK) status = ls_comm_barrier(comm);
    HOLDS(rank_failed(rank, status, rank->rank == 0 ? failing_words : ""));
    HOLDS(rank->rank > 0 || strstr(ls_error_message(rank->context), "system error"));
    ls_comm_destroy(comm);
    ls_context_destroy(rank->context);
}

/* A communicator whose end fails is gone all the same, and the next is as any. */
static void with_a_failing_end(Rank *rank) {
    if (rank->rank == 0) setenv("STAND_IN_NCCL_FAIL", "ncclCommDestroy", 1);
    two_communicators(rank);
}

static void failing_calls(void **state) {
    static const struct {
        const char *call, *words;
    } rows[] = {{"ncclGetUniqueId", NULL},
                {"ncclCommInitRank", NULL},
                {"ncclCommCount", NULL},
                {"ncclCommUserRank", NULL},
                {"ncclGroupStart", NULL},
                {"ncclSend", NULL},
                {"ncclRecv", NULL},
                {"ncclGroupEnd", NULL},
                {"ncclCommGetAsyncError", "the library reports"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        failing = rows[i].call;
        failing_words = rows[i].words ? rows[i].words : failing;
        run_processes(2, "shm", 0, with_a_failing_call, false);
    }
    run_processes(2, API_ENGINE, 0, with_a_failing_end, true);
}

static void refused(void **state) {
    ls_context *context;
    ls_comm *comm;
    ls_comm_id id;
    (void)state;
    EXPECT_OK(NULL, ls_context_create("cpu:0", NULL, &context));
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_comm_create(context, API_ENGINE, NULL, &comm),
                   "engine " API_ENGINE, "this context's is cpu");
    setenv("LOCKSTEP_NCCL", "/nowhere/libnccl.so", 1);
    EXPECT_FAILURE(NULL, LS_ERROR_UNSUPPORTED, ls_comm_id_create(API_ENGINE, &id), "LOCKSTEP_NCCL",
                   "/nowhere/libnccl.so");
    setenv("LOCKSTEP_NCCL", STAND_IN_PATH, 1);
    EXPECT_FAILURE(NULL, LS_ERROR_UNSUPPORTED, ls_comm_id_create(API_ENGINE, &id),
                   "the library has no ncclGetUniqueId");
    setenv("LOCKSTEP_NCCL", NCCL_PATH, 1);
    ls_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte),      cmocka_unit_test(in_any_order),
        cmocka_unit_test(beside_launches), cmocka_unit_test(imported),
        cmocka_unit_test(time_outs),       cmocka_unit_test(refused),
        cmocka_unit_test(failing_calls),   cmocka_unit_test(large_sizes),
        cmocka_unit_test(many_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
