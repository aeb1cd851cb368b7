/* items.c: a phase whose reductions have many tiles as one grid loop over items; the tiles' partial
 * results go to memory, and the item that arrives last combines them.
 *
 * A schedule leaves a loop over rows, or over chunks of columns, and in it one over tiles. Here the
 * two become one loop over items. An item arrives at the counter of its block of 1024 tiles; the
 * last of these combines them and arrives at the row's counter; and the last there runs what
 * follows the row. Where partial results are not combined as they are, there is only the row's
 * counter. Of a list an entry of the runtime's table says which item of which tensor is next. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, ROWS = 8 };

bool items_refuse(ItemBuilder *b, const char *problem) {
    if (!b->problem) b->problem = problem;
    return false;
}

/* ---- indices and nodes ---- */

Index items_bounded(ItemBuilder *b, NestNode ***end, Op op, Index x, int64_t bound,
                    const char *name) {
    Nest *nest = b->nest;
    Function *f = nest->values;
    int64_t own;
    if (index_is_number(x, &own))
        return make_number(b->nest, (op == OP_MAX) == (own > bound) ? own : bound);
    const ValueId value =
        ir_op(f, op, nest_index_value(nest, x), ir_constant(f, TYPE_I64, (uint64_t)bound), 0);
    for (size_t i = 0; i < nest->derived_count; i++)
        if (nest->derived[i].value == value) return make_symbol(b->nest, nest->derived[i].symbol);
    if (nest_is_of_sizes(nest, x)) return make_symbol(b->nest, nest_derived(nest, name, value));
    const SymbolId id = nest_symbol(b->nest, name, NAMED_VALUE, TYPE_I64);
    nest_add(nest, end, (NestNode){.kind = NEST_LET, .name = id, .value = value});
    return make_symbol(b->nest, id);
}

size_t items_count_loops(const Function *f, AxisSet axes) {
    size_t count = 0;
    for (uint32_t a = 0; a < f->axis_count; a++)
        count += axes >> a & 1 && !plain_is_rest_of(f, axes, a);
    return count;
}

/* What a LET of the lesser of something and a number is at most; 0: it is no such LET. */
static int64_t most_of(const Nest *nest, const NestNode *node) {
    const Value *values = nest->values->values, *v = &values[node->value];
    if (node->kind != NEST_LET || v->op != OP_MIN) return 0;
    for (int i = 0; i < 2; i++)
        if (values[v->arg[i]].op == OP_CONST) return (int64_t)values[v->arg[i]].payload;
    return 0;
}

bool items_find_max(ItemBuilder *b, const NestNode *row, const NestNode *traversal) {
    int64_t known;
    for (const NestNode *node = row->body; node != traversal && node->kind != NEST_LOOP;
         node = node->next) {
        if (!node->name || !index_uses(b->max, node->name)) continue;
        const int64_t max = most_of(b->nest, node);
        if (!max) return false;
        b->max = index_replace(b->arena, b->max, node->name, make_number(b->nest, max));
        b->varies = true;
        b->length *= max;
    }
    b->single = index_is_number(b->max, &known) && known <= TILE;
    return !index_uses(b->max, row->name);
}

/* ---- loads ---- */

/* Whether the index differs from row to row: by the loop's own number, or by what it computes. */
static bool is_of_row(const NestNode *row, const NestNode *inner, Index at) {
    NestNode *body = row->body;
    for (size_t t = 0; t < at.count; t++)
        for (uint32_t k = 0; k < at.terms[t].count; k++) {
            const SymbolId symbol = at.terms[t].symbols[k];
            if (symbol == row->name || (symbol != inner->name && nest_find(&body, symbol)))
                return true;
        }
    return false;
}

/* The bytes that a row's loads of the loop take in a thread: in memory, or held in registers;
 * `same`: of those that are the same for all rows. What is the same for all elements of a vector
 * takes one element's. */
static int64_t loaded_bytes(const Nest *nest, const NestNode *row, bool held, int64_t *same) {
    int64_t bytes = 0;
    *same = 0;
    const NestNode *inner = row->body && row->body->kind == NEST_LOOP ? row->body : row;
    for (const NestNode *node = inner->body; node; node = node->next) {
        if (node->kind != NEST_LOAD || nest->symbols[node->array].kind != NAMED_ARRAY) continue;
        const Type type = nest->symbols[node->array].type;
        bool all = inner != row, own = false;
        for (size_t i = 0; i < node->at_count; i++) {
            all &= !index_uses(node->at[i], inner->name);
            own |= is_of_row(row, inner, node->at[i]);
        }
        *(own ? &bytes : same) += (int64_t)type_info[held ? type_info[type].compute : type].size *
                                  (all ? 1 : nest->width);
    }
    return bytes;
}

static int64_t work_of_value(const Nest *nest, ValueId id) {
    const Value *v = &nest->values->values[id];
    int64_t work = id ? op_info[v->op].work : 0;
    for (int i = 0; id && i < op_info[v->op].arity; i++)
        if (v->op != OP_CALL) work += work_of_value(nest, v->arg[i]);
    return work;
}

int64_t items_work(const Nest *nest, const NestNode *body) {
    int64_t work = 0;
    for (const NestNode *node = body; node; node = node->next)
        work += work_of_value(nest, node->value) + items_work(nest, node->body) +
                items_work(nest, node->other);
    return work;
}

/* In a tile's loop over rows: as many rows side by side as the budget of loads allows, and not so
 * much text that compilers take long; without a budget they are loaded as they come. */
void schedule_jam(Nest *nest, NestNode *loop, int64_t max, bool held) {
    enum { WORK_MAX = 1024 };
    int64_t by = ROWS, same;
    const int64_t bytes = loaded_bytes(nest, loop, held, &same),
                  work = items_work(nest, loop->body);
    if (loop->loop != LOOP_UNROLLED) return;
    while (by > 1 && ((max && by * bytes + same > max) || by * work > WORK_MAX)) by /= 2;
    if (max || by < ROWS) nest_jam(nest, loop->name, by);
    if (max) nest_load_first(nest, loop->name);
}

/* ---- items ---- */

/* The index in memory of all items: what an item's row has there begins with its first item's. */
static Index in_all(ItemBuilder *b, Index own, Index group) {
    return make_add(b->nest, make_less(b->nest, make_symbol(b->nest, b->slot), group), own);
}

static void move_accesses(ItemBuilder *b, NestNode *body, SymbolId array, Index group) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->array == array) {
            Index *at = nest_at(b->nest, node->at_count);
            for (size_t i = 0; i < node->at_count; i++) at[i] = node->at[i];
            at[0] = in_all(b, at[0], group);
            node->at = at;
        }
        move_accesses(b, node->body, array, group);
        move_accesses(b, node->other, array, group);
    }
}

SymbolId items_global(ItemBuilder *b, const char *name, Type type) {
    const SymbolId id = nest_symbol(b->nest, name, NAMED_ALLOC, type);
    nest_add(b->nest, &b->globals_end,
             (NestNode){.kind = NEST_ALLOC,
                        .scope = SCOPE_GLOBAL,
                        .name = id,
                        .at = nest_subscript(b->nest, make_number(b->nest, 1)),
                        .at_count = 1});
    return id;
}

/* Where the one that comes last of so many at the counter goes on; it arrives for `by` of them. */
NestNode **items_arrive(ItemBuilder *b, NestNode ***end, const char *counters, Index at, Index of,
                        ValueId by) {
    const SymbolId last = nest_symbol(b->nest, "is_last", NAMED_VALUE, TYPE_BOOL);
    nest_add(b->nest, end,
             (NestNode){.kind = NEST_ARRIVE,
                        .name = last,
                        .array = items_global(b, counters, TYPE_U32),
                        .at = nest_subscript(b->nest, at),
                        .at_count = 1,
                        .extent = of,
                        .value = by});
    return &nest_add(b->nest, end, (NestNode){.kind = NEST_WHEN, .where = last})->body;
}

/* Of each run of memory that is combined: first 1024 at a time, to memory of its own. */
static void combine_groups(ItemBuilder *b, NestNode *rest, NestNode ***end, Index base, Index block,
                           Index count, Index blocks) {
    Nest *nest = b->nest;
    for (NestNode *node = rest; node; node = node->next) {
        if (node->kind != NEST_COMBINE || node->op == OP_NONE) continue;
        const NestSymbol part = nest->symbols[node->array];
        const SymbolId own =
            items_global(b, arena_printf(b->arena, "%s_group", part.name), part.type);
        NestNode *combine = nest_add(nest, end, *node);
        combine->next = NULL;
        combine->name = nest_symbol(b->nest, "group", NAMED_VALUE, part.type);
        combine->at = nest_subscript(
            b->nest, make_add(b->nest, node->at[0], make_scale(b->nest, block, TILE)));
        combine->extent = count;
        nest_add(nest, end,
                 (NestNode){.kind = NEST_STORE,
                            .array = own,
                            .at = nest_subscript(b->nest, make_add(b->nest, base, block)),
                            .at_count = 1,
                            .value = nest_name(nest, combine->name)});
        node->array = own;
        node->at = nest_subscript(b->nest, base);
        node->extent = blocks;
    }
}

/* Loops over what tiles have left go to the lanes, which then wait for each other. */
static void deal_rest(ItemBuilder *b, NestNode *rest) {
    Nest *nest = b->nest;
    if (nest->lanes == 1) return;
    for (NestNode **at = &rest; *at; at = &(*at)->next) {
        if ((*at)->kind != NEST_LOOP || (*at)->loop != LOOP_SERIAL) continue;
        NestNode *barrier = arena_alloc(b->arena, sizeof *barrier);
        *barrier = (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_WARP, .next = (*at)->next};
        (*at)->next = barrier;
        const char *problem = nest_deal(nest, (*at)->name, DEAL_LANES);
        if (problem) items_refuse(b, problem);
        while (*at != barrier) at = &(*at)->next;
    }
}

void items_finished(ItemBuilder *b, NestNode **body, Index row) {
    int64_t one;
    if (!b->numbers->finished) return;
    while (*body) body = &(*body)->next;
    if (b->chunked && !b->tensors && !(index_is_number(b->chunks, &one) && one == 1)) {
        const SymbolId outer = nest_symbol(b->nest, "outer", NAMED_VALUE, TYPE_I64);
        nest_add(
            b->nest, &body,
            (NestNode){.kind = NEST_LET,
                       .name = outer,
                       .value = ir_op(b->nest->values, OP_FLOORDIV, nest_index_value(b->nest, row),
                                      nest_index_value(b->nest, b->chunks), 0)});
        row = make_symbol(b->nest, outer);
    }
    if (b->chunked && !b->tensors) row = index_multiply(b->arena, row, b->columns);
    b->plain->finished =
        nest_array(b->nest, "finished", TYPE_BOOL, ARRAY_OUT, b->tensors != NULL, (Index){NULL, 0});
    nest_add(b->nest, &body,
             (NestNode){.kind = NEST_STORE,
                        .array = b->plain->finished,
                        .list = b->tensors ? b->tensors->name : 0,
                        .at = nest_subscript(b->nest, row),
                        .at_count = 1,
                        .value = ir_constant(b->nest->values, TYPE_BOOL, 1)});
}

/* ---- rows of items ---- */

/* What follows the row's tiles, by the last of them. */
static void build_rest(ItemBuilder *b, NestNode **tile, NestNode *rest, NestNode ***end,
                       Index group, Index groups) {
    Nest *nest = b->nest;
    const Index base = make_less(b->nest, make_symbol(b->nest, b->slot), group);
    int64_t few;
    if (!rest) return;
    if (items_is_alone(b)) {
        *items_arrive_once(b, end, base, base, groups) = rest;
        return;
    }
    const bool flat =
        nest->lanes == 1 || !b->pairs || (index_is_number(b->tiles, &few) && few <= TILE);
    if (items_one_tile(b, tile, rest, end, group, groups, flat)) return;
    if (flat) {
        *items_arrive_once(b, end, base, base, groups) = rest;
        return;
    }
    Function *f = nest->values;
    const SymbolId block = nest_symbol(b->nest, "block", NAMED_VALUE, TYPE_I64);
    nest_add(nest, end,
             (NestNode){.kind = NEST_LET,
                        .name = block,
                        .value = ir_op(f, OP_FLOORDIV, nest_index_value(nest, group),
                                       ir_constant(f, TYPE_I64, TILE), 0)});
    const Index own = make_symbol(b->nest, block);
    const Index siblings =
        items_bounded(b, end, OP_MIN, make_less(b->nest, groups, make_scale(b->nest, own, TILE)),
                      TILE, "siblings");
    const Index blocks = nest_ceiling(nest, end, groups, TILE, "blocks");
    const Index counted = nest_ceiling(nest, end, b->tiles, TILE, "counted");
    NestNode **inside =
        items_arrive_once(b, end, make_add(b->nest, base, own),
                          make_add(b->nest, base, make_scale(b->nest, own, TILE)), siblings);
    const Index first = make_scale(b->nest, own, TILE);
    const Index count =
        items_bounded(b, &inside, OP_MIN, make_less(b->nest, b->tiles, first), TILE, "parts");
    combine_groups(b, rest, &inside, base, own, count, counted);
    *items_arrive(b, &inside, "arrived_blocks", base, blocks, 0) = rest;
}

/* What a row has before its tiles is done for each item; it is stored once. */
void items_before(ItemBuilder *b, NestNode *body, NestNode ***end, Index group) {
    Nest *nest = b->nest;
    for (NestNode *node = body; node != b->along; node = node->next) {
        NestNode own = *node, *copy;
        if (node->kind == NEST_ALLOC) {
            move_accesses(b, b->along, node->name, group);
            own.scope = SCOPE_GLOBAL;
            nest_add(nest, &b->globals_end, own);
        } else if (node->kind == NEST_STORE || node->kind == NEST_ADD) {
            copy =
                nest_add(nest, end,
                         (NestNode){.kind = NEST_IF,
                                    .extent = make_less(b->nest, make_number(b->nest, 1), group)});
            NestNode **inside = &copy->body;
            nest_add(nest, &inside, own);
        } else {
            nest_add(nest, end, own);
        }
    }
}

/* The number of a row's tiles is computed ahead of the nodes that divide an item's number. */
static void build_counts(ItemBuilder *b, NestNode ***end) {
    Nest *nest = b->nest;
    bool *needed = arena_alloc(b->arena, nest->symbol_count * sizeof *needed);
    NestNode *body = (*b->row)->body;
    for (int round = 0; round < 3; round++)
        for (const NestNode *node = body; node != b->along; node = node->next) {
            if (node->kind != NEST_LET || needed[node->name]) continue;
            needed[node->name] = index_uses(b->along->extent, node->name);
            for (const NestNode *user = body; user != b->along; user = user->next)
                needed[node->name] |= user->name && needed[user->name] &&
                                      nest_value_uses(nest, user->value, node->name);
        }
    for (NestNode **at = &(*b->row)->body; *at != b->along;) {
        NestNode *node = *at;
        if (node->kind != NEST_LET || !needed[node->name]) {
            at = &node->next;
            continue;
        }
        *at = node->next;
        nest_add(nest, end, *node);
    }
}

Index items_max_groups(ItemBuilder *b, NestNode ***end) {
    const int64_t times = (b->length + TILE - 1) / TILE;
    Index blocks = b->max;
    IndexTerm *terms = arena_alloc(b->arena, (blocks.count + 1) * sizeof *terms);
    for (size_t t = 0; t < blocks.count; t++) {
        terms[t] = blocks.terms[t];
        terms[t].factor /= b->length;
    }
    blocks.terms = terms;
    if (times == 1) blocks = nest_ceiling(b->nest, end, blocks, TILE / b->length, "groups");
    return make_scale(b->nest, blocks, times);
}

/* The loop over items, each of which is a tile of a row: `step` is its name in a range of items,
 * `body` what stands in it already. */
static NestNode *build_each(ItemBuilder *b, NestNode **body, NestNode **end, SymbolId item,
                            SymbolId step, Index groups) {
    Nest *nest = b->nest;
    NestNode *row = *b->row;
    int64_t one;
    Index own = make_number(nest, 0);
    if (!index_is_number(row->extent, &one) || one != 1) {
        const Index at = make_symbol(nest, item);
        own = make_let_index(nest, &end, nest->symbols[row->name].name,
                             make_value(nest, OP_FLOORDIV, at, groups));
    }
    Index group = make_less(nest, make_symbol(nest, item), make_times(nest, own, groups));
    if (b->chunked || (nest->lanes == 1 && own.count)) /* stands in many indices */
        group = make_let_index(nest, &end, "tile", nest_index_value(nest, group));
    NestNode *inside = nest_put_index(nest, row->body, row->name, own);
    items_before(b, inside, &end, group);
    NestNode *along = b->along, *rest = along->next;
    NestNode *tile = nest_put_index(nest, along->body, along->name, group), **work = end;
    nest_add(
        nest, &end,
        (NestNode){.kind = NEST_IF, .extent = make_less(b->nest, b->tiles, group), .body = tile});
    if (nest->lanes > 1) items_finished(b, &rest, own);
    deal_rest(b, rest);
    build_rest(b, work, rest, &end, group, groups);
    if (!step)
        return nest_around(nest, b->tensors ? LOOP_SERIAL : LOOP_GRID, item,
                           make_times(nest, row->extent, groups), *body);
    const Index range = make_less(nest, make_symbol(nest, b->stop), make_symbol(nest, b->first));
    return nest_around(nest, LOOP_SERIAL, step, range, *body);
}

/* The loops over rows and over a row's tiles as one over items. */
static void build_items(ItemBuilder *b) {
    Nest *nest = b->nest;
    NestNode *row = *b->row, *before = NULL, **outside = &before, *body = NULL, **end = &body;
    b->ranged = items_take_ranges(b);
    const bool partition = b->ranged && !b->tensors;
    const SymbolId item =
        nest_symbol(b->nest, "item", partition ? NAMED_VALUE : NAMED_LOOP, TYPE_I64);
    b->slot = nest_symbol(b->nest, "slot", NAMED_VALUE, TYPE_I64);
    NestNode ***first = b->tensors ? &end : &outside;
    const SymbolId step = partition ? nest_symbol(b->nest, "i", NAMED_LOOP, TYPE_I64) : 0;
    if (step)
        nest_add(nest, &end,
                 (NestNode){.kind = NEST_LET,
                            .name = item,
                            .value = nest_index_value(nest, make_add(b->nest,
                                                                     make_symbol(b->nest, b->first),
                                                                     make_symbol(b->nest, step)))});
    Index groups = b->along->extent;
    if (b->varies)
        groups = items_max_groups(b, first);
    else
        build_counts(b, first);
    groups = items_bounded(b, first, OP_MAX, groups, 1, "groups");
    const Index all = make_times(nest, row->extent, groups);
    NestNode *items = items_row_tiles(b, groups);
    if (!items) items = build_each(b, &body, end, item, step, groups);
    if (step) items = items_partition(b, items, all);
    items->range = row->range;
    items->next = row->next;
    *outside = items;
    *b->row = before;
    if (b->tensors) schedule_table(b->plain, b->tensors, items);
    if (b->tensors && b->ranged) items_partition_table(b);
    const Index slots = b->plain->slots =
        b->tensors ? make_symbol(b->nest, b->plain->item_count) : all;
    nest_replace(nest, nest->body, b->slot,
                 make_symbol(b->nest, !b->tensors ? item
                                      : b->ranged ? b->entry
                                                  : b->tensors->name));
    if (!nest_is_of_sizes(nest, slots)) items_refuse(b, "how many items there are is not of sizes");
    for (NestNode *node = b->globals; node; node = node->next) {
        Index *at = nest_at(nest, node->at_count);
        for (size_t i = 1; i < node->at_count; i++) at[i] = node->at[i];
        at[0] = slots;
        node->at = at;
    }
    *b->globals_end = nest->body;
    nest->body = b->globals;
}

NestNode **items_find_around(NestNode **body, SymbolId inner) {
    for (NestNode **at = body; *at; at = &(*at)->next) {
        for (const NestNode *node = (*at)->body; node && (*at)->kind == NEST_LOOP;
             node = node->next)
            if (node->name == inner) return at;
        NestNode **found = items_find_around(&(*at)->body, inner);
        if (!found) found = items_find_around(&(*at)->other, inner);
        if (found) return found;
    }
    return NULL;
}

NestNode *items_find_along(ItemBuilder *b) {
    NestNode *node = (*b->row)->body;
    while (node && node->kind != NEST_LOOP) node = node->next;
    return node;
}

static bool is_of_sizes(const Nest *nest, ValueId value) {
    const Value *v = &nest->values->values[value];
    if (v->op == OP_CONST) return true;
    if (v->op == VALUE_INDEX) return nest_is_of_sizes(nest, *nest_index_of(nest, v));
    if (v->op == VALUE_NAME) {
        const NamedKind kind = nest->symbols[v->payload].kind;
        return kind == NAMED_SIZE || kind == NAMED_DERIVED;
    }
    if (v->type != TYPE_I64 || !nest_has_operation((Op)v->op)) return false;
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (v->arg[i] && !is_of_sizes(nest, v->arg[i])) return false;
    return true;
}

/* What is made of sizes alone is found at the launch. */
static void derive_sizes(ItemBuilder *b) {
    Nest *nest = b->nest;
    for (NestNode *node = nest->body; node; node = node->next) {
        const Value *v = &nest->values->values[node->value];
        if (node->kind != NEST_LET || v->type != TYPE_I64) continue;
        if (v->op == OP_CONST || !is_of_sizes(nest, node->value)) continue;
        const SymbolId own = nest_derived(nest, nest->symbols[node->name].name, node->value);
        const SymbolId old = node->name;
        nest_replace(nest, node->next, old, make_symbol(b->nest, own));
    }
}

bool items_sink(Nest *nest) {
    NestNode *first = nest->body, **end = &first, *loop;
    int64_t items;
    while (*end && ((*end)->kind == NEST_LOAD || (*end)->kind == NEST_LET)) end = &(*end)->next;
    loop = *end;
    if (!loop || loop == first || loop->next || loop->kind != NEST_LOOP ||
        loop->loop != LOOP_GRID || !index_is_number(loop->extent, &items) || items != 1)
        return false;
    *end = loop->body;
    loop->body = first;
    nest->body = loop;
    return true;
}

/* Ahead of what one lane stores for its row all lanes have read. */
static void wait_for_lanes(Nest *nest, NestNode **body) {
    for (; *body; body = &(*body)->next) {
        if ((*body)->kind == NEST_STORE) {
            NestNode *wait = arena_alloc(nest->arena, sizeof *wait);
            *wait = (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_WARP, .next = *body};
            *body = wait;
            return;
        }
        const bool lanes = (*body)->kind == NEST_LOOP && (*body)->loop == LOOP_LANE;
        if (!lanes) wait_for_lanes(nest, &(*body)->body);
    }
}

/* Rows of one tile at most, a warp each. */
static void build_small(ItemBuilder *b) {
    NestNode *row = *b->row;
    if (b->nest->lanes > 1) items_finished(b, &row->body, make_symbol(b->nest, row->name));
    const bool sunk = b->nest->lanes > 1 && !b->tensors && !b->few && items_sink(b->nest);
    if (sunk) b->row = &b->nest->body;
    if (b->few) {
        *b->row = items_partition(b, b->few, row->extent);
        (*b->row)->range = row->range;
        (*b->row)->next = row->next;
        b->few = NULL;
    } else if (b->tensors) {
        schedule_table(b->plain, b->tensors, *b->row);
    }
    if (sunk) wait_for_lanes(b->nest, &b->nest->body);
}

void items_build(ItemBuilder *b) {
    if (b->single) {
        build_small(b);
        return;
    }
    b->along = items_find_along(b);
    b->tiles = b->along->extent;
    build_items(b);
}

bool items_begin(ItemBuilder *b, const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                 Arena *arena, const char **problem) {
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    const Phase *own = &plan->phases[phase];
    const int list = ir_list_axis(plan->function, own->outer | own->inner);
    *b = (ItemBuilder){
        .plan = plan, .phase = own, .numbers = numbers, .arena = arena, .pairs = true, .length = 1};
    b->plain = schedule_plain(plan, &alone, numbers->layout, arena, problem);
    if (!b->plain) return false;
    b->nest = b->plain->nest;
    b->nest->warps = numbers->warps;
    b->nest->lanes = numbers->lanes;
    b->nest->width = numbers->width;
    b->globals_end = &b->globals;
    b->plain->item_axes = own->inner;
    b->plain->item_rows = list < 0 ? own->outer : own->outer & ~((AxisSet)1 << list);
    b->plain->item_min = true;
    if (list >= 0 && own->inner >> list & 1) items_refuse(b, "it goes over all tensors of a list");
    derive_sizes(b);
    return true;
}

PlainNest *items_end(ItemBuilder *b, const char **problem) {
    *problem = b->problem;
    if (b->problem) return NULL;
    if (b->divided) nest_hoist(b->nest);
    nest_sweep(b->nest);
    nest_tidy(b->nest);
    nest_forward(b->nest); /* what loops of one iteration have left in arrays of one element */
    nest_sweep(b->nest);
    return b->plain;
}
