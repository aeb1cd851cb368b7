/* partition.c: a list of tensors cut into runs of nearly the same bytes.
 *
 * The best cuts are at the multiples of all bytes by the number of runs; each is moved to the
 * nearest place where a tensor may be cut, so the order of the cuts stays and each run is off by at
 * most one such distance on either side. */
#include "runtime.h"
#include "comm/comm.h"

#include <string.h>

enum { TILE = 1024 };

static ls_status refuse(const char *message) {
    return error_set(NULL, LS_ERROR_ARGUMENT, "ls_partition: %s", message);
}

static bool count_elements(const ls_tensor *tensor, int64_t *count) {
    int64_t product = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] == 0) product = 0;
    for (uint32_t i = 0; i < tensor->rank && product; i++)
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(product, tensor->shape[i], &product))
            return false;
    int64_t bytes;
    *count = product;
    return !__builtin_mul_overflow(product, (int64_t)ls_type_size(tensor->type), &bytes);
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Elements from one place where the tensor may be cut to the next; its end is one, too. */
static int64_t distance(int64_t unit, int64_t elements) {
    int64_t common;
    if (unit == 0 || __builtin_mul_overflow(unit / common_divisor(unit, TILE), TILE, &common))
        return elements;
    return common < elements ? common : elements;
}

/* The nearest such place to a byte of the tensor; of two the first. */
static int64_t nearest(int64_t elements, int64_t step, uint64_t size, uint64_t byte) {
    const int64_t below = (int64_t)(byte / size) / step * step;
    const int64_t above = below > elements - step ? elements : below + step;
    return (uint64_t)above * size - byte < byte - (uint64_t)below * size ? above : below;
}

static ls_status check(const ls_tensor *tensors, size_t count, const int64_t *units, int runs,
                       const ls_cut *cuts, uint64_t *bytes) {
    *bytes = 0;
    if (runs < 1) return refuse("a list is cut into 1 run or more");
    if (!cuts) return refuse("cuts is NULL");
    if (count && !tensors) return refuse("tensors is NULL");
    for (size_t i = 0; i < count; i++) {
        int64_t elements;
        if (!ls_type_size(tensors[i].type) || (tensors[i].rank && !tensors[i].shape))
            return refuse("a tensor has no type or no shape");
        if (!count_elements(&tensors[i], &elements))
            return refuse("a tensor's shape is that of no memory");
        if (units && units[i] < 0) return refuse("a unit is below 0");
        *bytes += (uint64_t)elements * ls_type_size(tensors[i].type);
        if (*bytes > INT64_MAX) return refuse("the list is larger than any memory");
    }
    return LS_OK;
}

ls_status ls_partition(const ls_tensor *tensors, size_t count, const int64_t *units, int runs,
                       ls_cut *cuts) {
    uint64_t all, before = 0; /* before: the bytes ahead of the tensor */
    ls_status status = check(tensors, count, units, runs, cuts, &all);
    if (status != LS_OK) return status;
    size_t tensor = 0;
    cuts[0] = (ls_cut){0, 0};
    for (int run = 1; run < runs; run++) {
        const uint64_t number = (uint64_t)run, of = (uint64_t)runs;
        const uint64_t target = all / of * number + all % of * number / of;
        int64_t elements = 0;
        uint64_t size = 1;
        for (; tensor < count; tensor++) {
            size = ls_type_size(tensors[tensor].type);
            count_elements(&tensors[tensor], &elements);
            if (before + (uint64_t)elements * size > target) break;
            before += (uint64_t)elements * size;
        }
        cuts[run] = (ls_cut){tensor, 0};
        if (tensor == count) continue;
        const int64_t step = distance(units ? units[tensor] : TILE, elements);
        cuts[run].element = nearest(elements, step, size, target - before);
        if (cuts[run].element == elements) cuts[run] = (ls_cut){tensor + 1, 0};
    }
    cuts[runs] = (ls_cut){count, 0};
    return LS_OK;
}

size_t ls_partition_run(const ls_tensor *tensors, size_t count, const ls_cut *cuts, int run,
                        ls_partition_piece *pieces) {
    size_t made = 0;
    if (!tensors || !cuts || run < 0) return 0;
    const ls_cut from = cuts[run], to = cuts[run + 1];
    for (size_t i = from.tensor; i < count && i <= to.tensor; i++) {
        int64_t elements, first = i == from.tensor ? from.element : 0;
        count_elements(&tensors[i], &elements);
        const int64_t last = i == to.tensor ? to.element : elements;
        if (i == to.tensor && last <= first) break;
        if (pieces)
            pieces[made] = (ls_partition_piece){.tensor = i, .first = first, .count = last - first};
        made++;
    }
    return made;
}
