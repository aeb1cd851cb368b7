/* plan_kernels.c: which phases run in one kernel.
 *
 * Needs a plan's phases with their levels; gives plan->kernels, runs of phases in order. */
#include "compiler.h"
#include "plan.h"
#include "planner.h"

void planner_group_kernels(Planner *p) {
    Plan *plan = p->plan;
    plan->kernels = arena_alloc(p->arena, (plan->phase_count + 1) * sizeof *plan->kernels);
    for (uint32_t i = 0; i < plan->phase_count; i++)
        plan->kernels[plan->kernel_count++] =
            (Kernel){.kind = KERNEL_SINGLE, .first = i, .count = 1};
}
