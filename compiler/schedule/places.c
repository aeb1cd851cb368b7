/* places.c: the insertion point of a nest that is being built: which axes have loops, how long they
 * are there, and where elements of arrays lie, at the loops' coordinates or at those of a list of
 * indices. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

NestNode *plain_add(PlainBuilder *b, NestNode node) {
    return nest_add(b->nest, &b->end, node);
}

Index plain_number(PlainBuilder *b, int64_t n) {
    return index_number(b->arena, n);
}

static Index symbol(PlainBuilder *b, SymbolId id) {
    return index_symbol(b->arena, id);
}

void plain_refuse(PlainBuilder *b, const char *what) {
    if (!b->problem) b->problem = what;
}

ValueId plain_let(PlainBuilder *b, const char *name, ValueId value, Range range) {
    const Type type = (Type)b->nest->values->values[value].type;
    const SymbolId id = nest_symbol(b->nest, name, NAMED_VALUE, type);
    plain_add(b, (NestNode){.kind = NEST_LET, .name = id, .value = value, .range = range});
    return nest_name(b->nest, id);
}

static ValueId op(PlainBuilder *b, Op operation, ValueId x, ValueId y) {
    return ir_op(b->nest->values, operation, x, y, 0);
}

static ValueId integer(PlainBuilder *b, int64_t n) {
    return ir_constant(b->nest->values, TYPE_I64, (uint64_t)n);
}

/* The value as a symbol of indices: names it where it is no name. */
SymbolId plain_symbol_of(PlainBuilder *b, ValueId value, const char *name) {
    if (b->nest->values->values[value].op != VALUE_NAME)
        value = plain_let(b, name, value, (Range){0});
    return (SymbolId)b->nest->values->values[value].payload;
}

static Index index_of_value(PlainBuilder *b, ValueId value, const char *name) {
    const Value *v = &b->nest->values->values[value];
    if (v->op == OP_CONST) return plain_number(b, (int64_t)v->payload);
    if (v->op == VALUE_INDEX) return *nest_index_of(b->nest, v);
    return symbol(b, plain_symbol_of(b, value, name));
}

/* ---- axes ---- */

static bool is_rest(const Function *f, uint32_t axis) {
    const int whole = f->axes[axis].whole;
    return whole >= 0 && f->axes[whole].rest == (int)axis;
}

static bool is_ragged(const Function *f, uint32_t axis) {
    return f->axes[axis].parent >= 0 && f->axes[axis].whole < 0;
}

static SymbolId length_symbol(PlainBuilder *b, uint32_t axis) {
    const char *name = arena_printf(b->arena, "size_%s", b->f->axes[axis].name);
    if (!b->lengths[axis])
        b->lengths[axis] = is_ragged(b->f, axis) ? nest_array(b->nest, name, TYPE_I64, ARRAY_TABLE,
                                                              false, (Index){NULL, 0})
                                                 : nest_size(b->nest, name);
    return b->lengths[axis];
}

/* How many elements the axis has at the coordinates that are open. */
Index plain_measure(PlainBuilder *b, uint32_t axis) {
    const Function *f = b->f;
    const Axis *row = &f->axes[axis];
    if (b->measured[axis]) return b->length[axis];
    if (row->fixed >= 0) {
        b->length[axis] = plain_number(b, row->fixed);
    } else if (row->whole >= 0) {
        const ValueId whole = nest_index_value(b->nest, plain_measure(b, (uint32_t)row->whole));
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
            plain_refuse(b, "the length of an axis where the axis that it depends on has no loop");
        const SymbolId table = length_symbol(b, axis);
        const SymbolId own = nest_symbol(b->nest, arena_printf(b->arena, "%s_length", row->name),
                                         NAMED_VALUE, TYPE_I64);
        plain_add(b, (NestNode){.kind = NEST_LOAD,
                                .name = own,
                                .array = table,
                                .at = nest_subscript(b->nest, b->coordinate[row->parent]),
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
bool plain_can_measure(const PlainBuilder *b, uint32_t axis) {
    const Axis *row = &b->f->axes[axis];
    if (row->whole >= 0 && !plain_can_measure(b, (uint32_t)row->whole)) return false;
    return row->parent < 0 || b->open[row->parent];
}

void plain_measure_all(PlainBuilder *b) {
    for (uint32_t a = 0; a < b->f->axis_count; a++)
        if (!b->measured[a] && plain_can_measure(b, a)) plain_measure(b, a);
}

static bool counts_list(const Function *f, uint32_t axis) {
    for (uint32_t a = 0; a < f->axis_count; a++)
        if (is_ragged(f, a) && f->axes[a].parent == (int)axis) return true;
    return false;
}

/* An inner coordinate: a scan from the end counts down; and of tensors, whose loop may
 * become several, it is one symbol. */
static void place_inner(PlainBuilder *b, uint32_t axis) {
    const Index last = index_subtract(b->arena, b->length[axis], plain_number(b, 1));
    const bool in_list = ir_list_axis(b->f, b->phase->outer | b->phase->inner) >= 0;
    if (b->phase->reverse)
        b->coordinate[axis] = index_subtract(b->arena, last, b->coordinate[axis]);
    if (!counts_list(b->f, axis) || (in_list && !b->phase->reverse)) return;
    const ValueId own = plain_let(b, b->f->axes[axis].name,
                                  nest_index_value(b->nest, b->coordinate[axis]), (Range){0});
    b->tensor[axis] = (SymbolId)b->nest->values->values[own].payload;
}

/* A loop over the axis; what is added from now on is in it. */
static void open_axis(PlainBuilder *b, uint32_t axis, LoopKind kind) {
    const char *name = b->f->axes[axis].name;
    const Index extent = plain_measure(b, axis);
    const SymbolId id = nest_symbol(b->nest, name, NAMED_LOOP, TYPE_I64);
    NestNode *loop =
        plain_add(b, (NestNode){.kind = NEST_LOOP, .loop = kind, .name = id, .extent = extent});
    b->end = &loop->body;
    b->coordinate[axis] = symbol(b, id);
    b->tensor[axis] = id;
    if (b->phase->inner >> axis & 1) place_inner(b, axis);
    b->open[axis] = true;
    if (b->f->axes[axis].whole >= 0) b->has_flat[b->f->axes[axis].whole] = false;
    plain_measure_all(b);
}

void plain_open_once(PlainBuilder *b, LoopKind kind) {
    NestNode *loop =
        plain_add(b, (NestNode){.kind = NEST_LOOP,
                                .loop = kind,
                                .name = nest_symbol(b->nest, "once", NAMED_LOOP, TYPE_I64),
                                .extent = plain_number(b, 1)});
    b->end = &loop->body;
}

PlainPlace plain_enter(const PlainBuilder *b) {
    PlainPlace place = {.end = b->end};
    memcpy(place.open, b->open, sizeof place.open);
    memcpy(place.measured, b->measured, sizeof place.measured);
    return place;
}

/* Goes on behind what was added since. */
void plain_leave(PlainBuilder *b, PlainPlace place) {
    while (*place.end) place.end = &(*place.end)->next;
    b->end = place.end;
    memcpy(b->open, place.open, sizeof place.open);
    memcpy(b->measured, place.measured, sizeof place.measured);
}

/* An axis that is visited in blocks and within them is one loop. */
static void open_whole(PlainBuilder *b, uint32_t whole, LoopKind kind) {
    const Axis *row = &b->f->axes[whole];
    open_axis(b, whole, kind);
    const Index flat = b->coordinate[whole];
    const Index block = index_of_value(
        b, op(b, OP_FLOORDIV, nest_index_value(b->nest, flat), integer(b, row->length)),
        b->f->axes[row->block].name);
    b->flat[whole] = flat;
    b->has_flat[whole] = true;
    b->coordinate[row->block] = block;
    b->coordinate[row->rest] =
        index_subtract(b->arena, flat, index_scale(b->arena, block, row->length));
    b->open[row->block] = b->open[row->rest] = true;
    plain_measure_all(b);
}

static void open_unit(PlainBuilder *b, AxisSet axes, uint32_t axis, LoopKind kind) {
    const int whole = plain_whole_at(b->f, axes, axis);
    if (whole >= 0 && !b->phase->reverse && !b->open[b->f->axes[whole].rest])
        open_whole(b, (uint32_t)whole, kind);
    else
        open_axis(b, axis, kind);
}

/* A grid loop goes over a list's tensors, if it has any. */
void plain_open_axes(PlainBuilder *b, AxisSet axes, bool grid) {
    const AxisSet all = axes | b->phase->outer | b->phase->inner;
    const int list = grid ? ir_list_axis(b->f, all) : -1;
    if (list >= 0 && axes >> list & 1 && !b->open[list]) {
        open_axis(b, (uint32_t)list, LOOP_GRID);
        grid = false;
    }
    for (uint32_t a = 0; a < b->f->axis_count; a++)
        if (axes >> a & 1 && !b->open[a]) {
            open_unit(b, axes, a, grid ? LOOP_GRID : LOOP_SERIAL);
            grid = false;
        }
}

/* Both q and k of an axis are in the set: the whole of it, as one, stands at q. */
int plain_whole_at(const Function *f, AxisSet axes, uint32_t axis) {
    const int whole = f->axes[axis].whole;
    const bool block = whole >= 0 && f->axes[whole].block == (int)axis;
    return block && axes >> f->axes[whole].rest & 1 ? whole : -1;
}

bool plain_is_rest_of(const Function *f, AxisSet axes, uint32_t axis) {
    return is_rest(f, axis) && axes >> f->axes[f->axes[axis].whole].block & 1;
}

Index plain_flat_coordinate(PlainBuilder *b, uint32_t whole) {
    const Axis *row = &b->f->axes[whole];
    if (b->has_flat[whole]) return b->flat[whole];
    return index_add(b->arena, index_scale(b->arena, b->coordinate[row->block], row->length),
                     b->coordinate[row->rest]);
}

/* The flat position over the axes, and how many there are, blocks as what they divide. */
Index plain_position(PlainBuilder *b, AxisSet axes, Index *count) {
    Index at = {NULL, 0};
    *count = plain_number(b, 1);
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        if (!(axes >> a & 1) || plain_is_rest_of(b->f, axes, a)) continue;
        const int whole = plain_whole_at(b->f, axes, a);
        const Index length = plain_measure(b, whole >= 0 ? (uint32_t)whole : a);
        const Index own = whole >= 0 ? plain_flat_coordinate(b, (uint32_t)whole) : b->coordinate[a];
        at = index_add(b->arena, index_multiply(b->arena, at, length), own);
        *count = index_multiply(b->arena, *count, length);
    }
    return at;
}

/* ---- arrays ---- */

/* How many elements the array has; none: that differs between tensors, or is not known at the
 * launch alone. */
static Index array_extent(PlainBuilder *b, const Array *row) {
    const AxisSet axes = row->parameter == UINT32_MAX ? plan_extent_axes(b->f, row->axes)
                                                      : b->f->parameters[row->parameter].declared;
    Index extent = plain_number(b, 1);
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        if (b->f->axes[a].parent >= 0 || b->f->axes[a].whole >= 0) return (Index){NULL, 0};
        extent = index_multiply(b->arena, extent, plain_measure(b, a));
    }
    return extent;
}

static SymbolId array_symbol(PlainBuilder *b, uint32_t array) {
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
static Index stride_of(PlainBuilder *b, uint32_t parameter, uint32_t axis) {
    SymbolId *own = &b->strides[parameter * LS_AXES_MAX + axis];
    const char *name = b->f->parameters[parameter].name;
    const bool last = b->f->parameters[parameter].declared >> axis == 1;
    if (last && b->layout == LS_LAYOUT_PITCHED) return plain_number(b, 1);
    if (!*own)
        *own =
            nest_size(b->nest, arena_printf(b->arena, "%s_stride_%s", name, b->f->axes[axis].name));
    return symbol(b, *own);
}

static Index declared_position(PlainBuilder *b, uint32_t parameter, int list) {
    Index at = {NULL, 0};
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        const Axis *row = &b->f->axes[a];
        if (!(b->f->parameters[parameter].declared >> a & 1) || (int)a == list) continue;
        const Index room = is_rest(b->f, a) ? plain_number(b, row->length) : plain_measure(b, a);
        const Index own = row->block >= 0 ? plain_flat_coordinate(b, a) : b->coordinate[a];
        if (b->strides && list < 0)
            at = index_add(b->arena, at, index_multiply(b->arena, own, stride_of(b, parameter, a)));
        else
            at = index_add(b->arena, index_multiply(b->arena, at, room), own);
    }
    return at;
}

/* Fills the node's array, list and subscript with the element at the coordinates. */
void plain_place_node(PlainBuilder *b, uint32_t array, NestNode *node) {
    const AxisSet axes = b->plan->arrays[array].axes;
    const int list = ir_list_axis(b->f, axes);
    const uint32_t parameter = b->plan->arrays[array].parameter;
    const AxisSet own = list >= 0 ? axes & ~((AxisSet)1 << list) : axes;
    Index count;
    node->array = array_symbol(b, array);
    if (list >= 0) node->list = b->tensor[list];
    node->at =
        nest_subscript(b->nest, parameter == UINT32_MAX ? plain_position(b, own, &count)
                                                        : declared_position(b, parameter, list));
    node->at_count = 1;
}

/* ---- other coordinates ---- */

PlainElsewhere plain_put_aside(const PlainBuilder *b) {
    PlainElsewhere own;
    memcpy(own.coordinate, b->coordinate, sizeof own.coordinate);
    memcpy(own.length, b->length, sizeof own.length);
    memcpy(own.flat, b->flat, sizeof own.flat);
    memcpy(own.tensor, b->tensor, sizeof own.tensor);
    memcpy(own.measured, b->measured, sizeof own.measured);
    memcpy(own.has_flat, b->has_flat, sizeof own.has_flat);
    return own;
}

void plain_come_back(PlainBuilder *b, const PlainElsewhere *own) {
    b->inside = 0;
    memcpy(b->coordinate, own->coordinate, sizeof own->coordinate);
    memcpy(b->length, own->length, sizeof own->length);
    memcpy(b->flat, own->flat, sizeof own->flat);
    memcpy(b->tensor, own->tensor, sizeof own->tensor);
    memcpy(b->measured, own->measured, sizeof own->measured);
    memcpy(b->has_flat, own->has_flat, sizeof own->has_flat);
}

ValueId plain_and_of(PlainBuilder *b, ValueId x, ValueId y) {
    return x && y ? op(b, OP_AND, x, y) : x ? x : y;
}

/* What depends on a coordinate that is another one now has another length. */
static void forget_lengths(PlainBuilder *b, uint32_t axis) {
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        if (b->f->axes[a].parent != (int)axis || b->f->axes[a].fixed >= 0) continue;
        b->measured[a] = false;
        forget_lengths(b, a);
        for (uint32_t q = 0; q < b->f->axis_count; q++)
            if (b->f->axes[q].whole == (int)a) b->measured[q] = false;
    }
}

/* From now on the coordinates are those of the list; gives whether all are in range. The length of
 * what depends on an index is read only where that index is in range: at 0 elsewhere. */
ValueId plain_go_elsewhere(PlainBuilder *b, ValueId list) {
    ValueId inside = 0, index_of[LS_AXES_MAX] = {0};
    for (; list; list = b->f->values[list].arg[1])
        index_of[b->f->values[list].payload] = b->value_of[b->f->values[list].arg[0]];
    for (uint32_t a = 0; a < b->f->axis_count; a++) {
        const Axis *row = &b->f->axes[a];
        if (!index_of[a]) continue;
        if (b->nest->values->values[index_of[a]].type != TYPE_I64)
            index_of[a] = ir_cast(b->nest->values, TYPE_I64, index_of[a]);
        const ValueId length = nest_index_value(b->nest, plain_measure(b, a));
        const ValueId in = op(b, OP_AND, op(b, OP_GE, index_of[a], integer(b, 0)),
                              op(b, OP_LT, index_of[a], length));
        inside = plain_let(b, "inside", plain_and_of(b, inside, in), (Range){0});
        const ValueId safe = ir_op(b->nest->values, OP_SELECT, inside, index_of[a], integer(b, 0));
        const SymbolId at = plain_symbol_of(b, safe, "at");
        b->inside = plain_symbol_of(b, inside, "inside");
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
