#ifndef LAYOUT_H
#define LAYOUT_H
#include <stdbool.h>
#include <stdint.h>
typedef _Bool flag;
struct tagged {
    uint32_t tag;
    union {
        float f;
        uint32_t u;
    };
};
static inline float anonymous(float x) {
    struct tagged v = {1, {x}};
    return v.f;
}
#pragma pack(push, 1)
struct packed {
    unsigned char c;
    float f;
};
#pragma pack(pop)
static inline float tight(float x) {
    struct packed p = {1, x};
    return p.f + (float)sizeof(struct packed);
}
struct wide {
    float a;
    _Alignas(16) float b;
};
static inline float aligned_member(float x) {
    struct wide p = {1, x};
    return p.b;
}
typedef struct pair {
    float a, b;
} pair_t;
static inline float shadowed(float x) {
    struct pair {
        float b, a;
    };
    pair_t p = {x, 1};
    return p.a;
}
typedef struct {
    float re, im;
} cplx;
typedef cplx point;
static inline point moved(cplx z) {
    point p = z;
    p.re += 1;
    return p;
}
static inline float first(float x) {
    cplx z = {x, 0};
    flag positive = x > 0;
    return positive ? moved(z).re : 0;
}
#endif
