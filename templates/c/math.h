/* math.h as C functions of steps see it: the device functions of kernels under their C names. What
 * is not here has no form on every backend. */
#ifndef LOCKSTEP_C_MATH
#define LOCKSTEP_C_MATH
#include <stddef.h>

float ls_abs_f32(float x), ls_sqrt_f32(float x), ls_cbrt_f32(float x);
float ls_floor_f32(float x), ls_ceil_f32(float x), ls_trunc_f32(float x), ls_round_f32(float x);
float ls_exp_f32(float x), ls_exp2_f32(float x), ls_expm1_f32(float x);
float ls_log_f32(float x), ls_log2_f32(float x), ls_log1p_f32(float x);
float ls_sin_f32(float x), ls_cos_f32(float x), ls_tanh_f32(float x), ls_erf_f32(float x);
float ls_atan_f32(float x);
float ls_pow_f32(float x, float y), ls_copysign_f32(float x, float y);
float ls_fma_f32(float x, float y, float z);
float ls_away_f32(float x), ls_fmin_f32(float x, float y), ls_fmax_f32(float x, float y);
int ls_isnan_f32(float x), ls_isinf_f32(float x), ls_isfinite_f32(float x), ls_signbit_f32(float x);
float ls_infinite_f32(void), ls_nan_f32(void);

double ls_abs_f64(double x), ls_sqrt_f64(double x);
double ls_floor_f64(double x), ls_ceil_f64(double x), ls_trunc_f64(double x);
double ls_round_f64(double x), ls_exp_f64(double x), ls_log_f64(double x);
double ls_pow_f64(double x, double y), ls_copysign_f64(double x, double y);
double ls_fma_f64(double x, double y, double z);
double ls_away_f64(double x), ls_fmin_f64(double x, double y), ls_fmax_f64(double x, double y);
int ls_isnan_f64(double x), ls_isinf_f64(double x), ls_isfinite_f64(double x);
int ls_signbit_f64(double x);

#define fabsf ls_abs_f32
#define sqrtf ls_sqrt_f32
#define cbrtf ls_cbrt_f32
#define floorf ls_floor_f32
#define ceilf ls_ceil_f32
#define truncf ls_trunc_f32
#define rintf ls_round_f32
#define nearbyintf ls_round_f32
#define roundf ls_away_f32
#define expf ls_exp_f32
#define exp2f ls_exp2_f32
#define expm1f ls_expm1_f32
#define logf ls_log_f32
#define log2f ls_log2_f32
#define log1pf ls_log1p_f32
#define sinf ls_sin_f32
#define cosf ls_cos_f32
#define atanf ls_atan_f32
#define tanhf ls_tanh_f32
#define erff ls_erf_f32
#define powf ls_pow_f32
#define copysignf ls_copysign_f32
#define fmaf ls_fma_f32
#define fminf ls_fmin_f32
#define fmaxf ls_fmax_f32
#define fabs ls_abs_f64
#define sqrt ls_sqrt_f64
#define floor ls_floor_f64
#define ceil ls_ceil_f64
#define trunc ls_trunc_f64
#define rint ls_round_f64
#define nearbyint ls_round_f64
#define round ls_away_f64
#define exp ls_exp_f64
#define log ls_log_f64
#define pow ls_pow_f64
#define copysign ls_copysign_f64
#define fma ls_fma_f64
#define fmin ls_fmin_f64
#define fmax ls_fmax_f64

/* The function of f32 or that of f64, by the size of its arguments, each of which is evaluated
 * once: it may have side effects. */
#define LOCKSTEP_C_TEST(test, x) \
    (sizeof(x) == sizeof(float) ? test##_f32((float)(x)) : test##_f64(x))
#define LOCKSTEP_C_TEST_PAIR(test, x, y) \
    (sizeof((x) + (y)) == sizeof(float) ? test##_f32((float)(x), (float)(y)) : test##_f64(x, y))
#define isnan(x) LOCKSTEP_C_TEST(ls_isnan, x)
#define isinf(x) LOCKSTEP_C_TEST(ls_isinf, x)
#define isfinite(x) LOCKSTEP_C_TEST(ls_isfinite, x)
#define signbit(x) LOCKSTEP_C_TEST(ls_signbit, x)
#define INFINITY ls_infinite_f32()
#define NAN ls_nan_f32()
#define HUGE_VALF ls_infinite_f32()
#define HUGE_VAL ((double)ls_infinite_f32())
#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4
#define isgreater(x, y) ((x) > (y))
#define isgreaterequal(x, y) ((x) >= (y))
#define isless(x, y) ((x) < (y))
#define islessequal(x, y) ((x) <= (y))

static inline int lockstep_isnormal_f32(float x) {
    return ls_isfinite_f32(x) && ls_abs_f32(x) >= 0x1p-126f;
}

static inline int lockstep_isnormal_f64(double x) {
    return ls_isfinite_f64(x) && ls_abs_f64(x) >= 0x1p-1022;
}

static inline int lockstep_fpclassify_f32(float x) {
    if (ls_isnan_f32(x)) return FP_NAN;
    if (ls_isinf_f32(x)) return FP_INFINITE;
    return x == 0 ? FP_ZERO : lockstep_isnormal_f32(x) ? FP_NORMAL : FP_SUBNORMAL;
}

static inline int lockstep_fpclassify_f64(double x) {
    if (ls_isnan_f64(x)) return FP_NAN;
    if (ls_isinf_f64(x)) return FP_INFINITE;
    return x == 0 ? FP_ZERO : lockstep_isnormal_f64(x) ? FP_NORMAL : FP_SUBNORMAL;
}

static inline int lockstep_islessgreater_f32(float x, float y) {
    return x < y || x > y;
}

static inline int lockstep_islessgreater_f64(double x, double y) {
    return x < y || x > y;
}

static inline int lockstep_isunordered_f32(float x, float y) {
    return ls_isnan_f32(x) || ls_isnan_f32(y);
}

static inline int lockstep_isunordered_f64(double x, double y) {
    return ls_isnan_f64(x) || ls_isnan_f64(y);
}

#define isnormal(x) LOCKSTEP_C_TEST(lockstep_isnormal, x)
#define fpclassify(x) LOCKSTEP_C_TEST(lockstep_fpclassify, x)
#define islessgreater(x, y) LOCKSTEP_C_TEST_PAIR(lockstep_islessgreater, x, y)
#define isunordered(x, y) LOCKSTEP_C_TEST_PAIR(lockstep_isunordered, x, y)
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN (-2147483647 - 1)
typedef float float_t;
typedef double double_t;
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

/* Those without a device function: texts in C, of f64 and of the functions above. tests/lit/import
 * holds each against its bound: fmodf, remainderf, fdimf and those of exponents and neighbours are
 * exact, hypotf, log10f, erfcf, lgammaf, tgammaf and the hyperbolic ones within 1 ulp, the others
 * within the 4 that their device functions and a division leave. */
void ls_memcpy(void *to, const void *from, size_t bytes);

static inline float fmodf(float x, float y) {
    double rest = fabsf(x), by = fabsf(y), part = by;
    if (isnan(x) || isnan(y) || isinf(x) || y == 0) return NAN;
    if (isinf(y)) return x;
    while (part * 2 <= rest) part *= 2;
    for (; part >= by; part *= 0.5)
        if (rest >= part) rest -= part; /* exact: both are multiples of one power of 2 */
    return copysignf((float)rest, x);
}

static inline float fdimf(float x, float y) {
    return isnan(x) || isnan(y) ? NAN : x > y ? x - y : 0;
}

static inline float hypotf(float x, float y) {
    double a = x, b = y;
    return isinf(x) || isinf(y) ? INFINITY : (float)sqrt(a * a + b * b);
}

static inline float tanf(float x) {
    return sinf(x) / cosf(x);
}

static inline float asinf(float x) {
    double u = x;
    return atanf((float)(u / sqrt((1 - u) * (1 + u))));
}

static inline float acosf(float x) {
    double u = x;
    return 2 * atanf((float)sqrt((1 - u) / (1 + u)));
}

static inline float atan2f(float y, float x) {
    double quotient = (double)fabsf(y) / (double)fabsf(x);
    if (isnan(x) || isnan(y)) return NAN;
    if (x == 0 && y == 0) quotient = 0;
    if (isinf(x) && isinf(y)) quotient = 1;
    double angle = atanf((float)quotient);
    return copysignf((float)(signbit(x) ? M_PI - angle : angle), y);
}

static inline float log10f(float x) {
    return (float)(log(x) * M_LOG10E);
}

static inline float sinhf(float x) {
    double u = x, e = exp(fabs(u));
    if (fabs(u) < 1e-3) return (float)(u + u * u * u / 6);
    return copysignf((float)((e - 1 / e) / 2), x);
}

static inline float coshf(float x) {
    double e = exp(fabs((double)x));
    return (float)((e + 1 / e) / 2);
}

static inline float asinhf(float x) {
    double u = fabs((double)x);
    double y = u < 1e-3 ? u - u * u * u / 6 : log(u + sqrt(u * u + 1));
    return isinf(x) ? x : copysignf((float)y, x);
}

static inline float acoshf(float x) {
    double u = x;
    return (float)log(u + sqrt(u * u - 1));
}

static inline float atanhf(float x) {
    double u = x;
    if (fabs(u) < 1e-3) return (float)(u + u * u * u / 3);
    return (float)(log((1 + u) / (1 - u)) / 2);
}

static inline float remainderf(float x, float y) {
    double rest = fabsf(x), by = fabsf(y), part = by;
    int odd = 0; /* the quotient so far */
    if (isnan(x) || isnan(y) || isinf(x) || y == 0) return NAN;
    if (isinf(y)) return x;
    while (part * 2 <= rest) part *= 2;
    for (; part >= by; part *= 0.5) {
        odd = rest >= part;
        if (odd) rest -= part; /* exact: both are multiples of one power of 2 */
    }
    if (rest * 2 > by || (rest * 2 == by && odd)) rest -= by;
    return (float)(signbit(x) ? -rest : rest);
}

/* 2^n for n in -1022 ... 1023, and the exponent of what is neither 0 nor infinite nor NaN. */
static inline double lockstep_power_of_2(int n) {
    unsigned long long bits = (unsigned long long)(n + 1023) << 52;
    double power = 0;
    ls_memcpy(&power, &bits, sizeof power);
    return power;
}

static inline int lockstep_exponent(float x) {
    double size = fabsf(x); /* of which no f32 is subnormal */
    unsigned long long bits = 0;
    ls_memcpy(&bits, &size, sizeof bits);
    return (int)(bits >> 52) - 1023;
}

static inline float scalblnf(float x, long n) {
    int by = n < -400 ? -400 : n > 400 ? 400 : (int)n;
    return (float)(x * lockstep_power_of_2(by));
}

static inline float scalbnf(float x, int n) {
    return scalblnf(x, n);
}

static inline float ldexpf(float x, int n) {
    return scalblnf(x, n);
}

static inline float logbf(float x) {
    if (isnan(x)) return NAN;
    return isinf(x) ? INFINITY : x == 0 ? -INFINITY : (float)lockstep_exponent(x);
}

static inline int ilogbf(float x) {
    if (isinf(x)) return 2147483647;
    return isnan(x) ? FP_ILOGBNAN : x == 0 ? FP_ILOGB0 : lockstep_exponent(x);
}

static inline float nextafterf(float x, float y) {
    unsigned bits = 1;
    float next = 0;
    if (isnan(x) || isnan(y)) return NAN;
    if (x == y) return y;
    if (x != 0) ls_memcpy(&bits, &x, sizeof bits);
    if (x != 0) bits = (x < y) == (x > 0) ? bits + 1 : bits - 1;
    ls_memcpy(&next, &bits, sizeof next);
    return x == 0 ? copysignf(next, y) : next;
}

static inline long lroundf(float x) {
    return (long)roundf(x);
}

static inline long lrintf(float x) {
    return (long)rintf(x);
}

static inline long long llroundf(float x) {
    return (long long)roundf(x);
}

static inline long long llrintf(float x) {
    return (long long)rintf(x);
}

/* exp(-x^2) times a polynomial in (x - 3) / (x + 3), which is (1 + 2x) exp(x^2) erfc(x) there
 * (Shepherd and Laframboise, 1981), fitted at Chebyshev's points of 0 to 10.25: within 2e-11. */
static inline float erfcf(float x) {
    static const double terms[14] = {
        1.2794143641742084,   -0.08762326613812396,   -0.18119881342138727,  0.27836333268292524,
        -0.21550791705314337, 0.10186045738065433,    -0.024398070557113367, -0.002082627618937065,
        0.003012783651166626, -0.0002363452442907751, -0.000331247476317134, 4.489401408383147e-05,
        3.36194325479292e-05, -4.217062858007118e-06};
    double u = fabsf(x), sum = 0;
    if (isnan(x)) return NAN;
    if (u > 10.25) return x > 0 ? 0 : 2;
    double at = (u - 3) / (u + 3) + 0.22641509433962265;
    for (int i = 13; i >= 0; i--) sum = sum * at + terms[i];
    double y = exp(-u * u) * sum / (1 + 2 * u);
    return (float)(x < 0 ? 2 - y : y);
}

/* 1 / gamma(u) for u in 1 ... 2, fitted at Chebyshev's points: within 2e-16. */
static inline double lockstep_one_over_gamma(double u) {
    static const double terms[15] = {
        1.1283791670955126,     -0.04117452644528216,   -0.5266544355255445,
        0.17510202604379396,    0.05096686024771327,    -0.04215516936245979,
        0.006612897826512947,   0.002120731326787741,   -0.00111073024865264,
        0.00015235875380774502, 2.5355146572834772e-05, -1.3902747279703676e-05,
        2.1565111610410453e-06, 7.383394654158106e-08,  -8.996935696824659e-08};
    double at = u - 1.5, sum = 0;
    for (int i = 14; i >= 0; i--) sum = sum * at + terms[i];
    return sum;
}

/* gamma(x) for x in -50 ... 40, by its recurrence from there. */
static inline double lockstep_gamma(double x) {
    double above = 1, below = 1, u = x;
    for (; u > 2; u -= 1) above *= u - 1;
    for (; u < 1; u += 1) below *= u;
    return above / (below * lockstep_one_over_gamma(u));
}

static inline float tgammaf(float x) {
    if (x == 0) return copysignf(INFINITY, x);
    if (isnan(x) || (x < 0 && floorf(x) == x)) return NAN;
    if (x > 40) return INFINITY;
    if (x < -50) return floorf(x * 0.5f) * 2 == floorf(x) ? 0.0f : -0.0f;
    return (float)lockstep_gamma(x);
}

/* log(gamma(x)) for x of 8 and more: Stirling's series. */
static inline double lockstep_log_gamma(double x) {
    double r = 1 / (x * x);
    double series =
        (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 - r * (1.0 / 1680 - r / 1188)))) / x;
    return (x - 0.5) * log(x) - x + 0.91893853320467274178 + series;
}

/* log(sin(pi x)) of the distance x from the nearest whole number. */
static inline double lockstep_log_sine(double x) {
    static const double terms[9] = {
        2.534324262661598,      -4.557629442461073,      2.332998758213981,
        -0.5593251868104976,    0.07764717237241964,     -0.007027808533771898,
        0.00044747103617065145, -2.1133714397803598e-05, 7.697826768224191e-07};
    double at = x * x - 0.125, sum = 0;
    for (int i = 8; i >= 0; i--) sum = sum * at + terms[i];
    return log(fabs(sum * x));
}

static inline float lgammaf(float x) {
    double u = x;
    if (isnan(x)) return NAN;
    if (isinf(x) || (x <= 0 && floorf(x) == x)) return INFINITY;
    if (x >= 8) return (float)lockstep_log_gamma(u);
    if (x > -8) return (float)log(fabs(lockstep_gamma(u)));
    return (float)(1.1447298858494001741 - lockstep_log_sine(u - round(u)) - /* log(pi) */
                   lockstep_log_gamma(1 - u));
}
#endif
