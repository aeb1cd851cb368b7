/* doubles.c: exp, log and pow of f64 against the long double functions of libm, which carry eleven
 * more bits: at most 2 ulp on random inputs of every size, near the ends of the range, near 1, and
 * special values exact. More of them with --all. */

#include "numerics.h"

static double worst;

/* One result against the exact one, in units of the exact one's last place. */
static void judge(const char *name, double x, double y, double result, long double exact) {
    double rounded = (double)exact;
    if (isnan(rounded) || isinf(exact) || rounded == 0 || isnan(result)) {
        bool same = same_f64(result, rounded) ||
                    (rounded == 0 && exact != 0 && fabs(result) <= 0x1p-1073 && !signbit(result));
        check(same, "%s(%a, %a) = %a, expected %a", name, x, y, result, rounded);
        return;
    }
    int exponent;
    frexpl(exact, &exponent);
    exponent = exponent - 53 < -1074 ? -1074 : exponent - 53;
    long double reached = isinf(result) ? copysignl(0x1p1024L, (long double)result) : result;
    double error = (double)ldexpl(fabsl(reached - exact), -exponent);
    if (isinf(rounded) && isinf(result)) error = 0;
    if (error > worst) worst = error;
    check(error <= 2, "%s(%a, %a) = %a, %.2f ulp from %a", name, x, y, result, error, rounded);
}
static void judge_exp(double x) {
    judge("exp", x, 0, ls_exp_f64(x), expl(x));
}
static void judge_log(double x) {
    judge("log", x, 0, ls_log_f64(x), logl(x));
}
static void judge_pow(double x, double y) {
    judge("pow", x, y, ls_pow_f64(x, y), powl(x, y));
}
/* powl of glibc 2.36 is wrong for huge exponents of infinity; pow is right to an ulp. */
static void judge_pow_special(double x, double y) {
    judge("pow", x, y, ls_pow_f64(x, y), (long double)pow(x, y));
}
static void report(const char *name) {
    printf("%-4s at most %.3f ulp\n", name, worst);
    worst = 0;
}

/* uniform in [0, 1) */
static double uniform(uint64_t *state) {
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

static void test_exp(long count, uint64_t *state) {
    for (long i = 0; i < count; i++) {
        judge_exp((uniform(state) - 0.5) * 1500);
        judge_exp((uniform(state) - 0.5) * 2);
        judge_exp(ls_from_bits_f64(random_bits(state)));
        judge_exp(((double)(i % 2000) - 1000.5) * 0x1.62e42fefa39efp-1 + uniform(state) * 1e-9);
        judge_exp(-745.2 + uniform(state) * 40);
        judge_exp(709.7 + uniform(state) * 0.1);
    }
    report("exp");
}

static void test_log(long count, uint64_t *state) {
    for (long i = 0; i < count; i++) {
        judge_log(ls_from_bits_f64(random_bits(state)));
        judge_log(ls_from_bits_f64(random_bits(state) >> 12)); /* subnormal */
        judge_log(1 + (uniform(state) - 0.5));
        judge_log(1 + (uniform(state) - 0.5) * 0x1p-20);
        judge_log(ls_from_bits_f64(0x3ff0000000000000u + (uint64_t)i - 1000));
        judge_log(0x1.6a09e667f3bcdp-1 * (1 + (uniform(state) - 0.5) * 1e-3));
    }
    report("log");
}

static void test_pow(long count, uint64_t *state) {
    for (long i = 0; i < count; i++) {
        double base = i % 3 == 0   ? ls_from_bits_f64(random_bits(state) >> 1)
                      : i % 3 == 1 ? 1 + (uniform(state) - 0.5) * 0x1p-10
                                   : 0.5 + uniform(state);
        double logarithm = log2(base), target = (uniform(state) - 0.5) * 2200;
        if (isfinite(logarithm) && logarithm != 0) judge_pow(base, target / logarithm);
        const double small = uniform(state) * 10;
        judge_pow(small, (uniform(state) - 0.5) * 20);
        judge_pow(-1 - (double)(i % 50), (double)(i % 31 - 15));
    }
    report("pow");
}

static void test_special(void) {
    enum { COUNT = sizeof special_f32 / sizeof special_f32[0] };
    for (int i = 0; i < COUNT; i++) {
        double x = (double)special_f32[i];
        judge_exp(x);
        judge_log(x);
        for (int j = 0; j < COUNT; j++) judge_pow_special(x, (double)special_f32[j]);
    }
    static const double more[] = {0x1p-1074,    -0x1p-1074,  0x1.fffffffffffffp1023,
                                  0x1p53,       0x1p53 - 1,  -0x1p53 + 1,
                                  0x1p52 + 0.5, 1 - 0x1p-53, 1 + 0x1p-52};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        judge_exp(more[i]);
        judge_log(more[i]);
        for (int j = 0; j < COUNT; j++) {
            judge_pow_special(more[i], (double)special_f32[j]);
            judge_pow_special((double)special_f32[j], more[i]);
        }
    }
    report("special values:");
}

int main(int count, char **words) {
    bool all = count > 1 && strcmp(words[1], "--all") == 0;
    uint64_t state = 0x2545f4914f6cdd1du;
    long samples = all ? 20000000 : 60000;
    test_exp(samples, &state);
    test_log(samples, &state);
    test_pow(samples, &state);
    test_special();
    return checks_report();
}
