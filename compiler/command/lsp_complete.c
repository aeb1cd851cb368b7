/* lsp_complete.c: the names that can stand somewhere: those of the program there, the language's
 * functions, types and words, and the standard library's, with the import that they need. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum {
    KIND_FUNCTION = 3,
    KIND_VARIABLE = 6,
    KIND_MODULE = 9,
    KIND_PROPERTY = 10,
    KIND_KEYWORD = 14,
    KIND_FILE = 17,
    KIND_CONSTANT = 21,
    KIND_TYPE = 25
};

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* ---- which names can be said ---- */

/* The file that an import item brings; 0: none. */
static uint32_t file_of_import(const ls_index *index, const ls_definition *import) {
    for (size_t i = 0; i < index->mention_count; i++) {
        const ls_mention *m = &index->mentions[i];
        const ls_definition *d = &index->definitions[m->definition];
        if (d->kind == LS_NAME_FILE && m->at.file == import->whole.file &&
            m->at.begin >= import->whole.begin && m->at.end <= import->whole.end)
            return d->at.file;
    }
    return 0;
}

static bool has_name(const ls_index *index, const ls_mention *path) {
    for (size_t i = 0; i < index->definition_count; i++) {
        const ls_definition *d = &index->definitions[i];
        if (d->kind == LS_NAME_IMPORT && d->whole.file == path->at.file &&
            path->at.begin >= d->whole.begin && path->at.end <= d->whole.end)
            return true;
    }
    return false;
}

/* Marks a file, and those whose names it has without a qualifier. */
static void mark_files(const ls_index *index, uint32_t file, bool *marks) {
    if (marks[file]) return;
    marks[file] = true;
    for (size_t i = 0; i < index->mention_count; i++) {
        const ls_mention *m = &index->mentions[i];
        const ls_definition *d = &index->definitions[m->definition];
        if (d->kind == LS_NAME_FILE && m->at.file == file && !has_name(index, m))
            mark_files(index, d->at.file, marks);
    }
}

static bool is_item(const ls_definition *d) {
    return d->kind == LS_NAME_CONST || d->kind == LS_NAME_FN || d->kind == LS_NAME_STEP ||
           d->kind == LS_NAME_C;
}

static bool can_be_said(const ls_definition *d, size_t offset, const bool *marks) {
    if (d->kind == LS_NAME_BUILTIN) return true;
    if (d->kind == LS_NAME_FILE) return false;
    if (d->at.file != 1) return is_item(d) && marks[d->at.file];
    return is_item(d) || (offset >= d->scope.begin && offset <= d->scope.end);
}

long visible_name(const Document *document, size_t offset, const char *name, size_t size) {
    const ls_index *index = document->index;
    bool *marks = memory((index->file_count + 1) * sizeof *marks);
    long found = -1;
    mark_files(index, 1, marks);
    for (size_t i = 0; i < index->definition_count; i++) {
        const ls_definition *d = &index->definitions[i];
        if (strlen(d->name) != size || memcmp(d->name, name, size) != 0) continue;
        if (!can_be_said(d, offset, marks)) continue;
        const bool nearer = found < 0 || d->at.file == 1; /* the file's own hide others */
        if (nearer) found = (long)i;
    }
    free(marks);
    return found;
}

bool call_around(const char *text, size_t offset, size_t *open, size_t *commas) {
    size_t depth = 0;
    *commas = 0;
    while (offset-- > 0) {
        const char c = text[offset];
        if (c == '{' || c == '}') return false;
        if (c == ')' || c == ']') depth++;
        if (c == ',' && depth == 0) ++*commas;
        if (c != '(' && c != '[') continue;
        if (depth > 0) {
            depth--;
            continue;
        }
        *open = offset;
        return c == '(';
    }
    return false;
}

long called_name(const Document *document, size_t open) {
    const char *text = document->text.data;
    size_t end = open, depth = 0;
    while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == ']' || depth)) { /* f[k](x) */
        end--;
        depth += text[end] == ']';
        depth -= text[end] == '[' && depth;
    }
    size_t begin = end;
    while (begin > 0 && is_word(text[begin - 1])) begin--;
    if (begin == end) return -1;
    if (begin == 0 || text[begin - 1] != '.')
        return visible_name(document, open, text + begin, end - begin);
    for (size_t i = 0; i < document->index->mention_count; i++) { /* s.name */
        const ls_mention *m = &document->index->mentions[i];
        if (m->at.file == 1 && m->at.end == end) return (long)m->definition;
    }
    return -1;
}

/* ---- items of a list ---- */

static int kind_of(ls_name_kind kind) {
    return kind == LS_NAME_BUILTIN || kind == LS_NAME_FN || kind == LS_NAME_STEP ? KIND_FUNCTION
           : kind == LS_NAME_CONST || kind == LS_NAME_C                          ? KIND_CONSTANT
           : kind == LS_NAME_IMPORT                                              ? KIND_MODULE
           : kind == LS_NAME_PARAMETER                                           ? KIND_PROPERTY
                                                                                 : KIND_VARIABLE;
}

/* `order` sorts: what is nearest comes first. */
static void write_item(JsonWriter *json, const char *label, int kind, const char *detail,
                       const char *comment, char order) {
    char sort[2] = {order, 0};
    Buffer text = {0};
    json_open(json, NULL, '{');
    json_string(json, "label", label);
    json_integer(json, "kind", kind);
    if (detail) json_string(json, "detail", detail);
    if (comment) json_string(json, "documentation", comment);
    buffer_printf(&text, "%s%s", sort, label);
    json_string(json, "sortText", text.data);
    json_close(json, '}');
    buffer_free(&text);
}

static void write_name(JsonWriter *json, Document *document, size_t number) {
    const ls_definition *d = &document->index->definitions[number];
    ls_description description;
    ls_compilation_describe(document->compilation, number, 0, &description);
    const bool local = d->kind >= LS_NAME_AXIS;
    const char *detail = d->kind == LS_NAME_LET ? description.type : description.declaration;
    write_item(json, d->name, kind_of(d->kind), detail, description.comment,
               local                        ? '0'
               : d->kind == LS_NAME_BUILTIN ? '2'
                                            : '1');
}

/* `x = ` of the step that is called. */
static void write_arguments(JsonWriter *json, Document *document, size_t offset) {
    size_t open, commas;
    if (!call_around(document->text.data, offset, &open, &commas)) return;
    const long step = called_name(document, open);
    if (step < 0 || document->index->definitions[step].kind != LS_NAME_STEP) return;
    for (size_t i = 0; i < document->index->definition_count; i++) {
        const ls_definition *d = &document->index->definitions[i];
        ls_description description;
        Buffer label = {0};
        if (d->kind != LS_NAME_PARAMETER || d->within != (uint32_t)step) continue;
        ls_compilation_describe(document->compilation, i, 0, &description);
        buffer_printf(&label, "%s = ", d->name);
        write_item(json, label.data, KIND_PROPERTY, description.declaration, description.comment,
                   '!');
        buffer_free(&label);
    }
}

static void write_words(JsonWriter *json) {
    static const char *const words[] = {
        "step", "fn", "const", "import", "let",   "when",   "for",  "if",      "then",     "else",
        "and",  "or", "not",   "out",    "inout", "return", "true", "false",   "inf",      "nan",
        "pi",   "of", "as",    "math",   "exact", "lite",   "fast", "reverse", "backward", "from"};
    static const char *const types[] = {"f64",  "f32",  "i64",  "i32", "u64", "u32", "bool", "f16",
                                        "bf16", "e4m3", "e5m2", "i16", "i8",  "u16", "u8"};
    for (size_t i = 0; i < COUNT(words); i++)
        write_item(json, words[i], KIND_KEYWORD, NULL, NULL, '4');
    for (size_t i = 0; i < COUNT(types); i++)
        write_item(json, types[i], KIND_TYPE, NULL, NULL, '3');
}

/* ---- the standard library ---- */

/* The path by which a file of it is imported: "std/optim" for std/optim/adamw.step. */
static char *import_path(const char *file) {
    const char *base = file + strlen("std/");
    return copy_text(file, strlen("std/") + strcspn(base, "/."));
}

/* Where a new import goes: behind the last one, or before all else. */
static Position import_place(const Server *server, const Document *document) {
    size_t offset = 0;
    for (size_t i = 0; i < document->index->mention_count; i++) {
        const ls_mention *m = &document->index->mentions[i];
        const bool path = document->index->definitions[m->definition].kind == LS_NAME_FILE;
        if (path && m->at.file == 1) offset = m->at.end;
    }
    Position place = lines_position(&document->lines, offset, server->encoding);
    place.line += offset > 0;
    place.character = 0;
    return place;
}

static void write_library_name(JsonWriter *json, const char *name, ls_name_kind kind,
                               const char *path, const char *detail, Position place) {
    Buffer edit = {0}, sort = {0};
    buffer_printf(&edit, "import \"%s\"\n", path);
    buffer_printf(&sort, "5%s", name);
    json_open(json, NULL, '{');
    json_string(json, "label", name);
    json_integer(json, "kind", kind_of(kind));
    json_open(json, "labelDetails", '{');
    json_string(json, "description", path);
    json_close(json, '}');
    if (detail) json_string(json, "detail", detail);
    json_string(json, "sortText", sort.data);
    json_open(json, "additionalTextEdits", '[');
    json_open(json, NULL, '{');
    write_positions(json, "range", place, place);
    json_string(json, "newText", edit.data);
    json_close(json, '}');
    json_close(json, ']');
    json_close(json, '}');
    buffer_free(&edit);
    buffer_free(&sort);
}

/* A const, fn or step of the library. */
typedef struct LibraryName {
    char *name, *path, *declaration;
    ls_name_kind kind;
} LibraryName;

static void add_library_file(Server *server, const char *file) {
    const ls_compile_options options = {.index = 1};
    ls_compilation *compilation = NULL;
    const ls_index *index;
    ls_compile_file(file, &options, &compilation);
    if (compilation && ls_compilation_index(compilation, &index) == LS_OK)
        for (size_t i = 0; i < index->definition_count; i++) {
            const ls_definition *d = &index->definitions[i];
            ls_description description;
            if (d->at.file != 1 || !is_item(d)) continue;
            ls_compilation_describe(compilation, i, 0, &description);
            const char *text = description.declaration ? description.declaration : "";
            server->library =
                memory_grow(server->library, server->library_count + 1, sizeof *server->library);
            server->library[server->library_count++] =
                (LibraryName){copy_text(d->name, strlen(d->name)), import_path(file),
                              copy_text(text, strlen(text)), d->kind};
        }
    ls_compilation_destroy(compilation);
}

void library_close(Server *server) {
    for (size_t i = 0; i < server->library_count; i++) {
        free(server->library[i].name);
        free(server->library[i].path);
        free(server->library[i].declaration);
    }
    free(server->library);
}

/* Those that the document does not have already. */
static void write_library(Server *server, JsonWriter *json, const Document *document,
                          size_t offset) {
    const char *file;
    const Position place = import_place(server, document);
    const bool first = server->library_count == 0;
    for (size_t i = 0; first && (file = ls_library_file(i, NULL, NULL)); i++)
        add_library_file(server, file);
    for (size_t i = 0; i < server->library_count; i++) {
        const LibraryName *n = &server->library[i];
        if (visible_name(document, offset, n->name, strlen(n->name)) < 0)
            write_library_name(json, n->name, n->kind, n->path, n->declaration, place);
    }
}

/* ---- paths of imports ---- */

static void write_folder(JsonWriter *json, const Document *document) {
    const char *slash = strrchr(document->path, '/');
    char *folder = slash ? copy_text(document->path, (size_t)(slash + 1 - document->path)) : NULL;
    DIR *list = folder ? opendir(folder) : NULL;
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        const char *name = entry->d_name, *dot = strrchr(name, '.');
        if (!dot || dot == name || !slash || strcmp(name, slash + 1) == 0) continue;
        if (strcmp(dot, ".step") == 0 || strcmp(dot, ".h") == 0)
            write_item(json, name, KIND_FILE, NULL, NULL, '0');
    }
    if (list) closedir(list);
    free(folder);
}

/* Whether the offset is in the quotes of an import; from where. */
static bool in_import(const Document *document, size_t offset) {
    const char *text = document->text.data;
    size_t line = offset;
    while (line > 0 && text[line - 1] != '\n') line--;
    const char *quote = memchr(text + line, '"', offset - line);
    line += strspn(text + line, " \t");
    if (!quote || strncmp(text + line, "import", strlen("import")) != 0) return false;
    return !memchr(quote + 1, '"', (size_t)(text + offset - quote - 1));
}

static void write_paths(JsonWriter *json, const Document *document) {
    const char *file;
    for (size_t i = 0; (file = ls_library_file(i, NULL, NULL)); i++) {
        char *path = copy_text(file, strlen(file) - strlen(".step"));
        write_item(json, path, KIND_FILE, "the standard library", NULL, '1');
        free(path);
    }
    write_folder(json, document);
}

/* ---- the request ---- */

/* The import whose name stands before the `.` in front of the word at the offset; NULL: none. */
static const ls_definition *qualifier_at(const Document *document, size_t offset) {
    const char *text = document->text.data;
    size_t end = offset;
    while (end > 0 && is_word(text[end - 1])) end--;
    if (end == 0 || text[end - 1] != '.') return NULL;
    size_t begin = --end;
    while (begin > 0 && is_word(text[begin - 1])) begin--;
    for (size_t i = 0; i < document->index->definition_count; i++) {
        const ls_definition *d = &document->index->definitions[i];
        if (d->kind == LS_NAME_IMPORT && d->at.file == 1 && strlen(d->name) == end - begin &&
            memcmp(d->name, text + begin, end - begin) == 0)
            return d;
    }
    return NULL;
}

static void write_names(Server *server, JsonWriter *json, Document *document, size_t offset) {
    const ls_index *index = document->index;
    bool *marks = memory((index->file_count + 1) * sizeof *marks);
    mark_files(index, 1, marks);
    write_arguments(json, document, offset);
    for (size_t i = 0; i < index->definition_count; i++)
        if (can_be_said(&index->definitions[i], offset, marks)) write_name(json, document, i);
    write_words(json);
    write_library(server, json, document, offset);
    free(marks);
}

static bool in_comment(const Document *document, size_t offset) {
    const char *text = document->text.data;
    while (offset > 0 && text[offset - 1] != '\n')
        if (text[--offset] == '#') return true;
    return false;
}

void answer_completion(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    if (!cursor_read(server, parameters, &cursor)) return;
    Document *document = cursor.document;
    const ls_index *index = document->index;
    const ls_definition *import = qualifier_at(document, cursor.offset);
    json_open(&reply->result, NULL, '[');
    if (in_comment(document, cursor.offset)) {
        /* prose has no names to complete */
    } else if (in_import(document, cursor.offset)) {
        write_paths(&reply->result, document);
    } else if (import) {
        const uint32_t file = file_of_import(index, import);
        for (size_t i = 0; file && i < index->definition_count; i++)
            if (index->definitions[i].at.file == file && is_item(&index->definitions[i]))
                write_name(&reply->result, document, i);
    } else {
        write_names(server, &reply->result, document, cursor.offset);
    }
    json_close(&reply->result, ']');
}
