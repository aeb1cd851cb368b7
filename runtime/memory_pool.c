/* memory_pool.c: the memory pool: large pieces of device memory, cut into the ranges that
 * allocations are.
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
    SMALL_CHUNK = 64 << 10, /* the first; later ones grow with the memory pool */
    SMALL_CHUNK_MAX = 2 << 20,
    LARGE_UNIT = 2 << 20, /* devices' pages, and a CPU's huge ones */
    LARGE_CHUNK_MAX = 64 << 20,
    LARGE_FRACTION = 2 /* a new large chunk is up to this part of what there is */
};

struct Chunk {
    Chunk *next;
    Range *first;
    void *memory;
    uint64_t bytes;
    int kind;
};

/* ---- structures of ranges ---- */

static Range *new_range(MemoryPool *pool) {
    Range *made = pool->spare;
    if (!made) return calloc(1, sizeof *made);
    pool->spare = made->next;
    *made = (Range){0};
    return made;
}

static void drop_range(MemoryPool *pool, Range *range) {
    range->next = pool->spare;
    pool->spare = range;
}

static size_t bin_of(uint64_t bytes) {
    return 63 - (size_t)__builtin_clzll(bytes);
}

static void put_in_bin(MemoryPool *pool, Range *range) {
    Range **bin = &pool->bins[range->chunk->kind][bin_of(range->bytes)];
    range->label = NULL;
    range->asked = 0;
    range->previous = NULL;
    range->next = *bin;
    if (*bin) (*bin)->previous = range;
    *bin = range;
}

static void take_from_bin(MemoryPool *pool, Range *range) {
    Range **bin = &pool->bins[range->chunk->kind][bin_of(range->bytes)];
    if (range->previous)
        range->previous->next = range->next;
    else
        *bin = range->next;
    if (range->next) range->next->previous = range->previous;
    range->previous = range->next = NULL;
}

/* ---- ranges ---- */

/* The smallest free range of a kind that holds `bytes`; NULL: there is none. */
static Range *find(const MemoryPool *pool, int kind, uint64_t bytes) {
    Range *best = NULL;
    for (size_t bin = bin_of(bytes); bin < POOL_BINS && !best; bin++)
        for (Range *at = pool->bins[kind][bin]; at; at = at->next) {
            if (at->bytes < bytes || (best && at->bytes >= best->bytes)) continue;
            best = at;
            if (best->bytes == bytes) return best; /* the steady state */
        }
    return best;
}

/* Takes the first `bytes` of a free range; the rest stays free. */
static ls_status cut(ls_context *context, const char *call, Range *range, uint64_t bytes) {
    MemoryPool *pool = &context->memory.pool;
    if (range->bytes == bytes) {
        take_from_bin(pool, range);
        return LS_OK;
    }
    Range *rest = new_range(pool);
    if (!rest) return error_memory(&context->error, call);
    take_from_bin(pool, range);
    rest->chunk = range->chunk;
    rest->before = range;
    rest->after = range->after;
    rest->data = range->data + bytes;
    rest->bytes = range->bytes - bytes;
    if (rest->after) rest->after->before = rest;
    range->after = rest;
    range->bytes = bytes;
    put_in_bin(pool, rest);
    return LS_OK;
}

/* `left` takes in its free neighbour; neither is in a bin. */
static void join(MemoryPool *pool, Range *left) {
    Range *right = left->after;
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after) left->after->before = left;
    drop_range(pool, right);
}

/* ---- chunks ---- */

/* Makes a chunk of one free range. LS_ERROR_MEMORY with *full: the device or the limit has no room.
 */
static ls_status add_chunk(ls_context *context, const char *call, int kind, uint64_t bytes,
                           bool *full) {
    MemoryPool *pool = &context->memory.pool;
    const uint64_t held = pool->bytes[KIND_SMALL] + pool->bytes[KIND_LARGE];
    *full = pool->limit && (bytes > pool->limit || held > pool->limit - bytes);
    if (*full) return LS_ERROR_MEMORY;
    Chunk *chunk = calloc(1, sizeof *chunk);
    Range *range = new_range(pool);
    if (!chunk || !range) {
        if (range) drop_range(pool, range);
        free(chunk);
        return error_memory(&context->error, call);
    }
    ls_status status = context->driver->allocate(context->device, (size_t)bytes, &chunk->memory);
    pool->driver_calls++;
    if (status != LS_OK) {
        *full = status == LS_ERROR_MEMORY;
        drop_range(pool, range);
        free(chunk);
        return status;
    }
    chunk->kind = kind;
    chunk->bytes = bytes;
    chunk->first = range;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    *range = (Range){.chunk = chunk, .data = chunk->memory, .bytes = bytes};
    put_in_bin(pool, range);
    pool->chunk_count++;
    pool->bytes[kind] += bytes;
    if (held + bytes > pool->peak) pool->peak = held + bytes;
    return LS_OK;
}

/* Takes a chunk, of which nothing is held, out of the list that *link begins. */
static void remove_chunk(ls_context *context, Chunk **link) {
    MemoryPool *pool = &context->memory.pool;
    Chunk *chunk = *link;
    *link = chunk->next;
    take_from_bin(pool, chunk->first);
    drop_range(pool, chunk->first);
    pool->chunk_count--;
    pool->bytes[chunk->kind] -= chunk->bytes;
    context->driver->release(context->device, chunk->memory);
    free(chunk);
}

static bool is_idle(const Chunk *chunk) {
    return !chunk->first->label && !chunk->first->after;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* How large a new chunk for `bytes` should be. Under a limit a large one has no more than that, or
 * what lies free beside a small array could be what the next one lacks. */
static uint64_t wanted_chunk(const MemoryPool *pool, int kind, uint64_t bytes) {
    const uint64_t held = pool->bytes[kind];
    uint64_t wanted = kind == KIND_SMALL ? SMALL_CHUNK : held / LARGE_FRACTION;
    if (kind == KIND_SMALL) {
        while (wanted < held && wanted < SMALL_CHUNK_MAX) wanted *= 2;
        return round_up(wanted > bytes ? wanted : bytes, SMALL_CHUNK);
    }
    if (wanted > LARGE_CHUNK_MAX) wanted = LARGE_CHUNK_MAX;
    if (pool->limit) wanted = 0;
    return round_up(wanted > bytes ? wanted : bytes, LARGE_UNIT);
}

/* A chunk with room for `bytes`: as large as it should be, else as small as it can be. */
static ls_status grow(ls_context *context, const char *call, int kind, uint64_t bytes, bool *full) {
    const MemoryPool *pool = &context->memory.pool;
    const uint64_t sizes[] = {wanted_chunk(pool, kind, bytes),
                              round_up(bytes, kind == KIND_SMALL ? UNIT : LARGE_UNIT), bytes};
    ls_status status = LS_OK;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        if (i > 0 && sizes[i] >= sizes[i - 1]) continue;
        status = add_chunk(context, call, kind, sizes[i], full);
        if (!*full) return status;
    }
    return status;
}

ls_status memory_pool_trim(ls_context *context, uint64_t keep) {
    MemoryPool *pool = &context->memory.pool;
    uint64_t held = pool->bytes[KIND_SMALL] + pool->bytes[KIND_LARGE];
    bool waited = false;
    for (Chunk **link = &pool->chunks; *link && held > keep;) {
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

static bool has_idle(const MemoryPool *pool) {
    for (const Chunk *at = pool->chunks; at; at = at->next)
        if (is_idle(at)) return true;
    return false;
}

/* A free range for `bytes`: of a new chunk, of the other kind, or of a new chunk once idle ones are
 * given back. */
static ls_status provide(ls_context *context, const char *call, uint64_t bytes, Range **range,
                         bool *full) {
    MemoryPool *pool = &context->memory.pool;
    const int kind = bytes < SMALL_LIMIT ? KIND_SMALL : KIND_LARGE;
    const Error before = context->error;
    ls_status status = grow(context, call, kind, bytes, full);
    if (*full && (*range = find(pool, kind == KIND_SMALL ? KIND_LARGE : KIND_SMALL, bytes)))
        status = LS_OK;
    if (status != LS_OK && *full && !context->capture && has_idle(pool)) {
        log_write(LOG_INFO, "%s has no more memory: the free part of the reserve is given back",
                  context->device->name);
        status = memory_pool_trim(context, 0);
        *full = false;
        if (status == LS_OK) status = add_chunk(context, call, kind, bytes, full);
    }
    if (status != LS_OK) return status;
    context->error = before; /* what the driver said of a size that was too much is no failure */
    if (!*range) *range = find(pool, kind, bytes);
    return LS_OK;
}

ls_status memory_pool_take(ls_context *context, const char *call, size_t bytes, Range **range,
                           bool *full) {
    MemoryPool *pool = &context->memory.pool;
    uint64_t length = bytes ? bytes : 1;
    ls_status status = LS_OK;
    *range = NULL;
    *full = length > INT64_MAX / 2;
    if (*full) return LS_ERROR_MEMORY;
    if (pool->off) {
        status = add_chunk(context, call, KIND_LARGE, length, full);
        if (status == LS_OK) *range = pool->chunks->first;
    } else {
        length = round_up(length, UNIT);
        *range = find(pool, length < SMALL_LIMIT ? KIND_SMALL : KIND_LARGE, length);
        if (!*range) status = provide(context, call, length, range, full);
    }
    return status == LS_OK ? cut(context, call, *range, length) : status;
}

void memory_pool_give(ls_context *context, Range *range) {
    MemoryPool *pool = &context->memory.pool;
    if (range->after && !range->after->label) {
        take_from_bin(pool, range->after);
        join(pool, range);
    }
    if (range->before && !range->before->label) {
        range = range->before;
        take_from_bin(pool, range);
        join(pool, range);
    }
    put_in_bin(pool, range);
    if (!pool->off) return;
    context_settle(context);
    Chunk **link = &pool->chunks;
    while (*link != range->chunk) link = &(*link)->next;
    remove_chunk(context, link);
}

void memory_pool_close(ls_context *context) {
    MemoryPool *pool = &context->memory.pool;
    while (pool->chunks) {
        Chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        context->driver->release(context->device, chunk->memory);
        for (Range *range = chunk->first, *after; range; range = after) {
            after = range->after;
            free(range);
        }
        free(chunk);
    }
    while (pool->spare) {
        Range *range = pool->spare;
        pool->spare = range->next;
        free(range);
    }
    *pool = (MemoryPool){0};
}

void memory_pool_statistics(const MemoryPool *pool, ls_memory_statistics *statistics) {
    statistics->reserved = pool->bytes[KIND_SMALL] + pool->bytes[KIND_LARGE];
    statistics->reserved_peak = pool->peak;
    statistics->limit = pool->limit;
    statistics->chunks = pool->chunk_count;
    statistics->driver_calls = pool->driver_calls;
    for (size_t kind = 0; kind < POOL_KINDS; kind++)
        for (size_t bin = 0; bin < POOL_BINS; bin++)
            for (const Range *at = pool->bins[kind][bin]; at; at = at->next) {
                statistics->free_bytes += at->bytes;
                statistics->free_ranges++;
                if (at->bytes > statistics->largest_free) statistics->largest_free = at->bytes;
            }
    statistics->rounding = statistics->reserved - statistics->free_bytes - statistics->in_use;
}
