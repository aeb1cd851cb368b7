/* emit.c: `lockstep emit`: the generated source, or what a toolchain makes of it. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Options {
    StringList targets, sizes;
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

/* What is to be emitted: a form of ls_compilation_emit and what it is. */
typedef struct Form {
    Buffer words;
    ls_content content;
} Form;

/* Completes what --target says. A target alone requests the source in its dialect. */
static bool complete_form(const char *text, Form *form, Failure *failure) {
    const size_t size = strcspn(text, ":#");
    char *target = copy_text(text, strcspn(text, "#"));
    const char *dialect = ls_target_dialect(target);
    free(target);
    const ls_form *found = find_form(text, size);
    *form = (Form){.content = dialect ? LS_CONTENT_SOURCE : found ? found->content : 0};
    if (dialect) buffer_printf(&form->words, "%s:", dialect);
    buffer_puts(&form->words, text);
    if (dialect) return true;
    if (!found) return refuse(text, failure);
    if (found->target && text[size] == ':' && !text[size + 1])
        return fail(failure, STATUS_USAGE, "after '%s' should stand a device, as in %s:%s", text,
                    found->name, found->target);
    return true;
}

/* The variant that arrays of these lengths take: the compiler chooses it as a launch does. */
static bool add_sizes(Form *form, const char *text, const StringList *sizes, Failure *failure) {
    if (!sizes->count) return true;
    if (form->content < LS_CONTENT_SOURCE)
        return fail(failure, STATUS_USAGE,
                    "--size says for which lengths code is shown, and %s is the same for all",
                    text);
    if (strchr(text, '#'))
        return fail(failure, STATUS_USAGE, "%s names a variant, and --size chooses one", text);
    for (size_t i = 0; i < sizes->count; i++)
        buffer_printf(&form->words, "%s%s", i ? "," : "#", sizes->items[i]);
    return true;
}

static bool emit_form(ls_compilation *compilation, size_t step, const Form *form, const char *text,
                      const char *output, Failure *failure) {
    const char *data;
    size_t size;
    if (form->content == LS_CONTENT_CODE && !output && isatty(STDOUT_FILENO)) {
        fail(failure, STATUS_USAGE, "%s is binary, not for a terminal", text);
        fail_help(failure, "write it to a file: -o FILE");
        return false;
    }
    ls_status status = ls_compilation_emit(compilation, step, form->words.data, &data, &size);
    if (status != LS_OK)
        return fail(failure, exit_status(status), "%s", ls_compilation_message(compilation));
    if (output) return file_write_whole(output, data, size, failure);
    fwrite(data, 1, size, stdout); /* main checks the stream at the end */
    return true;
}

static bool emit_one(ls_compilation *compilation, size_t step, const char *text,
                     const StringList *sizes, const char *output, Failure *failure) {
    Form form;
    const bool good = complete_form(text, &form, failure) &&
                      add_sizes(&form, text, sizes, failure) &&
                      emit_form(compilation, step, &form, text, output, failure);
    buffer_free(&form.words);
    return good;
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    Failure failure = {0};
    ls_compilation *compilation;
    StringList targets = options->targets, sizes = {0};
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
        bool good = source_choose_step(compilation, &name, &step, &failure) &&
                    sizes_split(&options->sizes, &sizes, &failure);
        if (good && targets.count == 0) {
            good = device_target(&invocation->common, target, sizeof target, &failure);
            targets = (StringList){device, 1};
        }
        for (size_t i = 0; good && i < targets.count; i++)
            good = emit_one(compilation, step, targets.items[i], &sizes, options->output, &failure);
        if (!good) status = report(&failure);
        ls_compilation_destroy(compilation);
    }
    for (size_t i = 0; i < sizes.count; i++) free((void *)(uintptr_t)sizes.items[i]);
    free(sizes.items);
    free(name.path);
    return status;
}

static const Option emit_options[] = {
    {'t', "target", "T", OPTION_LIST, offsetof(Options, targets),
     "cuda, hip, opencl or c: source; ptx, cubin, hsaco or asm: what the\n"
     "toolchain makes of it; ir, plan or nest: the compiler's own forms. A device\n"
     "may follow, cubin:sm_90, or stand alone, sm_90. May be given several times.\n"
     "By default the source for --device"},
    {0, "size", "AXIS=LENGTH,...", OPTION_LIST, offsetof(Options, sizes),
     "the code that contiguous arrays of these lengths take, n=64M,k=8 (K M\n"
     "G: powers of 1024); of a list t=148,n=1M, or n=768+2K for each tensor.\n"
     "By default what long arrays take"},
    {'o', "output", "FILE", OPTION_TEXT, offsetof(Options, output), "write there, not to stdout"},
};

const Command command_emit = {
    .name = "emit",
    .summary = "prints the code generated for a step",
    .arguments = "FILE[:STEP] [--target T] [--size AXIS=LENGTH,...]",
    .examples = "  lockstep emit adamw.step --target cuda\n"
                "  lockstep emit softmax.step --target sm_90 --size b=8192,c=64\n"
                "  lockstep emit adamw.step:adamw --target cubin:sm_90 -o adamw.cubin",
    .options = emit_options,
    .option_count = COUNT(emit_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .device = true,
    .run = run,
};
