/* row_fusion.c: a kernel that runs several phases row by row.
 *
 * All phases divide their work into the same panels, each a row or a chunk of columns, and a panel
 * into tiles, which are consecutive items. On a GPU a panel of one tile belongs to a warp, a longer
 * one to a block; the lengths decide at run time. On the CPU a thread takes as many rows at a time
 * as stay in its first caches. What a phase computes once, it computes before the first panel. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

static void add_calls(Emitter *e, const Kernel *kernel, const PhaseText *phases, Text *calls,
                      Text *last_blocks) {
    const bool gpu = e->target->gpu;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const PhaseText *phase = &phases[i];
        const char *name = phase->name;
        if (gpu && i > kernel->first)
            text_puts(calls, "if (alone) ls_warp_sync(); else ls_barrier();\n");
        if (gpu)
            text_printf(calls,
                        phase->ranged ? "LS_RUN_ROW_RANGES(%s, panel * %s_tiles, %s_tiles)\n"
                                      : "%s(a, panel * %s_tiles + member, (panel + 1) * %s_tiles, "
                                        "members, 0);\n",
                        name, name, name);
        else
            text_printf(calls,
                        "%s(a, (u64)(panel * %s_tiles), (u64)(next * %s_tiles), workers, 0);\n",
                        name, name, name);
        if (phase->last_block)
            text_printf(last_blocks,
                        gpu ? "%s(a, 0, 0, 1, LS_ARRIVALS);\n" : "%s(a, 0, 0, workers, workers);\n",
                        name);
    }
}

/* The axes along one row of an array in worker scratch, and the text of its length. */
static AxisSet row_axes(const Emitter *e, uint32_t array) {
    const Plan *plan = e->plan;
    const Phase *phase = &plan->phases[plan->defined_in[plan->arrays[array].value] - 1];
    return phase->inner;
}

static const char *row_length(Emitter *e, uint32_t array) {
    Text text = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (row_axes(e, array) >> axis & 1)
            text_printf(&text, "%s%s", text.size ? " * " : "", e->size_name[axis]);
    return text.data;
}

/* The bytes of one long row, or of as many rows as a thread takes at a time. */
ls_image_extent emit_scratch_bytes(Emitter *e, uint32_t array) {
    const uint64_t size = type_info[e->plan->arrays[array].type].size;
    ls_image_extent extent = plan_extent(e->f, size, row_axes(e, array));
    extent.factor[0].minimum = 1024 * e->target->scratch_tiles;
    return extent;
}

/* Worker scratch of the kernel's phases; and, for each run of rows, the base address from which the
 * run's rows fall into that scratch. */
static void add_scratch(Emitter *e, const Kernel *kernel, Text *open, Text *move) {
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        const Array *array = &e->plan->arrays[i];
        if (!array->in_scratch) continue;
        const uint32_t defined_in = e->plan->defined_in[array->value] - 1;
        if (defined_in < kernel->first || defined_in >= kernel->first + plan_mains(kernel))
            continue;
        const char *type = type_info[array->type].c_name, *name = e->field_name[i];
        const char *row = row_length(e, i);
        if (!open->size && !kernel->pre_reductions)
            text_printf(open, "struct %s own = *a;\na = &own;\n", e->arguments);
        text_printf(open, "const u64 %s_scratch = (u64)LS_OWN(own.%s, %u * ls_max(%u, %s));\n",
                    name, name, type_info[array->type].size, 1024 * e->target->scratch_tiles, row);
        text_printf(move, "own.%s = (%s *)(%s_scratch - %u * (u64)(panel * %s));\n", name, type,
                    name, type_info[array->type].size, row);
    }
}

/* The text of the length of the longest row, or "" where the rows of some phase differ in length.
 */
static const char *longest_row(Emitter *e, const Kernel *kernel, const PhaseText *phases) {
    const char *longest = NULL;
    if (e->target->gpu) return "";
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const char *length = phases[i].inner;
        if (e->plan->phases[i].shape != SHAPE_ROWS) return "";
        for (uint32_t axis = 0; axis < e->f->axis_count; axis++) /* whose lengths differ */
            if (e->plan->phases[i].inner >> axis & 1 &&
                (e->f->axes[axis].parent >= 0 || e->f->axes[axis].whole >= 0))
                return "";
        if (longest && strcmp(longest, length) == 0) continue;
        longest = longest ? arena_printf(e->arena, "ls_max(%s, %s)", longest, length) : length;
    }
    return longest;
}

void emit_row_fusion(Emitter *e, Text *out, const char *name, const Kernel *kernel,
                     const PhaseText *phases, const char *sizes, const char *pre_reductions,
                     const char *last_block) {
    Text tiles = text_open(e->arena), alone = text_open(e->arena);
    Text max = text_open(e->arena), calls = text_open(e->arena), last_blocks = text_open(e->arena);
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const PhaseText *phase = &phases[i];
        const char *join = i > kernel->first ? " + " : "";
        text_printf(&tiles, "const i64 %s_tiles = %s;\n", phase->name, phase->tiles);
        text_printf(&alone, "%s%s_tiles == 1", i > kernel->first ? " && " : "", phase->name);
        text_printf(&max, "%s%s_tiles", join, phase->name);
    }
    Text scratch = text_open(e->arena), move = text_open(e->arena);
    add_scratch(e, kernel, &scratch, &move);
    add_calls(e, kernel, phases, &calls, &last_blocks);
    bool non_temporal = false;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        non_temporal |= phases[i].non_temporal;
    if (non_temporal) text_puts(&last_blocks, "ls_non_temporal_end();\n");
    text_puts(&last_blocks, last_block);
    const char *longest = longest_row(e, kernel, phases);
    const char *run =
        arena_printf(e->arena, "ls_parts(%u, %s)", e->target->scratch_tiles, max.data);
    if (*longest) run = arena_printf(e->arena, "ls_rows_in_scratch(%s, %s)", run, longest);
    emit_entry(e, out, name, e->target->threads, false, sizes);
    text_printf(out, "%s%s%s", pre_reductions, scratch.data, tiles.data);
    if (e->target->gpu)
        text_printf(
            out,
            "/* A warp owns a row of one tile; the warps of a block share a longer one. */\n"
            "const int alone = %s;\n"
            "const i64 member = alone ? 0 : ls_warp(), members = alone ? 1 : ls_warps();\n"
            "const i64 step = alone ? ls_item_step() : ls_blocks();\n"
            "for (i64 panel = alone ? ls_first_item() : ls_block(); panel < %s; panel += "
            "step) {\n",
            alone.data, phases[kernel->first].panels);
    else
        text_printf(out,
                    "/* As many rows at a time as stay in the first caches. */\n"
                    "const i64 run = %s;\n"
                    "for (i64 panel = (i64)first_item; panel < (i64)last_item; panel += run) {\n"
                    "const i64 next = ls_min(panel + run, (i64)last_item);\n",
                    run);
    text_printf(out, "%s%s}\n%s}\n", move.data, calls.data, last_blocks.data);
}
