/* explore.h: which run of a launch comes next, depth first: see simt_explore. */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 256 }; /* of a launch, at most */

typedef struct Explorer Explorer;

/* One of `count` possibilities: as in the run before up to where this one begins to differ. */
uint32_t explorer_choose(Explorer *explorer, uint32_t count);
/* Ahead of a step. False: an earlier run has been in this state, and all that follows is known. */
bool explorer_enter(Explorer *explorer, uint64_t state);

#endif
