/* step_overlap.c: memory that is written may not be any other parameter's, nor twice its own.
 *
 * Contiguous arrays and the tensors of lists, of which there may be many, are ranges of addresses:
 * sorted, each is compared with what reaches furthest among those before it. Arrays with gaps are
 * few, and are compared with everything in their range. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Span {
    uintptr_t first, end;
    uint32_t parameter;
    bool written, contiguous;
    size_t tensor; /* of a list */
} Span;

static Layout layout_of(const ls_step *step, size_t number) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    const Binding *binding = &step->bindings[number];
    return (Layout){binding->data, type_rows[parameter->type].size, parameter->rank, binding->shape,
                    binding->strides};
}

static size_t collect_list(const ls_step *step, uint32_t number, Span *spans) {
    const ls_image_parameter *row = &step->image->parameters[number];
    const List *list = &step->bindings[number].list;
    uint32_t rank = row->rank - 1;
    size_t used = 0;
    for (size_t i = 0; i < list->count; i++) {
        uintptr_t bytes = type_rows[row->type].size, first = (uintptr_t)list->pointers[i];
        for (uint32_t k = 0; k < rank; k++) bytes *= (uintptr_t)list->lengths[i * rank + k];
        if (bytes)
            spans[used++] = (Span){first, first + bytes, number, row->role != LS_IN, true, i};
    }
    return used;
}

static size_t collect(const ls_step *step, Span *spans) {
    const ls_image *image = step->image;
    size_t used = 0;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        if (step_leaves_out(step, i)) continue;
        if (step_is_list(step, i)) {
            used += collect_list(step, i, spans + used);
            continue;
        }
        Layout layout = layout_of(step, i);
        if (layout_empty(&layout)) continue;
        Span *span = &spans[used++];
        *span =
            (Span){0, 0, i, image->parameters[i].role != LS_IN, layout_is_contiguous(&layout), 0};
        layout_range(&layout, &span->first, &span->end);
    }
    return used;
}

/* Sorts by address, a byte at a time from the lowest; bytes that are the same in all cost nothing.
 * Equal addresses keep the order of the parameters. The result is in one of the two. */
typedef struct Start {
    uintptr_t first;
    size_t span;
} Start;
static const Start *sort(Start *starts_sorted, Start *spare, size_t count) {
    for (unsigned shift = 0; shift < sizeof(uintptr_t) * 8; shift += 8) {
        size_t starts[256] = {0}, at = 0;
        for (size_t i = 0; i < count; i++) starts[starts_sorted[i].first >> shift & 255]++;
        if (count == 0 || starts[starts_sorted[0].first >> shift & 255] == count) continue;
        for (size_t i = 0; i < 256; i++) {
            size_t here = starts[i];
            starts[i] = at;
            at += here;
        }
        for (size_t i = 0; i < count; i++)
            spare[starts[starts_sorted[i].first >> shift & 255]++] = starts_sorted[i];
        Start *sorted = spare;
        spare = starts_sorted;
        starts_sorted = sorted;
    }
    return starts_sorted;
}

static void span_name(const ls_step *step, const Span *span, char *text, size_t size) {
    const char *name = step->image->parameters[span->parameter].name;
    if (step_is_list(step, span->parameter))
        snprintf(text, size, "tensor %zu of `%.100s`", span->tensor, name);
    else
        snprintf(text, size, "`%.100s`", name);
}

static ls_status refuse(const ls_step *step, const char *call, const Span *a, const Span *b) {
    const ls_image *image = step->image;
    bool in_order =
        a->parameter != b->parameter ? a->parameter < b->parameter : a->tensor <= b->tensor;
    const Span *first = in_order ? a : b, *second = in_order ? b : a;
    if (a->parameter == b->parameter)
        return error_set(&step->context->error, LS_ERROR_BIND,
                         "%s: tensors %zu and %zu of `%s` of step `%s` overlap in memory, and `%s` "
                         "is written; list tied weights once",
                         call, first->tensor, second->tensor, image->parameters[a->parameter].name,
                         image->step, image->parameters[a->parameter].name);
    char one[160], other[160];
    span_name(step, first, one, sizeof one);
    span_name(step, second, other, sizeof other);
    return error_set(&step->context->error, LS_ERROR_BIND,
                     "%s: %s and %s of step `%s` overlap in memory, and `%s` is written; bind "
                     "separate memory",
                     call, one, other, image->step,
                     image->parameters[(first->written ? first : second)->parameter].name);
}

static bool apart(const ls_step *step, const Span *a, const Span *b) {
    if (a->end <= b->first || b->end <= a->first) return true;
    if (a->contiguous && b->contiguous) return false;
    int64_t length[2], stride[2] = {1, 1};
    Layout layouts[2];
    const Span *spans[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        layouts[i] = layout_of(step, spans[i]->parameter);
        if (!step_is_list(step, spans[i]->parameter)) continue;
        length[i] = (int64_t)((spans[i]->end - spans[i]->first) / layouts[i].element);
        layouts[i].data = (const char *)spans[i]->first;
        layouts[i].rank = 1;
        layouts[i].shape = &length[i];
        layouts[i].strides = &stride[i];
    }
    return layout_disjoint(&layouts[0], &layouts[1]);
}

static ls_status compare(const ls_step *step, const char *call, const Span *spans,
                         const Start *starts_sorted, size_t count) {
    const Span *reach = NULL, *written_reach = NULL; /* end furthest of all, of those written */
    for (size_t i = 0; i < count; i++) {
        const Span *span = &spans[starts_sorted[i].span];
        if (!span->contiguous) {
            for (size_t k = 0; k < count; k++)
                if ((span->written || spans[k].written) && &spans[k] != span &&
                    !apart(step, span, &spans[k]))
                    return refuse(step, call, span, &spans[k]);
            continue;
        }
        const Span *before = span->written ? reach : written_reach;
        if (before && before->end > span->first) return refuse(step, call, before, span);
        if (!reach || span->end > reach->end) reach = span;
        if (span->written && (!written_reach || span->end > written_reach->end))
            written_reach = span;
    }
    return LS_OK;
}

ls_status step_check_overlap(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    size_t max = image->parameter_count;
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (step_is_list(step, i)) max += step->bindings[i].list.count;
    Span *spans = malloc((max + 1) * sizeof *spans);
    Start *starts_sorted = malloc((max + 1) * 2 * sizeof *starts_sorted);
    ls_status status = LS_OK;
    if (spans && starts_sorted) {
        size_t count = collect(step, spans);
        for (size_t i = 0; i < count; i++) starts_sorted[i] = (Start){spans[i].first, i};
        status = compare(step, call, spans, sort(starts_sorted, starts_sorted + max, count), count);
    } else {
        status = error_memory(&step->context->error, call);
    }
    free(starts_sorted);
    free(spans);
    return status;
}
