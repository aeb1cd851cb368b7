/* pack.c: packing of the rows that several phases of a row panel read, in the CPU dialect.
 *
 * The rows of a lane are 128 apart. Where rows are a power of two long, all of them would map to
 * the same few sets of every cache, each phase would fetch them anew, and the processor's
 * prefetcher would see no stream. So a thread copies rows in order before their first phase, into
 * memory of its own in which 8 rows map to different sets, and widens narrow elements once for all
 * phases. Needs contiguous rows, and more than 512 of them: of fewer most rows of a part are
 * neighbours, which are read where they lie, and so are arrays of any strides
 * (LS_LAYOUT_STRIDED). */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* From one packed row to the next there are GAP elements for every TILE: see LS_PACKED_GAP. */
enum { ROWS = 8, TILE = 1024, GAP = 1056 };

static bool in_panels(const Emitter *e, uint32_t number) {
    const Kernel *panels = e->panels;
    return panels && number >= panels->first && number < panels->first + panels->count;
}

/* Whether more than one phase of the row panels reads the array, along rows and columns, and none
 * writes it. */
static bool is_read_again(const Emitter *e, uint32_t array) {
    const Plan *plan = e->plan;
    uint32_t reads = 0;
    for (uint32_t i = e->panels->first; i < e->panels->first + e->panels->count; i++) {
        if (plan_writes(&plan->phases[i], array) || plan_gathers(plan, &plan->phases[i], array))
            return false;
        reads += plan_value_reads(plan, &plan->phases[i], array);
    }
    return reads > 1;
}

/* The axis of the rows of an array that lie a stride apart; -1: they follow each other. */
static int row_axis(const Emitter *e, uint32_t array) {
    const bool strided =
        e->layout == LS_LAYOUT_PITCHED && e->plan->arrays[array].parameter != UINT32_MAX;
    return strided ? __builtin_ctz(e->panels->outer) : -1;
}

/* Whether rows lie a stride apart, if at all, each without gaps. */
static bool has_pitch(const Emitter *e, uint32_t array) {
    return row_axis(e, array) < 0 || (__builtin_popcount(e->panels->outer) == 1 &&
                                      __builtin_popcount(e->plan->panel_columns) == 1);
}

/* How many elements there are from row to row, where a row has so many. */
static const char *pitch_of(const Emitter *e, uint32_t array, const char *columns) {
    const int axis = row_axis(e, array);
    const uint32_t parameter = e->plan->arrays[array].parameter;
    if (axis < 0) return columns;
    return arena_printf(e->arena, "a->%s",
                        e->stride_name[parameter * LS_AXES_MAX + (uint32_t)axis]);
}

static Type packed_type(const Emitter *e, uint32_t array) {
    return type_info[e->plan->arrays[array].type].compute;
}

bool emit_packs(const Emitter *e, Type type) {
    for (int storage = 0; storage < TYPE_COUNT; storage++)
        if (e->packs[storage] && type_info[storage].compute == type) return true;
    return false;
}

void emit_note_packed(Emitter *e, Type type) {
    e->packs[type] = true;
}

bool emit_may_pack(const Emitter *e, uint32_t array) {
    return type_info[packed_type(e, array)].class == 'F';
}

void emit_find_packed(Emitter *e, const Grouping *grouping) {
    e->panels = NULL;
    memset(e->packs, 0, sizeof e->packs);
    e->packed_name = arena_alloc(e->arena, (e->plan->array_count + 1) * sizeof *e->packed_name);
    if (!e->packing || !grouping->panels) return;
    e->panels = emit_panels_of(grouping);
    const AxisSet rows = e->panels->outer, columns = e->plan->panel_columns;
    if (__builtin_ctz(columns) < 32 - __builtin_clz(rows))
        return; /* rows do not follow each other */
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        const Array *array = &e->plan->arrays[i];
        const Type type = packed_type(e, i);
        if (array->axes != (rows | columns) || !emit_may_pack(e, i)) continue;
        if (!is_read_again(e, i) || !has_pitch(e, i)) continue;
        emit_note_packed(e, array->type);
        ls_image_extent bytes = plan_extent(e->f, ROWS * GAP * type_info[type].size, 0);
        bytes.factor[bytes.factor_count++] = (ls_image_factor){
            .axes = plan_extent_axes(e->f, columns), .minimum = 1, .divide = TILE};
        e->packed_name[i] = emit_add_field(e, arena_printf(e->arena, "%s_packed", e->field_name[i]),
                                           type_info[type].c_name, bytes, false);
        e->fields[e->field_count - 1].temporary.per_block = 1;
    }
}

bool emit_packs_any(const Emitter *e) {
    bool any = false;
    for (size_t i = 0; i < e->plan->array_count; i++) any |= e->packed_name[i] != NULL;
    return any;
}

/* The field of the packed rows where the phase at hand reads them there, or NULL. */
const char *emit_packed(const Emitter *e, uint32_t array) {
    if (!e->packed_name[array] || !in_panels(e, e->number - 1)) return NULL;
    if (e->portion == PORTION_FINISH || e->outer_count != 1 || e->inner_count != 1) return NULL;
    return e->packed_name[array];
}

const bool *emit_packed_arrays(const Emitter *e) {
    bool *packed = arena_alloc(e->arena, (e->plan->array_count + 1) * sizeof *packed), any = false;
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        any |= packed[i] = emit_packed(e, i) != NULL;
    return any ? packed : NULL;
}

void emit_packed_library(Emitter *e, Text *out) {
    for (int type = 0; type < TYPE_COUNT; type++)
        if (e->packs[type])
            text_printf(out, "LS_PACK_ROW(%s, %s)\n", type_info[type].c_name,
                        type_info[type_info[type].compute].c_name);
}

/* The thread's own memory for packed rows, ahead of all row panels. */
void emit_open_packed(Emitter *e, Text *out, const char *columns) {
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        const char *name = e->packed_name[i];
        if (!name) continue;
        if (!out->size) text_printf(out, "struct %s own = *a;\na = &own;\n", e->arguments);
        text_printf(out, "own.%s = (%s *)LS_OWN(own.%s, %u * ls_tiles(%s));\n", name,
                    type_info[packed_type(e, i)].c_name, name,
                    ROWS * GAP * type_info[packed_type(e, i)].size, columns);
    }
}

static const char *in_parentheses(const Emitter *e, const char *columns) {
    return strchr(columns, '*') ? arena_printf(e->arena, "(%s)", columns) : columns;
}

/* Packs `row`, the only one of its run, ahead of its phases. */
void emit_pack_row(Emitter *e, Text *out, const char *columns) {
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->packed_name[i])
            text_printf(out,
                        "    ls_pack_row_%s(a->%s + (part.copy + run) * LS_PACKED_GAP(%s), a->%s + "
                        "row * %s, %s);\n",
                        type_info[e->plan->arrays[i].type].c_name, e->packed_name[i], columns,
                        e->field_name[i], pitch_of(e, i, in_parentheses(e, columns)), columns);
}

/* Prefetches the first half of the next row of the packed arrays from number `first` to before
 * `end`; the processor's prefetcher fetches the other half. More at once would delay the row at
 * hand. */
void emit_prefetch_packed(Emitter *e, Text *out, uint32_t first, uint32_t end,
                          const char *columns) {
    const char *length = in_parentheses(e, columns);
    uint32_t packed = 0;
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->packed_name[i]) continue;
        if (packed >= first && packed < end)
            text_printf(out,
                        "    if (next < rows) ls_prefetch_rows(&a->%s[next * %s], %s * "
                        "(i64)sizeof(%s) / 2);\n",
                        e->field_name[i], pitch_of(e, i, length), columns,
                        type_info[e->plan->arrays[i].type].c_name);
        packed++;
    }
}
