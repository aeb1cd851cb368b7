/* rtc_output.c: filling an RtcOutput, in the library and in the helper program. */
#include "rtc_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
