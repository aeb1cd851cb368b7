#ifndef OPS_H
#define OPS_H
#include "more_ops.h"
#include <math.h>
#define SCALE 1.5f
#define LIMIT (1 << LIMIT_BITS)
#define NAME "text"
#define CALL(x) ((x) + 1)
#define HUGE_COUNT 18446744073709551615ull
enum { RED, GREEN = 5, BIG = 1ll << 40 };

static inline float soft(float x, index_type n) {
    _Bool wide = n > LIMIT && !isnan(x);
    for (int i = 0; i < GREEN; ++i) x += (float)n * helper(x) - (wide ? 'a' : 0x10u);
    return expf(x) + INFINITY;
}
static inline float soft_d(float d, float x, index_type n) {
    return d * (x + n);
}
static inline int unused(int x) {
    return x;
}
#endif
