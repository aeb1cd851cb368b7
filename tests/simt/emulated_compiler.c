/* emulated_compiler.c: the runtime compiler of emulated.c: NVRTC with STAND_IN_CUDA, hipRTC with
 * STAND_IN_HIP. It gives back the source as the code, which emulated_code.c compiles for the host
 * when the driver loads it. */
#include "emulated_compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the runtime compiler ---- */

typedef struct Program {
    char *text;
    size_t size; /* with the final zero */
} Program;

static const char magic[] = EMULATED_MAGIC;

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
