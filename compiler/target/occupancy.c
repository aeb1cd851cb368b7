/* occupancy.c: how many warps of a kernel are resident on a multiprocessor, NVIDIA's, or a compute
 * unit, AMD's, where a warp is a wave. tests/machine/chips.py computes the same. */
#include <ctype.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"

static const TargetMultiprocessor rows[] = {
#define MULTIPROCESSOR(target, ...) {.name = target, __VA_ARGS__},
#include "target/targets.def"
};

bool target_is_variant(const char *target, const char *name) {
    const size_t length = strlen(name);
    const char *rest = target + length;
    if (strncmp(target, name, length) != 0) return false;
    const bool variant = strncmp(target, LS_TARGET_CUBIN, strlen(LS_TARGET_CUBIN)) == 0 &&
                         isalpha((unsigned char)*rest) && !rest[1];
    return !*rest || *rest == ':' || variant;
}

static const TargetMultiprocessor *row_of(const char *target) {
    for (size_t i = 0; i < COUNT(rows); i++)
        if (target_is_variant(target, rows[i].name)) return &rows[i];
    return NULL;
}

static uint32_t lanes_of(const char *name) {
    const ls_target *chip;
    for (size_t i = 0; (chip = ls_target_at(i)) != NULL; i++)
        if (strcmp(chip->name, name) == 0) return chip->lanes;
    return 32;
}

bool target_occupancy(const char *target, uint32_t registers, uint32_t shared_bytes,
                      uint32_t threads, TargetOccupancy *occupancy) {
    const TargetMultiprocessor *has = row_of(target);
    if (!has || !threads) return false;
    const uint32_t lanes = lanes_of(has->name), of_block = (threads + lanes - 1) / lanes;
    uint32_t share = (registers + has->granule - 1) / has->granule * has->granule;
    if (!share) share = has->granule;
    uint32_t of_part = has->registers / share, blocks;
    if (of_part > has->warps) of_part = has->warps;
    blocks = has->parts * of_part / of_block;
    if (blocks > has->blocks) blocks = has->blocks;
    uint32_t held = has->reserved << 10;
    if (shared_bytes > held) held = shared_bytes;
    if (held && blocks > (has->shared << 10) / held) blocks = (has->shared << 10) / held;
    *occupancy = (TargetOccupancy){blocks * of_block, has->parts * has->warps};
    return true;
}
