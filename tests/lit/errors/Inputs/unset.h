/* Elements and members that are read before they are set, and what only seems so. */
#include <string.h>
#define NTH 1
enum { ONE = 1 };
typedef struct pair { float a, b; } pair;
typedef union bits { float f; unsigned u; } bits;

static inline float element(float x) { float t[3]; t[0] = x; t[2] = x; return t[1]; }
static inline float nothing(float x, int k) { float t[3]; return x + t[k]; }
static inline float member(float x) { pair p; p.a = x; return p.a + p.b; }
static inline float deep(float x) { pair p[2][2]; p[0][ONE].a = x; return p[0][1].a + p[1][0].b; }
static inline float branch(float x) { float t[2]; if (x > 0) t[0] = x; return t[0]; }
static inline float first(float x) {
    float t[4], s = 0;
    for (int i = 0; i < 4; i++) { s += t[i]; t[i] = x; }
    return s;
}
static inline float added(float x) { float t[2]; t[1] += x; return t[1]; }
static inline float moved(float x) { bits b; float y; memcpy(&y, &b.f, 4); b.f = x; return y; }
static inline float whole(float x) { pair p, q; q = p; p.a = x; return q.a; }

static inline float behind(float x) {
    float t[3];
    t[0] = x;
    for (int i = 0; i < 4; i++) {
        if (x > i) break;
        x *= 2;
    }
    return t[1];
}
static inline float around(float x) {
    float t[2];
    while (x < 4) {
        if (x < 0) return x;
        x *= 2;
    }
    return t[0] + x;
}
static inline float within(float x) {
    float t[2], s = 0;
    for (int i = 0; i < 4; i++) {
        s += t[1];
        if (s > x) continue;
        x *= 2;
    }
    return s;
}
static inline float cases(float x, int k) {
    float t[2];
    switch (k) {
    case 0: x += t[0]; break;
    default: return x;
    }
    return x;
}

static inline float filled(float x) {
    float t[4];
    for (int i = 0; i < 4; i++) t[i] = x + i;
    return t[0] + t[3];
}
static inline float running(float x) {
    float t[4], s = 0;
    for (int i = 0; i < 4; i++) {
        if (i > 0) s += t[i - 1];
        s += i > 1 && t[i - 1] > 0 ? t[i - 2] : 0;
        t[i] = x;
    }
    return s;
}
static inline float both(float x) {
    pair p;
    if (x > 0) { p.a = x; p.b = 1; } else { p.a = -x; p.b = 2; }
    return p.a * p.b;
}
static inline float returned(float x) {
    float t[2];
    if (x > 0) t[0] = x; else return 0;
    return t[0];
}
static inline float correlated(float x) {
    float t[1];
    if (x > 0) t[0] = x;
    return x > 0 ? t[0] : 0;
}
static inline float chosen(float x, int k) {
    float t[2];
    switch (k) {
    case 0: t[0] = x; break;
    default: t[0] = 2 * x;
    }
    return t[0];
}
static inline float left(float x) {
    float t[2];
    while (1) {
        if (x < 1) { t[NTH] = x; break; }
        x *= 0.5f;
    }
    return t[1];
}
static inline float view(float x) { bits b; b.f = x; b.u &= 0x7fffffffu; return b.f; }
static inline float copied(float x) {
    bits b;
    memcpy(&b, &x, 4);
    return (float)b.u;
}
static inline float nested(float x) {
    pair p[2];
    do { p[0].a = x; p[1] = p[0]; x *= 0.5f; } while (p[1].a > 1);
    return p[1].a + sizeof p[1].b;
}
