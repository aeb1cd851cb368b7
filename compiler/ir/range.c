/* range.c: what is known of a value from how it is made, whatever its parameters are: that it is
 * never positive, never negative, never more than another. NaN is none of these, and allowed by
 * each: a function of such an operand gives NaN. Rounding keeps an order, so it is that of the
 * exact values. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"

enum { DEPTH = 12 }; /* of the values that are looked at */

static bool has_sign(const Function *f, ValueId id, bool negative, int depth);

/* Whether the condition says that a < b. */
static bool says_less(const Function *f, ValueId condition, ValueId a, ValueId b) {
    const Value *v = &f->values[condition];
    if (v->op == OP_AND) return says_less(f, v->arg[0], a, b) || says_less(f, v->arg[1], a, b);
    return (v->op == OP_LT && v->arg[0] == a && v->arg[1] == b) ||
           (v->op == OP_GT && v->arg[0] == b && v->arg[1] == a);
}

static ValueId without_broadcast(const Function *f, ValueId id) {
    while (f->values[id].op == OP_BROADCAST) id = f->values[id].arg[0];
    return id;
}

/* a <= b; the sum that logsumexp takes the logarithm of has the 1 of the greatest element. */
static bool is_at_most(const Function *f, ValueId a, ValueId b, int depth) {
    a = without_broadcast(f, a);
    b = without_broadcast(f, b);
    const Value *x = &f->values[a], *y = &f->values[b];
    if (a == b) return true;
    if (depth-- == 0) return false;
    switch (y->op) {
    case OP_REDUCE_MAX:
    case OP_LOGSUMEXP: { /* -inf over an axis without elements, along which `a` has none then */
        const AxisSet reduced = f->values[y->arg[0]].axes & ~y->axes;
        if ((x->axes & reduced) == reduced && is_at_most(f, a, y->arg[0], depth)) return true;
        break;
    }
    case OP_MAX:
        if (is_at_most(f, a, y->arg[0], depth) || is_at_most(f, a, y->arg[1], depth)) return true;
        break;
    case OP_SELECT: {
        const bool other = is_at_most(f, a, y->arg[2], depth);
        if (other && says_less(f, y->arg[0], y->arg[2], y->arg[1])) return true;
        if (other && is_at_most(f, a, y->arg[1], depth)) return true;
        break;
    }
    default: break;
    }
    if (x->op == OP_MIN)
        return is_at_most(f, x->arg[0], b, depth) || is_at_most(f, x->arg[1], b, depth);
    if (x->op == OP_SELECT)
        return is_at_most(f, x->arg[1], b, depth) && is_at_most(f, x->arg[2], b, depth);
    return false;
}

static bool is_constant(const Value *v, bool negative) {
    const uint64_t sign = v->type == TYPE_F64 ? (uint64_t)1 << 63 : 0x80000000u;
    if (v->op != OP_CONST || type_info[v->type].class != 'F') return false;
    return !(v->payload & ~sign) || !(v->payload & sign) != negative; /* zeros, or of that sign */
}

static bool have_sign(const Function *f, const Value *v, bool negative, int depth) {
    return has_sign(f, v->arg[0], negative, depth) && has_sign(f, v->arg[1], negative, depth);
}

/* A product's sign: that of two factors alike, which may be one value. */
static bool product_has_sign(const Function *f, const Value *v, bool negative, int depth) {
    if (!negative && v->arg[0] == v->arg[1]) return true;
    for (int other = 0; other < 2; other++)
        if (has_sign(f, v->arg[0], other, depth) &&
            has_sign(f, v->arg[1], (bool)other != negative, depth))
            return true;
    return false;
}

/* Never above 0 if `negative`, else never below it. */
static bool has_sign(const Function *f, ValueId id, bool negative, int depth) {
    const Value *v = &f->values[id];
    if (depth-- == 0) return false;
    switch (v->op) {
    case OP_CONST: return is_constant(v, negative);
    case OP_BROADCAST:
    case OP_ROUND_TO:
    case OP_SUM: return has_sign(f, v->arg[0], negative, depth);
    case OP_NEG: return has_sign(f, v->arg[0], !negative, depth);
    case OP_SUB:
        return negative ? is_at_most(f, v->arg[0], v->arg[1], depth)
                        : is_at_most(f, v->arg[1], v->arg[0], depth);
    case OP_ADD: return have_sign(f, v, negative, depth);
    case OP_MUL: return product_has_sign(f, v, negative, depth);
    case OP_DIV: /* by a number that is none of the zeros, whose signs count there */
        return f->values[v->arg[1]].op == OP_CONST &&
               !is_constant(&f->values[v->arg[1]], true) !=
                   !is_constant(&f->values[v->arg[1]], false) &&
               product_has_sign(f, v, negative, depth);
    case OP_SELECT:
        return has_sign(f, v->arg[1], negative, depth) && has_sign(f, v->arg[2], negative, depth);
    case OP_MIN:
    case OP_MAX:
        if ((v->op == OP_MIN) != negative) return have_sign(f, v, negative, depth);
        return has_sign(f, v->arg[0], negative, depth) || has_sign(f, v->arg[1], negative, depth);
    case OP_ABS:
    case OP_SQRT:
    case OP_EXP:
    case OP_EXP_LITE:
    case OP_EXP2:
    case OP_EXP2_LITE:
    case OP_SIGMOID:
    case OP_SIGMOID_LITE: return !negative;
    default: return false;
    }
}

bool ir_is_never_positive(const Function *f, ValueId id) {
    return has_sign(f, id, true, DEPTH);
}

bool ir_is_nonpositive(const Value *v) {
    return (v->op == OP_EXP || v->op == OP_EXP_LITE) && v->payload == EXP_NONPOSITIVE;
}
