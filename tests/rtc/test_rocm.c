/* test_rocm.c: hipRTC of versions that are not here, by stand-ins that say what they were told: the
 * options that only the newer ones get, and what comgr calls disassembling. */
#include "rtc_test.h"

/* A ROCm by its comgr, the action of its that disassembles an executable, whether its hipRTC gets
 * the options of ROCm 6, and whether it makes code objects of version 5 when told to. */
static const struct {
    const char *path, *action;
    bool newer, object_5;
} versions[] = {
    {STANDIN_ROCM_5, "action 12", false, false},
    {STANDIN_ROCM_6, "action 12", true, false},
    {STANDIN_ROCM_7, "action 10", true, true},
};

static const char *const newer_options[] = {"\n-std=c++17\n", "\n-fno-unroll-loops\n",
                                            "\n-mllvm\n-amdgpu-spill-sgpr-to-vgpr=0\n",
                                            "\n-mllvm\n-grow-region-complexity-budget=0\n"};
static const char *const object_options[] = {"\n-mcode-object-version=5\n",
                                             "\n-DLS_CODE_OBJECT=5\n"};
static const char *const options_of_all[] = {"\n--offload-arch=gfx1151\n",
                                             "\n-fno-gpu-flush-denormals-to-zero\n"};

/* What hipRTC of that file answers, in a process whose helper has loaded no other. */
static void ask(const char *path, RtcVerb verb, RtcForm form, ls_math math, char *text,
                size_t size) {
    int channel[2], status = -1;
    assert_int_equal(pipe(channel), 0);
    const pid_t child = fork();
    if (child == 0) {
        const RtcJob job = {verb, form, math, "test.step", "gfx1151", "int x;", 6};
        RtcOutput output = {0};
        setenv("LOCKSTEP_HIPRTC", path, 1);
        const ls_status made = verb == RTC_DISASSEMBLE
                                   ? rtc_hiprtc_disassemble("gfx1151", "image", 5, &output)
                                   : rtc_hiprtc_compile(&job, &output);
        const char *answer = made == LS_OK ? output.data : output.log;
        if (!answer || write(channel[1], answer, strlen(answer)) < 0) _exit(2);
        rtc_output_free(&output);
        _exit(made != LS_OK);
    }
    assert_true(child > 0);
    close(channel[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(channel[0], text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    close(channel[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status) print_error("%s\n", text);
    assert_int_equal(status, 0);
}

static void options_are_the_versions(void **state) {
    char text[4096];
    (void)state;
    for (size_t v = 0; v < COUNT(versions); v++)
        for (ls_math math = LS_MATH_EXACT; math <= LS_MATH_FAST; math++) {
            ask(versions[v].path, RTC_COMPILE, RTC_IMAGE, math, text, sizeof text);
            for (size_t i = 0; i < COUNT(options_of_all); i++) assert_says(text, options_of_all[i]);
            assert_says(text,
                        math == LS_MATH_FAST ? "\n-ffp-contract=fast\n" : "\n-ffp-contract=off\n");
            for (size_t i = 0; i < COUNT(newer_options); i++)
                assert_int_equal(strstr(text, newer_options[i]) != NULL, versions[v].newer);
            for (size_t i = 0; i < COUNT(object_options); i++)
                assert_int_equal(strstr(text, object_options[i]) != NULL, versions[v].object_5);
        }
}

static void actions_are_the_versions(void **state) {
    char text[4096];
    (void)state;
    for (size_t v = 0; v < COUNT(versions); v++) {
        ask(versions[v].path, RTC_DISASSEMBLE, RTC_IMAGE, LS_MATH_EXACT, text, sizeof text);
        assert_string_equal(text, versions[v].action);
        ask(versions[v].path, RTC_COMPILE, RTC_ASSEMBLY, LS_MATH_EXACT, text, sizeof text);
        assert_string_equal(text, versions[v].action);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_the_versions),
        cmocka_unit_test(actions_are_the_versions),
    };
    return cmocka_run_group_tests_name("versions of ROCm", tests, NULL, NULL);
}
