/* thread_rows.c: what one thread does with the tiles of a row.
 *
 * Nothing is reduced: element by element. Else a tile that is whole goes by lanes of the tree, each
 * of eight elements in registers, so that compilers make vectors of lanes; any other one pushes one
 * element after the other to a tree in memory. Trees whose values are not made of pairs become two
 * that are. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, ROWS = 8, PART = 256, WIDTH = 16 };

/* ---- prefetches ---- */

bool items_prefetch(ItemBuilder *b, RowPrefetch *ahead) {
    Nest *nest = b->nest;
    NestNode *derived = NULL, **end = &derived;
    if (!b->numbers->row_fusion || b->tensors || b->numbers->layout == LS_LAYOUT_STRIDED ||
        b->length > 1)
        return false;
    const Index tiles = nest_ceiling(nest, &end, b->max, TILE, "strips");
    *ahead = (RowPrefetch){.plan = b->plan,
                           .phase = (uint32_t)(b->phase - b->plan->phases),
                           .plain = b->plain,
                           .row_fusion = b->numbers->row_fusion,
                           .scratch_row = b->numbers->scratch_row,
                           .rows = (*b->row)->extent,
                           .max = b->max,
                           .groups = items_bounded(b, &end, OP_MAX, tiles, 1, "groups")};
    return true;
}

/* The loop, which goes over elements of a row from `begin` on, by parts of so many iterations, each
 * of 256 elements behind prefetches of as many. */
static const char *ask_ahead(ItemBuilder *b, SymbolId *loop, Index begin, int64_t size, bool next) {
    RowPrefetch ahead;
    if (!items_prefetch(b, &ahead)) return NULL;
    next &= schedule_has_prefetch(&ahead, false);
    if (!next && !schedule_has_prefetch(&ahead, true)) return NULL;
    const char *problem = nest_strip(b->nest, *loop, size, loop);
    if (problem) return problem;
    NestNode **place = items_find_around(&(*b->row)->body, *loop);
    const Index row = index_symbol(b->arena, (*b->row)->name);
    const Index part = index_symbol(b->arena, (*place)->name);
    begin = index_add(b->arena, begin, index_scale(b->arena, part, PART));
    NestNode *old = (*place)->body, **end = &(*place)->body;
    Index count = index_number(b->arena, PART);
    if (old->kind == NEST_LET) { /* how long the last part is */
        count = index_symbol(b->arena, old->name);
        end = &old->next;
        old = old->next;
    }
    *end = next ? schedule_prefetch(&ahead, false, row, begin, count) : NULL;
    while (*end) end = &(*end)->next;
    *end = schedule_prefetch(&ahead, true, row, begin, count);
    while (*end) end = &(*end)->next;
    *end = old;
    return NULL;
}

/* ---- nothing is reduced ---- */

/* What is done with each element is little, so that the thread waits for memory. */
static bool is_light(const Nest *nest, const NestNode *loop) {
    enum { WORK_MAX = 12 };
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->kind == NEST_LOOP || node->kind == NEST_WHEN) return false;
    return items_work(nest, loop->body) <= WORK_MAX;
}

void items_elements(ItemBuilder *b, NestNode **body, SymbolId loop) {
    Nest *nest = b->nest;
    NestNode *all = nest->body;
    nest->body = *body;
    const NestNode *along = *nest_find(&nest->body, loop);
    nest_peel(nest, loop);
    *body = nest->body;
    nest->body = all;
    if (!b->tensors && b->numbers->layout != LS_LAYOUT_STRIDED && is_light(nest, along))
        schedule_non_temporal(b->plan, b->plain, along->body);
}

static const char *traversal(ItemBuilder *b, SymbolId own, Index begin) {
    const char *problem = NULL;
    b->divided = !nest_quotients(b->nest, own, &own);
    if (!b->divided) problem = ask_ahead(b, &own, begin, PART, false);
    if (problem) return problem;
    items_elements(b, &b->nest->body, own);
    b->plain->elements = index_multiply(b->arena, (*b->row)->extent, b->max);
    return NULL;
}

/* ---- trees ---- */

/* The names of the body's nodes of a kind; gives how many there are. */
static size_t find_names(const NestNode *body, NestKind kind, SymbolId *names, size_t count) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == kind) names[count++] = node->name;
        count = find_names(node->body, kind, names, count);
        count = find_names(node->other, kind, names, count);
    }
    return count;
}

static SymbolId *room_for_names(ItemBuilder *b) {
    return arena_alloc(b->arena, b->nest->symbol_count * sizeof(SymbolId));
}

/* Each tree as one of a tile, and in memory what tiles come to. */
static const char *tile_trees(ItemBuilder *b) {
    Nest *nest = b->nest;
    NestNode **body = &(*b->row)->body;
    SymbolId *trees = room_for_names(b);
    const size_t count = find_names(*body, NEST_TREE, trees, 0);
    const NestScope scope = b->single ? SCOPE_REGISTER : SCOPE_WORKER;
    const char *problem = NULL;
    for (size_t i = 0; i < count && !problem; i++) {
        NestNode **tree = nest_find(body, trees[i]);
        if (!tree) continue; /* another one's first tree has its value */
        if (nest_is_two_trees((*tree)->op))
            problem = nest_two_trees(nest, trees[i], scope);
        else if (!b->single)
            problem = nest_tile_tree(nest, trees[i], scope);
    }
    return problem;
}

/* The loops over all elements of a whole tile by lanes. */
static const char *place_whole(ItemBuilder *b, NestNode **body, Index begin) {
    Nest *nest = b->nest;
    const TileNumbers numbers = {.single = true, .rows = ROWS, .alone = true};
    SymbolId *trees = room_for_names(b), *loops = room_for_names(b), lanes = 0;
    const size_t tree_count = find_names(*body, NEST_TREE, trees, 0);
    const size_t loop_count = find_names(*body, NEST_LOOP, loops, 0);
    for (size_t i = 0; i < loop_count; i++) {
        NestNode **place = nest_find(body, loops[i]);
        int64_t length;
        if (!index_is_number((*place)->extent, &length) || length != TILE) continue;
        if (nest_has((*place)->body, NEST_LOOP) || nest_tile(nest, loops[i], &numbers)) continue;
        if (!lanes) lanes = (*place)->name;
    }
    for (size_t i = 0; i < tree_count; i++) nest_place_tree(nest, trees[i], SCOPE_REGISTER);
    return lanes ? ask_ahead(b, &lanes, begin, PART / ROWS, true) : NULL;
}

/* A tile of which some elements may not be there. */
static const char *place_rest(ItemBuilder *b, NestNode *body, Index begin) {
    SymbolId *loops = room_for_names(b);
    return find_names(body, NEST_LOOP, loops, 0) ? ask_ahead(b, &loops[0], begin, PART, false)
                                                 : NULL;
}

/* Where coordinates are divided out of an index, a tile goes by the rows of its elements. */
static bool divide_loops(ItemBuilder *b) {
    NestNode **body = &(*b->row)->body;
    SymbolId *loops = room_for_names(b);
    const size_t count = find_names(*body, NEST_LOOP, loops, 0);
    for (size_t i = 0; i < count; i++) b->divided |= !nest_quotients(b->nest, loops[i], NULL);
    return b->divided;
}

void items_vectorize(ItemBuilder *b, NestNode **body, SymbolId loop, Index row, Index begin,
                     bool prefetch) {
    Nest *nest = b->nest;
    nest->width = WIDTH;
    const char *problem = nest_vectorize(nest, body, loop, &loop);
    RowPrefetch ahead;
    if (problem) items_refuse(b, problem);
    if (problem || !prefetch || !items_prefetch(b, &ahead)) return;
    NestNode **place = nest_find(body, loop);
    const Index count = make_number(nest, WIDTH);
    begin = make_add(nest, begin, make_scale(nest, make_symbol(nest, loop), WIDTH));
    NestNode *first = NULL, **end = &first;
    make_append(&end, schedule_prefetch(&ahead, false, row, begin, count));
    make_append(&end, schedule_prefetch(&ahead, true, row, begin, count));
    *end = (*place)->body;
    (*place)->body = first;
}

/* Whether vectors can say all that the loop does, and push to its trees. */
static bool is_vectorizable(ItemBuilder *b, SymbolId own) {
    Nest *nest = b->nest;
    NestNode **place = nest_find(&(*b->row)->body, own);
    if (!place || b->numbers->layout == LS_LAYOUT_STRIDED || b->tensors) return false;
    if (!schedule_is_vectorizable(nest, *place, false)) return false;
    Op op = OP_NONE;
    for (const NestNode *node = (*place)->body; node; node = node->next) {
        if (node->kind != NEST_PUSH) continue;
        const NestNode *tree = *nest_find(&nest->body, node->array);
        if (!schedule_is_vector_tree(tree, false) || (op != OP_NONE && op != tree->op))
            return false;
        op = tree->op;
    }
    return true;
}

static const char *reduce(ItemBuilder *b, SymbolId own, SymbolId tile, Index begin) {
    const char *problem = tile_trees(b);
    int64_t length;
    if (problem || divide_loops(b)) return problem;
    b->by_vectors = is_vectorizable(b, own);
    if (b->by_vectors) {
        items_vectorize(b, &(*b->row)->body, own, make_symbol(b->nest, (*b->row)->name), begin,
                        true);
        return NULL;
    }
    if (!tile)
        return index_is_number(b->max, &length) && length == TILE && !b->varies
                   ? place_whole(b, &(*b->row)->body, begin)
                   : place_rest(b, (*b->row)->body, begin);
    NestNode *test = NULL;
    if (nest_version(b->nest, tile, &test))
        return place_whole(b, &(*nest_find(&(*b->row)->body, tile))->body, begin);
    NestNode **place = &(*nest_find(&(*b->row)->body, tile))->body;
    nest_split_version(b->nest, place);
    problem = place_whole(b, &test->body, begin);
    return problem ? problem : place_rest(b, test->other, begin);
}

bool items_alone(ItemBuilder *b, NestNode *loop) {
    SymbolId own = loop->name, tile = 0;
    Index begin = index_number(b->arena, 0);
    const char *problem = NULL;
    if (!b->single) {
        problem = nest_strip(b->nest, own, TILE, &own);
        if (problem) return items_refuse(b, problem);
        tile = (*items_find_around(&(*b->row)->body, own))->name;
        begin = index_scale(b->arena, index_symbol(b->arena, tile), TILE);
    }
    if (nest_has((*b->row)->body, NEST_TREE))
        problem = reduce(b, own, tile, begin);
    else
        problem = traversal(b, own, begin);
    return !problem || items_refuse(b, problem);
}
