/* map.c: the schedule of a map: its elements in items of 1024, whatever their axes.
 *
 * The loops over the axes become one where every array lets them (coalescing), and an item is a run
 * of it. Where 32 lanes work on an item, of 512 elements then and of 128 in a loop over time, a
 * lane takes vectors: several of a whole item at once, loads first, or first all that are whole,
 * then the elements that are left. Where one thread does, what is not one loop stays two, and an
 * item goes through the rows that it touches; stores of what nobody reads again go past the caches,
 * item by item, as draws are made; else a thread takes all items of its share as one. Of a list an
 * entry of the runtime's table says which item of which tensor is next. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { ITEM = 1024, LANES_ITEM = 512, VECTOR = 16, TIME_WIDTH = 4 };

/* Over time a lane has one vector, so that as many lanes as there can be are under way. */
uint32_t schedule_map_item(const Plan *plan, uint32_t phase, uint32_t lanes, bool over_time) {
    const bool list = ir_list_axis(plan->function, plan->phases[phase].inner) >= 0;
    if (over_time) return TIME_WIDTH * lanes;
    return lanes > 1 && !list ? LANES_ITEM : ITEM;
}

typedef struct MapBuilder {
    Nest *nest;
    Arena *arena;
    const MapNumbers *numbers;
    NestNode **place; /* where the outermost loop over elements stands */
    int64_t item;     /* elements of an item */
    SymbolId rows;    /* the unrolled loop over rows of whole items; 0: there is none */
    bool list, by_columns;
} MapBuilder;

/* ---- one loop over elements ---- */

/* The loops that stand alone in each other from `loop` on; gives how many. */
static size_t find_loops(NestNode *loop, SymbolId *names) {
    size_t count = 0;
    for (; loop && loop->kind == NEST_LOOP && count < LS_AXES_MAX; loop = loop->body) {
        names[count++] = loop->name;
        if (!loop->body || loop->body->next) break;
    }
    return count;
}

/* Whatever can be one loop is: from the innermost pair outwards. Without divisions two loops may
 * stay, over rows and along them; those further out join the rows'. */
static void join_loops(MapBuilder *b, bool divide) {
    SymbolId names[LS_AXES_MAX];
    for (size_t i = find_loops(*b->place, names) - 1; i-- > 0;)
        if (nest_coalesce(b->nest, names[i], divide)) divide = true;
}

static NestNode *only_loop(NestNode *body) {
    while (body && body->kind != NEST_LOOP) body = body->next;
    return body;
}

/* ---- items ---- */

/* The body with the loop's index as given, and with names of its own. */
static NestNode *instance(MapBuilder *b, const NestNode *loop, Index at) {
    return nest_put_index(b->nest, nest_clone(b->nest, loop->body), loop->name, at);
}

/* A lane's vector of a row: the loop over its elements, from `at` on. */
static NestNode *vector_of(MapBuilder *b, const NestNode *loop, Index at) {
    const SymbolId e = make_loop_name(b->nest, "e");
    return nest_around(b->nest, LOOP_VECTOR, e, make_number(b->nest, b->nest->width),
                       instance(b, loop, make_add(b->nest, at, make_symbol(b->nest, e))));
}

/* Neighbours a lane at a time. Behind the last whole vector, fewer elements than one are left. */
static NestNode *lanes_of_item(MapBuilder *b, const NestNode *loop, Index item) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const int64_t width = nest->width, stride = (int64_t)nest->lanes * width;
    const SymbolId lane = make_loop_name(b->nest, "lane"), row = make_loop_name(b->nest, "row");
    const Index begin = make_scale(b->nest, item, b->item);
    const Index whole = index_scale(
        b->arena, nest_floor(nest, &end, loop->extent, width, width == 8 ? "eights" : "fours"),
        width);
    Index at = make_add(b->nest, begin, make_scale(b->nest, make_symbol(b->nest, row), stride));
    at = make_add(b->nest, at, make_scale(b->nest, make_symbol(b->nest, lane), width));
    const Index left =
        make_less(b->nest, loop->extent, make_add(b->nest, at, make_number(b->nest, width - 1)));
    NestNode *body = width > 1 ? vector_of(b, loop, at) : instance(b, loop, at);
    body = nest_only_where(nest, left, body);
    body = nest_around(nest, LOOP_SERIAL, row, make_number(b->nest, b->item / stride), body);
    *end = nest_around(nest, LOOP_LANE, lane, make_number(b->nest, nest->lanes), body);
    end = &(*end)->next;
    if (width == 1) return first;
    const SymbolId rest = make_loop_name(b->nest, "lane");
    at = make_add(b->nest, whole, make_symbol(b->nest, rest));
    body = nest_only_where(nest, make_less(b->nest, loop->extent, at), instance(b, loop, at));
    body = nest_around(nest, LOOP_LANE, rest, make_number(b->nest, nest->lanes), body);
    *end = nest_only_where(
        nest, make_less(b->nest, make_add(b->nest, begin, make_number(b->nest, b->item)), whole),
        body);
    return first;
}

/* How many rows of an item a lane takes side by side: those whose loads are under way together
 * have so many bytes at most, and their text is not too long. */
static int64_t rows_at_once(const MapBuilder *b, const NestNode *loop) {
    enum { LOAD_BYTES = 64, WORK_MAX = 1024 };
    const int64_t width = b->nest->width, work = width * items_work(b->nest, loop->body);
    int64_t bytes = 0, rows = b->item / (b->nest->lanes * width);
    for (const NestNode *node = loop->body; node; node = node->next)
        if (node->kind == NEST_LOAD)
            bytes += width * (int64_t)type_info[b->nest->symbols[node->array].type].size;
    while (rows > 1 && (rows * bytes > LOAD_BYTES || rows * work > WORK_MAX)) rows /= 2;
    return rows;
}

static bool is_straight(const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if (node->body || node->other) return false;
    return true;
}

/* An item of which all elements exist: rows side by side, without tests. */
static NestNode *whole_item(MapBuilder *b, const NestNode *loop, Index item, int64_t rows) {
    Nest *nest = b->nest;
    const int64_t width = nest->width, stride = (int64_t)nest->lanes * width;
    const SymbolId lane = make_loop_name(nest, "lane"), turn = make_loop_name(nest, "q");
    b->rows = make_loop_name(nest, "row");
    Index at = make_scale(nest, item, b->item);
    if (b->item > rows * stride)
        at = make_add(nest, at, make_scale(nest, make_symbol(nest, turn), rows * stride));
    at = make_add(nest, at, make_scale(nest, make_symbol(nest, b->rows), stride));
    at = make_add(nest, at, make_scale(nest, make_symbol(nest, lane), width));
    NestNode *body = vector_of(b, loop, at);
    body = nest_around(nest, LOOP_UNROLLED, b->rows, make_number(nest, rows), body);
    if (b->item > rows * stride)
        body = nest_around(nest, LOOP_SERIAL, turn, make_number(nest, b->item / (rows * stride)),
                           body);
    return nest_around(nest, LOOP_LANE, lane, make_number(nest, nest->lanes), body);
}

/* The last item, element by element. */
static NestNode *part_of_item(MapBuilder *b, const NestNode *loop, Index item) {
    Nest *nest = b->nest;
    const SymbolId lane = make_loop_name(nest, "lane"), turn = make_loop_name(nest, "q");
    Index at = make_add(nest, make_scale(nest, item, b->item), make_symbol(nest, lane));
    at = make_add(nest, at, make_scale(nest, make_symbol(nest, turn), nest->lanes));
    NestNode *body =
        nest_only_where(nest, make_less(nest, loop->extent, at), instance(b, loop, at));
    body = nest_around(nest, LOOP_SERIAL, turn, make_number(nest, b->item / nest->lanes), body);
    return nest_around(nest, LOOP_LANE, lane, make_number(nest, nest->lanes), body);
}

/* Where several rows go side by side, an item that is whole is tested once. */
static NestNode *lanes_of_whole_item(MapBuilder *b, const NestNode *loop, Index item) {
    Nest *nest = b->nest;
    const int64_t rows = nest->width > 1 && is_straight(loop->body) ? rows_at_once(b, loop) : 1;
    int64_t known;
    if (rows == 1 || (index_is_number(loop->extent, &known) && known < b->item))
        return lanes_of_item(b, loop, item);
    const Index last =
        make_add(nest, make_scale(nest, item, b->item), make_number(nest, b->item - 1));
    NestNode *test =
        nest_only_where(nest, make_less(nest, loop->extent, last), whole_item(b, loop, item, rows));
    test->other = part_of_item(b, loop, item);
    return test;
}

/* Of a body a LET that says in which block of a number of elements the loop's index lies. */
static const NestNode *find_block(const MapBuilder *b, const NestNode *loop, int64_t *length) {
    const Value *values = b->nest->values->values;
    for (const NestNode *node = loop->body; node; node = node->next) {
        const Value *v = &values[node->value];
        if (node->kind != NEST_LET || v->op != OP_FLOORDIV) continue;
        if (values[v->arg[0]].op != VALUE_NAME || values[v->arg[0]].payload != loop->name) continue;
        if (values[v->arg[1]].op != OP_CONST) continue;
        *length = (int64_t)values[v->arg[1]].payload;
        if (*length > 1) return node;
    }
    return NULL;
}

/* The loop from one index to another, both in terms of what is around it. Where its body requests
 * the block that an element lies in, one block after the other. */
static NestNode *run(MapBuilder *b, const NestNode *loop, Index lo, Index hi) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first, **inside = &first, *blocks = NULL;
    const SymbolId own = make_loop_name(b->nest, nest->symbols[loop->name].name);
    int64_t length;
    const NestNode *block = find_block(b, loop, &length);
    NestNode *body = nest_copy(b->arena, loop->body);
    if (block) {
        const Index from =
            make_let_index(b->nest, &end, "from_block",
                           make_value(b->nest, OP_FLOORDIV, lo, make_number(b->nest, length)));
        const Index to = make_let_index(b->nest, &end, "to_block",
                                        make_value(b->nest, OP_FLOORDIV,
                                                   make_less(b->nest, hi, make_number(b->nest, 1)),
                                                   make_number(b->nest, length)));
        const SymbolId turn = make_loop_name(b->nest, nest->symbols[block->name].name);
        const Index at = make_add(b->nest, from, make_symbol(b->nest, turn));
        blocks = nest_around(
            nest, LOOP_SERIAL, turn,
            make_add(b->nest, make_less(b->nest, to, from), make_number(b->nest, 1)), NULL);
        *end = blocks;
        inside = &blocks->body;
        const Index begin = make_scale(b->nest, at, length);
        lo = make_let_index(b->nest, &inside, "block_left", make_value(b->nest, OP_MAX, lo, begin));
        hi = make_let_index(b->nest, &inside, "block_right",
                            make_value(b->nest, OP_MIN, hi,
                                       make_add(b->nest, begin, make_number(b->nest, length))));
        NestNode **place = nest_find(&body, block->name);
        *place = (*place)->next;
        body = nest_put_index(nest, body, block->name, at);
    }
    NestNode *along = nest_around(nest, LOOP_SERIAL, own, make_less(b->nest, hi, lo), body);
    along->body = nest_put_index(nest, along->body, loop->name,
                                 make_add(b->nest, lo, make_symbol(b->nest, own)));
    *inside = nest_clone(nest, along);
    return first;
}

/* All elements of the items from one to another, side by side. */
static NestNode *run_of_items(MapBuilder *b, const NestNode *loop, Index item, Index last) {
    NestNode *first = NULL, **end = &first;
    const Index begin = make_scale(b->nest, item, ITEM);
    const Index stop =
        make_let_index(b->nest, &end, "stop",
                       make_value(b->nest, OP_MIN, make_scale(b->nest, last, ITEM), loop->extent));
    *end = run(b, loop, begin, stop);
    return first;
}

/* Of two loops: the rows that the items touch, and of each the part that is theirs. */
static NestNode *rows_of_items(MapBuilder *b, const NestNode *rows, Index item, Index last) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const SymbolId row = make_loop_name(b->nest, nest->symbols[rows->name].name);
    NestNode *body = nest_clone(nest, rows->body), **inside = &body;
    const Index length = only_loop(body)->extent;
    const Index begin = make_scale(b->nest, item, ITEM);
    const Index all = index_multiply(b->arena, rows->extent, length);
    const Index stop = make_let_index(
        b->nest, &end, "stop", make_value(b->nest, OP_MIN, make_scale(b->nest, last, ITEM), all));
    const Index from =
        make_let_index(b->nest, &end, "from", make_value(b->nest, OP_FLOORDIV, begin, length));
    const Index to =
        make_let_index(b->nest, &end, "to",
                       make_value(b->nest, OP_FLOORDIV,
                                  make_less(b->nest, stop, make_number(b->nest, 1)), length));
    const Index own = make_add(b->nest, from, make_symbol(b->nest, row));
    const Index row_begin = index_multiply(b->arena, own, length);
    body = nest_put_index(nest, body, rows->name, own);
    while ((*inside)->kind != NEST_LOOP) inside = &(*inside)->next;
    NestNode *along = *inside;
    const Index left = make_let_index(
        b->nest, &inside, "left",
        make_value(b->nest, OP_MAX, make_less(b->nest, begin, row_begin), make_number(b->nest, 0)));
    const Index right =
        make_let_index(b->nest, &inside, "right",
                       make_value(b->nest, OP_MIN, make_less(b->nest, stop, row_begin), length));
    *inside = run(b, along, left, right);
    *end =
        nest_around(nest, LOOP_SERIAL, row,
                    make_add(b->nest, make_less(b->nest, to, from), make_number(b->nest, 1)), body);
    return first;
}

/* ---- sums at other rows ----
 * Where all that is stored is added to the same columns of rows that indices name, threads take
 * columns, all rows of them: no two of them add to one element, and rows are added by vectors. */

static bool adds_by_columns(const Plan *plan, const Phase *phase) {
    const Function *f = plan->function;
    const AxisSet along = phase->inner ? (AxisSet)1 << (31 - __builtin_clz(phase->inner)) : 0;
    for (size_t i = 0; i < phase->store_count; i++) {
        const Value *v = &f->values[phase->stores[i].value];
        if (phase->stores[i].kind != STORE_ADD || v->op != OP_SCATTER) return false;
        const AxisSet by = ir_listed(f, v->arg[1]) | f->values[v->arg[1]].axes;
        if ((by & along) || v->axes < along || v->axes >= 2 * along) return false;
    }
    return phase->store_count && ir_are_plain(f, along);
}

/* The first column that is not of items before this one: of all items as large a part as of all
 * columns, in steps of whole cache lines. */
static Index column_of_item(MapBuilder *b, NestNode ***end, const char *name, Index item,
                            Index items, Index length) {
    enum { STEP = 16 };
    Index at = make_let_index(
        b->nest, end, name,
        make_value(b->nest, OP_FLOORDIV, index_multiply(b->arena, item, length), items));
    at = make_let_index(b->nest, end, name,
                        make_value(b->nest, OP_FLOORDIV, at, make_number(b->nest, STEP)));
    const ValueId is_end = make_value(b->nest, OP_GE, item, items);
    const ValueId column = nest_index_value(b->nest, make_scale(b->nest, at, STEP));
    return make_let_index(
        b->nest, end, name,
        ir_op(b->nest->values, OP_SELECT, is_end, nest_index_value(b->nest, length), column));
}

/* Additions as loads and stores: what is lost (fixed.h) stays lost. */
static void add_alone(Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind != NEST_ADD) continue;
        NestNode *store = arena_alloc(nest->arena, sizeof *store);
        *store = *node;
        store->kind = NEST_STORE;
        store->op = OP_NONE;
        const ValueId lost = make_constant(nest, INT64_MIN), q = node->value;
        const SymbolId before = nest_symbol(nest, "before", NAMED_VALUE, TYPE_I64);
        const ValueId sum = ir_op(nest->values, OP_ADD, nest_name(nest, before), q, 0);
        const ValueId is_lost = ir_op(nest->values, OP_EQ, q, lost, 0);
        store->value = ir_op(nest->values, OP_SELECT, is_lost, q, sum);
        node->kind = NEST_LOAD;
        node->op = OP_NONE;
        node->name = before;
        node->value = 0;
        node->next = store;
        node = store;
    }
}

static NestNode *columns_of_items(MapBuilder *b, const NestNode *rows, Index item, Index last) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const SymbolId row = make_loop_name(b->nest, nest->symbols[rows->name].name);
    NestNode *body = nest_clone(nest, rows->body), **inside = &body;
    const Index length = only_loop(body)->extent;
    const Index items =
        nest_ceiling(nest, &end, index_multiply(b->arena, rows->extent, length), ITEM, "items");
    const Index left = column_of_item(b, &end, "left", item, items, length);
    const Index right = column_of_item(b, &end, "right", last, items, length);
    while ((*inside)->kind != NEST_LOOP) inside = &(*inside)->next;
    add_alone(nest, (*inside)->body);
    *inside = run(b, *inside, left, right);
    *end = nest_around(nest, LOOP_SERIAL, row, rows->extent,
                       nest_put_index(nest, body, rows->name, make_symbol(b->nest, row)));
    return first;
}

static NestNode *work_of_items(MapBuilder *b, Index item, Index last) {
    const NestNode *loop = *b->place;
    if (!only_loop(loop->body)) return run_of_items(b, loop, item, last);
    return b->by_columns ? columns_of_items(b, loop, item, last)
                         : rows_of_items(b, loop, item, last);
}

static NestNode *work_of_item(MapBuilder *b, Index item) {
    return b->nest->lanes > 1
               ? (b->list ? lanes_of_item : lanes_of_whole_item)(b, *b->place, item)
               : work_of_items(b, item, make_add(b->nest, item, make_number(b->nest, 1)));
}

static void load_entry(MapBuilder *b, SymbolId table, SymbolId name, Index entry, NestNode ***end) {
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_LOAD,
                        .name = name,
                        .array = table,
                        .at = nest_subscript(b->nest, entry),
                        .at_count = 1});
}

/* The loop over a list's tensors becomes one over the entries of its table: what
 * belongs to the tensor comes before the item's number. */
static void build_list(MapBuilder *b, PlainNest *plain, NestNode *tensors) {
    Nest *nest = b->nest;
    static const char *const names[] = {"item_tensor", "item_number"};
    const SymbolId entry = make_loop_name(b->nest, "entry");
    NestNode *first = NULL, **end = &first;
    SymbolId loaded[2] = {tensors->name, 0};
    plain->item_count = nest_size(nest, "item_count");
    plain->elements = make_scale(b->nest, make_symbol(b->nest, plain->item_count), ITEM);
    nest->symbols[tensors->name].kind = NAMED_VALUE;
    loaded[1] = nest_symbol(nest, "item", NAMED_VALUE, TYPE_I64);
    for (int i = 0; i < 2; i++)
        plain->items[i] =
            nest_array(nest, names[i], TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    load_entry(b, plain->items[0], loaded[0], make_symbol(b->nest, entry), &end);
    NestNode *number_first = NULL, **number_end = &number_first;
    load_entry(b, plain->items[1], loaded[1], make_symbol(b->nest, entry), &number_end);
    *number_end = work_of_item(b, make_symbol(b->nest, loaded[1]));
    NestNode *after = (*b->place)->next, *work = number_first;
    *b->place = work;
    for (; work; work = work->next)
        if (!work->next) {
            work->next = after;
            break;
        }
    *end = tensors->body;
    tensors->body = first;
    tensors->name = entry;
    tensors->extent = make_symbol(b->nest, plain->item_count);
}

/* The items of a thread's range, as one loop. */
static NestNode *partitions(MapBuilder *b, PlainNest *plain) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const SymbolId partition = make_loop_name(b->nest, "partition");
    const SymbolId item = nest_symbol(nest, "item", NAMED_VALUE, TYPE_I64);
    const SymbolId last = nest_symbol(nest, "last", NAMED_VALUE, TYPE_I64);
    plain->partitions =
        nest_array(nest, "partitions", TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    plain->partition_count = nest_size(nest, "partition_count");
    load_entry(b, plain->partitions, item, make_symbol(b->nest, partition), &end);
    load_entry(b, plain->partitions, last,
               make_add(b->nest, make_symbol(b->nest, partition), make_number(b->nest, 1)), &end);
    *end = nest_only_where(
        nest, make_less(b->nest, make_symbol(b->nest, last), make_symbol(b->nest, item)),
        work_of_items(b, make_symbol(b->nest, item), make_symbol(b->nest, last)));
    return nest_around(nest, LOOP_GRID, partition, make_symbol(b->nest, plain->partition_count),
                       first);
}

/* With `single`, one item at a time. */
static void build_items(MapBuilder *b, PlainNest *plain, bool single) {
    NestNode *old = *b->place, *first = NULL, **end = &first;
    const SymbolId item = make_loop_name(b->nest, "item");
    Index all = old->extent;
    NestNode *inner = b->nest->lanes > 1 ? NULL : only_loop(old->body);
    if (inner) all = index_multiply(b->arena, all, inner->extent);
    plain->elements = all;
    if (single) {
        const Index items = nest_ceiling(b->nest, &end, all, b->item, "items");
        *end = nest_around(b->nest, LOOP_GRID, item, items,
                           work_of_item(b, make_symbol(b->nest, item)));
    } else {
        *end = partitions(b, plain);
    }
    (*end)->range = old->range;
    (*end)->next = old->next;
    *b->place = first;
}

/* ---- vectors and non-temporal stores ---- */

/* Whether an array's elements lie as the loop's index counts them; if so, the widest counts. */
static void find_widest(const MapBuilder *b, const NestNode *body, SymbolId loop, size_t *widest) {
    for (const NestNode *node = body; node; node = node->next) {
        const bool access = node->kind == NEST_LOAD || node->kind == NEST_STORE;
        if (!access || node->at_count != 1 || node->where) continue;
        if (!index_equal(node->at[0], index_symbol(b->arena, loop))) continue;
        const size_t size = type_info[b->nest->symbols[node->array].type].size;
        if (size > *widest) *widest = size;
    }
}

static bool draws(const Nest *nest, ValueId v) {
    const Value *value = &nest->values->values[v];
    if (!v) return false;
    if (value->op == OP_RANDOM_BITS || value->op == OP_RANDOM_UNIFORM ||
        value->op == OP_RANDOM_NORMAL)
        return true;
    for (int i = 0; i < op_info[value->op].arity; i++)
        if (value->arg[i] && draws(nest, value->arg[i])) return true;
    return false;
}

static bool body_draws(const Nest *nest, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next)
        if ((node->kind == NEST_LET && draws(nest, node->value)) || body_draws(nest, node->body) ||
            body_draws(nest, node->other))
            return true;
    return false;
}

/* Neighbours that a lane takes at once: four, or of narrow elements eight, which fill 16 bytes too.
 * Draws come by fours. */
static uint32_t find_width(const MapBuilder *b) {
    const NestNode *loop = *b->place;
    size_t widest = 0;
    if (b->numbers->layout == LS_LAYOUT_STRIDED) return 1;
    find_widest(b, loop->body, loop->name, &widest);
    if (!widest) return 1;
    if (body_draws(b->nest, loop->body)) return 4;
    if (b->numbers->over_time) return TIME_WIDTH;
    return widest <= 2 ? 8 : 4;
}

PlainNest *schedule_map(const Plan *plan, uint32_t phase, const MapNumbers *numbers, Arena *arena,
                        const char **problem) {
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    PlainNest *plain = schedule_plain(plan, &alone, numbers->layout, arena, problem);
    size_t streams = 0;
    if (!plain) return NULL;
    MapBuilder b = {.nest = plain->nest,
                    .arena = arena,
                    .numbers = numbers,
                    .item = schedule_map_item(plan, phase, numbers->lanes, numbers->over_time)};
    b.place = &plain->nest->body;
    while (*b.place && (*b.place)->kind != NEST_LOOP)
        b.place = (*b.place)->kind == NEST_WHEN ? &(*b.place)->body : &(*b.place)->next;
    if (!*b.place) {
        *problem = "a map without a loop";
        return NULL;
    }
    NestNode *tensors = NULL;
    if (ir_list_axis(plan->function, plan->phases[phase].inner) >= 0) {
        tensors = *b.place;
        b.list = true;
        b.place = &tensors->body;
        while (*b.place && (*b.place)->kind != NEST_LOOP) b.place = &(*b.place)->next;
    }
    b.nest->lanes = numbers->lanes;
    b.by_columns = numbers->lanes == 1 && adds_by_columns(plan, &plan->phases[phase]);
    if (numbers->lanes > 1)
        schedule_join(b.nest, *b.place, 0, true);
    else
        join_loops(&b, false);
    b.nest->width = numbers->lanes > 1 ? find_width(&b) : 1;
    if (numbers->lanes > 1 && plan_skips_rows(plan, &plan->phases[phase]) &&
        nest_sink(b.nest, *b.place))
        b.nest->width = 1;
    if (numbers->lanes == 1 && numbers->layout != LS_LAYOUT_STRIDED)
        streams = schedule_non_temporal(plan, plain, *b.place);
    plain->item_axes = plan->phases[phase].inner;
    if (tensors)
        build_list(&b, plain, tensors);
    else
        build_items(&b, plain,
                    b.nest->lanes > 1 || streams || body_draws(b.nest, (*b.place)->body));
    if (numbers->over_time) {
        *problem = schedule_over_time(plan, plain, numbers->layout);
        if (*problem) return NULL;
        nest_tidy(b.nest);
    }
    nest_sweep(b.nest);
    nest_hoist(b.nest);
    if (b.rows) nest_load_first(b.nest, b.rows);
    if (numbers->lanes == 1) nest_unswitch(b.nest);
    if (numbers->lanes == 1) nest_split_indices(b.nest, &b.nest->body, VECTOR);
    return plain;
}
