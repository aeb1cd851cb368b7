/* column_jam.c: a tile of rows of a few columns, by vectors of rows.
 *
 * Vectors of columns would be mostly empty. So the loop over the columns is unrolled and jammed:
 * one loop over the tile's rows, which compilers make vectors of, does for each row what it has for
 * all columns, once, and then each column's elements, and pushes them to a tree for each column. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { COLUMNS_MAX = 8, TREES_MAX = 8 /* tiles of leaves that stay in the first cache */ };

/* Whether an element's nodes may stand there once for each column. */
static bool may_repeat(const ColumnTile *b, const ColumnPass *p) {
    for (const NestNode *node = p->column_nodes; node; node = node->next)
        if (node->kind == NEST_STORE && nest_reads(b->row_nodes, node->array)) return false;
    return column_is_repeatable(p) && column_is_short(p);
}

/* The nodes of column `c` of a row, each tree's pushes to one of its own. */
static NestNode *nodes_of(ColumnPass *p, const SymbolId *trees, int64_t c, Index row) {
    ColumnTile *b = p->b;
    NestNode *nodes = nest_copy(b->arena, p->column_nodes);
    column_retarget(p, nodes, trees, NULL, row);
    return column_at(b, p->ahead, nodes, make_number(b->nest, c));
}

/* The values of column `c`, in the totals. */
static void take_column(ColumnTile *b, const SymbolId *trees, int64_t c, NestNode ***end) {
    Nest *nest = b->nest;
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        const SymbolId own = nest_symbol(nest, "tile", NAMED_VALUE, tree->type);
        make_combine(nest, end, own, trees[i], NULL, (Index){NULL, 0});
        make_store(nest, end, tree->total, make_number(nest, c), NULL,
                   column_total(b, tree, nest_name(nest, own)));
    }
}

bool column_by_rows(ColumnTile *b, ColumnPass *p, NestNode ***end) {
    Nest *nest = b->nest;
    int64_t columns;
    if (!column_is_plain(b) || !b->tree_count || !index_is_number(b->width, &columns)) return false;
    if (columns > COLUMNS_MAX || columns * (int64_t)b->tree_count > TREES_MAX) return false;
    if (!may_repeat(b, p)) return false;
    SymbolId *trees = arena_alloc(b->arena, (size_t)columns * b->tree_count * sizeof *trees);
    const SymbolId r = make_loop_name(nest, "r");
    NestNode *body = NULL, **inside = &body;
    make_append(&inside, nest_copy(b->arena, b->row_nodes));
    for (int64_t c = 0; c < columns; c++) {
        SymbolId *own = trees + (size_t)c * b->tree_count;
        for (size_t i = 0; i < b->tree_count; i++) {
            const ColumnTree *tree = &b->trees[i];
            own[i] = nest_symbol(nest, tree->name, NAMED_TREE, tree->type);
            nest_add(nest, end,
                     (NestNode){.kind = NEST_TREE,
                                .name = own[i],
                                .op = tree->op,
                                .type = tree->type,
                                .extent = b->count});
        }
        make_append(&inside, nodes_of(p, own, c, make_symbol(nest, r)));
    }
    body = nest_put_index(nest, body, b->traversal->name,
                          make_add(nest, b->first, make_symbol(nest, r)));
    column_loop(b, end, LOOP_SERIAL, r, b->count, nest_clone(nest, body));
    for (int64_t c = 0; c < columns; c++) take_column(b, trees + (size_t)c * b->tree_count, c, end);
    return true;
}
