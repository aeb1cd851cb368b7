/* A loop over every device function that kernels call per element; each must become vector code. */
#include "../../../../templates/prelude.c"
#include "../../../../templates/math.h"
#include "../../../../templates/lite.h"
#include "../../../../templates/integer.h"
#include "../../../../templates/convert.h"
#include "../../../../templates/fixed.h"

#define LOOP(name, OUT, IN, value)                                   \
    void loop_##name(const IN *restrict x, OUT *restrict y, i64 n);  \
    void loop_##name(const IN *restrict x, OUT *restrict y, i64 n) { \
        for (i64 i = 0; i < n; i++) y[i] = value;                    \
    }
#define UNARY(name, T) LOOP(name##_##T, T, T, ls_##name##_##T(x[i]))
#define BINARY(name, T) LOOP(name##_##T, T, T, ls_##name##_##T(x[i], y[i]))
#define BOTH(KIND, name) KIND(name, f32) KIND(name, f64)
#define STORED(S)                             \
    LOOP(pack_##S, S, f32, ls_pack_##S(x[i])) \
    LOOP(unpack_##S, f32, S, ls_unpack_##S(x[i]))
#define CAST(TO, FROM) LOOP(TO##_from_##FROM, TO, FROM, ls_##TO##_from_##FROM(x[i]))

/* A list with its counts. */
/* clang-format off */
BOTH(UNARY, abs) BOTH(UNARY, neg) BOTH(UNARY, sign) BOTH(UNARY, sqrt) /* 8 */
BOTH(UNARY, floor) BOTH(UNARY, ceil) BOTH(UNARY, round) BOTH(UNARY, trunc) /* 16 */
BOTH(UNARY, exp) BOTH(UNARY, log) /* 20 */
UNARY(exp2, f32) UNARY(expm1, f32) UNARY(log2, f32) UNARY(log1p, f32) /* 24 */
UNARY(tanh, f32) UNARY(erf, f32) UNARY(sigmoid, f32) UNARY(softplus, f32) /* 28 */
UNARY(rsqrt, f32) UNARY(cbrt, f32) UNARY(sin, f32) UNARY(cos, f32) /* 32 */
BOTH(BINARY, min) BOTH(BINARY, max) BOTH(BINARY, mod) BOTH(BINARY, copysign) /* 40 */
BINARY(pow, f32) BINARY(add, i32) BINARY(mul, i32) BINARY(min, i64) /* 44 */
STORED(f16) STORED(bf16) STORED(e4m3) STORED(e5m2) /* 52 */
CAST(i32, f32) CAST(f32, i32) CAST(f64, f32) CAST(f32, f64) CAST(i64, i32) CAST(u32, f32) /* 58 */
UNARY(tanh_lite, f32) UNARY(erf_lite, f32) UNARY(sigmoid_lite, f32) UNARY(log_lite, f32) /* 62 */
UNARY(exp_lite, f32) UNARY(exp2_lite, f32) UNARY(atan, f32) UNARY(atan_lite, f32) /* 66 */
/* clang-format on */

#ifdef __AVX512DQ__ /* which has the conversion */
    /* A row of a scatter: a contribution is added, or lost. */
    void loop_scatter(const f32 *restrict x, i64 *restrict y, i64 n, i64 shift);
void loop_scatter(const f32 *restrict x, i64 *restrict y, i64 n, i64 shift) {
    for (i64 i = 0; i < n; i++) {
        const i64 q = ls_to_fixed_f32(x[i], shift);
        y[i] = q == (-9223372036854775807ll - 1) ? q : ls_add_i64(y[i], q);
    }
}
#endif
