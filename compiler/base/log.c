/* log.c: LOCKSTEP_LOG=info or debug: what was decided, on stderr, as the runtime says it. The one
 * place where the compiler prints, and only when asked to. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void base_log(const char *format, ...) {
    const char *wish = environment_value(VARIABLE_LOCKSTEP_LOG);
    char text[1024];
    if (!wish || (strcmp(wish, "info") != 0 && strcmp(wish, "debug") != 0)) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "lockstep: info: %s\n", text); /* one call: one line among threads */
}
