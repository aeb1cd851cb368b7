/* gpu_copies.c: page-locked memory, and copies on streams of their own; see Driver. */
#include "runtime.h"
#include "gpu.h"

#include <string.h>

ls_status gpu_pinned_allocate(Device *device, size_t bytes, void **pointer) {
    Gpu *gpu = (Gpu *)device;
    *pointer = NULL;
    MAKE(gpu, pointer, pinned_free,
         TRY(gpu, "allocating pinned memory", pinned_allocate, pointer, bytes, 0));
}

void gpu_pinned_release(Device *device, void *pointer) {
    Gpu *gpu = (Gpu *)device;
    gpu_take_down(gpu, gpu->library.calls.pinned_free, pointer);
}

ls_status gpu_stream_create(Device *device, void **stream) {
    Gpu *gpu = (Gpu *)device;
    *stream = NULL;
    MAKE(gpu, stream, stream_destroy,
         TRY(gpu, "creating a stream for copies", stream_create, stream, GPU_NON_BLOCKING));
}

void gpu_stream_destroy(Device *device, void *stream) {
    Gpu *gpu = (Gpu *)device;
    gpu_take_down(gpu, gpu->library.calls.stream_destroy, stream);
}

ls_status gpu_stream_copy_in(Device *device, void *stream, void *to, const void *from,
                             size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "copying to the device", copy_in, to, (void *)(uintptr_t)from, bytes,
                  stream ? stream : gpu->stream));
}

ls_status gpu_stream_copy_out(Device *device, void *stream, void *to, const void *from,
                              size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "copying from the device", copy_out, to, (void *)(uintptr_t)from, bytes,
                  stream ? stream : gpu->stream));
}

ls_status gpu_copy_within(Device *device, void *stream, void *to, const void *from, size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "copying within the device", copy_within, to, (void *)(uintptr_t)from, bytes,
                  stream ? stream : gpu->stream));
}

ls_status gpu_stream_record(Device *device, void *stream, void *event) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "recording an event", event_record, event, stream ? stream : gpu->stream));
}

ls_status gpu_stream_wait(Device *device, void *stream, void *event) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "letting a stream wait for an event", stream_wait,
                  stream ? stream : gpu->stream, event, 0));
}

ls_status gpu_event_wait(Device *device, void *event) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "waiting for an event", event_synchronize, event));
}

bool gpu_event_done(Device *device, void *event) {
    const Gpu *gpu = (const Gpu *)device;
    const Vendor *vendor = gpu->library.vendor;
    GpuCurrent before;
    GpuVerb verb;
    if (gpu_is_lost(gpu) || vendor->enter(&gpu->library.calls, gpu->hold.own, &before, &verb) != 0)
        return false;
    int error = gpu->library.calls.event_query(event);
    vendor->leave(&gpu->library.calls, gpu->hold.own, before, &verb);
    return error == 0;
}

/* ---- copies and fills within the device, as launches ---- */

enum { FILL_WIDTH_MAX = 4 }; /* bytes of what a driver fills memory with */

static bool is_pitch(const Copy *copy, int64_t bytes) {
    return bytes >= 0 && (uint64_t)bytes >= copy->width && bytes <= INT32_MAX;
}

bool gpu_copies(const Copy *copy) {
    if (!copy->from) return copy->rank == 0 && copy->unit <= FILL_WIDTH_MAX;
    return copy->rank == 0 ||
           (copy->rank == 1 && copy->axes[0].length <= INT32_MAX &&
            is_pitch(copy, copy->axes[0].to) && is_pitch(copy, copy->axes[0].from));
}

void gpu_copy_launch(Device *device, const Copy *copy, Launch *launch) {
    (void)device, (void)copy, (void)launch; /* the arguments say it all */
}

static ls_status run_fill(Gpu *gpu, const Copy *copy) {
    static const char doing[] = "filling memory";
    const uint32_t value = (uint32_t)copy->value;
    const size_t count = copy->width / copy->unit;
    if (copy->unit == 1)
        return TRY(gpu, doing, fill_8, copy->to, (unsigned char)(value & 0xff), count, gpu->stream);
    if (copy->unit == 2)
        return TRY(gpu, doing, fill_16, copy->to, (unsigned short)(value & 0xffff), count,
                   gpu->stream);
    return TRY(gpu, doing, fill_32, copy->to, value, count, gpu->stream);
}

ls_status gpu_run_copy(Gpu *gpu, const Launch *launch) {
    Copy copy = {0};
    GpuVerb verb;
    memcpy(&copy, launch->arguments, launch->argument_count * sizeof *launch->arguments);
    if (!copy.from) return run_fill(gpu, &copy);
    if (copy.rank == 0)
        return TRY(gpu, "copying within the device", copy_within, copy.to,
                   (void *)(uintptr_t)copy.from, copy.width, gpu->stream);
    const int error =
        gpu->library.vendor->copy_rows(&gpu->library.calls, &copy, gpu->stream, &verb);
    return error ? gpu_failed(gpu, "copying within the device", verb, error) : LS_OK;
}
