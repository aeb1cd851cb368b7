/* parse.h: what parse.c and parse_expression.c share: the parser's state and its small steps. */
#ifndef PARSE_H
#define PARSE_H

/* What bounds the parser's recursion (brackets, blocks, prefix operators), and that of later passes
 * (the depth of an expression's tree, chains of operators too). */
enum { PARSE_DEPTH_MAX = 500, TREE_DEPTH_MAX = 500 };

typedef struct Parser {
    Compiler *compiler;
    Names *names;
    Tokens tokens;
    uint32_t at, begin; /* the next token; the first of this statement */
    size_t brackets;    /* open ( and [: newlines mean nothing inside */
    size_t level;
    bool panic;   /* an error was reported: silent until the next statement */
    bool damaged; /* the item's head had an error that was stepped over */
} Parser;

TokenKind parser_kind(const Parser *p); /* LINE_END where a newline ends the statement */
const Token *parser_next(Parser *p);
bool parser_take(Parser *p, TokenKind kind);
bool parser_expect(Parser *p, TokenKind kind, const char *expected);
bool parser_close(Parser *p, TokenKind kind, Range open);
bool parser_error(Parser *p, const char *expected); /* true: it was reported, notes may follow */
void parser_too_deep(Parser *p, Range range);
bool parser_is_word(const Parser *p, uint32_t token, const char *word);
bool parser_begins_item(const Parser *p, uint32_t token);
Range token_range(const Parser *p, const Token *token);
Range range_since(const Parser *p, uint32_t first_token);

/* parse_expression.c */
Node *parse_expression(Parser *p);                   /* never NULL */
Node *parse_member(Parser *p, const char *expected); /* name or s.name */
Node *parse_error_node(Parser *p);

#endif
