/* image.c: a plan as source text and as the tables of an image.
 *
 * A variant is a layout of the arrays and a grouping of the phases: one kernel for all of them in
 * one block, say, or one kernel each. Its text is the prelude, the device functions it uses, the
 * argument structure, a function per phase and the kernels. What differs between dialects is in the
 * Target and the preludes; nothing here requests a dialect. Needs a plan; keeps it.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* Device memory of the step. */
const char *emit_add_field(Emitter *e, const char *wish, const char *type, ls_image_extent bytes,
                           bool zeroed) {
    e->fields =
        arena_grow(e->arena, e->fields, e->field_count, &e->field_capacity, sizeof *e->fields);
    e->fields[e->field_count++] =
        (Field){.temporary = {.name = wish, .bytes = bytes, .zeroed = zeroed}, .type = type};
    return wish;
}

/* ---- the argument structure ---- */

static void name_arguments(Emitter *e) {
    const Function *f = e->f;
    names_begin(e);
    e->size_name = arena_alloc(e->arena, (f->axis_count + 1) * sizeof *e->size_name);
    e->field_name = arena_alloc(e->arena, (e->plan->array_count + 1) * sizeof *e->field_name);
    e->stride_name =
        arena_alloc(e->arena, (e->plan->array_count + 1) * LS_AXES_MAX * sizeof *e->stride_name);
    e->arguments = arena_printf(e->arena, "%s_arguments", e->label);
    for (size_t i = 0; i < f->axis_count; i++)
        e->size_name[i] = names_made(e, arena_printf(e->arena, "size_%s", f->axes[i].name));
    for (size_t i = 0; i < e->plan->array_count; i++)
        e->field_name[i] = names_array(e, (uint32_t)i);
    if (e->iterates) emit_name_iterations(e);
    for (size_t i = 0; i < e->plan->array_count; i++)
        for (size_t axis = 0; axis < f->axis_count; axis++)
            e->stride_name[i * LS_AXES_MAX + axis] = names_made(
                e, arena_printf(e->arena, "%s_stride_%s", e->field_name[i], f->axes[axis].name));
}

static void add_plan_fields(Emitter *e) {
    for (size_t i = e->f->parameter_count; i < e->plan->array_count; i++) {
        const Array *array = &e->plan->arrays[i];
        emit_add_field(e, e->field_name[i], type_info[array->type].c_name,
                       array->in_scratch ? emit_scratch_bytes(e, (uint32_t)i)
                                         : plan_array_extent(e->f, array),
                       false);
        e->fields[e->field_count - 1].temporary.per_block = array->in_scratch;
        if (emit_is_list(e, (uint32_t)i)) e->fields[e->field_count - 1].temporary.pointers = 1;
    }
}

static void shape_comment(Emitter *e, Text *out, AxisSet axes) {
    text_puts(out, "[");
    for (size_t axis = 0; axis < e->f->axis_count; axis++)
        if (axes >> axis & 1)
            text_printf(out, "%s%s", out->data[out->size - 1] == '[' ? "" : ", ",
                        e->f->axes[axis].name);
    text_puts(out, "]");
}

static bool draws_numbers(const Function *f) {
    for (ValueId v = 1; v < f->value_count; v++)
        if (f->values[v].op == OP_FIRST) return true;
    return false;
}

/* Says of a temporary which earlier one's place it may have; not of a structure that several
 * variants may have, each with its own places. */
static const char *place_comment(Emitter *e, size_t number) {
    const uint32_t share = e->shared ? 0 : e->fields[number].temporary.share;
    for (size_t i = 0; share && i < number; i++)
        if (e->fields[i].temporary.share == share)
            return arena_printf(e->arena, " /* in the place of %s */", e->fields[i].temporary.name);
    return "";
}

/* Every member has 8 bytes, in the order image.h gives. */
static const char *structure_text(Emitter *e) {
    static const char *const roles[] = {[LS_IN] = "in", [LS_INOUT] = "inout", [LS_OUT] = "out"};
    const Function *f = e->f;
    Text text = text_open(e->arena);
    text_printf(&text, "struct %s {\n", e->arguments);
    for (uint32_t i = 0; i < f->axis_count; i++)
        text_printf(&text,
                    emit_list_of(e, i) < 0 || emit_is_rest(e, i) ? "    i64 %s;\n"
                                                                 : "    const i64 *%s;\n",
                    e->size_name[i]);
    for (uint32_t i = 0; i < f->parameter_count; i++) {
        const Parameter *p = &f->parameters[i];
        text_printf(&text, "    %s%s *%s%s; /* %s %s", p->role == LS_IN ? "const " : "",
                    type_info[p->type].c_name, emit_is_list(e, i) ? "const *" : "",
                    e->field_name[i], roles[p->role], type_info[p->type].name);
        if (p->axes) shape_comment(e, &text, p->declared ? p->declared : p->axes);
        text_puts(&text, " */\n");
    }
    for (size_t i = 0; i < e->field_count; i++)
        text_printf(&text, "    %s *%s%s;%s\n", e->fields[i].type,
                    e->fields[i].temporary.pointers ? "const *" : "", e->fields[i].temporary.name,
                    place_comment(e, i));
    for (size_t i = 0; i < e->table_count; i++)
        text_printf(&text, "    const ls_entry *%s;\n    i64 %s_count;\n", e->tables[i].name,
                    e->tables[i].name);
    if (e->layout != LS_LAYOUT_DENSE)
        for (size_t i = 0; i < f->parameter_count; i++)
            for (size_t axis = 0; axis < f->axis_count; axis++)
                if (f->parameters[i].declared >> axis & 1)
                    text_printf(&text, "    i64 %s;\n", e->stride_name[i * LS_AXES_MAX + axis]);
    if (draws_numbers(f)) text_puts(&text, "    i64 first_tensor, first_element; /* of draws */\n");
    emit_iteration_words(e, &text);
    if (e->target->by_address) text_puts(&text, "    u8 *block_memory; /* not given */\n");
    text_puts(&text, "};\n");
    return text.data;
}

/* ---- the module ---- */

/* Whether the text accesses arrays of the type: the plan's, or what a schedule keeps in memory of
 * its own. */
static bool accesses(const Emitter *e, Type type) {
    bool any = e->vectors[type];
    for (size_t i = 0; i < e->plan->array_count; i++) any |= e->plan->arrays[i].type == type;
    return any;
}

static const char *accesses_text(Emitter *e) {
    Text text = text_open(e->arena);
    for (int type = 0; type < TYPE_COUNT; type++) {
        if (!accesses(e, (Type)type)) continue;
        const char *name = type_info[type].name, *storage = type_info[type].c_name;
        const char *compute = emit_type(type_info[type].compute);
        text_printf(&text, "LS_ACCESS(%s, %s, %s)\n", name, storage, compute);
        if (e->target->gpu && e->layout == LS_LAYOUT_DENSE)
            text_printf(&text, "LS_ACCESS_VEC4(%s, %s, %s)\nLS_ACCESS_SOME(%s)\n", name, storage,
                        compute, storage);
        if (e->eights) text_printf(&text, "LS_ACCESS_VEC8(%s, %s, %s)\n", name, storage, compute);
    }
    return text.data;
}

/* The lines that are not there yet: several texts of one file use the same macros. */
static void add_new_lines(Text *out, const char *lines) {
    while (*lines) {
        const char *end = strchr(lines, '\n');
        const size_t size = end ? (size_t)(end - lines) + 1 : strlen(lines);
        bool there = false;
        for (const char *at = out->data; *at && !there; at = strchr(at, '\n') + 1)
            there = strncmp(at, lines, size) == 0;
        if (!there) text_add(out, lines, size);
        lines += size;
    }
}

static const char *module_text(Emitter *e, const char *phases, const char *kernels,
                               const char *how) {
    Text code = text_open(e->arena), text = text_open(e->arena);
    text_puts(&code, accesses_text(e));
    emit_reduction_library(e, &code);
    text_puts(&code, e->called.data);
    const char *definitions =
        arena_printf(e->arena, "%s\n%s", structure_text(e), emit_wrap(e, phases));
    kernels = emit_wrap(e, kernels);
    if (e->shared) { /* the file's maker puts the prelude and the library before it all */
        add_new_lines(&e->shared[0], code.data);
        emit_c_functions(e, &e->shared[1]);
        return arena_printf(e->arena, "/* Step %s, %s. */\n%s", e->f->name, how,
                            emit_fold(e, definitions, kernels));
    }
    emit_c_functions(e, &code);
    text_printf(&code, "\n%s%s", definitions, kernels);
    const char *file = e->f->range.file && e->f->range.file < e->compiler->source_count
                           ? e->compiler->sources[e->f->range.file].path
                           : "";
    text_printf(&text, "/* Step %s%s", e->f->name, *file ? " of " : "");
    emit_quote(&text, file, file + strlen(file));
    if (e->f->math != LS_MATH_EXACT) text_printf(&text, ", math %s", ir_math_names[e->f->math]);
    text_printf(&text, ", %s. Generated by Lockstep %s. */\n\n", how, compiler_version());
    if (e->promotes) text_puts(&text, "#define LS_PROMOTED 1\n\n");
    if (e->target->converts_from)
        text_printf(&text, "#define LS_CONVERTS_FROM %u\n\n", e->target->converts_from);
    if (e->target->extrema_from)
        text_printf(&text, "#define LS_EXTREMA_FROM %u\n\n", e->target->extrema_from);
    text_puts(&text, embedded_text(e->target->prelude));
    text_puts(&text, "\n");
    library_add_used(e->compiler, &text, e->target, code.data);
    text_add(&text, code.data, code.size);
    return text.data;
}

/* Of a reduction: values of tiles, and their maxima; levels of a row panel, and its partial
 * results. Of a phase: two counters, one of its segments, and a table of two words. Of a kernel: a
 * counter. */
size_t emit_words_bound(const Plan *plan) {
    const Function *f = plan->function;
    size_t words = f->axis_count + f->parameter_count + 2;
    words += 2 * plan->array_count; /* worker scratch stands behind them */
    for (size_t i = 0; i < plan->phase_count; i++) words += 5 + 6 * plan->phases[i].reduction_count;
    for (size_t i = 0; i < f->parameter_count; i++)
        words += (size_t)__builtin_popcount(f->parameters[i].declared);
    if (f->iteration)
        words += f->iteration->loop_count + (f->iteration->loop_count + 1) * f->parameter_count;
    size_t kernels = 0;
    for (size_t i = 0; i < plan->grouping_count; i++)
        if (plan->groupings[i].count > kernels) kernels = plan->groupings[i].count;
    return words + kernels;
}

/* Of the argument structure: what is wrong with their number, or NULL. */
static const char *words_problem(const Emitter *e) {
    size_t words = e->f->axis_count + e->f->parameter_count + e->field_count + 2 * e->table_count;
    for (size_t i = 0; e->layout != LS_LAYOUT_DENSE && i < e->f->parameter_count; i++)
        words += (size_t)__builtin_popcount(e->f->parameters[i].declared);
    words += draws_numbers(e->f) ? 2 : 0;
    words += emit_iteration_words(e, NULL);
    if (words > emit_words_bound(e->plan))
        bug(e->compiler, "step %s has %zu argument words, and at most %zu were expected",
            e->f->name, words, emit_words_bound(e->plan));
    if (words <= LS_ARGUMENTS_MAX) return NULL;
    return arena_printf(e->arena,
                        "step %s needs %zu argument words, and a kernel takes %d: split the step",
                        e->f->name, words, LS_ARGUMENTS_MAX);
}

static ls_image_extent phase_work(Emitter *e, uint32_t phase) {
    return plan_extent(e->f, 1, e->plan->phases[phase].outer | e->plan->phases[phase].inner);
}

/* Of one part: a tensor's, or without a list what one coordinate of the outer axes has. */
static ls_image_extent part_work(Emitter *e, uint32_t number) {
    const Phase *phase = &e->plan->phases[number];
    const bool list = ir_list_axis(e->f, phase->inner) >= 0;
    return plan_extent(e->f, 1, list ? phase->outer | phase->inner : phase->inner);
}

static void add_condition(ls_image_variant *variant, ls_image_condition condition) {
    ((ls_image_condition *)(uintptr_t)variant->conditions)[variant->condition_count++] = condition;
}

static void add_conditions(Emitter *e, ls_image_variant *variant, const Grouping *grouping,
                           const PhaseText *phases, const RowClass *rows,
                           const PlainNest *const *nests) {
    const Plan *plan = e->plan;
    variant->conditions =
        arena_alloc(e->arena, (4 * plan->phase_count + PANEL_CONDITIONS + plan->array_count) *
                                  sizeof *variant->conditions);
    if (grouping->panels)
        variant->condition_count = emit_panel_conditions(
            e, grouping, (ls_image_condition *)(uintptr_t)variant->conditions);
    variant->condition_count += (uint32_t)emit_row_conditions(
        e, grouping, nests, rows,
        (ls_image_condition *)(uintptr_t)variant->conditions + variant->condition_count);
    variant->condition_count += emit_promotion_conditions(
        e, (ls_image_condition *)(uintptr_t)variant->conditions + variant->condition_count);
    for (size_t k = 0; grouping->limited && k < grouping->count; k++) {
        const uint32_t end = grouping->kernels[k].first + grouping->kernels[k].count;
        const uint32_t last_block = end - grouping->kernels[k].last_block;
        for (uint32_t i = last_block; i < end; i++)
            add_condition(variant, (ls_image_condition){.extent = phase_work(e, i),
                                                        .at_most = e->target->last_block_limit});
        for (uint32_t i = last_block - grouping->kernels[k].segment_epilogue; i < last_block; i++)
            add_condition(variant, (ls_image_condition){.extent = part_work(e, i),
                                                        .largest = 1,
                                                        .at_most = e->target->part_limit});
        const uint32_t first = grouping->kernels[k].first;
        for (uint32_t i = first - grouping->kernels[k].pre_reductions; i < first; i++)
            add_condition(variant, (ls_image_condition){.extent = phase_work(e, i),
                                                        .at_most = e->target->pre_reduction_limit});
    }
    for (size_t k = 0; grouping->few && k < plan->kernel_count; k++) {
        const uint32_t first = plan->kernels[k].first;
        if (plan->kernels[k].kind != KERNEL_ROW_FUSION ||
            plan_one_tile(e->f, plan->phases[first].inner))
            continue;
        add_condition(variant, (ls_image_condition){.extent = phases[first].panel_items,
                                                    .at_most = e->target->few_rows});
        add_condition(variant, (ls_image_condition){.extent = phases[first].panel_tiles,
                                                    .at_least = e->target->many_tiles,
                                                    .at_most = UINT64_MAX});
    }
}

/* By phase: the kernel that runs it row by row, or NULL. Row panels of threads
 * do that with the phases along their rows. */
static const Kernel **chained_phases(Emitter *e, const Grouping *grouping) {
    const Kernel **fused = arena_alloc(e->arena, (e->plan->phase_count + 1) * sizeof *fused);
    for (size_t k = 0; k < grouping->count; k++) {
        const Kernel *kernel = &grouping->kernels[k];
        const bool panels = kernel->kind == KERNEL_ROW_PANELS && !e->target->gpu;
        for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
            if (kernel->kind == KERNEL_ROW_FUSION ||
                (panels && e->plan->phases[i].shape == SHAPE_ROWS))
                fused[i] = kernel;
    }
    return fused;
}

/* By phase: the kernel whose segment epilogue runs after the phase's rows. */
static const Kernel **followed_phases(Emitter *e, const Grouping *grouping) {
    const Kernel **followed = arena_alloc(e->arena, (e->plan->phase_count + 1) * sizeof *followed);
    for (size_t k = 0; k < grouping->count; k++) {
        const Kernel *kernel = &grouping->kernels[k];
        for (uint32_t i = kernel->first;
             kernel->segment_epilogue && i < kernel->first + plan_mains(kernel); i++)
            followed[i] = kernel;
    }
    return followed;
}

static void add_phase(Emitter *e, const Grouping *grouping, uint32_t number, Text *out,
                      PhaseText *phases) {
    const size_t fields = e->field_count;
    phases[number] = emit_portions(e, grouping, number, out);
    phases[number].fields = fields;
    phases[number].field_count = e->field_count - fields;
}

/* What follows others, which call it, stands before them. */
static void add_phases(Emitter *e, const Grouping *grouping, const PlainNest *const *nests,
                       Text *out, PhaseText *phases) {
    const Kernel **fused = chained_phases(e, grouping);
    e->followed = followed_phases(e, grouping);
    e->fused = NULL;
    for (size_t k = 0; k < grouping->count; k++) {
        const Kernel *kernel = &grouping->kernels[k];
        const uint32_t first = kernel->first + plan_mains(kernel);
        for (uint32_t i = first; i < first + kernel->segment_epilogue; i++)
            add_phase(e, grouping, i, out, phases);
        if (kernel->segment_epilogue) emit_segment_epilogue(e, out, kernel, phases);
    }
    for (size_t k = 0; k < grouping->count; k++) /* what is printed with its kernel */
        for (uint32_t i = 0; nests[k] && i < plan_mains(&grouping->kernels[k]); i++)
            phases[grouping->kernels[k].first + i].name = "";
    for (uint32_t i = 0; i < e->plan->phase_count; i++) {
        e->fused = fused[i];
        if (!phases[i].name) add_phase(e, grouping, i, out, phases);
    }
}

/* Whether kernels of their own would have texts for the lengths of rows. */
static bool reduces_rows(const Plan *plan) {
    for (size_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        if (phase->shape == SHAPE_ROWS && phase->outer && phase->reduction_count) return true;
    }
    return false;
}

uint64_t emit_work_limit(const Plan *plan, const Target *target, const Grouping *grouping) {
    const bool waits =
        target->together_limit && (plan->kernel_count > 1 || plan->function->iteration);
    if (grouping->kernels[0].kind != KERNEL_ALL) return UINT64_MAX;
    /* one launch without waiting is better than one with */
    if (!waits) return target->one_block_limit;
    return plan->function->iteration || !reduces_rows(plan) ? target->together_limit
                                                            : target->waits_limit;
}

/* What no kernel of the variant touches takes no memory. */
static void drop_untouched(Emitter *e) {
    for (size_t i = e->f->parameter_count; i < e->plan->array_count; i++) {
        bool touched = false;
        for (size_t p = 0; p < e->plan->phase_count; p++)
            touched |= e->touched[p * e->plan->array_count + i];
        if (!touched) e->fields[i - e->f->parameter_count].temporary.bytes.scale = 0;
    }
}

/* Nor does what a block has in its shared memory. */
static void drop_promoted(Emitter *e) {
    for (size_t i = e->f->parameter_count; i < e->plan->array_count; i++)
        if (emit_is_promoted(e, i)) e->fields[i - e->f->parameter_count].temporary.bytes.scale = 0;
}

/* The axes that rows of CPU kernels run along, as image.h has them. Lengths that differ by tensor
 * or follow from others stay what the arguments say. */
static AxisSet row_axes(const Emitter *e) {
    AxisSet axes = 0;
    for (uint32_t i = 0; i < e->plan->phase_count && !e->target->gpu; i++) {
        const Phase *phase = &e->plan->phases[i];
        if (phase->shape == SHAPE_ROWS && phase->outer) axes |= phase->inner;
    }
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        const Axis *row = &e->f->axes[axis];
        if (row->fixed >= 0 || row->parent >= 0 || row->whole >= 0 || row->terms ||
            emit_list_of(e, axis) >= 0)
            axes &= ~((AxisSet)1 << axis);
    }
    return axes;
}

/* What the variant of row panels is called where there are two. */
static const char *panels_text(const Emitter *e) {
    const bool few = e->target->panel_few && e->panel_lanes == e->target->panel_lanes[0];
    return few ? "row panels of few rows" : "row panels";
}

/* Whether the variant of that number gets its text. */
static bool wants_text(const Emitter *e, size_t number) {
    return !e->suits && (!e->known || number == e->known_variant);
}

/* Whether it is the last of those that are wanted. Where one of the others may have too many
 * arguments, all are looked at: then there is no image. */
static bool is_last(const Emitter *e, const ls_image_variant *variant, size_t number) {
    if (!e->suits) return e->known && number == e->known_variant;
    return emit_words_bound(e->plan) <= LS_ARGUMENTS_MAX && e->suits(e->suits_user, variant);
}

bool emit_variant(Emitter *e, const ls_image_variant *first, ls_image_variant *variant,
                  ls_image_layout layout, Grouping grouping, const RowClass *rows,
                  const char **problem) {
    const bool all = grouping.kernels[0].kind == KERNEL_ALL, waits = emit_waits(e, all);
    const Plan *const plan = e->plan;
    const size_t phase_count = plan->phase_count, number = (size_t)(variant - first);
    const char *step = names_label(e->arena, e->f->name);
    *variant = (ls_image_variant){.name = NULL};
    if (e->found) return true;
    const PlainNest *const *nests = emit_row_nests(e, &grouping, rows);
    if (!nests) return true;
    e->plan = plan_worker_scratch(plan, e->target, &grouping);
    e->kinds = arena_alloc(e->arena, OP_COUNT * sizeof *e->kinds);
    e->layout = layout;
    e->touched = arena_alloc(e->arena, (phase_count * e->plan->array_count + 1) * sizeof(bool));
    e->fields = NULL;
    e->eights = false;
    memset(e->vectors, 0, sizeof e->vectors);
    e->called = text_open(e->arena);
    e->field_count = e->field_capacity = 0;
    e->label = e->shared ? arena_printf(e->arena, "%s_%td", step, variant - first) : step;
    e->prefix = e->shared ? arena_printf(e->arena, "%s_", e->label) : "";
    e->tables = NULL;
    e->table_count = e->table_capacity = 0;
    e->iterates = (all || e->lanes) && e->f->iteration;
    if (!e->iterates) e->strips = e->promotes = false;
    e->promoted = NULL;
    e->carried = NULL;
    name_arguments(e);
    add_plan_fields(e);

    Text phases = text_open(e->arena), kernels = text_open(e->arena);
    PhaseText *made = arena_alloc(e->arena, phase_count * sizeof *made);
    ls_image_extent *work = arena_alloc(e->arena, phase_count * sizeof *work);
    add_phases(e, &grouping, nests, &phases, made);
    if (e->promotes && !emit_find_promoted(e)) {
        e->plan = plan;
        return true;
    }
    for (uint32_t i = 0; i < phase_count; i++) work[i] = phase_work(e, i);
    ls_image_kernel *table = arena_alloc(e->arena, grouping.count * sizeof *table);
    for (size_t i = 0; i < grouping.count; i++) {
        const char *suffix = grouping.count == 1 ? "" : arena_printf(e->arena, "_%zu", i + 1);
        table[i] = nests[i] ? emit_row_kernel(e, &phases, &kernels, &grouping.kernels[i], nests[i],
                                              rows, suffix, made)
                            : emit_kernel(e, &kernels, &grouping.kernels[i], suffix, made);
    }
    if (rows) drop_untouched(e);
    drop_promoted(e);
    if (!e->strips && !e->promotes) emit_alias_temporaries(e, &grouping, made);
    ls_image_traffic *traffic = arena_alloc(e->arena, grouping.count * sizeof *traffic);
    for (size_t i = 0; i < grouping.count; i++)
        traffic[i] = plan_traffic(plan, &grouping.kernels[i], e->target->on_chip_bytes, e->arena);
    for (size_t i = 0; e->carried && i < grouping.count; i++)
        traffic[i] = plan_carried_traffic(plan, &traffic[i], e->carried, e->arena);
    ls_image_temporary *temporaries =
        arena_alloc(e->arena, (e->field_count + 1) * sizeof *temporaries);
    for (size_t i = 0; i < e->field_count; i++) temporaries[i] = e->fields[i].temporary;
    ls_image_table *tables = arena_alloc(e->arena, (e->table_count + 1) * sizeof *tables);
    for (size_t i = 0; i < e->table_count; i++) tables[i] = e->tables[i].table;

    static const char *const layout_names[] = {[LS_LAYOUT_DENSE] = "contiguous arrays",
                                               [LS_LAYOUT_PITCHED] = "contiguous rows",
                                               [LS_LAYOUT_STRIDED] = "any strides"};
    const char *name = e->strips         ? "strips"
                       : waits           ? "one launch"
                       : all             ? "one block"
                       : grouping.panels ? panels_text(e)
                       : grouping.count == 1
                           ? "one kernel"
                           : arena_printf(e->arena, "%zu kernels", grouping.count);
    const char *length =
        !rows ? "" : arena_printf(e->arena, ", rows up to %u", (unsigned)target_row_max(rows));
    const char *often = !e->iterates  ? ""
                        : e->lanes    ? ", all iterations by lanes"
                        : e->promotes ? ", all iterations in shared memory"
                                      : ", all iterations";
    const char *how =
        arena_printf(e->arena, "%s%s%s, %s", name, length, often, layout_names[layout]);
    *variant = (ls_image_variant){
        .name = how,
        .layout = layout,
        .work_count = (uint32_t)phase_count,
        .work = work,
        .work_limit = e->strips     ? e->target->strip_limit
                      : e->promotes ? e->target->one_block_limit
                                    : emit_work_limit(e->plan, e->target, &grouping),
        .one_block_limit = waits ? e->target->one_block_limit : 0,
        .temporary_count = (uint32_t)e->field_count,
        .temporaries = temporaries,
        .table_count = (uint32_t)e->table_count,
        .tables = tables,
        .kernel_count = (uint32_t)grouping.count,
        .kernels = table,
        .traffic = traffic,
        .source = wants_text(e, number) ? module_text(e, phases.data, kernels.data, how) : "",
        .iterates = e->iterates ? e->f->iteration->loop_count : 0,
        .strips = emit_strip_row(e),
        .row_axes = row_axes(e),
        .carried = e->carried,
    };
    add_conditions(e, variant, &grouping, made, rows, nests);
    *problem = words_problem(e);
    e->plan = plan;
    e->found = is_last(e, variant, number);
    return !*problem;
}

/* ---- the image ---- */

static ls_image_parameter parameter_row(const Function *f, const Parameter *p) {
    ls_image_parameter row = {.name = p->name,
                              .role = p->role,
                              .type = (ls_type)p->type,
                              .has_default = p->has_default,
                              .initial = p->initial};
    uint8_t *axes = arena_alloc(f->arena, LS_AXES_MAX);
    for (uint8_t axis = 0; axis < f->axis_count; axis++)
        if (p->declared >> axis & 1) axes[row.rank++] = axis;
    row.axes = axes;
    if (p->range.file && p->range.file < f->compiler->source_count) {
        uint32_t column;
        source_position(&f->compiler->sources[p->range.file], p->range.begin, &row.line, &column);
    }
    return row;
}

static uint32_t step_line(const Function *f) {
    uint32_t line = 0, column;
    if (f->range.file && f->range.file < f->compiler->source_count)
        source_position(&f->compiler->sources[f->range.file], f->range.begin, &line, &column);
    return line;
}

ls_image *emit_head(const Function *f, const char *target_name) {
    ls_image *image = arena_alloc(f->arena, sizeof *image);
    ls_image_axis *axes = arena_alloc(f->arena, (f->axis_count + 1) * sizeof *axes);
    ls_image_parameter *parameters =
        arena_alloc(f->arena, (f->parameter_count + 1) * sizeof *parameters);
    for (size_t i = 0; i < f->axis_count; i++)
        axes[i] = (ls_image_axis){.name = f->axes[i].name,
                                  .fixed = f->axes[i].fixed,
                                  .parent = (uint32_t)(f->axes[i].parent + 1),
                                  .whole = (uint32_t)(f->axes[i].whole + 1),
                                  .length = f->axes[i].length,
                                  .terms = f->axes[i].terms,
                                  .term_count = (uint32_t)f->axes[i].term_count};
    for (size_t i = 0; i < f->parameter_count; i++)
        parameters[i] = parameter_row(f, &f->parameters[i]);
    *image = (ls_image){
        .version = LS_IMAGE_VERSION,
        .step = f->name,
        .target = arena_copy(f->arena, target_name, strlen(target_name)),
        .source_file = f->range.file && f->range.file < f->compiler->source_count
                           ? f->compiler->sources[f->range.file].path
                           : "",
        .numeric_version = numeric_version(),
        .math = ir_math_names[f->math],
        .axis_count = (uint32_t)f->axis_count,
        .axes = axes,
        .parameter_count = (uint32_t)f->parameter_count,
        .parameters = parameters,
        .line = step_line(f),
    };
    return image;
}

static Emitter open_emitter(const Plan *plan, const Target *target, Text *shared) {
    const Function *f = plan->function;
    return (Emitter){.plan = plan,
                     .f = f,
                     .compiler = f->compiler,
                     .arena = f->arena,
                     .target = target,
                     .shared = shared};
}

static const ls_image *emit_image(Emitter *e, const char *target_name, ls_image_layout last,
                                  const char **problem) {
    const Plan *plan = e->plan;
    const Function *f = plan->function;
    ls_image *image = emit_head(f, target_name);
    ls_image_parameter *parameters = (ls_image_parameter *)(uintptr_t)image->parameters;
    for (uint32_t i = 0; i < f->parameter_count; i++)
        parameters[i].optional = plan_is_optional(plan, i);
    image->variants = emit_variants(e, last, &image->variant_count, problem);
    if (!image->variants) return NULL;
    image->draws = draws_numbers(f);
    return image;
}

const ls_image *emit_step(const Plan *plan, const Target *target, const char *target_name,
                          ls_image_layout last, Text *shared, const char **problem) {
    Emitter e = open_emitter(plan, target, shared);
    return emit_image(&e, target_name, last, problem);
}

const ls_image *emit_tables(const Plan *plan, const Target *target, const char *target_name,
                            EmitSuits *suits, const void *user, const char **problem) {
    Emitter e = open_emitter(plan, target, NULL);
    e.suits = suits;
    e.suits_user = user;
    return emit_image(&e, target_name, LS_LAYOUT_DENSE, problem);
}

const char *emit_known(const Plan *plan, const Target *target, uint32_t variant,
                       const int64_t *lengths) {
    Emitter e = open_emitter(plan, target, NULL);
    const char *problem;
    uint32_t count;
    e.known = lengths;
    e.known_variant = variant;
    const ls_image_variant *variants = emit_variants(&e, LS_LAYOUT_STRIDED, &count, &problem);
    if (!variants || variant >= count)
        bug(plan->function->compiler, "step %s has no variant %u for known lengths",
            plan->function->name, variant);
    return variants[variant].source;
}
