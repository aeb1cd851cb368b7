/* map.c: the schedule of a map: its elements in items of 1024, whatever their axes.
 *
 * The loops over the axes become one where every array lets them (coalescing), and an item is a run
 * of it. Where 32 lanes work on an item, a lane takes vectors: first all that are whole, then the
 * elements that are left. Where one thread does, what is not one loop stays two, and an item goes
 * through the rows that it touches; stores of what nobody reads again go past the caches, item by
 * item, as draws are made; else a thread takes all items of its share as one. Of a list an entry of
 * the runtime's table says which item of which tensor is next. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { ITEM = 1024 };

typedef struct MapBuilder {
    Nest *nest;
    Arena *arena;
    const MapNumbers *numbers;
    NestNode **place; /* where the outermost loop over elements stands */
    bool list;
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

static Index number(MapBuilder *b, int64_t n) {
    return index_number(b->arena, n);
}

static Index symbol(MapBuilder *b, SymbolId id) {
    return index_symbol(b->arena, id);
}

static SymbolId loop_symbol(MapBuilder *b, const char *name) {
    return nest_symbol(b->nest, name, NAMED_LOOP, TYPE_I64);
}

static Index add(MapBuilder *b, Index x, Index y) {
    return index_add(b->arena, x, y);
}

static Index less(MapBuilder *b, Index x, Index y) {
    return index_subtract(b->arena, x, y);
}

static Index let(MapBuilder *b, NestNode ***end, const char *name, Op op, Index x, Index y) {
    Nest *nest = b->nest;
    const SymbolId own = nest_symbol(nest, name, NAMED_VALUE, TYPE_I64);
    nest_add(nest, end,
             (NestNode){.kind = NEST_LET,
                        .name = own,
                        .value = ir_op(nest->values, op, nest_index_value(nest, x),
                                       nest_index_value(nest, y), 0)});
    return symbol(b, own);
}

/* The body with the loop's index as given, and with names of its own. */
static NestNode *instance(MapBuilder *b, const NestNode *loop, Index at) {
    return nest_put_index(b->nest, nest_clone(b->nest, loop->body), loop->name, at);
}

/* Neighbours a lane at a time. Behind the last whole vector, fewer elements than one are left. */
static NestNode *lanes_of_item(MapBuilder *b, const NestNode *loop, Index item) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const int64_t width = nest->width, stride = (int64_t)nest->lanes * width;
    const SymbolId lane = loop_symbol(b, "lane"), row = loop_symbol(b, "row");
    const Index begin = index_scale(b->arena, item, ITEM);
    const Index whole = index_scale(
        b->arena, nest_floor(nest, &end, loop->extent, width, width == 8 ? "eights" : "fours"),
        width);
    Index at = add(b, begin, index_scale(b->arena, symbol(b, row), stride));
    at = add(b, at, index_scale(b->arena, symbol(b, lane), width));
    const Index left = less(b, loop->extent, add(b, at, number(b, width - 1)));
    NestNode *body;
    if (width > 1) {
        const SymbolId e = loop_symbol(b, "e");
        body = nest_around(nest, LOOP_VECTOR, e, number(b, width),
                           instance(b, loop, add(b, at, symbol(b, e))));
    } else {
        body = instance(b, loop, at);
    }
    body = nest_only_where(nest, left, body);
    body = nest_around(nest, LOOP_SERIAL, row, number(b, ITEM / stride), body);
    *end = nest_around(nest, LOOP_LANE, lane, number(b, nest->lanes), body);
    end = &(*end)->next;
    if (width == 1) return first;
    const SymbolId rest = loop_symbol(b, "lane");
    at = add(b, whole, symbol(b, rest));
    body = nest_only_where(nest, less(b, loop->extent, at), instance(b, loop, at));
    body = nest_around(nest, LOOP_LANE, rest, number(b, nest->lanes), body);
    *end = nest_only_where(nest, less(b, add(b, begin, number(b, ITEM)), whole), body);
    return first;
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

/* The loop from one index to another, both in terms of what is around it. Where its body asks for
 * the block that an element lies in, one block after the other. */
static NestNode *run(MapBuilder *b, const NestNode *loop, Index lo, Index hi) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first, **inside = &first, *blocks = NULL;
    const SymbolId own = loop_symbol(b, nest->symbols[loop->name].name);
    int64_t length;
    const NestNode *block = find_block(b, loop, &length);
    NestNode *body = nest_copy(b->arena, loop->body);
    if (block) {
        const Index from = let(b, &end, "from_block", OP_FLOORDIV, lo, number(b, length));
        const Index to =
            let(b, &end, "to_block", OP_FLOORDIV, less(b, hi, number(b, 1)), number(b, length));
        const SymbolId turn = loop_symbol(b, nest->symbols[block->name].name);
        const Index at = add(b, from, symbol(b, turn));
        blocks =
            nest_around(nest, LOOP_SERIAL, turn, add(b, less(b, to, from), number(b, 1)), NULL);
        *end = blocks;
        inside = &blocks->body;
        const Index begin = index_scale(b->arena, at, length);
        lo = let(b, &inside, "block_left", OP_MAX, lo, begin);
        hi = let(b, &inside, "block_right", OP_MIN, hi, add(b, begin, number(b, length)));
        NestNode **place = nest_find(&body, block->name);
        *place = (*place)->next;
        body = nest_put_index(nest, body, block->name, at);
    }
    NestNode *along = nest_around(nest, LOOP_SERIAL, own, less(b, hi, lo), body);
    along->body = nest_put_index(nest, along->body, loop->name, add(b, lo, symbol(b, own)));
    *inside = nest_clone(nest, along);
    return first;
}

/* All elements of the items from one to another, side by side. */
static NestNode *run_of_items(MapBuilder *b, const NestNode *loop, Index item, Index last) {
    NestNode *first = NULL, **end = &first;
    const Index begin = index_scale(b->arena, item, ITEM);
    const Index stop =
        let(b, &end, "stop", OP_MIN, index_scale(b->arena, last, ITEM), loop->extent);
    *end = run(b, loop, begin, stop);
    return first;
}

/* Of two loops: the rows that the items touch, and of each the part that is theirs. */
static NestNode *rows_of_items(MapBuilder *b, const NestNode *rows, Index item, Index last) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const SymbolId row = loop_symbol(b, nest->symbols[rows->name].name);
    NestNode *body = nest_clone(nest, rows->body), **inside = &body;
    const Index length = only_loop(body)->extent;
    const Index begin = index_scale(b->arena, item, ITEM);
    const Index all = index_multiply(b->arena, rows->extent, length);
    const Index stop = let(b, &end, "stop", OP_MIN, index_scale(b->arena, last, ITEM), all);
    const Index from = let(b, &end, "from", OP_FLOORDIV, begin, length);
    const Index to = let(b, &end, "to", OP_FLOORDIV, less(b, stop, number(b, 1)), length);
    const Index own = add(b, from, symbol(b, row));
    const Index row_begin = index_multiply(b->arena, own, length);
    body = nest_put_index(nest, body, rows->name, own);
    while ((*inside)->kind != NEST_LOOP) inside = &(*inside)->next;
    NestNode *along = *inside;
    const Index left = let(b, &inside, "left", OP_MAX, less(b, begin, row_begin), number(b, 0));
    const Index right = let(b, &inside, "right", OP_MIN, less(b, stop, row_begin), length);
    *inside = run(b, along, left, right);
    *end = nest_around(nest, LOOP_SERIAL, row, add(b, less(b, to, from), number(b, 1)), body);
    return first;
}

static NestNode *work_of_items(MapBuilder *b, Index item, Index last) {
    const NestNode *loop = *b->place;
    return only_loop(loop->body) ? rows_of_items(b, loop, item, last)
                                 : run_of_items(b, loop, item, last);
}

static NestNode *work_of_item(MapBuilder *b, Index item) {
    return b->nest->lanes > 1 ? lanes_of_item(b, *b->place, item)
                              : work_of_items(b, item, add(b, item, number(b, 1)));
}

static void load_entry(MapBuilder *b, SymbolId table, SymbolId name, Index entry, NestNode ***end) {
    Index *at = nest_at(b->nest, 1);
    at[0] = entry;
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_LOAD, .name = name, .array = table, .at = at, .at_count = 1});
}

/* The loop over a list's tensors becomes one over the entries of its table: what
 * belongs to the tensor comes before the item's number. */
static void build_list(MapBuilder *b, PlainNest *plain, NestNode *tensors) {
    Nest *nest = b->nest;
    static const char *const names[] = {"item_tensor", "item_number"};
    const SymbolId entry = loop_symbol(b, "entry");
    NestNode *first = NULL, **end = &first;
    SymbolId loaded[2] = {tensors->name, 0};
    plain->item_count = nest_size(nest, "item_count");
    plain->elements = index_scale(b->arena, symbol(b, plain->item_count), ITEM);
    nest->symbols[tensors->name].kind = NAMED_VALUE;
    loaded[1] = nest_symbol(nest, "item", NAMED_VALUE, TYPE_I64);
    for (int i = 0; i < 2; i++)
        plain->items[i] =
            nest_array(nest, names[i], TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    load_entry(b, plain->items[0], loaded[0], symbol(b, entry), &end);
    NestNode *number_first = NULL, **number_end = &number_first;
    load_entry(b, plain->items[1], loaded[1], symbol(b, entry), &number_end);
    *number_end = work_of_item(b, symbol(b, loaded[1]));
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
    tensors->extent = symbol(b, plain->item_count);
}

/* The items of a share, as one. */
static NestNode *shares(MapBuilder *b, PlainNest *plain) {
    Nest *nest = b->nest;
    NestNode *first = NULL, **end = &first;
    const SymbolId share = loop_symbol(b, "share");
    const SymbolId item = nest_symbol(nest, "item", NAMED_VALUE, TYPE_I64);
    const SymbolId last = nest_symbol(nest, "last", NAMED_VALUE, TYPE_I64);
    plain->shares = nest_array(nest, "shares", TYPE_I64, ARRAY_TABLE, false, (Index){NULL, 0});
    plain->share_count = nest_size(nest, "share_count");
    load_entry(b, plain->shares, item, symbol(b, share), &end);
    load_entry(b, plain->shares, last, add(b, symbol(b, share), number(b, 1)), &end);
    *end = nest_only_where(nest, less(b, symbol(b, last), symbol(b, item)),
                           work_of_items(b, symbol(b, item), symbol(b, last)));
    return nest_around(nest, LOOP_GRID, share, symbol(b, plain->share_count), first);
}

/* With `apart`, item by item. */
static void build_items(MapBuilder *b, PlainNest *plain, bool apart) {
    NestNode *old = *b->place, *first = NULL, **end = &first;
    const SymbolId item = loop_symbol(b, "item");
    Index all = old->extent;
    NestNode *inner = b->nest->lanes > 1 ? NULL : only_loop(old->body);
    if (inner) all = index_multiply(b->arena, all, inner->extent);
    plain->elements = all;
    if (apart) {
        const Index items = nest_ceiling(b->nest, &end, all, ITEM, "items");
        *end = nest_around(b->nest, LOOP_GRID, item, items, work_of_item(b, symbol(b, item)));
    } else {
        *end = shares(b, plain);
    }
    (*end)->range = old->range;
    (*end)->next = old->next;
    *b->place = first;
}

/* ---- vectors and streams ---- */

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
    if (b->numbers->strided) return 1;
    find_widest(b, loop->body, loop->name, &widest);
    if (!widest) return 1;
    if (body_draws(b->nest, loop->body)) return 4;
    return widest <= 2 ? 8 : 4;
}

PlainNest *schedule_map(const Plan *plan, uint32_t phase, const MapNumbers *numbers, Arena *arena,
                        const char **problem) {
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    PlainNest *plain = schedule_plain(plan, &alone, numbers->strided, arena, problem);
    size_t streams = 0;
    if (!plain) return NULL;
    MapBuilder b = {.nest = plain->nest, .arena = arena, .numbers = numbers};
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
        b.place = &tensors->body;
        while (*b.place && (*b.place)->kind != NEST_LOOP) b.place = &(*b.place)->next;
    }
    b.nest->lanes = numbers->lanes;
    if (numbers->lanes > 1)
        schedule_join(b.nest, *b.place, 0, true);
    else
        join_loops(&b, false);
    b.nest->width = numbers->lanes > 1 ? find_width(&b) : 1;
    if (numbers->lanes == 1 && !numbers->strided) streams = schedule_streams(plan, plain, *b.place);
    plain->item_axes = plan->phases[phase].inner;
    if (tensors)
        build_list(&b, plain, tensors);
    else
        build_items(&b, plain,
                    b.nest->lanes > 1 || streams || body_draws(b.nest, (*b.place)->body));
    nest_sweep(b.nest);
    nest_hoist(b.nest);
    return plain;
}
