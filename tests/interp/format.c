/* format.c: the narrow floats from their definition, with frexp and rint where templates/convert.h
 * adds to bit patterns. A double holds all of their values and every f32, so nothing here rounds
 * twice. */
#include "interp.h"

#include <math.h>

typedef struct Format {
    int precision;      /* significant bits, the hidden one included */
    int least_exponent; /* of the smallest normal number */
    double largest;     /* finite */
    bool has_infinity;  /* else rounding saturates; e5m2 has the pattern but never rounds to it */
    uint32_t sign, nan, infinity;
} Format;

static const Format formats[TYPE_COUNT] = {
    [TYPE_F16] = {11, -14, 65504, true, 0x8000, 0x7fff, 0x7c00},
    [TYPE_BF16] = {8, -126, 0x1.fep127, true, 0x8000, 0x7fff, 0x7f80},
    [TYPE_E4M3] = {4, -6, 448, false, 0x80, 0x7f, 0x7f},
    [TYPE_E5M2] = {3, -14, 57344, false, 0x80, 0x7f, 0x7c},
};

/* The distance between neighbours at a magnitude. */
static double unit_at(const Format *format, double magnitude) {
    int exponent;
    frexp(magnitude, &exponent); /* magnitude = m * 2^exponent, m in [0.5, 1) */
    exponent -= 1;
    if (magnitude == 0 || exponent < format->least_exponent) exponent = format->least_exponent;
    return ldexp(1.0, exponent - (format->precision - 1));
}

double format_round(Type storage, double value) {
    const Format *format = &formats[storage];
    if (isnan(value)) return value;
    double magnitude = fabs(value);
    if (!isinf(value)) {
        double unit = unit_at(format, magnitude);
        magnitude = rint(magnitude / unit) * unit;
    }
    if (magnitude > format->largest) magnitude = format->has_infinity ? INFINITY : format->largest;
    return copysign(magnitude, value);
}

/* Up where the random fraction fills what is missing to the next value. */
double format_round_stochastic(Type storage, double value, uint32_t bits) {
    const Format *format = &formats[storage];
    if (isnan(value) || isinf(value)) return format_round(storage, value);
    double unit = unit_at(format, fabs(value));
    long double steps = (long double)fabs(value) / (long double)unit;
    double magnitude = (double)floorl(steps + ldexpl(bits, -32)) * unit;
    return format_round(storage, copysign(magnitude, value)); /* what is too large */
}

uint32_t format_encode(Type storage, double value) {
    const Format *format = &formats[storage];
    if (isnan(value)) return format->nan;
    double magnitude = fabs(value), unit = unit_at(format, magnitude);
    uint32_t sign = signbit(value) ? format->sign : 0;
    if (isinf(value)) return sign | format->infinity;
    /* Counted in units of its own binade, a number is its significand; each binade above that of
     * the subnormals adds 2^(precision-1) patterns. */
    uint32_t significand = (uint32_t)(magnitude / unit), binade = 0;
    while (unit > unit_at(format, 0)) unit /= 2, binade++;
    return sign | ((binade << (format->precision - 1)) + significand);
}

double format_decode(Type storage, uint32_t bits) {
    const Format *format = &formats[storage];
    uint32_t pattern = bits & (format->sign - 1), hidden = UINT32_C(1) << (format->precision - 1);
    double sign = bits & format->sign ? -1.0 : 1.0;
    if (storage == TYPE_E4M3 ? pattern == format->nan : pattern > format->infinity) return NAN;
    if (storage != TYPE_E4M3 && pattern == format->infinity) return sign * INFINITY;
    double unit = unit_at(format, 0);
    if (pattern < hidden) return sign * pattern * unit;
    for (; pattern >= 2 * hidden; pattern -= hidden) unit *= 2;
    return sign * pattern * unit;
}
