#ifndef RECORDS_H
#define RECORDS_H
#include <math.h>
#include <stdint.h>
#include <string.h>
typedef struct {
    float re, im;
} cplx;
struct box {
    cplx corner[2];
    int32_t kind;
};
typedef union bits {
    float f;
    uint32_t u;
    unsigned char bytes[4];
} bits_t;
static const cplx unit = {0.0f, 1.0f};
static const struct box boxes[2] = {{{{1, 2}, {3, 4}}, 5}, {{{6, 7}, {8, 9}}, 10}};

static inline cplx times(cplx a, cplx b) {
    cplx r;
    r.re = a.re * b.re - a.im * b.im;
    r.im = a.re * b.im + a.im * b.re;
    return r;
}
static inline float area(struct box b) {
    return (b.corner[1].re - b.corner[0].re) * (b.corner[1].im - b.corner[0].im) + (float)b.kind;
}
static inline float turned(float x, float y) { /* the real part of i (x + iy)^2 */
    cplx z = {x, y};
    z = times(z, z);
    return times(unit, z).re;
}
static inline float sized(float x, int32_t k) {
    struct box b = boxes[k & 1];
    b.corner[1].re = x;
    return area(b) + (float)sizeof(struct box);
}
static inline float doubled(float x) { /* by its exponent */
    bits_t b;
    b.f = x;
    b.u += 1u << 23;
    return b.f;
}
static inline float inside(float x) {
    union {
        float f;
        uint32_t u;
    } word = {x};
    struct two {
        float first, second;
    } p = {x, 2 * x}, q = p;
    word.u &= 0x7fffffffu;
    q.second += p.first;
    return word.f + q.second;
}
static inline float copied(float x) {
    cplx z = {x, 1}, other;
    uint32_t word;
    memcpy(&other, &z, sizeof z);
    memcpy(&word, &other.re, sizeof word);
    return other.im + (float)(word >> 31);
}
static inline cplx made(float x) {
    cplx z = {x, x};
    return z;
}
static inline float of_pointer(float x, const cplx *p) {
    return x + p->re;
}
static inline float literal(float x) {
    cplx z = (cplx){x, 1};
    return z.re;
}
struct flags {
    unsigned a : 3;
};
static inline float bit_field(float x) {
    struct flags f = {1};
    return x + (float)f.a;
}
struct list {
    struct list *next;
};
static inline float linked(float x) {
    struct list l = {0};
    (void)l;
    return x;
}
static inline float named(float x) {
    cplx z = {.im = x, .re = 1};
    return z.im;
}
#endif
