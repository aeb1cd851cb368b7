/* strip.c: strip-mines a loop: a loop over strips of so many iterations, and in it a serial one
 * over those of a strip, of which the last may have fewer.
 *
 * Needs a serial or grid loop. Keeps the order of iterations. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

const char *nest_strip(Nest *nest, SymbolId loop, int64_t size, SymbolId *inner) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop), *first = NULL, **end = &first;
    int64_t extent;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place, *after = old->next;
    if (old->loop != LOOP_SERIAL && old->loop != LOOP_GRID) return "the loop is dealt already";
    if (size < 1) return "a strip has at least one iteration";
    const char *name = nest->symbols[loop].name;
    const SymbolId outer =
        nest_symbol(nest, arena_printf(arena, "%s_strip", name), NAMED_LOOP, TYPE_I64);
    const SymbolId own = nest_symbol(nest, name, NAMED_LOOP, TYPE_I64);
    const Index begin = index_scale(arena, index_symbol(arena, outer), size);
    const Index left = index_subtract(arena, old->extent, begin);
    const Index count = nest_ceiling(nest, &end, old->extent, size, "strips");
    NestNode *over = nest_add(nest, &end, *old);
    over->name = outer;
    over->extent = count;
    over->body = NULL;
    over->next = after;
    end = &over->body;
    Index width = index_number(arena, size);
    if (!index_is_number(old->extent, &extent) || extent % size) {
        Function *f = nest->values;
        const SymbolId min =
            nest_symbol(nest, arena_printf(arena, "%s_width", name), NAMED_VALUE, TYPE_I64);
        const ValueId max = ir_constant(f, TYPE_I64, (uint64_t)size);
        nest_add(nest, &end,
                 (NestNode){.kind = NEST_LET,
                            .name = min,
                            .value = ir_op(f, OP_MIN, max, nest_index_value(nest, left), 0)});
        width = index_symbol(arena, min);
    }
    NestNode *body =
        nest_put_index(nest, old->body, loop, index_add(arena, begin, index_symbol(arena, own)));
    nest_add(nest, &end,
             (NestNode){.kind = NEST_LOOP,
                        .loop = LOOP_SERIAL,
                        .name = own,
                        .extent = width,
                        .body = body,
                        .range = old->range});
    *place = first;
    if (inner) *inner = own;
    return NULL;
}
