/* check_expression.c: names and operators: an expression as written to a typed value.
 *
 * An operand that is TYPED_ERROR was reported; what uses it is silent. Carets stand under the
 * operator for what an operator forbids and under the expression for a conversion. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

/* ---- names ---- */

Typed *check_const(Checker *c, Symbol *symbol) {
    if (symbol->state == CONST_DONE) return symbol->value;
    if (symbol->state == CONST_ACTIVE) {
        complain(c, ERROR_CONST_CYCLE, symbol->range, symbol->name->text);
        return &c->error;
    }
    symbol->state = CONST_ACTIVE;
    Scope *scope = c->scope;
    Step *step = c->step;
    Body *body = c->body, own = {0};
    Instance *instance = c->instance;
    Unit *unit = c->unit;
    c->unit = symbol->item->unit;
    c->scope = &c->unit->constants;
    c->step = NULL;
    c->body = &own;
    c->instance = NULL;
    Typed *value = check_expression(c, symbol->item->value);
    if (!is_error(value) && !is_constant(value)) {
        complain(c, ERROR_NOT_CONSTANT, symbol->item->value->range);
        value = &c->error;
    }
    c->scope = scope;
    c->step = step;
    c->body = body;
    c->instance = instance;
    c->unit = unit;
    symbol->value = value;
    symbol->state = CONST_DONE;
    return value;
}

static Typed *read_parameter(Checker *c, const Symbol *symbol, Range range) {
    const Parameter *parameter = &c->step->parameters[symbol->number];
    const Assigned *assigned = &c->step->assigned[symbol->number];
    if (parameter->role == LS_OUT && !assigned->surely) {
        if (complain(c, ERROR_OUT_READ, range, parameter->name)) {
            diagnose_note(c->compiler, parameter->range, "`%s` is declared here", parameter->name);
            note_condition(c, assigned);
        }
        return &c->error;
    }
    Typed *value = typed_new(c, TYPED_PARAMETER, (int)type_info[parameter->type].compute,
                             parameter->axes & ~c->places, range);
    value->payload = symbol->number;
    bool narrow = type_info[parameter->type].compute != parameter->type;
    if (narrow && type_info[parameter->type].class != 'F')
        value->storage = (uint8_t)parameter->type;
    return value;
}

/* The value of a `let` or an argument, read again at another place. */
static Typed *reread(Checker *c, TypedKind kind, const Typed *original, Range range) {
    if (is_error(original)) return &c->error;
    if (is_constant(original)) return typed_constant(c, original->type, original->payload, range);
    Typed *value = typed_new(c, kind, original->type, original->axes & ~c->places, range);
    value->storage = original->storage;
    value->running = original->running;
    return value;
}

Typed *read_symbol(Checker *c, Symbol *symbol, Range range) {
    switch (symbol->kind) {
    case SYMBOL_CONST: return reread(c, TYPED_CONSTANT, check_const(c, symbol), range);
    case SYMBOL_PARAMETER: return read_parameter(c, symbol, range);
    case SYMBOL_LET: {
        Typed *value = reread(c, TYPED_LET, symbol->let->value, range);
        if (value->kind == TYPED_LET) value->let = symbol->let;
        return value;
    }
    case SYMBOL_ARGUMENT: {
        Typed *value = reread(c, TYPED_ARGUMENT, c->instance->arguments[symbol->number], range);
        if (value->kind == TYPED_ARGUMENT) value->payload = symbol->number;
        return value;
    }
    case SYMBOL_RUNNING: return read_running(c, symbol, range);
    case SYMBOL_AXIS:
        if (c->indexing > 0) return index_of_axis(c, symbol->number, range);
        if (complain(c, ERROR_AXIS_AS_VALUE, range, symbol->name->text))
            diagnose_help(c->compiler,
                          "write `size(%s)` for its length, `index(%s)` for the "
                          "coordinate",
                          symbol->name->text, symbol->name->text);
        return &c->error;
    default: return &c->error;
    }
}

Typed *unknown_name(Checker *c, const Name *name, Range range) {
    Symbol *function = scope_find(&c->unit->functions, name);
    unsigned values = 1u << SYMBOL_CONST | 1u << SYMBOL_PARAMETER | 1u << SYMBOL_LET |
                      1u << SYMBOL_ARGUMENT | 1u << SYMBOL_RUNNING;
    if (!c->unit->incomplete && complain(c, ERROR_UNKNOWN_NAME, range, name->text)) {
        const char *meant = scope_suggest(c->scope, name, values);
        const Symbol *closed = c->instance ? NULL : scope_find_here(&c->closed, name);
        if (!meant) meant = other_spelling(c, name);
        if (closed)
            diagnose_note(c->compiler, closed->range,
                          closed->state ? "`%s` is bound here, only for the body of a `for`"
                                        : "`%s` is bound here, only for the branch of a `when`",
                          name->text);
        else if (function && function->kind != SYMBOL_STEP)
            diagnose_help(c->compiler, "`%s` is a function: call it, `%s(...)`", name->text,
                          name->text);
        else if (meant)
            diagnose_help(c->compiler, "did you mean `%s`?", meant);
    }
    scope_add(c->scope, name, range, SYMBOL_BROKEN); /* once for each name */
    return &c->error;
}

static Typed *check_name(Checker *c, const Node *node) {
    Symbol *symbol = find_value(c, node->qualifier, node->name, node->range);
    if (symbol) return read_symbol(c, symbol, node->range);
    if (!node->qualifier) return unknown_name(c, node->name, node->range);
    unknown_member(c, node->qualifier, node->name, node->range);
    return &c->error;
}

/* ---- operators ---- */

typedef struct Operator {
    Op op;
    Accept accept;
    bool test; /* gives bool */
} Operator;

static const Operator operators[TOKEN_COUNT] = {
    [TOKEN_PLUS] = {OP_ADD, ACCEPT_NUMBER, false},
    [TOKEN_MINUS] = {OP_SUB, ACCEPT_NUMBER, false},
    [TOKEN_MULTIPLY] = {OP_MUL, ACCEPT_NUMBER, false},
    [TOKEN_DIVIDE] = {OP_DIV, ACCEPT_NUMBER, false},
    [TOKEN_FLOOR_DIVIDE] = {OP_FLOORDIV, ACCEPT_NUMBER, false},
    [TOKEN_MODULO] = {OP_MOD, ACCEPT_NUMBER, false},
    [TOKEN_EQUAL] = {OP_EQ, ACCEPT_ANY, true},
    [TOKEN_NOT_EQUAL] = {OP_NE, ACCEPT_ANY, true},
    [TOKEN_LESS] = {OP_LT, ACCEPT_NUMBER, true},
    [TOKEN_LESS_EQUAL] = {OP_LE, ACCEPT_NUMBER, true},
    [TOKEN_GREATER] = {OP_GT, ACCEPT_NUMBER, true},
    [TOKEN_GREATER_EQUAL] = {OP_GE, ACCEPT_NUMBER, true},
    [TOKEN_AND] = {OP_AND, ACCEPT_BOOL, false},
    [TOKEN_OR] = {OP_OR, ACCEPT_BOOL, false},
};

Typed *check_binary(Checker *c, TokenKind token, Typed *a, Typed *b, Range at, Range range) {
    if (token == TOKEN_POWER) return check_power(c, a, b, at, range);
    const Operator *operation = &operators[token];
    const char *what = arena_printf(c->arena, "`%s`", token_info[token].spelling);
    Typed *operands[2] = {a, b};
    int type = unify(c, operands, 2, operation->accept, at, what);
    if (type == TYPE_NONE) return &c->error;
    if (operation->op == OP_DIV && type_class(type) != 'F') {
        if (complain(c, ERROR_INTEGER_DIVISION, at, describe(c, a), describe(c, b)))
            diagnose_help(c->compiler, "use `//` to divide and floor, or make one of them a float, "
                                       "as in `f32(x)` or `1.0`");
        return &c->error;
    }
    return typed_op(c, operation->op, operation->test ? TYPE_BOOL : type, operands[0], operands[1],
                    NULL, 0, range);
}

/* a ** n for a constant integer n */
static Typed *constant_power(Checker *c, Typed *a, Typed *b, Range at, Range range) {
    int64_t n = (int64_t)b->payload;
    if (b->type == TYPE_I32) n = (int32_t)(uint32_t)b->payload;
    if (b->type == TYPE_U32) n = (int64_t)(uint32_t)b->payload;
    if (type_class(a->type) != 'F' && n < 0) {
        if (complain(c, ERROR_NEGATIVE_POWER, at, (long long)n))
            diagnose_help(c->compiler, "make the base a float, as in `2.0 ** %lld`", (long long)n);
        return &c->error;
    }
    if (is_constant(a)) {
        Typed *exponent = typed_constant(c, TYPE_I64, (uint64_t)n, b->range);
        return typed_op(c, OP_POWI, a->type, a, exponent, NULL, 0, range);
    }
    Typed *value = typed_new(c, TYPED_POWER, a->type, a->axes, range);
    value->args[0] = a;
    value->payload = (uint64_t)n;
    value->running = a->running;
    return value;
}

Typed *check_power(Checker *c, Typed *a, Typed *b, Range at, Range range) {
    if (is_error(a) || is_error(b)) return &c->error;
    b = settle(c, b);
    if (is_untyped(b)) a = settle(c, a);
    if (type_class(b->type) == 'F' || a->type == TYPE_BOOL || b->type == TYPE_BOOL) {
        Typed *operands[2] = {a, b};
        int type = unify(c, operands, 2, ACCEPT_NUMBER, at, "`**`");
        return type == TYPE_NONE
                   ? &c->error
                   : typed_op(c, OP_POW, type, operands[0], operands[1], NULL, 0, range);
    }
    if (a->type == TYPE_INTEGER && !is_untyped(b)) { /* becomes the exponent's type */
        Typed *operands[2] = {a, b};
        if (unify(c, operands, 2, ACCEPT_INT, at, "`**`") == TYPE_NONE) return &c->error;
        a = operands[0];
    }
    if (is_constant(b) && !(b->type == TYPE_U64 && (int64_t)b->payload < 0))
        return constant_power(c, a, b, at, range);
    if (a->type == TYPE_FLOAT) a = typed_cast(c, a, b->axes ? TYPE_F32 : TYPE_F64);
    if (type_class(b->type) == 'U') b = typed_cast(c, b, TYPE_I64);
    return typed_op(c, OP_POWI, a->type, a, b, NULL, 0, range);
}

static Typed *check_binary_node(Checker *c, const Node *node) {
    Typed *a = check_expression(c, node->first);
    Typed *b = check_expression(c, node->first->next);
    return check_binary(c, (TokenKind)node->token, a, b, node->at, node->range);
}

static Typed *check_unary(Checker *c, const Node *node) {
    bool is_not = node->token == TOKEN_NOT;
    Typed *a = check_expression(c, node->first);
    int type =
        unify(c, &a, 1, is_not ? ACCEPT_BOOL : ACCEPT_NUMBER, node->at, is_not ? "`not`" : "`-`");
    if (type == TYPE_NONE) return &c->error;
    return typed_op(c, is_not ? OP_NOT : OP_NEG, type, a, NULL, NULL, 0, node->range);
}

static Typed *check_if(Checker *c, const Node *node) {
    Typed *condition = check_expression(c, node->first);
    Typed *branches[2] = {check_expression(c, node->first->next),
                          check_expression(c, node->first->next->next)};
    uint8_t storage = branches[0]->storage;
    if (branches[1]->storage != storage) storage = TYPE_NONE;
    Range nowhere = {0};
    int is_bool = unify(c, &condition, 1, ACCEPT_BOOL, nowhere, "the condition of `if`");
    int type = unify(c, branches, 2, ACCEPT_ANY | ACCEPT_OPEN, node->at, "`if`");
    if (is_bool == TYPE_NONE || type == TYPE_NONE) return &c->error;
    Typed *value =
        typed_op(c, OP_SELECT, type, condition, branches[0], branches[1], 0, node->range);
    if (value->kind == TYPED_OP) value->storage = storage;
    return value;
}

/* ---- all expressions ---- */

static Typed *check_integer(Checker *c, const Node *node) {
    return typed_constant(c, TYPE_INTEGER, node->bits, node->range);
}
static Typed *check_float_literal(Checker *c, const Node *node) {
    return typed_constant(c, TYPE_FLOAT, node->bits, node->range);
}
static Typed *check_bool(Checker *c, const Node *node) {
    return typed_constant(c, TYPE_BOOL, node->bits, node->range);
}
static Typed *check_broken(Checker *c, const Node *node) {
    (void)node;
    return &c->error;
}
static Typed *(*const by_kind[])(Checker *, const Node *) = {
    [NODE_ERROR] = check_broken,        [NODE_INTEGER] = check_integer,
    [NODE_FLOAT] = check_float_literal, [NODE_BOOL] = check_bool,
    [NODE_NAME] = check_name,           [NODE_UNARY] = check_unary,
    [NODE_BINARY] = check_binary_node,  [NODE_IF] = check_if,
    [NODE_CALL] = check_call,           [NODE_INDEX] = check_indexing,
    [NODE_PRIME] = check_prime,         [NODE_NAMED] = check_broken,
};

Typed *check_expression(Checker *c, const Node *node) {
    if (c->level >= NESTING_MAX) {
        complain(c, ERROR_TOO_DEEP, node->range);
        return &c->error;
    }
    c->level++;
    if (++c->body->level > c->body->deepest) c->body->deepest = c->body->level;
    Typed *value = by_kind[node->kind](c, node);
    if (refuse_two_lists(c, value->axes, node->range, "this", true)) value = &c->error;
    index_value(c, node->range, value);
    c->body->level--;
    c->level--;
    return value;
}
