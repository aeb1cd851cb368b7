/* contrary.c: NVRTC and hipRTC with other defaults: everything that Lockstep forbids them is on
 * unless they are told otherwise. Compiles through the real library, which CONTRARY_LIBRARY names,
 * with the contrary options ahead of those given; of several the last one counts. Built twice, with
 * CONTRARY_NVRTC and with CONTRARY_HIPRTC. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef CONTRARY_NVRTC
#define CALLED(name) nvrtc##name
static const char *const defaults[] = {"--fmad=true", "--ftz=true", "--prec-div=false",
                                       "--prec-sqrt=false"};
#else
#define CALLED(name) hiprtc##name
static const char *const defaults[] = {"-ffp-contract=fast", "-fgpu-flush-denormals-to-zero"};
#endif
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

static void *real(const char *name) {
    static void *library;
    const char *path = getenv("CONTRARY_LIBRARY");
    if (!library && path) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, name) : NULL;
    if (!symbol) abort();
    return symbol;
}

#define FORWARD(result, name, parameters, arguments)      \
    result CALLED(name) parameters;                       \
    result CALLED(name) parameters {                      \
        result(*function) parameters;                     \
        void *const symbol = real(NAME_OF(CALLED(name))); \
        memcpy(&function, &symbol, sizeof symbol);        \
        return function arguments;                        \
    }

FORWARD(int, Version, (int *major, int *minor), (major, minor))
FORWARD(const char *, GetErrorString, (int error), (error))
FORWARD(int, CreateProgram,
        (void **program, const char *source, const char *name, int count, const char **headers,
         const char **names),
        (program, source, name, count, headers, names))
FORWARD(int, DestroyProgram, (void **program), (program))
FORWARD(int, GetProgramLogSize, (void *program, size_t *size), (program, size))
FORWARD(int, GetProgramLog, (void *program, char *log), (program, log))
#ifdef CONTRARY_NVRTC
FORWARD(int, GetPTXSize, (void *program, size_t *size), (program, size))
FORWARD(int, GetPTX, (void *program, char *code), (program, code))
FORWARD(int, GetCUBINSize, (void *program, size_t *size), (program, size))
FORWARD(int, GetCUBIN, (void *program, char *code), (program, code))
FORWARD(int, GetNumSupportedArchs, (int *count), (count))
FORWARD(int, GetSupportedArchs, (int *numbers), (numbers))
#else
FORWARD(int, GetCodeSize, (void *program, size_t *size), (program, size))
FORWARD(int, GetCode, (void *program, char *code), (program, code))
#endif

int CALLED(CompileProgram)(void *program, int count, const char **options);
int CALLED(CompileProgram)(void *program, int count, const char **options) {
    enum { DEFAULTS = sizeof defaults / sizeof *defaults, MOST = 32 };
    const char *all[DEFAULTS + MOST];
    int (*function)(void *, int, const char **);
    void *const symbol = real(NAME_OF(CALLED(CompileProgram)));
    memcpy(&function, &symbol, sizeof symbol);
    if (count > MOST) abort();
    memcpy(all, defaults, sizeof defaults);
    memcpy(all + DEFAULTS, options, (size_t)count * sizeof *options);
    return function(program, DEFAULTS + count, all);
}
