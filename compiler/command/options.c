/* options.c: reads a command line by the command's table, and prints the same table as help. */
#include "files.h"
#include "command.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMON(member) offsetof(Common, member)
static const Option common_options[] = {
    {0, "device", "DEVICE", OPTION_TEXT, COMMON(device),
     "auto, cpu, cuda[:i] or hip[:i]; auto takes the first usable"},
    {'D', "define", "NAME=VALUE", OPTION_LIST, COMMON(defines), "override a const of the program"},
    {'I', "import-path", "DIR", OPTION_LIST, COMMON(import_paths),
     "look for imported files in DIR, too"},
    {0, "math", "GRADE", OPTION_TEXT, COMMON(math_text),
     "exact, lite or fast functions, whatever the steps say;\nfast gives up equal bits"},
    {'v', "verbose", NULL, OPTION_FLAG, COMMON(verbose), "say what is being done, on stderr"},
    {'h', "help", NULL, OPTION_FLAG, COMMON(help), "print this text"},
    {0, "version", NULL, OPTION_FLAG, COMMON(version), "print the version"},
};

void list_add(StringList *list, const char *item) {
    if ((list->count & (list->count + 1)) == 0) /* full at 0, 1, 3, 7 ... */
        list->items = memory_grow(list->items, 2 * list->count + 1, sizeof *list->items);
    list->items[list->count++] = item;
}

typedef struct Found {
    const Option *option;
    void *target; /* the struct its offset is in */
} Found;

static Found find(const Command *command, void *options, Common *common, const char *name,
                  size_t size) {
    for (size_t i = 0; command && i < command->option_count; i++) {
        const Option *option = &command->options[i];
        if (size == 1 ? option->letter == *name
                      : strlen(option->name) == size && memcmp(option->name, name, size) == 0)
            return (Found){option, options};
    }
    for (size_t i = 0; i < COUNT(common_options); i++) {
        const Option *option = &common_options[i];
        if (size == 1 ? option->letter == *name
                      : strlen(option->name) == size && memcmp(option->name, name, size) == 0)
            return (Found){option, common};
    }
    return (Found){NULL, NULL};
}

static bool unknown(const Command *command, const char *word, size_t size, Failure *failure) {
    StringList names = {0};
    for (size_t i = 0; command && i < command->option_count; i++)
        list_add(&names, command->options[i].name);
    for (size_t i = 0; i < COUNT(common_options); i++) list_add(&names, common_options[i].name);
    size_t dashes = strspn(word, "-");
    char *name = copy_text(word + dashes, size - dashes);
    const char *near = nearest(name, names.items, names.count);
    fail(failure, STATUS_USAGE, "unknown option %.*s", (int)size, word);
    if (near)
        fail_help(failure, "did you mean --%s?", near);
    else
        fail_help(failure, "lockstep %s%s--help lists the options", command ? command->name : "",
                  command ? " " : "");
    free(name);
    free(names.items);
    return false;
}

/* Stores one option's argument where its table row says. */
static bool set(Found found, const char *argument, Failure *failure) {
    const Option *option = found.option;
    void *member = (char *)found.target + option->offset;
    char *end;
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)member = true; return true;
    case OPTION_TEXT:
        if (!*argument)
            return fail(failure, STATUS_USAGE, "--%s needs an argument: %s", option->name,
                        option->argument);
        *(const char **)member = argument;
        return true;
    case OPTION_LIST: list_add(member, argument); return true;
    case OPTION_COUNT: {
        int64_t count;
        if (!size_parse(argument, &count) || count < 1)
            return fail(failure, STATUS_USAGE, "--%s takes a whole number from 1, not '%s'",
                        option->name, argument);
        *(uint64_t *)member = (uint64_t)count;
        return true;
    }
    case OPTION_NUMBER: {
        double number = strtod(argument, &end);
        if (end == argument || *end || !isfinite(number) || number <= 0)
            return fail(failure, STATUS_USAGE, "--%s takes a number above 0, not '%s'",
                        option->name, argument);
        *(double *)member = number;
        return true;
    }
    }
    return false;
}

static bool parse_math(Common *common, Failure *failure) {
    static const char *const grades[] = {"exact", "lite", "fast"};
    static const ls_math values[] = {LS_MATH_EXACT, LS_MATH_LITE, LS_MATH_FAST};
    if (!common->math_text) return true;
    for (size_t i = 0; i < COUNT(grades); i++)
        if (strcmp(grades[i], common->math_text) == 0) {
            common->math = values[i];
            return true;
        }
    return fail(failure, STATUS_USAGE, "--math takes exact, lite or fast, not '%s'",
                common->math_text);
}

static bool parse_defines(const Common *common, Failure *failure) {
    for (size_t i = 0; i < common->defines.count; i++) {
        const char *define = common->defines.items[i], *equal = strchr(define, '=');
        bool good = equal && equal > define && equal[1] &&
                    (isalpha((unsigned char)*define) || *define == '_');
        if (!good) return fail(failure, STATUS_USAGE, "-D takes NAME=VALUE, not '%s'", define);
    }
    return true;
}

/* One word that begins with a dash; may take the next word as its argument. */
static bool parse_option(const Command *command, const char *const *words, size_t count, size_t *at,
                         Common *common, void *options, Failure *failure) {
    const char *word = words[*at], *argument = NULL;
    bool is_long = word[1] == '-';
    size_t size = is_long ? strcspn(word, "=") : 2;
    Found found =
        find(command, options, common, word + (is_long ? 2 : 1), size - (is_long ? 2 : 1));
    if (is_long && size == 3) found.option = NULL; /* --o is not -o */
    if (!found.option) return unknown(command, word, is_long ? size : strlen(word), failure);
    bool flag = found.option->kind == OPTION_FLAG;
    if (is_long && word[size] == '=') argument = word + size + 1;
    if (!is_long && word[2]) argument = word + 2 + (word[2] == '=' && !flag);
    if (flag && argument) {
        if (is_long)
            return fail(failure, STATUS_USAGE, "--%s takes no argument", found.option->name);
        return unknown(command, word, strlen(word), failure);
    }
    if (!flag && !argument) {
        if (*at + 1 == count)
            return fail(failure, STATUS_USAGE, "%.*s needs an argument: %s", (int)size, word,
                        found.option->argument);
        argument = words[++*at];
    }
    return set(found, argument, failure);
}

bool options_parse(const Command *command, const char *const *words, size_t count, Common *common,
                   void *options, StringList *arguments, size_t *used, Failure *failure) {
    bool only_arguments = false;
    size_t at = 0;
    for (; at < count; at++) {
        const char *word = words[at];
        bool is_option = !only_arguments && word[0] == '-' && word[1];
        if (!is_option && !command) break;
        if (!is_option) {
            list_add(arguments, word);
        } else if (strcmp(word, "--") == 0) {
            only_arguments = true;
        } else if (!parse_option(command, words, count, &at, common, options, failure)) {
            return false;
        }
    }
    if (used) *used = at;
    return parse_math(common, failure) && parse_defines(common, failure);
}

static void print_option(const Option *option) {
    enum { COLUMN = 26 };
    char text[100];
    char letter[5] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(text, sizeof text, "  %s--%s%s%s", letter, option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    if (strlen(text) + 2 > COLUMN)
        printf("%s\n%*s", text, COLUMN, "");
    else
        printf("%-*s", COLUMN, text);
    for (const char *at = option->help; *at;) { /* a line break in the table is one in the help */
        size_t size = strcspn(at, "\n");
        printf("%.*s\n", (int)size, at);
        at += size;
        if (*at) printf("%*s", COLUMN, ""), at++;
    }
}

/* Whether the help of a command shows an option that every command takes. */
static bool shown(const Command *command, const Option *option) {
    const bool compile = option->offset == COMMON(defines) || option->offset == COMMON(math_text) ||
                         option->offset == COMMON(import_paths);
    return option->offset == COMMON(device) ? command->device
           : compile                        ? command->compiles
                                            : option->offset != COMMON(version);
}

const Option *option_at(const Command *command, size_t index) {
    if (command && index < command->option_count) return &command->options[index];
    if (command) index -= command->option_count;
    for (size_t i = 0; i < COUNT(common_options); i++)
        if ((!command || shown(command, &common_options[i])) && index-- == 0)
            return &common_options[i];
    return NULL;
}

static void print_options(const Command *command) {
    for (size_t i = 0; option_at(command, i); i++) print_option(option_at(command, i));
}

void options_print_common(void) {
    printf("\nOptions of every command:\n");
    print_options(NULL);
}

void options_print_help(const Command *command) {
    printf("lockstep %s: %s\n\nUsage: lockstep %s%s%s\n", command->name, command->summary,
           command->name, *command->arguments ? " " : "", command->arguments);
    if (command->details) printf("\n%s\n", command->details);
    printf("\nOptions:\n");
    print_options(command);
    printf("\nExamples:\n%s\n", command->examples);
}
