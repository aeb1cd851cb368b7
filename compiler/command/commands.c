/* commands.c: the list of subcommands, for the command itself and for what writes its manual pages
 * and completions. */
#include "files.h"
#include "command.h"

static const Command *const commands[] = {
    &command_check, &command_explain, &command_emit,   &command_build, &command_run,
    &command_bench, &command_tune,    &command_advise, &command_fmt,   &command_devices,
    &command_cache, &command_top,     &command_lsp,
};

const Command *command_at(size_t index) {
    return index < COUNT(commands) ? commands[index] : NULL;
}
