/* finish.c: at which level each phase computes each of its values, and why it is a phase of its
 * own.
 *
 * Needs phases in their final order, with their stores. Says no to a plan of which a phase reads
 * what an earlier one overwrites: values that are read back may lead to one. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

static bool is_made(const Value *value) {
    return op_info[value->op].flags & (OP_REDUCTION | OP_ARRAY);
}

static bool is_reduction(const Value *value) {
    return op_info[value->op].flags & OP_REDUCTION;
}

static void find_levels(Planner *p, uint32_t index) {
    const Function *f = p->function;
    Phase *phase = &p->plan->phases[index];
    for (size_t n = 0; n < phase->value_count; n++) {
        const ValueId v = phase->values[n];
        const Value *value = &f->values[v];
        Level level = !value->axes                 ? LEVEL_SCALAR
                      : value->axes & phase->inner ? LEVEL_ELEMENT
                                                   : LEVEL_OUTER;
        ValueId operands[3];
        if (is_reduction(value)) {
            if (p->plan->home[v] == index + 1) level = LEVEL_EPILOGUE;
        } else {
            for (size_t i = plan_operands(p->plan, phase, v, operands); i-- > 0;)
                if (p->levels[operands[i]] == LEVEL_EPILOGUE) level = LEVEL_EPILOGUE;
        }
        p->levels[v] = (uint8_t)level;
    }
    /* What is added to a sum stands where it is added, whatever axes the sums have. */
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        if (store->kind == STORE_ADD)
            p->levels[store->value] =
                store->level == LEVEL_TAIL ? LEVEL_SCALAR : (uint8_t)store->level;
    }
    phase->levels = arena_alloc(p->arena, phase->value_count * sizeof *phase->levels);
    for (size_t n = 0; n < phase->value_count; n++) phase->levels[n] = p->levels[phase->values[n]];
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

void planner_find_levels(Planner *p) {
    for (uint32_t i = 0; i < p->plan->phase_count; i++) find_levels(p, i);
}

bool planner_finish(Planner *p) {
    planner_find_levels(p);
    for (uint32_t i = 0; i < p->plan->phase_count; i++) explain_split(p, i);
    return planner_keeps_order(p->plan);
}
