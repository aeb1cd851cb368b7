/* prefetch.c: software prefetching of a CPU thread's rows.
 *
 * The rows of a row fusion, or of row panels, come from memory in the first phase that reads an
 * array and are in cache for the later ones. The first one prefetches the next tile; the last one
 * prefetches the rows that the thread takes next, while it computes. Long rows would not all stay
 * in cache, and short arrays are in cache anyhow: neither is prefetched; nor are short rows of
 * panels, whose neighbours the processor fetches by itself. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { FAR = 256 << 10, TILE = 1024, LONG = 256 /* rows of panels */ };

/* Whether the phase reads the array along rows that lie one behind the other. */
static bool reads_rows(const RowPrefetch *r, uint32_t phase, uint32_t array) {
    const Phase *own = &r->plan->phases[r->phase], *other = &r->plan->phases[phase];
    return other->shape == SHAPE_ROWS && other->inner == own->inner &&
           r->plan->arrays[array].axes == (own->outer | own->inner) &&
           !r->plan->arrays[array].in_scratch && plan_value_reads(r->plan, other, array);
}

/* From row to row of the array: as many elements as a row has, or where rows have gaps the array's
 * stride, if they are those of one axis. False: rows are not so. */
static bool find_pitch(const RowPrefetch *r, uint32_t array, Index *pitch) {
    const Phase *own = &r->plan->phases[r->phase];
    const uint32_t parameter = r->plan->arrays[array].parameter;
    const SymbolId *strides = r->plain->strides;
    *pitch = r->max;
    if (!strides || parameter == UINT32_MAX) return true;
    if (__builtin_popcount(own->outer) != 1 || __builtin_popcount(own->inner) != 1) return false;
    const SymbolId stride = strides[parameter * LS_AXES_MAX + (uint32_t)__builtin_ctz(own->outer)];
    if (stride) *pitch = index_symbol(r->plain->nest->arena, stride);
    return stride != 0;
}

/* Whether the rows are those of row panels. */
static bool of_panels(const RowPrefetch *r) {
    return r->row_fusion->kind == KERNEL_ROW_PANELS;
}

/* Whether the phase is the first of the row fusion, or with `last` the last one, to read the array,
 * and not the only one; of row panels also the only one: what goes down columns reads it again. */
static bool is_wanted(const RowPrefetch *r, uint32_t array, bool last) {
    bool before = false, after = false;
    Index pitch;
    if (!r->plain->arrays[array] || !reads_rows(r, r->phase, array)) return false;
    if (!find_pitch(r, array, &pitch)) return false;
    for (uint32_t p = r->row_fusion->first; p < r->row_fusion->first + plan_mains(r->row_fusion);
         p++) {
        before |= p < r->phase && reads_rows(r, p, array);
        after |= p > r->phase && reads_rows(r, p, array);
    }
    return last ? !after && (before || of_panels(r)) : !before;
}

bool schedule_has_prefetch(const RowPrefetch *r, bool last) {
    const Function *f = r->plan->function;
    const AxisSet axes = r->plan->phases[r->phase].outer | r->plan->phases[r->phase].inner;
    bool any = false;
    if (!r->row_fusion) return false;
    for (uint32_t axis = 0; axis < f->axis_count; axis++)
        if (plain_is_rest_of(f, axes, axis)) return false;
    for (uint32_t i = 0; i < r->plan->array_count; i++) any |= is_wanted(r, i, last);
    return any;
}

static NestNode *prefetches(const RowPrefetch *r, bool last, Index row, Index begin, Index count) {
    Nest *nest = r->plain->nest;
    NestNode *first = NULL, **end = &first;
    Index pitch;
    for (uint32_t i = 0; i < r->plan->array_count; i++) {
        if (!is_wanted(r, i, last) || !find_pitch(r, i, &pitch)) continue;
        const Index at = make_add(nest, make_times(nest, row, pitch), begin);
        nest_add(nest, &end,
                 (NestNode){.kind = NEST_PREFETCH,
                            .array = r->plain->arrays[i],
                            .at = nest_subscript(nest, at),
                            .at_count = 1,
                            .extent = count,
                            .hint = last ? HINT_L2 : HINT_L1});
    }
    return first;
}

NestNode *schedule_prefetch(const RowPrefetch *r, bool last, Index row, Index begin, Index count) {
    Nest *nest = r->plain->nest;
    Arena *arena = nest->arena;
    const Index all = index_multiply(arena, r->rows, r->max);
    const Index far = index_subtract(arena, all, index_number(arena, FAR - 1));
    if (!schedule_has_prefetch(r, last)) return NULL;
    const Index longer = index_subtract(arena, r->max, index_number(arena, LONG - 1));
    if (!last) {
        const Index next = index_add(arena, begin, index_number(arena, TILE));
        NestNode *asks = prefetches(r, last, row, next, count);
        if (of_panels(r)) asks = nest_only_where(nest, longer, asks);
        return nest_only_where(nest, far, asks);
    }
    Function *f = nest->values;
    if (!r->plain->given) r->plain->given = nest_size(nest, "given");
    const ValueId value = ir_op(f, OP_FLOORDIV, nest_name(nest, r->plain->given),
                                nest_index_value(nest, r->groups), 0);
    SymbolId turn = 0;
    for (size_t i = 0; i < nest->derived_count; i++)
        if (nest->derived[i].value == value) turn = nest->derived[i].symbol;
    if (!turn) turn = nest_derived(nest, "turn", value);
    const Index ahead = index_add(arena, row, index_symbol(arena, turn));
    NestNode *asks = prefetches(r, last, ahead, begin, count);
    asks = nest_only_where(nest, index_subtract(arena, r->rows, ahead), asks);
    asks = nest_only_where(
        nest, index_subtract(arena, index_number(arena, r->scratch_row + 1), r->max), asks);
    if (of_panels(r)) asks = nest_only_where(nest, longer, asks);
    return nest_only_where(nest, far, asks);
}
