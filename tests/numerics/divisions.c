/* divisions.c: the quotients that AMD devices get, cut out of their prelude, with an estimate of
 * the reciprocal that is off by -1, 0 and +1 ulp, against the host's division.
 *
 * v_div_scale, v_div_fmas and v_div_fixup are modelled after AMD's description (RDNA3 shader ISA):
 * what is scaled, and that the last fma is rounded once, after the scaling back. Divisors: every
 * significand of f32; for f64 those near powers of two and random ones. */
#include "numerics.h"

#ifndef __SIZEOF_FLOAT128__
int main(void) {
    return 77; /* skipped: the model needs more bits than the machine has */
}
#else

__extension__ typedef __float128 quad;
__extension__ typedef unsigned __int128 quad_bits;

static int off; /* the estimate, by so many ulp */

/* a * b + c rounded to odd in 113 bits, so that whatever rounds it next is right. */
static quad fma_to_odd(double a, double b, double c) {
    const quad product = (quad)a * b, sum = product + c;
    const quad part = sum - product, rest = (product - (sum - part)) + (c - part);
    quad_bits bits;
    memcpy(&bits, &sum, sizeof bits);
    if (rest != 0 && !(bits & 1)) bits = (rest > 0) == (sum > 0) ? bits + 1 : bits - 1;
    quad odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

/* `most` to `scale` are the numbers of the description, for exponents as they are stored. */
#define MODEL(T, suffix, bias, most, tiny, scale, low, next, ldexp_)                             \
    static int exponent_##T(T x) {                                                               \
        int exponent;                                                                            \
        if (x == 0 || !isfinite(x)) return x == 0 ? 0 : 2 * (bias) + 1;                          \
        frexp((double)x, &exponent);                                                             \
        exponent += (bias)-1;                                                                    \
        return exponent > 0 ? exponent : 0;                                                      \
    }                                                                                            \
    static T scale_##T(T a, T b, bool numerator, bool *scaled) {                                 \
        const int above = exponent_##T(a), below = exponent_##T(b);                              \
        const bool small_inverse = below >= 2 * (bias)-1;                                        \
        const bool small_quotient = fabs((double)(a / b)) < ldexp(1, 1 - (bias));                \
        const T own = numerator ? a : b;                                                         \
        *scaled = false;                                                                         \
        if (a == 0 || b == 0) return (T)NAN;                                                     \
        *scaled = above - below >= (most) || small_quotient;                                     \
        if (above - below >= (most)) return numerator ? own : ldexp_(own, scale);                \
        if (below == 0) return *scaled = false, ldexp_(own, scale);                              \
        if (small_inverse && small_quotient) return numerator ? own : ldexp_(own, -(scale));     \
        if (small_inverse) return ldexp_(own, -(scale));                                         \
        if (small_quotient) return numerator ? ldexp_(own, scale) : own;                         \
        return above <= (tiny) ? ldexp_(own, scale) : own;                                       \
    }                                                                                            \
    static T estimate_##T(T d) {                                                                 \
        T y = 1 / d;                                                                             \
        if (!isfinite(y) || y == 0) return y;                                                    \
        for (int i = 0; i < abs(off); i++) y = next(y, off < 0 ? 0 : (T)INFINITY);               \
        return y;                                                                                \
    }                                                                                            \
    static T fmas_##T(T r, T y, T q, bool scaled) {                                              \
        if (!scaled || !isfinite(r) || !isfinite(y) || !isfinite(q)) return (T)fma_##T(r, y, q); \
        const quad factor = (quad)ldexp(1, exponent_##T(q) > (bias) ? (scale) : -(scale));       \
        return (T)(fma_to_odd((double)r, (double)y, (double)q) * factor);                        \
    }                                                                                            \
    static T fixup_##T(T q, T b, T a) {                                                          \
        const T sign = signbit(a) != signbit(b) ? (T)-1 : (T)1;                                  \
        if (isnan(a) || isnan(b) || (a == 0 && b == 0) || (isinf(a) && isinf(b))) return (T)NAN; \
        if (b == 0 || isinf(a)) return sign * (T)INFINITY;                                       \
        if (a == 0 || isinf(b)) return sign * (T)0;                                              \
        if (exponent_##T(a) - exponent_##T(b) < (low)) return sign * (T)0;                       \
        return sign * (isnan(q) ? (T)INFINITY : (T)fabs((double)q));                             \
    }
#define fma_f32 fmaf
#define fma_f64 fma
MODEL(f32, f, 127, 96, 23, 64, -150, nextafterf, ldexpf)
MODEL(f64, , 1023, 768, 53, 128, -1075, nextafter, ldexp)

#define __builtin_amdgcn_div_scalef scale_f32
#define __builtin_amdgcn_div_scale scale_f64
#define __builtin_amdgcn_rcpf estimate_f32
#define __builtin_amdgcn_rcp estimate_f64
#define __builtin_amdgcn_div_fmasf fmas_f32
#define __builtin_amdgcn_div_fmas fmas_f64
#define __builtin_amdgcn_div_fixupf fixup_f32
#define __builtin_amdgcn_div_fixup fixup_f64
#include "div_hip.h" /* ls_div_hip_f32, _f64: cut from templates/prelude.hip */

static void test_f32(f32 a, f32 b) {
    for (off = -1; off <= 1; off++) {
        const f32 got = ls_div_hip_f32(a, b);
        check(same_f32(got, a / b), "%a / %a is %a, off by %d: %a", (double)a, (double)b,
              (double)(a / b), off, (double)got);
    }
}

static void test_f64(f64 a, f64 b) {
    for (off = -1; off <= 1; off++) {
        const f64 got = ls_div_hip_f64(a, b);
        check(same_f64(got, a / b), "f64 %a / %a is %a, off by %d: %a", a, b, a / b, off, got);
    }
}

/* Dividends whose quotient by d lies next to the middle of two numbers: d m plus or minus a little
 * for a middle m, rounded. */
static void test_near_middles(f64 d, bool wide, uint64_t *state, int count) {
    const int bits = wide ? 52 : 23;
    for (int i = 0; i < count; i++) {
        const uint64_t random = random_bits(state);
        const quad middle = 1 + ((quad)(random >> (64 - bits)) + (quad)0.5) * (quad)ldexp(1, -bits);
        if (wide)
            test_f64((f64)(middle * d), d);
        else
            test_f32((f32)(middle * d), (f32)d);
    }
}

/* Every significand divides 1, the dividend of most ones, and one at random near a middle. */
static void test_all_divisors(uint64_t *state) {
    for (uint32_t i = 0; i < 1u << 23; i += 1) {
        const f32 d = ls_from_bits_f32(0x3f800000u | i);
        off = (int)(i % 3) - 1;
        const f32 middle =
            (f32)((1 + (f64)(random_bits(state) >> 41) * 0x1p-23 + 0x1p-24) * (f64)d);
        const f32 dividends[] = {1.0f, 0x1.fffffep+0f, middle};
        for (size_t k = 0; k < sizeof dividends / sizeof *dividends; k++) {
            const f32 got = ls_div_hip_f32(dividends[k], d);
            check(same_f32(got, dividends[k] / d), "%a / %a off by %d: %a", (double)dividends[k],
                  (double)d, off, (double)got);
        }
    }
}

/* All dividends by the hardest divisor, all ones. */
static void test_all_dividends(void) {
    for (uint32_t i = 0; i < 1u << 23; i++) {
        off = (int)(i % 3) - 1;
        const f32 a = ls_from_bits_f32(0x3f800000u | i), got = ls_div_hip_f32(a, 0x1.fffffep+0f);
        check(same_f32(got, a / 0x1.fffffep+0f), "%a / 0x1.fffffep+0 off by %d: %a", (double)a, off,
              (double)got);
    }
}

static void test_hard_divisors(uint64_t *state) {
    for (int i = 0; i < 64; i++) {
        const f64 from_two = ldexp(2 - ldexp(1 + i, -52), i % 5 - 2);
        const f64 from_one = ldexp(1 + ldexp(i, -52), i % 5 - 2);
        test_near_middles(from_two, true, state, 2000);
        test_near_middles(from_one, true, state, 500);
        test_near_middles((f64)(2 - (f32)(1 + i) * 0x1p-23f), false, state, 2000);
        test_near_middles((f64)(1 + (f32)i * 0x1p-23f), false, state, 500);
    }
}

/* Any bits; and exponents at the limits of what is scaled. */
static void test_random(uint64_t *state, long count) {
    for (long i = 0; i < count; i++) {
        const uint64_t a = random_bits(state), b = random_bits(state);
        test_f32(ls_from_bits_f32((u32)a), ls_from_bits_f32((u32)b));
        test_f64(ls_from_bits_f64(a), ls_from_bits_f64(b));
        const f64 near = ls_from_bits_f64((b >> 12 | UINT64_C(0x3ff) << 52));
        test_near_middles(near, true, state, 1);
    }
}

static void test_specials(void) {
    static const f64 values[] = {0,
                                 1,
                                 3,
                                 0x1p-149,
                                 0x1.8p-148,
                                 0x1.fffffcp-127,
                                 0x1p-126,
                                 0x1p-103,
                                 0x1p-102,
                                 0x1p-104,
                                 0x1p96,
                                 0x1p126,
                                 0x1p127,
                                 0x1.fffffep127,
                                 INFINITY,
                                 NAN,
                                 0x1p-1074,
                                 0x1.8p-1073,
                                 0x1p-1022,
                                 0x1.ffffffffffffep-1023,
                                 0x1p-970,
                                 0x1p-969,
                                 0x1p768,
                                 0x1p1022,
                                 0x1.fffffffffffffp1023,
                                 0x1.fffffep0,
                                 0x1.fffffffffffffp0};
    const size_t count = sizeof values / sizeof *values;
    for (size_t i = 0; i < 4 * count * count; i++) {
        const f64 a = i & 1 ? -values[i / 4 / count] : values[i / 4 / count];
        const f64 b = i & 2 ? -values[i / 4 % count] : values[i / 4 % count];
        test_f64(a, b);
        test_f32((f32)a, (f32)b);
    }
}

int main(int count, char **words) {
    const bool all = count > 1 && strcmp(words[1], "--all") == 0;
    uint64_t state = UINT64_C(88172645463325252);
    test_specials();
    test_hard_divisors(&state);
    test_all_divisors(&state);
    test_all_dividends();
    test_random(&state, all ? 50000000 : 1500000);
    return checks_report();
}
#endif
