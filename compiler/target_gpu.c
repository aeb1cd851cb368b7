/* target_gpu.c: CUDA C for NVRTC and HIP C for hipRTC: two preludes under one text. */
#include "compiler.h"
#include "plan.h"

static const char *const libraries[] = {
    "integer.h", "convert.h",     "math.h",  "lite.h",   "c.h",
    "philox.h",  "draw_simt.h",   "fixed.h", "memory.h", "memory_simt.h",
    "reduce.h",  "reduce_simt.h", NULL};

/* What both dialects have in common; a number on which they part moves to the rows below. */
#define SIMT                                                                                       \
    .libraries = libraries, .simt = true, .lanes = "simt", .threads = 256,                         \
    .one_block_threads = 512, .blocks_per_multiprocessor = 8, .items_per_block = 8, .columns = 32, \
    .one_block_limit = 1u << 16

const Target target_cuda = {.name = "cuda", .prelude = "prelude.cu", SIMT};
const Target target_hip = {.name = "hip", .prelude = "prelude.hip", SIMT};
