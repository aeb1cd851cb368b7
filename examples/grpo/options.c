/* options.c: the command line, a row per option. */
#include "grpo.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum Kind { TEXT, WHOLE, REAL } Kind;
typedef struct Row {
    const char *name, *argument, *meaning;
    Kind kind;
    size_t at;           /* in Options */
    double least, most;  /* of numbers */
    const char *initial; /* NULL: none */
} Row;

#define FIELD(name) offsetof(Options, name)
static const Row rows[] = {
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

bool fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("grpo: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

static void print_help(void) {
    printf("grpo: teaches a basket to catch fruits, with Lockstep\n\n"
           "usage: grpo [--OPTION VALUE]...\n\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", rows[i].name, rows[i].argument);
        printf("  %-18s %s", left, rows[i].meaning);
        if (rows[i].initial) printf(" (%s)", rows[i].initial);
        putchar('\n');
    }
    printf("\nA fruit can be caught if the best player would: `caught` is the share of those.\n");
}

/* Writes the value into the options; false with a message when it is none. */
static bool set(Options *options, const Row *row, const char *text) {
    char *field = (char *)options + row->at, *end;
    if (row->kind == TEXT) {
        memcpy(field, &text, sizeof text);
        return true;
    }
    const double value = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || !(value >= row->least) ||
        !(value <= row->most) || (row->kind == WHOLE && (double)(long)value != value))
        return fail("--%s is `%s`; it takes a %s from %g to %g", row->name, text,
                    row->kind == WHOLE ? "whole number" : "number", row->least, row->most);
    const long whole = (long)value;
    if (row->kind == WHOLE)
        memcpy(field, &whole, sizeof whole);
    else
        memcpy(field, &value, sizeof value);
    return true;
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
    *options = (Options){0};
    for (size_t i = 0; i < COUNT(rows); i++)
        if (rows[i].initial) set(options, &rows[i], rows[i].initial);
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        size_t row = 0;
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
            print_help();
            return -1;
        }
        while (row < COUNT(rows) &&
               (strncmp(name, "--", 2) != 0 || strcmp(name + 2, rows[row].name) != 0))
            row++;
        if (row == COUNT(rows)) {
            fail("there is no option `%s`; --help lists them", name);
            return WRONG_ARGUMENTS;
        }
        if (i + 1 == count) {
            fail("%s needs a value: %s", name, rows[row].meaning);
            return WRONG_ARGUMENTS;
        }
        if (!set(options, &rows[row], arguments[++i])) return WRONG_ARGUMENTS;
    }
    return agree(options) ? 0 : WRONG_ARGUMENTS;
}
