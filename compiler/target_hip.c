/* target_hip.c: HIP C for hipRTC. */
#include "compiler.h"
#include "plan.h"

static const char *const libraries[] = {"integer.h",     "convert.h", "math.h",        "memory.h",
                                        "memory_simt.h", "reduce.h",  "reduce_simt.h", NULL};

const Target target_hip = {
    .name = "hip",
    .prelude = "prelude.hip",
    .libraries = libraries,
    .lanes = "simt",
    .vectors = true,
    .threads = 256,
    .one_block_threads = 512,
    .blocks_per_multiprocessor = 8,
    .items_per_block = 8,
    .columns = 32,
    .one_block_limit = 1u << 16,
};
