/* reduced_rows.c: the schedule of a phase that reduces rows, for one thread, which takes the items
 * of its share: tiles of 1024 elements.
 *
 * Rows of up to 512 elements are one item each. As many as fill a tile are reduced together: a loop
 * over them pushes to a tree each, another one does what follows each row (fission, the trees
 * expanded). Of a longer row an item leaves its value in memory; a tile that is whole goes by
 * lanes, each of eight elements, the last one by elements. A thread that has all items of a row
 * goes on behind the last of them, else whoever comes last among the row's. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, SHORT = 512, LANES = 128, EIGHT = 8, PART = 256, TREES = 16 };

typedef struct RowsBuilder {
    const Plan *plan;
    PlainNest *plain;
    Nest *nest;
    Arena *arena;
    const ItemNumbers *numbers;
    RowsAhead ahead;
    NestNode **place, *row, *along; /* the loops over rows and along them */
    NestNode *trees[TREES];         /* as declared */
    size_t tree_count;
    Index length, tiles, groups; /* of a row: elements, tiles, items */
    SymbolId item, stop;         /* the share's */
    const char *problem;
} RowsBuilder;

static bool refuse(RowsBuilder *b, const char *problem) {
    if (!b->problem) b->problem = problem;
    return false;
}

/* ---- indices and nodes ---- */

static Index number(RowsBuilder *b, int64_t n) {
    return index_number(b->arena, n);
}

static Index symbol(RowsBuilder *b, SymbolId id) {
    return index_symbol(b->arena, id);
}

static Index add(RowsBuilder *b, Index x, Index y) {
    return index_add(b->arena, x, y);
}

static Index less(RowsBuilder *b, Index x, Index y) {
    return index_subtract(b->arena, x, y);
}

static Index times(RowsBuilder *b, Index x, Index y) {
    return index_multiply(b->arena, x, y);
}

static SymbolId named(RowsBuilder *b, const char *name, NamedKind kind, Type type) {
    return nest_symbol(b->nest, name, kind, type);
}

static SymbolId loop_named(RowsBuilder *b, const char *name) {
    return named(b, name, NAMED_LOOP, TYPE_I64);
}

static ValueId value_of(RowsBuilder *b, Op op, Index x, Index y) {
    return ir_op(b->nest->values, op, nest_index_value(b->nest, x), nest_index_value(b->nest, y),
                 0);
}

static SymbolId let(RowsBuilder *b, NestNode ***end, const char *name, Type type, ValueId value) {
    const SymbolId own = named(b, name, NAMED_VALUE, type);
    nest_add(b->nest, end, (NestNode){.kind = NEST_LET, .name = own, .value = value});
    return own;
}

static Index let_index(RowsBuilder *b, NestNode ***end, const char *name, Op op, Index x, Index y) {
    return symbol(b, let(b, end, name, TYPE_I64, value_of(b, op, x, y)));
}

static Index *subscript(RowsBuilder *b, Index at) {
    Index *list = nest_at(b->nest, 1);
    list[0] = at;
    return list;
}

static void store(RowsBuilder *b, NestNode ***end, SymbolId array, Index at, ValueId value) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_STORE,
                        .array = array,
                        .at = subscript(b, at),
                        .at_count = 1,
                        .value = value});
}

static SymbolId alloc(RowsBuilder *b, NestNode ***end, NestScope scope, const char *name, Type type,
                      Index extent) {
    const SymbolId own = named(b, name, NAMED_ALLOC, type);
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = scope,
                        .name = own,
                        .at = subscript(b, extent),
                        .at_count = 1});
    return own;
}

static void append(NestNode ***end, NestNode *body) {
    **end = body;
    while (**end) *end = &(**end)->next;
}

/* ---- what a row has ---- */

static void find_pushes(const NestNode *body, SymbolId tree, size_t *count) {
    for (const NestNode *node = body; node; node = node->next) {
        *count += node->kind == NEST_PUSH && node->array == tree;
        find_pushes(node->body, tree, count);
        find_pushes(node->other, tree, count);
    }
}

/* Straight code, whose pushes are each at the loop's index. */
static bool check_along(RowsBuilder *b) {
    for (const NestNode *node = b->along->body; node; node = node->next) {
        const bool plain = node->kind == NEST_LET || node->kind == NEST_LOAD ||
                           node->kind == NEST_STORE || node->kind == NEST_PUSH;
        if (!plain) return refuse(b, "what is done with an element is not straight code");
        if (node->kind == NEST_PUSH && !index_equal(node->at[0], symbol(b, b->along->name)))
            return refuse(b, "leaves are not numbered by their place in the row");
    }
    return true;
}

static bool take_tree(RowsBuilder *b, NestNode *tree) {
    size_t pushes = 0;
    if (tree->op == OP_ARGMIN || tree->op == OP_ARGMAX || tree->op == OP_LOGSUMEXP)
        return refuse(b, "a tree's value is not made of pairs of its leaves");
    if (tree->at_count || b->tree_count == TREES) return refuse(b, "it has too many trees");
    find_pushes(b->along->body, tree->name, &pushes);
    if (pushes != 1) return refuse(b, "a tree is not pushed to in one place");
    b->trees[b->tree_count++] = tree;
    return true;
}

/* What the emitter still does better: sums of what vectors of the language can say, which it writes
 * for sixteen short rows at once; and tiles that are read once and copied in order first. */
static bool is_left(RowsBuilder *b) {
    const Value *values = b->nest->values->values;
    bool vectors = true, stores = false;
    for (size_t i = 0; i < b->tree_count; i++)
        vectors &= b->trees[i]->op == OP_SUM && b->trees[i]->type == TYPE_F32;
    for (const NestNode *node = b->along->body; node; node = node->next) {
        const Op op = (Op)values[node->value].op;
        stores |= node->kind == NEST_STORE;
        if (node->kind == NEST_LOAD)
            vectors &= b->nest->symbols[node->array].type == TYPE_F32;
        else if (node->kind == NEST_LET)
            vectors &= values[node->value].type == TYPE_F32 &&
                       (op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV);
        else if (node->kind == NEST_PUSH)
            vectors &= (uint32_t)op == (uint32_t)VALUE_NAME || op == OP_ADD || op == OP_SUB ||
                       op == OP_MUL || op == OP_DIV;
    }
    return !stores && (vectors || !b->numbers->chain);
}

static bool find_row(RowsBuilder *b, const Phase *phase) {
    const Function *f = b->plan->function;
    if (ir_list_axis(f, phase->outer | phase->inner) >= 0) return refuse(b, "it goes over a list");
    if (!phase->outer) return refuse(b, "it has one row");
    b->place = &b->nest->body;
    while (*b->place && (*b->place)->kind != NEST_LOOP)
        b->place = (*b->place)->kind == NEST_WHEN ? &(*b->place)->body : &(*b->place)->next;
    if (!*b->place) return refuse(b, "it has no rows");
    if (schedule_join(b->nest, *b->place, 0, true) != *b->place)
        return refuse(b, "its rows' lengths hang on each other");
    b->row = *b->place;
    for (NestNode *node = b->row->body; node; node = node->next) {
        if (node->kind != NEST_LOOP) continue;
        if (b->along) return refuse(b, "a row is walked twice");
        b->along = node;
    }
    if (!b->along) return refuse(b, "no row is walked");
    if (schedule_join(b->nest, b->along, 0, false) != b->along)
        return refuse(b, "what is walked along a row is not one loop");
    b->length = b->along->extent;
    if (!nest_is_of_sizes(b->nest, b->length) || !nest_is_of_sizes(b->nest, b->row->extent))
        return refuse(b, "rows are not of one length");
    for (NestNode *node = b->row->body; node != b->along; node = node->next) {
        const bool known =
            node->kind == NEST_TREE || node->kind == NEST_LET || node->kind == NEST_LOAD;
        if (!known) return refuse(b, "more is done before a row is walked");
        if (node->kind == NEST_TREE && !take_tree(b, node)) return false;
    }
    if (!check_along(b)) return false;
    if (b->numbers->finished) return refuse(b, "something follows each row");
    return b->numbers->all || !is_left(b) || refuse(b, "its rows are left to the emitter");
}

/* ---- copies of a row's parts ---- */

/* What stands before the loop along the row, without trees, with names of its own; `with`: what
 * comes behind it. */
static NestNode *instance(RowsBuilder *b, Index row, const NestNode *with) {
    Nest *nest = b->nest;
    NestNode *body = NULL, **end = &body;
    for (const NestNode *node = b->row->body; node != b->along; node = node->next)
        if (node->kind != NEST_TREE) nest_add(nest, &end, *node);
    *end = nest_copy(b->arena, with);
    return nest_put_index(nest, nest_clone(nest, body), b->row->name, row);
}

/* From now on pushes and combines are of the other tree, at `dim` where that has any. */
static void retarget(RowsBuilder *b, NestNode *body, SymbolId from, SymbolId to, const Index *dim) {
    for (NestNode *node = body; node; node = node->next) {
        retarget(b, node->body, from, to, dim);
        retarget(b, node->other, from, to, dim);
        if (node->array != from) continue;
        node->array = to;
        if (!dim) continue;
        Index *at = nest_at(b->nest, node->at_count + 1);
        at[0] = *dim;
        for (size_t i = 0; i < node->at_count; i++) at[i + 1] = node->at[i];
        node->at = at;
        node->at_count++;
    }
}

/* The elements of a row from `begin` on, `count` of them, one after the other; where rows that come
 * next are prefetched, part by part. */
static NestNode *elements(RowsBuilder *b, Index row, Index begin, Index count) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const char *name = nest->symbols[b->along->name].name;
    const bool asked = schedule_has_ahead(&b->ahead, true);
    Index at = begin;
    NestNode *parts = NULL;
    if (asked) {
        const Index turns = nest_ceiling(nest, &end, count, PART, "parts");
        const SymbolId part = loop_named(b, "part");
        parts = nest_add(
            nest, &end,
            (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = part, .extent = turns});
        end = &parts->body;
        const Index from = index_scale(b->arena, symbol(b, part), PART);
        at = add(b, begin, from);
        count = let_index(b, &end, "width", OP_MIN, number(b, PART), less(b, count, from));
        append(&end, schedule_ahead(&b->ahead, true, row, at, count));
    }
    const SymbolId own = loop_named(b, name);
    NestNode *body = nest_clone(nest, b->along->body);
    body = nest_put_index(nest, body, b->along->name, add(b, at, symbol(b, own)));
    NestNode *loop = nest_around(nest, LOOP_SERIAL, own, count, body);
    loop->range = b->along->range;
    *end = loop;
    return first;
}

/* Leaves are numbered from where the item begins. */
static void move_leaves(RowsBuilder *b, NestNode *body, Index begin) {
    for (NestNode *node = body; node; node = node->next) {
        move_leaves(b, node->body, begin);
        if (node->kind == NEST_PUSH)
            node->at = subscript(b, less(b, node->at[node->at_count - 1], begin));
    }
}

/* ---- short rows, side by side ---- */

/* How many rows fill a tile: each is padded to the next power of two. */
static Index rows_together(RowsBuilder *b) {
    Function *f = b->nest->values;
    ValueId value = ir_constant(f, TYPE_I64, TILE);
    int64_t known, most = 1;
    if (index_is_number(b->length, &known)) {
        while (most < known) most *= 2;
        return number(b, TILE / most);
    }
    for (; most < TILE; most *= 2) {
        const int64_t rows = most == SHORT ? 1 : TILE / most / 2;
        const ValueId more = value_of(b, OP_GT, b->length, number(b, most));
        value = ir_op(f, OP_SELECT, more, ir_constant(f, TYPE_I64, (uint64_t)rows), value);
    }
    return symbol(b, nest_derived(b->nest, "together", value));
}

static NestNode *short_rows(RowsBuilder *b) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first, **inside;
    const SymbolId batch = loop_named(b, "batch");
    const SymbolId rows[2] = {loop_named(b, "r"), loop_named(b, "r")};
    const Index together = rows_together(b), item = symbol(b, b->item);
    const Index left = less(b, symbol(b, b->stop), item);
    const Index batches = let_index(b, &end, "batches", OP_FLOORDIV,
                                    add(b, left, less(b, together, number(b, 1))), together);
    const Index begin = add(b, item, times(b, together, symbol(b, batch)));
    NestNode *loop = nest_add(
        nest, &end,
        (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = batch, .extent = batches});
    inside = &loop->body;
    const Index count =
        let_index(b, &inside, "rows", OP_MIN, together, less(b, symbol(b, b->stop), begin));
    SymbolId own[TREES];
    for (size_t i = 0; i < b->tree_count; i++) {
        NestNode tree = *b->trees[i];
        own[i] = tree.name = named(b, nest->symbols[tree.name].name, NAMED_TREE, tree.type);
        tree.extent = b->length;
        tree.at = subscript(b, together);
        tree.at_count = 1;
        nest_add(nest, &inside, tree);
    }
    for (int i = 0; i < 2; i++) {
        const Index dim = symbol(b, rows[i]), row = add(b, begin, dim);
        NestNode *walk = i ? b->along->next : elements(b, row, number(b, 0), b->length);
        NestNode *body = instance(b, row, walk);
        for (size_t t = 0; t < b->tree_count; t++)
            retarget(b, body, b->trees[t]->name, own[t], &dim);
        nest_add(nest, &inside,
                 (NestNode){.kind = NEST_LOOP,
                            .loop = LOOP_SERIAL,
                            .name = rows[i],
                            .extent = count,
                            .body = body,
                            .range = b->row->range});
    }
    return first;
}

/* ---- items of long rows ---- */

/* A tile that is whole: lanes one after the other, of each its eight elements. */
static NestNode *whole_tile(RowsBuilder *b, Index row, Index begin, const SymbolId *values) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const bool asked = schedule_has_ahead(&b->ahead, true) || schedule_has_ahead(&b->ahead, false);
    const SymbolId some = loop_named(b, "some"), lane = loop_named(b, "l"), r = loop_named(b, "r");
    const int64_t span = asked ? LANES / 4 : LANES;
    SymbolId lanes[TREES], eights[TREES];
    for (size_t i = 0; i < b->tree_count; i++) {
        const char *name = nest->symbols[b->trees[i]->name].name;
        const Type type = b->trees[i]->type;
        lanes[i] = named(b, arena_printf(b->arena, "%s_lane", name), NAMED_TREE, type);
        eights[i] = named(b, arena_printf(b->arena, "%s_eight", name), NAMED_TREE, type);
        nest_add(nest, &end,
                 (NestNode){.kind = NEST_FOLD,
                            .name = lanes[i],
                            .op = b->trees[i]->op,
                            .type = type,
                            .extent = number(b, LANES),
                            .at = nest_at(nest, 0)});
    }
    NestNode *body = NULL, **inside = &body;
    const Index base = asked ? index_scale(b->arena, symbol(b, some), span) : number(b, 0);
    const Index leaf = add(b, base, symbol(b, lane));
    for (size_t i = 0; i < b->tree_count; i++)
        nest_add(nest, &inside,
                 (NestNode){.kind = NEST_FOLD,
                            .name = eights[i],
                            .op = b->trees[i]->op,
                            .type = b->trees[i]->type,
                            .extent = number(b, EIGHT),
                            .at = nest_at(nest, 0)});
    NestNode *element = nest_clone(nest, b->along->body);
    const Index at = add(b, add(b, begin, leaf), index_scale(b->arena, symbol(b, r), LANES));
    element = nest_put_index(nest, element, b->along->name, at);
    for (NestNode *node = element; node; node = node->next)
        if (node->kind == NEST_PUSH) node->at = subscript(b, symbol(b, r));
    for (size_t i = 0; i < b->tree_count; i++)
        retarget(b, element, b->trees[i]->name, eights[i], NULL);
    *inside = nest_around(nest, LOOP_UNROLLED, r, number(b, EIGHT), element);
    inside = &(*inside)->next;
    for (size_t i = 0; i < b->tree_count; i++) {
        const SymbolId own = named(b, "eight", NAMED_VALUE, b->trees[i]->type);
        nest_add(
            nest, &inside,
            (NestNode){
                .kind = NEST_COMBINE, .name = own, .array = eights[i], .at = nest_at(nest, 0)});
        nest_add(nest, &inside,
                 (NestNode){.kind = NEST_PUSH,
                            .array = lanes[i],
                            .at = subscript(b, leaf),
                            .at_count = 1,
                            .value = nest_name(nest, own)});
    }
    NestNode *loop = nest_around(nest, LOOP_SERIAL, lane, number(b, span), body);
    loop->range = b->along->range;
    if (asked) {
        NestNode *parts = NULL, **part_end = &parts;
        const Index from = add(b, begin, index_scale(b->arena, symbol(b, some), PART));
        append(&part_end, schedule_ahead(&b->ahead, false, row, from, number(b, PART)));
        append(&part_end, schedule_ahead(&b->ahead, true, row, from, number(b, PART)));
        *part_end = loop;
        loop = nest_around(nest, LOOP_SERIAL, some, number(b, LANES / span), parts);
    }
    append(&end, loop);
    for (size_t i = 0; i < b->tree_count; i++) {
        const SymbolId own = named(b, "tile", NAMED_VALUE, b->trees[i]->type);
        nest_add(nest, &end,
                 (NestNode){
                     .kind = NEST_COMBINE, .name = own, .array = lanes[i], .at = nest_at(nest, 0)});
        store(b, &end, values[i], number(b, 0), nest_name(nest, own));
    }
    return first;
}

/* Any tile: a tree each. */
static NestNode *any_tile(RowsBuilder *b, Index row, Index begin, const SymbolId *values) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    SymbolId own[TREES];
    const Index width =
        let_index(b, &end, "width", OP_MIN, number(b, TILE), less(b, b->length, begin));
    for (size_t i = 0; i < b->tree_count; i++) {
        NestNode tree = *b->trees[i];
        own[i] = tree.name = named(b, nest->symbols[tree.name].name, NAMED_TREE, tree.type);
        tree.extent = width;
        nest_add(nest, &end, tree);
    }
    NestNode *walk = elements(b, row, begin, width);
    move_leaves(b, walk, begin);
    for (size_t i = 0; i < b->tree_count; i++) retarget(b, walk, b->trees[i]->name, own[i], NULL);
    append(&end, walk);
    for (size_t i = 0; i < b->tree_count; i++) {
        const SymbolId value = named(b, "tile", NAMED_VALUE, b->trees[i]->type);
        nest_add(nest, &end,
                 (NestNode){
                     .kind = NEST_COMBINE, .name = value, .array = own[i], .at = nest_at(nest, 0)});
        store(b, &end, values[i], number(b, 0), nest_name(nest, value));
    }
    return first;
}

/* Where the trees of a row were combined, the values of its tiles are, and behind them room for as
 * many: what combines them writes there. */
static void combine_parts(RowsBuilder *b, NestNode *body, Index base, const SymbolId *parts) {
    for (NestNode *node = body; node; node = node->next) {
        combine_parts(b, node->body, base, parts);
        combine_parts(b, node->other, base, parts);
        for (size_t i = 0; i < b->tree_count; i++) {
            if (node->kind != NEST_COMBINE || node->array != b->trees[i]->name) continue;
            node->array = parts[i];
            node->op = b->trees[i]->op;
            node->at = subscript(b, index_scale(b->arena, base, 2));
            node->at_count = 1;
            node->extent = b->groups;
        }
    }
}

static NestNode *row_rest(RowsBuilder *b, Index row, Index base, const SymbolId *parts) {
    NestNode *rest = instance(b, row, b->along->next);
    combine_parts(b, rest, base, parts);
    return rest;
}

/* Whether all items of the row are done: they are all the thread's, and this is the last of them,
 * or it is the last of all to come. */
static SymbolId find_complete(RowsBuilder *b, NestNode ***end, Index base, Index tile,
                              SymbolId arrived) {
    Nest *nest = b->nest;
    Function *f = nest->values;
    const SymbolId room = alloc(b, end, SCOPE_REGISTER, "complete", TYPE_BOOL, number(b, 1));
    const ValueId begins = value_of(b, OP_GE, base, symbol(b, b->item));
    const ValueId ends = value_of(b, OP_LE, add(b, base, b->groups), symbol(b, b->stop));
    const SymbolId own = let(b, end, "own", TYPE_BOOL, ir_op(f, OP_AND, begins, ends, 0));
    NestNode *when = nest_add(nest, end, (NestNode){.kind = NEST_WHEN, .where = own});
    NestNode **inside = &when->body;
    const ValueId behind = value_of(b, OP_GE, add(b, tile, number(b, 1)), b->groups);
    store(b, &inside, room, number(b, 0), behind);
    inside = &when->other;
    const SymbolId last = named(b, "last", NAMED_VALUE, TYPE_BOOL);
    nest_add(nest, &inside,
             (NestNode){.kind = NEST_ARRIVE,
                        .name = last,
                        .array = arrived,
                        .at = subscript(b, base),
                        .at_count = 1,
                        .extent = b->groups});
    store(b, &inside, room, number(b, 0), nest_name(nest, last));
    const SymbolId complete = named(b, "done", NAMED_VALUE, TYPE_BOOL);
    nest_add(nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = complete,
                        .array = room,
                        .at = subscript(b, number(b, 0)),
                        .at_count = 1});
    return complete;
}

/* The share's items one after the other; gives the memory of all items in *globals. */
static NestNode *long_rows(RowsBuilder *b, NestNode **globals) {
    Nest *nest = b->nest;
    NestNode *loop, **inside, **global_end = globals;
    const SymbolId step = loop_named(b, "i");
    const Index item = symbol(b, b->item), own = add(b, item, symbol(b, step));
    SymbolId values[TREES], parts[TREES];
    loop = nest_around(nest, LOOP_SERIAL, step, less(b, symbol(b, b->stop), item), NULL);
    inside = &loop->body;
    const Index slots = times(b, b->row->extent, b->groups);
    for (size_t i = 0; i < b->tree_count; i++) {
        const char *name = nest->symbols[b->trees[i]->name].name;
        const Type type = b->trees[i]->type;
        parts[i] = alloc(b, &global_end, SCOPE_GLOBAL, arena_printf(b->arena, "%s_part", name),
                         type, index_scale(b->arena, slots, 2));
        values[i] = alloc(b, &inside, SCOPE_REGISTER, arena_printf(b->arena, "%s_tile", name), type,
                          number(b, 1));
    }
    const SymbolId arrived = alloc(b, &global_end, SCOPE_GLOBAL, "arrived", TYPE_U32, slots);
    const Index row =
        let_index(b, &inside, nest->symbols[b->row->name].name, OP_FLOORDIV, own, b->groups);
    const Index base = times(b, row, b->groups), tile = less(b, own, base);
    const Index begin = index_scale(b->arena, tile, TILE);
    NestNode *test = nest_only_where(nest, less(b, b->length, add(b, begin, number(b, TILE - 1))),
                                     whole_tile(b, row, begin, values));
    test->other = any_tile(b, row, begin, values);
    NestNode *item_body = instance(b, row, test);
    append(&inside, item_body);
    for (size_t i = 0; i < b->tree_count; i++) {
        const SymbolId value = named(b, "part", NAMED_VALUE, type_info[b->trees[i]->type].compute);
        nest_add(nest, &inside,
                 (NestNode){.kind = NEST_LOAD,
                            .name = value,
                            .array = values[i],
                            .at = subscript(b, number(b, 0)),
                            .at_count = 1});
        store(b, &inside, parts[i], add(b, own, base), nest_name(nest, value));
    }
    const SymbolId complete = find_complete(b, &inside, base, tile, arrived);
    nest_add(
        nest, &inside,
        (NestNode){.kind = NEST_WHEN, .where = complete, .body = row_rest(b, row, base, parts)});
    b->plain->slots = slots;
    return loop;
}

static void load_entry(RowsBuilder *b, SymbolId name, Index entry, NestNode ***end) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = name,
                        .array = b->plain->shares,
                        .at = subscript(b, entry),
                        .at_count = 1});
}

static void build(RowsBuilder *b) {
    Nest *nest = b->nest;
    PlainNest *plain = b->plain;
    NestNode *first = NULL, **end = &first, *globals = NULL, *after = b->row->next;
    const SymbolId share = loop_named(b, "share");
    const SymbolId last = named(b, "last", NAMED_VALUE, TYPE_I64);
    int64_t known;
    b->tiles = nest_ceiling(nest, &end, b->length, TILE, "tiles");
    b->groups = b->tiles;
    if (!index_is_number(b->tiles, &known))
        b->groups =
            symbol(b, nest_derived(nest, "groups", value_of(b, OP_MAX, b->tiles, number(b, 1))));
    else if (known < 1)
        b->groups = number(b, 1);
    b->ahead.plain = plain;
    b->ahead.rows = b->row->extent;
    b->ahead.most = b->length;
    b->ahead.groups = b->groups;
    b->item = named(b, "item", NAMED_VALUE, TYPE_I64);
    plain->shares = nest_array(nest, "shares", TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    plain->share_count = nest_size(nest, "share_count");
    load_entry(b, b->item, symbol(b, share), &end);
    load_entry(b, last, add(b, symbol(b, share), number(b, 1)), &end);
    const Index items = times(b, b->row->extent, b->groups);
    const Index stop = let_index(b, &end, "stop", OP_MIN, symbol(b, last), items);
    b->stop = stop.terms[0].symbols[0];
    NestNode *test = nest_only_where(nest, less(b, number(b, SHORT + 1), b->length), short_rows(b));
    test->other = long_rows(b, &globals);
    append(&end, test);
    NestNode *loop = nest_around(nest, LOOP_GRID, share, symbol(b, plain->share_count), first);
    loop->range = b->row->range;
    loop->next = after;
    *b->place = loop;
    NestNode **global_end = &globals;
    while (*global_end) global_end = &(*global_end)->next;
    *global_end = nest->body;
    nest->body = globals;
}

PlainNest *schedule_reduced_rows(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                                 Arena *arena, const char **problem) {
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    const Phase *own = &plan->phases[phase];
    PlainNest *plain = schedule_plain(plan, &alone, numbers->strided, arena, problem);
    if (!plain) return NULL;
    RowsBuilder b = {.plan = plan,
                     .plain = plain,
                     .nest = plain->nest,
                     .arena = arena,
                     .numbers = numbers,
                     .ahead = {.plan = plan,
                               .phase = phase,
                               .chain = numbers->strided ? NULL : numbers->chain,
                               .near_row = numbers->near_row}};
    plain->item_axes = own->inner;
    plain->item_rows = own->outer;
    plain->item_least = true;
    if (find_row(&b, own)) build(&b);
    *problem = b.problem;
    if (b.problem) return NULL;
    nest_sweep(b.nest);
    nest_tidy(b.nest);
    return plain;
}
