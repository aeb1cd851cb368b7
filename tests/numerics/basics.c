/* basics.c: the exact functions of f32 and f64 against libm and against their definitions:
 * rounding, remainders, signs, minimum and maximum, classes, integer powers, square roots. */
#include "numerics.h"

enum { SPECIALS = sizeof special_f32 / sizeof special_f32[0] };

static void test_unary_f32(float x) {
    check(same_f32(ls_floor_f32(x), floorf(x)), "floor(%a)", (double)x);
    check(same_f32(ls_ceil_f32(x), ceilf(x)), "ceil(%a)", (double)x);
    check(same_f32(ls_round_f32(x), rintf(x)), "round(%a)", (double)x);
    check(same_f32(ls_trunc_f32(x), truncf(x)), "trunc(%a)", (double)x);
    check(same_f32(ls_abs_f32(x), fabsf(x)), "abs(%a)", (double)x);
    check(same_f32(ls_neg_f32(x), -x), "neg(%a)", (double)x);
    check(same_f32(ls_sign_f32(x), isnan(x) ? x : (float)((x > 0) - (x < 0))), "sign(%a)",
          (double)x);
    check(ls_isnan_f32(x) == (isnan(x) != 0), "isnan(%a)", (double)x);
    check(ls_isinf_f32(x) == (isinf(x) != 0), "isinf(%a)", (double)x);
    check(ls_isfinite_f32(x) == (isfinite(x) != 0), "isfinite(%a)", (double)x);
}

static void test_unary_f64(double x) {
    check(same_f64(ls_floor_f64(x), floor(x)), "floor(%a)", x);
    check(same_f64(ls_ceil_f64(x), ceil(x)), "ceil(%a)", x);
    check(same_f64(ls_round_f64(x), rint(x)), "round(%a)", x);
    check(same_f64(ls_trunc_f64(x), trunc(x)), "trunc(%a)", x);
    check(same_f64(ls_abs_f64(x), fabs(x)), "abs(%a)", x);
    check(same_f64(ls_neg_f64(x), -x), "neg(%a)", x);
    check(same_f64(ls_sign_f64(x), isnan(x) ? x : (double)((x > 0) - (x < 0))), "sign(%a)", x);
    check(same_f64(ls_sqrt_f64(x), sqrt(x)), "sqrt(%a)", x);
    check(ls_isnan_f64(x) == (isnan(x) != 0), "isnan(%a)", x);
    check(ls_isinf_f64(x) == (isinf(x) != 0), "isinf(%a)", x);
    check(ls_isfinite_f64(x) == (isfinite(x) != 0), "isfinite(%a)", x);
}

/* IEEE 754-2019 minimum and maximum: NaN wins, and -0 is below +0. */
static double minimum(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}
static double maximum(double a, double b) {
    return -minimum(-a, -b);
}

/* The sign of a NaN counts as +. */
static double with_sign_of(double a, double b) {
    return isnan(b) ? fabs(a) : copysign(a, b);
}

static void test_binary(float a, float b) {
    double x = (double)a, y = (double)b;
    check(same_f32(ls_min_f32(a, b), (float)minimum(x, y)), "min(%a, %a)", x, y);
    check(same_f32(ls_max_f32(a, b), (float)maximum(x, y)), "max(%a, %a)", x, y);
    check(same_f64(ls_min_f64(x, y), minimum(x, y)), "f64 min(%a, %a)", x, y);
    check(same_f64(ls_max_f64(x, y), maximum(x, y)), "f64 max(%a, %a)", x, y);
    check(same_f32(ls_copysign_f32(a, b), (float)with_sign_of(x, y)), "copysign(%a, %a)", x, y);
    check(same_f64(ls_copysign_f64(x, y), with_sign_of(x, y)), "f64 copysign(%a, %a)", x, y);
    check(same_f32(ls_floordiv_f32(a, b), floorf(a / b)), "floordiv(%a, %a)", x, y);
    check(same_f64(ls_floordiv_f64(x, y), floor(x / y)), "f64 floordiv(%a, %a)", x, y);
    check(same_f32(ls_mod_f32(a, b), a - floorf(a / b) * b), "mod(%a, %a)", x, y);
    check(same_f64(ls_mod_f64(x, y), x - floor(x / y) * y), "f64 mod(%a, %a)", x, y);
    check(same_f32(ls_fma_f32(a, b, a), fmaf(a, b, a)), "fma(%a, %a)", x, y);
    check(same_f64(ls_fma_f64(x, y, x), fma(x, y, x)), "f64 fma(%a, %a)", x, y);
    check(same_f32(ls_select_f32(a < b, a, b), a < b ? a : b), "select(%a, %a)", x, y);
    check(same_f64(ls_select_f64(a < b, x, y), x < y ? x : y), "f64 select(%a, %a)", x, y);
}

/* The rule of the language page, step by step. */
static float power_f32(float x, int64_t n) {
    float r = 1, b = x;
    uint64_t m = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    for (; m; m >>= 1) {
        if (m & 1) r = r * b;
        if (m >> 1) b = b * b;
    }
    return n < 0 ? 1 / r : r;
}
static double power_f64(double x, int64_t n) {
    double r = 1, b = x;
    uint64_t m = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    for (; m; m >>= 1) {
        if (m & 1) r = r * b;
        if (m >> 1) b = b * b;
    }
    return n < 0 ? 1 / r : r;
}

static void test_powers(float x) {
    static const int64_t exponents[] = {0,  1,  2,   3,         4,         5,
                                        7,  8,  13,  100,       1000001,   -1,
                                        -2, -3, -17, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    for (size_t i = 0; i < sizeof exponents / sizeof exponents[0]; i++) {
        int64_t n = exponents[i];
        check(same_f32(ls_powi_f32(x, n), power_f32(x, n)), "powi(%a, %" PRId64 ")", (double)x, n);
        check(same_f64(ls_powi_f64((double)x, n), power_f64((double)x, n)),
              "f64 powi(%a, %" PRId64 ")", (double)x, n);
    }
    check(same_f32(ls_powi_f32(x, 2), x * x), "powi(%a, 2)", (double)x);
    check(same_f32(ls_powi_f32(x, 3), x * (x * x)), "powi(%a, 3)", (double)x);
}

int main(void) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (uint64_t pattern = 0; pattern <= 0xffffffffu; pattern += 4999)
        test_unary_f32(ls_from_bits_f32((uint32_t)pattern));
    for (int i = -4000; i < 4000; i++) { /* halves, and what lies next to them */
        test_unary_f32((float)i * 0.5f);
        test_unary_f32(nextafterf((float)i * 0.5f, INFINITY));
        test_unary_f64((double)i * 0.5);
        test_unary_f64(nextafter((double)i * 0.5, INFINITY));
        test_unary_f64((i & 1 ? 0x1p52 : 0x1p51) + (double)i * 0.5);
    }
    for (int i = 0; i < 300000; i++) {
        test_unary_f64(ls_from_bits_f64(random_bits(&state)));
        test_unary_f64((double)(int64_t)random_bits(&state) * 0x1p-40);
        const uint64_t bits = random_bits(&state);
        test_binary(ls_from_bits_f32((uint32_t)bits), ls_from_bits_f32((uint32_t)(bits >> 32)));
        test_binary((float)(int32_t)bits * 0x1p-20f, (float)(int32_t)(bits >> 32) * 0x1p-24f);
    }
    for (int i = 0; i < SPECIALS; i++) {
        test_unary_f32(special_f32[i]);
        test_unary_f64((double)special_f32[i]);
        test_powers(special_f32[i]);
        for (int j = 0; j < SPECIALS; j++) test_binary(special_f32[i], special_f32[j]);
    }
    for (int i = 0; i < 20000; i++)
        test_powers(1.0f + (float)(int32_t)random_bits(&state) * 0x1p-32f);
    return checks_report();
}
