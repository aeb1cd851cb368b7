/* draws.c: random numbers and exact sums.
 *
 * Philox against the known answers of Random123; the mapping of keys and elements; uniforms and
 * normals against their formulas in long double, the sine and cosine at a stride of all 2^24 angles
 * (each with --all); moments; permutations: each once, all orders alike. Fixed point against
 * 128-bit integers. */
#include "numerics.h"

__extension__ typedef __int128 wide;

/* ---- Philox ---- */

static void test_known_answers(void) {
    static const uint32_t rows[][10] = {
        /* counter, key, answer */
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint32_t *r = rows[i];
        ls_words w = ls_philox((u64)r[5] << 32 | r[4], r[0], r[1], r[2], r[3]);
        check(memcmp(w.word, r + 6, sizeof w.word) == 0, "known answer %zu", i);
    }
}

static void test_mapping(void) {
    const i64 seed = -0x123456789abcdef, step = 0x1122334455667788;
    ls_words w = ls_philox((u64)seed, 0x55667788u, 0x11223344u, 7u, 3u);
    u64 key = (u64)w.word[1] << 32 | w.word[0];
    check(ls_random_key_u64(seed, step, 7u, 3) == key, "the words of a key");
    for (i64 i = 0; i < 40; i++) {
        i64 at = i < 20 ? i : ((i64)1 << 40) + i;
        w = ls_philox(key, (u32)(at >> 2), (u32)(at >> 34), 0u, 0u);
        check(ls_random_bits_u64(key, at) == w.word[at & 3], "bits of element %" PRId64, at);
        float uniform = (float)(w.word[at & 3] / 256) / 16777216.0f;
        check(ls_random_uniform_u64(key, at) == uniform, "uniform of element %" PRId64, at);
    }
}

/* ---- permutations ---- */

static int by_value(const void *a, const void *b) {
    const i64 x = *(const i64 *)a, y = *(const i64 *)b;
    return (x > y) - (x < y);
}

/* Every number below n once; of a larger n, samples of places that differ are in range and differ.
 */
static void test_permutation(i64 n, u64 key) {
    enum { MOST = 70000 };
    static i64 seen[MOST];
    const i64 count = n < MOST ? n : MOST, stride = n / count;
    bool in_range = true, differ = true;
    for (i64 k = 0; k < count; k++) {
        seen[k] = ls_shuffle_i64(k * stride, n, key);
        in_range = in_range && seen[k] >= 0 && seen[k] < n;
    }
    qsort(seen, (size_t)count, sizeof *seen, by_value);
    for (i64 k = 1; k < count; k++) differ = differ && seen[k - 1] != seen[k];
    check(in_range && differ, "%" PRId64 " places are permuted", n);
    check(ls_shuffle_i64(-1, n, key) == -1 && ls_shuffle_i64(n, n, key) == -1 &&
              ls_shuffle_i64(INT64_MIN, n, key) == -1,
          "what is no place of %" PRId64, n);
}

static void test_permutations(void) {
    static const i64 counts[] = {1,
                                 2,
                                 3,
                                 4,
                                 5,
                                 63,
                                 64,
                                 65,
                                 1000,
                                 65535,
                                 65536,
                                 65537,
                                 69999,
                                 INT32_MAX,
                                 4294967295,
                                 4294967296,
                                 4294967297,
                                 1000000000000,
                                 INT64_MAX / 2 + 2,
                                 INT64_MAX};
    u64 key = 88172645463325252u;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        test_permutation(counts[i], random_bits(&key));
    check(ls_shuffle_i64(0, 0, 1) == -1, "no place of nothing");
}

/* All orders of five are equally likely, and so is what follows what among fifty-two: chi-square
 * within six deviations of its mean. */
static void test_orders(void) {
    enum { ORDERS = 120, TRIALS = 240000, CARDS = 52 };
    static u32 orders[ORDERS], gaps[CARDS];
    u64 state = 362436069362436069u;
    for (int t = 0; t < TRIALS; t++) {
        const u64 key = random_bits(&state);
        u32 code = 0;
        i64 order[5];
        for (int i = 0; i < 5; i++) order[i] = ls_shuffle_i64(i, 5, key);
        for (u32 i = 0; i < 5; i++) {
            u32 less = 0;
            for (u32 j = i + 1; j < 5; j++) less += order[j] < order[i];
            code = code * (5 - i) + less;
        }
        orders[code]++;
        const i64 gap = ls_shuffle_i64(t % 51 + 1, CARDS, key) - ls_shuffle_i64(t % 51, CARDS, key);
        gaps[gap < 0 ? gap + CARDS : gap]++;
    }
    double of_orders = 0, of_gaps = 0, mean = TRIALS / (double)ORDERS;
    for (int i = 0; i < ORDERS; i++) of_orders += (orders[i] - mean) * (orders[i] - mean) / mean;
    mean = TRIALS / (CARDS - 1.0);
    for (int i = 1; i < CARDS; i++) of_gaps += (gaps[i] - mean) * (gaps[i] - mean) / mean;
    check(fabs(of_orders - 119) < 6 * sqrt(2 * 119.0), "orders of five: %g", of_orders);
    check(fabs(of_gaps - 50) < 6 * sqrt(2 * 50.0), "gaps among fifty-two: %g", of_gaps);
}

/* ---- normals ---- */

static double worst;
static void test_angle(uint32_t angle) {
    const long double pi = 3.14159265358979323846264338327950288L, x = ldexpl(angle, -23);
    for (uint32_t turns = 0; turns < 2; turns++) {
        long double folded = x + turns / 2.0L, sign = 1; /* exact: to [0, 1/2] */
        while (folded >= 2) folded -= 2;
        if (folded >= 1) folded -= 1, sign = -1;
        if (folded > 0.5L) folded = 1 - folded;
        long double exact =
            sign * (folded > 0.25L ? cosl(pi * (0.5L - folded)) : sinl(pi * folded));
        float y = ls_sine_of_turns((float)x, turns);
        if (exact == 0) {
            check(y == 0, "sine of %u turns at %a", turns, (double)x);
            continue;
        }
        int exponent;
        frexpl(fabsl(exact), &exponent);
        double error = (double)(fabsl((long double)y - exact) / ldexpl(1, exponent - 24));
        worst = error > worst ? error : worst;
    }
}

static void test_normals(void) {
    enum { COUNT = 1 << 20 };
    const long double pi = 3.14159265358979323846264338327950288L;
    double sum = 0, squares = 0, cubes = 0, fourths = 0;
    const u64 key = ls_random_key_u64(42, 0, 0, 0);
    for (i64 i = 0; i < COUNT; i++) {
        double z = (double)ls_random_normal_u64(key, i);
        sum += z, squares += z * z, cubes += z * z * z, fourths += z * z * z * z;
        if (i % 16 > 3) continue;
        ls_words w = ls_random_words(key, i);
        long double u1 = ldexpl((w.word[i & 2] >> 8) + 1, -24);
        long double u2 = ldexpl(w.word[(i & 2) + 1] >> 8, -24), radius = sqrtl(-2 * logl(u1));
        long double exact = radius * (i & 1 ? sinl(2 * pi * u2) : cosl(2 * pi * u2));
        check(fabsl((long double)z - exact) <= 4e-7L * fabsl(exact) + 1e-9L, "normal of %" PRId64,
              i);
    }
    check(fabs(sum / COUNT) < 4e-3, "mean of normals %g", sum / COUNT);
    check(fabs(squares / COUNT - 1) < 6e-3, "variance %g", squares / COUNT);
    check(fabs(cubes / COUNT) < 2e-2, "third moment %g", cubes / COUNT);
    check(fabs(fourths / COUNT - 3) < 5e-2, "fourth moment %g", fourths / COUNT);
}

/* ---- fixed point ---- */

static void test_shift(double most, int64_t count) {
    int exponent, bits = 0;
    frexp(most, &exponent);
    while (bits < 62 && ((wide)1 << bits) < count) bits++;
    int64_t expected = most > 0 && isfinite(most) ? 61 - bits - (exponent - 1) : 0;
    check(ls_fixed_shift_f64(most, count) == expected, "shift of %a, %" PRId64, most, count);
    if (isnan(most) || (double)(float)most == most)
        check(ls_fixed_shift_f32((float)most, count) == expected, "f32 shift of %a", most);
    int64_t q = ls_to_fixed_f64(most, expected);
    if (expected) check((wide)q * count <= (wide)1 << 62, "%" PRId64 " of %a fit", count, most);
}

/* rint(d * 2^shift), in a long double, whose range holds all of it; 64 bits of it are exact. */
static void test_to_fixed(double d, int64_t shift) {
    long double exact = ldexpl((long double)d, (int)shift);
    if (isfinite(d) && fabsl(exact) > 0x1p62L) return;
    int64_t expected = isfinite(d) ? (int64_t)rintl(exact) : LS_FIXED_LOST;
    check(ls_to_fixed_f64(d, shift) == expected, "fixed %a by %" PRId64, d, shift);
    if ((double)(float)d == d || !isfinite(d))
        check(ls_to_fixed_f32((float)d, shift) == expected, "fixed f32 %a by %" PRId64, d, shift);
}

/* A long double holds q, so this rounds once. */
static void test_from_fixed(int64_t q, int64_t shift) {
    const bool lost = q > (int64_t)1 << 62 || q < -((int64_t)1 << 62);
    long double exact = lost ? (long double)NAN : ldexpl((long double)q, (int)-shift);
    check(same_f32(ls_from_fixed_f32(q, shift), (float)exact), "f32 of %" PRId64 " by %" PRId64, q,
          shift);
    if (shift <= 1074 || (q >> 52 == 0 || q >> 52 == -1))
        check(same_f64(ls_from_fixed_f64(q, shift), (double)exact),
              "f64 of %" PRId64 " by %" PRId64, q, shift);
}

static void test_fixed(void) {
    static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 1000, 1024, 1025, (int64_t)1 << 40};
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (int power = -1074; power < 1024; power++) {
            test_shift(ldexp(1, power), counts[c]);
            test_shift(ldexp(1.9999, power), counts[c]);
        }
        test_shift(0, counts[c]);
        test_shift((double)INFINITY, counts[c]);
        test_shift((double)NAN, counts[c]);
    }
    for (int i = 0; i < 400000; i++) {
        double d = i % 2 ? ls_from_bits_f64(random_bits(&state))
                         : (double)ls_from_bits_f32((uint32_t)random_bits(&state));
        int exponent = 0;
        if (isfinite(d)) frexp(d, &exponent);
        test_to_fixed(d, 61 - exponent - (int64_t)(random_bits(&state) % 70));
        int64_t q = (int64_t)random_bits(&state) >> random_bits(&state) % 64;
        test_from_fixed(q, (int64_t)(random_bits(&state) % 280) - 70);
        test_from_fixed(q & -(int64_t)(1 << 20), (int64_t)(random_bits(&state) % 2000) - 900);
    }
    test_to_fixed((double)NAN, 3);
    test_to_fixed(-(double)INFINITY, 3);
    check(ls_from_fixed_f32(0x2000002000000001, 0) == 0x1.000002p61f,
          "a tie that the last bit decides");
    const int64_t most = (int64_t)1 << 62, ends[] = {0, most - 1, 1 - most};
    check(ls_from_fixed_f64(most, 62) == 1 && ls_from_fixed_f64(-most, 62) == -1,
          "the largest sums");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        check(isnan(ls_from_fixed_f32((int64_t)((uint64_t)LS_FIXED_LOST + (uint64_t)ends[i]), 7)),
              "lost, and then %" PRId64 " added", ends[i]);
}

int main(int count, char **words) {
    bool all = count > 1 && strcmp(words[1], "--all") == 0;
    test_known_answers();
    test_mapping();
    test_permutations();
    test_orders();
    for (uint32_t angle = 0; angle <= 1u << 24; angle += all ? 1 : 61) test_angle(angle);
    check(worst <= 1.0, "sine of turns: %g ulp", worst);
    printf("sine of turns: %.3f ulp\n", worst);
    test_normals();
    test_fixed();
    return checks_report();
}
