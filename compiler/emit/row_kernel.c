/* row_kernel.c: kernels that keep their rows in registers: printed whole from a nest, in variants
 * for rows up to a length. A row is a warp's or a block's: see RowClass. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

/* One phase's rows may as well be a grid's, which is better where they are few. */
enum { ROWS_MIN = 256 };

const PlainNest *const *emit_row_nests(Emitter *e, const Grouping *grouping, const RowClass *rows) {
    const PlainNest **nests = arena_alloc(e->arena, (grouping->count + 1) * sizeof *nests);
    bool any = false;
    if (!rows) return nests;
    e->list = -1;
    for (size_t k = 0; k < grouping->count; k++) {
        const char *problem;
        nests[k] =
            schedule_kernel(e->plan, &grouping->kernels[k], e->target, rows, e->arena, &problem);
        if (nests[k]) nest_check(nests[k]->nest);
        any |= nests[k] != NULL;
    }
    return any ? nests : NULL;
}

size_t emit_row_conditions(Emitter *e, const Grouping *grouping, const PlainNest *const *nests,
                           const RowClass *rows, ls_image_condition *conditions) {
    size_t count = 0;
    for (size_t k = 0; rows && k < grouping->count; k++) {
        const Kernel *kernel = &grouping->kernels[k];
        if (!nests[k]) continue;
        for (uint32_t p = kernel->first; p < kernel->first + plan_mains(kernel); p++)
            conditions[count++] =
                (ls_image_condition){.extent = plan_extent(e->f, 1, e->plan->phases[p].inner),
                                     .at_most = target_row_max(rows),
                                     .required = 1};
        if (plan_mains(kernel) == 1)
            conditions[count++] = (ls_image_condition){
                .extent = plan_extent(e->f, 1, e->plan->phases[kernel->first].outer),
                .at_least = ROWS_MIN,
                .at_most = UINT64_MAX};
    }
    return count;
}

/* The tiles of the longest rows. */
static ls_image_extent tiles_of(Emitter *e, const Kernel *kernel) {
    ls_image_extent tiles = {0};
    for (uint32_t p = kernel->first; p < kernel->first + plan_mains(kernel); p++) {
        const AxisSet inner = plan_extent_axes(e->f, e->plan->phases[p].inner);
        bool known = false;
        for (uint32_t i = 0; i < tiles.factor_count; i++) known |= tiles.factor[i].axes == inner;
        if (known) continue;
        if (tiles.factor_count) return (ls_image_extent){0}; /* several: as many as there may be */
        tiles = plan_extent(e->f, 1, inner);
        tiles.factor[0].minimum = 1;
        tiles.factor[0].divide = 1024;
    }
    return tiles;
}

ls_image_kernel emit_row_kernel(Emitter *e, Text *phases, Text *kernels, const Kernel *kernel,
                                const PlainNest *nest, const RowClass *rows, const char *suffix,
                                const PhaseText *made) {
    const uint32_t last = kernel->first + plan_mains(kernel);
    const char *label = arena_printf(e->arena, "%srows_%u", e->prefix, kernel->first + 1);
    const char *name = arena_printf(e->arena, "lockstep_%s%s", e->label, suffix);
    const AxisSet outer = e->plan->phases[kernel->first].outer;
    Text comment = text_open(e->arena);
    text_printf(&comment, "/* Phases %u to %u on rows of at most %llu elements, %s. */",
                kernel->first + 1, last, (unsigned long long)target_row_max(rows),
                rows->rows ? "a warp each" : "a block each");
    e->number = kernel->first + 1;
    e->phase = &e->plan->phases[kernel->first];
    e->list = -1;
    e->eights |= nest->nest->width == 8;
    emit_nest(e, nest, kernel, label, comment.data, phases);
    for (uint32_t p = kernel->first; p < last; p++) /* memory of the kernel lives through it */
        for (size_t i = 0; i < e->plan->array_count; i++)
            e->touched[p * e->plan->array_count + i] |=
                e->touched[kernel->first * e->plan->array_count + i];
    Text calls = text_open(e->arena);
    text_puts(&calls, emit_pre_reductions(e, kernel, made, true));
    text_printf(&calls, "LS_RUN_BLOCKS(%s)\n", label);
    if (kernel->last_block) emit_call_last_block(e, &calls, kernel, made);
    e->many = 32 * rows->warps > e->target->threads;
    emit_entry(e, kernels, name, 32 * rows->warps, false, "");
    e->many = false;
    text_printf(kernels, "%s}\n", calls.data);
    ls_image_extent items = plan_extent(e->f, 1, outer);
    if (rows->rows) items.factor[0].minimum = 1;
    if (rows->rows) items.factor[0].divide = rows->warps;
    return (ls_image_kernel){
        .name = name,
        .items = items,
        .items_per_block = 1,
        .threads = 32 * rows->warps,
        .blocks_per_multiprocessor =
            e->target->blocks_per_multiprocessor * e->target->threads / (32 * rows->warps),
        .item_cost = 1024,
        .tiles = rows->rows ? (ls_image_extent){0} : tiles_of(e, kernel),
    };
}
