/* mpi.c: the engine "mpi": which library, and which of the two interfaces it has.
 *
 * A library that the program has loaded is the one; else the launcher's kind comes first. MPI can
 * be initialised once in a process, so that what is here outlives every context. */
#include "runtime.h"
#include "comm/mpi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- once in a process ---- */

static void (*finalize_call)(void);
static atomic_bool failed;

static void finalize(void) {
    if (finalize_call && !atomic_load(&failed)) finalize_call();
}

bool mpi_is_ours(void) {
    return finalize_call != NULL;
}

void mpi_finalize_at_exit(void (*call)(void)) {
    if (!finalize_call) atexit(finalize);
    finalize_call = call;
}

void mpi_has_failed(void) {
    atomic_store(&failed, true);
}

/* ---- the library ---- */

static const struct {
    const char *library, *launcher;
} known[] = {{"libmpi.so.40", "Open MPI"}, {"libmpich.so.12", "MPICH"}, {"libmpi.so.12", "MPICH"}};

static void *load(const char *path, int flags) {
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | flags);
    if (library && dlsym(library, "MPI_Init_thread")) return library;
    if (library) dlclose(library);
    return NULL;
}

static void *find_library(Error *error) {
    const char *path = host_environment(VARIABLE_LOCKSTEP_MPI);
    void *library = NULL;
    if (path && *path) {
        library = load(path, 0);
        const char *reason = library ? NULL : dlerror();
        if (!library)
            error_set(error, LS_ERROR_UNSUPPORTED, "LOCKSTEP_MPI: %s is no MPI library%s%s", path,
                      reason ? ": " : "", reason ? reason : "");
        return library;
    }
    Launcher launcher;
    Error unused = {0};
    launcher_find(&unused, &launcher);
    const char *started = launcher.launch.launcher ? launcher.launch.launcher : known[0].launcher;
    for (size_t i = 0; i < COUNT(known) && !library; i++)
        library = load(known[i].library, RTLD_NOLOAD);
    for (size_t i = 0; i < COUNT(known) && !library; i++)
        if (strcmp(known[i].launcher, started) == 0) library = load(known[i].library, 0);
    for (size_t i = 0; i < COUNT(known) && !library; i++) library = load(known[i].library, 0);
    if (!library)
        error_set(error, LS_ERROR_UNSUPPORTED,
                  "no MPI library was found (libmpi.so.40, libmpich.so.12, libmpi.so.12): install "
                  "Open MPI or MPICH, or name the file by LOCKSTEP_MPI");
    return library;
}

/* The library stays loaded. */
static ls_status open_mpi(CommPlace *place, Error *error, void **state) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    ls_status status = LS_ERROR_UNSUPPORTED;
    void *library = find_library(error);
    if (library) {
        const MpiInterface *interface =
            dlsym(library, "ompi_mpi_comm_world") ? &mpi_open_mpi : &mpi_mpich;
        log_write(LOG_INFO, "MPI has the interface of %s", interface->name);
        status = interface->open(library, place, error, state);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static ls_status run(void *state, const Transfer *transfer, Error *error, double *waited_us) {
    return ((MpiHead *)state)->interface->run(state, transfer, error, waited_us);
}

static void abort_all(void *state, const char *reason) {
    ((MpiHead *)state)->interface->abort(state, reason);
}

static ls_status check(void *state, Error *error) {
    return ((MpiHead *)state)->interface->check(state, error);
}

static void close_mpi(void *state) {
    ((MpiHead *)state)->interface->close(state);
}

static bool any_thread(const void *state) {
    return ((const MpiHead *)state)->any_thread;
}

const CommEngine engine_mpi = {
    .name = "mpi",
    .most = 1 << 20,
    .takes = true,
    .open = open_mpi,
    .run = run,
    .abort = abort_all,
    .check = check,
    .close = close_mpi,
    .any_thread = any_thread,
};
