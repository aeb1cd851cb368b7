/* shard_pairs.c: reductions of which a tile of 1024 elements comes to two values.
 *
 * Needs tiles and their elements as axes; gives the two values of each tile, and what the values of
 * all tiles come to, with the bits of the reduction of all elements (NUMERICS): of a logsumexp the
 * greatest element m and the sum s of exp(x - m), of an argmin or argmax the best element and its
 * place in the tile. The best tile is the first of equals, and so is the place in it; a NaN wins in
 * a tile as it does among tiles. */
#include "base/base.h"
#include "ir/ir.h"

bool ir_has_pairs(Op op) {
    return op == OP_LOGSUMEXP || op == OP_ARGMIN || op == OP_ARGMAX;
}

static ValueId is_finite(Function *f, ValueId value) {
    return ir_op(f, OP_ISFINITE, value, 0, 0);
}

void ir_pairs_of_tiles(Function *f, Op op, ValueId element, AxisSet rest, ValueId pair[2]) {
    const Op best = op == OP_ARGMIN ? OP_REDUCE_MIN : OP_REDUCE_MAX;
    pair[0] = ir_reduce(f, best, element, rest);
    if (op != OP_LOGSUMEXP) {
        pair[1] = ir_reduce(f, op, element, rest);
        return;
    }
    const ValueId zero = ir_constant_number(f, (Type)f->values[element].type, 0);
    const ValueId base = ir_op(f, OP_SELECT, is_finite(f, pair[0]), pair[0], zero);
    const ValueId below = ir_op(f, OP_EXP, ir_op(f, OP_SUB, element, base, 0), 0, 0);
    pair[1] = ir_reduce(f, OP_SUM, below, rest);
}

/* M + log(sum of s exp(m - M)); an infinite M is itself. */
static ValueId finish_logsumexp(Function *f, ValueId greatest, ValueId sums, AxisSet over) {
    const ValueId all = ir_reduce(f, OP_REDUCE_MAX, greatest, over);
    const ValueId scale = ir_op(f, OP_EXP, ir_op(f, OP_SUB, greatest, all, 0), 0, 0);
    const ValueId sum = ir_reduce(f, OP_SUM, ir_op(f, OP_MUL, sums, scale, 0), over);
    const ValueId result = ir_op(f, OP_ADD, all, ir_op(f, OP_LOG, sum, 0, 0), 0);
    return ir_op(f, OP_SELECT, is_finite(f, all), result, all);
}

/* Of the best tile its place and the place in it, of no tile -1. */
static ValueId finish_place(Function *f, Op op, ValueId best, ValueId places, uint32_t tiles,
                            int64_t length) {
    const AxisSet over = (AxisSet)1 << tiles;
    const ValueId none = ir_constant(f, TYPE_I64, UINT64_MAX);
    const ValueId which = ir_reduce(f, op, best, over), tile = ir_index(f, tiles);
    const ValueId begin = ir_op(f, OP_MUL, tile, ir_constant(f, TYPE_I64, (uint64_t)length), 0);
    const ValueId place = ir_op(f, OP_ADD, places, begin, 0);
    const ValueId only = ir_op(f, OP_SELECT, ir_op(f, OP_EQ, tile, which, 0), place, none);
    return ir_op(f, OP_MAX, ir_reduce(f, OP_REDUCE_MAX, only, over), none, 0);
}

ValueId ir_pairs_finish(Function *f, Op op, ValueId first, ValueId second, uint32_t tiles,
                        int64_t length) {
    if (op == OP_LOGSUMEXP) return finish_logsumexp(f, first, second, (AxisSet)1 << tiles);
    return finish_place(f, op, first, second, tiles, length);
}
