/* json.c: JSON out, indented by two spaces, and JSON in, strictly by RFC 8259.
 *
 * The reader is a cursor: callers enter an object or array and ask for what they expect; nothing is
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

/* ---- reader ---- */

enum { DEPTH_MAX = 64 };

JsonReader json_reader(const char *text, size_t size) {
    return (JsonReader){.start = text, .at = text, .end = text + size};
}

static bool refuse(JsonReader *json, const char *expected) {
    if (!json->error) json->error = expected;
    return false;
}

static void spaces(JsonReader *json) {
    while (json->at < json->end && memchr(" \t\r\n", *json->at, 4)) json->at++;
}

/* The next byte that is no space, or 0 at the end. A zero byte in the text is refused wherever a
 * specific byte is expected. */
static char peek(JsonReader *json) {
    spaces(json);
    return json->at < json->end && !json->error ? *json->at : '\0';
}

static bool take(JsonReader *json, char wanted, const char *expected) {
    if (json->error) return false;
    if (peek(json) != wanted) return refuse(json, expected);
    json->at++;
    return true;
}

bool json_enter(JsonReader *json, char bracket) {
    if (json->depth == DEPTH_MAX) return refuse(json, "fewer than 64 levels of nesting");
    if (!take(json, bracket, bracket == '{' ? "an object" : "an array")) return false;
    json->depth++;
    return true;
}

bool json_more(JsonReader *json, char bracket, size_t index) {
    char close = bracket == '{' ? '}' : ']';
    if (json->error) return false;
    if (peek(json) == close) {
        json->at++;
        json->depth--;
        return false;
    }
    if (index == 0) return true;
    return take(json, ',', bracket == '{' ? "a comma or '}'" : "a comma or ']'");
}

static bool hex4(JsonReader *json, uint32_t *code) {
    if (json->end - json->at < 4) return refuse(json, "four hexadecimal digits");
    *code = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = *json->at;
        if (c >= 'A' && c <= 'F') c = (char)(c - 'A' + 'a');
        const char *digit = c ? strchr(digits, c) : NULL;
        if (!digit) return refuse(json, "four hexadecimal digits");
        *code = *code * 16 + (uint32_t)(digit - digits);
        json->at++;
    }
    return true;
}

static void add_code(Buffer *out, uint32_t code) {
    char bytes[4];
    size_t size;
    if (code < 0x80) {
        bytes[0] = (char)code;
        size = 1;
    } else {
        size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (size_t i = size - 1; i > 0; i--, code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3f));
        bytes[0] = (char)(lead[size] | code);
    }
    buffer_add(out, bytes, size);
}

static bool escape(JsonReader *json, Buffer *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end) return refuse(json, "the rest of an escape");
    char c = *json->at++;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        buffer_add(out, &to[simple - from], 1);
        return true;
    }
    uint32_t code, low;
    if (c != 'u') return refuse(json, "a known escape");
    if (!hex4(json, &code)) return false;
    if (code >= 0xd800 && code < 0xe000) {
        bool pair = code < 0xdc00 && json->end - json->at >= 2 && memcmp(json->at, "\\u", 2) == 0;
        if (!pair) return refuse(json, "a surrogate pair");
        json->at += 2;
        if (!hex4(json, &low)) return false;
        if (low < 0xdc00 || low >= 0xe000) return refuse(json, "a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0) return refuse(json, "a string without a zero character");
    add_code(out, code);
    return true;
}

bool json_read_string(JsonReader *json, char **text) {
    Buffer out = {0};
    *text = NULL;
    if (!take(json, '"', "a string")) return false;
    buffer_add(&out, "", 0);
    for (;;) {
        const char *begin = json->at;
        while (json->at < json->end && (unsigned char)*json->at >= 0x20 && *json->at != '"' &&
               *json->at != '\\')
            json->at++;
        size_t size = (size_t)(json->at - begin);
        if (!text_is_utf8(begin, size)) {
            refuse(json, "UTF-8");
            break;
        }
        buffer_add(&out, begin, size);
        if (json->at == json->end) {
            refuse(json, "the closing quote of a string");
            break;
        }
        char c = *json->at++;
        if (c == '"') {
            *text = out.data;
            return true;
        }
        if (c != '\\') {
            json->at--;
            refuse(json, "a string without control characters");
            break;
        }
        if (!escape(json, &out)) break;
    }
    buffer_free(&out);
    return false;
}

bool json_key(JsonReader *json, char **key) {
    if (!json_read_string(json, key)) return false;
    if (take(json, ':', "a colon")) return true;
    free(*key);
    *key = NULL;
    return false;
}

bool json_read_unsigned(JsonReader *json, uint64_t *number) {
    uint64_t value = 0;
    char c = peek(json);
    if (c < '0' || c > '9') return refuse(json, "a whole number that is not negative");
    const char *begin = json->at;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        uint64_t digit = (uint64_t)(*json->at - '0');
        if (value > (UINT64_MAX - digit) / 10) return refuse(json, "a number below 2^64");
        value = value * 10 + digit;
    }
    if (*begin == '0' && json->at - begin > 1)
        return refuse(json, "a number without leading zeros");
    if (json->at < json->end && memchr(".eE", *json->at, 3)) return refuse(json, "a whole number");
    *number = value;
    return true;
}

static bool digits(JsonReader *json) {
    const char *begin = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9') json->at++;
    return json->at > begin || refuse(json, "a digit");
}

static bool skip_number(JsonReader *json) {
    if (*json->at == '-') json->at++;
    const char *begin = json->at;
    if (!digits(json)) return false;
    if (*begin == '0' && json->at - begin > 1)
        return refuse(json, "a number without leading zeros");
    if (json->at < json->end && *json->at == '.') {
        json->at++;
        if (!digits(json)) return false;
    }
    if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
        json->at++;
        if (json->at < json->end && (*json->at == '+' || *json->at == '-')) json->at++;
        if (!digits(json)) return false;
    }
    return true;
}

bool json_skip(JsonReader *json) {
    char c = peek(json);
    if (c == '{' || c == '[') {
        if (!json_enter(json, c)) return false;
        for (size_t i = 0; json_more(json, c, i); i++) {
            char *key = NULL;
            if (c == '{' && !json_key(json, &key)) return false;
            free(key);
            if (!json_skip(json)) return false;
        }
        return !json->error;
    }
    if (c == '"') {
        char *text;
        if (!json_read_string(json, &text)) return false;
        free(text);
        return true;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return skip_number(json);
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < COUNT(words); i++) {
        size_t size = strlen(words[i]);
        if ((size_t)(json->end - json->at) >= size && memcmp(json->at, words[i], size) == 0) {
            json->at += size;
            return !json->error;
        }
    }
    return refuse(json, "a value");
}

bool json_end(JsonReader *json) {
    if (json->error) return false;
    spaces(json);
    return json->at == json->end || refuse(json, "the end");
}
