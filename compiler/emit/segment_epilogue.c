/* segment_epilogue.c: the phases of a kernel that run for each segment, or part, when its rows or
 * columns are done.
 *
 * The rows and columns of each part are counted as they are finished. Three functions say how many
 * a part has, what is then done with it, and that one more of them is finished: the phases call
 * that. Of a part that has none, nobody comes to finish the last: the kernel shares those out. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

static const char *stem(Emitter *e, const Kernel *kernel) {
    return arena_printf(e->arena, "%skernel_of_phase_%u", e->prefix, kernel->first + 1);
}

static const Phase *segment(const Emitter *e, const Kernel *kernel) {
    return &e->plan->phases[kernel->first + plan_mains(kernel)];
}

/* The product of the sizes of the axes, for a part: an expression over `a`. */
static const char *size_text(Emitter *e, AxisSet axes) {
    Text text = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        if (!(axes >> axis & 1)) continue;
        text_puts(&text, text.size ? " * " : "");
        if (e->f->axes[axis].fixed >= 0)
            text_printf(&text, "%lld", (long long)e->f->axes[axis].fixed);
        else
            text_printf(&text, emit_list_of(e, axis) < 0 ? "a->%s" : "a->%s[part]",
                        e->size_name[axis]);
    }
    return text.size ? text.data : "1";
}

/* How many rows, or runs of columns, of the phase a part has. */
static const char *lines_text(Emitter *e, const Phase *phase, AxisSet parts) {
    const char *sizes = size_text(e, phase->outer & ~parts);
    return phase->shape == SHAPE_ROWS ? sizes
                                      : arena_printf(e->arena, "(%s + %u) / %u", sizes,
                                                     e->target->columns - 1, e->target->columns);
}

static void lines_function(Emitter *e, Text *out, const Kernel *kernel) {
    const AxisSet parts = segment(e, kernel)->outer;
    text_printf(out, "LS_PHASE i64 %s_lines(const struct %s *a, i64 part) {\n    return ",
                stem(e, kernel), e->arguments);
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        text_printf(out, "%s%s", i > kernel->first ? " + " : "",
                    lines_text(e, &e->plan->phases[i], parts));
    text_puts(out, ";\n}\n");
}

static void part_function(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases) {
    const uint32_t first = kernel->first + plan_mains(kernel);
    text_printf(out, "LS_PHASE void %s_part(const struct %s *a, i64 part) {\n", stem(e, kernel),
                e->arguments);
    for (uint32_t i = first; i < first + kernel->segment_epilogue; i++) {
        const PhaseText *phase = &phases[i];
        if (i > first) text_puts(out, "    ls_warp_sync();\n");
        text_printf(out, "    const i64 %s_tiles = ls_tiles(%s);\n", phase->name,
                    size_text(e, e->plan->phases[i].inner));
        if (phase->table)
            text_printf(out, "    const i64 %s_first = ls_first_of(a->%s, a->%s_count, part);\n",
                        phase->name, phase->table, phase->table);
        else
            text_printf(out, "    const i64 %s_first = part * %s_tiles;\n", phase->name,
                        phase->name);
        text_printf(out, "    %s(a, %s_first, %s_first + %s_tiles, 1, 0);\n", phase->name,
                    phase->name, phase->name, phase->name);
    }
    text_puts(out, "}\n");
}

void emit_segment_epilogue(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases) {
    const char *name = stem(e, kernel);
    const char *counts =
        emit_add_field(e, arena_printf(e->arena, "kernel_of_phase_%u_counts", kernel->first + 1),
                       "u32", plan_extent(e->f, sizeof(uint32_t), segment(e, kernel)->outer), true);
    text_puts(out,
              "/* What comes after the rows and columns of a part: how many these are, the work "
              "itself, and that one is done. */\n");
    lines_function(e, out, kernel);
    part_function(e, out, kernel, phases);
    text_printf(out,
                "LS_PHASE void %s_done(const struct %s *a, i64 part) {\n"
                "    if (ls_arrive(&a->%s[part], (u32)%s_lines(a, part))) %s_part(a, part);\n"
                "}\n\n",
                name, e->arguments, counts, name, name);
}

bool emit_is_followed(const Emitter *e) {
    return e->followed[e->number - 1] != NULL;
}

const char *emit_followed(Emitter *e, const char *row) {
    const Kernel *kernel = e->followed[e->number - 1];
    const AxisSet rest = e->phase->outer & ~segment(e, kernel)->outer;
    Text sizes = text_open(e->arena);
    for (uint32_t axis = 0; e->list < 0 && axis < e->f->axis_count; axis++)
        if (rest >> axis & 1)
            text_printf(&sizes, "%s%s", sizes.size ? " * " : "", e->size_name[axis]);
    if (sizes.size) row = arena_printf(e->arena, "ls_divide(%s, %s)", row, size_text(e, rest));
    return arena_printf(e->arena, "%s_done(a, %s);\n", stem(e, kernel), row);
}

void emit_empty_parts(Emitter *e, Text *out, const Kernel *kernel) {
    if (!kernel->segment_epilogue) return;
    text_printf(out,
                "LS_RUN_PARTS(part, %s)\n"
                "    if (%s_lines(a, part) == 0) %s_part(a, part);\n",
                size_text(e, segment(e, kernel)->outer), stem(e, kernel), stem(e, kernel));
}
