/* kernels.c: the maps, row kernels and reductions for f32 and for bf16 (kernels.h, twice). */
#include "native.h"

#include <omp.h>

#define T float
#define NAME(name) name##_f32
#define GET(x) (x)
#define PUT(x) (x)
#include "kernels.h"
#undef T
#undef NAME
#undef GET
#undef PUT
#define T uint16_t
#define NAME(name) name##_bf16
#define GET(x) from_bf16(x)
#define PUT(x) to_bf16(x)
#include "kernels.h"
