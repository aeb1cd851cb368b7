/* declarations_nvml.c: monitor.def and the structures of monitor.h against NVIDIA's nvml.h. It only
 * has to compile. */
#include <stddef.h>
#include <stdint.h>

#define NVML_NO_UNVERSIONED_FUNC_DEFS /* newer forms keep names of their own */
#include <nvml.h>

#define NVML_INSUFFICIENT_SIZE OUR_INSUFFICIENT_SIZE
#define NVML_CLOCK_SM OUR_CLOCK_SM
#include "runtime.h"
#include "gpu.h"
#include "monitor.h"
#include "declarations.h"

SAME_PLACE(NvmlUtilisation, gpu, nvmlUtilization_t, gpu);
_Static_assert(sizeof(NvmlUtilisation) == sizeof(nvmlUtilization_t), "utilisation");
SAME_PLACE(NvmlMemory, total, nvmlMemory_t, total);
SAME_PLACE(NvmlMemory, used, nvmlMemory_t, used);
_Static_assert(sizeof(NvmlMemory) == sizeof(nvmlMemory_t), "memory");
SAME_PLACE(NvmlProcess, pid, nvmlProcessInfo_v2_t, pid);
SAME_PLACE(NvmlProcess, memory, nvmlProcessInfo_v2_t, usedGpuMemory);
_Static_assert(sizeof(NvmlProcess) == sizeof(nvmlProcessInfo_v2_t), "process");
SAME_PLACE(NvmlProcess1, memory, nvmlProcessInfo_v1_t, usedGpuMemory);
_Static_assert(sizeof(NvmlProcess1) == sizeof(nvmlProcessInfo_v1_t), "process");
_Static_assert((int)OUR_INSUFFICIENT_SIZE == (int)NVML_ERROR_INSUFFICIENT_SIZE,
               "insufficient size");
_Static_assert((int)NVML_SENSOR_GPU == (int)NVML_TEMPERATURE_GPU, "sensor");
_Static_assert((int)OUR_CLOCK_SM == 1 && (int)NVML_CLOCK_MEMORY == (int)NVML_CLOCK_MEM, "clocks");
_Static_assert((int)NVML_PCIE_SENT == (int)NVML_PCIE_UTIL_TX_BYTES, "counter");
_Static_assert((int)NVML_PCIE_RECEIVED == (int)NVML_PCIE_UTIL_RX_BYTES, "counter");

#define NVML(verb, name, parameters, arguments) DECLARATION(verb, name, parameters, arguments)
#define ROCM(verb, name, parameters, arguments)
#include "monitor.def"
