/* profile.c: how long steps, their kernels and replayed graphs take.
 *
 * The driver's events stand before and after each kernel; a batch of them is read at once, which
 * waits for the device. Times are kept relative to the latest event read, since a driver gives them
 * as 32-bit floats. What cannot be timed is launched all the same, and ls_profile_end says so. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES_MAX = 4096,
    EVENTS_MAX = 1 << 18, /* of a trace */
    BATCH = 512           /* driver events in use before they are read */
};

typedef struct Pending { /* between two marks; `row` knows whose */
    uint32_t row;
    size_t start, end; /* in profile->marks */
    Moved moved;
} Pending;

static bool copy(char **to, const char *text) {
    *to = text ? text_copy(text, strlen(text)) : NULL;
    return !text || *to;
}

/* The first failure stays, with the message the context has of it. */
static void fail(ls_context *context, ls_status status) {
    Profile *profile = context->profile;
    if (status == LS_OK || profile->failed != LS_OK) return;
    profile->failed = status;
    copy(&profile->failure, context->error.text); /* without memory its name must do */
}

static void fail_memory(ls_context *context) {
    fail(context, error_memory(&context->error, "ls_profile_end"));
}

/* ---- rows ---- */

static bool same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void free_row(ProfileRow *row) {
    free(row->step);
    free(row->kernel);
    free(row->file);
    free(row->samples);
}

/* The number of the row, made where there is none; SIZE_MAX: out of memory. */
static size_t find_row(Profile *profile, ProfileKind kind, const char *step, const char *kernel,
                       const char *file, uint32_t line) {
    if (!file) file = "";
    for (size_t i = 0; i < profile->row_count; i++) {
        const ProfileRow *row = &profile->rows[i];
        if (row->kind == kind && row->line == line && same(row->kernel, kernel) &&
            same(row->step, step) && same(row->file, file))
            return i;
    }
    if (!array_grow(&profile->rows, &profile->row_capacity, profile->row_count + 1,
                    sizeof *profile->rows))
        return SIZE_MAX;
    ProfileRow row = {.kind = kind, .line = line};
    if (!copy(&row.step, step) || !copy(&row.kernel, kernel) || !copy(&row.file, file)) {
        free_row(&row);
        return SIZE_MAX;
    }
    profile->rows[profile->row_count] = row;
    return profile->row_count++;
}

static bool add_sample(ProfileRow *row, double us, Moved moved) {
    const size_t at = (size_t)(row->count % SAMPLES_MAX);
    if (row->count < SAMPLES_MAX &&
        !array_grow(&row->samples, &row->sample_capacity, at + 1, sizeof *row->samples))
        return false;
    row->samples[at] = (float)us;
    if (row->count == 0 || us < row->min) row->min = us;
    if (us > row->max) row->max = us;
    row->total += us;
    row->count++;
    row->moved = moved;
    return true;
}

static bool add_event(Profile *profile, ProfileEvent event) {
    if (profile->event_count < EVENTS_MAX) {
        if (!array_grow(&profile->events, &profile->event_capacity, profile->event_count + 1,
                        sizeof *profile->events))
            return false;
        profile->event_count++;
    }
    profile->events[profile->event_total++ % EVENTS_MAX] = event;
    return true;
}

/* ---- the driver's events ---- */

/* Records the next of the marks; SIZE_MAX: it could not. */
static size_t mark(ls_context *context, void *stream) {
    Profile *profile = context->profile;
    const Driver *driver = context->driver;
    if (profile->used == profile->mark_count) {
        void *event;
        if (!array_grow(&profile->marks, &profile->mark_capacity, profile->mark_count + 1,
                        sizeof *profile->marks)) {
            fail_memory(context);
            return SIZE_MAX;
        }
        ls_status status = driver->event_create(context->device, true, &event);
        fail(context, status);
        if (status != LS_OK) return SIZE_MAX;
        profile->marks[profile->mark_count++] = event;
    }
    ls_status status =
        driver->stream_record(context->device, stream, profile->marks[profile->used]);
    fail(context, status);
    return status == LS_OK ? profile->used++ : SIZE_MAX;
}

static bool elapsed(ls_context *context, void *start, void *end, double *us) {
    double milliseconds = 0;
    ls_status status = context->driver->event_elapsed(context->device, start, end, &milliseconds);
    fail(context, status);
    *us = milliseconds > 0 ? 1e3 * milliseconds : 0;
    return status == LS_OK;
}

/* Reads what is pending, and begins again with the marks. */
static void drain(ls_context *context) {
    Profile *profile = context->profile;
    for (size_t i = 0; i < profile->pending_count; i++) {
        const Pending *pending = &profile->pending[i];
        void *start = profile->marks[pending->start], *end = profile->marks[pending->end];
        double us, at;
        if (!elapsed(context, start, end, &us) || !elapsed(context, profile->origin, start, &at))
            break;
        ProfileRow *row = &profile->rows[pending->row];
        if (!add_sample(row, us, pending->moved) ||
            !add_event(profile, (ProfileEvent){profile->origin_us + at, us, pending->moved,
                                               pending->row, false}))
            fail_memory(context);
    }
    if (profile->used > 0) {
        void *last = profile->marks[profile->used - 1];
        double us;
        if (elapsed(context, profile->origin, last, &us)) {
            profile->marks[profile->used - 1] = profile->origin;
            profile->origin = last;
            profile->origin_us += us;
        }
    }
    profile->pending_count = 0;
    profile->used = 0;
}

static void add_pending(ls_context *context, size_t row, size_t start, size_t end, Moved moved) {
    Profile *profile = context->profile;
    if (start == SIZE_MAX || end == SIZE_MAX) return;
    if (row == SIZE_MAX || !array_grow(&profile->pending, &profile->pending_capacity,
                                       profile->pending_count + 1, sizeof *profile->pending)) {
        fail_memory(context);
        return;
    }
    profile->pending[profile->pending_count++] = (Pending){(uint32_t)row, start, end, moved};
}

static void add_call(ls_context *context, size_t row, double began_us) {
    Profile *profile = context->profile;
    const double now = time_us();
    if (row == SIZE_MAX) return;
    if (!add_event(profile,
                   (ProfileEvent){
                       began_us - profile->began_us, now - began_us, {0, 0}, (uint32_t)row, true}))
        fail_memory(context);
}

/* ---- launches and replays ---- */

static bool timed(const ls_context *context) {
    const Profile *profile = context->profile;
    return profile && profile->active && profile->failed == LS_OK && !context->capture;
}

/* A launch, timed between two marks, of which the first is there already. */
static ls_status launch_one(ls_context *context, const Launch *launch, size_t row, Moved moved,
                            size_t *before) {
    ls_status status = context->driver->launch(context->device, launch, 1);
    if (status != LS_OK) return status;
    const size_t after = mark(context, NULL);
    add_pending(context, row, *before, after, moved);
    *before = after;
    return LS_OK;
}

static size_t find_kernel(Profile *profile, const ls_image *image, const Launch *launch) {
    return find_row(profile, PROFILE_STEP, image->step, launch->name, image->source_file,
                    image->line);
}

/* One kernel at a time, which gives the same bits: so the CPU's are timed each by itself. */
static ls_status launch_timed(ls_step *step) {
    ls_context *context = step->context;
    Profile *profile = context->profile;
    const ls_image *image = step->image;
    const Moved *moved = step_moved(step);
    const double began = time_us();
    if (profile->used + step->launch_count + 1 > BATCH) drain(context);
    size_t row =
        find_row(profile, PROFILE_STEP, image->step, NULL, image->source_file, image->line);
    Moved all = {0, 0};
    const size_t first = mark(context, NULL);
    size_t before = first;
    ls_status status = LS_OK;
    for (uint32_t i = 0; i < step->launch_count && status == LS_OK; i++) {
        const Launch *launch = &step->launches[i];
        status =
            launch_one(context, launch, find_kernel(profile, image, launch), moved[i], &before);
        all.read += moved[i].read;
        all.written += moved[i].written;
    }
    if (status == LS_OK) add_pending(context, row, first, before, all);
    add_call(context, row, began);
    return status;
}

ls_status profile_launch(ls_step *step) {
    ls_context *context = step->context;
    bool captured = false;
    if (timed(context)) {
        ls_status status = context_captured(context, &captured);
        if (status != LS_OK) return status;
        if (!captured) return launch_timed(step);
    }
    return context->driver->launch(context->device, step->launches, step->launch_count);
}

ProfileSpan profile_open(ls_context *context, void *stream) {
    ProfileSpan span = {.start = SIZE_MAX, .stream = stream};
    bool captured;
    if (!timed(context) || context_captured(context, &captured) != LS_OK || captured) return span;
    if (context->profile->used + 2 > BATCH) drain(context);
    span.profile = context->profile;
    span.host_us = time_us();
    span.start = mark(context, stream);
    return span;
}

void profile_close(ls_context *context, ProfileSpan span, const char *name, ProfileKind kind,
                   Moved moved) {
    if (!span.profile) return;
    const size_t row = find_row(span.profile, kind, name, NULL, "", 0);
    add_pending(context, row, span.start, mark(context, span.stream), moved);
    add_call(context, row, span.host_us);
}

/* ---- graphs ---- */

void profile_name_graph(const ls_graph *graph, uint64_t times, char *name, size_t size) {
    if (graph->launches == 1)
        snprintf(name, size, "graph of %.140s", graph->steps[0].step->image->step);
    else
        snprintf(name, size, "graph of %u launches", graph->launches);
    const size_t used = strlen(name);
    if (times > 1) snprintf(name + used, size - used, ", %llu times", (unsigned long long)times);
}

/* Work of the program's on the stream is in the driver's graph alone, which is timed as a whole. */
bool profile_wants_replay(ls_context *context, const ls_graph *graph) {
    return timed(context) && graph->statistics.nodes == graph->recording.launch_count;
}

static size_t find_entry(Profile *profile, const Recorded *entry, const Launch *launch) {
    if (entry->step) return find_kernel(profile, entry->step->image, launch);
    return find_row(profile, launch->copies ? PROFILE_COPY : PROFILE_HOST, launch->name, NULL, "",
                    0);
}

/* The launches of a replay one by one, each between marks: the same bits. */
static ls_status replay_timed(const ls_graph *graph, size_t row) {
    ls_context *context = graph->context;
    Profile *profile = context->profile;
    const Recording *recording = &graph->recording;
    Moved all = {0, 0};
    ls_status status = LS_OK;
    if (profile->used + recording->launch_count + 1 > BATCH) drain(context);
    const size_t first = mark(context, NULL);
    size_t before = first;
    for (size_t e = 0; e < recording->entry_count; e++) {
        const Recorded *entry = &recording->entries[e];
        for (size_t i = entry->first; i < entry->first + entry->count && status == LS_OK; i++) {
            const Launch *launch = &recording->launches[i];
            status = launch_one(context, launch, find_entry(profile, entry, launch),
                                recording->moved[i], &before);
            all.read += recording->moved[i].read;
            all.written += recording->moved[i].written;
        }
    }
    if (status == LS_OK) add_pending(context, row, first, before, all);
    return status;
}

ls_status profile_replay(const ls_graph *graph, uint64_t times) {
    ls_context *context = graph->context;
    char name[200];
    const double began = time_us();
    profile_name_graph(graph, 1, name, sizeof name);
    const size_t row = find_row(context->profile, PROFILE_GRAPH, name, NULL, "", 0);
    ls_status status = LS_OK;
    for (uint64_t i = 0; i < times && status == LS_OK; i++) status = replay_timed(graph, row);
    add_call(context, row, began);
    return status;
}

/* ---- memory ---- */

/* The label's number; UINT32_MAX: out of memory. */
static uint32_t find_label(Profile *profile, const char *name) {
    for (size_t i = 0; i < profile->label_count; i++)
        if (strcmp(profile->labels[i], name) == 0) return (uint32_t)i;
    if (!array_grow(&profile->labels, &profile->label_capacity, profile->label_count + 1,
                    sizeof *profile->labels))
        return UINT32_MAX;
    char *kept = text_copy(name, strlen(name));
    if (!kept) return UINT32_MAX;
    profile->labels[profile->label_count] = kept;
    return (uint32_t)profile->label_count++;
}

static void add_memory(ls_context *context, const char *name, uint64_t bytes) {
    Profile *profile = context->profile;
    const uint32_t label = find_label(profile, name);
    if (profile->memory_count == EVENTS_MAX) return;
    if (label == UINT32_MAX || !array_grow(&profile->memory, &profile->memory_capacity,
                                           profile->memory_count + 1, sizeof *profile->memory)) {
        fail_memory(context);
        return;
    }
    profile->memory[profile->memory_count++] =
        (ProfileMemory){time_us() - profile->began_us, bytes, label};
}

void profile_memory(ls_context *context, const Label *label) {
    mark_memory(context, label);
    if (!context->profile || !context->profile->active) return;
    add_memory(context, "all memory", context->memory.statistics.in_use);
    add_memory(context, label->name, label->in_use);
}

/* What is held when a profile begins. */
static void add_held_memory(ls_context *context) {
    add_memory(context, "all memory", context->memory.statistics.in_use);
    for (const Label *label = context->memory.labels; label; label = label->next)
        if (label->in_use) add_memory(context, label->name, label->in_use);
}

/* ---- begin and end ---- */

void profile_free(ls_context *context) {
    Profile *profile = context->profile;
    if (!profile) return;
    for (size_t i = 0; i < profile->mark_count; i++)
        context->driver->event_destroy(context->device, profile->marks[i]);
    if (profile->origin) context->driver->event_destroy(context->device, profile->origin);
    for (size_t i = 0; i < profile->row_count; i++) free_row(&profile->rows[i]);
    free(profile->marks);
    free(profile->rows);
    free(profile->events);
    free(profile->pending);
    for (size_t i = 0; i < profile->label_count; i++) free(profile->labels[i]);
    free(profile->labels);
    free(profile->memory);
    free(profile->failure);
    free(profile);
    context->profile = NULL;
}

static ls_status check_call(ls_context *context, const char *call) {
    if (!context) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: context is NULL", call);
    return context_not_capturing(context, call);
}

ls_status ls_profile_begin(ls_context *context) {
    static const char call[] = "ls_profile_begin";
    ls_status status = check_call(context, call);
    if (status != LS_OK) return status;
    if (context->profile && context->profile->active)
        return error_set(&context->error, LS_ERROR_STATE,
                         "%s: a profile is being taken already; call ls_profile_end first", call);
    profile_free(context);
    Profile *profile = calloc(1, sizeof *profile);
    if (!profile) return error_memory(&context->error, call);
    context->profile = profile;
    const Driver *driver = context->driver;
    status = driver->event_create(context->device, true, &profile->origin);
    if (status == LS_OK) status = driver->event_record(context->device, profile->origin);
    if (status == LS_OK) status = driver->synchronize(context->device);
    if (status != LS_OK) {
        profile_free(context);
        return status;
    }
    profile->began_us = time_us();
    profile->active = true;
    add_held_memory(context);
    return LS_OK;
}

ls_status ls_profile_end(ls_context *context) {
    static const char call[] = "ls_profile_end";
    ls_status status = check_call(context, call);
    if (status != LS_OK) return status;
    Profile *profile = context->profile;
    if (!profile || !profile->active)
        return error_set(&context->error, LS_ERROR_STATE,
                         "%s: no profile is being taken; call ls_profile_begin first", call);
    drain(context);
    profile->active = false;
    status = context->driver->synchronize(context->device);
    if (status != LS_OK || profile->failed == LS_OK) return status;
    return error_set(&context->error, profile->failed, "%s: not every launch was timed: %s", call,
                     profile->failure ? profile->failure : ls_status_name(profile->failed));
}

/* ---- results ---- */

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Sorts the ring: after the end its order says nothing more. */
static double median(ProfileRow *row) {
    const size_t count = row->count < SAMPLES_MAX ? (size_t)row->count : SAMPLES_MAX;
    if (count == 0) return 0;
    qsort(row->samples, count, sizeof *row->samples, by_value);
    const float *middle = &row->samples[count / 2];
    return count % 2 ? (double)*middle : ((double)middle[-1] + (double)*middle) / 2;
}

size_t ls_profile_rows(ls_context *context, ls_profile_row *rows, size_t capacity) {
    Profile *profile = context ? context->profile : NULL;
    if (!profile || profile->active) return 0;
    size_t count = 0;
    for (size_t i = 0; i < profile->row_count; i++) {
        ProfileRow *row = &profile->rows[i];
        if (row->count == 0) continue;
        if (rows && count < capacity) {
            const double middle = median(row);
            const double bytes = (double)row->moved.read + (double)row->moved.written;
            rows[count] = (ls_profile_row){
                row->step,       row->kernel,        row->file,
                row->line,       row->count,         row->min,
                middle,          row->max,           row->total,
                row->moved.read, row->moved.written, middle > 0 ? bytes / middle * 1e-3 : 0};
        }
        count++;
    }
    return count;
}

ls_status ls_profile_trace(ls_context *context, const char *path) {
    static const char call[] = "ls_profile_trace";
    if (!context || !path)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, context ? "path" : "context");
    if (!context->profile || context->profile->active)
        return error_set(&context->error, LS_ERROR_STATE,
                         "%s: there is no profile yet; call it after ls_profile_end", call);
    return trace_write(context, path);
}
