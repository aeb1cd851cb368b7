/* advise_vary.c: how long an axis may be: the most that fits a budget of memory, and from where on
 * a longer one stops paying. */
#include "files.h"
#include "command.h"
#include "advise.h"

#include <stdlib.h>

#define LONGEST ((int64_t)1 << 40)

static bool fits(Advise *advise, int64_t length, bool *good, Failure *failure) {
    ls_advice advice;
    if (!advise_at(advise, length, true, &advice, failure)) return false;
    *good = advise_memory(&advice) <= advise->budget;
    return true;
}

/* Doubles until it does not fit, then halves what is between. */
static bool find_largest(Advise *advise, Failure *failure) {
    int64_t low = 0, high = 1;
    bool good;
    for (;; high *= 2) {
        if (!fits(advise, high, &good, failure)) return false;
        if (!good) break;
        low = high;
        if (high < LONGEST) continue;
        fail(failure, STATUS_USAGE, "the memory does not grow with axis '%s'", advise->vary.axis);
        fail_help(failure, "--vary takes the axis that counts samples");
        return false;
    }
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (!fits(advise, middle, &good, failure)) return false;
        *(good ? &low : &high) = middle;
    }
    advise->vary.largest = low;
    return true;
}

static bool add_row(Advise *advise, int64_t length, Failure *failure) {
    Vary *vary = &advise->vary;
    ls_advice advice;
    if (!advise_at(advise, length, false, &advice, failure)) return false;
    vary->rows = memory_grow(vary->rows, vary->count + 1, sizeof *vary->rows);
    vary->rows[vary->count++] = (VaryRow){length, advice.time_s, advise_memory(&advice)};
    return true;
}

static double each(const VaryRow *row) {
    return row->time / (double)row->length;
}

bool vary_find(Advise *advise, Failure *failure) {
    Vary *vary = &advise->vary;
    if (!find_largest(advise, failure)) return false;
    for (int64_t length = 1; length < vary->largest; length *= 2)
        if (!add_row(advise, length, failure)) return false;
    if (vary->largest && !add_row(advise, vary->largest, failure)) return false;
    size_t best = 0, first = 0;
    for (size_t i = 0; i < vary->count; i++)
        if (each(&vary->rows[i]) < each(&vary->rows[best])) best = i;
    while (first < best && each(&vary->rows[first]) > PAYS * each(&vary->rows[best])) first++;
    if (vary->count) vary->pays_to = vary->rows[first].length;
    return true;
}
