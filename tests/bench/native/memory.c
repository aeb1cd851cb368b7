/* memory.c: memory for the arrays of a row, their values, and samples of results; and the kernels
 * that only move bytes, the machine's limit in the moment in which they run. */
#include "native.h"

#include <omp.h>
#include <sys/mman.h>

/* Pages of 2 MiB where the system gives them, so that no candidate pays for page faults after the
 * first touch. */
void *native_alloc(size_t bytes) {
    const size_t page = (size_t)2 << 20, size = (bytes + page - 1) / page * page + page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    memory = (char *)(((uintptr_t)memory + page - 1) / page * page);
    madvise(memory, size - page, MADV_HUGEPAGE);
    return memory;
}

/* Writes every byte: what was only read lies in one page of zeros, and in the caches. */
void native_touch(char *memory, size_t bytes) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < bytes; i += 4096)
        memset(memory + i, 1, bytes - i < 4096 ? bytes - i : 4096);
}

/* Well mixed, of one place in one array; 32-bit words, which the compiler does sixteen at a time.
 */
static inline uint32_t mixed(uint32_t at, uint32_t seed) {
    at = at * 0x9e3779b1u + seed * 0x85ebca77u;
    at = (at ^ (at >> 15)) * 0x2c1b3c6du;
    at = (at ^ (at >> 12)) * 0x297a2d39u;
    return at ^ (at >> 15);
}

/* About normal: the sum of the four halves of two words. */
static inline float bell(uint32_t at, uint32_t seed) {
    const uint32_t a = mixed(at, seed), b = mixed(a, ~seed);
    const uint32_t whole = (a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16);
    return ((float)(int32_t)whole * 0x1p-16f - 2.0f) * 1.7320508f;
}

enum { F32, BF16, I64 };                          /* types as arrays.py numbers them */
enum { ZEROS, NORMAL, POSITIVE, SMALL, CLASSES }; /* fills */

static void fill_block(void *data, int type, int fill, uint32_t from, size_t n, uint32_t seed) {
    float block[BLOCK];
    const float scale = fill == ZEROS ? 0.0f : fill == SMALL ? 0.01f : 1.0f;
    for (size_t i = 0; i < n; i++) block[i] = scale * bell(from + (uint32_t)i, seed);
    for (size_t i = 0; fill == POSITIVE && i < n; i++) block[i] *= block[i] * 1e-4f;
    if (type == F32) memcpy((float *)data + from, block, n * sizeof *block);
    for (size_t i = 0; type == BF16 && i < n; i++) ((uint16_t *)data)[from + i] = to_bf16(block[i]);
}

void native_fill(void *data, int type, int fill, size_t count, uint64_t seed, int64_t classes) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i += BLOCK) {
        const size_t n = count - i < BLOCK ? count - i : BLOCK;
        if (type != I64) fill_block(data, type, fill, (uint32_t)i, n, (uint32_t)seed);
        for (size_t j = i; type == I64 && j < i + n; j++)
            ((int64_t *)data)[j] =
                fill == CLASSES ? mixed((uint32_t)j, (uint32_t)seed) % classes : 0;
    }
}

/* `want` of `count` elements, first and last among them, spread by an odd way through blocks. */
void native_sample(const void *data, int type, size_t count, size_t want, double *out) {
    for (size_t i = 0; i < want; i++) {
        size_t at =
            want >= count ? i : (size_t)((double)(count - 1) * (double)i / (double)(want - 1));
        if (want < count && i > 0 && i + 1 < want) at = at - at % 32 + mixed((uint32_t)i, 1) % 32;
        if (at >= count) at = count - 1;
        out[i] = type == F32    ? (double)((const float *)data)[at]
                 : type == BF16 ? (double)from_bf16(((const uint16_t *)data)[at])
                                : (double)((const int64_t *)data)[at];
    }
}

/* The largest |a - b| / (|b| + the root of b's mean square); infinity where one alone is not
 * finite. */
double native_distance(const double *a, const double *b, size_t count) {
    double square = 0, worst = 0;
    for (size_t i = 0; i < count; i++) square += isfinite(b[i]) ? b[i] * b[i] : 0;
    const double typical = sqrt(square / (double)(count ? count : 1));
    for (size_t i = 0; i < count; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        const double distance = fabs(a[i] - b[i]) / (fabs(b[i]) + typical);
        if (distance > worst) worst = distance;
    }
    return worst;
}

void native_run(void (*kernel)(Work *), Work *work, size_t times) {
    for (size_t i = 0; i < times; i++) kernel(work);
}

/* Launches in a row, so that a script's own calls are not what is timed: 0 or the first failure. */
int native_launches(int (*launch)(void *), void *step, uint64_t times) {
    int status = 0;
    for (uint64_t i = 0; i < times && status == 0; i++) status = launch(step);
    return status;
}

typedef long long Line __attribute__((vector_size(LINE), may_alias));

static inline void put(char *at, Line value, int stream) {
#ifdef __AVX512F__
    if (stream) {
        _mm512_stream_si512((void *)at, (__m512i)value);
        return;
    }
#else
    (void)stream;
#endif
    *(Line *)at = value;
}

/* Lines that are moved of a wide array and of a narrow one, whose elements have half the bytes,
 * before the next array's turn. */
enum { WIDE = 4, NARROW = WIDE / 2 };

static inline __attribute__((always_inline)) void take(const char *at, Line *sum, int lines,
                                                       size_t far) {
    for (int k = 0; k < lines; k++) {
        __builtin_prefetch(at + k * LINE + far, 0, 0);
        sum[k] ^= *(const Line *)(at + k * LINE);
    }
}

/* From unit to unit: reads r, writes w, updates u of wide arrays; reads and writes of narrow ones.
 */
static inline __attribute__((always_inline)) void units(char *const *wide, char *const *narrow,
                                                        size_t from, size_t to, int r, int w, int u,
                                                        int narrow_r, int narrow_w, int stream,
                                                        size_t far) {
    Line sum[WIDE] = {{0}, {0}, {0}, {0}};
    for (size_t i = from; i < to; i++) {
        const size_t at = i * WIDE * LINE, narrow_at = i * NARROW * LINE;
        for (int a = 0; a < r; a++) take(wide[a] + at, sum, WIDE, far);
        for (int a = 0; a < narrow_r; a++) take(narrow[a] + narrow_at, sum, NARROW, far);
        for (int a = r + w; a < r + w + u; a++)
            for (int k = 0; k < WIDE; k++) {
                Line *const line = (Line *)(wide[a] + at + k * LINE);
                __builtin_prefetch((const char *)line + far, 0, 0);
                *line ^= sum[k];
            }
        for (int a = r; a < r + w; a++)
            for (int k = 0; k < WIDE; k++) put(wide[a] + at + k * LINE, sum[k], stream);
        for (int a = narrow_r; a < narrow_r + narrow_w; a++)
            for (int k = 0; k < NARROW; k++) put(narrow[a] + narrow_at + k * LINE, sum[k], stream);
    }
    *(volatile char *)wide[7] = (char)(sum[0] ^ sum[1] ^ sum[2] ^ sum[3])[0];
}

/* Every pattern of the rows, with its counts as constants. */
#define PATTERNS(X)  \
    X(1, 0, 0, 0, 0) \
    X(2, 0, 0, 0, 0) \
    X(1, 1, 0, 0, 0) \
    X(2, 1, 0, 0, 0) \
    X(3, 2, 0, 0, 0) \
    X(1, 0, 3, 0, 0) \
    X(0, 0, 1, 0, 0) \
    X(0, 0, 0, 1, 0) \
    X(0, 0, 4, 1, 1)

static size_t units_of(size_t bytes) {
    return (bytes + WIDE * LINE - 1) / (WIDE * LINE);
}

/* bytes: of a wide array; stream: writes go past the caches; far: bytes that are asked for ahead; a
 * pattern that is not in the list is refused with 1. */
int native_traffic(char *memory, size_t bytes, int reads, int writes, int updates, int narrow_reads,
                   int narrow_writes, int stream, size_t far, int threads, size_t times) {
    const int wides = reads + writes + updates;
    const size_t gap = units_of(bytes) * WIDE * LINE + 4096 + 17 * LINE;
    const size_t count = units_of(bytes);
    char *wide[8], *narrow[8], sink[16][LINE];
    for (int a = 0; a < 7; a++) wide[a] = memory + gap * (size_t)a;
    for (int a = 0; a < 7; a++) narrow[a] = memory + gap * (size_t)(wides + a);
    int known = 0;
    for (size_t time = 0; time < times; time++) {
#pragma omp parallel num_threads(threads)
        {
            const size_t thread = (size_t)omp_get_thread_num();
            const Share share = share_of(count, 1, thread, (size_t)omp_get_num_threads());
            char *mine[8];
            memcpy(mine, wide, sizeof mine);
            mine[7] = sink[thread % 16];
#define TRY(r, w, u, nr, nw)                                                                      \
    if (reads == r && writes == w && updates == u && narrow_reads == nr && narrow_writes == nw) { \
        if (stream)                                                                               \
            units(mine, narrow, share.from, share.to, r, w, u, nr, nw, 1, far);                   \
        else                                                                                      \
            units(mine, narrow, share.from, share.to, r, w, u, nr, nw, 0, far);                   \
        if (thread == 0) known = 1;                                                               \
    }
            PATTERNS(TRY)
        }
    }
    return known ? 0 : 1;
}

/* The bytes of `memory` that native_traffic goes over. */
size_t native_traffic_memory(size_t bytes, int arrays) {
    return (units_of(bytes) * WIDE * LINE + 4096 + 17 * LINE) * (size_t)arrays + 4096;
}
