/* stand_in_monitor.h: monitoring libraries that are none: what tests see of them.
 *
 * stand_in_monitor.c builds as a shared library with the symbols of libnvidia-ml or librocm_smi64,
 * whole or as an older one. Two devices, in the other order than the driver's stand-in has them.
 * Any call can be made to fail, all can be made to say what cannot be. */
#ifndef STAND_IN_MONITOR_H
#define STAND_IN_MONITOR_H

#include <stdatomic.h>
#include <sys/syscall.h>

#include "runtime.h"
#include "gpu.h"
#include "monitor.h"

typedef enum MonitorVerb {
#define NVML(verb, name, parameters, arguments) NVML_##verb,
#define ROCM(verb, name, parameters, arguments) ROCM_##verb,
#include "monitor.def"
    MONITOR_VERB_COUNT
} MonitorVerb;

typedef struct MonitorStandIn {
    /* What the test sets. */
    long fail_at; /* the call, counted from 1, that fails; 0: none */
    int fail_with;
    int absurd;         /* everything it says is beyond reason */
    unsigned processes; /* on each device */
    unsigned sudden;    /* and so many more by the second time it is asked */
    int new_clocks;     /* frequencies as ROCm 6 has them */
    int one_clock;      /* there is no other frequency */
    /* What it saw. */
    long calls, opened;
    MonitorVerb failed;
    unsigned char called[MONITOR_VERB_COUNT];
    char asked[64];          /* the PCI address or UUID */
    atomic_long pcie_thread; /* the last one that asked for PCIe throughput */
} MonitorStandIn;
typedef MonitorStandIn *MonitorStandInFunction(void);

#endif
