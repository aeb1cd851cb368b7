/* captured_words.c: see captured.h. */
#include "captured.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

size_t word_size(const char *text) {
    size_t size = 0;
    if (!isalpha((unsigned char)*text) && *text != '_') return 0;
    while (isalnum((unsigned char)text[size]) || text[size] == '_') size++;
    return size;
}

size_t number_size(const char *text) {
    size_t size = 0;
    if (!isdigit((unsigned char)*text)) return 0;
    while (isalnum((unsigned char)text[size]) || text[size] == '.' || text[size] == '_' ||
           (size && strchr("+-", text[size]) && text[size] && strchr("eEpP", text[size - 1])))
        size++;
    return size;
}

static bool next(const char **text, Token *token) {
    const size_t word = word_size(*text), number = number_size(*text);
    if (!**text) return false;
    *token = (Token){*text, word ? word : number ? number : 1, word != 0};
    *text += token->size;
    return true;
}

bool token_next(const char **text, Token *token) {
    for (;;) {
        while (isspace((unsigned char)**text)) (*text)++;
        if (strncmp(*text, "/*", 2) != 0) return next(text, token);
        const char *end = strstr(*text, "*/");
        if (!end) return false;
        *text = end + 2;
    }
}

bool step_token_next(const char **text, Token *token) {
    for (;;) {
        while (isspace((unsigned char)**text)) (*text)++;
        if (**text == '"') {
            const char *end = strchr(*text + 1, '"');
            if (!end) return false;
            *text = end + 1;
        } else if (**text == '#') {
            *text += strcspn(*text, "\n");
        } else {
            return next(text, token);
        }
    }
}

/* ---- names that go with each other ---- */

enum { PAIRS_MAX = 4096 };

typedef struct Pairs {
    struct Pair {
        const char *plain, *nasty;
        size_t plain_size, nasty_size;
    } list[PAIRS_MAX];
    size_t count;
} Pairs;

static bool same(const char *a, size_t a_size, const char *b, size_t b_size) {
    return a_size == b_size && memcmp(a, b, a_size) == 0;
}

/* Loops over i have no name of the source in them, which may be i too: see names.c. */
static bool pair(Pairs *pairs, const Token *plain, const Token *nasty) {
    if (plain->size == 1 && nasty->size == 1 && *plain->text == 'i' && *nasty->text == 'i')
        return true;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct Pair *known = &pairs->list[i];
        const bool left = same(known->plain, known->plain_size, plain->text, plain->size);
        const bool right = same(known->nasty, known->nasty_size, nasty->text, nasty->size);
        if (left && right) return true;
        if (left || right) return false;
    }
    if (pairs->count < PAIRS_MAX)
        pairs->list[pairs->count++] =
            (struct Pair){plain->text, nasty->text, plain->size, nasty->size};
    return true;
}

/* Names that no function declares: of the prelude and the device functions, and macros. A step's
 * name is in that of its arguments. */
static bool is_global(const Token *token) {
    static const char end[] = "_arguments";
    const size_t size = sizeof end - 1;
    if (token->size > size && memcmp(token->text + token->size - size, end, size) == 0)
        return false;
    return strncmp(token->text, "ls_", 3) == 0 || strncmp(token->text, "LS_", 3) == 0 ||
           strncmp(token->text, "__", 2) == 0;
}

static bool differ(const char *plain, const char *nasty) {
    printf("  %.*s\n  %.*s\n", (int)strcspn(plain, "\n"), plain, (int)strcspn(nasty, "\n"), nasty);
    return false;
}

/* Without braces: those of a branch or a loop of one statement are there where it is long. */
static bool next_but_braces(const char **text, Token *token) {
    bool more;
    do more = token_next(text, token);
    while (more && strchr("{}", *token->text));
    return more;
}

bool same_but_for_names(const char *plain, const char *nasty) {
    static Pairs locals, members;
    Token a = {"", 0, false}, b;
    locals.count = members.count = 0;
    for (;;) {
        const char *before = a.text;
        const bool member = *before == '.' || (*before == '>' && before[-1] == '-');
        const char *begin = plain;
        const bool more = next_but_braces(&plain, &a);
        if (more != next_but_braces(&nasty, &b)) return differ(begin, nasty);
        if (!more) return true;
        if (a.name && memchr(begin, '\n', (size_t)(a.text - begin)) && a.text[-1] == '\n')
            locals.count = members.count = 0; /* a declaration of the file begins */
        if (a.name != b.name) return differ(a.text, b.text);
        if (!a.name || is_global(&a) || is_global(&b)) {
            if (!same(a.text, a.size, b.text, b.size)) return differ(a.text, b.text);
        } else if (!pair(member ? &members : &locals, &a, &b)) {
            return differ(a.text, b.text);
        }
    }
}
