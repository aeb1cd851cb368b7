/* gauges.h: what a process holds, measured again and again, and whether it grows. */
#ifndef GAUGES_H
#define GAUGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is measured, its unit, and by how much it may grow over the part of a series that is judged.
 * Resident memory comes in pages and is kept by allocators; the heap is known to the byte, and its
 * tolerance is what lazily made tables and caches of the C library take. */
#define GAUGE_LIST(X)                      \
    X(RESIDENT, "resident", "KiB", 512)    \
    X(HEAP, "heap in use", "KiB", 16)      \
    X(MAPPINGS, "mappings", "", 2)         \
    X(DESCRIPTORS, "descriptors", "", 0.5) \
    X(THREADS, "threads", "", 0.5)
typedef enum Gauge {
#define X(id, name, unit, tolerance) GAUGE_##id,
    GAUGE_LIST(X)
#undef X
        GAUGE_COUNT
} Gauge;
typedef struct GaugeRow {
    const char *name, *unit;
    double tolerance;
} GaugeRow;
extern const GaugeRow gauge_rows[GAUGE_COUNT];

enum { SAMPLES = 64, SAMPLES_LEAST = 16 };
/* At most SAMPLES of them at equal distances, however long it gets: when the series is full every
 * second one goes and the distance doubles. */
typedef struct Series {
    uint64_t distance, next;
    size_t count;
    uint64_t at[SAMPLES];
    double value[SAMPLES][GAUGE_COUNT];
} Series;

void series_open(Series *series);
bool series_due(const Series *series, uint64_t done);
/* Takes a sample where one is due after `done` units; true: it did. false in *works: the system
 * does not tell. */
bool series_add(Series *series, uint64_t done, bool *works);

typedef struct Growth {
    double first, last; /* medians of the first and the last quarter of what is judged */
    double grown;       /* the slope over what is judged */
    bool flat;
} Growth;
/* The first quarter of the samples is warm-up. The slope is the median of those between all pairs
 * of the others (Theil and Sen), which single samples do not move. */
Growth series_growth(const Series *series, Gauge gauge);

#endif
