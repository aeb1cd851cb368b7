/* for c-functions.step */
#include <math.h>
#include <stdbool.h>
#define GAIN 2.5
enum { STEPS = 3, LAST = STEPS - 1 };
static inline float squareplus(float x, float b) {
    return 0.5f * (x + sqrtf(x * x + b));
}
static inline float squareplus_d0(float d, float x, float b) {
    return d * 0.5f * (1 + x / sqrtf(x * x + b));
}
static inline float squareplus_d1(float d, float x, float b) {
    return d * 0.25f / sqrtf(x * x + b);
}
static inline int collatz(int n) {
    int steps = 0;
    for (; n > 1; steps++) n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}
static inline bool between(double x, double low, double high) {
    return x >= low && x <= high;
}
