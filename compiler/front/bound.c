/* bound.c: how far a value may be from the one that exact arithmetic gives, where that follows from
 * how it is written.
 *
 * To first order: relative errors of factors add up, each operation adds its own, and a sum of
 * terms that are not negative is no worse than its worst term. Where terms may cancel nothing is
 * known, unless they are exact themselves. Parameters are taken as exact, and nothing overflows or
 * underflows. */
#include <math.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

/* In units of the last place; lite 0: as exact. */
static const struct {
    double exact, lite;
} function_bounds[OP_COUNT] = {
#define X(op, exact, lite) [OP_##op] = {exact, lite},
#include "ir/bounds.def"
#undef X
};

typedef struct Error {
    bool known;
    double relative;
    double sums; /* reductions one behind the other, each of which adds 10 half units for each
                    factor of 1,024 elements: its tree is that deep */
} Error;

/* What a fn's arguments stand for. */
typedef struct Arguments {
    Typed *const *list;
    const struct Arguments *outer;
} Arguments;

typedef struct Bound {
    const Step *step; /* whose axes those of sums are; NULL: they have none */
    ls_math math;
    uint32_t work;  /* values that may still be looked at */
    uint32_t level; /* of the recursion */
} Bound;

enum { WORK_MAX = 4000, LEVELS_MAX = 100 };

static const Error exact = {.known = true};
static const Error unknown = {.known = false};

/* Half a unit of the last place of a type, as a relative error. */
static double half_unit(const Typed *a) {
    return a->type == TYPE_F64 || a->type == TYPE_FLOAT ? 0x1p-53 : 0x1p-24;
}

/* ---- signs ---- */

static bool not_negative(Bound *b, const Typed *a, const Arguments *given);

static bool constant_not_negative(const Typed *a) {
    switch (a->type) {
    case TYPE_FLOAT:
    case TYPE_F64: return a->payload >> 63 == 0;
    case TYPE_F32:
    case TYPE_I32: return (a->payload >> 31 & 1) == 0;
    case TYPE_INTEGER:
    case TYPE_I64: return (int64_t)a->payload >= 0;
    default: return true;
    }
}

static bool op_not_negative(Bound *b, const Typed *a, const Arguments *given) {
    Typed *const *args = a->args;
    switch (a->op) {
    case OP_ABS:
    case OP_EXP:
    case OP_EXP2:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_SIGMOID:
    case OP_SOFTPLUS:
    case OP_SIZE:
    case OP_INDEX:
    case OP_RANDOM_UNIFORM: return true;
    case OP_MUL: /* of a value and itself, too */
        if (args[0]->kind == TYPED_LET && args[1]->kind == TYPED_LET &&
            args[0]->let == args[1]->let)
            return true;
        if (args[0] == args[1]) return true;
        if (args[0]->kind == TYPED_PARAMETER && args[1]->kind == TYPED_PARAMETER &&
            args[0]->payload == args[1]->payload)
            return true;
        return not_negative(b, args[0], given) && not_negative(b, args[1], given);
    case OP_ADD:
    case OP_DIV:
    case OP_MIN: return not_negative(b, args[0], given) && not_negative(b, args[1], given);
    case OP_MAX: return not_negative(b, args[0], given) || not_negative(b, args[1], given);
    case OP_SELECT: return not_negative(b, args[1], given) && not_negative(b, args[2], given);
    case OP_CAST:
    case OP_ROUND_TO:
    case OP_SUM:
    case OP_GATHER:
    case OP_STOP_GRADIENT: return args[0] && not_negative(b, args[0], given);
    default: return false;
    }
}

static bool not_negative(Bound *b, const Typed *a, const Arguments *given) {
    bool yes = false;
    if (b->work == 0 || b->level >= LEVELS_MAX) return false;
    b->work--;
    b->level++;
    switch (a->kind) {
    case TYPED_CONSTANT: yes = constant_not_negative(a); break;
    case TYPED_LET: yes = not_negative(b, a->let->value, given); break;
    case TYPED_ARGUMENT:
        yes = given && not_negative(b, given->list[a->payload], given->outer);
        break;
    case TYPED_POWER: yes = (a->payload & 1) == 0 || not_negative(b, a->args[0], given); break;
    case TYPED_CALL:
        yes = not_negative(b, a->instance->result, &(Arguments){a->arguments, given});
        break;
    case TYPED_OP: yes = op_not_negative(b, a, given); break;
    default: break;
    }
    b->level--;
    return yes;
}

/* ---- errors ---- */

static Error error_of(Bound *b, const Typed *a, const Arguments *given);

static bool is_exact(Error e) {
    return e.known && e.relative <= 0 && e.sums <= 0;
}

static Error product(Error x, Error y, double own) {
    if (!x.known || !y.known) return unknown;
    return (Error){true, x.relative + y.relative + own, x.sums + y.sums};
}

static Error worse(Error x, Error y, double own) {
    if (!x.known || !y.known) return unknown;
    return (Error){true, (x.relative > y.relative ? x.relative : y.relative) + own,
                   x.sums > y.sums ? x.sums : y.sums};
}

/* Of a function whose relative error grows by `factor` with that of its operand. */
static Error scaled(Error x, double factor, double own) {
    if (!x.known) return unknown;
    return (Error){true, x.relative * factor + own, x.sums * factor};
}

static Error function_error(const Bound *b, const Typed *a, Error x) {
    double ulps = function_bounds[a->op].exact, lite = function_bounds[a->op].lite;
    if (b->math == LS_MATH_LITE && lite > 0 && a->type == TYPE_F32) ulps = lite;
    if (a->type == TYPE_F64 || a->type == TYPE_FLOAT) ulps = 2;
    const double own = ulps * 2 * half_unit(a);
    if (a->op == OP_RSQRT) return scaled(x, 0.5, own);
    if (a->op == OP_CBRT) return scaled(x, 1.0 / 3, own);
    return is_exact(x) ? (Error){true, own, 0} : unknown; /* the slope is not known */
}

static Error cast_error(const Typed *a, Error x) {
    const char from = type_class(a->args[0]->type);
    if (type_class(a->type) != 'F') return is_exact(x) ? exact : unknown;
    const bool whole = from == 'B' || (a->type == TYPE_F64 && a->args[0]->type != TYPE_I64 &&
                                       a->args[0]->type != TYPE_U64);
    const bool same = a->args[0]->type == a->type || is_constant(a->args[0]);
    return scaled(x, 1, whole || same ? 0 : half_unit(a));
}

/* Half a unit of the last place of a storage type. */
static double storage_unit(Type type) {
    return type == TYPE_F16    ? 0x1p-11
           : type == TYPE_BF16 ? 0x1p-9
           : type == TYPE_E4M3 ? 0x1p-4
           : type == TYPE_E5M2 ? 0x1p-3
                               : 0;
}

static bool rounds_nothing(uint8_t op) {
    return op == OP_SIGN || op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND || op == OP_TRUNC ||
           op == OP_CLAMP || op == OP_COPYSIGN || op == OP_FLOAT_FROM_BITS;
}

/* Of a list each tensor is added up by a tree, and then those of all tensors by another. */
static int trees_of(const Bound *b, AxisSet axes) {
    for (size_t a = 0; b->step && a < b->step->axis_count; a++) {
        const int parent = b->step->axes[a].parent;
        if ((axes >> a & 1) && parent >= 0 && (axes >> parent & 1)) return 2;
    }
    return 1;
}

static Error op_error(Bound *b, const Typed *a, const Arguments *given) {
    Error x[3] = {exact, exact, exact};
    const double own = half_unit(a);
    for (int i = 0; i < 3; i++)
        if (a->args[i]) x[i] = error_of(b, a->args[i], given);
    if (type_class(a->type) != 'F' && a->op != OP_CAST)
        return is_exact(x[0]) && is_exact(x[1]) && is_exact(x[2]) ? exact : unknown;
    switch (a->op) {
    case OP_NEG:
    case OP_ABS:
    case OP_STOP_GRADIENT: return x[0];
    case OP_GATHER: return is_exact(x[1]) ? x[0] : unknown;
    case OP_CAST: return cast_error(a, x[0]);
    case OP_MUL:
    case OP_DIV: return product(x[0], x[1], own);
    case OP_SQRT: return scaled(x[0], 0.5, own);
    case OP_ADD:
        if (not_negative(b, a->args[0], given) && not_negative(b, a->args[1], given))
            return worse(x[0], x[1], own);
        return is_exact(x[0]) && is_exact(x[1]) ? (Error){true, own, 0} : unknown;
    case OP_SUB:
    case OP_FMA:
        return is_exact(x[0]) && is_exact(x[1]) && is_exact(x[2]) ? (Error){true, own, 0} : unknown;
    case OP_MIN:
    case OP_MAX:
        if (not_negative(b, a->args[0], given) && not_negative(b, a->args[1], given))
            return worse(x[0], x[1], 0);
        return is_exact(x[0]) && is_exact(x[1]) ? exact : unknown;
    case OP_SELECT: return is_exact(x[0]) ? worse(x[1], x[2], 0) : unknown;
    case OP_SUM:
        if (type_class(a->type) != 'F') return is_exact(x[0]) ? exact : unknown;
        if (!not_negative(b, a->args[0], given)) return unknown;
        x[0].sums += trees_of(b, (AxisSet)a->payload);
        return x[0];
    case OP_ROUND_TO: return scaled(x[0], 1, storage_unit((Type)a->payload));
    default: break;
    }
    if (function_bounds[a->op].exact > 0)
        return is_exact(x[1]) ? function_error(b, a, x[0]) : unknown;
    const bool given_exactly = is_exact(x[0]) && is_exact(x[1]) && is_exact(x[2]);
    return given_exactly && (type_class(a->type) != 'F' || rounds_nothing(a->op)) ? exact : unknown;
}

/* r = 1, b = x; for each bit of n: r = r * b if it is set, then b = b * b: at most two products for
 * each bit, the error of b doubling each time. */
static Error power_error(const Typed *a, Error x) {
    const int64_t n = (int64_t)a->payload;
    const double size = n < 0 ? -(double)n : (double)n;
    return scaled(x, size, (size > 1 ? size - 1 : 0) * half_unit(a) + (n < 0 ? half_unit(a) : 0));
}

/* Whether the parameter has the value there that the step was given. */
static bool is_given(const Step *step, const Typed *a) {
    if (!step || !step->assigned) return true;
    const Assigned *assigned = &step->assigned[a->payload];
    return assigned->range.file == 0 || (!step->looped && a->id < assigned->first);
}

static Error error_of(Bound *b, const Typed *a, const Arguments *given) {
    Error e = unknown;
    if (b->work == 0 || b->level >= LEVELS_MAX) return unknown;
    b->work--;
    b->level++;
    switch (a->kind) {
    case TYPED_CONSTANT: e = exact; break;
    case TYPED_PARAMETER:
        if (is_given(b->step, a)) e = exact;
        break;
    case TYPED_LET: e = error_of(b, a->let->value, given); break;
    case TYPED_ARGUMENT:
        if (given) e = error_of(b, given->list[a->payload], given->outer);
        break;
    case TYPED_POWER: e = power_error(a, error_of(b, a->args[0], given)); break;
    case TYPED_CALL: e = error_of(b, a->instance->result, &(Arguments){a->arguments, given}); break;
    case TYPED_OP: e = op_error(b, a, given); break;
    default: break;
    }
    b->level--;
    return e;
}

/* ---- in words ---- */

const char *typed_bound(Checker *c, const Typed *value, ls_math math) {
    if (type_class(value->type) != 'F' || is_constant(value) || value->kind == TYPED_PARAMETER)
        return NULL;
    if (math == LS_MATH_FAST) return NULL; /* the hardware's functions, and contraction */
    Bound b = {.step = c->step, .math = math, .work = WORK_MAX};
    const Error e = error_of(&b, value, NULL);
    if (!e.known) return NULL;
    const bool wide = value->type == TYPE_F64;
    const double units = e.relative / (wide ? 0x1p-53 : 0x1p-24);
    const char *unit = wide ? "2^-53" : "2^-24";
    if (units <= 0 && e.sums <= 0) return "exact";
    Text text = text_open(c->arena);
    text_puts(&text, "at most ");
    if (e.sums > 0)
        text_printf(&text,
                    "%.4g * %s of the value where sums have up to 1,024 elements, "
                    "%.4g more for each factor of 1,024",
                    units + 10 * e.sums, unit, 10 * e.sums);
    else
        text_printf(&text, "%.4g * %s of the value", units, unit);
    return text.data;
}
