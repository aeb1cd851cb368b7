/* launch.c: the scheduler of the emulator.
 *
 * Blocks run one after another, in random order. In a block a random group of 32 lanes that can go
 * on gets a turn: each of its lanes, in random order, runs until it waits. Lanes that wait for
 * their group go on when all 32 wait at the same place; threads that wait for the block, when all
 * of it does. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fiber.h"
#include "simt_parts.h"

enum { LANES = 32 };

typedef enum State { READY, AT_BARRIER, AT_GROUP, AT_EXCHANGE, RETURNED, STATE_COUNT } State;
static const char *const state_words[STATE_COUNT] = {"can go on", "waits for the block",
                                                     "waits for its group",
                                                     "exchanges with its group", "has returned"};

typedef struct Thread {
    State state;
    const void *place;        /* where it waits */
    unsigned long long given; /* what it leaves at an exchange */
    unsigned long long shown; /* what it left at the last one that all reached */
} Thread;

typedef struct Run {
    const SimtLaunch *launch;
    SimtMachine *machine;
    SimtEntry entry;
    Fibers *fibers;
    Thread *threads;
    uint32_t running; /* thread whose turn it is */
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
static void stop(const char *why) {
    Run *run = current;
    fail(run, "thread %u: %s", run->running, why);
    for (;;) fiber_leave(run->fibers);
}
static unsigned long long exchange(unsigned long long value, unsigned lane, const void *place) {
    Run *run = current;
    uint32_t self = run->running, other = self / LANES * LANES + lane;
    if (other >= run->launch->threads) stop("it asks for a lane that the block does not have");
    run->threads[self].given = value;
    wait_in(AT_EXCHANGE, place);
    return run->threads[other].shown;
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
    uint32_t other = stranger(run, first, last);
    if (other < last) {
        report_strangers(run, first, other);
        return false;
    }
    if (state == AT_BARRIER || state == RETURNED) return false;
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
    for (uint32_t i = 0; i < threads; i++) run->threads[i].state = READY;
    return true;
}

/* ---- turns ---- */

static bool run_group(Run *run, uint32_t group) {
    uint32_t first = group * LANES, last = first + LANES, order[LANES];
    if (last > run->launch->threads) last = run->launch->threads;
    shuffle(run, order, last - first);
    for (uint32_t i = 0; i < last - first && !run->failed; i++) {
        run->running = first + order[i];
        run->machine->thread.x = run->running;
        fiber_enter(run->fibers, run->running);
    }
    return !run->failed && group_meets(run, first, last);
}

static void run_block(Run *run, uint32_t block) {
    uint32_t groups = (run->launch->threads + LANES - 1) / LANES, open[1024 / LANES];
    run->machine->block.x = block;
    for (unsigned char *byte = run->machine->shared_begin; byte < run->machine->shared_end; byte++)
        *byte = (unsigned char)random_below(run, 256);
    for (uint32_t i = 0; i < run->launch->threads; i++) {
        memset(&run->threads[i], 0, sizeof run->threads[i]);
        fiber_start(run->fibers, i, run_thread, run);
    }
    do {
        uint32_t open_count = groups;
        for (uint32_t i = 0; i < groups; i++) open[i] = i;
        while (open_count && !run->failed) {
            uint32_t chosen = random_below(run, open_count);
            if (!run_group(run, open[chosen])) open[chosen] = open[--open_count];
        }
    } while (block_meets(run));
}

static bool launch_is_legal(const SimtLaunch *launch, char *message, size_t message_size) {
    if (launch->blocks && launch->threads && launch->threads <= 1024 &&
        (launch->wave == 32 || launch->wave == 64))
        return true;
    snprintf(message, message_size,
             "%s: cannot launch %u blocks of %u threads with waves of %u: expected at least one "
             "block, 1 "
             "to 1024 threads, waves of 32 or 64",
             launch->kernel, launch->blocks, launch->threads, launch->wave);
    return false;
}

bool simt_launch(SimtModule *module, const SimtLaunch *launch, char *message, size_t message_size) {
    Run run = {.launch = launch, .machine = module->machine, .message = message};
    run.message_size = message_size;
    run.random = launch->seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
    if (run.random == 0) run.random = 1;
    if (!launch_is_legal(launch, message, message_size)) return false;
    run.entry = simt_entry(module, launch->kernel);
    if (!run.entry) {
        snprintf(message, message_size, "the text has no kernel %s", launch->kernel);
        return false;
    }
    run.fibers = fibers_open(launch->threads);
    run.threads = calloc(launch->threads, sizeof *run.threads);
    uint32_t *order = calloc(launch->blocks, sizeof *order);
    bool good = run.fibers && run.threads && order;
    if (good) {
        SimtMachine *machine = module->machine;
        machine->thread = machine->block = (SimtIndex){0, 0, 0};
        machine->threads = (SimtIndex){launch->threads, 1, 1};
        machine->blocks = (SimtIndex){launch->blocks, 1, 1};
        machine->wave = launch->wave;
        machine->barrier = wait_barrier;
        machine->group_sync = wait_group;
        machine->exchange = exchange;
        machine->fail = stop;
        current = &run;
        shuffle(&run, order, launch->blocks);
        for (uint32_t i = 0; i < launch->blocks && !run.failed; i++) run_block(&run, order[i]);
        current = NULL;
        good = !run.failed;
    } else {
        snprintf(message, message_size, "%s: out of memory", launch->kernel);
    }
    free(order);
    free(run.threads);
    fibers_close(run.fibers);
    return good;
}
