/* source.c: from FILE[:STEP] on the command line to a compilation, or to a step on a device. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SourceName source_split(const char *text) {
    SourceName name = {.path = copy_text(text, strlen(text))};
    char *colon = strrchr(name.path, ':');
    /* a file may have a colon in its name; a step's name is a word */
    if (!colon || strchr(colon, '/') || access(text, F_OK) == 0) return name;
    *colon = '\0';
    name.step = colon + 1;
    return name;
}

ls_compile_options compile_options(const Common *common) {
    return (ls_compile_options){.defines = common->defines.items,
                                .define_count = common->defines.count,
                                .math = common->math,
                                .import_paths = common->import_paths.items,
                                .import_path_count = common->import_paths.count};
}

static ls_status compile(const ls_compile_options *options, const char *path,
                         ls_compilation **compilation, Failure *failure) {
    char *text;
    size_t size;
    if (strcmp(path, "-") != 0) return ls_compile_file(path, options, compilation);
    if (!file_read(path, &text, &size, failure)) return LS_ERROR_FILE;
    ls_status status = ls_compile_text("standard input", text, size, options, compilation);
    free(text);
    return status;
}

/* Prints what a compilation says, and ends it where it failed. */
static ls_status report_all(ls_compilation *compilation, ls_status status) {
    Failure failure = {0};
    if (status == LS_ERROR_PROGRAM ||
        (status == LS_OK && ls_compilation_diagnostic_count(compilation))) {
        fflush(stdout);
        fputs(color_wanted(stderr) ? ls_compilation_message_color(compilation)
                                   : ls_compilation_message(compilation),
              stderr);
    } else if (status != LS_OK) {
        fail(&failure, exit_status(status), "%s", ls_compilation_message(compilation));
        report(&failure);
    }
    if (status != LS_OK) ls_compilation_destroy(compilation);
    return status;
}

static int read_source(const Invocation *invocation, const char *path, bool check,
                       ls_compilation **compilation) {
    ls_compile_options options = compile_options(&invocation->common);
    Failure failure = {0};
    double began = seconds();
    *compilation = NULL;
    ls_status status = compile(&options, path, compilation, &failure);
    if (!*compilation) {
        if (!failure.text[0])
            fail(&failure, exit_status(status), "%s: %s", path, ls_status_name(status));
        return report(&failure);
    }
    if (status == LS_OK && check) status = ls_compilation_check(*compilation);
    status = report_all(*compilation, status);
    if (status != LS_OK) *compilation = NULL;
    if (status == LS_OK && invocation->common.verbose)
        note("read %s in %.1f ms", path, 1e3 * (seconds() - began));
    return exit_status(status);
}

int source_compile(const Invocation *invocation, const char *path, ls_compilation **compilation) {
    return read_source(invocation, path, false, compilation);
}

int source_check(const Invocation *invocation, const char *path, ls_compilation **compilation) {
    return read_source(invocation, path, true, compilation);
}

bool source_choose_step(const ls_compilation *compilation, const SourceName *name, size_t *step,
                        Failure *failure) {
    size_t count = ls_compilation_step_count(compilation);
    const char **names = memory(count * sizeof *names);
    Buffer list = {0};
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        names[i] = ls_compilation_step_name(compilation, i);
        buffer_printf(&list, "%s%s", i ? ", " : "", names[i]);
        if (name->step && strcmp(names[i], name->step) == 0) found = i;
    }
    if (!name->step && (count == 1 || ls_compilation_own_step_count(compilation) == 1)) found = 0;
    if (found == count) {
        const char *near = name->step ? nearest(name->step, names, count) : NULL;
        if (count == 0)
            fail(failure, STATUS_INPUT, "%s has no step", name->path);
        else if (name->step)
            fail(failure, STATUS_USAGE, "%s has no step '%s'; it has %s", name->path, name->step,
                 list.data);
        else
            fail(failure, STATUS_USAGE, "%s has %zu steps: %s", name->path, count, list.data);
        if (count && (near || !name->step))
            fail_help(failure, name->step ? "did you mean %s:%s?" : "name one, as in %s:%s",
                      name->path, near ? near : names[0]);
    }
    *step = found;
    free(names);
    buffer_free(&list);
    return found < count;
}

static bool open_context(const Common *common, ls_context **context, Failure *failure) {
    ls_status status = ls_context_create(common->device, NULL, context);
    return status == LS_OK || fail_status(failure, NULL, status);
}

bool device_target(const Common *common, char *target, size_t capacity, Failure *failure) {
    ls_context *context;
    if (!open_context(common, &context, failure)) return false;
    snprintf(target, capacity, "%s", ls_context_target(context));
    ls_context_destroy(context);
    return true;
}

static ls_status load_program(const Invocation *invocation, const char *path, Session *session) {
    ls_compile_options options = compile_options(&invocation->common);
    /* tune compares all there are with what is usual */
    options.no_tuning = options.all_forms = invocation->command == &command_tune;
    return ls_program_load(session->context, path, &options, &session->program);
}

void session_announce(const Invocation *invocation, const Session *session) {
    const char *device = invocation->common.device;
    if (!device || strcmp(device, "auto") == 0 || invocation->common.verbose)
        note("running on %s (%s)", ls_context_device(session->context),
             ls_context_describe(session->context));
}

int session_open(const Invocation *invocation, const char *source, Session *session) {
    Failure failure = {0};
    ls_compilation *compilation;
    size_t step;
    *session = (Session){0};
    SourceName name = source_split(source);
    /* first without a device, so that mistakes in the file are told in full and at once */
    int status = strcmp(name.path, "-") == 0
                     ? usage_error(invocation->command, "a program to run must be a file")
                     : source_compile(invocation, name.path, &compilation);
    if (status != STATUS_DONE) {
        free(name.path);
        return status;
    }
    bool good = source_choose_step(compilation, &name, &step, &failure) &&
                open_context(&invocation->common, &session->context, &failure);
    if (good) {
        ls_status answer = load_program(invocation, name.path, session);
        if (answer == LS_OK)
            answer = ls_step_create(session->program, ls_compilation_step_name(compilation, step),
                                    &session->step);
        good = answer == LS_OK || fail_status(&failure, session->context, answer);
    }
    if (good) session->image = ls_step_image(session->step);
    ls_compilation_destroy(compilation);
    free(name.path);
    if (good) return STATUS_DONE;
    session_close(session);
    return report(&failure);
}

void session_close(Session *session) {
    if (session->step) ls_step_destroy(session->step);
    if (session->program) ls_program_destroy(session->program);
    ls_context_destroy(session->context);
    *session = (Session){0};
}
