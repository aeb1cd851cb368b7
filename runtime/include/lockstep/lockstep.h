/* lockstep/lockstep.h: the Lockstep runtime.
 *
 *   ls_context *context;  ls_program *program;  ls_step *step;
 *   ls_context_create(NULL, NULL, &context);
 *   ls_program_load(context, "adamw.step", NULL, &program);
 *   ls_step_create(program, "adamw", &step);
 *   ls_step_bind(step, "p", &p);  ...  ls_step_launch(step);
 *
 * Every function that can fail returns an ls_status; ls_error_message(context) then says what
 * happened, to what, and what to do. No function aborts, prints or leaves a half-made object; on
 * failure an output handle is NULL. A context, with all that was made from it, may be used from one
 * thread at a time, different contexts from different threads; a monitor is for itself. Every
 * function takes NULL for a handle: ..._destroy does nothing, what returns a status fails, and what
 * cannot fail gives 0, NULL or "?" (ls_context_kind the CPU) and leaves a message. `const char *`
 * arguments are copied. All lengths are in elements unless called bytes. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <lockstep/compiler.h>
#include <lockstep/image.h>
#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_context ls_context;
typedef struct ls_program ls_program;
typedef struct ls_step ls_step;
typedef struct ls_graph ls_graph;

typedef enum ls_device_kind { LS_DEVICE_CPU, LS_DEVICE_CUDA, LS_DEVICE_HIP } ls_device_kind;

/* An array somewhere. Converts to and from DLPack's DLTensor field by field. The memory and the
 * shape and stride arrays stay the caller's; the last two are read during the call only. */
typedef struct ls_tensor {
    void *data; /* device memory of the context's device; may be NULL when the array is empty */
    ls_type type;
    uint32_t rank;
    const int64_t *shape;
    const int64_t *strides; /* in elements; NULL: contiguous, last axis fastest */
} ls_tensor;

const char *ls_type_name(ls_type type); /* "bf16"; "?" for no type */
size_t ls_type_size(ls_type type);      /* bytes of an element; 0 for no type */

/* ---- context: one device and one stream ---- */

/* `device`: NULL or "auto" (LOCKSTEP_DEVICE, else the first usable of cuda, hip, cpu), "cpu",
 * "cuda", "cuda:1", "hip:0". `stream`: the trainer's CUstream or hipStream_t, or NULL for one of
 * its own. On failure *context is NULL and ls_error_message(NULL) has this thread's last message.
 *
 * No second context is made beside a trainer's: the one of its stream is used, else the calling
 * thread's where that is on the device, else the device's primary one; it must outlive this one.
 * Any thread may call, and what is current on it is the same again after each call. A stream given
 * stays the trainer's.
 *
 * After an error that ends the device for the process (a kernel that left its memory, memory that
 * is damaged) one message says so; every later call then returns LS_ERROR_DEVICE at once, and what
 * is destroyed asks nothing of the driver.
 *
 * A child that is forked while no other thread is in a call may go on with what is there: on the
 * CPU launches work, by the calling thread alone; on a GPU, whose drivers do not survive a fork,
 * every call returns LS_ERROR_DEVICE at once. Destroying returns in either. */
ls_status ls_context_create(const char *device, void *stream, ls_context **context);
/* All that was made from it must be gone before; its memory and its profile go with it, and
 * LOCKSTEP_LOG=info lists allocations that nobody freed. Waits for what is queued, unless the
 * trainer captures the stream. */
void ls_context_destroy(ls_context *context);
ls_device_kind ls_context_kind(const ls_context *context);
const char *ls_context_device(const ls_context *context); /* "cuda:0" */
/* "NVIDIA H200, sm_90, 132 multiprocessors" */
const char *ls_context_describe(const ls_context *context);
const char *ls_context_target(const ls_context *context); /* "sm_90", "gfx90a", "cpu" */
/* CUstream or hipStream_t, for the trainer's other libraries; NULL on the CPU, which has none */
void *ls_context_stream(const ls_context *context);
/* From here on the context's work goes to another stream of the trainer's, of the same device
 * (NULL: to one of its own; CUDA's default stream is CU_STREAM_LEGACY), as a framework's current
 * one changes; a graph that the trainer captures there takes it in. What the context queued on the
 * stream before is not waited for: where both streams work at once, let the new one wait for it
 * with an event. Memory that was freed before is handed out again in the order of the new one.
 * Costs nothing where it is the same stream; does nothing on a CPU. LS_ERROR_STATE between
 * ls_graph_begin and ls_graph_end. */
ls_status ls_context_use_stream(ls_context *context, void *stream);
ls_status ls_synchronize(ls_context *context); /* waits for everything queued so far */
/* What failed last: of the context's calls, or of this thread's calls without one, such as those
 * with a NULL handle. Until the next call on the context. */
const char *ls_error_message(const ls_context *context);
const char *ls_status_name(ls_status status);

/* ---- memory of the device ----
 *
 * A context keeps a pool of device memory and cuts its allocations from it. What is freed stays
 * in the memory pool and is handed out again without asking the device, in the order of the
 * context's stream: at once, since later work of that stream comes after earlier. Who uses the
 * memory on another stream waits there for what was queued before the allocation (ls_synchronize,
 * or an event), and lets the context's stream wait for that use before ls_free. Memory that a graph
 * uses must not be freed before the graph is gone; what steps own stays as long as a graph needs
 * it. LS_ERROR_MEMORY comes only after free parts of the memory pool were given back and the device
 * asked again; its message names the request, what there is, the largest holders and what would
 * help, and everything stays usable. */

/* 256-byte aligned, not cleared. On a CPU any pointer is device memory, and nothing needs to be
 * allocated here. */
ls_status ls_alloc(ls_context *context, size_t bytes, void **pointer);
/* The same with a name for the statistics, "weights" say: allocations with one label are counted
 * together. Without one they are called "ls_alloc", and those of a step "step adamw: output w". Up
 * to 95 bytes of it count. */
ls_status ls_alloc_labeled(ls_context *context, size_t bytes, const char *label, void **pointer);
void ls_free(ls_context *context, void *pointer); /* NULL and what is not the context's: ignored */
/* 1 where kernels read and write any memory of the host, so that nothing has to be allocated or
 * copied here: on a CPU, and on a GPU that has one memory with the host and reaches what is not
 * page-locked, as its driver says. */
int ls_context_shares_memory(const ls_context *context);
/* waits */
ls_status ls_copy_in(ls_context *context, void *device, const void *host, size_t bytes);
/* waits */
ls_status ls_copy_out(ls_context *context, void *host, const void *device, size_t bytes);
/* queued on the stream */
ls_status ls_fill_zero(ls_context *context, void *device, size_t bytes);
/* Copies an array of the device's memory to another of the same type and shape, each with any
 * strides; those of `from` may be 0. Queued on the stream, also between ls_graph_begin and
 * ls_graph_end, where the graph does it at every replay with the memory named at the recording.
 * The two may not share memory, nor two elements of `to`: LS_ERROR_BIND. On a GPU runs of bytes
 * and rows of one pitch are one call of the driver, other strides one for each row. */
ls_status ls_copy(ls_context *context, const ls_tensor *to, const ls_tensor *from);
/* Likewise sets every element of `to` to `value`, one element of its type. */
ls_status ls_fill(ls_context *context, const ls_tensor *to, const void *value);
/* Copies so far between the host and the device, for feeds and data sets too, and within the
 * device; those of graphs count at each replay. Values set with ls_step_set are none. Where a
 * training is in its steady state nothing but what the program asks for is added. */
typedef struct ls_copy_statistics {
    uint64_t to_device, to_device_bytes;
    uint64_t from_device, from_device_bytes;
    uint64_t within, within_bytes; /* ls_copy and ls_fill too */
} ls_copy_statistics;
void ls_copy_stats(const ls_context *context, ls_copy_statistics *statistics);
/* Page-locked memory of the host, which copies to and from the device need to go on beside other
 * work: what ls_step_get_async writes to best lies there. Not part of the memory pool and its
 * statistics. */
ls_status ls_alloc_host(ls_context *context, size_t bytes, void **pointer);
void ls_free_host(ls_context *context, void *pointer); /* NULL: ignored; its copies must be done */
/* Exact at any moment: reserved = in_use + rounding + free_bytes. All in bytes unless it counts. */
typedef struct ls_memory_statistics {
    uint64_t in_use, peak; /* what live allocations asked for; the most that was at once */
    uint64_t allocations;  /* how many are live */
    uint64_t served;       /* how many there were */
    uint64_t reserved, reserved_peak; /* what the context holds of the device */
    uint64_t rounding;                /* lost to the 256-byte boundaries */
    uint64_t free_bytes;              /* of the memory pool, for later allocations */
    uint64_t free_ranges;  /* in how many pieces: more than `chunks` tells of fragmentation */
    uint64_t largest_free; /* an allocation above that needs more of the device */
    uint64_t chunks;       /* pieces that the memory pool is made of */
    uint64_t driver_calls; /* how often the device was asked for memory */
    uint64_t limit;        /* of ls_memory_limit; 0: none */
} ls_memory_statistics;
void ls_memory_stats(const ls_context *context, ls_memory_statistics *statistics);
/* Who holds what, the largest first: fills up to `capacity` rows and returns how many labels there
 * are, those without an allocation by now included. The names live until the context's next call.
 */
typedef struct ls_memory_label {
    const char *label;
    uint64_t in_use, peak, allocations; /* bytes, bytes, live */
} ls_memory_label;
size_t ls_memory_labels(const ls_context *context, ls_memory_label *labels, size_t capacity);
/* The same and the statistics as text, a line for each label that holds something. Writes up to
 * `size` bytes with the final zero, and returns how long the whole text is, without it. */
size_t ls_memory_report(ls_context *context, char *text, size_t size);
/* Gives free pieces of the memory pool back to the device, after waiting for the stream, until it
 * holds at most `keep` bytes or nothing more is free in one piece. */
ls_status ls_memory_trim(ls_context *context, uint64_t keep);
/* The pool shall not grow beyond so many bytes; 0: as far as the device allows. */
ls_status ls_memory_limit(ls_context *context, uint64_t bytes);

/* ---- program: a compiled file ---- */

/* Compiles a .step file for the context's device (kernels on first use). Needs liblockstep;
 * programs built ahead of time come from ls_program_from_images and need liblockstep_rt only. */
ls_status ls_program_load(ls_context *context, const char *path, const ls_compile_options *options,
                          ls_program **program);
ls_status ls_program_load_text(ls_context *context, const char *name, const char *text, size_t size,
                               const ls_compile_options *options, ls_program **program);
/* Gives the code of image->variants[variant], to be kept by the maker for the program's life.
 * `message` receives why it could not. */
typedef ls_status (*ls_code_maker)(void *maker, const ls_image *image, size_t variant,
                                   const void **code, size_t *size, int *from_cache,
                                   const char **message);
/* `images` must outlive the program. `make` may be NULL when every variant holds its code.
 * `release`, when not NULL, is called with `maker` at ls_program_destroy. */
ls_status ls_program_from_images(ls_context *context, const ls_image *const *images, size_t count,
                                 ls_code_maker make, void *maker, void (*release)(void *maker),
                                 ls_program **program);
/* Its steps must be destroyed; graphs may still hold them. */
void ls_program_destroy(ls_program *program);
size_t ls_program_step_count(const ls_program *program);
const char *ls_program_step_name(const ls_program *program, size_t index);

/* ---- step ---- */

/* A step of the file, or one that it imports by its own name. The message of LS_ERROR_ARGUMENT
 * names the step that was meant, else those of the file itself. */
ls_status ls_step_create(ls_program *program, const char *name, ls_step **step);
/* Another handle of the step for other arrays, such as those of each layer: with the kernels that
 * there are, bound as the step is now, so that only what differs has to be. The values of rank-0
 * parameters that it only reads are the step's own: setting one, on any of the handles, sets it for
 * all; those that are written are the instance's, and begin at their defaults. In a graph,
 * ls_graph_update takes over the bindings of each handle. LS_ERROR_UNSUPPORTED of steps with sums
 * (ls_step_bind_sum). */
ls_status ls_step_instance(ls_step *step, ls_step **instance);
void ls_step_destroy(ls_step *step);                /* a graph or feed that holds it keeps it */
const ls_image *ls_step_image(const ls_step *step); /* its axes and parameters */
/* Binds an array (or, rank 0, the caller's own device scalar). Checked at once: type, rank, memory;
 * agreement of lengths with what else is bound is checked at the launch, with overlap of written
 * memory. A contiguous array for a list parameter is all of its tensors, one behind the other, cut
 * as the other lists that are bound say; where all are bound so, each is one tensor. A NULL tensor
 * takes a binding back, a list's too. A launch captured in a graph keeps the
 * bindings it was captured with. Binding the same lengths again is cheap, the same array free. */
ls_status ls_step_bind(ls_step *step, const char *parameter, const ls_tensor *tensor);
/* Binds the tensors of a list parameter, one whose axes depend on another: f32[t, n] of `n of t`.
 * `tensors` is an array of `count` (any count, 0 with NULL) and, with shapes and strides, read
 * during the call only; the memory the data pointers name stays the caller's and must stay where it
 * is while bound. The tensors' order is the list's. Each must be contiguous (strides NULL or as
 * such); an empty one may have a NULL data pointer. Where the parameter has one axis besides the
 * list's, a tensor of any rank is taken as its elements in memory order; else its rank is one less
 * than the parameter's. Length number i of each axis must agree between all lists, and tensors of
 * written lists must not share memory with anything bound, nor with each other: both are checked at
 * the launch. Errors: LS_ERROR_BIND for a tensor that does not fit, named by its place in the list;
 * the earlier binding then stays. */
ls_status ls_step_bind_list(ls_step *step, const char *parameter, const ls_tensor *tensors,
                            size_t count);
/* Binds a parameter that the step only reads to several arrays of its shape: it stands for their
 * sum, ((a0 + a1) + (a2 + a3)) + ..., in f32, in the order of `sum[r]` over 1 to 128 of them, which
 * the kernels add as they load: gradients of several micro-batches or ranks, in the pass that uses
 * them. The parameter is an array or list of f32 or a narrower float; all arrays are of its type,
 * or all f32. Calls with another number or type of arrays make kernels anew (LS_ERROR_UNSUPPORTED
 * of steps built ahead of time and of those with `for`, LS_ERROR_STATE while a graph holds the
 * step) and drop what ls_step_tune said; all else that was bound or set stays. In ls_step_image
 * there are so many parameters then, called g_0, g_1 and so on. After a failure that is of one
 * array, none is bound. */
ls_status ls_step_bind_sum(ls_step *step, const char *parameter, const ls_tensor *parts,
                           size_t part_count);
/* The same of a list: parts[i] has `count` tensors. */
ls_status ls_step_bind_sum_list(ls_step *step, const char *parameter, const ls_tensor *const *parts,
                                size_t part_count, size_t count);
/* Asks for an `out` to be computed into memory the step allocates, from the next launch on;
 * ls_step_output asks too, and gives it. One that is neither bound nor asked for may be left out.
 */
ls_status ls_step_want(ls_step *step, const char *parameter);
/* shape is the step's */
ls_status ls_step_output(ls_step *step, const char *parameter, ls_tensor *tensor);
/* The same of a list: fills up to `capacity` of `tensors` (NULL with 0) and gives in *count how
 * many there are. An out that nobody bound lies in one allocation, each tensor on a 16-byte
 * boundary. Shapes are the step's, over the parameter's axes without the list's, until it is bound
 * or prepared again. */
ls_status ls_step_output_list(ls_step *step, const char *parameter, ls_tensor *tensors,
                              size_t capacity, size_t *count);
/* Of a step that draws random numbers: its arrays are a part of larger ones that several devices
 * share. A list is a run of a larger list: its first tensor is `first_tensor` of that from
 * `first_element` on, the others begin where theirs do (an ls_cut, and what ls_partition_run
 * gives). Arrays of a step without lists begin at this element of that tensor. Both are 0 at first
 * and never negative. The draws are those of the whole, from the next launch on. */
ls_status ls_step_shard(ls_step *step, int64_t first_tensor, int64_t first_element);
/* Gives an axis its length where no array that is bound does, as of one that only a `for` goes
 * over; where one does they must agree, which is checked at the launch. Errors: LS_ERROR_ARGUMENT
 * for an axis that the step lacks, or that has no one length (a ragged one, blocks); LS_ERROR_BIND
 * for a length below 0 or other than the source's. */
ls_status ls_step_set_length(ls_step *step, const char *axis, int64_t length);
/* The value of a rank-0 parameter's device scalar, given and taken in the parameter's own type
 * (`value` points to one element). set is queued on the stream, after what was launched before; get
 * waits. An array with one element per tensor of a list (f32[t] of `n of t`) that is not bound
 * takes a value too: it lives in the step, filled with it, and set waits. */
ls_status ls_step_set(ls_step *step, const char *parameter, const void *value);
/* converted, checked */
ls_status ls_step_set_number(ls_step *step, const char *parameter, double value);
ls_status ls_step_get(ls_step *step, const char *parameter, void *value);
/* Queues a copy of the device scalar to `value`, which is complete after ls_synchronize, or when an
 * event recorded behind it has come (ls_event_elapsed). From a GPU the call returns at once only
 * where `value` lies in page-locked memory (ls_alloc_host). */
ls_status ls_step_get_async(ls_step *step, const char *parameter, void *value);
/* Checks the bindings if they changed, picks the variant, makes its code if need be. ls_step_launch
 * does this itself; calling it first keeps the compile out of the first launch. */
ls_status ls_step_prepare(ls_step *step);
/* The same for several steps, whose code is compiled at the same time, as many as there are
 * processors. */
ls_status ls_steps_prepare(ls_step *const *steps, size_t count);
/* Queues the step's kernels on the context's stream and returns. On a CPU the launch has finished
 * when it returns. */
ls_status ls_step_launch(ls_step *step);
/* Launches the step so, whatever its size, until the next call; NULL: as its image says. For
 * programs that measure, as `lockstep tune` does, which keeps what is best for later programs; no
 * result changes by a bit. LS_ERROR_UNSUPPORTED, from the next prepare or launch, where the variant
 * does not suit what is bound. A step with `for` is launched part by part: see ls_step_part. */
ls_status ls_step_tune(ls_step *step, const ls_image_tuning *tuning);
/* Part `number` of a step with `for`, as its image counts them, for ls_step_tune and ls_step_stats;
 * no other call takes it. It lives as long as the step. NULL: there is none, as of steps without
 * `for`. */
ls_step *ls_step_part(ls_step *step, uint32_t number);
typedef struct ls_step_statistics {
    const char *variant; /* the plan in use */
    uint32_t launches;   /* kernels per launch of the step */
    /* time spent getting the code, from the cache or the toolchain */
    double compile_ms;
    int from_cache;
    uint64_t temporary_bytes;  /* memory of its own for what its kernels hand on */
    uint32_t threads;          /* CPU workers available, or threads per block */
    uint64_t table_bytes;      /* lengths, pointers and tables of work of lists, on the device */
    int tuned;                 /* launched as `lockstep tune` or ls_step_tune said */
    uint64_t parts;            /* blocks, or workers on a CPU, of its largest launch */
    uint64_t work;             /* elements that its phases visit: ls_image_tuning goes by it */
    ls_copy_statistics copies; /* for the step so far: its tables, values that were read */
} ls_step_statistics;
ls_status ls_step_stats(ls_step *step, ls_step_statistics *statistics);

/* ---- graph: launches recorded once, replayed with one call ---- */

/* Between begin and end, launches on the context are recorded, not run (on a GPU the trainer's own
 * work on the stream too). Steps must be prepared before; binding, copying, setting, waiting and
 * events in between are errors. A call of the context that fails in between, or one of the
 * thread with a NULL handle, spoils the graph: ls_graph_end then fails with the message of the
 * first that did, and the context is usable again. Rank-0 values are read at
 * each replay. A graph keeps the steps it launches, also those destroyed meanwhile; the arrays
 * bound must stay where they are.
 *
 * On the CPU, and where a driver has no graphs that can be relied on (LOCKSTEP_LOG=info says so), a
 * graph is the recorded launches: the same bits, but on a GPU the trainer's own work on the stream
 * is then not in it and runs at once. ls_graph_statistics.native tells.
 *
 * A trainer that captures a context's stream with the driver's own calls may launch steps and
 * graphs meanwhile: they go into its graph. The steps must outlive that graph. */
ls_status ls_graph_begin(ls_context *context);
ls_status ls_graph_end(ls_context *context, ls_graph **graph);
ls_status ls_graph_launch(ls_graph *graph);
/* Replays it so many times, one after another, with one call. */
ls_status ls_graph_repeat(ls_graph *graph, uint64_t times);
/* Replays it as long as the bool at `stop`, one byte of the device's memory, is false: it is looked
 * at ahead of each replay, `most` times at most; a step of the graph sets it, where the loss is not
 * finite or has not fallen for a while. Returns when that has ended, and *times, which may be NULL,
 * is how often it was replayed, on failure what is known. On a CPU, and with CUDA 12.4, nobody
 * waits between the replays; else the host reads the byte each time. */
ls_status ls_graph_repeat_until(ls_graph *graph, const void *stop, uint64_t most, uint64_t *times);
/* Takes over the bindings of the graph's steps as they are now, for later replays. Costs nothing
 * where nothing changed; else only the kernels of the steps that changed get new parameters, unless
 * the driver wants the graph instantiated again (statistics count that). Steps are prepared, so
 * arrays may also have other lengths; only where a step then takes other kernels than before and
 * the trainer's own work is in the graph too, LS_ERROR_STATE says that it must be recorded again.
 * When it fails otherwise the graph is as it was, or refuses to be launched until an update
 * succeeds. */
ls_status ls_graph_update(ls_graph *graph);
typedef struct ls_graph_statistics {
    /* 1: a graph of the driver's, or on the CPU one job of its workers; 0: launched one by one */
    int native;
    int loops;         /* 1: ls_graph_repeat or ls_graph_repeat_until was a loop on the device */
    uint64_t launches; /* kernels and host work of Lockstep's in a replay */
    uint64_t nodes;    /* of the driver's graph, the trainer's own work too; else launches */
    uint64_t replays;
    uint64_t updates; /* ls_graph_update that succeeded */
    uint64_t updated; /* launches that got new parameters */
    uint64_t reinstantiations;
} ls_graph_statistics;
ls_status ls_graph_stats(const ls_graph *graph, ls_graph_statistics *statistics);
void ls_graph_destroy(ls_graph *graph); /* waits for its replays */

/* ---- feed: batches from the host, copied while the device computes ---- */

/* A ring of batches. The host fills a slot of page-locked memory and submits it; the copy runs on a
 * stream of its own while the device computes; the steps of a batch wait for its copy on the
 * device:
 *
 *   ls_feed_acquire(feed, host);  ...fill host[0], host[1]...;  ls_feed_submit(feed, samples);
 *   ls_feed_next(feed);  ls_step_launch(step);
 *
 * Submit a batch or two before the first ls_feed_next and the copies are always ahead. The host
 * waits for nothing but, in ls_feed_acquire, for the copy of the batch that is as old as the ring
 * is long (statistics count that). On a CPU the slot itself is what the steps read. */
typedef struct ls_feed ls_feed;
typedef struct ls_feed_array {
    const char *name; /* of the parameter that ls_feed_bind binds */
    ls_type type;
    uint32_t rank;        /* at least 1: the first axis counts the samples */
    const int64_t *shape; /* of a full batch */
} ls_feed_array;
/* `slots`: how many batches the ring holds, 2 to 64; 0 for 3. Without LS_FEED_FIXED the arrays of
 * each batch lie where it was copied to, with the batch's own number of samples: ls_feed_next binds
 * the steps given to ls_feed_bind anew. With it all batches come to lie at one place (one more copy
 * on the device, on the context's stream), with the shape of a full one and zeros where a batch is
 * short: bindings never change, so a captured graph can read them; call ls_feed_next ahead of every
 * replay. A step that must know how full the batch is has a parameter `feed_samples: i64`, which
 * ls_feed_bind binds. LS_FEED_THREADS and LS_FEED_PROCESSES: see ls_feed_claim. */
enum { LS_FEED_FIXED = 1, LS_FEED_THREADS = 2, LS_FEED_PROCESSES = 4 };
ls_status ls_feed_create(ls_context *context, const ls_feed_array *arrays, size_t count,
                         uint32_t slots, int flags, ls_feed **feed);
/* Waits for its copies. Steps that it was bound to must be bound anew before they run again. */
void ls_feed_destroy(ls_feed *feed);
/* The memory of each array in the next free slot, for `count` arrays, packed with the last axis
 * fastest. Called again before ls_feed_submit it gives the same. LS_ERROR_STATE when every slot
 * holds a batch that no ls_feed_next has taken. */
ls_status ls_feed_acquire(ls_feed *feed, void **arrays);
/* Queues the copy of the first `samples` samples, 1 to a full batch. The slot is the feed's. */
ls_status ls_feed_submit(ls_feed *feed, int64_t samples);
/* Of a feed with LS_FEED_THREADS or LS_FEED_PROCESSES batches come from several producers: threads
 * of the process, or with the latter also processes that were forked after ls_feed_create, such as
 * a data loader's workers, whose slots are then memory that they share (and not page-locked). A
 * producer claims a ticket with a slot's arrays, waiting while all slots are in use, fills it, and
 * delivers it; batches are taken in the order of the tickets, 0, 1, 2 ..., whoever is first, so
 * what a ticket's number says (its part of the data, its seed) decides what a training sees. These
 * three are called from any thread or process, and leave their messages to ls_error_message(NULL).
 * LS_ERROR_STATE: the feed was closed. */
ls_status ls_feed_claim(ls_feed *feed, uint64_t *ticket, void **arrays);
/* 1 to a full batch; 0: there is nothing under this ticket, it is skipped. */
ls_status ls_feed_deliver(ls_feed *feed, uint64_t ticket, int64_t samples);
/* No ticket is given any more, and who waits for one returns. Batches that are delivered are still
 * taken; ls_feed_next after the last of them is LS_ERROR_STATE. Producers have to be done before
 * ls_feed_destroy. */
ls_status ls_feed_close(ls_feed *feed);
/* Makes the oldest batch submitted the one that steps launched from now on read. Not in a capture.
 * LS_ERROR_STATE when none was submitted; where there are producers it waits for the next ticket's,
 * and that is also the error of a producer's process that has ended without delivering it. */
ls_status ls_feed_next(ls_feed *feed);
/* Binds the step's parameters that are called as the feed's arrays, now and, where they move, at
 * every ls_feed_next until the feed is destroyed. LS_ERROR_ARGUMENT when there is none. */
ls_status ls_feed_bind(ls_feed *feed, ls_step *step);
/* The array as steps read it now, for the trainer's own work; until the next ls_feed_next. */
ls_status ls_feed_tensor(const ls_feed *feed, size_t array, ls_tensor *tensor);
typedef struct ls_feed_statistics {
    int64_t samples;         /* of the batch that is read now; 0: none yet */
    uint64_t batches, bytes; /* submitted */
    uint64_t waits;          /* times ls_feed_acquire waited for a copy */
    double waited_ms;
    uint32_t slots, waiting; /* in all; submitted and not yet taken by ls_feed_next */
    int pinned;              /* 0: the driver had no page-locked memory, copies are slower */
    uint64_t copies;         /* to the device, of all batches; 0 where it reads the slots */
    uint64_t device_waits;   /* batches whose copy was under way when they were taken */
    uint64_t producer_waits; /* times ls_feed_next waited for a producer */
    double producer_waited_ms;
} ls_feed_statistics;
void ls_feed_stats(const ls_feed *feed, ls_feed_statistics *statistics);

/* ---- data set: on the device, shuffled as it is read ---- */

/* Arrays whose first axis counts the same samples, read-only. Where they fit the device they are
 * loaded once, and a step reads what it wants of the whole: `x[row, k]`, with rows that the
 * language's `shuffle` gives (std/data has them ready made), so nothing moves between the launches
 * and a graph needs no new capture. Where they do not fit, batches are gathered on the host in the
 * same order and come through an ls_feed: the step computes the same bits. On a CPU the arrays are
 * read where they lie, a mapped file's too, however large, when they begin on a 16-byte boundary;
 * ls_split_next then has the kernel fetch the rows of the next two batches. */
typedef struct ls_dataset ls_dataset;
typedef struct ls_dataset_array {
    const char *name; /* of the parameter it is for */
    /* A file: x.npy, x.safetensors with one tensor, or x.safetensors:NAME. It is mapped, may be
     * larger than the memory of the host, and must stay as it is until ls_dataset_destroy.
     * x.jsonl, or x.jsonl:KEY: the tokens, i32, of the list that is each line, or that its object
     * has under KEY ("tokens"), one line behind the other, in memory of the host. x.tar:x.npy: each
     * member KEY.x.npy is a sample, as in a WebDataset, whose arrays must have the same keys;
     * x.tar/PATTERN: the members of such names, as if they were unpacked. Or a pattern,
     * "shards/x-*.npy" (* ? and [...] as a shell has them): the samples of all such files, in the
     * order of their names, are one array. No file is kept open; each is a map of the process, of
     * which vm.max_map_count is the limit. Members and many files are loaded, or come batch by
     * batch. */
    const char *path;
    /* Where path is NULL, contiguous memory of the host; stays the caller's and as it is until
     * ls_dataset_destroy. */
    ls_tensor tensor;
    int on_device; /* not 0: it is memory of the context's device already, and is not copied */
} ls_dataset_array;
typedef struct ls_dataset_options {
    uint64_t device_bytes; /* what it may take of the device; 0: nine tenths of what is free */
    size_t chunk_bytes;    /* of host memory, at most, twice, while it is loaded; 0: 8 MiB */
    /* Called now and then while it is loaded; anything but 0 gives it up. */
    int (*progress)(void *argument, uint64_t bytes_done, uint64_t bytes_total);
    void *argument;
} ls_dataset_options;
/* `options` NULL: none. Waits until all is loaded. */
ls_status ls_dataset_create(ls_context *context, const ls_dataset_array *arrays, size_t count,
                            const ls_dataset_options *options, ls_dataset **dataset);
void ls_dataset_destroy(ls_dataset *dataset); /* its splits must be gone, and what reads it done */
int64_t ls_dataset_samples(const ls_dataset *dataset);
int ls_dataset_resident(const ls_dataset *dataset); /* 0: batches come through a feed */
/* A whole array, of a data set that is resident: LS_ERROR_STATE of another. */
ls_status ls_dataset_tensor(const ls_dataset *dataset, const char *array, ls_tensor *tensor);
/* Binds it to the step's parameter of that name, which may not be written. */
ls_status ls_dataset_bind(const ls_dataset *dataset, ls_step *step, const char *array);

/* The samples that take part, such as those for training, and their order. */
typedef struct ls_split ls_split;
typedef struct ls_split_options {
    int64_t first, count; /* of the data set's samples; count 0: all the others */
    int64_t batch;        /* samples a launch reads; 0: only a resident data set can be split so */
    int64_t seed;
    int in_order;   /* not 0: every epoch goes from the first to the last */
    uint32_t slots; /* of the feed, where there is one; 0 for 3 */
    /* Of `ranks` (0: 1) that each read a batch at every launch this is the `rank`-th: together they
     * read samples in a row, so that every sample comes once per epoch, in the same order for any
     * number of ranks. */
    int rank, ranks;
} ls_split_options;
ls_status ls_split_create(ls_dataset *dataset, const ls_split_options *options, ls_split **split);
/* Steps that it was bound to must be bound anew before they run again. */
void ls_split_destroy(ls_split *split);
/* Binds every array that the step has a parameter of, and sets those it has of `data_first: i64`,
 * `data_count: i64`, `data_seed: i64`, `data_ordered: bool`, `data_streamed: bool`, `data_begin:
 * i64` (how many samples of a launch are other ranks' and come before this one's) and `data_stride:
 * i64` (samples of all ranks in a launch). Where data_streamed is true the arrays are the batch
 * itself. Of several ranks the step must have the last two, or the batches come through a feed. */
ls_status ls_split_bind(ls_split *split, ls_step *step);
/* Ahead of every launch or replay: brings the batch, where the data set is not resident, which a
 * thread of the split's own has gathered ahead, from the first call on; asks the disk for the rows,
 * where steps read them in a mapped file. */
ls_status ls_split_next(ls_split *split);
/* The next batch, of several ranks the first rank's, begins at this place, 0 to 2^62: when a
 * training goes on from a checkpoint, or a validation begins anew. The step's own counter is to be
 * set to the same. */
ls_status ls_split_seek(ls_split *split, int64_t place);
/* The sample at a place, counted from the first of the first epoch on; -1: there is none. */
int64_t ls_split_sample(const ls_split *split, int64_t place);
/* The language's shuffle(place, count, seed, epoch), on the host; -1: no such place. */
int64_t ls_shuffle(int64_t place, int64_t count, int64_t seed, int64_t epoch);

/* ---- host work: the trainer's functions between the launches ---- */

typedef struct ls_host_work {
    void (*run)(void *argument, uint64_t first, uint64_t last); /* does items first ... last - 1 */
    void *argument;
    uint64_t items; /* 0: nothing to do */
} ls_host_work;
/* Queues the work after what was launched before and ahead of what comes later; a graph records it
 * like a launch. On the CPU the workers share the items, so `run` must bear several threads at once
 * on different items, each with the floating-point control (rounding, flushing) of the thread that
 * launches it or the graph; a single item is that thread's own. On a GPU a thread of the driver
 * does all of them while the stream waits. `run` may call neither Lockstep nor the driver. `work`
 * stays the caller's and must stay as it is until it is done and no graph holds it.
 * LS_ERROR_UNSUPPORTED where the driver has no such call, or records none in a graph: then end the
 * graph, call it, and begin another. */
ls_status ls_host_call(ls_context *context, const ls_host_work *work);

/* ---- events: time on the device ---- */
typedef struct ls_event ls_event;
ls_status ls_event_create(ls_context *context, ls_event **event);
ls_status ls_event_record(ls_event *event);
/* waits for `end` */
ls_status ls_event_elapsed(ls_event *start, ls_event *end, double *milliseconds);
/* What is launched on the context from now on waits, on the device, until `event` was recorded
 * last; the host does not. */
ls_status ls_event_wait(ls_event *event);
void ls_event_destroy(ls_event *event);

/* ---- copy stream: copies between host and device beside the work ---- */

/* A stream of the context's device with nothing but copies, in their order, beside what is launched
 * on the context. Nothing is ordered between the two but by events: what a copy reads was recorded
 * behind on the context (ls_event_record) and is waited for here (ls_copy_stream_wait), what it
 * writes is recorded here (ls_copy_stream_record) and waited for there (ls_event_wait). So state
 * that the device has no room for lives in the host's memory, and the next part comes while the
 * device works on this one:
 *
 *   ls_copy_stream_wait(in, free[k]);  ls_copy_stream_in(in, buffer[k], host, bytes);
 *   ls_copy_stream_record(in, there[k]);
 *   ls_event_wait(there[k]);  ls_step_launch(step[k]);  ls_event_record(used[k]);
 *   ls_copy_stream_wait(out, used[k]);  ls_copy_stream_out(out, host, buffer[k], bytes);
 *   ls_copy_stream_record(out, free[k]);
 *
 * Memory of the host should be page-locked (ls_alloc_host), or a driver may wait in the call. None
 * of these may come between ls_graph_begin and ls_graph_end (LS_ERROR_STATE). An event that was
 * never recorded is not waited for. On a CPU a copy has happened when the call returns. */
typedef struct ls_copy_stream ls_copy_stream;
ls_status ls_copy_stream_create(ls_context *context, ls_copy_stream **stream);
ls_status ls_copy_stream_in(ls_copy_stream *stream, void *device, const void *host, size_t bytes);
ls_status ls_copy_stream_out(ls_copy_stream *stream, void *host, const void *device, size_t bytes);
/* Copies queued from now on wait, on the device, until the event of the same context was recorded
 * last. */
ls_status ls_copy_stream_wait(ls_copy_stream *stream, ls_event *event);
/* Records the event behind the copies queued so far, in place of where it was recorded before. */
ls_status ls_copy_stream_record(ls_copy_stream *stream, ls_event *event);
ls_status ls_copy_stream_synchronize(ls_copy_stream *stream); /* waits for its copies */
void ls_copy_stream_destroy(ls_copy_stream *stream);          /* the same; NULL: ignored */

/* ---- profile: how long launches take, and what they move ---- */

/* From here to ls_profile_end every launch of the context's steps is timed, kernel by kernel, with
 * events on a GPU and clocks on the CPU, and so are copies. A replay of a graph is launched kernel
 * by kernel for that, so there is a row for each, and one for all of it, which is longer than
 * without a profile; one with the program's own work is timed as a whole. Bits stay the same. Drops
 * what an earlier profile found. Both wait for the device, and so does a launch now and then. */
ls_status ls_profile_begin(ls_context *context);
/* Fails when something could not be timed, and says what; what could is there all the same. */
ls_status ls_profile_end(ls_context *context);
typedef struct ls_profile_row {
    /* "adamw"; of a replay "graph of adamw", "graph of 3 launches"; "copy to the device", "host",
     * "ls_comm_all_gather" */
    const char *step;
    const char *kernel; /* or NULL: the step as a whole, before its kernels */
    const char *file; /* the source, and the line where the step stands there; "" and 0 of graphs */
    uint32_t line;
    uint64_t count;
    double min_us, median_us, max_us, total_us; /* the median of the latest 4096 */
    /* device memory that the latest moved, by the plan; 0 and 0: not known */
    uint64_t bytes_read, bytes_written;
    double gb_s; /* 1e9 bytes in a second, at the median; 0: not known */
} ls_profile_row;
/* Of the profile that ended: fills up to `capacity` of `rows` and returns how many there are. The
 * texts are the context's until ls_profile_begin. */
size_t ls_profile_rows(ls_context *context, ls_profile_row *rows, size_t capacity);
/* Writes the launches of the profile that ended, the latest 262,144, as a trace for Perfetto or
 * chrome://tracing: a track for the calls, one for the device with its copies, and counters of the
 * memory in use, of all and by label. A regular file is replaced when
 * the new one is complete, through a symbolic link too; a device or pipe is written to. */
ls_status ls_profile_trace(ls_context *context, const char *path);

/* ---- monitor: what a device is doing ---- */

/* One row per reading: identifier, name, unit, the most that is believed. What a library says
 * beyond that, or below 0, counts as not known. */
#define LS_READING_LIST(X)                                                 \
    X(UTILISATION, "utilisation", "%", 100)                                \
    X(MEMORY_USED, "memory_used", "bytes", 1e16)                           \
    X(MEMORY_TOTAL, "memory_total", "bytes", 1e16)                         \
    X(POWER, "power", "W", 1e5)                                            \
    X(POWER_LIMIT, "power_limit", "W", 1e5)                                \
    X(TEMPERATURE, "temperature", "C", 200)                                \
    X(CLOCK, "clock", "MHz", 2e4)                                          \
    X(MEMORY_CLOCK, "memory_clock", "MHz", 5e4)                            \
    X(PCIE_RECEIVED, "pcie_received", "bytes/s", 1e12) /* by the device */ \
    X(PCIE_SENT, "pcie_sent", "bytes/s", 1e12)                             \
    X(FAN, "fan", "%", 200)                                                \
    X(ENERGY, "energy", "J", 1e13)          /* since some time before */   \
    X(THROTTLE, "throttle", "reasons", 1e6) /* bits: ls_throttle_name */   \
    X(PCIE_REPLAYS, "pcie_replays", "packets", 4e9)
typedef enum ls_reading {
#define LS_READING_ENUM(id, name, unit, most) LS_READING_##id,
    LS_READING_LIST(LS_READING_ENUM)
#undef LS_READING_ENUM
        LS_READING_COUNT
} ls_reading;
const char *ls_reading_name(ls_reading reading); /* "memory_used"; "?" for none */
const char *ls_reading_unit(ls_reading reading); /* "bytes" */
/* What bit `bit` of LS_READING_THROTTLE says that keeps the clock down: "power cap"; NULL: there is
 * no such bit, or it is no harm (an idle device, a clock that somebody chose). */
const char *ls_throttle_name(unsigned bit);

typedef struct ls_monitor ls_monitor;
/* Watches a device by name, "cuda:0", "hip:1", "cpu" (NULL and "auto" as for ls_context_create),
 * without making a context on it: through NVML or ROCm SMI, matched by PCI address, and on the CPU
 * through /proc and /sys. On failure ls_error_message(NULL) says what is missing and what to
 * install. */
ls_status ls_monitor_create(const char *device, ls_monitor **monitor);
void ls_monitor_destroy(ls_monitor *monitor);
typedef struct ls_sample {
    double seconds; /* of a clock that only goes forward */
    uint32_t known; /* bit r: value[r] could be read */
    double value[LS_READING_COUNT];
} ls_sample;
/* Rates and utilisation of the CPU are since the sample before. PCIe throughput, which vendors
 * measure while they are asked, is asked for by a thread of the monitor's, about once a second from
 * the first sample on, and is not known before. Readings that fail are not known; only running out
 * of memory is an error. */
ls_status ls_monitor_sample(ls_monitor *monitor, ls_sample *sample);
typedef struct ls_process {
    int64_t pid;
    char name[32];
    int lockstep;          /* 1: has a context of Lockstep's on the device; 0: none that can be
                            * seen, which of other users' processes is never */
    int memory_known;      /* whether the next is */
    uint64_t memory_bytes; /* of the device; on the CPU resident */
} ls_process;
/* The processes on the device, those of Lockstep first, then by memory; on the CPU those of
 * Lockstep only, of which some are noticed three seconds late. Fills up to `capacity` of
 * `processes`; *count receives how many there are. */
ls_status ls_monitor_processes(ls_monitor *monitor, ls_process *processes, size_t capacity,
                               size_t *count);
/* What the contexts of a process on devices of this kind hold, by label (ls_memory_labels, cut to
 * 55 bytes), as far as the system lets this process look at that one; otherwise *count is 0. Up to
 * `capacity`; *count receives how many there are. */
typedef struct ls_process_label {
    char label[56];
    uint64_t bytes;
} ls_process_label;
ls_status ls_monitor_labels(ls_monitor *monitor, int64_t pid, ls_process_label *labels,
                            size_t capacity, size_t *count);

/* ---- devices ---- */
typedef struct ls_device_info {
    char name[16]; /* "cuda:0", "cpu" */
    /* what it is, or in one line why it cannot be used and what would help */
    char description[160];
    int usable;
} ls_device_info;
/* Fills up to `capacity` entries, at least one for each of cuda, hip and cpu; returns how many
 * there are. */
size_t ls_devices(ls_device_info *devices, size_t capacity);

#ifdef __cplusplus
}
#endif

#include <lockstep/comm.h>
#endif
