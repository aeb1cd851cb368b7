/* monitor_cpu.c: the CPU through /proc and /sys, as far as the system shows them. */
#include "runtime.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Times { /* of all processors, in ticks */
    double busy, total;
} Times;
typedef struct Energy { /* of all packages, in microjoules */
    double used, range, seconds;
    bool known;
} Energy;
/* A process that was found to have no mark, by its number: where there are thousands, reading the
 * maps of each takes long. */
typedef struct Unmarked {
    int64_t pid;
    double until; /* when to look again */
} Unmarked;
enum { UNMARKED_KEPT = 4096 };
typedef struct CpuMonitor {
    Monitor head;
    Times times;
    Energy energy;
    double spent;         /* microjoules since the first sample */
    char temperature[96]; /* the file that has it, or "" */
    Unmarked unmarked[UNMARKED_KEPT];
} CpuMonitor;

enum { PACKAGES_MAX = 16, SENSORS_MAX = 64, PROCESSORS_MAX = 1024 };

static bool number_of(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text;
}

/* user nice system idle iowait irq softirq steal */
static Times read_times(const Monitor *monitor) {
    char line[512];
    Times times = {0, 0};
    if (!monitor_read(monitor, line, sizeof line, "/proc/stat")) return times;
    char *at = line + strcspn(line, " ");
    for (int field = 0; field < 8; field++) {
        char *end;
        const double ticks = strtod(at, &end);
        if (end == at) break;
        at = end;
        times.total += ticks;
        if (field != 3 && field != 4) times.busy += ticks;
    }
    return times;
}

static void take_utilisation(CpuMonitor *cpu, ls_sample *sample) {
    const Times times = read_times(&cpu->head);
    const double passed = times.total - cpu->times.total, busy = times.busy - cpu->times.busy;
    if (passed <= 0) return; /* too soon, or the system does not tell */
    monitor_take(sample, LS_READING_UTILISATION, 100 * busy / passed);
    cpu->times = times;
}

/* What a control group leaves of it: a container's. */
static void take_memory(const Monitor *monitor, ls_sample *sample) {
    uint64_t available, total;
    if (!limits_memory(monitor->root, &available, &total) || total == 0 || available > total)
        return;
    monitor_take(sample, LS_READING_MEMORY_TOTAL, (double)total);
    monitor_take(sample, LS_READING_MEMORY_USED, (double)(total - available));
}

/* ---- temperature, clock, power ---- */

static bool is_one_of(const char *text, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0) return true;
    return false;
}

static void find_temperature(CpuMonitor *cpu) {
    static const char *const chips[] = {"coretemp", "k10temp", "zenpower", "cpu_thermal"};
    static const char *const zones[] = {"x86_pkg_temp", "cpu-thermal", "cpu_thermal"};
    char name[64];
    for (int i = 0; i < SENSORS_MAX; i++) {
        if (!monitor_read(&cpu->head, name, sizeof name, "/sys/class/hwmon/hwmon%d/name", i) ||
            !is_one_of(name, chips, COUNT(chips)))
            continue;
        snprintf(cpu->temperature, sizeof cpu->temperature, "/sys/class/hwmon/hwmon%d/temp1_input",
                 i);
        return;
    }
    for (int i = 0; i < SENSORS_MAX; i++) {
        if (!monitor_read(&cpu->head, name, sizeof name, "/sys/class/thermal/thermal_zone%d/type",
                          i) ||
            !is_one_of(name, zones, COUNT(zones)))
            continue;
        snprintf(cpu->temperature, sizeof cpu->temperature,
                 "/sys/class/thermal/thermal_zone%d/temp", i);
        return;
    }
}

static void take_temperature(const CpuMonitor *cpu, ls_sample *sample) {
    char text[64];
    double millidegrees;
    if (*cpu->temperature && monitor_read(&cpu->head, text, sizeof text, "%s", cpu->temperature) &&
        number_of(text, &millidegrees))
        monitor_take(sample, LS_READING_TEMPERATURE, millidegrees * 1e-3);
}

/* The mean over the processors: where the kernel governs them, or else what each says it has. */
static void take_clock(const Monitor *monitor, ls_sample *sample) {
    char text[256];
    double sum = 0, value;
    int count = 0;
    for (int i = 0; i < PROCESSORS_MAX; i++) {
        if (!monitor_read(monitor, text, sizeof text,
                          "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i) ||
            !number_of(text, &value))
            break;
        sum += value * 1e-3;
        count++;
    }
    if (count == 0) {
        snprintf(text, sizeof text, "%s/proc/cpuinfo", monitor->root);
        FILE *file = fopen(text, "re");
        while (file && fgets(text, sizeof text, file)) {
            const char *colon = strchr(text, ':');
            if (strncmp(text, "cpu MHz", 7) != 0 || !colon || !number_of(colon + 1, &value))
                continue;
            sum += value;
            count++;
        }
        if (file) fclose(file);
    }
    if (count) monitor_take(sample, LS_READING_CLOCK, sum / count);
}

static Energy read_energy(const Monitor *monitor) {
    Energy energy = {.seconds = time_us() * 1e-6};
    for (int i = 0; i < PACKAGES_MAX; i++) {
        static const char folder[] = "/sys/class/powercap/intel-rapl:";
        char text[64];
        double used, range = 0;
        if (!monitor_read(monitor, text, sizeof text, "%s%d/energy_uj", folder, i) ||
            !number_of(text, &used))
            break;
        if (monitor_read(monitor, text, sizeof text, "%s%d/max_energy_range_uj", folder, i))
            number_of(text, &range);
        energy.used += used;
        energy.range += range;
        energy.known = true;
    }
    return energy;
}

static void take_power(CpuMonitor *cpu, ls_sample *sample) {
    const Energy energy = read_energy(&cpu->head);
    const double passed = energy.seconds - cpu->energy.seconds;
    double used = energy.used - cpu->energy.used;
    if (used < 0) used += energy.range; /* the counter began again */
    if (energy.known && cpu->energy.known && passed > 0)
        monitor_take(sample, LS_READING_POWER, used * 1e-6 / passed);
    if (energy.known && cpu->energy.known && used >= 0) {
        cpu->spent += used;
        monitor_take(sample, LS_READING_ENERGY, cpu->spent * 1e-6);
    }
    cpu->energy = energy;
    double limit = 0, value;
    char text[64];
    for (int i = 0; i < PACKAGES_MAX; i++) {
        if (!monitor_read(&cpu->head, text, sizeof text,
                          "/sys/class/powercap/intel-rapl:%d/constraint_0_power_limit_uw", i) ||
            !number_of(text, &value))
            break;
        limit += value * 1e-6;
    }
    if (limit > 0) monitor_take(sample, LS_READING_POWER_LIMIT, limit);
}

static void sample_cpu(Monitor *monitor, ls_sample *sample) {
    CpuMonitor *cpu = (CpuMonitor *)monitor;
    take_utilisation(cpu, sample);
    take_memory(monitor, sample);
    take_temperature(cpu, sample);
    take_clock(monitor, sample);
    take_power(cpu, sample);
}

/* ---- processes ---- */

static bool resident(const Monitor *monitor, int64_t pid, uint64_t *bytes) {
    char text[128];
    unsigned long long size, pages;
    const long page = sysconf(_SC_PAGESIZE);
    if (page < 1 || !monitor_read(monitor, text, sizeof text, "/proc/%lld/statm", (long long)pid) ||
        sscanf(text, "%llu %llu", &size, &pages) != 2)
        return false;
    *bytes = pages * (uint64_t)page;
    return true;
}

static bool is_marked(CpuMonitor *cpu, int64_t pid) {
    enum { AGAIN = 3 }; /* seconds */
    Unmarked *row = &cpu->unmarked[pid % UNMARKED_KEPT];
    const double time = time_us() * 1e-6;
    if (row->pid == pid && time < row->until) return false;
    if (monitor_is_marked(&cpu->head, pid, "cpu")) return true;
    *row = (Unmarked){pid, time + AGAIN};
    return false;
}

static ls_status processes_cpu(Monitor *monitor) {
    char path[80];
    snprintf(path, sizeof path, "%s/proc", monitor->root);
    DIR *folder = opendir(path);
    ls_status status = LS_OK;
    if (!folder) return LS_OK;
    for (struct dirent *entry; status == LS_OK && (entry = readdir(folder));) {
        char *end;
        uint64_t bytes = 0;
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        const long long pid = strtoll(entry->d_name, &end, 10);
        if (*end || pid <= 0 || !is_marked((CpuMonitor *)monitor, pid)) continue;
        const bool known = resident(monitor, pid, &bytes);
        status = monitor_add_process(monitor, pid, known, bytes);
    }
    closedir(folder);
    return status;
}

static void close_cpu(Monitor *monitor) {
    free(monitor);
}

ls_status monitor_open_cpu(const Driver *driver, int index, const char *root, Error *error,
                           Monitor **monitor) {
    static const MonitorSource source = {sample_cpu, processes_cpu, close_cpu};
    *monitor = NULL;
    if (index != 0)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_monitor_create: there is no cpu:%d, only cpu", index);
    CpuMonitor *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return error_memory(error, "ls_monitor_create");
    cpu->head.source = &source;
    snprintf(cpu->head.device, sizeof cpu->head.device, "%s", driver->name);
    snprintf(cpu->head.root, sizeof cpu->head.root, "%s", root);
    find_temperature(cpu);
    cpu->times = read_times(&cpu->head);
    cpu->energy = read_energy(&cpu->head);
    *monitor = &cpu->head;
    return LS_OK;
}
