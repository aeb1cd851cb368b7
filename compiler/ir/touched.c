/* touched.c: which rows indices name, in time that grows with the indices.
 *
 * Needs a simplified function; gives one with the same stores' values, to be simplified again where
 * it changed. `any[t](token == index(v))` compares each index with each row. It is whether the
 * SCATTER_MIN of positions over t at v = token holds one, which takes a step for each index and one
 * for each row, and is the same value by which a gradient knows the rows that it has (derive.c).
 * What else has to hold at an index, `and mask`, makes it name no row where it does not. */
#include "base/base.h"
#include "ir/ir.h"

/* What has to hold: an index that equals that of an axis, and a condition of the index's own. */
typedef struct Touch {
    ValueId index, mask; /* mask: 0: none */
    uint32_t axis;
} Touch;

static bool equals_axis(const Function *f, ValueId a, ValueId b, AxisSet over, Touch *touch) {
    const Value *index = &f->values[a], *axis = &f->values[b];
    const AxisSet self = (AxisSet)1 << (axis->payload & 31);
    if (axis->op != OP_INDEX || index->type != TYPE_I64 || !index->axes) return false;
    if ((index->axes & ~over) || (over & self)) return false;
    if (!ir_are_plain(f, over | self)) return false;
    *touch = (Touch){a, 0, (uint32_t)axis->payload};
    return true;
}

/* Whether the bool is that, over the axes `over` and the one that is indexed. */
static bool find(const Function *f, ValueId condition, AxisSet over, Touch *touch) {
    const Value *v = &f->values[condition];
    if (v->op == OP_BROADCAST) return find(f, v->arg[0], over, touch);
    if (v->op == OP_EQ)
        return equals_axis(f, v->arg[0], v->arg[1], over, touch) ||
               equals_axis(f, v->arg[1], v->arg[0], over, touch);
    if (v->op != OP_AND) return false;
    for (int i = 0; i < 2; i++)
        if (!(f->values[v->arg[1 - i]].axes & ~over) && find(f, v->arg[i], over, touch)) {
            const ValueId mask = v->arg[1 - i];
            touch->mask = touch->mask ? 0 : mask;
            return touch->mask != 0; /* of two masks: none of them */
        }
    return false;
}

static bool fits(const Function *f, const Value *v, Touch *touch) {
    const AxisSet over = (AxisSet)v->payload;
    return v->op == OP_ANY && find(f, v->arg[0], over, touch) &&
           v->axes == (AxisSet)1 << touch->axis;
}

static ValueId touched(Function *f, Touch touch, AxisSet over) {
    ValueId index = touch.index;
    if (touch.mask)
        index = ir_op(f, OP_SELECT, touch.mask, index, ir_constant_number(f, TYPE_I64, -1));
    index = ir_broadcast(f, index, over);
    const ValueId list = ir_list(f, index, 0, touch.axis);
    const ValueId first = ir_scatter(f, OP_SCATTER_MIN, ir_position(f, f->values[index].axes), list,
                                     (AxisSet)1 << touch.axis, 0);
    return ir_op(f, OP_NE, first, ir_constant(f, TYPE_I64, INT64_MAX), 0);
}

Function *find_touched(Function *f) {
    Function *out = ir_function_like(f);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    bool found = false;
    Touch touch;
    for (ValueId id = 1; id < f->value_count; id++) found |= fits(f, &f->values[id], &touch);
    if (!found) return f;
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        const ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        if (fits(f, v, &touch)) {
            touch.index = map[touch.index];
            touch.mask = map[touch.mask];
            map[id] = touched(out, touch, (AxisSet)v->payload);
            ir_set_source(out, map[id], v->range, v->name);
        } else {
            map[id] = ir_rebuild(out, f, id, args);
        }
    }
    ir_copy_stores(out, f, map);
    return ir_compact(out);
}
