/* fixed.h: sums whose bits do not depend on the order, after math.h; one text for C, CUDA C and HIP
 * C. Contributions d of at most `most` in size, `count` of them, become integers
 * q = rint(d * 2^shift) with shift = 61 - ceil(log2 count) - floor(log2 most), whose sum no order
 * changes and no i64 overflows; the sum is rounded back once.
 *
 *   ls_fixed_shift_T(most, count)   the shift; 0 where there is nothing to scale
 *   ls_to_fixed_T(d, shift)         q; LS_FIXED_LOST for what is not finite
 *   ls_from_fixed_T(q, shift)       q * 2^-shift; NaN where something added was lost
 *
 * A sum is at most 2^62 in size. What is lost is -2^63: adding it, and then less than 2^62 in size,
 * gives what is beyond that, in either direction. */
#ifndef LS_FIXED
#define LS_FIXED
#define LS_FIXED_LOST ((i64)(1ull << 63))

/* x * 2^shift; two factors, because 2^shift itself may be out of range. Where the first product is
 * not exact the result is far below anything that counts. */
LS_FN f64 ls_scale_f64(f64 x, i64 shift) {
    i64 capped = shift > 2000 ? 2000 : shift;
    capped = capped < -2000 ? -2000 : capped;
    u64 half = (u64)(capped + 2046) >> 1, rest = (u64)(capped + 2046) - half;
    return x * ls_from_bits_f64(half << 52) * ls_from_bits_f64(rest << 52);
}
LS_FN i64 ls_fixed_shift_f64(f64 most, i64 count) {
    i64 bits = 0; /* ceil(log2 count) */
    while (bits < 62 && ((i64)1 << bits) < count) bits++;
    int subnormal = most < 0x1p-1022;
    u64 scaled = ls_bits_f64(subnormal ? most * 0x1p54 : most);
    i64 exponent = (i64)(scaled >> 52) - (subnormal ? 1077 : 1023);
    return most > 0.0 && most < LS_INFINITY_F64 ? 61 - bits - exponent : 0;
}
LS_FN i64 ls_fixed_shift_f32(f32 most, i64 count) {
    return ls_fixed_shift_f64((f64)most, count);
}
/* Nothing saturates, as q is at most 2^62 in size, and -2^63 is LS_FIXED_LOST. A choice between
 * floats ahead of the rounding, and one conversion, is what gcc takes vectors of elements for. */
LS_FN i64 ls_to_fixed_f64(f64 d, i64 shift) {
    const f64 scaled = ls_scale_f64(d, shift);
    return (i64)ls_round_f64(ls_isfinite_f64(d) ? scaled : -0x1p63);
}
LS_FN i64 ls_to_fixed_f32(f32 d, i64 shift) {
    return ls_to_fixed_f64((f64)d, shift);
}
LS_FN int ls_fixed_is_lost(i64 q) {
    return (u64)q + ((u64)1 << 62) > (u64)1 << 63;
}
/* Only the conversion rounds: what is below the normal numbers has no more bits than fit. */
LS_FN f64 ls_from_fixed_f64(i64 q, i64 shift) {
    f64 sum = ls_scale_f64((f64)q, shift < -2000 ? 2000 : -shift);
    return ls_fixed_is_lost(q) ? LS_NAN_F64 : sum;
}
/* What an f64 cannot hold leaves a one in its last place, so that only the last step rounds. */
LS_FN f32 ls_from_fixed_f32(i64 q, i64 shift) {
    u64 size = q < 0 ? 0u - (u64)q : (u64)q, low = size & 2047u;
    u64 kept = size >> 53 && low ? (size - low) | 2048u : size;
    f64 y = ls_scale_f64((f64)kept, shift < -2000 ? 2000 : -shift);
    return ls_fixed_is_lost(q) ? LS_NAN_F32 : (f32)(q < 0 ? -y : y);
}

#endif
