/* panel_vectors.c: the part of a row panel where each lane takes a vector of neighbouring columns,
 * whose elements of a row are one access.
 *
 * Needs reductions that are one tree each, whose values are stored as they are computed, and
 * elements that are little work. Folds and totals have a dim for the elements of a vector. Columns
 * past the last one are loaded as 0, and nothing is stored of them. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { VECTOR = 4, TWO = 2, FOUR = 4, EIGHT = 8 };

/* A lane's vector: the loops over lanes and over its elements. */
typedef struct LaneVector {
    SymbolId lane, element;
    Index column; /* of the chunk */
    NestNode *first, **end;
} LaneVector;

static LaneVector open_vector(PanelBuilder *s) {
    Nest *nest = s->nest;
    LaneVector v = {make_loop_name(nest, "l"), make_loop_name(nest, "e"), .first = NULL};
    v.column = make_add(nest, make_scale(nest, make_symbol(nest, v.lane), s->nest->width),
                        make_symbol(nest, v.element));
    return v;
}

static bool varies(const NestNode *node, SymbolId symbol) {
    for (size_t i = 0; i < node->at_count; i++)
        if (index_uses(node->at[i], symbol)) return true;
    return false;
}

/* The body as a loop over the vector's elements, of which those past the last column are not
 * accessed. */
static void elements(PanelBuilder *s, NestNode ***end, const LaneVector *v, NestNode *body) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    const Index left = make_less(nest, b->columns->extent, b->first_column);
    for (NestNode *node = body; node; node = node->next) {
        if ((node->kind != NEST_LOAD && node->kind != NEST_STORE) ||
            nest->symbols[node->array].kind != NAMED_ARRAY || !varies(node, v->element))
            continue;
        node->limit = make_less(nest, left, v->column);
        node->has_limit = true;
    }
    column_loop(b, end, LOOP_VECTOR, v->element, make_number(nest, nest->width), body);
}

static void lanes(PanelBuilder *s, NestNode ***end, const LaneVector *v, NestNode *body) {
    column_loop(&s->tile, end, LOOP_LANE, v->lane, make_number(s->nest, s->nest->lanes), body);
}

static SymbolId fold(PanelBuilder *s, NestNode ***end, const ColumnTree *tree, const char *what,
                     int64_t leaves) {
    const char *name = arena_printf(s->arena, "%s_%s", tree->name, what);
    const SymbolId id = nest_symbol(s->nest, name, NAMED_TREE, tree->type);
    nest_add(s->nest, end,
             (NestNode){.kind = NEST_FOLD,
                        .name = id,
                        .op = tree->op,
                        .type = tree->type,
                        .extent = make_number(s->nest, leaves),
                        .at = make_at(s->nest, make_number(s->nest, s->nest->width), NULL),
                        .at_count = 1});
    return id;
}

/* The totals of each tree are what the fold of so many leaves comes to. */
static void take_fold(PanelBuilder *s, NestNode ***end, const LaneVector *v, const SymbolId *folds,
                      Index count) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    LaneVector own = *v;
    own.element = make_loop_name(nest, "e");
    NestNode *body = NULL, **inside = &body;
    const Index lane = make_symbol(nest, v->lane), element = make_symbol(nest, own.element);
    for (size_t i = 0; i < b->tree_count; i++) {
        const SymbolId all = nest_symbol(nest, "all", NAMED_VALUE, b->trees[i].type);
        make_combine(nest, &inside, all, folds[i], &element, count);
        make_store(nest, &inside, b->trees[i].total, lane, &element, nest_name(nest, all));
    }
    elements(s, end, &own, body);
}

static SymbolId load_total(PanelBuilder *s, NestNode ***end, const LaneVector *v,
                           const ColumnTree *tree) {
    const SymbolId own = nest_symbol(s->nest, "own", NAMED_VALUE, tree->type);
    const Index element = make_symbol(s->nest, v->element);
    make_load(s->nest, end, own, tree->total, make_symbol(s->nest, v->lane), &element);
    return own;
}

/* ---- rows ---- */

/* The elements of the part's row `row`, pushed to the folds as leaf `leaf`. */
static void push_row(PanelBuilder *s, ColumnPass *p, NestNode ***end, const LaneVector *v,
                     const SymbolId *folds, Index row, Index leaf) {
    ColumnTile *b = &s->tile;
    const Index element = make_symbol(s->nest, v->element);
    NestNode *list, **list_end = &list, *nodes = panel_nodes_of_row(s, p, row, &list);
    column_retarget(p, nodes, folds, &element, leaf);
    while (*list_end) list_end = &(*list_end)->next;
    make_append(&list_end, nodes);
    elements(s, end, v, column_at(b, p->ahead, list, v->column));
}

/* So many rows from `from` on, loads first; they, behind the totals if they are not the first, are
 * the totals. */
static void rows_together(PanelBuilder *s, ColumnPass *p, NestNode ***end, int64_t from,
                          int64_t count) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    const Index rows = make_number(nest, count);
    const LaneVector v = open_vector(s);
    const SymbolId j = make_loop_name(nest, "j");
    const Index own = make_symbol(nest, j);
    SymbolId *folds = arena_alloc(s->arena, (b->tree_count + 1) * sizeof *folds);
    NestNode *body = NULL, **inside = &body, *row = NULL, **row_end = &row;
    for (size_t i = 0; i < b->tree_count; i++)
        folds[i] = fold(s, &inside, &b->trees[i], "rows", count);
    push_row(s, p, &row_end, &v, folds, make_add(nest, own, make_number(nest, from)), own);
    column_loop(b, &inside, LOOP_UNROLLED, j, rows, row);
    if (from) {
        LaneVector both = v;
        both.element = make_loop_name(nest, "e");
        NestNode *list = NULL, **list_end = &list;
        SymbolId *pairs = arena_alloc(s->arena, (b->tree_count + 1) * sizeof *pairs);
        const Index at = make_symbol(nest, both.element), zero = make_number(nest, 0),
                    one = make_number(nest, 1);
        for (size_t i = 0; i < b->tree_count; i++) {
            const ColumnTree *tree = &b->trees[i];
            pairs[i] = fold(s, &inside, tree, "pair", 2);
            const SymbolId before = load_total(s, &list_end, &both, tree);
            const SymbolId all = nest_symbol(nest, "all", NAMED_VALUE, tree->type);
            make_combine(nest, &list_end, all, folds[i], &at, rows);
            make_push(nest, &list_end, pairs[i], at, &zero, nest_name(nest, before));
            make_push(nest, &list_end, pairs[i], at, &one, nest_name(nest, all));
        }
        elements(s, &inside, &both, list);
        take_fold(s, &inside, &v, pairs, make_number(nest, 2));
    } else {
        take_fold(s, &inside, &v, folds, rows);
    }
    lanes(s, end, &v, body);
}

static NestNode *push_none(PanelBuilder *s, const SymbolId *folds, Index leaf) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    LaneVector v = open_vector(s);
    NestNode *list = NULL, **list_end = &list, *body = NULL, **inside = &body;
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        make_push(nest, &list_end, folds[i], make_symbol(nest, v.element), &leaf,
                  ir_constant(nest->values, tree->type, nest_identity(tree->op, tree->type)));
    }
    elements(s, &inside, &v, list);
    return body;
}

/* As many rows as there are, one after the other; one that is not there counts as the identity.
 * Compilers do not see that the loop has eight iterations, or its unrolled text would need more
 * registers than what is done with all other parts. */
static void some_rows(PanelBuilder *s, ColumnPass *p, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    const LaneVector v = open_vector(s);
    const SymbolId r = make_loop_name(nest, "r");
    const Index leaf = make_symbol(nest, r);
    const ValueId eight = make_value(nest, OP_MAX, s->given[PANEL_SPAN], make_number(nest, EIGHT));
    const Index leaves = make_symbol(nest, nest_derived(nest, "leaves", eight));
    SymbolId *folds = arena_alloc(s->arena, (b->tree_count + 1) * sizeof *folds);
    NestNode *body = NULL, **inside = &body, *row = NULL, **row_end = &row;
    for (size_t i = 0; i < b->tree_count; i++)
        folds[i] = fold(s, &inside, &b->trees[i], "rows", EIGHT);
    push_row(s, p, &row_end, &v, folds, leaf, leaf);
    NestNode *test = nest_only_where(nest, make_less(nest, s->rows, leaf), row);
    test->other = push_none(s, folds, leaf);
    column_loop(b, &inside, LOOP_SERIAL, r, leaves, test);
    take_fold(s, &inside, &v, folds, make_number(nest, EIGHT));
    lanes(s, end, &v, body);
}

/* ---- parts of a panel ---- */

static void carry_levels(PanelBuilder *s, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    const LaneVector v = open_vector(s);
    const SymbolId k = make_loop_name(nest, "k");
    const Index level = panel_level_at(s, make_symbol(nest, k), v.column);
    const Index element = make_symbol(nest, v.element), zero = make_number(nest, 0),
                one = make_number(nest, 1);
    SymbolId *pairs = arena_alloc(s->arena, (b->tree_count + 1) * sizeof *pairs);
    NestNode *body = NULL, **inside = &body, *list = NULL, **list_end = &list, *across = NULL,
             **across_end = &across;
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        pairs[i] = fold(s, &inside, tree, "pair", 2);
        const SymbolId before = nest_symbol(nest, "before", NAMED_VALUE, tree->type);
        make_load(nest, &list_end, before, s->levels[i], level, NULL);
        const SymbolId own = load_total(s, &list_end, &v, tree);
        make_push(nest, &list_end, pairs[i], element, &zero, nest_name(nest, before));
        make_push(nest, &list_end, pairs[i], element, &one, nest_name(nest, own));
    }
    elements(s, &inside, &v, list);
    take_fold(s, &inside, &v, pairs, make_number(nest, 2));
    lanes(s, &across_end, &v, body);
    column_loop(b, end, LOOP_SERIAL, k, s->carry, across);
}

/* Stores the totals to a level, or as the panel's partial values. */
static void leave(PanelBuilder *s, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    NestNode *lists[2] = {NULL, NULL};
    for (int last = 0; last < 2; last++) {
        const LaneVector v = open_vector(s);
        const Index line = make_times(nest, s->given[PANEL_NUMBER], s->values.columns);
        const Index partial = make_add(nest, make_add(nest, line, s->at), v.column);
        NestNode *list = NULL, **list_end = &list, *body = NULL, **inside = &body,
                 **last_end = &lists[last];
        for (size_t i = 0; i < b->tree_count; i++) {
            const SymbolId own = load_total(s, &list_end, &v, &b->trees[i]);
            make_store(nest, &list_end, last ? s->values.partials[i] : s->levels[i],
                       last ? partial : panel_level_at(s, s->carry, v.column), NULL,
                       nest_name(nest, own));
        }
        elements(s, &inside, &v, list);
        lanes(s, &last_end, &v, body);
    }
    NestNode *test = nest_only_where(nest, s->left, lists[0]);
    test->other = lists[1];
    make_append(end, test);
}

/* ---- the chunk ---- */

static void open_totals(PanelBuilder *s, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    const Index vector = make_number(nest, nest->width);
    for (size_t i = 0; i < b->tree_count; i++) {
        ColumnTree *tree = &b->trees[i];
        tree->total = nest_symbol(nest, arena_printf(s->arena, "%s_total", tree->name), NAMED_ALLOC,
                                  tree->type);
        nest_add(nest, end,
                 (NestNode){.kind = NEST_ALLOC,
                            .scope = SCOPE_REGISTER,
                            .name = tree->total,
                            .at = make_at(nest, make_number(nest, nest->lanes), &vector),
                            .at_count = 2});
    }
}

/* 1 where the part has two rows. */
static Index is_pair(PanelBuilder *s) {
    Nest *nest = s->nest;
    const ValueId two = make_value(nest, OP_EQ, s->rows, make_number(nest, TWO));
    const ValueId number =
        ir_op(nest->values, OP_SELECT, two, make_constant(nest, 1), make_constant(nest, 0));
    return make_symbol(nest, nest_derived(nest, "is_pair", number));
}

void panel_by_vectors(PanelBuilder *s, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    ColumnPass p = column_pass(b, true);
    NestNode *fours = NULL, **inside = &fours, *second = NULL, **second_end = &second,
             *other = NULL, **other_end = &other, *two = NULL, **two_end = &two;
    open_totals(s, end);
    rows_together(s, &p, &two_end, 0, TWO);
    rows_together(s, &p, &inside, 0, FOUR);
    rows_together(s, &p, &second_end, FOUR, FOUR);
    make_append(&inside,
                nest_only_where(nest, make_less(nest, s->rows, make_number(nest, FOUR)), second));
    some_rows(s, &p, &other_end);
    const Index count = nest_floor(nest, end, s->rows, FOUR, "fours");
    const Index odd = make_less(nest, s->rows, make_scale(nest, count, FOUR));
    NestNode *test =
        nest_only_where(nest, make_less(nest, count, make_scale(nest, odd, EIGHT)), fours);
    test->other = other;
    test->version = true;
    NestNode *pair = nest_only_where(nest, is_pair(s), two);
    pair->other = test;
    pair->version = true;
    make_append(end, pair);
    carry_levels(s, end);
    leave(s, end);
}

/* The elements of a vector: of what is loaded of a row and its columns, as many bytes as a lane
 * accesses at once. */
static uint32_t find_width(const PanelBuilder *s) {
    enum { ACCESS = 16 };
    const ColumnTile *b = &s->tile;
    size_t least = ACCESS / VECTOR;
    for (const NestNode *node = b->column_nodes; node; node = node->next) {
        const bool access = node->kind == NEST_LOAD || node->kind == NEST_STORE;
        if (!access || s->nest->symbols[node->array].kind != NAMED_ARRAY) continue;
        if (type_info[s->nest->symbols[node->array].type].size < least)
            least = type_info[s->nest->symbols[node->array].type].size;
    }
    return ACCESS / least >= EIGHT ? EIGHT : VECTOR;
}

void panel_find_vectors(PanelBuilder *s) {
    ColumnTile *b = &s->tile;
    const ColumnPass all = {.b = b, .column_nodes = b->column_nodes};
    if (s->nest->lanes == 1 || b->items->numbers->layout != LS_LAYOUT_DENSE) return;
    if (!column_is_short(&all)) return;
    for (size_t i = 0; i < b->tree_count; i++)
        if (!b->trees[i].last || b->trees[i].type != type_info[b->trees[i].type].compute ||
            b->trees[i].type == TYPE_BOOL)
            return;
    for (const NestNode *node = b->column_nodes; node; node = node->next)
        if (node->has_limit || node->body) return;
    s->vectors = true;
    s->nest->width = find_width(s);
    b->chunk = (int64_t)s->nest->lanes * s->nest->width;
}
