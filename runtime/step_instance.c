/* step_instance.c: another handle of a step for other arrays: the same kernels, and the values of
 * the rank-0 parameters that it only reads are the step's own, one for all. */
#include "runtime.h"

#include <string.h>

static bool is_shared(const ls_step *step, size_t parameter) {
    return step->source && step->image->parameters[parameter].role == LS_IN;
}

void *step_scalar(const ls_step *step, size_t parameter) {
    const ls_step *holder = is_shared(step, parameter) ? step->source : step;
    return holder->scalars + parameter * SCALAR_BYTES;
}

bool step_has_value(const ls_step *step, size_t parameter) {
    if (step->bindings[parameter].has_value) return true;
    return step_is_device_scalar(step, parameter) && is_shared(step, parameter) &&
           step->source->bindings[parameter].has_value;
}

static void take_scalar(ls_step *made, const ls_step *step, size_t number) {
    Binding *to = &made->bindings[number];
    const Binding *from = &step->bindings[number];
    if (!from->bound && !is_shared(made, number)) return;
    to->data = from->data;
    to->bound = from->bound;
    to->has_value = from->has_value;
}

static ls_status take_array(ls_step *made, const char *call, const ls_step *step, size_t number) {
    Binding *to = &made->bindings[number];
    const Binding *from = &step->bindings[number];
    const size_t rank = step->image->parameters[number].rank;
    to->wanted = from->wanted;
    to->has_value = to->fill_due = from->has_value;
    to->fill = from->fill;
    if (!from->bound) return LS_OK;
    to->bound = true;
    to->dense = from->dense;
    to->data = from->data;
    memcpy(to->shape, from->shape, rank * sizeof *to->shape);
    memcpy(to->strides, from->strides, rank * sizeof *to->strides);
    if (from->list_axis < 0) return LS_OK;
    const List *list = &from->list;
    to->list.flat = list->flat;
    to->list.data = list->data;
    to->list.elements = list->elements;
    ls_status status = list_grow(made, call, number, list->count);
    if (status != LS_OK || list->count == 0) return status;
    memcpy(to->list.pointers, list->pointers, list->count * sizeof *list->pointers);
    memcpy(to->list.lengths, list->lengths, list->count * (rank - 1) * sizeof *list->lengths);
    to->list.count = list->count;
    return LS_OK;
}

ls_status ls_step_instance(ls_step *step, ls_step **instance) {
    static const char call[] = "ls_step_instance";
    ls_step *made = NULL;
    if (instance) *instance = NULL;
    if (!step || !instance)
        return error_set(step ? &step->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, step ? "instance" : "step");
    ls_context *context = step->context;
    ls_status status = context_not_capturing(context, call);
    if (status != LS_OK) return status;
    if (step->partition)
        return error_set(&context->error, LS_ERROR_UNSUPPORTED,
                         "%s: step `%s` is partitioned; create a step for each and partition it",
                         call, step->image->step);
    if (step->sum_count)
        return error_set(&context->error, LS_ERROR_UNSUPPORTED,
                         "%s: step `%s` has parameters that are sums; create a step for each", call,
                         step->image->step);
    status = step_create(step->program, step->image, step->variants, call, &made);
    if (status != LS_OK) return status;
    made->source = step->source ? step->source : step; /* of an instance its source's */
    made->source->references++;
    made->source->instances++;
    const ls_image *image = step->image;
    for (size_t i = 0; i < image->parameter_count && status == LS_OK; i++) {
        if (step_is_device_scalar(step, i))
            take_scalar(made, step, i);
        else
            status = take_array(made, call, step, i);
    }
    memcpy(made->given, step->given, image->axis_count * sizeof *made->given);
    made->tried = step->tried;
    made->trial = step->trial;
    if (status == LS_OK) status = ls_step_shard(made, step->shard[0], step->shard[1]);
    if (status == LS_OK)
        *instance = made;
    else
        step_release(made);
    return status;
}
