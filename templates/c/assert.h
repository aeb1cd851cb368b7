/* assert.h as C functions of steps see it: kernels have nobody to tell. */
#ifndef LOCKSTEP_C_ASSERT
#define LOCKSTEP_C_ASSERT
#define assert(condition) ((void)0)
#define static_assert _Static_assert
#endif
