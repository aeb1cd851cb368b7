/* simplify.c: rewrite rules that keep every bit, and removal of what no store needs.
 *
 * Needs a derived function, gathered or not; gives one with the same stores' values. Each value is
 * rebuilt on its simplified operands and the rules are tried on it until none applies.
 *
 * For a new rule:
 *   it changes no bit of any result, for NaN, infinities, zeros of both signs and overflow alike
 * (the payload of a NaN is no bit of a result: stores make NaN canonical); it shrinks: fewer
 * operations, or a cheaper one of as many, so that rewriting ends; it has a test in
 * tests/lit/ir/simplify.ir. */
#include "base/base.h"
#include "ir/ir.h"

#include <math.h>
#include <string.h>

/* ---- rules as formulas ----
 * Where the value, of the class given, has the form `before`, it becomes `after`. Class: F float, I
 * integer, B bool, N number, A any. A commutative operation matches with its operands exchanged
 * too. */
typedef struct Rewrite {
    char class;
    const char *before, *after;
} Rewrite;

/* clang-format off */
static const Rewrite rewrites[] = {
    {'N', "x * 1",                      "x"},
    {'F', "x * -1",                     "-x"},
    {'F', "x / 1",                      "x"},
    {'F', "x / -1",                     "-x"},
    {'F', "x + -0.0",                   "x"}, /* but 0.0 would turn -0 into +0 */
    {'F', "x - 0.0",                    "x"},
    {'F', "x + (if c then y else -0.0)", "if c then x + y else x"},
    {'I', "x + 0",                      "x"},
    {'I', "x - 0",                      "x"},
    {'I', "x - x",                      "0"},
    {'I', "x * 0",                      "0"},
    {'I', "floordiv(x, 1)",             "x"},
    {'I', "mod(x, 1)",                  "0"},
    {'I', "shift_left(x, 0)",           "x"},
    {'I', "shift_right(x, 0)",          "x"},
    {'N', "powi(x, 1)",                 "x"},
    {'N', "-(-x)",                      "x"},
    {'N', "x + -y",                     "x - y"},
    {'N', "x - -y",                     "x + y"},
    {'N', "-x * -y",                    "x * y"},
    {'F', "-x / -y",                    "x / y"},
    {'N', "abs(abs(x))",                "abs(x)"},
    {'F', "abs(-x)",                    "abs(x)"},
    {'F', "fma(x, 1, y)",               "x + y"},
    {'F', "fma(1, x, y)",               "x + y"},
    {'F', "fma(x, y, -0.0)",            "x * y"},
    {'F', "fma(-x, -y, z)",             "fma(x, y, z)"},
    {'N', "min(x, x)",                  "x"},
    {'N', "max(x, x)",                  "x"},
    {'B', "not not x",                  "x"},
    {'B', "not (x == y)",               "x != y"},
    {'B', "not (x != y)",               "x == y"},
    {'B', "x and true",                 "x"},
    {'B', "x and false",                "false"},
    {'B', "x or false",                 "x"},
    {'B', "x or true",                  "true"},
    {'B', "x and x",                    "x"},
    {'B', "x or x",                     "x"},
    {'A', "if true then x else y",      "x"},
    {'A', "if false then x else y",     "y"},
    {'A', "if c then x else x",         "x"},
    {'A', "if not c then x else y",     "if c then y else x"},
    {'A', "if c then (if c then x else y) else z", "if c then x else z"},
    {'A', "if c then x else (if c then y else z)", "if c then x else z"},
    {'B', "if c then true else false",  "c"},
    {'B', "if c then false else true",  "not c"},
};
/* clang-format on */

typedef struct Pattern {
    char class;
    const Formula *before, *after;
} Pattern;

static bool in_class(char class, Type type) {
    char is = type_info[type].class;
    bool integer = is == 'S' || is == 'U';
    return class == 'A' || class == is || (class == 'I' && integer) ||
           (class == 'N' && (integer || is == 'F'));
}

/* Whether value `id` has the form of `formula`; names[] holds what the names already stand for. */
static bool match(const Function *f, const Formula *formula, ValueId id, ValueId names[26]) {
    const Value *v = &f->values[id];
    if (formula->kind == FORMULA_NAME) {
        ValueId *stands_for = &names[formula->name - 'a'];
        if (*stands_for == 0) *stands_for = id;
        return *stands_for == id;
    }
    if (formula->kind == FORMULA_NUMBER || formula->kind == FORMULA_BOOL) {
        bool is_bool = v->type == TYPE_BOOL;
        return v->op == OP_CONST && is_bool == (formula->kind == FORMULA_BOOL) &&
               v->payload == ir_number_bits((Type)v->type, formula->number);
    }
    if (v->op != formula->op) return false;
    bool exchangeable = op_info[v->op].flags & OP_COMMUTATIVE;
    for (int exchange = 0; exchange <= exchangeable; exchange++) {
        ValueId trial[26];
        memcpy(trial, names, sizeof trial);
        bool all = true;
        for (int i = 0; i < op_info[v->op].arity && all; i++)
            all = match(f, formula->arg[i], v->arg[exchange ? 1 - i : i], trial);
        if (!all) continue;
        memcpy(names, trial, sizeof trial);
        return true;
    }
    return false;
}

static ValueId apply_patterns(Function *f, const Pattern *patterns, ValueId id) {
    for (size_t i = 0; i < COUNT(rewrites); i++) {
        ValueId names[26] = {0};
        Value v = f->values[id];
        if (v.op != patterns[i].before->op || !in_class(patterns[i].class, (Type)v.type) ||
            !match(f, patterns[i].before, id, names))
            continue;
        return formula_build(f, patterns[i].after, names, (Type)v.type);
    }
    return 0;
}

/* ---- rules as functions: the value it becomes, or 0 ---- */

static uint64_t as_i64(const Value *v) { /* a count or exponent, whatever its type */
    return v->type == TYPE_I32 ? (uint64_t)(int64_t)(int32_t)(uint32_t)v->payload : v->payload;
}

/* An operation on constants -> its result. */
static ValueId fold(Function *f, const Value *v) {
    uint64_t args[3] = {0}, bits;
    if (op_info[v->op].form == FORM_NONE) return 0;
    for (int i = 0; i < op_info[v->op].arity; i++) {
        const Value *a = &f->values[v->arg[i]];
        if (a->op != OP_CONST) return 0;
        args[i] = i == 1 && ir_takes_count((Op)v->op) ? as_i64(a) : a->payload;
    }
    Type operand = (Type)f->values[v->arg[0]].type;
    if (!ir_evaluate((Op)v->op, (Type)v->type, operand, v->payload, args, &bits)) return 0;
    return ir_constant(f, (Type)v->type, bits);
}

/* Whether every value of `from` is one of `to`. */
static bool holds(Type to, Type from) {
    static const uint32_t within[TYPE_COUNT] = {
        [TYPE_F32] = 1 << TYPE_F64,
        [TYPE_I32] = 1 << TYPE_I64 | 1 << TYPE_F64,
        [TYPE_U32] = 1 << TYPE_U64 | 1 << TYPE_I64 | 1 << TYPE_F64,
        [TYPE_BOOL] = 1 << TYPE_F64 | 1 << TYPE_F32 | 1 << TYPE_I64 | 1 << TYPE_I32 |
                      1 << TYPE_U64 | 1 << TYPE_U32,
        [TYPE_E4M3] = 1 << TYPE_F16 | 1 << TYPE_BF16,
        [TYPE_E5M2] = 1 << TYPE_F16 | 1 << TYPE_BF16,
        [TYPE_I8] = 1 << TYPE_I16,
        [TYPE_U8] = 1 << TYPE_I16 | 1 << TYPE_U16,
    };
    return to == from || (within[from] >> to & 1);
}

/* cast(cast(x)) -> cast(x), when the inner one loses nothing; to_odd(cast(x)) -> x for an f32. */
static ValueId cast_of_cast(Function *f, const Value *v) {
    const Value *inner = &f->values[v->arg[0]];
    if ((v->op != OP_CAST && v->op != OP_TO_ODD) || inner->op != OP_CAST) return 0;
    Type from = (Type)f->values[inner->arg[0]].type;
    if (v->op == OP_TO_ODD) return from == TYPE_F32 ? inner->arg[0] : 0;
    if (!holds((Type)inner->type, from)) return 0;
    return ir_cast(f, (Type)v->type, inner->arg[0]);
}

/* round_to S x -> x, when x is already a value of S: read from it, or rounded to it or less. An
 * e5m2 array may hold infinities, which a store to it makes the largest number. */
static ValueId round_of_rounded(Function *f, const Value *v) {
    const Value *x = &f->values[v->arg[0]];
    if (v->op != OP_ROUND_TO) return 0;
    Type to = (Type)v->payload, from = x->op == OP_ROUND_TO    ? (Type)x->payload
                                       : x->op == OP_PARAMETER ? f->parameters[x->payload].type
                                                               : TYPE_NONE;
    if (from == TYPE_NONE || (x->op == OP_PARAMETER && to == TYPE_E5M2)) return 0;
    return holds(to, from) ? v->arg[0] : 0;
}

/* round_to S (if c then x else p) -> if c then round_to S x else p, where p is read from an S. */
static ValueId round_of_kept(Function *f, const Value *v) {
    const Value select = f->values[v->arg[0]];
    if (v->op != OP_ROUND_TO || select.op != OP_SELECT) return 0;
    const Value *old = &f->values[select.arg[2]];
    if (old->op != OP_PARAMETER || f->parameters[old->payload].type != (Type)v->payload ||
        (Type)v->payload == TYPE_E5M2)
        return 0;
    const ValueId x = ir_round_to(f, (Type)v->payload, select.arg[1]);
    return ir_op(f, OP_SELECT, select.arg[0], x, select.arg[2]);
}

/* x / 2^k -> x * 2^-k, where both powers are normal numbers: the same real number is rounded. */
static ValueId divide_by_power(Function *f, const Value *v) {
    const Value *b = &f->values[v->arg[1]];
    if (v->op != OP_DIV || b->op != OP_CONST) return 0;
    double divisor;
    float narrow;
    uint32_t low = (uint32_t)b->payload;
    memcpy(&divisor, &b->payload, sizeof divisor);
    memcpy(&narrow, &low, sizeof narrow);
    if (b->type == TYPE_F32) divisor = (double)narrow;
    int k, max = b->type == TYPE_F32 ? 126 : 1022;
    if (fabs(frexp(divisor, &k)) != 0.5 || k - 1 > max || k - 1 < -max) return 0;
    return ir_op(f, OP_MUL, v->arg[0], ir_constant_number(f, (Type)b->type, 1 / divisor), 0);
}

/* reduction[](x) -> x; logsumexp[](x) -> x + 0.0, which is what max + log(exp(0)) gives for -0. */
static ValueId reduce_nothing(Function *f, const Value *v) {
    if (!(op_info[v->op].flags & OP_REDUCTION) || v->payload != 0) return 0;
    if (v->op != OP_LOGSUMEXP) return v->arg[0];
    return ir_op(f, OP_ADD, v->arg[0], ir_constant_number(f, (Type)v->type, 0.0), 0);
}

/* What the reduction of no elements is. */
static ValueId of_nothing(Function *f, const Value *v) {
    const Type type = (Type)v->type;
    switch (v->op) {
    case OP_SUM: return ir_constant_number(f, type, 0.0);
    case OP_PROD: return ir_constant_number(f, type, 1.0);
    case OP_REDUCE_MIN: return ir_constant_number(f, type, INFINITY);
    case OP_ANY: return ir_constant(f, type, 0);
    case OP_ALL: return ir_constant(f, type, 1);
    case OP_ARGMIN:
    case OP_ARGMAX: return ir_constant_number(f, type, -1);
    default: return ir_constant_number(f, type, -INFINITY);
    }
}

/* reduction[n](x) -> what it is of nothing, where n, or what n counts blocks of, has no elements.
 */
static ValueId reduce_empty(Function *f, const Value *v) {
    if (!(op_info[v->op].flags & OP_REDUCTION)) return 0;
    for (uint32_t a = 0; a < f->axis_count; a++) {
        const int whole = f->axes[a].whole;
        if (v->payload >> a & 1 && f->axes[whole < 0 ? (int)a : whole].fixed == 0)
            return of_nothing(f, v);
    }
    return 0;
}

/* reduction[k](broadcast x) -> broadcast reduction[k](x), for the axes that are not reduced and on
 * which none of those hangs. */
static ValueId reduce_broadcast(Function *f, const Value *v) {
    Value operand = f->values[v->arg[0]];
    if (!(op_info[v->op].flags & OP_REDUCTION) || operand.op != OP_BROADCAST) return 0;
    ValueId x = ir_broadcast(f, operand.arg[0], ir_closure(f, (AxisSet)v->payload));
    if (f->values[x].axes == operand.axes) return 0;
    return ir_reduce(f, (Op)v->op, x, (AxisSet)v->payload);
}

/* count[k](x) > 0 -> any[k](x); count[k](x) != 0 too */
static ValueId any_of_count(Function *f, const Value *v) {
    const Value *count = &f->values[v->arg[0]], *zero = &f->values[v->arg[1]];
    if (v->op != OP_GT && v->op != OP_NE) return 0;
    if (count->op != OP_SUM || count->type != TYPE_I64) return 0;
    if (zero->op != OP_CONST || zero->payload) return 0;
    const Value *one = &f->values[count->arg[0]];
    if (one->op != OP_CAST || f->values[one->arg[0]].type != TYPE_BOOL) return 0;
    return ir_reduce(f, OP_ANY, one->arg[0], (AxisSet)count->payload);
}

/* index(k) >= 0 -> true; index(k) < size(k) -> true */
static ValueId index_in_range(Function *f, const Value *v) {
    const Value *a = &f->values[v->arg[0]], *b = &f->values[v->arg[1]];
    bool counts = a->op == OP_INDEX || a->op == OP_POSITION || a->op == OP_SIZE;
    bool min = v->op == OP_GE && counts && b->op == OP_CONST && b->payload == 0;
    bool max = v->op == OP_LT && a->op == OP_INDEX && b->op == OP_SIZE && a->payload == b->payload;
    return min || max ? ir_constant(f, TYPE_BOOL, 1) : 0;
}

/* A list whose entries, where they are broadcasts, are what was broadcast. */
static ValueId narrow_list(Function *f, ValueId list) {
    if (list == 0) return 0;
    Value v = f->values[list], entry = f->values[v.arg[0]];
    ValueId value = entry.op == OP_BROADCAST ? entry.arg[0] : v.arg[0];
    return ir_list(f, value, narrow_list(f, v.arg[1]), v.payload);
}

/* op(broadcast x, y) -> broadcast op(x, y); where y has the axes, the broadcast is gone. In the
 * list of a gather or a call too; what a scatter adds depends on its operands' axes, and the source
 * of a gather is the next rule's. */
static ValueId broadcast_last(Function *f, const Value *v) {
    ValueId args[3] = {0};
    bool found = false;
    if ((op_info[v->op].flags & OP_REDUCTION) || v->op == OP_LIST || ir_is_scatter(v)) return 0;
    for (int i = 0; i < op_info[v->op].arity; i++) {
        Value a = f->values[v->arg[i]];
        bool source = v->op == OP_GATHER && i == 0;
        args[i] = a.op == OP_BROADCAST && !source ? a.arg[0] : v->arg[i];
        if (a.op == OP_LIST) args[i] = narrow_list(f, v->arg[i]);
        found |= args[i] != v->arg[i];
    }
    if (!found) return 0;
    return v->op == OP_BROADCAST ? args[0] : ir_make(f, v, args);
}

/* gather (broadcast x) list -> if what lists the new axes is in range then gather x rest else 0 */
static ValueId gather_broadcast(Function *f, const Value *v) {
    Value source = f->values[v->arg[0]];
    if (v->op != OP_GATHER || source.op != OP_BROADCAST) return 0;
    ValueId x = source.arg[0], rest = 0, entries[LS_AXES_MAX];
    AxisSet own = f->values[x].axes, gone = 0;
    size_t count = 0;
    for (ValueId list = v->arg[1]; list; list = f->values[list].arg[1]) {
        AxisSet axes = ir_expand(f, (AxisSet)1 << f->values[list].payload);
        if (axes & own) entries[count++] = list;
        gone |= axes & source.axes & ~own;
    }
    while (count-- > 0) {
        Value entry = f->values[entries[count]];
        rest = ir_list(f, entry.arg[0], rest, entry.payload);
    }
    if (rest) x = ir_gather(f, x, rest);
    ValueId in_range = gather_in_range(f, v->arg[1], gone), zero = ir_constant(f, (Type)v->type, 0);
    return in_range ? ir_op(f, OP_SELECT, in_range, x, zero) : x;
}

typedef ValueId (*Rule)(Function *f, const Value *v);
static const Rule rules[] = {
    fold,           cast_of_cast,  round_of_rounded, round_of_kept,  divide_by_power,
    reduce_nothing, reduce_empty,  reduce_broadcast, broadcast_last, gather_broadcast,
    any_of_count,   index_in_range};

/* ---- the pass ---- */

typedef struct Simplifier {
    Function *f; /* the new function */
    Pattern patterns[COUNT(rewrites)];
    ValueId *known; /* by value of f: what it becomes in the end; 0 where not yet known */
    size_t known_count;
} Simplifier;

static ValueId apply_rules(Simplifier *s, ValueId id) {
    Value v = s->f->values[id]; /* a copy: building moves the array */
    ValueId result = apply_patterns(s->f, s->patterns, id);
    for (size_t i = 0; i < COUNT(rules) && result == 0; i++) result = rules[i](s->f, &v);
    return result ? ir_broadcast(s->f, result, v.axes) : 0; /* with all of its axes */
}

static void remember(Simplifier *s, ValueId id, ValueId becomes) {
    if (id >= s->known_count) {
        size_t count = 2 * s->f->value_count;
        ValueId *known = arena_alloc(s->f->arena, count * sizeof *known);
        if (s->known_count) memcpy(known, s->known, s->known_count * sizeof *known);
        s->known = known;
        s->known_count = count;
    }
    s->known[id] = becomes;
}

/* What a value becomes: its operands simplified first, then itself by one rule after the other. */
static ValueId rewrite(Simplifier *s, ValueId id, uint32_t depth) {
    enum { DEPTH_MAX = 1000 };
    if (id == 0) return 0; /* what a LIST that ends has */
    if (id < s->known_count && s->known[id]) return s->known[id];
    if (depth > DEPTH_MAX) bug(s->f->compiler, "%s: simplify does not end", s->f->name);
    Value v = s->f->values[id];
    ValueId args[3] = {0};
    for (int i = 0; i < op_info[v.op].arity; i++)
        if (v.arg[i]) args[i] = rewrite(s, v.arg[i], depth + 1);
    ValueId on_these = ir_rebuild(s->f, s->f, id, args), better = apply_rules(s, on_these);
    if (better) ir_set_source(s->f, better, v.range, v.name);
    ValueId becomes = better ? rewrite(s, better, depth + 1) : on_these;
    remember(s, id, becomes);
    remember(s, becomes, becomes);
    return becomes;
}

Function *simplify(Function *f) {
    Simplifier s = {.f = ir_function_like(f)};
    for (size_t i = 0; i < COUNT(rewrites); i++) {
        const char *before = rewrites[i].before, *after = rewrites[i].after;
        s.patterns[i].class = rewrites[i].class;
        s.patterns[i].before = formula_read(f->compiler, f->arena, &before);
        s.patterns[i].after = formula_read(f->compiler, f->arena, &after);
    }
    ValueId *map = arena_alloc(f->arena, f->value_count * sizeof *map);
    const bool *needed = ir_needed(f);
    for (ValueId id = 1; id < f->value_count; id++) {
        const Value *v = &f->values[id];
        if (!needed[id]) continue;
        ValueId args[3] = {map[v->arg[0]], map[v->arg[1]], map[v->arg[2]]};
        map[id] = rewrite(&s, ir_rebuild(s.f, f, id, args), 0);
        ir_set_source(s.f, map[id], v->range, v->name);
    }
    for (size_t i = 0; i < f->store_count; i++) {
        const Store *store = &f->stores[i];
        ValueId value = map[store->value]; /* a store broadcasts by itself */
        if (s.f->values[value].op == OP_BROADCAST) value = s.f->values[value].arg[0];
        ir_store(s.f, store->parameter, value, map[store->guard], store->range);
    }
    return ir_compact(s.f);
}
