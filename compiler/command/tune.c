/* tune.c: `lockstep tune`: which way to launch a step is fastest here, kept for later runs.
 *
 * First the plans that suit the sizes are compared, then ways to launch the best of them. All
 * candidates run in turn in every round and are judged by the median of their time over that of the
 * usual launch in the same round, so that what drifts between rounds decides nothing. The best is
 * measured once more against the usual launch alone, since the best of many is lucky too; it is
 * kept where it is clearly faster. Before a candidate is timed it must give the bits of the usual
 * launch. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

enum { CANDIDATES_MAX = 160 };
#define CLEARLY 0.97 /* of the usual time: 3 % faster */
#define OFTEN 0.8    /* of the rounds */

typedef struct Options {
    StringList sizes;
    uint64_t rounds;
    bool json, dry_run;
} Options;

typedef struct Candidate {
    ls_image_tuning tuning;
    ls_step_statistics statistics;
    char text[120];
    uint64_t launches; /* of one timing */
    double *times, *ratios;
    size_t rounds;
    double median, ratio, faster; /* seconds, of the usual, share of rounds */
} Candidate;

/* What an array or a cell that the step writes held before. */
typedef struct Saved {
    void *data;
    size_t bytes;
} Saved;

typedef struct Tune {
    const Options *options;
    Session session;
    Bindings bindings;
    ls_step *step;                        /* what is tuned: the session's step, or a part of it, */
    const ls_image *image;                /* and its image */
    Candidate candidates[CANDIDATES_MAX]; /* the first: the usual launch */
    size_t count, best;
    Saved *saved; /* by parameter */
    uint64_t bits;
    bool kept;
} Tune;

/* ---- the same bits ---- */

static bool check(Tune *tune, ls_status status, Failure *failure) {
    return status == LS_OK || fail_status(failure, tune->session.context, status);
}

static size_t scalar_bytes(const ls_image_parameter *parameter) {
    return parameter->rank == 0 ? type_names[parameter->type].size : 0;
}

/* Copies what the parameter holds; nothing where it has no memory that we know. */
static bool read_parameter(Tune *tune, size_t number, Saved *saved, Failure *failure) {
    const Binding *binding = &tune->bindings.items[number];
    const ls_image_parameter *parameter = binding->parameter;
    saved->bytes = parameter->rank == 0 ? scalar_bytes(parameter)
                   : binding->device    ? binding->held
                                        : 0;
    if (!saved->bytes) return true;
    saved->data = memory(saved->bytes);
    return check(
        tune,
        parameter->rank == 0
            ? ls_step_get(tune->session.step, parameter->name, saved->data)
            : ls_copy_out(tune->session.context, saved->data, binding->device, saved->bytes),
        failure);
}

static bool save(Tune *tune, Failure *failure) {
    const ls_image *image = tune->session.image;
    tune->saved = memory((image->parameter_count + 1) * sizeof *tune->saved);
    for (size_t i = 0; i < image->parameter_count; i++)
        if (image->parameters[i].role == LS_INOUT &&
            !read_parameter(tune, i, &tune->saved[i], failure))
            return false;
    return true;
}

static bool restore(Tune *tune, Failure *failure) {
    const ls_image *image = tune->session.image;
    for (size_t i = 0; i < image->parameter_count; i++) {
        const Saved *saved = &tune->saved[i];
        const ls_image_parameter *parameter = &image->parameters[i];
        if (!saved->data) continue;
        if (!check(tune,
                   parameter->rank == 0
                       ? ls_step_set(tune->session.step, parameter->name, saved->data)
                       : ls_copy_in(tune->session.context, tune->bindings.items[i].device,
                                    saved->data, saved->bytes),
                   failure))
            return false;
    }
    return true;
}

/* A hash of all that one launch from the saved state writes. */
static bool result_bits(Tune *tune, uint64_t *bits, Failure *failure) {
    const ls_image *image = tune->session.image;
    double time;
    *bits = UINT64_C(0xcbf29ce484222325);
    if (!restore(tune, failure) || !time_launches(&tune->session, 1, &time, failure)) return false;
    for (size_t i = 0; i < image->parameter_count; i++) {
        Saved now = {0};
        if (image->parameters[i].role == LS_IN) continue;
        const bool good = read_parameter(tune, i, &now, failure);
        const unsigned char *data = now.data;
        for (size_t b = 0; good && b < now.bytes; b++)
            *bits = (*bits ^ data[b]) * UINT64_C(0x100000001b3);
        free(now.data);
        if (!good) return false;
    }
    return true;
}

/* ---- candidates ---- */

static void describe(const Tune *tune, Candidate *candidate) {
    const ls_image_tuning *t = &candidate->tuning;
    const uint64_t parts = candidate->statistics.parts;
    if (ls_context_kind(tune->session.context) == LS_DEVICE_CPU)
        snprintf(candidate->text, sizeof candidate->text, "%.80s; %llu worker%s",
                 candidate->statistics.variant, (unsigned long long)parts, parts == 1 ? "" : "s");
    else
        snprintf(candidate->text, sizeof candidate->text, "%.80s; %llu block%s of %u",
                 tune->image->variants[t->variant].name, (unsigned long long)parts,
                 parts == 1 ? "" : "s", candidate->statistics.threads);
}

static bool same_launch(const Candidate *a, const Candidate *b) {
    return a->statistics.parts == b->statistics.parts &&
           a->statistics.threads == b->statistics.threads && a->tuning.variant == b->tuning.variant;
}

/* Adds the candidate unless it does not suit or is one of those there; NULL: the usual launch. */
static bool add(Tune *tune, const ls_image_tuning *tuning, Failure *failure) {
    ls_step *step = tune->step;
    uint64_t bits;
    if (tune->count == CANDIDATES_MAX) return true;
    Candidate *candidate = &tune->candidates[tune->count];
    *candidate = (Candidate){0};
    if (tuning) candidate->tuning = *tuning;
    if (!check(tune, ls_step_tune(step, tuning), failure)) return false;
    const ls_status status = ls_step_stats(step, &candidate->statistics);
    if (status == LS_ERROR_UNSUPPORTED && tuning) return true; /* the variant does not suit */
    if (!check(tune, status, failure)) return false;
    if (!tuning) /* which of the variants it is */
        while (tune->image->variants[candidate->tuning.variant].name !=
               candidate->statistics.variant)
            candidate->tuning.variant++;
    for (size_t i = 0; i < tune->count; i++)
        if (same_launch(&tune->candidates[i], candidate)) return true;
    describe(tune, candidate);
    if (!result_bits(tune, &bits, failure)) return false;
    if (tune->count == 0) tune->bits = bits;
    if (bits != tune->bits && strcmp(tune->image->math, "fast") != 0)
        return fail(failure, STATUS_DEVICE,
                    "%s: the results differ from those of the usual launch (%s), which is a fault "
                    "of Lockstep; nothing was kept",
                    candidate->text, tune->candidates[0].text);
    if (!time_enough(&tune->session, 0.01, &candidate->launches, failure)) return false;
    tune->count++;
    return true;
}

static bool add_variants(Tune *tune, Failure *failure) {
    const ls_image_variant *variants = tune->image->variants;
    for (uint32_t v = 0; v < tune->image->variant_count; v++) {
        uint32_t same = 0; /* a form may be no other than its variant */
        while (variants[same].source != variants[v].source) same++;
        if (same == v && !add(tune, &(ls_image_tuning){.variant = v}, failure)) return false;
    }
    return true;
}

/* Half as many, twice as many: what lies between differs little. */
static bool add_launches(Tune *tune, Failure *failure) {
    static const uint32_t threads[] = {0, 64, 128, 256}, blocks[] = {0, 1, 2, 4, 8, 16, 32};
    const uint32_t variant = tune->candidates[tune->best].tuning.variant;
    if (ls_context_kind(tune->session.context) == LS_DEVICE_CPU) {
        const uint32_t max = tune->candidates[0].statistics.threads;
        for (uint32_t n = 1; n <= max; n = n < max && 2 * n > max ? max : 2 * n)
            if (!add(tune, &(ls_image_tuning){.variant = variant, .workers = n}, failure))
                return false;
        return true;
    }
    for (size_t t = 0; t < COUNT(threads); t++)
        for (size_t b = 0; b < COUNT(blocks); b++)
            if (!add(tune,
                     &(ls_image_tuning){.variant = variant,
                                        .threads = threads[t],
                                        .blocks_per_multiprocessor = blocks[b]},
                     failure))
                return false;
    return true;
}

/* ---- measuring ---- */

static bool time_candidate(Tune *tune, size_t number, Failure *failure) {
    Candidate *candidate = &tune->candidates[number];
    double warm;
    return check(tune, ls_step_tune(tune->step, number ? &candidate->tuning : NULL), failure) &&
           time_launches(&tune->session, 1, &warm, failure) &&
           time_launches(&tune->session, candidate->launches, &candidate->times[candidate->rounds],
                         failure);
}

static void evaluate(Tune *tune, size_t number) {
    Candidate *candidate = &tune->candidates[number];
    const Candidate *usual = &tune->candidates[0];
    const size_t n = candidate->rounds;
    candidate->faster = 0;
    for (size_t i = 0; i < n; i++) {
        candidate->ratios[i] = candidate->times[i] / usual->times[i];
        candidate->faster += (candidate->ratios[i] < 1) / (double)n;
    }
    candidate->ratio = median_of(candidate->ratios, n);
    memcpy(candidate->ratios, candidate->times, n * sizeof *candidate->times);
    candidate->median = median_of(candidate->ratios, n);
}

/* So many rounds of the usual launch and of those chosen, each round from another one on. */
static bool measure(Tune *tune, const char *what, const size_t *chosen, size_t count, size_t rounds,
                    Failure *failure) {
    Progress progress = progress_begin(what);
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        Candidate *candidate = &tune->candidates[chosen[i]];
        candidate->rounds = 0;
        candidate->times = memory_grow(candidate->times, rounds, sizeof *candidate->times);
        candidate->ratios = memory_grow(candidate->ratios, rounds, sizeof *candidate->ratios);
    }
    for (size_t round = 0; good && round < rounds; round++) {
        for (size_t i = 0; good && i < count; i++)
            good = time_candidate(tune, chosen[(i + round) % count], failure);
        for (size_t i = 0; i < count; i++) tune->candidates[chosen[i]].rounds++;
        progress_show(&progress, round + 1, rounds);
    }
    progress_end(&progress);
    for (size_t i = 0; good && i < count; i++) evaluate(tune, chosen[i]);
    return good;
}

/* All candidates from number `first` on, and the usual one; the best so far is found anew. */
static bool compare(Tune *tune, const char *what, size_t first, Failure *failure) {
    size_t chosen[CANDIDATES_MAX] = {0}, count = 1;
    for (size_t i = first; i < tune->count; i++) chosen[count++] = i;
    if (count == 1) return true;
    if (!measure(tune, what, chosen, count, (size_t)tune->options->rounds, failure)) return false;
    for (size_t i = 1; i < count; i++)
        if (tune->candidates[chosen[i]].ratio <
            (tune->best ? tune->candidates[tune->best].ratio : CLEARLY))
            tune->best = chosen[i];
    return true;
}

static bool confirm(Tune *tune, Failure *failure) {
    const size_t pair[] = {0, tune->best}, rounds = 2 * (size_t)tune->options->rounds + 1;
    if (!tune->best) return true;
    if (!measure(tune, "once more", pair, COUNT(pair), rounds, failure)) return false;
    const Candidate *best = &tune->candidates[tune->best];
    tune->kept = best->ratio <= CLEARLY && best->faster >= OFTEN;
    return true;
}

/* ---- results ---- */

static bool keep(Tune *tune, ls_tuning_record *record, Failure *failure) {
    const Candidate *best = &tune->candidates[tune->best], *usual = &tune->candidates[0];
    const uint64_t work = usual->statistics.work;
    char reason[300];
    Buffer sizes = {0};
    sizes_text(&tune->bindings.sizes, " ", &sizes);
    *record = (ls_tuning_record){.tuning = best->tuning,
                                 .usual_us = usual->median * 1e6,
                                 .best_us = tune->kept ? best->median * 1e6 : 0};
    record->tuning.at_least = work - work / 3;
    record->tuning.at_most = work + work / 2;
    snprintf(record->device, sizeof record->device, "%s",
             ls_context_describe(tune->session.context));
    snprintf(record->sizes, sizeof record->sizes, "%s", sizes.data ? sizes.data + 1 : "");
    buffer_free(&sizes);
    if (tune->options->dry_run) return true;
    ls_status status = ls_tuning_keep(tune->image, record, reason, sizeof reason);
    return status == LS_OK || fail(failure, STATUS_DEVICE,
                                   "what is best cannot be kept: %s; lockstep cache says where "
                                   "the cache is",
                                   reason);
}

static void print_text(const Tune *tune) {
    const Candidate *best = &tune->candidates[tune->best];
    char median[40];
    Buffer out = {0};
    buffer_printf(&out, "tune %s on %s (%s)", tune->image->step,
                  ls_context_device(tune->session.context),
                  ls_context_describe(tune->session.context));
    sizes_text(&tune->bindings.sizes, ", ", &out);
    buffer_printf(&out, "\n  %-62s %10s %9s %10s\n", "", "median", "of usual", "faster in");
    for (size_t i = 0; i < tune->count; i++) {
        const Candidate *c = &tune->candidates[i];
        time_describe(c->median, median, sizeof median);
        buffer_printf(&out, "  %-62s %10s", c->text, median);
        if (i)
            buffer_printf(&out, " %7.1f %% %4.0f of %zu\n", 100 * c->ratio,
                          c->faster * (double)c->rounds, c->rounds);
        else
            buffer_puts(&out, "    usual\n");
    }
    if (tune->kept)
        buffer_printf(&out, "%s %s: %.1f %% less time than usual\n",
                      tune->options->dry_run ? "best is" : "kept", best->text,
                      100 * (1 - best->ratio));
    else
        buffer_printf(&out,
                      "kept the usual launch: nothing else was 3 %% faster in 4 of 5 rounds\n");
    fwrite(out.data, 1, out.size, stdout);
    buffer_free(&out);
}

static void put_json(const Tune *tune, const ls_tuning_record *record, JsonWriter *json) {
    json_string(json, "step", tune->image->step);
    json_string(json, "device", ls_context_device(tune->session.context));
    json_string(json, "description", ls_context_describe(tune->session.context));
    sizes_json(&tune->bindings.sizes, json);
    json_open(json, "candidates", '[');
    for (size_t i = 0; i < tune->count; i++) {
        const Candidate *c = &tune->candidates[i];
        json_open(json, NULL, '{');
        json_string(json, "variant", tune->image->variants[c->tuning.variant].name);
        json_integer(json, "parts", (int64_t)c->statistics.parts);
        json_integer(json, "threads", c->statistics.threads);
        json_number(json, "median_s", c->median);
        json_number(json, "ratio", i ? c->ratio : 1);
        json_number(json, "faster", c->faster);
        json_integer(json, "rounds", (int64_t)c->rounds);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_integer(json, "best", tune->kept ? (int64_t)tune->best : 0);
    json_boolean(json, "kept", tune->kept && !tune->options->dry_run);
    json_integer(json, "work_at_least", (int64_t)record->tuning.at_least);
    json_integer(json, "work_at_most", (int64_t)record->tuning.at_most);
}

/* ---- a step, or a part of one ---- */

static void forget(Tune *tune) {
    for (size_t i = 0; i < CANDIDATES_MAX; i++) {
        free(tune->candidates[i].times);
        free(tune->candidates[i].ratios);
        tune->candidates[i] = (Candidate){0};
    }
    tune->count = tune->best = 0;
    tune->kept = false;
}

/* What is tuned next is launched among what was found best for the parts before. */
static bool tune_launch(Tune *tune, ls_step *step, const ls_image *image, JsonWriter *json,
                        Failure *failure) {
    ls_tuning_record record;
    forget(tune);
    tune->step = step;
    tune->image = image;
    if (!add(tune, NULL, failure) || !add_variants(tune, failure) ||
        !compare(tune, "comparing plans", 1, failure))
        return false;
    const size_t plans = tune->count;
    if (!add_launches(tune, failure) || !compare(tune, "comparing launches", plans, failure) ||
        !confirm(tune, failure))
        return false;
    if (tune->count == 1 && !measure(tune, "measuring", (size_t[]){0}, 1, 3, failure)) return false;
    if (!keep(tune, &record, failure)) return false;
    if (json)
        put_json(tune, &record, json);
    else
        print_text(tune);
    return check(tune, ls_step_tune(step, tune->kept ? &tune->candidates[tune->best].tuning : NULL),
                 failure);
}

/* Of a step with `for` each part is launched by itself, and tuned while the others run too. */
static bool tune_parts(Tune *tune, JsonWriter *json, Failure *failure) {
    const ls_image *image = tune->session.image;
    if (json) {
        json_string(json, "step", image->step);
        json_open(json, "parts", '[');
    }
    for (uint32_t i = 0; i < image->part_count; i++) {
        ls_step *part = ls_step_part(tune->session.step, i);
        ls_step_statistics statistics;
        if (!check(tune, ls_step_stats(part, &statistics), failure)) return false;
        if (statistics.launches == 0) continue; /* it does not run at these sizes */
        if (json) json_open(json, NULL, '{');
        if (!tune_launch(tune, part, image->parts[i].image, json, failure)) return false;
        if (json) json_close(json, '}');
    }
    if (json) json_close(json, ']');
    return true;
}

static bool tune_step(Tune *tune, const Invocation *invocation, Failure *failure) {
    uint64_t bytes;
    JsonWriter writer = {0}, *json = tune->options->json ? &writer : NULL;
    bindings_open(&tune->session, &tune->bindings);
    for (size_t i = 1; i < invocation->argument_count; i++)
        if (!bindings_parse(&tune->bindings, invocation->arguments[i], failure)) return false;
    if (!sizes_option(&tune->bindings.sizes, &tune->options->sizes, failure) ||
        !bind_random(&tune->bindings, &bytes, failure))
        return false;
    session_announce(invocation, &tune->session);
    const double others = others_seconds(), began = seconds();
    if (!save(tune, failure)) return false;
    if (json) json_open(json, NULL, '{');
    const bool good =
        tune->session.image->part_count
            ? tune_parts(tune, json, failure)
            : tune_launch(tune, tune->session.step, tune->session.image, json, failure);
    if (good && others >= 0 && others_seconds() - others > 0.1 * (seconds() - began))
        note("other processes were running; on an idle machine the choice is a better one");
    if (good && json) {
        json_close(json, '}');
        fputs(json->text.data, stdout);
    }
    buffer_free(&writer.text);
    return good;
}

static int run(const Invocation *invocation) {
    Options options = *(const Options *)invocation->options;
    Failure failure = {0};
    if (!options.rounds) options.rounds = 11;
    if (invocation->argument_count == 0) return usage_error(invocation->command, "no file given");
    Tune *tune = memory(sizeof *tune);
    tune->options = &options;
    int status = session_open(invocation, invocation->arguments[0], &tune->session);
    if (status == STATUS_DONE) {
        if (!tune_step(tune, invocation, &failure)) status = report(&failure);
        for (size_t i = 0; tune->saved && i < tune->session.image->parameter_count; i++)
            free(tune->saved[i].data);
        forget(tune);
        free(tune->saved);
        bindings_close(&tune->bindings);
        session_close(&tune->session);
    }
    free(tune);
    return status;
}

#define OFFSET(member) offsetof(Options, member)
static const Option tune_options[] = {
    {0, "size", "AXIS=LENGTH,...", OPTION_LIST, OFFSET(sizes),
     "the length of every axis, as for lockstep bench"},
    {0, "rounds", "N", OPTION_COUNT, OFFSET(rounds),
     "rounds in which each candidate runs once; 11 by default"},
    {0, "json", NULL, OPTION_FLAG, OFFSET(json), "as JSON"},
    {0, "dry-run", NULL, OPTION_FLAG, OFFSET(dry_run), "measure, and keep nothing"},
};

const Command command_tune = {
    .name = "tune",
    .summary = "finds the fastest launch of a step here and keeps it for later runs",
    .arguments = "FILE[:STEP] --size AXIS=LENGTH,... [NAME=VALUE...]",
    .details =
        "Tries the plans that suit the sizes, with more or fewer loads in flight and (on a CPU)\n"
        "results written past the caches or into them, then threads (on a GPU block sizes and\n"
        "blocks for each multiprocessor), on random data and in turn, so that drift decides\n"
        "nothing. What is 3 % faster than the usual launch in 4 of 5 rounds is kept in the cache,\n"
        "for this program, this device and sizes near these, and used by every later run; else\n"
        "the usual launch stays. Of a step with `for` each part is tuned, one after another.\n"
        "No result changes by a bit. lockstep explain shows what is kept,\n"
        "lockstep cache clear drops it.",
    .examples = "  lockstep tune adamw.step --size n=1M\n"
                "  lockstep tune std/norms:layer_norm_backward --size b=2048,c=1024 --device cuda\n"
                "  lockstep tune adamw.step --size n=64K --dry-run --json",
    .options = tune_options,
    .option_count = COUNT(tune_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .device = true,
    .run = run,
};
