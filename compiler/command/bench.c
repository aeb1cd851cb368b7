/* bench.c: `lockstep bench`: how fast a step runs, next to what the memory can do.
 *
 * Bandwidth drifts within seconds, so the step is timed between two runs of a traffic-only kernel
 * with the same reads and writes, round after round, and judged by the median of the rounds'
 * ratios. Rounds in which other processes had the processor are dropped where the system tells. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

typedef struct Options {
    StringList sizes;
    uint64_t rounds;
    bool json, svg;
    const char *output;
} Options;

typedef struct Round {
    double time, limit; /* seconds of one launch, of the traffic alone */
    double others;      /* share of the round that other processes had a processor; 0: not known */
} Round;

typedef struct Bench {
    const Options *options;
    Session session;
    Bindings bindings;
    Traffic *traffic; /* NULL: the step moves no array */
    Round *rounds;
    size_t kept, dropped;
    uint64_t launches_per_round;
    uint64_t bytes;
    ls_step_statistics statistics;
    double median, min, max, limit, fraction;
    double joules; /* of a launch; below 0: not known */
} Bench;

/* A limit that cannot be measured is a note, not a failure: the step's own time is still worth
 * having. */
static void open_traffic(Bench *bench) {
    const ls_image *image = bench->session.image;
    Failure failure = {0};
    TrafficArray *arrays = memory(image->parameter_count * sizeof *arrays);
    size_t count = 0;
    for (size_t i = 0; i < image->parameter_count; i++) {
        const Binding *binding = &bench->bindings.items[i];
        const ls_image_parameter *parameter = binding->parameter;
        if (binding->bytes)
            arrays[count++] =
                (TrafficArray){binding->device, binding->bytes, type_names[parameter->type].size,
                               parameter->role != LS_OUT, parameter->role != LS_IN};
    }
    if (count && !traffic_open(bench->session.context, arrays, count, bench->statistics.threads,
                               &bench->traffic, &failure))
        note("the memory's limit is not measured: %s", failure.text);
    free(arrays);
}

/* ---- measuring ---- */

static bool measure_round(Bench *bench, Round *round, Failure *failure) {
    double before = 0, after = 0, others = others_seconds(), began = seconds();
    uint64_t times = bench->launches_per_round;
    if (bench->traffic && !traffic_time(bench->traffic, times, &before, failure)) return false;
    if (!time_launches(&bench->session, times, &round->time, failure)) return false;
    if (bench->traffic && !traffic_time(bench->traffic, times, &after, failure)) return false;
    round->limit = (before + after) / 2;
    /* the system counts in ticks of 10 ms: up to two are rounding */
    double used = others_seconds() - others, passed = seconds() - began;
    round->others = others >= 0 && used > 0.025 ? used / passed : 0;
    return true;
}

/* After the rounds, for events between kernels cost time: some launches kernel by kernel. */
static bool take_profile(Bench *bench, Failure *failure) {
    enum { LAUNCHES = 50 };
    const uint64_t times =
        bench->launches_per_round < LAUNCHES ? bench->launches_per_round : LAUNCHES;
    double time;
    ls_context *context = bench->session.context;
    ls_status status = ls_profile_begin(context);
    if (status != LS_OK) return fail_status(failure, context, status);
    if (!time_launches(&bench->session, times, &time, failure)) return false;
    status = ls_profile_end(context);
    return status == LS_OK || fail_status(failure, context, status);
}

/* The joules of the device so far; below 0: it does not tell. */
static double energy_of(ls_monitor *monitor) {
    ls_sample sample;
    if (ls_monitor_sample(monitor, &sample) != LS_OK) return -1;
    return sample.known >> LS_READING_ENERGY & 1 ? sample.value[LS_READING_ENERGY] : -1;
}

/* Launches for a while, for counters of energy go in steps of up to 0.1 s. Nothing where there is
 * no such counter. */
static bool measure_energy(Bench *bench, Failure *failure) {
    const double enough = 1; /* second */
    ls_monitor *monitor;
    double time, began, before, after;
    uint64_t launches = 0;
    bench->joules = -1;
    if (ls_monitor_create(ls_context_device(bench->session.context), &monitor) != LS_OK)
        return true;
    energy_of(monitor); /* some count from their first sample on */
    before = energy_of(monitor);
    began = seconds();
    bool good = true;
    while (good && before >= 0 && seconds() - began < enough) {
        good = time_launches(&bench->session, bench->launches_per_round, &time, failure);
        launches += bench->launches_per_round;
    }
    after = good && launches ? energy_of(monitor) : -1;
    if (after >= before && before >= 0) bench->joules = (after - before) / (double)launches;
    ls_monitor_destroy(monitor);
    return good;
}

static int by_others(const void *a, const void *b) {
    double x = ((const Round *)a)->others, y = ((const Round *)b)->others;
    return (x > y) - (x < y);
}

/* Rounds until enough are undisturbed, or three times as many were tried; the least disturbed
 * count. */
static bool measure(Bench *bench, Failure *failure) {
    size_t wanted = bench->options->rounds ? (size_t)bench->options->rounds : 11;
    size_t count = 0, clean = 0, max = 3 * wanted;
    bench->rounds = memory_grow(NULL, max, sizeof *bench->rounds);
    Progress progress = progress_begin("measuring");
    double began = seconds();
    while (clean < wanted && count < max && (count < wanted || seconds() - began < 60)) {
        if (!measure_round(bench, &bench->rounds[count], failure)) return false;
        clean += bench->rounds[count++].others < 0.1;
        progress_show(&progress, clean, wanted);
    }
    progress_end(&progress);
    qsort(bench->rounds, count, sizeof *bench->rounds, by_others);
    bench->kept = wanted;
    bench->dropped = count - wanted;
    if (clean < wanted)
        note("other processes were running in %zu of %zu runs; the figures are rough",
             wanted - clean, wanted);
    return true;
}

static void evaluate(Bench *bench) {
    size_t n = bench->kept;
    double *values = memory_grow(NULL, n, sizeof *values);
    for (size_t i = 0; i < n; i++) values[i] = bench->rounds[i].time;
    bench->median = median_of(values, n);
    bench->min = values[0];
    bench->max = values[n - 1];
    for (size_t i = 0; i < n; i++) values[i] = bench->rounds[i].limit;
    bench->limit = median_of(values, n);
    for (size_t i = 0; i < n; i++) values[i] = bench->rounds[i].limit / bench->rounds[i].time;
    bench->fraction = median_of(values, n);
    free(values);
}

/* ---- results ---- */

static double rate(const Bench *bench, double time) {
    return time > 0 ? (double)bench->bytes / time * 1e-9 : 0;
}

static void write_json(const Bench *bench, Buffer *out) {
    const ls_image *image = bench->session.image;
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "step", image->step);
    json_string(&json, "device", ls_context_device(bench->session.context));
    json_string(&json, "description", ls_context_describe(bench->session.context));
    sizes_json(&bench->bindings.sizes, &json);
    json_number(&json, "median_s", bench->median);
    json_number(&json, "min_s", bench->min);
    json_number(&json, "max_s", bench->max);
    json_integer(&json, "runs", (int64_t)bench->kept);
    json_integer(&json, "launches_per_run", (int64_t)bench->launches_per_round);
    json_integer(&json, "dropped", (int64_t)bench->dropped);
    json_integer(&json, "bytes", (int64_t)bench->bytes);
    json_number(&json, "gb_s", rate(bench, bench->median));
    if (bench->traffic) {
        json_number(&json, "copy_gb_s", rate(bench, bench->limit));
        json_number(&json, "fraction_of_copy", bench->fraction);
    } else {
        json_raw(&json, "copy_gb_s", "null");
        json_raw(&json, "fraction_of_copy", "null");
    }
    if (bench->joules >= 0)
        json_number(&json, "joules_per_step", bench->joules);
    else
        json_raw(&json, "joules_per_step", "null");
    json_integer(&json, "launches", bench->statistics.launches);
    json_integer(&json, "threads", bench->statistics.threads);
    profile_json(&bench->session, &json);
    json_close(&json, '}');
    *out = json.text;
}

static void write_text(const Bench *bench, Buffer *out) {
    const ls_image *image = bench->session.image;
    char median[40], min[40], max[40], bytes[40];
    time_describe(bench->median, median, sizeof median);
    time_describe(bench->min, min, sizeof min);
    time_describe(bench->max, max, sizeof max);
    size_describe(bench->bytes, bytes, sizeof bytes);
    buffer_printf(out, "%s on %s", image->step, ls_context_device(bench->session.context));
    sizes_text(&bench->bindings.sizes, ", ", out);
    buffer_printf(out, "\n  median   %s  (%s to %s, %zu runs of %llu", median, min, max,
                  bench->kept, (unsigned long long)bench->launches_per_round);
    if (bench->dropped) buffer_printf(out, ", %zu disturbed dropped", bench->dropped);
    buffer_printf(out, ")\n  moves    %s, %.1f GB/s\n", bytes, rate(bench, bench->median));
    if (bench->traffic)
        buffer_printf(
            out, "  limit    %.1f %% of what the same reads and writes alone reach (%.1f GB/s)\n",
            100 * bench->fraction, rate(bench, bench->limit));
    if (bench->joules >= 0)
        buffer_printf(out, "  energy   %.4g mJ a step, of all of the device\n",
                      1e3 * bench->joules);
    buffer_printf(out, "  launches %u, threads %u\n", bench->statistics.launches,
                  bench->statistics.threads);
    if (bench->statistics.launches > 1) profile_print(&bench->session, out);
}

static void svg_bar(Buffer *out, int y, const char *color, const char *label, double value,
                    double max) {
    enum { LEFT = 130, WIDTH = 360 };
    double width = max > 0 ? WIDTH * value / max : 0;
    buffer_printf(out,
                  "  <text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n"
                  "  <rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"24\" fill=\"%s\"/>\n"
                  "  <text x=\"%.1f\" y=\"%d\">%.1f GB/s</text>\n",
                  LEFT - 8, y + 17, label, LEFT, y, width, color, LEFT + width + 8, y + 17, value);
}

static void write_svg(const Bench *bench, Buffer *out) {
    const ls_image *image = bench->session.image;
    double own = rate(bench, bench->median), limit = rate(bench, bench->limit);
    double max = own > limit ? own : limit;
    buffer_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"140\" "
                  "font-family=\"sans-serif\" font-size=\"13\">\n"
                  "  <rect width=\"600\" height=\"140\" fill=\"white\"/>\n"
                  "  <text x=\"16\" y=\"28\" font-size=\"15\">%s on %s",
                  image->step, ls_context_device(bench->session.context));
    sizes_text(&bench->bindings.sizes, ", ", out);
    if (bench->traffic) buffer_printf(out, ": %.1f %% of the limit", 100 * bench->fraction);
    buffer_puts(out, "</text>\n");
    svg_bar(out, 48, "#3b6ea8", image->step, own, max);
    if (bench->traffic) svg_bar(out, 88, "#b0b7c0", "traffic alone", limit, max);
    buffer_puts(out, "</svg>\n");
}

static bool bench_step(Bench *bench, const Invocation *invocation, Failure *failure) {
    const Options *options = bench->options;
    double warm;
    bindings_open(&bench->session, &bench->bindings);
    for (size_t i = 1; i < invocation->argument_count; i++)
        if (!bindings_parse(&bench->bindings, invocation->arguments[i], failure)) return false;
    if (!sizes_option(&bench->bindings.sizes, &options->sizes, failure) ||
        !bind_random(&bench->bindings, &bench->bytes, failure))
        return false;
    ls_status status = ls_step_stats(bench->session.step, &bench->statistics);
    if (status != LS_OK) return fail_status(failure, bench->session.context, status);
    session_announce(invocation, &bench->session);
    if (!time_launches(&bench->session, 2, &warm, failure)) return false;
    open_traffic(bench);
    if (!time_enough(&bench->session, 0.03, &bench->launches_per_round, failure) ||
        !measure(bench, failure) || !measure_energy(bench, failure) ||
        !take_profile(bench, failure))
        return false;
    evaluate(bench);
    Buffer out = {0};
    (options->json ? write_json : options->svg ? write_svg : write_text)(bench, &out);
    bool good = true;
    if (options->output)
        good = file_write_whole(options->output, out.data, out.size, failure);
    else
        fwrite(out.data, 1, out.size, stdout);
    buffer_free(&out);
    return good;
}

static int run(const Invocation *invocation) {
    Bench bench = {.options = invocation->options};
    Failure failure = {0};
    if (invocation->argument_count == 0) return usage_error(invocation->command, "no file given");
    if (bench.options->json && bench.options->svg)
        return usage_error(invocation->command, "only one of --json and --svg can be had at once");
    int status = session_open(invocation, invocation->arguments[0], &bench.session);
    if (status != STATUS_DONE) return status;
    if (!bench_step(&bench, invocation, &failure)) status = report(&failure);
    free(bench.rounds);
    traffic_close(bench.traffic);
    bindings_close(&bench.bindings);
    session_close(&bench.session);
    return status;
}

#define OFFSET(member) offsetof(Options, member)
static const Option bench_options[] = {
    {0, "size", "AXIS=LENGTH,...", OPTION_LIST, OFFSET(sizes),
     "the length of every axis: n=64M,k=8 (K M G: powers of 1024);\nof a list t=148,n=1M, or "
     "n=768+2K for each tensor"},
    {0, "rounds", "N", OPTION_COUNT, OFFSET(rounds),
     "undisturbed rounds to measure; 11 by default"},
    {0, "json", NULL, OPTION_FLAG, OFFSET(json), "as JSON"},
    {0, "svg", NULL, OPTION_FLAG, OFFSET(svg), "as a bar chart"},
    {'o', "output", "FILE", OPTION_TEXT, OFFSET(output), "write there, not to stdout"},
};

const Command command_bench = {
    .name = "bench",
    .summary = "measures a step on random data against the memory's limit",
    .arguments = "FILE[:STEP] --size AXIS=LENGTH,... [NAME=VALUE...]",
    .details =
        "The step is timed between two runs of a kernel that only moves the same bytes, and the\n"
        "median of several rounds is reported. Parameters may be given as for lockstep run.",
    .examples = "  lockstep bench adamw.step --size n=64M\n"
                "  lockstep bench softmax.step --size b=8192,c=4096 --json\n"
                "  lockstep bench lists.step --size t=148,n=1M\n"
                "  lockstep bench adamw.step --size n=64M --svg -o adamw.svg",
    .options = bench_options,
    .option_count = COUNT(bench_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .device = true,
    .run = run,
};
