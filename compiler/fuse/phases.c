/* phases.c: the fusion planner.
 *
 * Needs a simplified function whose gathers are of parameters and made values. Gives phases in an
 * order that respects the data flow: every reduction, scan and scatter is in a phase after those it
 * depends on, every store in a phase no earlier than the last one that still reads the parameter's
 * old value at other coordinates. Values are recomputed in each phase that needs them; made ones
 * are carried over, in temporaries, and so are those that choose.c chooses. Independent
 * reductions and stores over one space share a phase. Keeps the function as it is. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* ---- the order of what is made ---- */

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* A store that never changes anything. */
static bool is_idle(const Plan *plan, const Store *store) {
    ValueId value = store->value;
    for (Guard guard; plan_keeps(plan, store->parameter, &value, &guard);) continue;
    return value == plan->arrays[store->parameter].value;
}

static bool is_made(const Value *value) {
    return op_info[value->op].flags & (OP_REDUCTION | OP_ARRAY);
}

static bool is_reduction(const Value *value) {
    return op_info[value->op].flags & OP_REDUCTION;
}

static AxisSet scanned(const Function *f, const Value *scan) {
    return ir_expand(f, (AxisSet)1 << (scan->payload & ~(uint64_t)SCAN_REVERSE));
}

static bool walk_together(const Value *a, const Value *b) {
    return a->op == OP_SCAN && b->op == OP_SCAN && a->payload == b->payload && a->axes == b->axes;
}

/* The depth of what a scan is made of, not counting scans that its own walk can make. */
static uint32_t depth_below(Planner *p, ValueId scan) {
    const Function *f = p->function;
    uint32_t depth = 0;
    marks_add(p->marks, scan);
    for (ValueId v; (v = marks_take(p->marks)) != 0;) {
        const Value *value = &f->values[v];
        bool stops = is_made(value) && !walk_together(value, &f->values[scan]);
        if (stops || value->op == OP_GATHER) {
            if (p->depth[v] > depth) depth = p->depth[v];
            if (stops) continue;
        }
        for (int i = value->op == OP_GATHER; i < op_info[value->op].arity; i++)
            marks_add(p->marks, value->arg[i]);
    }
    return depth;
}

static void find_depths(Planner *p) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        uint32_t depth = 0;
        for (int i = 0; i < op_info[value->op].arity; i++)
            if (p->depth[value->arg[i]] > depth) depth = p->depth[value->arg[i]];
        if (value->op == OP_SCAN && p->live[v]) depth = depth_below(p, v);
        p->depth[v] = depth + (is_made(value) ? 1 : 0);
        if (is_reduction(value)) p->depth[v] = larger(p->depth[v], p->choices->depth[v]);
    }
}

/* Marks what the stores reach. */
static const bool *find_live(Planner *p) {
    const Function *f = p->function;
    bool *live = arena_alloc(p->arena, f->value_count * sizeof *live);
    for (size_t i = 0; i < f->store_count; i++) {
        live[f->stores[i].value] = true;
        live[f->stores[i].guard] = true;
    }
    for (ValueId v = (ValueId)f->value_count; v-- > 1;)
        if (live[v])
            for (int i = 0; i < op_info[f->values[v].op].arity; i++)
                live[f->values[v].arg[i]] = true;
    return live;
}

uint32_t planner_add_array(Planner *p, Array array) {
    Plan *plan = p->plan;
    plan->arrays = arena_grow(p->arena, plan->arrays, plan->array_count, &plan->array_capacity,
                              sizeof *plan->arrays);
    plan->arrays[plan->array_count] = array;
    if (array.value) plan->array_of[array.value] = (uint32_t)plan->array_count + 1;
    return (uint32_t)plan->array_count++;
}

static uint32_t add_temporary(Planner *p, ValueId v) {
    const Value *value = &p->function->values[v];
    const char *name =
        arena_printf(p->arena, "%s_%u", value->name ? value->name : plan_reduction(value), v);
    const Type type = value->op == OP_ROUND_TO ? (Type)value->payload : (Type)value->type;
    return planner_add_array(p, (Array){name, type, value->axes, v, UINT32_MAX, 0, false});
}

static void add_parameters(Planner *p) {
    const Function *f = p->function;
    for (uint32_t i = 0; i < f->parameter_count; i++) {
        const Parameter *parameter = &f->parameters[i];
        Array array = {parameter->name, parameter->type, parameter->axes, 0, i, 0, false};
        planner_add_array(p, array);
    }
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v] && f->values[v].op == OP_PARAMETER) {
            p->plan->arrays[f->values[v].payload].value = v;
            p->plan->array_of[v] = (uint32_t)f->values[v].payload + 1;
        }
}

/* ---- phases ---- */

/* Rows or columns: whichever lets neighbouring lanes read neighbouring memory. */
static Shape shape_of(AxisSet outer, AxisSet inner, bool reduces) {
    if (!(outer | inner)) return SHAPE_SCALAR;
    if (!reduces) return SHAPE_MAP;
    return inner > outer ? SHAPE_ROWS : SHAPE_COLUMNS; /* the highest bit is the fastest axis */
}

static uint32_t add_phase(Planner *p, Phase phase) {
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

/* By value: which phases can compute it. A reduction can be used in its own phase's epilogue, a
 * scan at each element of its own walk, a scatter and what others are gathered from not before all
 * of it is done. */
static void find_ready(Planner *p) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        uint32_t ready = 0, late = 0, home = p->plan->home[v];
        if (is_made(value)) {
            ready = value->op == OP_SCAN && home ? home - 1 : home;
            late = value->op == OP_SCATTER || !home ? home : home - 1;
        } else {
            for (int i = 0; i < op_info[value->op].arity; i++) {
                ValueId arg = value->arg[i];
                bool source = value->op == OP_GATHER && i == 0;
                uint32_t arg_ready = source ? p->plan->home[arg] : p->ready[arg];
                uint32_t arg_late = source ? p->plan->home[arg] : p->late[arg];
                if (arg_ready > ready) ready = arg_ready;
                if (arg_late > late) late = arg_late;
            }
        }
        p->ready[v] = ready;
        p->late[v] = late;
    }
}

/* Whether computing the value in the phase asks for one of the phase's scans. */
static bool uses_scan(const Planner *p, const Phase *phase, ValueId value) {
    bool uses = false;
    marks_add(p->marks, value);
    for (ValueId v; !uses && (v = marks_take(p->marks)) != 0;) {
        ValueId operands[3];
        for (size_t i = 0; i < phase->scan_count; i++) uses |= phase->scans[i] == v;
        for (size_t i = plan_operands(p->plan, phase, v, operands); i-- > 0;)
            marks_add(p->marks, operands[i]);
    }
    marks_clear(p->marks);
    return uses;
}

Level planner_store_level(const Planner *p, ValueId value, AxisSet axes, uint32_t index) {
    const Phase *phase = &p->plan->phases[index];
    const bool in_time = p->ready[value] <= index;
    if (axes && axes == (phase->outer | phase->inner) && in_time)
        /* a walk in order is slow: only for what it makes */
        if (phase->shape != SHAPE_SCAN || uses_scan(p, phase, value)) return LEVEL_ELEMENT;
    if (phase->reduction_count && axes == phase->outer && p->late[value] <= index)
        return LEVEL_EPILOGUE;
    return !axes && in_time ? LEVEL_TAIL : LEVEL_COUNT;
}

uint32_t planner_place(Planner *p, ValueId value, AxisSet axes, uint32_t from) {
    /* A whole reduction's epilogue runs once anyhow; a tail needs a count of the blocks of its own.
     */
    for (int tails = 0; tails < 2; tails++)
        for (uint32_t i = from; i < p->plan->phase_count; i++) {
            Level level = planner_store_level(p, value, axes, i);
            if (level != LEVEL_COUNT && (level != LEVEL_TAIL || tails)) return i;
        }
    const int list = ir_list_axis(p->function, axes);
    const AxisSet tensors = list < 0 ? 0 : (AxisSet)1 << list; /* walked one after another */
    return add_phase(p, (Phase){.shape = shape_of(0, axes, false),
                                .outer = tensors,
                                .inner = axes & ~tensors,
                                .depth = value ? p->depth[value] : 0});
}

/* One phase for all reductions of one depth over the same axes to the same axes; `first` is the
 * first phase of what has that depth. */
static void place_reduction(Planner *p, ValueId v, uint32_t first) {
    const Value *value = &p->function->values[v];
    AxisSet inner = (AxisSet)value->payload, outer = value->axes;
    uint32_t home = UINT32_MAX, depth = p->depth[v] - 1;
    for (uint32_t i = first; i < p->plan->phase_count; i++) {
        const Phase *phase = &p->plan->phases[i];
        if (phase->depth == depth && phase->outer == outer && phase->inner == inner &&
            phase->reduction_count)
            home = i;
    }
    if (home == UINT32_MAX)
        home = add_phase(p, (Phase){.shape = shape_of(outer, inner, true),
                                    .outer = outer,
                                    .inner = inner,
                                    .depth = depth});
    Phase *phase = &p->plan->phases[home];
    phase->reductions = arena_grow(p->arena, phase->reductions, phase->reduction_count,
                                   &phase->reduction_capacity, sizeof *phase->reductions);
    phase->reductions[phase->reduction_count++] = v;
    p->plan->home[v] = home + 1;
}

/* Likewise for all scans that walk the same way. */
static void place_scan(Planner *p, ValueId v, uint32_t first) {
    const Value *value = &p->function->values[v];
    AxisSet inner = scanned(p->function, value), outer = value->axes & ~inner;
    bool reverse = value->payload & SCAN_REVERSE;
    uint32_t home = UINT32_MAX, depth = p->depth[v] - 1;
    if ((value->axes & inner) != inner)
        bug(p->function->compiler, "value %u of step %s scans an axis it lacks", v,
            p->function->name);
    for (uint32_t i = first; i < p->plan->phase_count; i++) {
        const Phase *phase = &p->plan->phases[i];
        if (phase->shape == SHAPE_SCAN && phase->depth == depth && phase->outer == outer &&
            phase->inner == inner && phase->reverse == reverse)
            home = i;
    }
    if (home == UINT32_MAX)
        home = add_phase(p, (Phase){.shape = SHAPE_SCAN,
                                    .outer = outer,
                                    .inner = inner,
                                    .depth = depth,
                                    .reverse = reverse});
    Phase *phase = &p->plan->phases[home];
    phase->scans = arena_grow(p->arena, phase->scans, phase->scan_count, &phase->scan_capacity,
                              sizeof *phase->scans);
    phase->scans[phase->scan_count++] = v;
    p->plan->home[v] = home + 1;
}

/* The sums of a scatter are cleared in any phase that visits them all, then added to in one that
 * visits what is added; both may do other work besides. */
static void place_scatter(Planner *p, ValueId v, uint32_t cleared) {
    const Value *value = &p->function->values[v];
    uint32_t array = p->plan->array_of[v] - 1;
    AxisSet axes =
        p->function->values[value->arg[0]].axes | p->function->values[value->arg[1]].axes;
    /* of the adding; find_ready() gives the sum's */
    p->ready[v] = larger(p->ready[value->arg[0]], p->ready[value->arg[1]]);
    p->late[v] = larger(p->late[value->arg[0]], p->late[value->arg[1]]);
    uint32_t home = planner_place(p, v, axes, cleared + 1);
    planner_add_store(
        p, home,
        (PhaseStore){array, v, planner_store_level(p, v, axes, home), value->range, STORE_ADD});
    p->plan->home[v] = home + 1;
}

static uint32_t clear_scatter(Planner *p, ValueId v) {
    const Value *value = &p->function->values[v];
    uint32_t array = add_temporary(p, v), home = planner_place(p, 0, value->axes, 0);
    planner_add_store(p, home,
                      (PhaseStore){array, 0, planner_store_level(p, 0, value->axes, home),
                                   value->range, STORE_CLEAR});
    return home;
}

/* What is live and made, shallow ones first and in the order of the values; `begin` gets where each
 * depth begins, and one more. */
static ValueId *sort_made(const Planner *p, uint32_t deepest, size_t *begin) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v] && is_made(&f->values[v])) begin[p->depth[v] + 1]++;
    for (uint32_t depth = 0; depth <= deepest; depth++) begin[depth + 1] += begin[depth];
    ValueId *made = arena_alloc(p->arena, (begin[deepest + 1] + 1) * sizeof *made);
    size_t *next = arena_alloc(p->arena, (deepest + 2) * sizeof *next);
    memcpy(next, begin, (deepest + 2) * sizeof *next);
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v] && is_made(&f->values[v])) made[next[p->depth[v]]++] = v;
    return made;
}

static void place_made(Planner *p) {
    const Function *f = p->function;
    uint32_t deepest = 0, *cleared = arena_alloc(p->arena, f->value_count * sizeof *cleared);
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v]) deepest = larger(deepest, p->depth[v]);
    size_t *begin = arena_alloc(p->arena, (deepest + 3) * sizeof *begin);
    const ValueId *made = sort_made(p, deepest, begin);
    for (uint32_t depth = 1; depth <= deepest; depth++) {
        const uint32_t first = (uint32_t)p->plan->phase_count;
        bool any_scatter = false;
        for (size_t i = begin[depth]; i < begin[depth + 1]; i++) {
            const Value *value = &f->values[made[i]];
            if (is_reduction(value)) place_reduction(p, made[i], first);
            if (value->op == OP_SCAN) place_scan(p, made[i], first);
            any_scatter |= value->op == OP_SCATTER;
        }
        if (!any_scatter) continue;
        find_ready(p);
        for (int adds = 0; adds < 2; adds++)
            for (size_t i = begin[depth]; i < begin[depth + 1]; i++) {
                if (f->values[made[i]].op != OP_SCATTER) continue;
                if (adds)
                    place_scatter(p, made[i], cleared[made[i]]);
                else
                    cleared[made[i]] = clear_scatter(p, made[i]);
            }
    }
    find_ready(p);
}

/* The element loop reads `old` of a parameter that the same phase stores over fewer axes only in
 * its epilogue, after every element is done, and a rank-0 parameter only in the tail, after every
 * block has read it. */
static void add_stores(Planner *p) {
    const Function *f = p->function;
    for (size_t s = 0; s < f->store_count; s++) {
        const Store *store = &f->stores[s];
        if (p->store_home[s] == UINT32_MAX) continue;
        Level level = planner_store_level(p, store->value, f->parameters[store->parameter].axes,
                                          p->store_home[s]);
        planner_add_store(
            p, p->store_home[s],
            (PhaseStore){store->parameter, store->value, level, store->range, STORE_VALUE});
    }
}

bool planner_holds(const Function *f, const Store *store) {
    const Value *value = &f->values[store->value];
    const Parameter *parameter = &f->parameters[store->parameter];
    const Type type = value->op == OP_ROUND_TO ? (Type)value->payload : (Type)value->type;
    return type == parameter->type && value->axes == parameter->axes;
}

bool planner_may_keep(const Function *f, ValueId v) {
    const Value *value = &f->values[v];
    return value->axes && !is_made(value) && value->op != OP_PARAMETER &&
           !(op_info[value->op].flags & OP_LEAF) && value->op != OP_LIST;
}

static void read_from_parameter(Planner *p, const Store *store) {
    p->plan->array_of[store->value] = store->parameter + 1;
    p->plan->arrays[store->parameter].made = store->value;
}

/* Whether the value is stored whole and as it is by the phase that makes it, for later ones to read
 * there. */
static bool store_holds(Planner *p, ValueId v) {
    const Function *f = p->function;
    for (size_t s = 0; s < f->store_count; s++) {
        if (f->stores[s].value != v || p->store_home[s] + 1 != p->plan->home[v]) continue;
        if (!planner_holds(f, &f->stores[s])) continue;
        read_from_parameter(p, &f->stores[s]);
        return true;
    }
    return false;
}

/* What the phases after a store read back from the parameter. Whether the store has to wait, and
 * they with it, is for planner_settle_stores() to find. */
static void keep_stored(Planner *p) {
    const Function *f = p->function;
    for (size_t s = 0; s < f->store_count; s++) {
        const ValueId v = f->stores[s].value;
        const uint32_t home = p->store_home[s];
        if (home == UINT32_MAX || !p->choices->kept[v] || p->plan->home[v]) continue;
        if (!planner_holds(f, &f->stores[s])) continue;
        read_from_parameter(p, &f->stores[s]);
        p->plan->home[v] = home + 1;
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
        if (plan->home[other] > at) plan->home[other]++;
    for (size_t s = 0; s < p->function->store_count; s++)
        if (p->store_home[s] != UINT32_MAX && p->store_home[s] >= at) p->store_home[s]++;
    find_ready(p);
}

/* The first phase that can store a value to a temporary and computes it anyhow, or has it at hand
 * when it is done; and that comes before another that needs it. UINT32_MAX if there is none. */
static uint32_t keeping_phase(Planner *p, ValueId v) {
    const Plan *plan = p->plan;
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        const Level level = planner_store_level(p, v, p->function->values[v].axes, i);
        planner_refresh(p, i);
        if (level == LEVEL_EPILOGUE || (level == LEVEL_ELEMENT && plan_needs(&plan->phases[i], v)))
            return i;
        /* over more axes it would be computed again and again */
        if (level == LEVEL_COUNT && plan_needs(&plan->phases[i], v)) break;
    }
    return UINT32_MAX;
}

/* What no parameter holds goes into a temporary. */
static void keep_others(Planner *p) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        if (!p->choices->kept[v] || p->plan->home[v]) continue;
        uint32_t home = keeping_phase(p, v);
        if (home == UINT32_MAX) {
            planner_refresh_all(p);
            for (home = 0; home < p->plan->phase_count; home++)
                if (plan_needs(&p->plan->phases[home], v)) break;
            if (home == p->plan->phase_count || p->ready[v] > home) continue;
            insert_phase(p, v, home);
        }
        const Level level = planner_store_level(p, v, f->values[v].axes, home);
        const uint32_t array = add_temporary(p, v);
        planner_add_store(p, home, (PhaseStore){array, v, level, f->values[v].range, STORE_VALUE});
        p->plan->home[v] = home + 1;
        planner_leave_users(p, v);
        p->plan->phases[home].stale = true;
    }
    planner_refresh_all(p);
}

/* A reduction or scan read by another phase than its own goes through memory. */
static void add_temporaries(Planner *p) {
    const Function *f = p->function;
    bool *carried = arena_alloc(p->arena, f->value_count * sizeof *carried);
    for (ValueId v = 1; v < f->value_count; v++)
        if (p->live[v] && f->values[v].op == OP_GATHER) carried[f->values[v].arg[0]] = true;
    for (uint32_t i = 0; i < p->plan->phase_count; i++)
        for (size_t n = 0; n < p->plan->phases[i].value_count; n++) {
            const ValueId v = p->plan->phases[i].values[n];
            carried[v] |= p->plan->home[v] <= i;
        }
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (!p->plan->home[v] || p->plan->array_of[v]) continue;
        if (!carried[v] || store_holds(p, v)) continue;
        Level level = value->op == OP_SCAN ? LEVEL_ELEMENT : LEVEL_EPILOGUE;
        uint32_t array = add_temporary(p, v);
        planner_add_store(p, p->plan->home[v] - 1,
                          (PhaseStore){array, v, level, value->range, STORE_VALUE});
    }
}

static void find_levels(Planner *p, uint32_t index) {
    const Function *f = p->function;
    Phase *phase = &p->plan->phases[index];
    for (size_t n = 0; n < phase->value_count; n++) {
        const ValueId v = phase->values[n];
        const Value *value = &f->values[v];
        Level level = !value->axes                 ? LEVEL_SCALAR
                      : value->axes & phase->inner ? LEVEL_ELEMENT
                                                   : LEVEL_OUTER;
        ValueId operands[3];
        if (is_reduction(value)) {
            if (p->plan->home[v] == index + 1) level = LEVEL_EPILOGUE;
        } else {
            for (size_t i = plan_operands(p->plan, phase, v, operands); i-- > 0;)
                if (p->levels[operands[i]] == LEVEL_EPILOGUE) level = LEVEL_EPILOGUE;
        }
        p->levels[v] = (uint8_t)level;
    }
    /* What is added to a sum stands where it is added, whatever axes the sums have. */
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        if (store->kind == STORE_ADD)
            p->levels[store->value] =
                store->level == LEVEL_TAIL ? LEVEL_SCALAR : (uint8_t)store->level;
    }
    phase->levels = arena_alloc(p->arena, phase->value_count * sizeof *phase->levels);
    for (size_t n = 0; n < phase->value_count; n++) phase->levels[n] = p->levels[phase->values[n]];
}

static const char *made_name(Planner *p, ValueId v) {
    const Value *value = &p->function->values[v];
    if (value->name) return value->name;
    if (!is_made(value) && p->plan->array_of[v])
        return p->plan->arrays[p->plan->array_of[v] - 1].name;
    return plan_reduction(value);
}

static void explain_split(Planner *p, uint32_t index) {
    const Plan *plan = p->plan;
    Phase *phase = &plan->phases[index];
    if (index == 0 || phase->why) return;
    const Phase *before = &plan->phases[index - 1];
    const char *waits = NULL;
    ValueId latest = 0; /* what was finished last is what it waits for */
    for (size_t n = 0; n < phase->value_count; n++) {
        const ValueId v = phase->values[n];
        const Value *value = &p->function->values[v];
        ValueId read = value->op == OP_GATHER ? value->arg[0] : v;
        if (plan->home[read] > plan->home[latest] && plan_is_read(plan, phase, read)) latest = read;
        if (!latest && value->op == OP_SCATTER && plan->home[v] == index + 1)
            waits = "it adds to sums that an earlier phase clears";
    }
    if (latest)
        waits = arena_printf(p->arena, "it needs the finished %s of an earlier phase",
                             made_name(p, latest));
    if (waits)
        phase->why = waits;
    else if ((before->outer | before->inner) != (phase->outer | phase->inner))
        phase->why = "it visits other axes than the phase before";
    else if (phase->scan_count)
        phase->why = "it walks along its axis in order";
    else if (phase->reduction_count && before->reduction_count)
        phase->why = "it reduces over other axes than the phase before";
    else
        phase->why = "an earlier phase still reads what it overwrites";
}

Plan *planner_build(const Function *function, const Choices *choices, Arena *arena, size_t *work) {
    const size_t values = function->value_count;
    Planner p = {.function = function, .arena = arena, .choices = choices};
    p.plan = arena_alloc(arena, sizeof *p.plan);
    p.plan->function = function;
    p.plan->array_of = arena_alloc(arena, values * sizeof(uint32_t));
    p.plan->home = arena_alloc(arena, values * sizeof(uint32_t));
    p.depth = arena_alloc(arena, values * sizeof(uint32_t));
    p.ready = arena_alloc(arena, values * sizeof(uint32_t));
    p.late = arena_alloc(arena, values * sizeof(uint32_t));
    p.store_home = arena_alloc(arena, (function->store_count + 1) * sizeof(uint32_t));
    p.levels = arena_alloc(arena, values);
    p.marks = marks_open(function, arena);
    p.marks->taken = work;
    p.live = find_live(&p);

    find_depths(&p);
    add_parameters(&p);
    place_made(&p);
    for (int scalars = 0; scalars < 2; scalars++)
        for (size_t s = 0; s < function->store_count; s++) {
            const Store *store = &function->stores[s];
            AxisSet axes = function->parameters[store->parameter].axes;
            if (is_idle(p.plan, store))
                p.store_home[s] = UINT32_MAX;
            else if (scalars == !axes)
                p.store_home[s] = planner_place(&p, store->value, axes, 0);
        }
    if (p.plan->phase_count == 0) add_phase(&p, (Phase){.shape = SHAPE_SCALAR});
    keep_stored(&p);
    for (uint32_t i = 0; i < p.plan->phase_count; i++) planner_mark_needed(&p, i);
    keep_others(&p);
    if (!planner_settle_stores(&p)) return NULL;
    planner_order_phases(&p);
    find_ready(&p);
    planner_guard_phases(&p);
    add_stores(&p);
    add_temporaries(&p);
    for (uint32_t i = 0; i < p.plan->phase_count; i++)
        plan_find_touches(p.plan, &p.plan->phases[i], arena);
    planner_group_kernels(&p);
    for (uint32_t i = 0; i < p.plan->phase_count; i++) {
        find_levels(&p, i);
        explain_split(&p, i);
    }
    if (planner_keeps_order(p.plan)) return p.plan;
    for (ValueId v = 1; v < values; v++)
        if (choices->kept[v]) return NULL;
    bug(function->compiler, "a phase of step %s reads what an earlier one overwrites",
        function->name);
}
