/* plan.c: the fusion planner.
 *
 * Needs a simplified function. Gives phases in an order that respects the data flow: every
 * reduction is in a phase after those it depends on, every store in a phase no earlier than the
 * last one that still reads the parameter's old value at other coordinates. Values are recomputed
 * in each phase that needs them; only the results of reductions are carried over, in temporaries.
 * Independent reductions and stores over one space share a phase. Keeps the function as it is. */
#include <string.h>

#include "compiler.h"
#include "plan.h"

typedef struct Planner {
    const Function *function;
    Plan *plan;
    Arena *arena;
    uint32_t *depth;      /* by value: reductions on the longest path below it */
    uint32_t *home;       /* by reduction: its phase */
    uint32_t *ready;      /* by value: phases that must be complete before it can be computed */
    uint32_t *store_home; /* by store: its phase, UINT32_MAX while it has none */
} Planner;

static bool is_reduction(const Value *value) {
    return op_info[value->op].flags & OP_REDUCTION;
}

static void find_depths(Planner *p) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        uint32_t depth = 0;
        for (int i = 0; i < op_info[value->op].arity; i++)
            if (p->depth[value->arg[i]] > depth) depth = p->depth[value->arg[i]];
        p->depth[v] = depth + (is_reduction(value) ? 1 : 0);
    }
}

/* Marks what the stores reach. */
static bool *find_live(Planner *p) {
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

static uint32_t add_array(Planner *p, Array array) {
    Plan *plan = p->plan;
    plan->arrays = arena_grow(p->arena, plan->arrays, plan->array_count, &plan->array_capacity,
                              sizeof *plan->arrays);
    plan->arrays[plan->array_count] = array;
    if (array.value) plan->array_of[array.value] = (uint32_t)plan->array_count + 1;
    return (uint32_t)plan->array_count++;
}

static void add_parameters(Planner *p, const bool *live) {
    const Function *f = p->function;
    for (uint32_t i = 0; i < f->parameter_count; i++) {
        const Parameter *parameter = &f->parameters[i];
        Array array = {parameter->name, parameter->type, parameter->axes, 0, i};
        for (ValueId v = 1; v < f->value_count; v++)
            if (live[v] && f->values[v].op == OP_PARAMETER && f->values[v].payload == i)
                array.value = v;
        add_array(p, array);
    }
}

/* Rows or columns: whichever lets neighbouring lanes read neighbouring memory. */
static Shape shape_of(AxisSet outer, AxisSet inner, bool reduces) {
    if (!(outer | inner)) return SHAPE_SCALAR;
    if (!reduces) return SHAPE_MAP;
    return inner > outer ? SHAPE_ROWS : SHAPE_COLUMNS; /* the highest bit is the fastest axis */
}

static uint32_t add_phase(Planner *p, uint32_t depth, AxisSet outer, AxisSet inner, bool reduces) {
    Plan *plan = p->plan;
    plan->phases = arena_grow(p->arena, plan->phases, plan->phase_count, &plan->phase_capacity,
                              sizeof *plan->phases);
    plan->phases[plan->phase_count] = (Phase){
        .shape = shape_of(outer, inner, reduces), .outer = outer, .inner = inner, .depth = depth};
    return (uint32_t)plan->phase_count++;
}

/* One phase for all reductions of one depth over the same axes to the same axes, shallow ones
 * first. */
static void place_reductions(Planner *p, const bool *live) {
    const Function *f = p->function;
    uint32_t deepest = 0;
    for (ValueId v = 1; v < f->value_count; v++)
        if (live[v] && is_reduction(&f->values[v]) && p->depth[v] > deepest) deepest = p->depth[v];
    for (uint32_t depth = 1; depth <= deepest; depth++)
        for (ValueId v = 1; v < f->value_count; v++) {
            const Value *value = &f->values[v];
            if (!live[v] || !is_reduction(value) || p->depth[v] != depth) continue;
            AxisSet inner = (AxisSet)value->payload, outer = value->axes;
            uint32_t home = UINT32_MAX;
            for (uint32_t i = 0; i < p->plan->phase_count; i++) {
                const Phase *phase = &p->plan->phases[i];
                if (phase->depth == depth - 1 && phase->outer == outer && phase->inner == inner)
                    home = i;
            }
            if (home == UINT32_MAX) home = add_phase(p, depth - 1, outer, inner, true);
            Phase *phase = &p->plan->phases[home];
            phase->reductions = arena_grow(p->arena, phase->reductions, phase->reduction_count,
                                           &phase->reduction_capacity, sizeof *phase->reductions);
            phase->reductions[phase->reduction_count++] = v;
            p->home[v] = home;
        }
}

/* By value: the latest phase whose reductions it is made of, plus 1; 0 when of none. */
static void find_ready(Planner *p) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        p->ready[v] = is_reduction(value) ? p->home[v] + 1 : 0;
        if (is_reduction(value)) continue;
        for (int i = 0; i < op_info[value->op].arity; i++)
            if (p->ready[value->arg[i]] > p->ready[v]) p->ready[v] = p->ready[value->arg[i]];
    }
}

/* Where in phase `index` the value of a store to an array over `axes` can be stored, or
 * LEVEL_COUNT. */
static Level store_level(Planner *p, const Store *store, uint32_t index) {
    const Phase *phase = &p->plan->phases[index];
    AxisSet axes = p->function->parameters[store->parameter].axes;
    uint32_t ready = p->ready[store->value];
    if (axes && axes == (phase->outer | phase->inner) && ready <= index) return LEVEL_ELEMENT;
    if (phase->reduction_count && axes == phase->outer && ready <= index + 1) return LEVEL_EPILOGUE;
    if (!axes && ready <= index) return LEVEL_TAIL;
    return LEVEL_COUNT;
}

static void place_store(Planner *p, size_t s, uint32_t from) {
    const Store *store = &p->function->stores[s];
    /* A whole reduction's epilogue runs once anyhow; a tail needs a count of the blocks of its own.
     */
    for (int tails = 0; tails < 2; tails++)
        for (uint32_t i = from; i < p->plan->phase_count; i++) {
            Level level = store_level(p, store, i);
            if (level == LEVEL_COUNT || (level == LEVEL_TAIL && !tails)) continue;
            p->store_home[s] = i;
            return;
        }
    AxisSet axes = p->function->parameters[store->parameter].axes;
    p->store_home[s] = add_phase(p, p->depth[store->value], 0, axes, false);
}

/* Marks the values phase `index` computes: everything below its reductions' operands and its
 * stores, down to what earlier phases have reduced. */
static void mark_needed(Planner *p, uint32_t index) {
    const Function *f = p->function;
    Phase *phase = &p->plan->phases[index];
    if (!phase->needed) phase->needed = arena_alloc(p->arena, f->value_count * sizeof(bool));
    memset(phase->needed, 0, f->value_count * sizeof(bool));
    bool *needed = phase->needed;
    for (size_t i = 0; i < phase->reduction_count; i++) needed[phase->reductions[i]] = true;
    for (size_t s = 0; s < f->store_count; s++)
        if (p->store_home[s] == index) needed[f->stores[s].value] = true;
    for (ValueId v = (ValueId)f->value_count; v-- > 1;) {
        const Value *value = &f->values[v];
        if (!needed[v] || (is_reduction(value) && p->home[v] != index)) continue;
        for (int i = 0; i < op_info[value->op].arity; i++) needed[value->arg[i]] = true;
    }
    needed[0] = false;
}

/* Moves stores later until no phase after a parameter's store still reads its old value. Each move
 * is towards the end, and a value over an array's axes never reads an array over more axes except
 * through reductions, which are earlier; so this ends. */
static void settle_stores(Planner *p) {
    const Function *f = p->function;
    for (uint32_t i = 0; i < p->plan->phase_count; i++) mark_needed(p, i);
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t s = 0; s < f->store_count; s++) {
            ValueId old = p->plan->arrays[f->stores[s].parameter].value;
            uint32_t home = p->store_home[s], last = home;
            for (uint32_t i = home + 1; old && i < p->plan->phase_count; i++)
                if (p->plan->phases[i].needed[old]) last = i;
            if (last == home) continue;
            place_store(p, s, last);
            mark_needed(p, home);
            mark_needed(p, p->store_home[s]);
            moved = true;
        }
    }
}

/* A phase that reads at other coordinates what it stores itself would be wrong at any place: the
 * element loop reads `old` of a parameter that the same phase stores over fewer axes only in its
 * epilogue, after every element is done, and a rank-0 parameter only in the tail, after every block
 * has read it. */
static void add_stores(Planner *p) {
    const Function *f = p->function;
    for (size_t s = 0; s < f->store_count; s++) {
        uint32_t home = p->store_home[s];
        Phase *phase = &p->plan->phases[home];
        Level level = store_level(p, &f->stores[s], home);
        phase->stores = arena_grow(p->arena, phase->stores, phase->store_count,
                                   &phase->store_capacity, sizeof *phase->stores);
        phase->stores[phase->store_count++] =
            (PhaseStore){f->stores[s].parameter, f->stores[s].value, level, f->stores[s].range};
    }
}

/* A reduction read by another phase than its own goes through a temporary. */
static void add_temporaries(Planner *p, const bool *live) {
    const Function *f = p->function;
    for (ValueId v = 1; v < f->value_count; v++) {
        const Value *value = &f->values[v];
        if (!live[v] || !is_reduction(value)) continue;
        bool carried = false;
        for (uint32_t i = 0; i < p->plan->phase_count; i++)
            if (i != p->home[v] && p->plan->phases[i].needed[v]) carried = true;
        if (!carried) continue;
        const char *name =
            arena_printf(p->arena, "%s_%u", value->name ? value->name : plan_reduction(value), v);
        uint32_t array = add_array(p, (Array){name, (Type)value->type, value->axes, v, UINT32_MAX});
        Phase *phase = &p->plan->phases[p->home[v]];
        phase->stores = arena_grow(p->arena, phase->stores, phase->store_count,
                                   &phase->store_capacity, sizeof *phase->stores);
        phase->stores[phase->store_count++] = (PhaseStore){array, v, LEVEL_EPILOGUE, value->range};
    }
}

static void find_levels(Planner *p, uint32_t index) {
    const Function *f = p->function;
    Phase *phase = &p->plan->phases[index];
    phase->level = arena_alloc(p->arena, f->value_count);
    for (ValueId v = 1; v < f->value_count; v++) {
        if (!phase->needed[v]) continue;
        const Value *value = &f->values[v];
        Level level = !value->axes                 ? LEVEL_SCALAR
                      : value->axes & phase->inner ? LEVEL_ELEMENT
                                                   : LEVEL_OUTER;
        if (is_reduction(value)) {
            if (p->home[v] == index) level = LEVEL_EPILOGUE;
        } else {
            for (int i = 0; i < op_info[value->op].arity; i++)
                if (phase->level[value->arg[i]] == LEVEL_EPILOGUE) level = LEVEL_EPILOGUE;
        }
        phase->level[v] = (uint8_t)level;
    }
}

static void explain_split(Planner *p, uint32_t index) {
    Phase *phase = &p->plan->phases[index];
    if (index == 0) return;
    const Phase *before = &p->plan->phases[index - 1];
    const char *waits = NULL;
    for (ValueId v = 1; v < p->function->value_count && !waits; v++) {
        const Value *value = &p->function->values[v];
        if (phase->needed[v] && is_reduction(value) && p->home[v] < index)
            waits = arena_printf(p->arena, "it needs the finished %s of an earlier phase",
                                 value->name ? value->name : plan_reduction(value));
    }
    if (waits)
        phase->why = waits;
    else if ((before->outer | before->inner) != (phase->outer | phase->inner))
        phase->why = "it visits other axes than the phase before";
    else if (phase->reduction_count && before->reduction_count)
        phase->why = "it reduces over other axes than the phase before";
    else
        phase->why = "an earlier phase still reads what it overwrites";
}

Plan *plan_build(const Function *function) {
    Arena *arena = function->arena;
    Planner p = {.function = function, .arena = arena};
    p.plan = arena_alloc(arena, sizeof *p.plan);
    p.plan->function = function;
    p.plan->array_of = arena_alloc(arena, function->value_count * sizeof(uint32_t));
    p.depth = arena_alloc(arena, function->value_count * sizeof(uint32_t));
    p.home = arena_alloc(arena, function->value_count * sizeof(uint32_t));
    p.ready = arena_alloc(arena, function->value_count * sizeof(uint32_t));
    p.store_home = arena_alloc(arena, (function->store_count + 1) * sizeof(uint32_t));

    find_depths(&p);
    const bool *live = find_live(&p);
    add_parameters(&p, live);
    place_reductions(&p, live);
    find_ready(&p);
    for (size_t s = 0; s < function->store_count; s++)
        if (function->parameters[function->stores[s].parameter].axes) place_store(&p, s, 0);
    for (size_t s = 0; s < function->store_count; s++)
        if (!function->parameters[function->stores[s].parameter].axes) place_store(&p, s, 0);
    if (p.plan->phase_count == 0) add_phase(&p, 0, 0, 0, false);
    settle_stores(&p);
    add_stores(&p);
    add_temporaries(&p, live);
    for (uint32_t i = 0; i < p.plan->phase_count; i++) {
        find_levels(&p, i);
        explain_split(&p, i);
    }
    return p.plan;
}

bool plan_value_reads(const Plan *plan, const Phase *phase, uint32_t array) {
    ValueId value = plan->arrays[array].value;
    if (!value || !phase->needed[value]) return false;
    for (size_t i = 0; i < phase->reduction_count; i++)
        if (phase->reductions[i] == value) return false;
    return true;
}

double plan_elements(AxisSet axes, const int64_t *sizes) {
    double elements = 1;
    for (int a = 0; a < LS_AXES_MAX; a++)
        if (axes >> a & 1) elements *= (double)sizes[a];
    return elements;
}

const char *plan_reduction(const Value *value) {
    static const char prefix[] = "reduce_"; /* tells `max` of an axis from `max` of two values */
    const char *name = op_info[value->op].name;
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

double plan_array_bytes(const Array *array, const int64_t *sizes) {
    return plan_elements(array->axes, sizes) * type_info[array->type].size;
}
