/* target_gpu.c: CUDA C for NVRTC and HIP C for hipRTC: two preludes under one text. */
#include "base/base.h"
#include "target/target.h"

/* The files in order, the dialect's own for `math fast` last. */
#define LIBRARIES(fast)                                                                            \
    {                                                                                              \
        "integer.h", "convert.h", "math.h", "lite.h", "c.h", "philox.h", "draw_simt.h", "fixed.h", \
            "memory.h", "memory_simt.h", "reduce.h", "reduce_simt.h", fast, NULL                   \
    }
static const char *const cuda_libraries[] = LIBRARIES("fast.cu");
static const char *const hip_libraries[] = LIBRARIES("fast.hip");

/* What both dialects have in common; a number on which they part moves to the rows below. */
#define SIMT                                                                                \
    .simt = true, .lanes = "simt", .threads = 256, .one_block_threads = 512,                \
    .blocks_per_multiprocessor = 8, .items_per_block = 8, .columns = 32, .few_strips = 255, \
    .many_tiles = 33, .on_chip_bytes = 1u << 16, .one_block_limit = 1u << 16,               \
    .together_limit = 1u << 22, .tail_limit = 1u << 15, .strip_threads = 384,               \
    .strips_per_multiprocessor = 1, .strip_rows = 4096, .strip_columns = 1024,              \
    .part_limit = 1u << 13, .prologue_limit = 1u << 13

/* Of strips, a multiprocessor's share of the second cache: of 40 MB and more, and of 8. */
const Target target_cuda = {.name = "cuda",
                            .prelude = "prelude.cu",
                            .libraries = cuda_libraries,
                            .fast = "fast.cu",
                            .processors = 132,
                            .strip_bytes = 384u << 10,
                            SIMT};
const Target target_hip = {.name = "hip",
                           .prelude = "prelude.hip",
                           .libraries = hip_libraries,
                           .fast = "fast.hip",
                           .divides = true,
                           .processors = 104,
                           .strip_bytes = 74u << 10,
                           SIMT};
