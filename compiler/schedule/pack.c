/* pack.c: redirects loads of rows that a thread has packed to the packed copies.
 *
 * The rows of a lane of a row panel are 128 apart, so that they would map to the same few sets of
 * every cache. Where a lane has 8 of them, the kernel copies these ahead of the phases, one behind
 * the other with a gap, in the type that the phases compute with. Here an index that advances by a
 * row's length becomes an index of the copies. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { ROWS = 8, TILE = 1024, GAP = 1056 };

static SymbolId copy_of(const Pack *pack, uint32_t array) {
    PlainNest *plain = pack->plain;
    Nest *nest = plain->nest;
    const NestSymbol own = nest->symbols[plain->arrays[array]];
    if (!plain->packed)
        plain->packed = arena_alloc(nest->arena, pack->plan->array_count * sizeof *plain->packed);
    if (!plain->packed[array])
        plain->packed[array] = nest_array(nest, arena_printf(nest->arena, "%s_packed", own.name),
                                          type_info[own.type].compute, ARRAY_TEMPORARY, false,
                                          make_scale(nest, pack->gap, ROWS));
    return plain->packed[array];
}

/* Whether from row to row an index advances by a row's length, or by a stride of the array's. */
static bool is_pitch(const Pack *pack, uint32_t array, Index step) {
    const uint32_t parameter = pack->plan->arrays[array].parameter;
    const SymbolId *strides = pack->plain->strides;
    if (index_equal(step, pack->length)) return true;
    for (uint32_t a = 0; strides && parameter != UINT32_MAX && a < LS_AXES_MAX; a++) {
        const SymbolId stride = strides[parameter * LS_AXES_MAX + a];
        if (stride && index_equal(step, make_symbol(pack->plain->nest, stride))) return true;
    }
    return false;
}

static Index step_of(const Pack *pack, Index at) {
    return index_coefficient(pack->plain->nest->arena, at, pack->row);
}

static bool is_packed(const Pack *pack, const NestNode *load, uint32_t *array) {
    const Index at = load->at_count ? load->at[0] : (Index){NULL, 0};
    for (*array = 0; *array < pack->plan->array_count; ++*array)
        if (pack->packed[*array] && pack->plain->arrays[*array] == load->array)
            return load->kind == NEST_LOAD && index_uses(at, pack->row) &&
                   is_pitch(pack, *array, step_of(pack, at));
    return false;
}

static bool find_packed(const Pack *pack, const NestNode *body) {
    uint32_t array;
    for (const NestNode *node = body; node; node = node->next)
        if (is_packed(pack, node, &array) || find_packed(pack, node->body) ||
            find_packed(pack, node->other))
            return true;
    return false;
}

static void replace(const Pack *pack, NestNode *body, Index lane_row) {
    Nest *nest = pack->plain->nest;
    const Index to = make_times(nest, pack->gap, lane_row);
    uint32_t array;
    for (NestNode *node = body; node; node = node->next) {
        replace(pack, node->body, lane_row);
        replace(pack, node->other, lane_row);
        if (!is_packed(pack, node, &array)) continue;
        const Index from =
            make_times(nest, step_of(pack, node->at[0]), make_symbol(nest, pack->row));
        node->array = copy_of(pack, array);
        node->at = make_at(nest, make_add(nest, make_less(nest, node->at[0], from), to), NULL);
    }
}

static void find_gap(Pack *pack, NestNode ***end) {
    Nest *nest = pack->plain->nest;
    pack->gap = make_scale(nest, nest_ceiling(nest, end, pack->length, TILE, "row_tiles"), GAP);
}

void schedule_pack(Pack *pack, NestNode **body) {
    Nest *nest = pack->plain->nest;
    NestNode *before = NULL, **end = &before;
    if (!pack->packed || !find_packed(pack, *body)) return;
    find_gap(pack, &end);
    const Index row = make_symbol(nest, pack->row);
    const Index lane = make_let_index(nest, &end, "row_128s",
                                      make_value(nest, OP_FLOORDIV, row, make_number(nest, 128)));
    const Index tile = make_let_index(nest, &end, "row_tile",
                                      make_value(nest, OP_FLOORDIV, row, make_number(nest, TILE)));
    replace(pack, *body, make_less(nest, lane, make_scale(nest, tile, ROWS)));
    *end = *body;
    *body = before;
}

void schedule_pack_at(Pack *pack, NestNode *body, Index lane_row, NestNode ***end) {
    if (!pack->packed || !find_packed(pack, body)) return;
    find_gap(pack, end);
    replace(pack, body, lane_row);
}
