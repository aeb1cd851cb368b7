/* feed.h: a feed's ring of slots, for feed.c (the slots, their copies, what steps read) and
 * feed_tickets.c (several producers). Include runtime.h first. */
#ifndef FEED_H
#define FEED_H

enum { SLOTS_DEFAULT = 3, SLOTS_MAX = 64, ALIGNMENT = 256 };
typedef struct Array {
    char *name;
    ls_type type;
    uint32_t rank;
    int64_t shape[LS_RANK_MAX], current[LS_RANK_MAX]; /* of a full batch, of the one that is read */
    size_t at, row_bytes;                             /* where it begins in a slot; of a sample */
} Array;

typedef enum SlotState { SLOT_FREE, SLOT_FILLING, SLOT_SUBMITTED, SLOT_CURRENT } SlotState;
typedef struct Slot {
    SlotState state;
    bool in_flight; /* a copy was queued, and nobody has waited for it */
    char *host, *device;
    void *copied, *used;
    int64_t samples;
} Slot;

/* What producers, which may be other processes, agree on; see feed_tickets.c. */
typedef struct FeedRing FeedRing;

struct ls_feed {
    ls_context *context;
    Array *arrays;
    size_t array_count, bytes;
    int64_t batch;
    Slot *slots;
    uint32_t slot_count, fill_at, read_at;
    Slot *current;   /* whose memory the steps read; NULL: none yet, or it is `fixed` */
    char *fixed;     /* where all batches come to lie */
    bool direct;     /* the device reads what the host has filled, where it lies */
    int64_t *scalar; /* the samples of the batch, on the device */
    void *stream;    /* of the copies */
    void *last;      /* an event behind all copies */
    ls_step **steps; /* to be bound at every batch */
    size_t step_count, step_capacity;
    ls_feed_statistics statistics;
    FeedRing *ring; /* NULL: one thread acquires and submits */
    bool shared;    /* the ring and the slots' host memory are shared with forked processes */
    uint64_t taken; /* tickets whose batches were submitted or skipped, */
    uint64_t freed; /* and that were given a slot so far */
};

/* feed.c */
/* Waits for the copy out of the slot's memory, or for the steps that read it where it lies. */
ls_status feed_wait_for_copy(ls_feed *feed, Slot *slot);
/* Whether that would not wait. */
bool feed_copy_is_done(const ls_feed *feed, const Slot *slot);
/* Queues the copy of the slot that is filled next. */
ls_status feed_submit(ls_feed *feed, int64_t samples);

/* feed_tickets.c */
ls_status feed_ring_open(ls_feed *feed);
void feed_ring_close(ls_feed *feed);
/* Memory of the host that forked processes share; NULL: there is none. */
void *feed_share(size_t bytes);
void feed_unshare(void *memory, size_t bytes);
/* Ahead of ls_feed_next: submits what was delivered, in the order of the tickets, and waits until
 * there is a batch. */
ls_status feed_collect(ls_feed *feed, const char *call);

#endif
