/* numerics.h: what the tests of the device functions share: the functions themselves, as the C
 * dialect compiles them, counting, and a source of random bits. Each test is one C file with a
 * main. */
#ifndef NUMERICS_H
#define NUMERICS_H

#include <inttypes.h>
#include <stdarg.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prelude.c"
#include "../../templates/math.h"
#include "lite.h"
#include "fast.h"
#include "integer.h"
#include "convert.h"
#include "philox.h"
#include "fixed.h"

static unsigned long checks_passed, checks_failed;

/* Counts one check; says what failed, for the first twenty. */
__attribute__((format(printf, 2, 3), unused)) static void check(bool passed, const char *format,
                                                                ...) {
    if (passed) {
        checks_passed++;
        return;
    }
    if (checks_failed++ < 20) {
        va_list arguments;
        va_start(arguments, format);
        fputs("failed: ", stdout);
        vprintf(format, arguments);
        putchar('\n');
        va_end(arguments);
    }
}

__attribute__((unused)) static int checks_report(void) {
    printf("%lu passed, %lu failed\n", checks_passed, checks_failed);
    return checks_failed != 0;
}

/* Marsaglia, "Xorshift RNGs", 2003 */
__attribute__((unused)) static uint64_t random_bits(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The same number: equal bits, or both NaN. */
__attribute__((unused)) static bool same_f32(float a, float b) {
    return ls_float_bits_f32(a) == ls_float_bits_f32(b);
}
__attribute__((unused)) static bool same_f64(double a, double b) {
    return ls_bits_f64(ls_canonical_f64(a)) == ls_bits_f64(ls_canonical_f64(b));
}

/* Inputs on which functions go wrong first. */
__attribute__((unused)) static const float special_f32[] = {
    0.0f,
    -0.0f,
    1.0f,
    -1.0f,
    INFINITY,
    -INFINITY,
    NAN,
    2.0f,
    -2.0f,
    3.0f,
    -3.0f,
    0.5f,
    -0.5f,
    1e-40f,
    -1e-40f,
    0x1p-149f,
    -0x1p-149f,
    0x1p-126f,
    -0x1p-126f,
    0x1.fffffep127f,
    -0x1.fffffep127f,
    0x1.fffffep-1f,
    0x1.000002p0f,
    -0x1.fffffep-1f,
    16777215.0f,
    16777216.0f,
    -16777215.0f,
    8388607.5f,
    -8388607.5f,
    8388608.0f,
    4194304.5f,
    1.5f,
    -1.5f,
    2.5f,
    7.0f,
    -7.0f,
    1e10f,
    -1e10f,
    0.3333333f,
    -0.3333333f,
    2147483648.0f,
    -2147483648.0f,
    2147483520.0f,
    4294967296.0f,
    4294967040.0f,
    0x1p63f,
    -0x1p63f,
    0x1p64f,
    131072.0f,
    131073.0f,
    -131073.0f,
    88.72284f,
    -103.97209f,
    0.9f,
};

#endif
