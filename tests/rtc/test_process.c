/* test_process.c: the helper process, with a stand-in for NVRTC that crashes, hangs and lies as its
 * source asks. Built twice: test_process_file has no memory files to run. */
#include "rtc_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

/* For -Wl,--wrap=memfd_create; the linker sends the library's calls here. */
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags) {
    (void)name, (void)flags;
    errno = ENOSYS;
    return -1;
}

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    setenv("TMPDIR", test_folder, 1);
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
    return setenv("LOCKSTEP_NVRTC", STANDIN, 1);
}

typedef struct Report { /* what the stand-in tells about its process */
    long pid;
    int files, blocked;
} Report;

static Report ask(const char *source) {
    Report report = {0};
    RtcOutput output = compile_text("compute_90", RTC_IMAGE, LS_MATH_EXACT, source, LS_OK);
    assert_int_equal(sscanf(output.data, "%ld %d %d", &report.pid, &report.files, &report.blocked),
                     3);
    assert_string_equal(output.log, "the stand-in's log");
    rtc_output_free(&output);
    assert_true(report.pid > 0 && report.pid != (long)getpid());
    return report;
}

static void fails(const char *source, const char *words, const char *more_words) {
    RtcOutput output =
        compile_text("compute_90", RTC_IMAGE, LS_MATH_EXACT, source, LS_ERROR_TOOLCHAIN);
    assert_says(output.log, words);
    assert_says(output.log, more_words);
    rtc_output_free(&output);
}

/* Or waits for its new parent to take its exit status. */
static bool is_gone(pid_t pid) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (!file) return true;
    bool dead = !fgets(line, sizeof line, file) || strstr(line, ") Z");
    fclose(file);
    return dead;
}

static bool gone_soon(pid_t pid) {
    for (int i = 0; i < 300; i++) {
        if (is_gone(pid)) return true;
        usleep(10000);
    }
    return false;
}

static void kept_between_compiles(void **state) {
    (void)state;
    Report first = ask("a"), second = ask("b");
    assert_int_equal(first.pid, second.pid);
}

static void replaced_after_a_crash(void **state) {
    (void)state;
    Report before = ask("a");
    fails("crash", "NVRTC crashed on test.step for compute_90", "Segmentation fault");
    fails("crash", "last words of the toolchain", "killed by signal");
    fails("exit", "exit status 7", "crashed");
    Report after = ask("a");
    assert_int_not_equal(before.pid, after.pid);
    assert_true(gone_soon((pid_t)before.pid));
}

static void killed_while_idle_costs_nothing(void **state) {
    (void)state;
    Report before = ask("a");
    assert_int_equal(kill((pid_t)before.pid, SIGKILL), 0);
    Report after = ask("a"); /* no error: a fresh one answers */
    assert_int_not_equal(before.pid, after.pid);
}

static void hang_is_ended(void **state) {
    (void)state;
    Report before = ask("a");
    setenv("LOCKSTEP_COMPILE_TIMEOUT", "0.3", 1);
    double start = rtc_now();
    fails("spin", "NVRTC at work on test.step for compute_90 used 0.3 seconds of processor time",
          "LOCKSTEP_COMPILE_TIMEOUT");
    fails("stop", "not done", "was ended");
    assert_true(rtc_now() - start < 20000);
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
    assert_true(gone_soon((pid_t)before.pid));
    assert_int_not_equal(ask("a").pid, before.pid);
}

static void refusal_is_an_error_with_the_log(void **state) {
    (void)state;
    Report before = ask("a");
    fails("refuse", "STANDIN_ERROR", "the stand-in's log");
    assert_int_equal(ask("a").pid, before.pid);
}

static void large_both_ways(void **state) {
    (void)state;
    char *source = malloc(4000001);
    assert_non_null(source);
    memset(source, ' ', 4000000);
    memcpy(source, "large", 5);
    source[4000000] = 0;
    RtcOutput output = compile_text("sm_90", RTC_IMAGE, LS_MATH_EXACT, source, LS_OK);
    assert_int_equal(output.size, 3000000);
    for (size_t i = 0; i < output.size; i++) assert_int_equal(((char *)output.data)[i], 'x');
    rtc_output_free(&output);
    free(source);
}

/* What the trainer has open or blocked is not passed on. */
static void inherits_nothing(void **state) {
    (void)state;
    sigset_t all, before;
    fails("crash", "crashed", ""); /* so that the next one is spawned under these conditions */
    int files[20];
    for (size_t i = 0; i < COUNT(files); i++)
        files[i] = open("/dev/null", O_RDONLY); /* not close-on-exec */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Report report = ask("a");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < COUNT(files); i++) close(files[i]);
    assert_int_equal(report.files, 4); /* the standard streams and the lock of its folder */
    assert_int_equal(report.blocked, 0);
}

static int use_in_child(void *data) {
    long pid = *(long *)data;
    RtcOutput output;
    if (rtc_nvrtc.compile("a", 1, "child", "compute_90", RTC_IMAGE, LS_MATH_EXACT, &output) !=
        LS_OK)
        return 2;
    long own = atol(output.data);
    rtc_output_free(&output);
    return own > 0 && own != pid ? 0 : 3;
}

static void forked_process_gets_its_own(void **state) {
    (void)state;
    Report before = ask("a");
    assert_int_equal(in_child(use_in_child, &before.pid), 0);
    assert_int_equal(ask("a").pid, before.pid); /* and ours is still ours */
}

static void *compile_for_two_seconds(void *data) {
    RtcOutput output;
    *(ls_status *)data =
        rtc_nvrtc.compile("spin", 4, "thread", "sm_80", RTC_IMAGE, LS_MATH_EXACT, &output);
    rtc_output_free(&output);
    return NULL;
}

static void fork_while_another_thread_compiles(void **state) {
    (void)state;
    pthread_t thread;
    ls_status status = LS_OK;
    long nobody = 0;
    setenv("LOCKSTEP_COMPILE_TIMEOUT", "2", 1);
    assert_int_equal(pthread_create(&thread, NULL, compile_for_two_seconds, &status), 0);
    usleep(300000);
    double start = rtc_now();
    assert_int_equal(in_child(use_in_child, &nobody), 0);
    assert_true(rtc_now() - start < 1500); /* it did not wait for our thread */
    pthread_join(thread, NULL);
    assert_int_equal(status, LS_ERROR_TOOLCHAIN);
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
}

static int ends_at_once(void *data) {
    RtcOutput output;
    if (rtc_nvrtc.compile("a", 1, "child", "compute_90", RTC_IMAGE, LS_MATH_EXACT, &output) !=
        LS_OK)
        return 2;
    *(long *)data = atol(output.data);
    FILE *file = fopen("pid", "w");
    if (!file || fprintf(file, "%ld", atol(output.data)) < 0 || fclose(file) != 0) return 3;
    return 0;
}

static void ends_with_its_program(void **state) {
    (void)state;
    long pid = 0;
    char folder[4096];
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(chdir(test_folder), 0);
    assert_int_equal(in_child(ends_at_once, &pid), 0);
    FILE *file = fopen("pid", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    fclose(file);
    unlink("pid");
    assert_int_equal(chdir(folder), 0);
    assert_true(pid > 0 && gone_soon((pid_t)pid));
}

static void *hang_with_a_child(void *data) {
    RtcOutput output;
    *(ls_status *)data =
        rtc_nvrtc.compile("child", 5, "thread", "sm_80", RTC_IMAGE, LS_MATH_EXACT, &output);
    rtc_output_free(&output);
    return NULL;
}

/* Of the helper and of the child it started, as the stand-in wrote them. */
static void read_numbers(long pids[2]) {
    char path[128];
    snprintf(path, sizeof path, "%s/pids", test_folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &pids[0], &pids[1]), 2);
    fclose(file);
    unlink(path);
}

static void *ask_in_thread(void *data) {
    *(long *)data = ask("a").pid;
    return NULL;
}

/* It is the process's, not the thread's that started it. */
static void outlives_the_thread_that_started_it(void **state) {
    (void)state;
    pthread_t thread;
    long pid = 0;
    fails("crash", "crashed", "");
    assert_int_equal(pthread_create(&thread, NULL, ask_in_thread, &pid), 0);
    pthread_join(thread, NULL);
    usleep(1200000); /* longer than it looks after its parent */
    assert_int_equal(ask("b").pid, pid);
}

/* Killed in the middle of a compile, with another process that has copies of its open files: the
 * helper, what it started and its folder go. */
static void ends_in_the_middle_with_its_program(void **state) {
    (void)state;
    int ends[2];
    pid_t copy = 0;
    fails("crash", "crashed", ""); /* the next has this test's TMPDIR */
    for (int forks = 0; forks < 2; forks++) {
        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            ls_status status;
            if (pthread_create(&thread, NULL, hang_with_a_child, &status) != 0) _exit(2);
            usleep(200000);
            copy = forks ? fork() : 0;
            if (forks && copy == 0) {
                sleep(30);
                _exit(0);
            }
            if (write(ends[1], &copy, sizeof copy) < 0) _exit(3);
            pause();
        }
        long pids[2] = {0};
        assert_int_equal(read(ends[0], &copy, sizeof copy), sizeof copy);
        assert_int_equal(files_in(test_folder), 2); /* its folder, and the numbers */
        read_numbers(pids);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_true(gone_soon((pid_t)pids[0]) && gone_soon((pid_t)pids[1]));
        for (int i = 0; i < 300 && files_in(test_folder); i++) usleep(10000);
        assert_int_equal(files_in(test_folder), 0);
        if (forks) assert_int_equal(kill(copy, SIGKILL), 0);
        close(ends[0]);
        close(ends[1]);
    }
}

static void program_that_reaps_everything(void **state) {
    (void)state;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    fails("crash", "crashed", "took its exit status");
    ask("a");
    signal(SIGCHLD, before);
}

static void leaves_no_files(void **state) {
    (void)state;
    fails("crash", "crashed", ""); /* the next has this test's TMPDIR */
    fails("litter", "Aborted", "");
    assert_int_equal(files_in(test_folder), 0);
    Report report = ask("a");
    assert_int_equal(files_in(test_folder), 1); /* its own folder */
    kill((pid_t)report.pid, SIGKILL);
    fails("crash", "crashed", "");
    assert_int_equal(files_in(test_folder), 0);
}

static void *compile_many(void *data) {
    size_t *failures = data;
    for (int i = 0; i < 20; i++) {
        RtcOutput output;
        const char *source = i % 7 == 3 ? "crash" : "fine";
        ls_status expected = i % 7 == 3 ? LS_ERROR_TOOLCHAIN : LS_OK;
        if (rtc_nvrtc.compile(source, strlen(source), "thread", "sm_80", RTC_IMAGE, LS_MATH_EXACT,
                              &output) != expected)
            ++*failures;
        rtc_output_free(&output);
    }
    return NULL;
}

static void many_threads_at_once(void **state) {
    (void)state;
    pthread_t threads[4];
    size_t failures[4] = {0};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_many, &failures[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(failures[i], 0);
    }
}

/* A compile that takes long holds nobody up. */
static void another_helper_where_one_is_busy(void **state) {
    (void)state;
    pthread_t thread;
    ls_status status = LS_OK;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) skip();
    const long first = ask("a").pid;
    setenv("LOCKSTEP_COMPILE_TIMEOUT", "2", 1);
    assert_int_equal(pthread_create(&thread, NULL, compile_for_two_seconds, &status), 0);
    usleep(100000);
    double start = rtc_now();
    const long second = ask("b").pid;
    assert_int_not_equal(first, second);
    assert_true(rtc_now() - start < 1500);
    pthread_join(thread, NULL);
    assert_int_equal(status, LS_ERROR_TOOLCHAIN);
    assert_int_equal(ask("c").pid, second); /* the other is gone */
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
}

static void what_is_missing_is_said(void **state) {
    (void)state;
    char text[1024];
    setenv("LOCKSTEP_NVRTC", "/nowhere/libnvrtc.so", 1);
    assert_false(ls_toolchain_describe("nvrtc", text, sizeof text));
    assert_says(text, "LOCKSTEP_NVRTC is '/nowhere/libnvrtc.so'");
    assert_null(strchr(text, '\n'));
    fails("a", "LOCKSTEP_NVRTC is", "No such file");
    setenv("LOCKSTEP_NVRTC", "/etc/passwd", 1);
    fails("a", "NVRTC cannot be loaded", "install NVRTC");
    assert_false(ls_toolchain_describe("nvrtc", text, sizeof text));
    setenv("LOCKSTEP_HIPRTC", STANDIN, 1); /* a library, but another one */
    assert_false(ls_toolchain_describe("hiprtc", text, sizeof text));
    assert_says(text, "is not hipRTC: it has no hiprtcVersion");
    unsetenv("LOCKSTEP_HIPRTC");
    setenv("LOCKSTEP_NVRTC", STANDIN, 1);
    assert_true(ls_toolchain_describe("nvrtc", text, sizeof text));
    assert_says(text, "NVRTC 12.34 (");
}

static void a_toolchain_that_is_not_here(void **state) {
    (void)state;
    char path[4096], reason[1024];
    const char *files[] = {"libno-such-thing.so", NULL};
    RtcToolchain toolchain = rtc_nvrtc_toolchain;
    unsetenv("LOCKSTEP_NVRTC");
    toolchain.files = files;
    assert_false(rtc_find_library(&toolchain, path, sizeof path, reason, sizeof reason));
    assert_says(reason, "NVRTC is not here: no libno-such-thing.so in");
    assert_says(reason, "install NVRTC");
    assert_says(reason, "LOCKSTEP_NVRTC");
    assert_null(strchr(reason, '\n'));
    files[0] = "libc.so.6"; /* where ld.so would find it */
    assert_true(rtc_find_library(&toolchain, path, sizeof path, reason, sizeof reason));
    assert_says(path, "/libc.so.6");
}

static void the_key_knows_the_file(void **state) {
    (void)state;
    char first[1024], second[1024], path[256];
    assert_true(rtc_nvrtc.describe(first, sizeof first));
    assert_true(rtc_nvrtc.describe(second, sizeof second));
    assert_string_equal(first, second);
    snprintf(path, sizeof path, "%s/libnvrtc.so", test_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    setenv("LOCKSTEP_NVRTC", path, 1);
    assert_true(rtc_nvrtc.describe(second, sizeof second));
    assert_string_not_equal(first, second);
    assert_int_equal(truncate(path, 10), 0); /* another size or time is another toolchain */
    assert_true(rtc_nvrtc.describe(first, sizeof first));
    assert_string_not_equal(first, second);
    char short_text[48]; /* what tells toolchains apart comes first */
    assert_true(rtc_nvrtc.describe(short_text, sizeof short_text));
    assert_memory_equal(first, short_text, sizeof short_text - 1);
    unsetenv("LOCKSTEP_NVRTC");
    setenv("LD_LIBRARY_PATH", test_folder, 1);
    assert_true(rtc_nvrtc.describe(second, sizeof second));
    assert_string_equal(first, second);
    unsetenv("LD_LIBRARY_PATH");
    unlink(path);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(kept_between_compiles),
        TEST(replaced_after_a_crash),
        TEST(killed_while_idle_costs_nothing),
        TEST(hang_is_ended),
        TEST(refusal_is_an_error_with_the_log),
        TEST(large_both_ways),
        TEST(inherits_nothing),
        TEST(forked_process_gets_its_own),
        TEST(fork_while_another_thread_compiles),
        TEST(ends_with_its_program),
        TEST(outlives_the_thread_that_started_it),
        TEST(ends_in_the_middle_with_its_program),
        TEST(program_that_reaps_everything),
        TEST(leaves_no_files),
        TEST(many_threads_at_once),
        TEST(another_helper_where_one_is_busy),
        TEST(what_is_missing_is_said),
        TEST(a_toolchain_that_is_not_here),
        TEST(the_key_knows_the_file),
    };
    return cmocka_run_group_tests_name("helper process", tests, NULL, NULL);
}
