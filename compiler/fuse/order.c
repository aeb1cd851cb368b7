/* order.c: which phase comes before which.
 *
 * Any order is legal that keeps each phase behind those whose results it reads and behind those
 * whose inputs it overwrites. Of these, one is taken in which phases over one space follow each
 * other and phases over smaller spaces wait, so that kernels.c finds runs of phases for its
 * kernels. Phases whose stores have all moved elsewhere are dropped.
 *
 * This is list scheduling: of the phases whose predecessors are all done, the best comes next.
 * Which is best depends on a phase's space and class alone, so of all that have both in common only
 * the first is looked at. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* How a phase touches an array, while its stores are still in p->plan->store_phase. */
typedef struct Use {
    uint32_t phase;
    bool reads, writes;
} Use;

typedef struct Uses {
    Use *items;
    size_t count, capacity;
} Uses;

typedef struct Phases {
    uint32_t *items;
    size_t count, capacity;
} Phases;

/* The class of a phase that may come next: 2 when phases over larger spaces wait for its
 * reductions, 1 when any phase waits for it, else 0. */
enum { AHEAD_CLASSES = 3 };

/* The phases of one space and class that may come next: those of `items` from `taken` on. */
typedef struct Ready {
    AxisSet space;
    int ahead;
    Phases phases;
    size_t taken;
} Ready;

typedef struct Order {
    Planner *p;
    uint32_t count;
    Phases *later;    /* by phase: those that must follow it, possibly listed twice */
    uint32_t *before; /* by phase: how many it still waits for, with the same repetitions */
    bool *works, *waits;
    int *ahead;
    Ready *ready;
    size_t ready_count, ready_capacity;
    uint32_t *place; /* by phase: 1 + its position in the new order, or 0 */
    Phase *ordered;
    uint32_t taken;
} Order;

static AxisSet space_of(const Phase *phase) {
    return phase->outer | phase->inner;
}

static void add(Arena *arena, Phases *phases, uint32_t phase) {
    phases->items =
        arena_grow(arena, phases->items, phases->count, &phases->capacity, sizeof *phases->items);
    phases->items[phases->count++] = phase;
}

/* ---- what must follow what ---- */

static void add_edge(Order *o, uint32_t early, uint32_t late) {
    if (early >= late) return;
    add(o->p->arena, &o->later[early], late);
    o->before[late]++;
    o->waits[late] = true;
}

/* A phase uses what an earlier one makes. */
static void follow_values(Order *o, uint32_t index) {
    const Plan *plan = o->p->plan;
    const Phase *phase = &plan->phases[index];
    for (size_t i = 0; i < phase->value_count; i++) {
        const ValueId v = phase->values[i];
        const Value *value = &o->p->function->values[v];
        if (plan->defined_in[v]) add_edge(o, plan->defined_in[v] - 1, index);
        if (value->op == OP_GATHER && plan->defined_in[value->arg[0]])
            add_edge(o, plan->defined_in[value->arg[0]] - 1, index);
    }
}

static void add_use(Order *o, Uses *uses, Use use) {
    uses->items =
        arena_grow(o->p->arena, uses->items, uses->count, &uses->capacity, sizeof *uses->items);
    uses->items[uses->count++] = use;
}

/* By array, the phases that read or store it, in their order. */
static Uses *find_uses(Order *o) {
    const Planner *p = o->p;
    Uses *uses = arena_alloc(p->arena, (p->plan->array_count + 1) * sizeof *uses);
    Phases *stores = arena_alloc(p->arena, o->count * sizeof *stores);
    for (size_t s = 0; s < p->function->store_count; s++)
        if (p->plan->store_phase[s] != UINT32_MAX)
            add(p->arena, &stores[p->plan->store_phase[s]], p->function->stores[s].parameter);
    for (uint32_t i = 0; i < o->count; i++) {
        Phase *phase = &p->plan->phases[i];
        plan_find_touches(p->plan, phase, p->arena);
        for (size_t t = 0; t < phase->touch_count; t++) {
            const Touch *touch = &phase->touches[t];
            add_use(o, &uses[touch->array],
                    (Use){i, touch->reads || touch->gathers, touch->writes || touch->last_block});
        }
        for (size_t s = 0; s < stores[i].count; s++)
            add_use(o, &uses[stores[i].items[s]], (Use){i, false, true});
        o->works[i] =
            phase->reduction_count || phase->scan_count || phase->store_count || stores[i].count;
        phase->touch_count = 0; /* they are not known yet: there are more stores to come */
    }
    return uses;
}

/* A phase overwrites what an earlier one reads, reads what it stores, or both store to one array.
 */
static void follow_arrays(Order *o, const Uses *uses) {
    Phases writers = {0};
    for (size_t late = 0; late < uses->count; late++) {
        const Use *after = &uses->items[late];
        for (size_t early = 0; after->writes && early < late; early++)
            add_edge(o, uses->items[early].phase, after->phase);
        for (size_t i = 0; !after->writes && i < writers.count; i++)
            add_edge(o, writers.items[i], after->phase);
        if (after->writes) add(o->p->arena, &writers, after->phase);
    }
}

static void find_order(Order *o) {
    const Uses *uses = find_uses(o);
    for (uint32_t i = 0; i < o->count; i++) follow_values(o, i);
    for (size_t a = 0; a < o->p->plan->array_count; a++) follow_arrays(o, &uses[a]);
    for (uint32_t i = 0; i < o->count; i++) {
        const Phase *phases = o->p->plan->phases;
        const AxisSet space = space_of(&phases[i]);
        if (o->waits[i] || !o->later[i].count) continue;
        o->ahead[i] = 1;
        for (size_t k = 0; k < o->later[i].count; k++) {
            const AxisSet other = space_of(&phases[o->later[i].items[k]]);
            const bool larger = other != space && (other & space) == space;
            if (larger && phases[i].reduction_count) o->ahead[i] = 2;
        }
    }
}

/* ---- which is next ---- */

/* Adds a phase that waits for nobody any more; each list is in the order of the phases. */
static void make_ready(Order *o, uint32_t phase) {
    const AxisSet space = space_of(&o->p->plan->phases[phase]);
    size_t r = 0;
    if (!o->works[phase]) return;
    while (r < o->ready_count &&
           (o->ready[r].space != space || o->ready[r].ahead != o->ahead[phase]))
        r++;
    if (r == o->ready_count) {
        o->ready =
            arena_grow(o->p->arena, o->ready, o->ready_count, &o->ready_capacity, sizeof *o->ready);
        o->ready[o->ready_count++] = (Ready){.space = space, .ahead = o->ahead[phase]};
    }
    Phases *phases = &o->ready[r].phases;
    add(o->p->arena, phases, phase);
    for (size_t i = phases->count - 1; i > o->ready[r].taken && phases->items[i - 1] > phase; i--) {
        phases->items[i] = phases->items[i - 1];
        phases->items[i - 1] = phase;
    }
}

/* Whether phase `a` is the better one to come next: one that is there for others, the more so for
 * larger ones, and of these one that was not delayed; one over the space of the last, a larger one
 * rather than a part of it, the one that was placed earlier. */
static bool is_better(const Order *o, uint32_t a, uint32_t b) {
    const Phase *phases = o->p->plan->phases;
    const AxisSet own = space_of(&phases[a]), other = space_of(&phases[b]);
    const AxisSet last = o->taken ? space_of(&o->ordered[o->taken - 1]) : 0;
    if (o->ahead[a] != o->ahead[b]) return o->ahead[a] > o->ahead[b];
    if (phases[a].depth != phases[b].depth && o->ahead[a]) return phases[a].depth < phases[b].depth;
    if (o->ahead[a]) return a < b;
    if ((own == last) != (other == last)) return own == last;
    if (own != other && (own & other) == other) return true;
    if (own != other && (own & other) == own) return false;
    return a < b;
}

/* The best of those that are ready, looked at in their order; `count` when there is none. */
static uint32_t next_phase(Order *o) {
    uint32_t next = o->count;
    Ready *from = NULL;
    for (uint32_t min = 0;;) {
        Ready *first = NULL;
        for (size_t r = 0; r < o->ready_count; r++) {
            Ready *ready = &o->ready[r];
            if (ready->taken == ready->phases.count) continue;
            const uint32_t phase = ready->phases.items[ready->taken];
            if (phase >= min && (!first || phase < first->phases.items[first->taken]))
                first = ready;
        }
        if (!first) break;
        const uint32_t phase = first->phases.items[first->taken];
        if (next == o->count || is_better(o, phase, next)) {
            next = phase;
            from = first;
        }
        min = phase + 1;
    }
    if (from) from->taken++;
    return next;
}

bool planner_order_phases(Planner *p) {
    Plan *plan = p->plan;
    Order o = {.p = p, .count = (uint32_t)plan->phase_count};
    bool moved = false;
    if (o.count < 2) return true;
    o.ordered = arena_alloc(p->arena, o.count * sizeof *o.ordered);
    o.place = arena_alloc(p->arena, o.count * sizeof *o.place);
    o.later = arena_alloc(p->arena, o.count * sizeof *o.later);
    o.before = arena_alloc(p->arena, o.count * sizeof *o.before);
    o.works = arena_alloc(p->arena, o.count * sizeof *o.works);
    o.waits = arena_alloc(p->arena, o.count * sizeof *o.waits);
    o.ahead = arena_alloc(p->arena, o.count * sizeof *o.ahead);
    find_order(&o);
    for (uint32_t i = 0; i < o.count; i++)
        if (!o.before[i]) make_ready(&o, i);
    for (uint32_t next; (next = next_phase(&o)) < o.count;) {
        moved |= next != o.taken;
        o.ordered[o.taken] = plan->phases[next];
        o.place[next] = ++o.taken;
        for (size_t i = 0; i < o.later[next].count; i++) {
            const uint32_t late = o.later[next].items[i];
            if (!--o.before[late]) make_ready(&o, late);
        }
    }
    for (ValueId v = 1; v < p->function->value_count; v++)
        if (plan->defined_in[v]) plan->defined_in[v] = o.place[plan->defined_in[v] - 1];
    for (size_t s = 0; s < p->function->store_count; s++)
        if (p->plan->store_phase[s] != UINT32_MAX)
            p->plan->store_phase[s] = o.place[p->plan->store_phase[s]] - 1;
    plan->phases = o.ordered;
    plan->phase_count = o.taken;
    /* a value that phases computed for themselves may be materialised by now, and the other way
     * round */
    for (uint32_t i = 0; moved && i < o.taken; i++) planner_mark_needed(p, i);
    return true;
}
