/* plan_guard.c: which work a rank-0 condition skips.
 *
 * Where `when c { p = e }` has become p = if c then e else old p, nothing is stored unless c holds,
 * and what only e needs is needed by nobody else. A literal is a rank-0 bool that chooses in a
 * SELECT, or its negation; a value's demands are literals without which nobody looks at it. A phase
 * whose every effect has a literal in common, which is known before the phase begins, walks through
 * its elements only if that holds. Stores of its tail run in any case. What a skipped phase would
 * have left in a temporary is then read by nobody, or by an expression that drops it. */
#include <string.h>

#include "compiler.h"
#include "plan.h"
#include "planner.h"

enum { LITERALS = 64 }; /* two for each condition; further conditions skip nothing */
typedef uint64_t Demands;

typedef struct Guards {
    Planner *p;
    const Function *f;
    ValueId condition[LITERALS / 2]; /* literal 2 i: it holds; 2 i + 1: it does not */
    size_t count;
    Demands *demands; /* by value */
} Guards;

static size_t condition_number(Guards *g, ValueId c) {
    size_t i = 0;
    while (i < g->count && g->condition[i] != c) i++;
    if (i == g->count && g->count < COUNT(g->condition)) g->condition[g->count++] = c;
    return i;
}

/* The literal and what follows from it. */
static Demands literals(Guards *g, ValueId c, bool holds) {
    const Value *value = &g->f->values[c];
    if (value->axes) return 0;
    if (value->op == OP_NOT) return literals(g, value->arg[0], !holds);
    size_t i = condition_number(g, c);
    Demands all = i < COUNT(g->condition) ? (Demands)1 << (2 * i + !holds) : 0;
    if (value->op == (holds ? OP_AND : OP_OR))
        all |= literals(g, value->arg[0], holds) | literals(g, value->arg[1], holds);
    return all;
}

/* Without these the store puts back what is there. */
static Demands store_demands(Guards *g, const Store *store) {
    const Value *value = &g->f->values[store->value];
    ValueId old = g->p->plan->arrays[store->parameter].value;
    Demands all = 0;
    while (old && value->op == OP_SELECT && (value->arg[1] == old || value->arg[2] == old)) {
        bool holds = value->arg[2] == old;
        all |= literals(g, value->arg[0], holds);
        value = &g->f->values[value->arg[holds ? 1 : 2]];
    }
    return all;
}

static void find_demands(Guards *g) {
    const Function *f = g->f;
    g->demands = arena_alloc(g->p->arena, f->value_count * sizeof *g->demands);
    memset(g->demands, 0xff, f->value_count * sizeof *g->demands);
    for (size_t s = 0; s < f->store_count; s++)
        g->demands[f->stores[s].value] &= store_demands(g, &f->stores[s]);
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        const Value *value = &f->values[v];
        if (!g->p->live[v]) continue;
        for (int i = 0; i < op_info[value->op].arity; i++) {
            Demands own = g->demands[v];
            if (value->op == OP_SELECT && i > 0) own |= literals(g, value->arg[0], i == 1);
            g->demands[value->arg[i]] &= own;
        }
    }
}

/* What every effect of the phase demands but for its tail; all bits when it has none. */
static Demands phase_demands(Guards *g, uint32_t index) {
    const Plan *plan = g->p->plan;
    const Phase *phase = &plan->phases[index];
    Demands all = ~(Demands)0;
    for (size_t i = 0; i < phase->reduction_count; i++) all &= g->demands[phase->reductions[i]];
    for (size_t i = 0; i < phase->scan_count; i++) all &= g->demands[phase->scans[i]];
    for (size_t i = 0; i < phase->store_count; i++) /* so far only those of made values */
        if (phase->stores[i].level != LEVEL_TAIL)
            all &= g->demands[plan->arrays[phase->stores[i].array].value];
    for (size_t s = 0; s < g->f->store_count; s++) {
        const Store *store = &g->f->stores[s];
        AxisSet axes = g->f->parameters[store->parameter].axes;
        if (g->p->store_home[s] == index &&
            planner_store_level(g->p, store->value, axes, index) != LEVEL_TAIL)
            all &= store_demands(g, store);
    }
    return all;
}

/* Whether phase `index` sees the old values that the condition is made of. */
static bool is_known(const Guards *g, ValueId c, uint32_t index) {
    const Function *f = g->f;
    const Phase *phase = &g->p->plan->phases[index];
    bool *reached = arena_alloc(g->p->arena, (c + 1) * sizeof *reached);
    if (g->p->ready[c] > index) return false;
    if (phase->needed[c]) return true;
    reached[c] = true;
    for (ValueId v = c; v > 0; v--) {
        const Value *value = &f->values[v];
        ValueId operands[3];
        if (!reached[v]) continue;
        ValueId read = value->op == OP_GATHER ? value->arg[0] : v;
        for (size_t s = 0; f->values[read].op == OP_PARAMETER && s < f->store_count; s++)
            if (f->stores[s].parameter == f->values[read].payload && g->p->store_home[s] < index)
                return false;
        if (value->op == OP_GATHER && f->values[read].op == OP_PARAMETER) return false;
        for (size_t i = plan_operands(g->p->plan, phase, v, operands); i-- > 0;)
            reached[operands[i]] = true;
    }
    return true;
}

static void guard_phase(Guards *g, uint32_t index) {
    Phase *phase = &g->p->plan->phases[index];
    Demands all = phase_demands(g, index), known = 0, implied = 0;
    if (all == ~(Demands)0) return;
    for (size_t i = 0; i < g->count; i++)
        if ((all >> 2 * i & 3) && is_known(g, g->condition[i], index))
            known |= all & (Demands)3 << 2 * i;
    for (size_t i = 0; i < 2 * g->count; i++)
        if (known >> i & 1)
            implied |= literals(g, g->condition[i / 2], i % 2 == 0) & ~((Demands)1 << i);
    phase->guards = arena_alloc(g->p->arena, (2 * g->count + 1) * sizeof *phase->guards);
    for (size_t i = 0; i < 2 * g->count; i++)
        if ((known & ~implied) >> i & 1)
            phase->guards[phase->guard_count++] = (Guard){g->condition[i / 2], i % 2 == 0};
    planner_mark_needed(g->p, index);
}

void planner_guard_phases(Planner *p) {
    Guards g = {.p = p, .f = p->function};
    find_demands(&g);
    for (uint32_t i = 0; i < p->plan->phase_count; i++) guard_phase(&g, i);
}
