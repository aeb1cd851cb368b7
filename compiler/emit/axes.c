/* axes.c: the axes of a phase: how they are called, and their lengths in generated code. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "emit/emit.h"

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

static const char *coordinate_of(Emitter *e, uint32_t axis) {
    const AxisSet own = (AxisSet)1 << axis;
    if (e->list == (int)axis) return e->tensor.name;
    for (size_t i = 0; i < e->outer_count; i++)
        if (e->outer[i].axes == own) return e->outer[i].name;
    for (size_t i = 0; i < e->inner_count; i++)
        if (e->inner[i].axes == own) return e->inner[i].name;
    bug(e->compiler, "axis %u has no coordinate of its own", axis);
}

const char *emit_size(Emitter *e, uint32_t axis) {
    const Axis *row = &e->f->axes[axis];
    if (emit_is_rest(e, axis) && !emit_is_split(e, axis))
        return arena_printf(e->arena, "ls_min(%lld, %s - %lld * %s)", (long long)row->length,
                            emit_size(e, (uint32_t)row->whole), (long long)row->length,
                            coordinate_of(e, (uint32_t)row->parent));
    const int list = emit_list_of(e, axis);
    if (list < 0 || emit_is_rest(e, axis) || list == e->list) return e->size_name[axis];
    return arena_printf(e->arena, "a->%s[%s]", e->size_name[axis],
                        coordinate_of(e, (uint32_t)list));
}

const char *emit_given_size(Emitter *e, uint32_t axis) {
    if (e->known && e->known[axis] > 0)
        return arena_printf(e->arena, "%lld", (long long)e->known[axis]);
    return arena_printf(e->arena, "a->%s", e->size_name[axis]);
}

bool emit_in_loop_columns(const Emitter *e) {
    const Phase *phase = e->phase;
    if (e->target->gpu) return false;
    return phase->shape == SHAPE_COLUMNS ||
           (phase->shape == SHAPE_SCAN && phase->outer > phase->inner);
}

static void name_group(Emitter *e, Group *group) {
    Text name = text_open(e->arena), size = text_open(e->arena), max = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        if (!(group->axes >> axis & 1)) continue;
        const int whole = e->f->axes[axis].whole;
        const AxisSet both = whole < 0 ? 0 : ir_expand(e->f, (AxisSet)1 << whole);
        const uint32_t own =
            both && (group->axes & both) == both ? (uint32_t)e->f->axes[axis].whole : axis;
        const char *star = size.size ? " * " : "";
        text_printf(&name, "%s%s", name.size ? "_" : "", e->f->axes[own].name);
        text_printf(&size, "%s%s", star, emit_size(e, own));
        if (emit_is_split(e, own))
            text_printf(&max, "%s%lld", star, (long long)e->f->axes[own].length);
        else
            text_printf(&max, "%s%s", star, emit_size(e, own));
        if (own != axis) axis++;
    }
    group->name = names_user(e, name.data);
    group->size = size.data;
    group->max = max.data;
}

static size_t find_groups(Emitter *e, AxisSet axes, Group *groups) {
    AxisSet units[LS_AXES_MAX];
    const size_t count = schedule_units(e->plan, e->number - 1, axes, e->layout, e->fused, units);
    for (size_t i = 0; i < count; i++) groups[i] = (Group){.axes = units[i]};
    for (size_t i = 0; i < count; i++) name_group(e, &groups[i]);
    return count;
}

void emit_open_axes(Emitter *e) {
    const AxisSet all = e->phase->outer | e->phase->inner;
    e->tensor = (Group){0};
    e->list = ir_list_axis(e->f, all);
    if (e->list >= 0)
        e->tensor = (Group){.axes = (AxisSet)1 << e->list,
                            .name = names_user(e, e->f->axes[e->list].name),
                            .size = e->size_name[e->list]};
    e->outer_count = find_groups(e, e->phase->outer & ~e->tensor.axes, e->outer);
    e->inner_count = find_groups(e, e->phase->inner, e->inner);
}

const char *emit_product(Emitter *e, const Group *groups, size_t count) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < count; i++) text_printf(&text, "%s%s", i ? " * " : "", groups[i].size);
    return count ? text.data : "1";
}

/* Whether another phase stores to it. In a kernel of several phases such memory is not constant,
 * and a GPU's compiler may read what is declared `const restrict` through a cache that thinks so;
 * and a phase may be inlined in one that writes what it reads. */
bool emit_changes(const Emitter *e, uint32_t array) {
    const bool matters = e->target->gpu || e->followed[e->number - 1];
    const Array *row = &e->plan->arrays[array];
    if (e->iterates && row->parameter != UINT32_MAX) /* in an earlier iteration */
        return e->f->iteration->changes[row->parameter];
    for (size_t p = 0; matters && p < e->plan->phase_count; p++) {
        const Phase *phase = &e->plan->phases[p];
        for (size_t i = 0; phase != e->phase && i < phase->store_count; i++)
            if (phase->stores[i].array == array) return true;
    }
    return false;
}
