/* data.c: a small generator, so that the example needs no file. Everything is made of exact
 * operations (no libm), which is why two machines train on the same numbers. */
#include "data.h"

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Nearly normal: the sum of twelve uniform numbers has variance one. */
static float next_normal(uint64_t *state) {
    double sum = -6.0;
    for (int i = 0; i < 12; i++) sum += (double)(next_bits(state) >> 40) * 0x1p-24;
    return (float)sum;
}

void make_data(size_t samples, size_t features, float bias, float noise, float *x, float *y,
               float *weights) {
    uint64_t state = 1;
    for (size_t k = 0; k < features; k++) weights[k] = next_normal(&state);
    for (size_t i = 0; i < samples; i++) {
        double sum = bias;
        for (size_t k = 0; k < features; k++) {
            x[i * features + k] = next_normal(&state);
            sum += (double)x[i * features + k] * (double)weights[k];
        }
        y[i] = (float)(sum + (double)noise * (double)next_normal(&state));
    }
}
