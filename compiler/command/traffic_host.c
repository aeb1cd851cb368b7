/* traffic_host.c: moves the bytes of a step and computes nothing: the memory limit on the CPU.
 *
 * Each thread walks its contiguous share of every array at once, 2 KiB of each in turn, as a fused
 * kernel does. Arrays that are read and written get their own bytes back; arrays only written, when
 * far larger than the caches, are written past them. */
#include "files.h"
#include "command.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { LINE = 64, CHUNK = 2048, AHEAD = 1024, SMALL = 1 << 16 };
static const size_t streamed = (size_t)64 << 20; /* arrays from here on bypass the caches */

/* One cache line in the widest registers of the target. */
typedef uint64_t Line __attribute__((vector_size(LINE), may_alias));

/* `zero` is 0, but the compiler does not know. Every range is whole lines. */
typedef struct Touch {
    uint64_t (*read)(const char *at, const char *end);
    void (*update)(char *at, const char *end, uint64_t zero);
    void (*write)(char *at, const char *end, uint64_t zero);
} Touch;

#define DEFINE_TOUCH(suffix, attribute)                                               \
    attribute static uint64_t read_##suffix(const char *at, const char *end) {        \
        Line sum = {0};                                                               \
        for (; at < end; at += LINE) {                                                \
            __builtin_prefetch(at + AHEAD, 0, 0);                                     \
            sum ^= *(const Line *)(const void *)at;                                   \
        }                                                                             \
        return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7]; \
    }                                                                                 \
    attribute static void update_##suffix(char *at, const char *end, uint64_t zero) { \
        for (; at < end; at += LINE) {                                                \
            __builtin_prefetch(at + AHEAD, 1, 0);                                     \
            *(Line *)(void *)at ^= zero;                                              \
        }                                                                             \
    }                                                                                 \
    attribute static void write_##suffix(char *at, const char *end, uint64_t zero) {  \
        Line line = {zero, zero, zero, zero, zero, zero, zero, zero};                 \
        for (; at < end; at += LINE) *(Line *)(void *)at = line;                      \
    }                                                                                 \
    static const Touch touch_##suffix = {read_##suffix, update_##suffix, write_##suffix};

DEFINE_TOUCH(plain, )
#if defined(__x86_64__) && defined(__GNUC__)
DEFINE_TOUCH(avx2, __attribute__((target("avx2"))))
DEFINE_TOUCH(avx512, __attribute__((target("avx512f"))))
#endif

static Touch best_touch(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return touch_avx512;
    if (__builtin_cpu_supports("avx2")) return touch_avx2;
#endif
    return touch_plain;
}

static void stream(char *at, const char *end, uint64_t zero) {
#if defined(__SSE2__)
    __m128i part = _mm_set1_epi64x((long long)zero);
    for (; at < end; at += LINE)
        for (int i = 0; i < LINE; i += 16) _mm_stream_si128((__m128i *)(void *)(at + i), part);
#else
    touch_plain.write(at, end, zero);
#endif
}

typedef struct Partition { /* of one array */
    char *begin;
    size_t bytes; /* whole lines */
    bool read, written, streamed;
} Partition;

typedef struct Worker {
    HostTraffic *traffic;
    pthread_t thread;
    Partition *partitions;
    uint64_t result; /* of the reads, so that they are not left out */
} Worker;

struct HostTraffic {
    Touch touch;
    size_t count; /* arrays */
    uint32_t workers, started;
    Worker *worker; /* the first is the caller */
    volatile uint64_t zero;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    uint64_t round, times;
    uint32_t running;
    bool stop;
};

/* All shares once, in step: chunk c of each array is the part c / chunks of its share. */
static void walk(Worker *worker) {
    const HostTraffic *traffic = worker->traffic;
    uint64_t zero = traffic->zero, result = 0;
    size_t longest = 0;
    for (size_t i = 0; i < traffic->count; i++)
        if (worker->partitions[i].bytes > longest) longest = worker->partitions[i].bytes;
    size_t chunks = (longest + CHUNK - 1) / CHUNK;
    for (size_t c = 0; c < chunks; c++)
        for (size_t i = 0; i < traffic->count; i++) {
            const Partition *partition = &worker->partitions[i];
            size_t lines = partition->bytes / LINE;
            char *at = partition->begin + lines * c / chunks * LINE;
            const char *end = partition->begin + lines * (c + 1) / chunks * LINE;
            if (!partition->written)
                result ^= traffic->touch.read(at, end);
            else if (partition->read)
                traffic->touch.update(at, end, zero);
            else if (partition->streamed)
                stream(at, end, zero);
            else
                traffic->touch.write(at, end, zero);
        }
#if defined(__SSE2__)
    _mm_sfence();
#endif
    worker->result ^= result;
}

static void *work(void *argument) {
    Worker *worker = argument;
    HostTraffic *traffic = worker->traffic;
    uint64_t seen = 0;
    pthread_mutex_lock(&traffic->lock);
    for (;;) {
        while (traffic->round == seen && !traffic->stop)
            pthread_cond_wait(&traffic->begin, &traffic->lock);
        if (traffic->stop) break;
        seen = traffic->round;
        uint64_t times = traffic->times;
        pthread_mutex_unlock(&traffic->lock);
        for (uint64_t i = 0; i < times; i++) walk(worker);
        pthread_mutex_lock(&traffic->lock);
        if (--traffic->running == 0) pthread_cond_signal(&traffic->end);
    }
    pthread_mutex_unlock(&traffic->lock);
    return NULL;
}

/* Cuts each array into runs of whole lines; bytes before the first and after the last are left out.
 */
static void partition_work(HostTraffic *traffic, const TrafficArray *arrays) {
    for (uint32_t w = 0; w < traffic->workers; w++) {
        Worker *worker = &traffic->worker[w];
        *worker = (Worker){.traffic = traffic,
                           .partitions = memory(traffic->count * sizeof *worker->partitions)};
        for (size_t i = 0; i < traffic->count; i++) {
            size_t skip = (0 - (uintptr_t)arrays[i].data) % LINE;
            size_t lines = arrays[i].bytes > skip ? (arrays[i].bytes - skip) / LINE : 0;
            size_t first = lines * w / traffic->workers, last = lines * (w + 1) / traffic->workers;
            worker->partitions[i] =
                (Partition){.begin = (char *)arrays[i].data + skip + first * LINE,
                            .bytes = (last - first) * LINE,
                            .read = arrays[i].read,
                            .written = arrays[i].written,
                            .streamed = arrays[i].bytes >= streamed};
        }
    }
}

HostTraffic *host_traffic_open(const TrafficArray *arrays, size_t count, uint32_t threads) {
    HostTraffic *traffic = memory(sizeof *traffic);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += arrays[i].bytes;
    traffic->touch = best_touch();
    traffic->count = count;
    traffic->workers = threads > 1 && bytes > SMALL ? threads : 1;
    traffic->worker = memory(traffic->workers * sizeof *traffic->worker);
    pthread_mutex_init(&traffic->lock, NULL);
    pthread_cond_init(&traffic->begin, NULL);
    pthread_cond_init(&traffic->end, NULL);
    partition_work(traffic, arrays);
    for (uint32_t w = 1; w < traffic->workers; w++) {
        if (pthread_create(&traffic->worker[w].thread, NULL, work, &traffic->worker[w]) != 0) {
            host_traffic_close(traffic);
            return NULL;
        }
        traffic->started++;
    }
    return traffic;
}

void host_traffic_run(HostTraffic *traffic, uint64_t times) {
    pthread_mutex_lock(&traffic->lock);
    traffic->times = times;
    traffic->running = traffic->started;
    traffic->round++;
    pthread_cond_broadcast(&traffic->begin);
    pthread_mutex_unlock(&traffic->lock);
    for (uint64_t i = 0; i < times; i++) walk(&traffic->worker[0]);
    pthread_mutex_lock(&traffic->lock);
    while (traffic->running) pthread_cond_wait(&traffic->end, &traffic->lock);
    pthread_mutex_unlock(&traffic->lock);
}

void host_traffic_close(HostTraffic *traffic) {
    if (!traffic) return;
    pthread_mutex_lock(&traffic->lock);
    traffic->stop = true;
    pthread_cond_broadcast(&traffic->begin);
    pthread_mutex_unlock(&traffic->lock);
    for (uint32_t w = 1; w <= traffic->started; w++) pthread_join(traffic->worker[w].thread, NULL);
    for (uint32_t w = 0; w < traffic->workers; w++) free(traffic->worker[w].partitions);
    pthread_cond_destroy(&traffic->end);
    pthread_cond_destroy(&traffic->begin);
    pthread_mutex_destroy(&traffic->lock);
    free(traffic->worker);
    free(traffic);
}
