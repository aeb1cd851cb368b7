/* sequence.c: the image of a step with `for`: its axes and parameters, what its parts hand on to
 * each other as temporaries, and which views of all that each part has. Its variants have no
 * kernels. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

static const ls_image_temporary *carried_rows(const Sequence *s) {
    const Function *f = s->step;
    ls_image_temporary *rows = arena_alloc(f->arena, (s->carried_count + 1) * sizeof *rows);
    for (size_t i = 0; i < s->carried_count; i++) {
        const Parameter *array = &s->carried[i];
        rows[i] = (ls_image_temporary){
            .name = array->name,
            .bytes = plan_extent(f, type_info[array->type].size, array->axes),
            .pointers = ir_list_axis(f, array->axes) >= 0,
        };
    }
    return rows;
}

static const ls_image_part *part_rows(const Sequence *s, const ls_image *const *parts) {
    Arena *arena = s->step->arena;
    ls_image_part *rows = arena_alloc(arena, (s->part_count + 1) * sizeof *rows);
    for (size_t i = 0; i < s->part_count; i++) {
        const uint32_t count = parts[i]->parameter_count;
        ls_image_view *views = arena_alloc(arena, (count + 1) * sizeof *views);
        for (uint32_t v = 0; v < count; v++)
            views[v] = (ls_image_view){s->parts[i].views[v].array, s->parts[i].views[v].fixed};
        rows[i] = (ls_image_part){parts[i], views, s->parts[i].loop, s->parts[i].empty};
    }
    return rows;
}

const ls_image *emit_sequence(const Sequence *s, const ls_image *const *parts,
                              const char *target_name, ls_image_layout last) {
    static const char *const names[] = {"parts, contiguous arrays", "parts, contiguous rows",
                                        "parts, any strides"};
    Arena *arena = s->step->arena;
    ls_image *image = emit_head(s->step, target_name);
    const bool gpu = target_for(target_name)->gpu;
    uint32_t count = 0;
    ls_image_variant *variants = arena_alloc(arena, ((size_t)last + 1) * sizeof *variants);
    ls_image_loop *loops = arena_alloc(arena, (s->loop_count + 1) * sizeof *loops);
    const ls_image_temporary *carried = carried_rows(s);
    for (ls_image_layout layout = LS_LAYOUT_DENSE; layout <= last; layout++)
        if (!gpu || layout != LS_LAYOUT_PITCHED)
            variants[count++] = (ls_image_variant){.name = names[layout],
                                                   .layout = layout,
                                                   .work_limit = UINT64_MAX,
                                                   .temporary_count = (uint32_t)s->carried_count,
                                                   .temporaries = carried};
    for (size_t i = 0; i < s->loop_count; i++)
        loops[i] = (ls_image_loop){.axis = s->loops[i].axis,
                                   .place = s->place[s->loops[i].axis],
                                   .reverse = s->loops[i].reverse,
                                   .outer = s->loops[i].outer};
    for (size_t i = 0; i < s->part_count; i++) image->draws |= parts[i]->draws;
    image->variant_count = count;
    image->variants = variants;
    image->part_count = (uint32_t)s->part_count;
    image->parts = part_rows(s, parts);
    image->loop_count = (uint32_t)s->loop_count;
    image->loops = loops;
    return image;
}
