/* runtime.h: the runtime's table of contents.
 *
 * A context owns one opened Device, reached through a Driver table that cuda, hip and cpu fill;
 * nothing above the table asks which driver it is. A program is a set of images, a step one image
 * with its bindings, a graph a recorded series of launches. Each heading below is a file. The only
 * state outside these objects is the calling thread's last error without a context (error.c). */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <lockstep/image.h>
#include <lockstep/lockstep.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* common.c: the one way to a variable of the environment. A program that runs with more rights than
 * who started it (set-user-ID, file capabilities) takes none from that user: NULL, as when it is
 * not set. */
typedef enum Variable {
#define X(name, ...) VARIABLE_##name,
#include <lockstep/environment.def>
#undef X
} Variable;
const char *host_variable_name(Variable variable);
const char *host_environment(Variable variable);
const char *host_environment_foreign(const char *name); /* one that is not Lockstep's */
/* common.c: makes room for `count` elements in an array, whose pointer `array` points to; false:
 * out of memory, and it is as it was. */
bool array_grow(void *array, size_t *capacity, size_t count, size_t element);
char *text_copy(const char *text, size_t size); /* NULL: out of memory */
double time_us(void);                           /* of a clock that only goes forward */
/* A thread that takes none of the program's signals: these are for the program's own. 0, or the
 * error's number. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* host_limits.c: memory that the process can still have and all that there is, within its control
 * groups; false: not known. `root` is "", or in tests a folder with proc/ and sys/ in it. */
bool limits_memory(const char *root, uint64_t *free_bytes, uint64_t *total_bytes);
/* How many processors the control groups give time for; 0: no limit. */
uint32_t limits_processors(const char *root);

/* error.c: one message per context, and one per thread for calls without a context. */
enum { FIRST_ERROR_BYTES = 1024 };
typedef struct Error {
    uint32_t count; /* failures so far */
    double at_us;   /* when the last one was */
    char text[8192];
    /* The first failure since error_watch; "": none yet, or the watch is over. */
    bool watched;
    char first[FIRST_ERROR_BYTES];
} Error;
/* From here on the first failure is kept, of a context's calls or (NULL) of the thread's calls
 * without one; error_watched gives it, NULL: there was none, and ends the watch. */
void error_watch(Error *error);
const char *error_watched(Error *error);
/* Whether a handle is there; where it is not, a message of the thread's says that `what` is NULL in
 * `call`. For functions that cannot fail. */
bool error_handle(const void *handle, const char *call, const char *what);
/* Records what happened and gives `status` back. A NULL error is the thread's own. */
ls_status error_set(Error *error, ls_status status, const char *format, ...) PRINTF_LIKE(3, 4);
ls_status error_memory(Error *error, const char *call); /* host memory ran out */

/* log.c: what was decided, on stderr, where LOCKSTEP_LOG asks for it. */
typedef enum LogLevel { LOG_INFO, LOG_DEBUG } LogLevel;
bool log_wanted(LogLevel level);
void log_write(LogLevel level, const char *format, ...) PRINTF_LIKE(2, 3);
void log_check(void); /* says so where LOCKSTEP_LOG is neither */

typedef struct TypeRow {
    const char *name;
    char class; /* 'F' 'S' 'U' 'B' */
    uint8_t size;
} TypeRow;
extern const TypeRow type_rows[LS_TYPE_COUNT];

/* Rows of bytes that are copied within the device's memory along some axes, or filled. As a
 * launch's arguments without the axes that it does not have. */
typedef struct CopyAxis {
    uint64_t length;
    int64_t to, from; /* bytes from one step to the next */
} CopyAxis;
typedef struct Copy {
    char *to;
    const char *from;    /* NULL: a fill */
    uint64_t width;      /* bytes of a row */
    uint64_t value;      /* of a fill: what each `unit` bytes of a row become, */
    uint32_t unit, rank; /* 1, 2, 4 or 8 */
    CopyAxis axes[LS_RANK_MAX + 1];
} Copy;

/* One kernel launch, ready to go: filled when a step is prepared, read by launch(). */
typedef void (*CpuFunction)(const void *arguments, uint64_t first, uint64_t last, uint32_t worker,
                            uint32_t workers);
typedef union Kernel {
    CpuFunction cpu;
    void *gpu;
} Kernel;
typedef struct Launch {
    const char *step, *name; /* for messages */
    Kernel kernel;
    uint64_t *arguments;
    size_t argument_count; /* words */
    uint64_t items;
    uint32_t parts; /* what Driver.geometry gave: workers or blocks */
    uint32_t threads;
    bool together;            /* the blocks wait for each other */
    bool copies;              /* the arguments are a Copy; on a GPU there is no kernel */
    const ls_host_work *host; /* work of the program's: on a GPU instead of a kernel */
} Launch;

/* The driver table. A function that can fail says why in device->error. Copies, clears and launches
 * are queued in order; `synchronize` waits for them. What takes something down cannot fail. */
typedef struct Driver Driver;
typedef struct Monitor Monitor; /* monitor.c */
/* What a device or its driver may lack. Where it does, the next best is taken and gives the same
 * bits. */
typedef enum Capability {
    CAN_COOPERATE, /* launches whose blocks wait for each other */
    CAN_CAPTURE,   /* graphs */
    CAN_UPDATE,    /* new parameters for the kernels of a graph */
    CAN_REPEAT,    /* graphs that the device repeats by itself */
    CAPABILITY_COUNT
} Capability;
enum { LACK_BYTES = 112 };
typedef struct Device { /* the head of every driver's own structure */
    const Driver *driver;
    Error *error;
    char name[16];         /* "cuda:0" */
    char description[160]; /* "NVIDIA H200, sm_90, 132 multiprocessors" */
    char target[64];       /* "sm_90" */
    uint32_t threads;      /* CPU workers; 0 on a GPU */
    /* Host and device have one memory, so that nothing need be copied: kernels can read whatever
     * the host can; or what is page-locked. */
    bool reads_host, reads_pinned;
    char lacks[CAPABILITY_COUNT][LACK_BYTES]; /* why it cannot; "": it can */
    bool told[CAPABILITY_COUNT];              /* device_lacks has said so */
} Device;
struct Driver {
    const char *name; /* "cuda" */
    ls_device_kind kind;
    const void *vendor; /* the driver's own constants */
    /* Fills up to `capacity` entries, at least one usable or with the reason; gives how many there
     * are. */
    size_t (*list)(const Driver *driver, ls_device_info *devices, size_t capacity);
    ls_status (*open)(const Driver *driver, int index, void *stream, Error *error, Device **device);
    void (*close)(Device *device);
    /* Whether the program around us captures the stream, which must be its own; NULL: never.
     * `stream`: one that stream_create made, whoever captures it; NULL: the context's. */
    ls_status (*captured)(Device *device, void *stream, bool *captured);
    /* How well code for `target` suits the device: 0 not at all, more is better. */
    int (*suits)(const Device *device, const char *target);
    ls_status (*synchronize)(Device *device);
    ls_status (*allocate)(Device *device, size_t bytes, void **pointer); /* 256-byte aligned */
    void (*release)(Device *device, void *pointer);
    bool (*available)(Device *device, uint64_t *free_bytes, uint64_t *total_bytes);
    ls_status (*copy_in)(Device *device, void *to, const void *from, size_t bytes);
    ls_status (*copy_out)(Device *device, void *to, const void *from, size_t bytes);
    ls_status (*clear)(Device *device, void *pointer, size_t bytes);
    /* Stores one element of 1, 2, 4 or 8 bytes; `value` is free again on return. */
    ls_status (*store)(Device *device, void *scalar, const void *value, size_t bytes);
    /* Loads a variant's code and finds its kernels, in order. `code` stays the caller's. */
    ls_status (*load)(Device *device, const ls_image *image, const ls_image_variant *variant,
                      const void *code, size_t size, Kernel *kernels, void **module);
    void (*unload)(Device *device, void *module);
    /* Gives the launch, of a kernel that is loaded, its workers or its blocks and their threads. */
    ls_status (*geometry)(Device *device, const ls_image_kernel *kernel, uint64_t tiles,
                          Launch *launch);
    ls_status (*launch)(Device *device, const Launch *launches, size_t count); /* in order */
    ls_status (*repeat)(Device *device, const Launch *launches, size_t count, uint64_t times);
    /* As long as the byte at `stop` is 0; gives how often. NULL: the host looks at it. */
    ls_status (*repeat_until)(Device *device, const Launch *launches, size_t count,
                              const void *stop, uint64_t most, uint64_t *times);
    /* Host work, which has items and stays the caller's, as a launch; `argument` is room for the
     * launch's argument. */
    ls_status (*host_launch)(Device *device, const ls_host_work *work, uint64_t *argument,
                             Launch *launch);
    /* Whether one launch does all of a copy; NULL: of any. copy_launch makes the launch, of which
     * all but the kernel and the parts is there. */
    bool (*copies)(const Copy *copy);
    void (*copy_launch)(Device *device, const Copy *copy, Launch *launch);
    void *(*stream)(const Device *device); /* NULL on the CPU */
    /* Runs something of another library's with the device current; NULL on the CPU. */
    ls_status (*with_device)(Device *device, ls_status (*work)(void *argument), void *argument);
    /* Another stream of the trainer's instead of the one it was opened with; NULL: has none. */
    ls_status (*use_stream)(Device *device, void *stream);
    /* Only a timed one can be asked how long after another it happened; the others cost less. */
    ls_status (*event_create)(Device *device, bool timed, void **event);
    ls_status (*event_record)(Device *device, void *event);
    ls_status (*event_elapsed)(Device *device, void *start, void *end, double *milliseconds);
    void (*event_destroy)(Device *device, void *event);
    /* Copies that overlap with launches: on a stream of their own, from or to memory of the host
     * that the device reaches directly. A NULL stream is the context's. In a capture only copies
     * within the device and events, by which another stream becomes a branch of the graph. */
    ls_status (*pinned_allocate)(Device *device, size_t bytes,
                                 void **pointer); /* 256-byte aligned */
    void (*pinned_release)(Device *device, void *pointer);
    ls_status (*stream_create)(Device *device, void **stream);
    void (*stream_destroy)(Device *device, void *stream);
    ls_status (*stream_copy_in)(Device *device, void *stream, void *to, const void *from,
                                size_t bytes);
    ls_status (*stream_copy_out)(Device *device, void *stream, void *to, const void *from,
                                 size_t bytes);
    ls_status (*copy_within)(Device *device, void *stream, void *to, const void *from,
                             size_t bytes);
    ls_status (*stream_record)(Device *device, void *stream, void *event);
    ls_status (*stream_wait)(Device *device, void *stream, void *event); /* the host does not */
    ls_status (*event_wait)(Device *device, void *event);                /* the host does */
    bool (*event_done)(Device *device, void *event); /* without waiting; false where it failed */
    /* Graphs of the driver's own; NULL where recorded launches are the best there is. Between begin
     * and end what is queued on the stream is recorded, by us and by the program around us.
     * capture_launch gives the node of each launch, NULL where the driver does not tell;
     * capture_end how many nodes there are, 0 likewise. `graph` NULL: thrown away. */
    ls_status (*capture_begin)(Device *device);
    ls_status (*capture_launch)(Device *device, const Launch *launches, size_t count, void **nodes);
    ls_status (*capture_end)(Device *device, void **graph, size_t *node_count);
    /* Sets *looped where the device repeats it by itself. */
    ls_status (*graph_launch)(Device *device, void *graph, uint64_t times, bool *looped);
    /* The same as long as the byte at `stop` is 0, waiting for the end; gives how often. Where the
     * device cannot, *looped is false and nothing has run. */
    ls_status (*graph_until)(Device *device, void *graph, const void *stop, uint64_t most,
                             uint64_t *times, bool *looped);
    /* Gives a kernel's node another launch of the same form. Sets *renew where that cannot be done
     * to what was instantiated: after the last one graph_renew instantiates it again. */
    ls_status (*graph_set)(Device *device, void *graph, void *node, const Launch *launch,
                           bool *renew);
    ls_status (*graph_renew)(Device *device, void *graph);
    void (*graph_destroy)(Device *device, void *graph);
    /* Opens what watches device `index`, without a context on it; see monitor.c. */
    ls_status (*monitor)(const Driver *driver, int index, const char *root, Error *error,
                         Monitor **monitor);
};
extern const Driver driver_cuda, driver_hip; /* driver_gpu.c */
extern const Driver driver_cpu;

/* devices.c: the drivers in the order "auto" tries them. */
extern const Driver *const drivers[];
extern const size_t driver_count;
/* The driver and the number that `text` names; *driver NULL: any, in their order. */
ls_status device_named(const char *call, const char *text, Error *error, const Driver **driver,
                       int *index);
/* Opens what `text` names ("auto", "cpu", "cuda:1", or NULL). */
ls_status device_open(const char *text, void *stream, Error *error, Device **device);
/* Whether the device lacks a capability; the first time a line of log says why and what is done
 * instead: "graphs are captured again". */
bool device_lacks(Device *device, Capability capability, const char *instead);

/* origin.c: the process that made something, told from a child that was forked since. */
typedef struct Origin {
    int *here; /* 0 in a child; NULL: `process` tells */
    size_t bytes;
    int process;
} Origin;
void origin_open(Origin *origin);
bool origin_forked(const Origin *origin);
void origin_renew(Origin *origin); /* the child has made it its own */
void origin_close(Origin *origin);

/* pool.c: the CPU driver's threads. In a forked child, which has none of them, whoever calls does
 * all parts. */
typedef struct Pool Pool;
Pool *pool_create(uint32_t threads); /* counts the caller; NULL: out of memory */
uint32_t pool_threads(const Pool *pool);
/* Each with its `parts` workers, one after the other, and all of that so many times, as long as the
 * byte at `stop` is 0 (NULL: is not looked at); returns when all are done, and how often. */
uint64_t pool_run(Pool *pool, const Launch *launches, size_t count, uint64_t times,
                  const void *stop);
void pool_destroy(Pool *pool);

/* memory_pool.c: the memory pool, pieces of device memory (chunks) cut into ranges. */
typedef struct Chunk Chunk;
typedef struct Range Range;
typedef struct Label Label;
struct Range {
    Chunk *chunk;
    Range *before, *after;  /* its neighbours in the chunk */
    Range *previous, *next; /* of its bin, while it is free */
    char *data;
    uint64_t bytes, asked; /* its length; what its holder asked for */
    Label *label;          /* the holder's; NULL: it is free */
};
enum { POOL_KINDS = 2, POOL_BINS = 64 };
typedef struct MemoryPool {
    Chunk *chunks;
    Range *bins[POOL_KINDS][POOL_BINS]; /* free ranges of 2^b to 2^(b+1) - 1 bytes */
    Range *spare;                       /* structures without a range */
    bool off;                           /* every allocation is the driver's own */
    uint64_t bytes[POOL_KINDS], peak, limit, chunk_count, driver_calls;
} MemoryPool;
/* A range of at least `bytes`. *full: the device or the limit has none, not after a trim either;
 * the message is the caller's to write. */
ls_status memory_pool_take(ls_context *context, const char *call, size_t bytes, Range **range,
                           bool *full);
void memory_pool_give(ls_context *context, Range *range);
/* Gives chunks without a holder back until at most `keep` bytes are left; not in a capture. */
ls_status memory_pool_trim(ls_context *context, uint64_t keep);
void memory_pool_close(ls_context *context); /* all chunks, held or not */
void memory_pool_statistics(const MemoryPool *pool, ls_memory_statistics *statistics);

/* memory.c: device memory, and who holds it. What another stream than the context's does with it is
 * put in order by events: after what was queued before the allocation, and before the free. */
enum { LABEL_BYTES = 96, LABELS_MAX = 4096 };
struct Label {
    Label *next;
    uint64_t in_use, peak, allocations;
    char name[LABEL_BYTES];
};
typedef struct Memory {
    Range **table; /* a hash table on the pointer */
    size_t capacity;
    MemoryPool pool;
    Label *labels; /* the last one used first */
    size_t label_count;
    ls_memory_statistics statistics; /* without the memory pool's part */
} Memory;
ls_status memory_open(Memory *memory); /* reads LOCKSTEP_POOL; its error is the thread's */
/* Labelled with the call. */
ls_status memory_allocate(ls_context *context, const char *call, size_t bytes, void **pointer);
ls_status memory_allocate_for(ls_context *context, const char *call, const char *label,
                              size_t bytes, void **pointer);
void memory_free(ls_context *context, void *pointer); /* NULL and strangers are left alone */
/* Frees what is left; LOCKSTEP_LOG=info lists it. */
void memory_close(ls_context *context);
/* memory_report.c */
/* "1.5 MiB" */
typedef struct SizeText {
    char text[24];
} SizeText;
SizeText memory_size(uint64_t bytes);
void memory_log_holders(const ls_context *context); /* what nobody freed, a line for each label */
ls_status memory_exhausted(ls_context *context, const char *call, const char *label, size_t bytes);

/* profile.c: what was timed, and what traces are written from. */
typedef struct Profile Profile;
typedef ls_image_moved Moved; /* bytes of device memory; 0 and 0: not known */

/* context.c */
typedef struct Built { /* the program of a set of images that were built ahead of time */
    const ls_image *const *images;
    ls_program *program;
} Built;
struct ls_context {
    Device *device;
    const Driver *driver;  /* device->driver */
    ls_graph *capture;     /* between ls_graph_begin and ls_graph_end */
    Profile *profile;      /* since the first ls_profile_begin, or NULL */
    struct MarkPage *mark; /* by which monitors know the process, or NULL; see mark.c */
    size_t mark_bytes;
    int mark_file;
    Built *built;
    size_t built_count;
    ls_comm *comms;            /* its communicators, the latest first */
    bool known_off, known_now; /* LOCKSTEP_LENGTHS */
    Memory memory;
    ls_copy_statistics copies;
    Error error;
};
/* Whether the program around us captures the context's stream into a graph of its own. */
ls_status context_captured(ls_context *context, bool *captured);
/* LS_OK, or the refusal of a call that may not come while a graph is captured, ours or the
 * program's. */
ls_status context_not_capturing(ls_context *context, const char *call);
/* Waits for what is queued before something is given up that it may use: the drivers do not say
 * that they would. Not while a graph is captured, where nobody can wait. */
void context_settle(ls_context *context);
void ahead_close(ls_context *context); /* ahead.c: drops what was built ahead of time */
/* comm/comm.c: the failure of an operation that a graph ran, of any of its communicators. */
ls_status comm_failure(ls_context *context);
/* Before a capture begins and before it ends, and before a graph with exchanges runs: the stream
 * waits for what its communicators have begun on streams of their own. `captured`: in a graph. */
ls_status comm_join(ls_context *context, bool captured);
ls_context *comm_context(const ls_comm *comm);

struct ls_event {
    ls_context *context;
    void *handle;
    bool recorded;
};

/* program.c */
enum { KNOWN_MAX = 4 };
typedef struct Known { /* code of a variant for rows of known lengths */
    int64_t *lengths;  /* by axis; 0: of any */
    Kernel *kernels;
    void *module;
} Known;
typedef struct Variant { /* what is loaded of an image's variant; the program's steps share it */
    bool loaded, from_cache;
    double compile_ms;
    void *module;
    void *unpacked; /* its code, where the image has it packed: drivers need not copy it */
    Kernel *kernels;
    Known known[KNOWN_MAX];
    uint32_t known_count;
    bool known_asked; /* the cache was */
} Variant;
/* Makes the image of a program's step, with sums for some of its parameters; when it fails *message
 * says why. */
typedef ls_status (*ImageMaker)(void *maker, size_t index, const ls_sum *sums, size_t sum_count,
                                const char *target, const char *device, const ls_image **image,
                                const char **message);
/* The same of the stages of the step on parts of its arrays: ls_compilation_image_sharded. */
typedef ls_status (*ShardedMaker)(void *maker, size_t index, const ls_sum *sums, size_t sum_count,
                                  const char *parameter, const char *axis, bool within,
                                  const char *target, const char *device,
                                  const ls_sharded **sharded, const char **message);
/* Makes the code of several variants at the same time, for `make` to find it. */
typedef void (*CodesMaker)(void *maker, const ls_image *const *images, const uint32_t *variants,
                           size_t count);
/* ls_compilation_known, which names what the others are. */
typedef ls_status (*KnownMaker)(void *maker, const ls_image *image, size_t variant,
                                int64_t *lengths, ls_known_when when, const void **code,
                                size_t *size, int *from_cache);
typedef struct Summed { /* an image with sums, and its variants */
    const ls_image *image;
    Variant *variants;
} Summed;
struct ls_program {
    ls_context *context;
    uint32_t references; /* the caller's and one per step */
    Variant **variants;  /* per step, once one was created: an array over the image's variants */
    const ls_image **images; /* one per step: the best for the device, NULL where none suits */
    const char **names;
    char **targets; /* what there was, for messages: "sm_80, sm_90" */
    Summed *summed;
    size_t summed_count, summed_capacity;
    size_t count;
    size_t own_count;      /* the first: those of the file itself, not of what it imports */
    ImageMaker make_image; /* NULL: all images are there */
    ShardedMaker make_sharded;
    ls_code_maker make;
    CodesMaker make_all;   /* NULL: they are made one by one */
    KnownMaker make_known; /* NULL: there is the general code alone */
    void *maker;
    void (*release)(void *maker);
};
/* For program_compile.c, which is part of the other library and sees nothing but ls_ names: a
 * program of `count` steps, the first `own_count` of the file itself, whose images are made when a
 * step is first created (as in ls_program_from_images, `maker` stays the caller's when this fails),
 * and a failure of `call` (NULL: the message names it) put down as the context's or, without one,
 * the thread's. */
ls_status ls_inner_program(ls_context *context, const char *call, const char *const *names,
                           size_t count, size_t own_count, ImageMaker make_image,
                           ShardedMaker make_sharded, ls_code_maker make, CodesMaker make_all,
                           KnownMaker make_known, void *maker, void (*release)(void *maker),
                           ls_program **program);
ls_status ls_inner_error(ls_context *context, ls_status status, const char *call,
                         const char *message);
/* The variants of step `index`, allocated on first use; NULL: out of memory. */
Variant *program_variants(ls_program *program, size_t index);
/* The same of an image that is none of the steps' own. */
Variant *program_summed_variants(ls_program *program, const ls_image *image);
void program_release(ls_program *program); /* drops one reference */

/* The tensors of a list parameter: as bound, or as the step allocated them. */
typedef struct List {
    size_t count, capacity;
    void **pointers;  /* one per tensor */
    int64_t *lengths; /* of the parameter's axes but the list's, in order, tensor by tensor */
    /* One array that all tensors lie in, one behind the other: cut when lengths are known. */
    bool flat;
    char *data;
    int64_t elements; /* in all */
} List;
typedef struct Binding {
    void *data;     /* what the kernels get; of a list nothing: see Words */
    bool bound;     /* the caller gave it */
    bool has_value; /* a device scalar that was set or has a default, an array over a list that is
                       filled */
    bool dense;     /* fits LS_LAYOUT_DENSE */
    bool wanted;    /* an out that was asked for */
    bool fill_due;  /* `fill` is not in `owned` yet */
    uint64_t fill;  /* the bits of every element, low bytes first */
    void *owned;    /* the step's own memory for it, or NULL */
    uint64_t owned_bytes;
    int64_t filled_count;     /* how many elements of `owned` are filled */
    int64_t *shape, *strides; /* rank of each; of a list unused */
    int list_axis;            /* the axis that counts its tensors; -1: it is no list */
    List list;
} Binding;
typedef struct Temporaries { /* all in one allocation */
    void *data;
    uint64_t held;             /* its bytes */
    uint64_t bytes;            /* those that the variant in use needs */
    uint64_t *sizes, *offsets; /* of each */
    bool captured;             /* a graph's launches go by these offsets */
} Temporaries;
/* 8-byte words that kernels reach through pointers, with the host's copy. */
typedef struct Words {
    uint64_t *host;
    size_t count, capacity;
    void *device;
    uint64_t device_bytes;
    bool current;  /* the device has what the host has */
    bool captured; /* a graph's launches read the device's */
} Words;
typedef struct Table { /* of an image's table: where its entries begin in the words, how many */
    size_t at;
    uint64_t count;
} Table;
typedef struct Lengths { /* of a ragged axis: one per tensor */
    int64_t *of;
    size_t capacity;
    size_t at; /* where they begin in the words */
} Lengths;
/* Memory that has been replaced, and how many graphs of before still use it. */
typedef struct Retired {
    void *pointer;
    uint64_t number; /* of the retirement */
    uint32_t users;
} Retired;
/* A parameter of the step's source that is several of the image's. */
typedef struct StepSum {
    char *parameter;
    uint32_t count;
    ls_type type;
    size_t source, first; /* its number in the source; that of the first in the image */
} StepSum;
/* Whether code for the lengths of a step's rows is to come. */
typedef enum KnownState {
    KNOWN_COUNTED, /* its launches are counted */
    KNOWN_AWAITED, /* it is being made */
    KNOWN_SETTLED  /* what there will be is there */
} KnownState;
typedef struct Partition Partition;
struct ls_step {
    ls_step *owner;  /* of a part of a step with `for`: that step */
    ls_step **parts; /* of one with `for` */
    ls_program *program;
    ls_context *context;
    const ls_image *image;
    uint32_t references; /* the caller's, and one for each graph and feed */
    uint32_t graphs;     /* that launch it */
    bool pinned;         /* a graph of the program's own launches it too, who knows how long */
    bool ready;          /* launches are filled for the bindings as they are */
    bool sized;          /* sizes and lengths are those of the bindings */
    bool tabled;         /* tables are those of the lengths and of `tabled_variant` */
    bool planned;        /* temporaries and launches too: only pointers may differ */
    uint32_t tabled_variant, planned_variant;
    uint32_t chosen;               /* the variant in use */
    const ls_image_tuning *tuning; /* how it is launched; NULL: as its kernels say */
    ls_image_tuning trial;         /* instead of those of the image, */
    bool tried;                    /* if there is one */
    bool one_block;                /* its cooperative kernels run in one block each */
    bool together;                 /* it has launches whose blocks wait for each other */
    uint32_t launch_count;
    Launch *launches; /* of a step with `for`: those of all iterations, */
    size_t launch_capacity, word_capacity, moved_capacity;
    uint32_t *part_of; /* and for each the part that it is of */
    size_t part_capacity;
    Binding *bindings;
    Variant *variants; /* the program's */
    uint64_t *arguments;
    char *range;               /* "adamw.step:12 adamw", where ranges go to a profiler; else NULL */
    Moved *moved;              /* by the kernels of the variant in use; see `counted` */
    ls_copy_statistics copies; /* of its tables, its values and what it gives */
    bool counted;              /* `moved` is of the sizes and the variant in use */
    int64_t shard[2];          /* the first tensor and the first element of its draws */
    int64_t *sizes;            /* of the axes; of a ragged one see lengths */
    int64_t *given;            /* of the axes: by ls_step_set_length, or -1 */
    const ls_image_strips *strips; /* of a part whose image has variants of strips; and how long */
    int64_t strip;                 /* those are that the launches are planned for */
    Lengths *lengths;              /* of the axes */
    int64_t *numbers;              /* where the bindings' shapes and strides lie */
    char *scalars;                 /* device memory of the rank-0 parameters, SCALAR_BYTES each */
    ls_step *source;               /* of an instance: whose values it reads */
    uint32_t instances;            /* of it */
    StepSum *sums;
    size_t sum_count;
    Partition *partition; /* ls_step_partition; NULL: it runs on what is bound */
    ls_step *partitioned; /* of a stage of one that is: that step */
    Temporaries temporaries;
    Table *tables;
    Words entries;    /* lengths and tables: made when sizes change */
    Words pointers;   /* of lists and of the temporaries over lists */
    Retired *retired; /* memory that graphs still use */
    size_t retired_count;
    uint64_t retirements; /* so far */
    KnownState known;
    uint64_t known_mark, known_launches; /* of which lengths, and how many so far */
};
enum { SCALAR_BYTES = 16 };

/* step.c: life, values and launch. */
void step_release(ls_step *step); /* drops one reference */
/* A step of the image, with nothing bound. */
ls_status step_create(ls_program *program, const ls_image *image, Variant *variants,
                      const char *call, ls_step **step);
bool step_allocate_host(ls_step *step); /* what the image says the counts of; false: no memory */
bool step_is_device_scalar(const ls_step *step, size_t parameter);
/* Whether a parameter that is not bound has a value: an instance's on any of the handles. */
bool step_has_value(const ls_step *step, size_t parameter);
bool step_is_list(const ls_step *step, size_t parameter);
/* An array that nobody bound or asked for, and that kernels can do without. */
bool step_leaves_out(const ls_step *step, size_t parameter);
/* step_name.c: whether a name may have been meant, and rather than the last one of which this was
 * true: *best, SIZE_MAX at first, is how far that is off. */
bool name_is_nearer(const char *name, const char *candidate, size_t *best);
/* step_name.c: the parameter's number, or -1 with an error that names the nearest. */
int step_find(const ls_step *step, const char *call, const char *name);
/* The same for a call that takes a step and a parameter's name, which may not come in a capture. */
ls_status step_parameter(ls_step *step, const char *call, const char *name, size_t *number);
/* "f32[n, k]": a parameter's declaration, as the source has it. */
void step_declaration(const ls_step *step, size_t parameter, char *text, size_t size);
/* "a" or "an", as the noun sounds. */
const char *step_article(const char *noun);
/* The step's own device scalar of a rank-0 parameter: of an instance the source's, where it only
 * reads it. */
void *step_scalar(const ls_step *step, size_t parameter);
/* step_bind.c: an out is asked for; what is not one does not mind. */
void step_want(ls_step *step, size_t parameter);
/* step_list.c: room for `count` tensors; what there was stays on failure. */
ls_status list_grow(ls_step *step, const char *call, size_t parameter, size_t count);
void list_free(List *list);
/* Binds one array for all tensors of a list. */
ls_status list_bind_flat(ls_step *step, size_t parameter, const ls_tensor *tensor);
/* Cuts it where the lengths of the others say, or (`whole`) makes it the only tensor. */
ls_status list_cut(ls_step *step, const char *call, size_t parameter, bool whole);

/* step_sizes.c: how long every axis is, and what follows from it. */
bool axis_is_blocks(const ls_image *image, size_t axis); /* q of `n as (q, k)` */
bool axis_is_rest(const ls_image *image, size_t axis);   /* k */
int axis_list(const ls_image *image, size_t axis);       /* that counts its tensors, or -1 */
bool axis_counts_tensors(const ls_image *image, size_t axis);
bool axis_is_ragged(const ls_image *image, size_t axis); /* has a length per tensor */
/* Takes the lengths from the arrays bound; they must agree. */
ls_status step_find_sizes(ls_step *step, const char *call);
int64_t step_length(const ls_step *step, size_t axis, size_t tensor);
/* The value of an extent for one tensor of its list, and of the whole; false: it overflows. */
bool extent_part(const ls_step *step, const ls_image_extent *extent, size_t tensor,
                 uint64_t *value);
bool extent_value(const ls_step *step, const ls_image_extent *extent, uint64_t *value);
/* The most that one of the tensors has. */
bool extent_largest(const ls_step *step, const ls_image_extent *extent, uint64_t *value);

/* step_overlap.c: memory that is written may not be any other parameter's. */
ls_status step_check_overlap(ls_step *step, const char *call);

/* step_memory.c: the device memory a step owns. */
/* Gives up memory that a captured graph may still use. */
ls_status step_retire(ls_step *step, void *pointer);
/* A graph uses nothing more that was given up from retirement `since` on; what no graph uses is
 * freed. */
void step_drop_retired(ls_step *step, uint64_t since);
/* A graph has launches that go by the words and temporaries as they are: they stay so. */
void step_set_captured(ls_step *step);
/* At least `bytes`; a larger one is empty. Its holder is called "step adamw: KIND NAME". */
typedef struct Owned {
    const char *kind, *name;
    void **pointer;
    uint64_t *held;
} Owned;
ls_status step_ensure(ls_step *step, const char *call, Owned owned, uint64_t bytes);
ls_status step_too_large(const ls_step *step, const char *call, const char *what);
ls_status step_allocate_outputs(ls_step *step, const char *call); /* and filled arrays */
ls_status step_fill(ls_step *step, const char *call, size_t parameter);
/* step_temporaries.c: what kernels hand on to each other, in one allocation. */
ls_status step_allocate_temporaries(ls_step *step, const char *call);
/* The bytes of all of them at the step's sizes, for as many blocks as now; false: too many. */
bool step_count_temporaries(ls_step *step, uint64_t *bytes);
void *step_temporary(const ls_step *step, uint32_t number);
/* step_fit.c: adds to the message that memory ran out the largest batch that would have fitted. */
void step_say_fitting(ls_step *step);
/* step_words.c: lengths, tables and pointers on the device, for the variant chosen. */
ls_status step_upload(ls_step *step, const char *call);
uint64_t words_address(const Words *words, size_t at); /* of a word on the device */
/* step_prepare.c: from bindings to launches. */
uint64_t step_work(const ls_step *step, const ls_image_variant *variant); /* for its sizes */
/* What tunings go by: not of one strip. */
uint64_t step_tuned_work(ls_step *step, const ls_image_variant *variant);
uint64_t step_value(const void *step, const ls_image_extent *extent,
                    uint32_t largest); /* likewise */
ls_status step_prepare(ls_step *step, const char *call);
/* The same for a part, whose arrays and sizes are there. */
ls_status step_prepare_part(ls_step *part, const char *call);
/* Whether nothing is to be prepared. A device may turn out to lack what was counted on. */
bool step_is_ready(const ls_step *step);

/* step_known.c: code in which the lengths of rows are constants. */
ls_status known_open(ls_context *context); /* reads LOCKSTEP_LENGTHS */
void known_free(ls_program *program, Variant *variant);
/* For a step whose launches are filled: takes the code that is there. */
void step_find_known(ls_step *step);
/* After launches outside a capture, of a step that is not KNOWN_SETTLED: has code made, or takes
 * what was made. Gives whether launches changed. */
bool step_count_launches(ls_step *step, uint64_t times);
/* Likewise for a graph that is not `settled`; its recording takes the code as well. */
void graph_count_replays(ls_graph *graph, uint64_t times);

/* step_parts.c: the parts of a step with `for`, and their launches in all iterations. */
ls_status parts_create(ls_step *step, const char *call, Variant *variants);
void parts_release(ls_step *step);
/* Of a part whose image has variants of strips: its sizes become those that the variant is for;
 * NULL: those of the step. */
void parts_size_for(ls_step *part, const ls_image_variant *variant);
/* How many times a launch of the part's variant in use does what the image says of it. */
uint64_t parts_iterations(const ls_step *part);
/* Of a part whose variant in use iterates: the argument words about that, which come last. */
size_t parts_iteration_words(const ls_step *part);
/* From the step's bindings, sizes and temporaries to its launches; `planned`: only pointers differ
 * from before. */
ls_status parts_prepare(ls_step *step, const char *call, bool planned);

/* step_partition.c: a step on this rank's part of its arrays. */
typedef struct Exchange { /* an array for all ranks, tensor by tensor */
    char *data;
    uint64_t *offsets; /* of each tensor, in bytes; and the end */
    uint64_t rows;    /* of a step without a list: of the axes beside the tiles; 0: not yet known */
    int64_t *lengths; /* these, by axis of the step */
} Exchange;

struct Partition {
    ls_comm *comm;
    const ls_sharded *how;
    size_t tensors; /* of the whole */
    int64_t *elements, *shapes;
    uint32_t *ranks;
    size_t *piece_of; /* by tensor: 1 + which piece of this rank's it is, or 0 */
    ls_partition_piece *pieces;
    size_t piece_count;
    int size; /* ranks; their pieces: */
    ls_partition_piece **all;
    size_t *all_counts;
    ls_step **stages;
    Exchange *exchanges;
    ls_comm_part **gathers; /* by stage: of each rank */
    void **places;          /* by axis: i64 of each tensor, LS_SHARD_LENGTH, then LS_SHARD_BEGIN */
    bool preparing;
};
void partition_free(ls_step *step);
uint64_t partition_tiles(uint32_t tile, int64_t elements); /* values of an exchange */
/* What the ranks' array of an exchange has of a piece, in a row of it. */
ls_comm_piece partition_piece(const Partition *p, uint32_t exchange,
                              const ls_partition_piece *piece, uint64_t line);
/* Makes `gathers` of the exchanges as they lie. */
ls_status partition_make_parts(const ls_step *step, Partition *p);
size_t partition_place(const ls_step *step, const ls_shard_argument *argument); /* in `places` */
/* step_stages.c */
/* Binds its stages to what is bound to the step, and prepares them. */
ls_status partition_prepare(ls_step *step, const char *call);
/* Whether the step that it is a stage of has been bound anew since. */
bool partition_is_due(const ls_step *stage);
ls_status partition_launch(ls_step *step);
ls_status partition_statistics(ls_step *step, ls_step_statistics *statistics);

/* layout.c: what strides mean. */
typedef struct Layout { /* an array in memory, strides in elements */
    const char *data;
    uint64_t element;
    uint32_t rank;
    const int64_t *shape, *strides;
} Layout;
bool layout_empty(const Layout *layout);
bool layout_in_range(const Layout *layout); /* no count or offset overflows 63 bits */
void layout_contiguous(uint32_t rank, const int64_t *shape, int64_t *strides);
bool layout_is_contiguous(const Layout *layout);
bool layout_dense(const Layout *layout); /* contiguous, on a 16-byte boundary */
/* All its bytes lie in [*first, *end); not for an empty one. */
void layout_range(const Layout *layout, uintptr_t *first, uintptr_t *end);
bool layout_distinct(
    const Layout *layout); /* no two elements share a byte, as far as can be told */
bool layout_disjoint(const Layout *a, const Layout *b); /* likewise for two arrays */

/* copy.c: a run of bytes, counted with the context and the step that it is for, timed where a
 * profile is taken. A NULL stream is the context's; on another only from or to the host. */
typedef enum CopyWay { COPY_IN, COPY_OUT, COPY_WITHIN } CopyWay;
typedef struct CopyRun {
    CopyWay way;
    void *to;
    const void *from;
    size_t bytes;
    void *stream;
    ls_step *step; /* NULL: none */
} CopyRun;
ls_status copy_bytes(ls_context *context, const CopyRun *run);
/* So many times more. */
void copy_add(ls_copy_statistics *counts, const ls_copy_statistics *more, uint64_t times);

/* traffic.c: what the step's kernel moves by the plan, for what is bound. */
const Moved *step_moved(ls_step *step);

/* profile.c */
typedef enum ProfileKind { PROFILE_STEP, PROFILE_GRAPH, PROFILE_COPY, PROFILE_HOST } ProfileKind;
typedef struct ProfileSpan { /* what is being timed; `profile` NULL: nothing is */
    Profile *profile;
    void *stream;
    double host_us;
    size_t start; /* in profile->marks */
} ProfileSpan;
/* Launches a step, timed where a profile is being taken. */
ls_status profile_launch(ls_step *step);
/* Around what is no launch of a step; a NULL stream is the context's. */
ProfileSpan profile_open(ls_context *context, void *stream);
void profile_close(ls_context *context, ProfileSpan span, const char *name, ProfileKind kind,
                   Moved moved);
/* Whether a replay is to be timed launch by launch, and does it. */
bool profile_wants_replay(ls_context *context, const ls_graph *graph);
ls_status profile_replay(const ls_graph *graph, uint64_t times);
void profile_name_graph(const ls_graph *graph, uint64_t times, char *name, size_t size);
/* A label's memory has changed. */
void profile_memory(ls_context *context, const Label *label);
void profile_free(ls_context *context);

/* What trace.c reads. */
typedef struct ProfileRow {
    char *step, *kernel, *file;
    ProfileKind kind;
    uint32_t line;
    uint64_t count;
    double min, max, total;
    float *samples; /* a ring of the latest */
    size_t sample_capacity;
    Moved moved;
} ProfileRow;
typedef struct ProfileEvent { /* in microseconds since the profile began */
    double at, duration;
    Moved moved;
    uint32_t row;
    bool host; /* a call, else work of the device */
} ProfileEvent;
typedef struct ProfileMemory { /* what the holders of a label have */
    double at;
    uint64_t bytes;
    uint32_t label; /* in profile->labels */
} ProfileMemory;
struct Profile {
    bool active;
    ls_status failed; /* why something was not timed, and what */
    char *failure;
    ProfileRow *rows;
    size_t row_count, row_capacity;
    ProfileEvent *events; /* a ring once it is full */
    size_t event_count, event_capacity;
    uint64_t event_total;
    ProfileMemory *memory; /* the first so many changes */
    size_t memory_count, memory_capacity;
    char **labels; /* the first is of all memory */
    size_t label_count, label_capacity;
    double began_us; /* of the host's clock */
    /* Drivers' events: of those in `marks` the first `used` are recorded and in use by `pending`.
     */
    void **marks;
    size_t mark_count, mark_capacity, used;
    struct Pending *pending;
    size_t pending_count, pending_capacity;
    void *origin;     /* an event to which times are relative, */
    double origin_us; /* and when it was */
};
/* file_beside.c */
enum { FILE_BESIDE = 48 };
/* A file of that name and a number that no other has; `name` has room for FILE_BESIDE bytes more
 * than the path. Gives its descriptor; -1: errno says why. */
int file_create_beside(const char *path, char *name);
/* Brings a rename to the disk, where the file system can. */
void file_sync_folder(const char *path);

/* trace.c: NULL or the reason that there is no file. */
ls_status trace_write(ls_context *context, const char *path);
typedef struct TraceProcess {
    long number;
    const char *name, *label; /* label NULL: none */
    double shift_us;          /* is added to all times */
    bool first, last;         /* in the file */
} TraceProcess;
/* The text of a profile that has ended. */
void trace_put(FILE *file, const ls_context *context, const TraceProcess *process);

/* host.c: ls_host_call under another name than "host", which stays the caller's. */
ls_status host_call(ls_context *context, const char *name, const ls_host_work *work);

/* ranges.c: named ranges on the host for a profiler. NULL: none is attached, none asked for. */
typedef struct Ranges {
    const char *library;
    int (*push)(const char *name);
    int (*pop)(void);
} Ranges;
const Ranges *ranges_find(void);
char *ranges_name(const ls_image *image); /* malloc'd; NULL: no ranges, or no memory */

/* mark.c: a mapping by whose name monitors find the processes of Lockstep, and what it tells them:
 * what the holders of each label have. A reader takes it when `changes` is even, and the same
 * behind. */
enum { MARK_VERSION = 2, MARK_NAME = 56, MARK_LABELS = 63 };
typedef struct MarkPage {
    uint32_t version;
    _Atomic uint32_t changes;
    int64_t
        owner; /* the process that made it, as it knows itself: those it forks inherit the page */
    struct {
        char name[MARK_NAME];
        uint64_t bytes; /* 0: the row is free */
    } labels[MARK_LABELS];
} MarkPage;
void mark_open(ls_context *context);
void mark_memory(ls_context *context, const Label *label); /* its memory has changed */
void mark_close(ls_context *context);

/* monitor.c: a driver's way to watch one device. */
typedef struct MonitorSource {
    /* Readings that cannot be had stay as they are: not known. */
    void (*sample)(Monitor *monitor, ls_sample *sample);
    /* Appends with monitor_add_process. */
    ls_status (*processes)(Monitor *monitor);
    void (*close)(Monitor *monitor);
} MonitorSource;
struct Monitor { /* the head of each source's own */
    const MonitorSource *source;
    char device[16]; /* "cuda:0" */
    char root[64];   /* "" or, in tests, a folder with proc/ and sys/ in it */
    ls_process *processes;
    size_t process_count, process_capacity;
};
struct ls_monitor {
    Monitor *source;
};
/* Takes the value where it can be believed. */
void monitor_take(ls_sample *sample, ls_reading reading, double value);
/* Whether the process has a context on a device of that kind ("cuda"), as far as can be seen. */
bool monitor_is_marked(const Monitor *monitor, int64_t pid, const char *kind);
ls_status monitor_add_process(Monitor *monitor, int64_t pid, bool memory_known, uint64_t memory);
/* ls_monitor_create with another root of /proc and /sys; for tests. */
ls_status monitor_create(const char *device, const char *root, ls_monitor **monitor);
/* A line of a file under the root, without its end; false: there is none. */
bool monitor_read(const Monitor *monitor, char *text, size_t size, const char *format, ...)
    PRINTF_LIKE(4, 5);
ls_status monitor_open_cpu(const Driver *driver, int index, const char *root, Error *error,
                           Monitor **monitor);
ls_status monitor_open_gpu(const Driver *driver, int index, const char *root, Error *error,
                           Monitor **monitor);

/* recording.c: launches in the order they came, with copies of their arguments. */
typedef struct Recorded { /* one launch of a step, or host work */
    ls_step *step;        /* NULL: host work */
    size_t first, count;  /* its launches */
    uint64_t *arguments;  /* the copy they all point at */
} Recorded;
typedef struct Recording {
    Launch *launches;
    Moved *moved; /* by each launch; of copies and host work 0 */
    void **nodes; /* of each launch in the driver's graph; NULL: unknown */
    size_t launch_count, launch_capacity;
    Recorded *entries;
    size_t entry_count, entry_capacity;
} Recording;
bool recording_add(Recording *recording, ls_step *step, const Launch *launches, size_t count);
/* Whether it is no kernel: a graph's update leaves it as it is. */
bool launch_is_fixed(const Launch *launch);
void recording_free(Recording *recording);
bool launch_equal(const Launch *a, const Launch *b);

/* dataset.c */
typedef struct DataArray {
    char *name;
    ls_type type;
    uint32_t rank;
    int64_t shape[LS_RANK_MAX];
    size_t row_bytes, bytes;
    const char *host;        /* where it lies; NULL: on the device only */
    char *device;            /* what steps read; NULL: it is not resident */
    bool owned;              /* `device` is ours */
    struct ls_file *file;    /* which closing it closes */
    bool mapped, swapped;    /* `host` lies in the map of a file; big-endian */
    void *decoded;           /* `host`, where it was made from text */
    size_t begin;            /* of a part: its first byte in the whole */
    uint64_t keys;           /* a hash of the samples' names; 0: they have none */
    struct DataArray *parts; /* in many files: of each its type, host, bytes and the like */
    size_t part_count, part_capacity;
} DataArray;
struct ls_dataset {
    ls_context *context;
    DataArray *arrays;
    size_t count;
    int64_t samples;
    bool resident;
};
/* Copies whole elements of an array from where it lies, to be as the device has them. */
void dataset_read(const DataArray *array, void *to, size_t at, size_t bytes);
/* Whether it is read from a file that is mapped, by steps or batch by batch. */
bool dataset_in_place(const DataArray *array);
/* Says that this row of a file is read soon. */
void dataset_announce(const DataArray *array, int64_t row);
/* dataset_file.c: the array that `path`, or of several in it `name`, names becomes one of the
 * host's, mapped, or made from text. */
ls_status dataset_map(ls_dataset *dataset, DataArray *array, const char *path, const char *name,
                      ls_tensor *tensor);
/* What a file that is open, with its header read, has under `name` (NULL: its only array), where
 * its first byte lies at `map`. As one sample: the array has no axis that counts them. */
ls_status dataset_take(ls_dataset *dataset, DataArray *array, const struct ls_file *file,
                       const char *name, const char *map, bool sample, ls_tensor *tensor);
/* The file's own path in one such as "x.safetensors:NAME", malloc'd, and the name or NULL. */
char *dataset_path(const char *path, const char **name);
/* dataset_parts.c: whether a path is a pattern that names files, or an archive; the arrays of all
 * of them become one, on the host; and what `use` does with each part of the bytes from `from` to
 * `to`. */
bool dataset_has_parts(const char *path);
ls_status dataset_map_parts(ls_dataset *dataset, DataArray *array, const char *path,
                            ls_tensor *tensor);
typedef void DataPartUse(const DataArray *part, size_t at, size_t bytes, void *argument);
void dataset_each_part(const DataArray *array, size_t from, size_t to, DataPartUse *use,
                       void *argument);
/* How it is read next: from its beginning to its end, or here and there. */
void dataset_read_along(const DataArray *array, bool along);
/* The bytes before `at` are not read again soon. */
void dataset_forget(const DataArray *array, size_t from, size_t to);
/* What a step reads may not be written by it. */
ls_status dataset_check_role(const ls_dataset *dataset, const ls_step *step, const char *call,
                             size_t parameter);

/* graph.c */
struct ls_graph {
    ls_context *context;
    void *handle;        /* the driver's own graph; NULL: the recording is the graph */
    bool native;         /* it is, or is being captured as, the driver's own */
    bool broken;         /* an update failed half way */
    bool settled;        /* no code for known lengths is to come */
    bool exchanges;      /* it holds operations of a communicator */
    Recording recording; /* of the driver's graph too, for updates */
    struct Kept {        /* each once; the graph holds a reference */
        ls_step *step;
        uint64_t since; /* retirements of the step that came before the recording or its update */
    } * steps;
    size_t step_count, step_capacity;
    uint32_t launches;         /* of steps, */
    ls_copy_statistics copies; /* in each replay */
    ls_graph_statistics statistics;
};
/* Keeps a step as long as the graph is there; false: no memory. */
bool graph_keep(ls_graph *graph, ls_step *step);
/* A launch inside the capture; of a step the graph keeps the step. */
ls_status graph_record(ls_graph *graph, const char *call, ls_step *step, const Launch *launches,
                       size_t count);

#endif
