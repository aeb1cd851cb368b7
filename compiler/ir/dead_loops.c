/* dead_loops.c: dead-loop elimination around a part that does something in one iteration alone.
 *
 * Needs a part of a loop that stands in another one, as distribute.c leaves it: of statements that
 * sink.c has moved under the condition that the inner loop is in its first, or last, iteration.
 * Where all that the part stores is under that condition, the inner loop goes: the outer one's
 * iterations do the same once. What other parts read of it in each inner iteration is the same in
 * all of them, and what it reads of theirs it needs of that one alone, so an array that stands
 * between them has one element for the inner loop, not one for each iteration. Where the inner loop
 * is empty nothing is stored, as before. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

typedef struct Search {
    Sequence *s;
    Part *part;
    const Function *f;
    uint32_t axis, place; /* of the inner loop; the axis whose length is the coordinate */
    bool high;            /* the iteration is that of the greatest coordinate, not of 0 */
} Search;

/* ---- the condition ---- */

static bool is_number(const Function *f, ValueId v, int64_t number) {
    const Value *value = &f->values[v];
    return value->op == OP_CONST && value->type == TYPE_I64 && (int64_t)value->payload == number;
}

static bool is_size(const Function *f, ValueId v, uint32_t axis) {
    return f->values[v].op == OP_SIZE && f->values[v].payload == axis;
}

static bool is_end(const Search *d, ValueId v) {
    const Function *f = d->f;
    const Value *value = &f->values[v];
    const int64_t fixed = f->axes[d->axis].fixed;
    if (!d->high) return is_number(f, v, 0);
    if (fixed >= 0) return is_number(f, v, fixed - 1);
    return (value->op == OP_SUB && is_size(f, value->arg[0], d->axis) &&
            is_number(f, value->arg[1], 1)) ||
           (value->op == OP_ADD && is_size(f, value->arg[0], d->axis) &&
            is_number(f, value->arg[1], -1));
}

static bool is_condition(const Search *d, ValueId v) {
    const Value *value = &d->f->values[v];
    return value->op == OP_EQ &&
           ((is_size(d->f, value->arg[0], d->place) && is_end(d, value->arg[1])) ||
            (is_size(d->f, value->arg[1], d->place) && is_end(d, value->arg[0])));
}

static ValueId end_of(const Search *d, Function *g) {
    const ValueId one = ir_constant(g, TYPE_I64, 1);
    return d->high ? ir_op(g, OP_SUB, ir_size(g, d->axis), one, 0) : ir_constant(g, TYPE_I64, 0);
}

/* ---- the function where the condition holds, or does not ---- */

static bool is_constant(const Function *f, ValueId v) {
    return v && f->values[v].op == OP_CONST && f->values[v].type == TYPE_BOOL;
}

/* The value on operands some of which are known now. */
static ValueId rebuild(Function *g, const Function *f, ValueId v, const ValueId args[3]) {
    const Value *value = &f->values[v];
    const bool first = is_constant(g, args[0]), second = is_constant(g, args[1]);
    const bool known = first ? g->values[args[0]].payload : second && g->values[args[1]].payload;
    const ValueId rest = first ? args[1] : args[0];
    if (value->op == OP_SELECT && first) return ir_broadcast(g, args[known ? 1 : 2], value->axes);
    if (value->op == OP_NOT && first) return ir_constant(g, TYPE_BOOL, !known);
    if ((value->op == OP_AND || value->op == OP_OR) && (first || second))
        return known == (value->op == OP_AND) ? ir_broadcast(g, rest, value->axes)
                                              : ir_constant(g, TYPE_BOOL, known);
    return ir_rebuild(g, f, v, args);
}

static Function *assume(const Search *d, bool holds, ValueId *map) {
    const Function *f = d->f;
    Function *g = ir_function_like(f);
    const ValueId end = end_of(d, g);
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        const ValueId args[3] = {map[value->arg[0]], map[value->arg[1]], map[value->arg[2]]};
        if (is_condition(d, v))
            map[v] = ir_constant(g, TYPE_BOOL, holds);
        else
            map[v] = holds && is_size(f, v, d->place) ? end : rebuild(g, f, v, args);
    }
    return g;
}

static ValueId bare(const Function *f, ValueId v) {
    while (f->values[v].op == OP_BROADCAST) v = f->values[v].arg[0];
    return v;
}

/* ---- whether the other iterations do nothing ---- */

static bool in_inner_loop(const Search *d, const View *view) {
    return view->fixed >> d->axis & 1;
}

/* Whether the store to such an array has, in the other iterations, the value of the one. */
static bool is_same(const Search *d, size_t store, Function *here, const ValueId *map,
                    const Function *there, const ValueId *elsewhere) {
    const Function *f = d->f;
    /* the others are behind the one: what it stores is what they find */
    if (d->high != d->s->loops[d->part->loop - 1].reverse) return false;
    ValueId *after = arena_alloc(f->arena, there->value_count * sizeof *after);
    for (ValueId v = 1; v < there->value_count; v++) {
        const Value *value = &there->values[v];
        const ValueId args[3] = {after[value->arg[0]], after[value->arg[1]], after[value->arg[2]]};
        bool good = !is_size(there, v, d->place);
        for (int i = 0; i < op_info[value->op].arity; i++) good &= !value->arg[i] || args[i];
        if (value->op == OP_PARAMETER) good &= !in_inner_loop(d, &d->part->views[value->payload]);
        if (!good) continue;
        after[v] = value->op == OP_RUNNING ? 0 : ir_rebuild(here, there, v, args);
        for (size_t i = 0; value->op == OP_PARAMETER && i < f->store_count; i++) {
            const Store *row = &f->stores[i];
            if (row->parameter != value->payload) continue;
            after[v] = ir_broadcast(here, map[row->value], f->parameters[row->parameter].axes);
        }
    }
    const ValueId then = after[elsewhere[f->stores[store].value]];
    return then && bare(here, then) == bare(here, map[f->stores[store].value]);
}

/* Whether nothing changes where the condition does not hold. */
static bool is_dead(const Search *d, Function *here, const ValueId *map) {
    const Function *f = d->f;
    ValueId *elsewhere = arena_alloc(f->arena, f->value_count * sizeof *elsewhere);
    const Function *there = assume(d, false, elsewhere);
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *row = &f->stores[i];
        const Value *old = &there->values[bare(there, elsewhere[row->value])];
        if (in_inner_loop(d, &d->part->views[row->parameter])) {
            if (!is_same(d, i, here, map, there, elsewhere)) return false;
        } else if (old->op != OP_PARAMETER || old->payload != row->parameter) {
            return false;
        }
    }
    return true;
}

/* ---- the arrays ---- */

static bool stores_to(const Part *part, uint32_t array) {
    for (size_t i = 0; i < part->function->store_count; i++)
        if (part->views[part->function->stores[i].parameter].array == array) return true;
    return false;
}

/* Whether the array, of which parts have slices in the inner loop, may have one for all of its
 * iterations: one that stands between parts, which this one stores to, or alone reads. */
static bool may_shrink(const Search *d, uint32_t array) {
    const Sequence *s = d->s;
    const bool own = stores_to(d->part, array);
    if (array < s->step->parameter_count) return false;
    for (size_t i = 0; i < s->part_count; i++) {
        const Part *part = &s->parts[i];
        for (size_t p = 0; p < part->function->parameter_count; p++) {
            if (part->views[p].array != array) continue;
            if (!in_inner_loop(d, &part->views[p])) return false;
            if (part->function->iteration && part->function->iteration->strip >= 0) return false;
            if (!own && part != d->part && !stores_to(part, array)) return false;
        }
    }
    return true;
}

/* The condition, in a part that is in the inner loop. */
static ValueId condition_in(const Search *d, Function *f) {
    return ir_op(f, OP_EQ, ir_size(f, d->place), end_of(d, f), 0);
}

/* The value where the condition holds, else what the parameter has. */
static ValueId keep_unless(Function *f, uint32_t parameter, ValueId condition, ValueId value) {
    value = ir_broadcast(f, value, f->parameters[parameter].axes);
    return ir_op(f, OP_SELECT, condition, value, ir_parameter(f, parameter));
}

static void shrink(const Search *d, uint32_t array) {
    Sequence *s = d->s;
    const AxisSet axis = (AxisSet)1 << d->axis;
    const bool own = stores_to(d->part, array);
    Parameter *row = &s->carried[array - s->step->parameter_count];
    row->axes &= ~axis;
    row->declared &= ~axis;
    for (size_t i = 0; i < s->part_count; i++) {
        Part *part = &s->parts[i];
        Function *f = part->function;
        bool found = false;
        for (size_t p = 0; p < f->parameter_count; p++) {
            if (part->views[p].array != array) continue;
            part->views[p].fixed &= ~axis;
            found = true;
        }
        for (size_t k = 0; !own && k < f->store_count; k++) {
            Store *store = &f->stores[k];
            if (part->views[store->parameter].array != array) continue;
            store->value = keep_unless(f, store->parameter, condition_in(d, f), store->value);
            f->parameters[store->parameter].role = LS_INOUT;
        }
        if (found && f->iteration)
            f->iteration = sequence_iteration(s, part, f->iteration->loop_count);
    }
}

/* ---- the part ---- */

static void store_in(Function *f, uint32_t number, ValueId value, Range range) {
    f->parameters[number].role = LS_OUT;
    for (ValueId v = 1; v < f->value_count; v++)
        if (f->values[v].op == OP_PARAMETER && f->values[v].payload == number)
            f->parameters[number].role = LS_INOUT;
    ir_store(f, number, value, 0, range);
}

/* What the view has in the one iteration: of an array that keeps its elements for each of them by
 * the coordinate, if this part does not store to it. */
static ValueId read_view(const Search *d, Part *made, const Function *here, uint32_t parameter) {
    Function *g = made->function;
    View view = d->part->views[parameter];
    Parameter row = here->parameters[parameter];
    if (!in_inner_loop(d, &view) || may_shrink(d, view.array) || stores_to(d->part, view.array))
        return ir_parameter(g, sequence_add_view(made, view, &row));
    view.fixed &= ~((AxisSet)1 << d->axis);
    row.axes |= (AxisSet)1 << d->axis;
    row.declared |= (AxisSet)1 << d->axis;
    const ValueId all = ir_parameter(g, sequence_add_view(made, view, &row));
    return ir_gather(g, all, ir_list(g, end_of(d, g), 0, d->axis));
}

/* With the views that the function needs, under the condition that the inner loop is not empty. */
static Part make_part(const Search *d, const Function *here) {
    Part made = *d->part;
    const Part *old = d->part;
    Function *g = made.function = ir_function_like(here);
    const bool *needed = ir_needed(here);
    ValueId *map = arena_alloc(here->arena, here->value_count * sizeof *map), any = 0;
    g->parameters = NULL;
    g->parameter_count = g->parameter_capacity = 0;
    made.views = NULL;
    made.view_capacity = 0;
    for (ValueId v = 1; v < here->value_count; v++) {
        const Value *value = &here->values[v];
        const ValueId args[3] = {map[value->arg[0]], map[value->arg[1]], map[value->arg[2]]};
        if (!needed[v]) continue;
        if (value->op == OP_PARAMETER)
            map[v] = read_view(d, &made, here, (uint32_t)value->payload);
        else
            map[v] = ir_rebuild(g, here, v, args);
        ir_set_source(g, map[v], value->range, value->name);
    }
    if (d->f->axes[d->axis].fixed < 1)
        any = ir_op(g, OP_LT, ir_constant(g, TYPE_I64, 0), ir_size(g, d->axis), 0);
    for (size_t i = 0; i < here->store_count; i++) {
        const Store *row = &here->stores[i];
        const uint32_t number =
            sequence_add_view(&made, old->views[row->parameter], &here->parameters[row->parameter]);
        const bool inner = in_inner_loop(d, &old->views[row->parameter]);
        const ValueId value = map[row->value];
        store_in(g, number, any && !inner ? keep_unless(g, number, any, value) : value, row->range);
    }
    return made;
}

static bool drop(Search *d, uint32_t loops) {
    const Function *f = d->f;
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    Function *here = assume(d, true, map);
    if (!is_dead(d, here, map)) return false;
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *row = &f->stores[i];
        ir_store(here, row->parameter, map[row->value], 0, row->range);
    }
    Part made = make_part(d, here);
    for (size_t p = 0; p < made.function->parameter_count; p++)
        if (in_inner_loop(d, &made.views[p]) && !may_shrink(d, made.views[p].array)) return false;
    for (size_t p = 0; p < made.function->parameter_count; p++)
        if (in_inner_loop(d, &made.views[p])) {
            shrink(d, made.views[p].array);
            made.views[p].fixed &= ~((AxisSet)1 << d->axis);
        }
    made.loop = d->s->loops[made.loop - 1].outer;
    made.sunk = loops > 2 && made.sunk;
    made.function->iteration = sequence_iteration(d->s, &made, loops - 1);
    *d->part = made;
    return true;
}

bool drop_dead_loop(Sequence *s, size_t number) {
    Part *part = &s->parts[number];
    const Iteration *iteration = part->function->iteration;
    if (!iteration || iteration->loop_count < 2) return false;
    for (size_t i = 0; i < part->function->store_count; i++)
        if (part->function->stores[i].guard) return false; /* conditions are within the values */
    const Loop *loop = &s->loops[part->loop - 1];
    Search d = {.s = s,
                .part = part,
                .f = part->function,
                .axis = loop->axis,
                .place = s->place[loop->axis]};
    for (int high = 0; high < 2; high++) {
        d.high = high;
        if (drop(&d, iteration->loop_count)) return true;
    }
    return false;
}
