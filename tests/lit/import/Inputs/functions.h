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
