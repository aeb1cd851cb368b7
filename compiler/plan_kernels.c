/* plan_kernels.c: which phases run in one kernel.
 *
 * A phase that visits a part of the axes of the kernel before it is little work beside it: its
 * *tail*, which the block that finishes last does on its own rather than another launch.
 *
 * Needs a plan's phases with their stores; gives plan->kernels, runs of phases in order, and
 * plan->ways: all in one launch; where there are chains, which plan_chains.c finds, all phases on
 * their own, for few long rows; those kernels; where that differs, those without the tails that may
 * be too much for one block. */
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

/* Kernels and their tails. With `none_only`, phases that visit nothing are the only tails. */
static Kernel *group(Planner *p, const Kernel *from, size_t from_count, bool none_only,
                     size_t *count) {
    const Plan *plan = p->plan;
    Kernel *kernels = arena_alloc(p->arena, (plan->phase_count + 1) * sizeof *kernels);
    *count = 0;
    for (size_t k = 0; k < from_count; k++) {
        if (*count && from[k].count == 1 &&
            is_tail(plan, &kernels[*count - 1], &plan->phases[from[k].first], none_only)) {
            kernels[*count - 1].count++;
            kernels[*count - 1].tail++;
        } else {
            kernels[(*count)++] = from[k];
        }
    }
    return kernels;
}

static Kernel *one_each(Planner *p) {
    Kernel *kernels = arena_alloc(p->arena, (p->plan->phase_count + 1) * sizeof *kernels);
    for (uint32_t i = 0; i < p->plan->phase_count; i++)
        kernels[i] = (Kernel){.kind = KERNEL_SINGLE, .first = i, .count = 1};
    return kernels;
}

/* Whether some chain's rows can be long. */
static bool has_long_rows(const Plan *plan) {
    for (size_t k = 0; k < plan->kernel_count; k++)
        if (plan->kernels[k].kind == KERNEL_CHAIN &&
            !plan_one_tile(plan->function, plan->phases[plan->kernels[k].first].inner))
            return true;
    return false;
}

static void add_way(Plan *plan, Way way) {
    plan->ways[plan->way_count++] = way;
}

void planner_group_kernels(Planner *p) {
    Plan *plan = p->plan;
    size_t chain_count, whole_count, single_count;
    const Kernel *chains = planner_find_chains(p, &chain_count);
    const Kernel *whole = group(p, chains, chain_count, true, &whole_count);
    plan->kernels = group(p, chains, chain_count, false, &plan->kernel_count);
    plan->way_count = 0;
    if (plan->kernel_count > 1 || plan->kernels[0].kind != KERNEL_CHAIN) {
        Kernel *all = arena_alloc(p->arena, sizeof *all);
        *all = (Kernel){.kind = KERNEL_ALL, .count = (uint32_t)plan->phase_count};
        if (plan->phase_count > 1) add_way(plan, (Way){.kernels = all, .count = 1});
    }
    if (has_long_rows(plan)) {
        const Kernel *singles = group(p, one_each(p), plan->phase_count, true, &single_count);
        add_way(plan, (Way){.kernels = singles, .count = single_count, .few = true});
    }
    const bool limited = plan->kernel_count < whole_count;
    add_way(plan, (Way){.kernels = plan->kernels, .count = plan->kernel_count, .limited = limited});
    if (limited) add_way(plan, (Way){.kernels = whole, .count = whole_count});
}
