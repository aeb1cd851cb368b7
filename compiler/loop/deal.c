/* deal.c: deals the iterations of a loop to warps, or to the lanes of all warps: strip-mines the
 * loop by the number of warps or lanes of a block.
 *
 * Needs a serial or grid loop of independent iterations that is in no loop of threads, and in it
 * no barrier. Keeps what an iteration does. The loop advances by a block's warps or lanes at a time
 * and keeps its kind; the last step may be partial, and an affine test leaves out the missing
 * iterations. Where there is at most one step (DEAL_ONCE), there is no such loop. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static bool has_loop_of(const NestNode *body, LoopKind kind) {
    for (const NestNode *node = body; node; node = node->next)
        if ((node->kind == NEST_LOOP && node->loop == kind) || has_loop_of(node->body, kind) ||
            has_loop_of(node->other, kind))
            return true;
    return false;
}

static const char *find_problem(const NestNode *loop, bool lanes) {
    if (loop->loop != LOOP_SERIAL && loop->loop != LOOP_GRID) return "the loop is dealt already";
    if (has_loop_of(loop->body, LOOP_WARP)) return "in the loop is one over warps";
    if (lanes && has_loop_of(loop->body, LOOP_LANE)) return "in the loop is one over lanes";
    if (nest_has(loop->body, NEST_BARRIER) || nest_has(loop->body, NEST_ARRIVE))
        return "in the loop threads wait for each other";
    return NULL;
}

const char *nest_deal(Nest *nest, SymbolId loop, NestDeal to) {
    const bool lanes = to == DEAL_LANES, once = to == DEAL_ONCE;
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop), *first = NULL, **end = &first;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place;
    const char *problem = find_problem(old, lanes);
    if (problem) return problem;
    const uint32_t across = lanes ? nest->lanes : 1, threads = nest->warps * across;
    const SymbolId partition = nest_symbol(nest, "g", NAMED_LOOP, TYPE_I64);
    const SymbolId warp = nest_symbol(nest, "w", NAMED_LOOP, TYPE_I64);
    const SymbolId lane = nest_symbol(nest, "l", NAMED_LOOP, TYPE_I64);
    Index number = {NULL, 0};
    if (!once) number = index_scale(arena, index_symbol(arena, partition), threads);
    if (nest->warps > 1)
        number = index_add(arena, number, index_scale(arena, index_symbol(arena, warp), across));
    if (across > 1) number = index_add(arena, number, index_symbol(arena, lane));
    NestNode *body = nest_put_index(nest, old->body, loop, number);
    if (threads > 1) body = nest_only_where(nest, index_subtract(arena, old->extent, number), body);
    if (across > 1) body = nest_around(nest, LOOP_LANE, lane, index_number(arena, across), body);
    if (nest->warps > 1)
        body = nest_around(nest, LOOP_WARP, warp, index_number(arena, nest->warps), body);
    if (once) {
        body->range = old->range;
        NestNode **behind = &body;
        while (*behind) behind = &(*behind)->next;
        *behind = old->next;
        *place = body;
        return NULL;
    }
    const Index partitions = nest_ceiling(nest, &end, old->extent, threads, "partitions");
    body = nest_around(nest, old->loop, partition, partitions, body);
    body->range = old->range;
    body->next = old->next;
    *end = body;
    *place = first;
    return NULL;
}
