/* step.c: a step's life, its rank-0 values, and its launch.
 *
 * A step owns one device scalar per rank-0 parameter from the moment it is created; binding a
 * device scalar of the caller's takes precedence. What a launch needs is made when the step is
 * prepared, so that in steady state it is a loop over filled-in Launch structures. */
#include "runtime.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool step_is_device_scalar(const ls_step *step, size_t parameter) {
    return step->image->parameters[parameter].rank == 0;
}

bool step_leaves_out(const ls_step *step, size_t parameter) {
    const ls_image_parameter *row = &step->image->parameters[parameter];
    const Binding *binding = &step->bindings[parameter];
    return row->optional && row->role == LS_OUT && row->rank > 0 && !binding->bound &&
           !binding->wanted;
}

/* The greatest of one of the counts over an image's variants. */
static size_t max(const ls_image *image, size_t offset) {
    size_t result = 0;
    for (uint32_t i = 0; i < image->variant_count; i++) {
        uint32_t count;
        memcpy(&count, (const char *)&image->variants[i] + offset, sizeof count);
        if (count > result) result = count;
    }
    return result;
}

/* The axis of a parameter that counts its tensors; -1: it is one array. */
static int list_axis(const ls_image *image, const ls_image_parameter *parameter) {
    for (uint32_t i = 0; i < parameter->rank; i++) {
        int list = axis_list(image, parameter->axes[i]);
        if (list >= 0) return list;
    }
    return -1;
}

bool step_allocate_host(ls_step *step) {
    const ls_image *image = step->image;
    size_t numbers = 0;
    for (uint32_t i = 0; i < image->parameter_count; i++) numbers += image->parameters[i].rank;
    size_t temporaries = max(image, offsetof(ls_image_variant, temporary_count));
    size_t kernels = max(image, offsetof(ls_image_variant, kernel_count));
    size_t tables = max(image, offsetof(ls_image_variant, table_count));
    size_t words = image->axis_count + image->parameter_count + temporaries + 2 * tables + numbers +
                   COUNT(step->shard) + (step->owner ? 1 + image->parameter_count : 0);
    step->bindings = calloc(image->parameter_count + 1u, sizeof *step->bindings);
    step->sizes = calloc(2 * (image->axis_count + 1u), sizeof *step->sizes);
    step->lengths = calloc(image->axis_count + 1u, sizeof *step->lengths);
    step->tables = calloc(tables + 1, sizeof *step->tables);
    step->numbers = calloc(2 * numbers + 1, sizeof *step->numbers);
    step->temporaries.sizes = calloc(2 * temporaries + 1, sizeof *step->temporaries.sizes);
    step->launches = calloc(kernels + 1, sizeof *step->launches);
    step->moved = calloc(kernels + 1, sizeof *step->moved);
    step->arguments = calloc(words + 1, sizeof *step->arguments);
    if (!step->bindings || !step->sizes || !step->lengths || !step->tables || !step->numbers ||
        !step->temporaries.sizes || !step->launches || !step->moved || !step->arguments)
        return false;
    step->launch_capacity = step->moved_capacity = kernels + 1;
    step->word_capacity = words + 1;
    step->given = step->sizes + image->axis_count + 1;
    for (uint32_t i = 0; i < image->axis_count; i++) step->given[i] = -1;
    step->temporaries.offsets = step->temporaries.sizes + temporaries;
    int64_t *next = step->numbers;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        step->bindings[i].list_axis = list_axis(image, &image->parameters[i]);
        step->bindings[i].shape = next;
        step->bindings[i].strides = next + image->parameters[i].rank;
        next += 2 * (size_t)image->parameters[i].rank;
    }
    return true;
}

/* Device scalars for the rank-0 parameters, with their defaults. */
static ls_status create_device_scalars(ls_step *step) {
    ls_context *context = step->context;
    const ls_image *image = step->image;
    size_t bytes = (size_t)image->parameter_count * SCALAR_BYTES;
    if (bytes == 0) return LS_OK;
    void *scalars;
    char label[LABEL_BYTES];
    snprintf(label, sizeof label, "step %.40s: rank-0 values", image->step);
    ls_status status = memory_allocate_for(context, "ls_step_create", label, bytes, &scalars);
    if (status != LS_OK) return status;
    step->scalars = scalars;
    status = context->driver->clear(context->device, scalars, bytes);
    for (uint32_t i = 0; i < image->parameter_count && status == LS_OK; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        Binding *binding = &step->bindings[i];
        if (parameter->rank != 0) continue;
        binding->data = step->scalars + (size_t)i * SCALAR_BYTES;
        binding->dense = true;
        binding->has_value = parameter->has_default || parameter->role == LS_OUT;
        if (!parameter->has_default) continue;
        status = context->driver->store(context->device, binding->data, &parameter->initial,
                                        type_rows[parameter->type].size);
    }
    return status;
}

static ls_status check_image(ls_context *context, const ls_image *image) {
    for (uint32_t i = 0; i < image->part_count; i++) {
        ls_status status = check_image(context, image->parts[i].image);
        if (status != LS_OK) return status;
    }
    for (uint32_t i = 0; i < image->variant_count; i++) {
        const ls_image_variant *variant = &image->variants[i];
        size_t words = image->axis_count + (size_t)image->parameter_count +
                       variant->temporary_count + 2 * (size_t)variant->table_count +
                       (image->draws ? 2 : 0) +
                       (size_t)variant->iterates * (1 + (size_t)image->parameter_count) +
                       (variant->strips ? image->parameter_count : 0);
        if (variant->layout == LS_LAYOUT_STRIDED)
            for (uint32_t p = 0; p < image->parameter_count; p++)
                words += image->parameters[p].rank;
        if (words > LS_ARGUMENTS_MAX)
            return error_set(
                &context->error, LS_ERROR_UNSUPPORTED,
                "ls_step_create: step `%s` needs %zu argument words, more than %d; split "
                "it or use fewer parameters",
                image->step, words, LS_ARGUMENTS_MAX);
    }
    return LS_OK;
}

/* The image of a step that nobody has created before. */
static ls_status make_image(ls_program *program, size_t index) {
    ls_context *context = program->context;
    const char *message = NULL;
    ls_status status =
        program->make_image(program->maker, index, NULL, 0, context->device->target,
                            context->device->description, &program->images[index], &message);
    if (status == LS_OK) return LS_OK;
    return error_set(&context->error, status, "%s", message ? message : ls_status_name(status));
}

/* Code for "sm_90a" is a "sm_90" device's own. */
static void log_other_target(const ls_program *program, const ls_image *image) {
    const Device *device = program->context->device;
    if (strncmp(image->target, device->target, strlen(device->target)) == 0) return;
    log_write(LOG_INFO, "step `%s`: there is no code for %s, which is %s: that for %s is used",
              image->step, device->name, device->target, image->target);
}

/* Names the step that was meant, else those of the file itself: a library that it imports may have
 * a hundred. */
static ls_status no_such_step(ls_program *program, const char *name) {
    Error *error = &program->context->error;
    const size_t listed = program->own_count ? program->own_count : program->count;
    const char *nearest = NULL;
    char names[512] = "";
    size_t best = SIZE_MAX, used = 0, i = 0;
    for (size_t k = 0; k < program->count; k++)
        if (name_is_nearer(name, program->names[k], &best)) nearest = program->names[k];
    if (nearest)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "ls_step_create: there is no step `%.64s`; did you mean `%s`?", name,
                         nearest);
    for (; i < listed && used + strlen(program->names[i]) + 32 < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s`%s`", used ? ", " : "",
                                 program->names[i]);
    if (i < listed) snprintf(names + used, sizeof names - used, " and %zu more", listed - i);
    return error_set(error, LS_ERROR_ARGUMENT,
                     "ls_step_create: there is no step `%.64s`; there is %s", name,
                     program->count ? names : "none at all");
}

static ls_status find_image(ls_program *program, const char *name, size_t *index) {
    Error *error = &program->context->error;
    for (size_t i = 0; i < program->count; i++) {
        if (strcmp(program->names[i], name) != 0) continue;
        *index = i;
        if (program->images[i]) {
            log_other_target(program, program->images[i]);
            return LS_OK;
        }
        if (program->make_image) return make_image(program, i);
        return error_set(error, LS_ERROR_UNSUPPORTED,
                         "ls_step_create: step `%s` was built for %s, and %s needs %s; build its "
                         "image for that target too, or load the .step file",
                         name, program->targets[i], program->context->device->name,
                         program->context->device->target);
    }
    return no_such_step(program, name);
}

ls_status ls_step_create(ls_program *program, const char *name, ls_step **step) {
    static const char call[] = "ls_step_create";
    if (step) *step = NULL;
    if (!program || !name || !step)
        return error_set(program ? &program->context->error : NULL, LS_ERROR_ARGUMENT,
                         "%s: %s is NULL", call, !program ? "program" : (!name ? "name" : "step"));
    ls_context *context = program->context;
    ls_status status = context_not_capturing(context, call);
    if (status != LS_OK) return status;
    size_t index = 0;
    status = find_image(program, name, &index);
    if (status != LS_OK) return status;
    return step_create(program, program->images[index], program_variants(program, index), call,
                       step);
}

ls_status step_create(ls_program *program, const ls_image *image, Variant *variants,
                      const char *call, ls_step **step) {
    ls_context *context = program->context;
    ls_status status = check_image(context, image);
    if (status != LS_OK) return status;
    ls_step *made = calloc(1, sizeof *made);
    if (!made) return error_memory(&context->error, call);
    made->program = program;
    made->context = context;
    made->image = image;
    made->references = 1;
    made->range = ranges_name(made->image);
    program->references++;
    made->variants = variants;
    status = made->variants && step_allocate_host(made) ? create_device_scalars(made)
                                                        : error_memory(&context->error, call);
    if (status == LS_OK && made->image->part_count)
        status = parts_create(made, call, made->variants + made->image->variant_count);
    if (status != LS_OK) {
        step_release(made);
        return status;
    }
    *step = made;
    return LS_OK;
}

void step_release(ls_step *step) {
    if (--step->references > 0) return;
    partition_free(step);
    ls_context *context = step->context;
    const ls_image *image = step->image;
    parts_release(step);
    for (uint32_t i = 0; step->bindings && i < image->parameter_count; i++)
        memory_free(context, step->bindings[i].owned);
    for (uint32_t i = 0; step->bindings && i < image->parameter_count; i++)
        list_free(&step->bindings[i].list);
    for (uint32_t i = 0; step->lengths && i < image->axis_count; i++) free(step->lengths[i].of);
    for (size_t i = 0; i < step->retired_count; i++) memory_free(context, step->retired[i].pointer);
    memory_free(context, step->temporaries.data);
    memory_free(context, step->entries.device);
    memory_free(context, step->pointers.device);
    memory_free(context, step->scalars);
    for (size_t i = 0; i < step->sum_count; i++) free(step->sums[i].parameter);
    free(step->sums);
    free(step->entries.host);
    free(step->pointers.host);
    free(step->retired);
    free(step->arguments);
    free(step->launches);
    free(step->moved);
    free(step->range);
    free(step->temporaries.sizes);
    free(step->tables);
    free(step->numbers);
    free(step->lengths);
    free(step->sizes);
    free(step->bindings);
    program_release(step->program);
    if (step->source) step->source->instances--;
    if (step->source) step_release(step->source);
    free(step);
}

void ls_step_destroy(ls_step *step) {
    if (step) step_release(step);
}

const ls_image *ls_step_image(const ls_step *step) {
    return step ? step->image : NULL;
}

/* A number fills it: an array with one element per tensor of a list. */
static bool is_fillable(const ls_step *step, size_t parameter) {
    const ls_image_parameter *row = &step->image->parameters[parameter];
    return row->rank == 1 && row->role != LS_OUT && axis_counts_tensors(step->image, row->axes[0]);
}

/* Finds a rank-0 parameter for a call that reads or writes its value; when writing, an array that a
 * number fills will do. */
static ls_status find_device_scalar(ls_step *step, const char *call, const char *name,
                                    const void *value, bool writing, size_t *parameter) {
    if (step && name && !value)
        return error_set(&step->context->error, LS_ERROR_ARGUMENT, "%s: value is NULL", call);
    ls_status status = step_parameter(step, call, name, parameter);
    if (status != LS_OK) return status;
    if (step_is_device_scalar(step, *parameter)) return LS_OK;
    if (writing && is_fillable(step, *parameter) && !step->bindings[*parameter].bound) return LS_OK;
    char declaration[256];
    step_declaration(step, *parameter, declaration, sizeof declaration);
    return error_set(&step->context->error, LS_ERROR_BIND,
                     "%s: parameter `%s` of step `%s` is %s, not a rank-0 value; use ls_step_bind, "
                     "ls_copy_in and ls_copy_out for arrays",
                     call, name, step->image->step, declaration);
}

static ls_status store_value(ls_step *step, const char *call, size_t parameter, const void *value) {
    Binding *binding = &step->bindings[parameter];
    size_t bytes = type_rows[step->image->parameters[parameter].type].size;
    ls_status status = LS_OK;
    if (step_is_device_scalar(step, parameter)) {
        status = step->context->driver->store(step->context->device, binding->data, value, bytes);
    } else {
        binding->fill = 0;
        memcpy(&binding->fill, value, bytes);
        binding->fill_due = true;
        if (step->partition)
            step->ready = false;
        else if (step->ready)
            status = step_fill(step, call, parameter); /* else when prepared */
    }
    if (status != LS_OK) return status;
    if (!binding->has_value) step->ready = false; /* it was missing until now */
    binding->has_value = true;
    if (step->source && !binding->bound && step_is_device_scalar(step, parameter) &&
        step->image->parameters[parameter].role == LS_IN)
        step->source->bindings[parameter].has_value = true; /* it is the value of all handles */
    return LS_OK;
}

ls_status ls_step_set(ls_step *step, const char *parameter, const void *value) {
    static const char call[] = "ls_step_set";
    size_t found;
    ls_status status = find_device_scalar(step, call, parameter, value, true, &found);
    return status == LS_OK ? store_value(step, call, found, value) : status;
}

/* Converts a number to a type's bits; false where the type does not hold it. */
static bool convert(double value, ls_type type, void *bits) {
    const TypeRow *row = &type_rows[type];
    if (type == LS_F64) return memcpy(bits, &value, sizeof value);
    if (type == LS_F32) {
        if (isfinite(value) && fabs(value) > (double)FLT_MAX && isinf((float)value)) return false;
        float narrow = (float)value;
        return memcpy(bits, &narrow, sizeof narrow);
    }
    if (row->class == 'F' || !(value == floor(value))) return false;
    if (row->class == 'S') {
        double limit = ldexp(1, row->size * 8 - 1);
        if (!(value >= -limit && value < limit)) return false;
        int64_t whole = (int64_t)value;
        return memcpy(bits, &whole, sizeof whole); /* low bytes first */
    }
    double limit = row->class == 'B' ? 2 : ldexp(1, row->size * 8);
    if (!(value >= 0 && value < limit)) return false;
    uint64_t whole = (uint64_t)value;
    return memcpy(bits, &whole, sizeof whole);
}

ls_status ls_step_set_number(ls_step *step, const char *parameter, double value) {
    static const char call[] = "ls_step_set_number";
    size_t found;
    ls_status status = find_device_scalar(step, call, parameter, &value, true, &found);
    if (status != LS_OK) return status;
    ls_type type = step->image->parameters[found].type;
    uint64_t bits = 0;
    if (!convert(value, type, &bits))
        return error_set(&step->context->error, LS_ERROR_BIND,
                         "%s: parameter `%s` of step `%s` is %s, which does not hold %.17g", call,
                         parameter, step->image->step, type_rows[type].name, value);
    return store_value(step, call, found, &bits);
}

static ls_status read_device_scalar(ls_step *step, const char *call, const char *parameter,
                                    void *value) {
    size_t found;
    ls_status status = find_device_scalar(step, call, parameter, value, false, &found);
    if (status != LS_OK) return status;
    const Binding *binding = &step->bindings[found];
    if (!binding->bound && !step_has_value(step, found))
        return error_set(&step->context->error, LS_ERROR_STATE,
                         "%s: parameter `%s` of step `%s` has no value yet; set or bind it first",
                         call, parameter, step->image->step);
    const size_t bytes = type_rows[step->image->parameters[found].type].size;
    return copy_bytes(step->context, &(CopyRun){COPY_OUT, value, binding->data, bytes, NULL, step});
}

ls_status ls_step_get_async(ls_step *step, const char *parameter, void *value) {
    return read_device_scalar(step, "ls_step_get_async", parameter, value);
}

ls_status ls_step_get(ls_step *step, const char *parameter, void *value) {
    ls_status status = read_device_scalar(step, "ls_step_get", parameter, value);
    return status == LS_OK ? step->context->driver->synchronize(step->context->device) : status;
}

ls_status ls_step_shard(ls_step *step, int64_t first_tensor, int64_t first_element) {
    static const char call[] = "ls_step_shard";
    if (!step) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: step is NULL", call);
    ls_status status = context_not_capturing(step->context, call);
    if (status != LS_OK) return status;
    if (step->partition)
        return error_set(&step->context->error, LS_ERROR_STATE,
                         "%s: step `%s` is partitioned, and knows its place", call,
                         step->image->step);
    if (first_tensor < 0 || first_element < 0)
        return error_set(&step->context->error, LS_ERROR_ARGUMENT,
                         "%s: the first %s is %lld; shards count from 0", call,
                         first_tensor < 0 ? "tensor" : "element",
                         (long long)(first_tensor < 0 ? first_tensor : first_element));
    for (uint32_t i = 0; i < step->image->part_count; i++) {
        step->parts[i]->shard[0] = first_tensor;
        step->parts[i]->shard[1] = first_element;
    }
    if (step->shard[0] != first_tensor || step->shard[1] != first_element) step->ready = false;
    step->shard[0] = first_tensor;
    step->shard[1] = first_element;
    return LS_OK;
}

ls_status ls_step_prepare(ls_step *step) {
    if (!step) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_step_prepare: step is NULL");
    return step_prepare(step, "ls_step_prepare");
}

static ls_status launch_in_range(ls_step *step) {
    if (!step->range) return profile_launch(step);
    const Ranges *ranges = ranges_find();
    ranges->push(step->range);
    ls_status status = profile_launch(step);
    ranges->pop();
    return status;
}

ls_status ls_step_launch(ls_step *step) {
    if (!step) return error_set(NULL, LS_ERROR_ARGUMENT, "ls_step_launch: step is NULL");
    if (step->partition) return partition_launch(step);
    ls_context *context = step->context;
    ls_status status = LS_OK;
    if (!step_is_ready(step)) status = step_prepare(step, "ls_step_launch");
    bool captured = context->capture != NULL;
    if (status == LS_OK && !captured) {
        status = context_captured(context, &captured);
        step->pinned = step->pinned || captured;
    }
    if (status != LS_OK) return status;
    if (captured) step_set_captured(step);
    if (context->capture)
        return graph_record(context->capture, "ls_step_launch", step, step->launches,
                            step->launch_count);
    if (step->known != KNOWN_SETTLED) step_count_launches(step, 1);
    status = launch_in_range(step);
    /* the device refused its first launch: nothing has run, and there are kernels without such */
    if (status == LS_ERROR_UNSUPPORTED && !captured && step->launch_count &&
        step->launches[0].together && !step_is_ready(step)) {
        status = step_prepare(step, "ls_step_launch");
        if (status == LS_OK) status = launch_in_range(step);
    }
    return status;
}

ls_status ls_step_stats(ls_step *step, ls_step_statistics *statistics) {
    static const char call[] = "ls_step_stats";
    if (!step || !statistics)
        return error_set(step ? &step->context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL",
                         call, step ? "statistics" : "step");
    *statistics = (ls_step_statistics){0};
    ls_status status = step_prepare(step->owner ? step->owner : step, call);
    if (status != LS_OK) return status;
    if (step->partition) return partition_statistics(step, statistics);
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    uint32_t threads = step->context->device->threads;
    *statistics = (ls_step_statistics){
        .variant = variant->name,
        .launches = step->launch_count,
        .compile_ms = step->variants[step->chosen].compile_ms,
        .from_cache = step->variants[step->chosen].from_cache,
        .threads = threads ? threads : (step->launch_count ? step->launches[0].threads : 0),
        .tuned = step->tuning != NULL,
        .work = step_tuned_work(step, variant),
    };
    for (uint32_t i = 0; i < step->launch_count; i++)
        if (step->launches[i].parts > statistics->parts)
            statistics->parts = step->launches[i].parts;
    for (uint32_t i = 0; i < step->image->part_count; i++) {
        const ls_step *part = step->parts[i];
        if (!part->ready) continue; /* it does not run with these lengths */
        statistics->compile_ms += part->variants[part->chosen].compile_ms;
        statistics->from_cache =
            (i == 0 || statistics->from_cache) && part->variants[part->chosen].from_cache;
        statistics->temporary_bytes += part->temporaries.bytes;
    }
    statistics->copies = step->copies;
    for (uint32_t i = 0; i < step->image->part_count; i++)
        copy_add(&statistics->copies, &step->parts[i]->copies, 1);
    statistics->table_bytes = step->entries.device_bytes + step->pointers.device_bytes;
    statistics->temporary_bytes += step->temporaries.bytes;
    return LS_OK;
}
