/* cache.c: the caches between a wave and the memory that all blocks see, where memory is weak.
 *
 * gfx942: a block's own, as if each ran on a die of its own: the first cache and the die's second
 * one. A store stays there until it is written back: by buffer_wbl2, or earlier if the seed says
 * so; a store with sc1 goes through. What a load has found stays, stale or not, until buffer_inv
 * sc1; a load with sc1 finds what memory has, or what its own block has stored.
 *
 * gfx1151: each wave's own first cache (a block's waves may be on two compute units), up to
 * buffer_gl0_inv, and a block's second one, up to buffer_gl1_inv. Stores go through both.
 *
 * See "Memory Model" of LLVM's "User Guide for AMDGPU Backend". */
#include <stdlib.h>
#include <string.h>

#include "wave.h"

enum { WORD = 4, FIRST_ROOM = 256 };

typedef struct Line {                        /* a word */
    u64 word;                                /* its address; 0: none */
    unsigned char bytes[WORD], valid, dirty; /* masks: what is here; what memory does not have */
} Line;

struct Cache {
    Line *lines; /* hashed by address, never more than half full */
    u32 room, count;
};

static Line *slot_of(Line *lines, u32 room, u64 word) {
    u32 slot = (u32)(word * 0x9e3779b97f4a7c15u >> 32) % room;
    while (lines[slot].word && lines[slot].word != word) slot = (slot + 1) % room;
    return &lines[slot];
}

static bool grow(Cache *cache) {
    const u32 room = cache->room ? 2 * cache->room : FIRST_ROOM;
    Line *lines = calloc(room, sizeof *lines);
    if (!lines) return false;
    for (u32 i = 0; i < cache->room; i++)
        if (cache->lines[i].word) *slot_of(lines, room, cache->lines[i].word) = cache->lines[i];
    free(cache->lines);
    cache->lines = lines;
    cache->room = room;
    return true;
}

static Line *find(const Cache *cache, u64 word) {
    if (!cache->room) return NULL;
    Line *line = slot_of(cache->lines, cache->room, word);
    return line->word ? line : NULL;
}

static Line *make(Wave *wave, Cache *cache, u64 word) {
    if (2 * cache->count >= cache->room && !grow(cache)) {
        amd_fail(wave, "out of memory");
        return NULL;
    }
    Line *line = slot_of(cache->lines, cache->room, word);
    cache->count += line->word == 0;
    line->word = word;
    return line;
}

Cache *amd_cache_open(size_t count) {
    return calloc(count, sizeof(Cache));
}

Cache *amd_cache_at(Cache *caches, size_t index) {
    return &caches[index];
}

void amd_cache_close(Cache *caches, size_t count) {
    for (size_t i = 0; caches && i < count; i++) free(caches[i].lines);
    free(caches);
}

void amd_cache_write_back(Cache *cache) {
    for (u32 i = 0; i < cache->room; i++) {
        Line *line = &cache->lines[i];
        for (u32 b = 0; b < WORD; b++)
            if (line->dirty >> b & 1) ((unsigned char *)(uintptr_t)line->word)[b] = line->bytes[b];
        line->dirty = 0;
    }
}

void amd_cache_empty(Cache *cache) {
    for (u32 i = 0; i < cache->room; i++) cache->lines[i].valid = cache->lines[i].dirty;
}

/* Of the byte, in this cache, what a load finds; -1: it is not here. */
static int found_in(const Cache *cache, u64 word, u32 b, bool only_dirty) {
    const Line *line = find(cache, word);
    if (!line || !((only_dirty ? line->dirty : line->valid) >> b & 1)) return -1;
    return line->bytes[b];
}

static void keep(Wave *wave, Cache *cache, u64 word, u32 b, unsigned char value) {
    Line *line = make(wave, cache, word);
    if (!line) return;
    line->bytes[b] = value;
    line->valid |= (unsigned char)(1u << b);
}

void amd_cache_read(Wave *wave, const unsigned char *from, unsigned char *to, u32 bytes,
                    bool coherent) {
    const bool is_11 = wave->run->module->program.is_11;
    Cache *first = wave->cache, *second = wave->block->cache;
    const bool stays = amd_random(wave->run, 2) == 0;
    for (u32 i = 0; i < bytes; i++) {
        const u64 place = (u64)(uintptr_t)(from + i), word = place / WORD * WORD;
        const u32 b = (u32)(place - word);
        int found = is_11 && !coherent ? found_in(first, word, b, false) : -1;
        if (found < 0 && !(is_11 && coherent)) found = found_in(second, word, b, coherent);
        to[i] = found < 0 ? from[i] : (unsigned char)found;
        if (coherent || !stays) continue;
        if (is_11) keep(wave, first, word, b, to[i]);
        keep(wave, second, word, b, to[i]);
    }
}

/* The byte in a cache, if it is there. */
static void update(Cache *cache, u64 word, u32 b, unsigned char value) {
    Line *line = find(cache, word);
    if (line && line->valid >> b & 1) line->bytes[b] = value;
}

void amd_cache_write(Wave *wave, unsigned char *to, const unsigned char *from, u32 bytes,
                     bool coherent) {
    const bool is_11 = wave->run->module->program.is_11;
    const bool waits = !is_11 && !coherent && amd_random(wave->run, 4) > 0;
    for (u32 i = 0; i < bytes; i++) {
        const u64 place = (u64)(uintptr_t)(to + i), word = place / WORD * WORD;
        const u32 b = (u32)(place - word);
        if (!waits) to[i] = from[i];
        if (is_11) update(wave->cache, word, b, from[i]);
        if (is_11) update(wave->block->cache, word, b, from[i]);
        Line *line = is_11 ? NULL : make(wave, wave->block->cache, word);
        if (!line) continue;
        const unsigned char bit = (unsigned char)(1u << b);
        line->bytes[b] = from[i];
        line->valid |= bit;
        line->dirty = waits ? line->dirty | bit : line->dirty & (unsigned char)~bit;
    }
}

void amd_cache_drop(Wave *wave, unsigned char *at, u32 bytes) {
    for (u32 i = 0; i < bytes; i += WORD) {
        const u64 word = (u64)(uintptr_t)(at + i) / WORD * WORD;
        Line *own = find(wave->cache, word), *line = find(wave->block->cache, word);
        if (own) own->valid = 0;
        for (u32 b = 0; line && b < WORD; b++)
            if (line->dirty >> b & 1) ((unsigned char *)(uintptr_t)word)[b] = line->bytes[b];
        if (line) line->valid = line->dirty = 0;
    }
}
