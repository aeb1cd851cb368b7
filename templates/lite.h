/* lite.h: functions for results that are stored as bf16, in about half the instructions of
 * math.h's. They are what `math lite` computes: one text for all dialects, after math.h, with the
 * same bits everywhere; rounded to bf16 they are within 0.53 of its last place for every input,
 * infinities, NaN and subnormal numbers included. The largest relative error stands beside each
 * (but where the result is subnormal); tests/numerics holds it. Coefficients are minimax fits of
 * the relative error. */
#ifndef LS_LITE
#define LS_LITE

/* 1 / d for normal d between 2^-125 and 2^125, 2^-18.7: ls_reciprocal_normal with a quadratic step.
 */
LS_FN f32 ls_reciprocal_lite(f32 d) {
    f32 y = ls_from_bits_f32(0x7ef31fc0u - ls_bits_f32(d));
    y = y * ls_fma_f32(-d, y, 0x1.002a7ap+1f);
    return ls_fma_f32(y, ls_fma_f32(-d, y, 1.0f), y);
}
/* 2^-13.4: x (1 + p s + ...) / (1 + q s + ...), s = x^2, and 1 from 5 on */
LS_FN f32 ls_tanh_lite_f32(f32 x) {
    f32 a = ls_abs_f32(x), s = a * a;
    f32 above = ls_fma_f32(0x1.636a62p-11f, s, 0x1.a4ce58p-4f);
    above = ls_fma_f32(above, s, 1.0f);
    f32 below = ls_fma_f32(0x1.a6d562p-7f, s, 0x1.be4ee8p-2f);
    below = ls_fma_f32(below, s, 1.0f);
    f32 y = (a * above) * ls_reciprocal_lite(below);
    return ls_with_sign_f32(a > 5.0f ? 1.0f : y, x);
}
/* 2^-15.0: t P(t^2) with t = |x|, or from 1 on pi/2 and t = -1 / |x|, as in math.h */
LS_FN f32 ls_atan_lite_f32(f32 x) {
    f32 a = ls_abs_f32(x), capped = a > 0x1p100f ? 0x1p100f : a;
    int large = a > 1.0f;
    f32 t = large ? -ls_reciprocal_lite(capped) : a, s = t * t;
    f32 p = ls_fma_f32(0x1.86f2d4p-6f, s, -0x1.78848cp-4f);
    p = ls_fma_f32(p, s, 0x1.7b515cp-3f);
    p = ls_fma_f32(p, s, -0x1.53a94ap-2f);
    p = ls_fma_f32(p, s, 0x1.fffc12p-1f);
    return ls_with_sign_f32(ls_fma_f32(t, p, large ? 0x1.921fb6p0f : 0.0f), x);
}
/* 2^-13.7: an odd polynomial, and 1 from 2.8 on */
LS_FN f32 ls_erf_lite_f32(f32 x) {
    f32 a = ls_abs_f32(x), s = a * a;
    f32 p = ls_fma_f32(-0x1.694f12p-21f, s, 0x1.a31fbcp-16f);
    p = ls_fma_f32(p, s, -0x1.a99a3cp-12f);
    p = ls_fma_f32(p, s, 0x1.f9f184p-9f);
    p = ls_fma_f32(p, s, -0x1.8fcb4ap-6f);
    p = ls_fma_f32(p, s, 0x1.c4a39ap-4f);
    p = ls_fma_f32(p, s, -0x1.803e6ep-2f);
    p = ls_fma_f32(p, s, 0x1.20d98cp0f);
    return ls_with_sign_f32(a > 2.8f ? 1.0f : p * a, x);
}
/* 2^-13.2: s / (s + 2^-r), x log2 e = m + r, s = 2^m, which is kept 2^64 too large so that it is
 * normal */
LS_FN f32 ls_sigmoid_lite_f32(f32 x) {
    x = x > 30.0f ? 30.0f : x; /* NaN passes */
    x = x < -105.0f ? -105.0f : x;
    f32 t = ls_fma_f32(x, 0x1.715476p+0f, 12583103.0f); /* m + 127 + 64 + 1.5 * 2^23 */
    f32 r = ls_fma_f32(x, 0x1.715476p+0f, 12583103.0f - t);
    f32 p = ls_fma_f32(-0x1.c3f7p-5f, r, 0x1.f0de98p-3f);
    p = ls_fma_f32(p, r, -0x1.62f31ep-1f);
    p = ls_fma_f32(p, r, 0x1.fff69p-1f);
    f32 s = ls_from_bits_f32(ls_bits_f32(t) << 23);
    return s * ls_reciprocal_lite(ls_fma_f32(s, 0x1p-64f, p)) * 0x1p-64f;
}
/* 2^-13.3: 4^(m + h), |h| <= 1/2, as p 2^m 2^m, which rounds once even where it is subnormal;
 * `biased` is m + 127 + 1.5 * 2^23. 1 for h = 0. */
LS_FN f32 ls_power_of_four(f32 h, f32 biased) {
    f32 p = ls_fma_f32(0x1.35dd8p-3f, h, 0x1.d33df2p-2f);
    p = ls_fma_f32(p, h, 0x1.ec7c92p-1f);
    p = ls_fma_f32(p, h, 0x1.62bc7cp+0f);
    p = ls_fma_f32(p, h, 1.0f);
    f32 scale = ls_from_bits_f32(ls_bits_f32(biased) << 23);
    return p * scale * scale;
}
LS_FN f32 ls_exp_lite_f32(f32 x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -176.0f ? -176.0f : x;
    f32 t = ls_fma_f32(x, 0x1.715476p-1f, 12583039.0f);
    return ls_power_of_four(ls_fma_f32(x, 0x1.715476p-1f, 12583039.0f - t), t);
}
LS_FN f32 ls_exp2_lite_f32(f32 x) {
    x = x > 129.0f ? 129.0f : x;
    x = x < -254.0f ? -254.0f : x;
    f32 t = ls_fma_f32(x, 0.5f, 12583039.0f);
    return ls_power_of_four(ls_fma_f32(x, 0.5f, 12583039.0f - t), t);
}
/* 2^-13.7: mantissa in [2/3, 4/3), f = mantissa - 1. Infinity is added to its own logarithm. (No
 * arithmetic here is on subnormal numbers, which some processors take a hundred cycles for.) */
LS_FN f32 ls_log_lite_f32(f32 x) {
    u32 subnormal = ls_bits_f32(x) < 0x00800000u;
    u32 bits = ls_bits_f32(subnormal ? x * 0x1p23f : x);
    u32 exponent = (bits - 0x3f2aaaabu) & 0xff800000u; /* in units of 2^23 */
    f32 f = ls_from_bits_f32(bits - exponent) - 1.0f;
    f32 p = ls_fma_f32(0x1.cc571ap-3f, f, -0x1.19ada8p-2f);
    p = ls_fma_f32(p, f, 0x1.5468d4p-2f);
    p = ls_fma_f32(p, f, -0x1.ff48d2p-2f);
    p = ls_fma_f32(p, f, 1.0f);
    f32 special = x < LS_INFINITY_F32 ? 0.0f : x;
    f32 rest = subnormal ? -0x1.fe2804p+3f : special; /* -23 ln 2 */
    f32 y = ls_fma_f32((f32)(i32)exponent, 0x1.62e43p-24f, ls_fma_f32(f, p, rest));
    f32 none = x == 0.0f ? -LS_INFINITY_F32 : LS_NAN_F32; /* by itself, or a branch comes of it */
    return x > 0.0f ? y : none;
}

#endif
