/* kernels.c: which phases run in one kernel.
 *
 * A phase that visits a part of the axes of the kernel before it is little work in comparison: it
 * becomes the kernel's *last-block epilogue*, run by the block that finishes last rather than by
 * another launch.
 *
 * Segment epilogues and horizontal fusion are in horizontal.c.
 *
 * A small whole reduction that one kernel alone needs, such as the count of a mask, is its
 * *redundant pre-reduction*: every block computes it for itself, so that it needs no launch of its
 * own.
 *
 * Needs a plan's phases with their stores; gives plan->kernels, runs of phases in order, and
 * plan->groupings: all phases in one launch; where row_fusion.c has fused rows, each phase on its
 * own, for few long rows; plan->kernels; and where that differs, the same without last-block
 * epilogues, without pre-reductions and without both, which may be too much for one block. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

uint32_t plan_mains(const Kernel *kernel) {
    return kernel->count - kernel->segment_epilogue - kernel->last_block;
}

static AxisSet space(const Phase *phase) {
    return phase->outer | phase->inner;
}

/* Whether one of the horizontally fused phases visits more than these axes. */
static bool is_part_of_main(const Plan *plan, const Kernel *kernel, AxisSet axes) {
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const AxisSet own = space(&plan->phases[i]);
        if ((axes & ~own) == 0 && axes != own) return true;
    }
    return false;
}

/* Whether the kernel's last block can do the phase, too. */
static bool is_last_block(const Plan *plan, const Kernel *kernel, const Phase *phase,
                          bool none_only) {
    AxisSet main = 0;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        main |= space(&plan->phases[i]);
    if (none_only) return main && !space(phase);
    if (kernel->kind == KERNEL_HORIZONTAL) return is_part_of_main(plan, kernel, space(phase));
    return (space(phase) & ~main) == 0 && space(phase) != main;
}

/* Whether all phases of a kernel can be the last-block epilogue of the one before. */
static bool are_tails(const Plan *plan, const Kernel *kernel, const Kernel *next, bool none_only) {
    if (next->kind != KERNEL_SINGLE && next->kind != KERNEL_HORIZONTAL) return false;
    for (uint32_t i = next->first; i < next->first + next->count; i++)
        if (!is_last_block(plan, kernel, &plan->phases[i], none_only)) return false;
    return true;
}

/* Kernels with their segment and last-block epilogues. With `none_only`, the latter are only phases
 * that visit nothing. */
static Kernel *group(Planner *p, const Kernel *from, size_t from_count, bool none_only,
                     size_t *count) {
    const Plan *plan = p->plan;
    Kernel *kernels = arena_alloc(p->arena, (plan->phase_count + 1) * sizeof *kernels);
    *count = 0;
    for (size_t k = 0; k < from_count; k++) {
        Kernel *last = *count ? &kernels[*count - 1] : NULL;
        if (!last || !are_tails(plan, last, &from[k], none_only)) {
            kernels[(*count)++] = from[k];
            continue;
        }
        for (uint32_t i = from[k].first; i < from[k].first + from[k].count; i++) {
            const bool follows = !none_only && planner_follows(plan, last, i);
            last->count++;
            last->segment_epilogue += follows;
            last->last_block += !follows;
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

/* Whether the rows of some row fusion can be long. */
static bool has_long_rows(const Plan *plan) {
    for (size_t k = 0; k < plan->kernel_count; k++)
        if (plan->kernels[k].kind == KERNEL_ROW_FUSION &&
            !plan_one_tile(plan->function, plan->phases[plan->kernels[k].first].inner))
            return true;
    return false;
}

static void add_grouping(Planner *p, Kernel *kernels, size_t count, bool limited, bool few) {
    p->plan->groupings[p->plan->grouping_count++] =
        (Grouping){.kernels = kernels, .count = count, .limited = limited, .few = few};
}

static bool materialised_by(const Plan *plan, ValueId v, uint32_t phase) {
    return plan->defined_in[v] == phase + 1;
}

/* Whether every block of the kernel can run the phase for itself: it leaves nothing to others but
 * what it makes in temporaries, and reads nothing that the kernel writes. */
static bool is_pre_reduction(const Plan *plan, const Kernel *kernel, uint32_t index) {
    const Function *f = plan->function;
    const Phase *phase = &plan->phases[index];
    const uint32_t end = kernel->first + kernel->count, mains = plan_mains(kernel);
    AxisSet main = 0;
    for (uint32_t i = kernel->first; i < kernel->first + mains; i++)
        main |= space(&plan->phases[i]);
    if (!phase->reduction_count || phase->outer || ir_list_axis(f, space(phase)) >= 0) return false;
    if ((space(phase) & ~main) || space(phase) == main) return false;
    for (size_t i = 0; i < phase->store_count; i++)
        if (plan->arrays[phase->stores[i].array].parameter != UINT32_MAX ||
            phase->stores[i].level != LEVEL_EPILOGUE)
            return false;
    for (uint32_t a = 0; a < plan->array_count; a++)
        for (uint32_t i = kernel->first; i < end; i++)
            if (plan_writes(&plan->phases[i], a) && plan_reads(plan, phase, a)) return false;
    for (uint32_t i = end; i < plan->phase_count; i++)
        for (size_t n = 0; n < plan->phases[i].value_count; n++) /* without axes: not gathered */
            if (materialised_by(plan, plan->phases[i].values[n], index)) return false;
    return true;
}

/* Makes kernels of one phase the redundant pre-reductions of the next kernel. */
static size_t find_pre_reductions(const Plan *plan, Kernel *kernels, size_t count) {
    size_t at = count, left = 0;
    for (size_t k = count; k-- > 0;) {
        Kernel own = kernels[k];
        for (; k > 0 && kernels[k - 1].count == 1; k--) {
            if (!is_pre_reduction(plan, &own, kernels[k - 1].first)) break;
            own.pre_reductions++;
        }
        kernels[--at] = own;
        left++;
    }
    memmove(kernels, kernels + at, left * sizeof *kernels);
    return left;
}

bool planner_group_kernels(Planner *p) {
    Plan *plan = p->plan;
    const Kernel *fusions = plan->kernels;
    const size_t fused_count = plan->kernel_count;
    size_t whole_count, single_count;
    Kernel *whole = group(p, fusions, fused_count, true, &whole_count);
    plan->kernels = group(p, fusions, fused_count, false, &plan->kernel_count);
    plan->kernel_count = find_pre_reductions(plan, plan->kernels, plan->kernel_count);
    for (size_t k = 0; k < plan->kernel_count; k++)
        plan_find_arrays(plan, &plan->kernels[k], p->arena);
    plan->grouping_count = 0;
    const bool iterates = plan->function->iteration != NULL; /* in one launch of all phases */
    if (iterates || plan->kernel_count > 1 || plan->kernels[0].kind != KERNEL_ROW_FUSION) {
        Kernel *all = arena_alloc(p->arena, sizeof *all);
        *all = (Kernel){.kind = KERNEL_ALL, .count = (uint32_t)plan->phase_count};
        if (iterates || plan->phase_count > 1) add_grouping(p, all, 1, false, false);
    }
    if (has_long_rows(plan)) {
        Kernel *singles = group(p, one_each(p), plan->phase_count, true, &single_count);
        add_grouping(p, singles, single_count, false, true);
    }
    const bool limited = plan->kernel_count < whole_count;
    add_grouping(p, plan->kernels, plan->kernel_count, limited, false);
    if (!limited) return true;
    /* where the one are little work and the other not */
    size_t tails_count, pre_reduction_count;
    Kernel *last_blocks = group(p, fusions, fused_count, false, &tails_count);
    Kernel *pre_reductions = group(p, fusions, fused_count, true, &pre_reduction_count);
    pre_reduction_count = find_pre_reductions(plan, pre_reductions, pre_reduction_count);
    if (plan->kernel_count < tails_count && tails_count < whole_count)
        add_grouping(p, last_blocks, tails_count, true, false);
    if (plan->kernel_count < pre_reduction_count && pre_reduction_count < whole_count)
        add_grouping(p, pre_reductions, pre_reduction_count, true, false);
    add_grouping(p, whole, whole_count, false, false);
    return true;
}
