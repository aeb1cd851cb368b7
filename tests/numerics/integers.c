/* integers.c: the integer operations against 128-bit arithmetic, on the values at the ends of each
 * type, small ones and random ones, in all pairs. */
#include "numerics.h"

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static wide floor_division(wide a, wide b) {
    wide quotient;
    if (b == 0) return 0;
    quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t values[96];
enum { VALUES = sizeof values / sizeof values[0] };

static void make_values(void) {
    static const int64_t ends[] = {0,         INT32_MAX, INT32_MIN, UINT32_MAX,
                                   INT64_MAX, INT64_MIN, 1 << 16};
    uint64_t state = 0x1234567890abcdefu;
    int count = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        for (int64_t step = -3; step <= 3; step++)
            values[count++] = (int64_t)((uint64_t)ends[i] + (uint64_t)step);
    for (; count < VALUES; count++) {
        uint64_t bits = random_bits(&state);
        values[count] = (int64_t)(count & 1 ? bits : bits >> 32);
    }
}

#define COMPARE(T, call, expected) \
    check((call) == (T)(expected), #call " on %" PRId64 ", %" PRId64, (int64_t)a, (int64_t)b)

#define TEST(T, WIDTH)                                                                            \
    static void test_##T(T a, T b) {                                                              \
        const wide x = a, y = b;                                                                  \
        COMPARE(T, ls_add_##T(a, b), x + y);                                                      \
        COMPARE(T, ls_sub_##T(a, b), x - y);                                                      \
        COMPARE(T, ls_mul_##T(a, b), (unsigned_wide)x *(unsigned_wide)y);                         \
        COMPARE(T, ls_neg_##T(a), -x);                                                            \
        COMPARE(T, ls_abs_##T(a), x < 0 ? -x : x);                                                \
        COMPARE(T, ls_sign_##T(a), (x > 0) - (x < 0));                                            \
        COMPARE(T, ls_min_##T(a, b), x < y ? x : y);                                              \
        COMPARE(T, ls_max_##T(a, b), x > y ? x : y);                                              \
        COMPARE(T, ls_select_##T(a < b, a, b), x < y ? x : y);                                    \
        COMPARE(T, ls_floordiv_##T(a, b), floor_division(x, y));                                  \
        COMPARE(T, ls_mod_##T(a, b), y == 0 ? 0 : x - floor_division(x, y) * y);                  \
        COMPARE(T, ls_bit_and_##T(a, b), x &y);                                                   \
        COMPARE(T, ls_bit_or_##T(a, b), x | y);                                                   \
        COMPARE(T, ls_bit_xor_##T(a, b), x ^ y);                                                  \
        for (int64_t n = -2; n < WIDTH + 3; n++) {                                                \
            const bool none = n < 0 || n >= WIDTH;                                                \
            COMPARE(T, ls_shift_left_##T(a, n), none ? 0 : (unsigned_wide)x << n);                \
            COMPARE(T, ls_shift_right_##T(a, n), none ? 0 : x >> n);                              \
        }                                                                                         \
        COMPARE(T, ls_shift_left_##T(a, INT64_MIN), 0);                                           \
        COMPARE(T, ls_shift_right_##T(a, INT64_MAX), 0);                                          \
        T power = 1;                                                                              \
        for (int64_t n = 0; n < 40; n++) {                                                        \
            COMPARE(T, ls_powi_##T(a, n), power);                                                 \
            power = (T)((unsigned_wide)power * (unsigned_wide)a);                                 \
        }                                                                                         \
        COMPARE(T, ls_powi_##T(a, -1), 0);                                                        \
        COMPARE(T, ls_powi_##T(a, INT64_MIN), 0);                                                 \
        COMPARE(T, ls_powi_##T(a, INT64_MAX) == ls_mul_##T(a, ls_powi_##T(a, INT64_MAX - 1)), 1); \
    }
TEST(i32, 32)
TEST(u32, 32)
TEST(i64, 64)
TEST(u64, 64)

int main(void) {
    make_values();
    for (int i = 0; i < VALUES; i++)
        for (int j = 0; j < VALUES; j++) {
            test_i32((i32)values[i], (i32)values[j]);
            test_u32((u32)values[i], (u32)values[j]);
            test_i64((i64)values[i], (i64)values[j]);
            test_u64((u64)values[i], (u64)values[j]);
        }
    for (int condition = 0; condition < 2; condition++) {
        check(ls_not_bool(condition) == !condition, "not %d", condition);
        check(ls_select_bool(condition, 0, 1) == !condition, "select %d", condition);
    }
    return checks_report();
}
