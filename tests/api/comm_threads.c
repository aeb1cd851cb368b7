/* comm_threads.c: the scenarios of communicators with eight ranks that are threads of one process.
 * Built with the runtime's sources for ThreadSanitizer; threads_test.c starts it. */
#include "comm_ranks.h"

#include <pthread.h>
#include <stdio.h>

enum { RANKS = 8 };

typedef struct Thread {
    Rank rank;
    Scenario *scenario;
    pthread_t thread;
} Thread;

static void *run(void *argument) {
    Thread *thread = argument;
    rank_run(&thread->rank, thread->scenario);
    return NULL;
}

static int run_threads(const char *name, Scenario *scenario, double timeout_s) {
    Thread threads[RANKS];
    ls_comm_id id;
    int wrong = ls_comm_id_create("shm", &id) != LS_OK;
    for (int k = 0; k < RANKS; k++) {
        threads[k] = (Thread){.rank = {.rank = k, .size = RANKS, .id = id, .timeout_s = timeout_s},
                              .scenario = scenario};
        if (pthread_create(&threads[k].thread, NULL, run, &threads[k]) != 0) return 1;
    }
    for (int k = 0; k < RANKS; k++) {
        pthread_join(threads[k].thread, NULL);
        if (!threads[k].rank.wrong[0]) continue;
        printf("%s: %s\n", name, threads[k].rank.wrong);
        wrong = 1;
    }
    return wrong;
}

int main(void) {
    int wrong = 0;
    for (size_t i = 0; i < scenario_count; i++)
        wrong |= run_threads(scenarios[i].name, scenarios[i].scenario, 0);
    wrong |= run_threads("fails_of_different_operations", fails_of_different_operations, 0);
    wrong |= run_threads("fails_of_sizes", fails_of_sizes, 0);
    wrong |= run_threads("abort_of_the_last", abort_of_the_last, 0);
    wrong |= run_threads("rank_that_leaves", rank_that_leaves, 0);
    return wrong;
}
