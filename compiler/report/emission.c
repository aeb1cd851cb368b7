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
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

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
    const PlanSizes sizes = plan_sizes_read(c->steps[step].simplified, NULL, 0);
    size_t variant = 0;
    while (variant + 1 < image->variant_count &&
           !plan_sizes_suit(&sizes, &image->variants[variant]))
        variant++;
    return variant;
}

ls_status report_emit(ls_compilation *c, size_t step, const char *form, const char **data,
                      size_t *size) {
    const bool plan = strcmp(form, "plan") == 0;
    if (plan || strcmp(form, "ir") == 0) {
        Text text = text_open(&c->compiler.arena);
        if (plan)
            plan_print(compile_plan(c, step), &text);
        else
            ir_print(c->steps[step].simplified, &text);
        *data = text.data;
        *size = text.size;
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
        const Made *made = compile_image(c, step, name);
        const ls_image *image = made->image;
        size_t variant = number ? strtoul(number, NULL, 10) : usual_variant(c, step, image);
        if (variant >= image->variant_count)
            compiler_fail(&c->compiler, LS_ERROR_ARGUMENT, "step %s has variants 0 to %u",
                          image->step, image->variant_count - 1);
        const char *source = image->variants[variant].source;
        if (forms[i].text) {
            *data = source;
            *size = strlen(source);
            return LS_OK;
        }
        RtcOutput output = {0};
        expect_output(c);
        ls_status status = code_make(rtc, source, image->step, name, forms[i].made, made->math,
                                     &output, c->message, sizeof c->message);
        return status == LS_OK ? keep_output(c, &output, data, size) : status;
    }
    compiler_fail(&c->compiler, LS_ERROR_ARGUMENT,
                  "cannot emit %s: the forms are ir, plan, cuda, hip, c, ptx[:sm_NN], cubin:sm_NN, "
                  "hsaco:gfxNNN and asm[:TARGET]",
                  form);
}
