/* cost.h: what compiling a program takes: processor time, and the most memory at once. */
#ifndef COST_H
#define COST_H

#include <stddef.h>
#include <stdint.h>

typedef struct Cost {
    double ms;     /* of the processor, all threads */
    uint64_t peak; /* bytes allocated at once, above what there was at first */
    uint64_t kept; /* of these, still allocated */
} Cost;

/* Only one at a time. What is between begin and end is added to what the cost has from before. */
void cost_begin(void);
void cost_end(Cost *cost);

#endif
