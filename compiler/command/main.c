/* main.c: the command `lockstep`: finds the subcommand and runs it.
 *
 * Results go to stdout, everything else to stderr. Exit status: 0 done, 1 the input was wrong, 2
 * the command line was wrong, 3 the device or toolchain failed. */
#include "files.h"
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Asked for, or because there is nothing else on the command line. */
static int print_help(bool asked) {
    if (!asked) {
        Failure failure;
        fail(&failure, STATUS_USAGE, "no command given");
        fail_help(&failure, "lockstep --help lists the commands");
        return report(&failure);
    }
    printf("lockstep: a compiler for training steps\n\n"
           "Usage: lockstep COMMAND ...\n\nCommands:\n");
    for (size_t i = 0; command_at(i); i++)
        printf("  %-10s%s\n", command_at(i)->name, command_at(i)->summary);
    options_print_common();
    printf("\nlockstep COMMAND --help says more about each.\n"
           "Exit status: 0 done, 1 the input was wrong, 2 the command line was wrong,\n"
           "3 the device or toolchain failed.\n");
    return STATUS_DONE;
}

static int print_version(void) {
    printf("lockstep %s\nnumeric version %016llx\n", ls_version(),
           (unsigned long long)ls_numeric_version());
    return STATUS_DONE;
}

static const Command *find_command(const char *name, Failure *failure) {
    StringList names = {0};
    const Command *found = NULL;
    for (size_t i = 0; !found && command_at(i); i++) {
        list_add(&names, command_at(i)->name);
        if (strcmp(name, command_at(i)->name) == 0) found = command_at(i);
    }
    if (!found) {
        const char *near = nearest(name, names.items, names.count);
        fail(failure, STATUS_USAGE, "unknown command '%.200s'", name);
        if (near)
            fail_help(failure, "did you mean lockstep %s?", near);
        else
            fail_help(failure, "lockstep --help lists the commands");
    }
    free(names.items);
    return found;
}

static void free_common(Common *common) {
    free(common->defines.items);
    free(common->import_paths.items);
}

static void free_lists(const Command *command, void *options, Common *common) {
    for (size_t i = 0; i < command->option_count; i++) {
        const Option *option = &command->options[i];
        if (option->kind != OPTION_LIST) continue;
        StringList *list = (StringList *)(void *)((char *)options + option->offset);
        free(list->items);
    }
    free_common(common);
}

/* What the toolchains' time limit ignores is said once, where commands are. */
static void check_timeout(void) {
    const char *text = command_environment(VARIABLE_LOCKSTEP_COMPILE_TIMEOUT);
    char *end = NULL;
    double limit = text ? strtod(text, &end) : 1;
    if (text && *text && (*end || end == text || !(limit > 0 && limit < 1e6)))
        note("warning: LOCKSTEP_COMPILE_TIMEOUT is '%.64s', which is no number of seconds above 0 "
             "and below a million; the limit is 120",
             text);
}

static int run_command(const Command *command, const char *const *words, size_t count,
                       Common common) {
    Failure failure;
    StringList arguments = {0};
    void *options = memory(command->options_size);
    int status;
    if (!options_parse(command, words, count, &common, options, &arguments, NULL, &failure)) {
        status = report(&failure);
    } else if (common.help) {
        options_print_help(command);
        status = STATUS_DONE;
    } else if (common.version) {
        status = print_version();
    } else {
        if (command->compiles) check_timeout();
        Invocation invocation = {command, common, options, arguments.items, arguments.count};
        status = command->run(&invocation);
    }
    free(arguments.items);
    free_lists(command, options, &common);
    free(options);
    return status;
}

static int dispatch(const char *const *words, size_t count) {
    Common common = {0};
    Failure failure;
    size_t used;
    if (!options_parse(NULL, words, count, &common, NULL, NULL, &used, &failure)) {
        free_common(&common);
        return report(&failure);
    }
    bool help_word = used < count && strcmp(words[used], "help") == 0; /* lockstep help run */
    if (help_word) common.help = true, used++;
    if (common.version || used == count) {
        free_common(&common);
        return common.version ? print_version() : print_help(common.help);
    }
    const Command *command = find_command(words[used], &failure);
    if (!command) {
        free_common(&common);
        return report(&failure);
    }
    return run_command(command, words + used + 1, count - used - 1, common);
}

static void on_signal(int signal_number) {
    file_remove_temporary();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Where one of the first three descriptors is closed, the next file that is opened would get its
 * number, and the results or a message would go into it. What is put there instead takes nothing:
 * reading standard input fails and so does writing standard output, as when they are closed. */
static void hold_standard_descriptors(void) {
    static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int i = 0; i < (int)COUNT(modes); i++)
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[i]) != i) break;
}

int main(int count, char **words) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    hold_standard_descriptors();
    signal(SIGXFSZ, SIG_IGN); /* at the limit of a file's size, writing fails and is reported */
    for (size_t i = 0; i < COUNT(signals); i++)
        if (signal(signals[i], on_signal) == SIG_IGN) signal(signals[i], SIG_IGN); /* nohup */
    int status = dispatch((const char *const *)words + 1, count > 0 ? (size_t)count - 1 : 0);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "lockstep: error: cannot write the results: %s\n", strerror(errno));
        if (status == STATUS_DONE) status = STATUS_INPUT;
    }
    return status;
}
