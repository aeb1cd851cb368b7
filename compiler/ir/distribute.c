/* distribute.c: loop distribution of a `for` whose iterations store values that strips do not have.
 *
 * Needs the simplified function of a part that is all of its loop's body and has no strips
 * (strips.c), as some of what it stores lacks the axis: a counter, a sum over all sequences. Gives
 * up to three parts, each in a loop of its own: what is made of itself and the coordinate alone
 * goes ahead, what has the axis follows by strips, and what is made of that, without being read by
 * it, comes last. A value that one loop reads and another changes goes through an array with an
 * element for each iteration (scalar expansion). Such an array is no larger than one that the step
 * has already, or has one element for each iteration. The order of the operations that a value is
 * made of stays the same, and so do its bits. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

enum { AHEAD, STRIPS, BEHIND, GROUPS };

typedef struct Expanded { /* a value that later groups read from memory */
    uint32_t from;
    ValueId value;
    View view;
    Parameter row; /* of the slice */
    bool stored;   /* in an array that the step has, by a store of its own */
} Expanded;

typedef struct Distribution {
    Sequence *s;
    const Part *part;
    const Function *f;
    uint32_t axis, loop_count;
    AxisSet loops;
    uint8_t *group; /* by store */
    uint8_t *owner; /* by parameter: 1 + the group that stores to its array; 0: none does */
    bool *needed[GROUPS];
    Expanded *expanded;
    size_t count, capacity;
} Distribution;

/* ---- groups of stores ---- */

static void find_owners(Distribution *d) {
    const Function *f = d->f;
    memset(d->owner, 0, f->parameter_count);
    for (size_t i = 0; i < f->store_count; i++)
        for (size_t p = 0; p < f->parameter_count; p++)
            if (d->part->views[p].array == d->part->views[f->stores[i].parameter].array)
                d->owner[p] = (uint8_t)(d->group[i] + 1);
}

static const Expanded *find_expanded(const Distribution *d, ValueId v, uint32_t group) {
    for (size_t i = 0; i < d->count; i++)
        if (d->expanded[i].value == v && d->expanded[i].from < group) return &d->expanded[i];
    return NULL;
}

static void mark_operands(const Function *f, bool *needed, ValueId v) {
    for (int i = 0; i < op_info[f->values[v].op].arity; i++) needed[f->values[v].arg[i]] = true;
}

static void mark_store(const Distribution *d, bool *needed, size_t store) {
    needed[d->f->stores[store].value] = needed[d->f->stores[store].guard] = true;
}

/* Whether the store reads an array that a group from `first` on stores to. */
static bool reads(const Distribution *d, size_t store, uint32_t first) {
    const Function *f = d->f;
    bool *needed = arena_alloc(f->arena, f->value_count);
    mark_store(d, needed, store);
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        if (!needed[v]) continue;
        if (f->values[v].op == OP_PARAMETER && d->owner[f->values[v].payload] > first) return true;
        mark_operands(f, needed, v);
    }
    return false;
}

/* Whether the stores form groups: one that another group follows by the axis' strips. */
static bool group_stores(Distribution *d) {
    const Function *f = d->f;
    bool some = false, strips = false;
    for (size_t i = 0; i < f->store_count; i++) {
        const bool has = f->parameters[f->stores[i].parameter].axes >> d->axis & 1;
        d->group[i] = has ? STRIPS : AHEAD;
        some |= !has;
        strips |= has;
    }
    for (bool changed = some; changed;) {
        changed = false;
        find_owners(d);
        for (size_t i = 0; i < f->store_count; i++) {
            if (d->group[i] != AHEAD || !reads(d, i, STRIPS)) continue;
            d->group[i] = BEHIND;
            changed = true;
        }
    }
    for (size_t i = 0; i < f->store_count; i++) /* one array, one group */
        if (d->owner[f->stores[i].parameter] != d->group[i] + 1) return false;
    return some && strips;
}

static bool stores_view(const Function *f, uint64_t parameter) {
    for (size_t i = 0; i < f->store_count; i++)
        if (f->stores[i].parameter == parameter) return true;
    return false;
}

/* Whether each group reads only what those ahead of it store, and that by the same view. */
static bool in_order(const Distribution *d) {
    const Function *f = d->f;
    for (uint32_t group = 0; group < GROUPS; group++)
        for (ValueId v = 1; v < f->value_count; v++) {
            const Value *value = &f->values[v];
            if (!d->needed[group][v] || value->op != OP_PARAMETER) continue;
            const uint32_t owner = d->owner[value->payload];
            if (owner > group + 1) return false;
            if (owner && owner < group + 1 && !stores_view(f, value->payload)) return false;
        }
    return true;
}

/* ---- scalar expansion ---- */

/* Whether the step has an array with these axes: one more does not change how much memory it takes
 * but by a factor. */
static bool in_proportion(const Distribution *d, AxisSet axes) {
    bool found = axes == 0;
    for (size_t i = 0; i < d->s->step->parameter_count; i++)
        found |= (d->s->step->parameters[i].axes & (axes | d->loops)) == (axes | d->loops);
    return found;
}

/* The type of an array that holds the value as it is. */
static Type storage_of(const Value *value) {
    return value->op == OP_ROUND_TO ? (Type)value->payload : (Type)value->type;
}

/* An array that holds the value itself in a slice of its own for each iteration, or -1. */
static int stored_slice(const Distribution *d, ValueId v, uint32_t from) {
    const Function *f = d->f;
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *store = &f->stores[i];
        const Parameter *p = &f->parameters[store->parameter];
        if (store->value == v && !store->guard && d->group[i] == from &&
            storage_of(&f->values[v]) == p->type && p->axes == f->values[v].axes &&
            d->part->views[store->parameter].fixed == d->loops)
            return (int)store->parameter;
    }
    return -1;
}

static bool is_running(const Function *f, ValueId v) {
    bool *needed = arena_alloc(f->arena, f->value_count);
    needed[v] = true;
    for (; v > 0; v--) {
        if (!needed[v]) continue;
        if (f->values[v].op == OP_RUNNING) return true;
        mark_operands(f, needed, v);
    }
    return false;
}

/* The parameter to which the group stores the value as it is, or NULL. */
static const Parameter *stored_to(const Distribution *d, uint32_t group, ValueId v) {
    for (size_t i = 0; i < d->f->store_count; i++)
        if (d->group[i] == group && d->f->stores[i].value == v)
            return &d->f->parameters[d->f->stores[i].parameter];
    return NULL;
}

static bool expand(Distribution *d, uint32_t from, ValueId v) {
    const Function *f = d->f;
    const Value *value = &f->values[v];
    if (find_expanded(d, v, GROUPS)) return true;
    const int slice = stored_slice(d, v, from);
    if (slice < 0 && (!in_proportion(d, value->axes) || !ir_are_plain(f, value->axes) ||
                      ir_list_axis(f, value->axes | d->loops) >= 0 || is_running(f, v)))
        return false;
    Expanded made = {.from = from, .value = v, .stored = slice >= 0};
    if (slice >= 0) {
        made.view = d->part->views[slice];
        made.row = f->parameters[slice];
    } else {
        const Parameter *to = stored_to(d, from, v);
        const char *name = to ? to->name : value->name ? value->name : op_info[value->op].name;
        size_t fresh = 0;
        for (size_t i = 0; i < d->count; i++) fresh += !d->expanded[i].stored;
        made.view =
            (View){(uint32_t)(d->s->step->parameter_count + d->s->carried_count + fresh), d->loops};
        made.row = (Parameter){.name = arena_printf(f->arena, "%s_expanded", name),
                               .type = storage_of(value),
                               .axes = value->axes,
                               .declared = value->axes,
                               .range = value->range};
    }
    d->expanded = arena_grow(f->arena, d->expanded, d->count, &d->capacity, sizeof made);
    d->expanded[d->count++] = made;
    return true;
}

/* Whether the value is made anew of its operand, which takes no more memory. */
static bool passes_on(const Function *f, const Value *value) {
    const Value *operand = &f->values[value->arg[0]];
    if (value->op == OP_CAST) return type_info[operand->type].size <= type_info[value->type].size;
    return value->op == OP_BROADCAST || value->op == OP_LIST;
}

/* By value: whether it is made of what the group stores. */
static bool *made_of(const Distribution *d, uint32_t group) {
    const Function *f = d->f;
    bool *made = arena_alloc(f->arena, f->value_count);
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (value->op == OP_PARAMETER) made[v] = d->owner[value->payload] == group + 1;
        for (int i = 0; i < op_info[value->op].arity; i++) made[v] |= made[value->arg[i]];
    }
    return made;
}

/* Of what the group needs of an earlier one: what that stores, and parameters; or, of the strips,
 * the first values with the axis that those without it are made of. */
static bool expand_for(Distribution *d, uint32_t group, uint32_t from) {
    const Function *f = d->f;
    const bool *made = made_of(d, from);
    bool *needed = d->needed[group];
    memset(needed, 0, f->value_count);
    for (size_t i = 0; i < f->store_count; i++)
        if (d->group[i] == group) mark_store(d, needed, i);
    for (size_t i = 0; i < d->count; i++)
        if (d->expanded[i].from == group) needed[d->expanded[i].value] = true;
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        const Value *value = &f->values[v];
        if (!needed[v] || find_expanded(d, v, group)) continue;
        const bool cut = from == STRIPS ? value->axes >> d->axis & 1
                                        : value->op == OP_PARAMETER || stored_to(d, from, v);
        if (made[v] && cut && !passes_on(f, value)) {
            if (!expand(d, from, v)) return false;
            continue;
        }
        mark_operands(f, needed, v);
    }
    return true;
}

/* ---- the parts ---- */

static void store(Function *g, uint32_t number, ValueId value, ValueId guard, Range range) {
    g->parameters[number].role = guard ? LS_INOUT : LS_OUT;
    for (ValueId v = 1; v < g->value_count; v++)
        if (g->values[v].op == OP_PARAMETER && g->values[v].payload == number)
            g->parameters[number].role = LS_INOUT;
    ir_store(g, number, value, guard, range);
}

static Part make_part(const Distribution *d, uint32_t group) {
    const Function *f = d->f;
    Function *g = ir_function_like(f);
    Part part = {.function = g};
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    g->parameters = NULL;
    g->parameter_count = g->parameter_capacity = 0;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        const ValueId args[3] = {map[value->arg[0]], map[value->arg[1]], map[value->arg[2]]};
        if (!d->needed[group][v]) continue;
        const Expanded *e = find_expanded(d, v, group);
        if (e)
            map[v] = ir_parameter(g, sequence_add_view(&part, e->view, &e->row));
        else if (value->op == OP_PARAMETER)
            map[v] = ir_parameter(g, sequence_add_view(&part, d->part->views[value->payload],
                                                       &f->parameters[value->payload]));
        else
            map[v] = ir_rebuild(g, f, v, args);
        ir_set_source(g, map[v], value->range, value->name);
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *row = &f->stores[i];
        if (d->group[i] == group)
            store(g,
                  sequence_add_view(&part, d->part->views[row->parameter],
                                    &f->parameters[row->parameter]),
                  map[row->value], map[row->guard], row->range);
    }
    for (size_t i = 0; i < d->count; i++) {
        const Expanded *e = &d->expanded[i];
        if (e->from == group && !e->stored)
            store(g, sequence_add_view(&part, e->view, &e->row), map[e->value], 0, e->row.range);
    }
    return part;
}

static bool is_empty(const Distribution *d, uint32_t group) {
    for (size_t i = 0; i < d->f->store_count; i++)
        if (d->group[i] == group) return false;
    return true;
}

static void add_expanded(const Distribution *d) {
    Sequence *s = d->s;
    for (size_t i = 0; i < d->count; i++) {
        Parameter row = d->expanded[i].row;
        if (d->expanded[i].stored) continue;
        row.axes |= d->loops;
        row.declared |= d->loops;
        row.role = LS_INOUT;
        s->carried =
            arena_grow(d->f->arena, s->carried, s->carried_count, &s->carried_capacity, sizeof row);
        s->carried[s->carried_count++] = row;
    }
}

/* Puts the parts in the place of the one. */
static void replace(const Distribution *d, size_t number, const Part made[GROUPS]) {
    Sequence *s = d->s;
    const Part old = s->parts[number];
    const size_t behind = s->part_count - number - 1;
    size_t count = 0;
    add_expanded(d);
    Part *parts = arena_alloc(d->f->arena, (s->part_count + GROUPS) * sizeof *parts);
    memcpy(parts, s->parts, number * sizeof *parts);
    for (uint32_t group = 0; group < GROUPS; group++) {
        if (is_empty(d, group)) continue;
        Part *part = &parts[number + count];
        *part = made[group];
        part->sunk = old.sunk;
        part->empty = old.empty;
        part->loop = count ? sequence_copy_loops(s, old.loop, d->loop_count) : old.loop;
        part->function->iteration = sequence_iteration(s, part, d->loop_count);
        if (group != STRIPS)
            part->distributed =
                arena_printf(d->f->arena, "%s the strips, as it has no axis %s",
                             group == AHEAD ? "ahead of" : "behind", d->f->axes[d->axis].name);
        count++;
    }
    memcpy(parts + number + count, s->parts + number + 1, behind * sizeof *parts);
    s->parts = parts;
    s->part_count = s->part_capacity = number + count + behind;
}

/* The axes of what the group computes. */
static AxisSet visited(const Distribution *d, uint32_t group) {
    AxisSet axes = 0;
    for (ValueId v = 1; v < d->f->value_count; v++)
        if (d->needed[group][v] && d->f->values[v].op != OP_PARAMETER) axes |= d->f->values[v].axes;
    return axes;
}

/* Strips pay where the most of an iteration has them: one that also goes over other axes is better
 * off in one launch. */
static bool pays(const Distribution *d) {
    return ((visited(d, AHEAD) | visited(d, BEHIND)) & ~visited(d, STRIPS)) == 0;
}

static bool try_axis(Distribution *d, Part made[GROUPS]) {
    d->count = 0;
    if (!group_stores(d)) return false;
    if (!expand_for(d, BEHIND, STRIPS) || !expand_for(d, BEHIND, AHEAD) ||
        !expand_for(d, STRIPS, AHEAD) || !expand_for(d, AHEAD, GROUPS))
        return false;
    if (!in_order(d) || !pays(d)) return false;
    made[STRIPS] = make_part(d, STRIPS);
    return strips_axis(made[STRIPS].function) >= 0;
}

bool distribute_loop(Sequence *s, size_t number, const Function *f) {
    const Iteration *iteration = f->iteration;
    if (!iteration || iteration->strip >= 0 || s->parts[number].distributed) return false;
    Distribution d = {.s = s, .part = &s->parts[number], .f = f};
    d.loop_count = iteration->loop_count;
    for (uint32_t l = 0; l < iteration->loop_count; l++)
        d.loops |= (AxisSet)1 << iteration->loops[l].axis;
    d.group = arena_alloc(f->arena, f->store_count + 1);
    d.owner = arena_alloc(f->arena, f->parameter_count + 1);
    for (uint32_t group = 0; group < GROUPS; group++)
        d.needed[group] = arena_alloc(f->arena, f->value_count);
    for (d.axis = 0; d.axis < f->axis_count; d.axis++) {
        Part made[GROUPS];
        if (!ir_are_plain(f, (AxisSet)1 << d.axis) || !try_axis(&d, made)) continue;
        made[AHEAD] = make_part(&d, AHEAD);
        made[BEHIND] = make_part(&d, BEHIND);
        replace(&d, number, made);
        return true;
    }
    return false;
}
