/* fuse.h: the value IR to a plan: which values are computed together, in which kernels, and what
 * that moves.
 *
 * A phase visits one index space once. The axes of the space are split into `outer` and `inner`;
 * values over all of them are computed element by element, reductions over `inner` leave one value
 * per outer coordinate, and an epilogue at the outer coordinates uses them. A kernel is a run of
 * phases: all of them behind block barriers when the step is small enough for one block, one each
 * otherwise.
 *
 * Some values are *made* by one phase, their home, and read from an array by later ones:
 * reductions, scans, scatters, and values that the planner materialises because what they are
 * computed from changes. Every other value is recomputed by each phase that needs it. */
#ifndef LOCKSTEP_FUSE_H
#define LOCKSTEP_FUSE_H

typedef enum Shape {
    SHAPE_SCALAR,  /* no axes: one coordinate */
    SHAPE_MAP,     /* inner only, nothing reduced: tiles of the flattened space */
    SHAPE_ROWS,    /* the fastest axis is reduced: an item walks along it */
    SHAPE_COLUMNS, /* the fastest axis is outer: an item walks down several columns at once */
    SHAPE_SCAN,    /* a lane per outer coordinate walks along inner in order */
    SHAPE_COUNT
} Shape;

/* Where in a phase a value is computed or stored. */
typedef enum Level {
    LEVEL_SCALAR,   /* once, before the loops */
    LEVEL_OUTER,    /* per outer coordinate, before the inner loop */
    LEVEL_ELEMENT,  /* per element */
    LEVEL_EPILOGUE, /* per outer coordinate, after the phase's reductions */
    LEVEL_TAIL,     /* once, after every block has read what it needs: rank-0 parameters */
    LEVEL_COUNT
} Level;

/* An array a kernel can touch: a parameter, or a temporary that carries a made value from its home
 * to later phases. */
typedef struct Array {
    const char *name;
    Type type; /* as stored */
    AxisSet axes;
    ValueId value;      /* PARAMETER value or the made value it holds; 0 if nothing reads it */
    uint32_t parameter; /* its number, or UINT32_MAX for a temporary */
    ValueId made;       /* the made value that a parameter holds once it is stored, or 0 */
    bool near; /* a temporary of which a worker has the rows at hand: see worker_scratch.c */
} Array;

typedef enum StoreKind {
    STORE_VALUE,
    STORE_CLEAR, /* zeros, for a scatter to add to; no value */
    STORE_ADD    /* value is a SCATTER: adds its operand at the listed coordinates */
} StoreKind;

typedef struct PhaseStore {
    uint32_t array; /* in plan->arrays */
    ValueId value;
    Level level;
    Range range;
    StoreKind kind;
} PhaseStore;

/* A rank-0 bool on which work depends, or its negation. */
typedef struct Guard {
    ValueId condition;
    bool holds;
} Guard;

typedef uint64_t Literals; /* a set of guards: see plan_literal() */

/* How a phase touches an array. `reads`: at the coordinates it walks; `writes`: but for its tail's
 * stores, which are `tail`. */
typedef struct Touch {
    uint32_t array;
    bool reads, gathers, writes, adds, tail;
    AxisSet elsewhere; /* the axes along which its gathers read other coordinates */
} Touch;

typedef struct Phase {
    Shape shape;
    AxisSet outer, inner;
    uint32_t depth; /* reductions that must be complete before it starts, as a length of chain */
    ValueId *reductions;
    size_t reduction_count, reduction_capacity;
    ValueId *scans; /* of SHAPE_SCAN */
    size_t scan_count, scan_capacity;
    bool reverse;  /* the scans walk from the end */
    Guard *guards; /* unless all of them are so, only the tail has work */
    size_t guard_count;
    Literals known; /* what holds where there is work */
    PhaseStore *stores;
    size_t store_count, store_capacity;
    /* What it reads and computes, in the order of the numbers, and the Level of each. */
    ValueId *values;
    uint8_t *levels;
    size_t value_count, value_capacity;
    bool stale;       /* while the plan is made: they may be fewer by now, or are not known yet */
    ValueId *gathers; /* those of them that are gathers */
    size_t gather_count, gather_capacity;
    /* The arrays it reads or stores, in their order; once its stores are known. */
    Touch *touches;
    size_t touch_count;
    const char *why; /* why it is not part of the phase before it; NULL for the first */
} Phase;

/* Of a phase down columns what: all, what strips of rows leave, or what becomes of that. */
typedef enum Portion { PORTION_WHOLE, PORTION_STRIP, PORTION_FINISH } Portion;

typedef enum KernelKind {
    KERNEL_SINGLE, /* one phase, its items shared out over the grid */
    KERNEL_BESIDE, /* phases that need nothing of each other: all items shared out over the grid */
    KERNEL_CHAIN,  /* a block, or a group of 32 lanes, owns a row and runs all phases on it */
    KERNEL_ALL,    /* all phases, and between any two all blocks wait for each other */
    KERNEL_STRIPS, /* rows 64 at a time: phases along rows, and the lanes of those down columns */
    KERNEL_FINISH, /* the rest of the phases down columns of a kernel of strips */
    KERNEL_KIND_COUNT
} KernelKind;

/* A run of phases in one launch. */
typedef struct Kernel {
    KernelKind kind;
    uint32_t first, count; /* of plan->phases */
    AxisSet outer;         /* the axes whose coordinates are shared out, where the kind has any */
    uint32_t tail; /* the last so many phases are run by the last block that finishes the others */
    /* So many before the tail are run for each coordinate of their outer axes, a part, by whoever
     * finishes the last row or column of that. */
    uint32_t followers;
    uint32_t prologue;      /* so many before the first are run by every block for itself */
    const uint32_t *arrays; /* those that its phases touch, in their order */
    size_t array_count;
} Kernel;

/* What a plan is built from besides the function; see choose.c. */
typedef struct Choices {
    bool *kept;      /* by value: later phases read it back rather than compute it again */
    uint32_t *depth; /* by value: a reduction has at least this one */
    bool
        wholes_first; /* whole reductions come before those along rows and columns of their space */
} Choices;

/* A way to run the step. */
typedef struct Way {
    const Kernel *kernels;
    size_t count;
    bool limited; /* only where tails and prologues are little work */
    bool strips;  /* only where rows are many and long: one of its kernels goes by strips */
    bool few;     /* only where the rows of all chains of the plan are few and long */
} Way;
enum { WAYS = 7 };

/* How far a plan is made: see passes.def. */
typedef enum PlanStage {
    PLAN_CHOSEN, /* there are choices, and no phase yet */
#define X(id, ...) PLAN_##id,
#include "passes.def"
#undef X
    PLAN_STAGE_COUNT
} PlanStage;

typedef struct Plan {
    const Function *function;
    PlanStage stage;
    Choices choices;
    Array *arrays; /* the parameters, then the temporaries */
    size_t array_count, array_capacity;
    uint32_t *array_of;   /* by value: 1 + array it can be read from, or 0 */
    uint32_t *home;       /* by value: 1 + the phase that makes it, or 0: every phase computes it */
    uint32_t *store_home; /* by store: its phase, or UINT32_MAX; until stores.c has run */
    uint8_t *condition_of; /* by value: its number in sets of literals, or 0 */
    Phase *phases;
    size_t phase_count, phase_capacity;
    /* How the phases run when they are too much for one block: what plans are compared by. */
    Kernel *kernels;
    size_t kernel_count;
    Way ways[WAYS]; /* the variants of each layout, in their order */
    size_t way_count;
    AxisSet strip_columns; /* of a way by strips: what a row goes along */
    /* and of an element: in arrays that its phases read more than once, and of what is reduced */
    uint32_t strip_bytes, strip_partial;
    bool stopped; /* the search for it ended before all choices were tried */
} Plan;

/* explain.c: why a kernel is not a part of the one before. */
const char *plan_split_reason(const Plan *plan, const Kernel *before, const Kernel *kernel,
                              Arena *arena);

/* The phases ahead of the followers and the tail. */
uint32_t plan_mains(const Kernel *kernel);

/* choose.c */
Plan *plan_build(const Function *function);
/* Plans that differ from one by a choice. */
typedef struct Alternative {
    const char *what; /* they do instead */
    const Plan *plan;
} Alternative;
typedef struct Alternatives {
    Alternative *items;
    size_t count;
} Alternatives;
/* The cheapest of them: 16 at most. */
Alternatives plan_alternatives(const Plan *plan);

/* print.c, read.c: a plan as text, and back. Printing what was read gives the same text. */
void plan_print(const Plan *plan, Text *out);
/* NULL after diagnostics; what is wrong with the plan is for plan_check() to say. A text without a
 * line `plan`, a function alone, is a plan of stage PLAN_CHOSEN. */
Plan *plan_read(Compiler *compiler, Arena *arena, uint32_t source);
/* its words, by their numbers */
extern const char *const plan_stage_names[PLAN_STAGE_COUNT], *const plan_shape_names[SHAPE_COUNT];
extern const char *const plan_level_names[LEVEL_COUNT], *const plan_store_names[3];
extern const char *const plan_kernel_names[KERNEL_KIND_COUNT];

/* check.c: what is legal at the plan's stage. Calls bug() with what breaks a rule, and the rule. */
void plan_check(const Plan *plan);
/* check_kernels.c: the part of it that is about kernels. */
void plan_check_kernels(const Plan *plan, Arena *arena);

/* query.c */
/* Whether the phase reads or computes a value, and at which level; LEVEL_SCALAR if it does not. */
bool plan_needs(const Phase *phase, ValueId v);
Level plan_level(const Phase *phase, ValueId v);
/* How the phase touches the array, or NULL: not at all. */
const Touch *plan_touch(const Phase *phase, uint32_t array);
/* Fills phase->touches from what it needs and stores. */
void plan_find_touches(const Plan *plan, Phase *phase, Arena *arena);
/* Whether the phase reads the array at the coordinates it walks, and at others. */
bool plan_value_reads(const Plan *plan, const Phase *phase, uint32_t array);
bool plan_gathers(const Plan *plan, const Phase *phase, uint32_t array);
/* Whether value v of the phase is a gather of the array. */
bool plan_is_gather_of(const Plan *plan, const Phase *phase, ValueId v, uint32_t array);
/* Whether the phase takes the value from memory rather than computing it. */
bool plan_is_read(const Plan *plan, const Phase *phase, ValueId v);
/* 1 + the array it takes it from, or 0. A parameter's old value that was carried over into a
 * temporary is there for the phases behind the one that did so. */
uint32_t plan_source(const Plan *plan, const Phase *phase, ValueId v);
/* Which operand of a SELECT the phase's guards choose, or 0. */
ValueId plan_chosen(const Plan *plan, const Phase *phase, ValueId v);
Literals plan_literal(size_t condition, bool holds);
/* Whether a value stored to the array is what it holds already unless a guard, a rank-0 bool, says
 * otherwise: then gives the guard, and the value with it. What is stored under all such guards is
 * all that a phase needs; where one does not hold, the array's bits stay as they are. */
bool plan_keeps(const Plan *plan, uint32_t array, ValueId *value, Guard *guard);
/* What is handed to a store: its value without the guards of plan_keeps and without a rounding that
 * the store makes itself. */
ValueId plan_stored(const Plan *plan, const Phase *phase, const PhaseStore *store);
/* Whether the phase may run where a guard of the store does not hold: a tail runs in any case. */
bool plan_is_open(const Plan *plan, const Phase *phase, const PhaseStore *store, Guard guard);
/* The operands that the phase needs to compute a value: none of one it reads, not the source of a
 * gather, not the running value of a scan. */
size_t plan_operands(const Plan *plan, const Phase *phase, ValueId v, ValueId operands[3]);
bool plan_reads(const Plan *plan, const Phase *phase, uint32_t array); /* either */
/* Whether nothing is missed where an out has no memory: the phases that store it do nothing else,
 * none reads it, and the step has other results. Then the array of such a phase, plus 1, or 0. */
bool plan_is_optional(const Plan *plan, uint32_t array);
uint32_t plan_optional_of(const Plan *plan, const Phase *phase);
/* Whether the inner axes make one tile at most, whatever the sizes. */
bool plan_one_tile(const Function *f, AxisSet inner);
/* Elements over the axes, times `scale`, as an image says it; and the axes as it counts them: n for
 * both its q and k. */
ls_image_extent plan_extent(const Function *f, uint64_t scale, AxisSet axes);
AxisSet plan_extent_axes(const Function *f, AxisSet axes);
/* A reduction as the language spells it. */
const char *plan_reduction(const Value *value);

/* sizes.c: how long a report takes the axes to be, and what follows. */
typedef struct PlanSizes {
    const Function *function;
    const int64_t *lengths[LS_AXES_MAX]; /* NULL: follows from others */
    size_t counts[LS_AXES_MAX];          /* 1, or one per tensor */
    bool assumed;                        /* no sizes were given */
    bool uneven;                         /* tensors differ */
    uint64_t on_chip; /* bytes of a row, up to which what is read again does not move again */
} PlanSizes;
/* From words such as "n=1024" or "n=768+2304"; none: assumed. */
PlanSizes plan_sizes_read(const Function *f, const char *const *words, size_t count);
int64_t plan_sizes_length(const PlanSizes *s, size_t axis, size_t tensor);
double plan_sizes_elements(const PlanSizes *s, AxisSet axes); /* visited once, in all tensors */
/* outer times inner in parts of `divide`, at least `minimum` */
double plan_sizes_parts(const PlanSizes *s, AxisSet outer, AxisSet inner, double divide,
                        double minimum);
double plan_sizes_array_bytes(const PlanSizes *s, const Array *array);
double plan_sizes_extent(const PlanSizes *s, const ls_image_extent *e);
/* With each tensor's own rounded up to a multiple of `step`. */
double plan_sizes_extent_steps(const PlanSizes *s, const ls_image_extent *e, double step);
uint64_t plan_sizes_value(const void *of, const ls_image_extent *extent,
                          uint32_t largest); /* of PlanSizes: what a variant is chosen by */
void plan_sizes_print_length(const PlanSizes *s, size_t axis, bool json, Text *out);

/* cost.c */
/* Fills kernel->arrays from what its phases touch. */
void plan_find_arrays(const Plan *plan, Kernel *kernel, Arena *arena);
bool plan_writes(const Phase *phase, uint32_t array);
/* Of an array: which a kernel of row panels shares with the one that finishes them. */
bool plan_kernel_reads(const Plan *plan, const Kernel *kernel, uint32_t array);
bool plan_kernel_writes(const Plan *plan, const Kernel *kernel, uint32_t array);
/* What a kernel moves, as expressions, in memory of the arena; rows of up to `on_chip` bytes are
 * still there when they are come back to. */
ls_image_traffic plan_traffic(const Plan *plan, const Kernel *kernel, uint64_t on_chip,
                              Arena *arena);
typedef struct KernelBytes {
    double read, written;
} KernelBytes;
/* What it comes to for these sizes, and what is read of one array. */
KernelBytes plan_kernel_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                              Arena *arena);
double plan_array_reads(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                        uint32_t array, Arena *arena);
/* Every input read once, every output written once. */
double plan_minimum(const Plan *plan, const PlanSizes *sizes);
typedef struct Operations {
    double cost, work; /* sums of these columns of ops.def: what is reported, what decides */
} Operations;
Operations plan_operations(const Plan *plan, const PlanSizes *sizes, const Phase *phase);
/* The work of a kernel, by which plans are compared: phases over rows that are on chip have what an
 * earlier one computed of a row. */
double plan_kernel_work(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                        Arena *arena);

/* worker_scratch.c: the plan with what chains of the way keep near on such a target, in arrays
 * behind the plan's own. */
const Plan *plan_near(const Plan *plan, const Target *target, const Way *way);

/* ---- what the planner's files share ---- */

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
    Plan *plan;
    Arena *arena;
    const bool *live;  /* by value: a store reaches it */
    uint32_t *depth;   /* by value: phases on the longest path that must be complete below it */
    uint32_t *ready;   /* by value: the first phase that can compute it before its epilogue */
    uint32_t *late;    /* by value: the first phase whose epilogue can */
    uint64_t *users;   /* by value: while stores are placed, the phases that need it, or NULL */
    Marks *marks;      /* empty between calls */
    uint8_t *levels;   /* by value: room for the levels of a phase */
    size_t work_limit; /* of *marks->taken: beyond, the plan is given up; 0: never */
} Planner;

/* passes.c */
/* A pass, alone: it needs a plan of the stage before its own. False: there is no plan with these
 * choices, as what later phases should read back cannot be stored in time. */
typedef struct PlanPass {
    const char *name;
    bool (*run)(Planner *p);
    PlanStage stage; /* that it leads to */
} PlanPass;
extern const PlanPass plan_passes[PLAN_STAGE_COUNT - 1];
/* A plan of which nothing is made but the arrays of the parameters, in memory of the arena. */
Planner *planner_open(const Function *function, Choices choices, Arena *arena);
bool planner_run(Planner *p, const PlanPass *pass);
/* Finds what follows from the text of a plan. */
Planner *planner_resume(Plan *plan, Arena *arena);
/* All of them but the last; NULL where a pass says no. Adds the values that it looked at to `work`,
 * and gives up where placing the phases makes that more than `limit`, unless it is 0. */
Plan *planner_build(const Function *function, const Choices *choices, Arena *arena, size_t *work,
                    size_t limit);
/* The last one, for a plan that is not only compared with others. */
void planner_complete(Plan *plan, Arena *arena);

/* phases.c: places what is made and the stores of the function in phases; then what later phases
 * read back. */
bool planner_place_phases(Planner *p);
/* A store that never changes anything. */
bool plan_is_idle(const Plan *plan, const Store *store);
/* By value: the depth, and which phases can compute it. */
void planner_find_depths(Planner *p);
void planner_find_ready(Planner *p);
/* Whether the parameter holds all of the stored value as it is. */
bool planner_holds(const Function *function, const Store *store);
/* Whether a value can be read back at all: it is no leaf, and not made in any case. */
bool planner_may_keep(const Function *function, ValueId v);
uint32_t planner_add_array(Planner *p, Array array);
uint32_t planner_add_phase(Planner *p, Phase phase);
uint32_t planner_add_temporary(Planner *p, ValueId v);
void planner_read_from_parameter(Planner *p, const Store *store);
void planner_add_store(Planner *p, uint32_t phase, PhaseStore store);
/* Where in phase `index` a value can be stored to an array over `axes`, or LEVEL_COUNT. */
Level planner_store_level(const Planner *p, ValueId value, AxisSet axes, uint32_t index);
/* The first phase from `from` on that can store the value to an array over `axes`; if need be a
 * new one. */
uint32_t planner_place(Planner *p, ValueId value, AxisSet axes, uint32_t from);

/* candidates.c: values that may be worth a temporary. */
typedef uint64_t Reads; /* parameters and made values, by number modulo 64 */
/* A value that may be worth a temporary, and about what that would save: operations, as bytes, of
 * the phases that compute it again, less the bytes that it takes to store it and read it back. */
typedef struct Candidate {
    ValueId v;
    double saved;
} Candidate;
/* Of a function, for these sizes; no temporary has more bytes than `largest`. */
typedef struct ValueCosts {
    const Function *f;
    PlanSizes sizes;
    double largest;
} ValueCosts;
/* Of the values that may be worth a temporary, the most promising are tried one by one; where there
 * are more, some together first. */
enum { CANDIDATES = 24 };
/* Operations done while a byte moves: a kernel that has more of them waits for those. More than
 * devices do, for compilers move some out of loops. */
enum { OPERATIONS_PER_BYTE = 16 };
Reads *planner_find_reads(const ValueCosts *costs, const Plan *plan, Arena *arena);
/* By value: how many phases compute it; one for each element of a larger space counts twice. */
uint32_t *planner_find_users(const Plan *plan, Arena *arena);
bool planner_is_candidate(const ValueCosts *costs, const Reads *below, ValueId v);
Candidate *planner_find_candidates(const ValueCosts *costs, const Plan *plan, const uint32_t *users,
                                   Arena *arena, size_t *count);
int planner_by_saved(const void *a, const void *b); /* of Candidates: for qsort */
/* Where they are many: keeps those that would save `times` what they take; gives how many. */
size_t planner_keep_many(const ValueCosts *costs, const Plan *plan, const uint32_t *users,
                         Arena *arena, double times, bool *chosen);

/* needed.c */
Marks *marks_open(const Function *f, Arena *arena);
void marks_add(Marks *marks, ValueId v); /* nothing for value 0 */
ValueId marks_take(Marks *marks);        /* the highest; 0 when the set is empty */
void marks_clear(Marks *marks);
/* Finds what phase `index` reads and computes. */
void planner_mark_needed(Planner *p, uint32_t index);
/* The same for a finished phase, its levels and touches too, in new memory. */
void planner_mark_finished(const Plan *plan, Phase *phase, Marks *marks, Arena *arena);
/* Where the value is made has changed: the phases from `from` on that need it are stale. */
void planner_leave_users(Planner *p, ValueId v, uint32_t from);
/* Finds again what a stale phase needs, or all that are; false beyond the planner's limit. */
void planner_refresh(Planner *p, uint32_t index);
bool planner_refresh_all(Planner *p);

/* hazard.c: moves stores to where nobody reads the old value any more; false when that does
 * not come to an end, which what is read back may cause. */
bool planner_settle_stores(Planner *p);
/* Whether no phase reads the old value of what an earlier one stores, nor gathers from what it
 * stores itself. */
bool planner_keeps_order(const Plan *plan);

/* order.c: drops phases without work, and puts the others into an order in which those of one
 * space follow each other. */
bool planner_order_phases(Planner *p);

/* guard.c: finds the conditions without which a phase has nothing to do. */
bool planner_guard_phases(Planner *p);
void planner_find_known(Planner *p); /* what holds where a phase's guards do */
/* Whether a phase leaves nothing that is needed where its guards do not hold; if not, which. */
bool planner_may_skip(const Plan *plan, const bool *live, Arena *arena, uint32_t *phase);

/* stores.c: the stores of the function become stores of phases, and what another phase reads gets
 * an array. */
bool planner_add_stores(Planner *p);

/* row_fusion.c: puts the phases in an order in which those that can be run row by row together
 * follow each other, and makes kernels of them: plan->kernels. */
bool planner_fuse_rows(Planner *p);
/* Whether nothing that one of two phases stores is touched by the other. */
bool planner_apart(const Plan *plan, uint32_t earlier, uint32_t later);
/* Whether what the earlier phase and the later one have in common they touch at the same
 * coordinates of the axes `outer`. Tails run when every phase of the kernel is done. */
bool planner_row_by_row(const Plan *plan, uint32_t earlier, uint32_t later, AxisSet outer);

/* horizontal.c: makes kernels of one phase each that follow each other one, where neither needs the
 * other. */
bool planner_join_beside(Planner *p);
/* Whether the phase after those of the kernel can follow them part by part. */
bool planner_follows(const Plan *plan, const Kernel *kernel, uint32_t index);

/* kernels.c: groups plan->kernels into the ways of the plan. */
bool planner_group_kernels(Planner *p);

/* finish.c: levels. */
bool planner_finish(Planner *p);
void planner_find_levels(Planner *p);

/* explain.c: why each phase is one, and what the kernels of each way touch. */
bool planner_explain(Planner *p);

/* row_panels.c: finds phases that take rows together with columns, once a plan is chosen. */
void planner_find_strips(Plan *plan);

#endif
