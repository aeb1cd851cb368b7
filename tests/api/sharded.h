/* sharded.h: what sharded_test.c shares with sharded_random.c. */
#ifndef SHARDED_H
#define SHARDED_H

#include <stdbool.h>
#include <stdint.h>

enum { SHARDED_TEXT = 8192, SHARDED_PARAMETERS = 16 };

/* A step `random` over a list with the axes t and n, a random one for each seed. */
void sharded_random(char text[SHARDED_TEXT], uint32_t seed);
/* Runs the first step of a text on lists of so many flat tensors; `data` is as interp.h has it. */
bool sharded_interpret(const char *text, int64_t tensors, const int64_t *lengths, void *const *data,
                       int launches);

#endif
