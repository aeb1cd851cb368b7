/* gauges.c: see gauges.h. Measuring allocates nothing that stays. */
#include "gauges.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
/* of sanitizer/allocator_interface.h, which not every gcc comes with */
size_t __sanitizer_get_current_allocated_bytes(void);
#elif defined __GLIBC__
#include <malloc.h>
#endif

#ifdef __SANITIZE_ADDRESS__
#define HAS_PLENTY 1 /* memory that was freed stays with the sanitizer for a while */
#else
#define HAS_PLENTY 0
#endif

const GaugeRow gauge_rows[GAUGE_COUNT] = {
#define X(id, name, unit, tolerance) {name, unit, tolerance},
    GAUGE_LIST(X)
#undef X
};

/* ---- what the system says ---- */

static double heap_in_use(void) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return (double)__sanitizer_get_current_allocated_bytes() / 1024;
#elif defined __GLIBC__ && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd) / 1024;
#else
    return 0;
#endif
}

/* Calls `take` with the file piece by piece. */
static bool read_pieces(const char *path, void (*take)(void *, const char *, size_t), void *to) {
    char piece[4096];
    ssize_t size = -1;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    while ((size = read(file, piece, sizeof piece)) > 0) take(to, piece, (size_t)size);
    close(file);
    return size == 0;
}

static void count_lines(void *to, const char *piece, size_t size) {
    for (size_t i = 0; i < size; i++) *(double *)to += piece[i] == '\n';
}

static void keep_start(void *to, const char *piece, size_t size) {
    char *text = to;
    if (text[0]) return;
    memcpy(text, piece, size < 4095 ? size : 4095);
}

static bool entries_of(const char *path, double *count) {
    DIR *directory = opendir(path);
    if (!directory) return false;
    for (const struct dirent *e; (e = readdir(directory));) *count += e->d_name[0] != '.';
    closedir(directory);
    return true;
}

static bool measure(double *value) {
    char statm[4096] = "";
    unsigned long resident = 0;
    memset(value, 0, GAUGE_COUNT * sizeof *value);
    value[GAUGE_HEAP] = heap_in_use(); /* before what follows allocates */
    if (!read_pieces("/proc/self/statm", keep_start, statm)) return false;
    if (sscanf(statm, "%*s %lu", &resident) != 1) return false;
    value[GAUGE_RESIDENT] = (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
    return read_pieces("/proc/self/maps", count_lines, &value[GAUGE_MAPPINGS]) &&
           entries_of("/proc/self/fd", &value[GAUGE_DESCRIPTORS]) &&
           entries_of("/proc/self/task", &value[GAUGE_THREADS]);
}

/* ---- series ---- */

void series_open(Series *series) {
    *series = (Series){.distance = 1, .next = 1};
}

bool series_due(const Series *series, uint64_t done) {
    return done >= series->next;
}

bool series_add(Series *series, uint64_t done, bool *works) {
    *works = true;
    if (!series_due(series, done)) return false;
    if (series->count == SAMPLES) {
        for (size_t i = 0; i < SAMPLES / 2; i++) {
            series->at[i] = series->at[2 * i + 1];
            memcpy(series->value[i], series->value[2 * i + 1], sizeof series->value[i]);
        }
        series->count = SAMPLES / 2;
        series->distance *= 2;
    }
    *works = measure(series->value[series->count]);
    series->at[series->count++] = done;
    series->next = done + series->distance;
    return true;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_size);
    return count ? (values[(count - 1) / 2] + values[count / 2]) / 2 : 0;
}

static double median_of(const Series *series, Gauge gauge, size_t begin, size_t end) {
    double values[SAMPLES];
    size_t count = 0;
    for (size_t i = begin; i < end; i++) values[count++] = series->value[i][gauge];
    return median(values, count);
}

Growth series_growth(const Series *series, Gauge gauge) {
    double slopes[SAMPLES * SAMPLES / 2];
    const size_t begin = series->count / 4, end = series->count, part = (end - begin + 3) / 4;
    size_t count = 0;
    Growth growth = {.flat = true};
    if (end < 2) return growth;
    for (size_t i = begin; i < end; i++)
        for (size_t k = i + 1; k < end; k++)
            slopes[count++] = (series->value[k][gauge] - series->value[i][gauge]) /
                              (double)(series->at[k] - series->at[i]);
    growth.grown = median(slopes, count) * (double)(series->at[end - 1] - series->at[begin]);
    growth.first = median_of(series, gauge, begin, begin + part);
    growth.last = median_of(series, gauge, end - part, end);
    growth.flat = growth.grown <= gauge_rows[gauge].tolerance ||
                  (HAS_PLENTY && (gauge == GAUGE_RESIDENT || gauge == GAUGE_MAPPINGS));
    return growth;
}
