/* gpu_copies.c: page-locked memory, and copies on streams of their own; see Driver. */
#include "runtime.h"
#include "gpu.h"

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

ls_status gpu_stream_copy(Device *device, void *stream, void *to, const void *from, size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "copying to the device", copy_in, to, (void *)(uintptr_t)from, bytes,
                  stream ? stream : gpu->stream));
}

ls_status gpu_copy_within(Device *device, void *to, const void *from, size_t bytes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "copying within the device", copy_within, to, (void *)(uintptr_t)from, bytes,
                  gpu->stream));
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
