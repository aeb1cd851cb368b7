/* c_math.h: what c_math.step imports: functions of <math.h> that are texts in C, and exact, so that
 * the oracle's, from the host's <math.h>, have the same results. */
#include <math.h>

static inline float of_rests(float x, float y) {
    return remainderf(x * 1000, y) + fmodf(y * 77, x) + fdimf(x, y);
}

static inline float of_exponents(float x, int n) {
    return logbf(x) + ldexpf(x, n) * scalblnf(x, -n) + scalbnf(x, 2 * n);
}

static inline float of_neighbours(float x, float y) {
    return nextafterf(x, y) * nextafterf(1, x) - nextafterf(0, y);
}

static inline int of_kinds(float x) {
    int whole = (int)lroundf(x * 9) - (int)llrintf(x * 7);
    return fpclassify(x) + 10 * !!isnormal(x) + 20 * isless(x, 0) + 40 * whole +
           80 * (x == 0 ? 0 : ilogbf(x));
}

/* Each argument of a macro is evaluated once, whatever it and the other one are. */
static inline float of_evaluations(float x, float y) {
    float u = x, v = y;
    double w = x, z = y;
    int kinds = !!isnormal(u *= 2);
    kinds = kinds * 5 + fpclassify(v *= 3);
    kinds = kinds * 2 + !!isnormal(w *= 2);
    kinds = kinds * 5 + fpclassify(z *= 3);
    kinds = kinds * 2 + islessgreater(u++, v++);
    kinds = kinds * 2 + islessgreater(w++, z++);
    kinds = kinds * 2 + islessgreater(u++, w++);
    kinds = kinds * 2 + isunordered(u++, v++);
    kinds = kinds * 2 + isunordered(NAN, u++);
    kinds = kinds * 2 + isunordered(z++, w++);
    kinds = kinds * 2 + isunordered(v++, z++);
    kinds = kinds * 2 + isless(v++, u++) + isgreaterequal(w++, z++);
    return (float)(kinds + 2 * u + 3 * v + 5 * w + 7 * z);
}
