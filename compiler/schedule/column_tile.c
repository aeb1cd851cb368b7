/* column_tile.c: what one thread does with a tile of 1024 rows of a chunk of neighbouring columns.
 *
 * The leaves of a column come in the order of its tree: eight of them are a fold in registers, in a
 * loop over the columns around one over the eight rows (unroll and jam), and what these come to
 * goes to a fold of the tile, whose columns lie side by side. In a tile of more than 512 rows each
 * of the tree's 128 lanes has eight rows. In a shorter tile, whose lanes have 4, 2 or 1 rows, the
 * rows of 2, 4 or 8 lanes form one group of eight. At the end of a tile rows of a group may be
 * missing: the tile's last row stands in for them, and they count as the identity. If the body also
 * loads from an array that it stores to, an incomplete group of eight is processed one row at a
 * time. Values that depend only on the row are hoisted out of the loop over columns into an array
 * with one element per row; if they are costly, for all rows of the tile first. Where an element is
 * much work the loops are interchanged: a row after the other, each by its columns.
 *
 * Of an argmin, argmax or logsumexp there are two trees: the first one's value is found in a pass
 * of its own, without what is stored. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, LANES = 128, EIGHT = 8 };

void column_loop(ColumnTile *b, NestNode ***end, LoopKind kind, SymbolId name, Index extent,
                 NestNode *body) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_LOOP,
                        .loop = kind,
                        .name = name,
                        .extent = extent,
                        .body = body,
                        .range = b->traversal->range});
}

void column_across(ColumnTile *b, NestNode ***end, SymbolId c, NestNode *body) {
    Nest *nest = b->nest;
    if (!body) return;
    if (nest->lanes == 1) {
        column_loop(b, end, LOOP_SERIAL, c, b->width, body);
        return;
    }
    const Index left = make_less(nest, b->columns->extent, b->first_column);
    body = nest_only_where(nest, make_less(nest, left, make_symbol(nest, c)), body);
    column_loop(b, end, LOOP_LANE, c, make_number(nest, nest->lanes), body);
}

static void push(ColumnTile *b, NestNode ***end, SymbolId fold, Index c, Index leaf,
                 SymbolId value) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_PUSH,
                        .array = fold,
                        .at = make_at(b->nest, c, &leaf),
                        .at_count = 2,
                        .value = nest_name(b->nest, value)});
}

SymbolId column_fold(ColumnTile *b, NestNode ***end, const ColumnTree *tree, const char *what,
                     int64_t leaves, bool adjacent) {
    const char *name = arena_printf(b->arena, "%s_%s", tree->name, what);
    const SymbolId id = nest_symbol(b->nest, name, NAMED_TREE, tree->type);
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_FOLD,
                        .name = id,
                        .op = tree->op,
                        .type = tree->type,
                        .extent = make_number(b->nest, leaves),
                        .at = make_at(b->nest, make_number(b->nest, b->chunk), NULL),
                        .at_count = adjacent});
    return id;
}

/* ---- a pass: what is done with the tile's elements at a time ---- */

bool column_is_of_pass(const ColumnPass *p, size_t tree) {
    return p->b->trees[tree].last == p->last;
}

void column_find_row_values(ColumnPass *p) {
    ColumnTile *b = p->b;
    size_t count = 1;
    for (const NestNode *node = b->row_nodes; node; node = node->next) count++;
    p->row_values = arena_alloc(b->arena, count * sizeof *p->row_values);
    p->rooms = arena_alloc(b->arena, count * sizeof *p->rooms);
    for (NestNode *node = p->column_nodes; node; node = node->next) {
        NestNode alone = *node;
        if (alone.kind == NEST_PUSH) alone.at_count = 0;
        alone.next = NULL;
        p->places |= nest_body_uses(b->nest, &alone, b->traversal->name);
    }
    uint32_t *uses = arena_alloc(b->arena, b->nest->symbol_count * sizeof *uses);
    nest_count_uses(b->nest, p->column_nodes, uses);
    for (const NestNode *node = b->row_nodes; node; node = node->next)
        if (uses[node->name]) p->row_values[p->row_value_count++] = node->name;
}

/* The first pass keeps LETs, LOADs and the pushes to the first tree of argmin, argmax and
 * logsumexp. The last pass keeps all nodes; ahead of them it loads the extremum found by the first,
 * from which the second trees' leaves are computed. */
ColumnPass column_pass(ColumnTile *b, bool last) {
    Nest *nest = b->nest;
    ColumnPass p = {.b = b, .last = last};
    NestNode **end = &p.column_nodes, **ahead_end = &p.ahead;
    for (const NestNode *node = b->ahead; node; node = node->next)
        if (node->kind != NEST_STORE) nest_add(nest, &ahead_end, *node);
    for (const NestNode *node = b->column_nodes; node; node = node->next) {
        const ColumnReduction *own = NULL;
        for (size_t i = 0; i < b->reduction_count; i++)
            if (node->kind == NEST_PUSH && node->array == b->reductions[i].tree)
                own = &b->reductions[i];
        const bool value = node->kind == NEST_LET || node->kind == NEST_LOAD;
        const bool kept = own ? last || own->two : last || value;
        if (!kept) continue;
        NestNode *copy = nest_add(nest, &end, *node);
        if (!own) continue;
        copy->array = b->trees[own->first + (own->two && last)].source;
        if (!own->two || !last) continue;
        const SymbolId extremum = nest_symbol(b->nest, "extremum", NAMED_VALUE, own->type);
        make_load(b->nest, &ahead_end, extremum, b->trees[own->first].total,
                  make_less(b->nest, make_symbol(b->nest, b->columns->name), b->first_column),
                  NULL);
        const SymbolId base =
            make_let(b->nest, &ahead_end, "base", own->type,
                     nest_second_base(nest, own->op, own->type, nest_name(nest, extremum)));
        copy->value = nest_second_leaf(nest, own->op, own->type, node->value, nest_name(nest, base),
                                       make_symbol(b->nest, b->traversal->name));
    }
    column_find_row_values(&p);
    return p;
}

bool column_draws(const ColumnTile *b, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if (nest_value_draws(b->nest, node->value)) return true;
    return false;
}

/* Whether what is done with an element may stand there eight times. */
bool column_is_short(const ColumnPass *p) {
    enum { WORK_MAX = 24 };
    ColumnTile *b = p->b;
    for (const NestNode *node = p->column_nodes; node; node = node->next)
        if (node->kind == NEST_ADD) return false;
    return !column_draws(b, p->column_nodes) && !column_draws(b, b->row_nodes) &&
           items_work(b->nest, p->column_nodes) <= WORK_MAX;
}

/* Whether it may as well be done again for the last row, where another is not there: nothing that
 * is stored is read. */
bool column_is_repeatable(const ColumnPass *p) {
    for (const NestNode *node = p->column_nodes; node; node = node->next)
        if (node->kind == NEST_STORE && nest_reads(p->column_nodes, node->array)) return false;
    return true;
}

/* ---- copies ---- */

/* The nodes at a row, with names of their own. */
static NestNode *at_row(ColumnTile *b, NestNode *nodes, Index row) {
    NestNode *copy = nest_put_index(b->nest, nest_copy(b->arena, nodes), b->traversal->name, row);
    return nest_clone(b->nest, copy);
}

NestNode *column_at(ColumnTile *b, NestNode *ahead, NestNode *nodes, Index c) {
    NestNode *first = NULL, **end = &first;
    make_append(&end, nest_copy(b->arena, ahead));
    make_append(&end, nest_copy(b->arena, nodes));
    first = nest_clone(b->nest, first);
    return nest_put_index(b->nest, first, b->columns->name, make_add(b->nest, b->first_column, c));
}

NestNode *column_nodes(ColumnTile *b, NestNode *nodes, Index c, bool stores) {
    NestNode *ahead = NULL, **end = &ahead;
    for (const NestNode *node = b->ahead; node; node = node->next)
        if (stores || node->kind != NEST_STORE) nest_add(b->nest, &end, *node);
    return column_at(b, ahead, nodes, c);
}

/* From now on what is pushed goes to the folds, at `c` where they lie side by side. */
void column_retarget(ColumnPass *p, NestNode *body, const SymbolId *folds, const Index *c,
                     Index leaf) {
    ColumnTile *b = p->b;
    for (NestNode *node = body; node; node = node->next)
        for (size_t i = 0; i < b->tree_count; i++) {
            if (node->kind != NEST_PUSH || node->array != b->trees[i].source) continue;
            node->array = folds[i];
            node->at = c ? make_at(b->nest, *c, &leaf) : make_at(b->nest, leaf, NULL);
            node->at_count = c ? 2 : 1;
            break;
        }
}

/* Memory for what so many rows have. */
static void open_row_values(ColumnPass *p, NestNode ***end, const char *what, NestScope scope,
                            int64_t count) {
    for (size_t i = 0; i < p->row_value_count; i++) {
        const NestSymbol *own = &p->b->nest->symbols[p->row_values[i]];
        p->rooms[i] =
            make_alloc(p->b->nest, end, scope, arena_printf(p->b->arena, "%s_%s", own->name, what),
                       own->type, make_number(p->b->nest, count));
    }
}

static void store_row_values(ColumnPass *p, NestNode ***end, Index at) {
    for (size_t i = 0; i < p->row_value_count; i++)
        make_store(p->b->nest, end, p->rooms[i], at, NULL, nest_name(p->b->nest, p->row_values[i]));
}

/* ---- a row at a time ---- */

/* What each column comes to in a fold, pushed to the tile's. */
static void push_lane(ColumnPass *p, NestNode ***end, const SymbolId *folds, Index rows,
                      Index lane) {
    ColumnTile *b = p->b;
    const SymbolId c = make_loop_name(b->nest, "c");
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < b->tree_count; i++) {
        if (!column_is_of_pass(p, i)) continue;
        const SymbolId value = nest_symbol(b->nest, "lane", NAMED_VALUE, b->trees[i].type);
        nest_add(b->nest, &inside,
                 (NestNode){.kind = NEST_COMBINE,
                            .name = value,
                            .array = folds[i],
                            .at = make_at(b->nest, make_symbol(b->nest, c), NULL),
                            .at_count = 1,
                            .extent = rows});
        push(b, &inside, b->trees[i].folded, make_symbol(b->nest, c), lane, value);
    }
    column_loop(b, end, LOOP_SERIAL, c, b->width, body);
}

/* One row: its own values, then a loop over its columns. `in_tile`: the row's number in the tile;
 * `leaf`: its leaf number in the folds. */
NestNode *column_row(ColumnPass *p, const SymbolId *folds, Index in_tile, Index leaf) {
    ColumnTile *b = p->b;
    const SymbolId c = make_loop_name(b->nest, "c");
    const Index column = make_symbol(b->nest, c);
    NestNode *row = NULL, **end = &row;
    make_append(&end, nest_copy(b->arena, b->row_nodes));
    NestNode *nodes = nest_copy(b->arena, p->column_nodes);
    if (folds) column_retarget(p, nodes, folds, &column, leaf);
    column_loop(b, &end, LOOP_SERIAL, c, b->width, column_at(b, p->ahead, nodes, column));
    return at_row(b, row, make_add(b->nest, b->first, in_tile));
}

/* ---- eight rows at once ---- */

/* What the eight rows have of their own. */
static void keep_rows(ColumnPass *p, NestNode ***end, bool all) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    const SymbolId j = make_loop_name(b->nest, "j"),
                   offset = nest_symbol(b->nest, "offset", NAMED_VALUE, TYPE_I64);
    const Index own = make_symbol(b->nest, j);
    open_row_values(p, end, "eight", SCOPE_REGISTER, EIGHT);
    SymbolId *const places = &p->rooms[p->row_value_count];
    if (p->places)
        *places = make_alloc(b->nest, end, SCOPE_REGISTER, "at_eight", TYPE_I64,
                             make_number(b->nest, EIGHT));
    p->live = all ? 0
                  : make_alloc(b->nest, end, SCOPE_REGISTER, "live_eight", TYPE_BOOL,
                               make_number(b->nest, EIGHT));
    NestNode *body = NULL, **inside = &body, *list = NULL, **list_end = &list;
    make_load(b->nest, &inside, offset, p->offset, own, NULL);
    Index in_tile =
        make_add(b->nest, make_symbol(b->nest, offset), make_times(b->nest, p->step, p->e));
    if (!all) {
        const Index last = make_less(b->nest, b->count, make_number(b->nest, 1));
        make_store(b->nest, &inside, p->live, own, NULL,
                   make_value(b->nest, OP_LT, in_tile, b->count));
        in_tile =
            make_let_index(b->nest, &inside, "near", make_value(b->nest, OP_MIN, in_tile, last));
    }
    const ValueId at = nest_index_value(nest, make_add(b->nest, b->first, in_tile));
    const Index row = make_let_index(b->nest, &inside, nest->symbols[b->traversal->name].name, at);
    make_append(&list_end, nest_copy(b->arena, b->row_nodes));
    store_row_values(p, &list_end, own);
    if (p->places) make_store(b->nest, &list_end, *places, own, NULL, nest_index_value(nest, row));
    make_append(&inside, at_row(b, list, row));
    column_loop(b, end, LOOP_UNROLLED, j, make_number(b->nest, EIGHT), body);
}

/* The eight rows of so many columns, each alone. */
static void eight_columns(ColumnPass *p, NestNode ***end, Index width) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    const SymbolId c = make_loop_name(b->nest, "c"), j = make_loop_name(b->nest, "j");
    SymbolId *folds = arena_alloc(b->arena, b->tree_count * sizeof *folds);
    NestNode *body = NULL, **inside = &body, *list = NULL, **list_end = &list;
    for (size_t i = 0; i < b->tree_count; i++)
        if (column_is_of_pass(p, i))
            folds[i] = column_fold(b, &inside, &b->trees[i], "eight", EIGHT, false);
    const char *name = nest->symbols[b->traversal->name].name;
    const SymbolId place = p->places ? nest_symbol(b->nest, name, NAMED_VALUE, TYPE_I64) : 0;
    const SymbolId live = p->live ? nest_symbol(b->nest, "live", NAMED_VALUE, TYPE_BOOL) : 0;
    const Index own = make_symbol(b->nest, j);
    if (place) make_load(b->nest, &list_end, place, p->rooms[p->row_value_count], own, NULL);
    for (size_t i = 0; i < p->row_value_count; i++)
        make_load(b->nest, &list_end, p->row_values[i], p->rooms[i], own, NULL);
    if (live) make_load(b->nest, &list_end, live, p->live, own, NULL);
    NestNode *nodes = nest_copy(b->arena, p->column_nodes);
    column_retarget(p, nodes, folds, NULL, own);
    if (place) nodes = nest_put_index(nest, nodes, b->traversal->name, make_symbol(b->nest, place));
    for (NestNode *node = nodes; node && live; node = node->next)
        if (node->kind == NEST_PUSH) node->where = live;
    make_append(&list_end, nodes);
    column_loop(b, &inside, LOOP_UNROLLED, j, make_number(b->nest, EIGHT), list);
    for (size_t i = 0; i < b->tree_count; i++) {
        if (!column_is_of_pass(p, i)) continue;
        const SymbolId value = nest_symbol(b->nest, "eight", NAMED_VALUE, b->trees[i].type);
        nest_add(
            nest, &inside,
            (NestNode){
                .kind = NEST_COMBINE, .name = value, .array = folds[i], .at = nest_at(nest, 0)});
        push(b, &inside, b->trees[i].folded, make_symbol(b->nest, c), p->e, value);
    }
    column_loop(b, end, LOOP_SERIAL, c, width,
                column_at(b, p->ahead, body, make_symbol(b->nest, c)));
}

/* So many eights from the first on, of so many columns each. */
static void eights_of(ColumnPass *p, NestNode ***end, Index first, Index count, Index width,
                      bool all) {
    const SymbolId e = make_loop_name(p->b->nest, "e");
    NestNode *body = NULL, **inside = &body;
    p->e = make_add(p->b->nest, first, make_symbol(p->b->nest, e));
    keep_rows(p, &inside, all);
    eight_columns(p, &inside, width);
    column_loop(p->b, end, LOOP_SERIAL, e, count, body);
}

/* Processes `count` incomplete groups of eight rows, from group `first` on, one row at a time. If
 * lanes have eight rows or one, the missing rows are the last of the eight, so the loop just ends
 * earlier; with two or four rows a lane they may lie in between and push the identity. */
static void part_eights(ColumnPass *p, NestNode ***end, Index first, Index count, Index depth) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    Function *f = nest->values;
    const SymbolId e = make_loop_name(b->nest, "e"), j = make_loop_name(b->nest, "j"),
                   c = make_loop_name(b->nest, "c");
    const SymbolId offset = nest_symbol(b->nest, "offset", NAMED_VALUE, TYPE_I64);
    SymbolId *folds = arena_alloc(b->arena, b->tree_count * sizeof *folds);
    NestNode *body = NULL, **inside = &body, *row = NULL, **row_end = &row;
    NestNode *none = NULL, **none_end = &none, *empty = NULL, **empty_end = &empty;
    p->e = make_add(b->nest, first, make_symbol(b->nest, e));
    const Index lane_rows =
        make_less(b->nest, make_add(b->nest, b->count, make_number(b->nest, LANES - 1)), p->e);
    const ValueId eight = make_value(b->nest, OP_FLOORDIV, lane_rows, make_number(b->nest, LANES));
    const Index lanes_left = make_less(b->nest, b->count, index_scale(b->arena, p->e, EIGHT));
    const ValueId some =
        ir_op(f, OP_SELECT, make_value(b->nest, OP_LT, depth, make_number(b->nest, 2)),
              nest_index_value(nest, lanes_left), make_constant(b->nest, EIGHT));
    const ValueId lives = ir_op(
        f, OP_SELECT, make_value(b->nest, OP_GT, depth, make_number(b->nest, 4)), eight, some);
    const Index rows = make_let_index(b->nest, &inside, "lives", lives);
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!column_is_of_pass(p, i)) continue;
        folds[i] = column_fold(b, &inside, tree, "row", EIGHT, true);
        nest_add(
            nest, &none_end,
            (NestNode){.kind = NEST_PUSH,
                       .array = folds[i],
                       .at = make_at(b->nest, make_symbol(b->nest, c), &(Index){NULL, 0}),
                       .at_count = 2,
                       .value = ir_constant(f, tree->type, nest_identity(tree->op, tree->type))});
    }
    for (NestNode *node = none; node; node = node->next) node->at[1] = make_symbol(b->nest, j);
    column_loop(b, &empty_end, LOOP_SERIAL, c, b->width, none);
    make_load(b->nest, &row_end, offset, p->offset, make_symbol(b->nest, j), NULL);
    const Index in_tile =
        make_add(b->nest, make_symbol(b->nest, offset), make_times(b->nest, p->step, p->e));
    NestNode *test = nest_only_where(nest, make_less(b->nest, b->count, in_tile),
                                     column_row(p, folds, in_tile, make_symbol(b->nest, j)));
    test->other = empty;
    make_append(&row_end, test);
    column_loop(b, &inside, LOOP_SERIAL, j, rows, row);
    push_lane(p, &inside, folds, rows, p->e);
    column_loop(b, end, LOOP_SERIAL, e, count, body);
}

/* A number that depends on how many rows of 128 the tile has. */
static ValueId by_rows(ColumnTile *b, int64_t one, int64_t two, int64_t four, int64_t eight) {
    Function *f = b->nest->values;
    const int64_t numbers[] = {one, two, four, eight};
    ValueId value = make_constant(b->nest, eight);
    for (int i = 2; i >= 0; i--) {
        const ValueId fits = make_value(b->nest, OP_LE, b->count, make_number(b->nest, LANES << i));
        value = ir_op(f, OP_SELECT, fits, make_constant(b->nest, numbers[i]), value);
    }
    return value;
}

/* Where the eight rows lie from the first of the eight on. */
static void find_offsets(ColumnPass *p, NestNode ***end, Index depth) {
    ColumnTile *b = p->b;
    const SymbolId j = make_loop_name(b->nest, "j");
    const Index own = make_symbol(b->nest, j);
    p->offset =
        make_alloc(b->nest, end, SCOPE_REGISTER, "offsets", TYPE_I64, make_number(b->nest, EIGHT));
    NestNode *body = NULL, **inside = &body;
    const Index lane =
        make_let_index(b->nest, &inside, "lane",
                       make_value(b->nest, OP_FLOORDIV, make_times(b->nest, p->step, own),
                                  make_number(b->nest, EIGHT)));
    const Index row = make_less(b->nest, own, make_times(b->nest, depth, lane));
    const Index offset = make_add(b->nest, lane, index_scale(b->arena, row, LANES));
    make_store(b->nest, &inside, p->offset, own, NULL, nest_index_value(b->nest, offset));
    column_loop(b, end, LOOP_UNROLLED, j, make_number(b->nest, EIGHT), body);
}

/* Processes a tile's groups of eight rows in the tree's order: first the complete ones, then the
 * incomplete (index-set splitting). Returns the number of all groups. */
static Index by_eights(ColumnPass *p, NestNode ***end) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    const Index depth = make_let_index(b->nest, end, "depth", by_rows(b, 1, 2, 4, 8));
    p->step = make_let_index(b->nest, end, "step", by_rows(b, 8, 4, 2, 1));
    const ValueId few = make_value(b->nest, OP_FLOORDIV,
                                   make_add(b->nest, b->count, make_number(b->nest, EIGHT - 1)),
                                   make_number(b->nest, EIGHT));
    const ValueId many = nest_index_value(nest, index_scale(b->arena, depth, LANES / EIGHT));
    const ValueId is_one = make_value(b->nest, OP_LE, b->count, make_number(b->nest, LANES));
    const Index eights =
        make_let_index(b->nest, end, "eights", ir_op(nest->values, OP_SELECT, is_one, few, many));
    /* a group of eight is complete if each of its lanes has row depth - 1; `ends` counts the lanes
     * that have it */
    const Index reach =
        index_scale(b->arena, make_less(b->nest, depth, make_number(b->nest, 1)), LANES);
    const Index ends = make_let_index(
        b->nest, end, "ends",
        make_value(b->nest, OP_MAX, make_less(b->nest, b->count, reach), make_number(b->nest, 0)));
    const Index wholes =
        make_let_index(b->nest, end, "wholes",
                       make_value(b->nest, OP_FLOORDIV, make_times(b->nest, depth, ends),
                                  make_number(b->nest, EIGHT)));
    find_offsets(p, end, depth);
    int64_t known;
    if (index_is_number(b->width, &known)) {
        eights_of(p, end, make_number(b->nest, 0), wholes, b->width, true);
    } else {
        NestNode *all = NULL, **all_end = &all, *some = NULL, **some_end = &some;
        eights_of(p, &all_end, make_number(b->nest, 0), wholes, make_number(b->nest, b->chunk),
                  true);
        eights_of(p, &some_end, make_number(b->nest, 0), wholes, b->width, true);
        NestNode *test = nest_only_where(
            nest, make_less(b->nest, b->width, make_number(b->nest, b->chunk - 1)), all);
        test->other = some;
        test->version = true;
        make_append(end, test);
    }
    if (column_is_repeatable(p))
        eights_of(p, end, wholes, make_less(b->nest, eights, wholes), b->width, false);
    else
        part_eights(p, end, wholes, make_less(b->nest, eights, wholes), depth);
    return eights;
}

/* ---- lane after lane ---- */

/* Lane after lane, of each its rows; gives how many there are. */
static Index by_lanes(ColumnPass *p, NestNode ***end) {
    ColumnTile *b = p->b;
    const SymbolId lane = make_loop_name(b->nest, "lane"), r = make_loop_name(b->nest, "r");
    const Index lanes = make_let_index(
        b->nest, end, "lanes", make_value(b->nest, OP_MIN, make_number(b->nest, LANES), b->count));
    NestNode *body = NULL, **inside = &body;
    SymbolId *folds = arena_alloc(b->arena, b->tree_count * sizeof *folds);
    const Index left =
        make_less(b->nest, make_add(b->nest, b->count, make_number(b->nest, LANES - 1)),
                  make_symbol(b->nest, lane));
    const Index rows =
        make_let_index(b->nest, &inside, "rows",
                       make_value(b->nest, OP_FLOORDIV, left, make_number(b->nest, LANES)));
    for (size_t i = 0; i < b->tree_count; i++)
        if (column_is_of_pass(p, i))
            folds[i] = column_fold(b, &inside, &b->trees[i], "row", EIGHT, true);
    const Index in_tile = make_add(b->nest, make_symbol(b->nest, lane),
                                   index_scale(b->arena, make_symbol(b->nest, r), LANES));
    column_loop(b, &inside, LOOP_SERIAL, r, rows,
                column_row(p, folds, in_tile, make_symbol(b->nest, r)));
    push_lane(p, &inside, folds, rows, make_symbol(b->nest, lane));
    column_loop(b, end, LOOP_SERIAL, lane, lanes, body);
    return lanes;
}

/* ---- the tile ---- */

/* What the rows have is much work: it is done for all of them first. */
static void rows_ahead(ColumnPass *p, NestNode ***end) {
    enum { WORK_MIN = 4 };
    ColumnTile *b = p->b;
    if (items_work(b->nest, b->row_nodes) < WORK_MIN || column_draws(b, b->row_nodes)) return;
    const SymbolId r = make_loop_name(b->nest, "r");
    const Index own = make_symbol(b->nest, r),
                at = make_less(b->nest, make_symbol(b->nest, b->traversal->name), b->first);
    open_row_values(p, end, "rows", SCOPE_WORKER, TILE);
    NestNode *list = NULL, **inside = &list;
    make_append(&inside, nest_copy(b->arena, b->row_nodes));
    store_row_values(p, &inside, own);
    column_loop(b, end, LOOP_SERIAL, r, b->count,
                at_row(b, list, make_add(b->nest, b->first, own)));
    b->row_nodes = NULL;
    inside = &b->row_nodes;
    for (size_t i = 0; i < p->row_value_count; i++)
        make_load(b->nest, &inside, p->row_values[i], p->rooms[i], at, NULL);
}

/* Without rows a sum of floats is 0, not the identity element (-0.0). */
ValueId column_total(ColumnTile *b, const ColumnTree *tree, ValueId value) {
    Function *f = b->nest->values;
    int64_t known;
    if (!tree->sum || index_is_number(b->rows, &known)) return value; /* a constant is not 0 */
    const ValueId some = make_value(b->nest, OP_GT, b->rows, make_number(b->nest, 0));
    return ir_op(f, OP_SELECT, some, value, ir_constant(f, tree->type, 0));
}

static void take_totals(ColumnPass *p, NestNode ***end, Index count) {
    ColumnTile *b = p->b;
    const SymbolId c = make_loop_name(b->nest, "c");
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!column_is_of_pass(p, i)) continue;
        const SymbolId own = nest_symbol(b->nest, "tile", NAMED_VALUE, tree->type);
        nest_add(b->nest, &inside,
                 (NestNode){.kind = NEST_COMBINE,
                            .name = own,
                            .array = tree->folded,
                            .at = make_at(b->nest, make_symbol(b->nest, c), NULL),
                            .at_count = 1,
                            .extent = count});
        const ValueId value = column_total(b, tree, nest_name(b->nest, own));
        make_store(b->nest, &inside, tree->total, make_symbol(b->nest, c), NULL, value);
    }
    column_loop(b, end, LOOP_SERIAL, c, b->width, body);
}

void column_open_totals(ColumnTile *b, NestNode ***end) {
    for (size_t i = 0; i < b->tree_count; i++)
        b->trees[i].total =
            make_alloc(b->nest, end, b->nest->lanes > 1 ? SCOPE_REGISTER : SCOPE_WORKER,
                       arena_printf(b->arena, "%s_total", b->trees[i].name), b->trees[i].type,
                       make_number(b->nest, b->chunk));
}

void column_tile(ColumnTile *b, NestNode ***end) {
    bool passes[2] = {false, true};
    for (size_t i = 0; i < b->tree_count; i++) passes[0] |= !b->trees[i].last;
    column_open_totals(b, end);
    ColumnPass all = {.b = b, .column_nodes = b->column_nodes};
    column_find_row_values(&all);
    if (!passes[0]) {
        ColumnPass p = column_pass(b, true);
        if (column_by_rows(b, &p, end)) return;
        if (column_by_vectors(b, &p, end)) {
            take_totals(&p, end, (Index){NULL, 0});
            return;
        }
    }
    rows_ahead(&all, end);
    for (int i = 0; i < 2; i++) {
        if (!passes[i]) continue;
        ColumnPass p = column_pass(b, i);
        for (size_t t = 0; t < b->tree_count; t++)
            if (column_is_of_pass(&p, t))
                b->trees[t].folded = column_fold(b, end, &b->trees[t], "lane", LANES, true);
        if (b->tree_count) {
            take_totals(&p, end, column_is_short(&p) ? by_eights(&p, end) : by_lanes(&p, end));
            continue;
        }
        const SymbolId r = make_loop_name(b->nest, "r");
        column_loop(b, end, LOOP_SERIAL, r, b->count,
                    column_row(&p, NULL, make_symbol(b->nest, r), make_number(b->nest, 0)));
    }
}
