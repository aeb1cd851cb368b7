/* hiprtc.c: AMD's runtime compiler, by our own declarations: HIP C++ in, code object out; and
 * its disassembler, which lives in the library hipRTC itself is built on (comgr). Runs in the
 * helper only; the library uses the row for looking for the file. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Program;

#define HIPRTC(X)                                                                        \
    X(int, hiprtcVersion, (int *major, int *minor))                                      \
    X(const char *, hiprtcGetErrorString, (int result))                                  \
    X(int, hiprtcCreateProgram,                                                          \
      (Program *, const char *source, const char *name, int count, const char **headers, \
       const char **names))                                                              \
    X(int, hiprtcCompileProgram, (Program, int count, const char **options))             \
    X(int, hiprtcDestroyProgram, (Program *))                                            \
    X(int, hiprtcGetProgramLogSize, (Program, size_t *))                                 \
    X(int, hiprtcGetProgramLog, (Program, char *))                                       \
    X(int, hiprtcGetCodeSize, (Program, size_t *))                                       \
    X(int, hiprtcGetCode, (Program, char *))

typedef struct Hiprtc {
#define X(result, name, arguments) result(*name) arguments;
    HIPRTC(X)
#undef X
} Hiprtc;
static const RtcSymbol symbols[] = {
#define X(result, name, arguments) {#name, offsetof(Hiprtc, name)},
    HIPRTC(X)
#undef X
};
_Static_assert(sizeof(Hiprtc) <= RTC_SYMBOLS_MAX * sizeof(void *),
               "the helper's table is too small");

static const char name[] = "hiprtc";

/* ---- disassembly ---- */

typedef struct Handle { /* comgr passes its handles by value, in a struct */
    uint64_t number;
} Handle;

#define COMGR(X)                                                                      \
    X(amd_comgr_get_isa_count, (size_t *))                                            \
    X(amd_comgr_get_isa_name, (size_t index, const char **name))                      \
    X(amd_comgr_create_data, (int kind, Handle *))                                    \
    X(amd_comgr_release_data, (Handle))                                               \
    X(amd_comgr_set_data, (Handle, size_t, const char *))                             \
    X(amd_comgr_set_data_name, (Handle, const char *))                                \
    X(amd_comgr_get_data, (Handle, size_t *, char *))                                 \
    X(amd_comgr_create_data_set, (Handle *))                                          \
    X(amd_comgr_destroy_data_set, (Handle))                                           \
    X(amd_comgr_data_set_add, (Handle, Handle))                                       \
    X(amd_comgr_action_data_get_data, (Handle set, int kind, size_t index, Handle *)) \
    X(amd_comgr_create_action_info, (Handle *))                                       \
    X(amd_comgr_destroy_action_info, (Handle))                                        \
    X(amd_comgr_action_info_set_isa_name, (Handle, const char *))                     \
    X(amd_comgr_do_action, (int action, Handle info, Handle in, Handle out))

typedef struct Comgr {
#define X(name, arguments) int(*name) arguments;
    COMGR(X)
#undef X
    size_t major, minor;
} Comgr;
static const RtcSymbol comgr_symbols[] = {
#define X(name, arguments) {#name, offsetof(Comgr, name)},
    COMGR(X)
#undef X
};
static const char *const comgr_files[] = {"libamd_comgr.so.3", "libamd_comgr.so.2",
                                          "libamd_comgr.so"};

static int disassemble_action(const Comgr *comgr) {
    return comgr->major >= 3 ? COMGR_DISASSEMBLE : COMGR_DISASSEMBLE_2;
}

/* hipRTC says that it is version 9.0, whichever it is. */
static bool is_of_rocm_6(const Comgr *comgr) {
    return comgr->major > 2 || (comgr->major == 2 && comgr->minor >= 6);
}

/* hipRTC has loaded it already, so the name is enough: that one, where several are installed. */
static bool load_comgr(Comgr *comgr) {
    void *library = NULL;
    void (*version)(size_t *, size_t *);
    for (size_t i = 0; i < COUNT(comgr_files) && !library; i++)
        library = dlopen(comgr_files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; i < COUNT(comgr_files) && !library; i++)
        library = dlopen(comgr_files[i], RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "amd_comgr_get_version") : NULL;
    if (!found) return false;
    memcpy(&version, &found, sizeof version);
    version(&comgr->major, &comgr->minor);
    for (size_t i = 0; library && i < COUNT(comgr_symbols); i++) {
        void *address = dlsym(library, comgr_symbols[i].name);
        if (!address) return false;
        memcpy((char *)comgr + comgr_symbols[i].offset, &address, sizeof address);
    }
    return library != NULL;
}

/* A code object as text. `output` holds the image on entry, the text on success. */
static ls_status disassemble(const char *target, const char *image, size_t size,
                             RtcOutput *output) {
    Comgr comgr;
    Handle in = {0}, out = {0}, data = {0}, text = {0}, info = {0};
    char isa[96];
    size_t length = 0;
    char *bytes = NULL;
    if (!load_comgr(&comgr))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN,
                        "the AMD disassembler is missing: libamd_comgr.so cannot be loaded");
    snprintf(isa, sizeof isa, "amdgcn-amd-amdhsa--%s", target);
    int failed = comgr.amd_comgr_create_data_set(&in);
    failed = failed || comgr.amd_comgr_create_data_set(&out);
    failed = failed || comgr.amd_comgr_create_data(COMGR_DATA_EXECUTABLE, &data);
    failed = failed || comgr.amd_comgr_set_data(data, size, image);
    failed = failed || comgr.amd_comgr_set_data_name(data, "kernel.so");
    failed = failed || comgr.amd_comgr_data_set_add(in, data);
    failed = failed || comgr.amd_comgr_create_action_info(&info);
    failed = failed || comgr.amd_comgr_action_info_set_isa_name(info, isa);
    failed = failed || comgr.amd_comgr_do_action(disassemble_action(&comgr), info, in, out);
    failed = failed || comgr.amd_comgr_action_data_get_data(out, COMGR_DATA_SOURCE, 0, &text);
    failed = failed || comgr.amd_comgr_get_data(text, &length, NULL);
    bytes = failed ? NULL : calloc(length + 1, 1);
    failed = failed || !bytes || comgr.amd_comgr_get_data(text, &length, bytes);
    if (text.number) comgr.amd_comgr_release_data(text);
    if (info.number) comgr.amd_comgr_destroy_action_info(info);
    if (data.number) comgr.amd_comgr_release_data(data);
    if (out.number) comgr.amd_comgr_destroy_data_set(out);
    if (in.number) comgr.amd_comgr_destroy_data_set(in);
    if (failed) {
        free(bytes);
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "the AMD disassembler refuses the code for %s",
                        target);
    }
    free(output->data);
    output->data = bytes;
    output->size = length;
    return LS_OK;
}

/* Whether it makes code for a device; asked beforehand, as hipRTC 5.2 aborts on one that it does
 * not know. Without its list it is tried. */
static bool knows(const char *target) {
    Comgr comgr;
    size_t count = 0;
    if (!load_comgr(&comgr) || comgr.amd_comgr_get_isa_count(&count)) return true;
    const size_t length = strcspn(target, ":");
    for (size_t i = 0; i < count; i++) {
        const char *isa = NULL, *chip;
        if (comgr.amd_comgr_get_isa_name(i, &isa) || !isa) continue;
        chip = strstr(isa, "--");
        if (chip && strncmp(chip + 2, target, length) == 0 && strlen(chip + 2) == length)
            return true;
    }
    return count == 0;
}

/* ---- compiling ---- */

static ls_status version(const Hiprtc *hiprtc, RtcOutput *output) {
    int major = 0, minor = 0;
    int result = hiprtc->hiprtcVersion(&major, &minor);
    if (result)
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "it does not say its version: %s",
                        hiprtc->hiprtcGetErrorString(result));
    return rtc_fail(output, LS_OK, "hipRTC %d.%d", major, minor);
}

static int take_log(const Hiprtc *hiprtc, Program program, char **log) {
    size_t size = 0;
    int result = hiprtc->hiprtcGetProgramLogSize(program, &size);
    *log = calloc(size + 1, 1);
    return result || !*log || size == 0 ? result : hiprtc->hiprtcGetProgramLog(program, *log);
}

static int take_code(const Hiprtc *hiprtc, Program program, RtcOutput *output) {
    size_t size = 0;
    int result = hiprtc->hiprtcGetCodeSize(program, &size);
    char *data = result ? NULL : calloc(size + 1, 1);
    if (data) result = hiprtc->hiprtcGetCode(program, data);
    output->data = data;
    output->size = size;
    return result;
}

static int compile(const Hiprtc *hiprtc, const RtcJob *job, const char *source, unsigned uses,
                   RtcOutput *output, char **log) {
    Program program = NULL;
    char architecture[64];
    snprintf(architecture, sizeof architecture, "--offload-arch=%s", job->target);
    const char *options[RTC_OPTIONS_MAX] = {architecture};
    const size_t count = rtc_add_options(name, uses, options, 1);
    int result = hiprtc->hiprtcCreateProgram(&program, source, job->label, 0, NULL, NULL);
    *log = NULL;
    if (result) return result;
    result = hiprtc->hiprtcCompileProgram(program, (int)count, options);
    int log_result = take_log(hiprtc, program, log);
    if (!result) result = log_result;
    if (!result) result = take_code(hiprtc, program, output);
    hiprtc->hiprtcDestroyProgram(&program);
    return result;
}

/* Whether a code object has version 5 or later, by the ABI's version in its header. Where hipRTC
 * makes bitcode first, as ROCm 5.7 does, the option is forgotten on the way: the text would look
 * for the number of blocks where it is not. */
static bool is_object_5(const RtcOutput *output) {
    enum { OBJECT_5 = 3 };
    const unsigned char *image = output->data;
    return output->size > EI_ABIVERSION && image[EI_ABIVERSION] >= OBJECT_5;
}

static ls_status run(const void *table, const RtcJob *job, RtcOutput *output) {
    const Hiprtc *hiprtc = table;
    Comgr comgr;
    if (job->verb == RTC_VERSION) return version(hiprtc, output);
    if (!knows(job->target)) {
        RtcOutput version_output = {0};
        ls_status known = version(hiprtc, &version_output);
        rtc_fail(output, LS_OK, "%s knows no %s",
                 known == LS_OK ? version_output.log : "the hipRTC here", job->target);
        rtc_output_free(&version_output);
        return LS_ERROR_UNSUPPORTED;
    }
    if (job->verb == RTC_DISASSEMBLE) {
        ls_status status = disassemble(job->target, job->source, job->size, output);
        if (status == LS_OK && !output->log) output->log = calloc(1, 1);
        return status;
    }
    unsigned uses = job->math == LS_MATH_FAST ? RTC_USE_FAST : RTC_USE_EXACT;
    if (load_comgr(&comgr) && is_of_rocm_6(&comgr)) uses |= RTC_USE_ROCM_6 | RTC_USE_OBJECT_5;
    char *log = NULL, *source = NULL;
    /* hipRTC calls the source by a temporary name of its own unless the source says better. */
    if (asprintf(&source, "#line 1 \"%s\"\n%s", job->label, job->source) < 0)
        return LS_ERROR_MEMORY;
    int result = compile(hiprtc, job, source, uses, output, &log);
    if (!result && (uses & RTC_USE_OBJECT_5) && output->data && !is_object_5(output)) {
        free(log);
        free(output->data);
        output->data = NULL;
        result = compile(hiprtc, job, source, uses & ~(unsigned)RTC_USE_OBJECT_5, output, &log);
    }
    free(source);
    if (result) {
        ls_status status =
            rtc_fail(output, LS_ERROR_TOOLCHAIN, "hipRTC for %s: %s\n%s", job->target,
                     hiprtc->hiprtcGetErrorString(result), log ? log : "");
        free(log);
        return status;
    }
    output->log = log;
    if (!output->data || !log) return LS_ERROR_MEMORY;
    if (job->form == RTC_ASSEMBLY)
        return disassemble(job->target, output->data, output->size, output);
    return LS_OK;
}

/* Since ROCm 5.5 hipRTC has a file of its own; before, it is part of the HIP runtime. */
static const char *const files[] = {
    "libhiprtc.so",     "libhiprtc.so.7",   "libhiprtc.so.6",   "libamdhip64.so",
    "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", NULL};
static const char *const folders[] = {"$ROCM_PATH/lib", "$ROCM_HOME/lib", "$HIP_PATH/lib",
                                      "/opt/rocm/lib", NULL};
static const char *const companions[] = {"libamd_comgr.so.3",       "libamd_comgr.so.2",
                                         "libhiprtc-builtins.so.7", "libhiprtc-builtins.so.6",
                                         "libhiprtc-builtins.so.5", NULL};

const RtcToolchain rtc_hiprtc_toolchain = {
    .name = name,
    .title = "hipRTC",
    .variable = VARIABLE_LOCKSTEP_HIPRTC,
    .files = files,
    .folders = folders,
    .companions = companions,
    .advice =
        "install it (Debian: apt install libamdhip64-dev; elsewhere with ROCm), or name the file "
        "with LOCKSTEP_HIPRTC",
    .symbols = symbols,
    .symbol_count = COUNT(symbols),
    .run = run,
};
