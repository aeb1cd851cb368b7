/* schedules.c: the nests that the code of a step's phases is printed from, for a target and
 * contiguous arrays. The text reads back; what stands between the nests are comments of it. */
#include <locale.h>

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

static void print_phase(Report *r, uint32_t phase, const Target *target) {
    const char *problem = "";
    text_printf(&r->out, "# phase %u, by %s", phase, report_shares[r->plan->phases[phase].shape]);
    if (!schedule_has(r->plan, phase)) {
        text_puts(&r->out, ": this shape has no schedule yet\n");
        return;
    }
    const PlainNest *plain =
        schedule_phase(r->plan, phase, target, false, &r->c->compiler.arena, &problem);
    if (!plain) bug(&r->c->compiler, "a phase has no schedule: %s", problem);
    text_puts(&r->out, "\n");
    nest_print(plain->nest, &r->out);
}

static void print_rows(Report *r, const Kernel *kernel, const Target *target) {
    for (size_t i = 0; i < ROW_CLASSES && target->row_classes[i].warps; i++) {
        const char *problem = "";
        const PlainNest *plain = schedule_kernel(r->plan, kernel, target, &target->row_classes[i],
                                                 &r->c->compiler.arena, &problem);
        text_printf(&r->out, "# kernel of phase %u, %s%s\n", kernel->first, plain ? "" : "no ",
                    plain ? "" : problem);
        if (plain) nest_print(plain->nest, &r->out);
    }
}

void report_schedules(Report *r) {
    for (size_t t = 0; t < r->options->target_count; t++) {
        const char *name = r->options->targets[t];
        text_printf(&r->out, "%s# step %s on %s\n", t ? "\n" : "", r->plan->function->name, name);
        for (uint32_t p = 0; p < r->plan->phase_count; p++) print_phase(r, p, target_for(name));
        for (size_t w = 0; w < r->plan->way_count; w++)
            for (size_t k = 0; k < r->plan->ways[w].count; k++)
                print_rows(r, &r->plan->ways[w].kernels[k], target_for(name));
    }
}
