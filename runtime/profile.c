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
static size_t find_row(Profile *profile, const char *step, const char *kernel, const char *file,
                       uint32_t line) {
    if (!file) file = "";
    for (size_t i = 0; i < profile->row_count; i++) {
        const ProfileRow *row = &profile->rows[i];
        if (row->line == line && same(row->kernel, kernel) && same(row->step, step) &&
            same(row->file, file))
            return i;
    }
    if (!array_grow(&profile->rows, &profile->row_capacity, profile->row_count + 1,
                    sizeof *profile->rows))
        return SIZE_MAX;
    ProfileRow row = {.line = line};
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
static size_t mark(ls_context *context) {
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
    ls_status status = driver->event_record(context->device, profile->marks[profile->used]);
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

/* One kernel at a time, which gives the same bits: so the CPU's are timed each by itself. */
static ls_status launch_timed(ls_step *step) {
    ls_context *context = step->context;
    Profile *profile = context->profile;
    const ls_image *image = step->image;
    const Moved *moved = step_moved(step);
    const double began = time_us();
    if (profile->used + step->launch_count + 1 > BATCH) drain(context);
    size_t row = find_row(profile, image->step, NULL, image->source_file, image->line);
    Moved all = {0, 0};
    const size_t first = mark(context);
    size_t before = first;
    ls_status status = LS_OK;
    for (uint32_t i = 0; i < step->launch_count && status == LS_OK; i++) {
        const Launch *launch = &step->launches[i];
        status = context->driver->launch(context->device, launch, 1);
        if (status != LS_OK) break;
        const size_t after = mark(context);
        const size_t own =
            find_row(profile, image->step, launch->name, image->source_file, image->line);
        add_pending(context, own, before, after, moved[i]);
        all.read += moved[i].read;
        all.written += moved[i].written;
        before = after;
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

ProfileSpan profile_open(ls_context *context) {
    ProfileSpan span = {.start = SIZE_MAX};
    if (!timed(context)) return span;
    if (context->profile->used + 2 > BATCH) drain(context);
    span.profile = context->profile;
    span.host_us = time_us();
    span.start = mark(context);
    return span;
}

void profile_close(ls_context *context, ProfileSpan span, const ls_graph *graph, uint64_t times,
                   ls_status status) {
    char name[200];
    const Moved moved = {times * graph->moved.read, times * graph->moved.written};
    if (!span.profile || status != LS_OK) return;
    if (graph->launches == 1)
        snprintf(name, sizeof name, "graph of %.140s", graph->steps[0].step->image->step);
    else
        snprintf(name, sizeof name, "graph of %u launches", graph->launches);
    const size_t used = strlen(name);
    if (times > 1)
        snprintf(name + used, sizeof name - used, ", %llu times", (unsigned long long)times);
    const size_t row = find_row(span.profile, name, NULL, "", 0);
    add_pending(context, row, span.start, mark(context), moved);
    add_call(context, row, span.host_us);
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
