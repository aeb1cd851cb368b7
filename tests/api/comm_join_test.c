/* comm_join_test.c: how ranks of one machine come together: those that do not come, that come as
 * something else, that go away, and what is left of them. */
#include "fixtures.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static ls_status try_to_create(const ls_comm_options *options, char *message, size_t size) {
    ls_context *context;
    ls_comm *comm = NULL;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    ls_status status = ls_comm_create(context, "shm", options, &comm);
    snprintf(message, size, "%s", ls_error_message(context));
    ls_comm_destroy(comm);
    ls_context_destroy(context);
    return status;
}

/* Rank 1 in a child with its own options; gives whether its message has the words. */
static void with_child(const ls_comm_options *child, const char *child_words,
                       const ls_comm_options *own, const char *words) {
    char message[1024];
    fflush(NULL);
    const pid_t process = fork();
    if (process == 0) {
        ls_status status = try_to_create(child, message, sizeof message);
        _exit(status == LS_ERROR_COMM && strstr(message, child_words) ? 0 : 1);
    }
    ls_status status = try_to_create(own, message, sizeof message);
    int ended = 0;
    waitpid(process, &ended, 0);
    assert_int_equal(status, LS_ERROR_COMM);
    if (!strstr(message, words)) fail_msg("`%s` is not in: %s", words, message);
    assert_int_equal(ended, 0);
}

static int open_files(void) {
    int count = 0;
    for (int file = 0; file < 256; file++) count += fcntl(file, F_GETFD) >= 0;
    return count;
}

static void ranks_that_do_not_come(void **state) {
    char message[1024];
    ls_comm_id id;
    (void)state;
    const int before = open_files();
    EXPECT_OK(NULL, ls_comm_id_create(NULL, &id));
    const ls_comm_options missing = {.rank = 0, .size = 4, .id = &id, .timeout_s = 0.3};
    const ls_comm_options one = {.rank = 1, .size = 4, .id = &id, .timeout_s = 20};
    with_child(&one, "did not come: 2, 3", &missing, "did not come: 2, 3");
    const ls_comm_options alone = {.rank = 2, .size = 4, .id = &id, .timeout_s = 0.2};
    assert_int_equal(try_to_create(&alone, message, sizeof message), LS_ERROR_COMM);
    assert_non_null(strstr(message, "rank 0 of 4 was not there"));
    const ls_comm_options of_two = {.rank = 0, .size = 2, .id = &id, .timeout_s = 20};
    const ls_comm_options of_three = {.rank = 1, .size = 3, .id = &id, .timeout_s = 20};
    with_child(&of_three, "rank 1 of 3, where rank 0 is of 2", &of_two,
               "rank 1 of 3, where rank 0 is of 2");
    assert_int_equal(open_files(), before);
}

/* A rank that finds nobody closes what it has opened, whatever its memory held before. */
static void ranks_of_used_memory(void **state) {
    enum { BLOCKS = 16, SIZE = 16 };
    static int *blocks[BLOCKS];
    char message[1024];
    ls_comm_id id;
    (void)state;
    const int file = open("/dev/null", O_RDONLY);
    assert_true(file >= 0);
    EXPECT_OK(NULL, ls_comm_id_create(NULL, &id));
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE * sizeof **blocks);
        for (int k = 0; k < SIZE; k++) blocks[i][k] = file;
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    const ls_comm_options alone = {.rank = 2, .size = SIZE, .id = &id, .timeout_s = 0.05};
    assert_int_equal(try_to_create(&alone, message, sizeof message), LS_ERROR_COMM);
    assert_true(fcntl(file, F_GETFD) >= 0);
    close(file);
}

/* A rank that may open no file more than its connection, which the memory does not reach. */
static void ranks_without_handles(void **state) {
    char message[1024];
    ls_comm_id id;
    (void)state;
    EXPECT_OK(NULL, ls_comm_id_create(NULL, &id));
    const ls_comm_options host = {.rank = 0, .size = 2, .id = &id, .timeout_s = 20};
    const ls_comm_options guest = {.rank = 1, .size = 2, .id = &id, .timeout_s = 20};
    fflush(NULL);
    const pid_t process = fork();
    if (process == 0) {
        ls_context *context;
        ls_comm *comm = NULL;
        if (ls_context_create("cpu", NULL, &context) != LS_OK) _exit(1);
        const int lowest = dup(1);
        close(lowest);
        const struct rlimit few = {(rlim_t)lowest + 2, (rlim_t)lowest + 2};
        if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(2);
        const ls_status status = ls_comm_create(context, "shm", &guest, &comm);
        _exit(status == LS_ERROR_COMM && strstr(ls_error_message(context), "no memory came along")
                  ? 0
                  : 3);
    }
    int ended = 0;
    try_to_create(&host, message, sizeof message);
    waitpid(process, &ended, 0);
    assert_int_equal(ended, 0);
}

/* Rank 0 is watched by a handle of its process that may be any number, 0 where stdin is closed. */
static int killed_without_stdin(const ls_comm_options *options) {
    ls_context *context;
    ls_comm *comm;
    alarm(60);
    if (ls_context_create("cpu", NULL, &context) != LS_OK) return 1;
    if (options->rank == 0) close(0);
    if (ls_comm_create(context, "shm", options, &comm) != LS_OK) return 2;
    if (ls_comm_barrier(comm) != LS_OK) return 3;
    if (options->rank == 0) raise(SIGKILL);
    const time_t before = time(NULL);
    if (ls_comm_barrier(comm) != LS_ERROR_COMM) return 4;
    if (!strstr(ls_error_message(context), "rank 0 (process")) return 5;
    return time(NULL) - before < 5 ? 0 : 6;
}

static void kills_without_stdin(void **state) {
    ls_comm_id id;
    pid_t processes[2];
    (void)state;
    EXPECT_OK(NULL, ls_comm_id_create("shm", &id));
    fflush(NULL);
    for (int k = 0; k < 2; k++) {
        const ls_comm_options options = {.rank = k, .size = 2, .id = &id};
        processes[k] = fork();
        if (processes[k] == 0) _exit(killed_without_stdin(&options));
    }
    for (int k = 0; k < 2; k++) {
        int status = 0;
        waitpid(processes[k], &status, 0);
        assert_int_equal(status, k == 0 ? SIGKILL : 0);
    }
}

/* ---- threads of one process, of which one goes away ---- */

static int maps_of_ranks(void) {
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) count += strstr(line, "lockstep:comm") != NULL;
    fclose(file);
    return count;
}

static void *goes_away(void *options) {
    char message[1024];
    try_to_create(options, message, sizeof message);
    return NULL;
}

/* Rank 1, a thread beside rank 0, waits for less time than rank 2 takes. */
static void threads_that_go_away(void **state) {
    ls_comm_id id;
    pthread_t thread;
    (void)state;
    EXPECT_OK(NULL, ls_comm_id_create(NULL, &id));
    const ls_comm_options host = {.rank = 0, .size = 3, .id = &id, .timeout_s = 20};
    const ls_comm_options late = {.rank = 2, .size = 3, .id = &id, .timeout_s = 20};
    ls_comm_options gone = {.rank = 1, .size = 3, .id = &id, .timeout_s = 0.2};
    char message[1024];
    fflush(NULL);
    const pid_t process = fork();
    if (process == 0) {
        usleep(500000);
        const ls_status status = try_to_create(&late, message, sizeof message);
        _exit(status == LS_ERROR_COMM && strstr(message, "went away") ? 0 : 1);
    }
    assert_int_equal(pthread_create(&thread, NULL, goes_away, &gone), 0);
    assert_int_equal(try_to_create(&host, message, sizeof message), LS_ERROR_COMM);
    assert_non_null(strstr(message, "rank 1 (process"));
    pthread_join(thread, NULL);
    int ended = 0;
    waitpid(process, &ended, 0);
    assert_int_equal(ended, 0);
    assert_int_equal(maps_of_ranks(), 0); /* none is left of the memory that nobody shares */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_do_not_come), cmocka_unit_test(ranks_of_used_memory),
        cmocka_unit_test(ranks_without_handles),  cmocka_unit_test(kills_without_stdin),
        cmocka_unit_test(threads_that_go_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
