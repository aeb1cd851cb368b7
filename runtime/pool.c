/* pool.c: the CPU driver's threads. A job is the launches of a step, a graph or a series of
 * replays, in order; a launch has parts, at most one per thread.
 *
 * A part is taken, not given: every thread takes its own first, so that it meets what lies in its
 * caches, and then what the others have not begun. So a launch ends as soon as those who run can
 * end it, also where a thread sleeps or other code of the process (an OpenMP team that spins on
 * after its loop) holds its core. Whoever ends a launch's last part announces the next launch.
 *
 * `now` is the launch under way: a serial number that no other launch has, and its parts, 0 between
 * jobs. A part is taken by writing the serial into its `taken`. That cannot succeed once the launch
 * is over, since then each part is taken with this serial or a later one; so the job is read, and
 * changed, only by threads that have a part of it. A thread without work spins for longer than it
 * takes to wake one, 50 microseconds where the processor is a virtual one, and then sleeps. `now`
 * and the flag of a sleeper are sequentially consistent: either the announcer sees the flag or the
 * sleeper the launch. What has one part is the caller's: host functions run on the thread that
 * launched them.
 *
 * Kernels run with the default floating-point environment, whatever the program around
 * them (or a library built with -ffast-math) has set; the program's own work runs with that of the
 * thread that launched it. */
#include "runtime.h"

#include <pthread.h>
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
    /* Of part `index`: the serial of the launch it was last taken of. */
    _Alignas(CACHE_LINE) _Atomic uint64_t taken;
    atomic_bool sleeps;
    uint32_t index; /* 0: whoever called pool_run */
    Pool *pool;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} Worker;

/* In one word: 48 bits of serial, which last for years, and 16 of parts. */
typedef struct Now {
    uint64_t serial;
    uint32_t parts;
} Now;
enum { PART_BITS = 16, NOTHING = 0, STOP = (1 << PART_BITS) - 1, THREADS_MAX = STOP - 1 };

struct Pool {
    uint32_t threads, started; /* the caller too; those to be joined are behind it */
    Origin origin;
    Worker *workers;
    /* The job: its launches, that many times, and which is under way. */
    const Launch *launches;
    size_t count, at;
    uint64_t times;
    const volatile unsigned char *stop; /* not 0: no more rounds; NULL: as many as asked for */
    FloatControl callers;               /* of the thread that runs the job */
    _Alignas(CACHE_LINE) _Atomic uint64_t now; /* a Now */
    _Alignas(CACHE_LINE) atomic_uint done;     /* parts of it that have ended */
};

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A contiguous share of the items for each worker. */
static void run_partition(const Launch *launch, uint32_t worker, uint32_t workers) {
    if (workers <= 1) {
        launch->kernel.cpu(launch->arguments, 0, launch->items, 0, 1);
        return;
    }
    uint64_t share = launch->items / workers, rest = launch->items % workers;
    uint64_t first = share * worker + (worker < rest ? worker : rest);
    uint64_t last = first + share + (worker < rest);
    launch->kernel.cpu(launch->arguments, first, last, worker, workers);
}

/* The program's own work with the program's own floating-point control. */
static void run_share(const Pool *pool, const Launch *launch, uint32_t worker, uint32_t workers) {
    if (launch->host) float_write(pool->callers);
    run_partition(launch, worker, workers);
    if (launch->host) float_write(FLOAT_DEFAULT);
}

static Now now_of(uint64_t word) {
    return (Now){.serial = word >> PART_BITS, .parts = (uint32_t)word & STOP};
}

/* What is under way from here on, and wakes those who are wanted for it. */
static void announce(Pool *pool, uint64_t serial, uint32_t parts) {
    atomic_store(&pool->now, serial << PART_BITS | parts);
    const uint32_t wanted = parts == NOTHING ? 1 : parts < pool->threads ? parts : pool->threads;
    for (uint32_t i = 0; i < wanted; i++) {
        Worker *worker = &pool->workers[i];
        if (!atomic_load(&worker->sleeps)) continue;
        pthread_mutex_lock(&worker->lock);
        pthread_cond_signal(&worker->wake);
        pthread_mutex_unlock(&worker->lock);
    }
}

/* Whether the part is this thread's now. */
static bool take(Worker *part, uint64_t serial) {
    uint64_t taken = atomic_load_explicit(&part->taken, memory_order_relaxed);
    return taken < serial &&
           atomic_compare_exchange_strong_explicit(&part->taken, &taken, serial,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* After a launch of the job: the next one, or nothing. `caller`: what has one part is run here. */
static void go_on(Pool *pool, uint64_t serial, bool caller) {
    for (;;) {
        if (++pool->at == pool->count) {
            pool->at = 0;
            if (--pool->times == 0 || (pool->stop && *pool->stop)) break;
        }
        const Launch *launch = &pool->launches[pool->at];
        if (launch->parts > 1 || !caller) {
            atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
            announce(pool, serial + 1, launch->parts > 1 ? launch->parts : 1);
            return;
        }
        run_share(pool, launch, 0, 1);
    }
    if (now_of(atomic_load_explicit(&pool->now, memory_order_relaxed)).parts != NOTHING)
        announce(pool, serial + 1, NOTHING);
}

/* Runs a part that was taken. */
static void run_part(Pool *pool, Now now, uint32_t part, bool caller) {
    run_share(pool, &pool->launches[pool->at], part, now.parts);
    if (atomic_fetch_add_explicit(&pool->done, 1, memory_order_acq_rel) + 1 == now.parts)
        go_on(pool, now.serial, caller);
}

/* Takes and runs one part of the launch, the worker's own first; false when none is left. */
static bool help(Worker *worker, Now now) {
    Pool *pool = worker->pool;
    const bool caller = worker->index == 0;
    if (now.parts == 1 && !caller) return false;
    for (uint32_t i = 0, part = worker->index; i < pool->threads; i++, part++) {
        if (part >= pool->threads) part = 0;
        if (part >= now.parts || !take(&pool->workers[part], now.serial)) continue;
        run_part(pool, now, part, caller);
        return true;
    }
    return false;
}

/* Waits until something else is under way than `seen`. */
static void wait_change(Worker *worker, uint64_t seen) {
    Pool *pool = worker->pool;
    uint64_t limit = nanoseconds() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < RELAX_PER_LOOK; i++) {
            if (atomic_load_explicit(&pool->now, memory_order_relaxed) != seen) return;
            relax();
        }
    } while (nanoseconds() < limit);
    pthread_mutex_lock(&worker->lock);
    atomic_store(&worker->sleeps, true);
    while (atomic_load(&pool->now) == seen) pthread_cond_wait(&worker->wake, &worker->lock);
    atomic_store(&worker->sleeps, false);
    pthread_mutex_unlock(&worker->lock);
}

static void *work(void *argument) {
    Worker *worker = argument;
    float_write(FLOAT_DEFAULT);
    for (;;) {
        const uint64_t word = atomic_load_explicit(&worker->pool->now, memory_order_acquire);
        const Now now = now_of(word);
        if (now.parts == STOP) return NULL;
        if (now.parts == NOTHING || !help(worker, now)) wait_change(worker, word);
    }
}

static void open_worker(Pool *pool, uint32_t index) {
    Worker *worker = &pool->workers[index];
    *worker = (Worker){.pool = pool, .index = index};
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
}

static void close_worker(Worker *worker) {
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
}

/* Fewer threads than asked for are no failure: the results are the same. */
static void start_threads(Pool *pool, uint32_t threads) {
    for (uint32_t i = 1; i < threads; i++) {
        Worker *worker = &pool->workers[i];
        open_worker(pool, i);
        if (thread_start(&worker->thread, work, worker) != 0) {
            close_worker(worker);
            break;
        }
        char name[16];
        snprintf(name, sizeof name, "lockstep-%u", i & 0xffff);
        pthread_setname_np(worker->thread, name);
        pool->threads = pool->started = i + 1;
    }
}

Pool *pool_create(uint32_t threads) {
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    Pool *pool = aligned_alloc(_Alignof(Pool), sizeof *pool);
    if (!pool) return NULL;
    *pool = (Pool){.threads = 1, .started = 1};
    pool->workers = aligned_alloc(_Alignof(Worker), threads * sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    origin_open(&pool->origin);
    open_worker(pool, 0);
    start_threads(pool, threads);
    return pool;
}

/* In a child: the threads are not there, and their locks as they were at that moment. */
static void adopt(Pool *pool) {
    const uint64_t serial = now_of(atomic_load(&pool->now)).serial;
    for (uint32_t i = 0; i < pool->threads; i++) {
        Worker *worker = &pool->workers[i];
        atomic_store(&worker->sleeps, false);
        pthread_mutex_init(&worker->lock, NULL);
        pthread_cond_init(&worker->wake, NULL);
    }
    atomic_store(&pool->now, (serial + 1) << PART_BITS | NOTHING);
    pool->started = 1;
    origin_renew(&pool->origin);
}

uint32_t pool_threads(const Pool *pool) {
    return pool->threads;
}

uint64_t pool_run(Pool *pool, const Launch *launches, size_t count, uint64_t times,
                  const void *stop) {
    if (count == 0) return stop && *(const unsigned char *)stop ? 0 : times;
    if (origin_forked(&pool->origin)) adopt(pool);
    FloatControl before = float_read();
    float_write(FLOAT_DEFAULT);
    Worker *caller = &pool->workers[0];
    const uint64_t serial = now_of(atomic_load_explicit(&pool->now, memory_order_relaxed)).serial;
    pool->launches = launches;
    pool->count = count;
    pool->times = times;
    pool->stop = stop;
    pool->callers = before;
    pool->at = SIZE_MAX; /* before the first */
    if (count > 0 && times > 0 && !(stop && *pool->stop)) go_on(pool, serial, true);
    for (;;) {
        const uint64_t word = atomic_load_explicit(&pool->now, memory_order_acquire);
        const Now now = now_of(word);
        if (now.parts == NOTHING) break;
        if (!help(caller, now)) wait_change(caller, word);
    }
    float_write(before);
    return times - pool->times;
}

void pool_destroy(Pool *pool) {
    if (origin_forked(&pool->origin)) adopt(pool);
    announce(pool, now_of(atomic_load(&pool->now)).serial + 1, STOP);
    for (uint32_t i = 1; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    for (uint32_t i = 0; i < pool->threads; i++) close_worker(&pool->workers[i]);
    origin_close(&pool->origin);
    free(pool->workers);
    free(pool);
}
