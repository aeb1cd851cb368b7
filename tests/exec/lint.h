/* lint.h: what machine code of a GPU may not hold if its numbers are to be those of the CPU. */
#ifndef LINT_H
#define LINT_H

#include <stdbool.h>
#include <stddef.h>

/* PTX (targets sm_NN) or AMD disassembly (gfxNNN). False: `reason` says what stands there. */
bool lint_assembly(const char *target, const char *text, char *reason, size_t size);

/* A code object's kernels: denormals on, rounding to nearest. Passes what is for another target. */
bool lint_image(const char *target, const void *image, size_t image_size, char *reason,
                size_t size);

#endif
