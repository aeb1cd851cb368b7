/* fast.cu: what `math fast` computes on an NVIDIA GPU in place of functions of math.h: the hardware's
 * approximations. Errors as NVIDIA's documents have them; the functions not here are exact's text.
 * Compiled with --use_fast_math, which contracts, makes subnormal numbers 0, and approximates / too. */
#ifndef LS_FAST
#define LS_FAST

LS_FN f32 ls_exp_fast_f32(f32 x) { /* 2 + |1.2 x| ulp */
    return __expf(x);
}
LS_FN f32 ls_exp2_fast_f32(f32 x) { /* 2 ulp */
    return exp2f(x);
}
LS_FN f32 ls_log_fast_f32(f32 x) { /* 2^-21.4 absolute in [1/2, 2], else 3 ulp */
    return __logf(x);
}
LS_FN f32 ls_log2_fast_f32(f32 x) { /* 2^-22 absolute in [1/2, 2], else 2 ulp */
    return __log2f(x);
}
LS_FN f32 ls_sin_fast_f32(f32 x) { /* 2^-21.4 absolute in [-pi, pi], less and less right beyond */
    return __sinf(x);
}
LS_FN f32 ls_cos_fast_f32(f32 x) { /* 2^-21.2 absolute in [-pi, pi], less and less right beyond */
    return __cosf(x);
}
LS_FN f32 ls_tanh_fast_f32(f32 x) { /* 2^-11 of the value */
    f32 y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
LS_FN f32 ls_sigmoid_fast_f32(f32 x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
}
LS_FN f32 ls_erf_fast_f32(f32 x) {
    return ls_erf_lite_f32(x);
}
LS_FN f32 ls_sqrt_fast_f32(f32 x) { /* 1 ulp */
    return sqrtf(x);
}
LS_FN f32 ls_rsqrt_fast_f32(f32 x) { /* 2 ulp */
    return rsqrtf(x);
}

#endif
