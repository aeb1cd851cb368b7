/* target_c.c: C for the CPU, and the list of targets. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"

static const char *const libraries[] = {
    "integer.h", "convert.h",     "math.h",  "lite.h",   "c.h",
    "philox.h",  "draw_loop.h",   "fixed.h", "memory.h", "memory_loop.h",
    "reduce.h",  "reduce_loop.h", "fast.h",  NULL};

const Target target_c = {
    .name = "c",
    .prelude = "prelude.c",
    .libraries = libraries,
    .fast = "fast.h",
    .lanes = "loop",
    .threads = 1,
    .one_block_threads = 1,
    .blocks_per_multiprocessor = 1,
    .items_per_block = 1,
    .processors = 16,
    .columns = 64,
    .near_tiles = 16,
    .few_strips = 63,
    .many_tiles = 33,
    .on_chip_bytes = 1u << 20,
    .one_block_limit = 1u << 16,
    .tail_limit = 1u << 15,
    .part_limit = 1u << 15,
    .strip_threads = 1,
    .strips_per_multiprocessor = 1,
    .strip_rows = 1024,
    .strip_columns = 512,
    .strip_bytes = 512u << 10,
    .prologue_limit = 1u << 13,
};

/* Which dialect a target name is compiled from. */
static const struct {
    const char *prefix;
    const Target *target;
} targets[] = {
    {"cpu", &target_c}, {"sm_", &target_cuda}, {"compute_", &target_cuda}, {"gfx", &target_hip}};

const Target *target_for(const char *name) {
    for (size_t i = 0; i < COUNT(targets); i++)
        if (strncmp(name, targets[i].prefix, strlen(targets[i].prefix)) == 0)
            return targets[i].target;
    return NULL;
}

const Target *target_named(const char *name) {
    for (size_t i = 0; i < COUNT(targets); i++)
        if (strcmp(targets[i].target->name, name) == 0) return targets[i].target;
    return NULL;
}
