/* host.c: the system's C compiler as a runtime compiler: 40 to 70 ms a kernel, and the code
 * stays readable. It runs as a process of its own in a private folder, under a time limit, and is
 * told everything that the numbers depend on: no contraction, no reassociation, never -ffast-math.
 */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX 48
#define PATH_SIZE 4096
#define ROOM ((uint64_t)1 << 20) /* bytes that a compile needs, and times its source's */
#define SOURCES 8
#define IMAGE_LIMIT ((size_t)1 << 30)

static const char *const compilers[] = {"clang", "gcc", "cc"};

/* In every command line, and so in every key. */
static const char *const options[] = {
    "-x",
    "c",
    "-std=c11",
    "-O3",
#if defined(__aarch64__)
    "-mcpu=native", /* clang's spelling of it there; gcc knows both */
#else
    "-march=native",
#endif
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-unroll-loops", /* vector loops are interleaved already; half of clang's compile time */
};
/* An object file that the linker makes the image of: asked for both at once, clang starts itself a
 * second time, which is a third of all. */
static const char *const object_options[] = {"-c", NULL}, *const assembly_options[] = {"-S", NULL};
static const char linker[] = "ld";
/* Where there is no such linker, or it does not take what the compiler gives. Kernels call nothing
 * but what memcpy-like idioms become, which the program has: no start files, no libraries. */
static const char *const link_options[] = {"-shared", "-nostdlib", NULL};
static const char exact_option[] = "-ffp-contract=off", fast_option[] = "-ffp-contract=fast";
/* Compilers choose 256 bits by themselves on most CPUs that have 512. */
static const char wide_option[] = "-mprefer-vector-width=512";
/* Without the instruction fma is a function: right, and 50 times slower. */
static const char fma_library[] = "-lm";

/* The words a command line begins with: "clang", or LOCKSTEP_CC split at spaces ("ccache gcc"). */
typedef struct Command {
    char text[PATH_SIZE]; /* the words, each ended by a zero */
    char *word[8];
    size_t count;
    char path[PATH_SIZE]; /* the program word[0] names */
} Command;

/* Finds a program as a shell would. */
static bool find_program(const char *name, char *path, size_t size) {
    if (strchr(name, '/'))
        return (size_t)snprintf(path, size, "%s", name) < size && access(path, X_OK) == 0;
    const char *folders = environment_foreign("PATH");
    if (!folders || !*folders) folders = "/usr/local/bin:/usr/bin:/bin";
    for (const char *next = folders; next;) {
        size_t length = strcspn(next, ":");
        struct stat status;
        if ((size_t)snprintf(path, size, "%.*s/%s", (int)length, length ? next : ".", name) <
                size &&
            stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
            return true;
        next = next[length] ? next + length + 1 : NULL;
    }
    return false;
}

/* Fills `command`, or `reason` with what to do about there being none. */
static bool find_compiler(Command *command, char *reason, size_t size) {
    const char *wish = environment_value(VARIABLE_LOCKSTEP_CC);
    if (wish && *wish) {
        command->count = 0;
        snprintf(command->text, sizeof command->text, "%s", wish);
        char *rest = NULL;
        for (char *word = strtok_r(command->text, " ", &rest);
             word && command->count < COUNT(command->word); word = strtok_r(NULL, " ", &rest))
            command->word[command->count++] = word;
        if (command->count && find_program(command->word[0], command->path, sizeof command->path))
            return true;
        snprintf(reason, size,
                 "LOCKSTEP_CC is '%s', which is not a program; name a C compiler such as gcc, or "
                 "unset it",
                 wish);
        return false;
    }
    for (size_t i = 0; i < COUNT(compilers); i++) {
        if (!find_program(compilers[i], command->path, sizeof command->path)) continue;
        command->count = 1;
        command->word[0] = command->text;
        strcpy(command->text, compilers[i]);
        return true;
    }
    snprintf(
        reason, size,
        "no C compiler: none of clang, gcc and cc is on PATH; install one (Debian: apt install "
        "clang, or gcc), or name one with LOCKSTEP_CC; programs built ahead of time need none");
    return false;
}

typedef struct Cpu {
    bool wide, fma; /* 512-bit vectors; a fused multiply-add instruction */
} Cpu;

/* What -march=native looks at: the lines of the first processor that name its kind and its
 * features. They go into `hash`, unless it is NULL. */
static Cpu cpu_read(Sha256 *hash) {
    static const char *const lines[] = {"vendor_id", "cpu family", "model", "stepping",
                                        "flags",     "Features",   "CPU ",  "isa"};
    char text[16384];
    int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[size < 0 ? 0 : size] = 0;
    char *end = strstr(text, "\n\n");
    if (end) end[1] = 0;
    for (char *line = text; hash && *line;) {
        size_t length = strcspn(line, "\n");
        for (size_t i = 0; i < COUNT(lines); i++)
            if (strncmp(line, lines[i], strlen(lines[i])) == 0) sha256_add(hash, line, length);
        line += length + (line[length] != 0);
    }
    unsigned long capabilities[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    if (hash) sha256_add(hash, capabilities, sizeof capabilities);
    return (Cpu){.wide = strstr(text, " avx512f ") != NULL,
                 .fma = !strstr(text, " sse2 ") || strstr(text, " fma ")};
}

static bool describe(char *text, size_t size) {
    Command command;
    if (!find_compiler(&command, text, size)) return false;
    Sha256 hash = sha256_open();
    for (size_t i = 0; i < command.count; i++) {
        char path[PATH_SIZE];
        sha256_add(&hash, command.word[i], strlen(command.word[i]) + 1);
        /* behind a wrapper such as ccache, the compiler itself */
        if (find_program(command.word[i], path, sizeof path)) rtc_hash_file(&hash, path);
    }
    for (size_t i = 0; i < COUNT(options); i++)
        sha256_add(&hash, options[i], strlen(options[i]) + 1);
    for (size_t i = 0; link_options[i]; i++)
        sha256_add(&hash, link_options[i], strlen(link_options[i]) + 1);
    char path[PATH_SIZE];
    if (find_program(linker, path, sizeof path)) rtc_hash_file(&hash, path);
    sha256_add(&hash, wide_option, sizeof wide_option);
    cpu_read(&hash);
    rtc_identity(text, size, rtc_host.name, hash, command.path);
    return true;
}

/* ---- running it ---- */

static bool version(char *text, size_t size) {
    Command command;
    RtcGuard guard;
    RtcRun run;
    char *words[COUNT(command.word) + 2] = {0};
    if (!find_compiler(&command, text, size)) return false;
    memcpy(words, command.word, command.count * sizeof *words);
    words[command.count] = (char[]){"--version"};
    if (!rtc_guard_start(&guard, false, 0, text, size)) return false;
    bool good = rtc_guard_run(&guard, command.path, words, &run, text, size);
    rtc_guard_end(&guard);
    if (!good) return false;
    good = run.late == RTC_IN_TIME && run.status == 0 && run.log_size;
    if (good)
        snprintf(text, size, "%.*s (%s)", (int)strcspn(run.log, "\n"), run.log, command.path);
    else
        snprintf(text, size, "%s --version does not work; name a C compiler with LOCKSTEP_CC",
                 command.path);
    free(run.log);
    return good;
}

/* ---- compiling ---- */

/* The source under a first line that makes messages speak of `label`. */
static bool write_source(const char *path, const char *source, size_t size, const char *label) {
    FILE *file = fopen(path, "wbe");
    if (!file) return false;
    fputs("#line 1 \"", file);
    for (const char *c = label ? label : "kernel"; *c; c++)
        fputc((unsigned char)*c < ' ' || *c == '"' || *c == '\\' ? '_' : *c, file);
    fputs("\"\n", file);
    bool good = fwrite(source, 1, size, file) == size;
    good = !ferror(file) && good;
    return fclose(file) == 0 && good;
}

/* The compile's folder is the compiler's TMPDIR too. */
typedef struct Folder {
    RtcGuard guard;
    char source[PATH_SIZE + 32], object[PATH_SIZE + 32], result[PATH_SIZE + 32];
} Folder;

/* Runs a compiler, whose words end the output's log where it fails; else they are in run->log. */
static ls_status run_compiler(Folder *folder, const char *path, char *const words[], RtcRun *run,
                              RtcOutput *output) {
    char reason[PATH_SIZE + 256];
    if (!rtc_guard_run(&folder->guard, path, words, run, reason, sizeof reason))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    if (run->late == RTC_IN_TIME && run->status == 0) return LS_OK;
    if (run->late != RTC_IN_TIME)
        rtc_explain_late(run->late, reason, sizeof reason);
    else
        rtc_explain_exit(run->status, reason, sizeof reason);
    rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s %s\n%s", path, reason, run->log ? run->log : "");
    free(run->log);
    run->log = NULL;
    return LS_ERROR_TOOLCHAIN;
}

/* rtc_guard_run takes char *const *; it does not write to the words. */
static size_t add_words(char **words, size_t count, const char *const *more) {
    while (*more) words[count++] = (char *)(uintptr_t)*more++;
    return count;
}

/* The object file as a shared object. False: the compiler has to do it. */
static bool link_object(Folder *folder) {
    const char *const parts[] = {linker, "-shared", "-o", folder->result, folder->object, NULL};
    char path[PATH_SIZE], *words[COUNT(parts) + 1];
    RtcRun run;
    RtcOutput output = {0};
    words[add_words(words, 0, parts)] = NULL;
    const bool linked = find_program(linker, path, sizeof path) &&
                        run_compiler(folder, path, words, &run, &output) == LS_OK;
    if (linked) free(run.log);
    rtc_output_free(&output);
    return linked;
}

/* From the source to folder->result; what the compiler says goes to *log. */
static ls_status make_result(Folder *folder, Command *command, RtcForm form, ls_math math,
                             char **log, RtcOutput *output) {
    const bool image = form == RTC_IMAGE;
    const Cpu cpu = cpu_read(NULL);
    const char *const end[] = {math == LS_MATH_FAST ? fast_option : exact_option,
                               "-o",
                               image ? folder->object : folder->result,
                               folder->source,
                               cpu.wide ? wide_option : NULL,
                               NULL};
    char *words[WORDS_MAX];
    RtcRun run;
    memcpy(words, command->word, command->count * sizeof *words);
    size_t count = command->count;
    for (size_t i = 0; i < COUNT(options); i++) words[count++] = (char *)(uintptr_t)options[i];
    count = add_words(words, count, image ? object_options : assembly_options);
    words[add_words(words, count, end)] = NULL;
    ls_status status = run_compiler(folder, command->path, words, &run, output);
    if (status != LS_OK) return status;
    *log = run.log;
    if (!image || (cpu.fma && link_object(folder))) return LS_OK;
    const char *const last[] = {"-o", folder->result, folder->object, cpu.fma ? NULL : fma_library,
                                NULL};
    count = add_words(words, command->count, link_options);
    words[add_words(words, count, last)] = NULL;
    status = run_compiler(folder, command->path, words, &run, output);
    if (status == LS_OK) free(run.log);
    return status;
}

/* The compiler itself, the folder and its files being there. */
static ls_status compile_in(Folder *folder, Command *command, RtcForm form, ls_math math,
                            RtcOutput *output) {
    char *log = NULL, *data = NULL;
    size_t size = 0;
    double start = rtc_now();
    ls_status status = make_result(folder, command, form, math, &log, output);
    output->milliseconds = rtc_now() - start;
    if (status == LS_OK &&
        (!rtc_read_file(folder->result, IMAGE_LIMIT, &data, &size) || size == 0)) {
        free(data);
        status = rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s left no result\n%s", command->path,
                          log ? log : "");
    } else if (status == LS_OK && form == RTC_IMAGE &&
               (size < 4 || memcmp(data, "\177ELF", 4) != 0)) {
        free(data);
        status =
            rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s left something that is no shared object\n%s",
                     command->path, log ? log : "");
    } else if (status == LS_OK) {
        status = rtc_fail(output, LS_OK, "%s", log ? log : "");
        output->data = data;
        output->size = size;
    }
    free(log);
    return status;
}

static ls_status compile(const char *source, size_t size, const char *label, const char *target,
                         RtcForm form, ls_math math, RtcOutput *output) {
    Command command;
    char reason[PATH_SIZE + 256];
    Folder *folder = NULL;
    *output = (RtcOutput){0};
    if (strcmp(target, LS_TARGET_CPU) != 0)
        return rtc_fail(output, LS_ERROR_ARGUMENT, "the host compiler has no target '%s'", target);
    if (!find_compiler(&command, reason, sizeof reason))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    folder = calloc(1, sizeof *folder);
    if (!folder) return rtc_fail(output, LS_ERROR_MEMORY, "out of memory");
    ls_status status = LS_ERROR_TOOLCHAIN;
    if (!rtc_guard_start(&folder->guard, true, ROOM + SOURCES * (uint64_t)size, reason,
                         sizeof reason)) {
        rtc_fail(output, status, "%s", reason);
        free(folder);
        return status;
    }
    const char *path = folder->guard.folder;
    snprintf(folder->source, sizeof folder->source, "%s/kernel.c", path);
    snprintf(folder->object, sizeof folder->object, "%s/kernel.o", path);
    snprintf(folder->result, sizeof folder->result, "%s/kernel.out", path);
    if (!write_source(folder->source, source, size, label))
        rtc_fail(output, status, "the source cannot be written to %s: %s", folder->source,
                 strerror(errno));
    else
        status = compile_in(folder, &command, form, math, output);
    rtc_guard_end(&folder->guard);
    free(folder);
    return status;
}

const Rtc rtc_host = {"host", compile, describe, version};
