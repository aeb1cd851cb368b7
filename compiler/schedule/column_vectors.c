/* column_vectors.c: a tile of rows of a chunk of columns by vectors of neighbouring columns, where
 * vectors of the language can say all that is done with an element.
 *
 * What belongs to a row is found for all of them first. Then row after row, and in each vector
 * after vector, elements are stored and pushed to the columns' trees, which are of the whole tile:
 * in which order rows are taken is left to whoever runs the loop. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, WIDTH = 16, TREES_MAX = 8 };

bool column_is_plain(const ColumnTile *b) {
    const ItemNumbers *numbers = b->items->numbers;
    return b->nest->lanes == 1 && numbers->layout != LS_LAYOUT_STRIDED && !b->items->tensors &&
           numbers->portion == PORTION_WHOLE;
}

/* Whether all trees are sums, or all products, of f32, found in one pass. */
static bool has_trees(const ColumnTile *b) {
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!tree->last || tree->type != TYPE_F32 || tree->op != b->trees[0].op) return false;
        if (tree->op != OP_SUM && tree->op != OP_PROD) return false;
    }
    return b->tree_count > 0 && b->tree_count <= TREES_MAX;
}

/* What a row has to have for its columns: values of f32 alone, and no array that rows write. */
static bool has_rows(const ColumnTile *b, const ColumnPass *p) {
    for (size_t i = 0; i < p->row_value_count; i++)
        if (b->nest->symbols[p->row_values[i]].type != TYPE_F32) return false;
    for (const NestNode *node = p->column_nodes; node; node = node->next)
        if (node->kind == NEST_STORE && nest_reads(b->row_nodes, node->array)) return false;
    return true;
}

/* Of an array that is not read at the same place no line is in cache: rows lie so far from each
 * other that the processor finds no stream, and stores would wait for one line after the other. */
static void own_lines(NestNode *nodes) {
    for (NestNode *node = nodes; node; node = node->next)
        if (node->kind == NEST_STORE && !nest_reads(nodes, node->array)) node->hint = HINT_OWNED;
}

/* The loop over the columns of a row of the tile. */
static NestNode *columns_of(ColumnTile *b, ColumnPass *p, const SymbolId *trees, SymbolId r,
                            Index width) {
    Nest *nest = b->nest;
    const SymbolId c = make_loop_name(nest, "c");
    const Index column = make_symbol(nest, c), row = make_symbol(nest, r);
    NestNode *nodes = nest_copy(b->arena, p->column_nodes);
    own_lines(nodes);
    column_retarget(p, nodes, trees, &column, row);
    nodes = column_at(b, p->ahead, nodes, column);
    nodes = nest_put_index(nest, nodes, b->traversal->name, make_add(nest, b->first, row));
    nest_sweep_body(nest, &nodes); /* a store that rounds leaves the rounded value unused */
    NestNode *all = nest_around(nest, LOOP_SERIAL, c, width, nodes);
    all->range = b->traversal->range;
    return all;
}

bool column_by_vectors(ColumnTile *b, ColumnPass *p, NestNode ***end) {
    Nest *nest = b->nest;
    int64_t one;
    if (!column_is_plain(b) || b->chunk < WIDTH || !has_trees(b) || !has_rows(b, p)) return false;
    if (index_is_number(b->count, &one) && one == 1) return false; /* there is no loop over rows */
    SymbolId *trees = arena_alloc(b->arena, b->tree_count * sizeof *trees);
    SymbolId *rooms = arena_alloc(b->arena, (p->row_value_count + 1) * sizeof *rooms);
    const SymbolId r = make_loop_name(nest, "r");
    const Index row = make_symbol(nest, r);
    for (size_t i = 0; i < b->tree_count; i++)
        trees[i] = nest_symbol(nest, b->trees[i].name, NAMED_TREE, TYPE_F32);
    NestNode *all = columns_of(b, p, trees, r, b->width), *body = NULL, **inside = &body;
    if (!schedule_is_vectorizable(nest, all, true)) return false;
    const uint32_t width = nest->width;
    nest->width = WIDTH;
    if (nest_vectorize(nest, &all, all->name, NULL)) {
        nest->width = width;
        return false;
    }
    if (p->row_value_count) {
        const SymbolId own = make_loop_name(nest, "r");
        for (size_t i = 0; i < p->row_value_count; i++)
            rooms[i] =
                make_alloc(nest, end, SCOPE_WORKER,
                           arena_printf(b->arena, "%s_rows", nest->symbols[p->row_values[i]].name),
                           TYPE_F32, make_number(nest, TILE));
        NestNode *list = NULL, **list_end = &list;
        make_append(&list_end, nest_copy(b->arena, b->row_nodes));
        for (size_t i = 0; i < p->row_value_count; i++)
            make_store(nest, &list_end, rooms[i], make_symbol(nest, own), NULL,
                       nest_name(nest, p->row_values[i]));
        list = nest_put_index(nest, list, b->traversal->name,
                              make_add(nest, b->first, make_symbol(nest, own)));
        column_loop(b, end, LOOP_SERIAL, own, b->count, nest_clone(nest, list));
    }
    for (size_t i = 0; i < b->tree_count; i++) {
        nest_add(nest, end,
                 (NestNode){.kind = NEST_TREE,
                            .name = trees[i],
                            .op = b->trees[i].op,
                            .type = TYPE_F32,
                            .extent = b->count,
                            .at = make_at(nest, make_number(nest, b->chunk), NULL),
                            .at_count = 1});
        b->trees[i].folded = trees[i];
    }
    for (size_t i = 0; i < p->row_value_count; i++)
        make_load(nest, &inside, p->row_values[i], rooms[i], row, NULL);
    make_append(&inside, all);
    column_loop(b, end, LOOP_SERIAL, r, b->count, nest_clone(nest, body));
    return true;
}
