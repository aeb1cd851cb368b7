/* declarations_nccl.c: comm/nccl.def against NCCL's own header. Compiling is the test: each row has
 * the parameters of NCCL's function, which a function of ours calls with them, without running it.
 * RCCL has the same functions. */
#include <nccl.h>
#include <stddef.h>

typedef ncclUniqueId NcclId;
typedef ncclComm_t NcclComm;
typedef ncclResult_t NcclResult;
typedef ncclDataType_t NcclType;
_Static_assert(sizeof(ncclUniqueId) == 128, "ids");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int),
               "enumerations are passed as int");
_Static_assert(ncclSuccess == 0 && ncclInProgress == 7 && ncclUint8 == 1, "numbers");

#pragma GCC diagnostic error "-Wtraditional-conversion"
#define NCCL(type, name, parameters, arguments)          \
    type declared_##name parameters;                     \
    type declared_##name parameters {                    \
        return 0 ? (type)nccl##name arguments : (type)0; \
    }
#include "comm/nccl.def"
