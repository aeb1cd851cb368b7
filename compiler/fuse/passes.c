/* passes.c: the passes that make a plan of a function and of choices, in their order, and the state
 * that they share. What one leaves to the next is all in the plan; the rest of the state follows
 * from that, so a pass runs as well on a plan that was read from text. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"

/* Worklist what the stores reach. */
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

static Planner *open_planner(Plan *plan, Arena *arena) {
    const size_t values = plan->function->value_count;
    Planner *p = arena_alloc(arena, sizeof *p);
    *p = (Planner){.function = plan->function, .arena = arena, .plan = plan};
    p->depth = arena_alloc(arena, values * sizeof *p->depth);
    p->ready = arena_alloc(arena, values * sizeof *p->ready);
    p->late = arena_alloc(arena, values * sizeof *p->late);
    p->levels = arena_alloc(arena, values);
    p->worklist = worklist_open(p->function, arena);
    p->live = find_live(p);
    planner_find_depths(p);
    return p;
}

Planner *planner_open(const Function *function, Choices choices, Arena *arena) {
    Plan *plan = arena_alloc(arena, sizeof *plan);
    plan->function = function;
    plan->choices = choices;
    plan->array_of = arena_alloc(arena, function->value_count * sizeof *plan->array_of);
    plan->defined_in = arena_alloc(arena, function->value_count * sizeof *plan->defined_in);
    plan->store_phase = arena_alloc(arena, (function->store_count + 1) * sizeof *plan->store_phase);
    for (size_t s = 0; s < function->store_count; s++) plan->store_phase[s] = UINT32_MAX;
    Planner *p = open_planner(plan, arena);
    add_parameters(p);
    return p;
}

Planner *planner_resume(Plan *plan, Arena *arena) {
    Planner *p = open_planner(plan, arena);
    planner_find_ready(p);
    if (plan->stage >= PLAN_GUARDED) planner_find_known(p);
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        planner_mark_needed(p, i);
        if (plan->stage >= PLAN_STORED) plan_find_touches(plan, &plan->phases[i], arena);
    }
    if (plan->stage >= PLAN_FINISHED) planner_find_levels(p);
    return p;
}

const PlanPass plan_passes[] = {
#define X(id, stage, pass, run) {pass, run, PLAN_##id},
#include "passes.def"
#undef X
};
_Static_assert(COUNT(plan_passes) == PLAN_STAGE_COUNT - 1, "a pass leads to each stage");

bool planner_run(Planner *p, const PlanPass *pass) {
    if (!pass->run(p)) return false;
    p->plan->stage = pass->stage;
#ifdef LOCKSTEP_CHECK_PASSES
    plan_check(p->plan);
#endif
    return true;
}

Plan *planner_build(const Function *function, const Choices *choices, Arena *arena, size_t *work,
                    size_t limit) {
    Planner *p = planner_open(function, *choices, arena);
    p->worklist->taken = work;
    p->work_limit = limit;
    for (size_t i = 0; i + 1 < COUNT(plan_passes); i++) {
        if (planner_run(p, &plan_passes[i])) continue;
        if (limit && *work > limit) return NULL;
        for (ValueId v = 1; v < function->value_count; v++)
            if (choices->materialised_[v]) return NULL;
        bug(function->compiler, "a phase of step %s reads what an earlier one overwrites",
            function->name);
    }
    return p->plan;
}

void planner_complete(Plan *plan, Arena *arena) {
    Planner p = {.function = plan->function, .arena = arena, .plan = plan};
    planner_run(&p, &plan_passes[COUNT(plan_passes) - 1]);
}
