/* split_tail.c: main and tail: the iterations of a loop over tiles that no limit cuts run without
 * limits, and the last one, where it is cut, keeps them.
 *
 * Needs a loop over tiles, or over warps with one each, whose limits in it are all the same bound,
 * as nest_tile leaves them: a size less what the loops add up to. Keeps the order of iterations of
 * a serial loop. The test of whether a warp has a tile stays around both. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { DEPTH = 16 };

/* What the limits in a body are at least, with every loop of the body around them at its end. */
typedef struct Limits {
    Nest *nest;
    const NestNode *loops[DEPTH]; /* around the node at hand */
    size_t depth;
    Index least;
    bool any, differ;
} Limits;

static void add_limit(Limits *l, Index limit) {
    Arena *arena = l->nest->arena;
    for (size_t i = l->depth; i-- > 0;) {
        const NestNode *loop = l->loops[i];
        const Index last = index_subtract(arena, loop->extent, index_number(arena, 1));
        int64_t step;
        if (!index_is_number(index_coefficient(arena, limit, loop->name), &step) || step > 0)
            l->differ = true;
        limit = index_replace(arena, limit, loop->name, last);
    }
    if (l->any && !index_equal(limit, l->least)) l->differ = true;
    l->least = limit;
    l->any = true;
}

static void find_limits(Limits *l, const NestNode *body) {
    for (const NestNode *node = body; node && !l->differ; node = node->next) {
        const bool loop = node->kind == NEST_LOOP;
        if (node->has_limit) add_limit(l, node->limit);
        if (loop && l->depth == DEPTH) l->differ = true;
        if (l->differ) return;
        if (loop) l->loops[l->depth++] = node;
        find_limits(l, node->body);
        find_limits(l, node->other);
        if (loop) l->depth--;
    }
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

const char *nest_split_tail(Nest *nest, SymbolId loop) {
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place, **body = &old->body;
    Limits limits = {.nest = nest};
    find_limits(&limits, *body);
    if (limits.differ) return "the limits in the loop are not all the same";
    if (!limits.any) return NULL;
    if (uses_body(*body, limits.least)) return "how far the limits go is not known at the loop";
    if (old->loop == LOOP_WARP && *body && (*body)->kind == NEST_IF && !(*body)->next &&
        !(*body)->other)
        body = &(*body)->body;
    NestNode *main = nest_clone(nest, *body), *test = arena_alloc(nest->arena, sizeof *test);
    drop_limits(main);
    *test = (NestNode){
        .kind = NEST_IF, .extent = limits.least, .body = main, .other = *body, .version = true};
    *body = test;
    return NULL;
}
