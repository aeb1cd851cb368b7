/* lsp_rename.c: a new name for what stands at the cursor, in every program that mentions it.
 *
 * Nothing is guessed about what would be captured: the edited programs are compiled, and each
 * mention must mean what it meant before. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A file with the places where the name stands. */
typedef struct Edited {
    char *path, *text;
    size_t size;
    size_t *offsets; /* ascending */
    size_t count;
    Buffer result;
} Edited;

typedef struct Program {
    char *path, *text;
    size_t size;
} Program;

typedef struct Rename {
    Server *server;
    const ls_index *index; /* of the document */
    size_t definition;
    const char *old, *new;
    Edited *files;
    size_t file_count;
    Program *programs;
    size_t program_count;
    Reply *reply;
} Rename;

/* ---- what can be renamed ---- */

/* False with the reason. */
static bool can_rename(const ls_index *index, const ls_definition *d, Reply *reply) {
    const char *name = d->name;
    if (d->kind == LS_NAME_BUILTIN)
        reply_error(reply, REQUEST_FAILED, "`%s` is a function of the language", name);
    else if (d->kind == LS_NAME_FILE)
        reply_error(reply, REQUEST_FAILED, "the path of a file is not renamed here");
    else if (d->kind == LS_NAME_C)
        reply_error(reply, REQUEST_FAILED, "`%s` belongs to a C header", name);
    else if (index->files[d->at.file].library)
        reply_error(reply, REQUEST_FAILED, "`%s` belongs to the standard library", name);
    return reply->code == 0;
}

static bool find_name(Server *server, const JsonValue *parameters, Cursor *cursor, Reply *reply) {
    if (!cursor_read(server, parameters, cursor) || !cursor->mention) {
        reply_error(reply, REQUEST_FAILED, "there is no name here");
        return false;
    }
    const ls_index *index = cursor->document->index;
    return can_rename(index, &index->definitions[cursor->mention->definition], reply);
}

void answer_prepare_rename(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    if (!find_name(server, parameters, &cursor, reply)) return;
    FileLines files = file_lines_open(server, cursor.document->index);
    json_open(&reply->result, NULL, '{');
    write_range(&reply->result, "range", &files, cursor.mention->at);
    json_string(&reply->result, "placeholder",
                cursor.document->index->definitions[cursor.mention->definition].name);
    json_close(&reply->result, '}');
    file_lines_close(&files);
}

static bool is_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return *text == '\0';
}

/* ---- the places ---- */

static Edited *edited_file(Rename *r, const ls_index_file *file) {
    for (size_t i = 0; i < r->file_count; i++)
        if (strcmp(r->files[i].path, file->path) == 0) return &r->files[i];
    r->files = memory_grow(r->files, r->file_count + 1, sizeof *r->files);
    r->files[r->file_count] = (Edited){.path = copy_text(file->path, strlen(file->path)),
                                       .text = copy_text(file->text, file->size),
                                       .size = file->size};
    return &r->files[r->file_count++];
}

static void add_place(Edited *file, size_t offset) {
    size_t at = file->count;
    for (size_t i = 0; i < file->count; i++)
        if (file->offsets[i] == offset) return;
    file->offsets = memory_grow(file->offsets, file->count + 1, sizeof *file->offsets);
    for (; at > 0 && file->offsets[at - 1] > offset; at--)
        file->offsets[at] = file->offsets[at - 1];
    file->offsets[at] = offset;
    file->count++;
}

/* Whether the program has the file that defines the name. */
static bool reads_file(const Rename *r, const ls_index *index) {
    const char *path = r->index->files[r->index->definitions[r->definition].at.file].path;
    for (size_t i = 1; i < index->file_count; i++)
        if (strcmp(index->files[i].path, path) == 0) return true;
    return false;
}

static void collect(void *user, const char *path, const char *text, size_t size,
                    ls_compilation *compilation, const ls_index *index) {
    Rename *r = user;
    if (r->reply->code || !reads_file(r, index)) return;
    if (ls_compilation_diagnostic_count(compilation)) {
        const ls_diagnostic *d = ls_compilation_diagnostic(compilation, 0);
        reply_error(r->reply, REQUEST_FAILED, "%s has errors, so that names may be missed: %s",
                    path, d->message);
        return;
    }
    bool any = false;
    for (size_t i = 0; i < index->mention_count; i++) {
        const ls_mention *m = &index->mentions[i];
        if (!same_definition(r->index, r->definition, index, m->definition)) continue;
        const ls_index_file *file = &index->files[m->at.file];
        const size_t length = m->at.end - m->at.begin;
        any = true;
        if (length == strlen(r->old) && memcmp(file->text + m->at.begin, r->old, length) == 0)
            add_place(edited_file(r, file), m->at.begin);
        else
            reply_error(r->reply, REQUEST_FAILED, "`%.*s` in %s has its name from `%s`",
                        (int)length, file->text + m->at.begin, file->path, r->old);
    }
    if (!any && strcmp(path, r->index->files[1].path) != 0) return;
    r->programs = memory_grow(r->programs, r->program_count + 1, sizeof *r->programs);
    r->programs[r->program_count++] =
        (Program){copy_text(path, strlen(path)), copy_text(text, size), size};
}

static void make_texts(Rename *r) {
    for (size_t i = 0; i < r->file_count; i++) {
        Edited *file = &r->files[i];
        size_t from = 0;
        for (size_t k = 0; k < file->count; k++) {
            buffer_add(&file->result, file->text + from, file->offsets[k] - from);
            buffer_puts(&file->result, r->new);
            from = file->offsets[k] + strlen(r->old);
        }
        buffer_add(&file->result, file->text + from, file->size - from);
    }
}

/* ---- whether all means what it meant ---- */

static const Edited *find_edited(const Rename *r, const char *path) {
    for (size_t i = 0; i < r->file_count; i++)
        if (strcmp(r->files[i].path, path) == 0) return &r->files[i];
    return NULL;
}

/* Where an offset of a file is after the edit. */
static size_t moved(const Rename *r, const char *path, size_t offset) {
    const Edited *file = find_edited(r, path);
    size_t before = 0;
    while (file && before < file->count && file->offsets[before] < offset) before++;
    return offset + before * strlen(r->new) - before * strlen(r->old);
}

static bool same_place(const Rename *r, const ls_index *old, ls_place before, const ls_index *new,
                       ls_place after) {
    if (!before.file || !after.file)
        return before.file == after.file && before.begin == after.begin;
    const char *path = old->files[before.file].path;
    return strcmp(path, new->files[after.file].path) == 0 &&
           moved(r, path, before.begin) == after.begin;
}

/* The number of the first mention that means another thing; the count where there is none. */
static size_t first_change(const Rename *r, const ls_index *old, const ls_index *new) {
    for (size_t i = 0; i < old->mention_count; i++) {
        if (i >= new->mention_count) return i;
        const ls_mention *a = &old->mentions[i], *b = &new->mentions[i];
        const ls_definition *x = &old->definitions[a->definition];
        const ls_definition *y = &new->definitions[b->definition];
        if (!same_place(r, old, a->at, new, b->at) || x->kind != y->kind ||
            !same_place(r, old, x->at, new, y->at))
            return i;
    }
    return old->mention_count;
}

static void refuse(Rename *r, const ls_index *old, size_t mention) {
    if (mention >= old->mention_count) {
        reply_error(r->reply, REQUEST_FAILED, "a name would mean another thing than `%s` does",
                    r->old);
        return;
    }
    const ls_mention *m = &old->mentions[mention];
    const ls_index_file *file = &old->files[m->at.file];
    TextLines lines = lines_open(file->text, file->size);
    const Position place = lines_position(&lines, m->at.begin, ENCODING_UTF16);
    reply_error(r->reply, REQUEST_FAILED, "%s:%u:%u: `%.*s` would mean another thing then",
                file->path, place.line + 1, place.character + 1, (int)(m->at.end - m->at.begin),
                file->text + m->at.begin);
    lines_close(&lines);
}

static void verify(Rename *r, const Program *program) {
    ls_compilation *before = NULL, *after = NULL;
    const ls_index *old, *new;
    ls_source *sources = memory((r->file_count + 1) * sizeof *sources);
    for (size_t i = 0; i < r->file_count; i++)
        sources[i] =
            (ls_source){r->files[i].path, r->files[i].result.data, r->files[i].result.size};
    const Edited *own = find_edited(r, program->path);
    server_compile(r->server, program->path, program->text, program->size, NULL, 0, &before);
    server_compile(r->server, program->path, own ? own->result.data : program->text,
                   own ? own->result.size : program->size, sources, r->file_count, &after);
    free(sources);
    if (!before || !after || ls_compilation_index(before, &old) != LS_OK ||
        ls_compilation_index(after, &new) != LS_OK) {
        reply_error(r->reply, INTERNAL_ERROR, "%s could not be compiled", program->path);
    } else if (ls_compilation_diagnostic_count(after)) {
        const ls_diagnostic *d = ls_compilation_diagnostic(after, 0);
        reply_error(r->reply, REQUEST_FAILED, "`%s` would be an error: %s:%u:%u: %s", r->new,
                    d->file, d->line, d->column, d->message);
    } else {
        const size_t change = first_change(r, old, new);
        if (change < old->mention_count || old->mention_count != new->mention_count)
            refuse(r, old, change);
    }
    ls_compilation_destroy(before);
    ls_compilation_destroy(after);
}

/* ---- the answer ---- */

static void write_edits(Rename *r) {
    JsonWriter *json = &r->reply->result;
    json_open(json, NULL, '{');
    json_open(json, "changes", '{');
    for (size_t i = 0; i < r->file_count; i++) {
        const Edited *file = &r->files[i];
        const ls_index_file described = {.path = file->path};
        char *uri = file_uri(r->server, &described);
        TextLines lines = lines_open(file->text, file->size);
        json_open(json, uri, '[');
        for (size_t k = 0; k < file->count; k++) {
            json_open(json, NULL, '{');
            write_positions(
                json, "range", lines_position(&lines, file->offsets[k], r->server->encoding),
                lines_position(&lines, file->offsets[k] + strlen(r->old), r->server->encoding));
            json_string(json, "newText", r->new);
            json_close(json, '}');
        }
        json_close(json, ']');
        lines_close(&lines);
        free(uri);
    }
    json_close(json, '}');
    json_close(json, '}');
}

static void close_rename(Rename *r) {
    for (size_t i = 0; i < r->file_count; i++) {
        free(r->files[i].path);
        free(r->files[i].text);
        free(r->files[i].offsets);
        buffer_free(&r->files[i].result);
    }
    for (size_t i = 0; i < r->program_count; i++) {
        free(r->programs[i].path);
        free(r->programs[i].text);
    }
    free(r->files);
    free(r->programs);
}

void answer_rename(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    const char *new = json_text_at(parameters, "newName");
    if (!find_name(server, parameters, &cursor, reply)) return;
    if (!new || !is_name(new)) {
        reply_error(reply, INVALID_PARAMETERS, "`%.100s` is no name", new ? new : "");
        return;
    }
    const ls_index *index = cursor.document->index;
    Rename r = {.server = server,
                .index = index,
                .definition = cursor.mention->definition,
                .old = index->definitions[cursor.mention->definition].name,
                .new = new,
                .reply = reply};
    visit_programs(server, cursor.document, &index->definitions[r.definition], collect, &r);
    if (!reply->code) make_texts(&r);
    for (size_t i = 0; !reply->code && i < r.program_count; i++) verify(&r, &r.programs[i]);
    if (!reply->code) write_edits(&r);
    close_rename(&r);
}
