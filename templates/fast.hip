/* fast.hip: what `math fast` computes on an AMD GPU in place of functions of math.h: the hardware's
 * approximations, each about 1 ulp, which may take or give 0 for a subnormal number. The functions
 * not here are exact's text. Compiled with -ffp-contract=fast. */
#ifndef LS_FAST
#define LS_FAST

LS_FN f32 ls_exp2_fast_f32(f32 x) {
    return __builtin_exp2f(x);
}
LS_FN f32 ls_exp_fast_f32(f32 x) { /* the product's rounding counts as often as |x| */
    return __builtin_exp2f(x * 0x1.715476p+0f);
}
LS_FN f32 ls_log2_fast_f32(f32 x) {
    return __builtin_log2f(x);
}
LS_FN f32 ls_log_fast_f32(f32 x) {
    return __builtin_log2f(x) * 0x1.62e43p-1f;
}
LS_FN f32 ls_sin_fast_f32(f32 x) { /* absolute, in [-pi, pi]; less and less right beyond */
    return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
LS_FN f32 ls_cos_fast_f32(f32 x) {
    return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
LS_FN f32 ls_tanh_fast_f32(f32 x) {
    return ls_tanh_lite_f32(x);
}
LS_FN f32 ls_sigmoid_fast_f32(f32 x) {
    return __builtin_amdgcn_rcpf(1.0f + __builtin_exp2f(x * -0x1.715476p+0f));
}
LS_FN f32 ls_erf_fast_f32(f32 x) {
    return ls_erf_lite_f32(x);
}
LS_FN f32 ls_sqrt_fast_f32(f32 x) {
    return __builtin_amdgcn_sqrtf(x);
}
LS_FN f32 ls_rsqrt_fast_f32(f32 x) {
    return __builtin_amdgcn_rsqf(x);
}
LS_FN f32 ls_div_fast_f32(f32 a, f32 b) { /* 0 for |b| from 2^126 on, infinite for a subnormal b */
    return a * __builtin_amdgcn_rcpf(b);
}

#endif
