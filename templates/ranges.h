/* ranges.h: functions of math.h and lite.h for operands of which the compiler knows the range: in
 * fewer instructions, with the same bits there, which tests/numerics/ranges.c holds for every
 * operand of it. What they give outside of it nobody uses. After lite.h. */
#ifndef LS_RANGES
#define LS_RANGES

/* For x <= 0 or NaN. Nothing overflows, and from -104.5 on down the result is 0: 2^n is kept 2^63
 * too large, so that one factor is normal for every n and the last product alone is rounded. */
LS_FN f32 ls_exp_nonpositive_f32(f32 x) {
    x = LS_GREATER(f32, x < -104.5f ? -104.5f : x, x, -104.5f); /* NaN passes */
    f32 t = ls_fma_f32(x, 0x1.715476p+0f, 12583102.0f);         /* n + 127 + 63 + 1.5 * 2^23 */
    f32 r = ls_exp_reduce(x, t - 12583102.0f);
    f32 y = ls_fma_f32(ls_fma_f32(ls_exp_remainder(r), r, 1.0f), r, 1.0f);
    return y * ls_from_bits_f32(ls_bits_f32(t) << 23) * 0x1p-63f;
}
LS_FN f32 ls_exp_lite_nonpositive_f32(f32 x) {
    x = LS_GREATER(f32, x < -176.0f ? -176.0f : x, x, -176.0f);
    f32 t = ls_fma_f32(x, 0x1.715476p-1f, 12583039.0f);
    return ls_power_of_four(ls_fma_f32(x, 0x1.715476p-1f, 12583039.0f - t), t);
}

#endif
