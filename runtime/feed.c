/* feed.c: a ring of batches, filled by the host and copied while the device computes.
 *
 * Slots are used in turn. A slot's memory of the host is free again when its copy is done (event
 * `copied`, for which only ls_feed_acquire ever waits), its memory of the device when what reads it
 * is done (event `used`, for which the stream of the copies waits). The context's stream waits for
 * `copied` when the batch is taken. Where the host's memory is the device's there is one memory and
 * nothing to copy. */
#include "runtime.h"
#include "feed.h"

#include <stdlib.h>
#include <string.h>

static const char samples_name[] = "feed_samples";

static ls_status missing(ls_feed *const *feed, const char *call, const char *what) {
    return error_set(feed ? &(*feed)->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                     call, what);
}

/* ---- life ---- */

/* Waits for every copy that was queued: by one more event, or, should that fail, by each copy's. */
static void drain(ls_feed *feed) {
    const Driver *driver = feed->context->driver;
    Device *device = feed->context->device;
    bool any = false, done = false;
    for (uint32_t i = 0; i < feed->slot_count; i++) any |= feed->slots[i].in_flight;
    if (!any) return;
    done = driver->stream_record(device, feed->stream, feed->last) == LS_OK &&
           driver->event_wait(device, feed->last) == LS_OK;
    for (uint32_t i = 0; i < feed->slot_count; i++) {
        if (feed->slots[i].in_flight && !done) driver->event_wait(device, feed->slots[i].copied);
        feed->slots[i].in_flight = false;
    }
}

static void close_slot(ls_feed *feed, Slot *slot) {
    const Driver *driver = feed->context->driver;
    Device *device = feed->context->device;
    if (slot->copied) driver->event_destroy(device, slot->copied);
    if (slot->used) driver->event_destroy(device, slot->used);
    if (slot->device != slot->host) memory_free(feed->context, slot->device);
    if (feed->shared)
        feed_unshare(slot->host, feed->bytes);
    else if (slot->host && feed->statistics.pinned)
        driver->pinned_release(device, slot->host);
    else
        free(slot->host);
}

void ls_feed_destroy(ls_feed *feed) {
    if (!feed) return;
    const Driver *driver = feed->context->driver;
    drain(feed);
    if (feed->direct) context_settle(feed->context); /* the steps that read it */
    for (uint32_t i = 0; i < feed->slot_count; i++) close_slot(feed, &feed->slots[i]);
    feed_ring_close(feed);
    if (feed->last) driver->event_destroy(feed->context->device, feed->last);
    if (feed->stream) driver->stream_destroy(feed->context->device, feed->stream);
    memory_free(feed->context, feed->fixed);
    memory_free(feed->context, feed->scalar);
    for (size_t i = 0; i < feed->step_count; i++) step_release(feed->steps[i]);
    for (size_t i = 0; feed->arrays && i < feed->array_count; i++) free(feed->arrays[i].name);
    free(feed->arrays);
    free(feed->slots);
    free(feed->steps);
    free(feed);
}

static ls_status take_array(ls_feed *feed, const ls_feed_array *given, size_t number) {
    Array *array = &feed->arrays[number];
    Error *error = &feed->context->error;
    if (!given->name || !given->shape)
        return missing(&feed, "ls_feed_create", !given->name ? "an array's name" : "a shape");
    if (!ls_type_size(given->type) || given->rank < 1 || given->rank > LS_RANK_MAX)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_feed_create: array `%s` must have a type and 1 to %d axes, of which "
                         "the first counts the samples",
                         given->name, LS_RANK_MAX);
    array->name = text_copy(given->name, strlen(given->name));
    if (!array->name) return error_memory(error, "ls_feed_create");
    array->type = given->type;
    array->rank = given->rank;
    array->row_bytes = ls_type_size(given->type);
    bool fits = true;
    for (uint32_t i = 0; i < given->rank; i++) {
        array->shape[i] = array->current[i] = given->shape[i];
        fits = fits && given->shape[i] >= (i == 0);
        fits = fits && (i == 0 || !__builtin_mul_overflow(array->row_bytes, given->shape[i],
                                                          &array->row_bytes));
    }
    size_t bytes = 0;
    array->at = feed->bytes;
    fits = fits && !__builtin_mul_overflow(array->row_bytes, given->shape[0], &bytes) &&
           !__builtin_add_overflow(feed->bytes, bytes, &feed->bytes) && feed->bytes < SIZE_MAX / 2;
    feed->bytes = (feed->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!fits)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_feed_create: array `%s`: a batch has at least one sample, no length "
                         "is negative, and all must fit the address space",
                         given->name);
    if (number > 0 && given->shape[0] != feed->batch)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_feed_create: array `%s` has %lld samples in a batch, `%s` has %lld",
                         given->name, (long long)given->shape[0], feed->arrays[0].name,
                         (long long)feed->batch);
    feed->batch = given->shape[0];
    return LS_OK;
}

/* Page-locked memory is scarce on some systems: any other memory does, more slowly. */
static ls_status host_memory(ls_feed *feed, Slot *slot, bool first) {
    ls_context *context = feed->context;
    void *memory = NULL;
    if (feed->shared) {
        slot->host = feed_share(feed->bytes);
        return slot->host ? LS_OK : error_memory(&context->error, "ls_feed_create");
    }
    if (first || feed->statistics.pinned) {
        ls_status status = context->driver->pinned_allocate(context->device, feed->bytes, &memory);
        slot->host = memory;
        feed->statistics.pinned = first ? status == LS_OK : feed->statistics.pinned;
        if (status == LS_OK || status != LS_ERROR_MEMORY || !first) return status;
        log_write(LOG_INFO, "feed on %s: no page-locked memory; its copies are slower",
                  context->device->name);
    }
    slot->host = aligned_alloc(ALIGNMENT, feed->bytes);
    return slot->host ? LS_OK : error_memory(&context->error, "ls_feed_create");
}

static ls_status open_slot(ls_feed *feed, Slot *slot) {
    ls_context *context = feed->context;
    const Driver *driver = context->driver;
    void *memory = NULL;
    ls_status status = host_memory(feed, slot, slot == feed->slots);
    if (status == LS_ERROR_MEMORY)
        return error_set(&context->error, status,
                         "ls_feed_create: the host has no %zu bytes for a slot; use fewer slots or "
                         "smaller batches",
                         feed->bytes);
    if (status != LS_OK) return status;
    memset(slot->host, 0, feed->bytes);
    if (slot == feed->slots)
        feed->direct = context->device->reads_host ||
                       (context->device->reads_pinned && feed->statistics.pinned);
    if (feed->direct)
        slot->device = slot->host;
    else {
        status = memory_allocate_for(context, "ls_feed_create", "feed", feed->bytes, &memory);
        slot->device = memory;
    }
    if (status == LS_OK) status = driver->event_create(context->device, false, &slot->copied);
    if (status == LS_OK) status = driver->event_create(context->device, false, &slot->used);
    if (status == LS_OK) status = driver->event_record(context->device, slot->used);
    return status;
}

static ls_status open_feed(ls_feed *feed, const ls_feed_array *arrays, size_t count, int flags) {
    ls_context *context = feed->context;
    void *memory = NULL;
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        feed->array_count = i + 1;
        status = take_array(feed, &arrays[i], i);
    }
    if (feed->bytes == 0) feed->bytes = ALIGNMENT;
    feed->shared = flags & LS_FEED_PROCESSES;
    if (status == LS_OK && flags & (LS_FEED_THREADS | LS_FEED_PROCESSES))
        status = feed_ring_open(feed);
    if (status == LS_OK) status = context->driver->stream_create(context->device, &feed->stream);
    if (status == LS_OK)
        status = context->driver->event_create(context->device, false, &feed->last);
    for (uint32_t i = 0; i < feed->slot_count && status == LS_OK; i++)
        status = open_slot(feed, &feed->slots[i]);
    if (status == LS_OK && flags & LS_FEED_FIXED) {
        status = memory_allocate_for(context, "ls_feed_create", "feed", feed->bytes, &memory);
        feed->fixed = memory;
        if (status == LS_OK) status = context->driver->clear(context->device, memory, feed->bytes);
    }
    if (status == LS_OK) {
        status =
            memory_allocate_for(context, "ls_feed_create", "feed", sizeof *feed->scalar, &memory);
        feed->scalar = memory;
    }
    const int64_t none = 0;
    if (status == LS_OK)
        status = context->driver->store(context->device, feed->scalar, &none, sizeof none);
    return status;
}

ls_status ls_feed_create(ls_context *context, const ls_feed_array *arrays, size_t count,
                         uint32_t slots, int flags, ls_feed **feed) {
    static const char call[] = "ls_feed_create";
    if (feed) *feed = NULL;
    if (!context || !arrays || !feed)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, !context ? "context" : (!arrays ? "arrays" : "feed"));
    if (count == 0 || slots == 1 || slots > SLOTS_MAX)
        return error_set(&context->error, LS_ERROR_ARGUMENT,
                         count == 0 ? "%s: a feed has at least one array"
                                    : "%s: a feed has 2 to 64 slots, or 0 for 3",
                         call);
    if (flags & ~(LS_FEED_FIXED | LS_FEED_THREADS | LS_FEED_PROCESSES))
        return error_set(&context->error, LS_ERROR_ARGUMENT,
                         "%s: the flags are LS_FEED_FIXED, LS_FEED_THREADS and LS_FEED_PROCESSES",
                         call);
    ls_status status = context_not_capturing(context, call);
    if (status != LS_OK) return status;
    ls_feed *made = calloc(1, sizeof *made);
    if (!made) return error_memory(&context->error, call);
    made->context = context;
    made->slot_count = slots ? slots : SLOTS_DEFAULT;
    made->statistics.slots = made->slot_count;
    made->arrays = calloc(count, sizeof *made->arrays);
    made->slots = calloc(made->slot_count, sizeof *made->slots);
    if (!made->slots) made->slot_count = 0;
    status = made->arrays && made->slots ? open_feed(made, arrays, count, flags)
                                         : error_memory(&context->error, call);
    if (status == LS_OK)
        *feed = made;
    else
        ls_feed_destroy(made);
    return status;
}

/* ---- the host's side ---- */

/* Of the copy, or of the steps that read the slot where it lies; NULL: nothing is under way. */
static void *event_of(const ls_feed *feed, const Slot *slot) {
    return feed->direct ? slot->used : slot->in_flight ? slot->copied : NULL;
}

bool feed_copy_is_done(const ls_feed *feed, const Slot *slot) {
    void *event = event_of(feed, slot);
    return !event || feed->context->driver->event_done(feed->context->device, event);
}

ls_status feed_wait_for_copy(ls_feed *feed, Slot *slot) {
    ls_context *context = feed->context;
    if (!feed_copy_is_done(feed, slot)) {
        void *event = event_of(feed, slot);
        const double began = time_us();
        ls_status status = context->driver->event_wait(context->device, event);
        if (status != LS_OK) return status;
        feed->statistics.waits++;
        feed->statistics.waited_ms += (time_us() - began) * 1e-3;
    }
    slot->in_flight = false;
    return LS_OK;
}

ls_status ls_feed_acquire(ls_feed *feed, void **arrays) {
    static const char call[] = "ls_feed_acquire";
    if (!feed || !arrays) return missing(feed ? &feed : NULL, call, feed ? "arrays" : "feed");
    if (feed->ring)
        return error_set(&feed->context->error, LS_ERROR_STATE,
                         "%s: this feed has producers; they call ls_feed_claim", call);
    Slot *slot = &feed->slots[feed->fill_at];
    if (slot->state == SLOT_SUBMITTED || slot->state == SLOT_CURRENT)
        return error_set(&feed->context->error, LS_ERROR_STATE,
                         "%s: all %u slots hold batches that are to be read; call ls_feed_next "
                         "between two submits, or create the feed with more slots",
                         call, feed->slot_count);
    ls_status status = context_not_capturing(feed->context, call);
    if (status == LS_OK) status = feed_wait_for_copy(feed, slot);
    if (status != LS_OK) return status;
    slot->state = SLOT_FILLING;
    for (size_t i = 0; i < feed->array_count; i++) arrays[i] = slot->host + feed->arrays[i].at;
    return LS_OK;
}

static ls_status queue_copies(ls_feed *feed, Slot *slot) {
    ls_context *context = feed->context;
    const Driver *driver = context->driver;
    if (feed->direct) return LS_OK;
    ls_status status = driver->stream_wait(context->device, feed->stream, slot->used);
    bool whole = slot->samples == feed->batch; /* what lies between the arrays goes along */
    size_t pieces = whole ? 1 : feed->array_count;
    for (size_t i = 0; i < pieces && status == LS_OK; i++) {
        const Array *array = &feed->arrays[i];
        size_t at = whole ? 0 : array->at;
        size_t bytes = whole ? feed->bytes : array->row_bytes * (size_t)slot->samples;
        if (bytes == 0) continue;
        status = copy_bytes(context, &(CopyRun){COPY_IN, slot->device + at, slot->host + at, bytes,
                                                feed->stream, NULL});
        slot->in_flight = true;
        feed->statistics.copies++;
    }
    if (status == LS_OK)
        status = driver->stream_record(context->device, feed->stream, slot->copied);
    if (status != LS_OK) drain(feed); /* nobody could wait for what was queued */
    return status;
}

ls_status ls_feed_submit(ls_feed *feed, int64_t samples) {
    static const char call[] = "ls_feed_submit";
    if (!feed) return missing(NULL, call, "feed");
    Error *error = &feed->context->error;
    Slot *slot = &feed->slots[feed->fill_at];
    if (slot->state != SLOT_FILLING)
        return error_set(error, LS_ERROR_STATE,
                         "%s: no slot is being filled; call ls_feed_acquire first", call);
    if (samples < 1 || samples > feed->batch)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: %lld samples were given, a batch has 1 to %lld", call,
                         (long long)samples, (long long)feed->batch);
    ls_status status = context_not_capturing(feed->context, call);
    return status == LS_OK ? feed_submit(feed, samples) : status;
}

ls_status feed_submit(ls_feed *feed, int64_t samples) {
    Slot *slot = &feed->slots[feed->fill_at];
    slot->samples = samples;
    ls_status status = queue_copies(feed, slot);
    if (status != LS_OK) return status;
    slot->state = SLOT_SUBMITTED;
    feed->fill_at = (feed->fill_at + 1) % feed->slot_count;
    feed->statistics.waiting++;
    feed->statistics.batches++;
    for (size_t i = 0; i < feed->array_count; i++)
        feed->statistics.bytes += feed->arrays[i].row_bytes * (uint64_t)samples;
    return LS_OK;
}

/* ---- the device's side ---- */

static ls_status bind_arrays(ls_feed *feed, ls_step *step, bool *any) {
    const ls_image *image = step->image;
    for (size_t i = 0; i < image->parameter_count; i++) {
        ls_tensor tensor = {.type = LS_I64, .data = feed->scalar};
        bool found = strcmp(image->parameters[i].name, samples_name) == 0;
        for (size_t k = 0; k < feed->array_count && !found; k++) {
            found = strcmp(image->parameters[i].name, feed->arrays[k].name) == 0;
            if (found) ls_feed_tensor(feed, k, &tensor);
            *any |= found;
        }
        ls_status status = found ? ls_step_bind(step, image->parameters[i].name, &tensor) : LS_OK;
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* What the steps read from now on is in the slot; it came to lie there before. */
static ls_status read_slot(ls_feed *feed, Slot *slot) {
    ls_context *context = feed->context;
    bool unused = false;
    ls_status status = LS_OK;
    if (feed->current) {
        status = context->driver->event_record(context->device, feed->current->used);
        if (status != LS_OK) return status;
        feed->current->state = SLOT_FREE;
    }
    slot->state = SLOT_CURRENT;
    feed->current = slot;
    for (size_t i = 0; i < feed->array_count; i++) feed->arrays[i].current[0] = slot->samples;
    for (size_t i = 0; i < feed->step_count && status == LS_OK; i++)
        status = bind_arrays(feed, feed->steps[i], &unused);
    return status;
}

/* The batch comes to lie where all do, with zeros where it is short. */
static ls_status move_slot(ls_feed *feed, Slot *slot) {
    ls_context *context = feed->context;
    const Driver *driver = context->driver;
    ls_status status = LS_OK;
    bool whole = slot->samples == feed->batch;
    if (whole)
        status = copy_bytes(
            context, &(CopyRun){COPY_WITHIN, feed->fixed, slot->device, feed->bytes, NULL, NULL});
    for (size_t i = 0; i < feed->array_count && !whole && status == LS_OK; i++) {
        const Array *array = &feed->arrays[i];
        size_t bytes = array->row_bytes * (size_t)slot->samples;
        size_t rest = array->row_bytes * (size_t)feed->batch - bytes;
        if (bytes == 0) continue;
        status = copy_bytes(context, &(CopyRun){COPY_WITHIN, feed->fixed + array->at,
                                                slot->device + array->at, bytes, NULL, NULL});
        if (status == LS_OK)
            status = driver->clear(context->device, feed->fixed + array->at + bytes, rest);
    }
    if (status == LS_OK) status = driver->event_record(context->device, slot->used);
    if (status == LS_OK) slot->state = SLOT_FREE;
    return status;
}

ls_status ls_feed_next(ls_feed *feed) {
    static const char call[] = "ls_feed_next";
    if (!feed) return missing(NULL, call, "feed");
    ls_context *context = feed->context;
    const Driver *driver = context->driver;
    ls_status status = context_not_capturing(context, call);
    if (status == LS_OK && feed->ring) status = feed_collect(feed, call);
    if (status != LS_OK) return status;
    Slot *slot = &feed->slots[feed->read_at];
    if (slot->state != SLOT_SUBMITTED)
        return error_set(&context->error, LS_ERROR_STATE,
                         "%s: no batch is waiting; call ls_feed_acquire and ls_feed_submit first",
                         call);
    if (!feed->direct && !feed_copy_is_done(feed, slot)) feed->statistics.device_waits++;
    if (!feed->direct) status = driver->stream_wait(context->device, NULL, slot->copied);
    if (status == LS_OK && slot->samples != feed->statistics.samples)
        status = driver->store(context->device, feed->scalar, &slot->samples, sizeof slot->samples);
    if (status != LS_OK) return status;
    feed->statistics.samples = slot->samples;
    status = feed->fixed ? move_slot(feed, slot) : read_slot(feed, slot);
    if (slot->state == SLOT_SUBMITTED) return status;
    feed->read_at = (feed->read_at + 1) % feed->slot_count;
    feed->statistics.waiting--;
    return status;
}

ls_status ls_feed_tensor(const ls_feed *feed, size_t array, ls_tensor *tensor) {
    static const char call[] = "ls_feed_tensor";
    if (!feed || !tensor)
        return error_set(feed ? &feed->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, feed ? "tensor" : "feed");
    if (array >= feed->array_count)
        return error_set(&feed->context->error, LS_ERROR_ARGUMENT,
                         "%s: there is no array %zu, only %zu, counted from 0", call, array,
                         feed->array_count);
    const Slot *slot = feed->current ? feed->current : feed->slots;
    const Array *from = &feed->arrays[array];
    *tensor = (ls_tensor){.data = (feed->fixed ? feed->fixed : slot->device) + from->at,
                          .type = from->type,
                          .rank = from->rank,
                          .shape = from->current};
    return LS_OK;
}

ls_status ls_feed_bind(ls_feed *feed, ls_step *step) {
    static const char call[] = "ls_feed_bind";
    if (!feed || !step) return missing(feed ? &feed : NULL, call, feed ? "step" : "feed");
    Error *error = &feed->context->error;
    if (step->context != feed->context)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: the feed and step `%s` belong to different contexts", call,
                         step->image->step);
    bool any = false;
    ls_status status = bind_arrays(feed, step, &any);
    if (status != LS_OK) return status;
    if (!any)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: step `%s` has no parameter that is called as an array of the feed, "
                         "such as `%s`",
                         call, step->image->step, feed->arrays[0].name);
    for (size_t i = 0; i < feed->step_count; i++)
        if (feed->steps[i] == step) return LS_OK;
    if (!array_grow(&feed->steps, &feed->step_capacity, feed->step_count + 1, sizeof(ls_step *)))
        return error_memory(error, call);
    step->references++;
    feed->steps[feed->step_count++] = step;
    return LS_OK;
}

void ls_feed_stats(const ls_feed *feed, ls_feed_statistics *statistics) {
    if (!statistics) return;
    *statistics = feed ? feed->statistics : (ls_feed_statistics){0};
}
