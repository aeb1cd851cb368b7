/* math.h: the functions of the language on f32 and f64, one text for C, CUDA C and HIP C, after a
 * prelude. Only + - * / sqrt fma, compares, selects and integer operations, so the bits are the
 * same everywhere; no tables, and no branches but the loop of powi and the one for huge angles. NaN
 * results have any bits: stores make them canonical. The bound beside a function is its largest
 * error over all inputs, in units in the last place (ulp); tests/numerics holds each one.
 * Coefficients without a source are minimax fits on the stated interval, rounded to f32 one after
 * the other (Brisebarre and Chevillard, "Efficient polynomial L-infinity approximations", ARITH
 * 2007). */
#ifndef LS_MATH
#define LS_MATH

#define LS_INFINITY_F32 ls_from_bits_f32(0x7f800000u)
#define LS_NAN_F32 ls_from_bits_f32(0x7fffffffu)
#define LS_INFINITY_F64 ls_from_bits_f64(0x7ff0000000000000u)
#define LS_NAN_F64 ls_from_bits_f64(0x7fffffffffffffffu)

/* ---- what both float types share ----
 * BITS is the integer type of the same size, SIGN its sign bit, WHOLE the power of two from which
 * on every value is an integer, so that x + WHOLE - WHOLE rounds |x| < WHOLE half to even. min and
 * max are minimum and maximum of IEEE 754-2019: NaN wins, -0 is below +0. The sign of a NaN counts
 * as +, and sign(NaN) is NaN. pow_special puts the special cases of IEEE 754 pow onto `y`, the
 * result for a finite positive base. */
#define LS_FLOAT(T, BITS, INT, SIGN, WHOLE, EVEN, INFINITE, NOT_A_NUMBER)                 \
    LS_FN T ls_neg_##T(T x) {                                                             \
        return -x;                                                                        \
    }                                                                                     \
    LS_FN T ls_abs_##T(T x) {                                                             \
        return ls_from_bits_##T(ls_bits_##T(x) & ~(SIGN));                                \
    }                                                                                     \
    LS_FN int ls_isnan_##T(T x) {                                                         \
        return x != x;                                                                    \
    }                                                                                     \
    LS_FN int ls_isinf_##T(T x) {                                                         \
        return ls_abs_##T(x) == INFINITE;                                                 \
    }                                                                                     \
    LS_FN int ls_isfinite_##T(T x) {                                                      \
        return ls_abs_##T(x) < INFINITE;                                                  \
    }                                                                                     \
    LS_FN T ls_select_##T(int condition, T a, T b) {                                      \
        return condition ? a : b;                                                         \
    }                                                                                     \
    /* `magnitude`, which is not negative, with the sign bit of `from` */                 \
    LS_FN T ls_with_sign_##T(T magnitude, T from) {                                       \
        return ls_from_bits_##T(ls_bits_##T(magnitude) | (ls_bits_##T(from) & (SIGN)));   \
    }                                                                                     \
    LS_FN T ls_copysign_##T(T x, T from) {                                                \
        T positive = ls_abs_##T(x);                                                       \
        return from == from ? ls_with_sign_##T(positive, from) : positive;                \
    }                                                                                     \
    LS_FN T ls_sign_##T(T x) {                                                            \
        T y = x > 0 ? (T)1 : (T)0;                                                        \
        y = x < 0 ? (T)-1 : y;                                                            \
        return x == x ? y : x;                                                            \
    }                                                                                     \
    LS_FN T ls_round_##T(T x) {                                                           \
        T size = ls_abs_##T(x), y = (size + (WHOLE)) - (WHOLE);                           \
        return size < (WHOLE) ? ls_with_sign_##T(y, x) : x;                               \
    }                                                                                     \
    LS_FN T ls_trunc_##T(T x) {                                                           \
        T size = ls_abs_##T(x), y = (size + (WHOLE)) - (WHOLE);                           \
        y = y > size ? y - 1 : y;                                                         \
        return size < (WHOLE) ? ls_with_sign_##T(y, x) : x;                               \
    }                                                                                     \
    LS_FN T ls_floor_##T(T x) {                                                           \
        T y = ls_round_##T(x);                                                            \
        return y > x ? y - 1 : y;                                                         \
    }                                                                                     \
    LS_FN T ls_ceil_##T(T x) {                                                            \
        return -ls_floor_##T(-x);                                                         \
    }                                                                                     \
    LS_FN T ls_floordiv_##T(T a, T b) {                                                   \
        return ls_floor_##T(ls_div_##T(a, b));                                            \
    }                                                                                     \
    LS_FN T ls_mod_##T(T a, T b) {                                                        \
        return a - ls_floor_##T(ls_div_##T(a, b)) * b;                                    \
    }                                                                                     \
    LS_FN T ls_min_##T(T a, T b) {                                                        \
        T y = a < b ? a : b; /* b where either is NaN */                                  \
        y = a == b ? ls_from_bits_##T(ls_bits_##T(a) | ls_bits_##T(b)) : y;               \
        return a == a ? y : a;                                                            \
    }                                                                                     \
    LS_FN T ls_max_##T(T a, T b) {                                                        \
        T y = a > b ? a : b;                                                              \
        y = a == b ? ls_from_bits_##T(ls_bits_##T(a) & ls_bits_##T(b)) : y;               \
        return a == a ? y : a;                                                            \
    }                                                                                     \
    /* integer exponent by squaring, the rule of the language page */                     \
    LS_FN T ls_powi_##T(T x, i64 exponent) {                                              \
        u64 left = exponent < 0 ? 0u - (u64)exponent : (u64)exponent;                     \
        T y = 1, power = x;                                                               \
        while (left) {                                                                    \
            y = left & 1u ? y * power : y;                                                \
            left >>= 1;                                                                   \
            power = left ? power * power : power;                                         \
        }                                                                                 \
        return exponent < 0 ? ls_div_##T(1, y) : y;                                       \
    }                                                                                     \
    LS_FN T ls_pow_special_##T(T base, T exponent, T y) {                                 \
        T size = ls_abs_##T(base), steps = ls_abs_##T(exponent);                          \
        int zero = size == 0, infinite = size == INFINITE;                                \
        T limit = zero != (exponent < 0) ? (T)0 : INFINITE;                               \
        y = (zero | infinite) ? limit : y;                                                \
        /* from EVEN on all values are even integers; NaN goes with them */               \
        BITS steps_bits = ls_bits_##T(steps), even_bits = ls_bits_##T(EVEN);              \
        T capped = ls_from_bits_##T(steps_bits < even_bits ? steps_bits : even_bits);     \
        INT whole = (INT)capped;                                                          \
        int is_whole = (((capped + (WHOLE)) - (WHOLE)) == capped) | (capped >= (WHOLE));  \
        BITS odd = (BITS)whole & (BITS)is_whole & 1u; /* then the sign is the base's */   \
        y = ls_from_bits_##T(ls_bits_##T(y) | ((0u - odd) & ls_bits_##T(base) & (SIGN))); \
        int invalid = (base < 0) & !infinite & !is_whole;                                 \
        y = (invalid | (base != base) | (exponent != exponent)) ? NOT_A_NUMBER : y;       \
        return ((base == 1) | (exponent == 0)) ? (T)1 : y;                                \
    }
LS_FLOAT(f32, u32, i32, 0x80000000u, 0x1p23f, 0x1p24f, LS_INFINITY_F32, LS_NAN_F32)
LS_FLOAT(f64, u64, i64, 0x8000000000000000u, 0x1p52, 0x1p53, LS_INFINITY_F64, LS_NAN_F64)
#undef LS_FLOAT

/* An unevaluated sum, |low| at most about an ulp of high. */
typedef struct ls_pair_f32 {
    f32 high, low;
} ls_pair_f32;
typedef struct ls_pair_f64 {
    f64 high, low;
} ls_pair_f64;

/* 1 / d for normal d between 2^-125 and 2^125, 0.54 ulp: a seed by integer subtraction, a Newton
 * step with tuned constant (error 2^-9.6), a cubic step. No division unit. */
LS_FN f32 ls_reciprocal_normal(f32 d) {
    f32 y = ls_from_bits_f32(0x7ef31fc0u - ls_bits_f32(d));
    y = y * ls_fma_f32(-d, y, 0x1.002a7ap+1f);
    f32 error = ls_fma_f32(-d, y, 1.0f);
    return ls_fma_f32(y, ls_fma_f32(error, error, error), y);
}

/* ---- exponentials ----
 * x = n ln 2 + r with |r| <= ln 2 / 2; n is rounded by adding 1.5 * 2^23, whose low bits then hold
 * it plus a bias, ready to be shifted into an exponent. ln 2 is the sum of two f32 (Cody and
 * Waite). What is far below the smallest result, as masks of -inf are, is taken to where a factor
 * is 0: products that underflow take some processors a hundred cycles. */

/* q(r) with exp(r) = 1 + r + r^2 q(r), |r| <= 0.3475 */
LS_FN f32 ls_exp_remainder(f32 r) {
    f32 q = ls_fma_f32(0x1.685b36p-10f, r, 0x1.123d52p-7f);
    q = ls_fma_f32(q, r, 0x1.555b92p-5f);
    q = ls_fma_f32(q, r, 0x1.55548cp-3f);
    return ls_fma_f32(q, r, 0x1.fffff8p-2f);
}
/* 2^r, |r| <= 1/2 */
LS_FN f32 ls_exp2_polynomial(f32 r) {
    f32 p = ls_fma_f32(0x1.3fad5ep-13f, r, 0x1.5f0ca8p-10f);
    p = ls_fma_f32(p, r, 0x1.3b3096p-7f);
    p = ls_fma_f32(p, r, 0x1.c6af74p-5f);
    p = ls_fma_f32(p, r, 0x1.ebfbd8p-3f);
    p = ls_fma_f32(p, r, 0x1.62e43p-1f);
    return ls_fma_f32(p, r, 1.0f);
}
/* The two normal factors of 2^n, whose product may be subnormal; `biased` holds n + 254 in its low
 * bits. */
LS_FN ls_pair_f32 ls_two_factors(u32 biased) {
    u32 half = biased >> 1;
    ls_pair_f32 factors = {ls_from_bits_f32(half << 23), ls_from_bits_f32((biased - half) << 23)};
    return factors;
}
LS_FN f32 ls_scale_by_two(f32 y, u32 biased) {
    ls_pair_f32 factors = ls_two_factors(biased);
    return y * factors.high * factors.low;
}
/* r = x - n ln 2 */
LS_FN f32 ls_exp_reduce(f32 x, f32 n) {
    f32 r = ls_fma_f32(n, -0x1.62e43p-1f, x);
    return ls_fma_f32(n, 0x1.05c61p-29f, r);
}
LS_FN f32 ls_exp_f32(f32 x) {  /* 0.89 ulp */
    x = x > 89.0f ? 89.0f : x; /* NaN passes every such bound in this file */
    x = x < -176.0f ? -176.0f : x;
    f32 t = ls_fma_f32(x, 0x1.715476p+0f, 12583166.0f); /* n + 254 + 1.5 * 2^23 */
    f32 r = ls_exp_reduce(x, t - 12583166.0f);
    f32 y = ls_fma_f32(ls_fma_f32(ls_exp_remainder(r), r, 1.0f), r, 1.0f);
    return ls_scale_by_two(y, ls_bits_f32(t));
}
LS_FN f32 ls_exp2_f32(f32 x) { /* 0.88 ulp */
    x = x > 129.0f ? 129.0f : x;
    x = x < -254.0f ? -254.0f : x;
    f32 t = x + 12583166.0f;
    f32 r = x - (t - 12583166.0f);
    return ls_scale_by_two(ls_exp2_polynomial(r), ls_bits_f32(t));
}
LS_FN f32
ls_expm1_f32(f32 x) { /* 1.11 ulp: half the result, 2^(n-1) (1 + r) - 1/2 kept in two parts */
    x = x > 89.0f ? 89.0f : x;
    x = x < -18.0f ? -18.0f : x;
    f32 t = ls_fma_f32(x, 0x1.715476p+0f, 12583038.0f); /* n - 1 + 127 + 1.5 * 2^23 */
    f32 r = ls_exp_reduce(x, t - 12583038.0f);
    f32 q = (ls_exp_remainder(r) * r) * r;
    f32 scale = ls_from_bits_f32(ls_bits_f32(t) << 23);
    f32 base = scale - 0.5f, high = ls_fma_f32(scale, r, base);
    f32 low = ls_fma_f32(scale, r, (base - high) + ((scale - base) - 0.5f));
    f32 y = high + ls_fma_f32(scale, q, low);
    return ls_abs_f32(x) < 0x1p-24f ? x : y + y; /* keeps -0 and subnormals */
}

/* ---- logarithms ---- */

/* P(f) with log(1 + f) = f + f^2 P(f), |f| <= 1/3 */
LS_FN f32 ls_log_remainder(f32 f) {
    f32 p = ls_fma_f32(-0x1.06fc5ep-3f, f, 0x1.1ef6b4p-3f);
    p = ls_fma_f32(p, f, -0x1.f392f6p-4f);
    p = ls_fma_f32(p, f, 0x1.1eb624p-3f);
    p = ls_fma_f32(p, f, -0x1.5598bep-3f);
    p = ls_fma_f32(p, f, 0x1.99d284p-3f);
    p = ls_fma_f32(p, f, -0x1.ffff1p-3f);
    p = ls_fma_f32(p, f, 0x1.5555p-2f);
    return ls_fma_f32(p, f, -0.5f);
}
/* x = 2^exponent mantissa for x >= 0; mantissas from 2 - carry / 2^23 on are halved, so that
 * `carry` sets the interval. Subnormals are scaled first. */
typedef struct ls_split_f32 {
    f32 exponent, mantissa;
} ls_split_f32;
LS_FN ls_split_f32 ls_split_positive_f32(f32 x, u32 carry) {
    u32 subnormal = ls_bits_f32(x) < 0x00800000u;
    f32 scaled = subnormal ? x * 0x1p23f : x;
    f32 bias = subnormal ? 8388758.0f : 8388735.0f; /* 2^23 + 127 (+ 23) */
    u32 carried = ls_bits_f32(scaled) + carry;
    ls_split_f32 split;
    split.exponent = ls_from_bits_f32((carried >> 23) | 0x4b000000u) - bias;
    split.mantissa = ls_from_bits_f32(ls_bits_f32(scaled) - (carried & 0xff800000u) + 0x3f800000u);
    return split;
}
LS_FN f32 ls_log_special_f32(f32 x, f32 y) {
    y = x < LS_INFINITY_F32 ? y : x;
    return x > 0.0f ? y : (x == 0.0f ? -LS_INFINITY_F32 : LS_NAN_F32);
}
LS_FN f32 ls_log_f32(f32 x) { /* 0.93 ulp, mantissa in [2/3, 4/3) */
    ls_split_f32 split = ls_split_positive_f32(x, 0x00555555u);
    f32 f = split.mantissa - 1.0f;
    f32 y = ls_fma_f32(ls_log_remainder(f) * f, f, f);
    return ls_log_special_f32(x, ls_fma_f32(split.exponent, 0x1.62e43p-1f, y));
}
/* log(1 + x + low) for x in (-1, inf) and |low| up to an ulp of x. The exponent k comes from 1 + x;
 * x and 1 are scaled by 2^-k apart, so that nothing is lost when x is tiny. */
LS_FN f32 ls_log1p_pair(f32 x, f32 low) {
    u32 scale = (ls_bits_f32(1.0f + x) - 0x3f2aaaabu) & 0xff800000u; /* k << 23 */
    f32 scaled = ls_from_bits_f32(ls_bits_f32(x) - scale);
    f32 four = ls_from_bits_f32(0x40800000u - scale); /* 4 * 2^-k */
    f32 one = ls_fma_f32(0.25f, four, -1.0f);         /* 2^-k - 1 */
    f32 f = one + scaled;
    f32 rest = ls_abs_f32(one) >= ls_abs_f32(scaled) ? scaled - (f - one) : one - (f - scaled);
    rest = ls_fma_f32(low * 0.25f, four, rest);
    f32 k = ls_from_bits_f32(0x4b400000u + (u32)((i32)scale >> 23)) - 12582912.0f;
    f32 p = ls_fma_f32(ls_log_remainder(f) * f, f, rest);
    f32 high = ls_fma_f32(k, 0x1.62e43p-1f, f);
    return high + ((ls_fma_f32(k, 0x1.62e43p-1f, -high) + f) + p);
}
LS_FN f32 ls_log1p_f32(f32 x) { /* 1.19 ulp */
    f32 y = ls_log1p_pair(x, 0.0f);
    y = ls_abs_f32(x) < 0x1p-24f ? x : y; /* keeps -0 and subnormals */
    y = x < LS_INFINITY_F32 ? y : x;
    return x > -1.0f ? y : (x == -1.0f ? -LS_INFINITY_F32 : LS_NAN_F32);
}
/* log2 of a positive finite number as a pair, error about 2^-34 of it:
 * 2/ln 2 atanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)), the leading terms in two
 * parts. */
LS_FN ls_pair_f32 ls_log2_pair(f32 x) {
    ls_split_f32 split = ls_split_positive_f32(x, 0x004afb0du);
    f32 m = split.mantissa, f = m - 1.0f;
    f32 below = m + 1.0f, below_low = m - (below - 1.0f);
    f32 w = ls_reciprocal_normal(below);
    f32 s = f * w;
    f32 s_low = ls_fma_f32(-s, below_low, ls_fma_f32(-s, below, f)) * w;
    f32 z = s * s, z_low = ls_fma_f32(s + s, s_low, ls_fma_f32(s, s, -z));
    f32 g = ls_fma_f32(0x1.dcfc48p-4f, z, 0x1.2461dcp-3f);
    g = ls_fma_f32(g, z, 0x1.9999d6p-3f);
    f32 c = ls_fma_f32(g, z, 0x1.555556p-2f); /* 1/3 + z/5 + … */
    f32 c_low = ls_fma_f32(g, z, 0x1.555556p-2f - c) - 0x1.555556p-27f;
    f32 u = z * c, u_low = ls_fma_f32(z, c, -u);
    u_low = u_low + ls_fma_f32(z, c_low, z_low * c);
    f32 v = s * u, v_low = ls_fma_f32(s, u, -v);
    v_low = v_low + ls_fma_f32(s, u_low, s_low * u);
    f32 l = s + v, l_low = ((s - l) + v) + (v_low + s_low);
    f32 high = l * 0x1.715476p+1f; /* 2 / ln 2 */
    f32 low = ls_fma_f32(l, 0x1.715476p+1f, -high) +
              ls_fma_f32(l, 0x1.4ae0cp-25f, l_low * 0x1.715476p+1f);
    ls_pair_f32 sum;
    sum.high = split.exponent + high;
    sum.low = low + ((split.exponent - sum.high) + high);
    return sum;
}
LS_FN f32 ls_log2_f32(f32 x) { /* 0.51 ulp */
    ls_pair_f32 y = ls_log2_pair(x);
    return ls_log_special_f32(x, y.high + y.low);
}

/* ---- power ---- */

LS_FN f32 ls_pow_f32(f32 x, f32 y) { /* 0.94 ulp: 2^(y log2 |x|), the product in two parts */
    ls_pair_f32 logarithm = ls_log2_pair(ls_abs_f32(x));
    f32 capped = ls_abs_f32(y) > 0x1p33f ? ls_with_sign_f32(0x1p33f, y) : y;
    f32 high = capped * logarithm.high;
    f32 low = ls_fma_f32(capped, logarithm.low, ls_fma_f32(capped, logarithm.high, -high));
    int inside = ls_abs_f32(high) < 200.0f; /* beyond it the result is 0 or infinite */
    low = inside ? low : 0.0f;
    high = inside ? high : ls_with_sign_f32(200.0f, high);
    f32 t = high + 12583166.0f;
    f32 r = (high - (t - 12583166.0f)) + low;
    return ls_pow_special_f32(x, y, ls_scale_by_two(ls_exp2_polynomial(r), ls_bits_f32(t)));
}

/* ---- logistic functions ---- */

/* exp(-a) = (high + low) * factors.high * factors.low for a = min(|x|, 104.5) */
typedef struct ls_decay_f32 {
    f32 high, low;
    ls_pair_f32 factors;
} ls_decay_f32;
LS_FN ls_decay_f32 ls_decay(f32 x) {
    f32 a = ls_abs_f32(x);
    a = a > 104.5f ? 104.5f : a;
    f32 t = ls_fma_f32(a, -0x1.715476p+0f, 12583166.0f);
    f32 r = ls_exp_reduce(-a, t - 12583166.0f);
    f32 q = ls_fma_f32(ls_exp_remainder(r) * r, r, r);
    ls_decay_f32 decay;
    decay.high = 1.0f + q;
    decay.low = q - (decay.high - 1.0f);
    decay.factors = ls_two_factors(ls_bits_f32(t));
    return decay;
}
/* 1.01 ulp. E = exp(-|x|): 1 / (1 + E), and E / (1 + E) for negative x; one residual correction. */
LS_FN f32 ls_sigmoid_f32(f32 x) {
    ls_decay_f32 decay = ls_decay(x);
    f32 scale =
        decay.factors.high * decay.factors.low; /* may be subnormal; for the denominator only */
    f32 below = ls_fma_f32(scale, decay.high, 1.0f);
    f32 below_low = ls_fma_f32(scale, decay.low, ls_fma_f32(scale, decay.high, 1.0f - below));
    u32 negative = ls_bits_f32(x) >> 31;
    f32 above = negative ? decay.high : 1.0f, above_low = negative ? decay.low : 0.0f;
    f32 w = ls_reciprocal_normal(below);
    f32 y = above * w;
    f32 residual = ls_fma_f32(-below, y, above) + ls_fma_f32(-below_low, y, above_low);
    y = ls_fma_f32(residual, w, y);
    return negative ? y * decay.factors.high * decay.factors.low : y;
}
LS_FN f32 ls_softplus_f32(f32 x) { /* 1.33 ulp: max(x, 0) + log1p(exp(-|x|)) */
    ls_decay_f32 decay = ls_decay(x);
    f32 high = decay.high * decay.factors.high * decay.factors.low;
    f32 low = decay.low * decay.factors.high * decay.factors.low;
    f32 y = ls_log1p_pair(high, low);
    y = high < 0x1p-24f ? high : y;
    return (x < 0.0f ? 0.0f : x) + y;
}
/* 1.02 ulp. Below 0.9 an odd polynomial; above it 1 - 2 / (exp(2|x|) + 1). */
LS_FN f32 ls_tanh_f32(f32 x) {
    f32 a = ls_abs_f32(x), capped = a > 9.2f ? 9.2f : a;
    f32 t = ls_fma_f32(capped, 0x1.715476p+1f, 12583039.0f);     /* n + 127 + 1.5 * 2^23 */
    f32 r = ls_fma_f32(t - 12583039.0f, -0x1.62e43p-2f, capped); /* exp(2a) = 2^n exp(2r) */
    f32 p = ls_fma_f32(0x1.685b36p-4f, r, 0x1.123d52p-2f);
    p = ls_fma_f32(p, r, 0x1.555b92p-1f);
    p = ls_fma_f32(p, r, 0x1.55548cp0f);
    p = ls_fma_f32(p, r, 0x1.fffff8p0f);
    p = ls_fma_f32(p, r, 2.0f);
    p = ls_fma_f32(p, r, 1.0f);
    f32 below = ls_fma_f32(p, ls_from_bits_f32(ls_bits_f32(t) << 23), 1.0f);
    f32 large = ls_fma_f32(-2.0f, ls_reciprocal_normal(below), 1.0f);
    f32 s = a * a;
    f32 g = ls_fma_f32(-0x1.ddd8c4p-12f, s, 0x1.529d64p-9f);
    g = ls_fma_f32(g, s, -0x1.0ed7aap-7f);
    g = ls_fma_f32(g, s, 0x1.62f1cap-6f);
    g = ls_fma_f32(g, s, -0x1.b9ca4ep-5f);
    g = ls_fma_f32(g, s, 0x1.110f38p-3f);
    g = ls_fma_f32(g, s, -0x1.55554ep-2f);
    f32 small = ls_fma_f32(g * s, a, a);
    return ls_with_sign_f32(a < 0.9f ? small : large, x);
}
/* 1.00 ulp. Below 1 an odd polynomial; above it 1 - 2^(-a Z(a)) with Z(a) = -log2(erfc(a)) / a. */
LS_FN f32 ls_erf_f32(f32 x) {
    f32 a = ls_abs_f32(x), capped = a > 4.0f ? 4.0f : a;
    f32 z = ls_fma_f32(-0x1.3eaa42p-12f, capped, 0x1.2d532ep-8f);
    z = ls_fma_f32(z, capped, -0x1.0d7242p-5f);
    z = ls_fma_f32(z, capped, 0x1.3694acp-3f);
    z = ls_fma_f32(z, capped, 0x1.d5a9c2p-1f);
    z = ls_fma_f32(z, capped, 0x1.a0c80ep0f);
    f32 t = ls_fma_f32(-z, capped, 12583039.0f); /* n + 127 + 1.5 * 2^23 */
    f32 r = ls_fma_f32(-z, capped, 12583039.0f - t);
    f32 p = ls_exp2_polynomial(r);
    f32 large = ls_fma_f32(-p, ls_from_bits_f32(ls_bits_f32(t) << 23), 1.0f);
    f32 s = a * a;
    f32 g = ls_fma_f32(0x1.4c5cb4p-14f, s, -0x1.a5197ap-11f);
    g = ls_fma_f32(g, s, 0x1.542fecp-8f);
    g = ls_fma_f32(g, s, -0x1.b7fec4p-6f);
    g = ls_fma_f32(g, s, 0x1.ce2d52p-4f);
    g = ls_fma_f32(g, s, -0x1.81274p-2f);
    g = ls_fma_f32(g, s, 0x1.06eba8p-3f);
    f32 small = ls_fma_f32(g, a, a);
    return ls_with_sign_f32(a < 1.0f ? small : large, x);
}

/* ---- roots ---- */

/* Correctly rounded: an integer seed, three Newton steps, one step on the exact residual 1 - x y^2.
 */
LS_FN f32 ls_rsqrt_f32(f32 x) {
    u32 subnormal = ls_bits_f32(x) < 0x00800000u;
    f32 scaled = subnormal ? x * 0x1p24f : x;
    f32 half = -0.5f * scaled;
    f32 y = ls_from_bits_f32(0x5f375a86u - (ls_bits_f32(scaled) >> 1));
    y = ls_fma_f32(y, ls_fma_f32(half * y, y, 0.5f), y);
    y = ls_fma_f32(y, ls_fma_f32(half * y, y, 0.5f), y);
    y = ls_fma_f32(y, ls_fma_f32(half * y, y, 0.5f), y);
    f32 s = scaled * y, s_low = ls_fma_f32(scaled, y, -s);
    f32 residual = ls_fma_f32(-s_low, y, ls_fma_f32(-s, y, 1.0f));
    y = ls_fma_f32(0.5f * y, residual, y);
    y = subnormal ? y * 0x1p12f : y;
    y = x == LS_INFINITY_F32 ? 0.0f : y;
    f32 pole = ls_from_bits_f32(0x7f800000u | ls_bits_f32(x));
    return x > 0.0f ? y : (x == 0.0f ? pole : LS_NAN_F32);
}
/* 0.80 ulp: m^(-1/3) from an integer seed by two third-order steps, then m z^2 with its residual.
 */
LS_FN f32 ls_cbrt_f32(f32 x) {
    f32 a = ls_abs_f32(x);
    u32 subnormal = ls_bits_f32(a) < 0x00800000u;
    f32 m = subnormal ? a * 0x1p24f : a;
    f32 seed = ls_fma_f32((f32)(i32)ls_bits_f32(m), -0x1.555556p-2f, 1419967116.0f);
    f32 z = ls_from_bits_f32((u32)(i32)seed);
    f32 error = ls_fma_f32(-(m * z), z * z, 1.0f);
    z = ls_fma_f32(z * error, ls_fma_f32(error, 0x1.c71c72p-3f, 0x1.555556p-2f), z);
    error = ls_fma_f32(-(m * z), z * z, 1.0f);
    z = ls_fma_f32(z * error, ls_fma_f32(error, 0x1.c71c72p-3f, 0x1.555556p-2f), z);
    f32 s = z * z, y = m * s;
    f32 square = y * y, square_low = ls_fma_f32(y, y, -square);
    f32 residual = ls_fma_f32(-square_low, y, ls_fma_f32(-square, y, m));
    y = ls_fma_f32(residual * s, 0x1.555556p-2f, y);
    y = subnormal ? y * 0x1p-8f : y;
    y = a > 0.0f && a < LS_INFINITY_F32 ? y : a;
    return ls_with_sign_f32(y, x);
}

/* ---- sine and cosine ----
 * angle = quadrant * pi/2 + high + low. */
typedef struct ls_angle_f32 {
    f32 high, low;
    u32 quadrant; /* its low two bits count */
} ls_angle_f32;

/* |x| <= 2^17: pi/2 in three parts (Cody and Waite). */
LS_FN ls_angle_f32 ls_angle_small(f32 x) {
    f32 t = ls_fma_f32(x, 0x1.45f306p-1f, 12582912.0f);
    f32 n = t - 12582912.0f;
    f32 first = ls_fma_f32(n, -0x1.921fb6p0f, x); /* exact */
    f32 product = n * 0x1.777a5cp-25f, product_low = ls_fma_f32(n, 0x1.777a5cp-25f, -product);
    ls_angle_f32 angle;
    angle.high = first + product;
    angle.low = ls_fma_f32(n, 0x1.ee59dap-50f, product_low + (product - (angle.high - first)));
    angle.quadrant = ls_bits_f32(t);
    return angle;
}
/* Words word, word + 1 … of 2/pi = 0.a2f9836e4e441529…, word 0 being what stands before the point;
 * for a finite f32 no word past 4 is asked for. */
LS_FN u32 ls_choose_word(u32 word, u32 w0, u32 w1, u32 w2, u32 w3, u32 w4) {
    u32 chosen = word == 3u ? w3 : w4;
    chosen = word == 2u ? w2 : chosen;
    chosen = word == 1u ? w1 : chosen;
    return word == 0u ? w0 : chosen;
}
/* The upper half of high:low shifted left by 0 to 31. */
LS_FN u32 ls_shift_pair(u32 high, u32 low, u32 shift) {
    return (high << shift) | ((low >> 1) >> (31u - shift));
}
/* |x| >= 2^-7: x times the 96 bits of 2/pi that matter for its exponent (Payne and Hanek, SIGNUM
 * 1983) */
LS_FN ls_angle_f32 ls_angle_large(f32 x) {
    u32 bits = ls_bits_f32(x), position = ((bits >> 23) & 255u) - 120u;
    u32 word = position >> 5, shift = position & 31u;
    u64 m = (bits & 0x7fffffu) | 0x800000u;
    const u32 t1 = 0xa2f9836eu, t2 = 0x4e441529u, t3 = 0xfc2757d1u, t4 = 0xf534ddc0u;
    const u32 t5 = 0xdb629599u, t6 = 0x3c439041u, t7 = 0xfe5163abu;
    u32 w0 = ls_choose_word(word, 0u, t1, t2, t3, t4),
        w1 = ls_choose_word(word, t1, t2, t3, t4, t5);
    u32 w2 = ls_choose_word(word, t2, t3, t4, t5, t6),
        w3 = ls_choose_word(word, t3, t4, t5, t6, t7);
    u32 v0 = ls_shift_pair(w0, w1, shift), v1 = ls_shift_pair(w1, w2, shift);
    u32 v2 = ls_shift_pair(w2, w3, shift);
    u64 product =
        ((m * v0) << 32) + (m * v1 + ((m * v2) >> 32)); /* x 2/pi mod 4, 62 fraction bits */
    u32 n = (u32)((product + ((u64)1 << 61)) >> 62);
    i64 fraction = (i64)(product - ((u64)n << 62));
    f32 leading = (f32)fraction, trailing = (f32)(fraction - (i64)leading);
    f32 high = leading * 0x1.921fb6p-62f;
    f32 low = ls_fma_f32(leading, 0x1.921fb6p-62f, -high);
    low = ls_fma_f32(leading, -0x1.777a5cp-87f, low);
    low = ls_fma_f32(trailing, 0x1.921fb6p-62f, low);
    int negative = bits >> 31 != 0;
    ls_angle_f32 angle;
    angle.high = negative ? -high : high;
    angle.low = negative ? -low : low;
    angle.quadrant = negative ? 0u - n : n;
    return angle;
}
LS_FN ls_angle_f32 ls_angle_reduce(f32 x) {
    ls_angle_f32 angle = ls_angle_small(x);
    int small = ls_abs_f32(x) <= 131072.0f;
    if (!LS_BRANCH_RARE || !small) {
        ls_angle_f32 large = ls_angle_large(x);
        angle.high = small ? angle.high : large.high;
        angle.low = small ? angle.low : large.low;
        angle.quadrant = small ? angle.quadrant : large.quadrant;
    }
    return angle;
}
LS_FN f32 ls_sine_of(ls_angle_f32 angle) {
    f32 r = angle.high, s = r * r;
    f32 g = ls_fma_f32(-0x1.9929a8p-13f, s, 0x1.1106ep-7f);
    g = ls_fma_f32(g, s, -0x1.555544p-3f);
    f32 sine = ls_fma_f32(s * r, g, angle.low) + r;
    f32 h = ls_fma_f32(0x1.99e70ap-16f, s, -0x1.6c0c26p-10f);
    h = ls_fma_f32(h, s, 0x1.55554ap-5f);
    h = ls_fma_f32(h, s, -0.5f);
    f32 square_low = ls_fma_f32(r, angle.low, 0.5f * ls_fma_f32(r, r, -s));
    f32 cosine = 1.0f + ls_fma_f32(h, s, -square_low);
    f32 y = angle.quadrant & 1u ? cosine : sine;
    return ls_from_bits_f32(ls_bits_f32(y) ^ ((angle.quadrant & 2u) << 30));
}
LS_FN f32 ls_sin_f32(f32 x) { /* 0.95 ulp up to 2^17, 1.06 for all */
    f32 y = ls_sine_of(ls_angle_reduce(x));
    y = x == 0.0f ? x : y;
    return ls_isfinite_f32(x) ? y : LS_NAN_F32;
}
LS_FN f32 ls_cos_f32(f32 x) { /* 0.95 ulp up to 2^17, 1.07 for all */
    ls_angle_f32 angle = ls_angle_reduce(x);
    angle.quadrant += 1u;
    return ls_isfinite_f32(x) ? ls_sine_of(angle) : LS_NAN_F32;
}

/* 1.03 ulp. t = |x|, or from 1 on -1 / |x|, to which pi/2 is added in two parts, for atan(x) +
 * atan(1/x) = pi/2 (Abramowitz and Stegun, "Handbook of Mathematical Functions", 4.4). atan(t) is
 * t + t s P(s) with s = t^2 <= 1, a minimax fit of the relative error. `rest` t is half of what t
 * lacks of -1 / |x|: 1/2 is the slope at 1, where it counts. */
LS_FN f32 ls_atan_f32(f32 x) {
    f32 a = ls_abs_f32(x), capped = a > 0x1p100f ? 0x1p100f : a;
    int large = a > 1.0f;
    f32 t = large ? -ls_reciprocal_normal(capped) : a, s = t * t;
    f32 p = ls_fma_f32(-0x1.d38e08p-10f, s, 0x1.643694p-7f);
    p = ls_fma_f32(p, s, -0x1.fd86f2p-6f);
    p = ls_fma_f32(p, s, 0x1.da2c1p-5f);
    p = ls_fma_f32(p, s, -0x1.580952p-4f);
    p = ls_fma_f32(p, s, 0x1.c08c52p-4f);
    p = ls_fma_f32(p, s, -0x1.242086p-3f);
    p = ls_fma_f32(p, s, 0x1.9991e4p-3f);
    p = ls_fma_f32(p, s, -0x1.55553ep-2f);
    f32 turn = large ? 0x1.921fb6p0f : 0.0f, turn_low = large ? -0x1.777a5cp-25f : 0.0f; /* pi/2 */
    f32 high = turn + t, low = ((turn - high) + t) + turn_low;
    f32 rest = large ? 0.5f * ls_fma_f32(t, capped, 1.0f) : 0.0f;
    return ls_with_sign_f32(high + ls_fma_f32(t, ls_fma_f32(s, p, rest), low), x);
}

/* ---- f64: exponential, logarithm, power; each at most 2 ulp ----
 * The same reductions; Taylor coefficients, which reach 2^-57 here without a fit. */

/* q(r) with exp(r) = 1 + r + r^2 q(r), |r| <= 0.35: 1/2! + r/3! + … + r^11/13! */
LS_FN f64 ls_exp_remainder_f64(f64 r) {
    f64 q = ls_fma_f64(0x1.6124613a86d09p-33, r, 0x1.1eed8eff8d898p-29);
    q = ls_fma_f64(q, r, 0x1.ae64567f544e4p-26);
    q = ls_fma_f64(q, r, 0x1.27e4fb7789f5cp-22);
    q = ls_fma_f64(q, r, 0x1.71de3a556c734p-19);
    q = ls_fma_f64(q, r, 0x1.a01a01a01a01ap-16);
    q = ls_fma_f64(q, r, 0x1.a01a01a01a01ap-13);
    q = ls_fma_f64(q, r, 0x1.6c16c16c16c17p-10);
    q = ls_fma_f64(q, r, 0x1.1111111111111p-7);
    q = ls_fma_f64(q, r, 0x1.5555555555555p-5);
    q = ls_fma_f64(q, r, 0x1.5555555555555p-3);
    return ls_fma_f64(q, r, 0.5);
}
/* y 2^n; `biased` holds n + 2046 in its low bits */
LS_FN f64 ls_scale_by_two_f64(f64 y, u64 biased) {
    u64 half = biased >> 1;
    return y * ls_from_bits_f64(half << 52) * ls_from_bits_f64((biased - half) << 52);
}
LS_FN f64 ls_exp_f64(f64 x) {
    x = x > 710.0 ? 710.0 : x;
    x = x < -1418.0 ? -1418.0 : x;
    f64 bias = 0x1.8p52 + 2046.0, t = ls_fma_f64(x, 0x1.71547652b82fep+0, bias), n = t - bias;
    f64 r = ls_fma_f64(n, -0x1.62e42fefa39efp-1, x);
    r = ls_fma_f64(n, -0x1.abc9e3b39803fp-56, r);
    f64 y = 1.0 + ls_fma_f64(r * r, ls_exp_remainder_f64(r), r);
    return ls_scale_by_two_f64(y, ls_bits_f64(t));
}
/* x = 2^exponent mantissa, mantissa in [sqrt(1/2), sqrt(2)), x >= 0 */
typedef struct ls_split_f64 {
    f64 exponent, mantissa;
} ls_split_f64;
LS_FN ls_split_f64 ls_split_positive_f64(f64 x) {
    int subnormal = ls_bits_f64(x) < 0x0010000000000000u;
    f64 scaled = subnormal ? x * 0x1p54 : x;
    f64 bias = subnormal ? 0x1p52 + 1077.0 : 0x1p52 + 1023.0;
    u64 carried = ls_bits_f64(scaled) + 0x00095f619980c433u;
    ls_split_f64 split;
    split.exponent = ls_from_bits_f64((carried >> 52) | 0x4330000000000000u) - bias;
    split.mantissa = ls_from_bits_f64(ls_bits_f64(scaled) - (carried & 0xfff0000000000000u) +
                                      0x3ff0000000000000u);
    return split;
}
/* 1/5 + z/7 + … + z^10/25, the tail of atanh(s) = s + s z (1/3 + z tail), z = s^2 <= 0.0295 */
LS_FN f64 ls_atanh_tail_f64(f64 z) {
    f64 g = ls_fma_f64(0x1.47ae147ae147bp-5, z, 0x1.642c8590b2164p-5);
    g = ls_fma_f64(g, z, 0x1.8618618618618p-5);
    g = ls_fma_f64(g, z, 0x1.af286bca1af28p-5);
    g = ls_fma_f64(g, z, 0x1.e1e1e1e1e1e1ep-5);
    g = ls_fma_f64(g, z, 0x1.1111111111111p-4);
    g = ls_fma_f64(g, z, 0x1.3b13b13b13b14p-4);
    g = ls_fma_f64(g, z, 0x1.745d1745d1746p-4);
    g = ls_fma_f64(g, z, 0x1.c71c71c71c71cp-4);
    g = ls_fma_f64(g, z, 0x1.2492492492492p-3);
    return ls_fma_f64(g, z, 0x1.999999999999ap-3);
}
LS_FN f64 ls_log_f64(f64 x) { /* f - s (f - 2 z (1/3 + …)), s = f / (2 + f), f = mantissa - 1 */
    ls_split_f64 split = ls_split_positive_f64(x);
    f64 f = split.mantissa - 1.0, s = ls_div_f64(f, 2.0 + f), z = s * s;
    f64 series = 2.0 * z * ls_fma_f64(ls_atanh_tail_f64(z), z, 0x1.5555555555555p-2);
    f64 low = ls_fma_f64(-s, f - series, split.exponent * 0x1.abc9e3b39803fp-56);
    f64 y = ls_fma_f64(split.exponent, 0x1.62e42fefa39efp-1, f + low);
    y = x < LS_INFINITY_F64 ? y : x;
    return x > 0.0 ? y : (x == 0.0 ? -LS_INFINITY_F64 : LS_NAN_F64);
}
/* log2 of a positive finite number as a pair, as ls_log2_pair does it; error about 2^-64 of it. */
LS_FN ls_pair_f64 ls_log2_pair_f64(f64 x) {
    ls_split_f64 split = ls_split_positive_f64(x);
    f64 m = split.mantissa, f = m - 1.0;
    f64 below = m + 1.0, below_low = m - (below - 1.0);
    f64 s = ls_div_f64(f, below);
    f64 s_low = ls_div_f64(ls_fma_f64(-s, below_low, ls_fma_f64(-s, below, f)), below);
    f64 z = s * s, z_low = ls_fma_f64(s + s, s_low, ls_fma_f64(s, s, -z));
    f64 g = ls_atanh_tail_f64(z), third = 0x1.5555555555555p-2;
    f64 c = ls_fma_f64(g, z, third);
    f64 c_low = ls_fma_f64(g, z, third - c) + ls_fma_f64(g, z_low, 0x1.5555555555555p-56);
    f64 u = z * c, u_low = ls_fma_f64(z, c, -u);
    u_low = u_low + ls_fma_f64(z, c_low, z_low * c);
    f64 v = s * u, v_low = ls_fma_f64(s, u, -v);
    v_low = v_low + ls_fma_f64(s, u_low, s_low * u);
    f64 l = s + v, l_low = ((s - l) + v) + (v_low + s_low);
    f64 scale = 0x1.71547652b82fep+1, high = l * scale; /* 2 / ln 2 */
    f64 low = ls_fma_f64(l, scale, -high) + ls_fma_f64(l, 0x1.777d0ffda0d24p-55, l_low * scale);
    ls_pair_f64 sum;
    sum.high = split.exponent + high;
    sum.low = low + ((split.exponent - sum.high) + high);
    return sum;
}
LS_FN f64 ls_pow_f64(f64 x, f64 y) {
    ls_pair_f64 logarithm = ls_log2_pair_f64(ls_abs_f64(x));
    f64 capped = ls_abs_f64(y) > 0x1p65 ? ls_with_sign_f64(0x1p65, y) : y;
    f64 high = capped * logarithm.high;
    f64 low = ls_fma_f64(capped, logarithm.low, ls_fma_f64(capped, logarithm.high, -high));
    int inside = ls_abs_f64(high) < 1100.0;
    low = inside ? low : 0.0;
    high = inside ? high : ls_with_sign_f64(1100.0, high);
    f64 bias = 0x1.8p52 + 2046.0, t = high + bias;
    f64 part = high - (t - bias), ln2 = 0x1.62e42fefa39efp-1; /* 2^(part + low) = exp(r + r_low) */
    f64 r = part * ln2, r_low = ls_fma_f64(part, ln2, -r);
    r_low = r_low + ls_fma_f64(part, 0x1.abc9e3b39803fp-56, low * ln2);
    f64 sum = r + r_low;
    r_low = r_low - (sum - r);
    f64 power = 1.0 + (sum + ls_fma_f64(sum * sum, ls_exp_remainder_f64(sum), r_low));
    return ls_pow_special_f64(x, y, ls_scale_by_two_f64(power, ls_bits_f64(t)));
}

#endif
