/* lsp_document.c: the texts that the client has open, and what the compiler says of them. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Document *document_find(const Server *server, const char *uri) {
    Document *document = server->documents;
    while (document && (!uri || strcmp(document->uri, uri) != 0)) document = document->next;
    return document;
}

Document *document_of_path(const Server *server, const char *path) {
    Document *document = server->documents;
    while (document && strcmp(document->path, path) != 0) document = document->next;
    return document;
}

static void forget_analysis(Document *document) {
    ls_compilation_destroy(document->compilation);
    document->compilation = NULL;
    document->index = NULL;
    document->checked = document->published = false;
}

static void set_text(Document *document, Buffer text) {
    buffer_free(&document->text);
    lines_close(&document->lines);
    buffer_puts(&text, "");
    document->text = text;
    document->lines = lines_open(text.data, text.size);
}

static bool imports(const Document *document, const char *path) {
    for (size_t i = 1; document->index && i < document->index->file_count; i++)
        if (strcmp(document->index->files[i].path, path) == 0) return true;
    return false;
}

/* A program in which a file could not be read may find it now. */
static bool lacks_files(const Document *document) {
    for (size_t i = 0; i < ls_compilation_diagnostic_count(document->compilation); i++)
        if (strncmp(ls_compilation_diagnostic(document->compilation, i)->code, "import-", 7) == 0)
            return true;
    return false;
}

void document_changed(Server *server, Document *document) {
    for (Document *other = server->documents; other; other = other->next)
        if (other != document && (imports(other, document->path) || lacks_files(other)))
            forget_analysis(other);
    forget_analysis(document);
}

Document *document_open(Server *server, const char *uri, const char *text) {
    Document *document = document_find(server, uri);
    Buffer copy = {0};
    if (!document) {
        document = memory(sizeof *document);
        document->uri = copy_text(uri, strlen(uri));
        document->path = path_of_uri(uri);
        document->next = server->documents;
        server->documents = document;
    }
    buffer_puts(&copy, text);
    set_text(document, copy);
    document_changed(server, document);
    return document;
}

void document_close(Server *server, Document *document) {
    Document **link = &server->documents;
    document_changed(server, document);
    while (*link != document) link = &(*link)->next;
    *link = document->next;
    buffer_free(&document->text);
    lines_close(&document->lines);
    free(document->uri);
    free(document->path);
    free(document);
}

static bool read_position(const JsonValue *value, const char *path, Position *position) {
    double line, character;
    const JsonValue *member = json_member(value, path);
    if (!json_number_at(member, "line", &line) || !json_number_at(member, "character", &character))
        return false;
    if (!(line >= 0 && line <= UINT32_MAX && character >= 0 && character <= UINT32_MAX))
        return false;
    *position = (Position){(uint32_t)line, (uint32_t)character};
    return true;
}

bool document_edit(Server *server, Document *document, const JsonValue *change) {
    const char *text = json_text_at(change, "text");
    Position from, to;
    Buffer edited = {0};
    size_t begin = 0, end = document->text.size;
    if (!text) return false;
    if (json_member(change, "range")) {
        if (!read_position(change, "range.start", &from) ||
            !read_position(change, "range.end", &to))
            return false;
        begin = lines_offset(&document->lines, from, server->encoding);
        end = lines_offset(&document->lines, to, server->encoding);
        if (end < begin) return false;
    }
    buffer_add(&edited, document->text.data, begin);
    buffer_puts(&edited, text);
    buffer_add(&edited, document->text.data + end, document->text.size - end);
    set_text(document, edited);
    document_changed(server, document);
    return true;
}

/* ---- what the compiler says ---- */

ls_status server_compile(const Server *server, const char *path, const char *text, size_t size,
                         const ls_source *others, size_t other_count,
                         ls_compilation **compilation) {
    size_t count = other_count;
    for (const Document *d = server->documents; d; d = d->next) count++;
    ls_source *sources = memory((count + 1) * sizeof *sources);
    if (other_count) memcpy(sources, others, other_count * sizeof *sources);
    count = other_count;
    for (const Document *d = server->documents; d; d = d->next)
        sources[count++] = (ls_source){d->path, d->text.data, d->text.size};
    ls_compile_options options = compile_options(&server->invocation->common);
    options.sources = count ? sources : NULL;
    options.source_count = count;
    options.import_paths = (const char *const *)server->import_paths;
    options.import_path_count = server->import_path_count;
    options.index = 1;
    ls_status status = ls_compile_text(path, text, size, &options, compilation);
    free(sources);
    return status;
}

bool document_analyse(Server *server, Document *document) {
    if (!document->compilation) {
        server_compile(server, document->path, document->text.data, document->text.size, NULL, 0,
                       &document->compilation);
        if (!document->compilation ||
            ls_compilation_index(document->compilation, &document->index) != LS_OK)
            document->index = NULL;
    }
    return document->index != NULL;
}

/* ---- places ---- */

FileLines file_lines_open(const Server *server, const ls_index *index) {
    return (FileLines){server, index, memory(index->file_count * sizeof(TextLines))};
}

void file_lines_close(FileLines *files) {
    for (size_t i = 0; i < files->index->file_count; i++) lines_close(&files->lines[i]);
    free(files->lines);
}

void write_positions(JsonWriter *json, const char *key, Position from, Position to) {
    json_open(json, key, '{');
    json_open(json, "start", '{');
    json_integer(json, "line", from.line);
    json_integer(json, "character", from.character);
    json_close(json, '}');
    json_open(json, "end", '{');
    json_integer(json, "line", to.line);
    json_integer(json, "character", to.character);
    json_close(json, '}');
    json_close(json, '}');
}

void write_range(JsonWriter *json, const char *key, FileLines *files, ls_place place) {
    TextLines *lines = &files->lines[place.file];
    const ls_index_file *file = &files->index->files[place.file];
    if (!lines->starts) *lines = lines_open(file->text, file->size);
    const Encoding encoding = files->server->encoding;
    write_positions(json, key, lines_position(lines, place.begin, encoding),
                    lines_position(lines, place.end, encoding));
}

void write_location(JsonWriter *json, const char *key, FileLines *files, ls_place place) {
    char *uri = file_uri(files->server, &files->index->files[place.file]);
    json_open(json, key, '{');
    json_string(json, "uri", uri);
    write_range(json, "range", files, place);
    json_close(json, '}');
    free(uri);
}

/* ---- copies of the library ---- */

/* The folder of the copies, below that of compiled kernels; the caller's. */
static char *library_folder(void) {
    ls_cache_stats stats;
    Buffer folder = {0};
    if (ls_cache_read_stats(&stats, 0) != LS_OK || !stats.directory || !*stats.directory)
        return NULL;
    buffer_printf(&folder, "%s/library-%s", stats.directory, ls_version());
    return folder.data;
}

static void make_folders(char *path) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
}

static bool same_as_copy(const char *folder, const char *path, const char *text, size_t size) {
    Buffer copy = {0};
    Failure failure;
    char *old = NULL;
    size_t old_size = 0;
    struct stat status;
    buffer_printf(&copy, "%s/%s", folder, path);
    const bool same = stat(copy.data, &status) == 0 && S_ISREG(status.st_mode) &&
                      file_read(copy.data, &old, &old_size, &failure) && old_size == size &&
                      memcmp(old, text, size) == 0;
    free(old);
    buffer_free(&copy);
    return same;
}

/* A file of the library as a client can open it. All of them are written, as they import one
 * another, unless this one is there as it is. */
static void write_library(const char *folder, const char *wanted) {
    const char *path, *text;
    size_t size;
    bool there = false;
    for (size_t i = 0; !there && (path = ls_library_file(i, &text, &size)); i++)
        there = strcmp(path, wanted) == 0 && same_as_copy(folder, path, text, size);
    for (size_t i = 0; !there && (path = ls_library_file(i, &text, &size)); i++) {
        Buffer target = {0};
        Failure failure;
        buffer_printf(&target, "%s/%s", folder, path);
        make_folders(target.data);
        if (!same_as_copy(folder, path, text, size))
            file_write_whole(target.data, text, size, &failure);
        buffer_free(&target);
    }
}

char *file_uri(const Server *server, const ls_index_file *file) {
    const Document *document = file->library ? NULL : document_of_path(server, file->path);
    if (document) return copy_text(document->uri, strlen(document->uri));
    if (!file->library) return uri_of_path(file->path);
    char *folder = library_folder();
    Buffer path = {0};
    if (!folder) return uri_of_path(file->path);
    buffer_printf(&path, "%s/%s", folder, file->path);
    write_library(folder, file->path);
    char *uri = uri_of_path(path.data);
    buffer_free(&path);
    free(folder);
    return uri;
}
