/* keep.c: what several loops load from memory alike is loaded once and kept in registers: scalar
 * replacement across loops.
 *
 * Needs loops over the same tile, as nest_tile leaves them, in which loads are of the same
 * elements, behind each other in one body or in what stands in it, and nothing that stores to their
 * array before the last of them. Keeps what each iteration sees. The first loop then stores what it
 * loads to registers, which the others load in the place of memory, as long as these are no more
 * than so many 32-bit ones of a thread. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { DEPTH = 8 };

typedef struct Chain { /* a perfect nest: the loops around straight code, from a body on */
    NestNode *loops[DEPTH];
    size_t count;
    const NestNode *test; /* an IF among them, behind so many of them; NULL: there is none */
    size_t test_at;
    NestNode **body;
} Chain;

typedef struct Chains {
    Arena *arena;
    Chain *items;
    size_t count, capacity;
} Chains;

static void add_chains(Chains *list, NestNode **body, Chain chain);

/* Adds those that go through the node. */
static void add_through(Chains *list, NestNode *node, Chain chain) {
    int64_t extent;
    if (node->kind == NEST_IF && !node->other && !chain.test) {
        chain.test = node;
        chain.test_at = chain.count;
        add_chains(list, &node->body, chain);
    }
    if (node->kind != NEST_LOOP || node->loop == LOOP_GRID || chain.count == DEPTH) return;
    const bool threads = node->loop == LOOP_LANE || node->loop == LOOP_WARP;
    if (!index_is_number(node->extent, &extent) || (!threads && extent > UNROLLED_MAX)) return;
    chain.loops[chain.count++] = node;
    add_chains(list, &node->body, chain);
}

static void add_chains(Chains *list, NestNode **body, Chain chain) {
    bool straight = chain.count > 0;
    for (NestNode *node = *body; node; node = node->next) {
        straight &= !node->body && !node->other;
        add_through(list, node, chain);
    }
    if (!straight) return;
    chain.body = body;
    list->items =
        arena_grow(list->arena, list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = chain;
}

static Chains find_chains(Arena *arena, NestNode *node) {
    Chains list = {.arena = arena};
    add_through(&list, node, (Chain){.count = 0});
    return list;
}

static bool is_alike(const Chain *a, const Chain *b) {
    if (a->count != b->count || !a->test != !b->test || a->test_at != b->test_at) return false;
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
    size_t count = 0;
    for (int threads = 1; threads >= 0; threads--) /* their dims come first */
        for (size_t i = 0; i < chain->count; i++) {
            const NestNode *loop = chain->loops[i];
            if ((loop->loop == LOOP_WARP || loop->loop == LOOP_LANE) == threads)
                at[count++] = extents ? loop->extent : index_symbol(nest->arena, loop->name);
        }
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

typedef struct Keeper {
    Nest *nest;
    int64_t left; /* registers */
} Keeper;

/* In bodies under equal loops the loads of the same element come from registers, until a store. */
static void keep_there(Keeper *k, NestNode **place, const Chain *own, const NestNode *load,
                       const Chain *other, SymbolId *kept) {
    for (NestNode *later = *other->body; later; later = later->next) {
        if (stores_to(later, load->array)) return;
        if (!is_same(k->nest, own, load, other, later)) continue;
        if (!*kept) *kept = declare(k->nest, place, own, load);
        later->array = *kept;
        later->list = 0;
        later->at = subscripts(k->nest, other, false);
        later->at_count = other->count;
        later->hint = HINT_NONE;
    }
}

/* The later loads of the same element, in the node at the place and in those behind it. */
static SymbolId keep_load(Keeper *k, NestNode **place, const Chain *own, NestNode *load) {
    SymbolId kept = 0, array = load->array;
    bool behind = false;
    for (NestNode *node = *place; node && !stores_to(node, array); node = node->next) {
        const Chains others = find_chains(k->nest->arena, node);
        for (size_t i = 0; i < others.count; i++) {
            const Chain *other = &others.items[i];
            if (behind && is_alike(own, other) && has_same_test(k->nest, own, other))
                keep_there(k, place, own, load, other, &kept);
            behind |= other->body == own->body;
        }
    }
    return kept;
}

static void keep_in(Keeper *k, NestNode **body) {
    for (NestNode **at = body; *at; at = &(*at)->next) {
        NestNode *node = *at;
        const Chains chains = find_chains(k->nest->arena, node);
        for (size_t i = 0; i < chains.count; i++)
            for (NestNode *load = *chains.items[i].body; load; load = load->next) {
                const NestSymbol array = k->nest->symbols[load->array];
                if (load->kind != NEST_LOAD || array.kind != NAMED_ARRAY) continue;
                const int64_t needs = registers_of(k->nest, &chains.items[i], array.type);
                if (needs > k->left) continue;
                const SymbolId kept = keep_load(k, at, &chains.items[i], load);
                while (*at != node) at = &(*at)->next;
                if (!kept) continue;
                keep_value(k->nest, &chains.items[i], load, kept);
                k->left -= needs;
            }
        keep_in(k, &node->body);
        keep_in(k, &node->other);
    }
}

void nest_keep(Nest *nest, int64_t registers) {
    Keeper k = {nest, registers};
    keep_in(&k, &nest->body);
}
