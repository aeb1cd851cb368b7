/* row_panels.c: kernels of row panels: phases along rows and down columns of one space, see
 * fuse/row_panels.c.
 *
 * In a block of a GPU, phases along rows that follow each other are one function, which keeps a row
 * in the registers of a team of warps, a tile of 1024 elements in each. In a thread they are one
 * function each.
 *
 * A phase down columns has two functions there: one computes the partial values of a row panel, the
 * other combines those of all panels. The first is called together with the phases along rows, the
 * second by a kernel of its own. */
#include <limits.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

const Kernel *emit_panels_of(const Grouping *grouping) {
    const Kernel *kernel = grouping->kernels;
    while (kernel->kind != KERNEL_ROW_PANELS) kernel++;
    return kernel;
}

/* The phases along rows of the panels' kernel from phase `first` on, up to the next one down
 * columns. */
static Kernel rows_from(const Plan *plan, const Kernel *panels, uint32_t first) {
    Kernel rows = *panels;
    rows.first = first;
    rows.count = 0;
    while (first + rows.count < panels->first + panels->count &&
           plan->phases[first + rows.count].shape != SHAPE_COLUMNS)
        rows.count++;
    return rows;
}

bool emit_has_teams(Emitter *e, const Grouping *grouping) {
    const Kernel *panels = emit_panels_of(grouping);
    Arena *arena = arena_child(e->arena);
    bool all = true;
    for (uint32_t i = panels->first; i < panels->first + panels->count; i++) {
        const Kernel rows = rows_from(e->plan, panels, i);
        const char *problem;
        if (!rows.count) continue;
        all &= schedule_team(e->plan, &rows, e->target, arena, &problem) != NULL;
        i += rows.count - 1;
    }
    arena_close(arena);
    return all;
}

/* Phases along rows as the function of a team; `number` is any of them, and the first one's text
 * has the name. */
static PhaseText emit_team(Emitter *e, const Kernel *panels, uint32_t number, Text *out) {
    const Plan *plan = e->plan;
    uint32_t first = number;
    while (first > panels->first && plan->phases[first - 1].shape != SHAPE_COLUMNS) first--;
    if (first != number) return (PhaseText){.name = ""};
    const Kernel rows = rows_from(plan, panels, first);
    Arena *arena = arena_child(e->arena);
    const char *problem;
    const PlainNest *nest = schedule_team(plan, &rows, e->target, arena, &problem);
    if (!nest) bug(e->compiler, "rows of step %s have no schedule: %s", e->f->name, problem);
    nest_check(nest->nest);
    e->phase = &plan->phases[first];
    e->number = first + 1;
    e->portion = PORTION_WHOLE;
    e->list = -1;
    const char *name = arena_printf(e->arena, "%srows_%u", e->prefix, e->number);
    const char *comment = arena_printf(e->arena, "/* Phases %u to %u, a row a team. */", e->number,
                                       first + rows.count);
    e->eights |= nest->nest->width == 8;
    emit_nest(e, nest, NULL, name, comment, out);
    arena_close(arena);
    for (uint32_t p = first; p < first + rows.count; p++)
        for (size_t i = 0; i < plan->array_count; i++)
            e->touched[p * plan->array_count + i] |= e->touched[first * plan->array_count + i];
    return (PhaseText){.name = name};
}

PhaseText emit_portions(Emitter *e, const Grouping *grouping, uint32_t number, Text *out) {
    const Kernel *panels = grouping->panels ? emit_panels_of(grouping) : NULL;
    const bool own = panels && number >= panels->first && number < panels->first + panels->count;
    const bool columns = e->plan->phases[number].shape == SHAPE_COLUMNS, two = own && columns;
    if (own && !columns && e->target->gpu) return emit_team(e, panels, number, out);
    PhaseText text = emit_phase(e, number, two ? PORTION_PANEL : PORTION_WHOLE, out);
    text_puts(out, "\n");
    if (two) {
        text.finish = emit_phase(e, number, PORTION_FINISH, out).name;
        text_puts(out, "\n");
    }
    return text;
}

/* The bytes on chip for each column while `span` rows of a lane are at hand: those of the rows, and
 * of the levels of the reductions, one for each power of two of the parts of a panel. */
static uint64_t bytes_on_chip(const Plan *plan, uint32_t span) {
    const uint32_t levels = span == 8 ? 3 : 4;
    return (uint64_t)span * plan->panel_bytes + (uint64_t)levels * plan->panel_partial;
}

/* Rows that are many, and long, but not too long to stay on chip, nor for a block to be a team. On
 * a CPU what is read again must be more than stays in a thread's caches anyhow: else phases on all
 * rows, and then down all columns, are less work. */
uint32_t emit_panel_conditions(Emitter *e, const Grouping *grouping,
                               ls_image_condition *conditions) {
    const Target *target = e->target;
    const AxisSet rows = emit_panels_of(grouping)->outer, columns = e->plan->panel_columns;
    const uint64_t bytes = bytes_on_chip(e->plan, target->gpu ? 2 : 4);
    const bool few = target->panel_few && e->panel_lanes == target->panel_lanes[0];
    conditions[0] = (ls_image_condition){.extent = plan_extent(e->f, 1, rows),
                                         .at_least = few || !target->panel_few ? target->panel_rows
                                                                               : target->panel_few,
                                         .at_most = few ? target->panel_few - 1 : UINT64_MAX};
    conditions[1] = (ls_image_condition){
        .extent = plan_extent(e->f, target->gpu ? 1 : e->plan->panel_bytes, columns),
        .at_least = target->gpu ? target->panel_columns : target->panel_row_bytes,
        .at_most = UINT64_MAX};
    conditions[2] = (ls_image_condition){.extent = plan_extent(e->f, bytes, columns),
                                         .at_most = target->panel_bytes};
    if (target->gpu)
        conditions[3] = (ls_image_condition){.extent = plan_extent(e->f, 1, columns),
                                             .at_most = 32 * target->panel_threads,
                                             .required = 1};
    else
        conditions[3] =
            (ls_image_condition){.extent = plan_extent(e->f, e->plan->panel_bytes, rows | columns),
                                 .at_least = target->panel_all_bytes,
                                 .at_most = UINT64_MAX};
    return PANEL_CONDITIONS;
}

/* The first phase down columns: they all have the same items. */
static const PhaseText *columns_of(const Emitter *e, const Kernel *kernel,
                                   const PhaseText *phases) {
    uint32_t i = kernel->first;
    while (e->plan->phases[i].shape != SHAPE_COLUMNS) i++;
    return &phases[i];
}

static const char *panel_calls(Emitter *e, const Kernel *kernel, const PhaseText *phases) {
    Text calls = text_open(e->arena);
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++) {
        if (!*phases[i].name) continue;
        if (i > kernel->first) text_puts(&calls, "ls_barrier();\n");
        if (phases[i].finish) {
            text_printf(&calls, "LS_RUN_PANEL(%s, %u)\n", phases[i].name, e->panel_lanes);
            continue;
        }
        /* Of several groups a team is a warp, which shares no memory with others. */
        text_puts(&calls, "for (u32 group = 0; group < groups; group++) {\n");
        text_printf(&calls, "const i64 first = part_row + %u * group;\nLS_RUN_TEAMS(%s)\n}\n",
                    e->panel_lanes, phases[i].name);
    }
    return calls.data;
}

static const char *finish_calls(Emitter *e, const Kernel *kernel, const PhaseText *phases) {
    Text calls = text_open(e->arena);
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++)
        if (phases[i].finish) text_printf(&calls, "LS_RUN(%s)\n", phases[i].finish);
    return calls.data;
}

/* How long a row is. */
static const char *columns_text(Emitter *e) {
    Text columns = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (e->plan->panel_columns >> axis & 1)
            text_printf(&columns, "%s%s", columns.size ? " * " : "", e->size_name[axis]);
    return columns.data;
}

/* How many rows of a lane go together: all 8 unless they are too long. On a GPU the columns read
 * them again: from the nearest cache. */
static const char *span_text(Emitter *e) {
    const unsigned long long again = e->target->panel_again;
    const char *columns = columns_text(e);
    if (again)
        return arena_printf(e->arena, "%s <= %llu ? 8 : %s <= %llu ? 4 : 2", columns,
                            again / (8 * e->plan->panel_bytes), columns,
                            again / (4 * e->plan->panel_bytes));
    return arena_printf(e->arena, "%s <= %llu ? 8 : 4", columns_text(e),
                        (unsigned long long)(e->target->panel_bytes / bytes_on_chip(e->plan, 8)));
}

/* How many leaves go through a phase together: as many as stay on chip. */
static const char *near_text(Emitter *e) {
    return arena_printf(e->arena,
                        "const i64 near_leaves = ls_near_leaves(span, lane_rows, %llu / "
                        "ls_max(%u * (%s), 1));\n",
                        (unsigned long long)e->target->panel_bytes, e->plan->panel_bytes,
                        columns_text(e));
}

/* Of the part that comes next, and of the block's first one, what phases along rows read of each
 * element: software prefetching. */
static const char *prefetches(Emitter *e, const Kernel *kernel, const char *first) {
    const AxisSet rows = kernel->outer, columns = e->plan->panel_columns;
    Text text = text_open(e->arena);
    if (__builtin_ctz(columns) < 32 - __builtin_clz(rows))
        return ""; /* rows do not follow each other */
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        bool reads = false;
        for (uint32_t p = kernel->first; p < kernel->first + kernel->count; p++)
            reads |= e->plan->phases[p].shape != SHAPE_COLUMNS &&
                     plan_reads(e->plan, &e->plan->phases[p], i);
        if (reads && e->plan->arrays[i].axes == (rows | columns))
            text_printf(&text, "ls_prefetch_part(a->%s, %u * (%s), %s, span, %u, groups, rows);\n",
                        e->field_name[i], type_info[e->plan->arrays[i].type].size, columns_text(e),
                        first, e->panel_lanes);
    }
    return text.data ? text.data : "";
}

/* The blocks' loops over panels, and over the parts of one. */
static const char *blocks_panels(Emitter *e, const Kernel *kernel, const PhaseText *phases) {
    const unsigned lanes = e->panel_lanes, panels = 128 / lanes;
    unsigned chunk = UINT_MAX;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++)
        if (phases[i].panel_chunk && phases[i].panel_chunk < chunk) chunk = phases[i].panel_chunk;
    return arena_printf(
        e->arena,
        "const u32 warps = %u, team = ls_team(ls_tiles(%s)), teams = warps / team;\n"
        "const u32 own_team = ls_warp() / team, first_warp = own_team * team;\n"
        "const u32 parts = %u / span;\n"
        "const u32 groups = ls_panel_groups((%s + %u) / %u, warps, %u * ls_tiles(rows), parts);\n"
        "const u32 own_warps = warps / groups, own_group = ls_warp() / own_warps;\n%s"
        "for (i64 panel = groups * ls_block(); panel < %u * ls_tiles(rows);\n"
        "panel += groups * ls_blocks()) {\n"
        "/* %u neighbouring lanes of the tree down columns, of 8 rows each: a part of a lane,\n"
        " * as many rows as stay on chip, goes through all phases before the next. */\n"
        "for (u32 part = 0; part < parts; part++) {\n"
        "const i64 part_row = ls_part_row(panel, part, span, %u);\n"
        "const i64 panel_row = ls_part_row(panel, 0, span, %u);\n"
        "if (panel_row >= rows) break;\n%s",
        e->target->panel_threads / 32, columns_text(e), 8 * lanes, columns_text(e), chunk - 1,
        chunk, panels,
        prefetches(e, kernel,
                   arena_printf(e->arena, "ls_part_row(groups * ls_block(), 0, span, %u)", lanes)),
        panels, lanes, lanes, lanes,
        prefetches(e, kernel,
                   arena_printf(e->arena, "ls_next_part(panel, part, span, %u, groups)", lanes)));
}

/* One thread takes the rows of several lanes through all phases along rows that follow each other,
 * each phase for itself (loop distribution), and then what goes down columns part by part. */
static const char *leaves_calls(Emitter *e, const Kernel *kernel, const PhaseText *phases) {
    Text calls = text_open(e->arena);
    const uint32_t end = kernel->first + kernel->count;
    for (uint32_t i = kernel->first; i < end; i++) {
        const PhaseText *phase = &phases[i];
        const bool row = !phase->finish;
        if (i == kernel->first || row != !phase[-1].finish)
            text_puts(&calls, row ? "LS_RUNS_OF_LEAVES {\n" : "LS_PARTS_OF_LEAVES {\n");
        if (row)
            text_printf(&calls, "    %s(a, (u64)(row * %s), (u64)(stop * %s), workers, 0);\n",
                        phase->name, phase->row_items, phase->row_items);
        else
            text_printf(&calls, "    %s(a, panel, worker, part, 0, (u64)LS_MAX_I64, workers, 0);\n",
                        phase->name);
        if (i + 1 == end || row != !phase[1].finish) text_puts(&calls, "}\n");
    }
    return calls.data;
}

static const char threads_panels[] =
    "const i64 lane_rows = ls_lane_rows(rows);\n%s"
    "/* 8 neighbouring lanes of the tree down columns with all their rows: as many as stay on "
    "chip\n"
    " * go through a phase before the next. */\n"
    "const i64 items = ls_max((rows + 7) / 8, 1), panels = ls_panels(rows);\n"
    "const i64 last_panel = ls_part_of((i64)last_item, panels, items);\n"
    "for (i64 panel = ls_part_of((i64)first_item, panels, items); panel < last_panel; panel++) {\n"
    "LS_LEAVES_OF_PANEL {\n";

void emit_panel_kernel(Emitter *e, Text *out, const Kernel *kernel, const char *sizes,
                       const PhaseText *phases, ls_image_kernel *row) {
    const bool panels = kernel->kind == KERNEL_ROW_PANELS;
    const PhaseText *columns = columns_of(e, kernel, phases);
    row->items = columns->items;
    row->item_cost = columns->item_cost / (8 * e->panel_lanes);
    if (panels) {
        row->items = plan_extent(e->f, e->target->gpu ? 128 / e->panel_lanes : 1, kernel->outer);
        row->items.factor[0].minimum = 1;
        row->items.factor[0].divide = e->target->gpu ? 1024 : 8;
        row->item_cost = 8 * (e->target->gpu ? e->panel_lanes : 1) * 1024;
        row->items_per_block = 1;
        row->threads = e->target->panel_threads;
        row->blocks_per_multiprocessor = e->target->panels_per_multiprocessor;
    }
    const char *calls = !panels          ? finish_calls(e, kernel, phases)
                        : e->target->gpu ? panel_calls(e, kernel, phases)
                                         : leaves_calls(e, kernel, phases);
    bool non_temporal = false;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++)
        non_temporal |= phases[i].non_temporal;
    emit_entry(e, out, row->name, row->threads, false, panels ? sizes : "");
    if (!panels) {
        text_printf(out, "%s}\n", calls);
        return;
    }
    text_printf(out, "const i64 rows = %s;\nconst %s span = %s;\n", columns->inner,
                e->target->gpu ? "u32" : "i64", span_text(e));
    if (e->target->gpu)
        text_puts(out, blocks_panels(e, kernel, phases));
    else
        text_printf(out, threads_panels, near_text(e));
    text_printf(out, "%s}\n}\n%s}\n", calls, non_temporal ? "ls_non_temporal_end();\n" : "");
}
