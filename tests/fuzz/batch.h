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
/* Adds the text of a variant of a loaded image. As the batch is built the variant gets functions of
 * the batch, or on a GPU the batch's text as its code and entry points of other names. False: the
 * macros that are defined ahead of the text are not those ahead of the first. */
bool batch_link(Batch *batch, ls_image_variant *variant);
/* Has batch_build take the batch's code from the cache of kernels, or store it there, as code that
 * the toolchain `maker`, the text of Rtc.describe, has made. */
void batch_keep(Batch *batch, const char *maker);
/* Ends the batch's text and makes code of it: on the CPU by the command line `compiler` (words that
 * end with NULL), on a GPU by handing the text on. False: what the compiler said is in `message`.
 */
bool batch_build(Batch *batch, const char *const *compiler, char *message, size_t size);

#endif
