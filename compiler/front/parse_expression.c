/* parse_expression.c: expressions, by precedence climbing.
 *
 * Loosest first: if, or, and, not, comparisons, + -, * / // %, unary -, ** (to the right), call.
 * The depth of the recursion and of the tree are bounded, so that no input exhausts the stack, here
 * or later. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

enum { OR = 1, AND, NOT, COMPARE, ADD, MULTIPLY };

static const uint8_t precedence[TOKEN_COUNT] = {
    [TOKEN_OR] = OR,
    [TOKEN_AND] = AND,
    [TOKEN_EQUAL] = COMPARE,
    [TOKEN_NOT_EQUAL] = COMPARE,
    [TOKEN_LESS] = COMPARE,
    [TOKEN_LESS_EQUAL] = COMPARE,
    [TOKEN_GREATER] = COMPARE,
    [TOKEN_GREATER_EQUAL] = COMPARE,
    [TOKEN_PLUS] = ADD,
    [TOKEN_MINUS] = ADD,
    [TOKEN_MULTIPLY] = MULTIPLY,
    [TOKEN_DIVIDE] = MULTIPLY,
    [TOKEN_FLOOR_DIVIDE] = MULTIPLY,
    [TOKEN_MODULO] = MULTIPLY,
};

void parser_too_deep(Parser *p, Range range) {
    if (!p->panic && diagnose(p->compiler, ERROR_TOO_DEEP, range))
        diagnose_help(p->compiler, "name a part of it with `let`");
    p->panic = true;
}

static Node *new_node(Parser *p, NodeKind kind, Range range) {
    Node *node = arena_alloc(&p->compiler->arena, sizeof *node);
    node->kind = (uint8_t)kind;
    node->range = node->at = range;
    node->depth = 1;
    return node;
}

Node *parse_error_node(Parser *p) {
    return new_node(p, NODE_ERROR, token_range(p, &p->tokens.list[p->at]));
}

static void adopt(Parser *p, Node *parent, const Node *child) {
    if (child->depth >= parent->depth) parent->depth = (uint16_t)(child->depth + 1);
    if (parent->depth > TREE_DEPTH_MAX) {
        parser_too_deep(p, parent->at);
        parent->depth = 1;
    }
}

static Node *binary_node(Parser *p, const Token *sign, Node *a, Node *b) {
    Node *node = new_node(p, NODE_BINARY, token_range(p, sign));
    node->token = sign->kind;
    node->range = (Range){a->range.file, a->range.begin, b->range.end};
    node->first = a;
    a->next = b;
    adopt(p, node, a);
    adopt(p, node, b);
    return node;
}

/* Expressions, and `name = expression` where the list is that of a call, up to `close`. */
static Node *arguments(Parser *p, TokenKind close, Node *parent) {
    p->tokens.list[p->at].list = true;
    Range open = token_range(p, parser_next(p));
    size_t brackets = p->brackets++;
    Node *first = NULL, **end = &first;
    while (parser_kind(p) != close && !p->panic) {
        Node *argument;
        const Token *token = &p->tokens.list[p->at];
        if (token->kind == TOKEN_NAME && token[1].kind == TOKEN_ASSIGN) {
            argument = new_node(p, NODE_NAMED, token_range(p, token));
            argument->name = token->name;
            parser_next(p);
            parser_next(p);
            argument->first = parse_expression(p);
            argument->range.end = argument->first->range.end;
            adopt(p, argument, argument->first);
        } else {
            argument = parse_expression(p);
        }
        adopt(p, parent, argument);
        *end = argument;
        end = &argument->next;
        if (!parser_take(p, TOKEN_COMMA)) break;
    }
    if (!p->panic) parser_close(p, close, open);
    if (!p->panic) p->brackets = brackets;
    return first;
}

/* name   s.name */
Node *parse_member(Parser *p, const char *expected) {
    const Token *token = &p->tokens.list[p->at];
    if (!parser_expect(p, TOKEN_NAME, expected)) return parse_error_node(p);
    Node *node = new_node(p, NODE_NAME, token_range(p, token));
    node->name = token->name;
    node->token = token->kind;
    if (parser_kind(p) != TOKEN_DOT) return node;
    parser_next(p);
    const Token *member = &p->tokens.list[p->at];
    if (parser_expect(p, TOKEN_NAME, "a name after the `.`")) {
        node->qualifier = node->name;
        node->name = member->name;
        node->range.end = node->at.end = member->end;
    }
    return node;
}

/* `f(x)[k]`, `(a + b)[k]`: only what has a name is indexed. */
static void no_brackets(Parser *p) {
    if (!p->panic && parser_kind(p) == TOKEN_OPEN_BRACKET && parser_error(p, "an operator"))
        diagnose_help(p->compiler, "only a name is indexed: bind this with `let` first");
}

/* name   s.name   name(...)   name[...](...)   name[...]   name'(...) */
static Node *name(Parser *p) {
    const Token *token = parser_next(p);
    uint32_t start = p->at - 1;
    Node *node = new_node(p, NODE_NAME, token_range(p, token));
    node->name = token->name;
    node->token = token->kind;
    if (parser_kind(p) == TOKEN_DOT) {
        parser_next(p);
        const Token *member = &p->tokens.list[p->at];
        if (parser_expect(p, TOKEN_NAME, "a name after the `.`")) {
            node->qualifier = node->name;
            node->name = member->name;
            node->at.end = member->end;
        }
    }
    if (!p->panic && parser_kind(p) == TOKEN_OPEN_BRACKET) {
        node->kind = NODE_INDEX;
        node->has_brackets = true;
        node->brackets = arguments(p, TOKEN_CLOSE_BRACKET, node);
    }
    if (!p->panic && parser_kind(p) == TOKEN_PRIME) {
        parser_next(p);
        node->kind = NODE_PRIME;
        if (parser_kind(p) != TOKEN_OPEN_PAREN)
            parser_error(p, "`(` and an argument for the derivative");
    }
    if (!p->panic && parser_kind(p) == TOKEN_OPEN_PAREN) {
        if (node->kind != NODE_PRIME) node->kind = NODE_CALL;
        node->first = arguments(p, TOKEN_CLOSE_PAREN, node);
        no_brackets(p);
    } else if (node->kind == NODE_INDEX) {
        node->first = node->brackets;
        no_brackets(p);
    } else if (token->kind == TOKEN_TYPE && !p->panic) {
        parser_error(p, "`(` and a value to convert");
    }
    node->range = range_since(p, start);
    return node;
}

static Node *literal(Parser *p, NodeKind kind, uint64_t bits) {
    Node *node = new_node(p, kind, token_range(p, parser_next(p)));
    node->bits = bits;
    return node;
}

/* `<<`, `>>`, `++`: the token here follows right behind another of its kind. */
static bool doubled(const Parser *p, TokenKind kind) {
    const Token *here = &p->tokens.list[p->at];
    return p->at > 0 && here->kind == kind && here[-1].kind == kind && here[-1].end == here->begin;
}

static Node *primary(Parser *p) {
    const Token *token = &p->tokens.list[p->at];
    if (parser_begins_item(p, p->at)) { /* `step` alone is a name */
        parser_error(p, "an expression");
        return parse_error_node(p);
    }
    switch (parser_kind(p)) {
    case TOKEN_INTEGER: return literal(p, NODE_INTEGER, token->bits);
    case TOKEN_FLOAT: return literal(p, NODE_FLOAT, token->bits);
    case TOKEN_TRUE: return literal(p, NODE_BOOL, 1);
    case TOKEN_FALSE: return literal(p, NODE_BOOL, 0);
    case TOKEN_INF: return literal(p, NODE_FLOAT, UINT64_C(0x7ff0000000000000));
    case TOKEN_NAN: return literal(p, NODE_FLOAT, UINT64_C(0x7fffffffffffffff));
    case TOKEN_PI: return literal(p, NODE_FLOAT, UINT64_C(0x400921fb54442d18));
    case TOKEN_NAME:
    case TOKEN_TYPE: return name(p);
    case TOKEN_OPEN_PAREN: {
        uint32_t start = p->at;
        Range open = token_range(p, parser_next(p));
        size_t brackets = p->brackets++;
        Node *inner = parse_expression(p);
        if (!p->panic && !parser_take(p, TOKEN_CLOSE_PAREN) && parser_error(p, "`)`"))
            diagnose_note(p->compiler, open, "to close this `(`");
        if (p->panic) return inner;
        p->brackets = brackets;
        no_brackets(p);
        inner->range = range_since(p, start);
        return inner;
    }
    case TOKEN_IF:
    case TOKEN_NOT:
        if (parser_error(p, "an operand"))
            diagnose_help(p->compiler, "put the `%s` and what follows in parentheses",
                          token_info[token->kind].spelling);
        return parse_error_node(p);
    default:
        if (!parser_error(p, "an expression")) return parse_error_node(p);
        if (token->kind == TOKEN_DOT && token[1].kind == TOKEN_INTEGER)
            diagnose_help(p->compiler, "a number begins with a digit: `0.5`");
        else if (doubled(p, TOKEN_LESS) || doubled(p, TOKEN_GREATER))
            diagnose_help(p->compiler, "bits are moved by `shift_left(a, count)` and "
                                       "`shift_right(a, count)`");
        else if (doubled(p, TOKEN_PLUS))
            diagnose_help(p->compiler, "write `+= 1`");
        else if (token->kind == TOKEN_FLOOR_DIVIDE)
            diagnose_help(p->compiler, "a comment begins with `#`; `//` divides and floors");
        else if (token->newline && token_info[token->kind].class == 'O')
            diagnose_help(p->compiler, "to go on from the line above, end that line with the `%s`",
                          token_info[token->kind].spelling);
        return parse_error_node(p);
    }
}

/* -a, and a ** b with the minus looser on the left and tighter on the right */
static Node *unary(Parser *p) {
    const Token *token = &p->tokens.list[p->at];
    Node *node;
    if (++p->level > PARSE_DEPTH_MAX) {
        parser_too_deep(p, token_range(p, token));
        node = parse_error_node(p);
    } else if (parser_kind(p) == TOKEN_MINUS) {
        parser_next(p);
        Node *operand = unary(p);
        node = new_node(p, NODE_UNARY, token_range(p, token));
        node->token = TOKEN_MINUS;
        node->first = operand;
        node->range.end = operand->range.end;
        adopt(p, node, operand);
    } else {
        node = primary(p);
        if (!p->panic && parser_kind(p) == TOKEN_POWER) {
            const Token *sign = parser_next(p);
            node = binary_node(p, sign, node, unary(p));
        }
    }
    p->level--;
    return node;
}

static Node *binary(Parser *p, int min) {
    const Token *token = &p->tokens.list[p->at];
    Node *left;
    if (min <= NOT && parser_kind(p) == TOKEN_NOT) {
        parser_next(p);
        if (++p->level > PARSE_DEPTH_MAX) parser_too_deep(p, token_range(p, token));
        Node *operand = p->panic ? parse_error_node(p) : binary(p, NOT);
        p->level--;
        left = new_node(p, NODE_UNARY, token_range(p, token));
        left->token = TOKEN_NOT;
        left->first = operand;
        left->range.end = operand->range.end;
        adopt(p, left, operand);
    } else {
        left = unary(p);
    }
    for (bool compared = false; !p->panic;) {
        int level = precedence[parser_kind(p)];
        if (level == 0 || level < min) break;
        const Token *sign = parser_next(p);
        if (level == COMPARE && compared) {
            if (diagnose(p->compiler, ERROR_COMPARISON_CHAIN, token_range(p, sign)))
                diagnose_help(p->compiler, "write `a < b and b < c`");
            p->panic = true;
            break;
        }
        left = binary_node(p, sign, left, binary(p, level + 1));
        compared = level == COMPARE;
    }
    return left;
}

static Node *conditional(Parser *p) {
    Range range = token_range(p, parser_next(p));
    Node *condition = binary(p, OR), *yes = NULL, *no = NULL;
    bool assigns = parser_kind(p) == TOKEN_ASSIGN, braced = parser_kind(p) == TOKEN_OPEN_BRACE;
    bool below = p->tokens.list[p->at].kind == TOKEN_THEN; /* and not taken: on the next line */
    if (!p->panic && parser_take(p, TOKEN_THEN))
        yes = parse_expression(p);
    else if (parser_error(p, "`then`") && (assigns || below || braced))
        diagnose_help(p->compiler, assigns ? "write `==` to compare"
                                   : below ? "end the line with `then`"
                                           : "statements under a condition stand in `when`: "
                                             "`when c { ... } else { ... }`");
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_ELSE) { /* also on the next line */
        parser_next(p);
        no = parse_expression(p);
    } else {
        parser_error(p, "`else`: an `if` is a value and needs both");
    }
    if (!yes || !no) return parse_error_node(p);
    Node *node = new_node(p, NODE_IF, range);
    node->first = condition;
    condition->next = yes;
    yes->next = no;
    node->range.end = no->range.end;
    adopt(p, node, condition);
    adopt(p, node, yes);
    adopt(p, node, no);
    return node;
}

Node *parse_expression(Parser *p) {
    Node *node = NULL;
    if (p->panic) return parse_error_node(p);
    if (++p->level > PARSE_DEPTH_MAX) {
        parser_too_deep(p, token_range(p, &p->tokens.list[p->at]));
        node = parse_error_node(p);
    } else {
        node = parser_kind(p) == TOKEN_IF ? conditional(p) : binary(p, OR);
    }
    p->level--;
    return node;
}
