/* block_columns.c: what a block does with a tile of 1024 rows of 32 neighbouring columns: a column
 * a lane, and to each of 16 warps 8 of the tree's 128 lanes, a subtree.
 *
 * A warp takes its rows eight at a time, so that their loads are on the way together: those of a
 * lane; in a tile of up to 256 rows, whose lanes have two at most, those of four lanes. Eight rows
 * are a fold in registers, and what these come to a fold of the warp's. The warps' values go to
 * shared memory, where a fold of 16 makes the tile's values of them. Of an argmin, argmax or
 * logsumexp each warp makes the first tree's value before it begins with the second. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, LANES = 128, EIGHT = 8, FEW = 2, WARPS = COLUMN_WARPS, OWN = LANES / WARPS };

typedef struct BlockColumns {
    ColumnTile *b;
    Nest *nest;
    Index depth; /* the rows of a lane of the tree: eights of a warp */
    Index warp, column;
    SymbolId *parts; /* by tree: [warp, column] in shared memory */
} BlockColumns;

/* As in registers: a bool is an i32. */
static int64_t bytes_of(Type type) {
    return type_info[type == TYPE_BOOL ? TYPE_I32 : type_info[type].compute].size;
}

int64_t column_block_bytes(const ColumnTile *b) {
    int64_t bytes = 0;
    for (size_t i = 0; i < b->tree_count; i++) bytes += bytes_of(b->trees[i].type);
    return bytes * WARPS * b->nest->lanes;
}

/* ---- the rows of a warp ---- */

/* How eight rows lie in a tile: those of a lane of the tree, or two of each of four. */
typedef struct EightRows {
    int64_t depth; /* rows of a lane */
    bool whole;    /* all are there */
} EightRows;

/* Where row u of eight lies, from the first of them on. */
static Index offset_of(BlockColumns *s, NestNode ***end, Index u, int64_t depth) {
    Nest *nest = s->nest;
    if (depth == EIGHT) return make_scale(nest, u, LANES);
    const Index lane = make_let_index(nest, end, "lane",
                                      make_value(nest, OP_FLOORDIV, u, make_number(nest, depth)));
    const Index row = make_less(nest, u, make_scale(nest, lane, depth));
    return make_add(nest, lane, make_scale(nest, row, LANES));
}

/* The eight rows of that number of the warp's, those that there are: leaf `e` of its folds. */
static void eight_rows(BlockColumns *s, ColumnPass *p, NestNode ***end, const SymbolId *lanes,
                       Index e, EightRows rows) {
    ColumnTile *b = s->b;
    Nest *nest = s->nest;
    const SymbolId u = make_loop_name(nest, "u");
    const Index own = make_symbol(nest, u);
    SymbolId *folds = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *folds);
    for (size_t i = 0; i < b->tree_count; i++)
        if (column_is_of_pass(p, i))
            folds[i] = column_fold(b, end, &b->trees[i], "eight", EIGHT, false);
    NestNode *list = NULL, **inside = &list, *nodes = NULL, **nodes_end = &nodes;
    const Index first =
        make_add(nest, make_scale(nest, s->warp, OWN), make_scale(nest, e, EIGHT / rows.depth));
    Index left = make_less(nest, b->count, first);
    if (!rows.whole) left = make_let_index(nest, end, "left", nest_index_value(nest, left));
    const Index offset = offset_of(s, &inside, own, rows.depth);
    make_append(&nodes_end, nest_copy(b->arena, b->row_nodes));
    make_append(&nodes_end, nest_copy(b->arena, p->column_nodes));
    column_retarget(p, nodes, folds, NULL, own);
    for (NestNode *node = nodes; node && !rows.whole; node = node->next) {
        node->limit = make_less(nest, left, offset);
        node->has_limit = node->kind != NEST_LET;
    }
    const Index row = make_add(nest, b->first, make_add(nest, first, offset));
    make_append(&inside, nest_put_index(nest, nodes, b->traversal->name, row));
    column_loop(b, end, LOOP_UNROLLED, u, make_number(nest, EIGHT), nest_clone(nest, list));
    for (size_t i = 0; i < b->tree_count; i++) {
        if (!column_is_of_pass(p, i)) continue;
        const SymbolId value = nest_symbol(nest, "eight", NAMED_VALUE, b->trees[i].type);
        make_combine(nest, end, value, folds[i], NULL, make_number(nest, EIGHT));
        make_push(nest, end, lanes[i], e, NULL, nest_name(nest, value));
    }
}

static int64_t loaded_bytes(const Nest *nest, const NestNode *body) {
    int64_t bytes = 0;
    for (const NestNode *node = body; node; node = node->next)
        if (node->kind == NEST_LOAD) bytes += type_info[nest->symbols[node->array].type].size;
    return bytes;
}

int64_t column_block_loads(const ColumnTile *b, int64_t load_bytes) {
    const int64_t own = loaded_bytes(b->nest, b->column_nodes),
                  all = own + loaded_bytes(b->nest, b->row_nodes), max = 6 * load_bytes;
    if (!own) return 2 * load_bytes;
    return 2 * load_bytes * all / own < max ? 2 * load_bytes * all / own : max;
}

/* Whether the loads of sixteen rows have registers, and an element is little work. */
static bool takes_pairs(const BlockColumns *s, const ColumnPass *p) {
    const int64_t bytes =
        loaded_bytes(s->nest, s->b->row_nodes) + loaded_bytes(s->nest, p->column_nodes);
    return column_is_short(p) && 2 * EIGHT * bytes <= 2 * s->b->items->numbers->load_bytes;
}

/* All rows of the warp; of a full tile sixteen at once, if their loads are not too many. */
static NestNode *warp_rows(BlockColumns *s, ColumnPass *p, const SymbolId *lanes, EightRows rows) {
    ColumnTile *b = s->b;
    Nest *nest = s->nest;
    NestNode *first = NULL, **end = &first, *body = NULL, **inside = &body;
    const SymbolId h = make_loop_name(nest, "h");
    const Index own = make_symbol(nest, h);
    if (!rows.whole || !takes_pairs(s, p)) {
        eight_rows(s, p, &inside, lanes, own, rows);
        column_loop(b, &end, LOOP_SERIAL, h, make_number(nest, rows.depth), body);
        return first;
    }
    const SymbolId g = make_loop_name(nest, "g");
    NestNode *pair = NULL, **pair_end = &pair;
    const Index e = make_add(nest, make_scale(nest, own, 2), make_symbol(nest, g));
    eight_rows(s, p, &pair_end, lanes, e, rows);
    column_loop(b, &inside, LOOP_UNROLLED, g, make_number(nest, 2), pair);
    column_loop(b, &end, LOOP_SERIAL, h, make_number(nest, rows.depth / 2), body);
    return first;
}

/* By how many rows the tile has. */
static NestNode *rows_by_count(BlockColumns *s, ColumnPass *p, const SymbolId *lanes) {
    Nest *nest = s->nest;
    const Index count = s->b->count;
    NestNode *all = nest_only_where(nest, make_less(nest, count, make_number(nest, TILE - 1)),
                                    warp_rows(s, p, lanes, (EightRows){EIGHT, true}));
    NestNode *many = nest_only_where(nest, make_less(nest, count, make_number(nest, FEW * LANES)),
                                     warp_rows(s, p, lanes, (EightRows){EIGHT, false}));
    many->other = warp_rows(s, p, lanes, (EightRows){FEW, false});
    all->other = many;
    all->version = many->version = true;
    return all;
}

/* The trees of a pass over one column: what the warp's rows come to, to shared memory. */
static NestNode *warp_column(BlockColumns *s, ColumnPass *p) {
    ColumnTile *b = s->b;
    Nest *nest = s->nest;
    NestNode *first = NULL, **end = &first;
    SymbolId *lanes = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *lanes);
    for (size_t i = 0; i < b->tree_count; i++)
        if (column_is_of_pass(p, i))
            lanes[i] = column_fold(b, &end, &b->trees[i], "lane", LANES, false);
    make_append(&end, rows_by_count(s, p, lanes));
    for (size_t i = 0; i < b->tree_count; i++) {
        if (!column_is_of_pass(p, i)) continue;
        const SymbolId value = nest_symbol(nest, "own", NAMED_VALUE, b->trees[i].type);
        make_combine(nest, &end, value, lanes[i], NULL, s->depth);
        make_store(nest, &end, s->parts[i], s->warp, &s->column, nest_name(nest, value));
    }
    return first;
}

/* ---- the block ---- */

/* The values of the trees of a pass, of all warps, are the totals: of no rows a sum of floats is 0.
 */
static void join_warps(BlockColumns *s, NestNode ***end, bool last) {
    ColumnTile *b = s->b;
    Nest *nest = s->nest;
    Function *f = nest->values;
    const SymbolId c = make_loop_name(nest, "c");
    const Index column = make_symbol(nest, c);
    NestNode *body = NULL, **inside = &body;
    int64_t known;
    const bool some = index_is_number(b->rows, &known) && known > 0;
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (tree->last != last) continue;
        const SymbolId k = make_loop_name(nest, "k"),
                       part = nest_symbol(nest, "part", NAMED_VALUE, tree->type),
                       all = nest_symbol(nest, "all", NAMED_VALUE, tree->type);
        NestNode *list = NULL, **list_end = &list;
        const SymbolId fold = column_fold(b, &inside, tree, "warps", LANES, false);
        make_load(nest, &list_end, part, s->parts[i], make_symbol(nest, k), &column);
        make_push(nest, &list_end, fold, make_symbol(nest, k), NULL, nest_name(nest, part));
        column_loop(b, &inside, LOOP_UNROLLED, k, make_number(nest, WARPS), list);
        make_combine(nest, &inside, all, fold, NULL, make_number(nest, WARPS));
        ValueId value = nest_name(nest, all);
        if (tree->sum && !some)
            value = ir_op(f, OP_SELECT, make_value(nest, OP_GT, b->rows, make_number(nest, 0)),
                          value, ir_constant(f, tree->type, 0));
        make_store(nest, &inside, tree->total, column, NULL, value);
    }
    column_across(b, end, c, body);
}

static void pass(BlockColumns *s, NestNode ***end, bool last, bool second) {
    ColumnTile *b = s->b;
    Nest *nest = s->nest;
    const SymbolId w = make_loop_name(nest, "w"), c = make_loop_name(nest, "c");
    NestNode *body = NULL, **inside = &body;
    s->warp = make_symbol(nest, w);
    s->column = make_symbol(nest, c);
    if (second) column_open_totals(b, &inside);
    if (second) join_warps(s, &inside, false);
    ColumnPass p = column_pass(b, last);
    column_across(b, &inside, c, column_at(b, p.ahead, warp_column(s, &p), s->column));
    column_loop(b, end, LOOP_WARP, w, make_number(nest, WARPS), body);
    nest_add(nest, end, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK});
}

void column_block(ColumnTile *b, NestNode ***end, NestNode ***first_warp) {
    Nest *nest = b->nest;
    BlockColumns *s = arena_alloc(b->arena, sizeof *s);
    *s = (BlockColumns){.b = b, .nest = nest};
    bool two = false;
    const ValueId few = make_value(nest, OP_LE, b->count, make_number(nest, FEW * LANES));
    s->depth = make_let_index(
        nest, end, "depth",
        ir_op(nest->values, OP_SELECT, few, make_constant(nest, FEW), make_constant(nest, EIGHT)));
    s->parts = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *s->parts);
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        const Index columns = make_number(nest, nest->lanes);
        two |= !tree->last;
        s->parts[i] = nest_symbol(nest, arena_printf(b->arena, "%s_warps", tree->name), NAMED_ALLOC,
                                  tree->type);
        nest_add(nest, end,
                 (NestNode){.kind = NEST_ALLOC,
                            .scope = SCOPE_SHARED,
                            .name = s->parts[i],
                            .at = make_at(nest, make_number(nest, WARPS), &columns),
                            .at_count = 2});
    }
    if (two) pass(s, end, false, false);
    pass(s, end, true, two);
    column_open_totals(b, first_warp);
    if (two) join_warps(s, first_warp, false);
    join_warps(s, first_warp, true);
}
