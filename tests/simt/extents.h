/* extents.h: which memory a device's kernels may touch, as a test knows it: every parameter and
 * temporary as it is bound. An emulated device (emulated.c) has these functions for whoever looks
 * them up in it; as long as there are extents, each access must lie within one. */
#ifndef EXTENTS_H
#define EXTENTS_H

#include <stddef.h>

/* Of `name` for messages, of which a copy is kept. Extents may overlap: then they are one. */
void simt_extents_add(const void *begin, size_t bytes, const char *name);
void simt_extents_clear(void);
typedef void SimtExtentsAdd(const void *begin, size_t bytes, const char *name);
typedef void SimtExtentsClear(void);

/* NULL, or what is wrong with an access to device memory. */
const char *simt_extents_touch(const void *address, size_t bytes);

#endif
