/* output.c: what the library and the helper program both use. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const RtcToolchain *const rtc_toolchains[RTC_TOOLCHAIN_COUNT] = {
    [RTC_TOOLCHAIN_NVRTC] = &rtc_nvrtc_toolchain,
    [RTC_TOOLCHAIN_HIPRTC] = &rtc_hiprtc_toolchain,
    [RTC_TOOLCHAIN_LIBCLANG] = &rtc_libclang_toolchain};

#define NVRTC "nvrtc"
#define HIPRTC "hiprtc"
#define CLANG "clang"
const RtcOption rtc_options[] = {
#define X(toolchain, uses, option) {toolchain, option, uses},
#include "options.def"
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
    free(output->choice);
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

bool rtc_write(int file, const void *data, size_t size) {
    for (const char *next = data; size;) {
        ssize_t put = write(file, next, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        next += put;
        size -= (size_t)put;
    }
    return true;
}

bool rtc_read(int file, void *data, size_t size) {
    for (char *next = data; size;) {
        ssize_t got = read(file, next, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        next += got;
        size -= (size_t)got;
    }
    return true;
}

double rtc_timeout(void) {
    const char *text = environment_value(VARIABLE_LOCKSTEP_COMPILE_TIMEOUT);
    char *end = NULL;
    double seconds = text ? strtod(text, &end) : 0;
    return text && end != text && *end == 0 && seconds > 0 && seconds < 1e6 ? seconds * 1e3 : 120e3;
}

void rtc_explain_late(RtcLate late, double limit, char *text, size_t size) {
    snprintf(text, size,
             "%s %g seconds%s and was ended; LOCKSTEP_COMPILE_TIMEOUT, which is %g, gives it more",
             late == RTC_LATE_TIME ? "used" : "was not done after",
             (late == RTC_LATE_TIME ? limit : RTC_PATIENCE * limit) / 1e3,
             late == RTC_LATE_TIME ? " of processor time" : ", most of them spent waiting,",
             rtc_timeout() / 1e3);
}
