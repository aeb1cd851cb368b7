/* pack.c: redirects loads of rows that a thread has packed to the packed copies.
 *
 * The rows of a lane of a row panel are 128 apart, so that they would map to the same few sets of
 * every cache. The kernel copies the 8 rows of a part ahead of the phases, one behind the other
 * with a gap, in the type that the phases compute with. Here an index that advances by a row's
 * length becomes an index of the copies. Where a column has no more rows than 512, its lanes have
 * fewer, rows of several lanes make a part, and most of them are neighbours: then nothing is
 * copied, unless it is converted. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { ROWS = 8, TILE = 1024, LANES = 128, GAP = 1056 };

ValueId schedule_lane_rows(Nest *nest, Index rows) {
    ValueId value = make_constant(nest, ROWS);
    for (int64_t own = ROWS / 2; own; own /= 2) {
        const ValueId few = make_value(nest, OP_LE, rows, make_number(nest, LANES * own));
        value = ir_op(nest->values, OP_SELECT, few, make_constant(nest, own), value);
    }
    return value;
}

/* From one copy to the next. */
static Index gap_of(const Pack *pack, NestNode ***end) {
    Nest *nest = pack->plain->nest;
    return make_scale(nest, nest_ceiling(nest, end, pack->length, TILE, "row_tiles"), GAP);
}

static Index extent_of(const Nest *nest, SymbolId array) {
    size_t i = 0;
    while (nest->arrays[i].symbol != array) i++;
    return nest->arrays[i].extent;
}

static SymbolId copy_of(const Pack *pack, uint32_t array) {
    PlainNest *plain = pack->plain;
    Nest *nest = plain->nest;
    const NestSymbol own = nest->symbols[plain->arrays[array]];
    if (!plain->packed)
        plain->packed = arena_alloc(nest->arena, pack->plan->array_count * sizeof *plain->packed);
    if (!plain->packed[array])
        plain->packed[array] = nest_array(nest, arena_printf(nest->arena, "%s_packed", own.name),
                                          type_info[own.type].compute, ARRAY_TEMPORARY, false,
                                          extent_of(nest, plain->arrays[array]));
    return plain->packed[array];
}

static bool is_packed(const Pack *pack, const NestNode *load, uint32_t *array) {
    const Index at = load->at_count ? load->at[0] : (Index){NULL, 0};
    for (*array = 0; *array < pack->plan->array_count; ++*array)
        if (pack->packed[*array] && pack->plain->arrays[*array] == load->array)
            return load->kind == NEST_LOAD && index_uses(at, pack->row) &&
                   index_equal(index_coefficient(pack->plain->nest->arena, at, pack->row),
                               pack->length);
    return false;
}

bool schedule_packs(const Pack *pack, const NestNode *body) {
    uint32_t array;
    for (const NestNode *node = body; node && pack->packed; node = node->next)
        if (is_packed(pack, node, &array) || schedule_packs(pack, node->body) ||
            schedule_packs(pack, node->other))
            return true;
    return false;
}

static bool converts(const Pack *pack) {
    for (uint32_t i = 0; i < pack->plan->array_count; i++) {
        const Type type = pack->plan->arrays[i].type;
        if (pack->packed[i] && type_info[type].compute != type) return true;
    }
    return false;
}

Index schedule_copy(const Pack *pack, Index rows, Index row, Index copy, NestNode ***end) {
    Nest *nest = pack->plain->nest;
    const Index own = make_times(nest, gap_of(pack, end), copy);
    if (converts(pack)) return own;
    const ValueId few = make_value(nest, OP_LE, rows, make_number(nest, LANES * ROWS / 2));
    const ValueId at = ir_op(nest->values, OP_SELECT, few,
                             nest_index_value(nest, make_times(nest, pack->length, row)),
                             nest_index_value(nest, own));
    return make_let_index(nest, end, "copy", at);
}

void schedule_pack_at(const Pack *pack, NestNode *body, Index at) {
    Nest *nest = pack->plain->nest;
    const Index from = make_times(nest, pack->length, make_symbol(nest, pack->row));
    uint32_t array;
    for (NestNode *node = body; node; node = node->next) {
        schedule_pack_at(pack, node->body, at);
        schedule_pack_at(pack, node->other, at);
        if (!is_packed(pack, node, &array)) continue;
        node->array = copy_of(pack, array);
        node->at = make_at(nest, make_add(nest, make_less(nest, node->at[0], from), at), NULL);
    }
}

static Index quotient(Nest *nest, NestNode ***end, const char *name, Index row, Index by) {
    return make_let_index(nest, end, name, make_value(nest, OP_FLOORDIV, row, by));
}

void schedule_pack(const Pack *pack, Index rows, NestNode **body) {
    Nest *nest = pack->plain->nest;
    Function *f = nest->values;
    NestNode *before = NULL, **end = &before;
    if (!schedule_packs(pack, *body)) return;
    /* of leaves in the tree's order the lowest bits count the rows of a lane, and the others lanes
     */
    const Index row = make_symbol(nest, pack->row);
    const ValueId lane_rows = schedule_lane_rows(nest, rows);
    const Index own = make_symbol(nest, nest_derived(nest, "lane_rows", lane_rows));
    const Index lanes = make_symbol(
        nest, nest_derived(nest, "part_lanes",
                           ir_op(f, OP_FLOORDIV, make_constant(nest, ROWS), lane_rows, 0)));
    const Index in_lane = quotient(nest, &end, "row_128s", row, make_number(nest, LANES));
    const Index tile = quotient(nest, &end, "row_tile", row, make_number(nest, TILE));
    const Index part = quotient(nest, &end, "row_lanes", row, lanes);
    const Index lane = make_less(nest, row, make_times(nest, part, lanes));
    const Index leaf = make_add(nest, make_less(nest, in_lane, make_scale(nest, tile, ROWS)),
                                make_times(nest, lane, own));
    schedule_pack_at(pack, *body, schedule_copy(pack, rows, row, leaf, &end));
    *end = *body;
    *body = before;
}
