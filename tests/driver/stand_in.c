/* stand_in.c: see stand_in.h. Built twice: with STAND_IN_CUDA and with STAND_IN_HIP. */
#include "stand_in.h"
#include "branches.h"
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
enum { KERNEL_NAME = 64, RECORDED_MAX = 128, WORDS_MAX = 96 };

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
    BranchStream capture; /* of a stream: the capture that it is in */
    void *context;        /* what was current when it was made */
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
        BranchMark mark; /* no work, but an event's record or a wait for it */
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
    BranchEvent captured;  /* of an event */
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

static bool is_capturing(const void *stream) {
    return ((const Object *)stream)->capture.root != NULL;
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
    if (!usable(stream) || is_capturing(queue)) return INVALID_HANDLE;
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
    *status = is_capturing(stream);
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
    if (is_capturing(queue))
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
    if (is_capturing(stream))
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
    if (is_capturing(stream))
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

static int queue_launches(LateStream *stream, const struct Launched *launched, size_t count,
                          const Object *graph) {
    Queued *queued = malloc(sizeof *queued + count * sizeof *launched);
    if (!queued) return OUT_OF_MEMORY;
    *queued = (Queued){.graph = graph, .count = count};
    if (graph) queued->left = graph->left;
    if (graph) queued->stop = graph->stop;
    if (graph) queued->initial = graph->initial;
    if (count) memcpy(queued->launched, launched, count * sizeof *launched);
    return late_queue(stream, (LateWork){run_queued, free, queued_uses, queued});
}

static int submit(void *stream, struct Launched launched) {
    Object *queue = stream;
    if (!is_capturing(queue)) return queue_launches(queue->queue, &launched, 1, NULL);
    if (launched.mark.kind == BRANCH_WORK) launched.mark.branch = queue->capture.branch;
    queue = queue->capture.root->owner;
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
    if (together && state.unrecorded)
        return queue_launches(((Object *)stream)->queue, &launched, 1, NULL);
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
    Object *queue = stream, *recorded = event;
    if (!usable(stream) || !is(event, 'e')) return INVALID_HANDLE;
    if (is_capturing(queue))
        return submit(stream, (struct Launched){
                                  .mark = branches_record(&queue->capture, &recorded->captured)});
    recorded->captured.root = NULL;
    return late_record(&recorded->event, queue->queue);
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
    Object *queue = stream, *waited = event;
    struct Launched launched = {0};
    int error;
    if (!usable(stream) || !is(event, 'e') || flags) return INVALID_HANDLE;
    state.stream_waits++;
    if (branches_wait(&queue->capture, queue, &waited->captured, &launched.mark, &error))
        return error ? error : submit(stream, launched);
    return late_wait(queue->queue, &waited->event);
}

static UNUSED int do_event_elapsed(float *milliseconds, void *start, void *end) {
    if (!is(start, 'e') || !is(end, 'e')) return INVALID_HANDLE;
    if (((Object *)start)->untimed || ((Object *)end)->untimed) return INVALID_HANDLE;
    const int error =
        late_elapsed(&((Object *)start)->event, &((Object *)end)->event, milliseconds);
    if (state.timeless) *milliseconds = 0;
    return error;
}

static UNUSED int do_event_destroy(void *event) {
    return destroy(event, 'e', &state.events);
}

#include "stand_in_graphs.h"

#include "exports.h"
