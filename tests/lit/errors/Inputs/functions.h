/* functions.h: functions of which most cannot be part of a step, each for another reason. */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H
#include <math.h>
#define LIMIT 10
struct pair { float a, b; };
enum shade { LIGHT };
static inline float fine(float x, float b) { return x + sqrtf(b); }
static inline float fine_d0(float d, double x, float b) { return d; }
static inline float fine_d1(float d, float x, float b) { return d + *&b; }
static inline float plain(float x) { return x; }
static inline float plain_d(float x) { return 1; }
static inline float bare(float x) { return 2 * x; }
static inline float one(void) { return 1; }
static float table(const float *x) { return x[0]; }
static int counter;
static inline int next(int x) { return x + counter++; }
static inline float apply(float x) { return x + next(3); }
static inline float loop_(float x) { return x > 0 ? loop_(x - 1) : 0; }
static inline float outside(float x);
static inline float hyp(float x) { return outside(x); }
static inline float keep(float x) { static float y; y += x; return y; }
static inline float arr(float x) { float *y[3] = {&x, &x, &x}; return *y[1]; }
static inline float jump(float x) { if (x > 0) goto end; x = 1; end: return x; }
static inline float as(float x) { __asm__("nop"); return x; }
static inline long double wide(float x) { return x; }
static inline float pairs(float x) { struct pair p = {x, x}; return p.a; }
static inline float shades(float x, enum shade s) { return x + s; }
static inline float many(float x, ...) { return x; }
static inline float calls_many(float x) { return many(x, 1); }
static inline float through(float x, float f(float)) { return f(x); }
#endif
