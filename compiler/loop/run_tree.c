/* run_tree.c: trees and folds of a nest that runs: their leaves, each pushed exactly once, and what
 * is made of them. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

bool run_tree(Run *run, const NestNode *node, Points *points, Arena *arena) {
    int64_t *dims = arena_alloc(arena, (node->at_count + 1) * sizeof *dims), leaves = 0;
    const int64_t cells = run_find_dims(run, node, points, dims);
    if (cells < 0) return false;
    for (size_t i = 0; i < points->count; i++) {
        int64_t own;
        if (!run_index(run, points, i, node->extent, &own)) return false;
        if (own < 0) return run_stop(run, node, "it has %lld leaves", (long long)own);
        if (own > leaves) leaves = own;
    }
    uint64_t *instance = run_define(run, arena, points, node->name);
    Tree *tree = &run->trees[node->name];
    *tree = (Tree){.op = node->op,
                   .type = node->type,
                   .fold = node->kind == NEST_FOLD,
                   .leaves = (size_t)leaves,
                   .cells = (size_t)cells};
    const size_t count = tree->cells * points->count * tree->leaves;
    tree->data = arena_alloc(arena, (count + 1) * sizeof *tree->data);
    tree->pushed = arena_alloc(arena, count + 1);
    for (size_t i = 0; i < points->count; i++) instance[i] = i;
    run->dims[node->name] = dims;
    return true;
}

/* Which tree of the dims the subscripts name at a point. */
static bool tree_cell(Run *run, const Points *points, size_t point, const NestNode *node,
                      size_t count, size_t *cell) {
    uint64_t instance = 0;
    if (!run_symbol(run, points, point, node->array, &instance)) return false;
    int64_t at = (int64_t)instance, part;
    for (size_t d = 0; d < count; d++) {
        if (!run_index(run, points, point, node->at[d], &part)) return false;
        const int64_t dim = run->dims[node->array][d];
        if (part < 0 || part >= dim)
            return run_stop(run, node, "%lld is none of its %lld trees", (long long)part,
                            (long long)dim);
        at = at * dim + part;
    }
    *cell = (size_t)at;
    return true;
}

bool run_push(Run *run, const NestNode *node, Points *points, Arena *arena) {
    Tree *tree = &run->trees[node->array];
    const bool *live = run_live(run, arena, points, node);
    for (size_t i = 0; live && i < points->count; i++) {
        size_t cell;
        int64_t leaf;
        uint64_t value = nest_identity(tree->op, tree->type);
        if (!tree_cell(run, points, i, node, node->at_count - 1, &cell) ||
            !run_index(run, points, i, node->at[node->at_count - 1], &leaf))
            return false;
        if (live[i] && !run_value(run, points, i, node->value, &value)) return false;
        int64_t left = 1;
        if (node->has_limit && !run_index(run, points, i, node->limit, &left)) return false;
        if (left <= 0 && !tree->fold) continue; /* no leaf of the tree */
        if (leaf < 0 || leaf >= (int64_t)tree->leaves)
            return run_stop(run, node, "leaf %lld of %zu", (long long)leaf, tree->leaves);
        const size_t at = cell * tree->leaves + (size_t)leaf;
        if (tree->pushed[at]) return run_stop(run, node, "leaf %lld comes twice", (long long)leaf);
        tree->pushed[at] = 1;
        tree->data[at] = value;
    }
    return live != NULL;
}

/* The canonical tree over cells of memory, along its first dim. */
static bool combine_memory(Run *run, const NestNode *node, const Points *points, size_t point,
                           Arena *arena, uint64_t *value) {
    int64_t count, at;
    Memory *memory;
    const Type type = run->nest->symbols[node->array].type;
    if (!run_index(run, points, point, node->extent, &count)) return false;
    uint64_t *leaves = arena_alloc(arena, ((size_t)(count > 0 ? count : 0) + 1) * sizeof *leaves);
    int64_t stride = 1;
    for (size_t d = 1; d < node->at_count; d++) stride *= run->dims[node->array][d];
    for (int64_t i = 0; i < count; i++) {
        NestNode element = *node;
        if (i == 0 && !run_cell(run, points, point, &element, &memory, &at)) return false;
        const int64_t own = at + i * stride;
        if (own >= memory->count) return run_stop(run, node, "it goes beyond the end");
        if (!run_reads(run, node, node->array, &memory->cells[own], run_thread(run, points, point),
                       own))
            return false;
        leaves[i] = run_element(run, node->array, memory, own);
        if (memory->global && nest_is_ordered(node->op, type)) memory->cells[own].set = false;
    }
    *value =
        nest_reduce(node->op, type_info[type].compute, leaves, (size_t)(count > 0 ? count : 0));
    return true;
}

/* Whether so many leaves have come, and no others, which are identities. */
static bool are_pushed(Run *run, const NestNode *node, const Tree *tree, size_t cell,
                       int64_t count) {
    for (size_t leaf = 0; leaf < tree->leaves; leaf++) {
        const size_t at = cell * tree->leaves + leaf;
        const bool counts = (int64_t)leaf < count;
        if (tree->pushed[at] != counts)
            return run_stop(run, node,
                            counts ? "leaf %zu of %s never comes" : "leaf %zu of %s is not counted",
                            leaf, run_name(run, node->array));
        if (!counts) tree->data[at] = nest_identity(tree->op, tree->type);
    }
    return true;
}

bool run_combine(Run *run, const NestNode *node, Points *points, Arena *arena) {
    uint64_t *values = arena_alloc(arena, (points->count + 1) * sizeof *values);
    const Tree *tree = &run->trees[node->array];
    for (size_t i = 0; i < points->count; i++) {
        size_t cell;
        if (node->op != OP_NONE) {
            if (!combine_memory(run, node, points, i, arena, &values[i])) return false;
            continue;
        }
        int64_t count = (int64_t)tree->leaves;
        if (!tree_cell(run, points, i, node, node->at_count, &cell)) return false;
        if (node->extent.count && !run_index(run, points, i, node->extent, &count)) return false;
        if (!are_pushed(run, node, tree, cell, count)) return false;
        uint64_t *leaves = arena_alloc(arena, (tree->leaves + 1) * sizeof *leaves);
        memcpy(leaves, tree->data + cell * tree->leaves, tree->leaves * sizeof *leaves);
        values[i] =
            (tree->fold ? nest_fold : nest_reduce)(tree->op, tree->type, leaves, tree->leaves);
    }
    points->values[node->name] = values;
    return true;
}
