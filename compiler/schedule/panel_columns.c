/* panel_columns.c: the schedule of a phase down columns by row panels, so that phases along the
 * same rows read them while they are in cache.
 *
 * A row panel is panel_lanes neighbouring lanes, a power of two, of the tree of a tile of 1024 rows
 * with all their rows, a subtree: in blocks 8 rows each, in threads as many as a lane of so many
 * rows has (ls_lane_rows). It is processed in parts, subtrees of 8 leaves, or of 4 or 2 where
 * rows are long. Each column of a part is folded in registers, four rows at a time where there are
 * four, and the parts are combined through a binary counter in memory of the thread or block; the
 * last part stores the panel's partial value to global memory. One more fold over the partial
 * values of a tile gives the tile's value. Values of rows alone are computed ahead of all columns,
 * with an element for each row (scalar expansion), and so is where a thread's rows lie. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum {
    TILE = 1024,
    LANES = 128,
    AT_ONCE = 16, /* partial values that lanes load ahead of their use */
    EIGHT = 8,
    FOUR = 4,
    LEVELS = 4,       /* of parts of 2, 4 or 8 leaves */
    THREAD_LEVELS = 6 /* of parts of any power of two */
};

static int64_t partials_of(const ColumnTile *b) {
    return LANES / b->items->numbers->panel_lanes;
}

/* ---- memory ---- */

static SymbolId scratch(ColumnTile *b, PlainNest *plain, const char *what, size_t tree,
                        Index extent, bool per_thread) {
    const size_t room = 4 * b->tree_count;
    const char *name = arena_printf(b->arena, "%s_%zu", what, tree);
    if (!plain->scratch) {
        plain->scratch = arena_alloc(b->arena, room * sizeof *plain->scratch);
        plain->per_thread = arena_alloc(b->arena, room * sizeof *plain->per_thread);
    }
    plain->per_thread[plain->scratch_count] = per_thread;
    return plain->scratch[plain->scratch_count++] =
               nest_array(b->nest, name, b->trees[tree].type, ARRAY_TEMPORARY, false, extent);
}

PanelValues panel_values(ColumnTile *b, PlainNest *plain) {
    Nest *nest = b->nest;
    NestNode *none = NULL, **end = &none;
    PanelValues values = {.columns = b->columns->extent};
    if (b->outers) values.columns = make_times(nest, b->outers->extent, values.columns);
    const Index tiles = nest_ceiling(nest, &end, b->rows, TILE, "all_tiles");
    const Index extent = make_times(nest, make_scale(nest, tiles, partials_of(b)), values.columns);
    values.partials = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *values.partials);
    for (size_t i = 0; i < b->tree_count; i++)
        values.partials[i] = scratch(b, plain, "partials", i, extent, false);
    return values;
}

/* ---- several values of a tree as one ---- */

static SymbolId load_new(ColumnTile *b, NestNode ***end, const char *name, Type type,
                         SymbolId array, Index at) {
    const SymbolId own = nest_symbol(b->nest, name, NAMED_VALUE, type);
    make_load(b->nest, end, own, array, at, NULL);
    return own;
}

/* The value of a second tree as it counts where the first ones' together is in the total. */
static ValueId counted(ColumnTile *b, NestNode ***end, const ColumnReduction *own, SymbolId value,
                       SymbolId first, Index column) {
    Nest *nest = b->nest;
    const SymbolId extremum =
        load_new(b, end, "extremum", own->type, b->trees[own->first].total, column);
    return nest_second_under(nest, own->op, own->type, nest_name(nest, value),
                             nest_name(nest, first), nest_name(nest, extremum));
}

static SymbolId combined(ColumnTile *b, NestNode ***end, SymbolId fold, Type type, const Index *at,
                         Index count) {
    const SymbolId own = nest_symbol(b->nest, "all", NAMED_VALUE, type);
    make_combine(b->nest, end, own, fold, at, count);
    return own;
}

/* The total is what comes before it, and itself. */
static void join_total(ColumnTile *b, NestNode ***end, const ColumnTree *tree, Index column,
                       ValueId before, ValueId own) {
    Nest *nest = b->nest;
    const SymbolId pair = column_fold(b, end, tree, "pair", 2, false);
    make_push(nest, end, pair, make_number(nest, 0), NULL, before);
    make_push(nest, end, pair, make_number(nest, 1), NULL, own);
    const SymbolId both = combined(b, end, pair, tree->type, NULL, make_number(nest, 2));
    make_store(nest, end, tree->total, column, NULL, nest_name(nest, both));
}

/* ---- the rows of a part ---- */

/* The number of the part's row `r`. Of a thread each bit of r has its own step. */
static Index number_of(PanelBuilder *s, NestNode ***end, Index r) {
    Nest *nest = s->nest;
    const Index first = s->tile.first;
    if (nest->lanes > 1) return make_add(nest, first, make_scale(nest, r, LANES));
    static const char *const names[2][2] = {{"pair", "in_pair"}, {"four", "in_four"}};
    Index row = first;
    for (int bit = 2; bit > 0; bit--) {
        const Index high =
            make_let_divided(nest, end, names[bit - 1], r, make_number(nest, 1 << bit), &r);
        row = make_add(nest, row, make_times(nest, s->given[PANEL_STEP_0 + bit], high));
    }
    row = make_add(nest, row, make_times(nest, s->given[PANEL_STEP_0], r));
    return make_let_index(nest, end, "row", nest_index_value(nest, row));
}

/* Memory for what a row has, and the loop that fills it. */
static NestNode *keep_rows(PanelBuilder *s) {
    ColumnTile *b = &s->tile;
    Nest *nest = b->nest;
    const bool side_by_side = nest->lanes > 1;
    const SymbolId r = make_loop_name(nest, "r");
    const Index row = make_symbol(nest, r);
    NestNode *first = NULL, **end = &first, *body = NULL, **inside = &body;
    const Index number = number_of(s, &inside, row);
    if (!side_by_side) {
        s->row_of =
            make_alloc(nest, &end, SCOPE_REGISTER, "row_of", TYPE_I64, make_number(nest, EIGHT));
        make_store(nest, &inside, s->row_of, row, NULL, nest_index_value(nest, number));
    }
    make_append(&inside, nest_copy(b->arena, b->row_nodes));
    for (NestNode *node = body; node && side_by_side; node = node->next) {
        node->limit = make_less(nest, s->rows, row);
        node->has_limit = node->kind == NEST_LOAD;
    }
    for (size_t i = 0; i < s->all.row_value_count; i++) {
        const NestSymbol *own = &nest->symbols[s->all.row_values[i]];
        s->all.rooms[i] =
            make_alloc(nest, &end, SCOPE_REGISTER, arena_printf(b->arena, "%s_rows", own->name),
                       own->type, make_number(nest, EIGHT));
        make_store(nest, &inside, s->all.rooms[i], row, NULL,
                   nest_name(nest, s->all.row_values[i]));
    }
    if (!body) return NULL;
    body = nest_clone(nest, nest_put_index(nest, body, b->traversal->name, number));
    if (side_by_side)
        column_loop(b, &end, LOOP_UNROLLED, r, make_number(nest, EIGHT), body);
    else
        column_loop(b, &end, LOOP_SERIAL, r, s->rows, body);
    return first;
}

static Index kept_number(PanelBuilder *s, NestNode ***end, const char *name, SymbolId room,
                         Index row) {
    const SymbolId own = nest_symbol(s->nest, name, NAMED_VALUE, TYPE_I64);
    make_load(s->nest, end, own, room, row, NULL);
    return make_symbol(s->nest, own);
}

NestNode *panel_nodes_of_row(PanelBuilder *s, const ColumnPass *p, Index row, NestNode **kept) {
    Nest *nest = s->nest;
    ColumnTile *b = &s->tile;
    NestNode **end = kept, *nodes = nest_copy(s->arena, p->column_nodes);
    Index number = b->first;
    *kept = NULL;
    for (size_t i = 0; i < s->all.row_value_count && !s->vectors; i++)
        if (nest_body_uses(nest, nodes, s->all.row_values[i]))
            make_load(nest, &end, s->all.row_values[i], s->all.rooms[i], row, NULL);
    if (s->vectors) { /* what the row has is computed anew for each vector */
        NestNode *all = nest_copy(s->arena, b->row_nodes), **all_end = &all;
        while (*all_end) all_end = &(*all_end)->next;
        *all_end = nodes;
        nodes = all;
    }
    if (nest->lanes > 1)
        number = number_of(s, NULL, row);
    else if (nest_body_uses(nest, nodes, b->traversal->name))
        number = kept_number(s, &end, "row", s->row_of, row);
    return nest_put_index(nest, nodes, b->traversal->name, number);
}

/* So many rows from `from` on, those that there are, of each column: they, behind what the totals
 * are before if there is `more`, are the totals. */
static void rows_at_once(PanelBuilder *s, ColumnPass *p, NestNode ***end, Index from, int64_t count,
                         bool whole, bool more) {
    ColumnTile *b = &s->tile;
    Nest *nest = b->nest;
    const SymbolId c = make_loop_name(nest, "c"), j = make_loop_name(nest, "j");
    const Index column = make_symbol(nest, c), own = make_symbol(nest, j);
    const Index row = make_add(nest, from, own);
    SymbolId *folds = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *folds);
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < b->tree_count; i++)
        if (column_is_of_pass(p, i))
            folds[i] = column_fold(b, &inside, &b->trees[i], "rows", count, false);
    NestNode *list, *nodes = panel_nodes_of_row(s, p, row, &list), **list_end = &list;
    column_retarget(p, nodes, folds, NULL, own);
    for (NestNode *node = nodes; node && !whole; node = node->next) {
        node->limit = make_less(nest, s->rows, row);
        node->has_limit = node->kind != NEST_LET;
    }
    while (*list_end) list_end = &(*list_end)->next;
    make_append(&list_end, nodes);
    column_loop(b, &inside, LOOP_UNROLLED, j, make_number(nest, count), list);
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!column_is_of_pass(p, i)) continue;
        const SymbolId value =
            combined(b, &inside, folds[i], tree->type, NULL, make_number(nest, count));
        if (more) {
            const SymbolId before = load_new(b, &inside, "before", tree->type, tree->total, column);
            join_total(b, &inside, tree, column, nest_name(nest, before), nest_name(nest, value));
        } else {
            make_store(nest, &inside, tree->total, column, NULL, nest_name(nest, value));
        }
    }
    column_across(b, end, c, column_at(b, p->ahead, body, column));
}

/* The rows one after the other, each by its columns. */
static void rows_alone(PanelBuilder *s, ColumnPass *p, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = b->nest;
    const SymbolId r = make_loop_name(nest, "r"), c = make_loop_name(nest, "c");
    const Index row = make_symbol(nest, r), column = make_symbol(nest, c);
    SymbolId *folds = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *folds);
    NestNode *own = b->row_nodes, *body = NULL, **inside = &body;
    for (size_t i = 0; i < b->tree_count; i++)
        if (column_is_of_pass(p, i))
            folds[i] = column_fold(b, end, &b->trees[i], "rows", EIGHT, true);
    ColumnPass own_pass = *p;
    own_pass.column_nodes = panel_nodes_of_row(s, p, row, &b->row_nodes);
    column_loop(b, end, LOOP_SERIAL, r, s->rows, column_row(&own_pass, folds, row, row));
    b->row_nodes = own;
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!column_is_of_pass(p, i)) continue;
        const SymbolId value = combined(b, &inside, folds[i], tree->type, &column, s->rows);
        make_store(nest, &inside, tree->total, column, NULL, nest_name(nest, value));
    }
    column_across(b, end, c, body);
}

/* Four rows at once where they make fours; else each with a test of its own: of a thread one after
 * the other, of lanes all at once. */
static void rows_by_fours(PanelBuilder *s, ColumnPass *p, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = b->nest;
    NestNode *fours = NULL, **inside = &fours, *none = NULL, **none_end = &none, *half = NULL,
             **half_end = &half, *other = NULL, **other_end = &other;
    const SymbolId c = make_loop_name(nest, "c"), h = make_loop_name(nest, "h");
    const Index count = nest_floor(nest, end, s->rows, FOUR, "fours");
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!column_is_of_pass(p, i)) continue;
        make_store(nest, &none_end, tree->total, make_symbol(nest, c), NULL,
                   ir_constant(nest->values, tree->type, nest_identity(tree->op, tree->type)));
    }
    column_across(b, &inside, c, none);
    for (int64_t own = 0; own < EIGHT / FOUR && nest->lanes > 1; own++) { /* unrolled */
        NestNode *alone = NULL, **alone_end = &alone;
        rows_at_once(s, p, &alone_end, make_number(nest, own * FOUR), FOUR, true, true);
        make_append(&inside,
                    nest_only_where(nest, make_less(nest, count, make_number(nest, own)), alone));
    }
    if (nest->lanes == 1) {
        rows_at_once(s, p, &half_end, make_scale(nest, make_symbol(nest, h), FOUR), FOUR, true,
                     true);
        column_loop(b, &inside, LOOP_SERIAL, h, count, half);
    }
    if (nest->lanes > 1)
        rows_at_once(s, p, &other_end, make_number(nest, 0), EIGHT, false, false);
    else
        rows_alone(s, p, &other_end);
    const Index left = make_less(nest, s->rows, make_scale(nest, count, FOUR));
    NestNode *test = nest_only_where(nest, make_less(nest, make_number(nest, 1), left), fours);
    test->other = other;
    test->version = true;
    make_append(end, test);
}

/* ---- parts of a panel ---- */

static int64_t levels_of(const Nest *nest) {
    return nest->lanes > 1 ? LEVELS : THREAD_LEVELS;
}

Index panel_level_at(PanelBuilder *s, Index level, Index column) {
    Nest *nest = s->nest;
    const Index own = make_scale(nest, s->given[PANEL_OWNER], levels_of(nest));
    const Index line = make_add(nest, make_add(nest, own, s->level), level);
    return make_add(nest, make_add(nest, make_times(nest, line, s->values.columns), s->at), column);
}

/* The levels that the part completes, and the totals behind them, are the totals. */
static void carry_levels(PanelBuilder *s, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = b->nest;
    const SymbolId c = make_loop_name(nest, "c"), k = make_loop_name(nest, "k");
    const Index column = make_symbol(nest, c),
                level = panel_level_at(s, make_symbol(nest, k), column);
    NestNode *body = NULL, **inside = &body, *across = NULL, **across_end = &across;
    for (size_t i = 0; i < b->reduction_count; i++) {
        const ColumnReduction *own = &b->reductions[i];
        const ColumnTree *tree = &b->trees[own->first];
        const SymbolId low =
            load_new(b, &inside, "before", tree->type, s->levels[own->first], level);
        const SymbolId high = load_new(b, &inside, "own", tree->type, tree->total, column);
        join_total(b, &inside, tree, column, nest_name(nest, low), nest_name(nest, high));
        if (!own->two) continue;
        const ColumnTree *second = tree + 1;
        const SymbolId before =
            load_new(b, &inside, "before", second->type, s->levels[own->first + 1], level);
        const SymbolId after = load_new(b, &inside, "own", second->type, second->total, column);
        const ValueId one = counted(b, &inside, own, before, low, column);
        const ValueId other = counted(b, &inside, own, after, high, column);
        join_total(b, &inside, second, column, one, other);
    }
    column_across(b, &across_end, c, body);
    column_loop(b, end, LOOP_SERIAL, k, s->carry, across);
}

/* Stores the totals to a level, or as the panel's partial values. */
static void leave(PanelBuilder *s, NestNode ***end) {
    ColumnTile *b = &s->tile;
    Nest *nest = b->nest;
    NestNode *lists[2] = {NULL, NULL};
    for (int last = 0; last < 2; last++) {
        const SymbolId c = make_loop_name(nest, "c");
        const Index column = make_symbol(nest, c);
        const Index line = make_times(nest, s->given[PANEL_NUMBER], s->values.columns);
        const Index partial = make_add(nest, make_add(nest, line, s->at), column);
        NestNode *body = NULL, **inside = &body, **list_end = &lists[last];
        for (size_t i = 0; i < b->tree_count; i++) {
            const SymbolId own =
                load_new(b, &inside, "own", b->trees[i].type, b->trees[i].total, column);
            make_store(nest, &inside, last ? s->values.partials[i] : s->levels[i],
                       last ? partial : panel_level_at(s, s->carry, column), NULL,
                       nest_name(nest, own));
        }
        column_across(b, &list_end, c, body);
    }
    NestNode *test = nest_only_where(nest, s->left, lists[0]);
    test->other = lists[1];
    make_append(end, test);
}

static void strip_chunk(PanelBuilder *s, NestNode ***end) {
    ColumnTile *b = &s->tile;
    bool passes[2] = {false, true};
    if (s->vectors) {
        panel_by_vectors(s, end);
        return;
    }
    for (size_t i = 0; i < b->tree_count; i++) passes[0] |= !b->trees[i].last;
    column_open_totals(b, end);
    for (int i = 0; i < 2; i++) {
        ColumnPass p = column_pass(b, i);
        if (!passes[i]) continue;
        if (b->nest->lanes > 1 || column_is_short(&p))
            rows_by_fours(s, &p, end);
        else
            rows_alone(s, &p, end);
    }
    carry_levels(s, end);
    leave(s, end);
}

/* ---- the panel ---- */

static Index derived(PanelBuilder *s, const char *name, ValueId value) {
    return make_symbol(s->nest, nest_derived(s->nest, name, value));
}

/* How many of the powers of two up to 16 divide the number of parts up to and with this one. */
static ValueId carry_of(PanelBuilder *s) {
    Nest *nest = s->nest;
    Function *f = nest->values;
    const Index next = make_add(nest, s->given[PANEL_PART], make_number(nest, 1));
    ValueId carry = make_constant(nest, LEVELS);
    for (int level = LEVELS - 1; level >= 0; level--) {
        const ValueId part = make_value(nest, OP_FLOORDIV, next, make_number(nest, 2 << level));
        const ValueId whole = ir_op(f, OP_MUL, part, make_constant(nest, 2 << level), 0);
        const ValueId divides = ir_op(f, OP_EQ, whole, nest_index_value(nest, next), 0);
        carry = ir_op(f, OP_SELECT, divides, carry, make_constant(nest, level));
    }
    return carry;
}

/* Of a block, whose parts are of a lane's rows. */
static void find_sizes(PanelBuilder *s) {
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    Function *f = nest->values;
    const Index up = make_add(nest, b->rows, make_number(nest, LANES - 1));
    const ValueId there =
        make_value(nest, OP_MAX, make_less(nest, up, b->first), make_number(nest, 0));
    const ValueId lanes = ir_op(f, OP_FLOORDIV, there, make_constant(nest, LANES), 0);
    const int64_t leaves = (int64_t)EIGHT * b->items->numbers->panel_lanes;
    s->rows = derived(s, "part_rows",
                      ir_op(f, OP_MIN, nest_index_value(nest, s->given[PANEL_SPAN]), lanes, 0));
    s->carry = derived(s, "carry", carry_of(s));
    const Index behind = make_add(nest, s->given[PANEL_PART], make_number(nest, 1));
    s->left = make_less(nest, make_number(nest, leaves),
                        make_times(nest, behind, s->given[PANEL_SPAN])); /* leaves */
}

static void take_given(PanelBuilder *s, PlainNest *plain) {
    static const char *const names[PANEL_GIVEN] = {"panel",  "owner",     "first",  "span",
                                                   "part",   "part_rows", "step_0", "step_1",
                                                   "step_2", "level",     "carry",  "left"};
    Nest *nest = s->nest;
    for (int i = 0; i < PANEL_GIVEN; i++) {
        const bool of_thread = i >= PANEL_ROWS && i != PANEL_LEVEL;
        const bool of_block = i == PANEL_PART || i == PANEL_SPAN;
        if (nest->lanes > 1 ? of_thread : of_block) continue;
        plain->panel[i] = nest_size(nest, names[i]);
        s->given[i] = make_symbol(nest, plain->panel[i]);
    }
    s->tile.first = s->given[PANEL_FIRST];
    s->rows = s->given[PANEL_ROWS];
    s->level = s->given[PANEL_LEVEL];
    s->carry = s->given[PANEL_CARRY];
    s->left = s->given[PANEL_LEFT];
    if (nest->lanes > 1) find_sizes(s);
}

/* Loads of what rows at once have go ahead of their uses. */
static void load_first(PanelBuilder *s, int64_t bytes) {
    Nest *nest = s->nest;
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId i = 1; i < count && nest->lanes > 1; i++) {
        NestNode **place = nest_find(&nest->body, i);
        if (place && (*place)->kind == NEST_LOOP && (*place)->loop == LOOP_UNROLLED)
            schedule_jam(nest, *place, bytes, false);
    }
}

static bool uses_outer(PanelBuilder *s) {
    ColumnTile *b = &s->tile;
    bool uses = b->outers && nest_body_uses(s->nest, b->row_nodes, b->outers->name);
    for (const NestNode *node = b->before; node; node = node->next)
        uses |= node->name && nest_body_uses(s->nest, b->row_nodes, node->name);
    return uses;
}

/* What stands behind the node, and behind the condition that it is in, is not part of the panel. */
static void cut_behind(NestNode *body, NestNode *node) {
    for (NestNode *own = body; own; own = own->next) {
        if (own != node && !(own->kind == NEST_WHEN && nest_find(&own->body, node->name))) continue;
        own->next = NULL;
        if (own != node) cut_behind(own->body, node);
        return;
    }
}

static void build(PanelBuilder *s, PlainNest *plain) {
    static const char *const names[] = {"outer", "chunk"};
    ColumnTile *b = &s->tile;
    Nest *nest = s->nest;
    NestNode *outermost = b->outers ? b->outers : b->columns, *body = NULL, **inside = &body;
    NestNode *made = NULL, **end = &made;
    take_given(s, plain);
    s->values = panel_values(b, plain);
    s->levels = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *s->levels);
    const Index owners = make_add(nest, s->given[PANEL_OWNER], make_number(nest, 1));
    for (size_t i = 0; i < b->tree_count; i++)
        s->levels[i] = scratch(
            b, plain, "levels", i,
            make_times(nest, make_scale(nest, owners, levels_of(nest)), s->values.columns), true);
    s->all = (ColumnPass){.b = b, .column_nodes = b->column_nodes};
    column_find_row_values(&s->all);
    const Index chunks = nest_ceiling(nest, &end, b->columns->extent, b->chunk, "chunks");
    const SymbolId piece = s->piece = make_loop_name(nest, "piece");
    plain->panel_chunk = (uint32_t)b->chunk;
    const bool own_rows = uses_outer(s);
    Index pieces = chunks, chunk, outer = make_number(nest, 0);
    if (!own_rows && !s->vectors) make_append(&end, keep_rows(s));
    if (b->outers) {
        pieces = make_times(nest, b->outers->extent, chunks);
        outer = make_let_divided(nest, &inside, names, make_symbol(nest, piece), chunks, &chunk);
        nest_replace(nest, b->before, b->outers->name, outer);
        nest_replace(nest, b->ahead, b->outers->name, outer);
        nest_replace(nest, b->row_nodes, b->outers->name, outer);
        nest_replace(nest, b->column_nodes, b->outers->name, outer);
    } else {
        chunk = make_symbol(nest, piece);
    }
    make_append(&inside, b->before);
    if (own_rows && !s->vectors) make_append(&inside, keep_rows(s));
    b->first_column = make_scale(nest, chunk, b->chunk);
    if (nest->lanes == 1)
        b->width = make_let_min(nest, &inside, "width", b->chunk,
                                make_less(nest, b->columns->extent, b->first_column));
    s->at = make_add(nest, make_times(nest, outer, b->columns->extent), b->first_column);
    strip_chunk(s, &inside);
    NestNode *items = nest_around(nest, LOOP_GRID, piece, pieces, body);
    NestNode **place = nest_find(&nest->body, outermost->name);
    plain->elements = make_times(nest, b->rows, s->values.columns);
    items->range = outermost->range;
    *end = items;
    *place = made;
    cut_behind(nest->body, items);
}

/* A chunk whose columns are all there has a text without limits, whose loads go first like those of
 * the other. */
static void split_chunks(PanelBuilder *s, int64_t bytes) {
    const char *problem = s->vectors ? nest_split_tail(s->nest, s->piece) : "";
    load_first(s, bytes);
    NestNode *test = (*nest_find(&s->nest->body, s->piece))->body;
    if (!problem && test->kind == NEST_IF && test->version)
        schedule_limit_vectors(s->nest, test->body, NULL);
}

PlainNest *schedule_panel(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                          Arena *arena, const char **problem) {
    ItemBuilder items;
    ColumnTile tile = {.items = &items, .arena = arena, .chunk = numbers->chunk};
    if (!columns_begin(&items, plan, phase, numbers, arena, &tile.outers, &tile.columns, problem))
        return NULL;
    PanelBuilder *s = arena_alloc(arena, sizeof *s);
    tile.nest = items.nest;
    *s = (PanelBuilder){.tile = tile, .nest = items.nest, .arena = arena};
    if (column_take(&s->tile)) {
        panel_find_vectors(s);
        if (numbers->lanes == 1 && numbers->layout != LS_LAYOUT_STRIDED)
            schedule_non_temporal(plan, items.plain, s->tile.column_nodes);
        build(s, items.plain);
        split_chunks(s, s->nest->width * numbers->load_bytes);
    }
    return items_end(&items, problem);
}

/* ---- the tile ---- */

/* Pushes a partial value of each tree of the pass to a fold over the tile's panels. */
static void push_partial(ColumnTile *b, const PanelValues *values, NestNode ***end, bool last,
                         const SymbolId *folds, Index at, Index column, Index k,
                         const Index *left) {
    Nest *nest = b->nest;
    for (size_t i = 0; i < b->reduction_count; i++) {
        const ColumnReduction *own = &b->reductions[i];
        const size_t tree = own->first + (own->two && last);
        if (b->trees[tree].last != last) continue;
        NestNode **from = *end;
        const SymbolId value =
            load_new(b, end, "partial", b->trees[tree].type, values->partials[tree], at);
        ValueId leaf = nest_name(nest, value);
        if (own->two && last) {
            const SymbolId extremum =
                load_new(b, end, "own", own->type, values->partials[own->first], at);
            leaf = counted(b, end, own, value, extremum, column);
        }
        make_push(nest, end, folds[tree], left ? k : column, left ? NULL : &k, leaf);
        for (NestNode *node = *from; node && left; node = node->next) {
            node->limit = *left;
            node->has_limit =
                node->kind == NEST_PUSH ||
                (node->kind == NEST_LOAD && node->array != b->trees[own->first].total);
        }
    }
}

static void store_total(ColumnTile *b, NestNode ***end, const ColumnTree *tree, SymbolId fold,
                        Index column, const Index *at, Index count) {
    Nest *nest = b->nest;
    const ValueId all = nest_name(nest, combined(b, end, fold, tree->type, at, count));
    make_store(nest, end, tree->total, column, NULL, column_total(b, tree, all));
}

void panel_partials(ColumnTile *b, const PanelValues *values, Index tile, Index own,
                    NestNode ***end) {
    Nest *nest = b->nest;
    Function *f = nest->values;
    const bool lanes = nest->lanes > 1;
    const ValueId own_lanes =
        ir_op(f, OP_MIN, nest_index_value(nest, b->count), make_constant(nest, LANES), 0);
    const int64_t panel = b->items->numbers->panel_lanes, all = partials_of(b);
    const int64_t at_once = all < AT_ONCE ? all : AT_ONCE;
    const ValueId up = ir_op(f, OP_ADD, own_lanes, make_constant(nest, panel - 1), 0);
    const Index count = make_let_index(nest, end, "partials",
                                       ir_op(f, OP_FLOORDIV, up, make_constant(nest, panel), 0));
    SymbolId *folds = arena_alloc(b->arena, (b->tree_count + 1) * sizeof *folds);
    column_open_totals(b, end);
    for (int last = 0; last < 2; last++) {
        const SymbolId c = make_loop_name(nest, "c"), k = make_loop_name(nest, "k");
        const SymbolId q = make_loop_name(nest, "q");
        const Index column = make_symbol(nest, c);
        Index partial = make_symbol(nest, k);
        if (lanes && all > at_once)
            partial = make_add(nest, partial, make_scale(nest, make_symbol(nest, q), at_once));
        const Index line = make_add(nest, make_scale(nest, tile, all), partial);
        const Index first = make_add(nest, make_times(nest, line, values->columns), own);
        const Index at = make_add(nest, first, column);
        const Index left = make_less(nest, count, partial);
        NestNode *body = NULL, **inside = &body, *list = NULL, **list_end = &list;
        for (size_t i = 0; i < b->tree_count; i++)
            if (b->trees[i].last == last)
                folds[i] =
                    column_fold(b, lanes ? &inside : end, &b->trees[i], "tile", LANES, !lanes);
        push_partial(b, values, &list_end, last, folds, at, column, partial, lanes ? &left : NULL);
        if (!list) continue;
        if (lanes) {
            NestNode *some = NULL, **some_end = &some;
            column_loop(b, &some_end, LOOP_UNROLLED, k, make_number(nest, at_once), list);
            if (all > at_once)
                column_loop(b, &inside, LOOP_SERIAL, q, make_number(nest, all / at_once), some);
            else
                make_append(&inside, some);
        } else {
            NestNode *across = NULL, **across_end = &across;
            column_across(b, &across_end, c, list);
            column_loop(b, end, LOOP_SERIAL, k, count, across);
        }
        const SymbolId own_column = lanes ? c : make_loop_name(nest, "c");
        const Index place = make_symbol(nest, own_column);
        for (size_t i = 0; i < b->tree_count; i++)
            if (b->trees[i].last == last)
                store_total(b, &inside, &b->trees[i], folds[i], place, lanes ? NULL : &place,
                            lanes ? make_number(nest, all) : count);
        column_across(b, end, own_column, body);
    }
}
