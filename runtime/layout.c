/* layout.c: what shapes and strides mean in memory.
 *
 * Sharing of bytes is decided from below: axes are peeled off as long as they tile memory without
 * gaps, and what is left is compared by extent and modulo the strides' common divisor. That accepts
 * the cases that occur (views, columns, slices of a packed buffer) and refuses some exotic ones
 * that are in fact disjoint, never the other way round. */
#include "runtime.h"

#include <string.h>

bool layout_empty(const Layout *layout) {
    for (uint32_t i = 0; i < layout->rank; i++)
        if (layout->shape[i] == 0) return true;
    return false;
}

static uint64_t magnitude(int64_t x) {
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

bool layout_in_range(const Layout *layout) {
    uint64_t limit = INT64_MAX / layout->element, count = 1, reach = 1;
    if (layout_empty(layout)) return true;
    for (uint32_t i = 0; i < layout->rank; i++) {
        uint64_t length = (uint64_t)layout->shape[i], stride = magnitude(layout->strides[i]);
        if (length > limit / count) return false;
        count *= length;
        if (length == 1) continue;
        if (stride > limit / (length - 1)) return false;
        if (stride * (length - 1) > limit - reach) return false;
        reach += stride * (length - 1);
    }
    return true;
}

void layout_contiguous(uint32_t rank, const int64_t *shape, int64_t *strides) {
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        strides[i] = stride;
        stride *= shape[i] > 1 ? shape[i] : 1;
    }
}

bool layout_is_contiguous(const Layout *layout) {
    if (layout_empty(layout)) return true;
    int64_t stride = 1;
    for (uint32_t i = layout->rank; i-- > 0;) {
        if (layout->shape[i] == 1) continue;
        if (layout->strides[i] != stride) return false;
        stride *= layout->shape[i];
    }
    return true;
}

bool layout_dense(const Layout *layout) {
    if (layout_empty(layout)) return true;
    return layout_is_contiguous(layout) && (uintptr_t)layout->data % 16 == 0;
}

/* An array as runs of `run` bytes, the axes left over sorted by stride in bytes, from the lowest
 * byte. */
typedef struct Runs {
    uintptr_t first, end; /* all bytes lie in [first, end) */
    uint64_t run;
    uint32_t rank;
    uint64_t length[LS_RANK_MAX], stride[LS_RANK_MAX];
} Runs;

static void normalise(const Layout *layout, Runs *runs) {
    *runs = (Runs){(uintptr_t)layout->data, 0, layout->element, 0, {0}, {0}};
    uint64_t reach = layout->element;
    for (uint32_t i = 0; i < layout->rank; i++) {
        uint64_t length = (uint64_t)layout->shape[i];
        uint64_t stride = magnitude(layout->strides[i]) * layout->element;
        if (length == 1) continue;
        if (layout->strides[i] < 0) runs->first -= (uintptr_t)(stride * (length - 1));
        reach += stride * (length - 1);
        uint32_t at = runs->rank++;
        for (; at > 0 && runs->stride[at - 1] > stride; at--) {
            runs->stride[at] = runs->stride[at - 1];
            runs->length[at] = runs->length[at - 1];
        }
        runs->stride[at] = stride;
        runs->length[at] = length;
    }
    runs->end = runs->first + (uintptr_t)reach;
    uint32_t peeled = 0;
    while (peeled < runs->rank && runs->stride[peeled] == runs->run)
        runs->run *= runs->length[peeled++];
    runs->rank -= peeled;
    memmove(runs->stride, runs->stride + peeled, runs->rank * sizeof runs->stride[0]);
    memmove(runs->length, runs->length + peeled, runs->rank * sizeof runs->length[0]);
}

void layout_range(const Layout *layout, uintptr_t *first, uintptr_t *end) {
    Runs runs;
    normalise(layout, &runs);
    *first = runs.first;
    *end = runs.end;
}

bool layout_distinct(const Layout *layout) {
    if (layout_empty(layout)) return true;
    Runs runs;
    normalise(layout, &runs);
    uint64_t covered = runs.run;
    for (uint32_t i = 0; i < runs.rank; i++) {
        if (runs.stride[i] < covered) return false;
        covered += runs.stride[i] * (runs.length[i] - 1);
    }
    return true;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool layout_disjoint(const Layout *a, const Layout *b) {
    if (layout_empty(a) || layout_empty(b)) return true;
    Runs x, y;
    normalise(a, &x);
    normalise(b, &y);
    if (x.end <= y.first || y.end <= x.first) return true;
    uint64_t divisor = 0;
    for (uint32_t i = 0; i < x.rank; i++) divisor = common_divisor(divisor, x.stride[i]);
    for (uint32_t i = 0; i < y.rank; i++) divisor = common_divisor(divisor, y.stride[i]);
    if (divisor == 0) return false;
    /* Every run of x starts at x.first and every run of y at `apart` further, modulo the divisor.
     */
    uint64_t apart = x.first <= y.first ? (y.first - x.first) % divisor
                                        : (divisor - (x.first - y.first) % divisor) % divisor;
    return apart >= x.run && apart <= divisor && y.run <= divisor - apart;
}
