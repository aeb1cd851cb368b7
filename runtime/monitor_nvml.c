/* monitor_nvml.c: NVIDIA's devices through NVML, which comes with the driver. */
#include "runtime.h"
#include "gpu.h"
#include "monitor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct NvmlCalls {
#define NVML(verb, name, parameters, arguments) int(*verb) parameters;
#define ROCM(verb, name, parameters, arguments)
#include "monitor.def"
} NvmlCalls;
static const char *const names[] = {
#define NVML(verb, name, parameters, arguments) #name,
#define ROCM(verb, name, parameters, arguments)
#include "monitor.def"
};
_Static_assert(sizeof(NvmlCalls) == sizeof names, "an address for each name");

static const MonitorLibrary nvml_library = {
    .variable = VARIABLE_LOCKSTEP_NVML,
    .libraries = {"libnvidia-ml.so.1"}, /* without the number: for linking only */
    .missing = "it comes with the NVIDIA driver (Debian: libnvidia-ml1; in a container: "
               "NVIDIA_DRIVER_CAPABILITIES must have utility)",
    .names = names,
    .count = COUNT(names),
    .required = 3,
};

typedef struct Nvml {
    Monitor head;
    NvmlCalls calls;
    void *library, *device;
    PcieWatch *pcie;
    bool pcie_tried;
} Nvml;

static const struct {
    int error;
    const char *text;
} reasons[] = {
    {3, "the device does not support it"},
    {4, "the user may not: ask the administrator"},
    {6, "it knows no such device: is it passed on to this container, or in MIG mode?"},
    {9, "the NVIDIA driver is not loaded: see what nvidia-smi says"},
    {15, "the device is lost: see what nvidia-smi says, and reboot"},
    {18, "the library and the driver have different versions: reboot"},
};

static const char *reason_of(int error) {
    for (size_t i = 0; i < COUNT(reasons); i++)
        if (reasons[i].error == error) return reasons[i].text;
    return "see what nvidia-smi says";
}

/* Each call counts for 20 ms. */
static void read_pcie(const Monitor *monitor, PcieTraffic *traffic) {
    const Nvml *nvml = (const Nvml *)monitor;
    unsigned value = 0; /* of 1,000 bytes */
    traffic->received_known = nvml->calls.pcie(nvml->device, NVML_PCIE_RECEIVED, &value) == 0;
    traffic->received = value * 1e3;
    traffic->sent_known = nvml->calls.pcie(nvml->device, NVML_PCIE_SENT, &value) == 0;
    traffic->sent = value * 1e3;
}

static void sample_nvml(Monitor *monitor, ls_sample *sample) {
    Nvml *nvml = (Nvml *)monitor;
    const NvmlCalls *c = &nvml->calls;
    void *device = nvml->device;
    NvmlUtilisation rates = {0, 0};
    NvmlMemory memory = {0, 0, 0};
    unsigned value = 0;
    if (c->utilisation && c->utilisation(device, &rates) == 0)
        monitor_take(sample, LS_READING_UTILISATION, rates.gpu);
    if (c->memory && c->memory(device, &memory) == 0) {
        monitor_take(sample, LS_READING_MEMORY_USED, (double)memory.used);
        monitor_take(sample, LS_READING_MEMORY_TOTAL, (double)memory.total);
    }
    if (c->power && c->power(device, &value) == 0)
        monitor_take(sample, LS_READING_POWER, value * 1e-3);
    if (c->power_limit && c->power_limit(device, &value) == 0)
        monitor_take(sample, LS_READING_POWER_LIMIT, value * 1e-3);
    if (c->temperature && c->temperature(device, NVML_SENSOR_GPU, &value) == 0)
        monitor_take(sample, LS_READING_TEMPERATURE, value);
    if (c->clock && c->clock(device, NVML_CLOCK_SM, &value) == 0)
        monitor_take(sample, LS_READING_CLOCK, value);
    if (c->clock && c->clock(device, NVML_CLOCK_MEMORY, &value) == 0)
        monitor_take(sample, LS_READING_MEMORY_CLOCK, value);
    if (c->fan && c->fan(device, &value) == 0) monitor_take(sample, LS_READING_FAN, value);
    unsigned long long large = 0;
    if (c->energy && c->energy(device, &large) == 0)
        monitor_take(sample, LS_READING_ENERGY, (double)large * 1e-3);
    if (c->throttle && c->throttle(device, &large) == 0)
        monitor_take(sample, LS_READING_THROTTLE, (double)large);
    if (c->replays && c->replays(device, &value) == 0)
        monitor_take(sample, LS_READING_PCIE_REPLAYS, value);
    if (c->pcie && !nvml->pcie_tried) nvml->pcie = pcie_open(monitor, read_pcie);
    nvml->pcie_tried = true;
    pcie_sample(nvml->pcie, sample);
}

/* ---- processes ---- */

/* The newest form of the call that there is. */
static int list_processes(const Nvml *nvml, unsigned *count, void *rows) {
    const NvmlCalls *c = &nvml->calls;
    if (c->compute_3) return c->compute_3(nvml->device, count, rows);
    if (c->compute_2) return c->compute_2(nvml->device, count, rows);
    return c->compute_1(nvml->device, count, rows);
}

static size_t row_size(const NvmlCalls *c) {
    if (c->compute_3 || c->compute_2) return sizeof(NvmlProcess);
    return c->compute_1 ? sizeof(NvmlProcess1) : 0;
}

static ls_status take_rows(Monitor *monitor, const char *rows, size_t row_bytes, unsigned count) {
    ls_status status = LS_OK;
    for (unsigned i = 0; i < count && status == LS_OK; i++) {
        /* both forms begin alike */
        const NvmlProcess1 *row = (const NvmlProcess1 *)(const void *)(rows + i * row_bytes);
        const bool known = row->memory != ~0ull;
        status = monitor_add_process(monitor, row->pid, known, known ? row->memory : 0);
    }
    return status;
}

/* Processes come while one counts them: asks again with room for more. */
static ls_status processes_nvml(Monitor *monitor) {
    enum { TRIES = 4, MOST = 1 << 16 };
    const Nvml *nvml = (Nvml *)monitor;
    const size_t row_bytes = row_size(&nvml->calls);
    unsigned room = 32;
    for (int i = 0; row_bytes && i < TRIES && room <= MOST; i++) {
        char *rows = calloc(room, row_bytes);
        if (!rows) return error_memory(NULL, "ls_monitor_processes");
        unsigned count = room;
        const int error = list_processes(nvml, &count, rows);
        ls_status status = LS_OK;
        if (error == 0) status = take_rows(monitor, rows, row_bytes, count < room ? count : room);
        free(rows);
        if (error != NVML_INSUFFICIENT_SIZE) return status;
        room = count < room ? 2 * room : count > MOST ? MOST + 1 : count + 32;
    }
    return LS_OK;
}

/* ---- life ---- */

static void close_nvml(Monitor *monitor) {
    Nvml *nvml = (Nvml *)monitor;
    pcie_close(nvml->pcie);
    nvml->calls.shut_down();
    dlclose(nvml->library);
    free(nvml);
}

static int find_device(Nvml *nvml, const GpuLocation *location, const char **named) {
    char text[64];
    int error = -1;
    *named = names[2];
    if (location->has_bus) {
        snprintf(text, sizeof text, "%08x:%02x:%02x.%x", location->domain, location->bus,
                 location->device, location->function);
        error = nvml->calls.by_bus(text, &nvml->device);
    }
    if (error == 0 || !location->has_uuid || !nvml->calls.by_uuid) return error;
    const unsigned char *u = location->uuid;
    snprintf(text, sizeof text,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    *named = names[3];
    error = nvml->calls.by_uuid(text, &nvml->device);
    if (error == 0) return 0;
    memcpy(text, "MIG", 3); /* a part of a device has a UUID of its own */
    return nvml->calls.by_uuid(text, &nvml->device);
}

ls_status monitor_open_nvml(const char *device, const GpuLocation *location, Error *error,
                            Monitor **monitor) {
    static const MonitorSource source = {sample_nvml, processes_nvml, close_nvml};
    char reason[512];
    Nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml) return error_memory(error, "ls_monitor_create");
    nvml->library = monitor_library(&nvml_library, &nvml->calls, reason, sizeof reason);
    if (!nvml->library) {
        free(nvml);
        return error_set(error, LS_ERROR_DEVICE, "ls_monitor_create: %s cannot be watched: %s",
                         device, reason);
    }
    const char *named = names[0];
    int code = nvml->calls.initialise();
    if (code == 0) {
        nvml->head.source = &source;
        code = find_device(nvml, location, &named);
        if (code == 0) {
            *monitor = &nvml->head;
            return LS_OK;
        }
        nvml->calls.shut_down();
    }
    dlclose(nvml->library);
    free(nvml);
    return error_set(error, LS_ERROR_DEVICE,
                     "ls_monitor_create: %s cannot be watched: %s failed (%d): %s", device, named,
                     code, reason_of(code));
}
