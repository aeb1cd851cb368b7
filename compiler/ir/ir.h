/* ir.h: the value IR, and what is done on it.
 *
 * Tables (types.def, ops.def), building, text and reading back, the checker, constants, gradients
 * and rewrites. derive, simplify and gather are passes: compile.c has their order. */
#ifndef LOCKSTEP_IR_H
#define LOCKSTEP_IR_H

/* types.def: element types. Type values equal ls_type's. */
typedef enum Type {
#define X(id, ...) TYPE_##id,
#include "types.def"
#undef X
    TYPE_COUNT,
    TYPE_NONE = TYPE_COUNT
} Type;
typedef struct TypeInfo {
    const char *name;
    char class; /* 'F' 'S' 'U' 'B' */
    uint8_t size;
    Type compute; /* what a load gives; a type is a compute type when this is itself */
    const char *c_name;
} TypeInfo;
extern const TypeInfo type_info[TYPE_COUNT];

/* build.c: the IR. A step is a list of pure values, hash-consed, and one final store per parameter
 * it writes; the order of the source's statements is already folded into the values (a read after
 * an assignment is the assigned value, rounded to the parameter's type by ROUND_TO). Operands
 * precede their users. Value 0 is none. */
typedef uint32_t AxisSet; /* bit a: the step's axis a, slowest first */
typedef uint32_t ValueId;

typedef enum Op {
    OP_NONE,
#define X(id, ...) OP_##id,
#include "ops.def"
#undef X
    OP_COUNT
} Op;

/* OP_ARRAY: complete in memory before anyone reads it (scans, scatters) */
enum { OP_LEAF = 1, OP_REDUCTION = 2, OP_COMMUTATIVE = 4, OP_ARRAY = 8 };
/* How C computes it, and whether constants are folded through it: not where it is FORM_NONE. */
typedef enum OpForm { FORM_NONE, FORM_OWN, FORM_CALL, FORM_INFIX, FORM_ARITHMETIC } OpForm;
enum { SCAN_REVERSE = 256 }; /* in a SCAN's payload, next to the axis */
typedef struct OpInfo {
    const char *name;
    uint8_t arity, rule, flags;
    uint8_t cost, work; /* instructions on a GPU; what decisions weigh */
    bool f64;           /* takes or gives f64 too */
    uint8_t lite;       /* Op: what `math lite` computes in its place on f32, or OP_NONE */
    uint8_t form;       /* OpForm */
    const char *sign;   /* the operator of the infix forms, or "" */
    const char *derivative;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];

typedef struct Value {
    uint8_t op;   /* Op */
    uint8_t type; /* Type, a compute type */
    AxisSet axes; /* the axes it varies over */
    ValueId arg[3];
    /* CONST: the bits, in the value's type; PARAMETER: its number; SIZE, INDEX: the axis;
     * POSITION: the AxisSet; a reduction: the AxisSet reduced; ROUND_TO, ROUND_STOCHASTIC: the
     * storage Type; FROM_FIXED: the Type; MARK, RUNNING: a serial number that keeps it apart from
     * equal values; LIST: the axis, or the argument's number; SCAN: the axis and SCAN_REVERSE;
     * SCATTER, SCATTER_MIN: the AxisSet of the result, and in the upper half that of `within`;
     * RANDOM_KEY: the draw's ordinal; FIRST: 0 tensor, 1 element; CALL: its number in f->functions
     */
    uint64_t payload;
    ValueId next;     /* hash chain */
    Range range;      /* where the source requests it first */
    const char *name; /* the let or parameter it is bound to, or NULL: for readable output */
} Value;

/* An axis whose length differs along another one, its parent, is ragged: what varies over it varies
 * over the parent too. `n as (q, k = 256)` makes three axes: n, the whole, which never stands in an
 * AxisSet; q, which counts blocks; and k, an axis that depends on q and has the length
 * min(256, size n - 256 * q). A value over n has the axes q and k: the flat index 256 q + k is that
 * along n. */
typedef struct Axis {
    const char *name;
    int64_t fixed;   /* -1: bound at run time */
    int parent;      /* the axis it depends on: `n of t`, k on q; -1: none */
    int whole;       /* of q and k: n; -1: none */
    int block, rest; /* of n: q and k; -1: none */
    int64_t length;  /* of n, q and k: elements of a whole block; 0: none */
    /* `w = 2 * h`: the length as the image gives it, in reverse Polish order; NULL: none */
    const ls_image_term *terms;
    size_t term_count;
    Range range;
} Axis;

typedef struct Parameter {
    const char *name;
    ls_role role;
    Type type;        /* storage type */
    AxisSet axes;     /* empty: rank 0 */
    AxisSet declared; /* as written: n where axes has its q and k */
    bool has_default;
    uint64_t initial; /* bits of the default in `type` */
    Range range;
} Parameter;

/* After the step the parameter holds `value` (a value whose type is the compute type of the
 * parameter's, already representable in it) broadcast over the parameter's axes. `guard`, when not
 * 0, is a bool: where it is false the parameter keeps its value. */
typedef struct Store {
    uint32_t parameter;
    ValueId value, guard;
    Range range;
} Store;

/* A C function that a step calls (import_c.c). Its text is part of the kernels. */
typedef struct CFunction {
    const char *name;
    Type result;
    Type *parameters;
    size_t parameter_count;
    int *derivatives;   /* by parameter: the number in f->functions of its partner, or -1 */
    const char *source; /* its definition in the words of kernels, called ls_c_NAME */
    const int *calls;   /* the numbers of those it calls, which are below its own */
    size_t call_count;
    uint32_t operations; /* about how many it takes; 0: not known */
} CFunction;

/* Of a part that is all of a loop's body, or of several loops in each other: what one launch needs
 * to run all iterations. */
typedef struct IterationLoop {
    uint32_t axis, place; /* the loop's axis; the one whose length is the coordinate */
    bool reverse;
} IterationLoop;
typedef struct Iteration {
    const IterationLoop *loops; /* the outermost first */
    uint32_t loop_count;
    const AxisSet *moves; /* by parameter: the axes of the loops along which it is a slice */
    const bool *changes;  /* by parameter: the part stores to its array, perhaps by another view */
    const bool *sole;     /* by parameter: there is no other view of its array */
    /* strips.c: the axis whose strips no iteration crosses, or -1; then the axes whose lengths are
     * where the strip at hand begins, and of all strips together. */
    int strip;
    uint32_t begin, all;
    const char *why; /* there is no such axis; NULL: there is */
} Iteration;

typedef struct Function { /* one step in IR form */
    Compiler *compiler;
    Arena *arena;
    const char *name;
    Range range;
    ls_math math;
    Axis *axes;
    size_t axis_count;
    Parameter *parameters;
    size_t parameter_count, parameter_capacity;
    Value *values; /* values[0] unused */
    size_t value_count, value_capacity;
    Store *stores;
    size_t store_count, store_capacity;
    const CFunction *functions;
    size_t function_count;
    const Iteration *iteration; /* or NULL */
    uint64_t serial;            /* the last number given to a RUNNING */
    ValueId *buckets;
    size_t bucket_count;
} Function;

/* A step with `for`: its statements in parts, in their order. A part is a function of its own,
 * whose parameters are views of the arrays: those of the step, and behind them those that one part
 * stores and another reads. A part with a loop runs once for each coordinate of the loop's axis;
 * parts of one loop stand together. All parts have the step's axes, and behind them one for each
 * axis that a loop goes over, whose length is the current coordinate. */
typedef struct View {
    uint32_t array; /* a parameter of the step, or parameter_count + a carried array */
    AxisSet fixed;  /* the axes of which it has the slice at the current coordinate */
} View;
typedef struct Loop {
    uint32_t axis;
    uint32_t outer; /* 1 + the loop around it; 0: none */
    bool reverse;
    Range range;
} Loop;
typedef struct Part {
    Function *function;
    View *views; /* by parameter */
    size_t view_capacity;
    uint32_t loop;           /* 1 + the innermost loop around it; 0: none */
    AxisSet empty;           /* not 0: it runs only where one of these axes is empty */
    bool sunk;               /* sink.c: it is a perfect nest that was none */
    const char *distributed; /* distribute.c: what its loop is apart from, and why, or NULL */
} Part;
typedef struct Sequence {
    Function *step;    /* axes and parameters; no value */
    size_t axis_count; /* of the parts: those of the step come first */
    Parameter *carried;
    size_t carried_count, carried_capacity;
    uint32_t place[LS_AXES_MAX]; /* by axis of the step: the one whose length is the coordinate */
    Loop *loops;
    size_t loop_count, loop_capacity;
    Part *parts;
    size_t part_count, part_capacity;
    const struct Sequence *source; /* with the parts as they are derived, before sink.c and
                                      distribute.c; NULL until then */
} Sequence;

/* a plain axis; fixed -1: bound at run time */
Axis ir_axis(const char *name, int64_t fixed, Range range);
Function *ir_function(Compiler *compiler, Arena *arena, const char *name);
/* the same axes and parameters; no value, no store */
Function *ir_function_like(const Function *f);
/* Every builder gives an existing equal value where there is one. Types are checked (bug() on
 * misuse). */
ValueId ir_constant(Function *f, Type type, uint64_t bits);
ValueId ir_constant_number(Function *f, Type type, double value); /* rounded once to `type` */
ValueId ir_leaf(Function *f, Op op, Type type, AxisSet axes, uint64_t payload);
ValueId ir_parameter(Function *f, uint32_t number); /* its value before the step */
/* i64; a constant where the axis is fixed; over the parent of a ragged axis */
ValueId ir_size(Function *f, uint32_t axis);
/* i64 over the axis (and its parents); over q and k for the whole of a blocked axis */
ValueId ir_index(Function *f, uint32_t axis);
/* i64: the flat index over the set, within the tensor: the set has no parent of its ragged axes */
ValueId ir_position(Function *f, AxisSet over);
/* by arity; 0 where unused; MARK is a new value each time */
ValueId ir_op(Function *f, Op op, ValueId a, ValueId b, ValueId c);
ValueId ir_cast(Function *f, Type type, ValueId a); /* to a compute type */
ValueId ir_round_to(Function *f, Type storage, ValueId a);
/* An argument list: `value` before `next` (0: the last). */
ValueId ir_list(Function *f, ValueId value, ValueId next, uint64_t payload);
AxisSet ir_listed(const Function *f,
                  ValueId list); /* the axes that the list of a gather replaces */
/* `source` at the coordinates the list gives; 0 where one is out of range */
ValueId ir_gather(Function *f, ValueId source, ValueId list);
/* Of the i64 at the listed coordinates of an array over `axes`: SCATTER the sums, SCATTER_MIN the
 * least. `within`: if not empty, the flat index over the listed axes, which are the slowest of
 * `axes`, is below the number of elements over these: the array has no more rows. */
ValueId ir_scatter(Function *f, Op op, ValueId q, ValueId list, AxisSet axes, AxisSet within);
bool ir_is_scatter(const Value *v);
AxisSet ir_scatter_within(const Value *v);
/* a new value each time */
ValueId ir_running(Function *f, Type type, AxisSet axes);
ValueId ir_scan(Function *f, ValueId init, ValueId body, ValueId running, uint32_t axis,
                bool reverse);
ValueId ir_random_key(Function *f, ValueId seed, ValueId step, ValueId tensor, uint32_t ordinal);
ValueId ir_round_stochastic(Function *f, Type storage, ValueId a, ValueId bits);
ValueId ir_from_fixed(Function *f, Type type, ValueId q, ValueId shift);
ValueId ir_call(Function *f, uint32_t function, ValueId list);
/* a over `axes` too; a if it has them */
ValueId ir_broadcast(Function *f, ValueId a, AxisSet axes);
ValueId ir_reduce(Function *f, Op op, ValueId a, AxisSet over); /* a must have the axes */
/* v of `from` on operands of `to` */
ValueId ir_rebuild(Function *to, const Function *from, ValueId v, const ValueId args[3]);
/* the operation, type, axes and payload of `like` on these operands */
ValueId ir_make(Function *f, const Value *like, const ValueId args[3]);
/* EXP or EXP_LITE of what is known to be at most 0, or NaN, or of which the value is not used: a
 * mark of f32 in a nest, for which generated code has a shorter function with the same bits. */
enum { EXP_NONPOSITIVE = 1 }; /* the payload */
ValueId ir_exp_nonpositive(Function *f, Op op, ValueId a);
bool ir_is_nonpositive(const Value *v);
ValueId ir_find(const Function *f, const Value *value); /* an equal value, or 0 */
void ir_store(Function *f, uint32_t parameter, ValueId value, ValueId guard, Range range);
/* Those of `from`, whose values `map` takes to values of `f`. */
void ir_copy_stores(Function *f, const Function *from, const ValueId *map);
/* first caller wins */
void ir_set_source(Function *f, ValueId value, Range range, const char *name);
AxisSet ir_all_axes(const Function *f);
AxisSet ir_closure(const Function *f, AxisSet axes); /* with the parents, and theirs */
/* The axes of a value over what `axes` lists as written: q and k for the whole of blocks. */
AxisSet ir_expand(const Function *f, AxisSet axes);
bool ir_are_plain(const Function *f, AxisSet axes); /* not ragged, not of blocks */
/* The plain axis on which one of the set hangs (a list's), or -1. */
int ir_list_axis(const Function *f, AxisSet axes);
const bool *ir_needed(const Function *f); /* by value: whether a store needs it */
/* The same stores in the order of their parameters, with only the values they need, each where the
 * first of them needs it: so that a function is the same whatever the order of its statements. */
Function *ir_compact(const Function *f);
uint64_t ir_number_bits(Type type, double value); /* the payload of such a constant */
/* What an operation wants that these operands are not ("floats of one type"), or NULL and its type.
 */
const char *ir_result_type(const Function *f, Op op, const ValueId args[3], Type *result);
/* Whether the second operand is a count or an exponent, which device functions take as an i64. */
bool ir_takes_count(Op op);
const char *ir_cast_problem(const Function *f, Type type, ValueId a);
const char *ir_round_problem(const Function *f, Type storage, ValueId a);
const char *ir_reduce_problem(const Function *f, Op op, ValueId a, AxisSet over);

/* evaluate.c: one operation on constants, with the bits the device computes; false if not foldable.
 * The arguments are the bits of constants; a count (ir_takes_count) is given as i64. */
bool ir_evaluate(Op op, Type result, Type operand, uint64_t payload, const uint64_t args[3],
                 uint64_t *bits);
/* An element of an array of the host as a value of its compute type, and back, as kernels do. */
uint64_t ir_load_element(Type storage, const void *array, int64_t index);
void ir_store_element(Type storage, void *array, int64_t index, uint64_t value);

/* range.c: whether the value is at most 0, or NaN, whatever the step is given. */
bool ir_is_never_positive(const Function *f, ValueId id);

/* numeric.c: a hash of all that decides bits: equal versions give equal results. */
uint64_t numeric_version(void);

/* print.c, read.c: the IR as text, and back. Printing what was read gives the same text. */
void ir_print(const Function *f, Text *out);
/* A constant's bits; of a float the shortest decimal that reads back as the same. */
void ir_print_number(Type type, uint64_t bits, Text *out);
/* its words: roles, grades, terms of a length, what a FIRST gives; by their numbers */
extern const char *const ir_role_names[3], *const ir_math_names[4], *const ir_term_names[7];
extern const char *const ir_first_names[2];
void ir_print_axes(const Function *f, AxisSet axes, Text *out); /* in brackets */
/* NULL after diagnostics */
Function *ir_read(Compiler *compiler, Arena *arena, uint32_t source);
typedef struct IrLabel {
    const char *text;
    size_t size;
    ValueId value; /* 0: its line had an error, so lines that use it are passed over */
} IrLabel;
/* A text that begins with a function; the text of a plan goes on with its values and axes. */
typedef struct IrReader {
    TextReader words;
    Function *f;
    IrLabel *labels;
    size_t label_count, label_capacity, errors_before;
} IrReader;
IrReader ir_reader_open(Compiler *compiler, Arena *arena, uint32_t source);
bool ir_reader_close(IrReader *r); /* whether all of it was without an error */
/* Each false after a diagnostic. */
bool ir_read_line(IrReader *r);
/* `%label`; *value is 0 where the label's own line had an error. */
bool ir_read_operand(IrReader *r, ValueId *value);
bool ir_read_type(IrReader *r, Type *type);
bool ir_read_axes(IrReader *r, AxisSet *axes); /* `[b, k]`, `[]` or nothing */

/* check.c: what is legal when. Calls bug() with the value and the rule it breaks. */
typedef enum Stage { STAGE_LOWERED, STAGE_DERIVED, STAGE_SIMPLIFIED, STAGE_GATHERED } Stage;
void ir_check(const Function *f, Stage stage);
/* The rule that the operation breaks on its operands, or NULL: its type and axes follow from them.
 */
const char *ir_operation_problem(const Function *f, const Value *v);

/* formula.c: the expressions of our own tables, read and built. A name is a letter; what it stands
 * for is at its place in the alphabet. */
typedef enum FormulaKind { FORMULA_OP, FORMULA_NAME, FORMULA_NUMBER, FORMULA_BOOL } FormulaKind;
typedef struct Formula Formula;
struct Formula {
    FormulaKind kind;
    Op op;
    char name;
    double number;
    const Formula *arg[3];
};
/* Reads up to a ';' or the end and leaves *text behind it. */
const Formula *formula_read(Compiler *compiler, Arena *arena, const char **text);
/* `type` is that of a number with no operand next to it and of cast(). */
ValueId formula_build(Function *f, const Formula *formula, const ValueId names[26], Type type);

/* derive.c: replaces GRAD by its adjoint values; afterwards no GRAD, MARK or STOP_GRADIENT is left.
 * simplify.c: rewrite rules, none of which changes a bit; drops what no store needs.
 * strips.c: the part of a `for` in terms of a strip of an axis that nothing crosses; f itself where
 * there is none.
 * touched.c: which rows indices name; compact.c: scatters into no more rows than have elements;
 * each f itself where there is nothing to do.
 * gather.c: afterwards the source of every GATHER is a PARAMETER, a reduction, a SCAN or a SCATTER;
 * simplify keeps it so; f itself when it has no gather.
 * Each returns a function in the same arena; derive and gather NULL, after a diagnostic, when it
 * would be too large. */
Function *derive(Function *f);
Function *simplify(Function *f);
Function *find_touched(Function *f);
Function *compact(Function *f);
Function *gather(Function *f);
Function *strip_mine(Function *f);
/* Whether the part of every array that a strip has is contiguous where the array is. */
bool strips_are_contiguous(const Function *f, uint32_t axis);
int strips_axis(const Function *f); /* the axis that strip_mine would take, or -1 */
/* distribute.c: whether the part, whose simplified function is f, has become several, each in a
 * loop of its own, one of which has strips. */
bool distribute_loop(Sequence *s, size_t number, const Function *f);
/* sink.c: whether the parts in the loop, one of which is in an inner one, have become one part of a
 * perfect nest, that of this number; they are simplified. */
bool sink_statements(Sequence *s, uint32_t loop, size_t *number);
/* dead_loops.c: whether the innermost loop around the part is left out, as it does something in one
 * of its iterations alone. */
bool drop_dead_loop(Sequence *s, size_t number);
/* sequence.c: how many loops around the part do nothing else; and what one launch needs to run
 * them. */
uint32_t sequence_loops(const Sequence *s, size_t number);
Iteration *sequence_iteration(const Sequence *s, const Part *part, uint32_t loop_count);
/* The number of the part's parameter with this view of an array; if need be a new one like the row,
 * of which nothing is stored yet. */
uint32_t sequence_add_view(Part *part, View view, const Parameter *row);
/* Loops like that one and those around it; gives 1 + the number of the innermost. */
uint32_t sequence_copy_loops(Sequence *s, uint32_t loop, uint32_t count);
/* whether the list's indices of these axes are in range; 0 when it lists none of them */
ValueId gather_in_range(Function *f, ValueId list, AxisSet axes);

/* sum.c: parameters, which the step does not write, that are sums of several arrays. */
typedef struct Sum {
    uint32_t parameter, count; /* count 1 or more */
    Type type;                 /* of the arrays; f32 is what it loads as */
} Sum;
/* What is asked for, in the numbers of the lowered function; unwinds where that cannot be. */
Sum sum_asked(const Function *f, const ls_sum *asked);
Function *sum_parameters(const Function *f, const Sum *sums, size_t count);

/* shard.c: a simplified step over whole arrays as the stages that a rank runs on its part of those
 * * that the tensors of `parameter` are cut with: `within` tensors, or between them; or along
 * `axis` of a step without lists (-1: the only one of the parameter). Unwinds where that cannot be.
 */
typedef struct ShardStage {
    Function *function;
    const ls_shard_argument *arguments; /* by parameter of it */
} ShardStage;
typedef struct Sharding {
    int list, axis; /* that counts tensors, or -1; that is cut, or -1: between tensors */
    uint8_t *cut;   /* by parameter of the step: whether a rank has a part of it */
    ShardStage *stages;
    size_t stage_count;
    ls_shard_exchange *exchanges; /* after the stage that gives them, */
    size_t exchange_count;        /* before the next */
} Sharding;
Sharding *shard(const Function *f, uint32_t parameter, int axis, bool within);

/* shard_pairs.c: reductions of which a tile comes to two values. */
bool ir_has_pairs(Op op);
/* The two, of the element over the axis of a tile's elements, */
void ir_pairs_of_tiles(Function *f, Op op, ValueId element, AxisSet rest, ValueId pair[2]);
/* and what those of all tiles, each of `length` elements, come to. */
ValueId ir_pairs_finish(Function *f, Op op, ValueId first, ValueId second, uint32_t tiles,
                        int64_t length);

/* split.c: `any[b, c]` as `any[b]` of `any[c]` where another reduction goes along c; sums of
 * floats, whose bits it changes, if `floats`. Gives the first of those that is split; f and 0 where
 * there is none. */
const Function *split_reductions(const Function *f, bool floats, ValueId *first);

/* ---- adjoints that know where they count: between derive.c and adjoint.c ---- */

/* The `if`s between the derived value and an adjoint, outermost first at the end of `outer`: the
 * adjoint counts where each test comes out as `holds` says. NULL: everywhere. */
typedef struct Condition Condition;
struct Condition {
    const Condition *outer;
    ValueId test;
    bool holds;
    uint32_t depth;
};

/* A value that is the adjoint where `where` holds. Elsewhere the adjoint is 0, which the value is
 * only within `within`, `where` or one outside of it; beyond that it is anything, NaN too. So what
 * is multiplied by slopes needs no `if` on the way: it is masked once, where it is added up. */
typedef struct Adjoint {
    ValueId value; /* 0: nothing */
    const Condition *where, *within;
} Adjoint;

/* adjoint.c */
/* What passes through the branch that is taken where the test comes out as `holds` says. */
Adjoint adjoint_branch(Function *f, Adjoint d, ValueId test, bool holds);
/* c, which is made of d and slopes. */
Adjoint adjoint_times(const Function *f, Adjoint d, ValueId c);
/* value, which was made of a and b, so counts where both do. */
Adjoint adjoint_both(Function *f, Adjoint a, Adjoint b, ValueId value);
Adjoint adjoint_add(Function *f, Adjoint a, Adjoint b);
ValueId adjoint_masked(Function *f, Adjoint d); /* 0 where it does not count */
/* The same adjoint without the innermost tests, down to the outermost over one of the axes, as the
 * value is 0 where they fail. *rest: whether they hold; 0 where there is none. */
Adjoint adjoint_split(Function *f, Adjoint d, AxisSet axes, ValueId *rest);
/* a, which was made of what adjoint_split gave, and counts where `rest` (0: everywhere) holds. */
Adjoint adjoint_rejoin(Function *f, Adjoint a, ValueId value, ValueId rest);
ValueId adjoint_counts(Function *f, Adjoint d);      /* whether it counts; 0: everywhere */
bool value_is_finite(const Function *f, ValueId id); /* whatever a step is given */

#endif
