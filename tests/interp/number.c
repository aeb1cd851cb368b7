/* number.c: what each operation does to one element.
 *
 * Integers are computed exactly in 128 bits and then wrapped or saturated, floats with the C
 * operators and the exact functions of libm (floor, sqrt, fma ...). Only the transcendental
 * functions are the device's: their texts are what defines their bits. */
#include "interp.h"

#include <math.h>
#include <string.h>

#include "prelude.c"
#include "integer.h"
#include "convert.h"
#include "math.h"
#include "lite.h"

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideBits;

/* ---- elements ---- */

static bool is_float(Type type) {
    return type_info[type].class == 'F';
}

static float as_f32(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

static uint64_t from_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double as_f64(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t from_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static Wide as_integer(Type type, uint64_t bits) {
    if (type == TYPE_I64) return (int64_t)bits;
    if (type == TYPE_I32) return (int32_t)(uint32_t)bits;
    return bits;
}

/* The low bits: integer arithmetic wraps. */
static uint64_t wrap(Type type, WideBits x) {
    return type_info[type].size == 8 ? (uint64_t)x : (uint32_t)x;
}

static uint64_t saturate(Type type, Wide x) {
    int width = 8 * type_info[type].size;
    Wide most = ((Wide)1 << (type_info[type].class == 'S' ? width - 1 : width)) - 1;
    Wide least = type_info[type].class == 'S' ? -most - 1 : 0;
    return wrap(type, (WideBits)(x < least ? least : x > most ? most : x));
}

double number_to_double(Type type, uint64_t bits) {
    if (type == TYPE_F64) return as_f64(bits);
    if (type == TYPE_F32) return (double)as_f32(bits);
    return (double)as_integer(type, bits);
}

uint64_t number_from_double(Type type, double value) {
    if (type == TYPE_F64) return from_f64(value);
    if (type == TYPE_F32) return from_f32((float)value);
    if (type == TYPE_BOOL) return value != 0;
    if (isnan(value)) return 0;
    double limit = 0x1p100; /* far beyond every type, well within Wide */
    return saturate(type, (Wide)(value > limit ? limit : value < -limit ? -limit : value));
}

/* ---- memory ---- */

uint64_t number_load(Type storage, const void *array, int64_t index) {
    size_t size = type_info[storage].size;
    uint64_t bits = 0;
    element_copy(&bits, (const char *)array + (size_t)index * size, size); /* little-endian */
    Type compute = type_info[storage].compute;
    if (storage == TYPE_BOOL) return bits != 0;
    if (compute == storage) return bits;
    if (is_float(storage)) return from_f32((float)format_decode(storage, (uint32_t)bits));
    uint64_t top = UINT64_C(1) << (8 * size - 1);
    if (type_info[storage].class == 'S' && (bits & top)) return (uint32_t)(bits - 2 * top);
    return bits;
}

void number_store(Type storage, void *array, int64_t index, uint64_t value) {
    size_t size = type_info[storage].size;
    uint64_t bits = value;
    if (storage == TYPE_F64) {
        if (isnan(as_f64(value))) bits = UINT64_C(0x7fffffffffffffff);
    } else if (storage == TYPE_F32) {
        if (isnan(as_f32(value))) bits = 0x7fffffff;
    } else if (is_float(storage)) {
        bits = format_encode(storage, format_round(storage, (double)as_f32(value)));
    } else if (type_info[storage].compute != storage) {
        bits = saturate(storage, as_integer(TYPE_I32, value));
    }
    element_copy((char *)array + (size_t)index * size, &bits, size);
}

/* ---- operations ---- */

/* The language page: r = 1, b = x; for each bit of |n| from the lowest, if set r = r b; b = b b
 * while bits remain; n < 0 gives 1 / r, for integers 0. */
static uint64_t power(Type type, uint64_t x, Wide n) {
    uint64_t left = (uint64_t)(n < 0 ? -n : n), r = number_from_double(type, 1.0), b = x;
    const Type types[3] = {type, type};
    for (; left > 0; left >>= 1) {
        if (left & 1) r = number_apply(OP_MUL, type, types, 0, (uint64_t[3]){r, b});
        if (left > 1) b = number_apply(OP_MUL, type, types, 0, (uint64_t[3]){b, b});
    }
    if (n >= 0) return r;
    if (!is_float(type)) return 0;
    return number_apply(OP_DIV, type, types, 0, (uint64_t[3]){number_from_double(type, 1.0), r});
}

static Wide floor_divide(Wide a, Wide b) {
    if (b == 0) return 0;
    Wide quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static uint64_t apply_integer(Op op, Type type, Type count_type, const uint64_t x[3]) {
    Wide a = as_integer(type, x[0]), b = as_integer(type, x[1]);
    Wide count = as_integer(count_type, x[1]);
    int width = 8 * type_info[type].size;
    bool in_width = count >= 0 && count < width;
    WideBits bits_a = (WideBits)a, bits_b = (WideBits)b;
    switch (op) {
    case OP_NEG: return wrap(type, -bits_a);
    case OP_ABS: return wrap(type, a < 0 ? -bits_a : bits_a);
    case OP_SIGN: return wrap(type, (WideBits)((a > 0) - (a < 0)));
    case OP_ADD: return wrap(type, bits_a + bits_b);
    case OP_SUB: return wrap(type, bits_a - bits_b);
    case OP_MUL: return wrap(type, bits_a * bits_b);
    case OP_FLOORDIV: return wrap(type, (WideBits)floor_divide(a, b));
    case OP_MOD: return b == 0 ? 0 : wrap(type, (WideBits)(a - b * floor_divide(a, b)));
    case OP_MIN: return a < b ? x[0] : x[1];
    case OP_MAX: return a > b ? x[0] : x[1];
    case OP_POWI: return power(type, x[0], count);
    case OP_BIT_AND: return x[0] & x[1];
    case OP_BIT_OR: return x[0] | x[1];
    case OP_BIT_XOR: return x[0] ^ x[1];
    case OP_SHIFT_LEFT: return in_width ? wrap(type, bits_a << count) : 0;
    case OP_SHIFT_RIGHT: /* of a negative number: floor(a / 2^count) */
        return in_width ? wrap(type, (WideBits)floor_divide(a, (Wide)1 << count)) : 0;
    default: return 0;
    }
}

/* The operations that are exact or rounded once, on doubles: right for f64 as they stand; for f32
 * too where the result is exact. */
static double apply_exact(Op op, double a, double b) {
    switch (op) {
    case OP_NEG: return -a;
    case OP_ABS: return fabs(a);
    case OP_SIGN: return isnan(a) ? a : (double)((a > 0) - (a < 0));
    case OP_FLOOR: return floor(a);
    case OP_CEIL: return ceil(a);
    case OP_ROUND: return rint(a);
    case OP_TRUNC: return trunc(a);
    case OP_COPYSIGN: return isnan(b) ? fabs(a) : copysign(a, b);
    case OP_MIN:
        if (isnan(a) || isnan(b)) return NAN;
        return a < b || (a == b && signbit(a)) ? a : b;
    case OP_MAX:
        if (isnan(a) || isnan(b)) return NAN;
        return a > b || (a == b && !signbit(a)) ? a : b;
    default: return NAN;
    }
}

static double apply_f64(Op op, const uint64_t x[3]) {
    double a = as_f64(x[0]), b = as_f64(x[1]), c = as_f64(x[2]);
    switch (op) {
    case OP_ADD: return a + b;
    case OP_SUB: return a - b;
    case OP_MUL: return a * b;
    case OP_DIV: return a / b;
    case OP_SQRT: return sqrt(a);
    case OP_FMA: return fma(a, b, c);
    case OP_FLOORDIV: return floor(a / b);
    case OP_MOD: return a - floor(a / b) * b;
    case OP_EXP: return ls_exp_f64(a);
    case OP_LOG: return ls_log_f64(a);
    case OP_POW: return ls_pow_f64(a, b);
    default: return apply_exact(op, a, b);
    }
}

static float apply_f32(Op op, const uint64_t x[3]) {
    float a = as_f32(x[0]), b = as_f32(x[1]), c = as_f32(x[2]);
    switch (op) {
    case OP_ADD: return a + b;
    case OP_SUB: return a - b;
    case OP_MUL: return a * b;
    case OP_DIV: return a / b;
    case OP_SQRT: return sqrtf(a);
    case OP_FMA: return fmaf(a, b, c);
    case OP_FLOORDIV: return floorf(a / b);
    case OP_MOD: return a - floorf(a / b) * b;
    case OP_RSQRT: return ls_rsqrt_f32(a);
    case OP_CBRT: return ls_cbrt_f32(a);
    case OP_EXP: return ls_exp_f32(a);
    case OP_EXP2: return ls_exp2_f32(a);
    case OP_EXPM1: return ls_expm1_f32(a);
    case OP_LOG: return ls_log_f32(a);
    case OP_LOG2: return ls_log2_f32(a);
    case OP_LOG1P: return ls_log1p_f32(a);
    case OP_SIN: return ls_sin_f32(a);
    case OP_COS: return ls_cos_f32(a);
    case OP_ATAN: return ls_atan_f32(a);
    case OP_TANH: return ls_tanh_f32(a);
    case OP_ERF: return ls_erf_f32(a);
    case OP_SIGMOID: return ls_sigmoid_f32(a);
    case OP_SOFTPLUS: return ls_softplus_f32(a);
    case OP_EXP_LITE: return ls_exp_lite_f32(a);
    case OP_EXP2_LITE: return ls_exp2_lite_f32(a);
    case OP_LOG_LITE: return ls_log_lite_f32(a);
    case OP_ATAN_LITE: return ls_atan_lite_f32(a);
    case OP_TANH_LITE: return ls_tanh_lite_f32(a);
    case OP_ERF_LITE: return ls_erf_lite_f32(a);
    case OP_SIGMOID_LITE: return ls_sigmoid_lite_f32(a);
    case OP_POW: return ls_pow_f32(a, b);
    default: return (float)apply_exact(op, (double)a, (double)b);
    }
}

/* -1, 0, 1, or 2 where one is NaN. */
static int compare(Type type, uint64_t x, uint64_t y) {
    if (is_float(type)) {
        double a = number_to_double(type, x), b = number_to_double(type, y);
        return isnan(a) || isnan(b) ? 2 : (a > b) - (a < b);
    }
    Wide a = as_integer(type, x), b = as_integer(type, y);
    return (a > b) - (a < b);
}

static uint64_t cast(Type to, Type from, uint64_t x) {
    if (is_float(from)) return number_from_double(to, number_to_double(from, x));
    Wide integer = as_integer(from, x);
    if (to == TYPE_BOOL) return integer != 0;
    if (!is_float(to)) return saturate(to, integer);
    /* One rounding, straight from the integer. */
    if (to == TYPE_F64) return from_f64(from == TYPE_U64 ? (double)x : (double)(int64_t)integer);
    return from_f32(from == TYPE_U64 ? (float)x : (float)(int64_t)integer);
}

/* Towards zero, and what is lost leaves a one in the last place. */
static uint64_t to_odd(double x) {
    float near = (float)x, kept = fabs((double)near) > fabs(x) ? nextafterf(near, 0) : near;
    return from_f32(kept) | (isnan(x) || (double)kept == x ? 0 : 1);
}

/* An i32 saturated to a narrow integer, as an i32. */
static uint64_t round_integer(Type storage, uint64_t x) {
    int16_t array[1]; /* as a store and a load would do it */
    number_store(storage, array, 0, x);
    return number_load(storage, array, 0);
}

uint64_t number_apply(Op op, Type result, const Type operands[3], uint64_t payload,
                      const uint64_t x[3]) {
    Type type = operands[0];
    switch (op) {
    case OP_BROADCAST: return x[0];
    case OP_CAST: return cast(result, type, x[0]);
    case OP_ROUND_TO:
        if (!is_float(type)) return round_integer((Type)payload, x[0]);
        return from_f32((float)format_round((Type)payload, (double)as_f32(x[0])));
    case OP_TO_ODD: return to_odd(as_f64(x[0]));
    case OP_ROUND_STOCHASTIC:
        return from_f32(
            (float)format_round_stochastic((Type)payload, (double)as_f32(x[0]), (uint32_t)x[1]));
    case OP_RANDOM_KEY: return draw_key(x[0], x[1], x[2], payload);
    case OP_SHUFFLE: return (uint64_t)draw_place((int64_t)x[0], (int64_t)x[1], x[2]);
    case OP_RANDOM_BITS: return draw_bits(x[0], x[1]);
    case OP_RANDOM_UNIFORM: return from_f32((float)(draw_bits(x[0], x[1]) / 256) / 0x1p24f);
    case OP_RANDOM_NORMAL: return from_f32(draw_normal(x[0], x[1]));
    case OP_FIXED_SHIFT: return fixed_shift(number_to_double(type, x[0]), (int64_t)x[1]);
    case OP_TO_FIXED: return to_fixed(number_to_double(type, x[0]), (int64_t)x[1]);
    case OP_FROM_FIXED: return from_fixed(result, (int64_t)x[0], (int64_t)x[1]);
    case OP_FLOAT_BITS: return isnan(as_f32(x[0])) ? 0x7fffffff : x[0];
    case OP_FLOAT_FROM_BITS: return x[0];
    case OP_ISNAN: return isnan(number_to_double(type, x[0])) ? UINT64_C(1) : 0;
    case OP_ISINF: return isinf(number_to_double(type, x[0])) ? UINT64_C(1) : 0;
    case OP_ISFINITE: return isfinite(number_to_double(type, x[0])) ? UINT64_C(1) : 0;
    case OP_NOT: return !x[0];
    case OP_AND: return x[0] && x[1];
    case OP_OR: return x[0] || x[1];
    case OP_SELECT: return x[0] ? x[1] : x[2];
    case OP_CLAMP: {
        const uint64_t least = number_apply(OP_MAX, result, operands, 0, x);
        return number_apply(OP_MIN, result, operands, 0, (uint64_t[3]){least, x[2]});
    }
    case OP_EQ: return compare(type, x[0], x[1]) == 0;
    case OP_NE: return compare(type, x[0], x[1]) != 0;
    case OP_LT: return compare(type, x[0], x[1]) == -1;
    case OP_GT: return compare(type, x[0], x[1]) == 1;
    case OP_LE: return compare(type, x[0], x[1]) == -1 || compare(type, x[0], x[1]) == 0;
    case OP_GE: return compare(type, x[0], x[1]) == 1 || compare(type, x[0], x[1]) == 0;
    default: break;
    }
    if (is_float(type) && op == OP_POWI) return power(type, x[0], as_integer(operands[1], x[1]));
    if (type == TYPE_F64) return from_f64(apply_f64(op, x));
    if (type == TYPE_F32) return from_f32(apply_f32(op, x));
    return apply_integer(op, type, operands[1], x);
}
