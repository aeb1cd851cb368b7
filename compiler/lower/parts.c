/* parts.c: the parts of a step with `for`.
 *
 * A part is a function of its own, whose parameters are views of arrays: of those of the step, or
 * of its slices at the place. It reads from memory what earlier parts assigned, and stores at its
 * end what it assigned itself. What else a part needs of an earlier one, a `let` or the condition
 * of a `when`, that one stores to an array between them. Other places of an array are read from a
 * view of all of it, which never reads the slice at the place: so no part reads through one view
 * what it stores through another. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "lower/lower.h"

/* ---- arrays and views ---- */

static const Parameter *array_row(const Lowering *l, uint32_t array) {
    const Function *step = l->sequence->step;
    return array < step->parameter_count ? &step->parameters[array]
                                         : &l->sequence->carried[array - step->parameter_count];
}

static uint32_t add_array(Lowering *l, Parameter row) {
    Sequence *s = l->sequence;
    row.role = LS_INOUT;
    row.has_default = false;
    s->carried =
        arena_grow(l->arena, s->carried, s->carried_count, &s->carried_capacity, sizeof row);
    s->carried[s->carried_count++] = row;
    return (uint32_t)(s->step->parameter_count + s->carried_count - 1);
}

/* The axes of the array of which a part with these places has a slice: of a list none, as its
 * tensors have no strides. */
static AxisSet slice_axes(const Lowering *l, uint32_t array, AxisSet places) {
    AxisSet axes = array_row(l, array)->axes;
    return ir_list_axis(l->sequence->step, axes) < 0 ? axes & places : 0;
}

static AxisSet places_of(const Sequence *s, const Part *part) {
    AxisSet places = 0;
    for (uint32_t loop = part->loop; loop; loop = s->loops[loop - 1].outer)
        places |= (AxisSet)1 << s->loops[loop - 1].axis;
    return places;
}

/* The number of the part's parameter for the array, or its slice; a new one if need be. */
static uint32_t view_of(Lowering *l, uint32_t number, uint32_t array, AxisSet fixed) {
    Part *part = &l->sequence->parts[number];
    Parameter row = *array_row(l, array);
    row.axes &= ~fixed;
    row.declared &= ~fixed;
    if (!fixed && slice_axes(l, array, places_of(l->sequence, part)))
        row.name = arena_printf(l->arena, "%s_whole", row.name);
    return sequence_add_view(part, (View){array, fixed}, &row);
}

static void store_array(Lowering *l, uint32_t part, uint32_t array, ValueId value, Range range) {
    Function *f = l->sequence->parts[part].function;
    AxisSet fixed = slice_axes(l, array, places_of(l->sequence, &l->sequence->parts[part]));
    uint32_t number = view_of(l, part, array, fixed);
    bool read = false;
    for (ValueId v = 1; v < f->value_count; v++)
        read |= f->values[v].op == OP_PARAMETER && f->values[v].payload == number;
    f->parameters[number].role = read ? LS_INOUT : LS_OUT;
    ir_store(f, number, value, 0, range);
}

/* The array that a parameter is; parts hand on a local in one that is made when it is needed. */
static uint32_t array_of(Lowering *l, uint32_t parameter) {
    if (parameter < l->sequence->step->parameter_count) return parameter;
    if (l->locals[parameter]) return l->locals[parameter] - 1;
    uint32_t array = add_array(l, l->step->parameters[parameter]);
    l->locals[parameter] = array + 1;
    for (uint32_t part = 0; part < l->part; part++)
        if (l->last_of[part][parameter].order)
            store_array(l, part, array, l->current_of[part][parameter],
                        l->last_of[part][parameter].range);
    return array;
}

/* ---- places ---- */

ValueId part_place(Lowering *l, uint32_t axis) {
    return ir_size(l->f, l->sequence->place[axis]);
}

/* The list that leads to the place along `axes`. */
static ValueId place_list(Lowering *l, AxisSet axes) {
    ValueId list = 0;
    for (uint32_t a = LS_AXES_MAX; a-- > 0;)
        if (axes >> a & 1) list = ir_list(l->f, part_place(l, a), list, a);
    return list;
}

static ValueId times_size(Function *f, ValueId value, uint32_t axis) {
    const Axis *row = &f->axes[axis];
    if (row->whole >= 0 && f->axes[row->whole].rest == (int)axis) return value; /* with q */
    uint32_t counted = row->whole >= 0 ? (uint32_t)row->whole : axis;
    return ir_op(f, OP_MUL, value, ir_size(f, counted), 0);
}

ValueId part_position(Lowering *l, AxisSet axes) {
    Function *f = l->f;
    AxisSet together = 0; /* axes without a place that follow each other */
    ValueId sum = 0;
    if ((axes & l->places) == 0) return ir_position(f, axes);
    for (uint32_t a = 0; a <= f->axis_count; a++) {
        const bool end = a == f->axis_count, placed = !end && (axes & l->places) >> a & 1;
        if (!end && !placed) together |= axes & (AxisSet)1 << a;
        if (!end && !placed) continue;
        for (uint32_t b = 0; sum && b < f->axis_count; b++)
            if (together >> b & 1) sum = times_size(f, sum, b);
        if (together) {
            ValueId place = ir_position(f, together);
            sum = sum ? ir_op(f, OP_ADD, sum, place, 0) : place;
        }
        together = 0;
        if (!placed) continue;
        sum = sum ? ir_op(f, OP_ADD, times_size(f, sum, a), part_place(l, a), 0) : part_place(l, a);
    }
    return sum;
}

/* ---- parameters ---- */

bool part_has_state(const Lowering *l, uint32_t number) {
    const Function *step = l->sequence ? l->sequence->step : l->f;
    bool is_array = number < step->parameter_count;
    if (l->sequence && (l->held[number] || (is_array && l->branch))) return true;
    return is_array && step->parameters[number].role != LS_OUT;
}

ValueId part_state(Lowering *l, uint32_t number) {
    if (!l->sequence) return ir_parameter(l->f, number);
    uint32_t array = array_of(l, number);
    return ir_parameter(l->f, view_of(l, l->part, array, slice_axes(l, array, l->places)));
}

/* The axes with a place of what has no slices. */
static AxisSet unsliced(const Lowering *l, uint32_t number) {
    if (!l->sequence) return 0;
    AxisSet axes = l->step->parameters[number].axes;
    return ir_list_axis(l->sequence->step, axes) < 0 ? 0 : axes & l->places;
}

ValueId part_slice(Lowering *l, uint32_t number, ValueId all) {
    AxisSet axes = unsliced(l, number);
    if (axes == 0) return all;
    return ir_gather(l->f, ir_broadcast(l->f, all, l->step->parameters[number].axes),
                     place_list(l, axes));
}

ValueId part_with_slice(Lowering *l, uint32_t number, ValueId all, ValueId value) {
    AxisSet axes = unsliced(l, number);
    ValueId here = 0;
    if (axes == 0) return value;
    if (all == 0) all = part_state(l, number);
    for (uint32_t a = 0; a < LS_AXES_MAX; a++) {
        if (!(axes >> a & 1)) continue;
        ValueId same = ir_op(l->f, OP_EQ, ir_index(l->f, a), part_place(l, a), 0);
        here = here ? ir_op(l->f, OP_AND, here, same, 0) : same;
    }
    return ir_op(l->f, OP_SELECT, here, value, all);
}

/* ---- what one part computes and another reads ---- */

/* The array that holds it from its part on. */
static uint32_t carried_array(Lowering *l, Home home, const char *name, Range range) {
    for (size_t i = 0; i < l->carried_count; i++)
        if (l->carried[i].home.part == home.part && l->carried[i].home.value == home.value)
            return l->carried[i].array;
    const Part *part = &l->sequence->parts[home.part - 1];
    const Value *value = &part->function->values[home.value];
    uint32_t array = value->op == OP_PARAMETER ? part->views[value->payload].array : 0;
    const bool is_array = value->op == OP_PARAMETER && array_row(l, array)->role == LS_IN;
    if (!is_array) {
        AxisSet axes = ir_closure(part->function, value->axes), declared = axes;
        for (uint32_t n = 0; n < part->function->axis_count; n++) { /* n for its q and k */
            AxisSet blocks = ir_expand(part->function, (AxisSet)1 << n);
            if (part->function->axes[n].block >= 0 && (axes & blocks) == blocks)
                declared = (declared & ~blocks) | (AxisSet)1 << n;
        }
        array = add_array(l, (Parameter){.name = name,
                                         .type = (Type)value->type,
                                         .axes = axes,
                                         .declared = declared,
                                         .range = range});
        store_array(l, home.part - 1, array, home.value, range);
    }
    l->carried = arena_grow(l->arena, l->carried, l->carried_count, &l->carried_capacity,
                            sizeof *l->carried);
    l->carried[l->carried_count++] = (Carried){home, array};
    return array;
}

ValueId part_carry(Lowering *l, Home home, const char *name, Range range, bool whole) {
    const Function *from = l->sequence->parts[home.part - 1].function;
    while (from->values[home.value].op == OP_BROADCAST)
        home.value = from->values[home.value].arg[0];
    const Value *value = &from->values[home.value];
    if (value->op == OP_CONST) return ir_constant(l->f, (Type)value->type, value->payload);
    uint32_t array = carried_array(l, home, name, range);
    AxisSet places = array_row(l, array)->axes & l->places, fixed = slice_axes(l, array, l->places);
    ValueId read = ir_parameter(l->f, view_of(l, l->part, array, whole ? 0 : fixed));
    return whole || fixed == places ? read : ir_gather(l->f, read, place_list(l, places));
}

/* The value of a list's entry for an axis; 0: there is none. */
static ValueId entry_of(const Function *f, ValueId list, uint32_t axis) {
    for (; list; list = f->values[list].arg[1])
        if (f->values[list].payload == axis) return f->values[list].arg[0];
    return 0;
}

/* The list with these axes left out, or with another entry for one of them. */
static ValueId change_list(Lowering *l, ValueId list, AxisSet without, uint32_t axis,
                           ValueId entry) {
    if (list == 0) return 0;
    const Value row = l->f->values[list];
    ValueId rest = change_list(l, row.arg[1], without, axis, entry);
    if (without >> row.payload & 1) return rest;
    return ir_list(l->f, row.payload == axis ? entry : row.arg[0], rest, row.payload);
}

/* The slice at the place is read from what this part knows of it, and never from memory, where a
 * statement of this part may store it; so a gradient by it counts what brackets read of it, too. */
ValueId part_gather(Lowering *l, const Typed *source, ValueId list, bool elsewhere) {
    Function *f = l->f;
    if (source->kind == TYPED_LET) {
        const Let *let = source->let;
        ValueId all = part_carry(l, l->homes[let->number], let->name->text, let->range, true);
        return ir_gather(f, ir_broadcast(f, all, source->axes), list);
    }
    uint32_t number = (uint32_t)source->payload;
    if (!l->current[number]) l->current[number] = part_state(l, number);
    if (unsliced(l, number))
        return ir_gather(f, ir_broadcast(f, l->current[number], source->axes), list);
    uint32_t array = array_of(l, number);
    ValueId all = ir_parameter(f, view_of(l, l->part, array, 0));
    if (elsewhere) return ir_gather(f, all, list);
    AxisSet placed = source->axes & l->places;
    ValueId same = 0;
    for (uint32_t a = 0; a < LS_AXES_MAX; a++) {
        if (!(placed >> a & 1)) continue;
        ValueId equal = ir_op(f, OP_EQ, entry_of(f, list, a), part_place(l, a), 0);
        same = same ? ir_op(f, OP_AND, same, equal, 0) : equal;
    }
    ValueId own = ir_broadcast(f, l->current[number], source->axes & ~placed);
    ValueId rest = change_list(l, list, placed, LS_AXES_MAX, 0);
    if (rest) own = ir_gather(f, own, rest);
    uint32_t first = (uint32_t)__builtin_ctz(placed);
    ValueId nowhere = ir_constant(f, TYPE_I64, UINT64_MAX); /* -1 */
    ValueId moved = ir_op(f, OP_SELECT, same, nowhere, entry_of(f, list, first));
    ValueId other = ir_gather(f, all, change_list(l, list, 0, first, moved));
    return ir_op(f, OP_SELECT, same, own, other);
}

/* ---- parts ---- */

/* In the order of the last assignments. */
static void close_part(Lowering *l) {
    for (size_t order = 0;;) {
        uint32_t next = UINT32_MAX;
        for (uint32_t p = 0; p < l->parameter_count; p++)
            if (l->last[p].order > order &&
                (next == UINT32_MAX || l->last[p].order < l->last[next].order))
                next = p;
        if (next == UINT32_MAX) break;
        order = l->last[next].order;
        l->held[next] = true;
        if (next < l->sequence->step->parameter_count || l->locals[next])
            store_array(l, l->part, array_of(l, next), l->current[next], l->last[next].range);
    }
    l->current_of[l->part] = l->current;
    l->last_of[l->part] = l->last;
}

/* What the `when`s around this let through. */
ValueId part_mask(Lowering *l) {
    ValueId mask = 0;
    for (const Branch *b = l->branch; b; b = b->outer) {
        ValueId holds = b->home.part == l->part + 1
                            ? b->home.value
                            : part_carry(l, b->home, "condition", b->range, false);
        if (b->negated) holds = ir_op(l->f, OP_NOT, holds, 0, 0);
        mask = mask ? ir_op(l->f, OP_AND, mask, holds, 0) : holds;
    }
    return mask;
}

void part_open(Lowering *l) {
    Sequence *s = l->sequence;
    if (s->part_count) close_part(l);
    size_t capacity = l->part_capacity;
    l->current_of =
        arena_grow(l->arena, l->current_of, s->part_count, &capacity, sizeof *l->current_of);
    capacity = l->part_capacity;
    l->last_of = arena_grow(l->arena, l->last_of, s->part_count, &capacity, sizeof *l->last_of);
    l->part_capacity = capacity;
    s->parts = arena_grow(l->arena, s->parts, s->part_count, &s->part_capacity, sizeof *s->parts);
    l->part = (uint32_t)s->part_count++;
    l->f = ir_function_like(s->step);
    l->f->axis_count = s->axis_count;
    l->f->parameters = NULL;
    l->f->parameter_count = l->f->parameter_capacity = 0;
    s->parts[l->part] = (Part){.function = l->f, .loop = l->loop};
    l->places = places_of(s, &s->parts[l->part]);
    l->current = arena_alloc(l->arena, (l->parameter_count + 1) * sizeof *l->current);
    l->last = arena_alloc(l->arena, (l->parameter_count + 1) * sizeof *l->last);
    l->assignments = 0;
    l->frame->values = arena_alloc(l->arena, l->step->body.typed_count * sizeof(ValueId));
    l->frame->lets = arena_alloc(l->arena, l->step->body.let_count * sizeof(ValueId));
    l->buckets = NULL;
    l->inlined_count = l->bucket_count = 0;
    l->mask = part_mask(l);
}

Sequence *sequence_open(Lowering *l, Function *step) {
    Sequence *s = arena_alloc(l->arena, sizeof *s);
    size_t count = step->axis_count, needed = count;
    for (uint32_t a = 0; a < count; a++) needed += l->step->looped >> a & 1;
    if (needed > LS_AXES_MAX) {
        diagnose(l->compiler, ERROR_TOO_MANY, step->range,
                 "axes, counted with those that a `for` goes over", needed, LS_AXES_MAX);
        return NULL;
    }
    Axis *axes = arena_alloc(l->arena, (needed + 1) * sizeof *axes);
    if (count) memcpy(axes, step->axes, count * sizeof *axes);
    for (uint32_t a = 0; a < step->axis_count; a++) {
        if (!(l->step->looped >> a & 1)) continue;
        const char *name = arena_printf(l->arena, "%s_place", axes[a].name);
        for (size_t b = 0; b < count; b++)
            if (strcmp(axes[b].name, name) == 0) {
                name = arena_printf(l->arena, "%s_", name);
                b = (size_t)-1;
            }
        s->place[a] = (uint32_t)count;
        axes[count++] = ir_axis(name, -1, axes[a].range);
    }
    step->axes = axes;
    s->step = step;
    s->axis_count = count;
    l->held = arena_alloc(l->arena, (l->parameter_count + 1) * sizeof *l->held);
    l->locals = arena_alloc(l->arena, (l->parameter_count + 1) * sizeof *l->locals);
    l->homes = arena_alloc(l->arena, (l->step->body.let_count + 1) * sizeof *l->homes);
    return s;
}

void sequence_close(Lowering *l) {
    Sequence *s = l->sequence;
    size_t count = 0;
    close_part(l);
    for (size_t i = 0; i < s->part_count; i++)
        if (s->parts[i].function->store_count) s->parts[count++] = s->parts[i];
    s->part_count = count;
    for (size_t i = 0; i < count; i++) {
        const uint32_t loops = sequence_loops(s, i);
        Part *part = &s->parts[i];
        if (loops) part->function->iteration = sequence_iteration(s, part, loops);
    }
}

/* ---- gradients ---- */

/* The arrays that a value is made of by floats. */
static void find_arrays(const Lowering *l, uint32_t part, ValueId v, bool *seen, bool *arrays) {
    const Part *p = &l->sequence->parts[part];
    const Value *value = &p->function->values[v];
    if (v == 0 || seen[v] || value->op == OP_STOP_GRADIENT) return;
    seen[v] = true;
    if (type_info[value->type].class != 'F') return;
    if (value->op == OP_PARAMETER) arrays[p->views[value->payload].array] = true;
    for (int i = 0; i < op_info[value->op].arity; i++)
        find_arrays(l, part, value->arg[i], seen, arrays);
}

/* Adds what earlier parts made these arrays of. */
static void add_origins(Lowering *l, bool *arrays) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t part = 0; part < l->part; part++) {
            const Part *p = &l->sequence->parts[part];
            const Function *f = p->function;
            for (size_t i = 0; i < f->store_count; i++) {
                size_t count = l->sequence->step->parameter_count + l->sequence->carried_count;
                if (!arrays[p->views[f->stores[i].parameter].array]) continue;
                bool *found = arena_alloc(l->arena, count * sizeof *found);
                bool *seen = arena_alloc(l->arena, f->value_count * sizeof *seen);
                find_arrays(l, part, f->stores[i].value, seen, found);
                for (size_t a = 0; a < count; a++) {
                    changed |= found[a] && !arrays[a];
                    arrays[a] |= found[a];
                }
            }
        }
    }
}

void part_check_gradient(Lowering *l, ValueId value, ValueId target, Range range) {
    const Value *values = l->f->values;
    while (values[target].op == OP_MARK || values[target].op == OP_BROADCAST)
        target = values[target].arg[0];
    if (!l->sequence || l->part == 0 || values[target].op != OP_PARAMETER) return;
    const View *views = l->sequence->parts[l->part].views;
    const uint32_t by = views[values[target].payload].array;
    size_t count = l->sequence->step->parameter_count + l->sequence->carried_count;
    bool *direct = arena_alloc(l->arena, count * sizeof *direct);
    find_arrays(l, l->part, value, arena_alloc(l->arena, l->f->value_count), direct);
    for (uint32_t a = 0; a < count; a++) {
        bool *arrays = arena_alloc(l->arena, count * sizeof *arrays);
        if (!direct[a] || a == by) continue;
        arrays[a] = true;
        add_origins(l, arrays);
        if (!arrays[by]) continue;
        if (diagnose(l->compiler, ERROR_GRAD_LOOP, range, array_row(l, a)->name,
                     array_row(l, by)->name))
            diagnose_help(l->compiler, "`stop_gradient(%s)` is left out of the derivative",
                          array_row(l, a)->name);
        return;
    }
}
