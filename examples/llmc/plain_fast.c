/* plain_fast.c: plain.c for a compiler that may add up in any order and call the C library's
 * functions of vectors. */
#define PLAIN_STEPS fast_steps
#include "plain.c"
