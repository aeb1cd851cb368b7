/* check_kernels.c: the half of check.c that is about kernels: what is legal in the groupings of a
 * plan whose phases are. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* How those phases of the kernel that run on the same rows touch an array. */
typedef struct Conflict {
    uint32_t kernel; /* the kernel that the other fields are about, counted from 1 */
    uint32_t touching, writing;
    bool adds;
    AxisSet elsewhere; /* axes along which a phase reads at other coordinates than its own */
    bool last_block;   /* a last-block epilogue stores the array, and a later phase touches it */
    bool stored_by_last_block;
} Conflict;

typedef struct Check {
    const Plan *plan;
    const Function *f;
    Arena *arena;
    Conflict *meetings; /* by array */
    uint32_t serial;    /* of kernels */
    size_t grouping;
} Check;

static _Noreturn void broken(const Check *c, const Kernel *kernel, const char *rule) {
    const Plan *plan = c->plan;
    const char *where =
        plan->grouping_count ? arena_printf(c->arena, "grouping %zu, ", c->grouping + 1) : "";
    bug(c->f->compiler, "%s, plan %s: %skernel %s %u to %u: %s", c->f->name,
        plan_stage_names[plan->stage], where, plan_kernel_names[kernel->kind], kernel->first,
        kernel->first + kernel->count - 1, rule);
}

static void require(const Check *c, const Kernel *kernel, bool good, const char *rule) {
    if (!good) broken(c, kernel, rule);
}

static AxisSet space(const Phase *phase) {
    return phase->outer | phase->inner;
}

/* ---- conflicts in an array ---- */

static void meet(Check *c, const Touch *touch) {
    Conflict *conflict = &c->meetings[touch->array];
    if (conflict->kernel != c->serial) *conflict = (Conflict){.kernel = c->serial};
    conflict->last_block |= conflict->stored_by_last_block;
    conflict->touching++;
    conflict->writing += touch->writes;
    conflict->adds |= touch->adds;
    conflict->elsewhere |= touch->elsewhere;
    conflict->stored_by_last_block |= touch->last_block;
}

/* Whether phases that run side by side, or row by row, may touch the array as they do. */
static bool may_conflict(const Check *c, const Kernel *kernel, uint32_t array) {
    const Conflict *conflict = &c->meetings[array];
    if (kernel->kind == KERNEL_HORIZONTAL)
        return conflict->touching < 2 || !(conflict->writing || conflict->stored_by_last_block);
    if (conflict->last_block) return false;
    if (conflict->touching < 2 || !conflict->writing) return true;
    if (conflict->adds || (conflict->elsewhere & kernel->outer)) return false;
    return !(kernel->outer & ~c->plan->arrays[array].axes);
}

static void check_meetings(Check *c, const Kernel *kernel) {
    c->serial++;
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        for (size_t t = 0; t < c->plan->phases[i].touch_count; t++)
            meet(c, &c->plan->phases[i].touches[t]);
    for (uint32_t i = kernel->first; i < kernel->first + plan_mains(kernel); i++)
        for (size_t t = 0; t < c->plan->phases[i].touch_count; t++)
            require(c, kernel, may_conflict(c, kernel, c->plan->phases[i].touches[t].array),
                    kernel->kind == KERNEL_HORIZONTAL
                        ? "nothing that one phase stores another touches"
                        : "phases meet at the same rows alone");
}

/* ---- kinds ---- */

static void check_ends(const Check *c, const Kernel *kernel) {
    const Plan *plan = c->plan;
    const uint32_t mains = kernel->first + plan_mains(kernel);
    AxisSet main = 0;
    for (uint32_t i = kernel->first; i < mains; i++) main |= space(&plan->phases[i]);
    for (uint32_t i = mains; i < kernel->first + kernel->count; i++)
        require(c, kernel, !(space(&plan->phases[i]) & ~main),
                "an epilogue visits a part of the kernel's axes");
    for (uint32_t i = mains; i < mains + kernel->segment_epilogue; i++)
        require(c, kernel, plan->phases[i].outer && plan->phases[i].reduction_count,
                "a segment epilogue reduces to its segments");
    for (uint32_t i = kernel->first - kernel->pre_reductions; i < kernel->first; i++) {
        const Phase *phase = &plan->phases[i];
        bool good = phase->reduction_count && !phase->outer;
        for (size_t k = 0; k < phase->store_count; k++)
            good &= plan->arrays[phase->stores[k].array].parameter == UINT32_MAX;
        require(c, kernel, good, "a redundant pre-reduction is whole and leaves temporaries alone");
    }
}

static bool is_in_panels(const Plan *plan, const Kernel *kernel, const Phase *phase) {
    const AxisSet rows = kernel->outer, columns = plan->panel_columns;
    if (phase->shape == SHAPE_ROWS) return phase->outer == rows && phase->inner == columns;
    return phase->shape == SHAPE_COLUMNS && phase->outer == columns && phase->inner == rows;
}

static void check_kind(Check *c, const Kernel *kernel) {
    const uint32_t mains = plan_mains(kernel);
    const bool rows = kernel->kind == KERNEL_ROW_FUSION || kernel->kind == KERNEL_ROW_PANELS ||
                      kernel->kind == KERNEL_FINISH;
    require(c, kernel, rows == (kernel->outer != 0), "rows have outer axes, and nothing else");
    switch (kernel->kind) {
    case KERNEL_SINGLE: require(c, kernel, mains == 1, "it has one phase besides epilogues"); break;
    case KERNEL_HORIZONTAL:
        require(c, kernel, mains > 1, "it has several phases besides epilogues");
        check_meetings(c, kernel);
        break;
    case KERNEL_ROW_FUSION:
        require(c, kernel, mains > 1, "it has several phases besides epilogues");
        for (uint32_t i = kernel->first; i < kernel->first + mains; i++)
            require(c, kernel,
                    c->plan->phases[i].outer == kernel->outer &&
                        c->plan->phases[i].shape == c->plan->phases[kernel->first].shape,
                    "its phases have its outer axes, and one shape");
        check_meetings(c, kernel);
        break;
    case KERNEL_ALL:
        require(c, kernel, kernel->count == c->plan->phase_count && mains == kernel->count,
                "it has all phases");
        break;
    case KERNEL_ROW_PANELS:
    case KERNEL_FINISH:
        for (uint32_t i = kernel->first; i < kernel->first + mains; i++)
            require(c, kernel, is_in_panels(c->plan, kernel, &c->plan->phases[i]),
                    "its phases go along the rows or the columns of row panels");
        break;
    case KERNEL_KIND_COUNT: break;
    }
}

static void check_kernel(Check *c, const Kernel *kernel) {
    require(c, kernel, kernel->last_block + kernel->segment_epilogue < kernel->count,
            "it has a phase besides epilogues");
    require(c, kernel, kernel->pre_reductions <= kernel->first, "pre-reductions come before it");
    require(c, kernel,
            !kernel->segment_epilogue || kernel->kind == KERNEL_SINGLE ||
                kernel->kind == KERNEL_HORIZONTAL,
            "segment epilogues are of single and horizontal kernels");
    check_ends(c, kernel);
    check_kind(c, kernel);
}

/* In their order, each phase in one kernel; but for row panels, which a second one finishes. */
static void check_partition(Check *c, const Kernel *kernels, size_t count) {
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const Kernel *kernel = &kernels[i], *before = i ? &kernels[i - 1] : NULL;
        check_kernel(c, kernel);
        const bool finishes = kernel->kind == KERNEL_FINISH;
        const bool panels = before && before->kind == KERNEL_ROW_PANELS;
        if (finishes || panels)
            require(c, kernel,
                    finishes && panels && kernel->first == before->first &&
                        kernel->count == before->count,
                    "row panels and their finish have the same phases and follow each other");
        else
            require(c, kernel, kernel->first - kernel->pre_reductions == next,
                    "kernels are a partition of the phases in their order");
        next = kernel->first + kernel->count;
    }
    if (count)
        require(c, &kernels[count - 1], kernels[count - 1].kind != KERNEL_ROW_PANELS,
                "row panels and their finish have the same phases and follow each other");
    if (!count || next != c->plan->phase_count)
        bug(c->f->compiler, "%s, plan %s: kernels are a partition of the phases in their order",
            c->f->name, plan_stage_names[c->plan->stage]);
}

/* ---- groupings ---- */

static bool has_phase(const Kernel *kernel, uint32_t phase) {
    return phase >= kernel->first && phase < kernel->first + plan_mains(kernel);
}

/* Whether a kernel of some grouping fuses the rows of all phases that touch the array. */
static bool stays(const Plan *plan, uint32_t array) {
    for (size_t w = 0; w < plan->grouping_count; w++)
        for (size_t k = 0; k < plan->groupings[w].count; k++) {
            const Kernel *kernel = &plan->groupings[w].kernels[k];
            bool all = kernel->kind == KERNEL_ROW_FUSION;
            for (uint32_t i = 0; all && i < plan->phase_count; i++)
                all = !plan_touch(&plan->phases[i], array) || has_phase(kernel, i);
            if (all) return true;
        }
    return false;
}

static bool suits_all(const Grouping *grouping) {
    const bool limited = grouping->limited || grouping->panels || grouping->few;
    return !limited && grouping->kernels[0].kind != KERNEL_ALL;
}

static void check_finished(const Plan *plan) {
    const char *stage = plan_stage_names[plan->stage];
    const Function *f = plan->function;
    if (!planner_keeps_order(plan))
        bug(f->compiler, "%s, plan %s: no phase reads what an earlier one overwrites", f->name,
            stage);
    for (uint32_t a = 0; a < plan->array_count; a++)
        if (plan->arrays[a].in_scratch && !stays(plan, a))
            bug(f->compiler, "%s, plan %s: array @%s: a worker's scratch stays in one kernel",
                f->name, stage, plan->arrays[a].name);
}

void plan_check_kernels(const Plan *plan, Arena *arena) {
    Check c = {.plan = plan, .f = plan->function, .arena = arena};
    bool compared = plan->stage < PLAN_GROUPED;
    c.meetings = arena_alloc(arena, (plan->array_count + 1) * sizeof *c.meetings);
    if (compared) check_partition(&c, plan->kernels, plan->kernel_count);
    for (c.grouping = 0; c.grouping < plan->grouping_count; c.grouping++) {
        const Grouping *grouping = &plan->groupings[c.grouping];
        check_partition(&c, grouping->kernels, grouping->count);
        compared |= grouping->kernels == plan->kernels;
    }
    if (plan->grouping_count && !suits_all(&plan->groupings[plan->grouping_count - 1]))
        bug(c.f->compiler, "%s, plan %s: the last grouping is for all sizes", c.f->name,
            plan_stage_names[plan->stage]);
    if (!compared)
        bug(c.f->compiler, "%s, plan %s: one grouping is what plans are compared by", c.f->name,
            plan_stage_names[plan->stage]);
    if (plan->stage >= PLAN_FINISHED) check_finished(plan);
}
