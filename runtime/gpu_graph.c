/* gpu_graph.c: capturing the stream, and the graphs that come of it, for CUDA and HIP alike.
 *
 * What was captured is kept beside what was instantiated from it: its nodes are how a launch is
 * named when it gets new parameters, and what is instantiated again has them too. */
#include "runtime.h"
#include "gpu.h"

#include <stdlib.h>

/* Ends a capture that is of no use any more, with the device current or else without: left alone,
 * the stream would record what is meant to run. */
static void abandon(const Gpu *gpu) {
    const GpuCalls *calls = &gpu->library.calls;
    const Vendor *vendor = gpu->library.vendor;
    GpuCurrent before;
    GpuVerb verb;
    void *recording = NULL;
    if (gpu_is_lost(gpu)) return;
    bool entered = vendor->enter(calls, gpu->hold.own, &before, &verb) == 0;
    calls->capture_end(gpu->stream, &recording);
    if (recording) calls->graph_destroy(recording);
    if (entered) vendor->leave(calls, gpu->hold.own, before, &verb);
}

ls_status gpu_capture_begin(Device *device) {
    Gpu *gpu = (Gpu *)device;
    GpuCurrent before;
    ls_status status = gpu_enter(gpu, &before);
    if (status != LS_OK) return status;
    status = TRY(gpu, "beginning a capture", capture_begin, gpu->stream, GPU_CAPTURE_RELAXED);
    const bool begun = status == LS_OK;
    status = gpu_leave(gpu, before, status);
    if (begun && status != LS_OK) abandon(gpu);
    return status;
}

ls_status gpu_find_tip(Gpu *gpu, GpuTip *tip) {
    int state = GPU_NOT_CAPTURING;
    unsigned long long id;
    void *graph, *const *nodes = NULL;
    size_t count = 0;
    *tip = (GpuTip){0};
    if (!gpu->library.calls.capture_info) return LS_OK;
    ls_status status = TRY(gpu, "asking for a captured kernel's node", capture_info, gpu->stream,
                           &state, &id, &graph, &nodes, &count);
    if (status == LS_OK && state != GPU_NOT_CAPTURING)
        *tip = (GpuTip){true, count, count ? nodes[0] : NULL};
    return status;
}

/* The node of what was launched last: what the stream now depends on. Without it there is no
 * update, which is no failure yet. */
static ls_status find_node(Gpu *gpu, void **node) {
    GpuTip tip;
    if (gpu->head.lacks[CAN_UPDATE][0]) return LS_OK;
    ls_status status = gpu_find_tip(gpu, &tip);
    if (status == LS_OK && tip.count == 1) *node = tip.node;
    return status;
}

static ls_status capture_launches(Gpu *gpu, const Launch *launches, size_t count, void **nodes) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        status = gpu_launch_one(gpu, &launches[i]);
        if (status == LS_OK && !launch_is_fixed(&launches[i])) status = find_node(gpu, &nodes[i]);
    }
    return status;
}

ls_status gpu_capture_launch(Device *device, const Launch *launches, size_t count, void **nodes) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, capture_launches(gpu, launches, count, nodes));
}

static ls_status instantiate(Gpu *gpu, void *recording, void **executable) {
    return TRY(gpu, "instantiating a graph", graph_instantiate, executable, recording, 0);
}

static ls_status end_capture(Gpu *gpu, GpuGraph *graph, size_t *node_count) {
    ls_status status = TRY(gpu, "ending a capture", capture_end, gpu->stream, &graph->recording);
    if (status == LS_OK && node_count && gpu->library.calls.graph_nodes)
        status =
            TRY(gpu, "counting a graph's nodes", graph_nodes, graph->recording, NULL, node_count);
    if (node_count) graph->nodes = *node_count;
    if (status == LS_OK && node_count)
        status = instantiate(gpu, graph->recording, &graph->executable);
    return status;
}

ls_status gpu_capture_end(Device *device, void **graph, size_t *node_count) {
    Gpu *gpu = (Gpu *)device;
    GpuCurrent before;
    GpuGraph unwanted = {0}, *made = graph ? calloc(1, sizeof *made) : &unwanted;
    ls_status out_of_memory = made ? LS_OK : error_memory(device->error, "ls_graph_end");
    if (!made) made = &unwanted; /* the capture has to end all the same */
    *node_count = 0;
    ls_status status = gpu_enter(gpu, &before);
    if (status == LS_OK)
        status =
            gpu_leave(gpu, before, end_capture(gpu, made, made == &unwanted ? NULL : node_count));
    else
        abandon(gpu);
    if (status == LS_OK) status = out_of_memory;
    if (status == LS_OK && made != &unwanted) {
        *graph = made;
        return LS_OK;
    }
    if (made->executable) gpu_take_down(gpu, gpu->library.calls.graph_release, made->executable);
    if (made->recording) gpu_take_down(gpu, gpu->library.calls.graph_destroy, made->recording);
    if (made != &unwanted) free(made);
    return status;
}

static ls_status launch_times(Gpu *gpu, GpuGraph *graph, uint64_t times, bool *looped) {
    ls_status status = LS_OK;
    if (times > 1) status = gpu_repeat_graph(gpu, graph, &times, looped);
    for (; times > 0 && status == LS_OK; times--)
        status = TRY(gpu, "launching a graph", graph_launch, graph->executable, gpu->stream);
    return status;
}

ls_status gpu_graph_launch(Device *device, void *graph, uint64_t times, bool *looped) {
    Gpu *gpu = (Gpu *)device;
    *looped = false;
    WITH(gpu, launch_times(gpu, graph, times, looped));
}

ls_status gpu_graph_until(Device *device, void *graph, const void *stop, uint64_t most,
                          uint64_t *times, bool *looped) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, gpu_repeat_until(gpu, graph, stop, most, times, looped));
}

static ls_status set_node(Gpu *gpu, GpuGraph *graph, void *node, const Launch *launch,
                          bool *renew) {
    const GpuCalls *calls = &gpu->library.calls;
    void *parameters[] = {launch->arguments};
    GpuNode block = gpu->library.vendor->node(launch, parameters);
    gpu_repeat_drop(gpu, graph); /* it has the old ones */
    ls_status status = TRY(gpu, "updating a graph", node_set, node, &block);
    if (status != LS_OK || *renew) return status;
    int error = calls->executable_set(graph->executable, node, &block);
    if (error && gpu_error_is_final(error))
        return gpu_failed(gpu, "updating a graph", VERB_executable_set, error);
    *renew = error != 0;
    return LS_OK;
}

ls_status gpu_graph_set(Device *device, void *graph, void *node, const Launch *launch,
                        bool *renew) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, set_node(gpu, graph, node, launch, renew));
}

/* The old one may still run. */
static ls_status renew(Gpu *gpu, GpuGraph *graph) {
    void *executable = NULL;
    ls_status status = instantiate(gpu, graph->recording, &executable);
    if (status == LS_OK)
        status = TRY(gpu, "waiting for the stream", stream_synchronize, gpu->stream);
    if (status == LS_OK) gpu->library.calls.graph_release(graph->executable);
    if (status == LS_OK)
        graph->executable = executable;
    else if (executable)
        gpu->library.calls.graph_release(executable);
    return status;
}

ls_status gpu_graph_renew(Device *device, void *graph) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, renew(gpu, graph));
}

void gpu_graph_destroy(Device *device, void *graph) {
    Gpu *gpu = (Gpu *)device;
    GpuGraph *own = graph;
    const GpuCalls *calls = &gpu->library.calls;
    const struct GpuLoop *const loops[] = {&own->times, &own->until};
    for (size_t i = 0; i < COUNT(loops); i++) {
        if (loops[i]->executable) gpu_take_down(gpu, calls->graph_release, loops[i]->executable);
        if (loops[i]->recording) gpu_take_down(gpu, calls->graph_destroy, loops[i]->recording);
    }
    gpu_take_down(gpu, calls->graph_release, own->executable);
    gpu_take_down(gpu, calls->graph_destroy, own->recording);
    free(own);
}
