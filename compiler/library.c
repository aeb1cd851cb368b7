/* library.c: the device functions a text uses, and no others.
 *
 * The headers under templates/ are read as pieces: a macro; a function (LS_FN type name(...) to its
 * closing brace); the use of a macro at the start of a line, which is expanded to see what
 * functions it defines; an #undef; a choice (#if to its #endif); other code. A function, use or
 * choice is kept when something kept uses what it defines, a macro when its name is used, an #undef
 * with its macro, other code always; comments stay with what follows them. Include guards, and the
 * file's own comment above them, are left out. So generated text shows all it is made of, and the
 * toolchains read little. */
#include <ctype.h>
#include <string.h>

#include "compiler.h"
#include "plan.h"

enum { PARAMETERS_MAX = 16, EXPANSIONS_MAX = 8 };

typedef struct Word {
    const char *text;
    size_t size;
} Word;

typedef enum PieceKind {
    PIECE_OTHER,
    PIECE_FUNCTION,
    PIECE_MACRO,
    PIECE_USE,
    PIECE_UNDEF,
    PIECE_CHOICE
} PieceKind;

typedef struct Piece {
    PieceKind kind;
    Word text;     /* with the comment before it */
    Word code;     /* without */
    Word name;     /* of the function or macro */
    Word expanded; /* of a use: what it stands for */
    bool blank_before, kept;
} Piece;

struct Library {
    const char *const *files;
    Arena *arena;
    Piece *pieces;
    size_t count, capacity;
    uint32_t *buckets; /* by word: 1 + the piece that defines it */
    Word *words;
    size_t bucket_count, word_count;
    struct Library *next;
};
typedef struct Library Library;

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}
static bool same(Word a, Word b) {
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}
static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static Word word_at(const char *text) {
    size_t size = 0;
    while (in_word(text[size])) size++;
    return (Word){text, size};
}

/* ---- words and who defines them ---- */

static size_t word_slot(const Library *library, Word word) {
    size_t hash = 5381;
    for (size_t i = 0; i < word.size; i++) hash = hash * 33 ^ (unsigned char)word.text[i];
    hash &= library->bucket_count - 1;
    while (library->buckets[hash] && !same(library->words[hash], word))
        hash = (hash + 1) & (library->bucket_count - 1);
    return hash;
}

static void define_word(Library *library, Word word, size_t piece) {
    if (2 * (library->word_count + 1) > library->bucket_count) {
        Library larger = *library;
        larger.bucket_count = library->bucket_count ? 2 * library->bucket_count : 1024;
        larger.buckets = arena_alloc(library->arena, larger.bucket_count * sizeof *larger.buckets);
        larger.words = arena_alloc(library->arena, larger.bucket_count * sizeof *larger.words);
        for (size_t i = 0; i < library->bucket_count; i++) {
            if (!library->buckets[i]) continue;
            size_t slot = word_slot(&larger, library->words[i]);
            larger.buckets[slot] = library->buckets[i];
            larger.words[slot] = library->words[i];
        }
        *library = larger;
    }
    size_t slot = word_slot(library, word);
    if (!library->buckets[slot]) library->word_count++;
    library->words[slot] = word;
    library->buckets[slot] = (uint32_t)piece + 1;
}

static Piece *find_word(const Library *library, Word word) {
    if (!library->bucket_count) return NULL;
    uint32_t found = library->buckets[word_slot(library, word)];
    return found ? &library->pieces[found - 1] : NULL;
}

/* ---- expanding the use of a macro ---- */

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

static void expand(Library *library, Text *out, const Piece *macro, const char *arguments,
                   int nesting);

/* Copies a macro's body with its parameters replaced and ## gone, nested uses expanded after it. */
static void expand_body(Library *library, Text *out, const char *body, const char *end,
                        const Word *parameters, const Word *arguments, size_t count, int nesting) {
    Text once = text_open(library->arena);
    for (const char *at = body; at < end;) {
        if (at[0] == '#' && at[1] == '#') {
            while (once.size && once.data[once.size - 1] == ' ') once.data[--once.size] = 0;
            for (at += 2; *at == ' ';) at++;
        } else if (in_word(*at)) {
            Word word = word_at(at), put = word;
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
        Word word = word_at(at);
        const Piece *nested = word.size ? find_word(library, word) : NULL;
        at += word.size ? word.size : 1;
        if (nested && nested->kind == PIECE_MACRO && *at == '(')
            expand(library, out, nested, at + 1, nesting + 1);
    }
}

static void expand(Library *library, Text *out, const Piece *macro, const char *arguments,
                   int nesting) {
    Word parameter_list[PARAMETERS_MAX], argument_list[PARAMETERS_MAX];
    const char *body = macro->name.text + macro->name.size;
    if (nesting > EXPANSIONS_MAX || *body != '(') return;
    size_t count = read_list(body + 1, parameter_list);
    if (read_list(arguments, argument_list) != count) return;
    body = strchr(body, ')') + 1;
    expand_body(library, out, body, macro->code.text + macro->code.size, parameter_list,
                argument_list, count, nesting);
}

/* ---- reading the files ---- */

/* What functions a text defines: the word before the bracket after each LS_FN. */
static void define_functions(Library *library, Word text, size_t piece) {
    for (const char *at = text.text; (at = strstr(at, "LS_FN ")) && at < text.text + text.size;) {
        const char *bracket = strchr(at, '('), *begin = bracket;
        if (!bracket) return;
        while (begin > at && in_word(begin[-1])) begin--;
        define_word(library, (Word){begin, (size_t)(bracket - begin)}, piece);
        at = bracket;
    }
}

/* What a choice defines: its functions and its macros, whichever branch they are in. */
static void define_choice(Library *library, Word text, size_t piece) {
    define_functions(library, text, piece);
    for (const char *at = text.text; (at = strstr(at, "#define ")) && at < text.text + text.size;) {
        at += strlen("#define ");
        define_word(library, word_at(at), piece);
    }
}

static const char *line_end(const char *at) {
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

/* The end of the piece that begins at `at`. */
static const char *piece_end(const char *at, PieceKind kind) {
    const char *end = line_end(at);
    if (kind == PIECE_MACRO || kind == PIECE_OTHER)
        while (end - at >= 2 && end[-2] == '\\') end = line_end(end);
    /* A function or a typedef goes on to the line that closes it. */
    if (kind == PIECE_FUNCTION || starts(at, "typedef") || starts(at, "struct")) {
        const char *first = at;
        int depth = 0;
        for (end = at; *end; end++) {
            depth += *end == '{' ? 1 : *end == '}' ? -1 : 0;
            bool stop = depth == 0 && (*end == '}' || (*end == ';' && end > first));
            if (stop && (kind == PIECE_FUNCTION || *end == ';')) break;
        }
        end = line_end(end);
    }
    if (kind == PIECE_CHOICE) {
        int depth = 0;
        for (end = at; *end; end = line_end(end)) {
            depth += starts(end, "#if") ? 1 : starts(end, "#endif") ? -1 : 0;
            if (depth == 0) break;
        }
        end = line_end(end);
    }
    if (kind == PIECE_USE)
        while (end[-1] && strchr("(,", end[-2]) && *end == ' ') end = line_end(end);
    return end;
}

static Piece read_piece(const char *at) {
    Piece piece = {.kind = PIECE_OTHER};
    if (starts(at, "#define "))
        piece.kind = PIECE_MACRO, piece.name = word_at(at + 8);
    else if (starts(at, "#undef "))
        piece.kind = PIECE_UNDEF, piece.name = word_at(at + 7);
    else if (starts(at, "#if"))
        piece.kind = PIECE_CHOICE;
    else if (starts(at, "LS_FN "))
        piece.kind = PIECE_FUNCTION;
    else if (starts(at, "LS_"))
        piece.kind = PIECE_USE, piece.name = word_at(at);
    piece.code = (Word){at, (size_t)(piece_end(at, piece.kind) - at)};
    return piece;
}

/* Past the file's comment and its include guard, if it has one. */
static const char *after_guard(const char *text, const char **end) {
    *end = text + strlen(text);
    const char *guard = strstr(text, "#ifndef LS_");
    if (!guard) return text;
    Word name = word_at(guard + 8);
    const char *define = line_end(guard);
    if (!starts(define, "#define ") || !same(word_at(define + 8), name)) return text;
    const char *last = *end;
    while (last > define && !starts(last, "#endif")) last--;
    *end = last;
    return line_end(define);
}

static void read_file(Library *library, const char *path) {
    const char *end, *text = embedded_text(path);
    if (!text) bug(library->arena->compiler, "templates/%s is not embedded", path);
    bool blank = false;
    const char *begin = NULL; /* of a comment that waits for code */
    for (const char *at = after_guard(text, &end); at < end;) {
        if (*at == '\n') {
            blank = true;
            begin = NULL; /* a comment on its own introduces the file or a part of it */
            at++;
        } else if (starts(at, "/*")) {
            if (!begin) begin = at;
            const char *close = strstr(at, "*/");
            at = close ? line_end(close) : end;
        } else {
            Piece piece = read_piece(at);
            piece.blank_before = blank;
            at = piece.code.text + piece.code.size;
            if (!begin) begin = piece.code.text;
            piece.text = (Word){begin, (size_t)(at - begin)};
            begin = NULL;
            blank = false;
            library->pieces = arena_grow(library->arena, library->pieces, library->count,
                                         &library->capacity, sizeof *library->pieces);
            library->pieces[library->count++] = piece;
            size_t number = library->count - 1;
            if (piece.kind == PIECE_MACRO) define_word(library, piece.name, number);
            if (piece.kind == PIECE_FUNCTION) define_functions(library, piece.code, number);
            if (piece.kind == PIECE_CHOICE) define_choice(library, piece.code, number);
            if (piece.kind != PIECE_USE) continue;
            const Piece *macro = find_word(library, piece.name);
            Text expanded = text_open(library->arena);
            if (macro && piece.code.text[piece.name.size] == '(')
                expand(library, &expanded, macro, piece.code.text + piece.name.size + 1, 0);
            library->pieces[number].expanded = (Word){expanded.data, expanded.size};
            define_functions(library, library->pieces[number].expanded, number);
        }
    }
}

/* ---- keeping what is used ---- */

static void keep(Library *library, Piece *piece);

static void keep_used(Library *library, Word text) {
    if (!text.size) return;
    if (!text.text) return; /* a define without a body */
    for (const char *at = text.text, *end = at + text.size; at < end;) {
        Word word = word_at(at);
        Piece *piece = word.size ? find_word(library, word) : NULL;
        if (piece) keep(library, piece);
        at += word.size ? word.size : 1;
    }
}

static void keep(Library *library, Piece *piece) {
    if (piece->kept) return;
    piece->kept = true;
    keep_used(library, piece->code);
    keep_used(library, piece->expanded);
}

/* `code` may use macros that define functions: those it expands to count as used too. */
static void keep_expansions(Library *library, const char *code) {
    for (const char *line = code; *line; line = line_end(line)) {
        if (!starts(line, "LS_")) continue;
        Word name = word_at(line);
        const Piece *macro = find_word(library, name);
        if (!macro || line[name.size] != '(') continue;
        Text expanded = text_open(library->arena);
        expand(library, &expanded, macro, line + name.size + 1, 0);
        keep_used(library, (Word){expanded.data, expanded.size});
    }
}

/* The files as pieces, of which nothing is kept: read once, as a step has many texts. */
static Library *open_library(Compiler *compiler, const char *const *files, size_t file_count) {
    for (Library *library = compiler->libraries; library; library = library->next) {
        if (library->files != files) continue;
        for (size_t i = 0; i < library->count; i++) library->pieces[i].kept = false;
        return library;
    }
    Library *library = arena_alloc(&compiler->arena, sizeof *library);
    *library = (Library){.files = files, .arena = &compiler->arena, .next = compiler->libraries};
    for (size_t i = 0; i < file_count; i++) read_file(library, files[i]);
    compiler->libraries = library;
    return library;
}

void library_add_used(Compiler *compiler, Text *out, const char *const *files, size_t file_count,
                      const char *code) {
    Library *library = open_library(compiler, files, file_count);
    keep_used(library, (Word){code, strlen(code)});
    keep_expansions(library, code);
    for (size_t i = 0; i < library->count; i++)
        if (library->pieces[i].kind == PIECE_OTHER) keep(library, &library->pieces[i]);
    for (size_t i = 0; i < library->count; i++) {
        Piece *piece = &library->pieces[i];
        const Piece *macro = piece->kind == PIECE_UNDEF ? find_word(library, piece->name) : NULL;
        if (!piece->kept && !(macro && macro->kept)) continue;
        if (piece->blank_before || piece->text.size != piece->code.size) text_puts(out, "\n");
        text_add(out, piece->text.text, piece->text.size);
    }
    text_puts(out, "\n");
}
