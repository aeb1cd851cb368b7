/* library.c: the device functions a text uses, and no others.
 *
 * Of the pieces of target.h a function, use or choice is kept when something kept uses what it
 * defines, a macro when its name is used, an #undef with its macro, other code always; comments
 * stay with what follows them. Include guards, and the file's own comment above them, are left out.
 * So generated text shows all it is made of, and the toolchains read little. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"

/* What is kept of a library for one text. */
typedef struct Kept {
    const Library *library;
    bool *kept;      /* by piece */
    uint16_t *queue; /* those kept, whose needs are still to be looked at from `next` on */
    size_t next, count;
} Kept;

static void keep(Kept *k, size_t piece) {
    if (k->kept[piece]) return;
    k->kept[piece] = true;
    k->queue[k->count++] = (uint16_t)piece;
}

static void keep_used(Kept *k, const char *text, size_t size) {
    for (const char *at = text, *end = at + size; at < end;) {
        const char *comment_end = strncmp(at, "/*", 2) == 0 ? strstr(at, "*/") : NULL;
        if (comment_end) { /* which quotes a source's names */
            at = comment_end + 2;
            continue;
        }
        const Word word = library_word_at(at);
        const Piece *piece = word.size ? library_find(k->library, word) : NULL;
        if (piece) keep(k, (size_t)(piece - k->library->pieces));
        at += word.size ? word.size : 1;
    }
}

/* `code` may use macros that define functions: those it expands to count as used too. */
static void keep_expansions(Kept *k, Arena *arena, const char *code) {
    for (const char *line = code; *line; line = library_line_end(line)) {
        if (strncmp(line, "LS_", 3) != 0) continue;
        const Word name = library_word_at(line);
        const Piece *macro = library_find(k->library, name);
        if (!macro || line[name.size] != '(') continue;
        Text expanded = text_open(arena);
        library_expand(k->library, &expanded, macro, line + name.size + 1);
        keep_used(k, expanded.data, expanded.size);
    }
}

static bool is_kept(const Kept *k, size_t number) {
    const Piece *piece = &k->library->pieces[number];
    if (piece->kind != PIECE_UNDEF) return k->kept[number];
    const char *name = k->library->files[piece->file] + piece->name;
    const Piece *macro = library_find(k->library, (Word){name, piece->name_size});
    return macro && k->kept[macro - k->library->pieces];
}

void library_add_used(Compiler *compiler, Text *out, const Target *target, const char *code) {
    const Library *library = library_tables;
    while (library < library_tables + library_table_count &&
           strcmp(library->name, target->name) != 0)
        library++;
    if (library == library_tables + library_table_count)
        bug(compiler, "there is no library for %s", target->name);
    Kept k = {.library = library};
    k.kept = arena_alloc(out->arena, library->piece_count + 1);
    k.queue = arena_alloc(out->arena, (library->piece_count + 1) * sizeof *k.queue);
    keep_used(&k, code, strlen(code));
    keep_expansions(&k, out->arena, code);
    for (size_t i = 0; i < library->piece_count; i++)
        if (library->pieces[i].kind == PIECE_OTHER) keep(&k, i);
    for (; k.next < k.count; k.next++) {
        const Piece *piece = &library->pieces[k.queue[k.next]];
        for (size_t i = 0; i < piece->need_count; i++)
            keep(&k, library->needs[piece->need_first + i]);
    }
    for (size_t i = 0; i < library->piece_count; i++) {
        const Piece *piece = &library->pieces[i];
        if (!is_kept(&k, i)) continue;
        if (piece->blank_before || piece->text != piece->code) text_puts(out, "\n");
        text_add(out, library->files[piece->file] + piece->text, piece->end - piece->text);
    }
    text_puts(out, "\n");
}
