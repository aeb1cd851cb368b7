/* merge_barriers.c: redundant barrier elimination: a barrier of the block behind another one, where
 * threads have done nothing between the two that other threads see.
 *
 * Between the two stand values, folds, and reads of shared memory that the rest of the body does
 * not write: what is written before the first is seen behind it, and what is read between them is
 * not overwritten behind the second. Needs shared memory that is
 * read there to be declared in the same body, as no one else writes it; other barriers stay. Run
 * ahead of guard_reuse, which keeps the next iteration apart. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static bool is_barrier(const NestNode *node) {
    return node->kind == NEST_BARRIER && node->scope == SCOPE_BLOCK;
}

static bool writes(const NestNode *body, SymbolId memory) {
    for (const NestNode *node = body; node; node = node->next)
        if (((node->kind == NEST_STORE || node->kind == NEST_ADD || node->kind == NEST_ARRIVE) &&
             node->array == memory) ||
            writes(node->body, memory) || writes(node->other, memory))
            return true;
    return false;
}

static const NestNode *find_alloc(const NestNode *body, SymbolId name, bool inside) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_ALLOC && node->name == name) return node;
        const NestNode *found = inside ? find_alloc(node->body, name, true) : NULL;
        if (!found && inside) found = find_alloc(node->other, name, true);
        if (found) return found;
    }
    return NULL;
}

/* Whether no other thread writes the memory from `rest` on: it is the thread's own, or declared in
 * the body. */
static bool stays(const Nest *nest, SymbolId memory, const NestNode *body, const NestNode *rest) {
    const NestNode *alloc = find_alloc(nest->body, memory, true);
    if (!alloc || alloc->scope == SCOPE_REGISTER) return nest->symbols[memory].kind != NAMED_ARRAY;
    return alloc->scope == SCOPE_SHARED && find_alloc(body, memory, false) && !writes(rest, memory);
}

/* Whether the node is nothing to other threads, or reads what is not written from `rest` on. */
static bool is_own(const Nest *nest, const NestNode *node, const NestNode *body,
                   const NestNode *rest) {
    switch (node->kind) {
    case NEST_ALLOC:
    case NEST_FOLD:
    case NEST_LET: return true;
    case NEST_LOAD:
    case NEST_COMBINE: return stays(nest, node->array, body, rest);
    default: return false;
    }
}

static void merge(Nest *nest, NestNode **body) {
    bool open = false; /* behind a barrier, nothing has been done that others see */
    const NestNode *from = NULL;
    for (NestNode **place = body; *place;) {
        NestNode *node = *place;
        bool again = open && is_barrier(node);
        for (const NestNode *own = from; again && own != node; own = own->next)
            again = is_own(nest, own, *body, node->next);
        if (again) {
            *place = node->next;
            continue;
        }
        if (is_barrier(node)) {
            open = true;
            from = node->next;
        } else {
            merge(nest, &node->body);
            merge(nest, &node->other);
        }
        place = &node->next;
    }
}

void nest_merge_barriers(Nest *nest) {
    merge(nest, &nest->body);
}
