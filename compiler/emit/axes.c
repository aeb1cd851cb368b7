/* axes.c: the axes of a phase: their lengths in generated code, and which are walked as one. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

bool emit_is_rest(const Emitter *e, uint32_t axis) {
    const int whole = e->f->axes[axis].whole;
    return whole >= 0 && e->f->axes[whole].rest == (int)axis;
}

bool emit_is_split(const Emitter *e, uint32_t axis) {
    return emit_is_rest(e, axis) && e->phase->inner >> axis & 1 &&
           !(e->phase->inner >> e->f->axes[axis].parent & 1);
}

int emit_list_of(const Emitter *e, uint32_t axis) {
    const Axis *row = &e->f->axes[axis];
    return ir_list_axis(e->f, (AxisSet)1 << (emit_is_rest(e, axis) ? row->parent : (int)axis));
}

bool emit_is_list(const Emitter *e, uint32_t array) {
    return ir_list_axis(e->f, e->plan->arrays[array].axes) >= 0;
}

static const char *coordinate_of(Emitter *e, uint32_t axis) {
    const AxisSet own = (AxisSet)1 << axis;
    if (e->list == (int)axis) return e->tensor.name;
    for (size_t i = 0; i < e->outer_count; i++)
        if (e->outer[i].axes == own) return e->outer[i].name;
    for (size_t i = 0; i < e->inner_count; i++)
        if (e->inner[i].axes == own) return e->inner[i].name;
    bug(e->compiler, "axis %u has no coordinate of its own", axis);
}

const char *emit_size(Emitter *e, uint32_t axis) {
    const Axis *row = &e->f->axes[axis];
    if (emit_is_rest(e, axis) && !emit_is_split(e, axis))
        return arena_printf(e->arena, "ls_least(%lld, %s - %lld * %s)", (long long)row->length,
                            emit_size(e, (uint32_t)row->whole), (long long)row->length,
                            coordinate_of(e, (uint32_t)row->parent));
    const int list = emit_list_of(e, axis);
    if (list < 0 || emit_is_rest(e, axis) || list == e->list) return e->size_name[axis];
    return arena_printf(e->arena, "a->%s[%s]", e->size_name[axis],
                        coordinate_of(e, (uint32_t)list));
}

bool emit_in_loop_columns(const Emitter *e) {
    const Phase *phase = e->phase;
    if (e->target->simt) return false;
    return phase->shape == SHAPE_COLUMNS ||
           (phase->shape == SHAPE_SCAN && phase->outer > phase->inner);
}

static bool touches(const Emitter *e, uint32_t array) {
    if (plan_value_reads(e->plan, e->phase, array)) return true;
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].array == array && e->phase->stores[i].kind != STORE_ADD)
            return true;
    return false;
}

/* The least that is walked as one: an axis, or q and k of blocks when the set has both. */
static AxisSet unit_at(const Emitter *e, AxisSet axes, uint32_t axis) {
    const int whole = e->f->axes[axis].whole;
    const AxisSet unit = whole < 0 ? 0 : ir_expand(e->f, (AxisSet)1 << whole);
    return unit && (axes & unit) == unit ? unit : (AxisSet)1 << axis;
}

/* Whether what has `axes`, and is read or written along `walked` of them, lets units a and b join.
 */
static bool lets_join(AxisSet axes, AxisSet walked, AxisSet a, AxisSet b) {
    const AxisSet up_to_a = 2 * ((AxisSet)1 << (31 - __builtin_clz(a))) - 1;
    const AxisSet between = (((AxisSet)1 << __builtin_ctz(b)) - 1) & ~up_to_a;
    if ((walked & (a | b)) == 0) return true;
    return (walked & (a | b)) == (a | b) && !(axes & between);
}

static bool value_lets_join(const Emitter *e, ValueId v, AxisSet a, AxisSet b) {
    const Value *value = &e->f->values[v];
    if (value->op == OP_INDEX) return !((a | b) >> value->payload & 1);
    if (value->op == OP_SIZE) return !(value->axes & (a | b)); /* its length differs along them */
    if (value->op == OP_POSITION)
        return lets_join((AxisSet)value->payload, (AxisSet)value->payload, a, b);
    if ((value->op != OP_GATHER && value->op != OP_SCATTER) || plan_is_read(e->plan, e->phase, v))
        return true;
    AxisSet axes = value->op == OP_GATHER ? e->f->values[value->arg[0]].axes : value->axes;
    const int list = ir_list_axis(e->f, axes);
    if (list >= 0 && (a | b) >> list & 1) return false; /* it chooses the tensor */
    return lets_join(axes, axes & ~ir_listed(e->f, value->arg[1]), a, b);
}

/* An array over q and k has room for a whole last block, so nothing before q runs on into it. */
static bool array_lets_join(const Emitter *e, uint32_t array, AxisSet a, AxisSet b) {
    const Array *row = &e->plan->arrays[array];
    const bool parameter = row->parameter != UINT32_MAX;
    if (parameter && b & (b - 1) & e->f->parameters[row->parameter].declared) return false;
    return lets_join(row->axes, row->axes, a, b);
}

/* Whether unit b, the next of its set after a, can be walked as one with it: every array has both
 * or neither, with nothing between, and no value asks for the coordinate of either. */
static bool joins(const Emitter *e, AxisSet a, AxisSet b) {
    if (e->layout == LS_LAYOUT_STRIDED) return false;
    /* the phases of a chain have the same chunks of columns */
    const AxisSet outer = e->phase->outer;
    if (e->chained && e->phase->shape == SHAPE_COLUMNS && outer & b && b > (outer & ~b))
        return false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) /* the last block's length differs */
        if (emit_is_split(e, axis) && (a | b) >> e->f->axes[axis].parent & 1) return false;
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (touches(e, i) && !array_lets_join(e, i, a, b)) return false;
    for (size_t i = 0; i < e->phase->value_count; i++)
        if (!value_lets_join(e, e->phase->values[i], a, b)) return false;
    return true;
}

static void name_group(Emitter *e, Group *group) {
    Text name = text_open(e->arena), size = text_open(e->arena), most = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        if (!(group->axes >> axis & 1)) continue;
        const AxisSet unit = unit_at(e, group->axes, axis);
        const uint32_t own = unit & (unit - 1) ? (uint32_t)e->f->axes[axis].whole : axis;
        const char *star = size.size ? " * " : "";
        text_printf(&name, "%s%s", name.size ? "_" : "", e->f->axes[own].name);
        text_printf(&size, "%s%s", star, emit_size(e, own));
        if (emit_is_split(e, own))
            text_printf(&most, "%s%lld", star, (long long)e->f->axes[own].length);
        else
            text_printf(&most, "%s%s", star, emit_size(e, own));
        if (own != axis) axis++;
    }
    group->name = names_user(e, name.data);
    group->size = size.data;
    group->most = most.data;
}

static size_t find_groups(Emitter *e, AxisSet axes, Group *groups) {
    size_t count = 0;
    AxisSet before = 0;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        if (!(axes & ~before & ~(((AxisSet)1 << axis) - 1)) || !(axes >> axis & 1)) continue;
        const AxisSet unit = unit_at(e, axes, axis);
        if (unit == before) continue;
        if (before && joins(e, before, unit))
            groups[count - 1].axes |= unit;
        else
            groups[count++] = (Group){.axes = unit};
        before = unit;
    }
    for (size_t i = 0; i < count; i++) name_group(e, &groups[i]);
    return count;
}

void emit_open_axes(Emitter *e) {
    const AxisSet all = e->phase->outer | e->phase->inner;
    e->tensor = (Group){0};
    e->list = ir_list_axis(e->f, all);
    if (e->list >= 0)
        e->tensor = (Group){.axes = (AxisSet)1 << e->list,
                            .name = names_user(e, e->f->axes[e->list].name),
                            .size = e->size_name[e->list]};
    e->outer_count = find_groups(e, e->phase->outer & ~e->tensor.axes, e->outer);
    e->inner_count = find_groups(e, e->phase->inner, e->inner);
}

const char *emit_product(Emitter *e, const Group *groups, size_t count) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < count; i++) text_printf(&text, "%s%s", i ? " * " : "", groups[i].size);
    return count ? text.data : "1";
}

/* Whether another phase stores to it. In a kernel of several phases such memory is not constant,
 * and a GPU's compiler may read what is declared `const restrict` through a cache that thinks so;
 * and a phase may be inlined in one that writes what it reads. */
bool emit_changes(const Emitter *e, uint32_t array) {
    const bool matters = e->target->simt || e->followed[e->number - 1];
    for (size_t p = 0; matters && p < e->plan->phase_count; p++) {
        const Phase *phase = &e->plan->phases[p];
        for (size_t i = 0; phase != e->phase && i < phase->store_count; i++)
            if (phase->stores[i].array == array) return true;
    }
    return false;
}
