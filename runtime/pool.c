/* pool.c: the CPU driver's threads: one fork and one join per step, graph or series of replays, and
 * between two launches a barrier.
 *
 * A job is announced to each worker that takes part by a new serial number in the worker's own
 * cache line; the others sleep on. Both sides spin for longer than it takes to wake a thread, 50
 * microseconds where the processor is a virtual one, and then sleep, and so do those who wait at the
 * barrier. A shorter spin never ends where launches follow each other: the caller would be asleep
 * when the worker it woke is done, and the worker again when the caller is back. A serial and the flag of a sleeper are sequentially consistent:
 * either the caller sees the flag or the sleeper the serial. The job is read only by workers that
 * take part and until they have finished.
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

enum { SPIN_NANOSECONDS = 200000, RELAX_PER_LOOK = 16, CACHE_LINE = 64 };

typedef struct Worker {
    _Alignas(CACHE_LINE) atomic_uint serial; /* of the last job for this worker */
    atomic_bool sleeps;
    uint32_t index;
    Pool *pool;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t announced;
} Worker;

/* Launches, some of which need several workers, and how often they are done. */
typedef struct Job {
    const Launch *launches;
    size_t count; /* 0: stop */
    uint64_t times;
    uint32_t workers;
} Job;

struct Pool {
    Job job;
    uint32_t threads; /* the caller is worker 0 */
    Worker *workers;
    _Alignas(CACHE_LINE) atomic_uint pending;
    atomic_bool caller_sleeps;
    pthread_mutex_t lock;
    pthread_cond_t finished;
    _Alignas(CACHE_LINE) atomic_uint arrived; /* at the barrier */
    atomic_uint turn;                         /* barriers that all have passed */
    atomic_uint sleepers;
    pthread_cond_t passed;
};

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A contiguous share of the items for each worker. */
static void run_share(const Launch *launch, uint32_t worker, uint32_t workers) {
    if (workers <= 1) {
        launch->kernel.cpu(launch->arguments, 0, launch->items, 0, 1);
        return;
    }
    uint64_t share = launch->items / workers, rest = launch->items % workers;
    uint64_t first = share * worker + (worker < rest ? worker : rest);
    uint64_t last = first + share + (worker < rest);
    launch->kernel.cpu(launch->arguments, first, last, worker, workers);
}

static void wait_announcement(Worker *worker, unsigned seen) {
    uint64_t limit = nanoseconds() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < RELAX_PER_LOOK; i++) {
            if (atomic_load_explicit(&worker->serial, memory_order_acquire) != seen) return;
            relax();
        }
    } while (nanoseconds() < limit);
    pthread_mutex_lock(&worker->lock);
    atomic_store(&worker->sleeps, true);
    while (atomic_load(&worker->serial) == seen)
        pthread_cond_wait(&worker->announced, &worker->lock);
    atomic_store(&worker->sleeps, false);
    pthread_mutex_unlock(&worker->lock);
}

/* Waits until all workers of the job have come here. */
static void meet(Pool *pool, uint32_t workers) {
    unsigned turn = atomic_load_explicit(&pool->turn, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) + 1 == workers) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        atomic_store(&pool->turn, turn + 1);
        if (!atomic_load(&pool->sleepers)) return;
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->passed);
        pthread_mutex_unlock(&pool->lock);
        return;
    }
    uint64_t limit = nanoseconds() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < RELAX_PER_LOOK; i++) {
            if (atomic_load_explicit(&pool->turn, memory_order_acquire) != turn) return;
            relax();
        }
    } while (nanoseconds() < limit);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->turn) == turn) pthread_cond_wait(&pool->passed, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

/* A worker's part of a job. Between launches that are worker 0's alone nobody waits. */
static void run_job(Pool *pool, const Job *job, uint32_t worker) {
    const Launch *before = NULL;
    for (uint64_t done = 0; done < job->times; done++)
        for (size_t i = 0; i < job->count; i++) {
            const Launch *launch = &job->launches[i];
            if (before && (launch->parts > 1 || before->parts > 1)) meet(pool, job->workers);
            if (worker < launch->parts) run_share(launch, worker, launch->parts);
            before = launch;
        }
}

static void announce(Pool *pool, Job job) {
    pool->job = job;
    atomic_store_explicit(&pool->pending, job.workers - 1, memory_order_relaxed);
    for (uint32_t i = 1; i < job.workers; i++) {
        Worker *worker = &pool->workers[i];
        unsigned serial = atomic_load_explicit(&worker->serial, memory_order_relaxed);
        atomic_store(&worker->serial, serial + 1);
        if (!atomic_load(&worker->sleeps)) continue;
        pthread_mutex_lock(&worker->lock);
        pthread_cond_signal(&worker->announced);
        pthread_mutex_unlock(&worker->lock);
    }
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
    Worker *worker = argument;
    Pool *pool = worker->pool;
    float_write(FLOAT_DEFAULT);
    for (unsigned serial = 0;; serial++) {
        wait_announcement(worker, serial);
        if (!pool->job.count) return NULL;
        run_job(pool, &pool->job, worker->index);
        finish(pool);
    }
}

static void close_worker(Worker *worker) {
    pthread_cond_destroy(&worker->announced);
    pthread_mutex_destroy(&worker->lock);
}

/* Fewer threads than asked for are no failure: the results are the same. */
static void start_threads(Pool *pool, uint32_t threads) {
    sigset_t all, before;
    sigfillset(&all); /* the program's signal handlers run on the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 1; i < threads; i++) {
        Worker *worker = &pool->workers[i];
        *worker = (Worker){.pool = pool, .index = i};
        pthread_mutex_init(&worker->lock, NULL);
        pthread_cond_init(&worker->announced, NULL);
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            close_worker(worker);
            break;
        }
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
    pool->workers = aligned_alloc(_Alignof(Worker), threads * sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->finished, NULL);
    pthread_cond_init(&pool->passed, NULL);
    start_threads(pool, threads);
    return pool;
}

uint32_t pool_threads(const Pool *pool) {
    return pool->threads;
}

void pool_run(Pool *pool, const Launch *launches, size_t count, uint64_t times) {
    FloatControl before = float_read();
    float_write(FLOAT_DEFAULT);
    size_t first = 0, last = count; /* what needs more than the caller */
    while (first < count && launches[first].parts <= 1) first++;
    while (last > first && launches[last - 1].parts <= 1) last--;
    const bool alone = first == last;
    if (times > 1 && !alone) first = 0, last = count; /* the replays are one job */
    if (alone) last = first = count;
    for (uint64_t done = 0; done < (alone ? times : 1); done++)
        for (size_t i = 0; i < first; i++) run_share(&launches[i], 0, 1);
    if (first < last) {
        Job job = {.launches = launches + first, .count = last - first, .times = times};
        for (size_t i = first; i < last; i++)
            if (launches[i].parts > job.workers) job.workers = launches[i].parts;
        announce(pool, job);
        run_job(pool, &job, 0);
        wait_finished(pool);
    }
    for (size_t i = last; i < count; i++) run_share(&launches[i], 0, 1);
    float_write(before);
}

void pool_destroy(Pool *pool) {
    announce(pool, (Job){.workers = pool->threads});
    for (uint32_t i = 1; i < pool->threads; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        close_worker(&pool->workers[i]);
    }
    pthread_cond_destroy(&pool->passed);
    pthread_cond_destroy(&pool->finished);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}
