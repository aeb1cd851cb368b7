/* watch.c: see watch.h. Vector clocks, one for each group, as in FastTrack (Flanagan and Freund,
 * 2009): each byte keeps its last write and its last reads, by two different groups at most. Bytes
 * of a word that are only touched together share what the first of them keeps. */
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, PAGE = 1024, WORD = 4, BUCKETS = 1 << 14, PAGES_MAX = 1 << 11 };
enum { COUNTERS = 1 << 8, CLOCKS_MAX = 1 << 25 };

typedef struct Mark { /* an access */
    uint32_t round;   /* of the launch, or of the block's shared memory; 0: none */
    uint32_t clock, meeting, sequence;
    uint16_t group;
    uint8_t lane;
} Mark;

typedef struct Cell { /* of a byte */
    Mark write, reads[2];
} Cell;

typedef struct Page {
    uint64_t number;
    struct Page *next;
    Cell cells[PAGE];
    bool split[PAGE / WORD]; /* whether the bytes of a word have been touched apart */
} Page;

typedef struct Counter { /* what an atomic counter carries */
    const void *address;
    uint32_t *clocks; /* by each of the last WATCH_BACK additions; else by all */
    uint32_t additions;
    uint32_t user;               /* a block that has used it, */
    bool shared, narrow;         /* whether another has too, and whether one did not reach so far */
    uint32_t adder, adder_clock; /* the last group that added, and when; adder_clock 0: none */
} Counter;

struct Watch {
    uint32_t blocks, groups, count; /* count: groups in all */
    uint32_t *clocks;               /* by group and group: what the first has seen of the second */
    uint32_t *fenced, *taken;       /* what it gives at an atomic; what its next fence takes in */
    uint32_t *shown;                /* what of that is sure to have left its group; or NULL */
    uint32_t *fresh;                /* what one lane, */
    uint8_t *fresh_lane;            /* this one, has acquired since its group met */
    uint32_t *fencers;              /* by group: a bit for each lane that has released */
    uint32_t *meetings, *exchanges; /* by group; exchanges: meetings of either kind */
    uint32_t *rounds;               /* by block: of its shared memory */
    uint32_t sequence;              /* accesses so far */
    uint32_t *effects;              /* by group: when it last did what others can see */
    bool *doubtful;                 /* by group: it has read what another wrote meanwhile */
    uint32_t *met;                  /* by group: when its block last met */
    uint32_t *added, *added_behind; /* by group: its last addition, and what `met` was then */
    size_t *shared_bytes;           /* by block */
    uint32_t round;
    Counter *counters; /* hashed by address; never more than half full */
    size_t counter_room, counter_count;
    uint32_t carried; /* rows of a counter's clocks */
    bool full;        /* out of memory: it says nothing more */
    char message[160];
};

/* Bytes are remembered between launches; marks of other rounds do not count. */
static Page *pages[BUCKETS];
static size_t page_count;
static uint32_t last_round;

/* How many stay from one launch to the next, which saves making them again: SIMT_PAGES, for who
 * measures what a process holds. */
static size_t pages_kept(void) {
    const char *number = getenv("SIMT_PAGES");
    return number ? strtoul(number, NULL, 10) : PAGES_MAX;
}

static void drop_pages(void) {
    for (size_t i = 0; i < BUCKETS; i++)
        for (Page *page = pages[i], *next; page; page = next) {
            next = page->next;
            free(page);
        }
    memset(pages, 0, sizeof pages);
    page_count = 0;
}

static Page *page_at(Watch *watch, uint64_t number) {
    static Page *recent;
    Page **bucket = &pages[number * 0x9e3779b97f4a7c15u >> 50];
    if (page_count == 0) recent = NULL;
    Page *page = recent;
    if (!page || page->number != number)
        for (page = *bucket; page && page->number != number;) page = page->next;
    if (!page) {
        page = calloc(1, sizeof *page);
        if (!page) {
            watch->full = true;
            return NULL;
        }
        page->number = number;
        page->next = *bucket;
        *bucket = page;
        page_count++;
    }
    recent = page;
    return page;
}

Watch *watch_open(uint32_t blocks, uint32_t groups, bool fences_alone, bool weak) {
    Watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    if (page_count > pages_kept()) drop_pages();
    const size_t count = (size_t)blocks * groups;
    watch->blocks = blocks;
    watch->groups = groups;
    watch->carried = weak ? WATCH_BACK : 1;
    watch->count = (uint32_t)count;
    watch->clocks = calloc(count * count, sizeof *watch->clocks);
    watch->fenced = calloc(count * count, sizeof *watch->fenced);
    watch->taken = calloc(count * count, sizeof *watch->taken);
    if (fences_alone) watch->shown = calloc(count * count, sizeof *watch->shown);
    watch->fresh = calloc(count * count, sizeof *watch->fresh);
    watch->fresh_lane = calloc(count, sizeof *watch->fresh_lane);
    watch->fencers = calloc(count, sizeof *watch->fencers);
    watch->meetings = calloc(count, sizeof *watch->meetings);
    watch->exchanges = calloc(count, sizeof *watch->exchanges);
    watch->rounds = calloc(blocks, sizeof *watch->rounds);
    watch->shared_bytes = calloc(blocks, sizeof *watch->shared_bytes);
    watch->effects = calloc(count, sizeof *watch->effects);
    watch->doubtful = calloc(count, sizeof *watch->doubtful);
    watch->met = calloc(count, sizeof *watch->met);
    watch->added = calloc(count, sizeof *watch->added);
    watch->added_behind = calloc(count, sizeof *watch->added_behind);
    watch->counter_room = COUNTERS;
    watch->counters = calloc(COUNTERS, sizeof *watch->counters);
    watch->round = ++last_round;
    if (!watch->clocks || (fences_alone && !watch->shown) || !watch->fenced || !watch->taken ||
        !watch->fresh || !watch->fresh_lane || !watch->fencers || !watch->meetings ||
        !watch->exchanges || !watch->rounds || !watch->shared_bytes || !watch->effects ||
        !watch->doubtful || !watch->met || !watch->added || !watch->added_behind ||
        !watch->counters) {
        watch_close(watch);
        return NULL;
    }
    for (size_t g = 0; g < count; g++) watch->clocks[g * count + g] = 1;
    return watch;
}

void watch_close(Watch *watch) {
    if (!watch) return;
    for (size_t i = 0; watch->counters && i < watch->counter_room; i++)
        free(watch->counters[i].clocks);
    free(watch->counters);
    free(watch->clocks);
    free(watch->fenced);
    free(watch->taken);
    free(watch->shown);
    free(watch->fresh);
    free(watch->fresh_lane);
    free(watch->fencers);
    free(watch->meetings);
    free(watch->exchanges);
    free(watch->rounds);
    free(watch->shared_bytes);
    free(watch->effects);
    free(watch->doubtful);
    free(watch->met);
    free(watch->added);
    free(watch->added_behind);
    free(watch);
}

static void join(uint32_t *into, const uint32_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) into[i] = from[i] > into[i] ? from[i] : into[i];
}

static uint32_t *row(uint32_t *table, const Watch *watch, uint32_t group) {
    return table + (size_t)group * watch->count;
}

void watch_block(Watch *watch, uint32_t block, const void *begin, size_t bytes) {
    (void)begin;
    watch->rounds[block] = ++last_round;
    watch->shared_bytes[block] = bytes;
}

/* What a lane has acquired, all of its group have. */
static void share_fresh(Watch *watch, uint32_t g) {
    join(row(watch->clocks, watch, g), row(watch->fresh, watch, g), watch->count);
    if (watch->shown) join(row(watch->shown, watch, g), row(watch->fresh, watch, g), watch->count);
}

void watch_group_meets(Watch *watch, uint32_t block, uint32_t group, bool memory) {
    const uint32_t g = block * watch->groups + group;
    watch->meetings[g] += memory;
    watch->exchanges[g]++;
    if (memory) share_fresh(watch, g);
}

/* What one of a block's groups knows, all know. */
static void join_block(const Watch *watch, uint32_t *table, uint32_t first) {
    uint32_t *all = row(table, watch, first);
    for (uint32_t g = first + 1; g < first + watch->groups; g++)
        join(all, row(table, watch, g), watch->count);
    for (uint32_t g = first + 1; g < first + watch->groups; g++)
        memcpy(row(table, watch, g), all, watch->count * sizeof *all);
}

void watch_block_meets(Watch *watch, uint32_t block) {
    const uint32_t first = block * watch->groups, last = first + watch->groups;
    for (uint32_t g = first; g < last; g++) share_fresh(watch, g);
    join_block(watch, watch->clocks, first);
    if (watch->shown) join_block(watch, watch->shown, first);
    for (uint32_t g = first; g < last; g++) {
        row(watch->clocks, watch, g)[g]++;
        watch->meetings[g]++;
        watch->exchanges[g]++;
        watch->doubtful[g] = false;
        watch->met[g] = watch->sequence;
    }
}

static void acquire(Watch *watch, uint32_t g, uint8_t lane) {
    uint32_t *fresh = row(watch->fresh, watch, g);
    if (watch->fresh_lane[g] != lane) share_fresh(watch, g); /* there is room for one lane's */
    watch->fresh_lane[g] = lane;
    join(fresh, row(watch->taken, watch, g), watch->count);
}

/* What a later atomic of the lane gives to those who acquire it. */
static void release(Watch *watch, uint32_t g, uint8_t lane) {
    uint32_t *clocks = row(watch->clocks, watch, g), *given = clocks;
    uint32_t *fenced = row(watch->fenced, watch, g);
    if (watch->shown) {
        given = row(watch->shown, watch, g);
        given[g] = clocks[g];
    }
    memcpy(fenced, given, watch->count * sizeof *given);
    if (watch->fresh_lane[g] == lane) join(fenced, row(watch->fresh, watch, g), watch->count);
    watch->fencers[g] |= 1u << lane;
    clocks[g]++;
}

void watch_fence(Watch *watch, uint32_t block, uint32_t thread, bool acquires, bool releases) {
    const uint32_t g = block * watch->groups + thread / LANES;
    if (acquires) acquire(watch, g, thread % LANES);
    if (releases) release(watch, g, thread % LANES);
}

/* Where the counter is or belongs. */
static Counter *counter_slot(Counter *counters, size_t room, const void *address) {
    size_t slot = (size_t)((uintptr_t)address * 0x9e3779b97f4a7c15u >> 32) % room;
    while (counters[slot].address && counters[slot].address != address) slot = (slot + 1) % room;
    return &counters[slot];
}

static bool more_counters(Watch *watch) {
    const size_t room = 2 * watch->counter_room;
    Counter *counters = room > CLOCKS_MAX / watch->count ? NULL : calloc(room, sizeof *counters);
    if (!counters) return false;
    for (size_t i = 0; i < watch->counter_room; i++)
        if (watch->counters[i].address)
            *counter_slot(counters, room, watch->counters[i].address) = watch->counters[i];
    free(watch->counters);
    watch->counters = counters;
    watch->counter_room = room;
    return true;
}

static Counter *counter_at(Watch *watch, const void *address) {
    Counter *found = counter_slot(watch->counters, watch->counter_room, address);
    if (found->address) return found;
    if (2 * watch->counter_count >= watch->counter_room) {
        if (!more_counters(watch)) return NULL;
        found = counter_slot(watch->counters, watch->counter_room, address);
    }
    found->clocks = calloc((size_t)watch->count * watch->carried, sizeof *found->clocks);
    if (!found->clocks) return NULL;
    found->address = address;
    watch->counter_count++;
    return found;
}

bool watch_counts(const Watch *watch, const void *address) {
    return counter_slot(watch->counters, watch->counter_room, address)->address != NULL;
}

/* What an addition has carried, so many ahead of the last one; of a counter that weak memory looks
 * back at there are as many rows as may be asked for. */
static uint32_t *carried(const Watch *watch, const Counter *counter, uint32_t back) {
    return row(counter->clocks, watch, (counter->additions - back) % watch->carried);
}

const char *watch_atomic(Watch *watch, const WatchAtomic *atomic) {
    const uint32_t g = atomic->block * watch->groups + atomic->thread / LANES;
    const uint8_t lane = atomic->thread % LANES;
    Counter *found = watch->full ? NULL : counter_at(watch, atomic->counter);
    watch->full = !found;
    if (!found) return NULL;
    if (!found->user) found->user = atomic->block + 1;
    found->shared |= found->user != atomic->block + 1;
    found->narrow |= !atomic->device;
    if (found->shared && found->narrow)
        return "blocks share a counter, and an atomic on it does not reach beyond its block";
    if (atomic->adds) {
        watch->added[g] = ++watch->sequence;
        watch->added_behind[g] = watch->met[g];
        if (atomic->releases) release(watch, g, lane);
        found->adder = g;
        found->adder_clock = row(watch->clocks, watch, g)[g];
    }
    join(row(watch->taken, watch, g), carried(watch, found, atomic->back), watch->count);
    if (atomic->adds) {
        const uint32_t *before = carried(watch, found, 0);
        found->additions++;
        uint32_t *now = carried(watch, found, 0);
        if (now != before) memcpy(now, before, watch->count * sizeof *now);
        if (watch->fencers[g] >> lane & 1) join(now, row(watch->fenced, watch, g), watch->count);
    }
    if (atomic->acquires) acquire(watch, g, lane);
    return NULL;
}

/* When the lane knows of the other group's doings last. */
static uint32_t known(const Watch *watch, uint32_t group, uint8_t lane, uint32_t other) {
    const size_t at = (size_t)group * watch->count + other;
    const bool own = watch->fresh_lane[group] == lane && watch->fresh[at] > watch->clocks[at];
    return own ? watch->fresh[at] : watch->clocks[at];
}

/* A plain read of what blocks add to, while others may: a compiler may keep what it has read. */
static bool is_torn(const Watch *watch, const void *address, uint32_t group, uint8_t lane) {
    const Counter *found = counter_slot(watch->counters, watch->counter_room, address);
    return found->address && found->adder_clock &&
           found->adder / watch->groups != group / watch->groups &&
           found->adder_clock > known(watch, group, lane, found->adder);
}

/* Whether the earlier access is ordered before what the thread does now. */
static bool is_ordered(Watch *watch, const Mark *mark, bool is_read, uint32_t round,
                       const Mark *now) {
    if (mark->round != round) return true;
    if (mark->group != now->group)
        return mark->clock <= known(watch, now->group, now->lane, mark->group);
    const uint32_t *met = is_read ? watch->exchanges : watch->meetings;
    return mark->lane == now->lane || mark->meeting != met[now->group];
}

static const char *complain(Watch *watch, const WatchAccess *access, const Mark *mark,
                            bool other_writes, bool shared) {
    snprintf(watch->message, sizeof watch->message,
             "it %s %s memory that thread %u of block %u %s, and nothing orders the two",
             access->writes ? "writes" : "reads", shared ? "shared" : "device",
             mark->group % watch->groups * LANES + mark->lane, mark->group / watch->groups,
             other_writes ? "has written" : "has read");
    return watch->message;
}

/* Whether the group has done since what others can see, and might have done otherwise had it read
 * something else. All blocks add to a counter behind their barriers, whatever they have read. */
static bool has_acted(const Watch *watch, const Mark *reader) {
    const uint16_t g = reader->group;
    return watch->effects[g] > reader->sequence ||
           (watch->added[g] > reader->sequence && watch->added_behind[g] <= reader->sequence);
}

/* Device memory that one thread reads while another writes it may be a number that the first will
 * not use: its group has no work, or its lane is beyond the last column. Of groups what they write
 * next, up to a barrier, tells; of lanes of one group nothing here does, but the bits of the
 * result.
 */
static const char *doubt(Watch *watch, const WatchAccess *access, const Mark *writer,
                         const Mark *reader, bool shared) {
    if (!shared && writer->group == reader->group) return NULL;
    if (!shared && !has_acted(watch, reader)) {
        watch->doubtful[reader->group] = true;
        return NULL;
    }
    return complain(watch, access, access->writes ? reader : writer, !access->writes, shared);
}

static const char *touch(Watch *watch, const WatchAccess *access, Cell *cell, uint32_t round,
                         const Mark *now, bool shared) {
    const char *wrong = NULL;
    if (!is_ordered(watch, &cell->write, false, round, now))
        wrong = access->writes ? complain(watch, access, &cell->write, true, shared)
                               : doubt(watch, access, &cell->write, now, shared);
    if (wrong) return wrong;
    if (!access->writes) {
        if (shared && cell->write.round != round)
            return "it reads shared memory nobody has written";
        const bool own = cell->reads[0].round != round || cell->reads[0].group == now->group;
        /* of its own group's two readers, one from another lane is worth more */
        cell->reads[own && cell->reads[0].round == round && cell->reads[0].lane != now->lane &&
                            cell->reads[1].round != round
                        ? 1
                        : !own] = *now;
        return NULL;
    }
    for (int i = 0; i < 2 && !wrong; i++)
        if (!is_ordered(watch, &cell->reads[i], true, round, now))
            wrong = doubt(watch, access, now, &cell->reads[i], shared);
    *cell = (Cell){.write = *now};
    return wrong;
}

static void split_word(Page *page, size_t word) {
    Cell *cells = &page->cells[WORD * word];
    for (size_t k = 1; k < WORD; k++) cells[k] = cells[0];
    page->split[word] = true;
}

static bool is_shared_access(const Watch *watch, const WatchAccess *access) {
    return (uintptr_t)access->address - (uintptr_t)access->shared <
           watch->shared_bytes[access->block];
}

uint64_t watch_place(const Watch *watch, const WatchAccess *access) {
    const uintptr_t address = (uintptr_t)access->address;
    if (!is_shared_access(watch, access)) return (uint64_t)address;
    return (uint64_t)1 << 63 | (uint64_t)access->block << 32 |
           (address - (uintptr_t)access->shared);
}

const char *watch_access(Watch *watch, const WatchAccess *access) {
    const uint32_t block = access->block, group = block * watch->groups + access->thread / LANES;
    const bool is_shared = is_shared_access(watch, access);
    const uint32_t round = is_shared ? watch->rounds[block] : watch->round;
    const uint64_t place = watch_place(watch, access);
    const Mark now = {.round = round,
                      .clock = row(watch->clocks, watch, group)[group],
                      .meeting = (access->writes ? watch->meetings : watch->exchanges)[group],
                      .sequence = ++watch->sequence,
                      .group = (uint16_t)group,
                      .lane = (uint8_t)(access->thread % LANES)};
    if (access->writes) {
        watch->effects[group] = now.sequence;
        if (watch->doubtful[group])
            return "it writes, and its group has read device memory that another wrote meanwhile";
    }
    if (!access->writes && !is_shared && is_torn(watch, access->address, group, now.lane))
        return "it reads a counter that another block adds to, and no atomic does the reading";
    for (size_t i = 0, bytes; i < access->bytes && !watch->full; i += bytes) {
        Page *page = page_at(watch, (place + i) / PAGE);
        if (!page) break;
        Cell *cell = &page->cells[(place + i) % PAGE];
        bool *split = &page->split[(place + i) % PAGE / WORD];
        const bool whole = (place + i) % WORD == 0 && access->bytes - i >= WORD;
        bytes = whole ? WORD : 1;
        if (!whole && !*split) split_word(page, (place + i) % PAGE / WORD);
        for (size_t k = 0; k < (*split ? bytes : 1); k++) {
            const char *wrong = touch(watch, access, cell + k, round, &now, is_shared);
            if (wrong) return wrong;
        }
        if (whole && access->writes) *split = false; /* the four are alike again */
    }
    return NULL;
}

WatchTime watch_time(const Watch *watch, uint32_t block, uint32_t thread) {
    const uint32_t group = block * watch->groups + thread / LANES;
    return (WatchTime){.clock = row(watch->clocks, watch, group)[group],
                       .meeting = watch->meetings[group],
                       .group = (uint16_t)group,
                       .lane = (uint8_t)(thread % LANES)};
}

bool watch_ordered(const Watch *watch, const WatchTime *then, uint32_t block, uint32_t thread) {
    const uint32_t group = block * watch->groups + thread / LANES;
    if (then->group != group)
        return then->clock <= known(watch, group, thread % LANES, then->group);
    return then->lane == thread % LANES || then->meeting != watch->meetings[group];
}

static uint64_t hash_words(uint64_t hash, const uint32_t *words, size_t count) {
    for (size_t i = 0; i < count; i++) hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    return hash;
}

static uint64_t hash_counter(const Watch *watch, const Counter *counter) {
    const uint32_t users[] = {counter->user, counter->shared, counter->narrow, counter->adder,
                              counter->adder_clock};
    uint64_t hash = hash_words((uintptr_t)counter->address, users, sizeof users / sizeof users[0]);
    for (uint32_t back = 0; back < watch->carried; back++)
        hash = hash_words(hash, carried(watch, counter, back), watch->count);
    return hash;
}

uint64_t watch_hash(const Watch *watch) {
    const size_t count = watch->count, all = count * count;
    uint64_t hash = hash_words(0x2545f4914f6cdd1du, watch->clocks, all);
    hash = hash_words(hash, watch->fenced, all);
    hash = hash_words(hash, watch->taken, all);
    if (watch->shown) hash = hash_words(hash, watch->shown, all);
    hash = hash_words(hash, watch->fresh, all);
    hash = hash_words(hash, watch->fencers, count);
    hash = hash_words(hash, watch->meetings, count);
    for (size_t g = 0; g < count; g++) {
        const uint32_t lane = watch->fresh_lane[g];
        hash = hash_words(hash, &lane, 1);
    }
    for (size_t i = 0; i < watch->counter_room; i++) /* the sum: in any order */
        if (watch->counters[i].address) hash += hash_counter(watch, &watch->counters[i]);
    return hash;
}
