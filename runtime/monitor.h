/* monitor.h: what monitor_gpu.c (which device, which library) and the sources of the two vendors
 * share; and the libraries' structures, which tests/monitor holds against the vendors' headers.
 * Include gpu.h first. */
#ifndef MONITOR_H
#define MONITOR_H

typedef struct NvmlUtilisation {
    unsigned gpu, memory; /* percent */
} NvmlUtilisation;
typedef struct NvmlMemory {
    unsigned long long total, free, used;
} NvmlMemory;
typedef struct NvmlProcess { /* of the later forms of the call */
    unsigned pid;
    unsigned long long memory; /* all bits set: not known */
    unsigned instance, compute_instance;
} NvmlProcess;
typedef struct NvmlProcess1 { /* of the first */
    unsigned pid;
    unsigned long long memory;
} NvmlProcess1;
enum {
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_SENSOR_GPU = 0,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_PCIE_SENT = 0,
    NVML_PCIE_RECEIVED = 1
};

/* Up to ROCm 5 the numbers begin at once, from 6 on behind a flag; see rocm_clock. */
typedef struct RocmFrequencies {
    uint64_t words[64];
} RocmFrequencies;
typedef struct RocmProcess {
    uint32_t pid, address_space;
    uint64_t memory, copies;
    uint32_t occupancy;
} RocmProcess;
enum {
    ROCM_MEMORY_VRAM = 0,
    ROCM_SENSOR_EDGE = 0,
    ROCM_SENSOR_JUNCTION = 1,
    ROCM_TEMPERATURE_NOW = 0,
    ROCM_CLOCK_SYSTEM = 0,
    ROCM_CLOCK_MEMORY = 4,
    ROCM_FREQUENCIES = 33 /* 32 up to ROCm 5 */
};

/* A library to load, and the calls to look for in it. */
typedef struct MonitorLibrary {
    Variable variable;        /* VARIABLE_LOCKSTEP_NVML: a library to load instead */
    const char *libraries[6]; /* tried in order */
    const char *missing;      /* what to do when there is none of them */
    const char *const *names; /* of the calls, */
    size_t count, required;   /* and how many of the first must be there */
} MonitorLibrary;
/* Fills `count` addresses from `calls` on; NULL with one line in `reason`. dlclose() it. */
void *monitor_library(const MonitorLibrary *library, void *calls, char *reason, size_t size);

/* monitor_pcie.c: what a monitor's `read`, called by a thread of the watch, finds in bytes a
 * second; NULL where there is no thread. It is known from a second on; closing, which comes before
 * the monitor's end, takes up to one. */
typedef struct PcieWatch PcieWatch;
typedef struct PcieTraffic {
    bool received_known, sent_known;
    double received, sent;
} PcieTraffic;
typedef void PcieRead(const Monitor *monitor, PcieTraffic *traffic);
PcieWatch *pcie_open(const Monitor *monitor, PcieRead *read);
void pcie_sample(PcieWatch *watch, ls_sample *sample); /* NULL: nothing is known */
void pcie_close(PcieWatch *watch);

/* monitor_nvml.c, monitor_rocm.c: `device` is "cuda:0", for messages. */
typedef ls_status MonitorOpen(const char *device, const GpuLocation *location, Error *error,
                              Monitor **monitor);
MonitorOpen monitor_open_nvml, monitor_open_rocm;

#endif
