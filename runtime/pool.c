/* pool.c: the CPU driver's threads: one fork and one join per kernel, nothing in between.
 *
 * A job is announced by one 64-bit word: a serial number and how many workers take part. A worker
 * that takes no part never reads the job, so the caller may write the next one as soon as those
 * that do have finished. Both sides spin for a few microseconds and then sleep. The announcement
 * and the count of sleepers are sequentially consistent: either the caller sees the sleeper or the
 * sleeper the word.
 *
 * NUMERICS.md: kernels run with the default floating-point environment, whatever the program around
 * them (or a library built with -ffast-math) has set. */
#include "runtime.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__)
typedef uint32_t FloatControl;
static FloatControl float_read(void) {
    return __builtin_ia32_stmxcsr();
}
static void float_write(FloatControl control) {
    __builtin_ia32_ldmxcsr(control);
}
enum { FLOAT_DEFAULT = 0x1f80 }; /* round to nearest, no flushing, all exceptions masked */
static void relax(void) {
    __builtin_ia32_pause();
}
#elif defined(__aarch64__)
typedef uint64_t FloatControl;
static FloatControl float_read(void) {
    FloatControl control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
static void float_write(FloatControl control) {
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
enum { FLOAT_DEFAULT = 0 };
static void relax(void) {
    __asm__ volatile("yield");
}
#else
#error "pool.c does not know this processor's floating-point control register"
#endif

enum { SPIN_NANOSECONDS = 20000, RELAX_PER_LOOK = 16, WORKER_BITS = 16 };

typedef struct Worker {
    Pool *pool;
    uint32_t index;
    pthread_t thread;
} Worker;

struct Pool {
    _Alignas(64) atomic_ullong word; /* serial << WORKER_BITS | workers; 0 workers: stop */
    _Alignas(64) atomic_uint pending;
    atomic_uint sleepers;
    atomic_bool caller_sleeps;
    const Launch *job;
    uint32_t threads; /* the caller is worker 0 */
    Worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t announced, finished;
};

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A contiguous share of the items for each worker. */
static void run_share(const Launch *launch, uint32_t worker, uint32_t workers) {
    uint64_t share = launch->items / workers, rest = launch->items % workers;
    uint64_t first = share * worker + (worker < rest ? worker : rest);
    uint64_t last = first + share + (worker < rest);
    launch->kernel.cpu(launch->arguments, first, last, worker, workers);
}

static unsigned long long wait_announcement(Pool *pool, unsigned long long seen) {
    unsigned long long word;
    uint64_t limit = nanoseconds() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < RELAX_PER_LOOK; i++) {
            word = atomic_load_explicit(&pool->word, memory_order_acquire);
            if (word != seen) return word;
            relax();
        }
    } while (nanoseconds() < limit);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while ((word = atomic_load(&pool->word)) == seen)
        pthread_cond_wait(&pool->announced, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return word;
}

static void announce(Pool *pool, uint32_t workers) {
    unsigned long long serial =
        atomic_load_explicit(&pool->word, memory_order_relaxed) >> WORKER_BITS;
    atomic_store(&pool->word, (serial + 1) << WORKER_BITS | workers);
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->announced);
    pthread_mutex_unlock(&pool->lock);
}

static void finish(Pool *pool) {
    if (atomic_fetch_sub(&pool->pending, 1) != 1 || !atomic_load(&pool->caller_sleeps)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_finished(Pool *pool) {
    uint64_t limit = nanoseconds() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < RELAX_PER_LOOK; i++) {
            if (atomic_load_explicit(&pool->pending, memory_order_acquire) == 0) return;
            relax();
        }
    } while (nanoseconds() < limit);
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->pending) > 0) pthread_cond_wait(&pool->finished, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument) {
    const Worker *worker = argument;
    Pool *pool = worker->pool;
    unsigned long long seen = 0;
    float_write(FLOAT_DEFAULT);
    for (;;) {
        seen = wait_announcement(pool, seen);
        uint32_t workers = (uint32_t)(seen & ((1u << WORKER_BITS) - 1));
        if (workers == 0) return NULL;
        if (worker->index >= workers) continue;
        run_share(pool->job, worker->index, workers);
        finish(pool);
    }
}

/* Fewer threads than asked for are no failure: the results are the same. */
static void start_threads(Pool *pool, uint32_t threads) {
    sigset_t all, before;
    sigfillset(&all); /* the program's signal handlers run on the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 1; i < threads; i++) {
        Worker *worker = &pool->workers[i];
        *worker = (Worker){.pool = pool, .index = i};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) break;
        char name[16];
        snprintf(name, sizeof name, "lockstep-%u", i & 0xffff);
        pthread_setname_np(worker->thread, name);
        pool->threads = i + 1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

Pool *pool_create(uint32_t threads) {
    Pool *pool = aligned_alloc(_Alignof(Pool), sizeof *pool);
    if (!pool) return NULL;
    *pool = (Pool){.threads = 1};
    pool->workers = calloc(threads, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->announced, NULL);
    pthread_cond_init(&pool->finished, NULL);
    start_threads(pool, threads);
    return pool;
}

uint32_t pool_threads(const Pool *pool) {
    return pool->threads;
}

void pool_run(Pool *pool, const Launch *launch) {
    FloatControl before = float_read();
    float_write(FLOAT_DEFAULT);
    if (launch->parts <= 1) {
        launch->kernel.cpu(launch->arguments, 0, launch->items, 0, 1);
    } else {
        pool->job = launch;
        atomic_store_explicit(&pool->pending, launch->parts - 1, memory_order_relaxed);
        announce(pool, launch->parts);
        run_share(launch, 0, launch->parts);
        wait_finished(pool);
    }
    float_write(before);
}

void pool_destroy(Pool *pool) {
    announce(pool, 0);
    for (uint32_t i = 1; i < pool->threads; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->announced);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}
