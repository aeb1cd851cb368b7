/* declarations_mpi.c: comm/mpi.def and the constants of its interface against MPI's own header.
 * Compiled once with Open MPI's and once with MPICH's; compiling is the test. For each row a
 * function with our parameters calls MPI's function with them, without running it. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic error "-Wtraditional-conversion"

#ifdef OPEN_MPI
typedef void *Handle;
_Static_assert(MPI_ANY_SOURCE == -1, "any source");
_Static_assert(MPI_STATUSES_IGNORE == NULL, "no status");
#else
typedef int Handle;
_Static_assert(MPI_ANY_SOURCE == -2, "any source");
_Static_assert(MPI_COMM_WORLD == 0x44000000, "all ranks");
_Static_assert(MPI_BYTE == 0x4c00010d, "bytes");
_Static_assert(MPI_ERRORS_RETURN == 0x54000001, "errors are returned");
_Static_assert(MPI_REQUEST_NULL == 0x2c000000, "no request");
#endif
_Static_assert(sizeof(MPI_Comm) == sizeof(Handle), "communicators");
_Static_assert(sizeof(MPI_Datatype) == sizeof(Handle), "types");
_Static_assert(sizeof(MPI_Request) == sizeof(Handle), "requests");
_Static_assert(sizeof(MPI_Errhandler) == sizeof(Handle), "error handlers");
_Static_assert(sizeof(MPI_Aint) == sizeof(ptrdiff_t), "addresses");
_Static_assert(MPI_SUCCESS == 0 && MPI_THREAD_MULTIPLE == 3 && MPI_UNDEFINED == -32766, "numbers");
_Static_assert(MPI_MAX_ERROR_STRING <= 8192, "room for an error's text");

#define MPI(name, parameters, arguments)     \
    int declared_##name parameters;          \
    int declared_##name parameters {         \
        return 0 ? MPI_##name arguments : 0; \
    }
#include "comm/mpi.def"

/* Symbols, and a pointer that is no address. */
const void *declared_symbols[4];
void declared_constants(void);
void declared_constants(void) {
#ifdef OPEN_MPI
    declared_symbols[0] = &ompi_mpi_comm_world;
    declared_symbols[1] = &ompi_mpi_byte;
    declared_symbols[2] = &ompi_mpi_errors_return;
    declared_symbols[3] = &ompi_request_null;
    _Static_assert(sizeof(MPI_COMM_WORLD) == sizeof(void *), "handles are addresses");
#else
    typedef char ignored[(uintptr_t)MPI_STATUSES_IGNORE == 1 ? 1 : -1];
    declared_symbols[0] = (const ignored *)NULL;
#endif
}
