/* plan_order.c: which phase comes before which.
 *
 * The phases as they were placed are in an order that works. Others work too: those that keep each
 * phase behind what it reads or overwrites. Of these, one is taken that lets phases of one space
 * follow each other, and smaller ones wait, so that plan_kernels.c finds runs of phases for its
 * kernels. Phases whose stores have all moved elsewhere go. */
#include "compiler.h"
#include "plan.h"
#include "planner.h"

static bool writes(const Planner *p, uint32_t phase, uint32_t array) {
    if (plan_writes(&p->plan->phases[phase], array)) return true;
    for (size_t s = 0; s < p->function->store_count; s++)
        if (p->store_home[s] == phase && p->function->stores[s].parameter == array) return true;
    return false;
}

static bool has_work(const Planner *p, uint32_t index) {
    const Phase *phase = &p->plan->phases[index];
    if (phase->reduction_count || phase->scan_count || phase->store_count) return true;
    for (size_t s = 0; s < p->function->store_count; s++)
        if (p->store_home[s] == index) return true;
    return false;
}

/* Whether a phase has to stay behind an earlier one: it uses what that one makes, overwrites what
 * that one reads, or both store to one array. */
static bool must_follow(const Planner *p, uint32_t late, uint32_t early) {
    const Plan *plan = p->plan;
    const Phase *before = &plan->phases[early], *after = &plan->phases[late];
    for (ValueId v = 1; v < p->function->value_count; v++) {
        const Value *value = &p->function->values[v];
        const ValueId read = value->op == OP_GATHER ? value->arg[0] : v;
        if (after->needed[v] && (plan->home[v] == early + 1 || plan->home[read] == early + 1))
            return true;
    }
    for (uint32_t a = 0; a < plan->array_count; a++) {
        const bool stored = writes(p, late, a);
        if (stored && (writes(p, early, a) || plan_reads(plan, before, a))) return true;
        if (writes(p, early, a) && plan_reads(plan, after, a)) return true;
    }
    return false;
}

typedef struct Order {
    Planner *p;
    uint32_t count;
    bool *follows;   /* [late * count + early] */
    uint32_t *place; /* by phase: 1 + where it comes, or 0 */
    Phase *ordered;
    uint32_t taken;
} Order;

static AxisSet space_of(const Phase *phase) {
    return phase->outer | phase->inner;
}

/* 0, or for a phase that waits for nobody: 1 when others wait for it, 2 when larger ones wait for
 * its reductions. */
static int comes_ahead(const Order *o, uint32_t phase) {
    const Phase *phases = o->p->plan->phases;
    const AxisSet space = space_of(&phases[phase]);
    int ahead = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        const AxisSet other = space_of(&phases[i]);
        if (o->follows[phase * o->count + i]) return 0;
        if (!o->follows[i * o->count + phase]) continue;
        if (ahead == 0) ahead = 1;
        const bool larger = other != space && (other & space) == space;
        if (larger && phases[phase].reduction_count) ahead = 2;
    }
    return ahead;
}

/* Whether phase `a` is the better one to come next: one that is there for others, the more
 * so for larger ones, one over the space of the last, a larger one rather than a part of it, the
 * one that was placed earlier. */
static bool is_better(const Order *o, uint32_t a, uint32_t b) {
    const Phase *phases = o->p->plan->phases;
    const AxisSet space[] = {space_of(&phases[a]), space_of(&phases[b])};
    const AxisSet last = o->taken ? space_of(&o->ordered[o->taken - 1]) : 0;
    const int ahead[] = {comes_ahead(o, a), comes_ahead(o, b)};
    if (ahead[0] != ahead[1]) return ahead[0] > ahead[1];
    if (ahead[0] && ahead[1]) return a < b;
    if ((space[0] == last) != (space[1] == last)) return space[0] == last;
    if (space[0] != space[1] && (space[0] & space[1]) == space[1]) return true;
    if (space[0] != space[1] && (space[0] & space[1]) == space[0]) return false;
    return a < b;
}

/* Of the phases whose predecessors are placed, the best; `count` when there is none. */
static uint32_t next_phase(const Order *o) {
    uint32_t next = o->count;
    for (uint32_t i = 0; i < o->count; i++) {
        bool ready = !o->place[i] && has_work(o->p, i);
        for (uint32_t early = 0; early < i; early++)
            ready &= !o->follows[i * o->count + early] || o->place[early];
        if (ready && (next == o->count || is_better(o, i, next))) next = i;
    }
    return next;
}

void planner_order_phases(Planner *p) {
    Plan *plan = p->plan;
    Order o = {.p = p, .count = (uint32_t)plan->phase_count};
    if (o.count < 2) return;
    o.ordered = arena_alloc(p->arena, o.count * sizeof *o.ordered);
    o.place = arena_alloc(p->arena, o.count * sizeof *o.place);
    o.follows = arena_alloc(p->arena, (size_t)o.count * o.count * sizeof *o.follows);
    for (uint32_t late = 0; late < o.count; late++)
        for (uint32_t early = 0; early < late; early++)
            o.follows[late * o.count + early] = must_follow(p, late, early);
    for (uint32_t next; (next = next_phase(&o)) < o.count;) {
        o.ordered[o.taken] = plan->phases[next];
        o.place[next] = ++o.taken;
    }
    for (ValueId v = 1; v < p->function->value_count; v++)
        if (plan->home[v]) plan->home[v] = o.place[plan->home[v] - 1];
    for (size_t s = 0; s < p->function->store_count; s++)
        if (p->store_home[s] != UINT32_MAX) p->store_home[s] = o.place[p->store_home[s]] - 1;
    plan->phases = o.ordered;
    plan->phase_count = o.taken;
    for (uint32_t i = 0; i < o.taken; i++) planner_mark_needed(p, i);
}
