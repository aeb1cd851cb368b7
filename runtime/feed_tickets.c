/* feed_tickets.c: several producers of one feed, threads or forked processes.
 *
 * Ticket t is for slot t mod slots. The ring says how many tickets have been claimed and how many
 * have a slot that is free; producers wait for the one to fall behind the other, ls_feed_next for
 * the oldest ticket to be delivered. All calls of the driver are ls_feed_next's, so producers need
 * neither its context nor a library that survives a fork. Waiting is by a futex on a count of
 * changes: nothing of it is left behind by a process that is killed, and the lock is one that says
 * so when its holder was. */
#include "runtime.h"
#include "feed.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 100 * 1000 * 1000 }; /* how often a wait looks whether the producer is alive */

typedef struct Ticket {
    uint64_t number;
    int64_t samples;
    pid_t owner;
    bool delivered;
} Ticket;
struct FeedRing {
    pthread_mutex_t lock;
    uint32_t changes;       /* waited on */
    uint64_t claimed, open; /* tickets so far; those that have a free slot */
    bool closed;
    Ticket tickets[SLOTS_MAX];
};

void *feed_share(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void feed_unshare(void *memory, size_t bytes) {
    if (memory) munmap(memory, bytes);
}

ls_status feed_ring_open(ls_feed *feed) {
    pthread_mutexattr_t attributes;
    feed->ring = feed_share(sizeof *feed->ring);
    if (!feed->ring) return error_memory(&feed->context->error, "ls_feed_create");
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&feed->ring->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    feed->ring->open = feed->freed = feed->slot_count;
    return LS_OK;
}

void feed_ring_close(ls_feed *feed) {
    if (!feed->ring) return;
    pthread_mutex_destroy(&feed->ring->lock);
    feed_unshare(feed->ring, sizeof *feed->ring);
}

static void lock(FeedRing *ring) {
    if (pthread_mutex_lock(&ring->lock) == EOWNERDEAD) pthread_mutex_consistent(&ring->lock);
}

static void unlock(FeedRing *ring) {
    pthread_mutex_unlock(&ring->lock);
}

/* To be called with the lock. */
static void tell(FeedRing *ring) {
    __atomic_add_fetch(&ring->changes, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &ring->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Gives the lock up until something changes, or for a while. */
static void wait_for_change(FeedRing *ring) {
    const struct timespec while_ = {.tv_nsec = LOOK_NS};
    const uint32_t seen = __atomic_load_n(&ring->changes, __ATOMIC_ACQUIRE);
    unlock(ring);
    syscall(SYS_futex, &ring->changes, FUTEX_WAIT, seen, &while_, NULL, 0);
    lock(ring);
}

static ls_status no_ring(const ls_feed *feed, const char *call) {
    return error_set(NULL, feed ? LS_ERROR_STATE : LS_ERROR_ARGUMENT,
                     feed ? "%s: the feed was created without LS_FEED_THREADS or LS_FEED_PROCESSES"
                          : "%s: feed is NULL",
                     call);
}

/* ---- producers ---- */

ls_status ls_feed_claim(ls_feed *feed, uint64_t *ticket, void **arrays) {
    static const char call[] = "ls_feed_claim";
    if (!feed || !feed->ring) return no_ring(feed, call);
    if (!ticket || !arrays)
        return error_set(NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                         ticket ? "arrays" : "ticket");
    FeedRing *ring = feed->ring;
    lock(ring);
    while (ring->claimed == ring->open && !ring->closed) wait_for_change(ring);
    const bool closed = ring->closed;
    const uint64_t number = ring->claimed;
    if (!closed) {
        ring->tickets[number % feed->slot_count] = (Ticket){.number = number, .owner = getpid()};
        ring->claimed++;
    }
    unlock(ring);
    if (closed) return error_set(NULL, LS_ERROR_STATE, "%s: the feed was closed", call);
    const Slot *slot = &feed->slots[number % feed->slot_count];
    for (size_t i = 0; i < feed->array_count; i++) arrays[i] = slot->host + feed->arrays[i].at;
    *ticket = number;
    return LS_OK;
}

ls_status ls_feed_deliver(ls_feed *feed, uint64_t ticket, int64_t samples) {
    static const char call[] = "ls_feed_deliver";
    if (!feed || !feed->ring) return no_ring(feed, call);
    if (samples < 0 || samples > feed->batch)
        return error_set(NULL, LS_ERROR_ARGUMENT,
                         "%s: %lld samples were given, a batch has 1 to %lld, and 0 skips it", call,
                         (long long)samples, (long long)feed->batch);
    FeedRing *ring = feed->ring;
    lock(ring);
    Ticket *own = &ring->tickets[ticket % feed->slot_count];
    const bool claimed = ticket < ring->claimed && own->number == ticket && !own->delivered;
    if (claimed) {
        own->samples = samples;
        own->delivered = true;
        tell(ring);
    }
    unlock(ring);
    return claimed ? LS_OK
                   : error_set(NULL, LS_ERROR_STATE,
                               "%s: ticket %llu is not claimed, or was delivered before", call,
                               (unsigned long long)ticket);
}

ls_status ls_feed_close(ls_feed *feed) {
    if (!feed || !feed->ring) return no_ring(feed, "ls_feed_close");
    lock(feed->ring);
    feed->ring->closed = true;
    tell(feed->ring);
    unlock(feed->ring);
    return LS_OK;
}

/* ---- the one who takes ---- */

/* What was launched so far is all that reads the batch in use: its slot is free behind that. */
static ls_status give_up_current(ls_feed *feed) {
    ls_context *context = feed->context;
    ls_status status = context->driver->event_record(context->device, feed->current->used);
    if (status == LS_OK) feed->current->state = SLOT_FREE;
    if (status == LS_OK) feed->current = NULL;
    return status;
}

/* Gives slots that are free again to the tickets that come next, in turn. Only where it has to, it
 * waits for copies out of them, and gives up the one in use: all the others may have been skipped.
 */
static ls_status free_slots(ls_feed *feed, bool waits) {
    uint64_t freed = feed->freed;
    ls_status status = LS_OK;
    while (status == LS_OK && feed->freed < feed->taken + feed->slot_count) {
        Slot *slot = &feed->slots[feed->freed % feed->slot_count];
        if (waits && slot == feed->current) status = give_up_current(feed);
        if (status != LS_OK) break;
        if (slot->state != SLOT_FREE || (!waits && !feed_copy_is_done(feed, slot))) break;
        status = feed_wait_for_copy(feed, slot);
        if (status == LS_OK) feed->freed++;
    }
    if (feed->freed == freed) return status;
    lock(feed->ring);
    feed->ring->open = feed->freed;
    tell(feed->ring);
    unlock(feed->ring);
    return status;
}

/* Takes the oldest ticket if it was delivered: its batch is submitted, or it is skipped, which
 * leaves its slot as it was: free, for the next in turn. */
static ls_status take(ls_feed *feed, bool *any) {
    FeedRing *ring = feed->ring;
    const size_t at = feed->taken % feed->slot_count;
    lock(ring);
    *any = feed->taken < ring->claimed && ring->tickets[at].delivered;
    const int64_t samples = *any ? ring->tickets[at].samples : 0;
    unlock(ring);
    if (!*any) return LS_OK;
    ls_status status = LS_OK;
    if (samples) {
        feed->slots[at].state = SLOT_FILLING;
        status = feed_submit(feed, samples);
    } else {
        feed->fill_at = (feed->fill_at + 1) % feed->slot_count;
    }
    if (status == LS_OK) feed->taken++;
    return status;
}

/* Whether a producer's process has ended: a child that nobody has waited for yet too. */
static bool is_gone(pid_t process) {
    siginfo_t information = {.si_pid = 0};
    if (process == getpid()) return false;
    if (kill(process, 0) != 0 && errno == ESRCH) return true;
    return waitid(P_PID, (id_t)process, &information, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           information.si_pid == process;
}

static ls_status wait_for_ticket(ls_feed *feed, const char *call) {
    FeedRing *ring = feed->ring;
    Error *error = &feed->context->error;
    const Ticket *oldest = &ring->tickets[feed->taken % feed->slot_count];
    const double began = time_us();
    pid_t gone = 0;
    bool ended = false;
    lock(ring);
    for (;;) {
        const bool claimed = feed->taken < ring->claimed;
        if (claimed && oldest->delivered) break;
        ended = ring->closed && !claimed;
        gone = claimed && is_gone(oldest->owner) ? oldest->owner : 0;
        if (ended || gone) break;
        wait_for_change(ring);
    }
    unlock(ring);
    feed->statistics.producer_waits++;
    feed->statistics.producer_waited_ms += (time_us() - began) * 1e-3;
    if (ended)
        return error_set(error, LS_ERROR_STATE, "%s: the feed is closed and has no more batches",
                         call);
    if (gone)
        return error_set(error, LS_ERROR_STATE,
                         "%s: producer process %lld ended without delivering ticket %llu", call,
                         (long long)gone, (unsigned long long)feed->taken);
    return LS_OK;
}

/* Past the slots of tickets that were skipped. */
static void find_next(ls_feed *feed) {
    while (feed->statistics.waiting && feed->slots[feed->read_at].state != SLOT_SUBMITTED)
        feed->read_at = (feed->read_at + 1) % feed->slot_count;
    if (!feed->statistics.waiting) feed->read_at = feed->fill_at;
}

ls_status feed_collect(ls_feed *feed, const char *call) {
    ls_status status = free_slots(feed, false);
    bool any = true;
    while (status == LS_OK) {
        while (status == LS_OK && any) status = take(feed, &any);
        find_next(feed);
        if (status != LS_OK || feed->slots[feed->read_at].state == SLOT_SUBMITTED) break;
        status = free_slots(feed, true);
        if (status == LS_OK) status = wait_for_ticket(feed, call);
        any = true;
    }
    return status;
}
