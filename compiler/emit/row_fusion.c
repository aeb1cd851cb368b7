/* row_fusion.c: a kernel that runs several phases row by row.
 *
 * All phases cut their work into the same strips, a row or a chunk of columns each, and a strip
 * into tiles: so many items in a row. On a GPU a strip of one tile belongs to a group, a longer one
 * to a block, chosen when the lengths are known; on the CPU a worker takes the strips that stay in
 * its nearest caches. What a phase computes once, it computes before the first strip. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

static void add_calls(Emitter *e, const Kernel *kernel, const PhaseText *phases, Text *calls,
                      Text *tails) {
    const bool simt = e->target->simt;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const PhaseText *phase = &phases[i];
        const char *name = phase->name;
        if (simt && i > kernel->first)
            text_puts(calls, "if (alone) ls_group_sync(); else ls_barrier();\n");
        if (simt)
            text_printf(calls,
                        "%s(a, strip * %s_tiles + member, (strip + 1) * %s_tiles, members, 0);\n",
                        name, name, name);
        else
            text_printf(calls,
                        "%s(a, (u64)(strip * %s_tiles), (u64)(next * %s_tiles), workers, 0);\n",
                        name, name, name);
        if (phase->tail)
            text_printf(tails,
                        simt ? "%s(a, 0, 0, 1, LS_PARTIES);\n" : "%s(a, 0, 0, workers, workers);\n",
                        name);
    }
}

/* The axes along one row of an array that is near, and how many elements it has. */
static AxisSet row_axes(const Emitter *e, uint32_t array) {
    const Plan *plan = e->plan;
    const Phase *phase = &plan->phases[plan->home[plan->arrays[array].value] - 1];
    return phase->inner;
}

static const char *row_length(Emitter *e, uint32_t array) {
    Text text = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (row_axes(e, array) >> axis & 1)
            text_printf(&text, "%s%s", text.size ? " * " : "", e->size_name[axis]);
    return text.data;
}

/* One long row, or as many as a worker takes at a time. */
ls_image_extent emit_near_bytes(Emitter *e, uint32_t array) {
    const uint64_t size = type_info[e->plan->arrays[array].type].size;
    ls_image_extent extent = plan_extent(e->f, size, row_axes(e, array));
    extent.factor[0].minimum = 1024 * e->target->near_tiles;
    return extent;
}

/* The worker's own memory for what the kernel's phases keep near, and, for each run of rows, where
 * the first row of all would be for these to begin there. */
static void add_near(Emitter *e, const Kernel *kernel, Text *open, Text *move) {
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        const Array *array = &e->plan->arrays[i];
        if (!array->near) continue;
        const uint32_t home = e->plan->home[array->value] - 1;
        if (home < kernel->first || home >= kernel->first + plan_mains(kernel)) continue;
        const char *type = type_info[array->type].c_name, *name = e->field_name[i];
        const char *row = row_length(e, i);
        if (!open->size && !kernel->prologue)
            text_printf(open, "struct %s own = *a;\na = &own;\n", e->arguments);
        text_printf(open, "const u64 %s_near = (u64)LS_OWN(own.%s, %u * ls_most(%u, %s));\n", name,
                    name, type_info[array->type].size, 1024 * e->target->near_tiles, row);
        text_printf(move, "own.%s = (%s *)(%s_near - %u * (u64)(strip * %s));\n", name, type, name,
                    type_info[array->type].size, row);
    }
}

/* The length of the longest row, or "" where not all phases have rows of one length. */
static const char *longest_row(Emitter *e, const Kernel *kernel, const PhaseText *phases) {
    const char *longest = NULL;
    if (e->target->simt) return "";
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const char *length = phases[i].inner;
        if (e->plan->phases[i].shape != SHAPE_ROWS) return "";
        for (uint32_t axis = 0; axis < e->f->axis_count; axis++) /* whose lengths differ */
            if (e->plan->phases[i].inner >> axis & 1 &&
                (e->f->axes[axis].parent >= 0 || e->f->axes[axis].whole >= 0))
                return "";
        if (longest && strcmp(longest, length) == 0) continue;
        longest = longest ? arena_printf(e->arena, "ls_most(%s, %s)", longest, length) : length;
    }
    return longest;
}

void emit_chain(Emitter *e, Text *out, const char *name, const Kernel *kernel,
                const PhaseText *phases, const char *sizes, const char *prologue,
                const char *tail) {
    Text tiles = text_open(e->arena), alone = text_open(e->arena);
    Text most = text_open(e->arena), calls = text_open(e->arena), tails = text_open(e->arena);
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++) {
        const PhaseText *phase = &phases[i];
        const char *join = i > kernel->first ? " + " : "";
        text_printf(&tiles, "const i64 %s_tiles = %s;\n", phase->name, phase->tiles);
        text_printf(&alone, "%s%s_tiles == 1", i > kernel->first ? " && " : "", phase->name);
        text_printf(&most, "%s%s_tiles", join, phase->name);
    }
    Text near = text_open(e->arena), move = text_open(e->arena);
    add_near(e, kernel, &near, &move);
    add_calls(e, kernel, phases, &calls, &tails);
    bool streams = false;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        streams |= phases[i].streams;
    if (streams) text_puts(&tails, "ls_stream_end();\n");
    text_puts(&tails, tail);
    const char *longest = longest_row(e, kernel, phases);
    const char *run = arena_printf(e->arena, "ls_parts(%u, %s)", e->target->near_tiles, most.data);
    if (*longest) run = arena_printf(e->arena, "ls_rows_near(%s, %s)", run, longest);
    emit_entry(e, out, name, e->target->threads, false, sizes);
    text_printf(out, "%s%s%s", prologue, near.data, tiles.data);
    if (e->target->simt)
        text_printf(
            out,
            "/* A group owns a row of one tile; the groups of a block share a longer one. */\n"
            "const int alone = %s;\n"
            "const i64 member = alone ? 0 : ls_group(), members = alone ? 1 : ls_groups();\n"
            "const i64 step = alone ? ls_item_step() : ls_blocks();\n"
            "for (i64 strip = alone ? ls_first_item() : ls_block(); strip < %s; strip += "
            "step) {\n",
            alone.data, phases[kernel->first].strips);
    else
        text_printf(out,
                    "/* As many rows at a time as stay near. */\n"
                    "const i64 run = %s;\n"
                    "for (i64 strip = (i64)first_item; strip < (i64)last_item; strip += run) {\n"
                    "const i64 next = ls_least(strip + run, (i64)last_item);\n",
                    run);
    text_printf(out, "%s%s}\n%s}\n", move.data, calls.data, tails.data);
}
