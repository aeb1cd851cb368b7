/* late.c: see late.h. */
#include "late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct LateMark { /* held by the event and by what is queued */
    int holders;
    double ms; /* of kernels that ran before */
};

typedef struct Item {
    LateWork work;     /* run NULL: a wait or a record */
    LateStream *on;    /* a wait: until this stream ... */
    uint64_t position; /* ... has done so many */
    LateMark *mark;    /* a record */
    const void *from;  /* a copy: what it reads, staged or not */
    size_t bytes;
    struct Item *next;
} Item;

struct LateStream {
    bool blocking, closed;
    uint64_t queued, done; /* so far */
    Item *first, **end;
    LateStream *next;
};

static LateStream *streams; /* they stay, as events name them; closed ones are opened again */
static LateStream default_stream = {.blocking = false};
static uint64_t mood, dice = 1;
static long faults;
static int failure; /* of what ran, until somebody waits */
static double clock_ms;

void late_seed(uint64_t seed) {
    if (seed == mood) return;
    mood = seed;
    dice = seed * 0x9e3779b97f4a7c15u | 1;
}

static uint64_t throw_dice(uint64_t sides) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice % sides;
}

long late_faults(void) {
    const long seen = faults;
    faults = 0;
    return seen;
}

void late_report(const char *what, const char *name) {
    fprintf(stderr, "driver of the tests: %s: %s\n", name, what);
    faults++;
}

/* ---- memory that was given up ---- */

enum { GRAVES = 128 };
static struct Grave {
    char *memory;
    size_t bytes, base_bytes;
    void *base;
    void (*give_back)(void *base, size_t bytes);
} graves[GRAVES];
static size_t next_grave;

int late_touch(const void *memory, size_t bytes, const char *name) {
    const char *first = memory;
    for (size_t i = 0; i < GRAVES; i++) {
        const struct Grave *grave = &graves[i];
        if (!grave->base || first >= grave->memory + grave->bytes || first + bytes <= grave->memory)
            continue;
        late_report("it is queued, and uses memory that was freed before it ran", name);
        return LATE_USE_AFTER_FREE;
    }
    return 0;
}

int late_kernel(const void *arguments, size_t bytes, const char *name) {
    int error = 0;
    clock_ms += 1.5;
    for (size_t at = 0; at + sizeof(void *) <= bytes && !error; at += sizeof(void *)) {
        void *word;
        memcpy(&word, (const char *)arguments + at, sizeof word);
        error = late_touch(word, 1, name);
    }
    return error;
}

void late_bury(void *base, size_t base_bytes, void *memory, size_t bytes,
               void (*give_back)(void *base, size_t bytes)) {
    struct Grave *grave = &graves[next_grave++ % GRAVES];
    if (grave->base) grave->give_back(grave->base, grave->base_bytes);
    *grave = (struct Grave){memory, bytes, base_bytes, base, give_back};
}

/* ---- page-locked memory ---- */

typedef struct Pinned {
    struct Pinned *next;
    char *memory;
    size_t bytes;
} Pinned;
static Pinned *all_pinned;

static void give_back_pinned(void *base, size_t bytes) {
    (void)bytes;
    free(base);
}

void *late_pinned_allocate(size_t bytes) {
    Pinned *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->bytes = (bytes + 255) / 256 * 256;
    made->memory = aligned_alloc(256, made->bytes ? made->bytes : 256);
    if (!made->memory) {
        free(made);
        return NULL;
    }
    made->next = all_pinned;
    all_pinned = made;
    return made->memory;
}

void late_pinned_free(void *memory) {
    Pinned **link = &all_pinned;
    while (*link && (*link)->memory != memory) link = &(*link)->next;
    if (!*link) {
        late_report("it was not allocated, or is freed twice", "page-locked memory");
        return;
    }
    Pinned *found = *link;
    *link = found->next;
    memset(memory, LATE_POISON, found->bytes);
    late_bury(memory, found->bytes, memory, found->bytes, give_back_pinned);
    free(found);
}

static bool is_pinned(const void *memory) {
    const char *at = memory;
    for (const Pinned *one = all_pinned; one; one = one->next)
        if (at >= one->memory && at < one->memory + one->bytes) return true;
    return false;
}

/* ---- running ---- */

static bool is_blocked(const Item *item) {
    return item->on && item->on->done < item->position;
}

static void drop_mark(LateMark *mark) {
    if (mark && --mark->holders == 0) free(mark);
}

static void drop_item(Item *item) {
    drop_mark(item->mark);
    if (item->work.release) item->work.release(item->work.what);
    free(item);
}

/* Takes the first item out and runs it: a test that fails in there leaves the stream in order. */
static void run_first(LateStream *stream) {
    Item *item = stream->first;
    stream->first = item->next;
    if (!stream->first) stream->end = &stream->first;
    stream->done++;
    if (item->mark) item->mark->ms = clock_ms;
    int error = item->work.run ? item->work.run(item->work.what) : 0;
    if (error && !failure) failure = error;
    drop_item(item);
}

static bool run_if_free(LateStream *stream) {
    if (!stream->first || is_blocked(stream->first)) return false;
    run_first(stream);
    return true;
}

static void run_at_random(void) {
    size_t count = 1;
    for (LateStream *at = streams; at; at = at->next) count++;
    for (uint64_t turns = throw_dice(4); turns > 0; turns--) {
        LateStream *chosen = &default_stream;
        size_t skip = throw_dice(count);
        for (LateStream *at = streams; at && skip > 0; at = at->next, skip--) chosen = at;
        run_if_free(chosen);
    }
}

/* What the adversary does unasked. */
static void meddle(void) {
    if (mood == 0) return;
    if (mood > 3) {
        run_at_random();
        return;
    }
    for (bool any = true; any;) {
        any = mood >= 2 && run_if_free(&default_stream);
        for (LateStream *at = streams; at; at = at->next)
            if (mood == 3 || at->blocking == (mood == 2)) any |= run_if_free(at);
    }
}

static void run_up_to(LateStream *stream, uint64_t position) {
    while (stream->done < position) {
        if (is_blocked(stream->first)) {
            run_up_to(stream->first->on, stream->first->position);
            continue;
        }
        if (mood > 3) run_at_random();
        if (stream->done < position) run_if_free(stream);
    }
}

static int take_failure(void) {
    const int error = failure;
    failure = 0;
    return error;
}

/* ---- queueing ---- */

enum { CLOSED_MOST = 64 };

/* A closed stream that has come to its end. Where too many have not, as nobody waits for them, the
 * first of them does now. */
static LateStream *find_closed(void) {
    size_t busy = 0;
    LateStream *first = NULL;
    for (LateStream *at = streams; at; at = at->next) {
        if (!at->closed) continue;
        if (!at->first) return at;
        if (busy++ == 0) first = at;
    }
    if (busy < CLOSED_MOST) return NULL;
    run_up_to(first, first->queued);
    return first;
}

LateStream *late_open(bool blocking) {
    LateStream *stream = find_closed();
    if (!stream) {
        stream = calloc(1, sizeof *stream);
        if (!stream) return NULL;
        stream->end = &stream->first;
        stream->next = streams;
        streams = stream;
    }
    stream->closed = false;
    stream->blocking = blocking;
    return stream;
}

void late_close(LateStream *stream) {
    stream->closed = true;
}

static int put(LateStream *stream, Item item) {
    Item *made = malloc(sizeof *made);
    if (!made) return LATE_OUT_OF_MEMORY;
    *made = item;
    made->next = NULL;
    if (!stream->first) stream->end = &stream->first;
    *stream->end = made;
    stream->end = &made->next;
    stream->queued++;
    return 0;
}

static int put_wait(LateStream *stream, LateStream *on) {
    if (on->done == on->queued) return 0;
    return put(stream, (Item){.on = on, .position = on->queued});
}

/* As with a driver, so much is queued and no more: whoever queues waits. */
enum { QUEUE_MAX = 4096, QUEUE_LESS = 2048 };
static int queue_item(LateStream *stream, Item item) {
    int error = 0;
    if (!stream) {
        stream = &default_stream;
        for (LateStream *at = streams; at && !error; at = at->next)
            if (at->blocking) error = put_wait(stream, at);
    } else if (stream->blocking) {
        error = put_wait(stream, &default_stream);
    }
    if (!error) error = put(stream, item);
    if (!error) meddle();
    if (stream->queued - stream->done > QUEUE_MAX) run_up_to(stream, stream->queued - QUEUE_LESS);
    return error;
}

int late_queue(LateStream *stream, LateWork work) {
    int error = queue_item(stream, (Item){.work = work});
    if (error && work.release) work.release(work.what);
    return error;
}

typedef struct Copy {
    void *to, *staged;
    const void *from;
    size_t bytes;
} Copy;

static int run_copy(void *what) {
    const Copy *copy = what;
    int error = late_touch(copy->to, copy->bytes, "a copy's destination");
    if (!error) error = late_touch(copy->from, copy->bytes, "a copy's source");
    if (!error) memmove(copy->to, copy->from, copy->bytes);
    return error;
}

static void release_copy(void *what) {
    free(((Copy *)what)->staged);
    free(what);
}

static bool is_read(const LateStream *stream, const char *memory, size_t bytes) {
    for (const Item *item = stream->first; item; item = item->next) {
        const char *from = item->from;
        if (from && from < memory + bytes && memory < from + item->bytes) return true;
    }
    return false;
}

/* Before anything queued reads it in its turn it must stay as it is. */
static void poison_destination(void *to, size_t bytes) {
    bool read = is_read(&default_stream, to, bytes);
    for (const LateStream *at = streams; at; at = at->next) read |= is_read(at, to, bytes);
    if (!read) memset(to, LATE_POISON, bytes);
}

int late_copy(LateStream *stream, LateCopy kind, void *to, const void *from, size_t bytes) {
    Copy *copy = calloc(1, sizeof *copy);
    if (!copy) return LATE_OUT_OF_MEMORY;
    *copy = (Copy){.to = to, .from = from, .bytes = bytes};
    if (kind == LATE_IN && !is_pinned(from)) {
        copy->from = copy->staged = malloc(bytes ? bytes : 1);
        if (!copy->staged) {
            free(copy);
            return LATE_OUT_OF_MEMORY;
        }
        memcpy(copy->staged, from, bytes);
    }
    if (kind == LATE_OUT) poison_destination(to, bytes);
    Item item = {.work = {run_copy, release_copy, NULL, copy}, .from = copy->from, .bytes = bytes};
    int error = queue_item(stream, item);
    if (error) release_copy(copy);
    return error;
}

typedef struct Fill {
    char *to;
    uint32_t value, unit;
    size_t count;
} Fill;

static int run_fill(void *what) {
    const Fill *fill = what;
    int error = late_touch(fill->to, fill->count * fill->unit, "a fill");
    for (size_t i = 0; i < fill->count && !error; i++)
        memcpy(fill->to + i * fill->unit, &fill->value, fill->unit);
    return error;
}

int late_fill(LateStream *stream, void *to, uint32_t value, uint32_t unit, size_t count) {
    Fill *fill = malloc(sizeof *fill);
    if (!fill) return LATE_OUT_OF_MEMORY;
    *fill = (Fill){to, value, unit, count};
    return late_queue(stream, (LateWork){run_fill, free, NULL, fill});
}

/* ---- events ---- */

int late_record(LateEvent *event, LateStream *stream) {
    LateMark *mark = calloc(1, sizeof *mark);
    if (!mark) return LATE_OUT_OF_MEMORY;
    mark->holders = 2;
    int error = queue_item(stream, (Item){.mark = mark});
    if (error) {
        free(mark);
        return error;
    }
    late_event_drop(event);
    if (!stream) stream = &default_stream;
    *event = (LateEvent){stream, stream->queued, mark};
    return 0;
}

void late_event_drop(LateEvent *event) {
    drop_mark(event->mark);
    *event = (LateEvent){NULL, 0, NULL};
}

static bool is_done(const LateEvent *event) {
    return !event->stream || event->stream->done >= event->position;
}

int late_wait(LateStream *stream, const LateEvent *event) {
    if (is_done(event)) return 0;
    return queue_item(stream, (Item){.on = event->stream, .position = event->position});
}

/* ---- waiting ---- */

int late_finish(LateStream *stream) {
    if (!stream) {
        for (LateStream *at = streams; at; at = at->next)
            if (at->blocking) run_up_to(at, at->queued);
        stream = &default_stream;
    }
    run_up_to(stream, stream->queued);
    return take_failure();
}

int late_finish_event(const LateEvent *event) {
    if (event->stream) run_up_to(event->stream, event->position);
    return take_failure();
}

int late_finish_all(void) {
    late_finish(NULL);
    for (LateStream *at = streams; at; at = at->next) run_up_to(at, at->queued);
    return take_failure();
}

static void forget(LateStream *stream) {
    while (stream->first) {
        Item *item = stream->first;
        stream->first = item->next;
        stream->done++;
        drop_item(item);
    }
    stream->end = &stream->first;
}

void late_forget_all(void) {
    forget(&default_stream);
    for (LateStream *at = streams; at; at = at->next) forget(at);
    failure = 0;
}

bool late_done(const LateEvent *event) {
    LateStream *stream = event->stream;
    if (is_done(event)) return true;
    while (stream->first && is_blocked(stream->first)) stream = stream->first->on;
    const bool was = is_done(event);
    run_if_free(stream);
    return was;
}

int late_elapsed(const LateEvent *start, const LateEvent *end, float *milliseconds) {
    if (!start->stream || !end->stream) return LATE_INVALID;
    if (!is_done(start) || !is_done(end)) return LATE_NOT_READY;
    *milliseconds = (float)(end->mark->ms - start->mark->ms);
    return 0;
}

static bool is_used(const LateStream *stream, const void *thing) {
    for (const Item *item = stream->first; item; item = item->next)
        if (item->work.uses && item->work.uses(item->work.what, thing)) return true;
    return false;
}

void late_settled(const void *thing, const char *what) {
    bool used = is_used(&default_stream, thing);
    for (const LateStream *at = streams; at; at = at->next) used |= is_used(at, thing);
    if (!used) return;
    late_report("it is released while work that uses it is queued", what);
    const int error = late_finish_all();
    if (!failure) failure = error;
}
