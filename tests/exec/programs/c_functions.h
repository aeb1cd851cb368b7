/* c_functions.h: what c_functions.step imports. Only operations that IEEE 754 rounds correctly: the
 * oracle compiles this header with the host's <math.h>. */
#ifndef C_FUNCTIONS_H
#define C_FUNCTIONS_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define SLOPE 0.25f
#define ROUNDS (1 << 3)
enum { FIRST = -2, SECOND = 7 };
typedef int64_t count_t;

static inline float squareplus(float x, float b) {
    return 0.5f * (x + sqrtf(x * x + b));
}
static inline float squareplus_d0(float d, float x, float b) {
    return d * (0.5f * (1 + x / sqrtf(x * x + b)));
}
static inline float squareplus_d1(float d, float x, float b) {
    (void)sizeof(x);
    return d * 0.25f / sqrtf(x * x + b);
}

static inline float leaky(float x) {
    return x < 0 ? SLOPE * x : x;
}
static inline float leaky_d(float d, float x) {
    return x < 0 ? SLOPE * d : d;
}

/* A loop, a switch, locals and every width of integer. */
static inline count_t walk(count_t n, unsigned seed, bool up) {
    count_t steps = 0;
    unsigned char small = (unsigned char)seed;
    while (n > 1 && steps < 100) {
        n = n % 2 ? n / 3 + 1 : n / 2;
        steps++;
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (i == 5) continue;
        small = (unsigned char)(small * 3 + i);
    }
    switch (steps % 3) {
    case 0: steps += SECOND; break;
    case 1: steps -= FIRST;
    default: steps = up ? steps + small : steps - small;
    }
    return steps;
}

static inline double tidy(double x, double low) {
    double y = isnan(x) ? 0.0 : fmax(x, low);
    return isinf(y) ? copysign(1e30, y) : fma(y, 0.5, 1.0);
}

static inline bool inside(float x, int bound) {
    return fabsf(x) <= (float)bound && !signbit(x);
}

static inline float halves(float x) {
    float a = roundf(x), b = fminf(floorf(x), ceilf(x) - 1.0f);
    int left = 3;
    do {
        b += 0.5f;
    } while (b < 0 && --left > 0);
    return a + b + truncf(x) - rintf(x);
}
#endif
