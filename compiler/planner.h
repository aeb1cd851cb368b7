/* planner.h: what the planner's files share: plan.c (phases and their levels), plan_hazard.c (when
 * a parameter may be overwritten), plan_order.c (which phase comes before which),
 * plan_guard.c (which work a condition skips), plan_kernels.c (which phases run in one kernel),
 * plan_beside.c (which others), plan_choose.c (which of several plans), plan_strips.c (which phases
 * take rows and columns at once). */
#ifndef PLANNER_H
#define PLANNER_H

/* A set of values from which the highest is taken. */
typedef struct Marks {
    uint64_t *bits;
    size_t pending;
    ValueId highest; /* none is above */
    ValueId *found;  /* room for all values */
    size_t *taken;   /* counts them, where it is not NULL */
} Marks;

typedef struct Planner {
    const Function *function;
    const Choices *choices;
    Plan *plan;
    Arena *arena;
    const bool *live;     /* by value: a store reaches it */
    uint32_t *depth;      /* by value: phases on the longest path that must be complete below it */
    uint32_t *ready;      /* by value: the first phase that can compute it before its epilogue */
    uint32_t *late;       /* by value: the first phase whose epilogue can */
    uint32_t *store_home; /* by store: its phase, UINT32_MAX while it has none */
    Marks *marks;         /* empty between calls */
    uint8_t *levels;      /* by value: room for the levels of a phase */
} Planner;

/* plan.c */
/* A plan in memory of the arena; NULL when what later phases should read back cannot be stored in
 * time. Adds the values that it looked at to `work`. */
Plan *planner_build(const Function *function, const Choices *choices, Arena *arena, size_t *work);
/* Whether the parameter holds all of the stored value as it is. */
bool planner_holds(const Function *function, const Store *store);
/* Whether a value can be read back at all: it is no leaf, and not made in any case. */
bool planner_may_keep(const Function *function, ValueId v);
uint32_t planner_add_array(Planner *p, Array array);
void planner_add_store(Planner *p, uint32_t phase, PhaseStore store);
/* Where in phase `index` a value can be stored to an array over `axes`, or LEVEL_COUNT. */
Level planner_store_level(const Planner *p, ValueId value, AxisSet axes, uint32_t index);
/* The first phase from `from` on that can store the value to an array over `axes`; if need be a
 * new one. */
uint32_t planner_place(Planner *p, ValueId value, AxisSet axes, uint32_t from);

/* plan_needed.c */
Marks *marks_open(const Function *f, Arena *arena);
void marks_add(Marks *marks, ValueId v); /* nothing for value 0 */
ValueId marks_take(Marks *marks);        /* the highest; 0 when the set is empty */
void marks_clear(Marks *marks);
/* Finds what phase `index` reads and computes. */
void planner_mark_needed(Planner *p, uint32_t index);
/* The same for a finished phase, its levels and touches too, in new memory. */
void planner_mark_finished(const Plan *plan, Phase *phase, Marks *marks, Arena *arena);
/* Where the value is made has changed: the phases that need it are stale. */
void planner_leave_users(Planner *p, ValueId v);
/* Finds again what a stale phase needs, or all that are. */
void planner_refresh(Planner *p, uint32_t index);
void planner_refresh_all(Planner *p);

/* plan_hazard.c: moves stores to where nobody reads the old value any more; false when that does
 * not come to an end, which what is read back may cause. */
bool planner_settle_stores(Planner *p);
/* Whether no phase reads the old value of what an earlier one stores, nor gathers from what it
 * stores itself. */
bool planner_keeps_order(const Plan *plan);

/* plan_kernels.c: groups the finished phases into kernels. */
void planner_group_kernels(Planner *p);

/* plan_order.c: drops phases without work, and puts the others into an order in which those of one
 * space follow each other. */
void planner_order_phases(Planner *p);

/* plan_strips.c: finds phases that take rows together with columns, once a plan is chosen. */
void planner_find_strips(Plan *plan);

/* plan_chains.c: puts the phases in an order in which those that can be run row by row together
 * follow each other; gives the kernels that this makes. */
Kernel *planner_find_chains(Planner *p, size_t *count);

/* Whether nothing that one of two phases stores is touched by the other. */
bool planner_apart(const Plan *plan, uint32_t earlier, uint32_t later);
/* Whether what the earlier phase and the later one have in common they touch at the same
 * coordinates of the axes `outer`. Tails run when every phase of the kernel is done. */
bool planner_row_by_row(const Plan *plan, uint32_t earlier, uint32_t later, AxisSet outer);

/* plan_beside.c */
/* Makes kernels of one phase each that follow each other one, where neither needs the other; gives
 * how many there are then. */
size_t planner_join_beside(const Plan *plan, Kernel *kernels, size_t count);
/* Whether the phase after those of the kernel can follow them part by part. */
bool planner_follows(const Plan *plan, const Kernel *kernel, uint32_t index);

/* plan_guard.c: finds the conditions without which a phase has nothing to do. */
void planner_guard_phases(Planner *p);

#endif
