/* host.c: the system's C compiler as a runtime compiler: 40 to 70 ms a kernel, and the code
 * stays readable. It runs as a process of its own in a private folder, under a time limit, and is
 * told everything that the numbers depend on: no contraction, no reassociation, never -ffast-math.
 */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define WORDS_MAX 48
#define PATH_SIZE RTC_PATH_SIZE
#define CPUINFO_SIZE 16384

static const char *const compilers[] = {"clang", "gcc", "cc"};

/* In every command line, and so in every key. */
static const char *const options[] = {
    "-x",
    "c",
    "-std=c11",
    "-O3",
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
} Command;

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

/* What code is made for: LOCKSTEP_CPU. */
typedef struct Cpu {
    const char *name, *option;
    const char *needs; /* words in /proc/cpuinfo */
    bool wide, fma;    /* 512-bit vectors; a fused multiply-add instruction */
} Cpu;

/* The first is what is taken unless one is chosen: this processor. */
static const Cpu cpus[] = {
#if defined(__aarch64__)
    {"native", "-mcpu=native", "", false, true}, /* clang's spelling of it; gcc knows both */
    {"baseline", "-march=armv8-a", "", false, true},
#elif defined(__x86_64__)
    {"native", "-march=native", "", false, false},
    {"baseline", "-march=x86-64", "", false, false},
    {"x86-64-v2", "-march=x86-64-v2", "cx16 popcnt ssse3 sse4_1 sse4_2", false, false},
    {"x86-64-v3", "-march=x86-64-v3", "abm avx2 bmi1 bmi2 f16c fma movbe", false, true},
    {"x86-64-v4", "-march=x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma", true,
     true},
#else
    {"native", "-march=native", "", false, true},
#endif
};

/* Whether the word stands in the text, between blanks. */
static bool has_word(const char *text, const char *word, size_t size) {
    for (const char *at = text; (at = strchr(at, *word)); at++)
        if (strncmp(at, word, size) == 0 && strchr(" \n", at[size]) && at > text &&
            strchr(" \t", at[-1]))
            return true;
    return false;
}

/* The first processor's part of /proc/cpuinfo, without the empty line behind it. */
static void read_cpuinfo(char *text, size_t room) {
    int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, text, room - 1);
    if (file >= 0) close(file);
    text[size < 0 ? 0 : size] = 0;
    char *end = strstr(text, "\n\n");
    if (end) end[1] = 0;
}

/* Fills `cpu`, or `reason` with why code cannot be made for what LOCKSTEP_CPU names. */
static bool find_cpu(const char *info, Cpu *cpu, char *reason, size_t size) {
    const char *wish = environment_value(VARIABLE_LOCKSTEP_CPU);
    size_t found = 0, used;
    while (wish && *wish && found < COUNT(cpus) && strcmp(wish, cpus[found].name) != 0) found++;
    if (found == COUNT(cpus)) {
        used = (size_t)snprintf(reason, size, "LOCKSTEP_CPU is '%s'; here it may be", wish);
        for (size_t i = 0; i < COUNT(cpus) && used < size; i++)
            used +=
                (size_t)snprintf(reason + used, size - used, "%s %s", i ? "," : "", cpus[i].name);
        return false;
    }
    *cpu = cpus[found];
    for (const char *word = cpu->needs; *word;) {
        const size_t length = strcspn(word, " ");
        if (!has_word(info, word, length)) {
            snprintf(reason, size,
                     "LOCKSTEP_CPU is %s, and this processor has no %.*s; leave it unset or take a "
                     "lower one",
                     cpu->name, (int)length, word);
            return false;
        }
        word += length + (word[length] == ' ');
    }
    if (found == 0) {
        cpu->wide = has_word(info, "avx512f", 7);
        cpu->fma = !has_word(info, "sse2", 4) || has_word(info, "fma", 3);
    }
    return true;
}

/* What -march=native looks at: the lines that name the processor's kind and its features. */
static void hash_cpu(const char *info, Sha256 *hash) {
    static const char *const lines[] = {"vendor_id", "cpu family", "model", "stepping",
                                        "flags",     "Features",   "CPU ",  "isa"};
    while (*info) {
        const size_t length = strcspn(info, "\n");
        for (size_t i = 0; i < COUNT(lines); i++)
            if (strncmp(info, lines[i], strlen(lines[i])) == 0) sha256_add(hash, info, length);
        info += length + (info[length] != 0);
    }
    unsigned long capabilities[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    sha256_add(hash, capabilities, sizeof capabilities);
}

static bool describe(char *text, size_t size) {
    Command command;
    Cpu cpu;
    char info[CPUINFO_SIZE];
    read_cpuinfo(info, sizeof info);
    if (!find_compiler(&command, text, size) || !find_cpu(info, &cpu, text, size)) return false;
    Sha256 hash = sha256_open();
    for (size_t i = 0; i < command.count; i++) {
        char path[PATH_SIZE];
        sha256_add(&hash, command.word[i], strlen(command.word[i]) + 1);
        /* behind a wrapper such as ccache, the compiler itself */
        if (rtc_find_program(command.word[i], path, sizeof path)) rtc_hash_file(&hash, path);
    }
    for (size_t i = 0; i < COUNT(options); i++)
        sha256_add(&hash, options[i], strlen(options[i]) + 1);
    for (size_t i = 0; link_options[i]; i++)
        sha256_add(&hash, link_options[i], strlen(link_options[i]) + 1);
    char path[PATH_SIZE];
    if (rtc_find_program(linker, path, sizeof path)) rtc_hash_file(&hash, path);
    sha256_add(&hash, wide_option, sizeof wide_option);
    sha256_add(&hash, cpu.option, strlen(cpu.option) + 1);
    if (strcmp(cpu.name, cpus[0].name) == 0) hash_cpu(info, &hash);
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
    const char *const parts[] = {linker, "-shared", "-o", work->result, work->object, NULL};
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

/* From the source to work->result; what the compiler says goes to *log. */
static ls_status make_result(RtcWork *work, Command *command, const Cpu *cpu, RtcForm form,
                             ls_math math, char **log, RtcOutput *output) {
    const bool image = form == RTC_IMAGE;
    const char *const end[] = {math == LS_MATH_FAST ? fast_option : exact_option,
                               "-o",
                               image ? work->object : work->result,
                               work->source,
                               cpu->option,
                               cpu->wide ? wide_option : NULL,
                               NULL};
    char *words[WORDS_MAX];
    RtcRun run;
    memcpy(words, command->word, command->count * sizeof *words);
    size_t count = command->count;
    for (size_t i = 0; i < COUNT(options); i++) words[count++] = (char *)(uintptr_t)options[i];
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
static ls_status compile_in(RtcWork *work, Command *command, const Cpu *cpu, RtcForm form,
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
    Cpu cpu;
    RtcWork *work;
    char reason[PATH_SIZE + 256], info[CPUINFO_SIZE];
    *output = (RtcOutput){0};
    if (strcmp(target, LS_TARGET_CPU) != 0)
        return rtc_fail(output, LS_ERROR_ARGUMENT, "the host compiler has no target '%s'", target);
    read_cpuinfo(info, sizeof info);
    if (!find_compiler(&command, reason, sizeof reason) ||
        !find_cpu(info, &cpu, reason, sizeof reason))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    ls_status status = rtc_work_start(&work, "", source, size, label, output);
    if (status != LS_OK) return status;
    status = compile_in(work, &command, &cpu, form, math, output);
    rtc_work_end(work);
    return status;
}

const Rtc rtc_host = {"host", compile, describe, version};
