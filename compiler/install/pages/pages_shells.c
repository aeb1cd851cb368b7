/* pages_shells.c: the parts of the completions of bash, zsh and fish.
 *
 * What an option takes is told from what its row calls it: `takes` has a line for each name that
 * can be completed. What a command takes besides is told from its usage in the same way. */
#include "files.h"
#include "command.h"
#include "pages.h"

#include <string.h>

typedef enum Lists { LIST_FORMS = 1, LIST_TARGETS = 2 } Lists;
typedef struct Takes {
    const char *name;  /* in the row of the option */
    const char *kind;  /* for lockstep.bash.in: words, list, files, folders, assign */
    const char *words; /* of `words` and `list` */
    unsigned lists;    /* and of the compiler's tables */
} Takes;

static const Takes takes[] = {
    {"DEVICE", "words", "auto cpu cuda hip", 0},
    {"GRADE", "words", "exact lite fast", 0},
    {"FILE", "files", "", 0},
    {"DIR", "folders", "", 0},
    {"NAME=FILE", "assign", "", 0},
    {"T,...", "list", "", LIST_TARGETS},
    {"TARGET", "words", "", LIST_TARGETS},
    {"T", "words", "", LIST_FORMS | LIST_TARGETS},
};

static void put_forms(FILE *out) {
    for (size_t i = 0; ls_form_at(i); i++) fprintf(out, "%s ", ls_form_at(i)->name);
}

static void put_targets(FILE *out) {
    for (size_t i = 0; ls_target_at(i); i++)
        fprintf(out, "%s%s", i ? " " : "", ls_target_at(i)->name);
    for (size_t i = 0; ls_target_at(i); i++)
        if (ls_target_at(i)->portable) fprintf(out, " %s", ls_target_at(i)->portable);
}

static bool has_words(const Takes *what) {
    return *what->words || what->lists;
}

static void put_words_of(FILE *out, const Takes *what) {
    fputs(what->words, out);
    if (what->lists & LIST_FORMS) put_forms(out);
    if (what->lists & LIST_TARGETS) put_targets(out);
}

static const Takes *what_takes(const Option *option) {
    for (size_t i = 0; option->argument && i < COUNT(takes); i++)
        if (strcmp(takes[i].name, option->argument) == 0) return &takes[i];
    return NULL;
}

/* What a command takes besides options: "steps", "sources", "words" with the words of "[a|b|c]", or
 * "" for nothing. */
static const char *arguments_kind(const Command *command) {
    const char *usage = command->arguments;
    if (strncmp(usage, "FILE[:STEP]", 11) == 0) return "steps";
    if (strncmp(usage, "FILE", 4) == 0) return "sources";
    return *usage == '[' && strchr(usage, '|') ? "words" : "";
}

static void put_words(FILE *out, const Command *command) {
    for (const char *at = command->arguments; *at; at++)
        if (*at != '[' && *at != ']') putc(*at == '|' ? ' ' : *at, out);
}

/* The first words of a help text, up to where it goes into particulars, for a shell's single
 * quotes; `escaped` are what else takes a backslash there. */
static void put_short(FILE *out, const char *text, const char *escaped) {
    for (; *text; text++) {
        const bool stops = strchr(";:.", *text) && (text[1] == ' ' || text[1] == '\n' || !text[1]);
        if (stops) break;
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr(escaped, *text))
            fprintf(out, "\\%c", *text);
        else
            putc(*text == '\n' ? ' ' : *text, out);
    }
}

/* ---- bash ---- */

static void command_names(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; command_at(i); i++) fprintf(out, "%s%s", i ? " " : "", command_at(i)->name);
}

static void bash_option_list(FILE *out, const Command *command) {
    const Option *option;
    for (size_t i = 0; (option = option_at(command, i)); i++) {
        fprintf(out, "%s--%s", i ? " " : "", option->name);
        if (option->letter) fprintf(out, " -%c", option->letter);
    }
}

static void bash_options(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; command_at(i); i++) {
        fprintf(out, "    %s) echo '", command_at(i)->name);
        bash_option_list(out, command_at(i));
        fputs("' ;;\n", out);
    }
    fputs("    *) echo '", out);
    bash_option_list(out, NULL);
    fputs("' ;;", out);
}

/* "none" of an option whose argument cannot be guessed: it is no argument of the command. */
static void bash_values_of(FILE *out, const Command *command) {
    const Option *option;
    for (size_t i = 0; (option = option_at(command, i)); i++) {
        if (!option->argument) continue;
        const char *name = command ? command->name : "";
        const Takes *what = what_takes(option);
        fprintf(out, "    %s:--%s", name, option->name);
        if (option->letter) fprintf(out, " | %s:-%c", name, option->letter);
        fprintf(out, ") echo '%s", what ? what->kind : "none");
        if (what && has_words(what)) putc(' ', out);
        if (what) put_words_of(out, what);
        fputs("' ;;\n", out);
    }
}

static void bash_values(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; command_at(i); i++) bash_values_of(out, command_at(i));
    bash_values_of(out, NULL);
}

static void bash_arguments(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; command_at(i); i++) {
        const char *kind = arguments_kind(command_at(i));
        fprintf(out, "%s    %s) echo '%s", i ? "\n" : "", command_at(i)->name, kind);
        if (strcmp(kind, "words") == 0) putc(' ', out), put_words(out, command_at(i));
        fputs("' ;;", out);
    }
}

/* ---- zsh ---- */

static void zsh_action(FILE *out, const Takes *what) {
    if (!what || strcmp(what->kind, "none") == 0)
        putc(' ', out); /* it is requested, and nothing is known of it */
    else if (strcmp(what->kind, "files") == 0)
        fputs("_files", out);
    else if (strcmp(what->kind, "folders") == 0)
        fputs("_files -/", out);
    else if (strcmp(what->kind, "assign") == 0)
        fputs("_lockstep_assign", out);
    else {
        const bool list = strcmp(what->kind, "list") == 0;
        fputs(list ? "_values -s , target " : "(", out);
        put_words_of(out, what);
        if (!list) putc(')', out);
    }
}

static void zsh_option(FILE *out, const char *indent, const Option *option) {
    const bool argument = option->argument != NULL;
    fprintf(out, "%s", indent);
    if (option->kind == OPTION_LIST)
        fputs("'*'", out);
    else if (option->letter)
        fprintf(out, "'(-%c --%s)'", option->letter, option->name);
    if (option->letter)
        fprintf(out, "{-%c%s,--%s%s}'[", option->letter, argument ? "+" : "", option->name,
                argument ? "=" : "");
    else
        fprintf(out, "'--%s%s[", option->name, argument ? "=" : "");
    put_short(out, option->help, "[]:\\");
    putc(']', out);
    if (argument) {
        putc(':', out);
        put_short(out, option->argument, ":\\");
        putc(':', out);
        zsh_action(out, what_takes(option));
    }
    fputs("' \\", out);
}

static void zsh_option_list(FILE *out, const char *indent, const Command *command) {
    const Option *option;
    for (size_t i = 0; (option = option_at(command, i)); i++) {
        if (i) putc('\n', out);
        zsh_option(out, indent, option);
    }
}

static void zsh_common(FILE *out, const Command *command) {
    (void)command;
    zsh_option_list(out, "        ", NULL);
}

static void zsh_commands(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; command_at(i); i++) {
        fprintf(out, "%s        '%s:", i ? "\n" : "", command_at(i)->name);
        put_short(out, command_at(i)->summary, ":");
        putc('\'', out);
    }
}

static void zsh_options(FILE *out, const Command *command) {
    (void)command;
    for (size_t i = 0; command_at(i); i++) {
        const Command *each = command_at(i);
        const char *kind = arguments_kind(each);
        fprintf(out, "%s        %s)\n            _arguments -s \\\n", i ? "\n" : "", each->name);
        zsh_option_list(out, "                ", each);
        fputs("\n                ", out);
        if (strcmp(kind, "steps") == 0)
            fputs("'1:file:_lockstep_steps' '*:argument:_lockstep_assign' ;;", out);
        else if (strcmp(kind, "sources") == 0)
            fputs("'*:file:_lockstep_sources' ;;", out);
        else if (*kind) {
            fputs("'1:argument:(", out);
            put_words(out, each);
            fputs(")' ;;", out);
        } else
            fputs("&& return ;;", out);
    }
}

/* ---- fish ---- */

static void fish_description(FILE *out, const char *text) {
    fputs(" -d '", out);
    put_short(out, text, "");
    fputs("'\n", out);
}

static void fish_option(FILE *out, const char *when, const Option *option) {
    const Takes *what = what_takes(option);
    fprintf(out, "complete -c lockstep -n '%s' -l %s", when, option->name);
    if (option->letter) fprintf(out, " -s %c", option->letter);
    if (option->argument) {
        if (!what)
            fputs(" -x", out);
        else if (strcmp(what->kind, "folders") == 0)
            fputs(" -x -a '(__fish_complete_directories)'", out);
        else if (has_words(what)) {
            const bool list = strcmp(what->kind, "list") == 0;
            fputs(list ? " -x -a '(__lockstep_list " : " -x -a '", out);
            put_words_of(out, what);
            fputs(list ? ")'" : "'", out);
        } else
            fputs(" -r -F", out);
    }
    fish_description(out, option->help);
}

static void fish_arguments(FILE *out, const char *when, const Command *command) {
    const char *kind = arguments_kind(command);
    const bool assigns = strstr(command->arguments, "NAME=VALUE") != NULL;
    if (strcmp(kind, "steps") == 0) {
        fprintf(out, "complete -c lockstep -n '%s' -%c -a '(__lockstep_steps)'\n", when,
                assigns ? 'F' : 'f'); /* files, too */
        if (assigns) fprintf(out, "complete -c lockstep -n '%s' -a '(__lockstep_names)'\n", when);
    } else if (strcmp(kind, "sources") == 0)
        fprintf(out, "complete -c lockstep -n '%s' -f -a '(__lockstep_sources)'\n", when);
    else if (*kind) {
        fprintf(out, "complete -c lockstep -n '%s' -f -a '", when);
        put_words(out, command);
        fputs("'\n", out);
    } else
        fprintf(out, "complete -c lockstep -n '%s' -f\n", when);
}

static void fish_completions(FILE *out, const Command *command) {
    const char *none = "__fish_use_subcommand";
    (void)command;
    for (size_t i = 0; command_at(i); i++) {
        fprintf(out, "complete -c lockstep -n '%s' -f -a %s", none, command_at(i)->name);
        fish_description(out, command_at(i)->summary);
    }
    for (size_t i = 0; option_at(NULL, i); i++) fish_option(out, none, option_at(NULL, i));
    for (size_t i = 0; command_at(i); i++) {
        char when[100];
        snprintf(when, sizeof when, "__fish_seen_subcommand_from %s", command_at(i)->name);
        fish_arguments(out, when, command_at(i));
        for (size_t k = 0; option_at(command_at(i), k); k++)
            fish_option(out, when, option_at(command_at(i), k));
    }
}

static void library_files(FILE *out, const Command *command) {
    (void)command;
    library_print(out, false, " ");
}

static void library_steps(FILE *out, const Command *command) {
    (void)command;
    library_print(out, true, " ");
}

const Substitution shell_substitutions[] = {
    {"command_names", command_names},
    {"bash_options", bash_options},
    {"bash_values", bash_values},
    {"bash_arguments", bash_arguments},
    {"zsh_common", zsh_common},
    {"zsh_commands", zsh_commands},
    {"zsh_options", zsh_options},
    {"fish_completions", fish_completions},
    {"library_files", library_files},
    {"library_steps", library_steps},
    {NULL, NULL},
};
