/* rtc_test.h: what the tests of this folder share. */
#ifndef RTC_TEST_H
#define RTC_TEST_H

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A folder of the test's own, for the cache or for temporary files. */
static char test_folder[64];

static inline int test_remove(const char *path, const struct stat *status, int kind,
                              struct FTW *place) {
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static inline int make_folder(void **state) {
    (void)state;
    strcpy(test_folder, "/tmp/lockstep-test-XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    chmod(test_folder, 0700);
    return nftw(test_folder, test_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Compiles text; the log is printed where the status is not the expected one. */
static inline RtcOutput compile_text(const char *target, RtcForm form, ls_math math,
                                     const char *source, ls_status expected) {
    RtcOutput output;
    const Rtc *rtc = rtc_for_target(target);
    assert_non_null(rtc);
    ls_status status =
        rtc->compile(source, strlen(source), "test.step", target, form, math, &output);
    assert_non_null(output.log);
    if (status != expected) print_error("%s: status %d\n%s\n", target, (int)status, output.log);
    assert_int_equal(status, expected);
    if (status == LS_OK) {
        assert_non_null(output.data);
        assert_int_equal(((char *)output.data)[output.size], 0);
    } else {
        assert_null(output.data);
        assert_true(strlen(output.log) > 10);
    }
    return output;
}

static inline void assert_says(const char *log, const char *words) {
    bool found = log && strstr(log, words);
    if (!found) print_error("'%s' is not in:\n%s\n", words, log ? log : "(nothing)");
    assert_true(found);
}

/* The promised target of this number among those of a toolchain; NULL behind the last. */
static inline const ls_target *tried_with(const char *toolchain, size_t number) {
    const ls_target *chip;
    for (size_t i = 0; (chip = ls_target_at(i)); i++)
        if (strcmp(chip->tried, toolchain) == 0 && number-- == 0) return chip;
    return NULL;
}

/* Whether a toolchain is there; if not, says why the test is skipped. */
static inline bool toolchain_here(const char *name) {
    char text[1024];
    bool here = rtc_named(name)->describe(text, sizeof text);
    if (!here) print_message("skipped: %s\n", text);
    return here;
}

static inline size_t files_in(const char *folder) {
    size_t count = 0;
    DIR *stream = opendir(folder);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return count;
}

/* The exit status of a child process that runs `work`; assertions do not work in there. */
static inline int in_child(int (*work)(void *), void *data) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(work(data));
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
