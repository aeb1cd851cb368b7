/* needed.c: the values that a phase reads and computes: the closure of its roots, what it
 * makes and stores, under the operands that it takes.
 *
 * A phase lists them in the order of their numbers; operands precede their users, so one pass from
 * the highest root down finds them, in time that grows with what it finds and with the numbers that
 * it passes, 64 at a time. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

Worklist *worklist_open(const Function *f, Arena *arena) {
    Worklist *worklist = arena_alloc(arena, sizeof *worklist);
    worklist->bits = arena_alloc(arena, (f->value_count / 64 + 1) * sizeof *worklist->bits);
    worklist->found = arena_alloc(arena, f->value_count * sizeof *worklist->found);
    return worklist;
}

void worklist_add(Worklist *worklist, ValueId v) {
    const uint64_t bit = (uint64_t)1 << v % 64;
    if (!v || worklist->bits[v / 64] & bit) return;
    worklist->bits[v / 64] |= bit;
    worklist->pending++;
    if (v > worklist->highest) worklist->highest = v;
}

ValueId worklist_take(Worklist *worklist) {
    if (!worklist->pending) {
        worklist->highest = 0;
        return 0;
    }
    size_t word = worklist->highest / 64;
    while (!worklist->bits[word]) word--;
    const ValueId v = (ValueId)(64 * word + 63 - (size_t)__builtin_clzll(worklist->bits[word]));
    worklist->bits[word] &= ~((uint64_t)1 << v % 64);
    worklist->pending--;
    worklist->highest = v;
    if (worklist->taken) ++*worklist->taken;
    return v;
}

void worklist_clear(Worklist *worklist) {
    while (worklist_take(worklist)) continue;
}

/* The roots that the phase itself says. */
static void add_roots(Worklist *worklist, const Phase *phase) {
    for (size_t i = 0; i < phase->reduction_count; i++)
        worklist_add(worklist, phase->reductions[i]);
    for (size_t i = 0; i < phase->scan_count; i++) worklist_add(worklist, phase->scans[i]);
    for (size_t i = 0; i < phase->guard_count; i++)
        worklist_add(worklist, phase->guards[i].condition);
}

/* What plan_operands() gives, of a phase in which nothing is known. */
static void add_operands(Worklist *worklist, const Value *value) {
    const bool scan = value->op == OP_SCAN;
    for (int i = value->op == OP_GATHER; i < op_info[value->op].arity; i++)
        if (!(scan && i == 2)) worklist_add(worklist, value->arg[i]);
}

static void close(const Plan *plan, Phase *phase, Worklist *worklist, Arena *arena) {
    const Function *f = plan->function;
    const uint32_t index = (uint32_t)(phase - plan->phases);
    size_t count = 0;
    add_roots(worklist, phase);
    for (ValueId v; (v = worklist_take(worklist)) != 0;) {
        ValueId operands[3];
        worklist->found[count++] = v;
        if (plan->defined_in[v] && plan->defined_in[v] - 1 < index) continue;
        if (!phase->known) {
            add_operands(worklist, &f->values[v]);
            continue;
        }
        for (size_t i = plan_operands(plan, phase, v, operands); i-- > 0;)
            worklist_add(worklist, operands[i]);
    }
    if (count > phase->value_capacity) {
        phase->values = arena_alloc(arena, count * sizeof *phase->values);
        phase->value_capacity = count;
    }
    phase->value_count = count;
    phase->gather_count = 0;
    for (size_t i = 0; i < count; i++) {
        const ValueId v = worklist->found[count - 1 - i];
        phase->values[i] = v;
        if (f->values[v].op != OP_GATHER) continue;
        phase->gathers = arena_grow(arena, phase->gathers, phase->gather_count,
                                    &phase->gather_capacity, sizeof *phase->gathers);
        phase->gathers[phase->gather_count++] = v;
    }
}

/* What a store puts down, and the conditions under which it does. */
static void add_stored(Worklist *worklist, const Plan *plan, uint32_t array, ValueId value) {
    for (Guard guard; plan_keeps(plan, array, &value, &guard);)
        worklist_add(worklist, guard.condition);
    worklist_add(worklist, value);
}

void planner_mark_needed(Planner *p, uint32_t index) {
    const Function *f = p->function;
    Phase *phase = &p->plan->phases[index];
    for (size_t i = 0; i < phase->store_count; i++)
        add_stored(p->worklist, p->plan, phase->stores[i].array, phase->stores[i].value);
    for (size_t s = 0; s < f->store_count; s++)
        if (p->plan->store_phase[s] == index)
            add_stored(p->worklist, p->plan, f->stores[s].parameter, f->stores[s].value);
    close(p->plan, phase, p->worklist, p->arena);
    phase->stale = false;
}

void planner_leave_users(Planner *p, ValueId v, uint32_t from) {
    for (uint32_t i = from; i < p->plan->phase_count; i++) {
        Phase *phase = &p->plan->phases[i];
        phase->stale = phase->stale || plan_needs(phase, v);
    }
}

void planner_refresh(Planner *p, uint32_t index) {
    if (p->plan->phases[index].stale) planner_mark_needed(p, index);
}

bool planner_refresh_all(Planner *p) {
    for (uint32_t i = 0; i < p->plan->phase_count; i++) {
        planner_refresh(p, i);
        if (p->work_limit && *p->worklist->taken > p->work_limit) return false;
    }
    return true;
}

void planner_mark_finished(const Plan *plan, Phase *phase, Worklist *worklist, Arena *arena) {
    const Phase before = *phase;
    for (size_t i = 0; i < phase->store_count; i++)
        add_stored(worklist, plan, phase->stores[i].array, phase->stores[i].value);
    phase->value_capacity = phase->gather_capacity = 0; /* those of `before` stay as they are */
    phase->gathers = NULL;
    close(plan, phase, worklist, arena);
    phase->levels = arena_alloc(arena, phase->value_count * sizeof *phase->levels);
    for (size_t i = 0; i < phase->value_count; i++)
        phase->levels[i] = (uint8_t)plan_level(&before, phase->values[i]);
    plan_find_touches(plan, phase, arena);
}
