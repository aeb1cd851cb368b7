/* captured_pool.c: the identifiers of generated text. See captured.h. */
#include "captured.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

#include "batch.h"

bool in_words(const Words *words, const char *word, size_t size) {
    for (size_t i = 0; i < words->count; i++)
        if (strncmp(words->list[i], word, size) == 0 && words->list[i][size] == 0) return true;
    return false;
}

void add_word(Words *words, const char *word, size_t size) {
    if (in_words(words, word, size)) return;
    if (words->count == words->capacity) {
        words->capacity = words->capacity ? 2 * words->capacity : 256;
        char **list = must_allocate(words->capacity * sizeof *list);
        if (words->count) memcpy(list, words->list, words->count * sizeof *list);
        free(words->list);
        words->list = list;
    }
    words->list[words->count] = must_allocate(size + 1);
    memcpy(words->list[words->count++], word, size);
}

bool begins(const char *word, const char *with) {
    return strncmp(word, with, strlen(with)) == 0;
}

/* Which of many alike are left out: what is made of stems, which choose_names makes of the names of
 * each program; device functions, which are all of one form; high numbers. */
static bool is_another(const char *word, size_t size) {
    size_t digits = 0, last = size;
    while (digits < size && isdigit((unsigned char)word[size - 1 - digits])) digits++;
    while (last && word[last - 1] != '_') last--;
    const unsigned letters = (unsigned)(word[0] + word[size - 1] + (int)size);
    for (size_t k = 0; last > 1 && names_suffix(k); k++)
        if (strcspn(names_suffix(k), " ") == size - last &&
            memcmp(names_suffix(k), word + last, size - last) == 0)
            return letters % 16 != 0;
    for (size_t i = 0; i + 8 < size; i++)
        if (begins(word + i, "_stride_")) return letters % 16 != 0;
    if (begins(word, "ls_") || begins(word, "LS_") || *word == '_' || begins(word, "size_") ||
        begins(word, "lockstep_"))
        return letters % 16 != 0;
    if (digits && digits < size && (digits > 1 || word[size - 1] > '3'))
        return word[size - digits - 1] == '_' || size - digits == 1;
    return digits && digits < size && letters % 4 != 0;
}

/* Whether it was seen before: most are. */
static bool is_new(const Token *token) {
    enum { SEEN = 1 << 17 };
    static char *seen[SEEN];
    size_t hash = 5381;
    for (size_t i = 0; i < token->size; i++) hash = hash * 33 ^ (unsigned char)token->text[i];
    for (hash %= SEEN; seen[hash]; hash = (hash + 1) % SEEN)
        if (strncmp(seen[hash], token->text, token->size) == 0 && !seen[hash][token->size])
            return false;
    seen[hash] = must_allocate(token->size + 1);
    memcpy(seen[hash], token->text, token->size);
    return true;
}

static void collect(Words *words, const char *text) {
    Token token;
    while (token_next(&text, &token))
        if (token.name && is_new(&token) && !is_another(token.text, token.size))
            add_word(words, token.text, token.size);
}

static void collect_image(Words *words, const ls_image *image) {
    for (uint32_t p = 0; p < image->part_count; p++) collect_image(words, image->parts[p].image);
    for (uint32_t v = 0; !image->part_count && v < image->variant_count; v++)
        collect(words, image->variants[v].source);
}

static void collect_file(Words *words, const char *path, size_t number, PoolVisit *visit,
                         void *user) {
    static const ls_compile_options options = {.import_path_count = 0};
    ls_compilation *c = NULL;
    if (ls_compile_file(path, &options, &c) == LS_OK)
        for (size_t s = 0; s < ls_compilation_own_step_count(c); s++)
            for (size_t t = 0; t < TARGETS; t++) {
                const ls_image *image;
                if (ls_compilation_image(c, s, captured_targets[t], &image) != LS_OK) continue;
                collect_image(words, image);
                visit(user, number, image);
            }
    ls_compilation_destroy(c);
}

/* Whether the language takes it for a name. */
bool is_legal(const char *word) {
    static const ls_compile_options options = {.import_path_count = 0};
    char text[1000];
    ls_compilation *c = NULL;
    const int size =
        snprintf(text, sizeof text, "step q%s[%s](q: f32[%s], out w: f32[%s]) {\n w = q\n}\n", word,
                 word, word, word);
    const bool good = ls_compile_text("legal", text, (size_t)size, &options, &c) == LS_OK;
    ls_compilation_destroy(c);
    return good;
}

Words make_pool(char *const *paths, size_t path_count, PoolVisit *visit, void *user) {
    Words words = {NULL, 0, 0}, pool = {NULL, 0, 0};
    for (size_t i = 0; i < path_count; i++) collect_file(&words, paths[i], i, visit, user);
    for (size_t i = 0; names_word(i); i++)
        add_word(&words, names_word(i), strcspn(names_word(i), " "));
    for (size_t i = 0; i < words.count; i++)
        if ((words.list[i][1] && words.list[i][2]) || names_is_plain(words.list[i]))
            if (is_legal(words.list[i])) add_word(&pool, words.list[i], strlen(words.list[i]));
    return pool;
}

/* Whether a name has no suffix: others are made of stems. */
bool is_fixed(const char *word) {
    const char *last = strrchr(word, '_');
    if (last && isdigit((unsigned char)last[1])) return false;
    for (size_t k = 0; last && names_suffix(k); k++)
        if (strcspn(names_suffix(k), " ") == strlen(last + 1) && begins(names_suffix(k), last + 1))
            return false;
    return true;
}
