/* nvtx.h: what NVTX 3 shows the library that a profiler injects into a process: tables of places
 * where that writes its functions' addresses. Numbers and structures are NVIDIA's;
 * tests/monitor/declarations_nvtx.c holds them against its header. */
#ifndef NVTX_H
#define NVTX_H

enum {
    NVTX_MODULE_CORE = 1,
    NVTX_MODULE_CORE2 = 5,
    NVTX_RANGE_PUSH = 9, /* the core functions' numbers: nvtxRangePushA, */
    NVTX_RANGE_POP = 11, /* nvtxRangePop */
    NVTX_FUNCTIONS = 16, /* of either module, counted from 1 */
    NVTX_TABLE_CALLBACKS = 1,
    NVTX_TABLE_VERSION = 3,
    NVTX_OUR_VERSION = 3
};
typedef void NvtxFunction(void);
typedef struct NvtxCallbacks {
    size_t size;
    int (*module)(int module, NvtxFunction ****table, unsigned *count);
} NvtxCallbacks;
typedef struct NvtxVersion {
    size_t size;
    uint32_t version, reserved;
    void (*set)(uint32_t version);
} NvtxVersion;
/* InitializeInjectionNvtx2 of the library: 0 when it cannot. */
typedef int NvtxInitialise(const void *(*table)(uint32_t number));

#endif
