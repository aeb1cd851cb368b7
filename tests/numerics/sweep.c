/* sweep.c: every one-argument function of f32, the conversions included, against a reference that
 * is right to far below an ulp.
 *
 *   numerics_sweep                    a sample: every 499th bit pattern (the suite runs this)
 *   numerics_sweep --all              all 2^32 bit patterns (`ninja sweep`, some minutes)
 *   numerics_sweep ... NAME...        these functions only
 *   numerics_sweep ... --record       writes what it found into sweep.txt
 *
 * A function must keep its published bound, and its results the hash that stands in sweep.txt: they
 * are the same on every backend, and another hash is another numeric version. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "numerics.h"
#include "sweep.h"

enum { THREADS_MAX = 64, STRIDE = 499, NAME_SIZE = 24 };
static const uint64_t patterns_end = 0x100000000u, chunk = (uint64_t)1 << 21;

/* What a sweep found: the largest error and the first input that has it; results of the wrong kind
 * (NaN, infinity, sign of zero, not exact where they must be); results that are the reference
 * rounded; a sum of what (input, result) mixes to, in which order does not matter. */
typedef struct Finding {
    double error;
    uint32_t at;
    uint64_t inputs, wrong, rounded, hash;
    uint32_t wrong_at;
} Finding;

/* ---- one result ---- */

/* The unit of the last place at `exact`, of f32 or bf16, whose subnormal numbers end at 2^-149 and
 * 2^-133. */
static double unit_at(Unit unit, double exact) {
    const int digits = unit == UNIT_BF16 ? 7 : 23;
    const uint64_t least = 1023 - 126, exponent = ls_bits_f64(exact) >> 52 & 0x7ff;
    return ls_from_bits_f64(((exponent < least ? least : exponent) - (uint64_t)digits) << 52);
}

static void judge(const Row *row, Finding *finding, float x, float y, double exact) {
    float rounded = (float)exact;
    bool wrong = false;
    double error = 0;
    if (row->unit == UNIT_EXACT)
        wrong = !same_f32(rounded, y);
    else if (isnan(exact) || isnan(y))
        wrong = !(isnan(exact) && isnan(y));
    else if (isinf(exact) || exact == 0)
        wrong = !same_f32(rounded, y);
    else if (isinf(rounded) || isinf(y)) {
        /* the largest finite number and infinity are neighbours */
        if (rounded != y) error = fabs(fabs(exact) - 0x1p128) / unit_at(row->unit, 0x1p127);
        wrong = (y > 0) != (exact > 0);
    } else {
        error = fabs((double)y - exact) / unit_at(row->unit, exact);
        wrong = !signbit(y) != !signbit(exact);
    }
    const uint32_t pattern = ls_bits_f32(x);
    if (error > finding->error) finding->error = error, finding->at = pattern;
    if (wrong && finding->wrong++ == 0) finding->wrong_at = pattern;
}

/* ---- a block of results ----
 * Vector code looks for results worth a judge's time: all others are exact, or no worse than what
 * was found already. */

typedef struct Block {
    float x[BLOCK], y[BLOCK];
    double exact[BLOCK];
} Block;

static inline uint64_t mix(uint64_t x, uint64_t y) { /* the finaliser of splitmix64 */
    uint64_t z = x << 32 | y;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t count_suspects(const Block *block, uint64_t digits, double worst) {
    uint64_t suspects = 0;
    for (int i = 0; i < BLOCK; i++) {
        const double exact = block->exact[i], y = (double)block->y[i];
        const uint64_t bits = ls_bits_f64(exact), exponent = bits >> 52 & 0x7ff;
        const uint64_t bounded = exponent < 897 ? 897 : exponent; /* unit_at, inverted */
        const double units = fabs(y - exact) * ls_from_bits_f64((2046 + digits - bounded) << 52);
        const uint64_t same_sign = (ls_bits_f64(y) ^ bits) >> 63 ^ 1;
        const uint64_t good = ((uint64_t)(units <= worst) | (uint64_t)(y == exact)) & same_sign;
        const uint64_t nans = (uint64_t)(y != y) & (uint64_t)(exact != exact);
        suspects += (good | nans) ^ 1;
    }
    return suspects;
}

static void add_to_hash(const Block *block, Finding *finding) {
    uint64_t hash = 0, rounded = 0;
    for (int i = 0; i < BLOCK; i++) {
        const float y = (float)block->exact[i];
        hash += mix(ls_bits_f32(block->x[i]), ls_float_bits_f32(block->y[i]));
        rounded += ls_float_bits_f32(y) == ls_float_bits_f32(block->y[i]);
    }
    finding->hash += hash;
    finding->rounded += rounded;
}

static void sweep_block(const Row *row, Block *block, int count, Finding *finding) {
    for (int i = count; i < BLOCK; i++) block->x[i] = 1.0f;
    row->run(block->x, block->y);
    row->reference(block->x, block->exact);
    const double worst = row->unit == UNIT_EXACT ? 0 : finding->error;
    finding->inputs += (uint64_t)count;
    if (count_suspects(block, row->unit == UNIT_BF16 ? 7 : 23, worst))
        for (int i = 0; i < count; i++)
            judge(row, finding, block->x[i], block->y[i], row->scalar((double)block->x[i]));
    if (count == BLOCK) {
        add_to_hash(block, finding);
        return;
    }
    for (int i = 0; i < count; i++) {
        finding->hash += mix(ls_bits_f32(block->x[i]), ls_float_bits_f32(block->y[i]));
        finding->rounded += same_f32((float)block->exact[i], block->y[i]);
    }
}

/* ---- all of them ---- */

typedef struct Sweep {
    const Row *row;
    uint64_t stride;
    atomic_uint_fast64_t next; /* pattern from which on nobody has begun */
    Finding share[THREADS_MAX];
    atomic_uint_fast64_t thread_count;
} Sweep;

static void *sweep_share(void *data) {
    Sweep *sweep = data;
    Finding *finding = &sweep->share[atomic_fetch_add(&sweep->thread_count, 1)];
    Block *block = malloc(sizeof *block);
    if (!block) {
        puts("out of memory");
        exit(1);
    }
    for (uint64_t first; (first = atomic_fetch_add(&sweep->next, chunk)) < patterns_end;) {
        uint64_t pattern = (first + sweep->stride - 1) / sweep->stride * sweep->stride;
        while (pattern < first + chunk) {
            int count = 0;
            for (; count < BLOCK && pattern < first + chunk; pattern += sweep->stride)
                block->x[count++] = ls_from_bits_f32((uint32_t)pattern);
            sweep_block(sweep->row, block, count, finding);
        }
    }
    free(block);
    return NULL;
}

static Finding sweep_row(const Row *row, uint64_t stride) {
    static Sweep sweep;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t count = processors < 1             ? 1
                         : processors > THREADS_MAX ? THREADS_MAX
                                                    : (size_t)processors;
    pthread_t threads[THREADS_MAX];
    memset(&sweep, 0, sizeof sweep);
    sweep.row = row;
    sweep.stride = stride;
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, sweep_share, &sweep) != 0) {
            puts("cannot start a thread");
            exit(1);
        }
    Finding total = {0};
    for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < count; i++) {
        const Finding *part = &sweep.share[i];
        if (part->error > total.error || (part->error == total.error && part->at < total.at))
            total.error = part->error, total.at = part->at;
        if (part->wrong && (total.wrong == 0 || part->wrong_at < total.wrong_at))
            total.wrong_at = part->wrong_at;
        total.wrong += part->wrong;
        total.inputs += part->inputs;
        total.rounded += part->rounded;
        total.hash += part->hash;
    }
    return total;
}

static void add_specials(const Row *row, Finding *finding) {
    enum { SPECIALS = sizeof special_f32 / sizeof special_f32[0] };
    float x[BLOCK], y[BLOCK];
    for (int i = 0; i < BLOCK; i++) x[i] = special_f32[i % SPECIALS];
    row->run(x, y);
    for (int i = 0; i < SPECIALS; i++) judge(row, finding, x[i], y[i], row->scalar((double)x[i]));
}

/* The reference itself against long double, which has 11 bits more than double: 2^-45 of the value
 * is 2^-21 of an ulp of f32. */
static void check_reference(const Row *row) {
    static Block block;
    if (!row->finer) return;
    for (uint64_t pattern = 0; pattern < patterns_end;) {
        for (int i = 0; i < BLOCK; i++, pattern += 65537)
            block.x[i] = ls_from_bits_f32((uint32_t)pattern);
        row->reference(block.x, block.exact);
        for (int i = 0; i < BLOCK; i++) {
            const long double fine = row->finer((long double)block.x[i]);
            const double scalar = row->scalar((double)block.x[i]);
            const long double slack = fabsl(fine) * 0x1p-45L + 0x1p-1000L;
            const bool same = isnan(fine) ? isnan(block.exact[i]) && isnan(scalar)
                              : fabsl(fine) > 0x1p1000L
                                  ? fabs(scalar) > 0x1p1000 && fabs(block.exact[i]) > 0x1p1000
                                  : fabsl((long double)scalar - fine) <= slack &&
                                        fabsl((long double)block.exact[i] - fine) <= slack;
            check(same, "the reference of %s is wrong at %a: %a and %a, not %La", row->name,
                  (double)block.x[i], block.exact[i], scalar, fine);
        }
    }
}

/* ---- what is recorded ---- */

typedef struct Record {
    char name[NAME_SIZE];
    double error;
    double at;
    double rounded;   /* per cent */
    uint64_t hash[2]; /* of all inputs, of the sample */
} Record;

static const char heading[] =
    "# What `ninja sweep` found: each function over all 2^32 bit patterns of f32. Largest error "
    "in\n"
    "# units of the last place (of bf16 for names ending in _bf16), an input that has it, how "
    "many\n"
    "# results are the exact one rounded, hash of all results, hash of those the suite samples.\n"
    "# After a deliberate change of a function: build/tests/numerics/numerics_sweep --record and\n"
    "# numerics_sweep --all --record, both with its name.\n"
    "#\n"
    "# function        largest error                at   rounded               hash   hash of "
    "sample\n";
static Record records[64];
static size_t record_count;

static Record *record_of(const char *name) {
    for (size_t i = 0; i < record_count; i++)
        if (strcmp(records[i].name, name) == 0) return &records[i];
    if (record_count == sizeof records / sizeof records[0]) return NULL;
    snprintf(records[record_count].name, NAME_SIZE, "%s", name);
    return &records[record_count++];
}

static void records_read(const char *path) {
    char line[256];
    Record r;
    FILE *file = fopen(path, "r");
    for (; file && fgets(line, sizeof line, file);)
        if (sscanf(line, "%23s %lf %la %lf%% %" SCNx64 " %" SCNx64, r.name, &r.error, &r.at,
                   &r.rounded, &r.hash[0], &r.hash[1]) == 6) {
            Record *kept = record_of(r.name);
            if (kept) *kept = r;
        }
    if (file) fclose(file);
}

static void records_write(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) {
        printf("cannot write %s\n", path);
        exit(1);
    }
    fputs(heading, file);
    for (size_t i = 0; i < row_count; i++) {
        const Record *r = record_of(rows[i].name);
        if (r)
            fprintf(file, "%-17s %13.6f %17a %8.4f%% %016" PRIx64 " %016" PRIx64 "\n", r->name,
                    r->error, r->at, r->rounded, r->hash[0], r->hash[1]);
    }
    fclose(file);
}

static void check_record(const Row *row, const Finding *found, bool all, bool write) {
    Record *record = record_of(row->name);
    if (!record) {
        check(false, "%s: sweep.txt holds no more functions: enlarge `records`", row->name);
        return;
    }
    if (write) {
        record->hash[!all] = found->hash;
        if (!all) return;
        record->error = found->error;
        record->at = (double)ls_from_bits_f32(found->at);
        record->rounded = 100 * (double)found->rounded / (double)found->inputs;
        return;
    }
    check(found->hash == record->hash[!all],
          "%s: the results are others than before: hash %016" PRIx64 ", and sweep.txt has "
          "%016" PRIx64 ". If that is meant, it is a new numeric version: see the head of "
          "tests/numerics/sweep.txt for how to record it, and say so in the commit",
          row->name, found->hash, record->hash[!all]);
    check(found->error <= record->error + 1e-6,
          "%s: %.6f ulp at %a, and sweep.txt has %.6f as the largest of all inputs", row->name,
          found->error, (double)ls_from_bits_f32(found->at), record->error);
}

static void test_row(const Row *row, bool all, bool write) {
    Finding found = sweep_row(row, all ? 1 : STRIDE);
    if (!all) add_specials(row, &found);
    check_reference(row);
    printf("%-17s %10" PRIu64 " inputs, at most %.6f ulp at %a, %.4f%% rounded right\n", row->name,
           found.inputs, found.error, (double)ls_from_bits_f32(found.at),
           100 * (double)found.rounded / (double)found.inputs);
    fflush(stdout);
    check(found.wrong == 0, "%s: %" PRIu64 " results of the wrong kind, the first at %a", row->name,
          found.wrong, (double)ls_from_bits_f32(found.wrong_at));
    check(found.error <= row->bound, "%s: %.6f ulp at %a, but at most %.4f are promised", row->name,
          found.error, (double)ls_from_bits_f32(found.at), row->bound);
    if (rows_are_recorded) check_record(row, &found, all, write);
}

int main(int count, char **words) {
    bool all = false, write = false, named = false;
    const char *path = NUMERICS_FOLDER "/sweep.txt";
    records_read(path);
    for (int i = 1; i < count; i++) {
        all = all || strcmp(words[i], "--all") == 0;
        write = write || strcmp(words[i], "--record") == 0;
    }
    for (int i = 1; i < count; i++) {
        size_t found = 0;
        if (words[i][0] == '-') continue;
        while (found < row_count && strcmp(rows[found].name, words[i]) != 0) found++;
        check(found < row_count, "there is no function %s", words[i]);
        if (found < row_count) test_row(&rows[found], all, write);
        named = true;
    }
    for (size_t i = 0; !named && i < row_count; i++) test_row(&rows[i], all, write);
    if (write && rows_are_recorded) records_write(path);
    return checks_report();
}
