/* planner.h: what the planner's files share: plan.c (phases and their levels), plan_hazard.c (when
 * a parameter may be overwritten), plan_guard.c (which work a condition skips),
 * plan_kernels.c (which phases run in one kernel). */
#ifndef PLANNER_H
#define PLANNER_H

typedef struct Planner {
    const Function *function;
    Plan *plan;
    Arena *arena;
    const bool *live;     /* by value: a store reaches it */
    uint32_t *depth;      /* by value: phases on the longest path that must be complete below it */
    uint32_t *ready;      /* by value: the first phase that can compute it before its epilogue */
    uint32_t *late;       /* by value: the first phase whose epilogue can */
    uint32_t *store_home; /* by store: its phase, UINT32_MAX while it has none */
} Planner;

/* plan.c */
uint32_t planner_add_array(Planner *p, Array array);
void planner_add_store(Planner *p, uint32_t phase, PhaseStore store);
/* Where in phase `index` a value can be stored to an array over `axes`, or LEVEL_COUNT. */
Level planner_store_level(const Planner *p, ValueId value, AxisSet axes, uint32_t index);
/* The first phase from `from` on that can store the value to an array over `axes`; if need be a
 * new one. */
uint32_t planner_place(Planner *p, ValueId value, AxisSet axes, uint32_t from);
void planner_mark_needed(Planner *p, uint32_t index);

/* plan_hazard.c: moves stores to where nobody reads the old value any more. */
void planner_settle_stores(Planner *p);

/* plan_kernels.c: groups the finished phases into kernels. */
void planner_group_kernels(Planner *p);

/* plan_guard.c: finds the conditions without which a phase has nothing to do. */
void planner_guard_phases(Planner *p);

#endif
