/* lockstep/compiler.h: the compiler as a library.
 *
 * Text in; diagnostics, reports, generated source and images out. Touches no device. A compilation
 * may be used from one thread at a time; different compilations from different threads. No function
 * prints, exits or leaves a half-made object. Strings and tables handed out belong to the
 * compilation and live until ls_compilation_destroy. */
#ifndef LOCKSTEP_COMPILER_H
#define LOCKSTEP_COMPILER_H

#include <lockstep/image.h>
#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The grade of the mathematical functions. LS_MATH_SOURCE: what each step says. */
typedef enum ls_math { LS_MATH_SOURCE, LS_MATH_EXACT, LS_MATH_LITE, LS_MATH_FAST } ls_math;

/* A text that stands for a file of that path: imports find it before they look on disk. */
typedef struct ls_source {
    const char *name, *text;
    size_t size;
} ls_source;

/* A list without its count, a count without its list and a NULL in a list are LS_ERROR_ARGUMENT. */
typedef struct ls_compile_options {
    const char *const *defines; /* "NAME=VALUE": overrides a const of the source */
    size_t define_count;
    ls_math math;
    /* a directory for every stage of every compile, or NULL (LOCKSTEP_DUMP) */
    const char *dump;
    int no_cache;  /* compile afresh and keep nothing */
    int no_tuning; /* as if lockstep tune had kept nothing */
    int all_forms; /* ls_compilation_image_tuned adds the forms that only a tuning chooses */
    /* folders in which imports are looked for after that of the importing file; behind them come
     * those of LOCKSTEP_PATH, separated by colons */
    const char *const *import_paths;
    size_t import_path_count;
    const ls_source *sources;
    size_t source_count;
    /* 1: keeps what lockstep/index.h tells; every step is then lowered when it is first asked for,
     * so that mistakes are known sooner */
    int index;
} ls_compile_options;

typedef struct ls_note {
    const char *file; /* NULL: no place */
    uint32_t line, column, end_line, end_column;
    const char *message;
} ls_note;

typedef struct ls_diagnostic {
    const char *file; /* "" where the message has no place in a file */
    /* 1-based; columns count characters; end is exclusive */
    uint32_t line, column, end_line, end_column;
    const char *severity; /* "error" or "warning" */
    const char *code;     /* stable name, such as "unknown-name" */
    const char *message;
    const ls_note *notes;
    size_t note_count;
    const char *help; /* NULL: none */
} ls_diagnostic;

typedef struct ls_compilation ls_compilation;

/* Reads, parses, checks and lowers a file (or a text that messages call `name`). *compilation is
 * set unless memory ran out, also when the source has errors (LS_ERROR_PROGRAM): it holds the
 * diagnostics. A path such as "std/optim" that is no file on disk is the standard library's. Steps
 * of the library are compiled when they are first asked for. */
ls_status ls_compile_file(const char *path, const ls_compile_options *options,
                          ls_compilation **compilation);
ls_status ls_compile_text(const char *name, const char *text, size_t size,
                          const ls_compile_options *options, ls_compilation **compilation);
void ls_compilation_destroy(ls_compilation *compilation);

/* The last failure in words; for LS_ERROR_PROGRAM every diagnostic, with carets, as for a terminal.
 */
const char *ls_compilation_message(const ls_compilation *compilation);
/* The same with ANSI colours. */
const char *ls_compilation_message_color(const ls_compilation *compilation);
size_t ls_compilation_diagnostic_count(const ls_compilation *compilation);
const ls_diagnostic *ls_compilation_diagnostic(const ls_compilation *compilation, size_t index);

size_t ls_compilation_step_count(const ls_compilation *compilation);
/* How many of them stand in the file itself; they come before those of imported files. */
size_t ls_compilation_own_step_count(const ls_compilation *compilation);
const char *ls_compilation_step_name(const ls_compilation *compilation, size_t step);

/* Whether kernels can be made of each step that stands in the file itself, in every dialect; needs
 * no toolchain. What ls_compile_file does not look for since it takes a plan and its text, such as
 * a step that needs more arguments than a kernel takes, becomes a diagnostic at the step
 * (LS_ERROR_PROGRAM), as if the source had had the error from the start: nothing more can be made
 * of the compilation then. What was planned is kept for what follows. */
ls_status ls_compilation_check(ls_compilation *compilation);

/* The files on disk that were read: the program's own, what it imports, and what the C headers
 * among these include, as far as it was found. For build systems: the result changes only with
 * them. */
size_t ls_compilation_file_count(const ls_compilation *compilation);
const char *ls_compilation_file(const ls_compilation *compilation, size_t index);

/* The targets that Lockstep promises: the tests compile kernels for each. Others whose names are
 * like these go to the toolchain, which knows more or fewer. */
typedef struct ls_target {
    const char *name;     /* "sm_90" */
    const char *portable; /* a target whose code later devices take too, "compute_90"; or NULL */
    const char *tried;    /* which toolchain compiles for it in the tests: "nvrtc" */
    uint32_t lanes;       /* that run together */
} ls_target;
const ls_target *ls_target_at(size_t index);       /* NULL behind the last */
const char *ls_target_dialect(const char *target); /* "cuda" of "sm_90"; NULL: none such */

/* What ls_compilation_emit gives. */
typedef enum ls_content {
    LS_CONTENT_IR,
    LS_CONTENT_PLAN,
    LS_CONTENT_NEST,
    LS_CONTENT_SOURCE,
    LS_CONTENT_ASSEMBLY,
    LS_CONTENT_CODE /* bytes, not text */
} ls_content;
typedef struct ls_form {
    const char *name; /* "cubin" */
    ls_content content;
    const char *toolchain; /* whose targets it is made for; NULL: any */
    const char *target;    /* where none is named; of one that must be, an example */
    int named;             /* a target must be named */
} ls_form;
const ls_form *ls_form_at(size_t index); /* NULL behind the last */

/* The generated text or what the toolchain makes of it. `form` is the name of one, with a target
 * after a colon where one is needed ("ptx:sm_90", "hsaco:gfx90a") and one of the image's variants
 * after a #: its number ("cuda:sm_90#1") or the lengths of all axes, of which it is launched for
 * contiguous arrays ("c#n=1024,c=64"; "n=768+2304" for each tensor of a list). Without one it is
 * the first for arrays that are not short. */
ls_status ls_compilation_emit(ls_compilation *compilation, size_t step, const char *form,
                              const char **data, size_t *size);

/* The step for a target: "cpu", "sm_90", "compute_90", "gfx90a". The image's variants carry source
 * and no code; ls_compilation_code makes (or takes from the cache) the code of one of them. The
 * code of target "cpu" is a shared object. `from_cache` may be NULL. */
ls_status ls_compilation_image(ls_compilation *compilation, size_t step, const char *target,
                               const ls_image **image);
ls_status ls_compilation_code(ls_compilation *compilation, const ls_image *image, size_t variant,
                              const void **code, size_t *size, int *from_cache);

/* The same with what `lockstep tune` kept for the device, as ls_context_describe names it. */
ls_status ls_compilation_image_tuned(ls_compilation *compilation, size_t step, const char *target,
                                     const char *device, const ls_image **image);

/* The same of the step in which a parameter that it only reads, an array or a list of f32 or a
 * narrower float, is the sum of `count` arrays of its shape: in f32, in the order of `sum[r]` over
 * them, neighbours first. The image has that many parameters in its place, called after it, of the
 * type given: the parameter's own, or f32. LS_ERROR_UNSUPPORTED of a step with `for`. */
typedef struct ls_sum {
    const char *parameter;
    uint32_t count; /* 1 or more */
    ls_type type;
} ls_sum;
ls_status ls_compilation_image_summed(ls_compilation *compilation, size_t step, const ls_sum *sums,
                                      size_t count, const char *target, const char *device,
                                      const ls_image **image);

/* The step (with `sums`, where sum_count is not 0, as above) for ranks that each have a part of its
 * arrays, which are cut as the tensors of `parameter` are, or, of a step without lists, along
 * `axis` (else NULL): `within` 1, within tensors, at multiples of 1024 elements and of the length
 * of blocks; 0, between the tensors of a list. The bits are those of the step on the whole.
 * LS_ERROR_UNSUPPORTED, with the line, the reason and what to do: the step has a `for`, or a scan
 * or a read at an index along what is cut (within tensors), or a logsumexp of a whole list. */
ls_status ls_compilation_image_sharded(ls_compilation *compilation, size_t step, const ls_sum *sums,
                                       size_t sum_count, const char *parameter, const char *axis,
                                       int within, const char *target, const char *device,
                                       const ls_sharded **sharded);

/* How a step is best launched on a device at one size, kept in a small file beside the kernels in
 * the cache. A file is of one device and one program (its kernels' text); ranges of work that
 * overlap replace each other. */
typedef struct ls_tuning_record {
    ls_image_tuning tuning;
    char device[160], variant[64];
    char sizes[160]; /* as measured: "n=16777216" */
    double usual_us, best_us;
} ls_tuning_record;
/* tuning.at_least and at_most are the range; with `best_us` 0 what was kept for it is dropped. On
 * LS_ERROR_FILE `reason` says why nothing could be written. */
ls_status ls_tuning_keep(const ls_image *image, const ls_tuning_record *record, char *reason,
                         size_t size);
/* Up to `capacity` of those kept for the image on a device (NULL: on any); gives how many there
 * are. */
size_t ls_tuning_list(const ls_image *image, const char *device, ls_tuning_record *records,
                      size_t capacity);

/* The code of several variants, made at the same time, as many as there are processors: what
 * ls_compilation_code then gives is there already. The first of those that fail is what the message
 * is about. */
typedef struct ls_code_request {
    const ls_image *image;
    size_t variant;
} ls_code_request;
ls_status ls_compilation_codes(ls_compilation *compilation, const ls_code_request *requests,
                               size_t count);

/* Code of a variant for a CPU in which the lengths of the axes that its rows run along (row_axes of
 * image.h), where they are below 1,024, are constants: the same kernels with the same bits, for
 * launches of these lengths alone. `lengths` has those of all axes; those that are no constants
 * become 0. *code stays NULL as long as there is none: LS_KNOWN_KEPT takes what the cache has,
 * LS_KNOWN_SOON has a thread of the compilation's make what it lacks, for a later call to find, and
 * LS_KNOWN_NOW makes it before it returns. LS_ERROR_UNSUPPORTED: there will be none, because the
 * variant has no such axis or code for four sets of lengths, or no compiler makes it. */
typedef enum ls_known_when { LS_KNOWN_KEPT, LS_KNOWN_SOON, LS_KNOWN_NOW } ls_known_when;
ls_status ls_compilation_known(ls_compilation *compilation, const ls_image *image, size_t variant,
                               int64_t *lengths, ls_known_when when, const void **code,
                               size_t *size, int *from_cache);

/* What `lockstep explain` prints. `sizes` gives axis lengths by name ("n=1024"); `targets` names
 * those whose registers, resident warps and access widths are wanted. */
typedef enum ls_report {
    LS_REPORT_TEXT,
    LS_REPORT_JSON,
    LS_REPORT_DOT,
    LS_REPORT_SCHEDULES /* the loop nests that the code of each target is printed from */
} ls_report;
typedef struct ls_explain_options {
    ls_report report;
    const char *const *sizes;
    size_t size_count;
    const char *const *targets;
    size_t target_count;
    double peak_gb_s;    /* 0: unknown */
    int plan_only;       /* nothing is compiled: nothing that the code tells */
    uint32_t processors; /* multiprocessors or CPU threads, for what each block keeps; 0: usual */
    /* Not 0, of LS_REPORT_TEXT: how the step runs on so many ranks, each with a part of its arrays
     * (ls_compilation_image_sharded), which are cut as the tensors of parameter `cut` (NULL: the
     * first list) are, `between` tensors or within them. */
    uint32_t ranks;
    const char *cut;
    int between;
    uint32_t slots;     /* of gradients, the arrays that are only read; 0: no exchange of them */
    double link_gbit_s; /* of a rank, each way; 0: unknown */
    const char *const *gather; /* parameters whose new values all ranks get */
    size_t gather_count;
} ls_explain_options;
ls_status ls_compilation_explain(ls_compilation *compilation, size_t step,
                                 const ls_explain_options *options, const char **text);

/* What `lockstep advise` tells: what a step takes on a machine, before anything runs. The machine
 * is the chip that a target's datasheet figures are of, or the one that `machine` describes: how
 * fast it reads and copies memory while so many bytes are in use (in ascending order; in between it
 * goes by their logarithm), the operations a second of all threads of a CPU, the seconds of a
 * launch, and the multiprocessors or threads. What is 0 is the chip's; of a CPU all is needed. */
typedef struct ls_memory_rate {
    double bytes, read_gb_s, copy_gb_s;
} ls_memory_rate;
typedef struct ls_machine {
    const ls_memory_rate *rates;
    size_t rate_count;
    double operations_per_s, launch_s;
    uint32_t processors;
} ls_machine;
typedef struct ls_advise_options {
    const char *target;
    const char *const *sizes; /* as of ls_explain_options */
    size_t size_count;
    int plan_only; /* nothing is compiled: registers and resident warps are assumed */
    ls_machine machine;
} ls_advise_options;
typedef struct ls_advice_kernel {
    const char *name, *partition;
    const char *limit; /* what binds it: "memory", "instructions", "latency", "launch" */
    double launches, bytes_read, bytes_written; /* in all launches */
    double operations;                          /* in all launches, by the table of operations */
    int registers, spill_bytes, shared_bytes;   /* -1: not known */
    uint32_t warps, warps_max;                  /* resident; 0: not known */
    double blocks;                              /* or workers, of one launch */
    double memory_s, instructions_s, latency_s, launch_s; /* if nothing else took time */
    double time_s;
} ls_advice_kernel;
typedef struct ls_advice {
    const ls_advice_kernel *kernels;
    size_t kernel_count;
    const char *device; /* whose figures these are: "H200"; NULL: the machine's */
    double launches, bytes_moved, bytes_minimum, time_s;
    double traffic_s;         /* of reading and writing the arrays alone, in one launch */
    double memory_gb_s;       /* that this is at */
    double operations_per_s;  /* that the machine reaches */
    uint64_t array_bytes;     /* of all parameters, */
    uint64_t temporary_bytes; /* and of what the step allocates; as a memory pool cuts them */
    uint64_t device_bytes;    /* of the chip's memory; 0: the machine's */
} ls_advice;
/* The kernels stay until the compilation is destroyed. LS_ERROR_ARGUMENT for a target of which no
 * figures are known. */
ls_status ls_compilation_advise(ls_compilation *compilation, size_t step,
                                const ls_advise_options *options, ls_advice *advice);

/* Ahead of time: a C header and a C file that need the runtime only, with the kernels of the steps
 * for every target: machine code of GPUs (PTX for "compute_90"), C for "cpu". The same input gives
 * the same bytes. */
typedef struct ls_ahead_options {
    const char *name; /* of the files: "adamw" for adamw.h and adamw.c */
    const size_t *steps;
    size_t step_count;
    const char *const *targets;
    size_t target_count;
    /* called as pieces of code are made, `done` of `total`; may be NULL */
    void (*progress)(void *user, size_t done, size_t total, const char *what);
    void *user;
    /* 1: leaves out the variants for arrays with gaps between elements or off a boundary of 16
     * bytes, 15 to 60 % of the text; launching with one is LS_ERROR_UNSUPPORTED then */
    int contiguous;
    /* 1: the structures hold the values of rank-0 parameters that are only read, `.lr = 1e-4f`, and
     * no pointers to device scalars; those with a default come from the macro STEP_defaults */
    int values;
    /* what functions and structures are called begins with it, "net_"; NULL: with the step's name.
     * LS_ERROR_ARGUMENT unless it is a name of C. */
    const char *prefix;
} ls_ahead_options;
ls_status ls_compilation_ahead(ls_compilation *compilation, const ls_ahead_options *options,
                               const char **header, const char **source);

/* Kernels for CPUs ahead of time, for programs that compile at run time on machines without a C
 * compiler: adds the machine code of every variant of the steps to a file, which is made when it is
 * not there, or is another version's. A level is "baseline", "x86-64-v2", "x86-64-v3" or
 * "x86-64-v4"; this processor need not have it. The library looks for cpu-LEVEL.kernels, the best
 * that the processor has, in the folder `lockstep` beside itself or in LOCKSTEP_KERNELS, and takes
 * from there what is not in its cache. Steps are found by what they compute, whatever file they
 * stand in. */
typedef struct ls_kernels_options {
    const char *level, *path;
    const size_t *steps;
    size_t step_count;
    int packed; /* 1: all of the file is packed, to a quarter of the bytes, which takes a while */
    int contiguous; /* 1: none for arrays of any strides, which need a compiler then; those whose
                       rows are contiguous have theirs */
    /* as of ls_ahead_options */
    void (*progress)(void *user, size_t done, size_t total, const char *what);
    void *user;
} ls_kernels_options;
ls_status ls_compilation_kernels(ls_compilation *compilation, const ls_kernels_options *options);

/* The one layout of a source text; *formatted is freed with ls_text_free. On LS_ERROR_PROGRAM
 * *formatted holds the diagnostics instead. */
ls_status ls_format_text(const char *name, const char *text, size_t size, char **formatted);
void ls_text_free(char *text);

/* The toolchains by number, "nvrtc"; NULL behind the last. `device`, which may be NULL, receives
 * what kind of device each makes code for: "cuda". */
const char *ls_toolchain_at(size_t index, const char **device);
/* Whether a toolchain is there. Gives its version, or why not, in one line. */
int ls_toolchain_describe(const char *toolchain, char *text, size_t size);

/* The kernel cache. */
typedef struct ls_cache_stats {
    const char *directory; /* valid until the next call on this thread */
    uint64_t entries, bytes, damaged;
    uint64_t tuned; /* files of lockstep tune */
    int usable;
    char reason[256]; /* why not usable */
} ls_cache_stats;
/* verify reads every entry, removes damaged ones */
ls_status ls_cache_read_stats(ls_cache_stats *stats, int verify);
ls_status ls_cache_clear(uint64_t *removed);

const char *ls_version(void);
uint64_t ls_numeric_version(void);

#ifdef __cplusplus
}
#endif
#endif
