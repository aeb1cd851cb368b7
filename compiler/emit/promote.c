/* promote.c: promotion of arrays to a block's shared memory.
 *
 * Where one block runs all iterations of a `for`, or all those of a strip, what no other block
 * touches stays in its shared memory from one iteration to the next: a state, which each iteration
 * reads and stores, is copied there ahead of the iterations and back behind them, and temporaries
 * lie nowhere else. Each of them has the same room there, and the variant's conditions say that it
 * suffices, so that no text decides where an array lies. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

enum { ROOM_STEP = 256 }; /* bytes that rooms are a multiple of */

/* Whether in each phase that stores to what it reads a lane does both to elements of its own: what
 * all threads read and one stores they may read behind that, to no use. */
static bool are_own(const Emitter *e, uint32_t array) {
    for (size_t p = 0; p < e->plan->phase_count; p++) {
        const Phase *phase = &e->plan->phases[p];
        bool reads = false;
        for (size_t i = 0; i < phase->touch_count; i++)
            if (phase->touches[i].array == array) {
                reads = phase->touches[i].reads || phase->touches[i].gathers;
                if (phase->touches[i].last_block) return false;
            }
        for (size_t i = 0; i < phase->store_count; i++)
            if (reads && phase->stores[i].array == array && phase->stores[i].level != LEVEL_ELEMENT)
                return false;
    }
    return true;
}

/* Whether every iteration reads the parameter and stores to it, in the same place, and sees its
 * array by no other view. */
static bool is_state(const Emitter *e, uint32_t parameter) {
    const Iteration *iteration = e->f->iteration;
    return e->f->parameters[parameter].role == LS_INOUT && iteration->changes[parameter] &&
           iteration->sole[parameter] && !iteration->moves[parameter] && are_own(e, parameter);
}

static bool is_touched(const Emitter *e, uint32_t array) {
    bool touched = false;
    for (size_t p = 0; p < e->plan->phase_count; p++)
        touched |= e->touched[p * e->plan->array_count + array];
    return touched;
}

static bool may_promote(const Emitter *e, uint32_t array) {
    const Array *row = &e->plan->arrays[array];
    if (emit_is_list(e, array) || !ir_are_plain(e->f, row->axes) || !is_touched(e, array))
        return false;
    return array < e->f->parameter_count ? is_state(e, array) : !row->in_scratch;
}

bool emit_find_promoted(Emitter *e) {
    uint64_t count = 0;
    bool *promoted = arena_alloc(e->arena, e->plan->array_count + 1);
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        promoted[i] = may_promote(e, i);
        count += promoted[i];
    }
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (promoted[i]) emit_add_carried(e, i);
    e->promoted = promoted;
    e->room = count ? e->target->promoted_bytes / count / ROOM_STEP * ROOM_STEP : 0;
    return e->room > 0;
}

/* The number of elements that the part at hand has over the axes, by the arguments of the turn. */
static const char *elements(Emitter *e, AxisSet axes) {
    Text text = text_open(e->arena);
    for (uint32_t a = 0; a < e->f->axis_count; a++)
        if (axes >> a & 1) text_printf(&text, "%sturn.%s", text.size ? " * " : "", e->size_name[a]);
    return text.size ? text.data : "1";
}

void emit_declare_promoted(Emitter *e, Text *out) {
    for (uint32_t i = 0; e->promoted && i < e->plan->array_count; i++) {
        const TypeInfo *type = &type_info[e->plan->arrays[i].type];
        if (!e->promoted[i]) continue;
        text_printf(out, "LS_SHARED LS_ALIGN(16) %s promoted_%u[%llu]; /* %s */\n", type->c_name, i,
                    (unsigned long long)(e->room / type->size), e->field_name[i]);
    }
    for (uint32_t i = (uint32_t)e->f->parameter_count; e->promoted && i < e->plan->array_count; i++)
        if (e->promoted[i]) text_printf(out, "turn.%s = promoted_%u;\n", e->field_name[i], i);
}

static bool has_states(const Emitter *e) {
    bool any = false;
    for (uint32_t i = 0; e->promoted && i < e->f->parameter_count; i++) any |= e->promoted[i];
    return any;
}

/* Where element `i` of a state lies outside, by its strides. */
static const char *place_outside(Emitter *e, uint32_t parameter) {
    Text text = text_open(e->arena);
    const AxisSet axes = e->f->parameters[parameter].axes;
    for (uint32_t a = 0; a < e->f->axis_count; a++) {
        const AxisSet behind = axes & ~(((AxisSet)2 << a) - 1),
                      ahead = axes & (((AxisSet)1 << a) - 1);
        if (!(axes >> a & 1)) continue;
        text_puts(&text, text.size ? " + i" : "i");
        if (behind) text_printf(&text, " / (%s)", elements(e, behind));
        if (ahead) text_printf(&text, " %% turn.%s", e->size_name[a]);
        text_printf(&text, " * given->%s", e->stride_name[parameter * LS_AXES_MAX + a]);
    }
    return text.size ? text.data : "0";
}

/* Copies a state in or out. */
static void copy_state(Emitter *e, Text *out, uint32_t parameter, bool in) {
    const char *count = elements(e, e->f->parameters[parameter].axes);
    const char *inside = arena_printf(e->arena, "turn.%s", e->field_name[parameter]);
    const char *outside = arena_printf(e->arena, "state_%u", parameter);
    if (e->layout == LS_LAYOUT_DENSE) {
        text_printf(out, "ls_copy_by_block(%s, %s, %s);\n", in ? inside : outside,
                    in ? outside : inside, count);
        return;
    }
    inside = arena_printf(e->arena, "%s[i]", inside);
    outside = arena_printf(e->arena, "%s[%s]", outside, place_outside(e, parameter));
    text_printf(out, "for (i64 i = ls_thread(); i < %s; i += ls_threads())\n%s = %s;\n", count,
                in ? inside : outside, in ? outside : inside);
}

/* In shared memory the state is contiguous. */
static void set_strides(Emitter *e, Text *out, uint32_t parameter) {
    const AxisSet axes = e->f->parameters[parameter].axes;
    for (uint32_t a = 0; e->layout != LS_LAYOUT_DENSE && a < e->f->axis_count; a++)
        if (axes >> a & 1)
            text_printf(out, "turn.%s = %s;\n", e->stride_name[parameter * LS_AXES_MAX + a],
                        elements(e, axes & ~(((AxisSet)2 << a) - 1)));
}

void emit_copy_states_in(Emitter *e, Text *out) {
    if (!has_states(e)) return;
    for (uint32_t i = 0; i < e->f->parameter_count; i++) {
        const char *type = type_info[e->f->parameters[i].type].c_name, *name = e->field_name[i];
        if (!e->promoted[i]) continue;
        text_printf(out, "%s *const state_%u = turn.%s;\nturn.%s = promoted_%u;\n", type, i, name,
                    name, i);
        copy_state(e, out, i, true);
        set_strides(e, out, i);
    }
    text_puts(out, "ls_barrier();\n");
}

/* The next strip needs no barrier: a thread copies in what it has copied out. */
void emit_copy_states_out(Emitter *e, Text *out) {
    for (uint32_t i = 0; e->promoted && i < e->f->parameter_count; i++)
        if (e->promoted[i]) copy_state(e, out, i, false);
}

/* Partial results and counters, whose fields are behind those of the arrays, are not. */
bool emit_is_promoted(const Emitter *e, size_t array) {
    return e->promoted && array < e->plan->array_count && e->promoted[array];
}

uint32_t emit_promotion_conditions(const Emitter *e, ls_image_condition *conditions) {
    uint32_t count = 0;
    for (uint32_t i = 0; e->promoted && i < e->plan->array_count; i++)
        if (e->promoted[i])
            conditions[count++] =
                (ls_image_condition){.extent = plan_array_extent(e->f, &e->plan->arrays[i]),
                                     .at_most = e->room,
                                     .required = 1};
    return count;
}

bool emit_has_promoted(const ls_image_variant *variant) {
    return variant->iterates && variant->condition_count;
}
