/* json.c: JSON out, indented by two spaces, and JSON in, strictly by RFC 8259.
 *
 * The reader is a cursor: callers enter an object or array and request what they expect; nothing is
 * built. Whatever is not JSON (trailing commas, comments, leading zeros, lone surrogates, bytes
 * that are not UTF-8) is refused, not repaired. Keys that repeat are the caller's to notice. */
#include "files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- writer ---- */

void json_quote(Buffer *out, const char *text) {
    buffer_puts(out, "\"");
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            buffer_printf(out, "\\%c", c);
        else if (c == '\n')
            buffer_puts(out, "\\n");
        else if (c == '\t')
            buffer_puts(out, "\\t");
        else if (c < 0x20 || c == 0x7f)
            buffer_printf(out, "\\u%04x", c);
        else
            buffer_add(out, at, 1);
    }
    buffer_puts(out, "\"");
}

/* Where text is not UTF-8 (a file name may be anything) each stray byte becomes U+FFFD. */
static void quote_any(Buffer *out, const char *text) {
    if (text_is_utf8(text, strlen(text))) {
        json_quote(out, text);
        return;
    }
    Buffer clean = {0};
    for (const char *at = text; *at;) {
        size_t size = 1;
        while (size < 4 && at[size - 1] && !text_is_utf8(at, size)) size++;
        bool good = at[size - 1] && text_is_utf8(at, size);
        buffer_add(&clean, good ? at : "\xef\xbf\xbd", good ? size : 3);
        at += good ? size : 1;
    }
    json_quote(out, clean.data);
    buffer_free(&clean);
}

static void member(JsonWriter *json, const char *key) {
    if (json->filled) buffer_puts(&json->text, ",");
    if (json->depth) buffer_printf(&json->text, "\n%*s", (int)(2 * json->depth), "");
    if (key) {
        quote_any(&json->text, key);
        buffer_puts(&json->text, ": ");
    }
    json->filled = true;
}

void json_open(JsonWriter *json, const char *key, char bracket) {
    member(json, key);
    buffer_add(&json->text, &bracket, 1);
    json->depth++;
    json->filled = false;
}

void json_close(JsonWriter *json, char bracket) {
    json->depth--;
    if (json->filled) buffer_printf(&json->text, "\n%*s", (int)(2 * json->depth), "");
    buffer_add(&json->text, &bracket, 1);
    if (json->depth == 0) buffer_puts(&json->text, "\n");
    json->filled = true;
}

void json_string(JsonWriter *json, const char *key, const char *value) {
    member(json, key);
    if (value)
        quote_any(&json->text, value);
    else
        buffer_puts(&json->text, "null");
}

void json_number(JsonWriter *json, const char *key, double value) {
    char text[40] = "null";
    if (isfinite(value)) double_print(value, text, sizeof text);
    json_raw(json, key, text);
}

void json_integer(JsonWriter *json, const char *key, int64_t value) {
    member(json, key);
    buffer_printf(&json->text, "%lld", (long long)value);
}

void json_boolean(JsonWriter *json, const char *key, bool value) {
    json_raw(json, key, value ? "true" : "false");
}

void json_raw(JsonWriter *json, const char *key, const char *text) {
    member(json, key);
    buffer_puts(&json->text, text);
}
