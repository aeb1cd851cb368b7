/* split_tail.c: main and tail: the iterations of a loop over tiles that no limit cuts run without
 * limits, and the last one, where it is cut, keeps them.
 *
 * Needs a serial or grid loop over tiles whose limits in it are all the same bound, as nest_tile
 * leaves them: a size less what the loops add up to. Keeps the order of iterations of a serial
 * loop.
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* The limit that all nodes of the body with one have; false: they differ. */
static bool common_limit(const NestNode *body, const NestNode **first) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->has_limit && !*first) *first = node;
        if (node->has_limit && !index_equal(node->limit, (*first)->limit)) return false;
        if (!common_limit(node->body, first) || !common_limit(node->other, first)) return false;
    }
    return true;
}

static void drop_limits(NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        node->has_limit = false;
        node->limit = (Index){NULL, 0};
        drop_limits(node->body);
        drop_limits(node->other);
    }
}

/* Whether the index is made of something that the body binds. */
static bool uses_body(const NestNode *body, Index index) {
    for (const NestNode *node = body; node; node = node->next)
        if ((node->name && index_uses(index, node->name)) || uses_body(node->body, index) ||
            uses_body(node->other, index))
            return true;
    return false;
}

/* The least limit of an iteration: with every loop inside it at its end. */
static Index least_limit(Nest *nest, const NestNode *body, Index limit) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_LOOP) {
            const Index last =
                index_subtract(nest->arena, node->extent, index_number(nest->arena, 1));
            limit = index_replace(nest->arena, limit, node->name, last);
        }
        limit = least_limit(nest, node->body, limit);
        limit = least_limit(nest, node->other, limit);
    }
    return limit;
}

const char *nest_split_tail(Nest *nest, SymbolId loop) {
    NestNode **place = nest_find(&nest->body, loop);
    const NestNode *limited = NULL;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place;
    if (!common_limit(old->body, &limited)) return "the limits in the loop are not all the same";
    if (!limited) return NULL;
    const Index min = least_limit(nest, old->body, limited->limit);
    if (uses_body(old->body, min)) return "how far the limits go is not known at the loop";
    NestNode *main = nest_clone(nest, old->body), *test = arena_alloc(nest->arena, sizeof *test);
    drop_limits(main);
    *test = (NestNode){
        .kind = NEST_IF, .extent = min, .body = main, .other = old->body, .version = true};
    old->body = test;
    return NULL;
}
