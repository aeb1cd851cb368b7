/* emulated_compiler.c: the runtime compiler of emulated.c: NVRTC with STAND_IN_CUDA, hipRTC with
 * STAND_IN_HIP. It gives back the source as the code, and compiles that for the host when the
 * driver loads it. */
#include "emulated_compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 128, KERNELS_MOST = 4096 };

/* ---- the runtime compiler ---- */

typedef struct Program {
    char *text;
    size_t size; /* with the final zero */
} Program;

static const char magic[] = "// emulated\n";

static int program_create(Program **program, const char *source) {
    Program *made = calloc(1, sizeof *made);
    size_t size = strlen(magic) + strlen(source) + 1;
    char *text = made ? malloc(size) : NULL;
    if (!text) {
        free(made);
        return 1;
    }
    snprintf(text, size, "%s%s", magic, source);
    made->text = text;
    made->size = size;
    *program = made;
    return 0;
}

static int program_destroy(Program **program) {
    free((*program)->text);
    free(*program);
    *program = NULL;
    return 0;
}

static int program_size(const Program *program, size_t *size) {
    *size = program->size;
    return 0;
}

static int program_text(const Program *program, char *text) {
    memcpy(text, program->text, program->size);
    return 0;
}

#define EXPORT(result, name, parameters) \
    result name parameters;              \
    result name parameters

#ifdef STAND_IN_CUDA
#define COMPILER(name) nvrtc##name
#else
#define COMPILER(name) hiprtc##name
#endif
#define COMPILER_EXPORT(name, parameters) EXPORT(int, COMPILER(name), parameters)

COMPILER_EXPORT(Version, (int *major, int *minor)) {
    *major = *minor = 0;
    return 0;
}
EXPORT(const char *, COMPILER(GetErrorString), (int error)) {
    (void)error;
    return "no memory";
}
COMPILER_EXPORT(CreateProgram, (Program * *program, const char *source, const char *name, int count,
                                const char **headers, const char **names)) {
    (void)name, (void)count, (void)headers, (void)names;
    return program_create(program, source);
}
COMPILER_EXPORT(CompileProgram, (Program * program, int count, const char **options)) {
    (void)program, (void)count, (void)options;
    return 0;
}
COMPILER_EXPORT(DestroyProgram, (Program * *program)) {
    return program_destroy(program);
}
COMPILER_EXPORT(GetProgramLogSize, (const Program *program, size_t *size)) {
    (void)program;
    *size = 1;
    return 0;
}
COMPILER_EXPORT(GetProgramLog, (const Program *program, char *log)) {
    (void)program;
    *log = 0;
    return 0;
}
#ifdef STAND_IN_CUDA
COMPILER_EXPORT(GetNumSupportedArchs, (int *count)) {
    return *count = 1, 0;
}
COMPILER_EXPORT(GetSupportedArchs, (int *numbers)) {
    return *numbers = 90, 0;
}
COMPILER_EXPORT(GetPTXSize, (const Program *program, size_t *size)) {
    return program_size(program, size);
}
COMPILER_EXPORT(GetPTX, (const Program *program, char *text)) {
    return program_text(program, text);
}
COMPILER_EXPORT(GetCUBINSize, (const Program *program, size_t *size)) {
    return program_size(program, size);
}
COMPILER_EXPORT(GetCUBIN, (const Program *program, char *text)) {
    return program_text(program, text);
}
#else
COMPILER_EXPORT(GetCodeSize, (const Program *program, size_t *size)) {
    return program_size(program, size);
}
COMPILER_EXPORT(GetCode, (const Program *program, char *text)) {
    return program_text(program, text);
}
#endif

/* ---- its code, compiled for the host ---- */

/* One text may be the code of many images: it stays compiled until another one comes. */
static struct {
    char *text;
    SimtModule *compiled;
    size_t users;
} kept;

static void drop_kept(void) {
    simt_close(kept.compiled);
    free(kept.text);
    memset(&kept, 0, sizeof kept);
}

/* The entry points of a text: what stands before the bracket behind LS_KERNEL and its
 * LS_THREADS(n) or LS_THREADS_ALONE(n). */
static size_t find_kernels(const char *text, char (*names)[NAME_SIZE]) {
    size_t count = 0;
    for (const char *at = text;
         (at = strstr(at, "\nLS_KERNEL ")) != NULL && count < KERNELS_MOST;) {
        at += strlen("\nLS_KERNEL ");
        if (strncmp(at, "LS_THREADS", 10) == 0) at = strchr(at, ')') + 1;
        at += strspn(at, " \n");
        snprintf(names[count++], NAME_SIZE, "%.*s", (int)strcspn(at, "("), at);
    }
    return count;
}

static SimtModule *compile(const char *text, char *message, size_t size) {
    static char names[KERNELS_MOST][NAME_SIZE];
    const char *list[KERNELS_MOST];
    size_t count = find_kernels(text, names);
    for (size_t i = 0; i < count; i++) list[i] = names[i];
#ifdef STAND_IN_CUDA
    SimtDialect dialect = SIMT_CUDA;
#else
    SimtDialect dialect = SIMT_HIP;
#endif
    return simt_open(text, strlen(text), dialect, list, count, message, size);
}

bool emulated_code_is(const char *text) {
    return strncmp(text, magic, strlen(magic)) == 0;
}

SimtModule *emulated_code_open(const char *text, char *message, size_t size) {
    if (kept.text && strcmp(kept.text, text) == 0) {
        kept.users++;
        return kept.compiled;
    }
    if (kept.users == 0) drop_kept();
    SimtModule *compiled = compile(text, message, size);
    if (compiled && !kept.compiled && (kept.text = strdup(text))) {
        kept.compiled = compiled;
        kept.users = 1;
    }
    return compiled;
}

void emulated_code_close(SimtModule *compiled) {
    if (compiled && compiled == kept.compiled)
        kept.users--;
    else
        simt_close(compiled);
}
