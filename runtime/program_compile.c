/* program_compile.c: programs from .step sources. The only file of the runtime that calls the
 * compiler; it is part of liblockstep and not of liblockstep_rt, of which it may call ls_ functions
 * only: two shared libraries see no other names of each other. */
#include "runtime.h"

#include <stdlib.h>

static ls_status make_code(void *maker, const ls_image *image, size_t variant, const void **code,
                           size_t *size, int *from_cache, const char **message) {
    ls_compilation *compilation = maker;
    ls_status status = ls_compilation_code(compilation, image, variant, code, size, from_cache);
    if (status != LS_OK) *message = ls_compilation_message(compilation);
    return status;
}

/* What cannot be made is made again, and said, when it is asked for by itself. */
static void make_codes(void *maker, const ls_image *const *images, const uint32_t *variants,
                       size_t count) {
    ls_code_request *requests = calloc(count + 1, sizeof *requests);
    if (!requests) return;
    for (size_t i = 0; i < count; i++)
        requests[i] = (ls_code_request){.image = images[i], .variant = variants[i]};
    (void)ls_compilation_codes(maker, requests, count);
    free(requests);
}

static ls_status make_known(void *maker, const ls_image *image, size_t variant, int64_t *lengths,
                            ls_known_when when, const void **code, size_t *size, int *from_cache) {
    return ls_compilation_known(maker, image, variant, lengths, when, code, size, from_cache);
}

static void release_maker(void *maker) {
    ls_compilation_destroy(maker);
}

static ls_status make_image(void *maker, size_t index, const ls_sum *sums, size_t sum_count,
                            const char *target, const char *device, const ls_image **image,
                            const char **message) {
    ls_status status = sum_count ? ls_compilation_image_summed(maker, index, sums, sum_count,
                                                               target, device, image)
                                 : ls_compilation_image_tuned(maker, index, target, device, image);
    if (status != LS_OK) *message = ls_compilation_message(maker);
    return status;
}

static ls_status make_sharded(void *maker, size_t index, const ls_sum *sums, size_t sum_count,
                              const char *parameter, const char *axis, bool within,
                              const char *target, const char *device, const ls_sharded **sharded,
                              const char **message) {
    ls_status status = ls_compilation_image_sharded(maker, index, sums, sum_count, parameter, axis,
                                                    within, target, device, sharded);
    if (status != LS_OK) *message = ls_compilation_message(maker);
    return status;
}

static ls_status out_of_memory(ls_context *context, const char *call) {
    return ls_inner_error(context, LS_ERROR_MEMORY, call, "the host ran out of memory");
}

/* The steps of a compilation as a program that owns it. A file may have many steps, of which a
 * trainer uses one: they become kernels when they are asked for. */
static ls_status collect(ls_context *context, const char *call, ls_compilation *compilation,
                         ls_program **program) {
    size_t count = ls_compilation_step_count(compilation);
    const char **names = calloc(count + 1, sizeof *names);
    if (!names) return out_of_memory(context, call);
    for (size_t i = 0; i < count; i++) names[i] = ls_compilation_step_name(compilation, i);
    ls_status status = ls_inner_program(
        context, call, names, count, ls_compilation_own_step_count(compilation), make_image,
        make_sharded, make_code, make_codes, make_known, compilation, release_maker, program);
    free(names);
    return status;
}

static ls_status finish(ls_context *context, const char *call, ls_status status,
                        ls_compilation *compilation, ls_program **program) {
    if (!compilation) return out_of_memory(context, call);
    if (status != LS_OK)
        ls_inner_error(context, status, NULL, ls_compilation_message(compilation));
    else
        status = collect(context, call, compilation, program);
    if (status != LS_OK) ls_compilation_destroy(compilation);
    return status;
}

static ls_status missing(ls_context *context, const char *call, const char *message) {
    return ls_inner_error(context, LS_ERROR_ARGUMENT, call, message);
}

ls_status ls_program_load(ls_context *context, const char *path, const ls_compile_options *options,
                          ls_program **program) {
    static const char call[] = "ls_program_load";
    if (program) *program = NULL;
    if (!context) return missing(NULL, call, "context is NULL");
    if (!program) return missing(context, call, "program is NULL");
    if (!path) return missing(context, call, "path is NULL");
    ls_compilation *compilation = NULL;
    ls_status status = ls_compile_file(path, options, &compilation);
    return finish(context, call, status, compilation, program);
}

ls_status ls_program_load_text(ls_context *context, const char *name, const char *text, size_t size,
                               const ls_compile_options *options, ls_program **program) {
    static const char call[] = "ls_program_load_text";
    if (program) *program = NULL;
    if (!context) return missing(NULL, call, "context is NULL");
    if (!program) return missing(context, call, "program is NULL");
    if (!name) return missing(context, call, "name is NULL");
    if (!text && size) return missing(context, call, "text is NULL");
    ls_compilation *compilation = NULL;
    ls_status status = ls_compile_text(name, text, size, options, &compilation);
    return finish(context, call, status, compilation, program);
}
