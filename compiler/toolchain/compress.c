/* compress.c: packs the code of the variants of a file built ahead of time, as image.h says at
 * ls_image_packed. Variants of a step have most of their code in common, so the window is all that
 * comes before. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "toolchain/toolchain.h"

enum {
    HASH_BITS = 18,
    TRIES_MAX = 256, /* of earlier places with the same hash */
    DIGITS_OF_GROUP = 5,
    BYTES_OF_GROUP = 4,
    TOKEN_MAX = 15
};

/* A copy of what stands `distance` bytes before. */
typedef struct Copy {
    size_t size, distance;
    int64_t gain; /* bytes that it saves */
} Copy;

typedef struct Compressor {
    const unsigned char *data;
    size_t size;
    uint32_t *newest; /* by hash: 1 + the last place, or 0 */
    uint32_t *older;  /* by place: 1 + the one before it with the same hash, or 0 */
    size_t recent[LS_PACKED_RECENT];
    Text out;
} Compressor;

static void add_byte(Compressor *c, size_t byte) {
    const char value = (char)byte;
    text_add(&c->out, &value, 1);
}

static void add_number(Compressor *c, size_t number) {
    for (; number >= 128; number >>= 7) add_byte(c, (number & 127) | 128);
    add_byte(c, number);
}

static int64_t number_size(size_t number) {
    int64_t size = 1;
    for (; number >= 128; number >>= 7) size++;
    return size;
}

static uint32_t hash_of(const Compressor *c, size_t place) {
    uint32_t four;
    memcpy(&four, c->data + place, sizeof four);
    return four * 2654435761u >> (32 - HASH_BITS);
}

static bool has_hash(const Compressor *c, size_t place) {
    return place + sizeof(uint32_t) <= c->size;
}

static void note_place(Compressor *c, size_t place) {
    if (!has_hash(c, place)) return;
    uint32_t *const newest = &c->newest[hash_of(c, place)];
    c->older[place] = *newest;
    *newest = (uint32_t)place + 1;
}

static void try_copy(const Compressor *c, size_t at, size_t distance, int64_t cost, Copy *best) {
    size_t size = 0;
    if (distance == 0 || distance > at) return;
    while (at + size < c->size && c->data[at + size] == c->data[at - distance + size]) size++;
    const int64_t gain = (int64_t)size - cost;
    if (size >= LS_PACKED_COPY_MIN && gain > best->gain) *best = (Copy){size, distance, gain};
}

static Copy find_copy(const Compressor *c, size_t at) {
    Copy best = {0};
    for (size_t i = 0; i < LS_PACKED_RECENT; i++) try_copy(c, at, c->recent[i], 1, &best);
    if (!has_hash(c, at)) return best;
    uint32_t place = c->newest[hash_of(c, at)];
    for (int i = 0; place && i < TRIES_MAX; i++, place = c->older[place - 1]) {
        const size_t distance = at - (place - 1);
        try_copy(c, at, distance, 1 + number_size(distance + LS_PACKED_RECENT - 1), &best);
    }
    return best;
}

static void add_distance(Compressor *c, size_t distance) {
    size_t place = 0;
    while (place < LS_PACKED_RECENT && c->recent[place] != distance) place++;
    add_number(c, place < LS_PACKED_RECENT ? place : distance + LS_PACKED_RECENT - 1);
    if (place == LS_PACKED_RECENT) place--;
    for (; place > 0; place--) c->recent[place] = c->recent[place - 1];
    c->recent[0] = distance;
}

/* A sequence of image.h: the literals between the two places, then the copy; NULL: no copy. */
static void add_sequence(Compressor *c, size_t from, size_t to, const Copy *copy) {
    const size_t literals = to - from, more = copy ? copy->size - LS_PACKED_COPY_MIN : 0;
    add_byte(c, (literals < TOKEN_MAX ? literals : TOKEN_MAX) << 4 |
                    (more < TOKEN_MAX ? more : TOKEN_MAX));
    if (literals >= TOKEN_MAX) add_number(c, literals - TOKEN_MAX);
    text_add(&c->out, (const char *)c->data + from, literals);
    if (!copy) return;
    if (more >= TOKEN_MAX) add_number(c, more - TOKEN_MAX);
    add_distance(c, copy->distance);
}

/* Lazy matching: if the match at the next byte is at least two bytes longer, this byte becomes a
 * literal. */
static void add_all(Compressor *c) {
    size_t literal = 0, at = 0;
    while (at < c->size) {
        const Copy copy = find_copy(c, at);
        note_place(c, at);
        if (!copy.size || (at + 1 < c->size && find_copy(c, at + 1).size > copy.size + 1)) {
            at++;
            continue;
        }
        add_sequence(c, literal, at, &copy);
        for (size_t i = 1; i < copy.size; i++) note_place(c, at + i);
        literal = at += copy.size;
    }
    add_sequence(c, literal, at, NULL);
}

static char digit_of(uint32_t value) {
    const char c = (char)('#' + value);
    return (char)(c + (c >= '?') + (c + (c >= '?') >= '\\'));
}

/* Bytes in base 85, the last group filled up with zeros. */
static Text digits_of(Arena *arena, const Text *bytes) {
    Text digits = text_open(arena);
    for (size_t at = 0; at < bytes->size; at += BYTES_OF_GROUP) {
        char group[DIGITS_OF_GROUP];
        uint32_t value = 0;
        for (size_t i = 0; i < BYTES_OF_GROUP; i++)
            value = value << 8 | (at + i < bytes->size ? (unsigned char)bytes->data[at + i] : 0);
        for (size_t i = DIGITS_OF_GROUP; i-- > 0; value /= 85) group[i] = digit_of(value % 85);
        text_add(&digits, group, sizeof group);
    }
    return digits;
}

Text compress_bytes(Arena *arena, const Text *code) {
    Arena *scratch = arena_child(arena);
    Compressor c = {.data = (const unsigned char *)code->data,
                    .size = code->size,
                    .newest = arena_alloc(scratch, sizeof(uint32_t) << HASH_BITS),
                    .older = arena_alloc(scratch, (code->size + 1) * sizeof(uint32_t)),
                    .out = text_open(arena)};
    add_all(&c);
    arena_close(scratch);
    return c.out;
}

Text compress_code(Arena *arena, const Text *code) {
    Arena *scratch = arena_child(arena);
    const Text bytes = compress_bytes(scratch, code), digits = digits_of(arena, &bytes);
    arena_close(scratch);
    return digits;
}
