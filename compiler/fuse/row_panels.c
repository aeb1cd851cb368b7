/* row_panels.c: rows and columns of one space in one kernel.
 *
 * A phase that reduces down columns reads what the phases along the rows read. Where rows are many
 * they share a kernel: a row panel is panel_lanes (targets.def) lanes of the reduction tree of a
 * tile of rows with all their rows, which make a subtree of the columns' reduction. The phases take
 * 8 leaves of it in turn, or 4 where rows are long, so that all but the first find them on chip.
 * The partial values of the panels are combined by a second kernel. Needs plan->groupings; adds one
 * with row panels, where the phases allow it. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

typedef struct Run {
    AxisSet rows, columns;
    uint32_t first, count;
} Run;

static bool has_logsumexp(const Plan *plan, const Phase *phase) {
    for (size_t i = 0; i < phase->reduction_count; i++)
        if (plan->function->values[phase->reductions[i]].op == OP_LOGSUMEXP) return true;
    return false;
}

/* Whether no other row, nor the whole grid, has to wait for anything that the phase stores. */
static bool keeps_to_rows(const Phase *phase) {
    for (size_t i = 0; i < phase->store_count; i++) {
        const PhaseStore *store = &phase->stores[i];
        if (store->kind != STORE_VALUE) return false;
        if (store->level == LEVEL_LAST_BLOCK && phase->shape != SHAPE_COLUMNS) return false;
    }
    return true;
}

static bool belongs(const Plan *plan, const Run *run, const Phase *phase) {
    if (!phase->reduction_count || !keeps_to_rows(phase)) return false;
    if (phase->shape == SHAPE_ROWS)
        return phase->outer == run->rows && phase->inner == run->columns;
    /* a logsumexp down a column needs the maximum of a whole tile of rows first */
    return phase->shape == SHAPE_COLUMNS && phase->outer == run->columns &&
           phase->inner == run->rows && !has_logsumexp(plan, phase);
}

/* Whether the phase writes the array while it goes through row panels; the results of columns are
 * written by the second kernel. */
static bool writes_rows(const Phase *phase, uint32_t array) {
    for (size_t i = 0; i < phase->store_count; i++)
        if (phase->stores[i].array == array &&
            (phase->shape != SHAPE_COLUMNS || phase->stores[i].level == LEVEL_ELEMENT))
            return true;
    return false;
}

/* Whether one phase may run on a row as soon as an earlier one has: what one writes and the other
 * touches lies within the row. */
static bool may_follow(const Plan *plan, const Run *run, const Phase *before, const Phase *phase) {
    for (uint32_t a = 0; a < plan->array_count; a++) {
        const bool reads = plan_reads(plan, phase, a), read = plan_reads(plan, before, a);
        const bool written = plan_writes(before, a) && (reads || plan_writes(phase, a));
        if (!written && !(writes_rows(phase, a) && read)) continue;
        if ((plan->arrays[a].axes & run->rows) != run->rows) return false;
        if (plan_gathers(plan, before, a) || plan_gathers(plan, phase, a)) return false;
    }
    return true;
}

static bool extends(const Plan *plan, const Run *run, uint32_t index) {
    const Phase *phase = &plan->phases[index];
    if (!belongs(plan, run, phase)) return false;
    for (uint32_t i = run->first; i < run->first + run->count; i++) {
        const Phase *other = &plan->phases[i];
        if (i < index ? !may_follow(plan, run, other, phase) : !may_follow(plan, run, phase, other))
            return false;
    }
    return true;
}

/* The bytes per element that row panels save: those that the run's phases read more than once.
 * *again: the bytes of the arrays that they are in. */
static uint32_t saved_bytes(const Plan *plan, const Run *run, uint32_t *again) {
    const AxisSet space = run->rows | run->columns;
    uint32_t saved = 0;
    *again = 0;
    for (uint32_t a = 0; a < plan->array_count; a++) {
        const uint32_t bytes = type_info[plan->arrays[a].type].size;
        uint32_t reads = 0;
        if ((plan->arrays[a].axes & space) != space) continue;
        for (uint32_t i = run->first; i < run->first + run->count; i++)
            reads += plan_value_reads(plan, &plan->phases[i], a);
        if (reads > 1) saved += (reads - 1) * bytes, *again += bytes;
    }
    return saved;
}

/* The bytes per column of the partial values of its reductions. */
static uint32_t partial_bytes(const Plan *plan, const Run *run) {
    uint32_t bytes = 0;
    for (uint32_t i = run->first; i < run->first + run->count; i++) {
        const Phase *phase = &plan->phases[i];
        for (size_t r = 0; phase->shape == SHAPE_COLUMNS && r < phase->reduction_count; r++) {
            const Value *value = &plan->function->values[phase->reductions[r]];
            const bool arg = value->op == OP_ARGMIN || value->op == OP_ARGMAX;
            const uint32_t size = type_info[plan->function->values[value->arg[0]].type].size;
            bytes += arg ? 16 : size > 4 ? size : 4;
        }
    }
    return bytes;
}

/* The longest run of phases around a phase down columns that can share a kernel; none where the
 * axes are those of a list or of blocks. */
static Run run_around(const Plan *plan, uint32_t index) {
    const Function *f = plan->function;
    const Phase *phase = &plan->phases[index];
    Run run = {phase->inner, phase->outer, index, 1};
    if (phase->shape != SHAPE_COLUMNS || !belongs(plan, &run, phase)) return (Run){0};
    for (uint32_t axis = 0; axis < f->axis_count; axis++)
        if ((run.rows | run.columns) >> axis & 1 &&
            (f->axes[axis].parent >= 0 || f->axes[axis].whole >= 0))
            return (Run){0};
    while (run.first && extends(plan, &run, run.first - 1)) run.first--, run.count++;
    while (run.first + run.count < plan->phase_count && extends(plan, &run, run.first + run.count))
        run.count++;
    return run;
}

static void add_kernel(Kernel *kernels, size_t *count, Kernel kernel) {
    kernels[(*count)++] = kernel;
}

/* The kernels of a grouping with the run as two kernels; a kernel that had phases of the run is
 * replaced by one kernel for each of its other phases. */
static const Kernel *kernels_around(const Plan *plan, const Grouping *from, const Run *run,
                                    size_t *count) {
    const uint32_t end = run->first + run->count;
    Kernel *kernels = arena_alloc(plan->function->arena, (plan->phase_count + 1) * sizeof *kernels);
    *count = 0;
    for (size_t k = 0; k < from->count; k++) {
        const Kernel *kernel = &from->kernels[k];
        const uint32_t first = kernel->first - kernel->pre_reductions;
        const uint32_t last = kernel->first + kernel->count;
        if (last <= run->first || first >= end) {
            add_kernel(kernels, count, *kernel);
            continue;
        }
        for (uint32_t i = first; i < last; i++) {
            Kernel own = {.kind = KERNEL_SINGLE, .first = i, .count = 1};
            if (i > run->first && i < end) continue;
            if (i == run->first) {
                own = (Kernel){
                    .kind = KERNEL_ROW_PANELS, .first = i, .count = run->count, .outer = run->rows};
                add_kernel(kernels, count, own);
                own.kind = KERNEL_FINISH;
            }
            add_kernel(kernels, count, own);
        }
    }
    return kernels;
}

void planner_find_row_panels(Plan *plan) {
    Run best = {0};
    uint32_t max = 0;
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        Run run = run_around(plan, i);
        uint32_t again = 0;
        const uint32_t saved = run.count ? saved_bytes(plan, &run, &again) : 0;
        if (saved > max) {
            plan->panel_bytes = again;
            max = saved;
            best = run;
        }
    }
    if (!max) return;
    plan->panel_columns = best.columns;
    plan->panel_partial = partial_bytes(plan, &best);
    /* selected after the grouping for small sizes, which has all phases in one kernel */
    size_t at = plan->groupings[0].kernels[0].kind == KERNEL_ALL;
    const Grouping any_size = plan->groupings[plan->grouping_count - 1];
    for (size_t i = plan->grouping_count++; i > at; i--)
        plan->groupings[i] = plan->groupings[i - 1];
    Grouping *grouping = &plan->groupings[at];
    *grouping = (Grouping){.panels = true};
    grouping->kernels = kernels_around(plan, &any_size, &best, &grouping->count);
    for (size_t k = 0; k < grouping->count; k++)
        plan_find_arrays(plan, (Kernel *)(uintptr_t)&grouping->kernels[k], plan->function->arena);
}
