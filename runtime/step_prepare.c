/* step_prepare.c: from a step's bindings to launches that need no further thought.
 *
 * Checks what concerns all bindings together, gives unbound outputs memory, takes the first variant
 * that fits, gets its code, sizes its temporaries and writes the argument block. Runs again only
 * after a binding changed. Needs: bindings that ls_step_bind accepted. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEMORY_STEP = 256 };

/* Adds "`a`, `b` and `c`" piece by piece: `left` names are still to come. */
static void add_name(char *text, size_t size, const char *name, size_t left) {
    size_t used = strlen(text);
    const char *join = used == 0 ? "" : (left ? ", " : " and ");
    snprintf(text + used, size - used, "%s`%s`", join, name);
}

static bool is_missing(const ls_step *step, size_t number) {
    const Binding *binding = &step->bindings[number];
    if (binding->bound) return false;
    if (step_is_cell(step, number)) return !binding->has_value;
    return step->image->parameters[number].role != LS_OUT;
}

static ls_status check_missing(const ls_step *step, const char *call) {
    const ls_image *image = step->image;
    char names[1024] = "";
    size_t count = 0, left;
    for (uint32_t i = 0; i < image->parameter_count; i++) count += is_missing(step, i);
    if (count == 0) return LS_OK;
    left = count;
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (is_missing(step, i)) add_name(names, sizeof names, image->parameters[i].name, --left);
    return error_set(&step->context->error, LS_ERROR_BIND,
                     "%s: step `%s` cannot run: parameter%s %s %s not bound; call ls_step_bind (or "
                     "ls_step_set for a rank-0 value)",
                     call, image->step, count > 1 ? "s" : "", names, count > 1 ? "are" : "is");
}

/* Takes every axis's length from the arrays bound; they must agree. */
static ls_status find_sizes(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    const char *giver[LS_AXES_MAX] = {NULL};
    for (uint32_t i = 0; i < image->axis_count; i++) step->sizes[i] = image->axes[i].fixed;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        if (!step->bindings[i].bound) continue;
        for (uint32_t k = 0; k < parameter->rank; k++) {
            uint8_t axis = parameter->axes[k];
            int64_t length = step->bindings[i].shape[k];
            if (giver[axis] && step->sizes[axis] != length)
                return error_set(&step->context->error, LS_ERROR_BIND,
                                 "%s: axis `%s` of step `%s` is %lld in `%s` and %lld in `%s`",
                                 call, image->axes[axis].name, image->step,
                                 (long long)step->sizes[axis], giver[axis], (long long)length,
                                 parameter->name);
            giver[axis] = parameter->name;
            step->sizes[axis] = length;
        }
    }
    for (uint32_t i = 0; i < image->axis_count; i++)
        if (step->sizes[i] < 0)
            return error_set(
                &step->context->error, LS_ERROR_BIND,
                "%s: nothing bound to step `%s` gives the length of axis `%s`; bind one of "
                "the arrays that have it",
                call, image->step, image->axes[i].name);
    return LS_OK;
}

/* Gives up memory of the step that a captured graph may still use. */
static ls_status retire(ls_step *step, void *pointer) {
    if (!pointer || step->references == 1) {
        memory_free(step->context, pointer);
        return LS_OK;
    }
    void **grown = realloc(step->retired, (step->retired_count + 1) * sizeof *grown);
    if (!grown) return error_memory(&step->context->error, "ls_step_prepare");
    step->retired = grown;
    grown[step->retired_count++] = pointer;
    return LS_OK;
}

/* Sees that *pointer has at least `bytes`; the old contents are lost when it grows. */
static ls_status ensure(ls_step *step, const char *call, void **pointer, uint64_t *held,
                        uint64_t bytes) {
    if (*pointer && *held >= bytes) return LS_OK;
    ls_status status = retire(step, *pointer);
    if (status != LS_OK) return status;
    *pointer = NULL;
    *held = 0;
    status = memory_allocate(step->context, call, (size_t)bytes, pointer);
    if (status == LS_OK) *held = bytes;
    return status;
}

static ls_status too_large(const ls_step *step, const char *call, const char *what) {
    return error_set(
        &step->context->error, LS_ERROR_BIND,
        "%s: `%s` of step `%s` would be larger than memory can be; bind smaller arrays", call, what,
        step->image->step);
}

static ls_status allocate_outputs(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        Binding *binding = &step->bindings[i];
        if (binding->bound || parameter->rank == 0) continue;
        uint64_t bytes = type_rows[parameter->type].size;
        bool empty = false, fits = true;
        for (uint32_t k = 0; k < parameter->rank; k++) {
            binding->shape[k] = step->sizes[parameter->axes[k]];
            uint64_t length = (uint64_t)binding->shape[k];
            empty = empty || length == 0;
            fits = fits && !(length && bytes > INT64_MAX / length);
            if (fits && length) bytes *= length;
        }
        if (!empty && !fits) return too_large(step, call, parameter->name);
        if (empty)
            memset(binding->strides, 0, parameter->rank * sizeof *binding->strides);
        else
            layout_contiguous(parameter->rank, binding->shape, binding->strides);
        ls_status status =
            ensure(step, call, &binding->owned, &binding->owned_bytes, empty ? 1 : bytes);
        if (status != LS_OK) return status;
        binding->data = binding->owned;
        binding->dense = true;
    }
    return LS_OK;
}

static Layout layout_of(const ls_step *step, size_t number) {
    const ls_image_parameter *parameter = &step->image->parameters[number];
    const Binding *binding = &step->bindings[number];
    return (Layout){binding->data, type_rows[parameter->type].size, parameter->rank, binding->shape,
                    binding->strides};
}

/* Memory that is written may not be any other parameter's. */
static ls_status check_overlap(const ls_step *step, const char *call) {
    const ls_image *image = step->image;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        Layout first = layout_of(step, i);
        for (uint32_t k = i + 1; k < image->parameter_count; k++) {
            bool first_written = image->parameters[i].role != LS_IN;
            if (!first_written && image->parameters[k].role == LS_IN) continue;
            Layout second = layout_of(step, k);
            if (layout_disjoint(&first, &second)) continue;
            return error_set(
                &step->context->error, LS_ERROR_BIND,
                "%s: `%s` and `%s` of step `%s` overlap in memory, and `%s` is written; "
                "bind separate memory",
                call, image->parameters[i].name, image->parameters[k].name, image->step,
                image->parameters[first_written ? i : k].name);
        }
    }
    return LS_OK;
}

/* The value of an extent, or false when it overflows. */
static bool extent_value(const ls_step *step, const ls_image_extent *extent, uint64_t *value) {
    uint64_t total = extent->scale;
    for (uint32_t i = 0; i < extent->factor_count; i++) {
        const ls_image_factor *factor = &extent->factor[i];
        uint64_t product = 1;
        bool empty = false;
        for (uint32_t a = 0; a < step->image->axis_count; a++)
            if (factor->axes >> a & 1) empty = empty || step->sizes[a] == 0;
        for (uint32_t a = 0; a < step->image->axis_count && !empty; a++)
            if ((factor->axes >> a & 1) &&
                __builtin_mul_overflow(product, (uint64_t)step->sizes[a], &product))
                return false;
        if (empty) product = 0;
        uint64_t divide = factor->divide ? factor->divide : 1;
        product = product / divide + (product % divide != 0);
        if (product < factor->minimum) product = factor->minimum;
        if (__builtin_mul_overflow(total, product, &total)) return false;
    }
    *value = total;
    return true;
}

/* The work of a variant; what overflows is surely above any limit but "none". */
static uint64_t variant_work(const ls_step *step, const ls_image_variant *variant) {
    uint64_t work = 0, part;
    for (uint32_t i = 0; i < variant->work_count; i++)
        if (!extent_value(step, &variant->work[i], &part) ||
            __builtin_add_overflow(work, part, &work))
            return UINT64_MAX;
    return work;
}

static ls_status choose_variant(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    const char *strided = NULL;
    for (uint32_t i = 0; i < image->parameter_count && !strided; i++)
        if (!step->bindings[i].dense) strided = image->parameters[i].name;
    for (uint32_t i = 0; i < image->variant_count; i++) {
        const ls_image_variant *variant = &image->variants[i];
        if (variant->layout == LS_LAYOUT_DENSE && strided) continue;
        if (variant_work(step, variant) > variant->work_limit) continue;
        step->chosen = i;
        return LS_OK;
    }
    if (strided)
        return error_set(
            &step->context->error, LS_ERROR_UNSUPPORTED,
            "%s: step `%s` was built for contiguous arrays on 16-byte boundaries only, and "
            "`%s` is not one; bind a contiguous copy",
            call, image->step, strided);
    return error_set(
        &step->context->error, LS_ERROR_UNSUPPORTED,
        "%s: step `%s` was built for smaller arrays only; build it again without a limit", call,
        image->step);
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static ls_status make_code(ls_step *step, const char *call, const void **code, size_t *size,
                           int *from_cache) {
    const ls_program *program = step->program;
    const char *message = NULL, *variant = step->image->variants[step->chosen].name;
    if (!program->make)
        return error_set(
            &step->context->error, LS_ERROR_UNSUPPORTED,
            "%s: step `%s` (%s) was built without code for %s and no compiler is here; "
            "link liblockstep or build it ahead of time",
            call, step->image->step, variant, step->context->device->target);
    ls_status status =
        program->make(program->maker, step->image, step->chosen, code, size, from_cache, &message);
    if (status == LS_OK) return LS_OK;
    return error_set(&step->context->error, status, "%s: no code for step `%s` (%s) on %s: %s",
                     call, step->image->step, variant, step->context->device->name,
                     message ? message : ls_status_name(status));
}

static ls_status load_variant(ls_step *step, const char *call) {
    Variant *loaded = &step->variants[step->chosen];
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    if (loaded->loaded) return LS_OK;
    const void *code = variant->code;
    size_t size = variant->code_size;
    int from_cache = 0;
    double start = milliseconds();
    if (!code && !variant->functions) {
        ls_status status = make_code(step, call, &code, &size, &from_cache);
        if (status != LS_OK) return status;
    }
    double end = milliseconds();
    ls_status status = step->context->driver->load(step->context->device, step->image, variant,
                                                   code, size, loaded->kernels, &loaded->module);
    if (status != LS_OK) return status;
    loaded->compile_ms = end - start;
    loaded->from_cache = from_cache != 0;
    loaded->loaded = true;
    return LS_OK;
}

static ls_status allocate_temporaries(ls_step *step, const char *call) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    for (uint32_t i = 0; i < variant->temporary_count; i++) {
        const ls_image_temporary *row = &variant->temporaries[i];
        Temporary *temporary = &step->temporaries[i];
        uint64_t bytes;
        if (!extent_value(step, &row->bytes, &bytes) || bytes > INT64_MAX - MEMORY_STEP)
            return too_large(step, call, row->name);
        bytes = (bytes + MEMORY_STEP - 1) / MEMORY_STEP * MEMORY_STEP;
        if (bytes == 0) bytes = MEMORY_STEP;
        ls_status status = ensure(step, call, &temporary->data, &temporary->bytes, bytes);
        if (status == LS_OK && row->zeroed)
            status =
                step->context->driver->clear(step->context->device, temporary->data, (size_t)bytes);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

static size_t write_arguments(ls_step *step) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    uint64_t *word = step->arguments;
    for (uint32_t i = 0; i < image->axis_count; i++) *word++ = (uint64_t)step->sizes[i];
    for (uint32_t i = 0; i < image->parameter_count; i++)
        *word++ = (uint64_t)(uintptr_t)step->bindings[i].data;
    for (uint32_t i = 0; i < variant->temporary_count; i++)
        *word++ = (uint64_t)(uintptr_t)step->temporaries[i].data;
    for (uint32_t i = 0; variant->layout == LS_LAYOUT_STRIDED && i < image->parameter_count; i++)
        for (uint32_t k = 0; k < image->parameters[i].rank; k++)
            *word++ = (uint64_t)step->bindings[i].strides[k];
    return (size_t)(word - step->arguments);
}

static ls_status write_launches(ls_step *step, const char *call) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    size_t words = write_arguments(step);
    for (uint32_t i = 0; i < variant->kernel_count; i++) {
        const ls_image_kernel *kernel = &variant->kernels[i];
        uint64_t items;
        if (!extent_value(step, &kernel->items, &items)) return too_large(step, call, kernel->name);
        step->launches[i] = (Launch){
            .step = step->image->step,
            .name = kernel->name,
            .kernel = step->variants[step->chosen].kernels[i],
            .arguments = step->arguments,
            .argument_count = words,
            .items = items,
            .parts = step->context->driver->geometry(step->context->device, kernel, items),
            .threads = kernel->threads,
        };
    }
    step->launch_count = variant->kernel_count;
    return LS_OK;
}

ls_status step_prepare(ls_step *step, const char *call) {
    if (step->ready) return LS_OK;
    if (step->context->capture)
        return error_set(&step->context->error, LS_ERROR_STATE,
                         "%s: step `%s` is not prepared and a graph is being captured; call "
                         "ls_step_prepare before ls_graph_begin",
                         call, step->image->step);
    ls_status status = check_missing(step, call);
    if (status == LS_OK) status = find_sizes(step, call);
    if (status == LS_OK) status = allocate_outputs(step, call);
    if (status == LS_OK) status = check_overlap(step, call);
    if (status == LS_OK) status = choose_variant(step, call);
    if (status == LS_OK) status = load_variant(step, call);
    if (status == LS_OK) status = allocate_temporaries(step, call);
    if (status == LS_OK) status = write_launches(step, call);
    step->ready = status == LS_OK;
    return status;
}
