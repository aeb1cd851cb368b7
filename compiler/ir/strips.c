/* strips.c: strip-mining of an axis that no iteration of a `for` crosses.
 *
 * Needs the simplified function of a part that is all of its loop's body; gives one with the same
 * values, or f itself. Where every value that an iteration stores varies over one axis and none is
 * made of what lies elsewhere along it, the loop over that axis and the `for` can be interchanged:
 * whoever runs all iterations of a strip of the axis waits for nobody. The function then says where
 * its strip lies: two axes are added, whose lengths are where the strip begins and how long the
 * axis is in all, and what asks for a coordinate, or a length, has that of the whole axis. With a
 * strip that begins at 0 and is the whole axis, it is the same function as before. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

/* ---- which axis ---- */

/* What the value takes from elsewhere along the axis, or NULL. Brackets that lead to other places
 * along it read what another strip may store, or what is not in the view of this one. */
static const char *crosses(const Function *f, const Value *v, uint32_t axis) {
    const AxisSet set = (AxisSet)1 << axis;
    const char *name = f->axes[axis].name, *op = op_info[v->op].name;
    const bool varies = v->axes & set;
    if (op_info[v->op].flags & OP_REDUCTION) {
        if ((AxisSet)v->payload & set)
            return arena_printf(f->arena, "a %s goes along %s", op, name);
        return varies ? NULL : arena_printf(f->arena, "a %s is the same all along %s", op, name);
    }
    if (v->op == OP_SCAN) {
        if ((v->payload & 31) == axis) return arena_printf(f->arena, "a scan goes along %s", name);
        return varies ? NULL : arena_printf(f->arena, "a scan is the same all along %s", name);
    }
    if (v->op == OP_GATHER)
        return f->values[v->arg[0]].axes & ir_listed(f, v->arg[1]) & set
                   ? arena_printf(f->arena, "brackets lead to other places along %s", name)
                   : NULL;
    const bool scatters = ir_is_scatter(v);
    return scatters && (!varies || !(f->values[v->arg[0]].axes & set) ||
                        ((ir_listed(f, v->arg[1]) | ir_scatter_within(v)) & set))
               ? arena_printf(f->arena, "what indices name goes along %s", name)
               : NULL;
}

/* Why strips of the axis are not apart, or NULL: they are. */
static const char *joined(const Function *f, const bool *needed, uint32_t axis) {
    for (size_t i = 0; i < f->store_count; i++) {
        const Parameter *p = &f->parameters[f->stores[i].parameter];
        if (!(p->axes >> axis & 1))
            return arena_printf(f->arena, "%s has no axis %s", p->name, f->axes[axis].name);
    }
    for (ValueId v = 1; v < f->value_count; v++) {
        const char *why = needed[v] ? crosses(f, &f->values[v], axis) : NULL;
        if (why) return why;
    }
    return NULL;
}

/* Whether the part of every array that a strip has is contiguous where the array is. */
bool strips_are_contiguous(const Function *f, uint32_t axis) {
    for (size_t i = 0; i < f->parameter_count; i++) {
        const AxisSet axes = f->parameters[i].axes, before = ((AxisSet)1 << axis) - 1;
        if ((axes >> axis & 1) && (axes & before)) return false;
    }
    return true;
}

/* The axes of what an iteration stores, all or those that every store has. */
static AxisSet stored_axes(const Function *f, bool common) {
    AxisSet axes = common ? ir_all_axes(f) : 0;
    for (size_t i = 0; i < f->store_count; i++) {
        const AxisSet own = f->parameters[f->stores[i].parameter].axes;
        axes = common ? axes & own : axes | own;
    }
    return axes;
}

/* The axis, or -1 and *why: rather one whose strips are contiguous, then the slowest. Arrays of
 * tensors have no strips. */
static int find_axis(const Function *f, const char **why) {
    const bool *needed = ir_needed(f);
    const AxisSet common = stored_axes(f, true), tried = common ? common : stored_axes(f, false);
    AxisSet used = stored_axes(f, false);
    int found = -1;
    *why = "what an iteration stores has no axis";
    for (ValueId v = 1; v < f->value_count; v++)
        if (needed[v]) used |= f->values[v].axes;
    for (size_t i = 0; i < f->parameter_count; i++) used |= f->parameters[i].axes;
    if (ir_list_axis(f, used) >= 0) {
        *why = "an iteration goes over tensors";
        return -1;
    }
    for (uint32_t a = (uint32_t)f->axis_count; a-- > 0;) {
        if (!(tried >> a & 1) || !ir_are_plain(f, (AxisSet)1 << a)) continue;
        const char *own = joined(f, needed, a);
        if (own)
            *why = own;
        else if (found < 0 || strips_are_contiguous(f, a) ||
                 !strips_are_contiguous(f, (uint32_t)found))
            found = (int)a;
    }
    if (found >= 0) *why = NULL;
    return found;
}

/* ---- the function ---- */

static const char *free_name(const Function *f, const char *name) {
    for (size_t i = 0; i < f->axis_count; i++)
        if (strcmp(f->axes[i].name, name) == 0)
            return free_name(f, arena_printf(f->arena, "%s_", name));
    return name;
}

static void add_axes(Function *out, const Function *f, uint32_t axis, Iteration *iteration) {
    Axis *axes = arena_alloc(f->arena, (f->axis_count + 2) * sizeof *axes);
    memcpy(axes, f->axes, f->axis_count * sizeof *axes);
    const char *name = f->axes[axis].name;
    axes[axis].fixed = -1;
    iteration->strip = (int)axis;
    iteration->begin = (uint32_t)f->axis_count;
    iteration->all = (uint32_t)f->axis_count + 1;
    axes[iteration->begin] =
        ir_axis(free_name(f, arena_printf(f->arena, "%s_begin", name)), -1, f->axes[axis].range);
    axes[iteration->all] =
        ir_axis(free_name(f, arena_printf(f->arena, "%s_all", name)), -1, f->axes[axis].range);
    out->axes = axes;
    out->axis_count = f->axis_count + 2;
}

/* The product of the lengths of plain axes; 0: of none. */
static ValueId product(Function *f, AxisSet axes) {
    ValueId result = 0;
    for (uint32_t a = 0; a < f->axis_count; a++)
        if (axes >> a & 1)
            result = result ? ir_op(f, OP_MUL, result, ir_size(f, a), 0) : ir_size(f, a);
    return result;
}

static ValueId times(Function *f, ValueId a, ValueId b) {
    return b ? ir_op(f, OP_MUL, a, b, 0) : a;
}

/* The flat index over the axes, one of which has strips: of those from it on, shifted by what lies
 * ahead of the strip, and of those before it. */
static ValueId position(Function *f, const Iteration *iteration, AxisSet over) {
    const uint32_t strip = (uint32_t)iteration->strip;
    const AxisSet before = over & (((AxisSet)1 << strip) - 1);
    const ValueId rest = product(f, over & ~before & ~((AxisSet)1 << strip));
    const ValueId ahead = times(f, ir_size(f, iteration->begin), rest);
    const ValueId own = ir_op(f, OP_ADD, ir_position(f, over & ~before), ahead, 0);
    if (!before) return own;
    const ValueId one = times(f, ir_size(f, iteration->all), rest);
    return ir_op(f, OP_ADD, ir_op(f, OP_MUL, ir_position(f, before), one, 0), own, 0);
}

/* Whether the flat index is one over plain axes and the strip's, or without it. */
static bool knows_positions(const Function *f, uint32_t axis) {
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        const AxisSet over = (AxisSet)value->payload;
        if (value->op == OP_POSITION && (over >> axis & 1) && !ir_are_plain(f, over)) return false;
    }
    return true;
}

int strips_axis(const Function *f) {
    const char *why;
    return find_axis(f, &why);
}

Function *strip_mine(Function *f) {
    if (!f->iteration) return f;
    Iteration *iteration = arena_alloc(f->arena, sizeof *iteration);
    *iteration = *f->iteration;
    f->iteration = iteration;
    const int axis = find_axis(f, &iteration->why);
    if (axis >= 0 && f->axis_count + 2 > LS_AXES_MAX) iteration->why = "there are too many axes";
    if (axis >= 0 && !knows_positions(f, (uint32_t)axis))
        iteration->why = "a flat index goes over blocks";
    if (axis < 0 || iteration->why) return f;
    Function *out = ir_function_like(f);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    add_axes(out, f, (uint32_t)axis, iteration);
    out->iteration = iteration;
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        const ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        if (v->op == OP_SIZE && v->payload == (uint64_t)axis)
            map[id] = ir_size(out, iteration->all);
        else if (v->op == OP_INDEX && v->payload == (uint64_t)axis)
            map[id] = ir_op(out, OP_ADD, ir_index(out, (uint32_t)axis),
                            ir_size(out, iteration->begin), 0);
        else if (v->op == OP_POSITION && ((AxisSet)v->payload >> axis & 1))
            map[id] = position(out, iteration, (AxisSet)v->payload);
        else
            map[id] = ir_rebuild(out, f, id, args);
        ir_set_source(out, map[id], v->range, v->name);
    }
    ir_copy_stores(out, f, map);
    return out;
}
