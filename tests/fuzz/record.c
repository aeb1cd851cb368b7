/* record.c: see record.h. A record is lines of a word and numbers. */
#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is kept ---- */

static void keep(RecordPlace *places, uint64_t number, double value) {
    size_t at = RECORD_MOST;
    while (at > 0 && (!places[at - 1].number || places[at - 1].value < value)) at--;
    if (at == RECORD_MOST) return;
    memmove(&places[at + 1], &places[at], (RECORD_MOST - 1 - at) * sizeof *places);
    places[at] = (RecordPlace){number, value};
}

void record_case(Record *record, uint64_t number, const Case *one) {
    const double kib = (double)one->cost.peak / 1024;
    record->everywhere += one->full;
    record->ms += one->cost.ms;
    record->kib += kib;
    keep(record->slowest, number, one->cost.ms);
    keep(record->largest, number, kib);
    if (one->verdict == VERDICT_RIGHT) return;
    if (record->failed < RECORD_FAILURES) {
        record->failures[record->failed].number = number;
        record->failures[record->failed].machine = (unsigned)one->machine;
        record->failures[record->failed].verdict = one->verdict;
    }
    record->failed++;
}

/* FNV-1a of the program that runs: another compiler is another. */
static uint64_t hash_of_program(void) {
    static uint64_t hash;
    unsigned char piece[4096];
    size_t size;
    FILE *file = hash ? NULL : fopen("/proc/self/exe", "rb");
    if (!file) return hash;
    hash = UINT64_C(14695981039346656037);
    while ((size = fread(piece, 1, sizeof piece, file)) > 0)
        for (size_t i = 0; i < size; i++) hash = (hash ^ piece[i]) * UINT64_C(1099511628211);
    fclose(file);
    return hash;
}

void record_batch(Record *record, uint64_t count) {
    const uint64_t program = hash_of_program();
    size_t at = 0;
    record->done += count;
    while (at < RECORD_BUILDS - 1 && record->builds[at].done &&
           record->builds[at].program != program)
        at++;
    record->builds[at].program = program;
    record->builds[at].done += count;
}

/* ---- the file ---- */

typedef struct Field {
    const char *name;
    size_t offset;
    bool fixed; /* has to be what is wanted */
} Field;
static const Field fields[] = {{"first", offsetof(Record, first), true},
                               {"seed", offsetof(Record, seed), true},
                               {"every", offsetof(Record, every), true},
                               {"batch", offsetof(Record, batch), true},
                               {"statements", offsetof(Record, statements), true},
                               {"done", offsetof(Record, done), false},
                               {"everywhere", offsetof(Record, everywhere), false},
                               {"failed", offsetof(Record, failed), false}};

static uint64_t *value_of(Record *record, const Field *field) {
    return (uint64_t *)(void *)((char *)record + field->offset);
}

static bool read_field(Record *record, const char *line, const char *path, bool *known) {
    char name[32];
    uint64_t number;
    if (sscanf(line, "%31s %" SCNu64, name, &number) != 2) return true;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, name) != 0) continue;
        uint64_t *value = value_of(record, &fields[i]);
        *known = true;
        if (fields[i].fixed && *value != number) {
            fprintf(stderr,
                    "differential: %s is of --%s %" PRIu64 ", not %" PRIu64
                    "; remove it to begin anew\n",
                    path, name, number, *value);
            return false;
        }
        *value = number;
    }
    return true;
}

typedef struct Counts {
    size_t slow, large, builds, failures;
} Counts;

static bool read_place(RecordPlace *places, size_t *count, const char *line, const char *format) {
    RecordPlace place = {0};
    if (sscanf(line, format, &place.number, &place.value) != 2) return false;
    if (*count < RECORD_MOST) places[(*count)++] = place;
    return true;
}

static bool read_line(Record *r, Counts *counts, const char *line, const char *path) {
    bool known = line[0] == '#' || line[0] == '\n';
    uint64_t number;
    unsigned a, b;
    if (!read_field(r, line, path, &known)) return false;
    known |= read_place(r->slowest, &counts->slow, line, "slow %" SCNu64 " %lf");
    known |= read_place(r->largest, &counts->large, line, "large %" SCNu64 " %lf");
    known |= sscanf(line, "sums %lf %lf", &r->ms, &r->kib) == 2;
    if (sscanf(line, "build %" SCNx64 " %" SCNu64, &number, &r->builds[counts->builds].done) == 2) {
        r->builds[counts->builds].program = number;
        counts->builds += counts->builds + 1 < RECORD_BUILDS;
        known = true;
    }
    if (sscanf(line, "failure %" SCNu64 " %u %u", &number, &a, &b) == 3 && a < machine_count &&
        b < VERDICT_COUNT && counts->failures < RECORD_FAILURES) {
        r->failures[counts->failures].number = number;
        r->failures[counts->failures].machine = a;
        r->failures[counts->failures++].verdict = b;
        known = true;
    }
    if (!known) fprintf(stderr, "differential: %s is no record: %s", path, line);
    return known;
}

bool record_read(Record *record, const char *path) {
    char line[256];
    Counts counts = {0};
    bool good = true;
    FILE *file = fopen(path, "r");
    if (!file) return true;
    while (good && fgets(line, sizeof line, file)) good = read_line(record, &counts, line, path);
    if (good && ferror(file)) {
        fprintf(stderr, "differential: cannot read %s\n", path);
        good = false;
    }
    fclose(file);
    return good;
}

static void write_lines(const Record *record, FILE *file) {
    Record copy = *record;
    fprintf(file, "# What `differential --record` has done; removing this file begins anew.\n");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        fprintf(file, "%s %" PRIu64 "\n", fields[i].name, *value_of(&copy, &fields[i]));
    fprintf(file, "sums %.17g %.17g\n", record->ms, record->kib);
    for (size_t i = 0; i < RECORD_MOST && record->slowest[i].number; i++)
        fprintf(file, "slow %" PRIu64 " %.17g\n", record->slowest[i].number,
                record->slowest[i].value);
    for (size_t i = 0; i < RECORD_MOST && record->largest[i].number; i++)
        fprintf(file, "large %" PRIu64 " %.17g\n", record->largest[i].number,
                record->largest[i].value);
    for (size_t i = 0; i < RECORD_BUILDS && record->builds[i].done; i++)
        fprintf(file, "build %016" PRIx64 " %" PRIu64 "\n", record->builds[i].program,
                record->builds[i].done);
    for (size_t i = 0; i < RECORD_FAILURES && i < record->failed; i++)
        fprintf(file, "failure %" PRIu64 " %u %u\n", record->failures[i].number,
                record->failures[i].machine, record->failures[i].verdict);
}

bool record_write(const Record *record, const char *path) {
    char beside[1200];
    snprintf(beside, sizeof beside, "%s.part", path);
    FILE *file = fopen(beside, "w");
    bool good = file != NULL;
    if (file) write_lines(record, file);
    if (file && fclose(file) != 0) good = false;
    if (good && rename(beside, path) == 0) return true;
    fprintf(stderr, "differential: cannot write %s\n", path);
    return false;
}

/* ---- on the terminal ---- */

static void print_places(const char *what, const char *unit, const RecordPlace *places) {
    printf("%s", what);
    for (size_t i = 0; i < RECORD_MOST && places[i].number; i++)
        printf("%s %" PRIu64 " %.1f %s", i ? "," : "", places[i].number, places[i].value, unit);
    printf("\n");
}

void record_print(const Record *record) {
    const uint64_t program = hash_of_program();
    uint64_t here = 0;
    for (size_t i = 0; i < RECORD_BUILDS; i++)
        if (record->builds[i].program == program) here += record->builds[i].done;
    printf("seed %" PRIu64 ": %" PRIu64 " programs from %" PRIu64 " on, %" PRIu64
           " of them everywhere, %" PRIu64 " failed; %" PRIu64 " on this build\n",
           record->seed, record->done, record->first, record->everywhere, record->failed, here);
    if (!record->done) return;
    printf("to plan and emit one: %.2f ms of a processor and %.0f KiB at once, on average\n",
           record->ms / (double)record->done, record->kib / (double)record->done);
    print_places("slowest:", "ms", record->slowest);
    print_places("largest:", "KiB", record->largest);
    for (size_t i = 0; i < RECORD_FAILURES && i < record->failed; i++)
        printf("failed: %" PRIu64 " on %s: %s\n", record->failures[i].number,
               machines[record->failures[i].machine].name,
               verdict_words[record->failures[i].verdict]);
    fflush(stdout);
}
