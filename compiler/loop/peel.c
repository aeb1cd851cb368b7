/* peel.c: index-set splitting for one-hot tests: a serial loop that compares each index with a
 * value becomes a loop in which the comparison is false, and behind it the one iteration for which
 * it is true, if the loop has it.
 *
 * Needs straight code, whose iterations store to what none of them loads, and comparisons of an
 * index that goes on by one with values that do not vary in the loop. Keeps what is in memory
 * behind the loop: an element whose comparison may be true is stored to again. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { CHOSEN_MAX = 4 };

typedef struct Peeling {
    Nest *nest;
    const NestNode *loop;
    NestNode *question[CHOSEN_MAX]; /* LETs in the loop */
    Index iteration[CHOSEN_MAX];    /* whose answer is the other one */
    size_t count;
} Peeling;

static Index name_of(const Peeling *p, const Value *v) {
    return v->op == VALUE_NAME ? index_symbol(p->nest->arena, (SymbolId)v->payload)
                               : *nest_index_of(p->nest, v);
}

/* The iteration for which a comparison of an index with a name or an index is true.
 */
static bool find_iteration(const Peeling *p, const Value *v, Index *iteration) {
    const Value *values = p->nest->values->values;
    Arena *arena = p->nest->arena;
    int64_t step;
    if (v->op != OP_EQ && v->op != OP_NE) return false;
    for (int i = 0; i < 2; i++) {
        const Value *index = &values[v->arg[i]], *other = &values[v->arg[1 - i]];
        if (index->op != VALUE_INDEX && index->op != VALUE_NAME) continue;
        if (other->op != VALUE_INDEX && other->op != VALUE_NAME) continue;
        if (index->type != TYPE_I64 || other->type != TYPE_I64 ||
            nest_value_varies(p->nest, p->loop, v->arg[1 - i]))
            continue;
        const Index own = name_of(p, index);
        if (!index_is_number(index_coefficient(arena, own, p->loop->name), &step) || step != 1)
            continue;
        const Index first = index_replace(arena, own, p->loop->name, (Index){NULL, 0});
        if (nest_value_varies(p->nest, p->loop, nest_index_value(p->nest, first))) continue;
        *iteration = index_subtract(arena, name_of(p, other), first);
        return true;
    }
    return false;
}

/* Why iterations may not be done again, or NULL; finds the questions. */
static const char *find_questions(Peeling *p) {
    const NestNode *body = p->loop->body;
    for (NestNode *node = (NestNode *)(uintptr_t)body; node; node = node->next) {
        if (node->kind != NEST_LET && node->kind != NEST_LOAD && node->kind != NEST_STORE)
            return "what is in the loop is not straight code";
        if (node->kind == NEST_STORE && nest_reads(body, node->array))
            return "the loop loads what it stores";
        if (node->kind != NEST_LET) continue;
        const Value v = p->nest->values->values[node->value];
        Index iteration;
        if (!find_iteration(p, &v, &iteration)) continue;
        if (p->count == CHOSEN_MAX) return "it has too many comparisons";
        p->question[p->count] = node;
        p->iteration[p->count++] = iteration;
    }
    return p->count ? NULL : "nothing is compared with the loop's index";
}

static void put_answer(const Peeling *p, NestNode *question, bool equal) {
    const Op op = p->nest->values->values[question->value].op;
    question->value = ir_constant(p->nest->values, TYPE_BOOL, (op == OP_EQ) == equal);
}

/* The iteration that question `number` is about, where it is one of the loop's. */
static NestNode *chosen(const Peeling *p, size_t number) {
    Nest *nest = p->nest;
    Arena *arena = nest->arena;
    const Index iteration = p->iteration[number];
    NestNode *body = nest_clone(nest, p->loop->body), *own = body;
    for (const NestNode *node = p->loop->body; node != p->question[number]; node = node->next)
        own = own->next;
    put_answer(p, own, true);
    body = nest_put_index(nest, body, p->loop->name, iteration);
    body = nest_only_where(nest, index_add(arena, iteration, index_number(arena, 1)), body);
    return nest_only_where(nest, index_subtract(arena, p->loop->extent, iteration), body);
}

const char *nest_peel(Nest *nest, SymbolId loop) {
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP || (*place)->loop != LOOP_SERIAL)
        return "there is no such serial loop";
    Peeling p = {.nest = nest, .loop = *place};
    const char *problem = find_questions(&p);
    if (problem) return problem;
    NestNode *after = (*place)->next, **end = &(*place)->next;
    for (size_t i = 0; i < p.count; i++, end = &(*end)->next) *end = chosen(&p, i);
    *end = after;
    for (size_t i = 0; i < p.count; i++) put_answer(&p, p.question[i], false);
    return NULL;
}
