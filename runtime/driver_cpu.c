/* driver_cpu.c: the CPU as a device.
 *
 * Its stream is synchronous: a call has happened when it returns. A module is a shared object
 * loaded from memory, or the function table of an image built ahead of time. It needs no graphs: a
 * recording of launches is one job for its threads, and so are many replays of it. */
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, SMALL_ALIGNMENT = 256, HUGE_PAGE = 2 * 1024 * 1024 };

typedef struct Cpu {
    Device head;
    Pool *pool;
} Cpu;

static ls_status read_threads(Error *error, uint32_t *threads) {
    const char *text = host_environment(VARIABLE_LOCKSTEP_THREADS);
    if (text && *text) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        if (*end || text[0] < '0' || text[0] > '9' || value < 1 || value > THREADS_MAX)
            return error_set(
                error, LS_ERROR_ARGUMENT,
                "ls_context_create: LOCKSTEP_THREADS is `%.32s`; it takes a number from 1 "
                "to %d",
                text, THREADS_MAX);
        *threads = (uint32_t)value;
        return LS_OK;
    }
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    *threads = (uint32_t)(count < 1 ? 1 : (count > THREADS_MAX ? THREADS_MAX : count));
    const uint32_t quota = limits_processors(""); /* a container's */
    if (quota && quota < *threads) *threads = quota;
    return LS_OK;
}

/* The processor's name, as the kernel tells it. */
static void read_model(char *text, size_t size) {
    snprintf(text, size, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(text, size, "%.100s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(file);
}

static void describe(char *text, size_t size, uint32_t threads) {
    char model[128];
    const uint32_t quota = limits_processors("");
    read_model(model, sizeof model);
    snprintf(text, size, "%.100s, %u thread%s%s", model, threads, threads == 1 ? "" : "s",
             quota && quota == threads ? " (of its control group)" : "");
}

static size_t cpu_list(const Driver *driver, ls_device_info *devices, size_t capacity) {
    if (capacity == 0) return 1;
    Error error = {0};
    uint32_t threads;
    snprintf(devices->name, sizeof devices->name, "%s", driver->name);
    devices->usable = read_threads(&error, &threads) == LS_OK;
    if (devices->usable)
        describe(devices->description, sizeof devices->description, threads);
    else
        snprintf(devices->description, sizeof devices->description, "%.150s", error.text);
    return 1;
}

static ls_status cpu_open(const Driver *driver, int index, void *stream, Error *error,
                          Device **device) {
    *device = NULL;
    if (index != 0)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_context_create: there is no cpu:%d, only cpu", index);
    if (stream)
        return error_set(
            error, LS_ERROR_ARGUMENT,
            "ls_context_create: a stream was given, but the CPU has none; pass NULL, or "
            "name the GPU it belongs to");
    uint32_t threads;
    ls_status status = read_threads(error, &threads);
    if (status != LS_OK) return status;
    Cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return error_memory(error, "ls_context_create");
    cpu->pool = pool_create(threads);
    if (!cpu->pool) {
        free(cpu);
        return error_memory(error, "ls_context_create");
    }
    cpu->head.driver = driver;
    cpu->head.error = error;
    cpu->head.reads_host = cpu->head.reads_pinned = true;
    cpu->head.threads = pool_threads(cpu->pool);
    snprintf(cpu->head.name, sizeof cpu->head.name, "%s", driver->name);
    snprintf(cpu->head.target, sizeof cpu->head.target, LS_TARGET_CPU);
    snprintf(cpu->head.lacks[CAN_COOPERATE], LACK_BYTES, "the launches of a step are one job");
    describe(cpu->head.description, sizeof cpu->head.description, cpu->head.threads);
    *device = &cpu->head;
    return LS_OK;
}

static void cpu_close(Device *device) {
    Cpu *cpu = (Cpu *)device;
    pool_destroy(cpu->pool);
    free(cpu);
}

static int cpu_suits(const Device *device, const char *target) {
    return strcmp(target, device->target) == 0;
}

static ls_status cpu_synchronize(Device *device) {
    (void)device;
    return LS_OK;
}

static ls_status cpu_allocate(Device *device, size_t bytes, void **pointer) {
    (void)device;
    bool huge = bytes >= HUGE_PAGE;
    *pointer = NULL;
    int failed = posix_memalign(pointer, huge ? HUGE_PAGE : SMALL_ALIGNMENT, bytes);
    if (failed) {
        *pointer = NULL;
        return LS_ERROR_MEMORY;
    }
    if (huge) madvise(*pointer, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* only advice */
    return LS_OK;
}

static void cpu_release(Device *device, void *pointer) {
    (void)device;
    free(pointer);
}

static bool cpu_available(Device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)device;
    return limits_memory("", free_bytes, total_bytes);
}

static ls_status cpu_copy(Device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    memmove(to, from, bytes);
    return LS_OK;
}

static ls_status cpu_clear(Device *device, void *pointer, size_t bytes) {
    (void)device;
    memset(pointer, 0, bytes);
    return LS_OK;
}

typedef struct CpuModule {
    void *library;
    int file; /* kept open while the library is loaded */
} CpuModule;

/* A file that only we see. The loader takes a file it has seen by name for the same library, so a
 * memory file, whose name is its number, stays open as long as the library lives. */
static int create_file(bool in_memory, char *path, size_t size) {
    if (in_memory) {
        int file = memfd_create("lockstep", MFD_CLOEXEC);
        snprintf(path, size, "/proc/self/fd/%d", file);
        return file;
    }
    const char *folder = host_environment(VARIABLE_TMPDIR);
    snprintf(path, size, "%s/lockstep-XXXXXX", folder && *folder ? folder : "/tmp");
    return mkostemp(path, O_CLOEXEC);
}

static bool write_all(int file, const void *code, size_t size) {
    const char *next = code;
    while (size > 0) {
        ssize_t wrote = write(file, next, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        next += wrote;
        size -= (size_t)wrote;
    }
    return true;
}

/* Loads from memory, or through a temporary file where the system has no memory files or no /proc.
 */
static ls_status open_library(Device *device, const ls_image *image, const void *code, size_t size,
                              CpuModule *module) {
    char path[4096];
    ls_status status = LS_OK;
    for (int way = 0; way < 2; way++) {
        bool in_memory = way == 0;
        module->file = create_file(in_memory, path, sizeof path);
        if (module->file < 0 || !write_all(module->file, code, size)) {
            status =
                error_set(device->error, LS_ERROR_FILE,
                          "loading step `%s`: its code could not be written to %s: %s; set TMPDIR "
                          "to a folder with room",
                          image->step, in_memory ? "memory" : path, strerror(errno));
        } else {
            module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            const char *reason = module->library ? NULL : dlerror();
            if (!module->library)
                status = error_set(device->error, LS_ERROR_DEVICE,
                                   "loading step `%s`: the dynamic loader refused its code: %s",
                                   image->step, reason ? reason : "no reason given");
        }
        if (!in_memory && module->file >= 0) unlink(path);
        if (module->library) return LS_OK;
        if (module->file >= 0) close(module->file);
    }
    return status;
}

static void close_library(CpuModule *module) {
    dlclose(module->library);
    close(module->file);
    free(module);
}

static ls_status cpu_load(Device *device, const ls_image *image, const ls_image_variant *variant,
                          const void *code, size_t size, Kernel *kernels, void **module) {
    *module = NULL;
    if (variant->functions) {
        for (uint32_t i = 0; i < variant->kernel_count; i++) kernels[i].cpu = variant->functions[i];
        return LS_OK;
    }
    CpuModule *made = calloc(1, sizeof *made);
    if (!made) return error_memory(device->error, "loading a step");
    ls_status status = open_library(device, image, code, size, made);
    if (status != LS_OK) {
        free(made);
        return status;
    }
    for (uint32_t i = 0; i < variant->kernel_count; i++) {
        void *address = dlsym(made->library, variant->kernels[i].name);
        if (!address) {
            close_library(made);
            return error_set(device->error, LS_ERROR_INTERNAL,
                             "loading step `%s`: its code has no kernel `%s`", image->step,
                             variant->kernels[i].name);
        }
        memcpy(&kernels[i].cpu, &address, sizeof address); /* ISO C has no cast for this */
    }
    *module = made;
    return LS_OK;
}

static void cpu_unload(Device *device, void *module) {
    (void)device;
    if (module) close_library(module);
}

static ls_status cpu_geometry(Device *device, const ls_image_kernel *kernel, uint64_t tiles,
                              Launch *launch) {
    launch->parts = (uint32_t)ls_image_workers(kernel, launch->items, tiles, device->threads);
    return LS_OK;
}

static ls_status cpu_repeat(Device *device, const Launch *launches, size_t count, uint64_t times) {
    Cpu *cpu = (Cpu *)device;
    pool_run(cpu->pool, launches, count, times, NULL);
    return LS_OK;
}

static ls_status cpu_repeat_until(Device *device, const Launch *launches, size_t count,
                                  const void *stop, uint64_t most, uint64_t *times) {
    Cpu *cpu = (Cpu *)device;
    *times = pool_run(cpu->pool, launches, count, most, stop);
    return LS_OK;
}

static ls_status cpu_launch(Device *device, const Launch *launches, size_t count) {
    return cpu_repeat(device, launches, count, 1);
}

/* A kernel whose argument is the work. */
static void run_host_work(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                          uint32_t workers) {
    const ls_host_work *work;
    (void)worker, (void)workers;
    memcpy(&work, arguments, sizeof work);
    if (first < last) work->run(work->argument, first, last);
}

/* Items are worth a thread each. */
static ls_status cpu_host_launch(Device *device, const ls_host_work *work, uint64_t *argument,
                                 Launch *launch) {
    *argument = (uint64_t)(uintptr_t)work;
    launch->kernel.cpu = run_host_work;
    launch->host = work;
    launch->arguments = argument;
    launch->argument_count = 1;
    launch->parts = work->items < device->threads ? (uint32_t)work->items : device->threads;
    return LS_OK;
}

/* ---- copies and fills within memory ---- */

enum { COPY_PART = 64 * 1024 }; /* bytes that are worth a thread */

/* Elements one after another: what a row of a few bytes is. */
#define LINE(size)                                                               \
    case size:                                                                   \
        for (uint64_t i = 0; i < count; i++, to += axis->to, from += axis->from) \
            memcpy(to, from, size);                                              \
        return

static void copy_line(char *to, const char *from, const CopyAxis *axis, uint64_t count,
                      uint64_t width) {
    switch (width) {
        LINE(1);
        LINE(2);
        LINE(4);
        LINE(8);
    default:
        for (uint64_t i = 0; i < count; i++, to += axis->to, from += axis->from)
            memcpy(to, from, width);
    }
}

static void fill_row(char *to, uint64_t width, const Copy *copy) {
    const CopyAxis axis = {.to = copy->unit};
    copy_line(to, (const char *)&copy->value, &axis, width / copy->unit, copy->unit);
}

/* Bytes `first` to `last` of a copy that is one row. */
static void copy_run(const Copy *copy, uint64_t first, uint64_t last) {
    uint64_t from = first * COPY_PART, to = last * COPY_PART;
    if (to > copy->width) to = copy->width;
    if (from >= to) return;
    if (copy->from)
        memcpy(copy->to + from, copy->from + from, to - from);
    else
        fill_row(copy->to + from, to - from, copy);
}

/* Rows `first` to `last`, the last axis fastest. */
static void copy_rows(const Copy *copy, uint64_t first, uint64_t last) {
    const CopyAxis *inner = &copy->axes[copy->rank - 1];
    for (uint64_t row = first, count; row < last; row += count) {
        char *to = copy->to;
        const char *from = copy->from ? copy->from : (const char *)&copy->value;
        uint64_t rest = row;
        for (uint32_t i = copy->rank; i-- > 0;) {
            const CopyAxis *axis = &copy->axes[i];
            const int64_t at = (int64_t)(rest % axis->length);
            rest /= axis->length;
            to += at * axis->to;
            from += at * axis->from;
        }
        count = inner->length - row % inner->length;
        if (count > last - row) count = last - row;
        if (copy->from || copy->width == copy->unit)
            copy_line(to, from, inner, count, copy->width);
        else
            for (uint64_t i = 0; i < count; i++)
                fill_row(to + (int64_t)i * inner->to, copy->width, copy);
    }
}

static void run_copy(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                     uint32_t workers) {
    Copy copy;
    (void)worker, (void)workers;
    memcpy(&copy, arguments, offsetof(Copy, axes));
    memcpy(copy.axes, (const char *)arguments + offsetof(Copy, axes),
           copy.rank * sizeof copy.axes[0]);
    if (copy.rank == 0)
        copy_run(&copy, first, last);
    else
        copy_rows(&copy, first, last);
}

/* A single row is shared in pieces, others row by row. */
static void cpu_copy_launch(Device *device, const Copy *copy, Launch *launch) {
    uint64_t bytes = copy->width, items = (copy->width + COPY_PART - 1) / COPY_PART;
    for (uint32_t i = 0; i < copy->rank; i++) {
        bytes *= copy->axes[i].length;
        items = i == 0 ? copy->axes[i].length : items * copy->axes[i].length;
    }
    uint64_t parts = bytes / COPY_PART + 1;
    if (parts > items) parts = items;
    launch->kernel.cpu = run_copy;
    launch->items = items;
    launch->parts = parts < device->threads ? (uint32_t)parts : device->threads;
}

static void *cpu_stream(const Device *device) {
    (void)device;
    return NULL;
}

static ls_status cpu_event_create(Device *device, bool timed, void **event) {
    (void)timed; /* all are */
    *event = calloc(1, sizeof(struct timespec));
    return *event ? LS_OK : error_memory(device->error, "ls_event_create");
}

static ls_status cpu_event_record(Device *device, void *event) {
    (void)device;
    clock_gettime(CLOCK_MONOTONIC, event);
    return LS_OK;
}

static ls_status cpu_event_elapsed(Device *device, void *start, void *end, double *milliseconds) {
    (void)device;
    const struct timespec *from = start, *to = end;
    *milliseconds =
        (double)(to->tv_sec - from->tv_sec) * 1e3 + (double)(to->tv_nsec - from->tv_nsec) * 1e-6;
    return LS_OK;
}

static void cpu_event_destroy(Device *device, void *event) {
    (void)device;
    free(event);
}

/* ---- copies beside the launches: at once, as everything here; memory is memory ---- */

static ls_status cpu_stream_create(Device *device, void **stream) {
    *stream = device; /* any handle */
    return LS_OK;
}

static void cpu_stream_destroy(Device *device, void *stream) {
    (void)device, (void)stream;
}

static ls_status cpu_stream_copy(Device *device, void *stream, void *to, const void *from,
                                 size_t bytes) {
    (void)stream;
    return cpu_copy(device, to, from, bytes);
}

static ls_status cpu_stream_record(Device *device, void *stream, void *event) {
    (void)stream;
    return cpu_event_record(device, event);
}

static ls_status cpu_stream_wait(Device *device, void *stream, void *event) {
    (void)device, (void)stream, (void)event;
    return LS_OK;
}

static ls_status cpu_event_wait(Device *device, void *event) {
    (void)device, (void)event;
    return LS_OK;
}

static bool cpu_event_done(Device *device, void *event) {
    (void)device, (void)event;
    return true;
}

const Driver driver_cpu = {
    .name = "cpu",
    .kind = LS_DEVICE_CPU,
    .list = cpu_list,
    .open = cpu_open,
    .close = cpu_close,
    .suits = cpu_suits,
    .synchronize = cpu_synchronize,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .available = cpu_available,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .clear = cpu_clear,
    .store = cpu_copy,
    .load = cpu_load,
    .unload = cpu_unload,
    .geometry = cpu_geometry,
    .launch = cpu_launch,
    .repeat = cpu_repeat,
    .repeat_until = cpu_repeat_until,
    .host_launch = cpu_host_launch,
    .copy_launch = cpu_copy_launch,
    .stream = cpu_stream,
    .event_create = cpu_event_create,
    .event_record = cpu_event_record,
    .event_elapsed = cpu_event_elapsed,
    .event_destroy = cpu_event_destroy,
    .pinned_allocate = cpu_allocate,
    .pinned_release = cpu_release,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_copy_in = cpu_stream_copy,
    .stream_copy_out = cpu_stream_copy,
    .copy_within = cpu_stream_copy,
    .stream_record = cpu_stream_record,
    .stream_wait = cpu_stream_wait,
    .event_wait = cpu_event_wait,
    .event_done = cpu_event_done,
    .monitor = monitor_open_cpu,
};
