/* join.c: loops over several axes as one. The state of a scan and the tree of a reduction stand
 * next to the loop that uses them, so that the loops of a perfect nest go over coordinates of one
 * kind: outer or inner ones. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

NestNode *schedule_first_loop(NestNode *body) {
    while (body && body->kind != NEST_LOOP)
        body = body->kind == NEST_WHEN ? body->body : body->next;
    return body;
}

NestNode *schedule_next_loop(const NestNode *loop) {
    NestNode *inner = loop->body;
    while (inner && (inner->kind == NEST_LET || inner->kind == NEST_LOAD)) inner = inner->next;
    return inner && inner->kind == NEST_LOOP && !inner->next ? inner : NULL;
}

/* What stands between two loops and is not what the inner one's length is made of moves into that
 * one: so they stand alone in each other. */
static void sink_values(Nest *nest, NestNode *loop, NestNode *inner) {
    NestNode *stay = arena_alloc(nest->arena, sizeof *stay), *values[LS_AXES_MAX];
    size_t count = 0;
    for (NestNode *node = loop->body; node != inner; node = node->next) {
        if (count == COUNT(values)) return;
        values[count++] = node;
    }
    *stay = (NestNode){.kind = NEST_LOOP, .extent = inner->extent};
    loop->body = inner;
    while (count-- > 0) { /* each stands ahead of what uses it */
        NestNode *node = values[count];
        const bool stays = nest_body_uses(nest, stay, node->name);
        NestNode **place = stays ? &loop->body : &inner->body;
        node->next = *place;
        *place = node;
        if (!stays) continue;
        NestNode *own = arena_alloc(nest->arena, sizeof *own);
        *own = *node;
        own->next = stay;
        stay = own;
    }
}

/* What the inner loop's length is made of moves ahead of both, up to the first value that is not
 * the same for all of the outer one: as how many chunks a tensor's axis has. */
static void raise_values(Nest *nest, NestNode *loop, const NestNode *inner) {
    NestNode **ahead = nest_find(&nest->body, loop->name);
    while (ahead && loop->body != inner) {
        NestNode *node = loop->body, alone = *node;
        alone.next = NULL;
        if (nest_body_uses(nest, &alone, loop->name)) return;
        loop->body = node->next;
        node->next = *ahead;
        *ahead = node;
        ahead = &node->next;
    }
}

NestNode *schedule_join(Nest *nest, NestNode *loop, SymbolId end, bool divide) {
    for (NestNode *inner; (inner = schedule_next_loop(loop)) && inner->name != end;) {
        sink_values(nest, loop, inner);
        raise_values(nest, loop, inner);
        if (nest_coalesce(nest, loop->name, divide)) loop = inner;
    }
    return loop;
}
