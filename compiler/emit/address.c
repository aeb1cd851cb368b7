/* address.c: where elements are in memory, in generated code: coordinates, lengths, offsets.
 *
 * An array over the whole of blocks, n, and one over the blocks q and their elements k have the
 * same offsets, 256 q + k along n; what differs is where the next row begins. A list's tensors are
 * dense on their own, each with a pointer: their offsets leave out the axis that counts them. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* ---- coordinates and lengths ---- */

bool emit_is_rest(const Emitter *e, uint32_t axis) {
    const int whole = e->f->axes[axis].whole;
    return whole >= 0 && e->f->axes[whole].rest == (int)axis;
}

bool emit_is_split(const Emitter *e, uint32_t axis) {
    return emit_is_rest(e, axis) && e->phase->inner >> axis & 1 &&
           !(e->phase->inner >> e->f->axes[axis].parent & 1);
}

int emit_list_of(const Emitter *e, uint32_t axis) {
    const Axis *row = &e->f->axes[axis];
    return ir_list_axis(e->f, (AxisSet)1 << (emit_is_rest(e, axis) ? row->parent : (int)axis));
}

bool emit_is_list(const Emitter *e, uint32_t array) {
    return ir_list_axis(e->f, e->plan->arrays[array].axes) >= 0;
}

/* q or k of a group that walks along n. */
static const char *part_of(Emitter *e, const Group *group, bool rest) {
    const Axis *whole = &e->f->axes[group->whole - 1];
    e->asked |= (AxisSet)1 << (rest ? whole->rest : whole->block);
    return rest ? group->rest : group->block;
}

static const char *coordinate_in(Emitter *e, const Group *group, uint32_t axis) {
    if (group->axes == (AxisSet)1 << axis) return group->name;
    if (!group->whole || !(group->axes >> axis & 1)) return NULL;
    return part_of(e, group, emit_is_rest(e, axis));
}

const char *emit_coordinate(Emitter *e, uint32_t axis) {
    const char *name = e->list == (int)axis ? e->tensor.name : NULL;
    for (size_t i = 0; !name && i < e->outer_count; i++)
        name = coordinate_in(e, &e->outer[i], axis);
    for (size_t i = 0; !name && i < e->inner_count; i++)
        name = coordinate_in(e, &e->inner[i], axis);
    if (!name) bug(e->compiler, "axis %u has no coordinate of its own", axis);
    return name;
}

const char *emit_size(Emitter *e, uint32_t axis) {
    const Axis *row = &e->f->axes[axis];
    if (emit_is_rest(e, axis) && !emit_is_split(e, axis))
        return arena_printf(e->arena, "ls_least(%lld, %s - %lld * %s)", (long long)row->length,
                            emit_size(e, (uint32_t)row->whole), (long long)row->length,
                            emit_coordinate(e, (uint32_t)row->parent));
    const int list = emit_list_of(e, axis);
    if (list < 0 || emit_is_rest(e, axis) || (list == e->list && !e->tensor_at))
        return e->size_name[axis];
    return arena_printf(e->arena, "a->%s[%s]", e->size_name[axis],
                        e->tensor_at ? e->tensor_at : emit_coordinate(e, (uint32_t)list));
}

/* ---- arrays ---- */

const char *emit_data(Emitter *e, uint32_t array) {
    e->touched[(e->number - 1) * e->plan->array_count + array] = true;
    if (emit_is_list(e, array) && (e->list < 0 || e->tensor_at)) {
        uint32_t list = (uint32_t)ir_list_axis(e->f, e->plan->arrays[array].axes);
        return arena_printf(e->arena, "LS_TENSOR(a->%s, %s)", e->field_name[array],
                            e->tensor_at ? e->tensor_at : emit_coordinate(e, list));
    }
    if (!e->data_name[array])
        e->data_name[array] =
            names_made(e, arena_printf(e->arena, "%s_data", e->field_name[array]));
    return e->data_name[array];
}

bool emit_has_group(const Emitter *e, uint32_t array, const Group *group) {
    return e->plan->arrays[array].axes & group->axes;
}

/* How something lies in memory; also a flat position, which lies nowhere. */
typedef struct Form {
    AxisSet axes;
    AxisSet declared;    /* of a parameter, as written: n or its q and k */
    const char **stride; /* by axis, where each has its own; else NULL: dense */
    int list;            /* an axis that pointers stand for, or -1 */
} Form;

static Form form_of(const Emitter *e, uint32_t array) {
    const Array *a = &e->plan->arrays[array];
    Form form = {.axes = a->axes, .list = ir_list_axis(e->f, a->axes)};
    if (a->parameter == UINT32_MAX) return form;
    form.declared = e->f->parameters[a->parameter].declared;
    if (e->layout == LS_LAYOUT_STRIDED && form.list < 0)
        form.stride = &e->stride_name[array * LS_AXES_MAX];
    return form;
}

/* Times the lengths along the axes from `from` on. */
static void multiply(Emitter *e, const Form *form, Text *text, size_t from) {
    for (size_t axis = from; axis < e->f->axis_count; axis++) {
        if (!(form->axes >> axis & 1) || (int)axis == form->list) continue;
        const Axis *row = &e->f->axes[axis];
        const bool both = row->whole >= 0 && form->axes >> e->f->axes[row->whole].rest & 1;
        const bool padded = both && form->declared >> e->f->axes[row->whole].rest & 1;
        if (both && !padded) axis++;
        if (text->size) text_puts(text, " * ");
        text_puts(text, emit_size(e, both && !padded ? (uint32_t)row->whole : (uint32_t)axis));
        if (padded) text_printf(text, " * %lld", (long long)e->f->axes[++axis].length);
    }
}

/* How far apart neighbours along `axes` are, which are walked as one; "1" when they are neighbours.
 */
static const char *stride_of(Emitter *e, const Form *form, AxisSet axes) {
    const uint32_t first = (uint32_t)__builtin_ctz(axes);
    uint32_t last = 31 - (uint32_t)__builtin_clz(axes);
    const Axis *row = &e->f->axes[last];
    Text text = text_open(e->arena);
    const int whole = row->whole >= 0 && form->declared >> row->whole & 1 ? row->whole : -1;
    /* from one block to the next */
    const bool blocks = row->whole >= 0 && !emit_is_rest(e, last) && form->axes >> (last + 1) & 1 &&
                        !(form->stride && whole < 0);
    if (blocks) text_printf(&text, "%lld", (long long)row->length);
    if (form->stride) {
        const char *stride = form->stride[whole >= 0 ? (uint32_t)whole : first];
        text_printf(&text, "%sa->%s", text.size ? " * " : "", stride);
    } else {
        multiply(e, form, &text, last + (blocks ? 2u : 1u));
    }
    return text.size ? text.data : "1";
}

static void add_term(Text *text, const char *name, const char *stride) {
    if (text->size) text_puts(text, " + ");
    if (strcmp(stride, "1") == 0)
        text_puts(text, name);
    else
        text_printf(text, strchr(stride, '*') ? "%s * (%s)" : "%s * %s", name, stride);
}

/* Along n: at once where the blocks follow each other, as q and k where not. */
static void add_blocked(Emitter *e, Text *text, const Form *form, const Group *group) {
    const Axis *whole = &e->f->axes[group->whole - 1];
    const AxisSet block = (AxisSet)1 << whole->block, rest = (AxisSet)1 << whole->rest;
    const bool both = (form->axes & block) && (form->axes & rest);
    if (both && !(form->stride && form->declared & rest)) {
        add_term(text, group->name, stride_of(e, form, block | rest));
        return;
    }
    add_term(text, part_of(e, group, false), stride_of(e, form, block));
    if (both) add_term(text, part_of(e, group, true), stride_of(e, form, rest));
}

static void add_groups(Emitter *e, Text *text, const Form *form, const Group *groups,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!(groups[i].axes & form->axes)) continue;
        if (form->list >= 0 && groups[i].axes >> form->list & 1) continue;
        if (groups[i].whole)
            add_blocked(e, text, form, &groups[i]);
        else
            add_term(text, groups[i].name, stride_of(e, form, groups[i].axes));
    }
}

const char *emit_offset(Emitter *e, uint32_t array, const Group *groups, size_t count) {
    const Form form = form_of(e, array);
    Text text = text_open(e->arena);
    add_groups(e, &text, &form, groups, count);
    return text.size ? text.data : "0";
}

const char *emit_outer_offset(Emitter *e, uint32_t array, size_t count) {
    return emit_join_offset(e, e->list >= 0 ? emit_offset(e, array, &e->tensor, 1) : "0",
                            emit_offset(e, array, e->outer, count));
}

const char *emit_join_offset(Emitter *e, const char *a, const char *b) {
    if (strcmp(a, "0") == 0) return b;
    if (strcmp(b, "0") == 0) return a;
    return arena_printf(e->arena, "%s + %s", a, b);
}

const char *emit_position(Emitter *e, AxisSet over) {
    const Form form = {.axes = over, .list = -1};
    Text text = text_open(e->arena);
    if (e->list >= 0) add_groups(e, &text, &form, &e->tensor, 1);
    add_groups(e, &text, &form, e->outer, e->outer_count);
    add_groups(e, &text, &form, e->inner, e->inner_count);
    return strchr(text.data, ' ') ? arena_printf(e->arena, "(%s)", text.data) : text.data;
}

const char *emit_position_at(Emitter *e, AxisSet over, const Group *group, const char *with) {
    const Form form = {.axes = over, .list = -1};
    Text text = text_open(e->arena);
    const Group *sides[] = {e->outer, e->inner};
    const size_t counts[] = {e->outer_count, e->inner_count};
    if (e->list >= 0) add_groups(e, &text, &form, &e->tensor, 1);
    for (int side = 0; side < (group ? 2 : 1); side++)
        for (size_t i = 0; i < counts[side]; i++) {
            Group moved = sides[side][i];
            if (group == &sides[side][i]) moved.name = with;
            add_groups(e, &text, &form, &moved, 1);
        }
    if (!group) add_term(&text, with, "1");
    return text.data;
}

bool emit_in_loop_columns(const Emitter *e) {
    const Phase *phase = e->phase;
    if (e->target->simt) return false;
    return phase->shape == SHAPE_COLUMNS ||
           (phase->shape == SHAPE_SCAN && phase->outer > phase->inner);
}

const char *emit_base(Emitter *e, uint32_t array) {
    size_t columns = emit_in_loop_columns(e) ? 1 : 0;
    if (emit_held(e, array)) return emit_held_base(e);
    return emit_join_offset(e, emit_outer_offset(e, array, e->outer_count - columns),
                            emit_offset(e, array, e->inner, e->inner_count - (1 - columns)));
}

const char *emit_index(Emitter *e, uint32_t array, Place place) {
    if (!e->plan->arrays[array].axes) return "0";
    const char *outer = emit_outer_offset(e, array, e->outer_count);
    if (place != PLACE_ELEMENT && place != PLACE_ROW) return outer;
    bool has_inner = e->plan->arrays[array].axes & e->phase->inner;
    if (e->target->simt) /* simt: coordinates of the element itself */
        return emit_join_offset(e, outer, emit_offset(e, array, e->inner, e->inner_count));
    if (!has_inner) return outer;
    /* loop: a base for the run, and the coordinate that moves */
    const Group *fast =
        emit_in_loop_columns(e) ? &e->outer[e->outer_count - 1] : &e->inner[e->inner_count - 1];
    if (strcmp(emit_base(e, array), "0") == 0) return emit_offset(e, array, fast, 1);
    if (!e->at_name[array])
        e->at_name[array] = names_made(e, arena_printf(e->arena, "%s_at", e->field_name[array]));
    return emit_join_offset(e, e->at_name[array], emit_offset(e, array, fast, 1));
}
