/* memory_pool.c: the reserve: large pieces of device memory, cut into the ranges that allocations
 * are.
 *
 * A range that was given up is handed out again at once and without a call of the driver: what its
 * next holder queues on the context's one stream comes after what the last one queued. So a steady
 * state makes no driver call, and the driver's own freeing, which waits for the device, never
 * happens in the middle of work. Vendors have pools too (cuMemAllocAsync, hipMallocAsync). They are
 * not used: they do not say what is free inside them nor in which pieces, their memory is bound to
 * the stream or the graph that it was made in, and every driver version, and a CPU, has another
 * behaviour or none. This one is the same on every device, and its figures are exact.
 *
 * Allocations under 1 MiB come from small chunks, others from large ones, so that a few bytes do
 * not keep a large piece in use. The smallest free range that fits is cut; a free range joins free
 * neighbours. On a CPU, chunks of 2 MiB and more are on huge pages, where the system has them, and
 * stay: a fresh page costs more than writing to it. LOCKSTEP_POOL=off makes every allocation the
 * driver's own, for tools that watch the ends of arrays. */
#include "runtime.h"

#include <stdlib.h>

enum { KIND_SMALL, KIND_LARGE };
enum {
    UNIT = 256,             /* of ranges: their alignment too */
    SMALL_LIMIT = 1 << 20,  /* smaller allocations are small */
    SMALL_CHUNK = 64 << 10, /* the first; later ones grow with the reserve */
    SMALL_CHUNK_MOST = 2 << 20,
    LARGE_UNIT = 2 << 20, /* devices' pages, and a CPU's huge ones */
    LARGE_CHUNK_MOST = 64 << 20,
    LARGE_SHARE = 2 /* a new large chunk is up to this part of what there is */
};

struct Chunk {
    Chunk *next;
    Range *first;
    void *memory;
    uint64_t bytes;
    int kind;
};

/* ---- structures of ranges ---- */

static Range *new_range(Reserve *reserve) {
    Range *made = reserve->spare;
    if (!made) return calloc(1, sizeof *made);
    reserve->spare = made->next;
    *made = (Range){0};
    return made;
}

static void drop_range(Reserve *reserve, Range *range) {
    range->next = reserve->spare;
    reserve->spare = range;
}

static size_t bin_of(uint64_t bytes) {
    return 63 - (size_t)__builtin_clzll(bytes);
}

static void put_in_bin(Reserve *reserve, Range *range) {
    Range **bin = &reserve->bins[range->chunk->kind][bin_of(range->bytes)];
    range->label = NULL;
    range->asked = 0;
    range->previous = NULL;
    range->next = *bin;
    if (*bin) (*bin)->previous = range;
    *bin = range;
}

static void take_from_bin(Reserve *reserve, Range *range) {
    Range **bin = &reserve->bins[range->chunk->kind][bin_of(range->bytes)];
    if (range->previous)
        range->previous->next = range->next;
    else
        *bin = range->next;
    if (range->next) range->next->previous = range->previous;
    range->previous = range->next = NULL;
}

/* ---- ranges ---- */

/* The smallest free range of a kind that holds `bytes`; NULL: there is none. */
static Range *find(const Reserve *reserve, int kind, uint64_t bytes) {
    Range *best = NULL;
    for (size_t bin = bin_of(bytes); bin < RESERVE_BINS && !best; bin++)
        for (Range *at = reserve->bins[kind][bin]; at; at = at->next) {
            if (at->bytes < bytes || (best && at->bytes >= best->bytes)) continue;
            best = at;
            if (best->bytes == bytes) return best; /* the steady state */
        }
    return best;
}

/* Takes the first `bytes` of a free range; the rest stays free. */
static ls_status cut(ls_context *context, const char *call, Range *range, uint64_t bytes) {
    Reserve *reserve = &context->memory.reserve;
    if (range->bytes == bytes) {
        take_from_bin(reserve, range);
        return LS_OK;
    }
    Range *rest = new_range(reserve);
    if (!rest) return error_memory(&context->error, call);
    take_from_bin(reserve, range);
    rest->chunk = range->chunk;
    rest->before = range;
    rest->after = range->after;
    rest->data = range->data + bytes;
    rest->bytes = range->bytes - bytes;
    if (rest->after) rest->after->before = rest;
    range->after = rest;
    range->bytes = bytes;
    put_in_bin(reserve, rest);
    return LS_OK;
}

/* `left` takes in its free neighbour; neither is in a bin. */
static void join(Reserve *reserve, Range *left) {
    Range *right = left->after;
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after) left->after->before = left;
    drop_range(reserve, right);
}

/* ---- chunks ---- */

/* Makes a chunk of one free range. LS_ERROR_MEMORY with *full: the device or the limit has no room.
 */
static ls_status add_chunk(ls_context *context, const char *call, int kind, uint64_t bytes,
                           bool *full) {
    Reserve *reserve = &context->memory.reserve;
    const uint64_t held = reserve->bytes[KIND_SMALL] + reserve->bytes[KIND_LARGE];
    *full = reserve->limit && (bytes > reserve->limit || held > reserve->limit - bytes);
    if (*full) return LS_ERROR_MEMORY;
    Chunk *chunk = calloc(1, sizeof *chunk);
    Range *range = new_range(reserve);
    if (!chunk || !range) {
        if (range) drop_range(reserve, range);
        free(chunk);
        return error_memory(&context->error, call);
    }
    ls_status status = context->driver->allocate(context->device, (size_t)bytes, &chunk->memory);
    reserve->driver_calls++;
    if (status != LS_OK) {
        *full = status == LS_ERROR_MEMORY;
        drop_range(reserve, range);
        free(chunk);
        return status;
    }
    chunk->kind = kind;
    chunk->bytes = bytes;
    chunk->first = range;
    chunk->next = reserve->chunks;
    reserve->chunks = chunk;
    *range = (Range){.chunk = chunk, .data = chunk->memory, .bytes = bytes};
    put_in_bin(reserve, range);
    reserve->chunk_count++;
    reserve->bytes[kind] += bytes;
    if (held + bytes > reserve->peak) reserve->peak = held + bytes;
    return LS_OK;
}

/* Takes a chunk, of which nothing is held, out of the list that *link begins. */
static void remove_chunk(ls_context *context, Chunk **link) {
    Reserve *reserve = &context->memory.reserve;
    Chunk *chunk = *link;
    *link = chunk->next;
    take_from_bin(reserve, chunk->first);
    drop_range(reserve, chunk->first);
    reserve->chunk_count--;
    reserve->bytes[chunk->kind] -= chunk->bytes;
    context->driver->release(context->device, chunk->memory);
    free(chunk);
}

static bool is_idle(const Chunk *chunk) {
    return !chunk->first->label && !chunk->first->after;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* How large a new chunk for `bytes` should be, and how large it must be. */
static uint64_t wanted_chunk(const Reserve *reserve, int kind, uint64_t bytes) {
    const uint64_t held = reserve->bytes[kind];
    uint64_t wanted = kind == KIND_SMALL ? SMALL_CHUNK : held / LARGE_SHARE;
    if (kind == KIND_SMALL) {
        while (wanted < held && wanted < SMALL_CHUNK_MOST) wanted *= 2;
        return round_up(wanted > bytes ? wanted : bytes, SMALL_CHUNK);
    }
    if (wanted > LARGE_CHUNK_MOST) wanted = LARGE_CHUNK_MOST;
    return round_up(wanted > bytes ? wanted : bytes, LARGE_UNIT);
}

/* A chunk with room for `bytes`: as large as it should be, else as small as it can be. */
static ls_status grow(ls_context *context, const char *call, int kind, uint64_t bytes, bool *full) {
    const Reserve *reserve = &context->memory.reserve;
    const uint64_t sizes[] = {wanted_chunk(reserve, kind, bytes),
                              round_up(bytes, kind == KIND_SMALL ? UNIT : LARGE_UNIT), bytes};
    ls_status status = LS_OK;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        if (i > 0 && sizes[i] >= sizes[i - 1]) continue;
        status = add_chunk(context, call, kind, sizes[i], full);
        if (!*full) return status;
    }
    return status;
}

ls_status reserve_trim(ls_context *context, uint64_t keep) {
    Reserve *reserve = &context->memory.reserve;
    uint64_t held = reserve->bytes[KIND_SMALL] + reserve->bytes[KIND_LARGE];
    bool waited = false;
    for (Chunk **link = &reserve->chunks; *link && held > keep;) {
        if (!is_idle(*link)) {
            link = &(*link)->next;
            continue;
        }
        ls_status status = waited ? LS_OK : context->driver->synchronize(context->device);
        if (status != LS_OK) return status;
        waited = true; /* what was queued no longer uses it */
        held -= (*link)->bytes;
        remove_chunk(context, link);
    }
    return LS_OK;
}

static bool has_idle(const Reserve *reserve) {
    for (const Chunk *at = reserve->chunks; at; at = at->next)
        if (is_idle(at)) return true;
    return false;
}

/* A free range for `bytes`: of a new chunk, of the other kind, or of a new chunk once idle ones are
 * given back. */
static ls_status provide(ls_context *context, const char *call, uint64_t bytes, Range **range,
                         bool *full) {
    Reserve *reserve = &context->memory.reserve;
    const int kind = bytes < SMALL_LIMIT ? KIND_SMALL : KIND_LARGE;
    const Error before = context->error;
    ls_status status = grow(context, call, kind, bytes, full);
    if (*full && (*range = find(reserve, kind == KIND_SMALL ? KIND_LARGE : KIND_SMALL, bytes)))
        status = LS_OK;
    if (status != LS_OK && *full && !context->capture && has_idle(reserve)) {
        log_write(LOG_INFO, "%s has no more memory: the free part of the reserve is given back",
                  context->device->name);
        status = reserve_trim(context, 0);
        *full = false;
        if (status == LS_OK) status = add_chunk(context, call, kind, bytes, full);
    }
    if (status != LS_OK) return status;
    context->error = before; /* what the driver said of a size that was too much is no failure */
    if (!*range) *range = find(reserve, kind, bytes);
    return LS_OK;
}

ls_status reserve_take(ls_context *context, const char *call, size_t bytes, Range **range,
                       bool *full) {
    Reserve *reserve = &context->memory.reserve;
    uint64_t length = bytes ? bytes : 1;
    ls_status status = LS_OK;
    *range = NULL;
    *full = length > INT64_MAX / 2;
    if (*full) return LS_ERROR_MEMORY;
    if (reserve->off) {
        status = add_chunk(context, call, KIND_LARGE, length, full);
        if (status == LS_OK) *range = reserve->chunks->first;
    } else {
        length = round_up(length, UNIT);
        *range = find(reserve, length < SMALL_LIMIT ? KIND_SMALL : KIND_LARGE, length);
        if (!*range) status = provide(context, call, length, range, full);
    }
    return status == LS_OK ? cut(context, call, *range, length) : status;
}

void reserve_give(ls_context *context, Range *range) {
    Reserve *reserve = &context->memory.reserve;
    if (range->after && !range->after->label) {
        take_from_bin(reserve, range->after);
        join(reserve, range);
    }
    if (range->before && !range->before->label) {
        range = range->before;
        take_from_bin(reserve, range);
        join(reserve, range);
    }
    put_in_bin(reserve, range);
    if (!reserve->off) return;
    context_settle(context);
    Chunk **link = &reserve->chunks;
    while (*link != range->chunk) link = &(*link)->next;
    remove_chunk(context, link);
}

void reserve_close(ls_context *context) {
    Reserve *reserve = &context->memory.reserve;
    while (reserve->chunks) {
        Chunk *chunk = reserve->chunks;
        reserve->chunks = chunk->next;
        context->driver->release(context->device, chunk->memory);
        for (Range *range = chunk->first, *after; range; range = after) {
            after = range->after;
            free(range);
        }
        free(chunk);
    }
    while (reserve->spare) {
        Range *range = reserve->spare;
        reserve->spare = range->next;
        free(range);
    }
    *reserve = (Reserve){0};
}

void reserve_statistics(const Reserve *reserve, ls_memory_statistics *statistics) {
    statistics->reserved = reserve->bytes[KIND_SMALL] + reserve->bytes[KIND_LARGE];
    statistics->reserved_peak = reserve->peak;
    statistics->limit = reserve->limit;
    statistics->chunks = reserve->chunk_count;
    statistics->driver_calls = reserve->driver_calls;
    for (size_t kind = 0; kind < RESERVE_KINDS; kind++)
        for (size_t bin = 0; bin < RESERVE_BINS; bin++)
            for (const Range *at = reserve->bins[kind][bin]; at; at = at->next) {
                statistics->free_bytes += at->bytes;
                statistics->free_ranges++;
                if (at->bytes > statistics->largest_free) statistics->largest_free = at->bytes;
            }
    statistics->rounding = statistics->reserved - statistics->free_bytes - statistics->in_use;
}
