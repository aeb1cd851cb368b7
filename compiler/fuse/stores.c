/* stores.c: what each phase stores, and at which level.
 *
 * Needs phases in their final order of data, guards found, while the function's stores are still in
 * plan->store_phase. Turns these into stores of the phases, gives a temporary to every reduction,
 * scan and scatter that another phase reads, and finds which arrays each phase touches. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* The element loop reads `old` of a parameter that the same phase stores over fewer axes only in
 * its epilogue, after every element is done, and a rank-0 parameter only in the last-block
 * epilogue, after every block has read it. */
static void add_stores(Planner *p) {
    const Function *f = p->function;
    for (size_t s = 0; s < f->store_count; s++) {
        const Store *store = &f->stores[s];
        if (p->plan->store_phase[s] == UINT32_MAX) continue;
        Level level = planner_store_level(p, store->value, f->parameters[store->parameter].axes,
                                          p->plan->store_phase[s]);
        planner_add_store(
            p, p->plan->store_phase[s],
            (PhaseStore){store->parameter, store->value, level, store->range, STORE_VALUE});
    }
}

/* Whether the value is stored whole and as it is by the phase that makes it, for later ones to read
 * there. */
static bool store_holds(Planner *p, ValueId v) {
    const Function *f = p->function;
    for (size_t s = 0; s < f->store_count; s++) {
        if (f->stores[s].value != v || p->plan->store_phase[s] + 1 != p->plan->defined_in[v])
            continue;
        if (!planner_holds(f, &f->stores[s])) continue;
        planner_read_from_parameter(p, &f->stores[s]);
        return true;
    }
    return false;
}

/* A reduction or scan read by another phase than its own goes through memory. */
static void add_temporaries(Planner *p) {
    const Function *f = p->function;
    bool *carried = arena_alloc(p->arena, f->value_count * sizeof *carried);
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v] && f->values[v].op == OP_GATHER) carried[f->values[v].arg[0]] = true;
    for (uint32_t i = 0; i < p->plan->phase_count; i++)
        for (size_t n = 0; n < p->plan->phases[i].value_count; n++) {
            const ValueId v = p->plan->phases[i].values[n];
            carried[v] |= p->plan->defined_in[v] <= i;
        }
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (!p->plan->defined_in[v] || p->plan->array_of[v]) continue;
        if (!carried[v] || store_holds(p, v)) continue;
        Level level = value->op == OP_SCAN ? LEVEL_ELEMENT : LEVEL_EPILOGUE;
        uint32_t array = planner_add_temporary(p, v);
        planner_add_store(p, p->plan->defined_in[v] - 1,
                          (PhaseStore){array, v, level, value->range, STORE_VALUE});
    }
}

bool planner_add_stores(Planner *p) {
    add_stores(p);
    add_temporaries(p);
    for (size_t s = 0; s < p->function->store_count; s++) p->plan->store_phase[s] = UINT32_MAX;
    for (uint32_t i = 0; i < p->plan->phase_count; i++)
        plan_find_touches(p->plan, &p->plan->phases[i], p->arena);
    return true;
}
