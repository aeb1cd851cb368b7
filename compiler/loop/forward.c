/* forward.c: redundant loads: what a body has stored or loaded it does not load again; and stores
 * that nobody reads are dead.
 *
 * A load behind a store or a load of the same element, in its body or in what stands in that, with
 * no other store to the array between, becomes the value that was stored or loaded. Of stores only
 * those without a limit or a condition, to arrays that keep all bits of their values. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static bool is_same_element(const NestNode *first, const NestNode *load) {
    if (load->kind != NEST_LOAD || load->array != first->array || load->list != first->list ||
        load->where != first->where || load->pad != first->pad ||
        load->has_limit != first->has_limit || load->at_count != first->at_count)
        return false;
    for (size_t i = 0; i < load->at_count; i++)
        if (!index_equal(load->at[i], first->at[i])) return false;
    return !load->has_limit || index_equal(load->limit, first->limit);
}

/* The loads of the body, as long as nothing stores to the array. */
static void forward_to(const NestNode *first, ValueId value, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (nest_stores_to(node->body, first->array) || nest_stores_to(node->other, first->array) ||
            ((node->kind == NEST_STORE || node->kind == NEST_ADD) && node->array == first->array))
            return;
        forward_to(first, value, node->body);
        forward_to(first, value, node->other);
        if (is_same_element(first, node))
            *node = (NestNode){.kind = NEST_LET,
                               .name = node->name,
                               .value = value,
                               .range = node->range,
                               .next = node->next};
    }
}

static void forward_body(Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        const Type type = nest->symbols[node->array].type;
        forward_body(nest, node->body);
        forward_body(nest, node->other);
        if (node->kind == NEST_STORE && !node->has_limit && !node->where &&
            type_info[type].compute == type && (Type)nest->values->values[node->value].type == type)
            forward_to(node, node->value, node->next);
        if (node->kind == NEST_LOAD) forward_to(node, nest_name(nest, node->name), node->next);
    }
}

void nest_forward(Nest *nest) {
    forward_body(nest, nest->body);
}

static void drop(NestNode **body, SymbolId array) {
    while (*body) {
        drop(&(*body)->body, array);
        drop(&(*body)->other, array);
        if ((*body)->kind == NEST_STORE && (*body)->array == array)
            *body = (*body)->next;
        else
            body = &(*body)->next;
    }
}

bool nest_drop_stores(Nest *nest, SymbolId array) {
    if (nest_reads(nest->body, array)) return false;
    drop(&nest->body, array);
    return true;
}
