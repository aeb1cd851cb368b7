/* cache.c: `lockstep cache`: the store of compiled kernels. */
#include "files.h"
#include "command.h"

#include <string.h>

typedef struct Options {
    bool json;
} Options;

static void print_json(const ls_cache_stats *stats) {
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "directory", stats->directory);
    json_boolean(&json, "usable", stats->usable);
    json_string(&json, "reason", stats->usable ? NULL : stats->reason);
    json_integer(&json, "entries", (int64_t)stats->entries);
    json_integer(&json, "bytes", (int64_t)stats->bytes);
    json_integer(&json, "damaged", (int64_t)stats->damaged);
    json_integer(&json, "tuned", (int64_t)stats->tuned);
    json_close(&json, '}');
    fputs(json.text.data, stdout);
    buffer_free(&json.text);
}

static int show(const Options *options, int verify) {
    ls_cache_stats stats = {0};
    Failure failure;
    char bytes[40];
    ls_status status = ls_cache_read_stats(&stats, verify);
    if (status != LS_OK) {
        fail(&failure, exit_status(status), "cannot read the kernel cache: %s",
             stats.reason[0] ? stats.reason : ls_status_name(status));
        return report(&failure);
    }
    if (options->json) {
        print_json(&stats);
        return STATUS_DONE;
    }
    size_describe(stats.bytes, bytes, sizeof bytes);
    if (stats.directory) printf("%s\n", stats.directory);
    if (!stats.usable) printf("not in use: %s\n", stats.reason);
    printf("%llu %s, %s\n", (unsigned long long)stats.entries,
           stats.entries == 1 ? "entry" : "entries", bytes);
    if (stats.tuned)
        printf("%llu tuned %s (lockstep explain shows how)\n", (unsigned long long)stats.tuned,
               stats.tuned == 1 ? "program" : "programs");
    if (verify)
        printf(stats.damaged ? "%llu damaged, removed\n" : "all sound\n",
               (unsigned long long)stats.damaged);
    return STATUS_DONE;
}

static int show_stats(const Options *options) {
    return show(options, 0);
}
static int verify(const Options *options) {
    return show(options, 1);
}

static int clear(const Options *options) {
    uint64_t removed = 0;
    Failure failure;
    (void)options;
    ls_status status = ls_cache_clear(&removed);
    if (status != LS_OK) {
        ls_cache_stats stats = {0};
        ls_cache_read_stats(&stats, 0);
        fail(&failure, exit_status(status), "cannot clear the kernel cache%s%s: %s",
             stats.directory ? " " : "", stats.directory ? stats.directory : "",
             stats.reason[0] ? stats.reason : ls_status_name(status));
        return report(&failure);
    }
    printf("%llu %s removed\n", (unsigned long long)removed, removed == 1 ? "entry" : "entries");
    return STATUS_DONE;
}

static int run(const Invocation *invocation) {
    static const struct {
        const char *name;
        int (*run)(const Options *);
    } actions[] = {{"stats", show_stats}, {"clear", clear}, {"verify", verify}};
    const char *names[COUNT(actions)];
    if (invocation->argument_count > 1)
        return usage_error(invocation->command, "unexpected argument '%s'",
                           invocation->arguments[1]);
    const char *action = invocation->argument_count ? invocation->arguments[0] : "stats";
    for (size_t i = 0; i < COUNT(actions); i++) {
        names[i] = actions[i].name;
        if (strcmp(action, names[i]) == 0) return actions[i].run(invocation->options);
    }
    const char *near = nearest(action, names, COUNT(names));
    return usage_error(invocation->command, "unknown action '%s'%s%s%s", action,
                       near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

static const Option cache_options[] = {
    {0, "json", NULL, OPTION_FLAG, offsetof(Options, json), "stats and verify as JSON"},
};

const Command command_cache = {
    .name = "cache",
    .summary = "shows, clears or verifies the kernel cache",
    .arguments = "[stats|clear|verify]",
    .details =
        "stats (the default) says where the cache is and what it holds; clear removes every\n"
        "entry, and what lockstep tune kept; verify reads every entry and removes damaged ones.\n"
        "LOCKSTEP_CACHE_DIR names the folder, LOCKSTEP_CACHE=off switches the cache off.",
    .examples = "  lockstep cache\n"
                "  lockstep cache verify",
    .options = cache_options,
    .option_count = COUNT(cache_options),
    .options_size = sizeof(Options),
    .run = run,
};
