/* guard_reuse.c: a barrier at the end of a loop's iteration where the next one writes shared memory
 * that threads may still read.
 *
 * Needs shared memory declared in a serial or grid loop. Keeps all else. No barrier is needed for
 * memory between whose last use and first use in the next iteration there is one already. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static bool accesses(const NestNode *node, SymbolId memory) {
    if (node->kind != NEST_ALLOC && node->array == memory) return true;
    for (const NestNode *own = node->body; own; own = own->next)
        if (accesses(own, memory)) return true;
    for (const NestNode *own = node->other; own; own = own->next)
        if (accesses(own, memory)) return true;
    return false;
}

static bool is_barrier(const NestNode *node) {
    return node->kind == NEST_BARRIER && node->scope != SCOPE_WARP;
}

/* Whether a barrier stands behind the last use in the body, or ahead of the first one. */
static bool is_guarded(const NestNode *body, SymbolId memory) {
    bool used = false, ahead = false, behind = false;
    for (const NestNode *node = body; node; node = node->next) {
        if (is_barrier(node)) {
            ahead |= !used;
            behind = true;
        } else if (accesses(node, memory)) {
            used = true;
            behind = false;
        }
    }
    return ahead || behind || !used;
}

/* Of what is declared in the part, in conditions too. */
static bool are_guarded(const NestNode *body, const NestNode *part) {
    for (const NestNode *node = part; node; node = node->next) {
        if (node->kind == NEST_ALLOC && node->scope == SCOPE_SHARED &&
            !is_guarded(body, node->name))
            return false;
        if (node->kind != NEST_LOOP &&
            (!are_guarded(body, node->body) || !are_guarded(body, node->other)))
            return false;
    }
    return true;
}

static void guard(Nest *nest, NestNode *body) {
    for (NestNode *loop = body; loop; loop = loop->next) {
        NestNode **end = &loop->body;
        guard(nest, loop->body);
        guard(nest, loop->other);
        if (loop->kind != NEST_LOOP || are_guarded(loop->body, loop->body)) continue;
        while (*end) end = &(*end)->next;
        nest_add(nest, &end, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK});
    }
}

void nest_guard_reuse(Nest *nest) {
    guard(nest, nest->body);
}
