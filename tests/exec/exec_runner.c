/* exec_runner.c: runs the execution tests on a device and compares every bit with the interpreter.
 * It needs nothing but liblockstep, so that it also serves on a GPU machine without test tools. */
#include "bounds.h"
#include "exec.h"
#include "random_program.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

static const char usage[] =
    "usage: exec_runner [--device cpu|cuda|hip] [--filter WORD] [--only NAME] [--list | "
    "--list-all]\n"
    "                   [--print NAME] [--compile TARGET,...] [--seed N] [--quick] [--json FILE] "
    "[--verbose]\n"
    "                   [--shard K/N]   every Nth program from the Kth (0 is the first)\n"
    "                   --nests         the plan as nests on the host, in place of kernels\n"
    "                   --together      on a CPU or an emulated GPU: a program's texts are "
    "compiled as "
    "one, and\n"
    "                                   on a CPU of one with few elements two of three without "
    "optimisation\n"
    "                   --suite         so are those of 15 programs of 16; texts that do not "
    "compile as one\n"
    "                                   are a failure; on a GPU a size has one fill, in turn, "
    "unless\n"
    "                                   there are more fills than sizes\n"
    "                   --sample        such fills, at most three steps, and each size once\n"
    "                   --random FIRST:COUNT   programs made of random numbers, alone\n"
    "  NAME@nvrtc and NAME@hiprtc compile the program NAME instead of running it; a NAME that ends "
    "in *\n"
    "  stands for all that begin so.\n";

/* The real toolchains' tests: every target and variant for some programs; for the others one
 * target each, so that all have their turn; the usual one for the matrix. */
typedef enum Breadth { BREADTH_NONE, BREADTH_ONE, BREADTH_TURN, BREADTH_ALL } Breadth;
static const struct {
    const char *suffix, *usual;
} toolchains[] = {{"@nvrtc", "sm_90"}, {"@hiprtc", "gfx90a"}};
static const char training[] = "training-linreg";
enum { SKIPPED = 77 };

void *must_allocate(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (memory) return memory;
    fprintf(stderr, "exec_runner: out of memory (%zu bytes)\n", bytes);
    exit(3);
}

bool runner_check(Runner *runner, ls_context *context, ls_status status, const char *what) {
    (void)runner;
    if (status == LS_OK) return true;
    printf("  %s: %s: %s\n", what, ls_status_name(status), ls_error_message(context));
    return false;
}

void runner_count_variant(Runner *runner, ls_step *step) {
    ls_step_statistics statistics;
    if (ls_step_stats(step, &statistics) != LS_OK || !statistics.variant) return;
    size_t i = 0;
    while (i < runner->variant_count && strcmp(runner->variants[i].name, statistics.variant) != 0)
        i++;
    if (i == sizeof runner->variants / sizeof *runner->variants) return;
    if (i == runner->variant_count) {
        snprintf(runner->variants[i].name, sizeof runner->variants[i].name, "%s",
                 statistics.variant);
        runner->variant_count++;
    }
    runner->variants[i].runs++;
}

void programs_add(Programs *programs, const char *name, char *text, bool whole) {
    if (programs->count == programs->capacity) {
        programs->capacity = programs->capacity ? 2 * programs->capacity : 64;
        Program *list = must_allocate(programs->capacity * sizeof *list);
        if (programs->count) memcpy(list, programs->list, programs->count * sizeof *list);
        free(programs->list);
        programs->list = list;
    }
    Program *program = &programs->list[programs->count++];
    snprintf(program->name, sizeof program->name, "%s", name);
    program->text = text;
    program->whole = whole;
    program->single = strncmp(name, "op-", 3) == 0 || strncmp(name, "convert-", 8) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_step_file(const struct dirent *entry) {
    const size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".step") == 0;
}

static void append_file(FILE *out, const char *path) {
    char buffer[4096];
    size_t size;
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "exec_runner: cannot read %s\n", path);
        exit(2);
    }
    while ((size = fread(buffer, 1, sizeof buffer, file)) > 0) fwrite(buffer, 1, size, out);
    fclose(file);
}

/* A first line `# file: PATH` takes the program from elsewhere in the source tree. */
static char *read_text(const char *path) {
    char *text = NULL, other[512], whole[1024];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) exit(3);
    append_file(out, path);
    fflush(out);
    if (sscanf(text, "# file: %511s", other) == 1) {
        snprintf(whole, sizeof whole, "%s/%s", EXEC_SOURCE, other);
        append_file(out, whole);
    }
    fclose(out);
    return text;
}

static bool programs_read(Programs *programs, const char *directory) {
    struct dirent **entries = NULL;
    const int count = scandir(directory, &entries, is_step_file, by_name);
    for (int i = 0; i < count; i++) {
        char path[1024], name[NAME_SIZE];
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        snprintf(name, sizeof name, "%.*s", (int)strlen(entries[i]->d_name) - 5,
                 entries[i]->d_name);
        programs_add(programs, name, read_text(path), true);
        free(entries[i]);
    }
    free(entries);
    if (count <= 0) fprintf(stderr, "exec_runner: no .step files in %s\n", directory);
    return count > 0;
}

static void random_add(Programs *programs, uint64_t first, size_t count) {
    char name[NAME_SIZE];
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "random-%" PRIu64, first + i);
        programs_add(programs, name, random_program(first + i, 1, false, 0), false);
    }
}

/* One context for each thread count worth having; a GPU needs one. */
static bool open_contexts(Runner *runner) {
    static const char *const counts[CONTEXTS] = {"1", "2", "5"};
    runner->context_count = strcmp(runner->device, "cpu") == 0 ? CONTEXTS : 1;
    bounds_open(runner->device);
    for (size_t c = 0; c < runner->context_count; c++) {
        runner->threads[c] = runner->context_count > 1 ? counts[c] : "device";
        if (runner->context_count > 1) setenv("LOCKSTEP_THREADS", counts[c], 1);
        if (ls_context_create(runner->device, NULL, &runner->contexts[c]) == LS_OK) continue;
        fprintf(stderr, "exec_runner: cannot open %s: %s\n", runner->device,
                ls_error_message(NULL));
        return false;
    }
    return true;
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct Options {
    const char *filter, *only, *targets, *json, *print, *shard, *random;
    bool list, list_all;
} Options;

static bool is_random(const Program *program) {
    return strncmp(program->name, "random-", 7) == 0;
}

/* A reduction's kernels take a second each; most differ only in the type. */
static Breadth breadth_of(const Program *program) {
    static const char *const everywhere[] = {"linreg", "adamw", "activations", "scalars"};
    for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++)
        if (strcmp(program->name, everywhere[i]) == 0) return BREADTH_ALL;
    if (program->whole || is_random(program)) return BREADTH_TURN;
    if (strncmp(program->name, "reduce-", 7) != 0) return BREADTH_ONE;
    return strstr(program->name, "-f32-") ? BREADTH_ONE : BREADTH_NONE;
}

enum { TARGETS_MAX = 32 };

/* What is promised of a toolchain besides its usual target, and code for later devices: that of the
 * oldest and of the usual one. */
static size_t other_targets(size_t toolchain, const char *others[TARGETS_MAX]) {
    const char *usual = toolchains[toolchain].usual;
    size_t count = 0, portable = 0;
    for (size_t i = 0; ls_target_at(i) && count + 2 < TARGETS_MAX; i++) {
        const ls_target *target = ls_target_at(i);
        if (strcmp(target->tried, toolchains[toolchain].suffix + 1) != 0) continue;
        if (strcmp(target->name, usual) != 0) others[count++] = target->name;
        if (target->portable && (portable++ == 0 || strcmp(target->name, usual) == 0))
            others[count++] = target->portable;
    }
    return count;
}

/* The targets of a program's test, separated by commas. */
static void list_targets(const Program *program, Breadth breadth, size_t toolchain, char *targets,
                         size_t size) {
    const char *others[TARGETS_MAX];
    const size_t count = other_targets(toolchain, others);
    size_t hash = 0;
    for (const char *c = program->name; *c; c++) hash = 31 * hash + (unsigned char)*c;
    const size_t turn = breadth == BREADTH_TURN ? hash % (count + 1) : count;
    snprintf(targets, size, "%s", turn < count ? others[turn] : toolchains[toolchain].usual);
    for (size_t i = 0; breadth == BREADTH_ALL && i < count; i++) {
        const size_t used = strlen(targets);
        snprintf(targets + used, size - used, ",%s", others[i]);
    }
}

/* A text among others may use a line or a function that it lacks and another has: in the suite one
 * program of so many, by its number, has every text compiled alone, unless it has too many. */
enum { ALONE_EVERY = 16, ALONE = 1, ALONE_TEXTS = 48 };
static bool goes_together(const Runner *runner, size_t number, ls_compilation *compilation,
                          ls_program *loaded) {
    return runner->together ||
           (runner->suite &&
            (number % ALONE_EVERY != ALONE || together_texts(compilation, loaded) > ALONE_TEXTS));
}

/* Every step of the program against the interpreter. */
static bool run_program(Runner *runner, const Program *program, size_t number) {
    Directives *directives = must_allocate(sizeof *directives);
    ls_compilation *compilation = NULL;
    ls_program *loaded[CONTEXTS] = {NULL};
    bool ok = directives_read(program->text, directives);
    const size_t size = strlen(program->text);
    if (ok &&
        ls_compile_text(program->name, program->text, size, &exec_options, &compilation) != LS_OK) {
        printf("%s", compilation ? ls_compilation_message(compilation) : "out of memory\n");
        ok = false;
    }
    for (size_t c = 0; ok && c < runner->context_count; c++)
        ok = runner_check(runner, runner->contexts[c],
                          ls_program_load_text(runner->contexts[c], program->name, program->text,
                                               size, &exec_options, &loaded[c]),
                          program->name);
    Together *together = NULL;
    if (ok && goes_together(runner, number, compilation, loaded[0]))
        together = together_open(runner, program, compilation, loaded);
    if (ok) ok = run_loaded(runner, program, directives, compilation, loaded);
    if (runner->suite && together_refused(together)) ok = false;
    for (size_t c = 0; c < runner->context_count; c++)
        if (loaded[c]) ls_program_destroy(loaded[c]);
    together_close(together);
    if (compilation) ls_compilation_destroy(compilation);
    free(directives);
    return ok;
}

/* 0 passed, 1 failed, SKIPPED. */
static int run_one(Runner *runner, const Options *options, const Program *program, size_t number) {
    if (options->targets) return !compile_program(runner, program, options->targets, true);
    for (size_t i = 0; options->only && i < sizeof toolchains / sizeof *toolchains; i++) {
        const char *at = strchr(options->only, '@');
        if (!at || strcmp(at, toolchains[i].suffix) != 0) continue;
        char reason[256];
        if (!ls_toolchain_describe(toolchains[i].suffix + 1, reason, sizeof reason)) {
            printf("  skipped: %s\n", reason);
            return SKIPPED;
        }
        const Breadth breadth = breadth_of(program);
        char targets[512];
        list_targets(program, breadth, i, targets, sizeof targets);
        return !compile_program(runner, program, targets, breadth == BREADTH_ALL);
    }
    return !run_program(runner, program, number);
}

static bool selected(const Options *options, const char *name) {
    const size_t length = options->only ? strcspn(options->only, "@*") : 0;
    if (options->only)
        return strncmp(name, options->only, length) == 0 &&
               (name[length] == 0 || options->only[length] == '*');
    return !options->filter || strstr(name, options->filter) != NULL;
}

/* Generated programs are tests of a toolchain together, since it takes longer to load than to
 * compile one of them: all conversions, all operations on one type. */
static int group_length(const Program *program) {
    if (program->whole || is_random(program)) return 0;
    const char *name = program->name;
    const char *end = strncmp(name, "op-", 3) == 0 ? strrchr(name, '-') : strchr(name, '-');
    return end ? (int)(end + 1 - name) : 0;
}

/* What the toolchains compile takes longer than what runs, so in the suite a quarter of most
 * programs and half of the groups are each toolchain's; with `all`, both have everything. */
static void list_tests(const Programs *programs, bool all) {
    const char *group = "";
    size_t groups = 0;
    for (size_t i = 0; i < programs->count; i++) {
        const Program *program = &programs->list[i];
        const Breadth breadth = breadth_of(program);
        const int length = group_length(program);
        printf("%s\n", program->name);
        if (breadth == BREADTH_NONE) continue;
        if (length && strncmp(group, program->name, (size_t)length) == 0) continue;
        if (length) group = program->name;
        groups += length > 0;
        for (size_t t = 0; t < sizeof toolchains / sizeof *toolchains; t++)
            if (all || breadth == BREADTH_ALL ||
                (length ? groups % 2 == t : breadth != BREADTH_TURN || i % 4 == t))
                printf("%.*s%s%s\n", length ? length : NAME_SIZE, program->name, length ? "*" : "",
                       toolchains[t].suffix);
    }
    printf("%s\n", training);
}

static void write_json(const Runner *runner, const char *path, size_t passed, size_t failed,
                       double elapsed) {
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "exec_runner: cannot write %s\n", path);
        return;
    }
    fprintf(file, "{\"device\": \"%s\", \"description\": \"%s\", \"seed\": %" PRIu64 ",\n",
            runner->device, runner->context_count ? ls_context_describe(runner->contexts[0]) : "",
            runner->seed);
    fprintf(file,
            " \"passed\": %zu, \"failed\": %zu, \"runs\": %zu, \"mismatches\": %zu, \"seconds\": "
            "%.1f,\n",
            passed, failed, runner->runs, runner->mismatches, elapsed);
    fprintf(file, " \"plans\": {");
    for (size_t i = 0; i < runner->variant_count; i++)
        fprintf(file, "%s\"%s\": %zu", i ? ", " : "", runner->variants[i].name,
                runner->variants[i].runs);
    fprintf(file, "}}\n");
    fclose(file);
}

static int run_all(Runner *runner, const Options *options, const Programs *programs) {
    const double start = seconds();
    size_t passed = 0, failed = 0, skipped = 0, shard = 0, shards = 1;
    const bool compiles = options->only && strchr(options->only, '@');
    if (options->shard &&
        (sscanf(options->shard, "%zu/%zu", &shard, &shards) != 2 || shard >= shards)) {
        fprintf(stderr, "exec_runner: --shard wants K/N with K below N, found %s\n",
                options->shard);
        return 2;
    }
    for (size_t i = 0; i <= programs->count; i++) {
        const bool trains = i == programs->count;
        const char *name = trains ? training : programs->list[i].name;
        if (i % shards != shard || !selected(options, name) ||
            (trains && (options->targets || options->random)) ||
            (!trains && compiles && breadth_of(&programs->list[i]) == BREADTH_NONE))
            continue;
        const double began = seconds();
        const int status = trains ? !run_training(runner, runner->verbose)
                                  : run_one(runner, options, &programs->list[i], i);
        passed += status == 0;
        skipped += status == SKIPPED;
        failed += status == 1;
        printf("%s %s (%.1f s)\n",
               status == 0         ? "ok"
               : status == SKIPPED ? "skipped"
                                   : "FAILED",
               options->only && !strchr(options->only, '*') ? options->only : name,
               seconds() - began);
        fflush(stdout);
    }
    for (size_t i = 0; i < runner->variant_count; i++)
        printf("plan '%s': %zu runs\n", runner->variants[i].name, runner->variants[i].runs);
    if (runner->nests)
        printf("%zu kernels of rows in registers, %zu refused, %zu runs\n", runner->rows,
               runner->not_rows, runner->ran_rows);
    if (runner->nests)
        printf("%zu phases with a schedule, %zu refused\n", runner->scheduled, runner->unscheduled);
    printf("%zu programs passed, %zu failed, %zu runs, %.1f s\n", passed, failed, runner->runs,
           seconds() - start);
    if (options->json) write_json(runner, options->json, passed, failed, seconds() - start);
    if (failed) return 1;
    if (skipped) return SKIPPED;
    if (passed) return 0;
    fprintf(stderr, "exec_runner: no program has that name\n");
    return 2;
}

static bool read_options(int count, char **arguments, Runner *runner, Options *options) {
    const struct {
        const char *name;
        const char **value;
    } words[] = {{"--device", &runner->device}, {"--filter", &options->filter},
                 {"--only", &options->only},    {"--compile", &options->targets},
                 {"--json", &options->json},    {"--shard", &options->shard},
                 {"--print", &options->print},  {"--random", &options->random}};
    const struct {
        const char *name;
        bool *value;
    } flags[] = {{"--list", &options->list},        {"--list-all", &options->list_all},
                 {"--together", &runner->together}, {"--quick", &runner->quick},
                 {"--verbose", &runner->verbose},   {"--nests", &runner->nests},
                 {"--suite", &runner->suite},       {"--sample", &runner->sample}};
    for (int i = 1; i < count; i++) {
        bool known = false;
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            if (strcmp(arguments[i], flags[f].name) == 0) known = *flags[f].value = true;
        for (size_t w = 0; !known && i + 1 < count && w < sizeof words / sizeof *words; w++)
            if (strcmp(arguments[i], words[w].name) == 0) {
                *words[w].value = arguments[++i];
                known = true;
            }
        if (!known && i + 1 < count && strcmp(arguments[i], "--seed") == 0) {
            runner->seed = strtoull(arguments[++i], NULL, 10);
            known = true;
        }
        if (!known) return false;
    }
    return true;
}

int main(int count, char **arguments) {
    Runner runner = {.device = "cpu", .seed = 1};
    Options options = {.filter = NULL};
    if (!read_options(count, arguments, &runner, &options)) {
        fputs(usage, stderr);
        return 2;
    }
#ifdef __GLIBC__ /* arrays come and go: keep their pages */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
    Programs programs = {.list = NULL};
    if (!programs_read(&programs, EXEC_SOURCE "/tests/exec/programs")) return 2;
    matrix_add(&programs);
    random_add(&programs, 1, RANDOM_PROGRAMS);
    if (options.random) { /* those alone */
        unsigned long long first = 1, number = 1;
        sscanf(options.random, "%llu:%llu", &first, &number);
        for (size_t i = 0; i < programs.count; i++) free(programs.list[i].text);
        programs.count = 0;
        random_add(&programs, first, number);
    }
    int status = 0;
    if (options.list || options.list_all) {
        list_tests(&programs, options.list_all);
    } else if (options.print) {
        for (size_t i = 0; i < programs.count; i++)
            if (strcmp(programs.list[i].name, options.print) == 0)
                fputs(programs.list[i].text, stdout);
    } else {
        const bool compiles = options.targets || (options.only && strchr(options.only, '@'));
        if (!compiles && !open_contexts(&runner)) status = 3;
        if (status == 0) status = run_all(&runner, &options, &programs);
        for (size_t c = 0; c < runner.context_count; c++) ls_context_destroy(runner.contexts[c]);
    }
    for (size_t i = 0; i < programs.count; i++) free(programs.list[i].text);
    free(programs.list);
    return status;
}
