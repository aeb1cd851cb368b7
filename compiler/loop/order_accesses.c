/* order_accesses.c: barriers between accesses to an array that lie at other elements.
 *
 * Phases on one row run one behind the other with nothing between them while each thread goes back
 * to the elements that it had. Where one reads an element that is another thread's, and an earlier
 * or a later one writes the array, they are kept apart by a barrier: here ahead of each node of the
 * loop's body, or of a test in it, that conflicts with those since the last barrier. Needs nodes
 * that have no conflict within themselves. Keeps all else. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

typedef struct Accesses {
    bool reads, writes;
} Accesses;

static void find_accesses(const NestNode *node, SymbolId array, Accesses *found) {
    const bool writes = node->kind == NEST_STORE || node->kind == NEST_ADD;
    if (node->array == array) {
        found->writes |= writes;
        found->reads |= !writes;
    }
    for (const NestNode *own = node->body; own; own = own->next) find_accesses(own, array, found);
    for (const NestNode *own = node->other; own; own = own->next) find_accesses(own, array, found);
}

static bool is_barrier(const NestNode *node, NestScope scope) {
    return node->kind == NEST_BARRIER && (node->scope == scope || node->scope == SCOPE_BLOCK);
}

static void order(Nest *nest, NestNode **place, SymbolId array, NestScope scope) {
    Accesses since = {false, false};
    for (; *place; place = &(*place)->next) {
        Accesses own = {false, false};
        find_accesses(*place, array, &own);
        if ((since.writes && (own.reads || own.writes)) || (since.reads && own.writes)) {
            NestNode *behind = *place;
            nest_add(nest, &place, (NestNode){.kind = NEST_BARRIER, .scope = scope});
            *place = behind;
            since = (Accesses){false, false};
        }
        if (is_barrier(*place, scope)) since = (Accesses){false, false};
        if ((*place)->kind == NEST_WHEN || (*place)->kind == NEST_IF) {
            order(nest, &(*place)->body, array, scope);
            order(nest, &(*place)->other, array, scope);
        }
        since.reads |= own.reads;
        since.writes |= own.writes;
    }
}

void nest_order_accesses(Nest *nest, SymbolId loop, SymbolId array, NestScope scope) {
    if (nest->lanes * nest->warps > 1)
        order(nest, &(*nest_find(&nest->body, loop))->body, array, scope);
}
