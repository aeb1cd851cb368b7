/* convert.h: between types, after a prelude; one text for C, CUDA C and HIP C.
 *
 *   ls_TO_from_FROM(x)   a cast between compute types: towards zero, saturating, NaN to 0
 *   ls_to_odd_f64(x)     an f64 as an f32 that is yet to be rounded to a narrower type
 *   ls_pack_S(x)         a compute value to storage type S: floats to nearest even with one NaN
 *                        per type, e4m3 and e5m2 and integers saturating
 *   ls_unpack_S(bits)    the compute value of what lies in memory, exact
 *   ls_round_S(x)        unpack of pack, for the storage types that are no compute types
 *   ls_round_stochastic_S(x, r)   up or down by the random bits r
 *
 * Everything is integer and f32 arithmetic that each machine has. */
#ifndef LS_CONVERT
#define LS_CONVERT

/* The one NaN of each type; nothing else ever reaches memory or integer code. */
LS_FN f32 ls_canonical_f32(f32 x) {
    return x == x ? x : ls_from_bits_f32(0x7fffffffu);
}
LS_FN f64 ls_canonical_f64(f64 x) {
    return x == x ? x : ls_from_bits_f64(0x7fffffffffffffffu);
}
LS_FN u32 ls_float_bits_f32(f32 x) {
    return x == x ? ls_bits_f32(x) : 0x7fffffffu;
}
LS_FN f32 ls_float_from_bits_u32(u32 bits) {
    return ls_from_bits_f32(bits);
}

/* ---- casts ---- */
#define LS_CAST(TO, FROM, RESULT)            \
    LS_FN TO ls_##TO##_from_##FROM(FROM x) { \
        return RESULT;                       \
    }
/* what is at least LOW and below HIGH is in range; a NaN is not, nor below or above */
#define LS_CAST_SATURATING(TO, FROM, LOW, HIGH, LEAST, MOST)   \
    LS_FN TO ls_##TO##_from_##FROM(FROM x) {                   \
        TO y = (TO)((x >= (LOW) && x < (HIGH)) ? x : (FROM)0); \
        y = x >= (HIGH) ? (TO)(MOST) : y;                      \
        return x < (LOW) ? (TO)(LEAST) : y;                    \
    }
#define LS_CASTS_BOOL(T)                \
    LS_FN int ls_bool_from_##T(T x) {   \
        return x != 0;                  \
    }                                   \
    LS_FN T ls_##T##_from_bool(int x) { \
        return (T)x;                    \
    }

LS_CAST(f64, f64, x)
LS_CAST(f64, f32, (f64)x)
LS_CAST(f64, i64, (f64)x)
LS_CAST(f64, i32, (f64)x)
LS_CAST(f64, u64, (f64)x)
LS_CAST(f64, u32, (f64)x)

LS_CAST(f32, f64, (f32)x)
LS_CAST(f32, f32, x)
LS_CAST(f32, i64, (f32)x)
LS_CAST(f32, i32, (f32)x)
LS_CAST(f32, u64, (f32)x)
LS_CAST(f32, u32, (f32)x)

LS_CAST_SATURATING(i64, f64, -0x1p63, 0x1p63, -0x7fffffffffffffff - 1, 0x7fffffffffffffff)
LS_CAST_SATURATING(i64, f32, -0x1p63f, 0x1p63f, -0x7fffffffffffffff - 1, 0x7fffffffffffffff)
LS_CAST(i64, i64, x)
LS_CAST(i64, i32, (i64)x)
LS_CAST(i64, u64, x > 0x7fffffffffffffffu ? 0x7fffffffffffffff : (i64)x)
LS_CAST(i64, u32, (i64)x)

LS_CAST_SATURATING(i32, f64, -0x1p31, 0x1p31, -0x7fffffff - 1, 0x7fffffff)
LS_CAST_SATURATING(i32, f32, -0x1p31f, 0x1p31f, -0x7fffffff - 1, 0x7fffffff)
LS_CAST_SATURATING(i32, i64, -(i64)0x80000000, (i64)0x80000000, -0x7fffffff - 1, 0x7fffffff)
LS_CAST(i32, i32, x)
LS_CAST(i32, u64, x > 0x7fffffffu ? 0x7fffffff : (i32)x)
LS_CAST(i32, u32, x > 0x7fffffffu ? 0x7fffffff : (i32)x)

LS_CAST_SATURATING(u64, f64, 0.0, 0x1p64, 0, 0xffffffffffffffffu)
LS_CAST_SATURATING(u64, f32, 0.0f, 0x1p64f, 0, 0xffffffffffffffffu)
LS_CAST(u64, i64, x < 0 ? 0u : (u64)x)
LS_CAST(u64, i32, x < 0 ? 0u : (u64)x)
LS_CAST(u64, u64, x)
LS_CAST(u64, u32, (u64)x)

LS_CAST_SATURATING(u32, f64, 0.0, 0x1p32, 0, 0xffffffffu)
LS_CAST_SATURATING(u32, f32, 0.0f, 0x1p32f, 0, 0xffffffffu)
LS_CAST_SATURATING(u32, i64, 0, (i64)0x100000000, 0, 0xffffffffu)
LS_CAST(u32, i32, x < 0 ? 0u : (u32)x)
LS_CAST(u32, u64, x > 0xffffffffu ? 0xffffffffu : (u32)x)
LS_CAST(u32, u32, x)

/* x itself where an f32 can be, else of the two beside it the one whose last bit is 1. It lies on
 * x's side of every value and midpoint of a type two bits shorter or more, so that rounding it to
 * such a type gives what rounding x would (Boldo, Melquiond: Emulation of a FMA and correctly
 * rounded sums: proved algorithms using rounding to odd, 2008). */
LS_FN f32 ls_to_odd_f64(f64 x) {
    f32 near = (f32)x;
    f64 size = x < 0.0 ? -x : x, kept = near < 0.0f ? -(f64)near : (f64)near;
    u32 bits = ls_bits_f32(near), even = (bits & 1u) - 1u; /* all ones, or 0 for odd */
    return ls_from_bits_f32(bits + (((u32)(kept < size) - (u32)(kept > size)) & even));
}

LS_CASTS_BOOL(f64)
LS_CASTS_BOOL(f32)
LS_CASTS_BOOL(i64)
LS_CASTS_BOOL(i32)
LS_CASTS_BOOL(u64)
LS_CASTS_BOOL(u32)
LS_FN int ls_bool_from_bool(int x) {
    return x;
}
#undef LS_CAST
#undef LS_CAST_SATURATING
#undef LS_CASTS_BOOL

/* ---- compute types as storage ---- */
#define LS_STORED(T, PACKED)          \
    LS_FN T ls_pack_##T(T x) {        \
        return PACKED;                \
    }                                 \
    LS_FN T ls_unpack_##T(T stored) { \
        return stored;                \
    }
LS_STORED(f64, ls_canonical_f64(x))
LS_STORED(f32, ls_canonical_f32(x))
LS_STORED(i64, x)
LS_STORED(i32, x)
LS_STORED(u64, x)
LS_STORED(u32, x)
#undef LS_STORED
LS_FN bool8 ls_pack_bool(int x) {
    return (bool8)(x != 0);
}
LS_FN int ls_unpack_bool(bool8 stored) {
    return stored != 0;
}

/* ---- narrow floats ----
 * Rounding a normal result is an integer addition of half a unit, less one where the kept part is
 * even; rounding a subnormal one is the addition of a power of two whose unit is the type's least
 * value. For unpacking, a subnormal gets the least normal's exponent and that exponent's value
 * taken off. */
LS_FN bf16 ls_pack_bf16(f32 x) {
#ifdef LS_CONVERTS
    return ls_convert_bf16(x);
#else
    u32 bits = ls_bits_f32(x), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (bf16)(x == x ? rounded : 0x7fffu);
#endif
}
LS_FN f32 ls_unpack_bf16(bf16 stored) {
    return ls_from_bits_f32((u32)stored << 16);
}

LS_FN f16 ls_pack_f16(f32 x) { /* from 65520 on infinite */
#ifdef LS_CONVERTS
    return ls_convert_f16(x);
#else
    u32 bits = ls_bits_f32(x), size = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
    u32 normal = (size + 0xc8000fffu + ((size >> 13) & 1u)) >> 13;
    u32 subnormal = ls_bits_f32(ls_from_bits_f32(size) + 0.5f) - 0x3f000000u;
    u32 rounded = size < 0x38800000u ? subnormal : normal;
    rounded = size >= 0x477ff000u ? 0x7c00u : rounded;
    return (f16)(x == x ? rounded | sign : 0x7fffu);
#endif
}
LS_FN f32 ls_unpack_f16(f16 stored) {
    u32 size = (stored & 0x7fffu) << 13, sign = (stored & 0x8000u) << 16;
    u32 normal = size + (size < 0x0f800000u ? 0x38000000u : 0x70000000u); /* the latter: inf, NaN */
    u32 subnormal = ls_bits_f32(ls_from_bits_f32(size + 0x38800000u) - 0x1p-14f);
    return ls_from_bits_f32((size < 0x00800000u ? subnormal : normal) | sign);
}

LS_FN e4m3 ls_pack_e4m3(f32 x) { /* OCP: no infinity, 448 is the largest */
    u32 bits = ls_bits_f32(x), size = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
    u32 normal = (size + 0xc407ffffu + ((size >> 20) & 1u)) >> 20;
    u32 subnormal = ls_bits_f32(ls_from_bits_f32(size) + 0x1p14f) - 0x46800000u;
    u32 rounded = size < 0x3c800000u ? subnormal : normal;
    rounded = size >= 0x43e00000u ? 0x7eu : rounded;
    return (e4m3)(x == x ? rounded | sign : 0x7fu);
}
LS_FN f32 ls_unpack_e4m3(e4m3 stored) {
    u32 size = (stored & 0x7fu) << 20, sign = (stored & 0x80u) << 24;
    u32 normal = size == 0x07f00000u ? 0x7fffffffu : size + 0x3c000000u;
    u32 subnormal = ls_bits_f32(ls_from_bits_f32(size + 0x3c800000u) - 0x1p-6f);
    return ls_from_bits_f32((size < 0x00800000u ? subnormal : normal) | sign);
}

LS_FN e5m2 ls_pack_e5m2(f32 x) { /* OCP, saturating at 57344 */
    u32 bits = ls_bits_f32(x), size = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
    u32 normal = (size + 0xc80fffffu + ((size >> 21) & 1u)) >> 21;
    u32 subnormal = ls_bits_f32(ls_from_bits_f32(size) + 128.0f) - 0x43000000u;
    u32 rounded = size < 0x38800000u ? subnormal : normal;
    rounded = size >= 0x47600000u ? 0x7bu : rounded;
    return (e5m2)(x == x ? rounded | sign : 0x7fu);
}
LS_FN f32 ls_unpack_e5m2(e5m2 stored) {
    return ls_unpack_f16((f16)((u32)stored << 8));
}

#define LS_ROUNDED(S)                         \
    LS_FN f32 ls_round_##S(f32 x) {           \
        return ls_unpack_##S(ls_pack_##S(x)); \
    }
LS_ROUNDED(bf16)
LS_ROUNDED(f16)
LS_ROUNDED(e4m3)
LS_ROUNDED(e5m2)
#undef LS_ROUNDED

/* ---- stochastic rounding ----
 * With u the distance of S's values at |x|, the result is floor(|x| / u + r / 2^32) * u with x's
 * sign: up with the probability that x is nearer to there. A value of S stays; what is too large is
 * what a store makes of it; NaN stays NaN. A normal number gets the top bits of r where bits will
 * be cut off; one below S's normal numbers is counted in 2^-32 u. bf16 has the exponents of an f32.
 */
LS_FN bf16 ls_pack_stochastic_bf16(f32 x, u32 r) {
    u32 bits = ls_bits_f32(x), size = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
    return (bf16)(x == x ? ((size + (r >> 16)) >> 16) | sign : 0x7fffu);
}
/* CUT bits are cut off; NORMAL is the least normal number, REBIAS what the exponent loses, UNITS
 * 2^32 over the least value; no pattern is above TOP */
#define LS_STOCHASTIC(S, CUT, NORMAL, REBIAS, UNITS, TOP, SIGN_SHIFT, SIGN, A_NAN) \
    LS_FN S ls_pack_stochastic_##S(f32 x, u32 r) {                                 \
        u32 bits = ls_bits_f32(x), size = bits & 0x7fffffffu;                      \
        u32 sign = (bits >> (SIGN_SHIFT)) & (SIGN);                                \
        u32 normal = ((size + (r >> (32 - (CUT)))) >> (CUT)) - (REBIAS);           \
        f32 below = ls_from_bits_f32(size < (NORMAL) ? size : 0u);                 \
        u32 subnormal = (u32)(((u64)(below * (UNITS)) + r) >> 32);                 \
        u32 rounded = size < (NORMAL) ? subnormal : normal;                        \
        rounded = rounded > (TOP) ? (TOP) : rounded;                               \
        return (S)(x == x ? rounded | sign : (A_NAN));                             \
    }
LS_STOCHASTIC(f16, 13, 0x38800000u, 0x1c000u, 0x1p56f, 0x7c00u, 16, 0x8000u, 0x7fffu)
LS_STOCHASTIC(e4m3, 20, 0x3c800000u, 0x3c0u, 0x1p41f, 0x7eu, 24, 0x80u, 0x7fu)
LS_STOCHASTIC(e5m2, 21, 0x38800000u, 0x1c0u, 0x1p48f, 0x7bu, 24, 0x80u, 0x7fu)
#undef LS_STOCHASTIC
#define LS_ROUNDED_RANDOM(S)                                \
    LS_FN f32 ls_round_stochastic_##S(f32 x, u32 r) {       \
        return ls_unpack_##S(ls_pack_stochastic_##S(x, r)); \
    }
LS_ROUNDED_RANDOM(bf16)
LS_ROUNDED_RANDOM(f16)
LS_ROUNDED_RANDOM(e4m3)
LS_ROUNDED_RANDOM(e5m2)
#undef LS_ROUNDED_RANDOM

/* ---- narrow integers, all computed as i32 ---- */
#define LS_NARROW(S, LEAST, MOST)          \
    LS_FN i32 ls_round_##S(i32 x) {        \
        i32 y = x < (LEAST) ? (LEAST) : x; \
        return y > (MOST) ? (MOST) : y;    \
    }                                      \
    LS_FN S ls_pack_##S(i32 x) {           \
        return (S)ls_round_##S(x);         \
    }                                      \
    LS_FN i32 ls_unpack_##S(S stored) {    \
        return stored;                     \
    }
LS_NARROW(i16, -32768, 32767)
LS_NARROW(i8, -128, 127)
LS_NARROW(u16, 0, 65535)
LS_NARROW(u8, 0, 255)
#undef LS_NARROW

#endif
