/* reduce.c: what TREE, FOLD and COMBINE make of their leaves.
 *
 * The canonical tree: tiles of 1024, in a tile the eight rows of each of 128 lanes by neighbours,
 * then the lanes by neighbours; of several tiles the same tree over their values. What is missing
 * is the identity. min, max, any, all, argmin and argmax are the same in any order; logsumexp takes
 * the exponentials of a tile below the tile's own maximum. See templates/README.md. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { TILE = 1024, LANES = 128, ROWS = 8 };

static uint64_t apply(Op op, Type type, uint64_t a, uint64_t b) {
    const uint64_t args[3] = {a, b, 0};
    uint64_t bits = 0;
    ir_evaluate(op, type, type, 0, args, &bits);
    return bits;
}

static Op combining(Op op) {
    switch (op) {
    case OP_SUM:
    case OP_LOGSUMEXP: return OP_ADD;
    case OP_PROD: return OP_MUL;
    case OP_REDUCE_MIN: return OP_MIN;
    case OP_REDUCE_MAX: return OP_MAX;
    case OP_ANY: return OP_OR;
    default: return OP_AND;
    }
}

static bool is_float(Type type) {
    return type_info[type].class == 'F';
}

bool nest_is_ordered(Op op, Type type) {
    return is_float(type) && (op == OP_SUM || op == OP_PROD || op == OP_LOGSUMEXP);
}

uint64_t nest_identity(Op op, Type type) {
    switch (op) {
    case OP_SUM: return ir_number_bits(type, -0.0);
    case OP_PROD: return ir_number_bits(type, 1.0);
    case OP_REDUCE_MIN: return ir_number_bits(type, INFINITY);
    case OP_ARGMIN:
    case OP_ARGMAX:
    case OP_ANY: return 0;
    case OP_ALL: return 1;
    default: return ir_number_bits(type, -INFINITY);
    }
}

/* Neighbours, then theirs; the count is a power of two. */
static uint64_t balanced(Op op, Type type, uint64_t *x, size_t count) {
    for (; count > 1; count /= 2)
        for (size_t i = 0; i < count; i += 2) x[i / 2] = apply(combining(op), type, x[i], x[i + 1]);
    return x[0];
}

static uint64_t tile(Op op, Type type, const uint64_t *x, size_t count) {
    const uint64_t identity = nest_identity(op == OP_LOGSUMEXP ? OP_SUM : op, type);
    uint64_t lanes[LANES], rows[ROWS];
    for (size_t l = 0; l < LANES; l++) {
        for (size_t r = 0; r < ROWS; r++)
            rows[r] = r * LANES + l < count ? x[r * LANES + l] : identity;
        lanes[l] = balanced(op, type, rows, ROWS);
    }
    return balanced(op, type, lanes, LANES);
}

static uint64_t tree(Op op, Type type, uint64_t *x, size_t count) {
    size_t tiles = 0;
    if (count <= TILE) return tile(op, type, x, count);
    for (size_t i = 0; i < count; i += TILE) /* x[tiles] is not needed any more */
        x[tiles++] = tile(op, type, x + i, count - i < TILE ? count - i : TILE);
    return tree(op, type, x, tiles);
}

static double number(Type type, uint64_t bits) {
    uint32_t half = (uint32_t)bits;
    double wide;
    float narrow;
    memcpy(&wide, &bits, sizeof wide);
    memcpy(&narrow, &half, sizeof narrow);
    return type == TYPE_F32 ? (double)narrow : wide;
}

/* A NaN is above and below every number; the first of equals counts. */
static uint64_t place_of(Op op, Type type, const uint64_t *x, size_t count) {
    const Op better = op == OP_ARGMIN ? OP_MIN : OP_MAX;
    size_t best = 0;
    if (!count) return UINT64_MAX;
    for (size_t i = 1; i < count; i++) {
        const bool nan = is_float(type) && isnan(number(type, x[best]));
        if (!nan && is_float(type) && isnan(number(type, x[i])))
            best = i;
        else if (!nan && x[i] != x[best] && apply(better, type, x[best], x[i]) == x[i])
            best = i;
    }
    return best;
}

static uint64_t greatest(Type type, const uint64_t *x, size_t count) {
    uint64_t max = nest_identity(OP_REDUCE_MAX, type);
    for (size_t i = 0; i < count; i++) max = apply(OP_MAX, type, max, x[i]);
    return max;
}

static uint64_t log_of_sum(Type type, uint64_t *x, size_t count) {
    const uint64_t max = greatest(type, x, count);
    size_t tiles = 0;
    if (!isfinite(number(type, max))) return max;
    for (size_t i = 0; i < count; i += TILE) {
        const size_t length = count - i < TILE ? count - i : TILE;
        const uint64_t m = greatest(type, x + i, length);
        const uint64_t base = isfinite(number(type, m)) ? m : ir_number_bits(type, 0.0);
        for (size_t k = i; k < i + length; k++)
            x[k] = apply(OP_EXP, type, apply(OP_SUB, type, x[k], base), 0);
        const uint64_t sum = tile(OP_SUM, type, x + i, length);
        const uint64_t scale = apply(OP_EXP, type, apply(OP_SUB, type, m, max), 0);
        x[tiles++] = apply(OP_MUL, type, sum, scale);
    }
    return apply(OP_ADD, type, max, apply(OP_LOG, type, tree(OP_SUM, type, x, tiles), 0));
}

uint64_t nest_reduce(Op op, Type type, uint64_t *x, size_t count) {
    if (op == OP_ARGMIN || op == OP_ARGMAX) return place_of(op, type, x, count);
    if (op == OP_LOGSUMEXP) return log_of_sum(type, x, count);
    if (op == OP_SUM && count == 0) return ir_number_bits(type, 0.0);
    return tree(op, type, x, count);
}

uint64_t nest_fold(Op op, Type type, uint64_t *x, size_t count) {
    return balanced(op, type, x, count);
}
