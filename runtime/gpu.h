/* gpu.h: what gpu_library.c (finding a vendor's library and devices) and driver_gpu.c (using one
 * device) share. CUDA and HIP are one driver: gpu.def pairs their calls, a Vendor row holds the
 * rest. */
#ifndef GPU_H
#define GPU_H

/* Every call of gpu.def; those a vendor lacks are NULL and nobody uses them. */
typedef struct GpuCalls {
#define BOTH(result, verb, cuda, hip, parameters, arguments) result(*verb) parameters;
#define CUDA(result, verb, cuda, parameters, arguments) result(*verb) parameters;
#define HIP(result, verb, hip, parameters, arguments) result(*verb) parameters;
#include "gpu.def"
} GpuCalls;

typedef enum GpuVerb {
#define BOTH(result, verb, ...) VERB_##verb,
#define CUDA(result, verb, ...) VERB_##verb,
#define HIP(result, verb, ...) VERB_##verb,
#include "gpu.def"
    VERB_COUNT
} GpuVerb;

/* What is current on a thread. */
typedef union GpuCurrent {
    void *context; /* CUDA */
    int device;    /* HIP */
} GpuCurrent;

/* How a device is held: what is current while we use it. */
typedef struct GpuHold {
    GpuCurrent own;
    bool retained; /* CUDA: the primary context, which we give back */
    int elsewhere; /* the device of a stream that is not this device's; -1: it is */
} GpuHold;

/* The same numbers for both vendors. */
enum {
    GPU_INVALID_VALUE = 1,
    GPU_OUT_OF_MEMORY = 2,
    GPU_NO_DEVICE = 100,
    GPU_INVALID_DEVICE = 101, /* what hipInit says without a device */
    GPU_NON_BLOCKING = 1,     /* a stream that does not wait for the legacy default stream */
    GPU_CAPTURE_RELAXED = 2,  /* the trainer's libraries may allocate while we capture */
    GPU_NOT_CAPTURING = 0,    /* of a stream */
    GPU_UNTIMED = 2,          /* an event without a time */
    GPU_TOO_LARGE_TOGETHER = 720,
    GPU_NOT_PERMITTED = 800,
    GPU_NOT_SUPPORTED = 801,
    GPU_CAPTURE_UNSUPPORTED = 900,
};

/* Constants of one vendor. */
enum {
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
    CUDA_ATTRIBUTE_COOPERATIVE = 95,
    CUDA_ATTRIBUTE_INTEGRATED = 18,
    CUDA_ATTRIBUTE_PAGEABLE = 88,
    CUDA_OLDEST_TARGET = 60, /* atomics and barriers that the templates use */
    HIP_ATTRIBUTE_MULTIPROCESSORS = 63,
    HIP_ATTRIBUTE_COOPERATIVE = 10,
    HIP_ATTRIBUTE_INTEGRATED = 16,
    HIP_ATTRIBUTE_PAGEABLE = 65,
    /* hipDeviceProp_t: its size, and where gcnArchName lies in it, up to HIP 5 and from HIP 6 on
     * (whose library keeps the old layout under the old name). */
    HIP_PROPERTIES_BYTES = 4096,
    HIP_ARCHITECTURE_AT = 396,
    HIP_6_ARCHITECTURE_AT = 1160,
};

/* The parameters of a kernel's node, as each vendor lays them out. */
typedef union GpuNode {
    struct {
        void *function;
        unsigned grid[3], block[3], shared_bytes;
        void **parameters, **extra;
    } cuda;
    struct {
        unsigned block[3];
        void **extra, *function;
        unsigned grid[3];
        void **parameters;
        unsigned shared_bytes;
    } hip;
} GpuNode;

/* A copy of rows, as CUDA lays it out. */
typedef struct GpuRows {
    size_t from_x, from_y;
    int from_kind;
    const void *from_host, *from, *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    int to_kind;
    void *to_host, *to, *to_array;
    size_t to_pitch, width, height;
} GpuRows;
enum { CUDA_MEMORY_DEVICE = 2, HIP_COPY_WITHIN = 3 };

/* A while node's parameters, as CUDA lays them out: `bodies` is given. */
typedef struct GpuWhile {
    int type, reserved[3];
    unsigned long long handle;
    int kind;
    unsigned size;
    void **bodies, *context;
    long long padding[26];
} GpuWhile;
enum { CUDA_NODE_CONDITIONAL = 13, CUDA_CONDITION_WHILE = 1, CUDA_CONDITION_ASSIGN = 1 };

/* What a device and its driver need for a capability, besides the calls of needs[]. */
typedef struct GpuNeed {
    int attribute;     /* of the device; 0: none */
    int version;       /* of the driver; 0: any */
    const char *older; /* what it means when the driver is older */
} GpuNeed;

/* Where a device is, as its driver says; a library's device is known by that, never by number. */
typedef struct GpuLocation {
    bool has_bus, has_uuid;
    unsigned domain, bus, device, function;
    unsigned char uuid[16];
} GpuLocation;

typedef struct Vendor {
    const char *title;          /* "CUDA" */
    Variable variable;          /* VARIABLE_LOCKSTEP_CUDA: a library to load instead */
    const char *libraries[5];   /* tried in order */
    const char *device_file;    /* must exist, or NULL */
    const char *no_device_file; /* what it means when it does not */
    const char *no_library;     /* what to do when there is none of the libraries */
    const char *no_device;      /* what to do when the driver finds no device */
    int oldest_version;         /* as driver_version gives it */
    const char *oldest;         /* "CUDA 11.4 (NVIDIA driver 470)" */
    int multiprocessor_attribute;
    int integrated_attribute; /* its memory is the host's */
    int pageable_attribute;   /* kernels read what the host has allocated */
    GpuNeed needs[CAPABILITY_COUNT];
    const char *const *names; /* of the calls, by GpuVerb; NULL: not this vendor's */
    const char *(*error_name)(const GpuCalls *calls, int error);
    /* "sm_90": what code for the device is called. Gives the failed call's error, or 0. */
    int (*target)(const GpuCalls *calls, int device, char *text, size_t size, GpuVerb *verb);
    int (*suits)(const char *own, const char *target);
    /* `parameters` stays the caller's and is pointed at. */
    GpuNode (*node)(const Launch *launch, void **parameters);
    /* Queues rows of one pitch each: one call. */
    int (*copy_rows)(const GpuCalls *calls, const Copy *copy, void *stream, GpuVerb *verb);
    /* What is wrong with a device of that target, or NULL. */
    const char *(*too_old)(const char *target);
    const char *repeat_code; /* of the kernels ls_repeat and ls_until; NULL: none */
    /* Takes hold of the device, for a stream of the trainer's or NULL, and says what current must
     * be to use it; and lets go. */
    int (*attach)(const GpuCalls *calls, int device, void *stream, GpuHold *hold, GpuVerb *verb);
    /* Whether a stream of the trainer's is of the device, and of the context that is current. */
    int (*of_stream)(const GpuCalls *calls, GpuCurrent own, void *stream, bool *ours,
                     GpuVerb *verb);
    void (*detach)(const GpuCalls *calls, int device, const GpuHold *hold);
    /* Makes `own` current and gives what was before, or the other way round. */
    int (*enter)(const GpuCalls *calls, GpuCurrent own, GpuCurrent *before, GpuVerb *verb);
    int (*leave)(const GpuCalls *calls, GpuCurrent own, GpuCurrent before, GpuVerb *verb);
    /* Opens the vendor's monitoring library on the device in that place; see monitor.h. */
    ls_status (*watch)(const char *device, const GpuLocation *location, Error *error,
                       Monitor **monitor);
} Vendor;
extern const Vendor vendor_cuda, vendor_hip; /* gpu_vendor.c */

/* gpu_library.c: a loaded and initialised library. */
typedef struct GpuLibrary {
    const Vendor *vendor;
    void *handle;
    GpuCalls calls;
    int device_count, version;
} GpuLibrary;
/* False with one line in `reason` when the library or every device is missing. */
bool gpu_library_open(const Vendor *vendor, GpuLibrary *library, char *reason, size_t size);
void gpu_library_close(GpuLibrary *library);
/* Fills name, description and target for one device; false with the reason. */
typedef struct GpuIdentity {
    int device, multiprocessors;
    char lacks[CAPABILITY_COUNT][LACK_BYTES]; /* as in Device */
    char description[160], target[64];
    bool reads_host, reads_pinned; /* as in Device */
} GpuIdentity;
bool gpu_identify(const GpuLibrary *library, int index, GpuIdentity *identity, char *reason,
                  size_t size);
/* Whether after this error every later call of the process fails too. */
bool gpu_error_is_final(int error);
/* "cuMemAlloc_v2 failed with CUDA_ERROR_UNKNOWN (999)", and what helps where that is known. */
void gpu_describe_error(const GpuLibrary *library, GpuVerb verb, int error, char *text,
                        size_t size);

/* driver_gpu.c: one opened device, for gpu_graph.c too. */
typedef struct Gpu {
    Device head;
    GpuLibrary library;
    int device, multiprocessors;
    GpuHold hold;
    void *stream;     /* in use */
    void *own_stream; /* NULL: it was never needed */
    struct {          /* gpu_repeat.c: made when first needed */
        void *module, *kernel, *until, *left;
    } repeat;
    char lost[512]; /* what ended the device for this process, or "" */
    Origin origin;  /* in a forked child no vendor's library works */
} Gpu;
/* Whether the device is lost to this process: nothing is asked of the driver again. */
static inline bool gpu_is_lost(const Gpu *gpu) {
    return gpu->lost[0] || origin_forked(&gpu->origin);
}
ls_status gpu_launch_one(Gpu *gpu, const Launch *launch); /* with the device current */
/* gpu_graph.c: what the stream depends on while it is captured: so many nodes, and the first. All 0
 * where it is not captured or the driver does not say. */
typedef struct GpuTip {
    bool capturing;
    size_t count;
    void *node;
} GpuTip;
ls_status gpu_find_tip(Gpu *gpu, GpuTip *tip);
ls_status gpu_failed(Gpu *gpu, const char *doing, GpuVerb verb, int error);
ls_status gpu_check(Gpu *gpu, const char *doing, GpuVerb verb, int error); /* of 0: LS_OK */
/* TRY(gpu, "doing something", verb, arguments...): one call of gpu.def, checked. */
#define TRY(gpu, doing, verb, ...) \
    gpu_check((gpu), (doing), VERB_##verb, (gpu)->library.calls.verb(__VA_ARGS__))
ls_status gpu_enter(Gpu *gpu, GpuCurrent *before);
ls_status gpu_leave(Gpu *gpu, GpuCurrent before, ls_status status);
/* WITH(gpu, TRY(...)): the call with the device current. `return`s its status. */
#define WITH(gpu, call)                            \
    GpuCurrent before;                             \
    ls_status entered = gpu_enter((gpu), &before); \
    return entered == LS_OK ? gpu_leave((gpu), before, (call)) : entered
void gpu_take_down(const Gpu *gpu, int (*release)(void *handle), void *handle);
ls_status gpu_made(Gpu *gpu, ls_status status, int (*release)(void *handle), void **handle);
/* What makes or gives up things is forbidden to a thread while the trainer captures in the mode
 * that is its default, and would end the capture; not in the relaxed mode. Gives the mode before.
 */
int gpu_relax(const Gpu *gpu);
ls_status gpu_unrelax(const Gpu *gpu, int mode, ls_status status);
/* MAKE(gpu, handle, release, TRY(...)): WITH for a call that makes *handle, which is NULL before.
 * What was made is given up again when the thread's device could not be put back. */
#define MAKE(gpu, handle, release, call)                                               \
    GpuCurrent before;                                                                 \
    ls_status entered = gpu_enter((gpu), &before);                                     \
    if (entered != LS_OK) return entered;                                              \
    const int mode = gpu_relax(gpu);                                                   \
    return gpu_made((gpu), gpu_leave((gpu), before, gpu_unrelax((gpu), mode, (call))), \
                    (gpu)->library.calls.release, (handle))

/* A graph as captured, what was instantiated from it, and a graph that repeats it. */
typedef struct GpuGraph {
    void *recording, *executable;
    size_t nodes;    /* 0: not known */
    struct GpuLoop { /* so many times; as long as a byte is 0 */
        void *recording, *executable;
        const void *stop;
        bool cannot; /* it was tried */
    } times, until;
} GpuGraph;
/* gpu_repeat.c: launches it so many times by a loop on the device, where that can be done, and
 * leaves in *times what is to be launched one by one. With the device current. */
ls_status gpu_repeat_graph(Gpu *gpu, GpuGraph *graph, uint64_t *times, bool *looped);
/* The same as long as the byte at `stop` is 0, and how often that was; waits. */
ls_status gpu_repeat_until(Gpu *gpu, GpuGraph *graph, const void *stop, uint64_t most,
                           uint64_t *times, bool *looped);
void gpu_repeat_drop(Gpu *gpu, GpuGraph *graph); /* it changed, or goes */
/* gpu_graph.c: entries of the driver table. */
ls_status gpu_capture_begin(Device *device);
ls_status gpu_capture_launch(Device *device, const Launch *launches, size_t count, void **nodes);
ls_status gpu_capture_end(Device *device, void **graph, size_t *node_count);
ls_status gpu_graph_launch(Device *device, void *graph, uint64_t times, bool *looped);
ls_status gpu_graph_until(Device *device, void *graph, const void *stop, uint64_t most,
                          uint64_t *times, bool *looped);
void gpu_repeat_close(Gpu *gpu); /* gpu_repeat.c: with the context */
ls_status gpu_graph_set(Device *device, void *graph, void *node, const Launch *launch, bool *renew);
ls_status gpu_graph_renew(Device *device, void *graph);
void gpu_graph_destroy(Device *device, void *graph);
/* gpu_copies.c: likewise. */
ls_status gpu_run_copy(Gpu *gpu, const Launch *launch); /* with the device current */
bool gpu_copies(const Copy *copy);
void gpu_copy_launch(Device *device, const Copy *copy, Launch *launch);
ls_status gpu_pinned_allocate(Device *device, size_t bytes, void **pointer);
void gpu_pinned_release(Device *device, void *pointer);
ls_status gpu_stream_create(Device *device, void **stream);
void gpu_stream_destroy(Device *device, void *stream);
ls_status gpu_stream_copy_in(Device *device, void *stream, void *to, const void *from,
                             size_t bytes);
ls_status gpu_stream_copy_out(Device *device, void *stream, void *to, const void *from,
                              size_t bytes);
ls_status gpu_copy_within(Device *device, void *stream, void *to, const void *from, size_t bytes);
ls_status gpu_stream_record(Device *device, void *stream, void *event);
ls_status gpu_stream_wait(Device *device, void *stream, void *event);
ls_status gpu_event_wait(Device *device, void *event);
bool gpu_event_done(Device *device, void *event);

#endif
