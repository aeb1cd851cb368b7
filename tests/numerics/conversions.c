/* conversions.c: storage types and casts.
 *
 * Narrow floats against a table made from their definition: every bit pattern unpacked; packed,
 * every value, every midpoint between neighbours and the f32 next to it on both sides, and f32 at a
 * stride (all 2^32 with --all); by way of to_odd, the same of f64. f16 also against the compiler's
 * _Float16 where it has one. Stochastic rounding against its definition. Casts between compute
 * types against 128-bit integers and long double.
 */
#include "numerics.h"

typedef struct Format {
    const char *name;
    int exponent_bits, mantissa_bits, bias;
    uint32_t largest;  /* pattern of the largest finite value */
    uint32_t overflow; /* pattern of what is too large: infinity or the largest */
    uint32_t infinity; /* its pattern, 0 where there is none */
    uint32_t not_a_number;
    uint32_t (*pack)(float x);
    float (*unpack)(uint32_t bits);
    float (*round)(float x);
    uint32_t (*pack_stochastic)(float x, uint32_t r);
    float (*round_stochastic)(float x, uint32_t r);
} Format;

#define FORMATS                                        \
    X(f16, 5, 10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7fff)  \
    X(bf16, 8, 7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7fff) \
    X(e4m3, 4, 3, 7, 0x7e, 0x7e, 0, 0x7f)              \
    X(e5m2, 5, 2, 15, 0x7b, 0x7b, 0x7c, 0x7f)
#define X(name, ...)                                              \
    static uint32_t pack_##name(float x) {                        \
        return ls_pack_##name(x);                                 \
    }                                                             \
    static float unpack_##name(uint32_t bits) {                   \
        return ls_unpack_##name((name)bits);                      \
    }                                                             \
    static float round_##name(float x) {                          \
        return ls_round_##name(x);                                \
    }                                                             \
    static uint32_t pack_stochastic_##name(float x, uint32_t r) { \
        return ls_pack_stochastic_##name(x, r);                   \
    }                                                             \
    static float round_stochastic_##name(float x, uint32_t r) {   \
        return ls_round_stochastic_##name(x, r);                  \
    }
FORMATS
#undef X
static const Format formats[] = {
#define X(name, ...)         \
    {#name,                  \
     __VA_ARGS__,            \
     pack_##name,            \
     unpack_##name,          \
     round_##name,           \
     pack_stochastic_##name, \
     round_stochastic_##name},
    FORMATS
#undef X
};

static uint32_t sign_of(const Format *f) {
    return 1u << (f->exponent_bits + f->mantissa_bits);
}

/* The value of a pattern by the definition of the format. */
static double decode(const Format *f, uint32_t bits) {
    uint32_t size = bits & (sign_of(f) - 1), mantissa = size & ((1u << f->mantissa_bits) - 1);
    int exponent = (int)(size >> f->mantissa_bits);
    double value = exponent ? ldexp((double)(mantissa + (1u << f->mantissa_bits)),
                                    exponent - f->bias - f->mantissa_bits)
                            : ldexp((double)mantissa, 1 - f->bias - f->mantissa_bits);
    if (size > f->largest) value = size == f->infinity ? (double)INFINITY : (double)NAN;
    return bits & sign_of(f) ? -value : value;
}

/* Nearest, ties to even, by search over the values from 0 up; beyond the largest by the format's
 * rule: infinity from half a unit above on, or always the largest. */
static uint32_t encode(const Format *f, double x) {
    static double values[4][0x8000];
    double *table = values[f - formats];
    if (table[1] == 0)
        for (uint32_t bits = 0; bits <= f->largest; bits++) table[bits] = decode(f, bits);
    double size = fabs(x), most = table[f->largest];
    uint32_t low = 0, high = f->largest, sign = signbit(x) ? sign_of(f) : 0;
    if (isnan(x)) return f->not_a_number;
    if (size >= most + (most - table[f->largest - 1]) / 2) return f->overflow | sign;
    if (size >= most) return f->largest | sign;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (table[middle] <= size)
            low = middle;
        else
            high = middle;
    }
    double below = size - table[low], above = table[high] - size;
    return (below < above || (below == above && !(low & 1)) ? low : high) | sign;
}

static void test_pack(const Format *f, float x) {
    uint32_t packed = f->pack(x), expected = encode(f, (double)x);
    check(packed == expected, "pack_%s(%a) = 0x%x, expected 0x%x", f->name, (double)x, packed,
          expected);
    check(same_f32(f->round(x), (float)decode(f, expected)), "round_%s(%a)", f->name, (double)x);
}

/* One rounding of an f64. */
static void test_pack_f64(const Format *f, double x) {
    uint32_t packed = f->pack(ls_to_odd_f64(x)), expected = encode(f, x);
    check(packed == expected, "pack_%s(to_odd(%a)) = 0x%x, expected 0x%x", f->name, x, packed,
          expected);
}

/* x and what is next to it as f64, as f32, and between. */
static void test_around(const Format *f, double x) {
    static const double steps[] = {0,       0x1p-52,  -0x1p-52, 0x1p-30, -0x1p-30,
                                   0x1p-25, -0x1p-25, 0x1p-24,  0x1p-23, -0x1.8p-23};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        test_pack_f64(f, x + x * steps[i]);
        test_pack_f64(f, -x - x * steps[i]);
    }
}

/* floor(|x| / u + r / 2^32) * u, u the distance of the format's values at |x|; what is beyond the
 * largest is what a store makes of it. */
static void test_stochastic(const Format *f, float x, uint32_t r) {
    uint32_t expected = f->not_a_number, packed = f->pack_stochastic(x, r);
    if (!isnan(x)) {
        int exponent = 0;
        frexp(fabs((double)x), &exponent);
        int least = 1 - f->bias, binade = x == 0 || exponent - 1 < least ? least : exponent - 1;
        long double unit = ldexpl(1, binade - f->mantissa_bits), size = fabsl((long double)x);
        double rounded =
            isinf(x) ? (double)INFINITY : (double)(floorl(size / unit + ldexpl(r, -32)) * unit);
        expected = encode(f, copysign(rounded, (double)x));
    }
    check(packed == expected, "pack_stochastic_%s(%a, 0x%x) = 0x%x, expected 0x%x", f->name,
          (double)x, r, packed, expected);
    check(same_f32(f->round_stochastic(x, r), (float)decode(f, expected)),
          "round_stochastic_%s(%a, 0x%x)", f->name, (double)x, r);
}

static void test_stochastic_around(const Format *f, float x, uint64_t *state) {
    static const uint32_t bits[] = {0, 1, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) test_stochastic(f, x, bits[i]);
    for (int i = 0; i < 3; i++) {
        uint32_t r = (uint32_t)random_bits(state);
        test_stochastic(f, x, r);
        test_stochastic(f, nextafterf(x, INFINITY), r);
        test_stochastic(f, nextafterf(x, -INFINITY), r);
    }
}

static void test_stochastic_format(const Format *f, uint64_t stride) {
    uint64_t state = 0x1234567890abcdefu;
    for (uint32_t bits = 0; bits<2 * sign_of(f); bits += f->mantissa_bits> 3 ? 7 : 1) {
        float value = (float)decode(f, bits);
        for (uint32_t r = 0; r < 4; r++)
            check(f->pack_stochastic(value, ~r) == encode(f, (double)value),
                  "pack_stochastic_%s(%a) is exact", f->name, (double)value);
        test_stochastic_around(f, value, &state);
        test_stochastic_around(f, value * 1.03125f, &state);
    }
    for (size_t i = 0; i < sizeof special_f32 / sizeof special_f32[0]; i++)
        test_stochastic_around(f, special_f32[i], &state);
    for (int power = -149; power < 128; power++)
        test_stochastic_around(f, ldexpf(1.375f, power), &state);
    for (uint64_t pattern = 0; pattern <= 0xffffffffu; pattern += stride)
        test_stochastic(f, ls_from_bits_f32((uint32_t)pattern), (uint32_t)random_bits(&state));
}

static void test_format(const Format *f, uint64_t stride) {
    for (uint32_t bits = 0; bits < 2 * sign_of(f); bits++) {
        float value = (float)decode(f, bits);
        check(same_f32(f->unpack(bits), value), "unpack_%s(0x%x) = %a, expected %a", f->name, bits,
              (double)f->unpack(bits), (double)value);
        test_pack(f, value);
        if ((bits & (sign_of(f) - 1)) >= f->largest) continue;
        float middle = (float)((decode(f, bits) + decode(f, bits + 1)) / 2);
        test_pack(f, middle);
        test_pack(f, nextafterf(middle, INFINITY));
        test_pack(f, nextafterf(middle, -INFINITY));
        test_around(f, (double)value);
        test_around(f, (double)middle);
    }
    double most = decode(f, f->largest), step = most - decode(f, f->largest - 1);
    test_pack(f, (float)(most + step / 2));
    test_pack(f, nextafterf((float)(most + step / 2), 0));
    test_around(f, most + step / 2);
    for (size_t i = 0; i < sizeof special_f32 / sizeof special_f32[0]; i++) {
        test_pack(f, special_f32[i]);
        test_around(f, (double)special_f32[i]);
    }
    for (int power = -1074; power < 1024; power++) test_around(f, ldexp(1, power));
    for (uint64_t pattern = 0; pattern <= 0xffffffffu; pattern += stride)
        test_pack(f, ls_from_bits_f32((uint32_t)pattern));
}

#ifdef __FLT16_MAX__
__extension__ typedef _Float16 half;
static void test_f16_of_compiler(uint64_t stride) {
    for (uint64_t pattern = 0; pattern <= 0xffffffffu; pattern += stride) {
        float x = ls_from_bits_f32((uint32_t)pattern);
        half rounded = (half)x;
        uint16_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        check(isnan(x) || ls_pack_f16(x) == bits, "pack_f16(%a) against _Float16", (double)x);
    }
}
#else
static void test_f16_of_compiler(uint64_t stride) {
    (void)stride;
}
#endif

/* ---- casts ---- */

__extension__ typedef __int128 wide;

/* By its definition, with neighbours of the nearest f32. */
static void test_to_odd(double x) {
    float near = (float)x, odd = ls_to_odd_f64(x);
    float other = nextafterf(near, (double)near < x ? INFINITY : -INFINITY);
    bool exact = isnan(x) || (double)near == x, near_is_odd = ls_bits_f32(near) & 1u;
    check(same_f32(odd, exact || near_is_odd ? near : other), "to_odd(%a) = %a", x, (double)odd);
}

/* Towards zero into [least, most]; NaN is 0. */
static wide saturate(long double x, wide least, wide most) {
    if (isnan(x)) return 0;
    if (x <= (long double)least) return least;
    if (x >= (long double)most) return most;
    return (wide)x;
}
static wide clip(wide x, wide least, wide most) {
    return x < least ? least : x > most ? most : x;
}

#define TO_INTEGERS(FROM, value, limit)                                                         \
    check(ls_i32_from_##FROM(value) == (i32)limit(value, INT32_MIN, INT32_MAX), "i32(%a)", at); \
    check(ls_u32_from_##FROM(value) == (u32)limit(value, 0, UINT32_MAX), "u32(%a)", at);        \
    check(ls_i64_from_##FROM(value) == (i64)limit(value, INT64_MIN, INT64_MAX), "i64(%a)", at); \
    check(ls_u64_from_##FROM(value) == (u64)limit(value, 0, UINT64_MAX), "u64(%a)", at);        \
    check(ls_bool_from_##FROM(value) == ((value) != 0), "bool(%a)", at)

static void test_casts_of_float(double at) {
    float x = (float)at;
    TO_INTEGERS(f64, at, saturate);
    check(same_f32(ls_f32_from_f64(at), x), "f32(%a)", at);
    check(same_f64(ls_f64_from_f64(at), at), "f64(%a)", at);
    test_to_odd(at);
    at = (double)x;
    TO_INTEGERS(f32, x, saturate);
    check(same_f64(ls_f64_from_f32(x), at), "f64(%a)", at);
    check(same_f32(ls_f32_from_f32(x), x), "f32(%a)", at);
}

/* long double holds every 64-bit integer, so this rounds once. */
#define TO_FLOATS(FROM, value)                                                              \
    check(same_f32(ls_f32_from_##FROM(value), (float)(long double)(value)), "f32(%a)", at); \
    check(same_f64(ls_f64_from_##FROM(value), (double)(long double)(value)), "f64(%a)", at)
#define CASTS_OF(FROM)                  \
    do {                                \
        FROM value = (FROM)bits;        \
        double at = (double)value;      \
        TO_INTEGERS(FROM, value, clip); \
        TO_FLOATS(FROM, value);         \
    } while (0)

static void test_casts_of_integer(uint64_t bits) {
    CASTS_OF(i32);
    CASTS_OF(u32);
    CASTS_OF(i64);
    CASTS_OF(u64);
}

static void test_casts(void) {
    uint64_t state = 0xfeedfacecafebeefu;
    for (size_t i = 0; i < sizeof special_f32 / sizeof special_f32[0]; i++)
        test_casts_of_float((double)special_f32[i]);
    for (int power = 0; power < 66; power++)
        for (int step = -3; step <= 3; step++) {
            double edge = ldexp(1, power);
            uint64_t bits = power < 64 ? (uint64_t)1 << power : 0;
            test_casts_of_float(edge + step * 0.5);
            test_casts_of_float(-edge + step * 0.5);
            test_casts_of_float(edge * (1 + step * 0x1p-52));
            test_casts_of_float(-edge * (1 + step * 0x1p-52));
            test_casts_of_float(edge * (1 + step * 0x1p-23));
            test_casts_of_float(-edge * (1 + step * 0x1p-24)); /* ties on the way to f32 */
            test_casts_of_integer(bits + (uint64_t)step);
            test_casts_of_integer(0 - bits + (uint64_t)step);
            if (power > 25) test_casts_of_integer(bits + (bits >> 24) + (uint64_t)step);
        }
    for (int i = 0; i < 300000; i++) {
        test_casts_of_float(ls_from_bits_f64(random_bits(&state)));
        test_casts_of_float((double)(int64_t)random_bits(&state) * 0x1p-20);
        test_casts_of_float((double)ls_from_bits_f32((uint32_t)random_bits(&state)));
        test_casts_of_integer(random_bits(&state) >> (random_bits(&state) & 63));
    }
    for (int flag = 0; flag < 2; flag++)
        check(ls_f64_from_bool(flag) == flag && ls_f32_from_bool(flag) == (float)flag &&
                  ls_i64_from_bool(flag) == flag && ls_i32_from_bool(flag) == flag &&
                  ls_u64_from_bool(flag) == (u64)flag && ls_u32_from_bool(flag) == (u32)flag &&
                  ls_bool_from_bool(flag) == flag && ls_pack_bool(flag) == flag,
              "casts of bool %d", flag);
}

/* ---- what is stored as it is, and narrow integers ---- */

static void test_plain(void) {
    const float nan_f32 = ls_from_bits_f32(0xffc00001u);
    const double nan_f64 = ls_from_bits_f64(0xfff0000000000001u);
    check(ls_bits_f32(ls_pack_f32(nan_f32)) == 0x7fffffffu, "pack_f32(NaN)");
    check(ls_bits_f32(ls_canonical_f32(-0.0f)) == 0x80000000u, "canonical_f32(-0)");
    check(ls_bits_f64(ls_pack_f64(nan_f64)) == 0x7fffffffffffffffu, "pack_f64(NaN)");
    check(ls_float_bits_f32(nan_f32) == 0x7fffffffu, "float_bits(NaN)");
    check(ls_float_bits_f32(-0.0f) == 0x80000000u, "float_bits(-0)");
    check(ls_bits_f32(ls_float_from_bits_u32(0x3f800000u)) == 0x3f800000u, "float_from_bits(1)");
    check(ls_unpack_f32(ls_pack_f32(0x1p-149f)) == 0x1p-149f, "f32 as stored");
    check(ls_unpack_i64(ls_pack_i64(INT64_MIN)) == INT64_MIN, "i64 as stored");
    check(ls_unpack_u64(ls_pack_u64(UINT64_MAX)) == UINT64_MAX, "u64 as stored");
    check(ls_unpack_i32(ls_pack_i32(INT32_MIN)) == INT32_MIN, "i32 as stored");
    check(ls_unpack_u32(ls_pack_u32(UINT32_MAX)) == UINT32_MAX, "u32 as stored");
    for (uint32_t byte = 0; byte < 256; byte++)
        check(ls_unpack_bool((u8)byte) == (byte != 0), "unpack_bool(%u)", byte);
}

#define NARROW(S, least, most)                                                  \
    check(ls_round_##S(x) == (i32)clip(x, least, most), "round_" #S "(%d)", x); \
    check(ls_unpack_##S(ls_pack_##S(x)) == (i32)clip(x, least, most), "pack_" #S "(%d)", x)
static void test_narrow_integers(void) {
    for (int64_t i = -70000; i <= 70000; i++) {
        i32 x = (i32)i;
        NARROW(i8, INT8_MIN, INT8_MAX);
        NARROW(u8, 0, UINT8_MAX);
        NARROW(i16, INT16_MIN, INT16_MAX);
        NARROW(u16, 0, UINT16_MAX);
        x = (i32)(i * 30677);
        NARROW(i8, INT8_MIN, INT8_MAX);
        NARROW(u8, 0, UINT8_MAX);
        NARROW(i16, INT16_MIN, INT16_MAX);
        NARROW(u16, 0, UINT16_MAX);
    }
}

int main(int count, char **words) {
    bool all = count > 1 && strcmp(words[1], "--all") == 0;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        test_format(&formats[i], all ? 1 : 4999);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        test_stochastic_format(&formats[i], all ? 1 : 4999);
    test_f16_of_compiler(all ? 1 : 997);
    test_casts();
    test_plain();
    test_narrow_integers();
    return checks_report();
}
