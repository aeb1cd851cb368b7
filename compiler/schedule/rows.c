/* rows.c: the schedule of phases on the same rows, one after the other on each: rows of one tile at
 * most by a warp each, or of several by a block, a tile for each of its warps, in turns where it
 * has fewer. What several phases load stays in registers where there are no turns.
 *
 * The loops over outer coordinates become one, which is dealt to warps or stays a block's; those
 * along a row become one each, tiled; loads that are equal are one. What warps have of a tree lies
 * in shared memory, which every thread combines behind a barrier. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, ROW = 128, ALONG_MAX = 64 };

typedef struct RowBuilder {
    PlainNest *plain;
    Nest *nest;
    Arena *arena;
    const RowNumbers *numbers;
    Index along[ALONG_MAX]; /* the lengths of the loops along a row */
    size_t along_count;
    const char *problem;
} RowBuilder;

static bool refuse(RowBuilder *b, const char *problem) {
    if (problem && !b->problem) b->problem = problem;
    return !b->problem;
}

/* The most elements of a row. */
static uint32_t max(const RowNumbers *numbers) {
    return numbers->rows ? numbers->rows * ROW : numbers->tiles * TILE;
}

/* The phases have no list, and their rows are the kernel's. */
static void check_phases(RowBuilder *b, const Plan *plan, const Kernel *kernel, AxisSet outer) {
    if (kernel->pre_reductions) refuse(b, "it has pre-reductions");
    if (!outer) refuse(b, "it has one row");
    for (uint32_t p = kernel->first; p < kernel->first + kernel->count; p++) {
        const Phase *phase = &plan->phases[p];
        if (phase->shape != SHAPE_ROWS || phase->outer != outer)
            refuse(b, "its phases are not over the same rows");
        if (ir_list_axis(plan->function, outer | phase->inner) >= 0)
            refuse(b, "it goes over a list");
        if (!phase->reduction_count && kernel->count == 1) refuse(b, "it reduces nothing");
    }
}

/* Each loop of the row's body goes over all inner axes, and its length is known. */
static void join_along(RowBuilder *b, NestNode *body) {
    for (NestNode *node = body; node && !b->problem; node = node->next) {
        int64_t length;
        if (node->kind == NEST_WHEN) join_along(b, node->body);
        if (node->kind != NEST_LOOP) continue;
        if (schedule_join(b->nest, node, 0, true) != node)
            refuse(b, "what goes along a row is not one loop");
        else if (!nest_is_of_sizes(b->nest, node->extent))
            refuse(b, "a row's length depends on the row");
        else if (index_is_number(node->extent, &length) && length > max(b->numbers))
            refuse(b, "a row has more elements");
        else if (b->along_count == ALONG_MAX)
            refuse(b, "it goes along a row too often");
        else
            b->along[b->along_count++] = node->extent;
    }
}

typedef struct LoopList {
    SymbolId names[ALONG_MAX];
    size_t count;
} LoopList;

static bool is_listed(const LoopList *list, SymbolId name) {
    size_t i = 0;
    while (i < list->count && list->names[i] != name) i++;
    return i < list->count;
}

/* The loops of a body, those in its tests too, that are not in `but`. */
static void list_loops(const NestNode *body, const LoopList *but, LoopList *list) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_WHEN || node->kind == NEST_IF) list_loops(node->body, but, list);
        if (node->kind == NEST_LOOP && !is_listed(but, node->name) && list->count < ALONG_MAX)
            list->names[list->count++] = node->name;
    }
}

/* The one tile that a loop goes over, of so many rows, by vectors of so many elements. */
static void tile_loops(RowBuilder *b, const LoopList *loops, uint32_t rows, uint32_t width) {
    const TileNumbers numbers = {.single = true, .rows = rows, .width = width, .scattered = true};
    for (size_t i = 0; i < loops->count; i++)
        refuse(b, nest_tile(b->nest, loops->names[i], &numbers));
}

/* Places the tree with its tile's value in registers, which works if there is at most one tile;
 * otherwise, unless the scope is that too, with the tiles' values in memory of the scope. */
static const char *place_tree(RowBuilder *b, SymbolId tree, bool halve, NestScope scope) {
    const char *(*pass)(Nest *, SymbolId, NestScope) = halve ? nest_two_trees : nest_place_tree;
    const char *problem = pass(b->nest, tree, SCOPE_REGISTER);
    return problem && scope != SCOPE_REGISTER ? pass(b->nest, tree, scope) : problem;
}

static void place_trees(RowBuilder *b, bool halve, NestScope scope) {
    const SymbolId count = (SymbolId)b->nest->symbol_count;
    for (SymbolId s = 1; s < count && !b->problem; s++) {
        NestNode **place = nest_find(&b->nest->body, s);
        if (!place || (*place)->kind != NEST_TREE) continue;
        const Op op = (*place)->op;
        const bool second = nest_is_two_trees(op);
        if (second != halve || !nest_body_uses(b->nest, b->nest->body, s)) continue;
        refuse(b, place_tree(b, s, halve, scope));
    }
}

/* A row is a warp's. */
static void tile_warp(RowBuilder *b, SymbolId row) {
    LoopList loops = {.count = 0};
    place_trees(b, true, SCOPE_REGISTER);
    list_loops((*nest_find(&b->nest->body, row))->body, &(LoopList){.count = 0}, &loops);
    if (!b->problem) tile_loops(b, &loops, b->numbers->rows, b->nest->width);
}

/* Of a row that goes past in turns, loops that store along it begin on a vector's boundary (loop
 * peeling for alignment): what lies ahead of it has a loop of its own, which is given. A tree has
 * the row's own numbers, so the loops that make one do not. */
static LoopList align_loops(RowBuilder *b, const LoopList *loops) {
    LoopList ahead = {.count = 0};
    for (size_t i = 0; i < loops->count && b->numbers->layout == LS_LAYOUT_DENSE; i++)
        if (!nest_align(b->nest, loops->names[i], &ahead.names[ahead.count])) ahead.count++;
    return ahead;
}

/* A row is a block's: each loop along it goes over tiles, which are the warps'. The loops that put
 * together what tiles have in shared memory are every warp's. */
static void tile_block(RowBuilder *b, SymbolId row) {
    const LoopList none = {.count = 0};
    LoopList along = none, ahead = none, chunks = none, others = none;
    Nest *nest = b->nest;
    const bool once = b->numbers->tiles <= nest->warps;
    nest->max_tiles = b->numbers->tiles;
    list_loops((*nest_find(&nest->body, row))->body, &none, &along);
    if (!once) ahead = align_loops(b, &along);
    for (size_t i = 0; i < along.count; i++)
        refuse(b, nest_strip(nest, along.names[i], TILE, NULL));
    for (size_t i = 0; i < ahead.count; i++)
        refuse(b, nest_strip(nest, ahead.names[i], TILE, &ahead.names[i]));
    list_loops((*nest_find(&nest->body, row))->body, &none, &chunks);
    if (!b->problem) place_trees(b, true, SCOPE_SHARED);
    list_loops((*nest_find(&nest->body, row))->body, &chunks, &others);
    tile_loops(b, &others, b->numbers->tiles <= ROW ? 1 : 8, ROW / nest->lanes);
    for (size_t i = 0; i < chunks.count && !b->problem; i++) {
        LoopList inner = none;
        list_loops((*nest_find(&nest->body, chunks.names[i]))->body, &none, &inner);
        const bool few = inner.count && is_listed(&ahead, inner.names[0]);
        tile_loops(b, &inner, few ? 1 : 8, nest->width);
        if (nest->warps > 1 && !b->problem)
            refuse(b, nest_deal(nest, chunks.names[i], once || few ? DEAL_ONCE : DEAL_WARPS));
    }
}

static bool has_warps(const NestNode *body) {
    const NestNode *node = body;
    while (node && (node->kind != NEST_LOOP || node->loop != LOOP_WARP)) node = node->next;
    return node;
}

/* Whether registers have an element for each iteration of the loop. */
static bool is_kept_by(const Nest *nest, const NestNode *body, SymbolId loop) {
    for (const NestNode *node = body; node; node = node->next) {
        const bool accesses = node->kind == NEST_LOAD || node->kind == NEST_STORE;
        const bool kept = accesses && nest->symbols[node->array].kind == NAMED_ALLOC;
        for (size_t i = 0; i < node->at_count && kept; i++)
            if (index_uses(node->at[i], loop)) return true;
        if (is_kept_by(nest, node->body, loop) || is_kept_by(nest, node->other, loop)) return true;
    }
    return false;
}

/* Every second loop of turns goes from the row's end to its beginning: it finds in the caches what
 * the loop before it has loaded last. */
static void alternate_turns(RowBuilder *b, NestNode *body, size_t *count) {
    Nest *nest = b->nest;
    for (NestNode *node = body; node; node = node->next) {
        const bool serial = node->kind == NEST_LOOP && node->loop == LOOP_SERIAL;
        if (!serial || !has_warps(node->body)) {
            alternate_turns(b, node->body, count);
            alternate_turns(b, node->other, count);
        } else if ((*count)++ % 2 && !is_kept_by(nest, node->body, node->name)) {
            NestNode *first = NULL, **end = &first;
            const Index behind = make_less(nest, node->extent, make_symbol(nest, node->name));
            const Index turn = make_less(nest, behind, make_number(nest, 1));
            const Index own = make_let_index(nest, &end, "turn", nest_index_value(nest, turn));
            nest_replace(nest, node->body, node->name, own);
            *end = node->body;
            node->body = first;
        }
    }
}

/* A row is loaded once, to registers. */
static bool is_kept(const RowBuilder *b) {
    return b->numbers->rows || b->numbers->tiles <= b->nest->warps;
}

/* The bytes of the narrowest element of what the body loads and stores of each row; 0: nothing. */
static size_t narrowest(const Nest *nest, const NestNode *body, SymbolId row) {
    size_t least = 0;
    for (const NestNode *node = body; node; node = node->next) {
        const bool access = node->kind == NEST_LOAD || node->kind == NEST_STORE;
        const size_t inner = narrowest(nest, node->body, row);
        size_t own = 0;
        if (access && nest->symbols[node->array].kind == NAMED_ARRAY &&
            index_uses(node->at[0], row))
            own = type_info[nest->symbols[node->array].type].size;
        if (own && (!least || own < least)) least = own;
        if (inner && (!least || inner < least)) least = inner;
    }
    return least;
}

/* The elements of a vector: of as many bytes as a lane accesses at once, up to so many times those
 * that make a row of the tree across the lanes. Rows that warps take in turns keep those, and so do
 * rows of which a lane would have one vector alone: the halves' joining costs more than it saves.
 */
static uint32_t find_width(const RowBuilder *b, const NestNode *rows) {
    enum { ACCESS = 16, TIMES = 2 };
    size_t size = 0;
    const bool kept = is_kept(b) && (!b->numbers->rows || b->numbers->rows > TIMES);
    for (const NestNode *node = rows->body; node; node = node->next) {
        const size_t own = node->kind == NEST_LOOP ? narrowest(b->nest, node->body, rows->name) : 0;
        if (own && (!size || own < size)) size = own;
    }
    const uint32_t least = b->numbers->width;
    return kept && size && ACCESS / size >= TIMES * least ? TIMES * least : least;
}

/* Whether the loop loads several elements at each of its iterations that are the same for all rows,
 * and none of the row: these are near, and together would take the registers of other warps. In a
 * block of many warps, which leave a thread few registers, one such element is enough. */
static bool loads_weights(const Nest *nest, const NestNode *loop, SymbolId row) {
    const size_t spared = nest->warps < MANY_WARPS ? 1 : 0;
    const NestNode *vector = loop->body;
    size_t count = 0;
    if (!vector || vector->kind != NEST_LOOP) return false;
    for (const NestNode *node = vector->body; node; node = node->next) {
        if (node->kind != NEST_LOAD || nest->symbols[node->array].kind != NAMED_ARRAY) continue;
        if (index_uses(node->at[0], row)) return false;
        count++;
    }
    return count > spared;
}

static void load_all_first(RowBuilder *b, SymbolId row) {
    const SymbolId count = (SymbolId)b->nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&b->nest->body, s);
        if (place && (*place)->kind == NEST_LOOP && (*place)->loop == LOOP_UNROLLED &&
            !(is_kept(b) && loads_weights(b->nest, *place, row)))
            nest_load_first(b->nest, s);
    }
}

/* As many rows of a tile at once as the budget of loads allows: see RowNumbers.load_bytes. */
static void jam_rows(RowBuilder *b) {
    const SymbolId count = (SymbolId)b->nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&b->nest->body, s);
        if (place && (*place)->kind == NEST_LOOP && (*place)->loop == LOOP_UNROLLED)
            schedule_jam(b->nest, *place, b->numbers->load_bytes, true);
    }
}

/* Limits of a lane's elements from those of its first one on, which is a name of 32 bits: a
 * compiler would keep the comparison of each element in 64 from one loop to the next. `first` is
 * the limit where all loops in the lanes' are at their beginning. */
typedef struct Left {
    Nest *nest;
    NestNode **end;
    Index first, name;
    bool any;
} Left;

static void name_left(Left *l, NestNode *body, const NestNode *const *loops, size_t depth) {
    const NestNode *inner[4];
    for (size_t i = 0; i < depth; i++) inner[i] = loops[i];
    for (NestNode *node = body; node; node = node->next) {
        Nest *nest = l->nest;
        Index first = node->limit;
        if (node->kind == NEST_LOOP && depth < COUNT(inner)) {
            inner[depth] = node;
            name_left(l, node->body, inner, depth + 1);
        }
        if (!node->has_limit) continue;
        for (size_t i = 0; i < depth; i++)
            first = index_replace(nest->arena, first, loops[i]->name, (Index){NULL, 0});
        if (!l->any) {
            const ValueId less = make_value(nest, OP_MIN, make_number(nest, TILE), first);
            const ValueId value = ir_cast(nest->values, TYPE_I32, less);
            l->name = make_symbol(nest, make_let(nest, &l->end, "left", TYPE_I32, value));
            l->first = first;
            l->any = true;
        }
        if (index_equal(first, l->first))
            node->limit = make_add(nest, l->name, make_less(nest, node->limit, first));
    }
}

static void name_all_left(RowBuilder *b, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_LOOP && node->loop == LOOP_LANE) {
            NestNode *lets = NULL;
            Left left = {.nest = b->nest, .end = &lets};
            name_left(&left, node->body, NULL, 0);
            *left.end = node->body;
            node->body = lets ? lets : node->body;
        } else {
            name_all_left(b, node->body);
            name_all_left(b, node->other);
        }
    }
}

/* Whether the body loads from arrays and stores to them, and does nothing else that is kept. */
static bool is_map(const Nest *nest, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        const bool accesses = node->kind == NEST_LOAD || node->kind == NEST_STORE;
        if (accesses && nest->symbols[node->array].kind != NAMED_ARRAY) return false;
        if (!accesses && node->kind != NEST_LET && node->kind != NEST_LOOP) return false;
        if (!is_map(nest, node->body)) return false;
    }
    return true;
}

/* The rows of a map's tile, of which one in many tiles is, are one after the other. */
static void roll_maps(const Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        const bool rows = node->kind == NEST_LOOP && node->loop == LOOP_UNROLLED;
        if (rows && is_map(nest, node->body)) node->loop = LOOP_SERIAL;
        roll_maps(nest, node->body);
    }
}

/* Of tiles that warps take in turns, those that are whole have a text without limits. */
static void split_tails(RowBuilder *b, NestNode *body, bool turns) {
    for (NestNode *node = body; node; node = node->next) {
        const bool loop = node->kind == NEST_LOOP, tile = loop && node->loop == LOOP_WARP;
        if (!tile) {
            split_tails(b, node->body, turns || (loop && node->loop == LOOP_SERIAL));
            split_tails(b, node->other, turns);
        } else if (turns && !nest_is_long(node->body)) {
            if (nest_split_tail(b->nest, node->name)) continue;
            for (NestNode *test = node->body; test && !is_kept(b); test = test->body)
                if (test->version) roll_maps(b->nest, test->other);
        }
    }
}

/* Of rows that stay in registers: a row of a warp's that is its most elements, or the tiles of a
 * block's that are whole. The tests are the same for all lanes. */
static void split_kept(RowBuilder *b, NestNode *rows) {
    if (nest_is_long(rows->body)) return;
    if (b->numbers->rows)
        nest_split_tail(b->nest, rows->name);
    else
        split_tails(b, rows->body, true);
}

/* What the texts of whole tiles and of others need once their loads stand where they stay. */
static void finish_tails(RowBuilder *b, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_IF && node->version) {
            schedule_limit_vectors(b->nest, node->body, NULL);
            if (is_kept(b)) continue;
            name_all_left(b, node->other);
            nest_narrow(b->nest, node->body);
            nest_narrow(b->nest, node->other);
        } else {
            finish_tails(b, node->body);
            finish_tails(b, node->other);
        }
    }
}

static bool is_read_elsewhere(const Plan *plan, const Kernel *kernel, uint32_t array) {
    for (uint32_t p = 0; p < plan->phase_count; p++)
        if ((p < kernel->first || p >= kernel->first + kernel->count) &&
            plan_reads(plan, &plan->phases[p], array))
            return true;
    return false;
}

/* Whether a store outside the loops along the row is to an array that the nest loads: one thread
 * makes that store, and the others would not see it. */
static bool is_read_again(const Nest *nest, const NestNode *body) {
    for (const NestNode *node = body; node; node = node->next) {
        const bool inside = node->kind == NEST_WHEN || node->kind == NEST_IF;
        if (node->kind == NEST_STORE && nest_reads(nest->body, node->array)) return true;
        if (inside && (is_read_again(nest, node->body) || is_read_again(nest, node->other)))
            return true;
    }
    return false;
}

/* What phases leave for others on the row itself, outside of loops along it, goes by names. */
static void forward_values(RowBuilder *b, const Plan *plan, const Kernel *kernel, NestNode *rows) {
    nest_forward(b->nest);
    nest_merge_tests(b->nest);
    nest_forward(b->nest);
    for (uint32_t i = (uint32_t)plan->function->parameter_count; i < plan->array_count; i++)
        if (b->plain->arrays[i] && !is_read_elsewhere(plan, kernel, i))
            nest_drop_stores(b->nest, b->plain->arrays[i]);
    if (is_read_again(b->nest, rows->body))
        refuse(b, "a value of the row is read from memory again");
}

/* Adds barriers between what one phase reads of a row at other columns and what another one stores.
 */
static void order_phases(RowBuilder *b, const Plan *plan, const Kernel *kernel, SymbolId row) {
    const NestScope scope = b->numbers->rows ? SCOPE_WARP : SCOPE_BLOCK;
    for (uint32_t a = 0; a < plan->array_count; a++) {
        bool elsewhere = false, writes = false;
        for (uint32_t p = kernel->first; p < kernel->first + kernel->count; p++) {
            const Touch *touch = plan_touch(&plan->phases[p], a);
            elsewhere |= touch && touch->elsewhere;
            writes |= touch && touch->writes;
        }
        if (elsewhere && writes) nest_order_accesses(b->nest, row, b->plain->arrays[a], scope);
    }
}

/* Whether the body has what takes twice the registers of a row of 32-bit elements: such a row of
 * 64-bit ones, or the two trees of logsumexp and the like. */
static bool takes_many(const Nest *nest, const NestNode *body, SymbolId row) {
    for (const NestNode *node = body; node; node = node->next) {
        const NestSymbol *array = &nest->symbols[node->array];
        if (node->kind == NEST_TREE && nest_is_two_trees(node->op)) return true;
        if (node->kind == NEST_LOAD && array->kind == NAMED_ARRAY &&
            type_info[array->type].size > sizeof(uint32_t) && index_uses(node->at[0], row))
            return true;
        if (takes_many(nest, node->body, row) || takes_many(nest, node->other, row)) return true;
    }
    return false;
}

/* By array, whether a loop along the row loads elements of the row from it. */
static void find_streams(const NestNode *body, SymbolId row, bool *is_stream) {
    for (const NestNode *node = body; node; node = node->next) {
        is_stream[node->array] |= node->kind == NEST_LOAD && index_uses(node->at[0], row);
        find_streams(node->body, row, is_stream);
        find_streams(node->other, row, is_stream);
    }
}

/* Many warps leave a thread few registers beside its part of a row: for 32 warps that is of one
 * array, for 16 of two. */
static void check_registers(RowBuilder *b, const NestNode *rows) {
    const Nest *nest = b->nest;
    uint32_t streams = 0;
    if (nest->warps < MANY_WARPS || !is_kept(b)) return;
    bool *is_stream = arena_alloc(nest->arena, nest->symbol_count * sizeof *is_stream);
    for (const NestNode *node = rows->body; node; node = node->next) {
        const bool two = node->kind == NEST_TREE && nest_is_two_trees(node->op);
        if (two || takes_many(nest, node->body, rows->name))
            refuse(b, "many warps have no registers for it");
        if (node->kind == NEST_LOOP) find_streams(node->body, rows->name, is_stream);
    }
    for (size_t s = 0; s < nest->symbol_count; s++)
        streams += nest->symbols[s].kind == NAMED_ARRAY && is_stream[s];
    if (streams * nest->warps > 2 * MANY_WARPS)
        refuse(b, "many warps have no registers for several arrays");
}

static void build(RowBuilder *b, const Plan *plan, const Kernel *kernel) {
    NestNode *rows = schedule_first_loop(b->nest->body);
    if (!rows || rows->loop != LOOP_GRID) {
        refuse(b, "it has no loop over rows");
        return;
    }
    if (schedule_join(b->nest, rows, 0, true) != rows) {
        refuse(b, "its rows' lengths depend on each other");
        return;
    }
    const SymbolId row = rows->name;
    join_along(b, rows->body);
    forward_values(b, plan, kernel, rows);
    check_registers(b, rows);
    if (b->problem) return;
    b->nest->width = find_width(b, rows);
    (b->numbers->rows ? tile_warp : tile_block)(b, row);
    if (b->problem) return;
    nest_keep(b->nest, b->numbers->registers);
    nest_sweep(b->nest);
    place_trees(b, false, b->numbers->rows ? SCOPE_REGISTER : SCOPE_SHARED);
    if (b->problem) return;
    if (is_kept(b))
        split_kept(b, rows);
    else
        split_tails(b, rows->body, false);
    if (b->numbers->first) load_all_first(b, row);
    if (b->numbers->load_bytes) jam_rows(b);
    order_phases(b, plan, kernel, row);
    finish_tails(b, rows->body);
    if (!b->numbers->rows) {
        size_t turns = 0;
        alternate_turns(b, rows->body, &turns);
    }
    if (is_kept(b)) nest_narrow(b->nest, rows->body);
    if (!b->numbers->rows) nest_merge_barriers(b->nest);
    if (!b->numbers->rows)
        nest_guard_reuse(b->nest);
    else if (b->nest->warps > 1)
        refuse(b, nest_deal(b->nest, row, DEAL_WARPS));
}

PlainNest *schedule_rows(const Plan *plan, const Kernel *kernel, const RowNumbers *numbers,
                         Arena *arena, const char **problem) {
    RowBuilder b = {.arena = arena, .numbers = numbers};
    const AxisSet outer = plan->phases[kernel->first].outer;
    check_phases(&b, plan, kernel, outer);
    *problem = b.problem;
    if (b.problem) return NULL;
    b.plain = schedule_plain(plan, kernel, numbers->layout, arena, problem);
    if (!b.plain) return NULL;
    b.nest = b.plain->nest;
    b.nest->warps = numbers->warps;
    b.nest->lanes = numbers->lanes;
    b.nest->width = numbers->width;
    build(&b, plan, kernel);
    nest_sweep(b.nest);
    nest_tidy(b.nest);
    Index *along = arena_alloc(arena, (b.along_count + 1) * sizeof *along);
    for (size_t i = 0; i < b.along_count; i++) along[i] = b.along[i];
    b.plain->along = along;
    b.plain->along_count = b.along_count;
    b.plain->along_max = max(numbers);
    *problem = b.problem;
    return b.problem ? NULL : b.plain;
}
