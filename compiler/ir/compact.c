/* compact.c: scatters into as few rows as can be needed.
 *
 * Needs a simplified function; gives one with the same stores' values, to be simplified again where
 * it changed. A sum over [v, c] of what goes to rows of v that indices over [t] name has at most as
 * many rows that are not 0 as there are indices. Where v is longer than t, such a row is numbered
 * by the first index that names it (the SCATTER_MIN of the positions over t, which derive.c makes
 * for the same list), else by its place in v. The scatter goes to rows of those numbers, which are
 * within [t] (ir_scatter), and where its elements are needed they are gathered from there. So the
 * gradient of an embedding clears, adds to and reads as many rows as there are tokens.
 *
 * Rows are of the slowest axes of the result; the indices vary over plain axes, and not along what
 * they do not list. */
#include "base/base.h"
#include "ir/ir.h"

static bool fits(const Function *f, const Value *v) {
    if (v->op != OP_SCATTER || ir_scatter_within(v)) return false;
    const AxisSet listed = ir_listed(f, v->arg[1]), along = f->values[v->arg[1]].axes;
    const AxisSet columns = v->axes & ~listed;
    if (!along || !columns) return false;
    if (!ir_are_plain(f, listed | along | columns) || (along & columns)) return false;
    if (!(listed & ~along)) return false;      /* no more rows than indices */
    return listed < (columns & (0 - columns)); /* the highest bit is the fastest axis */
}

static ValueId elements(Function *f, AxisSet axes) {
    ValueId count = ir_constant(f, TYPE_I64, 1);
    for (AxisSet left = axes; left; left &= left - 1)
        count = ir_op(f, OP_MUL, count, ir_size(f, (uint32_t)__builtin_ctz(left)), 0);
    return count;
}

static ValueId index_of(const Function *f, ValueId list, uint32_t axis) {
    while (f->values[list].payload != axis) list = f->values[list].arg[1];
    return f->values[list].arg[0];
}

/* The list that has the flat index over the axes. */
static ValueId list_of(Function *f, ValueId flat, AxisSet axes) {
    ValueId list = 0;
    for (AxisSet left = axes; left;) {
        const uint32_t axis = 31 - (uint32_t)__builtin_clz(left);
        const ValueId size = ir_size(f, axis);
        left &= ~((AxisSet)1 << axis);
        list = ir_list(f, left ? ir_op(f, OP_MOD, flat, size, 0) : flat, list, axis);
        if (left) flat = ir_op(f, OP_FLOORDIV, flat, size, 0);
    }
    return list;
}

static ValueId compact_scatter(Function *f, ValueId q, ValueId list, AxisSet axes) {
    const AxisSet listed = ir_listed(f, list), along = f->values[list].axes;
    const ValueId first = ir_scatter(f, OP_SCATTER_MIN, ir_position(f, along), list, listed, 0);
    const ValueId few = ir_op(f, OP_LE, elements(f, listed), elements(f, along), 0);
    ValueId flat = ir_constant(f, TYPE_I64, 0);
    for (AxisSet left = listed; left; left &= left - 1) {
        const uint32_t axis = (uint32_t)__builtin_ctz(left);
        flat = ir_op(f, OP_MUL, flat, ir_size(f, axis), 0);
        flat = ir_op(f, OP_ADD, flat, index_of(f, list, axis), 0);
    }
    const ValueId inside = gather_in_range(f, list, listed);
    const ValueId nowhere = ir_constant_number(f, TYPE_I64, -1);
    ValueId row = ir_op(f, OP_SELECT, few, flat, ir_gather(f, first, list));
    if (inside) row = ir_op(f, OP_SELECT, inside, row, nowhere);
    const ValueId sums = ir_scatter(f, OP_SCATTER, q, list_of(f, row, listed), axes, along);
    row = ir_op(f, OP_SELECT, few, ir_position(f, listed), first);
    return ir_gather(f, sums, list_of(f, row, listed));
}

Function *compact(Function *f) {
    Function *out = ir_function_like(f);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    bool found = false;
    for (ValueId id = 1; id < f->value_count; id++) found |= fits(f, &f->values[id]);
    if (!found) return f;
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        const ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        const ValueId first_new = (ValueId)out->value_count;
        map[id] = fits(f, v) ? compact_scatter(out, args[0], args[1], v->axes)
                             : ir_rebuild(out, f, id, args);
        for (ValueId made = first_new; made < out->value_count; made++)
            ir_set_source(out, made, v->range, NULL);
    }
    ir_copy_stores(out, f, map);
    return ir_compact(out);
}
