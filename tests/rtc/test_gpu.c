/* test_gpu.c: the real NVRTC and hipRTC, no GPU needed: every promised target, the numeric options,
 * errors in words, and a crash of the real hipRTC survived. */
#include "rtc_test.h"

/* Runs under both: what Lockstep emits is a C subset with one C++ word. */
static const char saxpy[] =
    "extern \"C\" __global__ void saxpy(float *y, const float *x, float a, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = a * x[i] + y[i] / a;\n}\n";

static void every_target(const char *toolchain) {
    if (!toolchain_here(toolchain)) skip();
    for (size_t i = 0; tried_with(toolchain, i); i++) {
        const char *target = tried_with(toolchain, i)->name;
        for (ls_math math = LS_MATH_EXACT; math <= LS_MATH_FAST; math++) {
            RtcOutput output = compile_text(target, RTC_IMAGE, math, saxpy, LS_OK);
            assert_true(output.size > 500);
            assert_memory_equal(output.data, "\177ELF", 4);
            assert_true(output.milliseconds > 0);
            rtc_output_free(&output);
        }
    }
}

static void every_cuda_target(void **state) {
    (void)state;
    every_target("nvrtc");
}

static void every_hip_target(void **state) {
    (void)state;
    every_target("hiprtc");
}

static void every_ptx_target(void **state) {
    (void)state;
    if (!toolchain_here("nvrtc")) skip();
    for (size_t i = 0; tried_with("nvrtc", i); i++) {
        const ls_target *chip = tried_with("nvrtc", i);
        char line[64];
        snprintf(line, sizeof line, ".target %s\n", chip->name);
        RtcOutput output = compile_text(chip->portable, RTC_IMAGE, LS_MATH_EXACT, saxpy, LS_OK);
        assert_says(output.data, line);
        assert_says(output.data, ".visible .entry saxpy(");
        assert_int_equal(output.size, strlen(output.data) + 1); /* a driver wants the zero */
        rtc_output_free(&output);
    }
}

static void ptx_keeps_the_numbers(void **state) {
    (void)state;
    if (!toolchain_here("nvrtc")) skip();
    RtcOutput output = compile_text("sm_90", RTC_ASSEMBLY, LS_MATH_EXACT, saxpy, LS_OK);
    assert_int_equal(output.size, strlen(output.data));
    assert_says(output.data, "mul.rn.f32");
    assert_says(output.data, "add.rn.f32");
    assert_says(output.data, "div.rn.f32");
    assert_null(strstr(output.data, "fma."));
    assert_null(strstr(output.data, ".ftz"));
    rtc_output_free(&output);
    output = compile_text("sm_90", RTC_ASSEMBLY, LS_MATH_FAST, saxpy, LS_OK);
    assert_says(output.data, "fma.rn.ftz.f32");
    assert_says(output.data, "div.approx.ftz.f32");
    rtc_output_free(&output);
}

static void code_object_keeps_the_numbers(void **state) {
    (void)state;
    if (!toolchain_here("hiprtc")) skip();
    static const char muladd[] =
        "extern \"C\" __global__ void muladd(float *y, const float *x) {\n"
        "    y[threadIdx.x] = x[threadIdx.x] * 3.5f + y[threadIdx.x];\n}\n";
    RtcOutput output = compile_text("gfx90a", RTC_ASSEMBLY, LS_MATH_EXACT, muladd, LS_OK);
    assert_int_equal(output.size, strlen(output.data));
    assert_says(output.data, "muladd:");
    assert_says(output.data, "v_mul_f32");
    assert_says(output.data, "v_add_f32");
    assert_null(strstr(output.data, "v_fma"));
    rtc_output_free(&output);
    output = compile_text("gfx90a", RTC_ASSEMBLY, LS_MATH_FAST, muladd, LS_OK);
    assert_null(strstr(output.data, "v_mul_f32"));
    rtc_output_free(&output);
}

static void errors_are_in_words(const char *toolchain, const char *target, const char *unknown) {
    if (!toolchain_here(toolchain)) skip();
    RtcOutput output = compile_text(
        target, RTC_IMAGE, LS_MATH_EXACT,
        "\n\nextern \"C\" __global__ void f(float *p) { *p = nothing; }\n", LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "test.step");
    assert_says(output.log, "nothing");
    assert_true(strstr(output.log, "test.step(3)") || strstr(output.log, "test.step:3:"));
    rtc_output_free(&output);
    output = compile_text(unknown, RTC_IMAGE, LS_MATH_EXACT, saxpy, LS_ERROR_TOOLCHAIN);
    assert_says(output.log, unknown);
    rtc_output_free(&output);
    output = compile_text(target, RTC_IMAGE, LS_MATH_EXACT, saxpy, LS_OK); /* and life goes on */
    rtc_output_free(&output);
}

static void cuda_errors_are_in_words(void **state) {
    (void)state;
    errors_are_in_words("nvrtc", "sm_90", "sm_42");
}

static void hip_errors_are_in_words(void **state) {
    (void)state;
    errors_are_in_words("hiprtc", "gfx906", "gfx123");
}

/* hipRTC 5.2 aborts on devices it does not know, so it is asked beforehand. */
static void unknown_device_does_not_take_us_down(void **state) {
    (void)state;
    char text[1024];
    if (!rtc_hiprtc_describe(text, sizeof text)) skip();
    const RtcJob job = {RTC_COMPILE, RTC_IMAGE, LS_MATH_EXACT, "test.step",
                        "gfx123",    saxpy,     strlen(saxpy)};
    for (int i = 0; i < 2; i++) {
        RtcOutput output = {0};
        assert_int_equal(rtc_hiprtc_compile(&job, &output), LS_ERROR_UNSUPPORTED);
        assert_says(output.log, "knows no gfx123");
        rtc_output_free(&output);
        output = compile_text("gfx90a", RTC_IMAGE, LS_MATH_EXACT, saxpy, LS_OK);
        rtc_output_free(&output);
    }
}

/* ---- clang, for AMD devices that hipRTC does not know ---- */

/* With what clang has, as generated text is. */
static const char scale[] =
    "extern \"C\" __global__ __launch_bounds__(256) void scale(float *y, const float *x) {\n"
    "    y[__builtin_amdgcn_workitem_id_x()] = x[__builtin_amdgcn_workitem_id_x()] * 3.5f\n"
    "        + y[__builtin_amdgcn_workitem_id_x()];\n}\n";

static bool clang_here(void) {
    char text[1024];
    const bool here = rtc_clang.version(text, sizeof text);
    if (!here) print_message("skipped: %s\n", text);
    return here;
}

static void clang_compiles_what_hiprtc_does_not_know(void **state) {
    (void)state;
    if (!clang_here()) skip();
    for (size_t i = 0; tried_with("clang", i); i++) {
        const char *target = tried_with("clang", i)->name;
        RtcKernelStats stats;
        RtcOutput output = compile_text(target, RTC_IMAGE, LS_MATH_EXACT, scale, LS_OK);
        assert_memory_equal(output.data, "\177ELF", 4);
        assert_true(rtc_inspect(target, output.data, output.size, "scale", &stats));
        assert_in_range(stats.registers, 2, 16);
        assert_int_equal(stats.spill_bytes, 0);
        if (stats.widest_access >= 0) assert_int_equal(stats.accesses[2], 3);
        rtc_output_free(&output);
        output = compile_text(target, RTC_ASSEMBLY, LS_MATH_EXACT, scale, LS_OK);
        assert_says(output.data, "scale:");
        assert_says(output.data, "v_mul_f32");
        assert_says(output.data, "v_add_f32");
        assert_null(strstr(output.data, "v_fma"));
        assert_says(output.data, ".amdhsa_float_denorm_mode_32 3");
        assert_says(output.data, ".amdhsa_code_object_version 5");
        rtc_output_free(&output);
        output = compile_text(target, RTC_ASSEMBLY, LS_MATH_FAST, scale, LS_OK);
        assert_null(strstr(output.data, "v_mul_f32"));
        rtc_output_free(&output);
    }
}

static void clang_errors_are_in_words(void **state) {
    (void)state;
    if (!clang_here()) skip();
    RtcOutput output = compile_text(
        "gfx1151", RTC_IMAGE, LS_MATH_EXACT,
        "\n\nextern \"C\" __global__ void f(float *p) { *p = nothing; }\n", LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "test.step:3:");
    assert_says(output.log, "nothing");
    rtc_output_free(&output);
    output = compile_text("gfx123", RTC_IMAGE, LS_MATH_EXACT, scale, LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "nothing here makes code for gfx123");
    assert_says(output.log, "install a newer clang and lld");
    rtc_output_free(&output);
    assert_int_equal(setenv("LOCKSTEP_CLANG_AMD", "/none/clang", 1), 0);
    output = compile_text("gfx1151", RTC_IMAGE, LS_MATH_EXACT, scale, LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "LOCKSTEP_CLANG_AMD is '/none/clang', which is not a program");
    rtc_output_free(&output);
    unsetenv("LOCKSTEP_CLANG_AMD");
}

/* A program in clang's place that is another clang: its words decide what is said. */
static void other_clangs_are_told_from_faults(void **state) {
    (void)state;
    static const struct {
        const char *version, *cpus, *said;
    } rows[] = {{"Debian clang version 14.0.6", "\\tgfx1151\\n", "is clang 14"},
                {"clang version 19.1.7", "\\tgfx90a\\n", "version 19 knows no gfx1151"}};
    char path[128];
    if (make_folder(state) != 0) fail();
    snprintf(path, sizeof path, "%s/clang", test_folder);
    for (size_t i = 0; i < COUNT(rows); i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file,
                "#!/bin/sh\nfor word; do test \"$word\" = --print-supported-cpus && "
                "printf '%s\\nAvailable CPUs:\\n%s' && exit 0; done\nexit 1\n",
                rows[i].version, rows[i].cpus);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, 0700), 0);
        assert_int_equal(setenv("LOCKSTEP_CLANG_AMD", path, 1), 0);
        RtcOutput output;
        assert_int_equal(rtc_clang.compile(scale, strlen(scale), "test.step", "gfx1151", RTC_IMAGE,
                                           LS_MATH_EXACT, &output),
                         LS_ERROR_TOOLCHAIN);
        assert_says(output.log, rows[i].said);
        assert_says(output.log, "install a newer clang");
        rtc_output_free(&output);
    }
    unsetenv("LOCKSTEP_CLANG_AMD");
    remove_folder(state);
}

/* Which of the two compiles follows from the files of both. */
static void the_key_names_both(void **state) {
    (void)state;
    char both[1024], other[1024];
    if (!clang_here()) skip();
    assert_true(rtc_hiprtc.describe(both, sizeof both));
    assert_int_equal(setenv("LOCKSTEP_CLANG_AMD", "/bin/sh", 1), 0);
    assert_true(rtc_hiprtc.describe(other, sizeof other));
    unsetenv("LOCKSTEP_CLANG_AMD");
    assert_string_not_equal(both, other);
}

static void the_same_source_gives_the_same_image(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_90", "gfx90a"};
    for (size_t i = 0; i < COUNT(targets); i++) {
        if (!toolchain_here(rtc_for_target(targets[i])->name)) continue;
        RtcOutput a = compile_text(targets[i], RTC_IMAGE, LS_MATH_EXACT, saxpy, LS_OK);
        RtcOutput b = compile_text(targets[i], RTC_IMAGE, LS_MATH_EXACT, saxpy, LS_OK);
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.data, b.data, a.size);
        rtc_output_free(&a);
        rtc_output_free(&b);
    }
}

/* The goal is 60 ms for a small kernel; printed, and far exceeded only when something is wrong. */
static void time_per_kernel(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_90", "compute_90", "gfx90a"};
    for (size_t i = 0; i < COUNT(targets); i++) {
        double best = 1e9;
        if (!toolchain_here(rtc_for_target(targets[i])->name)) continue;
        for (int round = 0; round < 5; round++) {
            RtcOutput output = compile_text(targets[i], RTC_IMAGE, LS_MATH_EXACT, saxpy, LS_OK);
            if (output.milliseconds < best) best = output.milliseconds;
            rtc_output_free(&output);
        }
        print_message("%s: %.1f ms a kernel\n", targets[i], best);
        assert_true(best < 2000);
    }
}

static void versions(void **state) {
    (void)state;
    static const char *const names[] = {"nvrtc", "hiprtc"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char text[1024];
        if (!toolchain_here(names[i])) continue;
        assert_true(ls_toolchain_describe(names[i], text, sizeof text));
        print_message("%s\n", text);
        assert_null(strchr(text, '\n'));
        assert_true(strstr(text, "RTC ") && strstr(text, "(/"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(every_cuda_target),
        cmocka_unit_test(every_ptx_target),
        cmocka_unit_test(every_hip_target),
        cmocka_unit_test(ptx_keeps_the_numbers),
        cmocka_unit_test(code_object_keeps_the_numbers),
        cmocka_unit_test(cuda_errors_are_in_words),
        cmocka_unit_test(hip_errors_are_in_words),
        cmocka_unit_test(unknown_device_does_not_take_us_down),
        cmocka_unit_test(clang_compiles_what_hiprtc_does_not_know),
        cmocka_unit_test(clang_errors_are_in_words),
        cmocka_unit_test(other_clangs_are_told_from_faults),
        cmocka_unit_test(the_key_names_both),
        cmocka_unit_test(the_same_source_gives_the_same_image),
        cmocka_unit_test(time_per_kernel),
    };
    return cmocka_run_group_tests_name("GPU toolchains", tests, NULL, NULL);
}
