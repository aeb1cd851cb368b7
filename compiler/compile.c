/* compile.c: the pipeline, and the public functions of lockstep/compiler.h.
 *
 * step_ir is the whole order of the passes; compilation_image goes on to source text, and code.c to
 * machine code through the cache. Every public function sets the point that
 * compiler_fail unwinds to, so a broken invariant or a lack of memory comes back as a status.
 * Stages are written to the dump directory as STEP.N-NAME.EXT when one is given. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler.h"
#include "rtc.h"
#include "plan.h"
#include "compilation.h"

/* ---- dumps ---- */

static void dump(ls_compilation *c, const char *step, const char *stage, const char *text) {
    if (!c->options.dump) return;
    mkdir(c->options.dump, 0777); /* may be there; if it cannot be made, fopen says so */
    const char *path = arena_printf(&c->compiler.arena, "%s/%s.%s", c->options.dump, step, stage);
    FILE *file = fopen(path, "wb");
    bool written = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0) written = false;
    if (!written)
        compiler_fail(&c->compiler, LS_ERROR_FILE,
                      "cannot write %s, a stage of the compile: %s; LOCKSTEP_DUMP names the folder",
                      path, strerror(errno));
}

static void dump_ir(ls_compilation *c, const Function *f, const char *stage, const Text *before,
                    Text *text) {
    *text = text_open(&c->compiler.arena);
    if (!c->options.dump) return;
    ir_print(f, text);
    bool same = before && strcmp(before->data, text->data) == 0;
    dump(c, f->name, stage, same ? "(unchanged)\n" : text->data);
}

/* ---- the pipeline ---- */

static void step_ir(ls_compilation *c, size_t number) {
    StepState *step = &c->steps[number];
    Text lowered, derived, simplified;
    step->lowered = lower_step(&c->compiler, c->module, number);
    if (!step->lowered) return;
    ir_check(step->lowered, STAGE_LOWERED);
    dump_ir(c, step->lowered, "1-lowered.ir", NULL, &lowered);
    step->derived = derive(step->lowered);
    if (!step->derived) return;
    ir_check(step->derived, STAGE_DERIVED);
    dump_ir(c, step->derived, "2-derived.ir", &lowered, &derived);
    Function *once = simplify(step->derived);
    ir_check(once, STAGE_SIMPLIFIED);
    Function *gathered = gather(once);
    if (!gathered) return;
    ir_check(gathered, STAGE_GATHERED);
    step->simplified = gathered == once ? once : simplify(gathered);
    ir_check(step->simplified, STAGE_GATHERED);
    dump_ir(c, step->simplified, "3-simplified.ir", &derived, &simplified);
}

const ls_image *compilation_image(ls_compilation *c, size_t number, const char *target_name) {
    StepState *step = &c->steps[number];
    for (Made *made = step->made; made; made = made->next)
        if (strcmp(made->image->target, target_name) == 0) return made->image;
    const Target *target = target_for(target_name);
    if (!target || !rtc_for_target(target_name))
        compiler_fail(
            &c->compiler, LS_ERROR_ARGUMENT,
            "there is no target %s: targets are cpu, sm_NN and compute_NN (CUDA), gfxNNN (HIP)",
            target_name);
    if (!step->plan) step->plan = plan_build(step->simplified);
    Made *made = arena_alloc(&c->compiler.arena, sizeof *made);
    made->image =
        (ls_image *)(uintptr_t)emit_step(step->plan, target, target_name, LS_LAYOUT_STRIDED, NULL);
    made->math = step->simplified->math;
    made->code = arena_alloc(&c->compiler.arena, made->image->variant_count * sizeof *made->code);
    made->next = step->made;
    step->made = made;
    for (uint32_t v = 0; v < made->image->variant_count; v++)
        dump(c, step->simplified->name,
             arena_printf(&c->compiler.arena, "4-%s-%u.%s", target_name, v, target->name),
             made->image->variants[v].source);
    return made->image;
}

/* ---- compilations ---- */

static ls_status keep_message(ls_compilation *c, ls_status status, const char *message) {
    snprintf(c->message, sizeof c->message, "%s", message);
    return status;
}

/* Runs a task to its end or to where a pass unwinds, with numbers read and written as in the C
 * locale, whatever the program has set. */
ls_status compilation_run(ls_compilation *c, ls_status (*task)(ls_compilation *c, void *job),
                          void *job) {
    locale_t before = c->locale ? uselocale(c->locale) : (locale_t)0;
    ls_status status;
    if (setjmp(c->compiler.unwind))
        status = keep_message(c, c->compiler.failure, c->compiler.failure_message);
    else
        status = task(c, job);
    if (before) uselocale(before);
    return status;
}

static ls_compilation *compilation_new(const ls_compile_options *options) {
    ls_compilation *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    if (options) c->options = *options;
    if (!c->options.dump) c->options.dump = environment_value("LOCKSTEP_DUMP");
    if (c->options.dump && !*c->options.dump) c->options.dump = NULL;
    c->compiler.options = &c->options;
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
    copy_import_paths(c, environment_value("LOCKSTEP_PATH"));
    if (c->options.dump)
        c->options.dump = arena_copy(arena, c->options.dump, strlen(c->options.dump));
}

typedef struct SourceJob {
    const char *name, *text;
    size_t size;
    bool from_library;
} SourceJob;

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
        c->step_count = count;
        for (size_t i = 0; i < count; i++) step_ir(c, i);
    }
    return c->compiler.error_count ? LS_ERROR_PROGRAM : LS_OK;
}

ls_status ls_compile_text(const char *name, const char *text, size_t size,
                          const ls_compile_options *options, ls_compilation **compilation) {
    *compilation = compilation_new(options);
    if (!*compilation) return LS_ERROR_MEMORY;
    return compilation_run(*compilation, read_source, &(SourceJob){name, text, size, false});
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

/* What is a little too large is read, for the compiler to say so in its place. */
enum { READ_MAX = 2 * FILE_MAX };

/* The bytes of a file, with a zero behind them, or NULL with the reason. "-" is standard input,
 * which may be a pipe; what has a name must be a file: a device or a pipe may have no end. */
static char *read_whole(const char *path, size_t *size, const char **reason) {
    const bool standard = strcmp(path, "-") == 0;
    struct stat status;
    char *data = NULL;
    /* not to wait for a writer where the name is a FIFO's */
    int file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *size = 0;
    *reason = NULL;
    if (file < 0) return NULL;
    if (!standard && fstat(file, &status) != 0) goto done;
    if (!standard && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        goto done;
    }
    if (!standard && !S_ISREG(status.st_mode)) {
        *reason = "it is no regular file; `-` reads a program from standard input";
        goto done;
    }
    data = malloc(READ_MAX + 2);
    for (ssize_t got = 1; data && got != 0 && *size <= READ_MAX;) {
        got = read(file, data + *size, READ_MAX + 1 - *size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            free(data);
            data = NULL;
            break;
        }
        *size += (size_t)got;
    }
    if (data && *size > READ_MAX) {
        *reason = "it is larger than a source may be, 4 MiB";
        free(data);
        data = NULL;
    }
    if (data) data[*size] = 0;
done:
    if (!standard) {
        int error = errno;
        close(file);
        errno = error;
    }
    return data;
}

ls_status ls_compile_file(const char *path, const ls_compile_options *options,
                          ls_compilation **compilation) {
    size_t size;
    const char *reason;
    char *text = read_whole(path, &size, &reason);
    if (text) {
        ls_status status = ls_compile_text(strcmp(path, "-") == 0 ? "<stdin>" : path, text, size,
                                           options, compilation);
        free(text);
        return status;
    }
    int error = errno;
    *compilation = compilation_new(options);
    if (!*compilation) return LS_ERROR_MEMORY;
    const EmbeddedFile *library =
        !reason && (error == ENOENT || error == EISDIR) ? library_file(path) : NULL;
    if (library)
        return compilation_run(*compilation, read_source,
                               &(SourceJob){library->path, library->text, library->size, true});
    snprintf((*compilation)->message, sizeof(*compilation)->message, "cannot read %s: %s", path,
             reason ? reason : strerror(error));
    return LS_ERROR_FILE;
}

void ls_compilation_destroy(ls_compilation *c) {
    if (!c) return;
    for (size_t i = 0; i < c->step_count; i++)
        for (Made *made = c->steps[i].made; made; made = made->next) {
            for (uint32_t v = 0; v < made->image->variant_count; v++) free(made->code[v].data);
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
    if (c->message[0] || compilation_run(c, render, &job) != LS_OK) return c->message;
    return job.text;
}

const char *ls_compilation_message(const ls_compilation *c) {
    return message((ls_compilation *)c, false);
}
const char *ls_compilation_message_color(const ls_compilation *c) {
    return message((ls_compilation *)c, true);
}
size_t ls_compilation_diagnostic_count(const ls_compilation *c) {
    return c->compiler.diagnostic_count;
}
const ls_diagnostic *ls_compilation_diagnostic(const ls_compilation *c, size_t index) {
    return index < c->compiler.diagnostic_count ? &c->compiler.diagnostics[index] : NULL;
}
size_t ls_compilation_step_count(const ls_compilation *c) {
    return c->step_count;
}
size_t ls_compilation_own_step_count(const ls_compilation *c) {
    return c->step_count ? module_own_count(c->module) : 0;
}
const char *ls_compilation_step_name(const ls_compilation *c, size_t step) {
    return step < c->step_count ? module_step_name(c->module, step) : NULL;
}
size_t ls_compilation_file_count(const ls_compilation *c) {
    return c->compiler.file_count;
}
const char *ls_compilation_file(const ls_compilation *c, size_t index) {
    return index < c->compiler.file_count ? c->compiler.files[index] : NULL;
}

static ls_status check_step(ls_compilation *c, size_t step) {
    if (c->compiler.error_count) return LS_ERROR_PROGRAM;
    if (step < c->step_count && c->steps[step].simplified) return LS_OK;
    return keep_message(c, LS_ERROR_ARGUMENT, "the file has no step of that number");
}

const Function *compilation_function(ls_compilation *c, size_t step, Stage stage) {
    if (check_step(c, step) != LS_OK) return NULL;
    const StepState *s = &c->steps[step];
    return stage == STAGE_LOWERED   ? s->lowered
           : stage == STAGE_DERIVED ? s->derived
                                    : s->simplified;
}

/* ---- images and code ---- */

typedef struct StepJob {
    size_t step;
    const char *word; /* a target or a form */
    const ls_explain_options *options;
    const ls_image *image;
    const char *data;
    size_t size;
} StepJob;

/* A task about one step: refused when there is no such step. */
static ls_status run_on_step(ls_compilation *c, ls_status (*task)(ls_compilation *c, void *job),
                             StepJob *job) {
    c->message[0] = 0;
    ls_status status = check_step(c, job->step);
    return status == LS_OK ? compilation_run(c, task, job) : status;
}

static ls_status make_image(ls_compilation *c, void *job) {
    StepJob *j = job;
    j->image = compilation_image(c, j->step, j->word);
    return LS_OK;
}

ls_status ls_compilation_image(ls_compilation *c, size_t step, const char *target,
                               const ls_image **image) {
    StepJob job = {.step = step, .word = target};
    ls_status status = run_on_step(c, make_image, &job);
    *image = job.image;
    return status;
}

/* ---- emission for people ---- */

/* What `emit` can give: the text of a dialect, or what a toolchain makes of it. */
static const struct {
    const char *form, *toolchain; /* of its targets; NULL: any */
    const char *target;           /* where none is named; NULL: it must be */
    bool text;
    RtcForm made;
} forms[] = {
    {"cuda", "nvrtc", "sm_80", true, RTC_IMAGE}, {"hip", "hiprtc", "gfx90a", true, RTC_IMAGE},
    {"c", "host", "cpu", true, RTC_IMAGE},       {"ptx", "nvrtc", "sm_80", false, RTC_ASSEMBLY},
    {"cubin", "nvrtc", NULL, false, RTC_IMAGE},  {"hsaco", "hiprtc", NULL, false, RTC_IMAGE},
    {"asm", NULL, "cpu", false, RTC_ASSEMBLY},
};

/* Makes the place for an output, before there is one that a lack of memory could lose. */
static void expect_output(ls_compilation *c) {
    Output *kept = arena_alloc(&c->compiler.arena, sizeof *kept);
    kept->next = c->outputs;
    c->outputs = kept;
}

static ls_status keep_output(ls_compilation *c, RtcOutput *output, const char **data,
                             size_t *size) {
    c->outputs->data = output->data;
    *data = output->data;
    *size = output->size;
    output->data = NULL;
    rtc_output_free(output);
    return LS_OK;
}

/* The first that suits the lengths which reports assume, which are not short. */
static size_t usual_variant(const ls_compilation *c, size_t step, const ls_image *image) {
    const ReportSizes sizes = report_sizes(c->steps[step].simplified, NULL, 0);
    size_t variant = 0;
    while (variant + 1 < image->variant_count && !report_suits(&sizes, &image->variants[variant]))
        variant++;
    return variant;
}

static ls_status emit_form(ls_compilation *c, void *job) {
    StepJob *j = job;
    const size_t step = j->step;
    const char *form = j->word;
    if (strcmp(form, "ir") == 0) {
        Text text = text_open(&c->compiler.arena);
        ir_print(c->steps[step].simplified, &text);
        j->data = text.data;
        j->size = text.size;
        return LS_OK;
    }
    /* FORM[:TARGET][#VARIANT] */
    char *word = arena_copy(&c->compiler.arena, form, strlen(form));
    char *number = strchr(word, '#'), *target = strchr(word, ':');
    if (number) *number++ = 0;
    if (target) *target++ = 0;
    for (size_t i = 0; i < COUNT(forms); i++) {
        if (strcmp(forms[i].form, word) != 0) continue;
        const char *name = target && *target ? target : forms[i].target;
        if (!name)
            compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "%s needs a target, such as %s", word,
                          strcmp(word, "cubin") == 0 ? "cubin:sm_90" : "hsaco:gfx90a");
        const Rtc *rtc = rtc_for_target(name);
        if (rtc && forms[i].toolchain && strcmp(rtc->name, forms[i].toolchain) != 0)
            compiler_fail(&c->compiler, LS_ERROR_ARGUMENT,
                          "there is no %s for %s: %s is made by %s, and %s is a target of %s", word,
                          name, word, forms[i].toolchain, name, rtc->name);
        const ls_image *image = compilation_image(c, step, name);
        size_t variant = number ? strtoul(number, NULL, 10) : usual_variant(c, step, image);
        if (variant >= image->variant_count)
            compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "step %s has variants 0 to %u",
                          image->step, image->variant_count - 1);
        const char *source = image->variants[variant].source;
        if (forms[i].text) {
            j->data = source;
            j->size = strlen(source);
            return LS_OK;
        }
        RtcOutput output = {0};
        expect_output(c);
        ls_status status =
            code_make(rtc, source, image->step, name, forms[i].made,
                      compilation_made(c, image)->math, &output, c->message, sizeof c->message);
        return status == LS_OK ? keep_output(c, &output, &j->data, &j->size) : status;
    }
    compiler_fail(
        &c->compiler, LS_ERROR_ARGUMENT,
        "cannot emit %s: the forms are ir, cuda, hip, c, ptx[:sm_NN], cubin:sm_NN, hsaco:gfxNNN "
        "and asm[:TARGET]",
        form);
}

ls_status ls_compilation_emit(ls_compilation *c, size_t step, const char *form, const char **data,
                              size_t *size) {
    StepJob job = {.step = step, .word = form};
    ls_status status = run_on_step(c, emit_form, &job);
    *data = job.data;
    *size = job.size;
    return status;
}

static ls_status explain(ls_compilation *c, void *job) {
    StepJob *j = job;
    if (!c->steps[j->step].plan) c->steps[j->step].plan = plan_build(c->steps[j->step].simplified);
    j->data = explain_step(c, j->step, j->options);
    return LS_OK;
}

ls_status ls_compilation_explain(ls_compilation *c, size_t step, const ls_explain_options *options,
                                 const char **text) {
    StepJob job = {.step = step, .options = options};
    ls_status status = run_on_step(c, explain, &job);
    *text = job.data;
    return status;
}

/* ---- ahead of time ---- */

typedef struct AheadJob {
    const ls_ahead_options *options;
    const char *header, *source;
} AheadJob;

static ls_status build_ahead(ls_compilation *c, void *job) {
    AheadJob *j = job;
    j->source = ahead_text(c, j->options, &j->header);
    return LS_OK;
}

ls_status ls_compilation_ahead(ls_compilation *c, const ls_ahead_options *options,
                               const char **header, const char **source) {
    AheadJob job = {.options = options};
    *header = *source = NULL;
    c->message[0] = 0;
    ls_status status = LS_OK;
    for (size_t i = 0; status == LS_OK && i < options->step_count; i++)
        status = check_step(c, options->steps[i]);
    if (status == LS_OK) status = compilation_run(c, build_ahead, &job);
    if (status != LS_OK) return status;
    *header = job.header;
    *source = job.source;
    return LS_OK;
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
    ls_status status = compilation_run(c, format, &job);
    *formatted = job.formatted;
    ls_compilation_destroy(c);
    return status;
}

void ls_text_free(char *text) {
    free(text);
}

const char *ls_version(void) {
    return LOCKSTEP_VERSION;
}
uint64_t ls_numeric_version(void) {
    return numeric_version();
}
