/* json_read.c: a strict reader of JSON that allocates only the strings it is asked for. */
#include <stdlib.h>
#include <string.h>

#include "json_read.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A string being read; nothing is added after an allocation failed. */
typedef struct String {
    char *data;
    size_t size, capacity;
    bool failed;
} String;

static void string_add(String *string, const char *bytes, size_t size) {
    if (string->failed) return;
    if (size > string->capacity - string->size) {
        size_t capacity = string->capacity ? 2 * string->capacity : 64;
        while (capacity - string->size < size) capacity *= 2;
        char *grown = realloc(string->data, capacity);
        string->failed = !grown;
        if (!grown) return;
        string->data = grown;
        string->capacity = capacity;
    }
    if (size) memcpy(string->data + string->size, bytes, size);
    string->size += size;
}

bool text_is_utf8(const char *text, size_t size) {
    const unsigned char *at = (const unsigned char *)text, *end = at + size;
    while (at < end) {
        unsigned char lead = *at++;
        if (lead < 0x80) continue;
        unsigned more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        if (lead < 0xc2 || lead > 0xf4 || (size_t)(end - at) < more) return false;
        unsigned char next = *at;
        if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
            (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f))
            return false; /* overlong, surrogate, past U+10FFFF */
        for (; more; more--)
            if ((*at++ & 0xc0) != 0x80) return false;
    }
    return true;
}

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

static void add_code(String *out, uint32_t code) {
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
    string_add(out, bytes, size);
}

static bool escape(JsonReader *json, String *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end) return refuse(json, "the rest of an escape");
    char c = *json->at++;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        string_add(out, &to[simple - from], 1);
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
    String out = {0};
    *text = NULL;
    if (!take(json, '"', "a string")) return false;
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
        string_add(&out, begin, size);
        if (json->at == json->end) {
            refuse(json, "the closing quote of a string");
            break;
        }
        char c = *json->at++;
        if (c == '"') {
            string_add(&out, "", 1);
            if (out.failed) break;
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
    json->no_memory |= out.failed;
    if (out.failed) refuse(json, "read with more memory");
    free(out.data);
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
