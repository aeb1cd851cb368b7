/* math.h as C functions of steps see it: the device functions of kernels under their C names. What
 * is not here has no form on every backend. */
#ifndef LOCKSTEP_C_MATH
#define LOCKSTEP_C_MATH

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

#define LOCKSTEP_C_TEST(test, x) \
    (sizeof(x) == sizeof(float) ? ls_##test##_f32((float)(x)) : ls_##test##_f64(x))
#define isnan(x) LOCKSTEP_C_TEST(isnan, x)
#define isinf(x) LOCKSTEP_C_TEST(isinf, x)
#define isfinite(x) LOCKSTEP_C_TEST(isfinite, x)
#define signbit(x) LOCKSTEP_C_TEST(signbit, x)
#define INFINITY ls_infinite_f32()
#define NAN ls_nan_f32()
#define HUGE_VALF ls_infinite_f32()
#define HUGE_VAL ((double)ls_infinite_f32())
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
 * holds each against its bound: fmodf and fdimf are exact, hypotf, log10f and the hyperbolic ones
 * within 1 ulp, the others within the 4 that their device functions and a division leave. */
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
    if (u < 1e-3) return (float)(x - u * u * x / 6);
    return isinf(x) ? x : copysignf((float)log(u + sqrt(u * u + 1)), x);
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
#endif
