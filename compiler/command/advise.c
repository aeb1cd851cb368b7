/* advise.c: `lockstep advise`: what a step will take, before anything of it runs.
 *
 * The model is the compiler's (ls_compilation_advise). A chip that --target names has the figures
 * of its datasheet; the device in hand is measured by small programs first. Memory is counted by
 * the plan, so the largest batch is found without allocating it. */
#include "files.h"
#include "command.h"
#include "advise.h"

#include <stdlib.h>
#include <string.h>

typedef struct Options {
    StringList sizes;
    const char *target, *vary, *memory, *svg;
    double peak;
    bool json;
} Options;

uint64_t advise_memory(const ls_advice *advice) {
    return advice->array_bytes + advice->temporary_bytes;
}

bool advise_at(Advise *advise, int64_t length, bool plan_only, ls_advice *advice,
               Failure *failure) {
    char word[160];
    ls_advise_options options = advise->options;
    options.sizes = advise->sizes.items;
    options.size_count = advise->sizes.count;
    options.plan_only = plan_only;
    if (advise->vary.axis) {
        snprintf(word, sizeof word, "%s=%lld", advise->vary.axis, (long long)length);
        advise->sizes.items[options.size_count++] = word;
    }
    ls_status status = ls_compilation_advise(advise->compilation, advise->step, &options, advice);
    return status == LS_OK ||
           fail(failure, exit_status(status), "%s", ls_compilation_message(advise->compilation));
}

/* ---- what is asked ---- */

static bool find_axis(const ls_image *image, const char *name, size_t *axis) {
    for (*axis = 0; *axis < image->axis_count; ++*axis)
        if (strcmp(image->axes[*axis].name, name) == 0) return true;
    return false;
}

static bool check_axis(Advise *advise, const char *name, Failure *failure) {
    const ls_image *image;
    size_t axis;
    ls_status status =
        ls_compilation_image(advise->compilation, advise->step, advise->options.target, &image);
    if (status != LS_OK)
        return fail(failure, exit_status(status), "%s",
                    ls_compilation_message(advise->compilation));
    if (!find_axis(image, name, &axis)) {
        Buffer list = {0};
        for (size_t i = 0; i < image->axis_count; i++)
            buffer_printf(&list, "%s%s", i ? ", " : "", image->axes[i].name);
        fail(failure, STATUS_USAGE, "step '%s' has no axis '%s' for --vary", image->step, name);
        fail_help(failure, "it has %s", list.data ? list.data : "none");
        buffer_free(&list);
        return false;
    }
    const ls_image_axis *row = &image->axes[axis];
    if (row->fixed >= 0)
        return fail(failure, STATUS_USAGE, "axis '%s' is %lld in the source and cannot vary", name,
                    (long long)row->fixed);
    if (row->terms || sizes_is_rest(image, axis) || row->whole)
        return fail(failure, STATUS_USAGE, "axis '%s' follows from others and cannot vary", name);
    return true;
}

/* Takes the axis that varies out of the sizes, and the length that it has there. */
static bool split_sizes(Advise *advise, const Options *options, Failure *failure) {
    StringList all = {0};
    bool good = sizes_split(&options->sizes, &all, failure);
    const size_t length = options->vary ? strlen(options->vary) : 0;
    advise->given = -1;
    for (size_t i = 0; i < all.count; i++) {
        const char *word = all.items[i];
        const bool varies =
            length && strncmp(word, options->vary, length) == 0 && word[length] == '=';
        if (!varies) {
            list_add(&advise->sizes, word);
            continue;
        }
        if (strchr(word, '+'))
            good = good && fail(failure, STATUS_USAGE, "--vary needs one length of axis '%s'",
                                options->vary);
        advise->given = strtoll(word + length + 1, NULL, 10);
        free((void *)(uintptr_t)word);
    }
    free(all.items);
    advise->sizes.items = memory_grow(advise->sizes.items, advise->sizes.count + 1,
                                      sizeof *advise->sizes.items); /* room for one more */
    return good;
}

/* ---- the machine ---- */

/* The target and what is known of it; measures the device where no chip is named. */
static bool choose_machine(Advise *advise, const Invocation *invocation, Measured *measured,
                           char *target, size_t size, Failure *failure) {
    const Options *options = invocation->options;
    const bool named = options->target && strcmp(options->target, ls_target_at(0)->name) != 0;
    snprintf(target, size, "%s", options->target ? options->target : "");
    advise->device = target;
    if (named && options->peak > 0) {
        measured->rates[0] = (ls_memory_rate){1, options->peak, options->peak};
        measured->machine = (ls_machine){.rates = measured->rates, .rate_count = 1};
    }
    if (!named) {
        ls_context *context;
        const char *device = options->target ? ls_target_at(0)->name : invocation->common.device;
        ls_status status = ls_context_create(device, NULL, &context);
        if (status != LS_OK) return fail_status(failure, NULL, status);
        snprintf(target, size, "%s", ls_context_target(context));
        const bool good =
            machine_measure(context, options->peak, RATES_MAX, measured, failure) &&
            (options->memory || machine_free(ls_context_device(context), &advise->budget, failure));
        ls_context_destroy(context);
        if (!good) return false;
    }
    advise->options = (ls_advise_options){.target = target, .machine = measured->machine};
    return true;
}

static bool choose_budget(Advise *advise, const Options *options, Failure *failure) {
    int64_t bytes;
    if (!options->memory) return true;
    if (!size_parse(options->memory, &bytes) || bytes < 1)
        return fail(failure, STATUS_USAGE, "--memory takes bytes, as in 24G, not '%s'",
                    options->memory);
    advise->budget = (uint64_t)bytes;
    return true;
}

/* ---- the answer ---- */

static bool write_results(const Advise *advise, const Options *options, Failure *failure) {
    Buffer out = {0}, picture = {0};
    bool good = true;
    (options->json ? advise_json : advise_text)(advise, &out);
    if (options->svg) {
        roofline_draw(advise, &picture);
        good = file_write_whole(options->svg, picture.data, picture.size, failure);
    }
    if (good) fwrite(out.data, 1, out.size, stdout);
    buffer_free(&out);
    buffer_free(&picture);
    return good;
}

/* Of an axis that varies without a length the figures are for the one from which on it stops
 * paying. */
static bool find_advice(Advise *advise, const Options *options, Failure *failure) {
    advise->vary.axis = options->vary;
    if (options->vary && !check_axis(advise, options->vary, failure)) return false;
    if (!advise->budget) { /* a chip's own */
        ls_advice first;
        if (!advise_at(advise, 1, true, &first, failure)) return false;
        advise->budget = first.device_bytes;
    }
    if (options->vary && !vary_find(advise, failure)) return false;
    const int64_t best = advise->vary.pays_to ? advise->vary.pays_to : 1;
    advise->chosen = advise->given >= 0 ? advise->given : best;
    return advise_at(advise, advise->chosen, false, &advise->advice, failure);
}

static bool advise_step(const Invocation *invocation, Advise *advise, const SourceName *name,
                        Failure *failure) {
    const Options *options = invocation->options;
    char target[64];
    Measured measured = {0};
    if (!source_choose_step(advise->compilation, name, &advise->step, failure) ||
        !split_sizes(advise, options, failure) || !choose_budget(advise, options, failure))
        return false;
    advise->name = ls_compilation_step_name(advise->compilation, advise->step);
    return choose_machine(advise, invocation, &measured, target, sizeof target, failure) &&
           find_advice(advise, options, failure) && write_results(advise, options, failure);
}

static int run(const Invocation *invocation) {
    Failure failure = {0};
    Advise advise = {0};
    if (invocation->argument_count != 1)
        return usage_error(invocation->command, "advise takes one file, %zu given",
                           invocation->argument_count);
    SourceName name = source_split(invocation->arguments[0]);
    int status = source_compile(invocation, name.path, &advise.compilation);
    if (status == STATUS_DONE) {
        if (!advise_step(invocation, &advise, &name, &failure)) status = report(&failure);
        ls_compilation_destroy(advise.compilation);
    }
    for (size_t i = 0; i < advise.sizes.count; i++) free((void *)(uintptr_t)advise.sizes.items[i]);
    free(advise.sizes.items);
    free(advise.vary.rows);
    free(name.path);
    return status;
}

#define OFFSET(member) offsetof(Options, member)
static const Option advise_options[] = {
    {0, "size", "AXIS=LENGTH,...", OPTION_LIST, OFFSET(sizes),
     "axis lengths: b=1024,v=50257 (K M G: powers of 1024)"},
    {0, "vary", "AXIS", OPTION_TEXT, OFFSET(vary),
     "the largest length of this axis that fits the memory, and from where\non a larger one stops "
     "paying; without a length in --size the kernels'\nfigures are for that one"},
    {0, "memory", "BYTES", OPTION_TEXT, OFFSET(memory),
     "what may be used, 24G; by default what is free on --device, or all of\nthe chip's"},
    {'t', "target", "TARGET", OPTION_TEXT, OFFSET(target),
     "a chip that need not be here, by its datasheet: sm_90, gfx942; by\ndefault --device, which "
     "is measured"},
    {0, "peak", "GB/s", OPTION_NUMBER, OFFSET(peak), "memory speed, instead of what is measured"},
    {0, "json", NULL, OPTION_FLAG, OFFSET(json), "as JSON"},
    {0, "svg", "FILE", OPTION_TEXT, OFFSET(svg), "draws the roofline with a point for each kernel"},
};

const Command command_advise = {
    .name = "advise",
    .summary = "predicts time, limits and the largest batch before a step runs",
    .arguments = "FILE[:STEP] --size AXIS=LENGTH,...",
    .details =
        "For each kernel: what binds it (memory, instructions, latency, launch), registers,\n"
        "resident warps and the time that a model of the machine gives. Memory is that of the\n"
        "step's arrays and temporaries.",
    .examples = "  lockstep advise softmax.step --size b=8192,c=4096 --target sm_90\n"
                "  lockstep advise std/losses:cross_entropy --size c=50257 --vary b --memory 24G\n"
                "  lockstep advise adamw.step --size n=64M --svg roofline.svg --json",
    .options = advise_options,
    .option_count = COUNT(advise_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .device = true,
    .run = run,
};
