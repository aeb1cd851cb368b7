/* align.c: alignment peeling: a loop along rows that begin anywhere becomes one over the elements
 * ahead of the first boundary of a vector, and behind it one from there on, in which vectors of the
 * row are vectors of memory.
 *
 * Needs a serial loop of straight code without limits that stores to an array whose index goes by
 * one along it, and pushes to no tree: iterations are independent, but a tree numbers its leaves
 * from the row's beginning. Keeps the order of iterations. Changes the index of that array into a
 * multiple of the vector and the loop's own. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* The element of the array that the first store along the loop begins at. */
static bool find_begin(Nest *nest, const NestNode *loop, Index *begin) {
    for (const NestNode *node = loop->body; node; node = node->next) {
        int64_t step;
        if (node->kind != NEST_STORE || node->at_count != 1) continue;
        if (nest->symbols[node->array].kind != NAMED_ARRAY) continue;
        if (!index_is_number(index_coefficient(nest->arena, node->at[0], loop->name), &step) ||
            step != 1)
            continue;
        *begin = index_replace(nest->arena, node->at[0], loop->name, (Index){NULL, 0});
        return true;
    }
    return false;
}

static bool is_multiple(Index index, int64_t width) {
    for (size_t t = 0; t < index.count; t++)
        if (index.terms[t].factor % width) return false;
    return true;
}

/* Why iterations cannot be taken from elsewhere on, or NULL. */
static const char *find_problem(const NestNode *loop, Index begin) {
    if (loop->loop != LOOP_SERIAL) return "the loop is not serial";
    for (const NestNode *node = loop->body; node; node = node->next) {
        if (node->kind != NEST_LET && node->kind != NEST_LOAD && node->kind != NEST_STORE)
            return "what is in the loop is not straight code";
        if (node->has_limit) return "what is in the loop has limits already";
        if (node->name && index_uses(begin, node->name)) return "where a row begins varies in it";
    }
    return NULL;
}

const char *nest_align(Nest *nest, SymbolId loop, SymbolId *ahead) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop), *first = NULL, **end = &first;
    Index begin;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place;
    if (!find_begin(nest, old, &begin)) return "it stores to no array along the loop";
    const char *problem = find_problem(old, begin);
    if (problem) return problem;
    if (is_multiple(begin, nest->width)) return "rows begin on a boundary";
    const Index vector = nest_ceiling(nest, &end, begin, nest->width, "boundary");
    const Index skipped = make_less(nest, make_scale(nest, vector, nest->width), begin);
    const Index zero = make_number(nest, 0), left = make_less(nest, old->extent, skipped);
    const char *name = arena_printf(arena, "%s_ahead", nest->symbols[loop].name);
    const SymbolId own = make_loop_name(nest, name);
    const Index few =
        make_let_index(nest, &end, "ahead", make_value(nest, OP_MIN, old->extent, skipped));
    const Index rest = make_let_index(nest, &end, "behind", make_value(nest, OP_MAX, left, zero));
    NestNode *peeled = nest_clone(nest, old->body);
    nest_replace(nest, peeled, loop, index_symbol(arena, own));
    peeled = nest_add(nest, &end, *nest_around(nest, LOOP_SERIAL, own, few, peeled));
    peeled->range = old->range;
    old->body =
        nest_put_index(nest, old->body, loop, index_add(arena, skipped, index_symbol(arena, loop)));
    old->extent = rest;
    *end = old;
    *place = first;
    if (ahead) *ahead = own;
    return NULL;
}
