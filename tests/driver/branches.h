/* branches.h: captures that take in several streams, and replays of what they recorded, for the
 * driver libraries that are none (stand_in.c, ../simt/emulated.c).
 *
 * A stream that waits for an event of a capture is a branch of it from then on, until the capture
 * ends, which must come behind all that its branches have. What was recorded is a list, of work and
 * of events' records and waits; a replay gives each branch a stream of late.h's, so that nothing
 * but these waits orders one branch's work with another's. */
#ifndef BRANCHES_H
#define BRANCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "late.h"

enum {
    BRANCHES_MAX = 8,
    BRANCHES_UNJOINED = 904, /* what both vendors call so, */
    BRANCHES_ISOLATION = 905 /* and a wait for what is not of the capture */
};

typedef struct BranchStream {  /* of a stream */
    struct BranchStream *root; /* the stream whose capture it is in; NULL: none */
    void *owner;
    unsigned branch; /* in it: 0 is the root's own */
    /* Of a root. */
    uint64_t capture; /* a number that no other capture has */
    unsigned slots, count;
    struct BranchStream *others[BRANCHES_MAX];
} BranchStream;

typedef struct BranchEvent { /* what an event recorded last */
    BranchStream *root;      /* NULL: nothing in a capture */
    uint64_t capture;
    unsigned slot;
} BranchEvent;

typedef struct BranchMark { /* of an entry of the list */
    enum { BRANCH_WORK, BRANCH_RECORD, BRANCH_WAIT } kind;
    unsigned branch, slot; /* slot: of a record, and of a wait for it */
} BranchMark;

void branches_begin(BranchStream *stream, void *owner);
void branches_end(BranchStream *root);
/* The entry for an event's record on a stream that is in a capture. */
BranchMark branches_record(const BranchStream *stream, BranchEvent *event);
/* Whether the wait is one of a capture: then gives the entry, or an error. */
bool branches_wait(BranchStream *stream, void *owner, const BranchEvent *event, BranchMark *mark,
                   int *error);
/* Of a list whose entries' marks lie `stride` bytes apart: whether the end of the first branch is
 * behind all work of the others. */
bool branches_are_joined(const BranchMark *first, size_t stride, size_t count);
bool branches_are_several(const BranchMark *first, size_t stride, size_t count);
/* `queue` queues one entry's work. */
int branches_replay(const BranchMark *first, size_t stride, size_t count, LateStream *stream,
                    int (*queue)(LateStream *stream, const void *graph, size_t entry),
                    const void *graph);

#endif
