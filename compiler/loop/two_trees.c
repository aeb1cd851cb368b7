/* two_trees.c: argmin, argmax and logsumexp as two trees, whose values are made of pairs.
 *
 * Of a tile first the least or greatest value; then, with that known, over the same elements the
 * least number of a leaf that has it, or the sum of the exponentials below it. Of all tiles the
 * same again: the least or greatest of theirs, and the second values as that makes them count.
 * Needs a serial loop of straight code over a tile's elements, at most 1024 as nest_strip leaves
 * them, with the one push to the tree. Keeps every bit: the first tree has one value in any order,
 * and the second one's leaves are those that the reduction is defined by. Changes the loop into
 * one for each tree, which the other passes then place. A reduction of the same leaves that has the
 * first tree's value takes that (redundancy elimination). */
#include <math.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { TILE = 1024 };

typedef struct TwoTrees {
    Nest *nest;
    SymbolId tree;
    Op op;
    Type type, second; /* of the leaves, and of the second tree's */
    NestNode *push, *combine, **loop;
    Index tile, tiles, room, count;
    SymbolId extrema, parts; /* of tiles; 0: there is one at most */
    bool shared;             /* in memory of the block */
    NestNode same;           /* combines a tree that is the first of the two; no name: none does */
} TwoTrees;

static size_t find_push(TwoTrees *x, NestNode **body) {
    size_t count = 0;
    for (NestNode **at = body; *at; at = &(*at)->next) {
        for (NestNode *node = (*at)->body; node && (*at)->kind == NEST_LOOP; node = node->next)
            if (node->kind == NEST_PUSH && node->array == x->tree) {
                x->loop = at;
                x->push = node;
                count++;
            }
        if ((*at)->kind == NEST_COMBINE && (*at)->array == x->tree) x->combine = *at;
        count += find_push(x, &(*at)->body) + find_push(x, &(*at)->other);
    }
    return count;
}

/* Why the push is not in such a loop, or NULL; finds the number of its tile. */
static const char *find_form(TwoTrees *x, bool single) {
    Arena *arena = x->nest->arena;
    const NestNode *loop = *x->loop;
    const Index leaf = x->push->at[0];
    int64_t step = 0;
    if (loop->loop != LOOP_SERIAL) return "the loop over its leaves is not serial";
    if (!single && !nest_is_tile_long(x->nest, loop)) return "its leaves are not those of a tile";
    if (x->push->has_limit || x->push->where) return "some of its leaves are not pushed";
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->body || node->other || node->kind == NEST_COMBINE || node->kind == NEST_ARRIVE)
            return "what is in the loop over its leaves is not straight code";
    if (!index_is_number(index_coefficient(arena, leaf, loop->name), &step) || step != 1)
        return "its leaves are not those of a tile";
    const Index rest = index_subtract(arena, leaf, index_symbol(arena, loop->name));
    IndexTerm *terms = arena_alloc(arena, (rest.count + 1) * sizeof *terms);
    for (size_t i = 0; i < rest.count; i++) {
        terms[i] = rest.terms[i];
        if (terms[i].factor % TILE) return "its leaves are not those of a tile";
        terms[i].factor /= TILE;
    }
    x->tile = (Index){terms, rest.count};
    return single && rest.count ? "it may have several tiles" : NULL;
}

/* ---- a tree that is the first of the two ---- */

/* The push of the same value as the same leaf to a tree of its own. */
static NestNode **find_same_push(const TwoTrees *x, Op wanted) {
    for (NestNode **at = &(*x->loop)->body; *at; at = &(*at)->next) {
        const NestNode *push = *at;
        if (push->kind != NEST_PUSH || push == x->push || push->at_count != 1) continue;
        NestNode **tree = nest_find(&x->nest->body, push->array);
        const bool pushed = !push->has_limit && !push->where && push->value == x->push->value;
        if (pushed && index_equal(push->at[0], x->push->at[0]) && tree &&
            (*tree)->kind == NEST_TREE && (*tree)->op == wanted && !(*tree)->at_count &&
            index_equal((*tree)->extent, x->count))
            return at;
    }
    return NULL;
}

static NestNode *find_combine(NestNode *body, SymbolId tree) {
    for (NestNode *node = body; node; node = node->next) {
        NestNode *inside = find_combine(node->body, tree);
        if (node->kind == NEST_COMBINE && node->array == tree && !node->at_count) return node;
        if (!inside) inside = find_combine(node->other, tree);
        if (inside) return inside;
    }
    return NULL;
}

static bool is_behind(const NestNode *node, const NestNode *other) {
    while (node && node != other) node = node->next;
    return node;
}

/* Another reduction of the loop's leaves that is the first tree's (redundancy elimination): it has
 * no tree of its own any more, and what both come to stands where the first of them did. */
static void join_same(TwoTrees *x, Op wanted) {
    NestNode **push = find_same_push(x, wanted);
    NestNode *same = push ? find_combine(x->nest->body, (*push)->array) : NULL;
    if (!same || (!is_behind(same, x->combine) && !is_behind(x->combine, same))) return;
    NestNode **tree = nest_find(&x->nest->body, (*push)->array);
    *push = (*push)->next;
    if (&(*tree)->next == x->loop) x->loop = tree;
    *tree = (*tree)->next;
    NestNode *first = is_behind(same, x->combine) ? same : x->combine;
    NestNode *last = first == same ? x->combine : same, *before = first;
    const NestNode own = *x->combine;
    x->same = *same;
    while (before->next != last) before = before->next;
    before->next = last->next;
    NestNode *rest = first->next;
    *first = own;
    first->next = rest;
    x->combine = first;
}

/* ---- values ---- */

static ValueId op(const TwoTrees *x, Op operation, ValueId a, ValueId b, ValueId c) {
    return ir_op(x->nest->values, operation, a, b, c);
}

/* Of what is at most 0: where a leaf is not, as what it is compared with is not the finite greatest
 * one, nobody uses the exponential. */
static ValueId exp_nonpositive(const TwoTrees *x, ValueId value) {
    return ir_exp_nonpositive(x->nest->values, OP_EXP, value);
}

static ValueId number(const TwoTrees *x, Type type, double value) {
    return ir_constant(x->nest->values, type, ir_number_bits(type, value));
}

/* Whether the value is the best one, to the bit: any NaN is, where one is there. */
static ValueId is_best(const TwoTrees *x, ValueId value, ValueId best) {
    const ValueId same = op(x, OP_EQ, value, best, 0);
    if (type_info[x->type].class != 'F') return same;
    const ValueId one = number(x, x->type, 1.0);
    const ValueId sign =
        op(x, OP_EQ, op(x, OP_COPYSIGN, one, value, 0), op(x, OP_COPYSIGN, one, best, 0), 0);
    return op(x, OP_OR, op(x, OP_AND, same, sign, 0), op(x, OP_NE, value, value, 0), 0);
}

/* A second value as the top over more leaves makes it count. */
static ValueId under(const TwoTrees *x, ValueId second, ValueId own, ValueId extremum) {
    if (x->op == OP_LOGSUMEXP)
        return op(x, OP_MUL, second, exp_nonpositive(x, op(x, OP_SUB, own, extremum, 0)), 0);
    const ValueId none =
        ir_constant(x->nest->values, TYPE_I64, nest_identity(OP_REDUCE_MIN, TYPE_I64));
    return op(x, OP_SELECT, is_best(x, own, extremum), second, none);
}

static Op first_op(const TwoTrees *x) {
    return x->op == OP_ARGMIN ? OP_REDUCE_MIN : OP_REDUCE_MAX;
}

static Op second_op(const TwoTrees *x) {
    return x->op == OP_LOGSUMEXP ? OP_SUM : OP_REDUCE_MIN;
}

/* What leaves are compared with, of the first tree's value. */
static ValueId base_of(const TwoTrees *x, ValueId extremum) {
    if (x->op != OP_LOGSUMEXP) return extremum;
    return op(x, OP_SELECT, op(x, OP_ISFINITE, extremum, 0, 0), extremum, number(x, x->type, 0.0));
}

static ValueId second_leaf(const TwoTrees *x, ValueId value, ValueId base, Index leaf) {
    if (x->op == OP_LOGSUMEXP) return exp_nonpositive(x, op(x, OP_SUB, value, base, 0));
    return under(x, nest_index_value(x->nest, leaf), value, base);
}

/* What the two values make, of so many leaves. */
static ValueId value_of(const TwoTrees *x, ValueId extremum, ValueId second) {
    Function *f = x->nest->values;
    if (x->op == OP_LOGSUMEXP)
        return op(x, OP_SELECT, op(x, OP_ISFINITE, extremum, 0, 0),
                  op(x, OP_ADD, extremum, op(x, OP_LOG, second, 0, 0), 0), extremum);
    const ValueId any =
        op(x, OP_GT, nest_index_value(x->nest, x->count), ir_constant(f, TYPE_I64, 0), 0);
    return op(x, OP_SELECT, any, second, ir_constant(f, TYPE_I64, UINT64_MAX));
}

/* ---- for schedules that have loops of their own ---- */

bool nest_is_two_trees(Op which) {
    return which == OP_ARGMIN || which == OP_ARGMAX || which == OP_LOGSUMEXP;
}

Op nest_tree_of_two(Op which, bool second) {
    const TwoTrees x = {.op = which};
    return second ? second_op(&x) : first_op(&x);
}

Type nest_second_type(Op which, Type leaves) {
    return which == OP_LOGSUMEXP ? leaves : TYPE_I64;
}

ValueId nest_second_base(Nest *nest, Op which, Type leaves, ValueId extremum) {
    const TwoTrees x = {.nest = nest, .op = which, .type = leaves};
    return base_of(&x, extremum);
}

ValueId nest_second_leaf(Nest *nest, Op which, Type leaves, ValueId value, ValueId base,
                         Index leaf) {
    const TwoTrees x = {.nest = nest, .op = which, .type = leaves};
    return second_leaf(&x, value, base, leaf);
}

ValueId nest_second_under(Nest *nest, Op which, Type leaves, ValueId second, ValueId own,
                          ValueId extremum) {
    const TwoTrees x = {.nest = nest, .op = which, .type = leaves};
    return under(&x, second, own, extremum);
}

ValueId nest_value_of_two(Nest *nest, Op which, Type leaves, ValueId extremum, ValueId second,
                          Index count) {
    const TwoTrees x = {.nest = nest, .op = which, .type = leaves, .count = count};
    return value_of(&x, extremum, second);
}

/* ---- nodes ---- */

static SymbolId named(TwoTrees *x, const char *suffix, NamedKind kind, Type type) {
    Nest *nest = x->nest;
    const char *name = nest->symbols[x->tree].name;
    return nest_symbol(nest, arena_printf(nest->arena, "%s_%s", name, suffix), kind, type);
}

static ValueId let(TwoTrees *x, NestNode ***end, const char *suffix, ValueId value) {
    const SymbolId id = named(x, suffix, NAMED_VALUE, (Type)x->nest->values->values[value].type);
    nest_add(x->nest, end, (NestNode){.kind = NEST_LET, .name = id, .value = value});
    return nest_name(x->nest, id);
}

static ValueId load(TwoTrees *x, NestNode ***end, const char *suffix, SymbolId array, Index at) {
    const SymbolId id = named(x, suffix, NAMED_VALUE, x->nest->symbols[array].type);
    nest_add(x->nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = id,
                        .array = array,
                        .at = nest_subscript(x->nest, at),
                        .at_count = 1});
    return nest_name(x->nest, id);
}

static void store(TwoTrees *x, NestNode ***end, SymbolId array, Index at, ValueId value) {
    nest_add(x->nest, end,
             (NestNode){.kind = NEST_STORE,
                        .array = array,
                        .at = nest_subscript(x->nest, at),
                        .at_count = 1,
                        .value = value});
}

/* A tree of the tile's leaves, the loop with the push to it, and what is made of it. */
static ValueId tile_tree(TwoTrees *x, NestNode ***end, const char *suffix, Op operation, Type type,
                         NestNode *loop, NestNode *push, ValueId value) {
    Nest *nest = x->nest;
    const SymbolId tree = named(x, suffix, NAMED_TREE, type);
    const SymbolId result = named(x, suffix, NAMED_VALUE, type);
    nest_add(nest, end,
             (NestNode){.kind = NEST_TREE,
                        .name = tree,
                        .op = operation,
                        .type = type,
                        .extent = loop->extent});
    push->array = tree;
    push->at = nest_subscript(x->nest, index_symbol(nest->arena, loop->name));
    push->value = value;
    nest_add(nest, end, *loop);
    nest_add(
        nest, end,
        (NestNode){.kind = NEST_COMBINE, .name = result, .array = tree, .at = nest_at(nest, 0)});
    return nest_name(nest, result);
}

/* The loop with nothing but the push and what may lead to it. */
static NestNode *first_loop(TwoTrees *x, NestNode **push) {
    Nest *nest = x->nest;
    NestNode alone = **x->loop, *body = NULL, **end = &body;
    for (const NestNode *node = alone.body; node; node = node->next)
        if (node == x->push || node->kind == NEST_LET || node->kind == NEST_LOAD)
            nest_add(nest, &end, *node);
    alone.body = body;
    alone.next = NULL;
    NestNode *loop = nest_clone(nest, &alone);
    for (NestNode *node = loop->body; node; node = node->next)
        if (node->kind == NEST_PUSH) *push = node;
    return loop;
}

/* A name for what is computed for the push, which other loops may compute too. */
static ValueId let_before_push(TwoTrees *x, const char *suffix, ValueId value) {
    NestNode **end = &(*x->loop)->body;
    while (*end != x->push) end = &(*end)->next;
    const ValueId name = let(x, &end, suffix, value);
    *end = x->push;
    return name;
}

/* The tile's two trees in place of its loop; gives their values. Where there are no others, what a
 * value that is not finite makes of the second one does not count. */
static void build_tile(TwoTrees *x, ValueId result[2]) {
    NestNode *old = *x->loop, *after = old->next, *body = NULL, **end = &body, *first_push = NULL;
    NestNode *first = first_loop(x, &first_push);
    result[0] =
        tile_tree(x, &end, "extremum", first_op(x), x->type, first, first_push, first_push->value);
    const bool several = x->extrema && x->op == OP_LOGSUMEXP;
    const ValueId base = several ? let(x, &end, "base", base_of(x, result[0])) : result[0];
    ValueId second = second_leaf(x, x->push->value, base, x->push->at[0]);
    if (x->op == OP_LOGSUMEXP) {
        const ValueId below = let_before_push(x, "below", op(x, OP_SUB, x->push->value, base, 0));
        second = let_before_push(x, "leaf", exp_nonpositive(x, below));
    }
    NestNode *push = x->push;
    result[1] = tile_tree(x, &end, "part", second_op(x), x->second, old, push, second);
    if (x->extrema) {
        store(x, &end, x->extrema, x->tile, result[0]);
        store(x, &end, x->parts, x->tile, result[1]);
    }
    *end = after;
    *x->loop = body;
}

static ValueId combine_memory(TwoTrees *x, NestNode ***end, const char *suffix, Op operation,
                              SymbolId array) {
    const SymbolId result = named(x, suffix, NAMED_VALUE, x->nest->symbols[array].type);
    nest_add(x->nest, end,
             (NestNode){.kind = NEST_COMBINE,
                        .name = result,
                        .array = array,
                        .op = operation,
                        .at = nest_subscript(x->nest, (Index){NULL, 0}),
                        .at_count = 1,
                        .extent = x->tiles});
    return nest_name(x->nest, result);
}

/* Of all tiles: their tops' top, their parts as these then count, and what these make. In shared
 * memory every thread looks at all of them: the second tree is placed like any other. */
static void combine_tiles(TwoTrees *x, NestNode ***end, ValueId result[2]) {
    Nest *nest = x->nest;
    const SymbolId k = named(x, "k", NAMED_LOOP, TYPE_I64);
    const Index at = index_symbol(nest->arena, k);
    if (x->shared) nest_add(nest, end, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK});
    result[0] = combine_memory(x, end, "extremum", first_op(x), x->extrema);
    SymbolId all = 0;
    if (x->shared) {
        all = named(x, "all", NAMED_TREE, x->second);
        nest_add(nest, end,
                 (NestNode){.kind = NEST_TREE,
                            .name = all,
                            .op = second_op(x),
                            .type = x->second,
                            .extent = x->tiles});
    }
    NestNode *loop =
        nest_add(nest, end,
                 (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = k, .extent = x->tiles});
    NestNode **inside = &loop->body;
    const ValueId extremum = load(x, &inside, "extremum", x->extrema, at);
    const ValueId part = load(x, &inside, "part", x->parts, at);
    const ValueId counted = under(x, part, extremum, result[0]);
    if (!x->shared) {
        store(x, &inside, x->parts, at, counted);
        result[1] = combine_memory(x, end, "part", second_op(x), x->parts);
        return;
    }
    const SymbolId second = named(x, "part", NAMED_VALUE, x->second);
    nest_add(nest, &inside,
             (NestNode){.kind = NEST_PUSH,
                        .array = all,
                        .at = nest_subscript(x->nest, at),
                        .at_count = 1,
                        .value = counted});
    nest_add(
        nest, end,
        (NestNode){.kind = NEST_COMBINE, .name = second, .array = all, .at = nest_at(nest, 0)});
    result[1] = nest_name(nest, second);
}

/* In the combine's place: what the two values make. */
static void build_result(TwoTrees *x, ValueId result[2]) {
    NestNode *combine = x->combine, *after = combine->next, *body = NULL, **end = &body;
    if (x->extrema) combine_tiles(x, &end, result);
    const ValueId value = value_of(x, result[0], result[1]);
    nest_add(x->nest, &end,
             (NestNode){
                 .kind = NEST_LET, .name = combine->name, .value = value, .range = combine->range});
    if (x->same.name)
        nest_add(x->nest, &end,
                 (NestNode){.kind = NEST_LET,
                            .name = x->same.name,
                            .value = result[0],
                            .range = x->same.range});
    *end = after;
    *combine = *body;
}

static void add_memory(TwoTrees *x, NestNode ***end, SymbolId array, NestScope scope) {
    nest_add(x->nest, end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = scope,
                        .name = array,
                        .at = nest_subscript(x->nest, x->room),
                        .at_count = 1});
}

const char *nest_two_trees(Nest *nest, SymbolId tree, NestScope scope) {
    TwoTrees x = {.nest = nest, .tree = tree};
    NestNode **place = nest_find(&nest->body, tree);
    const bool single = scope == SCOPE_REGISTER;
    int64_t constant;
    if (!place || (*place)->kind != NEST_TREE) return "there is no such tree";
    NestNode *declared = *place, *allocs = NULL, **end = &allocs;
    x.op = declared->op;
    x.type = declared->type;
    x.count = declared->extent;
    if (!nest_is_two_trees(x.op)) return "its value is made of pairs of its leaves";
    if (declared->at_count) return "it is several trees";
    if (find_push(&x, &nest->body) != 1) return "it is not pushed to in one place";
    if (!x.combine) return "nothing is made of it";
    const char *problem = find_form(&x, single);
    if (problem) return problem;
    x.second = nest_second_type(x.op, x.type);
    if (!single) {
        x.tiles = nest_ceiling(nest, &end, declared->extent, TILE, "tiles");
        x.shared = scope == SCOPE_SHARED;
        x.room = x.tiles;
        if (x.shared && nest->max_tiles) x.room = index_number(nest->arena, nest->max_tiles);
        if (x.shared && !index_is_number(x.room, &constant))
            return "shared memory for its tiles is not a constant";
        x.extrema = named(&x, "extrema", NAMED_ALLOC, x.type);
        x.parts = named(&x, "parts", NAMED_ALLOC, x.second);
        add_memory(&x, &end, x.extrema, scope);
        add_memory(&x, &end, x.parts, scope);
    }
    ValueId result[2];
    join_same(&x, first_op(&x));
    build_tile(&x, result);
    build_result(&x, result);
    place = nest_find(&nest->body, tree); /* the loop may have stood right behind it */
    *end = declared->next;
    *place = allocs;
    return NULL;
}
