/* hazard.c: when a parameter may be overwritten.
 *
 * A phase may read the old value of a parameter that it stores itself at its own coordinates, not
 * at others. So a store moves to a phase after the last that gathers the parameter, or reads it in
 * another phase. Its value is computed there again; where that would read what the step overwrites,
 * the value is materialised where it was, in a temporary. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

static bool is_stored(const Function *f, uint64_t parameter) {
    for (size_t s = 0; s < f->store_count; s++)
        if (f->stores[s].parameter == parameter) return true;
    return false;
}

/* Whether a later phase can compute the store's value and read nothing that the step stores but the
 * parameter's own old value where it stores it. */
static bool is_free(Planner *p, const Store *store) {
    const Function *f = p->function;
    ValueId value_stored = store->value;
    bool free = true;
    for (Guard guard; plan_keeps(p->plan, store->parameter, &value_stored, &guard);)
        worklist_add(p->worklist, guard.condition);
    worklist_add(p->worklist, value_stored);
    for (ValueId v; free && (v = worklist_take(p->worklist)) != 0;) {
        const Value *value = &f->values[v];
        if (p->plan->defined_in[v]) continue;
        if (value->op == OP_PARAMETER && value->payload != store->parameter)
            free = !is_stored(f, value->payload);
        const Value *source = &f->values[value->op == OP_GATHER ? value->arg[0] : 0];
        if (source->op == OP_PARAMETER && is_stored(f, source->payload)) free = false;
        for (int i = value->op == OP_GATHER; i < op_info[value->op].arity; i++)
            worklist_add(p->worklist, value->arg[i]);
    }
    worklist_clear(p->worklist);
    return free;
}

/* Makes a value in the first phase that can; gives the first phase that can read it. */
static uint32_t materialise(Planner *p, const Store *store, ValueId v, Type type) {
    const Value *value = &p->function->values[v];
    const char *stem = p->function->parameters[store->parameter].name;
    if (p->plan->defined_in[v]) return p->plan->defined_in[v];
    if (value->op == OP_CONST) return 0;
    uint32_t defined_in = planner_place(p, v, value->axes, 0);
    Level level = planner_store_level(p, v, value->axes, defined_in);
    const char *name = arena_numbered(p->arena, value->name ? value->name : stem, v);
    uint32_t array =
        planner_add_array(p, (Array){name, type, value->axes, v, UINT32_MAX, 0, false});
    planner_add_store(p, defined_in, (PhaseStore){array, v, level, store->range, STORE_VALUE});
    p->plan->defined_in[v] = defined_in + 1;
    planner_leave_users(p, v, 0);
    planner_mark_needed(p, defined_in);
    planner_refresh_all(p);
    return defined_in + 1;
}

/* What the store puts into the parameter, in its type, and under which conditions. */
static uint32_t materialise_all(Planner *p, const Store *store) {
    ValueId value = store->value;
    uint32_t from = 0;
    for (Guard guard; plan_keeps(p->plan, store->parameter, &value, &guard);) {
        uint32_t materialised = materialise(p, store, guard.condition, TYPE_BOOL);
        if (materialised > from) from = materialised;
    }
    Type type = p->function->parameters[store->parameter].type;
    uint32_t materialised = materialise(p, store, value, type);
    return materialised > from ? materialised : from;
}

static bool reads_old(const Plan *plan, const Phase *phase, uint32_t array) {
    const ValueId old = plan->arrays[array].value;
    return old && plan_source(plan, phase, old) == array + 1 && plan_needs(phase, old);
}

/* Moves store `s`; false if it is well where it is. */
static bool settle(Planner *p, size_t s) {
    const Store *store = &p->function->stores[s];
    const Plan *plan = p->plan;
    const uint32_t defined_in = p->plan->store_phase[s];
    uint32_t from = defined_in;
    bool gathered = false;
    for (uint32_t i = defined_in; i < plan->phase_count; i++) {
        if (reads_old(plan, &plan->phases[i], store->parameter)) from = i;
        if (plan_gathers(plan, &plan->phases[i], store->parameter)) {
            gathered = true;
            from = i + 1;
        }
    }
    if (from == defined_in) return false;
    if (gathered && !is_free(p, store)) {
        uint32_t materialised = materialise_all(p, store);
        if (materialised > from) from = materialised;
    }
    AxisSet axes = p->function->parameters[store->parameter].axes;
    size_t phases = plan->phase_count;
    p->plan->store_phase[s] = planner_place(p, store->value, axes, from);
    if (gathered && plan->phase_count > phases)
        plan->phases[p->plan->store_phase[s]].why =
            arena_printf(p->arena,
                         "an earlier phase reads %s at other coordinates than this one "
                         "overwrites",
                         p->function->parameters[store->parameter].name);
    if (plan->arrays[store->parameter].materialised ==
        store->value) { /* is read back after the store */
        plan->defined_in[store->value] = p->plan->store_phase[s] + 1;
        planner_leave_users(p, store->value, 0);
        planner_refresh_all(p);
    }
    planner_mark_needed(p, defined_in);
    planner_mark_needed(p, p->plan->store_phase[s]);
    return true;
}

/* This ends. A store whose parameter is gathered moves behind the gathering phase once its value is
 * free: from then on it reads nothing that could hold another store back, and it moves only as
 * others do, towards the end; there are no more such stores than stores. The rest move because a
 * phase reads their parameter at its own coordinates: a value over an array's axes never reads an
 * array over more axes except through made values, whose phases stay where they are, so stores over
 * more axes come to rest first, and those over equal axes share a phase. Of values that are read
 * back all this is not known: such a plan is given up after a number of moves. */
bool planner_settle_stores(Planner *p) {
    size_t moves = 0, max = 16 * (p->function->store_count + p->plan->phase_count);
    bool read_back = false;
    for (ValueId v = 1; v < p->function->value_count; v++)
        read_back |= p->plan->choices.materialised_[v];
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t s = 0; s < p->function->store_count; s++)
            while (settle(p, s)) {
                moved = true;
                if (++moves > max && read_back) return false;
            }
    }
    return true;
}

/* Whether the phase gathers what the parameter holds before the step. */
static bool gathers_old(const Plan *plan, const Phase *phase, uint32_t array) {
    const Value *values = plan->function->values;
    for (size_t i = 0; i < phase->gather_count; i++) {
        const ValueId v = phase->gathers[i];
        if (plan_is_gather_of(plan, phase, v, array) && values[values[v].arg[0]].op == OP_PARAMETER)
            return true;
    }
    return false;
}

bool planner_keeps_order(const Plan *plan) {
    for (size_t i = 0; i < plan->phase_count; i++)
        for (size_t s = 0; s < plan->phases[i].store_count; s++) {
            const uint32_t array = plan->phases[i].stores[s].array;
            if (plan->arrays[array].parameter == UINT32_MAX) continue;
            for (size_t k = i; k < plan->phase_count; k++) {
                if (k > i && reads_old(plan, &plan->phases[k], array)) return false;
                if (gathers_old(plan, &plan->phases[k], array)) return false;
            }
        }
    return true;
}
