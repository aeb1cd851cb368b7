/* library.c: the device functions a text uses, and no others.
 *
 * The headers under templates/ are read as paragraphs (text between blank lines). One that defines
 * functions (LS_FN type name(...)) or a macro is kept when what it defines is used, directly or by a
 * kept one; any other paragraph of code is always kept, one of comment goes with the paragraph under
 * it. Include guards, and the file's own comment above them, are left out. So generated text shows all it
 * is made of and the toolchains read little. */
#include <ctype.h>
#include <string.h>

#include "compiler.h"
#include "plan.h"

typedef struct Word {
    const char *text;
    size_t size;
} Word;

typedef struct Paragraph {
    const char *text;
    size_t size;
    Word *defines;
    size_t define_count, define_capacity;
    bool optional, kept;
} Paragraph;

typedef struct Library {
    Arena *arena;
    Paragraph *paragraphs;
    size_t count, capacity;
    uint32_t *buckets; /* by word: 1 + paragraph that defines it */
    Word *words;
    size_t bucket_count;
} Library;

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t word_hash(Word word) {
    size_t hash = 5381;
    for (size_t i = 0; i < word.size; i++) hash = hash * 33 ^ (unsigned char)word.text[i];
    return hash;
}

static size_t word_slot(const Library *library, Word word) {
    size_t slot = word_hash(word) & (library->bucket_count - 1);
    while (library->buckets[slot] && (library->words[slot].size != word.size ||
                                      memcmp(library->words[slot].text, word.text, word.size) != 0))
        slot = (slot + 1) & (library->bucket_count - 1);
    return slot;
}

static void add_define(Library *library, Paragraph *paragraph, Word word) {
    paragraph->defines = arena_grow(library->arena, paragraph->defines, paragraph->define_count,
                                    &paragraph->define_capacity, sizeof(Word));
    paragraph->defines[paragraph->define_count++] = word;
    paragraph->optional = true;
}

/* What the paragraph defines: the word before the bracket of each LS_FN, the word after each #define. */
static void find_defines(Library *library, Paragraph *paragraph) {
    const char *end = paragraph->text + paragraph->size;
    bool macro = false;
    for (const char *line = paragraph->text; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next + 1 : end;
        const char *at = line;
        if ((size_t)(next - line) > 8 && memcmp(line, "#define ", 8) == 0) {
            at = line + 8;
            const char *begin = at;
            while (at < next && in_word(*at)) at++;
            add_define(library, paragraph, (Word){begin, (size_t)(at - begin)});
            macro = true;
        } else if (!macro && (size_t)(next - line) > 6 && memcmp(line, "LS_FN ", 6) == 0) {
            while (at < next && *at != '(') at++;
            const char *begin = at;
            while (begin > line && in_word(begin[-1])) begin--;
            add_define(library, paragraph, (Word){begin, (size_t)(at - begin)});
        }
        line = next;
    }
    if (paragraph->size > 3 && memcmp(paragraph->text, "#if", 3) == 0) paragraph->optional = false;
}

/* "#ifndef X" and "#define X" with nothing after them, or an "#endif" alone. */
static bool is_guard(const char *text, size_t size) {
    if (size >= 6 && memcmp(text, "#endif", 6) == 0 && !memchr(text, '\n', size)) return true;
    const char *ifndef = strstr(text, "#ifndef LS_"), *define = strstr(text, "\n#define LS_");
    if (!ifndef || !define || ifndef >= text + size || define >= text + size) return false;
    size_t word = strcspn(ifndef + 8, "\n");
    return define == ifndef + 8 + word && text + size == define + 9 + word &&
           memcmp(ifndef + 8, define + 9, word) == 0;
}

static void read_file(Library *library, const char *path) {
    const char *text = embedded_text(path);
    if (!text) bug(library->arena->compiler, "templates/%s is not embedded", path);
    bool comment_waits = false;
    const char *begin = text;
    while (*text) {
        while (*text == '\n') text++;
        if (!comment_waits) begin = text;
        const char *own = text, *end = strstr(text, "\n\n");
        end = end ? end + 1 : text + strlen(text);
        text = end;
        if (own == end) break;
        const char *last = end;
        while (last > own && isspace((unsigned char)last[-1])) last--;
        /* A paragraph that is one comment waits for what it introduces. */
        const char *close = own[0] == '/' && own[1] == '*' ? strstr(own, "*/") : NULL;
        comment_waits = close && close + 2 == last;
        if (comment_waits) continue;
        if (is_guard(own, (size_t)(last - own))) continue;
        library->paragraphs = arena_grow(library->arena, library->paragraphs, library->count,
                                         &library->capacity, sizeof(Paragraph));
        library->paragraphs[library->count] = (Paragraph){.text = begin, .size = (size_t)(end - begin)};
        Paragraph code = {.text = own, .size = (size_t)(end - own)};
        find_defines(library, &code);
        library->paragraphs[library->count].defines = code.defines;
        library->paragraphs[library->count].define_count = code.define_count;
        library->paragraphs[library->count++].optional = code.optional;
    }
}

static void index_words(Library *library) {
    size_t total = 0;
    for (size_t i = 0; i < library->count; i++) total += library->paragraphs[i].define_count;
    library->bucket_count = 64;
    while (library->bucket_count < 2 * total) library->bucket_count *= 2;
    library->buckets = arena_alloc(library->arena, library->bucket_count * sizeof(uint32_t));
    library->words = arena_alloc(library->arena, library->bucket_count * sizeof(Word));
    for (size_t i = 0; i < library->count; i++)
        for (size_t k = 0; k < library->paragraphs[i].define_count; k++) {
            Word word = library->paragraphs[i].defines[k];
            size_t slot = word_slot(library, word);
            library->words[slot] = word;
            library->buckets[slot] = (uint32_t)i + 1;
        }
}

static void keep(Library *library, size_t index);

static void keep_used(Library *library, const char *text, size_t size) {
    for (size_t i = 0; i < size;) {
        if (!in_word(text[i])) {
            i++;
            continue;
        }
        size_t begin = i;
        while (i < size && in_word(text[i])) i++;
        uint32_t found = library->buckets[word_slot(library, (Word){text + begin, i - begin})];
        if (found) keep(library, found - 1);
    }
}

static void keep(Library *library, size_t index) {
    Paragraph *paragraph = &library->paragraphs[index];
    if (paragraph->kept) return;
    paragraph->kept = true;
    keep_used(library, paragraph->text, paragraph->size);
}

void library_add_used(Compiler *compiler, Text *out, const char *const *files, size_t file_count,
                      const char *code) {
    Library library = {.arena = out->arena};
    (void)compiler;
    for (size_t i = 0; i < file_count; i++) read_file(&library, files[i]);
    index_words(&library);
    keep_used(&library, code, strlen(code));
    for (size_t i = 0; i < library.count; i++)
        if (!library.paragraphs[i].optional) keep(&library, i);
    for (size_t i = 0; i < library.count; i++)
        if (library.paragraphs[i].kept) {
            text_add(out, library.paragraphs[i].text, library.paragraphs[i].size);
            text_puts(out, "\n");
        }
}
