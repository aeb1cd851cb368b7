#ifndef MORE_OPS_H
#define MORE_OPS_H
#include <math.h>
#include <stdint.h>
#define LIMIT_BITS 10
typedef int64_t index_type;
static inline float helper(float x) {
    return fabsf(x);
}
#endif
