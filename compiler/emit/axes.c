/* axes.c: the axes of a phase in generated code: which are walked as one, how coordinates come
 * from a flat position, and the local copies of sizes and pointers. */
#include <ctype.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

bool emit_touches(const Emitter *e, uint32_t array) {
    if (plan_value_reads(e->plan, e->phase, array)) return true;
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].array == array && e->phase->stores[i].kind != STORE_ADD)
            return true;
    return false;
}

/* The least that is walked as one: an axis, or q and k of blocks when the set has both. */
static AxisSet unit_at(const Emitter *e, AxisSet axes, uint32_t axis) {
    const int whole = e->f->axes[axis].whole;
    const AxisSet unit = whole < 0 ? 0 : ir_expand(e->f, (AxisSet)1 << whole);
    return unit && (axes & unit) == unit ? unit : (AxisSet)1 << axis;
}

/* Whether what has `axes`, and is read or written along `walked` of them, lets units a and b join.
 */
static bool lets_join(AxisSet axes, AxisSet walked, AxisSet a, AxisSet b) {
    const AxisSet up_to_a = 2 * ((AxisSet)1 << (31 - __builtin_clz(a))) - 1;
    const AxisSet between = (((AxisSet)1 << __builtin_ctz(b)) - 1) & ~up_to_a;
    if ((walked & (a | b)) == 0) return true;
    return (walked & (a | b)) == (a | b) && !(axes & between);
}

static bool value_lets_join(const Emitter *e, ValueId v, AxisSet a, AxisSet b) {
    const Value *value = &e->f->values[v];
    if (value->op == OP_INDEX) return !((a | b) >> value->payload & 1);
    if (value->op == OP_SIZE) return !(value->axes & (a | b)); /* its length differs along them */
    if (value->op == OP_POSITION)
        return lets_join((AxisSet)value->payload, (AxisSet)value->payload, a, b);
    if ((value->op != OP_GATHER && value->op != OP_SCATTER) || plan_is_read(e->plan, e->phase, v))
        return true;
    AxisSet axes = value->op == OP_GATHER ? e->f->values[value->arg[0]].axes : value->axes;
    const int list = ir_list_axis(e->f, axes);
    if (list >= 0 && (a | b) >> list & 1) return false; /* it chooses the tensor */
    return lets_join(axes, axes & ~ir_listed(e->f, value->arg[1]), a, b);
}

/* An array over q and k has room for a whole last block, so nothing before q runs on into it. */
static bool array_lets_join(const Emitter *e, uint32_t array, AxisSet a, AxisSet b) {
    const Array *row = &e->plan->arrays[array];
    const bool parameter = row->parameter != UINT32_MAX;
    if (parameter && b & (b - 1) & e->f->parameters[row->parameter].declared) return false;
    return lets_join(row->axes, row->axes, a, b);
}

/* Whether unit b, the next of its set after a, can be walked as one with it: every array has both
 * or neither, with nothing between, and no value asks for the coordinate of either. */
static bool joins(const Emitter *e, AxisSet a, AxisSet b) {
    if (e->layout == LS_LAYOUT_STRIDED) return false;
    /* the phases of a chain have the same chunks of columns */
    const AxisSet outer = e->phase->outer;
    if (e->chained && e->phase->shape == SHAPE_COLUMNS && outer & b && b > (outer & ~b))
        return false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) /* the last block's length differs */
        if (emit_is_split(e, axis) && (a | b) >> e->f->axes[axis].parent & 1) return false;
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (emit_touches(e, i) && !array_lets_join(e, i, a, b)) return false;
    for (size_t i = 0; i < e->phase->value_count; i++)
        if (!value_lets_join(e, e->phase->values[i], a, b)) return false;
    return true;
}

static void name_group(Emitter *e, Group *group) {
    static const char *const suffixes[] = {"first", "above", NULL};
    Text name = text_open(e->arena), size = text_open(e->arena), most = text_open(e->arena);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        if (!(group->axes >> axis & 1)) continue;
        const AxisSet unit = unit_at(e, group->axes, axis);
        const uint32_t own = unit & (unit - 1) ? (uint32_t)e->f->axes[axis].whole : axis;
        const char *star = size.size ? " * " : "";
        text_printf(&name, "%s%s", name.size ? "_" : "", e->f->axes[own].name);
        text_printf(&size, "%s%s", star, emit_size(e, own));
        if (emit_is_split(e, own))
            text_printf(&most, "%s%lld", star, (long long)e->f->axes[own].length);
        else
            text_printf(&most, "%s%s", star, emit_size(e, own));
        if (unit == group->axes && own != axis) {
            group->whole = own + 1;
            group->block = names_user(e, e->f->axes[e->f->axes[own].block].name);
            group->rest = names_user(e, e->f->axes[e->f->axes[own].rest].name);
        }
        if (own != axis) axis++;
    }
    group->name = names_stem(e, name.data, NULL, suffixes);
    group->size = size.data;
    group->most = most.data;
}

size_t emit_groups(Emitter *e, AxisSet axes, Group *groups) {
    size_t count = 0;
    AxisSet before = 0;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        if (!(axes & ~before & ~(((AxisSet)1 << axis) - 1)) || !(axes >> axis & 1)) continue;
        const AxisSet unit = unit_at(e, axes, axis);
        if (unit == before) continue;
        if (before && joins(e, before, unit))
            groups[count - 1].axes |= unit;
        else
            groups[count++] = (Group){.axes = unit};
        before = unit;
    }
    for (size_t i = 0; i < count; i++) name_group(e, &groups[i]);
    return count;
}

void emit_open_axes(Emitter *e) {
    const AxisSet all = e->phase->outer | e->phase->inner;
    e->asked = 0;
    e->tensor_at = NULL;
    e->tensor = (Group){0};
    e->list = ir_list_axis(e->f, all);
    if (e->list >= 0)
        e->tensor = (Group){.axes = (AxisSet)1 << e->list,
                            .name = names_user(e, e->f->axes[e->list].name),
                            .size = e->size_name[e->list]};
    e->outer_count = emit_groups(e, e->phase->outer & ~e->tensor.axes, e->outer);
    e->inner_count = emit_groups(e, e->phase->inner, e->inner);
}

const char *emit_product(Emitter *e, const Group *groups, size_t count) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < count; i++) text_printf(&text, "%s%s", i ? " * " : "", groups[i].size);
    return count ? text.data : "1";
}

/* Where q and k of a group that walks along n are asked for: from `name`, its coordinate. */
void emit_decode_blocks(Emitter *e, Text *out, const Group *group, const char *name, bool rest) {
    if (!group->whole) return;
    const Axis *whole = &e->f->axes[group->whole - 1];
    const bool asked = e->asked >> whole->rest & 1;
    if (asked || e->asked >> whole->block & 1)
        text_printf(out, "const i64 %s = (i64)((u64)%s / %lld);\n", group->block, name,
                    (long long)whole->length);
    if (rest) emit_decode_rest(e, out, group);
}

void emit_decode_rest(Emitter *e, Text *out, const Group *group) {
    if (!group->whole || !(e->asked >> e->f->axes[group->whole - 1].rest & 1)) return;
    text_printf(out, "const i64 %s = %s - %lld * %s;\n", group->rest, group->name,
                (long long)e->f->axes[group->whole - 1].length, group->block);
}

/* Coordinates of the groups from the flat position `flat`. With `run` the fastest one is only where
 * a run begins, NAME_first, and its k left to the loop over the run. */
void emit_decode(Emitter *e, Text *out, const Group *groups, size_t count, const char *flat,
                 bool run) {
    const char *left = flat;
    for (size_t i = count; i-- > 0;) {
        const bool first = run && i == count - 1;
        const char *name =
            first ? arena_printf(e->arena, "%s_first", groups[i].name) : groups[i].name;
        if (i == 0) {
            text_printf(out, "const i64 %s = %s;\n", name, left);
        } else {
            const char *size = strchr(groups[i].size, '*')
                                   ? arena_printf(e->arena, "(%s)", groups[i].size)
                                   : groups[i].size;
            const char *quotient = arena_printf(e->arena, "%s_above", groups[i].name);
            text_printf(out, "const i64 %s = ls_divide(%s, %s), %s = %s - %s * %s;\n", quotient,
                        left, groups[i].size, name, left, quotient, size);
            left = quotient;
        }
        emit_decode_blocks(e, out, &groups[i], name, !first);
    }
}

/* Where a run along the fastest group ends at the latest. */
const char *emit_run_end(Emitter *e, const Group *fast) {
    if (!fast->whole || !(e->asked & fast->axes)) return fast->size;
    const long long length = e->f->axes[fast->whole - 1].length;
    return arena_printf(e->arena, "ls_least(%s, %lld * %s + %lld)", fast->size, length, fast->block,
                        length);
}

/* The lengths of the blocks' elements at this outer coordinate. */
void emit_split_sizes(Emitter *e, Text *out) {
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        const Axis *row = &e->f->axes[axis];
        if (emit_is_split(e, axis))
            text_printf(out, "const i64 %s = ls_least(%lld, %s - %lld * %s);\n", e->size_name[axis],
                        (long long)row->length, emit_size(e, (uint32_t)row->whole),
                        (long long)row->length, emit_coordinate(e, (uint32_t)row->parent));
    }
}

/* The element loop's coordinates from its flat position `at`, when one of the texts uses any. */
bool emit_coordinates(Emitter *e, Text *out, const char *body, const char *stores,
                      const char *push) {
    const char *texts[] = {body, stores, push};
    bool used = false;
    for (size_t i = 0; i < e->inner_count; i++) {
        const Group *group = &e->inner[i];
        const char *names[] = {group->name, group->block, group->rest};
        for (size_t k = 0; k < 9; k++)
            used |= names[k % 3] && emit_has_word(texts[k / 3], names[k % 3]);
    }
    if (used) emit_decode(e, out, e->inner, e->inner_count, "at", false);
    return used;
}

/* What is quoted in comments is no use. */
bool emit_has_word(const char *text, const char *word) {
    const size_t size = strlen(word);
    const char *comment = strstr(text, "/*");
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        while (comment && comment < at) {
            const char *end = strstr(comment + 2, "*/");
            if (!end) return false;
            if (end > at) at = strstr(end, word);
            if (!at) return false;
            comment = strstr(end, "/*");
        }
        bool before =
            at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '>');
        bool after = isalnum((unsigned char)at[size]) || at[size] == '_';
        if (!before && !after) return true;
    }
    return false;
}

bool emit_next_value(Emitter *e, const char **lines, const char *used, const char **type,
                     const char **name) {
    static const char prefix[] = "const ";
    while (**lines) {
        const char *line = *lines;
        const size_t size = strcspn(line, "\n");
        const char *end = memmem(line, size, " = ", 3), *begin = end;
        *lines += size + (line[size] == '\n');
        if (!end || strncmp(line, prefix, sizeof prefix - 1) != 0) continue;
        while (begin[-1] != ' ') begin--;
        *name = arena_copy(e->arena, begin, (size_t)(end - begin));
        *type =
            arena_copy(e->arena, line + sizeof prefix - 1, (size_t)(begin - line) - sizeof prefix);
        if (emit_has_word(used, *name)) return true;
    }
    return false;
}

bool emit_writes(const Emitter *e, uint32_t array) {
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].array == array) return true;
    return false;
}

static void add_size(Emitter *e, Text *sizes, Text *tensor, uint32_t axis) {
    const char *name = e->size_name[axis];
    const int list = emit_list_of(e, axis);
    if (e->f->axes[axis].fixed >= 0)
        text_printf(sizes, "const i64 %s = %lld;\n", name, (long long)e->f->axes[axis].fixed);
    else if (list < 0)
        text_printf(sizes, "const i64 %s = a->%s;\n", name, name);
    else if (list == e->list)
        text_printf(tensor, "const i64 %s = a->%s[%s];\n", name, name, e->tensor.name);
}

/* Whether another phase stores to it. In a kernel of several phases such memory is not constant,
 * and a GPU's compiler may read what is declared `const restrict` through a cache that thinks so;
 * and a phase may be inlined in one that writes what it reads. */
bool emit_changes(const Emitter *e, uint32_t array) {
    const bool matters = e->target->simt || e->followed[e->number - 1];
    for (size_t p = 0; matters && p < e->plan->phase_count; p++) {
        const Phase *phase = &e->plan->phases[p];
        for (size_t i = 0; phase != e->phase && i < phase->store_count; i++)
            if (phase->stores[i].array == array) return true;
    }
    return false;
}

/* Local copies of what the other holes use of the argument structure: of the whole phase, and of
 * the tensor at hand. */
void emit_locals(Emitter *e, const Hole *holes, size_t count, Text *sizes, Text *tensor) {
    Text all = text_open(e->arena);
    for (size_t i = 0; i < count; i++)
        if (holes[i].text) text_printf(&all, "%s\n", holes[i].text);
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++)
        if (!emit_is_rest(e, axis) && emit_has_word(all.data, e->size_name[axis]))
            add_size(e, sizes, tensor, axis);
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->data_name[i]) continue;
        const bool list = emit_is_list(e, i);
        text_printf(list ? tensor : sizes, "%s%s *%sconst %s = ", emit_writes(e, i) ? "" : "const ",
                    emit_held_type(e, i), emit_changes(e, i) ? "" : "LS_RESTRICT ",
                    e->data_name[i]);
        if (list)
            text_printf(tensor, "LS_TENSOR(a->%s, %s);\n", e->field_name[i], e->tensor.name);
        else
            text_printf(sizes, "a->%s;\n", emit_held(e, i) ? emit_held(e, i) : e->field_name[i]);
    }
}
