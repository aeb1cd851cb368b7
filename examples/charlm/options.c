/* options.c: the command line. One row per option; those marked as kept shape the training itself,
 * so a checkpoint holds them and its resumption takes them from there. */
#include "charlm.h"

#include <stdio.h>
#include <string.h>

const char program_name[] = "charlm";

#ifndef CHARLM_TEXT
#define CHARLM_TEXT "pride-and-prejudice.txt"
#endif

#define FIELD(name) offsetof(Options, name)
static const OptionRow rows[] = {
    {"layers", "N", "transformer blocks", WHOLE, FIELD(layers), 1, 96, "4"},
    {"channels", "N", "width of the residual stream", WHOLE, FIELD(channels), 8, 8192, "128"},
    {"heads", "N", "attention heads; divides channels", WHOLE, FIELD(heads), 1, 128, "4"},
    {"context", "N", "characters in a window", WHOLE, FIELD(context), 2, 8192, "64"},
    {"batch", "N",
     "windows in a micro-batch; auto: as many micro-batches of 16, up to --micro, as the "
     "gradients' "
     "noise asks for",
     WHOLE, FIELD(batch), 1, 65536, "16"},
    {"micro", "N",
     "micro-batches whose gradients make a step; 0: --batch is divided where that pays", WHOLE,
     FIELD(micro), 0, 4096, "0"},
    {"slots", "N",
     "parts of a micro-batch, added in one order: results that do not depend on --ranks (0: none)",
     WHOLE, FIELD(slots), 0, 1024, "0"},
    {"type", "TYPE", "f32, bf16 or f16: activations and operands of products", TEXT, FIELD(type), 0,
     0, "f32"},
    {"steps", "N", "training steps, over which the rate falls", WHOLE, FIELD(steps), 1, 1e9, "500"},
    {"rate", "X", "largest learning rate", REAL, FIELD(rate), 0, 100, "0.005"},
    {"last", "X", "factor of the rate at the end of its cosine", REAL, FIELD(last), 0, 1, "0.1"},
    {"warm", "N", "steps until the rate is full", WHOLE, FIELD(warm), 0, 1e9, "50"},
    {"decay", "X", "weight decay of matrices", REAL, FIELD(decay), 0, 100, "0.1"},
    {"clip", "X", "largest norm of all gradients", REAL, FIELD(clip), 1e-6, 1e30, "1"},
    {"dropout", "X", "share of each branch that is left out", REAL, FIELD(dropout), 0, 0.95, "0"},
    {"scale", "X", "loss scale at the start", REAL, FIELD(first_scale), 1e-30, 3e38, "65536"},
    {"seed", "N", "of weights, windows and dropout", WHOLE, FIELD(seed), 0, 1e9, "1"},
    {"checkpoint", "WHAT",
     "activations that are computed again: none, those of layers, all but few (less memory)", TEXT,
     FIELD(checkpoint), 0, 0, "none"},
    {"offload", "", "keep the optimizer's moments in the host's memory; parts come in turn", FLAG,
     FIELD(offload), 0, 1, "0"},
    {"ranks", "N", "processes that train together; turns on --slots 8 (or mpirun, torchrun)", WHOLE,
     FIELD(ranks), 0, 240, "0"},
    {"comm", "ENGINE",
     "shm, mpi, nccl or rccl: how ranks exchange; as the launcher suggests if left out", TEXT,
     FIELD(comm), 0, 0, NULL},
    {"buckets", "N",
     "parts in which ranks exchange gradients, each while the next is computed (0: at the end)",
     WHOLE, FIELD(buckets), 0, 1000, "0"},
    {"hash", "", "print a hash of weights, moments and losses at the end", FLAG, FIELD(hash), 0, 1,
     "0"},
    {"utilisation", "",
     "train five times for --seconds, with ever less on the host's way, and print a table", FLAG,
     FIELD(utilisation), 0, 1, "0"},
    {"seconds", "X", "of each row of --utilisation", REAL, FIELD(seconds), 0.01, 3600, "3"},
    {"text", "FILE", "what to learn", TEXT, FIELD(text), 0, 0, CHARLM_TEXT},
    {"device", "DEVICE", "auto, cpu, cuda[:i] or hip[:i]", TEXT, FIELD(device), 0, 0, NULL},
    {"memory", "MIB", "of the device, that is used at most (0: all)", WHOLE, FIELD(memory), 0, 1e9,
     "0"},
    {"blas", "FILE", "library for the products, or none for loops of our own", TEXT, FIELD(blas), 0,
     0, NULL},
    {"stop", "N", "end after this step as if interrupted (0: all)", WHOLE, FIELD(stop), 0, 1e9,
     "0"},
    {"report", "N", "steps from one line of progress to the next", WHOLE, FIELD(report), 1, 1e9,
     "25"},
    {"evaluate", "N", "steps from one validation to the next", WHOLE, FIELD(evaluate), 1, 1e9,
     "100"},
    {"save", "FILE", "checkpoint, .safetensors: written at the end and when interrupted", TEXT,
     FIELD(save), 0, 0, NULL},
    {"every", "N", "write it every N steps, too", WHOLE, FIELD(every), 0, 1e9, "0"},
    {"resume", "FILE", "go on from a checkpoint, bit for bit", TEXT, FIELD(resume), 0, 0, NULL},
    {"curve", "FILE", "the losses as a picture, .svg", TEXT, FIELD(curve), 0, 0, NULL},
    {"trace", "FILE", "when what ran on each rank, .json for Perfetto; slows the steps down", TEXT,
     FIELD(trace), 0, 0, NULL},
    {"sample", "N", "characters to write at the end", WHOLE, FIELD(sample), 0, 1000000, "400"},
    {"prompt", "TEXT", "what the sample begins with", TEXT, FIELD(prompt), 0, 0, "\n"},
    {"temperature", "X", "of the sample: lower is tamer", REAL, FIELD(temperature), 1e-3, 100,
     "0.8"},
};
_Static_assert(COUNT(rows) <= 64, "Options.given has a bit per option");

static void print_more(void) {
    printf(
        "\nA checkpoint keeps the options from --layers to --seed; --resume takes them from it.\n"
        "Ctrl-C ends after the step that runs, and saves where --save says so.\n");
}

static bool is(const OptionRow *row, const char *name) {
    return strcmp(row->name, name) == 0;
}

static bool take_auto(void *options, const OptionRow *row, const char *text) {
    if (!is(row, "batch") || strcmp(text, "auto") != 0) return false;
    ((Options *)options)->automatic = 1;
    return true;
}

int options_read(Options *options, int count, char **arguments) {
    static const OptionTable table = {
        .about = "trains a small GPT on the characters of a text, with Lockstep",
        .rows = rows,
        .count = COUNT(rows),
        .take = take_auto,
        .print_more = print_more};
    bool micro_given = false;
    *options = (Options){0};
    const int status = options_parse(&table, options, count, arguments, &options->given);
    for (size_t i = 0; i < COUNT(rows); i++)
        micro_given |= is(&rows[i], "micro") && options->given >> i & 1;
    if (options->automatic && !micro_given) options->micro = NOISE_MOST;
    return status;
}

/* The rows that a checkpoint keeps are the first ones. */
static size_t count_kept(void) {
    size_t i = 0;
    while (!is(&rows[i], "seed")) i++;
    return i + 1;
}

bool options_kept(const Options *options, size_t index, const char **name, char *text,
                  size_t size) {
    if (index >= count_kept()) return false;
    const OptionRow *row = &rows[index];
    const char *field = (const char *)options + row->at, *string;
    long whole;
    double real;
    *name = row->name;
    switch (row->kind) {
    case TEXT:
        memcpy(&string, field, sizeof string);
        snprintf(text, size, "%s", string);
        break;
    case WHOLE:
    case FLAG:
        memcpy(&whole, field, sizeof whole);
        snprintf(text, size, "%ld", whole);
        break;
    case REAL:
        memcpy(&real, field, sizeof real);
        snprintf(text, size, "%.17g", real);
        break;
    }
    return true;
}

bool options_is_new(size_t index, const char **usual) {
    *usual = rows[index].initial;
    return is(&rows[index], "slots");
}

/* The text of a type that lives as long as the program; NULL: there is none of that name. */
static const char *known_type(const char *name) {
    static const char *const types[] = {"f32", "bf16", "f16"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i]) == 0) return types[i];
    return NULL;
}

bool options_take(Options *options, size_t index, const char *text) {
    const OptionRow *row = &rows[index];
    const char *name;
    char asked[64], kept[64];
    Options other = *options;
    if (row->kind == TEXT) { /* only the type, whose text must outlive this call */
        const char *known = known_type(text);
        if (!known) return fail("the checkpoint's --%s is `%s`, which is none", row->name, text);
        text = known;
    }
    if (!option_set(row, &other, text)) return false;
    options_kept(options, index, &name, asked, sizeof asked);
    options_kept(&other, index, &name, kept, sizeof kept);
    if (options->given >> index & 1 && strcmp(asked, kept) != 0)
        return fail("the checkpoint was made with --%s %s, not %s: leave the option out, or train "
                    "from the start",
                    row->name, kept, asked);
    *options = other;
    return true;
}

bool options_agree(const Options *options) {
    if (!known_type(options->type))
        return fail("--type is `%s`; it takes f32, bf16 or f16", options->type);
    const char *const checkpoints[] = {"none", "layers", "all"};
    size_t which = 0;
    while (which < 3 && strcmp(options->checkpoint, checkpoints[which]) != 0) which++;
    if (which == 3)
        return fail("--checkpoint is `%s`; it takes none, layers or all", options->checkpoint);
    if (options->channels % options->heads != 0)
        return fail("--heads %ld does not divide --channels %ld", options->heads,
                    options->channels);
    if (options->slots & (options->slots - 1))
        return fail("--slots is %ld; slots are 1, 2, 4, 8 and so on", options->slots);
    if (options->slots && options->batch % options->slots != 0)
        return fail("--slots %ld does not divide --batch %ld, the windows that are divided among "
                    "them",
                    options->slots, options->batch);
    if (options->utilisation &&
        (options->save || options->resume || options->curve || options->trace))
        return fail("--utilisation trains to measure: leave out --save, --resume, --curve and "
                    "--trace");
    if (options->utilisation && options->slots)
        return fail("--utilisation measures one process without slots: leave out --ranks and "
                    "--slots");
    if (options->offload && options->slots)
        return fail("--offload is for one process without slots; --ranks divides the moments "
                    "among the ranks");
    if (options->offload && options->utilisation)
        return fail("--utilisation measures without --offload: leave one out");
    if (options->automatic && (options->save || options->resume))
        return fail("a checkpoint does not keep what --batch auto has seen: give a number");
    if (options->automatic && (options->slots || options->ranks))
        return fail("--batch auto is for one process without --slots");
    if (options->automatic && options->micro < NOISE_LEAST)
        return fail("--batch auto takes 2 micro-batches or more, --micro allows %ld",
                    options->micro);
    if (options->automatic && (options->utilisation || options->offload))
        return fail("--batch auto goes neither with --utilisation nor with --offload");
    if (options->every > 0 && !options->save)
        return fail("--every says when to write a checkpoint, but --save does not say where");
    return true;
}

bool options_divide(Options *options, int ranks, bool launched) {
    char sizes[128] = "";
    size_t used = 0;
    if (options->slots == 0 && !launched && options->ranks == 0) return true;
    if (options->slots == 0 && options->resume)
        return fail("the checkpoint was made without --slots, so one process goes on with it: "
                    "leave --ranks out");
    if (options->slots == 0) options->slots = 8;
    if (options->slots % ranks == 0) return true;
    for (long size = 1; size <= options->slots && used < sizeof sizes; size *= 2)
        used +=
            (size_t)snprintf(sizes + used, sizeof sizes - used, "%s%ld", used ? ", " : "", size);
    return fail("%d ranks do not divide %ld slots evenly: choose %s", ranks, options->slots, sizes);
}
