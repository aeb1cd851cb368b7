/* declarations_rocm.c: monitor.def and the structures of monitor.h against AMD's rocm_smi.h. It
 * only has to compile. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocm_smi/rocm_smi.h>

#include "runtime.h"
#include "gpu.h"
#include "monitor.h"
#include "declarations.h"

SAME_PLACE(RocmProcess, pid, rsmi_process_info_t, process_id);
SAME_PLACE(RocmProcess, memory, rsmi_process_info_t, vram_usage);
_Static_assert(sizeof(RocmProcess) == sizeof(rsmi_process_info_t), "process");
_Static_assert(sizeof(RocmFrequencies) >= sizeof(rsmi_frequencies_t), "room for the frequencies");
_Static_assert(ROCM_FREQUENCIES >= RSMI_MAX_NUM_FREQUENCIES, "frequencies");
/* With a flag before them or without: see current_frequency. */
_Static_assert(offsetof(rsmi_frequencies_t, current) ==
                   offsetof(rsmi_frequencies_t, num_supported) + 4,
               "count and current");
_Static_assert(offsetof(rsmi_frequencies_t, num_supported) / 4 ==
                   offsetof(rsmi_frequencies_t, frequency) / 8 - 1,
               "the frequencies behind them");
_Static_assert((int)ROCM_MEMORY_VRAM == (int)RSMI_MEM_TYPE_VRAM, "memory");
_Static_assert((int)ROCM_SENSOR_EDGE == (int)RSMI_TEMP_TYPE_EDGE, "sensor");
_Static_assert((int)ROCM_SENSOR_JUNCTION == (int)RSMI_TEMP_TYPE_JUNCTION, "sensor");
_Static_assert((int)ROCM_TEMPERATURE_NOW == (int)RSMI_TEMP_CURRENT, "metric");
_Static_assert((int)ROCM_CLOCK_SYSTEM == (int)RSMI_CLK_TYPE_SYS, "clock");
_Static_assert((int)ROCM_CLOCK_MEMORY == (int)RSMI_CLK_TYPE_MEM, "clock");

/* As ROCm 6 declares them; older libraries lack them, and then they are not called. */
#if RSMI_MAX_NUM_FREQUENCIES < 33
rsmi_status_t rsmi_dev_power_get(uint32_t device, uint64_t *microwatts, int *kind);
rsmi_status_t rsmi_compute_process_info_by_device_get(uint32_t pid, uint32_t device,
                                                      rsmi_process_info_t *row);
#endif

#define NVML(verb, name, parameters, arguments)
#define ROCM(verb, name, parameters, arguments) DECLARATION(verb, name, parameters, arguments)
#include "monitor.def"
