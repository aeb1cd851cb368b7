/* row_tiles.c: a thread's range of items, row by row, where vectors say all that is done with an
 * element: of a row several tiles go side by side. Loop distribution of a batch of tiles into what
 * their trees are given, which is one call for all of them, and what becomes of each one's value.
 *
 *   let first_row = first // groups
 *   loop r: serial rows
 *     let row = first_row + r
 *     let begin, end                       the row's tiles that are in the range
 *     if end - begin > 0
 *       loop batch: serial (end - begin + 15) // 16
 *         let tile, tiles
 *         tree t: sum f32 1024 dims 16
 *         loop j: serial tiles
 *           loop v: serial 64              the vectors of tile + j, pushed to t[j, ...]
 *         loop k: serial tiles
 *           combine value = t[k] count ...
 *           store part[...] = value
 *       arrive is_last = arrived[groups*row] of groups by end - begin
 */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, TOGETHER = 16, TREES_MAX = 8 };

typedef struct RowTiles {
    ItemBuilder *b;
    Nest *nest;
    const NestNode *loop; /* over the vectors of a tile */
    SymbolId trees[TREES_MAX];
    size_t tree_count;
    SymbolId width; /* how long a tile is, where that is not the same for all; else 0 */
} RowTiles;

/* ---- what is done for a tile ---- */

static bool is_tree(const RowTiles *r, SymbolId symbol) {
    for (size_t i = 0; i < r->tree_count; i++)
        if (r->trees[i] == symbol) return true;
    return false;
}

static bool take_tree(RowTiles *r, const NestNode *tree) {
    int64_t leaves;
    if (tree->at_count || r->tree_count == TREES_MAX) return false;
    r->trees[r->tree_count++] = tree->name;
    if (index_is_number(tree->extent, &leaves)) return leaves == TILE && !r->width;
    const IndexTerm *term = tree->extent.terms;
    if (tree->extent.count != 1 || term->count != 1 || term->factor != 1) return false;
    if (r->tree_count > 1 && r->width != term->symbols[0]) return false;
    r->width = term->symbols[0];
    return true;
}

/* The LET of a tile's length, as nest_strip makes it. */
static bool is_width(const RowTiles *r, const NestNode *let) {
    const ItemBuilder *b = r->b;
    const Index left =
        make_less(r->nest, b->max, make_scale(r->nest, make_symbol(r->nest, b->along->name), TILE));
    return let->value == make_value(r->nest, OP_MIN, make_number(r->nest, TILE), left);
}

/* Of the names ahead of the loop it uses the tile's length alone, and what is behind it none. */
static bool uses_width_alone(const RowTiles *r) {
    const Nest *nest = r->nest;
    for (const NestNode *let = r->b->along->body; let != r->loop; let = let->next) {
        if (let->kind != NEST_LET) continue;
        if (nest_body_uses(nest, r->loop->next, let->name)) return false;
        if (let->name != r->width && nest_body_uses(nest, r->loop->body, let->name)) return false;
    }
    return true;
}

/* One loop over vectors, whose trees' values go to memory. */
static bool find_parts(RowTiles *r) {
    SymbolId width = 0;
    for (const NestNode *node = r->b->along->body; node; node = node->next) {
        const bool behind = r->loop != NULL;
        if (node->kind == NEST_LET) {
            if (is_width(r, node)) width = node->name;
        } else if (node->kind == NEST_TREE && !behind) {
            if (!take_tree(r, node)) return false;
        } else if (node->kind == NEST_LOOP && !behind && node->loop == LOOP_SERIAL) {
            r->loop = node;
        } else if (node->kind == NEST_COMBINE && behind) {
            if (!is_tree(r, node->array)) return false;
        } else if (node->kind != NEST_STORE || !behind) {
            return false;
        }
    }
    return r->loop && r->tree_count && (!r->width || r->width == width) && uses_width_alone(r);
}

/* Whether every row has elements: short ones are done at once. */
static bool has_elements(const ItemBuilder *b) {
    int64_t length;
    if (index_is_number(b->max, &length)) return length > 0;
    return b->few && b->few_max >= TILE;
}

/* ---- a batch of tiles ---- */

/* What the tile has left of the row, which is its length where that is less than a tile. */
static Index left_of(const RowTiles *r, Index tile) {
    return make_less(r->nest, r->b->max, make_scale(r->nest, tile, TILE));
}

/* The pushes and combines of the trees, which are those of a batch from now on, at `dim`. */
static void retarget(const RowTiles *r, NestNode *body, const SymbolId *to, Index dim) {
    for (NestNode *node = body; node; node = node->next) {
        retarget(r, node->body, to, dim);
        for (size_t i = 0; i < r->tree_count; i++) {
            if (node->array != r->trees[i]) continue;
            Index *at = nest_at(r->nest, node->at_count + 1);
            at[0] = dim;
            for (size_t k = 0; k < node->at_count; k++) at[k + 1] = node->at[k];
            node->array = to[i];
            node->at = at;
            node->at_count++;
            break;
        }
    }
}

/* The loop over vectors, or what stands behind it, of the tile. */
static NestNode *instance(const RowTiles *r, bool behind, const SymbolId *trees, Index dim,
                          Index tile) {
    Nest *nest = r->nest;
    NestNode *body = NULL, **end = &body;
    for (const NestNode *node = behind ? r->loop->next : r->loop; node; node = node->next) {
        NestNode *own = nest_add(nest, &end, *node);
        if (!behind) own->extent = make_number(nest, TILE / nest->width);
        if (node->kind == NEST_COMBINE && r->width) own->extent = left_of(r, tile);
        if (!behind) break;
    }
    *end = NULL;
    body = nest_clone(nest, body);
    retarget(r, body, trees, dim);
    if (r->width) nest_replace(nest, body, r->width, left_of(r, tile));
    return nest_put_index(nest, body, r->b->along->name, tile);
}

static void add_tiles(const RowTiles *r, NestNode ***end, bool behind, const SymbolId *trees,
                      Index first, Index count) {
    Nest *nest = r->nest;
    const SymbolId own = make_loop_name(nest, behind ? "k" : "j");
    const Index dim = make_symbol(nest, own);
    NestNode *body = instance(r, behind, trees, dim, make_add(nest, first, dim));
    make_append(end, nest_around(nest, LOOP_SERIAL, own, count, body));
}

/* The row's tiles from `begin` up to `until`. */
static void add_batches(const RowTiles *r, NestNode ***end, Index begin, Index until) {
    Nest *nest = r->nest;
    const SymbolId batch = make_loop_name(nest, "batch");
    const Index turns = nest_ceiling(nest, end, make_less(nest, until, begin), TOGETHER, "batches");
    NestNode *loop = nest_add(
        nest, end,
        (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = batch, .extent = turns});
    NestNode **inside = &loop->body;
    const Index own = make_add(nest, begin, make_scale(nest, make_symbol(nest, batch), TOGETHER));
    const Index first = make_let_index(nest, &inside, "tile", nest_index_value(nest, own));
    const Index count =
        make_let_min(nest, &inside, "tiles", TOGETHER, make_less(nest, until, first));
    SymbolId trees[TREES_MAX];
    for (size_t i = 0; i < r->tree_count; i++) {
        NestNode tree = **nest_find(&r->b->along->body, r->trees[i]);
        trees[i] = tree.name =
            nest_symbol(nest, nest->symbols[tree.name].name, NAMED_TREE, tree.type);
        tree.extent = make_number(nest, TILE);
        tree.at = make_at(nest, make_number(nest, TOGETHER), NULL);
        tree.at_count = 1;
        nest_add(nest, &inside, tree);
    }
    add_tiles(r, &inside, false, trees, first, count);
    add_tiles(r, &inside, true, trees, first, count);
}

/* ---- a row ---- */

/* Gives the number of the row's first item that is in the range. */
static Index add_row(const RowTiles *r, NestNode ***end, Index row, Index groups) {
    ItemBuilder *b = r->b;
    Nest *nest = r->nest;
    const Index base = make_times(nest, row, groups);
    const Index from = make_less(nest, make_symbol(nest, b->first), base);
    const Index to = make_less(nest, make_symbol(nest, b->stop), base);
    const Index begin = items_bounded(b, end, OP_MAX, from, 0, "begin");
    const Index until = make_let_index(nest, end, "end", make_value(nest, OP_MIN, to, groups));
    const Index own = make_less(nest, until, begin);
    NestNode *body = NULL, **inside = &body, *batches = NULL, **to_batches = &batches;
    items_before(b, nest_put_index(nest, (*b->row)->body, (*b->row)->name, row), &inside, begin);
    NestNode *rest = b->along->next;
    add_batches(r, &to_batches, begin, until);
    if (!has_elements(b)) batches = nest_only_where(nest, b->tiles, batches);
    make_append(&inside, batches);
    if (rest)
        *items_arrive(b, &inside, "arrived", base, groups, nest_index_value(nest, own)) = rest;
    make_append(end, nest_only_where(nest, own, body)); /* a range may be empty */
    return make_add(nest, base, begin);
}

NestNode *items_row_tiles(ItemBuilder *b, Index groups) {
    Nest *nest = b->nest;
    RowTiles own = {.b = b, .nest = nest}, *r = &own;
    const NestNode *row = *b->row;
    int64_t one;
    if (!b->by_vectors || !b->ranged || !items_is_alone(b) || b->chunked || b->varies ||
        !find_parts(r))
        return NULL;
    NestNode *first = NULL, **end = &first, *body = NULL, **inside = &body;
    if (index_is_number(row->extent, &one) && one == 1) {
        const Index slot = add_row(r, &end, make_number(nest, 0), groups);
        nest_replace(nest, first, b->slot, slot);
        return first;
    }
    const Index start = make_symbol(nest, b->first), stop = make_symbol(nest, b->stop);
    const Index first_row =
        make_let_index(nest, &end, "first_row", make_value(nest, OP_FLOORDIV, start, groups));
    const Index up = make_add(nest, stop, make_less(nest, groups, make_number(nest, 1)));
    const Index stop_row =
        make_let_index(nest, &end, "stop_row", make_value(nest, OP_FLOORDIV, up, groups));
    const SymbolId name = make_loop_name(nest, "r");
    const Index at = make_add(nest, first_row, make_symbol(nest, name));
    const Index own_row =
        make_let_index(nest, &inside, nest->symbols[row->name].name, nest_index_value(nest, at));
    const Index slot = add_row(r, &inside, own_row, groups);
    nest_replace(nest, body, b->slot, slot);
    const Index rows = make_less(nest, stop_row, first_row);
    make_append(&end, nest_around(nest, LOOP_SERIAL, name, rows, body));
    return first;
}
