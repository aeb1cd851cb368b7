/* gpu_repeat.c: a graph that the device repeats by itself.
 *
 *   while (condition) { the graph, several times; ls_repeat: condition = --left != 0 }
 *
 * is a graph of one conditional node, whose condition is 1 at each launch. A small graph stands in
 * the body more than once, so that going round costs little of it; what then remains is launched.
 * `left` is a device scalar of the context's: its launches run one after another, so one device
 * scalar serves all graphs. What cannot be put into such a body (host functions, events) makes the
 * driver refuse; the graph is then launched as often as it is to be repeated, which gives the same
 * bits. */
#include "runtime.h"
#include "gpu.h"

#include <string.h>

enum { BODY_NODES = 64, COPIES_MAX = 16 };

static uint64_t copies_of(const GpuGraph *graph) {
    uint64_t copies = graph->nodes ? BODY_NODES / graph->nodes : 1;
    return copies < 1 ? 1 : (copies > COPIES_MAX ? COPIES_MAX : copies);
}

/* What a step of the construction gave. */
typedef struct Attempt {
    int error;
    GpuVerb verb;
} Attempt;

/* DO(verb, arguments...): unless a call failed before. */
#define DO(verb_, ...)                                          \
    if (!attempt.error) attempt = (Attempt) {                   \
            gpu->library.calls.verb_(__VA_ARGS__), VERB_##verb_ \
        }

static Attempt load_kernel(Gpu *gpu) {
    Attempt attempt = {0};
    if (!gpu->repeat.module) DO(module_load, &gpu->repeat.module, gpu->library.vendor->repeat_code);
    if (!gpu->repeat.kernel)
        DO(module_function, &gpu->repeat.kernel, gpu->repeat.module, "ls_repeat");
    if (!gpu->repeat.left) DO(memory_allocate, &gpu->repeat.left, sizeof(uint32_t));
    return attempt;
}

static Attempt build(Gpu *gpu, GpuGraph *graph) {
    Attempt attempt = load_kernel(gpu);
    void *context = gpu->hold.own.context, *node, *child = NULL;
    GpuWhile loop = {
        .type = CUDA_NODE_CONDITIONAL, .kind = CUDA_CONDITION_WHILE, .size = 1, .context = context};
    void *parameters[] = {&gpu->repeat.left, &loop.handle};
    const Launch count = {.kernel.gpu = gpu->repeat.kernel, .parts = 1, .threads = 1};
    const GpuNode block = gpu->library.vendor->node(&count, parameters);
    DO(graph_create, &graph->loop_recording, 0);
    DO(graph_condition, &loop.handle, graph->loop_recording, context, 1, CUDA_CONDITION_ASSIGN);
    DO(graph_add, &node, graph->loop_recording, NULL, NULL, 0, &loop);
    for (uint64_t i = 0; i < copies_of(graph); i++) {
        void *before = child;
        DO(graph_child, &child, loop.bodies[0], i ? &before : NULL, i > 0, graph->recording);
    }
    DO(graph_kernel, &node, loop.bodies[0], &child, 1, &block);
    DO(graph_instantiate, &graph->loop, graph->loop_recording, 0);
    return attempt;
}

void gpu_repeat_drop(Gpu *gpu, GpuGraph *graph) {
    const GpuCalls *calls = &gpu->library.calls;
    if (graph->loop) {
        calls->stream_synchronize(gpu->stream); /* it may run; an error comes again */
        calls->graph_release(graph->loop);
    }
    if (graph->loop_recording) calls->graph_destroy(graph->loop_recording);
    graph->loop = graph->loop_recording = NULL;
}

static ls_status prepare(Gpu *gpu, GpuGraph *graph) {
    char text[384];
    if (graph->loop || graph->cannot_loop) return LS_OK;
    const int mode = gpu_relax(gpu);
    Attempt attempt = build(gpu, graph);
    gpu_unrelax(gpu, mode, LS_OK);
    if (!attempt.error) return LS_OK;
    gpu_repeat_drop(gpu, graph);
    if (gpu_error_is_final(attempt.error))
        return gpu_failed(gpu, "making a graph that repeats itself", attempt.verb, attempt.error);
    graph->cannot_loop = true;
    gpu_describe_error(&gpu->library, attempt.verb, attempt.error, text, sizeof text);
    log_write(LOG_INFO,
              "%s: the device cannot repeat this graph by itself (%s): it is launched as often as "
              "it is repeated",
              gpu->head.name, text);
    return LS_OK;
}

ls_status gpu_repeat_graph(Gpu *gpu, GpuGraph *graph, uint64_t *times, bool *looped) {
    const uint64_t copies = copies_of(graph);
    uint64_t rounds = *times / copies;
    *looped = false;
    if (device_lacks(&gpu->head, CAN_REPEAT, "one is launched as often as it is repeated") ||
        rounds == 0)
        return LS_OK;
    ls_status status = prepare(gpu, graph);
    *looped = status == LS_OK && graph->loop;
    while (*looped && rounds > 0 && status == LS_OK) {
        uint32_t part = rounds < UINT32_MAX ? (uint32_t)rounds : UINT32_MAX;
        status = TRY(gpu, "setting how often a graph is repeated", fill_32, gpu->repeat.left, part,
                     1, gpu->stream);
        if (status == LS_OK)
            status = TRY(gpu, "launching a graph", graph_launch, graph->loop, gpu->stream);
        rounds -= part;
        *times -= part * copies;
    }
    return status;
}

void gpu_repeat_close(Gpu *gpu) {
    const GpuCalls *calls = &gpu->library.calls;
    if (gpu->repeat.left) gpu_take_down(gpu, calls->memory_free, gpu->repeat.left);
    if (gpu->repeat.module) gpu_take_down(gpu, calls->module_unload, gpu->repeat.module);
}
