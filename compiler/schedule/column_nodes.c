/* column_nodes.c: divides the nodes of a phase down columns into those that are the same for all
 * columns, those of a column ahead of its rows, those of a row, and those of each column of a row.
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

static void add_tree(ColumnTile *tile, const ColumnReduction *of, const char *suffix, Op op,
                     Type type, bool last) {
    const char *name = tile->nest->symbols[of->tree].name;
    if (*suffix) name = arena_printf(tile->arena, "%s_%s", name, suffix);
    tile->trees[tile->tree_count++] =
        (ColumnTree){.source = *suffix ? nest_symbol(tile->nest, name, NAMED_TREE, type) : of->tree,
                     .name = name,
                     .op = op,
                     .type = type,
                     .last = last,
                     .sum = !of->two && op == OP_SUM && type_info[type].class == 'F'};
}

static bool take_tree(ColumnTile *tile, const NestNode *tree) {
    size_t pushes = 0;
    for (const NestNode *node = tile->traversal->body; node; node = node->next)
        pushes += node->kind == NEST_PUSH && node->array == tree->name;
    if (pushes != 1 || tree->at_count)
        return items_refuse(tile->items, "a tree is not pushed to in one place");
    ColumnReduction *own = &tile->reductions[tile->reduction_count++];
    *own = (ColumnReduction){.tree = tree->name,
                             .op = tree->op,
                             .type = tree->type,
                             .first = tile->tree_count,
                             .two = nest_is_two_trees(tree->op)};
    if (own->two) {
        const Type second = nest_second_type(tree->op, tree->type);
        add_tree(tile, own, "extremum", nest_tree_of_two(tree->op, false), tree->type, false);
        add_tree(tile, own, "second", nest_tree_of_two(tree->op, true), second, true);
    } else {
        add_tree(tile, own, "", tree->op, tree->type, true);
    }
    return true;
}

/* Of what stands ahead of the rows the trees, and what is the same for all columns; the rest
 * belongs to a column. Straight code down the rows: what belongs to a row, and what to each column
 * of it. */
static bool take_nodes(ColumnTile *tile) {
    const NestNode *traversal = tile->traversal;
    NestNode **ahead = &tile->ahead, **row = &tile->row_nodes, **column = &tile->column_nodes;
    size_t room = 1;
    for (const NestNode *node = tile->columns->body; node; node = node->next) room++;
    for (const NestNode *node = traversal->body; node; node = node->next) room++;
    bool *varying = arena_alloc(tile->arena, tile->nest->symbol_count * sizeof *varying);
    tile->trees = arena_alloc(tile->arena, 2 * room * sizeof *tile->trees);
    tile->reductions = arena_alloc(tile->arena, room * sizeof *tile->reductions);
    varying[tile->columns->name] = true;
    for (NestNode *node = tile->columns->body; node != traversal; node = node->next) {
        const bool value = node->kind == NEST_LET || node->kind == NEST_LOAD;
        if (node->kind == NEST_TREE) {
            if (!take_tree(tile, node)) return false;
        } else if (!value && node->kind != NEST_STORE) {
            return items_refuse(tile->items, "more is done before the loop down a column");
        } else if (value && !nest_uses_any(tile->nest, node, varying)) {
            nest_add(tile->nest, &tile->before_end, *node);
        } else {
            if (value) varying[node->name] = true;
            nest_add(tile->nest, &ahead, *node);
        }
    }
    for (const NestNode *node = traversal->body; node; node = node->next) {
        const bool value = node->kind == NEST_LET || node->kind == NEST_LOAD;
        if (!value && node->kind != NEST_STORE && node->kind != NEST_ADD && node->kind != NEST_PUSH)
            return items_refuse(tile->items, "what is done with an element is not straight code");
        if (node->kind == NEST_PUSH &&
            !index_equal(node->at[0], make_symbol(tile->nest, traversal->name)))
            return items_refuse(tile->items,
                                "leaves are not numbered by their place in the column");
        const bool changes =
            node->kind == NEST_LOAD && nest_stores_to(traversal->body, node->array);
        const bool own = !value || changes || nest_uses_any(tile->nest, node, varying);
        if (own && value) varying[node->name] = true;
        nest_add(tile->nest, own ? &column : &row, *node);
    }
    NestNode bound = {.kind = NEST_LOOP, .extent = traversal->extent};
    return !nest_uses_any(tile->nest, &bound, varying) ||
           items_refuse(tile->items, "neighbouring columns differ in length");
}

bool column_take(ColumnTile *tile) {
    NestNode *traversal = tile->columns->body;
    while (traversal && traversal->kind != NEST_LOOP) traversal = traversal->next;
    if (!traversal) return items_refuse(tile->items, "there is no loop over rows");
    if (schedule_join(tile->nest, traversal, 0, true) != traversal)
        return items_refuse(tile->items, "the rows are not one loop");
    if (nest_has(traversal->next, NEST_LOOP))
        return items_refuse(tile->items, "a column is visited twice");
    tile->traversal = traversal;
    tile->rows = tile->items->max = traversal->extent;
    if (!items_find_max(tile->items, tile->columns, traversal) ||
        (tile->outers && !items_find_max(tile->items, tile->outers, tile->columns)))
        return items_refuse(tile->items, "columns are not of one length");
    tile->before_end = &tile->before;
    for (NestNode *node = tile->outers ? tile->outers->body : NULL; node; node = node->next) {
        if (node == tile->columns) continue;
        if (node->kind != NEST_LET && node->kind != NEST_LOAD)
            return items_refuse(tile->items, "more is done beside the columns");
        nest_add(tile->nest, &tile->before_end, *node);
    }
    return take_nodes(tile);
}
