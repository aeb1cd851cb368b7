/* lsp_names.c: where a name is defined and mentioned, in this program and in those of the
 * workspace, and what a document defines. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 2000, FOLDERS_MAX = 500 }; /* of a workspace that are looked at */

/* ---- the cursor ---- */

static const ls_mention *mention_at(const ls_index *index, size_t offset) {
    size_t low = 0, high = index->mention_count;
    while (low < high) { /* the first behind the offset */
        const size_t middle = low + (high - low) / 2;
        const ls_place at = index->mentions[middle].at;
        if (at.file < 1 || (at.file == 1 && at.begin <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    const ls_mention *before = low ? &index->mentions[low - 1] : NULL;
    return before && before->at.file == 1 && offset <= before->at.end ? before : NULL;
}

bool cursor_read(Server *server, const JsonValue *parameters, Cursor *cursor) {
    double line = 0, character = 0;
    *cursor = (Cursor){0};
    cursor->document = document_find(server, json_text_at(parameters, "textDocument.uri"));
    if (!cursor->document || !document_analyse(server, cursor->document)) return false;
    json_number_at(parameters, "position.line", &line);
    json_number_at(parameters, "position.character", &character);
    if (!(line >= 0 && line <= UINT32_MAX && character >= 0 && character <= UINT32_MAX))
        return false;
    cursor->offset =
        lines_offset(&cursor->document->lines, (Position){(uint32_t)line, (uint32_t)character},
                     server->encoding);
    cursor->mention = mention_at(cursor->document->index, cursor->offset);
    return true;
}

/* ---- definition ---- */

void answer_definition(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    if (!cursor_read(server, parameters, &cursor) || !cursor.mention) return;
    const ls_index *index = cursor.document->index;
    const ls_definition *definition = &index->definitions[cursor.mention->definition];
    if (definition->kind == LS_NAME_BUILTIN) return;
    FileLines files = file_lines_open(server, index);
    write_location(&reply->result, NULL, &files, definition->at);
    file_lines_close(&files);
}

/* ---- programs that may mention a name ---- */

bool same_definition(const ls_index *a, size_t in_a, const ls_index *b, size_t in_b) {
    const ls_definition *x = &a->definitions[in_a], *y = &b->definitions[in_b];
    if (x->kind != y->kind || x->at.begin != y->at.begin) return false;
    return strcmp(a->files[x->at.file].path, b->files[y->at.file].path) == 0;
}

typedef struct Search {
    Server *server;
    const char *name;
    Visit *visit;
    void *user;
    size_t files, folders;
} Search;

static void visit_file(Search *search, const char *path) {
    ls_compilation *compilation = NULL;
    const ls_index *index;
    Failure failure;
    char *text;
    size_t size;
    if (document_of_path(search->server, path) || !file_read(path, &text, &size, &failure)) return;
    Buffer whole = {text, size, size};
    if (strlen(text) == size && strstr(text, search->name)) {
        server_compile(search->server, path, text, size, NULL, 0, &compilation);
        if (compilation && ls_compilation_index(compilation, &index) == LS_OK)
            search->visit(search->user, path, text, size, compilation, index);
        ls_compilation_destroy(compilation);
    }
    buffer_free(&whole);
}

static void visit_folder(Search *search, const char *folder) {
    DIR *list = search->folders++ < FOLDERS_MAX ? opendir(folder) : NULL;
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        Buffer path = {0};
        struct stat status;
        const size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.') continue;
        buffer_printf(&path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/",
                      entry->d_name);
        if (lstat(path.data, &status) == 0) {
            if (S_ISDIR(status.st_mode))
                visit_folder(search, path.data);
            else if (S_ISREG(status.st_mode) && length > 5 &&
                     strcmp(entry->d_name + length - 5, ".step") == 0 &&
                     search->files++ < FILES_MAX)
                visit_file(search, path.data);
        }
        buffer_free(&path);
    }
    if (list) closedir(list);
}

void visit_programs(Server *server, Document *document, const ls_definition *definition,
                    Visit *visit, void *user) {
    const bool elsewhere = definition->kind == LS_NAME_CONST || definition->kind == LS_NAME_FN ||
                           definition->kind == LS_NAME_STEP ||
                           definition->kind == LS_NAME_PARAMETER ||
                           definition->kind == LS_NAME_FILE;
    Search search = {server, definition->name, visit, user, 0, 0};
    const char *slash = definition->kind == LS_NAME_FILE ? strrchr(definition->name, '/') : NULL;
    if (slash) search.name = slash + 1;
    if (definition->kind == LS_NAME_FILE) search.name = "import"; /* may leave out the ending */
    for (Document *d = server->documents; d; d = d->next)
        if ((d == document || elsewhere) && document_analyse(server, d))
            visit(user, d->path, d->text.data, d->text.size, d->compilation, d->index);
    for (size_t i = 0; elsewhere && i < server->folder_count; i++)
        if (server->folders[i][0] == '/') visit_folder(&search, server->folders[i]);
}

/* ---- references ---- */

/* Places that were written already: several programs read one file. */
typedef struct Places {
    Server *server;
    const ls_index *index; /* of the document that was asked about */
    size_t definition;
    bool declaration; /* wanted too */
    JsonWriter *json;
    char **seen;
    size_t seen_count;
} Places;

static bool is_new(Places *places, const char *path, uint32_t begin) {
    Buffer key = {0};
    buffer_printf(&key, "%u:%s", begin, path);
    for (size_t i = 0; i < places->seen_count; i++)
        if (strcmp(places->seen[i], key.data) == 0) {
            buffer_free(&key);
            return false;
        }
    places->seen = memory_grow(places->seen, places->seen_count + 1, sizeof *places->seen);
    places->seen[places->seen_count++] = key.data;
    return true;
}

static void write_references(void *user, const char *path, const char *text, size_t size,
                             ls_compilation *compilation, const ls_index *index) {
    Places *places = user;
    FileLines files = file_lines_open(places->server, index);
    (void)path;
    (void)text;
    (void)size;
    (void)compilation;
    for (size_t i = 0; i < index->mention_count; i++) {
        const ls_mention *m = &index->mentions[i];
        if (!same_definition(places->index, places->definition, index, m->definition)) continue;
        const ls_definition *d = &index->definitions[m->definition];
        const bool is_definition = m->at.file == d->at.file && m->at.begin == d->at.begin;
        if (is_definition && !places->declaration) continue;
        if (is_new(places, index->files[m->at.file].path, m->at.begin))
            write_location(places->json, NULL, &files, m->at);
    }
    file_lines_close(&files);
}

void answer_references(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    if (!cursor_read(server, parameters, &cursor) || !cursor.mention) return;
    const ls_index *index = cursor.document->index;
    Places places = {.server = server,
                     .index = index,
                     .definition = cursor.mention->definition,
                     .declaration = json_true_at(parameters, "context.includeDeclaration"),
                     .json = &reply->result};
    json_open(&reply->result, NULL, '[');
    visit_programs(server, cursor.document, &index->definitions[places.definition],
                   write_references, &places);
    json_close(&reply->result, ']');
    for (size_t i = 0; i < places.seen_count; i++) free(places.seen[i]);
    free(places.seen);
}

void answer_highlight(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    if (!cursor_read(server, parameters, &cursor) || !cursor.mention) return;
    const ls_index *index = cursor.document->index;
    FileLines files = file_lines_open(server, index);
    json_open(&reply->result, NULL, '[');
    for (size_t i = 0; i < index->mention_count; i++) {
        const ls_mention *m = &index->mentions[i];
        if (m->at.file != 1 || m->definition != cursor.mention->definition) continue;
        json_open(&reply->result, NULL, '{');
        write_range(&reply->result, "range", &files, m->at);
        json_close(&reply->result, '}');
    }
    json_close(&reply->result, ']');
    file_lines_close(&files);
}

/* ---- symbols ---- */

static int symbol_kind(ls_name_kind kind) {
    enum { MODULE = 2, FUNCTION = 12, VARIABLE = 13, CONSTANT = 14, KEY = 20, OPERATOR = 25 };
    return kind == LS_NAME_STEP || kind == LS_NAME_FN ? FUNCTION
           : kind == LS_NAME_CONST                    ? CONSTANT
           : kind == LS_NAME_IMPORT                   ? MODULE
           : kind == LS_NAME_AXIS                     ? KEY
                                                      : VARIABLE;
}

static bool is_inside(ls_place inner, ls_place outer) {
    return inner.begin >= outer.begin && inner.end <= outer.end;
}

/* An item with what it has, or one of these. */
static void write_symbol(JsonWriter *json, FileLines *files, Document *document, size_t number) {
    const ls_index *index = document->index;
    const ls_definition *d = &index->definitions[number];
    ls_description description;
    ls_compilation_describe(document->compilation, number, 0, &description);
    json_open(json, NULL, '{');
    json_string(json, "name", d->name);
    const bool item = d->kind < LS_NAME_AXIS;
    if (!item && description.type) json_string(json, "detail", description.type);
    json_integer(json, "kind", symbol_kind(d->kind));
    write_range(json, "range", files, is_inside(d->at, d->whole) ? d->whole : d->at);
    write_range(json, "selectionRange", files, d->at);
    json_open(json, "children", '[');
    for (size_t i = 0; item && i < index->definition_count; i++)
        if (index->definitions[i].within == number && index->definitions[i].at.file == 1)
            write_symbol(json, files, document, i);
    json_close(json, ']');
    json_close(json, '}');
}

void answer_symbols(Server *server, const JsonValue *parameters, Reply *reply) {
    Document *document = document_find(server, json_text_at(parameters, "textDocument.uri"));
    if (!document || !document_analyse(server, document)) return;
    const ls_index *index = document->index;
    FileLines files = file_lines_open(server, index);
    json_open(&reply->result, NULL, '[');
    for (size_t i = 0; i < index->definition_count; i++) {
        const ls_definition *d = &index->definitions[i];
        const bool item = d->kind < LS_NAME_AXIS && d->kind != LS_NAME_FILE;
        if (d->at.file == 1 && item) write_symbol(&reply->result, &files, document, i);
    }
    json_close(&reply->result, ']');
    file_lines_close(&files);
}
