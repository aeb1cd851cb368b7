/* step_temporaries.c: what a step's kernels hand on to each other, in one allocation.
 *
 * Each temporary has its place there, some the same place as others: see ls_image_place. The
 * counters come first and are cleared once; every launch leaves them as it found them. A graph's
 * launches go by the places of its time: before others take effect, the graph gets the memory for
 * itself. */
#include "runtime.h"

enum { BLOCK_STEP = 256, TENSOR_STEP = 16 };

/* Rounds up; false where that is more than memory can be. */
static bool round_up(uint64_t *bytes, uint64_t step) {
    if (*bytes > INT64_MAX - step) return false;
    *bytes = (*bytes + step - 1) / step * step;
    return true;
}

/* The bytes of a temporary over a list: each tensor's part begins on a boundary. */
static bool list_bytes(const ls_step *step, const ls_image_extent *extent, uint64_t *bytes) {
    size_t count = extent->list ? (size_t)step->sizes[extent->list - 1] : 0;
    uint64_t part;
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!extent_part(step, extent, i, &part) || !round_up(&part, TENSOR_STEP)) return false;
        if (__builtin_add_overflow(*bytes, part, bytes)) return false;
    }
    return true;
}

/* Blocks or workers of the largest launch. */
static uint64_t max_parts(const ls_step *step) {
    uint64_t max = 1;
    for (uint32_t i = 0; i < step->launch_count; i++)
        if (step->launches[i].parts > max) max = step->launches[i].parts;
    return max;
}

static bool temporary_bytes(const ls_step *step, const ls_image_temporary *row, uint64_t *bytes) {
    if (!(row->pointers ? list_bytes(step, &row->bytes, bytes)
                        : extent_value(step, &row->bytes, bytes)))
        return false;
    return !row->per_block ||
           (round_up(bytes, BLOCK_STEP) && !__builtin_mul_overflow(*bytes, max_parts(step), bytes));
}

/* The size of each; the number of one that is more than memory can be, or how many there are. */
static uint32_t count_each(ls_step *step) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    uint32_t i = 0;
    while (i < variant->temporary_count &&
           temporary_bytes(step, &variant->temporaries[i], &step->temporaries.sizes[i]))
        i++;
    return i;
}

bool step_count_temporaries(ls_step *step, uint64_t *bytes) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    uint64_t cleared;
    *bytes = 0;
    if (variant->temporary_count == 0) return true;
    if (count_each(step) < variant->temporary_count) return false;
    *bytes = ls_image_place(variant, step->temporaries.sizes, step->temporaries.offsets, &cleared);
    return *bytes != UINT64_MAX;
}

ls_status step_allocate_temporaries(ls_step *step, const char *call) {
    const ls_image_variant *variant = &step->image->variants[step->chosen];
    const Driver *driver = step->context->driver;
    Temporaries *own = &step->temporaries;
    uint64_t cleared;
    own->bytes = 0;
    if (variant->temporary_count == 0) return LS_OK;
    const uint32_t counted = count_each(step);
    if (counted < variant->temporary_count)
        return step_too_large(step, call, variant->temporaries[counted].name);
    const uint64_t bytes = ls_image_place(variant, own->sizes, own->offsets, &cleared);
    if (bytes == UINT64_MAX) return step_too_large(step, call, "all temporaries");
    ls_status status = LS_OK;
    if (own->captured) {
        status = step_retire(step, own->data);
        if (status != LS_OK) return status;
        own->data = NULL;
        own->captured = false;
    }
    const Owned owned = {"all", "temporaries", &own->data, &own->held};
    status = step_ensure(step, call, owned, bytes);
    if (status == LS_OK && cleared)
        status = driver->clear(step->context->device, own->data, (size_t)cleared);
    if (status == LS_OK) own->bytes = bytes;
    return status;
}

void *step_temporary(const ls_step *step, uint32_t number) {
    return (char *)step->temporaries.data + step->temporaries.offsets[number];
}
