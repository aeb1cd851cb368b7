/* unpack.c: machine code and PTX that a file built ahead of time holds in packed form. The format
 * stands in image.h, at ls_image_packed; the compiler packs. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

/* What is left of a text of base 85, and the bytes of its last group that are not read yet; or of
 * bytes as they are. */
typedef struct Source {
    const uint8_t *bytes, *bytes_end; /* NULL: it is a text */
    const char *const *pieces;
    const char *at;
    uint8_t group[4];
    size_t left;
    bool damaged;
} Source;

static int next_digit(Source *s) {
    while (s->at && !*s->at) s->at = *++s->pieces;
    if (!s->at || *s->at < '#' || *s->at > 'y') return -1;
    const char c = *s->at++;
    return c - '#' - (c > '?') - (c > '\\');
}

static uint8_t next_byte(Source *s) {
    if (s->bytes) {
        if (s->bytes < s->bytes_end) return *s->bytes++;
        s->damaged = true;
        return 0;
    }
    if (!s->left) {
        uint64_t value = 0;
        for (int i = 0; i < 5; i++) {
            const int digit = next_digit(s);
            s->damaged |= digit < 0;
            value = 85 * value + (uint64_t)digit;
        }
        for (int i = 0; i < 4; i++) s->group[i] = (uint8_t)(value >> 8 * (3 - i));
        s->left = 4;
    }
    return s->group[4 - s->left--];
}

static size_t next_number(Source *s) {
    size_t number = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        const uint8_t byte = next_byte(s);
        number |= (size_t)(byte & 127) << shift;
        if (byte < 128) return number;
    }
    s->damaged = true;
    return 0;
}

/* Reads a copy's distance, a new one or one of the recent ones, and moves it to the front of the
 * recent ones. */
static size_t next_distance(Source *s, size_t *recent) {
    const size_t number = next_number(s);
    size_t place = number < LS_PACKED_RECENT ? number : LS_PACKED_RECENT - 1;
    const size_t distance =
        number < LS_PACKED_RECENT ? recent[number] : number - LS_PACKED_RECENT + 1;
    for (; place > 0; place--) recent[place] = recent[place - 1];
    recent[0] = distance;
    return distance;
}

static bool unpack(Source *s, uint8_t *to, size_t end) {
    size_t recent[LS_PACKED_RECENT] = {0}, at = 0;
    while (at < end) {
        const uint8_t token = next_byte(s);
        size_t literals = token >> 4, copied = token & 15;
        if (literals == 15) literals += next_number(s);
        if (s->damaged) return false;
        for (; literals && at < end && !s->damaged; literals--) to[at++] = next_byte(s);
        if (at == end) break;
        if (copied == 15) copied += next_number(s);
        copied += LS_PACKED_COPY_MIN;
        const size_t distance = next_distance(s, recent);
        if (s->damaged || distance == 0 || distance > at) return false;
        for (; copied && at < end; copied--, at++) to[at] = to[at - distance];
    }
    return !s->damaged;
}

static int unpack_part(Source *source, size_t begin, size_t size, void **code) {
    uint8_t *const all = size < SIZE_MAX - begin ? malloc(begin + size + 1) : NULL;
    *code = NULL;
    if (!all) return 0;
    if (!unpack(source, all, begin + size)) {
        free(all);
        return -1;
    }
    memmove(all, all + begin, size);
    all[size] = 0;
    void *const kept = realloc(all, size + 1);
    *code = kept ? kept : all;
    return 1;
}

int ls_image_unpack(const ls_image_variant *variant, void **code) {
    Source source = {.pieces = variant->packed->text, .at = variant->packed->text[0]};
    return unpack_part(&source, variant->packed_at, variant->code_size, code);
}

int ls_image_unpack_bytes(const void *packed, size_t packed_size, size_t at, size_t size,
                          void **code) {
    const uint8_t *const bytes = packed;
    Source source = {.bytes = bytes, .bytes_end = bytes + packed_size};
    return unpack_part(&source, at, size, code);
}
