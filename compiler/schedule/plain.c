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

static const char *value_name(PlainBuilder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    if (value->name) return value->name;
    if (value->op == OP_PARAMETER) return b->f->parameters[value->payload].name;
    for (size_t i = 0; b->phase && i < b->phase->store_count; i++)
        if (plan_stored(b->plan, b->phase, &b->phase->stores[i]) == v)
            return b->plan->arrays[b->phase->stores[i].array].name;
    return arena_printf(b->arena, "t%u", v);
}

static ValueId load(PlainBuilder *b, ValueId v, uint32_t array, SymbolId where) {
    const Value *value = &b->f->values[v];
    NestNode node = {.kind = NEST_LOAD, .where = where, .range = value->range};
    plain_place_node(b, array, &node);
    node.name = nest_symbol(b->nest, value_name(b, v), NAMED_VALUE, (Type)value->type);
    if (where) node.pad = ir_constant(b->nest->values, (Type)value->type, 0);
    plain_add(b, node);
    return nest_name(b->nest, node.name);
}

static ValueId build_gather(PlainBuilder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    const uint32_t source = plan_source(b->plan, b->phase, value->arg[0]);
    const PlainElsewhere own = plain_put_aside(b);
    if (!source) {
        plain_refuse(b, arena_printf(b->arena, "a gather %u from %u %s, which is in no array", v,
                                     value->arg[0], op_info[b->f->values[value->arg[0]].op].name));
        return ir_constant(b->nest->values, (Type)value->type, 0);
    }
    const ValueId inside = plain_go_elsewhere(b, value->arg[1]);
    const SymbolId where = inside ? plain_symbol_of(b, inside, "inside") : 0;
    const ValueId result = load(b, v, source - 1, where);
    plain_come_back(b, &own);
    return result;
}

/* ---- values ---- */

static ValueId call_list(PlainBuilder *b, ValueId list) {
    const Value *entry = &b->f->values[list];
    if (!list) return 0;
    return ir_list(b->nest->values, b->value_of[entry->arg[0]], call_list(b, entry->arg[1]),
                   entry->payload);
}

static ValueId leaf(PlainBuilder *b, const Value *value) {
    Index count;
    const uint32_t axis = (uint32_t)value->payload;
    static const char *const names[] = {"first_tensor", "first_element"};
    switch (value->op) {
    case OP_CONST: return ir_constant(b->nest->values, (Type)value->type, value->payload);
    case OP_SIZE: return nest_index_value(b->nest, plain_measure(b, axis));
    case OP_INDEX:
        return nest_index_value(b->nest, b->f->axes[axis].block >= 0
                                             ? plain_flat_coordinate(b, axis)
                                             : b->coordinate[axis]);
    case OP_POSITION:
        return nest_index_value(b->nest, plain_position(b, (AxisSet)value->payload, &count));
    default:
        if (!b->plain->first[value->payload & 1])
            b->plain->first[value->payload & 1] = nest_size(b->nest, names[value->payload & 1]);
        return nest_name(b->nest, b->plain->first[value->payload & 1]);
    }
}

static void build_value(PlainBuilder *b, ValueId v);

static ValueId operation(PlainBuilder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    ValueId args[3] = {0};
    const ValueId chosen = plan_selected(b->plan, b->phase, v);
    if (chosen) return b->value_of[chosen];
    if (value->op == OP_BROADCAST) return b->value_of[value->arg[0]];
    if (value->op == OP_CALL)
        return ir_call(b->nest->values, (uint32_t)value->payload, call_list(b, value->arg[0]));
    for (int i = 0; i < op_info[value->op].arity; i++) {
        if (value->arg[i]) build_value(b, value->arg[i]);
        args[i] = value->arg[i] ? b->value_of[value->arg[i]] : 0;
        if (value->arg[i] && !args[i]) {
            plain_refuse(b, arena_printf(b->arena, "%s of what the phase does not compute",
                                         op_info[value->op].name));
            return ir_constant(b->nest->values, (Type)value->type, 0);
        }
    }
    Value like = *value;
    like.axes = 0;
    if ((value->op == OP_EXP || value->op == OP_EXP_LITE) &&
        ir_is_never_positive(b->f, value->arg[0]))
        return ir_exp_nonpositive(b->nest->values, (Op)value->op, args[0]);
    return ir_make(b->nest->values, &like, args);
}

/* What a scan carries is what its body makes of it. */
static ValueId advance(PlainBuilder *b, const Value *scan) {
    const ValueId next = b->value_of[scan->arg[1]];
    plain_add(b, (NestNode){.kind = NEST_STORE,
                            .array = b->state_of[scan->arg[2]],
                            .at = nest_subscript(b->nest, plain_number(b, 0)),
                            .at_count = 1,
                            .value = next,
                            .range = scan->range});
    return next;
}

static ValueId running(PlainBuilder *b, ValueId v) {
    const SymbolId id =
        nest_symbol(b->nest, value_name(b, v), NAMED_VALUE, (Type)b->f->values[v].type);
    plain_add(b, (NestNode){.kind = NEST_LOAD,
                            .name = id,
                            .array = b->state_of[v],
                            .at = nest_subscript(b->nest, plain_number(b, 0)),
                            .at_count = 1});
    return nest_name(b->nest, id);
}

static void build_value(PlainBuilder *b, ValueId v) {
    const Value *value = &b->f->values[v];
    const uint8_t flags = op_info[value->op].flags;
    ValueId made;
    if (b->value_of[v]) return;
    if (plan_is_read(b->plan, b->phase, v)) {
        const uint32_t source = plan_source(b->plan, b->phase, v);
        if (!source) {
            plain_refuse(b, "a value that is read from no array");
            return;
        }
        b->value_of[v] = load(b, v, source - 1, 0);
        return;
    }
    if (value->op == OP_LIST || ir_is_scatter(value) || flags & OP_REDUCTION) return;
    if (value->op == OP_RUNNING)
        made = running(b, v);
    else if (value->op == OP_SCAN)
        made = advance(b, value);
    else if (flags & OP_LEAF)
        made = leaf(b, value);
    else if (value->op == OP_GATHER)
        made = build_gather(b, v);
    else
        made = plain_let(b, value_name(b, v), operation(b, v), value->range);
    b->value_of[v] = made;
}

static void build_values(PlainBuilder *b, Level level) {
    for (size_t i = 0; i < b->phase->value_count && !b->problem; i++)
        if (b->phase->levels[i] == level) build_value(b, b->phase->values[i]);
}

/* ---- stores ---- */

/* Whether the guards of the store hold that the phase does not know of. */
static ValueId condition(PlainBuilder *b, const PhaseStore *store) {
    ValueId v = store->value, all = 0;
    for (Guard guard; plan_keeps(b->plan, store->array, &v, &guard);) {
        if (!plan_is_open(b->plan, b->phase, store, guard)) continue;
        build_value(b, guard.condition);
        const ValueId c = b->value_of[guard.condition];
        all = plain_and_of(b, all, guard.holds ? c : ir_op(b->nest->values, OP_NOT, c, 0, 0));
    }
    return all;
}

/* Whether a scatter may add to the row at hand (ir_scatter); 0: to each. */
static ValueId rows_needed(PlainBuilder *b, ValueId scatter) {
    const Value *v = &b->f->values[scatter];
    const AxisSet within = ir_scatter_within(v);
    Index rows, count;
    if (!within) return 0;
    const Index row = plain_position(b, ir_listed(b->f, v->arg[1]), &rows);
    plain_position(b, within, &count);
    return ir_op(b->nest->values, OP_LT, nest_index_value(b->nest, row),
                 nest_index_value(b->nest, count), 0);
}

static void build_store(PlainBuilder *b, const PhaseStore *store) {
    const Array *array = &b->plan->arrays[store->array];
    const Type compute = type_info[array->type].compute;
    NestNode node = {.kind = NEST_STORE, .range = store->range};
    ValueId where = condition(b, store);
    const PlainElsewhere own = plain_put_aside(b);
    if (store->kind == STORE_ADD) {
        const Value *scatter = &b->f->values[store->value];
        node.kind = NEST_ADD;
        node.op = (Op)scatter->op;
        node.value = b->value_of[scatter->arg[0]];
        where = plain_and_of(b, where, plain_go_elsewhere(b, scatter->arg[1]));
    } else if (store->kind == STORE_CLEAR) {
        where = plain_and_of(b, where, rows_needed(b, array->value));
        const bool least = b->f->values[array->value].op == OP_SCATTER_MIN;
        node.value = ir_constant(b->nest->values, compute, least ? INT64_MAX : 0);
    } else {
        const ValueId stored = plan_stored(b->plan, b->phase, store);
        build_value(b, stored);
        node.value = b->value_of[stored];
    }
    if (!node.value) {
        plain_refuse(b, "a store of what the phase does not compute");
        return;
    }
    if (where) node.where = plain_symbol_of(b, where, "holds");
    plain_place_node(b, store->array, &node);
    plain_add(b, node);
    plain_come_back(b, &own);
}

static void build_stores(PlainBuilder *b, Level level) {
    for (size_t i = 0; i < b->phase->store_count && !b->problem; i++)
        if (b->phase->stores[i].level == level) build_store(b, &b->phase->stores[i]);
}

/* ---- phases ---- */

/* Coordinates, or lengths, of the axes: of dims, with room for the leaf. */
static Index *dims_of(PlainBuilder *b, AxisSet dims, bool lengths, size_t *count) {
    Index *at = nest_at(b->nest, LS_AXES_MAX + 1);
    *count = 0;
    for (uint32_t a = 0; a < b->f->axis_count; a++)
        if (dims >> a & 1) at[(*count)++] = lengths ? plain_measure(b, a) : b->coordinate[a];
    return at;
}

/* A tree for each reduction, and for each element of the axes `dims`. */
static void open_reductions(PlainBuilder *b, AxisSet dims) {
    for (size_t i = 0; i < b->phase->reduction_count; i++) {
        const ValueId v = b->phase->reductions[i];
        const Value *value = &b->f->values[v];
        const PlainPlace place = plain_enter(b);
        Index count = plain_number(b, 1);
        for (uint32_t a = 0; a < b->f->axis_count; a++) {
            if (!(b->phase->inner >> a & 1) || plain_is_rest_of(b->f, b->phase->inner, a)) continue;
            const int whole = plain_whole_at(b->f, b->phase->inner, a);
            const uint32_t own = whole >= 0 ? (uint32_t)whole : a;
            if (!plain_can_measure(b, own)) {
                plain_refuse(b, "a reduction over a list and its tensors");
                return;
            }
            count = index_multiply(b->arena, count, plain_measure(b, own));
        }
        plain_leave(b, place);
        size_t dim_count;
        Index *at = dims_of(b, dims, true, &dim_count);
        b->tree_of[v] = nest_symbol(b->nest, value_name(b, v), NAMED_TREE,
                                    (Type)b->f->values[value->arg[0]].type);
        plain_add(b, (NestNode){.kind = NEST_TREE,
                                .name = b->tree_of[v],
                                .op = (Op)value->op,
                                .type = (Type)b->f->values[value->arg[0]].type,
                                .extent = count,
                                .at = at,
                                .at_count = dim_count,
                                .range = value->range});
    }
}

static void push_reductions(PlainBuilder *b, AxisSet dims) {
    for (size_t i = 0; i < b->phase->reduction_count && !b->problem; i++) {
        const ValueId v = b->phase->reductions[i];
        size_t dim_count;
        Index count, *at = dims_of(b, dims, false, &dim_count);
        at[dim_count] = plain_position(b, b->phase->inner, &count);
        plain_add(b, (NestNode){.kind = NEST_PUSH,
                                .array = b->tree_of[v],
                                .at = at,
                                .at_count = dim_count + 1,
                                .value = b->value_of[b->f->values[v].arg[0]],
                                .range = b->f->values[v].range});
    }
}

static void combine_reductions(PlainBuilder *b, AxisSet dims) {
    for (size_t i = 0; i < b->phase->reduction_count && !b->problem; i++) {
        const ValueId v = b->phase->reductions[i];
        size_t dim_count;
        Index *at = dims_of(b, dims, false, &dim_count);
        const SymbolId id =
            nest_symbol(b->nest, value_name(b, v), NAMED_VALUE, (Type)b->f->values[v].type);
        plain_add(b, (NestNode){.kind = NEST_COMBINE,
                                .name = id,
                                .array = b->tree_of[v],
                                .at = at,
                                .at_count = dim_count,
                                .range = b->f->values[v].range});
        b->value_of[v] = nest_name(b->nest, id);
    }
}

/* A register for what each scan carries, with the value it begins with. */
static void open_scans(PlainBuilder *b) {
    for (size_t i = 0; i < b->phase->scan_count && !b->problem; i++) {
        const Value *scan = &b->f->values[b->phase->scans[i]];
        const char *name = arena_printf(b->arena, "%s_running", value_name(b, b->phase->scans[i]));
        const SymbolId state = nest_symbol(b->nest, name, NAMED_ALLOC, (Type)scan->type);
        b->state_of[scan->arg[2]] = state;
        plain_add(b, (NestNode){.kind = NEST_ALLOC,
                                .scope = SCOPE_REGISTER,
                                .name = state,
                                .at = nest_subscript(b->nest, plain_number(b, 1)),
                                .at_count = 1});
        build_value(b, scan->arg[0]);
        plain_add(b, (NestNode){.kind = NEST_STORE,
                                .array = state,
                                .at = nest_subscript(b->nest, plain_number(b, 0)),
                                .at_count = 1,
                                .value = b->value_of[scan->arg[0]]});
    }
}

static void build_inner(PlainBuilder *b, bool grid) {
    build_values(b, LEVEL_OUTER);
    build_stores(b, LEVEL_OUTER);
    open_reductions(b, 0);
    open_scans(b);
    if (b->problem) return;
    const PlainPlace place = plain_enter(b);
    plain_open_axes(b, b->phase->inner,
                    grid && !b->phase->reduction_count && !b->phase->scan_count);
    build_values(b, LEVEL_ELEMENT);
    push_reductions(b, 0);
    build_stores(b, LEVEL_ELEMENT);
    plain_leave(b, place);
    combine_reductions(b, 0);
    build_values(b, LEVEL_EPILOGUE);
    build_stores(b, LEVEL_EPILOGUE);
}

/* Around what has work only where the phase's conditions hold. */
static void open_guards(PlainBuilder *b) {
    for (size_t i = 0; i < b->phase->guard_count && !b->problem; i++) {
        const Guard *guard = &b->phase->guards[i];
        build_value(b, guard->condition);
        ValueId c = b->value_of[guard->condition];
        if (!guard->holds) c = ir_op(b->nest->values, OP_NOT, c, 0, 0);
        NestNode *when = plain_add(
            b, (NestNode){.kind = NEST_WHEN, .where = plain_symbol_of(b, c, "condition")});
        b->end = &when->body;
    }
}

static void begin_phase(PlainBuilder *b, uint32_t index) {
    b->phase = &b->plan->phases[index];
    if (!b->values[index])
        b->values[index] = arena_alloc(b->arena, b->f->value_count * sizeof *b->values[index]);
    b->value_of = b->values[index];
}

/* What the phase computes once, and all conditions on which its work and its stores depend. */
static void build_scalars(PlainBuilder *b, uint32_t index) {
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

static void build_phase(PlainBuilder *b, uint32_t index, bool grid) {
    begin_phase(b, index);
    const PlainPlace place = plain_enter(b);
    open_guards(b);
    build_stores(b, LEVEL_SCALAR);
    const bool scan = b->phase->shape == SHAPE_SCAN;
    const AxisSet outer = b->phase->outer;
    if (grid && (outer || scan)) {
        const int list = ir_list_axis(b->f, outer | b->phase->inner);
        plain_open_axes(b, outer, true);
        if (scan && list >= 0 && outer == (AxisSet)1 << list) plain_open_once(b, LOOP_SERIAL);
        if (!outer) plain_open_once(b, LOOP_GRID);
        build_inner(b, false);
    } else {
        plain_open_axes(b, b->phase->outer, false);
        build_inner(b, grid);
    }
    plain_leave(b, place);
}

static void grid_barrier(PlainBuilder *b) {
    plain_add(b, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_GRID});
}

/* ---- kernels ---- */

/* Whether there are several blocks to wait for. */
static bool has_grid(const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if ((node->kind == NEST_LOOP && node->loop == LOOP_GRID) || has_grid(node->body) ||
            has_grid(node->other))
            return true;
    return false;
}

/* What phases store when all of their work is done. */
static void build_tails(PlainBuilder *b, uint32_t first, uint32_t count) {
    bool arrived = false;
    for (uint32_t i = first; i < first + count && !b->problem; i++) {
        const Phase *phase = &b->plan->phases[i];
        bool any = false;
        for (size_t s = 0; s < phase->store_count; s++)
            any |= phase->stores[s].level == LEVEL_LAST_BLOCK;
        if (!any) continue;
        const bool waits = !arrived && phase->shape != SHAPE_SCALAR && has_grid(b->nest->body);
        if (waits) plain_add(b, (NestNode){.kind = NEST_ARRIVE});
        arrived |= waits;
        begin_phase(b, i);
        build_stores(b, LEVEL_LAST_BLOCK);
    }
}

/* One phase after the other; with barriers where one may need what another made. */
static void build_phases(PlainBuilder *b, uint32_t first, uint32_t count, bool barriers) {
    for (uint32_t i = first; i < first + count && !b->problem; i++) {
        if (barriers && i > first) grid_barrier(b);
        build_scalars(b, i);
        build_phase(b, i, true);
        if (barriers) build_tails(b, i, 1);
    }
    if (!barriers) build_tails(b, first, count);
}

/* All phases on a row, then on the next. */
static void build_rows(PlainBuilder *b, const Kernel *kernel, uint32_t count) {
    for (uint32_t i = kernel->first; i < kernel->first + count; i++) build_scalars(b, i);
    const PlainPlace place = plain_enter(b);
    plain_open_axes(b, kernel->outer, true);
    for (uint32_t i = kernel->first; i < kernel->first + count && !b->problem; i++)
        build_phase(b, i, false);
    plain_leave(b, place);
    build_tails(b, kernel->first, count);
}

/* What a phase down columns does with the row at hand: each of its reductions is a tree a column.
 */
static void build_row_of_columns(PlainBuilder *b, uint32_t index) {
    begin_phase(b, index);
    ValueId *own = b->value_of;
    const PlainPlace place = plain_enter(b);
    b->value_of = arena_alloc(b->arena, b->f->value_count * sizeof *own); /* of the row alone */
    memcpy(b->value_of, own, b->f->value_count * sizeof *own);
    open_guards(b);
    plain_open_axes(b, b->phase->outer, false);
    build_values(b, LEVEL_OUTER);
    build_values(b, LEVEL_ELEMENT);
    push_reductions(b, b->phase->outer);
    build_stores(b, LEVEL_ELEMENT);
    plain_leave(b, place);
    b->value_of = own;
}

/* And with the columns when all rows are through. */
static void build_rest_of_columns(PlainBuilder *b, uint32_t index) {
    begin_phase(b, index);
    const PlainPlace place = plain_enter(b);
    open_guards(b);
    build_stores(b, LEVEL_SCALAR);
    plain_open_axes(b, b->phase->outer, true);
    build_values(b, LEVEL_OUTER);
    build_stores(b, LEVEL_OUTER);
    combine_reductions(b, b->phase->outer);
    build_values(b, LEVEL_EPILOGUE);
    build_stores(b, LEVEL_EPILOGUE);
    plain_leave(b, place);
}

/* Row panels: all phases on a row, then on the next; what is made of columns comes behind them,
 * where the plan has a kernel of its own for it. */
static void build_panels(PlainBuilder *b, const Kernel *kernel) {
    const uint32_t end = kernel->first + kernel->count;
    const Phase *phases = b->plan->phases;
    for (uint32_t i = kernel->first; i < end && !b->problem; i++) {
        build_scalars(b, i);
        if (phases[i].shape == SHAPE_COLUMNS) open_reductions(b, phases[i].outer);
    }
    const PlainPlace place = plain_enter(b);
    plain_open_axes(b, kernel->outer, true);
    for (uint32_t i = kernel->first; i < end && !b->problem; i++)
        if (phases[i].shape == SHAPE_COLUMNS)
            build_row_of_columns(b, i);
        else
            build_phase(b, i, false);
    plain_leave(b, place);
    grid_barrier(b);
    for (uint32_t i = kernel->first; i < end && !b->problem; i++)
        if (phases[i].shape == SHAPE_COLUMNS) build_rest_of_columns(b, i);
    build_tails(b, kernel->first, kernel->count);
}

static void build_kernel(PlainBuilder *b, const Kernel *kernel) {
    const uint32_t mains = plan_mains(kernel), end = kernel->first + kernel->count;
    if (kernel->kind == KERNEL_FINISH) return; /* it is part of the nest of the one before it */
    if (kernel->kind == KERNEL_ROW_PANELS) {
        build_panels(b, kernel);
        return;
    }
    if (kernel->pre_reductions) {
        build_phases(b, kernel->first - kernel->pre_reductions, kernel->pre_reductions, true);
        grid_barrier(b);
    }
    if (kernel->kind == KERNEL_ROW_FUSION)
        build_rows(b, kernel, mains);
    else
        build_phases(b, kernel->first, mains, kernel->kind != KERNEL_HORIZONTAL);
    for (uint32_t i = kernel->first + mains; i < end && !b->problem; i++) {
        grid_barrier(b);
        build_phases(b, i, 1, true);
    }
}

PlainNest *schedule_plain(const Plan *plan, const Kernel *kernel, ls_image_layout layout,
                          Arena *arena, const char **problem) {
    const Function *f = plan->function;
    PlainNest *plain = arena_alloc(arena, sizeof *plain);
    PlainBuilder b = {.plan = plan,
                      .f = f,
                      .nest = nest_open(f->compiler, arena, f->name, f),
                      .arena = arena,
                      .plain = plain,
                      .layout = layout};
    b.arrays = arena_alloc(arena, (plan->array_count + 1) * sizeof *b.arrays);
    b.lengths = arena_alloc(arena, (f->axis_count + 1) * sizeof *b.lengths);
    if (layout != LS_LAYOUT_DENSE)
        b.strides = arena_alloc(arena, (plan->array_count + 1) * LS_AXES_MAX * sizeof *b.strides);
    b.values = arena_alloc(arena, (plan->phase_count + 1) * sizeof *b.values);
    b.tree_of = arena_alloc(arena, f->value_count * sizeof *b.tree_of);
    b.state_of = arena_alloc(arena, f->value_count * sizeof *b.state_of);
    b.end = &b.nest->body;
    plain_measure_all(&b);
    if (!b.problem) build_kernel(&b, kernel);
    *plain = (PlainNest){.nest = b.nest,
                         .arrays = b.arrays,
                         .lengths = b.lengths,
                         .first = {plain->first[0], plain->first[1]},
                         .strides = b.strides};
    *problem = b.problem;
    return b.problem ? NULL : plain;
}
