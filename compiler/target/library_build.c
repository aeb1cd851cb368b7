/* library_build.c: build tool. Reads the device functions under templates/ as target.h says, finds
 * out what each piece uses, and writes that as tables: library_build OUTPUT. Done here, it takes
 * nothing of the time a user waits for a kernel. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"

/* What decides bits, for numeric.c, before the dialects' preludes. */
static const char *const numeric_files[] = {
    "math.h",   "lite.h",   "philox.h",      "fixed.h",      "integer.h",   "convert.h",
    "memory.h", "reduce.h", "vectors_cpu.h", "reduce_cpu.h", "reduce_gpu.h"};

/* A library while it is read. */
typedef struct Reader {
    Arena *arena;
    Library table;
    Piece *pieces;
    Text *expanded; /* by piece: what a use stands for */
    const char **files;
    DefinedWord *defined;
    Text words;
    size_t count, capacity, expanded_capacity, file, word_count;
} Reader;

_Noreturn void compiler_fail(Compiler *compiler, ls_status status, const char *format, ...) {
    va_list arguments;
    (void)compiler, (void)status;
    va_start(arguments, format);
    fputs("library_build: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}
static bool in_word(char c) {
    return library_word_at((char[]){c, 0}).size > 0;
}
static bool same(Word a, Word b) {
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

/* The reader's arrays may have moved. */
static const Library *view(Reader *r) {
    r->table.pieces = r->pieces;
    r->table.files = r->files;
    r->table.defined = r->defined;
    r->table.words = r->words.data;
    return &r->table;
}

static void define_word(Reader *r, Word word, size_t piece) {
    const uint32_t before = r->table.defined_count;
    if (2 * (r->word_count + 1) > before) {
        DefinedWord *old = r->defined;
        r->table.defined_count = before ? 2 * before : 1024;
        r->defined = arena_alloc(r->arena, r->table.defined_count * sizeof *r->defined);
        for (uint32_t i = 0; i < before; i++)
            if (old[i].piece)
                r->defined[library_slot(view(r),
                                        (Word){r->words.data + old[i].text, old[i].size})] = old[i];
    }
    DefinedWord *there = &r->defined[library_slot(view(r), word)];
    if (!there->piece) {
        *there = (DefinedWord){.text = (uint32_t)r->words.size, .size = (uint16_t)word.size};
        text_add(&r->words, word.text, word.size);
        r->word_count++;
    }
    there->piece = (uint16_t)(piece + 1);
}

/* ---- reading the files ---- */

/* What functions a text defines: the word before the bracket after each LS_FN. */
static void define_functions(Reader *r, Word text, size_t piece) {
    for (const char *at = text.text; (at = strstr(at, "LS_FN ")) && at < text.text + text.size;) {
        const char *bracket = strchr(at, '('), *begin = bracket;
        if (!bracket) return;
        while (begin > at && in_word(begin[-1])) begin--;
        define_word(r, (Word){begin, (size_t)(bracket - begin)}, piece);
        at = bracket;
    }
}

/* What a choice defines: its functions and its macros, whichever branch they are in. */
static void define_choice(Reader *r, Word text, size_t piece) {
    define_functions(r, text, piece);
    for (const char *at = text.text; (at = strstr(at, "#define ")) && at < text.text + text.size;) {
        at += strlen("#define ");
        define_word(r, library_word_at(at), piece);
    }
}

/* The end of the piece that begins at `at`. */
static const char *piece_end(const char *at, PieceKind kind) {
    const char *end = library_line_end(at);
    if (kind == PIECE_MACRO || kind == PIECE_OTHER)
        while (end - at >= 2 && end[-2] == '\\') end = library_line_end(end);
    /* A function or a typedef goes on to the line that closes it. */
    if (kind == PIECE_FUNCTION || starts(at, "typedef") || starts(at, "struct")) {
        const char *first = at;
        int depth = 0;
        for (end = at; *end; end++) {
            depth += *end == '{' ? 1 : *end == '}' ? -1 : 0;
            bool stop = depth == 0 && (*end == '}' || (*end == ';' && end > first));
            if (stop && (kind == PIECE_FUNCTION || *end == ';')) break;
        }
        end = library_line_end(end);
    }
    if (kind == PIECE_CHOICE) {
        int depth = 0;
        for (end = at; *end; end = library_line_end(end)) {
            depth += starts(end, "#if") ? 1 : starts(end, "#endif") ? -1 : 0;
            if (depth == 0) break;
        }
        end = library_line_end(end);
    }
    if (kind == PIECE_USE)
        while (end[-1] && strchr("(,", end[-2]) && *end == ' ') end = library_line_end(end);
    return end;
}

/* With places relative to the file's beginning. */
static Piece read_piece(const char *file, const char *at) {
    static const struct {
        const char *begins;
        PieceKind kind;
        size_t name; /* where its name stands; SIZE_MAX: it has none */
    } kinds[] = {{"#define ", PIECE_MACRO, 8},    {"#undef ", PIECE_UNDEF, 7},
                 {"#if", PIECE_CHOICE, SIZE_MAX}, {"LS_FN ", PIECE_FUNCTION, SIZE_MAX},
                 {"LS_", PIECE_USE, 0},           {"", PIECE_OTHER, SIZE_MAX}};
    size_t i = 0;
    while (!starts(at, kinds[i].begins)) i++;
    Piece piece = {.kind = (uint8_t)kinds[i].kind, .code = (uint32_t)(at - file)};
    if (kinds[i].name != SIZE_MAX) {
        piece.name = (uint32_t)(at + kinds[i].name - file);
        piece.name_size = (uint16_t)library_word_at(at + kinds[i].name).size;
    }
    piece.end = (uint32_t)(piece_end(at, kinds[i].kind) - file);
    return piece;
}

/* Past the file's comment and its include guard, if it has one. */
static const char *after_guard(const char *text, const char **end) {
    *end = text + strlen(text);
    const char *guard = strstr(text, "#ifndef LS_");
    if (!guard) return text;
    Word name = library_word_at(guard + 8);
    const char *define = library_line_end(guard);
    if (!starts(define, "#define ") || !same(library_word_at(define + 8), name)) return text;
    const char *last = *end;
    while (last > define && !starts(last, "#endif")) last--;
    *end = last;
    return library_line_end(define);
}

static void add_piece(Reader *r, Piece piece) {
    const size_t number = r->count;
    const char *file = r->files[piece.file];
    const Word code = {file + piece.code, piece.end - piece.code};
    const Word name = {file + piece.name, piece.name_size};
    r->pieces = arena_grow(r->arena, r->pieces, number, &r->capacity, sizeof *r->pieces);
    r->expanded =
        arena_grow(r->arena, r->expanded, number, &r->expanded_capacity, sizeof *r->expanded);
    r->pieces[number] = piece;
    r->expanded[number] = text_open(r->arena);
    r->table.piece_count = (uint32_t)++r->count;
    if (number >= UINT16_MAX - 1) compiler_fail(NULL, LS_ERROR_INTERNAL, "too many pieces");
    if (piece.kind == PIECE_MACRO) define_word(r, name, number);
    if (piece.kind == PIECE_FUNCTION) define_functions(r, code, number);
    if (piece.kind == PIECE_CHOICE) define_choice(r, code, number);
    if (piece.kind != PIECE_USE) return;
    const Piece *macro = library_find(view(r), name);
    if (macro && code.text[name.size] == '(')
        library_expand(view(r), &r->expanded[number], macro, code.text + name.size + 1);
    define_functions(r, (Word){r->expanded[number].data, r->expanded[number].size}, number);
}

static void read_file(Reader *r, const char *path) {
    const char *end, *text = embedded_text(path);
    if (!text) compiler_fail(NULL, LS_ERROR_INTERNAL, "templates/%s is not embedded", path);
    r->files[r->file] = text;
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
            at = close ? library_line_end(close) : end;
        } else {
            Piece piece = read_piece(text, at);
            piece.blank_before = blank;
            piece.file = (uint16_t)r->file;
            piece.text = begin ? (uint32_t)(begin - text) : piece.code;
            begin = NULL;
            blank = false;
            at = text + piece.end;
            add_piece(r, piece);
        }
    }
    r->file++;
}

/* ---- writing the tables ---- */

static void put_needs(FILE *out, Reader *r, Word text, bool *seen, uint32_t *count) {
    for (const char *at = text.text, *end = at + text.size; at < end;) {
        const Word word = library_word_at(at);
        const Piece *found = word.size ? library_find(view(r), word) : NULL;
        const size_t number = found ? (size_t)(found - r->pieces) : 0;
        if (found && !seen[number]) {
            seen[number] = true;
            fprintf(out, "%zu,%s", number, ++*count % 20 ? " " : "\n    ");
        }
        at += word.size ? word.size : 1;
    }
}

static void write_needs(FILE *out, Reader *r, const char *name) {
    uint32_t count = 0;
    fprintf(out, "static const uint16_t needs_%s[] = {\n    ", name);
    for (size_t i = 0; i < r->count; i++) {
        Piece *piece = &r->pieces[i];
        bool *seen = arena_alloc(r->arena, r->count);
        seen[i] = true;
        piece->need_first = count;
        put_needs(out, r, (Word){r->files[piece->file] + piece->code, piece->end - piece->code},
                  seen, &count);
        put_needs(out, r, (Word){r->expanded[i].data, r->expanded[i].size}, seen, &count);
        piece->need_count = count - piece->need_first;
    }
    fputs("0};\n", out);
}

static void write_tables(FILE *out, Reader *r, const char *name) {
    write_needs(out, r, name);
    fprintf(out, "static const Piece pieces_%s[] = {\n", name);
    for (size_t i = 0; i < r->count; i++) {
        const Piece *p = &r->pieces[i];
        fprintf(out, "    {%u, %d, %u, %u, %u, %u, %u, %u, %u, %u},\n", p->kind, p->blank_before,
                p->file, p->name_size, p->text, p->code, p->end, p->name, p->need_first,
                p->need_count);
    }
    fprintf(out, "    {0}};\nstatic const DefinedWord defined_%s[] = {\n", name);
    for (uint32_t i = 0; i < r->table.defined_count; i++)
        fprintf(out, "%s{%u, %u, %u},%s", i % 5 ? " " : "    ", r->defined[i].text,
                r->defined[i].size, r->defined[i].piece, i % 5 == 4 ? "\n" : "");
    /* a long string is more than ISO C promises to take */
    fprintf(out, "};\nstatic const char words_%s[] = {", name);
    for (size_t i = 0; i < r->words.size; i++)
        fprintf(out, "%s%d,", i % 25 ? " " : "\n    ", r->words.data[i]);
    fputs("0};\n", out);
}

static uint64_t hash_file(uint64_t hash, const char *path) { /* the terminating zero included */
    const char *text = embedded_text(path);
    if (!text)
        compiler_fail(NULL, LS_ERROR_INTERNAL, "templates/%s is not embedded: was it renamed?",
                      path);
    do hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return hash;
}

static uint64_t numeric_hash(void) { /* FNV-1a */
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ NUMERIC_SERIAL;
    for (size_t i = 0; i < COUNT(numeric_files); i++) hash = hash_file(hash, numeric_files[i]);
    for (size_t i = 0; target_at(i); i++)
        if (target_at(i)->toolchain) hash = hash_file(hash, target_at(i)->prelude);
    return hash;
}

/* The tables of a dialect's library; gives the entry of library_tables. */
static const char *write_library(FILE *out, Arena *arena, const Target *target) {
    Reader r = {.arena = arena, .words = text_open(arena)};
    size_t files = 0;
    while (target->libraries[files]) files++;
    r.files = arena_alloc(arena, files * sizeof *r.files);
    for (size_t i = 0; i < files; i++) read_file(&r, target->libraries[i]);
    const char *name = target->name;
    write_tables(out, &r, name);
    Text list = text_open(arena);
    for (size_t i = 0; i < files; i++) {
        size_t number = 0; /* embedded.c has them in the order of embedded_files */
        while (strcmp(embedded_files[number].path, target->libraries[i]) != 0) number++;
        fprintf(out, "extern const unsigned char embedded_file_%zu[];\n", number);
        text_printf(&list, "    (const char *)embedded_file_%zu,\n", number);
    }
    fprintf(out, "static const char *const files_%s[] = {\n%s};\n\n", name, list.data);
    return arena_printf(arena,
                        "    {\"%s\", files_%s, pieces_%s, needs_%s, defined_%s, words_%s, %zu, "
                        "%u},\n",
                        name, name, name, name, name, name, r.count, r.table.defined_count);
}

int main(int count, char **words) {
    Arena arena;
    size_t targets = 0;
    FILE *out = count == 2 ? fopen(words[1], "wb") : NULL;
    if (!out)
        compiler_fail(NULL, LS_ERROR_FILE, "usage: library_build OUTPUT, which can be written");
    arena_open(&arena, NULL);
    fputs("/* Generated from templates/ by library_build.c. */\n#include \"base/base.h\"\n"
          "#include \"target/target.h\"\n\n",
          out);
    Text tables = text_open(&arena);
    for (; target_at(targets); targets++)
        text_puts(&tables, write_library(out, &arena, target_at(targets)));
    fprintf(out,
            "const Library library_tables[] = {\n%s};\nconst size_t library_table_count = %zu;\n"
            "const uint64_t numeric_texts = UINT64_C(0x%016llx);\n",
            tables.data, targets, (unsigned long long)numeric_hash());
    arena_close(&arena);
    return fclose(out) == 0 ? 0 : 1;
}
