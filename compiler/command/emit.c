/* emit.c: `lockstep emit`: the generated source, or what a toolchain makes of it. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Options {
    StringList targets;
    const char *output;
} Options;

static const ls_form *find_form(const char *name, size_t size) {
    for (size_t i = 0; ls_form_at(i); i++) {
        const ls_form *form = ls_form_at(i);
        if (strlen(form->name) == size && strncmp(name, form->name, size) == 0) return form;
    }
    return NULL;
}

static bool refuse(const char *text, Failure *failure) {
    size_t count = 0;
    while (ls_form_at(count)) count++;
    const char **names = memory(count * sizeof *names);
    Buffer list = {0}, with = {0};
    for (size_t i = 0; i < count; i++) {
        const ls_form *form = ls_form_at(i);
        names[i] = form->name;
        buffer_printf(&list, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", form->name);
        if (form->named)
            buffer_printf(&with, "%s%s:%s", with.size ? ", " : "", form->name, form->target);
    }
    const size_t size = strcspn(text, ":");
    char *name = copy_text(text, size);
    const char *near = nearest(name, names, count);
    fail(failure, STATUS_USAGE, "unknown target '%s'", text);
    if (near)
        fail_help(failure, "did you mean %s%s?", near, text + size);
    else
        fail_help(failure, "%s, where needed with the device: %s", list.data, with.data);
    buffer_free(&list);
    buffer_free(&with);
    free(names);
    free(name);
    return false;
}

/* Completes what --target says to a form of ls_compilation_emit. A target alone asks for the source
 * in its dialect. */
static bool complete_form(const char *text, char *form, size_t capacity, bool *binary,
                          Failure *failure) {
    const size_t size = strcspn(text, ":");
    const char *dialect = ls_target_dialect(text);
    *binary = false;
    if (dialect) {
        snprintf(form, capacity, "%s:%s", dialect, text);
        return true;
    }
    const ls_form *found = find_form(text, size);
    if (!found) return refuse(text, failure);
    if (found->target && text[size] && !text[size + 1])
        return fail(failure, STATUS_USAGE, "after '%s' should stand a device, as in %s:%s", text,
                    found->name, found->target);
    *binary = found->content == LS_CONTENT_CODE;
    snprintf(form, capacity, "%s", text);
    return true;
}

static bool emit_one(ls_compilation *compilation, size_t step, const char *text, const char *output,
                     Failure *failure) {
    char form[100];
    bool binary;
    const char *data;
    size_t size;
    if (!complete_form(text, form, sizeof form, &binary, failure)) return false;
    if (binary && !output && isatty(STDOUT_FILENO)) {
        fail(failure, STATUS_USAGE, "%s is binary, not for a terminal", text);
        fail_help(failure, "write it to a file: -o FILE");
        return false;
    }
    ls_status status = ls_compilation_emit(compilation, step, form, &data, &size);
    if (status != LS_OK)
        return fail(failure, exit_status(status), "%s", ls_compilation_message(compilation));
    if (output) return file_write_whole(output, data, size, failure);
    fwrite(data, 1, size, stdout); /* main checks the stream at the end */
    return true;
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    Failure failure = {0};
    ls_compilation *compilation;
    StringList targets = options->targets;
    char target[64];
    const char *device[] = {target};
    size_t step;
    if (invocation->argument_count != 1)
        return usage_error(invocation->command, "emit takes one file, %zu given",
                           invocation->argument_count);
    if (options->output && targets.count > 1)
        return usage_error(invocation->command, "-o takes one --target, %zu given", targets.count);
    SourceName name = source_split(invocation->arguments[0]);
    int status = source_compile(invocation, name.path, &compilation);
    if (status == STATUS_DONE) {
        bool good = source_choose_step(compilation, &name, &step, &failure);
        if (good && targets.count == 0) {
            good = device_target(&invocation->common, target, sizeof target, &failure);
            targets = (StringList){device, 1};
        }
        for (size_t i = 0; good && i < targets.count; i++)
            good = emit_one(compilation, step, targets.items[i], options->output, &failure);
        if (!good) status = report(&failure);
        ls_compilation_destroy(compilation);
    }
    free(name.path);
    return status;
}

static const Option emit_options[] = {
    {'t', "target", "T", OPTION_LIST, offsetof(Options, targets),
     "cuda, hip or c: source; ptx, cubin, hsaco or asm: what the toolchain\n"
     "makes of it; ir, plan or nest: the compiler's own forms. A device may follow,\n"
     "cubin:sm_90, or stand alone, sm_90. May be given several times.\n"
     "By default the source for --device"},
    {'o', "output", "FILE", OPTION_TEXT, offsetof(Options, output), "write there, not to stdout"},
};

const Command command_emit = {
    .name = "emit",
    .summary = "prints the code generated for a step",
    .arguments = "FILE[:STEP] [--target T]",
    .examples = "  lockstep emit adamw.step --target cuda\n"
                "  lockstep emit adamw.step:adamw --target cubin:sm_90 -o adamw.cubin",
    .options = emit_options,
    .option_count = COUNT(emit_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .device = true,
    .run = run,
};
