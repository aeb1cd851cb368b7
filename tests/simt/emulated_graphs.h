/* emulated_graphs.h: the part of emulated.c about captures and graphs. */

static UNUSED int do_capture_mode(int *mode) {
    return *mode = 0, 0;
}
static UNUSED int do_capture_begin(void *stream, int mode) {
    (void)mode;
    branches_begin(&((Queue *)stream)->capture, stream);
    return 0;
}
static UNUSED int do_capture_end(void *stream, void **graph) {
    Queue *queue = stream;
    int error = state.calls == state.fail_at ? state.fail_with : 0;
    branches_end(&queue->capture);
    if (!error && queue->count &&
        !branches_are_joined(&queue->work->mark, sizeof *queue->work, queue->count))
        error = fail(BRANCHES_UNJOINED, "a capture ends before a stream that it has taken in");
    if (error) { /* it ends all the same, without a graph */
        drop_work(queue);
        return error;
    }
    error = queue_create(graph, &state.recordings);
    if (error) return error;
    *(Queue *)*graph = *queue;
    ((Queue *)*graph)->late = NULL;
    for (Node *node = queue->nodes; node; node = node->next) node->recording = *graph;
    *queue = (Queue){.late = queue->late};
    return 0;
}
static UNUSED int do_graph_instantiate(void **executable, void *graph, unsigned long long flags) {
    const Queue *recording = graph;
    int error = flags ? INVALID_VALUE : queue_create(executable, &state.graphs);
    if (recording->body) recording = recording->body;
    for (size_t i = 0; !error && i < recording->count; i++)
        error = record(*executable, recording->work[i]);
    if (!error) ((Queue *)*executable)->left = recording->left;
    if (!error) ((Queue *)*executable)->stop = recording->stop;
    return error;
}
static UNUSED int do_capture_info(void *stream, int *status, unsigned long long *id, void **graph,
                                  void *const **nodes, size_t *count) {
    Queue *queue = stream;
    size_t last = queue->count;
    while (last > 0 &&
           (queue->work[last - 1].kind == WORK_EVENT || queue->work[last - 1].mark.branch))
        last--;
    Node *made = last ? calloc(1, sizeof *made) : NULL;
    *status = is_capturing(queue);
    *id = 1;
    *graph = NULL;
    *count = made != NULL;
    if (!made) return last ? OUT_OF_MEMORY : 0;
    *made = (Node){made, queue, last - 1, queue->nodes};
    queue->nodes = made;
    *nodes = &made->self;
    return 0;
}
static UNUSED int do_graph_nodes(void *graph, void **nodes, size_t *count) {
    if (nodes) return INVALID_VALUE;
    const Queue *recording = graph;
    *count = 0;
    for (size_t i = 0; i < recording->count; i++) *count += recording->work[i].kind != WORK_EVENT;
    return 0;
}
static int set_work(Queue *queue, const Node *node, const void *parameters) {
    const GpuNode *given = parameters;
    Work *work = &queue->work[node->index];
#ifdef STAND_IN_CUDA
    Work fresh = {.function = given->cuda.function,
                  .blocks = given->cuda.grid[0],
                  .threads = given->cuda.block[0]};
    void **arguments = given->cuda.parameters;
#else
    Work fresh = {.function = (void *)given->hip.function,
                  .blocks = given->hip.grid[0],
                  .threads = given->hip.block[0]};
    void **arguments = given->hip.parameters;
#endif
    if (work->kind != WORK_LAUNCH) return fail(INVALID_VALUE, "the node is no kernel");
    fresh.cooperative = work->cooperative;
    fresh.mark = work->mark;
    int error = copy_arguments(&fresh, arguments[0]);
    if (error) return error;
    free(work->arguments);
    *work = fresh;
    return 0;
}
static UNUSED int do_node_set(void *node, const void *parameters) {
    return set_work(((const Node *)node)->recording, node, parameters);
}
static UNUSED int do_executable_set(void *executable, void *node, const void *parameters) {
    return set_work(executable, node, parameters);
}
static int queue_entry(LateStream *stream, const void *graph, size_t entry) {
    return queue_work(stream, &((const Queue *)graph)->work[entry], 1, graph);
}
static UNUSED int do_graph_launch(void *executable, void *stream) {
    const Queue *graph = executable, *queue = stream;
    int error = 0;
    if (!is_capturing(queue)) {
        if (graph->count &&
            branches_are_several(&graph->work->mark, sizeof *graph->work, graph->count))
            return branches_replay(&graph->work->mark, sizeof *graph->work, graph->count,
                                   late_of(queue), queue_entry, graph);
        return queue_work(late_of(queue), graph->work, graph->count, graph);
    }
    if (graph->left) return fail(NOT_SUPPORTED, "a graph with a while node within a capture");
    for (size_t i = 0; !error && i < graph->count; i++)
        if (graph->work[i].kind != WORK_EVENT) error = submit(stream, graph->work[i]);
    return error;
}
/* The one graph with a while node that Lockstep makes: see gpu_repeat.c. */
static UNUSED int do_graph_create(void **graph, unsigned flags) {
    return flags ? INVALID_VALUE : queue_create(graph, &state.recordings);
}
static UNUSED int do_graph_condition(unsigned long long *handle, void *graph, void *context,
                                     unsigned value, unsigned flags) {
    *handle = (uintptr_t)graph;
    if (context == &the_context && value <= 1 && flags == CUDA_CONDITION_ASSIGN) return 0;
    return fail(INVALID_VALUE, "a condition of another kind");
}
static UNUSED int do_graph_add(void **node, void *graph, void *const *before, const void *edges,
                               size_t count, void *parameters) {
    static long bodies;
    GpuWhile *given = parameters;
    Queue *recording = graph;
    if (edges || count != (recording->stop != NULL) || (count && before[0] != graph) ||
        recording->body || given->type != CUDA_NODE_CONDITIONAL ||
        given->kind != CUDA_CONDITION_WHILE || given->size != 1 ||
        given->handle != (uintptr_t)graph)
        return fail(INVALID_VALUE, "a node of another kind");
    int error = queue_create(&recording->bodies[0], &bodies);
    if (error) return error;
    *node = recording->body = recording->bodies[0];
    given->bodies = recording->bodies;
    return 0;
}
static UNUSED int do_graph_child(void **node, void *graph, void *const *before, size_t count,
                                 void *child) {
    Queue *body = graph;
    const Queue *given = child;
    int error = count != (body->count > 0) || (count && before[0] != body) ? INVALID_VALUE : 0;
    for (size_t i = 0; !error && i < given->count; i++)
        if (given->work[i].kind != WORK_EVENT)
            error = given->work[i].kind == WORK_HOST ? NOT_SUPPORTED : record(body, given->work[i]);
    *node = body;
    return error;
}
static UNUSED int do_graph_kernel(void **node, void *graph, void *const *before, size_t count,
                                  const void *parameters) {
    const GpuNode *given = parameters;
    Queue *body = graph;
    const char *name = ((Function *)given->cuda.function)->name;
    const bool until = strcmp(name, "ls_until") == 0;
    if (count > 1 || (count && before[0] != body) || given->cuda.grid[0] != 1 ||
        (!until && (!count || strcmp(name, "ls_repeat") != 0)))
        return fail(INVALID_VALUE, "a kernel that is neither ls_repeat nor ls_until");
    memcpy(&body->left, given->cuda.parameters[0], sizeof body->left);
    if (until) memcpy(&body->stop, given->cuda.parameters[1], sizeof body->stop);
    *node = body;
    return 0;
}
static UNUSED int do_graph_release(void *executable) {
    late_settled(executable, "a graph");
    return queue_destroy(executable, &state.graphs);
}
static UNUSED int do_graph_destroy(void *graph) {
    return queue_destroy(graph, &state.recordings);
}
