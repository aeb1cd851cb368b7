/* trees.c: the trees of a row, or of a column, as folds along its tiles: the loop over its elements
 * is stripped to tiles, trees whose values are not made of pairs become two that are, each loop
 * over a tile's elements goes to rows and lanes, and every tree is placed along these. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024 };

bool schedule_is_halved(const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->kind == NEST_TREE && nest_is_two_trees(node->op)) return true;
    return false;
}

/* The trees of the body, first each as one of a tile. */
static const char *place_trees(Nest *nest, NestNode **body, bool single, bool halve) {
    const SymbolId count = (SymbolId)nest->symbol_count;
    const char *problem = NULL;
    for (SymbolId s = 1; s < count && !problem; s++) {
        NestNode **place = nest_find(body, s);
        if (!place || (*place)->kind != NEST_TREE || nest_is_two_trees((*place)->op) != halve)
            continue;
        problem = (halve ? nest_two_trees : nest_place_tree)(nest, s, SCOPE_REGISTER);
        if (problem && !single)
            problem = (halve ? nest_two_trees : nest_place_tree)(nest, s, SCOPE_WORKER);
    }
    return problem;
}

/* The innermost loops of the body. */
static const char *tile_loops(Nest *nest, NestNode **body, const TileNumbers *numbers) {
    const SymbolId count = (SymbolId)nest->symbol_count;
    const char *problem = NULL;
    TileNumbers own = *numbers;
    own.single = true;
    for (SymbolId s = 1; s < count && !problem; s++) {
        NestNode **place = nest_find(body, s);
        if (!place || (*place)->kind != NEST_LOOP || nest_has((*place)->body, NEST_LOOP)) continue;
        problem = nest_tile(nest, s, &own);
    }
    return problem;
}

static NestNode **find_loop(NestNode **body) {
    while (*body && (*body)->kind != NEST_LOOP) body = &(*body)->next;
    return body;
}

const char *schedule_trees(Nest *nest, NestNode **body, const TileNumbers *numbers) {
    NestNode **loop = find_loop(body);
    if (!*loop) return "there is no inner loop";
    const char *problem = numbers->single ? NULL : nest_strip(nest, (*loop)->name, TILE, NULL);
    if (!problem) problem = place_trees(nest, body, numbers->single, true);
    NestNode **tile = numbers->single ? body : &(*find_loop(body))->body;
    if (!problem) problem = tile_loops(nest, tile, numbers);
    return problem ? problem : place_trees(nest, body, numbers->single, false);
}
