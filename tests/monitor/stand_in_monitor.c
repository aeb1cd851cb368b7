/* stand_in_monitor.c: see stand_in_monitor.h. Built with STAND_IN_NVML or STAND_IN_ROCM; with
 * STAND_IN_OLD it lacks what older libraries lack, with STAND_IN_OLDEST what must be there. */
#include "stand_in_monitor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define ABSURD(value) (state.absurd ? (__typeof__(value))~(unsigned long long)0 : (value))
enum { DEVICES = 2, NOT_FOUND = 6 };

MonitorStandInFunction monitor_stand_in;
static MonitorStandIn state = {.processes = 2};
MonitorStandIn *monitor_stand_in(void) {
    return &state;
}

/* Device 0 is at c0:00.0 and device 1 at c1:00.0; every figure of a device holds its number. */
static char handles[DEVICES];

static UNUSED unsigned number_of(const void *device) {
    return (unsigned)((const char *)device - handles);
}

/* ---- NVML ---- */

static UNUSED int nvml_initialise(void) {
    state.opened++;
    return 0;
}

static UNUSED int nvml_shut_down(void) {
    state.opened--;
    return 0;
}

static UNUSED int nvml_by_bus(const char *bus, void **device) {
    unsigned domain, number, slot, function;
    snprintf(state.asked, sizeof state.asked, "%s", bus);
    if (sscanf(bus, "%x:%x:%x.%x", &domain, &number, &slot, &function) != 4 || domain || slot ||
        function || number < 0xc0 || number > 0xc1)
        return NOT_FOUND;
    *device = &handles[number - 0xc0];
    return 0;
}

/* As the driver's stand-in has them: a0a0... for its first, which is device 1 here. */
static UNUSED int nvml_by_uuid(const char *uuid, void **device) {
    unsigned first;
    snprintf(state.asked, sizeof state.asked, "%s", uuid);
    if (sscanf(uuid, "GPU-%2x", &first) != 1 || first < 0xa0 || first > 0xa1) return NOT_FOUND;
    *device = &handles[0xa1 - first];
    return 0;
}

static UNUSED int nvml_utilisation(void *device, NvmlUtilisation *rates) {
    *rates = (NvmlUtilisation){ABSURD(50 + number_of(device)), ABSURD(1u)};
    return 0;
}

static UNUSED int nvml_memory(void *device, NvmlMemory *memory) {
    const unsigned long long total = (80ull + number_of(device)) << 30;
    *memory = (NvmlMemory){total, total / 2, state.absurd ? total + 1 : total / 2};
    return 0;
}

static UNUSED int nvml_power(void *device, unsigned *milliwatts) {
    *milliwatts = ABSURD(300000 + number_of(device) * 1000);
    return 0;
}

static UNUSED int nvml_power_limit(void *device, unsigned *milliwatts) {
    *milliwatts = ABSURD(700000 + number_of(device) * 1000);
    return 0;
}

static UNUSED int nvml_temperature(void *device, int sensor, unsigned *degrees) {
    *degrees = ABSURD(40 + number_of(device));
    return sensor;
}

static UNUSED int nvml_clock(void *device, int kind, unsigned *megahertz) {
    *megahertz = ABSURD(1000 * (unsigned)kind + number_of(device));
    return 0;
}

static UNUSED int nvml_pcie(void *device, int counter, unsigned *kilobytes) {
    state.pcie_thread = syscall(SYS_gettid);
    *kilobytes = ABSURD(100000 * (unsigned)(counter + 1) + number_of(device));
    return 0;
}

/* Each time more, so that what is in between has used something. */
static UNUSED int nvml_energy(void *device, unsigned long long *millijoules) {
    static unsigned long long spent = 5000000;
    spent += 2000;
    *millijoules = state.absurd ? ~0ull : spent + number_of(device);
    return 0;
}

static UNUSED int nvml_throttle(void *device, unsigned long long *reasons) {
    *reasons = state.absurd ? ~0ull : 0x25 + ((unsigned long long)number_of(device) << 6);
    return 0;
}

static UNUSED int nvml_replays(void *device, unsigned *count) {
    *count = ABSURD(3 + number_of(device));
    return 0;
}

static UNUSED int nvml_fan(void *device, unsigned *percent) {
    *percent = ABSURD(20 + number_of(device));
    return 0;
}

/* Ours is the last. */
static UNUSED unsigned process_at(unsigned i, unsigned count) {
    return i + 1 == count ? (unsigned)getpid() : 4000000 + i;
}

static UNUSED unsigned process_count(void) {
    const unsigned count = state.processes;
    state.processes += state.sudden;
    state.sudden = 0;
    return count;
}

#define LIST_PROCESSES(verb, Row)                                                   \
    static UNUSED int nvml_##verb(void *device, unsigned *count, Row *rows) {       \
        const unsigned there = process_count(), room = *count;                      \
        *count = there;                                                             \
        if (state.absurd) *count = ~0u;                                             \
        if (state.absurd || there > room) return NVML_INSUFFICIENT_SIZE;            \
        for (unsigned i = 0; i < there; i++) {                                      \
            rows[i].pid = process_at(i, there);                                     \
            rows[i].memory = i == 1 ? ~0ull : (1ull + i + number_of(device)) << 20; \
        }                                                                           \
        return 0;                                                                   \
    }
LIST_PROCESSES(compute_3, NvmlProcess)
LIST_PROCESSES(compute_2, NvmlProcess)
LIST_PROCESSES(compute_1, NvmlProcess1)

/* ---- ROCm SMI ---- */

static UNUSED int rocm_initialise(uint64_t flags) {
    state.opened++;
    return flags != 0;
}

static UNUSED int rocm_shut_down(void) {
    state.opened--;
    return 0;
}

static UNUSED int rocm_count(uint32_t *count) {
    *count = DEVICES;
    return 0;
}

static UNUSED int rocm_bus(uint32_t device, uint64_t *place) {
    *place = (uint64_t)(0xc0 + device) << 8 | (uint64_t)3 << 28; /* of partition 3 */
    return device >= DEVICES;
}

static UNUSED int rocm_busy(uint32_t device, uint32_t *percent) {
    *percent = ABSURD(50 + device);
    return 0;
}

static UNUSED int rocm_memory_total(uint32_t device, int kind, uint64_t *bytes) {
    *bytes = (80ull + device) << 30;
    return kind;
}

static UNUSED int rocm_memory_used(uint32_t device, int kind, uint64_t *bytes) {
    *bytes = state.absurd ? (81ull + device) << 30 : (80ull + device) << 29;
    return kind;
}

static UNUSED int rocm_power(uint32_t device, uint64_t *microwatts, int *kind) {
    *microwatts = ABSURD(300000000ull + device * 1000000);
    *kind = 1;
    return 0;
}

/* Asked for where there is no call for what is drawn now. */
static UNUSED int rocm_power_average(uint32_t device, uint32_t sensor, uint64_t *microwatts) {
#if defined(STAND_IN_OLD)
    *microwatts = ABSURD(300000000ull + device * 1000000);
#else
    *microwatts = ABSURD(200000000ull + device * 1000000);
#endif
    return sensor != 0;
}

static UNUSED int rocm_power_limit(uint32_t device, uint32_t sensor, uint64_t *microwatts) {
    *microwatts = ABSURD(700000000ull + device * 1000000);
    return sensor != 0;
}

/* The junction's is not there on device 0, so the edge's is taken; on others the edge is cooler. */
static UNUSED int rocm_temperature(uint32_t device, uint32_t sensor, int metric,
                                   int64_t *millidegrees) {
    const int junction = sensor == ROCM_SENSOR_JUNCTION;
    *millidegrees = state.absurd ? INT64_MIN : 40000 + device * 1000;
    if (device != 0 && !junction) *millidegrees = 25000;
    return metric || (junction && device == 0);
}

static UNUSED int rocm_clock(uint32_t device, int kind, RocmFrequencies *frequencies) {
    const uint64_t hertz = (kind == ROCM_CLOCK_SYSTEM ? 1000u + device : 2000u + device) * 1000000;
    const uint32_t others = state.one_clock ? 0 : 1; /* below it, and above */
    const uint32_t head[] = {1 + 2 * others, state.absurd ? 3 : others};
    const size_t at = state.new_clocks != 0;
    memcpy((char *)frequencies->words + 4 * at, head, sizeof head);
    frequencies->words[1 + at] = 1;
    frequencies->words[3 + at] = 1;
    frequencies->words[1 + at + others] = hertz;
    return 0;
}

static UNUSED int rocm_fan(uint32_t device, uint32_t sensor, int64_t *speed) {
    *speed = state.absurd ? -1 : (int64_t)51 + device;
    return sensor != 0;
}

static UNUSED int rocm_fan_max(uint32_t device, uint32_t sensor, uint64_t *speed) {
    (void)device;
    *speed = 255;
    return sensor != 0;
}

static UNUSED int rocm_energy(uint32_t device, uint64_t *count, float *microjoules,
                              uint64_t *time) {
    *count = (uint64_t)(1000 + device) * 1000000;
    *microjoules = state.absurd ? 1e30f : 0.5f;
    *time = 1;
    return 0;
}

static UNUSED int rocm_replays(uint32_t device, uint64_t *count) {
    *count = state.absurd ? UINT64_MAX : 3u + device;
    return 0;
}

static UNUSED int rocm_processes(RocmProcess *rows, uint32_t *count) {
    const uint32_t there = process_count(), room = *count;
    *count = state.absurd ? UINT32_MAX : there;
    if (!rows) return 0;
    if (!state.absurd && there > room) *count = room;
    for (uint32_t i = 0; i < there && i < room; i++)
        rows[i] = (RocmProcess){process_at(i, there), 1, (1ull + i) << 20, 0, 0};
    return 0;
}

/* The first process is on the first device only. */
static UNUSED int rocm_process_on(uint32_t pid, uint32_t device, RocmProcess *row) {
    *row = (RocmProcess){pid, 1, (1ull + device) << 20, 0, 0};
    return pid == 4000000 && device != 0;
}

static UNUSED int rocm_process_devices(uint32_t pid, uint32_t *numbers, uint32_t *count) {
    *count = pid == 4000000 ? 1 : 2;
    if (state.absurd) *count = UINT32_MAX;
    numbers[0] = 0;
    numbers[1] = 1;
    return 0;
}

/* ---- the exported functions ---- */

static int counted(MonitorVerb verb) {
    state.called[verb] = 1;
    /* PCIe throughput is asked for by a thread */
    if (__atomic_add_fetch(&state.calls, 1, __ATOMIC_RELAXED) != state.fail_at) return 0;
    state.failed = verb;
    return state.fail_with;
}

/* Closing happens even when it reports an error. */
#define EXPORT(kind, verb, name, parameters, arguments)                                \
    int name parameters;                                                               \
    int name parameters {                                                              \
        const int error_ = counted(verb);                                              \
        if (error_ && verb != NVML_shut_down && verb != ROCM_shut_down) return error_; \
        const int done_ = kind arguments;                                              \
        return error_ ? error_ : done_;                                                \
    }
#if defined(STAND_IN_NVML)
#define NVML(verb, name, parameters, arguments) \
    EXPORT(nvml_##verb, NVML_##verb, name, parameters, arguments)
#define ROCM(verb, name, parameters, arguments)
#else
#define NVML(verb, name, parameters, arguments)
#define ROCM(verb, name, parameters, arguments) \
    EXPORT(rocm_##verb, ROCM_##verb, name, parameters, arguments)
#endif
#if defined(STAND_IN_OLD) /* under names that nobody looks for */
#define nvmlDeviceGetHandleByUUID lacking_1
#define nvmlDeviceGetComputeRunningProcesses_v3 lacking_2
#define nvmlDeviceGetComputeRunningProcesses_v2 lacking_3
#define nvmlDeviceGetPcieThroughput lacking_4
#define nvmlDeviceGetEnforcedPowerLimit lacking_5
#define rsmi_dev_power_get lacking_6
#define rsmi_compute_process_info_by_device_get lacking_7
#define rsmi_dev_busy_percent_get lacking_8
#endif
#if defined(STAND_IN_OLDEST)
#define nvmlDeviceGetHandleByPciBusId_v2 lacking_9
#define rsmi_dev_pci_id_get lacking_10
#endif
#include "monitor.def"
