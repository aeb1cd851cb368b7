/* sweep.c: drops values that nobody uses, and what only they need: dead code.
 *
 * Needs nothing. Keeps all stores, pushes and barriers, and grid loops, which arrivals stand
 * behind. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static void mark_index(bool *used, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++) used[index.terms[t].symbols[k]] = true;
}

static void mark_value(const Nest *nest, bool *used, ValueId value) {
    const Value *v = &nest->values->values[value];
    if (!value) return;
    if (v->op == VALUE_NAME) used[v->payload] = true;
    if (v->op == VALUE_INDEX) mark_index(used, *nest_index_of(nest, v));
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (v->arg[i]) mark_value(nest, used, v->arg[i]);
}

static void mark_body(const Nest *nest, bool *used, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        for (size_t i = 0; i < node->at_count; i++) mark_index(used, node->at[i]);
        mark_index(used, node->extent);
        mark_index(used, node->limit);
        used[node->list] = used[node->where] = true;
        if (node->kind != NEST_STORE) used[node->array] = true; /* a store alone is no use */
        mark_value(nest, used, node->value);
        mark_value(nest, used, node->pad);
        mark_body(nest, used, node->body);
        mark_body(nest, used, node->other);
    }
}

static bool is_dead(const Nest *nest, const bool *used, const NestNode *node) {
    switch (node->kind) {
    case NEST_LET:
    case NEST_LOAD:
    case NEST_COMBINE:
    case NEST_ALLOC:
    case NEST_TREE:
    case NEST_FOLD: return !used[node->name];
    case NEST_STORE: return nest->symbols[node->array].kind == NAMED_ALLOC && !used[node->array];
    case NEST_LOOP: return !node->body && node->loop != LOOP_GRID;
    case NEST_IF:
    case NEST_WHEN: return !node->body && !node->other;
    default: return false;
    }
}

static bool drop(const Nest *nest, const bool *used, NestNode **body) {
    bool any = false;
    while (*body) {
        any |= drop(nest, used, &(*body)->body);
        any |= drop(nest, used, &(*body)->other);
        if (is_dead(nest, used, *body)) {
            *body = (*body)->next;
            any = true;
        } else {
            body = &(*body)->next;
        }
    }
    return any;
}

void nest_sweep_body(Nest *nest, NestNode **body) {
    bool again = true;
    while (again) {
        Arena *scratch = arena_child(nest->arena);
        bool *used = arena_alloc(scratch, nest->symbol_count * sizeof *used);
        mark_body(nest, used, *body);
        again = drop(nest, used, body);
        arena_close(scratch);
    }
}

void nest_sweep(Nest *nest) {
    nest_sweep_body(nest, &nest->body);
}
