/* iterations.c: a kernel that runs all iterations of a `for`.
 *
 * The calls of its phases stand in the loop, and each iteration has arguments of its own, `turn`:
 * the slices' pointers and the coordinate. All blocks take part in each iteration and wait for each
 * other behind it; or, where nothing goes from one strip of an axis to another (ir/strips.c), the
 * loop over strips stands around the iterations, and a block runs all of them for its strip; or,
 * where nothing goes from one element to another, a lane runs all iterations of its elements. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

static bool has_strips(const Emitter *e, size_t parameter) {
    return e->strips && (e->f->parameters[parameter].axes >> e->f->iteration->strip & 1);
}

void emit_name_iterations(Emitter *e) {
    const Function *f = e->f;
    const Iteration *iteration = f->iteration;
    const size_t count = f->parameter_count + 1;
    e->iterations_name = arena_alloc(e->arena, iteration->loop_count * sizeof(char *));
    e->step_name = arena_alloc(e->arena, count * LS_AXES_MAX * sizeof(char *));
    e->strip_name = arena_alloc(e->arena, count * sizeof(char *));
    for (uint32_t l = 0; l < iteration->loop_count; l++)
        e->iterations_name[l] = names_made(e, "iterations");
    for (size_t i = 0; i < f->parameter_count; i++) {
        for (uint32_t a = 0; a < f->axis_count; a++)
            if (iteration->moves[i] >> a & 1)
                e->step_name[i * LS_AXES_MAX + a] =
                    names_made(e, arena_printf(e->arena, "%s_step", e->field_name[i]));
        e->strip_name[i] = names_made(e, arena_printf(e->arena, "%s_strip", e->field_name[i]));
    }
}

uint32_t emit_iteration_words(const Emitter *e, Text *out) {
    const Iteration *iteration = e->f->iteration;
    uint32_t words = 0;
    for (uint32_t l = 0; e->iterates && l < iteration->loop_count; l++, words++)
        if (out)
            text_printf(out, "    i64 %s; /* along %s */\n", e->iterations_name[l],
                        e->f->axes[iteration->loops[l].axis].name);
    for (size_t i = 0; e->iterates && i < e->f->parameter_count; i++)
        for (uint32_t a = 0; a < e->f->axis_count; a++) {
            if (!(iteration->moves[i] >> a & 1)) continue;
            words++;
            if (out)
                text_printf(out, "    i64 %s; /* bytes from one slice to the next along %s */\n",
                            e->step_name[i * LS_AXES_MAX + a], e->f->axes[a].name);
        }
    for (size_t i = 0; e->iterates && i < e->f->parameter_count; i++) {
        if (!has_strips(e, i)) continue;
        words++;
        if (out)
            text_printf(out, "    i64 %s; /* bytes from one %s to the next */\n", e->strip_name[i],
                        e->f->axes[iteration->strip].name);
    }
    return words;
}

/* turn.x = ...: where the slice, or the strip of it, begins. */
static void move(Emitter *e, Text *out, size_t parameter, bool slices) {
    const Parameter *p = &e->f->parameters[parameter];
    const Iteration *iteration = e->f->iteration;
    const char *constant = p->role == LS_IN ? "const " : "", *name = e->field_name[parameter];
    if ((iteration->moves[parameter] != 0) != slices || (!slices && !has_strips(e, parameter)))
        return;
    text_printf(out, "turn.%s = (%s%s *)((%su8 *)given->%s", name, constant,
                type_info[p->type].c_name, constant, name);
    for (uint32_t l = 0; l < iteration->loop_count; l++)
        if (iteration->moves[parameter] >> iteration->loops[l].axis & 1)
            text_printf(out, " + turn.%s * given->%s", e->size_name[iteration->loops[l].place],
                        e->step_name[parameter * LS_AXES_MAX + iteration->loops[l].axis]);
    if (has_strips(e, parameter))
        text_printf(out, " + turn.%s * given->%s", e->size_name[iteration->begin],
                    e->strip_name[parameter]);
    text_puts(out, ");\n");
}

/* The number of all iterations. */
static const char *total(const Emitter *e) {
    Text text = text_open(e->arena);
    for (uint32_t l = 0; l < e->f->iteration->loop_count; l++)
        text_printf(&text, "%sgiven->%s", l ? " * " : "", e->iterations_name[l]);
    return text.data;
}

/* turn.t_place = ...: the coordinate of one loop in the iteration; of several the last is the
 * fastest. */
static void place(Emitter *e, Text *out, uint32_t number) {
    const IterationLoop *loop = &e->f->iteration->loops[number];
    Text at = text_open(e->arena);
    const bool first = number == 0, last = number + 1 == e->f->iteration->loop_count;
    text_puts(&at, "iteration");
    for (uint32_t l = number + 1; l < e->f->iteration->loop_count; l++)
        text_printf(&at, " / given->%s", e->iterations_name[l]);
    if (!first) text_printf(&at, " %% given->%s", e->iterations_name[number]);
    text_printf(out, "turn.%s = ", e->size_name[loop->place]);
    if (loop->reverse)
        text_printf(out, first && last ? "given->%s - 1 - %s;\n" : "given->%s - 1 - (%s);\n",
                    e->iterations_name[number], at.data);
    else
        text_printf(out, "%s;\n", at.data);
}

/* The loop's head, and the arguments of one iteration. */
static void open_iterations(Emitter *e, Text *out) {
    text_printf(out, "for (i64 iteration = 0; iteration < %s; iteration++) {\n", total(e));
    for (uint32_t l = 0; l < e->f->iteration->loop_count; l++) place(e, out, l);
    for (size_t i = 0; i < e->f->parameter_count; i++) move(e, out, i, true);
}

static void open_turn(Emitter *e, Text *out) {
    text_printf(out, "const struct %s *const given = a;\nstruct %s turn = *given;\na = &turn;\n",
                e->arguments, e->arguments);
}

/* Of what others may have stored since no copy is in a cache: such arrays are not `restrict`. */
const char *emit_iterations(Emitter *e, const char *sizes, const char *calls) {
    Text text = text_open(e->arena);
    open_turn(e, &text);
    open_iterations(e, &text);
    text_printf(&text, "%s%s", sizes, calls);
    if (e->target->together_limit)
        text_printf(&text, "if (iteration + 1 < %s) ls_wait_for_blocks(a->%s);\n", total(e),
                    e->waiting_name);
    else if (e->target->gpu)
        text_puts(&text, "ls_barrier();\n");
    text_puts(&text, "}\n");
    return text.data;
}

/* ---- lanes ---- */

/* Whether all that an iteration touches of what is stored lies at an element's own coordinates. */
bool emit_is_elementwise(const Plan *plan) {
    const Function *f = plan->function;
    const Phase *phase = &plan->phases[0];
    const Kernel *kernel = &plan->kernels[0];
    const AxisSet axes = phase->outer | phase->inner;
    if (!f->iteration || plan->phase_count != 1 || plan->kernel_count != 1 ||
        kernel->kind != KERNEL_SINGLE || kernel->last_block || kernel->segment_epilogue ||
        phase->shape != SHAPE_MAP || ir_list_axis(f, axes) >= 0 || !ir_are_plain(f, axes))
        return false;
    for (size_t i = 0; i < phase->touch_count; i++) {
        const Touch *touch = &phase->touches[i];
        const uint32_t parameter = plan->arrays[touch->array].parameter;
        if (touch->adds || touch->last_block || parameter == UINT32_MAX) return false;
        if (!f->iteration->changes[parameter]) continue;
        if ((touch->elsewhere & axes) || (f->parameters[parameter].axes & axes) != axes)
            return false;
    }
    return true;
}

/* A warp runs all iterations of its items, of which a lane has the same elements in each. */
const char *emit_lanes(Emitter *e, const char *sizes, const PhaseText *phase) {
    Text text = text_open(e->arena);
    open_turn(e, &text);
    text_printf(&text, "%sfor (i64 item = ls_first_item(); item < %s; item += ls_item_step()) {\n",
                sizes, phase->item_count);
    open_iterations(e, &text);
    text_printf(&text, "%s(a, item, item + 1, 1, 0);\n}\n}\n", phase->name);
    return text.data;
}

bool emit_has_lanes(const ls_image_variant *variant) {
    const ls_image_kernel *kernel = variant->kernels;
    return variant->iterates && !variant->strips && !kernel->one_block && !kernel->cooperative;
}

/* ---- strips ---- */

/* All iterations, by this block alone. */
static void run_iterations(Emitter *e, Text *out, const char *sizes, const Kernel *kernel,
                           const PhaseText *phases) {
    emit_copy_states_in(e, out);
    open_iterations(e, out);
    if (!e->target->gpu) text_puts(out, sizes);
    for (uint32_t i = kernel->first; i < kernel->first + kernel->count; i++) {
        emit_run_alone(out, &phases[i]);
        text_puts(out, "ls_barrier();\n");
    }
    text_puts(out, "}\n");
    emit_copy_states_out(e, out);
}

const char *emit_one_block(Emitter *e, const char *sizes, const Kernel *kernel,
                           const PhaseText *phases) {
    Text text = text_open(e->arena);
    open_turn(e, &text);
    emit_declare_promoted(e, &text);
    run_iterations(e, &text, sizes, kernel, phases);
    return text.data;
}

const char *emit_strips(Emitter *e, const char *sizes, const Kernel *kernel,
                        const PhaseText *phases) {
    const Iteration *iteration = e->f->iteration;
    const char *begin = e->size_name[iteration->begin], *all = e->size_name[iteration->all];
    const char *own = e->size_name[iteration->strip];
    Text text = text_open(e->arena);
    open_turn(e, &text);
    emit_declare_promoted(e, &text);
    text_printf(&text, "{\n%s", sizes);
    for (size_t i = 0; i < e->field_count; i++)
        if (!emit_is_promoted(e, e->f->parameter_count + i))
            emit_own_field(e, &text, "turn", &e->fields[i]);
    text_puts(&text, "}\n");
    if (e->target->gpu)
        text_puts(&text, "const i64 first_item = ls_block(), last_item = LS_MAX_I64, "
                         "item_step = ls_blocks();\n");
    text_printf(&text,
                "LS_ITEMS(strip, given->%s) {\nturn.%s = strip * given->%s;\n"
                "turn.%s = ls_min(given->%s, given->%s - turn.%s);\n",
                begin, begin, own, own, own, all, begin);
    for (size_t i = 0; i < e->f->parameter_count; i++) move(e, &text, i, false);
    run_iterations(e, &text, sizes, kernel, phases);
    text_puts(&text, "}\n");
    return text.data;
}

/* The phase that visits the most axes: its elements are what a strip is shared out by. */
static AxisSet widest(const Plan *plan) {
    AxisSet most = 0;
    for (size_t i = 0; i < plan->phase_count; i++) {
        const AxisSet own = plan->phases[i].outer | plan->phases[i].inner;
        if (__builtin_popcount(own) > __builtin_popcount(most)) most = own;
    }
    return most;
}

void emit_strip_items(Emitter *e, ls_image_kernel *row) {
    const Iteration *iteration = e->f->iteration;
    const AxisSet most = widest(e->plan);
    row->items = plan_extent(e->f, 1, (AxisSet)1 << iteration->begin);
    row->items_per_block = 1;
    if (e->target->gpu) { /* in groups of 32 threads */
        row->tiles = plan_extent(e->f, 1, most);
        row->tiles.factor[0].divide = 32;
    } else { /* elements */
        AxisSet all = most;
        for (uint32_t l = 0; l < iteration->loop_count; l++)
            all |= (AxisSet)1 << iteration->loops[l].axis;
        row->tiles = plan_extent(e->f, 1, all);
    }
}

/* What ls_image_strip goes by. */
const ls_image_strips *emit_strip_row(Emitter *e) {
    const Function *f = e->f;
    const Iteration *iteration = f->iteration;
    if (!e->strips) return NULL;
    ls_image_strips *row = arena_alloc(e->arena, sizeof *row);
    ls_image_extent *bytes = arena_alloc(e->arena, (f->parameter_count + 1) * sizeof *bytes);
    *row = (ls_image_strips){.axis = (uint32_t)iteration->strip,
                             .begin = iteration->begin,
                             .all = iteration->all,
                             .work = e->target->strip_work,
                             .bytes = bytes};
    for (size_t i = 0; i < f->parameter_count; i++) {
        const AxisSet behind = ~(((AxisSet)2 << iteration->strip) - 1);
        const Parameter *p = &f->parameters[i];
        if (has_strips(e, i))
            bytes[row->array_count++] = plan_extent(f, type_info[p->type].size, p->axes & behind);
    }
    return row;
}
