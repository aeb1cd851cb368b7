/* merge_tests.c: neighbouring tests of one condition become one, so that what the first computes is
 * there for the second.
 *
 * Needs nothing. Keeps what runs, in its order: a condition is a value, which nothing in between
 * changes. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* What the symbol is another name of. */
static SymbolId original(const Nest *nest, SymbolId symbol) {
    for (;;) {
        NestNode **place = nest_find((NestNode **)(uintptr_t)&nest->body, symbol);
        if (!place || (*place)->kind != NEST_LET) return symbol;
        const Value *v = &nest->values->values[(*place)->value];
        if (v->op != VALUE_NAME) return symbol;
        symbol = (SymbolId)v->payload;
    }
}

static bool is_same_test(const Nest *nest, const NestNode *a, const NestNode *b) {
    if (!b || a->kind != b->kind || a->other || b->other) return false;
    if (a->kind == NEST_IF) return index_equal(a->extent, b->extent);
    return a->kind == NEST_WHEN && original(nest, a->where) == original(nest, b->where);
}

static void merge(const Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        while (is_same_test(nest, node, node->next)) {
            NestNode **end = &node->body;
            while (*end) end = &(*end)->next;
            *end = node->next->body;
            node->next = node->next->next;
        }
        merge(nest, node->body);
        merge(nest, node->other);
    }
}

void nest_merge_tests(Nest *nest) {
    merge(nest, nest->body);
}
