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
 * others a multiplication by their size. */
#include "compiler.h"

typedef struct Derivation {
    Function *f;
    const Formula *(*formulas)[3]; /* by operation: its derivatives, once read */
    bool *depends;                 /* by value: whether it varies with the target */
    ValueId *adjoint;              /* by value: the sum so far, or 0 */
} Derivation;

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

/* ---- one GRAD ---- */

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

static bool passes(Derivation *g, ValueId id, int i) {
    const Value *v = &g->f->values[id];
    return v->arg[i] && g->depends[v->arg[i]] && (rules[v->op] || formula_of(g, (Op)v->op, i));
}

static void find_dependents(Derivation *g, ValueId target, ValueId last) {
    g->depends[target] = true;
    for (ValueId id = target + 1; id <= last; id++)
        for (int i = 0; i < 3 && is_float(g->f, id); i++) g->depends[id] |= passes(g, id, i);
}

/* What `id`, whose adjoint is d, adds to the adjoint of its operand i, over the axes of id and of
 * i. */
static ValueId contribution(Derivation *g, ValueId id, int i, ValueId d) {
    Value v = g->f->values[id];
    if (rules[v.op]) return rules[v.op](g, id, d);
    ValueId names[26] = {['a' - 'a'] = v.arg[0],
                         ['b' - 'a'] = v.arg[1],
                         ['c' - 'a'] = v.arg[2],
                         ['d' - 'a'] = d,
                         ['r' - 'a'] = id};
    return formula_build(g->f, formula_of(g, (Op)v.op, i), names, (Type)v.type);
}

/* The sum over axes that an operand lacks. */
static ValueId sum_over(Derivation *g, ValueId c, AxisSet missing) {
    Function *f = g->f;
    AxisSet varying = missing & f->values[c].axes, same = missing & ~f->values[c].axes;
    if (varying) c = ir_reduce(f, OP_SUM, c, varying);
    ValueId times = 0;
    for (uint32_t axis = 0; axis < f->axis_count; axis++) {
        if (!(same >> axis & 1)) continue;
        ValueId size = ir_size(f, axis);
        times = times ? ir_op(f, OP_MUL, times, size, 0) : size;
    }
    return times ? ir_op(f, OP_MUL, c, ir_cast(f, (Type)f->values[c].type, times), 0) : c;
}

static void visit(Derivation *g, ValueId id) {
    Function *f = g->f;
    Value v = f->values[id];
    ValueId first_new = (ValueId)f->value_count;
    bool reduces = op_info[v.op].flags & OP_REDUCTION;
    for (int i = 0; i < op_info[v.op].arity; i++) {
        if (!passes(g, id, i)) continue;
        ValueId c = contribution(g, id, i, g->adjoint[id]), *sum = &g->adjoint[v.arg[i]];
        if (!reduces) c = sum_over(g, c, v.axes & ~f->values[v.arg[i]].axes);
        *sum = *sum ? ir_op(f, OP_ADD, *sum, c, 0) : c;
    }
    for (ValueId made = first_new; made < f->value_count; made++) ir_place(f, made, v.range, NULL);
}

static ValueId derive_grad(Derivation *g, ValueId e, ValueId target, ValueId from) {
    Function *f = g->f;
    AxisSet axes = f->values[target].axes;
    size_t count_before = f->value_count;
    g->depends = arena_alloc(f->arena, count_before * sizeof *g->depends);
    g->adjoint = arena_alloc(f->arena, count_before * sizeof *g->adjoint);
    if (e >= target) find_dependents(g, target, e);
    g->adjoint[e] = from;
    for (ValueId id = e; id > target; id--)
        if (g->depends[id] && g->adjoint[id]) visit(g, id);
    if (!g->depends[e])
        return ir_broadcast(f, ir_constant(f, (Type)f->values[target].type, 0), axes);
    return ir_broadcast(f, g->adjoint[target], axes);
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
        ir_place(out, map[id], v->range, v->name);
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *s = &f->stores[i];
        ir_store(out, s->parameter, map[s->value], map[s->guard], s->range);
    }
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
        ir_place(g.f, map[id], v->range, v->name);
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *s = &f->stores[i];
        ir_store(g.f, s->parameter, map[s->value], map[s->guard], s->range);
    }
    return strip(g.f);
}
