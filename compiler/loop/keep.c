/* keep.c: what several loops load from memory alike is loaded once and kept in registers: scalar
 * replacement across loops. So is what they compute alike of that, where it is some work.
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
static SymbolId declare(Nest *nest, NestNode **place, const Chain *chain, const NestNode *load,
                        Type type) {
    const NestSymbol value = nest->symbols[load->name];
    NestNode *alloc = arena_alloc(nest->arena, sizeof *alloc);
    const SymbolId kept =
        nest_symbol(nest, arena_printf(nest->arena, "%s_kept", value.name), NAMED_ALLOC, type);
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
        if (!*kept) *kept = declare(k->nest, place, own, load, k->nest->symbols[load->array].type);
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

/* ---- values ---- */

enum { WORK_MIN = 8 }; /* of an operation whose value is worth a register */

typedef struct Pair { /* bodies under equal loops, and a value of the first one */
    Nest *nest;
    const Chain *own, *other;
} Pair;

static const NestNode *bound_in(const Chain *chain, SymbolId symbol) {
    const NestNode *node = *chain->body;
    while (symbol && node && node->name != symbol) node = node->next;
    return symbol ? node : NULL;
}

static size_t count_stores(const NestNode *body, SymbolId array) {
    size_t count = 0;
    for (const NestNode *node = body; node; node = node->next) {
        count += node->kind == NEST_STORE && node->array == array;
        count += count_stores(node->body, array) + count_stores(node->other, array);
    }
    return count;
}

/* Whether the load is of registers that are written once, in the first body or ahead of it. */
static bool is_of_kept(const Pair *x, const NestNode *load) {
    NestNode **alloc = nest_find(&x->nest->body, load->array);
    return load->kind == NEST_LOAD && alloc && (*alloc)->kind == NEST_ALLOC &&
           (*alloc)->scope == SCOPE_REGISTER && count_stores(x->nest->body, load->array) == 1;
}

/* Whether the first body keeps what it calls by the name where the load of the other one finds it.
 */
static bool is_kept_as(const Pair *x, SymbolId name, const NestNode *load) {
    const Value *values = x->nest->values->values;
    const NestNode *node = *x->own->body;
    while (node && (node->kind != NEST_STORE || node->array != load->array)) node = node->next;
    if (!node || values[node->value].op != VALUE_NAME) return false;
    if (values[node->value].payload != name || node->at_count != load->at_count) return false;
    for (size_t i = 0; i < node->at_count; i++)
        if (!index_equal(node->at[i], as_in(x->nest, x->own, x->other, load->at[i]))) return false;
    return true;
}

static bool is_same_value(const Pair *x, ValueId a, ValueId b);

/* What the name is short for, outside of the bodies. */
static const NestNode *find_name(const Pair *x, SymbolId *name) {
    NestNode **place = nest_find(&x->nest->body, *name);
    const Value *values = x->nest->values->values;
    while (place && (*place)->kind == NEST_LET && values[(*place)->value].op == VALUE_NAME) {
        *name = (SymbolId)values[(*place)->value].payload;
        place = nest_find(&x->nest->body, *name);
    }
    return place ? *place : NULL;
}

static bool is_same_name(const Pair *x, SymbolId a, SymbolId b) {
    const NestNode *own = bound_in(x->own, a), *other = bound_in(x->other, b);
    if (!own != !other) return false;
    if (!own) own = find_name(x, &a), other = find_name(x, &b);
    if (a == b) return true;
    if (!own || !other) return false;
    if (own->kind == NEST_LET && other->kind == NEST_LET)
        return is_same_value(x, own->value, other->value);
    if (!bound_in(x->own, a) || own->kind != NEST_LOAD || !is_of_kept(x, other)) return false;
    return is_same(x->nest, x->own, own, x->other, other) || is_kept_as(x, a, other);
}

/* Whether the index is made of loops alone, or of what stands ahead of both bodies. */
static bool is_of_loops(const Chain *chain, Index index) {
    for (const NestNode *node = *chain->body; node; node = node->next)
        if (node->name && index_uses(index, node->name)) return false;
    return true;
}

static bool is_same_value(const Pair *x, ValueId a, ValueId b) {
    const Value *own = &x->nest->values->values[a], *other = &x->nest->values->values[b];
    if (!a || !b) return a == b;
    if (own->op != other->op || own->type != other->type) return false;
    if (own->op == VALUE_NAME)
        return is_same_name(x, (SymbolId)own->payload, (SymbolId)other->payload);
    if (own->op == VALUE_INDEX) {
        const Index index = *nest_index_of(x->nest, other);
        return is_of_loops(x->other, index) &&
               index_equal(*nest_index_of(x->nest, own), as_in(x->nest, x->own, x->other, index));
    }
    if (own->op == OP_CALL || own->payload != other->payload) return a == b && own->op == OP_CONST;
    for (int i = 0; i < op_info[own->op].arity; i++)
        if (!is_same_value(x, own->arg[i], other->arg[i])) return false;
    return op_info[own->op].arity || a == b;
}

/* The node of the body whose limit its elements have; NULL: it has none. */
static const NestNode *find_limited(const Chain *chain) {
    const NestNode *node = *chain->body;
    while (node && !node->has_limit) node = node->next;
    return node;
}

static bool have_same_limit(const Pair *x) {
    const NestNode *own = find_limited(x->own), *other = find_limited(x->other);
    return own && other ? index_equal(own->limit, as_in(x->nest, x->own, x->other, other->limit))
                        : !own && !other;
}

/* The value that the other body computes comes from registers. */
static void take_value(const Pair *x, NestNode *let, SymbolId kept) {
    const NestNode *limited = find_limited(x->other);
    NestNode *next = let->next;
    *let = (NestNode){.kind = NEST_LOAD,
                      .name = let->name,
                      .array = kept,
                      .at = subscripts(x->nest, x->other, false),
                      .at_count = x->other->count,
                      .has_limit = limited != NULL,
                      .range = let->range,
                      .next = next};
    if (limited) let->limit = limited->limit;
}

static SymbolId keep_let(Keeper *k, NestNode **place, const Chain *own, NestNode *let) {
    SymbolId kept = 0;
    bool behind = false;
    for (NestNode *node = *place; node; node = node->next) {
        const Chains others = find_chains(k->nest->arena, node);
        for (size_t i = 0; i < others.count; i++) {
            const Pair x = {k->nest, own, &others.items[i]};
            const bool alike = behind && is_alike(own, x.other) &&
                               has_same_test(k->nest, own, x.other) && have_same_limit(&x);
            behind |= x.other->body == own->body;
            for (NestNode *later = alike ? *x.other->body : NULL; later; later = later->next) {
                if (later->kind != NEST_LET || !is_same_value(&x, let->value, later->value))
                    continue;
                if (!kept)
                    kept = declare(k->nest, place, own, let, k->nest->symbols[let->name].type);
                take_value(&x, later, kept);
            }
        }
    }
    return kept;
}

static bool is_work(const Nest *nest, const NestNode *let) {
    const Type type = nest->symbols[let->name].type;
    return let->kind == NEST_LET && op_info[nest->values->values[let->value].op].work >= WORK_MIN &&
           type_info[type].compute == type && type != TYPE_BOOL;
}

static void keep_values_in(Keeper *k, NestNode **body) {
    for (NestNode **at = body; *at; at = &(*at)->next) {
        NestNode *node = *at;
        const Chains chains = find_chains(k->nest->arena, node);
        for (size_t i = 0; i < chains.count; i++) {
            const Chain *own = &chains.items[i];
            for (NestNode *let = *own->body; let; let = let->next) {
                if (!is_work(k->nest, let)) continue;
                const int64_t needs = registers_of(k->nest, own, k->nest->symbols[let->name].type);
                if (needs > k->left) continue;
                const NestNode *limited = find_limited(own);
                const SymbolId kept = keep_let(k, at, own, let);
                while (*at != node) at = &(*at)->next;
                if (!kept) continue;
                NestNode as = *let;
                as.has_limit = limited != NULL;
                as.where = 0;
                if (limited) as.limit = limited->limit;
                keep_value(k->nest, own, &as, kept);
                let->next = as.next;
                k->left -= needs;
            }
        }
        keep_values_in(k, &node->body);
        keep_values_in(k, &node->other);
    }
}

void nest_keep(Nest *nest, int64_t registers) {
    Keeper k = {nest, registers};
    keep_in(&k, &nest->body);
    keep_values_in(&k, &nest->body);
}
