/* lsp.c: `lockstep lsp`: a language server on standard input and output. Here is the protocol's
 * life cycle and which function answers which method; what is answered is in lsp_*.c. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { IDLE_MS = 400 }; /* without a message, until plans are looked at */

typedef struct Options {
    StringList sizes;
    double peak;
} Options;

/* ---- replies ---- */

void reply_error(Reply *reply, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    buffer_free(&reply->result.text);
    reply->result = (JsonWriter){0};
    buffer_free(&reply->message);
    reply->message = (Buffer){0};
    reply->code = code;
    buffer_vprintf(&reply->message, format, arguments);
    va_end(arguments);
}

static void send_reply(Server *server, const JsonValue *id, Reply *reply) {
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "jsonrpc", "2.0");
    json_write(&json, "id", id);
    if (reply->code) {
        json_open(&json, "error", '{');
        json_integer(&json, "code", reply->code);
        json_string(&json, "message", reply->message.data);
        json_close(&json, '}');
    } else {
        json_raw(&json, "result", reply->result.text.size ? reply->result.text.data : "null");
    }
    json_close(&json, '}');
    if (!channel_write(&json.text)) server->left = true;
    buffer_free(&json.text);
    buffer_free(&reply->result.text);
    buffer_free(&reply->message);
}

static void send_error(Server *server, const JsonValue *id, int code, const char *text) {
    Reply reply = {0};
    reply_error(&reply, code, "%s", text);
    send_reply(server, id, &reply);
}

/* ---- the life cycle ---- */

static void add_text(char ***list, size_t *count, char *text) {
    *list = memory_grow(*list, *count + 1, sizeof **list);
    (*list)[(*count)++] = text;
}

static void add_folder(Server *server, const char *uri) {
    if (uri) add_text(&server->folders, &server->folder_count, path_of_uri(uri));
}

/* AXIS=LENGTH,... in plain numbers; false with a failure. */
static bool add_sizes(Server *server, const StringList *given, Failure *failure) {
    StringList plain = {0};
    const bool good = sizes_split(given, &plain, failure);
    for (size_t i = 0; i < plain.count; i++)
        add_text(&server->sizes, &server->size_count, (char *)(uintptr_t)plain.items[i]);
    free(plain.items);
    return good;
}

/* {"sizes": {"n": "16M"}, "peak": 40} */
static void read_settings(Server *server, const JsonValue *settings) {
    const JsonValue *sizes = json_member(settings, "sizes");
    for (const JsonValue *size = sizes && sizes->kind == '{' ? sizes->first : NULL; size;
         size = size->next) {
        Buffer text = {0};
        Failure failure;
        if (!size->text) continue;
        buffer_printf(&text, "%s=%s", size->key, size->text);
        StringList one = {0};
        list_add(&one, text.data);
        if (!add_sizes(server, &one, &failure)) note("initializationOptions: %s", failure.text);
        free(one.items);
        buffer_free(&text);
    }
    double peak;
    if (json_number_at(settings, "peak", &peak) && peak > 0) server->peak = peak;
}

static void read_client(Server *server, const JsonValue *parameters) {
    const JsonValue *folders = json_member(parameters, "workspaceFolders");
    const JsonValue *encodings = json_member(parameters, "capabilities.general.positionEncodings");
    for (const JsonValue *f = folders ? folders->first : NULL; f; f = f->next)
        add_folder(server, json_text_at(f, "uri"));
    if (server->folder_count == 0) add_folder(server, json_text_at(parameters, "rootUri"));
    for (const JsonValue *e = encodings ? encodings->first : NULL; e; e = e->next) {
        if (!e->text || (strcmp(e->text, "utf-8") != 0 && strcmp(e->text, "utf-16") != 0)) continue;
        server->encoding = strcmp(e->text, "utf-8") == 0 ? ENCODING_UTF8 : ENCODING_UTF16;
        break; /* the client's first choice of the two */
    }
    read_settings(server, json_member(parameters, "initializationOptions"));
}

static void write_capabilities(const Server *server, JsonWriter *json) {
    json_open(json, "capabilities", '{');
    json_string(json, "positionEncoding", server->encoding == ENCODING_UTF8 ? "utf-8" : "utf-16");
    json_open(json, "textDocumentSync", '{');
    json_boolean(json, "openClose", true);
    json_integer(json, "change", 2); /* incremental */
    json_close(json, '}');
    json_open(json, "completionProvider", '{');
    json_open(json, "triggerCharacters", '[');
    json_string(json, NULL, ".");
    json_string(json, NULL, "\"");
    json_string(json, NULL, "/");
    json_close(json, ']');
    json_close(json, '}');
    json_open(json, "signatureHelpProvider", '{');
    json_open(json, "triggerCharacters", '[');
    json_string(json, NULL, "(");
    json_string(json, NULL, ",");
    json_close(json, ']');
    json_close(json, '}');
    json_open(json, "renameProvider", '{');
    json_boolean(json, "prepareProvider", true);
    json_close(json, '}');
    json_open(json, "codeLensProvider", '{');
    json_boolean(json, "resolveProvider", true);
    json_close(json, '}');
    json_boolean(json, "hoverProvider", true);
    json_boolean(json, "definitionProvider", true);
    json_boolean(json, "referencesProvider", true);
    json_boolean(json, "documentHighlightProvider", true);
    json_boolean(json, "documentSymbolProvider", true);
    json_boolean(json, "documentFormattingProvider", true);
    json_boolean(json, "inlayHintProvider", true);
    json_close(json, '}');
}

static void answer_initialize(Server *server, const JsonValue *parameters, Reply *reply) {
    if (server->initialized) {
        reply_error(reply, INVALID_REQUEST, "the server is initialized already");
        return;
    }
    server->initialized = true;
    read_client(server, parameters);
    json_open(&reply->result, NULL, '{');
    write_capabilities(server, &reply->result);
    json_open(&reply->result, "serverInfo", '{');
    json_string(&reply->result, "name", "lockstep");
    json_string(&reply->result, "version", ls_version());
    json_close(&reply->result, '}');
    json_close(&reply->result, '}');
}

static void answer_shutdown(Server *server, const JsonValue *parameters, Reply *reply) {
    (void)parameters;
    (void)reply;
    server->shut_down = true;
}

/* ---- documents ---- */

typedef void Hear(Server *server, const JsonValue *parameters);

static void hear_nothing(Server *server, const JsonValue *parameters) {
    (void)server;
    (void)parameters;
}

static void read_version(Document *document, const JsonValue *parameters) {
    document->has_version =
        json_number_at(parameters, "textDocument.version", &document->version) &&
        document->version >= INT32_MIN && document->version <= INT32_MAX;
}

static void hear_open(Server *server, const JsonValue *parameters) {
    const char *uri = json_text_at(parameters, "textDocument.uri");
    const char *text = json_text_at(parameters, "textDocument.text");
    if (uri && text) read_version(document_open(server, uri, text), parameters);
}

static void hear_change(Server *server, const JsonValue *parameters) {
    Document *document = document_find(server, json_text_at(parameters, "textDocument.uri"));
    const JsonValue *changes = json_member(parameters, "contentChanges");
    if (!document || !changes || changes->kind != '[') return;
    for (const JsonValue *change = changes->first; change; change = change->next)
        if (!document_edit(server, document, change))
            note("a change of %s that is none was left out", document->uri);
    read_version(document, parameters);
}

static void hear_close(Server *server, const JsonValue *parameters) {
    const char *uri = json_text_at(parameters, "textDocument.uri");
    Document *document = document_find(server, uri);
    if (!document) return;
    publish_nothing(server, uri);
    document_close(server, document);
}

/* A file that is imported and not open may have changed. */
static void hear_saved(Server *server, const JsonValue *parameters) {
    (void)parameters;
    for (Document *document = server->documents; document; document = document->next)
        document_changed(server, document);
}

static void hear_exit(Server *server, const JsonValue *parameters) {
    (void)parameters;
    server->left = true;
}

/* ---- methods ---- */

static const struct {
    const char *name;
    Answer *answer; /* of a request */
    Hear *hear;     /* of a notification */
} methods[] = {
    {"initialize", answer_initialize, NULL},
    {"initialized", NULL, hear_nothing},
    {"shutdown", answer_shutdown, NULL},
    {"exit", NULL, hear_exit},
    {"textDocument/didOpen", NULL, hear_open},
    {"textDocument/didChange", NULL, hear_change},
    {"textDocument/didClose", NULL, hear_close},
    {"textDocument/didSave", NULL, hear_saved},
    {"workspace/didChangeWatchedFiles", NULL, hear_saved},
    {"workspace/didChangeConfiguration", NULL, hear_nothing},
    {"textDocument/hover", answer_hover, NULL},
    {"textDocument/completion", answer_completion, NULL},
    {"textDocument/signatureHelp", answer_signature, NULL},
    {"textDocument/definition", answer_definition, NULL},
    {"textDocument/references", answer_references, NULL},
    {"textDocument/documentHighlight", answer_highlight, NULL},
    {"textDocument/documentSymbol", answer_symbols, NULL},
    {"textDocument/prepareRename", answer_prepare_rename, NULL},
    {"textDocument/rename", answer_rename, NULL},
    {"textDocument/formatting", answer_formatting, NULL},
    {"textDocument/inlayHint", answer_inlay, NULL},
    {"textDocument/codeLens", answer_lens, NULL},
    {"codeLens/resolve", answer_lens_resolve, NULL},
};

/* The row of a method; the count where there is none. */
static size_t find_method(const char *name) {
    size_t row = 0;
    while (row < COUNT(methods) && strcmp(methods[row].name, name) != 0) row++;
    return row;
}

static void request(Server *server, const JsonValue *id, const char *method,
                    const JsonValue *parameters) {
    const size_t row = find_method(method);
    Reply reply = {0};
    if (row == COUNT(methods) || !methods[row].answer)
        reply_error(&reply, METHOD_NOT_FOUND, "there is no request '%.200s'", method);
    else if (server->shut_down)
        reply_error(&reply, INVALID_REQUEST, "the server is shut down");
    else if (!server->initialized && methods[row].answer != answer_initialize)
        reply_error(&reply, NOT_INITIALIZED, "'initialize' comes first");
    else
        methods[row].answer(server, parameters, &reply);
    send_reply(server, id, &reply);
}

/* What is not known is ignored, as the protocol says; so is all but `exit` outside of a session. */
static void notification(Server *server, const char *method, const JsonValue *parameters) {
    const size_t row = find_method(method);
    if (row == COUNT(methods) || !methods[row].hear) return;
    if (methods[row].hear == hear_exit || (server->initialized && !server->shut_down))
        methods[row].hear(server, parameters);
}

/* An id is a text or a number. */
static bool is_id(const JsonValue *id) {
    return id && (id->kind == '"' || (!id->kind && strchr("-0123456789", id->text[0])));
}

static void message(Server *server, const char *body, size_t size) {
    const char *problem = NULL;
    JsonValue *tree = json_tree(body, size, &problem);
    if (!tree) {
        Reply reply = {0};
        reply_error(&reply, PARSE_ERROR, "the message is not JSON: expected %s", problem);
        send_reply(server, NULL, &reply);
        return;
    }
    const JsonValue *id = json_member(tree, "id");
    const char *method = json_text_at(tree, "method");
    const char *version = json_text_at(tree, "jsonrpc");
    const bool is_answer = json_member(tree, "result") || json_member(tree, "error");
    if (tree->kind != '{' || (!method && !is_answer) || !version || strcmp(version, "2.0") != 0 ||
        (method && id && !is_id(id)))
        send_error(server, is_id(id) ? id : NULL, INVALID_REQUEST,
                   "the message is no request of JSON-RPC 2.0");
    else if (method && id)
        request(server, id, method, json_member(tree, "params"));
    else if (method)
        notification(server, method, json_member(tree, "params"));
    json_tree_free(tree);
}

/* ---- the loop ---- */

/* What is still to be done where no message waits; false: nothing. */
static bool work_left(const Server *server, bool plans) {
    for (const Document *d = server->documents; d; d = d->next)
        if (!d->published || (plans && !d->checked)) return true;
    return false;
}

/* Whether kernels can be made of the steps of one document. */
static void check_plans(Server *server) {
    for (Document *document = server->documents; document; document = document->next) {
        if (document->checked) continue;
        document->checked = true;
        if (!document_analyse(server, document)) continue;
        ls_compilation_check(document->compilation);
        if (ls_compilation_diagnostic_count(document->compilation) != document->reported)
            publish(server, document);
        return;
    }
}

static void publish_next(Server *server) {
    Document *document = server->documents;
    while (document && document->published) document = document->next;
    if (document) publish(server, document);
}

static void serve(Server *server) {
    while (!server->left) {
        const char *body;
        size_t size;
        const int wait = work_left(server, false) ? 0 : work_left(server, true) ? IDLE_MS : -1;
        switch (channel_read(&server->channel, wait, &body, &size)) {
        case RECEIVED_MESSAGE: message(server, body, size); break;
        case RECEIVED_BROKEN:
            send_error(server, NULL, PARSE_ERROR, "expected a header with Content-Length");
            break;
        case RECEIVED_END: server->left = true; break;
        case RECEIVED_NOTHING:
            if (wait == 0)
                publish_next(server);
            else
                check_plans(server);
        }
    }
}

static void free_list(char **list, size_t count) {
    for (size_t i = 0; i < count; i++) free(list[i]);
    free(list);
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    const Common *common = &invocation->common;
    Server server = {.invocation = invocation, .peak = options->peak};
    if (invocation->argument_count) return usage_error(invocation->command, "it takes no argument");
    for (size_t i = 0; i < common->import_paths.count; i++) {
        char *path = realpath(common->import_paths.items[i], NULL);
        add_text(
            &server.import_paths, &server.import_path_count,
            path ? path
                 : copy_text(common->import_paths.items[i], strlen(common->import_paths.items[i])));
    }
    Failure failure;
    if (!add_sizes(&server, &options->sizes, &failure)) return report(&failure);
    signal(SIGPIPE, SIG_IGN); /* writing fails, and the server ends */
    serve(&server);
    while (server.documents) document_close(&server, server.documents);
    free_list(server.import_paths, server.import_path_count);
    free_list(server.folders, server.folder_count);
    free_list(server.sizes, server.size_count);
    library_close(&server);
    channel_close(&server.channel);
    free(server.unmeasured);
    return server.shut_down ? STATUS_DONE : STATUS_INPUT;
}

static const Option lsp_options[] = {
    {0, "size", "AXIS=LENGTH,...", OPTION_LIST, offsetof(Options, sizes),
     "axis lengths for the bytes and times of code lenses, n=64M; an axis that\n"
     "has none counts as 1024"},
    {0, "peak", "GB/s", OPTION_NUMBER, offsetof(Options, peak),
     "memory speed, to predict times from, instead of what is measured"},
};

const Command command_lsp = {
    .name = "lsp",
    .summary = "a language server for editors, on standard input and output",
    .arguments = "",
    .details =
        "Speaks the Language Server Protocol 3.17: errors while typing, hover with type, axes and\n"
        "error bound, completion of names and of the standard library, definition, references,\n"
        "rename, formatting, hints of inferred types and a line above each step with its\n"
        "launches, bytes, and the time on this CPU that `lockstep advise` predicts. An editor "
        "starts it; initializationOptions may have\n"
        "{\"sizes\": {\"n\": \"16M\"}, \"peak\": 40}, as --size and --peak. Exits with 0 after\n"
        "`shutdown` and `exit`, with 1 where the input ends without.",
    .examples = "  lockstep lsp\n"
                "  lockstep lsp -I steps --size n=16M --peak 40",
    .options = lsp_options,
    .option_count = COUNT(lsp_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .run = run,
};
