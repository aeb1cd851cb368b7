/* explain.c: what nobody asks of a plan that is only compared with others: why each phase is one of
 * its own, and which arrays the kernels of each way touch.
 *
 * Needs a finished plan, of which it changes nothing else. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

static bool is_made(const Value *value) {
    return op_info[value->op].flags & (OP_REDUCTION | OP_ARRAY);
}

static const char *made_name(Planner *p, ValueId v) {
    const Value *value = &p->function->values[v];
    if (value->name) return value->name;
    if (!is_made(value) && p->plan->array_of[v])
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
        if (plan->home[read] > plan->home[latest] && plan_is_read(plan, phase, read)) latest = read;
        if (!latest && value->op == OP_SCATTER && plan->home[v] == index + 1)
            waits = "it adds to sums that an earlier phase clears";
    }
    if (latest)
        waits = arena_printf(p->arena, "it needs the finished %s of an earlier phase",
                             made_name(p, latest));
    if (waits)
        phase->why = waits;
    else if ((before->outer | before->inner) != (phase->outer | phase->inner))
        phase->why = "it visits other axes than the phase before";
    else if (phase->scan_count)
        phase->why = "it walks along its axis in order";
    else if (phase->reduction_count && before->reduction_count)
        phase->why = "it reduces over other axes than the phase before";
    else
        phase->why = "an earlier phase still reads what it overwrites";
}

bool planner_explain(Planner *p) {
    const Plan *plan = p->plan;
    for (uint32_t i = 0; i < plan->phase_count; i++) explain_split(p, i);
    for (size_t w = 0; w < plan->way_count; w++)
        for (size_t k = 0; k < plan->ways[w].count; k++) {
            Kernel *kernel = (Kernel *)(uintptr_t)&plan->ways[w].kernels[k];
            if (!kernel->arrays) plan_find_arrays(plan, kernel, p->arena);
        }
    return true;
}
