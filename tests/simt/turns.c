/* turns.c: the scheduler of the emulator.
 *
 * Blocks run one after another, in random order; of a cooperative launch, and where memory is weak,
 * a random one gets the next turn. In a block a random group of 32 lanes that can go on gets a
 * turn: each of its lanes, in random order, runs until it waits. Lanes that wait for their group go
 * on when all 32 wait at the same place; threads that wait for the block, when all of it does. A
 * lane that pauses goes on at its next turn: it looks for what another thread will write, and when
 * for long nobody has done anything but pause, that will never come. */
#include "turns.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const state_words[STATE_COUNT] = {"can go on",
                                                     "pauses",
                                                     "waits for the block",
                                                     "waits for its group",
                                                     "exchanges with its group",
                                                     "touches device memory",
                                                     "has returned"};

uint32_t run_random_below(Run *run, uint32_t bound) {
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return (uint32_t)((run->random >> 32) * bound >> 32);
}

void run_shuffle(Run *run, uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) numbers[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = run_random_below(run, i), kept = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = kept;
    }
}

void run_fail(Run *run, const char *format, ...) {
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
        run_fail(run, "threads %u and %u both: %s, but at different places in the code", a, b,
                 state_words[state]);
    else
        run_fail(run, "thread %u %s while thread %u %s", a, state_words[state], b,
                 state_words[run->threads[b].state]);
}

/* All lanes of a group have had their turn. True when they can go on. */
static bool group_meets(Run *run, uint32_t first, uint32_t last) {
    State state = run->threads[first].state;
    for (uint32_t i = first; i < last; i++)
        if (run->threads[i].state == PAUSED || run->threads[i].state == READY) return true;
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
    run_shuffle(run, order, last - first);
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
    const bool seen = !machine->watched || run->launch->memory == SIMT_ONLY_WEAK;
    for (long i = 0; seen && i < machine->shared_end - machine->shared_begin; i++)
        block->shared[i] = (unsigned char)run_random_below(run, 256);
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
    uint32_t chosen = run_random_below(run, block->open_count);
    if (!run_group(run, block->open[chosen]))
        block->open[chosen] = block->open[--block->open_count];
    return !run->failed;
}

/* Blocks of `order`, as many at a time as have room. */
void run_blocks(Run *run, const uint32_t *order, uint32_t room) {
    const uint32_t blocks = run->launch->blocks,
                   groups = (run->launch->threads + LANES - 1) / LANES;
    for (uint32_t first = 0; first < blocks && !run->failed; first += room) {
        uint32_t left = blocks - first < room ? blocks - first : room;
        for (uint32_t i = 0; i < left; i++) start_block(run, &run->blocks[i], order[first + i]);
        while (left > 0 && !run->failed) {
            uint32_t chosen = run_random_below(run, left);
            enter_block(run, &run->blocks[chosen]);
            bool goes_on = true;
            do goes_on = run_turn(run);
            while (goes_on && left == 1 && run->pauses == 0);
            leave_block(run);
            if (run->pauses > (uint64_t)PAUSES_MAX * left * groups)
                run_fail(run, "thread %u looks for what no other thread will write", run->running);
            if (goes_on) continue;
            const Block done = run->blocks[chosen];
            run->blocks[chosen] = run->blocks[--left];
            run->blocks[left] = done;
        }
    }
}

/* ---- all turns ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* What thread i has seen of the counter that it looks at. */
static uint64_t hash_look(const Run *run, uint32_t i) {
    const Thread *thread = &run->all_threads[i];
    const WatchAccess look = {.address = thread->counter,
                              .bytes = thread->bytes,
                              .block = i / run->launch->threads,
                              .thread = i % run->launch->threads,
                              .shared = run->machine->shared_begin};
    return mix((uint64_t)(uintptr_t)thread->counter, weak_younger(run->weak, &look, thread->seen));
}

/* What follows from here on is the same for equal ones. */
static uint64_t hash_state(const Run *run) {
    uint64_t hash = mix(watch_hash(run->watch), weak_hash(run->weak));
    for (uint32_t i = 0; i < run->launch->blocks * run->launch->threads; i++) {
        const Thread *thread = &run->all_threads[i];
        const uint64_t looks =
            thread->counter ? 2u * thread->stale + (thread->changes == run->changes) : 0;
        if (thread->counter) hash = mix(hash, hash_look(run, i));
        hash = mix(hash, thread->history);
        hash = mix(hash, (uint64_t)(uintptr_t)thread->place);
        hash = mix(hash, (uint64_t)thread->state << 2 | looks);
    }
    return hash;
}

/* Whether what a thread does next can be seen elsewhere; all else it does at once. */
static bool can_step(const Run *run, const Thread *thread) {
    return thread->state == AT_ACCESS ||
           (thread->state == PAUSED && (thread->stale || thread->changes != run->changes));
}

/* The threads of the block go on as far as nobody else sees anything of it. */
static void settle_block(Run *run, Block *block) {
    const uint32_t threads = run->launch->threads;
    bool goes_on = true;
    enter_block(run, block);
    while (goes_on && !run->failed) {
        goes_on = false;
        bool waits = true; /* none of them can step */
        for (uint32_t i = 0; i < threads && !run->failed; i++) {
            Thread *thread = &run->threads[i];
            if (thread->state == READY) {
                run->running = i;
                run->machine->thread.x = i;
                fiber_enter(run->fibers, block->first_fiber + i);
            }
            waits &= thread->state != AT_ACCESS && thread->state != PAUSED;
        }
        for (uint32_t first = 0; first < threads && !run->failed; first += LANES) {
            const uint32_t last = first + LANES < threads ? first + LANES : threads;
            bool all = true;
            for (uint32_t i = first; i < last; i++)
                all &= run->threads[i].state != AT_ACCESS && run->threads[i].state != PAUSED;
            goes_on |= all && group_meets(run, first, last);
        }
        if (!goes_on && waits && !run->failed) goes_on = block_meets(run);
    }
    leave_block(run);
}

static bool have_returned(const Run *run) {
    for (uint32_t i = 0; i < run->launch->blocks * run->launch->threads; i++)
        if (run->all_threads[i].state != RETURNED) return false;
    return true;
}

void run_explored(Run *run) {
    const uint32_t blocks = run->launch->blocks, threads = run->launch->threads;
    for (uint32_t b = 0; b < blocks; b++) start_block(run, &run->blocks[b], b);
    for (;;) {
        uint32_t steps[EXPLORE_THREADS], count = 0;
        for (uint32_t b = 0; b < blocks && !run->failed; b++) settle_block(run, &run->blocks[b]);
        if (run->failed || have_returned(run)) return;
        for (uint32_t i = 0; i < blocks * threads && count < EXPLORE_THREADS; i++)
            if (can_step(run, &run->all_threads[i])) steps[count++] = i;
        if (count == 0) {
            run_fail(run, "thread %u looks for what no other thread will write", run->running);
            return;
        }
        if (!explorer_enter(run->explorer, hash_state(run))) return;
        const uint32_t step = steps[explorer_choose(run->explorer, count)];
        Block *block = &run->blocks[step / threads];
        enter_block(run, block);
        run->running = step % threads;
        run->machine->thread.x = run->running;
        run->all_threads[step].state = READY;
        fiber_enter(run->fibers, block->first_fiber + run->running);
        leave_block(run);
    }
}
