/* lsp_diagnostics.c: what is wrong with a document, sent as it is found. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <stdlib.h>
#include <string.h>

/* A place in a file as diagnostics say it: lines and characters from 1. */
typedef struct Spot {
    const char *file;
    uint32_t line, column, end_line, end_column;
} Spot;

static ls_place place_of(const ls_index *index, uint32_t file, const Spot *spot) {
    const char *text = index->files[file].text;
    const size_t size = index->files[file].size;
    return (ls_place){file, (uint32_t)character_offset(text, size, spot->line, spot->column),
                      (uint32_t)character_offset(text, size, spot->end_line, spot->end_column)};
}

/* The number of a file by its name; 0: it is none of the program's. */
static uint32_t file_named(const ls_index *index, const char *path) {
    for (uint32_t i = 1; i < index->file_count; i++)
        if (path && strcmp(index->files[i].path, path) == 0) return i;
    return 0;
}

static void write_related(JsonWriter *json, FileLines *files, const Spot *spot, const char *text) {
    const uint32_t file = file_named(files->index, spot->file);
    if (!file || !spot->line) return;
    json_open(json, NULL, '{');
    write_location(json, "location", files, place_of(files->index, file, spot));
    json_string(json, "message", text);
    json_close(json, '}');
}

/* The message, and behind it what has no place of its own. */
static void write_message(JsonWriter *json, const ls_diagnostic *d) {
    Buffer text = {0};
    buffer_puts(&text, d->message);
    for (size_t i = 0; i < d->note_count; i++)
        if (!d->notes[i].file) buffer_printf(&text, "\nnote: %s", d->notes[i].message);
    if (d->help) buffer_printf(&text, "\nhelp: %s", d->help);
    json_string(json, "message", text.data);
    buffer_free(&text);
}

/* An error of another file is shown where that file is imported. */
static void write_diagnostic(JsonWriter *json, FileLines *files, const ls_diagnostic *d) {
    enum { ERROR = 1, WARNING };
    const Spot spot = {d->file, d->line, d->column, d->end_line, d->end_column};
    const uint32_t file = file_named(files->index, d->file);
    const bool here = file == 1 || file == 0;
    ls_place at = {1, 0, 0};
    if (file == 1) at = place_of(files->index, 1, &spot);
    for (size_t i = 0; !here && i < files->index->mention_count; i++) {
        const ls_mention *m = &files->index->mentions[i];
        const ls_definition *target = &files->index->definitions[m->definition];
        if (m->at.file == 1 && target->kind == LS_NAME_FILE && target->at.file == file) at = m->at;
    }
    json_open(json, NULL, '{');
    write_range(json, "range", files, at);
    json_integer(json, "severity", strcmp(d->severity, "warning") == 0 ? WARNING : ERROR);
    json_string(json, "code", d->code);
    json_string(json, "source", "lockstep");
    write_message(json, d);
    json_open(json, "relatedInformation", '[');
    if (!here) write_related(json, files, &spot, d->message);
    for (size_t i = 0; i < d->note_count; i++) {
        const ls_note *n = &d->notes[i];
        const Spot place = {n->file, n->line, n->column, n->end_line, n->end_column};
        write_related(json, files, &place, n->message);
    }
    if (d->help && file) write_related(json, files, &spot, d->help);
    json_close(json, ']');
    json_close(json, '}');
}

static JsonWriter begin_notification(const char *uri) {
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "jsonrpc", "2.0");
    json_string(&json, "method", "textDocument/publishDiagnostics");
    json_open(&json, "params", '{');
    json_string(&json, "uri", uri);
    return json;
}

static void end_notification(JsonWriter *json) {
    json_close(json, '}');
    json_close(json, '}');
    channel_write(&json->text);
    buffer_free(&json->text);
}

/* The compiler could not even begin. */
static void write_failure(JsonWriter *json, const Document *document) {
    json_open(json, NULL, '{');
    write_positions(json, "range", (Position){0, 0}, (Position){0, 0});
    json_integer(json, "severity", 1);
    json_string(json, "code", "not-compiled");
    json_string(json, "source", "lockstep");
    json_string(json, "message", ls_compilation_message(document->compilation));
    json_close(json, '}');
}

void publish(Server *server, Document *document) {
    const bool analysed = document_analyse(server, document);
    const size_t count = ls_compilation_diagnostic_count(document->compilation);
    JsonWriter json = begin_notification(document->uri);
    if (document->has_version) json_integer(&json, "version", (int64_t)document->version);
    json_open(&json, "diagnostics", '[');
    if (analysed) {
        FileLines files = file_lines_open(server, document->index);
        for (size_t i = 0; i < count; i++)
            write_diagnostic(&json, &files, ls_compilation_diagnostic(document->compilation, i));
        file_lines_close(&files);
    } else {
        write_failure(&json, document);
    }
    json_close(&json, ']');
    end_notification(&json);
    document->published = true;
    document->reported = count;
}

void publish_nothing(Server *server, const char *uri) {
    (void)server;
    JsonWriter json = begin_notification(uri);
    json_open(&json, "diagnostics", '[');
    json_close(&json, ']');
    end_notification(&json);
}
