/* alias.c: which temporaries of a variant share memory.
 *
 * A temporary is live from the first phase that touches it to the last, in the order of the
 * variant's grouping: its kernels one after another, and within one of them the phases between
 * which there is a barrier of the grid, or which the last block runs on its own. Phases of a row
 * fusion, and a kernel's pre-reductions, run at overlapping times. Temporaries that are never live
 * at once share one slot, whose size is that of the largest. Sizes are known when arrays are bound;
 * here axes are taken to be equally long, temporaries are taken from the largest to the smallest,
 * and each goes to the slot of the largest one that it does not conflict with.
 *
 * Counters keep the value 0 from one launch to the next, so they share no slot. Needs the emitted
 * text of all phases, which says what each touches. */
#include <stdlib.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

enum { LENGTH = 1024, PARTS = 512 }; /* of an axis, and blocks of a launch: to compare by */

/* The time in which a phase runs, or a temporary is live. */
typedef struct Span {
    uint32_t first, last;
} Span;

typedef struct Share {
    Field *field;
    Span span;
    double bytes;
    size_t number; /* of the field: equals are taken in their order */
} Share;

static void widen(Span *span, Span by) {
    if (by.first < span->first) span->first = by.first;
    if (by.last > span->last) span->last = by.last;
}

/* By phase: one that runs in two kernels takes the time of both. */
static Span *phase_spans(Emitter *e, const Grouping *grouping) {
    const size_t count = e->plan->phase_count;
    Span *spans = arena_alloc(e->arena, (count + 1) * sizeof *spans);
    uint32_t now = 0;
    for (size_t i = 0; i < count; i++) spans[i] = (Span){UINT32_MAX, 0};
    for (size_t k = 0; k < grouping->count; k++, now++) {
        const Kernel *kernel = &grouping->kernels[k];
        const uint32_t end = kernel->first + kernel->count;
        for (uint32_t i = kernel->first - kernel->pre_reductions; i < end; i++) {
            const bool waits = i > kernel->first && kernel->kind == KERNEL_ALL;
            if (waits || i >= end - kernel->last_block) now++;
            widen(&spans[i], (Span){now, now});
        }
    }
    return spans;
}

static double estimate(const Emitter *e, const ls_image_temporary *row) {
    double bytes = (double)row->bytes.scale;
    for (uint32_t i = 0; i < row->bytes.factor_count; i++) {
        const ls_image_factor *factor = &row->bytes.factor[i];
        double parts = 1;
        for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
            if (factor->axes >> axis & 1)
                parts *= e->f->axes[axis].fixed >= 0 ? (double)e->f->axes[axis].fixed : LENGTH;
        parts /= factor->divide ? (double)factor->divide : 1;
        bytes *= parts < factor->minimum ? factor->minimum : parts;
    }
    if (row->bytes.list) bytes *= LENGTH;
    return row->per_block ? bytes * PARTS : bytes;
}

static int compare(const void *left, const void *right) {
    const Share *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool meet(Span a, Span b) {
    return a.first <= b.last && b.first <= a.last;
}

/* The first place that nobody needs at the same time. */
static uint32_t place(const Share *partitions, size_t count, const Share *own) {
    for (uint32_t number = 1;; number++) {
        bool free = true;
        for (size_t i = 0; i < count && free; i++)
            free = partitions[i].field->temporary.share != number ||
                   !meet(partitions[i].span, own->span);
        if (free) return number;
    }
}

void emit_alias_temporaries(Emitter *e, const Grouping *grouping, const PhaseText *phases) {
    const Span *spans = phase_spans(e, grouping);
    const size_t parameters = e->f->parameter_count, arrays = e->plan->array_count;
    Share *partitions = arena_alloc(e->arena, (e->field_count + 1) * sizeof *partitions);
    size_t count = 0;
    for (size_t i = 0; i < e->field_count; i++) {
        Share own = {&e->fields[i], {UINT32_MAX, 0}, estimate(e, &e->fields[i].temporary), i};
        for (size_t p = 0; p < e->plan->phase_count; p++) {
            const bool carries = i < arrays - parameters;
            if (carries ? e->touched[p * arrays + parameters + i]
                        : i - phases[p].fields < phases[p].field_count)
                widen(&own.span, spans[p]);
        }
        if (!own.field->temporary.zeroed && own.span.first <= own.span.last)
            partitions[count++] = own;
    }
    if (count > 1) qsort(partitions, count, sizeof *partitions, compare);
    for (size_t i = 0; i < count; i++)
        partitions[i].field->temporary.share = place(partitions, i, &partitions[i]);
}
