/* turns.h: between launch.c, what the running thread calls, and turns.c, who runs next. */
#ifndef TURNS_H
#define TURNS_H

#include "explore.h"
#include "fiber.h"
#include "simt_parts.h"
#include "watch.h"
#include "weak.h"

enum { LANES = 32, THREADS_MAX = 1024, PAUSES_MAX = 200 };

typedef enum State {
    READY,
    PAUSED,
    AT_BARRIER,
    AT_GROUP,
    AT_EXCHANGE,
    AT_ACCESS, /* of an exploration: it is about to touch device memory */
    RETURNED,
    STATE_COUNT
} State;
typedef struct Thread {
    State state;
    int released, owed;       /* how far its last fence released; its next one must acquire */
    const void *place;        /* where it waits */
    unsigned long long given; /* what it leaves at an exchange */
    unsigned long long shown; /* what it left at the last one that all reached */
    const void *counter;      /* the one it last looked at, */
    uint32_t seen, bytes;     /* up to which of the stores to its so many bytes, */
    bool stale;               /* and whether there was a younger one that it did not see */
    uint64_t changes;         /* of an exploration: how many there had been when it paused */
    uint64_t history;         /* a hash of all that it has read: what it does next follows */
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
    Weak *weak;                       /* NULL: all see every store at once */
    Explorer *explorer;               /* NULL: turns and what is seen follow from the seed */
    uint64_t changes;                 /* of device memory, so far */
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

uint32_t run_random_below(Run *run, uint32_t bound);
void run_shuffle(Run *run, uint32_t *numbers, uint32_t count);
__attribute__((format(printf, 2, 3))) void run_fail(Run *run, const char *format, ...);

/* What a fiber of the launch runs. */
void run_thread(void *run);

/* Blocks of `order`, as many at a time as have room. */
void run_blocks(Run *run, const uint32_t *order, uint32_t room);
/* All blocks side by side, as the explorer says. */
void run_explored(Run *run);

#endif
