/* declarations_nccl.c: comm/nccl.def against NCCL's own header, and with DECLARATIONS_RCCL against
 * RCCL's. Compiling is the test: each row has the parameters of the library's function, which a
 * function of ours calls with them, without running it. */
#ifdef DECLARATIONS_RCCL
#include <rccl/rccl.h>
#else
#include <nccl.h>
#endif
#include <stddef.h>

typedef ncclUniqueId NcclId;
typedef ncclComm_t NcclComm;
typedef ncclResult_t NcclResult;
typedef ncclDataType_t NcclType;
_Static_assert(sizeof(ncclUniqueId) == 128, "ids");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int),
               "enumerations are passed as int");
_Static_assert(ncclSuccess == 0 && ncclUint8 == 1, "numbers");
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0)
_Static_assert(ncclInProgress == 7, "numbers");
#endif

#pragma GCC diagnostic error "-Wtraditional-conversion"
#define NCCL(type, name, parameters, arguments)          \
    type declared_##name parameters;                     \
    type declared_##name parameters {                    \
        return 0 ? (type)nccl##name arguments : (type)0; \
    }
#include "comm/nccl.def"
