/* memory_report.c: who holds the device's memory: by label, as a report, and in the message that
 * there is no more. */
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

SizeText memory_size(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    SizeText size;
    size_t unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit + 1 < COUNT(units); unit++) value /= 1024;
    snprintf(size.text, sizeof size.text, "%.*f %s", unit ? 1 : 0, value, units[unit]);
    return size;
}
#define SIZE(bytes) memory_size(bytes).text

/* Text that knows how long it would be. */
typedef struct Text {
    char *at;
    size_t size, length;
} Text;

static void PRINTF_LIKE(2, 3) add(Text *text, const char *format, ...) {
    size_t room = text->length < text->size ? text->size - text->length : 0;
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(room ? text->at + text->length : NULL, room, format, arguments);
    va_end(arguments);
    if (more > 0) text->length += (size_t)more;
}

/* Largest first; what holds as much, by name. */
static bool is_before(const ls_memory_label *a, const ls_memory_label *b) {
    return a->in_use != b->in_use ? a->in_use > b->in_use : strcmp(a->label, b->label) < 0;
}

size_t ls_memory_labels(const ls_context *context, ls_memory_label *labels, size_t capacity) {
    size_t count = 0, filled = 0;
    if (!context) return 0;
    if (!labels) capacity = 0;
    for (const Label *at = context->memory.labels; at; at = at->next, count++) {
        const ls_memory_label row = {at->name, at->in_use, at->peak, at->allocations};
        size_t place = filled;
        while (place > 0 && is_before(&row, &labels[place - 1])) place--;
        if (place >= capacity) continue;
        if (filled < capacity) filled++;
        memmove(&labels[place + 1], &labels[place], (filled - place - 1) * sizeof *labels);
        labels[place] = row;
    }
    return count;
}

/* The label that comes after `last` among those that hold something. */
static const Label *next_label(const Memory *memory, const Label *last) {
    const Label *best = NULL;
    for (const Label *at = memory->labels; at; at = at->next) {
        const ls_memory_label row = {at->name, at->in_use, 0, 0};
        if (at->allocations == 0) continue;
        if (last && !is_before(&(ls_memory_label){last->name, last->in_use, 0, 0}, &row)) continue;
        if (!best || is_before(&row, &(ls_memory_label){best->name, best->in_use, 0, 0})) best = at;
    }
    return best;
}

size_t ls_memory_report(ls_context *context, char *text, size_t size) {
    if (!text) size = 0;
    Text out = {text, size, 0};
    ls_memory_statistics held;
    uint64_t free_bytes, total_bytes;
    if (size) *text = 0;
    if (!context) return 0;
    ls_memory_stats(context, &held);
    add(&out,
        "memory of %s: %s in use (at most %s) in %llu allocation%s, %s reserved (at most %s)\n",
        context->device->name, SIZE(held.in_use), SIZE(held.peak),
        (unsigned long long)held.allocations, held.allocations == 1 ? "" : "s", SIZE(held.reserved),
        SIZE(held.reserved_peak));
    add(&out, "  free in the pool: %s in %llu range%s, the largest %s; lost to rounding: %s\n",
        SIZE(held.free_bytes), (unsigned long long)held.free_ranges,
        held.free_ranges == 1 ? "" : "s", SIZE(held.largest_free), SIZE(held.rounding));
    if (context->driver->available(context->device, &free_bytes, &total_bytes))
        add(&out, "  free on the device: %s of %s\n", SIZE(free_bytes), SIZE(total_bytes));
    if (held.limit) add(&out, "  limit: %s\n", SIZE(held.limit));
    for (const Label *at = NULL; (at = next_label(&context->memory, at)) != NULL;)
        add(&out, "  %12s %5.1f %% %6llu x  %s (at most %s)\n", SIZE(at->in_use),
            held.in_use ? 100 * (double)at->in_use / (double)held.in_use : 0,
            (unsigned long long)at->allocations, at->name, SIZE(at->peak));
    return out.length;
}

void memory_log_holders(const ls_context *context) {
    const uint64_t count = context->memory.statistics.allocations;
    if (count == 0 || !log_wanted(LOG_INFO)) return;
    log_write(LOG_INFO, "context on %s destroyed with %s in %llu allocation%s that nobody freed:",
              context->device->name, SIZE(context->memory.statistics.in_use),
              (unsigned long long)count, count == 1 ? "" : "s");
    for (const Label *at = NULL; (at = next_label(&context->memory, at)) != NULL;)
        log_write(LOG_INFO, "  %llu x %s, %s", (unsigned long long)at->allocations, at->name,
                  SIZE(at->in_use));
}

/* "; the largest: weights 8.0 MiB, step adamw: temporary parts 1.0 MiB and 3 more" */
static void add_holders(Text *out, const ls_context *context) {
    enum { NAMED = 4 };
    const Label *at = NULL;
    size_t count = 0, more = 0;
    while ((at = next_label(&context->memory, at)) != NULL) {
        if (count++ < NAMED)
            add(out, "%s%s %s", count == 1 ? "; the largest: " : ", ", at->name, SIZE(at->in_use));
        else
            more++;
    }
    if (more) add(out, " and %zu more", more);
}

ls_status memory_exhausted(ls_context *context, const char *call, const char *label, size_t bytes) {
    char text[2048] = "";
    Text out = {text, sizeof text, 0};
    ls_memory_statistics held;
    uint64_t free_bytes = 0, total_bytes = 0;
    ls_memory_stats(context, &held);
    add(&out, "no %s more on %s", SIZE(bytes), context->device->name);
    bool known = context->driver->available(context->device, &free_bytes, &total_bytes);
    if (known) add(&out, ", which has %s of %s free", SIZE(free_bytes), SIZE(total_bytes));
    if (strcmp(call, label) != 0) add(&out, ", for %s", label);
    add(&out, "; this context holds %s in %llu allocation%s", SIZE(held.in_use),
        (unsigned long long)held.allocations, held.allocations == 1 ? "" : "s");
    add(&out, ", %s of its %s are free, in one piece at most %s", SIZE(held.free_bytes),
        SIZE(held.reserved), SIZE(held.largest_free));
    add_holders(&out, context);
    const uint64_t others = total_bytes - free_bytes;
    if (held.limit && (bytes > held.limit || held.reserved > held.limit - bytes))
        add(&out, "; raise ls_memory_limit, which is %s, or free some", SIZE(held.limit));
    else if (held.free_bytes >= bytes)
        add(&out, "; what is free lies between what is in use: allocate the large arrays first, or "
                  "free and allocate anew");
    else if (known && others > held.reserved && others - held.reserved > total_bytes / 2)
        add(&out,
            "; others hold %s of the device: end other processes, or call ls_memory_trim on "
            "other contexts",
            SIZE(others - held.reserved));
    else
        add(&out, "; free some, or use smaller arrays or batches");
    return error_set(&context->error, LS_ERROR_MEMORY, "%s: %s", call, text);
}
