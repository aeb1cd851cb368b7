/* tile.c: strip-mines a loop over elements the way the canonical tree has them: tiles of 1024
 * elements, in a tile eight rows of 128, a row across lanes and vectors.
 *
 * Needs a serial or grid loop of straight code without limits, whose iterations are independent and
 * along which, unless numbers say otherwise, elements lie side by side. Keeps the numbers of
 * leaves, as they move with the index. Changes the loop's bound into a limit of every access and
 * push in it. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { TILE = 1024, ROW = 128, ROWS = 8 };

/* Whether the index goes by 0 or 1 along the loop, and by nothing that is bound in its body. */
static bool is_along(Nest *nest, const NestNode *loop, Index index, int64_t *step) {
    if (!index_is_number(index_coefficient(nest->arena, index, loop->name), step)) return false;
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->name && index_uses(index, node->name)) return false;
    return *step == 0 || *step == 1;
}

/* Why the body cannot be vectors along the loop, or NULL. */
static const char *find_problem(Nest *nest, const NestNode *loop, bool anywhere) {
    for (const NestNode *node = loop->body; node; node = node->next) {
        const bool writes =
            node->kind == NEST_STORE || node->kind == NEST_ADD || node->kind == NEST_PUSH;
        int64_t step = 0;
        if (node->kind == NEST_LET) continue;
        if (!writes && node->kind != NEST_LOAD) return "what is in the loop is not straight code";
        if (node->has_limit) return "what is in the loop has limits already";
        for (size_t i = 0; i < node->at_count && !anywhere; i++)
            if (!is_along(nest, loop, node->at[i], &step) || (step && i + 1 < node->at_count))
                return "elements do not lie side by side along the loop";
        if (writes && step != 1 && !anywhere) return "an iteration writes what another one does";
        if (node->list == loop->name) return "the loop goes over a list";
        for (const NestNode *own = loop->body; own && node->list && !anywhere; own = own->next)
            if (own->name == node->list) return "the loop goes over a list";
    }
    return NULL;
}

static void limit_all(NestNode *body, Index limit) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_LET) continue;
        node->has_limit = true;
        node->limit = limit;
    }
}

typedef struct Loops { /* a tile's */
    SymbolId tile, turn, warp, part, across, row, element;
    Index number;  /* of the tile */
    int64_t width; /* of a vector */
    int64_t parts; /* of the lanes, which have a row of the tile each: a row takes no more lanes */
    int64_t rows;  /* of each part */
} Loops;

static SymbolId loop_symbol(Nest *nest, const char *name) {
    return nest_symbol(nest, name, NAMED_LOOP, TYPE_I64);
}

static Index scaled(Nest *nest, SymbolId symbol, int64_t factor) {
    return index_scale(nest->arena, index_symbol(nest->arena, symbol), factor);
}

static Loops make_loops(Nest *nest, const TileNumbers *numbers, int64_t rows) {
    Arena *arena = nest->arena;
    const bool lanes = nest->lanes > 1 && !numbers->alone;
    Loops l = {.across = loop_symbol(nest, lanes ? "l" : "j"),
               .row = loop_symbol(nest, "r"),
               .element = loop_symbol(nest, "e"),
               .width = numbers->width ? numbers->width : nest->width,
               .parts = 1};
    if (lanes && nest->lanes * l.width > ROW) l.parts = nest->lanes * l.width / ROW;
    if (l.parts > 1) l.part = loop_symbol(nest, "h");
    l.rows = rows > l.parts ? rows / l.parts : 1;
    if (numbers->single || (numbers->once && nest->warps == 1)) return l;
    l.tile = loop_symbol(nest, numbers->kind == LOOP_GRID ? "g" : "t");
    l.number = index_symbol(arena, l.tile);
    if (numbers->kind == LOOP_SERIAL || nest->warps == 1 || numbers->alone) return l;
    l.warp = loop_symbol(nest, "w");
    l.number = index_symbol(arena, l.warp);
    if (numbers->once) return l;
    l.number = index_add(arena, l.number, scaled(nest, l.tile, nest->warps));
    return l;
}

/* A thread goes from lane to lane of the tree. */
static NestNode *lanes_alone(Nest *nest, const Loops *l, NestNode *body) {
    Arena *arena = nest->arena;
    body = nest_around(nest, LOOP_UNROLLED, l->row, index_number(arena, l->rows), body);
    return nest_around(nest, LOOP_SERIAL, l->across, index_number(arena, ROW), body);
}

/* The rows of a tile, and what is across them. Where vectors are so wide that a row takes a part of
 * the lanes, each part has as many rows, which follow each other: the tree then joins the parts. */
static NestNode *tile_body(Nest *nest, const Loops *l, NestNode *body) {
    Arena *arena = nest->arena;
    const int64_t steps = ROW / (nest->lanes * l->width);
    const LoopKind across = nest->lanes > 1         ? LOOP_LANE
                            : steps <= UNROLLED_MAX ? LOOP_UNROLLED
                                                    : LOOP_SERIAL;
    body = nest_around(nest, LOOP_VECTOR, l->element, index_number(arena, l->width), body);
    body = nest_around(nest, LOOP_UNROLLED, l->row, index_number(arena, l->rows), body);
    body = nest_around(nest, across, l->across,
                       index_number(arena, nest->lanes > 1 ? nest->lanes / l->parts : steps), body);
    if (!l->part) return body;
    return nest_around(nest, LOOP_LANE, l->part, index_number(arena, l->parts), body);
}

/* The length from which limits are computed. If the loop's length is a strip's width, bound by
 * nest_strip as min(size, left), this is `left`: within the tile, which is no longer than the
 * strip's size, both tests agree. */
static Index bound_of(const Nest *nest, Index extent, int64_t max) {
    const SymbolId width =
        extent.count == 1 && extent.terms[0].count == 1 && extent.terms[0].factor == 1
            ? extent.terms[0].symbols[0]
            : 0;
    NestNode **place = width ? nest_find((NestNode **)(uintptr_t)&nest->body, width) : NULL;
    const Value *values = nest->values->values;
    const Value *v = place && (*place)->kind == NEST_LET ? &values[(*place)->value] : NULL;
    for (int i = 0; v && v->op == OP_MIN && i < 2; i++) {
        const Value *bound = &values[v->arg[i]], *left = &values[v->arg[1 - i]];
        if (bound->op == OP_CONST && (int64_t)bound->payload >= max && left->op == VALUE_INDEX)
            return *nest_index_of(nest, left);
    }
    return extent;
}

const char *nest_tile(Nest *nest, SymbolId loop, const TileNumbers *numbers) {
    Arena *arena = nest->arena;
    NestNode **place = nest_find(&nest->body, loop), *first = NULL, **end = &first;
    const int64_t rows = numbers->single ? numbers->rows : ROWS;
    if (!place || (*place)->kind != NEST_LOOP) return "there is no such loop";
    NestNode *old = *place;
    if (old->loop != LOOP_SERIAL && old->loop != LOOP_GRID) return "the loop is tiled already";
    const char *problem = find_problem(nest, old, numbers->alone || numbers->scattered);
    if (problem) return problem;
    if (numbers->once && (numbers->kind != LOOP_WARP || numbers->alone))
        return "only warps take a tile each";
    if (!rows || rows > ROWS || (rows & (rows - 1))) return "a tile has 1, 2, 4 or 8 rows";
    const Loops l = make_loops(nest, numbers, rows);
    const int64_t elements = rows > l.parts ? rows * ROW : l.parts * ROW;
    if (!numbers->alone && (nest->lanes % l.parts || ROW * l.parts % (nest->lanes * l.width)))
        return "a row of 128 is not lanes times width";
    if (l.parts > ROWS) return "the lanes take more elements at once than a tile has";
    Index at = scaled(nest, l.row, ROW);
    if (!numbers->alone) at = index_add(arena, at, index_symbol(arena, l.element));
    at = index_add(arena, at, scaled(nest, l.across, numbers->alone ? 1 : l.width));
    if (l.part) at = index_add(arena, at, scaled(nest, l.part, l.rows * ROW));
    at = index_add(arena, at, index_scale(arena, l.number, TILE));
    NestNode *body = nest_copy(arena, old->body);
    nest_replace(nest, body, loop, at);
    const Index bound = numbers->single ? bound_of(nest, old->extent, rows * ROW) : old->extent;
    int64_t known;
    if (!numbers->single || !index_is_number(bound, &known) || known < elements)
        limit_all(body, index_subtract(arena, bound, at));
    body = (numbers->alone ? lanes_alone : tile_body)(nest, &l, body);
    if (!numbers->single) {
        const Index tiles = nest_ceiling(nest, &end, old->extent, TILE, "tiles");
        Index turns = tiles;
        if (l.warp) {
            body = nest_only_where(nest, index_subtract(arena, tiles, l.number), body);
            body = nest_around(nest, LOOP_WARP, l.warp, index_number(arena, nest->warps), body);
            if (!numbers->once) turns = nest_ceiling(nest, &end, tiles, nest->warps, "turns");
        }
        if (!numbers->once)
            body = nest_around(nest, numbers->kind == LOOP_GRID ? LOOP_GRID : LOOP_SERIAL, l.tile,
                               turns, body);
    }
    body->range = old->range;
    body->next = old->next;
    *end = body;
    *place = first;
    return NULL;
}
