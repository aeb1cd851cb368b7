/* toolchain.h: the runtime compilers behind one interface: source text and a target in, image bytes
 * and a log out. GPU toolchains run in a helper process (see process.c), so a crash or a hang of
 * theirs is an error here; the host compiler is a process of its own. */
#ifndef LOCKSTEP_TOOLCHAIN_H
#define LOCKSTEP_TOOLCHAIN_H

#include <elf.h>
#include <stdatomic.h>

typedef enum RtcForm {
    RTC_IMAGE,   /* what the driver loads: cubin for sm_NN, PTX for compute_NN, code object for
                    gfxNNN, a shared object for cpu */
    RTC_ASSEMBLY /* for people and tests: PTX for CUDA, disassembly-like text for the others */
} RtcForm;

typedef struct RtcOutput {
    void *data;  /* malloc'ed, with a zero after its last byte; rtc_output_free */
    size_t size; /* PTX as an image counts its final zero, assembly does not */
    char *log; /* malloc'ed, never NULL after a call; the toolchain's words, or why it could not run
                */
    const char *maker;   /* the toolchain at work, where it is another than the row's; else NULL */
    char *choice;        /* malloc'ed; where one of several made it, which one and why; else NULL */
    double milliseconds; /* spent in the toolchain */
} RtcOutput;

/* One row per toolchain. */
typedef struct Rtc {
    const char *name; /* "nvrtc", "hiprtc", "clang", "host" */
    ls_status (*compile)(const char *source, size_t size, const char *label, const char *target,
                         RtcForm form, ls_math math, RtcOutput *output);
    /* What becomes part of the cache key: which files the toolchain is (path, size, time of
     * change), its options, and for the host the CPU. Cheap: loads and runs nothing. False: the
     * reason it is missing. */
    bool (*describe)(char *text, size_t size);
    /* Its name and version for people, by loading or running it. False: why that failed. */
    bool (*version)(char *text, size_t size);
} Rtc;
/* Its dialect's; NULL: no such target, or one that is emitted only, which rtc_no_toolchain says. */
const Rtc *rtc_for_target(const char *target);
const char *rtc_no_toolchain(const char *target, Arena *arena);
const Rtc *rtc_named(const char *name);
void rtc_output_free(RtcOutput *output);

/* code.c: from the text of an image's variants to machine code, through the cache. */
/* Code of one variant, malloc'ed. */
typedef struct Code {
    void *data; /* NULL: nobody requested it yet */
    size_t size;
    bool from_cache; /* what it is said to be from */
    bool fresh;      /* nobody was told yet */
    bool asked;      /* by a request for several */
} Code;
/* The image of a step for one target, and its code as far as somebody requested it. */
typedef struct Made {
    ls_image *image;
    ls_image_tuning *tunings; /* its own, malloc'ed; NULL: none */
    ls_math math;
    Code *code;        /* by variant */
    atomic_flag *told; /* set where the log has which toolchain makes code for the target */
    const char
        *level; /* "cpu:x86-64-v3": code for that level of processors; NULL: for the target */
    struct KnownCode *known; /* of its variants, for axes of known lengths */
    struct Made *next;
} Made;
typedef struct CodeRequest {
    Made *made;
    uint32_t variant;
} CodeRequest;
/* Runs the toolchain for a text of an image, or says in `message` why it could not. Threads may do
 * so at once. */
ls_status code_make(const Made *made, const char *source, RtcForm form, RtcOutput *output,
                    char *message, size_t size);
/* Has made->code[variant] filled, from the cache or by the toolchain. */
ls_status code_get(Made *made, size_t variant, bool no_cache, char *message, size_t size);
/* Makes several at once, each once, as many side by side as there are processors; `done`, which may
 * be NULL, is called by the calling thread. What could not be made is not there afterwards. */
void code_make_all(const CodeRequest *requests, size_t count, bool no_cache,
                   void (*done)(void *user, size_t done), void *user);

/* known.c: code of a variant for axes of known lengths (row_axes of image.h). */
enum {
    KNOWN_MAX = 4,          /* of a variant */
    KNOWN_LENGTH_MAX = 1023 /* of an axis: longer rows gain nothing */
};
typedef enum KnownState { KNOWN_AWAITED, KNOWN_THERE, KNOWN_FAILED } KnownState;
typedef struct KnownCode {
    const Made *made;
    uint32_t variant;
    bool no_cache;
    const int64_t *lengths;  /* by axis; 0: as the arguments say */
    const char *options;     /* of the cache's key: "exact, c = 80" */
    const char *source;      /* NULL: not needed so far */
    Code code;               /* where it is KNOWN_THERE */
    _Atomic int state;       /* a KnownState */
    struct KnownCode *next;  /* of the image */
    struct KnownCode *after; /* in a queue */
} KnownCode;
/* Those of the lengths that a variant may have as constants (0: the others); false: none. */
bool known_lengths(const ls_image *image, uint32_t variant, const int64_t *given, int64_t *lengths);
KnownCode *known_find(const Made *made, uint32_t variant, const int64_t *lengths);
/* One that is not the image's yet; NULL: the variant has as many as it may. */
KnownCode *known_new(Arena *arena, const Made *made, uint32_t variant, const int64_t *lengths);
/* Takes it from the cache; false: it is not there. Makes it from its text, whatever that takes. */
bool known_load(KnownCode *known);
void known_make(KnownCode *known);
/* LS_OK without code: there is none yet. LS_ERROR_UNSUPPORTED: there will be none. */
ls_status known_take(const KnownCode *known, const void **code, size_t *size, int *from_cache);
/* Has a thread make them one after the other; *background, NULL at first, is the thread's. False:
 * there can be no thread. Closing waits for the one under way and forgets those that wait. */
typedef struct Background Background;
bool background_add(Background **background, KnownCode *known);
void background_close(Background *background);

/* kernels.c: code for CPUs made ahead of time. Of a variant's text, where there is some that runs
 * here: *data is malloc'ed, with a zero after its last byte. */
#define RTC_KERNELS_NAME "cpu-%s.kernels" /* of a level */
/* What stands for the toolchain in the keys of the cache, where there is none: what is loaded there
 * lies packed with others. */
void kernels_describe(char *text, size_t size);
bool kernels_load(const char *source, const char *math, void **data, size_t *size);
/* A file of them: what it holds, NULL where memory runs out, behind which as many as `room` may be
 * added, code of a level that the caller keeps; kernels_place orders all, packed to a quarter of
 * the bytes if wanted, and unwinds where memory runs out; the file is written whole, or stays. */
typedef struct Kernels Kernels;
Kernels *kernels_open(const char *path, size_t room);
void kernels_add(Kernels *kernels, const CodeRequest *request);
void kernels_place(Kernels *kernels, Arena *arena, bool packed);
ls_status kernels_write(const Kernels *kernels, const char *path, char *message, size_t size);
void kernels_close(Kernels *kernels);

/* compress.c: code packed as image.h says at ls_image_packed: the bytes; the text in base 85. */
Text compress_bytes(Arena *arena, const Text *code);
Text compress_code(Arena *arena, const Text *code);

/* ahead.c: the images of the steps to build, by step and then target, to a C file and the header
 * that belongs to it; unwinds when they cannot be made. */
typedef struct AheadImage {
    Made *made;
    uint32_t
        variant_count; /* without `image` only those of a layout of at most `last` are wanted */
    ls_image_layout last;
    const ls_image *image; /* where the kernels go into the file as C: with the shared texts */
    const Target *target;
    const struct AheadImage *parts; /* of a step with `for` */
    size_t part_count;
} AheadImage;
typedef struct AheadInput {
    Compiler *compiler;
    const ls_ahead_options *options;
    const AheadImage *images;
    size_t image_count; /* with the parts, which stand behind the steps */
    const Text *shared; /* what emit_step has put there */
    bool no_cache;
} AheadInput;
const char *ahead_text(const AheadInput *input, const char **header);

/* ahead_header.c: the header, and what the C file has in common with it. */
typedef struct AheadHeader {
    Arena *arena;
    const ls_ahead_options *options;
    Text text;
} AheadHeader;
/* What the names of a step's functions and of its structure begin with. */
const char *ahead_symbol(const AheadHeader *header, const ls_image *image);
bool ahead_has_length(const ls_image *image, size_t axis); /* whether the axis has a field */
/* Whether the structure holds the value of a rank-0 parameter, and no pointer to it; and whether
 * such a parameter has a default. */
bool ahead_is_value(const AheadHeader *header, const ls_image_parameter *parameter);
bool ahead_has_defaults(const AheadHeader *header, const ls_image *image);
void ahead_header_open(AheadHeader *header);
void ahead_header_step(AheadHeader *header, const ls_image *image);
const char *ahead_header_close(AheadHeader *header);

/* Whether the target is none of those that its toolchain is tried with; `tried` receives them. */
bool rtc_untried_target(const char *target, char *tried, size_t size);

/* What the toolchain made of a kernel, read from the image (ELF notes of a cubin, metadata of a
 * code object) or, for its accesses to device memory, from its instructions. -1 where unknown. */
enum { RTC_WIDTHS = 5 };
typedef struct RtcKernelStats {
    int registers, spill_bytes, shared_bytes, widest_access;
    int accesses[RTC_WIDTHS]; /* loads and stores of 1, 2, 4, 8 and 16 bytes (12 count as 8) */
    int instructions, local_accesses; /* of a cubin; else 0 */
} RtcKernelStats;
bool rtc_inspect(const char *target, const void *image, size_t size, const char *kernel,
                 RtcKernelStats *stats);
bool rtc_inspects(const char *target); /* false: code for it tells nothing */
/* The same for several kernels, which a disassembler reads at once; false if one is not there. */
bool rtc_inspect_all(const char *target, const void *image, size_t size, const char *const *kernels,
                     size_t count, RtcKernelStats *stats);

/* elf.c: bytes that may end anywhere, and the sections of an ELF file. elf_section: the one whose
 * name is that prefix and name; elf_string_is: whether the string at `offset` of a table is `text`,
 * its final zero included. */
typedef struct Bytes {
    const uint8_t *data;
    size_t size;
} Bytes;
bool bytes_part(Bytes whole, uint64_t offset, uint64_t size, Bytes *part);
bool bytes_read(Bytes whole, uint64_t offset, void *value, size_t size);
bool elf_section_at(Bytes elf, size_t index, Elf64_Shdr *section, Bytes *content);
bool elf_section(Bytes elf, const char *prefix, const char *name, Elf64_Shdr *section,
                 Bytes *content);
bool elf_string_is(Bytes strings, uint64_t offset, const char *text);

/* cubin.c: whether a kernel goes to local memory, for want of registers, so often that it is better
 * off with more of them for fewer threads; cubin_spills: whether one of an image does. */
bool rtc_spills(const RtcKernelStats *stats);
bool cubin_spills(const void *image, size_t size);
bool cubin_inspect(Bytes elf, const char *kernel, RtcKernelStats *stats);
void rtc_count_access(RtcKernelStats *stats, int bytes); /* to device memory */

/* output.c: all of `size` bytes to an open file; false with errno set. */
bool rtc_write(int file, const void *data, size_t size);

/* cache.c. The key of an image: a hash of everything it is a function of, Lockstep's own version
 * and numeric version included. `toolchain_version` is Rtc.describe's text; `options` is whatever
 * else the caller compiles with (the grade of the mathematics, the form). */
typedef struct CacheKey {
    char text[65]; /* hexadecimal, zero-terminated */
} CacheKey;
CacheKey cache_key(const char *source, size_t size, const char *target, const char *options,
                   const char *toolchain_version);
/* The directory's name; false: there is none that can be used. */
bool cache_folder(char *path, size_t size);
/* *data is malloc'ed, with a zero after its last byte. False: not there, or not to be trusted. */
bool cache_load(const CacheKey *key, void **data, size_t *size);
void cache_store(const CacheKey *key, const void *data, size_t size); /* best effort */
/* Removes the oldest entries until at most `limit` bytes are left; cache_store does so now and
 * then. */
void cache_trim(uint64_t limit);
/* Small text files beside the entries, whose names begin with "tuned-": loaded whole into `size`
 * bytes; stored (NULL: removed), with the reason where that fails; all those whose names begin with
 * `begin`, one after the other. */
bool cache_record_load(const char *name, char *text, size_t size);
bool cache_record_store(const char *name, const char *text, char *reason, size_t size);
void cache_record_each(const char *begin, char *text, size_t size,
                       void (*visit)(void *user, const char *text), void *user);

/* ---- what the toolchains' files and the helper program share ---- */

#include <sys/types.h>

/* rtc_hiprtc is what makes code for AMD devices: hipRTC or clang, see amd.c. rtc_clang is clang. */
extern const Rtc rtc_nvrtc, rtc_hiprtc, rtc_clang, rtc_host;

/* toolchain.c */
/* Sets the log and returns `status`. */
ls_status rtc_fail(RtcOutput *output, ls_status status, const char *format, ...) PRINTF_LIKE(3, 4);
double rtc_now(void); /* milliseconds of a clock that only goes forward */
/* Milliseconds of processor time that a toolchain may take: LOCKSTEP_COMPILE_TIMEOUT, in seconds;
 * 120 seconds without it. RTC_PATIENCE times as long may pass. */
double rtc_timeout(void);
enum { RTC_PATIENCE = 10 };
typedef enum RtcLate { RTC_IN_TIME, RTC_LATE_TIME, RTC_LATE_WAIT } RtcLate;
/* "used 120 seconds of processor time and was ended; ...": how to be given more. */
void rtc_explain_late(RtcLate late, double limit, char *text, size_t size);
/* Adds to `hash` what tells one version of a file from another: its real path, size and time of
 * last change. False if there is no such file. */
bool rtc_hash_file(Sha256 *hash, const char *path);
/* "NAME-HASH, PATH": the hash first, so that a short buffer cuts only what is for people. */
void rtc_identity(char *text, size_t size, const char *name, Sha256 hash, const char *path);
bool rtc_read_file(const char *path, size_t limit, char **data, size_t *size);

/* output.c: all of `size` bytes from an open file; false at its end. */
bool rtc_read(int file, void *data, size_t size);

/* folder.c: private folders. What makes one gets an open file that locks it while it lives, or
 * -1 and the reason; the sweep removes those in `place` that nobody holds. */
#define RTC_FOLDER_NAME "lockstep-compile-XXXXXX"
int rtc_folder_make(const char *const *places, uint64_t room, char *path, size_t size, char *reason,
                    size_t reason_size);
int rtc_folder_lock(const char *path);
void rtc_folder_remove(const char *path);
void rtc_folder_sweep(const char *place);
void rtc_folder_sweep_beside(const char *path); /* of a folder */
/* The folder for the temporary files of the helper with this number: it makes the folder and at its
 * end removes it; after a crash the library does. */
int rtc_scratch_make(pid_t helper, char *path, size_t size);
void rtc_scratch_remove(pid_t helper);

/* spawn.c: child processes of a program that is not ours: it may have threads, signal handlers
 * and blocked signals, and may reap children itself. */
/* Starts `path` with these words in a process group of its own, default signals, and the three
 * standard streams only. 0, or an errno value. */
int rtc_spawn(const char *path, char *const words[], int input, int output, pid_t *pid);
/* Starts the helper program (helper.c) so. */
int rtc_spawn_helper(char *const words[], int input, int output, pid_t *pid);
/* A memory file above the standard streams, which a child replaces; -1: there are none. */
int rtc_memory_file(const char *name);
/* Ends the child's whole group if it still runs at `deadline` (on rtc_now's clock; 0: at once).
 * False if it had to. *status is as from waitpid, or -1 when the program reaped our child before
 * us. */
bool rtc_reap(pid_t pid, double deadline, int *status);
/* "was killed by signal 11 (Segmentation fault)", "failed with exit status 3". */
void rtc_explain_exit(int status, char *text, size_t size);

/* run.c: programs that are run to their end in a folder of their own, and ended with all that
 * they started when they take too long or this program ends, however it ends. */
typedef struct RtcGuard {
    pid_t pid;
    int channel, output;
    char folder[4096]; /* "": none was asked for */
} RtcGuard;
#define RTC_LOG_LIMIT ((size_t)1 << 24) /* of what a program says, the rest is lost */
typedef struct RtcRun {
    char *log; /* malloc'ed; NULL: it said nothing */
    size_t log_size;
    int status; /* as from waitpid */
    RtcLate late;
} RtcRun;
bool rtc_guard_start(RtcGuard *guard, bool folder, uint64_t room, char *reason, size_t size);
bool rtc_guard_run(RtcGuard *guard, const char *path, char *const words[], RtcRun *run,
                   char *reason, size_t size);
void rtc_guard_end(RtcGuard *guard); /* with its folder */
enum { RTC_PLACES_MAX = 6 };
size_t rtc_places(const char *places[RTC_PLACES_MAX + 1], char *cache, size_t size);

/* program.c: compilers that are programs, each at work in a private folder that is its TMPDIR too.
 */
#define RTC_PATH_SIZE 4096
typedef struct RtcWork {
    RtcGuard guard;
    char source[RTC_PATH_SIZE + 32], object[RTC_PATH_SIZE + 32], result[RTC_PATH_SIZE + 32];
} RtcWork;
bool rtc_find_program(const char *name, char *path, size_t size); /* as a shell would */
/* Appends the words up to a NULL, and gives the new count. */
size_t rtc_add_words(char **words, size_t count, const char *const *more);
/* Makes the folder and work->source: `before`, and under a first line that makes messages speak of
 * `label` the source; where `label` is NULL, what is given is an image and stands there alone. */
ls_status rtc_work_start(RtcWork **work, const char *before, const char *source, size_t size,
                         const char *label, RtcOutput *output);
/* Runs a compiler, whose words end the output's log where it fails; else they are in run->log. */
ls_status rtc_work_run(RtcWork *work, const char *path, char *const words[], RtcRun *run,
                       RtcOutput *output);
/* work->result, which an image begins as ELF does, becomes the output. */
ls_status rtc_work_take(const RtcWork *work, const char *path, bool image, const char *log,
                        RtcOutput *output);
void rtc_work_end(RtcWork *work); /* with its folder */

/* cpu.c: what host code is made for. */
typedef struct RtcCpu {
    const char *name, *option,
        *zig_option;   /* the compiler's, and zig's, which spells them otherwise */
    const char *needs; /* words in /proc/cpuinfo */
    bool native;       /* this processor, and not a level of its architecture */
    bool wide, fma;    /* 512-bit vectors; a fused multiply-add instruction */
} RtcCpu;
enum { RTC_LEVELS_MAX = 8 };
/* Of target "cpu" what LOCKSTEP_CPU names, which has to run here; of "cpu:x86-64-v3" that level,
 * which need not. False: the reason. */
bool rtc_cpu_find(const char *target, RtcCpu *cpu, char *reason, size_t size);
/* The levels whose code runs here and which LOCKSTEP_CPU leaves, the best first. */
size_t rtc_cpu_levels(const char *levels[RTC_LEVELS_MAX]);
/* Adds what -march=native looks at: the processor's kind and its features. */
void rtc_cpu_hash(Sha256 *hash);

/* host.c: the command line of exact code for this processor as the product has it, ended by a NULL,
 * but for the words that say what to make of which file; with `optimisation`, "-O0" say, in place
 * of the product's, unless NULL. False: the reason. */
enum { RTC_HOST_WORDS = 48 };
typedef struct RtcHostLine {
    char *words[RTC_HOST_WORDS];
    char text[RTC_PATH_SIZE]; /* of the compiler's words */
} RtcHostLine;
bool rtc_host_line(RtcHostLine *line, const char *optimisation, char *reason, size_t size);

/* What a GPU toolchain is given to do. */
typedef enum RtcVerb { RTC_COMPILE, RTC_DISASSEMBLE, RTC_VERSION } RtcVerb;
typedef struct RtcJob {
    RtcVerb verb;
    RtcForm form;
    ls_math math;
    const char *label, *target;
    const char *source; /* for RTC_DISASSEMBLE an image */
    size_t size;
} RtcJob;

/* output.c: options.def as a table. What an option is for, one or several of: */
typedef enum RtcUse {
    RTC_USE_EXACT = 1, /* every grade of math but fast */
    RTC_USE_FAST = 2,
    RTC_USE_IMAGE = 4,      /* machine code, not assembly */
    RTC_USE_MINIMAL = 8,    /* a toolchain that knows --minimal */
    RTC_USE_SPILLED = 16,   /* the second attempt of a kernel that has spilled */
    RTC_USE_ASSEMBLY = 32,  /* assembly, not machine code */
    RTC_USE_ROCM_6 = 64,    /* a toolchain of ROCm 6 or later */
    RTC_USE_OBJECT_5 = 128, /* one that then makes code objects of version 5 */
    RTC_USE_LLVM_18 = 256,  /* LLVM 18 or later */
    RTC_USE_LLVM_17 = 512   /* an older one */
} RtcUse;
enum { RTC_OPTIONS_MAX = 48 };
typedef struct RtcOption {
    const char *toolchain; /* "nvrtc" */
    const char *text;
    unsigned uses;
} RtcOption;
extern const RtcOption rtc_options[];
extern const size_t rtc_option_count;
/* Appends to `list`, which has room for RTC_OPTIONS_MAX, the options of a toolchain that have one
 * of the uses; the new count. */
size_t rtc_add_options(const char *toolchain, unsigned uses, const char **list, size_t count);

/* hiprtc.c: numbers of comgr, the library that hipRTC is built on, held against its header by
 * tests/rtc/declarations_comgr.c. Its third version, of ROCm 6.4 and 7, left out two of the actions
 * before the one that disassembles. */
enum {
    COMGR_DATA_SOURCE = 1,
    COMGR_DATA_EXECUTABLE = 8,
    COMGR_DISASSEMBLE = 10,
    COMGR_DISASSEMBLE_2 = 12
};

/* nvrtc.c, hiprtc.c: one row per GPU toolchain. The library looks for the file; only the
 * helper loads it and calls `run`. */
typedef struct RtcSymbol {
    const char *name;
    size_t offset; /* of its function pointer in the toolchain's table of them */
} RtcSymbol;
enum { RTC_SYMBOLS_MAX = 16 };
typedef struct RtcToolchain {
    const char *name, *title; /* "nvrtc", "NVRTC" */
    Variable variable;        /* of the environment, for another file */
    const char *const *files, *const
                                  *folders; /* where to look, best first, NULL-terminated; a folder
                                               may begin with an environment variable: "$X/lib" */
    const char *const *companions;          /* files next to it that make the code too */
    const char *advice;                     /* what to install */
    const RtcSymbol *symbols;
    size_t symbol_count;
    uint32_t share; /* one of so many of rtc_timeout() is what a job may take; 0: all */
    ls_status (*run)(const void *symbols, const RtcJob *job, RtcOutput *output);
} RtcToolchain;
extern const RtcToolchain rtc_nvrtc_toolchain, rtc_hiprtc_toolchain, rtc_libclang_toolchain;
enum { RTC_TOOLCHAIN_NVRTC, RTC_TOOLCHAIN_HIPRTC, RTC_TOOLCHAIN_LIBCLANG, RTC_TOOLCHAIN_COUNT };
extern const RtcToolchain *const rtc_toolchains[RTC_TOOLCHAIN_COUNT];

/* gpu.c */
bool rtc_find_library(const RtcToolchain *toolchain, char *path, size_t path_size, char *reason,
                      size_t reason_size);
/* A hash of the options of a toolchain, too. */
void rtc_hash_options(Sha256 *hash, const char *toolchain);

/* gpu.c: hipRTC alone. LS_ERROR_UNSUPPORTED with the reason: it is not here, or does not know the
 * device. */
ls_status rtc_hiprtc_compile(const RtcJob *job, RtcOutput *output);
ls_status rtc_hiprtc_disassemble(const char *target, const void *image, size_t size,
                                 RtcOutput *output);
bool rtc_hiprtc_describe(char *text, size_t size);
bool rtc_hiprtc_version(char *text, size_t size);

/* clang.c: the same of clang. */
ls_status rtc_clang_compile(const RtcJob *job, RtcOutput *output);
ls_status rtc_clang_disassemble(const void *image, size_t size, RtcOutput *output);

/* amd.c: the text of a code object's instructions, by whichever can. */
ls_status rtc_disassemble(const char *target, const void *image, size_t size, RtcOutput *output);

/* header.c: Compiler.try_header. What begins its job's source. */
const char *rtc_try_header(Compiler *compiler, const CHeader *header);
typedef struct RtcHeader {
    uint32_t arguments, files; /* how many */
} RtcHeader;

/* process.c: has the helper do a job with the library at `path`. */
ls_status rtc_process_run(uint32_t toolchain, const char *path, const RtcJob *job,
                          RtcOutput *output);

/* helper.c: the helper's own program, and what goes through the socket that is its standard
 * input: a request, then path, label, target (each with its final zero) and source; a reply, then
 * data and log. */
extern const unsigned char rtc_helper_program[];
extern const size_t rtc_helper_program_size;
#define RTC_MAGIC 0x4c534b31u
typedef struct RtcRequest {
    uint32_t magic, toolchain, verb, form, math, unused;
    uint64_t path_size, label_size, target_size, source_size;
} RtcRequest;
typedef struct RtcReply {
    uint32_t magic, status;
    double milliseconds;
    uint64_t data_size, log_size;
} RtcReply;

/* guard.c: the helper program as `guard LIMIT ROOM PLACE...`. It replies once when it has its
 * folder, followed by the folder's name or the reason, and then to each request: a path and words,
 * each with its final zero. */
int rtc_guard(char **words, int channel);
typedef struct RtcGuardRequest {
    uint32_t magic, size;
} RtcGuardRequest;
typedef struct RtcGuardReply {
    uint32_t magic, late;
    int32_t error, status; /* error: an errno value */
    uint64_t size;
} RtcGuardReply;

#endif
