/* sequence.c: the reports of a step with `for`: of all of it, and of each part with the loops
 * around it. Launches and bytes are counted in all iterations. */
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

const char **report_part_sizes(Arena *arena, const PlanSizes *whole, const Function *part,
                               const char *const *given, size_t *count) {
    const Function *f = whole->function;
    const Iteration *iteration = part->iteration;
    const char **words = arena_alloc(arena, (*count + 2 * part->axis_count + 1) * sizeof *words);
    for (size_t i = 0; i < *count; i++) words[i] = given[i];
    for (size_t a = 0; *count && a < f->axis_count; a++)
        if (part->axes[a].fixed < 0 && f->axes[a].fixed >= 0)
            words[(*count)++] =
                arena_printf(arena, "%s=%lld", part->axes[a].name, (long long)f->axes[a].fixed);
    for (size_t a = f->axis_count; *count && a < part->axis_count; a++) {
        const bool all = iteration && iteration->strip >= 0 && a == iteration->all;
        const int64_t length = all ? plan_sizes_length(whole, (size_t)iteration->strip, 0) : 0;
        words[(*count)++] = arena_printf(arena, "%s=%lld", part->axes[a].name, (long long)length);
    }
    return words;
}

static double array_bytes(const SequenceReport *r, const Parameter *row) {
    return plan_sizes_elements(&r->sizes, row->axes) * type_info[row->type].size;
}

/* 1, or 0 for a part that is for an axis that is empty, and none is. */
static double runs(const SequenceReport *r, size_t number) {
    const AxisSet empty = r->sequence->parts[number].empty;
    bool none = empty != 0;
    for (uint32_t a = 0; a < r->sequence->step->axis_count; a++)
        if ((empty >> a & 1) && plan_sizes_length(&r->sizes, a, 0) == 0) none = false;
    return none ? 0 : 1;
}

static void count(SequenceReport *r) {
    const Sequence *s = r->sequence;
    const Function *f = s->step;
    r->parts = arena_alloc(&r->c->compiler.arena, (s->part_count + 1) * sizeof *r->parts);
    r->turns = arena_alloc(&r->c->compiler.arena, (s->part_count + 1) * sizeof *r->turns);
    r->times = arena_alloc(&r->c->compiler.arena, (s->part_count + 1) * sizeof *r->times);
    for (size_t i = 0; i < s->part_count; i++) {
        size_t size_count = r->options->size_count;
        const char **sizes = report_part_sizes(
            &r->c->compiler.arena, &r->sizes, s->parts[i].function, r->options->sizes, &size_count);
        r->parts[i] = report_open(r->c, r->step->first_part + i, r->options, sizes, size_count);
        Report *part = &r->parts[i];
        uint32_t iterates = part->image->variants[part->variant].iterates;
        r->times[i] = r->turns[i] = runs(r, i);
        for (uint32_t loop = s->parts[i].loop; loop; loop = s->loops[loop - 1].outer) {
            const double length = (double)plan_sizes_length(&r->sizes, s->loops[loop - 1].axis, 0);
            r->turns[i] *= length;
            r->times[i] *= iterates && length > 0 ? 1 : length;
            iterates -= iterates > 0;
        }
        part->iterations = r->times[i] > 0 ? r->turns[i] / r->times[i] : 0;
        r->launches += r->times[i] * (double)r->parts[i].kernel_count;
        r->moved += r->turns[i] * part->moved + (r->turns[i] > 0 ? r->times[i] : 0) * part->once;
        r->temporary += part->temporary;
        r->apart += part->temporary_apart;
        r->temporary_count += part->temporary_count;
    }
    for (size_t i = 0; i < s->carried_count; i++, r->temporary_count++) {
        r->temporary += array_bytes(r, &s->carried[i]);
        r->apart += array_bytes(r, &s->carried[i]);
    }
    for (size_t i = 0; i < f->parameter_count; i++)
        r->minimum +=
            array_bytes(r, &f->parameters[i]) * (f->parameters[i].role == LS_INOUT ? 2 : 1);
}

/* "for t, for u reverse" from the outermost on. */
static void put_loops(SequenceReport *r, uint32_t loop) {
    if (loop == 0) return;
    const Loop *row = &r->sequence->loops[loop - 1];
    put_loops(r, row->outer);
    text_printf(&r->out, "%sfor %s%s", row->outer ? ", " : "",
                r->sequence->step->axes[row->axis].name, row->reverse ? " reverse" : "");
}

/* How one launch runs all iterations, and why not without waiting. */
static void put_iterations(SequenceReport *r, size_t number) {
    const Report *part = &r->parts[number];
    const ls_image_variant *variant = &part->image->variants[part->variant];
    const Iteration *iteration = part->plan->function->iteration;
    const char *near = emit_has_promoted(variant) ? ", with arrays in shared memory" : "";
    const char *own = variant->carried ? ", with states in registers" : "";
    const char *axis =
        iteration->strip >= 0 ? part->plan->function->axes[iteration->strip].name : NULL;
    text_printf(&r->out, ": all %.0f iterations in %.0f launch%s, ", r->turns[number],
                r->times[number], r->times[number] == 1 ? "" : "es");
    if (emit_has_lanes(variant)) {
        text_printf(&r->out, "each element's by a lane%s, as nothing goes from one to another",
                    own);
        return;
    }
    if (variant->strips)
        text_printf(&r->out, "on strips of %lld along %s, which nothing crosses%s",
                    (long long)part->strip, axis, near);
    else
        text_printf(&r->out,
                    part->together ? "whose blocks wait for each other%s, as "
                                   : "in one block%s, as ",
                    near);
    if (variant->strips) return;
    if (axis)
        text_printf(&r->out, "a strip along %s is too much work for one block", axis);
    else
        text_puts(&r->out, iteration->why);
}

static void put_part(SequenceReport *r, size_t number) {
    Report *part = &r->parts[number];
    const uint32_t loop = r->sequence->parts[number].loop;
    if (r->turns[number] == 0 && r->sequence->parts[number].empty) return;
    text_puts(&r->out, "  ");
    put_loops(r, loop);
    const char *es = part->kernel_count == 1 ? "" : "es";
    if (!loop)
        text_printf(&r->out, "%zu launch%s once", part->kernel_count, es);
    else if (part->image->variants[part->variant].iterates)
        put_iterations(r, number);
    else
        text_printf(&r->out, ": %.0f times %zu launch%s, as %s", r->times[number],
                    part->kernel_count, es,
                    !part->plan->function->iteration ? "the loop has more than one part"
                    : target_for(part->image->target)->together_limit
                        ? "an iteration is too much work for blocks that wait for each other"
                        : "an iteration is too much work for one thread");
    if (r->sequence->parts[number].sunk)
        text_puts(&r->out,
                  "; statements around the inner loop are in its first and last iteration");
    if (r->sequence->parts[number].distributed)
        text_printf(&r->out, "; in a loop of its own %s", r->sequence->parts[number].distributed);
    text_puts(&r->out, "\n");
    report_text_kernels(part);
    report_temporaries(part);
    report_tuned(part);
    text_puts(&r->out, part->out.data);
}

static void print_text(SequenceReport *r) {
    Report any = {.c = r->c};
    report_text_head(&r->sizes, &r->out);
    text_printf(&r->out, "  %.0f launch%s, %s", r->launches, r->launches == 1 ? "" : "es",
                report_bytes_text(&any, r->moved));
    text_printf(&r->out, " moved (%.2f of the minimum, %s), %s of temporaries\n",
                r->minimum > 0 ? r->moved / r->minimum : 1.0, report_bytes_text(&any, r->minimum),
                report_bytes_text(&any, r->temporary));
    if (r->options->peak_gb_s > 0)
        text_printf(&r->out, "  at %.4g GB/s at least %.4g us\n", r->options->peak_gb_s,
                    r->moved / r->options->peak_gb_s * 1e-3);
    for (size_t i = 0; i < r->sequence->carried_count; i++)
        text_printf(&r->out, "%s%s",
                    i ? ", " : "  in memory between parts: ", r->sequence->carried[i].name);
    text_puts(&r->out, r->sequence->carried_count ? "\n" : "");
    for (size_t i = 0; i < r->sequence->part_count; i++) put_part(r, i);
}

/* What stands in a part's kernels: its loops, its launches and what the loops were made into. */
static const char *json_part(SequenceReport *r, size_t number) {
    const Part *part = &r->sequence->parts[number];
    Text made = text_open(&r->c->compiler.arena), out = r->out;
    r->out = made;
    text_puts(&r->out, "\"loops\": \"");
    put_loops(r, part->loop);
    text_printf(&r->out,
                "\", \"launches\": %.0f, \"sunk\": %s, \"distributed\": ", r->times[number],
                part->sunk ? "true" : "false");
    if (part->distributed)
        text_printf(&r->out, "\"%s\", ", part->distributed);
    else
        text_puts(&r->out, "null, ");
    made = r->out;
    r->out = out;
    return made.data;
}

static void print_json(SequenceReport *r) {
    report_json_head(&r->sizes, &r->out);
    text_printf(&r->out,
                "}, \"launches\": %.0f,\n     \"bytes_moved\": %.0f, \"bytes_minimum\": %.0f, "
                "\"temporary_bytes\": %.0f, \"temporary_bytes_apart\": %.0f, \"temporaries\": %zu, "
                "\"math\": \"%s\",\n     \"optional\": [],\n     \"kernels\": [",
                r->launches, r->moved, r->minimum, r->temporary, r->apart, r->temporary_count,
                ir_math_names[r->sequence->step->math]);
    for (size_t i = 0, before = 0; i < r->sequence->part_count; i++) {
        Report *part = &r->parts[i];
        report_json_kernels(part, before ? "," : "", json_part(r, i));
        text_puts(&r->out, part->out.data);
        before += part->kernel_count;
    }
    text_puts(&r->out, "],\n     \"alternatives\": [],\n     \"search_stopped\": false,\n"
                       "     \"tuned\": [");
    for (size_t i = 0, tuned = 0; i < r->sequence->part_count; i++) {
        Report *part = &r->parts[i];
        part->out = text_open(&r->c->compiler.arena);
        tuned = report_tuned_records(part, tuned);
        text_puts(&r->out, part->out.data);
    }
    text_puts(&r->out, "]}\n]}\n");
}

SequenceReport report_sequence_open(ls_compilation *c, size_t number,
                                    const ls_explain_options *options) {
    const StepState *step = &c->steps[number];
    SequenceReport r = {.c = c, .step = step, .sequence = step->sequence, .options = options};
    r.out = text_open(&c->compiler.arena);
    r.sizes = plan_sizes_read(step->simplified, options->sizes, options->size_count);
    count(&r);
    return r;
}

const char *report_sequence(ls_compilation *c, size_t number, const ls_explain_options *options) {
    SequenceReport r = report_sequence_open(c, number, options);
    for (size_t i = 0; i < r.sequence->part_count; i++) {
        Report *part = &r.parts[i];
        if (options->report == LS_REPORT_SCHEDULES) report_schedules(part);
        if (options->report == LS_REPORT_DOT) report_graph(part);
        if (options->report == LS_REPORT_SCHEDULES || options->report == LS_REPORT_DOT)
            text_puts(&r.out, part->out.data);
    }
    if (options->report == LS_REPORT_JSON) print_json(&r);
    if (options->report == LS_REPORT_TEXT) print_text(&r);
    return r.out.data;
}
