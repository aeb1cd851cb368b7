/* ranks.c: the processes that train together: started here for --ranks, or by a launcher. */
#include "charlm.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

bool ranks_find(const Options *options, Ranks *ranks) {
    ls_comm_launch launch;
    *ranks = (Ranks){.size = options->ranks > 0 ? (int)options->ranks : 1};
    if (!ls_comm_launched(&launch)) return true;
    if (options->ranks > 0 && options->ranks != launch.size)
        return fail("%s started %d ranks, and --ranks says %ld: leave it out", launch.launcher,
                    launch.size, options->ranks);
    ranks->launched = true;
    ranks->rank = launch.rank;
    ranks->size = launch.size;
    ranks->local = launch.local_rank;
    return true;
}

/* Only rank 0 reports; what goes wrong is on stderr. */
static void be_quiet(const Ranks *ranks) {
    if (ranks->rank > 0 && !freopen("/dev/null", "w", stdout)) fclose(stdout);
    if (ranks->rank > 0) signal(SIGINT, SIG_IGN); /* rank 0 tells when to end */
}

static volatile sig_atomic_t first_rank;

static void pass_on(int number) {
    if (first_rank > 0) kill((pid_t)first_rank, number);
}

/* A rank's process goes when this one does. */
static pid_t start(const Ranks *ranks, int rank, int (*work)(const Ranks *ranks, void *what),
                   void *what) {
    const pid_t here = getpid(), process = fork();
    if (process != 0) return process;
    Ranks own = *ranks;
    own.rank = own.local = rank;
    signal(SIGINT, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != here) _exit(DEVICE_FAILED);
    be_quiet(&own);
    const int status = work(&own, what);
    fflush(NULL);
    _exit(status);
}

/* The processors are shared out, unless somebody has said otherwise. */
static void share_threads(int size) {
    char text[24];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(text, sizeof text, "%ld", processors > size ? processors / size : 1);
    setenv("LOCKSTEP_THREADS", text, 0);
}

static int status_of(int rank, int ended) {
    if (WIFEXITED(ended)) return WEXITSTATUS(ended);
    fail("rank %d was ended by signal %d", rank, WTERMSIG(ended));
    return DEVICE_FAILED;
}

static int wait_all(const pid_t *processes, int size) {
    int result = 0;
    for (int rank = 0; rank < size; rank++) {
        int ended = 0;
        if (processes[rank] <= 0) continue;
        while (waitpid(processes[rank], &ended, 0) < 0) continue; /* a signal came */
        const int status = status_of(rank, ended);
        if (result == 0) result = status;
    }
    return result;
}

int ranks_run(Ranks *ranks, int (*work)(const Ranks *ranks, void *what), void *what) {
    if (ranks->launched || ranks->size == 1) {
        be_quiet(ranks);
        return work(ranks, what);
    }
    if (ls_comm_id_create("shm", &ranks->id) != LS_OK) {
        fail("%s", ls_error_message(NULL));
        return DEVICE_FAILED;
    }
    pid_t *processes = calloc((size_t)ranks->size, sizeof *processes);
    if (!processes) {
        fail("out of host memory");
        return DEVICE_FAILED;
    }
    share_threads(ranks->size);
    signal(SIGINT, pass_on);
    fflush(NULL);
    bool all = true;
    for (int rank = 0; rank < ranks->size && all; rank++) {
        processes[rank] = start(ranks, rank, work, what);
        all = processes[rank] > 0;
    }
    first_rank = (sig_atomic_t)processes[0];
    if (!all) fail("a process for each rank could not be started");
    for (int rank = 0; rank < ranks->size && !all; rank++)
        if (processes[rank] > 0) kill(processes[rank], SIGKILL);
    const int status = wait_all(processes, ranks->size);
    free(processes);
    return all ? status : DEVICE_FAILED;
}
