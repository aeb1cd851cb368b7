/* sweep_functions.c: the one-argument functions of f32 and what each is held against: the same
 * function of double, which glibc has as vector code right to 4 ulp of double, that is to 2^-27 of
 * an ulp of f32. */
#include "numerics.h"
#include "sweep.h"

#include "sqrt_hip.h" /* ls_sqrt_hip_f32: cut from templates/prelude.hip when this was built */

/* gcc calls the vector functions for these. The scalar ones are used for what vector code may get
 * wrong, such as the sign of a zero, and are the whole reference for other compilers. */
#ifdef SWEEP_VECTOR_MATH
#define VECTOR(name) __attribute__((simd("notinbranch"))) double name(double x);
VECTOR(exp)
VECTOR(exp2)
VECTOR(expm1)
VECTOR(log)
VECTOR(log2)
VECTOR(log1p)
VECTOR(atan)
VECTOR(tanh)
VECTOR(erf)
VECTOR(cbrt)
VECTOR(sin)
VECTOR(cos)
__attribute__((simd("notinbranch"))) double pow(double x, double y);
#endif

/* ---- what libm has not ---- */

#define LIKE_LIBM static inline __attribute__((always_inline))
LIKE_LIBM double sigmoid(double x) {
    double decay = exp(-fabs(x)), one = 1 + decay;
    return (x < 0 ? decay : 1) / one;
}
static long double sigmoidl(long double x) {
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
LIKE_LIBM double softplus(double x) {
    return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}
static long double softplusl(long double x) {
    return (x < 0 ? 0 : x) + log1pl(expl(-fabsl(x)));
}
LIKE_LIBM double rsqrt(double x) {
    return 1 / sqrt(x);
}
static long double rsqrtl(long double x) {
    return 1 / sqrtl(x);
}
LIKE_LIBM double inverse(double x) { /* ls_reciprocal_normal is asked for no other */
    double size = fabs(x);
    return size >= 0x1p-125 && size <= 0x1p125 ? 1 / x : 1;
}
static inline float ls_inverse_f32(float x) {
    float y = ls_reciprocal_normal(x), size = ls_abs_f32(x);
    return size >= 0x1p-125f && size <= 0x1p125f ? y : 1;
}
#define POWER(name, base, exponent)                                \
    LIKE_LIBM double name(double x) {                              \
        return pow((double)(base), (double)(exponent));            \
    }                                                              \
    static long double name##l(long double x) {                    \
        return powl((long double)(base), (long double)(exponent)); \
    }                                                              \
    static inline float ls_##name##_f32(float x) {                 \
        return ls_pow_f32(base, exponent);                         \
    }
#define SINGLE(number) ((float)(number))
POWER(pow_07, x, 0.7f)
POWER(pow_m13, x, -1.3f)
#undef POWER
LIKE_LIBM double pow_base(double x) {
    return pow((double)0.999f, x);
}
static long double pow_basel(long double x) {
    return powl((long double)0.999f, x);
}
static inline float ls_pow_base_f32(float x) {
    return ls_pow_f32(0.999f, x);
}

/* ---- math lite: as it is, and as it is stored ---- */

#define LITE(name)                                           \
    static inline float ls_##name##_lite_bf16_f32(float x) { \
        return ls_round_bf16(ls_##name##_lite_f32(x));       \
    }
LITE(atan)
LITE(tanh)
LITE(erf)
LITE(sigmoid)
LITE(log)
LITE(exp)
LITE(exp2)
#undef LITE

/* ---- exact ones ---- */

LIKE_LIBM double negative(double x) {
    return -x;
}
LIKE_LIBM double sign(double x) {
    double y = (double)(x > 0) - (double)(x < 0);
    return x == x ? y : x;
}
LIKE_LIBM double is_nan(double x) {
    return x != x;
}
LIKE_LIBM double is_infinite(double x) {
    return fabs(x) > 0x1.fffffep127;
}
LIKE_LIBM double is_finite(double x) {
    return fabs(x) <= 0x1.fffffep127;
}
#define ls_negative_f32 ls_neg_f32
#define ls_is_nan_f32 ls_isnan_f32
#define ls_is_infinite_f32 ls_isinf_f32
#define ls_is_finite_f32 ls_isfinite_f32

/* Integers that come from an f32 are f32 themselves, but for the largest one, which becomes the
 * power of two above it; tests/numerics/conversions.c has that one. */
#define CAST(T, least, most)                       \
    LIKE_LIBM double to_##T(double x) {            \
        double y = trunc(x) + 0.0;                 \
        y = y < (least) ? (least) : y;             \
        y = y > (most) ? (most) : y;               \
        return x == x ? y : 0;                     \
    }                                              \
    static inline float ls_to_##T##_f32(float x) { \
        return (float)ls_##T##_from_f32(x);        \
    }
CAST(i32, -0x1p31, 0x1p31)
CAST(u32, 0.0, 0x1p32)
CAST(i64, -0x1p63, 0x1p63)
CAST(u64, 0.0, 0x1p64)
#undef CAST

/* Narrow floats, packed and unpacked, by the definition: x over the distance of the type's values
 * at x, to the nearest integer. That a value has one pattern is shown in conversions.c; here a NaN
 * must have its own. */
#define NARROW(S, mantissa_bits, least_exponent, beyond, overflow, not_a_number)         \
    LIKE_LIBM double to_##S(double x) {                                                  \
        uint64_t bits = ls_bits_f64(x), exponent = bits >> 52 & 0x7ff;                   \
        uint64_t least = 1023 + (uint64_t)((least_exponent) + 1000) - 1000;              \
        exponent = exponent < least ? least : exponent;                                  \
        double unit = ls_from_bits_f64((exponent - (mantissa_bits)) << 52);              \
        double inverse_unit = ls_from_bits_f64((2046 + (mantissa_bits)-exponent) << 52); \
        double y = rint(x * inverse_unit) * unit;                                        \
        double large = x < 0 ? -(overflow) : (overflow);                                 \
        y = fabs(x) >= (beyond) ? large : y;                                             \
        return x == x ? y : x;                                                           \
    }                                                                                    \
    static inline float ls_to_##S##_f32(float x) {                                       \
        S stored = ls_pack_##S(x);                                                       \
        float y = ls_unpack_##S(stored);                                                 \
        return y == y || stored == (not_a_number) ? y : 12345.0f;                        \
    }
NARROW(bf16, 7, -126, 0x1.ffp127, (double)INFINITY, 0x7fff)
NARROW(f16, 10, -14, 65520.0, (double)INFINITY, 0x7fff)
NARROW(e4m3, 3, -6, 448.0, 448.0, 0x7f)
NARROW(e5m2, 2, -14, 57344.0, 57344.0, 0x7f)
#undef NARROW

/* ---- the table ---- */

#ifdef SWEEP_FAST
#define ls_log_f32 ls_log_fast_f32
#define ls_tanh_f32 ls_tanh_fast_f32
#define ls_erf_f32 ls_erf_fast_f32
#define ls_sigmoid_f32 ls_sigmoid_fast_f32
#define FUNCTIONS                              \
    X(exp, exp, F32, 0.95, expl)               \
    X(exp2, exp2, F32, 0.95, exp2l)            \
    X(expm1, expm1, F32, 1.2, expm1l)          \
    X(log, log, F32, 900, logl)                \
    X(log2, log2, F32, 0.6, log2l)             \
    X(log1p, log1p, F32, 1.3, log1pl)          \
    X(sigmoid, sigmoid, F32, 1300, sigmoidl)   \
    X(tanh, tanh, F32, 1600, tanhl)            \
    X(erf, erf, F32, 1300, erfl)               \
    X(softplus, softplus, F32, 1.5, softplusl) \
    X(sqrt, sqrt, EXACT, 0.5, sqrtl)           \
    X(rsqrt, rsqrt, F32, 0.6, rsqrtl)          \
    X(cbrt, cbrt, F32, 0.9, cbrtl)             \
    X(sin, sin, F32, 1.2, sinl)                \
    X(cos, cos, F32, 1.2, cosl)                \
    X(atan, atan, F32, 1.1, atanl)             \
    X(pow_07, pow_07, F32, 1, pow_07l)         \
    X(pow_m13, pow_m13, F32, 1, pow_m13l)      \
    X(pow_base, pow_base, F32, 1, pow_basel)
#else
/*    name         function and reference  bound   reference in long double, or NULL */
#define FUNCTIONS                                     \
    X(exp, exp, F32, 0.8892, expl)                    \
    X(exp2, exp2, F32, 0.8785, exp2l)                 \
    X(expm1, expm1, F32, 1.1045, expm1l)              \
    X(log, log, F32, 0.9218, logl)                    \
    X(log2, log2, F32, 0.5010, log2l)                 \
    X(log1p, log1p, F32, 1.1830, log1pl)              \
    X(sigmoid, sigmoid, F32, 1.0067, sigmoidl)        \
    X(tanh, tanh, F32, 1.0118, tanhl)                 \
    X(erf, erf, F32, 0.9910, erfl)                    \
    X(softplus, softplus, F32, 1.3273, softplusl)     \
    X(sqrt, sqrt, EXACT, 0.5, sqrtl)                  \
    X(sqrt_hip, sqrt, EXACT, 0.5, sqrtl)              \
    X(rsqrt, rsqrt, F32, 0.5001, rsqrtl)              \
    X(cbrt, cbrt, F32, 0.7970, cbrtl)                 \
    X(sin, sin, F32, 1.0571, sinl)                    \
    X(cos, cos, F32, 1.0651, cosl)                    \
    X(atan, atan, F32, 1.0217, atanl)                 \
    X(pow_07, pow_07, F32, 0.9192, pow_07l)           \
    X(pow_m13, pow_m13, F32, 0.9385, pow_m13l)        \
    X(pow_base, pow_base, F32, 0.9041, pow_basel)     \
    X(atan_lite, atan, F32, 503.1, atanl)             \
    X(atan_lite_bf16, atan, BF16, 0.5077, NULL)       \
    X(tanh_lite, tanh, F32, 1523.3, tanhl)            \
    X(tanh_lite_bf16, tanh, BF16, 0.5144, NULL)       \
    X(erf_lite, erf, F32, 1258.6, erfl)               \
    X(erf_lite_bf16, erf, BF16, 0.5136, NULL)         \
    X(sigmoid_lite, sigmoid, F32, 1205.1, sigmoidl)   \
    X(sigmoid_lite_bf16, sigmoid, BF16, 0.5184, NULL) \
    X(log_lite, log, F32, 842.2, logl)                \
    X(log_lite_bf16, log, BF16, 0.5128, NULL)         \
    X(exp_lite, exp, F32, 1622.1, expl)               \
    X(exp_lite_bf16, exp, BF16, 0.5234, NULL)         \
    X(exp2_lite, exp2, F32, 1602.8, exp2l)            \
    X(exp2_lite_bf16, exp2, BF16, 0.5234, NULL)       \
    X(inverse, inverse, F32, 0.5400, NULL)            \
    X(negative, negative, EXACT, 0, NULL)             \
    X(abs, fabs, EXACT, 0, NULL)                      \
    X(sign, sign, EXACT, 0, NULL)                     \
    X(floor, floor, EXACT, 0, NULL)                   \
    X(ceil, ceil, EXACT, 0, NULL)                     \
    X(round, rint, EXACT, 0, NULL)                    \
    X(trunc, trunc, EXACT, 0, NULL)                   \
    X(is_nan, is_nan, EXACT, 0, NULL)                 \
    X(is_infinite, is_infinite, EXACT, 0, NULL)       \
    X(is_finite, is_finite, EXACT, 0, NULL)           \
    X(to_i32, to_i32, EXACT, 0, NULL)                 \
    X(to_u32, to_u32, EXACT, 0, NULL)                 \
    X(to_i64, to_i64, EXACT, 0, NULL)                 \
    X(to_u64, to_u64, EXACT, 0, NULL)                 \
    X(to_bf16, to_bf16, EXACT, 0, NULL)               \
    X(to_f16, to_f16, EXACT, 0, NULL)                 \
    X(to_e4m3, to_e4m3, EXACT, 0, NULL)               \
    X(to_e5m2, to_e5m2, EXACT, 0, NULL)
#endif

#define X(name, exact, unit, bound, finer)                                   \
    static void run_##name(const float *x, float *y) {                       \
        for (int i = 0; i < BLOCK; i++) y[i] = (float)ls_##name##_f32(x[i]); \
    }                                                                        \
    static void reference_##name(const float *x, double *y) {                \
        for (int i = 0; i < BLOCK; i++) y[i] = exact((double)x[i]);          \
    }                                                                        \
    static double scalar_##name(double x) {                                  \
        return exact(x);                                                     \
    }
FUNCTIONS
#undef X

#ifdef SWEEP_FAST
const bool rows_are_recorded = false;
#else
const bool rows_are_recorded = true;
#endif
const Row rows[] = {
#define X(name, exact, unit, bound, finer) \
    {#name, UNIT_##unit, bound, run_##name, reference_##name, scalar_##name, finer},
    FUNCTIONS
#undef X
};
const size_t row_count = sizeof rows / sizeof rows[0];
