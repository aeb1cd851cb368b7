/* reduce.c: reductions as NUMERICS defines them, over the elements in order. */
#include "interp.h"

#include <math.h>

enum { TILE = 1024, LANES = 128, ROWS = 8 };

static uint64_t combine(Op op, Type type, uint64_t a, uint64_t b) {
    return number_apply(op, type, (Type[3]){type, type}, 0, (uint64_t[3]){a, b});
}

/* Of `count` values the pairs, in place; what is missing is padding, and two paddings make one. */
static int pair_up(Op op, Type type, uint64_t *x, int count, uint64_t padding) {
    if (count & 1) x[count] = padding;
    for (int i = 0; i < count; i += 2) x[i / 2] = combine(op, type, x[i], x[i + 1]);
    return (count + 1) / 2;
}

/* The value of one tile: pairs of pairs of pairs down the rows of each lane, then neighbours. */
static uint64_t tile(Op op, Type type, const uint64_t *x, int64_t n, uint64_t padding) {
    uint64_t lane[LANES], row[ROWS];
    int lanes = n < LANES ? (int)n : LANES;
    if (n == 0) return padding;
    for (int l = 0; l < lanes; l++) {
        int rows = 0;
        for (int64_t i = l; i < n; i += LANES) row[rows++] = x[i];
        for (int left = ROWS; left > 1; left /= 2) rows = pair_up(op, type, row, rows, padding);
        lane[l] = row[0];
    }
    for (int left = LANES; left > 1; left /= 2) lanes = pair_up(op, type, lane, lanes, padding);
    return lane[0];
}

/* The reduction tree of templates/README.md. */
static uint64_t tree(Op op, Type type, uint64_t *x, int64_t n, uint64_t padding) {
    if (n <= TILE) return tile(op, type, x, n, padding);
    int64_t tiles = 0;
    for (int64_t i = 0; i < n; i += TILE) /* x[tiles] lies before what is still to be read */
        x[tiles++] = tile(op, type, x + i, n - i < TILE ? n - i : TILE, padding);
    return tree(op, type, x, tiles, padding);
}

static uint64_t reduce_sum(Type type, uint64_t *x, int64_t n) {
    if (n == 0) return number_from_double(type, 0.0);
    return tree(OP_ADD, type, x, n, number_from_double(type, -0.0));
}

static uint64_t reduce_prod(Type type, uint64_t *x, int64_t n) {
    return tree(OP_MUL, type, x, n, number_from_double(type, 1.0));
}

static uint64_t reduce_min(Type type, uint64_t *x, int64_t n) {
    uint64_t best = number_from_double(type, INFINITY); /* saturates to the most of an integer */
    for (int64_t i = 0; i < n; i++) best = combine(OP_MIN, type, best, x[i]);
    return best;
}

static uint64_t reduce_max(Type type, uint64_t *x, int64_t n) {
    uint64_t best = number_from_double(type, -INFINITY);
    for (int64_t i = 0; i < n; i++) best = combine(OP_MAX, type, best, x[i]);
    return best;
}

static uint64_t reduce_any(Type type, uint64_t *x, int64_t n) {
    (void)type;
    for (int64_t i = 0; i < n; i++)
        if (x[i]) return 1;
    return 0;
}

static uint64_t reduce_all(Type type, uint64_t *x, int64_t n) {
    (void)type;
    for (int64_t i = 0; i < n; i++)
        if (!x[i]) return 0;
    return 1;
}

/* The first that no other beats. A NaN beats a number; the smaller of two numbers wins, -0 before
 * +0. */
static uint64_t reduce_arg(Op best_of, Type type, const uint64_t *x, int64_t n) {
    int64_t best = n > 0 ? 0 : -1;
    for (int64_t i = 1; i < n && !isnan(number_to_double(type, x[best])); i++) {
        bool is_nan = isnan(number_to_double(type, x[i]));
        bool wins = combine(best_of, type, x[best], x[i]) == x[i] && x[i] != x[best];
        if (is_nan || wins) best = i;
    }
    return (uint64_t)best;
}

static uint64_t reduce_argmin(Type type, uint64_t *x, int64_t n) {
    return reduce_arg(OP_MIN, type, x, n);
}

static uint64_t reduce_argmax(Type type, uint64_t *x, int64_t n) {
    return reduce_arg(OP_MAX, type, x, n);
}

/* In one read: per tile its maximum m and the sum s of exp(x - m); M the maximum of all; then
 * M + log(R(s * exp(m - M))). An m that is not finite takes no part in the subtraction; an M that
 * is not finite is the result. */
static uint64_t reduce_logsumexp(Type type, uint64_t *x, int64_t n) {
    uint64_t most = reduce_max(type, x, n);
    if (!isfinite(number_to_double(type, most))) return most;
    const uint64_t padding = number_from_double(type, -0.0);
    int64_t tiles = 0;
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t length = n - i < TILE ? n - i : TILE;
        uint64_t m = reduce_max(type, x + i, length);
        uint64_t base = isfinite(number_to_double(type, m)) ? m : number_from_double(type, 0.0);
        for (int64_t k = i; k < i + length; k++)
            x[k] = combine(OP_EXP, type, combine(OP_SUB, type, x[k], base), 0);
        uint64_t s = tile(OP_ADD, type, x + i, length, padding);
        uint64_t scale = combine(OP_EXP, type, combine(OP_SUB, type, m, most), 0);
        x[tiles++] = combine(OP_MUL, type, s, scale);
    }
    uint64_t total = tree(OP_ADD, type, x, tiles, padding);
    return combine(OP_ADD, type, most, combine(OP_LOG, type, total, 0));
}

typedef uint64_t (*Reduce)(Type type, uint64_t *x, int64_t n);
static const Reduce reductions[OP_COUNT] = {
    [OP_SUM] = reduce_sum,        [OP_PROD] = reduce_prod,     [OP_REDUCE_MIN] = reduce_min,
    [OP_REDUCE_MAX] = reduce_max, [OP_ANY] = reduce_any,       [OP_ALL] = reduce_all,
    [OP_ARGMIN] = reduce_argmin,  [OP_ARGMAX] = reduce_argmax, [OP_LOGSUMEXP] = reduce_logsumexp,
};

uint64_t number_reduce(Op op, Type type, uint64_t *x, int64_t n) {
    return reductions[op](type, x, n);
}
