/* launch.c: the scheduler of the emulator.
 *
 * Blocks run one after another, in random order; of a cooperative launch a random one gets the next
 * turn. In a block a random group of 32 lanes that can go on gets a turn: each of its lanes, in
 * random order, runs until it waits. Lanes that wait for their group go on when all 32 wait at the
 * same place; threads that wait for the block, when all of it does. A lane that pauses goes on at
 * its next turn: it looks for what another thread will write, and when for long nobody has done
 * anything but pause, that will never come. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/amd.h"
#include "fiber.h"
#include "simt_parts.h"
#include "watch.h"

enum { LANES = 32, THREADS_MAX = 1024, PAUSES_MAX = 200 };

typedef enum State {
    READY,
    PAUSED,
    AT_BARRIER,
    AT_GROUP,
    AT_EXCHANGE,
    RETURNED,
    STATE_COUNT
} State;
static const char *const state_words[STATE_COUNT] = {"can go on",
                                                     "pauses",
                                                     "waits for the block",
                                                     "waits for its group",
                                                     "exchanges with its group",
                                                     "has returned"};

typedef struct Thread {
    State state;
    int released, owed;       /* how far its last fence released; its next one must acquire */
    const void *place;        /* where it waits */
    unsigned long long given; /* what it leaves at an exchange */
    unsigned long long shown; /* what it left at the last one that all reached */
} Thread;

typedef struct Block {
    uint32_t number, first_fiber;
    Thread *threads;
    unsigned char *shared; /* its shared memory while it is not the block whose turn it is */
    uint32_t open[THREADS_MAX / LANES], open_count; /* groups that can go on */
} Block;

typedef struct Run {
    const SimtLaunch *launch;
    SimtMachine *machine;
    SimtEntry entry;
    Fibers *fibers;
    Watch *watch;
    size_t shared_first, shared_last; /* what of it this launch has touched */
    Thread *all_threads;              /* of all blocks there are */
    unsigned char *all_shared;
    Block *blocks;
    Thread *threads; /* those of the block whose turn it is */
    Block *block;
    uint32_t running; /* thread whose turn it is */
    uint64_t pauses;  /* turns in a row that were nothing but looks */
    uint64_t random;
    bool failed;
    char *message;
    size_t message_size;
} Run;

/* The kernel's library calls back without a context. */
static Run *current;

static uint32_t random_below(Run *run, uint32_t bound) {
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return (uint32_t)((run->random >> 32) * bound >> 32);
}

static void shuffle(Run *run, uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) numbers[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = random_below(run, i), kept = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = kept;
    }
}

__attribute__((format(printf, 2, 3))) static void fail(Run *run, const char *format, ...) {
    va_list arguments;
    if (run->failed) return;
    run->failed = true;
    int used = snprintf(run->message, run->message_size, "%s, block %u: ", run->launch->kernel,
                        run->machine->block.x);
    if (used < 0 || (size_t)used >= run->message_size) return;
    va_start(arguments, format);
    vsnprintf(run->message + used, run->message_size - (size_t)used, format, arguments);
    va_end(arguments);
}

/* ---- called by the running thread ---- */

static bool acquires(int order) {
    return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}
static bool releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void stop(const char *why) {
    Run *run = current;
    fail(run, "thread %u: %s", run->running, why);
    for (;;) fiber_leave(run->fibers);
}
static void wait_in(State state, const void *place) {
    Run *run = current;
    Thread *thread = &run->threads[run->running];
    thread->state = state;
    thread->place = place;
    fiber_leave(run->fibers);
}
static void wait_barrier(const void *place) {
    wait_in(AT_BARRIER, place);
}
static void wait_group(const void *place) {
    wait_in(AT_GROUP, place);
}
/* A wait among others who may touch the same memory, which it does not order: what the thread did
 * before must be released and what it does next must be acquired, as far as the waiters are. */
static void bare_wait(const void *place, int scope) {
    Thread *thread = &current->threads[current->running];
    if (thread->released < scope) stop("it comes to a barrier without a fence that releases");
    wait_in(scope == SIMT_WAVE ? AT_GROUP : AT_BARRIER, place);
    thread->owed = scope;
}
static void pause_here(const void *place) {
    wait_in(PAUSED, place);
}
static unsigned long long exchange(unsigned long long value, unsigned lane, const void *place) {
    Run *run = current;
    uint32_t self = run->running, other = self / LANES * LANES + lane;
    if (other >= run->launch->threads) stop("it asks for a lane that the block does not have");
    run->threads[self].given = value;
    wait_in(AT_EXCHANGE, place);
    return run->threads[other].shown;
}
static void access(const void *address, unsigned long bytes, int writes) {
    Run *run = current;
    if (!run || fibers_own(run->fibers, address)) return;
    if ((uintptr_t)address - (uintptr_t)run->machine < sizeof *run->machine) return;
    Thread *thread = &run->threads[run->running];
    thread->released = 0;
    if (thread->owed) stop("it goes on behind a barrier without a fence that acquires");
    const WatchAccess what = {.address = address,
                              .bytes = bytes,
                              .writes = writes != 0,
                              .block = run->block->number,
                              .thread = run->running,
                              .shared = run->machine->shared_begin};
    const size_t at = (size_t)((uintptr_t)address - (uintptr_t)what.shared);
    if (at < (size_t)(run->machine->shared_end - run->machine->shared_begin)) {
        if (at < run->shared_first) run->shared_first = at;
        if (at + bytes > run->shared_last) run->shared_last = at + bytes;
    }
    const char *wrong = watch_access(run->watch, &what);
    if (!wrong && run->launch->touch) wrong = run->launch->touch(address, bytes, writes != 0);
    if (wrong) stop(wrong);
}
static void atomic(const void *counter, int adds, int order, int scope) {
    Run *run = current;
    const WatchAtomic what = {.counter = counter,
                              .adds = adds != 0,
                              .block = run->block->number,
                              .group = run->running / LANES,
                              .device = scope >= SIMT_DEVICE,
                              .acquires = acquires(order),
                              .releases = releases(order)};
    const char *wrong = watch_atomic(run->watch, &what);
    if (wrong) stop(wrong);
}
static void look(const void *address, unsigned long bytes) {
    if (current && watch_counts(current->watch, address))
        atomic(address, 0, __ATOMIC_RELAXED, SIMT_SYSTEM);
    else
        access(address, bytes, 0);
}
static void fence(int order, int scope) {
    Run *run = current;
    Thread *thread = &run->threads[run->running];
    if (releases(order) && scope > thread->released) thread->released = scope;
    if (acquires(order) && scope >= thread->owed) thread->owed = 0;
    if (scope >= SIMT_DEVICE)
        watch_fence(run->watch, run->block->number, run->running / LANES, acquires(order),
                    releases(order));
}
static void run_thread(void *data) {
    Run *run = data;
    run->entry(run->launch->arguments);
    wait_in(RETURNED, NULL);
}

/* ---- meetings ---- */

/* The first thread of [first, last) that is not in the state, or not at the place, of thread
 * `first`. */
static uint32_t stranger(const Run *run, uint32_t first, uint32_t last) {
    const Thread *leader = &run->threads[first];
    for (uint32_t i = first; i < last; i++)
        if (run->threads[i].state != leader->state || run->threads[i].place != leader->place)
            return i;
    return last;
}

static void report_strangers(Run *run, uint32_t a, uint32_t b) {
    State state = run->threads[a].state;
    if (state == run->threads[b].state)
        fail(run, "threads %u and %u both: %s, but at different places in the code", a, b,
             state_words[state]);
    else
        fail(run, "thread %u %s while thread %u %s", a, state_words[state], b,
             state_words[run->threads[b].state]);
}

/* All lanes of a group have had their turn. True when they can go on. */
static bool group_meets(Run *run, uint32_t first, uint32_t last) {
    State state = run->threads[first].state;
    for (uint32_t i = first; i < last; i++)
        if (run->threads[i].state == PAUSED) return true;
    uint32_t other = stranger(run, first, last);
    if (other < last) {
        report_strangers(run, first, other);
        return false;
    }
    if (state == AT_BARRIER || state == RETURNED) return false;
    watch_group_meets(run->watch, run->block->number, first / LANES, state == AT_GROUP);
    for (uint32_t i = first; i < last; i++) {
        run->threads[i].shown = run->threads[i].given;
        run->threads[i].state = READY;
    }
    return true;
}

/* No group can go on. True when the whole block waits for itself, and then it goes on. */
static bool block_meets(Run *run) {
    uint32_t threads = run->launch->threads, other = stranger(run, 0, threads);
    if (run->failed) return false;
    if (other < threads) {
        report_strangers(run, 0, other);
        return false;
    }
    if (run->threads[0].state == RETURNED) return false;
    watch_block_meets(run->watch, run->block->number);
    for (uint32_t i = 0; i < threads; i++) run->threads[i].state = READY;
    return true;
}

/* ---- turns ---- */

static bool run_group(Run *run, uint32_t group) {
    uint32_t first = group * LANES, last = first + LANES, order[LANES];
    bool looks = true;
    if (last > run->launch->threads) last = run->launch->threads;
    shuffle(run, order, last - first);
    for (uint32_t i = 0; i < last - first && !run->failed; i++) {
        Thread *thread = &run->threads[first + order[i]];
        const State before = thread->state;
        if (before != READY && before != PAUSED) continue;
        run->running = first + order[i];
        run->machine->thread.x = run->running;
        fiber_enter(run->fibers, run->block->first_fiber + run->running);
        looks &= before == PAUSED && thread->state == PAUSED;
    }
    run->pauses = looks ? run->pauses + 1 : 0;
    return !run->failed && group_meets(run, first, last);
}

static void open_groups(Run *run) {
    Block *block = run->block;
    block->open_count = (run->launch->threads + LANES - 1) / LANES;
    for (uint32_t i = 0; i < block->open_count; i++) block->open[i] = i;
}

static void start_block(Run *run, Block *block, uint32_t number) {
    const SimtMachine *machine = run->machine;
    block->number = number;
    watch_block(run->watch, number, machine->shared_begin,
                (size_t)(machine->shared_end - machine->shared_begin));
    /* where it is watched, nobody sees what it holds at first */
    for (long i = 0; !machine->watched && i < machine->shared_end - machine->shared_begin; i++)
        block->shared[i] = (unsigned char)random_below(run, 256);
    for (uint32_t i = 0; i < run->launch->threads; i++) {
        memset(&block->threads[i], 0, sizeof block->threads[i]);
        fiber_start(run->fibers, block->first_fiber + i, run_thread, run);
    }
    run->block = block;
    open_groups(run);
}

static void enter_block(Run *run, Block *block) {
    const SimtMachine *machine = run->machine;
    run->block = block;
    run->threads = block->threads;
    run->machine->block.x = block->number;
    if (run->shared_first >= run->shared_last) return;
    memcpy(machine->shared_begin + run->shared_first, block->shared + run->shared_first,
           run->shared_last - run->shared_first);
}

static void leave_block(Run *run) {
    const SimtMachine *machine = run->machine;
    if (run->shared_first >= run->shared_last) return;
    memcpy(run->block->shared + run->shared_first, machine->shared_begin + run->shared_first,
           run->shared_last - run->shared_first);
}

/* One turn of the block; false when it is done, or nobody can go on. */
static bool run_turn(Run *run) {
    Block *block = run->block;
    if (block->open_count == 0) {
        if (!block_meets(run)) return false;
        open_groups(run);
    }
    uint32_t chosen = random_below(run, block->open_count);
    if (!run_group(run, block->open[chosen]))
        block->open[chosen] = block->open[--block->open_count];
    return !run->failed;
}

/* Blocks of `order`, as many at a time as have room. */
static void run_blocks(Run *run, const uint32_t *order, uint32_t room) {
    const uint32_t blocks = run->launch->blocks,
                   groups = (run->launch->threads + LANES - 1) / LANES;
    for (uint32_t first = 0; first < blocks && !run->failed; first += room) {
        uint32_t left = blocks - first < room ? blocks - first : room;
        for (uint32_t i = 0; i < left; i++) start_block(run, &run->blocks[i], order[first + i]);
        while (left > 0 && !run->failed) {
            uint32_t chosen = random_below(run, left);
            enter_block(run, &run->blocks[chosen]);
            bool goes_on = true;
            do goes_on = run_turn(run);
            while (goes_on && left == 1 && run->pauses == 0);
            leave_block(run);
            if (run->pauses > (uint64_t)PAUSES_MAX * left * groups)
                fail(run, "thread %u looks for what no other thread will write", run->running);
            if (goes_on) continue;
            const Block done = run->blocks[chosen];
            run->blocks[chosen] = run->blocks[--left];
            run->blocks[left] = done;
        }
    }
}

static bool launch_is_legal(const SimtModule *module, const SimtLaunch *launch, char *message,
                            size_t message_size) {
    const uint32_t most = simt_bound(module, launch->kernel);
    if (!launch->blocks || !launch->threads || launch->threads > THREADS_MAX ||
        (launch->wave != 32 && launch->wave != 64)) {
        snprintf(
            message, message_size,
            "%s: cannot launch %u blocks of %u threads with waves of %u: expected at least one "
            "block, 1 to 1024 threads, waves of 32 or 64",
            launch->kernel, launch->blocks, launch->threads, launch->wave);
        return false;
    }
    if (launch->threads <= most) return true;
    snprintf(message, message_size, "%s: blocks of %u threads, and it was compiled for at most %u",
             launch->kernel, launch->threads, most);
    return false;
}

static bool launch_threads(SimtModule *module, const SimtLaunch *launch, char *message,
                           size_t message_size) {
    Run run = {.launch = launch, .machine = module->machine, .message = message};
    run.message_size = message_size;
    run.random = launch->seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
    if (run.random == 0) run.random = 1;
    run.entry = simt_entry(module, launch->kernel);
    if (!run.entry) {
        snprintf(message, message_size, "the text has no kernel %s", launch->kernel);
        return false;
    }
    if (!launch_is_legal(module, launch, message, message_size)) return false;
    const uint32_t room = launch->cooperative ? launch->blocks : 1;
    const size_t fibers = (size_t)room * launch->threads;
    const size_t shared = (size_t)(module->machine->shared_end - module->machine->shared_begin);
    run.fibers = fibers_open(fibers);
    run.all_threads = calloc(fibers, sizeof *run.all_threads);
    run.all_shared = calloc(room, shared);
    run.blocks = calloc(room, sizeof *run.blocks);
    run.watch = watch_open(launch->blocks, (launch->threads + LANES - 1) / LANES,
                           module->machine->fences_alone);
    uint32_t *order = calloc(launch->blocks, sizeof *order);
    run.shared_first = module->machine->watched ? shared : 0;
    run.shared_last = module->machine->watched ? 0 : shared;
    bool good = run.fibers && run.watch && run.all_threads && run.all_shared && run.blocks && order;
    for (uint32_t i = 0; good && i < room; i++)
        run.blocks[i] = (Block){.first_fiber = i * launch->threads,
                                .threads = run.all_threads + (size_t)i * launch->threads,
                                .shared = run.all_shared + i * shared};
    if (good) {
        SimtMachine *machine = module->machine;
        machine->thread = machine->block = (SimtIndex){0, 0, 0};
        machine->threads = (SimtIndex){launch->threads, 1, 1};
        machine->blocks = (SimtIndex){launch->blocks, 1, 1};
        machine->wave = launch->wave;
        machine->barrier = wait_barrier;
        machine->group_sync = wait_group;
        machine->bare_wait = bare_wait;
        machine->pause = pause_here;
        machine->exchange = exchange;
        machine->fail = stop;
        machine->access = access;
        machine->look = look;
        machine->atomic = atomic;
        machine->fence = fence;
        current = &run;
        shuffle(&run, order, launch->blocks);
        run_blocks(&run, order, room);
        current = NULL;
        good = !run.failed;
    } else {
        snprintf(message, message_size, "%s: out of memory", launch->kernel);
    }
    free(order);
    watch_close(run.watch);
    free(run.blocks);
    free(run.all_shared);
    free(run.all_threads);
    fibers_close(run.fibers);
    return good;
}

bool simt_launch(SimtModule *module, const SimtLaunch *launch, char *message, size_t message_size) {
    return module->amd ? amd_launch(module->amd, launch, message, message_size)
                       : launch_threads(module, launch, message, message_size);
}
