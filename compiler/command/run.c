/* run.c: `lockstep run`: binds, runs, writes results. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

typedef struct Options {
    StringList outputs, sizes;
    uint64_t repeat;
    const char *trace;
    bool graph, stats, json, profile;
} Options;

/* One -o NAME=FILE, or a rank-0 output that is printed because nothing else was requested. */
typedef struct Output {
    size_t parameter;
    char *path;         /* NULL: printed */
    char *identity;     /* of the file, however the path is spelt */
    const char *tensor; /* the name requested in a .safetensors file, or NULL */
    bool list;          /* many arrays, else one */
    Array *arrays;      /* with their names in the file */
    size_t count;
    bool written;
} Output;

typedef struct Run {
    const Options *options;
    Session session;
    Bindings bindings;
    Output *outputs;
    size_t output_count;
    double first_launch_ms, median_launch_us;
    ls_graph_statistics graph;
    ls_copy_statistics copies; /* of the launches behind the first */
} Run;

/* ---- what to put out ---- */

static bool ends_with(const char *text, const char *ending) {
    size_t size = strlen(text), length = strlen(ending);
    return size > length && strcmp(text + size - length, ending) == 0;
}

/* FILE of -o: "-", x.npy, x.safetensors or x.safetensors:NAME. */
static bool parse_target(const char *text, Output *output, const ls_image_parameter *parameter,
                         Failure *failure) {
    static const char ending[] = ".safetensors:";
    if (strcmp(text, "-") == 0) return true;
    const char *colon = strstr(text, ending);
    if (colon && colon > text) {
        colon += sizeof ending - 2;
        output->tensor = colon + 1;
        output->path = copy_text(text, (size_t)(colon - text));
        const char *name = output->tensor;
        bool good = *name && strcmp(name, "__metadata__") != 0 && text_is_utf8(name, strlen(name));
        if (good && output->list && !strchr(name, '*')) {
            fail(failure, STATUS_USAGE,
                 "-o %s=%s: parameter '%s' is a list, so the name of its tensors needs a * for the "
                 "name of each",
                 parameter->name, text, parameter->name);
            fail_help(failure, "-o %s='%s:%s.*'", parameter->name, output->path, name);
            return false;
        }
        if (good) return true;
        return fail(failure, STATUS_USAGE, "-o %s=%s: '%s' cannot be a tensor's name",
                    parameter->name, text, name);
    }
    output->path = copy_text(text, strlen(text));
    if (ends_with(text, ".safetensors")) return true;
    if (ends_with(text, ".npy") && output->list) {
        fail(failure, STATUS_USAGE, "parameter '%s' is a list, and a .npy file holds one array",
             parameter->name);
        fail_help(failure, "-o %s=%.*s.safetensors", parameter->name, (int)strlen(text) - 4, text);
        return false;
    }
    if (!ends_with(text, ".npy"))
        return fail(failure, STATUS_USAGE,
                    "-o %s=%s: output goes to x.npy, x.safetensors or, printed, to -",
                    parameter->name, text);
    if (type_names[parameter->type].npy[0]) return true;
    fail(failure, STATUS_USAGE, "parameter '%s' is %s, which .npy files cannot hold",
         parameter->name, type_names[parameter->type].name);
    fail_help(failure, "-o %s=%.*s.safetensors", parameter->name, (int)strlen(text) - 4, text);
    return false;
}

static bool parse_output(Run *run, const char *text, Failure *failure) {
    const ls_image *image = run->session.image;
    const char *equal = strchr(text, '=');
    if (!equal || equal == text || !equal[1])
        return fail(failure, STATUS_USAGE, "-o takes NAME=FILE or NAME=-, not '%s'", text);
    Output *output = &run->outputs[run->output_count];
    *output = (Output){.parameter = parameter_find(image, text, (size_t)(equal - text), failure)};
    if (output->parameter == image->parameter_count) return false;
    run->output_count++;
    const ls_image_parameter *parameter = &image->parameters[output->parameter];
    output->list = parameter_list(image, parameter) >= 0;
    if (parameter->role == LS_IN)
        return fail(failure, STATUS_USAGE, "parameter '%s' is only read; it has no new value",
                    parameter->name);
    if (!parse_target(equal + 1, output, parameter, failure)) return false;
    if (output->path) output->identity = file_identity(output->path);
    for (size_t i = 0; i + 1 < run->output_count && output->path; i++) {
        const Output *other = &run->outputs[i];
        if (other->path && strcmp(other->identity, output->identity) == 0 &&
            ends_with(output->path, ".npy"))
            return fail(failure, STATUS_USAGE, "two outputs go to %s", output->path);
    }
    return true;
}

/* Without any -o: the rank-0 outputs, or, where there are none, the `out` arrays. */
static void choose_outputs(Run *run) {
    const ls_image *image = run->session.image;
    for (int arrays = 0; arrays < 2 && run->output_count == 0; arrays++)
        for (size_t i = 0; i < image->parameter_count; i++) {
            const ls_image_parameter *parameter = &image->parameters[i];
            bool chosen = arrays ? parameter->role == LS_OUT && parameter->rank > 0
                                 : parameter->role != LS_IN && parameter->rank == 0;
            if (chosen)
                run->outputs[run->output_count++] =
                    (Output){.parameter = i, .list = parameter_list(image, parameter) >= 0};
        }
}

static bool prepare_outputs(Run *run, Failure *failure) {
    const StringList *given = &run->options->outputs;
    run->outputs =
        memory((given->count + run->session.image->parameter_count) * sizeof *run->outputs);
    for (size_t i = 0; i < given->count; i++)
        if (!parse_output(run, given->items[i], failure)) return false;
    char *trace = run->options->trace ? file_identity(run->options->trace) : NULL;
    const Output *same = NULL;
    for (size_t i = 0; i < run->output_count && trace; i++)
        if (run->outputs[i].path && strcmp(run->outputs[i].identity, trace) == 0)
            same = &run->outputs[i];
    free(trace);
    if (same) return fail(failure, STATUS_USAGE, "the trace and an output go to %s", same->path);
    if (given->count == 0) choose_outputs(run);
    return true;
}

/* The name of an output's tensor, which the caller frees: as asked, as in its input file, or its
 * parameter's; in a list each star of what was asked stands for the tensor's own. */
static char *tensor_name(const Run *run, const Output *output, size_t index) {
    const Binding *binding = &run->bindings.items[output->parameter];
    const char *asked = output->tensor, *own = binding->tensor ? binding->tensor : NULL;
    char numbered[400];
    if (output->list) {
        const ListTensor *tensor = &binding->tensors[index];
        own = asked && tensor->key ? tensor->key : tensor->name;
        snprintf(numbered, sizeof numbered, "%.300s.%04zu", binding->parameter->name, index);
        if (!own) own = numbered;
    }
    if (!own) own = binding->parameter->name;
    if (!asked) return copy_text(own, strlen(own));
    if (!output->list) return copy_text(asked, strlen(asked));
    Buffer name = {0};
    buffer_puts(&name, "");
    for (const char *at = asked; *at; at++)
        if (*at == '*')
            buffer_puts(&name, own);
        else
            buffer_add(&name, at, 1);
    return name.data;
}

typedef struct NamedOutput {
    const char *path, *identity;
    char *name;
    size_t output;
} NamedOutput;

static int by_path_and_name(const void *a, const void *b) {
    const NamedOutput *x = a, *y = b;
    int order = strcmp(x->identity, y->identity);
    return order ? order : strcmp(x->name, y->name);
}

static bool same_name(const Run *run, const NamedOutput *a, const NamedOutput *b,
                      Failure *failure) {
    const NamedOutput *last = a->output > b->output ? a : b;
    const Output *output = &run->outputs[last->output];
    fail(failure, STATUS_USAGE, "two outputs would be tensor '%s' of %s", a->name, a->path);
    const char *name = run->bindings.items[output->parameter].parameter->name;
    if (output->list)
        fail_help(failure, "name them: -o %s='%s:%s.*'", name, a->path, name);
    else
        fail_help(failure, "name them: -o %s=%s:NAME", name, a->path);
    return false;
}

/* Names within one .safetensors file must differ; known once the inputs are loaded, before the run.
 */
static bool check_tensor_names(const Run *run, Failure *failure) {
    size_t count = 0;
    for (size_t i = 0; i < run->output_count; i++)
        if (run->outputs[i].path)
            count += run->outputs[i].list
                         ? run->bindings.items[run->outputs[i].parameter].tensor_count
                         : 1;
    NamedOutput *names = memory(count * sizeof *names);
    size_t used = 0;
    for (size_t i = 0; i < run->output_count; i++) {
        const Output *output = &run->outputs[i];
        size_t tensors = output->list ? run->bindings.items[output->parameter].tensor_count : 1;
        for (size_t k = 0; output->path && k < tensors; k++)
            names[used++] =
                (NamedOutput){output->path, output->identity, tensor_name(run, output, k), i};
    }
    if (used) qsort(names, used, sizeof *names, by_path_and_name);
    bool good = true;
    for (size_t i = 1; i < used && good; i++)
        if (by_path_and_name(&names[i - 1], &names[i]) == 0)
            good = same_name(run, &names[i - 1], &names[i], failure);
    for (size_t i = 0; i < used; i++) free(names[i].name);
    free(names);
    return good;
}

/* ---- launching ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Launcher {
    Session *session;
    ls_graph *graph;       /* replayed when there is one */
    ls_event *start, *end; /* when each launch is timed */
} Launcher;

static ls_status launch(const Launcher *launcher) {
    return launcher->graph ? ls_graph_launch(launcher->graph)
                           : ls_step_launch(launcher->session->step);
}

static ls_status timed_launch(const Launcher *launcher, double *microseconds) {
    double milliseconds = 0;
    ls_status status = ls_event_record(launcher->start);
    if (status == LS_OK) status = launch(launcher);
    if (status == LS_OK) status = ls_event_record(launcher->end);
    if (status == LS_OK) status = ls_event_elapsed(launcher->start, launcher->end, &milliseconds);
    *microseconds = 1e3 * milliseconds;
    return status;
}

/* Launches after the first, each timed on the device. */
static ls_status repeat_timed(Run *run, Launcher *launcher, uint64_t count) {
    enum { SAMPLES_MAX = 100000 };
    double *samples = memory((count < SAMPLES_MAX ? count : SAMPLES_MAX) * sizeof *samples);
    size_t kept = 0;
    Progress progress = progress_begin("running");
    ls_status status = LS_OK;
    for (uint64_t i = 0; i < count && status == LS_OK; i++) {
        double time;
        status = timed_launch(launcher, &time);
        if (kept < SAMPLES_MAX) samples[kept++] = time;
        progress_show(&progress, i + 1, count);
    }
    progress_end(&progress);
    if (kept) {
        qsort(samples, kept, sizeof *samples, by_value);
        run->median_launch_us = samples[kept / 2];
    }
    free(samples);
    return status;
}

/* Launches queued in batches: the queue stays full, and the progress bar knows where the device is.
 * With a graph a batch is one call, unless a profile is to show each replay. */
static ls_status repeat(Run *run, Launcher *launcher, uint64_t count) {
    Progress progress = progress_begin("running");
    const bool whole = launcher->graph && !run->options->profile && !run->options->trace;
    ls_status status = LS_OK;
    for (uint64_t done = 0, batch = 1; done < count && status == LS_OK;) {
        double began = seconds();
        uint64_t next = count - done < batch ? count - done : batch;
        if (whole)
            status = ls_graph_repeat(launcher->graph, next);
        else
            for (uint64_t i = 0; i < next && status == LS_OK; i++) status = launch(launcher);
        if (status == LS_OK) status = ls_synchronize(run->session.context);
        done += next;
        if (seconds() - began < 0.05) batch *= 2;
        progress_show(&progress, done, count);
    }
    progress_end(&progress);
    return status;
}

static ls_status record_graph(Run *run, Launcher *launcher) {
    ls_context *context = run->session.context;
    ls_status status = ls_graph_begin(context);
    if (status != LS_OK) return status;
    ls_status launched = ls_step_launch(run->session.step);
    status = ls_graph_end(context, &launcher->graph);
    return launched != LS_OK ? launched : status;
}

static ls_status launch_all(Run *run, Launcher *launcher) {
    ls_context *context = run->session.context;
    uint64_t count = run->options->repeat ? run->options->repeat : 1;
    bool timed = run->options->stats || run->options->json;
    ls_status status = ls_step_prepare(run->session.step);
    if (status == LS_OK && run->options->graph) status = record_graph(run, launcher);
    if (status == LS_OK) status = ls_event_create(context, &launcher->start);
    if (status == LS_OK) status = ls_event_create(context, &launcher->end);
    double began = seconds();
    if (status == LS_OK && timed) status = timed_launch(launcher, &run->median_launch_us);
    if (status == LS_OK && !timed) status = launch(launcher);
    if (status == LS_OK) status = ls_synchronize(context);
    run->first_launch_ms = 1e3 * (seconds() - began);
    ls_copy_statistics before;
    ls_copy_stats(context, &before);
    if (status == LS_OK && count > 1)
        status = timed ? repeat_timed(run, launcher, count - 1) : repeat(run, launcher, count - 1);
    ls_copy_stats(context, &run->copies);
    run->copies.to_device -= before.to_device;
    run->copies.from_device -= before.from_device;
    return status;
}

/* Prepares first, so that compiling is not in the figures. */
static ls_status launch_profiled(Run *run, Launcher *launcher) {
    ls_context *context = run->session.context;
    const bool profiled = run->options->profile || run->options->trace;
    ls_status status = ls_step_prepare(run->session.step);
    if (status == LS_OK && profiled) status = ls_profile_begin(context);
    if (status == LS_OK) status = launch_all(run, launcher);
    if (status == LS_OK && profiled) status = ls_profile_end(context);
    if (status == LS_OK && run->options->trace)
        status = ls_profile_trace(context, run->options->trace);
    return status;
}

static bool execute(Run *run, Failure *failure) {
    Launcher launcher = {.session = &run->session};
    ls_status status = launch_profiled(run, &launcher);
    bool good = status == LS_OK || fail_status(failure, run->session.context, status);
    if (launcher.end) ls_event_destroy(launcher.end);
    if (launcher.start) ls_event_destroy(launcher.start);
    if (launcher.graph) {
        ls_graph_stats(launcher.graph, &run->graph);
        ls_graph_destroy(launcher.graph);
    }
    return good;
}

/* ---- results ---- */

static bool write_output(Run *run, size_t first, Failure *failure) {
    const char *path = run->outputs[first].path, *identity = run->outputs[first].identity;
    if (ends_with(path, ".npy")) return npy_write(path, run->outputs[first].arrays, failure);
    size_t count = 0, max = 0;
    for (size_t i = first; i < run->output_count; i++) max += run->outputs[i].count;
    const Array **arrays = memory(max * sizeof *arrays);
    for (size_t i = first; i < run->output_count; i++) {
        Output *other = &run->outputs[i];
        if (!other->path || strcmp(other->identity, identity) != 0) continue;
        other->written = true;
        for (size_t k = 0; k < other->count; k++) {
            other->arrays[k].name = tensor_name(run, other, k);
            arrays[count++] = &other->arrays[k];
        }
    }
    bool written = safetensors_write(path, arrays, count, failure);
    free(arrays);
    return written;
}

static void print_tensor(const char *list, const char *name, const char *join, const char *text) {
    printf("%s '", list);
    put_text(stdout, name, strlen(name));
    printf("' =%s%s\n", join, text);
}

static void print_output(const Run *run, const Output *output) {
    Buffer text = {0};
    const char *name = run->session.image->parameters[output->parameter].name;
    const ListTensor *tensors = run->bindings.items[output->parameter].tensors;
    for (size_t i = 0; i < output->count; i++) {
        text.size = 0;
        array_print(&output->arrays[i], &text);
        const char *join = strchr(text.data, '\n') ? "\n" : " ";
        if (output->list && tensors[i].name)
            print_tensor(name, tensors[i].name, join, text.data);
        else if (output->list)
            printf("%s %zu =%s%s\n", name, i, join, text.data);
        else
            printf("%s =%s%s\n", name, join, text.data);
    }
    if (output->count == 0) printf("%s = no tensors\n", name);
    buffer_free(&text);
}

static void json_element(JsonWriter *json, const char *key, ls_type type, const char *element) {
    char text[48];
    number_print(type, element, text, sizeof text);
    bool finite = !strstr(text, "inf") && !strstr(text, "nan");
    json_raw(json, key, finite ? text : "null");
}

static const char *json_axis(JsonWriter *json, const char *key, const Array *array, uint32_t axis,
                             const char *element) {
    if (axis == array->rank) {
        json_element(json, key, array->type, element);
        return element + type_names[array->type].size;
    }
    json_open(json, key, '[');
    for (int64_t i = 0; i < array->shape[axis]; i++)
        element = json_axis(json, NULL, array, axis + 1, element);
    json_close(json, ']');
    return element;
}

static bool fetch(Run *run, Output *output, Failure *failure) {
    const Binding *binding = &run->bindings.items[output->parameter];
    size_t count = output->list ? binding->tensor_count : 1;
    output->arrays = memory(count * sizeof *output->arrays);
    for (; output->count < count; output->count++) {
        Array *array = &output->arrays[output->count];
        bool good = output->list
                        ? list_fetch(&run->bindings, binding, output->count, array, failure)
                        : bindings_fetch(&run->bindings, output->parameter, array, failure);
        if (!good) return false;
    }
    return true;
}

static bool put_out(Run *run, Failure *failure) {
    for (size_t i = 0; i < run->output_count; i++) {
        Output *output = &run->outputs[i];
        if (!fetch(run, output, failure)) return false;
        if (!output->path && !run->options->json) print_output(run, output);
    }
    for (size_t i = 0; i < run->output_count; i++)
        if (run->outputs[i].path && !run->outputs[i].written && !write_output(run, i, failure))
            return false;
    return true;
}

static void note_dropped(const Run *run) {
    const ls_image *image = run->session.image;
    Buffer names = {0};
    const char *first = NULL;
    for (size_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        bool kept = parameter->role != LS_INOUT || parameter->rank == 0;
        for (size_t k = 0; k < run->output_count; k++) kept |= run->outputs[k].parameter == i;
        if (kept) continue;
        buffer_printf(&names, "%s%s", first ? ", " : "", parameter->name);
        if (!first) first = parameter->name;
    }
    if (first) note("not kept: the new %s; -o %s=FILE writes it", names.data, first);
    buffer_free(&names);
}

/* All that there were, and whether any came with the later launches. */
static void print_copies(const Run *run) {
    char in[40], out[40];
    ls_copy_statistics all;
    ls_copy_stats(run->session.context, &all);
    size_describe(all.to_device_bytes, in, sizeof in);
    size_describe(all.from_device_bytes, out, sizeof out);
    printf("copies         %llu to the device (%s), %llu from it (%s)",
           (unsigned long long)all.to_device, in, (unsigned long long)all.from_device, out);
    if (run->options->repeat > 1)
        printf("; %llu and %llu of them behind the first launch",
               (unsigned long long)run->copies.to_device,
               (unsigned long long)run->copies.from_device);
    printf("\n");
}

static void json_copies(const Run *run, JsonWriter *json) {
    ls_copy_statistics all;
    ls_copy_stats(run->session.context, &all);
    json_open(json, "copies", '{');
    json_integer(json, "to_device", (int64_t)all.to_device);
    json_integer(json, "to_device_bytes", (int64_t)all.to_device_bytes);
    json_integer(json, "from_device", (int64_t)all.from_device);
    json_integer(json, "from_device_bytes", (int64_t)all.from_device_bytes);
    json_integer(json, "repeated", (int64_t)(run->copies.to_device + run->copies.from_device));
    json_close(json, '}');
}

static void print_stats(const Run *run, const ls_step_statistics *step,
                        const ls_memory_statistics *memory_used) {
    char bytes[40];
    size_describe(memory_used->peak, bytes, sizeof bytes);
    printf("step           %s on %s (%s)\n", run->session.image->step,
           ls_context_device(run->session.context), step->variant ? step->variant : "");
    printf("compile        %.2f ms, cache %s\n", step->compile_ms,
           step->from_cache ? "hit" : "miss");
    printf("first launch   %.3f ms\n", run->first_launch_ms);
    printf("median launch  %.3f us of %llu\n", run->median_launch_us,
           (unsigned long long)(run->options->repeat ? run->options->repeat : 1));
    printf("kernels        %u a launch\n", step->launches);
    if (run->options->graph)
        printf("graph          of %llu launch%s, %s\n", (unsigned long long)run->graph.launches,
               run->graph.launches == 1 ? "" : "es",
               run->graph.native ? "replayed whole"
                                 : "replayed one by one: LOCKSTEP_LOG=info says why");
    printf("peak memory    %s\n", bytes);
    print_copies(run);
}

static void print_json(const Run *run, const ls_step_statistics *step,
                       const ls_memory_statistics *memory_used) {
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "step", run->session.image->step);
    json_string(&json, "device", ls_context_device(run->session.context));
    json_string(&json, "variant", step->variant);
    json_number(&json, "compile_ms", step->compile_ms);
    json_string(&json, "cache", step->from_cache ? "hit" : "miss");
    json_number(&json, "first_launch_ms", run->first_launch_ms);
    json_number(&json, "median_launch_us", run->median_launch_us);
    json_integer(&json, "launches", step->launches);
    json_integer(&json, "repeat", (int64_t)(run->options->repeat ? run->options->repeat : 1));
    json_integer(&json, "peak_bytes", (int64_t)memory_used->peak);
    json_integer(&json, "temporary_bytes", (int64_t)step->temporary_bytes);
    json_copies(run, &json);
    if (run->options->graph) {
        json_open(&json, "graph", '{');
        json_integer(&json, "native", run->graph.native);
        json_integer(&json, "launches", (int64_t)run->graph.launches);
        json_integer(&json, "nodes", (int64_t)run->graph.nodes);
        json_integer(&json, "replays", (int64_t)run->graph.replays);
        json_close(&json, '}');
    }
    if (run->options->profile) profile_json(&run->session, &json);
    json_open(&json, "outputs", '{');
    for (size_t i = 0; i < run->output_count; i++) {
        const Output *output = &run->outputs[i];
        const char *name = run->session.image->parameters[output->parameter].name;
        if (output->path) continue;
        if (output->list) json_open(&json, name, '[');
        for (size_t k = 0; k < output->count; k++)
            json_axis(&json, output->list ? NULL : name, &output->arrays[k], 0,
                      output->arrays[k].data);
        if (output->list) json_close(&json, ']');
    }
    json_close(&json, '}');
    json_close(&json, '}');
    fputs(json.text.data, stdout);
    buffer_free(&json.text);
}

static bool print_statistics(Run *run, Failure *failure) {
    ls_step_statistics step;
    ls_memory_statistics memory_used;
    ls_status status = ls_step_stats(run->session.step, &step);
    if (status != LS_OK) return fail_status(failure, run->session.context, status);
    ls_memory_stats(run->session.context, &memory_used);
    (run->options->json ? print_json : print_stats)(run, &step, &memory_used);
    return true;
}

static void print_profile(const Run *run) {
    Buffer text = {0};
    profile_print(&run->session, &text);
    fputs(text.data, stdout);
    buffer_free(&text);
}

static void say_code(const Run *run) {
    ls_step_statistics step;
    if (ls_step_stats(run->session.step, &step) != LS_OK) return;
    note("%s, code %s in %.1f ms, first launch %.3f ms", step.variant,
         step.from_cache ? "from the cache" : "compiled", step.compile_ms, run->first_launch_ms);
}

static bool run_step(Run *run, const Invocation *invocation, Failure *failure) {
    bindings_open(&run->session, &run->bindings);
    run->bindings.in_place = true;
    for (size_t i = 1; i < invocation->argument_count; i++)
        if (!bindings_parse(&run->bindings, invocation->arguments[i], failure)) return false;
    if (!prepare_outputs(run, failure) || !bindings_complete(&run->bindings, failure) ||
        !sizes_option(&run->bindings.sizes, &run->options->sizes, failure) ||
        !bindings_load(&run->bindings, failure))
        return false;
    for (size_t i = 0; i < run->output_count; i++)
        if (!bindings_allocate(&run->bindings, run->outputs[i].parameter, failure)) return false;
    if (!check_tensor_names(run, failure)) return false;
    session_announce(invocation, &run->session);
    if (!execute(run, failure)) return false;
    if (invocation->common.verbose) say_code(run);
    if (!put_out(run, failure)) return false;
    if (run->options->profile && !run->options->json) print_profile(run);
    if (run->options->stats || run->options->json) return print_statistics(run, failure);
    note_dropped(run);
    return true;
}

static int run(const Invocation *invocation) {
    Run run = {.options = invocation->options};
    Failure failure = {0};
    if (invocation->argument_count == 0) return usage_error(invocation->command, "no file given");
    int status = session_open(invocation, invocation->arguments[0], &run.session);
    if (status != STATUS_DONE) return status;
    if (!run_step(&run, invocation, &failure)) status = report(&failure);
    for (size_t i = 0; i < run.output_count; i++) {
        for (size_t k = 0; k < run.outputs[i].count; k++) array_free(&run.outputs[i].arrays[k]);
        free(run.outputs[i].arrays);
        free(run.outputs[i].path);
        free(run.outputs[i].identity);
    }
    free(run.outputs);
    bindings_close(&run.bindings);
    session_close(&run.session);
    return status;
}

#define OFFSET(member) offsetof(Options, member)
static const Option run_options[] = {
    {'o', "output", "NAME=FILE", OPTION_LIST, OFFSET(outputs),
     "write a result: x.npy, x.safetensors, x.safetensors:TENSOR (of a list:\nx.safetensors:m.*); "
     "- prints it"},
    {0, "repeat", "N", OPTION_COUNT, OFFSET(repeat), "launch N times over the same buffers"},
    {0, "graph", NULL, OPTION_FLAG, OFFSET(graph),
     "record the launch once and replay it, many times with one\ncall"},
    {0, "size", "AXIS=LENGTH,...", OPTION_LIST, OFFSET(sizes),
     "axes that no argument gives; of a list t=3,n=1K, or\nn=768+2K for each tensor"},
    {0, "stats", NULL, OPTION_FLAG, OFFSET(stats), "print times, launches, memory and copies"},
    {0, "json", NULL, OPTION_FLAG, OFFSET(json), "the statistics, and what is printed, as JSON"},
    {0, "profile", NULL, OPTION_FLAG, OFFSET(profile),
     "print how long the step and each of its kernels take, and GB/s\nagainst the plan's bytes"},
    {0, "trace", "FILE", OPTION_TEXT, OFFSET(trace),
     "write the launches as a trace for Perfetto or chrome://tracing"},
};

const Command command_run = {
    .name = "run",
    .summary = "runs a step on arrays from files",
    .arguments = "FILE[:STEP] NAME=VALUE... [-o NAME=FILE...]",
    .details =
        "VALUE is a number, x.npy, m.safetensors:TENSOR (or m.safetensors when it holds one), or "
        "an\n"
        "array to be made: zeros(2,3) ones(2,3) full(2,3, 0.5) iota(6) normal(2,3; seed)\n"
        "uniform(2,3; seed); without lengths it takes its shape from the other arguments.\n"
        "A list of tensors is m.safetensors (all of them, in file order), m.safetensors:GLOB, or\n"
        "several of the above joined by +; lists are matched by their tensors' names where these\n"
        "agree, else by order. A list's results keep the names and shapes of its input.\n"
        "Without -o the rank-0 results are printed.",
    .examples =
        "  lockstep run linreg.step x=x.npy y=y.npy w=zeros -o w=w.npy -o loss_sum=-\n"
        "  lockstep run adamw.step p=model.safetensors:w g=grads.safetensors:w m=zeros v=zeros \\\n"
        "      -o p=new.safetensors -o m=state.safetensors -o v=state.safetensors\n"
        "  lockstep run square.step x='normal(1M; 7)' --repeat 100 --stats",
    .options = run_options,
    .option_count = COUNT(run_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .device = true,
    .run = run,
};
