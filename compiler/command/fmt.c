/* fmt.c: `lockstep fmt`: the one layout of .step files. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

typedef struct Options {
    bool check;
} Options;

/* One file: rewritten if its layout differs; with --check only named. */
static int format_file(const char *path, bool check) {
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    char *text, *formatted = NULL;
    size_t size;
    Failure failure = {0};
    if (!file_read(path, &text, &size, &failure)) return report(&failure);
    ls_status answer = ls_format_text(name, text, size, &formatted);
    int status = exit_status(answer);
    if (answer == LS_ERROR_PROGRAM) {
        fputs(formatted ? formatted : "", stderr);
    } else if (answer != LS_OK) {
        fail(&failure, status, "%s: %s", name, ls_status_name(answer));
        report(&failure);
    } else {
        bool same = strlen(formatted) == size && memcmp(formatted, text, size) == 0;
        if (check && !same) {
            printf("%s\n", name);
            status = STATUS_INPUT;
        } else if (standard && !check) {
            fputs(formatted, stdout);
        } else if (!same && !file_write_whole(path, formatted, strlen(formatted), &failure)) {
            status = report(&failure);
        }
    }
    ls_text_free(formatted);
    free(text);
    return status;
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    int worst = STATUS_DONE;
    if (invocation->argument_count == 0) return usage_error(invocation->command, "no file given");
    for (size_t i = 0; i < invocation->argument_count; i++) {
        int status = format_file(invocation->arguments[i], options->check);
        if (status > worst) worst = status;
    }
    return worst;
}

static const Option fmt_options[] = {
    {0, "check", NULL, OPTION_FLAG, offsetof(Options, check),
     "change nothing; name the files whose layout differs and exit with 1"},
};

const Command command_fmt = {
    .name = "fmt",
    .summary = "gives .step files the one layout",
    .arguments = "FILE...",
    .details =
        "Files are rewritten where they stand. - reads standard input and writes standard output.",
    .examples = "  lockstep fmt adamw.step\n"
                "  lockstep fmt --check *.step",
    .options = fmt_options,
    .option_count = COUNT(fmt_options),
    .options_size = sizeof(Options),
    .run = run,
};
