/* plan_kernels.c: which phases run in one kernel.
 *
 * A phase that visits a part of the axes of the kernel before it is little work beside it: its
 * *tail*, which the block that finishes last does on its own rather than another launch.
 *
 * Needs a plan's phases with their levels; gives plan->kernels, runs of phases in order, and
 * plan->ways: all in one launch; those kernels; where that differs, those without the tails that
 * may be too much for one block. */
#include "compiler.h"
#include "plan.h"
#include "planner.h"

static AxisSet space(const Phase *phase) {
    return phase->outer | phase->inner;
}

/* Whether the kernel's last block can do the phase, too. */
static bool is_tail(const Plan *plan, const Kernel *kernel, const Phase *phase, bool none_only) {
    AxisSet main = 0;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count - kernel->tail; i++)
        main |= space(&plan->phases[i]);
    if (none_only) return main && !space(phase);
    return (space(phase) & ~main) == 0 && space(phase) != main;
}

/* With `none_only`, phases that visit nothing are the only tails. */
static Kernel *group(Planner *p, bool none_only, size_t *count) {
    const Plan *plan = p->plan;
    Kernel *kernels = arena_alloc(p->arena, (plan->phase_count + 1) * sizeof *kernels);
    *count = 0;
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        if (*count && is_tail(plan, &kernels[*count - 1], &plan->phases[i], none_only)) {
            kernels[*count - 1].count++;
            kernels[*count - 1].tail++;
        } else {
            kernels[(*count)++] = (Kernel){.kind = KERNEL_SINGLE, .first = i, .count = 1};
        }
    }
    return kernels;
}

void planner_group_kernels(Planner *p) {
    Plan *plan = p->plan;
    size_t split_count;
    const Kernel *split = group(p, true, &split_count);
    plan->kernels = group(p, false, &plan->kernel_count);
    plan->way_count = 0;
    if (plan->phase_count > 1) {
        Kernel *all = arena_alloc(p->arena, sizeof *all);
        *all = (Kernel){.kind = KERNEL_ALL, .count = (uint32_t)plan->phase_count};
        plan->ways[plan->way_count++] = (Way){.kernels = all, .count = 1};
    }
    const bool limited = plan->kernel_count < split_count;
    plan->ways[plan->way_count++] =
        (Way){.kernels = plan->kernels, .count = plan->kernel_count, .limited = limited};
    if (limited) plan->ways[plan->way_count++] = (Way){.kernels = split, .count = split_count};
}
