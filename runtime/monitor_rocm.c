/* monitor_rocm.c: AMD's devices through ROCm SMI; PCIe throughput as monitor_pcie.c says. */
#include "runtime.h"
#include "gpu.h"
#include "monitor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct RocmCalls {
#define NVML(verb, name, parameters, arguments)
#define ROCM(verb, name, parameters, arguments) int(*verb) parameters;
#include "monitor.def"
} RocmCalls;
static const char *const names[] = {
#define NVML(verb, name, parameters, arguments)
#define ROCM(verb, name, parameters, arguments) #name,
#include "monitor.def"
};
_Static_assert(sizeof(RocmCalls) == sizeof names, "an address for each name");

static const MonitorLibrary rocm_library = {
    .variable = VARIABLE_LOCKSTEP_ROCM_SMI,
    .libraries = {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
                  "librocm_smi64.so.1", "librocm_smi64.so"},
    .missing = "install ROCm SMI (Debian: librocm-smi64-1; ROCm: rocm-smi-lib)",
    .names = names,
    .count = COUNT(names),
    .required = 4,
};

typedef struct Rocm {
    Monitor head;
    RocmCalls calls;
    void *library;
    uint32_t device, device_count;
    GpuLocation location;
    PcieWatch *pcie;
    bool pcie_tried;
} Rocm;

/* The frequency that is in use, in Hz; 0: not known. Up to ROCm 5 it is count, current and the
 * frequencies; from 6 on a flag comes first. Read as the old form, the new one has a count of 0 or
 * 1 and a current that is not below it, and so is told from it. */
static uint64_t current_frequency(const RocmFrequencies *frequencies) {
    for (size_t form = 0; form < 2; form++) {
        uint32_t head[3];
        memcpy(head, frequencies->words, sizeof head);
        const uint32_t count = head[form], current = head[form + 1];
        if (form == 1 && head[0] > 1) break; /* no flag */
        if (count >= 1 && count <= ROCM_FREQUENCIES && current < count)
            return frequencies->words[1 + form + current];
    }
    return 0;
}

static void take_clock(const Rocm *rocm, int kind, ls_reading reading, ls_sample *sample) {
    RocmFrequencies frequencies = {{0}};
    if (!rocm->calls.clock || rocm->calls.clock(rocm->device, kind, &frequencies) != 0) return;
    const uint64_t hertz = current_frequency(&frequencies);
    if (hertz) monitor_take(sample, reading, (double)hertz * 1e-6);
}

static void take_temperature(const Rocm *rocm, ls_sample *sample) {
    static const uint32_t sensors[] = {ROCM_SENSOR_JUNCTION, ROCM_SENSOR_EDGE};
    int64_t degrees;
    for (size_t i = 0; rocm->calls.temperature && i < COUNT(sensors); i++) {
        if (rocm->calls.temperature(rocm->device, sensors[i], ROCM_TEMPERATURE_NOW, &degrees) != 0)
            continue;
        monitor_take(sample, LS_READING_TEMPERATURE, (double)degrees * 1e-3);
        return;
    }
}

static void take_power(const Rocm *rocm, ls_sample *sample) {
    const RocmCalls *c = &rocm->calls;
    uint64_t value = 0;
    int kind = 0;
    if ((c->power && c->power(rocm->device, &value, &kind) == 0) ||
        (c->power_average && c->power_average(rocm->device, 0, &value) == 0))
        monitor_take(sample, LS_READING_POWER, (double)value * 1e-6);
    if (c->power_limit && c->power_limit(rocm->device, 0, &value) == 0)
        monitor_take(sample, LS_READING_POWER_LIMIT, (double)value * 1e-6);
}

/* ROCm SMI reads the same file, and keeps everything else of the device waiting meanwhile. */
#define PCIE_FILE "/sys/bus/pci/devices/%04x:%02x:%02x.%x/pcie_bw"

static bool has_pcie(const Rocm *rocm) {
    char path[192];
    const GpuLocation *at = &rocm->location;
    snprintf(path, sizeof path, "%s" PCIE_FILE, rocm->head.root, at->domain, at->bus, at->device,
             at->function);
    return access(path, R_OK) == 0;
}

/* Packets received, packets sent, and the most bytes that one carries. */
static void read_pcie(const Monitor *monitor, PcieTraffic *traffic) {
    char text[128];
    unsigned long long in, out;
    unsigned max;
    const GpuLocation *at = &((const Rocm *)monitor)->location;
    if (!monitor_read(monitor, text, sizeof text, PCIE_FILE, at->domain, at->bus, at->device,
                      at->function) ||
        sscanf(text, "%llu %llu %u", &in, &out, &max) != 3)
        return;
    *traffic = (PcieTraffic){true, true, (double)in * max, (double)out * max};
}

static void sample_rocm(Monitor *monitor, ls_sample *sample) {
    Rocm *rocm = (Rocm *)monitor;
    const RocmCalls *c = &rocm->calls;
    uint32_t percent = 0;
    uint64_t value = 0;
    int64_t speed = 0;
    if (c->busy && c->busy(rocm->device, &percent) == 0)
        monitor_take(sample, LS_READING_UTILISATION, percent);
    if (c->memory_used && c->memory_used(rocm->device, ROCM_MEMORY_VRAM, &value) == 0)
        monitor_take(sample, LS_READING_MEMORY_USED, (double)value);
    if (c->memory_total && c->memory_total(rocm->device, ROCM_MEMORY_VRAM, &value) == 0)
        monitor_take(sample, LS_READING_MEMORY_TOTAL, (double)value);
    take_power(rocm, sample);
    take_temperature(rocm, sample);
    take_clock(rocm, ROCM_CLOCK_SYSTEM, LS_READING_CLOCK, sample);
    take_clock(rocm, ROCM_CLOCK_MEMORY, LS_READING_MEMORY_CLOCK, sample);
    if (c->fan && c->fan_max && c->fan(rocm->device, 0, &speed) == 0 &&
        c->fan_max(rocm->device, 0, &value) == 0 && value > 0)
        monitor_take(sample, LS_READING_FAN, 100 * (double)speed / (double)value);
    float microjoules = 0;
    uint64_t time = 0;
    if (c->energy && c->energy(rocm->device, &value, &microjoules, &time) == 0)
        monitor_take(sample, LS_READING_ENERGY, (double)value * (double)microjoules * 1e-6);
    if (c->replays && c->replays(rocm->device, &value) == 0)
        monitor_take(sample, LS_READING_PCIE_REPLAYS, (double)value);
    if (!rocm->pcie_tried && has_pcie(rocm)) rocm->pcie = pcie_open(monitor, read_pcie);
    rocm->pcie_tried = true;
    pcie_sample(rocm->pcie, sample);
}

/* ---- processes ---- */

enum { PROCESSES_MAX = 1 << 16, DEVICES_MAX = 64 };

/* Whether it uses the device, and with how much memory where that can be told. */
static bool uses(const Rocm *rocm, const RocmProcess *row, bool *known, uint64_t *memory) {
    RocmProcess own = {0};
    uint32_t devices[DEVICES_MAX], count = DEVICES_MAX;
    *known = true;
    *memory = row->memory;
    if (rocm->calls.process_on) {
        if (rocm->calls.process_on(row->pid, rocm->device, &own) != 0) return false;
        *memory = own.memory;
        return true;
    }
    if (!rocm->calls.process_devices ||
        rocm->calls.process_devices(row->pid, devices, &count) != 0 || count > DEVICES_MAX) {
        *known = rocm->device_count == 1;
        return true;
    }
    *known = count == 1; /* it is told for all of them together */
    for (uint32_t i = 0; i < count; i++)
        if (devices[i] == rocm->device) return true;
    return false;
}

static ls_status processes_rocm(Monitor *monitor) {
    const Rocm *rocm = (Rocm *)monitor;
    uint32_t count = 0;
    if (!rocm->calls.processes || rocm->calls.processes(NULL, &count) != 0) return LS_OK;
    if (count == 0 || count > PROCESSES_MAX) return LS_OK;
    uint32_t room = count + 8; /* some may come meanwhile */
    RocmProcess *rows = calloc(room, sizeof *rows);
    if (!rows) return error_memory(NULL, "ls_monitor_processes");
    count = room;
    ls_status status = LS_OK;
    if (rocm->calls.processes(rows, &count) != 0) count = 0;
    for (uint32_t i = 0; i < count && i < room && status == LS_OK; i++) {
        bool known;
        uint64_t memory;
        if (uses(rocm, &rows[i], &known, &memory))
            status = monitor_add_process(monitor, rows[i].pid, known, known ? memory : 0);
    }
    free(rows);
    return status;
}

/* ---- life ---- */

static void close_rocm(Monitor *monitor) {
    Rocm *rocm = (Rocm *)monitor;
    pcie_close(rocm->pcie);
    rocm->calls.shut_down();
    dlclose(rocm->library);
    free(rocm);
}

/* The device in the same place. What the library says beside domain, bus, device and function is a
 * partition's number. */
static int find_device(Rocm *rocm, const GpuLocation *location, const char **named, bool *there) {
    const uint64_t wanted = (uint64_t)location->domain << 32 |
                            (uint64_t)(location->bus & 0xff) << 8 | (location->device & 0x1f) << 3 |
                            (location->function & 7);
    *there = false;
    *named = names[2];
    int error = rocm->calls.count(&rocm->device_count);
    for (uint32_t i = 0; error == 0 && i < rocm->device_count && !*there; i++) {
        uint64_t found = 0;
        *named = names[3];
        error = rocm->calls.bus(i, &found);
        *there = error == 0 && (found & 0xffffffff0000ffffull) == wanted;
        rocm->device = i;
    }
    return error;
}

ls_status monitor_open_rocm(const char *device, const GpuLocation *location, Error *error,
                            Monitor **monitor) {
    static const MonitorSource source = {sample_rocm, processes_rocm, close_rocm};
    char reason[512];
    Rocm *rocm = calloc(1, sizeof *rocm);
    if (!rocm) return error_memory(error, "ls_monitor_create");
    rocm->library = monitor_library(&rocm_library, &rocm->calls, reason, sizeof reason);
    if (!rocm->library) {
        free(rocm);
        return error_set(error, LS_ERROR_DEVICE, "ls_monitor_create: %s cannot be watched: %s",
                         device, reason);
    }
    const char *named = names[0];
    bool there = false;
    int code = rocm->calls.initialise(0);
    const bool initialised = code == 0;
    if (initialised) code = find_device(rocm, location, &named, &there);
    if (code == 0 && there) {
        rocm->head.source = &source;
        rocm->location = *location;
        *monitor = &rocm->head;
        return LS_OK;
    }
    if (initialised) rocm->calls.shut_down();
    dlclose(rocm->library);
    free(rocm);
    if (code == 0)
        return error_set(error, LS_ERROR_DEVICE,
                         "ls_monitor_create: %s cannot be watched: ROCm SMI has no device at "
                         "%04x:%02x:%02x.%x: see what rocm-smi says",
                         device, location->domain, location->bus, location->device,
                         location->function);
    return error_set(error, LS_ERROR_DEVICE,
                     "ls_monitor_create: %s cannot be watched: %s failed (%d): see what rocm-smi "
                     "says, and whether you are in the groups render and video",
                     device, named, code);
}
