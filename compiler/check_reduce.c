/* check_reduce.c: what takes axes by name: reductions, size and index. */
#include "compiler.h"
#include "syntax.h"
#include "check.h"

/* ---- which axes ---- */

Symbol *find_axis(Checker *c, const Node *node, const char *function) {
    if (node->kind != NODE_NAME || node->qualifier) {
        if (node->kind != NODE_ERROR) complain(c, ERROR_NEEDS_AXIS_NAME, node->range, function);
        return NULL;
    }
    Symbol *symbol = scope_find(c->scope, node->name);
    if (symbol && symbol->kind == SYMBOL_AXIS) return symbol;
    if (symbol && symbol->kind == SYMBOL_BROKEN) return NULL;
    if (c->instance) {
        complain(c, ERROR_AXES_IN_FN, node->range);
    } else if (complain(c, ERROR_UNKNOWN_AXIS, node->range, node->name->text)) {
        const char *meant = scope_suggest(c->scope, node->name, 1u << SYMBOL_AXIS);
        if (symbol)
            diagnose_note(c->compiler, symbol->range, "`%s` is %s", node->name->text,
                          symbol_describe(symbol));
        if (meant) diagnose_help(c->compiler, "did you mean `%s`?", meant);
    }
    return NULL;
}

/* The axes to reduce: those named, or all that the operand has. False after an error. */
static bool reduced_axes(Checker *c, const Node *node, const Builtin *builtin, const Typed *a,
                         AxisSet *over) {
    *over = a->axes;
    if (!node->has_brackets) {
        if (a->axes == 0) complain(c, ERROR_NOTHING_TO_REDUCE, node->range, builtin->name);
        return a->axes != 0;
    }
    *over = 0;
    bool fine = true;
    for (const Node *name = node->brackets; name; name = name->next) {
        Symbol *axis = find_axis(c, name, builtin->name);
        fine &= axis != NULL;
        if (!axis) continue;
        AxisSet bit = (AxisSet)1 << axis->number;
        bool twice = *over & bit;
        *over |= bit;
        if (twice) {
            fine = complain(c, ERROR_AXIS_TWICE, name->range, axis->name->text) && false;
        } else if (!(a->axes & bit)) {
            complain(c, ERROR_AXIS_LACKING, name->range, axis->name->text, describe(c, a));
            fine = false;
        }
    }
    if (fine && *over == 0) {
        complain(c, ERROR_NEEDS_AXIS_NAME, node->at, builtin->name);
        fine = false;
    }
    return fine;
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

static Typed *reduce(Checker *c, Op op, int type, Typed *a, AxisSet over, Range range) {
    Typed *value = typed_op(c, op, type, a, NULL, NULL, over, range);
    if (value->kind == TYPED_OP) value->axes = a->axes & ~over;
    return value;
}

/* sum and prod of integers are 64 bits wide. */
static Typed *reduce_wide(Checker *c, Op op, Typed *a, AxisSet over, Range range) {
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
    if (op == OP_ARGMIN || op == OP_ARGMAX) {
        if (over & (over - 1)) {
            if (complain(c, ERROR_ONE_AXIS, node->range, builtin->name))
                diagnose_help(c->compiler, "name it: `%s[axis](...)`", builtin->name);
            return &c->error;
        }
        return reduce(c, op, TYPE_I64, a, over, node->range);
    }
    if (op == OP_SUM || op == OP_PROD) return reduce_wide(c, op, a, over, node->range);
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

static Typed *size_of_axis(Checker *c, uint32_t axis, Range range) {
    int64_t fixed = c->step->axes[axis].fixed;
    if (fixed >= 0) return typed_constant(c, TYPE_I64, (uint64_t)fixed, range);
    Typed *value = typed_new(c, TYPED_OP, TYPE_I64, 0, range);
    value->op = OP_SIZE;
    value->payload = axis;
    return value;
}

/* mean = sum / number of elements */
Typed *check_mean(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *a, *count = NULL;
    AxisSet over;
    if (!operand_of(c, node, builtin, ACCEPT_FLOAT, &a, &over)) return &c->error;
    for (uint32_t axis = 0; axis < c->step->axis_count; axis++) {
        if (!(over >> axis & 1)) continue;
        Typed *size = size_of_axis(c, axis, node->range);
        count = count ? typed_op(c, OP_MUL, TYPE_I64, count, size, NULL, 0, node->range) : size;
    }
    Typed *sum = reduce(c, OP_SUM, a->type, a, over, node->range);
    count = typed_cast(c, count, a->type);
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

/* ---- size and index ---- */

static Symbol *only_axis(Checker *c, const Node *node, const Builtin *builtin) {
    if (node->first && !node->first->next) return find_axis(c, node->first, builtin->name);
    complain(c, ERROR_NEEDS_AXIS_NAME, node->at, builtin->name);
    return NULL;
}

Typed *check_size(Checker *c, const Node *node, const Builtin *builtin) {
    Symbol *axis = only_axis(c, node, builtin);
    return axis ? size_of_axis(c, axis->number, node->range) : &c->error;
}

Typed *index_of_axis(Checker *c, uint32_t axis, Range range) {
    Typed *value = typed_new(c, TYPED_OP, TYPE_I64, (AxisSet)1 << axis, range);
    value->op = OP_INDEX;
    value->payload = axis;
    return value;
}

Typed *check_index(Checker *c, const Node *node, const Builtin *builtin) {
    Symbol *axis = only_axis(c, node, builtin);
    return axis ? index_of_axis(c, axis->number, node->range) : &c->error;
}
