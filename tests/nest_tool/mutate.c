/* mutate.c: nests with one edit or three: a line dropped, doubled, moved or indented, a number or
 * a word changed, words swapped, a byte changed. Whatever they are, reading refuses them, the
 * checker does, or they are nests: nothing crashes, and what is read prints and reads back. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

#include "nest_tool.h"

enum { TEXT_MAX = 1 << 17 };
typedef struct Mutant {
    char *text; /* TEXT_MAX bytes */
    uint64_t state;
} Mutant;

static size_t pick(Mutant *m, size_t count) {
    m->state += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64 */
    uint64_t z = m->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return count ? (size_t)((z ^ z >> 31) % count) : 0;
}

/* Replaces `size` bytes at `at`. */
static void replace(Mutant *m, size_t at, size_t size, const char *by, size_t by_size) {
    const size_t length = strlen(m->text);
    if (length + by_size + 1 >= TEXT_MAX) return;
    memmove(m->text + at + by_size, m->text + at + size, length - at - size + 1);
    memcpy(m->text + at, by, by_size);
}

typedef struct Span {
    size_t at, size;
} Span;

static Span some_line(Mutant *m) {
    size_t at = pick(m, strlen(m->text));
    while (at && m->text[at - 1] != '\n') at--;
    const size_t size = strcspn(m->text + at, "\n");
    return (Span){at, size + (m->text[at + size] == '\n')};
}

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static Span some_word(Mutant *m) {
    Span word = {pick(m, strlen(m->text)), 0};
    while (m->text[word.at] && !in_word(m->text[word.at])) word.at++;
    while (word.at && in_word(m->text[word.at - 1])) word.at--;
    while (m->text[word.at] && in_word(m->text[word.at + word.size])) word.size++;
    return word;
}

/* A number, a word that begins a line, or a name. */
static int class_of(const Mutant *m, Span word) {
    if (isdigit((unsigned char)m->text[word.at])) return 0;
    return word.at > 1 && m->text[word.at - 1] == ' ' && strchr(" \n", m->text[word.at - 2]) ? 1
                                                                                             : 2;
}

static char *copy(const Mutant *m, Span span) {
    char *text = calloc(1, span.size + 1);
    if (!text) exit(2);
    return memcpy(text, m->text + span.at, span.size);
}

static void edit(Mutant *m) {
    static const char *const pieces[] = {
        "0",    "1",    "-1",    "16",     "17",     "1024",   "9007199254740993",
        "0.5",  "inf",  "nan",   "true",   "1e99",   "bf16",   "i64",
        "grid", "warp", "lane",  "serial", "else",   "if",     "[",
        "]",    "(",    "{",     "sum",    "exp(",   "argmax", "push",
        "load", "loop", "limit", "vector", "global", "shared", "*",
        " - "};
    const Span line = some_line(m), other = some_line(m), word = some_word(m);
    Span more = some_word(m);
    for (int tries = 0; tries < 20 && class_of(m, word) != class_of(m, more); tries++)
        more = some_word(m);
    char *line_text = copy(m, line), *word_text = copy(m, word);
    const char *piece = pieces[pick(m, COUNT(pieces))];
    const char byte = (char)(1 + pick(m, 255));
    switch (pick(m, 20)) {
    case 0: replace(m, line.at, line.size, "", 0); break;
    case 1: replace(m, other.at, 0, line_text, line.size); break;
    case 2: replace(m, line.at, 0, "  ", 2); break;
    case 3: replace(m, line.at, line.size > 2 ? 2 : 0, "", 0); break;
    case 4: replace(m, word.at, word.size, piece, strlen(piece)); break;
    case 5: replace(m, other.at, other.size, line_text, line.size); break;
    case 6: replace(m, word.at, 0, piece, strlen(piece)); break;
    case 7: replace(m, word.at, word.size, "", 0); break;
    case 8: replace(m, word.at, word.size ? 1 : 0, &byte, 1); break;
    default: replace(m, more.at, more.size, word_text, word.size); break;
    }
    free(line_text);
    free(word_text);
}

typedef enum Outcome { REFUSED, ILLEGAL, LEGAL, BROKEN, OUTCOME_COUNT } Outcome;

static const Nest *read_text(Compiler *compiler, const char *text) {
    const uint32_t file = source_add(compiler, "mutant", text, strlen(text));
    return nest_read(compiler, &compiler->arena, file);
}

static Outcome look(Compiler *compiler, const char *text) {
    Text once = text_open(&compiler->arena), twice = text_open(&compiler->arena);
    const Nest *nest = read_text(compiler, text);
    if (!nest) return compiler->error_count ? REFUSED : BROKEN;
    nest_print(nest, &once);
    const Nest *again = read_text(compiler, once.data);
    if (!again) return BROKEN;
    nest_print(again, &twice);
    if (strcmp(once.data, twice.data) != 0) return BROKEN;
    const char *problem = nest_problem(nest);
    return (problem != NULL) != (nest_problem(again) != NULL) ? BROKEN : problem ? ILLEGAL : LEGAL;
}

static Outcome look_alone(const char *text) {
    static Compiler compiler; /* static: its value is needed after longjmp */
    static Outcome outcome;
    compiler = (Compiler){0};
    arena_open(&compiler.arena, &compiler);
    outcome = BROKEN;
    if (setjmp(compiler.unwind) == 0)
        outcome = look(&compiler, text);
    else
        fprintf(stderr, "%s\n", compiler.failure_message);
    arena_close(&compiler.arena);
    if (outcome == BROKEN) fprintf(stderr, "broken by:\n%s\n", text);
    return outcome;
}

/* Whether it is a nest alone of the text: they begin where a line does with `nest `. */
static const char *next_nest(const char *text) {
    for (const char *at = text; (at = strstr(at, "nest ")); at++)
        if (at == text || at[-1] == '\n') return at;
    return NULL;
}

int mutate(const char *path, const char *text, uint64_t seed, int count) {
    int outcomes[OUTCOME_COUNT] = {0};
    Mutant m = {calloc(1, TEXT_MAX), seed};
    if (!m.text) return 2;
    for (const char *nest = next_nest(text), *end; nest; nest = end) {
        end = next_nest(nest + 1);
        const size_t size = end ? (size_t)(end - nest) : strlen(nest);
        for (int i = 0; i < count && size < TEXT_MAX / 2; i++) {
            memcpy(m.text, nest, size);
            m.text[size] = 0;
            for (size_t edits = pick(&m, 4) ? 1 : 3; edits; edits--) edit(&m);
            outcomes[look_alone(m.text)]++;
        }
    }
    free(m.text);
    printf("%s: %d refused, %d illegal, %d legal, %d broken\n", path, outcomes[REFUSED],
           outcomes[ILLEGAL], outcomes[LEGAL], outcomes[BROKEN]);
    return outcomes[BROKEN] != 0;
}
