/* interp.c: arrays of elements, reductions, and the run of a function.
 *
 * Every value is computed once, whole, into an array over its axes (slowest first), in the order of
 * the IR, and given back after its last use. */
#include "interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Run {
    const Function *f;
    const int64_t *sizes;
    uint64_t **arrays; /* by value */
} Run;

static Type type_of(const Run *run, ValueId id) {
    return (Type)run->f->values[id].type;
}

static int64_t count_of(const Run *run, AxisSet axes) {
    int64_t count = 1;
    for (uint32_t a = 0; a < run->f->axis_count; a++)
        if (axes >> a & 1) count *= run->sizes[a];
    return count;
}

static uint64_t *new_array(int64_t count) {
    return malloc((size_t)(count > 0 ? count : 1) * sizeof(uint64_t));
}

/* For each coordinate over `axes`, in order, the index that an array over `of` has there. */
static int64_t *indices(const Run *run, AxisSet axes, AxisSet of) {
    int64_t count = count_of(run, axes), step[32] = {0}, coordinate[32] = {0}, index = 0;
    int64_t *table = (int64_t *)new_array(count);
    int64_t stride = 1;
    if (!table) return NULL;
    for (uint32_t a = (uint32_t)run->f->axis_count; a-- > 0;)
        if (of >> a & 1) step[a] = stride, stride *= run->sizes[a];
    for (int64_t i = 0; i < count; i++) {
        table[i] = index;
        for (uint32_t a = (uint32_t)run->f->axis_count; a-- > 0;) { /* the next coordinate */
            if (!(axes >> a & 1)) continue;
            index += step[a];
            if (++coordinate[a] < run->sizes[a]) break;
            index -= step[a] * coordinate[a];
            coordinate[a] = 0;
        }
    }
    return table;
}

/* ---- elementwise ---- */

static bool apply(Run *run, ValueId id, uint64_t *out) {
    const Value *v = &run->f->values[id];
    int arity = op_info[v->op].arity;
    int64_t count = count_of(run, v->axes), *where[3] = {NULL, NULL, NULL};
    Type operands[3] = {TYPE_NONE, TYPE_NONE, TYPE_NONE};
    bool good = true;
    for (int k = 0; k < arity; k++) {
        operands[k] = type_of(run, v->arg[k]);
        where[k] = indices(run, v->axes, run->f->values[v->arg[k]].axes);
        good = good && where[k];
    }
    for (int64_t i = 0; i < count && good; i++) {
        uint64_t x[3] = {0};
        for (int k = 0; k < arity; k++) x[k] = run->arrays[v->arg[k]][where[k][i]];
        out[i] = number_apply((Op)v->op, (Type)v->type, operands, v->payload, x);
    }
    for (int k = 0; k < arity; k++) free(where[k]);
    return good;
}

/* ---- reductions: x holds the n elements in order and may be overwritten ---- */

enum { TILE = 1024, LANES = 128, ROWS = 8 };

static uint64_t combine(Op op, Type type, uint64_t a, uint64_t b) {
    return number_apply(op, type, (Type[3]){type, type}, 0, (uint64_t[3]){a, b});
}

/* The value of one tile: pairs of pairs of pairs down the rows of each lane, then neighbours. */
static uint64_t tile(Op op, Type type, const uint64_t *x, int64_t n, uint64_t padding) {
    uint64_t all[TILE], lane[LANES];
    for (int i = 0; i < TILE; i++) all[i] = i < n ? x[i] : padding;
    for (int l = 0; l < LANES; l++) {
        uint64_t row[ROWS];
        for (int r = 0; r < ROWS; r++) row[r] = all[LANES * r + l];
        uint64_t low =
            combine(op, type, combine(op, type, row[0], row[1]), combine(op, type, row[2], row[3]));
        uint64_t high =
            combine(op, type, combine(op, type, row[4], row[5]), combine(op, type, row[6], row[7]));
        lane[l] = combine(op, type, low, high);
    }
    for (int left = LANES; left > 1; left /= 2)
        for (int l = 0; l < left / 2; l++)
            lane[l] = combine(op, type, lane[2 * l], lane[2 * l + 1]);
    return lane[0];
}

/* R of NUMERICS.md. */
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

static bool reduce(Run *run, ValueId id, uint64_t *out) {
    const Value *v = &run->f->values[id], *a = &run->f->values[v->arg[0]];
    AxisSet over = (AxisSet)v->payload;
    int64_t kept = count_of(run, v->axes), n = count_of(run, over);
    int64_t *start = indices(run, v->axes, a->axes), *offset = indices(run, over, a->axes);
    uint64_t *x = new_array(n);
    bool good = start && offset && x && reductions[v->op];
    for (int64_t i = 0; i < kept && good; i++) {
        for (int64_t k = 0; k < n; k++) x[k] = run->arrays[v->arg[0]][start[i] + offset[k]];
        out[i] = reductions[v->op]((Type)a->type, x, n);
    }
    free(start);
    free(offset);
    free(x);
    return good;
}

/* ---- the run ---- */

static void leaf(const Run *run, ValueId id, const void *array, uint64_t *out) {
    const Value *v = &run->f->values[id];
    int64_t count = count_of(run, v->axes);
    for (int64_t i = 0; i < count; i++) {
        if (v->op == OP_PARAMETER)
            out[i] = number_load(run->f->parameters[v->payload].type, array, i);
        else if (v->op == OP_CONST)
            out[i] = v->payload;
        else
            out[i] = v->op == OP_INDEX ? (uint64_t)i : (uint64_t)run->sizes[v->payload];
    }
}

static bool compute(Run *run, ValueId id, void *const *data) {
    const Value *v = &run->f->values[id];
    uint8_t flags = op_info[v->op].flags;
    uint64_t *out = run->arrays[id] = new_array(count_of(run, v->axes));
    if (!out || v->op == OP_MARK || v->op == OP_STOP_GRADIENT || v->op == OP_GRAD ||
        v->op == OP_CLAMP)
        return false;
    if (flags & OP_REDUCTION) return reduce(run, id, out);
    if (!(flags & OP_LEAF)) return apply(run, id, out);
    leaf(run, id, v->op == OP_PARAMETER ? data[v->payload] : NULL, out);
    return true;
}

static bool store(const Run *run, const Store *s, void *array) {
    const Parameter *p = &run->f->parameters[s->parameter];
    if (!array) return true;
    int64_t count = count_of(run, p->axes);
    int64_t *where = indices(run, p->axes, run->f->values[s->value].axes);
    int64_t *guard = indices(run, p->axes, run->f->values[s->guard].axes);
    for (int64_t i = 0; i < count && where && guard; i++)
        if (s->guard == 0 || run->arrays[s->guard][guard[i]])
            number_store(p->type, array, i, run->arrays[s->value][where[i]]);
    bool good = where && guard;
    free(where);
    free(guard);
    return good;
}

static void find_last_uses(const Function *f, ValueId *last) {
    for (ValueId id = 1; id < f->value_count; id++) {
        last[id] = id;
        for (int i = 0; i < 3; i++) last[f->values[id].arg[i]] = id;
    }
    for (size_t i = 0; i < f->store_count; i++)
        last[f->stores[i].value] = last[f->stores[i].guard] = UINT32_MAX;
    last[0] = 0;
}

static void release(Run *run, ValueId id) {
    free(run->arrays[id]);
    run->arrays[id] = NULL;
}

bool interpret(const Function *f, const int64_t *sizes, void *const *data) {
    Run run = {f, sizes, calloc(f->value_count, sizeof(uint64_t *))};
    ValueId *last = calloc(f->value_count, sizeof *last);
    bool good = run.arrays && last;
    if (good) find_last_uses(f, last);
    for (ValueId id = 1; id < f->value_count && good; id++) {
        good = compute(&run, id, data);
        for (int i = 0; i < 3; i++)
            if (last[f->values[id].arg[i]] == id) release(&run, f->values[id].arg[i]);
        if (last[id] == id) release(&run, id);
    }
    for (size_t i = 0; i < f->store_count && good; i++)
        good = store(&run, &f->stores[i], data[f->stores[i].parameter]);
    for (ValueId id = 1; id < f->value_count && run.arrays; id++) free(run.arrays[id]);
    free(run.arrays);
    free(last);
    return good;
}
