/* vectorize.c: a loop as one over vectors, and in it a vector loop; what lies beyond the loop's end
 * is cut off by limits.
 *
 * Needs a serial loop of straight code whose nodes have no limits and whose indices have 0 or 1 as
 * the loop's coefficient. Keeps the order of iterations. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* Whether the node may stand in a vector loop as it is. */
static bool is_straight(Nest *nest, const NestNode *node, SymbolId loop) {
    if (node->kind != NEST_LOAD && node->kind != NEST_LET && node->kind != NEST_PUSH &&
        node->kind != NEST_STORE)
        return false;
    for (size_t i = 0; i < node->at_count; i++) {
        int64_t step;
        const Index own = index_coefficient(nest->arena, node->at[i], loop);
        if (!index_is_number(own, &step) || (step != 0 && step != 1)) return false;
    }
    return !node->has_limit;
}

static bool varies(const NestNode *node, SymbolId loop) {
    for (size_t i = 0; i < node->at_count; i++)
        if (index_uses(node->at[i], loop)) return true;
    return false;
}

const char *nest_vectorize(Nest *nest, NestNode **body_of, SymbolId loop, SymbolId *vectors) {
    const int64_t width = nest->width;
    NestNode **place = nest_find(body_of, loop), *first = NULL, **end = &first;
    int64_t extent;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place;
    if (old->loop != LOOP_SERIAL) return "the loop is dealt already";
    for (const NestNode *node = old->body; node; node = node->next)
        if (!is_straight(nest, node, loop)) return "its body is not of neighbours";
    const char *name = nest->symbols[loop].name;
    const SymbolId over = make_loop_name(nest, arena_printf(nest->arena, "%s_vector", name));
    const SymbolId own = make_loop_name(nest, name);
    const Index begin = make_scale(nest, make_symbol(nest, over), width);
    const bool whole = index_is_number(old->extent, &extent) && extent % width == 0;
    for (NestNode *node = old->body; node && !whole; node = node->next) {
        if (node->kind == NEST_LET || !varies(node, loop)) continue;
        node->has_limit = true;
        node->limit = make_less(nest, old->extent, make_symbol(nest, loop));
    }
    const Index count = nest_ceiling(nest, &end, old->extent, width, "vectors");
    NestNode *body =
        nest_put_index(nest, old->body, loop, make_add(nest, begin, make_symbol(nest, own)));
    body = nest_around(nest, LOOP_VECTOR, own, make_number(nest, width), body);
    NestNode *all = nest_add(nest, &end, *old);
    all->name = over;
    all->extent = count;
    all->body = body;
    body->range = old->range;
    all->next = old->next;
    *place = first;
    if (vectors) *vectors = over;
    return NULL;
}
