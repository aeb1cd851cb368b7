/* vectors.c: which loops along a row one thread runs by vectors of the language: those that load
 * neighbours, and store or push to trees of f32 what + - * / make of them. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TREES_MAX = 8 };

/* Whether vectors can say the value; *varies becomes true where it differs from element to element.
 */
static bool is_of_vectors(const Nest *nest, const NestNode *loop, ValueId id, bool *varies) {
    const Value *v = &nest->values->values[id];
    if (v->type != TYPE_F32) return false;
    if (v->op == OP_CONST) return true;
    if (v->op == VALUE_NAME) {
        for (const NestNode *node = loop->body; node; node = node->next) {
            if (node->name != (SymbolId)v->payload) continue;
            if (node->kind == NEST_LET) return is_of_vectors(nest, loop, node->value, varies);
            *varies |= index_uses(node->at[0], loop->name);
            return node->kind == NEST_LOAD;
        }
        return true;
    }
    if (v->op != OP_ADD && v->op != OP_SUB && v->op != OP_MUL && v->op != OP_DIV) return false;
    return is_of_vectors(nest, loop, v->arg[0], varies) &&
           is_of_vectors(nest, loop, v->arg[1], varies);
}

bool schedule_is_vector_tree(const NestNode *tree) {
    return tree->kind == NEST_TREE && tree->type == TYPE_F32 &&
           (tree->op == OP_SUM || tree->op == OP_PROD);
}

bool schedule_is_vectorizable(const Nest *nest, const NestNode *loop, bool stores) {
    size_t trees = 0; /* and stores */
    for (const NestNode *node = loop->body; node; node = node->next) {
        const NestSymbol *array = &nest->symbols[node->array];
        bool varies = false;
        int64_t step;
        if (node->kind == NEST_LOAD) {
            const Index own = index_coefficient(nest->arena, node->at[0], loop->name);
            if ((array->type != TYPE_F32 && array->type != TYPE_BF16) ||
                array->kind != NAMED_ARRAY || node->list || node->where || node->at_count != 1 ||
                !index_is_number(own, &step) || (step != 0 && step != 1))
                return false;
        } else if (node->kind == NEST_LET) {
            if (!is_of_vectors(nest, loop, node->value, &varies)) return false;
        } else if (node->kind == NEST_STORE) {
            const Index own = index_coefficient(nest->arena, node->at[0], loop->name);
            if (!stores || type_info[array->type].class != 'F' || array->kind != NAMED_ARRAY ||
                node->list || node->where || node->at_count != 1 || !index_is_number(own, &step) ||
                step != 1 || !is_of_vectors(nest, loop, node->value, &varies) || !varies)
                return false;
        } else if (node->kind != NEST_PUSH || node->where || ++trees > TREES_MAX ||
                   !is_of_vectors(nest, loop, node->value, &varies) || !varies) {
            return false;
        }
    }
    return trees > 0;
}
