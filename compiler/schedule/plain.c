/* plain.c: the plain nest of a kernel.
 *
 * A phase becomes loops over its outer axes around loops over its inner ones; the values of each
 * level are bound where that level is, reductions are trees, scans carry a register. Phases that
 * one kernel runs over the same rows share the loops over these. Where blocks wait for each other
 * there is a grid barrier; what is stored when all is done comes behind an arrival. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

typedef struct Builder {
    const Plan *plan;
    const Function *f;
    Nest *nest;
    Arena *arena;
    PlainNest *plain;
    SymbolId *arrays, *lengths;
    NestNode **end; /* where the next node goes */
    const char *problem;

    Index coordinate[LS_AXES_MAX], length[LS_AXES_MAX];
    Index flat[LS_AXES_MAX];      /* of an axis of blocks: where a gather is along all of it */
    SymbolId tensor[LS_AXES_MAX]; /* of an axis that a list counts: its coordinate as one symbol */
    bool open[LS_AXES_MAX], measured[LS_AXES_MAX], has_flat[LS_AXES_MAX];
    SymbolId inside; /* where coordinates are those of a list: that they are in range; else 0 */

    /* the phase at hand */
    const Phase *phase;
    ValueId **values; /* by phase and value: what the nest calls it */
    ValueId *value_of;
    SymbolId *tree_of, *state_of; /* by value: of a reduction, of a RUNNING */
} Builder;

static NestNode *add(Builder *b, NestNode node) {
    return nest_add(b->nest, &b->end, node);
}

static Index number(Builder *b, int64_t n) {
    return index_number(b->arena, n);
}

static Index symbol(Builder *b, SymbolId id) {
    return index_symbol(b->arena, id);
}

static void refuse(Builder *b, const char *what) {
    if (!b->problem) b->problem = what;
}

static ValueId let(Builder *b, const char *name, ValueId value, Range range) {
    const Type type = (Type)b->nest->values->values[value].type;
    const SymbolId id = nest_symbol(b->nest, name, NAMED_VALUE, type);
    add(b, (NestNode){.kind = NEST_LET, .name = id, .value = value, .range = range});
    return nest_name(b->nest, id);
}

static ValueId op(Builder *b, Op operation, ValueId x, ValueId y) {
    return ir_op(b->nest->values, operation, x, y, 0);
}

static ValueId integer(Builder *b, int64_t n) {
    return ir_constant(b->nest->values, TYPE_I64, (uint64_t)n);
}

/* The value as a symbol of indices: names it where it is no name. */
static SymbolId symbol_of(Builder *b, ValueId value, const char *name) {
    if (b->nest->values->values[value].op != VALUE_NAME) value = let(b, name, value, (Range){0});
    return (SymbolId)b->nest->values->values[value].payload;
}

static Index index_of_value(Builder *b, ValueId value, const char *name) {
    const Value *v = &b->nest->values->values[value];
    if (v->op == OP_CONST) return number(b, (int64_t)v->payload);
    if (v->op == VALUE_INDEX) return *nest_index_of(b->nest, v);
    return symbol(b, symbol_of(b, value, name));
}

/* ---- axes ---- */

static bool is_rest(const Function *f, uint32_t axis) {
    const int whole = f->axes[axis].whole;
    return whole >= 0 && f->axes[whole].rest == (int)axis;
}

static bool is_ragged(const Function *f, uint32_t axis) {
    return f->axes[axis].parent >= 0 && f->axes[axis].whole < 0;
}

static SymbolId length_symbol(Builder *b, uint32_t axis) {
    const char *name = arena_printf(b->arena, "size_%s", b->f->axes[axis].name);
    if (!b->lengths[axis])
        b->lengths[axis] = is_ragged(b->f, axis) ? nest_array(b->nest, name, TYPE_I64, ARRAY_TABLE,
                                                              false, (Index){NULL, 0})
                                                 : nest_size(b->nest, name);
    return b->lengths[axis];
}

/* How many elements the axis has at the coordinates that are open. */
static Index measure(Builder *b, uint32_t axis) {
    const Function *f = b->f;
    const Axis *row = &f->axes[axis];
    if (b->measured[axis]) return b->length[axis];
    if (row->fixed >= 0) {
        b->length[axis] = number(b, row->fixed);
    } else if (row->whole >= 0) {
        const ValueId whole = nest_index_value(b->nest, measure(b, (uint32_t)row->whole));
        ValueId count;
        if (is_rest(f, axis)) {
            const Index done = index_scale(b->arena, b->coordinate[row->parent], row->length);
            count = op(b, OP_MIN, integer(b, row->length),
                       op(b, OP_SUB, whole, nest_index_value(b->nest, done)));
        } else {
            count = op(b, OP_FLOORDIV, op(b, OP_ADD, whole, integer(b, row->length - 1)),
                       integer(b, row->length));
        }
        b->length[axis] = index_of_value(b, count, arena_printf(b->arena, "%s_count", row->name));
    } else if (is_ragged(f, axis)) {
        if (!b->open[row->parent] && !b->inside)
            refuse(b, "the length of an axis where what it hangs on is not walked");
        const SymbolId table = length_symbol(b, axis);
        const SymbolId own = nest_symbol(b->nest, arena_printf(b->arena, "%s_length", row->name),
                                         NAMED_VALUE, TYPE_I64);
        Index *at = nest_at(b->nest, 1);
        at[0] = b->coordinate[row->parent];
        add(b, (NestNode){.kind = NEST_LOAD,
                          .name = own,
                          .array = table,
                          .at = at,
                          .at_count = 1,
                          .where = b->inside,
                          .pad = b->inside ? integer(b, 0) : 0});
        b->length[axis] = symbol(b, own);
    } else {
        b->length[axis] = symbol(b, length_symbol(b, axis));
    }
    b->measured[axis] = true;
    return b->length[axis];
}

/* Whether all that the length depends on is open. */
static bool can_measure(const Builder *b, uint32_t axis) {
    const Axis *row = &b->f->axes[axis];
    if (row->whole >= 0 && !can_measure(b, (uint32_t)row->whole)) return false;
    return row->parent < 0 || b->open[row->parent];
}

static void measure_all(Builder *b) {
    for (uint32_t a = 0; a < b->f->axis_count; a++)
        if (!b->measured[a] && can_measure(b, a)) measure(b, a);
}

/* A loop over the axis; what is added from now on is in it. */
static void open_axis(Builder *b, uint32_t axis, LoopKind kind) {
    const char *name = b->f->axes[axis].name;
    const Index extent = measure(b, axis);
    const SymbolId id = nest_symbol(b->nest, name, NAMED_LOOP, TYPE_I64);
    NestNode *loop =
        add(b, (NestNode){.kind = NEST_LOOP, .loop = kind, .name = id, .extent = extent});
    b->end = &loop->body;
    b->coordinate[axis] = symbol(b, id);
    b->tensor[axis] = id;
    b->open[axis] = true;
    measure_all(b);
}

typedef struct Place {
    NestNode **end;
    bool open[LS_AXES_MAX], measured[LS_AXES_MAX];
} Place;

static Place enter(const Builder *b) {
    Place place = {.end = b->end};
    memcpy(place.open, b->open, sizeof place.open);
    memcpy(place.measured, b->measured, sizeof place.measured);
    return place;
}

/* Goes on behind what was added since. */
static void leave(Builder *b, Place place) {
    while (*place.end) place.end = &(*place.end)->next;
    b->end = place.end;
    memcpy(b->open, place.open, sizeof place.open);
    memcpy(b->measured, place.measured, sizeof place.measured);
}

static void open_axes(Builder *b, AxisSet axes, bool grid) {
    for (uint32_t a = 0; a < b->f->axis_count; a++)
        if (axes >> a & 1 && !b->open[a]) {
            open_axis(b, a, grid ? LOOP_GRID : LOOP_SERIAL);
            grid = false;
        }
}

/* Both q and k of an axis are in the set: the whole of it, as one, stands at q. */
static int whole_at(const Function *f, AxisSet axes, uint32_t axis) {
    const int whole = f->axes[axis].whole;
    const bool block = whole >= 0 && f->axes[whole].block == (int)axis;
    return block && axes >> f->axes[whole].rest & 1 ? whole : -1;
}

static bool is_rest_of(const Function *f, AxisSet axes, uint32_t axis) {
    return is_rest(f, axis) && axes >> f->axes[f->axes[axis].whole].block & 1;
}

static Index flat_coordinate(Builder *b, uint32_t whole) {
    const Axis *row = &b->f->axes[whole];
    if (b->has_flat[whole]) return b->flat[whole];
    return index_add(b->arena, index_scale(b->arena, b->coordinate[row->block], row->length),
                     b->coordinate[row->rest]);
}

/* The flat position over the axes, and how many there are, blocks as what they divide. */
static Index position(Builder *b, AxisSet axes, Index *count) {
    Index at = {NULL, 0};
    *count = number(b, 1);
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        if (!(axes >> a & 1) || is_rest_of(b->f, axes, a)) continue;
        const int whole = whole_at(b->f, axes, a);
        const Index length = measure(b, whole >= 0 ? (uint32_t)whole : a);
        const Index own = whole >= 0 ? flat_coordinate(b, (uint32_t)whole) : b->coordinate[a];
        at = index_add(b->arena, index_multiply(b->arena, at, length), own);
        *count = index_multiply(b->arena, *count, length);
    }
    return at;
}

/* ---- arrays ---- */

/* How many elements the array has; none: that differs between tensors, or is not known at the
 * launch alone. */
static Index array_extent(Builder *b, const Array *row) {
    const AxisSet axes = row->parameter == UINT32_MAX ? plan_extent_axes(b->f, row->axes)
                                                      : b->f->parameters[row->parameter].declared;
    Index extent = number(b, 1);
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        if (b->f->axes[a].parent >= 0 || b->f->axes[a].whole >= 0) return (Index){NULL, 0};
        extent = index_multiply(b->arena, extent, measure(b, a));
    }
    return extent;
}

static SymbolId array_symbol(Builder *b, uint32_t array) {
    const Array *row = &b->plan->arrays[array];
    ArrayRole role = ARRAY_TEMPORARY;
    if (b->arrays[array]) return b->arrays[array];
    if (row->parameter != UINT32_MAX) {
        const ls_role own = b->f->parameters[row->parameter].role;
        role = own == LS_IN ? ARRAY_IN : own == LS_OUT ? ARRAY_OUT : ARRAY_INOUT;
    }
    return b->arrays[array] = nest_array(b->nest, row->name, row->type, role,
                                         ir_list_axis(b->f, row->axes) >= 0, array_extent(b, row));
}

/* In memory as it is declared: over q and k every block has room for a whole one. */
static Index declared_position(Builder *b, uint32_t parameter, int list) {
    Index at = {NULL, 0};
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        const Axis *row = &b->f->axes[a];
        if (!(b->f->parameters[parameter].declared >> a & 1) || (int)a == list) continue;
        const Index room = is_rest(b->f, a) ? number(b, row->length) : measure(b, a);
        const Index own = row->block >= 0 ? flat_coordinate(b, a) : b->coordinate[a];
        at = index_add(b->arena, index_multiply(b->arena, at, room), own);
    }
    return at;
}

/* Fills the node's array, list and subscript with the element at the coordinates. */
static void place_node(Builder *b, uint32_t array, NestNode *node) {
    const AxisSet axes = b->plan->arrays[array].axes;
    const int list = ir_list_axis(b->f, axes);
    const uint32_t parameter = b->plan->arrays[array].parameter;
    const AxisSet own = list >= 0 ? axes & ~((AxisSet)1 << list) : axes;
    Index count;
    node->array = array_symbol(b, array);
    if (list >= 0) node->list = b->tensor[list];
    node->at = nest_at(b->nest, 1);
    node->at_count = 1;
    node->at[0] =
        parameter == UINT32_MAX ? position(b, own, &count) : declared_position(b, parameter, list);
}

static const char *value_name(Builder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    if (value->name) return value->name;
    if (value->op == OP_PARAMETER) return b->f->parameters[value->payload].name;
    return arena_printf(b->arena, "t%u", v);
}

static ValueId load(Builder *b, ValueId v, uint32_t array, SymbolId where) {
    const Value *value = &b->f->values[v];
    NestNode node = {.kind = NEST_LOAD, .where = where, .range = value->range};
    place_node(b, array, &node);
    node.name = nest_symbol(b->nest, value_name(b, v), NAMED_VALUE, (Type)value->type);
    if (where) node.pad = ir_constant(b->nest->values, (Type)value->type, 0);
    add(b, node);
    return nest_name(b->nest, node.name);
}

/* ---- other coordinates ---- */

typedef struct Elsewhere { /* what a list of indices puts aside */
    Index coordinate[LS_AXES_MAX], length[LS_AXES_MAX], flat[LS_AXES_MAX];
    SymbolId tensor[LS_AXES_MAX];
    bool measured[LS_AXES_MAX], has_flat[LS_AXES_MAX];
} Elsewhere;

static Elsewhere put_aside(const Builder *b) {
    Elsewhere own;
    memcpy(own.coordinate, b->coordinate, sizeof own.coordinate);
    memcpy(own.length, b->length, sizeof own.length);
    memcpy(own.flat, b->flat, sizeof own.flat);
    memcpy(own.tensor, b->tensor, sizeof own.tensor);
    memcpy(own.measured, b->measured, sizeof own.measured);
    memcpy(own.has_flat, b->has_flat, sizeof own.has_flat);
    return own;
}

static void come_back(Builder *b, const Elsewhere *own) {
    b->inside = 0;
    memcpy(b->coordinate, own->coordinate, sizeof own->coordinate);
    memcpy(b->length, own->length, sizeof own->length);
    memcpy(b->flat, own->flat, sizeof own->flat);
    memcpy(b->tensor, own->tensor, sizeof own->tensor);
    memcpy(b->measured, own->measured, sizeof own->measured);
    memcpy(b->has_flat, own->has_flat, sizeof own->has_flat);
}

static ValueId and_of(Builder *b, ValueId x, ValueId y) {
    return x && y ? op(b, OP_AND, x, y) : x ? x : y;
}

/* What hangs on a coordinate that is another one now has another length. */
static void forget_lengths(Builder *b, uint32_t axis) {
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        if (b->f->axes[a].parent != (int)axis || b->f->axes[a].fixed >= 0) continue;
        b->measured[a] = false;
        forget_lengths(b, a);
        for (uint32_t q = 0; q < b->f->axis_count; q++)
            if (b->f->axes[q].whole == (int)a) b->measured[q] = false;
    }
}

/* From now on the coordinates are those of the list; gives whether all are in range. The length of
 * what hangs on an index is read only where that index is in range: at 0 elsewhere. */
static ValueId go_elsewhere(Builder *b, ValueId list) {
    ValueId inside = 0, index_of[LS_AXES_MAX] = {0};
    for (; list; list = b->f->values[list].arg[1])
        index_of[b->f->values[list].payload] = b->value_of[b->f->values[list].arg[0]];
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        const Axis *row = &b->f->axes[a];
        if (!index_of[a]) continue;
        if (b->nest->values->values[index_of[a]].type != TYPE_I64)
            index_of[a] = ir_cast(b->nest->values, TYPE_I64, index_of[a]);
        const ValueId length = nest_index_value(b->nest, measure(b, a));
        const ValueId in = op(b, OP_AND, op(b, OP_GE, index_of[a], integer(b, 0)),
                              op(b, OP_LT, index_of[a], length));
        inside = let(b, "inside", and_of(b, inside, in), (Range){0});
        const ValueId safe = ir_op(b->nest->values, OP_SELECT, inside, index_of[a], integer(b, 0));
        const SymbolId at = symbol_of(b, safe, "at");
        b->inside = symbol_of(b, inside, "inside");
        b->tensor[a] = at;
        if (row->block < 0) {
            b->coordinate[a] = symbol(b, at);
        } else {
            const ValueId n = nest_name(b->nest, at), size = integer(b, row->length);
            b->flat[a] = symbol(b, at);
            b->has_flat[a] = true;
            b->coordinate[row->block] = index_of_value(b, op(b, OP_FLOORDIV, n, size), "block");
            b->coordinate[row->rest] = index_of_value(b, op(b, OP_MOD, n, size), "rest");
        }
        forget_lengths(b, a);
    }
    for (uint32_t a = 0; a < b->f->axis_count; a++) { /* q and k listed each for itself */
        const int whole = b->f->axes[a].whole;
        if (index_of[a] && whole >= 0) b->has_flat[whole] = false;
    }
    return inside;
}

static ValueId build_gather(Builder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    const uint32_t source = plan_source(b->plan, b->phase, value->arg[0]);
    const Elsewhere own = put_aside(b);
    if (!source) {
        refuse(b, arena_printf(b->arena, "a gather %u from %u %s, which is in no array", v,
                               value->arg[0], op_info[b->f->values[value->arg[0]].op].name));
        return ir_constant(b->nest->values, (Type)value->type, 0);
    }
    const ValueId inside = go_elsewhere(b, value->arg[1]);
    const SymbolId where = inside ? symbol_of(b, inside, "inside") : 0;
    const ValueId result = load(b, v, source - 1, where);
    come_back(b, &own);
    return result;
}

/* ---- values ---- */

static ValueId call_list(Builder *b, ValueId list) {
    const Value *entry = &b->f->values[list];
    if (!list) return 0;
    return ir_list(b->nest->values, b->value_of[entry->arg[0]], call_list(b, entry->arg[1]),
                   entry->payload);
}

static ValueId leaf(Builder *b, const Value *value) {
    Index count;
    const uint32_t axis = (uint32_t)value->payload;
    static const char *const names[] = {"first_tensor", "first_element"};
    switch (value->op) {
    case OP_CONST: return ir_constant(b->nest->values, (Type)value->type, value->payload);
    case OP_SIZE: return nest_index_value(b->nest, measure(b, axis));
    case OP_INDEX:
        return nest_index_value(b->nest, b->f->axes[axis].block >= 0 ? flat_coordinate(b, axis)
                                                                     : b->coordinate[axis]);
    case OP_POSITION:
        return nest_index_value(b->nest, position(b, (AxisSet)value->payload, &count));
    default:
        if (!b->plain->first[value->payload & 1])
            b->plain->first[value->payload & 1] = nest_size(b->nest, names[value->payload & 1]);
        return nest_name(b->nest, b->plain->first[value->payload & 1]);
    }
}

static void build_value(Builder *b, ValueId v);

static ValueId operation(Builder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    ValueId args[3] = {0};
    const ValueId chosen = plan_chosen(b->plan, b->phase, v);
    if (chosen) return b->value_of[chosen];
    if (value->op == OP_BROADCAST) return b->value_of[value->arg[0]];
    if (value->op == OP_CALL)
        return ir_call(b->nest->values, (uint32_t)value->payload, call_list(b, value->arg[0]));
    for (int i = 0; i < op_info[value->op].arity; i++) {
        if (value->arg[i]) build_value(b, value->arg[i]);
        args[i] = value->arg[i] ? b->value_of[value->arg[i]] : 0;
        if (value->arg[i] && !args[i]) {
            refuse(b, arena_printf(b->arena, "%s of what the phase does not compute",
                                   op_info[value->op].name));
            return ir_constant(b->nest->values, (Type)value->type, 0);
        }
    }
    Value like = *value;
    like.axes = 0;
    return ir_make(b->nest->values, &like, args);
}

/* What a scan carries is what its body makes of it. */
static ValueId advance(Builder *b, const Value *scan) {
    const ValueId next = b->value_of[scan->arg[1]];
    Index *at = nest_at(b->nest, 1);
    at[0] = number(b, 0);
    add(b, (NestNode){.kind = NEST_STORE,
                      .array = b->state_of[scan->arg[2]],
                      .at = at,
                      .at_count = 1,
                      .value = next,
                      .range = scan->range});
    return next;
}

static ValueId running(Builder *b, ValueId v) {
    Index *at = nest_at(b->nest, 1);
    at[0] = number(b, 0);
    const SymbolId id =
        nest_symbol(b->nest, value_name(b, v), NAMED_VALUE, (Type)b->f->values[v].type);
    add(b, (NestNode){
               .kind = NEST_LOAD, .name = id, .array = b->state_of[v], .at = at, .at_count = 1});
    return nest_name(b->nest, id);
}

static void build_value(Builder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    const uint8_t flags = op_info[value->op].flags;
    ValueId made;
    if (b->value_of[v]) return;
    if (plan_is_read(b->plan, b->phase, v)) {
        const uint32_t source = plan_source(b->plan, b->phase, v);
        if (!source) {
            refuse(b, "a value that is read from no array");
            return;
        }
        b->value_of[v] = load(b, v, source - 1, 0);
        return;
    }
    if (value->op == OP_LIST || value->op == OP_SCATTER || flags & OP_REDUCTION) return;
    if (value->op == OP_RUNNING)
        made = running(b, v);
    else if (value->op == OP_SCAN)
        made = advance(b, value);
    else if (flags & OP_LEAF)
        made = leaf(b, value);
    else if (value->op == OP_GATHER)
        made = build_gather(b, v);
    else
        made = let(b, value_name(b, v), operation(b, v), value->range);
    b->value_of[v] = made;
}

static void build_values(Builder *b, Level level) {
    for (size_t i = 0; i < b->phase->value_count && !b->problem; i++)
        if (b->phase->levels[i] == level) build_value(b, b->phase->values[i]);
}

/* ---- stores ---- */

/* Whether the guards of the store hold that the phase does not know of. */
static ValueId condition(Builder *b, const PhaseStore *store) {
    ValueId v = store->value, all = 0;
    for (Guard guard; plan_keeps(b->plan, store->array, &v, &guard);) {
        if (!plan_is_open(b->plan, b->phase, store, guard)) continue;
        build_value(b, guard.condition);
        const ValueId c = b->value_of[guard.condition];
        all = and_of(b, all, guard.holds ? c : ir_op(b->nest->values, OP_NOT, c, 0, 0));
    }
    return all;
}

static void build_store(Builder *b, const PhaseStore *store) {
    const Array *array = &b->plan->arrays[store->array];
    const Type compute = type_info[array->type].compute;
    NestNode node = {.kind = NEST_STORE, .range = store->range};
    ValueId where = condition(b, store);
    const Elsewhere own = put_aside(b);
    if (store->kind == STORE_ADD) {
        const Value *scatter = &b->f->values[store->value];
        node.kind = NEST_ADD;
        node.value = b->value_of[scatter->arg[0]];
        where = and_of(b, where, go_elsewhere(b, scatter->arg[1]));
    } else if (store->kind == STORE_CLEAR) {
        node.value = ir_constant(b->nest->values, compute, 0);
    } else {
        const ValueId stored = plan_stored(b->plan, b->phase, store);
        build_value(b, stored);
        node.value = b->value_of[stored];
    }
    if (!node.value) {
        refuse(b, "a store of what the phase does not compute");
        return;
    }
    if (where) node.where = symbol_of(b, where, "holds");
    place_node(b, store->array, &node);
    add(b, node);
    come_back(b, &own);
}

static void build_stores(Builder *b, Level level) {
    for (size_t i = 0; i < b->phase->store_count && !b->problem; i++)
        if (b->phase->stores[i].level == level) build_store(b, &b->phase->stores[i]);
}

/* ---- phases ---- */

static void open_reductions(Builder *b) {
    for (size_t i = 0; i < b->phase->reduction_count; i++) {
        const ValueId v = b->phase->reductions[i];
        const Value *value = &b->f->values[v];
        const Place place = enter(b);
        Index count = number(b, 1);
        for (uint32_t a = 0; a < b->f->axis_count; a++) {
            if (!(b->phase->inner >> a & 1) || is_rest_of(b->f, b->phase->inner, a)) continue;
            const int whole = whole_at(b->f, b->phase->inner, a);
            const uint32_t own = whole >= 0 ? (uint32_t)whole : a;
            if (!can_measure(b, own)) {
                refuse(b, "a reduction over a list and its tensors");
                return;
            }
            count = index_multiply(b->arena, count, measure(b, own));
        }
        leave(b, place);
        b->tree_of[v] = nest_symbol(b->nest, value_name(b, v), NAMED_TREE,
                                    (Type)b->f->values[value->arg[0]].type);
        add(b, (NestNode){.kind = NEST_TREE,
                          .name = b->tree_of[v],
                          .op = (Op)value->op,
                          .type = (Type)b->f->values[value->arg[0]].type,
                          .extent = count,
                          .range = value->range});
    }
}

static void push_reductions(Builder *b) {
    for (size_t i = 0; i < b->phase->reduction_count && !b->problem; i++) {
        const ValueId v = b->phase->reductions[i];
        Index count, *at = nest_at(b->nest, 1);
        at[0] = position(b, b->phase->inner, &count);
        add(b, (NestNode){.kind = NEST_PUSH,
                          .array = b->tree_of[v],
                          .at = at,
                          .at_count = 1,
                          .value = b->value_of[b->f->values[v].arg[0]],
                          .range = b->f->values[v].range});
    }
}

static void combine_reductions(Builder *b) {
    for (size_t i = 0; i < b->phase->reduction_count && !b->problem; i++) {
        const ValueId v = b->phase->reductions[i];
        const SymbolId id =
            nest_symbol(b->nest, value_name(b, v), NAMED_VALUE, (Type)b->f->values[v].type);
        add(b, (NestNode){.kind = NEST_COMBINE,
                          .name = id,
                          .array = b->tree_of[v],
                          .at = nest_at(b->nest, 0),
                          .range = b->f->values[v].range});
        b->value_of[v] = nest_name(b->nest, id);
    }
}

/* A register for what each scan carries, with the value it begins with. */
static void open_scans(Builder *b) {
    for (size_t i = 0; i < b->phase->scan_count && !b->problem; i++) {
        const Value *scan = &b->f->values[b->phase->scans[i]];
        const SymbolId state =
            nest_symbol(b->nest, value_name(b, scan->arg[2]), NAMED_ALLOC, (Type)scan->type);
        Index *dims = nest_at(b->nest, 1), *at = nest_at(b->nest, 1);
        dims[0] = number(b, 1);
        at[0] = number(b, 0);
        b->state_of[scan->arg[2]] = state;
        add(b, (NestNode){.kind = NEST_ALLOC,
                          .scope = SCOPE_REGISTER,
                          .name = state,
                          .at = dims,
                          .at_count = 1});
        build_value(b, scan->arg[0]);
        add(b, (NestNode){.kind = NEST_STORE,
                          .array = state,
                          .at = at,
                          .at_count = 1,
                          .value = b->value_of[scan->arg[0]]});
    }
}

/* The loops over the inner axes; those of scans that walk from the end count down. */
static void open_inner(Builder *b, bool grid) {
    open_axes(b, b->phase->inner, grid);
    if (!b->phase->reverse) return;
    for (uint32_t a = 0; a < b->f->axis_count; a++)
        if (b->phase->inner >> a & 1)
            b->coordinate[a] = index_subtract(
                b->arena, index_subtract(b->arena, b->length[a], number(b, 1)), b->coordinate[a]);
}

static void build_inner(Builder *b, bool grid) {
    build_values(b, LEVEL_OUTER);
    build_stores(b, LEVEL_OUTER);
    open_reductions(b);
    open_scans(b);
    if (b->problem) return;
    const Place place = enter(b);
    open_inner(b, grid && !b->phase->reduction_count && !b->phase->scan_count);
    build_values(b, LEVEL_ELEMENT);
    push_reductions(b);
    build_stores(b, LEVEL_ELEMENT);
    leave(b, place);
    combine_reductions(b);
    build_values(b, LEVEL_EPILOGUE);
    build_stores(b, LEVEL_EPILOGUE);
}

/* Around what has work only where the phase's conditions hold. */
static void open_guards(Builder *b) {
    for (size_t i = 0; i < b->phase->guard_count && !b->problem; i++) {
        const Guard *guard = &b->phase->guards[i];
        build_value(b, guard->condition);
        ValueId c = b->value_of[guard->condition];
        if (!guard->holds) c = ir_op(b->nest->values, OP_NOT, c, 0, 0);
        NestNode *when =
            add(b, (NestNode){.kind = NEST_WHEN, .where = symbol_of(b, c, "condition")});
        b->end = &when->body;
    }
}

static void begin_phase(Builder *b, uint32_t index) {
    b->phase = &b->plan->phases[index];
    if (!b->values[index])
        b->values[index] = arena_alloc(b->arena, b->f->value_count * sizeof *b->values[index]);
    b->value_of = b->values[index];
}

/* What the phase computes once, and all conditions on which its work and its stores depend. */
static void build_scalars(Builder *b, uint32_t index) {
    begin_phase(b, index);
    build_values(b, LEVEL_SCALAR);
    for (size_t i = 0; i < b->phase->guard_count; i++)
        build_value(b, b->phase->guards[i].condition);
    for (size_t i = 0; i < b->phase->store_count; i++) {
        ValueId v = b->phase->stores[i].value;
        for (Guard guard; plan_keeps(b->plan, b->phase->stores[i].array, &v, &guard);)
            if (plan_needs(b->phase, guard.condition) &&
                plan_level(b->phase, guard.condition) == LEVEL_SCALAR)
                build_value(b, guard.condition);
    }
}

static void build_phase(Builder *b, uint32_t index, bool grid) {
    begin_phase(b, index);
    const Place place = enter(b);
    open_guards(b);
    build_stores(b, LEVEL_SCALAR);
    const bool outer = grid && b->phase->outer;
    if (outer) {
        open_axes(b, b->phase->outer, true);
        build_inner(b, false);
    } else {
        open_axes(b, b->phase->outer, false);
        build_inner(b, grid);
    }
    leave(b, place);
}

static void grid_barrier(Builder *b) {
    add(b, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_GRID});
}

/* ---- kernels ---- */

/* What phases store when all of their work is done. */
static void build_tails(Builder *b, uint32_t first, uint32_t count) {
    bool arrived = false;
    for (uint32_t i = first; i < first + count && !b->problem; i++) {
        const Phase *phase = &b->plan->phases[i];
        bool any = false;
        for (size_t s = 0; s < phase->store_count; s++) any |= phase->stores[s].level == LEVEL_TAIL;
        if (!any) continue;
        if (!arrived && phase->shape != SHAPE_SCALAR) add(b, (NestNode){.kind = NEST_ARRIVE});
        arrived |= phase->shape != SHAPE_SCALAR;
        begin_phase(b, i);
        build_stores(b, LEVEL_TAIL);
    }
}

/* One phase after the other; with barriers where one may need what another made. */
static void build_phases(Builder *b, uint32_t first, uint32_t count, bool barriers) {
    for (uint32_t i = first; i < first + count && !b->problem; i++) {
        if (barriers && i > first) grid_barrier(b);
        build_scalars(b, i);
        build_phase(b, i, true);
        if (barriers) build_tails(b, i, 1);
    }
    if (!barriers) build_tails(b, first, count);
}

/* All phases on a row, then on the next. */
static void build_rows(Builder *b, const Kernel *kernel, uint32_t count) {
    for (uint32_t i = kernel->first; i < kernel->first + count; i++) build_scalars(b, i);
    const Place place = enter(b);
    open_axes(b, kernel->outer, true);
    for (uint32_t i = kernel->first; i < kernel->first + count && !b->problem; i++)
        build_phase(b, i, false);
    leave(b, place);
    build_tails(b, kernel->first, count);
}

static void build_kernel(Builder *b, const Kernel *kernel) {
    const uint32_t mains = plan_mains(kernel), end = kernel->first + kernel->count;
    if (kernel->prologue) {
        build_phases(b, kernel->first - kernel->prologue, kernel->prologue, true);
        grid_barrier(b);
    }
    if (kernel->kind == KERNEL_CHAIN)
        build_rows(b, kernel, mains);
    else
        build_phases(b, kernel->first, mains, kernel->kind != KERNEL_BESIDE);
    for (uint32_t i = kernel->first + mains; i < end && !b->problem; i++) {
        grid_barrier(b);
        build_phases(b, i, 1, true);
    }
}

PlainNest *schedule_plain(const Plan *plan, const Kernel *kernel, Arena *arena,
                          const char **problem) {
    const Function *f = plan->function;
    PlainNest *plain = arena_alloc(arena, sizeof *plain);
    Builder b = {.plan = plan,
                 .f = f,
                 .nest = nest_open(f->compiler, arena, f->name, f),
                 .arena = arena,
                 .plain = plain};
    b.arrays = arena_alloc(arena, (plan->array_count + 1) * sizeof *b.arrays);
    b.lengths = arena_alloc(arena, (f->axis_count + 1) * sizeof *b.lengths);
    b.values = arena_alloc(arena, (plan->phase_count + 1) * sizeof *b.values);
    b.tree_of = arena_alloc(arena, f->value_count * sizeof *b.tree_of);
    b.state_of = arena_alloc(arena, f->value_count * sizeof *b.state_of);
    b.end = &b.nest->body;
    if (kernel->kind == KERNEL_STRIPS || kernel->kind == KERNEL_FINISH)
        refuse(&b, "a kernel of row panels");
    measure_all(&b);
    if (!b.problem) build_kernel(&b, kernel);
    *plain = (PlainNest){b.nest, b.arrays, b.lengths, {plain->first[0], plain->first[1]}};
    *problem = b.problem;
    return b.problem ? NULL : plain;
}
