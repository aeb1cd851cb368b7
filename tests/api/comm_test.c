/* comm_test.c: communicators between processes of this machine: every byte of every operation,
 * launchers' environments, ranks that are killed, that do not come, that do something else. */
#include "fixtures.h"
#include "comm_ranks.h"
#include "failing_memory.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE_MAX_TESTED = 8 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Ends a rank's process; what was wrong goes to stderr. */
static void end_rank(const Rank *rank) {
    if (rank->wrong[0]) fprintf(stderr, "%s\n", rank->wrong);
    fflush(NULL);
    exit(rank->wrong[0] != 0); /* devices that stand in look for leaks */
}

static pid_t start_rank(const Rank *rank, Scenario *scenario) {
    fflush(NULL);
    const pid_t process = fork();
    if (process != 0) return process;
    Rank own = *rank;
    alarm(120); /* a test that hangs has failed */
    rank_run(&own, scenario);
    end_rank(&own);
    return 0;
}

/* Every rank a process; `killed` of them are to end by SIGKILL. */
static void run_processes(int size, double timeout_s, Scenario *scenario, int killed) {
    pid_t processes[SIZE_MAX_TESTED];
    Rank rank = {.size = size, .timeout_s = timeout_s};
    EXPECT_OK(NULL, ls_comm_id_create("shm", &rank.id));
    for (int k = size - 1; k >= 0; k--) {
        rank.rank = k;
        processes[k] = start_rank(&rank, scenario);
        assert_true(processes[k] > 0);
    }
    int failed = 0, killed_here = 0;
    for (int k = 0; k < size; k++) {
        int status = 0;
        assert_int_equal(waitpid(processes[k], &status, 0), processes[k]);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            killed_here++;
        else
            failed += status != 0;
    }
    assert_int_equal(failed, 0);
    assert_int_equal(killed_here, killed);
}

static void every_scenario(void **state) {
    static const int sizes[] = {1, 2, 3, 8};
    (void)state;
    for (size_t i = 0; i < scenario_count; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            run_processes(sizes[k], 0, scenarios[i].scenario, 0);
}

static void failures(void **state) {
    static Scenario *const failing[] = {fails_of_different_operations, fails_of_different_roots,
                                        fails_of_sizes, abort_of_the_last};
    (void)state;
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        run_processes(2, 0, failing[i], 0);
        run_processes(5, 0, failing[i], 0);
    }
    run_processes(3, 0, rank_that_leaves, 0);
    run_processes(3, 0.5, rank_that_keeps_others_waiting, 0);
}

/* ---- a rank that is killed ---- */

static void killed_between(Rank *rank) {
    WORKS(ls_comm_barrier(rank->comm));
    if (rank->rank == 1) raise(SIGKILL);
    const double before = seconds();
    const ls_status status = ls_comm_barrier(rank->comm);
    HOLDS(rank_failed(rank, status, "rank 1 (process"));
    HOLDS(seconds() - before < 5);
    HOLDS(rank_failed(rank, ls_comm_check(rank->comm), "ended while rank"));
}

/* In the middle of a large transfer, at a time that differs from rank to rank. */
static void killed_within(Rank *rank) {
    const uint64_t bytes = 64 << 20;
    ls_comm_piece pieces[SIZE_MAX_TESTED];
    ls_comm_part parts[SIZE_MAX_TESTED];
    char *memory = calloc(1, bytes);
    void *device = NULL;
    WORKS(ls_alloc(rank->context, bytes, &device));
    for (int k = 0; k < rank->size; k++) {
        const uint64_t share = bytes / (uint64_t)rank->size;
        pieces[k] = (ls_comm_piece){(char *)device + share * (uint64_t)k, share};
        parts[k] = (ls_comm_part){&pieces[k], 1};
    }
    WORKS(ls_comm_barrier(rank->comm));
    const pid_t killer = rank->rank == rank->size - 1 ? fork() : -1;
    if (killer == 0) {
        usleep(20000);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    ls_status status = LS_OK;
    const double before = seconds();
    while (status == LS_OK && seconds() - before < 20)
        status = ls_comm_all_gather(rank->comm, parts);
    HOLDS(rank_failed(rank, status, "ended while rank"));
    free(memory);
    ls_free(rank->context, device);
}

/* What was begun fails where it is waited for. */
static void killed_beside(Rank *rank) {
    static char memory[SIZE_MAX_TESTED];
    ls_comm_piece pieces[SIZE_MAX_TESTED];
    ls_comm_part parts[SIZE_MAX_TESTED];
    for (int k = 0; k < rank->size; k++) {
        pieces[k] = (ls_comm_piece){memory + k, 1};
        parts[k] = (ls_comm_part){&pieces[k], 1};
    }
    WORKS(ls_comm_barrier(rank->comm));
    if (rank->rank == 1) raise(SIGKILL);
    WORKS(ls_comm_begin_all_gather(rank->comm, parts));
    HOLDS(rank_failed(rank, ls_comm_wait(rank->comm), "rank 1 (process"));
    HOLDS(rank_failed(rank, ls_comm_begin_all_gather(rank->comm, parts), "rank 1 (process"));
}

/* A communicator that goes while something is under way. */
static void leaves_what_it_began(Rank *rank) {
    static char memory[SIZE_MAX_TESTED];
    ls_comm_piece pieces[SIZE_MAX_TESTED];
    ls_comm_part parts[SIZE_MAX_TESTED];
    for (int k = 0; k < rank->size; k++) {
        pieces[k] = (ls_comm_piece){memory + k, 1};
        parts[k] = (ls_comm_part){&pieces[k], 1};
    }
    if (rank->rank == 0) WORKS(ls_comm_begin_all_gather(rank->comm, parts));
    const double before = seconds();
    if (rank->rank == 0) ls_comm_destroy(rank->comm);
    if (rank->rank == 0) rank->comm = NULL;
    HOLDS(seconds() - before < 5);
    if (rank->rank > 0) usleep(50000);
    if (rank->rank > 0) HOLDS(ls_comm_all_gather(rank->comm, parts) == LS_ERROR_COMM);
}

static void kills(void **state) {
    (void)state;
    run_processes(2, 0, killed_between, 1);
    run_processes(8, 0, killed_between, 1);
    run_processes(3, 0, killed_within, 1);
}

static void kills_beside(void **state) {
    (void)state;
    CPU_ONLY();
    run_processes(3, 0, killed_beside, 1);
    run_processes(3, 0, leaves_what_it_began, 0);
}

/* ---- a file of all ranks, one of which is killed while they write it ---- */

enum { GENERATION_BYTES = 3 << 14, KILLS = 24 };
static char file_path[64];
static int victim, victim_us;

/* File after file, whose bytes are all the number of the file. */
static void killed_while_writing(Rank *rank) {
    char own[256];
    ls_status status = LS_OK;
    const pid_t killer = rank->rank == victim ? fork() : -1;
    if (killer == 0) {
        usleep((useconds_t)victim_us);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    const double before = seconds();
    for (int generation = 1; status == LS_OK && seconds() - before < 20; generation++) {
        ls_comm_file *file = NULL;
        memset(own, generation, sizeof own);
        status = ls_comm_file_create(rank->comm, file_path, GENERATION_BYTES, &file);
        if (status != LS_OK) break;
        for (int i = rank->rank; i < GENERATION_BYTES / 256; i += rank->size)
            WORKS(ls_comm_file_write(file, (uint64_t)i * 256, own, sizeof own));
        status = ls_comm_file_close(file, 1);
    }
    HOLDS(rank_failed(rank, status, "ended while rank"));
}

/* One generation, whole, and nothing beside it. */
static void check_file(void) {
    char pattern[80];
    glob_t found;
    FILE *file = fopen(file_path, "rb");
    assert_non_null(file);
    const int first = fgetc(file);
    for (int i = 1; i < GENERATION_BYTES; i++) assert_int_equal(fgetc(file), first);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    snprintf(pattern, sizeof pattern, "%s.*", file_path);
    assert_int_equal(glob(pattern, 0, NULL, &found), GLOB_NOMATCH);
    globfree(&found);
}

static void kills_while_writing(void **state) {
    (void)state;
    CPU_ONLY();
    snprintf(file_path, sizeof file_path, "comm_test.%ld", (long)getpid());
    FILE *file = fopen(file_path, "wb");
    assert_non_null(file);
    for (int i = 0; i < GENERATION_BYTES; i++) fputc(0, file);
    fclose(file);
    srand(7);
    for (int i = 0; i < KILLS; i++) {
        victim = i % 3;
        victim_us = rand() % 12000;
        run_processes(3, 0, killed_while_writing, 1);
        check_file();
    }
    unlink(file_path);
}

/* ---- traces, of ranks whose clocks differ ---- */

static double clock_ahead_us; /* of this process's */
double __real_time_us(void);
double __wrap_time_us(void);
double __wrap_time_us(void) {
    return __real_time_us() + clock_ahead_us;
}

enum { BARRIERS = 5, TRACED = 3 };
static char trace_path[64];
static double hours_apart;

static void traced(Rank *rank) {
    HOLDS(ls_comm_trace(rank->comm, NULL) == LS_ERROR_ARGUMENT);
    if (rank->rank > 0) WORKS(ls_profile_begin(rank->context));
    if (rank->rank > 0) WORKS(ls_profile_end(rank->context));
    HOLDS(ls_comm_trace(rank->comm, trace_path) == LS_ERROR_STATE);
    HOLDS(strstr(ls_error_message(rank->context), "rank 0 of 3 has no profile") != NULL);
    clock_ahead_us = hours_apart * rank->rank * 3.6e9;
    WORKS(ls_profile_begin(rank->context));
    for (int i = 0; i < BARRIERS; i++) {
        usleep((useconds_t)((rank->rank + i) % 3 * 3000));
        WORKS(ls_comm_barrier(rank->comm));
    }
    WORKS(ls_profile_end(rank->context));
    WORKS(ls_comm_trace(rank->comm, trace_path));
    ls_profile_row rows[4];
    const size_t count = ls_profile_rows(rank->context, rows, 4);
    HOLDS(count == 1 && strcmp(rows[0].step, "ls_comm_barrier") == 0);
    HOLDS(rows[0].bytes_read == 0 && rows[0].bytes_written == 0); /* of the device's memory */
}

static bool no_stream;
FILE *__real_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size) {
    return no_stream ? NULL : __real_open_memstream(text, size);
}

/* One rank has no memory for its part: all give the file up. */
static void traced_without_memory(Rank *rank) {
    WORKS(ls_profile_begin(rank->context));
    WORKS(ls_comm_barrier(rank->comm));
    WORKS(ls_profile_end(rank->context));
    no_stream = rank->rank == 1;
    HOLDS(ls_comm_trace(rank->comm, trace_path) == LS_ERROR_MEMORY);
    HOLDS(strstr(ls_error_message(rank->context), "the host of a rank ran out of memory") != NULL);
    HOLDS(access(trace_path, F_OK) != 0);
}

/* All ranks are in each barrier at one time of the common clock, which is off by at most *off. */
static void check_trace(double *off) {
    double last_in[BARRIERS] = {0}, first_out[BARRIERS];
    int count[TRACED] = {0}, names = 0;
    char line[4096];
    FILE *file = fopen(trace_path, "rb");
    assert_non_null(file);
    *off = 0;
    for (int i = 0; i < BARRIERS; i++) first_out[i] = 1e300;
    while (fgets(line, sizeof line, file)) {
        const char *label = strstr(line, "clock within ");
        const char *event = strstr(line, "\"name\": \"ls_comm_barrier\", \"cat\": \"host\"");
        const char *at = event ? strstr(event, "\"pid\"") : NULL;
        int process = 0, track = 0;
        double ts = 0, duration = 0;
        names += strstr(line, "\"name\": \"rank ") != NULL;
        if (label && atof(label + 13) > *off) *off = atof(label + 13);
        if (!at) continue;
        assert_int_equal(sscanf(at, "\"pid\": %d, \"tid\": %d, \"ts\": %lf, \"dur\": %lf", &process,
                                &track, &ts, &duration),
                         4);
        assert_true(process >= 1 && process <= TRACED && ts >= 0 && ts < 60e6);
        const int i = count[process - 1]++;
        assert_true(i < BARRIERS);
        if (ts > last_in[i]) last_in[i] = ts;
        if (ts + duration < first_out[i]) first_out[i] = ts + duration;
    }
    fclose(file);
    assert_int_equal(names, TRACED);
    for (int i = 0; i < TRACED; i++) assert_int_equal(count[i], BARRIERS);
    for (int i = 0; i < BARRIERS; i++) assert_true(last_in[i] <= first_out[i] + 2 * *off + 1);
}

static void traces(void **state) {
    double off;
    (void)state;
    CPU_ONLY();
    snprintf(trace_path, sizeof trace_path, "comm_test.%ld.json", (long)getpid());
    run_processes(TRACED, 0, traced, 0);
    check_trace(&off);
    assert_true(off == 0); /* one clock */
    hours_apart = 1;
    run_processes(TRACED, 0, traced, 0);
    check_trace(&off);
    assert_true(off > 0 && off < 1e6);
    unlink(trace_path);
    run_processes(TRACED, 0, traced_without_memory, 0);
}

/* ---- in a graph ---- */

/* The replay's call has the failure, or where the device runs on its own ls_synchronize. */
static void killed_in_a_graph(Rank *rank) {
    ls_graph *graph = NULL;
    WORKS(ls_graph_begin(rank->context));
    WORKS(ls_comm_barrier(rank->comm));
    WORKS(ls_graph_end(rank->context, &graph));
    if (!graph) return;
    WORKS(ls_graph_launch(graph));
    WORKS(ls_synchronize(rank->context));
    if (rank->rank == 0) raise(SIGKILL);
    ls_status status = ls_graph_repeat(graph, 3);
    if (status == LS_OK) status = ls_synchronize(rank->context);
    HOLDS(rank_failed(rank, status, "rank 0 (process"));
    HOLDS(rank_failed(rank, ls_comm_barrier(rank->comm), "rank 0 (process"));
    ls_graph_destroy(graph);
}

static void failures_in_graphs(void **state) {
    (void)state;
    run_processes(3, 0, killed_in_a_graph, 1);
}

static void large_sizes(void **state) {
    (void)state;
    CPU_ONLY();
    run_processes(2, 0, beyond_two_to_the_31, 0);
}

/* ---- what is asked for ---- */

static void wrong_options(void **state) {
    ls_context *context;
    ls_comm *comm;
    ls_comm_id id;
    (void)state;
    EXPECT_OK(NULL, ls_comm_id_create("shm", &id));
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    EXPECT_FAILURE(NULL, LS_ERROR_UNSUPPORTED, ls_comm_id_create("avian", &id), "`avian`");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_comm_id_create("shm", NULL), "id is NULL");
    EXPECT_FAILURE(NULL, LS_ERROR_ARGUMENT, ls_comm_create(NULL, NULL, NULL, &comm), "context");
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_comm_create(context, NULL, NULL, NULL), "comm");
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_comm_create(context, "avian", NULL, &comm),
                   "`avian`", "self, shm, mpi, nccl and rccl");
    assert_null(comm);
    const struct {
        ls_comm_options options;
        ls_status status;
        const char *words;
    } cases[] = {
        {{.rank = 1}, LS_ERROR_ARGUMENT, "size is not"},
        {{.rank = 2, .size = 2, .id = &id}, LS_ERROR_ARGUMENT, "rank is 2 and size 2"},
        {{.rank = -1, .size = 2, .id = &id}, LS_ERROR_ARGUMENT, "rank is -1"},
        {{.size = -2, .id = &id}, LS_ERROR_ARGUMENT, "size -2"},
        {{.size = 2}, LS_ERROR_ARGUMENT, "ls_comm_id_create"},
        {{.size = 2, .id = &id, .timeout_s = -1}, LS_ERROR_ARGUMENT, "timeout_s"},
        {{.size = 241, .id = &id}, LS_ERROR_UNSUPPORTED, "at most 240 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EXPECT_FAILURE(context, cases[i].status,
                       ls_comm_create(context, NULL, &cases[i].options, &comm), cases[i].words);
    const ls_comm_options two = {.size = 2, .id = &id};
    EXPECT_FAILURE(context, LS_ERROR_UNSUPPORTED, ls_comm_create(context, "self", &two, &comm),
                   "self joins at most 1 rank");
    EXPECT_OK(context, ls_comm_create(context, NULL, NULL, &comm));
    assert_string_equal(ls_comm_engine(comm), "self");
    ls_comm_abort(comm, NULL);
    EXPECT_FAILURE(context, LS_ERROR_COMM, ls_comm_barrier(comm), "rank 0 aborted");
    ls_comm_destroy(comm);
    ls_comm_destroy(NULL);
    ls_context_destroy(context);
}

/* ---- memory that runs out ---- */

static ls_status record_and_run(ls_context *context, ls_comm *comm) {
    char from[8] = "abcdefg", to[8] = "";
    const ls_comm_piece out = {from, sizeof from}, in = {to, sizeof to};
    const ls_comm_part send = {&out, 1}, receive = {&in, 1};
    ls_graph *graph = NULL;
    ls_status status = ls_graph_begin(context);
    if (status != LS_OK) return status;
    const ls_status recorded = ls_comm_all_to_all(comm, &send, &receive);
    status = ls_graph_end(context, &graph);
    if (recorded != LS_OK) {
        assert_int_equal(status, LS_ERROR_STATE); /* it was spoilt */
        return recorded;
    }
    if (status == LS_OK) status = ls_graph_launch(graph);
    if (status == LS_OK) assert_string_equal(to, from);
    ls_graph_destroy(graph);
    return status;
}

static ls_status use_communicator(ls_context *context, const char *engine) {
    ls_comm *comm = NULL;
    ls_status status = ls_comm_create(context, engine, NULL, &comm);
    if (status == LS_OK) status = record_and_run(context, comm);
    ls_comm_file *file = NULL;
    if (status == LS_OK) status = ls_comm_file_create(comm, "comm_test.failing", 1, &file);
    if (file) EXPECT_OK(context, ls_comm_file_write(file, 0, "x", 1));
    if (file) status = ls_comm_file_close(file, 1);
    ls_comm_destroy(comm);
    return status;
}

static void failing_allocations(void **state) {
    static const char *const engines[] = {"self", "shm"};
    ls_context *context;
    (void)state;
    CPU_ONLY();
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    for (int i = 0; i < 2; i++) {
        ls_status status = LS_ERROR_MEMORY;
        EXPECT_OK(context, use_communicator(context, engines[i])); /* the context's own memory */
        const long before = memory_live;
        long n = 0;
        while (status != LS_OK) {
            memory_until_failure = ++n;
            status = use_communicator(context, engines[i]);
            memory_until_failure = 0;
            if (status != LS_OK) assert_int_equal(status, LS_ERROR_MEMORY);
            assert_int_equal(memory_live, before);
        }
        assert_true(n > 4);
    }
    ls_context_destroy(context);
    unlink("comm_test.failing");
}

/* ---- launchers ---- */

typedef struct Variables {
    const char *launcher;
    /* name, value; "R" and "S" stand for rank and size, "J" for a number of this test's own: it
     * runs beside itself, by other devices */
    const char *set[9];
} Variables;
static const Variables launchers[] = {
    {"torchrun", {"RANK", "R", "WORLD_SIZE", "S", "MASTER_PORT", "J"}},
    {"Open MPI", {"OMPI_COMM_WORLD_RANK", "R", "OMPI_COMM_WORLD_SIZE", "S"}},
    {"MPICH", {"PMI_RANK", "R", "PMI_SIZE", "S"}},
    {"Slurm", {"SLURM_PROCID", "R", "SLURM_STEP_NUM_TASKS", "S", "SLURM_JOB_ID", "J"}},
};

static void set_variables(const Variables *row, int rank, int size) {
    char number[16];
    for (size_t i = 0; row->set[i]; i += 2) {
        const char *value = row->set[i + 1];
        if (strlen(value) == 1) {
            const int job = (int)getppid();
            snprintf(number, sizeof number, "%d",
                     value[0] == 'R'   ? rank
                     : value[0] == 'S' ? size
                                       : job);
            value = number;
        }
        setenv(row->set[i], value, 1);
    }
}

/* What a process that was launched does: two communicators, one after the other. */
static void launched(Rank *rank, const Variables *row) {
    ls_comm_launch launch;
    ls_comm *first = NULL, *second = NULL;
    HOLDS(ls_comm_launched(&launch) == 1 && strcmp(launch.launcher, row->launcher) == 0);
    HOLDS(launch.rank == rank->rank && launch.size == rank->size);
    HOLDS(launch.local_rank == rank->rank && launch.local_size == rank->size);
    WORKS(ls_context_create("cpu", NULL, &rank->context));
    WORKS(ls_comm_create(rank->context, NULL, NULL, &first));
    WORKS(ls_comm_create(rank->context, NULL, NULL, &second));
    HOLDS(ls_comm_rank(second) == rank->rank && ls_comm_size(second) == rank->size);
    for (int i = 0; i < 3; i++) {
        WORKS(ls_comm_barrier(second));
        WORKS(ls_comm_barrier(first));
    }
    ls_comm_destroy(first);
    WORKS(ls_comm_barrier(second));
    ls_comm_destroy(second);
    ls_context_destroy(rank->context);
}

static void environments(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        pid_t processes[3];
        fflush(NULL);
        for (int k = 0; k < 3; k++) {
            processes[k] = fork();
            if (processes[k] != 0) continue;
            Rank rank = {.rank = k, .size = 3};
            alarm(60);
            set_variables(&launchers[i], k, 3);
            launched(&rank, &launchers[i]);
            end_rank(&rank);
        }
        for (int k = 0; k < 3; k++) {
            int status = 0;
            waitpid(processes[k], &status, 0);
            assert_int_equal(status, 0);
        }
    }
}

static void broken_environments(void **state) {
    ls_context *context;
    ls_comm *comm;
    ls_comm_launch launch;
    (void)state;
    EXPECT_OK(NULL, ls_context_create("cpu", NULL, &context));
    assert_int_equal(ls_comm_launched(&launch), 0);
    assert_int_equal(launch.size, 1);
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "2", 1);
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_comm_create(context, NULL, NULL, &comm),
                   "torchrun", "RANK must be a number from 0 to 1", "is 2");
    assert_int_equal(ls_comm_launched(&launch), 0);
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    setenv("RANK", "1", 1);
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_comm_create(context, NULL, NULL, &comm),
                   "LOCAL_WORLD_SIZE must be a number from 1 to 2");
    unsetenv("LOCAL_WORLD_SIZE");
    setenv("WORLD_SIZE", "many", 1);
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_comm_create(context, NULL, NULL, &comm),
                   "WORLD_SIZE", "many");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    setenv("SLURM_PROCID", "5", 1);
    setenv("SLURM_STEP_NUM_TASKS", "6", 1);
    setenv("SLURM_LOCALID", "1", 1);
    setenv("SLURM_STEP_NUM_NODES", "0", 1);
    EXPECT_FAILURE(context, LS_ERROR_ARGUMENT, ls_comm_create(context, NULL, NULL, &comm),
                   "SLURM_STEP_NUM_NODES must be a number from 1 to ");
    setenv("SLURM_STEP_NUM_NODES", "3", 1);
    assert_int_equal(ls_comm_launched(&launch), 1);
    assert_true(launch.local_rank == 1 && launch.local_size == 2 && launch.size == 6);
    setenv("PMI_RANK", "5", 1); /* srun --mpi=pmi2 */
    setenv("PMI_SIZE", "6", 1);
    assert_int_equal(ls_comm_launched(&launch), 1);
    assert_string_equal(launch.launcher, "Slurm");
    assert_true(launch.local_rank == 1 && launch.local_size == 2);
    setenv("MPI_LOCALRANKID", "2", 1); /* mpirun of MPICH, whose proxies srun has started */
    setenv("MPI_LOCALNRANKS", "3", 1);
    assert_int_equal(ls_comm_launched(&launch), 1);
    assert_string_equal(launch.launcher, "MPICH");
    assert_true(launch.local_rank == 2 && launch.local_size == 3);
    unsetenv("SLURM_PROCID");
    unsetenv("PMI_RANK");
    ls_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scenario),
        cmocka_unit_test(failures),
        cmocka_unit_test(kills),
        cmocka_unit_test(kills_beside),
        cmocka_unit_test(kills_while_writing),
        cmocka_unit_test(traces),
        cmocka_unit_test(failures_in_graphs),
        cmocka_unit_test(large_sizes),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(environments),
        cmocka_unit_test(broken_environments),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
