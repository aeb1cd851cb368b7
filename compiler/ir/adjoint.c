/* adjoint.c: adjoints that carry the conditions of the `if`s they came through.
 *
 * The branch that was not taken passes exactly 0, whatever it holds. A product of 0 with a slope
 * that is infinite or NaN is not 0, so an adjoint is a value and the conditions where it counts.
 * Beyond them the value is anything while it is multiplied on; masking waits until two adjoints
 * that count in different places meet, or one is added up over axes, gathered or stored:
 *
 *   both count in the same place      a + b
 *   one in each branch of an `if`     if c then a else b, which counts where the `if` itself does
 *   b in a branch inside of a's place a + (if c then b else 0.0)
 *   else                              (if c then a else 0.0) + (if k then b else 0.0), counting
 *                                     where c or k
 *
 * So what leaves an `if` by both branches has no condition left, and a program whose `if`s do no
 * harm gets the selects that its `if`s have. */
#include "base/base.h"
#include "ir/ir.h"

#include <math.h>
#include <string.h>

/* ---- conditions ---- */

static uint32_t depth_of(const Condition *c) {
    return c ? c->depth : 0;
}

static bool equal(const Condition *a, const Condition *b) {
    for (; a != b; a = a->outer, b = b->outer)
        if (depth_of(a) != depth_of(b) || a->test != b->test || a->holds != b->holds) return false;
    return true;
}

static const Condition *outer_at(const Condition *c, uint32_t depth) {
    while (depth_of(c) > depth) c = c->outer;
    return c;
}

static const Condition *common(const Condition *a, const Condition *b) {
    uint32_t depth = depth_of(a) < depth_of(b) ? depth_of(a) : depth_of(b);
    const Condition *both = NULL;
    for (a = outer_at(a, depth), b = outer_at(b, depth); a != b; a = a->outer, b = b->outer) {
        if (a->test != b->test || a->holds != b->holds)
            both = NULL;
        else if (!both)
            both = a;
    }
    return both ? both : a;
}

static const Condition *outermost(const Condition *a, const Condition *b) {
    return depth_of(a) < depth_of(b) ? a : b;
}
static const Condition *innermost(const Condition *a, const Condition *b) {
    return depth_of(a) < depth_of(b) ? b : a;
}

/* The conditions and one more; NULL in *inner and false where they rule each other out. */
static bool add_test(Function *f, const Condition *outer, ValueId test, bool holds,
                     const Condition **inner) {
    while (f->values[test].op == OP_NOT) test = f->values[test].arg[0], holds = !holds;
    for (const Condition *c = outer; c; c = c->outer)
        if (c->test == test) {
            *inner = c->holds == holds ? outer : NULL;
            return c->holds == holds;
        }
    Condition *c = arena_alloc(f->arena, sizeof *c);
    *c = (Condition){outer, test, holds, depth_of(outer) + 1};
    *inner = c;
    return true;
}

/* Whether what is inside of `from` holds; 0: there is nothing. */
static ValueId inside_of(Function *f, const Condition *c, const Condition *from) {
    ValueId all = 0;
    for (; depth_of(c) > depth_of(from); c = c->outer) {
        ValueId one = c->holds ? c->test : ir_op(f, OP_NOT, c->test, 0, 0);
        all = all ? ir_op(f, OP_AND, one, all, 0) : one;
    }
    return all;
}

/* ---- values that keep zeros ---- */

enum { LOOKED_AT = 8 };

static bool is_constant(const Function *f, ValueId id, double *number) {
    const Value *v = &f->values[id];
    uint32_t low = (uint32_t)v->payload;
    float narrow;
    if (v->op != OP_CONST || type_info[v->type].class != 'F') return false;
    memcpy(number, &v->payload, sizeof *number);
    memcpy(&narrow, &low, sizeof narrow);
    if (v->type == TYPE_F32) *number = (double)narrow;
    return true;
}

static bool is_finite(const Function *f, ValueId id, int depth) {
    const Value *v = &f->values[id];
    double number;
    if (depth == LOOKED_AT) return false;
    if (type_info[v->type].class != 'F' || v->op == OP_RANDOM_UNIFORM || v->op == OP_RANDOM_NORMAL)
        return true;
    switch (v->op) {
    case OP_CONST: return is_constant(f, id, &number) && isfinite(number);
    case OP_SELECT: return is_finite(f, v->arg[1], depth + 1) && is_finite(f, v->arg[2], depth + 1);
    case OP_CAST: /* an f64 may be too large for an f32 */
        return type_info[f->values[v->arg[0]].type].class != 'F' ||
               (v->type == TYPE_F64 && is_finite(f, v->arg[0], depth + 1));
    case OP_NEG:
    case OP_ABS:
    case OP_SIGN:
    case OP_BROADCAST: return is_finite(f, v->arg[0], depth + 1);
    default: return false;
    }
}

bool value_is_finite(const Function *f, ValueId id) {
    return is_finite(f, id, 0);
}

/* Whether c is 0 wherever d is. */
static bool keeps_zero(const Function *f, ValueId c, ValueId d, int depth) {
    const Value *v = &f->values[c];
    const ValueId a = v->arg[0], b = v->arg[1];
    double number;
    if (c == d) return true;
    if (depth == LOOKED_AT) return false;
    switch (v->op) {
    case OP_CONST: return is_constant(f, c, &number) && number == 0;
    case OP_NEG:
    case OP_CAST:
    case OP_ROUND_TO:
    case OP_BROADCAST: return keeps_zero(f, a, d, depth + 1);
    case OP_MUL:
        return (keeps_zero(f, a, d, depth + 1) && is_finite(f, b, 0)) ||
               (keeps_zero(f, b, d, depth + 1) && is_finite(f, a, 0));
    case OP_DIV:
        return is_constant(f, b, &number) && !isnan(number) && number != 0 &&
               keeps_zero(f, a, d, depth + 1);
    case OP_SELECT: return keeps_zero(f, b, d, depth + 1) && keeps_zero(f, v->arg[2], d, depth + 1);
    default: return false;
    }
}

/* ---- adjoints ---- */

Adjoint adjoint_branch(Function *f, Adjoint d, ValueId test, bool holds) {
    const Condition *where;
    if (!add_test(f, d.where, test, holds, &where)) return (Adjoint){0};
    if (where == d.where) return d;
    return (Adjoint){d.value, where, where};
}

Adjoint adjoint_times(const Function *f, Adjoint d, ValueId c) {
    return (Adjoint){c, d.where, keeps_zero(f, c, d.value, 0) ? d.within : d.where};
}

static ValueId select(Function *f, ValueId test, ValueId a, ValueId b) {
    return a == b ? a : ir_op(f, OP_SELECT, test, a, b);
}

/* The value, within `from` 0 where it does not count: an `if` for each test. */
static ValueId masked(Function *f, Adjoint d, const Condition *from) {
    const ValueId zero = ir_constant_number(f, (Type)f->values[d.value].type, 0);
    ValueId value = d.value;
    for (const Condition *c = d.within; depth_of(c) > depth_of(from); c = c->outer)
        value = c->holds ? select(f, c->test, value, zero) : select(f, c->test, zero, value);
    return value;
}

ValueId adjoint_masked(Function *f, Adjoint d) {
    return masked(f, d, NULL);
}

ValueId adjoint_counts(Function *f, Adjoint d) {
    return inside_of(f, d.where, NULL);
}

/* a + b, b counting inside of a's place. Where a is itself an `if` on the next test, b goes into
 * its branch, or the branch of its branch. */
static ValueId add_inside(Function *f, ValueId a, const Condition *place, Adjoint b) {
    enum { BRANCHES = 16 };
    struct Branch {
        ValueId test, other;
        bool holds;
    } branches[BRANCHES];
    int count = 0;
    while (count < BRANCHES && depth_of(b.where) > depth_of(place)) {
        const Condition *next = outer_at(b.where, depth_of(place) + 1);
        const Value *v = &f->values[a];
        if (v->op != OP_SELECT || v->arg[0] != next->test) break;
        branches[count++] = (struct Branch){next->test, v->arg[next->holds ? 2 : 1], next->holds};
        a = v->arg[next->holds ? 1 : 2];
        place = next;
    }
    a = ir_op(f, OP_ADD, a, masked(f, b, place), 0);
    while (count-- > 0) {
        const struct Branch *at = &branches[count];
        a = at->holds ? select(f, at->test, a, at->other) : select(f, at->test, at->other, a);
    }
    return a;
}

Adjoint adjoint_add(Function *f, Adjoint a, Adjoint b) {
    if (!a.value || !b.value) return a.value ? a : b;
    const Condition *place = common(a.where, b.where);
    const Condition *within = innermost(outermost(a.within, place), outermost(b.within, place));
    bool branches = a.where && b.where && depth_of(a.where) == depth_of(b.where) &&
                    equal(a.where->outer, b.where->outer) && a.where->test == b.where->test &&
                    a.where->holds != b.where->holds;
    if (branches) {
        ValueId value = a.where->holds ? select(f, a.where->test, a.value, b.value)
                                       : select(f, a.where->test, b.value, a.value);
        return (Adjoint){value, place, within};
    }
    if (depth_of(a.where) == depth_of(place))
        return (Adjoint){add_inside(f, a.value, place, b), place, within};
    ValueId sum = ir_op(f, OP_ADD, masked(f, a, place), masked(f, b, place), 0);
    if (depth_of(b.where) == depth_of(place)) return (Adjoint){sum, place, within};
    ValueId either = ir_op(f, OP_OR, inside_of(f, a.where, place), inside_of(f, b.where, place), 0);
    const Condition *where;
    if (!add_test(f, place, either, true, &where)) return (Adjoint){0};
    return (Adjoint){sum, where, within};
}

Adjoint adjoint_both(Function *f, Adjoint a, Adjoint b, ValueId value) {
    ValueId counts = inside_of(f, b.where, NULL);
    const Condition *where = a.where;
    if (counts && !add_test(f, where, counts, true, &where)) return (Adjoint){0};
    return (Adjoint){value, where, where};
}

Adjoint adjoint_split(Function *f, Adjoint d, AxisSet axes, ValueId *rest) {
    const Condition *place = d.where;
    for (const Condition *c = d.where; c; c = c->outer)
        if (f->values[c->test].axes & axes) place = c->outer;
    *rest = inside_of(f, d.where, place);
    return (Adjoint){masked(f, d, place), place, outermost(d.within, place)};
}

Adjoint adjoint_rejoin(Function *f, Adjoint a, ValueId value, ValueId rest) {
    const Condition *where = a.where;
    if (rest && !add_test(f, where, rest, true, &where)) return (Adjoint){0};
    return (Adjoint){value, where, a.within};
}
