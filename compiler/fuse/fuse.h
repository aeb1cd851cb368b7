/* fuse.h: the value IR to a plan: which values are computed together, in which kernels, and what
 * that moves.
 *
 * A phase visits one index space once. The axes of the space are split into `outer` and `inner`;
 * values over all of them are computed element by element, reductions over `inner` leave one value
 * per outer coordinate, and an epilogue at the outer coordinates uses them. A kernel is a run of
 * phases: all of them behind block barriers when the step is small enough for one block, one each
 * otherwise.
 *
 * Some values are *materialised*: one phase defines and stores them, and later phases read them
 * from an array. These are reductions, scans, scatters, values whose operands the step overwrites,
 * and values that are cheaper to store than to compute again. Every other value is recomputed by
 * each phase that needs it. */
#ifndef LOCKSTEP_FUSE_H
#define LOCKSTEP_FUSE_H

typedef enum Shape {
    SHAPE_SCALAR,  /* no axes: one coordinate */
    SHAPE_MAP,     /* inner only, nothing reduced: tiles of the flattened space */
    SHAPE_ROWS,    /* the fastest axis is reduced: an item goes along a row */
    SHAPE_COLUMNS, /* the fastest axis is outer: an item goes down several columns at once */
    SHAPE_SCAN,    /* one lane per outer coordinate goes along the inner axes in order */
    SHAPE_COUNT
} Shape;

/* Where in a phase a value is computed or stored. */
typedef enum Level {
    LEVEL_SCALAR,     /* once, before the loops */
    LEVEL_OUTER,      /* per outer coordinate, before the inner loop */
    LEVEL_ELEMENT,    /* per element */
    LEVEL_EPILOGUE,   /* per outer coordinate, after the phase's reductions */
    LEVEL_LAST_BLOCK, /* once, by the last block of the grid, after every block has read what it
                   needs: rank-0 parameters */
    LEVEL_COUNT
} Level;

/* An array that a kernel can touch: a parameter, or a temporary that carries a materialised value
 * from the phase that defines it to later phases. */
typedef struct Array {
    const char *name;
    Type type; /* as stored */
    AxisSet axes;
    ValueId value; /* the PARAMETER or materialised value that it holds; 0 if nothing reads it */
    uint32_t parameter; /* its number, or UINT32_MAX for a temporary */
    ValueId
        materialised; /* the materialised value that a parameter holds once it is stored, or 0 */
    bool in_scratch;  /* a temporary in worker scratch, of which a thread has some rows at a time:
                   see  worker_scratch.c */
} Array;

typedef enum StoreKind {
    STORE_VALUE,
    STORE_CLEAR, /* stores zeros, for a scatter to add to; has no value */
    STORE_ADD    /* its value is a SCATTER, whose operand is added at the listed coordinates */
} StoreKind;

typedef struct PhaseStore {
    uint32_t array; /* in plan->arrays */
    ValueId value;
    Level level;
    Range range;
    StoreKind kind;
} PhaseStore;

/* A bool on which work depends, or its negation: of rank 0, or of whole rows of what is stored. */
typedef struct Guard {
    ValueId condition;
    bool holds;
} Guard;

typedef uint64_t Literals; /* a set of guards: see plan_literal() */

/* How a phase touches an array. `reads`: it reads elements at its own coordinates; `gathers`: at
 * others; `writes`: it stores before its last-block epilogue; `last_block`: in that epilogue. */
typedef struct Touch {
    uint32_t array;
    bool reads, gathers, writes, adds, last_block;
    AxisSet elsewhere; /* the axes along which its gathers read other coordinates */
} Touch;

typedef struct Phase {
    Shape shape;
    AxisSet outer, inner;
    uint32_t depth; /* length of the longest chain of reductions that must be complete before the
                       phase starts */
    ValueId *reductions;
    size_t reduction_count, reduction_capacity;
    ValueId *scans; /* of SHAPE_SCAN */
    size_t scan_count, scan_capacity;
    bool reverse;  /* the scans go from the last element to the first */
    Guard *guards; /* where one of them does not hold, only the last-block epilogue has work */
    size_t guard_count;
    Literals known; /* the guards that hold wherever the phase has work */
    PhaseStore *stores;
    size_t store_count, store_capacity;
    /* The values that the phase reads and computes, by ascending number, and the Level of each. */
    ValueId *values;
    uint8_t *levels;
    size_t value_count, value_capacity;
    bool stale; /* while the plan is built: the lists above are out of date or not known yet */
    ValueId *gathers; /* those of `values` that are gathers */
    size_t gather_count, gather_capacity;
    /* The arrays that the phase reads or stores, by ascending number; filled once its stores are
     * known. */
    Touch *touches;
    size_t touch_count;
    const char *why; /* why the phase is not part of the one before it; NULL for the first phase */
} Phase;

/* Which portion of a phase down columns a kernel runs: all of it, the partial values of each row
 * panel, or what combines these. */
typedef enum Portion { PORTION_WHOLE, PORTION_PANEL, PORTION_FINISH } Portion;

typedef enum KernelKind {
    KERNEL_SINGLE,     /* one phase, its items partitioned over the grid */
    KERNEL_HORIZONTAL, /* independent phases (horizontal fusion): the items of all are partitioned
                      over the grid */
    KERNEL_ROW_FUSION, /* a block, or a warp, owns a row and runs all phases on it */
    KERNEL_ALL,        /* all phases, with a barrier of the whole grid between any two */
    KERNEL_ROW_PANELS, /* panels of up to 64 rows: phases along rows, and the partial values of
                      phases down columns */
    KERNEL_FINISH,     /* combines the partial values of a kernel of row panels */
    KERNEL_KIND_COUNT
} KernelKind;

/* A run of phases in one launch. */
typedef struct Kernel {
    KernelKind kind;
    uint32_t first, count; /* of plan->phases */
    AxisSet outer; /* the axes whose coordinates are partitioned over the grid, where the kind has
                      any */
    uint32_t last_block; /* how many phases at its end are its last-block epilogue: run by the block
                      that finishes last */
    /* How many phases before that are its segment epilogue: run for each coordinate of their outer
     * axes, a segment, by the block that finishes the segment's last row or column. */
    uint32_t segment_epilogue;
    uint32_t
        pre_reductions; /* how many phases before `first` every block runs redundantly for itself */
    const uint32_t *arrays; /* the arrays that its phases touch, by ascending number */
    size_t array_count;
} Kernel;

/* The choices that a plan is built from, besides the function; see choose.c. */
typedef struct Choices {
    bool *materialised_; /* by value: later phases read it from an array rather than compute it
                            again */
    uint32_t *depth;     /* by value: the least depth that a reduction is given */
    bool
        wholes_first; /* whole reductions come before those along rows and columns of their space */
} Choices;

/* A grouping of the phases into kernels. A plan has several, for different sizes. */
typedef struct Grouping {
    const Kernel *kernels;
    size_t count;
    bool limited; /* used only where last-block epilogues and redundant pre-reductions are little
                     work */
    bool panels;  /* used only where rows are many and long: one of its kernels takes row panels */
    bool few;     /* used only where the rows of all row fusions of the plan are few and long */
} Grouping;
enum { GROUPINGS_MAX = 7 };

/* Which passes a plan has been through: see passes.def. */
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
    uint32_t *array_of;    /* by value: 1 + the array that it can be read from, or 0 */
    uint32_t *defined_in;  /* by value: 1 + the phase that defines it, or 0: every phase that needs
                        it  computes it */
    uint32_t *store_phase; /* by store of the function: its phase, or UINT32_MAX; valid until
                             stores.c has run */
    uint8_t *condition_of; /* by value: its number in a set of Literals, or 0 */
    Phase *phases;
    size_t phase_count, phase_capacity;
    /* The kernels for sizes that are too large for one block; plans are compared by these. */
    Kernel *kernels;
    size_t kernel_count;
    Grouping groupings[GROUPINGS_MAX]; /* each becomes a variant for each layout, in this order */
    size_t grouping_count;
    AxisSet panel_columns; /* of a grouping with row panels: the axes along a row */
    /* and its bytes per element: of arrays that its phases read more than once, and of what is
     * reduced */
    uint32_t panel_bytes, panel_partial;
    bool stopped; /* the search ended before all choices were tried */
} Plan;

/* explain.c: says why a kernel is not a part of the one before. */
const char *plan_split_reason(const Plan *plan, const Kernel *before, const Kernel *kernel,
                              Arena *arena);

/* How many phases a kernel has ahead of its segment and last-block epilogues. */
uint32_t plan_mains(const Kernel *kernel);

/* choose.c */
Plan *plan_build(const Function *function);
/* Plans that differ from a given one by a single choice. */
typedef struct Alternative {
    const char *what; /* what such a plan does instead */
    const Plan *plan;
} Alternative;
typedef struct Alternatives {
    Alternative *items;
    size_t count;
} Alternatives;
/* The cheapest alternatives, at most 16. */
Alternatives plan_alternatives(const Plan *plan);

/* print.c, read.c: a plan as text, and back. Printing what was read gives the same text. */
void plan_print(const Plan *plan, Text *out);
/* NULL after diagnostics; what is wrong with the plan is for plan_check() to say. A text without a
 * line `plan`, a function alone, is a plan of stage PLAN_CHOSEN. */
Plan *plan_read(Compiler *compiler, Arena *arena, uint32_t source);
/* The words of that text, by enum value. */
extern const char *const plan_stage_names[PLAN_STAGE_COUNT], *const plan_shape_names[SHAPE_COUNT];
extern const char *const plan_level_names[LEVEL_COUNT], *const plan_store_names[3];
extern const char *const plan_kernel_names[KERNEL_KIND_COUNT];

/* check.c: what is legal at the plan's stage. Calls bug() with what breaks a rule, and the rule. */
void plan_check(const Plan *plan);
/* check_kernels.c: the part of plan_check that is about kernels. */
void plan_check_kernels(const Plan *plan, Arena *arena);

/* query.c */
/* Whether the phase reads or computes a value, and at which level; LEVEL_SCALAR if it does not. */
bool plan_needs(const Phase *phase, ValueId v);
Level plan_level(const Phase *phase, ValueId v);
/* How the phase touches the array, or NULL: not at all. */
const Touch *plan_touch(const Phase *phase, uint32_t array);
/* Fills phase->touches from what it needs and stores. */
void plan_find_touches(const Plan *plan, Phase *phase, Arena *arena);
/* Whether the phase reads the array at its own coordinates, and whether at others. */
bool plan_value_reads(const Plan *plan, const Phase *phase, uint32_t array);
bool plan_gathers(const Plan *plan, const Phase *phase, uint32_t array);
/* Whether value v of the phase is a gather of the array. */
bool plan_is_gather_of(const Plan *plan, const Phase *phase, ValueId v, uint32_t array);
/* Whether the phase takes the value from memory rather than computing it. */
bool plan_is_read(const Plan *plan, const Phase *phase, ValueId v);
/* 1 + the array that the phase takes the value from, or 0. Where a parameter's old value was
 * carried over into a temporary, later phases take it from there. */
uint32_t plan_source(const Plan *plan, const Phase *phase, ValueId v);
/* Which operand of a SELECT the phase's guards choose, or 0. */
ValueId plan_selected(const Plan *plan, const Phase *phase, ValueId v);
Literals plan_literal(size_t condition, bool holds);
/* Whether a value stored to the array is what it holds already unless a guard says otherwise, a
 * bool that does not vary along the array's fastest axis: then gives the guard, and the value with
 * it. What is stored under all such guards is all that a phase needs; where one does not hold, the
 * array's bits stay as they are. */
bool plan_keeps(const Plan *plan, uint32_t array, ValueId *value, Guard *guard);
/* Whether the phase stores to some rows alone, those for which a condition holds. */
bool plan_skips_rows(const Plan *plan, const Phase *phase);
/* The value that a store is given: without the guards of plan_keeps and without a rounding that the
 * store does itself. */
ValueId plan_stored(const Plan *plan, const Phase *phase, const PhaseStore *store);
/* Whether the phase may run where a guard of the store does not hold: a last-block epilogue runs in
 * any case. */
bool plan_is_open(const Plan *plan, const Phase *phase, const PhaseStore *store, Guard guard);
/* The operands that the phase needs to compute a value: none of one it reads, not the source of a
 * gather, not the running value of a scan. */
size_t plan_operands(const Plan *plan, const Phase *phase, ValueId v, ValueId operands[3]);
/* Whether the phase reads the array, at its own coordinates or at others. */
bool plan_reads(const Plan *plan, const Phase *phase, uint32_t array);
/* Whether an out may be left unbound at no loss: the phases that store it do nothing else, no phase
 * reads it, and the step has other results. plan_optional_of: 1 + the array of such a phase, or 0.
 */
bool plan_is_optional(const Plan *plan, uint32_t array);
uint32_t plan_optional_of(const Plan *plan, const Phase *phase);
/* Whether the inner axes have at most one tile of elements, whatever the sizes. */
bool plan_one_tile(const Function *f, AxisSet inner);
/* The number of elements over the axes times `scale`, in the form of an image; and the axes that
 * this counts: of blocks the axis n stands for both q and k. */
ls_image_extent plan_extent(const Function *f, uint64_t scale, AxisSet axes);
/* The bytes of an array. */
ls_image_extent plan_array_extent(const Function *f, const Array *array);
/* The number of elements over the axes times `scale` that a phase visits: where it stores to the
 * rows that indices name alone (plan_skips_rows), no more rows than there are indices. */
ls_image_extent plan_visited(const Plan *plan, const Phase *phase, uint64_t scale, AxisSet axes);
AxisSet plan_extent_axes(const Function *f, AxisSet axes);
/* A reduction as the language spells it. */
const char *plan_reduction(const Value *value);

/* sizes.c: the lengths of axes that a report assumes, and what follows from them. */
typedef struct PlanSizes {
    const Function *function;
    const int64_t *lengths[LS_AXES_MAX]; /* NULL: follows from others */
    size_t counts[LS_AXES_MAX];          /* 1, or one per tensor */
    bool assumed;                        /* no sizes were given */
    bool uneven;                         /* tensors differ */
    uint64_t on_chip; /* bytes of a row up to which a second read is served on chip */
} PlanSizes;
/* Reads words such as "n=1024" or "n=768+2304"; without any, lengths are assumed. */
PlanSizes plan_sizes_read(const Function *f, const char *const *words, size_t count);
int64_t plan_sizes_length(const PlanSizes *s, size_t axis, size_t tensor);
/* The elements of all tensors, each counted once. */
double plan_sizes_elements(const PlanSizes *s, AxisSet axes);
double plan_sizes_array_bytes(const PlanSizes *s, const Array *array);
double plan_sizes_extent(const PlanSizes *s, const ls_image_extent *e);
/* The same with each tensor's share rounded up to a multiple of `step`. */
double plan_sizes_extent_steps(const PlanSizes *s, const ls_image_extent *e, double step);
/* `of` is a PlanSizes: the value by which a variant is selected. */
uint64_t plan_sizes_value(const void *of, const ls_image_extent *extent, uint32_t largest);
/* The sizes that a variant of strips is for: one strip of its axis, and the number of strips; other
 * variants have them as they are. *strip: the length of the axis, then. */
PlanSizes plan_sizes_of_variant(const PlanSizes *s, const ls_image_variant *variant,
                                int64_t *strip);
void plan_sizes_print_length(const PlanSizes *s, size_t axis, bool json, Text *out);

/* cost.c */
/* Fills kernel->arrays from what its phases touch. */
void plan_find_arrays(const Plan *plan, Kernel *kernel, Arena *arena);
bool plan_writes(const Phase *phase, uint32_t array);
/* Whether a kernel reads or writes an array, where a kernel of row panels and the one that combines
 * them divide the phases between them. */
bool plan_kernel_reads(const Plan *plan, const Kernel *kernel, uint32_t array);
bool plan_kernel_writes(const Plan *plan, const Kernel *kernel, uint32_t array);
/* The traffic of a kernel as expressions over the lengths of the axes, allocated in the arena. Rows
 * of up to `on_chip` bytes are read from memory once, whichever phases read them again. */
ls_image_traffic plan_traffic(const Plan *plan, const Kernel *kernel, uint64_t on_chip,
                              Arena *arena);
/* The same where all iterations carry arrays, marked by array as in ls_image_variant. */
ls_image_traffic plan_carried_traffic(const Plan *plan, const ls_image_traffic *traffic,
                                      const uint8_t *carried, Arena *arena);
typedef struct KernelBytes {
    double read, written;
} KernelBytes;
/* The bytes that this comes to at given sizes, and the bytes read of one array. */
KernelBytes plan_kernel_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                              Arena *arena);
/* The same of one iteration where all carry these arrays, and besides what moves once. */
KernelBytes plan_iteration_bytes(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                                 const uint8_t *carried, KernelBytes *once, Arena *arena);
double plan_array_reads(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                        uint32_t array, Arena *arena);
/* The least bytes that a step can move: every input read once, every output written once. */
double plan_minimum(const Plan *plan, const PlanSizes *sizes);
typedef struct Operations {
    double cost, work; /* sums of two columns of ops.def: `cost` is reported, `work` decides */
} Operations;
Operations plan_operations(const Plan *plan, const PlanSizes *sizes, const Phase *phase);
/* The operations of a kernel: their work is what plans are compared by. Where its rows stay on
 * chip, a phase reads what an earlier one computed of a row. */
Operations plan_kernel_operations(const Plan *plan, const PlanSizes *sizes, const Kernel *kernel,
                                  Arena *arena);

/* worker_scratch.c: the plan with worker scratch: arrays, behind the plan's own, in which the row
 * fusions of the grouping keep values of a row on such a target. */
const Plan *plan_worker_scratch(const Plan *plan, const Target *target, const Grouping *grouping);

/* ---- what the planner's files share ---- */

/* A worklist of values, from which the highest number is taken first. */
typedef struct Worklist {
    uint64_t *bits;
    size_t pending;
    ValueId highest; /* no pending value is above it */
    ValueId *found;  /* room for all values */
    size_t *taken;   /* counts the values taken, where it is not NULL */
} Worklist;

typedef struct Planner {
    const Function *function;
    Plan *plan;
    Arena *arena;
    const bool *live; /* by value: a store reaches it */
    uint32_t *depth;  /* by value: how many phases the longest path of its operands has, which must
                         be complete before it */
    uint32_t *ready; /* by value: the first phase that can compute it before the phase's epilogue */
    uint32_t *late;  /* by value: the first phase whose epilogue can compute it */
    uint64_t *users; /* by value: while stores are placed, the phases that need it, or NULL */
    Worklist *worklist; /* empty between calls */
    uint8_t *levels;    /* by value: room for the levels of a phase */
    size_t work_limit;  /* the number of values taken from the worklist beyond which the plan is
                           given up; 0: never */
} Planner;

/* passes.c */
/* One pass. It needs a plan of the stage before its own. It gives false where there is no plan with
 * these choices, as a value that later phases should read cannot be stored in time. */
typedef struct PlanPass {
    const char *name;
    bool (*run)(Planner *p);
    PlanStage stage; /* the stage that the pass leads to */
} PlanPass;
extern const PlanPass plan_passes[PLAN_STAGE_COUNT - 1];
/* A plan that has the arrays of the parameters and nothing else, in memory of the arena. */
Planner *planner_open(const Function *function, Choices choices, Arena *arena);
bool planner_run(Planner *p, const PlanPass *pass);
/* Finds what follows from the text of a plan. */
Planner *planner_resume(Plan *plan, Arena *arena);
/* Runs all passes but the last; NULL where a pass gives false. Adds the values that it looked at to
 * `work`, and gives up where placing the phases makes that more than `limit`, unless it is 0. */
Plan *planner_build(const Function *function, const Choices *choices, Arena *arena, size_t *work,
                    size_t limit);
/* Runs the last pass, on a plan that is going to be used and not only compared. */
void planner_complete(Plan *plan, Arena *arena);

/* phases.c: puts materialised values and the stores of the function into phases; then the stores of
 * values that later phases read. */
bool planner_place_phases(Planner *p);
/* A store that never changes anything. */
bool plan_is_idle(const Plan *plan, const Store *store);
/* Fills p->depth, and p->ready and p->late. */
void planner_find_depths(Planner *p);
void planner_find_ready(Planner *p);
/* Whether the parameter holds all of the stored value as it is. */
bool planner_holds(const Function *function, const Store *store);
/* Whether a value may be materialised by choice: it is no leaf, and not materialised in any case.
 */
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
/* What estimates of values need: the function, the sizes, and the bytes that no temporary may
 * exceed. */
typedef struct ValueCosts {
    const Function *f;
    PlanSizes sizes;
    double largest;
} ValueCosts;
/* How many of the most promising values are tried one by one; where there are more, sets of them
 * are tried first. */
enum { CANDIDATES = 24 };
/* Operations done while a byte moves: a kernel that has more of them waits for those. Devices do
 * about 8, by their datasheets; most choices are compared with more than that, for compilers move
 * some operations out of loops. */
enum { OPERATIONS_PER_BYTE = 16, OPERATIONS_PER_BYTE_OF_DEVICES = 8 };
Reads *planner_find_reads(const ValueCosts *costs, const Plan *plan, Arena *arena);
/* By value: how many phases compute it. A phase that does so for each element of a larger space
 * counts twice. */
uint32_t *planner_find_users(const Plan *plan, Arena *arena);
/* By value: in about how many phases it is computed where nothing is materialised by choice. Those
 * have a depth each, and it is taken to be needed by all from the first to the last that need it.
 */
uint32_t *planner_estimate_users(const Planner *p, Arena *arena);
bool planner_is_candidate(const ValueCosts *costs, const Reads *below, ValueId v);
Candidate *planner_find_candidates(const ValueCosts *costs, const Plan *plan, const uint32_t *users,
                                   Arena *arena, size_t *count);
double planner_value_bytes(const ValueCosts *costs, ValueId v); /* in an array of its own */
int planner_by_saved(const void *a, const void *b);             /* of Candidates: for qsort */
/* Where there are many candidates: chooses those that would save at least `times` what they cost;
 * gives how many. */
size_t planner_keep_many(const ValueCosts *costs, const Plan *plan, const uint32_t *users,
                         Arena *arena, double times, bool *chosen);
/* Whether any choice may change the plan: not where all is one pass, without reductions and without
 * a value of fewer axes, which each element of the others would compute again. */
bool planner_is_worth_search(const Plan *plan);
/* Chooses what the phase computes again for each place along these axes although it does not vary
 * there, in 8 operations or more, of which some may count twice: the largest such expressions, of
 * rank 1 at least. `costs` is scratch of a number for each value. Whether there were any. */
bool planner_keep_invariants(const Plan *plan, const Phase *phase, AxisSet along, double *costs,
                             bool *chosen);

/* needed.c */
Worklist *worklist_open(const Function *f, Arena *arena);
void worklist_add(Worklist *worklist, ValueId v); /* does nothing for value 0 */
ValueId
worklist_take(Worklist *worklist); /* the value of the highest number; 0: the list is empty */
void worklist_clear(Worklist *worklist);
/* Finds what phase `index` reads and computes. */
void planner_mark_needed(Planner *p, uint32_t index);
/* The same for a finished phase, its levels and touches too, in new memory. */
void planner_mark_finished(const Plan *plan, Phase *phase, Worklist *worklist, Arena *arena);
/* To be called when the phase that defines the value has changed: marks the phases from `from` on
 * that need it as stale. */
void planner_leave_users(Planner *p, ValueId v, uint32_t from);
/* Finds again what a stale phase needs, or all stale phases; false beyond the planner's work limit.
 */
void planner_refresh(Planner *p, uint32_t index);
bool planner_refresh_all(Planner *p);

/* hazard.c: moves each store to a phase after which no phase reads the parameter's old value; false
 * when this does not end, which materialised values may cause. */
bool planner_settle_stores(Planner *p);
/* Whether no phase reads the old value of a parameter that an earlier phase stores, nor gathers
 * from one that it stores itself. */
bool planner_keeps_order(const Plan *plan);

/* order.c: drops phases without work, and puts the others into an order in which those of one
 * space follow each other. */
bool planner_order_phases(Planner *p);

/* guard.c: finds the conditions without which a phase has nothing to do. */
bool planner_guard_phases(Planner *p);
void planner_find_known(Planner *p); /* fills phase->known: what follows from a phase's guards */
/* Whether nothing that is stored under a phase's guards is needed where they do not hold; if not,
 * gives the phase. */
bool planner_may_skip(const Plan *plan, const bool *live, Arena *arena, uint32_t *phase);

/* stores.c: turns the stores of the function into stores of phases, and gives an array to every
 * value that another phase reads. */
bool planner_add_stores(Planner *p);

/* row_fusion.c: orders the phases so that those which can run on the same rows follow each other,
 * and fuses these into kernels: plan->kernels. */
bool planner_fuse_rows(Planner *p);
/* Whether two phases are independent: neither touches what the other stores. */
bool planner_independent(const Plan *plan, uint32_t earlier, uint32_t later);
/* Whether two phases touch every array that they share, and one of them stores, at the same
 * coordinates of the axes `outer`. Last-block epilogues run when every phase of the kernel is done.
 */
bool planner_row_by_row(const Plan *plan, uint32_t earlier, uint32_t later, AxisSet outer);

/* horizontal.c: horizontal fusion: joins neighbouring kernels of one phase each, where neither
 * needs the other. */
bool planner_fuse_horizontally(Planner *p);
/* Whether the phase behind the kernel can be its segment epilogue. */
bool planner_follows(const Plan *plan, const Kernel *kernel, uint32_t index);

/* kernels.c: builds plan->kernels into the groupings of the plan. */
bool planner_group_kernels(Planner *p);

/* finish.c: finds the level of every value of every phase. */
bool planner_finish(Planner *p);
void planner_find_levels(Planner *p);

/* explain.c: says why each phase is one of its own, and which arrays the kernels of each grouping
 * touch. */
bool planner_explain(Planner *p);

/* row_panels.c: adds a grouping with row panels, in which phases along rows and down columns share
 * a kernel, to a plan that is chosen. */
void planner_find_row_panels(Plan *plan);

#endif
