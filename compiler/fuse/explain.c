/* explain.c: what only a plan in use needs, not one that is merely compared: why each phase is one
 * of its own, and which arrays the kernels of each grouping touch.
 *
 * Needs a finished plan, of which it changes nothing else. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

static bool is_materialised(const Value *value) {
    return op_info[value->op].flags & (OP_REDUCTION | OP_ARRAY);
}

static const char *materialised_name(Planner *p, ValueId v) {
    const Value *value = &p->function->values[v];
    if (value->name) return value->name;
    if (!is_materialised(value) && p->plan->array_of[v])
        return p->plan->arrays[p->plan->array_of[v] - 1].name;
    return plan_reduction(value);
}

static void explain_split(Planner *p, uint32_t index) {
    const Plan *plan = p->plan;
    Phase *phase = &plan->phases[index];
    if (index == 0 || phase->why) return;
    const Phase *before = &plan->phases[index - 1];
    const char *waits = NULL;
    ValueId latest = 0; /* what was finished last is what it waits for */
    for (size_t n = 0; n < phase->value_count; n++) {
        const ValueId v = phase->values[n];
        const Value *value = &p->function->values[v];
        ValueId read = value->op == OP_GATHER ? value->arg[0] : v;
        if (plan->defined_in[read] > plan->defined_in[latest] && plan_is_read(plan, phase, read))
            latest = read;
        if (!latest && ir_is_scatter(value) && plan->defined_in[v] == index + 1)
            waits = "it adds to sums that an earlier phase clears";
    }
    if (latest)
        waits = arena_printf(p->arena, "it needs the finished %s of an earlier phase",
                             materialised_name(p, latest));
    if (waits)
        phase->why = waits;
    else if ((before->outer | before->inner) != (phase->outer | phase->inner))
        phase->why = "it visits other axes than the phase before";
    else if (phase->scan_count)
        phase->why = "it scans its axis in order";
    else if (phase->reduction_count && before->reduction_count)
        phase->why = "it reduces over other axes than the phase before";
    else
        phase->why = "an earlier phase still reads what it overwrites";
}

/* Whether the later phase uses what the earlier one makes. */
static bool uses(const Touch *materialised, const Touch *used) {
    return (materialised->writes || materialised->last_block) && (used->reads || used->gathers);
}

const char *plan_split_reason(const Plan *plan, const Kernel *before, const Kernel *kernel,
                              Arena *arena) {
    const Phase *phase = &plan->phases[kernel->first];
    const uint32_t mains = before->first + plan_mains(before);
    const AxisSet rows = plan->phases[before->first].outer;
    const AxisSet own_axes = phase->outer | (phase->shape == SHAPE_MAP ? phase->inner : 0);
    const bool across = !rows || (own_axes & rows) != rows; /* an item of it is of several rows */
    const char *overwrites = NULL;
    for (uint32_t i = before->first; i < before->first + before->count; i++)
        for (size_t t = 0; t < phase->touch_count; t++) {
            const Touch *own = &phase->touches[t];
            const Touch *earlier = plan_touch(&plan->phases[i], own->array);
            const Array *array = &plan->arrays[own->array];
            if (!earlier) continue;
            if (uses(earlier, own) && (across || (array->axes & rows) != rows ||
                                       (own->elsewhere & rows) || earlier->adds))
                return phase->why;
            if (!own->writes || !(earlier->reads || earlier->gathers)) continue;
            if (i >= mains)
                overwrites = arena_printf(
                    arena, "it overwrites %s, which the last block still reads", array->name);
            else if (earlier->elsewhere & rows)
                overwrites = arena_printf(
                    arena, "it overwrites %s, of which an earlier phase reads other rows",
                    array->name);
        }
    if (overwrites) return overwrites;
    if (phase->reduction_count && plan->phases[before->first].reduction_count &&
        phase->outer != rows)
        return "it reduces over other axes than the kernel before";
    return phase->why;
}

bool planner_explain(Planner *p) {
    const Plan *plan = p->plan;
    for (uint32_t i = 0; i < plan->phase_count; i++) explain_split(p, i);
    for (size_t w = 0; w < plan->grouping_count; w++)
        for (size_t k = 0; k < plan->groupings[w].count; k++) {
            Kernel *kernel = (Kernel *)(uintptr_t)&plan->groupings[w].kernels[k];
            if (!kernel->arrays) plan_find_arrays(plan, kernel, p->arena);
        }
    return true;
}
