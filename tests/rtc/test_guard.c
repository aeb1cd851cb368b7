/* test_guard.c: however a program ends while a C compiler works for it, nothing is left running and
 * nothing lying; what a compiler may use is processor time; folders that were left are swept; and
 * where TMPDIR cannot be used another place is. The compilers are scripts that wait, compute, start
 * others and hide. */
#include "rtc_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <time.h>

static char script_path[128];

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    snprintf(script_path, sizeof script_path, "%s.cc", test_folder);
    setenv("LOCKSTEP_TEST_MARK", test_folder, 1);
    setenv("LOCKSTEP_CC", script_path, 1);
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
    return setenv("TMPDIR", test_folder, 1);
}

static void script(const char *text) {
    FILE *file = fopen(script_path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", text);
    assert_int_equal(fclose(file), 0);
    chmod(script_path, 0700);
}

/* How many processes have this test's mark in the environment that they were started with;
 * `signal_number` goes to each. */
static size_t marked(int signal_number) {
    char mark[128], path[300];
    static char text[1 << 16];
    size_t count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    snprintf(mark, sizeof mark, "LOCKSTEP_TEST_MARK=%s", test_folder);
    for (struct dirent *entry; (entry = readdir(processes));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        int file = open(path, O_RDONLY);
        ssize_t got = file < 0 ? 0 : read(file, text, sizeof text);
        if (file >= 0) close(file);
        if (got <= 0 || !memmem(text, (size_t)got, mark, strlen(mark))) continue;
        count++;
        if (signal_number) kill((pid_t)atoi(entry->d_name), signal_number);
    }
    closedir(processes);
    return count;
}

static int teardown(void **state) {
    marked(SIGKILL);
    unlink(script_path);
    unsetenv("LOCKSTEP_CC");
    unsetenv("LOCKSTEP_COMPILE_TIMEOUT");
    return remove_folder(state);
}

static void nothing_is_left(void) {
    size_t running = 1, lying = 1;
    for (int i = 0; i < 1000 && running + lying; i++) {
        if (i) usleep(10000);
        running = marked(0);
        lying = files_in(test_folder);
    }
    assert_int_equal(running, 0);
    assert_int_equal(lying, 0);
}

/* Starts three that wait: in its group, in the background, and in a session of its own, whose
 * parent is gone. */
static const char waits[] = "sleep 1000 & (setsid sleep 1000 &)\nsleep 1000";

static RtcOutput compile_x(ls_status expected) {
    return compile_text("cpu", RTC_IMAGE, LS_MATH_EXACT, "int x;", expected);
}

/* A process that compiles, and is to be killed. */
static pid_t compile_in_child(void) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    RtcOutput output;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rtc_host.compile("int x;", 6, "test", "cpu", RTC_IMAGE, LS_MATH_EXACT, &output);
    _exit(1);
}

static void ended_by(pid_t child, int signal_number) {
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
}

/* After this long: from before the folder is made to when all that the script starts runs. */
static void nap(int i) {
    usleep((useconds_t)(i * i * 700));
}

static void killed_program_leaves_nothing(void **state) {
    (void)state;
    static const int signals[] = {SIGKILL, SIGTERM, SIGINT};
    script(waits);
    for (int i = 0; i < 12; i++) {
        pid_t child = compile_in_child();
        nap(i);
        kill(child, signals[i % 3]);
        ended_by(child, signals[i % 3]);
        nothing_is_left();
    }
}

/* The command, which has handlers: it still ends by the signal, at once. */
static void killed_command_leaves_nothing(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    char file[160];
    script(waits);
    setenv("LOCKSTEP_CACHE", "off", 1);
    snprintf(file, sizeof file, "%s.step", test_folder);
    FILE *program = fopen(file, "w");
    assert_non_null(program);
    fputs("step s[n](x: f32[n], out y: f32[n]) {\n    y = x + 1\n}\n", program);
    fclose(program);
    for (int i = 0; i < 12; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            int nothing = open("/dev/null", O_WRONLY);
            dup2(nothing, 1);
            dup2(nothing, 2);
            execl(LOCKSTEP, "lockstep", "run", file, "--device", "cpu", "x=ones(4)", NULL);
            _exit(99);
        }
        usleep(30000);
        nap(i);
        double start = rtc_now();
        kill(child, signals[i % 4]);
        ended_by(child, signals[i % 4]);
        assert_true(rtc_now() - start < 2000);
        nothing_is_left();
    }
    unlink(file);
    unsetenv("LOCKSTEP_CACHE");
}

static void *compile_in_thread(void *data) {
    RtcOutput output;
    rtc_host.compile("int x;", 6, "test", "cpu", RTC_IMAGE, LS_MATH_EXACT, &output);
    return data;
}

/* A process that the program forked has copies of all its open files, and lives on. */
static void forked_copies_keep_nothing_alive(void **state) {
    (void)state;
    int ends[2];
    pid_t copy = 0;
    script(waits);
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, compile_in_thread, NULL) != 0) _exit(2);
        usleep(300000);
        copy = fork();
        if (copy == 0) {
            prctl(PR_SET_PDEATHSIG, 0);
            sleep(30);
            _exit(0);
        }
        if (write(ends[1], &copy, sizeof copy) < 0) _exit(3);
        pause();
    }
    assert_int_equal(read(ends[0], &copy, sizeof copy), sizeof copy);
    assert_true(marked(0) >= 4);
    kill(child, SIGKILL);
    ended_by(child, SIGKILL);
    nothing_is_left();
    assert_int_equal(kill(copy, SIGKILL), 0); /* it was there all the time */
    close(ends[0]);
    close(ends[1]);
}

static void processor_time_is_limited(void **state) {
    (void)state;
    setenv("LOCKSTEP_COMPILE_TIMEOUT", "0.2", 1);
    script("sh -c 'while :; do :; done' & wait"); /* what it has started counts */
    double start = rtc_now();
    RtcOutput output = compile_x(LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "used 0.2 seconds of processor time and was ended");
    assert_says(output.log, "LOCKSTEP_COMPILE_TIMEOUT");
    rtc_output_free(&output);
    assert_true(rtc_now() - start < 20000);
    nothing_is_left();
    /* many that are short: they count when they are no more */
    script("while :; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'; done");
    output = compile_x(LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "of processor time");
    rtc_output_free(&output);
    nothing_is_left();
}

/* As on a machine under load: long on the clock, little of the processor. */
static void waiting_is_not_computing(void **state) {
    (void)state;
    setenv("LOCKSTEP_COMPILE_TIMEOUT", "0.5", 1);
    script("sleep 1; exec cc \"$@\"");
    RtcOutput output = compile_x(LS_OK);
    rtc_output_free(&output);
}

/* Stops for five seconds all that takes part in a compile, which may wait for four. */
static void *stop_for_long(void *data) {
    (void)data;
    for (int i = 0; i < 500 && marked(0) < 3; i++) usleep(5000);
    marked(SIGSTOP);
    sleep(5);
    marked(SIGCONT);
    return NULL;
}

static void stopped_machine_times_nothing_out(void **state) {
    (void)state;
    pthread_t thread;
    setenv("LOCKSTEP_COMPILE_TIMEOUT", "0.4", 1);
    script("sleep 0.4; exec cc \"$@\"");
    assert_int_equal(pthread_create(&thread, NULL, stop_for_long, NULL), 0);
    RtcOutput output = compile_x(LS_OK);
    rtc_output_free(&output);
    pthread_join(thread, NULL);
}

/* The guard itself may be killed, by who is out of memory. */
static void guard_killed_is_an_error(void **state) {
    (void)state;
    script("kill -9 $PPID; sleep 1000");
    RtcOutput output = compile_x(LS_ERROR_TOOLCHAIN);
    assert_says(output.log, "the process that watches over");
    rtc_output_free(&output);
}

/* What a compiler leaves running, as a compiler cache's server, holds nobody up. */
static void background_process_is_not_waited_for(void **state) {
    (void)state;
    script("sleep 5 & exec cc \"$@\"");
    double start = rtc_now();
    RtcOutput output = compile_x(LS_OK);
    rtc_output_free(&output);
    assert_true(rtc_now() - start < 4000);
}

/* ---- folders ---- */

static void make_old(const char *name, long age) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/kernel.c", test_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    *strrchr(path, '/') = 0;
    struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_there(const char *name) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    return access(path, F_OK) == 0;
}

static void left_folders_are_swept(void **state) {
    (void)state;
    char path[200];
    make_old("lockstep-compile-aaaaaa", 7200);
    make_old("lockstep-rtc-4000000", 7200);
    make_old("lockstep-compile-bbbbbb", 60); /* young */
    make_old("lockstep-compile-cccccc", 7200);
    make_old("lockstep-compile-results", 7200); /* the user's */
    make_old("lockstep-rtc-notes", 7200);
    make_old("lockstep-compile-eeeeee", 7200);
    snprintf(path, sizeof path, "%s/lockstep-compile-cccccc", test_folder);
    int lock = rtc_folder_lock(path); /* in use for long */
    assert_true(lock >= 0);
    if (geteuid() == 0) {
        snprintf(path, sizeof path, "%s/lockstep-compile-eeeeee", test_folder);
        assert_int_equal(chown(path, 65534, 65534), 0);
    }
    script("exec cc \"$@\"");
    RtcOutput output = compile_x(LS_OK);
    rtc_output_free(&output);
    assert_false(is_there("lockstep-compile-aaaaaa"));
    assert_false(is_there("lockstep-rtc-4000000"));
    assert_true(is_there("lockstep-compile-bbbbbb"));
    assert_true(is_there("lockstep-compile-cccccc"));
    assert_true(is_there("lockstep-compile-results"));
    assert_true(is_there("lockstep-rtc-notes"));
    assert_int_equal(is_there("lockstep-compile-eeeeee"), geteuid() == 0);
    close(lock);
    rtc_folder_sweep(test_folder);
    assert_false(is_there("lockstep-compile-cccccc"));
}

static void another_place_where_tmpdir_is_none(void **state) {
    (void)state;
    static const char *const bad[] = {"/nowhere", "/proc", "/etc/passwd", "/dev/null"};
    script("exec cc \"$@\"");
    for (size_t i = 0; i < COUNT(bad); i++) {
        setenv("TMPDIR", bad[i], 1);
        RtcOutput output = compile_x(LS_OK);
        rtc_output_free(&output);
    }
}

static void no_place_is_said(void **state) {
    (void)state;
    char path[256], reason[1024];
    static const char *const places[] = {"/nowhere", "/proc", NULL};
    assert_int_equal(rtc_folder_make(places, 100, path, sizeof path, reason, sizeof reason), -1);
    assert_says(reason, "/nowhere: No such file or directory; /proc: ");
}

/* A disk of 64 KB, in a name space of a child's own. */
static int compile_on_a_full_disk(void *data) {
    (void)data;
    char path[256], reason[1024];
    const char *const places[] = {test_folder, NULL};
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", test_folder, "tmpfs", 0, "size=64k") != 0)
        return 77;
    if (rtc_folder_make(places, 1 << 20, path, sizeof path, reason, sizeof reason) != -1) return 2;
    if (!strstr(reason, "No space left on device")) return 3;
    RtcOutput output;
    if (rtc_host.compile("int x;", 6, "t", "cpu", RTC_IMAGE, LS_MATH_EXACT, &output) != LS_OK)
        return 4;
    return files_in(test_folder) == 0 ? 0 : 5;
}

static void another_place_where_tmpdir_is_full(void **state) {
    (void)state;
    script("exec cc \"$@\"");
    int status = in_child(compile_on_a_full_disk, NULL);
    if (status == 77) skip();
    assert_int_equal(status, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(killed_program_leaves_nothing),
        TEST(killed_command_leaves_nothing),
        TEST(forked_copies_keep_nothing_alive),
        TEST(processor_time_is_limited),
        TEST(waiting_is_not_computing),
        TEST(stopped_machine_times_nothing_out),
        TEST(guard_killed_is_an_error),
        TEST(background_process_is_not_waited_for),
        TEST(left_folders_are_swept),
        TEST(another_place_where_tmpdir_is_none),
        TEST(no_place_is_said),
        TEST(another_place_where_tmpdir_is_full),
    };
    /* which a shell's background jobs ignore, and the programs that they start */
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < COUNT(signals); i++) signal(signals[i], SIG_DFL);
    return cmocka_run_group_tests_name("the end of compiles", tests, NULL, NULL);
}
