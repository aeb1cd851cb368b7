/* derive.c: reverse-mode derivatives.
 *
 * Needs a lowered function; gives one in which each GRAD is the values it stands for and no MARK,
 * STOP_GRADIENT or CLAMP is left.
 *
 * grad(e, x, from) walks the values between x and e from the last to the first. What a value's
 * users add to its adjoint is added up in that order: users with higher numbers first, and of one
 * user the first operand first. The numbers follow the source, so the order does, and with it every
 * bit of a gradient.
 *
 * An adjoint may lack axes of its value: it is the same along them. Where an operand lacks axes of
 * the result its adjoint is the sum over them: over those along which it varies a SUM, and for the
 * others a multiplication by their size. Axes that depend on others are summed over first.
 *
 * A scan y[k] = body(y[k - 1]) has the adjoint l[k] = d[k] + g[k + 1] l[k + 1], itself a scan the
 * other way, where g is the derivative of the body by the running value; the body's operands get
 * theirs from l. A running value lives in its scan, so here the value before, read from y, stands
 * for it (`outside`).
 *
 * The branch of an `if` that was not taken passes exactly 0: an adjoint carries the conditions
 * under which it counts (adjoint.c), through sums, gathers and scans. Only `if` makes them: min,
 * max and clamp are functions like others, whose slopes are 0 in places. */
#include "base/base.h"
#include "ir/ir.h"

#include <math.h>
#include <string.h>

typedef struct Derivation {
    Function *f;
    const Formula *(*formulas)[3]; /* by operation: its derivatives, once read */
    bool *depends;                 /* by value: whether it varies with the target */
    Adjoint *adjoint;              /* by value: the sum so far, or of value 0 */
    ValueId *outside;       /* by value: what it is without the running value, or 0: itself */
    size_t count, capacity; /* of those three */
} Derivation;

enum { VALUES_MAX = 1 << 17 };

static bool is_float(const Function *f, ValueId id) {
    return type_info[f->values[id].type].class == 'F';
}

/* ---- the operations whose rule is not a formula over their operands alone ----
 * Each gives what the value adds to its operand's adjoint, or 0 for nothing. */

static ValueId build(Derivation *g, const char *text, const ValueId names[26]) {
    Function *f = g->f;
    Type type = (Type)f->values[names['a' - 'a']].type;
    return formula_build(f, formula_read(f->compiler, f->arena, &text), names, type);
}

static ValueId derive_same(Derivation *g, ValueId id, ValueId d) {
    (void)g, (void)id;
    return d;
}

static ValueId derive_cast(Derivation *g, ValueId id, ValueId d) {
    return ir_cast(g->f, (Type)g->f->values[g->f->values[id].arg[0]].type, d);
}

/* How many of the reduced elements have the property. */
static ValueId count(Derivation *g, ValueId property, AxisSet over) {
    return ir_reduce(g->f, OP_SUM, ir_cast(g->f, TYPE_I64, property), over);
}

/* The product of the others: r / a, but where zeros are among them 0, and at a single zero the
 * product of the rest. */
static ValueId derive_prod(Derivation *g, ValueId id, ValueId d) {
    Value v = g->f->values[id];
    AxisSet over = (AxisSet)v.payload;
    ValueId names[26] = {['a' - 'a'] = v.arg[0], ['d' - 'a'] = d, ['r' - 'a'] = id};
    ValueId zero = build(g, "a == 0.0", names);
    ValueId others = build(g, "if a == 0.0 then 1.0 else a", names);
    names['n' - 'a'] = count(g, zero, over);
    names['p' - 'a'] = ir_reduce(g->f, OP_PROD, others, over);
    return build(g, "d * (if a == 0.0 then (if n == 1 then p else 0.0) else r / a)", names);
}

/* Evenly over the elements that equal the result. */
static ValueId derive_extreme(Derivation *g, ValueId id, ValueId d) {
    Value v = g->f->values[id];
    ValueId names[26] = {['a' - 'a'] = v.arg[0], ['d' - 'a'] = d, ['r' - 'a'] = id};
    names['n' - 'a'] = count(g, build(g, "a == r", names), (AxisSet)v.payload);
    return build(g, "if a == r then d / cast(n) else 0.0", names);
}

/* exp(a - r); elements that are all -inf have weight 0, not NaN. */
static ValueId derive_logsumexp(Derivation *g, ValueId id, ValueId d) {
    ValueId names[26] = {['a' - 'a'] = g->f->values[id].arg[0], ['d' - 'a'] = d, ['r' - 'a'] = id};
    return build(g, "d * exp(a - (if isinf(r) and r < 0.0 then 0.0 else r))", names);
}

typedef ValueId (*Rule)(Derivation *g, ValueId id, ValueId d);
static const Rule rules[OP_COUNT] = {
    [OP_CAST] = derive_cast,          [OP_TO_ODD] = derive_cast,
    [OP_BROADCAST] = derive_same,     [OP_SUM] = derive_same,
    [OP_PROD] = derive_prod,          [OP_REDUCE_MIN] = derive_extreme,
    [OP_REDUCE_MAX] = derive_extreme, [OP_LOGSUMEXP] = derive_logsumexp,
};

/* The formula of ops.def for operand i; NULL where the derivative is 0 or is a rule above. */
static const Formula *formula_of(Derivation *g, Op op, int i) {
    const char *text = op_info[op].derivative;
    if (*text && !g->formulas[op][0])
        for (int k = 0; k < op_info[op].arity; k++)
            g->formulas[op][k] = formula_read(g->f->compiler, g->f->arena, &text);
    const Formula *formula = g->formulas[op][i];
    bool zero = formula && formula->kind == FORMULA_NUMBER && formula->number == 0;
    return zero ? NULL : formula;
}

static ValueId outside(const Derivation *g, ValueId id) {
    return id < g->count && g->outside[id] ? g->outside[id] : id;
}

/* What an elementwise operation or a reduction, whose adjoint is d, adds to the adjoint of its
 * operand i, over the axes of both. */
static Adjoint contribution(Derivation *g, ValueId id, int i, Adjoint d) {
    Value v = g->f->values[id];
    if (v.op == OP_SELECT) return adjoint_branch(g->f, d, outside(g, v.arg[0]), i == 1);
    if (rules[v.op]) return adjoint_times(g->f, d, rules[v.op](g, id, d.value));
    ValueId names[26] = {['a' - 'a'] = outside(g, v.arg[0]),
                         ['b' - 'a'] = outside(g, v.arg[1]),
                         ['c' - 'a'] = outside(g, v.arg[2]),
                         ['d' - 'a'] = d.value,
                         ['r' - 'a'] = outside(g, id)};
    const Formula *formula = formula_of(g, (Op)v.op, i);
    return adjoint_times(g->f, d, formula_build(g->f, formula, names, (Type)v.type));
}

/* ---- sums ---- */

static ValueId times_size(Function *f, ValueId c, uint32_t axis) {
    return ir_op(f, OP_MUL, c, ir_cast(f, (Type)f->values[c].type, ir_size(f, axis)), 0);
}

/* The sum over axes of which none depends on another but k on its q. */
static ValueId sum_over_level(Function *f, ValueId c, AxisSet missing) {
    AxisSet axes = f->values[c].axes, varying = missing & axes, same = missing & ~axes;
    for (uint32_t axis = 0; axis < f->axis_count; axis++) {
        const Axis *row = &f->axes[axis];
        bool rest = (same >> axis & 1) && row->whole >= 0 && f->axes[row->whole].rest == (int)axis;
        if (!rest || !(varying >> row->parent & 1)) continue;
        c = times_size(f, c, axis); /* block by block: the last may be short */
        same &= ~((AxisSet)1 << axis);
    }
    if (varying) c = ir_reduce(f, OP_SUM, c, varying);
    ValueId times = 0;
    for (uint32_t axis = 0; axis < f->axis_count; axis++) {
        const Axis *row = &f->axes[axis];
        if (!(same >> axis & 1)) continue;
        uint32_t of = axis;
        if (row->whole >= 0 && f->axes[row->whole].block == (int)axis &&
            (same >> f->axes[row->whole].rest & 1)) {
            of = (uint32_t)row->whole; /* q and k together */
            same &= ~((AxisSet)1 << f->axes[of].rest);
        }
        ValueId size = ir_size(f, of);
        times = times ? ir_op(f, OP_MUL, times, size, 0) : size;
    }
    return times ? ir_op(f, OP_MUL, c, ir_cast(f, (Type)f->values[c].type, times), 0) : c;
}

/* Those on which other axes hang, that are summed over after them. */
static AxisSet parents_among(const Function *f, AxisSet missing, AxisSet axes) {
    AxisSet parents = 0;
    for (uint32_t axis = 0; axis < f->axis_count; axis++) {
        int parent = f->axes[axis].parent;
        if (((missing | axes) >> axis & 1) && parent >= 0 && f->axes[parent].whole < 0)
            parents |= missing & (AxisSet)1 << parent;
    }
    return parents;
}

/* Whether it holds anywhere along the axes. */
static ValueId any_over(Function *f, ValueId holds, AxisSet missing) {
    AxisSet parents = parents_among(f, missing, f->values[holds].axes);
    AxisSet first = missing & ~parents & f->values[holds].axes;
    if (first) holds = ir_reduce(f, OP_ANY, holds, first);
    parents &= f->values[holds].axes;
    return parents ? ir_reduce(f, OP_ANY, holds, parents) : holds;
}

/* The sum over axes that an operand lacks. */
static ValueId sum_over(Function *f, ValueId c, AxisSet missing) {
    AxisSet parents = parents_among(f, missing, f->values[c].axes);
    if (missing & ~parents) c = sum_over_level(f, c, missing & ~parents);
    return parents ? sum_over_level(f, c, parents) : c;
}

static ValueId reduce_list(Function *f, Op op, ValueId a) {
    AxisSet axes = f->values[a].axes;
    int list = ir_list_axis(f, axes);
    AxisSet outer = list >= 0 ? (AxisSet)1 << list : 0;
    if (axes & ~outer) a = ir_reduce(f, op, a, axes & ~outer);
    return outer ? ir_reduce(f, op, a, outer) : a;
}

/* ---- gathers ----
 * y = x[i, j ...]. Where an index is its own coordinate plus or minus something, or something less
 * its own coordinate, an element of x goes to one coordinate of y, which the inverse index names.
 * The other indices pick it: if index(a) == i then d else 0. Where an index varies along axes that
 * x lacks, elements of y add up: in fixed point, which no order changes. */

/* The index of y's element that reads x's element `own` along the axis, when `index` is such; or 0.
 */
static ValueId inverse_index(Function *f, ValueId index, uint32_t axis, AxisSet listed, AxisSet x) {
    ValueId own = ir_index(f, axis);
    Value v = f->values[index];
    if (index == own) return own;
    if (v.op != OP_ADD && v.op != OP_SUB) return 0;
    ValueId other = v.arg[0] == own ? v.arg[1] : v.arg[1] == own ? v.arg[0] : 0;
    if (other == 0 || (f->values[other].axes & listed) || (f->values[other].axes & ~x)) return 0;
    bool mirrors = v.op == OP_SUB && other == v.arg[0];
    if (mirrors) return index;
    return ir_op(f, v.op == OP_ADD ? OP_SUB : OP_ADD, own, other, 0);
}

static ValueId move(Function *f, ValueId a, ValueId list) {
    return list ? ir_gather(f, ir_broadcast(f, a, ir_closure(f, ir_listed(f, list))), list) : a;
}

/* Whether an index of the list reads an element of `target`: by which of what the indices vary
 * over, the first one that does (compact.c takes that for the number of a row). */
static ValueId reads(Function *f, ValueId list, AxisSet target) {
    const AxisSet along = f->values[list].axes, listed = ir_listed(f, list);
    const AxisSet axes = ir_closure(f, listed | (along & target));
    ValueId number = ir_constant(f, TYPE_I64, 0);
    if (ir_are_plain(f, along)) number = ir_position(f, along);
    number = ir_broadcast(f, number, axes & ~listed);
    const ValueId first = ir_scatter(f, OP_SCATTER_MIN, number, list, axes, 0);
    return ir_op(f, OP_NE, first, ir_constant(f, TYPE_I64, INT64_MAX), 0);
}

/* In fixed point, NaN where something not finite is added; -0.0, which changes nothing that it is
 * added to, where nothing is. */
static ValueId scatter_add(Derivation *g, ValueId d, ValueId list, AxisSet target) {
    Function *f = g->f;
    Type type = (Type)f->values[d].type;
    ValueId names[26] = {['a' - 'a'] = d};
    ValueId max =
        reduce_list(f, OP_REDUCE_MAX, build(g, "if isfinite(a) then abs(a) else 0.0", names));
    ValueId count = sum_over(f, ir_constant(f, TYPE_I64, 1), f->values[d].axes);
    ValueId shift = ir_op(f, OP_FIXED_SHIFT, max, count, 0);
    ValueId fixed = ir_op(f, OP_TO_FIXED, d, shift, 0);
    ValueId sum = ir_scatter(f, OP_SCATTER, fixed, list, target, 0);
    ValueId read = reads(f, list, target), none = ir_constant_number(f, type, -0.0);
    return ir_op(f, OP_SELECT, read, ir_from_fixed(f, type, sum, shift), none);
}

/* The list where what it says of a whole is said of its blocks, when x varies over those alone. */
static ValueId list_of_blocks(Function *f, ValueId list, AxisSet x) {
    if (list == 0) return 0;
    Value v = f->values[list];
    const Axis *row = &f->axes[v.payload];
    ValueId next = list_of_blocks(f, v.arg[1], x), zero = ir_constant(f, TYPE_I64, 0);
    if (row->block < 0 || (x >> row->rest & 1)) return ir_list(f, v.arg[0], next, v.payload);
    ValueId from = ir_op(f, OP_GE, v.arg[0], zero, 0);
    ValueId to = ir_op(f, OP_LT, v.arg[0], ir_size(f, (uint32_t)v.payload), 0);
    ValueId length = ir_constant(f, TYPE_I64, (uint64_t)row->length);
    ValueId block = ir_op(f, OP_FLOORDIV, v.arg[0], length, 0);
    ValueId nowhere = ir_constant_number(f, TYPE_I64, -1);
    block = ir_op(f, OP_SELECT, ir_op(f, OP_AND, from, to, 0), block, nowhere);
    return ir_list(f, block, next, (uint64_t)row->block);
}

static Adjoint derive_gather(Derivation *g, ValueId id, Adjoint whole) {
    Function *f = g->f;
    Value v = f->values[id];
    v.arg[1] = list_of_blocks(f, v.arg[1], f->values[v.arg[0]].axes);
    AxisSet x = f->values[v.arg[0]].axes, listed = ir_listed(f, v.arg[1]), picked = 0, across = 0;
    ValueId moves = 0;
    for (ValueId list = v.arg[1]; list; list = f->values[list].arg[1]) {
        Value entry = f->values[list];
        AxisSet self = ir_expand(f, (AxisSet)1 << entry.payload);
        ValueId inverse = inverse_index(f, entry.arg[0], (uint32_t)entry.payload, listed, x);
        if (inverse)
            moves = ir_list(f, inverse, moves, entry.payload);
        else
            picked |= self, across |= f->values[entry.arg[0]].axes;
    }
    ValueId here = 0, counts;
    Adjoint d = adjoint_split(f, whole, listed | across | ~x, &counts);
    if (across & (picked | ~x)) {
        ValueId sum = scatter_add(g, ir_broadcast(f, d.value, v.axes), v.arg[1], x);
        if (counts) {
            ValueId one = ir_cast(f, TYPE_I64, ir_broadcast(f, counts, v.axes));
            ValueId zero = ir_constant(f, TYPE_I64, 0);
            one = ir_scatter(f, OP_SCATTER, one, v.arg[1], x, 0);
            counts = ir_op(f, OP_NE, one, zero, 0);
        }
        return adjoint_rejoin(f, d, sum, counts);
    }
    for (ValueId list = v.arg[1]; list; list = f->values[list].arg[1]) {
        Value entry = f->values[list];
        if (!(ir_expand(f, (AxisSet)1 << entry.payload) & picked)) continue;
        ValueId index = move(f, entry.arg[0], moves);
        ValueId same = ir_op(f, OP_EQ, ir_index(f, (uint32_t)entry.payload), index, 0);
        here = here ? ir_op(f, OP_AND, here, same, 0) : same;
    }
    ValueId moved = move(f, d.value, moves);
    if (counts) counts = move(f, counts, moves);
    if (here) {
        ValueId zero = ir_constant_number(f, (Type)v.type, 0);
        moved = ir_op(f, OP_SELECT, here, moved, zero);
        if (counts) counts = ir_op(f, OP_AND, here, counts, 0);
    }
    return adjoint_rejoin(f, d, moved, counts);
}

/* ---- scans ---- */

/* The value before along the scan's axis: the scan's, or where it begins `start`. */
static ValueId before(Function *f, ValueId scan, ValueId start) {
    Value v = f->values[scan];
    uint32_t axis = (uint32_t)v.payload % SCAN_REVERSE;
    bool reverse = v.payload & SCAN_REVERSE;
    ValueId index = ir_index(f, axis), one = ir_constant(f, TYPE_I64, 1);
    ValueId list = ir_list(f, ir_op(f, reverse ? OP_ADD : OP_SUB, index, one, 0), 0, axis);
    ValueId value = ir_gather(f, scan, list);
    const Value *s = &f->values[start];
    if (s->op == OP_CONST && s->payload == 0) return value; /* what a gather reads out of range */
    ValueId first =
        reverse ? ir_op(f, OP_SUB, ir_size(f, axis), one, 0) : ir_constant(f, TYPE_I64, 0);
    return ir_op(f, OP_SELECT, ir_op(f, OP_EQ, index, first, 0), start, value);
}

static bool differentiable(Derivation *g, ValueId id, int i) {
    Op op = (Op)g->f->values[id].op;
    return is_float(g->f, id) && (rules[op] || formula_of(g, op, i));
}

/* Makes the body's values stand outside of their scan; gives the derivative of the body by the
 * running value, or nothing where there is none. */
static Adjoint leave_scan(Derivation *g, ValueId scan) {
    Function *f = g->f;
    Value s = f->values[scan];
    ValueId body = s.arg[1], running = s.arg[2];
    Adjoint *slope = arena_alloc(f->arena, (body + 2) * sizeof *slope);
    Adjoint one = {.value = ir_constant_number(f, (Type)s.type, 1)};
    bool *inside = arena_alloc(f->arena, (body + 2) * sizeof *inside);
    g->outside[running] = before(f, scan, s.arg[0]);
    for (ValueId id = running + 1; id <= body; id++) {
        Value v = f->values[id];
        ValueId args[3];
        for (int i = 0; i < 3; i++) {
            bool in = v.arg[i] == running || (v.arg[i] > running && inside[v.arg[i]]);
            inside[id] |= in && v.op != OP_SCAN;
            args[i] = outside(g, v.arg[i]);
        }
        if (inside[id]) g->outside[id] = ir_rebuild(f, f, id, args);
    }
    if (body == running) return one;
    if (body < running || !inside[body]) return (Adjoint){0};
    slope[body] = one;
    inside[running] = true;
    for (ValueId id = body; id > running; id--) {
        Value v = f->values[id];
        for (int i = 0; i < op_info[v.op].arity && slope[id].value && inside[id]; i++) {
            ValueId of = v.arg[i];
            if (of < running || !inside[of] || !differentiable(g, id, i)) continue;
            slope[of] = adjoint_add(f, slope[of], contribution(g, id, i, slope[id]));
        }
    }
    return slope[running];
}

/* l[k] = d[k] + slope[k + 1] l[k + 1], the product only where both count; l counts where d does or
 * the product. */
static Adjoint carry_back(Function *f, ValueId scan, Adjoint whole, Adjoint slope) {
    Value v = f->values[scan];
    Type type = (Type)v.type;
    uint32_t axis = (uint32_t)v.payload % SCAN_REVERSE;
    bool reverse = v.payload & SCAN_REVERSE;
    ValueId one = ir_constant(f, TYPE_I64, 1), index = ir_index(f, axis), counts;
    ValueId next = ir_list(f, ir_op(f, reverse ? OP_SUB : OP_ADD, index, one, 0), 0, axis);
    Adjoint d = adjoint_split(f, whole, ir_expand(f, (AxisSet)1 << axis), &counts);
    ValueId passes = adjoint_counts(f, slope), here = 0;
    if (passes) passes = move(f, passes, next);
    if (counts) {
        ValueId running = ir_running(f, TYPE_BOOL, v.axes), no = ir_constant(f, TYPE_BOOL, 0);
        ValueId carried = passes ? ir_op(f, OP_AND, passes, running, 0) : running;
        ValueId body = ir_op(f, OP_OR, counts, carried, 0);
        counts = ir_scan(f, no, body, running, axis, !reverse);
        if (!value_is_finite(f, slope.value)) here = move(f, counts, next);
    }
    if (passes && here) here = ir_op(f, OP_AND, passes, here, 0);
    if (!here) here = passes;
    ValueId running = ir_running(f, type, v.axes), carried = running;
    if (f->values[slope.value].op != OP_CONST)
        carried = ir_op(f, OP_MUL, move(f, slope.value, next), running, 0);
    else if (f->values[slope.value].payload != ir_number_bits(type, 1))
        carried = ir_op(f, OP_MUL, slope.value, running, 0);
    ValueId zero = ir_constant_number(f, type, 0);
    if (here) carried = ir_op(f, OP_SELECT, here, carried, zero);
    ValueId body = ir_op(f, OP_ADD, d.value, carried, 0);
    return adjoint_rejoin(f, d, ir_scan(f, zero, body, running, axis, !reverse), counts);
}

/* What the first place along the axis has. */
static ValueId at_first(Function *f, ValueId scan, ValueId a) {
    Value v = f->values[scan];
    uint32_t axis = (uint32_t)v.payload % SCAN_REVERSE;
    ValueId one = ir_constant(f, TYPE_I64, 1), first = ir_constant(f, TYPE_I64, 0);
    if (v.payload & SCAN_REVERSE) first = ir_op(f, OP_SUB, ir_size(f, axis), one, 0);
    return move(f, a, ir_list(f, first, 0, axis));
}

/* ---- one GRAD ---- */

static void add_to(Derivation *g, ValueId to, Adjoint c, AxisSet missing) {
    Function *f = g->f;
    ValueId counts;
    if (c.value && missing) {
        c = adjoint_split(f, c, missing, &counts);
        if (counts) counts = any_over(f, counts, missing);
        c = adjoint_rejoin(f, c, sum_over(f, c.value, missing), counts);
    }
    g->adjoint[to] = adjoint_add(f, g->adjoint[to], c);
}

static void visit_scan(Derivation *g, ValueId id) {
    Function *f = g->f;
    Value v = f->values[id];
    AxisSet along = ir_expand(f, (AxisSet)1 << v.payload % SCAN_REVERSE);
    Adjoint slope = leave_scan(g, id), carried = g->adjoint[id];
    if (slope.value) carried = carry_back(f, id, carried, slope);
    if (slope.value && g->depends[v.arg[0]]) {
        ValueId product = ir_op(f, OP_MUL, slope.value, carried.value, 0), counts;
        Adjoint start = adjoint_both(f, carried, slope, product);
        start = adjoint_split(f, start, along, &counts);
        if (counts) counts = at_first(f, id, counts);
        start = adjoint_rejoin(f, start, at_first(f, id, start.value), counts);
        add_to(g, v.arg[0], start, v.axes & ~along & ~f->values[v.arg[0]].axes);
    }
    if (g->depends[v.arg[1]]) add_to(g, v.arg[1], carried, v.axes & ~f->values[v.arg[1]].axes);
}

/* A C function's derivative by argument i is its partner on d and the same arguments; it is never
 * given what is no adjoint. */
static void visit_call(Derivation *g, ValueId id) {
    Function *f = g->f;
    Value v = f->values[id];
    const CFunction *function = &f->functions[v.payload];
    ValueId arguments[LS_RANK_MAX], list = v.arg[0], all = 0;
    size_t count = 0;
    for (; list && count < COUNT(arguments); list = f->values[list].arg[1])
        arguments[count++] = f->values[list].arg[0];
    for (size_t i = count; i-- > 0;) all = ir_list(f, outside(g, arguments[i]), all, i + 1);
    const Adjoint d = g->adjoint[id];
    all = ir_list(f, adjoint_masked(f, d), all, 0);
    for (size_t i = 0; i < count; i++) {
        ValueId of = arguments[i];
        if (!g->depends[of]) continue;
        if (!function->derivatives || function->derivatives[i] < 0) {
            if (diagnose(f->compiler, ERROR_C_DERIVATIVE, v.range, function->name, i + 1))
                diagnose_help(f->compiler,
                              "define its partner `%s_d%zu` in the header: the same parameters "
                              "behind the upstream gradient",
                              function->name, i);
            continue;
        }
        ValueId c = ir_call(f, (uint32_t)function->derivatives[i], all);
        c = ir_cast(f, (Type)f->values[of].type, c);
        add_to(g, of, (Adjoint){c, d.where, d.where}, v.axes & ~f->values[of].axes);
    }
}

/* Of a sum in fixed point: the floats that were added, and where. */
static ValueId added(const Function *f, const Value *v, ValueId *list) {
    const Value *scatter = &f->values[v->arg[0]], *q = &f->values[scatter->arg[0]];
    if (v->op != OP_FROM_FIXED || scatter->op != OP_SCATTER || q->op != OP_TO_FIXED) return 0;
    *list = scatter->arg[1];
    return q->arg[0];
}

/* Whether the value varies with operand i, when that does with the target. */
static bool passes(Derivation *g, ValueId id, int i) {
    const Value *v = &g->f->values[id];
    if (v->arg[i] == 0 || !g->depends[v->arg[i]]) return false;
    if (v->op == OP_GATHER) return i == 0;
    return v->op == OP_SCAN || rules[v->op] || formula_of(g, (Op)v->op, i);
}

static void find_dependents(Derivation *g, ValueId target, ValueId last) {
    const Function *f = g->f;
    g->depends[target] = true;
    for (ValueId id = target + 1; id <= last; id++) {
        const Value *v = &f->values[id];
        ValueId list = v->op == OP_CALL ? v->arg[0] : 0, unused;
        if (!is_float(f, id)) continue;
        for (int i = 0; i < 3; i++) g->depends[id] |= passes(g, id, i);
        for (; list; list = f->values[list].arg[1])
            g->depends[id] |= g->depends[f->values[list].arg[0]];
        if (v->op == OP_FROM_FIXED) g->depends[id] |= g->depends[added(f, v, &unused)];
    }
}

static void visit(Derivation *g, ValueId id) {
    Function *f = g->f;
    Value v = f->values[id];
    Adjoint d = g->adjoint[id];
    ValueId first_new = (ValueId)f->value_count, list = 0;
    if (v.op == OP_SCAN) {
        visit_scan(g, id);
    } else if (v.op == OP_CALL) {
        visit_call(g, id);
    } else if (v.op == OP_GATHER) {
        add_to(g, v.arg[0], derive_gather(g, id, d), 0);
    } else if (v.op == OP_FROM_FIXED) { /* the derivative of a scatter is a gather */
        ValueId of = added(f, &v, &list), counts;
        d = adjoint_split(f, d, ~(AxisSet)0, &counts);
        if (counts) counts = ir_gather(f, ir_broadcast(f, counts, v.axes), list);
        ValueId back = ir_gather(f, ir_broadcast(f, d.value, v.axes), list);
        add_to(g, of, adjoint_rejoin(f, d, back, counts), 0);
    } else {
        bool reduces = op_info[v.op].flags & OP_REDUCTION;
        for (int i = 0; i < op_info[v.op].arity; i++)
            if (passes(g, id, i))
                add_to(g, v.arg[i], contribution(g, id, i, d),
                       reduces ? 0 : v.axes & ~f->values[v.arg[i]].axes);
    }
    for (ValueId made = first_new; made < f->value_count; made++)
        ir_set_source(f, made, v.range, NULL);
}

/* Empty tables for the values there are. */
static void open_tables(Derivation *g) {
    Arena *arena = g->f->arena;
    g->count = g->f->value_count;
    if (g->count > g->capacity) {
        g->capacity = 2 * g->count;
        g->depends = arena_alloc(arena, g->capacity * sizeof *g->depends);
        g->adjoint = arena_alloc(arena, g->capacity * sizeof *g->adjoint);
        g->outside = arena_alloc(arena, g->capacity * sizeof *g->outside);
    }
    memset(g->depends, 0, g->count * sizeof *g->depends);
    memset(g->adjoint, 0, g->count * sizeof *g->adjoint);
    memset(g->outside, 0, g->count * sizeof *g->outside);
}

static ValueId derive_grad(Derivation *g, ValueId e, ValueId target, ValueId from) {
    Function *f = g->f;
    AxisSet axes = f->values[target].axes;
    open_tables(g);
    if (e >= target) find_dependents(g, target, e);
    g->adjoint[e] = (Adjoint){.value = from};
    for (ValueId id = e; id > target && f->value_count < VALUES_MAX; id--)
        if (g->depends[id] && g->adjoint[id].value) visit(g, id);
    if (!g->depends[e] || !g->adjoint[target].value)
        return ir_broadcast(f, ir_constant(f, (Type)f->values[target].type, 0), axes);
    return ir_broadcast(f, adjoint_masked(f, g->adjoint[target]), axes);
}

/* ---- the pass ---- */

/* The function without what only derivatives needed. */
static Function *strip(const Function *f) {
    Function *out = ir_function_like(f);
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        if (v->op == OP_MARK || v->op == OP_STOP_GRADIENT)
            map[id] = args[0];
        else if (v->op == OP_CLAMP)
            map[id] = ir_op(out, OP_MIN, ir_op(out, OP_MAX, args[0], args[1], 0), args[2], 0);
        else
            map[id] = ir_rebuild(out, f, id, args);
        ir_set_source(out, map[id], v->range, v->name);
    }
    ir_copy_stores(out, f, map);
    return ir_compact(out);
}

Function *derive(Function *f) {
    Derivation g = {.f = ir_function_like(f)};
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    const bool *needed = ir_needed(f);
    g.formulas = arena_alloc(f->arena, OP_COUNT * sizeof *g.formulas);
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        if (!needed[id]) continue;
        map[id] = v->op == OP_GRAD ? derive_grad(&g, args[0], args[1], args[2])
                                   : ir_rebuild(g.f, f, id, args);
        ir_set_source(g.f, map[id], v->range, v->name);
    }
    if (g.f->value_count >= VALUES_MAX) {
        diagnose(f->compiler, ERROR_TOO_LARGE, f->range, f->name, VALUES_MAX);
        return NULL;
    }
    ir_copy_stores(g.f, f, map);
    return strip(g.f);
}
