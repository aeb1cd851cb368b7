/* variants.c: which variants an image has, and in which order: those of a `for` whose lanes run all
 * iterations; for each layout of the arrays those whose blocks do, then one for each grouping of
 * the phases into kernels, ahead of it those for classes of row lengths. The first that suits is
 * taken. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* Whether there is a variant for the layout and the plan's grouping of that number. Rows of arrays
 * that are not contiguous are for CPUs, which then need one variant alone for any strides; on GPUs
 * what has strides is rarely as large as what row panels are for. */
static bool has_variant(const Plan *plan, const Target *target, ls_image_layout layout,
                        size_t grouping) {
    if (layout == LS_LAYOUT_DENSE) return true;
    if (target->gpu) return layout == LS_LAYOUT_STRIDED && !plan->groupings[grouping].panels;
    return layout == LS_LAYOUT_PITCHED || grouping + 1 == plan->grouping_count;
}

/* Adds the variant for the layout whose lanes run all iterations of their elements, on a GPU. */
static bool add_lanes(Emitter *e, ls_image_variant *variants, uint32_t *count,
                      ls_image_layout layout, const char **problem) {
    const Grouping grouping = {.kernels = e->plan->kernels, .count = 1};
    if (!e->target->gpu || layout == LS_LAYOUT_PITCHED || !emit_is_elementwise(e->plan))
        return true;
    e->lanes = true;
    const bool good = emit_variant(e, variants, &variants[*count], layout, grouping, NULL, problem);
    e->lanes = false;
    *count += good && variants[*count].name;
    return good;
}

/* Adds the variant for the layout that keeps states in shared memory, by strips or not. */
static bool add_promoted(Emitter *e, ls_image_variant *variants, uint32_t *count,
                         ls_image_layout layout, bool strips, const char **problem) {
    ls_image_variant *next = &variants[*count];
    if (!e->target->promoted_bytes || layout == LS_LAYOUT_PITCHED) return true;
    e->promotes = true;
    e->strips = strips;
    const bool good = emit_variant(e, variants, next, layout, e->plan->groupings[0], NULL, problem);
    e->promotes = e->strips = false;
    if (good && next->name) ++*count;
    return good;
}

/* Adds the variants of strips for the layout, where the plan has them. */
static bool add_strips(Emitter *e, ls_image_variant *variants, uint32_t *count,
                       ls_image_layout layout, const char **problem) {
    ls_image_variant *next = &variants[*count];
    if (e->target->gpu && layout == LS_LAYOUT_PITCHED) return true;
    e->strips = true;
    const bool good = emit_variant(e, variants, next, layout, e->plan->groupings[0], NULL, problem);
    e->strips = false;
    if (good && next->name) ++*count;
    return good;
}

/* The variants of row panels, one for each number of lanes that a panel may have. On a GPU none
 * where its rows have no team, or functions have no memory of the block. */
static bool add_panels(Emitter *e, ls_image_variant *variants, uint32_t *count,
                       ls_image_layout layout, const Grouping *grouping, const char **problem) {
    const Target *target = e->target;
    if (target->gpu && (target->by_address || !emit_has_teams(e, grouping))) return true;
    for (int n = 0; n < 2 && target->panel_lanes[n]; n++) {
        e->panel_lanes = target->panel_lanes[n];
        if (!emit_variant(e, variants, &variants[*count], layout, *grouping, NULL, problem))
            return false;
        if (variants[*count].name) ++*count;
    }
    return true;
}

ls_image_variant *emit_variants(Emitter *e, ls_image_layout last, uint32_t *count,
                                const char **problem) {
    const Plan *plan = e->plan;
    const Function *f = plan->function;
    const Target *target = e->target;
    ls_image_variant *variants =
        arena_alloc(e->arena, ((3 + ROW_CLASSES) * GROUPINGS_MAX + 10) * sizeof *variants);
    /* Where a strip's arrays are contiguous none for any strides is wanted ahead of those that are
     * not of strips. */
    const bool strips = f->iteration && f->iteration->strip >= 0;
    const bool apart = strips && !strips_are_contiguous(f, (uint32_t)f->iteration->strip);
    *count = 0;
    for (ls_image_layout layout = LS_LAYOUT_DENSE; layout <= last; layout++)
        if (!add_lanes(e, variants, count, layout, problem)) return NULL;
    for (ls_image_layout layout = LS_LAYOUT_PITCHED; apart && layout <= last; layout++)
        if (!add_promoted(e, variants, count, layout, true, problem) ||
            !add_strips(e, variants, count, layout, problem))
            return NULL;
    for (ls_image_layout layout = LS_LAYOUT_DENSE; layout <= last; layout++) {
        if (strips && !apart &&
            (!add_promoted(e, variants, count, layout, true, problem) ||
             !add_strips(e, variants, count, layout, problem)))
            return NULL;
        if (f->iteration && layout == LS_LAYOUT_DENSE &&
            !add_promoted(e, variants, count, layout, false, problem))
            return NULL;
        for (size_t i = 0; i < plan->grouping_count; i++) {
            const Grouping *grouping = &plan->groupings[i];
            const bool dense = layout == LS_LAYOUT_DENSE;
            if (!has_variant(plan, target, layout, i)) continue;
            if (grouping->panels) {
                if (!add_panels(e, variants, count, layout, grouping, problem)) return NULL;
                continue;
            }
            for (size_t r = 0; r <= ROW_CLASSES; r++) {
                const RowClass *rows = r < ROW_CLASSES ? &target->row_classes[r] : NULL;
                const bool has = !grouping->few && grouping->kernels[0].kind != KERNEL_ALL;
                if (rows && (!dense || !has || !rows->warps)) continue;
                if (!emit_variant(e, variants, &variants[*count], layout, *grouping, rows, problem))
                    return NULL;
                if (variants[*count].name) ++*count;
            }
        }
    }
    return variants;
}
