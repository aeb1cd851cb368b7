/* bounds.h: what the kernels of a step may touch, and rubbish in what they have not written. */
#ifndef BOUNDS_H
#define BOUNDS_H

#include <stdbool.h>

#include <lockstep/lockstep.h>

void bounds_open(const char *device);
/* From now on this too: the arrays of a step that is prepared, as they are bound, and its
 * temporaries. */
void bounds_add(const ls_step *step);
void bounds_clear(void); /* anything at all */
/* No launch may find anything in temporaries; false: out of memory, or the copy failed. */
bool bounds_poison(ls_context *context, const ls_step *step);

#endif
