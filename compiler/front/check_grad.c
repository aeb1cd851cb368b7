/* check_grad.c: derivatives: grad(e, x, from = de), by one value or several, and f'(x).
 *
 * Each becomes a GRAD, for derive.c: of a value, by a MARK or what a parameter holds, and with the
 * upstream gradient. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

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
    if (symbol->kind == SYMBOL_PARAMETER && c->step->assigned[symbol->number].range.file != 0) {
        if (complain(c, ERROR_GRAD_ASSIGNED, node->range, symbol->name->text)) {
            diagnose_note(c->compiler, c->step->assigned[symbol->number].range,
                          "it is assigned here");
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

/* What stands between the parentheses of a grad. */
typedef struct Gradient {
    const Node *value, *from; /* from: `from = de`, or NULL */
    size_t targets;
} Gradient;

/* False after an error. */
static bool read_arguments(Checker *c, const Node *node, size_t count, Gradient *g) {
    g->value = node->first;
    for (const Node *n = node->first; n; n = n->next) {
        bool named = n->kind == NODE_NAMED;
        if (named && strcmp(n->name->text, "from") != 0)
            return complain(c, ERROR_GRAD_NAMED, n->at, n->name->text) && false;
        if (named && g->from) return complain(c, ERROR_GRAD_FROM_TWICE, n->range) && false;
        if (named) g->from = n;
        g->targets += !named && n != g->value;
    }
    if (g->targets == 0 || g->value == g->from) {
        size_t found = g->targets + (g->value && g->value != g->from);
        if (complain(c, ERROR_ARGUMENT_COUNT, node->at, "grad", "a value and its targets", found))
            diagnose_help(c->compiler, "as in `let dw, db = grad(loss, w, b)`");
        return false;
    }
    if (g->targets == count) return true;
    if (complain(c, ERROR_GRAD_COUNT, node->range, g->targets, g->targets == 1 ? "" : "s", count,
                 count == 1 ? "is" : "are"))
        diagnose_help(c->compiler, "bind each, as in `let dw, db = grad(loss, w, b)`");
    return false;
}

/* The value that is derived; without an upstream gradient it is one number. */
static Typed *derived_value(Checker *c, const Gradient *g) {
    Typed *value = check_expression(c, g->value);
    if (is_error(value)) return value;
    if (refuse_running(c, value, "`grad`")) return &c->error;
    if (type_class(value->type) != 'F') {
        complain(c, ERROR_GRAD_FLOAT, g->value->range, describe(c, value));
        return &c->error;
    }
    if (value->axes == 0 || g->from) return value;
    if (complain(c, ERROR_GRAD_RANK, g->value->range, describe(c, value)))
        diagnose_help(c->compiler,
                      "reduce it first, as in `mean(...)`, or say what its gradient is: "
                      "`grad(e, x, from = de)`");
    return &c->error;
}

/* The upstream gradient, in the type of the value and over its axes; NULL where there is none. */
static Typed *upstream(Checker *c, const Gradient *g, const Typed *value) {
    if (!g->from) return NULL;
    Typed *from = check_expression(c, g->from->first);
    if (is_error(from) || is_error(value)) return &c->error;
    if (refuse_running(c, from, "`grad`")) return &c->error;
    AxisSet extra = from->axes & ~value->axes;
    if (extra) {
        if (complain(c, ERROR_GRAD_FROM_AXES, g->from->first->range, describe_axes(c, extra),
                     describe(c, value)))
            diagnose_note(c->compiler, g->value->range, "this is the value that is derived");
        return &c->error;
    }
    const char *target = arena_printf(c->arena, "%s, the type of the value that is derived,",
                                      type_name(value->type));
    return convert_argument(c, from, (Type)value->type, target);
}

Typed *gradient(Checker *c, Typed *value, Typed *target, Typed *from, Range range) {
    Typed *result = typed_new(c, TYPED_OP, target->type, target->axes, range);
    result->op = OP_GRAD;
    result->args[0] = value;
    result->args[1] = target;
    result->args[2] = from;
    result->running = target->running;
    return result;
}

bool check_gradients(Checker *c, const Node *node, size_t count, Typed **results) {
    Gradient g = {0};
    for (size_t i = 0; i < count; i++) results[i] = &c->error;
    if (node->has_brackets) return complain(c, ERROR_NO_AXES_HERE, node->at, "grad") && false;
    if (c->instance) {
        if (complain(c, ERROR_GRAD_IN_FN, node->range))
            diagnose_help(c->compiler, "the derivative of a function of one argument is `f'(x)`");
        return false;
    }
    if (!read_arguments(c, node, count, &g)) return false;
    Typed *value = derived_value(c, &g);
    if (is_untyped(value) && !is_error(value)) value = typed_cast(c, value, TYPE_F64);
    Typed *from = upstream(c, &g, value);
    bool fine = !is_error(value) && !(from && is_error(from));
    size_t i = 0;
    for (const Node *n = g.value->next; n; n = n->next) {
        if (n == g.from) continue;
        Typed *target = grad_target(c, n);
        if (fine && !is_error(target)) results[i] = gradient(c, value, target, from, node->range);
        i++;
    }
    return fine;
}

Typed *check_grad(Checker *c, const Node *node, const Builtin *builtin) {
    Typed *result;
    (void)builtin;
    check_gradients(c, node, 1, &result);
    return result;
}

/* ---- f'(x) ---- */

/* An operation of one number with a derivative, for the functions of the language. */
static bool is_elementwise(const Builtin *builtin) {
    return builtin->max == 1 && (builtin->check == check_number || builtin->check == check_float);
}

/* The function at the argument, which is already a MARK; an error where it cannot be derived. */
static Typed *call_at(Checker *c, const Node *node, const Symbol *symbol, Typed *at) {
    const char *name = node->name->text;
    if (symbol->kind == SYMBOL_BUILTIN) {
        const Builtin *builtin = symbol->builtin;
        if (!check_f64(c, builtin, at->type, node->range)) return &c->error;
        return typed_op(c, builtin->op, at->type, at, NULL, NULL, 0, node->range);
    }
    Typed **arguments = arena_alloc(c->arena, sizeof *arguments);
    arguments[0] = at;
    Typed *value = call_fn_on(c, node, symbol->item, arguments);
    if (is_error(value) || type_class(value->type) == 'F') return value;
    complain(c, ERROR_PRIME_RESULT, node->range, name, describe(c, value));
    return &c->error;
}

/* False after an error: only functions of one argument have an f'. */
static bool has_prime(Checker *c, const Node *node, const Symbol *symbol) {
    const char *name = node->name->text;
    int kind = symbol ? symbol->kind : SYMBOL_AXIS;
    size_t takes = kind == SYMBOL_FN        ? symbol->item->parameter_count
                   : kind == SYMBOL_BUILTIN ? symbol->builtin->max
                                            : 0;
    if (kind == SYMBOL_FN && symbol->item->damaged) return false;
    if (kind != SYMBOL_FN && kind != SYMBOL_BUILTIN) {
        const char *what = symbol ? symbol_describe(symbol) : "a type";
        if (kind != SYMBOL_BROKEN) complain(c, ERROR_PRIME_FUNCTION, node->at, name, what);
        return false;
    }
    if (takes == 1 && (kind == SYMBOL_FN || is_elementwise(symbol->builtin))) return true;
    if (takes == 1) {
        complain(c, ERROR_PRIME_FUNCTION, node->at, name, "not element-wise on floats");
        return false;
    }
    if (complain(c, ERROR_PRIME_COUNT, node->at, name, takes, name)) {
        if (symbol->range.file)
            diagnose_note(c->compiler, symbol->range, "`%s` is defined here", name);
        diagnose_help(c->compiler,
                      "write a function of the one argument, `fn g(x) = %s(x, ...)`, "
                      "and `g'(x)`",
                      name);
    }
    return false;
}

Typed *check_prime(Checker *c, const Node *node) {
    bool type = node->token == TOKEN_TYPE;
    const Symbol *symbol = type ? NULL : find_function(c, node->qualifier, node->name, node->at);
    const char *name = arena_printf(c->arena, "%s'", node->name->text);
    Typed *a;
    if (!symbol && !type) return unknown_function(c, node);
    bool fine = check_list(c, node, name, 1, 1, &a);
    if (!has_prime(c, node, symbol) || !fine) return &c->error;
    if (symbol->kind == SYMBOL_FN && symbol->item->parameters->type)
        a = convert_argument(c, a, type_info[symbol->item->parameters->type->type].compute,
                             arena_printf(c->arena, "the argument of `%s`", node->name->text));
    const char *what = arena_printf(c->arena, "`%s`", name);
    if (unify(c, &a, 1, ACCEPT_FLOAT, (Range){0}, what) == TYPE_NONE) return &c->error;
    if (is_constant(a) && is_untyped(a)) a = typed_cast(c, a, TYPE_F64);
    Typed *at = typed_new(c, TYPED_OP, a->type, a->axes, a->range);
    at->op = OP_MARK;
    at->args[0] = a;
    at->running = a->running;
    Typed *value = call_at(c, node, symbol, at);
    if (is_error(value)) return value;
    if (is_constant(value)) return typed_constant(c, a->type, 0, node->range);
    Typed *one = typed_constant(c, TYPE_FLOAT, ir_number_bits(TYPE_F64, 1), node->range);
    return gradient(c, value, at, typed_cast(c, one, value->type), node->range);
}
