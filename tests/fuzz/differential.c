/* differential.c: random programs through the interpreter, the CPU with several compilers, and
 * emulated CUDA and HIP: all bits must be equal. Each is a function of the seed and its number.
 * Most run on one machine in two variants, one in --every on all machines in all variants. What
 * fails is shrunk and written to --out as a program for tests/exec/programs.
 *
 * With --record a run that was stopped goes on, and what planning took is kept.
 *
 * Without arguments it is a test of the suite: few programs, a few seconds. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "check.h"
#include "exec.h"
#include "random_program.h"
#include "record.h"

static const char usage[] =
    "usage: differential [--first N] [--count N] [--seed S] [--every N] [--batch N] [--minutes M]\n"
    "                    [--out FOLDER] [--shrink N] [--print N] [--break N] [--file FILE]\n"
    "                    [--statements N] [--record FILE] [--costs FILE]\n"
    "  --first N     the first program's number (1)\n"
    "  --count N     how many (40)\n"
    "  --seed S      another sequence of programs (1)\n"
    "  --every N     of so many programs one runs on every machine (20)\n"
    "  --batch N     programs to a compile (100)\n"
    "  --minutes M   ends after so many, whatever the count\n"
    "  --out FOLDER  where logs and shrunk programs go (a new folder in TMPDIR or /tmp)\n"
    "  --shrink N    attempts to make a failing program smaller (300)\n"
    "  --print N     prints program N and does no more\n"
    "  --break N     takes the work out of program N's kernels: it must be found\n"
    "  --statements N  of a step (a few); such programs are large: fewer to a --batch\n"
    "  --file FILE   checks this text on every machine\n"
    "  --record FILE  goes on where the run that wrote it stopped, to --count programs in all\n"
    "  --costs FILE  adds a line for each program: number, ms to plan and emit, KiB at once\n";

typedef struct Options {
    uint64_t first, count, seed, every, batch, minutes, shrink, print, broken, statements;
    const char *out, *file, *record, *costs;
} Options;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- failures ---- */

static void write_shrunk(const Options *options, const Case *one, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.step", options->out, one->name);
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "differential: cannot write %s\n", path);
        return;
    }
    fprintf(file, "# %s of seed %" PRIu64 ": %s on %s\n%s", one->name, options->seed,
            verdict_words[one->verdict], machines[one->machine].name, text);
    fclose(file);
    printf("  written to %s:\n%s", path, text);
}

static void report(const Options *options, const Case *one) {
    char log[1024];
    printf("FAILED %s of seed %" PRIu64 " on %s: %s\n", one->name, options->seed,
           machines[one->machine].name, verdict_words[one->verdict]);
    fflush(stdout);
    snprintf(log, sizeof log, "%s/%s.log", options->out, one->name);
    const Verdict again = check_text(one, one->text, one->machine, log);
    if (again != one->verdict) printf("  alone it is %s\n", verdict_words[again]);
    const bool shrinks = one->verdict != VERDICT_REFUSED && again == one->verdict;
    char *text = shrinks ? shrink(one, options->shrink, "/dev/null") : NULL;
    write_shrunk(options, one, text ? text : one->text);
    fflush(stdout);
    free(text);
}

/* ---- runs ---- */

static int run_file(const Options *options) {
    char *text = must_allocate(1 << 20);
    FILE *file = fopen(options->file, "rb");
    if (!file || fread(text, 1, (1 << 20) - 1, file) == 0) {
        fprintf(stderr, "differential: cannot read %s\n", options->file);
        return 2;
    }
    fclose(file);
    Case one = {.text = text, .full = true};
    const char *base = strrchr(options->file, '/');
    snprintf(one.name, sizeof one.name, "%.*s", (int)strcspn(base ? base + 1 : options->file, "."),
             base ? base + 1 : options->file);
    check_cases(&one, 1, 0, "/dev/stdout");
    printf("%s: %s\n", one.name, verdict_words[one.verdict]);
    if (one.verdict != VERDICT_RIGHT) report(options, &one);
    free(text);
    return one.verdict != VERDICT_RIGHT;
}

/* One batch: what became of its programs goes to the record. false: a file cannot be written. */
static bool run_batch(const Options *options, Record *record, Case *cases, const char *log) {
    const uint64_t first = options->first + record->done;
    const uint64_t left = options->count - record->done;
    const size_t count = (size_t)(left < options->batch ? left : options->batch);
    FILE *costs = options->costs ? fopen(options->costs, "a") : NULL;
    bool good = !options->costs || costs;
    for (size_t i = 0; i < count; i++) {
        const uint64_t number = first + i;
        cases[i] = (Case){.full = number % options->every == 0, .turn = number / options->every};
        snprintf(cases[i].name, sizeof cases[i].name, "random-%" PRIu64, number);
        cases[i].text = random_program(number, options->seed, true, (unsigned)options->statements);
        cases[i].broken = options->broken && number == options->broken;
    }
    const uint64_t turn = options->first / options->batch + record->done / options->batch;
    check_cases(cases, count, light_machine(turn), log);
    for (size_t i = 0; i < count; i++) {
        record_case(record, first + i, &cases[i]);
        if (costs)
            fprintf(costs, "%" PRIu64 " %.3f %.1f\n", first + i, cases[i].cost.ms,
                    (double)cases[i].cost.peak / 1024);
        if (cases[i].verdict != VERDICT_RIGHT) report(options, &cases[i]);
        free(cases[i].text);
    }
    record_batch(record, count);
    if (costs && fclose(costs) != 0) good = false;
    if (!good) fprintf(stderr, "differential: cannot write %s\n", options->costs);
    return good && (!options->record || record_write(record, options->record));
}

static int run_all(const Options *options) {
    const double start = seconds();
    double said = start;
    Record record = {.first = options->first,
                     .seed = options->seed,
                     .every = options->every,
                     .batch = options->batch,
                     .statements = options->statements};
    char log[1024];
    bool good = !options->record || record_read(&record, options->record);
    const uint64_t before = record.done;
    Case *cases = must_allocate(options->batch * sizeof *cases);
    snprintf(log, sizeof log, "%s/log", options->out);
    while (good && record.done < options->count &&
           (!options->minutes || seconds() - start < 60 * (double)options->minutes)) {
        good = run_batch(options, &record, cases, log);
        if (seconds() - said < 20 && record.done < options->count) continue;
        said = seconds();
        printf("%" PRIu64 " programs, %" PRIu64 " of them everywhere, %" PRIu64
               " failed, %.0f s, %.1f a second\n",
               record.done, record.everywhere, record.failed, said - start,
               (double)(record.done - before) / (said - start));
        fflush(stdout);
    }
    free(cases);
    if (good) record_print(&record);
    return !good ? 3 : record.failed != 0;
}

static bool read_options(int count, char **arguments, Options *options) {
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"--first", &options->first},   {"--count", &options->count},
                   {"--seed", &options->seed},     {"--every", &options->every},
                   {"--batch", &options->batch},   {"--minutes", &options->minutes},
                   {"--shrink", &options->shrink}, {"--print", &options->print},
                   {"--break", &options->broken},  {"--statements", &options->statements}};
    for (int i = 1; i < count; i += 2) {
        bool known = false;
        if (i + 1 == count) return false;
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            if (strcmp(arguments[i], numbers[n].name) == 0) {
                *numbers[n].value = strtoull(arguments[i + 1], NULL, 10);
                known = true;
            }
        if (strcmp(arguments[i], "--out") == 0) options->out = arguments[i + 1], known = true;
        if (strcmp(arguments[i], "--file") == 0) options->file = arguments[i + 1], known = true;
        if (strcmp(arguments[i], "--record") == 0) options->record = arguments[i + 1], known = true;
        if (strcmp(arguments[i], "--costs") == 0) options->costs = arguments[i + 1], known = true;
        if (!known) return false;
    }
    return options->every && options->batch && options->count;
}

int main(int count, char **arguments) {
    Options options = {
        .first = 1, .count = 40, .seed = 1, .every = 20, .batch = 100, .shrink = 300};
    char folder[512];
    if (!read_options(count, arguments, &options)) {
        fputs(usage, stderr);
        return 2;
    }
#ifdef __GLIBC__ /* arrays and arenas come and go: keep their pages */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
    if (options.print) {
        char *text =
            random_program(options.print, options.seed, true, (unsigned)options.statements);
        fputs(text, stdout);
        free(text);
        return 0;
    }
    setenv("LOCKSTEP_CUDA", EMULATED_CUDA_PATH, 0);
    setenv("LOCKSTEP_NVRTC", EMULATED_CUDA_PATH, 0);
    setenv("LOCKSTEP_HIP", EMULATED_HIP_PATH, 0);
    setenv("LOCKSTEP_HIPRTC", EMULATED_HIP_PATH, 0);
    setenv("SIMT_ARCHITECTURE", "gfx90a", 1);
    setenv("LOCKSTEP_CACHE", "off", 1);
    if (!options.out) {
        const char *parent = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/differential-XXXXXX",
                 parent && *parent ? parent : "/tmp");
        options.out = mkdtemp(folder);
    } else {
        mkdir(options.out, 0777);
    }
    if (!options.out) {
        perror("differential: cannot make a folder");
        return 3;
    }
    return options.file ? run_file(&options) : run_all(&options);
}
