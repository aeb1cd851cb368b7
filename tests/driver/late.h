/* late.h: the streams and events of a driver library that is none (stand_in.c, ../simt/emulated.c).
 *
 * What is queued runs when somebody waits for it, and else when an adversary likes: in the order of
 * its stream, after what its stream was told to wait for, after the default stream's rule, and with
 * no other order. The seed is the adversary's mood:
 *   0  nothing runs before it must        1  copy streams (non-blocking ones) run ahead
 *   2  the other streams run ahead        3  all runs at once
 *   4 and more: at random, the same for the same seed.
 * Memory that was given up is poisoned and kept for a while, and queued work that comes to use it
 * is a fault of the caller's: it is reported and does not run. The caller has the library's lock.
 */
#ifndef LATE_H
#define LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct LateStream LateStream;

typedef struct LateMark LateMark;

/* An event is this, filled by late_record. */
typedef struct LateEvent {
    LateStream *stream; /* NULL: never recorded, which counts as done */
    uint64_t position;  /* of the record among what was queued there */
    LateMark *mark;     /* when that was */
} LateEvent;

typedef struct LateWork {
    int (*run)(void *what);      /* gives an error of the driver's, or 0 */
    void (*release)(void *what); /* after it ran, or instead; NULL: nothing to do */
    bool (*uses)(const void *what, const void *thing); /* a module or a graph; NULL: none */
    void *what;
} LateWork;

typedef enum LateCopy { LATE_IN, LATE_OUT, LATE_WITHIN } LateCopy;
enum {
    LATE_INVALID = 1,
    LATE_OUT_OF_MEMORY = 2,
    LATE_NOT_READY = 600,
    LATE_USE_AFTER_FREE = 700,
    LATE_POISON = 0xdb
};

void late_seed(uint64_t seed);
/* Faults of the caller's that were seen since the last call. */
long late_faults(void);
void late_report(const char *what, const char *name);

LateStream *late_open(bool blocking); /* blocking: heeds the default stream */
/* Only the handle: what is queued there is done all the same. */
void late_close(LateStream *stream);
/* NULL as a stream: the legacy default stream, which waits for the blocking ones, and they for it.
 */
int late_queue(LateStream *stream, LateWork work);
/* From memory of the host that is not page-locked at once, as the vendors do; else when it runs.
 * What it goes to on the host is undefined, and poisoned, until then. */
int late_copy(LateStream *stream, LateCopy kind, void *to, const void *from, size_t bytes);
int late_fill(LateStream *stream, void *to, uint32_t value, uint32_t unit, size_t count);
int late_record(LateEvent *event, LateStream *stream);
int late_wait(LateStream *stream, const LateEvent *event);
void late_event_drop(LateEvent *event);

/* These give the first error of what ran since one of them was called. */
int late_finish(LateStream *stream);
int late_finish_event(const LateEvent *event);
int late_finish_all(void);
void late_forget_all(void); /* without running it: the device is lost, or the test over */
/* Does a little, so that whoever asks again and again comes to an end. */
bool late_done(const LateEvent *event);
/* Kernels that ran between the two, 1.5 ms each; negative where they are the wrong way round.
 * LATE_NOT_READY: one is not done. */
int late_elapsed(const LateEvent *start, const LateEvent *end, float *milliseconds);
/* Whether what is queued uses a module or a graph; `late_settled` says so, as a fault of the
 * caller's, and does all that is queued. */
void late_settled(const void *thing, const char *what);

/* For whoever runs a kernel: its time passes, and its words are looked through for memory that was
 * given up: 0 or LATE_USE_AFTER_FREE. */
int late_kernel(const void *arguments, size_t bytes, const char *name);
int late_touch(const void *memory, size_t bytes, const char *name);
/* Takes over memory that was given up; `give_back` gets `base` and the size some time later. */
void late_bury(void *base, size_t base_bytes, void *memory, size_t bytes,
               void (*give_back)(void *base, size_t bytes));
void *late_pinned_allocate(size_t bytes); /* NULL: out of memory */
void late_pinned_free(void *memory);

#endif
