/* explain.c: what a step will cost and why.
 *
 * The plan as text and as JSON (its keys are a contract with scripts); as a graph it is
 * graph.c's. Bytes
 * are counted for the sizes given: each array once per pass that touches it, a kernel of several
 * phases making as many passes; the minimum is every input read once and every output written once.
 * Registers, spills and access widths come from the toolchains, for the targets requested. Needs a
 * plan. */
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
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

/* ---- counting ---- */

const char *const report_partitions[SHAPE_COUNT] = {"scalar", "map", "rows", "columns", "scan"};

/* Of one iteration, where the variant runs all: without what these carry, which moves once. */
static void count_kernel(Report *r, KernelReport *kernel) {
    Arena *arena = &r->c->compiler.arena;
    const uint8_t *carried = r->image->variants[r->variant].carried;
    const KernelBytes bytes = carried ? plan_iteration_bytes(r->plan, &r->sizes, &kernel->plan,
                                                             carried, &kernel->once, arena)
                                      : plan_kernel_bytes(r->plan, &r->sizes, &kernel->plan, arena);
    kernel->read = bytes.read;
    kernel->written = bytes.written;
    r->once += kernel->once.read + kernel->once.written;
    if (kernel->plan.kind == KERNEL_FINISH) return;
    for (uint32_t p = kernel->plan.first - kernel->plan.pre_reductions;
         p < kernel->plan.first + kernel->plan.count; p++)
        kernel->operations += plan_operations(r->plan, &r->sizes, &r->plan->phases[p]).cost;
}

static bool is_of_panels(const ls_image_variant *variant) {
    return strncmp(variant->name, "row panels", sizeof "row panels" - 1) == 0;
}

/* Whether it is the last variant of its grouping: those for classes of row lengths stand ahead. */
static bool is_last_of_grouping(const ls_image_variant *variant) {
    bool last = !is_of_panels(variant) && !variant->strips && !emit_has_lanes(variant);
    for (uint32_t i = 0; i < variant->condition_count; i++)
        last &= !variant->conditions[i].required;
    return last;
}

/* The plan's grouping that a variant for contiguous arrays belongs to; the number of groupings: it
 * is for others. That of row panels may have no variant at all. */
static uint32_t grouping_of(const Plan *plan, const ls_image *image, uint32_t variant) {
    const bool panels = variant < image->variant_count && is_of_panels(&image->variants[variant]);
    uint32_t ended = 0, grouping = 0;
    for (uint32_t v = 0; v < variant; v++) ended += is_last_of_grouping(&image->variants[v]);
    for (; grouping < plan->grouping_count; grouping++) {
        if (plan->groupings[grouping].panels ? panels : ended == 0) break;
        ended -= !plan->groupings[grouping].panels;
    }
    return grouping;
}

static bool suits(const PlanSizes *sizes, const ls_image_variant *variant, bool *together) {
    int64_t strip;
    const PlanSizes own = plan_sizes_of_variant(sizes, variant, &strip);
    const uint64_t work = ls_image_work(variant, plan_sizes_value, &own);
    *together = variant->kernels[0].cooperative && work > variant->one_block_limit;
    return ls_image_suits(variant, work, plan_sizes_value, &own);
}

bool report_suits(const void *sizes, const ls_image_variant *variant) {
    bool together;
    return suits(sizes, variant, &together);
}

/* The variant for arrays that are contiguous, on a device that can do all. */
uint32_t report_choose(const PlanSizes *sizes, const Plan *plan, const ls_image *image,
                       uint32_t *grouping, bool *together) {
    for (uint32_t v = 0;; v++) {
        const bool good = suits(sizes, &image->variants[v], together);
        *grouping = grouping_of(plan, image, v);
        if (good || grouping_of(plan, image, v + 1) == plan->grouping_count) return v;
    }
}

/* The same grouping on another target. */
static uint32_t choose_alike(const Report *r, const ls_image *image) {
    for (uint32_t v = 0;; v++) {
        bool together;
        if (grouping_of(r->plan, image, v) != r->grouping) continue;
        if (grouping_of(r->plan, image, v + 1) > r->grouping ||
            suits(&r->sizes, &image->variants[v], &together))
            return v;
    }
}

/* How a kernel's work is partitioned: "rows", or "each rows then map then columns" where every
 * block makes the first, a pre-reduction, and the last block the last, an epilogue; "rows | columns
 * then rows by segment" where the first two are fused horizontally and the last is an epilogue of
 * each segment. */
static const char *partition_text(const Report *r, const Kernel *kernel) {
    Text text = text_open(&r->c->compiler.arena);
    if (r->image->variants[r->variant].strips) return "strips";
    if (emit_has_lanes(&r->image->variants[r->variant])) return "lanes";
    if (kernel->kind == KERNEL_ALL) return r->together ? "cooperative" : "single block";
    if (kernel->kind == KERNEL_ROW_PANELS) return "row panels";
    if (kernel->kind == KERNEL_FINISH) return "columns";
    const uint32_t end = kernel->first + kernel->count;
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first; i++)
        text_printf(&text, "each %s then ", report_partitions[r->plan->phases[i].shape]);
    text_puts(&text, report_partitions[r->plan->phases[kernel->first].shape]); /* of all phases of a
                                                                                  row fusion */
    const uint32_t mains = kernel->kind == KERNEL_HORIZONTAL ? plan_mains(kernel) : 1;
    for (uint32_t i = kernel->first + 1; i < kernel->first + mains; i++)
        text_printf(&text, " | %s", report_partitions[r->plan->phases[i].shape]);
    for (uint32_t i = kernel->first + plan_mains(kernel); i < end; i++)
        text_printf(&text, " then %s%s", report_partitions[r->plan->phases[i].shape],
                    i < end - kernel->last_block ? " by segment" : "");
    return text.data;
}

static void count_all(Report *r) {
    Arena *arena = &r->c->compiler.arena;
    const ls_image *image = r->image;
    r->variant = report_choose(&r->sizes, r->plan, image, &r->grouping, &r->together);
    const Kernel *kernels = r->plan->groupings[r->grouping].kernels;
    const ls_image_variant *variant = &image->variants[r->variant];
    r->own_sizes = plan_sizes_of_variant(&r->sizes, variant, &r->strip);
    r->kernel_count = variant->kernel_count;
    r->kernels = arena_alloc(arena, r->kernel_count * sizeof *r->kernels);
    for (size_t i = 0; i < r->kernel_count; i++) {
        r->kernels[i] = (KernelReport){.name = variant->kernels[i].name,
                                       .share = partition_text(r, &kernels[i]),
                                       .plan = kernels[i]};
        count_kernel(r, &r->kernels[i]);
        r->moved += r->kernels[i].read + r->kernels[i].written;
    }
    r->minimum = plan_minimum(r->plan, &r->sizes);
    report_count_temporaries(r);
}

/* ---- shared pieces of the reports ---- */

bool report_kernel_writes(const Report *r, const KernelReport *kernel, uint32_t array) {
    return plan_kernel_writes(r->plan, &kernel->plan, array);
}

static void put_array(Report *r, uint32_t array, bool json) {
    const char *name = r->plan->arrays[array].name;
    if (json)
        text_json(&r->out, name);
    else
        text_puts(&r->out, name);
}

static void list_arrays(Report *r, const KernelReport *kernel, bool writes, bool json) {
    const char *separator = "";
    if (kernel->plan.kind == KERNEL_FINISH && !writes && !json) {
        text_puts(&r->out, "the partial results of the row panels");
        separator = ", ";
    }
    for (uint32_t a = 0; a < r->plan->array_count; a++) {
        const bool used =
            (writes ? plan_kernel_writes : plan_kernel_reads)(r->plan, &kernel->plan, a);
        if (!used) continue;
        text_puts(&r->out, separator);
        put_array(r, a, json);
        separator = ", ";
    }
    if (!*separator && !json) text_puts(&r->out, "nothing");
}

/* The code that inspect will request, for all targets at once. */
static void make_codes(Report *r) {
    const size_t count = r->options->plan_only ? 0 : r->options->target_count;
    CodeRequest *requests = arena_alloc(&r->c->compiler.arena, (count + 1) * sizeof *requests);
    size_t found = 0;
    for (size_t t = 0; t < count; t++)
        if (rtc_inspects(r->options->targets[t])) {
            Made *made = compile_image(r->c, r->number, r->options->targets[t]);
            requests[found++] = (CodeRequest){made, choose_alike(r, made->image)};
        }
    if (found > 1) code_make_all(requests, found, r->c->options.no_cache, NULL, NULL);
}

bool report_inspect(Report *r, const char *target, size_t kernel, Figures *figures) {
    RtcKernelStats *stats = &figures->stats;
    *figures = (Figures){.stats = {.registers = -1, .spill_bytes = -1, .widest_access = -1}};
    if (r->options->plan_only || !rtc_inspects(target)) return true;
    Made *made = compile_image(r->c, r->number, target);
    const uint32_t variant = choose_alike(r, made->image);
    if (code_get(made, variant, r->c->options.no_cache, r->c->message, sizeof r->c->message) !=
        LS_OK)
        return false;
    const Code *code = &made->code[variant];
    const ls_image_kernel *made_kernel = &made->image->variants[variant].kernels[kernel];
    rtc_inspect(target, code->data, code->size, made_kernel->name, stats);
    if (stats->registers >= 0 && stats->shared_bytes >= 0)
        target_occupancy(target, (uint32_t)stats->registers, (uint32_t)stats->shared_bytes,
                         made_kernel->threads, &figures->occupancy);
    return true;
}

static const char *split_reason(const Report *r, const KernelReport *kernel) {
    if (kernel->plan.kind == KERNEL_FINISH) return "columns are finished when all row panels are";
    if (kernel == r->kernels) return NULL;
    return plan_split_reason(r->plan, &kernel[-1].plan, &kernel->plan, &r->c->compiler.arena);
}

const char *report_bytes_text(Report *r, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < COUNT(units)) bytes /= 1024, unit++;
    return arena_printf(&r->c->compiler.arena, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes,
                        units[unit]);
}

/* ---- text ---- */

static void text_targets(Report *r, size_t kernel) {
    for (size_t t = 0; t < r->options->target_count; t++) {
        const char *target = r->options->targets[t];
        Figures figures;
        if (!report_inspect(r, target, kernel, &figures)) {
            text_printf(&r->out, "    on %-8s %.*s\n", target, (int)strcspn(r->c->message, "\n"),
                        r->c->message);
            continue;
        }
        const RtcKernelStats stats = figures.stats;
        const TargetOccupancy occupancy = figures.occupancy;
        if (stats.registers < 0 && stats.widest_access < 0) continue;
        text_printf(&r->out, "    on %-8s", target);
        if (stats.registers >= 0) text_printf(&r->out, " %d registers,", stats.registers);
        if (stats.spill_bytes >= 0) text_printf(&r->out, " %d bytes spilled,", stats.spill_bytes);
        if (occupancy.max)
            text_printf(&r->out, " occupancy %u of %u %s,", occupancy.warps, occupancy.max,
                        target_kind(target)->code == TARGET_CODE_OBJECT ? "waves" : "warps");
        if (stats.widest_access >= 0)
            text_printf(&r->out, " widest access %d bytes,", stats.widest_access);
        r->out.data[--r->out.size] = 0; /* the last comma */
        text_puts(&r->out, "\n");
    }
}

/* "rows: sum, count c" */
static void print_phase(Report *r, const Phase *phase) {
    text_puts(&r->out, report_partitions[phase->shape]);
    for (size_t i = 0; i < phase->reduction_count; i++) {
        const Value *value = &r->plan->function->values[phase->reductions[i]];
        text_printf(&r->out, "%s %s%s%s", i ? "," : ":", plan_reduction(value),
                    value->name ? " " : "", value->name ? value->name : "");
    }
}

/* What a kernel does after its first phase, and why not at once. */
static void print_later(Report *r, const Kernel *kernel, size_t p) {
    const Phase *phase = &r->plan->phases[p];
    const size_t mains = kernel->first + plan_mains(kernel);
    if (p < mains && kernel->kind == KERNEL_HORIZONTAL) {
        text_puts(&r->out, "    horizontally fused: ");
        print_phase(r, phase);
        text_puts(&r->out, "\n");
    } else if (p >= mains && p < mains + kernel->segment_epilogue) {
        text_puts(&r->out, "    segment epilogue, for each");
        for (size_t axis = 0; axis < r->plan->function->axis_count; axis++)
            if (phase->outer >> axis & 1)
                text_printf(&r->out, " %s", r->plan->function->axes[axis].name);
        text_puts(&r->out, ": ");
        print_phase(r, phase);
        text_printf(&r->out, "%s%s\n", phase->why ? "; " : "", phase->why ? phase->why : "");
    } else if (p >= mains + kernel->segment_epilogue) {
        text_puts(&r->out, "    last-block epilogue: ");
        print_phase(r, phase);
        text_printf(&r->out, "%s%s\n", phase->why ? "; " : "", phase->why ? phase->why : "");
    } else if (phase->why) {
        text_printf(&r->out, "    phase %zu %s: %s\n", p + 1,
                    r->together ? "waits for all blocks" : "follows those before it", phase->why);
    }
}

/* Outs that are computed only where somebody binds them or requests them. */
static void list_optional(Report *r, bool json) {
    const char *before = json ? "" : "  ";
    for (uint32_t i = 0; i < r->plan->function->parameter_count; i++) {
        if (!plan_is_optional(r->plan, i)) continue;
        text_puts(&r->out, before);
        put_array(r, i, json);
        before = ", ";
    }
    if (!json && before[0] == ',') text_puts(&r->out, " only where it is bound or asked for\n");
}

void report_text_head(const PlanSizes *sizes, Text *out) {
    const Function *f = sizes->function;
    text_printf(out, "step %s", f->name);
    for (size_t i = 0; i < f->axis_count; i++) {
        text_printf(out, "%s %s=", i ? "," : " with", f->axes[i].name);
        plan_sizes_print_length(sizes, i, false, out);
    }
    text_puts(out, sizes->assumed && f->axis_count ? " (assumed: give --size)\n" : "\n");
    if (f->math == LS_MATH_LITE) text_puts(out, "  math lite: functions good to bf16\n");
    if (f->math == LS_MATH_FAST)
        text_puts(out, "  math fast: approximations and contraction; no promise of equal bits\n");
}

static void put_moved(Report *r, KernelBytes bytes) {
    text_printf(&r->out, "%s read, ", report_bytes_text(r, bytes.read));
    text_printf(&r->out, "%s written", report_bytes_text(r, bytes.written));
}

/* The bytes of an iteration, with its share of those that all of a launch move once. */
static double put_bytes(Report *r, const KernelReport *kernel) {
    const double bytes = kernel->read + kernel->written;
    const double once = kernel->once.read + kernel->once.written;
    put_moved(r, (KernelBytes){kernel->read, kernel->written});
    if (once == 0 || r->iterations == 0) return bytes;
    text_puts(&r->out, " in an iteration, ");
    put_moved(r, kernel->once);
    text_puts(&r->out, " once");
    return bytes + once / r->iterations;
}

void report_text_kernels(Report *r) {
    for (size_t i = 0; i < r->kernel_count; i++) {
        const KernelReport *kernel = &r->kernels[i];
        text_printf(&r->out, "  kernel %s, partition: %s\n", kernel->name, kernel->share);
        text_puts(&r->out, "    reads ");
        list_arrays(r, kernel, false, false);
        text_puts(&r->out, "; writes ");
        list_arrays(r, kernel, true, false);
        text_puts(&r->out, "\n    ");
        const double bytes = put_bytes(r, kernel);
        const bool whole = kernel->plan.kind != KERNEL_FINISH; /* whose operations are counted */
        if (whole)
            text_printf(&r->out, ", %.3g operations per byte",
                        bytes > 0 ? kernel->operations / bytes : 0.0);
        text_puts(&r->out, "\n");
        for (size_t p = kernel->plan.first - kernel->plan.pre_reductions; p < kernel->plan.first;
             p++) {
            text_puts(&r->out, "    pre-reduction in every block: ");
            print_phase(r, &r->plan->phases[p]);
            text_puts(&r->out, "\n");
        }
        for (size_t p = kernel->plan.first + 1;
             whole && p < kernel->plan.first + kernel->plan.count; p++)
            print_later(r, &kernel->plan, p);
        if (split_reason(r, kernel))
            text_printf(&r->out, "    not part of the kernel before: %s\n",
                        split_reason(r, kernel));
        text_targets(r, i);
    }
}

static void print_text(Report *r) {
    report_text_head(&r->sizes, &r->out);
    text_printf(&r->out, "  %zu launch%s, %s", r->kernel_count, r->kernel_count == 1 ? "" : "es",
                report_bytes_text(r, r->moved));
    text_printf(&r->out, " moved (%.2f of the minimum, %s), %s of temporaries\n",
                r->minimum > 0 ? r->moved / r->minimum : 1.0, report_bytes_text(r, r->minimum),
                report_bytes_text(r, r->temporary));
    list_optional(r, false);
    if (r->options->peak_gb_s > 0)
        text_printf(&r->out, "  at %.4g GB/s at least %.4g us\n", r->options->peak_gb_s,
                    r->moved / r->options->peak_gb_s * 1e-3);
    report_text_kernels(r);
    report_temporaries(r);
    report_others(r);
    report_tuned(r);
}

/* ---- JSON ---- */

static void json_targets(Report *r, size_t kernel) {
    text_puts(&r->out, "\"targets\": {");
    for (size_t t = 0; t < r->options->target_count; t++) {
        Figures found;
        text_puts(&r->out, t ? ", " : "");
        text_json(&r->out, r->options->targets[t]);
        if (!report_inspect(r, r->options->targets[t], kernel, &found)) {
            text_puts(&r->out, ": {\"error\": ");
            text_json(&r->out, r->c->message);
            text_puts(&r->out, "}");
            continue;
        }
        const bool occupied = found.occupancy.max;
        const struct {
            const char *key;
            int value;
        } figures[] = {{"registers", found.stats.registers},
                       {"spill_bytes", found.stats.spill_bytes},
                       {"warps", occupied ? (int)found.occupancy.warps : -1},
                       {"warps_max", occupied ? (int)found.occupancy.max : -1},
                       {"widest_access", found.stats.widest_access}};
        for (size_t i = 0; i < COUNT(figures); i++)
            text_printf(&r->out, figures[i].value < 0 ? "%s\"%s\": null" : "%s\"%s\": %d",
                        i ? ", " : ": {", figures[i].key, figures[i].value);
        text_puts(&r->out, "}");
    }
    text_puts(&r->out, "}");
}

void report_json_head(const PlanSizes *sizes, Text *out) {
    const Function *f = sizes->function;
    text_puts(out, "{\"steps\": [\n    {\"name\": ");
    text_json(out, f->name);
    text_puts(out, ", \"sizes\": {");
    for (size_t i = 0; i < f->axis_count; i++) {
        text_puts(out, i ? ", " : "");
        text_json(out, f->axes[i].name);
        text_puts(out, ": ");
        plan_sizes_print_length(sizes, i, true, out);
    }
}

void report_json_kernels(Report *r, const char *before, const char *more) {
    for (size_t i = 0; i < r->kernel_count; i++, before = ",") {
        const KernelReport *kernel = &r->kernels[i];
        text_printf(&r->out, "%s\n       {\"name\": ", before);
        text_json(&r->out, kernel->name);
        text_printf(&r->out, ", %s\"share\": \"%s\", \"reads\": [", more, kernel->share);
        list_arrays(r, kernel, false, true);
        text_puts(&r->out, "], \"writes\": [");
        list_arrays(r, kernel, true, true);
        text_printf(
            &r->out,
            "],\n        \"bytes_read\": %.0f, \"bytes_written\": %.0f, \"bytes_once\": %.0f, "
            "\"operations\": %.0f, ",
            kernel->read, kernel->written, kernel->once.read + kernel->once.written,
            kernel->operations);
        text_puts(&r->out, "\"why_split\": ");
        if (split_reason(r, kernel))
            text_json(&r->out, split_reason(r, kernel));
        else
            text_puts(&r->out, "null");
        text_puts(&r->out, ",\n        ");
        json_targets(r, i);
        text_puts(&r->out, "}");
    }
}

static void print_json(Report *r) {
    const Function *f = r->plan->function;
    report_json_head(&r->sizes, &r->out);
    text_printf(&r->out,
                "}, \"launches\": %zu,\n     \"bytes_moved\": %.0f, \"bytes_minimum\": %.0f, "
                "\"temporary_bytes\": %.0f, \"temporary_bytes_apart\": %.0f, \"temporaries\": %zu, "
                "\"math\": \"%s\",\n     \"optional\": [",
                r->kernel_count, r->moved, r->minimum, r->temporary, r->temporary_apart,
                r->temporary_count, ir_math_names[f->math]);
    list_optional(r, true);
    text_puts(&r->out, "],\n     \"kernels\": [");
    report_json_kernels(r, "", "");
    text_puts(&r->out, "],\n     ");
    report_others_json(r);
    text_puts(&r->out, ",\n     ");
    report_tuned_json(r);
    text_puts(&r->out, "}\n]}\n");
}

Report report_open(ls_compilation *c, size_t number, const ls_explain_options *options,
                   const char *const *sizes, size_t size_count) {
    Report r = {.c = c, .number = number, .plan = compile_plan(c, number), .options = options};
    r.out = text_open(&c->compiler.arena);
    r.sizes = plan_sizes_read(r.plan->function, sizes, size_count);
    r.image = compile_image(c, number, options->target_count ? options->targets[0] : LS_TARGET_CPU)
                  ->image;
    r.sizes.on_chip = target_for(r.image->target)->on_chip_bytes;
    count_all(&r);
    if (options->report != LS_REPORT_SCHEDULES && options->report != LS_REPORT_DOT) make_codes(&r);
    return r;
}

const char *report_explain(ls_compilation *c, size_t number, const ls_explain_options *options) {
    if (options->ranks) return report_ranks(c, number, options);
    if (c->steps[number].sequence) return report_sequence(c, number, options);
    Report r = report_open(c, number, options, options->sizes, options->size_count);
    switch (options->report) {
    case LS_REPORT_SCHEDULES: report_schedules(&r); break;
    case LS_REPORT_DOT: report_graph(&r); break;
    case LS_REPORT_JSON: print_json(&r); break;
    default: print_text(&r);
    }
    return r.out.data;
}
