/* launch.c: a launch, and what the thread whose turn it is calls; turns.c says whose that is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/amd.h"
#include "turns.h"

/* Where memory is weak a thread gives its turn away at one of so many accesses, and atomics. */
enum { YIELDS_AT_ACCESS = 64, YIELDS_AT_ATOMIC = 4, SIDE_BY_SIDE = 4 };

/* The kernel's library calls back without a context. */
static Run *current;

/* ---- called by the running thread ---- */

static bool acquires(int order) {
    return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}
static bool releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void stop(const char *why) {
    Run *run = current;
    run_fail(run, "thread %u: %s", run->running, why);
    for (;;) fiber_leave(run->fibers);
}
static void wait_in(State state, const void *place) {
    Run *run = current;
    Thread *thread = &run->threads[run->running];
    if (run->weak) weak_settle(run->weak);
    thread->state = state;
    thread->place = place;
    fiber_leave(run->fibers);
}
/* An exploration knows a thread by what it has read. */
static void remember(Run *run, const void *from, size_t bytes) {
    Thread *thread = &run->threads[run->running];
    const unsigned char *at = from;
    if (!run->explorer) return;
    for (size_t i = 0; i < bytes; i++)
        thread->history = (thread->history ^ at[i]) * 0x100000001b3u + (thread->history >> 47);
}
/* Ahead of what the thread does to memory: others may have a turn first. One of `often` times. */
static void come_to(Run *run, bool device, uint32_t often) {
    if (!run->weak) return;
    weak_settle(run->weak);
    if (run->explorer ? device : run_random_below(run, often) == 0)
        wait_in(run->explorer ? AT_ACCESS : READY, NULL);
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
    current->threads[current->running].changes = current->changes;
    wait_in(PAUSED, place);
}
static unsigned long long exchange(unsigned long long value, unsigned lane, const void *place) {
    Run *run = current;
    uint32_t self = run->running, other = self / LANES * LANES + lane;
    if (other >= run->launch->threads) stop("it asks for a lane that the block does not have");
    run->threads[self].given = value;
    wait_in(AT_EXCHANGE, place);
    remember(run, &run->threads[other].shown, sizeof run->threads[other].shown);
    return run->threads[other].shown;
}
static bool is_shared(const Run *run, const void *address) {
    const SimtMachine *machine = run->machine;
    return (uintptr_t)address - (uintptr_t)machine->shared_begin <
           (uintptr_t)machine->shared_end - (uintptr_t)machine->shared_begin;
}
static WatchAccess access_by(const Run *run, const void *address, unsigned long bytes, int writes) {
    return (WatchAccess){.address = address,
                         .bytes = bytes,
                         .writes = writes != 0,
                         .block = run->block->number,
                         .thread = run->running,
                         .shared = run->machine->shared_begin};
}
/* What memory is for the access, which comes next. */
static void show(Run *run, const WatchAccess *what) {
    if (!run->weak) return;
    remember(run, &what->address, sizeof what->address);
    if (what->writes) {
        weak_write(run->weak, what);
        run->changes++;
    } else {
        weak_read(run->weak, what, NULL);
        remember(run, what->address, what->bytes);
    }
}
static void access(const void *address, unsigned long bytes, int writes) {
    Run *run = current;
    if (!run || fibers_own(run->fibers, address)) return;
    if ((uintptr_t)address - (uintptr_t)run->machine < sizeof *run->machine) return;
    come_to(run, !is_shared(run, address), YIELDS_AT_ACCESS);
    Thread *thread = &run->threads[run->running];
    thread->released = 0;
    if (thread->owed) stop("it goes on behind a barrier without a fence that acquires");
    const WatchAccess what = access_by(run, address, bytes, writes);
    if (is_shared(run, address)) {
        const size_t at = (size_t)((uintptr_t)address - (uintptr_t)what.shared);
        if (at < run->shared_first) run->shared_first = at;
        if (at + bytes > run->shared_last) run->shared_last = at + bytes;
    }
    const char *wrong =
        run->launch->memory == SIMT_ONLY_WEAK ? NULL : watch_access(run->watch, &what);
    if (!wrong && run->launch->touch) wrong = run->launch->touch(address, bytes, writes != 0);
    if (wrong) stop(wrong);
    show(run, &what);
}
/* An atomic look need not see the last additions: how many it does not. */
static uint32_t look_back(Run *run, const void *counter, unsigned long bytes) {
    Thread *thread = &run->threads[run->running];
    const WatchAccess what = access_by(run, counter, bytes, 0);
    const bool again = thread->counter == counter;
    uint32_t seen = again ? thread->seen : 0;
    /* in the end it does: nothing has changed since it last did not */
    const bool late = run->explorer && again && thread->stale && thread->changes == run->changes;
    const uint32_t back = late ? 0 : weak_read(run->weak, &what, &seen);
    thread->counter = counter;
    thread->stale = back > 0;
    thread->seen = seen;
    thread->bytes = (uint32_t)bytes;
    return back;
}
static void atomic(const void *counter, unsigned long bytes, int adds, int order, int scope) {
    Run *run = current;
    come_to(run, true, YIELDS_AT_ATOMIC);
    const WatchAtomic what = {.counter = counter,
                              .adds = adds != 0,
                              .back = run->weak && !adds ? look_back(run, counter, bytes) : 0,
                              .block = run->block->number,
                              .thread = run->running,
                              .device = scope >= SIMT_DEVICE,
                              .acquires = acquires(order),
                              .releases = releases(order)};
    const char *wrong = watch_atomic(run->watch, &what);
    if (wrong) stop(wrong);
    if (run->weak && adds) {
        const WatchAccess store = access_by(run, counter, bytes, 1);
        weak_write(run->weak, &store);
        run->changes++;
    }
    remember(run, counter, bytes);
}
static void look(const void *address, unsigned long bytes) {
    if (current && watch_counts(current->watch, address))
        atomic(address, bytes, 0, __ATOMIC_RELAXED, SIMT_SYSTEM);
    else
        access(address, bytes, 0);
}
static void fence(int order, int scope) {
    Run *run = current;
    Thread *thread = &run->threads[run->running];
    come_to(run, false, YIELDS_AT_ATOMIC);
    remember(run, &order, sizeof order);
    if (releases(order) && scope > thread->released) thread->released = scope;
    if (acquires(order) && scope >= thread->owed) thread->owed = 0;
    if (scope >= SIMT_DEVICE)
        watch_fence(run->watch, run->block->number, run->running, acquires(order), releases(order));
}
void run_thread(void *data) {
    Run *run = data;
    run->entry(run->launch->arguments);
    wait_in(RETURNED, NULL);
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

static uint32_t blocks_at_once(const SimtLaunch *launch) {
    if (launch->cooperative || launch->explorer) return launch->blocks;
    if (launch->memory == SIMT_AT_ONCE) return 1;
    return launch->blocks < SIDE_BY_SIDE ? launch->blocks : SIDE_BY_SIDE;
}

/* What a thread sees of a word, of `count` possibilities. */
static uint32_t choose(void *data, uint32_t count) {
    Run *run = data;
    return run->explorer ? explorer_choose(run->explorer, count) : run_random_below(run, count);
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
    const uint32_t room = blocks_at_once(launch);
    const size_t fibers = (size_t)room * launch->threads;
    const size_t shared = (size_t)(module->machine->shared_end - module->machine->shared_begin);
    const bool weak = launch->memory != SIMT_AT_ONCE && module->machine->watched;
    run.fibers = fibers_open(fibers);
    run.all_threads = calloc(fibers, sizeof *run.all_threads);
    run.all_shared = calloc(room, shared);
    run.blocks = calloc(room, sizeof *run.blocks);
    run.watch = watch_open(launch->blocks, (launch->threads + LANES - 1) / LANES,
                           module->machine->fences_alone, weak);
    run.explorer = launch->explorer;
    if (run.watch && weak) run.weak = weak_open(run.watch, choose, &run, launch->explorer != NULL);
    uint32_t *order = calloc(launch->blocks, sizeof *order);
    run.shared_first = module->machine->watched ? shared : 0;
    run.shared_last = module->machine->watched ? 0 : shared;
    bool good = run.fibers && run.watch && run.all_threads && run.all_shared && run.blocks &&
                order && (run.weak || !weak);
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
        run_shuffle(&run, order, launch->blocks);
        if (run.explorer)
            run_explored(&run);
        else
            run_blocks(&run, order, room);
        if (run.weak && weak_is_full(run.weak)) run_fail(&run, "out of memory for what is stored");
        current = NULL;
        good = !run.failed;
    } else {
        snprintf(message, message_size, "%s: out of memory", launch->kernel);
    }
    free(order);
    weak_close(run.weak);
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
