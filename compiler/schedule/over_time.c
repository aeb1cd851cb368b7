/* over_time.c: the interchange of a `for` and the loops over elements of one iteration.
 *
 * Needs the items of a phase of which no iteration takes anything from one element to another; with
 * lanes. Of each body that goes over elements side by side the loops of the `for` become the loops
 * around it, within the loops over items, lanes and runs of these: a lane runs all iterations of
 * the elements that it has at once. What an iteration does for all elements, and what a condition
 * of its own guards, comes with it. A coordinate of the `for` is made of its loops' indices, and
 * slices are reached by the distance between two of them. Then what iterations carry is promoted to
 * registers. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

enum { LOOPS_MAX = LS_AXES_MAX, SLICE_BYTES = 16 };

typedef struct OverTime {
    const Plan *plan;
    const Iteration *iteration;
    PlainNest *plain;
    Nest *nest;
    SymbolId loops[LOOPS_MAX];    /* of the `for`, the outermost first */
    Index places[LOOPS_MAX];      /* the coordinates */
    bool *varies;                 /* by symbol, of those there are at first: with the iteration */
    NestNode *ahead, **ahead_end; /* what goes into the loops; within each condition what follows */
} OverTime;

/* ---- coordinates and slices ---- */

static void name_loops(OverTime *o) {
    Nest *nest = o->nest;
    for (uint32_t l = 0; l < o->iteration->loop_count; l++) {
        const IterationLoop *loop = &o->iteration->loops[l];
        o->loops[l] = make_loop_name(nest, o->plan->function->axes[loop->axis].name);
        o->plain->iterations[l] = nest_size(nest, "iterations");
        o->places[l] = make_symbol(nest, o->loops[l]);
        if (loop->reverse)
            o->places[l] = make_less(
                nest, make_less(nest, make_symbol(nest, o->plain->iterations[l]), o->places[l]),
                make_number(nest, 1));
        const SymbolId place = o->plain->lengths[loop->place];
        if (place) nest_replace(nest, nest->body, place, o->places[l]);
    }
}

/* From the first slice to the one of the iteration. Slices that the variant takes for contiguous
 * begin on a multiple of 16 bytes. */
static Index slice_of(OverTime *o, uint32_t parameter, ls_image_layout layout) {
    Nest *nest = o->nest;
    const Parameter *row = &o->plan->function->parameters[parameter];
    const bool aligned = layout == LS_LAYOUT_DENSE && row->axes;
    const int64_t unit = aligned ? SLICE_BYTES / (int64_t)type_info[row->type].size : 1;
    Index at = {NULL, 0};
    for (uint32_t l = 0; l < o->iteration->loop_count; l++) {
        const uint32_t axis = o->iteration->loops[l].axis;
        SymbolId *step = &o->plain->steps[parameter * LS_AXES_MAX + axis];
        if (!(o->iteration->moves[parameter] >> axis & 1)) continue;
        *step = nest_size(nest, arena_printf(nest->arena, "%s_step", row->name));
        const Index distance = make_scale(nest, make_symbol(nest, *step), unit);
        at = make_add(nest, at, make_times(nest, o->places[l], distance));
    }
    return at;
}

static void move(OverTime *o, NestNode *body, SymbolId array, Index slice) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->array == array && node->at_count)
            node->at[0] = make_add(o->nest, node->at[0], slice);
        move(o, node->body, array, slice);
        move(o, node->other, array, slice);
    }
}

static void move_slices(OverTime *o, ls_image_layout layout) {
    for (uint32_t i = 0; i < o->plan->array_count; i++) {
        const uint32_t parameter = o->plan->arrays[i].parameter;
        const SymbolId array = o->plain->arrays[i];
        if (!array || parameter == UINT32_MAX) continue;
        for (size_t a = 0; a < o->nest->array_count; a++)
            if (o->nest->arrays[a].symbol == array)
                o->nest->arrays[a].aliased =
                    o->iteration->changes[parameter] && !o->iteration->sole[parameter];
        if (o->iteration->moves[parameter])
            move(o, o->nest->body, array, slice_of(o, parameter, layout));
    }
}

/* ---- what stands ahead of the items ---- */

/* Puts aside what varies of the body with the items; what guards them goes with it. */
static bool take_ahead(OverTime *o, NestNode **body) {
    NestNode **at = body;
    while (*at) {
        NestNode *node = *at;
        if (node->kind == NEST_LOOP && node->loop == LOOP_GRID) break;
        NestNode alone = *node;
        alone.next = alone.body = alone.other = NULL;
        const bool varies = nest_uses_any(o->nest, &alone, o->varies);
        if (node->kind == NEST_WHEN) {
            if (node->next || node->other) return false;
            if (!varies) return take_ahead(o, &node->body);
            *at = node->body;
            node->body = NULL;
            *o->ahead_end = node;
            o->ahead_end = &node->body;
            continue;
        }
        if (varies && node->kind != NEST_LET && node->kind != NEST_LOAD) return false;
        if (!varies) {
            at = &node->next;
            continue;
        }
        o->varies[node->name] = true;
        *at = node->next;
        node->next = NULL;
        *o->ahead_end = node;
        o->ahead_end = &node->next;
    }
    return *at && !(*at)->next;
}

/* ---- the loops ---- */

static bool goes_over_others(const NestNode *node) {
    bool items = false; /* a condition around the items, which all iterations share */
    for (const NestNode *n = node->kind == NEST_WHEN ? node->body : NULL; n; n = n->next)
        items |= (n->kind == NEST_LOOP && n->loop == LOOP_GRID) || goes_over_others(n);
    return node->kind == NEST_IF || items ||
           (node->kind == NEST_LOOP && node->loop != LOOP_UNROLLED && node->loop != LOOP_VECTOR);
}

static void iterate(OverTime *o, NestNode **body) {
    Nest *nest = o->nest;
    NestNode *all = nest_copy(nest->arena, o->ahead), **end = &all;
    while (*end) end = (*end)->kind == NEST_WHEN ? &(*end)->body : &(*end)->next;
    *end = *body;
    for (uint32_t l = o->iteration->loop_count; l-- > 0;)
        all = nest_around(nest, LOOP_SERIAL, o->loops[l],
                          make_symbol(nest, o->plain->iterations[l]), all);
    *body = nest_clone(nest, all);
    nest_promote(nest, (*body)->name, o->plain->promoted);
}

static void iterate_all(OverTime *o, NestNode **body) {
    bool others = false;
    for (const NestNode *node = *body; node; node = node->next) others |= goes_over_others(node);
    if (!others) {
        if (*body) iterate(o, body);
        return;
    }
    for (NestNode *node = *body; node; node = node->next) {
        if (!goes_over_others(node)) continue;
        iterate_all(o, &node->body);
        iterate_all(o, &node->other);
    }
}

const char *schedule_over_time(const Plan *plan, PlainNest *plain, ls_image_layout layout) {
    Nest *nest = plain->nest;
    Arena *arena = nest->arena;
    OverTime o = {
        .plan = plan, .iteration = plan->function->iteration, .plain = plain, .nest = nest};
    plain->iterations = arena_alloc(arena, (LOOPS_MAX + 1) * sizeof *plain->iterations);
    plain->steps = arena_alloc(arena, (plan->array_count + 1) * LS_AXES_MAX * sizeof *plain->steps);
    o.ahead_end = &o.ahead;
    name_loops(&o);
    move_slices(&o, layout);
    plain->promoted = arena_alloc(arena, nest->symbol_count * sizeof *plain->promoted);
    o.varies = arena_alloc(arena, nest->symbol_count * sizeof *o.varies);
    for (uint32_t l = 0; l < o.iteration->loop_count; l++) o.varies[o.loops[l]] = true;
    for (size_t i = 0; i < nest->array_count; i++)
        o.varies[nest->arrays[i].symbol] = nest->arrays[i].aliased;
    NestNode **place = &nest->body;
    if (!take_ahead(&o, place)) return "what stands around its items varies";
    iterate_all(&o, place);
    for (uint32_t l = 0; l < o.iteration->loop_count; l++)
        if (nest_body_uses(nest, nest->body, o.loops[l]))
            return "a coordinate of the for is used around its items";
    return NULL;
}
