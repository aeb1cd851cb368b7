/* candidates.c: values that may be worth a temporary.
 *
 * A value that several phases compute may be stored by the first and read back by the others. About
 * what that saves is known without a plan: the operations of those that compute it again, as bytes,
 * less the bytes of storing it and reading it back. So may one that a phase computes again for each
 * place along an axis that it does not vary along. choose.c builds plans with the most promising.
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

enum { DEAR = 8 }; /* operations from which on one value is worth a temporary */

/* By value: the arrays in memory that it is computed from. */
Reads *planner_find_reads(const ValueCosts *s, const Plan *plan, Arena *arena) {
    const Function *f = s->f;
    Reads *below = arena_alloc(arena, f->value_count * sizeof *below);
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (plan->array_of[v] && value->axes) below[v] = (Reads)1 << plan->array_of[v] % 64;
        if (plan->defined_in[v] || value->op == OP_PARAMETER) continue;
        for (int i = 0; i < op_info[value->op].arity; i++) below[v] |= below[value->arg[i]];
    }
    return below;
}

/* Whether the value combines several arrays, has fewer bytes than its operands, or takes many
 * operations. */
bool planner_is_candidate(const ValueCosts *s, const Reads *below, ValueId v) {
    const Value *value = &s->f->values[v];
    bool much = op_info[value->op].work >= DEAR;
    for (int i = 0; i < op_info[value->op].arity; i++) {
        const Value *operand = &s->f->values[value->arg[i]];
        much |= below[v] != below[value->arg[i]];
        much |= type_info[value->type].size < type_info[operand->type].size;
    }
    return much && below[v];
}

/* By value: how many phases compute it. A phase that does so for each element of a larger space
 * counts twice. */
uint32_t *planner_find_users(const Plan *plan, Arena *arena) {
    const Function *f = plan->function;
    uint32_t *users = arena_alloc(arena, f->value_count * sizeof *users);
    for (size_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t n = 0; n < phase->value_count; n++) {
            const ValueId v = phase->values[n];
            const bool larger = f->values[v].axes != (phase->outer | phase->inner);
            users[v] += phase->levels[n] == LEVEL_ELEMENT && larger ? 2 : 1;
        }
    }
    return users;
}

uint32_t *planner_estimate_users(const Planner *p, Arena *arena) {
    const Function *f = p->function;
    uint32_t *first = arena_alloc(arena, f->value_count * sizeof *first);
    uint32_t *last = arena_alloc(arena, f->value_count * sizeof *last);
    for (ValueId v = 1; v < f->value_count; v++) first[v] = UINT32_MAX;
    for (size_t s = 0; s < f->store_count; s++) {
        const ValueId v = f->stores[s].value;
        first[v] = last[v] = p->depth[v];
    }
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        const Value *value = &f->values[v];
        const bool materialised = op_info[value->op].flags & (OP_REDUCTION | OP_ARRAY);
        const uint32_t from = materialised ? p->depth[v] - 1 : first[v],
                       to = materialised ? from : last[v];
        for (int i = value->op == OP_GATHER; p->live[v] && i < op_info[value->op].arity; i++) {
            const ValueId arg = value->arg[i];
            if (from < first[arg]) first[arg] = from;
            if (to > last[arg]) last[arg] = to;
        }
    }
    for (ValueId v = 1; v < f->value_count; v++) last[v] = last[v] + 1 - first[v];
    return last;
}

double planner_value_bytes(const ValueCosts *s, ValueId v) {
    const Value *value = &s->f->values[v];
    return plan_sizes_elements(&s->sizes, value->axes) * type_info[value->type].size;
}

int planner_by_saved(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->saved != y->saved) return x->saved > y->saved ? -1 : 1;
    return x->v < y->v ? -1 : x->v > y->v;
}

static bool in_memory(const Plan *plan, ValueId v) {
    return plan->defined_in[v] || plan->function->values[v].op == OP_PARAMETER;
}

/* The operations of a value, given those of its operands; an overestimate where operands share
 * some. */
static double cost_above(const Function *f, const double *costs, ValueId v) {
    const Value *value = &f->values[v];
    double cost = op_info[value->op].work;
    for (int i = value->op == OP_GATHER; i < op_info[value->op].arity; i++)
        cost += costs[value->arg[i]];
    return cost;
}

/* About what a value in a temporary saves when it takes so many operations. */
static double saving(const ValueCosts *s, uint32_t users, ValueId v, double cost) {
    const double again = (users - 1) * plan_sizes_elements(&s->sizes, s->f->values[v].axes);
    return again * cost / OPERATIONS_PER_BYTE - 2 * planner_value_bytes(s, v);
}

/* By value: whether it is computed from an element, at other coordinates, of what the step
 * overwrites. Kept where the row is first read, it lets the row be overwritten by the same kernel.
 */
static bool *find_overwritten(const ValueCosts *s, const Plan *plan, Arena *arena) {
    const Function *f = s->f;
    bool *of = arena_alloc(arena, f->value_count * sizeof *of);
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v], *source = &f->values[value->arg[0]];
        const bool gather = value->op == OP_GATHER && source->op == OP_PARAMETER;
        for (size_t i = 0; gather && i < f->store_count; i++)
            of[v] |= f->stores[i].parameter == source->payload;
        for (int i = gather; !in_memory(plan, v) && i < op_info[value->op].arity; i++)
            of[v] |= of[value->arg[i]];
    }
    return of;
}

Candidate *planner_find_candidates(const ValueCosts *s, const Plan *plan, const uint32_t *users,
                                   Arena *arena, size_t *count) {
    const Reads *below = planner_find_reads(s, plan, arena);
    const bool *overwritten = find_overwritten(s, plan, arena);
    Candidate *candidates = arena_alloc(arena, s->f->value_count * sizeof *candidates);
    double *costs = arena_alloc(arena, s->f->value_count * sizeof *costs);
    *count = 0;
    for (ValueId v = 1; v < s->f->value_count; v++) {
        if (in_memory(plan, v)) continue;
        costs[v] = cost_above(s->f, costs, v);
        if (!planner_may_keep(s->f, v) || planner_value_bytes(s, v) > s->largest) continue;
        if (!(users[v] && overwritten[v]) && (users[v] < 2 || !planner_is_candidate(s, below, v)))
            continue;
        candidates[(*count)++] = (Candidate){v, saving(s, users[v], v, costs[v])};
    }
    return candidates;
}

/* Where candidates are many, keeps some of them: each that would save `times` what it takes, when
 * those before it are in temporaries. */
size_t planner_keep_many(const ValueCosts *s, const Plan *plan, const uint32_t *users, Arena *arena,
                         double times, bool *chosen) {
    size_t count, materialised_ = 0;
    const Candidate *candidates = planner_find_candidates(s, plan, users, arena, &count),
                    *next = candidates;
    if (count <= CANDIDATES) return 0;
    double *costs = arena_alloc(arena, s->f->value_count * sizeof *costs);
    for (ValueId v = 1; v < s->f->value_count; v++) {
        if (in_memory(plan, v)) continue;
        costs[v] = cost_above(s->f, costs, v);
        if (next == candidates + count || next->v != v) continue;
        next++;
        if (saving(s, users[v], v, costs[v] / times) <= 0) continue;
        chosen[v] = true;
        costs[v] = 0;
        materialised_++;
    }
    return materialised_;
}

bool planner_keep_invariants(const Plan *plan, const Phase *phase, AxisSet along, double *costs,
                             bool *chosen) {
    enum { WORK_MIN = 8 };
    const Function *f = plan->function;
    bool any = false;
    for (size_t n = 0; n < phase->value_count; n++) {
        const ValueId v = phase->values[n];
        const AxisSet axes = f->values[v].axes;
        ValueId operands[3];
        const size_t count = plan_operands(plan, phase, v, operands);
        const bool invariant = axes && !(axes & along);
        costs[v] = plan_is_read(plan, phase, v) ? 0 : op_info[f->values[v].op].work;
        for (size_t i = 0; i < count; i++) {
            const ValueId o = operands[i];
            if (invariant) costs[v] += costs[o];
            const bool ends = f->values[o].axes && !(f->values[o].axes & along) && !invariant;
            if (!ends || costs[o] < WORK_MIN || !planner_may_keep(f, o) || chosen[o]) continue;
            any = chosen[o] = true;
        }
    }
    return any;
}

bool planner_is_worth_search(const Plan *plan) {
    const Phase *first = &plan->phases[0];
    bool any = plan->phase_count > 1 || first->reduction_count;
    for (size_t n = 0; n < first->value_count && !any; n++) {
        const AxisSet axes = plan->function->values[first->values[n]].axes;
        any = axes && axes != (first->outer | first->inner);
    }
    return any;
}
