/* declarations_comgr.c: the numbers of comgr in toolchain.h against AMD's header, whichever version
 * is here. It only has to compile. */
#if __has_include(<amd_comgr/amd_comgr.h>)
#include <amd_comgr/amd_comgr.h>
#else
#include <amd_comgr.h>
#endif

#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#define SAME(own, theirs) _Static_assert((int)(own) == (int)(theirs), #theirs)
SAME(COMGR_DATA_SOURCE, AMD_COMGR_DATA_KIND_SOURCE);
SAME(COMGR_DATA_EXECUTABLE, AMD_COMGR_DATA_KIND_EXECUTABLE);
SAME(AMD_COMGR_INTERFACE_VERSION_MAJOR >= 3 ? COMGR_DISASSEMBLE : COMGR_DISASSEMBLE_2,
     AMD_COMGR_ACTION_DISASSEMBLE_EXECUTABLE_TO_SOURCE);
_Static_assert(sizeof(amd_comgr_data_t) == sizeof(uint64_t), "a handle");
_Static_assert(sizeof(amd_comgr_data_set_t) == sizeof(uint64_t), "a handle");
_Static_assert(sizeof(amd_comgr_action_info_t) == sizeof(uint64_t), "a handle");
_Static_assert(sizeof(amd_comgr_status_t) == sizeof(int), "results are numbers");
