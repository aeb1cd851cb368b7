/* reduced_columns.c: the schedule of a phase that goes down columns, for one thread, which takes
 * the items of its share: tiles of 1024 rows of a chunk of neighbouring columns, each as
 * column_tile.c has it.
 *
 * Of several tiles an item leaves its values in memory. A thread that has all tiles of its columns
 * goes on behind the last of them, else whoever comes last. Of a list the runtime's table says
 * which item of which tensor is next. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024 };

typedef struct ColumnsBuilder {
    ColumnTile tile;
    ItemBuilder *items;
    PlainNest *plain;
    Nest *nest;
    Arena *arena;
    NestNode *outers;          /* the loop over other outer coordinates; NULL: there are none */
    NestNode *before, **end;   /* what is the same for all columns of these, ahead of them */
    Index groups, tiles;       /* of a strip of columns: items, and tiles, which may be fewer */
    Index chunks;              /* strips */
    Index strip, part;         /* of an item: its strip's first place, its own in that */
    SymbolId item, stop, slot; /* of the share; of a list the place among all items */
    NestNode *globals, **global_end;
} ColumnsBuilder;

static bool refuse(ColumnsBuilder *b, const char *problem) {
    return items_refuse(b->items, problem);
}

/* ---- indices and nodes ---- */

static Index number(ColumnsBuilder *b, int64_t n) {
    return index_number(b->arena, n);
}

static Index symbol(ColumnsBuilder *b, SymbolId id) {
    return index_symbol(b->arena, id);
}

static Index add(ColumnsBuilder *b, Index x, Index y) {
    return index_add(b->arena, x, y);
}

static Index less(ColumnsBuilder *b, Index x, Index y) {
    return index_subtract(b->arena, x, y);
}

static Index times(ColumnsBuilder *b, Index x, Index y) {
    return index_multiply(b->arena, x, y);
}

static SymbolId named(ColumnsBuilder *b, const char *name, NamedKind kind, Type type) {
    return nest_symbol(b->nest, name, kind, type);
}

static SymbolId loop_named(ColumnsBuilder *b, const char *name) {
    return named(b, name, NAMED_LOOP, TYPE_I64);
}

static ValueId value_of(ColumnsBuilder *b, Op op, Index x, Index y) {
    return ir_op(b->nest->values, op, nest_index_value(b->nest, x), nest_index_value(b->nest, y),
                 0);
}

static Index let_index(ColumnsBuilder *b, NestNode ***end, const char *name, ValueId value) {
    const SymbolId own = named(b, name, NAMED_VALUE, TYPE_I64);
    nest_add(b->nest, end, (NestNode){.kind = NEST_LET, .name = own, .value = value});
    return symbol(b, own);
}

/* The lesser of a number and an index. */
static Index let_least(ColumnsBuilder *b, NestNode ***end, const char *name, int64_t most,
                       Index x) {
    int64_t known;
    if (index_is_number(x, &known)) return number(b, known < most ? known : most);
    return let_index(b, end, name, value_of(b, OP_MIN, number(b, most), x));
}

/* The index divided; what is left of it in *rest. */
static Index let_divided(ColumnsBuilder *b, NestNode ***end, const char *const names[2], Index x,
                         Index by, Index *rest) {
    int64_t known;
    *rest = number(b, 0);
    if (index_is_number(by, &known) && known == 1) return x;
    const Index quotient = let_index(b, end, names[0], value_of(b, OP_FLOORDIV, x, by));
    const Index left = less(b, x, times(b, quotient, by));
    *rest = let_index(b, end, names[1], nest_index_value(b->nest, left));
    return quotient;
}

static Index *subscripts(ColumnsBuilder *b, Index first, Index second) {
    Index *list = nest_at(b->nest, 2);
    list[0] = first;
    list[1] = second;
    return list;
}

static void append(NestNode ***end, NestNode *body) {
    **end = body;
    while (**end) *end = &(**end)->next;
}

/* ---- what a column has ---- */

static bool uses_any(ColumnsBuilder *b, const NestNode *node, const SymbolId *names, size_t count) {
    NestNode alone = *node;
    alone.next = NULL;
    for (size_t i = 0; i < count; i++)
        if (nest_body_uses(b->nest, &alone, names[i])) return true;
    return false;
}

static void add_tree(ColumnsBuilder *b, const ColumnReduction *of, const char *suffix, Op op,
                     Type type, bool last) {
    ColumnTile *tile = &b->tile;
    const char *name = b->nest->symbols[of->tree].name;
    if (*suffix) name = arena_printf(b->arena, "%s_%s", name, suffix);
    tile->trees[tile->tree_count++] =
        (ColumnTree){.source = *suffix ? named(b, name, NAMED_TREE, type) : of->tree,
                     .name = name,
                     .op = op,
                     .type = type,
                     .last = last,
                     .sum = !of->two && op == OP_SUM && type_info[type].class == 'F'};
}

static bool take_tree(ColumnsBuilder *b, const NestNode *tree) {
    ColumnTile *tile = &b->tile;
    size_t pushes = 0;
    for (const NestNode *node = tile->walk->body; node; node = node->next)
        pushes += node->kind == NEST_PUSH && node->array == tree->name;
    if (pushes != 1 || tree->at_count) return refuse(b, "a tree is not pushed to in one place");
    ColumnReduction *own = &tile->reductions[tile->reduction_count++];
    *own = (ColumnReduction){.tree = tree->name,
                             .op = tree->op,
                             .type = tree->type,
                             .first = tile->tree_count,
                             .two = nest_is_two_trees(tree->op)};
    if (own->two) {
        const Type second = nest_second_type(tree->op, tree->type);
        add_tree(b, own, "top", nest_tree_of_two(tree->op, false), tree->type, false);
        add_tree(b, own, "second", nest_tree_of_two(tree->op, true), second, true);
    } else {
        add_tree(b, own, "", tree->op, tree->type, true);
    }
    return true;
}

/* Of what stands ahead of the rows the trees, and what is the same for all columns; the rest
 * belongs to a column. Straight code down the rows: what belongs to a row, and what to each column
 * of it. */
static bool take_nodes(ColumnsBuilder *b) {
    ColumnTile *tile = &b->tile;
    const NestNode *walk = tile->walk;
    NestNode **ahead = &tile->ahead, **row = &tile->row_nodes, **column = &tile->column_nodes;
    size_t room = 1, count = 1;
    for (const NestNode *node = tile->columns->body; node; node = node->next) room++;
    for (const NestNode *node = walk->body; node; node = node->next) room++;
    SymbolId *varying = arena_alloc(b->arena, room * sizeof *varying);
    tile->trees = arena_alloc(b->arena, 2 * room * sizeof *tile->trees);
    tile->reductions = arena_alloc(b->arena, room * sizeof *tile->reductions);
    varying[0] = tile->columns->name;
    for (NestNode *node = tile->columns->body; node != walk; node = node->next) {
        const bool value = node->kind == NEST_LET || node->kind == NEST_LOAD;
        if (node->kind == NEST_TREE) {
            if (!take_tree(b, node)) return false;
        } else if (!value && node->kind != NEST_STORE) {
            return refuse(b, "more is done before a column is walked");
        } else if (value && !uses_any(b, node, varying, count)) {
            nest_add(b->nest, &b->end, *node);
        } else {
            if (value) varying[count++] = node->name;
            nest_add(b->nest, &ahead, *node);
        }
    }
    for (const NestNode *node = walk->body; node; node = node->next) {
        const bool value = node->kind == NEST_LET || node->kind == NEST_LOAD;
        if (!value && node->kind != NEST_STORE && node->kind != NEST_ADD && node->kind != NEST_PUSH)
            return refuse(b, "what is done with an element is not straight code");
        if (node->kind == NEST_PUSH && !index_equal(node->at[0], symbol(b, walk->name)))
            return refuse(b, "leaves are not numbered by their place in the column");
        const bool changes = node->kind == NEST_LOAD && nest_stores_to(walk->body, node->array);
        const bool own = !value || changes || uses_any(b, node, varying, count);
        if (own && value) varying[count++] = node->name;
        nest_add(b->nest, own ? &column : &row, *node);
    }
    NestNode bound = {.kind = NEST_LOOP, .extent = walk->extent};
    return !uses_any(b, &bound, varying, count) ||
           refuse(b, "neighbouring columns differ in length");
}

static bool find_column(ColumnsBuilder *b) {
    ColumnTile *tile = &b->tile;
    NestNode *walk = tile->columns->body;
    while (walk && walk->kind != NEST_LOOP) walk = walk->next;
    if (!walk) return refuse(b, "there is no loop over rows");
    if (schedule_join(b->nest, walk, 0, true) != walk)
        return refuse(b, "the rows are not one loop");
    if (nest_has(walk->next, NEST_LOOP)) return refuse(b, "a column is walked twice");
    tile->walk = walk;
    tile->rows = b->items->most = walk->extent;
    if (!items_find_most(b->items, tile->columns, walk) ||
        (b->outers && !items_find_most(b->items, b->outers, tile->columns)))
        return refuse(b, "columns are not of one length");
    b->end = &b->before;
    for (NestNode *node = b->outers ? b->outers->body : NULL; node; node = node->next) {
        if (node == tile->columns) continue;
        if (node->kind != NEST_LET && node->kind != NEST_LOAD)
            return refuse(b, "more is done beside the columns");
        nest_add(b->nest, &b->end, *node);
    }
    return take_nodes(b);
}

/* ---- several tiles ---- */

static SymbolId global(ColumnsBuilder *b, const char *name, Type type, int64_t times_slots,
                       bool beside) {
    const SymbolId own = named(b, name, NAMED_ALLOC, type);
    nest_add(b->nest, &b->global_end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_GLOBAL,
                        .name = own,
                        .at = subscripts(b, index_scale(b->arena, b->plain->slots, times_slots),
                                         number(b, b->tile.chunk)),
                        .at_count = beside ? 2 : 1});
    return own;
}

/* A loop over the columns of the item. */
static void each_column(ColumnsBuilder *b, NestNode ***end, SymbolId c, NestNode *body) {
    if (body) column_loop(&b->tile, end, LOOP_SERIAL, c, b->tile.width, body);
}

/* The totals in memory of all items. */
static void leave_totals(ColumnsBuilder *b, NestNode ***end) {
    ColumnTile *tile = &b->tile;
    const SymbolId c = loop_named(b, "c");
    const Index column = symbol(b, c), at = add(b, add(b, b->strip, b->strip), b->part);
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < tile->tree_count; i++) {
        const SymbolId value = named(b, "part", NAMED_VALUE, tile->trees[i].type);
        column_load(tile, &inside, value, tile->trees[i].total, column, NULL);
        column_store(tile, &inside, tile->trees[i].part, at, &column, nest_name(b->nest, value));
    }
    each_column(b, end, c, body);
}

/* The trees' values of all tiles are the totals from now on. */
static void combine_parts(ColumnsBuilder *b, NestNode ***end, bool second) {
    ColumnTile *tile = &b->tile;
    const SymbolId c = loop_named(b, "c");
    const Index column = symbol(b, c), at = add(b, b->strip, b->strip);
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < tile->reduction_count; i++) {
        const ColumnReduction *own = &tile->reductions[i];
        const ColumnTree *tree = &tile->trees[own->first + second];
        if (second && !own->two) continue;
        const SymbolId value = named(b, "all", NAMED_VALUE, tree->type);
        nest_add(b->nest, &inside,
                 (NestNode){.kind = NEST_COMBINE,
                            .name = value,
                            .array = tree->part,
                            .op = tree->op,
                            .at = subscripts(b, at, column),
                            .at_count = 2,
                            .extent = b->tiles});
        column_store(tile, &inside, tree->total, column, NULL, nest_name(b->nest, value));
    }
    each_column(b, end, c, body);
}

/* The values of second trees as the first ones' of all tiles make them count. */
static void count_parts(ColumnsBuilder *b, NestNode ***end) {
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    const SymbolId c = loop_named(b, "c"), k = loop_named(b, "k");
    const Index column = symbol(b, c), at = add(b, add(b, b->strip, b->strip), symbol(b, k));
    NestNode *body = NULL, **inside = &body, *parts = NULL, **parts_end = &parts;
    for (size_t i = 0; i < tile->reduction_count; i++) {
        const ColumnReduction *own = &tile->reductions[i];
        const ColumnTree *first = &tile->trees[own->first], *second = first + 1;
        if (!own->two) continue;
        const SymbolId top = named(b, "top", NAMED_VALUE, first->type);
        const SymbolId tops = named(b, "own", NAMED_VALUE, first->type);
        const SymbolId part = named(b, "part", NAMED_VALUE, second->type);
        column_load(tile, &inside, top, first->total, column, NULL);
        column_load(tile, &inside, tops, first->part, at, &column);
        column_load(tile, &inside, part, second->part, at, &column);
        const ValueId counted = nest_second_under(nest, own->op, own->type, nest_name(nest, part),
                                                  nest_name(nest, tops), nest_name(nest, top));
        column_store(tile, &inside, second->part, at, &column, counted);
    }
    if (!body) return;
    each_column(b, &parts_end, c, body);
    column_loop(tile, end, LOOP_SERIAL, k, b->tiles, parts);
}

/* Whether all items of the columns are done: they are all the thread's, and this is the last of
 * them, or it is the last of all to come. */
static void find_complete(ColumnsBuilder *b, NestNode ***end, SymbolId room) {
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    const SymbolId last = named(b, "last", NAMED_VALUE, TYPE_BOOL);
    NestNode *arrives = NULL, **inside = &arrives;
    nest_add(nest, &inside,
             (NestNode){.kind = NEST_ARRIVE,
                        .name = last,
                        .array = global(b, "arrived", TYPE_U32, 1, false),
                        .at = subscripts(b, b->strip, number(b, 0)),
                        .at_count = 1,
                        .extent = b->groups});
    column_store(tile, &inside, room, number(b, 0), NULL, nest_name(nest, last));
    if (b->slot) {
        append(end, arrives);
        return;
    }
    const ValueId begins = value_of(b, OP_GE, b->strip, symbol(b, b->item));
    const ValueId ends = value_of(b, OP_LE, add(b, b->strip, b->groups), symbol(b, b->stop));
    const SymbolId own = named(b, "own", NAMED_VALUE, TYPE_BOOL);
    nest_add(nest, end,
             (NestNode){.kind = NEST_LET,
                        .name = own,
                        .value = ir_op(nest->values, OP_AND, begins, ends, 0)});
    NestNode *when = nest_add(nest, end, (NestNode){.kind = NEST_WHEN, .where = own});
    inside = &when->body;
    column_store(tile, &inside, room, number(b, 0), NULL,
                 value_of(b, OP_GE, add(b, b->part, number(b, 1)), b->groups));
    when->other = arrives;
}

/* ---- what follows the rows ---- */

static NestNode *result_of(ColumnsBuilder *b, const NestNode *combine, const ColumnReduction *own,
                           Index c) {
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const ColumnTree *tree = &tile->trees[own->first];
    if (!own->two) {
        column_load(tile, &end, combine->name, tree->total, c, NULL);
        return first;
    }
    const SymbolId top = named(b, "top", NAMED_VALUE, tree->type);
    const SymbolId second = named(b, "second", NAMED_VALUE, tree[1].type);
    column_load(tile, &end, top, tree->total, c, NULL);
    column_load(tile, &end, second, tree[1].total, c, NULL);
    const ValueId value = nest_value_of_two(nest, own->op, own->type, nest_name(nest, top),
                                            nest_name(nest, second), tile->rows);
    nest_add(nest, &end,
             (NestNode){
                 .kind = NEST_LET, .name = combine->name, .value = value, .range = combine->range});
    return first;
}

/* What follows the rows of each column, then that all of them are done. */
static NestNode *results(ColumnsBuilder *b, Index outer) {
    ColumnTile *tile = &b->tile;
    NestNode *first = NULL, **end = &first, *rest = NULL, **rest_end = &rest;
    const SymbolId c = loop_named(b, "c");
    for (const NestNode *node = tile->walk->next; node; node = node->next) {
        const ColumnReduction *own = NULL;
        for (size_t i = 0; i < tile->reduction_count; i++)
            if (node->kind == NEST_COMBINE && node->array == tile->reductions[i].tree)
                own = &tile->reductions[i];
        if (own)
            append(&rest_end, result_of(b, node, own, symbol(b, c)));
        else
            nest_add(b->nest, &rest_end, *node);
    }
    if (rest || nest_has(tile->ahead, NEST_STORE))
        each_column(b, &end, c, column_nodes(tile, rest, symbol(b, c), true));
    if (!b->items->numbers->finished) return first;
    const SymbolId list = b->items->tensors ? b->items->tensors->name : 0;
    b->plain->finished =
        nest_array(b->nest, "finished", TYPE_BOOL, ARRAY_OUT, list != 0, (Index){NULL, 0});
    column_store(tile, &end, b->plain->finished,
                 list ? outer : times(b, outer, tile->columns->extent), NULL,
                 ir_constant(b->nest->values, TYPE_BOOL, 1));
    for (NestNode *node = first; node; node = node->next)
        if (node->array == b->plain->finished) node->list = list;
    return first;
}

/* ---- items ---- */

/* Behind a tile, where it is not the only one of its columns. */
static void finish_item(ColumnsBuilder *b, NestNode ***end, Index outer) {
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    NestNode *rest = results(b, outer), *many = NULL, **inside = &many;
    int64_t one;
    if (index_is_number(b->groups, &one) && one == 1) {
        append(end, rest);
        return;
    }
    if (!rest) return;
    for (size_t t = 0; t < tile->tree_count; t++)
        tile->trees[t].part = global(b, arena_printf(b->arena, "%s_part", tile->trees[t].name),
                                     tile->trees[t].type, 2, true);
    const SymbolId room = named(b, "complete", NAMED_ALLOC, TYPE_BOOL);
    nest_add(nest, end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_REGISTER,
                        .name = room,
                        .at = subscripts(b, number(b, 1), number(b, 1)),
                        .at_count = 1});
    leave_totals(b, &inside);
    find_complete(b, &inside, room);
    const SymbolId last = named(b, "done", NAMED_VALUE, TYPE_BOOL);
    column_load(tile, &inside, last, room, number(b, 0), NULL);
    NestNode *all = NULL, **all_end = &all;
    combine_parts(b, &all_end, false);
    count_parts(b, &all_end);
    combine_parts(b, &all_end, true);
    if (all) nest_add(nest, &inside, (NestNode){.kind = NEST_WHEN, .where = last, .body = all});
    NestNode *test = nest_only_where(nest, less(b, b->groups, number(b, 1)), many);
    inside = &test->other;
    column_store(tile, &inside, room, number(b, 0), NULL, ir_constant(nest->values, TYPE_BOOL, 1));
    append(end, test);
    const SymbolId complete = named(b, "done", NAMED_VALUE, TYPE_BOOL);
    column_load(tile, end, complete, room, number(b, 0), NULL);
    nest_add(nest, end, (NestNode){.kind = NEST_WHEN, .where = complete, .body = rest});
}

/* One item of a tensor, or of all, at a place among all. */
static NestNode *one_item(ColumnsBuilder *b, Index item, Index place) {
    static const char *const parts[] = {"strip", "tile"};
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    NestNode *body = NULL, **inside = &body;
    const char *const names[] = {b->outers ? nest->symbols[b->outers->name].name : "", "chunk"};
    Index chunk, outer = number(b, 0), part;
    const Index strip = let_divided(b, &inside, parts, item, b->groups, &part);
    b->part = part;
    b->strip = less(b, place, part);
    if (b->outers) {
        outer = let_divided(b, &inside, names, strip, b->chunks, &chunk);
        nest_replace(nest, b->before, b->outers->name, outer);
        nest_replace(nest, tile->columns->body, b->outers->name, outer);
        nest_replace(nest, tile->ahead, b->outers->name, outer);
        nest_replace(nest, tile->row_nodes, b->outers->name, outer);
        nest_replace(nest, tile->column_nodes, b->outers->name, outer);
    } else {
        int64_t one;
        chunk = index_is_number(b->chunks, &one) && one == 1 ? number(b, 0) : strip;
    }
    append(&inside, b->before);
    tile->first_column = index_scale(b->arena, chunk, tile->chunk);
    tile->width = let_least(b, &inside, "width", tile->chunk,
                            less(b, tile->columns->extent, tile->first_column));
    tile->first = index_scale(b->arena, part, TILE);
    tile->count = let_least(b, &inside, "count", TILE, less(b, tile->rows, tile->first));
    b->tiles = b->groups;
    if (b->items->varies) {
        tile->count = let_index(b, &inside, "rows", value_of(b, OP_MAX, tile->count, number(b, 0)));
        b->tiles = nest_ceiling(nest, &inside, tile->rows, TILE, "counted");
    }
    column_tile(tile, &inside);
    finish_item(b, &inside, outer);
    return body;
}

static void load_entry(ColumnsBuilder *b, NestNode ***end, SymbolId name, Index entry) {
    column_load(&b->tile, end, name, b->plain->shares, entry, NULL);
}

/* The share's items one after the other. */
static NestNode *share_items(ColumnsBuilder *b) {
    Nest *nest = b->nest;
    PlainNest *plain = b->plain;
    NestNode *first = NULL, **end = &first;
    const SymbolId share = loop_named(b, "share"), i = loop_named(b, "i");
    const SymbolId last = named(b, "last", NAMED_VALUE, TYPE_I64);
    b->item = named(b, "item", NAMED_VALUE, TYPE_I64);
    plain->shares = nest_array(nest, "shares", TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    plain->share_count = nest_size(nest, "share_count");
    load_entry(b, &end, b->item, symbol(b, share));
    load_entry(b, &end, last, add(b, symbol(b, share), number(b, 1)));
    const Index stop =
        let_index(b, &end, "stop", value_of(b, OP_MIN, symbol(b, last), plain->slots));
    const Index item = add(b, symbol(b, b->item), symbol(b, i));
    b->stop = stop.terms[0].symbols[0];
    *end = nest_around(nest, LOOP_SERIAL, i, less(b, stop, symbol(b, b->item)),
                       one_item(b, item, item));
    return nest_around(nest, LOOP_GRID, share, symbol(b, plain->share_count), first);
}

/* The items of a tensor one after the other, as the runtime's table has them. */
static NestNode *tensor_items(ColumnsBuilder *b, Index count) {
    const SymbolId item = loop_named(b, "item");
    return nest_around(b->nest, LOOP_SERIAL, item, count,
                       one_item(b, symbol(b, item), symbol(b, b->slot)));
}

static void build(ColumnsBuilder *b) {
    Nest *nest = b->nest;
    PlainNest *plain = b->plain;
    NestNode *outermost = b->outers ? b->outers : b->tile.columns, *tensors = b->items->tensors;
    NestNode *made = NULL, **end = &made;
    b->chunks = nest_ceiling(nest, &end, b->tile.columns->extent, b->tile.chunk, "chunks");
    b->groups = b->items->varies ? items_most_groups(b->items, &end)
                                 : nest_ceiling(nest, &end, b->tile.rows, TILE, "parts");
    b->groups = items_bounded(b->items, &end, OP_MAX, b->groups, 1, "tiles");
    Index slots = times(b, b->chunks, b->groups);
    if (b->outers) slots = times(b, b->outers->extent, slots);
    const Index count = slots;
    if (tensors) {
        b->slot = named(b, "slot", NAMED_VALUE, TYPE_I64);
        slots = symbol(b, named(b, "slots", NAMED_SIZE, TYPE_I64));
    }
    plain->slots = slots;
    b->global_end = &b->globals;
    NestNode *items = tensors ? tensor_items(b, count) : share_items(b);
    NestNode **place = nest_find(&nest->body, outermost->name);
    items->range = outermost->range;
    items->next = outermost->next;
    *end = items;
    *place = made;
    if (tensors) {
        schedule_table(plain, tensors, items);
        plain->slots = symbol(b, plain->item_count);
        nest_replace(nest, nest->body, b->slot, symbol(b, tensors->name));
        nest_replace(nest, b->globals, slots.terms[0].symbols[0], plain->slots);
    }
    if (!nest_is_of_sizes(nest, plain->slots))
        refuse(b, "how many items there are is not of sizes");
    *b->global_end = nest->body;
    nest->body = b->globals;
}

PlainNest *schedule_reduced_columns(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                                    Arena *arena, const char **problem) {
    const Phase *own = &plan->phases[phase];
    const AxisSet columns =
        numbers->columns ? numbers->columns : columns_last(plan->function, own->outer);
    ItemBuilder items;
    if (!items_begin(&items, plan, phase, numbers, arena, problem)) return NULL;
    ColumnsBuilder *b = arena_alloc(arena, sizeof *b);
    *b =
        (ColumnsBuilder){.items = &items, .plain = items.plain, .nest = items.nest, .arena = arena};
    b->tile =
        (ColumnTile){.items = &items, .nest = items.nest, .arena = arena, .chunk = numbers->chunk};
    items.plain->item_columns = columns;
    items.plain->item_rows &= ~columns;
    items.plain->item_chunk = numbers->chunk;
    if (!items.problem && columns_find(&items, columns, &b->outers, &b->tile.columns) &&
        find_column(b))
        build(b);
    return items_end(&items, problem);
}
