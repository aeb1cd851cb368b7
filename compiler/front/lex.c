/* lex.c: text to tokens.
 *
 * Spaces and comments fall away (comments are kept aside for format.c); a token remembers whether
 * it is the first on its line, which is all the parser needs to end statements. A text that is no
 * token is reported here and becomes an ERROR token, about which the parser stays silent. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"

enum { NUMBER_MAX = 1000 };

#define CLASS_V 'V'
#define CLASS_P 'P'
#define CLASS_O 'O'
#define CLASS_K 'K'
#define CLASS_W 'W'
const TokenInfo token_info[TOKEN_COUNT] = {
#define X(id, spelling, class) {spelling, CLASS_##class},
#include "tokens.def"
#undef X
};

/* ---- names ---- */

static size_t hash_text(const char *text, size_t size) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return (size_t)(hash ^ hash >> 32);
}

static void grow_names(Names *names) {
    Name **old = names->buckets;
    size_t old_count = names->bucket_count;
    names->bucket_count = old_count ? old_count * 4 : 256;
    names->buckets =
        arena_alloc(&names->compiler->arena, names->bucket_count * sizeof *names->buckets);
    for (size_t i = 0; i < old_count; i++) {
        for (Name *name = old[i], *chain; name; name = chain) {
            chain = name->chain;
            size_t bucket = hash_text(name->text, name->size) & (names->bucket_count - 1);
            name->chain = names->buckets[bucket];
            names->buckets[bucket] = name;
        }
    }
}

static Name *intern(Names *names, const char *text, size_t size) {
    if (names->count >= names->bucket_count) grow_names(names);
    size_t bucket = hash_text(text, size) & (names->bucket_count - 1);
    for (Name *name = names->buckets[bucket]; name; name = name->chain)
        if (name->size == size && memcmp(name->text, text, size) == 0) return name;
    Name *name = arena_alloc(&names->compiler->arena, sizeof *name);
    *name = (Name){.text = arena_copy(&names->compiler->arena, text, size),
                   .size = size,
                   .token = TOKEN_NAME,
                   .type = TYPE_NONE,
                   .chain = names->buckets[bucket]};
    names->buckets[bucket] = name;
    names->count++;
    return name;
}

const Name *name_intern(Names *names, const char *text, size_t size) {
    return intern(names, text, size);
}

void names_open(Names *names, Compiler *compiler) {
    *names = (Names){.compiler = compiler};
    for (int kind = 0; kind < TOKEN_COUNT; kind++) {
        const TokenInfo *info = &token_info[kind];
        if (info->class == 'K' || info->class == 'W')
            intern(names, info->spelling, strlen(info->spelling))->token = (uint8_t)kind;
    }
    for (int type = 0; type < TYPE_COUNT; type++) {
        Name *name = intern(names, type_info[type].name, strlen(type_info[type].name));
        name->token = TOKEN_TYPE;
        name->type = (Type)type;
    }
    for (int kind = TOKEN_COUNT; kind-- > 0;) {
        const TokenInfo *info = &token_info[kind];
        if (info->class == 'P' || info->class == 'O')
            names->punctuation[(unsigned char)info->spelling[0]] = (uint8_t)kind;
    }
}

/* ---- tokens ---- */

typedef struct Lexer {
    Names *names;
    Compiler *compiler;
    const char *text;
    uint32_t size, at;
    locale_t
        locale; /* numbers are read as the C locale writes them, whatever the trainer has set */
    Tokens tokens;
} Lexer;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static char peek(const Lexer *l, uint32_t ahead) {
    return l->at + ahead < l->size ? l->text[l->at + ahead] : 0;
}

static Range range_from(const Lexer *l, uint32_t begin) {
    return (Range){l->tokens.file, begin, l->at};
}

static Token *add(Lexer *l, TokenKind kind, uint32_t begin, bool newline) {
    Tokens *t = &l->tokens;
    t->list = arena_grow(&l->compiler->arena, t->list, t->count, &t->capacity, sizeof *t->list);
    Token *token = &t->list[t->count++];
    *token = (Token){.kind = (uint8_t)kind, .newline = newline, .begin = begin, .end = l->at};
    return token;
}

static void bad_number(Lexer *l, Token *token, const char *why) {
    token->kind = TOKEN_ERROR;
    Range range = {l->tokens.file, token->begin, token->end};
    uint32_t shown = token->end - token->begin < 40 ? token->end - token->begin : 40;
    const char *text = arena_copy(&l->compiler->arena, l->text + token->begin, shown);
    diagnose(l->compiler, ERROR_BAD_NUMBER, range, text, why);
}

static void digits(Lexer *l, bool hex) {
    while (hex ? is_hex(peek(l, 0)) : is_digit(peek(l, 0))) l->at++;
}

/* 12  0.5  1e-8  0xff  0x1.8p-3 */
static void number(Lexer *l, bool newline) {
    uint32_t begin = l->at;
    bool hex = peek(l, 0) == '0' && (peek(l, 1) == 'x' || peek(l, 1) == 'X');
    bool is_float = false, is_bad = false;
    if (hex) {
        l->at += 2;
        is_bad = !is_hex(peek(l, 0));
    }
    digits(l, hex);
    if (peek(l, 0) == '.' && (hex ? is_hex(peek(l, 1)) : is_digit(peek(l, 1)))) {
        is_float = true;
        l->at++;
        digits(l, hex);
    }
    char exponent = (char)(peek(l, 0) | 0x20);
    if (exponent == (hex ? 'p' : 'e')) {
        is_float = true;
        l->at++;
        if (peek(l, 0) == '+' || peek(l, 0) == '-') l->at++;
        is_bad |= !is_digit(peek(l, 0));
        digits(l, false);
    }
    bool has_letters = is_letter(peek(l, 0)) || is_digit(peek(l, 0));
    while (is_letter(peek(l, 0)) || is_digit(peek(l, 0))) l->at++;
    Token *token = add(l, is_float ? TOKEN_FLOAT : TOKEN_INTEGER, begin, newline);
    if (l->at - begin > NUMBER_MAX) {
        bad_number(l, token, "it has more than 1000 characters");
    } else if (has_letters) {
        bad_number(l, token, "a number ends before a letter");
        diagnose_help(l->compiler, "numbers look like `12`, `0.5`, `1e-8` or `0xff`");
    } else if (is_bad) {
        bad_number(l, token, "digits are missing");
    } else if (is_float) {
        double value = strtod_l(l->text + begin, NULL, l->locale); /* the text is zero-terminated */
        if (value - value != 0) bad_number(l, token, "it is larger than any f64");
        memcpy(&token->bits, &value, sizeof value);
    } else {
        for (uint32_t i = begin + (hex ? 2 : 0); i < l->at; i++) {
            char c = l->text[i];
            uint64_t digit = is_digit(c) ? (uint64_t)(c - '0') : (uint64_t)((c | 0x20) - 'a' + 10);
            uint64_t base = hex ? 16 : 10;
            if (token->bits > (INT64_MAX - digit) / base) {
                bad_number(l, token, "it does not fit an i64");
                break;
            }
            token->bits = token->bits * base + digit;
        }
    }
}

/* Comments and texts are handed on as C strings. */
static void refuse_zero(Lexer *l, uint32_t begin, uint32_t end) {
    const char *zero = memchr(l->text + begin, 0, end - begin);
    uint32_t at = zero ? (uint32_t)(zero - l->text) : 0;
    if (zero)
        diagnose(l->compiler, ERROR_UNEXPECTED_CHARACTER, (Range){l->tokens.file, at, at + 1},
                 "the byte 0x00");
}

static void string(Lexer *l, bool newline) {
    uint32_t begin = l->at++;
    while (peek(l, 0) != '"' && peek(l, 0) != '\n' && l->at < l->size) l->at++;
    bool closed = peek(l, 0) == '"';
    l->at += closed;
    add(l, closed ? TOKEN_STRING : TOKEN_ERROR, begin, newline);
    if (!closed) diagnose(l->compiler, ERROR_UNCLOSED_STRING, range_from(l, begin));
    refuse_zero(l, begin, l->at);
}

static const struct {
    const char *text, *help;
} hints[] = {
    {"&&", "write `and`"},
    {"||", "write `or`"},
    {"&", "write `and` for bool, `bit_and(a, b)` for integers"},
    {"|", "write `or` for bool, `bit_or(a, b)` for integers"},
    {"^", "write `**` for a power, `bit_xor(a, b)` for integers"},
    {"!", "write `not`"},
    {"~", "write `not` for bool"},
    {";", "a statement ends at the end of its line"},
    {"@", "there is no matrix product: write `sum[k](x * w)`"},
    {"?", "write `if c then a else b`"},
};

/* Looks from the first spelling with that first character on, as half of all tokens come here. */
static const char *punctuation_at(const Lexer *l, TokenKind *kind) {
    const int first = l->names->punctuation[(unsigned char)peek(l, 0)];
    for (int k = first; first && k < TOKEN_COUNT; k++) {
        const TokenInfo *info = &token_info[k];
        bool candidate = info->class == 'P' || info->class == 'O';
        if (candidate && strncmp(info->spelling, l->text + l->at, strlen(info->spelling)) == 0) {
            *kind = (TokenKind)k;
            return info->spelling;
        }
    }
    return NULL;
}

/* A run of characters that begin no token is one error. */
static void unexpected(Lexer *l, bool newline) {
    uint32_t begin = l->at;
    TokenKind kind;
    do {
        size_t length = utf8_length(l->text + l->at, l->size - l->at);
        l->at += length ? (uint32_t)length : 1;
    } while (l->at < l->size && (unsigned char)peek(l, 0) > ' ' && !is_letter(peek(l, 0)) &&
             !is_digit(peek(l, 0)) && !punctuation_at(l, &kind) && peek(l, 0) != '"' &&
             peek(l, 0) != '#');
    add(l, TOKEN_ERROR, begin, newline);
    size_t size = l->at - begin;
    Arena *arena = &l->compiler->arena;
    bool readable = (unsigned char)l->text[begin] > ' ' && utf8_length(l->text + begin, size);
    const char *text = arena_copy(arena, l->text + begin, size < 40 ? size : 40);
    diagnose(l->compiler, ERROR_UNEXPECTED_CHARACTER, range_from(l, begin),
             readable ? arena_printf(arena, "`%s`", text)
                      : arena_printf(arena, "the byte 0x%02x", (unsigned char)l->text[begin]));
    for (size_t i = 0; i < COUNT(hints); i++)
        if (strcmp(hints[i].text, text) == 0) diagnose_help(l->compiler, "%s", hints[i].help);
}

static void token(Lexer *l, bool newline) {
    uint32_t begin = l->at;
    char c = peek(l, 0);
    TokenKind kind;
    const char *spelling;
    if (is_letter(c)) {
        while (is_letter(peek(l, 0)) || is_digit(peek(l, 0))) l->at++;
        const Name *name = name_intern(l->names, l->text + begin, l->at - begin);
        add(l, (TokenKind)name->token, begin, newline)->name = name;
    } else if (is_digit(c)) {
        number(l, newline);
    } else if (c == '"') {
        string(l, newline);
    } else if ((spelling = punctuation_at(l, &kind)) != NULL) {
        l->at += (uint32_t)strlen(spelling);
        add(l, kind, begin, newline);
    } else {
        unexpected(l, newline);
    }
}

static void comment(Lexer *l) {
    uint32_t begin = l->at;
    while (l->at < l->size && l->text[l->at] != '\n') l->at++;
    uint32_t end = l->at;
    while (end > begin && (unsigned char)l->text[end - 1] <= ' ') end--;
    refuse_zero(l, begin, end);
    Tokens *t = &l->tokens;
    t->comments = arena_grow(&l->compiler->arena, t->comments, t->comment_count,
                             &t->comment_capacity, sizeof *t->comments);
    t->comments[t->comment_count++] = (Comment){begin, end, (uint32_t)t->count};
}

Tokens lex(Names *names, uint32_t file) {
    const Source *source = &names->compiler->sources[file];
    Lexer l = {.names = names,
               .compiler = names->compiler,
               .text = source->text,
               .size = (uint32_t)source->size,
               .tokens = {.file = file}};
    if (source->size > FILE_MAX) {
        diagnose(l.compiler, ERROR_FILE_TOO_LARGE, (Range){file, 0, 0},
                 (unsigned long long)source->size, (unsigned long long)FILE_MAX);
        l.size = 0;
    }
    l.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!l.locale) compiler_fail(l.compiler, LS_ERROR_MEMORY, "out of memory for a locale");
    if (l.size >= 3 && memcmp(l.text, "\xef\xbb\xbf", 3) == 0) l.at = 3; /* a byte order mark */
    bool newline = true;
    while (l.at < l.size && !diagnostics_are_full(l.compiler)) {
        char c = l.text[l.at];
        if (c == '\n' || c == ' ' || c == '\t' || c == '\r') {
            newline |= c == '\n';
            l.at++;
        } else if (c == '#') {
            comment(&l);
        } else {
            token(&l, newline);
            newline = false;
        }
    }
    add(&l, TOKEN_END, l.at, true);
    freelocale(l.locale);
    return l.tokens;
}
