/* guard.c: which work a rank-0 condition skips.
 *
 * Where `when c { p = e }` has become p = if c then e else old p, nothing is stored unless c holds
 * (plan_keeps), and values that only e uses are not needed otherwise. A literal is a rank-0 bool
 * that chooses in a SELECT, or its negation; a value's demands are the literals without which no
 * store depends on it. A phase whose effects all demand one literal, which is known before the
 * phase begins, visits its elements only if that holds. The stores of its last-block epilogue run
 * in any case. A temporary that a skipped phase would have filled is then not read, or only by a
 * SELECT that does not choose it. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

enum { CONDITIONS = 32 }; /* further ones skip nothing */

typedef struct Guards {
    Planner *p;
    const Function *f;
    ValueId condition[CONDITIONS];
    size_t count;
    Literals *follows[2]; /* by rank-0 bool: what follows when it does not hold, when it does */
    Literals *demands;    /* by value */
} Guards;

/* The condition behind negations. */
static ValueId positive(const Function *f, ValueId c, bool *holds) {
    for (; f->values[c].op == OP_NOT; c = f->values[c].arg[0]) *holds = !*holds;
    return c;
}

/* Numbers the conditions of SELECTs, and finds for every bool the literals that follow from it.
 */
static void find_literals(Guards *g) {
    const Function *f = g->f;
    uint8_t *number = g->p->plan->condition_of;
    for (int holds = 0; holds < 2; holds++)
        g->follows[holds] = arena_alloc(g->p->arena, f->value_count * sizeof *g->follows[holds]);
    for (ValueId v = 1; v < f->value_count; v++) {
        bool holds = true;
        if (!g->p->live[v] || f->values[v].op != OP_SELECT) continue;
        ValueId c = positive(f, f->values[v].arg[0], &holds);
        if (f->values[c].axes || number[c] || g->count == CONDITIONS) continue;
        g->condition[g->count++] = c;
        number[c] = (uint8_t)g->count;
    }
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (value->type != TYPE_BOOL || value->axes) continue;
        for (int holds = 0; holds < 2; holds++) {
            Literals all = number[v] ? plan_literal(number[v], holds) : 0;
            if (value->op == OP_NOT) all |= g->follows[!holds][value->arg[0]];
            if (value->op == (holds ? OP_AND : OP_OR))
                all |= g->follows[holds][value->arg[0]] | g->follows[holds][value->arg[1]];
            g->follows[holds][v] = all;
        }
    }
}

/* The literals without which the store writes back the old value. */
static Literals store_demands(Guards *g, const Store *store) {
    ValueId value = store->value;
    Literals all = 0;
    for (Guard guard; plan_keeps(g->p->plan, store->parameter, &value, &guard);)
        all |= g->follows[guard.holds][guard.condition];
    return all;
}

/* A condition of the store is needed wherever the conditions around it hold. */
static void demand_conditions(Guards *g, const Store *store) {
    ValueId value = store->value;
    Literals around = 0;
    for (Guard guard; plan_keeps(g->p->plan, store->parameter, &value, &guard);) {
        g->demands[guard.condition] &= around;
        around |= g->follows[guard.holds][guard.condition];
    }
}

static void find_demands(Guards *g) {
    const Function *f = g->f;
    g->demands = arena_alloc(g->p->arena, f->value_count * sizeof *g->demands);
    memset(g->demands, 0xff, f->value_count * sizeof *g->demands);
    for (size_t s = 0; s < f->store_count; s++)
        g->demands[f->stores[s].value] &= store_demands(g, &f->stores[s]);
    for (size_t s = 0; s < f->store_count; s++) demand_conditions(g, &f->stores[s]);
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        const Value *value = &f->values[v];
        if (!g->p->live[v]) continue;
        for (int i = 0; i < op_info[value->op].arity; i++) {
            Literals own = g->demands[v];
            if (value->op == OP_SELECT && i > 0) own |= g->follows[i == 1][value->arg[0]];
            g->demands[value->arg[i]] &= own;
        }
    }
}

/* The literals that every effect of the phase demands, but for its last-block epilogue; all bits
 * when it has none. */
static Literals phase_demands(Guards *g, uint32_t index) {
    const Plan *plan = g->p->plan;
    const Phase *phase = &plan->phases[index];
    Literals all = ~(Literals)0;
    for (size_t i = 0; i < phase->reduction_count; i++) all &= g->demands[phase->reductions[i]];
    for (size_t i = 0; i < phase->scan_count; i++) all &= g->demands[phase->scans[i]];
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *own = &phase->stores[i];
        if (own->level == LEVEL_LAST_BLOCK) continue;
        if (plan->arrays[own->array].parameter == UINT32_MAX)
            all &= g->demands[plan->arrays[own->array].value];
        else
            all &= store_demands(g, &(Store){.parameter = own->array, .value = own->value});
    }
    for (size_t s = 0; s < g->f->store_count; s++) {
        const Store *store = &g->f->stores[s];
        AxisSet axes = g->f->parameters[store->parameter].axes;
        if (g->p->plan->store_phase[s] == index &&
            planner_store_level(g->p, store->value, axes, index) != LEVEL_LAST_BLOCK)
            all &= store_demands(g, store);
    }
    return all;
}

/* Whether phase `index` sees the old values that the condition is made of. */
static bool is_known(const Guards *g, ValueId c, uint32_t index) {
    const Function *f = g->f;
    const Phase *phase = &g->p->plan->phases[index];
    Worklist *worklist = g->p->worklist;
    bool known = true;
    if (g->p->ready[c] > index) return false;
    if (plan_needs(phase, c)) return true;
    worklist_add(worklist, c);
    for (ValueId v; known && (v = worklist_take(worklist)) != 0;) {
        const Value *value = &f->values[v];
        ValueId operands[3];
        ValueId read = value->op == OP_GATHER ? value->arg[0] : v;
        for (size_t s = 0; f->values[read].op == OP_PARAMETER && s < f->store_count; s++)
            if (f->stores[s].parameter == f->values[read].payload &&
                g->p->plan->store_phase[s] < index)
                known = false;
        if (value->op == OP_GATHER && f->values[read].op == OP_PARAMETER) known = false;
        for (size_t i = plan_operands(g->p->plan, phase, v, operands); i-- > 0;)
            worklist_add(worklist, operands[i]);
    }
    worklist_clear(worklist);
    return known;
}

static void guard_phase(Guards *g, uint32_t index) {
    Phase *phase = &g->p->plan->phases[index];
    Literals all = phase_demands(g, index), known = 0;
    if (all == ~(Literals)0) return; /* nothing to skip: a condition would only be looked at */
    phase->guards = arena_alloc(g->p->arena, (2 * g->count + 1) * sizeof *phase->guards);
    for (size_t i = 0; i < 2 * g->count; i++) {
        const Guard guard = {g->condition[i / 2], i % 2};
        if (!(all & plan_literal(i / 2 + 1, i % 2))) continue;
        if (is_known(g, guard.condition, index)) phase->guards[phase->guard_count++] = guard;
    }
    /* those that follow from others need not be looked at */
    for (size_t i = phase->guard_count; i-- > 0;) {
        Literals others = 0, own;
        for (size_t k = 0; k < phase->guard_count; k++)
            if (k != i) others |= g->follows[phase->guards[k].holds][phase->guards[k].condition];
        own = g->follows[phase->guards[i].holds][phase->guards[i].condition];
        known |= own;
        if (!(own & ~others)) phase->guards[i] = phase->guards[--phase->guard_count];
    }
    phase->known = known;
    planner_mark_needed(g->p, index);
}

static Guards open_guards(Planner *p) {
    Guards g = {.p = p, .f = p->function};
    p->plan->condition_of = arena_alloc(p->arena, p->function->value_count);
    find_literals(&g);
    return g;
}

void planner_find_known(Planner *p) {
    const Guards g = open_guards(p);
    for (uint32_t i = 0; i < p->plan->phase_count; i++) {
        Phase *phase = &p->plan->phases[i];
        phase->known = 0;
        for (size_t k = 0; k < phase->guard_count; k++)
            phase->known |= g.follows[phase->guards[k].holds][phase->guards[k].condition];
    }
}

bool planner_may_skip(const Plan *plan, const bool *live, Arena *arena, uint32_t *phase) {
    Plan copy = *plan;
    const size_t values = plan->function->value_count;
    Planner p = {.function = plan->function, .plan = &copy, .arena = arena, .live = live};
    p.ready = arena_alloc(arena, values * sizeof *p.ready);
    p.late = arena_alloc(arena, values * sizeof *p.late);
    p.worklist = worklist_open(plan->function, arena);
    planner_find_ready(&p);
    Guards g = open_guards(&p);
    find_demands(&g);
    for (*phase = 0; *phase < plan->phase_count; ++*phase) {
        const Phase *own = &plan->phases[*phase];
        const Literals all = phase_demands(&g, *phase);
        for (size_t i = 0; i < own->guard_count; i++) {
            const size_t number = copy.condition_of[own->guards[i].condition];
            if (!number || !(all & plan_literal(number, own->guards[i].holds))) return false;
        }
    }
    return true;
}

bool planner_guard_phases(Planner *p) {
    planner_find_ready(p); /* phases have moved */
    Guards g = open_guards(p);
    find_demands(&g);
    for (uint32_t i = 0; i < p->plan->phase_count; i++) guard_phase(&g, i);
    return true;
}
