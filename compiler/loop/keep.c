/* keep.c: what several loops load from memory alike is loaded once and kept in registers: scalar
 * replacement across loops.
 *
 * Needs loops beside each other over the same tile, as nest_tile leaves them, in which loads are of
 * the same elements, and nothing that stores to their array before the last of them. Keeps what
 * each iteration sees. The first loop then stores what it loads to registers, which the others load
 * in the place of memory, as long as these are no more than so many 32-bit ones of a thread. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { DEPTH = 8 };

typedef struct Chain { /* loops that stand alone in each other around straight code */
    NestNode *loops[DEPTH];
    size_t count;
    const NestNode *test; /* an IF in the first of them; NULL: there is none */
    NestNode **body;
} Chain;

static bool find_chain(NestNode *loop, Chain *chain) {
    *chain = (Chain){.count = 0};
    for (NestNode *at = loop; at && at->kind == NEST_LOOP; at = *chain->body) {
        int64_t extent;
        const bool threads = at->loop == LOOP_LANE || at->loop == LOOP_WARP;
        if (at->loop == LOOP_GRID || chain->count == DEPTH) return false;
        if (!index_is_number(at->extent, &extent) || (at != loop && at->next)) return false;
        if (!threads && extent > UNROLLED_MAX) return false;
        chain->loops[chain->count++] = at;
        chain->body = &at->body;
        NestNode *test = at->body;
        if (at != loop || !test || test->kind != NEST_IF || test->next || test->other) continue;
        chain->test = test;
        chain->body = &test->body;
    }
    if (!chain->count) return false;
    for (const NestNode *node = *chain->body; node; node = node->next)
        if (node->body || node->other) return false;
    return true;
}

static bool is_alike(const Chain *a, const Chain *b) {
    if (a->count != b->count || !a->test != !b->test) return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->loops[i]->loop != b->loops[i]->loop ||
            !index_equal(a->loops[i]->extent, b->loops[i]->extent))
            return false;
    return true;
}

static Index as_in(Nest *nest, const Chain *own, const Chain *other, Index index) {
    for (size_t i = 0; i < own->count; i++)
        index = index_replace(nest->arena, index, other->loops[i]->name,
                              index_symbol(nest->arena, own->loops[i]->name));
    return index;
}

static bool has_same_test(Nest *nest, const Chain *own, const Chain *other) {
    return !own->test ||
           index_equal(own->test->extent, as_in(nest, own, other, other->test->extent));
}

static bool binds(const Chain *chain, SymbolId symbol) {
    for (const NestNode *node = *chain->body; symbol && node; node = node->next)
        if (node->name == symbol) return true;
    return false;
}

/* Whether the two loads are of one element, and give the same beyond their limits. */
static bool is_same(Nest *nest, const Chain *own, const NestNode *load, const Chain *other,
                    const NestNode *later) {
    if (later->kind != NEST_LOAD || later->array != load->array || later->list != load->list ||
        later->where != load->where || later->pad != load->pad ||
        later->at_count != load->at_count || later->has_limit != load->has_limit)
        return false;
    if (binds(own, load->where) || binds(own, load->list)) return false;
    for (size_t i = 0; i < load->at_count; i++)
        if (!index_equal(load->at[i], as_in(nest, own, other, later->at[i]))) return false;
    return !load->has_limit || index_equal(load->limit, as_in(nest, own, other, later->limit));
}

static bool stores_to(const NestNode *node, SymbolId array) {
    if ((node->kind == NEST_STORE || node->kind == NEST_ADD) && node->array == array) return true;
    if (node->kind == NEST_BARRIER && node->scope == SCOPE_GRID) return true;
    if (node->kind == NEST_ARRIVE) return true;
    for (const NestNode *own = node->body; own; own = own->next)
        if (stores_to(own, array)) return true;
    for (const NestNode *own = node->other; own; own = own->next)
        if (stores_to(own, array)) return true;
    return false;
}

/* 32-bit registers of a thread for an element of each iteration. */
static int64_t registers_of(const Nest *nest, const Chain *chain, Type type) {
    const int64_t size = type_info[type].size;
    int64_t count = 1, extent = 1;
    for (size_t i = 0; i < chain->count; i++) {
        const LoopKind kind = chain->loops[i]->loop;
        index_is_number(chain->loops[i]->extent, &extent);
        if (kind != LOOP_LANE && kind != LOOP_WARP) count *= extent;
    }
    (void)nest;
    return (count * size + 3) / 4;
}

static Index *subscripts(Nest *nest, const Chain *chain, bool extents) {
    Index *at = nest_at(nest, chain->count);
    for (size_t i = 0; i < chain->count; i++)
        at[i] =
            extents ? chain->loops[i]->extent : index_symbol(nest->arena, chain->loops[i]->name);
    return at;
}

/* The registers' declaration takes the first loop's place, and that stands behind it. */
static SymbolId declare(Nest *nest, NestNode **place, const Chain *chain, const NestNode *load) {
    const NestSymbol value = nest->symbols[load->name];
    NestNode *alloc = arena_alloc(nest->arena, sizeof *alloc);
    const SymbolId kept = nest_symbol(nest, arena_printf(nest->arena, "%s_kept", value.name),
                                      NAMED_ALLOC, nest->symbols[load->array].type);
    *alloc = (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_REGISTER,
                        .name = kept,
                        .at = subscripts(nest, chain, true),
                        .at_count = chain->count,
                        .next = *place};
    *place = alloc;
    return kept;
}

/* Behind the load what it gives is kept. */
static void keep_value(Nest *nest, const Chain *chain, NestNode *load, SymbolId kept) {
    NestNode *store = arena_alloc(nest->arena, sizeof *store);
    *store = (NestNode){.kind = NEST_STORE,
                        .array = kept,
                        .at = subscripts(nest, chain, false),
                        .at_count = chain->count,
                        .value = nest_name(nest, load->name),
                        .has_limit = load->has_limit,
                        .limit = load->limit,
                        .where = load->where,
                        .next = load->next};
    load->next = store;
}

/* The later loads of the same element come from registers. */
static SymbolId keep_load(Nest *nest, NestNode **place, const Chain *own, NestNode *load) {
    SymbolId kept = 0;
    for (NestNode *node = *place; node; node = node->next) {
        Chain other;
        const bool chain = node->kind == NEST_LOOP && find_chain(node, &other);
        const bool first = node == own->loops[0];
        bool stored = false;
        for (NestNode *later =
                 chain && !first && is_alike(own, &other) && has_same_test(nest, own, &other)
                     ? *other.body
                     : NULL;
             later; later = later->next) {
            stored |= stores_to(later, load->array);
            if (stored || !is_same(nest, own, load, &other, later)) continue;
            if (!kept) kept = declare(nest, place, own, load);
            later->array = kept;
            later->list = 0;
            later->at = subscripts(nest, &other, false);
            later->at_count = other.count;
            later->hint = HINT_NONE;
        }
        if (stores_to(node, load->array)) break;
    }
    if (kept) keep_value(nest, own, load, kept);
    return kept;
}

static void keep_in(Nest *nest, NestNode **body, int64_t most) {
    for (NestNode **at = body; *at; at = &(*at)->next) {
        NestNode *loop = *at;
        Chain chain;
        keep_in(nest, &loop->body, most);
        keep_in(nest, &loop->other, most);
        if (loop->kind != NEST_LOOP || !find_chain(loop, &chain)) continue;
        for (NestNode *load = *chain.body; load; load = load->next) {
            const NestSymbol array = nest->symbols[load->array];
            if (load->kind != NEST_LOAD || array.kind != NAMED_ARRAY) continue;
            const int64_t needs = registers_of(nest, &chain, array.type);
            if (needs <= most && keep_load(nest, at, &chain, load)) most -= needs;
            while (*at != loop) at = &(*at)->next;
        }
    }
}

void nest_keep(Nest *nest, int64_t registers) {
    keep_in(nest, &nest->body, registers);
}
