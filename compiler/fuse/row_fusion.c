/* row_fusion.c: which phases run on the same rows.
 *
 * A row fusion is a run of phases that share their outer axes O and hand values on only at
 * coordinates of O: the block or warp that owns a coordinate, a row or a run of columns, runs them
 * on it one after another, so that what they read again is on chip. A phase that only stores joins
 * as one whose outer axes are O. Independent phases may be reordered to come together.
 *
 * Needs the phases with their stores; gives them in the order of the kernels, before their levels
 * are found. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* Phases that run together, in order; `outer` is 0 while no phase has said which axes they share.
 */
typedef struct Group {
    uint32_t *phases;
    size_t count, capacity;
    AxisSet outer;
    Shape shape;
} Group;

/* ---- conflicts in an array ---- */

/* Whether two phases must stay in their order for the array's sake. */
static bool meet(const Touch *a, const Touch *b) {
    const bool a_writes = a->writes || a->last_block, b_writes = b->writes || b->last_block;
    return (a_writes && (b->reads || b->gathers || b_writes)) ||
           (b_writes && (a->reads || a->gathers));
}

/* The next array that both phases touch: moves behind it. False: there is none. */
static bool next_common(const Phase *a, const Phase *b, size_t *at_a, size_t *at_b) {
    for (; *at_a < a->touch_count && *at_b < b->touch_count;
         ++*(a->touches[*at_a].array < b->touches[*at_b].array ? at_a : at_b))
        if (a->touches[*at_a].array == b->touches[*at_b].array) return true;
    return false;
}

bool planner_independent(const Plan *plan, uint32_t earlier, uint32_t later) {
    const Phase *a = &plan->phases[earlier], *b = &plan->phases[later];
    for (size_t i = 0, k = 0; next_common(a, b, &i, &k); i++, k++)
        if (meet(&a->touches[i], &b->touches[k])) return false;
    return true;
}

/* Whether phase `later` may run before phase `earlier`, which it follows. */
static bool may_pass(const Plan *plan, uint32_t later, uint32_t earlier) {
    if (!planner_independent(plan, earlier, later)) return false;
    /* what the earlier one computes for itself it would find made */
    const Phase *phase = &plan->phases[earlier];
    for (size_t i = 0; i < phase->value_count; i++)
        if (plan->defined_in[phase->values[i]] == later + 1) return false;
    return true;
}

bool planner_row_by_row(const Plan *plan, uint32_t earlier, uint32_t later, AxisSet outer) {
    const Phase *before = &plan->phases[earlier], *after = &plan->phases[later];
    for (size_t i = 0, k = 0; next_common(before, after, &i, &k); i++, k++) {
        const Touch a = before->touches[i], b = after->touches[k];
        if (!meet(&a, &b)) continue;
        if (b.last_block) continue; /* at most one last-block epilogue stores to an array */
        if ((a.elsewhere | b.elsewhere) & outer || a.adds || b.adds) return false;
        /* what a last-block epilogue stores without adding has no axes */
        if ((plan->arrays[a.array].axes & outer) != outer) return false;
    }
    return true;
}

/* ---- row fusions ---- */

static AxisSet all_axes(const Phase *phase) {
    return phase->outer | phase->inner;
}

/* Along the fastest axis, or across it. */
static Shape fused_shape(AxisSet outer, AxisSet inner) {
    return inner > outer ? SHAPE_ROWS : SHAPE_COLUMNS;
}

bool plan_one_tile(const Function *f, AxisSet inner) {
    uint64_t max = 1;
    for (uint32_t axis = 0; axis < f->axis_count; axis++) {
        const Axis *row = &f->axes[axis];
        if (!(inner >> axis & 1)) continue;
        const bool rest = row->whole >= 0 && f->axes[row->whole].rest == (int)axis;
        if (rest && !(inner >> row->parent & 1))
            max *= (uint64_t)row->length;
        else if (row->whole < 0 && row->fixed >= 0)
            max *= (uint64_t)row->fixed;
        else
            return false;
        if (max > 1024) return false;
    }
    return true;
}

/* Whether the phase can run row by row, on the rows of a row fusion. Of a list a row must be one
 * tile: the partial results of tiles are numbered through all the tensors. */
static bool is_legal(const Plan *plan, const Phase *phase, AxisSet outer, Shape shape) {
    const Function *f = plan->function;
    const AxisSet inner = all_axes(phase) & ~outer;
    if (!outer || !inner || (all_axes(phase) & outer) != outer) return false;
    if (phase->shape == SHAPE_ROWS || phase->shape == SHAPE_COLUMNS) {
        if (phase->outer != outer) return false;
    } else if (phase->shape != SHAPE_MAP) {
        return false;
    }
    if (ir_list_axis(f, all_axes(phase)) >= 0 && !plan_one_tile(f, inner)) return false;
    return fused_shape(outer, inner) == shape; /* for speed: others would read across their rows */
}

static bool joins(const Plan *plan, const Group *group, uint32_t phase, AxisSet outer,
                  Shape shape) {
    if (!is_legal(plan, &plan->phases[phase], outer, shape)) return false;
    for (size_t i = 0; i < group->count; i++) {
        if (!is_legal(plan, &plan->phases[group->phases[i]], outer, shape)) return false;
        if (!planner_row_by_row(plan, group->phases[i], phase, outer)) return false;
    }
    return true;
}

/* Adds the phase to the group if both then are a row fusion. */
static bool join(Planner *p, Group *group, uint32_t phase) {
    const Plan *plan = p->plan;
    const Phase *own = &plan->phases[phase], *first = &plan->phases[group->phases[0]];
    const Phase *reducing = own->reduction_count ? own : first;
    const AxisSet outer = group->outer ? group->outer : reducing->outer;
    const Shape shape = group->outer ? group->shape : reducing->shape;
    if (!group->outer && !reducing->reduction_count) return false;
    if (!joins(plan, group, phase, outer, shape)) return false;
    group->outer = outer;
    group->shape = shape;
    group->phases =
        arena_grow(p->arena, group->phases, group->count, &group->capacity, sizeof *group->phases);
    group->phases[group->count++] = phase;
    return true;
}

/* Each phase goes to the last group that it can join; the groups behind that must be independent of
 * it. */
static size_t find_groups(Planner *p, Group *groups) {
    size_t count = 0;
    for (uint32_t i = 0; i < p->plan->phase_count; i++) {
        bool placed = false, may = true;
        for (size_t g = count; g-- > 0 && !placed && may;) {
            placed = join(p, &groups[g], i);
            for (size_t k = 0; !placed && may && k < groups[g].count; k++)
                may = may_pass(p->plan, i, groups[g].phases[k]);
        }
        if (placed) continue;
        Group *group = &groups[count++];
        *group = (Group){0};
        group->phases = arena_grow(p->arena, NULL, 0, &group->capacity, sizeof *group->phases);
        group->phases[group->count++] = i;
    }
    return count;
}

/* Puts the phases in the order of the groups, and gives a phase that joined a row fusion its outer
 * axes. */
static void order_phases(Planner *p, const Group *groups, size_t count) {
    Plan *plan = p->plan;
    Phase *phases = arena_alloc(p->arena, (plan->phase_count + 1) * sizeof *phases);
    uint32_t *now = arena_alloc(p->arena, (plan->phase_count + 1) * sizeof *now), next = 0;
    for (size_t g = 0; g < count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            const uint32_t from = groups[g].phases[i];
            now[from] = next;
            Phase *phase = &phases[next++];
            *phase = plan->phases[from];
            if (!groups[g].outer) continue;
            phase->inner = all_axes(phase) & ~groups[g].outer;
            phase->outer = groups[g].outer;
            phase->shape = groups[g].shape;
        }
    plan->phases = phases;
    plan->phase_capacity = plan->phase_count + 1;
    for (ValueId v = 1; v < plan->function->value_count; v++)
        if (plan->defined_in[v]) plan->defined_in[v] = now[plan->defined_in[v] - 1] + 1;
}

bool planner_fuse_rows(Planner *p) {
    Plan *plan = p->plan;
    Group *groups = arena_alloc(p->arena, (plan->phase_count + 1) * sizeof *groups);
    plan->kernel_count = find_groups(p, groups);
    order_phases(p, groups, plan->kernel_count);
    plan->kernels = arena_alloc(p->arena, (plan->kernel_count + 1) * sizeof *plan->kernels);
    for (uint32_t g = 0, first = 0; g < plan->kernel_count; first += (uint32_t)groups[g++].count)
        plan->kernels[g] = (Kernel){.kind = groups[g].outer ? KERNEL_ROW_FUSION : KERNEL_SINGLE,
                                    .first = first,
                                    .count = (uint32_t)groups[g].count,
                                    .outer = groups[g].outer};
    return true;
}
