/* c.h: what imported C functions use beside math.h: C's own rules where Lockstep's differ. */
#ifndef LS_C
#define LS_C

#ifdef __cplusplus
#define LS_C_BOOL bool
#else
#define LS_C_BOOL _Bool
#endif

/* Of a NaN and a number the number; to the nearest, halves away from zero. */
#define LS_C_FLOAT(T, HALF)                                                    \
    LS_FN T ls_fmin_##T(T a, T b) {                                            \
        return ls_isnan_##T(a) ? b : ls_isnan_##T(b) ? a : ls_min_##T(a, b);   \
    }                                                                          \
    LS_FN T ls_fmax_##T(T a, T b) {                                            \
        return ls_isnan_##T(a) ? b : ls_isnan_##T(b) ? a : ls_max_##T(a, b);   \
    }                                                                          \
    LS_FN T ls_away_##T(T x) {                                                 \
        T size = ls_abs_##T(x), whole = ls_floor_##T(size);                    \
        return ls_copysign_##T(size - whole >= (HALF) ? whole + 1 : whole, x); \
    }                                                                          \
    LS_FN int ls_signbit_##T(T x) {                                            \
        return ls_copysign_##T(1, x) < 0;                                      \
    }
LS_C_FLOAT(f32, 0.5f)
LS_C_FLOAT(f64, 0.5)

LS_FN f32 ls_infinite_f32(void) {
    return LS_INFINITY_F32;
}
LS_FN f32 ls_nan_f32(void) {
    return LS_NAN_F32;
}

/* Bits of one local as those of another: compilers make a move of it. */
LS_FN void ls_memcpy(void *to, const void *from, u64 bytes) {
    for (u64 i = 0; i < bytes; i++) ((char *)to)[i] = ((const char *)from)[i];
}

#endif
