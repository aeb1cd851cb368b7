/* sweep.c: dead code elimination.
 *
 * Needs nothing. Drops values that nobody uses, and what only they need. Keeps stores to arrays,
 * stores to memory that is read, adds, pushes and barriers; keeps even an empty grid loop, because
 * an ARRIVE without a name must follow one. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static bool is_dead(const Nest *nest, const uint32_t *uses, const NestNode *node) {
    switch (node->kind) {
    case NEST_LET:
    case NEST_LOAD:
    case NEST_COMBINE:
    case NEST_ALLOC:
    case NEST_TREE:
    case NEST_FOLD: return !uses[node->name];
    case NEST_STORE: return nest->symbols[node->array].kind == NAMED_ALLOC && !uses[node->array];
    case NEST_LOOP: return !node->body && node->loop != LOOP_GRID;
    case NEST_IF:
    case NEST_WHEN: return !node->body && !node->other;
    default: return false;
    }
}

/* From the last node to the first, so that what only dead nodes use is dead when it is reached. */
static bool drop(const Nest *nest, uint32_t *uses, NestNode **body) {
    bool any = false;
    NestNode *reversed = NULL, *rest = NULL;
    for (NestNode *node = *body, *next; node; node = next) {
        next = node->next;
        node->next = reversed;
        reversed = node;
    }
    for (NestNode *node = reversed, *before; node; node = before) {
        before = node->next;
        node->next = rest;
        any |= drop(nest, uses, &node->other);
        any |= drop(nest, uses, &node->body);
        const bool dead = is_dead(nest, uses, node);
        if (dead) nest_drop_uses(nest, node, uses);
        if (!dead) rest = node;
        any |= dead;
    }
    *body = rest;
    return any;
}

void nest_sweep_body(Nest *nest, NestNode **body) {
    Arena *scratch = arena_child(nest->arena);
    uint32_t *uses = arena_alloc(scratch, nest->symbol_count * sizeof *uses);
    nest_count_uses(nest, *body, uses);
    while (drop(nest, uses, body)) {
    }
    arena_close(scratch);
}

void nest_sweep(Nest *nest) {
    nest_sweep_body(nest, &nest->body);
}
