/* launcher.c: how torchrun, mpirun and srun say in the environment which rank a process is.
 *
 * A row is a launcher: the variables that it sets, the one by which it is known first. The run
 * needs a name that its ranks share and no other run of the time has; MPICH's launcher gives none,
 * so the process that started the ranks of a machine is taken. */
#include "runtime.h"
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUN_VARIABLES = 4, RANKS_MAX = 1 << 20 };

typedef struct Row {
    const char *launcher, *rank, *size, *local_rank, *local_size;
    const char *machines; /* instead of local_size: how many share the ranks evenly */
    const char *run[RUN_VARIABLES];
    const char *starter; /* where no variable names the run: what the ranks' ancestor is called */
} Row;

static const Row rows[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     NULL,
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     NULL},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", NULL, NULL},
     NULL},
    {"MPICH",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     {NULL, NULL, NULL, NULL},
     "hydra_pmi_proxy"},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", NULL, NULL},
     NULL},
};

static const char *variable(const char *name) {
    const char *value = name ? host_environment_foreign(name) : NULL;
    return value && *value ? value : NULL;
}

static ls_status read_number(Error *error, const Row *row, const char *name, long least, long most,
                             int *number) {
    const char *text = variable(name);
    char *end = NULL;
    const long value = text ? strtol(text, &end, 10) : 0;
    if (text && !*end && text[0] >= '0' && text[0] <= '9' && value >= least && value <= most) {
        *number = (int)value;
        return LS_OK;
    }
    return error_set(error, LS_ERROR_ARGUMENT,
                     "the environment is %s's, where %s must be a number from %ld to %ld, and %s%s",
                     row->launcher, name, least, most, text ? "is " : "is not set",
                     text ? text : "");
}

/* The parent of a process, and what it is called. */
static int parent_of(int process, char *name, size_t size) {
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    const char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    const char *begin = end ? strchr(line, '(') : NULL;
    if (begin && sscanf(end + 1, " %*c %d", &parent) == 1)
        snprintf(name, size, "%.*s", (int)(end - begin - 1), begin + 1);
    fclose(file);
    return parent;
}

static int find_starter(const char *wanted) {
    char name[64] = "";
    for (int process = getppid(); process > 1;) {
        const int parent = parent_of(process, name, sizeof name);
        if (strncmp(name, wanted, sizeof "0123456789abcde" - 1) == 0) return process;
        process = parent;
    }
    return getppid();
}

static void name_run(const Row *row, Launcher *launcher) {
    size_t used = (size_t)snprintf(launcher->run, sizeof launcher->run, "%s", row->launcher);
    bool any = false;
    for (size_t i = 0; i < RUN_VARIABLES; i++) {
        const char *value = variable(row->run[i]);
        if (!value || used >= sizeof launcher->run) continue;
        used += (size_t)snprintf(launcher->run + used, sizeof launcher->run - used, "/%s", value);
        any = true;
    }
    if (any || used >= sizeof launcher->run) return;
    const int starter = row->starter ? find_starter(row->starter) : getppid();
    snprintf(launcher->run + used, sizeof launcher->run - used, "/%d", starter);
}

/* Without its variables the ranks are taken to be all on this machine. */
static ls_status read_local(Error *error, const Row *row, ls_comm_launch *launch) {
    launch->local_rank = launch->rank;
    launch->local_size = launch->size;
    int machines = 1;
    ls_status status = LS_OK;
    if (variable(row->machines))
        status = read_number(error, row, row->machines, 1, RANKS_MAX, &machines);
    if (machines > 1) launch->local_size = (launch->size + machines - 1) / machines;
    if (status == LS_OK && variable(row->local_size))
        status = read_number(error, row, row->local_size, 1, launch->size, &launch->local_size);
    if (status == LS_OK && variable(row->local_rank))
        status = read_number(error, row, row->local_rank, 0, launch->local_size - 1,
                             &launch->local_rank);
    return status;
}

ls_status launcher_find(Error *error, Launcher *launcher) {
    *launcher = (Launcher){0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const Row *row = &rows[i];
        ls_comm_launch *launch = &launcher->launch;
        if (!variable(row->rank) || !variable(row->size)) continue;
        /* srun speaks the protocol of MPICH's launcher, too, which alone counts a machine's ranks.
         */
        if (row->starter && !variable(row->local_size) && variable("SLURM_STEP_NUM_TASKS"))
            continue;
        ls_status status = read_number(error, row, row->size, 1, RANKS_MAX, &launch->size);
        if (status == LS_OK)
            status = read_number(error, row, row->rank, 0, launch->size - 1, &launch->rank);
        if (status == LS_OK) status = read_local(error, row, launch);
        if (status != LS_OK) return status;
        launch->launcher = row->launcher;
        name_run(row, launcher);
        return LS_OK;
    }
    return LS_OK;
}

int ls_comm_launched(ls_comm_launch *launch) {
    Launcher launcher;
    Error error = {0};
    const bool found =
        launcher_find(&error, &launcher) == LS_OK && launcher.launch.launcher != NULL;
    if (launch)
        *launch = found ? launcher.launch
                        : (ls_comm_launch){.launcher = NULL, .size = 1, .local_size = 1};
    return found;
}
