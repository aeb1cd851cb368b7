/* cost.c: see cost.h. All allocations of the program come here by the linker's --wrap. */
#include "cost.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **block, size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);

static atomic_llong live, highest;
static long long live_before;
static double ms_before;

static void count(long long bytes) {
    const long long now = atomic_fetch_add_explicit(&live, bytes, memory_order_relaxed) + bytes;
    long long most = atomic_load_explicit(&highest, memory_order_relaxed);
    while (now > most && !atomic_compare_exchange_weak(&highest, &most, now)) {
    }
}

static void *counted(void *block) {
    if (block) count((long long)malloc_usable_size(block));
    return block;
}

void *__wrap_malloc(size_t size) {
    return counted(__real_malloc(size));
}
void *__wrap_calloc(size_t number, size_t size) {
    return counted(__real_calloc(number, size));
}
void *__wrap_realloc(void *block, size_t size) {
    const long long before = block ? (long long)malloc_usable_size(block) : 0;
    void *larger = __real_realloc(block, size);
    if (larger) count(-before);
    return counted(larger);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return counted(__real_aligned_alloc(alignment, size));
}
int __wrap_posix_memalign(void **block, size_t alignment, size_t size) {
    const int error = __real_posix_memalign(block, alignment, size);
    if (error == 0) counted(*block);
    return error;
}
char *__wrap_strdup(const char *text) {
    char *copy = __wrap_malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}
void __wrap_free(void *block) {
    if (block) count(-(long long)malloc_usable_size(block));
    __real_free(block);
}

static double processor_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

void cost_begin(void) {
    live_before = atomic_load(&live);
    atomic_store(&highest, live_before);
    ms_before = processor_ms();
}

void cost_end(Cost *cost) {
    cost->ms += processor_ms() - ms_before;
    const uint64_t peak = cost->kept + (uint64_t)(atomic_load(&highest) - live_before);
    if (peak > cost->peak) cost->peak = peak;
    cost->kept += (uint64_t)(atomic_load(&live) - live_before);
}
