/* column_tile.c: what one thread does with a tile of 1024 rows of a chunk of neighbouring columns.
 *
 * The leaves of a column come in the order of its tree: eight of them are a fold in registers, in a
 * loop over the columns around one over the eight rows (unroll and jam), and what these come to
 * goes to a fold of the tile, whose columns lie side by side. A lane of a whole tile has eight
 * rows; of a shorter one as many lanes as make eight go together. Where a tile ends some of the
 * eight may be missing: the last row stands in for them, and they count as the identity. What
 * belongs to a row is found once for all columns (invariant code motion, with an element for each
 * row where it is), where that is much work for the whole tile first. Where an element is much work
 * the loops are interchanged: a row after the other, each by its columns.
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

/* ---- indices and nodes ---- */

static Index number(ColumnTile *b, int64_t n) {
    return index_number(b->arena, n);
}

static Index symbol(ColumnTile *b, SymbolId id) {
    return index_symbol(b->arena, id);
}

static Index add(ColumnTile *b, Index x, Index y) {
    return index_add(b->arena, x, y);
}

static Index less(ColumnTile *b, Index x, Index y) {
    return index_subtract(b->arena, x, y);
}

static Index times(ColumnTile *b, Index x, Index y) {
    return index_multiply(b->arena, x, y);
}

static SymbolId named(ColumnTile *b, const char *name, NamedKind kind, Type type) {
    return nest_symbol(b->nest, name, kind, type);
}

static SymbolId loop_named(ColumnTile *b, const char *name) {
    return named(b, name, NAMED_LOOP, TYPE_I64);
}

static ValueId constant(ColumnTile *b, int64_t n) {
    return ir_constant(b->nest->values, TYPE_I64, (uint64_t)n);
}

static ValueId value_of(ColumnTile *b, Op op, Index x, Index y) {
    return ir_op(b->nest->values, op, nest_index_value(b->nest, x), nest_index_value(b->nest, y),
                 0);
}

static SymbolId let(ColumnTile *b, NestNode ***end, const char *name, Type type, ValueId value) {
    const SymbolId own = named(b, name, NAMED_VALUE, type);
    nest_add(b->nest, end, (NestNode){.kind = NEST_LET, .name = own, .value = value});
    return own;
}

static Index let_index(ColumnTile *b, NestNode ***end, const char *name, ValueId value) {
    return symbol(b, let(b, end, name, TYPE_I64, value));
}

static Index *subscripts(ColumnTile *b, Index first, const Index *second) {
    Index *list = nest_at(b->nest, second ? 2 : 1);
    list[0] = first;
    if (second) list[1] = *second;
    return list;
}

void column_store(ColumnTile *b, NestNode ***end, SymbolId array, Index at, const Index *second,
                  ValueId value) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_STORE,
                        .array = array,
                        .at = subscripts(b, at, second),
                        .at_count = second ? 2 : 1,
                        .value = value});
}

void column_load(ColumnTile *b, NestNode ***end, SymbolId name, SymbolId array, Index at,
                 const Index *second) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = name,
                        .array = array,
                        .at = subscripts(b, at, second),
                        .at_count = second ? 2 : 1});
}

void column_loop(ColumnTile *b, NestNode ***end, LoopKind kind, SymbolId name, Index extent,
                 NestNode *body) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_LOOP,
                        .loop = kind,
                        .name = name,
                        .extent = extent,
                        .body = body,
                        .range = b->walk->range});
}

static void push(ColumnTile *b, NestNode ***end, SymbolId fold, Index c, Index leaf,
                 SymbolId value) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_PUSH,
                        .array = fold,
                        .at = subscripts(b, c, &leaf),
                        .at_count = 2,
                        .value = nest_name(b->nest, value)});
}

static SymbolId alloc(ColumnTile *b, NestNode ***end, NestScope scope, const char *name, Type type,
                      int64_t extent) {
    const SymbolId own = named(b, name, NAMED_ALLOC, type);
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = scope,
                        .name = own,
                        .at = subscripts(b, number(b, extent), NULL),
                        .at_count = 1});
    return own;
}

static SymbolId fold(ColumnTile *b, NestNode ***end, const ColumnTree *tree, const char *what,
                     int64_t leaves, bool beside) {
    const char *name = arena_printf(b->arena, "%s_%s", tree->name, what);
    const SymbolId id = named(b, name, NAMED_TREE, tree->type);
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_FOLD,
                        .name = id,
                        .op = tree->op,
                        .type = tree->type,
                        .extent = number(b, leaves),
                        .at = subscripts(b, number(b, b->chunk), NULL),
                        .at_count = beside});
    return id;
}

static void append(NestNode ***end, NestNode *body) {
    **end = body;
    while (**end) *end = &(**end)->next;
}

/* ---- a pass: what is done with the tile's elements at a time ---- */

typedef struct Pass {
    ColumnTile *b;
    bool last;
    NestNode *ahead, *column_nodes;
    SymbolId *kept; /* values of rows that columns use */
    size_t kept_count;
    bool places; /* and the row's number */
    /* of eight rows at a time */
    Index step;      /* lanes that make eight */
    SymbolId offset; /* of the eight rows from the first on */
    Index e;         /* the number of the eight */
    SymbolId live;   /* which of the eight are there, 0: all */
    SymbolId *rooms; /* of each, and of the row's number */
} Pass;

static bool is_of_pass(const Pass *p, size_t tree) {
    return p->b->trees[tree].last == p->last;
}

static void find_kept(Pass *p) {
    ColumnTile *b = p->b;
    size_t count = 1;
    for (const NestNode *node = b->row_nodes; node; node = node->next) count++;
    p->kept = arena_alloc(b->arena, count * sizeof *p->kept);
    p->rooms = arena_alloc(b->arena, count * sizeof *p->rooms);
    for (NestNode *node = p->column_nodes; node; node = node->next) {
        NestNode alone = *node;
        if (alone.kind == NEST_PUSH) alone.at_count = 0;
        alone.next = NULL;
        p->places |= nest_body_uses(b->nest, &alone, b->walk->name);
    }
    for (const NestNode *node = b->row_nodes; node; node = node->next) {
        if (!nest_body_uses(b->nest, p->column_nodes, node->name)) continue;
        p->kept[p->kept_count++] = node->name;
    }
}

/* The nodes of the first pass: values, and what is pushed to trees of it. Those of the last: what
 * the first has left stands ahead of them, and leaves of second trees are made of it. */
static Pass open_pass(ColumnTile *b, bool last) {
    Nest *nest = b->nest;
    Pass p = {.b = b, .last = last};
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
        const SymbolId top = named(b, "top", NAMED_VALUE, own->type);
        column_load(b, &ahead_end, top, b->trees[own->first].total,
                    less(b, symbol(b, b->columns->name), b->first_column), NULL);
        const SymbolId base = let(b, &ahead_end, "base", own->type,
                                  nest_second_base(nest, own->op, own->type, nest_name(nest, top)));
        copy->value = nest_second_leaf(nest, own->op, own->type, node->value, nest_name(nest, base),
                                       symbol(b, b->walk->name));
    }
    find_kept(&p);
    return p;
}

static bool has_draws(const Nest *nest, ValueId id) {
    const Value *values = nest->values->values, *v = &values[id];
    if (!id) return false;
    if (v->op == OP_RANDOM_BITS || v->op == OP_RANDOM_UNIFORM || v->op == OP_RANDOM_NORMAL ||
        v->op == OP_CALL)
        return true;
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (has_draws(nest, v->arg[i])) return true;
    return false;
}

static bool have_draws(const Nest *nest, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if (has_draws(nest, node->value)) return true;
    return false;
}

/* Whether what is done with an element may stand there eight times. */
static bool is_short(const Pass *p) {
    enum { WORK_MOST = 24 };
    ColumnTile *b = p->b;
    for (const NestNode *node = p->column_nodes; node; node = node->next)
        if (node->kind == NEST_ADD) return false;
    return !have_draws(b->nest, p->column_nodes) && !have_draws(b->nest, b->row_nodes) &&
           items_work(b->nest, p->column_nodes) <= WORK_MOST;
}

/* Whether it may as well be done for a row that is not there. */
static bool is_light(const Pass *p) {
    enum { WORK_MOST = 8 };
    return !nest_has(p->column_nodes, NEST_STORE) &&
           items_work(p->b->nest, p->column_nodes) <= WORK_MOST;
}

/* ---- copies ---- */

/* The nodes at a row, with names of their own. */
static NestNode *at_row(ColumnTile *b, NestNode *nodes, Index row) {
    NestNode *copy = nest_put_index(b->nest, nest_copy(b->arena, nodes), b->walk->name, row);
    return nest_clone(b->nest, copy);
}

static NestNode *at_column(ColumnTile *b, NestNode *ahead, NestNode *nodes, Index c) {
    NestNode *first = NULL, **end = &first;
    append(&end, nest_copy(b->arena, ahead));
    append(&end, nest_copy(b->arena, nodes));
    first = nest_clone(b->nest, first);
    return nest_put_index(b->nest, first, b->columns->name, add(b, b->first_column, c));
}

NestNode *column_nodes(ColumnTile *b, NestNode *nodes, Index c, bool stores) {
    NestNode *ahead = NULL, **end = &ahead;
    for (const NestNode *node = b->ahead; node; node = node->next)
        if (stores || node->kind != NEST_STORE) nest_add(b->nest, &end, *node);
    return at_column(b, ahead, nodes, c);
}

/* From now on what is pushed goes to the folds, at `c` where they lie side by side. */
static void retarget(Pass *p, NestNode *body, const SymbolId *folds, const Index *c, Index leaf) {
    ColumnTile *b = p->b;
    for (NestNode *node = body; node; node = node->next)
        for (size_t i = 0; i < b->tree_count; i++) {
            if (node->kind != NEST_PUSH || node->array != b->trees[i].source) continue;
            node->array = folds[i];
            node->at = c ? subscripts(b, *c, &leaf) : subscripts(b, leaf, NULL);
            node->at_count = c ? 2 : 1;
            break;
        }
}

/* Memory for what so many rows have. */
static void open_kept(Pass *p, NestNode ***end, const char *what, NestScope scope, int64_t count) {
    for (size_t i = 0; i < p->kept_count; i++) {
        const NestSymbol *own = &p->b->nest->symbols[p->kept[i]];
        p->rooms[i] = alloc(p->b, end, scope, arena_printf(p->b->arena, "%s_%s", own->name, what),
                            own->type, count);
    }
}

static void store_kept(Pass *p, NestNode ***end, Index at) {
    for (size_t i = 0; i < p->kept_count; i++)
        column_store(p->b, end, p->rooms[i], at, NULL, nest_name(p->b->nest, p->kept[i]));
}

/* ---- a row at a time ---- */

/* What each column comes to in a fold, pushed to the tile's. */
static void push_lane(Pass *p, NestNode ***end, const SymbolId *folds, Index rows, Index lane) {
    ColumnTile *b = p->b;
    const SymbolId c = loop_named(b, "c");
    NestNode *body = NULL, **inside = &body;
    for (size_t i = 0; i < b->tree_count; i++) {
        if (!is_of_pass(p, i)) continue;
        const SymbolId value = named(b, "lane", NAMED_VALUE, b->trees[i].type);
        nest_add(b->nest, &inside,
                 (NestNode){.kind = NEST_COMBINE,
                            .name = value,
                            .array = folds[i],
                            .at = subscripts(b, symbol(b, c), NULL),
                            .at_count = 1,
                            .extent = rows});
        push(b, &inside, b->trees[i].folded, symbol(b, c), lane, value);
    }
    column_loop(b, end, LOOP_SERIAL, c, b->width, body);
}

/* Each of the rows, by its columns: the row's number in the tile, as a leaf its own. */
static NestNode *whole_row(Pass *p, const SymbolId *folds, Index in_tile, Index leaf) {
    ColumnTile *b = p->b;
    const SymbolId c = loop_named(b, "c");
    const Index column = symbol(b, c);
    NestNode *row = NULL, **end = &row;
    append(&end, nest_copy(b->arena, b->row_nodes));
    NestNode *nodes = nest_copy(b->arena, p->column_nodes);
    if (folds) retarget(p, nodes, folds, &column, leaf);
    column_loop(b, &end, LOOP_SERIAL, c, b->width, at_column(b, p->ahead, nodes, column));
    return at_row(b, row, add(b, b->first, in_tile));
}

/* ---- eight rows at once ---- */

/* What the eight rows have of their own. */
static void keep_rows(Pass *p, NestNode ***end, bool all) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    const SymbolId j = loop_named(b, "j"), offset = named(b, "offset", NAMED_VALUE, TYPE_I64);
    const Index own = symbol(b, j);
    open_kept(p, end, "eight", SCOPE_REGISTER, EIGHT);
    SymbolId *const places = &p->rooms[p->kept_count];
    if (p->places) *places = alloc(b, end, SCOPE_REGISTER, "at_eight", TYPE_I64, EIGHT);
    p->live = all ? 0 : alloc(b, end, SCOPE_REGISTER, "live_eight", TYPE_BOOL, EIGHT);
    NestNode *body = NULL, **inside = &body, *list = NULL, **list_end = &list;
    column_load(b, &inside, offset, p->offset, own, NULL);
    Index in_tile = add(b, symbol(b, offset), times(b, p->step, p->e));
    if (!all) {
        const Index last = less(b, b->count, number(b, 1));
        column_store(b, &inside, p->live, own, NULL, value_of(b, OP_LT, in_tile, b->count));
        in_tile = let_index(b, &inside, "near", value_of(b, OP_MIN, in_tile, last));
    }
    const ValueId at = nest_index_value(nest, add(b, b->first, in_tile));
    const Index row = let_index(b, &inside, nest->symbols[b->walk->name].name, at);
    append(&list_end, nest_copy(b->arena, b->row_nodes));
    store_kept(p, &list_end, own);
    if (p->places) column_store(b, &list_end, *places, own, NULL, nest_index_value(nest, row));
    append(&inside, at_row(b, list, row));
    column_loop(b, end, LOOP_UNROLLED, j, number(b, EIGHT), body);
}

/* The eight rows of so many columns, each alone. */
static void eight_columns(Pass *p, NestNode ***end, Index width) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    const SymbolId c = loop_named(b, "c"), j = loop_named(b, "j");
    SymbolId *folds = arena_alloc(b->arena, b->tree_count * sizeof *folds);
    NestNode *body = NULL, **inside = &body, *list = NULL, **list_end = &list;
    for (size_t i = 0; i < b->tree_count; i++)
        if (is_of_pass(p, i)) folds[i] = fold(b, &inside, &b->trees[i], "eight", EIGHT, false);
    const char *name = nest->symbols[b->walk->name].name;
    const SymbolId place = p->places ? named(b, name, NAMED_VALUE, TYPE_I64) : 0;
    const SymbolId live = p->live ? named(b, "live", NAMED_VALUE, TYPE_BOOL) : 0;
    const Index own = symbol(b, j);
    if (place) column_load(b, &list_end, place, p->rooms[p->kept_count], own, NULL);
    for (size_t i = 0; i < p->kept_count; i++)
        column_load(b, &list_end, p->kept[i], p->rooms[i], own, NULL);
    if (live) column_load(b, &list_end, live, p->live, own, NULL);
    NestNode *nodes = nest_copy(b->arena, p->column_nodes);
    retarget(p, nodes, folds, NULL, own);
    if (place) nodes = nest_put_index(nest, nodes, b->walk->name, symbol(b, place));
    for (NestNode *node = nodes; node && live; node = node->next)
        if (node->kind == NEST_PUSH) node->where = live;
    append(&list_end, nodes);
    column_loop(b, &inside, LOOP_UNROLLED, j, number(b, EIGHT), list);
    for (size_t i = 0; i < b->tree_count; i++) {
        if (!is_of_pass(p, i)) continue;
        const SymbolId value = named(b, "eight", NAMED_VALUE, b->trees[i].type);
        nest_add(
            nest, &inside,
            (NestNode){
                .kind = NEST_COMBINE, .name = value, .array = folds[i], .at = nest_at(nest, 0)});
        push(b, &inside, b->trees[i].folded, symbol(b, c), p->e, value);
    }
    column_loop(b, end, LOOP_SERIAL, c, width, at_column(b, p->ahead, body, symbol(b, c)));
}

/* So many eights from the first on, of so many columns each. */
static void eights_of(Pass *p, NestNode ***end, Index first, Index count, Index width, bool all) {
    const SymbolId e = loop_named(p->b, "e");
    NestNode *body = NULL, **inside = &body;
    p->e = add(p->b, first, symbol(p->b, e));
    keep_rows(p, &inside, all);
    eight_columns(p, &inside, width);
    column_loop(p->b, end, LOOP_SERIAL, e, count, body);
}

/* So many eights from the first on, some of whose rows are missing, a row after the other. In a
 * tile of eight rows a lane, or of one, those are the last. */
static void part_eights(Pass *p, NestNode ***end, Index first, Index count, Index depth) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    Function *f = nest->values;
    const SymbolId e = loop_named(b, "e"), j = loop_named(b, "j"), c = loop_named(b, "c");
    const SymbolId offset = named(b, "offset", NAMED_VALUE, TYPE_I64);
    SymbolId *folds = arena_alloc(b->arena, b->tree_count * sizeof *folds);
    NestNode *body = NULL, **inside = &body, *row = NULL, **row_end = &row;
    NestNode *none = NULL, **none_end = &none, *empty = NULL, **empty_end = &empty;
    p->e = add(b, first, symbol(b, e));
    const Index lane_rows = less(b, add(b, b->count, number(b, LANES - 1)), p->e);
    const ValueId eight = value_of(b, OP_FLOORDIV, lane_rows, number(b, LANES));
    const Index lanes_left = less(b, b->count, index_scale(b->arena, p->e, EIGHT));
    const ValueId some = ir_op(f, OP_SELECT, value_of(b, OP_LT, depth, number(b, 2)),
                               nest_index_value(nest, lanes_left), constant(b, EIGHT));
    const ValueId lives = ir_op(f, OP_SELECT, value_of(b, OP_GT, depth, number(b, 4)), eight, some);
    const Index rows = let_index(b, &inside, "lives", lives);
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!is_of_pass(p, i)) continue;
        folds[i] = fold(b, &inside, tree, "row", EIGHT, true);
        nest_add(
            nest, &none_end,
            (NestNode){.kind = NEST_PUSH,
                       .array = folds[i],
                       .at = subscripts(b, symbol(b, c), &(Index){NULL, 0}),
                       .at_count = 2,
                       .value = ir_constant(f, tree->type, nest_identity(tree->op, tree->type))});
    }
    for (NestNode *node = none; node; node = node->next) node->at[1] = symbol(b, j);
    column_loop(b, &empty_end, LOOP_SERIAL, c, b->width, none);
    column_load(b, &row_end, offset, p->offset, symbol(b, j), NULL);
    const Index in_tile = add(b, symbol(b, offset), times(b, p->step, p->e));
    NestNode *test = nest_only_where(nest, less(b, b->count, in_tile),
                                     whole_row(p, folds, in_tile, symbol(b, j)));
    test->other = empty;
    append(&row_end, test);
    column_loop(b, &inside, LOOP_SERIAL, j, rows, row);
    push_lane(p, &inside, folds, rows, p->e);
    column_loop(b, end, LOOP_SERIAL, e, count, body);
}

/* A number that hangs on how many rows of 128 the tile has. */
static ValueId by_rows(ColumnTile *b, int64_t one, int64_t two, int64_t four, int64_t eight) {
    Function *f = b->nest->values;
    const int64_t numbers[] = {one, two, four, eight};
    ValueId value = constant(b, eight);
    for (int i = 2; i >= 0; i--) {
        const ValueId fits = value_of(b, OP_LE, b->count, number(b, LANES << i));
        value = ir_op(f, OP_SELECT, fits, constant(b, numbers[i]), value);
    }
    return value;
}

/* Where the eight rows lie from the first of the eight on. */
static void find_offsets(Pass *p, NestNode ***end, Index depth) {
    ColumnTile *b = p->b;
    const SymbolId j = loop_named(b, "j");
    const Index own = symbol(b, j);
    p->offset = alloc(b, end, SCOPE_REGISTER, "offsets", TYPE_I64, EIGHT);
    NestNode *body = NULL, **inside = &body;
    const Index lane = let_index(
        b, &inside, "lane", value_of(b, OP_FLOORDIV, times(b, p->step, own), number(b, EIGHT)));
    const Index row = less(b, own, times(b, depth, lane));
    const Index offset = add(b, lane, index_scale(b->arena, row, LANES));
    column_store(b, &inside, p->offset, own, NULL, nest_index_value(b->nest, offset));
    column_loop(b, end, LOOP_UNROLLED, j, number(b, EIGHT), body);
}

/* The eights of a tile in the tree's order, each lane of one, two, four or eight rows: first those
 * that are all there (index-set splitting); gives how many there are. */
static Index by_eights(Pass *p, NestNode ***end) {
    ColumnTile *b = p->b;
    Nest *nest = b->nest;
    const Index depth = let_index(b, end, "depth", by_rows(b, 1, 2, 4, 8));
    p->step = let_index(b, end, "step", by_rows(b, 8, 4, 2, 1));
    const ValueId few =
        value_of(b, OP_FLOORDIV, add(b, b->count, number(b, EIGHT - 1)), number(b, EIGHT));
    const ValueId many = nest_index_value(nest, index_scale(b->arena, depth, LANES / EIGHT));
    const ValueId is_one = value_of(b, OP_LE, b->count, number(b, LANES));
    const Index eights =
        let_index(b, end, "eights", ir_op(nest->values, OP_SELECT, is_one, few, many));
    /* lanes that have a last row make whole eights */
    const Index reach = index_scale(b->arena, less(b, depth, number(b, 1)), LANES);
    const Index ends =
        let_index(b, end, "ends", value_of(b, OP_MAX, less(b, b->count, reach), number(b, 0)));
    const Index wholes = let_index(
        b, end, "wholes", value_of(b, OP_FLOORDIV, times(b, depth, ends), number(b, EIGHT)));
    find_offsets(p, end, depth);
    int64_t known;
    if (index_is_number(b->width, &known)) {
        eights_of(p, end, number(b, 0), wholes, b->width, true);
    } else {
        NestNode *all = NULL, **all_end = &all, *some = NULL, **some_end = &some;
        eights_of(p, &all_end, number(b, 0), wholes, number(b, b->chunk), true);
        eights_of(p, &some_end, number(b, 0), wholes, b->width, true);
        NestNode *test = nest_only_where(nest, less(b, b->width, number(b, b->chunk - 1)), all);
        test->other = some;
        append(end, test);
    }
    if (is_light(p))
        eights_of(p, end, wholes, less(b, eights, wholes), b->width, false);
    else
        part_eights(p, end, wholes, less(b, eights, wholes), depth);
    return eights;
}

/* ---- lane after lane ---- */

/* Lane after lane, of each its rows; gives how many there are. */
static Index by_lanes(Pass *p, NestNode ***end) {
    ColumnTile *b = p->b;
    const SymbolId lane = loop_named(b, "lane"), r = loop_named(b, "r");
    const Index lanes = let_index(b, end, "lanes", value_of(b, OP_MIN, number(b, LANES), b->count));
    NestNode *body = NULL, **inside = &body;
    SymbolId *folds = arena_alloc(b->arena, b->tree_count * sizeof *folds);
    const Index left = less(b, add(b, b->count, number(b, LANES - 1)), symbol(b, lane));
    const Index rows =
        let_index(b, &inside, "rows", value_of(b, OP_FLOORDIV, left, number(b, LANES)));
    for (size_t i = 0; i < b->tree_count; i++)
        if (is_of_pass(p, i)) folds[i] = fold(b, &inside, &b->trees[i], "row", EIGHT, true);
    const Index in_tile = add(b, symbol(b, lane), index_scale(b->arena, symbol(b, r), LANES));
    column_loop(b, &inside, LOOP_SERIAL, r, rows, whole_row(p, folds, in_tile, symbol(b, r)));
    push_lane(p, &inside, folds, rows, symbol(b, lane));
    column_loop(b, end, LOOP_SERIAL, lane, lanes, body);
    return lanes;
}

/* ---- the tile ---- */

/* What the rows have is much work: it is done for all of them first. */
static void rows_ahead(Pass *p, NestNode ***end) {
    enum { WORK_LEAST = 4 };
    ColumnTile *b = p->b;
    if (items_work(b->nest, b->row_nodes) < WORK_LEAST || have_draws(b->nest, b->row_nodes)) return;
    const SymbolId r = loop_named(b, "r");
    const Index own = symbol(b, r), at = less(b, symbol(b, b->walk->name), b->first);
    open_kept(p, end, "rows", SCOPE_WORKER, TILE);
    NestNode *list = NULL, **inside = &list;
    append(&inside, nest_copy(b->arena, b->row_nodes));
    store_kept(p, &inside, own);
    column_loop(b, end, LOOP_SERIAL, r, b->count, at_row(b, list, add(b, b->first, own)));
    b->row_nodes = NULL;
    inside = &b->row_nodes;
    for (size_t i = 0; i < p->kept_count; i++)
        column_load(b, &inside, p->kept[i], p->rooms[i], at, NULL);
}

/* Of no rows a sum of floats is 0, and not what adds nothing. */
static void take_totals(Pass *p, NestNode ***end, Index count) {
    ColumnTile *b = p->b;
    Function *f = b->nest->values;
    const SymbolId c = loop_named(b, "c");
    NestNode *body = NULL, **inside = &body;
    int64_t known;
    const bool some = index_is_number(b->rows, &known) && known > 0;
    for (size_t i = 0; i < b->tree_count; i++) {
        const ColumnTree *tree = &b->trees[i];
        if (!is_of_pass(p, i)) continue;
        const SymbolId own = named(b, "tile", NAMED_VALUE, tree->type);
        nest_add(b->nest, &inside,
                 (NestNode){.kind = NEST_COMBINE,
                            .name = own,
                            .array = tree->folded,
                            .at = subscripts(b, symbol(b, c), NULL),
                            .at_count = 1,
                            .extent = count});
        ValueId value = nest_name(b->nest, own);
        if (tree->sum && !some)
            value = ir_op(f, OP_SELECT, value_of(b, OP_GT, b->rows, number(b, 0)), value,
                          ir_constant(f, tree->type, 0));
        column_store(b, &inside, tree->total, symbol(b, c), NULL, value);
    }
    column_loop(b, end, LOOP_SERIAL, c, b->width, body);
}

void column_tile(ColumnTile *b, NestNode ***end) {
    bool passes[2] = {false, true};
    for (size_t i = 0; i < b->tree_count; i++) {
        ColumnTree *tree = &b->trees[i];
        tree->total = alloc(b, end, SCOPE_WORKER, arena_printf(b->arena, "%s_total", tree->name),
                            tree->type, b->chunk);
        passes[0] |= !tree->last;
    }
    Pass all = {.b = b, .column_nodes = b->column_nodes};
    find_kept(&all);
    rows_ahead(&all, end);
    for (int i = 0; i < 2; i++) {
        if (!passes[i]) continue;
        Pass p = open_pass(b, i);
        for (size_t t = 0; t < b->tree_count; t++)
            if (is_of_pass(&p, t))
                b->trees[t].folded = fold(b, end, &b->trees[t], "lane", LANES, true);
        if (b->tree_count) {
            take_totals(&p, end, is_short(&p) ? by_eights(&p, end) : by_lanes(&p, end));
            continue;
        }
        const SymbolId r = loop_named(b, "r");
        column_loop(b, end, LOOP_SERIAL, r, b->count,
                    whole_row(&p, NULL, symbol(b, r), number(b, 0)));
    }
}
