/* gpu_repeat.c: a graph that the device repeats by itself.
 *
 *   while (condition) { the graph, several times; ls_repeat: condition = --left != 0 }
 *
 * is a graph of one conditional node, whose condition is 1 at each launch. A small graph stands in
 * the body more than once, so that going round costs little of it; what then remains is launched.
 * `left` is a device scalar of the context's: its launches run one after another, so one device
 * scalar serves all graphs. What cannot be put into such a body (host functions, events) makes the
 * driver refuse; the graph is then launched as often as it is to be repeated, which gives the same
 * bits.
 *
 * Until a byte of the device's memory is not 0 it is the same with another kernel, once ahead of
 * the node, which is not entered where the byte is set from the start, and once in the body:
 *
 *   ls_until: condition = left != 0 && !byte;
 *   while (condition) { the graph; ls_until: condition = --left != 0 && !byte }
 *
 * What is left in the end tells how often that was. */
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

static Attempt load_kernels(Gpu *gpu) {
    Attempt attempt = {0};
    if (!gpu->repeat.module) DO(module_load, &gpu->repeat.module, gpu->library.vendor->repeat_code);
    if (!gpu->repeat.kernel)
        DO(module_function, &gpu->repeat.kernel, gpu->repeat.module, "ls_repeat");
    if (!gpu->repeat.until) DO(module_function, &gpu->repeat.until, gpu->repeat.module, "ls_until");
    if (!gpu->repeat.left) DO(memory_allocate, &gpu->repeat.left, sizeof(uint32_t));
    return attempt;
}

/* A kernel's node of one thread. */
static GpuNode node_of(const Gpu *gpu, void *kernel, void **parameters) {
    const Launch one = {.kernel.gpu = kernel, .parts = 1, .threads = 1};
    return gpu->library.vendor->node(&one, parameters);
}

static Attempt build_times(Gpu *gpu, GpuGraph *graph) {
    struct GpuLoop *made = &graph->times;
    Attempt attempt = load_kernels(gpu);
    void *context = gpu->hold.own.context, *node, *child = NULL;
    GpuWhile loop = {
        .type = CUDA_NODE_CONDITIONAL, .kind = CUDA_CONDITION_WHILE, .size = 1, .context = context};
    void *parameters[] = {&gpu->repeat.left, &loop.handle};
    const GpuNode block = node_of(gpu, gpu->repeat.kernel, parameters);
    DO(graph_create, &made->recording, 0);
    DO(graph_condition, &loop.handle, made->recording, context, 1, CUDA_CONDITION_ASSIGN);
    DO(graph_add, &node, made->recording, NULL, NULL, 0, &loop);
    for (uint64_t i = 0; i < copies_of(graph); i++) {
        void *before = child;
        DO(graph_child, &child, loop.bodies[0], i ? &before : NULL, i > 0, graph->recording);
    }
    DO(graph_kernel, &node, loop.bodies[0], &child, 1, &block);
    DO(graph_instantiate, &made->executable, made->recording, 0);
    return attempt;
}

static Attempt build_until(Gpu *gpu, GpuGraph *graph) {
    struct GpuLoop *made = &graph->until;
    Attempt attempt = load_kernels(gpu);
    void *context = gpu->hold.own.context, *first = NULL, *node, *child = NULL;
    const void *stop = made->stop;
    uint32_t steps[] = {0, 1};
    GpuWhile loop = {
        .type = CUDA_NODE_CONDITIONAL, .kind = CUDA_CONDITION_WHILE, .size = 1, .context = context};
    void *ahead[] = {&gpu->repeat.left, &stop, &loop.handle, &steps[0]};
    void *within[] = {&gpu->repeat.left, &stop, &loop.handle, &steps[1]};
    const GpuNode begin = node_of(gpu, gpu->repeat.until, ahead);
    const GpuNode count = node_of(gpu, gpu->repeat.until, within);
    DO(graph_create, &made->recording, 0);
    DO(graph_condition, &loop.handle, made->recording, context, 0, CUDA_CONDITION_ASSIGN);
    DO(graph_kernel, &first, made->recording, NULL, 0, &begin);
    DO(graph_add, &node, made->recording, &first, NULL, 1, &loop);
    DO(graph_child, &child, loop.bodies[0], NULL, 0, graph->recording);
    DO(graph_kernel, &node, loop.bodies[0], &child, 1, &count);
    DO(graph_instantiate, &made->executable, made->recording, 0);
    return attempt;
}

static void drop(Gpu *gpu, struct GpuLoop *loop) {
    const GpuCalls *calls = &gpu->library.calls;
    if (loop->executable) {
        calls->stream_synchronize(gpu->stream); /* it may run; an error comes again */
        calls->graph_release(loop->executable);
    }
    if (loop->recording) calls->graph_destroy(loop->recording);
    loop->executable = loop->recording = NULL;
}

void gpu_repeat_drop(Gpu *gpu, GpuGraph *graph) {
    drop(gpu, &graph->times);
    drop(gpu, &graph->until);
}

static ls_status prepare(Gpu *gpu, GpuGraph *graph, struct GpuLoop *loop) {
    char text[384];
    if (loop->executable || loop->cannot) return LS_OK;
    const int mode = gpu_relax(gpu);
    Attempt attempt = loop == &graph->until ? build_until(gpu, graph) : build_times(gpu, graph);
    gpu_unrelax(gpu, mode, LS_OK);
    if (!attempt.error) return LS_OK;
    drop(gpu, loop);
    if (gpu_error_is_final(attempt.error))
        return gpu_failed(gpu, "making a graph that repeats itself", attempt.verb, attempt.error);
    loop->cannot = true;
    gpu_describe_error(&gpu->library, attempt.verb, attempt.error, text, sizeof text);
    log_write(LOG_INFO,
              "%s: the device cannot repeat this graph by itself (%s): it is launched as often as "
              "it is repeated",
              gpu->head.name, text);
    return LS_OK;
}

/* Queues the loop with so many rounds left. */
static ls_status launch_loop(Gpu *gpu, const struct GpuLoop *loop, uint32_t rounds) {
    ls_status status = TRY(gpu, "setting how often a graph is repeated", fill_32, gpu->repeat.left,
                           rounds, 1, gpu->stream);
    return status == LS_OK
               ? TRY(gpu, "launching a graph", graph_launch, loop->executable, gpu->stream)
               : status;
}

ls_status gpu_repeat_until(Gpu *gpu, GpuGraph *graph, const void *stop, uint64_t most,
                           uint64_t *times, bool *looped) {
    struct GpuLoop *loop = &graph->until;
    uint32_t left = 0;
    *times = 0;
    *looped = false;
    if (device_lacks(&gpu->head, CAN_REPEAT, "one is launched as often as it is repeated"))
        return LS_OK;
    if (loop->stop != stop) drop(gpu, loop);
    loop->stop = stop;
    ls_status status = prepare(gpu, graph, loop);
    *looped = status == LS_OK && loop->executable;
    while (*looped && status == LS_OK && *times < most && left == 0) {
        const uint64_t wanted = most - *times;
        const uint32_t part = wanted < UINT32_MAX ? (uint32_t)wanted : UINT32_MAX;
        status = launch_loop(gpu, loop, part);
        if (status == LS_OK)
            status = TRY(gpu, "reading how often a graph was repeated", copy_out, &left,
                         gpu->repeat.left, sizeof left, gpu->stream);
        if (status == LS_OK)
            status = TRY(gpu, "waiting for the stream", stream_synchronize, gpu->stream);
        if (status == LS_OK) *times += part - left;
    }
    return status;
}

ls_status gpu_repeat_graph(Gpu *gpu, GpuGraph *graph, uint64_t *times, bool *looped) {
    const uint64_t copies = copies_of(graph);
    uint64_t rounds = *times / copies;
    *looped = false;
    if (device_lacks(&gpu->head, CAN_REPEAT, "one is launched as often as it is repeated") ||
        rounds == 0)
        return LS_OK;
    ls_status status = prepare(gpu, graph, &graph->times);
    *looped = status == LS_OK && graph->times.executable;
    while (*looped && rounds > 0 && status == LS_OK) {
        uint32_t part = rounds < UINT32_MAX ? (uint32_t)rounds : UINT32_MAX;
        status = launch_loop(gpu, &graph->times, part);
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
