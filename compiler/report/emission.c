/* emission.c: what `lockstep emit` shows: the IR of a step, the source text of a variant in a
 * dialect, or what a toolchain makes of that. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

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

/* The first whose conditions the lengths that reports assume meet; they are not short. */
static size_t usual_variant(const ls_compilation *c, size_t step, const ls_image *image) {
    const PlanSizes sizes = plan_sizes_read(c->steps[step].simplified, NULL, 0);
    size_t variant = 0;
    while (variant + 1 < image->variant_count &&
           !ls_image_suits(&image->variants[variant], 0, plan_sizes_value, &sizes))
        variant++;
    return variant;
}

static const char **split_sizes(ls_compilation *c, char *words, size_t *count) {
    size_t max = 1;
    *count = 0;
    for (const char *at = words; *at; at++) max += *at == ',';
    const char **sizes = arena_alloc(&c->compiler.arena, max * sizeof *sizes);
    for (char *word = strtok_r(words, ",", &words); word; word = strtok_r(NULL, ",", &words))
        sizes[(*count)++] = word;
    return sizes;
}

/* The one that arrays of these lengths, "n=1024,c=64", take. */
static size_t variant_for(ls_compilation *c, size_t step, const ls_image *image, char *words) {
    size_t count;
    const char **sizes = split_sizes(c, words, &count);
    const PlanSizes read = plan_sizes_read(c->steps[step].simplified, sizes, count);
    bool together;
    uint32_t grouping;
    return report_choose(&read, compile_plan(c, step), image, &grouping, &together);
}

/* What stands behind the #: a number or lengths; nothing: the usual one. */
static size_t choose_variant(ls_compilation *c, size_t step, const ls_image *image, char *word) {
    if (!word) return usual_variant(c, step, image);
    if (word[strspn(word, "0123456789")]) return variant_for(c, step, image, word);
    const size_t variant = strtoul(word, NULL, 10);
    if (variant >= image->variant_count)
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "step %s has variants 0 to %u", image->step,
                      image->variant_count - 1);
    return variant;
}

static const ls_form *find_form(const char *name) {
    for (size_t i = 0; ls_form_at(i); i++)
        if (strcmp(ls_form_at(i)->name, name) == 0) return ls_form_at(i);
    return NULL;
}

_Noreturn static void refuse_form(ls_compilation *c, const char *form) {
    Text forms = text_open(&c->compiler.arena);
    target_put_forms(&forms);
    compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "cannot emit %s: the forms are %s", form,
                  forms.data);
}

/* The target to emit for: the one named, or the form's. */
static const char *choose_target(ls_compilation *c, const ls_form *form, const char *target) {
    const bool named = target && *target;
    if (!named && form->named)
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "%s needs a target, such as %s:%s",
                      form->name, form->name, form->target);
    const char *name = named ? target : form->target;
    const Rtc *rtc = rtc_for_target(name);
    const Target *dialect = target_for(name), *own = target_for(form->target);
    if (!rtc && target_is_well_formed(name) && form->content != LS_CONTENT_SOURCE)
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "there is no %s for %s: %s", form->name,
                      name, rtc_no_toolchain(name, &c->compiler.arena));
    if (dialect && dialect != own && form->content == LS_CONTENT_SOURCE &&
        !(rtc && form->toolchain))
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "there is no %s for %s: it is for %s",
                      form->name, name, form->target);
    if (rtc && form->toolchain && strcmp(rtc->name, form->toolchain) != 0)
        compiler_fail(&c->compiler, LS_ERROR_ARGUMENT,
                      "there is no %s for %s: %s is made by %s, and %s is a target of %s",
                      form->name, name, form->name, form->toolchain, name, rtc->name);
    return name;
}

static ls_status emit_made(ls_compilation *c, const ls_form *form, const Made *made,
                           const char *source, const char **data, size_t *size) {
    RtcOutput output = {0};
    expect_output(c);
    ls_status status =
        code_make(made, source, form->content == LS_CONTENT_CODE ? RTC_IMAGE : RTC_ASSEMBLY,
                  &output, c->message, sizeof c->message);
    return status == LS_OK ? keep_output(c, &output, data, size) : status;
}

/* The plain nest of each kernel, as the plan was compared by. */
static void print_nests(ls_compilation *c, const Plan *plan, Text *out) {
    for (size_t k = 0; k < plan->kernel_count; k++) {
        const char *problem;
        const PlainNest *plain =
            schedule_plain(plan, &plan->kernels[k], false, &c->compiler.arena, &problem);
        if (!plain)
            compiler_fail(&c->compiler, LS_ERROR_UNSUPPORTED, "kernel %zu has no nest yet: %s",
                          k + 1, problem);
        nest_check(plain->nest);
        nest_print(plain->nest, out);
    }
}

/* The form for a part of a step with `for`: lengths behind the # are the part's. */
static const char *part_form(ls_compilation *c, size_t step, const Function *part,
                             const char *form) {
    Arena *arena = &c->compiler.arena;
    const char *chosen = strchr(form, '#');
    size_t count;
    if (!chosen || !chosen[1 + strspn(chosen + 1, "0123456789")]) return form;
    const char **given = split_sizes(c, arena_copy(arena, chosen + 1, strlen(chosen + 1)), &count);
    const PlanSizes whole = plan_sizes_read(c->steps[step].simplified, given, count);
    const char **sizes = report_part_sizes(arena, &whole, part, given, &count);
    Text text = text_open(arena);
    text_printf(&text, "%.*s", (int)(chosen - form), form);
    for (size_t i = 0; i < count; i++) text_printf(&text, "%c%s", i ? ',' : '#', sizes[i]);
    return text.data;
}

/* Of a step with `for` the texts of its parts, one behind the other. */
static ls_status emit_parts(ls_compilation *c, size_t step, const char *form, const char **data,
                            size_t *size) {
    const StepState *state = &c->steps[step];
    Text text = text_open(&c->compiler.arena);
    for (size_t i = 0; i < state->sequence->part_count; i++) {
        const char *own = part_form(c, step, state->sequence->parts[i].function, form);
        ls_status status = report_emit(c, state->first_part + i, own, data, size);
        if (status != LS_OK) return status;
        text_add(&text, *data, *size);
    }
    *data = text.data;
    *size = text.size;
    return LS_OK;
}

ls_status report_emit(ls_compilation *c, size_t step, const char *form_word, const char **data,
                      size_t *size) {
    if (c->steps[step].sequence) return emit_parts(c, step, form_word, data, size);
    /* FORM[:TARGET][#VARIANT] */
    char *word = arena_copy(&c->compiler.arena, form_word, strlen(form_word));
    char *chosen = strchr(word, '#'), *target;
    if (chosen) *chosen++ = 0;
    target = strchr(word, ':');
    if (target) *target++ = 0;
    const ls_form *form = find_form(word);
    const bool own = form && form->content < LS_CONTENT_SOURCE; /* of no target */
    if (!form || (own && (target || chosen))) refuse_form(c, form_word);
    Text text = text_open(&c->compiler.arena);
    if (form->content == LS_CONTENT_IR) ir_print(c->steps[step].simplified, &text);
    if (form->content == LS_CONTENT_PLAN) plan_print(compile_plan(c, step), &text);
    if (form->content == LS_CONTENT_NEST) print_nests(c, compile_plan(c, step), &text);
    if (own) {
        *data = text.data;
        *size = text.size;
        return LS_OK;
    }
    const Made *made = compile_image(c, step, choose_target(c, form, target));
    const ls_image *image = made->image;
    const size_t variant = choose_variant(c, step, image, chosen);
    const char *source = image->variants[variant].source;
    if (form->content != LS_CONTENT_SOURCE) return emit_made(c, form, made, source, data, size);
    *data = source;
    *size = strlen(source);
    return LS_OK;
}
