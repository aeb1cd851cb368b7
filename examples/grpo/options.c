/* options.c: the command line, a row per option. */
#include "grpo.h"

#include <stdio.h>

const char program_name[] = "grpo";

#define FIELD(name) offsetof(Options, name)
static const OptionRow rows[] = {
    {"environments", "N", "baskets that play at once, in groups of 16", WHOLE, FIELD(environments),
     16, 1 << 20, "256"},
    {"ticks", "N", "length of an episode", WHOLE, FIELD(ticks), 11, 4096, "40"},
    {"iterations", "N", "episodes, with what is learnt from each", WHOLE, FIELD(iterations), 1, 1e9,
     "200"},
    {"updates", "N", "updates of the policy after each episode", WHOLE, FIELD(updates), 1, 16, "1"},
    {"micro", "N", "micro-batches whose gradients make an update", WHOLE, FIELD(micro), 1, 32, "1"},
    {"rate", "X", "learning rate", REAL, FIELD(rate), 0, 100, "0.01"},
    {"decay", "X", "weight decay", REAL, FIELD(decay), 0, 100, "0.0001"},
    {"clip", "X", "how far a ratio of probabilities may go from 1", REAL, FIELD(clip), 0, 1e6,
     "0.2"},
    {"norm", "X", "largest norm of the gradient", REAL, FIELD(most), 1e-6, 1e30, "1"},
    {"kl", "X", "weight of the divergence from the reference policy", REAL, FIELD(kl_weight), 0,
     1e6, "0"},
    {"reference", "N", "iterations until the policy becomes the reference (0: it is who played)",
     WHOLE, FIELD(reference), 0, 1e9, "0"},
    {"entropy", "X", "weight of the entropy bonus", REAL, FIELD(entropy_weight), 0, 1e6, "0.01"},
    {"seed", "N", "of weights, fruits and choices", WHOLE, FIELD(seed), 0, 1e9, "1"},
    {"report", "N", "iterations from one line of progress to the next", WHOLE, FIELD(report), 1,
     1e9, "10"},
    {"curve", "FILE", "the share of fruits that is caught as a picture, .svg", TEXT, FIELD(curve),
     0, 0, NULL},
    {"device", "DEVICE", "auto, cpu, cuda[:i] or hip[:i]; auto takes the first that can do it",
     TEXT, FIELD(device), 0, 0, "auto"},
};

static void print_more(void) {
    printf("\nA fruit can be caught if the best player would: `caught` is the share of those.\n");
}

/* What no single option can tell. */
static bool agree(const Options *options) {
    if (options->environments % GROUP != 0)
        return fail("--environments is %ld; groups are of %d", options->environments, GROUP);
    if (options->environments % options->micro != 0)
        return fail("--micro %ld does not divide --environments %ld", options->micro,
                    options->environments);
    if (options->reference > 0 && options->kl_weight == 0)
        return fail("--reference is the policy to stay near, but --kl gives that no weight");
    return true;
}

int options_read(Options *options, int count, char **arguments) {
    static const OptionTable table = {.about = "teaches a basket to catch fruits, with Lockstep",
                                      .rows = rows,
                                      .count = COUNT(rows),
                                      .print_more = print_more};
    *options = (Options){0};
    const int status = options_parse(&table, options, count, arguments, NULL);
    return status ? status : agree(options) ? 0 : WRONG_ARGUMENTS;
}
