/* worker_scratch.c: which values of a row a CPU thread stores in scratch of its own rather than
 * computes again.
 *
 * Every phase of a row fusion computes what it needs of an element for itself. On a CPU a thread
 * takes a few rows at a time. A value that is much work, such as an exponential that is summed and
 * then divided, costs less when the first phase that needs it stores it for the others, in an array
 * of the thread's own that holds those rows and stays in the first-level cache. Needs a finished
 * plan and one of its groupings; changes neither, and gives a plan with the same phases in the same
 * kernels, in which the first phase stores such values to an array that is `in_scratch` and later
 * ones read it. */
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* The operations from which on a value is more work than a store and a load, and how many such
 * arrays a row fusion has at most. */
enum { COST_MIN = 8, ARRAYS_MAX = 4 };

static uint32_t fused_end(const Kernel *kernel) {
    return kernel->first + plan_mains(kernel);
}

/* Whether the rows of the row fusion lie one behind the other in an array of the thread's own. */
static bool has_plain_rows(const Plan *plan, const Kernel *kernel) {
    const Function *f = plan->function;
    const Phase *phase = &plan->phases[kernel->first];
    const AxisSet all = phase->outer | phase->inner;
    if (kernel->kind != KERNEL_ROW_FUSION || phase->shape != SHAPE_ROWS || !phase->outer)
        return false;
    if (ir_list_axis(f, all) >= 0) return false;
    for (uint32_t axis = 0; axis < f->axis_count; axis++)
        if (all >> axis & 1 && (f->axes[axis].parent >= 0 || f->axes[axis].whole >= 0))
            return false;
    return __builtin_ctz(phase->inner) > 31 - __builtin_clz(phase->outer);
}

/* Operations for an element that the phase does to have the value. */
static unsigned cost_of(const Plan *plan, const Phase *phase, ValueId value) {
    const Function *f = plan->function;
    bool *reached = arena_alloc(f->arena, (value + 1) * sizeof *reached);
    unsigned cost = 0;
    reached[value] = true;
    for (ValueId v = value; v > 0; v--) {
        ValueId operands[3];
        if (!reached[v] || plan_level(phase, v) != LEVEL_ELEMENT) continue;
        if (!plan_is_read(plan, phase, v)) cost += op_info[f->values[v].op].work;
        for (size_t i = plan_operands(plan, phase, v, operands); i-- > 0;)
            reached[operands[i]] = true;
    }
    return cost;
}

static bool computes(const Plan *plan, const Phase *phase, ValueId v) {
    return plan_level(phase, v) == LEVEL_ELEMENT && !plan_is_read(plan, phase, v) &&
           plan->function->values[v].axes == (phase->outer | phase->inner);
}

/* The phase of the row fusion that should store the value: the first to compute it, when no phase
 * behind the row fusion needs it and it runs in any case. UINT32_MAX if none should. */
static uint32_t keeper(const Plan *plan, const Kernel *kernel, ValueId v) {
    uint32_t first = kernel->first, users = 0;
    if (plan->defined_in[v] || plan->array_of[v] || !planner_may_keep(plan->function, v))
        return UINT32_MAX;
    while (first < fused_end(kernel) && !plan_needs(&plan->phases[first], v)) first++;
    if (first < fused_end(kernel) && plan_optional_of(plan, &plan->phases[first]))
        return UINT32_MAX;
    for (uint32_t i = first; i < plan->phase_count; i++) {
        const Phase *phase = &plan->phases[i];
        if (!plan_needs(phase, v)) continue;
        if (i >= fused_end(kernel) || !computes(plan, phase, v)) return UINT32_MAX;
        if (phase->known != plan->phases[first].known) return UINT32_MAX;
        if (i > first && cost_of(plan, phase, v) < COST_MIN) return UINT32_MAX;
        users++;
    }
    return users > 1 ? first : UINT32_MAX;
}

static void mark_row_fusion(Plan *plan, const Kernel *kernel) {
    Arena *arena = plan->function->arena;
    Worklist *worklist = worklist_open(plan->function, arena);
    for (uint32_t i = kernel->first; i < fused_end(kernel); i++)
        planner_mark_finished(plan, &plan->phases[i], worklist, arena);
}

/* A copy that has arrays of its own to grow. */
static Plan *copy_plan(const Plan *from, size_t arrays) {
    const Function *f = from->function;
    Arena *arena = f->arena;
    Plan *plan = arena_alloc(arena, sizeof *plan);
    *plan = *from;
    plan->array_of = arena_alloc(arena, f->value_count * sizeof *plan->array_of);
    memcpy(plan->array_of, from->array_of, f->value_count * sizeof *plan->array_of);
    plan->defined_in = arena_alloc(arena, f->value_count * sizeof *plan->defined_in);
    memcpy(plan->defined_in, from->defined_in, f->value_count * sizeof *plan->defined_in);
    plan->phases = arena_alloc(arena, plan->phase_count * sizeof *plan->phases);
    memcpy(plan->phases, from->phases, plan->phase_count * sizeof *plan->phases);
    plan->array_capacity = plan->array_count + arrays;
    plan->arrays = arena_alloc(arena, plan->array_capacity * sizeof *plan->arrays);
    memcpy(plan->arrays, from->arrays, plan->array_count * sizeof *plan->arrays);
    return plan;
}

static void keep(Plan *plan, uint32_t index, ValueId v, uint32_t array) {
    Arena *arena = plan->function->arena;
    Phase *phase = &plan->phases[index];
    PhaseStore *stores = arena_alloc(arena, (phase->store_count + 1) * sizeof *stores);
    if (phase->store_count) memcpy(stores, phase->stores, phase->store_count * sizeof *stores);
    stores[phase->store_count++] =
        (PhaseStore){array, v, LEVEL_ELEMENT, plan->function->values[v].range, STORE_VALUE};
    phase->stores = stores;
    phase->store_capacity = phase->store_count;
    plan->defined_in[v] = index + 1;
    plan->array_of[v] = array + 1;
}

/* Looks at values by ascending number, so that of a value with a stored operand only the remaining
 * operations count; then drops those that no other phase reads any more, since all their users are
 * stored themselves. */
static size_t choose(Plan *plan, const Kernel *kernel, ValueId *materialised_) {
    size_t count = 0, left = 0;
    for (ValueId v = 1; v < plan->function->value_count && count < ARRAYS_MAX; v++) {
        const uint32_t index = keeper(plan, kernel, v);
        if (index == UINT32_MAX) continue;
        plan->defined_in[v] = index + 1;
        mark_row_fusion(plan, kernel);
        materialised_[count++] = v;
    }
    for (size_t i = 0; i < count; i++) {
        bool used = false;
        for (uint32_t p = plan->defined_in[materialised_[i]]; p < fused_end(kernel); p++)
            used |= plan_needs(&plan->phases[p], materialised_[i]);
        if (used)
            materialised_[left++] = materialised_[i];
        else
            plan->defined_in[materialised_[i]] = 0;
    }
    return left;
}

static void keep_rows(Plan *plan, const Kernel *kernel) {
    const Function *f = plan->function;
    ValueId materialised_[ARRAYS_MAX];
    const size_t count = choose(plan, kernel, materialised_);
    for (size_t i = 0; i < count; i++) {
        const ValueId v = materialised_[i];
        const Value *value = &f->values[v];
        const char *name =
            arena_printf(f->arena, "%s_%u", value->name ? value->name : plan_reduction(value), v);
        const Type type = value->op == OP_ROUND_TO ? (Type)value->payload : (Type)value->type;
        plan->arrays[plan->array_count] =
            (Array){name, type, value->axes, v, UINT32_MAX, 0, .in_scratch = true};
        keep(plan, plan->defined_in[v] - 1, v, (uint32_t)plan->array_count++);
    }
    mark_row_fusion(plan, kernel);
}

const Plan *plan_worker_scratch(const Plan *plan, const Target *target, const Grouping *grouping) {
    Plan *in_scratch = NULL;
    if (!target->scratch_tiles) return plan;
    for (size_t k = 0; k < grouping->count; k++) {
        if (!has_plain_rows(plan, &grouping->kernels[k]) || plan_mains(&grouping->kernels[k]) < 2)
            continue;
        if (!in_scratch) in_scratch = copy_plan(plan, ARRAYS_MAX * grouping->count);
        keep_rows(in_scratch, &grouping->kernels[k]);
    }
#ifdef LOCKSTEP_CHECK_PASSES
    if (in_scratch) plan_check(in_scratch);
#endif
    return in_scratch ? in_scratch : plan;
}
