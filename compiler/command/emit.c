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

static const struct {
    const char *name;
    bool binary;
} forms[] = {{"cuda", false}, {"hip", false}, {"c", false},  {"ptx", false}, {"cubin", true},
             {"hsaco", true}, {"asm", false}, {"ir", false}, {"plan", false}};

/* A target alone asks for the source in its dialect. */
static const struct {
    const char *prefix, *form;
} dialects[] = {{"sm_", "cuda"}, {"compute_", "cuda"}, {"gfx", "hip"}, {"cpu", "c"}};

/* Completes what --target says to a form of ls_compilation_emit. */
static bool complete_form(const char *text, char *form, size_t capacity, bool *binary,
                          Failure *failure) {
    const char *names[COUNT(forms)];
    size_t size = strcspn(text, ":");
    *binary = false;
    for (size_t i = 0; i < COUNT(dialects); i++)
        if (strncmp(text, dialects[i].prefix, strlen(dialects[i].prefix)) == 0) {
            snprintf(form, capacity, "%s:%s", dialects[i].form, text);
            return true;
        }
    for (size_t i = 0; i < COUNT(forms); i++) {
        names[i] = forms[i].name;
        if (strlen(names[i]) != size || strncmp(names[i], text, size) != 0) continue;
        if (text[size] && !text[size + 1])
            return fail(failure, STATUS_USAGE,
                        "after '%s' should stand a device, as in cubin:sm_90", text);
        *binary = forms[i].binary;
        snprintf(form, capacity, "%s", text);
        return true;
    }
    char *name = copy_text(text, size);
    const char *near = nearest(name, names, COUNT(names));
    free(name);
    fail(failure, STATUS_USAGE, "unknown target '%s'", text);
    if (near)
        fail_help(failure, "did you mean %s%s?", near, text + size);
    else
        fail_help(failure,
                  "cuda, hip, c, ptx, cubin, hsaco, asm, ir or plan, where needed with the "
                  "device: cubin:sm_90, hsaco:gfx90a");
    return false;
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
     "makes of it; ir or plan: the compiler's own forms. A device may follow,\n"
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
