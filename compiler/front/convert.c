/* convert.c: types and constants: what a type holds, how operands come to one type, and computing
 * with constants.
 *
 * A constant is untyped (TYPE_INTEGER as i64, TYPE_FLOAT as f64) until it meets an operand.
 * Operations on constants go through ir_evaluate, which computes as the device does: the same bits
 * on every host. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

bool is_error(const Typed *a) {
    return a->kind == TYPED_ERROR;
}
bool is_constant(const Typed *a) {
    return a->kind == TYPED_CONSTANT;
}
bool is_untyped(const Typed *a) {
    return a->type == TYPE_INTEGER || a->type == TYPE_FLOAT;
}

/* `if c then 0 else 1` with a c known at run time only: the constants adapt to what the whole
 * meets. The running values of scans are untyped for another reason, and for a moment only. */
static bool is_open(const Typed *a) {
    return is_untyped(a) && a->kind == TYPED_OP && a->op == OP_SELECT && !a->running;
}

/* The type an untyped constant is computed in. */
static Type real_type(int type) {
    return type == TYPE_INTEGER ? TYPE_I64 : type == TYPE_FLOAT ? TYPE_F64 : (Type)type;
}

char type_class(int type) {
    return type_info[real_type(type)].class;
}

const char *type_name(int type) {
    return type == TYPE_NONE      ? "unknown"
           : type == TYPE_INTEGER ? "an integer constant"
           : type == TYPE_FLOAT   ? "a float constant"
                                  : type_info[type].name;
}

const char *describe_axes(Checker *c, AxisSet axes) {
    return axes ? describe_listed(c, without_blocks(c, axes)) : "";
}

const char *describe(Checker *c, const Typed *a) {
    return arena_printf(c->arena, "%s%s", type_name(a->type), describe_axes(c, a->axes));
}

/* ---- typed values ---- */

Typed *typed_new(Checker *c, TypedKind kind, int type, AxisSet axes, Range range) {
    Typed *a = arena_alloc(c->arena, sizeof *a);
    a->kind = (uint8_t)kind;
    a->type = (uint8_t)type;
    a->storage = TYPE_NONE;
    a->axes = axes;
    a->range = range;
    a->id = c->body->typed_count++;
    return a;
}

Typed *typed_constant(Checker *c, int type, uint64_t bits, Range range) {
    Typed *a = typed_new(c, TYPED_CONSTANT, type, 0, range);
    a->payload = bits;
    return a;
}

static bool evaluate(Op op, Type result, Typed *const operands[3], uint64_t payload,
                     uint64_t *bits) {
    uint64_t args[3] = {0};
    for (int i = 0; i < 3; i++)
        if (operands[i]) args[i] = operands[i]->payload;
    Type operand = operands[0] ? real_type(operands[0]->type) : result;
    return ir_evaluate(op, result, operand, payload, args, bits);
}

Typed *typed_op(Checker *c, Op op, int type, Typed *a, Typed *b, Typed *d, uint64_t payload,
                Range range) {
    Typed *operands[3] = {a, b, d};
    AxisSet axes = 0;
    bool constant = true, untyped = false, running = false;
    for (int i = 0; i < 3; i++) {
        if (!operands[i]) continue;
        if (is_error(operands[i])) return &c->error;
        axes |= operands[i]->axes;
        running |= operands[i]->running;
        constant &= is_constant(operands[i]);
        untyped |= is_untyped(operands[i]);
    }
    uint64_t bits;
    if (constant && evaluate(op, real_type(type), operands, payload, &bits))
        return typed_constant(c, type, bits, range);
    if (constant && untyped) {
        if (complain(c, ERROR_CONSTANT_FUNCTION, range, op_info[op].name))
            diagnose_help(c->compiler, "give the constant a type: `%s(f32(...))`",
                          op_info[op].name);
        return &c->error;
    }
    Typed *value = typed_new(c, TYPED_OP, type, axes, range);
    value->op = (uint8_t)op;
    value->payload = payload;
    value->running = running;
    memcpy(value->args, operands, sizeof operands);
    return value;
}

/* An open `if`, with a conversion in each of its branches. */
typedef Typed *Conversion(Checker *, Typed *, int type);

static Typed *convert_branches(Checker *c, Typed *a, int type, Conversion *conversion) {
    Typed *one = conversion(c, a->args[1], type), *other = conversion(c, a->args[2], type);
    return is_error(one) || is_error(other)
               ? &c->error
               : typed_op(c, OP_SELECT, one->type, a->args[0], one, other, 0, a->range);
}

Typed *typed_cast(Checker *c, Typed *a, int type) {
    if (is_error(a) || a->type == type) return a;
    if (is_open(a)) return convert_branches(c, a, type, typed_cast);
    return typed_op(c, OP_CAST, type, a, NULL, NULL, 0, a->range);
}

/* The type of an open `if` that meets nothing: as of constants that meet integers only. */
static Type own_type(const Typed *a) {
    return a->type == TYPE_INTEGER ? TYPE_I64 : a->axes ? TYPE_F32 : TYPE_F64;
}

Typed *settle(Checker *c, Typed *a) {
    return is_open(a) ? typed_cast(c, a, own_type(a)) : a;
}

static Typed *convert_branch(Checker *c, Typed *a, int type) {
    return typed_convert(c, a, (Type)type);
}

Typed *typed_convert(Checker *c, Typed *a, Type type) {
    Type compute = type_info[type].compute;
    bool narrow = compute != type, narrow_float = narrow && type_info[type].class == 'F';
    if (is_open(a)) {
        Typed *value = convert_branches(c, a, type, convert_branch);
        if (!is_error(value) && narrow && !narrow_float) value->storage = (uint8_t)type;
        return value;
    }
    if (is_error(a) || (narrow_float && a->storage == type)) return a;
    if (narrow_float && a->type == TYPE_INTEGER) a = typed_cast(c, a, TYPE_FLOAT);
    if (narrow_float && real_type(a->type) == TYPE_F64)
        a = typed_op(c, OP_TO_ODD, TYPE_F32, a, NULL, NULL, 0, a->range);
    else
        a = typed_cast(c, a, (int)compute);
    if (is_error(a) || !narrow) return a;
    Typed *value = typed_op(c, OP_ROUND_TO, a->type, a, NULL, NULL, type, a->range);
    if (!is_error(value) && !narrow_float) value->storage = (uint8_t)type;
    return value;
}

/* ---- which type holds which ---- */

/* The values of integer type `from` are all values of integer type `to`. */
static bool holds(Type to, Type from) {
    bool to_signed = type_info[to].class == 'S', from_signed = type_info[from].class == 'S';
    if (from_signed && !to_signed) return false;
    return to_signed == from_signed ? type_info[to].size >= type_info[from].size
                                    : type_info[to].size > type_info[from].size;
}

/* An integer constant is a value of integer type `type`. */
static bool holds_constant(Type type, int64_t value) {
    int width = 8 * type_info[type].size;
    if (type_info[type].class == 'U')
        return value >= 0 && (width == 64 || value <= (int64_t)((UINT64_C(1) << width) - 1));
    int64_t max = width == 64 ? INT64_MAX : (INT64_C(1) << (width - 1)) - 1;
    return value <= max && value >= -max - 1;
}

static Typed *does_not_fit(Checker *c, const Typed *a, Type type) {
    complain(c, ERROR_CONSTANT_RANGE, a->range, (long long)(int64_t)a->payload,
             type_info[type].name);
    return &c->error;
}

/* An untyped constant becomes one of a compute type; a float never becomes an integer here. */
static Typed *adapt(Checker *c, Typed *a, int type) {
    if (type == TYPE_INTEGER || a->type == type) return a;
    if (is_open(a)) return convert_branches(c, a, type, adapt);
    bool integer = type_class(type) != 'F';
    if (integer && !holds_constant((Type)type, (int64_t)a->payload))
        return does_not_fit(c, a, (Type)type);
    return typed_op(c, OP_CAST, type, a, NULL, NULL, 0, a->range);
}

/* ---- operands of one operation ---- */

/* What is among the operands, as bits. */
enum {
    HAS_BOOL = 1,
    HAS_SIGNED = 2,
    HAS_UNSIGNED = 4,
    HAS_INTEGER = 8,  /* an untyped integer */
    HAS_FLOAT = 16,   /* an untyped float */
    HAS_64_BITS = 32, /* a 64-bit integer */
    HAS_INT_ARRAY = 64,
    HAS_F64 = 128,
    HAS_F64_ARRAY = 256,
    HAS_F32 = 512,
    HAS_F32_ARRAY = 1024
};

static unsigned survey(const Typed *a) {
    bool array = a->axes != 0;
    switch (a->type) {
    case TYPE_BOOL: return HAS_BOOL;
    case TYPE_INTEGER: return HAS_INTEGER;
    case TYPE_FLOAT: return HAS_FLOAT;
    case TYPE_F64: return HAS_F64 | (array ? HAS_F64_ARRAY : 0);
    case TYPE_F32: return HAS_F32 | (array ? HAS_F32_ARRAY : 0);
    default:
        return (type_class(a->type) == 'S' ? HAS_SIGNED : HAS_UNSIGNED) |
               (type_info[a->type].size == 8 ? HAS_64_BITS : 0) | (array ? HAS_INT_ARRAY : 0);
    }
}

static int common_type(unsigned has) {
    if (has & (HAS_F64 | HAS_F32)) { /* a rank-0 f64 follows an f32 array */
        if (has & HAS_F64_ARRAY) return TYPE_F64;
        if (has & HAS_F32_ARRAY) return TYPE_F32;
        return has & HAS_F64 ? TYPE_F64 : TYPE_F32;
    }
    bool ints = has & (HAS_SIGNED | HAS_UNSIGNED);
    if (has & HAS_FLOAT) return !ints ? TYPE_FLOAT : has & HAS_INT_ARRAY ? TYPE_F32 : TYPE_F64;
    if (!ints) return TYPE_INTEGER;
    if (has & HAS_UNSIGNED) return has & HAS_64_BITS ? TYPE_U64 : TYPE_U32;
    return has & HAS_64_BITS ? TYPE_I64 : TYPE_I32;
}

/* The first operand whose survey meets `bits`, or the first of all. */
static const Typed *culprit(Typed *const *operands, size_t count, unsigned bits) {
    for (size_t i = 0; i < count; i++)
        if (survey(operands[i]) & bits) return operands[i];
    return operands[0];
}

static int refuse(Checker *c, ErrorCode code, const Typed *a, Range at, const char *what,
                  const char *help) {
    Range range = at.file ? at : a->range;
    if (complain(c, code, range, what, describe(c, a)) && help)
        diagnose_help(c->compiler, "%s", help);
    return TYPE_NONE;
}

int unify(Checker *c, Typed **operands, size_t count, Accept accept, Range at, const char *what) {
    unsigned has = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_error(operands[i])) return TYPE_NONE;
        has |= survey(operands[i]);
    }
    if (has & HAS_BOOL) {
        const Typed *number = culprit(operands, count, ~(unsigned)HAS_BOOL);
        if (has != HAS_BOOL && (accept & ACCEPT_BOOL))
            return refuse(c, ERROR_MIXED_BOOL, number, at, what,
                          "write `f32(x)` or `i32(x)` for the bool, or compare the number");
        if (!(accept & ACCEPT_BOOL))
            return refuse(c, ERROR_NEEDS_NUMBER, culprit(operands, count, HAS_BOOL), at, what,
                          "write `f32(x)` or `i32(x)` for a bool x");
        return TYPE_BOOL;
    }
    int type = common_type(has);
    if (!(accept & ACCEPT_NUMBER))
        return refuse(c, ERROR_NEEDS_BOOL, operands[0], at, what, "compare it, as in `x != 0`");
    if (type_class(type) == 'F' && !(accept & ACCEPT_FLOAT))
        return refuse(c, ERROR_NEEDS_INTEGER,
                      culprit(operands, count, HAS_F32 | HAS_F64 | HAS_FLOAT), at, what, NULL);
    if (type_class(type) != 'F' && (has & HAS_SIGNED) && (has & HAS_UNSIGNED)) {
        complain(c, ERROR_MIXED_SIGNS, at.file ? at : operands[1]->range, what,
                 describe(c, culprit(operands, count, HAS_SIGNED)),
                 describe(c, culprit(operands, count, HAS_UNSIGNED)));
        diagnose_help(c->compiler, "convert one of them, as in `i64(x)`");
        return TYPE_NONE;
    }
    if (type == TYPE_INTEGER && !(accept & ACCEPT_INT)) type = TYPE_FLOAT;
    if (type_class(type) != 'F' && !(accept & ACCEPT_INT))
        return refuse(c, ERROR_NEEDS_FLOAT, operands[0], at, what, "write `f32(x)`");
    bool open = false;
    for (size_t i = 0; i < count; i++) open |= is_open(operands[i]);
    if (open && (type == TYPE_INTEGER || type == TYPE_FLOAT) && !(accept & ACCEPT_OPEN)) {
        Typed whole = {.type = (uint8_t)type};
        for (size_t i = 0; i < count; i++) whole.axes |= operands[i]->axes;
        type = own_type(&whole);
    }
    for (size_t i = 0; i < count; i++) {
        operands[i] = is_untyped(operands[i]) ? adapt(c, operands[i], type)
                                              : typed_cast(c, operands[i], type);
        if (is_error(operands[i])) return TYPE_NONE;
    }
    return type;
}

/* ---- conversions that need not be written ---- */

/* Whether a value of `a`'s type may become `type` unasked: a float any float, an integer any type
 * that holds it, a constant as it adapts. */
static bool converts(const Typed *a, Type type) {
    char from = type_class(a->type), to = type_info[type].class;
    if (from == 'B' || to == 'B') return from == to;
    if (a->type == TYPE_INTEGER) return true;
    if (from == 'F' || to == 'F') return from == to;
    return holds(type, (Type)a->type) || (a->storage != TYPE_NONE && holds(type, (Type)a->storage));
}

/* Whether an integer constant, or each of an open `if`, is a value of `type`; says so if not. */
static bool fits(Checker *c, const Typed *a, Type type) {
    if (is_open(a)) return fits(c, a->args[1], type) && fits(c, a->args[2], type);
    if (holds_constant(type, (int64_t)a->payload)) return true;
    does_not_fit(c, a, type);
    return false;
}

static Typed *convert(Checker *c, Typed *a, Type type, ErrorCode code, const char *target) {
    if (is_error(a)) return a;
    if (!converts(a, type)) {
        if (complain(c, code, a->range, describe(c, a), target))
            diagnose_help(c->compiler,
                          type == TYPE_BOOL ? "compare it, as in `x != 0`" : "write `%s(...)`",
                          type_info[type].name);
        return &c->error;
    }
    if (a->type == TYPE_INTEGER && type_info[type].class != 'F' && !fits(c, a, type))
        return &c->error;
    return typed_convert(c, a, type);
}

Typed *convert_argument(Checker *c, Typed *a, Type type, const char *target) {
    return convert(c, a, type, ERROR_ARGUMENT_TYPE, target);
}

Typed *convert_store(Checker *c, Typed *a, Type storage, const char *target) {
    return convert(c, a, storage, ERROR_STORE_TYPE, target);
}
