/* columns.c: the schedule of a phase that reduces down columns, for lanes: neighbouring lanes take
 * neighbouring columns, and each a tile of 1024 rows alone, up to eight rows of loads at a time.
 *
 * The loops over columns become one and those over other outer coordinates another; the first is
 * stripped to 32 columns. Where there is one tile at most, that is all. Else the loop over tiles
 * stands outside of that over the lanes; the combination of tiles is in items.c. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

typedef struct ColumnBuilder {
    ItemBuilder *items;
    Nest *nest;
    Arena *arena;
    NestNode *outers;  /* the loop over other outer coordinates; NULL: there are none */
    NestNode *columns; /* in it: the loop over columns */
    SymbolId chunk;    /* of 32 columns: the loop that is to be */
} ColumnBuilder;

/* ---- the loops ---- */

/* The last outer axis, or the two axes that blocks make of one. */
static AxisSet columns_last(const Function *f, AxisSet outer) {
    AxisSet last = 0;
    for (uint32_t a = 0; a < f->axis_count; a++) {
        const int whole = f->axes[a].whole;
        const AxisSet both = whole < 0 ? 0 : ir_expand(f, (AxisSet)1 << whole);
        if (outer >> a & 1) last = both && (outer & both) == both ? both : (AxisSet)1 << a;
    }
    return last;
}

static bool columns_find(ItemBuilder *items, AxisSet columns, NestNode **outers, NestNode **loop) {
    const Function *f = items->plan->function;
    AxisSet outer = items->phase->outer;
    Nest *nest = items->nest;
    NestNode *first = schedule_first_loop(nest->body), *traversal;
    const int list = ir_list_axis(f, outer | items->phase->inner);
    if (!first) bug(nest->compiler, "columns without a loop");
    if (list >= 0) {
        items->tensors = first;
        outer &= ~((AxisSet)1 << list);
        for (first = first->body; first && first->kind != NEST_LOOP;) first = first->next;
        if (!first || !outer) return items_refuse(items, "a tensor has no columns");
    }
    *outers = NULL;
    *loop = first;
    for (size_t i = items_count_loops(f, outer & ~columns); i > 0 && *loop; i--) {
        *outers = first;
        *loop = schedule_next_loop(*loop);
    }
    traversal = *loop;
    for (size_t i = items_count_loops(f, columns); i > 0 && traversal; i--)
        traversal = schedule_next_loop(traversal); /* if it stands alone: nothing is reduced */
    if (!*loop || schedule_join(nest, *loop, traversal ? traversal->name : 0, true) != *loop)
        return items_refuse(items, "columns are not one loop");
    const SymbolId name = (*loop)->name;
    if (*outers && schedule_join(nest, *outers, name, true) != *outers)
        return items_refuse(items, "rows of columns differ in length");
    *loop = *nest_find(&nest->body, name); /* joining has copied it */
    return true;
}

bool columns_begin(ItemBuilder *items, const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                   Arena *arena, NestNode **outers, NestNode **loop, const char **problem) {
    const AxisSet columns = numbers->columns
                                ? numbers->columns
                                : columns_last(plan->function, plan->phases[phase].outer);
    *problem = NULL;
    if (!items_begin(items, plan, phase, numbers, arena, problem)) return false;
    items->plain->item_columns = columns;
    items->plain->item_rows &= ~columns;
    items->plain->item_chunk = numbers->lanes > 1 ? numbers->lanes : numbers->chunk;
    if (!items->problem && columns_find(items, columns, outers, loop)) return true;
    *problem = items->problem;
    return false;
}

static NestNode **find_traversal(NestNode *columns) {
    NestNode **place = &columns->body;
    while (*place && (*place)->kind != NEST_LOOP) place = &(*place)->next;
    return place;
}

/* Coalesces the loops down a column into one, and places its trees along tiles. */
static bool tile_traversal(ColumnBuilder *b) {
    ItemBuilder *items = b->items;
    NestNode *traversal = *find_traversal(b->columns);
    if (!traversal) return items_refuse(items, "there is no loop over rows");
    if (schedule_join(b->nest, traversal, 0, true) != traversal)
        return items_refuse(items, "the rows are not one loop");
    items->max = traversal->extent;
    if (!items_find_max(items, b->columns, traversal) ||
        (b->outers && !items_find_max(items, b->outers, b->columns)))
        return items_refuse(items, "columns are not of one length");
    TileNumbers numbers = {.kind = LOOP_SERIAL, .single = items->single, .rows = 8, .alone = true};
    int64_t max;
    while (items->single && index_is_number(items->max, &max) && numbers.rows > 1 &&
           max <= 64 * numbers.rows)
        numbers.rows /= 2;
    const char *problem = schedule_trees(b->nest, &b->columns->body, &numbers);
    return !problem || items_refuse(items, problem);
}

/* Whether the body has a loop over several rows. */
static bool has_rows(const NestNode *body) {
    int64_t rows;
    for (; body; body = body->next)
        if (body->kind == NEST_LOOP && body->loop == LOOP_UNROLLED &&
            index_is_number(body->extent, &rows) && rows > 1)
            return true;
    return false;
}

/* How many rows there are from the first of a loop on is a name: a compiler would keep, for each of
 * the rows, from how many on it is there. */
static void name_left(ColumnBuilder *b, NestNode **place) {
    Nest *nest = b->nest;
    const NestNode *loop = *place;
    Index left = {NULL, 0};
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->has_limit) left = node->limit;
    left = index_replace(b->arena, left, loop->name, make_number(b->nest, 0));
    if (!left.count) return;
    NestNode *let = arena_alloc(b->arena, sizeof *let);
    *let = (NestNode){.kind = NEST_LET,
                      .name = nest_symbol(nest, "left", NAMED_VALUE, TYPE_I64),
                      .value = nest_index_value(nest, left),
                      .next = *place};
    const Index name = make_symbol(b->nest, let->name);
    for (NestNode *node = loop->body; node; node = node->next)
        if (node->has_limit)
            node->limit = make_add(b->nest, name, make_less(b->nest, node->limit, left));
    *place = let;
}

/* The budget of loads where what all lanes load alike, of the row, counts for little: it is one
 * element for all of them, from the caches. But each takes a register, so it grows to twice at
 * most. */
static int64_t budget(const ColumnBuilder *b, const NestNode *loop, int64_t load_bytes) {
    int64_t all = 0, own = 0;
    for (const NestNode *node = loop->body; node; node = node->next) {
        if (node->kind != NEST_LOAD) continue;
        const int64_t bytes = type_info[b->nest->symbols[node->array].type].size;
        all += bytes;
        for (size_t i = 0; i < node->at_count; i++)
            if (index_uses(node->at[i], b->columns->name)) {
                own += bytes;
                break;
            }
    }
    if (!own) return load_bytes;
    return all < 2 * own ? load_bytes * all / own : 2 * load_bytes;
}

/* Of a short tile most lanes of the tree have no row; in all others up to eight rows are loaded
 * side by side, without a test where all of them are there. Each pass adds loops behind those at
 * hand. */
static void shape_lanes(ColumnBuilder *b, int64_t load_bytes) {
    Nest *nest = b->nest;
    SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&b->columns->body, s);
        if (!place || (*place)->kind != NEST_LOOP || (*place)->loop != LOOP_SERIAL) continue;
        if (nest_has((*place)->body, NEST_LOOP) && !nest_skip_empty(nest, s)) nest_trim(nest, s);
    }
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&b->columns->body, s);
        if (place && (*place)->kind == NEST_LOOP && (*place)->loop == LOOP_SERIAL &&
            has_rows((*place)->body))
            nest_split_tail(nest, s);
    }
    count = (SymbolId)nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&b->columns->body, s);
        if (!place || (*place)->kind != NEST_LOOP || (*place)->loop != LOOP_UNROLLED) continue;
        name_left(b, place);
        const NestNode *loop = *nest_find(&b->columns->body, s);
        schedule_jam(b->nest, *nest_find(&b->columns->body, s), budget(b, loop, load_bytes), false);
    }
}

/* ---- chunks of columns ---- */

/* What the lanes of the columns at hand do. */
static NestNode *by_lanes(ColumnBuilder *b, NestNode *body) {
    Nest *nest = b->nest;
    const SymbolId lane = make_loop_name(b->nest, "l");
    const Index column =
        index_add(b->arena, make_scale(b->nest, make_symbol(b->nest, b->chunk), nest->lanes),
                  make_symbol(b->nest, lane));
    body = nest_put_index(nest, nest_clone(nest, body), b->columns->name, column);
    body = nest_only_where(nest, make_less(b->nest, b->columns->extent, column), body);
    return nest_around(nest, LOOP_LANE, lane, make_number(b->nest, nest->lanes), body);
}

static NestNode *append(NestNode *first, NestNode *second) {
    NestNode **end = &first;
    while (*end) end = &(*end)->next;
    *end = second;
    return first;
}

/* The nodes ahead of the loop down the column, with `all` also those that are done once for a
 * column. */
static NestNode *ahead(ColumnBuilder *b, const NestNode *traversal, bool all) {
    NestNode *first = NULL, **end = &first;
    for (const NestNode *node = b->columns->body; node != traversal; node = node->next)
        if (all || node->kind == NEST_LET || node->kind == NEST_LOAD)
            nest_add(b->nest, &end, *node);
    return first;
}

/* Memory of tiles has a value for each lane. */
static void widen(ColumnBuilder *b, NestNode *body, SymbolId memory, Index lane) {
    for (NestNode *node = body; node; node = node->next) {
        if ((node->kind == NEST_ALLOC ? node->name : node->array) == memory) {
            Index *at = nest_at(b->nest, 2);
            at[0] = node->at[0];
            at[1] = node->kind == NEST_ALLOC ? make_number(b->nest, b->nest->lanes) : lane;
            node->at = at;
            node->at_count = 2;
        }
        widen(b, node->body, memory, lane);
        widen(b, node->other, memory, lane);
    }
}

static bool varies(const ColumnBuilder *b, const NestNode *node, const NestNode *traversal) {
    NestNode alone = *node;
    alone.next = NULL;
    if (nest_body_uses(b->nest, &alone, b->columns->name)) return true;
    for (const NestNode *own = b->columns->body; own != traversal; own = own->next)
        if (own->name && nest_body_uses(b->nest, &alone, own->name)) return true;
    return false;
}

/* What is the same for all columns, and memory, stands ahead of them. */
static NestNode *lift(ColumnBuilder *b) {
    NestNode *first = NULL, **end = &first, *traversal = *find_traversal(b->columns);
    const Index lane =
        make_less(b->nest, make_symbol(b->nest, b->columns->name),
                  make_scale(b->nest, make_symbol(b->nest, b->chunk), b->nest->lanes));
    for (NestNode **place = &b->columns->body; *place != traversal;) {
        NestNode *node = *place;
        const bool value = node->kind == NEST_LET || node->kind == NEST_LOAD;
        if (node->kind == NEST_ALLOC) widen(b, b->columns->body, node->name, lane);
        if (node->kind != NEST_ALLOC && !(value && !varies(b, node, traversal))) {
            place = &node->next;
            continue;
        }
        *place = node->next;
        nest_add(b->nest, &end, *node);
    }
    return first;
}

static bool are_values(const NestNode *body, const NestNode *end) {
    for (; body != end; body = body->next)
        if (body->kind != NEST_LET && body->kind != NEST_LOAD) return false;
    return true;
}

/* The tiles of a chunk of columns, each by its lanes, then the combination of their values. */
static NestNode *by_tiles(ColumnBuilder *b) {
    NestNode *lifted = lift(b), *traversal = *find_traversal(b->columns),
             *tiles = arena_alloc(b->arena, sizeof *tiles);
    NestNode *rest = NULL;
    if (traversal->next || !are_values(b->columns->body, traversal))
        rest = by_lanes(b, append(ahead(b, traversal, true), traversal->next));
    *tiles = *traversal;
    tiles->body = by_lanes(b, append(ahead(b, traversal, false), traversal->body));
    tiles->next = rest;
    return append(lifted, tiles);
}

/* Chunks of 32 columns in the place of the loops over columns and other coordinates. */
static void build_strips(ColumnBuilder *b) {
    Nest *nest = b->nest;
    ItemBuilder *items = b->items;
    const SymbolId outermost = (b->outers ? b->outers : b->columns)->name;
    NestNode *before = NULL, **end = &before, *columns = b->columns;
    const NestNode old = *columns;
    items->chunked = true;
    items->columns = columns->extent;
    items->chunks = nest_ceiling(nest, &end, columns->extent, nest->lanes, "chunks");
    b->chunk = make_loop_name(b->nest, "chunk");
    NestNode *body = items->single ? by_lanes(b, columns->body) : by_tiles(b);
    NestNode **place = nest_find(&nest->body, outermost);
    *columns = (NestNode){.kind = NEST_LOOP,
                          .loop = old.loop,
                          .name = b->chunk,
                          .extent = items->chunks,
                          .range = old.range,
                          .body = body,
                          .next = old.next};
    if (b->outers &&
        schedule_join(nest, b->outers, schedule_first_loop(body)->name, true) != b->outers)
        items_refuse(items, "rows of columns differ in length");
    *end = *place;
    *place = before;
    while (place != end && *place != (b->outers ? b->outers : columns)) place = &(*place)->next;
    items->row = place;
}

PlainNest *schedule_columns(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                            Arena *arena, const char **problem) {
    ItemBuilder items;
    ColumnBuilder b = {.items = &items, .arena = arena};
    if (columns_begin(&items, plan, phase, numbers, arena, &b.outers, &b.columns, problem)) {
        b.nest = items.nest;
        items.pairs = false;
        if (tile_traversal(&b)) {
            shape_lanes(&b, numbers->load_bytes);
            build_strips(&b);
            if (!items.problem) items_build(&items);
        }
    }
    return *problem ? NULL : items_end(&items, problem);
}
