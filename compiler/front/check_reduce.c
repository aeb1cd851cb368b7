/* check_reduce.c: reductions.
 *
 * A reduction over a list is one over each tensor's elements and then one over the tensors, before
 * what follows it: the root of norm, the logarithm of logsumexp, the division of mean. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

/* ---- which axes ---- */

/* What varies over an axis varies over the one it depends on: that cannot go alone. */
static bool leaves_parents(Checker *c, const Node *node, const Builtin *builtin, const Typed *a,
                           AxisSet over) {
    AxisSet rest = a->axes & ~over, lost = with_parents(c, rest) & ~rest;
    if (lost == 0) return true;
    uint32_t parent = (uint32_t)__builtin_ctz(lost), child = 0;
    AxisSet left = without_blocks(c, rest);
    while (!(left >> child & 1) || c->step->axes[child].parent != (int)parent) child++;
    const Axis *axes = c->step->axes;
    if (complain(c, ERROR_AXIS_LEFT, node->range, axes[parent].name, axes[child].name)) {
        const char *all = describe_axes(c, over | with_blocks(c, (AxisSet)1 << child));
        diagnose_help(c->compiler, "reduce both, `%s%s(...)`, or `%s` before `%s`", builtin->name,
                      all, axes[child].name, axes[parent].name);
    }
    return false;
}

/* The axes to reduce: those named, or all that the operand has. False after an error. */
static bool reduced_axes(Checker *c, const Node *node, const Builtin *builtin, const Typed *a,
                         AxisSet *over) {
    *over = a->axes;
    if (!node->has_brackets) {
        if (a->axes == 0) complain(c, ERROR_NOTHING_TO_REDUCE, node->range, builtin->name);
        return a->axes != 0;
    }
    AxisSet listed = 0;
    bool fine = true;
    for (const Node *name = node->brackets; name; name = name->next) {
        Symbol *axis = find_axis(c, name, builtin->name);
        fine &= axis && add_listed(c, axis->number, name->range, &listed);
        if (!axis || !fine) continue;
        if (refuse_place(c, axis, name->range, builtin->name)) {
            fine = false;
            continue;
        }
        if (with_blocks(c, (AxisSet)1 << axis->number) & ~a->axes) {
            complain(c, ERROR_AXIS_LACKING, name->range, axis->name->text, describe(c, a));
            fine = false;
        }
    }
    if (fine && listed == 0) {
        complain(c, ERROR_NEEDS_AXIS_NAME, node->at, builtin->name);
        fine = false;
    }
    *over = with_blocks(c, listed);
    return fine && leaves_parents(c, node, builtin, a, *over);
}

/* ---- reductions ---- */

/* The one argument and the axes of a reduction. */
static bool operand_of(Checker *c, const Node *node, const Builtin *builtin, Accept accept,
                       Typed **a, AxisSet *over) {
    if (!check_arguments(c, node, builtin, a)) return false;
    const char *what = arena_printf(c->arena, "`%s`", builtin->name);
    if (refuse_running(c, *a, what)) return false;
    return unify(c, a, 1, accept, (Range){0}, what) != TYPE_NONE &&
           reduced_axes(c, node, builtin, *a, over);
}

static Typed *reduce_tensor(Checker *c, Op op, int type, Typed *a, AxisSet over, Range range) {
    Typed *value = typed_op(c, op, type, a, NULL, NULL, over, range);
    if (value->kind == TYPED_OP) value->axes = a->axes & ~over;
    return value;
}

/* Of `over`, the axis that counts the tensors of the list that is reduced with its elements. */
static AxisSet reduced_list(const Checker *c, AxisSet over) {
    return list_axis(c, over) & over;
}

/* Over a list: of what comes of each of its tensors. */
static Typed *reduce(Checker *c, Op op, int type, Typed *a, AxisSet over, Range range) {
    AxisSet list = reduced_list(c, over);
    if (list) {
        a = reduce_tensor(c, op, type, a, over & ~list, range);
        over = list;
    }
    return reduce_tensor(c, op, type, a, over, range);
}

/* Over a list, before the logarithm: with M the greatest of all, M + log(sum(exp(x - M))), or M
 * where that is infinite or NaN. */
static Typed *reduce_logsumexp(Checker *c, Typed *a, AxisSet over, Range range) {
    int type = a->type;
    if (!reduced_list(c, over)) return reduce_tensor(c, OP_LOGSUMEXP, type, a, over, range);
    Typed *max = reduce(c, OP_REDUCE_MAX, type, a, over, range);
    Typed *zero = typed_cast(c, typed_constant(c, TYPE_INTEGER, 0, range), type);
    Typed *finite = typed_op(c, OP_ISFINITE, TYPE_BOOL, max, NULL, NULL, 0, range);
    Typed *base = typed_op(c, OP_SELECT, type, finite, max, zero, 0, range);
    Typed *shifted = typed_op(c, OP_SUB, type, a, base, NULL, 0, range);
    Typed *exp = typed_op(c, OP_EXP, type, shifted, NULL, NULL, 0, range);
    Typed *sum = reduce(c, OP_SUM, type, exp, over, range);
    Typed *log = typed_op(c, OP_LOG, type, sum, NULL, NULL, 0, range);
    Typed *result = typed_op(c, OP_ADD, type, max, log, NULL, 0, range);
    return typed_op(c, OP_SELECT, type, finite, result, max, 0, range);
}

/* How many elements there are over some axes: of a list, the sum of those of its tensors. */
static Typed *count_elements(Checker *c, AxisSet over, Range range) {
    AxisSet list = reduced_list(c, over), left = without_blocks(c, over & ~list);
    Typed *count = NULL;
    for (uint32_t axis = 0; axis < c->step->axis_count; axis++) {
        if (!(left >> axis & 1)) continue;
        Typed *size = size_of_axis(c, axis, range);
        count = count ? typed_op(c, OP_MUL, TYPE_I64, count, size, NULL, 0, range) : size;
    }
    return list ? reduce_tensor(c, OP_SUM, TYPE_I64, count, list, range) : count;
}

/* sum and prod of integers are 64 bits wide. */
static Typed *reduce_in_64_bits(Checker *c, Op op, Typed *a, AxisSet over, Range range) {
    char class = type_class(a->type);
    if (class == 'S') a = typed_cast(c, a, TYPE_I64);
    if (class == 'U') a = typed_cast(c, a, TYPE_U64);
    return reduce(c, op, a->type, a, over, range);
}

Typed *check_reduce(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    AxisSet over;
    Op op = builtin->op;
    Accept accept = op == OP_ANY || op == OP_ALL ? ACCEPT_BOOL
                    : op == OP_LOGSUMEXP         ? ACCEPT_FLOAT
                                                 : ACCEPT_NUMBER;
    if (!operand_of(c, node, builtin, accept, &a, &over)) return &c->error;
    if (op == OP_LOGSUMEXP) return reduce_logsumexp(c, a, over, node->range);
    if (op == OP_ARGMIN || op == OP_ARGMAX) {
        AxisSet axes = without_blocks(c, over);
        if (axes & (axes - 1)) {
            if (complain(c, ERROR_ONE_AXIS, node->range, builtin->name))
                diagnose_help(c->compiler, "name it: `%s[axis](...)`", builtin->name);
            return &c->error;
        }
        return reduce(c, op, TYPE_I64, a, over, node->range);
    }
    if (op == OP_SUM || op == OP_PROD) return reduce_in_64_bits(c, op, a, over, node->range);
    return reduce(c, op, a->type, a, over, node->range);
}

/* min(a, b) is element-wise, min(a) and min[k](a) reduce. */
Typed *check_extremum(Checker *c, const Node *node, const Builtin *builtin) {
    bool is_min = builtin->op == OP_MIN;
    if (!node->first || !node->first->next) {
        Typed *a;
        AxisSet over;
        if (!operand_of(c, node, builtin, ACCEPT_NUMBER, &a, &over)) return &c->error;
        return reduce(c, is_min ? OP_REDUCE_MIN : OP_REDUCE_MAX, a->type, a, over, node->range);
    }
    Typed *operands[3];
    if (node->has_brackets) {
        complain(c, ERROR_NO_AXES_HERE, node->at, is_min ? "min(a, b)" : "max(a, b)");
        return &c->error;
    }
    if (!check_arguments(c, node, builtin, operands)) return &c->error;
    int type = unify(c, operands, 2, ACCEPT_NUMBER, (Range){0}, is_min ? "`min`" : "`max`");
    if (type == TYPE_NONE) return &c->error;
    return typed_op(c, builtin->op, type, operands[0], operands[1], NULL, 0, node->range);
}

/* mean = sum / number of elements */
Typed *check_mean(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    AxisSet over;
    if (!operand_of(c, node, builtin, ACCEPT_FLOAT, &a, &over)) return &c->error;
    Typed *sum = reduce(c, OP_SUM, a->type, a, over, node->range);
    Typed *count = typed_cast(c, count_elements(c, over, node->range), a->type);
    return typed_op(c, OP_DIV, a->type, sum, count, NULL, 0, node->range);
}

/* norm = sqrt(sum(x * x)) */
Typed *check_norm(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    AxisSet over;
    if (!operand_of(c, node, builtin, ACCEPT_FLOAT, &a, &over)) return &c->error;
    Typed *square = typed_op(c, OP_MUL, a->type, a, a, NULL, 0, node->range);
    Typed *sum = reduce(c, OP_SUM, a->type, square, over, node->range);
    return typed_op(c, OP_SQRT, a->type, sum, NULL, NULL, 0, node->range);
}

/* count = sum of 0 and 1 */
Typed *check_count(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a;
    AxisSet over;
    if (!operand_of(c, node, builtin, ACCEPT_BOOL, &a, &over)) return &c->error;
    return reduce(c, OP_SUM, TYPE_I64, typed_cast(c, a, TYPE_I64), over, node->range);
}
