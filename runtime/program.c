/* program.c: a set of compiled steps, and which image of each suits the device. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How well an image suits: 0 not at all. */
static int suits(const ls_context *context, const ls_image *image) {
    return context->driver->suits(context->device, image->target);
}

/* "sm_80" and then "sm_80, sm_90" */
static bool append_target(char **list, const char *target) {
    size_t before = *list ? strlen(*list) : 0, size = before + strlen(target) + 3;
    char *grown = realloc(*list, size);
    if (!grown) return false;
    snprintf(grown + before, size - before, "%s%s", before ? ", " : "", target);
    *list = grown;
    return true;
}

static bool add_image(ls_program *program, const ls_image *image) {
    size_t at = 0;
    while (at < program->count && strcmp(program->names[at], image->step) != 0) at++;
    if (at == program->count) program->names[program->count++] = image->step;
    if (!append_target(&program->targets[at], image->target)) return false;
    int score = suits(program->context, image);
    const ls_image *best = program->images[at];
    if (score > 0 && (!best || score > suits(program->context, best))) program->images[at] = image;
    return true;
}

static ls_status check_image(ls_context *context, const ls_image *image) {
    if (!image)
        return error_set(&context->error, LS_ERROR_ARGUMENT,
                         "ls_program_from_images: an image is NULL");
    if (image->version != LS_IMAGE_VERSION)
        return error_set(
            &context->error, LS_ERROR_UNSUPPORTED,
            "ls_program_from_images: the image has format %u, this runtime reads %u; build it "
            "again with the compiler of this version",
            image->version, (unsigned)LS_IMAGE_VERSION);
    if (image->axis_count > LS_AXES_MAX)
        return error_set(&context->error, LS_ERROR_UNSUPPORTED,
                         "ls_program_from_images: step `%s` has %u axes, more than %d", image->step,
                         image->axis_count, LS_AXES_MAX);
    return LS_OK;
}

/* Tables for up to `count` steps; NULL: out of memory. */
static ls_program *new_program(ls_context *context, size_t count) {
    ls_program *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->context = context;
    made->references = 1;
    made->variants = calloc(count + 1, sizeof *made->variants);
    made->images = calloc(count + 1, sizeof *made->images);
    made->names = calloc(count + 1, sizeof *made->names);
    made->targets = calloc(count + 1, sizeof *made->targets);
    if (made->variants && made->images && made->names && made->targets) return made;
    program_release(made);
    return NULL;
}

ls_status ls_inner_program(ls_context *context, const char *call, const char *const *names,
                           size_t count, size_t own_count, ImageMaker make_image,
                           ShardedMaker make_sharded, ls_code_maker make, CodesMaker make_all,
                           KnownMaker make_known, void *maker, void (*release)(void *maker),
                           ls_program **program) {
    ls_program *made = new_program(context, count);
    if (!made) return error_memory(&context->error, call);
    for (; made->count < count; made->count++) made->names[made->count] = names[made->count];
    made->own_count = own_count;
    made->make_image = make_image;
    made->make_sharded = make_sharded;
    made->make = make;
    made->make_all = make_all;
    made->make_known = make_known;
    made->maker = maker;
    made->release = release;
    *program = made;
    return LS_OK;
}

ls_status ls_program_from_images(ls_context *context, const ls_image *const *images, size_t count,
                                 ls_code_maker make, void *maker, void (*release)(void *maker),
                                 ls_program **program) {
    if (program) *program = NULL;
    if (!context || !program || (count && !images))
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT,
                         "ls_program_from_images: %s is NULL",
                         !context ? "context" : (!program ? "program" : "images"));
    for (size_t i = 0; i < count; i++) {
        ls_status status = check_image(context, images[i]);
        if (status != LS_OK) return status;
    }
    ls_program *made = new_program(context, count);
    if (!made) return error_memory(&context->error, "ls_program_from_images");
    for (size_t i = 0; i < count; i++) {
        if (add_image(made, images[i])) continue;
        program_release(made);
        return error_memory(&context->error, "ls_program_from_images");
    }
    made->make = make; /* only now: on failure the maker stays the caller's */
    made->maker = maker;
    made->release = release;
    *program = made;
    return LS_OK;
}

/* The variants of an image, and behind them those of its parts. */
static size_t count_variants(const ls_image *image) {
    size_t count = image->variant_count;
    for (uint32_t p = 0; p < image->part_count; p++) count += image->parts[p].image->variant_count;
    return count;
}

static uint32_t kernels_of(const ls_image *image, size_t variant) {
    if (variant < image->variant_count) return image->variants[variant].kernel_count;
    variant -= image->variant_count;
    uint32_t part = 0;
    for (; variant >= image->parts[part].image->variant_count; part++)
        variant -= image->parts[part].image->variant_count;
    return image->parts[part].image->variants[variant].kernel_count;
}

static void free_variants(ls_program *program, const ls_image *image, Variant *variants) {
    const size_t count = variants ? count_variants(image) : 0;
    bool settled = false;
    for (size_t i = 0; i < count; i++) {
        if (variants[i].loaded && !settled) context_settle(program->context);
        settled |= variants[i].loaded;
        if (variants[i].loaded)
            program->context->driver->unload(program->context->device, variants[i].module);
        known_free(program, &variants[i]);
        free(variants[i].unpacked);
        free(variants[i].kernels);
    }
    free(variants);
}

static Variant *new_variants(ls_program *program, const ls_image *image) {
    const size_t count = count_variants(image);
    Variant *variants = calloc(count + 1, sizeof *variants);
    for (size_t i = 0; variants && i < count; i++) {
        variants[i].kernels = calloc(kernels_of(image, i) + 1u, sizeof(Kernel));
        if (variants[i].kernels) continue;
        free_variants(program, image, variants);
        return NULL;
    }
    return variants;
}

Variant *program_variants(ls_program *program, size_t index) {
    if (!program->variants[index])
        program->variants[index] = new_variants(program, program->images[index]);
    return program->variants[index];
}

Variant *program_summed_variants(ls_program *program, const ls_image *image) {
    for (size_t i = 0; i < program->summed_count; i++)
        if (program->summed[i].image == image) return program->summed[i].variants;
    if (!array_grow(&program->summed, &program->summed_capacity, program->summed_count + 1,
                    sizeof *program->summed))
        return NULL;
    Variant *variants = new_variants(program, image);
    if (variants) program->summed[program->summed_count++] = (Summed){image, variants};
    return variants;
}

void program_release(ls_program *program) {
    if (--program->references > 0) return;
    for (size_t i = 0; i < program->count; i++) {
        free_variants(program, program->images[i], program->variants[i]);
        free(program->targets[i]);
    }
    for (size_t i = 0; i < program->summed_count; i++)
        free_variants(program, program->summed[i].image, program->summed[i].variants);
    if (program->release) program->release(program->maker);
    free(program->summed);
    free(program->variants);
    free(program->targets);
    free(program->names);
    free(program->images);
    free(program);
}

void ls_program_destroy(ls_program *program) {
    if (program) program_release(program);
}

size_t ls_program_step_count(const ls_program *program) {
    return program ? program->count : 0;
}

const char *ls_program_step_name(const ls_program *program, size_t index) {
    return program && index < program->count ? program->names[index] : NULL;
}
