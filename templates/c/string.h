/* string.h as C functions of steps see it: bits of one local as those of another,
 *   memcpy(&bits, &x, sizeof bits);
 * which becomes a copy of bytes that every compiler of kernels makes a move of. */
#ifndef LOCKSTEP_C_STRING
#define LOCKSTEP_C_STRING
#include <stddef.h>
void ls_memcpy(void *to, const void *from, size_t bytes);
#define memcpy ls_memcpy
#endif
