/* coalesce.c: loop coalescing: a loop and the one in it become one loop over both.
 *
 * Needs the outer loop to be serial or a grid loop, its body to be one serial loop, and the number
 * of that one's iterations to be the same in each of the outer's. Keeps the order of iterations. An
 * index that is contiguous from row to row stays linear in the new loop; any other takes a
 * division, whose quotient and remainder stand for the old loops. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

const char *nest_coalesce(Nest *nest, SymbolId loop, bool divide) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *outer = *place, *inner = outer->body;
    if (outer->loop != LOOP_SERIAL && outer->loop != LOOP_GRID) return "the loop is dealt already";
    if (!inner || inner->next || inner->kind != NEST_LOOP || inner->loop != LOOP_SERIAL)
        return "in the loop is more than one serial loop";
    if (index_uses(inner->extent, loop)) return "the inner loop differs from one to the next";
    const char *name =
        arena_printf(arena, "%s_%s", nest->symbols[loop].name, nest->symbols[inner->name].name);
    const SymbolId both = nest_symbol(nest, name, NAMED_LOOP, TYPE_I64);
    const SymbolId quotient = nest_symbol(nest, nest->symbols[loop].name, NAMED_VALUE, TYPE_I64);
    const Index row = index_symbol(arena, quotient);
    const Index rest =
        index_subtract(arena, index_symbol(arena, both), index_multiply(arena, row, inner->extent));
    NestNode *body = nest_copy(arena, inner->body);
    body = nest_put_index(nest, body, inner->name, rest);
    nest_replace(nest, body, loop, row);
    if (nest_body_uses(nest, body, quotient)) {
        if (!divide) return "an index does not go on from row to row";
        NestNode *let = arena_alloc(arena, sizeof *let);
        *let = (NestNode){.kind = NEST_LET,
                          .name = quotient,
                          .value = ir_op(nest->values, OP_FLOORDIV,
                                         nest_index_value(nest, index_symbol(arena, both)),
                                         nest_index_value(nest, inner->extent), 0),
                          .next = body};
        body = let;
    }
    outer->name = both;
    outer->extent = index_multiply(arena, outer->extent, inner->extent);
    outer->body = body;
    return NULL;
}
