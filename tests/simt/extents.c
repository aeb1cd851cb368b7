/* extents.c: see extents.h. A sorted array, in which neighbours may meet and none overlap. */
#include "extents.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 48 };
typedef struct Extent {
    uintptr_t begin, end;
    char name[NAME_SIZE];
} Extent;
static Extent *extents;
static size_t extent_count, extent_room, recent;

/* How many begin at or before the address. */
static size_t begun(uintptr_t address) {
    size_t first = 0, count = extent_count;
    while (count > 0) {
        const size_t half = count / 2;
        if (extents[first + half].begin <= address)
            first += half + 1, count -= half + 1;
        else
            count = half;
    }
    return first;
}

void simt_extents_add(const void *begin, size_t bytes, const char *name) {
    Extent added = {.begin = (uintptr_t)begin, .end = (uintptr_t)begin + bytes};
    if (bytes == 0) return;
    snprintf(added.name, sizeof added.name, "%s", name);
    size_t first = begun(added.begin), last = first;
    if (first > 0 && extents[first - 1].end > added.begin) first--;
    for (; last < extent_count && extents[last].begin < added.end; last++)
        ;
    for (size_t i = first; i < last; i++) {
        if (extents[i].begin < added.begin) added.begin = extents[i].begin;
        if (extents[i].end > added.end) added.end = extents[i].end;
    }
    if (extent_count + 1 > extent_room) {
        extent_room = 2 * extent_room + 64;
        extents = realloc(extents, extent_room * sizeof *extents);
        if (!extents) abort();
    }
    memmove(extents + first + 1, extents + last, (extent_count - last) * sizeof *extents);
    extents[first] = added;
    extent_count += 1 + first - last;
    recent = 0;
}

void simt_extents_clear(void) {
    extent_count = 0;
}

const char *simt_extents_touch(const void *address, size_t bytes) {
    static char message[200];
    const uintptr_t begin = (uintptr_t)address, end = begin + bytes;
    if (extent_count == 0) return NULL;
    if (recent < extent_count && extents[recent].begin <= begin && end <= extents[recent].end)
        return NULL;
    const size_t next = begun(begin);
    recent = next ? next - 1 : 0;
    const Extent *found = &extents[recent];
    if (next && end <= found->end) return NULL;
    if (next && begin < found->end)
        snprintf(message, sizeof message, "it touches what no array has, across the end of %s",
                 found->name);
    else if (next && (next == extent_count || begin - found->end < extents[next].begin - begin))
        snprintf(message, sizeof message,
                 "it touches what no array has, %zu bytes behind the end of %s",
                 (size_t)(begin - found->end), found->name);
    else
        snprintf(message, sizeof message, "it touches what no array has, %zu bytes ahead of %s",
                 (size_t)(extents[next].begin - begin), extents[next].name);
    return message;
}
