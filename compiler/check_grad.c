/* check_grad.c: derivatives: grad(e, x), of one value or several. */
#include "compiler.h"
#include "syntax.h"
#include "check.h"

/* A parameter as the step received it, or a `let`. */
static Typed *grad_target(Checker *c, const Node *node) {
    Symbol *symbol =
        node->kind == NODE_NAME && !node->qualifier ? scope_find(c->scope, node->name) : NULL;
    if (node->kind == NODE_ERROR || (symbol && symbol->kind == SYMBOL_BROKEN)) return &c->error;
    bool fits = symbol && (symbol->kind == SYMBOL_PARAMETER || symbol->kind == SYMBOL_LET);
    if (!fits) {
        if (node->kind == NODE_NAME && !symbol) return check_expression(c, node);
        if (complain(c, ERROR_GRAD_TARGET, node->range, "") && node->kind != NODE_NAME)
            diagnose_help(c->compiler, "bind this with `let` first");
        return &c->error;
    }
    if (symbol->kind == SYMBOL_PARAMETER && c->step->assigned[symbol->number].file != 0) {
        if (complain(c, ERROR_GRAD_ASSIGNED, node->range, symbol->name->text)) {
            diagnose_note(c->compiler, c->step->assigned[symbol->number], "it is assigned here");
            diagnose_help(c->compiler, "take the gradient above the assignment");
        }
        return &c->error;
    }
    Typed *target = read_symbol(c, symbol, node->range);
    if (is_error(target)) return target;
    if (is_constant(target) || type_class(target->type) != 'F') {
        const char *what =
            arena_printf(c->arena, " that is a float, found %s", describe(c, target));
        complain(c, ERROR_GRAD_TARGET, node->range, what);
        return &c->error;
    }
    if (symbol->kind == SYMBOL_LET) symbol->let->is_target = true;
    return target;
}

bool check_gradients(Checker *c, const Node *node, size_t count, Typed **results) {
    const Node *argument = node->first, *from = NULL;
    size_t targets = 0;
    for (size_t i = 0; i < count; i++) results[i] = &c->error;
    if (node->has_brackets) return complain(c, ERROR_NO_AXES_HERE, node->at, "grad") && false;
    if (c->instance) return complain(c, ERROR_GRAD_IN_FN, node->range) && false;
    for (const Node *n = argument; n; n = n->next) {
        if (n->kind == NODE_NAMED) from = n;
        targets += n != argument && n->kind != NODE_NAMED;
    }
    if (from)
        return not_supported(c, from->range, "an upstream gradient, `from = ...`, is") && false;
    if (targets == 0) {
        if (complain(c, ERROR_ARGUMENT_COUNT, node->at, "grad", "a value and its targets",
                     (size_t)(argument != NULL)))
            diagnose_help(c->compiler, "as in `let dw, db = grad(loss, w, b)`");
        return false;
    }
    if (targets != count) {
        if (complain(c, ERROR_GRAD_COUNT, node->range, targets, count, count == 1 ? "is" : "are"))
            diagnose_help(c->compiler, "bind each, as in `let dw, db = grad(loss, w, b)`");
        return false;
    }
    Typed *value = check_expression(c, argument);
    bool fine = !is_error(value);
    if (fine && (type_class(value->type) != 'F' || value->axes != 0)) {
        if (complain(c, ERROR_GRAD_RANK, argument->range, describe(c, value)) && value->axes)
            diagnose_help(c->compiler, "reduce it first, as in `mean(...)`");
        fine = false;
    }
    size_t i = 0;
    for (const Node *n = argument->next; n; n = n->next, i++) {
        Typed *target = grad_target(c, n);
        if (!fine || is_error(target)) continue;
        if (is_untyped(value)) value = typed_cast(c, value, target->type);
        results[i] = typed_new(c, TYPED_OP, target->type, target->axes, node->range);
        results[i]->op = OP_GRAD;
        results[i]->args[0] = value;
        results[i]->args[1] = target;
    }
    return fine;
}

Typed *check_grad(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *result;
    (void)builtin;
    check_gradients(c, node, 1, &result);
    return result;
}
