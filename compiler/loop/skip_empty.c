/* skip_empty.c: an iteration whose elements lie all beyond the limit is skipped: what it is
 * pushed to gets the identity.
 *
 * Needs a serial or unrolled loop in which everything has one limit, but for what is made of folds
 * of the iteration and pushed on. Keeps every bit: a fold of identities is the identity. Changes
 * the body into a branch of an affine test. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

typedef struct Skipping {
    Nest *nest;
    const NestNode *limited; /* the first node with a limit */
    NestNode *other, **end;  /* the pushes where nothing is there */
    NestNode *body;          /* of an iteration */
    const char *problem;
} Skipping;

/* The limit as it is at the first iteration of every loop of the body: where that is beyond it, all
 * are. */
static Index first_limit(const Skipping *s, const NestNode *body, Index limit) {
    Arena *arena = s->nest->arena;
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_LOOP)
            limit = index_replace(arena, limit, node->name, index_number(arena, 0));
        limit = first_limit(s, node->body, first_limit(s, node->other, limit));
    }
    return limit;
}

/* Whether the index falls along every loop of the body that is in it. */
static bool falls(const Skipping *s, const NestNode *body, Index limit) {
    for (const NestNode *node = body; node; node = node->next) {
        int64_t step;
        if (node->kind == NEST_LOOP && index_uses(limit, node->name) &&
            (!index_is_number(index_coefficient(s->nest->arena, limit, node->name), &step) ||
             step > 0))
            return false;
        if (node->name && node->kind != NEST_LOOP && index_uses(limit, node->name)) return false;
        if (!falls(s, node->body, limit) || !falls(s, node->other, limit)) return false;
    }
    return true;
}

static NestNode *defined_in(NestNode *body, SymbolId symbol) {
    NestNode **place = nest_find(&body, symbol);
    return place ? *place : NULL;
}

/* A push of what a fold of the iteration is made to a fold around it. */
static bool passes_on(Skipping *s, const NestNode *push) {
    const Value *value = &s->nest->values->values[push->value];
    NestNode **around = nest_find(&s->nest->body, push->array);
    if (value->op != VALUE_NAME || !around) return false;
    const NestNode *combine = defined_in(s->body, (SymbolId)value->payload);
    const NestNode *fold = combine && combine->kind == NEST_COMBINE && combine->op == OP_NONE
                               ? defined_in(s->body, combine->array)
                               : NULL;
    return fold && fold->kind == NEST_FOLD && (*around)->kind == NEST_FOLD &&
           fold->op == (*around)->op;
}

static void push_identity(Skipping *s, const NestNode *push) {
    const NestNode *fold = *nest_find(&s->nest->body, push->array);
    NestNode *own = nest_add(s->nest, &s->end, *push);
    own->value = ir_constant(s->nest->values, fold->type, nest_identity(fold->op, fold->type));
}

static void look_at(Skipping *s, NestNode *body, bool inner) {
    for (NestNode *node = body; node && !s->problem; node = node->next) {
        const bool writes =
            node->kind == NEST_STORE || node->kind == NEST_ADD || node->kind == NEST_PUSH;
        if (node->has_limit && !s->limited) s->limited = node;
        if (node->has_limit && !index_equal(node->limit, s->limited->limit))
            s->problem = "the limits in the loop are not all the same";
        if (node->kind == NEST_BARRIER || node->kind == NEST_ARRIVE)
            s->problem = "in the loop threads wait for each other";
        if (writes && !node->has_limit) {
            if (inner || node->kind != NEST_PUSH || !passes_on(s, node))
                s->problem = "in the loop something is done beyond the limit";
            else
                push_identity(s, node);
        } else if (node->kind == NEST_PUSH && !defined_in(s->body, node->array)) {
            s->problem = "a leaf of a fold around the loop has a limit";
        }
        look_at(s, node->body, true);
        look_at(s, node->other, true);
    }
}

const char *nest_skip_empty(Nest *nest, SymbolId loop) {
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place;
    if (old->loop != LOOP_SERIAL && old->loop != LOOP_UNROLLED) return "the loop is not serial";
    Skipping s = {.nest = nest, .body = old->body};
    s.end = &s.other;
    look_at(&s, old->body, false);
    if (s.problem) return s.problem;
    if (!s.limited) return "nothing in the loop has a limit";
    if (!falls(&s, old->body, s.limited->limit)) return "the limit does not fall in the loop";
    NestNode *test = nest_only_where(nest, first_limit(&s, old->body, s.limited->limit), old->body);
    test->other = s.other;
    old->body = test;
    return NULL;
}
