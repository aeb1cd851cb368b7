/* explain.c: `lockstep explain`: the plan of a step, as text, JSON or a graph. The report is the
 * compiler's; here it is requested, and drawn through Graphviz. */
#include "files.h"
#include "command.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct Options {
    StringList sizes, targets;
    double peak;
    uint64_t processors, ranks, slots;
    const char *cut, *link;
    StringList gather;
    bool between;
    bool json, dot, svg, schedule, plan;
    const char *output;
} Options;

/* Runs `dot -Tsvg`: the graph comes from a temporary file, so that neither side waits for the
 * other. */
static bool draw(const char *graph, Buffer *svg, Failure *failure) {
    char *words[] = {"dot", "-Tsvg", NULL};
    int ends[2], status = 0;
    pid_t child;
    posix_spawn_file_actions_t actions;
    FILE *input = tmpfile();
    if (!input || fputs(graph, input) < 0 || fflush(input) != 0 || pipe(ends) != 0) {
        if (input) fclose(input);
        return fail(failure, STATUS_DEVICE, "cannot run dot: %s", strerror(errno));
    }
    lseek(fileno(input), 0, SEEK_SET);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(input), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int spawned = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char block[4096];
    for (ssize_t got; spawned == 0;) {
        got = read(ends[0], block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        buffer_add(svg, block, (size_t)got);
    }
    close(ends[0]);
    fclose(input);
    while (spawned == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    bool missing = spawned == ENOENT || (WIFEXITED(status) && WEXITSTATUS(status) == 127);
    if (spawned == 0 && status == 0 && svg->size) return true;
    fail(failure, STATUS_DEVICE,
         missing ? "--svg needs Graphviz, and there is no `dot` on the PATH"
                 : "Graphviz's `dot` failed");
    fail_help(failure,
              missing ? "install the package graphviz, or take --dot and draw the graph elsewhere"
                      : "--dot shows what it was given");
    return false;
}

/* The members of the array "steps" of one report, to be joined with those of other steps. */
static bool steps_of(const char *report, const char **begin, const char **end) {
    JsonReader json = json_reader(report, strlen(report));
    if (!json_enter(&json, '{')) return false;
    for (size_t i = 0; json_more(&json, '{', i); i++) {
        char *key;
        if (!json_key(&json, &key)) return false;
        bool steps = strcmp(key, "steps") == 0;
        free(key);
        *begin = strchr(json.at, '[');
        if (!json_skip(&json)) return false;
        *end = json.at - 1;
        if (steps) return *begin && *begin < *end && ++*begin;
    }
    return false;
}

/* Adds one step's report to those before it. */
static bool add_report(const Options *options, const char *report, bool first, Buffer *out,
                       Failure *failure) {
    const char *begin, *end;
    if (!options->json) {
        if (!first) buffer_puts(out, "\n");
        buffer_puts(out, report);
        if (out->size && out->data[out->size - 1] != '\n') buffer_puts(out, "\n");
        return true;
    }
    if (!steps_of(report, &begin, &end))
        return fail(failure, STATUS_DEVICE, "the compiler's report is not the expected JSON");
    while (end > begin && strchr(" \n", end[-1])) end--;
    buffer_puts(out, first ? "{\n  \"steps\": [" : ",");
    buffer_add(out, begin, (size_t)(end - begin));
    return true;
}

/* Those of the sizes that name an axis of the step, which are marked: each step has its own axes.
 */
static bool sizes_of_step(ls_compilation *compilation, size_t step,
                          const ls_explain_options *explain, StringList *used, bool *marks,
                          Failure *failure) {
    const ls_image *image;
    ls_status status = ls_compilation_image(compilation, step, explain->targets[0], &image);
    if (status != LS_OK)
        return fail(failure, exit_status(status), "%s", ls_compilation_message(compilation));
    for (size_t i = 0; i < explain->size_count; i++) {
        const char *size = explain->sizes[i];
        size_t length = strcspn(size, "=");
        for (size_t axis = 0; axis < image->axis_count; axis++) {
            const char *name = image->axes[axis].name;
            if (strlen(name) != length || memcmp(name, size, length) != 0) continue;
            list_add(used, size);
            marks[i] = true;
        }
    }
    return true;
}

static bool explain_one(ls_compilation *compilation, size_t step, ls_explain_options explain,
                        const Options *options, bool first, Buffer *out, Failure *failure) {
    const char *text;
    ls_status status = ls_compilation_explain(compilation, step, &explain, &text);
    if (status != LS_OK)
        return fail(failure, exit_status(status), "%s", ls_compilation_message(compilation));
    return add_report(options, text, first, out, failure);
}

/* The file's own steps; of a file that only imports, such as std/optim, all that it has. */
static size_t steps_meant(const ls_compilation *compilation) {
    size_t own = ls_compilation_own_step_count(compilation);
    return own ? own : ls_compilation_step_count(compilation);
}

static bool explain_all(ls_compilation *compilation, const Options *options,
                        const ls_explain_options *explain, Buffer *out, Failure *failure) {
    bool good = true;
    bool *marks = memory(explain->size_count * sizeof *marks);
    for (size_t i = 0; good && i < steps_meant(compilation); i++) {
        StringList used = {0};
        ls_explain_options own = *explain;
        good = sizes_of_step(compilation, i, explain, &used, marks, failure);
        own.sizes = used.items;
        own.size_count = used.count;
        good = good && explain_one(compilation, i, own, options, i == 0, out, failure);
        free(used.items);
    }
    for (size_t i = 0; good && i < explain->size_count; i++)
        if (!marks[i])
            good =
                fail(failure, STATUS_USAGE, "no step has the axis of --size %s", explain->sizes[i]);
    free(marks);
    return good;
}

static bool explain_steps(ls_compilation *compilation, const SourceName *name,
                          const Options *options, const ls_explain_options *explain, Buffer *out,
                          Failure *failure) {
    size_t step;
    bool graph = options->dot || options->svg; /* of one step */
    bool good;
    if (!name->step && !graph && steps_meant(compilation) > 1)
        good = explain_all(compilation, options, explain, out, failure);
    else
        good = source_choose_step(compilation, name, &step, failure) &&
               explain_one(compilation, step, *explain, options, true, out, failure);
    if (good && options->json) buffer_puts(out, "\n  ]\n}\n");
    return good;
}

/* "400Gb/s": bits, as links are sold. */
static bool read_link(const char *text, double *link, Failure *failure) {
    char *end = NULL;
    if (!text) return true;
    *link = strtod(text, &end);
    if (end != text && *link > 0 && (!*end || strcmp(end, "Gb/s") == 0)) return true;
    return fail(failure, STATUS_USAGE, "--link takes gigabits per second, such as 400Gb/s, not %s",
                text);
}

static bool explain(const Invocation *invocation, ls_compilation *compilation,
                    const SourceName *name, StringList *sizes, Failure *failure) {
    const Options *options = invocation->options;
    char target[64];
    const char *device[] = {target};
    StringList targets = options->targets;
    Buffer out = {0}, svg = {0};
    double link = 0;
    if (!sizes_split(&options->sizes, sizes, failure)) return false;
    if (!read_link(options->link, &link, failure)) return false;
    if (targets.count == 0) {
        if (!device_target(&invocation->common, target, sizeof target, failure)) return false;
        targets = (StringList){device, 1};
    }
    ls_explain_options explain = {.report = options->json                  ? LS_REPORT_JSON
                                            : options->dot || options->svg ? LS_REPORT_DOT
                                            : options->schedule            ? LS_REPORT_SCHEDULES
                                                                           : LS_REPORT_TEXT,
                                  .sizes = sizes->items,
                                  .size_count = sizes->count,
                                  .targets = targets.items,
                                  .target_count = targets.count,
                                  .peak_gb_s = options->peak,
                                  .plan_only = options->plan,
                                  .processors = (uint32_t)options->processors,
                                  .ranks = (uint32_t)options->ranks,
                                  .cut = options->cut,
                                  .between = options->between,
                                  .slots = (uint32_t)options->slots,
                                  .link_gbit_s = link,
                                  .gather = options->gather.items,
                                  .gather_count = options->gather.count};
    bool good = explain_steps(compilation, name, options, &explain, &out, failure) &&
                (!options->svg || draw(out.data, &svg, failure));
    const Buffer *result = options->svg ? &svg : &out;
    if (good && options->output)
        good = file_write_whole(options->output, result->data, result->size, failure);
    else if (good)
        fwrite(result->data, 1, result->size, stdout);
    buffer_free(&out);
    buffer_free(&svg);
    return good;
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    Failure failure = {0};
    ls_compilation *compilation;
    StringList sizes = {0};
    if (invocation->argument_count != 1)
        return usage_error(
            invocation->command, "explain takes one file, %zu given%s", invocation->argument_count,
            invocation->argument_count > 1 && options->svg + options->dot + options->json
                ? ": what it writes is named by -o, as in --svg -o plan.svg"
                : "");
    if (options->json + options->dot + options->svg + options->schedule > 1)
        return usage_error(invocation->command,
                           "only one of --json, --dot, --svg and --schedule can be had at once");
    if (options->ranks && options->json + options->dot + options->svg + options->schedule > 0)
        return usage_error(invocation->command, "--ranks is told of as text only");
    if (!options->ranks && (options->slots || options->link || options->cut || options->between ||
                            options->gather.count))
        return usage_error(invocation->command,
                           "--slots, --link, --cut, --between and --gather go with --ranks");
    SourceName name = source_split(invocation->arguments[0]);
    int status = source_compile(invocation, name.path, &compilation);
    if (status == STATUS_DONE) {
        if (!explain(invocation, compilation, &name, &sizes, &failure)) status = report(&failure);
        ls_compilation_destroy(compilation);
    }
    for (size_t i = 0; i < sizes.count; i++) free((void *)(uintptr_t)sizes.items[i]);
    free(sizes.items);
    free(name.path);
    return status;
}

#define OFFSET(member) offsetof(Options, member)
static const Option explain_options[] = {
    {0, "size", "AXIS=LENGTH,...", OPTION_LIST, OFFSET(sizes),
     "axis lengths, for bytes in numbers: n=64M (K M G: powers of 1024)"},
    {'t', "target", "TARGET", OPTION_LIST, OFFSET(targets),
     "cpu, sm_90, gfx90a: registers, resident warps (AMD: waves) and access\n"
     "widths there; may be given several times; by default that of --device"},
    {0, "peak", "GB/s", OPTION_NUMBER, OFFSET(peak), "memory speed, to predict the time from"},
    {0, "processors", "N", OPTION_COUNT, OFFSET(processors),
     "the device's multiprocessors or CPU threads, for temporaries that\neach block has; by "
     "default those of a usual one"},
    {0, "ranks", "N", OPTION_COUNT, OFFSET(ranks),
     "how it runs on so many ranks with a part of its arrays each\n"
     "(ls_step_partition): stages, bytes between ranks, states, the limit"},
    {0, "slots", "S", OPTION_COUNT, OFFSET(slots),
     "with --ranks: gradients, the arrays that are only read, are sums of S\nslots"},
    {0, "link", "400Gb/s", OPTION_TEXT, OFFSET(link), "with --ranks: the speed of a rank's link"},
    {0, "cut", "NAME", OPTION_TEXT, OFFSET(cut),
     "with --ranks: the parameter whose tensors are cut; by default the\nfirst list"},
    {0, "between", NULL, OPTION_FLAG, OFFSET(between),
     "with --ranks: cut between tensors, not within them"},
    {0, "gather", "NAME", OPTION_LIST, OFFSET(gather),
     "with --ranks: an array whose new values all ranks get, such as weights"},
    {0, "plan", NULL, OPTION_FLAG, OFFSET(plan),
     "the plan alone: nothing is compiled, so what needs the code is left\nout"},
    {0, "json", NULL, OPTION_FLAG, OFFSET(json), "as JSON"},
    {0, "dot", NULL, OPTION_FLAG, OFFSET(dot), "the graph of kernels and arrays, for Graphviz"},
    {0, "svg", NULL, OPTION_FLAG, OFFSET(svg), "the same drawn, with Graphviz's dot"},
    {0, "schedule", NULL, OPTION_FLAG, OFFSET(schedule),
     "the loop nests that the code of --target is printed from, a phase\neach"},
    {'o', "output", "FILE", OPTION_TEXT, OFFSET(output), "write there, not to stdout"},
};

const Command command_explain = {
    .name = "explain",
    .summary = "says how a step runs: kernels, fusion, bytes, registers",
    .arguments = "FILE[:STEP]",
    .details = "Without :STEP every step of the file is explained.",
    .examples =
        "  lockstep explain adamw.step --size n=64M\n"
        "  lockstep explain adamw.step --target sm_90 --peak 4000 --json\n"
        "  lockstep explain linreg.step --svg -o linreg.svg\n"
        "  lockstep explain std/clip:clipped_adamw --size t=148,n=1M --ranks 8 --slots 8 \\\n"
        "      --gather p --link 400Gb/s --peak 4000",
    .options = explain_options,
    .option_count = COUNT(explain_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .device = true,
    .run = run,
};
