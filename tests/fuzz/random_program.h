/* random_program.h: a program that is a function of the seed and its number. */
#ifndef RANDOM_PROGRAM_H
#define RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

/* malloc'ed. Those of seed 1 are the programs random-FIRST and on. `small` ones are quick to run.
 * Steps have so many statements, or with 0 a few. */
char *random_program(uint64_t number, uint64_t seed, bool small, unsigned statements);

#endif
