/* parse.c: tokens to a tree: items, parameters and statements. Expressions are in
 * parse_expression.c.
 *
 * Needs the tokens of a file; gives a tree of the whole language, names unresolved. Recursive
 * descent with one token of look-ahead. After an error the parser is silent until the next place
 * where a statement or an item begins, so that one mistake is one message. */
#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

#include <string.h>

/* ---- reading tokens ---- */

TokenKind parser_kind(const Parser *p) {
    const Token *token = &p->tokens.list[p->at];
    if (token->newline && p->brackets == 0 && p->at > p->begin) {
        char class = token_info[p->tokens.list[p->at - 1].kind].class;
        if (class != 'O' && class != 'W') return TOKEN_LINE_END;
    }
    return (TokenKind)token->kind;
}

const Token *parser_next(Parser *p) {
    const Token *token = &p->tokens.list[p->at];
    if (token->kind != TOKEN_END) p->at++;
    return token;
}

bool parser_take(Parser *p, TokenKind kind) {
    if (parser_kind(p) != kind) return false;
    parser_next(p);
    return true;
}

Range token_range(const Parser *p, const Token *token) {
    return (Range){p->tokens.file, token->begin, token->end};
}

Range range_since(const Parser *p, uint32_t first_token) {
    uint32_t begin = p->tokens.list[first_token].begin;
    uint32_t end = p->at > first_token ? p->tokens.list[p->at - 1].end : begin;
    return (Range){p->tokens.file, begin, end};
}

/* What stands at the parser's place, for a message, and where. */
static const char *found(const Parser *p, Range *range) {
    const Token *token = &p->tokens.list[p->at];
    TokenKind kind = parser_kind(p);
    *range = token_range(p, token);
    if ((kind == TOKEN_LINE_END || kind == TOKEN_END) && p->at > 0) {
        uint32_t end = p->tokens.list[p->at - 1].end;
        *range = (Range){p->tokens.file, end, end};
    }
    if (kind == TOKEN_LINE_END || kind == TOKEN_END || kind == TOKEN_STRING)
        return token_info[kind].spelling;
    uint32_t size = token->end - token->begin < 40 ? token->end - token->begin : 40;
    const char *text = p->compiler->sources[p->tokens.file].text + token->begin;
    return arena_printf(&p->compiler->arena, "`%.*s`", (int)size, text);
}

bool parser_error(Parser *p, const char *expected) {
    if (p->panic) return false;
    p->panic = true;
    if (p->tokens.list[p->at].kind == TOKEN_ERROR) return false; /* lex.c has said it */
    Range range;
    const char *what = found(p, &range);
    return diagnose(p->compiler, ERROR_EXPECTED, range, expected, what);
}

bool parser_expect(Parser *p, TokenKind kind, const char *expected) {
    if (parser_take(p, kind)) return true;
    parser_error(p, expected);
    return false;
}

/* `)` or `]` of a list; the note shows what it would close. */
bool parser_close(Parser *p, TokenKind kind, Range open) {
    if (parser_take(p, kind)) return true;
    const char *expected = kind == TOKEN_CLOSE_PAREN ? "`,` or `)`" : "`,` or `]`";
    if (parser_error(p, expected)) diagnose_note(p->compiler, open, "the list opens here");
    return false;
}

bool parser_is_word(const Parser *p, uint32_t token, const char *word) {
    const Token *t = &p->tokens.list[token];
    return t->kind == TOKEN_NAME && strcmp(t->name->text, word) == 0;
}

/* `step name`, `fn`, `const` and `import` at the start of a line begin an item wherever they stand.
 */
bool parser_begins_item(const Parser *p, uint32_t at) {
    const Token *t = &p->tokens.list[at];
    if (!t->newline) return false;
    if (t->kind == TOKEN_CONST || t->kind == TOKEN_FN || t->kind == TOKEN_IMPORT) return true;
    return parser_is_word(p, at, "step") && t[1].kind == TOKEN_NAME && !t[1].newline;
}

static bool begins_statement(const Parser *p, uint32_t at) {
    const Token *t = &p->tokens.list[at];
    return t->newline && (t->kind == TOKEN_LET || t->kind == TOKEN_WHEN || t->kind == TOKEN_RETURN);
}

/* From behind a `{` to behind its `}`, or to the next item. */
static void skip_block(Parser *p) {
    size_t open = 1;
    while (open > 0 && p->tokens.list[p->at].kind != TOKEN_END && !parser_begins_item(p, p->at)) {
        TokenKind kind = (TokenKind)parser_next(p)->kind;
        open += kind == TOKEN_OPEN_BRACE;
        open -= kind == TOKEN_CLOSE_BRACE;
    }
}

/* A line that goes on from the one above, also where it may not: it is no statement of its own. */
static bool goes_on(const Parser *p, uint32_t at) {
    TokenKind kind = (TokenKind)p->tokens.list[at].kind;
    char before = token_info[p->tokens.list[at - 1].kind].class;
    if (kind == TOKEN_FLOOR_DIVIDE) return false; /* a comment of another language */
    return before == 'O' || before == 'W' || token_info[kind].class == 'O' || kind == TOKEN_THEN ||
           kind == TOKEN_ELSE;
}

/* After an error: to where the next statement can begin. */
static void skip_statement(Parser *p) {
    size_t open = p->brackets;
    for (;; p->at++) {
        const Token *t = &p->tokens.list[p->at];
        TokenKind kind = (TokenKind)t->kind;
        bool fresh = p->at > p->begin;
        if (kind == TOKEN_END || kind == TOKEN_CLOSE_BRACE) break;
        if (fresh && (parser_begins_item(p, p->at) || begins_statement(p, p->at))) break;
        if (fresh && t->newline && open == 0 && !goes_on(p, p->at)) break;
        if (kind == TOKEN_OPEN_PAREN || kind == TOKEN_OPEN_BRACKET) open++;
        if ((kind == TOKEN_CLOSE_PAREN || kind == TOKEN_CLOSE_BRACKET) && open > 0) open--;
        if (kind == TOKEN_OPEN_BRACE) {
            p->at++;
            skip_block(p);
            if (p->tokens.list[p->at].kind != TOKEN_ELSE) break;
        }
    }
    p->panic = false;
    p->brackets = 0;
}

/* After an error in a list: to its next comma or its end. False: there is none in sight. */
static bool skip_in_list(Parser *p) {
    size_t open = 0;
    for (;; p->at++) {
        TokenKind kind = (TokenKind)p->tokens.list[p->at].kind;
        if (kind == TOKEN_END || kind == TOKEN_OPEN_BRACE || kind == TOKEN_CLOSE_BRACE)
            return false;
        if (parser_begins_item(p, p->at) || begins_statement(p, p->at)) return false;
        if (kind == TOKEN_OPEN_PAREN || kind == TOKEN_OPEN_BRACKET) open++;
        if (kind == TOKEN_CLOSE_PAREN || kind == TOKEN_CLOSE_BRACKET) {
            if (open == 0) break;
            open--;
        }
        if (kind == TOKEN_COMMA && open == 0) break;
    }
    p->panic = false;
    return true;
}

static void mark_statement(Parser *p) {
    p->begin = p->at;
    p->tokens.list[p->at].statement = true;
}

static void *allocate(Parser *p, size_t size) {
    return arena_alloc(&p->compiler->arena, size);
}

/* ---- heads: axes and parameters ---- */

static Entry *name_entry(Parser *p, const char *expected) {
    const Token *token = &p->tokens.list[p->at];
    if (parser_kind(p) == TOKEN_TYPE && !p->panic) {
        Range range = token_range(p, token);
        diagnose(p->compiler, ERROR_TYPE_AS_NAME, range, token->name->text);
        if (token[1].kind == TOKEN_NAME)
            diagnose_help(p->compiler, "the type stands behind the name: `%s: %s`",
                          token[1].name->text, token->name->text);
        p->panic = true;
    }
    if (!parser_expect(p, TOKEN_NAME, expected)) return NULL;
    Entry *entry = allocate(p, sizeof *entry);
    entry->name = token->name;
    entry->range = token_range(p, token);
    return entry;
}

/* A list in brackets of what `read` reads, with a trailing comma if one likes. */
typedef Entry *ReadEntry(Parser *p);
static Entry *read_list(Parser *p, TokenKind close, ReadEntry *read, bool *damaged) {
    p->tokens.list[p->at].list = true;
    Range open = token_range(p, parser_next(p));
    size_t brackets = p->brackets++;
    Entry *first = NULL, **end = &first;
    while (parser_kind(p) != close) {
        Entry *entry = read(p);
        if (entry) {
            *end = entry;
            end = &entry->next;
        }
        if (!p->panic && (parser_take(p, TOKEN_COMMA) || parser_kind(p) == close)) continue;
        if (!p->panic) parser_close(p, close, open);
        *damaged = true;
        if (!skip_in_list(p)) break;
        if (!parser_take(p, TOKEN_COMMA) && parser_kind(p) != close) break;
    }
    if (parser_kind(p) == close)
        parser_next(p);
    else if (!*damaged)
        parser_close(p, close, open);
    p->brackets = brackets;
    return first;
}

/* as (q, k = 256): the two names, the second with its length */
static Entry *blocks(Parser *p) {
    parser_next(p);
    Range open = token_range(p, &p->tokens.list[p->at]);
    if (!parser_expect(p, TOKEN_OPEN_PAREN, "`(q, k = 256)`: the blocks and their length"))
        return NULL;
    Entry *count = name_entry(p, "the name of the axis of blocks");
    if (!count || !parser_expect(p, TOKEN_COMMA, "`,`")) return NULL;
    count->next = name_entry(p, "the name of the axis inside a block");
    if (!count->next || !parser_expect(p, TOKEN_ASSIGN, "`=` and the length of a block"))
        return NULL;
    count->next->size = parse_expression(p);
    parser_take(p, TOKEN_COMMA);
    if (!p->panic) parser_close(p, TOKEN_CLOSE_PAREN, open);
    return count;
}

/* b   k = 64   n of t   n as (q, k = 256)   n of t as (q, k = 256)   n = 4096 as (q, k = 256) */
static Entry *axis(Parser *p) {
    Entry *entry = name_entry(p, "the name of an axis");
    if (!entry) return NULL;
    uint32_t start = p->at;
    if (parser_is_word(p, p->at, "of")) {
        parser_next(p);
        const Token *parent = &p->tokens.list[p->at];
        if (parser_expect(p, TOKEN_NAME, "the name of an axis")) {
            entry->parent = parent->name;
            entry->parent_range = token_range(p, parent);
        }
        entry->ragged = range_since(p, start);
    }
    if (!p->panic && parser_take(p, TOKEN_ASSIGN)) entry->size = parse_expression(p);
    start = p->at;
    if (!p->panic && parser_is_word(p, p->at, "as")) {
        entry->blocks = blocks(p);
        entry->blocked = range_since(p, start);
        if (!p->panic && parser_kind(p) == TOKEN_ASSIGN && parser_error(p, "`,` or `]`"))
            diagnose_help(p->compiler, "a length stands before `as`: `%s = 4096 as (q, k = 256)`",
                          entry->name->text);
        if (!p->panic && parser_is_word(p, p->at, "of") && parser_error(p, "`,` or `]`"))
            diagnose_help(p->compiler, "`of` stands before `as`: `%s of t as (q, k = 256)`",
                          entry->name->text);
    }
    return entry;
}

static Entry *plain_name(Parser *p) {
    return name_entry(p, "the name of an axis");
}

static Entry *target_name(Parser *p) {
    return name_entry(p, "the name of a parameter");
}

static void unknown_type(Parser *p, const Token *token) {
    const char *meant = habit(HABIT_TYPE, token->name);
    parser_next(p);
    if (!diagnose(p->compiler, ERROR_UNKNOWN_TYPE, token_range(p, token), token->name->text))
        return;
    if (meant)
        diagnose_help(p->compiler, "it is called `%s` here", meant);
    else
        diagnose_help(p->compiler, "the types are f64 f32 i64 i32 u64 u32 bool, and for arrays f16 "
                                   "bf16 e4m3 e5m2 i16 i8 u16 u8");
}

static void type_and_axes(Parser *p, Entry *entry) {
    const Token *token = &p->tokens.list[p->at];
    if (parser_kind(p) == TOKEN_NAME && !p->panic) {
        unknown_type(p, token);
    } else if (parser_expect(p, TOKEN_TYPE, "a type")) {
        entry->type = token->name;
    }
    entry->type_range = token_range(p, token);
    if (!p->panic && parser_kind(p) == TOKEN_OPEN_BRACKET) {
        bool damaged = false;
        entry->has_axes = true;
        entry->axes = read_list(p, TOKEN_CLOSE_BRACKET, plain_name, &damaged);
        p->damaged |= damaged;
    }
}

/* x: f32[b, k]   inout m: bf16[n]   lr: f32 = 1e-3 */
static Entry *step_parameter(Parser *p) {
    ls_role role = LS_IN;
    if (parser_take(p, TOKEN_INOUT))
        role = LS_INOUT;
    else if (parser_take(p, TOKEN_OUT))
        role = LS_OUT;
    Entry *entry = name_entry(p, "the name of a parameter");
    if (!entry) return NULL;
    entry->role = role;
    if (parser_expect(p, TOKEN_COLON, "`:` and the parameter's type")) type_and_axes(p, entry);
    if (!p->panic && parser_take(p, TOKEN_ASSIGN)) entry->initial = parse_expression(p);
    return entry;
}

static Entry *fn_parameter(Parser *p) {
    Entry *entry = name_entry(p, "the name of a parameter");
    if (entry && parser_take(p, TOKEN_COLON)) type_and_axes(p, entry);
    return entry;
}

/* ---- statements ---- */

static Statement *new_statement(Parser *p, StatementKind kind) {
    Statement *statement = allocate(p, sizeof *statement);
    statement->kind = (uint8_t)kind;
    statement->at = token_range(p, &p->tokens.list[p->at]);
    return statement;
}

static Statement *let(Parser *p) {
    Statement *s = new_statement(p, STATEMENT_LET);
    parser_next(p);
    Entry **end = &s->targets;
    do {
        Entry *entry = name_entry(p, "the name that `let` binds");
        if (!entry) break;
        *end = entry;
        end = &entry->next;
    } while (parser_take(p, TOKEN_COMMA));
    if (!p->panic) {
        s->at = token_range(p, &p->tokens.list[p->at]);
        parser_expect(p, TOKEN_ASSIGN, "`=` and an expression");
    }
    s->value = parse_expression(p);
    return s;
}

static Statement *block(Parser *p, Range *end);

static Statement *when(Parser *p) {
    Statement *s = new_statement(p, STATEMENT_WHEN);
    Range end;
    parser_next(p);
    s->value = parse_expression(p);
    s->body = block(p, &end);
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_ELSE) {
        parser_next(p);
        bool chained = parser_kind(p) == TOKEN_WHEN;
        if (chained && parser_error(p, "`{`"))
            diagnose_help(p->compiler,
                          "the second `when` stands in the braces: `else { when ... }`");
        s->otherwise = block(p, &end);
    }
    return s;
}

/* for t { ... }   for t reverse { ... } */
static Statement *loop(Parser *p) {
    Statement *s = new_statement(p, STATEMENT_FOR);
    Range end;
    parser_next(p);
    s->targets = name_entry(p, "the axis that `for` goes over");
    s->reverse = !p->panic && parser_is_word(p, p->at, "reverse");
    if (s->reverse) parser_next(p);
    s->body = block(p, &end);
    return s;
}

/* `for` at the start of a statement, unless it is a parameter or a step of that name. */
static bool begins_loop(const Parser *p) {
    if (!parser_is_word(p, p->at, "for")) return false;
    TokenKind next = (TokenKind)p->tokens.list[p->at + 1].kind;
    return next == TOKEN_OPEN_BRACE || token_info[next].class == 'V';
}

static bool is_assignment(TokenKind kind) {
    return kind == TOKEN_ASSIGN || (kind >= TOKEN_ADD_TO && kind <= TOKEN_AND_WITH);
}

/* p -= lr * dw   or   other_step(a = x) */
static Statement *assignment_or_call(Parser *p) {
    Statement *s = new_statement(p, STATEMENT_ASSIGN);
    const Token *token = &p->tokens.list[p->at];
    Node *left = parse_expression(p);
    s->value = left;
    if (left->name) {
        s->targets = allocate(p, sizeof *s->targets);
        s->targets->name = left->name;
        s->targets->range = left->at;
    }
    if (p->panic) return s;
    TokenKind sign = parser_kind(p);
    if (!is_assignment(sign)) {
        s->kind = STATEMENT_CALL;
        if (left->kind != NODE_CALL) {
            s->kind = STATEMENT_ERROR;
            if (parser_kind(p) == TOKEN_LINE_END || parser_kind(p) == TOKEN_CLOSE_BRACE)
                diagnose(p->compiler, ERROR_UNUSED_VALUE, left->range);
            else
                parser_error(p, "`=` or another assignment");
        }
        return s;
    }
    s->token = (uint8_t)sign;
    s->at = token_range(p, parser_next(p));
    if (left->kind != NODE_NAME || left->qualifier) {
        s->kind = STATEMENT_ERROR;
        bool indexed = left->kind == NODE_INDEX;
        if (diagnose(p->compiler, ERROR_NOT_ASSIGNABLE, left->range) && indexed)
            diagnose_help(p->compiler,
                          "there are no indexed stores: assign the whole of `%s`, `if "
                          "index(a) == i then value else %s`",
                          token->name->text, token->name->text);
    }
    s->value = parse_expression(p);
    return s;
}

static Statement *statement(Parser *p) {
    TokenKind kind = (TokenKind)p->tokens.list[p->at].kind;
    Statement *s;
    if (kind == TOKEN_LET) {
        s = let(p);
    } else if (kind == TOKEN_WHEN) {
        s = when(p);
    } else if (begins_loop(p)) {
        s = loop(p);
    } else if (kind == TOKEN_RETURN) {
        s = new_statement(p, STATEMENT_RETURN);
        parser_next(p);
        s->value = parse_expression(p);
    } else {
        s = assignment_or_call(p);
    }
    return s;
}

/* { statements }: to behind the closing brace, whose range is *end. */
static Statement *block(Parser *p, Range *end) {
    Range open = token_range(p, &p->tokens.list[p->at]);
    *end = open;
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_OPEN_BRACE)
        parser_next(p);
    else
        parser_error(p, "`{`");
    if (p->panic) return NULL;
    if (++p->level > PARSE_DEPTH_MAX) {
        parser_too_deep(p, open);
        p->level--;
        return NULL;
    }
    Statement *first = NULL, **next = &first;
    while (p->tokens.list[p->at].kind != TOKEN_CLOSE_BRACE) {
        if (p->tokens.list[p->at].kind == TOKEN_END || parser_begins_item(p, p->at)) {
            diagnose(p->compiler, ERROR_UNCLOSED, open, "{");
            p->level--;
            return first;
        }
        mark_statement(p);
        uint32_t start = p->at;
        const size_t errors = p->compiler->diagnostic_count;
        Statement *s = statement(p);
        s->range = range_since(p, start);
        *next = s;
        next = &s->next;
        if (!p->panic && parser_kind(p) != TOKEN_LINE_END && parser_kind(p) != TOKEN_CLOSE_BRACE &&
            parser_kind(p) != TOKEN_END)
            parser_error(p, "the end of the line");
        if (p->panic) {
            parser_suggest(p, start, errors);
            s->kind =
                s->kind == STATEMENT_LET || s->kind == STATEMENT_RETURN ? s->kind : STATEMENT_ERROR;
            s->value = parse_error_node(p);
            if (p->at == start) p->begin = start; /* nothing was read: skip at least one token */
            skip_statement(p);
            if (p->at == start && p->tokens.list[p->at].kind != TOKEN_CLOSE_BRACE) parser_next(p);
        }
    }
    p->tokens.list[p->at].statement = true;
    *end = token_range(p, parser_next(p));
    p->begin = p->at - 1; /* so that a newline behind the brace ends a statement */
    p->level--;
    return first;
}

/* ---- items ---- */

static size_t count(const Entry *entry) {
    size_t n = 0;
    for (; entry; entry = entry->next) n++;
    return n;
}

static void end_of_item(Parser *p) {
    if (!p->panic && !p->tokens.list[p->at].newline && parser_kind(p) != TOKEN_END)
        parser_error(p, "the end of the line");
}

static void item_name(Parser *p, Item *item, const char *expected) {
    Entry *entry = name_entry(p, expected);
    if (entry) {
        item->name = entry->name;
        item->at = entry->range;
    }
}

/* import "path"   import "path" as s   import c "ops.h" */
static void import_item(Parser *p, Item *item) {
    item->kind = ITEM_IMPORT;
    item->is_c = parser_is_word(p, p->at, "c");
    if (item->is_c) parser_next(p);
    Range path = token_range(p, &p->tokens.list[p->at]);
    if (parser_take(p, TOKEN_STRING))
        item->path = (Range){path.file, path.begin + 1, path.end - 1};
    else if (parser_error(p, "the path in quotes"))
        diagnose_help(p->compiler,
                      "as in `import \"std/norms\"`; functions of the language need none");
    bool has_name = parser_is_word(p, p->at, "as") && !p->tokens.list[p->at].newline;
    if (!p->panic && !item->is_c && has_name) {
        parser_next(p);
        item_name(p, item, "the name to import as");
    } else if (!p->panic && has_name && parser_error(p, "the end of the line")) {
        diagnose_help(p->compiler, "the names of a C header are used as they are");
    }
    end_of_item(p);
}

static void const_item(Parser *p, Item *item) {
    item->kind = ITEM_CONST;
    item_name(p, item, "the name of the constant");
    if (!p->panic) parser_expect(p, TOKEN_ASSIGN, "`=` and the constant's value");
    item->value = parse_expression(p);
    end_of_item(p);
}

static void body(Parser *p, Item *item) {
    p->begin = p->at;
    item->body = block(p, &item->end);
    end_of_item(p);
}

static void fn_item(Parser *p, Item *item) {
    item->kind = ITEM_FN;
    item_name(p, item, "the name of the function");
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_OPEN_PAREN)
        item->parameters = read_list(p, TOKEN_CLOSE_PAREN, fn_parameter, &item->damaged);
    else
        parser_error(p, "`(` and the function's parameters");
    item->damaged |= p->panic;
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_OPEN_BRACE) {
        item->is_block = true;
        body(p, item);
    } else if (!p->panic) {
        const TokenKind found = p->tokens.list[p->at].kind;
        if (!parser_expect(p, TOKEN_ASSIGN, "`= expression` or a block") &&
            (found == TOKEN_COLON || found == TOKEN_MINUS))
            diagnose_help(p->compiler, "a function has the type of its expression; write none");
        item->value = parse_expression(p);
        end_of_item(p);
    }
}

/* step name = backward other(x, y) */
static void backward_item(Parser *p, Item *item) {
    item->kind = ITEM_BACKWARD;
    parser_next(p);
    if (!parser_is_word(p, p->at, "backward")) {
        parser_error(p, "`backward` and the name of a step");
        return;
    }
    parser_next(p);
    item->step = parse_member(p, "the name of a step");
    item->has_targets = !p->panic && parser_kind(p) == TOKEN_OPEN_PAREN;
    if (item->has_targets)
        item->targets = read_list(p, TOKEN_CLOSE_PAREN, target_name, &item->damaged);
    end_of_item(p);
}

static const struct {
    const char *word;
    ls_math math;
} grades[] = {{"exact", LS_MATH_EXACT}, {"lite", LS_MATH_LITE}, {"fast", LS_MATH_FAST}};

static void math_grade(Parser *p, Item *item) {
    item->math = LS_MATH_EXACT;
    if (p->panic || !parser_is_word(p, p->at, "math")) return;
    parser_next(p);
    for (size_t i = 0; i < COUNT(grades); i++) {
        if (!parser_is_word(p, p->at, grades[i].word)) continue;
        item->math = grades[i].math;
        parser_next(p);
        return;
    }
    parser_error(p, "`exact`, `lite` or `fast`");
}

static void step_item(Parser *p, Item *item) {
    item->kind = ITEM_STEP;
    item_name(p, item, "the name of the step");
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_ASSIGN) {
        backward_item(p, item);
        return;
    }
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_OPEN_BRACKET)
        item->axes = read_list(p, TOKEN_CLOSE_BRACKET, axis, &item->damaged);
    if (!p->panic && p->tokens.list[p->at].kind == TOKEN_OPEN_PAREN)
        item->parameters = read_list(p, TOKEN_CLOSE_PAREN, step_parameter, &item->damaged);
    else
        parser_error(p, "`(` and the step's parameters");
    math_grade(p, item);
    if (!p->panic && p->tokens.list[p->at].kind != TOKEN_OPEN_BRACE)
        parser_error(p, "`{` and the step's statements");
    if (p->panic || item->damaged) { /* the head is broken; its body may still be read */
        item->damaged = true;
        while (p->tokens.list[p->at].kind != TOKEN_OPEN_BRACE) {
            if (p->tokens.list[p->at].kind == TOKEN_END || parser_begins_item(p, p->at)) return;
            parser_next(p);
        }
        p->panic = false;
        p->brackets = 0;
    }
    body(p, item);
}

static void skip_item(Parser *p) {
    while (p->tokens.list[p->at].kind != TOKEN_END && !parser_begins_item(p, p->at)) p->at++;
    p->panic = false;
    p->brackets = 0;
}

static Item *item(Parser *p) {
    mark_statement(p);
    p->damaged = false;
    uint32_t start = p->at;
    Item *it = allocate(p, sizeof *it);
    it->at = token_range(p, &p->tokens.list[p->at]);
    if (parser_is_word(p, p->at, "step")) {
        parser_next(p);
        step_item(p, it);
    } else {
        TokenKind kind = (TokenKind)p->tokens.list[p->at].kind;
        if (kind == TOKEN_IMPORT || kind == TOKEN_CONST || kind == TOKEN_FN) parser_next(p);
        if (kind == TOKEN_IMPORT)
            import_item(p, it);
        else if (kind == TOKEN_CONST)
            const_item(p, it);
        else if (kind == TOKEN_FN)
            fn_item(p, it);
        else if (parser_error(p, "`step`, `fn`, `const` or `import`"))
            parser_suggest_item(p, start);
        if (p->at == start) parser_next(p);
        if (kind != TOKEN_IMPORT && kind != TOKEN_CONST && kind != TOKEN_FN) it = NULL;
    }
    if (it) {
        it->damaged |= p->damaged || p->panic;
        it->range = range_since(p, start);
        it->axis_count = count(it->axes);
        it->parameter_count = count(it->parameters);
    }
    if (p->panic) skip_item(p);
    return it;
}

Syntax parse(Names *names, uint32_t file) {
    Parser p = {.compiler = names->compiler, .names = names, .tokens = lex(names, file)};
    Item *first = NULL, **end = &first;
    while (p.tokens.list[p.at].kind != TOKEN_END && !diagnostics_are_full(p.compiler)) {
        Item *it = item(&p);
        if (!it) continue;
        *end = it;
        end = &it->next;
    }
    return (Syntax){.tokens = p.tokens, .items = first};
}

Item *parse_define(Names *names, uint32_t file) {
    Compiler *compiler = names->compiler;
    size_t errors = compiler->error_count;
    Parser p = {.compiler = compiler, .names = names, .tokens = lex(names, file)};
    Item *it = allocate(&p, sizeof *it);
    if (p.tokens.count > 1 && p.tokens.list[1].kind == TOKEN_DOT) { /* s.name = value */
        it->step = parse_member(&p, "the name of the constant");
        p.at -= !p.panic;
    }
    const_item(&p, it);
    return compiler->error_count == errors ? it : NULL;
}
