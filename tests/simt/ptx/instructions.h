/* instructions.h: what PTX instructions do, for the C that translate.c makes of PTX; C++17, on top
 * of device.h. Each function has the name of its instruction, dots as underscores, and takes and
 * gives the bits of registers: NVIDIA's PTX ISA, "Instruction Set". An instruction that is not here
 * does not compile.
 *
 * Where the manual leaves a result open it is the least welcome one: a NaN of single precision is
 * always the canonical one, and what hardware only approximates is wrong by up to the documented
 * error, another way each time. add.f32 and mul.f32 without a rounding mode are missing on purpose:
 * the assembler may contract them. */
#ifndef PTX_INSTRUCTIONS_H
#define PTX_INSTRUCTIONS_H

typedef unsigned char b8, u8;
typedef unsigned short b16, u16, f16, bf16;
typedef unsigned b32, u32, f32;
typedef unsigned long long b64, u64, f64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned char pred;

#define PTX static inline __attribute__((always_inline))

/* ---- numbers and their bits ---- */

PTX float ptx_float(f32 bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
PTX double ptx_double(f64 bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
PTX f32 ptx_same(float x) {
    f32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
/* A result: single precision does not keep a NaN's payload. */
PTX f32 ptx_bits(float x) {
    return x != x ? 0x7fffffffu : ptx_same(x);
}
PTX f64 ptx_bits(double x) {
    f64 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
/* .ftz: a subnormal counts as a zero of its sign. */
PTX f32 ptx_flush(f32 x) {
    return (x & 0x7f800000u) == 0 ? x & 0x80000000u : x;
}

/* ---- arithmetic of floating point, rounded to nearest even ---- */

#define PTX_FLOATS(X)              \
    X(f32, ptx_float, fmaf, sqrtf) \
    X(f64, ptx_double, fma, sqrt)
#define X(T, number, fused, root)                                                             \
    PTX T ptx_add_rn_##T(T a, T b) {                                                          \
        return ptx_bits(number(a) + number(b));                                               \
    }                                                                                         \
    PTX T ptx_sub_rn_##T(T a, T b) {                                                          \
        return ptx_bits(number(a) - number(b));                                               \
    }                                                                                         \
    PTX T ptx_mul_rn_##T(T a, T b) {                                                          \
        return ptx_bits(number(a) * number(b));                                               \
    }                                                                                         \
    PTX T ptx_div_rn_##T(T a, T b) {                                                          \
        return ptx_bits(number(a) / number(b));                                               \
    }                                                                                         \
    PTX T ptx_rcp_rn_##T(T a) {                                                               \
        return ptx_bits(1 / number(a));                                                       \
    }                                                                                         \
    PTX T ptx_fma_rn_##T(T a, T b, T c) {                                                     \
        return ptx_bits(__builtin_##fused(number(a), number(b), number(c)));                  \
    }                                                                                         \
    PTX T ptx_sqrt_rn_##T(T a) {                                                              \
        return ptx_bits(__builtin_##root(number(a)));                                         \
    }                                                                                         \
    PTX T ptx_neg_##T(T a) {                                                                  \
        return a ^ (T)1 << (sizeof(T) * 8 - 1);                                               \
    }                                                                                         \
    PTX T ptx_abs_##T(T a) {                                                                  \
        return a & ~((T)1 << (sizeof(T) * 8 - 1));                                            \
    }                                                                                         \
    PTX T ptx_copysign_##T(T sign, T a) {                                                     \
        return ptx_abs_##T(a) | (sign & ((T)1 << (sizeof(T) * 8 - 1)));                       \
    }                                                                                         \
    PTX bool ptx_unordered_##T(T a, T b) {                                                    \
        return number(a) != number(a) || number(b) != number(b);                              \
    }                                                                                         \
    /* The number where one is not; -0 is less than +0. */                                    \
    PTX T ptx_min_##T(T a, T b) {                                                             \
        if (ptx_unordered_##T(a, b)) return number(a) == number(a) ? a : ptx_bits(number(b)); \
        return number(a) < number(b) || (number(a) == number(b) && a > b) ? a : b;            \
    }                                                                                         \
    PTX T ptx_max_##T(T a, T b) {                                                             \
        if (ptx_unordered_##T(a, b)) return number(a) == number(a) ? a : ptx_bits(number(b)); \
        return number(a) > number(b) || (number(a) == number(b) && a < b) ? a : b;            \
    }                                                                                         \
    PTX T ptx_min_NaN_##T(T a, T b) {                                                         \
        return ptx_unordered_##T(a, b) ? ptx_bits(number(a) + number(b)) : ptx_min_##T(a, b); \
    }                                                                                         \
    PTX T ptx_max_NaN_##T(T a, T b) {                                                         \
        return ptx_unordered_##T(a, b) ? ptx_bits(number(a) + number(b)) : ptx_max_##T(a, b); \
    }
PTX_FLOATS(X)
#undef X

#define X(name)                                                            \
    PTX f32 ptx_##name##_rn_ftz_f32(f32 a, f32 b) {                        \
        return ptx_flush(ptx_##name##_rn_f32(ptx_flush(a), ptx_flush(b))); \
    }
X(add)
X(sub)
X(mul)
X(div)
#undef X
PTX f32 ptx_fma_rn_ftz_f32(f32 a, f32 b, f32 c) {
    return ptx_flush(ptx_fma_rn_f32(ptx_flush(a), ptx_flush(b), ptx_flush(c)));
}
PTX f32 ptx_sqrt_rn_ftz_f32(f32 a) {
    return ptx_flush(ptx_sqrt_rn_f32(ptx_flush(a)));
}

/* ---- what hardware approximates ---- */

/* Within `ulps` of x, another way at each call. */
PTX f32 ptx_about(double x, int ulps) {
    static unsigned turn;
    const float nearest = (float)x;
    if (nearest != nearest || nearest - nearest != 0 || nearest == 0) return ptx_bits(nearest);
    turn = turn * 1664525u + 1013904223u;
    const int off = (int)((turn >> 16) % (2u * (unsigned)ulps + 1u)) - ulps;
    return ptx_same(nearest) + (u32)off;
}
#define X(name, ulps, value)                                     \
    PTX f32 ptx_##name##_approx_f32(f32 a) {                     \
        const double x = ptx_float(a);                           \
        return ptx_about(value, ulps);                           \
    }                                                            \
    PTX f32 ptx_##name##_approx_ftz_f32(f32 a) {                 \
        return ptx_flush(ptx_##name##_approx_f32(ptx_flush(a))); \
    }
X(rcp, 1, 1 / x)
X(sqrt, 2, __builtin_sqrt(x))
X(rsqrt, 2, 1 / __builtin_sqrt(x))
X(ex2, 2, __builtin_exp2(x))
X(lg2, 3, __builtin_log2(x))
X(sin, 8, __builtin_sin(x))
X(cos, 8, __builtin_cos(x))
X(tanh, 64, __builtin_tanh(x))
#undef X
#define X(name)                                                             \
    PTX f32 ptx_div_##name##_f32(f32 a, f32 b) {                            \
        return ptx_about((double)ptx_float(a) / ptx_float(b), 2);           \
    }                                                                       \
    PTX f32 ptx_div_##name##_ftz_f32(f32 a, f32 b) {                        \
        return ptx_flush(ptx_div_##name##_f32(ptx_flush(a), ptx_flush(b))); \
    }
X(approx)
X(full)
#undef X

/* ---- comparisons ---- */

#define PTX_COMPARE(T, number)                                 \
    PTX pred ptx_setp_eq_##T(T a, T b) {                       \
        return number(a) == number(b);                         \
    }                                                          \
    PTX pred ptx_setp_ne_##T(T a, T b) {                       \
        return number(a) < number(b) || number(a) > number(b); \
    }                                                          \
    PTX pred ptx_setp_lt_##T(T a, T b) {                       \
        return number(a) < number(b);                          \
    }                                                          \
    PTX pred ptx_setp_le_##T(T a, T b) {                       \
        return number(a) <= number(b);                         \
    }                                                          \
    PTX pred ptx_setp_gt_##T(T a, T b) {                       \
        return number(a) > number(b);                          \
    }                                                          \
    PTX pred ptx_setp_ge_##T(T a, T b) {                       \
        return number(a) >= number(b);                         \
    }
#define X(T, number, ...)                 \
    PTX_COMPARE(T, number)                \
    PTX pred ptx_setp_equ_##T(T a, T b) { \
        return !ptx_setp_ne_##T(a, b);    \
    }                                     \
    PTX pred ptx_setp_neu_##T(T a, T b) { \
        return !ptx_setp_eq_##T(a, b);    \
    }                                     \
    PTX pred ptx_setp_ltu_##T(T a, T b) { \
        return !ptx_setp_ge_##T(a, b);    \
    }                                     \
    PTX pred ptx_setp_leu_##T(T a, T b) { \
        return !ptx_setp_gt_##T(a, b);    \
    }                                     \
    PTX pred ptx_setp_gtu_##T(T a, T b) { \
        return !ptx_setp_le_##T(a, b);    \
    }                                     \
    PTX pred ptx_setp_geu_##T(T a, T b) { \
        return !ptx_setp_lt_##T(a, b);    \
    }                                     \
    PTX pred ptx_setp_num_##T(T a, T b) { \
        return !ptx_unordered_##T(a, b);  \
    }                                     \
    PTX pred ptx_setp_nan_##T(T a, T b) { \
        return ptx_unordered_##T(a, b);   \
    }
PTX_FLOATS(X)
#undef X
PTX_COMPARE(s16, )
PTX_COMPARE(s32, )
PTX_COMPARE(s64, )
PTX_COMPARE(u16, )
PTX_COMPARE(u32, )
PTX_COMPARE(u64, )
PTX_COMPARE(b16, )
PTX_COMPARE(b32, )
PTX_COMPARE(b64, )

#define X(T)                               \
    PTX T ptx_selp_##T(T a, T b, pred p) { \
        return p ? a : b;                  \
    }                                      \
    PTX T ptx_mov_##T(T a) {               \
        return a;                          \
    }
X(b16)
X(b32)
X(b64)
X(u16)
X(u32)
X(u64)
X(s16)
X(s32)
X(s64)
X(f32)
X(f64)
X(pred)
#undef X

/* ---- integers ---- */

/* U: the type without a sign, in which overflow wraps; W: twice as wide. */
#define PTX_INTEGER(T, U, W)                                                                 \
    PTX T ptx_add_##T(T a, T b) {                                                            \
        return (T)((U)a + (U)b);                                                             \
    }                                                                                        \
    PTX T ptx_sub_##T(T a, T b) {                                                            \
        return (T)((U)a - (U)b);                                                             \
    }                                                                                        \
    PTX T ptx_mul_lo_##T(T a, T b) {                                                         \
        return (T)((u64)(U)a * (U)b);                                                        \
    }                                                                                        \
    PTX T ptx_mul_hi_##T(T a, T b) {                                                         \
        return (T)((W)a * (W)b >> (sizeof(T) * 8));                                          \
    }                                                                                        \
    PTX T ptx_mad_lo_##T(T a, T b, T c) {                                                    \
        return (T)((u64)(U)a * (U)b + (U)c);                                                 \
    }                                                                                        \
    PTX T ptx_mad_hi_##T(T a, T b, T c) {                                                    \
        return (T)((U)ptx_mul_hi_##T(a, b) + (U)c);                                          \
    }                                                                                        \
    PTX T ptx_min_##T(T a, T b) {                                                            \
        return a < b ? a : b;                                                                \
    }                                                                                        \
    PTX T ptx_max_##T(T a, T b) {                                                            \
        return a > b ? a : b;                                                                \
    }                                                                                        \
    /* By zero the result is open, and so it is for the one quotient that overflows. */      \
    PTX bool ptx_open_##T(T a, T b) {                                                        \
        return b == 0 || ((T)-1 < 0 && b == (T)-1 && a == (T)((U)1 << (sizeof(T) * 8 - 1))); \
    }                                                                                        \
    PTX T ptx_div_##T(T a, T b) {                                                            \
        return ptx_open_##T(a, b) ? (T)0x5a5a5a5a5a5a5a5aull : (T)(a / b);                   \
    }                                                                                        \
    PTX T ptx_rem_##T(T a, T b) {                                                            \
        return ptx_open_##T(a, b) ? (T)0xa5a5a5a5a5a5a5a5ull : (T)(a % b);                   \
    }                                                                                        \
    /* More places than there are: all of them. */                                           \
    PTX T ptx_shr_##T(T a, u32 places) {                                                     \
        return places < sizeof(T) * 8 ? (T)(a >> places) : (T)(a < 0 ? -1 : 0);              \
    }
PTX_INTEGER(s16, u16, s32)
PTX_INTEGER(u16, u16, u32)
PTX_INTEGER(s32, u32, s64)
PTX_INTEGER(u32, u32, u64)
PTX_INTEGER(s64, u64, __int128)
PTX_INTEGER(u64, u64, unsigned __int128)

#define PTX_WIDE(T, W)                           \
    PTX W ptx_mul_wide_##T(T a, T b) {           \
        return (W)a * (W)b;                      \
    }                                            \
    PTX W ptx_mad_wide_##T(T a, T b, W c) {      \
        return (W)((u64)((W)a * (W)b) + (u64)c); \
    }
PTX_WIDE(s16, s32)
PTX_WIDE(u16, u32)
PTX_WIDE(s32, s64)
PTX_WIDE(u32, u64)

#define PTX_SIGNED(T, U)                   \
    PTX T ptx_neg_##T(T a) {               \
        return (T)(0 - (U)a);              \
    }                                      \
    PTX T ptx_abs_##T(T a) {               \
        return a < 0 ? ptx_neg_##T(a) : a; \
    }
PTX_SIGNED(s16, u16)
PTX_SIGNED(s32, u32)
PTX_SIGNED(s64, u64)

#define ptx_shr_b16 ptx_shr_u16
#define ptx_shr_b32 ptx_shr_u32
#define ptx_shr_b64 ptx_shr_u64
#define PTX_LOGIC(T, N)                              \
    PTX T ptx_and_##T(T a, T b) {                    \
        return a & b;                                \
    }                                                \
    PTX T ptx_or_##T(T a, T b) {                     \
        return a | b;                                \
    }                                                \
    PTX T ptx_xor_##T(T a, T b) {                    \
        return a ^ b;                                \
    }                                                \
    PTX T ptx_not_##T(T a) {                         \
        return (T)~a;                                \
    }                                                \
    PTX T ptx_shl_##T(T a, u32 places) {             \
        return places < N ? (T)(a << places) : (T)0; \
    }
PTX_LOGIC(b16, 16)
PTX_LOGIC(b32, 32)
PTX_LOGIC(b64, 64)
PTX pred ptx_and_pred(pred a, pred b) {
    return a && b;
}
PTX pred ptx_or_pred(pred a, pred b) {
    return a || b;
}
/* A constant predicate that holds is written -1. */
PTX pred ptx_xor_pred(pred a, pred b) {
    return !a != !b;
}
PTX pred ptx_not_pred(pred a) {
    return !a;
}

PTX u32 ptx_popc_b32(b32 a) {
    return (u32)__builtin_popcount(a);
}
PTX u32 ptx_popc_b64(b64 a) {
    return (u32)__builtin_popcountll(a);
}
PTX u32 ptx_clz_b32(b32 a) {
    return a ? (u32)__builtin_clz(a) : 32;
}
PTX u32 ptx_clz_b64(b64 a) {
    return a ? (u32)__builtin_clzll(a) : 64;
}
PTX b32 ptx_brev_b32(b32 a) {
    b32 turned = 0;
    for (u32 i = 0; i < 32; i++) turned |= (a >> i & 1u) << (31 - i);
    return turned;
}
/* Bits of `a` into `b`, from place `at` on. */
#define PTX_INSERT(T, N)                                              \
    PTX T ptx_bfi_##T(T a, T b, u32 at, u32 count) {                  \
        at &= 255, count &= 255;                                      \
        for (u32 i = 0; i < count && at + i < N; i++)                 \
            b = (b & ~((T)1 << (at + i))) | (a >> i & 1) << (at + i); \
        return b;                                                     \
    }
PTX_INSERT(b32, 32)
PTX_INSERT(b64, 64)
/* Without the sign; places beyond the end are 0. */
#define PTX_EXTRACT(T, N)                                      \
    PTX T ptx_bfe_##T(T a, u32 at, u32 count) {                \
        T taken = 0;                                           \
        at &= 255, count &= 255;                               \
        for (u32 i = 0; i < count && i < N; i++)               \
            if (at + i < N) taken |= (a >> (at + i) & 1) << i; \
        return taken;                                          \
    }
PTX_EXTRACT(u32, 32)
PTX_EXTRACT(u64, 64)
/* Each nibble of the selector names one of eight bytes; its top bit: that byte's sign. */
PTX b32 ptx_prmt_b32(b32 a, b32 b, b32 selector) {
    const b64 bytes = (b64)b << 32 | a;
    b32 made = 0;
    for (u32 i = 0; i < 4; i++) {
        const u32 name = selector >> (4 * i) & 15;
        u32 byte = (u32)(bytes >> (8 * (name & 7))) & 255;
        if (name & 8) byte = byte & 128 ? 255 : 0;
        made |= byte << (8 * i);
    }
    return made;
}
#define PTX_FUNNEL(mode, places)                          \
    PTX b32 ptx_shf_l_##mode##_b32(b32 a, b32 b, u32 c) { \
        const u32 n = places;                             \
        return (b32)(((b64)b << 32 | a) << n >> 32);      \
    }                                                     \
    PTX b32 ptx_shf_r_##mode##_b32(b32 a, b32 b, u32 c) { \
        const u32 n = places;                             \
        return (b32)(((b64)b << 32 | a) >> n);            \
    }
PTX_FUNNEL(wrap, c & 31)
PTX_FUNNEL(clamp, c < 32 ? c : 32)
/* Bit by bit what the table says of three bits. */
PTX b32 ptx_lop3_b32(b32 a, b32 b, b32 c, u32 table) {
    b32 made = 0;
    for (u32 i = 0; i < 32; i++)
        made |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
    return made;
}

/* ---- conversions ---- */

#define PTX_CONVERT(to, from)              \
    PTX to ptx_cvt_##to##_##from(from a) { \
        return (to)a;                      \
    }
#define PTX_CONVERTS(from)                                                                \
    PTX_CONVERT(u8, from)                                                                 \
    PTX_CONVERT(s8, from)                                                                 \
    PTX_CONVERT(u16, from)                                                                \
    PTX_CONVERT(s16, from)                                                                \
    PTX_CONVERT(u32, from)                                                                \
    PTX_CONVERT(s32, from)                                                                \
    PTX_CONVERT(u64, from) PTX_CONVERT(s64, from) PTX f32 ptx_cvt_rn_f32_##from(from a) { \
        return ptx_bits((float)a);                                                        \
    }                                                                                     \
    PTX f64 ptx_cvt_rn_f64_##from(from a) {                                               \
        return ptx_bits((double)a);                                                       \
    }
PTX_CONVERTS(u8)
PTX_CONVERTS(s8)
PTX_CONVERTS(u16)
PTX_CONVERTS(s16)
PTX_CONVERTS(u32)
PTX_CONVERTS(s32)
PTX_CONVERTS(u64)
PTX_CONVERTS(s64)

/* To an integer, towards zero or to nearest: what is too large is the largest; a NaN is 0, or where
 * one side has 64 bits the sign bit alone. */
#define PTX_SATURATE(to, from, number, least, beyond, mode, round)                             \
    PTX to ptx_cvt_##mode##_##to##_##from(from a) {                                            \
        const double x = round((double)number(a));                                             \
        if (x != x)                                                                            \
            return sizeof(to) == 8 || sizeof(from) == 8 ? (to)((u64)1 << (sizeof(to) * 8 - 1)) \
                                                        : (to)0;                               \
        return x < least ? (to)least : x >= beyond ? (to) ~(to)least : (to)x;                  \
    }
#define PTX_SATURATES(from, number)                                        \
    PTX_SATURATE(s32, from, number, -0x1p31, 0x1p31, rzi, __builtin_trunc) \
    PTX_SATURATE(s64, from, number, -0x1p63, 0x1p63, rzi, __builtin_trunc) \
    PTX_SATURATE(u32, from, number, 0.0, 0x1p32, rzi, __builtin_trunc)     \
    PTX_SATURATE(u64, from, number, 0.0, 0x1p64, rzi, __builtin_trunc)     \
    PTX_SATURATE(s32, from, number, -0x1p31, 0x1p31, rni, __builtin_rint)  \
    PTX_SATURATE(s64, from, number, -0x1p63, 0x1p63, rni, __builtin_rint)  \
    PTX_SATURATE(s32, from, number, -0x1p31, 0x1p31, rmi, __builtin_floor) \
    PTX_SATURATE(s64, from, number, -0x1p63, 0x1p63, rmi, __builtin_floor)
PTX_SATURATES(f32, ptx_float)
PTX_SATURATES(f64, ptx_double)

#define X(T, number, suffix)                                 \
    PTX T ptx_cvt_rni_##T##_##T(T a) {                       \
        return ptx_bits(__builtin_rint##suffix(number(a)));  \
    }                                                        \
    PTX T ptx_cvt_rzi_##T##_##T(T a) {                       \
        return ptx_bits(__builtin_trunc##suffix(number(a))); \
    }                                                        \
    PTX T ptx_cvt_rmi_##T##_##T(T a) {                       \
        return ptx_bits(__builtin_floor##suffix(number(a))); \
    }                                                        \
    PTX T ptx_cvt_rpi_##T##_##T(T a) {                       \
        return ptx_bits(__builtin_ceil##suffix(number(a)));  \
    }
X(f32, ptx_float, f)
X(f64, ptx_double, )
#undef X

PTX f64 ptx_cvt_f64_f32(f32 a) {
    return ptx_bits((double)ptx_float(a));
}
PTX f32 ptx_cvt_rn_f32_f64(f64 a) {
    return ptx_bits((float)ptx_double(a));
}

/* Rounds single precision to `fraction` bits of fraction and the least exponent 1 - bias, by the
 * steps of its subnormals at the least. */
PTX u16 ptx_narrow(f32 a, int fraction, int bias) {
    const u16 sign = (u16)(a >> 16 & 0x8000u), infinity = (u16)((2 * bias + 1) << fraction);
    const float x = ptx_float(ptx_abs_f32(a));
    int exponent = (int)(a >> 23 & 255) - 127;
    if (x != x) return 0x7fff;
    if (exponent < 1 - bias) exponent = 1 - bias;
    const double step = __builtin_ldexp(1.0, exponent - fraction);
    const double steps = __builtin_rint((double)x / step);
    if (x - x != 0) return sign | infinity;
    const u32 made = (u32)((exponent + bias - 1) << fraction) + (u32)steps;
    return sign | (made < infinity ? (u16)made : infinity);
}
PTX b16 ptx_cvt_rn_f16_f32(f32 a) {
    return ptx_narrow(a, 10, 15);
}
PTX b16 ptx_cvt_rn_bf16_f32(f32 a) {
    return ptx_narrow(a, 7, 127);
}
PTX b32 ptx_cvt_rn_f16x2_f32(f32 high, f32 low) {
    return (b32)ptx_narrow(high, 10, 15) << 16 | ptx_narrow(low, 10, 15);
}
PTX b32 ptx_cvt_rn_bf16x2_f32(f32 high, f32 low) {
    return (b32)ptx_narrow(high, 7, 127) << 16 | ptx_narrow(low, 7, 127);
}
PTX f32 ptx_cvt_f32_bf16(bf16 a) {
    return ptx_bits(ptx_float((f32)a << 16));
}
PTX f32 ptx_cvt_f32_f16(f16 a) {
    const u32 exponent = a >> 10 & 31, fraction = a & 1023;
    const double size = exponent == 31 ? (fraction ? __builtin_nan("") : __builtin_inf())
                        : exponent     ? __builtin_ldexp(1024.0 + fraction, (int)exponent - 25)
                                       : __builtin_ldexp((double)fraction, -24);
    return ptx_bits((float)(a & 0x8000u ? -size : size));
}

/* ---- addresses and memory ---- */

PTX unsigned char *ptx_global(u64 address) {
    return (unsigned char *)address;
}
PTX unsigned char *ptx_shared(u64 address) {
    return __start_simt_shared + (u32)address;
}
PTX u64 ptx_cvta_to_global_u64(u64 address) {
    return address;
}
PTX u64 ptx_cvta_global_u64(u64 address) {
    return address;
}
PTX u64 ptx_cvta_local_u64(u64 address) {
    return address;
}
PTX u64 ptx_cvta_to_local_u64(u64 address) {
    return address;
}
PTX u64 ptx_cvta_shared_u64(u64 address) {
    return (u64)ptx_shared(address);
}
PTX u64 ptx_cvta_to_shared_u64(u64 address) {
    return address - (u64)__start_simt_shared;
}

/* The hardware refuses an address that is no multiple of what is moved. */
static inline void ptx_align(const unsigned char *address, u32 bytes) {
    if ((u64)address % bytes != 0) simt_machine.fail("an address is not a multiple of the access");
}
static inline void ptx_read(const unsigned char *address, u32 bytes) {
    ptx_align(address, bytes);
    if (SIMT_WATCHED) simt_machine.access(address, bytes, 0);
}
static inline void ptx_write(const unsigned char *address, u32 bytes) {
    ptx_align(address, bytes);
    if (SIMT_WATCHED) simt_machine.access(address, bytes, 1);
}
static inline void ptx_look(const unsigned char *address, u32 bytes) {
    ptx_align(address, bytes);
    if (SIMT_WATCHED) simt_machine.look(address, bytes);
}
/* Parameters and local memory are the thread's own. */
static inline void ptx_own(const unsigned char *address, u32 bytes) {
    ptx_align(address, bytes);
}

#define X(T)                                                \
    PTX T ptx_get_##T(const unsigned char *address) {       \
        T value;                                            \
        __builtin_memcpy(&value, address, sizeof value);    \
        return value;                                       \
    }                                                       \
    PTX void ptx_put_##T(unsigned char *address, T value) { \
        __builtin_memcpy(address, &value, sizeof value);    \
    }
X(b8)
X(b16)
X(b32)
X(b64)
X(s8)
X(s16)
X(s32)
X(s64)
#undef X
#define ptx_get_u8 ptx_get_b8
#define ptx_get_u16 ptx_get_b16
#define ptx_get_u32 ptx_get_b32
#define ptx_get_u64 ptx_get_b64
#define ptx_get_f32 ptx_get_b32
#define ptx_get_f64 ptx_get_b64
#define ptx_put_u8 ptx_put_b8
#define ptx_put_u16 ptx_put_b16
#define ptx_put_u32 ptx_put_b32
#define ptx_put_u64 ptx_put_b64
#define ptx_put_f32 ptx_put_b32
#define ptx_put_f64 ptx_put_b64

/* op(before, value): what an atomic leaves. */
#define PTX_ATOM(name, T, after)                                                         \
    PTX T ptx_atom_##name##_##T(unsigned char *address, T value, int order, int scope) { \
        ptx_align(address, sizeof(T));                                                   \
        simt_machine.atomic(address, sizeof(T), 1, order, scope);                        \
        const T before = ptx_get_##T(address);                                           \
        ptx_put_##T(address, after);                                                     \
        return before;                                                                   \
    }
PTX_ATOM(add, u32, before + value)
PTX_ATOM(add, u64, before + value)
PTX_ATOM(min, s64, before < value ? before : value)
PTX_ATOM(max, s64, before > value ? before : value)
PTX_ATOM(min, u32, before < value ? before : value)
PTX_ATOM(max, u32, before > value ? before : value)
PTX_ATOM(or, b32, before | value)
PTX_ATOM(and, b32, before &value)

/* ---- lanes ---- */

#define PTX_SHUFFLE(mode, chosen, fits)                                                     \
    PTX b32 ptx_shfl_sync_##mode##_b32(b32 a, u32 b, u32 c, u32 members, pred *inside,      \
                                       const void *place) {                                 \
        const u32 lane = simt_machine.thread.x & 31, segment = c >> 8 & 31, clamp = c & 31; \
        const u32 most = (lane & segment) | (clamp & ~segment), least = lane & segment;     \
        if (members != ~0u) simt_machine.fail("a shuffle must name all 32 lanes");          \
        b &= 31;                                                                            \
        const int from = (int)(chosen);                                                     \
        (void)least, (void)most;                                                            \
        *inside = fits;                                                                     \
        return (b32)simt_machine.exchange(a, *inside ? (u32)from : lane, place);            \
    }
PTX_SHUFFLE(bfly, lane ^ b, from <= (int)most)
PTX_SHUFFLE(up, (int)lane - (int)b, from >= (int)most)
PTX_SHUFFLE(down, lane + b, from <= (int)most)
PTX_SHUFFLE(idx, least | (b & ~segment), from <= (int)most)

PTX void ptx_bar_warp_sync(u32 members, const void *place) {
    if (members != ~0u) simt_machine.fail("a barrier of lanes must name all 32");
    simt_machine.group_sync(place);
}
PTX void ptx_bar_sync(u32 number, const void *place) {
    if (number != 0) simt_machine.fail("a barrier other than the block's");
    simt_machine.barrier(place);
}

#endif
