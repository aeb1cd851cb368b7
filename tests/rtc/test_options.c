/* test_options.c: the options of the GPU toolchains do what they are there for, whatever a
 * toolchain does without them: the real ones compile a probe through contrary.c, which turns on all
 * that `math exact` forbids, and the code must not show it. Without any one of the options it does.
 */
#include "lint.h"
#include "rtc_test.h"

/* A sum of a product, a quotient, a square root: each is one instruction or another by one option.
 */
static const char probe[] = "extern \"C\" __global__ void probe(float *y, const float *x) {\n"
                            "    y[0] = x[0] * x[1] + x[2];\n"
                            "    y[1] = x[3] / x[4];\n"
                            "    y[2] = sqrtf(x[5]);\n}\n";
/* hipRTC's square root is not IEEE's under any option: the prelude has its own. */
static const char probe_amd[] = "extern \"C\" __global__ void probe(float *y, const float *x) {\n"
                                "    y[0] = x[0] * x[1] + x[2];\n"
                                "    y[1] = x[3] / x[4];\n}\n";

/* The toolchain is the contrary one from now on; the helper has not started yet. */
static bool contrary(uint32_t index, const char *path) {
    const RtcToolchain *toolchain = rtc_toolchains[index];
    char real[4096], reason[1024];
    if (!rtc_find_library(toolchain, real, sizeof real, reason, sizeof reason)) {
        print_message("skipped: %s\n", reason);
        return false;
    }
    setenv("CONTRARY_LIBRARY", real, 1);
    setenv(environment_name(toolchain->variable), path, 1);
    return true;
}

static int check_cuda(void *unused) {
    char reason[256];
    (void)unused;
    RtcOutput exact = compile_text("sm_90", RTC_ASSEMBLY, LS_MATH_EXACT, probe, LS_OK);
    static const char *const wanted[] = {"mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32"};
    for (size_t i = 0; i < COUNT(wanted); i++) assert_says(exact.data, wanted[i]);
    assert_null(strstr(exact.data, "fma."));
    if (!lint_assembly("sm_90", exact.data, reason, sizeof reason)) fail_msg("%s", reason);
    rtc_output_free(&exact);
    return 0;
}

static int check_amd(void *unused) {
    char reason[256];
    (void)unused;
    RtcOutput exact = compile_text("gfx90a", RTC_ASSEMBLY, LS_MATH_EXACT, probe_amd, LS_OK);
    assert_says(exact.data, "v_mul_f32");
    assert_says(exact.data, "v_add_f32");
    if (!lint_assembly("gfx90a", exact.data, reason, sizeof reason)) fail_msg("%s", reason);
    rtc_output_free(&exact);
    for (ls_math math = LS_MATH_EXACT; math <= LS_MATH_FAST; math++) {
        RtcOutput image = compile_text("gfx90a", RTC_IMAGE, math, probe_amd, LS_OK);
        if (!lint_image("gfx90a", image.data, image.size, reason, sizeof reason))
            fail_msg("%s", reason);
        rtc_output_free(&image);
    }
    return 0;
}

static void cuda_options_hold(void **state) {
    (void)state;
    if (!contrary(RTC_TOOLCHAIN_NVRTC, CONTRARY_NVRTC)) skip();
    check_cuda(NULL);
}

static void amd_options_hold(void **state) {
    (void)state;
    if (!contrary(RTC_TOOLCHAIN_HIPRTC, CONTRARY_HIPRTC)) skip();
    check_amd(NULL);
}

/* The probe is one: contrary.c's defaults show where nothing is said against them. */
static void probe_tells(void **state) {
    (void)state;
    static const char *const shown[] = {"fma.rn.ftz.f32", "sqrt.approx.ftz.f32"};
    if (!contrary(RTC_TOOLCHAIN_NVRTC, CONTRARY_NVRTC)) skip();
    RtcOutput fast = compile_text("sm_90", RTC_ASSEMBLY, LS_MATH_FAST, probe, LS_OK);
    for (size_t i = 0; i < COUNT(shown); i++) assert_says(fast.data, shown[i]);
    rtc_output_free(&fast);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuda_options_hold),
        cmocka_unit_test(probe_tells),
        cmocka_unit_test(amd_options_hold),
    };
    return cmocka_run_group_tests_name("toolchain options", tests, NULL, NULL);
}
