/* functions.c: the f32 functions of templates/math.h.
 *
 * Each is compared with glibc's double function over its inputs at a stride (all 2^32 with --all,
 * or
 * --all NAME for one) and must keep the bound published for it; special values must be exact. The
 * hash of its results at stride 10007 must be the one that stands here: it is the same on every
 * backend, and changing it is a new numeric version. */
#include <pthread.h>
#include <unistd.h>

#include "numerics.h"

enum { BLOCK = 4096, THREADS_MAX = 64 };

static double reference_sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}
static double reference_softplus(double x) {
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
static double reference_rsqrt(double x) {
    return 1 / sqrt(x);
}
static double reference_pow_07(double x) {
    return pow(x, (double)0.7f);
}
static double reference_pow_m13(double x) {
    return pow(x, (double)-1.3f);
}
static double reference_pow_base(double x) {
    return pow((double)0.999f, x);
}
static float ls_pow_07_f32(float x) {
    return ls_pow_f32(x, 0.7f);
}
static float ls_pow_m13_f32(float x) {
    return ls_pow_f32(x, -1.3f);
}
static float ls_pow_base_f32(float x) {
    return ls_pow_f32(0.999f, x);
}

/*   name      reference           bound   hash at stride 10007 */
#define FUNCTIONS                                               \
    X(exp, exp, 0.8892, 0x3801cbe56a7ad194)                     \
    X(exp2, exp2, 0.8785, 0xd49c2246deac6b20)                   \
    X(expm1, expm1, 1.1045, 0xfa2b21523fc4bd67)                 \
    X(log, log, 0.9218, 0x563ff7749b4c158b)                     \
    X(log2, log2, 0.5010, 0x65eb14bbc276e698)                   \
    X(log1p, log1p, 1.1830, 0xe1197921055c593a)                 \
    X(sigmoid, reference_sigmoid, 1.0067, 0x372df19980787f0f)   \
    X(tanh, tanh, 1.0118, 0xb5c4aa4eb2fcbc6d)                   \
    X(erf, erf, 0.9910, 0xc555611495d9af78)                     \
    X(softplus, reference_softplus, 1.3273, 0x8f0b92156f84c3d7) \
    X(sqrt, sqrt, 0.5, 0x05cae0cb72b9c41f)                      \
    X(rsqrt, reference_rsqrt, 0.5001, 0x5c71b964509a6ddc)       \
    X(cbrt, cbrt, 0.7970, 0x7c0be3e2c8b82a89)                   \
    X(sin, sin, 1.0571, 0x0dfcd1fb3898709c)                     \
    X(cos, cos, 1.0651, 0xfcae15229fc808f7)                     \
    X(pow_07, reference_pow_07, 0.9192, 0xd6fd3407e4c8abbc)     \
    X(pow_m13, reference_pow_m13, 0.9385, 0xfeb5072e832edfa5)   \
    X(pow_base, reference_pow_base, 0.9041, 0xfa3950b07ed72899)

/* in blocks, as kernels run them: the compiler makes vector code of these loops */
#define X(name, reference, bound, hash)                                          \
    __attribute__((noinline)) static void run_##name(const float *x, float *y) { \
        for (int i = 0; i < BLOCK; i++) y[i] = ls_##name##_f32(x[i]);            \
    }
FUNCTIONS
#undef X

typedef struct Function {
    const char *name;
    void (*run)(const float *x, float *y);
    double (*reference)(double x);
    double bound;
    uint64_t hash;
} Function;
static const Function functions[] = {
#define X(name, reference, bound, hash) {#name, run_##name, reference, bound, hash},
    FUNCTIONS
#undef X
};
enum { FUNCTION_COUNT = sizeof functions / sizeof functions[0] };

/* What a sweep found. An error is in units of the last place of the exact result; results of the
 * wrong kind (NaN, infinity, sign of zero) count as wrong. */
typedef struct Finding {
    double error;
    float at;
    unsigned long inputs, wrong;
    float wrong_at;
} Finding;

static double unit_in_the_last_place(double exact) {
    uint64_t bits = ls_bits_f64(exact);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023 - 23;
    if (exponent < -149) exponent = -149;
    return ls_from_bits_f64((uint64_t)(exponent + 1023) << 52);
}

static void judge(Finding *finding, float x, float y, double exact) {
    float rounded = (float)exact;
    bool wrong = false;
    double error = 0;
    finding->inputs++;
    if (isnan(exact) || isnan(y))
        wrong = !(isnan(exact) && isnan(y));
    else if (isinf(exact) || exact == 0)
        wrong = !same_f32(rounded, y);
    else if (isinf(rounded) ||
             isinf(y)) { /* the largest finite number and infinity are neighbours */
        if (rounded != y) error = fabs(fabs(exact) - 0x1p128) / 0x1p104;
        wrong = (y > 0) != (exact > 0);
    } else {
        error = fabs((double)y - exact) / unit_in_the_last_place(exact);
        wrong = !signbit(y) != !signbit(exact);
    }
    if (error > finding->error) finding->error = error, finding->at = x;
    if (wrong && finding->wrong++ == 0) finding->wrong_at = x;
}

/* ---- sweeps ---- */

typedef struct Share {
    const Function *function;
    uint64_t first, last, stride; /* bit patterns */
    Finding finding;
} Share;

static void *sweep_share(void *data) {
    Share *share = data;
    float x[BLOCK], y[BLOCK];
    for (uint64_t pattern = share->first; pattern < share->last;) {
        int count = 0;
        for (; count < BLOCK && pattern < share->last; pattern += share->stride)
            x[count++] = ls_from_bits_f32((uint32_t)pattern);
        for (int i = count; i < BLOCK; i++) x[i] = 1.0f;
        share->function->run(x, y);
        for (int i = 0; i < count; i++)
            judge(&share->finding, x[i], y[i], share->function->reference((double)x[i]));
    }
    return NULL;
}

static Finding sweep(const Function *function, uint64_t stride) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = processors < 1 ? 1 : processors > THREADS_MAX ? THREADS_MAX : (size_t)processors;
    Share shares[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    Finding total = {0};
    for (size_t i = 0; i < count; i++) {
        memset(&shares[i], 0, sizeof shares[i]);
        shares[i].function = function;
        shares[i].first = i * 0x100000000u / count;
        shares[i].last = (i + 1) * 0x100000000u / count;
        shares[i].stride = stride;
        if (pthread_create(&threads[i], NULL, sweep_share, &shares[i]) != 0) {
            puts("cannot start a thread");
            exit(1);
        }
    }
    for (size_t i = 0; i < count; i++) {
        Finding *part = &shares[i].finding;
        pthread_join(threads[i], NULL);
        total.inputs += part->inputs;
        if (part->error > total.error) total.error = part->error, total.at = part->at;
        if (part->wrong && total.wrong == 0) total.wrong_at = part->wrong_at;
        total.wrong += part->wrong;
    }
    return total;
}

/* FNV-1a over words, with a shift that brings high bits down; NaN counts as the canonical one. */
static uint64_t hash_of(const Function *function) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    float x[BLOCK], y[BLOCK];
    for (uint64_t pattern = 0; pattern <= 0xffffffffu;) {
        int count = 0;
        for (; count < BLOCK && pattern <= 0xffffffffu; pattern += 10007)
            x[count++] = ls_from_bits_f32((uint32_t)pattern);
        for (int i = count; i < BLOCK; i++) x[i] = 1.0f;
        function->run(x, y);
        for (int i = 0; i < count; i++) {
            hash = (hash ^ ls_float_bits_f32(y[i])) * 0x100000001b3u;
            hash ^= hash >> 29;
        }
    }
    return hash;
}

static void test_function(const Function *function, uint64_t stride) {
    Finding found = sweep(function, stride);
    enum { SPECIALS = sizeof special_f32 / sizeof special_f32[0] };
    float x[BLOCK], y[BLOCK];
    for (int i = 0; i < BLOCK; i++) x[i] = special_f32[i % SPECIALS];
    function->run(x, y);
    for (int i = 0; i < SPECIALS; i++) judge(&found, x[i], y[i], function->reference((double)x[i]));
    uint64_t hash = hash_of(function);
    printf("%-9s %10lu inputs, at most %.4f ulp, at %a\n", function->name, found.inputs,
           found.error, (double)found.at);
    check(found.wrong == 0, "%s: %lu results of the wrong kind, the first at %a", function->name,
          found.wrong, (double)found.wrong_at);
    check(found.error <= function->bound, "%s: %.4f ulp at %a, but at most %.4f are promised",
          function->name, found.error, (double)found.at, function->bound);
    check(hash == function->hash, "%s: hash 0x%016" PRIx64 ", expected 0x%016" PRIx64,
          function->name, hash, function->hash);
}

/* ---- pow over both operands ---- */

static void test_pow_special(void) {
    enum { COUNT = sizeof special_f32 / sizeof special_f32[0] };
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            Finding found = {0};
            float x = special_f32[i], y = special_f32[j];
            judge(&found, x, ls_pow_f32(x, y), pow((double)x, (double)y));
            check(found.wrong == 0 && found.error <= 1, "pow(%a, %a) = %a", (double)x, (double)y,
                  (double)ls_pow_f32(x, y));
        }
}

/* Pairs whose power is finite: any base, or one near 1, and an exponent that leads to 2^(-155 …
 * 155). */
static void test_pow_random(long count) {
    uint64_t state = 88172645463325252u;
    Finding found = {0};
    for (long i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)random_bits(&state) & 0x7fffffffu;
        float x = ls_from_bits_f32(i & 1 ? 0x3f700000u + bits % 0x200000u : bits);
        double logarithm = log2((double)x);
        double target = (double)(int32_t)random_bits(&state) * 0x1p-31 * 155;
        if (!isfinite(logarithm) || logarithm == 0) continue;
        float y = (float)(target / logarithm);
        if (!isfinite(y)) continue;
        judge(&found, x, ls_pow_f32(x, y), pow((double)x, (double)y));
    }
    printf("pow       %10lu pairs, at most %.4f ulp\n", found.inputs, found.error);
    check(found.wrong == 0, "pow: %lu results of the wrong kind, the first for base %a",
          found.wrong, (double)found.wrong_at);
    check(found.error <= 0.95, "pow: %.4f ulp for base %a, but at most 0.95 are promised",
          found.error, (double)found.at);
}

int main(int count, char **words) {
    bool all = count > 1 && strcmp(words[1], "--all") == 0;
    const char *only = count > 2 ? words[2] : NULL;
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (!only || strcmp(only, functions[i].name) == 0)
            test_function(&functions[i], all ? 1 : 499);
    test_pow_special();
    test_pow_random(all ? 100000000 : 300000);
    return checks_report();
}
