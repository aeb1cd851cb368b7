/* log.c: LOCKSTEP_LOG=info or debug: what was decided, on stderr.
 *
 * The one place where the library prints, and only when asked to. Never in a launch. */
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {[LOG_INFO] = "info", [LOG_DEBUG] = "debug"};

bool log_wanted(LogLevel level) {
    const char *text = host_environment(VARIABLE_LOCKSTEP_LOG);
    if (!text) return false;
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcmp(text, words[i]) == 0) return level <= (LogLevel)i;
    return false;
}

void log_write(LogLevel level, const char *format, ...) {
    if (!log_wanted(level)) return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "lockstep: %s: %s\n", words[level],
            text); /* one call: one line among threads */
}

void log_check(void) {
    const char *text = host_environment(VARIABLE_LOCKSTEP_LOG);
    if (!text || !*text) return;
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcmp(text, words[i]) == 0) return;
    fprintf(stderr, "lockstep: warning: LOCKSTEP_LOG is `%.64s`; it takes info or debug\n", text);
}
