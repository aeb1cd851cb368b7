/* load_first.c: fission of an unrolled loop: all of its loads from memory stand before the first
 * use of any, so that they are under way together.
 *
 * Needs straight code in the loop, or in a vector loop that is all of it, and no store of the loop
 * to an array that it loads at another element. Keeps the order of what is computed. Changes what
 * is loaded into registers, an element for each iteration. Integers that a load's place is made of,
 * which no load has given, are computed for the loads and again for the rest. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

static bool is_straight(const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->body || node->other) return false;
    return true;
}

/* Whether each iteration has an element of its own. */
static bool is_own(const NestNode *load, const NestNode *outer, const NestNode *inner) {
    bool by_outer = false, by_inner = false;
    for (size_t i = 0; i < load->at_count; i++) {
        by_outer |= index_uses(load->at[i], outer->name);
        by_inner |= index_uses(load->at[i], inner->name);
    }
    return by_outer && by_inner;
}

/* Whether a node of the body stores to what this one loads, but at its own element. */
static bool is_overwritten(const NestNode *outer, const NestNode *inner, const NestNode *load) {
    const NestNode *body = inner->body;
    for (const NestNode *node = body; node; node = node->next) {
        if ((node->kind != NEST_STORE && node->kind != NEST_ADD) || node->array != load->array)
            continue;
        if (!is_own(load, outer, inner)) return true;
        if (node->kind == NEST_ADD || node->list != load->list || node->at_count != load->at_count)
            return true;
        for (size_t i = 0; i < node->at_count; i++)
            if (!index_equal(node->at[i], load->at[i])) return true;
    }
    return false;
}

/* Whether the node is an integer made of what is bound outside of the body, or of such integers
 * ahead of it. */
static bool is_place(const Nest *nest, const NestNode *body, const NestNode *let) {
    if (let->kind != NEST_LET || nest->symbols[let->name].type != TYPE_I64) return false;
    for (const NestNode *node = body; node != let; node = node->next)
        if (node->name && nest_value_uses(nest, let->value, node->name) &&
            !is_place(nest, body, node))
            return false;
    return true;
}

/* Whether what the load needs is bound in the body, and is no integer that may be computed twice.
 */
static bool needs_body(const Nest *nest, const NestNode *body, const NestNode *load) {
    for (const NestNode *node = body; node; node = node->next) {
        if (!node->name || is_place(nest, body, node)) continue;
        for (size_t i = 0; i < load->at_count; i++)
            if (index_uses(load->at[i], node->name)) return true;
        if (load->where == node->name || load->list == node->name) return true;
        if (load->has_limit && index_uses(load->limit, node->name)) return true;
    }
    return false;
}

static bool goes_first(const Nest *nest, const NestNode *outer, const NestNode *inner,
                       const NestNode *node) {
    return node->kind == NEST_LOAD && nest->symbols[node->array].kind == NAMED_ARRAY &&
           !is_overwritten(outer, inner, node) && !needs_body(nest, inner->body, node);
}

const char *nest_load_first(Nest *nest, SymbolId loop) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop);
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *outer = *place;
    if (outer->loop != LOOP_UNROLLED) return "the loop is not unrolled";
    NestNode *inner =
        outer->body && outer->body->kind == NEST_LOOP && !outer->body->next ? outer->body : outer;
    if (!is_straight(inner->body) || (inner != outer && inner->loop != LOOP_VECTOR))
        return "what is in the loop is not straight code";
    NestNode *allocs = NULL, **alloc_end = &allocs, *moved = NULL, **moved_end = &moved;
    NestNode *rest = NULL, **rest_end = &rest;
    bool any = false;
    const size_t dims = inner == outer ? 1 : 2;
    for (const NestNode *node = inner->body; node; node = node->next) {
        if (is_place(nest, inner->body, node)) nest_add(nest, &moved_end, *node);
        if (!goes_first(nest, outer, inner, node)) {
            nest_add(nest, &rest_end, *node);
            continue;
        }
        const NestSymbol value = nest->symbols[node->name];
        const SymbolId all =
            nest_symbol(nest, arena_printf(arena, "%s_all", value.name), NAMED_ALLOC, value.type);
        const SymbolId first = nest_symbol(nest, value.name, NAMED_VALUE, value.type);
        Index *extents = nest_at(nest, dims), *at = nest_at(nest, dims);
        extents[0] = outer->extent;
        at[0] = index_symbol(arena, outer->name);
        if (dims == 2) extents[1] = inner->extent;
        if (dims == 2) at[1] = index_symbol(arena, inner->name);
        nest_add(nest, &alloc_end,
                 (NestNode){.kind = NEST_ALLOC,
                            .scope = SCOPE_REGISTER,
                            .name = all,
                            .at = extents,
                            .at_count = dims});
        NestNode load = *node;
        load.name = first;
        nest_add(nest, &moved_end, load);
        NestNode store = {.kind = NEST_STORE,
                          .array = all,
                          .at = at,
                          .at_count = dims,
                          .value = nest_name(nest, first),
                          .has_limit = node->has_limit,
                          .limit = node->limit,
                          .where = node->where};
        nest_add(nest, &moved_end, store);
        nest_add(nest, &rest_end,
                 (NestNode){.kind = NEST_LOAD,
                            .name = node->name,
                            .array = all,
                            .at = at,
                            .at_count = dims,
                            .has_limit = node->has_limit,
                            .limit = node->limit,
                            .where = node->where,
                            .pad = node->pad,
                            .range = node->range});
        any = true;
    }
    if (!any) return NULL;
    NestNode *loads = arena_alloc(arena, sizeof *loads), *loads_inner = loads;
    *loads = *outer;
    loads->name = nest_symbol(nest, nest->symbols[outer->name].name, NAMED_LOOP, TYPE_I64);
    if (inner != outer) {
        loads_inner = arena_alloc(arena, sizeof *loads_inner);
        *loads_inner = *inner;
        loads_inner->name =
            nest_symbol(nest, nest->symbols[inner->name].name, NAMED_LOOP, TYPE_I64);
        loads->body = loads_inner;
    }
    moved = nest_clone(nest, moved);
    nest_replace(nest, moved, outer->name, index_symbol(arena, loads->name));
    if (inner != outer)
        nest_replace(nest, moved, inner->name, index_symbol(arena, loads_inner->name));
    loads_inner->body = moved;
    inner->body = rest;
    loads->next = outer;
    *alloc_end = loads;
    *place = allocs;
    return NULL;
}
