/* api.c: the public functions of lockstep/compiler.h.
 *
 * Every one of them that can fail sets the point that compiler_fail unwinds to, so a broken
 * invariant or a lack of memory comes back as a status. What they do is done elsewhere: compile.c
 * has the passes, report/ what is written for people, toolchain/ what makes code. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "task.h"
#include "report/report.h"

/* ---- compilations ---- */

static ls_compilation *compilation_new(const ls_compile_options *options) {
    ls_compilation *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    if (options) c->options = *options;
    if (!c->options.dump) c->options.dump = environment_value(VARIABLE_LOCKSTEP_DUMP);
    if (c->options.dump && !*c->options.dump) c->options.dump = NULL;
    c->compiler.options = &c->options;
    c->compiler.try_header = rtc_try_header;
    c->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    arena_open(&c->compiler.arena, &c->compiler);
    return c;
}

/* Those given, then those of the environment. */
static void copy_import_paths(ls_compilation *c, const char *environment) {
    Arena *arena = &c->compiler.arena;
    size_t count = c->options.import_path_count + 1;
    for (const char *s = environment; s && *s; s++) count += *s == ':';
    const char **paths = arena_alloc(arena, count * sizeof *paths);
    for (count = 0; count < c->options.import_path_count; count++)
        paths[count] = arena_copy(arena, c->options.import_paths[count],
                                  strlen(c->options.import_paths[count]));
    for (const char *s = environment; s && *s;) {
        size_t length = strcspn(s, ":");
        if (length) paths[count++] = arena_copy(arena, s, length);
        s += length + (s[length] == ':');
    }
    c->options.import_paths = paths;
    c->options.import_path_count = count;
}

/* The caller's strings are read until the compilation ends, so they are copied. */
static void copy_options(ls_compilation *c) {
    Arena *arena = &c->compiler.arena;
    const char **defines = arena_alloc(arena, (c->options.define_count + 1) * sizeof *defines);
    for (size_t i = 0; i < c->options.define_count; i++)
        defines[i] = arena_copy(arena, c->options.defines[i], strlen(c->options.defines[i]));
    c->options.defines = defines;
    copy_import_paths(c, environment_value(VARIABLE_LOCKSTEP_PATH));
    if (c->options.dump)
        c->options.dump = arena_copy(arena, c->options.dump, strlen(c->options.dump));
}

typedef struct SourceJob {
    const char *name, *text;
    size_t size;
    bool from_library;
} SourceJob;

static ls_status check_options(ls_compilation *c) {
    return input_check_options(&c->options, c->message, sizeof c->message) ? LS_OK
                                                                           : LS_ERROR_ARGUMENT;
}

static ls_status read_source(ls_compilation *c, void *job) {
    const SourceJob *source = job;
    copy_options(c);
    c->compiler.from_library = source->from_library;
    c->module = module_read(&c->compiler, source->name, source->text, source->size);
    c->options.sources = NULL; /* the caller's, and read */
    c->options.source_count = 0;
    if (c->module && c->compiler.error_count == 0) {
        size_t count = module_step_count(c->module);
        c->steps = arena_alloc(&c->compiler.arena, (count + 1) * sizeof *c->steps);
        c->state_capacity = count + 1;
        c->step_count = c->state_count = count;
        for (size_t i = 0; i < count; i++) {
            c->steps[i].late = c->options.index || module_step_is_library(c->module, i);
            if (!c->steps[i].late) compile_step(c, i);
        }
    }
    return c->compiler.error_count ? LS_ERROR_PROGRAM : LS_OK;
}

ls_status ls_compile_text(const char *name, const char *text, size_t size,
                          const ls_compile_options *options, ls_compilation **compilation) {
    *compilation = compilation_new(options);
    if (!*compilation) return LS_ERROR_MEMORY;
    ls_status status = check_options(*compilation);
    if (status == LS_OK && (!name || (!text && size)))
        status = task_keep_message(*compilation, LS_ERROR_ARGUMENT,
                                   name ? "the text is NULL" : "the name of the text is NULL");
    if (status != LS_OK) return status;
    return task_run(*compilation, read_source, &(SourceJob){name, text, size, false});
}

/* "std/optim": a file of the library that the compiler carries; NULL: it has none of that name. */
static const EmbeddedFile *library_file(const char *path) {
    size_t length = strlen(path);
    if (strncmp(path, "std/", 4) != 0) return NULL;
    for (size_t i = 0; i < embedded_file_count; i++) {
        const char *name = embedded_files[i].path;
        if (strncmp(name, path, length) == 0 &&
            (name[length] == '\0' || strcmp(name + length, ".step") == 0))
            return &embedded_files[i];
    }
    return NULL;
}

ls_status ls_compile_file(const char *path, const ls_compile_options *options,
                          ls_compilation **compilation) {
    size_t size;
    const char *reason;
    if (!path) return ls_compile_text(NULL, NULL, 0, options, compilation);
    char *text = input_read(path, &size, &reason);
    if (text) {
        ls_status status = ls_compile_text(strcmp(path, "-") == 0 ? "<stdin>" : path, text, size,
                                           options, compilation);
        free(text);
        return status;
    }
    int error = errno;
    *compilation = compilation_new(options);
    if (!*compilation) return LS_ERROR_MEMORY;
    ls_status checked = check_options(*compilation);
    if (checked != LS_OK) return checked;
    const EmbeddedFile *library =
        !reason && (error == ENOENT || error == EISDIR) ? library_file(path) : NULL;
    if (library)
        return task_run(*compilation, read_source,
                        &(SourceJob){library->path, library->text, library->size, true});
    snprintf((*compilation)->message, sizeof(*compilation)->message, "cannot read %s: %s", path,
             reason ? reason : strerror(error));
    return LS_ERROR_FILE;
}

void ls_compilation_destroy(ls_compilation *c) {
    if (!c) return;
    background_close(c->background);
    for (size_t i = 0; i < c->state_count; i++)
        for (Made *made = c->steps[i].made; made; made = made->next) {
            for (uint32_t v = 0; v < made->image->variant_count; v++) free(made->code[v].data);
            for (KnownCode *known = made->known; known; known = known->next) free(known->code.data);
            free(made->tunings);
        }
    for (Output *output = c->outputs; output; output = output->next) free(output->data);
    import_c_close(&c->compiler);
    arena_close(&c->compiler.arena);
    if (c->locale) freelocale(c->locale);
    free(c);
}

typedef struct RenderJob {
    bool color;
    const char *text;
} RenderJob;

static ls_status render(ls_compilation *c, void *job) {
    RenderJob *r = job;
    Text text = text_open(&c->compiler.arena);
    diagnostics_render(&c->compiler, &text, r->color);
    r->text = text.data;
    return LS_OK;
}

static const char *message(ls_compilation *c, bool color) {
    RenderJob job = {color, NULL};
    if (!c) return "the compilation is NULL";
    if (c->message[0] || task_run(c, render, &job) != LS_OK) return c->message;
    return job.text;
}

const char *ls_compilation_message(const ls_compilation *c) {
    return message((ls_compilation *)c, false);
}
const char *ls_compilation_message_color(const ls_compilation *c) {
    return message((ls_compilation *)c, true);
}
size_t ls_compilation_diagnostic_count(const ls_compilation *c) {
    return c ? c->compiler.diagnostic_count : 0;
}
const ls_diagnostic *ls_compilation_diagnostic(const ls_compilation *c, size_t index) {
    return c && index < c->compiler.diagnostic_count ? &c->compiler.diagnostics[index] : NULL;
}
size_t ls_compilation_step_count(const ls_compilation *c) {
    return c ? c->step_count : 0;
}
size_t ls_compilation_own_step_count(const ls_compilation *c) {
    return c && c->step_count ? module_own_count(c->module) : 0;
}
const char *ls_compilation_step_name(const ls_compilation *c, size_t step) {
    return c && step < c->step_count ? module_step_name(c->module, step) : NULL;
}
size_t ls_compilation_file_count(const ls_compilation *c) {
    return c ? c->compiler.file_count : 0;
}
const char *ls_compilation_file(const ls_compilation *c, size_t index) {
    return c && index < c->compiler.file_count ? c->compiler.files[index] : NULL;
}

/* For tests (tests/interp/interp.h): the IR of a step at a stage; NULL when the source has errors.
 * Of a step with `for` it has no values: compilation_sequence says what its parts are (NULL: it has
 * no `for`), and compilation_part gives the IR of one. */
const Function *compilation_function(ls_compilation *c, size_t step, Stage stage);
const Sequence *compilation_sequence(ls_compilation *c, size_t step);
const Function *compilation_part(ls_compilation *c, size_t step, size_t part, Stage stage);
static const Function *stage_of(const StepState *s, Stage stage) {
    return stage == STAGE_LOWERED   ? s->lowered
           : stage == STAGE_DERIVED ? s->derived
                                    : s->simplified;
}

const Sequence *compilation_sequence(ls_compilation *c, size_t step) {
    return task_find_step(c, step) == LS_OK ? c->steps[step].sequence : NULL;
}

const Function *compilation_part(ls_compilation *c, size_t step, size_t part, Stage stage) {
    return stage_of(&c->steps[c->steps[step].first_part + part], stage);
}

const Function *compilation_function(ls_compilation *c, size_t step, Stage stage) {
    if (task_find_step(c, step) != LS_OK) return NULL;
    return stage_of(&c->steps[step], stage);
}

static ls_status check_steps(ls_compilation *c, void *job) {
    (void)job;
    for (size_t i = 0; i < module_own_count(c->module); i++)
        if (task_compile_late(c, &i) == LS_OK) compile_check(c, i);
    diagnostics_sort(&c->compiler);
    return c->compiler.error_count ? LS_ERROR_PROGRAM : LS_OK;
}

ls_status ls_compilation_check(ls_compilation *c) {
    if (!c) return LS_ERROR_ARGUMENT;
    c->message[0] = 0;
    if (c->compiler.error_count) return LS_ERROR_PROGRAM;
    return c->step_count ? task_run(c, check_steps, NULL) : LS_OK;
}

/* ---- images and code ---- */

typedef struct StepJob {
    size_t step;
    const char *word, *device; /* a target or a form; a device's description */
    const ls_explain_options *options;
    const ls_advise_options *advise;
    ls_advice *advice;
    Made *made;
    const char *data;
    size_t size;
} StepJob;

/* A task about one step: refused when there is no such step. */
static ls_status run_on_step(ls_compilation *c, ls_status (*task)(ls_compilation *c, void *job),
                             StepJob *job) {
    if (!c) return LS_ERROR_ARGUMENT;
    c->message[0] = 0;
    ls_status status = task_find_step(c, job->step);
    return status == LS_OK ? task_run(c, task, job) : status;
}

static ls_status make_image(ls_compilation *c, void *job) {
    StepJob *j = job;
    j->made = compile_image(c, j->step, j->word);
    return LS_OK;
}

static ls_status make_tuned(ls_compilation *c, void *job) {
    StepJob *j = job;
    j->made = compile_image(c, j->step, j->word);
    tune_apply(c, j->step, j->made, j->device);
    return LS_OK;
}

ls_status ls_compilation_image(ls_compilation *c, size_t step, const char *target,
                               const ls_image **image) {
    StepJob job = {.step = step, .word = target};
    ls_status status = run_on_step(c, make_image, &job);
    *image = job.made ? job.made->image : NULL;
    return status;
}

/* The image of this compilation that `image` is, or NULL. */
static Made *find_made(ls_compilation *c, const ls_image *image) {
    for (size_t i = 0; i < c->state_count; i++)
        for (Made *made = c->steps[i].made; made; made = made->next)
            if (made->image == image) return made;
    return NULL;
}

ls_status ls_compilation_code(ls_compilation *c, const ls_image *image, size_t variant,
                              const void **code, size_t *size, int *from_cache) {
    *code = NULL;
    *size = 0;
    if (!c) return LS_ERROR_ARGUMENT;
    c->message[0] = 0;
    Made *made = find_made(c, image);
    if (!made || variant >= image->variant_count)
        return task_keep_message(c, LS_ERROR_ARGUMENT, "the image is not one of this compilation");
    if (image->variants[variant].kernel_count == 0) return LS_OK; /* its parts have code */
    ls_status status = code_get(made, variant, c->options.no_cache, c->message, sizeof c->message);
    if (status != LS_OK) return status;
    *code = made->code[variant].data;
    *size = made->code[variant].size;
    if (from_cache) *from_cache = made->code[variant].from_cache;
    return LS_OK;
}

ls_status ls_compilation_codes(ls_compilation *c, const ls_code_request *requests, size_t count) {
    if (!c) return LS_ERROR_ARGUMENT;
    CodeRequest *wanted = calloc(count + 1, sizeof *wanted);
    size_t known = 0;
    for (size_t i = 0; wanted && i < count; i++) { /* without: they are made one by one */
        Made *made = find_made(c, requests[i].image);
        if (made && requests[i].variant < made->image->variant_count &&
            made->image->variants[requests[i].variant].kernel_count)
            wanted[known++] = (CodeRequest){made, (uint32_t)requests[i].variant};
    }
    code_make_all(wanted, known, c->options.no_cache, NULL, NULL);
    free(wanted);
    for (size_t i = 0; i < count; i++) {
        Made *made = find_made(c, requests[i].image);
        if (made && requests[i].variant < made->image->variant_count &&
            made->code[requests[i].variant].data)
            continue;
        const void *code;
        size_t size;
        ls_status status =
            ls_compilation_code(c, requests[i].image, requests[i].variant, &code, &size, NULL);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

typedef struct KnownJob {
    Made *made;
    uint32_t variant;
    const int64_t *lengths;
    ls_known_when when;
    KnownCode *known;
} KnownJob;

static ls_status make_known(ls_compilation *c, void *job) {
    KnownJob *j = job;
    return compile_known(c, j->made, j->variant, j->lengths, j->when, &j->known);
}

ls_status ls_compilation_known(ls_compilation *c, const ls_image *image, size_t variant,
                               int64_t *lengths, ls_known_when when, const void **code,
                               size_t *size, int *from_cache) {
    int64_t known[LS_AXES_MAX];
    *code = NULL;
    if (!c) return LS_ERROR_ARGUMENT;
    KnownJob job = {find_made(c, image), (uint32_t)variant, known, when, NULL};
    c->message[0] = 0;
    if (!job.made || variant >= image->variant_count || image->variants[variant].form ||
        !known_lengths(image, job.variant, lengths, known))
        return LS_ERROR_UNSUPPORTED;
    memcpy(lengths, known, image->axis_count * sizeof *lengths);
    ls_status status = task_run(c, make_known, &job);
    return status == LS_OK ? known_take(job.known, code, size, from_cache) : status;
}

/* ---- what `lockstep tune` found ---- */

ls_status ls_compilation_image_tuned(ls_compilation *c, size_t step, const char *target,
                                     const char *device, const ls_image **image) {
    StepJob job = {.step = step, .word = target, .device = device};
    ls_status status = run_on_step(c, make_tuned, &job);
    *image = job.made ? job.made->image : NULL;
    return status;
}

ls_status ls_tuning_keep(const ls_image *image, const ls_tuning_record *record, char *reason,
                         size_t size) {
    return tune_keep(image, record, reason, size);
}

size_t ls_tuning_list(const ls_image *image, const char *device, ls_tuning_record *records,
                      size_t capacity) {
    return tune_list(image, device, records, capacity);
}

/* ---- reports and text for people ---- */

static ls_status emit(ls_compilation *c, void *job) {
    StepJob *j = job;
    return report_emit(c, j->step, j->word, &j->data, &j->size);
}

ls_status ls_compilation_emit(ls_compilation *c, size_t step, const char *form, const char **data,
                              size_t *size) {
    StepJob job = {.step = step, .word = form};
    ls_status status = run_on_step(c, emit, &job);
    *data = job.data;
    *size = job.size;
    return status;
}

static ls_status explain(ls_compilation *c, void *job) {
    StepJob *j = job;
    j->data = report_explain(c, j->step, j->options);
    return LS_OK;
}

ls_status ls_compilation_explain(ls_compilation *c, size_t step, const ls_explain_options *options,
                                 const char **text) {
    StepJob job = {.step = step, .options = options};
    ls_status status = run_on_step(c, explain, &job);
    *text = job.data;
    return status;
}

static ls_status advise(ls_compilation *c, void *job) {
    StepJob *j = job;
    report_advise(c, j->step, j->advise, j->advice);
    return LS_OK;
}

ls_status ls_compilation_advise(ls_compilation *c, size_t step, const ls_advise_options *options,
                                ls_advice *advice) {
    StepJob job = {.step = step, .advise = options, .advice = advice};
    if (advice) *advice = (ls_advice){0};
    if (!options || !options->target || !advice || (!options->sizes && options->size_count) ||
        (!options->machine.rates && options->machine.rate_count))
        return LS_ERROR_ARGUMENT;
    return run_on_step(c, advise, &job);
}

/* ---- ahead of time ---- */

typedef struct AheadJob {
    const ls_ahead_options *options;
    const char *header, *source;
} AheadJob;

static void check_targets(ls_compilation *c, const ls_ahead_options *options) {
    if (!options->target_count)
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT,
                      "name the targets to build for, such as cpu, sm_90 or gfx90a");
    for (size_t i = 0; i < options->target_count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(options->targets[i], options->targets[k]) == 0)
                compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "target %s is named twice",
                              options->targets[i]);
}

static void check_prefix(ls_compilation *c, const char *prefix) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    if (!prefix || (strspn(prefix, letters) == strlen(prefix) && *prefix != '_' &&
                    !(*prefix >= '0' && *prefix <= '9')))
        return;
    compiler_fail(
        &c->compiler, LS_ERROR_ARGUMENT,
        "'%.64s' begins no name of C: a prefix has letters, digits and _, and begins with "
        "a letter",
        prefix);
}

static ls_status build_ahead(ls_compilation *c, void *job) {
    AheadJob *j = job;
    const ls_ahead_options *options = j->options;
    Arena *arena = &c->compiler.arena;
    Text shared[2] = {text_open(arena), text_open(arena)};
    const ls_image_layout last = options->contiguous ? LS_LAYOUT_DENSE : LS_LAYOUT_STRIDED;
    check_targets(c, options);
    check_prefix(c, options->prefix);
    const size_t targets = options->target_count, own = options->step_count * targets;
    size_t count = own;
    for (size_t i = 0; i < options->step_count; i++)
        if (c->steps[options->steps[i]].sequence)
            count += targets * c->steps[options->steps[i]].sequence->part_count;
    AheadImage *images = arena_alloc(arena, (count + 1) * sizeof *images);
    AheadImage *image = images, *part = images + own;
    for (size_t i = 0; i < options->step_count; i++)
        for (size_t t = 0; t < targets; t++, image++) {
            const size_t step = options->steps[i];
            *image = compile_ahead(c, step, options->targets[t], last, shared);
            image->parts = part;
            image->part_count = c->steps[step].sequence ? c->steps[step].sequence->part_count : 0;
            for (size_t k = 0; k < image->part_count; k++)
                *part++ = compile_ahead(c, c->steps[step].first_part + k, options->targets[t], last,
                                        shared);
        }
    const AheadInput input = {&c->compiler, options, images, count, shared, c->options.no_cache};
    j->source = ahead_text(&input, &j->header);
    return LS_OK;
}

ls_status ls_compilation_ahead(ls_compilation *c, const ls_ahead_options *options,
                               const char **header, const char **source) {
    AheadJob job = {.options = options};
    *header = *source = NULL;
    if (!c) return LS_ERROR_ARGUMENT;
    c->message[0] = 0;
    ls_status status = LS_OK;
    for (size_t i = 0; status == LS_OK && i < options->step_count; i++)
        status = task_find_step(c, options->steps[i]);
    if (status == LS_OK) status = task_run(c, build_ahead, &job);
    if (status != LS_OK) return status;
    *header = job.header;
    *source = job.source;
    return LS_OK;
}

typedef struct KernelsJob {
    const ls_kernels_options *options;
    CodeRequest *requests;
    size_t count;
    Kernels *kernels;
} KernelsJob;

static void show_kernels(void *user, size_t done) {
    const KernelsJob *j = user;
    j->options->progress(j->options->user, done, j->count, j->options->level);
}

/* Adds the variants of a step, or of a part of one, that have kernels. */
static void request_kernels(ls_compilation *c, size_t step, const char *level, KernelsJob *j) {
    const ls_image_layout last = j->options->contiguous ? LS_LAYOUT_PITCHED : LS_LAYOUT_STRIDED;
    Arena *arena = &c->compiler.arena;
    const Made *usual = compile_image(c, step, LS_TARGET_CPU);
    Made *made = arena_alloc(arena, sizeof *made);
    *made = (Made){.image = usual->image, .math = usual->math, .told = usual->told, .level = level};
    made->code = arena_alloc(arena, usual->image->variant_count * sizeof *made->code);
    CodeRequest *grown =
        arena_alloc(arena, (j->count + usual->image->variant_count + 1) * sizeof *grown);
    if (j->count) memcpy(grown, j->requests, j->count * sizeof *grown);
    j->requests = grown;
    for (uint32_t v = 0; v < usual->image->variant_count; v++)
        if (usual->image->variants[v].kernel_count && usual->image->variants[v].layout <= last)
            grown[j->count++] = (CodeRequest){made, v};
    const Sequence *sequence = c->steps[step].sequence;
    for (size_t i = 0; sequence && i < sequence->part_count; i++)
        request_kernels(c, c->steps[step].first_part + i, level, j);
}

static ls_status list_kernels(ls_compilation *c, void *job) {
    KernelsJob *j = job;
    const char *level = arena_printf(&c->compiler.arena, LS_TARGET_CPU ":%s", j->options->level);
    char reason[512];
    RtcCpu cpu;
    if (!rtc_cpu_find(level, &cpu, reason, sizeof reason))
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "%s", reason);
    for (size_t i = 0; i < j->options->step_count; i++)
        request_kernels(c, j->options->steps[i], level, j);
    return LS_OK;
}

static ls_status place_kernels(ls_compilation *c, void *job) {
    KernelsJob *j = job;
    const char *path = j->options->path;
    for (size_t i = 0; i < j->count; i++) kernels_add(j->kernels, &j->requests[i]);
    kernels_place(j->kernels, &c->compiler.arena, j->options->packed != 0);
    return kernels_write(j->kernels, path, c->message, sizeof c->message);
}

ls_status ls_compilation_kernels(ls_compilation *c, const ls_kernels_options *options) {
    KernelsJob job = {.options = options};
    if (!c) return LS_ERROR_ARGUMENT;
    const bool no_cache = c->options.no_cache;
    c->message[0] = 0;
    ls_status status = LS_OK;
    for (size_t i = 0; status == LS_OK && i < options->step_count; i++)
        status = task_find_step(c, options->steps[i]);
    if (status == LS_OK) status = task_run(c, list_kernels, &job);
    if (status == LS_OK)
        code_make_all(job.requests, job.count, no_cache, options->progress ? show_kernels : NULL,
                      &job);
    for (size_t i = 0; status == LS_OK && i < job.count; i++)
        status = code_get(job.requests[i].made, job.requests[i].variant, no_cache, c->message,
                          sizeof c->message);
    if (status == LS_OK) {
        job.kernels = kernels_open(options->path, job.count);
        status = job.kernels ? task_run(c, place_kernels, &job)
                             : task_keep_message(c, LS_ERROR_MEMORY, "the host ran out of memory");
        kernels_close(job.kernels);
    }
    for (size_t i = 0; i < job.count; i++) {
        Code *code = &job.requests[i].made->code[job.requests[i].variant];
        free(code->data);
        code->data = NULL;
    }
    return status;
}

/* ---- layout of source text, versions ---- */

typedef struct FormatJob {
    SourceJob source;
    char *formatted;
} FormatJob;

static ls_status format(ls_compilation *c, void *job) {
    FormatJob *f = job;
    const char *result =
        format_source(&c->compiler, f->source.name, f->source.text, f->source.size);
    ls_status status = result ? LS_OK : LS_ERROR_PROGRAM;
    if (!result) {
        Text messages = text_open(&c->compiler.arena);
        diagnostics_render(&c->compiler, &messages, false);
        result = messages.data;
    }
    f->formatted = strdup(result);
    return f->formatted ? status : LS_ERROR_MEMORY;
}

ls_status ls_format_text(const char *name, const char *text, size_t size, char **formatted) {
    *formatted = NULL;
    ls_compilation *c = compilation_new(NULL);
    if (!c) return LS_ERROR_MEMORY;
    FormatJob job = {{.name = name, .text = text, .size = size}, NULL};
    ls_status status = task_run(c, format, &job);
    *formatted = job.formatted;
    ls_compilation_destroy(c);
    return status;
}

void ls_text_free(char *text) {
    free(text);
}

const char *ls_version(void) {
    return compiler_version();
}
uint64_t ls_numeric_version(void) {
    return numeric_version();
}
