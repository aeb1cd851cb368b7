/* rtc_parts.h: what the rtc_*.c files and the helper program share; everybody else reads rtc.h. */
#ifndef RTC_PARTS_H
#define RTC_PARTS_H

#include <sys/types.h>

extern const Rtc rtc_nvrtc, rtc_hiprtc, rtc_host;

/* rtc.c */
/* Sets the log and returns `status`. */
ls_status rtc_fail(RtcOutput *output, ls_status status, const char *format, ...) PRINTF_LIKE(3, 4);
double rtc_now(void); /* milliseconds of a clock that only goes forward */
/* Milliseconds of processor time that a toolchain may take: LOCKSTEP_COMPILE_TIMEOUT, in seconds;
 * 120 seconds without it. RTC_PATIENCE times as long may pass. */
double rtc_timeout(void);
enum { RTC_PATIENCE = 10 };
typedef enum RtcLate { RTC_IN_TIME, RTC_LATE_TIME, RTC_LATE_WAIT } RtcLate;
/* "used 120 seconds of processor time and was ended; ...": how to be given more. */
void rtc_explain_late(RtcLate late, char *text, size_t size);
/* Adds to `hash` what tells one version of a file from another: its real path, size and time of
 * last change. False if there is no such file. */
bool rtc_hash_file(Sha256 *hash, const char *path);
/* "NAME-HASH, PATH": the hash first, so that a short buffer cuts only what is for people. */
void rtc_identity(char *text, size_t size, const char *name, Sha256 hash, const char *path);
bool rtc_read_file(const char *path, size_t limit, char **data, size_t *size);

/* rtc_output.c: all of `size` bytes from an open file; false at its end. */
bool rtc_read(int file, void *data, size_t size);

/* rtc_folder.c: private folders. What makes one gets an open file that locks it while it lives, or
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

/* rtc_spawn.c: child processes of a program that is not ours: it may have threads, signal handlers
 * and blocked signals, and may reap children itself. */
/* Starts `path` with these words in a process group of its own, default signals, and the three
 * standard streams only. 0, or an errno value. */
int rtc_spawn(const char *path, char *const words[], int input, int output, pid_t *pid);
/* Starts the helper program (rtc_helper.c) so. */
int rtc_spawn_helper(char *const words[], int input, int output, pid_t *pid);
/* A memory file above the standard streams, which a child replaces; -1: there are none. */
int rtc_memory_file(const char *name);
/* Ends the child's whole group if it still runs at `deadline` (on rtc_now's clock; 0: at once).
 * False if it had to. *status is as from waitpid, or -1 when the program reaped our child before
 * us. */
bool rtc_reap(pid_t pid, double deadline, int *status);
/* "was killed by signal 11 (Segmentation fault)", "failed with exit status 3". */
void rtc_explain_exit(int status, char *text, size_t size);

/* rtc_run.c: programs that are run to their end in a folder of their own, and ended with all that
 * they started when they take too long or this program ends, however it ends. */
typedef struct RtcGuard {
    pid_t pid;
    int channel, output;
    char folder[4096]; /* "": none was asked for */
} RtcGuard;
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
enum { RTC_PLACES_MOST = 6 };
size_t rtc_places(const char *places[RTC_PLACES_MOST + 1], char *cache, size_t size);

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
    uint32_t magic, toolchain, verb, form, math, unused;
    uint64_t path_size, label_size, target_size, source_size;
} RtcRequest;
typedef struct RtcReply {
    uint32_t magic, status;
    double milliseconds;
    uint64_t data_size, log_size;
} RtcReply;

/* rtc_guard.c: the helper program as `guard LIMIT ROOM PLACE...`. It replies once when it has its
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
