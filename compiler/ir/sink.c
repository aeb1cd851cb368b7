/* sink.c: statement sinking: a loop around another one, with statements between them, becomes a
 * perfect nest.
 *
 * Needs parts that are derived and simplified: those that stand in a loop, of which one is in a
 * loop further in. Gives one part in their place. What stood ahead of the inner loop is computed in
 * its first iteration, what stood behind it in its last one, each under that condition. Where the
 * inner loop may be empty a second part does what stood around it, in a loop that runs only then.
 * An array that one of the parts stores to is read by the others through the same view, or at other
 * coordinates of the outer loop. Of three loops in each other the innermost two become one nest;
 * all three where the source gives the innermost one a length. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

typedef struct Known { /* what an array's view holds: the value where the guard holds, or is 0 */
    ValueId value, guard;
} Known;

typedef struct Sinking {
    Sequence *s;
    size_t first, count, inner; /* the parts; the one in the inner loop */
    uint32_t loop;              /* 1 + the outer loop */
    AxisSet axes;               /* of the inner loops */
    Part made;
    Known *known; /* by parameter of `made` */
    size_t known_capacity;
} Sinking;

/* ---- which parts ---- */

static bool stands_in(const Sequence *s, uint32_t loop, uint32_t around) {
    while (loop && loop != around) loop = s->loops[loop - 1].outer;
    return loop == around;
}

static bool find_parts(Sinking *k) {
    const Sequence *s = k->s;
    bool found = false;
    k->count = 0;
    for (size_t i = 0; i < s->part_count; i++) {
        if (!stands_in(s, s->parts[i].loop, k->loop)) continue;
        if (s->parts[i].empty) return false;
        if (!k->count++) k->first = i;
        if (s->parts[i].loop == k->loop) continue;
        if (found) return false;
        found = true;
        k->inner = i;
    }
    if (!found || k->count < 2) return false;
    for (uint32_t l = s->parts[k->inner].loop; l != k->loop; l = s->loops[l - 1].outer)
        k->axes |= (AxisSet)1 << s->loops[l - 1].axis;
    return true;
}

/* Whether one part's view of what another stores through a view shows nothing that this one stores
 * in the same iteration of the outer loop. */
static bool apart(const Sinking *k, size_t part, const View *view, const View *stored) {
    const AxisSet outer = (AxisSet)1 << k->s->loops[k->loop - 1].axis;
    return part != k->inner && view->fixed == 0 && (stored->fixed & outer);
}

static bool agrees(const Sinking *k, size_t a, uint32_t stored, size_t b) {
    const Part *from = &k->s->parts[a], *to = &k->s->parts[b];
    for (size_t p = 0; p < to->function->parameter_count; p++) {
        const View *view = &to->views[p], *own = &from->views[stored];
        if (view->array == own->array && view->fixed != own->fixed && !apart(k, b, view, own))
            return false;
    }
    return true;
}

static bool views_agree(const Sinking *k) {
    for (size_t a = k->first; a < k->first + k->count; a++) {
        const Function *f = k->s->parts[a].function;
        for (size_t i = 0; i < f->store_count; i++)
            for (size_t b = k->first; b < k->first + k->count; b++)
                if (a != b && !agrees(k, a, f->stores[i].parameter, b)) return false;
    }
    return true;
}

/* ---- the part ---- */

static uint32_t add_view(Sinking *k, View view, const Parameter *row) {
    const Function *f = k->made.function;
    const size_t before = f->parameter_count;
    const uint32_t number = sequence_add_view(&k->made, view, row);
    if (number < before) return number;
    k->known = arena_grow(f->arena, k->known, before, &k->known_capacity, sizeof *k->known);
    k->known[before] = (Known){0, 0};
    return number;
}

static ValueId both(Function *f, ValueId a, ValueId b) {
    return a && b ? ir_op(f, OP_AND, a, b, 0) : a ? a : b;
}

static ValueId read(Sinking *k, uint32_t number) {
    Function *f = k->made.function;
    const Known *known = &k->known[number];
    if (known->value && !known->guard) return known->value;
    const ValueId old = ir_parameter(f, number);
    return known->value ? ir_op(f, OP_SELECT, known->guard, known->value, old) : old;
}

static void assign(Sinking *k, uint32_t number, ValueId value, ValueId guard) {
    Function *f = k->made.function;
    Known *known = &k->known[number];
    value = ir_broadcast(f, value, f->parameters[number].axes);
    if (known->value && guard) {
        value = ir_op(f, OP_SELECT, guard, value, known->value);
        guard = known->guard ? ir_op(f, OP_OR, guard, known->guard, 0) : 0;
    }
    *known = (Known){value, guard};
}

/* Adds what the part does where the condition holds (0: always). */
static void add_part(Sinking *k, const Part *part, ValueId condition) {
    const Function *from = part->function;
    Function *f = k->made.function;
    ValueId *map = arena_alloc(f->arena, from->value_count * sizeof *map);
    uint32_t *number = arena_alloc(f->arena, (from->parameter_count + 1) * sizeof *number);
    for (size_t p = 0; p < from->parameter_count; p++)
        number[p] = add_view(k, part->views[p], &from->parameters[p]);
    for (ValueId v = 1; v < from->value_count; v++) {
        const Value *value = &from->values[v];
        const ValueId args[3] = {map[value->arg[0]], map[value->arg[1]], map[value->arg[2]]};
        if (value->op == OP_PARAMETER)
            map[v] = read(k, number[value->payload]);
        else if (value->op == OP_RUNNING) /* each part numbers its own from 1 */
            map[v] = ir_running(f, (Type)value->type, value->axes);
        else
            map[v] = ir_rebuild(f, from, v, args);
        if (value->op != OP_PARAMETER) ir_set_source(f, map[v], value->range, value->name);
    }
    for (size_t i = 0; i < from->store_count; i++) {
        const Store *store = &from->stores[i];
        assign(k, number[store->parameter], map[store->value],
               both(f, condition, map[store->guard]));
    }
}

/* Whether the iteration is the first, or the last, of the inner loops. */
static ValueId at_end(const Sinking *k, bool last) {
    const Sequence *s = k->s;
    Function *f = k->made.function;
    ValueId all = 0;
    for (uint32_t l = s->parts[k->inner].loop; l != k->loop; l = s->loops[l - 1].outer) {
        const Loop *row = &s->loops[l - 1];
        const ValueId one = ir_constant(f, TYPE_I64, 1), length = ir_size(f, row->axis);
        const ValueId end =
            row->reverse != last ? ir_op(f, OP_SUB, length, one, 0) : ir_constant(f, TYPE_I64, 0);
        all = both(f, ir_op(f, OP_EQ, ir_size(f, s->place[row->axis]), end, 0), all);
    }
    return all;
}

/* With the inner part, or of what stands around it alone. */
static Part make(Sinking *k, bool inner) {
    const Sequence *s = k->s;
    Function *f = ir_function_like(s->parts[k->inner].function);
    k->made = (Part){.function = f, .loop = inner ? s->parts[k->inner].loop : k->loop};
    k->known = NULL;
    k->known_capacity = 0;
    f->parameters = NULL;
    f->parameter_count = f->parameter_capacity = 0;
    f->iteration = NULL;
    for (size_t i = k->first; i < k->first + k->count; i++)
        if (i == k->inner && inner)
            add_part(k, &s->parts[i], 0);
        else if (i != k->inner)
            add_part(k, &s->parts[i], inner ? at_end(k, i > k->inner) : 0);
    for (uint32_t p = 0; p < f->parameter_count; p++) {
        const ValueId value = k->known[p].value ? read(k, p) : 0;
        bool is_read = false;
        for (ValueId v = 1; v < f->value_count; v++)
            is_read |= f->values[v].op == OP_PARAMETER && f->values[v].payload == p;
        if (!value) continue;
        f->parameters[p].role = is_read ? LS_INOUT : LS_OUT;
        ir_store(f, p, value, 0, f->parameters[p].range);
    }
    return k->made;
}

/* ---- the sequence ---- */

static bool may_be_empty(const Sinking *k) {
    for (size_t a = 0; a < k->s->step->axis_count; a++)
        if ((k->axes >> a & 1) && k->s->step->axes[a].fixed < 1) return true;
    return false;
}

static void replace(const Sinking *k, Sequence *s, const Part *nest, const Part *around) {
    const size_t end = k->first + k->count, behind = s->part_count - end;
    Part *parts = arena_alloc(nest->function->arena, (s->part_count + 2) * sizeof *parts);
    size_t count = k->first;
    memcpy(parts, s->parts, k->first * sizeof *parts);
    parts[count] = *nest;
    parts[count++].sunk = true;
    if (around) {
        parts[count] = *around;
        parts[count].loop = sequence_copy_loops(s, around->loop, 1);
        parts[count++].empty = k->axes;
    }
    memcpy(parts + count, s->parts + end, behind * sizeof *parts);
    s->parts = parts;
    s->part_count = s->part_capacity = count + behind;
}

bool sink_statements(Sequence *s, uint32_t loop, size_t *number) {
    Sinking k = {.s = s, .loop = loop};
    if (!find_parts(&k) || !views_agree(&k)) return false;
    const Part nest = make(&k, true), around = make(&k, false);
    replace(&k, s, &nest, may_be_empty(&k) ? &around : NULL);
    *number = k.first;
    return true;
}
