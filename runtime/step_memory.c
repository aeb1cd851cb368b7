/* step_memory.c: the device memory a step owns: outputs nobody bound, arrays filled with a number.
 * Grown when sizes need it, never shrunk, and kept while a graph may use it. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR_STEP = 16 };

void step_drop_retired(ls_step *step, uint64_t since) {
    size_t kept = 0;
    for (size_t i = 0; i < step->retired_count; i++) {
        Retired row = step->retired[i];
        if (row.number >= since) row.users--;
        if (row.users > 0 || step->pinned)
            step->retired[kept++] = row;
        else
            memory_free(step->context, row.pointer);
    }
    step->retired_count = kept;
}

ls_status step_retire(ls_step *step, void *pointer) {
    if (!pointer) return LS_OK;
    if (step->owner) return step_retire(step->owner, pointer); /* graphs know the whole step */
    if (step->graphs == 0 && !step->pinned) {
        memory_free(step->context, pointer);
        return LS_OK;
    }
    Retired *grown = realloc(step->retired, (step->retired_count + 1) * sizeof *grown);
    if (!grown) return error_memory(&step->context->error, "ls_step_prepare");
    step->retired = grown;
    grown[step->retired_count++] = (Retired){pointer, step->retirements++, step->graphs};
    return LS_OK;
}

void step_set_captured(ls_step *step) {
    step->entries.captured = step->pointers.captured = step->temporaries.captured = true;
    for (uint32_t i = 0; i < step->image->part_count; i++) step_set_captured(step->parts[i]);
}

ls_status step_ensure(ls_step *step, const char *call, Owned owned, uint64_t bytes) {
    char label[LABEL_BYTES];
    if (*owned.pointer && *owned.held >= bytes) return LS_OK;
    ls_status status = step_retire(step, *owned.pointer);
    if (status != LS_OK) return status;
    *owned.pointer = NULL;
    *owned.held = 0;
    snprintf(label, sizeof label, "step %.40s: %s %.40s", step->image->step, owned.kind,
             owned.name);
    status = memory_allocate_for(step->context, call, label, (size_t)bytes, owned.pointer);
    if (status == LS_OK) *owned.held = bytes;
    if (status == LS_ERROR_MEMORY && step->sized) step_say_fitting(step);
    return status;
}

ls_status step_too_large(const ls_step *step, const char *call, const char *what) {
    return error_set(
        &step->context->error, LS_ERROR_BIND,
        "%s: `%s` of step `%s` would be larger than memory can be; bind smaller arrays", call, what,
        step->image->step);
}

/* Rounds up; false where that is more than memory can be. */
static bool round_up(uint64_t *bytes, uint64_t step) {
    if (*bytes > INT64_MAX - step) return false;
    *bytes = (*bytes + step - 1) / step * step;
    return true;
}

/* An out that nobody bound, or an array that a number fills. */
static Owned owned_array(ls_step *step, size_t number) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    Binding *binding = &step->bindings[number];
    return (Owned){parameter->role == LS_OUT ? "output" : "filled", parameter->name,
                   &binding->owned, &binding->owned_bytes};
}

static ls_status allocate_array(ls_step *step, const char *call, size_t number) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    Binding *binding = &step->bindings[number];
    uint64_t bytes = type_rows[parameter->type].size;
    bool empty = false, fits = true;
    for (uint32_t k = 0; k < parameter->rank; k++) {
        binding->shape[k] = step->sizes[parameter->axes[k]];
        uint64_t length = (uint64_t)binding->shape[k];
        empty = empty || length == 0;
        fits = fits && !(length && bytes > INT64_MAX / length);
        if (fits && length) bytes *= length;
    }
    if (!empty && !fits) return step_too_large(step, call, parameter->name);
    if (empty)
        memset(binding->strides, 0, parameter->rank * sizeof *binding->strides);
    else
        layout_contiguous(parameter->rank, binding->shape, binding->strides);
    void *before = binding->owned;
    ls_status status = step_ensure(step, call, owned_array(step, number), empty ? 1 : bytes);
    if (status != LS_OK) return status;
    if (binding->owned != before) binding->filled_count = 0;
    binding->data = binding->owned;
    binding->dense = true;
    return LS_OK;
}

/* One allocation for all tensors, each on a 16-byte boundary. */
static ls_status allocate_list(ls_step *step, const char *call, size_t number) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    Binding *binding = &step->bindings[number];
    List *list = &binding->list;
    size_t count = (size_t)step->sizes[binding->list_axis], rank = parameter->rank - 1;
    uint64_t total = 0;
    if (step->planned && list->count == count && binding->owned) return LS_OK; /* as it was */
    list->count = 0; /* what an unbound list held is of no use */
    ls_status status = list_grow(step, call, number, count);
    if (status != LS_OK) return status;
    for (size_t i = 0; i < count; i++) {
        int64_t *lengths = &list->lengths[i * rank];
        uint64_t bytes = type_rows[parameter->type].size;
        bool empty = false, fits = true;
        size_t at = 0;
        for (uint32_t k = 0; k < parameter->rank; k++) {
            if (parameter->axes[k] == binding->list_axis) continue;
            uint64_t length = (uint64_t)step_length(step, parameter->axes[k], i);
            lengths[at++] = (int64_t)length;
            empty = empty || length == 0;
            fits = fits && !(length && __builtin_mul_overflow(bytes, length, &bytes));
        }
        if (empty) bytes = 0;
        if ((!empty && !fits) || !round_up(&bytes, TENSOR_STEP) || bytes > INT64_MAX - total)
            return step_too_large(step, call, parameter->name);
        list->pointers[i] = (void *)(uintptr_t)total; /* the offset, until there is memory */
        total += bytes;
    }
    status = step_ensure(step, call, owned_array(step, number), total ? total : 1);
    if (status != LS_OK) return status;
    for (size_t i = 0; i < count; i++)
        list->pointers[i] = (char *)binding->owned + (uintptr_t)list->pointers[i];
    list->count = count;
    binding->dense = true;
    return LS_OK;
}

ls_status step_fill(ls_step *step, const char *call, size_t number) {
    Binding *binding = &step->bindings[number];
    size_t element = type_rows[step->image->parameters[number].type].size;
    size_t count = (size_t)binding->shape[0];
    if (!binding->fill_due && binding->filled_count == binding->shape[0]) return LS_OK;
    char *values = malloc(count * element + 1);
    if (!values) return error_memory(&step->context->error, call);
    for (size_t i = 0; i < count; i++) memcpy(values + i * element, &binding->fill, element);
    Device *device = step->context->device;
    ls_status status = LS_OK;
    const CopyRun run = {COPY_IN, binding->data, values, count * element, NULL, step};
    if (count) status = copy_bytes(step->context, &run);
    if (status == LS_OK) status = device->driver->synchronize(device); /* `values` was read */
    free(values);
    if (status != LS_OK) return status;
    binding->fill_due = false;
    binding->filled_count = binding->shape[0];
    return LS_OK;
}

ls_status step_allocate_outputs(ls_step *step, const char *call) {
    ls_status status = LS_OK;
    for (uint32_t i = 0; i < step->image->parameter_count && status == LS_OK; i++) {
        if (step->bindings[i].bound || step_is_device_scalar(step, i)) continue;
        if (step_leaves_out(step, i)) {
            step->bindings[i].data = NULL;
            step->bindings[i].list.count = 0;
            step->bindings[i].dense = true;
            continue;
        }
        if (step_is_list(step, i)) {
            status = allocate_list(step, call, i);
            continue;
        }
        status = allocate_array(step, call, i);
        if (status == LS_OK && step->bindings[i].has_value) status = step_fill(step, call, i);
    }
    return status;
}
