/* tidy.c: loops of one iteration and tests whose amount is a number go: that is how one lane
 * differs from 32.
 *
 * Needs nothing. Keeps what runs, in its order, a loop over the one tensor of a list, and grid
 * loops, which say that the other blocks do nothing. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* Puts a body in the node's place; gives where the next node stands. */
static NestNode **splice(NestNode **at, NestNode *body) {
    NestNode *after = (*at)->next;
    *at = body;
    while (*at) at = &(*at)->next;
    *at = after;
    return at;
}

/* Whether the symbol chooses a tensor, where no number can stand. */
static bool chooses(const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->list == symbol || chooses(node->body, symbol) || chooses(node->other, symbol))
            return true;
    return false;
}

static void tidy(Nest *nest, NestNode **at) {
    while (*at) {
        NestNode *node = *at;
        int64_t number;
        const bool known = (node->kind == NEST_LOOP || node->kind == NEST_IF) &&
                           index_is_number(node->extent, &number);
        tidy(nest, &node->body);
        tidy(nest, &node->other);
        if (known && node->kind == NEST_IF) {
            at = splice(at, number > 0 ? node->body : node->other);
        } else if (known && node->kind == NEST_LOOP && number <= 0) {
            at = splice(at, NULL);
        } else if (known && node->kind == NEST_LOOP && number == 1 && node->loop != LOOP_GRID &&
                   !chooses(node->body, node->name)) {
            nest_replace(nest, node->body, node->name, (Index){NULL, 0});
            at = splice(at, node->body);
        } else {
            at = &node->next;
        }
    }
}

void nest_tidy(Nest *nest) {
    tidy(nest, &nest->body);
}
