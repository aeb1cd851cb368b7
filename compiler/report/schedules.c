/* schedules.c: the nests that the code of a step's phases is printed from, for a target and
 * contiguous arrays. The text reads back; what stands between the nests are comments of it. */
#include <inttypes.h>
#include <locale.h>
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

static void print_phase(Report *r, uint32_t phase, const Target *target, Portion portion) {
    static const char *const portions[] = {"", ", partial values of a row panel",
                                           ", from partials of row panels"};
    const char *problem = "";
    const PhaseNumbers numbers = {.row_fusion = schedule_row_fusion(r->plan, phase),
                                  .portion = portion,
                                  .panel_lanes = target->panel_lanes[0]};
    const PlainNest *plain =
        schedule_phase(r->plan, phase, target, &numbers, &r->c->compiler.arena, &problem);
    text_printf(&r->out, "# phase %u, by %s%s\n", phase + 1,
                report_partitions[r->plan->phases[phase].shape], portions[portion]);
    if (!plain) bug(&r->c->compiler, "phase %u has no schedule: %s", phase, problem);
    nest_print(plain->nest, &r->out);
}

/* Phases down columns of kernels of row panels. */
static void print_row_panels(Report *r, const Target *target) {
    const Plan *plan = r->plan;
    for (size_t w = 0; w < plan->grouping_count; w++)
        for (size_t k = 0; k < plan->groupings[w].count; k++) {
            const Kernel *kernel = &plan->groupings[w].kernels[k];
            for (uint32_t p = kernel->first; p < kernel->first + kernel->count; p++) {
                if (kernel->kind != KERNEL_ROW_PANELS || plan->phases[p].shape != SHAPE_COLUMNS)
                    continue;
                print_phase(r, p, target, PORTION_PANEL);
                print_phase(r, p, target, PORTION_FINISH);
            }
        }
}

/* Phases of a kernel on the same rows, by the length of these; or why there is no such nest. */
static void print_rows(Report *r, const Kernel *kernel, const Target *target) {
    const uint32_t last = kernel->first + plan_mains(kernel) - 1;
    const char *phases =
        last == kernel->first
            ? arena_printf(&r->c->compiler.arena, "phase %u", last + 1)
            : arena_printf(&r->c->compiler.arena, "phases %u to %u", kernel->first + 1, last + 1);
    const char *said = "";
    for (size_t i = 0; i < ROW_CLASSES && target->row_classes[i].warps; i++) {
        const RowClass *rows = &target->row_classes[i];
        const char *problem = "";
        const PlainNest *plain =
            schedule_kernel(r->plan, kernel, target, rows, &r->c->compiler.arena, &problem);
        if (!plain) {
            if (strcmp(said, problem) != 0)
                text_printf(&r->out, "# %s, by rows, not from a nest: %s\n", phases, problem);
            said = problem;
            continue;
        }
        text_printf(&r->out, "# %s, on rows of at most %" PRIu64 " elements, a %s each\n", phases,
                    target_row_max(rows), rows->rows ? "warp" : "block");
        nest_print(plain->nest, &r->out);
    }
}

static bool is_in_rows(const Plan *plan, const Kernel *kernel) {
    return (kernel->kind == KERNEL_SINGLE || kernel->kind == KERNEL_ROW_FUSION) &&
           plan->phases[kernel->first].shape == SHAPE_ROWS;
}

/* Kernels that several groupings have are shown once. */
static void print_kernels(Report *r, const Target *target) {
    const Plan *plan = r->plan;
    for (size_t w = 0; w < plan->grouping_count; w++)
        for (size_t k = 0; k < plan->groupings[w].count; k++) {
            const Kernel *kernel = &plan->groupings[w].kernels[k];
            bool known = !is_in_rows(plan, kernel);
            for (size_t v = 0; v < w && !known; v++)
                for (size_t o = 0; o < plan->groupings[v].count; o++) {
                    const Kernel *other = &plan->groupings[v].kernels[o];
                    known |= is_in_rows(plan, other) && other->first == kernel->first &&
                             plan_mains(other) == plan_mains(kernel);
                }
            if (!known) print_rows(r, kernel, target);
        }
}

void report_schedules(Report *r) {
    for (size_t t = 0; t < r->options->target_count; t++) {
        const char *name = r->options->targets[t];
        text_printf(&r->out, "%s# step %s on %s\n", t ? "\n" : "", r->plan->function->name, name);
        for (uint32_t p = 0; p < r->plan->phase_count; p++)
            print_phase(r, p, target_for(name), PORTION_WHOLE);
        print_row_panels(r, target_for(name));
        print_kernels(r, target_for(name));
    }
}
