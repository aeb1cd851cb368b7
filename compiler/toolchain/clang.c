/* clang.c: clang and its linker lld as a compiler for AMD devices, without ROCm: as many of them as
 * are here, the newest first, until one knows the device. 200 to 700 ms a kernel. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMPILERS_MAX = 8, WORDS_MAX = RTC_OPTIONS_MAX + 8, OLDEST = 17 };

/* Where to look, best first; a folder may begin with an environment variable. */
static const char *const names[] = {
    "clang-22",
    "clang-21",
    "clang-20",
    "clang-19",
    "clang-18",
    "clang-17",
    "$ROCM_PATH/llvm/bin/clang",
    "/opt/rocm/llvm/bin/clang",
    "/usr/lib/llvm-22/bin/clang",
    "/usr/lib/llvm-21/bin/clang",
    "/usr/lib/llvm-20/bin/clang",
    "/usr/lib/llvm-19/bin/clang",
    "/usr/lib/llvm-18/bin/clang",
    "/usr/lib/llvm-17/bin/clang",
    "clang",
};
static const char missing[] =
    "install clang and lld, 17 or newer, with the AMDGPU target (Debian: apt "
    "install clang-19 lld-19), or name the compiler with"
    " LOCKSTEP_CLANG_AMD";
static const char newer[] =
    "install a newer clang and lld with the AMDGPU target, 17 at least and 20 "
    "for gfx950 (https://apt.llvm.org has them for Debian), or name the "
    "compiler with LOCKSTEP_CLANG_AMD";

/* An older one fails at the first line, whatever it is called. */
static const char before[] =
    "#if __clang_major__ < 17\n#error clang 17 or newer is needed\n#endif\n";
_Static_assert(OLDEST == 17, "as the text says");

typedef struct Clang {
    char path[RTC_PATH_SIZE], real[RTC_PATH_SIZE];
} Clang;

static bool add(Clang *found, size_t *count, const char *path) {
    Clang *next = &found[*count];
    char *real = realpath(path, NULL);
    bool fits = real && strlen(real) < sizeof next->real && strlen(path) < sizeof next->path;
    for (size_t i = 0; fits && i < *count; i++) fits = strcmp(found[i].real, real) != 0;
    if (fits) {
        strcpy(next->path, path);
        strcpy(next->real, real);
        ++*count;
    }
    free(real);
    return fits;
}

/* Those that are here; 0 with the reason. `found` has room for COMPILERS_MAX. */
static size_t find(Clang *found, char *reason, size_t size) {
    const char *wish = environment_value(VARIABLE_LOCKSTEP_CLANG_AMD);
    char path[RTC_PATH_SIZE], name[RTC_PATH_SIZE];
    size_t count = 0;
    if (wish && *wish) {
        if (rtc_find_program(wish, path, sizeof path) && add(found, &count, path)) return count;
        snprintf(reason, size, "LOCKSTEP_CLANG_AMD is '%s', which is not a program", wish);
        return 0;
    }
    for (size_t i = 0; i < COUNT(names) && count < COMPILERS_MAX; i++) {
        const char *value = "", *rest = names[i];
        if (*rest == '$') {
            char variable[64];
            snprintf(variable, sizeof variable, "%.*s", (int)strcspn(rest, "/") - 1, rest + 1);
            value = environment_foreign(variable);
            rest += strcspn(rest, "/");
            if (!value || *value != '/') continue;
        }
        if ((size_t)snprintf(name, sizeof name, "%s%s", value, rest) < sizeof name &&
            rtc_find_program(name, path, sizeof path))
            add(found, &count, path);
    }
    if (!count) snprintf(reason, size, "no clang is here: %s", missing);
    return count;
}

/* A program next to the compiler's own file, else as the shell finds it. */
static bool find_beside(const Clang *clang, const char *name, char *path, size_t size) {
    const size_t folder = (size_t)(strrchr(clang->real, '/') - clang->real);
    if ((size_t)snprintf(path, size, "%.*s/%s", (int)folder, clang->real, name) < size &&
        access(path, X_OK) == 0)
        return true;
    return rtc_find_program(name, path, size);
}

static bool describe(char *text, size_t size) {
    Clang found[COMPILERS_MAX];
    char path[RTC_PATH_SIZE];
    Sha256 hash = sha256_open();
    const size_t count = find(found, text, size);
    if (!count) return false;
    for (size_t i = 0; i < count; i++) {
        rtc_hash_file(&hash, found[i].path);
        if (find_beside(&found[i], "lld", path, sizeof path)) rtc_hash_file(&hash, path);
    }
    rtc_hash_options(&hash, rtc_clang.name);
    rtc_identity(text, size, rtc_clang.name, hash, found[0].path);
    return true;
}

/* ---- running it ---- */

/* What the program says, malloc'ed; NULL if it cannot be run to a good end. */
static char *ask(const char *path, const char *const *more) {
    RtcGuard guard;
    RtcRun run = {0};
    char reason[512], *words[8] = {(char *)(uintptr_t)path};
    words[rtc_add_words(words, 1, more)] = NULL;
    if (!rtc_guard_start(&guard, false, 0, reason, sizeof reason)) return NULL;
    bool good = rtc_guard_run(&guard, path, words, &run, reason, sizeof reason);
    rtc_guard_end(&guard);
    if (good && run.late == RTC_IN_TIME && run.status == 0) return run.log;
    free(run.log);
    return NULL;
}

/* "Debian clang version 19.1.7 (3~deb12u1)" -> 19; 0: it does not say. */
static int major_of(const char *text) {
    static const char word[] = "clang version ";
    const char *at = text ? strstr(text, word) : NULL;
    return at ? atoi(at + strlen(word)) : 0;
}

static bool version(char *text, size_t size) {
    static const char *const words[] = {"--version", NULL};
    Clang found[COMPILERS_MAX];
    if (!find(found, text, size)) return false;
    char *said = ask(found[0].path, words);
    const bool good = major_of(said) >= OLDEST;
    if (good)
        snprintf(text, size, "%.*s (%s)", (int)strcspn(said, "\n"), said, found[0].path);
    else
        snprintf(text, size, "%s is not clang %d or newer: %s", found[0].path, OLDEST, newer);
    free(said);
    return good;
}

/* Why a compiler that failed could not have done it; false if it could: the source is at fault. */
static bool unfit(const Clang *clang, const char *target, char *reason, size_t size) {
    static const char *const words[] = {"--target=amdgcn-amd-amdhsa", "-nogpulib",
                                        "--print-supported-cpus", NULL};
    char chip[64], path[RTC_PATH_SIZE];
    snprintf(chip, sizeof chip, "\t%.*s\n", (int)strcspn(target, ":"), target);
    char *said = ask(clang->path, words);
    const int major = major_of(said);
    const bool knows = said && strstr(said, chip);
    free(said);
    if (major && major < OLDEST)
        snprintf(reason, size, "%s is clang %d", clang->path, major);
    else if (!knows)
        snprintf(reason, size, "%s%s%.0d knows no %.*s", clang->path, major ? ", version " : "",
                 major, (int)strcspn(target, ":"), target);
    else if (!find_beside(clang, "lld", path, sizeof path))
        snprintf(reason, size, "%s has no linker: lld is not here", clang->path);
    else
        return false;
    return true;
}

/* ---- compiling ---- */

static ls_status compile_for(const Clang *clang, RtcWork *work, const RtcJob *job, unsigned uses,
                             RtcOutput *output) {
    const char *options[RTC_OPTIONS_MAX + 1] = {NULL};
    char architecture[64], *words[WORDS_MAX] = {(char *)(uintptr_t)clang->path};
    const char *const last[] = {architecture, "-o", work->result, work->source, NULL};
    const bool image = job->form == RTC_IMAGE;
    RtcRun run;
    snprintf(architecture, sizeof architecture, "--offload-arch=%s", job->target);
    uses |= job->math == LS_MATH_FAST ? (unsigned)RTC_USE_FAST : (unsigned)RTC_USE_EXACT;
    uses |= image ? (unsigned)RTC_USE_IMAGE : (unsigned)RTC_USE_ASSEMBLY;
    options[rtc_add_options(rtc_clang.name, uses, options, 0)] = NULL;
    words[rtc_add_words(words, rtc_add_words(words, 1, options), last)] = NULL;
    ls_status status = rtc_work_run(work, clang->path, words, &run, output);
    if (status != LS_OK) return status;
    status = rtc_work_take(work, clang->path, image, run.log, output);
    free(run.log);
    return status;
}

static ls_status compile_with(const Clang *clang, RtcWork *work, const RtcJob *job,
                              RtcOutput *output) {
    static const char unknown[] = "Unknown command line argument";
    const ls_status status = compile_for(clang, work, job, RTC_USE_LLVM_18, output);
    if (status == LS_OK || !output->log || !strstr(output->log, unknown)) return status;
    return compile_for(clang, work, job, RTC_USE_LLVM_17, output);
}

ls_status rtc_clang_compile(const RtcJob *job, RtcOutput *output) {
    Clang found[COMPILERS_MAX];
    RtcWork *work;
    char reasons[2048] = "", reason[RTC_PATH_SIZE + 128] = "";
    const double start = rtc_now();
    const size_t count = find(found, reason, sizeof reason);
    const char *wish = environment_value(VARIABLE_LOCKSTEP_CLANG_AMD);
    *output = (RtcOutput){.maker = rtc_clang.name};
    if (!count)
        return rtc_fail(output, wish && *wish ? LS_ERROR_TOOLCHAIN : LS_ERROR_UNSUPPORTED, "%s",
                        reason);
    ls_status status = rtc_work_start(&work, before, job->source, job->size, job->label, output);
    if (status != LS_OK) return status;
    for (size_t i = 0; i < count; i++) {
        status = compile_with(&found[i], work, job, output);
        if (status == LS_OK && asprintf(&output->choice, "clang (%s)", found[i].path) < 0)
            output->choice = NULL;
        if (status == LS_OK || !unfit(&found[i], job->target, reason, sizeof reason)) break;
        const size_t used = strlen(reasons);
        snprintf(reasons + used, sizeof reasons - used, "%s%s", used ? "; " : "", reason);
        status = LS_ERROR_UNSUPPORTED;
    }
    rtc_work_end(work);
    output->milliseconds = rtc_now() - start;
    if (status == LS_ERROR_UNSUPPORTED) return rtc_fail(output, status, "%s; %s", reasons, newer);
    return status;
}

ls_status rtc_clang_disassemble(const void *image, size_t size, RtcOutput *output) {
    static const char *const options[] = {"-d", "--no-show-raw-insn", "--no-leading-addr", NULL};
    Clang found[COMPILERS_MAX];
    RtcWork *work;
    RtcRun run;
    char reason[512], path[RTC_PATH_SIZE], *words[8] = {path};
    *output = (RtcOutput){.maker = rtc_clang.name};
    if (!find(found, reason, sizeof reason) ||
        !find_beside(&found[0], "llvm-objdump", path, sizeof path))
        return rtc_fail(output, LS_ERROR_UNSUPPORTED, "the disassembler llvm-objdump is not here");
    ls_status status = rtc_work_start(&work, "", image, size, NULL, output);
    if (status != LS_OK) return status;
    const char *const last[] = {work->source, NULL};
    words[rtc_add_words(words, rtc_add_words(words, 1, options), last)] = NULL;
    status = rtc_work_run(work, path, words, &run, output);
    rtc_work_end(work);
    if (status != LS_OK) return status;
    if (!run.log || run.log_size >= RTC_LOG_LIMIT) {
        free(run.log);
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s does not say what is in the code", path);
    }
    status = rtc_fail(output, LS_OK, "%s", "");
    output->data = run.log;
    output->size = run.log_size;
    return status;
}

static ls_status compile(const char *source, size_t size, const char *label, const char *target,
                         RtcForm form, ls_math math, RtcOutput *output) {
    const RtcJob job = {RTC_COMPILE, form, math, label ? label : "kernel", target, source, size};
    const ls_status status = rtc_clang_compile(&job, output);
    return status == LS_ERROR_UNSUPPORTED ? LS_ERROR_TOOLCHAIN : status;
}

const Rtc rtc_clang = {"clang", compile, describe, version};
