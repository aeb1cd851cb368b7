/* horizontal.c: horizontal fusion: phases share a launch although they have no rows in common.
 *
 * Independent phases are fused *horizontally*: they run in one launch, without a barrier between
 * them.
 *
 * A *segment epilogue* is a phase over the results of a kernel's phases at one coordinate of its
 * outer axes, a segment: of one tensor of a list, say. The rows and columns of a segment are
 * counted as they are finished, and the block that finishes the last one runs the epilogue on that
 * segment. It needs nothing of other segments.
 *
 * Needs phases with their stores. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

static AxisSet space(const Phase *phase) {
    return phase->outer | phase->inner;
}

/* ---- horizontal fusion ---- */

/* Whether the phase stores a guard that every warp reads when it begins with the phase, while
 * others may still read it: these have no work then, and must have none after the store. */
static bool replaces_scalar(const Plan *plan, const Phase *phase) {
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        if (store->level != LEVEL_LAST_BLOCK && !plan->arrays[store->array].axes &&
            plan_reads(plan, phase, store->array))
            return true;
    }
    return false;
}

static bool may_fuse_horizontally(const Plan *plan, const Kernel *kernel, const Kernel *next) {
    const Phase *phase = &plan->phases[next->first];
    if (kernel->kind != KERNEL_SINGLE && kernel->kind != KERNEL_HORIZONTAL) return false;
    if (next->kind != KERNEL_SINGLE || phase->shape == SHAPE_SCALAR) return false;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++)
        if (!planner_independent(plan, i, next->first) || replaces_scalar(plan, &plan->phases[i]))
            return false;
    return true;
}

bool planner_fuse_horizontally(Planner *p) {
    Plan *plan = p->plan;
    Kernel *kernels = plan->kernels;
    size_t joined = 0;
    for (size_t k = 0; k < plan->kernel_count; k++) {
        if (joined && may_fuse_horizontally(plan, &kernels[joined - 1], &kernels[k])) {
            kernels[joined - 1].kind = KERNEL_HORIZONTAL;
            kernels[joined - 1].count++;
        } else {
            kernels[joined++] = kernels[k];
        }
    }
    plan->kernel_count = joined;
    return true;
}

/* ---- parts ---- */

static bool has_blocks(const Function *f, AxisSet axes) {
    for (uint32_t axis = 0; axis < f->axis_count; axis++)
        if ((axes >> axis & 1) && f->axes[axis].whole >= 0) return true;
    return false;
}

/* Whether each item of the phase is of one part, and its number says of which: the tensor that the
 * item is of, or for rows that are no list's the first of their axes. */
static bool is_divided(const Function *f, const Phase *phase, AxisSet parts) {
    const AxisSet rest = space(phase) & ~parts;
    const int list = ir_list_axis(f, space(phase));
    if (!phase->reduction_count || (phase->outer & parts) != parts) return false;
    if (has_blocks(f, space(phase))) return false;
    if (list >= 0 && parts != (AxisSet)1 << list) return false;
    if (phase->shape == SHAPE_COLUMNS)
        return list >= 0 && __builtin_popcount(phase->outer & ~parts) == 1;
    return (rest & (~rest + 1)) > parts;
}

/* Whether the phase leaves nothing but what it makes of its rows. */
static bool keeps_to_rows(const Phase *phase) {
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].kind != STORE_VALUE || phase->stores[i].level == LEVEL_LAST_BLOCK)
            return false;
    return true;
}

/* Where a condition skips one of the kernel's phases it skips all of them, and this one. */
static bool skips_alike(const Plan *plan, const Kernel *kernel, const Phase *phase) {
    const Literals known = plan->phases[kernel->first].known;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        if (plan->phases[i].known != known) return false;
    return !(known & ~phase->known);
}

bool planner_follows(const Plan *plan, const Kernel *kernel, uint32_t index) {
    const Phase *phase = &plan->phases[index];
    const uint32_t mains = plan_mains(kernel);
    if (kernel->kind != KERNEL_SINGLE && kernel->kind != KERNEL_HORIZONTAL) return false;
    if (kernel->last_block || !phase->outer || !keeps_to_rows(phase)) return false;
    if (!is_divided(plan->function, phase, phase->outer) || !skips_alike(plan, kernel, phase))
        return false;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++) {
        const Phase *earlier = &plan->phases[i];
        if (i < kernel->first + mains ? !is_divided(plan->function, earlier, phase->outer)
                                      : earlier->outer != phase->outer)
            return false;
        if (!planner_row_by_row(plan, i, index, phase->outer)) return false;
    }
    return true;
}
