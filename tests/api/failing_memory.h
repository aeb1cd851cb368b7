/* failing_memory.h: the host's memory, counted, and running out on request. A program that links
 * failing_memory.c must be linked with --wrap for malloc, calloc, realloc, aligned_alloc,
 * posix_memalign and free; see CMakeLists.txt. */
#ifndef FAILING_MEMORY_H
#define FAILING_MEMORY_H

extern long memory_live;          /* allocations not freed yet */
extern long memory_until_failure; /* the n-th allocation from now fails; 0: none does */

#endif
