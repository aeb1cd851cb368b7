/* fold.c: identical code folding. The variants of a step that is built ahead of time have phases in
 * common: those of one kernel and of two, say, often differ in the kernels alone. A structure or a
 * function that an earlier variant has, but for the name, is left out, and the earlier one's name
 * stands for its own. */
#include <ctype.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

typedef struct Rename {
    const char *from, *to;
} Rename;

typedef struct Fold {
    Emitter *e;
    Rename *renames; /* of the variant at hand */
    size_t count, capacity;
} Fold;

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static size_t word_size(const char *at) {
    size_t size = 0;
    while (in_word(at[size])) size++;
    return size;
}

static bool is_word(const char *at, size_t size, const char *word) {
    return strlen(word) == size && strncmp(at, word, size) == 0;
}

static const char *skip_comment(const char *text) {
    return strncmp(text, "/*", 2) == 0 ? strstr(text, "*/") + 2 : text;
}

/* To behind the line on which the braces of the first definition close. */
static size_t definition_size(const char *text) {
    size_t depth = 0;
    for (const char *at = text; *at; at++) {
        at = skip_comment(at);
        depth += *at == '{';
        if (*at == '}' && --depth == 0) {
            const char *end = strchr(at, '\n');
            return end ? (size_t)(end + 1 - text) : strlen(text);
        }
    }
    return strlen(text);
}

/* The text with other words in the place of those that are renamed. */
static const char *renamed(const Fold *fold, const char *text, size_t size) {
    Text out = text_open(fold->e->arena);
    for (size_t at = 0; at < size;) {
        const size_t word = word_size(text + at);
        const char *to = NULL;
        for (size_t i = 0; word && i < fold->count && !to; i++)
            if (is_word(text + at, word, fold->renames[i].from)) to = fold->renames[i].to;
        if (to)
            text_puts(&out, to);
        else
            text_add(&out, text + at, word ? word : 1);
        at += word ? word : 1;
    }
    return out.data;
}

/* The first name with the prefix outside a comment: the one that is defined. */
static const char *defined_name(const Fold *fold, const char *text) {
    const char *prefix = fold->e->prefix;
    while (*text) {
        const size_t word = word_size(text);
        if (text != skip_comment(text)) {
            text = skip_comment(text);
        } else if (word > strlen(prefix) && strncmp(text, prefix, strlen(prefix)) == 0) {
            return arena_copy(fold->e->arena, text, word);
        } else {
            text += word ? word : 1;
        }
    }
    return NULL;
}

static void add_rename(Fold *fold, const char *from, const char *to) {
    fold->renames = arena_grow(fold->e->arena, fold->renames, fold->count, &fold->capacity,
                               sizeof *fold->renames);
    fold->renames[fold->count++] = (Rename){from, to};
}

static bool find_equal(Fold *fold, const char *name, const char *key) {
    for (size_t i = 0; i < fold->e->folded_count; i++)
        if (strcmp(fold->e->folded[i].text, key) == 0) {
            add_rename(fold, name, fold->e->folded[i].name);
            return true;
        }
    return false;
}

static void add_definition(Fold *fold, Text *out, const char *text) {
    Emitter *e = fold->e;
    const char *name = defined_name(fold, text);
    if (name) {
        const Fold own = {e, &(Rename){name, "@"}, 1, 1};
        const char *key = renamed(&own, text, strlen(text));
        if (find_equal(fold, name, key)) return;
        e->folded = arena_grow(e->arena, e->folded, e->folded_count, &e->folded_capacity,
                               sizeof *e->folded);
        e->folded[e->folded_count++] = (Folded){name, key};
    }
    text_puts(out, text);
}

const char *emit_fold(Emitter *e, const char *definitions, const char *kernels) {
    Fold fold = {.e = e};
    Text out = text_open(e->arena);
    while (*definitions) {
        const size_t size = definition_size(definitions);
        add_definition(&fold, &out, renamed(&fold, definitions, size));
        definitions += size;
    }
    text_puts(&out, renamed(&fold, kernels, strlen(kernels)));
    return out.data;
}
