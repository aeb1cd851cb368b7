/* access.c: how the element loop of a phase writes its arrays where an element at a time would be
 * slow: a block at a time past the caches. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

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

/* The offsets of the element loop's arrays up to the coordinate that moves; only for one lane. */
const char *emit_bases(Emitter *e) {
    Text text = text_open(e->arena);
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->at_name[i]) continue;
        text_printf(&text, "const i64 %s = %s;\n", e->at_name[i], emit_base(e, i));
    }
    return text.data;
}
