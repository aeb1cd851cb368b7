/* nests.c: see nests.h. What a bind does for a launch is done here for nests: lengths, tables of
 * lists and memory for temporaries. */
#include "nests.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/target.h"
#include "fuse/fuse.h"
#include "loop/loop.h"
#include "schedule/schedule.h"
#include "interp.h"

typedef struct Memories { /* of a plan's arrays */
    void **data;          /* of a list: void *[tensors] */
    int64_t **counts;     /* elements, of a list one a tensor */
    size_t *tensors;
    bool *written;
} Memories;

static int64_t length_of(const NestsJob *job, uint32_t axis, int64_t tensor) {
    const Axis *row = &job->function->axes[axis];
    if (row->whole >= 0) {
        const int64_t whole = length_of(job, (uint32_t)row->whole, tensor);
        const bool rest = job->function->axes[row->whole].rest == (int)axis;
        return rest ? row->length : (whole + row->length - 1) / row->length;
    }
    return job->sizes[axis][row->parent < 0 ? 0 : tensor];
}

/* Elements over the axes in a tensor, blocks that are whole as what they divide. */
static int64_t elements_of(const NestsJob *job, AxisSet axes, int64_t tensor) {
    const Function *f = job->function;
    const int list = ir_list_axis(f, axes);
    int64_t count = 1;
    for (uint32_t a = 0; a < f->axis_count; a++) {
        const Axis *row = &f->axes[a];
        if (!(axes >> a & 1) || (int)a == list) continue;
        const bool part = row->whole >= 0;
        const AxisSet both = part ? ir_expand(f, (AxisSet)1 << row->whole) : 0;
        if (part && (axes & both) == both) {
            if (f->axes[row->whole].block == (int)a)
                count *= length_of(job, (uint32_t)row->whole, tensor);
            continue;
        }
        count *= length_of(job, a, tensor);
    }
    return count;
}

/* Elements that a parameter has room for in a tensor. */
static int64_t room_of(const NestsJob *job, const Parameter *parameter, size_t tensor) {
    const int list = ir_list_axis(job->function, parameter->axes);
    int64_t count = 1;
    for (uint32_t a = 0; a < job->function->axis_count; a++)
        if (parameter->declared >> a & 1 && (int)a != list)
            count *= length_of(job, a, (int64_t)tensor);
    return count;
}

static void open_memories(const NestsJob *job, const Plan *plan, Arena *arena, Memories *m) {
    m->data = arena_alloc(arena, plan->array_count * sizeof *m->data);
    m->counts = arena_alloc(arena, plan->array_count * sizeof *m->counts);
    m->tensors = arena_alloc(arena, plan->array_count * sizeof *m->tensors);
    m->written = arena_alloc(arena, plan->array_count * sizeof *m->written);
    for (size_t i = 0; i < plan->array_count; i++) {
        const Array *array = &plan->arrays[i];
        const int list = ir_list_axis(job->function, array->axes);
        m->tensors[i] = list < 0 ? 1 : (size_t)length_of(job, (uint32_t)list, 0);
        m->counts[i] = arena_alloc(arena, (m->tensors[i] + 1) * sizeof **m->counts);
        for (size_t t = 0; t < m->tensors[i]; t++)
            m->counts[i][t] = array->parameter == UINT32_MAX
                                  ? elements_of(job, array->axes, (int64_t)t)
                                  : room_of(job, &job->function->parameters[array->parameter], t);
        if (array->parameter != UINT32_MAX) {
            m->data[i] = job->data[array->parameter];
            continue;
        }
        void **pointers = arena_alloc(arena, (m->tensors[i] + 1) * sizeof *pointers);
        for (size_t t = 0; t < m->tensors[i]; t++)
            pointers[t] =
                arena_alloc(arena, ((size_t)m->counts[i][t] + 1) * type_info[array->type].size);
        m->data[i] = list < 0 ? pointers[0] : (void *)pointers;
    }
}

/* How many items of work the tensor has. */
static int64_t items_of(const NestsJob *job, const PlainNest *plain, int64_t tensor) {
    enum { LENGTH = 1024 };
    const int64_t chunk = plain->item_chunk ? plain->item_chunk : 1;
    int64_t items = (elements_of(job, plain->item_axes, tensor) + LENGTH - 1) / LENGTH;
    if (!items && plain->item_min) items = 1;
    if (plain->item_columns)
        items *= (elements_of(job, plain->item_columns, tensor) + chunk - 1) / chunk;
    return elements_of(job, plain->item_rows, tensor) * items;
}

/* Of all tensors. */
static int64_t count_items(const NestsJob *job, const PlainNest *plain) {
    const int list = ir_list_axis(job->function, plain->item_axes | plain->item_rows);
    const int64_t tensors = list < 0 ? 1 : length_of(job, (uint32_t)list, 0);
    int64_t count = 0;
    for (int64_t t = 0; t < tensors; t++) count += items_of(job, plain, t);
    return count;
}

/* The table of a list's items as a bind makes it, tensor after tensor. */
static size_t bind_items(const NestsJob *job, const PlainNest *plain, NestBinding *bindings) {
    const Function *f = job->function;
    Arena *arena = f->arena;
    int64_t count, *entries[2], *room = arena_alloc(arena, sizeof *room);
    const int list = ir_list_axis(f, plain->item_axes | plain->item_rows);
    if (!plain->item_count) return 0;
    const int64_t tensors = length_of(job, (uint32_t)list, 0);
    count = count_items(job, plain);
    *room = count;
    for (int i = 0; i < 2; i++)
        entries[i] = arena_alloc(arena, ((size_t)count + 1) * sizeof *entries[i]);
    count = 0;
    for (int64_t t = 0; t < tensors; t++)
        for (int64_t item = 0; item < items_of(job, plain, t); item++, count++) {
            entries[0][count] = t;
            entries[1][count] = item;
        }
    for (int i = 0; i < 2; i++)
        bindings[i] = (NestBinding){.symbol = plain->items[i], .data = entries[i], .counts = room};
    bindings[2] = (NestBinding){.symbol = plain->item_count, .size = count};
    return 3;
}

/* The items of a map or of rows in shares, one of them of none. */
static size_t bind_shares(const NestsJob *job, const PlainNest *plain, NestBinding *bindings) {
    enum { SHARES = 4 };
    Arena *arena = job->function->arena;
    int64_t *first = arena_alloc(arena, (SHARES + 1) * sizeof *first);
    int64_t *room = arena_alloc(arena, sizeof *room);
    if (!plain->partitions) return 0;
    const int64_t items = count_items(job, plain);
    *room = SHARES + 1;
    first[1] = first[2] = items / 2;
    first[3] = first[2] + (items - first[2] + 1) / 2;
    first[SHARES] = items;
    bindings[0] = (NestBinding){.symbol = plain->partitions, .data = first, .counts = room};
    bindings[1] = (NestBinding){.symbol = plain->partition_count, .size = SHARES};
    return 2;
}

/* What a strip of rows is given, and the arrays that it leaves its values in: octets, then levels
 * of two owners. */
typedef struct Strips {
    int64_t given[PANEL_GIVEN];
    void **scratch;
    int64_t *counts;
    bool written;
} Strips;

static size_t bind_strips(const PlainNest *plain, const Strips *strips, NestBinding *bindings) {
    size_t count = 0;
    for (int i = 0; i < PANEL_GIVEN; i++)
        if (plain->panel[i])
            bindings[count++] = (NestBinding){.symbol = plain->panel[i], .size = strips->given[i]};
    for (size_t i = 0; i < plain->scratch_count; i++)
        bindings[count++] = (NestBinding){.symbol = plain->scratch[i],
                                          .data = strips->scratch[i],
                                          .counts = &strips->counts[i],
                                          .written = strips->written};
    return count;
}

static const char *run_kernel(const NestsJob *job, const Plan *plan, const PlainNest *plain,
                              const Memories *m, const NestCall *calls, const Strips *strips) {
    const Function *f = job->function;
    Arena *arena = f->arena;
    NestBinding *bindings = arena_alloc(
        arena, (plan->array_count + f->axis_count + plain->scratch_count + 16) * sizeof *bindings);
    size_t count = 0;
    for (size_t i = 0; i < plan->array_count; i++)
        if (plain->arrays[i])
            bindings[count++] = (NestBinding){.symbol = plain->arrays[i],
                                              .data = m->data[i],
                                              .counts = m->counts[i],
                                              .tensors = m->tensors[i],
                                              .written = m->written[i]};
    for (uint32_t a = 0; a < f->axis_count; a++) {
        if (!plain->lengths[a]) continue;
        const int parent = f->axes[a].parent;
        int64_t *lengths = arena_alloc(arena, sizeof *lengths);
        if (parent >= 0) *lengths = length_of(job, (uint32_t)parent, 0);
        bindings[count++] = (NestBinding){.symbol = plain->lengths[a],
                                          .data = (void *)(uintptr_t)job->sizes[a],
                                          .counts = lengths,
                                          .size = job->sizes[a][0]};
    }
    for (int i = 0; i < 2; i++)
        if (plain->first[i])
            bindings[count++] =
                (NestBinding){.symbol = plain->first[i], .size = job->first ? job->first[i] : 0};
    if (plain->given) bindings[count++] = (NestBinding){.symbol = plain->given, .size = 2};
    count += bind_items(job, plain, bindings + count);
    count += bind_shares(job, plain, bindings + count);
    count += bind_strips(plain, strips, bindings + count);
    const NestRun run = {bindings, count, calls, job->seed};
    return nest_run(plain->nest, &run);
}

/* The checker finds nothing, and the nest's text reads back and prints as it was. */
static bool text_holds(const NestsJob *job, const Nest *nest) {
    const Function *f = job->function;
    Text once = text_open(f->arena), twice = text_open(f->arena);
    nest_check(nest);
    nest_print(nest, &once);
    const uint32_t source = source_add(f->compiler, nest->name, once.data, once.size);
    const Nest *read = nest_read(f->compiler, f->arena, source);
    if (read) nest_print(read, &twice);
    if (read && strcmp(once.data, twice.data) == 0) return true;
    diagnostics_render(f->compiler, &twice, false);
    printf("  the text of a nest of %s does not read back:\n%s\n%s\n", f->name, once.data,
           twice.data);
    return false;
}

static bool stores(const Phase *phase, uint32_t array) {
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].array == array) return true;
    return false;
}

/* ---- transformed ---- */

static size_t tile_all(Nest *nest, NestNode *body) {
    size_t count = 0;
    for (NestNode *node = body; node; node = node->next) {
        const TileNumbers numbers = {.kind = node->loop};
        const bool inner = node->kind == NEST_LOOP && !nest_has(node->body, NEST_LOOP);
        if (inner && !nest_tile(nest, node->name, &numbers)) return 1; /* the tree is another now */
        if (!inner) count += tile_all(nest, node->body) + tile_all(nest, node->other);
        if (count) return count;
    }
    return 0;
}

static size_t place_all(Nest *nest, NestNode *body) {
    for (NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_TREE && !nest_place_tree(nest, node->name, SCOPE_WORKER)) return 1;
        const size_t count = place_all(nest, node->body) + place_all(nest, node->other);
        if (count) return count;
    }
    return 0;
}

/* The innermost loop with a push to the tree; 0: there is none. */
static SymbolId loop_of_push(const NestNode *body, SymbolId tree, SymbolId around) {
    for (const NestNode *node = body; node; node = node->next) {
        if (node->kind == NEST_PUSH && node->array == tree) return around;
        const SymbolId own = node->kind == NEST_LOOP ? node->name : around;
        SymbolId loop = loop_of_push(node->body, tree, own);
        if (!loop) loop = loop_of_push(node->other, tree, own);
        if (loop) return loop;
    }
    return 0;
}

/* Trees that are no folds become two that are. */
static void halve_all(Nest *nest) {
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&nest->body, s);
        if (!place || (*place)->kind != NEST_TREE) continue;
        const Op op = (*place)->op;
        if (op != OP_ARGMIN && op != OP_ARGMAX && op != OP_LOGSUMEXP) continue;
        const char *problem = nest_two_trees(nest, s, SCOPE_WORKER);
        if (problem) nest_strip(nest, loop_of_push(nest->body, s, 0), 1024, NULL);
        if (problem) nest_two_trees(nest, s, SCOPE_WORKER);
    }
}

/* Loops over tiles get main and tail, unrolled ones their loads first: each that can. */
static void split_all(Nest *nest) {
    const SymbolId count = (SymbolId)nest->symbol_count;
    for (SymbolId s = 1; s < count; s++) {
        NestNode **place = nest_find(&nest->body, s);
        if (!place || (*place)->kind != NEST_LOOP) continue;
        if (strcmp(nest->symbols[s].name, "t") == 0) nest_split_tail(nest, s);
        if ((*place)->loop == LOOP_UNROLLED) nest_load_first(nest, s);
    }
}

/* Everything that can be done for one thread with vectors of so many elements is done. */
static const char *transform(Nest *nest, uint32_t width) {
    nest->width = width;
    halve_all(nest);
    while (tile_all(nest, nest->body)) continue;
    while (place_all(nest, nest->body)) continue;
    split_all(nest);
    nest_sweep(nest);
    nest_tidy(nest);
    nest_hoist(nest);
    return nest_problem(nest);
}

/* ---- phases, scheduled ---- */

/* Of units: for a GPU, with vectors of 1 or 4, and columns by a block or by warps as the job's seed
 * says, and for one thread of a CPU; then the same two where columns go by strips of rows. */
enum { UNIT_SETS = 4, STRIP_SETS = 2 };

typedef struct UnitNumbers {
    uint32_t lanes, width, panel_lanes;
    bool block;
} UnitNumbers;

/* Whether the phase goes down columns in a kernel of strips. */
static bool is_of_strips(const Plan *plan, uint32_t phase) {
    for (size_t w = 0; w < plan->grouping_count; w++)
        for (size_t k = 0; k < plan->groupings[w].count; k++) {
            const Kernel *kernel = &plan->groupings[w].kernels[k];
            if (kernel->kind == KERNEL_ROW_PANELS && phase >= kernel->first &&
                phase < kernel->first + kernel->count)
                return plan->phases[phase].shape == SHAPE_COLUMNS;
        }
    return false;
}

/* Down columns by warps, or by a block, if it has that form. */
static PlainNest *schedule_down(const Plan *plan, uint32_t phase, const UnitNumbers *n,
                                Arena *arena, const char **problem) {
    const ItemNumbers columns = {.warps = 1, .lanes = n->lanes, .width = n->width, .chunk = 64};
    const ItemNumbers block = {
        .warps = COLUMN_WARPS, .lanes = n->lanes, .width = 1, .load_bytes = 32, .chunk = n->lanes};
    PlainNest *nest = NULL;
    if (n->lanes == 1) return schedule_reduced_columns(plan, phase, &columns, arena, problem);
    if (n->block) nest = schedule_reduced_columns(plan, phase, &block, arena, problem);
    return nest ? nest : schedule_columns(plan, phase, &columns, arena, problem);
}

/* NULL, with *problem NULL too where no schedule is for the phase's shape. */
static PlainNest *schedule_unit(const Plan *plan, uint32_t phase, const UnitNumbers *n,
                                Portion portion, Arena *arena, const char **problem) {
    const ScanNumbers scan = {.lanes = n->lanes, .width = n->width, .columns = 64};
    const ItemNumbers combine = {.warps = 1,
                                 .lanes = n->lanes,
                                 .width = n->lanes > 1 ? 4 : 16,
                                 .load_bytes = n->lanes > 1 ? 128 : 0,
                                 .scratch_row = 16 << 10,
                                 .row_fusion =
                                     n->lanes > 1 ? NULL : schedule_row_fusion(plan, phase)};
    const ItemNumbers panel = {.warps = 1,
                               .lanes = n->lanes,
                               .width = 1,
                               .load_bytes = n->lanes > 1 ? 16 : 0,
                               .chunk = n->lanes > 1 ? 32 : 64,
                               .portion = portion,
                               .panel_lanes = n->panel_lanes};
    *problem = NULL;
    if (portion == PORTION_PANEL) return schedule_panel(plan, phase, &panel, arena, problem);
    if (portion == PORTION_FINISH)
        return schedule_reduced_columns(plan, phase, &panel, arena, problem);
    switch (plan->phases[phase].shape) {
    case SHAPE_ROWS: return schedule_combine(plan, phase, &combine, arena, problem);
    case SHAPE_SCAN: return schedule_scan(plan, phase, &scan, arena, problem);
    case SHAPE_COLUMNS: return schedule_down(plan, phase, n, arena, problem);
    default: return NULL;
    }
}

/* ---- what is made once of a step ---- */

/* As built; with every pass that applies; as scheduled for 32 lanes, and for one. */
enum { PLAIN, TRANSFORMED, LANES, ALONE, FORMS };
/* Of LANES too: kernels over rows in registers, where no row is longer than these take. */

typedef struct NestsMade {
    const Function *function;
    const Plan *plan;
    const NestCall *calls;
    const PlainNest **nests[GROUPINGS_MAX][FORMS]; /* by kernel */
    uint32_t width[GROUPINGS_MAX];
    const PlainNest **units[UNIT_SETS];  /* by phase: scheduled, or as built */
    const PlainNest **finish[UNIT_SETS]; /* by phase whose unit is what strips leave: the rest */
    uint32_t panel_lanes;                /* of the first set */
    const char *problem;
} NestsMade;

static bool calls_functions(const Function *f) {
    for (ValueId v = 1; v < f->value_count; v++)
        if (f->values[v].op == OP_CALL) return true;
    return false;
}

/* A kernel as its shape is scheduled; NULL: it has no schedule yet. */
static const PlainNest *schedule(NestsJob *job, const Plan *plan, const Kernel *kernel, int form,
                                 const char **problem) {
    const uint32_t number = (uint32_t)job->seed + kernel->first + kernel->count;
    const RowNumbers rows = {.warps = 1 + number % 8,
                             .lanes = 32,
                             .width = 4,
                             .rows = number / 3 % 2 ? 0 : 1U << number / 6 % 4,
                             .tiles = number / 6 % 2 ? 128 : 1 + number % 8,
                             .registers = 64,
                             .first = number & 1};
    const bool alone =
        kernel->kind == KERNEL_SINGLE && kernel->count == 1 && !kernel->pre_reductions;
    const MapNumbers numbers = {.lanes = form == LANES ? 32 : 1};
    const Shape shape = plan->phases[kernel->first].shape;
    const bool single = kernel->kind == KERNEL_SINGLE && kernel->count == 1;
    if (form == LANES && shape == SHAPE_ROWS && (single || kernel->kind == KERNEL_ROW_FUSION)) {
        PlainNest *nest = schedule_rows(plan, kernel, &rows, plan->function->arena, problem);
        *(nest ? &job->rows : &job->not_rows) += 1;
        if (!nest)
            printf("  %s, phase %u: no rows in registers: %s\n", plan->function->name,
                   kernel->first, *problem);
        return nest;
    }
    if (!alone || shape != SHAPE_MAP) return NULL;
    return schedule_map(plan, kernel->first, &numbers, plan->function->arena, problem);
}

/* A kernel's nest; NULL after a message. */
static const PlainNest *make_nest(NestsJob *job, const Plan *plan, const Kernel *kernel, int form,
                                  uint32_t width) {
    const Function *f = job->function;
    const char *problem = NULL;
    const PlainNest *plain = form >= LANES ? schedule(job, plan, kernel, form, &problem) : NULL;
    if (!plain) plain = schedule_plain(plan, kernel, false, f->arena, &problem);
    if (!plain) {
        printf("  %s has no plain nest: %s\n", f->name, problem);
        job->refused++;
        return NULL;
    }
    problem = nest_problem(plain->nest);
    if (!problem && form == TRANSFORMED) problem = transform(plain->nest, width);
    if (problem) printf("  a nest of %s, width %u: %s\n", f->name, width, problem);
    return problem || !text_holds(job, plain->nest) ? NULL : plain;
}

/* The phase by its schedule, or as built where there is none; NULL after a message. */
static const PlainNest *make_unit(NestsJob *job, const Plan *plan, uint32_t phase,
                                  const UnitNumbers *numbers, Portion portion, size_t *scheduled) {
    const Function *f = job->function;
    const Kernel alone = {.kind = KERNEL_SINGLE, .first = phase, .count = 1};
    const char *problem;
    const PlainNest *unit = schedule_unit(plan, phase, numbers, portion, f->arena, &problem);
    if (problem)
        printf("  %s, phase %u, lanes %u: no schedule: %s\n", f->name, phase, numbers->lanes,
               problem);
    job->unscheduled += problem != NULL;
    if (!unit) return make_nest(job, plan, &alone, PLAIN, 0);
    ++*scheduled;
    problem = nest_problem(unit->nest);
    if (problem) printf("  the schedule of phase %u of %s: %s\n", phase, f->name, problem);
    return problem || !text_holds(job, unit->nest) ? NULL : unit;
}

/* A set of units, if any phase has a schedule; false after a message. */
static bool make_units(NestsJob *job, NestsMade *made, size_t set, const UnitNumbers *numbers) {
    const Plan *plan = made->plan;
    const PlainNest **units =
        arena_alloc(job->function->arena, (plan->phase_count + 1) * sizeof *units);
    const PlainNest **finish =
        arena_alloc(job->function->arena, (plan->phase_count + 1) * sizeof *finish);
    size_t scheduled = 0;
    bool strips = false;
    for (uint32_t p = 0; p < plan->phase_count; p++) {
        const bool own = set >= STRIP_SETS && is_of_strips(plan, p);
        const Portion portion = own ? PORTION_PANEL : PORTION_WHOLE;
        if (!(units[p] = make_unit(job, plan, p, numbers, portion, &scheduled))) return false;
        if (!own) continue;
        strips = true;
        finish[p] = make_unit(job, plan, p, numbers, PORTION_FINISH, &scheduled);
        if (!finish[p]) return false;
    }
    if (set >= STRIP_SETS && !strips) return true;
    if (scheduled) made->units[set] = units;
    made->finish[set] = finish;
    job->scheduled += scheduled;
    return true;
}

static NestsMade *make_all(NestsJob *job) {
    const Function *f = job->function;
    NestsMade *made = arena_alloc(f->arena, sizeof *made);
    const Plan *plan = plan_build(f);
    made->function = f;
    made->plan = plan;
    if (calls_functions(f)) made->calls = (const NestCall *)calls_of(f);
    for (size_t w = 0; w < plan->grouping_count; w++) {
        const Grouping *way = &plan->groupings[w];
        made->width[w] = UINT32_C(1) << (job->seed + w) % 6; /* 1 to 32 */
        for (int t = 0; t < FORMS; t++) {
            made->nests[w][t] = arena_alloc(f->arena, (way->count + 1) * sizeof *made->nests[w][t]);
            for (size_t k = 0; k < way->count; k++) {
                made->nests[w][t][k] = make_nest(job, plan, &way->kernels[k], t, made->width[w]);
                if (!made->nests[w][t][k]) return NULL;
            }
        }
    }
    const uint32_t number = (uint32_t)(job->seed + f->value_count);
    const UnitNumbers gpu = {32, number & 8 ? 4 : 1, 1U << number % 4, number % 2 == 0};
    const UnitNumbers cpu = {1, 1, 8, false};
    made->panel_lanes = gpu.panel_lanes;
    for (size_t set = 0; set < UNIT_SETS; set++)
        if (!make_units(job, made, set, set & 1 ? &cpu : &gpu)) return NULL;
    return made;
}

static void note_written(const Plan *plan, uint32_t first, uint32_t end, Memories *m) {
    for (uint32_t a = 0; a < plan->array_count; a++)
        for (uint32_t p = first; p < end; p++) m->written[a] |= stores(&plan->phases[p], a);
}

/* What the index of lengths is; -1: not known. */
static int64_t length_at(const NestsJob *job, const PlainNest *plain, Index index) {
    int64_t sum = 0;
    for (size_t t = 0; t < index.count; t++) {
        int64_t product = index.terms[t].factor;
        for (uint32_t k = 0; k < index.terms[t].count; k++) {
            uint32_t axis = 0;
            while (axis < job->function->axis_count &&
                   plain->lengths[axis] != index.terms[t].symbols[k])
                axis++;
            if (axis == job->function->axis_count) return -1;
            product *= job->sizes[axis][0];
        }
        sum += product;
    }
    return sum;
}

/* Whether no row is longer than the schedule takes. */
static bool rows_fit(NestsJob *job, const PlainNest *plain) {
    for (size_t i = 0; i < plain->along_count; i++) {
        const int64_t length = length_at(job, plain, plain->along[i]);
        if (length < 0 || length > plain->along_max) return false;
    }
    job->ran_rows += plain->along_count > 0;
    return true;
}

/* The first row of a panel of so many lanes. */
static int64_t panel_row(int64_t panel, int64_t lanes) {
    return 1024 * (panel / (128 / lanes)) + lanes * (panel % (128 / lanes));
}

/* The part of a panel that begins at row `begin`, `at` leaves behind its first one, for a block:
 * rows of one lane. */
static int64_t block_part(int64_t *given, int64_t begin, int64_t at, int64_t span) {
    const int64_t first = begin + at / 8 + 128 * (at % 8);
    given[PANEL_FIRST] = first;
    given[PANEL_SPAN] = span;
    given[PANEL_PART] = at / span;
    return span;
}

/* For a thread: the largest subtree of at most `most` leaves whose rows exist up to the last one
 * that does. */
static int64_t thread_part(int64_t *given, int64_t panel, int64_t at, int64_t most, int64_t rows) {
    const int64_t own = rows <= 128 ? 1 : rows <= 256 ? 2 : rows <= 512 ? 4 : 8;
    int64_t row[8], there = 0, span = most, log = 0;
    for (bool fits = false; !fits; span = fits ? span : span / 2) {
        int64_t last = -1;
        there = 0;
        for (int64_t j = 0; j < span; j++) {
            const int64_t leaf = 8 * own * panel + at + j, in_tile = leaf % 1024;
            row[j] = leaf / 1024 * 1024 + in_tile / own + 128 * (in_tile % own);
            if (row[j] < rows) last = j, there++;
        }
        fits = at % span == 0 && last + 1 == there;
    }
    while (1 << log < span) log++;
    given[PANEL_FIRST] = row[0];
    given[PANEL_ROWS] = there;
    for (int bit = 0; bit < 3; bit++)
        given[PANEL_STEP_0 + bit] = 1 << bit < span ? row[1 << bit] - row[0] : 0;
    given[PANEL_LEVEL] = log;
    given[PANEL_CARRY] = 0;
    for (int64_t next = (at + span) / span; next % 2 == 0; next /= 2) given[PANEL_CARRY]++;
    given[PANEL_LEFT] = 8 * own - at - span;
    return span;
}

/* All row panels, part after part, then what becomes of what they leave. */
static const char *run_strips(NestsJob *job, const NestsMade *made, size_t set, uint32_t phase,
                              const Memories *m) {
    enum { OWNERS = 2, LEVELS = 6 };
    const Plan *plan = made->plan;
    Arena *arena = job->function->arena;
    const PlainNest *unit = made->units[set][phase];
    const int64_t rows = elements_of(job, plan->phases[phase].inner, 0);
    const int64_t columns = elements_of(job, plan->phases[phase].outer, 0);
    const bool thread = unit->panel[PANEL_ROWS];
    const int64_t lanes = thread ? 8 : made->panel_lanes;
    const int64_t count = 128 / lanes * ((rows + 1023) / 1024), span = job->seed & 1 ? 8 : 4;
    Strips strips = {
        .scratch = arena_alloc(arena, (unit->scratch_count + 1) * sizeof *strips.scratch),
        .counts = arena_alloc(arena, (unit->scratch_count + 1) * sizeof *strips.counts)};
    for (size_t i = 0; i < unit->scratch_count; i++) {
        strips.counts[i] = columns * (unit->per_thread[i] ? LEVELS * OWNERS : count);
        strips.scratch[i] = arena_alloc(arena, ((size_t)strips.counts[i] + 1) * sizeof(uint64_t));
    }
    for (int64_t panel = 0; panel < count; panel++) {
        const int64_t begin = panel_row(panel, lanes);
        const int64_t leaves = thread && rows <= 512 ? 8 * (rows <= 128   ? 1
                                                            : rows <= 256 ? 2
                                                                          : 4)
                                                     : 8 * lanes;
        int64_t own;
        strips.given[PANEL_NUMBER] = panel;
        strips.given[PANEL_OWNER] = panel % OWNERS;
        for (int64_t at = 0; at < leaves && begin < rows; at += own) {
            own = thread ? thread_part(strips.given, panel, at, span, rows)
                         : block_part(strips.given, begin, at, span);
            const char *problem = run_kernel(job, plan, unit, m, made->calls, &strips);
            if (problem) return problem;
            strips.written = true;
        }
    }
    return run_kernel(job, plan, made->finish[set][phase], m, made->calls, &strips);
}

/* One phase after the other. */
static bool run_units(NestsJob *job, const NestsMade *made, size_t set) {
    const Plan *plan = made->plan;
    Memories m;
    open_memories(job, plan, job->function->arena, &m);
    for (int launch = 0; launch < job->launches; launch++)
        for (uint32_t p = 0; p < plan->phase_count; p++) {
            const char *problem = made->finish[set][p] ? run_strips(job, made, set, p, &m)
                                                       : run_kernel(job, plan, made->units[set][p],
                                                                    &m, made->calls, NULL);
            job->ran++;
            if (problem) {
                printf("  the unit of phase %u of %s stops: %s\n", p, job->function->name, problem);
                return false;
            }
            note_written(plan, p, p + 1, &m);
        }
    return true;
}

static bool run_grouping(NestsJob *job, const NestsMade *made, size_t w, int transformed) {
    const Plan *plan = made->plan;
    const Grouping *way = &plan->groupings[w];
    Memories m;
    open_memories(job, plan, job->function->arena, &m);
    for (int launch = 0; launch < job->launches; launch++)
        for (size_t k = 0; k < way->count; k++) {
            const Kernel *kernel = &way->kernels[k];
            const PlainNest *nest = made->nests[w][transformed][k];
            if (!rows_fit(job, nest)) nest = made->nests[w][PLAIN][k];
            const char *problem = run_kernel(job, plan, nest, &m, made->calls, NULL);
            job->ran++;
            if (problem) {
                printf("  the nest of kernel %zu of %s stops: %s\n", k, job->function->name,
                       problem);
                return false;
            }
            note_written(plan, kernel->first - kernel->pre_reductions,
                         kernel->first + kernel->count, &m);
        }
    return true;
}

static bool has_turn(const NestsJob *job, size_t number) {
    return !job->share || (number + job->turn) % job->share == 0;
}

static bool run_all(NestsJob *job, const NestsMade *made) {
    size_t number = 0;
    for (size_t w = 0; w < made->plan->grouping_count; w++)
        for (int t = 0; t < (job->transformed ? FORMS : 1) && made->nests[w][t]; t++) {
            static const char *const names[FORMS] = {"way %zu", "way %zu, vectors of %u",
                                                     "way %zu, 32 lanes", "way %zu, one lane"};
            char name[64];
            if (!has_turn(job, number++)) continue;
            snprintf(name, sizeof name, names[t], w, made->width[w]);
            job->reset(job->user);
            if (!run_grouping(job, made, w, t) || !job->compare(job->user, name)) return false;
        }
    for (size_t set = 0; set < UNIT_SETS; set++) {
        char name[64];
        if (!made->units[set] || !has_turn(job, number++)) continue;
        snprintf(name, sizeof name, "units of %s%s", set & 1 ? "one thread" : "warps",
                 set >= STRIP_SETS ? ", strips" : "");
        job->reset(job->user);
        if (!run_units(job, made, set) || !job->compare(job->user, name)) return false;
    }
    return true;
}

bool nests_run(NestsJob *job) {
    Compiler *compiler = job->function->compiler;
    jmp_buf unwind;
    memcpy(&unwind, &compiler->unwind, sizeof unwind);
    volatile bool ok = true;
    if (setjmp(compiler->unwind)) {
        printf("  %s: %s\n", job->function->name, compiler->failure_message);
        ok = false;
    } else {
        if (!*job->made) *job->made = make_all(job);
        ok = *job->made && run_all(job, *job->made);
    }
    memcpy(&compiler->unwind, &unwind, sizeof unwind);
    return ok;
}
