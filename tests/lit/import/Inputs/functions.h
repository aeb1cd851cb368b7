#include <limits.h>
#include <math.h>
#define ONE(name)                           \
    static inline float c_##name(float x) { \
        return name##f(x);                  \
    }
#define TWO(name)                                    \
    static inline float c_##name(float x, float y) { \
        return name##f(x, y);                        \
    }
TWO(fmod)
TWO(fdim)
TWO(hypot)
TWO(atan2)
ONE(tan)
ONE(asin)
ONE(acos)
ONE(log10)
ONE(sinh)
ONE(cosh)
ONE(asinh)
ONE(acosh)
ONE(atanh)
ONE(erfc)
ONE(tgamma)
ONE(lgamma)
TWO(remainder)
TWO(nextafter)
ONE(logb)
static inline float c_ldexp(float x, float y) {
    return isnan(y) ? x : ldexpf(x, y >= 0x1p31f ? INT_MAX : y < -0x1p31f ? INT_MIN : (int)y);
}
static inline float c_ilogb(float x) {
    return (float)ilogbf(x);
}
static inline float c_lround(float x) {
    return fabsf(x) < 1e18f ? (float)(lroundf(x) + llrintf(x)) : 0;
}
static inline float c_fpclassify(float x) {
    return (float)(fpclassify(x) + 10 * isnormal(x) + 100 * isunordered(x, 1) +
                   1000 * isgreater(x, 1));
}
