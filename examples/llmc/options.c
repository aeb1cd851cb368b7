/* options.c: the command line, one row per option. */
#include "minigpt.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum Kind { TEXT, WHOLE, REAL, FLAG } Kind;
typedef struct Row {
    const char *name, *argument, *meaning;
    Kind kind;
    size_t at;           /* in Options */
    double least, most;  /* of numbers */
    const char *initial; /* NULL: none */
} Row;

#define FIELD(name) offsetof(Options, name)
static const Row rows[] = {
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

bool fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("minigpt: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

const char *step_name(int number) {
    static const char *const names[] = {
#define STEP(name) #name,
#include "steps.def"
#undef STEP
        "products"};
    return names[number];
}

static void print_help(void) {
    printf("minigpt: a GPT-2 trainer in plain C that takes its steps from Lockstep\n\n"
           "usage: minigpt [--OPTION [VALUE]]...\n\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", rows[i].name, rows[i].argument);
        printf("  %-20s %s", left, rows[i].meaning);
        if (rows[i].initial && rows[i].kind != TEXT && rows[i].kind != FLAG)
            printf(" (%s)", rows[i].initial);
        putchar('\n');
    }
    printf("\nsteps:");
    for (int i = 0; i < STEPS; i++) printf(" %s", step_name(i));
    printf("\n");
}

/* Writes the value into the options; false with a message when it is none. */
static bool set(Options *options, const Row *row, const char *text) {
    char *field = (char *)options + row->at, *end;
    if (row->kind == TEXT) {
        memcpy(field, &text, sizeof text);
        return true;
    }
    const double value = strtod(text, &end);
    const bool number = end != text && !*end && !isspace((unsigned char)*text);
    if (!number || !(value >= row->least) || !(value <= row->most) ||
        (row->kind == WHOLE && (double)(long)value != value))
        return fail("--%s is `%s`; it takes a %s from %g to %g", row->name, text,
                    row->kind == WHOLE ? "whole number" : "number", row->least, row->most);
    const long whole = (long)value;
    if (row->kind != REAL)
        memcpy(field, &whole, sizeof whole);
    else
        memcpy(field, &value, sizeof value);
    return true;
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
        const bool flag = rows[row].kind == FLAG;
        if (!flag && i + 1 == count) {
            fail("%s needs a value: %s", name, rows[row].meaning);
            return WRONG_ARGUMENTS;
        }
        if (!set(options, &rows[row], flag ? "1" : arguments[++i])) return WRONG_ARGUMENTS;
    }
    return read_taken(options) && agree(options) ? 0 : WRONG_ARGUMENTS;
}
