/* program_compile.c: programs from .step sources. The only file of the runtime that calls the
 * compiler; it is part of liblockstep and not of liblockstep_rt. */
#include "runtime.h"

#include <stdlib.h>

static ls_status make_code(void *maker, const ls_image *image, size_t variant, const void **code,
                           size_t *size, int *from_cache, const char **message) {
    ls_compilation *compilation = maker;
    ls_status status = ls_compilation_code(compilation, image, variant, code, size, from_cache);
    if (status != LS_OK) *message = ls_compilation_message(compilation);
    return status;
}

static void release_maker(void *maker) {
    ls_compilation_destroy(maker);
}

static ls_status make_image(void *maker, size_t index, const char *target, const ls_image **image,
                            const char **message) {
    ls_status status = ls_compilation_image(maker, index, target, image);
    if (status != LS_OK) *message = ls_compilation_message(maker);
    return status;
}

/* The steps of a compilation as a program that owns it. A file may have many steps, of which a
 * trainer uses one: they become kernels when they are asked for. */
static ls_status collect(ls_context *context, const char *call, ls_compilation *compilation,
                         ls_program **program) {
    size_t count = ls_compilation_step_count(compilation);
    const char **names = calloc(count + 1, sizeof *names);
    if (!names) return error_memory(&context->error, call);
    for (size_t i = 0; i < count; i++) names[i] = ls_compilation_step_name(compilation, i);
    ls_status status = program_open(context, call, names, count, make_image, make_code, compilation,
                                    release_maker, program);
    free(names);
    return status;
}

static ls_status finish(ls_context *context, const char *call, ls_status status,
                        ls_compilation *compilation, ls_program **program) {
    if (!compilation) return error_memory(&context->error, call);
    if (status != LS_OK)
        error_set(&context->error, status, "%s", ls_compilation_message(compilation));
    else
        status = collect(context, call, compilation, program);
    if (status != LS_OK) ls_compilation_destroy(compilation);
    return status;
}

static ls_status check(ls_context *context, const char *call, const char *missing) {
    if (!missing) return LS_OK;
    return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                     missing);
}

ls_status ls_program_load(ls_context *context, const char *path, const ls_compile_options *options,
                          ls_program **program) {
    static const char call[] = "ls_program_load";
    if (program) *program = NULL;
    ls_status status = check(
        context, call, !context ? "context" : (!program ? "program" : (!path ? "path" : NULL)));
    if (status != LS_OK) return status;
    ls_compilation *compilation = NULL;
    status = ls_compile_file(path, options, &compilation);
    return finish(context, call, status, compilation, program);
}

ls_status ls_program_load_text(ls_context *context, const char *name, const char *text, size_t size,
                               const ls_compile_options *options, ls_program **program) {
    static const char call[] = "ls_program_load_text";
    if (program) *program = NULL;
    ls_status status = check(
        context, call,
        !context ? "context"
                 : (!program ? "program" : (!name ? "name" : (!text && size ? "text" : NULL))));
    if (status != LS_OK) return status;
    ls_compilation *compilation = NULL;
    status = ls_compile_text(name, text, size, options, &compilation);
    return finish(context, call, status, compilation, program);
}
