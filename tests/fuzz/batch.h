/* batch.h: the generated texts of many steps as one, with one prelude and one library for all, so
 * that a toolchain starts once and reads them once. */
#ifndef BATCH_H
#define BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/image.h>

void *must_allocate(size_t bytes); /* zeroed; ends the process when memory is out */

typedef struct Batch Batch;

/* For "cpu", "sm_90", "gfx90a", ... With `called` the CPU's library is called, not inlined: less to
 * compile, and for the bits no difference. */
Batch *batch_open(const char *target, bool called);
void batch_close(Batch *batch);
/* Adds the variants of the image that `wanted` has bits for (from bit 0; all that do not exist are
 * ignored). The copy has them alone, without their limits, and entry points of other names; it
 * lives as long as the batch. With `spread` every kernel is worth several CPU workers, or
 * blocks; `broken` kernels do nothing. */
const ls_image *batch_add(Batch *batch, const ls_image *image, uint32_t wanted, bool spread,
                          bool broken);
/* Adds the text of a variant of a loaded image, which gets functions of the batch as it is built,
 * or its text as the code, and entry points of other names. false: macros that are defined ahead of
 * it are not those of the first. */
bool batch_link(Batch *batch, ls_image_variant *variant);
/* The code is taken from the cache of kernels, or goes there, as made by the toolchain that this
 * describes. */
void batch_keep(Batch *batch, const char *maker);
/* Ends the text and makes code of it: on the CPU with the command line `compiler` (words that end
 * with NULL), elsewhere by handing the text on. false: what the compiler said is in `message`. */
bool batch_build(Batch *batch, const char *const *compiler, char *message, size_t size);

#endif
