/* nvrtc.c: NVIDIA's runtime compiler, by our own declarations: CUDA C in, cubin or PTX out.
 * Runs in the helper only; the library uses the row for looking for the file. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Program;

#define NVRTC(X)                                                                               \
    X(int, nvrtcVersion, (int *major, int *minor))                                             \
    X(const char *, nvrtcGetErrorString, (int result))                                         \
    X(int, nvrtcCreateProgram,                                                                 \
      (Program *, const char *source, const char *name, int count, const char *const *headers, \
       const char *const *names))                                                              \
    X(int, nvrtcCompileProgram, (Program, int count, const char *const *options))              \
    X(int, nvrtcDestroyProgram, (Program *))                                                   \
    X(int, nvrtcGetProgramLogSize, (Program, size_t *))                                        \
    X(int, nvrtcGetProgramLog, (Program, char *))                                              \
    X(int, nvrtcGetPTXSize, (Program, size_t *))                                               \
    X(int, nvrtcGetPTX, (Program, char *))                                                     \
    X(int, nvrtcGetCUBINSize, (Program, size_t *))                                             \
    X(int, nvrtcGetCUBIN, (Program, char *))                                                   \
    X(int, nvrtcGetNumSupportedArchs, (int *count))                                            \
    X(int, nvrtcGetSupportedArchs, (int *numbers))

typedef struct Nvrtc {
#define X(result, name, arguments) result(*name) arguments;
    NVRTC(X)
#undef X
} Nvrtc;
static const RtcSymbol symbols[] = {
#define X(result, name, arguments) {#name, offsetof(Nvrtc, name)},
    NVRTC(X)
#undef X
};
_Static_assert(sizeof(Nvrtc) <= RTC_SYMBOLS_MAX * sizeof(void *),
               "the helper's table is too small");

static const char name[] = "nvrtc";
static const int minimal_since = 13;
static const char spilled[] = "spilled"; /* in the log of a kernel that has */

static ls_status version(const Nvrtc *nvrtc, RtcOutput *output) {
    int major = 0, minor = 0;
    int result = nvrtc->nvrtcVersion(&major, &minor);
    if (result)
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "it does not say its version: %s",
                        nvrtc->nvrtcGetErrorString(result));
    return rtc_fail(output, LS_OK, "NVRTC %d.%d", major, minor);
}

static int take_log(const Nvrtc *nvrtc, Program program, char **log) {
    size_t size = 0;
    int result = nvrtc->nvrtcGetProgramLogSize(program, &size);
    *log = calloc(size + 1, 1);
    return result || !*log || size == 0 ? result : nvrtc->nvrtcGetProgramLog(program, *log);
}

static int take_code(const Nvrtc *nvrtc, Program program, bool ptx, RtcOutput *output) {
    size_t size = 0;
    int result =
        ptx ? nvrtc->nvrtcGetPTXSize(program, &size) : nvrtc->nvrtcGetCUBINSize(program, &size);
    char *data = result ? NULL : calloc(size + 1, 1);
    if (data)
        result = ptx ? nvrtc->nvrtcGetPTX(program, data) : nvrtc->nvrtcGetCUBIN(program, data);
    output->data = data;
    output->size = size;
    return result;
}

/* Whether it makes code for architecture `number` ("90a"); if not, with the list of those it knows.
 */
static bool knows(const Nvrtc *nvrtc, const char *number, char *list, size_t size) {
    enum { MOST = 64 };
    int numbers[MOST], count = 0, wanted = atoi(number);
    bool found = false;
    list[0] = 0;
    if (nvrtc->nvrtcGetNumSupportedArchs(&count) != 0 || count < 1 || count > MOST ||
        nvrtc->nvrtcGetSupportedArchs(numbers) != 0)
        return true; /* then it will say so itself */
    for (int i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, size - used, "%ssm_%d", i ? ", " : "", numbers[i]);
        found = found || numbers[i] == wanted;
    }
    return found;
}

static int compile(const Nvrtc *nvrtc, const RtcJob *job, const char *const *options, size_t count,
                   bool ptx, RtcOutput *output, char **log) {
    Program program = NULL;
    *log = NULL;
    int result = nvrtc->nvrtcCreateProgram(&program, job->source, job->label, 0, NULL, NULL);
    if (result) return result;
    result = nvrtc->nvrtcCompileProgram(program, (int)count, options);
    int log_result = take_log(nvrtc, program, log);
    if (!result) result = log_result;
    if (!result) result = take_code(nvrtc, program, ptx, output);
    nvrtc->nvrtcDestroyProgram(&program);
    return result;
}

/* Whether the log of a compile says that a kernel spills, and its code that it does so often. */
static bool spills(const char *log, const RtcOutput *output) {
    return log && strstr(log, spilled) && cubin_spills(output->data, output->size);
}

static ls_status run(const void *table, const RtcJob *job, RtcOutput *output) {
    const Nvrtc *nvrtc = table;
    const char *options[RTC_OPTIONS_MAX];
    char architecture[64], known[512];
    int major = 0, minor = 0;
    size_t count = 0;
    if (job->verb == RTC_VERSION) return version(nvrtc, output);
    const char *number = strchr(job->target, '_') ? strchr(job->target, '_') + 1 : "";
    bool ptx = job->form == RTC_ASSEMBLY ||
               strncmp(job->target, LS_TARGET_PTX, strlen(LS_TARGET_PTX)) == 0;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%s", ptx ? "compute" : "sm",
             number);
    options[count++] = architecture;
    unsigned uses = job->math == LS_MATH_FAST ? RTC_USE_FAST : RTC_USE_EXACT;
    if (nvrtc->nvrtcVersion(&major, &minor) == 0 && major >= minimal_since) uses |= RTC_USE_MINIMAL;
    if (!ptx) uses |= RTC_USE_IMAGE;
    count = rtc_add_options(name, uses, options, count);
    if (!knows(nvrtc, number, known, sizeof known))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "NVRTC %d.%d does not know %s; it knows %s",
                        major, minor, job->target, known);

    char *log = NULL;
    int result = compile(nvrtc, job, options, count, ptx, output, &log);
    if (!result && spills(log, output)) {
        free(log);
        free(output->data);
        output->data = NULL;
        count = rtc_add_options(name, RTC_USE_SPILLED, options, count);
        result = compile(nvrtc, job, options, count, ptx, output, &log);
    }
    if (result) {
        ls_status status =
            rtc_fail(output, LS_ERROR_TOOLCHAIN, "NVRTC %d.%d for %s: %s\n%s", major, minor,
                     job->target, nvrtc->nvrtcGetErrorString(result), log ? log : "");
        free(log);
        return status;
    }
    output->log = log;
    if (!output->data || !log) return LS_ERROR_MEMORY;
    /* GetPTXSize counts the final zero. A driver wants it, a reader does not. */
    if (ptx && job->form == RTC_ASSEMBLY && output->size) output->size--;
    return LS_OK;
}

static const char *const files[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                    "libnvrtc.so.11.2", NULL};
static const char *const folders[] = {"$CUDA_HOME/lib64",
                                      "$CUDA_PATH/lib64",
                                      "$CUDA_HOME/lib",
                                      "$CONDA_PREFIX/lib",
                                      "/usr/local/cuda/lib64",
                                      "/opt/cuda/lib64",
                                      NULL};
static const char *const companions[] = {"libnvrtc-builtins.so", NULL};

const RtcToolchain rtc_nvrtc_toolchain = {
    .name = name,
    .title = "NVRTC",
    .variable = VARIABLE_LOCKSTEP_NVRTC,
    .files = files,
    .folders = folders,
    .companions = companions,
    .advice =
        "install NVRTC (with the CUDA toolkit, or pip install nvidia-cuda-nvrtc), or name the file "
        "with LOCKSTEP_NVRTC",
    .symbols = symbols,
    .symbol_count = COUNT(symbols),
    .run = run,
};
