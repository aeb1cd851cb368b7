/* library_words.c: finding the piece of the library that defines a word, and expanding its macros;
 * for the library and for the tool that reads it. */
#include <ctype.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"

enum { PARAMETERS_MAX = 16, EXPANSIONS_MAX = 8 };

static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
static bool same(Word a, Word b) {
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

Word library_word_at(const char *text) {
    size_t size = 0;
    while (in_word(text[size])) size++;
    return (Word){text, size};
}

const char *library_line_end(const char *at) {
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

size_t library_slot(const Library *library, Word word) {
    size_t hash = 5381;
    for (size_t i = 0; i < word.size; i++) hash = hash * 33 ^ (unsigned char)word.text[i];
    hash &= library->defined_count - 1;
    for (;; hash = (hash + 1) & (library->defined_count - 1)) {
        const DefinedWord *there = &library->defined[hash];
        if (!there->piece || same((Word){library->words + there->text, there->size}, word))
            return hash;
    }
}

const Piece *library_find(const Library *library, Word word) {
    const uint16_t found = library->defined[library_slot(library, word)].piece;
    return found ? &library->pieces[found - 1] : NULL;
}

/* The arguments or parameters between brackets; `at` is behind the opening one. */
static size_t read_list(const char *at, Word *list) {
    size_t count = 0;
    int depth = 0;
    while (*at == ' ') at++;
    const char *begin = at;
    for (; *at; at++) {
        bool end = *at == ')' && depth == 0;
        if (end || (*at == ',' && depth == 0)) {
            const char *last = at;
            while (last > begin && isspace((unsigned char)last[-1])) last--;
            if (count < PARAMETERS_MAX) list[count++] = (Word){begin, (size_t)(last - begin)};
            if (end) break;
            begin = at + 1;
            while (isspace((unsigned char)*begin)) begin++;
        }
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
    }
    return count;
}

static void expand(const Library *library, Text *out, const Piece *macro, const char *arguments,
                   int nesting);

/* Copies a macro's body with its parameters replaced and ## gone, nested uses expanded after it. */
static void expand_body(const Library *library, Text *out, const char *body, const char *end,
                        const Word *parameters, const Word *arguments, size_t count, int nesting) {
    Text once = text_open(out->arena);
    for (const char *at = body; at < end;) {
        if (at[0] == '#' && at[1] == '#') {
            while (once.size && once.data[once.size - 1] == ' ') once.data[--once.size] = 0;
            for (at += 2; *at == ' ';) at++;
        } else if (in_word(*at)) {
            Word word = library_word_at(at), put = word;
            for (size_t i = 0; i < count; i++)
                if (same(word, parameters[i])) put = arguments[i];
            text_add(&once, put.text, put.size);
            at += word.size;
        } else {
            text_add(&once, *at == '\\' ? " " : at, 1);
            at++;
        }
    }
    text_add(out, once.data, once.size);
    for (const char *at = once.data; *at;) {
        Word word = library_word_at(at);
        const Piece *nested = word.size ? library_find(library, word) : NULL;
        at += word.size ? word.size : 1;
        if (nested && nested->kind == PIECE_MACRO && *at == '(')
            expand(library, out, nested, at + 1, nesting + 1);
    }
}

static void expand(const Library *library, Text *out, const Piece *macro, const char *arguments,
                   int nesting) {
    Word parameter_list[PARAMETERS_MAX], argument_list[PARAMETERS_MAX];
    const char *file = library->files[macro->file], *body = file + macro->name + macro->name_size;
    if (nesting > EXPANSIONS_MAX || *body != '(') return;
    size_t count = read_list(body + 1, parameter_list);
    if (read_list(arguments, argument_list) != count) return;
    body = strchr(body, ')') + 1;
    expand_body(library, out, body, file + macro->end, parameter_list, argument_list, count,
                nesting);
}

void library_expand(const Library *library, Text *out, const Piece *macro, const char *arguments) {
    expand(library, out, macro, arguments, 0);
}
