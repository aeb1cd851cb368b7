/* step_bind.c: from a caller's tensor to a step's parameter.
 *
 * What can be judged from one tensor alone is refused here: name, type, rank, lengths, strides,
 * memory. What needs all of them (lengths by axis name, overlaps, what is missing) is
 * step_prepare.c's. */
#include "runtime.h"

#include <stdio.h>
#include <string.h>

static const char *form(uint32_t rank) {
    return rank ? "array" : "value";
}

static ls_status check_kind(const ls_step *step, size_t number, const ls_tensor *tensor) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    Error *error = &step->context->error;
    if ((size_t)tensor->type >= LS_TYPE_COUNT)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_step_bind: parameter `%s` of step `%s`: %d is no element type",
                         parameter->name, step->image->step, (int)tensor->type);
    if (tensor->type != parameter->type || tensor->rank != parameter->rank) {
        char declaration[256];
        step_declaration(step, number, declaration, sizeof declaration);
        const char *type = type_rows[tensor->type].name;
        return error_set(
            error, LS_ERROR_BIND,
            "ls_step_bind: parameter `%s` of step `%s` is %s, but %s %s %s of rank %u was "
            "bound",
            parameter->name, step->image->step, declaration, step_article(type), type,
            form(tensor->rank), tensor->rank);
    }
    if (tensor->rank && !tensor->shape)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_step_bind: the tensor for parameter `%s` of step `%s` has no shape",
                         parameter->name, step->image->step);
    return LS_OK;
}

static ls_status check_lengths(const ls_step *step, size_t number, const ls_tensor *tensor) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const ls_image_axis *axis = &step->image->axes[parameter->axes[i]];
        if (tensor->shape[i] < 0)
            return error_set(
                &step->context->error, LS_ERROR_BIND,
                "ls_step_bind: axis `%s` of `%s` in step `%s` cannot have %lld elements",
                axis->name, parameter->name, step->image->step, (long long)tensor->shape[i]);
        if (axis->fixed >= 0 && axis->fixed != tensor->shape[i])
            return error_set(
                &step->context->error, LS_ERROR_BIND,
                "ls_step_bind: axis `%s` of step `%s` is fixed at %lld, but it is %lld in "
                "`%s`",
                axis->name, step->image->step, (long long)axis->fixed, (long long)tensor->shape[i],
                parameter->name);
        if (axis_is_rest(step->image, parameter->axes[i]) && axis->length != tensor->shape[i])
            return error_set(
                &step->context->error, LS_ERROR_BIND,
                "ls_step_bind: axis `%s` of step `%s` has %lld elements in every block, also in "
                "the last, but it is %lld in `%s`",
                axis->name, step->image->step, (long long)axis->length, (long long)tensor->shape[i],
                parameter->name);
    }
    return LS_OK;
}

static void list_strides(const Layout *layout, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < layout->rank && used < size; i++) {
        int wrote = snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                             (long long)layout->strides[i]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

static ls_status check_memory(const ls_step *step, size_t number, const Layout *layout) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    const char *name = parameter->name, *step_name = step->image->step;
    Error *error = &step->context->error;
    if (!layout_in_range(layout))
        return error_set(
            error, LS_ERROR_BIND,
            "ls_step_bind: the array for `%s` of step `%s` is larger than memory can be", name,
            step_name);
    if (layout_empty(layout)) return LS_OK;
    if (!layout->data)
        return error_set(
            error, LS_ERROR_BIND,
            "ls_step_bind: the data pointer for `%s` of step `%s` is NULL; only an empty "
            "array may have none",
            name, step_name);
    if ((uintptr_t)layout->data % layout->element != 0)
        return error_set(
            error, LS_ERROR_BIND,
            "ls_step_bind: the data for `%s` of step `%s` is at address %p, which is not a "
            "multiple of the element size, %llu",
            name, step_name, (const void *)layout->data, (unsigned long long)layout->element);
    if (parameter->role != LS_IN && !layout_distinct(layout)) {
        char strides[256];
        list_strides(layout, strides, sizeof strides);
        return error_set(
            error, LS_ERROR_BIND,
            "ls_step_bind: `%s` of step `%s` is written, but with strides (%s) elements of "
            "the array share memory; bind a copy with a place for each element",
            name, step_name, strides);
    }
    return LS_OK;
}

/* Back to what the parameter is without the caller's memory. */
static void unbind(ls_step *step, size_t number) {
    Binding *binding = &step->bindings[number];
    binding->bound = binding->list.flat = false;
    binding->data = step_is_device_scalar(step, number) ? step_scalar(step, number) : NULL;
    binding->dense = step_is_device_scalar(step, number);
    step->ready = step->sized = false;
}

/* Takes the judged array over. The same one again changes nothing, the same lengths no size. */
static void keep(ls_step *step, size_t number, const Layout *layout) {
    Binding *binding = &step->bindings[number];
    bool same_shape = binding->bound, same = binding->bound && binding->data == layout->data;
    for (uint32_t i = 0; i < layout->rank; i++) {
        same_shape = same_shape && binding->shape[i] == layout->shape[i];
        same = same && binding->strides[i] == layout->strides[i];
        binding->shape[i] = layout->shape[i];
        binding->strides[i] = layout->strides[i];
    }
    binding->data = (void *)(uintptr_t)layout->data;
    binding->bound = true;
    binding->dense = layout->rank == 0 || layout_dense(layout);
    if (!same_shape) step->sized = false;
    if (!same_shape || !same) step->ready = false;
}

ls_status ls_step_bind(ls_step *step, const char *parameter, const ls_tensor *tensor) {
    static const char call[] = "ls_step_bind";
    size_t number;
    ls_status status = step_parameter(step, call, parameter, &number);
    if (status != LS_OK) return status;
    if (!tensor) {
        unbind(step, number);
        return LS_OK;
    }
    if (step_is_list(step, number)) return list_bind_flat(step, number, tensor);
    status = check_kind(step, number, tensor);
    if (status == LS_OK) status = check_lengths(step, number, tensor);
    if (status != LS_OK) return status;
    int64_t strides[LS_RANK_MAX];
    Layout layout = {tensor->data, type_rows[tensor->type].size, tensor->rank, tensor->shape,
                     tensor->strides};
    if (!layout.strides) {
        static const int64_t none[LS_RANK_MAX];
        layout.strides = none; /* with these only the count can be too large */
        if (layout_in_range(&layout))
            layout_contiguous(tensor->rank, tensor->shape, strides);
        else
            memset(strides, 0, sizeof strides);
        status = layout_in_range(&layout) ? LS_OK : check_memory(step, number, &layout);
        if (status != LS_OK) return status;
        layout.strides = strides;
    }
    status = check_memory(step, number, &layout);
    if (status != LS_OK) return status;
    keep(step, number, &layout);
    return LS_OK;
}

void step_want(ls_step *step, size_t number) {
    if (step_leaves_out(step, number)) step->ready = false;
    step->bindings[number].wanted = true;
}

ls_status ls_step_want(ls_step *step, const char *parameter) {
    static const char call[] = "ls_step_want";
    size_t found;
    ls_status status = step_parameter(step, call, parameter, &found);
    if (status != LS_OK) return status;
    if (step->image->parameters[found].role != LS_OUT)
        return error_set(
            &step->context->error, LS_ERROR_BIND,
            "%s: parameter `%s` of step `%s` is not an `out`; bind it with ls_step_bind", call,
            parameter, step->image->step);
    step_want(step, found);
    return LS_OK;
}

ls_status ls_step_output(ls_step *step, const char *parameter, ls_tensor *tensor) {
    static const char call[] = "ls_step_output";
    if (tensor) *tensor = (ls_tensor){0};
    if (!step || !parameter || !tensor)
        return error_set(step ? &step->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, !step ? "step" : (!parameter ? "parameter" : "tensor"));
    int found = step_find(step, call, parameter);
    if (found < 0) return LS_ERROR_ARGUMENT;
    if (step_is_list(step, (size_t)found))
        return error_set(&step->context->error, LS_ERROR_BIND,
                         "%s: parameter `%s` of step `%s` is a list of tensors; use "
                         "ls_step_output_list",
                         call, parameter, step->image->step);
    step_want(step, (size_t)found);
    ls_status status = step_prepare(step, call);
    if (status != LS_OK) return status;
    const Binding *binding = &step->bindings[found];
    const ls_image_parameter *row = &step->image->parameters[found];
    *tensor = (ls_tensor){binding->data, row->type, row->rank, binding->shape, binding->strides};
    return LS_OK;
}
