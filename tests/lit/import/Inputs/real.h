#ifndef REAL_H
#define REAL_H
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
enum { COUNT = 4 };
#define TERM(n) (1.0f / (n))
static const float half = 0.5f;
static const double wide = 1e-3;
static const int offsets[COUNT] = {-1, 0, 1, 2};
static const float series[2][COUNT] = {{1, TERM(2), TERM(6), TERM(24)}, {half, 2.0f, 3.0f, 4.0f}};

static_assert(sizeof(offsets) == 16, "four");

static inline float taylor(float x) {
    float powers[COUNT], sum = 0;
    assert(x == x);
    powers[0] = 1;
    for (int i = 1; i < COUNT; i++) powers[i] = powers[i - 1] * x;
    for (int i = 0; i < COUNT; i++) sum += series[0][i] * powers[i];
    return sum + half - (float)wide;
}

static inline float tap(float x, int32_t k) {
    static const float taps[] = {0.25f, 0.5f, 0.25f};
    return taps[k % 3] * x * series[1][k & 3] + (float)offsets[(k + 1) & 3];
}

static inline float bits_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline float halved(float x) { /* by its exponent */
    uint32_t word[2] = {0, 0};
    memcpy(&word[1], &x, sizeof(uint32_t));
    return bits_of(word[1] - (1u << 23));
}
static inline float elsewhere(float x, const float *from) {
    memcpy(&x, from, 4);
    return x;
}

struct pair {
    float a, b;
};
static float counter;
static const float *pointer = &half;
static inline float hopeless(float x, const float *p, struct pair q) {
    int unset;
    counter += x;
    if (x > 0) unset = 1;
    return p[0] + q.a + *pointer + (float)unset;
}

static inline float unset_local(float x) {
    float y;
    return x + y;
}

static inline float sometimes(float x) {
    float y;
    if (x > 0) y = 2;
    return x + y;
}

static inline float designated(float x) {
    float t[3] = {[1] = 2.0f};
    return t[1] * x;
}
/* Other warnings are not about what is set. */
#pragma GCC diagnostic push
#pragma GCC diagnostic warning "-Wconversion"
static inline float converted(int n) {
    float x = n, t[2] = {x * 2.0, n};
    return t[0] + t[1];
}
#pragma GCC diagnostic pop
static inline float huge_array(float x) {
    float buffer[2048];
    buffer[0] = x;
    return buffer[0];
}
#define FOUR(name) name##0 [1024], name##1 [1024], name##2 [1024], name##3 [1024]
static inline float huge_locals(float x) {
    float FOUR(a), FOUR(b), FOUR(c), FOUR(d);
    float last[1];
    last[0] = x;
    return last[0];
}
static inline float large_locals(float x) {
    float FOUR(a), FOUR(b), FOUR(c), FOUR(d);
    d3[0] = x;
    return d3[0];
}
#endif
