/* version.c: loop versioning: where a strip is whole, its body with the number of its iterations as
 * a constant, else as it was.
 *
 * Needs a loop over strips whose body begins with how wide a strip is, as nest_strip leaves it.
 * Keeps the order of iterations. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

const char *nest_version(Nest *nest, SymbolId loop, NestNode **test) {
    NestNode **place = nest_find(&nest->body, loop);
    const Value *values = nest->values->values;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = (*place)->body;
    const Value *v = old ? &values[old->value] : NULL;
    if (!old || old->kind != NEST_LET || v->op != OP_MIN || values[v->arg[0]].op != OP_CONST ||
        values[v->arg[1]].op != VALUE_INDEX)
        return "its body does not begin with how wide a strip is";
    Arena *arena = nest->arena;
    const int64_t size = (int64_t)values[v->arg[0]].payload;
    const Index left = *nest_index_of(nest, &values[v->arg[1]]);
    NestNode *main = nest_clone(nest, old->next);
    nest_replace(nest, main, old->name, index_number(arena, size));
    NestNode *own = arena_alloc(arena, sizeof *own);
    *own = (NestNode){.kind = NEST_IF,
                      .extent = index_subtract(arena, left, index_number(arena, size - 1)),
                      .body = main,
                      .other = old,
                      .version = true};
    (*place)->body = own;
    if (test) *test = own;
    return NULL;
}
