/* lsp.h: what the files of `lockstep lsp` share. Include files.h, command.h and advise.h first.
 *
 * One thread: a message is read, answered and forgotten. Documents are analysed when they are asked
 * about, or when no message waits; what is about plans (whether kernels can be made of a step) when
 * none has come for a while. */
#ifndef LSP_H
#define LSP_H

#include <lockstep/index.h>

/* lsp_json.c: a message as a tree. */
typedef struct JsonValue JsonValue;
struct JsonValue {
    char kind; /* '{', '[', '"', or 0 of what stands as it is written: numbers, true, false, null */
    char *key; /* of a member */
    char *text; /* of a string, and of kind 0 */
    JsonValue *first, *next;
};
JsonValue *json_tree(const char *text, size_t size, const char **problem); /* NULL: not JSON */
void json_tree_free(JsonValue *value);
/* A member by its path, "textDocument.uri"; NULL where there is none, and of a NULL. */
const JsonValue *json_member(const JsonValue *value, const char *path);
const char *json_text_at(const JsonValue *value, const char *path); /* NULL: no string */
bool json_number_at(const JsonValue *value, const char *path, double *number);
bool json_true_at(const JsonValue *value, const char *path);
void json_write(JsonWriter *json, const char *key, const JsonValue *value); /* as it was read */

/* lsp_channel.c: messages with a header, on standard input and output. */
typedef enum Received {
    RECEIVED_MESSAGE,
    RECEIVED_NOTHING, /* in that time */
    RECEIVED_BROKEN,  /* a header that is none; reading goes on at the next one */
    RECEIVED_END
} Received;
typedef struct Channel {
    Buffer input;
    size_t at; /* what stands before it is read */
    bool ended;
} Channel;
/* Waits at most `wait` milliseconds, -1: as long as it takes. The body is valid until the next
 * call. */
Received channel_read(Channel *channel, int wait, const char **body, size_t *size);
bool channel_write(const Buffer *body); /* false: nobody reads any more */
void channel_close(Channel *channel);

/* lsp_text.c: places in a text, as clients count, and names of files. */
typedef enum Encoding { ENCODING_UTF16, ENCODING_UTF8 } Encoding;
typedef struct TextLines {
    const char *text;
    size_t size;
    size_t *starts; /* of each line */
    size_t count;
} TextLines;
typedef struct Position {
    uint32_t line, character;
} Position;
TextLines lines_open(const char *text, size_t size);
void lines_close(TextLines *lines);
Position lines_position(const TextLines *lines, size_t offset, Encoding encoding);
/* What is behind the end of a line is its end. */
size_t lines_offset(const TextLines *lines, Position position, Encoding encoding);
/* Of a diagnostic: a line that a newline ends, and a character within it, both from 1. */
size_t character_offset(const char *text, size_t size, uint32_t line, uint32_t column);
char *path_of_uri(const char *uri); /* of what is no file the URI itself; the caller's */
char *uri_of_path(const char *path);

/* lsp_document.c: what the client has open. */
typedef struct Document {
    char *uri, *path;
    Buffer text;
    TextLines lines;
    bool has_version;
    double version;
    ls_compilation *compilation; /* NULL: not analysed since a text changed */
    const ls_index *index;
    bool checked;    /* plans too */
    bool published;  /* what is known of it now */
    size_t reported; /* how many diagnostics the client has */
    struct Document *next;
} Document;

typedef struct Server {
    const Invocation *invocation;
    Channel channel;
    Document *documents;
    char **import_paths; /* -I, absolute */
    size_t import_path_count;
    char **folders; /* of the workspace */
    size_t folder_count;
    char **sizes; /* of axes, for code lenses: "n=16M" */
    size_t size_count;
    double peak;                 /* GB/s of the memory; 0: to be measured */
    Measured measured;           /* the machine of predicted times; no rates: not measured yet */
    char *unmeasured;            /* why it cannot be */
    struct LibraryName *library; /* of lsp_complete.c, once it was asked for */
    size_t library_count;
    Encoding encoding;
    bool initialized, shut_down, left; /* left: `exit` has come, or the input's end */
} Server;

Document *document_find(const Server *server, const char *uri);
Document *document_of_path(const Server *server, const char *path);
Document *document_open(Server *server, const char *uri, const char *text);
void document_close(Server *server, Document *document);
/* The text has changed: this one, and those that import it, are to be analysed again. */
void document_changed(Server *server, Document *document);
bool document_edit(Server *server, Document *document, const JsonValue *change);
/* Compiles a text with the texts of the open documents, and `others` before these. */
ls_status server_compile(const Server *server, const char *path, const char *text, size_t size,
                         const ls_source *others, size_t other_count, ls_compilation **compilation);
bool document_analyse(Server *server, Document *document); /* false: there is no index */
/* The client's range of a place in one of an analysed document's files. */
typedef struct FileLines {
    const Server *server;
    const ls_index *index;
    TextLines *lines; /* by file, as they are needed */
} FileLines;
FileLines file_lines_open(const Server *server, const ls_index *index);
void file_lines_close(FileLines *files);
void write_range(JsonWriter *json, const char *key, FileLines *files, ls_place place);
void write_location(JsonWriter *json, const char *key, FileLines *files, ls_place place);
void write_positions(JsonWriter *json, const char *key, Position from, Position to);
/* The URI of a file: of one of the library, of a copy in the cache that is written when needed. The
 * caller's. */
char *file_uri(const Server *server, const ls_index_file *file);

/* lsp_diagnostics.c */
void publish(Server *server, Document *document);
void publish_nothing(Server *server, const char *uri); /* of a document that is closed */

/* lsp_names.c: which name stands somewhere. */
typedef struct Cursor {
    Document *document;
    size_t offset;
    const ls_mention *mention; /* at the offset, or right before it; NULL: none */
} Cursor;
/* False: there is no such document, or it has no index. */
bool cursor_read(Server *server, const JsonValue *parameters, Cursor *cursor);
/* Whether a definition of one index is that of another. */
bool same_definition(const ls_index *a, size_t in_a, const ls_index *b, size_t in_b);
/* Calls `visit` with every program that may mention a definition: the open documents and, of what
 * other files can say, those of the workspace's folders. */
typedef void Visit(void *user, const char *path, const char *text, size_t size,
                   ls_compilation *compilation, const ls_index *index);
void visit_programs(Server *server, Document *document, const ls_definition *definition,
                    Visit *visit, void *user);

/* lsp_complete.c: lets go of the names of the library; the number of what a name means at an
 * offset, -1: nothing; the bracket of the call around it, with how many commas stand before the
 * offset; and the function in front of that.
 */
void library_close(Server *server);
long visible_name(const Document *document, size_t offset, const char *name, size_t size);
bool call_around(const char *text, size_t offset, size_t *open, size_t *commas);
long called_name(const Document *document, size_t open);

/* What answers a request. The result is one value, or nothing with `code` and a message set. */
typedef struct Reply {
    JsonWriter result;
    int code; /* 0: no error */
    Buffer message;
} Reply;
enum {
    PARSE_ERROR = -32700,
    INVALID_REQUEST = -32600,
    METHOD_NOT_FOUND = -32601,
    INVALID_PARAMETERS = -32602,
    INTERNAL_ERROR = -32603,
    NOT_INITIALIZED = -32002,
    REQUEST_FAILED = -32803
};
void reply_error(Reply *reply, int code, const char *format, ...) PRINTF_LIKE(3, 4);
typedef void Answer(Server *server, const JsonValue *parameters, Reply *reply);
Answer answer_hover, answer_completion, answer_definition, answer_references, answer_highlight,
    answer_symbols, answer_prepare_rename, answer_rename, answer_formatting, answer_inlay,
    answer_lens, answer_lens_resolve, answer_signature;

#endif
