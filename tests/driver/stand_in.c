/* stand_in.c: see stand_in.h. Built twice: with STAND_IN_CUDA and with STAND_IN_HIP. */
#include "stand_in.h"
#include "late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))
enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    NOT_SUPPORTED = 801,
    CAPTURE_FORBIDS = 900,
    UPDATE_FAILED = 910
};
enum { KERNEL_NAME = 64, RECORDED_MAX = 64, WORDS_MAX = 96 };

static StandIn state = {.version = 1 << 30,
                        .devices = 2,
                        .memory = SIZE_MAX,
                        .cooperative = 1,
                        .together = 3,
                        .capability = 90,
                        .updates = 1};

/* What is current on the thread. */
static char contexts[2 * STAND_IN_DEVICES];
static _Thread_local void *current_context;
static _Thread_local int current_device;

static bool is_current(void) {
#ifdef STAND_IN_CUDA
    return current_context != NULL;
#else
    return true;
#endif
}

/* Every object starts with what it is, so that a wrong handle is noticed. */
typedef struct Object {
    char kind; /* 's'tream, 'm'odule, 'f'unction, 'e'vent, 'r'ecording, 'g'raph */
    char name[KERNEL_NAME];
    bool capturing;
    void *context; /* what was current when it was made */
    int device;
    const StandInCode *code;  /* of a module and its functions, or NULL */
    void *module;             /* of a function */
    struct Object *functions; /* of a module, and of a recording what it launches */
    struct Launched {
        char name[KERNEL_NAME];
        uint64_t words[WORDS_MAX];
        size_t word_count;
        unsigned grid, block;
        bool together;
        const StandInCode *code;
        const void *module;
        void (*function)(void *); /* of the host, instead of a kernel */
        void *argument;
        void *to; /* or a copy that was recorded, or a fill of so many bytes at once */
        const void *from;
        size_t bytes, rows, to_pitch, from_pitch;
        uint32_t value, unit;
    } * launched;
    size_t launched_count;
    /* Of a graph with a while node: its body, 'b', which counts down, and the array that names it.
     */
    struct Object *body;
    void *bodies[1];
    uint32_t *left;
    const unsigned char *stop; /* NULL: of ls_repeat */
    unsigned initial;
    void *origin;      /* of what was instantiated: where the nodes' names point */
    LateStream *queue; /* of a stream */
    bool for_copies, untimed;
    LateEvent event;
    struct Object *others; /* made before: what a lost device leaves is not lost itself */
} Object;

static Object *objects;

static int create(void **handle, char kind, long *count) {
    if (!is_current()) return INVALID_CONTEXT;
    Object *object = calloc(1, sizeof *object);
    if (!object) return OUT_OF_MEMORY;
    object->kind = kind;
    object->context = current_context;
    object->device = current_device;
    object->others = objects;
    *handle = objects = object;
    ++*count;
    return 0;
}

static bool is(const void *handle, char kind) {
    return handle && ((const Object *)handle)->kind == kind;
}

static void drop(Object *object) {
    Object **link = &objects;
    while (*link != object) link = &(*link)->others;
    *link = object->others;
    free(object);
}

static int destroy(void *handle, char kind, long *count) {
    Object *object = handle;
    if (!is(handle, kind)) return INVALID_HANDLE;
    if (object->queue) late_close(object->queue);
    late_event_drop(&object->event);
    state.strays += !is_current();
    for (Object *next; object->functions; object->functions = next) {
        next = object->functions->functions;
        drop(object->functions);
    }
    if (object->body) free(object->body->launched);
    free(object->body);
    free(object->launched);
    drop(object);
    --*count;
    return 0;
}

/* ---- what each call does ---- */

#include "stand_in_devices.h"

static UNUSED int do_stream_create(void **stream, unsigned flags) {
    state.stream_flags = flags;
    int error = create(stream, 's', &state.streams);
    if (error) return error;
    Object *made = *stream;
    made->for_copies = flags == GPU_NON_BLOCKING;
    made->queue = late_open(!made->for_copies);
    return made->queue ? 0 : OUT_OF_MEMORY;
}

static UNUSED int do_stream_destroy(void *stream) {
    return destroy(stream, 's', &state.streams);
}

static bool usable(void *stream) {
    return is_current() && is(stream, 's');
}

/* A capture in the strict mode ends when a thread in that mode allocates, frees, loads or waits. */
static Object *strict_capture;
static _Thread_local int thread_mode; /* strict at first */
static bool is_forbidden(void) {
    if (!strict_capture || thread_mode == GPU_CAPTURE_RELAXED) return false;
    state.forbidden++;
    return true;
}

static UNUSED int do_stream_synchronize(void *stream) {
    Object *queue = stream;
    if (!usable(stream) || queue->capturing) return INVALID_HANDLE;
    if (is_forbidden()) return CAPTURE_FORBIDS;
    return late_finish(queue->queue);
}

static UNUSED int do_stream_context(void *stream, void **context) {
    if (!is(stream, 's')) return INVALID_HANDLE;
    *context = ((Object *)stream)->context;
    return 0;
}

static UNUSED int do_stream_device(void *stream, int *device) {
    if (!is(stream, 's')) return INVALID_HANDLE;
    *device = ((Object *)stream)->device;
    return 0;
}

static UNUSED int do_stream_capturing(void *stream, int *status) {
    if (!usable(stream)) return INVALID_HANDLE;
    *status = ((Object *)stream)->capturing;
    return 0;
}

/* Its size lies ahead of an allocation. */
enum { AHEAD = 256 };
static UNUSED int do_memory_allocate(void **pointer, size_t bytes) {
    if (!is_current()) return INVALID_CONTEXT;
    if (is_forbidden()) return CAPTURE_FORBIDS;
    if (bytes > state.memory || state.allocated > state.memory - bytes) return OUT_OF_MEMORY;
    char *memory = aligned_alloc(AHEAD, AHEAD + (bytes + AHEAD - 1) / AHEAD * AHEAD);
    if (!memory) return OUT_OF_MEMORY;
    memcpy(memory, &bytes, sizeof bytes);
    memset(memory + AHEAD, LATE_POISON, bytes);
    *pointer = memory + AHEAD;
    state.allocated += bytes;
    state.allocations++;
    return 0;
}

static void give_back(void *base, size_t bytes) {
    (void)bytes;
    free(base);
}

static UNUSED int do_memory_free(void *pointer) {
    size_t bytes;
    state.strays += !is_current();
    is_forbidden();
    memcpy(&bytes, (char *)pointer - AHEAD, sizeof bytes);
    memset(pointer, LATE_POISON, bytes);
    late_bury((char *)pointer - AHEAD, AHEAD + bytes, pointer, bytes, give_back);
    state.allocated -= bytes;
    state.allocations--;
    return 0;
}

static UNUSED int do_memory_info(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = (size_t)3 << 20;
    *total_bytes = (size_t)8 << 20;
    return is_current() ? 0 : INVALID_CONTEXT;
}

static int submit(void *stream, struct Launched launched);

static int copy(LateCopy kind, void *to, const void *from, size_t bytes, void *stream) {
    const Object *queue = stream;
    if (!usable(stream)) return INVALID_HANDLE;
    if (queue->capturing)
        return submit(stream, (struct Launched){.to = to, .from = from, .bytes = bytes, .rows = 1});
    state.copies_in += kind != LATE_WITHIN;
    state.copies_within += kind == LATE_WITHIN;
    state.copies_beside += queue->for_copies;
    return late_copy(queue->queue, kind, to, from, bytes);
}

static UNUSED int do_copy_in(void *to, void *from, size_t bytes, void *stream) {
    return copy(LATE_IN, to, from, bytes, stream);
}

static UNUSED int do_copy_out(void *to, void *from, size_t bytes, void *stream) {
    return copy(LATE_OUT, to, from, bytes, stream);
}

static UNUSED int do_copy_within(void *to, void *from, size_t bytes, void *stream) {
    return copy(LATE_WITHIN, to, from, bytes, stream);
}

/* The pitches are at least as wide as a row, as the vendors want. */
static UNUSED int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t height, void *stream) {
    if (to_pitch < width || from_pitch < width || to_pitch > INT32_MAX || from_pitch > INT32_MAX)
        return INVALID_VALUE;
    if (!usable(stream)) return INVALID_HANDLE;
    if (((Object *)stream)->capturing)
        return submit(stream, (struct Launched){.to = to,
                                                .from = from,
                                                .bytes = width,
                                                .rows = height,
                                                .to_pitch = to_pitch,
                                                .from_pitch = from_pitch});
    int error = 0;
    for (size_t i = 0; i < height && !error; i++)
        error = copy(LATE_WITHIN, (char *)to + i * to_pitch, (const char *)from + i * from_pitch,
                     width, stream);
    return error;
}

#ifdef STAND_IN_CUDA
static UNUSED int do_copy_pitched(const void *parameters, void *stream) {
    const GpuRows *rows = parameters;
    if (rows->from_kind != CUDA_MEMORY_DEVICE || rows->to_kind != CUDA_MEMORY_DEVICE)
        return INVALID_VALUE;
    return copy_rows(rows->to, rows->to_pitch, rows->from, rows->from_pitch, rows->width,
                     rows->height, stream);
}
#else
static UNUSED int do_copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, int kind, void *stream) {
    if (kind != HIP_COPY_WITHIN) return INVALID_VALUE;
    return copy_rows(to, to_pitch, from, from_pitch, width, height, stream);
}
#endif

static UNUSED int do_pinned_allocate(void **pointer, size_t bytes, unsigned flags) {
    if (!is_current() || flags) return INVALID_CONTEXT;
    *pointer = state.pinned_fails ? NULL : late_pinned_allocate(bytes);
    if (!*pointer) return OUT_OF_MEMORY;
    state.pinned++;
    return 0;
}

static UNUSED int do_pinned_free(void *pointer) {
    state.strays += !is_current();
    late_pinned_free(pointer);
    state.pinned--;
    return 0;
}

static int fill_memory(void *to, uint32_t value, uint32_t unit, size_t count, void *stream) {
    if (!usable(stream)) return INVALID_HANDLE;
    if (((Object *)stream)->capturing)
        return submit(stream, (struct Launched){
                                  .to = to, .bytes = count * unit, .value = value, .unit = unit});
    return late_fill(((Object *)stream)->queue, to, value, unit, count);
}

static UNUSED int do_fill_8(void *to, unsigned char value, size_t count, void *stream) {
    return fill_memory(to, value, 1, count, stream);
}

static UNUSED int do_fill_16(void *to, unsigned short value, size_t count, void *stream) {
    return fill_memory(to, value, 2, count, stream);
}

static UNUSED int do_fill_32(void *to, unsigned value, size_t count, void *stream) {
    return fill_memory(to, value, 4, count, stream);
}

static UNUSED int do_module_load(void **module, const void *code) {
    const bool ptx = strncmp(code, ".version", 8) == 0; /* of ls_repeat */
    if (!ptx && strncmp(code, "stand-in code", 13) != 0) return INVALID_VALUE;
    if (is_forbidden()) return CAPTURE_FORBIDS;
    int error = create(module, 'm', &state.modules);
    if (!error && strcmp(code, STAND_IN_CODE) == 0) ((Object *)*module)->code = code;
    return error;
}

static UNUSED int do_module_unload(void *module) {
    late_settled(module, "a module");
    return destroy(module, 'm', &state.modules);
}

static UNUSED int do_module_function(void **function, void *module, const char *name) {
    if (!is(module, 'm')) return INVALID_HANDLE;
    long unused = 0;
    int error = create(function, 'f', &unused);
    if (error) return error;
    Object *made = *function;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->code = ((Object *)module)->code;
    made->module = module;
    made->functions = ((Object *)module)->functions;
    ((Object *)module)->functions = made;
    return 0;
}

static int run(const struct Launched *launched) {
    if (launched->unit) {
        for (size_t i = 0; i < launched->bytes; i += launched->unit)
            memcpy((char *)launched->to + i, &launched->value, launched->unit);
        return 0;
    }
    if (launched->to) {
        for (size_t i = 0; i < launched->rows; i++)
            memmove((char *)launched->to + i * launched->to_pitch,
                    (const char *)launched->from + i * launched->from_pitch, launched->bytes);
        return 0;
    }
    if (launched->function) {
        launched->function(launched->argument);
        return 0;
    }
    int error = late_kernel(launched->words, launched->word_count * sizeof *launched->words,
                            launched->name);
    if (error) return error;
    state.launches++;
    state.launches_together += launched->together;
    if (launched->code)
        launched->code->run(launched->code, launched->name, launched->words);
    else if (state.hook)
        state.hook(launched->name, launched->words, launched->grid, launched->block);
    return 0;
}

/* A driver knows the size of the arguments from the code, this one how many words the tests'
 * kernels have. */
static void fill(struct Launched *launched, const Object *function, unsigned grid, unsigned block,
                 void **parameters) {
    memcpy(launched->name, function->name, sizeof launched->name);
    size_t words = strncmp(launched->name, "lists", 5) == 0 ? 12 : 5;
    launched->code = function->code;
    if (launched->code) words = launched->code->words;
    if (words > WORDS_MAX) words = WORDS_MAX; /* the kernel will miss them */
    memcpy(launched->words, parameters[0], words * sizeof(uint64_t));
    launched->word_count = words;
    launched->module = function->module;
    launched->grid = grid;
    launched->block = block;
}

/* What is queued: a launch, or all of a graph as it was when that was launched. */
typedef struct Queued {
    const Object *graph;
    size_t count;
    uint32_t *left;
    const unsigned char *stop;
    unsigned initial;
    struct Launched launched[];
} Queued;

static int run_queued(void *what) {
    const Queued *queued = what;
    int error = 0;
    unsigned again = queued->left && !queued->stop ? queued->initial : 1;
    if (queued->stop) again = *queued->left != 0 && !*queued->stop;
    while (again && !error) {
        for (size_t i = 0; i < queued->count && !error; i++) error = run(&queued->launched[i]);
        again = queued->left && --*queued->left != 0 && !(queued->stop && *queued->stop);
    }
    return error;
}

static bool queued_uses(const void *what, const void *thing) {
    const Queued *queued = what;
    bool uses = queued->graph == thing;
    for (size_t i = 0; i < queued->count; i++) uses |= queued->launched[i].module == thing;
    return uses;
}

static int queue_launches(const Object *stream, const struct Launched *launched, size_t count,
                          const Object *graph) {
    Queued *queued = malloc(sizeof *queued + count * sizeof *launched);
    if (!queued) return OUT_OF_MEMORY;
    *queued = (Queued){.graph = graph, .count = count};
    if (graph) queued->left = graph->left;
    if (graph) queued->stop = graph->stop;
    if (graph) queued->initial = graph->initial;
    if (count) memcpy(queued->launched, launched, count * sizeof *launched);
    return late_queue(stream->queue, (LateWork){run_queued, free, queued_uses, queued});
}

static int submit(void *stream, struct Launched launched) {
    Object *queue = stream;
    if (!queue->capturing) return queue_launches(queue, &launched, 1, NULL);
    if (!queue->launched) queue->launched = calloc(RECORDED_MAX, sizeof launched);
    if (!queue->launched || queue->launched_count == RECORDED_MAX) return OUT_OF_MEMORY;
    queue->launched[queue->launched_count++] = launched;
    return 0;
}

static int start(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                 void *stream, void **parameters, void **extra, bool together) {
    if (!usable(stream) || !is(function, 'f')) return INVALID_HANDLE;
    if (grid_x < 1 || grid_y != 1 || grid_z != 1 || block_x < 1 || block_y != 1 || block_z != 1 ||
        shared_bytes || !parameters || extra)
        return INVALID_VALUE;
    struct Launched launched = {.together = together};
    fill(&launched, function, grid_x, block_x, parameters);
    if (together && state.unrecorded) return queue_launches(stream, &launched, 1, NULL);
    return submit(stream, launched);
}

static UNUSED int do_host_function(void *stream, void (*function)(void *), void *argument) {
    if (!usable(stream) || !function) return INVALID_HANDLE;
    return submit(stream, (struct Launched){.function = function, .argument = argument});
}

static UNUSED int do_launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    return start(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                 parameters, extra, false);
}

static UNUSED int do_launch_together(void *function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, unsigned shared_bytes, void *stream,
                                     void **parameters) {
    if (state.refuses_together) return state.refuses_together;
    if (!state.cooperative || (long)grid_x > 10L * state.together) return INVALID_VALUE;
    return start(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                 parameters, NULL, true);
}

static UNUSED int do_blocks_together(int *blocks, void *function, int threads,
                                     size_t shared_bytes) {
    if (!is_current() || !is(function, 'f') || threads < 1 || shared_bytes) return INVALID_VALUE;
    *blocks = state.together;
    return 0;
}

static UNUSED int do_event_create(void **event, unsigned flags) {
    if (flags & ~2u) return INVALID_VALUE;
    const int error = create(event, 'e', &state.events);
    if (error) return error;
    ((Object *)*event)->untimed = flags != 0;
    state.untimed += flags != 0;
    return 0;
}

static UNUSED int do_event_record(void *event, void *stream) {
    if (!usable(stream) || !is(event, 'e') || ((Object *)stream)->capturing) return INVALID_HANDLE;
    return late_record(&((Object *)event)->event, ((Object *)stream)->queue);
}

static UNUSED int do_event_synchronize(void *event) {
    if (!is(event, 'e')) return INVALID_HANDLE;
    state.host_waits++;
    return late_finish_event(&((Object *)event)->event);
}

static UNUSED int do_event_query(void *event) {
    if (!is(event, 'e')) return INVALID_HANDLE;
    return state.unready || !late_done(&((Object *)event)->event) ? NOT_READY : 0;
}

static UNUSED int do_stream_wait(void *stream, void *event, unsigned flags) {
    if (!usable(stream) || !is(event, 'e') || flags || ((Object *)stream)->capturing)
        return INVALID_HANDLE;
    state.stream_waits++;
    return late_wait(((Object *)stream)->queue, &((Object *)event)->event);
}

static UNUSED int do_event_elapsed(float *milliseconds, void *start, void *end) {
    if (!is(start, 'e') || !is(end, 'e')) return INVALID_HANDLE;
    if (((Object *)start)->untimed || ((Object *)end)->untimed) return INVALID_HANDLE;
    return late_elapsed(&((Object *)start)->event, &((Object *)end)->event, milliseconds);
}

static UNUSED int do_event_destroy(void *event) {
    return destroy(event, 'e', &state.events);
}

static UNUSED int do_capture_begin(void *stream, int mode) {
    if (!usable(stream) || ((Object *)stream)->capturing) return INVALID_HANDLE;
    ((Object *)stream)->capturing = true;
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
    if (!usable(stream) || !queue->capturing) return INVALID_HANDLE;
    if (state.calls == state.fail_at) {
        free(queue->launched);
        queue->launched = NULL;
        queue->launched_count = 0;
        queue->capturing = false;
        if (strict_capture == queue) strict_capture = NULL;
        return state.fail_with;
    }
    int error = create(graph, 'r', &state.recordings);
    if (error) return error;
    Object *recording = *graph;
    recording->launched = queue->launched;
    recording->launched_count = queue->launched_count;
    queue->launched = NULL;
    queue->launched_count = 0;
    queue->capturing = false;
    if (strict_capture == queue) strict_capture = NULL;
    return 0;
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
    *status = queue->capturing;
    *id = 1;
    *graph = NULL;
    last = queue->launched_count ? &queue->launched[queue->launched_count - 1] : NULL;
    *nodes = &last;
    *count = queue->launched_count > 0;
    return 0;
}

static UNUSED int do_graph_nodes(void *graph, void **nodes, size_t *count) {
    if (!is(graph, 'r') || nodes) return INVALID_HANDLE;
    *count = ((Object *)graph)->launched_count;
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

static UNUSED int do_graph_launch(void *executable, void *stream) {
    const Object *graph = executable;
    if (!usable(stream) || !is(executable, 'g')) return INVALID_HANDLE;
    state.graph_launches++;
    if (((Object *)stream)->capturing) {
        int error = graph->left ? NOT_SUPPORTED : 0;
        for (size_t i = 0; !error && i < graph->launched_count; i++)
            error = submit(stream, graph->launched[i]);
        return error;
    }
    return queue_launches(stream, graph->launched, graph->launched_count, graph);
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
    if (given->launched_count)
        memcpy(&body->launched[body->launched_count], given->launched,
               given->launched_count * sizeof *body->launched);
    body->launched_count += given->launched_count;
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

#include "exports.h"
