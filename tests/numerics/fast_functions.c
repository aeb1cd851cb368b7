/* fast_functions.c: the functions as `math fast` has them on a CPU: templates/fast.h, the rest
 * exact's text, all of it contracted (CMakeLists.txt says so for this file). What comes of that
 * depends on the compiler, so the bounds have some room and no hash is kept. On a GPU `math fast`
 * is the hardware's approximations, which cannot be measured here. */
#define SWEEP_FAST
#include "sweep_functions.c"
