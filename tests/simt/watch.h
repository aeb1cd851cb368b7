/* watch.h: who touched what in a launch, and whether anything orders it. The unit that time is kept
 * for is a group of 32 lanes: a block's barrier orders its groups, an atomic between two fences
 * those of all blocks, if the one releases, the other acquires, and all three reach as far as the
 * device; lanes of a group are ordered by its meetings. What a lane acquires is its own up to the
 * next of them, and a lane's atomic releases by no other lane's fence. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Watch Watch;

/* Groups of a block; `fences_alone`: see machine.h; `weak`: looks may look back. NULL: out of
 * memory. */
Watch *watch_open(uint32_t blocks, uint32_t groups, bool fences_alone, bool weak);
void watch_close(Watch *watch);
/* Shared memory of the block begins anew, at [begin, begin + bytes) while it has its turn. */
void watch_block(Watch *watch, uint32_t block, const void *begin, size_t bytes);
/* With `memory` at a barrier of the group; an exchange of registers orders what was read before it
 * ahead of what is written behind it, and no more. */
void watch_group_meets(Watch *watch, uint32_t block, uint32_t group, bool memory);
void watch_block_meets(Watch *watch, uint32_t block);
/* A fence for the device. */
void watch_fence(Watch *watch, uint32_t block, uint32_t thread, bool acquires, bool releases);

enum { WATCH_BACK = 9 };
typedef struct WatchAtomic {
    const void *counter;
    bool adds;     /* or it looks */
    uint32_t back; /* a look: of how many of the last additions it sees nothing; below WATCH_BACK */
    uint32_t block, thread;
    bool device; /* it reaches beyond the block */
    bool acquires, releases;
} WatchAtomic;
/* Whether an atomic has used it as a counter. */
bool watch_counts(const Watch *watch, const void *address);
/* NULL, or what is wrong with it. */
const char *watch_atomic(Watch *watch, const WatchAtomic *atomic);

typedef struct WatchAccess {
    const void *address;
    size_t bytes;
    bool writes;
    uint32_t block, thread;
    const void *shared; /* where the block's shared memory lies */
} WatchAccess;
/* NULL, or what is wrong with it. */
const char *watch_access(Watch *watch, const WatchAccess *access);

/* When a thread does something, and whether what was done then is ordered before what a thread does
 * now: what weak.h goes by. */
typedef struct WatchTime {
    uint32_t clock, meeting;
    uint16_t group;
    uint8_t lane;
} WatchTime;
WatchTime watch_time(const Watch *watch, uint32_t block, uint32_t thread);
bool watch_ordered(const Watch *watch, const WatchTime *then, uint32_t block, uint32_t thread);
/* Where the access lies: every block's shared memory has places of its own. */
uint64_t watch_place(const Watch *watch, const WatchAccess *access);
/* A hash of all that orders anything, equal for equal ones. */
uint64_t watch_hash(const Watch *watch);

#endif
