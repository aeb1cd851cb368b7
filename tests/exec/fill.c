/* fill.c: inputs made of random bits alone, without arithmetic, so that every machine has the same.
 * The normal fill keeps numbers near one; the special fill looks for trouble: NaNs of every
 * payload, infinities, zeros of both signs, subnormals, the largest and the smallest, halves,
 * extreme integers. Two fills show the bits of zero: in one all is -0.0, which only a sum begun
 * with -0.0 keeps; in the other zeros of either sign are the greatest, or the least, of what is
 * there. */
#include "exec.h"
#include "interp.h"

#include <string.h>

const char *const fill_names[FILL_COUNT] = {"normal", "special", "minus", "zeros"};

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t random_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

typedef enum Class { FLOAT, SIGNED, UNSIGNED, BOOLEAN } Class;

/* In the order of ls_type. Floats: how many bits of exponent and mantissa. */
static const struct {
    const char *name;
    Class class;
    uint8_t size, exponent, mantissa;
} formats[LS_TYPE_COUNT] = {
    [LS_F64] = {"f64", FLOAT, 8, 11, 52},   [LS_F32] = {"f32", FLOAT, 4, 8, 23},
    [LS_I64] = {"i64", SIGNED, 8, 0, 0},    [LS_I32] = {"i32", SIGNED, 4, 0, 0},
    [LS_U64] = {"u64", UNSIGNED, 8, 0, 0},  [LS_U32] = {"u32", UNSIGNED, 4, 0, 0},
    [LS_BOOL] = {"bool", BOOLEAN, 1, 0, 0}, [LS_F16] = {"f16", FLOAT, 2, 5, 10},
    [LS_BF16] = {"bf16", FLOAT, 2, 8, 7},   [LS_E4M3] = {"e4m3", FLOAT, 1, 4, 3},
    [LS_E5M2] = {"e5m2", FLOAT, 1, 5, 2},   [LS_I16] = {"i16", SIGNED, 2, 0, 0},
    [LS_I8] = {"i8", SIGNED, 1, 0, 0},      [LS_U16] = {"u16", UNSIGNED, 2, 0, 0},
    [LS_U8] = {"u8", UNSIGNED, 1, 0, 0},
};

size_t type_size(ls_type type) {
    return formats[type].size;
}
const char *array_type_name(ls_type type) {
    return formats[type].name;
}

static uint64_t float_bits_of(ls_type type, bool negative, int64_t exponent, uint64_t mantissa) {
    const uint64_t sign = (uint64_t)negative << (formats[type].exponent + formats[type].mantissa);
    const uint64_t mask = ((uint64_t)1 << formats[type].mantissa) - 1;
    return sign | ((uint64_t)exponent << formats[type].mantissa) | (mantissa & mask);
}

static uint64_t normal_float(ls_type type, bool positive, uint64_t bits) {
    const int64_t bias = ((int64_t)1 << (formats[type].exponent - 1)) - 1;
    const int64_t exponent = bias - 3 + (int64_t)(bits >> 61) % 5; /* 1/8 up to 4 */
    return float_bits_of(type, !positive && (bits & 1), exponent, bits >> 1);
}

/* One of the corners of the format, or any bits at all. */
static uint64_t special_float(ls_type type, uint64_t bits) {
    const int64_t top = ((int64_t)1 << formats[type].exponent) - 1, bias = top / 2;
    const bool negative = bits & 1;
    const uint64_t random = bits >> 8;
    switch ((bits >> 1) % 12) {
    case 0: return float_bits_of(type, negative, top, random | 1);       /* NaN */
    case 1: return float_bits_of(type, negative, top, 0);                /* infinity */
    case 2: return float_bits_of(type, negative, 0, 0);                  /* zero */
    case 3: return float_bits_of(type, negative, 0, random);             /* subnormal */
    case 4: return float_bits_of(type, negative, 0, 1);                  /* least */
    case 5: return float_bits_of(type, negative, 1, 0);                  /* least normal */
    case 6: return float_bits_of(type, negative, top - 1, ~(uint64_t)0); /* largest */
    case 7: return float_bits_of(type, negative, bias, 0);               /* one */
    case 8:
        return float_bits_of(type, negative, bias + (int64_t)(random % 4),
                             random << 1 & 0x1c); /* ties */
    case 9: /* where exp over- and underflows, where integers end, where rounding halves happen */
        return float_bits_of(type, negative, bias + (int64_t)(random % (uint64_t)(bias / 2 + 1)),
                             random >> 3);
    default: return random << 8 | bits;
    }
}

static uint64_t special_integer(ls_type type, uint64_t bits) {
    const unsigned width = 8u * formats[type].size;
    const uint64_t random = bits >> 8;
    switch (bits % 8) {
    case 0: return 0;
    case 1: return ~(uint64_t)0;               /* -1, or the largest unsigned */
    case 2: return (uint64_t)1 << (width - 1); /* the least signed */
    case 3: return ((uint64_t)1 << (width - 1)) - 1;
    case 4: return ((uint64_t)1 << random % width) - (random >> 8 & 1);
    case 5: return random % 64; /* shift counts, small exponents */
    default: return bits * 0x9e3779b97f4a7c15u;
    }
}

/* Zeros are alike for a stretch of 1 to 4096 elements, so that rows, lanes and tiles have only the
 * one, only the other, or both: in either order, among others or alone. What is not zero has one
 * sign in all of an array. */
typedef struct Stretch {
    size_t left;
    uint64_t rarity; /* one of so many is a zero */
    enum { ONLY_MINUS, ONLY_PLUS, BOTH } signs;
    bool negative; /* the others */
} Stretch;

static uint64_t zero_or_other(ls_type type, Stretch *stretch, uint64_t bits, uint64_t *state) {
    if (stretch->left == 0) {
        static const uint16_t rarities[] = {1, 2, 32, 700};
        const uint64_t drawn = random_bits(state);
        stretch->left = (size_t)1 << drawn % 13;
        stretch->rarity = rarities[drawn >> 8 & 3];
        stretch->signs = drawn >> 16 & 1 ? BOTH : drawn >> 17 & 1 ? ONLY_PLUS : ONLY_MINUS;
    }
    stretch->left--;
    if ((bits >> 20) % stretch->rarity == 0)
        return float_bits_of(type, stretch->signs == BOTH ? bits & 1 : stretch->signs == ONLY_MINUS,
                             0, 0);
    return normal_float(type, true, bits) | float_bits_of(type, stretch->negative, 0, 0);
}

static uint64_t element(Fill fill, ls_type type, bool positive, uint64_t bits) {
    const bool special = fill == FILL_SPECIAL && (bits >> 33 & 1);
    switch (formats[type].class) {
    case FLOAT:
        if (fill == FILL_MINUS) return float_bits_of(type, true, 0, 0);
        return special ? special_float(type, bits) : normal_float(type, positive, bits);
    case SIGNED:
        if (special) return special_integer(type, bits);
        return positive ? bits >> 60 : (bits >> 60) - 8;
    case UNSIGNED: return special ? special_integer(type, bits) : bits >> 60;
    case BOOLEAN: return bits >> 63;
    }
    return 0;
}

void fill_array(Fill fill, ls_type type, bool positive, uint64_t *state, void *data, size_t count) {
    const size_t size = formats[type].size;
    const bool zeros = fill == FILL_ZEROS && formats[type].class == FLOAT;
    Stretch stretch = {.negative = zeros && random_bits(state) >> 63};
    for (size_t i = 0; i < count; i++) {
        const uint64_t drawn = random_bits(state);
        const uint64_t bits = zeros ? zero_or_other(type, &stretch, drawn, state)
                                    : element(fill, type, positive, drawn);
        element_copy((char *)data + i * size, &bits, size);
    }
}

void canonical_nans(ls_type type, void *data, size_t count) {
    const size_t size = formats[type].size;
    if (formats[type].class != FLOAT) return;
    const uint64_t top = ((uint64_t)1 << formats[type].exponent) - 1;
    const uint64_t magnitude = ~(uint64_t)0 >> (64 - (8 * size - 1));
    const uint64_t most = type == LS_E4M3 ? magnitude - 1 : top << formats[type].mantissa;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        element_copy(&bits, (char *)data + i * size, size);
        if ((bits & magnitude) > most) memcpy((char *)data + i * size, &magnitude, size);
    }
}

void store_number(ls_type type, double value, void *element_out) {
    const float f32 = (float)value;
    const int64_t integer = (int64_t)value;
    const void *from = type == LS_F64   ? (const void *)&value
                       : type == LS_F32 ? (const void *)&f32
                                        : (const void *)&integer;
    memcpy(element_out, from, formats[type].size);
}
