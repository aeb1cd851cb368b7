/* hoist.c: loop-invariant code motion: values that are the same in all iterations of a serial,
 * unrolled or vector loop are computed ahead of it, once.
 *
 * Needs nothing. Keeps what is computed and where it may stop: only what every iteration does
 * moves, no load whose array the loop writes or may write by another name, none past a barrier, no
 * draw of random numbers and no call. A loop that may have no iterations guards what it does, so
 * what may stop there (a load, a division by what may be 0) or costs much moves ahead of it under
 * the test that there are some; what is cheap goes without a test. No test is put around a barrier.
 * Goes from inner loops outwards: what has left a loop without a test may leave the next one too.
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { CHEAP = 4 }; /* work of an operation that is done where nobody may request it */

typedef struct Hoist { /* by symbol */
    Nest *nest;
    bool *bound;   /* in the loop */
    bool *written; /* stored to in the loop */
    bool *guarded; /* moved under the test */
    bool barrier;  /* others may write to memory while it runs */
} Hoist;

static void find_bound(Hoist *h, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->name) h->bound[node->name] = true;
        if (node->kind == NEST_STORE || node->kind == NEST_ADD) h->written[node->array] = true;
        if (node->kind == NEST_BARRIER || node->kind == NEST_ARRIVE) h->barrier = true;
        find_bound(h, node->body);
        find_bound(h, node->other);
    }
}

/* ---- what nodes are made of ---- */

static bool index_has(const bool *symbols, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++)
            if (symbols[index.terms[t].symbols[k]]) return true;
    return false;
}

static bool value_has(const Nest *nest, const bool *symbols, ValueId id) {
    const Value *v = &nest->values->values[id];
    if (!id) return false;
    if (v->op == VALUE_NAME) return symbols[v->payload];
    if (v->op == VALUE_INDEX) return index_has(symbols, *nest_index_of(nest, v));
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (value_has(nest, symbols, v->arg[i])) return true;
    return false;
}

static bool node_has(const Nest *nest, const bool *symbols, const NestNode *node) {
    for (size_t i = 0; i < node->at_count; i++)
        if (index_has(symbols, node->at[i])) return true;
    return symbols[node->array] || symbols[node->list] || symbols[node->where] ||
           index_has(symbols, node->limit) || value_has(nest, symbols, node->value) ||
           value_has(nest, symbols, node->pad);
}

/* Whether it may be computed where the loop has no iteration. */
static bool is_cheap(const Nest *nest, ValueId id) {
    const Value *v = &nest->values->values[id];
    if (!id || v->op == VALUE_NAME || v->op == VALUE_INDEX) return true;
    if (v->op == OP_FLOORDIV || v->op == OP_MOD || op_info[v->op].work > CHEAP) return false;
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (!is_cheap(nest, v->arg[i])) return false;
    return true;
}

/* Whether each iteration gives the same, as far as is known. */
static bool can_move(const Hoist *h, const NestNode *node) {
    if (node->kind == NEST_LOAD && (h->barrier || h->written[node->array])) return false;
    if (node->kind != NEST_LET && node->kind != NEST_LOAD) return false;
    return !node_has(h->nest, h->bound, node) && !nest_value_draws(h->nest, node->value) &&
           !nest_value_draws(h->nest, node->pad);
}

/* ---- moving ---- */

/* Gives where the loop at the place stands then, or the test around it. */
static NestNode **hoist_loop(Hoist *h, NestNode **at) {
    Nest *nest = h->nest;
    Arena *scratch = arena_child(nest->arena);
    NestNode *loop = *at, *guarded = NULL, **guarded_end = &guarded, **next = &loop->body;
    int64_t count;
    const bool runs = index_is_number(loop->extent, &count) && count > 0;
    h->bound = arena_alloc(scratch, nest->symbol_count * sizeof *h->bound);
    h->written = arena_alloc(scratch, nest->symbol_count * sizeof *h->written);
    h->guarded = arena_alloc(scratch, nest->symbol_count * sizeof *h->guarded);
    h->barrier = false;
    find_bound(h, loop->body);
    h->bound[loop->name] = true;
    for (size_t i = 0; i < nest->array_count; i++)
        h->written[nest->arrays[i].symbol] |= nest->arrays[i].aliased;
    while (*next) {
        NestNode *node = *next;
        const bool anyway = runs || (node->kind == NEST_LET && is_cheap(nest, node->value) &&
                                     !node_has(nest, h->guarded, node));
        if (!can_move(h, node) || (!anyway && h->barrier)) {
            next = &node->next;
            continue;
        }
        *next = node->next;
        h->bound[node->name] = false;
        h->guarded[node->name] = !anyway;
        NestNode ***end = anyway ? &at : &guarded_end;
        **end = node;
        *end = &node->next;
    }
    arena_close(scratch);
    *at = loop;
    if (!guarded) return at;
    *guarded_end = loop;
    *at = nest_only_where(nest, loop->extent, guarded);
    (*at)->next = loop->next;
    loop->next = NULL;
    return at;
}

static void hoist_body(Hoist *h, NestNode **at) {
    for (; *at; at = &(*at)->next) {
        const LoopKind kind = (*at)->loop;
        hoist_body(h, &(*at)->body);
        hoist_body(h, &(*at)->other);
        if ((*at)->kind == NEST_LOOP &&
            (kind == LOOP_SERIAL || kind == LOOP_UNROLLED || kind == LOOP_VECTOR))
            at = hoist_loop(h, at);
    }
}

void nest_hoist(Nest *nest) {
    Hoist h = {.nest = nest};
    hoist_body(&h, &nest->body);
}
