/* combine.c: the schedule of a phase over rows that are long: its grid loop goes over items of a
 * row's tiles, one for each warp, and what tiles leave in memory is combined by whoever comes last.
 *
 * The loops over outer coordinates become one and those along a row another, which is stripped to
 * tiles; a tile goes to lanes and vectors, and its trees to folds. What becomes of the two loops is
 * items.c's. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { TILE = 1024, ROWS = 8, VECTOR = 64 };

/* ---- one loop over rows, in it one along them ---- */

static NestNode **find_first_loop(NestNode **body) {
    while (*body && (*body)->kind != NEST_LOOP)
        body = (*body)->kind == NEST_WHEN ? &(*body)->body : &(*body)->next;
    return *body ? body : NULL;
}

/* Everything from the place on is the one iteration of a loop. */
static NestNode *wrap(ItemBuilder *b, NestNode **place, LoopKind kind) {
    const SymbolId once = nest_symbol(b->nest, "row", NAMED_LOOP, TYPE_I64);
    return *place = nest_around(b->nest, kind, once, index_number(b->arena, 1), *place);
}

/* Where nothing is reduced the loops along a row stand alone in those over rows: the first. */
static SymbolId first_along(const NestNode *outermost, size_t inner) {
    size_t depth = 1;
    const NestNode *loop = outermost;
    for (const NestNode *next = loop; (next = schedule_next_loop(next));) depth++;
    for (size_t i = 0; i + inner < depth; i++) loop = schedule_next_loop(loop);
    return loop->name;
}

/* The loops of a list's tensor as a row's, or those of the phase. */
static void find_rows(ItemBuilder *b, const Function *f, const Phase *phase) {
    const int list = ir_list_axis(f, phase->outer | phase->inner);
    AxisSet outer = phase->outer;
    NestNode **place = &b->nest->body;
    if (list >= 0) {
        b->tensors = *find_first_loop(place);
        outer &= ~((AxisSet)1 << list);
        place = &b->tensors->body;
        while (*place && ((*place)->kind == NEST_LOAD || (*place)->kind == NEST_LET))
            place = &(*place)->next;
    }
    if (outer) {
        b->row = find_first_loop(place);
    } else {
        NestNode **first = find_first_loop(place);
        while (!b->tensors && *place && (*place)->kind != NEST_LOOP && (*place)->kind != NEST_TREE)
            place = (*place)->kind == NEST_WHEN ? &(*place)->body : &(*place)->next;
        if (!first) items_refuse(b, "there is no inner loop");
        if (first) wrap(b, place, b->tensors ? LOOP_SERIAL : LOOP_GRID);
        b->row = place;
        return;
    }
    const SymbolId end =
        phase->reduction_count ? 0 : first_along(*b->row, items_count_loops(f, phase->inner));
    if (schedule_join(b->nest, *b->row, end, true) != *b->row)
        items_refuse(b, "its rows' lengths depend on each other");
}

/* Coalesces the loops along a row into one, and places its trees along tiles. Where nothing is
 * reduced, one thread takes a tile element by element. */
static bool tile_row(ItemBuilder *b) {
    NestNode *loop = (*b->row)->body;
    while (loop && loop->kind != NEST_LOOP) loop = loop->next;
    if (!loop) bug(b->nest->compiler, "nothing goes along a row");
    if (schedule_join(b->nest, loop, 0, true) != loop)
        return items_refuse(b, "what goes along a row is not one loop");
    b->max = loop->extent;
    if (!items_find_max(b, *b->row, loop)) return items_refuse(b, "rows are not of one length");
    b->pairs = !schedule_is_halved((*b->row)->body);
    if (b->nest->lanes == 1) return items_alone(b, loop);
    const TileNumbers numbers = {.single = b->single, .rows = ROWS, .scattered = true};
    const char *problem = schedule_trees(b->nest, &(*b->row)->body, &numbers);
    if (problem) return items_refuse(b, problem);
    if (!b->single) items_short_rows(b);
    return true;
}

/* ---- loads ---- */

/* What is done for a tile. */
static NestNode **work_of(ItemBuilder *b) {
    return b->single ? &(*b->row)->body : &items_find_along(b)->body;
}

static void jam_all(ItemBuilder *b, int64_t max) {
    Nest *nest = b->nest;
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(work_of(b), s);
        if (place && (*place)->kind == NEST_LOOP && (*place)->body &&
            (*place)->body->kind == NEST_LOOP && (*place)->body->loop == LOOP_VECTOR)
            schedule_jam(b->nest, *place, max, false);
    }
}

/* Of one thread: the symbols of its range of items, and what it does with short rows. */
static void open_partition(ItemBuilder *b) {
    NestNode *row = *b->row, *loop = row->body;
    b->first = nest_symbol(b->nest, "first", NAMED_VALUE, TYPE_I64);
    b->stop = nest_symbol(b->nest, "stop", NAMED_VALUE, TYPE_I64);
    items_finished(b, &row->body, index_symbol(b->arena, row->name));
    while (loop && loop->kind != NEST_LOOP) loop = loop->next;
    if (!loop || schedule_join(b->nest, loop, 0, false) != loop) return;
    b->max = loop->extent;
    if (nest_has(row->body, NEST_TREE))
        items_small_rows(b);
    else
        items_rows_ahead(b);
}

PlainNest *schedule_combine(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                            Arena *arena, const char **problem) {
    ItemBuilder b;
    if (!items_begin(&b, plan, phase, numbers, arena, problem)) return NULL;
    if (!b.problem) find_rows(&b, plan->function, &plan->phases[phase]);
    if (!b.problem && b.nest->lanes == 1) open_partition(&b);
    if (!b.problem && tile_row(&b)) {
        if (b.nest->lanes > 1) jam_all(&b, numbers->load_bytes);
        items_build(&b);
    }
    if (!b.problem && b.nest->lanes == 1) items_sink(b.nest);
    if (!b.problem && b.nest->lanes == 1) nest_split_indices(b.nest, &b.nest->body, VECTOR);
    return items_end(&b, problem);
}
