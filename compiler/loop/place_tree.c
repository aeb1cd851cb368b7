/* place_tree.c: turns a canonical tree into balanced folds along its loops.
 *
 * Needs the leaf of its one push to be 1024 tile + 128 row + vector lane + element, or without
 * vectors 1024 tile + 128 row + lane, each from a loop of its own, as nest_tile leaves it; the
 * first rows may be one part of the lanes', the others another's. Keeps every bit: the tree's order
 * is the bits of the row, the part's last, then those of the lane, then those of the tile. Changes
 * the push to a fold of rows, one for each element of a vector; behind the rows their values go to
 * a fold of 128, with parts as its lowest bits; and where there may be several tiles, the values of
 * these to memory, of which the canonical tree is made. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { TILE = 1024, ROW = 128 };

typedef struct Placing {
    Nest *nest;
    SymbolId tree;
    const NestNode *declaration;
    NestNode *push, *combine;
    NestNode *loops[8]; /* around the push, the outermost first */
    size_t loop_count;
    NestNode *across, *row, *element; /* no element: there are no vectors */
    NestNode *part;                   /* the loop over parts of the lanes; NULL: there is one */
    int64_t part_count, width;        /* of such parts; of the elements of a vector */
    Index tile;                       /* its number */
    Index tiles;                      /* how many there are */
    SymbolId rows, lanes, parts;
} Placing;

/* The push to the tree, with the loops around it; gives how many there are. */
static size_t find_push(Placing *p, NestNode *body, size_t depth) {
    size_t count = 0;
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_PUSH && node->array == p->tree) {
            p->push = node;
            p->loop_count = depth;
            count++;
        }
        const bool loop = node->kind == NEST_LOOP && depth < COUNT(p->loops);
        if (loop && !p->push) p->loops[depth] = node;
        count += find_push(p, node->body, depth + loop) + find_push(p, node->other, depth);
    }
    return count;
}

static void find_combine(Placing *p, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_COMBINE && node->array == p->tree) p->combine = node;
        find_combine(p, node->body);
        find_combine(p, node->other);
    }
}

/* The loop along which the leaf has this coefficient. */
static NestNode *loop_of(const Placing *p, int64_t coefficient, bool vector) {
    const Index leaf = p->push->at[p->push->at_count - 1];
    for (size_t i = p->loop_count; i-- > 0;) {
        int64_t own;
        NestNode *loop = p->loops[i];
        const Index step = index_coefficient(p->nest->arena, leaf, loop->name);
        if ((loop->loop == LOOP_VECTOR) == vector && index_is_number(step, &own) &&
            own == coefficient)
            return loop;
    }
    return NULL;
}

/* The lane of the tree at which the loop across a row is, or its vector begins. */
static Index across_index(const Placing *p) {
    return index_scale(p->nest->arena, index_symbol(p->nest->arena, p->across->name), p->width);
}

static bool stands_in(const NestNode *loop, const NestNode *inner) {
    const NestNode *node = loop->body;
    while (node && node != inner) node = node->next;
    return node;
}

static int64_t rows_of(const Placing *p) {
    int64_t rows = 0;
    index_is_number(p->row->extent, &rows);
    return rows;
}

/* The loop over parts of the lanes, if there is one: nothing else is in it but the one across a
 * row, and each part's rows follow those of the one before. */
static bool find_part(Placing *p) {
    const Index leaf = p->push->at[p->push->at_count - 1];
    NestNode *part = NULL;
    int64_t step, count;
    for (size_t i = 0; i < p->loop_count; i++)
        if (p->loops[i]->loop == LOOP_LANE && p->loops[i] != p->across) part = p->loops[i];
    if (!part || part->body != p->across || p->across->next) return false;
    if (!index_is_number(part->extent, &count) ||
        !index_is_number(index_coefficient(p->nest->arena, leaf, part->name), &step) ||
        step != rows_of(p) * ROW)
        return false;
    p->part = part;
    p->part_count = count;
    return true;
}

static const char *find_form(Placing *p) {
    Arena *arena = p->nest->arena;
    const Index leaf = p->push->at[p->push->at_count - 1];
    p->element = loop_of(p, 1, true);
    p->row = loop_of(p, ROW, false);
    if (p->element) index_is_number(p->element->extent, &p->width);
    p->across = loop_of(p, p->width, false);
    if (!p->row || !p->across || !stands_in(p->across, p->row) ||
        (p->element && (p->row->body != p->element || p->element->next)))
        return "its leaves are not tiles of rows of lanes";
    Index rest =
        index_subtract(arena, leaf, index_scale(arena, index_symbol(arena, p->row->name), ROW));
    if (find_part(p))
        rest = index_subtract(
            arena, rest, index_scale(arena, index_symbol(arena, p->part->name), rows_of(p) * ROW));
    if (p->element) rest = index_subtract(arena, rest, index_symbol(arena, p->element->name));
    rest = index_subtract(arena, rest, across_index(p));
    IndexTerm *terms = arena_alloc(arena, (rest.count + 1) * sizeof *terms);
    for (size_t i = 0; i < rest.count; i++) {
        terms[i] = rest.terms[i];
        if (terms[i].factor % TILE) return "its leaves are not tiles of rows of lanes";
        terms[i].factor /= TILE;
    }
    p->tile = (Index){terms, rest.count};
    return NULL;
}

static SymbolId named(Placing *p, const char *suffix, NamedKind kind, Type type) {
    const char *name = p->nest->symbols[p->tree].name;
    return nest_symbol(p->nest, arena_printf(p->nest->arena, "%s_%s", name, suffix), kind, type);
}

static NestNode fold(const Placing *p, SymbolId name, int64_t leaves, Index *dims, size_t count) {
    return (NestNode){.kind = NEST_FOLD,
                      .name = name,
                      .op = p->declaration->op,
                      .type = p->declaration->type,
                      .extent = index_number(p->nest->arena, leaves),
                      .at = dims,
                      .at_count = count};
}

/* In the loop across a row: a fold of rows ahead of them, and behind them a vector of its values
 * for the fold of lanes. */
static void place_rows(Placing *p) {
    Nest *nest = p->nest;
    Arena *arena = nest->arena;
    p->rows = named(p, "row", NAMED_TREE, p->declaration->type);
    NestNode *begin = arena_alloc(arena, sizeof *begin), **end = &p->row->next, *after = *end;
    const size_t dims = p->element ? 1 : 0;
    *begin =
        fold(p, p->rows, rows_of(p), nest_subscript(p->nest, index_number(arena, p->width)), dims);
    begin->next = p->across->body;
    p->across->body = begin;
    const SymbolId value = named(p, "value", NAMED_VALUE, p->declaration->type);
    Index lane = across_index(p), e = {NULL, 0};
    if (p->element) {
        const SymbolId name = named(p, "e", NAMED_LOOP, TYPE_I64);
        e = index_symbol(arena, name);
        lane = index_add(arena, lane, e);
        NestNode *loop = nest_add(nest, &end,
                                  (NestNode){.kind = NEST_LOOP,
                                             .loop = LOOP_VECTOR,
                                             .name = name,
                                             .extent = index_number(arena, p->width)});
        loop->next = after;
        after = NULL;
        end = &loop->body;
    }
    lane = index_scale(arena, lane, p->part_count); /* the parts of a tree's lane are neighbours */
    if (p->part) lane = index_add(arena, lane, index_symbol(arena, p->part->name));
    nest_add(nest, &end,
             (NestNode){.kind = NEST_COMBINE,
                        .name = value,
                        .array = p->rows,
                        .at = nest_subscript(p->nest, e),
                        .at_count = dims});
    nest_add(nest, &end,
             (NestNode){.kind = NEST_PUSH,
                        .array = p->lanes,
                        .at = nest_subscript(p->nest, lane),
                        .at_count = 1,
                        .value = nest_name(nest, value)});
    *end = after;
    p->push->array = p->rows;
    Index *at = nest_at(nest, 2);
    if (p->element) at[0] = index_symbol(arena, p->element->name);
    at[dims] = index_symbol(arena, p->row->name);
    p->push->at = at;
    p->push->at_count = dims + 1;
}

/* Around the loops over lanes: the fold of lanes, and what becomes of it. */
static void place_lanes(Placing *p, NestScope scope) {
    Nest *nest = p->nest;
    NestNode *loop = arena_alloc(nest->arena, sizeof *loop), **end = &loop->next;
    NestNode *lanes = p->part ? p->part : p->across, *after = lanes->next;
    *loop = *lanes;
    *lanes = fold(p, p->lanes, ROW * p->part_count, nest_at(nest, 0), 0); /* ahead of the loop */
    lanes->next = loop;
    loop->next = NULL;
    if (scope != SCOPE_REGISTER) {
        const SymbolId value = named(p, "tile", NAMED_VALUE, p->declaration->type);
        nest_add(
            nest, &end,
            (NestNode){
                .kind = NEST_COMBINE, .name = value, .array = p->lanes, .at = nest_at(nest, 0)});
        nest_add(nest, &end,
                 (NestNode){.kind = NEST_STORE,
                            .array = p->parts,
                            .at = nest_subscript(p->nest, p->tile),
                            .at_count = 1,
                            .value = nest_name(nest, value)});
    }
    *end = after;
}

/* What the tree was before: of no leaves a sum is +0, which -0, the identity, is not. */
static void place_result(Placing *p, NestScope scope) {
    Nest *nest = p->nest;
    NestNode *combine = p->combine, *after = combine->next, **end = &combine->next;
    const Type type = p->declaration->type;
    if (scope != SCOPE_REGISTER) {
        bool grid = false, warp = false;
        for (size_t i = 0; i < p->loop_count; i++) {
            grid |= p->loops[i]->kind == NEST_LOOP && p->loops[i]->loop == LOOP_GRID &&
                    !nest_find(&p->loops[i]->body, combine->name);
            warp |= p->loops[i]->loop == LOOP_WARP;
        }
        if (grid || warp) { /* others have written the values of their tiles */
            NestNode *own = arena_alloc(nest->arena, sizeof *own);
            *own = *combine;
            *combine = grid ? (NestNode){.kind = NEST_ARRIVE, .next = own}
                            : (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK, .next = own};
            combine = own;
        }
        combine->array = p->parts;
        combine->op = p->declaration->op;
        combine->at = nest_subscript(p->nest, (Index){NULL, 0});
        combine->at_count = 1;
        combine->extent = p->tiles;
        return;
    }
    const SymbolId result = combine->name, folded = named(p, "folded", NAMED_VALUE, type);
    Function *f = nest->values;
    int64_t leaves;
    combine->array = p->lanes;
    if (index_is_number(p->declaration->extent, &leaves) && leaves > 0) return;
    combine->name = folded;
    combine->next = NULL;
    const ValueId any = ir_op(f, OP_GT, nest_index_value(nest, p->declaration->extent),
                              ir_constant(f, TYPE_I64, 0), 0);
    uint64_t none[1] = {0};
    const ValueId empty = ir_constant(f, type, nest_reduce(p->declaration->op, type, none, 0));
    nest_add(nest, &end,
             (NestNode){.kind = NEST_LET,
                        .name = result,
                        .value = ir_op(f, OP_SELECT, any, nest_name(nest, folded), empty)});
    *end = after;
}

/* Whether the number of a tile is a warp's. */
static bool is_warp(const Placing *p) {
    for (size_t i = 0; i < p->loop_count; i++)
        if (p->loops[i]->loop == LOOP_WARP &&
            index_equal(p->tile, index_symbol(p->nest->arena, p->loops[i]->name)))
            return true;
    return false;
}

const char *nest_place_tree(Nest *nest, SymbolId tree, NestScope scope) {
    Placing p = {.nest = nest, .tree = tree, .part_count = 1, .width = 1};
    NestNode **place = nest_find(&nest->body, tree);
    int64_t number;
    if (!place || (*place)->kind != NEST_TREE) return "there is no such tree";
    p.declaration = arena_alloc(nest->arena, sizeof *p.declaration);
    *(NestNode *)(uintptr_t)p.declaration = **place;
    const Op op = (*place)->op;
    if (nest_is_two_trees(op)) return "its value is not made of pairs of its leaves";
    if ((*place)->at_count) return "it is several trees";
    if (find_push(&p, nest->body, 0) != 1) return "it is not pushed to in one place";
    find_combine(&p, nest->body);
    if (!p.combine) return "nothing is made of it";
    const char *problem = find_form(&p);
    if (problem) return problem;
    p.lanes = named(&p, "lane", NAMED_TREE, (*place)->type);
    NestNode *declared = *place, **end = place;
    if (scope == SCOPE_REGISTER) {
        if (p.tile.count) return "it may have several tiles";
        *place = declared->next;
    } else {
        p.tiles = nest_ceiling(nest, &end, declared->extent, TILE, "tiles");
        Index room = p.tiles;
        if (scope == SCOPE_SHARED && is_warp(&p)) room = index_number(nest->arena, nest->warps);
        if (scope == SCOPE_SHARED && nest->max_tiles)
            room = index_number(nest->arena, nest->max_tiles);
        if (scope == SCOPE_SHARED && !index_is_number(room, &number))
            return "shared memory for its tiles is not a constant";
        p.parts = named(&p, "part", NAMED_ALLOC, declared->type);
        nest_add(nest, &end,
                 (NestNode){.kind = NEST_ALLOC,
                            .scope = scope,
                            .name = p.parts,
                            .at = nest_subscript(p.nest, room),
                            .at_count = 1});
        *end = declared->next;
    }
    place_rows(&p);
    place_lanes(&p, scope);
    place_result(&p, scope);
    return NULL;
}
