/* check.c: what is legal in a plan, and after which pass.
 *
 * Needs a plan that a pass has finished with. Changes nothing; calls bug() naming the first array,
 * phase, store or kernel that breaks a rule, and the rule. What is legal when is written here and
 * in check_kernels.c, and nowhere else:
 *
 *   always            choices are of values that have them; a temporary has its value's axes and a
 *                     type that fits, is the only one of its value and made once; a phase's axes
 *                     are divided as its shape says, and those of what it reduces and scans; what
 *                     a store needs is made once, in a phase before those that read it; every
 *                     store of the function is in one phase, which has a level for it, but for
 *                     those that change nothing, which are in none
 *   after guard       also guards: bools without axes, known before the phase begins, that skip
 *                     nothing which is needed without them
 *   after stores      also the level of every store; what a phase reads of another is in an array
 *   after row_fusion  also kernels, a partition of the phases in their order; in those that fuse
 *                     rows phases meet at the same rows alone, in horizontal ones nowhere
 *   after kernels     also groupings, each such a partition; one is what plans are compared by, and
 *                     the last one is for all sizes
 *   after finish      also no phase reads what an earlier one overwrites; a worker's own scratch
 *                     stays in one kernel
 *
 * It takes time linear in what phases read and compute. That a plan wastes nothing is not asked
 * here: the search drops temporaries that nobody reads only at its end. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

typedef struct Check {
    const Plan *plan;
    const Function *f;
    Arena *arena;
    const bool *live;      /* by value: a store needs it */
    uint32_t *makes;       /* by value: phases that reduce, scan or add it up */
    uint32_t *store_of;    /* by parameter: 1 + the step's store to it */
    uint32_t *stored;      /* by store of the function: phases that make it */
    uint32_t *puts, *adds; /* by array: its stores of a value, of what is added */
    uint32_t *cleared;     /* by array: 1 + the phase that clears it */
    bool *late; /* by value of the phase at hand: only there after the phase's reductions */
} Check;

static _Noreturn void broken(const Check *c, const char *what, const char *rule) {
    bug(c->f->compiler, "%s, plan %s: %s: %s", c->f->name, plan_stage_names[c->plan->stage], what,
        rule);
}

static void require_phase(const Check *c, uint32_t phase, bool good, const char *rule) {
    if (!good) broken(c, arena_printf(c->arena, "phase %u", phase), rule);
}

static void require_array(const Check *c, uint32_t array, bool good, const char *rule) {
    if (good) return;
    const Array *a = &c->plan->arrays[array];
    const char *mark = a->parameter == UINT32_MAX ? "@" : "";
    broken(c, arena_printf(c->arena, "array %s%s", mark, a->name), rule);
}

static bool is_temporary(const Plan *plan, uint32_t array) {
    return plan->arrays[array].parameter == UINT32_MAX;
}

static bool is_reduction(const Value *value) {
    return op_info[value->op].flags & OP_REDUCTION;
}

static bool is_materialised(const Value *value) {
    return op_info[value->op].flags & (OP_REDUCTION | OP_ARRAY);
}

static AxisSet space(const Phase *phase) {
    return phase->outer | phase->inner;
}

/* ---- choices and arrays ---- */

static void check_choices(const Check *c) {
    const Choices choices = c->plan->choices;
    for (ValueId v = 1; v < c->f->value_count; v++) {
        const char *rule = NULL;
        if (choices.materialised_ && choices.materialised_[v] && !planner_may_keep(c->f, v))
            rule = "a leaf or what is made in any case is not chosen to be materialised";
        if (choices.depth && choices.depth[v] && !is_reduction(&c->f->values[v]))
            rule = "the depth of a reduction alone is chosen";
        if (rule) broken(c, arena_printf(c->arena, "%%%u", v), rule);
    }
}

static bool is_packed(const Check *c, uint32_t parameter, ValueId v) {
    const uint32_t number = c->store_of[parameter];
    const Store *store = number ? &c->f->stores[number - 1] : NULL;
    return store && store->value == v && planner_holds(c->f, store);
}

static void check_array(const Check *c, uint32_t number) {
    const Plan *plan = c->plan;
    const Array *array = &plan->arrays[number];
    const Value *value = &c->f->values[array->value];
    if (!is_temporary(plan, number)) {
        require_array(c, number,
                      !array->materialised || is_packed(c, array->parameter, array->materialised),
                      "a parameter is read back for what the step stores to it as it is");
        return;
    }
    require_array(c, number, array->axes == value->axes, "a temporary has its value's axes");
    require_array(c, number, type_info[array->type].compute == (Type)value->type,
                  "a temporary's type is one that its value is computed in");
    require_array(c, number, plan->array_of[array->value] == number + 1,
                  "a value has one temporary");
}

/* ---- phases ---- */

static void check_shape(const Check *c, uint32_t index) {
    const Phase *phase = &c->plan->phases[index];
    const AxisSet all = space(phase);
    const bool reduces = phase->reduction_count > 0;
    const int list = ir_list_axis(c->f, all);
    const AxisSet lists = list < 0 ? 0 : (AxisSet)1 << list;
    bool good = true;
    require_phase(c, index, !(phase->outer & phase->inner), "an axis is outer or inner");
    require_phase(c, index, ir_closure(c->f, all) == all, "axes stand with those they depend on");
    switch (phase->shape) {
    case SHAPE_SCALAR: good = !all; break;
    case SHAPE_MAP: good = all && !reduces && !(phase->outer & ~lists); break;
    case SHAPE_ROWS: good = phase->inner > phase->outer; break;
    case SHAPE_COLUMNS: good = phase->inner && phase->outer > phase->inner; break;
    case SHAPE_SCAN: good = phase->inner && phase->scan_count; break;
    case SHAPE_COUNT: good = false; break;
    }
    require_phase(c, index, good, "its shape is that of its axes and of what it makes");
    require_phase(c, index, !phase->scan_count || phase->shape == SHAPE_SCAN,
                  "its shape is that of its axes and of what it makes");
}

static void check_reductions(Check *c, uint32_t index) {
    const Phase *phase = &c->plan->phases[index];
    for (size_t i = 0; i < phase->reduction_count; i++) {
        const Value *value = &c->f->values[phase->reductions[i]];
        require_phase(c, index, is_reduction(value), "what it reduces is a reduction");
        require_phase(c, index,
                      value->axes == phase->outer && (AxisSet)value->payload == phase->inner,
                      "a reduction is over the inner axes, and leaves the outer ones");
        c->makes[phase->reductions[i]]++;
    }
    for (size_t i = 0; i < phase->scan_count; i++) {
        const Value *value = &c->f->values[phase->scans[i]];
        require_phase(c, index, value->op == OP_SCAN, "what it scans is a scan");
        const bool reverse = value->payload & SCAN_REVERSE;
        const AxisSet along =
            ir_expand(c->f, (AxisSet)1 << (value->payload & ~(uint64_t)SCAN_REVERSE));
        require_phase(c, index,
                      along == phase->inner && value->axes == space(phase) &&
                          reverse == phase->reverse,
                      "a scan goes along the inner axes, the phase's way");
        c->makes[phase->scans[i]]++;
    }
}

static void check_guards(const Check *c, uint32_t index) {
    const Phase *phase = &c->plan->phases[index];
    require_phase(c, index, !phase->guard_count || c->plan->stage >= PLAN_GUARDED,
                  "guards are found by the pass guard");
    for (size_t i = 0; i < phase->guard_count; i++) {
        const Value *value = &c->f->values[phase->guards[i].condition];
        require_phase(c, index, value->type == TYPE_BOOL && !value->axes,
                      "a guard is a bool without axes");
        if (c->plan->stage >= PLAN_FINISHED)
            require_phase(c, index, plan_level(phase, phase->guards[i].condition) == LEVEL_SCALAR,
                          "a guard is known before its phase begins");
    }
}

/* Whether a value that is there after the phase's reductions, if `late`, can be stored at the level
 * to an array over the axes. */
static bool is_legal(const Phase *phase, AxisSet axes, Level level, bool late) {
    switch (level) {
    case LEVEL_ELEMENT: return axes && axes == space(phase) && !late;
    case LEVEL_EPILOGUE: return phase->reduction_count && axes == phase->outer;
    case LEVEL_LAST_BLOCK: return !axes && !late;
    default: return false;
    }
}

/* Whether what is stored, or what decides that it is, is there after the phase's reductions. */
static bool is_late(const Check *c, uint32_t array, ValueId value) {
    bool late = false;
    for (Guard guard; plan_keeps(c->plan, array, &value, &guard);) late |= c->late[guard.condition];
    return late || c->late[value];
}

static void check_level(const Check *c, uint32_t index, const PhaseStore *store) {
    const Value *value = &c->f->values[store->value];
    const AxisSet added = c->f->values[value->arg[0]].axes | c->f->values[value->arg[1]].axes;
    const AxisSet axes = store->kind == STORE_ADD ? added : c->plan->arrays[store->array].axes;
    require_phase(c, index,
                  is_legal(&c->plan->phases[index], axes, store->level,
                           is_late(c, store->array, store->value)),
                  "a store's level is where the array's axes are visited, and its value is there");
}

/* While the levels of the function's stores are not found yet. */
static void check_placed(const Check *c, uint32_t index) {
    for (size_t s = 0; s < c->f->store_count; s++) {
        const Store *store = &c->f->stores[s];
        const AxisSet axes = c->f->parameters[store->parameter].axes;
        bool good = c->plan->store_phase[s] != index;
        for (Level level = LEVEL_ELEMENT; !good && level < LEVEL_COUNT; level++)
            good = is_legal(&c->plan->phases[index], axes, level,
                            is_late(c, store->parameter, store->value));
        require_phase(c, index, good, "a store is in a phase that has a level for it");
    }
}

static void check_store(Check *c, uint32_t index, const PhaseStore *store) {
    const Plan *plan = c->plan;
    const uint32_t array = store->array;
    const ValueId packed = plan->arrays[array].value;
    const bool scatters = ir_is_scatter(&c->f->values[packed]);
    if (!is_temporary(plan, array)) {
        require_phase(c, index, store->kind == STORE_VALUE, "a scatter adds to a temporary");
        require_phase(c, index, plan->stage >= PLAN_STORED,
                      "the pass stores finds the level of a store to a parameter");
        const uint32_t number = c->store_of[array];
        require_phase(c, index, number && c->f->stores[number - 1].value == store->value,
                      "what is stored to a parameter is what the step stores to it");
        c->stored[number - 1]++;
    } else if (store->kind == STORE_CLEAR) {
        require_phase(c, index, scatters, "zeros are for a scatter to add to");
        require_array(c, array, !c->cleared[array], "a temporary is made once");
        c->cleared[array] = index + 1;
    } else {
        require_phase(c, index, store->value == packed, "a temporary is stored the value it holds");
        require_phase(c, index, plan->defined_in[packed] == index + 1,
                      "a value goes into its temporary where it is made");
        require_phase(c, index, (store->kind == STORE_ADD) == scatters,
                      "a scatter is added, all else is stored");
        ++*(scatters ? &c->adds[array] : &c->puts[array]);
        if (scatters) {
            c->makes[packed]++;
            require_array(c, array, c->cleared[array] && c->cleared[array] <= index,
                          "a scatter adds to what an earlier phase clears");
        }
    }
}

/* ---- what a phase reads ---- */

static void check_read(Check *c, uint32_t index, ValueId v, bool gathered) {
    const Plan *plan = c->plan;
    const uint32_t defined_in = plan->defined_in[v];
    const bool materialised = is_materialised(&c->f->values[v]);
    if (materialised &&
        (!defined_in || defined_in > index + 1 || (gathered && defined_in == index + 1)))
        broken(c, arena_printf(c->arena, "phase %u, %%%u", index, v),
               "what is made is finished before it is read");
    if (!defined_in || defined_in > index || plan->stage < PLAN_STORED) return;
    if (!plan->array_of[v])
        broken(c, arena_printf(c->arena, "phase %u, %%%u", index, v),
               "what another phase made is read from an array");
}

/* Finds which values of the phase are there after its reductions alone, too. */
static void check_values(Check *c, uint32_t index) {
    const Phase *phase = &c->plan->phases[index];
    for (size_t i = 0; i < phase->value_count; i++) {
        const ValueId v = phase->values[i];
        const Value *value = &c->f->values[v];
        const bool own = is_materialised(value) && c->plan->defined_in[v] == index + 1;
        bool late = false;
        ValueId operands[3];
        check_read(c, index, v, false);
        const bool read = plan_is_read(c->plan, phase, v);
        if (value->op == OP_GATHER && !read) check_read(c, index, value->arg[0], true);
        for (size_t k = plan_operands(c->plan, phase, v, operands); k-- > 0;) {
            if (ir_is_scatter(&c->f->values[operands[k]]) && !read)
                check_read(c, index, operands[k], true);
            late |= c->late[operands[k]];
        }
        require_phase(c, index, !late || !own || ir_is_scatter(value),
                      "what it makes is not made of what it reduces");
        c->late[v] = late || (own && is_reduction(value));
    }
}

static void check_levels(Check *c, uint32_t index) {
    const Phase *phase = &c->plan->phases[index];
    for (size_t k = 0; k < phase->store_count; k++) check_level(c, index, &phase->stores[k]);
    for (size_t i = 0; i < phase->guard_count; i++)
        require_phase(c, index, !c->late[phase->guards[i].condition],
                      "a guard is known before its phase begins");
    if (c->plan->stage < PLAN_STORED) check_placed(c, index);
}

/* ---- each made once, each stored once ---- */

static void check_materialised(const Check *c) {
    for (ValueId v = 1; v < c->f->value_count; v++)
        if (is_materialised(&c->f->values[v]) && c->makes[v] != c->live[v])
            broken(c, arena_printf(c->arena, "%%%u (%s)", v, op_info[c->f->values[v].op].name),
                   "what a store needs is made once, and nothing else");
    for (uint32_t a = 0; a < c->plan->array_count; a++) {
        if (!is_temporary(c->plan, a)) continue;
        require_array(c, a, c->puts[a] + c->adds[a] == 1, "a temporary is made once");
    }
}

static void check_function_stores(const Check *c) {
    for (size_t s = 0; s < c->f->store_count; s++) {
        const Store *store = &c->f->stores[s];
        const uint32_t defined_in = c->plan->store_phase[s];
        const uint32_t phases = c->stored[s] + (defined_in != UINT32_MAX);
        if (phases != !plan_is_idle(c->plan, store))
            broken(c, arena_printf(c->arena, "store %s", c->f->parameters[store->parameter].name),
                   "a store that changes something is in one phase, another in none");
        if (defined_in != UINT32_MAX && c->plan->stage >= PLAN_STORED)
            broken(c, arena_printf(c->arena, "store %s", c->f->parameters[store->parameter].name),
                   "the pass stores gave every store its level");
    }
}

static void check_phases(Check *c) {
    const Plan *plan = c->plan;
    bool guarded = false;
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        check_shape(c, i);
        check_reductions(c, i);
        check_guards(c, i);
        for (size_t k = 0; k < phase->store_count; k++) check_store(c, i, &phase->stores[k]);
    }
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        check_values(c, i);
        check_levels(c, i);
        guarded |= plan->phases[i].guard_count;
    }
    uint32_t wrong = 0;
    if (guarded && !planner_may_skip(plan, c->live, c->arena, &wrong))
        require_phase(c, wrong, false, "a guard skips nothing that is needed without it");
    check_function_stores(c);
    check_materialised(c);
}

void plan_check(const Plan *plan) {
    const Function *f = plan->function;
    Arena *arena = arena_child(f->arena);
    Check c = {.plan = plan, .f = f, .arena = arena, .live = ir_needed(f)};
    c.makes = arena_alloc(arena, f->value_count * sizeof *c.makes);
    c.store_of = arena_alloc(arena, (f->parameter_count + 1) * sizeof *c.store_of);
    for (uint32_t s = 0; s < f->store_count; s++) c.store_of[f->stores[s].parameter] = s + 1;
    c.stored = arena_alloc(arena, (f->store_count + 1) * sizeof *c.stored);
    c.puts = arena_alloc(arena, (plan->array_count + 1) * sizeof *c.puts);
    c.adds = arena_alloc(arena, (plan->array_count + 1) * sizeof *c.adds);
    c.cleared = arena_alloc(arena, (plan->array_count + 1) * sizeof *c.cleared);
    c.late = arena_alloc(arena, f->value_count * sizeof *c.late);
    check_choices(&c);
    for (uint32_t a = 0; a < plan->array_count; a++) check_array(&c, a);
    if (plan->stage > PLAN_CHOSEN) check_phases(&c);
    if (plan->stage >= PLAN_FUSED) plan_check_kernels(plan, arena);
    arena_close(arena);
}
