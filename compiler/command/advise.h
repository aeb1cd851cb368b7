/* advise.h: what the files of `lockstep advise` share: advise.c (the command), advise_machine.c
 * (what the device in hand can do), advise_vary.c (which batch fits, and which pays),
 * advise_print.c (text and JSON), roofline.c (the picture). Include files.h and command.h first. */
#ifndef ADVISE_H
#define ADVISE_H

#include <lockstep/compiler.h>

enum { RATES_MAX = 4 };
/* What the device in hand can do. */
typedef struct Measured {
    ls_memory_rate rates[RATES_MAX];
    ls_machine machine; /* whose rates point here; empty: the target's datasheet */
} Measured;
/* Measures what is not known: how fast memory is read and copied, unless `peak` (GB/s, 0: none)
 * says it, at so many sizes, the largest of RATES_MAX with 128 MiB, one less with 16; of a CPU how
 * many operations a second its threads have, and what a launch takes. */
bool machine_measure(ls_context *context, double peak, size_t sizes, Measured *measured,
                     Failure *failure);
/* The bytes of the device's memory that are free. */
bool machine_free(const char *device, uint64_t *bytes, Failure *failure);

/* One length of the axis that varies. */
typedef struct VaryRow {
    int64_t length;
    double time;
    uint64_t memory;
} VaryRow;
typedef struct Vary {
    const char *axis; /* NULL: none varies */
    VaryRow *rows;    /* powers of two, and the largest that fits */
    size_t count;
    int64_t largest; /* 0: not even one fits */
    int64_t pays_to; /* from here on the time for each is within PAYS of the best */
} Vary;
#define PAYS 1.05

typedef struct Advise {
    ls_compilation *compilation;
    size_t step;
    ls_advise_options options;
    StringList sizes; /* without the axis that varies; room for one more */
    int64_t given;    /* the length of that axis that --size has; -1: none */
    uint64_t budget;
    const char *name, *device; /* of the step; "cpu", or the target */
    Vary vary;
    int64_t chosen; /* the length of that axis that the kernels' figures are for */
    ls_advice advice;
} Advise;

/* advise.c: the advice for one length of the axis that varies, if there is one; with `plan_only`
 * nothing is compiled. */
bool advise_at(Advise *advise, int64_t length, bool plan_only, ls_advice *advice, Failure *failure);
uint64_t advise_memory(const ls_advice *advice);

bool vary_find(Advise *advise, Failure *failure);
void advise_text(const Advise *advise, Buffer *out);
void advise_json(const Advise *advise, Buffer *out);
void roofline_draw(const Advise *advise, Buffer *out);

#endif
