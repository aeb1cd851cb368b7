/* driver_gpu.c: one GPU and one stream, for CUDA and HIP alike.
 *
 * Every function makes the device current for the calling thread, makes its call, and puts back
 * what was current before, so that a trainer with several devices notices nothing. A failed call is
 * reported with its vendor's name and error. Taking down ignores errors: after a kernel failed,
 * every call fails. */
#include "runtime.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status gpu_failed(Gpu *gpu, const char *doing, GpuVerb verb, int error) {
    char text[384];
    gpu_describe_error(&gpu->library, verb, error, text, sizeof text);
    if (!gpu_error_is_final(error))
        return error_set(gpu->head.error,
                         error == GPU_OUT_OF_MEMORY ? LS_ERROR_MEMORY : LS_ERROR_DEVICE,
                         "%s on %s: %s", doing, gpu->head.name, text);
    snprintf(gpu->lost, sizeof gpu->lost, "%.100s: %s", doing, text);
    return error_set(
        gpu->head.error, LS_ERROR_DEVICE,
        "%s on %s: %s; with that the device is lost to this process, and every later call "
        "on it will fail: start a new process, from the last checkpoint",
        doing, gpu->head.name, text);
}

/* The first failure has said it all; the driver is not asked again, since it may hang. */
static ls_status lost(const Gpu *gpu) {
    if (!gpu->lost[0])
        return error_set(gpu->head.error, LS_ERROR_DEVICE,
                         "%s cannot be used in a process that was forked after ls_context_create: "
                         "start one by exec (Python: the start method spawn), and create a context "
                         "there",
                         gpu->head.name);
    return error_set(gpu->head.error, LS_ERROR_DEVICE,
                     "%s is lost to this process since a call failed (%s): start a new process",
                     gpu->head.name, gpu->lost);
}

ls_status gpu_check(Gpu *gpu, const char *doing, GpuVerb verb, int error) {
    return error ? gpu_failed(gpu, doing, verb, error) : LS_OK;
}

ls_status gpu_enter(Gpu *gpu, GpuCurrent *before) {
    GpuVerb verb;
    if (gpu_is_lost(gpu)) return lost(gpu);
    int error = gpu->library.vendor->enter(&gpu->library.calls, gpu->hold.own, before, &verb);
    return error ? gpu_failed(gpu, "making the device current", verb, error) : LS_OK;
}

ls_status gpu_leave(Gpu *gpu, GpuCurrent before, ls_status status) {
    GpuVerb verb;
    int error = gpu->library.vendor->leave(&gpu->library.calls, gpu->hold.own, before, &verb);
    if (status != LS_OK || !error) return status;
    return gpu_failed(gpu, "putting back the thread's device", verb, error);
}

/* Failures do not matter: what follows then fails where it must not be called, and says so. */
int gpu_relax(const Gpu *gpu) {
    int mode = GPU_CAPTURE_RELAXED;
    if (gpu->library.calls.capture_mode) gpu->library.calls.capture_mode(&mode);
    return mode;
}

ls_status gpu_unrelax(const Gpu *gpu, int mode, ls_status status) {
    if (gpu->library.calls.capture_mode) gpu->library.calls.capture_mode(&mode);
    return status;
}

/* Gives a handle up with the device current, or else without; errors are of no use to anyone. With
 * a lost device everything on it is gone already. */
void gpu_take_down(const Gpu *gpu, int (*release)(void *handle), void *handle) {
    const Vendor *vendor = gpu->library.vendor;
    GpuCurrent before;
    GpuVerb verb;
    if (gpu_is_lost(gpu)) return;
    bool entered = vendor->enter(&gpu->library.calls, gpu->hold.own, &before, &verb) == 0;
    const int mode = gpu_relax(gpu);
    release(handle);
    gpu_unrelax(gpu, mode, LS_OK);
    if (entered) vendor->leave(&gpu->library.calls, gpu->hold.own, before, &verb);
}

ls_status gpu_made(Gpu *gpu, ls_status status, int (*release)(void *handle), void **handle) {
    if (status == LS_OK || !*handle) return status;
    gpu_take_down(gpu, release, *handle);
    *handle = NULL;
    return status;
}

/* ---- the device ---- */

static size_t gpu_list(const Driver *driver, ls_device_info *devices, size_t capacity) {
    GpuLibrary library;
    GpuIdentity identity;
    ls_device_info unused;
    if (capacity == 0) devices = &unused;
    snprintf(devices->name, sizeof devices->name, "%s", driver->name);
    devices->usable = 0;
    if (!gpu_library_open(driver->vendor, &library, devices->description,
                          sizeof devices->description))
        return 1;
    size_t count = (size_t)library.device_count;
    for (size_t i = 0; i < count && i < capacity; i++) {
        ls_device_info *row = &devices[i];
        snprintf(row->name, sizeof row->name, "%s:%u", driver->name, (unsigned)(i % 10000));
        row->usable =
            gpu_identify(&library, (int)i, &identity, row->description, sizeof row->description);
        if (row->usable) memcpy(row->description, identity.description, sizeof row->description);
    }
    gpu_library_close(&library);
    return count;
}

/* The library's part of opening; the reason of a failure becomes the error. */
static ls_status find_device(Gpu *gpu, int index, Error *error) {
    GpuIdentity identity;
    char reason[512];
    const char *name = gpu->head.driver->name;
    if (!gpu_library_open(gpu->head.driver->vendor, &gpu->library, reason, sizeof reason))
        return error_set(error, LS_ERROR_DEVICE, "ls_context_create: %s cannot be used: %s", name,
                         reason);
    if (index >= gpu->library.device_count)
        return error_set(error, LS_ERROR_DEVICE,
                         "ls_context_create: there is no %s:%d, only %d device%s, counted from 0",
                         name, index, gpu->library.device_count,
                         gpu->library.device_count == 1 ? "" : "s");
    if (!gpu_identify(&gpu->library, index, &identity, reason, sizeof reason))
        return error_set(error, LS_ERROR_DEVICE, "ls_context_create: %s:%d cannot be used: %s",
                         name, index, reason);
    gpu->device = identity.device;
    gpu->multiprocessors = identity.multiprocessors;
    gpu->head.reads_host = identity.reads_host;
    gpu->head.reads_pinned = identity.reads_pinned;
    memcpy(gpu->head.lacks, identity.lacks, sizeof gpu->head.lacks);
    snprintf(gpu->head.name, sizeof gpu->head.name, "%s:%d", name, index);
    memcpy(gpu->head.description, identity.description, sizeof gpu->head.description);
    memcpy(gpu->head.target, identity.target, sizeof gpu->head.target);
    return LS_OK;
}

static ls_status attach(Gpu *gpu, int index, void *stream) {
    GpuVerb verb;
    const char *name = gpu->head.driver->name;
    int error =
        gpu->library.vendor->attach(&gpu->library.calls, gpu->device, stream, &gpu->hold, &verb);
    if (error) return gpu_failed(gpu, "opening the device", verb, error);
    if (gpu->hold.elsewhere < 0) return LS_OK;
    return error_set(
        gpu->head.error, LS_ERROR_ARGUMENT,
        "ls_context_create: the stream belongs to %s:%d, not to %s:%d; name its device", name,
        gpu->hold.elsewhere, name, index);
}

static ls_status create_stream(Gpu *gpu) {
    MAKE(gpu, &gpu->own_stream, stream_destroy,
         TRY(gpu, "creating the stream", stream_create, &gpu->own_stream, 0));
}

static ls_status gpu_open(const Driver *driver, int index, void *stream, Error *error,
                          Device **device) {
    *device = NULL;
    Gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu) return error_memory(error, "ls_context_create");
    origin_open(&gpu->origin);
    gpu->head.driver = driver;
    gpu->head.error = error;
    ls_status status = find_device(gpu, index, error);
    if (status != LS_OK) goto close_library;
    status = attach(gpu, index, stream);
    if (status != LS_OK) goto close_library;
    if (!stream) status = create_stream(gpu);
    gpu->stream = stream ? stream : gpu->own_stream;
    if (status == LS_OK) {
        *device = &gpu->head;
        return LS_OK;
    }
    if (!gpu_is_lost(gpu))
        gpu->library.vendor->detach(&gpu->library.calls, gpu->device, &gpu->hold);
close_library:
    gpu_library_close(&gpu->library);
    origin_close(&gpu->origin);
    free(gpu);
    return status;
}

static void gpu_close(Device *device) {
    Gpu *gpu = (Gpu *)device;
    const GpuCalls *calls = &gpu->library.calls;
    gpu_repeat_close(gpu);
    if (gpu->own_stream) gpu_take_down(gpu, calls->stream_destroy, gpu->own_stream);
    if (!gpu_is_lost(gpu)) gpu->library.vendor->detach(calls, gpu->device, &gpu->hold);
    if (!origin_forked(&gpu->origin)) gpu_library_close(&gpu->library);
    origin_close(&gpu->origin);
    free(gpu);
}

/* Our own stream is captured by nobody else. */
static ls_status gpu_captured(Device *device, void *stream, bool *captured) {
    Gpu *gpu = (Gpu *)device;
    int state = GPU_NOT_CAPTURING;
    *captured = false;
    if (!stream && gpu->stream == gpu->own_stream) return LS_OK;
    GpuCurrent before;
    ls_status status = gpu_enter(gpu, &before);
    if (status != LS_OK) return status;
    status = gpu_leave(gpu, before,
                       TRY(gpu, "asking whether the stream is captured", stream_capturing,
                           stream ? stream : gpu->stream, &state));
    *captured = state != GPU_NOT_CAPTURING;
    return status;
}

static int gpu_suits(const Device *device, const char *target) {
    return ((const Gpu *)device)->library.vendor->suits(device->target, target);
}

/* Also before something is given up, which a trainer's capture of another stream may see. */
static ls_status gpu_synchronize(Device *device) {
    Gpu *gpu = (Gpu *)device;
    GpuCurrent before;
    ls_status status = gpu_enter(gpu, &before);
    if (status != LS_OK) return status;
    const int mode = gpu_relax(gpu);
    status = TRY(gpu, "waiting for the stream", stream_synchronize, gpu->stream);
    return gpu_leave(gpu, before, gpu_unrelax(gpu, mode, status));
}

/* ---- memory ---- */

static ls_status gpu_allocate(Device *device, size_t bytes, void **pointer) {
    Gpu *gpu = (Gpu *)device;
    *pointer = NULL;
    MAKE(gpu, pointer, memory_free, TRY(gpu, "allocating memory", memory_allocate, pointer, bytes));
}

static void gpu_release(Device *device, void *pointer) {
    Gpu *gpu = (Gpu *)device;
    gpu_take_down(gpu, gpu->library.calls.memory_free, pointer);
}

static bool gpu_available(Device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    Gpu *gpu = (Gpu *)device;
    const Vendor *vendor = gpu->library.vendor;
    GpuCurrent before;
    GpuVerb verb;
    size_t left = 0, total = 0;
    if (gpu_is_lost(gpu) || vendor->enter(&gpu->library.calls, gpu->hold.own, &before, &verb) != 0)
        return false;
    int error = gpu->library.calls.memory_info(&left, &total);
    vendor->leave(&gpu->library.calls, gpu->hold.own, before, &verb);
    *free_bytes = left;
    *total_bytes = total;
    return error == 0;
}

static ls_status gpu_copy_in(Device *device, void *to, const void *from, size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "copying to the device", copy_in, to, (void *)(uintptr_t)from, bytes,
                  gpu->stream));
}

static ls_status gpu_copy_out(Device *device, void *to, const void *from, size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "copying from the device", copy_out, to, (void *)(uintptr_t)from, bytes,
                  gpu->stream));
}

static ls_status gpu_clear(Device *device, void *pointer, size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "clearing memory", fill_8, pointer, 0, bytes, gpu->stream));
}

/* A fill carries the value in the call itself: nothing of the host's is read later. */
static ls_status store_words(Gpu *gpu, char *scalar, const void *value, size_t bytes) {
    static const char doing[] = "setting a rank-0 value";
    uint32_t words[2] = {0, 0};
    memcpy(words, value, bytes);
    if (bytes == 1)
        return TRY(gpu, doing, fill_8, scalar, (unsigned char)(words[0] & 0xff), 1, gpu->stream);
    if (bytes == 2)
        return TRY(gpu, doing, fill_16, scalar, (unsigned short)(words[0] & 0xffff), 1,
                   gpu->stream);
    ls_status status = TRY(gpu, doing, fill_32, scalar, words[0], 1, gpu->stream);
    if (status != LS_OK || bytes == 4) return status;
    return TRY(gpu, doing, fill_32, scalar + 4, words[1], 1, gpu->stream);
}

static ls_status gpu_store(Device *device, void *scalar, const void *value, size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, store_words(gpu, scalar, value, bytes));
}

/* ---- code and launches ---- */

static ls_status find_kernels(Gpu *gpu, const ls_image *image, const ls_image_variant *variant,
                              const void *code, Kernel *kernels, void **module) {
    char doing[256];
    snprintf(doing, sizeof doing, "loading step `%.100s` (%.64s)", image->step, variant->name);
    ls_status status = TRY(gpu, doing, module_load, module, code);
    for (uint32_t i = 0; i < variant->kernel_count && status == LS_OK; i++) {
        const char *name = variant->kernels[i].name;
        snprintf(doing, sizeof doing, "looking for kernel `%.100s`", name);
        status = TRY(gpu, doing, module_function, &kernels[i].gpu, *module, name);
    }
    return status;
}

static ls_status gpu_load(Device *device, const ls_image *image, const ls_image_variant *variant,
                          const void *code, size_t size, Kernel *kernels, void **module) {
    Gpu *gpu = (Gpu *)device;
    (void)size; /* the formats know their own */
    *module = NULL;
    if (!code)
        return error_set(device->error, LS_ERROR_UNSUPPORTED,
                         "loading step `%s`: the image holds code for a CPU only", image->step);
    MAKE(gpu, module, module_unload, find_kernels(gpu, image, variant, code, kernels, module));
}

static void gpu_unload(Device *device, void *module) {
    Gpu *gpu = (Gpu *)device;
    gpu_take_down(gpu, gpu->library.calls.module_unload, module);
}

/* Of a kernel whose blocks wait for each other no more than the device holds at once. */
static ls_status count_together(Gpu *gpu, const ls_image_kernel *kernel, Kernel code, int *blocks) {
    char doing[256];
    snprintf(doing, sizeof doing, "asking how many blocks of kernel `%.100s` run at once",
             kernel->name);
    WITH(gpu, TRY(gpu, doing, blocks_together, blocks, code.gpu, (int)kernel->threads, (size_t)0));
}

static ls_status gpu_geometry(Device *device, const ls_image_kernel *kernel, uint64_t tiles,
                              Launch *launch) {
    Gpu *gpu = (Gpu *)device;
    const uint64_t multiprocessors = (uint64_t)gpu->multiprocessors;
    uint64_t blocks =
        ls_image_blocks(kernel, launch->items, tiles, multiprocessors, &launch->threads);
    if (kernel->cooperative && blocks > 1) {
        int together = 0;
        ls_status status = count_together(gpu, kernel, launch->kernel, &together);
        if (status != LS_OK) return status;
        const uint64_t max = together < 0 ? 0 : (uint64_t)together * multiprocessors;
        if (blocks > max) blocks = max;
    }
    launch->parts = blocks ? (uint32_t)blocks : 1;
    return LS_OK;
}

static ls_status launch_failed(Gpu *gpu, const Launch *launch, GpuVerb verb, int error) {
    char doing[256];
    snprintf(doing, sizeof doing, "launching kernel `%.100s` of step `%.100s`", launch->name,
             launch->step);
    return gpu_failed(gpu, doing, verb, error);
}

static void run_host_work(void *argument) {
    const ls_host_work *work = argument;
    work->run(work->argument, 0, work->items);
}

static ls_status launch_host(Gpu *gpu, const ls_host_work *work) {
    union { /* the driver takes a plain pointer and only hands it back */
        const ls_host_work *given;
        void *kept;
    } argument = {.given = work};
    const int error = gpu->library.calls.host_function(gpu->stream, run_host_work, argument.kept);
    if (error != GPU_CAPTURE_UNSUPPORTED)
        return error ? gpu_failed(gpu, "queueing host work", VERB_host_function, error) : LS_OK;
    return error_set(gpu->head.error, LS_ERROR_UNSUPPORTED,
                     "ls_host_call: this %s driver records no host functions (%s failed with %d): "
                     "end the graph before it, call it, and begin another graph behind it",
                     gpu->library.vendor->title, gpu->library.vendor->names[VERB_host_function],
                     error);
}

/* A driver of HIP before 6.4 runs a cooperative launch at once instead of recording it, and says
 * nothing. Those drivers are known by their version and get none; on any other the first one that
 * adds no node is the last. What it wrote cannot be taken back, so that is a failure. */
static ls_status not_recorded(Gpu *gpu, const Launch *launch) {
    snprintf(gpu->head.lacks[CAN_COOPERATE], LACK_BYTES,
             "the driver runs them at once when a graph is captured");
    return error_set(gpu->head.error, LS_ERROR_DEVICE,
                     "launching kernel `%.100s` of step `%.100s` on %s: it was to be recorded in a "
                     "graph, and the driver ran it at once: what the step writes has changed; call "
                     "ls_step_prepare again, which from now on takes kernels without such "
                     "launches, and record the graph again",
                     launch->name, launch->step, gpu->head.name);
}

/* Under MPS, on a context of some of the multiprocessors and the like a driver refuses launches
 * whose blocks wait for each other, though the device has them. From then on steps take kernels
 * without; a step that begins so has done nothing yet, and is launched again. */
static bool is_refusal(int error) {
    return error == GPU_TOO_LARGE_TOGETHER || error == GPU_NOT_PERMITTED ||
           error == GPU_NOT_SUPPORTED;
}

static ls_status refused_together(Gpu *gpu, const Launch *launch, int error) {
    char text[384];
    gpu_describe_error(&gpu->library, VERB_launch_together, error, text, sizeof text);
    snprintf(gpu->head.lacks[CAN_COOPERATE], LACK_BYTES, "%.100s", text);
    return error_set(
        gpu->head.error, LS_ERROR_UNSUPPORTED,
        "launching kernel `%.100s` of step `%.100s` on %s: %s; what comes before it "
        "may have run: set the step's arrays anew, and call ls_step_prepare again, which from "
        "now on takes kernels without such launches",
        launch->name, launch->step, gpu->head.name, text);
}

ls_status gpu_launch_one(Gpu *gpu, const Launch *launch) {
    const GpuCalls *calls = &gpu->library.calls;
    void *parameters[] = {launch->arguments}; /* one parameter: the block, by value */
    GpuTip before = {0}, after;
    if (launch->host) return launch_host(gpu, launch->host);
    if (launch->copies) return gpu_run_copy(gpu, launch);
    ls_status status = launch->together ? gpu_find_tip(gpu, &before) : LS_OK;
    if (status != LS_OK) return status;
    int error = launch->together
                    ? calls->launch_together(launch->kernel.gpu, launch->parts, 1, 1,
                                             launch->threads, 1, 1, 0, gpu->stream, parameters)
                    : calls->launch(launch->kernel.gpu, launch->parts, 1, 1, launch->threads, 1, 1,
                                    0, gpu->stream, parameters, NULL);
    GpuVerb verb = launch->together ? VERB_launch_together : VERB_launch;
    if (error && launch->together && is_refusal(error)) return refused_together(gpu, launch, error);
    if (error) return launch_failed(gpu, launch, verb, error);
    if (!before.capturing) return LS_OK;
    status = gpu_find_tip(gpu, &after);
    if (status == LS_OK && after.count == before.count && after.node == before.node)
        status = not_recorded(gpu, launch);
    return status;
}

static ls_status gpu_repeat(Device *device, const Launch *launches, size_t count, uint64_t times) {
    Gpu *gpu = (Gpu *)device;
    GpuCurrent before;
    ls_status status = gpu_enter(gpu, &before);
    if (status != LS_OK) return status;
    for (; times > 0 && status == LS_OK; times--)
        for (size_t i = 0; i < count && status == LS_OK; i++)
            status = gpu_launch_one(gpu, &launches[i]);
    return gpu_leave(gpu, before, status);
}

static ls_status gpu_launch(Device *device, const Launch *launches, size_t count) {
    return gpu_repeat(device, launches, count, 1);
}

static ls_status gpu_host_launch(Device *device, const ls_host_work *work, uint64_t *argument,
                                 Launch *launch) {
    Gpu *gpu = (Gpu *)device;
    (void)argument;
    if (!gpu->library.calls.host_function)
        return error_set(gpu->head.error, LS_ERROR_UNSUPPORTED,
                         "ls_host_call: this %s driver lacks %s; install a newer one",
                         gpu->library.vendor->title,
                         gpu->library.vendor->names[VERB_host_function]);
    launch->host = work;
    return LS_OK;
}

/* A trainer's stream must be of the device, and on CUDA of the context that we work in. */
static ls_status gpu_use_stream(Device *device, void *stream) {
    Gpu *gpu = (Gpu *)device;
    if (stream == (gpu->stream == gpu->own_stream ? NULL : gpu->stream)) return LS_OK;
    if (!stream) {
        ls_status status = gpu->own_stream ? LS_OK : create_stream(gpu);
        if (status == LS_OK) gpu->stream = gpu->own_stream;
        return status;
    }
    GpuCurrent before;
    GpuVerb verb;
    bool ours = false;
    ls_status status = gpu_enter(gpu, &before);
    if (status != LS_OK) return status;
    const int error =
        gpu->library.vendor->of_stream(&gpu->library.calls, gpu->hold.own, stream, &ours, &verb);
    if (error) status = gpu_failed(gpu, "taking another stream", verb, error);
    status = gpu_leave(gpu, before, status);
    if (status == LS_OK && !ours)
        status = error_set(device->error, LS_ERROR_ARGUMENT,
                           "ls_context_use_stream: the stream is not one of %s, or was made in "
                           "another of the driver's contexts",
                           device->name);
    if (status == LS_OK) gpu->stream = stream;
    return status;
}

static void *gpu_stream(const Device *device) {
    return ((const Gpu *)device)->stream;
}

/* ---- events ---- */

static ls_status gpu_with_device(Device *device, ls_status (*work)(void *argument),
                                 void *argument) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, work(argument));
}

static ls_status gpu_event_create(Device *device, bool timed, void **event) {
    const unsigned flags = timed ? 0 : GPU_UNTIMED;
    Gpu *gpu = (Gpu *)device;
    *event = NULL;
    MAKE(gpu, event, event_destroy, TRY(gpu, "creating an event", event_create, event, flags));
}

static ls_status gpu_event_record(Device *device, void *event) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "recording an event", event_record, event, gpu->stream));
}

static ls_status elapsed(Gpu *gpu, void *start, void *end, float *milliseconds) {
    ls_status status = TRY(gpu, "waiting for an event", event_synchronize, end);
    if (status != LS_OK) return status;
    return TRY(gpu, "comparing events", event_elapsed, milliseconds, start, end);
}

static ls_status gpu_event_elapsed(Device *device, void *start, void *end, double *milliseconds) {
    Gpu *gpu = (Gpu *)device;
    GpuCurrent before;
    float measured = 0;
    ls_status status = gpu_enter(gpu, &before);
    if (status != LS_OK) return status;
    status = gpu_leave(gpu, before, elapsed(gpu, start, end, &measured));
    *milliseconds = (double)measured;
    return status;
}

static void gpu_event_destroy(Device *device, void *event) {
    Gpu *gpu = (Gpu *)device;
    gpu_take_down(gpu, gpu->library.calls.event_destroy, event);
}

/* One row each. */
/* clang-format off */
#define GPU_DRIVER(name_, kind_, vendor_) \
    { \
        .name = name_, \
        .kind = kind_, \
        .vendor = vendor_, \
        .list = gpu_list, \
        .open = gpu_open, \
        .close = gpu_close, \
        .suits = gpu_suits, \
        .synchronize = gpu_synchronize, \
        .allocate = gpu_allocate, \
        .release = gpu_release, \
        .available = gpu_available, \
        .copy_in = gpu_copy_in, \
        .copy_out = gpu_copy_out, \
        .clear = gpu_clear, \
        .store = gpu_store, \
        .load = gpu_load, \
        .unload = gpu_unload, \
        .geometry = gpu_geometry, \
        .captured = gpu_captured, \
        .launch = gpu_launch, \
        .repeat = gpu_repeat, \
        .host_launch = gpu_host_launch, \
        .copies = gpu_copies, \
        .copy_launch = gpu_copy_launch, \
        .stream = gpu_stream, \
        .use_stream = gpu_use_stream, \
        .with_device = gpu_with_device, \
        .event_create = gpu_event_create, \
        .event_record = gpu_event_record, \
        .event_elapsed = gpu_event_elapsed, \
        .event_destroy = gpu_event_destroy, \
        .pinned_allocate = gpu_pinned_allocate, \
        .pinned_release = gpu_pinned_release, \
        .stream_create = gpu_stream_create, \
        .stream_destroy = gpu_stream_destroy, \
        .stream_copy_in = gpu_stream_copy_in, \
        .stream_copy_out = gpu_stream_copy_out, \
        .copy_within = gpu_copy_within, \
        .stream_record = gpu_stream_record, \
        .stream_wait = gpu_stream_wait, \
        .event_wait = gpu_event_wait, \
        .event_done = gpu_event_done, \
        .capture_begin = gpu_capture_begin, \
        .capture_launch = gpu_capture_launch, \
        .capture_end = gpu_capture_end, \
        .graph_launch = gpu_graph_launch, \
        .graph_until = gpu_graph_until, \
        .graph_set = gpu_graph_set, \
        .graph_renew = gpu_graph_renew, \
        .graph_destroy = gpu_graph_destroy, \
        .monitor = monitor_open_gpu, \
    }
/* clang-format on */

const Driver driver_cuda = GPU_DRIVER("cuda", LS_DEVICE_CUDA, &vendor_cuda);
const Driver driver_hip = GPU_DRIVER("hip", LS_DEVICE_HIP, &vendor_hip);
