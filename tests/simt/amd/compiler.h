/* compiler.h: clang for AMD in tests, see compiler.c. */
#ifndef AMD_COMPILER_H
#define AMD_COMPILER_H

#include <stddef.h>

/* The code object of HIP source for a chip, for the caller to free, with the options that steps of
 * `math exact` are compiled with; NULL after a failure, with the reason in `message`. */
void *amd_compile(const char *source, const char *chip, size_t *bytes, char *message, size_t size);

#endif
