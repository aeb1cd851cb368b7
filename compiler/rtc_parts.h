/* rtc_parts.h: what the rtc_*.c files and the helper program share; everybody else reads rtc.h. */
#ifndef RTC_PARTS_H
#define RTC_PARTS_H

#include <sys/types.h>

extern const Rtc rtc_nvrtc, rtc_hiprtc, rtc_host;

/* rtc.c */
/* Sets the log and returns `status`. */
ls_status rtc_fail(RtcOutput *output, ls_status status, const char *format, ...) PRINTF_LIKE(3, 4);
double rtc_now(void); /* milliseconds of a clock that only goes forward */
/* The folder for the temporary files of the helper with this number: it makes the folder and at its
 * end removes it; after a crash the library does. */
void rtc_scratch_path(pid_t helper, char *path, size_t size);
void rtc_scratch_remove(const char *path);
double
rtc_timeout(void); /* milliseconds a toolchain may take: LOCKSTEP_COMPILE_TIMEOUT, in seconds, for
                      those whose machine or kernel is slow; 120 seconds without it */
/* Adds to `hash` what tells one version of a file from another: its real path, size and time of
 * last change. False if there is no such file. */
bool rtc_hash_file(Sha256 *hash, const char *path);
/* "NAME-HASH, PATH": the hash first, so that a short buffer cuts only what is for people. */
void rtc_identity(char *text, size_t size, const char *name, Sha256 hash, const char *path);
bool rtc_read_file(const char *path, size_t limit, char **data, size_t *size);

/* rtc_spawn.c: child processes of a program that is not ours: it may have threads, signal handlers
 * and blocked signals, and may reap children itself. */
/* Starts `path` with these words in a process group of its own, default signals, and the three
 * standard streams only; `environment` NULL: ours. 0, or an errno value. */
int rtc_spawn(const char *path, char *const words[], char *const environment[], int input,
              int output, pid_t *pid);
/* Ends the child's whole group if it still runs at `deadline` (on rtc_now's clock; 0: at once).
 * False if it had to. *status is as from waitpid, or -1 when the program reaped our child before
 * us. */
bool rtc_reap(pid_t pid, double deadline, int *status);
/* "was killed by signal 11 (Segmentation fault)", "failed with exit status 3". */
void rtc_explain_exit(int status, char *text, size_t size);

/* What a GPU toolchain is asked for. */
typedef enum RtcVerb { RTC_COMPILE, RTC_DISASSEMBLE, RTC_VERSION } RtcVerb;
typedef struct RtcJob {
    RtcVerb verb;
    RtcForm form;
    ls_math math;
    const char *label, *target;
    const char *source; /* for RTC_DISASSEMBLE an image */
    size_t size;
} RtcJob;

/* rtc_output.c: rtc_options.def as a table. What an option is for, one or several of: */
typedef enum RtcUse {
    RTC_USE_EXACT = 1, /* every grade of math but fast */
    RTC_USE_FAST = 2,
    RTC_USE_IMAGE = 4,   /* machine code, not assembly */
    RTC_USE_MINIMAL = 8, /* a toolchain that knows --minimal */
    RTC_USE_SPILLED = 16 /* the second attempt of a kernel that has spilled */
} RtcUse;
enum { RTC_OPTIONS_MAX = 16 };
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

/* rtc_nvrtc.c, rtc_hiprtc.c: one row per GPU toolchain. The library looks for the file; only the
 * helper loads it and calls `run`. */
typedef struct RtcSymbol {
    const char *name;
    size_t offset; /* of its function pointer in the toolchain's table of them */
} RtcSymbol;
enum { RTC_SYMBOLS_MAX = 16 };
typedef struct RtcToolchain {
    const char *name, *title; /* "nvrtc", "NVRTC" */
    const char *variable;     /* the environment's name for the file */
    const char *const *files, *const
                                  *folders; /* where to look, best first, NULL-terminated; a folder
                                               may begin with an environment variable: "$X/lib" */
    const char *const *companions;          /* files beside it that make the code too */
    const char *advice;                     /* what to install */
    const RtcSymbol *symbols;
    size_t symbol_count;
    ls_status (*run)(const void *symbols, const RtcJob *job, RtcOutput *output);
} RtcToolchain;
extern const RtcToolchain rtc_nvrtc_toolchain, rtc_hiprtc_toolchain;
enum { RTC_TOOLCHAIN_NVRTC, RTC_TOOLCHAIN_HIPRTC, RTC_TOOLCHAIN_COUNT };
extern const RtcToolchain *const rtc_toolchains[RTC_TOOLCHAIN_COUNT];

/* rtc_gpu.c */
bool rtc_find_library(const RtcToolchain *toolchain, char *path, size_t path_size, char *reason,
                      size_t reason_size);
ls_status rtc_disassemble(const char *target, const void *image, size_t size, RtcOutput *output);

/* rtc_process.c: has the helper do a job with the library at `path`. */
ls_status rtc_process_run(uint32_t toolchain, const char *path, const RtcJob *job,
                          RtcOutput *output);

/* rtc_helper.c: the helper's own program, and what goes through the socket that is its standard
 * input: a request, then path, label, target (each with its final zero) and source; a reply, then
 * data and log. */
extern const unsigned char rtc_helper_program[];
extern const size_t rtc_helper_program_size;
#define RTC_MAGIC 0x4c534b31u
typedef struct RtcRequest {
    uint32_t magic, toolchain, verb, form, math;
    uint32_t seconds; /* after which the helper ends itself, in case we are gone */
    uint64_t path_size, label_size, target_size, source_size;
} RtcRequest;
typedef struct RtcReply {
    uint32_t magic, status;
    double milliseconds;
    uint64_t data_size, log_size;
} RtcReply;

#endif
