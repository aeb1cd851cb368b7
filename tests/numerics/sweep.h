/* sweep.h: what sweep.c (the driver) and sweep_functions.c (the functions and what each is held
 * against) share. */
#ifndef SWEEP_H
#define SWEEP_H

#include <stdbool.h>
#include <stddef.h>

enum { BLOCK = 4096 };

/* What a result is counted in: units of the last place of f32, of bf16, or not at all (it must be
 * the reference, rounded to f32). */
typedef enum Unit { UNIT_F32, UNIT_BF16, UNIT_EXACT } Unit;

typedef struct Row {
    const char *name;
    Unit unit;
    double bound;                                 /* the published one: README's, math.h's */
    void (*run)(const float *x, float *y);        /* BLOCK inputs */
    void (*reference)(const float *x, double *y); /* to 2^-50 of the result or so, fast */
    double (*scalar)(double x);                   /* the same function of libm, special cases too */
    long double (*finer)(
        long double x); /* holds the two above at a sample; NULL: exact by nature */
} Row;

extern const Row rows[];
extern const size_t row_count;
extern const bool rows_are_recorded; /* in sweep.txt */

#endif
