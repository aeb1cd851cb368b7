/* compiler.h: NVRTC for tests, see compiler.c. */
#ifndef PTX_COMPILER_H
#define PTX_COMPILER_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is an NVRTC. */
bool ptx_can_compile(void);
/* The PTX of CUDA source, for the caller to free, with the options that steps of `math exact` are
 * compiled with; NULL after a failure, with the reason in `message`. */
char *ptx_compile(const char *source, char *message, size_t size);

#endif
