/* weak.h: weak memory: what a thread reads need not be the last that was stored.
 *
 * Every store leaves behind what it wrote over, with who stored and when. A thread that reads sees
 * at least what is ordered before (watch.h: its own, what a barrier, or fences around an atomic,
 * have brought to it); of all stores since, an adversary chooses for each word how many of the
 * youngest it does not see yet. To the reader that is a buffer in which the writer's store still
 * waits, or a line of its own cache that nothing has emptied: both at once, drained in any order.
 * It is the view machine of Kang, Hur, Lahav, Vafeiadis and Dreyer ("A promising semantics for
 * relaxed-memory concurrency", 2017) without promises: no load takes effect late. A load that
 * might is a read that nothing orders ahead of a write, which the watch reports.
 *
 * The generated text reads memory by itself: what it shall see is put there for one access, and
 * `weak_settle` puts the youngest back. */
#ifndef WEAK_H
#define WEAK_H

#include "watch.h"

typedef struct Weak Weak;

/* Of `count` possibilities one, below count; 0: the youngest. */
typedef uint32_t (*WeakChoose)(void *data, uint32_t count);

/* `exhaustive`: keeps every store, also where a thread writes over its own before anything of it
 * could be seen. NULL: out of memory. */
Weak *weak_open(const Watch *watch, WeakChoose choose, void *data, bool exhaustive);
void weak_close(Weak *weak);

/* Ahead of each, and when the thread gives its turn away: memory as the youngest stores left it. */
void weak_settle(Weak *weak);
/* What the access reads is in its place until the next call. Of one word it says how many stores
 * are younger than what is read. `seen` is of a thread that looks at one word over and over by
 * atomics, which never go back: up to which store it has seen it, 0 at first. NULL: a plain read.
 */
uint32_t weak_read(Weak *weak, const WatchAccess *access, uint32_t *seen);
/* The access will write there: what it writes over is kept. */
void weak_write(Weak *weak, const WatchAccess *access);

/* How many of the stores to what is read are younger than the one that was `seen`. */
uint32_t weak_younger(const Weak *weak, const WatchAccess *access, uint32_t seen);
/* A hash of what is kept of device memory and of the youngest there. */
uint64_t weak_hash(const Weak *weak);
/* Reads that did not see the youngest. */
uint64_t weak_stale(const Weak *weak);
/* Out of memory: from then on all see the youngest. */
bool weak_is_full(const Weak *weak);

#endif
