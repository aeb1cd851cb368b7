/* trim.c: a serial loop ends where its iterations begin to push nothing but identities.
 *
 * Needs a loop as nest_skip_empty leaves it, an affine test and nothing else: what is done where it
 * fails are pushes of identities to folds around the loop, a leaf each iteration, and once it
 * fails it fails from then on. Keeps every bit: leaves of a fold that never come are identities.
 * Changes the loop's bound, and how many leaves of those folds are combined. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* Why the loop cannot end before, or NULL. */
static const char *find_problem(Nest *nest, const NestNode *loop, const NestNode *test) {
    const Index step = index_coefficient(nest->arena, test->extent, loop->name);
    int64_t number;
    if (!index_is_number(step, &number) || number != -1) return "its test does not fall by 1";
    for (const NestNode *push = test->other; push; push = push->next) {
        NestNode **fold = push->kind == NEST_PUSH ? nest_find(&nest->body, push->array) : NULL;
        if (!fold || (*fold)->kind != NEST_FOLD) return "it does something beyond its test";
        const Value *value = &nest->values->values[push->value];
        if (value->op != OP_CONST || value->payload != nest_identity((*fold)->op, (*fold)->type))
            return "it pushes something beyond its test";
        if (push->at_count != 1 || !index_equal(push->at[0], index_symbol(nest->arena, loop->name)))
            return "its pushes are not one leaf after the other";
        NestNode *combine = nest_find_combine(nest->body, push->array);
        if (!combine || combine->extent.count) return "its fold is not combined once";
    }
    return NULL;
}

const char *nest_trim(Nest *nest, SymbolId loop) {
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place, *test = old->body;
    int64_t leaves, known;
    if (old->loop != LOOP_SERIAL) return "the loop is not serial";
    if (!test || test->kind != NEST_IF || test->next) return "it is no one test";
    if (!index_is_number(old->extent, &leaves)) return "how long the loop is is not known";
    const char *problem = find_problem(nest, old, test);
    if (problem) return problem;
    const Index left = index_replace(nest->arena, test->extent, loop, index_number(nest->arena, 0));
    old->body = test->body;
    if (index_is_number(left, &known)) {
        if (known >= leaves) return NULL;
        old->extent = left;
    } else {
        NestNode *let = arena_alloc(nest->arena, sizeof *let);
        *let = (NestNode){.kind = NEST_LET,
                          .name = nest_symbol(nest, "lanes", NAMED_VALUE, TYPE_I64),
                          .value = ir_op(nest->values, OP_MIN, nest_index_value(nest, old->extent),
                                         nest_index_value(nest, left), 0),
                          .next = old};
        old->extent = index_symbol(nest->arena, let->name);
        *place = let;
    }
    for (const NestNode *push = test->other; push; push = push->next)
        nest_find_combine(nest->body, push->array)->extent = old->extent;
    return NULL;
}
