/* comm_mpi.c: the scenarios of communicators with the engine "mpi": each process is a rank that an
 * mpirun started. Arguments: the scenarios' names; none: all in which nothing fails. With `import`
 * the communicator is made of the program's own; with `killed` the last rank is. */
#include "comm_ranks.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void killed(Rank *rank) {
    WORKS(ls_comm_barrier(rank->comm));
    if (rank->rank == rank->size - 1) raise(SIGKILL);
    HOLDS(ls_comm_barrier(rank->comm) == LS_ERROR_COMM);
}

/* MPI_COMM_WORLD of either interface, as a program that is linked with MPI has it. */
static void import(Rank *rank) {
    void *all = dlopen(NULL, RTLD_NOW), *world = all ? dlsym(all, "ompi_mpi_comm_world") : NULL;
    const int number = 0x44000000;
    ls_comm *own = NULL;
    WORKS(ls_comm_import(rank->context, "mpi", world ? (const void *)&world : &number, &own));
    HOLDS(ls_comm_rank(own) == rank->rank && ls_comm_size(own) == rank->size);
    WORKS(ls_comm_barrier(own));
    ls_comm_destroy(own);
    HOLDS(ls_comm_import(rank->context, "shm", &number, &own) == LS_ERROR_UNSUPPORTED);
    HOLDS(ls_comm_import(rank->context, "mpi", NULL, &own) == LS_ERROR_ARGUMENT);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum { PART_BYTES = 50000, RANKS_MOST = 8 };
static ls_status gather_once(Rank *rank, char *memory) {
    ls_comm_piece pieces[RANKS_MOST];
    ls_comm_part parts[RANKS_MOST];
    for (int k = 0; k < rank->size && k < RANKS_MOST; k++) {
        pieces[k] = (ls_comm_piece){memory + k * PART_BYTES, PART_BYTES};
        parts[k] = (ls_comm_part){&pieces[k], 1};
    }
    return ls_comm_all_gather(rank->comm, parts);
}

/* Somebody cuts the net: the error comes within the time-out and a little, and says who is missed.
 */
static void until_it_fails(Rank *rank) {
    static char memory[RANKS_MOST * PART_BYTES];
    double last = seconds();
    if (rank->rank == 0) printf("begun\n");
    fflush(stdout);
    ls_status status = LS_OK;
    for (const double begin = last; status == LS_OK && seconds() - begin < 60;) {
        last = seconds();
        status = gather_once(rank, memory);
    }
    HOLDS(rank_failed(rank, status, "rank "));
    HOLDS(seconds() - last < 2 * rank->timeout_s + 2);
    HOLDS(gather_once(rank, memory) == LS_ERROR_COMM);
}

static void slow_rank(Rank *rank) {
    static char memory[RANKS_MOST * PART_BYTES];
    for (char round = 1; round <= 5; round++) {
        if (rank->rank == rank->size - 1) usleep(400000);
        memset(memory + rank->rank * PART_BYTES, round * 10 + rank->rank, PART_BYTES);
        WORKS(gather_once(rank, memory));
        for (int k = 0; k < rank->size; k++) HOLDS(memory[k * PART_BYTES + 777] == round * 10 + k);
    }
}

static const NamedScenario others[] = {
    {"until_it_fails", until_it_fails},
    {"slow_rank", slow_rank},
    {"beyond_two_to_the_31", beyond_two_to_the_31},
    {"fails_of_different_operations", fails_of_different_operations},
    {"fails_of_different_roots", fails_of_different_roots},
    {"fails_of_sizes", fails_of_sizes},
    {"abort_of_the_last", abort_of_the_last},
    {"rank_that_leaves", rank_that_leaves},
    {"rank_that_keeps_others_waiting", rank_that_keeps_others_waiting},
    {"import", import},
    {"killed", killed},
};

static Scenario *find(const char *name) {
    for (size_t i = 0; i < scenario_count; i++)
        if (strcmp(scenarios[i].name, name) == 0) return scenarios[i].scenario;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, name) == 0) return others[i].scenario;
    fprintf(stderr, "there is no scenario %s\n", name);
    exit(2);
}

static int run(const char *name, Scenario *scenario) {
    ls_comm_launch launch;
    if (!ls_comm_launched(&launch)) return 1;
    Rank rank = {.rank = launch.rank, .size = launch.size, .engine = "mpi"};
    if (strcmp(name, "rank_that_keeps_others_waiting") == 0) rank.timeout_s = 0.5;
    if (strcmp(name, "until_it_fails") == 0 || strcmp(name, "slow_rank") == 0) rank.timeout_s = 2;
    rank_run(&rank, scenario);
    if (rank.wrong[0]) fprintf(stderr, "%s: %s\n", name, rank.wrong);
    if (!rank.wrong[0]) printf("%s: right on rank %d of %d\n", name, launch.rank, launch.size);
    fflush(NULL);
    return rank.wrong[0] != 0;
}

int main(int count, char **names) {
    int wrong = 0;
    alarm(200);
    for (size_t i = 0; count == 1 && i < scenario_count; i++)
        wrong |= run(scenarios[i].name, scenarios[i].scenario);
    for (int i = 1; i < count; i++) wrong |= run(names[i], find(names[i]));
    if (count > 1) sleep(4); /* who has failed ends without MPI_Finalize, which ends all */
    return wrong;
}
