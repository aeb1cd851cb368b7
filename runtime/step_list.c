/* step_list.c: from a caller's tensors to a step's list parameter, and back.
 *
 * A list's tensors are contiguous; over one ragged axis a tensor of any shape counts as its
 * elements. Judged here is what one list alone shows; lengths against other parameters are
 * step_sizes.c's, shared memory step_overlap.c's. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool step_is_list(const ls_step *step, size_t parameter) {
    return step->bindings[parameter].list_axis >= 0;
}

ls_status list_grow(ls_step *step, const char *call, size_t parameter, size_t count) {
    List *list = &step->bindings[parameter].list;
    size_t rank = step->image->parameters[parameter].rank - 1;
    if (count <= list->capacity) return LS_OK;
    if (count > SIZE_MAX / (rank * sizeof(int64_t)))
        return error_memory(&step->context->error, call);
    void **pointers = malloc(count * sizeof *pointers);
    int64_t *lengths = malloc(count * rank * sizeof *lengths);
    if (!pointers || !lengths) {
        free(pointers);
        free(lengths);
        return error_memory(&step->context->error, call);
    }
    if (list->count) {
        memcpy(pointers, list->pointers, list->count * sizeof *pointers);
        memcpy(lengths, list->lengths, list->count * rank * sizeof *lengths);
    }
    list_free(list);
    list->pointers = pointers;
    list->lengths = lengths;
    list->capacity = count;
    return LS_OK;
}

void list_free(List *list) {
    free(list->pointers);
    free(list->lengths);
}

/* One tensor being judged. */
typedef struct Candidate {
    const ls_step *step;
    size_t parameter, tensor;
    const ls_tensor *given;
    bool flat; /* for all tensors */
} Candidate;

/* "tensor 3 of `p` in step `adamw`" opens every message about it. */
static ls_status refuse(const Candidate *c, ls_status status, const char *problem) {
    const ls_image *image = c->step->image;
    if (c->flat)
        return error_set(&c->step->context->error, status,
                         "ls_step_bind: the array for `%s` of step `%s` %s",
                         image->parameters[c->parameter].name, image->step, problem);
    return error_set(&c->step->context->error, status,
                     "ls_step_bind_list: tensor %zu for `%s` of step `%s` %s", c->tensor,
                     image->parameters[c->parameter].name, image->step, problem);
}

static ls_status check_kind(const Candidate *c) {
    const ls_image_parameter *row = &c->step->image->parameters[c->parameter];
    const ls_tensor *given = c->given;
    char text[512], declaration[256];
    if ((size_t)given->type >= LS_TYPE_COUNT) {
        snprintf(text, sizeof text, "has type %d, which is no element type", (int)given->type);
        return refuse(c, LS_ERROR_ARGUMENT, text);
    }
    bool ranked =
        given->rank <= LS_RANK_MAX && (row->rank <= 2 || given->rank == row->rank - 1 || c->flat);
    if (given->type == row->type && ranked && (!given->rank || given->shape)) return LS_OK;
    step_declaration(c->step, c->parameter, declaration, sizeof declaration);
    const char *type = type_rows[given->type].name;
    if (given->type != row->type) {
        snprintf(text, sizeof text, "is %s %s array, but the parameter is %s", step_article(type),
                 type, declaration);
        return refuse(c, LS_ERROR_BIND, text);
    }
    if (!ranked) {
        snprintf(text, sizeof text,
                 "has rank %u, but the parameter is %s: its tensors have rank %u", given->rank,
                 declaration, row->rank > 2 ? row->rank - 1 : LS_RANK_MAX);
        return refuse(c, LS_ERROR_BIND, text);
    }
    return refuse(c, LS_ERROR_ARGUMENT, "has no shape");
}

static ls_status check_lengths(const Candidate *c) {
    const ls_image *image = c->step->image;
    const ls_image_parameter *row = &image->parameters[c->parameter];
    char text[256];
    for (uint32_t i = 0; i < c->given->rank; i++) {
        if (c->given->shape[i] >= 0) continue;
        snprintf(text, sizeof text, "cannot have %lld elements along an axis",
                 (long long)c->given->shape[i]);
        return refuse(c, LS_ERROR_BIND, text);
    }
    if (row->rank == 2 || c->flat) return LS_OK; /* counted as its elements */
    uint32_t at = 0;
    for (uint32_t i = 0; i < row->rank; i++) {
        if (row->axes[i] == c->step->bindings[c->parameter].list_axis) continue;
        const ls_image_axis *axis = &image->axes[row->axes[i]];
        int64_t length = c->given->shape[at++];
        int64_t wanted = axis_is_rest(image, row->axes[i]) ? axis->length : axis->fixed;
        if (wanted < 0 || wanted == length) continue;
        snprintf(text, sizeof text, "has %lld elements along axis `%s`, which %s %lld",
                 (long long)length, axis->name,
                 wanted == axis->fixed ? "is fixed at" : "has in every block", (long long)wanted);
        return refuse(c, LS_ERROR_BIND, text);
    }
    return LS_OK;
}

static ls_status check_memory(const Candidate *c) {
    static const int64_t none[LS_RANK_MAX];
    const ls_tensor *given = c->given;
    Layout layout = {given->data, type_rows[given->type].size, given->rank, given->shape,
                     given->strides ? given->strides : none};
    if (!layout_in_range(&layout)) return refuse(c, LS_ERROR_BIND, "is larger than memory can be");
    if (layout_empty(&layout)) return LS_OK;
    if (given->strides && !layout_is_contiguous(&layout))
        return refuse(
            c, LS_ERROR_BIND,
            "is not contiguous, as the tensors of a list must be; bind a contiguous copy");
    if (!given->data)
        return refuse(c, LS_ERROR_BIND, "has a NULL data pointer; only an empty one may");
    if ((uintptr_t)given->data % layout.element != 0)
        return refuse(c, LS_ERROR_BIND,
                      "is at an address that is not a multiple of the element size");
    return LS_OK;
}

static int64_t elements(const ls_tensor *tensor) {
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] == 0) return 0;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

/* Writes the judged tensors into the list; tells whether a length or an address is another. */
static void keep(ls_step *step, size_t parameter, const ls_tensor *tensors, size_t count) {
    Binding *binding = &step->bindings[parameter];
    List *list = &binding->list;
    uint32_t rank = step->image->parameters[parameter].rank - 1;
    bool same_lengths = binding->bound && list->count == count, same_data = same_lengths;
    binding->dense = true;
    for (size_t i = 0; i < count; i++) {
        int64_t *lengths = &list->lengths[i * rank];
        bool empty = false;
        for (uint32_t k = 0; k < rank; k++) {
            int64_t length = rank == 1 ? elements(&tensors[i]) : tensors[i].shape[k];
            same_lengths = same_lengths && lengths[k] == length;
            lengths[k] = length;
            empty = empty || length == 0;
        }
        same_data = same_data && list->pointers[i] == tensors[i].data;
        list->pointers[i] = tensors[i].data;
        if (!empty && (uintptr_t)tensors[i].data % 16 != 0) binding->dense = false;
    }
    if (list->flat) step->sized = step->ready = list->flat = false;
    list->count = count;
    binding->bound = true;
    if (!same_lengths) step->sized = false;
    if (!same_lengths || !same_data) step->ready = false;
}

/* ---- one array for all tensors ---- */

ls_status list_bind_flat(ls_step *step, size_t number, const ls_tensor *tensor) {
    Binding *binding = &step->bindings[number];
    List *list = &binding->list;
    const Candidate candidate = {step, number, 0, tensor, true};
    ls_status status = check_kind(&candidate);
    if (status == LS_OK) status = check_lengths(&candidate);
    if (status == LS_OK) status = check_memory(&candidate);
    if (status != LS_OK) return status;
    const int64_t count = elements(tensor);
    const bool same = binding->bound && list->flat && list->elements == count;
    if (same && list->data == tensor->data) return LS_OK;
    list->flat = binding->bound = true;
    list->data = tensor->data;
    list->elements = count;
    step->sized = step->ready = false;
    return LS_OK;
}

/* What one tensor of the parameter has; false: it overflows. */
static bool count_elements(const ls_step *step, size_t number, size_t tensor, int64_t *lengths,
                           int64_t *count) {
    const ls_image_parameter *row = &step->image->parameters[number];
    size_t at = 0;
    bool fits = true;
    *count = 1;
    for (uint32_t i = 0; i < row->rank; i++) {
        if (row->axes[i] == step->bindings[number].list_axis) continue;
        lengths[at] = step_length(step, row->axes[i], tensor);
        fits = fits && !__builtin_mul_overflow(*count, lengths[at], count);
        at++;
    }
    return fits;
}

ls_status list_cut(ls_step *step, const char *call, size_t number, bool whole) {
    const ls_image_parameter *row = &step->image->parameters[number];
    Binding *binding = &step->bindings[number];
    List *list = &binding->list;
    const size_t rank = row->rank - 1,
                 tensors = whole ? 1 : (size_t)step->sizes[binding->list_axis];
    int64_t done = 0, count = list->elements;
    list->count = 0;
    ls_status status = list_grow(step, call, number, tensors);
    if (status != LS_OK) return status;
    binding->dense = true;
    for (size_t i = 0; i < tensors; i++) {
        char *at = list->data + done * (int64_t)type_rows[row->type].size;
        if (whole)
            list->lengths[0] = count;
        else if (!count_elements(step, number, i, &list->lengths[i * rank], &count))
            return step_too_large(step, call, row->name);
        list->pointers[i] = at;
        if (count && (uintptr_t)at % 16 != 0) binding->dense = false;
        if (count > INT64_MAX - done) return step_too_large(step, call, row->name);
        done += count;
    }
    if (done != list->elements)
        return error_set(&step->context->error, LS_ERROR_BIND,
                         "%s: the tensors of `%s` in step `%s` have %lld elements, but the array "
                         "that is bound for all of them has %lld",
                         call, row->name, step->image->step, (long long)done,
                         (long long)list->elements);
    list->count = tensors;
    return LS_OK;
}

/* A parameter of a call that is for lists only. */
static ls_status find_list(ls_step *step, const char *call, const char *name, size_t *number) {
    ls_status status = step_parameter(step, call, name, number);
    if (status != LS_OK || step_is_list(step, *number)) return status;
    char declaration[256];
    step_declaration(step, *number, declaration, sizeof declaration);
    return error_set(&step->context->error, LS_ERROR_BIND,
                     "%s: parameter `%s` of step `%s` is %s, not a list of tensors; use %s", call,
                     name, step->image->step, declaration,
                     strcmp(call, "ls_step_bind_list") == 0 ? "ls_step_bind" : "ls_step_output");
}

ls_status ls_step_bind_list(ls_step *step, const char *parameter, const ls_tensor *tensors,
                            size_t count) {
    static const char call[] = "ls_step_bind_list";
    size_t number;
    ls_status status = find_list(step, call, parameter, &number);
    if (status == LS_OK && count && !tensors)
        status = error_set(&step->context->error, LS_ERROR_ARGUMENT, "%s: tensors is NULL", call);
    if (status != LS_OK) return status;
    const ls_image_axis *axis = &step->image->axes[step->bindings[number].list_axis];
    if (axis->fixed >= 0 && (uint64_t)axis->fixed != count)
        return error_set(&step->context->error, LS_ERROR_BIND,
                         "%s: axis `%s` of step `%s` is fixed at %lld, but `%s` was given %zu "
                         "tensor%s",
                         call, axis->name, step->image->step, (long long)axis->fixed, parameter,
                         count, count == 1 ? "" : "s");
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        Candidate candidate = {step, number, i, &tensors[i], false};
        status = check_kind(&candidate);
        if (status == LS_OK) status = check_lengths(&candidate);
        if (status == LS_OK) status = check_memory(&candidate);
    }
    if (status == LS_OK) status = list_grow(step, call, number, count);
    if (status == LS_OK) keep(step, number, tensors, count);
    return status;
}

ls_status ls_step_output_list(ls_step *step, const char *parameter, ls_tensor *tensors,
                              size_t capacity, size_t *count) {
    static const char call[] = "ls_step_output_list";
    size_t number;
    if (count) *count = 0;
    if (step && parameter && (!count || (capacity && !tensors)))
        return error_set(&step->context->error, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                         count ? "tensors" : "count");
    ls_status status = find_list(step, call, parameter, &number);
    if (status != LS_OK) return status;
    step_want(step, number);
    status = step_prepare(step, call);
    if (status != LS_OK) return status;
    const ls_image_parameter *row = &step->image->parameters[number];
    const List *list = &step->bindings[number].list;
    uint32_t rank = row->rank - 1;
    for (size_t i = 0; i < list->count && i < capacity; i++)
        tensors[i] =
            (ls_tensor){list->pointers[i], row->type, rank, &list->lengths[i * rank], NULL};
    *count = list->count;
    return LS_OK;
}
