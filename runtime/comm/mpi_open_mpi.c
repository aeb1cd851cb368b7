/* mpi_open_mpi.c: the engine "mpi" with the interface of Open MPI, where handles are pointers to
 * structures of the library's. */
#include "runtime.h"
#include "comm/mpi.h"

typedef void *Handle;
#define INTERFACE mpi_open_mpi
#define INTERFACE_NAME "Open MPI"
#define NO_STATUS NULL
#define ANY_SOURCE (-1)
#define FIND_WORLD(library) dlsym(library, "ompi_mpi_comm_world")
#define FIND_BYTE(library) dlsym(library, "ompi_mpi_byte")
#define FIND_ERRORS_RETURN(library) dlsym(library, "ompi_mpi_errors_return")
#define FIND_NO_REQUEST(library) dlsym(library, "ompi_request_null")

#include "comm/mpi_text.h"
