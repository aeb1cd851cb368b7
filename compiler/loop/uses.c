/* uses.c: whether a body uses a symbol or any of a set, and how often it uses each. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

/* A walk over what a body uses, which ends where one of a set is found. */
typedef struct Uses {
    const Nest *nest;
    const bool *any;  /* of each symbol, whether it is of the set; or NULL */
    uint32_t *counts; /* of each symbol, to which its uses are added; or NULL */
    uint32_t change;  /* 1, or -1 */
} Uses;

static bool use(const Uses *uses, SymbolId symbol) {
    if (uses->counts) uses->counts[symbol] += uses->change;
    return uses->any && uses->any[symbol];
}

static bool use_index(const Uses *uses, Index index) {
    for (size_t t = 0; t < index.count; t++)
        for (uint32_t k = 0; k < index.terms[t].count; k++)
            if (use(uses, index.terms[t].symbols[k])) return true;
    return false;
}

static bool use_value(const Uses *uses, ValueId value) {
    const Value *v = &uses->nest->values->values[value];
    if (!value) return false;
    if (v->op == VALUE_NAME && use(uses, (SymbolId)v->payload)) return true;
    if (v->op == VALUE_INDEX && use_index(uses, *nest_index_of(uses->nest, v))) return true;
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (use_value(uses, v->arg[i])) return true;
    return false;
}

static bool use_body(const Uses *uses, const NestNode *body);

static bool use_node(const Uses *uses, const NestNode *node) {
    for (size_t i = 0; i < node->at_count; i++)
        if (use_index(uses, node->at[i])) return true;
    return use_index(uses, node->extent) || use_index(uses, node->limit) || use(uses, node->list) ||
           use(uses, node->where) || (node->kind != NEST_STORE && use(uses, node->array)) ||
           use_value(uses, node->value) || use_value(uses, node->pad) ||
           use_body(uses, node->body) || use_body(uses, node->other);
}

static bool use_body(const Uses *uses, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if (use_node(uses, node)) return true;
    return false;
}

bool nest_uses_any(const Nest *nest, const NestNode *node, const bool *any) {
    return use_node(&(Uses){.nest = nest, .any = any}, node);
}

void nest_count_uses(const Nest *nest, const NestNode *body, uint32_t *counts) {
    use_body(&(Uses){.nest = nest, .counts = counts, .change = 1}, body);
}

void nest_add_uses(const Nest *nest, const NestNode *node, uint32_t *counts) {
    use_node(&(Uses){.nest = nest, .counts = counts, .change = 1}, node);
}

void nest_drop_uses(const Nest *nest, const NestNode *node, uint32_t *counts) {
    use_node(&(Uses){.nest = nest, .counts = counts, .change = UINT32_MAX}, node);
}

static bool uses_symbol(const Nest *nest, const NestNode *node, SymbolId symbol) {
    bool uses = node->list == symbol || node->where == symbol || node->array == symbol ||
                index_uses(node->extent, symbol) || index_uses(node->limit, symbol) ||
                (node->value && nest_value_uses(nest, node->value, symbol)) ||
                (node->pad && nest_value_uses(nest, node->pad, symbol));
    for (size_t i = 0; i < node->at_count; i++) uses |= index_uses(node->at[i], symbol);
    return uses;
}

bool nest_body_uses(const Nest *nest, const NestNode *body, SymbolId symbol) {
    for (const NestNode *node = body; node; node = node->next)
        if (uses_symbol(nest, node, symbol) || nest_body_uses(nest, node->body, symbol) ||
            nest_body_uses(nest, node->other, symbol))
            return true;
    return false;
}
