/* program.c: compilers that are programs, run in a private folder, under a time limit, on a source
 * that lies there. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM ((uint64_t)1 << 20) /* bytes that a compile needs, and times its source's */
#define SOURCES 8
#define IMAGE_LIMIT ((size_t)1 << 30)

bool rtc_find_program(const char *name, char *path, size_t size) {
    if (strchr(name, '/'))
        return (size_t)snprintf(path, size, "%s", name) < size && access(path, X_OK) == 0;
    const char *folders = environment_foreign("PATH");
    if (!folders || !*folders) folders = "/usr/local/bin:/usr/bin:/bin";
    for (const char *next = folders; next;) {
        size_t length = strcspn(next, ":");
        struct stat status;
        if ((size_t)snprintf(path, size, "%.*s/%s", (int)length, length ? next : ".", name) <
                size &&
            stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
            return true;
        next = next[length] ? next + length + 1 : NULL;
    }
    return false;
}

/* rtc_guard_run takes char *const *; it does not write to the words. */
size_t rtc_add_words(char **words, size_t count, const char *const *more) {
    while (*more) words[count++] = (char *)(uintptr_t)*more++;
    return count;
}

/* The source under a first line that makes messages speak of `label`. */
static bool write_source(const char *path, const char *before, const char *source, size_t size,
                         const char *label) {
    FILE *file = fopen(path, "wbe");
    if (!file) return false;
    if (label) {
        fprintf(file, "%s#line 1 \"", before);
        for (const char *c = label; *c; c++)
            fputc((unsigned char)*c < ' ' || *c == '"' || *c == '\\' ? '_' : *c, file);
        fputs("\"\n", file);
    }
    bool good = fwrite(source, 1, size, file) == size;
    good = !ferror(file) && good;
    return fclose(file) == 0 && good;
}

ls_status rtc_work_start(RtcWork **made, const char *before, const char *source, size_t size,
                         const char *label, RtcOutput *output) {
    char reason[RTC_PATH_SIZE + 256];
    RtcWork *work = calloc(1, sizeof *work);
    *made = NULL;
    if (!work) return rtc_fail(output, LS_ERROR_MEMORY, "out of memory");
    if (!rtc_guard_start(&work->guard, true, ROOM + SOURCES * (uint64_t)size, reason,
                         sizeof reason)) {
        free(work);
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    }
    const char *path = work->guard.folder;
    snprintf(work->source, sizeof work->source, "%s/kernel.c", path);
    snprintf(work->object, sizeof work->object, "%s/kernel.o", path);
    snprintf(work->result, sizeof work->result, "%s/kernel.out", path);
    if (!write_source(work->source, before, source, size, label)) {
        rtc_fail(output, LS_ERROR_TOOLCHAIN, "the source cannot be written to %s: %s", work->source,
                 strerror(errno));
        rtc_work_end(work);
        return LS_ERROR_TOOLCHAIN;
    }
    *made = work;
    return LS_OK;
}

ls_status rtc_work_run(RtcWork *work, const char *path, char *const words[], RtcRun *run,
                       RtcOutput *output) {
    char reason[RTC_PATH_SIZE + 256];
    if (!rtc_guard_run(&work->guard, path, words, run, reason, sizeof reason))
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s", reason);
    if (run->late == RTC_IN_TIME && run->status == 0) return LS_OK;
    if (run->late != RTC_IN_TIME)
        rtc_explain_late(run->late, rtc_timeout(), reason, sizeof reason);
    else
        rtc_explain_exit(run->status, reason, sizeof reason);
    rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s %s\n%s", path, reason, run->log ? run->log : "");
    free(run->log);
    run->log = NULL;
    return LS_ERROR_TOOLCHAIN;
}

ls_status rtc_work_take(const RtcWork *work, const char *path, bool image, const char *log,
                        RtcOutput *output) {
    char *data = NULL;
    size_t size = 0;
    if (!rtc_read_file(work->result, IMAGE_LIMIT, &data, &size) || size == 0) {
        free(data);
        return rtc_fail(output, LS_ERROR_TOOLCHAIN, "%s left no result\n%s", path, log ? log : "");
    }
    if (image && (size < 4 || memcmp(data, "\177ELF", 4) != 0)) {
        free(data);
        return rtc_fail(output, LS_ERROR_TOOLCHAIN,
                        "%s left something that is no shared object\n%s", path, log ? log : "");
    }
    ls_status status = rtc_fail(output, LS_OK, "%s", log ? log : "");
    output->data = data;
    output->size = size;
    return status;
}

void rtc_work_end(RtcWork *work) {
    rtc_guard_end(&work->guard);
    free(work);
}
