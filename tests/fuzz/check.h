/* check.h: programs against the interpreter on every machine of the differential fuzzer. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cost.h"

typedef enum Verdict {
    VERDICT_RIGHT,
    VERDICT_REFUSED,  /* the compiler has errors: a mistake of the generator or of a check */
    VERDICT_NO_IMAGE, /* planning or emitting fails */
    VERDICT_NO_CODE,  /* the toolchain refuses the text */
    VERDICT_WRONG,    /* other bits, a launch that fails, or what the emulator detects */
    VERDICT_CRASH,
    VERDICT_HANG,
    VERDICT_COUNT
} Verdict;
extern const char *const verdict_words[VERDICT_COUNT];

typedef enum Variants { VARIANTS_NONE, VARIANTS_ONE, VARIANTS_TWO, VARIANTS_ALL } Variants;

typedef struct Machine {
    const char *name;
    const char *device, *target;
    const char *compiler[24]; /* of the CPU: its command line */
    bool called;
    unsigned turns;    /* how many batches of its turn are on it: all programs, in two variants */
    Variants variants; /* of programs that run everywhere; VARIANTS_ONE: of one in four */
} Machine;
extern const Machine machines[];
extern const size_t machine_count;
size_t light_machine(uint64_t batch); /* whose turn it is */

typedef struct Case {
    char name[48];
    char *text;
    bool full;       /* on every machine, not on one in two variants */
    uint64_t turn;   /* of full ones: they take turns on some machines */
    bool broken;     /* its kernels do nothing, to see that this is found */
    Verdict verdict; /* found */
    size_t machine;  /* where */
    Cost cost;       /* of reading, planning and emitting it for the first of its machines */
} Case;

/* Checks the cases, `light` being the machine of those that are not full, in a process of its own,
 * and again without those that end it. What is said about failures goes to the file `log`. */
void check_cases(Case *cases, size_t count, size_t light, const char *log);
/* One text on one machine, all variants. */
Verdict check_text(const Case *one, const char *text, size_t machine, const char *log);

/* shrink.c: the smallest text found, in `tries` attempts at most, that is at fault in the same way
 * on the same machine; malloc'ed. */
char *shrink(const Case *failed, size_t tries, const char *log);

#endif
