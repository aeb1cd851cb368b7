/* reader.c: the words of a form's text, line by line: what the readers of the value IR and of plans
 * have in common. */
#include "base/base.h"

#include <ctype.h>
#include <string.h>

TextReader reader_open(Compiler *compiler, Arena *arena, uint32_t source) {
    const char *text = compiler->sources[source].text;
    return (TextReader){compiler, arena, source, text, text};
}

Range reader_range(const TextReader *r, const char *from, size_t size) {
    return (Range){r->file, (uint32_t)(from - r->start),
                   (uint32_t)(from - r->start + (ptrdiff_t)size)};
}

static void skip_blanks(TextReader *r) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
    if (*r->at == '#')
        while (*r->at && *r->at != '\n') r->at++;
}

TextWord reader_peek(TextReader *r) {
    skip_blanks(r);
    const char *end = r->at;
    while (isalnum((unsigned char)*end) || (*end && strchr("_.+-'", *end))) end++;
    if (end == r->at && *end && *end != '\n') end++;
    return (TextWord){r->at, (size_t)(end - r->at)};
}

TextWord reader_take(TextReader *r) {
    TextWord word = reader_peek(r);
    r->at += word.size;
    return word;
}

bool word_is(TextWord word, const char *text) {
    return strlen(text) == word.size && memcmp(word.text, text, word.size) == 0;
}

bool reader_fail(TextReader *r, TextWord found, const char *expected) {
    const Range range = reader_range(r, found.text, found.size ? found.size : 1);
    const char *spelling = found.size
                               ? arena_printf(r->arena, "'%.*s'", (int)found.size, found.text)
                               : "the end of the line";
    diagnose(r->compiler, ERROR_EXPECTED, range, expected, spelling);
    return false;
}

bool reader_accept(TextReader *r, const char *text) {
    if (!word_is(reader_peek(r), text)) return false;
    reader_take(r);
    return true;
}

bool reader_expect(TextReader *r, const char *text) {
    TextWord word = reader_take(r);
    return word_is(word, text) || reader_fail(r, word, arena_printf(r->arena, "'%s'", text));
}

bool reader_name(TextReader *r, const char *what, const char **name) {
    TextWord word = reader_take(r);
    if (word.size == 0 || !(isalpha((unsigned char)*word.text) || *word.text == '_'))
        return reader_fail(r, word, what);
    *name = arena_copy(r->arena, word.text, word.size);
    return true;
}

bool reader_integer(TextReader *r, uint64_t max, const char *what, int64_t *number) {
    TextWord word = reader_take(r);
    const char *text = arena_copy(r->arena, word.text, word.size);
    uint64_t magnitude = 0;
    bool negative = *text == '-', digits = false;
    for (const char *c = text + negative; *c; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (*c < '0' || *c > '9' || magnitude > (max - digit) / 10)
            return reader_fail(r, word, what);
        magnitude = magnitude * 10 + digit;
        digits = true;
    }
    if (!digits) return reader_fail(r, word, what);
    *number = (int64_t)(negative ? 0 - magnitude : magnitude);
    return true;
}

bool reader_end_line(TextReader *r) {
    return reader_peek(r).size == 0 || reader_fail(r, reader_peek(r), "the end of the line");
}

bool reader_next_line(TextReader *r) {
    while (*r->at && *r->at != '\n') r->at++;
    return *r->at && *++r->at;
}
