/* plain.c: the row kernels as a trainer in C writes them (plain.h, for f32 and for bf16), compiled
 * with -Ofast. */
#include "native.h"

#define T float
#define NAME(name) name##_f32
#define GET(x) (x)
#define PUT(x) (x)
#include "plain.h"
#undef T
#undef NAME
#undef GET
#undef PUT
#define T uint16_t
#define NAME(name) name##_bf16
#define GET(x) from_bf16(x)
#define PUT(x) to_bf16(x)
#include "plain.h"
