/* emit_gather.c: reads and adds at coordinates that the step computes, in generated code.
 *
 * An offset is made of the listed indices and, for the axes that are not listed, of the phase's own
 * coordinates. Every index is compared with its axis' length first, so nothing outside an array is
 * touched: a read gives 0 there, an addition is left out. */
#include <stdio.h>
#include <string.h>

#include "compiler.h"
#include "plan.h"
#include "emit.h"

const char *emit_position(Emitter *e, AxisSet over) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < e->outer_count + e->inner_count; i++) {
        const Group *group = i < e->outer_count ? &e->outer[i] : &e->inner[i - e->outer_count];
        if (!(group->axes & over)) continue;
        int last = 31 - __builtin_clz(group->axes);
        Text stride = text_open(e->arena);
        for (size_t axis = (size_t)last + 1; axis < e->f->axis_count; axis++)
            if (over >> axis & 1)
                text_printf(&stride, "%s%s", stride.size ? " * " : "", e->size_name[axis]);
        text_printf(&text, "%s%s", text.size ? " + " : "", group->name);
        if (stride.size)
            text_printf(&text, strchr(stride.data, '*') ? " * (%s)" : " * %s", stride.data);
    }
    return strchr(text.data, ' ') ? arena_printf(e->arena, "(%s)", text.data) : text.data;
}

/* Where an array is touched at the coordinates of a list: the condition that it is within, "" when
 * it must be, and the offset. */
typedef struct Spot {
    Text inside;
    const char *offset;
} Spot;

static void add_group(Group *groups, size_t *count, Group group) {
    groups[(*count)++] = group;
}

/* An index along the whole of blocks, for an array that has the blocks only. */
static Group listed_group(Emitter *e, AxisSet array, uint64_t axis, const char *index) {
    const Axis *row = &e->f->axes[axis];
    if (row->block < 0) return (Group){(AxisSet)1 << axis, index, e->size_name[axis]};
    AxisSet both = ir_expand(e->f, (AxisSet)1 << axis) & array;
    if (!(both >> row->rest & 1))
        index = arena_printf(e->arena, "(%s / %lld)", index, (long long)row->length);
    return (Group){both, index, e->size_name[axis]};
}

static Spot find_spot(Emitter *e, uint32_t array, ValueId list) {
    const Function *f = e->f;
    const AxisSet axes = e->plan->arrays[array].axes, listed = ir_listed(f, list);
    Spot spot = {.inside = text_open(e->arena)};
    Group groups[3 * LS_AXES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < e->outer_count; i++)
        if (e->outer[i].axes & axes & ~listed) add_group(groups, &count, e->outer[i]);
    for (size_t i = 0; i < e->inner_count; i++)
        if (e->inner[i].axes & axes & ~listed) add_group(groups, &count, e->inner[i]);
    for (; list; list = f->values[list].arg[1]) {
        const Value *entry = &f->values[list], *index = &f->values[entry->arg[0]];
        const char *text = e->text_of[entry->arg[0]];
        Group group = listed_group(e, axes, entry->payload, text);
        if (group.axes & axes) add_group(groups, &count, group);
        if (index->op == OP_INDEX && index->payload == entry->payload) continue;
        text_printf(&spot.inside, "%sls_inside(%s, %s)", spot.inside.size ? " & " : "",
                    emit_bare(e, text), group.size);
    }
    spot.offset = emit_offset(e, array, groups, count);
    return spot;
}

const char *emit_gather(Emitter *e, const Value *value) {
    const uint32_t number = e->plan->array_of[value->arg[0]];
    if (!number)
        bug(e->compiler, "value %u of step %s is gathered and has no array", value->arg[0],
            e->f->name);
    const Spot spot = find_spot(e, number - 1, value->arg[1]);
    const char *load = arena_printf(e->arena, "ls_load_%s(%s, %s)",
                                    type_info[e->plan->arrays[number - 1].type].c_name,
                                    emit_data(e, number - 1), spot.offset);
    if (!spot.inside.size) return load;
    return arena_printf(e->arena, "(%s ? %s : 0)", spot.inside.data, load);
}

void emit_scatter(Emitter *e, Text *out, const PhaseStore *store, const char *guard) {
    const Value *value = &e->f->values[store->value];
    const Spot spot = find_spot(e, store->array, value->arg[1]);
    text_puts(out, guard);
    if (spot.inside.size) text_printf(out, "if (%s) ", spot.inside.data);
    text_printf(out, "LS_ADD(%s, %s, %s);\n", emit_data(e, store->array), spot.offset,
                emit_bare(e, e->text_of[value->arg[0]]));
}
