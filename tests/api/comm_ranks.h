/* comm_ranks.h: what the ranks of the communicators' tests do, as processes (comm_test.c) and as
 * threads under ThreadSanitizer (comm_threads.c). cmocka's checks are for a test's own process, so
 * a rank keeps the first thing that went wrong. */
#ifndef COMM_RANKS_H
#define COMM_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/lockstep.h>

typedef struct Rank {
    int rank, size;
    ls_comm_id id;
    const char *engine; /* NULL: "shm"; "mpi": mpirun has said which rank it is */
    double timeout_s;   /* 0: the default */
    ls_context *context;
    ls_comm *comm;
    char wrong[700]; /* "": nothing */
} Rank;
typedef void Scenario(Rank *rank);

void rank_wrong(Rank *rank, const char *what, int line);
#define HOLDS(condition)                                          \
    do {                                                          \
        if (!(condition)) rank_wrong(rank, #condition, __LINE__); \
    } while (0)
#define WORKS(call) HOLDS((call) == LS_OK)

/* Opens the context and the communicator, runs the scenario and closes both. */
void rank_run(Rank *rank, Scenario *scenario);
/* Whether the status is LS_ERROR_COMM with these words in its message. */
bool rank_failed(const Rank *rank, ls_status status, const char *words);

Scenario all_to_all_of_many_sizes, all_gather_of_uneven_parts, broadcasts_that_run_ahead,
    operations_in_a_graph, two_communicators, random_operations, fails_of_different_operations,
    fails_of_different_roots, fails_of_sizes, abort_of_the_last, rank_that_leaves,
    rank_that_keeps_others_waiting, checks_of_arguments, one_file_of_all, exchanges_beside_launches,
    beyond_two_to_the_31;

/* Those in which nothing fails. */
typedef struct NamedScenario {
    const char *name;
    Scenario *scenario;
} NamedScenario;
extern const NamedScenario scenarios[];
extern const size_t scenario_count;

#endif
