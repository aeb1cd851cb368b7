/* run.c: a nest as the sequential program it is, on memory of the host, with an eye on what makes
 * it one: who wrote an element last, who reads it, and what orders the two.
 *
 * Iterations of warp, lane and vector loops are points that take every node together. A name has a
 * value at each point; inside a loop or a branch the points are others, and what is bound there is
 * gone behind it. Iterations of a grid loop are shared out to three blocks that run one after the
 * other, in an order that a seed picks. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

enum { BLOCKS = 3, EVERYONE = -1000000, NOBODY = -2000000 };

bool run_stop(Run *run, const NestNode *node, const char *format, ...) {
    Text text = text_open(run->arena);
    va_list arguments;
    if (run->problem) return false;
    if (node) text_printf(&text, "%s", nest_kind_names[node->kind]);
    if (node && node->name)
        text_printf(&text, " %s", run->nest->symbols[node->name].name);
    else if (node && node->array)
        text_printf(&text, " %s", run->nest->symbols[node->array].name);
    if (node) text_puts(&text, ": ");
    va_start(arguments, format);
    text_vprintf(&text, format, arguments);
    va_end(arguments);
    run->problem = text.data;
    return false;
}

const char *run_name(const Run *run, SymbolId symbol) {
    return run->nest->symbols[symbol].name;
}

/* ---- points ---- */

/* What the symbol is at each of the points, or NULL. */
static uint64_t *values_of(const Points *points, SymbolId symbol) {
    if (points->values[symbol] || !points->outside) return points->values[symbol];
    uint64_t *from = values_of(points->outside, symbol), *values = from;
    if (from && points->origin) {
        values = arena_alloc(points->arena, (points->count + 1) * sizeof *values);
        for (size_t i = 0; i < points->count; i++) values[i] = from[points->origin[i]];
    }
    return points->values[symbol] = values;
}

static int32_t *copy_numbers(Arena *arena, const int32_t *from, const size_t *origin,
                             size_t count) {
    int32_t *numbers = arena_alloc(arena, (count + 1) * sizeof *numbers);
    for (size_t i = 0; i < count; i++) numbers[i] = from[origin[i]];
    return numbers;
}

/* Points that are copies of those that `origin` names; NULL: of all. */
static Points copy_points(Run *run, Arena *arena, const Points *from, const size_t *origin,
                          size_t count) {
    Points points = {.count = count,
                     .split = from->split,
                     .outside = from,
                     .origin = origin,
                     .arena = arena,
                     .warp = from->warp,
                     .lane = from->lane};
    points.values = arena_alloc(arena, run->nest->symbol_count * sizeof *points.values);
    if (origin && from->warp) points.warp = copy_numbers(arena, from->warp, origin, count);
    if (origin && from->lane) points.lane = copy_numbers(arena, from->lane, origin, count);
    return points;
}

static Points some_points(Run *run, Arena *arena, const Points *from, const bool *mask) {
    size_t *origin = arena_alloc(arena, (from->count + 1) * sizeof *origin), count = 0;
    for (size_t i = 0; i < from->count; i++)
        if (mask[i]) origin[count++] = i;
    const bool all = count == from->count;
    Points points = copy_points(run, arena, from, all ? NULL : origin, count);
    points.split |= !all;
    return points;
}

int32_t run_thread(const Run *run, const Points *points, size_t point) {
    const Nest *nest = run->nest;
    if (!points->warp && nest->warps > 1) return EVERYONE;
    const int32_t warp = points->warp ? points->warp[point] : 0;
    if (!points->lane && nest->lanes > 1) return -2 - warp;
    return warp * (int32_t)nest->lanes + (points->lane ? points->lane[point] : 0);
}

static int32_t warp_of(const Run *run, int32_t thread) {
    if (thread == EVERYONE) return EVERYONE;
    return thread < 0 ? -2 - thread : thread / (int32_t)run->nest->lanes;
}

/* ---- values and indices ---- */

bool run_symbol(Run *run, const Points *points, size_t point, SymbolId symbol, uint64_t *value) {
    const uint64_t *values = points->values[symbol];
    if (!values) values = values_of(points, symbol);
    if (!values)
        return run_stop(run, NULL, "%s is used where it has no value", run_name(run, symbol));
    *value = values[point];
    return true;
}

bool run_index(Run *run, const Points *points, size_t point, Index index, int64_t *value) {
    uint64_t sum = 0;
    for (size_t t = 0; t < index.count; t++) {
        uint64_t product = (uint64_t)index.terms[t].factor, factor = 0;
        for (uint32_t k = 0; k < index.terms[t].count; k++) {
            const SymbolId symbol = index.terms[t].symbols[k];
            if (!run_symbol(run, points, point, symbol, &factor)) return false;
            if (run->nest->symbols[symbol].type == TYPE_I32)
                factor = (uint64_t)(int32_t)(uint32_t)factor;
            product *= factor;
        }
        sum += product;
    }
    *value = (int64_t)sum;
    return true;
}

enum { CALL_ARGUMENTS_MAX = 64 };

static bool call_at(Run *run, const Points *points, size_t point, const Value *v, uint64_t *bits) {
    const Value *values = run->nest->values->values;
    uint64_t x[CALL_ARGUMENTS_MAX];
    size_t count = 0;
    for (ValueId list = v->arg[0]; list; list = values[list].arg[1], count++)
        if (count == CALL_ARGUMENTS_MAX ||
            !run_value(run, points, point, values[list].arg[0], &x[count]))
            return run_stop(run, NULL, "a call has too many arguments");
    if (!run->job->calls) return run_stop(run, NULL, "there are no C functions to call");
    run->job->calls[v->payload](x, bits);
    return true;
}

bool run_value(Run *run, const Points *points, size_t point, ValueId id, uint64_t *bits) {
    const Value *values = run->nest->values->values, *v = &values[id];
    uint64_t x[3] = {0};
    int64_t number;
    if (v->op == OP_CONST) {
        *bits = v->payload;
        return true;
    }
    if (v->op == VALUE_NAME) return run_symbol(run, points, point, (SymbolId)v->payload, bits);
    if (v->op == VALUE_INDEX) {
        if (!run_index(run, points, point, *nest_index_of(run->nest, v), &number)) return false;
        *bits = (uint64_t)number;
        return true;
    }
    if (v->op == OP_CALL) return call_at(run, points, point, v, bits);
    for (int i = 0; i < op_info[v->op].arity; i++)
        if (v->arg[i] && !run_value(run, points, point, v->arg[i], &x[i])) return false;
    const bool counted = v->op == OP_SHIFT_LEFT || v->op == OP_SHIFT_RIGHT || v->op == OP_POWI;
    if (counted && values[v->arg[1]].type == TYPE_I32) x[1] = (uint64_t)(int32_t)(uint32_t)x[1];
    if (!ir_evaluate((Op)v->op, (Type)v->type, (Type)values[v->arg[0]].type, v->payload, x, bits))
        return run_stop(run, NULL, "%s cannot be evaluated", op_info[v->op].name);
    return true;
}

/* By point: whether the node takes part there: its limit and its condition. */
bool *run_live(Run *run, Arena *arena, const Points *points, const NestNode *node) {
    bool *live = arena_alloc(arena, (points->count + 1) * sizeof *live);
    for (size_t i = 0; i < points->count; i++) {
        int64_t left = 1;
        uint64_t where = 1;
        if (node->has_limit && !run_index(run, points, i, node->limit, &left)) return NULL;
        if (node->where && !run_symbol(run, points, i, node->where, &where)) return NULL;
        live[i] = left > 0 && where;
    }
    return live;
}

/* ---- memory ---- */

static Access access_now(const Run *run, int32_t thread) {
    return (Access){run->phase, run->epoch, run->warp_epoch, run->block, thread};
}

/* Whether an earlier access of another thread or block is not ordered before this one. */
static const char *conflict(const Run *run, Access earlier, int32_t thread) {
    if (earlier.phase != run->phase) return NULL;
    if (earlier.block != run->block) return "another block";
    if (earlier.epoch != run->epoch || earlier.thread == thread) return NULL;
    if (warp_of(run, earlier.thread) == warp_of(run, thread) && warp_of(run, thread) != EVERYONE &&
        earlier.warp_epoch != run->warp_epoch)
        return NULL;
    return "another thread";
}

bool run_reads(Run *run, const NestNode *node, SymbolId array, Cell *cell, int32_t thread,
               int64_t at) {
    /* what stands outside of grid loops every block does, in memory of its threads' own */
    const bool own = run->nest->symbols[array].kind == NAMED_ALLOC && run->memory[array]->private &&
                     !cell->written.block;
    const char *who = own ? NULL : conflict(run, cell->written, thread);
    if (!cell->set && run->nest->symbols[array].kind == NAMED_ALLOC)
        return run_stop(run, node, "%s[%lld] is read before it is written", run_name(run, array),
                        (long long)at);
    if (cell->written.phase && who)
        return run_stop(run, node, "%s[%lld] is what %s wrote, with no barrier between",
                        run_name(run, array), (long long)at, who);
    if (cell->read.phase && conflict(run, cell->read, thread))
        thread = cell->read.block == run->block ? NOBODY : thread; /* several readers */
    const Access now = access_now(run, thread);
    if (cell->read.phase == run->phase && cell->read.block != run->block)
        cell->read.block = NOBODY;
    else
        cell->read = now;
    return true;
}

static bool note_write(Run *run, const NestNode *node, SymbolId array, Cell *cell, int32_t thread,
                       int64_t at) {
    const char *writer = cell->written.phase ? conflict(run, cell->written, thread) : NULL;
    const char *reader = cell->read.phase ? conflict(run, cell->read, thread) : NULL;
    if (writer)
        return run_stop(run, node, "%s[%lld] is written by %s too, with no barrier between",
                        run_name(run, array), (long long)at, writer);
    if (reader)
        return run_stop(run, node, "%s[%lld] is written while %s may read it", run_name(run, array),
                        (long long)at, reader);
    cell->written = access_now(run, thread);
    cell->set = true;
    return true;
}

/* The element a node means at a point; false: it does not exist. */
bool run_cell(Run *run, const Points *points, size_t point, const NestNode *node, Memory **memory,
              int64_t *at) {
    const SymbolId array = node->array;
    const bool alloc = run->nest->symbols[array].kind == NAMED_ALLOC;
    uint64_t number = 0;
    int64_t part;
    if (node->list && !run_symbol(run, points, point, node->list, &number)) return false;
    if (!run->memory[array] || number >= run->tensors[array])
        return run_stop(run, node, "%s has no memory", run_name(run, array));
    *memory = &run->memory[array][number];
    *at = 0;
    if (alloc) {
        if (!run_symbol(run, points, point, array, &number)) return false;
        *at = (int64_t)number;
    }
    for (size_t i = 0; i < node->at_count; i++) {
        if (!run_index(run, points, point, node->at[i], &part)) return false;
        const int64_t dim = alloc ? run->dims[array][i] : (*memory)->count;
        if (part < 0 || part >= dim)
            return run_stop(run, node, "%s has %lld elements there, and %lld is asked for",
                            run_name(run, array), (long long)dim, (long long)part);
        *at = alloc ? *at * dim + part : part;
    }
    return true;
}

uint64_t run_element(const Run *run, SymbolId array, const Memory *memory, int64_t at) {
    if (memory->owned) return ((const uint64_t *)memory->data)[at];
    return ir_load_element(run->nest->symbols[array].type, memory->data, at);
}

static void memory_store(const Run *run, SymbolId array, Memory *memory, int64_t at,
                         uint64_t value) {
    if (memory->owned)
        ((uint64_t *)memory->data)[at] = value;
    else
        ir_store_element(run->nest->symbols[array].type, memory->data, at, value);
}

/* ---- nodes ---- */

static bool run_body(Run *run, const NestNode *node, Points *points, Arena *arena);

uint64_t *run_define(Run *run, Arena *arena, Points *points, SymbolId name) {
    (void)run;
    uint64_t *values = arena_alloc(arena, (points->count + 1) * sizeof *values);
    points->values[name] = values;
    return values;
}

static bool run_let(Run *run, const NestNode *node, Points *points, Arena *arena) {
    uint64_t *values = arena_alloc(arena, (points->count + 1) * sizeof *values);
    for (size_t i = 0; i < points->count; i++)
        if (!run_value(run, points, i, node->value, &values[i])) return false;
    points->values[node->name] = values;
    return true;
}

static bool run_load(Run *run, const NestNode *node, Points *points, Arena *arena) {
    const bool *live = run_live(run, arena, points, node);
    uint64_t *values = arena_alloc(arena, (points->count + 1) * sizeof *values);
    for (size_t i = 0; live && i < points->count; i++) {
        Memory *memory;
        int64_t at;
        if (!live[i]) { /* without a pad nothing may depend on it */
            values[i] = UINT64_C(0xbad0bad0bad0bad);
            if (node->pad && !run_value(run, points, i, node->pad, &values[i])) return false;
            continue;
        }
        if (!run_cell(run, points, i, node, &memory, &at) ||
            !run_reads(run, node, node->array, &memory->cells[at], run_thread(run, points, i), at))
            return false;
        values[i] = run_element(run, node->array, memory, at);
    }
    points->values[node->name] = values;
    return live != NULL;
}

static bool run_store(Run *run, const NestNode *node, Points *points, Arena *arena) {
    const bool *live = run_live(run, arena, points, node);
    run->stores++;
    for (size_t i = 0; live && i < points->count; i++) {
        Memory *memory;
        int64_t at;
        uint64_t value;
        if (!live[i]) continue;
        if (!run_value(run, points, i, node->value, &value) ||
            !run_cell(run, points, i, node, &memory, &at))
            return false;
        if (node->kind == NEST_ADD) {
            if (!memory->cells[at].set) return run_stop(run, node, "nothing is there to add to");
            const uint64_t before = run_element(run, node->array, memory, at);
            /* the least of all: what cannot be added, and stays */
            const bool keep = node->op == OP_SCATTER_MIN && (int64_t)before < (int64_t)value;
            const bool replace = node->op == OP_SCATTER_MIN || value == (uint64_t)INT64_MIN;
            memory_store(run, node->array, memory, at,
                         keep      ? before
                         : replace ? value
                                   : before + value);
            continue;
        }
        const int32_t thread = run_thread(run, points, i);
        Cell *cell = &memory->cells[at];
        if (cell->store == run->stores)
            return run_stop(run, node, "%s[%lld] has two writers", run_name(run, node->array),
                            (long long)at);
        cell->store = run->stores;
        if (!note_write(run, node, node->array, cell, thread, at)) return false;
        memory_store(run, node->array, memory, at, value);
    }
    return live != NULL;
}

/* The extents at the points, which are the same for all; -1 after a problem. */
int64_t run_find_dims(Run *run, const NestNode *node, const Points *points, int64_t *dims) {
    int64_t cells = 1;
    for (size_t d = 0; d < node->at_count; d++) {
        for (size_t i = 0; i < points->count; i++) {
            int64_t dim;
            if (!run_index(run, points, i, node->at[d], &dim)) return -1;
            if (dim < 0 || (i && dim != dims[d])) {
                run_stop(run, node, "its extent is %lld", (long long)dim);
                return -1;
            }
            dims[d] = dim;
        }
        cells *= dims[d];
    }
    return cells;
}

static bool run_alloc(Run *run, const NestNode *node, Points *points, Arena *arena) {
    const bool shared = node->scope == SCOPE_SHARED || node->scope == SCOPE_GLOBAL;
    Arena *where = shared ? run->arena : arena;
    int64_t *dims = arena_alloc(where, (node->at_count + 1) * sizeof *dims);
    const int64_t cells = run_find_dims(run, node, points, dims);
    if (cells < 0) return false;
    const int64_t count = cells * (int64_t)points->count;
    uint64_t *instance = run_define(run, arena, points, node->name);
    for (size_t i = 0; i < points->count; i++) instance[i] = i;
    run->dims[node->name] = dims;
    const Memory *old = shared ? run->memory[node->name] : NULL;
    if (old && old->count == count && (node->scope == SCOPE_GLOBAL || old->block == run->block))
        return true;
    Memory *memory = arena_alloc(where, sizeof *memory);
    *memory = (Memory){.data = arena_alloc(where, (size_t)(count + 1) * sizeof(uint64_t)),
                       .count = count,
                       .cells = arena_alloc(where, (size_t)(count + 1) * sizeof(Cell)),
                       .owned = true,
                       .global = node->scope == SCOPE_GLOBAL,
                       .private = !shared,
                       .block = run->block};
    run->memory[node->name] = memory;
    run->tensors[node->name] = 1;
    return true;
}

static bool run_barrier(Run *run, const NestNode *node, const Points *points) {
    if (node->scope == SCOPE_WARP) {
        run->warp_epoch++;
        return true;
    }
    if (points->split || points->warp || points->lane)
        return run_stop(run, node, "not all threads of the block come to it");
    run->epoch++;
    if (node->scope == SCOPE_GRID) run->phase++;
    return true;
}

/* ---- loops and branches ---- */

static uint64_t next_random(Run *run) {
    run->random = run->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return run->random >> 33;
}

/* The iterations in which extents of the points allow, one after the other. */
static bool run_iteration(Run *run, const NestNode *node, const Points *points,
                          const int64_t *extents, int64_t iteration, Arena *arena) {
    bool *mask = arena_alloc(arena, (points->count + 1) * sizeof *mask), all = true;
    for (size_t i = 0; i < points->count; i++) {
        mask[i] = iteration < extents[i];
        all &= mask[i];
    }
    Points inside = all ? copy_points(run, arena, points, NULL, points->count)
                        : some_points(run, arena, points, mask);
    if (!inside.count) return true;
    uint64_t *values = run_define(run, arena, &inside, node->name);
    for (size_t i = 0; i < inside.count; i++) values[i] = (uint64_t)iteration;
    return run_body(run, node->body, &inside, arena);
}

static bool run_serial(Run *run, const NestNode *node, const Points *points, const int64_t *extents,
                       int64_t max, Arena *arena) {
    Arena *inner = arena_child(arena);
    bool ok = true;
    for (int64_t i = 0; ok && i < max; i++) {
        ok = run_iteration(run, node, points, extents, i, inner);
        arena_reset(inner);
    }
    arena_close(inner);
    return ok;
}

static bool run_grid(Run *run, const NestNode *node, const Points *points, const int64_t *extents,
                     int64_t max, Arena *arena) {
    Arena *inner = arena_child(arena);
    int32_t order[BLOCKS] = {1, 2, 3};
    const int32_t before = run->block;
    bool ok = true;
    for (uint32_t i = BLOCKS; i > 1; i--) {
        const uint32_t k = (uint32_t)(next_random(run) % i);
        const int32_t other = order[k];
        order[k] = order[i - 1];
        order[i - 1] = other;
    }
    for (int b = 0; ok && b < BLOCKS; b++) {
        if (!before) run->block = order[b]; /* a grid loop in another one is of its block */
        run->epoch++;
        for (int64_t i = order[b] - 1; ok && i < max; i += BLOCKS) {
            ok = run_iteration(run, node, points, extents, i, inner);
            arena_reset(inner);
        }
    }
    arena_close(inner);
    run->block = before;
    run->epoch++;
    return ok;
}

/* Warp, lane and vector loops: a point for each iteration. */
static bool run_points(Run *run, const NestNode *node, const Points *points, int64_t max,
                       Arena *arena) {
    Arena *inner = arena_child(arena);
    const size_t extent = (size_t)max, count = points->count * extent;
    size_t *origin = arena_alloc(inner, (count + 1) * sizeof *origin);
    for (size_t i = 0; i < count; i++) origin[i] = i / extent;
    Points inside = copy_points(run, inner, points, origin, count);
    uint64_t *values = run_define(run, inner, &inside, node->name);
    int32_t *numbers = arena_alloc(inner, (count + 1) * sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        values[i] = i % extent;
        numbers[i] = (int32_t)(i % extent);
        if (node->loop == LOOP_LANE && points->lane)
            numbers[i] += points->lane[origin[i]] * (int32_t)extent;
    }
    if (node->loop == LOOP_WARP) inside.warp = numbers;
    if (node->loop == LOOP_LANE) inside.lane = numbers;
    const bool ok = !count || run_body(run, node->body, &inside, inner);
    arena_close(inner);
    return ok;
}

static bool run_loop(Run *run, const NestNode *node, Points *points, Arena *arena) {
    int64_t *extents = arena_alloc(arena, (points->count + 1) * sizeof *extents), max = 0;
    bool same = true;
    for (size_t i = 0; i < points->count; i++) {
        if (!run_index(run, points, i, node->extent, &extents[i])) return false;
        same &= extents[i] == extents[0];
        if (extents[i] > max) max = extents[i];
    }
    if (node->loop == LOOP_GRID) return run_grid(run, node, points, extents, max, arena);
    if (node->loop == LOOP_SERIAL || node->loop == LOOP_UNROLLED)
        return run_serial(run, node, points, extents, max, arena);
    if (!same) return run_stop(run, node, "its extent is not the same for all threads");
    return run_points(run, node, points, max, arena);
}

static bool run_branches(Run *run, const NestNode *node, Points *points, Arena *arena) {
    bool *mask = arena_alloc(arena, (points->count + 1) * sizeof *mask);
    for (size_t i = 0; i < points->count; i++) {
        int64_t amount = 0;
        uint64_t where = 0;
        if (node->kind == NEST_IF ? !run_index(run, points, i, node->extent, &amount)
                                  : !run_symbol(run, points, i, node->where, &where))
            return false;
        mask[i] = node->kind == NEST_IF ? amount > 0 : where != 0;
    }
    for (int branch = 0; branch < 2; branch++) {
        Points inside = some_points(run, arena, points, mask);
        if (inside.count && !run_body(run, branch ? node->other : node->body, &inside, arena))
            return false;
        for (size_t i = 0; i < points->count; i++) mask[i] = !mask[i];
    }
    return true;
}

/* All blocks but one have come and gone: what they wrote is there, and this one goes on. */
static bool run_arrive(Run *run, const NestNode *node, Points *points, Arena *arena) {
    int64_t expected;
    if (!node->name) {
        run->phase++;
        run->epoch++;
        return true;
    }
    uint64_t *values = run_define(run, arena, points, node->name);
    for (size_t i = 0; i < points->count; i++) {
        Memory *memory;
        int64_t at;
        if (!run_index(run, points, i, node->extent, &expected) ||
            !run_cell(run, points, i, node, &memory, &at))
            return false;
        uint64_t by = 1;
        if (node->value && !run_value(run, points, i, node->value, &by)) return false;
        const uint64_t count = run_element(run, node->array, memory, at) + by;
        values[i] = count == (uint64_t)expected;
        memory_store(run, node->array, memory, at, values[i] ? 0 : count);
        run->phase += values[i] != 0;
    }
    return true;
}

static bool run_node(Run *run, const NestNode *node, Points *points, Arena *arena) {
    switch (node->kind) {
    case NEST_LOOP: return run_loop(run, node, points, arena);
    case NEST_IF:
    case NEST_WHEN: return run_branches(run, node, points, arena);
    case NEST_LET: return run_let(run, node, points, arena);
    case NEST_LOAD: return run_load(run, node, points, arena);
    case NEST_STORE:
    case NEST_ADD: return run_store(run, node, points, arena);
    case NEST_ALLOC: return run_alloc(run, node, points, arena);
    case NEST_TREE:
    case NEST_FOLD: return run_tree(run, node, points, arena);
    case NEST_PUSH: return run_push(run, node, points, arena);
    case NEST_COMBINE: return run_combine(run, node, points, arena);
    case NEST_BARRIER: return run_barrier(run, node, points);
    case NEST_ARRIVE: return run_arrive(run, node, points, arena);
    default: return true;
    }
}

/* What is bound here has no value behind it. */
static bool run_body(Run *run, const NestNode *body, Points *points, Arena *arena) {
    bool ok = true;
    for (const NestNode *node = body; ok && node; node = node->next)
        ok = run_node(run, node, points, arena);
    for (const NestNode *node = body; node; node = node->next)
        if (node->name && node->kind != NEST_LOOP) points->values[node->name] = NULL;
    return ok;
}

/* ---- the run ---- */

static void bind(Run *run, Points *points, const NestBinding *binding) {
    const NestSymbol *symbol = &run->nest->symbols[binding->symbol];
    if (symbol->kind == NAMED_SIZE) {
        *run_define(run, run->arena, points, binding->symbol) = (uint64_t)binding->size;
        return;
    }
    ArrayRole role = ARRAY_IN;
    bool list = false;
    for (size_t i = 0; i < run->nest->array_count; i++)
        if (run->nest->arrays[i].symbol == binding->symbol) {
            role = run->nest->arrays[i].role;
            list = run->nest->arrays[i].list;
        }
    const size_t tensors = list ? binding->tensors : 1;
    Memory *memory = arena_alloc(run->arena, (tensors + 1) * sizeof *memory);
    for (size_t t = 0; t < tensors; t++) {
        memory[t].data = list ? ((void **)binding->data)[t] : binding->data;
        memory[t].count = binding->counts[t];
        memory[t].cells =
            arena_alloc(run->arena, ((size_t)memory[t].count + 1) * sizeof *memory[t].cells);
        for (int64_t i = 0; i < memory[t].count; i++)
            memory[t].cells[i].set =
                (role != ARRAY_OUT && role != ARRAY_TEMPORARY) || binding->written;
    }
    run->memory[binding->symbol] = memory;
    run->tensors[binding->symbol] = tensors;
}

static bool check_fact(Run *run, const Points *points, const NestFact *fact) {
    uint64_t size = 0;
    if (fact->kind == FACT_ABSENT) return true;
    if (!run_symbol(run, points, 0, fact->symbol, &size)) return false;
    const bool holds = fact->kind == FACT_EQUAL ? (int64_t)size == fact->number
                                                : (int64_t)size % fact->number == 0;
    return holds ||
           run_stop(run, NULL, "the fact about %s does not hold", run_name(run, fact->symbol));
}

const char *nest_run(const Nest *nest, const NestRun *job) {
    Arena *arena = arena_child(nest->arena);
    const size_t count = nest->symbol_count;
    Run run = {.nest = nest, .job = job, .arena = arena, .random = job->seed, .phase = 1};
    run.epoch = run.warp_epoch = 1;
    run.memory = arena_alloc(arena, count * sizeof *run.memory);
    run.tensors = arena_alloc(arena, count * sizeof *run.tensors);
    run.trees = arena_alloc(arena, count * sizeof *run.trees);
    run.dims = arena_alloc(arena, count * sizeof *run.dims);
    Points points = {.count = 1};
    points.values = arena_alloc(arena, count * sizeof *points.values);
    for (size_t i = 0; i < job->binding_count; i++) bind(&run, &points, &job->bindings[i]);
    bool ok = true;
    for (size_t i = 0; ok && i < nest->derived_count; i++)
        ok = run_value(&run, &points, 0, nest->derived[i].value,
                       run_define(&run, arena, &points, nest->derived[i].symbol));
    for (size_t i = 0; ok && i < nest->fact_count; i++)
        ok = check_fact(&run, &points, &nest->facts[i]);
    ok = ok && run_body(&run, nest->body, &points, arena);
    const char *problem = ok ? NULL : arena_copy(nest->arena, run.problem, strlen(run.problem));
    arena_close(arena);
    return problem;
}
