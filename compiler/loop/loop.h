/* loop.h: the loop IR: between a plan and text, a kernel is one tree, a nest.
 *
 * Read without the kinds of its loops a nest is an ordinary sequential program, and that is its
 * meaning. A kind says who runs an iteration; it may be changed wherever iterations are
 * independent. Schedules build plain nests, passes change them, and a printer writes them. A nest
 * prints as text and reads back, is checked (check.c), and runs on arrays of the host (run.c).
 *
 * The text has a node a line, two spaces a level (I: an index, V: a value, T: a type):
 *
 *   nest NAME warps N lanes N width N      threads of a block = warps * lanes; elements of a vector
 *     array NAME[{}]: T[I] in|out|inout|table|temporary [aliased]      {}: a list of arrays;
 *                                          aliased: another one may have the same memory
 *     size NAME, ...                       as bound
 *     derived NAME = V                     an integer made of sizes, once per launch
 *     fact NAME multiple of N | fact NAME = N | fact NAME absent      holds in this variant
 *     function NAME(T, ...): T             a C function that values call
 *     loop NAME: KIND I                    grid | warp | lane | serial | unrolled | vector
 *     if I > 0 [version] ... else ...      an affine test; version: both bodies come to the same
 *     when NAME ... else ...               a bool
 *     let NAME = V
 *     load NAME = ARRAY[{LIST}][I, ...] [limit I] [where NAME] [pad V] [hint l1|l2|once]
 *     store ARRAY[{LIST}][I, ...] = V [limit I] [where NAME] [hint non_temporal|owned]
 *     add ARRAY[{LIST}][I, ...] = V [limit I] [where NAME]      an integer added, in any order
 *     alloc register|worker|shared|global NAME: T[I, ...]
 *     tree NAME: OP T I [dims I, ...]      a reduction of I leaves in the fixed order (the
 *                                          canonical tree, see reduce.c: tiles of 1024 = 128 lanes
 *                                          of 8 rows, combined pairwise); with dims an array of
 *                                          such trees
 *     fold NAME: OP T N [dims I, ...]      one balanced tree of N = 2^k leaves, neighbours first
 *     push NAME[I, ..., LEAF] = V [limit I] [where NAME]
 *     combine NAME = TREE[I, ...] [count I]      of a fold, or of one of several trees: its first
 *                                          leaves at most so many, the others never come
 *     combine NAME = OP ALLOC[I, ...] count I    the tree over memory, along its first dim
 *     barrier warp | block | grid
 *     arrive [NAME =] COUNTERS[I] of I [by VALUE]   a block, or in a warp loop a warp, adds VALUE
 *                                          (default 1) to the counter; NAME: whether that makes
 *                                          it I (it is 0 again then). Without
 *                                          NAME, behind a grid loop: only the last block runs the
 *                                          nodes that follow
 *     prefetch ARRAY[{LIST}][I] count I [hint l1|l2|once]    l2: not to the first cache
 *
 * An array may be an ALLOC wherever nodes load and store. */
#ifndef LOCKSTEP_LOOP_H
#define LOCKSTEP_LOOP_H

/* ---- index.c: where an element is ----
 *
 * An index is a sum of integers times products of symbols. It is linear in the indices of loops; a
 * coefficient may be a product of sizes. Symbols are loops, sizes, and integers that a LET, a LOAD
 * or a COMBINE has bound. The terms are in the order of their symbols, which are in ascending order
 * within a term, and no two are of the same symbols: equal indices are equal term by term. */
typedef uint32_t SymbolId; /* in nest->symbols; 0: none */

enum { TERM_SYMBOLS_MAX = 12 };
typedef struct IndexTerm {
    int64_t factor;
    uint32_t count;
    SymbolId symbols[TERM_SYMBOLS_MAX];
} IndexTerm;
typedef struct Index {
    const IndexTerm *terms;
    size_t count;
} Index;

Index index_number(Arena *arena, int64_t number);
Index index_symbol(Arena *arena, SymbolId symbol);
Index index_add(Arena *arena, Index a, Index b);
Index index_subtract(Arena *arena, Index a, Index b);
Index index_multiply(Arena *arena, Index a, Index b); /* bug() where a product is too long */
Index index_scale(Arena *arena, Index a, int64_t factor);
/* What one step of the symbol adds: linear in it, so the symbol is in no coefficient. */
Index index_coefficient(Arena *arena, Index a, SymbolId symbol);
Index index_replace(Arena *arena, Index a, SymbolId symbol, Index by);
bool index_equal(Index a, Index b);
bool index_uses(Index a, SymbolId symbol);
bool index_is_number(Index a, int64_t *number); /* then gives it */

/* ---- the tree ---- */

typedef enum NamedKind {
    NAMED_NONE,
    NAMED_ARRAY,   /* declared at the top */
    NAMED_SIZE,    /* an integer, as bound */
    NAMED_DERIVED, /* an integer made of sizes */
    NAMED_LOOP,    /* its index, an integer */
    NAMED_VALUE,   /* of LET, LOAD, COMBINE, ARRIVE */
    NAMED_ALLOC,
    NAMED_TREE /* of TREE and FOLD */
} NamedKind;

/* A symbol: what a text calls by a name. Two symbols may have the same name; print.c makes them
 * different. */
typedef struct NestSymbol {
    const char *name;
    NamedKind kind;
    Type type; /* of a value; as stored, of the elements of an array or an ALLOC */
} NestSymbol;

typedef enum ArrayRole {
    ARRAY_IN,
    ARRAY_OUT,
    ARRAY_INOUT,
    ARRAY_TABLE,    /* integers that the runtime fills in: lengths of tensors, tiles of a list */
    ARRAY_TEMPORARY /* memory of the step that carries values from one kernel to another */
} ArrayRole;

typedef struct NestArray {
    SymbolId symbol;
    ArrayRole role;
    bool list;    /* one array a tensor */
    Index extent; /* elements; of a list: 0, as they differ */
    bool aliased; /* another array of the nest, to which it stores, may have the same memory */
} NestArray;

typedef struct NestDerived {
    SymbolId symbol;
    ValueId value;
} NestDerived;

typedef enum FactKind { FACT_MULTIPLE, FACT_EQUAL, FACT_ABSENT } FactKind;
typedef struct NestFact {
    FactKind kind;
    SymbolId symbol; /* a size; of ABSENT an array */
    int64_t number;
} NestFact;

/* Values are those of the value IR, in a function without axes: constants, operations, and these
 * two leaves. A name's payload is its symbol, an index's its number among nest->indices. */
enum { VALUE_NAME = OP_RUNNING, VALUE_INDEX = OP_POSITION };

typedef enum NestKind {
    NEST_LOOP,     /* name, loop, extent; body */
    NEST_IF,       /* extent: the amount; body where it is above 0, other elsewhere */
    NEST_WHEN,     /* where: a bool; body where it holds, other elsewhere */
    NEST_LET,      /* name = value */
    NEST_LOAD,     /* name = array{list}[at]; pad where there is no element */
    NEST_STORE,    /* array{list}[at] = value */
    NEST_ADD,      /* the same, added to what is there, as op, a scatter, does: in any order */
    NEST_ALLOC,    /* name, scope; at: its dims */
    NEST_TREE,     /* name, op, type; extent: its leaves; at: dims */
    NEST_FOLD,     /* the same */
    NEST_PUSH,     /* array: the tree; at: of dims, and last the leaf; value */
    NEST_COMBINE,  /* name; array: the tree, at: of dims; or an ALLOC, at, and extent: how many; in
                      global memory, if the op's order matters, the elements are undefined
                      afterwards */
    NEST_BARRIER,  /* scope */
    NEST_ARRIVE,   /* name, 0: whoever is last goes on; array, at[0]: the counter; extent: of;
                      without a name the array may be 0: one that a pass is yet to choose */
    NEST_PREFETCH, /* array{list}[at], extent: how many elements from there on */
    NEST_KIND_COUNT
} NestKind;
typedef enum LoopKind {
    LOOP_GRID,     /* iterations dealt to blocks, or to threads of a CPU, in any order */
    LOOP_WARP,     /* as many as the launch has */
    LOOP_LANE,     /* likewise; or several in each other, which are as many together */
    LOOP_SERIAL,   /* one after the other */
    LOOP_UNROLLED, /* likewise; a constant, at most 16 */
    LOOP_VECTOR,   /* as many as a vector has, or fewer; straight code, innermost */
    LOOP_KIND_COUNT
} LoopKind;
enum { UNROLLED_MAX = 16 };
typedef enum NestScope {
    SCOPE_REGISTER, /* each thread's own; its dims are of warp, lane, unrolled and vector loops */
    SCOPE_WORKER,   /* scratch of a CPU thread */
    SCOPE_SHARED,   /* of a block; its size a constant */
    SCOPE_GLOBAL,   /* partial results, in memory of the runtime's */
    SCOPE_WARP,     /* of a BARRIER alone, as BLOCK and GRID are */
    SCOPE_BLOCK,
    SCOPE_GRID,
    SCOPE_COUNT
} NestScope;
typedef enum NestHint {
    HINT_NONE,
    HINT_L1,
    HINT_L2,
    HINT_ONCE,
    HINT_NON_TEMPORAL,
    HINT_OWNED, /* of a store: its line is fetched for writing before the value is there */
    HINT_COUNT
} NestHint;

extern const char *const nest_kind_names[NEST_KIND_COUNT], *const nest_loop_names[LOOP_KIND_COUNT];
extern const char *const nest_scope_names[SCOPE_COUNT], *const nest_hint_names[HINT_COUNT];
extern const char *const nest_role_names[5];

typedef struct NestNode NestNode;
struct NestNode {
    NestKind kind;
    LoopKind loop;
    NestScope scope;
    NestHint hint;
    Op op;         /* of TREE, FOLD, COMBINE over memory: a reduction; of ADD: a scatter; else
                      OP_NONE */
    Type type;     /* of the leaves of TREE and FOLD */
    SymbolId name; /* what it defines */
    SymbolId array, list;
    Index *at;
    size_t at_count;
    Index extent, limit;
    bool has_limit; /* an element exists where limit > 0 */
    SymbolId where; /* and where this bool holds; 0: everywhere */
    ValueId value, pad;
    bool version; /* of IF: both bodies come to the same */
    Range range;  /* of the source */
    NestNode *body, *other, *next;
};

typedef struct Nest {
    Compiler *compiler;
    Arena *arena;
    const char *name;
    uint32_t warps, lanes, width;
    int64_t max_tiles;   /* the tiles of a row for which shared memory has room; 0: any number */
    NestSymbol *symbols; /* symbols[0] unused */
    size_t symbol_count, symbol_capacity;
    Index *indices; /* that values use */
    size_t index_count, index_capacity;
    Function *values;
    NestArray *arrays;
    size_t array_count, array_capacity;
    SymbolId *sizes;
    size_t size_count, size_capacity;
    NestDerived *derived;
    size_t derived_count, derived_capacity;
    NestFact *facts;
    size_t fact_count, fact_capacity;
    NestNode *body;
} Nest;

/* nest.c: building. */
/* `functions`: where calls find theirs; may be NULL. */
Nest *nest_open(Compiler *compiler, Arena *arena, const char *name, const Function *functions);
SymbolId nest_symbol(Nest *nest, const char *name, NamedKind kind, Type type);
SymbolId nest_array(Nest *nest, const char *name, Type type, ArrayRole role, bool list,
                    Index extent);
SymbolId nest_size(Nest *nest, const char *name);
SymbolId nest_derived(Nest *nest, const char *name, ValueId value);
void nest_fact(Nest *nest, NestFact fact);
ValueId nest_name(Nest *nest, SymbolId symbol);    /* the value it has: a number or a bool */
ValueId nest_index_value(Nest *nest, Index index); /* as an i64 */
const Index *nest_index_of(const Nest *nest, const Value *value); /* of a VALUE_INDEX */
/* A node behind the last one that was added at *end; gives the place for the next. */
NestNode *nest_add(Nest *nest, NestNode ***end, NestNode node);
Index *nest_at(Nest *nest, size_t count);    /* memory for that many subscripts */
Index *nest_subscript(Nest *nest, Index at); /* one */
/* The nest as it is, with nodes of its own, so that a pass may change them. */
NestNode *nest_copy(Arena *arena, const NestNode *node);
/* Whether the value is made of the symbol. */
bool nest_value_uses(const Nest *nest, ValueId value, SymbolId symbol);

/* print.c, read.c: as text, and back. Printing what was read gives the same text. */
void nest_print(const Nest *nest, Text *out);
void nest_print_node(const Nest *nest, const NestNode *node, Text *out); /* its line alone */
/* The operations that stand between their operands; every other one is spelled NAME(...). */
typedef struct NestOperator {
    Op op;
    const char *text;
    int level; /* a higher one binds tighter; those of NEST_COMPARISON do not chain */
} NestOperator;
enum { NEST_COMPARISON = 3 };
extern const NestOperator nest_operators[];
extern const size_t nest_operator_count;
extern const char
    nest_nonpositive[];         /* behind the name of such an exponential: ir_is_nonpositive */
bool nest_has_operation(Op op); /* whether values of a nest are made by it */
bool nest_is_word(const char *text, size_t size); /* true, inf ...: no name */
/* What a reduction wants of the type of its leaves, or NULL and the type of its result. */
const char *nest_reduction_problem(Op op, Type leaves, Type *result);
/* NULL after diagnostics; the text is a source of the compiler. */
Nest *nest_read(Compiler *compiler, Arena *arena, uint32_t source);

/* read_value.c: what stands in a line. Each function gives false after a diagnostic, or where a
 * name's own line had an error. */
typedef struct NestWord {
    const char *text;
    size_t size;
} NestWord;
typedef struct NestName {
    NestWord word;
    SymbolId symbol; /* 0: its line had an error, so lines that use it are passed over */
    Op op;           /* of a TREE and a FOLD */
} NestName;
typedef struct NestReader {
    Compiler *compiler;
    Nest *nest;
    const char *start, *at, *line;
    uint32_t file;
    NestName *names;
    size_t name_count, name_capacity;
    int operations; /* of the value that is read */
} NestReader;
NestWord nest_peek(NestReader *r); /* of size 0 at the end of a line */
NestWord nest_take(NestReader *r);
bool nest_is(NestWord word, const char *text);
bool nest_fail(NestReader *r, NestWord found, const char *expected);
bool nest_accept(NestReader *r, const char *text);
bool nest_expect(NestReader *r, const char *text);
bool nest_refuse(NestReader *r, NestWord place, ErrorCode code, const char *what,
                 const char *problem);
bool nest_read_type(NestReader *r, Type *type);
bool nest_read_integer(NestReader *r, const char *what, int64_t max, int64_t *number);
bool nest_read_choice(NestReader *r, const char *const *words, int first, int count,
                      const char *what, int *choice);
/* A name that is defined here, and one that a line above has defined. */
bool nest_read_new(NestReader *r, NestWord *word);
bool nest_read_name(NestReader *r, unsigned kinds, const char *what, NestName *name);
bool nest_read_index(NestReader *r, Index *index);
bool nest_read_value(NestReader *r, ValueId *value);

/* check.c: the rules that every nest obeys at any time. NULL, or a text that says which node breaks
 * which rule. */
const char *nest_problem(const Nest *nest);
void nest_check(const Nest *nest); /* bug() on a problem */

/* reduce.c: what is made of leaves, which are overwritten: the canonical tree, and one balanced
 * fold of a power of two. Of argmin and argmax the number of the leaf. Integers saturate to the
 * bounds that stand for infinity. */
bool nest_is_ordered(Op op, Type type); /* combining rounds: its order matters */
uint64_t nest_identity(Op op, Type type);
uint64_t nest_reduce(Op op, Type type, uint64_t *leaves, size_t count);
uint64_t nest_fold(Op op, Type type, uint64_t *leaves, size_t count);

/* run.c: a nest as the sequential program it is, on memory of the host. Warp, lane, unrolled and
 * vector loops run as points side by side, grid loops as three blocks in an order that `seed`
 * picks; what stands outside of grid loops every block does. It stops where the result would not be
 * defined: an index out of range, two writers of an element, a read of what nobody wrote or of what
 * another thread or block wrote and no barrier orders, a leaf pushed twice or never, a barrier that
 * not all reach. */
typedef struct NestBinding {
    SymbolId symbol;       /* an array, or a size */
    void *data;            /* of an array: its elements; of a list: void *[tensors] */
    const int64_t *counts; /* elements: one, or of a list one a tensor */
    size_t tensors;
    bool written; /* of an out: by an earlier kernel */
    int64_t size;
} NestBinding;
typedef void (*NestCall)(const uint64_t *arguments, uint64_t *result);
typedef struct NestRun {
    const NestBinding *bindings;
    size_t binding_count;
    const NestCall *calls; /* of imported C functions, by number; NULL: none */
    uint64_t seed;
} NestRun;
/* NULL, or why it stopped. */
const char *nest_run(const Nest *nest, const NestRun *run);

/* ---- what run.c and run_tree.c share ---- */

/* Who touched an element last, and when. A thread is numbered in its block; -2 - w is one lane of
 * warp w for all of them, EVERYONE one thread of the block for all. */
typedef struct Access {
    uint32_t phase, epoch, warp_epoch; /* 0: never */
    int32_t block, thread;
} Access;
typedef struct Cell {
    Access written, read;
    uint64_t store; /* the store of the run that wrote it */
    bool set;
} Cell;

/* Elements with one history: an array, a tensor of a list, an ALLOC with all its instances. */
typedef struct Memory {
    void *data; /* of an array: its storage; of an ALLOC: uint64_t */
    int64_t count;
    Cell *cells;
    bool owned;    /* an ALLOC's */
    bool global;   /* of all blocks */
    bool private;  /* of a thread */
    int32_t block; /* of shared memory: whose */
} Memory;

typedef struct Tree {
    Op op;
    Type type;
    bool fold;
    size_t leaves, cells;
    uint64_t *data;
    uint8_t *pushed;
} Tree;

typedef struct Points {
    size_t count;
    /* By symbol: what it is at each point; of an ALLOC or TREE the instance. What has a value
     * outside gets it here when it is first asked for. */
    uint64_t **values;
    const struct Points *outside; /* NULL: these are the outermost */
    const size_t *origin; /* by point: which of those outside it is made of; NULL: that of its
                             number */
    Arena *arena;
    int32_t *warp, *lane; /* NULL: outside of such loops */
    bool split;           /* not all threads are here */
} Points;

typedef struct Run {
    const Nest *nest;
    const NestRun *job;
    Arena *arena;    /* of the run */
    Memory **memory; /* by symbol: of a list one a tensor */
    size_t *tensors; /* by symbol: of a list, how many; else 1 */
    Tree *trees;     /* by symbol */
    int64_t **dims;  /* by symbol of an ALLOC or a TREE */
    uint64_t random;
    uint32_t phase, epoch, warp_epoch;
    uint64_t stores; /* so far: all points at once are one */
    int32_t block;
    const char *problem;
} Run;

/* Keeps the first problem, with the node it is at; false. */
bool run_stop(Run *run, const NestNode *node, const char *format, ...) PRINTF_LIKE(3, 4);
const char *run_name(const Run *run, SymbolId symbol);
int32_t run_thread(const Run *run, const Points *points, size_t point);
/* What a symbol, an index and a value are at a point; false after a problem. */
bool run_symbol(Run *run, const Points *points, size_t point, SymbolId symbol, uint64_t *value);
bool run_index(Run *run, const Points *points, size_t point, Index index, int64_t *value);
bool run_value(Run *run, const Points *points, size_t point, ValueId id, uint64_t *bits);
/* By point: whether the node takes part there: its limit and its condition. NULL after a problem.
 */
bool *run_live(Run *run, Arena *arena, const Points *points, const NestNode *node);
/* The element that a node means at a point; false after a problem. */
bool run_cell(Run *run, const Points *points, size_t point, const NestNode *node, Memory **memory,
              int64_t *at);
bool run_reads(Run *run, const NestNode *node, SymbolId array, Cell *cell, int32_t thread,
               int64_t at);
uint64_t run_element(const Run *run, SymbolId array, const Memory *memory, int64_t at);
/* Room for what the name is at each point, which it is from now on. */
uint64_t *run_define(Run *run, Arena *arena, Points *points, SymbolId name);
/* The extents at the points, which are the same for all; -1 after a problem. */
int64_t run_find_dims(Run *run, const NestNode *node, const Points *points, int64_t *dims);
bool run_tree(Run *run, const NestNode *node, Points *points, Arena *arena);
bool run_push(Run *run, const NestNode *node, Points *points, Arena *arena);
bool run_combine(Run *run, const NestNode *node, Points *points, Arena *arena);

/* ---- passes: each changes the nest, or gives the reason why it cannot and leaves it ---- */

/* rewrite.c: for passes. */
ValueId nest_value_replace(Nest *nest, ValueId value, SymbolId symbol, Index by);
void nest_replace(Nest *nest, NestNode *body, SymbolId symbol, Index by); /* in place */
/* The body with the index in the place of the loop's: by a LET where it has to be a name. */
NestNode *nest_put_index(Nest *nest, NestNode *body, SymbolId loop, Index index);
NestNode *nest_clone(Nest *nest, const NestNode *body); /* what it defines has new symbols */
NestNode **nest_find(NestNode **body, SymbolId name);   /* where the node stands; NULL: nowhere */
bool nest_has(const NestNode *body, NestKind kind);
bool nest_is_long(const NestNode *body); /* too many nodes for copies: no main and tail of it */
/* Whether a body stores or adds to the array; and whether it does anything else with it, or adds.
 */
bool nest_stores_to(const NestNode *body, SymbolId array);
bool nest_reads(const NestNode *body, SymbolId array);
/* The first node of the body that combines the tree, or NULL. */
NestNode *nest_find_combine(NestNode *body, SymbolId tree);
/* Whether the value has draws of random numbers, or calls. */
bool nest_value_draws(const Nest *nest, ValueId value);
/* Whether the value may be another one in each iteration of the loop, whose body is straight. */
bool nest_value_varies(const Nest *nest, const NestNode *loop, ValueId value);
/* Whether the body pushes to the tree ahead of the node `end`. */
bool nest_pushes_ahead(const NestNode *body, const NestNode *end, SymbolId tree);
bool nest_is_of_sizes(const Nest *nest, Index index); /* known at the launch */
/* The loop has at most 1024 iterations: by a number, or as nest_strip binds it. */
bool nest_is_tile_long(const Nest *nest, const NestNode *loop);
/* The extent divided, rounded up or down: derived where it is of sizes, else a LET that is added.
 */
Index nest_ceiling(Nest *nest, NestNode ***end, Index extent, int64_t divide, const char *name);
Index nest_floor(Nest *nest, NestNode ***end, Index extent, int64_t divide, const char *name);
/* A loop with the body; an IF with it. */
NestNode *nest_around(Nest *nest, LoopKind kind, SymbolId name, Index extent, NestNode *body);
NestNode *nest_only_where(Nest *nest, Index amount, NestNode *body);

/* uses.c: whether a body uses the symbol; whether a node with its bodies uses any of a set, which
 * has a place for each symbol there is; how often a body, or one node, uses each symbol, added to
 * the counts or taken off. For sets and counts the array that a STORE writes is not used. */
bool nest_body_uses(const Nest *nest, const NestNode *body, SymbolId symbol);
bool nest_uses_any(const Nest *nest, const NestNode *node, const bool *any);
void nest_count_uses(const Nest *nest, const NestNode *body, uint32_t *counts);
void nest_add_uses(const Nest *nest, const NestNode *node, uint32_t *counts);
void nest_drop_uses(const Nest *nest, const NestNode *node, uint32_t *counts);

/* make.c: indices and nodes, for schedules and passes. A node goes behind the last one that was
 * added at *end; with a second subscript it is of two dims. */
Index make_number(Nest *nest, int64_t n);
Index make_symbol(Nest *nest, SymbolId symbol);
Index make_add(Nest *nest, Index x, Index y);
Index make_less(Nest *nest, Index x, Index y);
Index make_times(Nest *nest, Index x, Index y);
Index make_scale(Nest *nest, Index x, int64_t factor);
Index *make_at(Nest *nest, Index first, const Index *second);
SymbolId make_loop_name(Nest *nest, const char *name);
ValueId make_constant(Nest *nest, int64_t n); /* an i64 */
ValueId make_value(Nest *nest, Op op, Index x, Index y);
SymbolId make_let(Nest *nest, NestNode ***end, const char *name, Type type, ValueId value);
Index make_let_index(Nest *nest, NestNode ***end, const char *name, ValueId value);
/* The lesser of a number and an index; the index divided, and what is left of it in *rest. */
Index make_let_min(Nest *nest, NestNode ***end, const char *name, int64_t max, Index x);
Index make_let_divided(Nest *nest, NestNode ***end, const char *const names[2], Index x, Index by,
                       Index *rest);
void make_store(Nest *nest, NestNode ***end, SymbolId array, Index at, const Index *second,
                ValueId value);
void make_load(Nest *nest, NestNode ***end, SymbolId name, SymbolId array, Index at,
               const Index *second);
/* `leaf`: of a tree with a dim, else the first subscript is the leaf. */
NestNode *make_push(Nest *nest, NestNode ***end, SymbolId tree, Index first, const Index *leaf,
                    ValueId value);
NestNode *make_combine(Nest *nest, NestNode ***end, SymbolId name, SymbolId tree, const Index *at,
                       Index count);
SymbolId make_alloc(Nest *nest, NestNode ***end, NestScope scope, const char *name, Type type,
                    Index extent);
void make_append(NestNode ***end, NestNode *body);

/* coalesce.c: the loop and the only one in it as one; with `divide` also where an index then takes
 * a division. */
const char *nest_coalesce(Nest *nest, SymbolId loop, bool divide);

/* deal.c: the iterations of a loop, which are independent, to warps, to as many warps at least, or
 * to the lanes of all warps. */
typedef enum NestDeal { DEAL_WARPS, DEAL_ONCE, DEAL_LANES } NestDeal;
const char *nest_deal(Nest *nest, SymbolId loop, NestDeal to);

/* strip.c: the loop as one over strips of so many iterations around one over those of a strip,
 * which keeps the loop's index and is given in *inner unless that is NULL. */
const char *nest_strip(Nest *nest, SymbolId loop, int64_t size, SymbolId *inner);

/* vectorize.c: the loop of that body as one over vectors of the nest's width, which is given in
 * *vectors unless that is NULL, around a vector loop. */
const char *nest_vectorize(Nest *nest, NestNode **body, SymbolId loop, SymbolId *vectors);

/* interchange.c: a serial loop of independent iterations, at most so many, inside of the loops that
 * are in it. */
const char *nest_interchange(Nest *nest, SymbolId loop, int64_t max);

/* tile.c: the loop as tiles of 1024, as the tree has them. */
typedef struct TileNumbers {
    LoopKind kind;  /* of the loop over tiles: SERIAL, GRID, or WARP: a tile a warp at a time */
    bool single;    /* there is one tile at most: no such loop */
    bool once;      /* of WARP: there are as many tiles as warps at most, so no such loop */
    uint32_t rows;  /* single: 1, 2, 4 or 8 rows of 128, which hold all elements */
    uint32_t width; /* elements of a vector, at most the nest's; 0: as many as that */
    bool alone;     /* a thread takes all of a tile, element by element; threads lie along others */
    bool scattered; /* accesses need not be contiguous along the loop; the caller guarantees that
                       iterations write distinct elements */
} TileNumbers;
const char *nest_tile(Nest *nest, SymbolId loop, const TileNumbers *numbers);

/* place_tree.c: the tree as folds along its loops: eight rows in registers, or a half of them in
 * each half of the lanes; 128 lanes, and such halves, across lanes and vectors; the values of tiles
 * in memory of the scope (REGISTER: there is one tile at most). */
const char *nest_place_tree(Nest *nest, SymbolId tree, NestScope scope);

/* tile_tree.c: the tree of a row, pushed to in a loop over a tile's elements, as one of each tile
 * and, in memory of the scope, one of what these come to. */
const char *nest_tile_tree(Nest *nest, SymbolId tree, NestScope scope);

/* two_trees.c: argmin, argmax or logsumexp, pushed to in a loop over a tile's elements, as two
 * trees that are made of pairs of their leaves; what they are for each tile in memory of the scope
 * (REGISTER: there is one tile at most). */
const char *nest_two_trees(Nest *nest, SymbolId tree, NestScope scope);
/* The same where a schedule has loops of its own: which two trees these are; a leaf of the second
 * at its number, of the first one's value as its base; a value of the second under the first one's
 * `top` instead of `own`; and what the two make, of so many leaves. */
bool nest_is_two_trees(Op which);
Op nest_tree_of_two(Op which, bool second);
Type nest_second_type(Op which, Type leaves);
ValueId nest_second_base(Nest *nest, Op which, Type leaves, ValueId extremum);
ValueId nest_second_leaf(Nest *nest, Op which, Type leaves, ValueId value, ValueId base,
                         Index leaf);
ValueId nest_second_under(Nest *nest, Op which, Type leaves, ValueId second, ValueId own,
                          ValueId extremum);
ValueId nest_value_of_two(Nest *nest, Op which, Type leaves, ValueId extremum, ValueId second,
                          Index count);

/* peel.c: index-set splitting of a serial loop that compares its index with values that do not vary
 * in it: the loop with the comparisons taken as false, and after it, for each comparison, the one
 * iteration for which it is true, if the loop has it (`!=`: the other way round). */
const char *nest_peel(Nest *nest, SymbolId loop);

/* split_index.c: index-set splitting of a serial loop by comparisons of its index with what does
 * not vary in it: a part in which the answer makes it do less becomes a loop of its own; the other
 * part ends at a multiple of so many iterations. nest_split_indices: of all loops of the body.
 * nest_split_version: of the test of nest_version; the version for whole strips requires the answer
 * with which its loops do all that they do. */
const char *nest_split_index(Nest *nest, SymbolId loop, int64_t multiple);
void nest_split_indices(Nest *nest, NestNode **body, int64_t multiple);
void nest_split_version(Nest *nest, NestNode **test);

/* align.c: alignment peeling: a serial loop of straight code that stores along rows as one over the
 * elements ahead of the first boundary of a vector, which is given in *ahead unless that is NULL,
 * and one from there on. */
const char *nest_align(Nest *nest, SymbolId loop, SymbolId *ahead);

/* narrow.c: comparisons of a tile's indices with what does not vary in a loop over lanes, in 32
 * bits.
 */
void nest_narrow(Nest *nest, NestNode *body);

/* unswitch.c: of loops that store where one condition holds alone: all that is under it, in one
 * test in the innermost loops from `loop` on (whether there was any); such tests, and conditions of
 * stores, as tests around loops in which they do not vary. */
bool nest_sink(Nest *nest, NestNode *loop);
void nest_unswitch(Nest *nest);
/* hoist.c: what does not vary in a serial, unrolled or vector loop, once ahead of it. */
void nest_hoist(Nest *nest);

/* load_first.c: all loads of an unrolled loop before what uses them. */
const char *nest_load_first(Nest *nest, SymbolId loop);

/* pipeline.c: the loads of a serial loop's next iteration ahead of what this one computes. */
const char *nest_pipeline(Nest *nest, SymbolId loop);

/* keep.c: scalar replacement: what several loops load alike is loaded once and kept in at most
 * `registers` 32-bit registers per thread. */
void nest_keep(Nest *nest, int64_t registers);

/* promote.c: register promotion: of arrays of which each iteration of a serial loop loads and
 * stores the same elements, these are in registers over all iterations. Gives how many arrays are,
 * which are marked in `promoted`, by symbol, unless that is NULL. */
size_t nest_promote(Nest *nest, SymbolId loop, bool *promoted);

/* merge_tests.c: neighbouring tests of one condition as one. */
void nest_merge_tests(Nest *nest);

/* forward.c: loads of what the same body has just stored or loaded as those values; and stores to
 * an array without those, unless the nest loads from it: false. */
void nest_forward(Nest *nest);
bool nest_drop_stores(Nest *nest, SymbolId array);

/* order_accesses.c: barriers of the scope between accesses to the array that conflict, in one
 * iteration of the loop: for arrays of which a thread reads what another one has. */
void nest_order_accesses(Nest *nest, SymbolId loop, SymbolId array, NestScope scope);

/* merge_barriers.c: redundant barrier elimination. Ahead of guard_reuse. */
void nest_merge_barriers(Nest *nest);

/* guard_reuse.c: the barriers that reuse of shared memory by a loop's next iteration needs. */
void nest_guard_reuse(Nest *nest);

/* jam.c: an unrolled loop as serial steps of so many iterations, side by side. */
const char *nest_jam(Nest *nest, SymbolId loop, int64_t by);

/* skip_empty.c: iterations of the loop that lie all beyond the limit only push identities. */
const char *nest_skip_empty(Nest *nest, SymbolId loop);

/* trim.c: a serial loop that a test of skip_empty begins ends where that fails; the folds that it
 * pushes to have fewer leaves. */
const char *nest_trim(Nest *nest, SymbolId loop);

/* split_tail.c: main and tail of a loop over tiles or of warps with a tile each. A limit is a
 * bounds predicate, a mask: the element exists where it is above 0. Iterations in which every limit
 * holds run a copy of the body without limits, the others the body as it was. */
const char *nest_split_tail(Nest *nest, SymbolId loop);

/* version.c: loop versioning: tests in a loop over strips whether the strip is full; in the copy of
 * the body for full strips the trip count is a constant. Gives the test in *test unless that is
 * NULL. */
const char *nest_version(Nest *nest, SymbolId loop, NestNode **test);

/* quotients.c: a serial loop that divides its index as one over the quotients around one over the
 * iterations of each, which is given in *inner unless that is NULL. */
const char *nest_quotients(Nest *nest, SymbolId loop, SymbolId *inner);

/* sweep.c: drops values that nobody uses; of a body, outside of which its values are not used.
 * tidy.c: loops of one iteration, tests that are decided.
 */
void nest_sweep(Nest *nest);
void nest_sweep_body(Nest *nest, NestNode **body);
void nest_tidy(Nest *nest);

#endif
