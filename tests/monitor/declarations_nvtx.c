/* declarations_nvtx.c: the numbers and structures of nvtx.h against NVIDIA's nvToolsExt.h. It only
 * has to compile. */
#include <stddef.h>
#include <stdint.h>

#include <nvtx3/nvToolsExt.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#include "nvtx.h"

SAME(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
SAME(NVTX_RANGE_PUSH, NVTX_CBID_CORE_RangePushA);
SAME(NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
SAME(NVTX_FUNCTIONS, NVTX_CBID_CORE_SIZE);
SAME(NVTX_FUNCTIONS, NVTX_CBID_CORE2_SIZE);
SAME(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(NVTX_TABLE_VERSION, NVTX_ETID_VERSIONINFO);
SAME(NVTX_OUR_VERSION, NVTX_VERSION);
SAME(sizeof(NvtxCallbacks), sizeof(NvtxExportTableCallbacks));
SAME(offsetof(NvtxCallbacks, module), offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
SAME(sizeof(NvtxVersion), sizeof(NvtxExportTableVersionInfo));
SAME(offsetof(NvtxVersion, set), offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));

/* A library that was written against their header takes our tables. */
NvtxFunctionTable *declared_table(NvtxFunction ****ours);
NvtxFunctionTable *declared_table(NvtxFunction ****ours) {
    return ours;
}
