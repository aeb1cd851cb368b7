/* step_words.c: what kernels look up on the device: lengths of ragged axes, tables of work, and
 * pointers to the tensors of lists.
 *
 * Two blocks of 8-byte words, made on the host and copied in one piece each: lengths and tables
 * follow from the sizes alone, pointers change with every binding. A block that did not change is
 * not copied; one that a graph's launches read is replaced, not overwritten. */
#include "runtime.h"

#include <stdlib.h>

uint64_t words_address(const Words *words, size_t at) {
    return words->device ? (uint64_t)(uintptr_t)words->device + at * sizeof *words->host : 0;
}

/* Room for `count` words; what the host has stays. */
static bool reserve(Words *words, uint64_t count) {
    if (count <= words->capacity) return true;
    if (count > SIZE_MAX / 2 / sizeof *words->host) return false;
    uint64_t *grown = realloc(words->host, (size_t)count * sizeof *grown);
    if (!grown) return false;
    words->host = grown;
    words->capacity = (size_t)count;
    return true;
}

static ls_status upload(ls_step *step, const char *call, Words *words) {
    if (words->current || words->count == 0) return LS_OK;
    ls_status status = LS_OK;
    if (words->captured) {
        status = step_retire(step, words->device);
        if (status != LS_OK) return status;
        words->device = NULL;
        words->captured = false;
    }
    size_t bytes = words->count * sizeof *words->host;
    const Owned owned = {"table of", words == &step->entries ? "lengths and work" : "pointers",
                         &words->device, &words->device_bytes};
    status = step_ensure(step, call, owned, bytes);
    /* From memory that is not page-locked the drivers have read it all when the call returns. */
    if (status == LS_OK)
        status = copy_bytes(step->context,
                            &(CopyRun){COPY_IN, words->device, words->host, bytes, NULL, step});
    words->current = status == LS_OK;
    return status;
}

/* Where each length and table begins, and how many words there are; false: it overflows. */
static bool lay_out(ls_step *step, uint64_t *count) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    *count = 0;
    for (uint32_t i = 0; i < image->axis_count; i++) {
        if (!axis_is_ragged(image, i)) continue;
        step->lengths[i].at = (size_t)*count;
        *count += (uint64_t)step->sizes[axis_list(image, i)];
    }
    *count += *count & 1; /* entries on 16-byte boundaries */
    for (uint32_t i = 0; i < variant->table_count; i++) {
        Table *table = &step->tables[i];
        if (!extent_value(step, &variant->tables[i].items, &table->count)) return false;
        table->at = (size_t)*count;
        if (table->count > INT64_MAX / 32 || *count > INT64_MAX / 32) return false;
        *count += 2 * table->count;
    }
    return true;
}

static void write_table(const ls_step *step, const ls_image_extent *items, uint64_t *word) {
    size_t tensors = items->list ? (size_t)step->sizes[items->list - 1] : 0;
    for (size_t i = 0; i < tensors; i++) {
        uint64_t count = 0;
        extent_part(step, items, i, &count); /* fits: lay_out summed it */
        for (uint64_t k = 0; k < count; k++) {
            *word++ = i;
            *word++ = k;
        }
    }
}

static ls_status make_entries(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    Words *words = &step->entries;
    uint64_t count;
    if (step->tabled && step->tabled_variant == step->chosen) return LS_OK;
    step->tabled = words->current = false;
    if (!lay_out(step, &count)) return step_too_large(step, call, "table of work");
    if (!reserve(words, count)) return error_memory(&step->context->error, call);
    words->count = (size_t)count;
    for (uint32_t i = 0; i < image->axis_count; i++) {
        if (!axis_is_ragged(image, i)) continue;
        const Lengths *lengths = &step->lengths[i];
        size_t tensors = (size_t)step->sizes[axis_list(image, i)];
        for (size_t k = 0; k < tensors; k++)
            words->host[lengths->at + k] = (uint64_t)lengths->of[k];
    }
    for (uint32_t i = 0; i < variant->table_count; i++)
        write_table(step, &variant->tables[i].items, &words->host[step->tables[i].at]);
    step->tabled = true;
    step->tabled_variant = step->chosen;
    return LS_OK;
}

/* Adds a word and sees whether it is the one that was there. */
static void put(Words *words, size_t *at, const void *pointer) {
    uint64_t value = (uint64_t)(uintptr_t)pointer;
    if (*at >= words->count || words->host[*at] != value) words->current = false;
    words->host[(*at)++] = value;
}

static ls_status make_pointers(ls_step *step, const char *call) {
    const ls_image *image = step->image;
    const ls_image_variant *variant = &image->variants[step->chosen];
    Words *words = &step->pointers;
    uint64_t count = 0;
    for (uint32_t i = 0; i < image->parameter_count; i++)
        if (step_is_list(step, i)) count += step->bindings[i].list.count;
    for (uint32_t i = 0; i < variant->temporary_count; i++)
        if (variant->temporaries[i].pointers)
            count += (uint64_t)step->sizes[variant->temporaries[i].bytes.list - 1];
    if (!reserve(words, count)) return error_memory(&step->context->error, call);
    size_t at = 0;
    for (uint32_t i = 0; i < image->parameter_count; i++) {
        const List *list = &step->bindings[i].list;
        for (size_t k = 0; step_is_list(step, i) && k < list->count; k++)
            put(words, &at, list->pointers[k]);
    }
    for (uint32_t i = 0; i < variant->temporary_count; i++) {
        const ls_image_temporary *row = &variant->temporaries[i];
        if (!row->pointers) continue;
        size_t tensors = (size_t)step->sizes[row->bytes.list - 1];
        const char *next = step_temporary(step, i);
        for (size_t k = 0; k < tensors; k++) {
            uint64_t bytes = 0;
            put(words, &at, next);
            extent_part(step, &row->bytes, k, &bytes); /* fits: the sum was allocated */
            next += (bytes + 15) / 16 * 16;
        }
    }
    if (at != words->count) words->current = false;
    words->count = at;
    return LS_OK;
}

ls_status step_upload(ls_step *step, const char *call) {
    ls_status status = make_entries(step, call);
    if (status == LS_OK) status = upload(step, call, &step->entries);
    if (status == LS_OK) status = make_pointers(step, call);
    if (status == LS_OK) status = upload(step, call, &step->pointers);
    return status;
}
