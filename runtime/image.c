/* image.c: what follows from an image alone: what the runtime does with it, and what reports say of
 * it beforehand, are one function each. */
#include "runtime.h"

enum {
    TERMS_DEPTH = 16, /* of an axis's expression */
    SLOT_STEP = 256,
    ARRAY_STEP = 16,  /* bytes: where kernels for contiguous arrays have them begin */
    ROUND_STRIP = 16, /* coordinates: whole vectors along them; a multiple of every other step */
    BLOCKS_PER_MULTIPROCESSOR = 32, /* what the hardware keeps at most */
    ELEMENTS_PER_WORKER =
        8 * 1024 /* less is not worth waking a thread: two workers from 16 Ki on */
};

/* floor(a / b), or what is left; by zero 0, as in kernels. False: no 64 bits hold it. */
static bool divide(int64_t *a, int64_t b, bool quotient) {
    if (quotient && b == -1) return !__builtin_sub_overflow((int64_t)0, *a, a);
    const int64_t divisor = b && b != -1 ? b : 1, rest = *a % divisor;
    const bool down = rest && (rest ^ divisor) < 0;
    *a = !quotient ? rest + (down ? divisor : 0) : b ? *a / divisor - down : 0;
    return true;
}

int ls_image_length(const ls_image_term *terms, uint32_t count, const int64_t *lengths,
                    int64_t *value) {
    int64_t stack[TERMS_DEPTH];
    size_t depth = 0;
    for (uint32_t i = 0; i < count; i++) {
        const ls_image_term *term = &terms[i];
        if (term->operation == LS_TERM_NUMBER || term->operation == LS_TERM_AXIS) {
            if (depth == TERMS_DEPTH) return 0;
            stack[depth++] = term->operation == LS_TERM_NUMBER ? term->value : lengths[term->value];
            continue;
        }
        if (depth < 2) return 0;
        const int64_t b = stack[--depth];
        int64_t *a = &stack[depth - 1];
        bool fits = true;
        switch (term->operation) {
        case LS_TERM_ADD: fits = !__builtin_add_overflow(*a, b, a); break;
        case LS_TERM_SUBTRACT: fits = !__builtin_sub_overflow(*a, b, a); break;
        case LS_TERM_MULTIPLY: fits = !__builtin_mul_overflow(*a, b, a); break;
        default: fits = divide(a, b, term->operation == LS_TERM_DIVIDE); break;
        }
        if (!fits) return 0;
    }
    *value = depth == 1 ? stack[0] : -1;
    return depth == 1;
}

int64_t ls_image_solve(const ls_image_term *terms, uint32_t count, size_t unknown, int64_t *lengths,
                       int64_t wanted) {
    int64_t low = 0, high = INT64_MAX / 2, value, *const trial = &lengths[unknown];
    while (low < high) { /* the least length that gives as much */
        *trial = low + (high - low) / 2;
        if (ls_image_length(terms, count, lengths, &value) && value < wanted)
            low = *trial + 1;
        else
            high = *trial;
    }
    *trial = low;
    if (!ls_image_length(terms, count, lengths, &value) || value != wanted) return -1;
    *trial = low + 1;
    if (ls_image_length(terms, count, lengths, &value) && value == wanted) return -1;
    return low;
}

/* What overflows is surely above any limit but "none". */
uint64_t ls_image_work(const ls_image_variant *variant, ls_image_value value, const void *of) {
    uint64_t work = 0;
    for (uint32_t i = 0; i < variant->work_count; i++)
        if (__builtin_add_overflow(work, value(of, &variant->work[i], 0), &work)) return UINT64_MAX;
    return work;
}

int64_t ls_image_strip(const ls_image_variant *variant, int64_t length, ls_image_value value,
                       const void *of) {
    const ls_image_strips *strips = variant->strips;
    const uint64_t work = ls_image_work(variant, value, of);
    const uint64_t each = length > 0 ? work / (uint64_t)length : 0;
    uint64_t strip = strips->work / (each ? each : 1), step = 1;
    for (uint32_t i = 0; i < strips->array_count; i++) {
        const uint64_t bytes = value(of, &strips->bytes[i], 0) & (ARRAY_STEP - 1);
        const uint64_t own = bytes ? ARRAY_STEP / (bytes & (~bytes + 1)) : 1;
        if (own > step) step = own;
    }
    if (step > 1 || strip >= ROUND_STRIP) step = ROUND_STRIP;
    strip = (strip + step - 1) / step * step;
    if (strip == 0) strip = step;
    return strip < (uint64_t)length ? (int64_t)strip : length;
}

int ls_image_suits(const ls_image_variant *variant, uint64_t work, ls_image_value value,
                   const void *of) {
    if (work > variant->work_limit) return 0;
    for (uint32_t i = 0; i < variant->condition_count; i++) {
        const ls_image_condition *condition = &variant->conditions[i];
        const uint64_t extent = value(of, &condition->extent, condition->largest);
        if (extent < condition->at_least || extent > condition->at_most) return 0;
    }
    return 1;
}

/* Sums stick at the end. */
static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t flow_bytes(const ls_image_flow *flow, ls_image_value value, const void *of) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < flow->count; i++) total = sum(total, value(of, &flow->bytes[i], 0));
    if (flow->most.scale) {
        const uint64_t max = value(of, &flow->most, 0);
        if (total > max) total = max;
    }
    return flow->above.scale && total <= value(of, &flow->above, 0) ? 0 : total;
}

/* Whether what the kernel comes back to in a row is still near when it does. */
static bool rows_stay_near(const ls_image_traffic *traffic, ls_image_value value, const void *of) {
    double total = 0;
    if (traffic->near == 0 || traffic->near == UINT64_MAX) return traffic->near != 0;
    for (uint32_t i = 0; i < traffic->row_count; i++) {
        const ls_image_row *row = &traffic->rows[i];
        const uint64_t bytes = value(of, &row->bytes, 0), rows = value(of, &row->rows, 0);
        const double each = (double)bytes / (double)(rows > 1 ? rows : 1);
        total += each * (double)(rows > 1 && rows < row->at_once ? rows
                                 : rows > 1                      ? row->at_once
                                                                 : 1);
    }
    return total <= (double)traffic->near;
}

int ls_image_count_moved(const ls_image_traffic *traffic, uint64_t iterations, ls_image_value value,
                         ls_image_left_out left_out, const void *of, ls_image_moved *moved) {
    const bool near = rows_stay_near(traffic, value, of);
    uint64_t largest = 0; /* of those of the array at hand */
    *moved = (ls_image_moved){0, 0};
    for (uint32_t i = 0; i < traffic->flow_count; i++) {
        const ls_image_flow *flow = &traffic->flows[i];
        uint64_t *to = flow->written ? &moved->written : &moved->read;
        if (i == 0 || flow->array != traffic->flows[i - 1].array) largest = 0;
        if (near && flow->again == LS_FLOW_FAR) continue;
        if (left_out && left_out(of, flow->array)) continue;
        uint64_t bytes = flow_bytes(flow, value, of);
        if (near && flow->again == LS_FLOW_LARGEST) {
            const uint64_t before = largest;
            if (bytes > largest) largest = bytes;
            bytes = largest - before;
        }
        if (flow->again != LS_FLOW_ONCE && __builtin_mul_overflow(bytes, iterations, &bytes))
            bytes = UINT64_MAX;
        *to = sum(*to, bytes);
    }
    if (moved->read < UINT64_MAX && moved->written < UINT64_MAX) return 1;
    *moved = (ls_image_moved){0, 0};
    return 0;
}

/* Adds room for `bytes`, at least one byte, and gives its offset; false: too much. */
static bool add_slot(uint64_t *total, uint64_t bytes, uint64_t *offset) {
    *offset = *total;
    if (bytes > INT64_MAX - SLOT_STEP) return false;
    bytes = bytes ? (bytes + SLOT_STEP - 1) / SLOT_STEP * SLOT_STEP : SLOT_STEP;
    if (bytes > INT64_MAX - *total) return false;
    *total += bytes;
    return true;
}

uint64_t ls_image_place(const ls_image_variant *variant, const uint64_t *bytes, uint64_t *offsets,
                        uint64_t *cleared) {
    const ls_image_temporary *rows = variant->temporaries;
    const uint32_t count = variant->temporary_count;
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].zeroed && !add_slot(&total, bytes[i], &offsets[i])) return UINT64_MAX;
    *cleared = total;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = 0;
        if (rows[i].zeroed) continue;
        while (first < i &&
               (!rows[i].share || rows[first].zeroed || rows[first].share != rows[i].share))
            first++;
        if (first < i) { /* the first of those that share has made room for all */
            offsets[i] = offsets[first];
            continue;
        }
        uint64_t max = bytes[i];
        for (uint32_t k = i + 1; rows[i].share && k < count; k++)
            if (!rows[k].zeroed && rows[k].share == rows[i].share && bytes[k] > max) max = bytes[k];
        if (!add_slot(&total, max, &offsets[i])) return UINT64_MAX;
    }
    return total;
}

uint64_t ls_image_blocks(const ls_image_kernel *kernel, uint64_t items, uint64_t tiles,
                         uint64_t multiprocessors, uint32_t *threads) {
    uint64_t per_block = kernel->items_per_block, resident = kernel->blocks_per_multiprocessor;
    const uint64_t groups = kernel->threads / 32;
    *threads = kernel->threads;
    if (tiles > 1 || per_block == 0) per_block = 1;
    if (tiles > 1 && tiles < groups) {
        resident *= groups / tiles;
        *threads = (uint32_t)(32 * tiles);
    }
    if (resident > BLOCKS_PER_MULTIPROCESSOR) resident = BLOCKS_PER_MULTIPROCESSOR;
    uint64_t max = kernel->one_block ? 1 : resident * multiprocessors;
    if (max > INT32_MAX) max = INT32_MAX;
    uint64_t blocks = items / per_block + (items % per_block != 0);
    if (blocks > max) blocks = max;
    return blocks ? blocks : 1;
}

uint64_t ls_image_workers(const ls_image_kernel *kernel, uint64_t items, uint64_t tiles,
                          uint64_t threads) {
    uint64_t elements, workers = threads;
    if (__builtin_mul_overflow(items, tiles, &elements) ||
        __builtin_mul_overflow(elements, kernel->item_cost, &elements))
        elements = UINT64_MAX;
    if (workers > elements / ELEMENTS_PER_WORKER) workers = elements / ELEMENTS_PER_WORKER;
    if (workers > items) workers = items;
    return workers ? workers : 1;
}
