/* reduced_columns.c: the schedule of a phase that goes down columns, for one thread, which takes a
 * range of items: tiles of 1024 rows of a chunk of neighbouring columns, each as column_tile.c has
 * it. The chunks of a tile follow each other, as their rows' cache lines and pages do.
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
    Index groups, tiles; /* of a chunk of columns: its items, and its tiles, which may be fewer */
    Index chunks;        /* chunks of columns */
    Index panel,
        part; /* of an item: the first slot of its chunk of columns, and its own slot from there */
    Index begin, end; /* the first item of its chunk of columns, and behind the last */
    SymbolId item, stop,
        slot; /* the item, and the end of the thread's range; of a list the slot among all items */
    NestNode *globals, **global_end;
    bool finish; /* the partial values of row panels are combined, not rows */
    PanelValues values;
} ColumnsBuilder;

static bool refuse(ColumnsBuilder *b, const char *problem) {
    return items_refuse(b->items, problem);
}

/* ---- indices and nodes ---- */

static Index *subscripts(ColumnsBuilder *b, Index first, Index second) {
    Index *list = nest_at(b->nest, 2);
    list[0] = first;
    list[1] = second;
    return list;
}

/* ---- several tiles ---- */

static SymbolId global(ColumnsBuilder *b, const char *name, Type type, int64_t times_slots,
                       bool adjacent) {
    const SymbolId own = nest_symbol(b->nest, name, NAMED_ALLOC, type);
    nest_add(b->nest, &b->global_end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_GLOBAL,
                        .name = own,
                        .at = subscripts(b, index_scale(b->arena, b->plain->slots, times_slots),
                                         make_number(b->nest, b->tile.chunk)),
                        .at_count = adjacent ? 2 : 1});
    return own;
}

/* The totals in memory of all items. */
static void leave_totals(ColumnsBuilder *b, NestNode ***end) {
    ColumnTile *tile = &b->tile;
    const SymbolId c = make_loop_name(b->nest, "c");
    const Index column = make_symbol(b->nest, c),
                at = make_add(b->nest, make_add(b->nest, b->panel, b->panel), b->part);
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < tile->tree_count; i++) {
        const SymbolId value = nest_symbol(b->nest, "part", NAMED_VALUE, tile->trees[i].type);
        make_load(tile->nest, &inside, value, tile->trees[i].total, column, NULL);
        make_store(tile->nest, &inside, tile->trees[i].part, at, &column,
                   nest_name(b->nest, value));
    }
    column_across(tile, end, c, body);
}

/* The trees' values of all tiles are the totals from now on. */
static void combine_parts(ColumnsBuilder *b, NestNode ***end, bool second) {
    ColumnTile *tile = &b->tile;
    const SymbolId c = make_loop_name(b->nest, "c");
    const Index column = make_symbol(b->nest, c), at = make_add(b->nest, b->panel, b->panel);
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < tile->reduction_count; i++) {
        const ColumnReduction *own = &tile->reductions[i];
        const ColumnTree *tree = &tile->trees[own->first + second];
        if (second && !own->two) continue;
        const SymbolId value = nest_symbol(b->nest, "all", NAMED_VALUE, tree->type);
        nest_add(b->nest, &inside,
                 (NestNode){.kind = NEST_COMBINE,
                            .name = value,
                            .array = tree->part,
                            .op = tree->op,
                            .at = subscripts(b, at, column),
                            .at_count = 2,
                            .extent = b->tiles});
        make_store(tile->nest, &inside, tree->total, column, NULL, nest_name(b->nest, value));
    }
    column_across(tile, end, c, body);
}

/* The values of second trees as the first ones' of all tiles make them count. */
static void count_parts(ColumnsBuilder *b, NestNode ***end) {
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    const SymbolId c = make_loop_name(b->nest, "c"), k = make_loop_name(b->nest, "k");
    const Index column = make_symbol(b->nest, c),
                at = make_add(b->nest, make_add(b->nest, b->panel, b->panel),
                              make_symbol(b->nest, k));
    NestNode *body = NULL, **inside = &body, *parts = NULL, **parts_end = &parts;
    for (size_t i = 0; i < tile->reduction_count; i++) {
        const ColumnReduction *own = &tile->reductions[i];
        const ColumnTree *first = &tile->trees[own->first], *second = first + 1;
        if (!own->two) continue;
        const SymbolId extremum = nest_symbol(b->nest, "extremum", NAMED_VALUE, first->type);
        const SymbolId extrema = nest_symbol(b->nest, "own", NAMED_VALUE, first->type);
        const SymbolId part = nest_symbol(b->nest, "part", NAMED_VALUE, second->type);
        make_load(tile->nest, &inside, extremum, first->total, column, NULL);
        make_load(tile->nest, &inside, extrema, first->part, at, &column);
        make_load(tile->nest, &inside, part, second->part, at, &column);
        const ValueId counted =
            nest_second_under(nest, own->op, own->type, nest_name(nest, part),
                              nest_name(nest, extrema), nest_name(nest, extremum));
        make_store(tile->nest, &inside, second->part, at, &column, counted);
    }
    if (!body) return;
    column_across(tile, &parts_end, c, body);
    column_loop(tile, end, LOOP_SERIAL, k, b->tiles, parts);
}

/* Whether all items of the columns are done: they are all the thread's, and this is the last of
 * them, or it is the last of all to come. */
static void find_complete(ColumnsBuilder *b, NestNode ***end, SymbolId room) {
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    const SymbolId last = nest_symbol(b->nest, "is_last", NAMED_VALUE, TYPE_BOOL);
    NestNode *arrives = NULL, **inside = &arrives;
    nest_add(nest, &inside,
             (NestNode){.kind = NEST_ARRIVE,
                        .name = last,
                        .array = global(b, "arrived", TYPE_U32, 1, false),
                        .at = subscripts(b, b->panel, make_number(b->nest, 0)),
                        .at_count = 1,
                        .extent = b->groups});
    make_store(tile->nest, &inside, room, make_number(b->nest, 0), NULL, nest_name(nest, last));
    if (b->slot || nest->lanes > 1) {
        make_append(end, arrives);
        return;
    }
    const ValueId begins = make_value(b->nest, OP_GE, b->begin, make_symbol(b->nest, b->item));
    const ValueId ends = make_value(b->nest, OP_LE, b->end, make_symbol(b->nest, b->stop));
    const SymbolId own = nest_symbol(b->nest, "own", NAMED_VALUE, TYPE_BOOL);
    nest_add(nest, end,
             (NestNode){.kind = NEST_LET,
                        .name = own,
                        .value = ir_op(nest->values, OP_AND, begins, ends, 0)});
    NestNode *when = nest_add(nest, end, (NestNode){.kind = NEST_WHEN, .where = own});
    inside = &when->body;
    make_store(
        tile->nest, &inside, room, make_number(b->nest, 0), NULL,
        make_value(b->nest, OP_GE, make_add(b->nest, b->part, make_number(b->nest, 1)), b->groups));
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
        make_load(tile->nest, &end, combine->name, tree->total, c, NULL);
        return first;
    }
    const SymbolId extremum = nest_symbol(b->nest, "extremum", NAMED_VALUE, tree->type);
    const SymbolId second = nest_symbol(b->nest, "second", NAMED_VALUE, tree[1].type);
    make_load(tile->nest, &end, extremum, tree->total, c, NULL);
    make_load(tile->nest, &end, second, tree[1].total, c, NULL);
    const ValueId value = nest_value_of_two(nest, own->op, own->type, nest_name(nest, extremum),
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
    const SymbolId c = make_loop_name(b->nest, "c");
    for (const NestNode *node = tile->traversal->next; node; node = node->next) {
        const ColumnReduction *own = NULL;
        for (size_t i = 0; i < tile->reduction_count; i++)
            if (node->kind == NEST_COMBINE && node->array == tile->reductions[i].tree)
                own = &tile->reductions[i];
        if (own)
            make_append(&rest_end, result_of(b, node, own, make_symbol(b->nest, c)));
        else
            nest_add(b->nest, &rest_end, *node);
    }
    if (rest || nest_has(tile->ahead, NEST_STORE))
        column_across(tile, &end, c, column_nodes(tile, rest, make_symbol(b->nest, c), true));
    if (!b->items->numbers->finished) return first;
    const SymbolId list = b->items->tensors ? b->items->tensors->name : 0;
    b->plain->finished =
        nest_array(b->nest, "finished", TYPE_BOOL, ARRAY_OUT, list != 0, (Index){NULL, 0});
    make_store(tile->nest, &end, b->plain->finished,
               list ? outer : make_times(b->nest, outer, tile->columns->extent), NULL,
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
        make_append(end, rest);
        return;
    }
    if (!rest) return;
    for (size_t t = 0; t < tile->tree_count; t++)
        tile->trees[t].part = global(b, arena_printf(b->arena, "%s_part", tile->trees[t].name),
                                     tile->trees[t].type, 2, true);
    const SymbolId room = nest_symbol(b->nest, "complete", NAMED_ALLOC, TYPE_BOOL);
    nest_add(nest, end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_REGISTER,
                        .name = room,
                        .at = nest_subscript(b->nest, make_number(b->nest, 1)),
                        .at_count = 1});
    leave_totals(b, &inside);
    find_complete(b, &inside, room);
    const SymbolId last = nest_symbol(b->nest, "done", NAMED_VALUE, TYPE_BOOL);
    make_load(tile->nest, &inside, last, room, make_number(b->nest, 0), NULL);
    NestNode *all = NULL, **all_end = &all;
    combine_parts(b, &all_end, false);
    count_parts(b, &all_end);
    combine_parts(b, &all_end, true);
    if (all) nest_add(nest, &inside, (NestNode){.kind = NEST_WHEN, .where = last, .body = all});
    NestNode *test =
        nest_only_where(nest, make_less(b->nest, b->groups, make_number(b->nest, 1)), many);
    inside = &test->other;
    make_store(tile->nest, &inside, room, make_number(b->nest, 0), NULL,
               ir_constant(nest->values, TYPE_BOOL, 1));
    make_append(end, test);
    const SymbolId complete = nest_symbol(b->nest, "done", NAMED_VALUE, TYPE_BOOL);
    make_load(tile->nest, end, complete, room, make_number(b->nest, 0), NULL);
    nest_add(nest, end, (NestNode){.kind = NEST_WHEN, .where = complete, .body = rest});
}

/* A tile by all warps of a block; what follows it by the first of them. */
static void block_item(ColumnsBuilder *b, NestNode ***end, Index outer) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **inside = &first;
    const SymbolId w = make_loop_name(nest, "w");
    column_block(&b->tile, end, &inside);
    finish_item(b, &inside, outer);
    first =
        nest_only_where(nest, make_less(nest, make_number(nest, 1), make_symbol(nest, w)), first);
    make_append(end, nest_around(nest, LOOP_WARP, w, make_number(nest, nest->warps), first));
}

static bool is_one(Index index) {
    int64_t number;
    return index_is_number(index, &number) && number == 1;
}

/* Divides the chunk's number out of the item's, then the outer coordinate, if there is one. */
static Index find_chunk(ColumnsBuilder *b, NestNode ***end, Index item, Index place, Index *outer) {
    static const char *const parts[] = {"strip", "tile"};
    Nest *nest = b->nest;
    const char *const names[] = {b->tile.outers ? nest->symbols[b->tile.outers->name].name : "",
                                 "chunk"};
    Index chunk = make_number(nest, 0);
    const Index panel = make_let_divided(nest, end, parts, item, b->groups, &b->part);
    b->begin = b->panel = make_less(nest, place, b->part);
    b->end = make_add(nest, b->panel, b->groups);
    if (b->tile.outers)
        *outer = make_let_divided(nest, end, names, panel, b->chunks, &chunk);
    else if (!is_one(b->chunks))
        chunk = panel;
    return chunk;
}

/* The same where the chunks of a tile follow each other. */
static Index find_chunk_of_tile(ColumnsBuilder *b, NestNode ***end, Index item, Index *outer) {
    static const char *const parts[] = {"tile", "strip"};
    Nest *nest = b->nest;
    const char *const names[] = {b->tile.outers ? nest->symbols[b->tile.outers->name].name : "",
                                 "of_outer"};
    const Index all = make_times(nest, b->groups, b->chunks);
    Index chunk, own = item;
    if (b->tile.outers) *outer = make_let_divided(nest, end, names, item, all, &own);
    b->part = make_let_divided(nest, end, parts, own, b->chunks, &chunk);
    b->begin = make_add(nest, make_less(nest, item, own), chunk);
    b->panel = make_add(nest, make_less(nest, item, own), make_times(nest, b->groups, chunk));
    b->end = make_add(nest, make_less(nest, make_add(nest, b->begin, all), b->chunks),
                      make_number(nest, 1));
    return chunk;
}

/* One item of a tensor, or of all, at a place among all. */
static NestNode *one_item(ColumnsBuilder *b, Index item, Index place) {
    ColumnTile *tile = &b->tile;
    Nest *nest = b->nest;
    NestNode *body = NULL, **inside = &body;
    /* a fused kernel has all tiles of the chunks that are a thread's (see emit/row_fusion.c) */
    const bool by_tiles =
        nest->lanes == 1 && !b->slot && !is_one(b->chunks) && !b->items->numbers->row_fusion;
    Index outer = make_number(b->nest, 0);
    const Index chunk = by_tiles ? find_chunk_of_tile(b, &inside, item, &outer)
                                 : find_chunk(b, &inside, item, place, &outer);
    const Index part = b->part;
    if (b->tile.outers) {
        nest_replace(nest, b->tile.before, b->tile.outers->name, outer);
        nest_replace(nest, tile->columns->body, b->tile.outers->name, outer);
        nest_replace(nest, tile->ahead, b->tile.outers->name, outer);
        nest_replace(nest, tile->row_nodes, b->tile.outers->name, outer);
        nest_replace(nest, tile->column_nodes, b->tile.outers->name, outer);
    }
    make_append(&inside, b->tile.before);
    tile->first_column = index_scale(b->arena, chunk, tile->chunk);
    tile->width = make_let_min(b->nest, &inside, "width", tile->chunk,
                               make_less(b->nest, tile->columns->extent, tile->first_column));
    tile->first = index_scale(b->arena, part, TILE);
    tile->count =
        make_let_min(b->nest, &inside, "count", TILE, make_less(b->nest, tile->rows, tile->first));
    b->tiles = b->groups;
    if (b->items->varies) {
        tile->count =
            make_let_index(b->nest, &inside, "rows",
                           make_value(b->nest, OP_MAX, tile->count, make_number(b->nest, 0)));
        b->tiles = nest_ceiling(nest, &inside, tile->rows, TILE, "counted");
    }
    if (b->finish)
        panel_partials(
            tile, &b->values, part,
            make_add(nest, make_times(nest, outer, tile->columns->extent), tile->first_column),
            &inside);
    else if (nest->warps == 1)
        column_tile(tile, &inside);
    if (nest->warps > 1)
        block_item(b, &inside, outer);
    else
        finish_item(b, &inside, outer);
    return body;
}

static void load_entry(ColumnsBuilder *b, NestNode ***end, SymbolId name, Index entry) {
    make_load(b->nest, end, name, b->plain->partitions, entry, NULL);
}

/* The items of a thread's range one after the other. */
static NestNode *partition_items(ColumnsBuilder *b) {
    Nest *nest = b->nest;
    PlainNest *plain = b->plain;
    NestNode *first = NULL, **end = &first;
    const SymbolId partition = make_loop_name(b->nest, "partition"),
                   i = make_loop_name(b->nest, "i");
    const SymbolId last = nest_symbol(b->nest, "last", NAMED_VALUE, TYPE_I64);
    b->item = nest_symbol(b->nest, "item", NAMED_VALUE, TYPE_I64);
    plain->partitions =
        nest_array(nest, "partitions", TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    plain->partition_count = nest_size(nest, "partition_count");
    load_entry(b, &end, b->item, make_symbol(b->nest, partition));
    load_entry(b, &end, last,
               make_add(b->nest, make_symbol(b->nest, partition), make_number(b->nest, 1)));
    const Index stop =
        make_let_index(b->nest, &end, "stop",
                       make_value(b->nest, OP_MIN, make_symbol(b->nest, last), plain->slots));
    const Index item = make_add(b->nest, make_symbol(b->nest, b->item), make_symbol(b->nest, i));
    b->stop = stop.terms[0].symbols[0];
    *end =
        nest_around(nest, LOOP_SERIAL, i, make_less(b->nest, stop, make_symbol(b->nest, b->item)),
                    one_item(b, item, item));
    return nest_around(nest, LOOP_GRID, partition, make_symbol(b->nest, plain->partition_count),
                       first);
}

/* Of lanes, an item each time. */
static NestNode *grid_items(ColumnsBuilder *b, Index count) {
    const SymbolId item = make_loop_name(b->nest, "item");
    const Index own = make_symbol(b->nest, item);
    return nest_around(b->nest, LOOP_GRID, item, count, one_item(b, own, own));
}

/* The items of a tensor one after the other, as the runtime's table has them. */
static NestNode *tensor_items(ColumnsBuilder *b, Index count) {
    const SymbolId item = make_loop_name(b->nest, "item");
    return nest_around(b->nest, LOOP_SERIAL, item, count,
                       one_item(b, make_symbol(b->nest, item), make_symbol(b->nest, b->slot)));
}

static void build(ColumnsBuilder *b) {
    Nest *nest = b->nest;
    PlainNest *plain = b->plain;
    NestNode *outermost = b->tile.outers ? b->tile.outers : b->tile.columns,
             *tensors = b->items->tensors;
    NestNode *made = NULL, **end = &made;
    b->chunks = nest_ceiling(nest, &end, b->tile.columns->extent, b->tile.chunk, "chunks");
    b->groups = b->items->varies ? items_max_groups(b->items, &end)
                                 : nest_ceiling(nest, &end, b->tile.rows, TILE, "parts");
    b->groups = items_bounded(b->items, &end, OP_MAX, b->groups, 1, "tiles");
    Index slots = make_times(b->nest, b->chunks, b->groups);
    if (b->tile.outers) slots = make_times(b->nest, b->tile.outers->extent, slots);
    const Index count = slots;
    if (tensors) {
        b->slot = nest_symbol(b->nest, "slot", NAMED_VALUE, TYPE_I64);
        slots = make_symbol(b->nest, nest_symbol(b->nest, "slots", NAMED_SIZE, TYPE_I64));
    }
    plain->slots = slots;
    b->global_end = &b->globals;
    if (b->finish) b->values = panel_values(&b->tile, plain);
    NestNode *items = tensors           ? tensor_items(b, count)
                      : nest->lanes > 1 ? grid_items(b, count)
                                        : partition_items(b);
    NestNode **place = nest_find(&nest->body, outermost->name);
    items->range = outermost->range;
    items->next = outermost->next;
    *end = items;
    *place = made;
    if (tensors) {
        schedule_table(plain, tensors, items);
        plain->slots = make_symbol(b->nest, plain->item_count);
        nest_replace(nest, nest->body, b->slot, make_symbol(b->nest, tensors->name));
        nest_replace(nest, b->globals, slots.terms[0].symbols[0], plain->slots);
    }
    if (!nest_is_of_sizes(nest, plain->slots))
        refuse(b, "how many items there are is not of sizes");
    *b->global_end = nest->body;
    nest->body = b->globals;
}

/* Whether a block takes a tile at once, if it is to. */
static bool suits_block(ColumnsBuilder *b) {
    enum { FEW_ROWS = 64, BYTES_MAX = 8 << 10 };
    int64_t rows;
    if (b->nest->warps == 1) return true;
    if (!b->tile.tree_count) return refuse(b, "it reduces nothing");
    if (index_is_number(b->items->max, &rows) && rows <= FEW_ROWS)
        return refuse(b, "a column has too few rows for all warps of a block");
    if (column_block_bytes(&b->tile) > BYTES_MAX)
        return refuse(b, "its trees take too much shared memory");
    for (const NestNode *node = b->nest->body; node; node = node->next)
        if (node->kind == NEST_ARRIVE) return refuse(b, "more follows when all blocks are done");
    return true;
}

/* Loads of eight rows go ahead of their uses; shared memory is free for the next item. */
static void finish_block(ColumnsBuilder *b, int64_t load_bytes) {
    Nest *nest = b->nest;
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId i = 1; i < count; i++) {
        NestNode **place = nest_find(&nest->body, i);
        if (place && (*place)->kind == NEST_LOOP && (*place)->loop == LOOP_UNROLLED &&
            !nest_has((*place)->body, NEST_LOOP))
            schedule_jam(b->nest, *place, column_block_loads(&b->tile, load_bytes), false);
    }
    nest_guard_reuse(nest);
}

PlainNest *schedule_reduced_columns(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                                    Arena *arena, const char **problem) {
    ItemBuilder items;
    ColumnTile tile = {.items = &items, .arena = arena, .chunk = numbers->chunk};
    if (!columns_begin(&items, plan, phase, numbers, arena, &tile.outers, &tile.columns, problem))
        return NULL;
    ColumnsBuilder *b = arena_alloc(arena, sizeof *b);
    tile.nest = items.nest;
    *b = (ColumnsBuilder){.tile = tile,
                          .items = &items,
                          .plain = items.plain,
                          .nest = items.nest,
                          .arena = arena,
                          .finish = numbers->portion == PORTION_FINISH};
    if (column_take(&b->tile) && suits_block(b)) {
        build(b);
        if (numbers->warps > 1) finish_block(b, numbers->load_bytes);
    }
    return items_end(&items, problem);
}
