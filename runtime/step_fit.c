/* step_fit.c: when a step's own memory does not fit: the largest batch that would have, for the
 * message. Arrays and temporaries are counted anew at other lengths of the axis that varies slowest
 * in the largest array. Blocks and workers are taken to be as many as now. */
#include "runtime.h"

#include <stdio.h>

/* What all arrays that are bound or to be made have at these sizes, and the temporaries;
 * UINT64_MAX: more than can be. With `held` only those that are bound. */
static uint64_t needed(ls_step *step, bool held) {
    uint64_t total = 0, bytes;
    for (uint32_t i = 0; i < step->image->parameter_count; i++) {
        const ls_image_parameter *parameter = &step->image->parameters[i];
        const Binding *binding = &step->bindings[i];
        if (!parameter->rank || !(binding->data || (!held && binding->wanted))) continue;
        bytes = type_rows[parameter->type].size;
        for (uint32_t k = 0; k < parameter->rank; k++)
            if (__builtin_mul_overflow(bytes, (uint64_t)step->sizes[parameter->axes[k]], &bytes))
                return UINT64_MAX;
        if (__builtin_add_overflow(total, bytes, &total)) return UINT64_MAX;
    }
    if (held) return total;
    if (!step_count_temporaries(step, &bytes)) return UINT64_MAX;
    return __builtin_add_overflow(total, bytes, &total) ? UINT64_MAX : total;
}

/* Whether the axis has a length of its own, by which no other goes. */
static bool is_free(const ls_image *image, size_t axis) {
    const ls_image_axis *row = &image->axes[axis];
    if (row->fixed >= 0 || row->parent || row->whole || row->terms) return false;
    for (uint32_t i = 0; i < image->axis_count; i++) {
        const ls_image_axis *other = &image->axes[i];
        if (other->parent || other->whole == axis + 1) return false; /* lists are not counted */
        for (uint32_t t = 0; t < other->term_count; t++)
            if (other->terms[t].operation == LS_TERM_AXIS && other->terms[t].value == (int64_t)axis)
                return false;
    }
    return true;
}

/* The slowest axis of the array that has most elements; the count of axes: there is none. */
static size_t batch_axis(const ls_step *step) {
    const ls_image *image = step->image;
    size_t found = image->axis_count;
    double most = 0;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        double elements = 1;
        if (!parameter->rank || !is_free(image, parameter->axes[0])) continue;
        for (uint32_t k = 0; k < parameter->rank; k++)
            elements *= (double)step->sizes[parameter->axes[k]];
        if (elements <= most) continue;
        most = elements;
        found = parameter->axes[0];
    }
    return found;
}

/* What the context could still hand out. */
static uint64_t room(ls_context *context) {
    ls_memory_statistics held;
    uint64_t free_bytes = 0, total_bytes = 0;
    ls_memory_stats(context, &held);
    context->driver->available(context->device, &free_bytes, &total_bytes);
    const uint64_t allowed = held.limit > held.reserved ? held.limit - held.reserved : 0;
    if (held.limit && allowed < free_bytes) free_bytes = allowed;
    return free_bytes + held.free_bytes;
}

void step_say_fitting(ls_step *step) {
    Error *error = &step->context->error;
    const size_t axis = step->owner ? step->image->axis_count : batch_axis(step);
    char text[sizeof error->text];
    if (axis == step->image->axis_count) return;
    const int64_t now = step->sizes[axis];
    const uint64_t budget = room(step->context) + needed(step, true);
    int64_t low = 0, high = now;
    while (high - low > 1) {
        step->sizes[axis] = low + (high - low) / 2;
        *(needed(step, false) <= budget ? &low : &high) = step->sizes[axis];
    }
    step->sizes[axis] = now;
    if (low == 0) return;
    snprintf(text, sizeof text, "%s", error->text);
    error_set(error, LS_ERROR_MEMORY, "%s; with %s=%lld in place of %lld step %s would have fitted",
              text, step->image->axes[axis].name, (long long)low, (long long)now,
              step->image->step);
}
