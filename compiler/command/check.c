/* check.c: `lockstep check`: parses and type-checks, plans and emits; prints what is wrong. */
#include "files.h"
#include "command.h"

typedef struct Options {
    bool json;
} Options;

static void write_range(JsonWriter *json, const char *file, uint32_t line, uint32_t column,
                        uint32_t end_line, uint32_t end_column) {
    json_string(json, "file", file);
    json_integer(json, "line", line);
    json_integer(json, "column", column);
    json_integer(json, "end_line", end_line);
    json_integer(json, "end_column", end_column);
}

static void write_diagnostic(JsonWriter *json, const ls_diagnostic *d) {
    json_open(json, NULL, '{');
    write_range(json, d->file, d->line, d->column, d->end_line, d->end_column);
    json_string(json, "severity", d->severity);
    json_string(json, "code", d->code);
    json_string(json, "message", d->message);
    json_open(json, "notes", '[');
    for (size_t i = 0; i < d->note_count; i++) {
        const ls_note *n = &d->notes[i];
        json_open(json, NULL, '{');
        write_range(json, n->file, n->line, n->column, n->end_line, n->end_column);
        json_string(json, "message", n->message);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_string(json, "help", d->help);
    json_close(json, '}');
}

/* A file that could not even be read is a diagnostic too, so that an editor sees one list. */
static void write_failure(JsonWriter *json, const char *path, const char *message) {
    ls_diagnostic diagnostic = {.file = path,
                                .line = 1,
                                .column = 1,
                                .end_line = 1,
                                .end_column = 1,
                                .severity = "error",
                                .code = "not-compiled",
                                .message = message};
    write_diagnostic(json, &diagnostic);
}

static int check_json(const Invocation *invocation, const char *path, JsonWriter *json) {
    ls_compile_options options = compile_options(&invocation->common);
    ls_compilation *compilation = NULL;
    ls_status status;
    Failure failure = {0};
    char *text;
    size_t size;
    if (path[0] != '-' || path[1]) {
        status = ls_compile_file(path, &options, &compilation);
    } else if (file_read(path, &text, &size, &failure)) {
        status = ls_compile_text("standard input", text, size, &options, &compilation);
        buffer_free(&(Buffer){text, size, size});
    } else {
        status = LS_ERROR_FILE;
    }
    if (status == LS_OK) status = ls_compilation_check(compilation);
    if (status != LS_OK && status != LS_ERROR_PROGRAM)
        write_failure(json, path,
                      failure.text[0] ? failure.text
                      : compilation   ? ls_compilation_message(compilation)
                                      : ls_status_name(status));
    for (size_t i = 0; compilation && i < ls_compilation_diagnostic_count(compilation); i++)
        write_diagnostic(json, ls_compilation_diagnostic(compilation, i));
    ls_compilation_destroy(compilation);
    return exit_status(status);
}

static int check_text(const Invocation *invocation, const char *path) {
    ls_compilation *compilation;
    const int status = source_check(invocation, path, &compilation);
    if (status != STATUS_DONE) return status;
    const size_t own = ls_compilation_own_step_count(compilation),
                 imported = ls_compilation_step_count(compilation) - own;
    printf("%s: ok", path);
    for (size_t i = 0; i < own; i++)
        printf("%s%s",
               i          ? ", "
               : own == 1 ? ", step "
                          : ", steps ",
               ls_compilation_step_name(compilation, i));
    if (imported) printf("%s %zu imported", own ? ";" : ",", imported);
    printf("\n");
    ls_compilation_destroy(compilation);
    return STATUS_DONE;
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    JsonWriter json = {0};
    int worst = STATUS_DONE;
    if (invocation->argument_count == 0) return usage_error(invocation->command, "no file given");
    if (options->json) {
        json_open(&json, NULL, '{');
        json_open(&json, "diagnostics", '[');
    }
    for (size_t i = 0; i < invocation->argument_count; i++) {
        const char *path = invocation->arguments[i];
        int status =
            options->json ? check_json(invocation, path, &json) : check_text(invocation, path);
        if (status > worst) worst = status;
    }
    if (options->json) {
        json_close(&json, ']');
        json_close(&json, '}');
        fputs(json.text.data, stdout);
        buffer_free(&json.text);
    }
    return worst;
}

static const Option check_options[] = {
    {0, "json", NULL, OPTION_FLAG, offsetof(Options, json), "the diagnostics as JSON, for editors"},
};

const Command command_check = {
    .name = "check",
    .summary = "finds the mistakes in .step files",
    .arguments = "FILE...",
    .details =
        "Prints every error with its place, and exits with 1 if there is any: what the language "
        "does\n"
        "not allow, and steps that no kernel can be made of, on whatever device; no toolchain is\n"
        "asked. FILE may be - for standard input.",
    .examples = "  lockstep check adamw.step\n"
                "  lockstep check --json adamw.step linreg.step",
    .options = check_options,
    .option_count = COUNT(check_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .run = run,
};
