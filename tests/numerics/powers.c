/* powers.c: pow over both operands, against glibc's pow of double, whose error is below an ulp of
 * double: every special value with every other, a grid of bases of every exponent and exponents of
 * every kind, and random pairs whose power is finite. More of them with --all. */
#include "numerics.h"

static const double bound = 0.95; /* ulp, published */
static double worst;
static float worst_x, worst_y;
static unsigned long pairs;

/* The error in units of the last place of the exact result; the largest finite number and infinity
 * are neighbours. */
static double error_of(float result, double exact) {
    uint64_t exponent = ls_bits_f64(exact) >> 52 & 0x7ff;
    if (exponent < 1023 - 126) exponent = 1023 - 126;
    if (exponent > 1023 + 127) exponent = 1023 + 127;
    const double reached = isinf(result) ? copysign(0x1p128, (double)result) : (double)result;
    const double size = fabs(exact) > 0x1p128 && isinf(result) ? 0x1p128 : fabs(exact);
    return fabs(fabs(reached) - size) * ls_from_bits_f64((2046 + 23 - exponent) << 52);
}

static void judge(float x, float y) {
    const float result = ls_pow_f32(x, y), rounded = (float)pow((double)x, (double)y);
    const double exact = pow((double)x, (double)y);
    pairs++;
    if (same_f32(result, rounded) && (isnan(exact) || isinf(exact) || exact == 0)) return;
    if (isnan(exact) || isinf(exact) || exact == 0 || isnan(result) ||
        !signbit(result) != !signbit(exact)) {
        check(false, "pow(%a, %a) = %a, expected %a", (double)x, (double)y, (double)result, exact);
        return;
    }
    const double error = error_of(result, exact);
    if (error > worst) worst = error, worst_x = x, worst_y = y;
    check(error <= bound, "pow(%a, %a) = %a: %.4f ulp, but at most %.2f are promised", (double)x,
          (double)y, (double)result, error, bound);
}

static void report(const char *kind) {
    printf("pow, %-8s %10lu pairs, at most %.6f ulp, at pow(%a, %a)\n", kind, pairs, worst,
           (double)worst_x, (double)worst_y);
    worst = 0;
    pairs = 0;
}

static void test_special(void) {
    enum { COUNT = sizeof special_f32 / sizeof special_f32[0] };
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) judge(special_f32[i], special_f32[j]);
    report("special");
}

/* Bases: each power of two, what is next to it, and `steps` mantissas above it, of both signs.
 * Exponents: integers, halves and thirds, those whose result is next to the ends of the range and
 * to where it becomes subnormal, and sizes from tiny to huge. */
static void test_grid_base(float x) {
    static const float few[] = {0.5f,  1.0f,  1.5f,  2.0f,   2.5f,           3.0f,  4.0f,
                                7.0f,  16.0f, 31.0f, 64.0f,  0x1.555556p-2f, 0.2f,  0.7f,
                                0.99f, 1.01f, 5.3f,  127.0f, 1e-3f,          1e-7f, 1e-20f};
    static const double ends[] = {128, 127.9999999, -126, -126.0000001, -149, -149.9, -150.1};
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) judge(x, few[i]), judge(x, -few[i]);
    const double logarithm = log2(fabs((double)x));
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const float y = (float)(ends[i] / logarithm);
        if (!isfinite(y)) continue;
        judge(x, y);
        judge(x, nextafterf(y, INFINITY));
        judge(x, nextafterf(y, -INFINITY));
        judge(x, rintf(y));
    }
}

static void test_grid(uint32_t steps) {
    for (uint32_t exponent = 0; exponent < 255; exponent++)
        for (uint32_t step = 0; step < steps; step++) {
            const uint32_t bits = exponent << 23 | step * (0x800000u / steps);
            const float x = ls_from_bits_f32(bits);
            test_grid_base(x);
            test_grid_base(-x);
            test_grid_base(nextafterf(x, INFINITY));
            test_grid_base(nextafterf(x, 0));
        }
    report("grid");
}

/* Any base, or one near 1, and an exponent that leads to 2^(-155 … 155). */
static void test_random(long count) {
    uint64_t state = 88172645463325252u;
    for (long i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)random_bits(&state) & 0x7fffffffu;
        const float x = ls_from_bits_f32(i & 1 ? 0x3f700000u + bits % 0x200000u : bits);
        const double logarithm = log2((double)x);
        const double target = (double)(int32_t)random_bits(&state) * 0x1p-31 * 155;
        if (!isfinite(logarithm) || logarithm == 0) continue;
        const float y = (float)(target / logarithm);
        if (isfinite(y)) judge(x, y);
    }
    report("random");
}

int main(int count, char **words) {
    const bool all = count > 1 && strcmp(words[1], "--all") == 0;
    test_special();
    test_grid(all ? 1024 : 8);
    test_random(all ? 100000000 : 300000);
    return checks_report();
}
