/* items.c: how the work of a phase is cut into items, in generated code and in the image.
 *
 * A map's item is what schedule_map_item says; a reduction's a tile of 1024 elements of one row, or
 * of several columns; a scan's the scans of 32 lanes, or of several columns. Within a list they are
 * counted per tensor, and a table in device memory says which item of which tensor the next one is.
 */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

bool emit_takes_columns(const Emitter *e) {
    return e->phase->shape == SHAPE_COLUMNS || emit_in_loop_columns(e);
}

/* Of blocks that are visited one by one: the elements of a whole block, and the other axes.
 */
static uint64_t split_length(const Emitter *e, AxisSet *others) {
    uint64_t length = 1;
    *others = e->phase->inner;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (emit_is_split(e, axis)) {
            length *= (uint64_t)e->f->axes[axis].length;
            *others &= ~((AxisSet)1 << axis);
        }
    return length;
}

/* Tiles of a reduction: at least one. A last block has as many as a whole one; those beyond its end
 * are empty, which changes no bit. */
static ls_image_factor tiles_factor(const Emitter *e, uint64_t *times) {
    AxisSet others;
    const uint64_t length = split_length(e, &others);
    *times = length <= 1024 ? 1 : (length + 1023) / 1024;
    return (ls_image_factor){.axes = plan_extent_axes(e->f, others),
                             .minimum = 1,
                             .divide = length <= 1024 ? 1024 / length : 1};
}

static const char *most_product(Emitter *e) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < e->inner_count; i++)
        text_printf(&text, "%s%s", i ? " * " : "", e->inner[i].max);
    return e->inner_count ? text.data : "1";
}

static uint32_t map_item(const Emitter *e) {
    return schedule_map_item(e->plan, (uint32_t)(e->phase - e->plan->phases),
                             e->target->gpu ? 32 : 1, e->lanes);
}

/* The same without those numbers, for a row fusion: panels of one item each, or of `tiles` items.
 */
static void whole_count(Emitter *e, PhaseText *text) {
    const Phase *phase = e->phase;
    const char *inner = emit_product(e, e->inner, e->inner_count);
    const char *outer = emit_product(e, e->outer, e->outer_count - emit_takes_columns(e));
    const uint32_t columns = e->target->columns;
    AxisSet others;
    uint64_t times;
    text->tiles = "1";
    text->panels = "1";
    if (e->list >= 0) {
        text->panels = arena_printf(e->arena, "a->%s_count", e->table);
        return;
    }
    if (phase->shape == SHAPE_SCALAR) return;
    if (phase->shape == SHAPE_MAP) {
        text->panels =
            arena_printf(e->arena, "(%s + %u) / %u", inner, map_item(e) - 1, map_item(e));
        return;
    }
    if (phase->shape == SHAPE_SCAN && e->target->gpu) {
        text->panels = arena_printf(e->arena, "(%s + 31) / 32", outer);
        return;
    }
    if (emit_takes_columns(e))
        outer = arena_printf(e->arena, "%s * ((%s + %u) / %u)", outer,
                             e->outer[e->outer_count - 1].size, columns - 1, columns);
    text->panels = outer;
    if (phase->shape == SHAPE_SCAN) return;
    const uint64_t length = split_length(e, &others);
    if (length == 1) {
        text->tiles = arena_printf(e->arena, "ls_tiles(%s)", most_product(e));
        return;
    }
    const ls_image_factor factor = tiles_factor(e, &times);
    Text rest = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (factor.axes >> axis & 1) text_printf(&rest, " * %s", emit_size(e, axis));
    text->tiles = arena_printf(e->arena, "%llu * ls_parts(1%s, %llu)", (unsigned long long)times,
                               rest.data, (unsigned long long)factor.divide);
}

static void add_factor(ls_image_extent *extent, ls_image_factor factor) {
    extent->factor[extent->factor_count++] = factor;
}

/* The items' extent among the tables, shared by phases whose items are the same. */
static const char *table_for(Emitter *e) {
    for (size_t i = 0; i < e->table_count; i++)
        if (memcmp(&e->tables[i].table.items, &e->items, sizeof e->items) == 0)
            return e->tables[i].name;
    e->tables =
        arena_grow(e->arena, e->tables, e->table_count, &e->table_capacity, sizeof *e->tables);
    Table *table = &e->tables[e->table_count++];
    *table = (Table){arena_printf(e->arena, "phase_%u_items", e->number), {.items = e->items}};
    return table->name;
}

void emit_find_items(Emitter *e, PhaseText *text) {
    const Phase *phase = e->phase;
    const Group *columns = emit_takes_columns(e) ? &e->outer[e->outer_count - 1] : NULL;
    const AxisSet outer = plan_extent_axes(e->f, phase->outer & ~e->tensor.axes &
                                                     ~(columns ? columns->axes : (AxisSet)0));
    memset(&e->items, 0, sizeof e->items); /* compared as bytes */
    e->items.scale = 1;
    e->items.list = (uint32_t)(e->list + 1);
    if (phase->shape == SHAPE_MAP) {
        add_factor(&e->items, (ls_image_factor){.axes = plan_extent_axes(e->f, phase->inner),
                                                .divide = map_item(e)});
    } else if (phase->shape != SHAPE_SCALAR) {
        const bool lanes = phase->shape == SHAPE_SCAN && e->target->gpu;
        add_factor(&e->items, (ls_image_factor){.axes = outer, .divide = lanes ? 32 : 1});
        if (columns)
            add_factor(&e->items, (ls_image_factor){.axes = plan_extent_axes(e->f, columns->axes),
                                                    .divide = e->target->columns});
        if (phase->shape != SHAPE_SCAN) {
            uint64_t times;
            const ls_image_factor tiles = tiles_factor(e, &times);
            text->panel_items = e->items;
            add_factor(&e->items, tiles);
            e->items.scale *= times;
            text->panel_tiles =
                (ls_image_extent){.scale = times, .factor_count = 1, .factor = {tiles}};
        }
    }
    text->items = e->items;
    if (e->list >= 0) text->table = e->table = table_for(e);
    whole_count(e, text);
    text->item_count = strcmp(text->tiles, "1") == 0
                           ? text->panels
                           : arena_printf(e->arena, "%s * %s", text->panels, text->tiles);
    text->inner = emit_product(e, e->inner, e->inner_count);
    text->row_items = arena_printf(e->arena, "ls_tiles(%s)", text->inner);
    text->item_cost = columns                        ? 1024ull * e->target->columns
                      : phase->shape == SHAPE_SCALAR ? 1
                                                     : 1024;
}
