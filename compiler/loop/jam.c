/* jam.c: unroll and jam: an unrolled loop becomes serial steps of so many unrolled iterations.
 *
 * Needs an unrolled loop whose extent is a multiple of that number. Keeps the order of iterations,
 * and the numbers of leaves, which move with the index. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

const char *nest_jam(Nest *nest, SymbolId loop, int64_t by) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop);
    int64_t extent;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place;
    if (old->loop != LOOP_UNROLLED || !index_is_number(old->extent, &extent))
        return "the loop is not unrolled";
    if (by < 1 || by > extent || extent % by) return "the extent is no multiple of that";
    if (by == extent) return NULL;
    const SymbolId step = nest_symbol(nest, "q", NAMED_LOOP, TYPE_I64);
    const Index at = index_add(arena, index_scale(arena, index_symbol(arena, step), by),
                               index_symbol(arena, loop));
    NestNode *serial = arena_alloc(arena, sizeof *serial);
    nest_replace(nest, old->body, loop, at);
    *serial = (NestNode){.kind = NEST_LOOP,
                         .loop = LOOP_SERIAL,
                         .name = step,
                         .extent = index_number(arena, extent / by),
                         .body = old,
                         .next = old->next};
    old->extent = index_number(arena, by);
    old->next = NULL;
    *place = serial;
    return NULL;
}
