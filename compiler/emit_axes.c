/* emit_axes.c: the axes of a phase in generated code: which are walked as one, how coordinates come
 * from a flat position, and the local copies of sizes and pointers. */
#include <ctype.h>
#include <string.h>

#include "compiler.h"
#include "plan.h"
#include "emit.h"

bool emit_touches(const Emitter *e, uint32_t array) {
    if (plan_value_reads(e->plan, e->phase, array)) return true;
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].array == array && e->phase->stores[i].kind != STORE_ADD)
            return true;
    return false;
}

/* Whether what has `axes`, and is read or written along `walked` of them, lets a and b join. */
static bool lets_join(AxisSet axes, AxisSet walked, int a, int b) {
    AxisSet between = (((AxisSet)1 << b) - 1) & ~(((AxisSet)2 << a) - 1);
    if ((walked >> a & 1) != (walked >> b & 1)) return false;
    return !(walked >> a & 1) || !(axes & between);
}

static bool value_lets_join(const Emitter *e, ValueId v, int a, int b) {
    const Value *value = &e->f->values[v];
    if (value->op == OP_INDEX)
        return value->payload != (uint64_t)a && value->payload != (uint64_t)b;
    if (value->op == OP_POSITION)
        return lets_join((AxisSet)value->payload, (AxisSet)value->payload, a, b);
    if ((value->op != OP_GATHER && value->op != OP_SCATTER) || plan_is_read(e->plan, e->phase, v))
        return true;
    AxisSet axes = value->op == OP_GATHER ? e->f->values[value->arg[0]].axes : value->axes;
    return lets_join(axes, axes & ~ir_listed(e->f, value->arg[1]), a, b);
}

/* Whether axis b, the next of its set after a, can be walked as one with it: every array has both
 * or neither, with nothing between, and no value asks for the coordinate of either. */
static bool joins(const Emitter *e, int a, int b) {
    if (e->layout == LS_LAYOUT_STRIDED) return false;
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        AxisSet axes = e->plan->arrays[i].axes;
        if (emit_touches(e, i) && !lets_join(axes, axes, a, b)) return false;
    }
    for (ValueId v = 1; v < e->f->value_count; v++)
        if (e->phase->needed[v] && !value_lets_join(e, v, a, b)) return false;
    return true;
}

size_t emit_groups(Emitter *e, AxisSet axes, Group *groups) {
    size_t count = 0;
    int before = -1;
    for (int axis = 0; axis < LS_AXES_MAX; axis++) {
        if (!(axes >> axis & 1)) continue;
        if (before >= 0 && joins(e, before, axis))
            groups[count - 1].axes |= (AxisSet)1 << axis;
        else
            groups[count++] = (Group){.axes = (AxisSet)1 << axis};
        before = axis;
    }
    for (size_t i = 0; i < count; i++) {
        Text name = text_open(e->arena), size = text_open(e->arena);
        for (size_t axis = 0; axis < e->f->axis_count; axis++) {
            if (!(groups[i].axes >> axis & 1)) continue;
            text_printf(&name, "%s%s", name.size ? "_" : "", e->f->axes[axis].name);
            text_printf(&size, "%s%s", size.size ? " * " : "", e->size_name[axis]);
        }
        static const char *const suffixes[] = {"first", "above", NULL};
        groups[i].name = emit_stem(e, name.data, suffixes);
        groups[i].size = size.data;
    }
    return count;
}

const char *emit_product(Emitter *e, const Group *groups, size_t count) {
    Text text = text_open(e->arena);
    for (size_t i = 0; i < count; i++) text_printf(&text, "%s%s", i ? " * " : "", groups[i].size);
    return count ? text.data : "1";
}

/* Coordinates of the groups from the flat position `flat`. With `run` the fastest one is only where
 * a run begins, NAME_first. */
void emit_decode(Emitter *e, Text *out, const Group *groups, size_t count, const char *flat,
                 bool run) {
    const char *left = flat;
    for (size_t i = count; i-- > 1;) {
        const char *suffix = run && i == count - 1 ? "_first" : "";
        const char *size = strchr(groups[i].size, '*')
                               ? arena_printf(e->arena, "(%s)", groups[i].size)
                               : groups[i].size;
        const char *quotient = arena_printf(e->arena, "%s_above", groups[i].name);
        text_printf(out, "const i64 %s = ls_divide(%s, %s), %s%s = %s - %s * %s;\n", quotient, left,
                    groups[i].size, groups[i].name, suffix, left, quotient, size);
        left = quotient;
    }
    if (count)
        text_printf(out, "const i64 %s%s = %s;\n", groups[0].name,
                    run && count == 1 ? "_first" : "", left);
}

/* The element loop's coordinates from its flat position `at`, when one of the texts uses any. */
bool emit_coordinates(Emitter *e, Text *out, const char *body, const char *stores,
                      const char *push) {
    bool used = false;
    for (size_t i = 0; i < e->inner_count; i++)
        used |= emit_has_word(body, e->inner[i].name) || emit_has_word(stores, e->inner[i].name) ||
                emit_has_word(push, e->inner[i].name);
    if (used) emit_decode(e, out, e->inner, e->inner_count, "at", false);
    return used;
}

/* The same in a loop over the elements of a four, where `at` has to be computed. */
void emit_element_coordinates(Emitter *e, Text *out, const char *at, const char *body,
                              const char *stores, const char *push) {
    Text coordinates = text_open(e->arena);
    if (emit_coordinates(e, &coordinates, body, stores, push) || emit_has_word(push, "at"))
        text_printf(out, "const i64 at = %s;\n%s", at, coordinates.data);
}

bool emit_has_word(const char *text, const char *word) {
    size_t size = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        bool before =
            at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '>');
        bool after = isalnum((unsigned char)at[size]) || at[size] == '_';
        if (!before && !after) return true;
    }
    return false;
}

static bool written(const Emitter *e, uint32_t array) {
    for (size_t i = 0; i < e->phase->store_count; i++)
        if (e->phase->stores[i].array == array) return true;
    return false;
}

/* Local copies of what the other holes use of the argument structure. */
const char *emit_locals(Emitter *e, const Hole *holes, size_t count) {
    Text all = text_open(e->arena), out = text_open(e->arena);
    for (size_t i = 0; i < count; i++)
        if (holes[i].text) text_printf(&all, "%s\n", holes[i].text);
    for (size_t axis = 0; axis < e->f->axis_count; axis++)
        if (emit_has_word(all.data, e->size_name[axis])) {
            if (e->f->axes[axis].fixed >= 0)
                text_printf(&out, "const i64 %s = %lld;\n", e->size_name[axis],
                            (long long)e->f->axes[axis].fixed);
            else
                text_printf(&out, "const i64 %s = a->%s;\n", e->size_name[axis],
                            e->size_name[axis]);
        }
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->data_name[i])
            text_printf(&out, "%s%s *LS_RESTRICT const %s = a->%s;\n",
                        written(e, i) ? "" : "const ", type_info[e->plan->arrays[i].type].c_name,
                        e->data_name[i], e->field_name[i]);
    return out.data;
}
