/* monitor.c: what a device is doing, and who uses it.
 *
 * A source is a driver's way to watch one device: monitor_cpu.c, monitor_nvml.c, monitor_rocm.c.
 * What it says is believed within the bounds of LS_READING_LIST only. Lockstep's processes are
 * those that map the page of mark.c. */
#include "runtime.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *unit;
    double max;
} readings[LS_READING_COUNT] = {
#define READING(id, name, unit, max) {name, unit, max},
    LS_READING_LIST(READING)
#undef READING
};

const char *ls_reading_name(ls_reading reading) {
    return (unsigned)reading < LS_READING_COUNT ? readings[reading].name : "?";
}

const char *ls_reading_unit(ls_reading reading) {
    return (unsigned)reading < LS_READING_COUNT ? readings[reading].unit : "?";
}

const char *ls_throttle_name(unsigned bit) {
    /* NVML's; bits 0, 1 and 8 are an idle device and clocks that somebody chose */
    static const char *const names[] = {
        [2] = "power cap",   [3] = "hardware slowdown",    [4] = "sync boost",
        [5] = "temperature", [6] = "hardware temperature", [7] = "power brake"};
    return bit < COUNT(names) ? names[bit] : NULL;
}

void monitor_take(ls_sample *sample, ls_reading reading, double value) {
    if (!(value >= 0 && value <= readings[reading].max)) return;
    sample->value[reading] = value;
    sample->known |= 1u << reading;
}

bool monitor_read(const Monitor *monitor, char *text, size_t size, const char *format, ...) {
    char path[512];
    const size_t root = strlen(monitor->root);
    va_list arguments;
    memcpy(path, monitor->root, root);
    va_start(arguments, format);
    int length = vsnprintf(path + root, sizeof path - root, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof path - root) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool good = fgets(text, (int)size, file) != NULL;
    fclose(file);
    if (good) text[strcspn(text, "\n")] = 0;
    return good;
}

/* ---- processes ---- */

ls_status monitor_add_process(Monitor *monitor, int64_t pid, bool memory_known, uint64_t memory) {
    for (size_t i = 0; i < monitor->process_count; i++)
        if (monitor->processes[i].pid == pid) return LS_OK; /* of several instances: the first */
    if (!array_grow(&monitor->processes, &monitor->process_capacity, monitor->process_count + 1,
                    sizeof *monitor->processes))
        return error_memory(NULL, "ls_monitor_processes");
    ls_process *row = &monitor->processes[monitor->process_count++];
    *row = (ls_process){.pid = pid, .memory_known = memory_known, .memory_bytes = memory};
    return LS_OK;
}

bool monitor_is_marked(const Monitor *monitor, int64_t pid, const char *kind) {
    char path[128], line[512], mark[64];
    snprintf(mark, sizeof mark, "/memfd:lockstep:%s", kind);
    snprintf(path, sizeof path, "%s/proc/%lld/maps", monitor->root, (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool marked = false;
    while (!marked && fgets(line, sizeof line, file)) marked = strstr(line, mark) != NULL;
    fclose(file);
    return marked;
}

/* The kind of device in a mark: CUDA_VISIBLE_DEVICES gives each process numbers of its own. */
static void kind_of(const Monitor *monitor, char kind[16]) {
    const char *colon = strchr(monitor->device, ':');
    snprintf(kind, 16, "%.*s",
             (int)(colon ? (size_t)(colon - monitor->device) : strlen(monitor->device)),
             monitor->device);
}

static void describe(const Monitor *monitor, ls_process *row) {
    char kind[16];
    kind_of(monitor, kind);
    row->lockstep = monitor_is_marked(monitor, row->pid, kind);
    if (!monitor_read(monitor, row->name, sizeof row->name, "/proc/%lld/comm", (long long)row->pid))
        snprintf(row->name, sizeof row->name, "?");
    for (char *at = row->name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?'; /* a name can be anything */
}

static int by_use(const void *a, const void *b) {
    const ls_process *x = a, *y = b;
    if (x->lockstep != y->lockstep) return y->lockstep - x->lockstep;
    if (x->memory_bytes != y->memory_bytes) return x->memory_bytes < y->memory_bytes ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

ls_status ls_monitor_processes(ls_monitor *monitor, ls_process *processes, size_t capacity,
                               size_t *count) {
    static const char call[] = "ls_monitor_processes";
    if (count) *count = 0;
    if (!monitor || !count || (capacity && !processes))
        return error_set(NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                         !monitor ? "monitor"
                         : !count ? "count"
                                  : "processes");
    Monitor *source = monitor->source;
    source->process_count = 0;
    ls_status status = source->source->processes(source);
    if (status != LS_OK) return status;
    for (size_t i = 0; i < source->process_count; i++) describe(source, &source->processes[i]);
    if (source->process_count)
        qsort(source->processes, source->process_count, sizeof *source->processes, by_use);
    size_t taken = source->process_count < capacity ? source->process_count : capacity;
    if (taken) memcpy(processes, source->processes, taken * sizeof *processes);
    *count = source->process_count;
    return LS_OK;
}

/* ---- memory by label ---- */

/* The page of a mark as it was between two changes; false: it is none, or changes all the time. */
static bool read_page(int file, MarkPage *page) {
    enum { TRIES = 20 };
    for (int i = 0; i < TRIES; i++) {
        MarkPage again;
        if (pread(file, page, sizeof *page, 0) != (ssize_t)sizeof *page ||
            pread(file, &again, sizeof again, 0) != (ssize_t)sizeof again)
            return false;
        if (page->version != MARK_VERSION) return false;
        if (page->changes % 2 == 0 && page->changes == again.changes) return true;
    }
    return false;
}

static void add_label(ls_process_label *labels, size_t capacity, size_t *count, const char *name,
                      uint64_t bytes) {
    const size_t filled = *count < capacity ? *count : capacity;
    for (size_t i = 0; i < filled; i++)
        if (strcmp(labels[i].label, name) == 0) {
            labels[i].bytes += bytes;
            return;
        }
    if (*count < capacity) {
        labels[*count] = (ls_process_label){.bytes = bytes};
        snprintf(labels[*count].label, sizeof labels[*count].label, "%s", name);
    }
    ++*count;
}

/* The number by which the process knows itself: in a container it is another one than ours. */
static int64_t own_number(const char *root, int64_t pid) {
    char path[160], line[256];
    int64_t own = pid;
    snprintf(path, sizeof path, "%s/proc/%lld/status", root, (long long)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *at = line + 6, *end;
        if (strncmp(line, "NSpid:", 6) != 0) continue;
        for (long long number; number = strtoll(at, &end, 10), end != at; at = end) own = number;
        break;
    }
    if (file) fclose(file);
    return own;
}

static void read_labels(const char *path, int64_t owner, ls_process_label *labels, size_t capacity,
                        size_t *count) {
    MarkPage page;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return;
    const bool good = read_page(file, &page) && page.owner == owner;
    close(file);
    for (size_t i = 0; good && i < MARK_LABELS; i++) {
        page.labels[i].name[MARK_NAME - 1] = 0; /* another process wrote it */
        if (page.labels[i].bytes)
            add_label(labels, capacity, count, page.labels[i].name, page.labels[i].bytes);
    }
}

ls_status ls_monitor_labels(ls_monitor *monitor, int64_t pid, ls_process_label *labels,
                            size_t capacity, size_t *count) {
    static const char call[] = "ls_monitor_labels";
    char kind[16], mark[64], folder[160], path[420], target[96];
    if (count) *count = 0;
    if (!monitor || !count || (capacity && !labels))
        return error_set(NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                         !monitor ? "monitor"
                         : !count ? "count"
                                  : "labels");
    kind_of(monitor->source, kind);
    const int length = snprintf(mark, sizeof mark, "/memfd:lockstep:%s", kind);
    snprintf(folder, sizeof folder, "%s/proc/%lld/fd", monitor->source->root, (long long)pid);
    const int64_t owner = own_number(monitor->source->root, pid);
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        const ssize_t size = readlink(path, target, sizeof target - 1);
        if (size < length || strncmp(target, mark, (size_t)length) != 0) continue;
        read_labels(path, owner, labels, capacity, count);
    }
    if (list) closedir(list);
    return LS_OK;
}

/* ---- life and samples ---- */

ls_status monitor_create(const char *device, const char *root, ls_monitor **monitor) {
    static const char call[] = "ls_monitor_create";
    const Driver *driver;
    int index;
    if (!monitor) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: monitor is NULL", call);
    *monitor = NULL;
    ls_monitor *made = calloc(1, sizeof *made);
    if (!made) return error_memory(NULL, call);
    ls_status status = device_named(call, device, NULL, &driver, &index);
    if (status == LS_OK && driver)
        status = driver->monitor(driver, index, root, NULL, &made->source);
    for (size_t i = 0; status == LS_OK && !driver && !made->source && i < driver_count; i++)
        if (drivers[i]->monitor(drivers[i], 0, root, NULL, &made->source) != LS_OK)
            log_write(LOG_INFO, "auto passes over %s: %s", drivers[i]->name,
                      ls_error_message(NULL));
    if (status == LS_OK && !made->source) status = LS_ERROR_DEVICE; /* the last one's message */
    if (status != LS_OK) {
        free(made);
        return status;
    }
    *monitor = made;
    return LS_OK;
}

ls_status ls_monitor_create(const char *device, ls_monitor **monitor) {
    return monitor_create(device, "", monitor);
}

void ls_monitor_destroy(ls_monitor *monitor) {
    if (!monitor) return;
    free(monitor->source->processes);
    monitor->source->source->close(monitor->source);
    free(monitor);
}

ls_status ls_monitor_sample(ls_monitor *monitor, ls_sample *sample) {
    if (!monitor || !sample)
        return error_set(NULL, LS_ERROR_ARGUMENT, "ls_monitor_sample: %s is NULL",
                         monitor ? "sample" : "monitor");
    *sample = (ls_sample){.seconds = time_us() * 1e-6};
    monitor->source->source->sample(monitor->source, sample);
    /* used memory beyond the total is as absurd as any */
    const uint32_t both = 1u << LS_READING_MEMORY_USED | 1u << LS_READING_MEMORY_TOTAL;
    if ((sample->known & both) == both &&
        sample->value[LS_READING_MEMORY_USED] > sample->value[LS_READING_MEMORY_TOTAL])
        sample->known &= ~both;
    return LS_OK;
}
