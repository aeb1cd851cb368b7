/* comm/mpi.h: the engine "mpi" and its two interfaces. */
#ifndef COMM_MPI_H
#define COMM_MPI_H

#include "comm/comm.h"

/* An interface as binaries see it: mpi_open_mpi.c and mpi_mpich.c, from one text, mpi_text.h. */
typedef struct MpiInterface {
    const char *name; /* "Open MPI" */
    ls_status (*open)(void *library, CommPlace *place, Error *error, void **state);
    ls_status (*run)(void *state, const Transfer *transfer, Error *error, double *waited_us);
    void (*abort)(void *state, const char *reason);
    ls_status (*check)(void *state, Error *error);
    void (*close)(void *state);
} MpiInterface;
extern const MpiInterface mpi_open_mpi, mpi_mpich;

/* The head of each interface's state. */
typedef struct MpiHead {
    const MpiInterface *interface;
    bool any_thread; /* may call the library */
} MpiHead;

/* mpi.c: MPI is initialised by us: `finalize` is called at the process's end, unless a communicator
 * has failed, as it might wait for ever. */
void mpi_finalize_at_exit(void (*finalize)(void));
bool mpi_is_ours(void);
void mpi_has_failed(void);

#endif
