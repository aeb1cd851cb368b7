/* lsp_text.c: places in a text and names of files, between how clients and the compiler say them.
 *
 * A client's lines end with \n, \r\n or \r, and characters are counted in units of UTF-16 or of
 * UTF-8; the compiler's places are bytes, its diagnostics' columns characters. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

TextLines lines_open(const char *text, size_t size) {
    TextLines lines = {.text = text, .size = size};
    size_t capacity = 0;
    for (size_t at = 0, start = 1; at <= size; at++) {
        if (start) {
            if (lines.count == capacity) {
                capacity = capacity ? 2 * capacity : 64;
                lines.starts = memory_grow(lines.starts, capacity, sizeof *lines.starts);
            }
            lines.starts[lines.count++] = at;
        }
        start = at < size && (text[at] == '\n' ||
                              (text[at] == '\r' && (at + 1 == size || text[at + 1] != '\n')));
    }
    return lines;
}

void lines_close(TextLines *lines) {
    free(lines->starts);
    *lines = (TextLines){0};
}

/* Bytes of the character at `at`; what is no UTF-8 counts as a character each. */
static size_t character_size(const char *text, size_t size, size_t at) {
    const unsigned char lead = (unsigned char)text[at];
    const size_t wanted = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    return wanted <= size - at && text_is_utf8(text + at, wanted) ? wanted : 1;
}

static uint32_t units_of(size_t bytes, Encoding encoding) {
    return encoding == ENCODING_UTF8 ? (uint32_t)bytes : bytes == 4 ? 2 : 1;
}

Position lines_position(const TextLines *lines, size_t offset, Encoding encoding) {
    size_t low = 0, high = lines->count;
    Position position = {0};
    if (offset > lines->size) offset = lines->size;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (lines->starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    position.line = (uint32_t)low;
    for (size_t at = lines->starts[low]; at < offset;) {
        const size_t bytes = character_size(lines->text, lines->size, at);
        position.character += units_of(bytes, encoding);
        at += bytes;
    }
    return position;
}

size_t lines_offset(const TextLines *lines, Position position, Encoding encoding) {
    if (position.line >= lines->count) return lines->size;
    size_t at = lines->starts[position.line];
    for (uint32_t units = 0; at < lines->size && units < position.character;) {
        if (lines->text[at] == '\n' || lines->text[at] == '\r') break;
        const size_t bytes = character_size(lines->text, lines->size, at);
        units += units_of(bytes, encoding);
        if (units > position.character) break; /* in the middle of a character */
        at += bytes;
    }
    return at;
}

size_t character_offset(const char *text, size_t size, uint32_t line, uint32_t column) {
    size_t at = 0;
    for (; line > 1; line--) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end) return size;
        at = (size_t)(end - text) + 1;
    }
    for (; column > 1 && at < size && text[at] != '\n'; column--)
        at += character_size(text, size, at);
    return at;
}

/* ---- names of files ---- */

static int hex_digit(char c) {
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

char *path_of_uri(const char *uri) {
    static const char scheme[] = "file://";
    Buffer path = {0};
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0) return copy_text(uri, strlen(uri));
    const char *at = uri + sizeof scheme - 1;
    at += strcspn(at, "/"); /* the host, if any, is this one */
    for (; *at; at++) {
        const int high = *at == '%' ? hex_digit(at[1]) : -1;
        const int low = high >= 0 ? hex_digit(at[2]) : -1;
        const int value = low >= 0 ? high * 16 + low : 0;
        const char c = value ? (char)value : *at;
        buffer_add(&path, &c, 1);
        if (value) at += 2;
    }
    buffer_puts(&path, "");
    return path.data ? path.data : copy_text("", 0);
}

char *uri_of_path(const char *path) {
    Buffer uri = {0};
    if (path[0] != '/') return copy_text(path, strlen(path));
    buffer_puts(&uri, "file://");
    for (const char *at = path; *at; at++) {
        if (isalnum((unsigned char)*at) || strchr("/-._~", *at))
            buffer_add(&uri, at, 1);
        else
            buffer_printf(&uri, "%%%02X", (unsigned char)*at);
    }
    return uri.data;
}
