/* plan.h: what plan.c decides and emit.c and explain.c read.
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
#ifndef PLAN_H
#define PLAN_H

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
    bool near;          /* a temporary of which a worker has the rows at hand: see plan_near.c */
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
    bool stale;       /* while the plan is made: they may be fewer by now */
    ValueId *gathers; /* those of them that are gathers */
    size_t gather_count, gather_capacity;
    /* The arrays it reads or stores, in their order; once its stores are known. */
    Touch *touches;
    size_t touch_count;
    const char *why; /* why it is not part of the phase before it; NULL for the first */
} Phase;

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

/* What a plan is built from besides the function; see plan_choose.c. */
typedef struct Choices {
    bool *kept;      /* by value: later phases read it back rather than compute it again */
    uint32_t *depth; /* by value: a reduction has at least this one */
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

struct Plan {
    const Function *function;
    Choices choices;
    Array *arrays; /* the parameters, then the temporaries */
    size_t array_count, array_capacity;
    uint32_t *array_of; /* by value: 1 + array it can be read from, or 0 */
    uint32_t *home;     /* by value: 1 + the phase that makes it, or 0: every phase computes it */
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
};

/* The phases ahead of the followers and the tail. */
uint32_t plan_mains(const Kernel *kernel);

/* plan_choose.c */
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

/* plan_read.c */
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
/* A reduction as the language spells it. */
const char *plan_reduction(const Value *value);

/* explain_sizes.c: how long a report takes the axes to be, and what follows. */
typedef struct ReportSizes {
    const Function *function;
    const int64_t *lengths[LS_AXES_MAX]; /* NULL: follows from others */
    size_t counts[LS_AXES_MAX];          /* 1, or one per tensor */
    bool assumed;                        /* no sizes were given */
    bool uneven;                         /* tensors differ */
    uint64_t on_chip; /* bytes of a row, up to which what is read again does not move again */
} ReportSizes;
/* From words such as "n=1024" or "n=768+2304"; none: assumed. */
ReportSizes report_sizes(const Function *f, const char *const *words, size_t count);
int64_t report_length(const ReportSizes *s, size_t axis, size_t tensor);
double report_elements(const ReportSizes *s, AxisSet axes); /* visited once, in all tensors */
/* outer times inner in parts of `divide`, at least `minimum` */
double report_parts(const ReportSizes *s, AxisSet outer, AxisSet inner, double divide,
                    double minimum);
double report_array_bytes(const ReportSizes *s, const Array *array);
double report_extent(const ReportSizes *s, const ls_image_extent *e);
/* With each tensor's own rounded up to a multiple of `step`. */
double report_extent_steps(const ReportSizes *s, const ls_image_extent *e, double step);
bool report_suits(const ReportSizes *s, const ls_image_variant *variant); /* its conditions hold */
void report_print_length(const ReportSizes *s, size_t axis, bool json, Text *out);

/* plan_bytes.c: for given sizes. */
/* Fills kernel->arrays from what its phases touch. */
void plan_find_arrays(const Plan *plan, Kernel *kernel, Arena *arena);
bool plan_writes(const Phase *phase, uint32_t array);
/* What a phase reads of an array: all of it once, or where other coordinates are read alone, 32
 * bytes for each of those if that is less. */
double plan_read_bytes(const Plan *plan, const ReportSizes *sizes, const Phase *phase,
                       uint32_t array);
/* What the tiles of long reductions leave for each other: written once, read once. */
double plan_partial_bytes(const Plan *plan, const ReportSizes *sizes, const Phase *phase);
typedef struct KernelBytes {
    double read, written;
} KernelBytes;
/* Of an array: which a kernel of strips shares with the one that finishes them. */
bool plan_kernel_reads(const Plan *plan, const Kernel *kernel, uint32_t array);
bool plan_kernel_writes(const Plan *plan, const Kernel *kernel, uint32_t array);
KernelBytes plan_kernel_bytes(const Plan *plan, const ReportSizes *sizes, const Kernel *kernel);
/* What all phases of a kernel read of an array. */
double plan_array_reads(const Plan *plan, const ReportSizes *sizes, const Kernel *kernel,
                        uint32_t array);
/* Every input read once, every output written once. */
double plan_minimum(const Plan *plan, const ReportSizes *sizes);
double plan_operations(const Plan *plan, const ReportSizes *sizes, const Phase *phase);

/* plan_traffic.c: the same as expressions, for an image. Rows of up to `on_chip` bytes stay near.
 */
ls_image_traffic plan_traffic(const Plan *plan, const Kernel *kernel, uint64_t on_chip);

/* target_gpu.c, target_c.c: what a dialect is. With `simt`, 32 lanes work on an item of 1024
 * elements, four neighbours each at a time; without, one thread does. */
typedef struct Target {
    const char *name;             /* "cuda" */
    const char *prelude;          /* its file under templates/ */
    const char *const *libraries; /* the other files, in order, NULL-terminated */
    const char *fast; /* that of them with ls_NAME_fast_TYPE for ls_NAME_TYPE under `math fast` */
    bool simt;
    bool divides;      /* by its prelude's function, not by the compiler's operator */
    const char *lanes; /* "simt" or "loop": which skeletons, <shape>.<lanes>.k */
    /* How a launch is shaped; see ls_image_kernel. */
    uint32_t threads, one_block_threads, blocks_per_multiprocessor, items_per_block;
    uint32_t processors; /* that reports take a device to have: multiprocessors, or CPU threads */
    uint32_t columns;    /* columns an item of a column phase takes */
    /* Chains: on a CPU the tiles that its nearest caches hold; rows up to which they are few, and
     * tiles from which on a row is long: then each phase has a kernel of its own. */
    uint32_t near_tiles, few_strips, many_tiles;
    uint64_t on_chip_bytes; /* of a row, up to which what is read again is still near */
    /* Elements visited up to which a step runs in one block, up to which in one launch of blocks
     * that wait for each other, if there are such; and of a phase of a tail, of one part of a
     * follower, of a phase of a prologue. */
    uint64_t one_block_limit, together_limit, tail_limit, part_limit, prologue_limit;
    /* Strips: threads of a block, rows and columns from which on they are worth it, and the bytes
     * of rows and levels that stay on chip. */
    uint32_t strip_threads, strips_per_multiprocessor;
    uint64_t strip_rows, strip_columns, strip_bytes;
} Target;
extern const Target target_cuda, target_hip, target_c;
const Target *target_for(const char *target); /* "sm_90" gives target_cuda; NULL if unknown */
const Target *target_named(const char *name); /* by dialect */

/* plan_near.c: the plan with what chains of the way keep near on such a target, in arrays behind
 * the plan's own. */
const Plan *plan_near(const Plan *plan, const Target *target, const Way *way);

/* emit.c: a plan as source text and as the tables of an image: a variant for each layout, and where
 * there are several phases one for each way to run them; of the layouts up to the last one wanted.
 * With `shared`, two texts, those of the variants have names of their own and no prelude, so that
 * they can stand in one file: before them come the prelude, the library that all of it uses,
 * shared[0] (a line for each macro) and shared[1] (imported C functions). */
const ls_image *emit_step(const Plan *plan, const Target *target, const char *target_name,
                          ls_image_layout last, Text *shared);
/* Elements that all phases visit, up to which the way is one. */
uint64_t emit_work_limit(const Plan *plan, const Target *target, const Way *way);

/* library.c: adds the paragraphs of the target's template files that `code` uses. */
void library_add_used(Compiler *compiler, Text *out, const Target *target, const char *code);

#endif
