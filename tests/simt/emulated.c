/* emulated.c: a GPU vendor's libraries on top of the emulator: the driver, and in
 * emulated_compiler.c the runtime compiler, in one shared library, so that the whole product runs
 * with --device cuda or hip where there is no GPU:
 *   LOCKSTEP_CUDA=emulated_cuda.so LOCKSTEP_NVRTC=emulated_cuda.so lockstep run ... --device cuda
 * Built twice, with STAND_IN_CUDA and with STAND_IN_HIP. The compiler gives back the source as the
 * code; loading it compiles it for the host. Device memory is host memory, starts as rubbish and
 * ends at a page that cannot be touched; see extents.h for what lies within; a stream does its work
 * as late as tests/driver/late.h has it; a capture records launches, copies and fills.
 * SIMT_ARCHITECTURE names the HIP device (gfx1030 for waves of 32), SIMT_SEED another order of
 * turns and of streams. What lives is counted and any call can be made to fail, as in
 * tests/driver/stand_in.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stand_in.h"
#include "branches.h"
#include "emulated_compiler.h"
#include "extents.h"
#include "fiber.h"
#include "late.h"
#include "simt.h"

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    NOT_SUPPORTED = 801,
    LAUNCH_FAILED = 719,
    NAME_SIZE = 128,
    TOO_MANY_BLOCKS = 720,
    MULTIPROCESSORS = 3,
    TOGETHER = 1 /* blocks that a multiprocessor holds */
};

static StandIn state;
static char message[4096] = "EMULATED_ERROR";

static int fail(int error, const char *what) {
    if (what != message) snprintf(message, sizeof message, "%s", what);
    fprintf(stderr, "emulated device: %s\n", message);
    return error;
}

#define UNUSED __attribute__((unused))
#include "emulated_vendor.h"

/* ---- work: queued, or recorded ---- */

typedef struct Module {
    SimtModule *compiled;
} Module;

typedef struct Function {
    SimtModule *compiled;
    const Module *module;
    char name[NAME_SIZE];
    struct Function *next;
} Function;

typedef enum WorkKind { WORK_LAUNCH, WORK_COPY, WORK_FILL, WORK_HOST, WORK_EVENT } WorkKind;
typedef struct Work {
    WorkKind kind;
    Function *function;
    unsigned blocks, threads;
    bool cooperative;
    void *arguments; /* our copy */
    unsigned char *to;
    const void *from;
    size_t bytes, rows, to_pitch, from_pitch; /* a copy: so many rows */
    uint32_t value, unit;                     /* a fill: the value and how many bytes of it */
    void (*host_function)(void *);
    void *host_argument;
    BranchMark mark; /* of an event's record, or a wait for it */
} Work;

typedef struct Node Node;
typedef struct Queue {    /* a stream, a recording, a graph */
    BranchStream capture; /* of a stream: the capture that it is in */
    LateStream *late;     /* of a stream: what is not captured */
    Work *work;
    size_t count, capacity;
    Node *nodes;
    /* Of a graph with a while node: its body, and the array that names it; of the body, and of what
     * was instantiated, what counts down. */
    struct Queue *body;
    void *bodies[1];
    uint32_t *left;
    const unsigned char *stop; /* of ls_until: what ends it */
} Queue;
struct Node { /* what names the work of a recording */
    void *self;
    Queue *recording;
    size_t index;
    Node *next;
};

/* A kernel that touches what is not its own, or needs more stack than there is, ends the process;
 * say which. */
static const char *volatile running_kernel = "no kernel";
static void report_access(int signal_number, siginfo_t *information, void *unused) {
    static const char touched[] = "memory that is not the kernel's is touched by ",
                      full[] = "a thread's stack (FIBER_STACK) is too small for ",
                      device[] = "emulated device: ";
    const char *name = running_kernel;
    const char *text = fiber_stack_is_full(information->si_addr) ? full : touched;
    (void)unused;
    if (write(2, device, sizeof device - 1) < 0 || write(2, text, strlen(text)) < 0 ||
        write(2, name, strlen(name)) < 0 || write(2, "\n", 1) < 0)
        _exit(3);
    signal(signal_number, SIG_DFL);
}
static void watch_accesses(void) {
    static unsigned char stack[64 * 1024]; /* of the report: the kernel's own may be full */
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = report_access, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&own, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

/* Every allocation ends, but for 16-byte alignment, where a page begins that cannot be touched. */
typedef struct Allocation {
    unsigned char *pages, *data;
    size_t page_bytes;
    struct Allocation *next;
} Allocation;
static Allocation *allocations;
enum { PAGE = 4096, ALIGNMENT = 16 };

/* Each array its own allocation, so that its end is watched, unless a test asks for the pool
 * (LOCKSTEP_POOL empty). */
static void __attribute__((constructor)) open_library(void) {
    const char *seed = getenv("SIMT_SEED");
    setenv("LOCKSTEP_POOL", "off", 0);
    if (seed) state.seed = strtoull(seed, NULL, 10);
}

/* What lies ahead of an allocation, in its first page, is nobody's; where a test has said what the
 * arrays are, nor is what lies between them. */
static const char *touch(const void *address, size_t bytes, bool writes) {
    const unsigned char *at = address;
    const Allocation *found = allocations;
    (void)writes;
    while (found && (at < found->pages || at >= found->pages + found->page_bytes))
        found = found->next;
    if (!found) return NULL;
    if (at >= found->data) return simt_extents_touch(address, bytes);
    return "it touches memory ahead of what was allocated";
}

static int do_work(const Work *work) {
    static uint64_t turns;
    const char *seed = getenv("SIMT_SEED");
    if (work->kind == WORK_COPY) {
        for (size_t i = 0; i < work->rows; i++)
            memcpy(work->to + i * work->to_pitch, (const char *)work->from + i * work->from_pitch,
                   work->bytes);
        return 0;
    }
    if (work->kind == WORK_FILL) {
        for (size_t i = 0; i < work->bytes; i += work->unit)
            memcpy(work->to + i, &work->value, work->unit);
        return 0;
    }
    if (work->kind == WORK_HOST) {
        work->host_function(work->host_argument);
        return 0;
    }
    const SimtLaunch launch = {.kernel = work->function->name,
                               .arguments = work->arguments,
                               .blocks = work->blocks,
                               .threads = work->threads,
                               .wave = wave(),
                               .seed = ++turns + (seed ? strtoull(seed, NULL, 10) : 0),
                               .cooperative = work->cooperative,
                               .memory = memory_model(),
                               .touch = touch};
    const size_t size = simt_argument_size(work->function->compiled, work->function->name);
    const int error = late_kernel(work->arguments, size, work->function->name);
    if (error) return fail(error, "a kernel uses memory that was freed before it ran");
    watch_accesses();
    running_kernel = work->function->name;
    const bool done = simt_launch(work->function->compiled, &launch, message, sizeof message);
    running_kernel = "no kernel";
    return done ? 0 : fail(LAUNCH_FAILED, message);
}

static void drop_work(Queue *queue) {
    if (queue->body) drop_work(queue->body);
    free(queue->body);
    for (Node *next; queue->nodes; queue->nodes = next) {
        next = queue->nodes->next;
        free(queue->nodes);
    }
    for (size_t i = 0; i < queue->count; i++) free(queue->work[i].arguments);
    free(queue->work);
    queue->work = NULL;
    queue->count = queue->capacity = 0;
}

static int copy_arguments(Work *work, const void *arguments) {
    size_t size = simt_argument_size(work->function->compiled, work->function->name);
    work->arguments = malloc(size ? size : 1);
    if (!work->arguments) return OUT_OF_MEMORY;
    memcpy(work->arguments, arguments, size);
    return 0;
}

static int record(Queue *queue, Work work) {
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity ? 2 * queue->capacity : 16;
        Work *grown = realloc(queue->work, capacity * sizeof *grown);
        if (!grown) return OUT_OF_MEMORY;
        queue->work = grown;
        queue->capacity = capacity;
    }
    int error = work.kind == WORK_LAUNCH ? copy_arguments(&work, work.arguments) : 0;
    if (!error) queue->work[queue->count++] = work;
    return error;
}

/* What is queued: work of a stream, or all of a graph as it was when that was launched. */
typedef struct Queued {
    Queue work;
    const Queue *graph;
} Queued;

static int run_queued(void *what) {
    const Queued *queued = what;
    uint32_t *left = queued->work.left;
    const unsigned char *stop = queued->work.stop;
    int error = 0;
    if (stop && (*left == 0 || *stop)) return 0;
    do {
        for (size_t i = 0; !error && i < queued->work.count; i++)
            error = do_work(&queued->work.work[i]);
    } while (!error && left && --*left != 0 && !(stop && *stop));
    return error;
}

static void release_queued(void *what) {
    drop_work(&((Queued *)what)->work);
    free(what);
}

static bool queued_uses(const void *what, const void *thing) {
    const Queued *queued = what;
    bool uses = queued->graph == thing;
    for (size_t i = 0; i < queued->work.count; i++) {
        const Function *function = queued->work.work[i].function;
        uses |= function && function->module == thing;
    }
    return uses;
}

static bool is_capturing(const Queue *queue) {
    return queue && queue->capture.root;
}

static LateStream *late_of(const Queue *queue) {
    return queue ? queue->late : NULL;
}

static int queue_work(LateStream *stream, const Work *work, size_t count, const Queue *graph) {
    Queued *queued = calloc(1, sizeof *queued);
    int error = queued ? 0 : OUT_OF_MEMORY;
    for (size_t i = 0; !error && i < count; i++) error = record(&queued->work, work[i]);
    if (error) {
        if (queued) release_queued(queued);
        return error;
    }
    queued->graph = graph;
    queued->work.left = graph ? graph->left : NULL;
    queued->work.stop = graph ? graph->stop : NULL;
    return late_queue(stream, (LateWork){run_queued, release_queued, queued_uses, queued});
}

static int submit(void *stream, Work work) {
    const Queue *queue = stream;
    if (!is_capturing(queue)) return queue_work(late_of(queue), &work, 1, NULL);
    if (work.kind != WORK_EVENT) work.mark.branch = queue->capture.branch;
    return record(queue->capture.root->owner, work);
}

static UNUSED int do_host_function(void *stream, void (*function)(void *), void *argument) {
    return submit(stream,
                  (Work){.kind = WORK_HOST, .host_function = function, .host_argument = argument});
}

static int queue_create(void **handle, long *count) {
    *handle = calloc(1, sizeof(Queue));
    *count += *handle != NULL;
    return *handle ? 0 : OUT_OF_MEMORY;
}

static int queue_destroy(void *handle, long *count) {
    drop_work(handle);
    free(handle);
    --*count;
    return 0;
}

static UNUSED int do_stream_create(void **stream, unsigned flags) {
    int error = queue_create(stream, &state.streams);
    if (error) return error;
    ((Queue *)*stream)->late = late_open(flags != GPU_NON_BLOCKING);
    return ((Queue *)*stream)->late ? 0 : OUT_OF_MEMORY;
}
static UNUSED int do_stream_destroy(void *stream) {
    late_close(((Queue *)stream)->late);
    return queue_destroy(stream, &state.streams);
}
static UNUSED int do_stream_synchronize(void *stream) {
    const Queue *queue = stream;
    if (is_capturing(queue)) return fail(INVALID_VALUE, "a stream that captures");
    return late_finish(late_of(queue));
}

static UNUSED int do_stream_context(void *stream, void **context) {
    return (void)stream, *context = &the_context, 0;
}
static UNUSED int do_stream_device(void *stream, int *device) {
    return (void)stream, *device = 0, 0;
}
static UNUSED int do_stream_capturing(void *stream, int *status) {
    return *status = is_capturing(stream), 0;
}

/* ---- memory ---- */

static UNUSED int do_memory_allocate(void **pointer, size_t bytes) {
    size_t size = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t page_bytes = (size + PAGE - 1) / PAGE * PAGE + PAGE;
    Allocation *made = calloc(1, sizeof *made);
    void *pages =
        mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!made || pages == MAP_FAILED) {
        free(made);
        return OUT_OF_MEMORY;
    }
    made->pages = pages;
    made->page_bytes = page_bytes;
    made->data = made->pages + page_bytes - PAGE - size;
    made->next = allocations;
    allocations = made;
    memset(made->pages, 0xff, page_bytes - PAGE); /* NaN, and no index */
    if (mprotect(made->pages + page_bytes - PAGE, PAGE, PROT_NONE) != 0) return OUT_OF_MEMORY;
    *pointer = made->data;
    state.allocations++;
    return 0;
}
static void give_back(void *pages, size_t bytes) {
    munmap(pages, bytes);
}
static UNUSED int do_memory_free(void *pointer) {
    if (!pointer) return 0;
    for (Allocation **at = &allocations; *at; at = &(*at)->next) {
        Allocation *found = *at;
        if (found->data != pointer) continue;
        *at = found->next;
        mmap(found->pages, found->page_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        late_bury(found->pages, found->page_bytes, found->pages, found->page_bytes, give_back);
        free(found);
        state.allocations--;
        return 0;
    }
    return fail(INVALID_VALUE, "memory that was not allocated, or freed before, is freed");
}
static UNUSED int do_memory_info(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = (size_t)16 << 30;
    return 0;
}
static int copy(LateCopy kind, void *to, const void *from, size_t bytes, void *stream) {
    const Queue *queue = stream;
    if (is_capturing(queue))
        return submit(stream,
                      (Work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes, .rows = 1});
    return late_copy(late_of(queue), kind, to, from, bytes);
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
static int copy_rows(const Work *rows, void *stream) {
    const Queue *queue = stream;
    int error = 0;
    if (rows->to_pitch < rows->bytes || rows->from_pitch < rows->bytes)
        return fail(INVALID_VALUE, "rows that are wider than their pitch are copied");
    if (is_capturing(queue)) return submit(stream, *rows);
    for (size_t i = 0; i < rows->rows && !error; i++)
        error = copy(LATE_WITHIN, rows->to + i * rows->to_pitch,
                     (const char *)rows->from + i * rows->from_pitch, rows->bytes, stream);
    return error;
}
#ifdef STAND_IN_CUDA
static UNUSED int do_copy_pitched(const void *parameters, void *stream) {
    const GpuRows *rows = parameters;
    if (rows->from_kind != CUDA_MEMORY_DEVICE || rows->to_kind != CUDA_MEMORY_DEVICE)
        return fail(INVALID_VALUE, "rows are copied within the device only");
    const Work work = {.kind = WORK_COPY,
                       .to = rows->to,
                       .from = rows->from,
                       .bytes = rows->width,
                       .rows = rows->height,
                       .to_pitch = rows->to_pitch,
                       .from_pitch = rows->from_pitch};
    return copy_rows(&work, stream);
}
#else
static UNUSED int do_copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, int kind, void *stream) {
    if (kind != HIP_COPY_WITHIN)
        return fail(INVALID_VALUE, "rows are copied within the device only");
    const Work work = {.kind = WORK_COPY,
                       .to = to,
                       .from = from,
                       .bytes = width,
                       .rows = height,
                       .to_pitch = to_pitch,
                       .from_pitch = from_pitch};
    return copy_rows(&work, stream);
}
#endif
static UNUSED int do_pinned_allocate(void **pointer, size_t bytes, unsigned flags) {
    *pointer = flags ? NULL : late_pinned_allocate(bytes);
    state.pinned += *pointer != NULL;
    return *pointer ? 0 : OUT_OF_MEMORY;
}
static UNUSED int do_pinned_free(void *pointer) {
    late_pinned_free(pointer);
    state.pinned--;
    return 0;
}
static int fill(void *to, uint32_t value, uint32_t unit, size_t count, void *stream) {
    const Queue *queue = stream;
    const Work work = {
        .kind = WORK_FILL, .to = to, .value = value, .unit = unit, .bytes = count * unit};
    if (is_capturing(queue)) return submit(stream, work);
    return late_fill(late_of(queue), to, value, unit, count);
}
static UNUSED int do_fill_8(void *to, unsigned char value, size_t count, void *stream) {
    return fill(to, value, 1, count, stream);
}
static UNUSED int do_fill_16(void *to, unsigned short value, size_t count, void *stream) {
    return fill(to, value, 2, count, stream);
}
static UNUSED int do_fill_32(void *to, unsigned value, size_t count, void *stream) {
    return fill(to, value, 4, count, stream);
}

/* ---- code ---- */

static UNUSED int do_module_load(void **handle, const void *code) {
    const char *text = code;
    const bool ptx = strncmp(text, ".version", 8) == 0; /* of ls_repeat, which we do ourselves */
    if (!ptx && !emulated_code_is(text))
        return fail(INVALID_IMAGE, "the code was not made by the emulated compiler");
    Module *module = calloc(1, sizeof *module);
    if (!module) return OUT_OF_MEMORY;
    if (!ptx) module->compiled = emulated_code_open(text, message, sizeof message);
    if (!ptx && !module->compiled) {
        free(module);
        return fail(INVALID_IMAGE, message);
    }
    *handle = module;
    state.modules++;
    return 0;
}

/* Functions outlive their module as long as there are graphs, one of which may still name them. */
static Function *functions;
static void drop_functions(void) {
    for (Function **at = &functions; *at && state.graphs + state.recordings == 0;) {
        Function *function = *at;
        if (function->module) {
            at = &function->next;
        } else {
            *at = function->next;
            free(function);
        }
    }
}

static UNUSED int do_module_unload(void *handle) {
    Module *module = handle;
    late_settled(module, "a module");
    for (Function *function = functions; function; function = function->next)
        if (function->module == module) function->module = NULL;
    drop_functions();
    emulated_code_close(module->compiled);
    free(module);
    state.modules--;
    return 0;
}

static UNUSED int do_module_function(void **function, void *module, const char *name) {
    SimtModule *compiled = ((Module *)module)->compiled;
    if (compiled && !simt_argument_size(compiled, name)) return fail(NOT_FOUND, "no such kernel");
    Function *made = calloc(1, sizeof *made);
    if (!made) return OUT_OF_MEMORY;
    made->compiled = compiled;
    made->module = module;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->next = functions;
    functions = made;
    *function = made;
    return 0;
}

static UNUSED int do_launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes || extra)
        return fail(INVALID_VALUE, "only one-dimensional launches are emulated");
    return submit(stream, (Work){.kind = WORK_LAUNCH,
                                 .function = function,
                                 .blocks = grid_x,
                                 .threads = block_x,
                                 .arguments = parameters[0]});
}

static UNUSED int do_launch_together(void *function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, unsigned shared_bytes, void *stream,
                                     void **parameters) {
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes)
        return fail(INVALID_VALUE, "only one-dimensional launches are emulated");
    if (grid_x > TOGETHER * MULTIPROCESSORS)
        return fail(TOO_MANY_BLOCKS, "more blocks than the device holds at once");
    return submit(stream, (Work){.kind = WORK_LAUNCH,
                                 .function = function,
                                 .blocks = grid_x,
                                 .threads = block_x,
                                 .cooperative = true,
                                 .arguments = parameters[0]});
}
static UNUSED int do_blocks_together(int *blocks, void *function, int threads,
                                     size_t shared_bytes) {
    (void)function, (void)threads, (void)shared_bytes;
    return *blocks = TOGETHER, 0;
}

/* ---- events and graphs ---- */

typedef struct Event {
    LateEvent late;
    BranchEvent captured;
} Event;
static UNUSED int do_event_create(void **made, unsigned flags) {
    *made = flags & ~2u ? NULL : calloc(1, sizeof(Event)); /* 2: without a time */
    state.events += *made != NULL;
    return *made ? 0 : OUT_OF_MEMORY;
}
static UNUSED int do_event_record(void *used, void *stream) {
    const Queue *queue = stream;
    Event *event = used;
    if (is_capturing(queue))
        return submit(stream, (Work){.kind = WORK_EVENT,
                                     .mark = branches_record(&queue->capture, &event->captured)});
    event->captured.root = NULL;
    return late_record(&event->late, late_of(queue));
}
static UNUSED int do_event_synchronize(void *used) {
    return late_finish_event(&((Event *)used)->late);
}
static UNUSED int do_event_query(void *used) {
    return late_done(&((Event *)used)->late) ? 0 : LATE_NOT_READY;
}
static UNUSED int do_stream_wait(void *stream, void *used, unsigned flags) {
    Queue *queue = stream;
    const Event *event = used;
    Work work = {.kind = WORK_EVENT};
    int error;
    if (flags) return fail(INVALID_VALUE, "a wait of another kind");
    if (queue && branches_wait(&queue->capture, queue, &event->captured, &work.mark, &error))
        return error ? fail(error, "a capture waits for what is not of it, or the other way round")
                     : submit(stream, work);
    return late_wait(late_of(queue), &event->late);
}
static UNUSED int do_event_elapsed(float *milliseconds, void *start, void *end) {
    return late_elapsed(&((Event *)start)->late, &((Event *)end)->late, milliseconds);
}
static UNUSED int do_event_destroy(void *used) {
    late_event_drop(&((Event *)used)->late);
    free(used);
    state.events--;
    return 0;
}

#include "emulated_graphs.h"

#include "exports.h"
