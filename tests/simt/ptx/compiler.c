/* compiler.c: NVRTC, with PTX for machine code: what is compiled for sm_90 is compiled for
 * compute_90, and its PTX is given where the cubin is asked for. The library is the one that
 * EMULATED_NVRTC names, or NVRTC by its usual names. */
#include "compiler.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

typedef struct Program Program;

#define CALLS(X)                                                                        \
    X(int, nvrtcVersion, (int *major, int *minor), (major, minor))                      \
    X(const char *, nvrtcGetErrorString, (int error), (error))                          \
    X(int, nvrtcGetNumSupportedArchs, (int *count), (count))                            \
    X(int, nvrtcGetSupportedArchs, (int *numbers), (numbers))                           \
    X(int, nvrtcCreateProgram,                                                          \
      (Program * *program, const char *source, const char *name, int count,             \
       const char *const *headers, const char *const *names),                           \
      (program, source, name, count, headers, names))                                   \
    X(int, nvrtcDestroyProgram, (Program * *program), (program))                        \
    X(int, nvrtcGetProgramLogSize, (Program * program, size_t * size), (program, size)) \
    X(int, nvrtcGetProgramLog, (Program * program, char *log), (program, log))          \
    X(int, nvrtcGetPTXSize, (Program * program, size_t * size), (program, size))        \
    X(int, nvrtcGetPTX, (Program * program, char *text), (program, text))

static void *open_library(void) {
    static const char *const usual[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    static void *opened;
    const char *named = getenv("EMULATED_NVRTC");
    if (!opened && named) opened = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !opened && !named && i < sizeof usual / sizeof *usual; i++)
        opened = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    return opened;
}

static void *find(const char *name) {
    void *library = open_library(), *symbol = library ? dlsym(library, name) : NULL;
    if (symbol) return symbol;
    fprintf(stderr, "emulated device: no NVRTC, or one without %s: %s\n", name, dlerror());
    exit(3);
}

/* Of this library, which has the names of NVRTC's. */
#define X(result, name, parameters, arguments)          \
    result name parameters;                             \
    result name parameters {                            \
        static result(*real) parameters;                \
        void *symbol = real ? NULL : find(#name);       \
        if (!real) memcpy(&real, &symbol, sizeof real); \
        return real arguments;                          \
    }
CALLS(X)
#undef X

int nvrtcGetCUBINSize(Program *program, size_t *size);
int nvrtcGetCUBINSize(Program *program, size_t *size) {
    return nvrtcGetPTXSize(program, size);
}
int nvrtcGetCUBIN(Program *program, char *text);
int nvrtcGetCUBIN(Program *program, char *text) {
    return nvrtcGetPTX(program, text);
}

int nvrtcCompileProgram(Program *program, int count, const char *const *options);
int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    enum { OPTIONS_MOST = 64 };
    static const char real_chip[] = "--gpu-architecture=sm_";
    char chip[64];
    const char *made[OPTIONS_MOST];
    int (*real)(Program *, int, const char *const *);
    void *symbol = find("nvrtcCompileProgram");
    memcpy(&real, &symbol, sizeof real);
    for (int i = 0; i < count && i < OPTIONS_MOST; i++) {
        made[i] = options[i];
        if (strncmp(options[i], real_chip, sizeof real_chip - 1) != 0) continue;
        snprintf(chip, sizeof chip, "--gpu-architecture=compute_%s",
                 options[i] + sizeof real_chip - 1);
        made[i] = chip;
    }
    return real(program, count < OPTIONS_MOST ? count : OPTIONS_MOST, made);
}

bool ptx_can_compile(void) {
    return open_library() != NULL;
}

/* The options that the product gives, for steps with `math exact`. */
#define NVRTC "nvrtc"
#define HIPRTC "hiprtc"
#define CLANG "clang"
static const RtcOption options_known[] = {
#define X(toolchain, uses, option) {toolchain, option, uses},
#include "toolchain/options.def"
#undef X
};

static char *give(int result, Program *program, char *message, size_t size) {
    size_t bytes = 0;
    char *text = NULL;
    if (!result) result = nvrtcGetPTXSize(program, &bytes);
    if (!result && (text = calloc(bytes + 1, 1)) != NULL) result = nvrtcGetPTX(program, text);
    if (!result && text) return text;
    free(text);
    snprintf(message, size, "NVRTC: %s", result ? nvrtcGetErrorString(result) : "out of memory");
    char *log = nvrtcGetProgramLogSize(program, &bytes) == 0 ? calloc(bytes + 1, 1) : NULL;
    if (log && nvrtcGetProgramLog(program, log) == 0)
        snprintf(message + strlen(message), size - strlen(message), "\n%s", log);
    free(log);
    return NULL;
}

char *ptx_compile(const char *source, char *message, size_t size) {
    const char *options[RTC_OPTIONS_MAX] = {"--gpu-architecture=compute_90",
                                            "--define-macro=SIMT_CUDA"};
    Program *program = NULL;
    int count = 2, major = 0, minor = 0;
    unsigned uses = RTC_USE_EXACT;
    if (nvrtcVersion(&major, &minor) == 0 && major >= 13) uses |= RTC_USE_MINIMAL;
    for (size_t i = 0; i < sizeof options_known / sizeof *options_known; i++)
        if (strcmp(options_known[i].toolchain, NVRTC) == 0 && (options_known[i].uses & uses))
            options[count++] = options_known[i].text;
    int result = nvrtcCreateProgram(&program, source, "text", 0, NULL, NULL);
    if (!result) result = nvrtcCompileProgram(program, count, options);
    char *text = give(result, program, message, size);
    if (program) nvrtcDestroyProgram(&program);
    return text;
}
