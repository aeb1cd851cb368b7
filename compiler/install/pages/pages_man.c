/* pages_man.c: the parts of the manual pages, as roff. */
#include "files.h"
#include "command.h"
#include "pages.h"

#include <ctype.h>
#include <string.h>

/* Text as roff takes it: nothing of it is a request or an escape. */
static void put(FILE *out, const char *text) {
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\'')
            fputs("\\(aq", out);
        else if (*text == '~')
            fputs("\\(ti", out);
        else
            putc(*text, out);
        begins = *text == '\n';
    }
}

/* "finds the mistakes" as "Finds the mistakes." */
static void put_sentence(FILE *out, const char *text) {
    char first[2] = {(char)toupper((unsigned char)*text), '\0'};
    const size_t size = strlen(text);
    put(out, first);
    put(out, text + 1);
    if (size && text[size - 1] != '.') putc('.', out);
}

static void name(FILE *out, const Command *command) {
    put(out, command->name);
}

static void upper_name(FILE *out, const Command *command) {
    for (const char *at = command->name; *at; at++) putc(toupper((unsigned char)*at), out);
}

static void summary(FILE *out, const Command *command) {
    put(out, command->summary);
}

/* What is in capitals stands for something else, and is set in italics. */
static void usage(FILE *out, const Command *command) {
    fputs("[\\fIOPTION\\fR]...", out);
    for (const char *at = command->arguments; *at;) {
        if (at == command->arguments) putc(' ', out);
        const size_t size = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (size)
            fprintf(out, "\\fI%.*s\\fR", (int)size, at);
        else
            fputs(*at == '-' ? "\\-" : (char[]){*at, '\0'}, out);
        at += size ? size : 1;
    }
}

static void details(FILE *out, const Command *command) {
    put_sentence(out, command->summary);
    if (!command->details) return;
    fputs("\n.PP\n", out);
    put_sentence(out, command->details);
}

static void put_options(FILE *out, const Command *command) {
    const Option *option;
    for (size_t i = 0; (option = option_at(command, i)); i++) {
        fputs(i ? "\n.TP\n" : ".TP\n", out);
        if (option->letter) fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
        fputs("\\fB\\-\\-", out);
        put(out, option->name);
        fputs("\\fR", out);
        if (option->argument) {
            fputs(" \\fI", out);
            put(out, option->argument);
            fputs("\\fR", out);
        }
        putc('\n', out);
        put(out, option->help);
    }
}

static void common_options(FILE *out, const Command *command) {
    (void)command;
    put_options(out, NULL);
}

static void examples(FILE *out, const Command *command) {
    put(out, command->examples);
}

static void commands(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; command_at(i); i++) {
        fprintf(out, "%s.TP\n.BR lockstep\\-%s (1)\n", i ? "\n" : "", command_at(i)->name);
        put_sentence(out, command_at(i)->summary);
    }
}

/* The other pages. */
static void see_also(FILE *out, const Command *command) {
    const char *comma = "";
    if (command) fputs(".BR lockstep (1)", out), comma = " ,\n";
    for (size_t i = 0; command_at(i); i++) {
        if (command_at(i) == command) continue;
        fprintf(out, "%s.BR lockstep\\-%s (1)", comma, command_at(i)->name);
        comma = " ,\n";
    }
}

static const struct {
    const char *name, *reader, *values, *text;
} variables[] = {
#define X(name, reader, values, text) {#name, reader, values, text},
#include "lockstep/environment.def"
#undef X
};

static void environment(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; i < COUNT(variables); i++) {
        fprintf(out, "%s.TP\n.BI %s= ", i ? "\n" : "", variables[i].name);
        put(out, variables[i].values);
        putc('\n', out);
        put_sentence(out, variables[i].text);
    }
}

/* As Markdown. Words stand as they are written, what stands for them without a code's type. */
static void environment_table(FILE *out, const Command *command) {
    (void)command;
    fputs("| variable | read by | values | what it does |\n| --- | --- | --- | --- |", out);
    for (size_t i = 0; i < COUNT(variables); i++) {
        fprintf(out, "\n| `%s` | %s | ", variables[i].name, variables[i].reader);
        for (const char *at = variables[i].values; *at;) {
            const size_t size = strcspn(at, "|");
            const char *code = isupper((unsigned char)*at) ? "" : "`";
            fprintf(out, "%s%.*s%s%s", code, (int)size, at, code, at[size] ? ", " : "");
            at += size + (at[size] != 0);
        }
        fprintf(out, " | %s |", variables[i].text);
    }
}

/* As Markdown. */
static void target_table(FILE *out, const Command *command) {
    (void)command;
    fputs("| target | dialect | lanes | compiled in the tests by | for it and later devices |\n"
          "| --- | --- | --- | --- | --- |",
          out);
    for (size_t i = 0; ls_target_at(i); i++) {
        const ls_target *target = ls_target_at(i);
        const char *code = target->portable ? "`" : "";
        fprintf(out, "\n| `%s` | %s | %u | %s | %s%s%s |", target->name,
                ls_target_dialect(target->name), target->lanes, target->tried, code,
                target->portable ? target->portable : "", code);
    }
}

static void library(FILE *out, const Command *command) {
    (void)command;
    fputs(".BR ", out);
    library_print(out, false, " ,\n.BR ");
    fputs(" .", out);
}

const Substitution man_substitutions[] = {
    {"NAME", upper_name},
    {"name", name},
    {"summary", summary},
    {"usage", usage},
    {"details", details},
    {"options", put_options},
    {"common_options", common_options},
    {"examples", examples},
    {"commands", commands},
    {"see_also", see_also},
    {"environment", environment},
    {"environment_table", environment_table},
    {"target_table", target_table},
    {"library", library},
    {NULL, NULL},
};
