/* numbers.h: floating point as AMD's vector unit computes it: bits in, bits out, rounded to nearest
 * even; a NaN that comes out is the first one that came in, made quiet, or the default one. */
#ifndef AMD_NUMBERS_H
#define AMD_NUMBERS_H

#include <math.h>
#include <string.h>

#include "wave.h"

static inline float float_of(u32 bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline double double_of(u64 bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline u32 bits_of_float(float x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline u64 bits_of_double(double x) {
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#define SIGN_32 0x80000000u
#define SIGN_64 0x8000000000000000ull
#define INFINITY_32 0x7f800000u
#define INFINITY_64 0x7ff0000000000000ull
#define QUIET_32 0x00400000u
#define QUIET_64 0x0008000000000000ull

static inline bool is_nan_32(u32 x) {
    return (x & ~SIGN_32) > INFINITY_32;
}
static inline bool is_nan_64(u64 x) {
    return (x & ~SIGN_64) > INFINITY_64;
}
static inline u32 nan_32(u32 a, u32 b, u32 c) {
    return is_nan_32(a)   ? a | QUIET_32
           : is_nan_32(b) ? b | QUIET_32
           : is_nan_32(c) ? c | QUIET_32
                          : INFINITY_32 | QUIET_32;
}
static inline u64 nan_64(u64 a, u64 b, u64 c) {
    return is_nan_64(a)   ? a | QUIET_64
           : is_nan_64(b) ? b | QUIET_64
           : is_nan_64(c) ? c | QUIET_64
                          : INFINITY_64 | QUIET_64;
}
static inline u32 number_32(float x, u32 a, u32 b, u32 c) {
    return x != x ? nan_32(a, b, c) : bits_of_float(x);
}
static inline u64 number_64(double x, u64 a, u64 b, u64 c) {
    return x != x ? nan_64(a, b, c) : bits_of_double(x);
}

#define ARITHMETIC(N, T, of)                                            \
    static inline u##N add_##N(u##N a, u##N b) {                        \
        return number_##N(of(a) + of(b), a, b, b);                      \
    }                                                                   \
    static inline u##N subtract_##N(u##N a, u##N b) {                   \
        return number_##N(of(a) - of(b), a, b, b);                      \
    }                                                                   \
    static inline u##N multiply_##N(u##N a, u##N b) {                   \
        return number_##N(of(a) * of(b), a, b, b);                      \
    }                                                                   \
    /* The number where one is not; -0 is less than +0. */              \
    static inline u##N least_##N(u##N a, u##N b) {                      \
        if (is_nan_##N(a)) return is_nan_##N(b) ? nan_##N(a, b, b) : b; \
        if (is_nan_##N(b)) return a;                                    \
        if (of(a) == of(b)) return a & SIGN_##N ? a : b;                \
        return of(a) < of(b) ? a : b;                                   \
    }                                                                   \
    static inline u##N most_##N(u##N a, u##N b) {                       \
        if (is_nan_##N(a)) return is_nan_##N(b) ? nan_##N(a, b, b) : b; \
        if (is_nan_##N(b)) return a;                                    \
        if (of(a) == of(b)) return a & SIGN_##N ? b : a;                \
        return of(a) > of(b) ? a : b;                                   \
    }
ARITHMETIC(32, float, float_of)
ARITHMETIC(64, double, double_of)
#undef ARITHMETIC

static inline u32 fuse_32(u32 a, u32 b, u32 c) {
    return number_32(fmaf(float_of(a), float_of(b), float_of(c)), a, b, c);
}
static inline u64 fuse_64(u64 a, u64 b, u64 c) {
    return number_64(fma(double_of(a), double_of(b), double_of(c)), a, b, c);
}
/* The middle one; with a NaN the least. */
static inline u32 middle_32(u32 a, u32 b, u32 c) {
    if (is_nan_32(a) || is_nan_32(b) || is_nan_32(c)) return least_32(least_32(a, b), c);
    return most_32(least_32(a, b), least_32(most_32(a, b), c));
}

/* ---- to integers: towards zero, what is too large is the largest, a NaN is 0 ---- */

static inline u32 to_u32(double x) {
    return !(x > 0) ? 0 : x >= 0x1p32 ? ~0u : (u32)x;
}
static inline u32 to_i32(double x) {
    return x != x ? 0 : x >= 0x1p31 ? 0x7fffffffu : x <= -0x1p31 ? SIGN_32 : (u32)(i32)x;
}

/* ---- half precision ---- */

static inline u32 half_to_32(u32 a) {
    const u32 sign = (a & 0x8000u) << 16, exponent = a >> 10 & 31, fraction = a & 1023;
    if (exponent == 31) return sign | INFINITY_32 | fraction << 13 | (fraction ? QUIET_32 : 0);
    const float x = exponent ? ldexpf(1024.0f + (float)fraction, (int)exponent - 25)
                             : ldexpf((float)fraction, -24);
    return sign | bits_of_float(x);
}
static inline u32 half_of_32(u32 a) {
    const u32 sign = a >> 16 & 0x8000u;
    const float x = float_of(a & ~SIGN_32);
    int exponent = (int)(a >> 23 & 255) - 127;
    if (is_nan_32(a)) return sign | 0x7e00u | (a >> 13 & 0x3ffu);
    if (x > 1e30f) return sign | 0x7c00u;
    if (exponent < -14) exponent = -14;
    const u32 steps = (u32)rint(ldexp((double)x, 10 - exponent));
    const u32 made = (u32)((exponent + 14) << 10) + steps;
    return sign | (made < 0x7c00u ? made : 0x7c00u);
}

/* ---- classes ---- */

#define CLASSES(N, exponent_bits)                                            \
    static inline u32 class_##N(u##N x) {                                    \
        const u##N size = x & ~SIGN_##N;                                     \
        const bool negative = (x & SIGN_##N) != 0;                           \
        if (size > INFINITY_##N) return x & QUIET_##N ? 2 : 1;               \
        if (size == INFINITY_##N) return negative ? 1u << 2 : 1u << 9;       \
        if (size == 0) return negative ? 1u << 5 : 1u << 6;                  \
        if ((size & INFINITY_##N) == 0) return negative ? 1u << 4 : 1u << 7; \
        return negative ? 1u << 3 : 1u << 8;                                 \
    }
CLASSES(32, 8)
CLASSES(64, 11)
#undef CLASSES

/* ---- division ---- */

/* V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP. S0 is a or b, b the denominator, a the numerator; what
 * is scaled is scaled by 2^K. Where the reciprocal and the quotient are both subnormal the manual
 * scales the denominator up, beyond infinity; it must be down, as where the reciprocal alone is
 * subnormal (a quotient that would round to 0 counts as one), and V_DIV_FMAS then scales the
 * quotient down. A quotient that has overflowed on the way is infinite: the manual looks for the
 * exponent of all ones in S1, which there is finite. `TINY`: exponents of a from which the
 * remainder would be subnormal. */
#define DIVISION(N, of, bits, scale, fused, load, BITS, BIAS, K, FAR, TINY)                     \
    static inline u32 exponent_##N(u##N x) {                                                    \
        return (u32)((x & INFINITY_##N) >> BITS);                                               \
    }                                                                                           \
    static inline bool is_subnormal_##N(u##N x) {                                               \
        return exponent_##N(x) == 0 && (x & ~SIGN_##N) != 0;                                    \
    }                                                                                           \
    static inline u##N div_scale_##N(u##N s, u##N b, u##N a, bool *scaled) {                    \
        const u##N up = bits(scale(of(s), K)), down = bits(scale(of(s), -K));                   \
        const u##N inverse = bits(1 / of(b)), quotient = bits(of(a) / of(b));                   \
        *scaled = false;                                                                        \
        if ((a & ~SIGN_##N) == 0 || (b & ~SIGN_##N) == 0) return INFINITY_##N | QUIET_##N;      \
        if ((int)exponent_##N(a) - (int)exponent_##N(b) >= FAR) {                               \
            *scaled = true;                                                                     \
            return s == b ? up : s;                                                             \
        }                                                                                       \
        if (is_subnormal_##N(b)) return up;                                                     \
        if (is_subnormal_##N(inverse) && exponent_##N(quotient) == 0) {                         \
            *scaled = true;                                                                     \
            return s == b ? down : s;                                                           \
        }                                                                                       \
        if (is_subnormal_##N(inverse)) return down;                                             \
        if (exponent_##N(quotient) == 0) {                                                      \
            *scaled = true;                                                                     \
            return s == a ? up : s;                                                             \
        }                                                                                       \
        return exponent_##N(a) <= TINY ? up : s;                                                \
    }                                                                                           \
    /* The sum is scaled before it is rounded: where rounding first would make a tie of what is \
     * none, the rest of the first rounding decides. */                                         \
    static inline u##N div_fmas_##N(u##N a, u##N b, u##N c, bool scaled) {                      \
        const u##N sum = bits(fused(of(a), of(b), of(c)));                                      \
        if (!scaled || is_nan_##N(sum)) return is_nan_##N(sum) ? nan_##N(a, b, c) : sum;        \
        if (exponent_##N(c) > BIAS) return bits(scale(of(sum), K));                             \
        const u##N made = bits(scale(of(sum), -K));                                             \
        const u##N magnitude = made & ~SIGN_##N;                                                \
        const double rest = (double)fused(of(a), of(b), of(c) - of(sum));                       \
        if (exponent_##N(made) > 1 || rest == 0) return made;                                   \
        const double off = (double)scale(of(made), K) - (double)of(sum);                        \
        const double half = ldexp(1, 1 - BIAS - BITS - 1 + K);                                  \
        if (fabs(off) != half) return made;                                                     \
        const bool outwards = (rest > 0) == !(sum & SIGN_##N);                                  \
        const bool is_outer = (off > 0) == !(sum & SIGN_##N);                                   \
        if (outwards == is_outer) return made;                                                  \
        return (made & SIGN_##N) | (outwards ? magnitude + 1 : magnitude - 1);                  \
    }                                                                                           \
    static inline u##N div_fixup_##N(u##N q, u##N b, u##N a) {                                  \
        const u##N sign = (a ^ b) & SIGN_##N, x = a & ~SIGN_##N, y = b & ~SIGN_##N;             \
        if (is_nan_##N(a)) return a | QUIET_##N;                                                \
        if (is_nan_##N(b)) return b | QUIET_##N;                                                \
        if ((x == 0 && y == 0) || (x == INFINITY_##N && y == INFINITY_##N))                     \
            return SIGN_##N | INFINITY_##N | QUIET_##N;                                         \
        if (y == 0 || x == INFINITY_##N) return sign | INFINITY_##N;                            \
        if (y == INFINITY_##N || x == 0) return sign;                                           \
        if ((int)exponent_##N(a) - (int)exponent_##N(b) < -(BIAS + BITS)) return sign;          \
        if (exponent_##N(q) == 2 * BIAS + 1) return sign | INFINITY_##N;                        \
        return sign | (q & ~SIGN_##N);                                                          \
    }
DIVISION(32, float_of, bits_of_float, ldexpf, fmaf, u32, 23, 127, 64, 96, 23)
DIVISION(64, double_of, bits_of_double, ldexp, fma, u64, 52, 1023, 128, 768, 53)
#undef DIVISION

#endif
