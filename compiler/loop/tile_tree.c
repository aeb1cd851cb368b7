/* tile_tree.c: a tree of a row as trees of its tiles, and one of what these come to.
 *
 * Needs the one push to the tree in a serial loop over a tile's elements, whose leaf is the tile's
 * number times 1024 and the loop's index, as nest_strip leaves them. Keeps every bit: the tree over
 * tiles is above those of 1024 leaves. Changes the tree into memory, to which a tree of each tile
 * is stored, and of which the value is made. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { TILE = 1024 };

typedef struct Tiling {
    Nest *nest;
    SymbolId tree;
    NestNode *push, *combine, **loop;
    Index tile; /* its number */
    size_t pushes;
} Tiling;

static void find_uses(Tiling *t, NestNode **body) {
    for (NestNode **at = body; *at; at = &(*at)->next) {
        for (NestNode *node = (*at)->body; node && (*at)->kind == NEST_LOOP; node = node->next)
            if (node->kind == NEST_PUSH && node->array == t->tree) {
                t->loop = at;
                t->push = node;
            }
        t->pushes += (*at)->kind == NEST_PUSH && (*at)->array == t->tree;
        if ((*at)->kind == NEST_COMBINE && (*at)->array == t->tree) t->combine = *at;
        find_uses(t, &(*at)->body);
        find_uses(t, &(*at)->other);
    }
}

/* Why the leaves are not those of tiles, or NULL; finds the tile's number. */
static const char *find_tile(Tiling *t) {
    Arena *arena = t->nest->arena;
    const Index leaf = t->push->at[0], own = index_symbol(arena, (*t->loop)->name);
    const Index rest = index_subtract(arena, leaf, own);
    if (!nest_is_tile_long(t->nest, *t->loop)) return "the loop is longer than a tile";
    if (index_uses(rest, (*t->loop)->name)) return "its leaves are not those of a tile";
    IndexTerm *terms = arena_alloc(arena, (rest.count + 1) * sizeof *terms);
    for (size_t i = 0; i < rest.count; i++) {
        terms[i] = rest.terms[i];
        if (terms[i].factor % TILE) return "its leaves are not those of a tile";
        terms[i].factor /= TILE;
    }
    t->tile = (Index){terms, rest.count};
    return NULL;
}

static SymbolId named(const Tiling *t, const char *suffix, NamedKind kind, Type type) {
    const char *name = t->nest->symbols[t->tree].name;
    return nest_symbol(t->nest, arena_printf(t->nest->arena, "%s_%s", name, suffix), kind, type);
}

/* Around the loop over a tile's elements: its tree, and what that comes to. */
static void place_tile(Tiling *t, Op op, Type type, SymbolId parts) {
    Nest *nest = t->nest;
    NestNode *loop = *t->loop, *after = loop->next, **end = t->loop;
    const SymbolId tree = named(t, "tree", NAMED_TREE, type);
    const SymbolId value = named(t, "tile", NAMED_VALUE, nest->symbols[t->combine->name].type);
    t->push->array = tree;
    t->push->at = nest_subscript(t->nest, index_symbol(nest->arena, loop->name));
    *end = NULL;
    nest_add(nest, &end,
             (NestNode){
                 .kind = NEST_TREE, .name = tree, .op = op, .type = type, .extent = loop->extent});
    *end = loop;
    end = &loop->next;
    *end = NULL;
    nest_add(
        nest, &end,
        (NestNode){.kind = NEST_COMBINE, .name = value, .array = tree, .at = nest_at(nest, 0)});
    nest_add(nest, &end,
             (NestNode){.kind = NEST_STORE,
                        .array = parts,
                        .at = nest_subscript(t->nest, t->tile),
                        .at_count = 1,
                        .value = nest_name(nest, value)});
    *end = after;
}

const char *nest_tile_tree(Nest *nest, SymbolId tree, NestScope scope) {
    Tiling t = {.nest = nest, .tree = tree};
    NestNode **place = nest_find(&nest->body, tree), **end = place;
    if (!place || (*place)->kind != NEST_TREE) return "there is no such tree";
    const NestNode declared = **place;
    if (nest_is_two_trees(declared.op)) return "its value is not made of pairs of its leaves";
    if (declared.at_count) return "it is several trees";
    find_uses(&t, &nest->body);
    if (t.pushes != 1 || !t.loop) return "it is not pushed to in one loop";
    if (!t.combine) return "nothing is made of it";
    if ((*t.loop)->loop != LOOP_SERIAL) return "the loop over its leaves is not serial";
    const char *problem = find_tile(&t);
    if (problem) return problem;
    const SymbolId parts = named(&t, "part", NAMED_ALLOC, declared.type);
    place_tile(&t, declared.op, declared.type, parts);
    place = end = nest_find(&nest->body, tree);
    *end = NULL;
    const Index tiles = nest_ceiling(nest, &end, declared.extent, TILE, "tiles");
    nest_add(nest, &end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = scope,
                        .name = parts,
                        .at = nest_subscript(t.nest, tiles),
                        .at_count = 1});
    *end = declared.next;
    t.combine->array = parts;
    t.combine->op = declared.op;
    t.combine->at = nest_subscript(t.nest, (Index){NULL, 0});
    t.combine->at_count = 1;
    t.combine->extent = tiles;
    return NULL;
}
