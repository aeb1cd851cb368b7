/* bounds.c: tells an emulated device which memory is a step's (tests/simt/extents.h), looking into
 * the step for it, and leaves rubbish in temporaries. Temporaries have room around them, which the
 * runtime does not know of: in this program ls_image_place is ours. */
#include "bounds.h"
#include "extents.h"
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 256, RUBBISH = 0xff }; /* NaN, and no index */

static SimtExtentsAdd *add;
static SimtExtentsClear *clear;

uint64_t __real_ls_image_place(const ls_image_variant *variant, const uint64_t *bytes,
                               uint64_t *offsets, uint64_t *cleared);
uint64_t __wrap_ls_image_place(const ls_image_variant *variant, const uint64_t *bytes,
                               uint64_t *offsets, uint64_t *cleared);
uint64_t __wrap_ls_image_place(const ls_image_variant *variant, const uint64_t *bytes,
                               uint64_t *offsets, uint64_t *cleared) {
    uint64_t *more = calloc(variant->temporary_count + 1, sizeof *more);
    for (uint32_t i = 0; i < variant->temporary_count; i++) more[i] = bytes[i] + ROOM;
    if (!more) return UINT64_MAX;
    const uint64_t size = __real_ls_image_place(variant, more, offsets, cleared);
    free(more);
    return size;
}

/* The emulated device is the vendor's library of this process, or it is a real one. */
void bounds_open(const char *device) {
    const char *path = getenv(strcmp(device, "hip") == 0 ? "LOCKSTEP_HIP" : "LOCKSTEP_CUDA");
    void *library = strcmp(device, "cpu") != 0 && path ? dlopen(path, RTLD_NOW) : NULL;
    void *symbols[] = {library ? dlsym(library, "simt_extents_add") : NULL,
                       library ? dlsym(library, "simt_extents_clear") : NULL};
    memcpy(&add, &symbols[0], sizeof add);
    memcpy(&clear, &symbols[1], sizeof clear);
}

static void add_list(const Binding *binding, const ls_image_parameter *parameter) {
    const size_t rank = parameter->rank - 1, element = ls_type_size(parameter->type);
    for (size_t t = 0; t < binding->list.count; t++) {
        size_t count = 1;
        for (size_t i = 0; i < rank; i++) count *= (size_t)binding->list.lengths[t * rank + i];
        add(binding->list.pointers[t], count * element, parameter->name);
    }
}

/* From the first byte to the last: between the elements others may lie. */
static void add_array(const Binding *binding, const ls_image_parameter *parameter) {
    const int64_t element = (int64_t)ls_type_size(parameter->type);
    const char *first = binding->data, *last = first;
    for (uint32_t i = 0; i < parameter->rank; i++) {
        const int64_t span = element * binding->strides[i] * (binding->shape[i] - 1);
        if (binding->shape[i] == 0) return;
        *(span < 0 ? &first : &last) += span;
    }
    add(first, (size_t)(last - first + element), parameter->name);
}

/* What a step owns, and its parts if it has a `for`. */
static void add_owned(const ls_step *step) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    for (uint32_t i = 0; i < variant->temporary_count; i++)
        add(step_temporary(step, i), (size_t)step->temporaries.sizes[i],
            variant->temporaries[i].name);
    const Words *words[] = {&step->entries, &step->pointers};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i]->device) add(words[i]->device, words[i]->count * sizeof(uint64_t), "a table");
    for (uint32_t i = 0; i < step->image->part_count; i++) add_owned(step->parts[i]);
}

void bounds_add(const ls_step *step) {
    const ls_image *image = step->image;
    if (!add) return;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        if (step_is_list(step, i))
            add_list(&step->bindings[i], &image->parameters[i]);
        else if (step->bindings[i].data)
            add_array(&step->bindings[i], &image->parameters[i]);
    }
    add_owned(step);
}

void bounds_clear(void) {
    if (clear) clear();
}

bool bounds_poison(ls_context *context, const ls_step *step) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    bool ok = true;
    for (uint32_t i = 0; ok && i < variant->temporary_count; i++) {
        const size_t bytes = (size_t)step->temporaries.sizes[i];
        if (variant->temporaries[i].zeroed || bytes == 0) continue;
        uint8_t *rubbish = malloc(bytes);
        if (!rubbish) return false;
        memset(rubbish, RUBBISH, bytes);
        ok = ls_copy_in(context, step_temporary(step, i), rubbish, bytes) == LS_OK;
        free(rubbish);
    }
    for (uint32_t i = 0; ok && i < step->image->part_count; i++)
        ok = bounds_poison(context, step->parts[i]);
    return ok;
}
