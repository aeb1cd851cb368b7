/* rtc_output.c: what the library and the helper program both use. */
#include "compiler.h"
#include "rtc.h"
#include "rtc_parts.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const RtcToolchain *const rtc_toolchains[RTC_TOOLCHAIN_COUNT] = {
    [RTC_TOOLCHAIN_NVRTC] = &rtc_nvrtc_toolchain, [RTC_TOOLCHAIN_HIPRTC] = &rtc_hiprtc_toolchain};

#define NVRTC "nvrtc"
#define HIPRTC "hiprtc"
const RtcOption rtc_options[] = {
#define X(toolchain, uses, option) {toolchain, option, uses},
#include "rtc_options.def"
#undef X
};
const size_t rtc_option_count = COUNT(rtc_options);
_Static_assert(COUNT(rtc_options) < RTC_OPTIONS_MAX, "all of them and the architecture have room");

size_t rtc_add_options(const char *toolchain, unsigned uses, const char **list, size_t count) {
    for (size_t i = 0; i < rtc_option_count; i++)
        if ((rtc_options[i].uses & uses) && strcmp(rtc_options[i].toolchain, toolchain) == 0)
            list[count++] = rtc_options[i].text;
    return count;
}

void rtc_output_free(RtcOutput *output) {
    free(output->data);
    free(output->log);
    *output = (RtcOutput){0};
}

ls_status rtc_fail(RtcOutput *output, ls_status status, const char *format, ...) {
    va_list arguments;
    char *log = NULL;
    va_start(arguments, format);
    if (vasprintf(&log, format, arguments) < 0) log = NULL;
    va_end(arguments);
    free(output->log);
    output->log = log ? log : calloc(1, 1);
    free(output->data);
    output->data = NULL;
    output->size = 0;
    return output->log ? status : LS_ERROR_MEMORY;
}

double rtc_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

void rtc_scratch_path(pid_t helper, char *path, size_t size) {
    const char *place = getenv("TMPDIR");
    snprintf(path, size, "%s/lockstep-rtc-%ld", place && *place ? place : "/tmp", (long)helper);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    remove(path); /* what cannot be removed stays; there is nobody to tell */
    return 0;
}

void rtc_scratch_remove(const char *path) {
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid())
        nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
