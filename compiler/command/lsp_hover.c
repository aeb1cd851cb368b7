/* lsp_hover.c: what is known of a name or an expression, and how a function is called. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <stdlib.h>
#include <string.h>

static const char *kind_word(ls_name_kind kind) {
    static const char *const words[] = {[LS_NAME_BUILTIN] = "function of the language",
                                        [LS_NAME_FILE] = "file",
                                        [LS_NAME_CONST] = "constant",
                                        [LS_NAME_FN] = "function",
                                        [LS_NAME_STEP] = "step",
                                        [LS_NAME_IMPORT] = "import",
                                        [LS_NAME_C] = "name of a C header",
                                        [LS_NAME_AXIS] = "axis",
                                        [LS_NAME_PARAMETER] = "parameter",
                                        [LS_NAME_ARGUMENT] = "parameter of a function",
                                        [LS_NAME_LET] = "let",
                                        [LS_NAME_RUNNING] = "running value of a scan"};
    return words[kind];
}

static void add_facts(Buffer *out, const ls_description *d) {
    if (d->type) buffer_printf(out, "\n\ntype: `%s`", d->type);
    if (d->shape) buffer_printf(out, "  \nshape: %s", d->shape);
    if (d->value) buffer_printf(out, "  \nvalue: `%s`", d->value);
    if (d->bound) buffer_printf(out, "  \nerror: %s", d->bound);
}

static void describe_name(Document *document, size_t number, Buffer *out) {
    const ls_definition *definition = &document->index->definitions[number];
    ls_description d;
    ls_compilation_describe(document->compilation, number, 1, &d);
    buffer_printf(out, "```step\n%s\n```\n%s", d.declaration ? d.declaration : definition->name,
                  kind_word(definition->kind));
    if (definition->within != UINT32_MAX && definition->kind != LS_NAME_LET)
        buffer_printf(out, " of `%s`", document->index->definitions[definition->within].name);
    add_facts(out, &d);
    if (d.comment) buffer_printf(out, "\n\n%s", d.comment);
}

/* Of a name its definition and, where it is read, its value there; else the smallest expression. */
void answer_hover(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    if (!cursor_read(server, parameters, &cursor)) return;
    Document *document = cursor.document;
    const ls_index *index = document->index;
    ls_place at = {0};
    ls_description value = {0};
    Buffer text = {0};
    ls_compilation_value_at(document->compilation, 1, (uint32_t)cursor.offset, &at, &value);
    if (cursor.mention) {
        const ls_place name = cursor.mention->at;
        describe_name(document, cursor.mention->definition, &text);
        const bool call = at.file && at.begin <= name.begin && at.end > name.end &&
                          index->definitions[cursor.mention->definition].kind <= LS_NAME_C;
        if (call && value.type) {
            buffer_printf(&text, "\n\n`%.*s`",
                          (int)(at.end - at.begin < 200 ? at.end - at.begin : 200),
                          index->files[1].text + at.begin);
            add_facts(&text, &value);
        }
        at = name;
    } else if (at.file) {
        const size_t size = at.end - at.begin < 400 ? at.end - at.begin : 400;
        buffer_printf(&text, "```step\n%.*s\n```", (int)size, index->files[1].text + at.begin);
        add_facts(&text, &value);
    }
    if (!text.size) return;
    FileLines files = file_lines_open(server, index);
    json_open(&reply->result, NULL, '{');
    json_open(&reply->result, "contents", '{');
    json_string(&reply->result, "kind", "markdown");
    json_string(&reply->result, "value", text.data);
    json_close(&reply->result, '}');
    write_range(&reply->result, "range", &files, at);
    json_close(&reply->result, '}');
    file_lines_close(&files);
    buffer_free(&text);
}

/* ---- signatures ---- */

void answer_signature(Server *server, const JsonValue *parameters, Reply *reply) {
    Cursor cursor;
    size_t open, commas;
    if (!cursor_read(server, parameters, &cursor)) return;
    const ls_index *index = cursor.document->index;
    if (!call_around(cursor.document->text.data, cursor.offset, &open, &commas)) return;
    const long number = called_name(cursor.document, open);
    if (number < 0 || index->definitions[number].kind > LS_NAME_STEP) return;
    ls_description d;
    ls_compilation_describe(cursor.document->compilation, (size_t)number, 1, &d);
    if (!d.declaration) return;
    json_open(&reply->result, NULL, '{');
    json_open(&reply->result, "signatures", '[');
    json_open(&reply->result, NULL, '{');
    json_string(&reply->result, "label", d.declaration);
    if (d.comment) json_string(&reply->result, "documentation", d.comment);
    json_close(&reply->result, '}');
    json_close(&reply->result, ']');
    json_integer(&reply->result, "activeSignature", 0);
    json_integer(&reply->result, "activeParameter", (int64_t)commas);
    json_close(&reply->result, '}');
}
