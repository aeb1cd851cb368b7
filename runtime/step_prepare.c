/* step_prepare.c: from a step's bindings to launches that need no further thought.
 *
 * Checks what concerns all bindings together and gives unbound outputs memory. Takes the variant of
 * the first tuning that applies, else the first variant that fits. Gets its code, sizes its
 * temporaries and tables and writes the argument block. Runs again only when a binding, the shard
 * or the tuning has changed. Needs: bindings that ls_step_bind accepted. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds "`a`, `b` and `c`" piece by piece: `left` names are still to come. */
static void add_name(char *text, size_t size, const char *name, size_t left) {
    size_t used = strlen(text);
    const char *join = used == 0 ? "" : (left ? ", " : " and ");
    snprintf(text + used, size - used, "%s`%s`", join, name);
}

static bool is_missing(const ls_step *step, size_t number) {
    const Binding *binding = &step->bindings[number];
    if (binding->bound) return false;
    if (step_is_device_scalar(step, number)) return !step_has_value(step, number);
    if (binding->has_value) return false; /* filled with a number */
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
                     "ls_step_set for a rank-0 value, ls_step_bind_list for a list)",
                     call, image->step, count > 1 ? "s" : "", names, count > 1 ? "are" : "is");
}

uint64_t step_value(const void *of, const ls_image_extent *extent, uint32_t largest) {
    uint64_t value;
    const bool fits = (largest ? extent_largest : extent_value)(of, extent, &value);
    return fits ? value : UINT64_MAX;
}

uint64_t step_work(const ls_step *step, const ls_image_variant *variant) {
    return ls_image_work(variant, step_value, step);
}

uint64_t step_tuned_work(ls_step *step, const ls_image_variant *variant) {
    parts_size_for(step, NULL);
    const uint64_t work = step_work(step, variant);
    parts_size_for(step, &step->image->variants[step->chosen]);
    return work;
}

static bool is_cooperative(const ls_image_variant *variant) {
    for (uint32_t i = 0; i < variant->kernel_count; i++)
        if (variant->kernels[i].cooperative) return true;
    return false;
}

/* The first layout that the array fits. */
static ls_image_layout layout_of(const ls_step *step, uint32_t number) {
    const Binding *binding = &step->bindings[number];
    const uint32_t rank = step->image->parameters[number].rank, last = rank - 1;
    if (binding->dense) return LS_LAYOUT_DENSE;
    if (rank == 0 || step_is_list(step, number)) return LS_LAYOUT_PITCHED;
    return binding->strides[last] == 1 || binding->shape[last] <= 1 ? LS_LAYOUT_PITCHED
                                                                    : LS_LAYOUT_STRIDED;
}

/* The first layout that all arrays fit. *worst: the one that fits no earlier one, or NULL. */
static ls_image_layout layout_of_all(const ls_step *step, const char **worst) {
    ls_image_layout layout = LS_LAYOUT_DENSE;
    *worst = NULL;
    for (uint32_t i = 0; i < step->image->parameter_count; i++) {
        const ls_image_layout own = layout_of(step, i);
        if (own <= layout) continue;
        layout = own;
        *worst = step->image->parameters[i].name;
    }
    return layout;
}

/* Why a variant is not taken. */
typedef enum Misfit { FITS, OTHER_LAYOUT, TOO_LARGE, NO_GRID_BARRIER } Misfit;

static Misfit misfit(ls_step *step, const ls_image_variant *variant, ls_image_layout layout,
                     bool *one_block) {
    parts_size_for(step, variant);
    const uint64_t work = step_work(step, variant);
    *one_block = work <= variant->one_block_limit;
    if (variant->layout < layout) return OTHER_LAYOUT;
    if (!ls_image_suits(variant, work, step_value, step)) return TOO_LARGE;
    if (is_cooperative(variant) && !*one_block && step->context->device->lacks[CAN_COOPERATE][0])
        return NO_GRID_BARRIER;
    return FITS;
}

static void take_variant(ls_step *step, uint32_t variant, bool one_block,
                         const ls_image_tuning *tuning) {
    const int64_t strip = step->strips ? step->sizes[step->strips->axis] : 0;
    if (step->one_block != one_block || step->tuning != tuning || step->strip != strip)
        step->planned = false;
    step->strip = strip;
    step->chosen = variant;
    step->one_block = one_block;
    step->tuning = tuning;
}

/* The first tuning for this size whose variant suits. */
static bool take_tuned(ls_step *step, ls_image_layout layout) {
    const ls_image *image = step->image;
    const uint32_t count = step->tried ? 1 : image->tuning_count;
    for (uint32_t i = 0; i < count; i++) {
        const ls_image_tuning *tuning = step->tried ? &step->trial : &image->tunings[i];
        if (tuning->variant >= image->variant_count) continue;
        const ls_image_variant *variant = &image->variants[tuning->variant];
        const uint64_t work = step_tuned_work(step, variant);
        bool one_block;
        if (!step->tried && (work < tuning->at_least || work > tuning->at_most)) continue;
        if (misfit(step, variant, layout, &one_block) != FITS) continue;
        if (!step->tried && step->tuning != tuning)
            log_write(LOG_INFO, "step `%s`: launched as lockstep tune found best (%s)", image->step,
                      variant->name);
        take_variant(step, tuning->variant, one_block, tuning);
        return true;
    }
    return false;
}

static ls_status choose_variant(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    const char *strided, *alone = NULL;
    const ls_image_layout layout = layout_of_all(step, &strided);
    if (take_tuned(step, layout)) return LS_OK;
    if (step->tried)
        return error_set(&step->context->error, LS_ERROR_UNSUPPORTED,
                         "%s: variant %u of step `%s`, which ls_step_tune asked for, does not suit "
                         "what is bound",
                         call, step->trial.variant, image->step);
    for (uint32_t i = 0; i < image->variant_count; i++) {
        const ls_image_variant *variant = &image->variants[i];
        bool one_block;
        const Misfit why = misfit(step, variant, layout, &one_block);
        if (why == NO_GRID_BARRIER) alone = variant->name;
        if (why != FITS) continue;
        if (strided && i != step->chosen)
            log_write(LOG_INFO,
                      "step `%s`: `%s` is not contiguous on a 16-byte boundary, so the kernels for "
                      "%s are used",
                      image->step, strided,
                      variant->layout == LS_LAYOUT_PITCHED ? "contiguous rows" : "any strides");
        if (alone && i != step->chosen)
            log_write(LOG_INFO,
                      "step `%s`: %s has no kernels whose blocks wait for each other (%s), so `%s` "
                      "is not used",
                      image->step, step->context->device->name,
                      step->context->device->lacks[CAN_COOPERATE], alone);
        take_variant(step, i, one_block, NULL);
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
    if (loaded->loaded || variant->kernel_count == 0) return LS_OK;
    const void *code = variant->code;
    void *unpacked = NULL;
    size_t size = variant->code_size;
    int from_cache = 0;
    double start = time_us() * 1e-3;
    if (variant->packed) {
        const int made = ls_image_unpack(variant, &unpacked);
        if (made == 0)
            return error_set(&step->context->error, LS_ERROR_MEMORY,
                             "%s: no memory for the code of step `%s` (%s)", call,
                             step->image->step, variant->name);
        if (made < 0)
            return error_set(&step->context->error, LS_ERROR_FILE,
                             "%s: the code of step `%s` (%s) is damaged; build it again", call,
                             step->image->step, variant->name);
        code = unpacked;
    } else if (!code && !variant->functions) {
        ls_status status = make_code(step, call, &code, &size, &from_cache);
        if (status != LS_OK) return status;
    }
    double end = time_us() * 1e-3;
    ls_status status = step->context->driver->load(step->context->device, step->image, variant,
                                                   code, size, loaded->kernels, &loaded->module);
    if (status != LS_OK) {
        free(unpacked);
        return status;
    }
    loaded->unpacked = unpacked;
    log_write(LOG_INFO, "step `%s` (%s) on %s: code %s in %.2f ms", step->image->step,
              variant->name, step->context->device->target,
              variant->packed || variant->code || variant->functions ? "of the image"
              : from_cache                                           ? "from the cache"
                                                                     : "compiled",
              end - start);
    loaded->compile_ms = end - start;
    loaded->from_cache = from_cache != 0;
    loaded->loaded = true;
    return LS_OK;
}

static uint64_t axis_word(const ls_step *step, uint32_t axis) {
    if (!axis_is_ragged(step->image, axis)) return (uint64_t)step->sizes[axis];
    return words_address(&step->entries, step->lengths[axis].at);
}

static size_t write_arguments(ls_step *step) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    uint64_t *word = step->arguments;
    size_t pointers = 0; /* as make_pointers puts them: lists, then temporaries */
    for (uint32_t i = 0; i < image->axis_count; i++) *word++ = axis_word(step, i);
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const Binding *binding = &step->bindings[i];
        const bool list = step_is_list(step, i) && !step_leaves_out(step, i);
        *word++ =
            list ? words_address(&step->pointers, pointers) : (uint64_t)(uintptr_t)binding->data;
        if (list) pointers += binding->list.count;
    }
    for (uint32_t i = 0; i < variant->temporary_count; i++) {
        const ls_image_temporary *row = &variant->temporaries[i];
        *word++ = row->pointers ? words_address(&step->pointers, pointers)
                                : (uint64_t)(uintptr_t)step_temporary(step, i);
        if (row->pointers) pointers += (size_t)step->sizes[row->bytes.list - 1];
    }
    for (uint32_t i = 0; i < variant->table_count; i++) {
        *word++ = words_address(&step->entries, step->tables[i].at);
        *word++ = step->tables[i].count;
    }
    for (uint32_t i = 0; variant->layout != LS_LAYOUT_DENSE && i < image->parameter_count; i++)
        for (uint32_t k = 0; k < image->parameters[i].rank; k++)
            *word++ = step_is_list(step, i) ? 0 : (uint64_t)step->bindings[i].strides[k];
    for (size_t i = 0; image->draws && i < COUNT(step->shard); i++)
        *word++ = (uint64_t)step->shard[i];
    if (variant->iterates) word += parts_iteration_words(step); /* step_parts.c fills them in */
    return (size_t)(word - step->arguments);
}

/* The maximum over the kernel's phases; a cooperative kernel that runs in one block counts at most
 * one item. */
static bool count_items(const ls_step *step, const ls_image_kernel *kernel, uint64_t *items) {
    uint64_t own;
    if (!extent_value(step, &kernel->items, items)) return false;
    for (uint32_t i = 0; i < kernel->phase_count; i++) {
        if (!extent_value(step, &kernel->phases[i], &own)) return false;
        if (own > *items) *items = own;
    }
    if (kernel->cooperative && step->one_block && *items > 1) *items = 1;
    return true;
}

/* The kernel with the tuning applied. The thread count may be lowered only if each group of 32
 * threads takes its own item; there are then more blocks. */
static ls_image_kernel tuned_kernel(const ls_step *step, const ls_image_kernel *kernel) {
    const ls_image_tuning *tuning = step->tuning;
    ls_image_kernel own = *kernel;
    if (!tuning || kernel->one_block || (kernel->cooperative && step->one_block)) return own;
    if (tuning->blocks_per_multiprocessor)
        own.blocks_per_multiprocessor = tuning->blocks_per_multiprocessor;
    const uint32_t threads = tuning->threads / 32 * 32;
    if (threads && threads < kernel->threads && kernel->items_per_block * 32 == kernel->threads) {
        own.threads = threads;
        own.items_per_block = threads / 32;
    }
    return own;
}

static ls_status plan_launches(ls_step *step, const char *call) {
    const Driver *driver = step->context->driver;
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    for (uint32_t i = 0; i < variant->kernel_count; i++) {
        const ls_image_kernel own = tuned_kernel(step, &variant->kernels[i]), *kernel = &own;
        const uint64_t max = step->context->device->threads; /* of a CPU's workers */
        Launch *launch = &step->launches[i];
        uint64_t items, tiles = 1;
        if (!count_items(step, kernel, &items) ||
            (kernel->tiles.scale && !extent_value(step, &kernel->tiles, &tiles)))
            return step_too_large(step, call, kernel->name);
        *launch = (Launch){
            .step = step->image->step,
            .name = kernel->name,
            .kernel = step->variants[step->chosen].kernels[i],
            .arguments = step->arguments,
            .items = items,
            .threads = kernel->threads,
        };
        ls_status status = driver->geometry(step->context->device, kernel, tiles, launch);
        if (status != LS_OK) return status;
        if (max && step->tuning && step->tuning->workers) {
            const uint64_t workers = step->tuning->workers < max ? step->tuning->workers : max;
            launch->parts = (uint32_t)(workers < items ? workers : items ? items : 1);
        }
        launch->together = kernel->cooperative && launch->parts > 1;
    }
    step->launch_count = variant->kernel_count;
    step->together = false;
    for (uint32_t i = 0; i < step->launch_count; i++) step->together |= step->launches[i].together;
    return LS_OK;
}

static void write_launches(ls_step *step) {
    size_t words = write_arguments(step);
    for (uint32_t i = 0; i < step->launch_count; i++) step->launches[i].argument_count = words;
}

/* What a launch will be, in a line for the step and one for each kernel. */
static void log_launches(const ls_step *step) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    char sizes[512] = "";
    if (!log_wanted(LOG_DEBUG)) return;
    for (uint32_t i = 0; i < image->axis_count; i++) {
        size_t used = strlen(sizes);
        const char *name = image->axes[i].name;
        if (axis_is_ragged(image, i))
            snprintf(sizes + used, sizeof sizes - used, " %s=...", name);
        else
            snprintf(sizes + used, sizeof sizes - used, " %s=%lld", name,
                     (long long)step->sizes[i]);
    }
    log_write(LOG_DEBUG, "step `%s` (%s):%s; %zu bytes of lengths and tables, %zu of pointers",
              image->step, variant->name, sizes, step->entries.count * sizeof(uint64_t),
              step->pointers.count * sizeof(uint64_t));
    for (uint32_t i = 0; i < step->launch_count; i++)
        log_write(LOG_DEBUG, "  kernel `%s`: %llu items in %u parts", step->launches[i].name,
                  (unsigned long long)step->launches[i].items, step->launches[i].parts);
    for (uint32_t i = 0; i < variant->temporary_count; i++)
        log_write(LOG_DEBUG, "  temporary `%s`: %llu bytes", variant->temporaries[i].name,
                  (unsigned long long)step->temporaries.sizes[i]);
}

/* All that comes before the code. */
static ls_status choose(ls_step *step, const char *call) {
    bool captured;
    ls_status status = context_captured(step->context, &captured);
    if (status == LS_OK && (captured || step->context->capture))
        status = error_set(&step->context->error, LS_ERROR_STATE,
                           "%s: step `%s` is not prepared and a graph is being captured; call "
                           "ls_step_prepare before ls_graph_begin or the program's own capture",
                           call, step->image->step);
    if (status == LS_OK) status = check_missing(step, call);
    if (status == LS_OK && !step->sized) {
        step->tabled = step->planned = false;
        status = step_find_sizes(step, call);
        step->sized = status == LS_OK;
    }
    if (status == LS_OK) status = step_allocate_outputs(step, call);
    if (status == LS_OK) status = step_check_overlap(step, call);
    return status == LS_OK ? choose_variant(step, call) : status;
}

bool step_is_ready(const ls_step *step) {
    if (partition_is_due(step)) return false;
    return step->ready && !(step->together && step->context->device->lacks[CAN_COOPERATE][0]);
}

/* All that follows. */
static ls_status complete(ls_step *step, const char *call, ls_status status) {
    if (status == LS_OK) status = load_variant(step, call);
    if (step->planned_variant != step->chosen) step->planned = false;
    if (status == LS_OK && !step->planned) status = plan_launches(step, call);
    if (status == LS_OK && !step->planned) status = step_allocate_temporaries(step, call);
    if (status == LS_OK) status = step_upload(step, call);
    if (status == LS_OK) write_launches(step);
    if (status == LS_OK) step_find_known(step);
    step->ready = step->planned = status == LS_OK;
    step->planned_variant = step->chosen;
    if (step->ready) log_launches(step);
    return status;
}

ls_status step_prepare_part(ls_step *part, const char *call) {
    part->counted = false;
    return complete(part, call, choose_variant(part, call));
}

ls_status step_prepare(ls_step *step, const char *call) {
    if (partition_is_due(step)) return step_prepare(step->partitioned, call);
    if (step_is_ready(step)) return LS_OK;
    if (step->partition) {
        ls_status status = context_not_capturing(step->context, call);
        return status == LS_OK ? partition_prepare(step, call) : status;
    }
    step->counted = false;
    ls_status status = choose(step, call);
    const bool planned = step->planned;
    status = complete(step, call, status);
    if (status != LS_OK || step->image->part_count == 0) return status;
    status = parts_prepare(step, call, planned);
    step->ready = step->planned = status == LS_OK;
    return status;
}

/* The program's own compiler makes what several of its steps lack at the same time. */
static void make_codes(ls_step *const *steps, size_t count, const ls_program *program) {
    const ls_image **images = calloc(count, sizeof *images);
    uint32_t *variants = calloc(count, sizeof *variants);
    size_t lacking = 0;
    for (size_t i = 0; images && variants && i < count; i++) {
        const ls_step *step = steps[i];
        const ls_image_variant *variant = &step->image->variants[step->chosen];
        if (step->program != program || step_is_ready(step) ||
            step->variants[step->chosen].loaded || variant->code || variant->packed ||
            variant->functions)
            continue;
        images[lacking] = step->image;
        variants[lacking++] = step->chosen;
    }
    if (lacking > 1) program->make_all(program->maker, images, variants, lacking);
    free(images);
    free(variants);
}

ls_status ls_steps_prepare(ls_step *const *steps, size_t count) {
    static const char call[] = "ls_steps_prepare";
    ls_status status = LS_OK;
    for (size_t i = 0; i < count; i++)
        if (!steps || !steps[i])
            return error_set(NULL, LS_ERROR_ARGUMENT, "%s: step %zu is NULL", call, i);
    for (size_t i = 0; i < count && status == LS_OK; i++)
        if (steps[i]->partition)
            status = step_prepare(steps[i], call);
        else if (!step_is_ready(steps[i]))
            status = choose(steps[i], call);
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        size_t first = 0; /* of the program */
        while (steps[first]->program != steps[i]->program) first++;
        if (first == i && steps[i]->program->make_all) make_codes(steps, count, steps[i]->program);
    }
    for (size_t i = 0; i < count && status == LS_OK; i++) status = step_prepare(steps[i], call);
    return status;
}

ls_status ls_step_tune(ls_step *step, const ls_image_tuning *tuning) {
    static const char call[] = "ls_step_tune";
    if (!step) return error_set(NULL, LS_ERROR_ARGUMENT, "%s: step is NULL", call);
    ls_status status = context_not_capturing(step->context, call);
    if (status != LS_OK) return status;
    if (step->partition)
        return error_set(&step->context->error, LS_ERROR_UNSUPPORTED,
                         "%s: step `%s` is partitioned, and its stages take no such numbers", call,
                         step->image->step);
    step->tried = tuning != NULL;
    if (tuning) step->trial = *tuning;
    step->tuning = NULL;
    step->ready = step->planned = false;
    if (step->owner) step->owner->ready = step->owner->planned = false;
    return LS_OK;
}
