/* gather.c: reads and adds at coordinates that the step computes, in generated code.
 *
 * An offset is made of the listed indices and, for the axes that are not listed, of the phase's own
 * coordinates. Every index is compared with its axis' length first, so nothing outside an array is
 * touched: a read gives 0 there, an addition is left out. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* Where an array is touched at the coordinates of a list: the condition that it is within, "" when
 * it must be, the pointer and the offset. */
typedef struct Spot {
    Text inside;
    const char *data, *offset;
} Spot;

/* The index that a list has for an axis, or NULL. */
static const char *listed_index(const Emitter *e, ValueId list, int axis) {
    for (; list; list = e->f->values[list].arg[1])
        if (e->f->values[list].payload == (uint64_t)axis)
            return e->text_of[e->f->values[list].arg[0]];
    return NULL;
}

/* How long the axis is at the other indices of the list. */
static const char *listed_size(Emitter *e, ValueId list, uint32_t axis) {
    const Axis *row = &e->f->axes[axis];
    const char *block = emit_is_rest(e, axis) ? listed_index(e, list, row->parent) : NULL;
    if (!block) return emit_size(e, axis);
    return arena_printf(e->arena, "ls_least(%lld, %s - %lld * %s)", (long long)row->length,
                        emit_size(e, (uint32_t)row->whole), (long long)row->length, block);
}

/* An index along the whole of blocks is one of a block and one within it, too. */
static Group listed_group(Emitter *e, AxisSet array, uint32_t axis, const char *index) {
    const Axis *row = &e->f->axes[axis];
    if (row->block < 0) return (Group){.axes = (AxisSet)1 << axis, .name = index};
    const char *block = arena_printf(e->arena, "(%s / %lld)", index, (long long)row->length);
    const char *rest = arena_printf(e->arena, "(%s %% %lld)", index, (long long)row->length);
    return (Group){.axes = ir_expand(e->f, (AxisSet)1 << axis) & array,
                   .name = index,
                   .whole = axis + 1,
                   .block = block,
                   .rest = rest};
}

/* Of the phase's own coordinates those along `axes`; of q and k that are walked as n perhaps one.
 */
static size_t kept_groups(Emitter *e, const Group *from, size_t count, AxisSet axes,
                          Group *groups) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const AxisSet own = from[i].axes & axes;
        if (!own) continue;
        groups[kept] = from[i];
        if (own != from[i].axes && from[i].whole)
            groups[kept] =
                (Group){.axes = own, .name = emit_coordinate(e, (uint32_t)__builtin_ctz(own))};
        kept++;
    }
    return kept;
}

static Spot find_spot(Emitter *e, uint32_t array, ValueId list) {
    const Function *f = e->f;
    const AxisSet axes = e->plan->arrays[array].axes, kept = axes & ~ir_listed(f, list);
    Spot spot = {.inside = text_open(e->arena)};
    Group groups[3 * LS_AXES_MAX + 1];
    size_t count = kept_groups(e, &e->tensor, 1, kept, groups);
    count += kept_groups(e, e->outer, e->outer_count, kept, groups + count);
    count += kept_groups(e, e->inner, e->inner_count, kept, groups + count);
    const int tensors = ir_list_axis(f, axes);
    const char *tensor = tensors >= 0 ? listed_index(e, list, tensors) : NULL;
    if (tensor) /* before the others, whose lengths differ with it */
        text_printf(&spot.inside, "ls_inside(%s, %s)", emit_bare(e, tensor),
                    emit_size(e, (uint32_t)tensors));
    e->tensor_at = tensor;
    const char *and = tensor ? " && " : "";
    for (ValueId at = list; at; at = f->values[at].arg[1]) {
        const Value *entry = &f->values[at], *index = &f->values[entry->arg[0]];
        const uint32_t axis = (uint32_t)entry->payload;
        const char *text = e->text_of[entry->arg[0]];
        Group group = listed_group(e, axes, axis, text);
        if ((int)axis == tensors) continue;
        if (group.axes & axes) groups[count++] = group;
        const bool own = index->op == OP_INDEX && index->payload == axis;
        /* a phase's own coordinate is within, unless another tensor or block is shorter */
        if (own && !tensor &&
            !(emit_is_rest(e, axis) && listed_index(e, list, f->axes[axis].parent)))
            continue;
        text_printf(&spot.inside, "%sls_inside(%s, %s)", and, emit_bare(e, text),
                    listed_size(e, list, axis));
        and = " & ";
    }
    spot.offset = emit_offset(e, array, groups, count);
    spot.data = emit_data(e, array);
    e->tensor_at = NULL;
    return spot;
}

const char *emit_gather(Emitter *e, const Value *value) {
    const uint32_t number = plan_source(e->plan, e->phase, value->arg[0]);
    if (!number)
        bug(e->compiler, "value %u of step %s is gathered and has no array", value->arg[0],
            e->f->name);
    const Spot spot = find_spot(e, number - 1, value->arg[1]);
    const char *load =
        arena_printf(e->arena, "ls_load_%s(%s, %s)",
                     type_info[e->plan->arrays[number - 1].type].c_name, spot.data, spot.offset);
    if (spot.inside.size) load = arena_printf(e->arena, "(%s ? %s : 0)", spot.inside.data, load);
    return load;
}

void emit_scatter(Emitter *e, Text *out, const PhaseStore *store, const char *guard) {
    const Value *value = &e->f->values[store->value];
    const Spot spot = find_spot(e, store->array, value->arg[1]);
    text_puts(out, guard);
    if (spot.inside.size) text_printf(out, "if (%s) ", spot.inside.data);
    text_printf(out, "LS_ADD(%s, %s, %s);\n", spot.data, spot.offset,
                emit_bare(e, e->text_of[value->arg[0]]));
}
