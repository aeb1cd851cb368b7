/* ahead.c: steps built ahead of time: from a generated structure of arguments to a bound step. The
 * context keeps the program of each set of images, so that binding again loads nothing. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

#include <lockstep/ahead.h>

static ls_status find_program(ls_context *context, const ls_image *const *images, size_t count,
                              ls_program **program) {
    for (size_t i = 0; i < context->built_count; i++)
        if (context->built[i].images == images) {
            *program = context->built[i].program;
            return LS_OK;
        }
    Built *grown = realloc(context->built, (context->built_count + 1) * sizeof *grown);
    if (!grown) return error_memory(&context->error, "ls_ahead_bind");
    context->built = grown;
    ls_status status = ls_program_from_images(context, images, count, NULL, NULL, NULL, program);
    if (status == LS_OK) grown[context->built_count++] = (Built){images, *program};
    return status;
}

void ahead_close(ls_context *context) {
    for (size_t i = 0; i < context->built_count; i++) ls_program_destroy(context->built[i].program);
    free(context->built);
    context->built = NULL;
    context->built_count = 0;
}

/* ---- from fields to tensors ---- */

typedef struct Source {
    const ls_image *image;
    const ls_ahead_fields *fields;
    const char *arguments;
} Source;

static void read_field(const Source *source, uint32_t offset, void *value, size_t size) {
    memcpy(value, source->arguments + offset, size);
}

static bool holds_value(const Source *source, size_t parameter) {
    return (source->fields->parameters[parameter] & LS_FIELD_VALUE) != 0;
}

/* NULL where the field is NULL, or holds a value. */
static void *pointer_of(const Source *source, size_t parameter) {
    void *pointer = NULL;
    if (!holds_value(source, parameter))
        read_field(source, source->fields->parameters[parameter], &pointer, sizeof pointer);
    return pointer;
}

/* The length of an axis, of tensor `tensor` where it has one for each. */
static int64_t length_of(const Source *source, size_t axis, size_t tensor) {
    const ls_image_axis *row = &source->image->axes[axis];
    int64_t length = row->fixed;
    if (axis_is_rest(source->image, axis)) return row->length;
    if (axis_is_blocks(source->image, axis)) {
        const int64_t whole = length_of(source, row->whole - 1, tensor);
        return whole / row->length + (whole % row->length != 0);
    }
    if (source->fields->axes[axis] == LS_NO_FIELD) return length;
    if (!axis_is_ragged(source->image, axis)) {
        read_field(source, source->fields->axes[axis], &length, sizeof length);
        return length == LS_EMPTY ? 0 : length;
    }
    const int64_t *lengths;
    read_field(source, source->fields->axes[axis], &lengths, sizeof lengths);
    return lengths ? lengths[tensor] : 0;
}

static ls_status bind_array(ls_step *step, const Source *source, size_t number, void *data) {
    const ls_image_parameter *parameter = &source->image->parameters[number];
    int64_t shape[LS_RANK_MAX];
    for (uint32_t i = 0; i < parameter->rank; i++)
        shape[i] = length_of(source, parameter->axes[i], 0);
    const ls_tensor tensor = {
        .data = data, .type = parameter->type, .rank = parameter->rank, .shape = shape};
    return ls_step_bind(step, parameter->name, &tensor);
}

static ls_status bind_list(ls_step *step, const Source *source, size_t number,
                           void *const *pointers) {
    const ls_image_parameter *parameter = &source->image->parameters[number];
    const size_t list = (size_t)step->bindings[number].list_axis;
    const int64_t length = length_of(source, list, 0);
    const size_t count = length > 0 ? (size_t)length : 0, rank = parameter->rank - 1u;
    ls_tensor *tensors = calloc(count + 1, sizeof *tensors);
    int64_t *shapes = calloc(count * rank + 1, sizeof *shapes);
    ls_status status = LS_OK;
    if (!tensors || !shapes) status = error_memory(&step->context->error, "ls_ahead_bind");
    for (size_t t = 0; status == LS_OK && t < count; t++) {
        int64_t *shape = shapes + t * rank;
        size_t at = 0;
        for (uint32_t i = 0; i < parameter->rank; i++)
            if (parameter->axes[i] != list) shape[at++] = length_of(source, parameter->axes[i], t);
        tensors[t] = (ls_tensor){
            .data = pointers[t], .type = parameter->type, .rank = (uint32_t)rank, .shape = shape};
    }
    if (status == LS_OK) status = ls_step_bind_list(step, parameter->name, tensors, count);
    free(tensors);
    free(shapes);
    return status;
}

/* Whether an axis of an array that is there was given no length: 0, or no lengths for tensors. */
static bool lacks_length(const Source *source, const ls_image_parameter *parameter, uint32_t i) {
    const ls_image *image = source->image;
    const size_t axis = parameter->axes[i];
    const uint32_t offset = source->fields->axes[axis];
    if (offset == LS_NO_FIELD || axis_is_rest(image, axis) || axis_is_blocks(image, axis))
        return false;
    if (!axis_is_ragged(image, axis)) {
        int64_t length;
        read_field(source, offset, &length, sizeof length);
        return length == 0;
    }
    const int64_t *lengths;
    read_field(source, offset, &lengths, sizeof lengths);
    return !lengths && length_of(source, (size_t)axis_list(image, axis), 0) > 0;
}

static ls_status check_lengths(ls_context *context, const Source *source) {
    const ls_image *image = source->image;
    for (uint32_t p = 0; p < image->parameter_count; p++) {
        const ls_image_parameter *parameter = &image->parameters[p];
        const void *pointer = pointer_of(source, p);
        for (uint32_t i = 0; pointer && i < parameter->rank; i++) {
            if (!lacks_length(source, parameter, i)) continue;
            const bool ragged = axis_is_ragged(image, parameter->axes[i]);
            return error_set(&context->error, LS_ERROR_BIND,
                             "%s_bind: length `%s` is %s, but array `%s` is not NULL; give it%s",
                             source->fields->step, image->axes[parameter->axes[i]].name,
                             ragged ? "NULL" : "0", parameter->name,
                             ragged ? "" : ", LS_EMPTY where it is meant to be 0");
        }
    }
    return LS_OK;
}

/* No device scalar is left that the caller has to set before anything can run. */
static bool device_scalars_are_given(const ls_step *step, const ls_ahead_fields *fields,
                                     const void *arguments) {
    const Source source = {step->image, fields, arguments};
    for (size_t i = 0; i < step->image->parameter_count; i++) {
        const ls_image_parameter *parameter = &step->image->parameters[i];
        if (!holds_value(&source, i) && !pointer_of(&source, i) && step_is_device_scalar(step, i) &&
            !parameter->has_default && parameter->role != LS_OUT)
            return false;
    }
    return true;
}

/* Of the axes that no parameter has. */
static ls_status set_lengths(ls_step *step, const Source *source) {
    const ls_image *image = step->image;
    ls_status status = LS_OK;
    uint32_t arrays = 0;
    for (uint32_t p = 0; p < image->parameter_count; p++)
        for (uint32_t k = 0; k < image->parameters[p].rank; k++)
            arrays |= 1u << image->parameters[p].axes[k];
    for (uint32_t a = 0; status == LS_OK && a < image->axis_count; a++) {
        const ls_image_axis *axis = &image->axes[a];
        if ((arrays >> a & 1) || axis->parent || axis->whole || axis->terms ||
            source->fields->axes[a] == LS_NO_FIELD)
            continue;
        status = ls_step_set_length(step, axis->name, length_of(source, a, 0));
    }
    return status;
}

/* A structure with values whose defaults are left out would have zeros in their place. */
static ls_status check_defaults(ls_context *context, const Source *source) {
    const uint32_t offset = source->fields->parameters[source->image->parameter_count];
    int begun = 1;
    if (offset != LS_NO_FIELD) read_field(source, offset, &begun, sizeof begun);
    if (begun) return LS_OK;
    return error_set(&context->error, LS_ERROR_ARGUMENT,
                     "%s_bind: the structure of arguments does not begin with the step's defaults; "
                     "begin its initialiser with the generated header's macro that ends in "
                     "%s_defaults",
                     source->fields->step, source->fields->step);
}

static ls_status set_value(ls_step *step, const Source *source, size_t number) {
    return ls_step_set(step, source->image->parameters[number].name,
                       source->arguments + (source->fields->parameters[number] & ~LS_FIELD_VALUE));
}

static ls_status bind_all(ls_step *step, const ls_ahead_fields *fields, const void *arguments) {
    const Source source = {step->image, fields, arguments};
    ls_status status = check_defaults(step->context, &source);
    if (status == LS_OK) status = check_lengths(step->context, &source);
    if (status == LS_OK) status = set_lengths(step, &source);
    for (size_t i = 0; status == LS_OK && i < step->image->parameter_count; i++) {
        void *pointer = pointer_of(&source, i);
        if (holds_value(&source, i)) status = set_value(step, &source, i);
        if (!pointer) continue;
        status = step_is_list(step, i) ? bind_list(step, &source, i, pointer)
                                       : bind_array(step, &source, i, pointer);
    }
    return status;
}

ls_status ls_ahead_bind(ls_context *context, const ls_image *const *images, size_t count,
                        const ls_ahead_fields *fields, const void *arguments, ls_step **step) {
    if (step) *step = NULL;
    if (!context || !fields || !images || !arguments || !step)
        return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT,
                         "%s_bind: the %s is NULL", fields ? fields->step : "ls_ahead",
                         !context     ? "context"
                         : !arguments ? "structure of arguments"
                                      : "pointer for the step");
    if (fields->version != LS_IMAGE_VERSION)
        return error_set(
            &context->error, LS_ERROR_UNSUPPORTED,
            "%s_bind: the generated file has format %u, this runtime reads %u; build it again with "
            "the compiler of this version",
            fields->step, fields->version, (unsigned)LS_IMAGE_VERSION);
    ls_program *program;
    ls_step *made = NULL;
    ls_status status = find_program(context, images, count, &program);
    if (status == LS_OK) status = ls_step_create(program, fields->step, &made);
    if (status == LS_OK) status = bind_all(made, fields, arguments);
    if (status == LS_OK && device_scalars_are_given(made, fields, arguments))
        status = ls_step_prepare(made);
    if (status == LS_OK)
        *step = made;
    else if (made)
        ls_step_destroy(made);
    return status;
}

ls_status ls_ahead_launch(ls_context *context, const ls_image *const *images, size_t count,
                          const ls_ahead_fields *fields, const void *arguments) {
    ls_step *step = NULL;
    ls_status status = ls_ahead_bind(context, images, count, fields, arguments, &step);
    if (status != LS_OK) return status;
    status = ls_step_launch(step);
    ls_step_destroy(step);
    return status;
}
