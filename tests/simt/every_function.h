/* every_function.h: one function that calls every device function, after a prelude, math.h,
 * integer.h, convert.h, philox.h and fixed.h, in any dialect: the results lie in `out` as they are
 * stored, 8 bytes each. The tests compare the bits between dialects and let every toolchain compile
 * it. */

#define SLOT(T, value)                           \
    *(T *)(out + 8 * slot) = ls_pack_##T(value); \
    slot++;
#define CLASS(call)                         \
    *(u32 *)(out + 8 * slot) = (u32)(call); \
    slot++;
#define UNARY(T, name) SLOT(T, ls_##name##_##T(x_##T))
#define BINARY(T, name) SLOT(T, ls_##name##_##T(x_##T, y_##T))
#define ARITHMETIC(T)                  \
    UNARY(T, neg)                      \
    UNARY(T, abs)                      \
    UNARY(T, sign)                     \
    BINARY(T, floordiv)                \
    BINARY(T, mod)                     \
    BINARY(T, min)                     \
    BINARY(T, max)                     \
    SLOT(T, ls_powi_##T(x_##T, count)) \
    SLOT(T, ls_select_##T(flag, x_##T, y_##T))
#define FLOAT(T)                             \
    ARITHMETIC(T)                            \
    SLOT(T, x_##T + y_##T)                   \
    SLOT(T, x_##T *y_##T)                    \
    SLOT(T, x_##T / y_##T)                   \
    SLOT(T, x_##T *y_##T + x_##T)            \
    SLOT(T, ls_fma_##T(x_##T, y_##T, x_##T)) \
    UNARY(T, floor)                          \
    UNARY(T, ceil)                           \
    UNARY(T, round)                          \
    UNARY(T, trunc)                          \
    UNARY(T, sqrt)                           \
    UNARY(T, exp)                            \
    UNARY(T, log)                            \
    BINARY(T, pow)                           \
    BINARY(T, copysign)                      \
    CLASS(ls_isnan_##T(x_##T))               \
    CLASS(ls_isinf_##T(x_##T))               \
    CLASS(ls_isfinite_##T(x_##T))
#define INTEGER(T)                           \
    ARITHMETIC(T)                            \
    BINARY(T, add)                           \
    BINARY(T, sub)                           \
    BINARY(T, mul)                           \
    BINARY(T, bit_and)                       \
    BINARY(T, bit_or)                        \
    BINARY(T, bit_xor)                       \
    SLOT(T, ls_shift_left_##T(x_##T, count)) \
    SLOT(T, ls_shift_right_##T(x_##T, count))
#define CASTS(T)                      \
    SLOT(T, ls_##T##_from_f64(x_f64)) \
    SLOT(T, ls_##T##_from_f32(x_f32)) \
    SLOT(T, ls_##T##_from_i64(x_i64)) \
    SLOT(T, ls_##T##_from_i32(x_i32)) \
    SLOT(T, ls_##T##_from_u64(x_u64)) \
    SLOT(T, ls_##T##_from_u32(x_u32)) \
    SLOT(T, ls_##T##_from_bool(flag)) \
    CLASS(ls_bool_from_##T(x_##T))
#define NARROW(S, T)                           \
    SLOT(S, x_##T)                             \
    SLOT(T, ls_round_##S(x_##T))               \
    SLOT(T, ls_unpack_##S(ls_pack_##S(y_##T))) \
    SLOT(T, ls_unpack_##S(*(const S *)(in + 16)))

#define STOCHASTIC(S)                              \
    SLOT(S, ls_round_stochastic_##S(x_f32, y_u32)) \
    SLOT(S, ls_round_stochastic_##S(x_f32, ~y_u32))
/* What becomes fixed fits, as of the shift for some of its size it does. */
#define FIXED(T)                                                                         \
    SLOT(i64, ls_fixed_shift_##T(ls_abs_##T(x_##T), y_i64))                              \
    SLOT(i64, ls_to_fixed_##T(x_##T, ls_fixed_shift_##T(ls_abs_##T(x_##T), (i64)count))) \
    SLOT(T, ls_from_fixed_##T(x_i64, count))

/* Room for the results, and the bytes of `in`: two of each type, 8 apart, and a count. */
#define EVERY_SLOTS 320
#define EVERY_INPUT 24

LS_FN u32 every_function(const u8 *in, u8 *out) {
    const f64 x_f64 = *(const f64 *)in, y_f64 = *(const f64 *)(in + 8);
    const f32 x_f32 = *(const f32 *)in, y_f32 = *(const f32 *)(in + 8);
    const i64 x_i64 = *(const i64 *)in, y_i64 = *(const i64 *)(in + 8);
    const i32 x_i32 = *(const i32 *)in, y_i32 = *(const i32 *)(in + 8);
    const u64 x_u64 = *(const u64 *)in, y_u64 = *(const u64 *)(in + 8);
    const u32 x_u32 = *(const u32 *)in, y_u32 = *(const u32 *)(in + 8);
    const i64 count = *(const i8 *)(in + 16);
    const int flag = (in[17] & 1) != 0;
    u32 slot = 0;
    FLOAT(f32)
    FLOAT(f64)
    UNARY(f32, rsqrt)
    UNARY(f32, cbrt)
    UNARY(f32, exp2)
    UNARY(f32, expm1)
    UNARY(f32, log2)
    UNARY(f32, log1p)
    UNARY(f32, sin)
    UNARY(f32, cos)
    UNARY(f32, atan)
    UNARY(f32, tanh)
    UNARY(f32, erf)
    UNARY(f32, sigmoid)
    UNARY(f32, softplus)
    UNARY(f32, exp_lite)
    UNARY(f32, exp2_lite)
    UNARY(f32, log_lite)
    UNARY(f32, atan_lite)
    UNARY(f32, tanh_lite)
    UNARY(f32, erf_lite)
    UNARY(f32, sigmoid_lite)
    INTEGER(i32)
    INTEGER(u32)
    INTEGER(i64)
    INTEGER(u64)
    CASTS(f64)
    CASTS(f32)
    CASTS(i64)
    CASTS(i32)
    CASTS(u64)
    CASTS(u32)
    NARROW(f16, f32)
    NARROW(bf16, f32)
    NARROW(e4m3, f32)
    NARROW(e5m2, f32)
    NARROW(i16, i32)
    NARROW(i8, i32)
    NARROW(u16, i32)
    NARROW(u8, i32)
    STOCHASTIC(f16)
    STOCHASTIC(bf16)
    STOCHASTIC(e4m3)
    STOCHASTIC(e5m2)
    SLOT(u64, ls_random_key_u64(x_i64, y_i64, x_u32, y_i64))
    SLOT(u32, ls_random_bits_u64(x_u64, y_i64))
    SLOT(f32, ls_random_uniform_u64(x_u64, y_i64))
    SLOT(f32, ls_random_normal_u64(x_u64, y_i64))
    SLOT(i64, ls_shuffle_i64(count, y_i64, x_u64))
    SLOT(i64, ls_shuffle_i64(x_i64 >> 7, ls_max_i64(y_i64, x_i64), x_u64))
    FIXED(f32)
    FIXED(f64)
    SLOT(f32, ls_to_odd_f64(x_f64))
    CLASS(ls_float_bits_f32(x_f32))
    SLOT(f32, ls_float_from_bits_u32(x_u32))
    CLASS(ls_not_bool(flag))
    CLASS(ls_select_bool(flag, x_i32 > 0, y_i32 > 0))
    CLASS(ls_bool_from_bool(flag))
    CLASS(ls_unpack_bool(ls_pack_bool(flag)))
    return slot;
}
