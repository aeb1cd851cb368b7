/* memory.c: device memory, with every allocation's size on record.
 *
 * The record is a hash table on the pointer (linear probing, at most half full), so that freeing
 * needs no size, statistics are exact, and a context that is destroyed gives everything back. */
#include "runtime.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

static size_t home(const Memory *memory, const void *pointer) {
    uint64_t bits = (uint64_t)(uintptr_t)pointer >> 8; /* allocations are 256-byte aligned */
    return (size_t)((bits * 0x9e3779b97f4a7c15u) >> 32) & (memory->capacity - 1);
}

static Block *slot(const Memory *memory, const void *pointer) {
    size_t at = home(memory, pointer);
    while (memory->blocks[at].pointer && memory->blocks[at].pointer != pointer)
        at = (at + 1) & (memory->capacity - 1);
    return &memory->blocks[at];
}

static bool make_room(Memory *memory) {
    if ((memory->statistics.allocations + 1) * 2 <= memory->capacity) return true;
    Memory larger = *memory;
    larger.capacity = memory->capacity ? memory->capacity * 2 : FIRST_CAPACITY;
    larger.blocks = calloc(larger.capacity, sizeof *larger.blocks);
    if (!larger.blocks) return false;
    for (size_t i = 0; i < memory->capacity; i++)
        if (memory->blocks[i].pointer)
            *slot(&larger, memory->blocks[i].pointer) = memory->blocks[i];
    free(memory->blocks);
    *memory = larger;
    return true;
}

/* Takes a block out and moves later ones of its run up, so that no search stops too early. */
static void take_out(Memory *memory, Block *block) {
    size_t mask = memory->capacity - 1, hole = (size_t)(block - memory->blocks);
    for (size_t at = (hole + 1) & mask; memory->blocks[at].pointer; at = (at + 1) & mask) {
        size_t wanted = home(memory, memory->blocks[at].pointer);
        if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
        memory->blocks[hole] = memory->blocks[at];
        hole = at;
    }
    memory->blocks[hole] = (Block){NULL, 0};
}

static ls_status exhausted(ls_context *context, const char *call, size_t bytes) {
    const double mib = 1024.0 * 1024.0;
    const ls_memory_statistics *held = &context->memory.statistics;
    uint64_t free_bytes, total_bytes;
    if (!context->driver->available(context->device, &free_bytes, &total_bytes))
        return error_set(
            &context->error, LS_ERROR_MEMORY,
            "%s: no %.1f MiB more on %s; this context holds %.1f MiB in %llu allocations; "
            "free some or use smaller arrays",
            call, (double)bytes / mib, context->device->name, (double)held->in_use / mib,
            (unsigned long long)held->allocations);
    return error_set(
        &context->error, LS_ERROR_MEMORY,
        "%s: no %.1f MiB more on %s, which has %.1f of %.1f MiB free; this context holds "
        "%.1f MiB in %llu allocations; free some or use smaller arrays",
        call, (double)bytes / mib, context->device->name, (double)free_bytes / mib,
        (double)total_bytes / mib, (double)held->in_use / mib,
        (unsigned long long)held->allocations);
}

ls_status memory_allocate(ls_context *context, const char *call, size_t bytes, void **pointer) {
    Memory *memory = &context->memory;
    *pointer = NULL;
    if (!make_room(memory)) return error_memory(&context->error, call);
    ls_status status = context->driver->allocate(context->device, bytes ? bytes : 1, pointer);
    if (status == LS_ERROR_MEMORY) return exhausted(context, call, bytes);
    if (status != LS_OK) return status;
    *slot(memory, *pointer) = (Block){*pointer, bytes};
    ls_memory_statistics *statistics = &memory->statistics;
    statistics->allocations++;
    statistics->in_use += bytes;
    if (statistics->in_use > statistics->peak) statistics->peak = statistics->in_use;
    return LS_OK;
}

void memory_free(ls_context *context, void *pointer) {
    Memory *memory = &context->memory;
    if (!pointer || !memory->capacity) return;
    Block *block = slot(memory, pointer);
    if (!block->pointer) return;
    memory->statistics.allocations--;
    memory->statistics.in_use -= block->bytes;
    take_out(memory, block);
    context->driver->release(context->device, pointer);
}

void memory_close(ls_context *context) {
    Memory *memory = &context->memory;
    for (size_t i = 0; i < memory->capacity; i++)
        if (memory->blocks[i].pointer)
            context->driver->release(context->device, memory->blocks[i].pointer);
    free(memory->blocks);
    *memory = (Memory){0};
}

static ls_status check(ls_context *context, const char *call, const char *missing) {
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: context is NULL", call);
    if (missing)
        return error_set(&context->error, LS_ERROR_ARGUMENT, "%s: %s is NULL", call, missing);
    return LS_OK;
}

ls_status ls_alloc(ls_context *context, size_t bytes, void **pointer) {
    if (pointer) *pointer = NULL;
    ls_status status = check(context, "ls_alloc", pointer ? NULL : "pointer");
    return status == LS_OK ? memory_allocate(context, "ls_alloc", bytes, pointer) : status;
}

void ls_free(ls_context *context, void *pointer) {
    if (context) memory_free(context, pointer);
}

static ls_status check_copy(ls_context *context, const char *call, const void *device,
                            const void *host, size_t bytes) {
    const char *missing = !device ? "device" : (!host ? "host" : NULL);
    ls_status status = check(context, call, bytes ? missing : NULL);
    return status == LS_OK ? context_not_capturing(context, call) : status;
}

ls_status ls_copy_in(ls_context *context, void *device, const void *host, size_t bytes) {
    ls_status status = check_copy(context, "ls_copy_in", device, host, bytes);
    if (status != LS_OK || bytes == 0) return status;
    status = context->driver->copy_in(context->device, device, host, bytes);
    return status == LS_OK ? context->driver->synchronize(context->device) : status;
}

ls_status ls_copy_out(ls_context *context, void *host, const void *device, size_t bytes) {
    ls_status status = check_copy(context, "ls_copy_out", device, host, bytes);
    if (status != LS_OK || bytes == 0) return status;
    status = context->driver->copy_out(context->device, host, device, bytes);
    return status == LS_OK ? context->driver->synchronize(context->device) : status;
}

ls_status ls_fill_zero(ls_context *context, void *device, size_t bytes) {
    ls_status status = check_copy(context, "ls_fill_zero", device, device, bytes);
    if (status != LS_OK || bytes == 0) return status;
    return context->driver->clear(context->device, device, bytes);
}

void ls_memory_stats(const ls_context *context, ls_memory_statistics *statistics) {
    *statistics = context->memory.statistics;
}
