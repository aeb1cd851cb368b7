/* phase.c: one phase, or a portion of one, as a function of the argument structure, printed from a
 * nest. axes.c finds the loops over its axes, items.c its items. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

static const char *const portion_names[] = {"", "_panel", "_finish"};

static void list_names(Text *text, const char *before, const Group *groups, size_t count) {
    for (size_t i = 0; i < count; i++) text_printf(text, "%s%s", i ? ", " : before, groups[i].name);
}

static const char *comment_text(Emitter *e) {
    static const struct {
        const char *alone, *after;
    } words[SHAPE_COUNT] = {[SHAPE_MAP] = {"Each of ", ", each of "},
                            [SHAPE_ROWS] = {"Over ", " over "},
                            [SHAPE_COLUMNS] = {"Over ", " over "},
                            [SHAPE_SCAN] = {"Along ", ", along "}};
    Text text = text_open(e->arena);
    text_puts(&text, "/* ");
    const size_t empty = text.size;
    if (e->phase->shape == SHAPE_SCALAR) text_puts(&text, "Values on their own");
    list_names(&text, "For each of ", &e->tensor, e->list >= 0);
    list_names(&text, text.size > empty ? ", " : "For each of ", e->outer, e->outer_count);
    list_names(&text,
               text.size > empty ? words[e->phase->shape].after : words[e->phase->shape].alone,
               e->inner, e->inner_count);
    if (e->phase->reduction_count) {
        text_puts(&text, ":");
        for (size_t i = 0; i < e->phase->reduction_count; i++) {
            const Value *value = &e->f->values[e->phase->reductions[i]];
            text_printf(&text, "%s %s%s%s", i ? "," : "", plan_reduction(value),
                        value->name ? " " : "", value->name ? value->name : "");
        }
    }
    text_puts(&text, ". */");
    return text.data;
}

static bool has_stores(const Emitter *e, Level level) {
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].level == level) return true;
    return false;
}

static void open_phase(Emitter *e, uint32_t number, Portion portion) {
    e->phase = &e->plan->phases[number];
    e->number = number + 1;
    e->portion = portion;
    names_begin(e);
    for (size_t axis = 0; axis < e->f->axis_count; axis++) names_made(e, e->size_name[axis]);
    emit_open_axes(e);
}

/* The nest that the phase is printed from. */
static PlainNest *find_nest(Emitter *e, Arena *arena) {
    const char *problem;
    const PhaseNumbers numbers = {.layout = e->layout,
                                  .over_time = e->lanes,
                                  .finished = emit_is_followed(e) && e->portion != PORTION_PANEL,
                                  .row_fusion = e->fused,
                                  .portion = e->portion,
                                  .panel_lanes = e->panel_lanes};
    PlainNest *nest = schedule_phase(e->plan, e->number - 1, e->target, &numbers, arena, &problem);
    if (!nest) bug(e->compiler, "a phase of step %s has no schedule: %s", e->f->name, problem);
    nest_check(nest->nest);
    return nest;
}

PhaseText emit_phase(Emitter *e, uint32_t number, Portion portion, Text *out) {
    open_phase(e, number, portion);
    PhaseText result = {.name = arena_printf(e->arena, "%sphase_%u%s", e->prefix, e->number,
                                             portion_names[portion]),
                        .last_block = has_stores(e, LEVEL_LAST_BLOCK)};
    emit_find_items(e, &result);
    Arena *arena = arena_child(e->arena);
    const PlainNest *nest = find_nest(e, arena);
    e->eights |= nest->nest->width == 8;
    for (uint32_t i = 0; nest->promoted && i < e->plan->array_count; i++)
        if (nest->promoted[nest->arrays[i]]) emit_add_carried(e, i);
    result.panel_chunk = nest->panel_chunk;
    result.blocks = nest->nest->warps > 1;
    result.ranged = e->target->gpu && nest->partitions;
    result.non_temporal = emit_nest(e, nest, NULL, result.name, comment_text(e), out);
    if (result.blocks) e->block_bytes = 0; /* the next phase has the same memory */
    arena_close(arena);
    return result;
}
