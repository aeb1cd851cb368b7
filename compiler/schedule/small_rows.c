/* small_rows.c: rows of up to 1024 elements that are reduced, for one thread, several side by side.
 * Reductions that do not combine pairwise (argmin, argmax, logsumexp) become two that do, in two
 * passes over the row. Fission: each loop along a row gets a loop over rows of its own, which
 * pushes to a tree for each row, and so does what follows. Where the body can be written with C
 * vector types, up to 64 rows form a batch, each vectorized; else as many as fill a tile of memory,
 * of up to 512 elements, or where some of the loops are vectorized (the maximum before a sum of
 * exponentials) of up to 1024. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, SMALL = 512, PART = 256, TREES = 16, LOOPS = 8, ROWS = 64, FEW_ROWS = 16 };
enum { GATHERS = 4 }; /* at most, of a loop, are kept on the stack */

typedef struct SmallRows {
    ItemBuilder *items;
    Nest *nest;
    Arena *arena;
    NestNode *row, *loops[LOOPS]; /* over rows and along them */
    size_t loop_count;
    Index length;           /* of a row */
    bool vectorized;        /* all elements go by vectors */
    bool by_vectors[LOOPS]; /* else: those of a loop do */
    NestNode *trees[TREES]; /* as declared */
    size_t tree_count;
} SmallRows;

/* ---- what a row has ---- */

static size_t count_pushes(const NestNode *body, SymbolId tree) {
    size_t count = 0;
    for (const NestNode *node = body; node; node = node->next)
        count += (node->kind == NEST_PUSH && node->array == tree) + count_pushes(node->body, tree) +
                 count_pushes(node->other, tree);
    return count;
}

/* A loop of straight code, whose pushes are each at its index. */
static bool take_loop(SmallRows *s, NestNode *loop) {
    int64_t known;
    if (s->loop_count == LOOPS || (s->loop_count && !index_equal(loop->extent, s->length)))
        return false;
    if (!nest_is_of_sizes(s->nest, loop->extent)) return false;
    if (index_is_number(loop->extent, &known) && known > TILE) return false;
    for (const NestNode *node = loop->body; node; node = node->next) {
        if (node->kind == NEST_PUSH) {
            if (!index_equal(node->at[0], make_symbol(s->nest, loop->name))) return false;
        } else if (node->kind == NEST_LET &&
                   s->nest->values->values[node->value].op == OP_FLOORDIV) {
            return false;
        } else if (node->kind != NEST_LET && node->kind != NEST_LOAD && node->kind != NEST_STORE) {
            return false;
        }
    }
    s->length = loop->extent;
    s->loops[s->loop_count++] = loop;
    return true;
}

static bool take_tree(SmallRows *s, NestNode *tree) {
    if (tree->at_count || s->tree_count == TREES) return false;
    if (count_pushes(s->row->body, tree->name) != 1) return false;
    s->trees[s->tree_count++] = tree;
    return true;
}

/* Rows of one length, each by straight code, with trees. */
static bool find_row(SmallRows *s) {
    int64_t known;
    if (!nest_is_of_sizes(s->nest, s->row->extent)) return false;
    if (index_is_number(s->row->extent, &known) && known == 1) return false;
    for (NestNode *node = s->row->body; node; node = node->next) {
        if (node->kind == NEST_LOOP && !take_loop(s, node)) return false;
        if (node->kind == NEST_TREE && !take_tree(s, node)) return false;
        const bool value =
            node->kind == NEST_LET || node->kind == NEST_LOAD || node->kind == NEST_COMBINE;
        if (!value && node->kind != NEST_LOOP && node->kind != NEST_TREE && !s->loop_count)
            return false;
    }
    return s->loop_count && s->tree_count;
}

/* A copy of the row, each tree of it one that is made of pairs. */
static bool copy_row(SmallRows *s, const NestNode *row) {
    Nest *nest = s->nest;
    NestNode *old = nest->body, alone = *row;
    const char *problem = NULL;
    alone.next = NULL;
    nest->body = nest_clone(nest, &alone);
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (NestNode *node = nest->body->body, *after; node && !problem; node = after) {
        after = node->next;
        if (node->kind != NEST_TREE || node->name >= count) continue;
        if (nest_is_two_trees(node->op)) problem = nest_two_trees(nest, node->name, SCOPE_REGISTER);
    }
    s->row = nest->body;
    nest->body = old;
    return !problem;
}

/* ---- copies of a row's parts ---- */

static NestNode *elements(SmallRows *s, const NestNode *loop, Index row);

/* What stands before that loop along the row and the loop, without the other loops and trees, with
 * names of its own; of the last one, all that is no loop. */
static NestNode *instance(SmallRows *s, Index row, size_t which) {
    Nest *nest = s->nest;
    NestNode *body = NULL, **end = &body;
    const NestNode *last = which < s->loop_count ? s->loops[which] : NULL;
    for (const NestNode *node = s->row->body; node; node = node->next) {
        if (node == last) {
            *end = elements(s, node, row);
            break;
        }
        if (node->kind != NEST_TREE && node->kind != NEST_LOOP) nest_add(nest, &end, *node);
    }
    return nest_put_index(nest, nest_clone(nest, body), s->row->name, row);
}

/* From now on pushes and combines are of the other tree, at `dim`. */
static void retarget(SmallRows *s, NestNode *body, SymbolId from, SymbolId to, Index dim) {
    for (NestNode *node = body; node; node = node->next) {
        retarget(s, node->body, from, to, dim);
        retarget(s, node->other, from, to, dim);
        if (node->array != from) continue;
        Index *at = nest_at(s->nest, node->at_count + 1);
        at[0] = dim;
        for (size_t i = 0; i < node->at_count; i++) at[i + 1] = node->at[i];
        node->array = to;
        node->at = at;
        node->at_count++;
    }
}

/* What prefetches the rows that come next, where there are such; `begin`: of so many elements. */
static NestNode *ahead_of(SmallRows *s, const NestNode *loop, Index row, Index begin, Index count) {
    RowPrefetch ahead;
    if (loop != s->loops[0] || !items_prefetch(s->items, &ahead)) return NULL;
    return schedule_prefetch(&ahead, true, row, begin, count);
}

static bool goes_by_vectors(const SmallRows *s, const NestNode *loop) {
    size_t which = 0;
    while (s->loops[which] != loop) which++;
    return s->vectorized || s->by_vectors[which];
}

/* The elements of a row one after the other; where rows that come next are prefetched, part by
 * part, in the first loop. */
static NestNode *elements(SmallRows *s, const NestNode *loop, Index row) {
    Nest *nest = s->nest;
    NestNode *first = NULL, **end = &first;
    Index begin = make_number(s->nest, 0), count = s->length;
    if (!goes_by_vectors(s, loop) && ahead_of(s, loop, row, begin, count)) {
        const Index turns = nest_ceiling(nest, &end, count, PART, "parts");
        const SymbolId part = make_loop_name(s->nest, "part");
        NestNode *parts = nest_add(
            nest, &end,
            (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = part, .extent = turns});
        end = &parts->body;
        begin = make_scale(s->nest, make_symbol(s->nest, part), PART);
        count = make_let_index(s->nest, &end, "width",
                               make_value(s->nest, OP_MIN, make_number(s->nest, PART),
                                          make_less(s->nest, count, begin)));
        make_append(&end, ahead_of(s, loop, row, begin, count));
    }
    const SymbolId own = make_loop_name(s->nest, nest->symbols[loop->name].name);
    NestNode *body = nest_clone(nest, loop->body);
    body =
        nest_put_index(nest, body, loop->name, make_add(s->nest, begin, make_symbol(s->nest, own)));
    NestNode *all = nest_around(nest, LOOP_SERIAL, own, count, body);
    all->range = loop->range;
    if (goes_by_vectors(s, loop))
        items_vectorize(s->items, &all, own, row, make_number(nest, 0), loop == s->loops[0]);
    *end = all;
    return first;
}

/* ---- side by side ---- */

/* How many rows form a batch. Vectorized: 64, or 16 if several loops go over them, so that they
 * stay in L1; else as many as fill a tile of 1024, each row padded to the next power of two. */
static Index rows_together(SmallRows *s) {
    Function *f = s->nest->values;
    ValueId value = ir_constant(f, TYPE_I64, TILE);
    int64_t known, max = 1;
    if (s->vectorized) return make_number(s->nest, s->loop_count > 1 ? FEW_ROWS : ROWS);
    if (index_is_number(s->length, &known)) {
        while (max < known) max *= 2;
        return make_number(s->nest, TILE / max);
    }
    const ValueId length = nest_index_value(s->nest, s->length);
    for (; max < TILE; max *= 2) {
        const ValueId more = ir_op(f, OP_GT, length, ir_constant(f, TYPE_I64, (uint64_t)max), 0);
        const ValueId rows = ir_constant(f, TYPE_I64, (uint64_t)(TILE / max / 2));
        value = ir_op(f, OP_SELECT, more, rows, value);
    }
    return make_symbol(s->nest, nest_derived(s->nest, "together", value));
}

/* A loop over the rows of a batch, of that instance, that goes by the trees of the batch. */
static NestNode *over_rows(SmallRows *s, Index begin, Index count, size_t which, SymbolId r,
                           const SymbolId *trees) {
    Nest *nest = s->nest;
    NestNode *loop = NULL, **end = &loop,
             *body = instance(s, make_add(nest, begin, make_symbol(nest, r)), which);
    for (size_t t = 0; t < s->tree_count; t++)
        retarget(s, body, s->trees[t]->name, trees[t], make_symbol(nest, r));
    return nest_add(nest, &end,
                    (NestNode){.kind = NEST_LOOP,
                               .loop = LOOP_SERIAL,
                               .name = r,
                               .extent = count,
                               .body = body,
                               .range = s->row->range});
}

/* Whether nothing but values and stores is in the body, a few loads under conditions among them,
 * and no store is to an array that it loads so. */
static bool is_straight(const NestNode *body) {
    size_t gathers = 0;
    for (const NestNode *node = body; node; node = node->next) {
        const bool value =
            node->kind == NEST_LET || node->kind == NEST_LOAD || node->kind == NEST_COMBINE;
        if (!value && node->kind != NEST_STORE) return false;
        if (node->kind == NEST_LOAD && node->where && nest_stores_to(body, node->array))
            return false;
        gathers += node->kind == NEST_LOAD && node->where;
    }
    return gathers && gathers <= GATHERS;
}

/* Leaves only what loads under conditions need of the body, which then stores what they load, each
 * to memory of its own for `room` rows: `memory[i]`, or 0 for one that needs a tree. Gives their
 * number. */
static size_t keep_gathers(SmallRows *s, NestNode ***end, NestNode *loop, Index room,
                           SymbolId *memory) {
    Nest *nest = s->nest;
    NestNode *rest = NULL, **to = &rest, *stores = NULL, **behind = &stores;
    bool *of_tree = arena_alloc(s->arena, nest->symbol_count * sizeof *of_tree);
    size_t count = 0;
    for (NestNode *node = loop->body; node; node = node->next) {
        if (node->kind == NEST_STORE) continue;
        const bool tree = node->kind == NEST_COMBINE || nest_uses_any(nest, node, of_tree);
        of_tree[node->name] = tree;
        if (!tree) nest_add(nest, &to, *node);
        if (node->kind != NEST_LOAD || !node->where) continue;
        const NestSymbol *symbol = &nest->symbols[node->name];
        const SymbolId own =
            tree ? 0
                 : make_alloc(nest, end, SCOPE_WORKER,
                              arena_printf(s->arena, "%s_of", symbol->name), symbol->type, room);
        memory[count++] = own;
        if (own)
            make_store(nest, &behind, own, make_symbol(nest, loop->name), NULL,
                       nest_name(nest, node->name));
    }
    make_append(&to, stores);
    loop->body = rest;
    return count;
}

/* Loop distribution: what the last loop over rows loads under a condition, as a gather does, is
 * loaded by a loop of its own. Compilers cannot tell the bounds of a gather, and would make vector
 * code of nothing in its loop. */
static void distribute_gathers(SmallRows *s, NestNode ***end, NestNode *loop, NestNode *gathers,
                               Index room) {
    SymbolId memory[GATHERS];
    if (!is_straight(loop->body)) return;
    const size_t count = keep_gathers(s, end, gathers, room, memory);
    size_t next = 0, kept = 0;
    for (NestNode *node = loop->body; node && next < count; node = node->next) {
        if (node->kind != NEST_LOAD || !node->where) continue;
        const SymbolId own = memory[next++];
        if (!own) continue;
        *node = (NestNode){.kind = NEST_LOAD,
                           .name = node->name,
                           .array = own,
                           .at = nest_subscript(s->nest, make_symbol(s->nest, loop->name)),
                           .at_count = 1,
                           .range = node->range,
                           .next = node->next};
        kept++;
    }
    if (kept) nest_add(s->nest, end, *gathers);
}

/* So many rows from `begin` on, of which there is room for `together`: their loops one after the
 * other. */
static NestNode *batch_of(SmallRows *s, Index begin, Index together, Index count) {
    Nest *nest = s->nest;
    NestNode *first = NULL, **end = &first;
    SymbolId trees[TREES];
    for (size_t i = 0; i < s->tree_count; i++) {
        NestNode tree = *s->trees[i];
        const char *name = nest->symbols[tree.name].name;
        trees[i] = tree.name = nest_symbol(nest, name, NAMED_TREE, tree.type);
        tree.extent = s->length;
        tree.at = nest_subscript(nest, together);
        tree.at_count = 1;
        nest_add(nest, &end, tree);
    }
    int64_t known;
    const Index room = index_is_number(together, &known) ? together : make_number(nest, TILE);
    for (size_t i = 0; i <= s->loop_count; i++) {
        NestNode *loop = over_rows(s, begin, count, i, make_loop_name(nest, "r"), trees);
        if (i == s->loop_count)
            distribute_gathers(s, &end, loop,
                               over_rows(s, begin, count, i, make_loop_name(nest, "r"), trees),
                               room);
        nest_add(nest, &end, *loop);
    }
    return first;
}

/* The rows from `begin` up to `stop`, in batches of rows_together(). */
static NestNode *any_rows(SmallRows *s, Index begin, Index stop) {
    Arena *arena = s->arena;
    NestNode *first = NULL, **end = &first;
    const SymbolId batch = make_loop_name(s->nest, "batch");
    const Index together = rows_together(s);
    const Index more = index_add(arena, index_subtract(arena, stop, begin),
                                 index_subtract(arena, together, make_number(s->nest, 1)));
    const Index batches =
        make_let_index(s->nest, &end, "batches", make_value(s->nest, OP_FLOORDIV, more, together));
    NestNode *loop = nest_add(
        s->nest, &end,
        (NestNode){.kind = NEST_LOOP, .loop = LOOP_SERIAL, .name = batch, .extent = batches});
    end = &loop->body;
    begin = index_add(arena, begin, index_multiply(arena, together, make_symbol(s->nest, batch)));
    const Index count =
        make_let_index(s->nest, &end, "rows",
                       make_value(s->nest, OP_MIN, together, index_subtract(arena, stop, begin)));
    *end = batch_of(s, begin, together, count);
    return first;
}

/* The kind of the trees that the loop pushes to; OP_NONE: they are of several, or no vectors. */
static Op kind_of(const SmallRows *s, const NestNode *loop) {
    Op op = OP_NONE;
    for (size_t i = 0; i < s->tree_count; i++) {
        if (!count_pushes(loop->body, s->trees[i]->name)) continue;
        if (!schedule_is_vector_tree(s->trees[i], true)) return OP_NONE;
        if (op != OP_NONE && op != s->trees[i]->op) return OP_NONE;
        op = s->trees[i]->op;
    }
    return op;
}

/* Of which loops all that is done with an element can be done with sixteen at once. */
static void find_vectors(SmallRows *s) {
    s->vectorized = s->items->numbers->layout != LS_LAYOUT_STRIDED;
    for (size_t i = 0; i < s->loop_count; i++) {
        const Op op = kind_of(s, s->loops[i]);
        s->by_vectors[i] = s->items->numbers->layout != LS_LAYOUT_STRIDED && op != OP_NONE &&
                           schedule_is_vectorizable(s->nest, s->loops[i], false);
        s->vectorized &= s->by_vectors[i] && op == kind_of(s, s->loops[0]);
    }
}

void items_small_rows(ItemBuilder *b) {
    SmallRows own = {.items = b, .nest = b->nest, .arena = b->arena}, *s = &own;
    if (b->tensors || !copy_row(s, *b->row) || !find_row(s)) return;
    int64_t known;
    find_vectors(s);
    b->few_max = s->vectorized || s->by_vectors[0] ? TILE : SMALL;
    if (index_is_number(s->length, &known) && known > b->few_max) return;
    b->few = any_rows(s, make_symbol(s->nest, b->first), make_symbol(s->nest, b->stop));
}
