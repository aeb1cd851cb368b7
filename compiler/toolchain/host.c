/* host.c: the system's C compiler as a runtime compiler: 40 to 70 ms a kernel, and the code
 * stays readable. It runs as a process of its own in a private folder, under a time limit, and is
 * told everything that the numbers depend on: no contraction, no reassociation, never -ffast-math.
 */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE RTC_PATH_SIZE

static const char *const compilers[] = {"clang", "gcc", "cc"};

static const char level[] = "-O3";
/* In every command line, and so in every key. */
static const char *const options[] = {
    "-x",
    "c",
    "-std=c11",
    "-g0", /* zig's default has debugging information */
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-unroll-loops", /* vector loops are interleaved already; half of clang's compile time */
#if defined(__aarch64__)
    "-mno-outline-atomics", /* which are functions of a library that kernels have not */
#endif
};
/* An object file that the linker makes the image of: told to do both at once, clang starts itself a
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
    bool zig;             /* "zig cc", "python -m ziglang cc" */
} Command;

/* Whether one of the words is zig, which spells names of processors otherwise than clang. */
static bool is_zig(const Command *command) {
    for (size_t i = 0; i < command->count; i++) {
        const char *slash = strrchr(command->word[i], '/');
        const char *name = slash ? slash + 1 : command->word[i];
        if (strcmp(name, "zig") == 0 || strcmp(name, "ziglang") == 0) return true;
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
        command->zig = is_zig(command);
        if (command->count &&
            rtc_find_program(command->word[0], command->path, sizeof command->path))
            return true;
        snprintf(reason, size,
                 "LOCKSTEP_CC is '%s', which is not a program; name a C compiler such as gcc, or "
                 "unset it",
                 wish);
        return false;
    }
    for (size_t i = 0; i < COUNT(compilers); i++) {
        if (!rtc_find_program(compilers[i], command->path, sizeof command->path)) continue;
        command->count = 1;
        command->zig = false;
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

static bool describe(char *text, size_t size) {
    Command command;
    RtcCpu cpu;
    if (!find_compiler(&command, text, size) || !rtc_cpu_find(LS_TARGET_CPU, &cpu, text, size))
        return false;
    Sha256 hash = sha256_open();
    for (size_t i = 0; i < command.count; i++) {
        char path[PATH_SIZE];
        sha256_add(&hash, command.word[i], strlen(command.word[i]) + 1);
        /* behind a wrapper such as ccache, the compiler itself */
        if (rtc_find_program(command.word[i], path, sizeof path)) rtc_hash_file(&hash, path);
    }
    for (size_t i = 0; i < COUNT(options); i++)
        sha256_add(&hash, options[i], strlen(options[i]) + 1);
    sha256_add(&hash, level, sizeof level);
    for (size_t i = 0; link_options[i]; i++)
        sha256_add(&hash, link_options[i], strlen(link_options[i]) + 1);
    char path[PATH_SIZE];
    if (rtc_find_program(linker, path, sizeof path)) rtc_hash_file(&hash, path);
    sha256_add(&hash, wide_option, sizeof wide_option);
    sha256_add(&hash, cpu.option, strlen(cpu.option) + 1);
    if (cpu.native) rtc_cpu_hash(&hash);
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

/* The object file as a shared object. False: the compiler has to do it. */
static bool link_object(RtcWork *work) {
    const char *const parts[] = {linker, "-shared",    "-s",         "-z", "noseparate-code",
                                 "-o",   work->result, work->object, NULL};
    char path[PATH_SIZE], *words[COUNT(parts) + 1];
    RtcRun run;
    RtcOutput output = {0};
    words[rtc_add_words(words, 0, parts)] = NULL;
    const bool linked = rtc_find_program(linker, path, sizeof path) &&
                        rtc_work_run(work, path, words, &run, &output) == LS_OK;
    if (linked) free(run.log);
    rtc_output_free(&output);
    return linked;
}

/* The words of a command line up to those that say what to make of which file; gives how many. */
static size_t begin_line(char *words[RTC_HOST_WORDS], Command *command, const RtcCpu *cpu,
                         const char *optimisation, ls_math math) {
    const char *const numbers[] = {math == LS_MATH_FAST ? fast_option : exact_option,
                                   command->zig ? cpu->zig_option : cpu->option,
                                   cpu->wide ? wide_option : NULL, NULL};
    memcpy(words, command->word, command->count * sizeof *words);
    size_t count = command->count;
    for (size_t i = 0; i < COUNT(options); i++) words[count++] = (char *)(uintptr_t)options[i];
    words[count++] = (char *)(uintptr_t)optimisation;
    count = rtc_add_words(words, count, numbers);
    words[count] = NULL;
    return count;
}

bool rtc_host_line(RtcHostLine *line, const char *optimisation, char *reason, size_t size) {
    Command command;
    RtcCpu cpu;
    if (!find_compiler(&command, reason, size) || !rtc_cpu_find(LS_TARGET_CPU, &cpu, reason, size))
        return false;
    size_t count =
        begin_line(line->words, &command, &cpu, optimisation ? optimisation : level, LS_MATH_EXACT);
    memcpy(line->text, command.text, sizeof line->text);
    for (size_t i = 0; i < command.count; i++)
        line->words[i] = line->text + (command.word[i] - command.text);
    const char *const library[] = {cpu.fma ? NULL : fma_library, NULL};
    line->words[rtc_add_words(line->words, count, library)] = NULL;
    return true;
}

/* From the source to work->result; what the compiler says goes to *log. */
static ls_status make_result(RtcWork *work, Command *command, const RtcCpu *cpu, RtcForm form,
                             ls_math math, char **log, RtcOutput *output) {
    const bool image = form == RTC_IMAGE;
    const char *const end[] = {"-o", image ? work->object : work->result, work->source, NULL};
    char *words[RTC_HOST_WORDS];
    RtcRun run;
    size_t count = begin_line(words, command, cpu, level, math);
    count = rtc_add_words(words, count, image ? object_options : assembly_options);
    words[rtc_add_words(words, count, end)] = NULL;
    ls_status status = rtc_work_run(work, command->path, words, &run, output);
    if (status != LS_OK) return status;
    *log = run.log;
    if (!image || (cpu->fma && link_object(work))) return LS_OK;
    const char *const last[] = {"-o", work->result, work->object, cpu->fma ? NULL : fma_library,
                                NULL};
    count = rtc_add_words(words, command->count, link_options);
    words[rtc_add_words(words, count, last)] = NULL;
    status = rtc_work_run(work, command->path, words, &run, output);
    if (status == LS_OK) free(run.log);
    return status;
}

/* The compiler itself, the folder and its files being there. */
static ls_status compile_in(RtcWork *work, Command *command, const RtcCpu *cpu, RtcForm form,
                            ls_math math, RtcOutput *output) {
    char *log = NULL;
    double start = rtc_now();
    ls_status status = make_result(work, command, cpu, form, math, &log, output);
    output->milliseconds = rtc_now() - start;
    if (status == LS_OK)
        status = rtc_work_take(work, command->path, form == RTC_IMAGE, log, output);
    free(log);
    return status;
}

static ls_status compile(const char *source, size_t size, const char *label, const char *target,
                         RtcForm form, ls_math math, RtcOutput *output) {
    Command command;
    RtcCpu cpu;
    RtcWork *work;
    char reason[PATH_SIZE + 256];
    *output = (RtcOutput){0};
    if (strncmp(target, LS_TARGET_CPU, strlen(LS_TARGET_CPU)) != 0)
        return rtc_fail(output, LS_ERROR_ARGUMENT, "the host compiler has no target '%s'", target);
    if (!find_compiler(&command, reason, sizeof reason) ||
        !rtc_cpu_find(target, &cpu, reason, sizeof reason))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    ls_status status = rtc_work_start(&work, "", source, size, label, output);
    if (status != LS_OK) return status;
    status = compile_in(work, &command, &cpu, form, math, output);
    rtc_work_end(work);
    return status;
}

const Rtc rtc_host = {"host", compile, describe, version};
