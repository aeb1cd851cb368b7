/* draws.c: random numbers from the paper's words, exact sums from their formula.
 *
 * Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011: Philox 4x32,
 * ten rounds of multiplying words 0 and 2 by constants, exchanging and mixing in the key. */
#include "interp.h"

#include <math.h>

#include "prelude.c"
#include "integer.h"
#include "convert.h"
#include "math.h"
#include "philox.h"

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    static const uint64_t multiplier[2] = {0xD2511F53, 0xCD9E8D57};
    static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};
    uint32_t x[4], k[2] = {key[0], key[1]};
    for (int i = 0; i < 4; i++) x[i] = counter[i];
    for (int round = 1; round <= 10; round++) {
        uint64_t product[2] = {multiplier[0] * x[0], multiplier[1] * x[2]};
        uint32_t high[2] = {(uint32_t)(product[0] / 0x100000000), (uint32_t)(product[1] >> 32)};
        uint32_t next[4] = {high[1] ^ x[1] ^ k[0], (uint32_t)product[1], high[0] ^ x[3] ^ k[1],
                            (uint32_t)product[0]};
        for (int i = 0; i < 4; i++) x[i] = next[i];
        for (int i = 0; i < 2; i++) k[i] += weyl[i];
    }
    for (int i = 0; i < 4; i++) out[i] = x[i];
}

uint64_t draw_key(uint64_t seed, uint64_t step, uint64_t tensor, uint64_t ordinal) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)step, (uint32_t)(step >> 32), (uint32_t)ordinal,
                                 (uint32_t)tensor};
    uint32_t out[4];
    philox(counter, key, out);
    return out[0] + ((uint64_t)out[1] << 32);
}

uint32_t draw_bits(uint64_t key, uint64_t index) {
    const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    const uint32_t counter[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), 0, 0};
    uint32_t out[4];
    philox(counter, words, out);
    return out[index % 4];
}

float draw_normal(uint64_t key, uint64_t index) {
    uint64_t even = index - index % 2;
    float u = (float)((draw_bits(key, even) >> 8) + 1) / 16777216.0f;
    float turns = (float)(draw_bits(key, even + 1) >> 8) / 8388608.0f;
    return sqrtf(-2.0f * ls_log_f32(u)) * ls_sine_of_turns(turns, index % 2 ? 0 : 1);
}

/* The place of a half within its own bits, from the other half: twice the high word of a product,
 * the first with the low word mixed in. */
static uint64_t feistel(uint64_t other, uint64_t key, uint64_t multiplier, uint64_t values) {
    uint64_t product = multiplier * ((other ^ key) % 0x100000000);
    product = multiplier * (product / 0x100000000 ^ product % 0x100000000);
    return product / 0x100000000 % values;
}

int64_t draw_place(int64_t i, int64_t n, uint64_t key) {
    if (i < 0 || i >= n) return -1;
    int bits = 0;
    while (bits < 63 && INT64_C(1) << bits < n) bits++;
    const uint64_t lows = UINT64_C(1) << (bits + 1) / 2, highs = UINT64_C(1) << bits / 2;
    uint64_t x = (uint64_t)i;
    do {
        uint64_t low = x % lows, high = x / lows;
        for (uint64_t pair = 0; pair < (bits <= 6 ? 16 : 8); pair++) {
            uint64_t k0 = (key % 0x100000000 + pair * 0x9E3779B9) % 0x100000000;
            uint64_t k1 = (key / 0x100000000 + pair * 0xBB67AE85) % 0x100000000;
            high ^= feistel(low, k0, 0xD2511F53, highs);
            low ^= feistel(high, k1, 0xCD9E8D57, lows);
        }
        x = high * lows + low;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

uint64_t fixed_shift(double most, int64_t count) {
    int exponent, log2_count = 0;
    if (!(most > 0) || isinf(most)) return 0;
    frexp(most, &exponent); /* most < 2^exponent */
    while (log2_count < 62 && ldexp(1, log2_count) < (double)count) log2_count++;
    return (uint64_t)(int64_t)(61 - log2_count - (exponent - 1));
}

/* Beyond it nothing is left, or everything too large. */
static int capped(int64_t shift) {
    return shift > 5000 ? 5000 : shift < -5000 ? -5000 : (int)shift;
}

/* A long double has room for all of it. */
uint64_t to_fixed(double d, int64_t shift) {
    long double q = rintl(ldexpl((long double)d, capped(shift)));
    if (!isfinite(d)) return (uint64_t)INT64_MIN; /* which no sum that has it comes back from */
    if (q >= 0x1p63L) return INT64_MAX;
    return q < -0x1p63L ? (uint64_t)INT64_MIN : (uint64_t)(int64_t)q;
}

uint64_t from_fixed(Type type, int64_t q, int64_t shift) {
    const bool lost = q > (int64_t)1 << 62 || q < -((int64_t)1 << 62);
    long double value = lost ? (long double)NAN : ldexpl((long double)q, -capped(shift));
    return type == TYPE_F64 ? number_from_double(type, (double)value)
                            : number_from_double(type, (double)(float)value);
}
