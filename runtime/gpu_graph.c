/* gpu_graph.c: capturing the stream, and the graphs that come of it, for CUDA and HIP alike. */
#include "runtime.h"
#include "gpu.h"

ls_status gpu_capture_begin(Device *device) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "beginning a capture", capture_begin, gpu->stream, GPU_CAPTURE_RELAXED));
}

static ls_status finish_capture(Gpu *gpu, void **graph, bool wanted) {
    void *recorded = NULL;
    ls_status status = TRY(gpu, "ending a capture", capture_end, gpu->stream, &recorded);
    if (status == LS_OK && wanted)
        status = TRY(gpu, "instantiating a graph", graph_instantiate, graph, recorded, 0);
    if (recorded) gpu->library.calls.graph_destroy(recorded);
    return status;
}

ls_status gpu_capture_end(Device *device, void **graph) {
    Gpu *gpu = (Gpu *)device;
    void *executable = NULL;
    if (!graph) graph = &executable; /* stays NULL */
    *graph = NULL;
    MAKE(gpu, graph, graph_release, finish_capture(gpu, graph, graph != &executable));
}

ls_status gpu_graph_launch(Device *device, void *graph) {
    Gpu *gpu = (Gpu *)device;
    WITH(gpu, TRY(gpu, "launching a graph", graph_launch, graph, gpu->stream));
}

void gpu_graph_destroy(Device *device, void *graph) {
    Gpu *gpu = (Gpu *)device;
    gpu_take_down(gpu, gpu->library.calls.graph_release, graph);
}
