/* memory.c: device memory, with the holder and the size of every allocation on record.
 *
 * The record is a hash table on the pointer (linear probing, at most half full), so that freeing
 * needs no size, statistics are exact, and a context that is destroyed gives everything back. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

ls_status memory_open(Memory *memory) {
    const char *text = host_environment(VARIABLE_LOCKSTEP_POOL);
    memory->pool.off = text && strcmp(text, "off") == 0;
    if (!text || !*text || memory->pool.off) return LS_OK;
    return error_set(NULL, LS_ERROR_ARGUMENT,
                     "ls_context_create: LOCKSTEP_POOL is `%.32s`; it takes off, or is not set",
                     text);
}

/* ---- the record ---- */

static size_t slot_of(const Memory *memory, const void *pointer) {
    uint64_t bits = (uint64_t)(uintptr_t)pointer >> 8; /* allocations are 256-byte aligned */
    return (size_t)((bits * 0x9e3779b97f4a7c15u) >> 32) & (memory->capacity - 1);
}

static Range **slot(const Memory *memory, const void *pointer) {
    size_t at = slot_of(memory, pointer);
    while (memory->table[at] && memory->table[at]->data != pointer)
        at = (at + 1) & (memory->capacity - 1);
    return &memory->table[at];
}

static bool make_room(Memory *memory) {
    if ((memory->statistics.allocations + 1) * 2 <= memory->capacity) return true;
    Memory larger = {.capacity = memory->capacity ? memory->capacity * 2 : FIRST_CAPACITY};
    larger.table = calloc(larger.capacity, sizeof(Range *));
    if (!larger.table) return false;
    for (size_t i = 0; i < memory->capacity; i++)
        if (memory->table[i]) *slot(&larger, memory->table[i]->data) = memory->table[i];
    free(memory->table);
    memory->table = larger.table;
    memory->capacity = larger.capacity;
    return true;
}

/* Takes an entry out and moves later ones of its run up, so that no search stops too early. */
static void take_out(Memory *memory, Range **entry) {
    size_t mask = memory->capacity - 1, hole = (size_t)(entry - memory->table);
    for (size_t at = (hole + 1) & mask; memory->table[at]; at = (at + 1) & mask) {
        size_t wanted = slot_of(memory, memory->table[at]->data);
        if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
        memory->table[hole] = memory->table[at];
        hole = at;
    }
    memory->table[hole] = NULL;
}

/* The label of that name, made if need be and first in the list; NULL: out of memory. Where there
 * are very many, one without a holder takes the new name. */
static Label *find_label(Memory *memory, const char *name) {
    Label **link = &memory->labels, **idle = NULL;
    for (; *link; link = &(*link)->next) {
        if (strncmp((*link)->name, name, LABEL_BYTES - 1) == 0) break;
        if ((*link)->allocations == 0) idle = link;
    }
    bool known = *link != NULL;
    if (!known && idle && memory->label_count >= LABELS_MAX) link = idle;
    Label *label = *link;
    if (label) {
        *link = label->next;
        if (!known) *label = (Label){0};
    } else {
        label = calloc(1, sizeof *label);
        if (!label) return NULL;
        memory->label_count++;
    }
    if (!known) snprintf(label->name, sizeof label->name, "%s", name);
    label->next = memory->labels;
    memory->labels = label;
    return label;
}

static void count_in(Memory *memory, Label *label, size_t bytes) {
    ls_memory_statistics *all = &memory->statistics;
    all->served++;
    all->allocations++;
    all->in_use += bytes;
    if (all->in_use > all->peak) all->peak = all->in_use;
    label->allocations++;
    label->in_use += bytes;
    if (label->in_use > label->peak) label->peak = label->in_use;
}

ls_status memory_allocate_for(ls_context *context, const char *call, const char *name, size_t bytes,
                              void **pointer) {
    Memory *memory = &context->memory;
    Range *range;
    bool full;
    *pointer = NULL;
    Label *label = make_room(memory) ? find_label(memory, name) : NULL;
    if (!label) return error_memory(&context->error, call);
    ls_status status = memory_pool_take(context, call, bytes, &range, &full);
    if (status != LS_OK) return full ? memory_exhausted(context, call, name, bytes) : status;
    range->label = label;
    range->asked = bytes;
    *slot(memory, range->data) = range;
    count_in(memory, label, bytes);
    profile_memory(context, label);
    *pointer = range->data;
    return LS_OK;
}

ls_status memory_allocate(ls_context *context, const char *call, size_t bytes, void **pointer) {
    return memory_allocate_for(context, call, call, bytes, pointer);
}

void memory_free(ls_context *context, void *pointer) {
    Memory *memory = &context->memory;
    if (!pointer || !memory->capacity) return;
    Range **entry = slot(memory, pointer), *range = *entry;
    if (!range) return;
    memory->statistics.allocations--;
    memory->statistics.in_use -= range->asked;
    range->label->allocations--;
    range->label->in_use -= range->asked;
    profile_memory(context, range->label);
    take_out(memory, entry);
    memory_pool_give(context, range);
}

void memory_close(ls_context *context) {
    Memory *memory = &context->memory;
    memory_log_holders(context);
    memory_pool_close(context);
    while (memory->labels) {
        Label *label = memory->labels;
        memory->labels = label->next;
        free(label);
    }
    free(memory->table);
    *memory = (Memory){0};
}

/* ---- the API ---- */

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

ls_status ls_alloc_labeled(ls_context *context, size_t bytes, const char *label, void **pointer) {
    static const char call[] = "ls_alloc_labeled";
    if (pointer) *pointer = NULL;
    ls_status status = check(context, call, !pointer ? "pointer" : (label ? NULL : "label"));
    return status == LS_OK ? memory_allocate_for(context, call, label, bytes, pointer) : status;
}

void ls_free(ls_context *context, void *pointer) {
    if (context) memory_free(context, pointer);
}

ls_status ls_alloc_host(ls_context *context, size_t bytes, void **pointer) {
    static const char call[] = "ls_alloc_host";
    if (pointer) *pointer = NULL;
    ls_status status = check(context, call, pointer ? NULL : "pointer");
    if (status == LS_OK) status = context_not_capturing(context, call);
    if (status != LS_OK) return status;
    status = context->driver->pinned_allocate(context->device, bytes ? bytes : 1, pointer);
    if (status != LS_ERROR_MEMORY) return status;
    return error_set(&context->error, status,
                     "%s: the host has no %zu bytes of page-locked memory left", call, bytes);
}

void ls_free_host(ls_context *context, void *pointer) {
    if (context && pointer) context->driver->pinned_release(context->device, pointer);
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
    status = copy_bytes(context, &(CopyRun){COPY_IN, device, host, bytes, NULL, NULL});
    return status == LS_OK ? context->driver->synchronize(context->device) : status;
}

ls_status ls_copy_out(ls_context *context, void *host, const void *device, size_t bytes) {
    ls_status status = check_copy(context, "ls_copy_out", device, host, bytes);
    if (status != LS_OK || bytes == 0) return status;
    status = copy_bytes(context, &(CopyRun){COPY_OUT, host, device, bytes, NULL, NULL});
    return status == LS_OK ? context->driver->synchronize(context->device) : status;
}

ls_status ls_fill_zero(ls_context *context, void *device, size_t bytes) {
    ls_status status = check_copy(context, "ls_fill_zero", device, device, bytes);
    if (status != LS_OK || bytes == 0) return status;
    return context->driver->clear(context->device, device, bytes);
}

void ls_memory_stats(const ls_context *context, ls_memory_statistics *statistics) {
    if (!statistics) return;
    *statistics = (ls_memory_statistics){0};
    if (!context) return;
    *statistics = context->memory.statistics;
    memory_pool_statistics(&context->memory.pool, statistics);
}

ls_status ls_memory_trim(ls_context *context, uint64_t keep) {
    ls_status status = check(context, "ls_memory_trim", NULL);
    if (status == LS_OK) status = context_not_capturing(context, "ls_memory_trim");
    return status == LS_OK ? memory_pool_trim(context, keep) : status;
}

ls_status ls_memory_limit(ls_context *context, uint64_t bytes) {
    ls_status status = check(context, "ls_memory_limit", NULL);
    if (status == LS_OK) context->memory.pool.limit = bytes;
    return status;
}
