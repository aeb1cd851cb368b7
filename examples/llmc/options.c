/* options.c: the command line, one row per option. */
#include "minigpt.h"

#include <stdio.h>
#include <string.h>

const char program_name[] = "minigpt";

#define FIELD(name) offsetof(Options, name)
static const OptionRow rows[] = {
    {"layers", "N", "transformer blocks", WHOLE, FIELD(layers), 1, 96, "4"},
    {"channels", "N", "width of the residual stream", WHOLE, FIELD(channels), 8, 8192, "128"},
    {"heads", "N", "attention heads; divides channels", WHOLE, FIELD(heads), 1, 128, "4"},
    {"context", "N", "tokens in a window", WHOLE, FIELD(context), 2, 8192, "64"},
    {"batch", "N", "windows in a batch", WHOLE, FIELD(batch), 1, 65536, "16"},
    {"classes", "N", "different tokens; at least those of the text", WHOLE, FIELD(classes), 1,
     1000000, "1"},
    {"steps", "N", "training steps", WHOLE, FIELD(steps), 1, 1e9, "200"},
    {"report", "N", "steps from one line of progress to the next", WHOLE, FIELD(report), 1, 1e9,
     "20"},
    {"rate", "X", "learning rate", REAL, FIELD(rate), 0, 100, "0.003"},
    {"decay", "X", "weight decay of matrices", REAL, FIELD(decay), 0, 100, "0.1"},
    {"seed", "N", "of weights and windows", WHOLE, FIELD(seed), 0, 1e9, "1"},
    {"text", "FILE", "what to learn", TEXT, FIELD(text), 0, 0, MINIGPT_TEXT},
    {"blas", "FILE", "library for the products, or none for loops of our own", TEXT, FIELD(blas), 0,
     0, NULL},
    {"plain", "", "take nothing from Lockstep: plain C", FLAG, FIELD(plain), 0, 1, "0"},
    {"fast", "", "the plain C as -Ofast makes it, with sums in any order", FLAG, FIELD(fast), 0, 1,
     "0"},
    {"take", "STEP,STEP...", "take these steps only; the rest is plain C", TEXT, FIELD(take), 0, 0,
     NULL},
    {"load", "", "compile gpt2.step now, instead of what was built in", FLAG, FIELD(load), 0, 1,
     "0"},
    {"compare", "", "train all forms side by side and print the time of each step", FLAG,
     FIELD(compare), 0, 1, "0"},
    {"check", "", "compare the gradients with plain C's and with finite differences", FLAG,
     FIELD(check), 0, 1, "0"},
};

const char *step_name(int number) {
    static const char *const names[] = {
#define STEP(name) #name,
#include "steps.def"
#undef STEP
        "products"};
    return names[number];
}

static void print_more(void) {
    printf("\nsteps:");
    for (int i = 0; i < STEPS; i++) printf(" %s", step_name(i));
    printf("\n");
}

/* Which steps are Lockstep's. */
static bool read_taken(Options *options) {
    const char *at = options->take;
    for (int i = 0; i < STEPS; i++) options->taken[i] = !at && !options->plain;
    if (at && options->plain) return fail("--plain takes no step: leave --take out");
    while (at && *at) {
        const size_t length = strcspn(at, ",");
        int i = 0;
        while (i < STEPS && (strlen(step_name(i)) != length || strncmp(step_name(i), at, length)))
            i++;
        if (i == STEPS)
            return fail("--take: there is no step `%.*s`; --help lists them", (int)length, at);
        options->taken[i] = true;
        at += length + (at[length] == ',');
    }
    return true;
}

static bool agree(const Options *options) {
    if (options->channels % options->heads != 0)
        return fail("--heads %ld does not divide --channels %ld", options->heads,
                    options->channels);
    if (options->compare && options->check)
        return fail("--compare and --check are runs of their own: choose one");
    if (options->plain && options->load) return fail("--plain has nothing to load");
    if (options->plain && (options->compare || options->check))
        return fail("--%s runs plain C beside Lockstep: leave --plain out",
                    options->compare ? "compare" : "check");
    return true;
}

int options_read(Options *options, int count, char **arguments) {
    static const OptionTable table = {
        .about = "a GPT-2 trainer in plain C that takes its steps from Lockstep",
        .rows = rows,
        .count = COUNT(rows),
        .print_more = print_more};
    *options = (Options){0};
    const int status = options_parse(&table, options, count, arguments, NULL);
    return status ? status : read_taken(options) && agree(options) ? 0 : WRONG_ARGUMENTS;
}
