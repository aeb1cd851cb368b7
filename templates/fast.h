/* fast.h: what `math fast` computes on a CPU in place of functions of math.h, which comes before
 * it. The rest of such a step is exact's text, with multiplications and additions contracted. */
#ifndef LS_FAST
#define LS_FAST

LS_FN f32 ls_log_fast_f32(f32 x) {
    return ls_log_lite_f32(x);
}
LS_FN f32 ls_tanh_fast_f32(f32 x) {
    return ls_tanh_lite_f32(x);
}
LS_FN f32 ls_erf_fast_f32(f32 x) {
    return ls_erf_lite_f32(x);
}
LS_FN f32 ls_sigmoid_fast_f32(f32 x) {
    return ls_sigmoid_lite_f32(x);
}

#endif
