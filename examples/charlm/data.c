/* data.c: reads a text and gives its characters (bytes) small numbers. */
#include "charlm.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALIDATION_SHARE = 10, LEAST = 1000 };

static bool read_file(const char *path, uint8_t **data, size_t *size) {
    FILE *file = fopen(path, "rb");
    size_t capacity = 1 << 20, got;
    *data = NULL;
    *size = 0;
    if (!file)
        return fail("%s cannot be read: %s; --text names another text", path, strerror(errno));
    bool ok = true;
    do {
        uint8_t *grown = realloc(*data, capacity);
        if (!grown) {
            ok = fail("out of memory reading %s", path);
            break;
        }
        *data = grown;
        got = fread(*data + *size, 1, capacity - *size, file);
        *size += got;
        if (*size == capacity) capacity *= 2;
    } while (got > 0);
    if (ok && ferror(file)) ok = fail("%s cannot be read: %s", path, strerror(errno));
    fclose(file);
    return ok;
}

bool text_read(const char *path, Text *text) {
    size_t counts[256] = {0};
    *text = (Text){.hash = 0xcbf29ce484222325u};
    if (!read_file(path, &text->letters, &text->size)) {
        text_close(text);
        return false;
    }
    if (text->size < LEAST) {
        fail("%s has %zu characters; a text to learn from needs %d", path, text->size, LEAST);
        text_close(text);
        return false;
    }
    uint8_t number[256] = {0};
    for (size_t i = 0; i < text->size; i++) counts[text->letters[i]]++;
    for (int c = 0; c < 256; c++) {
        if (!counts[c]) continue;
        const double share = (double)counts[c] / (double)text->size;
        text->entropy -= share * log(share);
        number[c] = (uint8_t)text->count;
        text->alphabet[text->count++] = (unsigned char)c;
    }
    for (size_t i = 0; i < text->size; i++) {
        text->hash = (text->hash ^ text->letters[i]) * 0x100000001b3u; /* FNV-1a */
        text->letters[i] = number[text->letters[i]];
    }
    text->training = text->size - text->size / VALIDATION_SHARE;
    return true;
}

bool text_encode(const Text *text, const char *string, uint8_t *letters) {
    for (; *string; string++) {
        const unsigned char *found =
            memchr(text->alphabet, (unsigned char)*string, (size_t)text->count);
        if (!found) return false;
        *letters++ = (uint8_t)(found - text->alphabet);
    }
    return true;
}

void text_close(Text *text) {
    free(text->letters);
    *text = (Text){0};
}
