/* mpi_mpich.c: the engine "mpi" with the interface that MPICH, Intel MPI, MVAPICH and Cray MPI
 * share, where handles are numbers. */
#include "runtime.h"
#include "comm/mpi.h"

typedef int Handle;
#define INTERFACE mpi_mpich
#define INTERFACE_NAME "MPICH"
#define NO_STATUS ((void *)1)
#define ANY_SOURCE (-2)
#define FIND_WORLD(library) 0x44000000
#define FIND_BYTE(library) 0x4c00010d
#define FIND_ERRORS_RETURN(library) 0x54000001
#define FIND_NO_REQUEST(library) 0x2c000000

#include "comm/mpi_text.h"
