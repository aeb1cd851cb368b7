/* rows.c: the schedule of phases on the same rows, one after the other on each, with what they load
 * in registers: rows of one tile at most by a warp each, or of several by a block, a tile for each
 * of its warps.
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
static uint32_t most(const RowNumbers *numbers) {
    return numbers->rows ? numbers->rows * ROW : numbers->warps * TILE;
}

/* The phases have no list, and their rows are the kernel's. */
static void check_phases(RowBuilder *b, const Plan *plan, const Kernel *kernel, AxisSet outer) {
    if (kernel->prologue) refuse(b, "it has a prologue");
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

/* Each loop of the row's body is one over all that is walked, and its length is known. */
static void join_along(RowBuilder *b, NestNode *body) {
    for (NestNode *node = body; node && !b->problem; node = node->next) {
        int64_t length;
        if (node->kind == NEST_WHEN) join_along(b, node->body);
        if (node->kind != NEST_LOOP) continue;
        if (schedule_join(b->nest, node, 0, true) != node)
            refuse(b, "what is walked along a row is not one loop");
        else if (!nest_is_of_sizes(b->nest, node->extent))
            refuse(b, "how long a row is hangs on the row");
        else if (index_is_number(node->extent, &length) && length > most(b->numbers))
            refuse(b, "a row has more elements");
        else if (b->along_count == ALONG_MAX)
            refuse(b, "it goes along a row too often");
        else
            b->along[b->along_count++] = node->extent;
    }
}

static void tile_all(RowBuilder *b, const NestNode *body) {
    const TileNumbers numbers = {.kind = LOOP_WARP,
                                 .once = !b->numbers->rows,
                                 .single = b->numbers->rows,
                                 .rows = b->numbers->rows,
                                 .scattered = true};
    SymbolId loops[ALONG_MAX];
    size_t count = 0;
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_WHEN) tile_all(b, node->body);
        if (node->kind == NEST_LOOP) loops[count++] = node->name;
    }
    for (size_t i = 0; i < count; i++) refuse(b, nest_tile(b->nest, loops[i], &numbers));
}

static void place_trees(RowBuilder *b, bool halve) {
    const SymbolId count = (SymbolId)b->nest->symbol_count;
    const bool several = !b->numbers->rows && b->nest->warps > 1;
    const NestScope scope = several ? SCOPE_SHARED : SCOPE_REGISTER;
    for (SymbolId s = 1; s < count && !b->problem; s++) {
        NestNode **place = nest_find(&b->nest->body, s);
        if (!place || (*place)->kind != NEST_TREE) continue;
        const Op op = (*place)->op;
        const bool second = op == OP_ARGMIN || op == OP_ARGMAX || op == OP_LOGSUMEXP;
        if (second != halve || !nest_body_uses(b->nest, b->nest->body, s)) continue;
        refuse(b, (halve ? nest_two_trees : nest_place_tree)(b->nest, s, scope));
    }
}

static void load_all_first(RowBuilder *b) {
    const SymbolId count = (SymbolId)b->nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&b->nest->body, s);
        if (place && (*place)->kind == NEST_LOOP && (*place)->loop == LOOP_UNROLLED)
            nest_load_first(b->nest, s);
    }
}

static void build(RowBuilder *b) {
    NestNode *rows = schedule_first_loop(b->nest->body);
    if (!rows || rows->loop != LOOP_GRID) {
        refuse(b, "it has no loop over rows");
        return;
    }
    if (schedule_join(b->nest, rows, 0, true) != rows) {
        refuse(b, "its rows' lengths hang on each other");
        return;
    }
    const SymbolId row = rows->name;
    join_along(b, rows->body);
    if (b->problem) return;
    place_trees(b, true);
    rows = *nest_find(&b->nest->body, row);
    if (!b->problem) tile_all(b, rows->body);
    if (b->problem) return;
    nest_keep(b->nest, b->numbers->registers);
    nest_sweep(b->nest);
    place_trees(b, false);
    if (b->problem) return;
    if (b->numbers->first) load_all_first(b);
    if (!b->numbers->rows)
        nest_guard_reuse(b->nest);
    else if (b->nest->warps > 1)
        refuse(b, nest_deal(b->nest, row, false));
}

PlainNest *schedule_rows(const Plan *plan, const Kernel *kernel, const RowNumbers *numbers,
                         Arena *arena, const char **problem) {
    RowBuilder b = {.arena = arena, .numbers = numbers};
    const AxisSet outer = plan->phases[kernel->first].outer;
    check_phases(&b, plan, kernel, outer);
    *problem = b.problem;
    if (b.problem) return NULL;
    b.plain = schedule_plain(plan, kernel, numbers->strided, arena, problem);
    if (!b.plain) return NULL;
    b.nest = b.plain->nest;
    b.nest->warps = numbers->warps;
    b.nest->lanes = numbers->lanes;
    b.nest->width = numbers->width;
    build(&b);
    nest_sweep(b.nest);
    nest_tidy(b.nest);
    Index *along = arena_alloc(arena, (b.along_count + 1) * sizeof *along);
    for (size_t i = 0; i < b.along_count; i++) along[i] = b.along[i];
    b.plain->along = along;
    b.plain->along_count = b.along_count;
    b.plain->along_most = most(numbers);
    *problem = b.problem;
    return b.problem ? NULL : b.plain;
}
