/* kernel.c: a kernel as an entry point that runs its phases, and as a row of the image.
 *
 * Between the phases of a cooperative kernel there is a barrier of the whole grid; a last-block
 * epilogue is run by the block that finishes last, pre-reductions by every block in memory of its
 * own. On the CPU a kernel of all phases has one thread, and the thread that finishes last runs the
 * epilogue. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* For the numbers of items that the calls name. */
static const char *sizes_text(Emitter *e) {
    Text sizes = text_open(e->arena);
    for (size_t axis = 0; axis < e->f->axis_count; axis++) {
        if (emit_list_of(e, (uint32_t)axis) >= 0 || emit_is_rest(e, (uint32_t)axis)) continue;
        if (e->f->axes[axis].fixed >= 0)
            text_printf(&sizes, "const i64 %s = %lld;\n", e->size_name[axis],
                        (long long)e->f->axes[axis].fixed);
        else
            text_printf(&sizes, "const i64 %s = %s;\n", e->size_name[axis],
                        emit_given_size(e, (uint32_t)axis));
        text_printf(&sizes, "(void)%s;\n", e->size_name[axis]);
    }
    return sizes.data;
}

/* A counter that begins as 0; its name. */
static const char *counter(Emitter *e, const char *name) {
    return emit_add_field(e, name, "u32", (ls_image_extent){.scale = sizeof(uint32_t)}, true);
}

/* Runs a phase on the grid, each item by a warp or by a block; or on the block alone. */
static void run_phase(Text *out, const PhaseText *phase, const char *how) {
    if (phase->blocks)
        text_printf(out, "LS_RUN_BLOCKS(%s)\n", phase->name);
    else
        text_printf(out, "%s(%s, %s)\n", how, phase->name, phase->item_count);
}

void emit_run_alone(Text *out, const PhaseText *phase) {
    text_printf(out, "%s(%s, %s)\n", phase->blocks ? "LS_RUN_BLOCK_ALONE" : "LS_RUN_ALONE",
                phase->name, phase->item_count);
}

static void call_all(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases) {
    const char *state = e->target->together_limit ? counter(e, "blocks_waiting") : NULL;
    e->waiting_name = state;
    for (size_t i = kernel->first; i < kernel->first + kernel->count; i++) {
        if (i > kernel->first && state) text_printf(out, "ls_wait_for_blocks(a->%s);\n", state);
        if (i > kernel->first && !state && e->target->gpu) text_puts(out, "ls_barrier();\n");
        run_phase(out, &phases[i], "LS_RUN_ALL");
    }
}

void emit_call_last_block(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases) {
    const uint32_t end = kernel->first + kernel->count, begin = end - kernel->last_block;
    const char *done =
        counter(e, arena_printf(e->arena, "kernel_of_phase_%u_done", kernel->first + 1));
    text_printf(out, "if (LS_LAST(a->%s)) {\n", done);
    for (uint32_t i = begin; i < end; i++) {
        if (i > begin) text_puts(out, "    ls_barrier();\n");
        emit_run_alone(out, &phases[i]);
    }
    text_puts(out, "}\n");
}

/* The value of an extent without a list, as an expression over the sizes. */
static const char *extent_text(Emitter *e, const ls_image_extent *extent) {
    Text text = text_open(e->arena);
    text_printf(&text, "%llu", (unsigned long long)extent->scale);
    for (uint32_t i = 0; i < extent->factor_count; i++) {
        const ls_image_factor *factor = &extent->factor[i];
        Text product = text_open(e->arena);
        text_puts(&product, "(i64)1");
        for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
            if (factor->axes >> axis & 1) text_printf(&product, " * %s", e->size_name[axis]);
        text_printf(&text, factor->minimum ? " * ls_parts(%s, %llu)" : " * ((%s + %llu) / %llu)",
                    product.data,
                    (unsigned long long)(factor->minimum ? factor->divide : factor->divide - 1),
                    (unsigned long long)factor->divide);
    }
    return text.data;
}

void emit_own_field(Emitter *e, Text *out, const char *copy, Field *field) {
    field->temporary.per_block = 1;
    text_printf(out, "%s.%s = (%s *)LS_OWN(%s.%s, %s);\n", copy, field->temporary.name, field->type,
                copy, field->temporary.name, extent_text(e, &field->temporary.bytes));
}

/* From then on `a` is the block's own copy of the arguments. */
const char *emit_pre_reductions(Emitter *e, const Kernel *kernel, const PhaseText *phases,
                                bool sizes) {
    Text text = text_open(e->arena);
    if (!kernel->pre_reductions) return "";
    if (sizes) text_puts(&text, sizes_text(e));
    text_printf(&text, "struct %s own = *a;\na = &own;\n", e->arguments);
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first; i++) {
        for (size_t a = e->f->parameter_count; a < e->plan->array_count; a++)
            if (plan_writes(&e->plan->phases[i], (uint32_t)a))
                emit_own_field(e, &text, "own", &e->fields[a - e->f->parameter_count]);
        for (size_t k = 0; k < phases[i].field_count; k++)
            emit_own_field(e, &text, "own", &e->fields[phases[i].fields + k]);
    }
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first; i++) {
        emit_run_alone(&text, &phases[i]);
        text_puts(&text, "ls_barrier();\n");
    }
    return text.data;
}

/* Horizontally fused phases, or a single one; then the segment epilogues of empty segments. */
static void call_mains(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases) {
    const uint32_t end = kernel->first + plan_mains(kernel);
    for (uint32_t i = kernel->first; i < end; i++)
        if (phases[i].blocks || kernel->kind == KERNEL_HORIZONTAL)
            run_phase(out, &phases[i], "LS_RUN_HORIZONTAL");
        else
            text_printf(out, "LS_RUN(%s)\n", phases[i].name);
    emit_empty_parts(e, out, kernel);
}

void emit_entry(Emitter *e, Text *out, const char *name, uint32_t threads, bool alone,
                const char *sizes) {
    const char *bounds = alone ? "_ALONE" : e->many ? "_MANY" : "";
    if (e->target->by_address)
        text_printf(out,
                    "LS_KERNEL LS_THREADS%s(%u) %s(const LS_GLOBAL %s *arguments) {\n"
                    "const %s *a = arguments;\n",
                    bounds, threads, name, e->arguments, e->arguments);
    else if (e->target->gpu)
        text_printf(
            out, "LS_KERNEL LS_THREADS%s(%u) %s(const %s arguments) {\nconst %s *a = &arguments;\n",
            bounds, threads, name, e->arguments, e->arguments);
    else
        text_printf(
            out,
            "LS_KERNEL %s(const void *arguments, u64 first_item, u64 last_item, u32 worker, "
            "u32 workers) {\nconst struct %s *a = (const struct %s *)arguments;\n",
            name, e->arguments, e->arguments);
    if (e->target->by_address && e->block_bytes)
        text_printf(out,
                    "LS_SHARED LS_ALIGN(16) u8 block_memory[%lld];\n%s whole = *a;\n"
                    "whole.block_memory = block_memory;\na = &whole;\n",
                    (long long)e->block_bytes, e->arguments);
    e->block_bytes = 0;
    text_puts(out, sizes);
}

bool emit_waits(const Emitter *e, bool all) {
    return all && e->target->together_limit && !e->strips && !e->promotes;
}

ls_image_kernel emit_kernel(Emitter *e, Text *out, const Kernel *kernel, const char *suffix,
                            const PhaseText *phases) {
    const bool all = kernel->kind == KERNEL_ALL;
    const bool waits = emit_waits(e, all);
    const uint32_t threads = all ? e->target->one_block_threads : e->target->threads;
    const PhaseText *first = &phases[kernel->first];
    /* C keeps its entry points apart from the names a linker may hold. */
    const char *name = arena_printf(e->arena, "lockstep_%s%s", e->label, suffix);
    const bool row_fusion = kernel->kind == KERNEL_ROW_FUSION,
               horizontal = kernel->kind == KERNEL_HORIZONTAL;
    if (kernel->kind == KERNEL_ROW_PANELS || kernel->kind == KERNEL_FINISH) {
        ls_image_kernel row = {
            .name = name,
            .items_per_block = e->target->items_per_block,
            .threads = threads,
            .blocks_per_multiprocessor = e->target->blocks_per_multiprocessor,
        };
        emit_panel_kernel(e, out, kernel, sizes_text(e), phases, &row);
        return row;
    }
    Text calls = text_open(e->arena);
    const char *pre_reductions =
        emit_pre_reductions(e, kernel, phases, e->target->gpu && !row_fusion);
    if (!row_fusion) text_puts(&calls, pre_reductions);
    if (all && !e->strips && !e->promotes)
        call_all(e, &calls, kernel, phases);
    else if (!row_fusion && !all)
        call_mains(e, &calls, kernel, phases);
    if (kernel->last_block) emit_call_last_block(e, &calls, kernel, phases);
    if (row_fusion) {
        emit_row_fusion(e, out, name, kernel, phases, sizes_text(e), pre_reductions, calls.data);
    } else {
        const bool sizes =
            !e->target->gpu && (all || horizontal || kernel->last_block || kernel->pre_reductions);
        const char *lengths = sizes ? sizes_text(e) : "";
        emit_entry(e, out, name, threads, false, e->iterates ? "" : lengths);
        const char *body = e->lanes      ? calls.data
                           : e->strips   ? emit_strips(e, sizes_text(e), kernel, phases)
                           : e->promotes ? emit_one_block(e, lengths, kernel, phases)
                           : e->iterates ? emit_iterations(e, lengths, calls.data)
                                         : calls.data;
        text_printf(out, "%s}\n", body);
    }
    ls_image_extent *items = arena_alloc(e->arena, (kernel->count + 1) * sizeof *items);
    const uint32_t several = waits ? kernel->count : horizontal ? plan_mains(kernel) : 0;
    for (uint32_t i = 0; i < several; i++) {
        items[i] = phases[kernel->first + i].items;
        if (phases[kernel->first + i].blocks) items[i].scale *= e->target->items_per_block;
    }
    const bool blocks = !several && !all && !row_fusion && first->blocks;
    ls_image_kernel row = {
        .name = name,
        .items = all          ? plan_extent(e->f, 1, 0)
                 : row_fusion ? first->panel_items
                              : first->items,
        .items_per_block = all      ? e->target->one_block_threads / 32
                           : blocks ? 1
                                    : e->target->items_per_block,
        .threads = threads,
        .blocks_per_multiprocessor = e->target->blocks_per_multiprocessor,
        .one_block = all && !waits && !e->strips,
        .item_cost =
            all ? 1 : first->item_cost * (row_fusion || horizontal ? plan_mains(kernel) : 1),
        .cooperative = waits,
        .phase_count = several,
        .phases = items,
        .tiles = row_fusion ? first->panel_tiles : (ls_image_extent){0},
    };
    if (e->strips) emit_strip_items(e, &row);
    return row;
}
