/* ranges.c: the functions for operands of a known range against those for all, bit for bit: a
 * sample of the range, or with --all every f32 of it. */
#include "numerics.h"

#include "ranges.h"

/* For 0 and below, and NaN of both signs. */
static void check_nonpositive(uint32_t bits) {
    const f32 x = ls_from_bits_f32(bits);
    if (x > 0) return;
    const f32 exact = ls_exp_f32(x), lite = ls_exp_lite_f32(x);
    if (!same_f32(ls_exp_nonpositive_f32(x), exact)) check(false, "exp_nonpositive(%a)", (double)x);
    if (!same_f32(ls_exp_lite_nonpositive_f32(x), lite))
        check(false, "exp_lite_nonpositive(%a)", (double)x);
}

int main(int argc, char **argv) {
    const bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
    const uint32_t step = all ? 1 : 251;
    uint64_t bits = 0;
    for (; bits < UINT64_C(1) << 32; bits += step) check_nonpositive((uint32_t)bits);
    for (uint32_t near = 0; near < 1 << 16;
         near++) { /* where the result becomes subnormal, and 0 */
        check_nonpositive(ls_bits_f32(-87.0f) + near);
        check_nonpositive(ls_bits_f32(-103.9f) + near);
        check_nonpositive(ls_bits_f32(-104.5f) - (1 << 15) + near);
        check_nonpositive(ls_bits_f32(-176.0f) - (1 << 15) + near);
    }
    check(bits >= UINT64_C(1) << 32, "the whole range");
    return checks_report();
}
