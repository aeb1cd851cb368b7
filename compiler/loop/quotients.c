/* quotients.c: a loop that divides its index, as one over the quotients and in it one over the
 * iterations of each, so that nothing is divided in it (Amarasinghe and others, Strength Reduction
 * of Integer Division and Modulo Operations).
 *
 * Needs a serial loop whose body begins with the quotient of an index that goes on by one, at least
 * 0, and of a divisor that does not vary in it, and is not 0 where there are iterations: as
 * nest_coalesce leaves it. Keeps the order of iterations. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

typedef struct Dividing {
    Nest *nest;
    NestNode *loop;
    Index first, divisor; /* what the first iteration divides, and by what */
} Dividing;

static bool is_bound(const NestNode *body, Index index) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->name && index_uses(index, node->name)) return true;
    return false;
}

static Index index_of(const Dividing *d, ValueId id) {
    const Value *v = &d->nest->values->values[id];
    return v->op == VALUE_NAME ? index_symbol(d->nest->arena, (SymbolId)v->payload)
                               : *nest_index_of(d->nest, v);
}

static const char *find_division(Dividing *d) {
    const Value *values = d->nest->values->values;
    const NestNode *let = d->loop->body;
    int64_t step;
    if (!let || let->kind != NEST_LET || values[let->value].op != OP_FLOORDIV)
        return "its body does not begin with a quotient";
    const Value *v = &values[let->value];
    for (int i = 0; i < 2; i++)
        if (values[v->arg[i]].op != VALUE_NAME && values[v->arg[i]].op != VALUE_INDEX)
            return "it divides by a number";
    Arena *arena = d->nest->arena;
    const Index own = index_of(d, v->arg[0]);
    d->divisor = index_of(d, v->arg[1]);
    if (!index_is_number(index_coefficient(arena, own, d->loop->name), &step) || step != 1)
        return "it does not divide its index";
    d->first = index_replace(arena, own, d->loop->name, (Index){NULL, 0});
    if (index_uses(d->divisor, d->loop->name) || is_bound(let, d->divisor) ||
        is_bound(let, d->first))
        return "it divides by what varies in it";
    return NULL;
}

const char *nest_quotients(Nest *nest, SymbolId loop, SymbolId *inner) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop), *first = NULL, **end = &first;
    if (!place || (*place)->kind != NEST_LOOP || (*place)->loop != LOOP_SERIAL)
        return "there is no such serial loop";
    Dividing d = {.nest = nest, .loop = *place};
    const char *problem = find_division(&d);
    if (problem) return problem;
    const Index one = index_number(arena, 1), count = d.loop->extent;
    const Index behind = index_add(arena, d.first, count);
    const Index min =
        make_let_index(nest, &end, "least", make_value(nest, OP_FLOORDIV, d.first, d.divisor));
    const Index max = make_let_index(
        nest, &end, "most",
        make_value(nest, OP_FLOORDIV, index_subtract(arena, behind, one), d.divisor));
    const SymbolId step = nest_symbol(nest, "step", NAMED_LOOP, TYPE_I64);
    const SymbolId own = nest_symbol(nest, nest->symbols[loop].name, NAMED_LOOP, TYPE_I64);
    const Index quotient = index_add(arena, min, index_symbol(arena, step));
    const Index turns = index_add(arena, index_subtract(arena, max, min), one);
    NestNode *over = nest_around(nest, LOOP_SERIAL, step, turns, NULL), **inside = &over->body;
    NestNode named = *d.loop->body;
    named.value = nest_index_value(nest, quotient);
    nest_add(nest, &inside, named);
    const Index row = index_multiply(arena, index_symbol(arena, named.name), d.divisor);
    const Index from =
        make_let_index(nest, &inside, "from", make_value(nest, OP_MAX, d.first, row));
    const Index to = make_let_index(
        nest, &inside, "to", make_value(nest, OP_MIN, behind, index_add(arena, row, d.divisor)));
    const Index at =
        index_add(arena, index_symbol(arena, own), index_subtract(arena, from, d.first));
    NestNode *body = nest_put_index(nest, d.loop->body->next, loop, at);
    *inside = nest_around(nest, LOOP_SERIAL, own, index_subtract(arena, to, from), body);
    (*inside)->range = d.loop->range;
    *end = over;
    NestNode *test = nest_only_where(nest, count, first);
    test->next = d.loop->next;
    *place = test;
    if (inner) *inner = own;
    return NULL;
}
