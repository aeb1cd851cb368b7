/* pack.c: the rows that a strip's phases read again and again, of the dialect with one lane.
 *
 * The rows of a lane are 128 apart. Where rows are a power of two long, all of them would stand in
 * the same few places of every cache, each phase would fetch them anew, and no two of them would be
 * a stream to the processor. So a worker copies a row in order before the row's first phase, into
 * memory of its own in which 8 rows keep out of each other's way, and widens narrow elements once
 * for all phases. Needs contiguous arrays; other layouts read where the rows lie. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

/* From one held row to the next there are GAP elements for every TILE: see LS_HELD_GAP. */
enum { ROWS = 8, TILE = 1024, GAP = 1056 };

static bool in_strips(const Emitter *e, uint32_t number) {
    const Kernel *strips = e->strips;
    return strips && number >= strips->first && number < strips->first + strips->count;
}

/* Whether more than one phase of the strips reads the array, along rows and columns, and none
 * writes it. */
static bool is_read_again(const Emitter *e, uint32_t array) {
    const Plan *plan = e->plan;
    uint32_t reads = 0;
    for (uint32_t i = e->strips->first; i < e->strips->first + e->strips->count; i++) {
        if (plan_writes(&plan->phases[i], array) || plan_gathers(plan, &plan->phases[i], array))
            return false;
        reads += plan_value_reads(plan, &plan->phases[i], array);
    }
    return reads > 1;
}

static Type held_type(const Emitter *e, uint32_t array) {
    return type_info[e->plan->arrays[array].type].compute;
}

bool emit_holds(const Emitter *e, Type type) {
    for (int storage = 0; storage < TYPE_COUNT; storage++)
        if (e->holds[storage] && type_info[storage].compute == type) return true;
    return false;
}

void emit_note_held(Emitter *e, Type type) {
    e->holds[type] = true;
}

bool emit_may_hold(const Emitter *e, uint32_t array) {
    return type_info[held_type(e, array)].class == 'F';
}

void emit_find_held(Emitter *e, const Way *way) {
    e->strips = NULL;
    memset(e->holds, 0, sizeof e->holds);
    e->held_name = arena_alloc(e->arena, (e->plan->array_count + 1) * sizeof *e->held_name);
    if (e->target->simt || !way->strips || e->layout != LS_LAYOUT_DENSE) return;
    e->strips = emit_strips_of(way);
    const AxisSet rows = e->strips->outer, columns = e->plan->strip_columns;
    if (__builtin_ctz(columns) < 32 - __builtin_clz(rows))
        return; /* rows do not follow each other */
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        const Array *array = &e->plan->arrays[i];
        const Type type = held_type(e, i);
        if (array->axes != (rows | columns) || !emit_may_hold(e, i)) continue;
        if (!is_read_again(e, i)) continue;
        emit_note_held(e, array->type);
        ls_image_extent bytes = plan_extent(e->f, ROWS * GAP * type_info[type].size, 0);
        bytes.factor[bytes.factor_count++] = (ls_image_factor){
            .axes = plan_extent_axes(e->f, columns), .minimum = 1, .divide = TILE};
        e->held_name[i] = emit_add_field(e, arena_printf(e->arena, "%s_held", e->field_name[i]),
                                         type_info[type].c_name, bytes, false);
        e->fields[e->field_count - 1].temporary.per_block = 1;
    }
}

/* The held rows' field where the phase at hand reads them there, or NULL. */
const char *emit_held(const Emitter *e, uint32_t array) {
    if (!e->held_name[array] || !in_strips(e, e->number - 1)) return NULL;
    if (e->portion == PORTION_FINISH || e->outer_count != 1 || e->inner_count != 1) return NULL;
    return e->held_name[array];
}

const bool *emit_held_arrays(const Emitter *e) {
    bool *held = arena_alloc(e->arena, (e->plan->array_count + 1) * sizeof *held), any = false;
    for (uint32_t i = 0; i < e->plan->array_count; i++) any |= held[i] = emit_held(e, i) != NULL;
    return any ? held : NULL;
}

void emit_held_library(Emitter *e, Text *out) {
    for (int type = 0; type < TYPE_COUNT; type++)
        if (e->holds[type])
            text_printf(out, "LS_HOLD(%s, %s)\n", type_info[type].c_name,
                        type_info[type_info[type].compute].c_name);
}

/* The worker's own rows, for ahead of all strips. */
void emit_open_held(Emitter *e, Text *out, const char *columns) {
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        const char *name = e->held_name[i];
        if (!name) continue;
        if (!out->size) text_printf(out, "struct %s own = *a;\na = &own;\n", e->arguments);
        text_printf(out, "own.%s = (%s *)LS_OWN(own.%s, %u * ls_tiles(%s));\n", name,
                    type_info[held_type(e, i)].c_name, name,
                    ROWS * GAP * type_info[held_type(e, i)].size, columns);
    }
}

/* Copies `row`, ahead of its phases. */
void emit_hold(Emitter *e, Text *out, const char *columns) {
    const bool several = strchr(columns, '*');
    for (uint32_t i = 0; i < e->plan->array_count; i++)
        if (e->held_name[i])
            text_printf(out,
                        "    ls_hold_%s(a->%s + ls_row_of_lane(row) * LS_HELD_GAP(%s), a->%s + row "
                        "* %s%s%s, %s);\n",
                        type_info[e->plan->arrays[i].type].c_name, e->held_name[i], columns,
                        e->field_name[i], several ? "(" : "", columns, several ? ")" : "", columns);
}

/* Asks for the first half of the next row of the held arrays from `first` to before `end`, in their
 * order: the other half comes as a stream. All at once would hold the row at hand up. */
void emit_ask_held(Emitter *e, Text *out, uint32_t first, uint32_t end, const char *columns) {
    const char *row = strchr(columns, '*') ? arena_printf(e->arena, "(%s)", columns) : columns;
    uint32_t held = 0;
    for (uint32_t i = 0; i < e->plan->array_count; i++) {
        if (!e->held_name[i]) continue;
        if (held >= first && held < end)
            text_printf(out,
                        "    if (next < rows) ls_ask_rows(&a->%s[next * %s], %s * "
                        "(i64)sizeof(%s) / 2);\n",
                        e->field_name[i], row, columns, type_info[e->plan->arrays[i].type].c_name);
        held++;
    }
}
