/* finish.c: at which level each phase computes each of its values.
 *
 * Needs phases in their final order, with their stores. Says no to a plan of which a phase reads
 * what an earlier one overwrites: values that are read back may lead to one. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

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
            if (p->plan->defined_in[v] == index + 1) level = LEVEL_EPILOGUE;
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
                store->level == LEVEL_LAST_BLOCK ? LEVEL_SCALAR : (uint8_t)store->level;
    }
    phase->levels = arena_alloc(p->arena, phase->value_count * sizeof *phase->levels);
    for (size_t n = 0; n < phase->value_count; n++) phase->levels[n] = p->levels[phase->values[n]];
}

void planner_find_levels(Planner *p) {
    for (uint32_t i = 0; i < p->plan->phase_count; i++) find_levels(p, i);
}

bool planner_finish(Planner *p) {
    planner_find_levels(p);
    return planner_keeps_order(p->plan);
}
