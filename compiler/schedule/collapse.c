/* collapse.c: which axes of a phase one loop can cover (loop coalescing): neighbours in every array
 * that the phase touches, whose coordinates no value requests. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

typedef struct Collapse {
    const Plan *plan;
    const Function *f;
    const Phase *phase;
    ls_image_layout layout;
    bool fused;
} Collapse;

/* Whether the axis counts elements within blocks that the phase visits one by one. */
static bool is_split(const Collapse *w, uint32_t axis) {
    const int whole = w->f->axes[axis].whole;
    return whole >= 0 && w->f->axes[whole].rest == (int)axis && w->phase->inner >> axis & 1 &&
           !(w->phase->inner >> w->f->axes[axis].parent & 1);
}

static bool touches(const Collapse *w, uint32_t array) {
    if (plan_value_reads(w->plan, w->phase, array)) return true;
    for (size_t i = 0; i < w->phase->store_count; i++)
        if (w->phase->stores[i].array == array && w->phase->stores[i].kind != STORE_ADD)
            return true;
    return false;
}

/* The smallest unit that one loop covers: an axis, or the q and k of blocks when the set has both.
 */
static AxisSet unit_at(const Collapse *w, AxisSet axes, uint32_t axis) {
    const int whole = w->f->axes[axis].whole;
    const AxisSet unit = whole < 0 ? 0 : ir_expand(w->f, (AxisSet)1 << whole);
    return unit && (axes & unit) == unit ? unit : (AxisSet)1 << axis;
}

/* Whether a value with these axes, read or written along `collapsed` of them, lets the units a and
 * b join.
 */
static bool lets_join(AxisSet axes, AxisSet collapsed, AxisSet a, AxisSet b) {
    const AxisSet up_to_a = 2 * ((AxisSet)1 << (31 - __builtin_clz(a))) - 1;
    const AxisSet between = (((AxisSet)1 << __builtin_ctz(b)) - 1) & ~up_to_a;
    if ((collapsed & (a | b)) == 0) return true;
    return (collapsed & (a | b)) == (a | b) && !(axes & between);
}

static bool value_lets_join(const Collapse *w, ValueId v, AxisSet a, AxisSet b) {
    const Value *value = &w->f->values[v];
    if (value->op == OP_INDEX) return !((a | b) >> value->payload & 1);
    if (value->op == OP_SIZE) return !(value->axes & (a | b)); /* its length differs along them */
    if (value->op == OP_POSITION)
        return lets_join((AxisSet)value->payload, (AxisSet)value->payload, a, b);
    if ((value->op != OP_GATHER && !ir_is_scatter(value)) || plan_is_read(w->plan, w->phase, v))
        return true;
    AxisSet axes = value->op == OP_GATHER ? w->f->values[value->arg[0]].axes : value->axes;
    const int list = ir_list_axis(w->f, axes);
    if (list >= 0 && (a | b) >> list & 1) return false; /* it chooses the tensor */
    return lets_join(axes, axes & ~ir_listed(w->f, value->arg[1]), a, b);
}

/* An array over q and k has room for a whole last block, so nothing before q runs on into it. */
static bool array_lets_join(const Collapse *w, uint32_t array, AxisSet a, AxisSet b) {
    const Array *row = &w->plan->arrays[array];
    const bool parameter = row->parameter != UINT32_MAX;
    if (parameter && b & (b - 1) & w->f->parameters[row->parameter].declared) return false;
    return lets_join(row->axes, row->axes, a, b);
}

/* Whether unit b, the next of its set after a, can be covered by one loop with it: every array has
 * both or neither, with nothing between, and no value requests the coordinate of either. */
static bool joins(const Collapse *w, AxisSet a, AxisSet b) {
    if (w->layout != LS_LAYOUT_DENSE) return false;
    /* the phases of a row fusion have the same chunks of columns */
    const AxisSet outer = w->phase->outer;
    if (w->fused && w->phase->shape == SHAPE_COLUMNS && outer & b && b > (outer & ~b)) return false;
    for (uint32_t axis = 0; axis < w->f->axis_count; axis++) /* the last block's length differs */
        if (is_split(w, axis) && (a | b) >> w->f->axes[axis].parent & 1) return false;
    for (uint32_t i = 0; i < w->plan->array_count; i++)
        if (touches(w, i) && !array_lets_join(w, i, a, b)) return false;
    for (size_t i = 0; i < w->phase->value_count; i++)
        if (!value_lets_join(w, w->phase->values[i], a, b)) return false;
    return true;
}

size_t schedule_units(const Plan *plan, uint32_t phase, AxisSet axes, ls_image_layout layout,
                      bool fused, AxisSet *units) {
    const Collapse w = {plan, plan->function, &plan->phases[phase], layout, fused};
    size_t count = 0;
    AxisSet before = 0;
    for (uint32_t axis = 0; axis < w.f->axis_count; axis++) {
        if (!(axes & ~before & ~(((AxisSet)1 << axis) - 1)) || !(axes >> axis & 1)) continue;
        const AxisSet unit = unit_at(&w, axes, axis);
        if (unit == before) continue;
        if (before && joins(&w, before, unit))
            units[count - 1] |= unit;
        else
            units[count++] = unit;
        before = unit;
    }
    return count;
}
