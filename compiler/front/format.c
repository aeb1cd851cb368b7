/* format.c: the one layout.
 *
 * Needs a text that parses; gives the same tokens and comments with other white space, and gives it
 * again when applied to its own result. Works on the tokens: the parser has marked where statements
 * begin and which brackets hold lists. A list whose first element stands on a new line stays open:
 * its elements keep their lines, which people use to group parameters; everything else is laid
 * flat, and broken at its loosest, outermost operators where it exceeds 100 columns. At most one
 * blank line in a row stays, and what has a block stands between blank lines. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

enum { COLUMNS = 100, INDENT = 4 };

typedef struct Row {
    Text text;
    uint32_t indent;
    const char *comment; /* at its end, or NULL */
    bool blank_before;
} Row;

typedef struct Formatter {
    Compiler *compiler;
    Arena *arena;
    const char *source;
    const Tokens *tokens;
    uint32_t *match;    /* of an opening bracket: the closing one */
    uint32_t *column;   /* where a token begins when its statement is laid flat */
    uint32_t *comments; /* by token: how many comments stand before it, counted from the first */
    uint32_t *open;     /* by token: how many lists that stay open begin before it */
    uint8_t *depth;     /* of brackets, up to 200 */
    Row *rows;
    size_t row_count, row_capacity;
    uint32_t first; /* of the statement */
    bool fresh;     /* the row holds nothing yet */
} Formatter;

/* ---- tokens ---- */

static const Token *at(const Formatter *f, uint32_t token) {
    return &f->tokens->list[token];
}

static TokenKind kind(const Formatter *f, uint32_t token) {
    return (TokenKind)at(f, token)->kind;
}

static bool is_opener(TokenKind k) {
    return k == TOKEN_OPEN_PAREN || k == TOKEN_OPEN_BRACKET;
}
static bool is_closer(TokenKind k) {
    return k == TOKEN_CLOSE_PAREN || k == TOKEN_CLOSE_BRACKET;
}

static bool ends_operand(TokenKind k) {
    char class = token_info[k].class;
    return class == 'V' || is_closer(k) || k == TOKEN_TRUE || k == TOKEN_FALSE || k == TOKEN_INF ||
           k == TOKEN_NAN || k == TOKEN_PI;
}

static bool is_unary_minus(const Formatter *f, uint32_t token) {
    if (kind(f, token) != TOKEN_MINUS) return false;
    return token == f->first || !ends_operand(kind(f, token - 1));
}

/* The comma in front of a closing bracket; where the list stays open it is written anew. */
static bool is_trailing_comma(const Formatter *f, uint32_t token) {
    return kind(f, token) == TOKEN_COMMA && is_closer(kind(f, token + 1));
}

static bool is_word(const Formatter *f, uint32_t token, const char *word) {
    return kind(f, token) == TOKEN_NAME && strcmp(at(f, token)->name->text, word) == 0;
}

/* Whether a space stands between a token and the one before it. */
static bool spaced(const Formatter *f, uint32_t token) {
    TokenKind before = kind(f, token - 1), k = kind(f, token);
    if (is_opener(before) || is_closer(k) || k == TOKEN_COMMA || k == TOKEN_COLON) return false;
    if (before == TOKEN_DOT || k == TOKEN_DOT || k == TOKEN_PRIME) return false;
    if (is_unary_minus(f, token - 1)) return false;
    if (is_opener(k) && is_word(f, token - 1, "as") && token - 1 > f->first)
        return kind(f, token - 2) == TOKEN_NAME;
    if (is_opener(k))
        return before != TOKEN_NAME && before != TOKEN_TYPE && before != TOKEN_PRIME &&
               before != TOKEN_CLOSE_BRACKET;
    return true;
}

static uint32_t length(const Formatter *f, uint32_t token) {
    return is_trailing_comma(f, token) ? 0 : at(f, token)->end - at(f, token)->begin;
}

static uint32_t flat_width(const Formatter *f, uint32_t a, uint32_t b) {
    return f->column[b - 1] + length(f, b - 1) - f->column[a];
}

static uint32_t newlines_before(const Formatter *f, uint32_t offset) {
    uint32_t count = 0;
    while (offset > 0 && strchr(" \t\r\n", f->source[offset - 1]) && f->source[offset - 1])
        count += f->source[--offset] == '\n';
    return offset == 0 ? count + 1 : count;
}

/* ---- what is known before a line is laid out ---- */

static bool stays_open(const Formatter *f, uint32_t token) {
    uint32_t close = f->match[token];
    if (!at(f, token)->list || close <= token + 1) return false;
    return at(f, token + 1)->newline || f->comments[token + 1] != f->comments[token] ||
           f->comments[close] != f->comments[token];
}

static void survey(Formatter *f) {
    uint32_t count = (uint32_t)f->tokens->count, comment = 0, open = 0, stacked = 0;
    uint32_t *stack = arena_alloc(f->arena, count * sizeof *stack);
    f->match = arena_alloc(f->arena, (count + 1) * sizeof(uint32_t));
    f->column = arena_alloc(f->arena, (count + 1) * sizeof(uint32_t));
    f->comments = arena_alloc(f->arena, (count + 2) * sizeof(uint32_t));
    f->open = arena_alloc(f->arena, (count + 2) * sizeof(uint32_t));
    f->depth = arena_alloc(f->arena, count + 1);
    for (uint32_t t = 0; t < count; t++) {
        if (is_opener(kind(f, t))) stack[stacked++] = t;
        if (is_closer(kind(f, t)) && stacked > 0) f->match[stack[--stacked]] = t;
        f->depth[t] = (uint8_t)(stacked < 200 ? stacked : 200);
        while (comment < f->tokens->comment_count && f->tokens->comments[comment].before <= t)
            comment++;
        f->comments[t] = comment;
    }
    f->comments[count] = comment;
    for (uint32_t t = 0; t < count; t++) {
        f->open[t] = open;
        if (is_opener(kind(f, t))) open += stays_open(f, t);
    }
    f->open[count] = open;
}

/* A comment in front of the brace that opens a block, or of the `else` before it, moves behind the
 * brace: what it breaks apart belongs on one line. */
static void move_comments(Tokens *tokens) {
    for (size_t i = 0; i < tokens->comment_count; i++) {
        uint32_t *before = &tokens->comments[i].before;
        const Token *list = tokens->list;
        if (*before > 0 && list[*before].kind == TOKEN_ELSE &&
            list[*before - 1].kind == TOKEN_CLOSE_BRACE)
            ++*before;
        if (list[*before].kind == TOKEN_OPEN_BRACE) ++*before;
    }
}

/* ---- rows ---- */

static Row *row(Formatter *f) {
    return &f->rows[f->row_count - 1];
}

static Row *new_row(Formatter *f, uint32_t indent) {
    f->rows = arena_grow(f->arena, f->rows, f->row_count, &f->row_capacity, sizeof *f->rows);
    f->rows[f->row_count++] = (Row){.text = text_open(f->arena), .indent = indent};
    f->fresh = true;
    return row(f);
}

static uint32_t used(const Formatter *f) {
    const Row *r = &f->rows[f->row_count - 1];
    return r->indent + (uint32_t)r->text.size;
}

static void put_text(Formatter *f, const char *text) {
    text_puts(&row(f)->text, text);
    f->fresh = false;
}

static void put_flat(Formatter *f, uint32_t a, uint32_t b) {
    for (uint32_t t = a; t < b; t++) {
        if (is_trailing_comma(f, t)) continue;
        if (!f->fresh && t > f->first && spaced(f, t)) text_puts(&row(f)->text, " ");
        text_add(&row(f)->text, f->source + at(f, t)->begin, at(f, t)->end - at(f, t)->begin);
        f->fresh = false;
    }
}

static void put_comment_rows(Formatter *f, uint32_t comment, uint32_t end, uint32_t indent,
                             bool blanks) {
    for (; comment < end; comment++) {
        const Comment *c = &f->tokens->comments[comment];
        Row *r = new_row(f, indent);
        text_add(&r->text, f->source + c->begin, c->end - c->begin);
        r->blank_before = blanks && newlines_before(f, c->begin) > 1;
    }
}

/* The comments between `token` and the one before it: the first may belong to the end of this row,
 * the others get rows of their own. True when there were any: the next token begins a row. */
static bool put_comments_before(Formatter *f, uint32_t token, uint32_t indent, bool blanks) {
    uint32_t comment = token ? f->comments[token - 1] : 0, end = f->comments[token];
    if (comment == end) return false;
    const Comment *c = &f->tokens->comments[comment];
    if (f->row_count > 0 && token > 0 && newlines_before(f, c->begin) == 0 && !row(f)->comment) {
        row(f)->comment = arena_copy(f->arena, f->source + c->begin, c->end - c->begin);
        comment++;
    }
    put_comment_rows(f, comment, end, indent, blanks);
    return true;
}

/* ---- breaking what is too long ---- */

/* How bad it is to break behind a token; 0: not allowed. Outermost and loosest first. */
static uint32_t break_rank(const Formatter *f, uint32_t token) {
    static const uint8_t ranks[TOKEN_COUNT] = {
        [TOKEN_COMMA] = 1,        [TOKEN_THEN] = 2,          [TOKEN_ELSE] = 2,
        [TOKEN_OR] = 3,           [TOKEN_AND] = 4,           [TOKEN_EQUAL] = 5,
        [TOKEN_NOT_EQUAL] = 5,    [TOKEN_LESS] = 5,          [TOKEN_LESS_EQUAL] = 5,
        [TOKEN_GREATER] = 5,      [TOKEN_GREATER_EQUAL] = 5, [TOKEN_PLUS] = 6,
        [TOKEN_MINUS] = 6,        [TOKEN_MULTIPLY] = 7,      [TOKEN_DIVIDE] = 7,
        [TOKEN_FLOOR_DIVIDE] = 7, [TOKEN_MODULO] = 7,        [TOKEN_ASSIGN] = 8,
        [TOKEN_ADD_TO] = 8,       [TOKEN_SUBTRACT_FROM] = 8, [TOKEN_MULTIPLY_BY] = 8,
        [TOKEN_DIVIDE_BY] = 8,    [TOKEN_POWER] = 9,         [TOKEN_OPEN_PAREN] = 10,
    };
    TokenKind k = kind(f, token);
    bool in_list = k == TOKEN_OPEN_PAREN && at(f, token)->list;
    bool at_comma = k == TOKEN_COMMA && (f->depth[token] == 0 || is_trailing_comma(f, token));
    if (ranks[k] == 0 || is_unary_minus(f, token) || in_list || at_comma) return 0;
    return ranks[k] + 16u * f->depth[token];
}

/* Tokens without comments or open lists among them. */
static void put_wrapped(Formatter *f, uint32_t a, uint32_t b, uint32_t indent) {
    while (a < b) {
        uint32_t start = used(f) + (!f->fresh && a > f->first && spaced(f, a));
        if (start + flat_width(f, a, b) <= COLUMNS) break;
        uint32_t best = 0, min = UINT32_MAX;
        for (uint32_t t = a; t + 1 < b; t++) {
            bool fits = start + flat_width(f, a, t + 1) <= COLUMNS;
            uint32_t rank = break_rank(f, t);
            if (!fits && best) break;
            if (rank == 0 || (fits && rank > min)) continue;
            best = t + 1;
            min = rank;
            if (!fits) break;
        }
        if (best == 0) break;
        put_flat(f, a, best);
        new_row(f, indent + INDENT);
        a = best;
    }
    put_flat(f, a, b);
}

static void put_tokens(Formatter *f, uint32_t a, uint32_t b, uint32_t indent);

/* The elements of an open list, each line of them a row, and the comma after the last. */
static void put_elements(Formatter *f, uint32_t a, uint32_t close, uint32_t indent) {
    bool wrapped = true; /* the next element needs a new row */
    while (a < close) {
        uint32_t end = a;
        while (end < close && (kind(f, end) != TOKEN_COMMA || f->depth[end] != f->depth[a - 1]))
            end = is_opener(kind(f, end)) ? f->match[end] + 1 : end + 1;
        uint32_t past = end < close ? end + 1 : end;
        bool flat = f->comments[end - 1] == f->comments[a] && f->open[end] == f->open[a];
        uint32_t width = flat ? flat_width(f, a, end) + 1 : COLUMNS;
        if (put_comments_before(f, a, indent, true)) wrapped = true;
        bool blank =
            newlines_before(f, at(f, a)->begin) > 1 && a > 0 && kind(f, a - 1) == TOKEN_COMMA;
        if (wrapped || at(f, a)->newline || used(f) + 1 + width > COLUMNS)
            new_row(f, indent)->blank_before = blank;
        else
            put_text(f, " ");
        wrapped = !flat || indent + width > COLUMNS;
        f->first = a;
        put_tokens(f, a, end, indent);
        put_text(f, ",");
        if (past > end && put_comments_before(f, end, indent, true)) wrapped = true;
        a = past;
    }
}

/* Any part of a statement, from the row's end on. */
static void put_tokens(Formatter *f, uint32_t a, uint32_t b, uint32_t indent) {
    uint32_t first = f->first, start = a;
    while (a < b) {
        bool open = is_opener(kind(f, a)) && stays_open(f, a);
        bool commented = a + 1 < b && f->comments[a + 1] != f->comments[a];
        if (!open && !commented && a + 1 < b) {
            a++;
            continue;
        }
        put_wrapped(f, start, a + 1, indent);
        a++;
        if (open) {
            uint32_t close = f->match[a - 1];
            put_elements(f, a, close, indent + INDENT);
            put_comments_before(f, close, indent + INDENT, true);
            new_row(f, indent);
            f->first = first;
            put_flat(f, close, close + 1);
            a = close + 1;
            commented = a < b && f->comments[a] != f->comments[close];
        }
        if (commented) {
            put_comments_before(f, a, indent + INDENT, true);
            new_row(f, indent + INDENT);
        }
        start = a;
    }
}

/* ---- statements ---- */

/* A head that is too long for a line gets its parameters on lines of their own. */
static void open_long_head(Formatter *f, uint32_t a, uint32_t b, uint32_t indent) {
    bool head = kind(f, a) == TOKEN_FN || is_word(f, a, "step");
    if (!head || indent > 0 || f->open[b] != f->open[a] || flat_width(f, a, b) <= COLUMNS) return;
    for (uint32_t t = a; t < b; t++) {
        if (kind(f, t) != TOKEN_OPEN_PAREN || !at(f, t)->list || f->depth[t] != 1) continue;
        if (f->match[t] > t + 1) f->tokens->list[t + 1].newline = true;
        return;
    }
}

static uint32_t end_of_statement(const Formatter *f, uint32_t a) {
    uint32_t b = a + 1;
    while (kind(f, b) != TOKEN_END && !at(f, b)->statement) b++;
    return b;
}

/* Blank lines: one where the source has some, and around what has a block. */
static void set_blanks(Formatter *f, size_t from, size_t statement, bool force) {
    size_t first = statement;
    while (first > from && !f->rows[first].blank_before) first--;
    if (force) f->rows[first].blank_before = true;
}

static void put_statement(Formatter *f, uint32_t a, uint32_t b, uint32_t indent, bool after_block) {
    bool closes = kind(f, a) == TOKEN_CLOSE_BRACE;
    bool opens = kind(f, b - 1) == TOKEN_OPEN_BRACE;
    uint32_t column = 0;
    f->first = a;
    for (uint32_t t = a; t < b; t++) {
        if (t > a && spaced(f, t)) column++;
        f->column[t] = column;
        column += length(f, t);
    }
    open_long_head(f, a, b, indent);
    size_t from = f->row_count;
    uint32_t comment_indent = indent + (closes ? INDENT : 0);
    if (a == 0)
        put_comment_rows(f, 0, f->comments[0], indent, true);
    else
        put_comments_before(f, a, comment_indent, true);
    new_row(f, indent)->blank_before = newlines_before(f, at(f, a)->begin) > 1 && !closes;
    size_t statement = f->row_count - 1;
    put_tokens(f, a, b, indent);
    bool item_with_block = indent == 0 && opens && !closes;
    if (item_with_block) set_blanks(f, from, statement, true);
    if (after_block) f->rows[from].blank_before = true;
    bool opened = from > 0 && f->rows[from - 1].text.size > 0 &&
                  f->rows[from - 1].text.data[f->rows[from - 1].text.size - 1] == '{';
    if (from == 0 || opened) f->rows[from].blank_before = false;
}

/* A blank line or a brace ends the rows whose comments stand below one another. */
static bool begins_group(const Formatter *f, size_t i) {
    const Row *r = &f->rows[i];
    if (i == 0 || r->blank_before || r->text.data[0] == '}') return true;
    const Text *before = &r[-1].text;
    return before->size > 0 && before->data[before->size - 1] == '{';
}

static uint32_t comment_column(const Formatter *f, size_t i) {
    uint32_t column = 0;
    for (size_t j = i; j < f->row_count && (j == i || !begins_group(f, j)); j++) {
        uint32_t width = f->rows[j].indent + (uint32_t)f->rows[j].text.size;
        if (f->rows[j].comment && width > column) column = width;
    }
    return column;
}

static char *print(Formatter *f) {
    Text out = text_open(f->arena);
    uint32_t column = 0;
    for (size_t i = 0; i < f->row_count; i++) {
        Row *r = &f->rows[i];
        if (begins_group(f, i)) column = comment_column(f, i);
        if (r->blank_before) text_puts(&out, "\n");
        text_printf(&out, "%*s%s", r->text.size ? (int)r->indent : 0, "", r->text.data);
        if (r->comment)
            text_printf(&out, "%*s  %s", (int)(column - r->indent - (uint32_t)r->text.size), "",
                        r->comment);
        text_puts(&out, "\n");
    }
    return out.data;
}

char *format_source(Compiler *compiler, const char *path, const char *text, size_t size) {
    Names names;
    size_t errors = compiler->error_count;
    names_open(&names, compiler);
    uint32_t file = source_add(compiler, path, text, size);
    Syntax syntax = parse(&names, file);
    diagnostics_sort(compiler);
    if (compiler->error_count != errors) return NULL;
    Formatter f = {.compiler = compiler,
                   .arena = &compiler->arena,
                   .source = compiler->sources[file].text,
                   .tokens = &syntax.tokens};
    move_comments(&syntax.tokens);
    survey(&f);
    uint32_t a = 0, indent = 0;
    bool after_block = false;
    while (kind(&f, a) != TOKEN_END) {
        uint32_t b = end_of_statement(&f, a);
        bool closes = kind(&f, a) == TOKEN_CLOSE_BRACE;
        if (closes && indent > 0) indent -= INDENT;
        put_statement(&f, a, b, indent, after_block);
        if (kind(&f, b - 1) == TOKEN_OPEN_BRACE) indent += INDENT;
        after_block = closes && indent == 0;
        a = b;
    }
    if (a > 0) {
        size_t from = f.row_count;
        put_comments_before(&f, a, 0, true);
        if (after_block && f.row_count > from) f.rows[from].blank_before = true;
    } else {
        put_comment_rows(&f, 0, f.comments[0], 0, true);
    }
    if (f.row_count > 0) f.rows[0].blank_before = false;
    return print(&f);
}
