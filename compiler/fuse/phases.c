/* phases.c: the fusion planner.
 *
 * Needs a simplified function whose gathers are of parameters and materialised values. Gives phases
 * in an order that respects the data flow: every reduction, scan and scatter is in a phase after
 * those it depends on, every store in a phase no earlier than the last one that still reads the
 * parameter's old value at other coordinates. Values are recomputed in each phase that needs them;
 * reductions, scans, scatters and the values that choose.c chooses are materialised, in
 * temporaries. Independent reductions and stores over one space share a phase. Keeps the function
 * as it is. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* ---- the order of what is made ---- */

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

bool plan_is_idle(const Plan *plan, const Store *store) {
    ValueId value = store->value;
    for (Guard guard; plan_keeps(plan, store->parameter, &value, &guard);) continue;
    return value == plan->arrays[store->parameter].value;
}

static bool is_materialised(const Value *value) {
    return op_info[value->op].flags & (OP_REDUCTION | OP_ARRAY);
}

static bool is_reduction(const Value *value) {
    return op_info[value->op].flags & OP_REDUCTION;
}

static AxisSet scanned(const Function *f, const Value *scan) {
    return ir_expand(f, (AxisSet)1 << (scan->payload & ~(uint64_t)SCAN_REVERSE));
}

static bool traverse_together(const Value *a, const Value *b) {
    return a->op == OP_SCAN && b->op == OP_SCAN && a->payload == b->payload && a->axes == b->axes;
}

/* The depth of a scan's operands, not counting scans that the same pass can compute. */
static uint32_t depth_below(Planner *p, ValueId scan) {
    const Function *f = p->function;
    uint32_t depth = 0;
    worklist_add(p->worklist, scan);
    for (ValueId v; (v = worklist_take(p->worklist)) != 0;) {
        const Value *value = &f->values[v];
        bool stops = is_materialised(value) && !traverse_together(value, &f->values[scan]);
        if (stops || value->op == OP_GATHER) {
            if (p->depth[v] > depth) depth = p->depth[v];
            if (stops) continue;
        }
        for (int i = value->op == OP_GATHER; i < op_info[value->op].arity; i++)
            worklist_add(p->worklist, value->arg[i]);
    }
    return depth;
}

void planner_find_depths(Planner *p) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        uint32_t depth = 0;
        for (int i = 0; i < op_info[value->op].arity; i++)
            if (p->depth[value->arg[i]] > depth) depth = p->depth[value->arg[i]];
        if (value->op == OP_SCAN && p->live[v]) depth = depth_below(p, v);
        p->depth[v] = depth + (is_materialised(value) ? 1 : 0);
        if (is_reduction(value)) p->depth[v] = larger(p->depth[v], p->plan->choices.depth[v]);
    }
}

uint32_t planner_add_array(Planner *p, Array array) {
    Plan *plan = p->plan;
    plan->arrays = arena_grow(p->arena, plan->arrays, plan->array_count, &plan->array_capacity,
                              sizeof *plan->arrays);
    plan->arrays[plan->array_count] = array;
    if (array.value) plan->array_of[array.value] = (uint32_t)plan->array_count + 1;
    return (uint32_t)plan->array_count++;
}

uint32_t planner_add_temporary(Planner *p, ValueId v) {
    const Value *value = &p->function->values[v];
    const char *stem = value->name ? value->name : plan_reduction(value);
    const char *name = arena_numbered(p->arena, stem, v);
    const Type type = value->op == OP_ROUND_TO ? (Type)value->payload : (Type)value->type;
    return planner_add_array(p, (Array){name, type, value->axes, v, UINT32_MAX, 0, false});
}

/* ---- phases ---- */

/* Rows or columns: whichever lets neighbouring lanes read neighbouring memory. */
static Shape shape_of(AxisSet outer, AxisSet inner, bool reduces) {
    if (!(outer | inner)) return SHAPE_SCALAR;
    if (!reduces) return SHAPE_MAP;
    return inner > outer ? SHAPE_ROWS : SHAPE_COLUMNS; /* the highest bit is the fastest axis */
}

uint32_t planner_add_phase(Planner *p, Phase phase) {
    Plan *plan = p->plan;
    plan->phases = arena_grow(p->arena, plan->phases, plan->phase_count, &plan->phase_capacity,
                              sizeof *plan->phases);
    plan->phases[plan->phase_count] = phase;
    return (uint32_t)plan->phase_count++;
}

void planner_add_store(Planner *p, uint32_t phase, PhaseStore store) {
    Phase *to = &p->plan->phases[phase];
    to->stores =
        arena_grow(p->arena, to->stores, to->store_count, &to->store_capacity, sizeof *to->stores);
    to->stores[to->store_count++] = store;
}

/* By value: which phases can compute it. A reduction can be used in the epilogue of its own phase,
 * a scan at each element of its own phase; a scatter, and what is gathered from, only after its
 * phase is done. */
void planner_find_ready(Planner *p) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        uint32_t ready = 0, late = 0, defined_in = p->plan->defined_in[v];
        if (is_materialised(value)) {
            ready = value->op == OP_SCAN && defined_in ? defined_in - 1 : defined_in;
            late = ir_is_scatter(value) || !defined_in ? defined_in : defined_in - 1;
        } else {
            for (int i = 0; i < op_info[value->op].arity; i++) {
                ValueId arg = value->arg[i];
                bool source = value->op == OP_GATHER && i == 0;
                uint32_t arg_ready = source ? p->plan->defined_in[arg] : p->ready[arg];
                uint32_t arg_late = source ? p->plan->defined_in[arg] : p->late[arg];
                if (arg_ready > ready) ready = arg_ready;
                if (arg_late > late) late = arg_late;
            }
        }
        p->ready[v] = ready;
        p->late[v] = late;
    }
}

/* Whether computing the value in the phase requests one of the phase's scans. */
static bool uses_scan(const Planner *p, const Phase *phase, ValueId value) {
    bool uses = false;
    worklist_add(p->worklist, value);
    for (ValueId v; !uses && (v = worklist_take(p->worklist)) != 0;) {
        ValueId operands[3];
        for (size_t i = 0; i < phase->scan_count; i++) uses |= phase->scans[i] == v;
        for (size_t i = plan_operands(p->plan, phase, v, operands); i-- > 0;)
            worklist_add(p->worklist, operands[i]);
    }
    worklist_clear(p->worklist);
    return uses;
}

Level planner_store_level(const Planner *p, ValueId value, AxisSet axes, uint32_t index) {
    const Phase *phase = &p->plan->phases[index];
    const bool in_time = p->ready[value] <= index;
    if (axes && axes == (phase->outer | phase->inner) && in_time)
        /* going through elements in order is slow: only for scans */
        if (phase->shape != SHAPE_SCAN || uses_scan(p, phase, value)) return LEVEL_ELEMENT;
    if (phase->reduction_count && axes == phase->outer && p->late[value] <= index)
        return LEVEL_EPILOGUE;
    return !axes && in_time ? LEVEL_LAST_BLOCK : LEVEL_COUNT;
}

/* By value: the phases that compute or read it for what they make, as a set; NULL where there are
 * more than a set can hold. */
static uint64_t *find_users(const Planner *p) {
    const Function *f = p->function;
    if (p->plan->phase_count > 64) return NULL;
    uint64_t *users = arena_alloc(p->arena, f->value_count * sizeof *users);
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        const Value *value = &f->values[v];
        const uint32_t defined_in = p->plan->defined_in[v];
        const uint64_t of = defined_in ? (uint64_t)1 << (defined_in - 1) : users[v];
        for (int i = value->op == OP_GATHER; p->live[v] && i < op_info[value->op].arity; i++)
            users[value->arg[i]] |= of;
    }
    return users;
}

/* The number of arrays over `axes` from which the value is computed and which the phase reads too;
 * SIZE_MAX if the phase computes or reads the value itself. */
static size_t shared_reads(Planner *p, ValueId value, AxisSet axes, uint32_t phase) {
    size_t shared = 0;
    if (p->plan->defined_in[value]) return p->plan->defined_in[value] == phase + 1 ? SIZE_MAX : 0;
    if (p->users[value] >> phase & 1) return SIZE_MAX;
    worklist_add(p->worklist, value);
    for (ValueId v; (v = worklist_take(p->worklist)) != 0;) {
        const Value *of = &p->function->values[v];
        if (of->op == OP_PARAMETER || p->plan->defined_in[v]) {
            shared += of->axes == axes && (p->users[v] >> phase & 1);
            continue;
        }
        for (int i = of->op == OP_GATHER; i < op_info[of->op].arity; i++)
            worklist_add(p->worklist, of->arg[i]);
    }
    return shared;
}

uint32_t planner_place(Planner *p, ValueId value, AxisSet axes, uint32_t from) {
    uint32_t best = UINT32_MAX;
    size_t max = 0;
    /* The epilogue of a whole reduction runs once anyhow; a last-block epilogue needs a counter of
     * blocks of its own.
     */
    for (int last_blocks = 0; last_blocks < 2 && best == UINT32_MAX; last_blocks++)
        for (uint32_t i = from; i < p->plan->phase_count; i++) {
            const Level level = planner_store_level(p, value, axes, i);
            if (level == LEVEL_COUNT || (level == LEVEL_LAST_BLOCK && !last_blocks)) continue;
            if (best == UINT32_MAX) best = i;
            if (level != LEVEL_ELEMENT || !value || !p->users || i >= 64) break;
            const size_t shared = shared_reads(p, value, axes, i);
            if (shared > max) best = i, max = shared;
        }
    if (best != UINT32_MAX) return best;
    const int list = ir_list_axis(p->function, axes);
    const AxisSet tensors = list < 0 ? 0 : (AxisSet)1 << list; /* visited one after another */
    return planner_add_phase(p, (Phase){.shape = shape_of(0, axes, false),
                                        .outer = tensors,
                                        .inner = axes & ~tensors,
                                        .depth = value ? p->depth[value] : 0});
}

/* One phase for all reductions of one depth over the same axes to the same axes; `first` is the
 * first phase of what has that depth. */
static void place_reduction(Planner *p, ValueId v, uint32_t first) {
    const Value *value = &p->function->values[v];
    AxisSet inner = (AxisSet)value->payload, outer = value->axes;
    uint32_t defined_in = UINT32_MAX, depth = p->depth[v] - 1;
    for (uint32_t i = first; i < p->plan->phase_count; i++) {
        const Phase *phase = &p->plan->phases[i];
        if (phase->depth == depth && phase->outer == outer && phase->inner == inner &&
            phase->reduction_count)
            defined_in = i;
    }
    if (defined_in == UINT32_MAX)
        defined_in = planner_add_phase(p, (Phase){.shape = shape_of(outer, inner, true),
                                                  .outer = outer,
                                                  .inner = inner,
                                                  .depth = depth});
    Phase *phase = &p->plan->phases[defined_in];
    phase->reductions = arena_grow(p->arena, phase->reductions, phase->reduction_count,
                                   &phase->reduction_capacity, sizeof *phase->reductions);
    phase->reductions[phase->reduction_count++] = v;
    p->plan->defined_in[v] = defined_in + 1;
}

/* Likewise for all scans of the same direction. */
static void place_scan(Planner *p, ValueId v, uint32_t first) {
    const Value *value = &p->function->values[v];
    AxisSet inner = scanned(p->function, value), outer = value->axes & ~inner;
    bool reverse = value->payload & SCAN_REVERSE;
    uint32_t defined_in = UINT32_MAX, depth = p->depth[v] - 1;
    if ((value->axes & inner) != inner)
        bug(p->function->compiler, "value %u of step %s scans an axis it lacks", v,
            p->function->name);
    for (uint32_t i = first; i < p->plan->phase_count; i++) {
        const Phase *phase = &p->plan->phases[i];
        if (phase->shape == SHAPE_SCAN && phase->depth == depth && phase->outer == outer &&
            phase->inner == inner && phase->reverse == reverse)
            defined_in = i;
    }
    if (defined_in == UINT32_MAX)
        defined_in = planner_add_phase(p, (Phase){.shape = SHAPE_SCAN,
                                                  .outer = outer,
                                                  .inner = inner,
                                                  .depth = depth,
                                                  .reverse = reverse});
    Phase *phase = &p->plan->phases[defined_in];
    phase->scans = arena_grow(p->arena, phase->scans, phase->scan_count, &phase->scan_capacity,
                              sizeof *phase->scans);
    phase->scans[phase->scan_count++] = v;
    p->plan->defined_in[v] = defined_in + 1;
}

/* The sums of a scatter are cleared in any phase that visits them all, then added to in one that
 * visits what is added; both may do other work besides. */
static void place_scatter(Planner *p, ValueId v, uint32_t cleared) {
    const Value *value = &p->function->values[v];
    uint32_t array = p->plan->array_of[v] - 1;
    AxisSet axes =
        p->function->values[value->arg[0]].axes | p->function->values[value->arg[1]].axes;
    /* of the adding; planner_find_ready() gives the sum's */
    p->ready[v] = larger(p->ready[value->arg[0]], p->ready[value->arg[1]]);
    p->late[v] = larger(p->late[value->arg[0]], p->late[value->arg[1]]);
    uint32_t defined_in = planner_place(p, v, axes, cleared + 1);
    planner_add_store(p, defined_in,
                      (PhaseStore){array, v, planner_store_level(p, v, axes, defined_in),
                                   value->range, STORE_ADD});
    p->plan->defined_in[v] = defined_in + 1;
}

static uint32_t clear_scatter(Planner *p, ValueId v) {
    const Value *value = &p->function->values[v];
    uint32_t array = planner_add_temporary(p, v), defined_in = planner_place(p, 0, value->axes, 0);
    planner_add_store(p, defined_in,
                      (PhaseStore){array, 0, planner_store_level(p, 0, value->axes, defined_in),
                                   value->range, STORE_CLEAR});
    return defined_in;
}

/* What is made, and what it is sorted by. */
typedef struct MaterialisedValue {
    uint32_t depth;
    AxisSet inner, space;
    bool late; /* than others of its space */
    ValueId v;
} MaterialisedValue;

/* Shallow ones first. Of one depth those of a space with fewer axes, as others may need them and
 * what they read may be overwritten; then reductions along rows before those down columns, so that
 * stores of what depends on row reductions find a phase behind them; full reductions (to a scalar)
 * before or after those, by choices.wholes_first; equal ones by their numbers. It is an order of
 * spaces, so that the order of statements does not matter. */
static int compare_made(const void *left, const void *right) {
    const MaterialisedValue *a = left, *b = right;
    const int axes[2] = {__builtin_popcount(a->space), __builtin_popcount(b->space)};
    if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
    if (axes[0] != axes[1]) return axes[0] < axes[1] ? -1 : 1;
    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    if (a->late != b->late) return b->late ? -1 : 1;
    if (a->inner != b->inner) return a->inner > b->inner ? -1 : 1;
    return a->v < b->v ? -1 : a->v > b->v;
}

/* The live materialised values (reductions, scans and scatters) in that order. begin[d]: the place
 * of the first one of depth d; begin[deepest + 1]: how many there are. */
static ValueId *sort_materialised(const Planner *p, uint32_t deepest, size_t *begin) {
    const Function *f = p->function;
    size_t count = 0;
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v] && is_materialised(&f->values[v])) begin[p->depth[v] + 1]++;
    for (uint32_t depth = 0; depth <= deepest; depth++) begin[depth + 1] += begin[depth];
    ValueId *materialised = arena_alloc(p->arena, (begin[deepest + 1] + 1) * sizeof *materialised);
    MaterialisedValue *sorted = arena_alloc(p->arena, (begin[deepest + 1] + 1) * sizeof *sorted);
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (!p->live[v] || !is_materialised(value)) continue;
        const AxisSet inner = is_reduction(value) ? (AxisSet)value->payload : 0;
        const bool late = inner && !value->axes != p->plan->choices.wholes_first;
        sorted[count++] = (MaterialisedValue){p->depth[v], inner, value->axes | inner, late, v};
    }
    if (count > 1) qsort(sorted, count, sizeof *sorted, compare_made);
    for (size_t i = 0; i < count; i++) materialised[i] = sorted[i].v;
    return materialised;
}

static void place_materialised(Planner *p) {
    const Function *f = p->function;
    uint32_t deepest = 0, *cleared = arena_alloc(p->arena, f->value_count * sizeof *cleared);
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v]) deepest = larger(deepest, p->depth[v]);
    size_t *begin = arena_alloc(p->arena, (deepest + 3) * sizeof *begin);
    const ValueId *materialised = sort_materialised(p, deepest, begin);
    for (uint32_t depth = 1; depth <= deepest; depth++) {
        const uint32_t first = (uint32_t)p->plan->phase_count;
        bool any_scatter = false;
        for (size_t i = begin[depth]; i < begin[depth + 1]; i++) {
            const Value *value = &f->values[materialised[i]];
            if (is_reduction(value)) place_reduction(p, materialised[i], first);
            if (value->op == OP_SCAN) place_scan(p, materialised[i], first);
            any_scatter |= ir_is_scatter(value);
        }
        if (!any_scatter) continue;
        planner_find_ready(p);
        for (int adds = 0; adds < 2; adds++)
            for (size_t i = begin[depth]; i < begin[depth + 1]; i++) {
                if (!ir_is_scatter(&f->values[materialised[i]])) continue;
                if (adds)
                    place_scatter(p, materialised[i], cleared[materialised[i]]);
                else
                    cleared[materialised[i]] = clear_scatter(p, materialised[i]);
            }
    }
    planner_find_ready(p);
}

bool planner_holds(const Function *f, const Store *store) {
    const Value *value = &f->values[store->value];
    const Parameter *parameter = &f->parameters[store->parameter];
    const Type type = value->op == OP_ROUND_TO ? (Type)value->payload : (Type)value->type;
    return type == parameter->type && value->axes == parameter->axes;
}

bool planner_may_keep(const Function *f, ValueId v) {
    const Value *value = &f->values[v];
    return value->axes && !is_materialised(value) && value->op != OP_PARAMETER &&
           !(op_info[value->op].flags & OP_LEAF) && value->op != OP_LIST;
}

void planner_read_from_parameter(Planner *p, const Store *store) {
    p->plan->array_of[store->value] = store->parameter + 1;
    p->plan->arrays[store->parameter].materialised = store->value;
}

/* A value chosen to be materialised that a store leaves unchanged in a parameter is read back from
 * there by later phases. planner_settle_stores() decides later whether the store must move to a
 * later phase. */
static void keep_stored(Planner *p) {
    const Function *f = p->function;
    for (size_t s = 0; s < f->store_count; s++) {
        const ValueId v = f->stores[s].value;
        const uint32_t defined_in = p->plan->store_phase[s];
        if (defined_in == UINT32_MAX || !p->plan->choices.materialised_[v] ||
            p->plan->defined_in[v])
            continue;
        if (!planner_holds(f, &f->stores[s])) continue;
        planner_read_from_parameter(p, &f->stores[s]);
        p->plan->defined_in[v] = defined_in + 1;
    }
}

/* A phase of its own for a value, ahead of phase `at`. */
static void insert_phase(Planner *p, ValueId v, uint32_t at) {
    Plan *plan = p->plan;
    const uint32_t last =
        planner_place(p, v, p->function->values[v].axes, (uint32_t)plan->phase_count);
    const Phase phase = plan->phases[last];
    memmove(&plan->phases[at + 1], &plan->phases[at], (last - at) * sizeof phase);
    plan->phases[at] = phase;
    for (ValueId other = 1; other < p->function->value_count; other++)
        if (plan->defined_in[other] > at) plan->defined_in[other]++;
    for (size_t s = 0; s < p->function->store_count; s++)
        if (p->plan->store_phase[s] != UINT32_MAX && p->plan->store_phase[s] >= at)
            p->plan->store_phase[s]++;
    planner_find_ready(p);
}

/* Whether the phase needs the value. A stale phase's value list is recomputed first, unless the old
 * list is known and does not contain the value. */
static bool needs(Planner *p, uint32_t index, ValueId v) {
    const Phase *phase = &p->plan->phases[index];
    if (phase->stale && (!phase->value_count || plan_needs(phase, v))) planner_refresh(p, index);
    return plan_needs(phase, v);
}

/* The first phase that can store a value to a temporary and computes it anyhow, or has it at hand
 * when it is done; and that comes before another that needs it. UINT32_MAX if there is none. */
static uint32_t keeping_phase(Planner *p, ValueId v) {
    const Plan *plan = p->plan;
    const uint32_t first = p->late[v] < p->ready[v] ? p->late[v] : p->ready[v];
    for (uint32_t i = first; i < plan->phase_count; i++) {
        const Level level = planner_store_level(p, v, p->function->values[v].axes, i);
        if (level == LEVEL_EPILOGUE || (level == LEVEL_ELEMENT && needs(p, i, v))) return i;
        /* over more axes it would be computed again and again */
        if (level == LEVEL_COUNT && needs(p, i, v)) break;
    }
    return UINT32_MAX;
}

/* The first phase of temporaries alone, ahead of `before`, that goes over the value's elements and
 * can compute it: what values of one phase are made of is computed once for all of them. */
static uint32_t shared_phase(const Planner *p, ValueId v, uint32_t before) {
    const AxisSet axes = p->function->values[v].axes;
    for (uint32_t i = p->ready[v]; i < before; i++) {
        const Phase *phase = &p->plan->phases[i];
        bool alone = phase->shape == SHAPE_MAP && phase->store_count &&
                     (phase->outer | phase->inner) == axes;
        for (size_t s = 0; s < phase->store_count; s++)
            alone &= phase->stores[s].kind == STORE_VALUE &&
                     phase->stores[s].array >= p->function->parameter_count;
        if (alone) return i;
    }
    return before;
}

/* What no parameter holds goes into a temporary. What a phase needs is found when it is looked at:
 * values that are materialised already are not computed any more. */
static void keep_others(Planner *p) {
    const Function *f = p->function;
    for (uint32_t i = 0; i < p->plan->phase_count; i++) p->plan->phases[i].stale = true;
    for (ValueId v = 1; v < f->value_count; v++) {
        if (!p->plan->choices.materialised_[v] || p->plan->defined_in[v]) continue;
        uint32_t defined_in = keeping_phase(p, v);
        if (defined_in == UINT32_MAX) {
            for (defined_in = 0; defined_in < p->plan->phase_count && !needs(p, defined_in, v);)
                defined_in++;
            if (defined_in == p->plan->phase_count || p->ready[v] > defined_in) continue;
            const uint32_t shared = shared_phase(p, v, defined_in);
            if (shared == defined_in) insert_phase(p, v, defined_in);
            defined_in = shared;
        }
        const Level level = planner_store_level(p, v, f->values[v].axes, defined_in);
        const uint32_t array = planner_add_temporary(p, v);
        planner_add_store(p, defined_in,
                          (PhaseStore){array, v, level, f->values[v].range, STORE_VALUE});
        p->plan->defined_in[v] = defined_in + 1;
        planner_leave_users(p, v, defined_in + 1);
        /* what it computes anyhow makes no difference to what it needs */
        const Phase *phase = &p->plan->phases[defined_in];
        const bool unknown = phase->stale && !phase->value_count;
        if (!unknown && !plan_needs(phase, v)) planner_mark_needed(p, defined_in);
        if (p->work_limit && *p->worklist->taken > p->work_limit) return;
    }
}

bool planner_place_phases(Planner *p) {
    const Function *f = p->function;
    place_materialised(p);
    p->users = find_users(p);
    for (int scalars = 0; scalars < 2; scalars++)
        for (size_t s = 0; s < f->store_count; s++) {
            const Store *store = &f->stores[s];
            const AxisSet axes = f->parameters[store->parameter].axes;
            if (!plan_is_idle(p->plan, store) && scalars == !axes)
                p->plan->store_phase[s] = planner_place(p, store->value, axes, 0);
        }
    if (p->plan->phase_count == 0) planner_add_phase(p, (Phase){.shape = SHAPE_SCALAR});
    p->users = NULL; /* phases may move */
    keep_stored(p);
    keep_others(p);
    return planner_refresh_all(p);
}
