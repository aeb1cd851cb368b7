/* step_sum.c: a read-only parameter bound to several arrays, which stands for their sum.
 *
 * The compiler makes the step anew with as many parameters in its place, whose loads it adds. The
 * step takes that image over: what was bound, set, asked for or drawn stays. From then on binding
 * other arrays is binding those parameters. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 128 }; /* beyond, the order of sum[r] is another one */

/* ---- another image ---- */

static StepSum *find_sum(const ls_step *step, const char *parameter) {
    for (size_t i = 0; i < step->sum_count; i++)
        if (strcmp(step->sums[i].parameter, parameter) == 0) return &step->sums[i];
    return NULL;
}

static void free_sums(StepSum *sums, size_t count) {
    for (size_t i = 0; i < count; i++) free(sums[i].parameter);
    free(sums);
}

/* The step's sums with this one; NULL: out of memory. */
static StepSum *add_sum(const ls_step *step, const StepSum *wanted, size_t *count) {
    StepSum *sums = calloc(step->sum_count + 1, sizeof *sums);
    *count = 0;
    for (size_t i = 0; sums && i <= step->sum_count; i++) {
        const StepSum *from = i < step->sum_count ? &step->sums[i] : wanted;
        if (i < step->sum_count && strcmp(from->parameter, wanted->parameter) == 0) continue;
        sums[*count] = *from;
        sums[*count].parameter = text_copy(from->parameter, strlen(from->parameter));
        if (!sums[(*count)++].parameter) {
            free_sums(sums, *count);
            return NULL;
        }
    }
    return sums;
}

static ls_status make_image(const ls_step *step, const char *call, const StepSum *sums,
                            size_t count, const ls_image **image) {
    ls_program *program = step->program;
    ls_context *context = step->context;
    const char *message = NULL;
    size_t index = 0;
    while (strcmp(program->names[index], step->image->step) != 0) index++;
    ls_sum *asked = calloc(count, sizeof *asked);
    if (!asked) return error_memory(&context->error, call);
    for (size_t i = 0; i < count; i++)
        asked[i] = (ls_sum){sums[i].parameter, sums[i].count, sums[i].type};
    ls_status status =
        program->make_image(program->maker, index, asked, count, context->device->target,
                            context->device->description, image, &message);
    free(asked);
    if (status == LS_OK) return LS_OK;
    return error_set(&context->error, status, "%s: %s", call,
                     message ? message : ls_status_name(status));
}

/* ---- what was bound, from one step to the other ---- */

static int find_parameter(const ls_image *image, const char *name) {
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (strcmp(image->parameters[i].name, name) == 0) return (int)i;
    return -1;
}

static ls_status move_scalar(Binding *to, const Binding *from, ls_context *context) {
    to->has_value = to->has_value || from->has_value;
    to->bound = from->bound;
    if (!from->bound)
        return copy_bytes(context,
                          &(CopyRun){COPY_WITHIN, to->data, from->data, SCALAR_BYTES, NULL, NULL});
    to->data = from->data;
    return LS_OK;
}

static void move_array(Binding *to, Binding *from, uint32_t rank) {
    int64_t *shape = to->shape, *strides = to->strides;
    const int axis = to->list_axis;
    memcpy(shape, from->shape, rank * sizeof *shape);
    memcpy(strides, from->strides, rank * sizeof *strides);
    const Binding before = *to;
    *to = *from;
    to->shape = shape;
    to->strides = strides;
    to->list_axis = axis;
    from->owned = before.owned;
    from->list = before.list;
}

static ls_status move_bindings(ls_step *to, ls_step *from) {
    const ls_image *image = to->image;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const int found = find_parameter(from->image, image->parameters[i].name);
        if (found < 0 || image->parameters[i].type != from->image->parameters[found].type) continue;
        if (image->parameters[i].rank > 0) continue;
        ls_status status = move_scalar(&to->bindings[i], &from->bindings[found], to->context);
        if (status != LS_OK) return status;
    }
    for (uint32_t i = 0; i < image->parameter_count; i++) { /* these cannot fail */
        const uint32_t rank = image->parameters[i].rank;
        const int found = find_parameter(from->image, image->parameters[i].name);
        if (found < 0 || rank == 0 ||
            image->parameters[i].type != from->image->parameters[found].type)
            continue;
        move_array(&to->bindings[i], &from->bindings[found], rank);
    }
    memcpy(to->given, from->given, image->axis_count * sizeof *to->given);
    memcpy(to->shard, from->shard, sizeof to->shard);
    return LS_OK;
}

/* The handle stays, what is behind it is the other step's. */
static void exchange(ls_step *step, ls_step *made) {
    const ls_step before = *step;
    *step = *made;
    *made = before;
    step->references = before.references;
    made->references = 1;
}

static ls_status rebuild(ls_step *step, const char *call, const StepSum *wanted) {
    ls_context *context = step->context;
    const ls_image *image = NULL;
    ls_step *made = NULL;
    size_t count;
    StepSum *sums = add_sum(step, wanted, &count);
    if (!sums) return error_memory(&context->error, call);
    ls_status status = make_image(step, call, sums, count, &image);
    if (status == LS_OK)
        status = step_create(step->program, image, program_summed_variants(step->program, image),
                             call, &made);
    if (status == LS_OK) status = move_bindings(made, step);
    if (status != LS_OK) {
        if (made) step_release(made);
        free_sums(sums, count);
        return status;
    }
    for (size_t i = 0; i < count; i++) { /* it stands behind those that are declared before it */
        size_t before = 0;
        for (size_t k = 0; k < count; k++)
            if (sums[k].source < sums[i].source) before += sums[k].count - 1;
        sums[i].first = sums[i].source + before;
    }
    made->sums = sums;
    made->sum_count = count;
    exchange(step, made);
    step_release(made);
    return LS_OK;
}

/* ---- what is asked for ---- */

static ls_status check_state(const ls_step *step, const char *call, size_t count) {
    Error *error = &step->context->error;
    const char *name = step->image->step;
    if (count < 1 || count > PARTS_MAX)
        return error_set(error, LS_ERROR_ARGUMENT, "%s: a sum is of 1 to %d arrays, not %zu", call,
                         PARTS_MAX, count);
    if (!step->program->make_image)
        return error_set(error, LS_ERROR_UNSUPPORTED,
                         "%s: step `%s` was built ahead of time, and a sum takes other kernels: "
                         "load the .step file",
                         call, name);
    if (step->partition)
        return error_set(error, LS_ERROR_STATE,
                         "%s: step `%s` is partitioned, and a sum of another number or type of "
                         "arrays takes other kernels: bind it before ls_step_partition",
                         call, name);
    if (step->source || step->instances)
        return error_set(
            error, LS_ERROR_UNSUPPORTED,
            "%s: step `%s` %s, and a sum takes other kernels: create a step of its own "
            "for it",
            call, name, step->source ? "is an instance" : "has instances");
    if (step->graphs || step->pinned)
        return error_set(error, LS_ERROR_STATE,
                         "%s: a graph holds step `%s`, whose kernels a sum of another number or "
                         "type of arrays changes: bind it before the graph is recorded",
                         call, name);
    return LS_OK;
}

/* The step becomes one with `count` arrays of the type for the parameter, if it is not. */
static ls_status become(ls_step *step, const char *call, const char *parameter, size_t count,
                        ls_type type, const StepSum **sum) {
    StepSum *found = find_sum(step, parameter);
    size_t number = 0;
    ls_status status = context_not_capturing(step->context, call);
    if (status != LS_OK) return status;
    *sum = found;
    if (found && found->count == count && found->type == type) return LS_OK;
    status = check_state(step, call, count);
    if (status == LS_OK && !found) status = step_parameter(step, call, parameter, &number);
    if (status != LS_OK) return status;
    for (size_t i = 0; !found && i < step->sum_count; i++) /* as the source counts */
        if (step->sums[i].first < number) number -= step->sums[i].count - 1;
    const StepSum wanted = {.parameter = (char *)(uintptr_t)parameter,
                            .count = (uint32_t)count,
                            .type = type,
                            .source = found ? found->source : number};
    status = rebuild(step, call, &wanted);
    *sum = find_sum(step, parameter);
    return status;
}

/* After a failure none of them is bound, so that no sum of some is launched. */
static ls_status take_back(ls_step *step, const StepSum *sum, ls_status status) {
    if (status == LS_OK) return LS_OK;
    for (uint32_t i = 0; i < sum->count; i++)
        ls_step_bind(step, step->image->parameters[sum->first + i].name, NULL);
    return status;
}

static ls_status missing(const ls_step *step, const char *call, const char *what) {
    return error_set(step ? &step->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                     what);
}

ls_status ls_step_bind_sum(ls_step *step, const char *parameter, const ls_tensor *parts,
                           size_t part_count) {
    static const char call[] = "ls_step_bind_sum";
    const StepSum *sum;
    if (!step || !parameter || (part_count && !parts))
        return missing(step, call, !step ? "step" : (!parameter ? "parameter" : "parts"));
    ls_status status =
        become(step, call, parameter, part_count, part_count ? parts[0].type : LS_F32, &sum);
    if (status != LS_OK) return status;
    for (uint32_t i = 0; i < sum->count && status == LS_OK; i++)
        status = ls_step_bind(step, step->image->parameters[sum->first + i].name, &parts[i]);
    return take_back(step, sum, status);
}

ls_status ls_step_bind_sum_list(ls_step *step, const char *parameter, const ls_tensor *const *parts,
                                size_t part_count, size_t count) {
    static const char call[] = "ls_step_bind_sum_list";
    const StepSum *sum;
    if (!step || !parameter || (part_count && !parts))
        return missing(step, call, !step ? "step" : (!parameter ? "parameter" : "parts"));
    for (size_t i = 0; i < part_count; i++)
        if (count && !parts[i]) return missing(step, call, "a part");
    const ls_type type = part_count && count ? parts[0][0].type : LS_F32;
    ls_status status = become(step, call, parameter, part_count, type, &sum);
    if (status != LS_OK) return status;
    for (uint32_t i = 0; i < sum->count && status == LS_OK; i++)
        status =
            ls_step_bind_list(step, step->image->parameters[sum->first + i].name, parts[i], count);
    return take_back(step, sum, status);
}
