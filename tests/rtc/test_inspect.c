/* test_inspect.c: registers, spills and access widths of kernels made to have known ones, for every
 * target; and images of rubbish, which must be refused, not believed. */
#include "rtc_test.h"

/* What clang does not have by itself. */
#define THREADS                                                    \
    "#if !defined __CUDACC_RTC__ && !defined __HIPCC_RTC__\n"      \
    "struct Thread { unsigned x; };\n"                             \
    "#define threadIdx Thread{__builtin_amdgcn_workitem_id_x()}\n" \
    "#define __syncthreads __builtin_amdgcn_s_barrier\n"           \
    "#endif\n"

static const char source[] = THREADS
    "extern \"C\" __global__ void w1(unsigned char *p, const unsigned char *q) {\n"
    "    p[threadIdx.x] = q[threadIdx.x] + 1; }\n"
    "extern \"C\" __global__ void w2(unsigned short *p, const unsigned short *q) {\n"
    "    p[threadIdx.x] = q[threadIdx.x] + 1; }\n"
    "extern \"C\" __global__ void w4(float *p, const float *q) { p[threadIdx.x] = q[threadIdx.x] + "
    "1; }\n"
    "extern \"C\" __global__ void w8(double *p, const double *q) { p[threadIdx.x] = q[threadIdx.x] "
    "+ 1; }\n"
    "struct alignas(16) Four { float a, b, c, d; };\n"
    "extern \"C\" __global__ void load16(float *p, const Four *q) {\n"
    "    Four x = q[threadIdx.x]; p[threadIdx.x] = x.a + x.b + x.c + x.d; }\n"
    "extern \"C\" __global__ void store16(Four *p, const float *q) {\n"
    "    float x = q[threadIdx.x]; Four y = {x, x, x, x}; p[threadIdx.x] = y; }\n"
    "extern \"C\" __global__ void shared16(float *p, const float *q) { /* wide only on the chip "
    "*/\n"
    "    __shared__ Four s[256]; float x = q[threadIdx.x]; Four y = {x, x, x, x}; s[threadIdx.x] = "
    "y;\n"
    "    __syncthreads(); y = s[threadIdx.x ^ 1]; p[threadIdx.x] = y.a + y.b + y.c + y.d; }\n"
    "extern \"C\" __global__ void __launch_bounds__(1024, 1) spills(float *p, const float *q, int "
    "n) {\n"
    "    float a[160];\n"
    "    for (int i = 0; i < 160; i++) a[i] = q[i * 1024 + threadIdx.x];\n"
    "    for (int j = 0; j < n; j++) {\n"
    "        for (int i = 0; i < 160; i++) a[i] = a[i] * a[(i + 7) % 160] + a[(i + 13) % 160];\n"
    "        __syncthreads(); }\n"
    "    for (int i = 0; i < 160; i++) p[i * 1024 + threadIdx.x] = a[i]; }\n";

static const struct {
    const char *kernel;
    int widest;
} rows[] = {{"w1", 1},      {"w2", 2},       {"w4", 4},      {"w8", 8},
            {"load16", 16}, {"store16", 16}, {"shared16", 4}};

static bool is_cubin(const char *target) {
    return strncmp(target, LS_TARGET_CUBIN, strlen(LS_TARGET_CUBIN)) == 0;
}

/* `limit`: the most registers a thread can have there. */
static void inspect_target(const char *target, int limit) {
    RtcKernelStats stats;
    RtcOutput output = compile_text(target, RTC_IMAGE, LS_MATH_EXACT, source, LS_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(rtc_inspect(target, output.data, output.size, rows[i].kernel, &stats));
        assert_int_equal(stats.widest_access, rows[i].widest);
        assert_in_range(stats.registers, 1, limit);
        assert_int_equal(stats.spill_bytes, 0);
        assert_false(rtc_spills(&stats));
        for (int width = 0, sum = 0; width < RTC_WIDTHS; width++) {
            sum += stats.accesses[width];
            assert_true(stats.accesses[width] >= (1 << width == rows[i].widest));
            assert_true(sum >= (1 << width >= rows[i].widest) &&
                        (stats.accesses[width] == 0 || 1 << width <= rows[i].widest));
        }
    }
    assert_true(rtc_inspect(target, output.data, output.size, "spills", &stats));
    assert_in_range(stats.registers, 1, limit);
    assert_in_range(stats.spill_bytes, 16, 4096);
    if (is_cubin(target)) {
        assert_true(rtc_spills(&stats) && cubin_spills(output.data, output.size));
        assert_in_range(stats.local_accesses, stats.instructions / 16, stats.instructions);
    }
    const char *const absent[] = {"w", "w11", "spill", "", "4"};
    for (size_t i = 0; i < COUNT(absent); i++) {
        assert_false(rtc_inspect(target, output.data, output.size, absent[i], &stats));
        assert_true(stats.registers == -1 && stats.spill_bytes == -1 && stats.widest_access == -1);
    }
    rtc_output_free(&output);
}

static void every_cuda_target(void **state) {
    (void)state;
    if (!toolchain_here("nvrtc")) skip();
    for (size_t i = 0; tried_with("nvrtc", i); i++)
        inspect_target(tried_with("nvrtc", i)->name, 255);
}

static void every_hip_target(void **state) {
    (void)state;
    if (!toolchain_here("hiprtc")) skip();
    for (size_t i = 0; tried_with("hiprtc", i); i++)
        inspect_target(tried_with("hiprtc", i)->name, 512);
}

static void every_clang_target(void **state) {
    (void)state;
    if (!toolchain_here("clang")) skip();
    for (size_t i = 0; tried_with("clang", i); i++)
        inspect_target(tried_with("clang", i)->name, 512);
}

/* More than the program's own memory has behind it: what is read is the image. */
static void large_image(void **state) {
    static const char large[] =
        THREADS "extern \"C\" __device__ unsigned filler[1 << 24] = {1};\n"
                "extern \"C\" __global__ void k(float *p) { p[threadIdx.x] = 1; }\n";
    RtcKernelStats stats;
    (void)state;
    if (!toolchain_here("clang")) skip();
    const char *target = tried_with("clang", 0)->name;
    RtcOutput output = compile_text(target, RTC_IMAGE, LS_MATH_EXACT, large, LS_OK);
    assert_true(output.size > 1 << 26);
    assert_true(rtc_inspect(target, output.data, output.size, "k", &stats));
    assert_int_equal(stats.widest_access, 4);
    rtc_output_free(&output);
}

/* Registers by their granule, whole blocks, shared memory, the number of blocks: each binds once.
 */
static void occupancy(void **state) {
    (void)state;
    static const struct {
        const char *target;
        uint32_t registers, shared, threads, warps, max;
    } cases[] = {
        {"sm_90", 64, 0, 256, 32, 64},          {"sm_90", 65, 0, 256, 24, 64},
        {"sm_90a", 32, 0, 32, 32, 64},          {"sm_90", 32, 100 << 10, 512, 32, 64},
        {"sm_86", 40, 0, 256, 48, 48},          {"sm_86", 255, 0, 1024, 0, 48},
        {"gfx942", 144, 0, 512, 8, 32},         {"gfx942", 64, 40 << 10, 256, 4, 32},
        {"gfx90a:xnack-", 128, 0, 256, 16, 32}, {"gfx1151", 97, 0, 256, 24, 32},
        {"gfx1151", 96, 0, 256, 32, 32},        {"gfx1030", 129, 0, 64, 14, 32},
    };
    TargetOccupancy found;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(target_occupancy(cases[i].target, cases[i].registers, cases[i].shared,
                                     cases[i].threads, &found));
        assert_int_equal(found.warps, cases[i].warps);
        assert_int_equal(found.max, cases[i].max);
    }
    const ls_target *chip;
    for (size_t i = 0; (chip = ls_target_at(i)) != NULL; i++) /* each GPU has a row */
        assert_int_equal(target_occupancy(chip->name, 32, 0, 256, &found), i > 0);
    assert_false(target_occupancy("sm_901", 32, 0, 256, &found));
    assert_false(target_occupancy("gfx90ab", 32, 0, 256, &found));
}

static void ptx(void **state) {
    RtcKernelStats stats;
    (void)state;
    if (!toolchain_here("nvrtc")) skip();
    RtcOutput output = compile_text("compute_80", RTC_IMAGE, LS_MATH_EXACT, source, LS_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(rtc_inspect("compute_80", output.data, output.size, rows[i].kernel, &stats));
        assert_int_equal(stats.widest_access, rows[i].widest);
        assert_int_equal(stats.registers, -1); /* they are not given out yet */
    }
    assert_false(rtc_inspect("compute_80", output.data, output.size, "w", &stats));
    rtc_output_free(&output);
}

/* Cuts and flips; the answer is free, a crash is not (the tests run under sanitizers too). The
 * image stands alone at the end of its memory, so that reading past it is noticed. */
static void rubbish(const char *target, size_t flips) {
    RtcKernelStats stats;
    uint32_t random = 12345;
    RtcOutput output =
        compile_text(target, RTC_IMAGE, LS_MATH_EXACT,
                     "extern \"C\" __global__ void k(float *p) { p[threadIdx.x] = 1; }\n", LS_OK);
    assert_false(rtc_inspect(target, NULL, 0, "k", &stats));
    for (size_t size = 0; size < output.size; size += 1 + size / 200) {
        uint8_t *image = malloc(size ? size : 1);
        assert_non_null(image);
        memcpy(image, output.data, size);
        rtc_inspect(target, image, size, "k", &stats);
        free(image);
    }
    for (size_t i = 0; i < flips; i++) {
        uint8_t *image = malloc(output.size);
        assert_non_null(image);
        memcpy(image, output.data, output.size);
        for (int j = 0; j < 4; j++) {
            random = random * 1664525u + 1013904223u;
            image[(random >> 8) % output.size] ^= (uint8_t)(1u << (random >> 29));
        }
        rtc_inspect(target, image, output.size, "k", &stats);
        free(image);
    }
    rtc_output_free(&output);
}

static void rubbish_is_not_believed(void **state) {
    RtcKernelStats stats;
    (void)state;
    assert_false(rtc_inspect("cpu", "abc", 3, "k", &stats));
    if (toolchain_here("nvrtc")) rubbish("sm_90", 20000);
    if (toolchain_here("nvrtc")) rubbish("compute_90", 2000);
    if (toolchain_here("hiprtc")) rubbish("gfx90a", 30); /* each asks the disassembler */
}

/* A kernel of two texts, of which the sizes take one, spills as often as each of them does. */
static void share_of_local_accesses(void **state) {
    (void)state;
    const RtcKernelStats one = {.instructions = 2000, .local_accesses = 125},
                         two = {.instructions = 4000, .local_accesses = 250},
                         more = {.instructions = 2000, .local_accesses = 126};
    assert_false(rtc_spills(&one) || rtc_spills(&two));
    assert_true(rtc_spills(&more));
    assert_false(cubin_spills("\177ELF", 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cuda_target),
        cmocka_unit_test(every_hip_target),
        cmocka_unit_test(every_clang_target),
        cmocka_unit_test(large_image),
        cmocka_unit_test(share_of_local_accesses),
        cmocka_unit_test(occupancy),
        cmocka_unit_test(ptx),
        cmocka_unit_test(rubbish_is_not_believed),
    };
    return cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}
