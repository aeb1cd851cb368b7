/* stand_in_graphs.h: the part of stand_in.c about captures and graphs. */

static UNUSED int do_capture_begin(void *stream, int mode) {
    if (!usable(stream) || is_capturing(stream)) return INVALID_HANDLE;
    branches_begin(&((Object *)stream)->capture, stream);
    state.capture_mode = mode;
    if (mode != GPU_CAPTURE_RELAXED) strict_capture = stream;
    return 0;
}

static UNUSED int do_capture_mode(int *mode) {
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return 0;
}

/* A capture that fails ends all the same, without a graph. */
static UNUSED int do_capture_end(void *stream, void **graph) {
    Object *queue = stream;
    if (!usable(stream) || queue->capture.root != &queue->capture) return INVALID_HANDLE;
    int error = state.calls == state.fail_at ? state.fail_with : 0;
    if (!error && queue->launched &&
        !branches_are_joined(&queue->launched->mark, sizeof *queue->launched,
                             queue->launched_count))
        error = BRANCHES_UNJOINED;
    if (!error) error = create(graph, 'r', &state.recordings);
    if (error) {
        free(queue->launched);
    } else {
        Object *recording = *graph;
        recording->launched = queue->launched;
        recording->launched_count = queue->launched_count;
    }
    queue->launched = NULL;
    queue->launched_count = 0;
    branches_end(&queue->capture);
    if (strict_capture == queue) strict_capture = NULL;
    return error;
}

static UNUSED int do_graph_instantiate(void **executable, void *graph, unsigned long long flags) {
    const Object *recording = graph;
    if (!is(graph, 'r') || flags) return INVALID_HANDLE;
    int error = create(executable, 'g', &state.graphs);
    if (error) return error;
    Object *made = *executable;
    made->launched = calloc(RECORDED_MAX, sizeof *made->launched);
    if (!made->launched) return OUT_OF_MEMORY;
    if (recording->launched)
        memcpy(made->launched, recording->launched,
               recording->launched_count * sizeof *made->launched);
    made->launched_count = recording->launched_count;
    made->origin = recording->launched;
    if (recording->body) {
        const Object *body = recording->body;
        if (!body->left) return INVALID_VALUE;
        memcpy(made->launched, body->launched, body->launched_count * sizeof *made->launched);
        made->launched_count = body->launched_count;
        made->left = body->left;
        made->stop = body->stop;
        if (made->stop && recording->stop != made->stop) return INVALID_VALUE; /* no first look */
        made->initial = recording->initial;
    }
    state.instantiations++;
    return 0;
}

/* A node is where its launch stands in the recording. */
static UNUSED int do_capture_info(void *stream, int *status, unsigned long long *id, void **graph,
                                  void *const **nodes, size_t *count) {
    static _Thread_local void *last;
    Object *queue = stream;
    if (!usable(stream)) return INVALID_HANDLE;
    *status = is_capturing(stream);
    *id = 1;
    *graph = NULL;
    last = NULL;
    for (size_t i = queue->launched_count; i-- > 0 && !last;)
        if (queue->launched[i].mark.kind == BRANCH_WORK && queue->launched[i].mark.branch == 0)
            last = &queue->launched[i];
    *nodes = &last;
    *count = last != NULL;
    return 0;
}

static UNUSED int do_graph_nodes(void *graph, void **nodes, size_t *count) {
    if (!is(graph, 'r') || nodes) return INVALID_HANDLE;
    const Object *recording = graph;
    *count = 0;
    for (size_t i = 0; i < recording->launched_count; i++)
        *count += recording->launched[i].mark.kind == BRANCH_WORK;
    return 0;
}

static void set_launched(struct Launched *launched, const void *parameters) {
    const GpuNode *given = parameters;
#ifdef STAND_IN_CUDA
    const unsigned *grid = given->cuda.grid, *block = given->cuda.block;
    const Object *function = given->cuda.function;
    void **words = given->cuda.parameters;
#else
    const unsigned *grid = given->hip.grid, *block = given->hip.block;
    const Object *function = (void *)given->hip.function;
    void **words = given->hip.parameters;
#endif
    state.node_sets++;
    fill(launched, function, grid[0], block[0], words);
}

static UNUSED int do_node_set(void *node, const void *parameters) {
    set_launched(node, parameters);
    return 0;
}

static UNUSED int do_executable_set(void *executable, void *node, const void *parameters) {
    Object *graph = executable;
    if (!is(executable, 'g') || !is_current()) return INVALID_HANDLE;
    if (!state.updates) return UPDATE_FAILED;
    set_launched(&graph->launched[(struct Launched *)node - (struct Launched *)graph->origin],
                 parameters);
    return 0;
}

static int queue_entry(LateStream *stream, const void *graph, size_t entry) {
    return queue_launches(stream, &((const Object *)graph)->launched[entry], 1, graph);
}

static UNUSED int do_graph_launch(void *executable, void *stream) {
    const Object *graph = executable;
    if (!usable(stream) || !is(executable, 'g')) return INVALID_HANDLE;
    state.graph_launches++;
    if (is_capturing(stream)) {
        int error = graph->left ? NOT_SUPPORTED : 0;
        for (size_t i = 0; !error && i < graph->launched_count; i++)
            if (graph->launched[i].mark.kind == BRANCH_WORK)
                error = submit(stream, graph->launched[i]);
        return error;
    }
    LateStream *queue = ((Object *)stream)->queue;
    if (graph->launched_count &&
        branches_are_several(&graph->launched->mark, sizeof *graph->launched,
                             graph->launched_count))
        return branches_replay(&graph->launched->mark, sizeof *graph->launched,
                               graph->launched_count, queue, queue_entry, graph);
    return queue_launches(queue, graph->launched, graph->launched_count, graph);
}

static UNUSED int do_graph_create(void **graph, unsigned flags) {
    return flags ? INVALID_VALUE : create(graph, 'r', &state.recordings);
}

static UNUSED int do_graph_condition(unsigned long long *handle, void *graph, void *context,
                                     unsigned value, unsigned flags) {
    if (!is(graph, 'r') || context != current_context || flags != CUDA_CONDITION_ASSIGN)
        return INVALID_VALUE;
    ((Object *)graph)->initial = value;
    *handle = (uintptr_t)graph;
    return 0;
}

static UNUSED int do_graph_add(void **node, void *graph, void *const *before, const void *edges,
                               size_t count, void *parameters) {
    GpuWhile *given = parameters;
    Object *recording = graph;
    if (!is(graph, 'r') || edges || count != (recording->stop != NULL) ||
        (count && before[0] != recording) || recording->body ||
        given->type != CUDA_NODE_CONDITIONAL || given->kind != CUDA_CONDITION_WHILE ||
        given->size != 1 || given->handle != (uintptr_t)graph || given->context != current_context)
        return INVALID_VALUE;
    recording->body = calloc(1, sizeof *recording->body);
    if (!recording->body) return OUT_OF_MEMORY;
    recording->body->kind = 'b';
    recording->body->context = graph;
    *node = recording->bodies[0] = recording->body;
    given->bodies = recording->bodies;
    return 0;
}

static UNUSED int do_graph_child(void **node, void *graph, void *const *before, size_t count,
                                 void *child) {
    Object *body = graph;
    const Object *given = child;
    const bool first = !body->launched;
    if (!is(graph, 'b') || !is(child, 'r') || count != !first ||
        (count && before[0] != body->launched))
        return INVALID_VALUE;
    if (body->launched_count + given->launched_count > RECORDED_MAX) return OUT_OF_MEMORY;
    for (size_t i = 0; i < given->launched_count; i++)
        if (given->launched[i].function) return NOT_SUPPORTED; /* of the host */
    if (first) body->launched = calloc(RECORDED_MAX, sizeof *body->launched);
    if (!body->launched) return OUT_OF_MEMORY;
    for (size_t i = 0; i < given->launched_count; i++)
        if (given->launched[i].mark.kind == BRANCH_WORK)
            body->launched[body->launched_count++] = given->launched[i];
    *node = body->launched;
    return 0;
}

static UNUSED int do_graph_kernel(void **node, void *graph, void *const *before, size_t count,
                                  const void *parameters) {
    const GpuNode *given = parameters;
    Object *body = graph;
    unsigned long long handle;
    const bool within = is(graph, 'b');
    if ((!within && !is(graph, 'r')) || count != within ||
        (within && before[0] != body->launched) || !is(given->cuda.function, 'f') ||
        given->cuda.grid[0] != 1 || given->cuda.block[0] != 1)
        return INVALID_VALUE;
    const bool until = strcmp(((Object *)given->cuda.function)->name, "ls_until") == 0;
    if (!until && (!within || strcmp(((Object *)given->cuda.function)->name, "ls_repeat") != 0))
        return INVALID_VALUE;
    uint32_t step = 1;
    memcpy(&body->left, given->cuda.parameters[0], sizeof body->left);
    if (until) memcpy(&body->stop, given->cuda.parameters[1], sizeof body->stop);
    memcpy(&handle, given->cuda.parameters[until ? 2 : 1], sizeof handle);
    if (until) memcpy(&step, given->cuda.parameters[3], sizeof step);
    *node = body;
    return step == within && handle == (uintptr_t)(within ? body->context : body) ? 0
                                                                                  : INVALID_VALUE;
}

static UNUSED int do_graph_release(void *executable) {
    late_settled(executable, "a graph");
    return destroy(executable, 'g', &state.graphs);
}

static UNUSED int do_graph_destroy(void *graph) {
    return destroy(graph, 'r', &state.recordings);
}
