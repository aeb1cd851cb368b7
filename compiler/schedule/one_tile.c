/* one_tile.c: index-set splitting by the number of a row's items. Where a row has one item, the
 * values of its trees stay in registers; where it has at most a block of 1024 tiles, what the block
 * comes to is the row's value. Memory and counters of all blocks are for longer rows alone.
 *
 *   if groups - 1 > 0
 *     store part[item] = own
 *     arrive is_last = arrived[...] of siblings
 *     when is_last
 *       combine group = sum part[...] count parts
 *       if blocks - 1 > 0 ... else: own = group
 *   when done: what follows the row, from `own`
 *
 * And loop versioning: a tile of at most 256 elements takes two rows of 128 instead of eight. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, ROWS = 8, SHORT_ROWS = 2, TREES_MAX = 64 };

/* A tree whose tiles' values lie in memory, and the register that takes the place of it. */
typedef struct RowTree {
    NestNode *combine; /* of all tiles' values, in what follows the row */
    SymbolId part, own;
} RowTree;

/* Of an item: the first of its row, its block of tiles, how many items arrive for that and how many
 * tiles it has; how many blocks the row has, no term: one, and what they come to in the end. */
typedef struct RowBlocks {
    Index base, block, siblings, parts, blocks, counted;
} RowBlocks;

typedef struct RowTrees {
    ItemBuilder *b;
    RowTree tree[TREES_MAX];
    size_t count;
    SymbolId done; /* a register: whether the row's values are complete */
} RowTrees;

static Index zero(const RowTrees *r) {
    return make_number(r->b->nest, 0);
}

static SymbolId find_own(const RowTrees *r, SymbolId part) {
    for (size_t i = 0; i < r->count; i++)
        if (r->tree[i].part == part) return r->tree[i].own;
    return 0;
}

/* The combinations at the top of what follows the row; false: some memory of tiles is used in
 * another way. */
static bool find_trees(RowTrees *r, NestNode *rest) {
    const Nest *nest = r->b->nest;
    size_t uses = 0;
    for (NestNode *node = rest; node; node = node->next) {
        if (node->kind != NEST_COMBINE || node->op == OP_NONE) continue;
        if (r->count == TREES_MAX || node->at_count != 1) return false;
        r->tree[r->count++] = (RowTree){.combine = node, .part = node->array};
    }
    for (const NestNode *alloc = r->b->globals; alloc; alloc = alloc->next) {
        uint32_t *counts = arena_alloc(nest->arena, nest->symbol_count * sizeof *counts);
        nest_count_uses(nest, rest, counts);
        uses += counts[alloc->name];
    }
    return r->count && uses == r->count;
}

static void set_done(const RowTrees *r, NestNode ***end, ValueId done) {
    make_store(r->b->nest, end, r->done, zero(r), NULL, done);
}

static void declare(RowTrees *r, NestNode ***end) {
    Nest *nest = r->b->nest;
    r->done = make_alloc(nest, end, SCOPE_REGISTER, "complete", TYPE_BOOL, make_number(nest, 1));
    if (r->b->ranged) set_done(r, end, ir_constant(nest->values, TYPE_BOOL, 0));
    for (size_t i = 0; i < r->count; i++) {
        RowTree *tree = &r->tree[i];
        const NestSymbol part = nest->symbols[tree->part];
        uint64_t none[1] = {0};
        const ValueId empty = ir_constant(nest->values, part.type,
                                          nest_reduce(tree->combine->op, part.type, none, 0));
        tree->own =
            make_alloc(nest, end, SCOPE_REGISTER, arena_printf(nest->arena, "%s_own", part.name),
                       part.type, make_number(nest, 1));
        make_store(nest, end, tree->own, zero(r), NULL, empty);
    }
}

/* What goes to memory of tiles goes to the registers. */
static void keep(const RowTrees *r, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        const SymbolId own = node->kind == NEST_STORE ? find_own(r, node->array) : 0;
        if (own) node->array = own;
        if (own) node->at = make_at(r->b->nest, zero(r), NULL);
        keep(r, node->body);
        keep(r, node->other);
    }
}

static ValueId load_own(const RowTrees *r, NestNode ***end, const RowTree *tree) {
    Nest *nest = r->b->nest;
    const SymbolId own = nest_symbol(nest, "own", NAMED_VALUE, nest->symbols[tree->part].type);
    make_load(nest, end, own, tree->own, zero(r), NULL);
    return nest_name(nest, own);
}

/* Of so many values in memory from there on: by tree. */
static ValueId combine(const RowTrees *r, NestNode ***end, const RowTree *tree, SymbolId memory,
                       Index from, Index count) {
    Nest *nest = r->b->nest;
    const Type type = nest->symbols[tree->part].type;
    const SymbolId all = nest_symbol(nest, "all", NAMED_VALUE, type);
    nest_add(nest, end,
             (NestNode){.kind = NEST_COMBINE,
                        .name = all,
                        .op = tree->combine->op,
                        .array = memory,
                        .at = make_at(nest, from, NULL),
                        .at_count = 1,
                        .extent = count});
    return nest_name(nest, all);
}

/* Where the last of so many at the counter goes on, which is known from then on. */
static NestNode **arrive(const RowTrees *r, NestNode ***end, const char *counters, Index at,
                         Index of, ValueId by) {
    Nest *nest = r->b->nest;
    NestNode **when = *end;
    NestNode **inside = items_arrive(r->b, end, counters, at, of, by);
    const SymbolId last = (*when)->name;
    while ((*when)->kind != NEST_WHEN) when = &(*when)->next;
    NestNode *test = *when, **behind = when;
    set_done(r, &behind, nest_name(nest, last));
    *behind = test;
    *end = &test->next;
    return inside;
}

/* The blocks' values to memory, and those of all blocks by the last of these. */
static NestNode *combine_blocks(const RowTrees *r, const ValueId *values, const RowBlocks *row) {
    Nest *nest = r->b->nest;
    NestNode *first = NULL, **end = &first;
    SymbolId *memory = arena_alloc(nest->arena, r->count * sizeof *memory);
    for (size_t i = 0; i < r->count; i++) {
        const NestSymbol part = nest->symbols[r->tree[i].part];
        memory[i] = items_global(r->b, arena_printf(nest->arena, "%s_group", part.name), part.type);
        make_store(nest, &end, memory[i], make_add(nest, row->base, row->block), NULL, values[i]);
    }
    NestNode **inside = arrive(r, &end, "arrived_blocks", row->base, row->blocks, 0);
    for (size_t i = 0; i < r->count; i++)
        make_store(nest, &inside, r->tree[i].own, zero(r), NULL,
                   combine(r, &inside, &r->tree[i], memory[i], row->base, row->counted));
    return first;
}

/* By the last item of a block: the block's values, and where there are several blocks the row's. */
static void combine_parts(const RowTrees *r, NestNode ***end, const RowBlocks *row) {
    Nest *nest = r->b->nest;
    ValueId *values = arena_alloc(nest->arena, r->count * sizeof *values);
    const Index first = make_scale(nest, row->block, TILE);
    for (size_t i = 0; i < r->count; i++)
        values[i] = combine(r, end, &r->tree[i], r->tree[i].part,
                            make_add(nest, r->tree[i].combine->at[0], first), row->parts);
    NestNode *own = NULL, **inside = &own;
    for (size_t i = 0; i < r->count; i++)
        make_store(nest, &inside, r->tree[i].own, zero(r), NULL, values[i]);
    if (!row->blocks.count) {
        make_append(end, own);
        return;
    }
    NestNode *several = nest_only_where(nest, make_less(nest, row->blocks, make_number(nest, 1)),
                                        combine_blocks(r, values, row));
    several->other = own;
    make_append(end, several);
}

/* Tiles go by blocks of as many as are combined at a time. */
static RowBlocks find_blocks(const RowTrees *r, NestNode ***end, Index group, Index groups,
                             bool flat) {
    ItemBuilder *b = r->b;
    Nest *nest = b->nest;
    RowBlocks row = {.base = make_less(nest, make_symbol(nest, b->slot), group),
                     .siblings = groups,
                     .parts = b->tiles};
    if (flat) return row;
    row.block = make_let_index(nest, end, "block",
                               make_value(nest, OP_FLOORDIV, group, make_number(nest, TILE)));
    const Index first = make_scale(nest, row.block, TILE);
    row.siblings = items_bounded(b, end, OP_MIN, make_less(nest, groups, first), TILE, "siblings");
    row.blocks = nest_ceiling(nest, end, groups, TILE, "blocks");
    row.counted = nest_ceiling(nest, end, b->tiles, TILE, "counted");
    row.parts = items_bounded(b, end, OP_MIN, make_less(nest, b->tiles, first), TILE, "parts");
    return row;
}

/* Of a row with several items. */
static NestNode *several_items(const RowTrees *r, Index group, Index groups, bool flat) {
    Nest *nest = r->b->nest;
    NestNode *first = NULL, **end = &first;
    for (size_t i = 0; i < r->count; i++)
        make_store(nest, &end, r->tree[i].part, make_symbol(nest, r->b->slot), NULL,
                   load_own(r, &end, &r->tree[i]));
    const RowBlocks row = find_blocks(r, &end, group, groups, flat);
    ValueId by;
    const Index from = make_add(nest, row.base, make_scale(nest, row.block, TILE));
    NestNode **inside = items_range_ends(r->b, &end, from, row.siblings, &by);
    NestNode ***place = r->b->ranged ? &inside : &end;
    NestNode **last =
        arrive(r, place, "arrived", make_add(nest, row.base, row.block), row.siblings, by);
    combine_parts(r, &last, &row);
    return first;
}

static const NestNode *find_arrival(const NestNode *body) {
    const NestNode *node = body;
    while (node && node->kind != NEST_ARRIVE && node->kind != NEST_WHEN) node = node->next;
    return node && node->kind == NEST_WHEN ? find_arrival(node->body) : node;
}

/* Of a row with one item, which is the only one to arrive: what lanes stored on the way is there
 * for what follows, and what other items have read is read. */
static NestNode *one_item(const RowTrees *r, const NestNode *several, Index group) {
    Nest *nest = r->b->nest;
    NestNode *first = NULL, **end = &first;
    NestNode arrival = *find_arrival(several);
    arrival.name = nest_symbol(nest, "is_last", NAMED_VALUE, TYPE_BOOL);
    arrival.at = make_at(nest, make_less(nest, make_symbol(nest, r->b->slot), group), NULL);
    arrival.extent = make_number(nest, 1);
    arrival.value = 0;
    arrival.next = NULL;
    nest_add(nest, &end, arrival);
    set_done(r, &end, nest_name(nest, arrival.name));
    return first;
}

static void take_own(const RowTrees *r) {
    for (size_t i = 0; i < r->count; i++) {
        NestNode *node = r->tree[i].combine;
        *node = (NestNode){.kind = NEST_LOAD,
                           .name = node->name,
                           .array = r->tree[i].own,
                           .at = make_at(r->b->nest, zero(r), NULL),
                           .at_count = 1,
                           .range = node->range,
                           .next = node->next};
    }
}

bool items_one_tile(ItemBuilder *b, NestNode **tile, NestNode *rest, NestNode ***end, Index group,
                    Index groups, bool flat) {
    Nest *nest = b->nest;
    RowTrees *r = arena_alloc(b->arena, sizeof *r);
    NestNode *work = *tile;
    int64_t known;
    *r = (RowTrees){.b = b};
    if (nest->lanes == 1 || index_is_number(groups, &known)) return false;
    if (!find_trees(r, rest)) return false;
    declare(r, &tile);
    *tile = work;
    keep(r, work);
    NestNode *test = nest_only_where(nest, make_less(nest, groups, make_number(nest, 1)),
                                     several_items(r, group, groups, flat));
    test->other = one_item(r, test->body, group);
    take_own(r);
    make_append(end, test);
    const SymbolId done = nest_symbol(nest, "done", NAMED_VALUE, TYPE_BOOL);
    make_load(nest, end, done, r->done, zero(r), NULL);
    nest_add(nest, end, (NestNode){.kind = NEST_WHEN, .where = done, .body = rest});
    return true;
}

/* ---- short rows ---- */

static bool is_eight(const NestNode *node) {
    int64_t extent;
    return index_is_number(node->extent, &extent) && extent == ROWS;
}

static bool is_rows(const NestNode *node) {
    return node->kind == NEST_LOOP && node->loop == LOOP_UNROLLED && node->body &&
           node->body->kind == NEST_LOOP && node->body->loop == LOOP_VECTOR && is_eight(node);
}

/* Whether all loops across a tile's lanes go by rows of vectors. */
static bool go_by_rows(const NestNode *body) {
    bool any = false;
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind != NEST_LOOP || node->loop == LOOP_VECTOR) continue;
        if (!is_rows(node)) return false;
        any = true;
    }
    return any;
}

/* As many rows of 128 elements as a short row has. */
static void cut_rows(Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next)
        if (is_rows(node) || (node->kind == NEST_FOLD && is_eight(node)))
            node->extent = make_number(nest, SHORT_ROWS);
}

void items_short_rows(ItemBuilder *b) {
    enum { WORK_MAX = 64, ROW = 128 };
    Nest *nest = b->nest;
    NestNode *along = items_find_along(b);
    const Index left =
        make_less(nest, b->max, make_scale(nest, make_symbol(nest, along->name), TILE));
    for (NestNode **place = &along->body; *place; place = &(*place)->next) {
        NestNode *loop = *place, *after = loop->next;
        if (loop->kind != NEST_LOOP || loop->loop != LOOP_LANE) continue;
        if (items_work(nest, loop->body) > WORK_MAX || !go_by_rows(loop->body)) continue;
        loop->next = NULL;
        NestNode *few = nest_clone(nest, loop);
        cut_rows(nest, few->body);
        const Index more = make_less(nest, left, make_number(nest, SHORT_ROWS * ROW));
        NestNode *test = nest_only_where(nest, more, loop);
        test->other = few;
        test->version = true;
        test->next = after;
        *place = test;
    }
}
