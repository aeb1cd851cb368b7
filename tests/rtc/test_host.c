/* test_host.c: the system's C compilers as runtime compilers: the code runs and keeps the numeric
 * contract, and a compiler that is missing, wrong, slow or crashing is an error in words. */
#include "rtc_test.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    setenv("TMPDIR", test_folder, 1);
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
    return unsetenv("LOCKSTEP_CC");
}

/* Every test leaves TMPDIR as empty as it was. */
static int teardown(void **state) {
    unsetenv("LOCKSTEP_CC");
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
    size_t left = files_in(test_folder);
    int removed = remove_folder(state);
    assert_int_equal(left, 0);
    return removed;
}

static RtcOutput compile_c(RtcForm form, const char *source, ls_status expected) {
    return compile_text("cpu", form, LS_MATH_EXACT, source, expected);
}

/* Loads an image for as long as the test runs. */
static void *load(const RtcOutput *output, const char *symbol) {
    char path[] = "/tmp/lockstep-image-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, output->data, output->size), (ssize_t)output->size);
    close(file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    if (!library) print_error("%s\n", dlerror());
    assert_non_null(library);
    void *address = dlsym(library, symbol);
    assert_non_null(address);
    return address;
}

static const char *const compilers[] = {"clang", "gcc", "cc", "env gcc"};

/* Calls `check` for every compiler that is here. */
static void with_each(void (*check)(void)) {
    size_t checked = 0;
    for (size_t i = 0; i < COUNT(compilers); i++) {
        char text[1024];
        setenv("LOCKSTEP_CC", compilers[i], 1);
        if (!rtc_host.describe(text, sizeof text)) continue;
        check();
        checked++;
    }
    unsetenv("LOCKSTEP_CC");
    assert_true(checked > 0);
}

/* a * b + c with a product that rounds: contraction gives another result, and so does
 * reassociation. */
static void check_numbers(void) {
    RtcOutput output = compile_c(
        RTC_IMAGE,
        "#if defined(__FAST_MATH__) || !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L\n"
        "#error wrong options\n"
        "#endif\n"
        "void muladd(const double *a, double *r) { r[0] = a[0] * a[1] + a[2];\n"
        "    r[1] = (a[3] + a[4]) + a[5]; r[2] = a[6] != a[6]; r[3] = a[7] * 0.5; }\n",
        LS_OK);
    void (*muladd)(const double *, double *);
    void *address = load(&output, "muladd");
    memcpy(&muladd, &address, sizeof muladd);
    double a[] = {1 + 0x1p-30, 1 - 0x1p-30, -1, 1, 0x1p60, -0x1p60, NAN, 0x1p-1074 * 6}, r[4];
    muladd(a, r);
    assert_true(r[0] == 0);             /* fused: -2^-60 */
    assert_true(r[1] == 0);             /* reassociated: 1 */
    assert_true(r[2] == 1);             /* NaN is believed in */
    assert_true(r[3] == 0x1p-1074 * 3); /* no flush to zero */
    rtc_output_free(&output);
}

static void numbers_are_kept(void **state) {
    (void)state;
    with_each(check_numbers);
}

static void check_vectors(void) {
    RtcOutput output =
        compile_c(RTC_ASSEMBLY,
                  "void scale(float *restrict a, const float *restrict b, long n) {\n"
                  "    for (long i = 0; i < n; i++) a[i] = __builtin_sqrtf(b[i]) * 2.0f;\n}\n",
                  LS_OK);
    assert_says(output.data, "scale");
#if defined(__x86_64__)
    assert_says(output.data, "sqrtps"); /* vector, without an error branch */
    assert_null(strstr(output.data, "call\tsqrtf"));
    if (__builtin_cpu_supports("avx512f")) assert_says(output.data, "zmm");
#endif
    rtc_output_free(&output);
}

static void assembly_is_vectorised(void **state) {
    (void)state;
    with_each(check_vectors);
}

static void memory_idioms_link(void **state) {
    (void)state;
    RtcOutput output =
        compile_c(RTC_IMAGE,
                  "void copy(char *restrict a, const char *restrict b, unsigned long n) {\n"
                  "    for (unsigned long i = 0; i < n; i++) a[i] = b[i];\n}\n",
                  LS_OK);
    void (*copy)(char *, const char *, unsigned long);
    void *address = load(&output, "copy");
    memcpy(&copy, &address, sizeof copy);
    char to[6] = "";
    copy(to, "hello", 6);
    assert_string_equal(to, "hello");
    rtc_output_free(&output);
}

static void errors_name_the_label(void **state) {
    (void)state;
    RtcOutput output = compile_c(RTC_IMAGE, "int a;\nint b = nothing;\n", LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "test.step:2:");
    assert_says(output.log, "nothing");
    rtc_output_free(&output);
    const char *odd = "a\"b\\c\nd";
    ls_status status =
        rtc_host.compile("int x = y;", 10, odd, "cpu", RTC_IMAGE, LS_MATH_EXACT, &output);
    assert_int_equal(status, LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "a_b_c_d:1:");
    rtc_output_free(&output);
    assert_int_equal(rtc_host.compile("", 0, "x", "sm_90", RTC_IMAGE, LS_MATH_EXACT, &output),
                     LS_ERROR_ARGUMENT);
    rtc_output_free(&output);
}

static void missing_compiler_is_said(void **state) {
    (void)state;
    char text[1024], *path = strdup(getenv("PATH"));
    setenv("LOCKSTEP_CC", "no-such-compiler -O9", 1);
    assert_false(ls_toolchain_describe("host", text, sizeof text));
    assert_says(text, "LOCKSTEP_CC is 'no-such-compiler -O9', which is not a program");
    RtcOutput output = compile_c(RTC_IMAGE, "int x;", LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "no-such-compiler");
    rtc_output_free(&output);
    unsetenv("LOCKSTEP_CC");
    setenv("PATH", test_folder, 1);
    assert_false(ls_toolchain_describe("host", text, sizeof text));
    assert_says(text, "apt install clang, or gcc");
    assert_null(strchr(text, '\n'));
    setenv("PATH", path, 1);
    free(path);
    assert_true(ls_toolchain_describe("host", text, sizeof text));
    assert_null(strchr(text, '\n'));
    assert_true(strlen(text) > 10);
}

/* A compiler of our own making. */
static char script_path[128];
static void script(const char *text) {
    static int serial;
    snprintf(script_path, sizeof script_path, "%s.cc%d", test_folder, serial++);
    FILE *file = fopen(script_path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", text);
    fclose(file);
    chmod(script_path, 0700);
    setenv("LOCKSTEP_CC", script_path, 1);
}

static void script_fails(const char *text, const char *words) {
    script(text);
    RtcOutput output = compile_c(RTC_IMAGE, "int x;", LS_ERROR_TOOLCHAIN);
    assert_says(output.log, words);
    rtc_output_free(&output);
    unlink(script_path);
}

static void crash_and_silence_are_errors(void **state) {
    (void)state;
    script_fails("echo goodbye >&2; kill -SEGV $$",
                 "was killed by signal 11 (Segmentation fault)\ngoodbye");
    script_fails("exit 3", "failed with exit status 3");
    script_fails("exit 0", "left no result");
    script_fails("while [ \"$1\" != -o ]; do shift; done; echo nonsense >\"$2\"",
                 "left something that is no shared object");
    script_fails("for i in 1 2 3; do mktemp; done; head -c 3000000 /dev/zero | tr '\\0' x; exit 1",
                 "xxxx");
}

/* Then the compiler links, which knows how. */
static void linker_that_fails_is_done_without(void **state) {
    (void)state;
    char folder[160], linker[170], command[4200], path[4096];
    snprintf(folder, sizeof folder, "%s.bin", test_folder);
    snprintf(linker, sizeof linker, "%s/ld", folder);
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    assert_int_equal(mkdir(folder, 0700), 0);
    script("exit 1");
    assert_int_equal(rename(script_path, linker), 0);
    snprintf(command, sizeof command, "PATH=%.4000s\nexport PATH\nexec cc \"$@\"", path);
    script(command);
    assert_int_equal(setenv("PATH", folder, 1), 0);
    RtcOutput output = compile_c(RTC_IMAGE, "int x;", LS_OK);
    setenv("PATH", path, 1);
    assert_true(output.size > 4 && memcmp(output.data, "\177ELF", 4) == 0);
    rtc_output_free(&output);
    unlink(script_path);
    unlink(linker);
    rmdir(folder);
}

static void hang_is_ended_with_its_children(void **state) {
    (void)state;
    char pid_path[128];
    long pid = 0;
    snprintf(pid_path, sizeof pid_path, "%s.pid", test_folder);
    setenv("PID_FILE", pid_path, 1);
    setenv("LOCKSTEP_COMPILE_TIMEOUT", "0.1", 1);
    double start = rtc_now();
    script_fails("sleep 1000 & echo $! > $PID_FILE; wait", "not done after 1 seconds");
    script_fails("exec >/dev/null 2>&1; sleep 1000", "not done after 1 seconds");
    assert_true(rtc_now() - start < 20000);
    FILE *file = fopen(pid_path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    fclose(file);
    unlink(pid_path);
    for (int i = 0; i < 300 && kill((pid_t)pid, 0) == 0; i++) {
        char state_path[64], line[256] = "";
        snprintf(state_path, sizeof state_path, "/proc/%ld/stat", pid);
        FILE *process = fopen(state_path, "r");
        if (process && fgets(line, sizeof line, process) && strstr(line, ") Z")) pid = 1 << 30;
        if (process) fclose(process);
        usleep(10000);
    }
    assert_true(kill((pid_t)pid, 0) != 0); /* the sleep went with it, or waits to be reaped */
}

static void key_knows_the_compiler(void **state) {
    (void)state;
    char first[1024], second[1024];
    script("exit 1");
    assert_true(rtc_host.describe(first, sizeof first));
    assert_true(rtc_host.describe(second, sizeof second));
    assert_string_equal(first, second);
    assert_int_equal(truncate(script_path, 5), 0);
    assert_true(rtc_host.describe(second, sizeof second));
    assert_string_not_equal(first, second);
    char command[300];
    snprintf(command, sizeof command, "env %s", script_path); /* behind a wrapper too */
    setenv("LOCKSTEP_CC", command, 1);
    assert_true(rtc_host.describe(first, sizeof first));
    assert_int_equal(truncate(script_path, 6), 0);
    assert_true(rtc_host.describe(second, sizeof second));
    assert_string_not_equal(first, second);
    unlink(script_path);
}

static void program_that_reaps_everything(void **state) {
    (void)state;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    RtcOutput output = compile_c(RTC_IMAGE, "int x;", LS_OK);
    rtc_output_free(&output);
    output = compile_c(RTC_IMAGE, "int x", LS_ERROR_TOOLCHAIN);
    rtc_output_free(&output);
    signal(SIGCHLD, before);
}

static void *compile_some(void *data) {
    for (int i = 0; i < 3; i++) {
        RtcOutput output;
        *(size_t *)data += rtc_host.compile("int x;", 6, "thread", "cpu", RTC_IMAGE, LS_MATH_EXACT,
                                            &output) != LS_OK;
        rtc_output_free(&output);
    }
    return NULL;
}

static void threads_at_once(void **state) {
    (void)state;
    pthread_t threads[4];
    size_t failures[4] = {0};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_some, &failures[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(failures[i], 0);
    }
}

static void targets_have_their_toolchain(void **state) {
    (void)state;
    static const struct {
        const char *target, *name;
    } rows[] = {{"cpu", "host"},
                {"sm_90", "nvrtc"},
                {"sm_90a", "nvrtc"},
                {"compute_120", "nvrtc"},
                {"gfx90a", "hiprtc"},
                {"gfx1100", "hiprtc"},
                {"gfx90a:xnack-", "hiprtc"},
                {"sm_", NULL},
                {"sm_x", NULL},
                {"gfx", NULL},
                {"cpus", NULL},
                {"sm_90 --evil", NULL},
                {"", NULL},
                {"tpu", NULL},
                {"gfx9\"", NULL}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const Rtc *rtc = rtc_for_target(rows[i].target);
        assert_int_equal(rtc == NULL, rows[i].name == NULL);
        if (rtc) assert_string_equal(rtc->name, rows[i].name);
        if (rtc) assert_ptr_equal(rtc, rtc_named(rows[i].name));
    }
    const ls_target *chip;
    const char *dialect = NULL;
    for (size_t i = 0; (chip = ls_target_at(i)); i++) { /* the rows themselves */
        assert_non_null(rtc_for_target(chip->name));
        dialect = ls_target_dialect(chip->name);
        assert_string_equal(rtc_for_target(chip->name)->name, target_for(chip->name)->toolchain);
        assert_true(rtc_named(chip->tried) == rtc_for_target(chip->name) ||
                    strncmp(chip->tried, rtc_clang.name, strlen(rtc_clang.name)) == 0);
        if (chip->portable) assert_string_equal(ls_target_dialect(chip->portable), dialect);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(ls_target_at(k)->name, chip->name);
    }
    for (size_t i = 0; ls_toolchain_at(i, NULL); i++)
        assert_non_null(rtc_named(ls_toolchain_at(i, NULL)));
    for (size_t i = 0; ls_form_at(i); i++) {
        const ls_form *form = ls_form_at(i);
        if (form->target && form->toolchain)
            assert_string_equal(rtc_for_target(form->target)->name, form->toolchain);
    }
    char text[256], tried[256];
    assert_null(ls_target_dialect("tpu"));
    assert_true(rtc_untried_target("gfx1100", tried, sizeof tried));
    assert_says(tried, "gfx906, gfx908, gfx90a, gfx1010, gfx1030");
    assert_false(rtc_untried_target("gfx90a:xnack+", tried, sizeof tried));
    assert_false(rtc_untried_target("compute_90", tried, sizeof tried));
    assert_null(rtc_for_target(NULL));
    assert_null(rtc_named("tpu"));
    assert_false(ls_toolchain_describe("tpu", text, sizeof text));
    assert_says(text, "there are host, nvrtc, hiprtc, clang");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(targets_have_their_toolchain),    TEST(numbers_are_kept),
        TEST(assembly_is_vectorised),          TEST(memory_idioms_link),
        TEST(errors_name_the_label),           TEST(missing_compiler_is_said),
        TEST(crash_and_silence_are_errors),    TEST(linker_that_fails_is_done_without),
        TEST(hang_is_ended_with_its_children), TEST(key_knows_the_compiler),
        TEST(program_that_reaps_everything),   TEST(threads_at_once),
    };
    char text[1024];
    if (!rtc_host.describe(text, sizeof text)) {
        printf("skipped: %s\n", text);
        return 77;
    }
    return cmocka_run_group_tests_name("host compiler", tests, NULL, NULL);
}
