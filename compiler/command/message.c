/* message.c: what the command says that is not a result: errors, notes and progress, all on stderr.
 */
#include "files.h"
#include "command.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool color_wanted(FILE *stream) {
    const char *none = command_environment(VARIABLE_NO_COLOR),
               *terminal = command_environment_foreign("TERM");
    return isatty(fileno(stream)) && !(none && *none) &&
           !(terminal && strcmp(terminal, "dumb") == 0);
}

static void print_label(const char *label, const char *color) {
    bool colored = color_wanted(stderr);
    fprintf(stderr, "%s%s%s", colored ? color : "", label, colored ? "\033[0m" : "");
}

void put_text(FILE *file, const char *text, size_t size) {
    for (size_t i = 0, end; i < size; i = end) {
        for (end = i; end < size; end++) {
            const unsigned char c = (unsigned char)text[end], next = (unsigned char)text[end + 1];
            if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) break;
            if (c == 0xc2 && end + 1 < size && next >= 0x80 && next < 0xa0) break;
        }
        fwrite(text + i, 1, end - i, file);
        if (end == size) break;
        fputs("\xef\xbf\xbd", file); /* U+FFFD, as in the compiler's messages */
        end += (unsigned char)text[end] == 0xc2 ? 2 : 1;
    }
}

int report(const Failure *failure) {
    fflush(stdout); /* what was printed first stays first where both go to one file */
    fputs("lockstep: ", stderr);
    print_label("error: ", "\033[1;31m");
    size_t size = strlen(failure->text); /* toolchains end their logs with empty lines */
    while (size && failure->text[size - 1] == '\n') size--;
    put_text(stderr, failure->text, size);
    fputs("\n", stderr);
    if (failure->help[0]) {
        print_label("help: ", "\033[1;36m");
        put_text(stderr, failure->help, strlen(failure->help));
        fputs("\n", stderr);
    }
    return failure->status;
}

int usage_error(const Command *command, const char *format, ...) {
    Failure failure;
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail(&failure, STATUS_USAGE, "%s", text);
    fail_help(&failure, "usage: lockstep %s %s", command->name, command->arguments);
    return report(&failure);
}

void note(const char *format, ...) {
    Buffer text = {0};
    va_list arguments;
    va_start(arguments, format);
    buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    fputs("lockstep: ", stderr);
    if (text.size) put_text(stderr, text.data, text.size);
    fputs("\n", stderr);
    buffer_free(&text);
}

int exit_status(ls_status status) {
    static const int statuses[LS_STATUS_COUNT] = {
        [LS_OK] = STATUS_DONE,
        [LS_ERROR_ARGUMENT] = STATUS_USAGE,
        [LS_ERROR_PROGRAM] = STATUS_INPUT,
        [LS_ERROR_BIND] = STATUS_INPUT,
        [LS_ERROR_STATE] = STATUS_DEVICE,
        [LS_ERROR_FILE] = STATUS_INPUT,
        [LS_ERROR_MEMORY] = STATUS_DEVICE,
        [LS_ERROR_DEVICE] = STATUS_DEVICE,
        [LS_ERROR_TOOLCHAIN] = STATUS_DEVICE,
        [LS_ERROR_UNSUPPORTED] = STATUS_DEVICE,
        [LS_ERROR_INTERNAL] = STATUS_DEVICE,
        [LS_ERROR_COMM] = STATUS_DEVICE,
    };
    return status < LS_STATUS_COUNT ? statuses[status] : STATUS_DEVICE;
}

bool fail_status(Failure *failure, const ls_context *context, ls_status status) {
    const char *message = ls_error_message(context);
    if (!message || !*message) message = ls_status_name(status);
    /* the call's name says something to a programmer, nothing to whoever typed a command */
    size_t name = strspn(message, "abcdefghijklmnopqrstuvwxyz_");
    if (strncmp(message, "ls_", 3) == 0 && strncmp(message + name, ": ", 2) == 0)
        message += name + 2;
    return fail(failure, exit_status(status), "%s", message);
}

double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

Progress progress_begin(const char *what) {
    return (Progress){.what = what, .began = seconds()};
}

void progress_show(Progress *progress, uint64_t done, uint64_t total) {
    enum { WIDTH = 30 };
    double now = seconds();
    if (now - progress->began < 1 || now - progress->shown < 0.1 || !isatty(STDERR_FILENO)) return;
    double part = total ? (double)done / (double)total : 1;
    double left = part > 0 ? (now - progress->began) * (1 - part) / part : 0;
    int filled = (int)(part * WIDTH);
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %llu of %llu, %.0f s left \033[K", progress->what, bar,
            (unsigned long long)done, (unsigned long long)total, left);
    fflush(stderr);
    progress->shown = now;
    progress->visible = true;
}

void progress_end(Progress *progress) {
    if (progress->visible) fputs("\r\033[K", stderr);
    progress->visible = false;
}
