/* vectors.c: which loops along a row one thread runs by vectors of the language: those that load
 * neighbours, and store or push to trees of f32 what + - * / make of them. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TREES_MAX = 8 };

/* Whether vectors can say the value; *any becomes true where it differs from element to element,
 * as do the names that vary. */
static bool is_of_vectors(const Nest *nest, const bool *varies, ValueId id, bool *any) {
    const Value *v = &nest->values->values[id];
    if (v->type != TYPE_F32) return false;
    if (v->op == OP_CONST) return true;
    if (v->op == VALUE_NAME) {
        *any |= varies[v->payload];
        return true;
    }
    if (v->op != OP_ADD && v->op != OP_SUB && v->op != OP_MUL && v->op != OP_DIV) return false;
    return is_of_vectors(nest, varies, v->arg[0], any) &&
           is_of_vectors(nest, varies, v->arg[1], any);
}

bool schedule_is_vector_tree(const NestNode *tree, bool any_order) {
    return tree->kind == NEST_TREE && tree->type == TYPE_F32 &&
           (tree->op == OP_SUM || tree->op == OP_PROD ||
            (any_order && (tree->op == OP_REDUCE_MIN || tree->op == OP_REDUCE_MAX)));
}

static bool is_vectorizable(const Nest *nest, const NestNode *loop, bool stores, bool *varies) {
    size_t trees = 0; /* and stores */
    for (const NestNode *node = loop->body; node; node = node->next) {
        const NestSymbol *array = &nest->symbols[node->array];
        bool any = false;
        int64_t step;
        if (node->kind == NEST_LOAD) {
            const Index own = index_coefficient(nest->arena, node->at[0], loop->name);
            if ((array->type != TYPE_F32 && array->type != TYPE_BF16) ||
                array->kind != NAMED_ARRAY || node->list || node->where || node->at_count != 1 ||
                !index_is_number(own, &step) || (step != 0 && step != 1))
                return false;
            varies[node->name] = step == 1;
        } else if (node->kind == NEST_LET) {
            if (!is_of_vectors(nest, varies, node->value, &any)) return false;
            varies[node->name] = any;
        } else if (node->kind == NEST_STORE) {
            const Index own = index_coefficient(nest->arena, node->at[0], loop->name);
            if (!stores || type_info[array->type].class != 'F' || array->kind != NAMED_ARRAY ||
                node->list || node->where || node->at_count != 1 || !index_is_number(own, &step) ||
                step != 1 || !is_of_vectors(nest, varies, node->value, &any) || !any)
                return false;
        } else if (node->kind != NEST_PUSH || node->where || ++trees > TREES_MAX ||
                   !is_of_vectors(nest, varies, node->value, &any) || !any) {
            return false;
        }
    }
    return trees > 0;
}

bool schedule_is_vectorizable(const Nest *nest, const NestNode *loop, bool stores) {
    if (nest_is_long(loop->body)) return false;
    Arena *scratch = arena_child(nest->arena);
    bool *varies = arena_alloc(scratch, nest->symbol_count * sizeof *varies);
    const bool is = is_vectorizable(nest, loop, stores, varies);
    arena_close(scratch);
    return is;
}

static bool varies(const NestNode *node, SymbolId symbol) {
    for (size_t i = 0; i < node->at_count; i++)
        if (index_uses(node->at[i], symbol)) return true;
    return false;
}

/* The accesses of vectors keep a limit behind the vector: they are one access where the array's
 * rows begin on the vector's boundary, and elements where not. */
void schedule_limit_vectors(Nest *nest, NestNode *body, const NestNode *vector) {
    for (NestNode *node = body; node; node = node->next) {
        const bool inside = node->kind == NEST_LOOP && node->loop == LOOP_VECTOR;
        const bool accesses = node->kind == NEST_LOAD || node->kind == NEST_STORE;
        if (vector && accesses && nest->symbols[node->array].kind == NAMED_ARRAY &&
            varies(node, vector->name)) {
            const Index width = index_number(nest->arena, nest->width);
            node->has_limit = true;
            node->limit =
                index_subtract(nest->arena, width, index_symbol(nest->arena, vector->name));
        }
        schedule_limit_vectors(nest, node->body, inside ? node : vector);
        schedule_limit_vectors(nest, node->other, inside ? node : vector);
    }
}
