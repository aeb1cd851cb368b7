/* split.c: a reduction over several axes as one of reductions over some of them.
 *
 * `any(isnan(x))` over [b, c] is `any[b](any[c](isnan(x)))`: next to a softmax of the rows of x the
 * second form costs nothing, as a kernel of rows makes it, and the first a pass over x of its own.
 * What is reduced without an order (min, max, any, all, sums and products of integers) has the same
 * bits either way. A sum of floats has not: its tree is over all axes, so it is split only where
 * that is requested, to say what the other form would save.
 *
 * A reduction is split along the inner axes of another one of the same space: along the fastest
 * axis rather than next to it, then along what more of them go. */
#include "base/base.h"
#include "ir/ir.h"

enum { SPACES = 64 }; /* that are told apart; reductions of others are left as they are */

typedef struct Partition {
    AxisSet space, inner;
    size_t users;
} Partition;

typedef struct Partitions {
    Partition items[SPACES];
    size_t count;
} Partitions;

static bool is_reduction(const Value *v) {
    return op_info[v->op].flags & OP_REDUCTION;
}

static bool has_no_order(const Value *v) {
    const bool integer = type_info[v->type].class != 'F';
    return v->op == OP_REDUCE_MIN || v->op == OP_REDUCE_MAX || v->op == OP_ANY || v->op == OP_ALL ||
           ((v->op == OP_SUM || v->op == OP_PROD) && integer);
}

static bool may_split(const Value *v, bool floats) {
    return has_no_order(v) || (floats && (v->op == OP_SUM || v->op == OP_LOGSUMEXP));
}

static void add_partition(Partitions *all, AxisSet space, AxisSet inner) {
    size_t i = 0;
    while (i < all->count && (all->items[i].space != space || all->items[i].inner != inner)) i++;
    if (i == SPACES) return;
    if (i == all->count) all->items[all->count++] = (Partition){space, inner, 0};
    all->items[i].users++;
}

static bool along_fastest(const Partition *p) {
    return p->inner > (p->space & ~p->inner); /* the highest bit is the fastest axis */
}

static bool is_better(const Partition *a, const Partition *b) {
    if (along_fastest(a) != along_fastest(b)) return along_fastest(a);
    if (a->users != b->users) return a->users > b->users;
    return a->inner > b->inner;
}

/* The inner axes to split a reduction of the space over these axes along, or 0. */
static AxisSet find_inner(const Partitions *all, AxisSet space, AxisSet over) {
    const Partition *best = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const Partition *p = &all->items[i];
        const bool within = p->space == space && !(p->inner & ~over) && p->inner != over;
        if (within && (!best || is_better(p, best))) best = p;
    }
    return best ? best->inner : 0;
}

const Function *split_reductions(const Function *f, bool floats, ValueId *first) {
    Partitions all = {.count = 0};
    const bool *needed = ir_needed(f);
    *first = 0;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (needed[v] && is_reduction(value))
            add_partition(&all, value->axes | (AxisSet)value->payload, (AxisSet)value->payload);
    }
    if (all.count < 2) return f;
    Function *out = ir_function_like(f);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        const ValueId args[3] = {map[value->arg[0]], map[value->arg[1]], map[value->arg[2]]};
        const AxisSet over = (AxisSet)value->payload;
        AxisSet inner = 0;
        if (!needed[v]) continue;
        if (is_reduction(value) && may_split(value, floats))
            inner = find_inner(&all, value->axes | over, over);
        if (!inner) {
            map[v] = ir_rebuild(out, f, v, args);
            continue;
        }
        const ValueId part = ir_reduce(out, (Op)value->op, args[0], inner);
        ir_set_source(out, part, value->range, NULL);
        map[v] = ir_reduce(out, (Op)value->op, part, over & ~inner);
        ir_set_source(out, map[v], value->range, value->name);
        if (!*first && has_no_order(value) != floats) *first = v;
    }
    ir_copy_stores(out, f, map);
    return *first ? ir_compact(out) : f;
}
