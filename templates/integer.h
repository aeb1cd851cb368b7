/* integer.h: the integer operations of the language on i32, i64, u32, u64, after a prelude; one
 * text for C, CUDA C and HIP C. Arithmetic wraps (through the unsigned type, so no overflow is
 * undefined), // and % floor and give 0 for a zero divisor, a shift by the width or more, or by
 * less than 0, gives 0. */
#ifndef LS_INTEGER_H
#define LS_INTEGER_H

/* U is T's unsigned type of WIDTH bits */
#define LS_INTEGER(T, U, WIDTH)                                                      \
    LS_FN T ls_add_##T(T a, T b) {                                                   \
        return (T)((U)a + (U)b);                                                     \
    }                                                                                \
    LS_FN T ls_sub_##T(T a, T b) {                                                   \
        return (T)((U)a - (U)b);                                                     \
    }                                                                                \
    LS_FN T ls_mul_##T(T a, T b) {                                                   \
        return (T)((U)a * (U)b);                                                     \
    }                                                                                \
    LS_FN T ls_neg_##T(T x) {                                                        \
        return (T)((U)0 - (U)x);                                                     \
    }                                                                                \
    LS_FN T ls_min_##T(T a, T b) {                                                   \
        return a < b ? a : b;                                                        \
    }                                                                                \
    LS_FN T ls_max_##T(T a, T b) {                                                   \
        return a > b ? a : b;                                                        \
    }                                                                                \
    LS_FN T ls_select_##T(int condition, T a, T b) {                                 \
        return condition ? a : b;                                                    \
    }                                                                                \
    LS_FN T ls_bit_and_##T(T a, T b) {                                               \
        return a & b;                                                                \
    }                                                                                \
    LS_FN T ls_bit_or_##T(T a, T b) {                                                \
        return a | b;                                                                \
    }                                                                                \
    LS_FN T ls_bit_xor_##T(T a, T b) {                                               \
        return a ^ b;                                                                \
    }                                                                                \
    LS_FN T ls_shift_left_##T(T x, i64 count) {                                      \
        return (u64)count < WIDTH ? (T)((U)x << ((u32)count & (WIDTH - 1u))) : (T)0; \
    }                                                                                \
    /* arithmetic for signed types, as every compiler we use shifts them */          \
    LS_FN T ls_shift_right_##T(T x, i64 count) {                                     \
        return (u64)count < WIDTH ? (T)(x >> ((u32)count & (WIDTH - 1u))) : (T)0;    \
    }                                                                                \
    /* by squaring; a negative exponent gives 0 */                                   \
    LS_FN T ls_powi_##T(T x, i64 exponent) {                                         \
        u64 left = exponent < 0 ? 0u : (u64)exponent;                                \
        U y = exponent < 0 ? 0u : 1u, power = (U)x;                                  \
        while (left) {                                                               \
            y = left & 1u ? y * power : y;                                           \
            left >>= 1;                                                              \
            power = power * power;                                                   \
        }                                                                            \
        return (T)y;                                                                 \
    }

#define LS_SIGNED(T, U)                                                                         \
    LS_FN T ls_abs_##T(T x) {                                                                   \
        return x < 0 ? (T)((U)0 - (U)x) : x;                                                    \
    }                                                                                           \
    LS_FN T ls_sign_##T(T x) {                                                                  \
        return (T)((x > 0) - (x < 0));                                                          \
    }                                                                                           \
    /* the divisors 0 and -1, of which one is undefined and the other may overflow, go apart */ \
    LS_FN T ls_floordiv_##T(T a, T b) {                                                         \
        T divisor = b == 0 || b == -1 ? (T)1 : b;                                               \
        T quotient = a / divisor, rest = a % divisor;                                           \
        quotient -= (T)(rest != 0 && (rest ^ divisor) < 0);                                     \
        quotient = b == -1 ? (T)((U)0 - (U)a) : quotient;                                       \
        return b == 0 ? (T)0 : quotient;                                                        \
    }                                                                                           \
    LS_FN T ls_mod_##T(T a, T b) {                                                              \
        T divisor = b == 0 || b == -1 ? (T)1 : b;                                               \
        T rest = a % divisor;                                                                   \
        return rest != 0 && (rest ^ divisor) < 0 ? (T)(rest + divisor) : rest;                  \
    }

#define LS_UNSIGNED(T)                                  \
    LS_FN T ls_abs_##T(T x) {                           \
        return x;                                       \
    }                                                   \
    LS_FN T ls_sign_##T(T x) {                          \
        return (T)(x != 0);                             \
    }                                                   \
    LS_FN T ls_floordiv_##T(T a, T b) {                 \
        return b == 0 ? (T)0 : a / (b == 0 ? (T)1 : b); \
    }                                                   \
    LS_FN T ls_mod_##T(T a, T b) {                      \
        return a % (b == 0 ? (T)1 : b);                 \
    }

LS_INTEGER(i32, u32, 32u)
LS_INTEGER(i64, u64, 64u)
LS_INTEGER(u32, u32, 32u)
LS_INTEGER(u64, u64, 64u)
LS_SIGNED(i32, u32)
LS_SIGNED(i64, u64)
LS_UNSIGNED(u32)
LS_UNSIGNED(u64)
#undef LS_INTEGER
#undef LS_SIGNED
#undef LS_UNSIGNED

/* bool: a value is an int, 0 or 1 */
LS_FN int ls_not_bool(int x) {
    return !x;
}
LS_FN int ls_select_bool(int condition, int a, int b) {
    return condition ? a : b;
}

#endif
