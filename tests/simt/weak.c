/* weak.c: see weak.h. An undo log for each word of 4 bytes: the stores to it, youngest first, each
 * with the bytes it wrote over. */
#include "weak.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 4, PAGE = 1024, BUCKETS = 1 << 10, DEEPEST = 8, SETTLED_MAX = 64 };

typedef struct Store {
    uint32_t older; /* 0: none */
    unsigned char mask, old[WORD];
    WatchTime when;
} Store;

typedef struct Page {
    uint64_t number;
    unsigned char *data; /* where the page lies for its thread */
    struct Page *next;
    uint32_t youngest[PAGE / WORD]; /* of `stores`; 0: none */
} Page;

typedef struct Shown { /* a word that is not the youngest for now */
    unsigned char *at, mask, youngest[WORD];
} Shown;

struct Weak {
    const Watch *watch;
    WeakChoose choose;
    void *data;
    bool exhaustive, full;
    Page *pages[BUCKETS];
    Store *stores;
    uint32_t count, room;
    Shown shown[SETTLED_MAX];
    uint32_t shown_count;
    uint32_t seen; /* of the read that is under way: stores up to this one */
    uint64_t stale;
};

Weak *weak_open(const Watch *watch, WeakChoose choose, void *data, bool exhaustive) {
    Weak *weak = calloc(1, sizeof *weak);
    if (!weak) return NULL;
    weak->watch = watch;
    weak->choose = choose;
    weak->data = data;
    weak->exhaustive = exhaustive;
    weak->count = 1;
    return weak;
}

void weak_close(Weak *weak) {
    if (!weak) return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (Page *page = weak->pages[i], *next; page; page = next) {
            next = page->next;
            free(page);
        }
    free(weak->stores);
    free(weak);
}

uint64_t weak_stale(const Weak *weak) {
    return weak->stale;
}

bool weak_is_full(const Weak *weak) {
    return weak->full;
}

void weak_settle(Weak *weak) {
    for (uint32_t i = 0; i < weak->shown_count; i++) {
        const Shown *shown = &weak->shown[i];
        for (int b = 0; b < WORD; b++)
            if (shown->mask >> b & 1) shown->at[b] = shown->youngest[b];
    }
    weak->shown_count = 0;
}

static size_t bucket_of(uint64_t number) {
    return number * 0x9e3779b97f4a7c15u >> 54;
}

static Page *find_page(const Weak *weak, uint64_t place) {
    const uint64_t number = place / PAGE;
    Page *page = weak->pages[bucket_of(number)];
    while (page && page->number != number) page = page->next;
    return page;
}

/* Makes it if it is not there. */
static Page *page_of(Weak *weak, uint64_t place) {
    Page *page = find_page(weak, place);
    if (page) return page;
    page = calloc(1, sizeof *page);
    if (!page) {
        weak->full = true;
        return NULL;
    }
    page->number = place / PAGE;
    Page **bucket = &weak->pages[bucket_of(page->number)];
    page->next = *bucket;
    return *bucket = page;
}

/* The bytes of a word that lie in [place, place + bytes), as a mask; its first byte's place. */
static unsigned char mask_of(uint64_t word, uint64_t place, size_t bytes) {
    unsigned mask = 0;
    for (unsigned b = 0; b < WORD; b++)
        if (word + b >= place && word + b < place + bytes) mask |= 1u << b;
    return (unsigned char)mask;
}

static bool is_seen(const Weak *weak, uint32_t store, const WatchAccess *access) {
    return store <= weak->seen ||
           watch_ordered(weak->watch, &weak->stores[store].when, access->block, access->thread);
}

/* How many stores to the bytes the thread may not have seen yet; at most DEEPEST. */
static uint32_t count_unseen(const Weak *weak, uint32_t youngest, unsigned char mask,
                             const WatchAccess *access) {
    uint32_t count = 0;
    for (uint32_t i = youngest; i && mask && count < DEEPEST; i = weak->stores[i].older) {
        const Store *store = &weak->stores[i];
        if (!(store->mask & mask)) continue;
        if (is_seen(weak, i, access))
            mask &= (unsigned char)~store->mask;
        else
            count++;
    }
    return count;
}

/* Takes so many of them back in what lies at `at`, and says which was the last one. */
static uint32_t take_back(Weak *weak, unsigned char *at, uint32_t youngest, unsigned char mask,
                          const WatchAccess *access, uint32_t count) {
    Shown *shown = &weak->shown[weak->shown_count++];
    shown->at = at;
    shown->mask = mask;
    for (int b = 0; b < WORD; b++)
        if (mask >> b & 1) shown->youngest[b] = at[b];
    uint32_t last = youngest;
    for (uint32_t i = youngest; i && mask && count > 0; i = weak->stores[i].older) {
        const Store *store = &weak->stores[i];
        if (!(store->mask & mask)) continue;
        if (is_seen(weak, i, access)) {
            mask &= (unsigned char)~store->mask;
            continue;
        }
        for (int b = 0; b < WORD; b++)
            if (store->mask & mask & 1 << b) at[b] = store->old[b];
        last = i;
        count--;
    }
    return last;
}

uint32_t weak_read(Weak *weak, const WatchAccess *access, uint32_t *seen) {
    const uint64_t place = watch_place(weak->watch, access);
    unsigned char *address = (unsigned char *)(uintptr_t)access->address;
    uint32_t first_unseen = weak->count, count = 0;
    weak->seen = seen ? *seen : 0;
    for (uint64_t word = place / WORD * WORD; word < place + access->bytes; word += WORD) {
        const Page *page = find_page(weak, word);
        const uint32_t last = page ? page->youngest[word % PAGE / WORD] : 0;
        if (!last || weak->shown_count == SETTLED_MAX) continue;
        const unsigned char mask = mask_of(word, place, access->bytes);
        const uint32_t unseen = count_unseen(weak, last, mask, access);
        count = unseen ? weak->choose(weak->data, unseen + 1) : 0;
        if (count == 0) continue;
        first_unseen =
            take_back(weak, address + (ptrdiff_t)(word - place), last, mask, access, count);
        weak->stale++;
    }
    if (seen) *seen = first_unseen - 1;
    return count;
}

uint32_t weak_younger(const Weak *weak, const WatchAccess *access, uint32_t seen) {
    const uint64_t place = watch_place(weak->watch, access);
    uint32_t count = 0;
    for (uint64_t word = place / WORD * WORD; word < place + access->bytes; word += WORD) {
        const Page *page = find_page(weak, word);
        for (uint32_t i = page ? page->youngest[word % PAGE / WORD] : 0; i > seen;
             i = weak->stores[i].older)
            count++;
    }
    return count;
}

static bool is_again(const Weak *weak, uint32_t last, unsigned char mask, const WatchTime *now) {
    const Store *store = &weak->stores[last];
    return !weak->exhaustive && last && (store->mask & mask) == mask &&
           store->when.group == now->group && store->when.lane == now->lane &&
           store->when.clock == now->clock && store->when.meeting == now->meeting;
}

static uint32_t new_store(Weak *weak) {
    if (weak->count == weak->room || !weak->stores) {
        const uint32_t room = weak->room ? 2 * weak->room : 1024;
        Store *stores = room > weak->room ? realloc(weak->stores, room * sizeof *stores) : NULL;
        if (!stores) {
            weak->full = true;
            return 0;
        }
        weak->stores = stores;
        weak->room = room;
    }
    return weak->count++;
}

void weak_write(Weak *weak, const WatchAccess *access) {
    const uint64_t place = watch_place(weak->watch, access);
    const WatchTime now = watch_time(weak->watch, access->block, access->thread);
    unsigned char *address = (unsigned char *)(uintptr_t)access->address;
    for (uint64_t word = place / WORD * WORD; word < place + access->bytes; word += WORD) {
        Page *page = weak->full ? NULL : page_of(weak, word);
        if (!page) return;
        uint32_t *last = &page->youngest[word % PAGE / WORD];
        const unsigned char mask = mask_of(word, place, access->bytes);
        if (*last && is_again(weak, *last, mask, &now)) continue;
        const uint32_t made = new_store(weak);
        if (!made) return;
        unsigned char *at = address + (ptrdiff_t)(word - place);
        Store *store = &weak->stores[made];
        *store = (Store){.older = *last, .mask = mask, .when = now};
        for (int b = 0; b < WORD; b++)
            if (mask >> b & 1) store->old[b] = at[b];
        page->data = at - word % PAGE;
        *last = made;
    }
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 31;
}

static uint64_t hash_word(const Weak *weak, const Page *page, uint32_t word) {
    uint64_t hash = mix(page->number, word);
    unsigned char written = 0;
    for (uint32_t i = page->youngest[word]; i; i = weak->stores[i].older) {
        const Store *store = &weak->stores[i];
        uint32_t old;
        memcpy(&old, store->old, sizeof old);
        written |= store->mask;
        hash = mix(hash, (uint64_t)old << 8 | store->mask);
        hash = mix(hash, (uint64_t)store->when.clock << 32 | store->when.meeting);
        hash = mix(hash, (uint64_t)store->when.group << 8 | store->when.lane);
    }
    for (int b = 0; b < WORD; b++)
        if (written >> b & 1) hash = mix(hash, page->data[WORD * word + (uint32_t)b]);
    return hash;
}

uint64_t weak_hash(const Weak *weak) {
    uint64_t hash = 0; /* the sum over words: in any order */
    for (size_t i = 0; i < BUCKETS; i++)
        for (const Page *page = weak->pages[i]; page; page = page->next)
            for (uint32_t word = 0; word < PAGE / WORD; word++)
                if (page->youngest[word] && !(page->number * PAGE >> 63))
                    hash += hash_word(weak, page, word);
    return hash;
}
