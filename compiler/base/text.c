/* text.c: text that grows in an arena and is zero-terminated at all times. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

Text text_open(Arena *arena) {
    return (Text){.arena = arena, .data = arena_alloc(arena, 64), .capacity = 64};
}

/* Makes room for `size` more bytes and the terminator. */
static void reserve(Text *text, size_t size) {
    if (text->capacity - text->size > size) return;
    size_t capacity = text->capacity;
    while (capacity - text->size <= size) {
        if (capacity > SIZE_MAX / 4)
            compiler_fail(text->arena->compiler, LS_ERROR_MEMORY, "out of memory for a text");
        capacity *= 2;
    }
    char *data = arena_alloc(text->arena, capacity);
    memcpy(data, text->data, text->size + 1);
    text->data = data;
    text->capacity = capacity;
}

void text_add(Text *text, const char *bytes, size_t size) {
    if (size == 0) return;
    reserve(text, size);
    memcpy(text->data + text->size, bytes, size);
    text->size += size;
    text->data[text->size] = 0;
}

void text_puts(Text *text, const char *string) {
    text_add(text, string, strlen(string));
}

void text_printf(Text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_vprintf(text, format, arguments);
    va_end(arguments);
}

void text_vprintf(Text *text, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const size_t room = text->capacity - text->size;
    int size = vsnprintf(text->data + text->size, room, format, arguments);
    if (size < 0) {
        va_end(again);
        text->data[text->size] = 0;
        bug(text->arena->compiler, "a message could not be printed: '%s'", format);
    }
    if ((size_t)size >= room) { /* what was cut off, once more */
        text->data[text->size] = 0;
        reserve(text, (size_t)size);
        vsnprintf(text->data + text->size, (size_t)size + 1, format, again);
    }
    va_end(again);
    text->size += (size_t)size;
}

/* Bytes of the UTF-8 character at `s`, 0 when the bytes are none (overlong forms and surrogates
 * too). */
size_t utf8_length(const char *s, size_t size) {
    const unsigned char *u = (const unsigned char *)s;
    if (size == 0) return 0;
    if (u[0] < 0x80) return 1;
    size_t length = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || length > size) return 0;
    for (size_t i = 1; i < length; i++)
        if ((u[i] & 0xc0) != 0x80) return 0;
    bool overlong = (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xf0 && u[1] < 0x90);
    bool beyond = (u[0] == 0xed && u[1] >= 0xa0) || (u[0] == 0xf4 && u[1] >= 0x90);
    return overlong || beyond ? 0 : length;
}

/* A byte that is no UTF-8 becomes U+FFFD, so that the result is always JSON. */
void text_json(Text *text, const char *string) {
    static const struct {
        char character;
        const char *escape;
    } escapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}};
    text_puts(text, "\"");
    size_t size = strlen(string);
    for (size_t i = 0; i < size;) {
        size_t length = utf8_length(string + i, size - i);
        const char *escape = NULL;
        for (size_t e = 0; e < COUNT(escapes); e++)
            if (string[i] == escapes[e].character) escape = escapes[e].escape;
        if (escape)
            text_puts(text, escape);
        else if (length == 0)
            text_puts(text, "\\ufffd");
        else if ((unsigned char)string[i] < 0x20 || string[i] == 0x7f)
            text_printf(text, "\\u%04x", (unsigned)(unsigned char)string[i]);
        else
            text_add(text, string + i, length);
        i += length ? length : 1;
    }
    text_puts(text, "\"");
}
