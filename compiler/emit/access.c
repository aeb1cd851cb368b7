/* access.c: how the element loop of a phase reads and writes its arrays where an element at a
 * time would be slow: by fours, or a block at a time past the caches. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* Whether an array's last block has room for a whole one, so that what comes before the blocks
 * begins elsewhere than their elements say. */
static bool is_gapped(const Emitter *e, uint32_t array) {
    const Array *row = &e->plan->arrays[array];
    if (row->parameter == UINT32_MAX) return false;
    for (uint32_t axis = 0; axis < e->f->axis_count; axis++) {
        if (!emit_is_rest(e, axis)) continue;
        if (!(e->f->parameters[row->parameter].declared >> axis & 1)) continue;
        const AxisSet before = (((AxisSet)1 << e->f->axes[axis].parent) - 1) & row->axes;
        if (before & e->phase->inner) return true;
        if (before & ~e->tensor.axes && e->f->axes[axis].length % 4) return true;
    }
    return false;
}

/* Arrays of the element loop that run along it without a gap go by fours: they have all inner axes,
 * and no outer one after the first of these. */
void emit_find_fours(Emitter *e) {
    memset(e->four, 0, e->plan->array_count * sizeof *e->four);
    const Shape shape = e->phase->shape;
    if (!e->target->simt || e->layout != LS_LAYOUT_DENSE) return;
    if (shape == SHAPE_COLUMNS || shape == SHAPE_SCAN) return;
    AxisSet inner = e->phase->inner;
    if (!inner) return;
    AxisSet from_first = ~(((AxisSet)1 << __builtin_ctz(inner)) - 1);
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        AxisSet axes = e->plan->arrays[i].axes;
        if (!emit_touches(e, i) || (axes & inner) != inner || is_gapped(e, i)) continue;
        if (axes & from_first & e->phase->outer & ~e->tensor.axes) continue;
        if (e->list >= 0 && !emit_is_list(e, i) && axes & from_first & e->tensor.axes) continue;
        e->four[i] = true;
    }
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->four[i])
            e->four_name[i] = names_made(e, arena_printf(e->arena, "%s_four", e->field_name[i]));
}

/* Whether the phase writes results that may go past the caches: one thread's map, or rows that are
 * only written where memory is the limit; or what it does with a strip, whose columns are
 * neighbours in `array`. */
static bool may_stream(Emitter *e, uint32_t array) {
    enum { COST_MOST = 12 };
    const Shape shape = e->phase->shape;
    const Group *column = e->outer_count ? &e->outer[e->outer_count - 1] : NULL;
    if (e->target->simt || e->layout != LS_LAYOUT_DENSE) return false;
    if (shape == SHAPE_ROWS)
        return !e->phase->reduction_count && e->list < 0 && emit_element_cost(e) <= COST_MOST;
    return shape == SHAPE_COLUMNS && e->portion == PORTION_STRIP &&
           strcmp(emit_offset(e, array, column, 1), column->name) == 0;
}

/* Arrays that nothing in the step reads: their results go past the caches whole blocks at a time,
 * so not where a condition may keep what is there. */
void emit_find_streams(Emitter *e) {
    enum { STREAMS_MAX = 8 }; /* blocks on the stack */
    size_t count = 0;
    for (size_t i = 0; i < e->phase->store_count && count < STREAMS_MAX; i++) {
        const PhaseStore *store = &e->phase->stores[i];
        bool read = false;
        for (size_t p = 0; p < e->plan->phase_count; p++)
            read |= plan_reads(e->plan, &e->plan->phases[p], store->array);
        if (read || store->level != LEVEL_ELEMENT || store->kind == STORE_ADD) continue;
        if (emit_has_condition(e, store) || !may_stream(e, store->array)) continue;
        static const char *const suffixes[] = {"block", "to", "to_at", NULL};
        e->block_name[store->array] = names_stem(e, NULL, e->field_name[store->array], suffixes);
        count++;
    }
}

/* Of a strip: the blocks are of 64 columns of each of its rows. */
static StreamText strip_streams(Emitter *e) {
    StreamText text = {text_open(e->arena), text_open(e->arena), text_open(e->arena)};
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->block_name[i]) continue;
        const char *type = type_info[e->plan->arrays[i].type].c_name, *name = e->block_name[i];
        const char *begin = emit_join_offset(e, emit_base(e, i), "first_column");
        text_printf(&text.decide,
                    "LS_ALIGN(64) %s %s_block[8 * 64];\n%s *LS_RESTRICT const %s_to = stream ? "
                    "%s_block : %s;\n",
                    type, name, type, name, name, emit_data(e, i));
        text_printf(&text.bases, "const i64 %s_to_at = stream ? 64 * row : %s;\n", name, begin);
        text_printf(&text.blocks,
                    "ls_stream(&%s[%s], %s_block + 64 * row, width * (i64)sizeof(%s));\n",
                    emit_data(e, i), begin, name, type);
    }
    return text;
}

/* From how many bytes on: of all elements of the arrays that may. */
const char *emit_strip_streams(Emitter *e) {
    Text sizes = text_open(e->arena);
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->block_name[i])
            text_printf(&sizes, "%ssizeof(%s)", sizes.size ? " + " : "",
                        type_info[e->plan->arrays[i].type].c_name);
    if (!sizes.size) return "";
    return arena_printf(e->arena,
                        "const int stream = inner * columns * (i64)(%s) >= LS_STREAMED_ROWS;\n",
                        sizes.data);
}

StreamText emit_streams(Emitter *e) {
    if (e->portion == PORTION_STRIP) return strip_streams(e);
    StreamText text = {text_open(e->arena), text_open(e->arena), text_open(e->arena)};
    const bool rows = e->phase->shape == SHAPE_ROWS;
    const char *outers = rows ? emit_product(e, e->outer, e->outer_count) : "";
    const char *separator = arena_printf(e->arena, "const int stream = %s%s * (i64)(", outers,
                                         rows ? " * inner" : "count");
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->block_name[i]) continue;
        const char *type = type_info[e->plan->arrays[i].type].c_name, *name = e->block_name[i];
        const char *fast = e->inner[e->inner_count - 1].name;
        const char *begin =
            emit_join_offset(e, emit_base(e, i), arena_printf(e->arena, "%s_first", fast));
        text_printf(&text.decide, "%ssizeof(%s)", separator, type);
        text_printf(&text.bases,
                    "LS_ALIGN(64) %s %s_block[1024];\n%s *LS_RESTRICT const %s_to = stream ? "
                    "%s_block : &%s[%s];\n",
                    type, name, type, name, name, emit_data(e, i), begin);
        text_printf(
            &text.blocks,
            "if (stream) ls_stream(&%s[%s], %s_block, (end - %s_first) * (i64)sizeof(%s));\n",
            emit_data(e, i), begin, name, fast, type);
        separator = " + ";
    }
    if (text.decide.size)
        text_puts(&text.decide, rows ? ") >= LS_STREAMED_ROWS;\n" : ") >= LS_STREAMED;\n");
    return text;
}

/* Loads or stores all fours, each with one access or, `part`, as far as it is live. */
static const char *accesses(Emitter *e, bool loads, bool part, const char *indent) {
    Text text = text_open(e->arena);
    const char *form = part ? "part" : "four", *live = part ? ", live" : "";
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->four[i]) continue;
        const char *type = type_info[e->plan->arrays[i].type].c_name, *name = e->four_name[i];
        const char *index = emit_join_offset(e, emit_outer_offset(e, i, e->outer_count), "first");
        if (loads && plan_value_reads(e->plan, e->phase, i))
            text_printf(&text, "%s%s = ls_load_%s_%s(%s, %s%s);\n", indent, name, form, type,
                        emit_data(e, i), index, live);
        for (size_t s = 0; s < e->phase->store_count && !loads; s++) {
            const PhaseStore *store = &e->phase->stores[s];
            if (store->array == i && store->level == LEVEL_ELEMENT && store->kind != STORE_ADD)
                text_printf(&text, "%s%sls_store_%s_%s(%s, %s%s, %s);\n", indent,
                            emit_condition(e, store), form, type, emit_data(e, i), index, live,
                            name);
        }
    }
    return text.data;
}

/* Whether fours are whole is asked once for all arrays, so that their loads go out together. */
static void choose_accesses(Emitter *e, bool loads, Text *out) {
    const char *whole = accesses(e, loads, false, "    "), *part = accesses(e, loads, true, "    ");
    const char *if_whole = "if (whole) {", *otherwise = "else {";
    if (!*whole) return;
    if (e->two_passes && !loads)
        if_whole = "if (pass == 1 && whole) {", otherwise = "else if (pass == 1) {";
    text_printf(out, "%s\n%s} %s\n%s}\n", if_whole, whole, otherwise, part);
}

/* Loads before the element loop and stores after it. */
void emit_fours(Emitter *e, Text *loads, Text *stores) {
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->four[i])
            text_printf(loads, "ls_four_%s %s;\n", type_info[e->plan->arrays[i].type].c_name,
                        e->four_name[i]);
    choose_accesses(e, true, loads);
    choose_accesses(e, false, stores);
}

/* The offsets of the element loop's arrays up to the coordinate that moves; only for one lane. */
const char *emit_bases(Emitter *e) {
    Text text = text_open(e->arena);
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->at_name[i]) continue;
        text_printf(&text, "const i64 %s = %s;\n", e->at_name[i], emit_base(e, i));
    }
    return text.data;
}
