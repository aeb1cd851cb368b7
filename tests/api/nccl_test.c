/* nccl_test.c: the engines "nccl" and "rccl" on stand-ins for the device and for the library: every
 * byte of every operation, also in graphs; ids; a trainer's communicator; each call of the library
 * failing once; a rank that does not come. Ranks are processes. */
#include "fixtures.h"
#include "comm_ranks.h"

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

static const char *failing; /* call */

/* On rank 0 it fails, and says so; the others are not left waiting. */
static void with_a_failing_call(Rank *rank) {
    const ls_comm_options options = {
        .rank = rank->rank, .size = rank->size, .id = &rank->id, .timeout_s = 1};
    ls_comm *comm = NULL;
    if (rank->rank == 0) setenv("STAND_IN_NCCL_FAIL", failing, 1);
    WORKS(ls_context_create("cpu", NULL, &rank->context));
    ls_status status = ls_comm_create(rank->context, API_ENGINE, &options, &comm);
    if (status == LS_OK) status = ls_comm_barrier(comm);
    HOLDS(rank_failed(rank, status, rank->rank == 0 ? failing : ""));
    HOLDS(rank->rank > 0 || strstr(ls_error_message(rank->context), "system error"));
    ls_comm_destroy(comm);
    ls_context_destroy(rank->context);
}

static void failing_calls(void **state) {
    static const char *const calls[] = {"ncclGetUniqueId",  "ncclCommInitRank", "ncclCommCount",
                                        "ncclCommUserRank", "ncclGroupStart",   "ncclSend",
                                        "ncclRecv",         "ncclGroupEnd"};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        failing = calls[i];
        run_processes(2, "shm", 0, with_a_failing_call, false);
    }
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
        cmocka_unit_test(every_byte), cmocka_unit_test(imported),      cmocka_unit_test(time_outs),
        cmocka_unit_test(refused),    cmocka_unit_test(failing_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
