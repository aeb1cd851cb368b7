/* soak.c: uses of the runtime, each up to a million times, and what the process holds meanwhile:
 * resident memory, the heap, mappings, descriptors and threads have to stay as they are. A series
 * of samples is judged by its slope (gauges.h), with the tolerances of the table that is printed.
 *
 * Without arguments it is a test of the suite: each use for a fraction of a second. `ninja soak`
 * does all. Ctrl-C ends the use under way, and what was measured is judged. */
#include "gauges.h"
#include "soak.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: soak [--device D] [--count N] [--seconds S] [--only USE] [--leak GAUGE] [--list]\n"
    "  --device D    cpu, or with emulated devices cuda or hip (the first that there is)\n"
    "  --count N     units of each use (1000000)\n"
    "  --seconds S   ends a use after so many, 0: never (0.3)\n"
    "  --only USE    one use\n"
    "  --leak GAUGE  leaks heap, mappings, descriptors or threads, which must be found\n"
    "  --list        prints the uses and the tolerances\n"
    "Ends with 1 when something grows, or a call fails.\n";

typedef struct Options {
    const char *device, *only, *leak;
    uint64_t count;
    double seconds;
    bool list;
} Options;

static volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- leaks on purpose: the test of the test ---- */

static void *sleep_for_good(void *argument) {
    for (;;) pause();
    return argument;
}

static void *volatile leaked; /* or no memory would be asked for */

static void leak(const char *what, bool sampled) {
    pthread_t thread;
    if (!what) return;
    if (strcmp(what, "heap") == 0) leaked = malloc(64);
    if (!sampled) return; /* of the others there are limits */
    if (strcmp(what, "descriptors") == 0) (void)!open("/dev/null", O_RDONLY);
    if (strcmp(what, "mappings") == 0) /* neighbours that differ are not merged */
        for (int i = 0; i < 2; i++)
            leaked =
                mmap(NULL, 4096, i ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (strcmp(what, "threads") == 0) pthread_create(&thread, NULL, sleep_for_good, NULL);
}

/* ---- one use ---- */

typedef struct Progress {
    const char *name;
    double begin, said;
} Progress;

static void say(Progress *progress, uint64_t done, const Options *options) {
    const double now = seconds();
    if (now - progress->said < 10) return;
    progress->said = now;
    printf("  %s: %" PRIu64 " of %" PRIu64 ", %.0f s\n", progress->name, done, options->count,
           now - progress->begin);
    fflush(stdout);
}

/* Units of a use, until there are enough, time is up, it is stopped or something fails. */
static uint64_t repeat(Soak *soak, const Use *use, const Options *options, Series *series) {
    for (uint64_t i = 0; i < use->warm_up && !stopped && !soak->wrong[0]; i++) use->once(soak, i);
    const double begin = seconds();
    Progress progress = {use->name, begin, begin};
    uint64_t done = 0;
    while (done < options->count && !stopped && !soak->wrong[0]) {
        bool works;
        use->once(soak, done++);
        if (series_due(series, done)) ls_synchronize(soak->context); /* nothing is queued then */
        const bool sampled = series_add(series, done, &works);
        if (!works) snprintf(soak->wrong, sizeof soak->wrong, "/proc does not tell");
        leak(options->leak, sampled);
        if (done % 16 && done > SAMPLES) continue;
        say(&progress, done, options);
        if (options->seconds > 0 && done >= SAMPLES_LEAST && seconds() - begin > options->seconds)
            break;
    }
    return done;
}

static bool print_series(const Use *use, const Series *series, uint64_t done, double took) {
    bool flat = true;
    printf("%-9s %8" PRIu64 " %7.1f ", use->name, done, took);
    for (Gauge gauge = 0; gauge < GAUGE_COUNT; gauge++) {
        const Growth growth = series_growth(series, gauge);
        char text[64];
        snprintf(text, sizeof text, "%.0f..%.0f%s", growth.first, growth.last,
                 growth.flat ? "" : " GROWS");
        printf(" %19s", text);
        flat &= growth.flat;
    }
    printf("\n");
    for (Gauge gauge = 0; gauge < GAUGE_COUNT; gauge++) {
        const Growth growth = series_growth(series, gauge);
        if (!growth.flat)
            printf("  %s of %s: %+.4g %s over the %" PRIu64 " units that are judged\n",
                   gauge_rows[gauge].name, use->name, growth.grown, gauge_rows[gauge].unit,
                   series->at[series->count - 1] - series->at[series->count / 4]);
    }
    fflush(stdout);
    return flat;
}

static bool run_use(const Use *use, const Options *options) {
    Soak soak = {.device = options->device};
    Series series;
    const double begin = seconds();
    series_open(&series);
    if (use->training) soak_open_training(&soak);
    const uint64_t done = soak.wrong[0] ? 0 : repeat(&soak, use, options, &series);
    if (use->training) soak_close_training(&soak);
    const bool flat = print_series(use, &series, done, seconds() - begin);
    if (soak.wrong[0]) printf("  %s after %" PRIu64 ": %s\n", use->name, done, soak.wrong);
    return flat && !soak.wrong[0];
}

/* ---- all ---- */

static void print_head(const Options *options) {
    printf("%s: medians at the begin and the end of what is judged, after a quarter to warm up\n",
           options->device);
    printf("%-9s %8s %7s ", "use", "units", "s");
    for (Gauge gauge = 0; gauge < GAUGE_COUNT; gauge++) {
        char text[64];
        snprintf(text, sizeof text, "%s%s%s", gauge_rows[gauge].name,
                 gauge_rows[gauge].unit[0] ? ", " : "", gauge_rows[gauge].unit);
        printf(" %19s", text);
    }
    printf("\n%-26s ", "may grow by");
    for (Gauge gauge = 0; gauge < GAUGE_COUNT; gauge++)
        printf(" %19.4g", gauge_rows[gauge].tolerance);
    printf("\n");
}

static bool read_options(int count, char **arguments, Options *options) {
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        char *end = NULL;
        if (strcmp(name, "--list") == 0) {
            options->list = true;
            continue;
        }
        if (!value) return false;
        i++;
        if (strcmp(name, "--device") == 0)
            options->device = value;
        else if (strcmp(name, "--only") == 0)
            options->only = value;
        else if (strcmp(name, "--leak") == 0)
            options->leak = value;
        else if (strcmp(name, "--count") == 0)
            options->count = strtoull(value, &end, 10);
        else if (strcmp(name, "--seconds") == 0)
            options->seconds = strtod(value, &end);
        else
            return false;
        if (end && (*end || end == value)) return false;
    }
    return options->count > 0 && options->seconds >= 0;
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

static bool good_options(const Options *options) {
    static const char *const leaks[] = {"heap", "mappings", "descriptors", "threads", NULL};
    bool known = !options->only;
    for (size_t i = 0; i < use_count && !known; i++) known = !strcmp(uses[i].name, options->only);
    if (!known) fprintf(stderr, "soak: no use %s; --list has them\n", options->only);
    if (!is_one_of(options->device, soak_devices)) {
        fprintf(stderr, "soak: no device %s here\n", options->device);
        known = false;
    }
    if (options->leak && !is_one_of(options->leak, leaks)) {
        fprintf(stderr, "soak: --leak takes heap, mappings, descriptors or threads\n");
        known = false;
    }
    return known;
}

int main(int count, char **arguments) {
    Options options = {.device = soak_devices[0], .count = 1000000, .seconds = 0.3};
    bool good = true;
    if (!read_options(count, arguments, &options)) {
        fputs(usage, stderr);
        return 2;
    }
    if (!good_options(&options)) return 2;
    print_head(&options);
    for (size_t i = 0; options.list && i < use_count; i++) printf("%s\n", uses[i].name);
    if (options.list) return 0;
    soak_choose_libraries(options.device);
    setenv("LOCKSTEP_THREADS", "2", 0);
    setenv("LOCKSTEP_LENGTHS", "now", 0); /* or code for the rows' lengths comes when it comes */
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    for (size_t i = 0; i < use_count && !stopped; i++)
        if (!options.only || strcmp(uses[i].name, options.only) == 0)
            good &= run_use(&uses[i], &options);
    printf("%s%s\n", good ? "nothing grows" : "FAILED", stopped ? ", stopped early" : "");
    return !good;
}
