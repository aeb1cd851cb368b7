/* columns.c: the schedule of a phase that reduces down columns, for lanes: neighbouring lanes take
 * neighbouring columns, and each a tile of 1024 rows alone, eight rows of loads at a time.
 *
 * A block takes as many tiles of the same columns as it has warps. Their values go to global
 * memory; the block that is the last to arrive for some columns makes the reductions of them all,
 * and what follows from these. Where there is one tile at most, a warp has all of its columns. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

typedef struct ColumnBuilder {
    Nest *nest;
    Arena *arena;
    NestNode *outermost; /* the grid loop */
    NestNode *columns;   /* the loop over them, perhaps the same */
    bool one_tile;
    Index above; /* the number of columns' rows in the loops around, 0: none */
} ColumnBuilder;

static Index symbol(const ColumnBuilder *b, SymbolId id) {
    return index_symbol(b->arena, id);
}

static Index less(const ColumnBuilder *b, Index x, Index y) {
    return index_subtract(b->arena, x, y);
}

static Index number(const ColumnBuilder *b, int64_t n) {
    return index_number(b->arena, n);
}

static SymbolId loop_symbol(const ColumnBuilder *b, const char *name) {
    return nest_symbol(b->nest, name, NAMED_LOOP, TYPE_I64);
}

static Index *subscript(const ColumnBuilder *b, Index at) {
    Index *list = nest_at(b->nest, 1);
    list[0] = at;
    return list;
}

/* ---- tiles ---- */

static NestNode **find_walk(NestNode *columns) {
    NestNode **place = &columns->body;
    while (*place && (*place)->kind != NEST_LOOP) place = &(*place)->next;
    return place;
}

/* The walk as tiles with folds, their values in memory. */
static const char *tile_walk(ColumnBuilder *b) {
    Nest *nest = b->nest;
    const TileNumbers numbers = {
        .kind = LOOP_SERIAL, .single = b->one_tile, .rows = 8, .alone = true};
    NestNode *walk = *find_walk(b->columns);
    if (!walk) return "there is no loop over rows";
    if (schedule_join(nest, walk, 0, true) != walk) return "the rows are not one loop";
    if (schedule_is_halved(b->columns->body))
        return schedule_trees(nest, &b->columns->body, &numbers);
    const char *problem = nest_tile(nest, walk->name, &numbers);
    for (NestNode *node = b->columns->body; node && !problem;) {
        NestNode *next = node->next;
        if (node->kind == NEST_TREE)
            problem =
                nest_place_tree(nest, node->name, b->one_tile ? SCOPE_REGISTER : SCOPE_WORKER);
        node = next;
    }
    return problem;
}

/* Of a short tile most lanes of the tree have no row. */
static void skip_empty(Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_LOOP && node->loop == LOOP_SERIAL) nest_skip_empty(nest, node->name);
        skip_empty(nest, node->body);
    }
}

/* Eight rows are under way together. */
static void load_first(Nest *nest) {
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&nest->body, s);
        if (place && (*place)->kind == NEST_LOOP && (*place)->loop == LOOP_UNROLLED)
            nest_load_first(nest, s);
    }
}

/* ---- several tiles ---- */

/* Memory of all columns, one after the other, in the place of a column's own. */
static void share(ColumnBuilder *b, NestNode *body, SymbolId alloc, Index first) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->array == alloc) node->at = subscript(b, index_add(b->arena, node->at[0], first));
        share(b, node->body, alloc, first);
        share(b, node->other, alloc, first);
    }
}

/* The values of tiles go to global memory: these nodes, for the top of the nest. */
static NestNode *share_all(ColumnBuilder *b) {
    NestNode *first = NULL, **end = &first;
    const Index column = index_add(b->arena, index_multiply(b->arena, b->above, b->columns->extent),
                                   symbol(b, b->columns->name));
    Index count = b->columns->extent;
    if (b->outermost != b->columns) count = index_multiply(b->arena, count, b->outermost->extent);
    for (NestNode **place = &b->columns->body; *place;) {
        NestNode *node = *place;
        if (node->kind != NEST_ALLOC || node->scope != SCOPE_WORKER) {
            place = &node->next;
            continue;
        }
        const Index tiles = node->at[0];
        *place = node->next;
        share(b, b->columns->body, node->name, index_multiply(b->arena, column, tiles));
        node->scope = SCOPE_GLOBAL;
        node->at = subscript(b, index_multiply(b->arena, count, tiles));
        nest_add(b->nest, &end, *node);
    }
    return first;
}

/* What the lanes of the columns at hand do. */
static NestNode *by_lanes(ColumnBuilder *b, Index chunk, NestNode *body) {
    Nest *nest = b->nest;
    const SymbolId lane = loop_symbol(b, "l");
    const Index column =
        index_add(b->arena, index_scale(b->arena, chunk, nest->lanes), symbol(b, lane));
    body = nest_clone(nest, body);
    nest_replace(nest, body, b->columns->name, column);
    body = nest_only_where(nest, less(b, b->columns->extent, column), body);
    return nest_around(nest, LOOP_LANE, lane, number(b, nest->lanes), body);
}

static NestNode *append(NestNode *first, NestNode *second) {
    NestNode **end = &first;
    while (*end) end = &(*end)->next;
    *end = second;
    return first;
}

/* What stands ahead of the walk, without what is done once for a column. */
static NestNode *values_ahead(ColumnBuilder *b, const NestNode *body, const NestNode *walk) {
    NestNode *first = NULL, **end = &first;
    for (const NestNode *node = body; node != walk; node = node->next)
        if (node->kind == NEST_LET || node->kind == NEST_LOAD) nest_add(b->nest, &end, *node);
    return first;
}

static NestNode *all_ahead(ColumnBuilder *b, const NestNode *body, const NestNode *walk) {
    NestNode *first = NULL, **end = &first;
    for (const NestNode *node = body; node != walk; node = node->next)
        nest_add(b->nest, &end, *node);
    return first;
}

/* A share of a block's: a tile a warp, then whoever is the last of these columns' finishes them. */
static NestNode *build_share(ColumnBuilder *b, NestNode *tiles, SymbolId arrived, Index chunk,
                             Index strip, Index group, Index groups) {
    Nest *nest = b->nest;
    const SymbolId warp = loop_symbol(b, "w"), first_warp = loop_symbol(b, "w");
    const SymbolId last = nest_symbol(nest, "last", NAMED_VALUE, TYPE_BOOL);
    NestNode *first = NULL, **end = &first, *columns = b->columns;
    Index tile = index_scale(b->arena, group, nest->warps);
    if (nest->warps > 1) tile = index_add(b->arena, tile, symbol(b, warp));
    NestNode *body = nest_copy(b->arena, tiles->body);
    nest_replace(nest, body, tiles->name, tile);
    NestNode *work = by_lanes(b, chunk, append(values_ahead(b, columns->body, tiles), body));
    work = nest_only_where(nest, less(b, tiles->extent, tile), work);
    if (nest->warps > 1) work = nest_around(nest, LOOP_WARP, warp, number(b, nest->warps), work);
    nest_add(nest, &end, *work);
    if (nest->warps > 1)
        nest_add(nest, &end, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK});
    nest_add(nest, &end,
             (NestNode){.kind = NEST_ARRIVE,
                        .name = last,
                        .array = arrived,
                        .at = subscript(b, strip),
                        .at_count = 1,
                        .extent = groups});
    NestNode *rest = append(all_ahead(b, columns->body, tiles), tiles->next);
    rest = by_lanes(b, chunk, rest);
    if (nest->warps > 1) {
        rest = nest_only_where(nest, less(b, number(b, 1), symbol(b, first_warp)), rest);
        rest = nest_around(nest, LOOP_WARP, first_warp, number(b, nest->warps), rest);
    }
    nest_add(nest, &end, (NestNode){.kind = NEST_WHEN, .where = last, .body = rest});
    return first;
}

/* Of no rows at all a reduction has a value too. */
static Index at_least_one(ColumnBuilder *b, Index count) {
    Function *f = b->nest->values;
    int64_t known;
    if (index_is_number(count, &known)) return number(b, known > 1 ? known : 1);
    const ValueId most =
        ir_op(f, OP_MAX, nest_index_value(b->nest, count), ir_constant(f, TYPE_I64, 1), 0);
    return symbol(b, nest_derived(b->nest, "shares", most));
}

static const char *share_tiles(ColumnBuilder *b, NestNode **top) {
    Nest *nest = b->nest;
    NestNode *columns = b->columns, *begin = NULL, **end = &begin;
    if (!nest_is_of_sizes(nest, (*find_walk(columns))->extent) ||
        !nest_is_of_sizes(nest, columns->extent) || !nest_is_of_sizes(nest, b->outermost->extent))
        return "memory for its tiles is not known at the launch";
    if (b->outermost != columns) b->above = symbol(b, b->outermost->name);
    NestNode *allocs = share_all(b), *tiles = *find_walk(columns);
    const Index chunks = nest_ceiling(nest, &end, columns->extent, nest->lanes, "chunks");
    const Index groups =
        at_least_one(b, nest_ceiling(nest, &end, tiles->extent, nest->warps, "groups"));
    const SymbolId chunk = loop_symbol(b, "chunk"), group = loop_symbol(b, "group");
    const SymbolId arrived = nest_symbol(nest, "arrived", NAMED_ALLOC, TYPE_I64);
    const Index strip =
        index_add(b->arena, index_multiply(b->arena, b->above, chunks), symbol(b, chunk));
    Index strips = chunks;
    if (b->outermost != columns) strips = index_multiply(b->arena, strips, b->outermost->extent);
    NestNode *counters = arena_alloc(b->arena, sizeof *counters);
    *counters = (NestNode){.kind = NEST_ALLOC,
                           .scope = SCOPE_GLOBAL,
                           .name = arrived,
                           .at = subscript(b, strips),
                           .at_count = 1};
    NestNode *body =
        build_share(b, tiles, arrived, symbol(b, chunk), strip, symbol(b, group), groups);
    columns->body = nest_around(nest, LOOP_SERIAL, group, groups, body);
    columns->name = chunk;
    columns->extent = chunks;
    schedule_join(nest, b->outermost, 0, true);
    *top = append(append(allocs, counters), *top);
    return begin ? "the tiles of columns are not known at the launch" : NULL;
}

PlainNest *schedule_columns(const Plan *plan, uint32_t phase, const ColumnNumbers *numbers,
                            Arena *arena, const char **problem) {
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    const Phase *own = &plan->phases[phase];
    PlainNest *plain = schedule_plain(plan, &alone, numbers->strided, arena, problem);
    if (!plain) return NULL;
    Nest *nest = plain->nest;
    ColumnBuilder b = {.nest = nest, .arena = arena};
    nest->warps = numbers->warps;
    nest->lanes = numbers->lanes;
    nest->width = numbers->width;
    b.one_tile = plan_one_tile(plan->function, own->inner);
    b.outermost = schedule_first_loop(nest->body);
    if (!b.outermost) bug(nest->compiler, "columns without a loop");
    if (ir_list_axis(plan->function, own->outer | own->inner) >= 0) *problem = "columns of a list";
    if (!own->reduction_count) *problem = "nothing is reduced";
    b.columns = schedule_join(nest, b.outermost, 0, false);
    if (b.columns != b.outermost) {
        if (schedule_join(nest, b.outermost, b.columns->name, true) != b.outermost)
            *problem = "rows of columns differ in length";
        b.columns = schedule_next_loop(b.outermost);
    }
    if (!*problem) *problem = tile_walk(&b);
    if (!*problem) {
        skip_empty(nest, nest->body);
        load_first(nest);
    }
    if (!*problem && b.one_tile) {
        *problem = nest_deal(nest, b.columns->name, DEAL_LANES);
        if (!*problem && b.columns != b.outermost) schedule_join(nest, b.outermost, 0, true);
    } else if (!*problem) {
        *problem = share_tiles(&b, &nest->body);
    }
    nest_sweep(nest);
    return *problem ? NULL : plain;
}
