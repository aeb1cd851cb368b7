/* check.h: what the files of the checker share. check.c has items and statements,
 * check_axes.c axes, their sizes and indices, check_expression.c names and operators, check_call.c
 * functions, check_reduce.c reductions, check_index.c x[b, i], check_scan.c scan and cumsum,
 * check_grad.c derivatives, check_backward.c those of whole steps, check_step_call.c steps in
 * steps, check_when.c `when`, check_random.c draws, module.c imports, import_c*.c and
 * check_c_call.c C functions, convert.c types and constants, scope.c names. */
#ifndef CHECK_H
#define CHECK_H

enum {
    NESTING_MAX = 1200,     /* of expressions, through the functions they call: bounds recursion */
    INSTANCES_MAX = 1 << 15 /* of the fns of a file */
};

/* ---- scope.c ---- */
typedef enum SymbolKind {
    SYMBOL_BROKEN, /* unknown or damaged, and reported: silent from then on */
    SYMBOL_CONST,
    SYMBOL_AXIS,
    SYMBOL_PARAMETER,
    SYMBOL_LET,
    SYMBOL_ARGUMENT,
    SYMBOL_FN,
    SYMBOL_STEP,
    SYMBOL_BUILTIN,
    SYMBOL_RUNNING,
    SYMBOL_C,        /* a function of a C header */
    SYMBOL_IMPORT,   /* a file imported `as` this name */
    SYMBOL_AMBIGUOUS /* two imports have it, and it was not used yet */
} SymbolKind;

typedef struct Checker Checker;
typedef struct Builtin Builtin;
typedef Typed *CheckCall(Checker *c, const Node *node, const Builtin *builtin);
struct Builtin {
    const char *name;
    CheckCall *check;
    uint8_t least, most;
    bool f64;
    Op op;
};

/* A function of a C header: importable, or why not. */
typedef struct CSymbol {
    const Name *name;
    Range range, place;  /* place: of the problem */
    const char *problem; /* NULL: none */
    int number;          /* in c_functions */
    bool active;         /* being looked at */
    bool partners;       /* its derivatives are found */
    struct Scope *scope; /* of its header's functions */
} CSymbol;

enum { CONST_UNTOUCHED, CONST_ACTIVE, CONST_DONE }; /* the state of a const */

typedef struct Symbol {
    const Name *name;
    Range range;
    uint8_t kind;
    uint8_t state;   /* of a const: how far it is computed; of a fn: whether it was called */
    uint32_t number; /* of an axis, parameter or argument */
    Item *item;
    Let *let;
    Typed *value;
    const Builtin *builtin;
    Unit *unit; /* of an import */
    CSymbol *c;
    struct Symbol *origin;  /* in a scope of imported names: the symbol itself */
    struct Symbol *another; /* of an ambiguous name */
    struct Symbol *chain, *next;
} Symbol;

typedef struct Scope {
    Arena *arena;
    struct Scope *parent;
    Symbol **buckets;
    size_t bucket_count, count;
    Symbol *first;
    bool is_block; /* of a branch: it binds no name again that is bound around it */
} Scope;
void scope_open(Scope *scope, Arena *arena, Scope *parent);
Symbol *scope_find_here(const Scope *scope, const Name *name);
/* Also in the parents; of an imported name, the symbol in the file that defines it. */
Symbol *scope_find(const Scope *scope, const Name *name);
Symbol *scope_add(Scope *scope, const Name *name, Range range, SymbolKind kind);
const char *symbol_describe(const Symbol *symbol); /* "a parameter" */
/* Of the names in `scope` and its parents whose kind is in `kinds` (bits), the one that is likely
 * meant. */
const char *scope_suggest(const Scope *scope, const Name *name, unsigned kinds);
/* For a name that other languages have: what it is here. */
const char *other_spelling(const Name *name);

/* ---- module.c: the files ---- */

/* A file: its own names, and behind them those it imports, which are the own names of the imported
 * files and what those import. Qualified imports stand apart, in `qualifiers`. */
struct Unit {
    const char *path; /* as messages call it */
    uint32_t file;
    uint64_t device, inode; /* of a file on disk; 0: none */
    bool is_c;              /* a C header */
    bool is_library;        /* of the standard library, whose files are in the compiler */
    bool active;            /* its imports are being read */
    bool incomplete;        /* a file it imports was not read: an unknown name is not reported */
    Item *items;
    Item *import; /* which brought it in first; NULL: the main file */
    Scope constants, functions, imported_constants, imported_functions, qualifiers;
    Unit **imports; /* those without a name */
    size_t import_count, import_capacity;
    bool listed;
    Unit *importer, *next; /* next: in the order in which they are complete */
};
/* Reads a file and all it imports, and declares their items. */
Unit *units_read(Checker *c, const char *path, const char *text, size_t size);
/* The symbol for `name` or `qualifier.name` among values or functions; NULL: there is none. A name
 * that two imports have, and an unknown qualifier, are reported and give a broken symbol. */
Symbol *find_value(Checker *c, const Name *qualifier, const Name *name, Range range);
Symbol *find_function(Checker *c, const Name *qualifier, const Name *name, Range range);
/* What to import for a function or step of the standard library; NULL: it has none of this name. */
const char *library_home(Checker *c, const Name *name);
/* Says that the file imported as `qualifier` has no `name`. */
void unknown_member(Checker *c, const Name *qualifier, const Name *name, Range range);

/* ---- the checker ---- */
typedef struct When When;
struct When {
    const Typed *condition;
    size_t known; /* how many parameters and locals there are outside of it */
    const When *outer;
};

/* A step whose body is checked as part of another one. */
typedef struct StepCall {
    const Item *item;
    Range range;
    AxisSet axes; /* of the caller, that are axes of the callee */
    const struct StepCall *outer;
} StepCall;

struct Checker {
    Compiler *compiler;
    Arena *arena;
    Names *names;
    Scope builtins;
    Symbol broken; /* stands for names that are reported */
    Unit *unit;    /* the file whose names are meant here */
    Unit *units, *last_unit;
    Unit *c_unit;           /* the C header that is being read */
    CFunction *c_functions; /* of all headers, those that are importable */
    size_t c_function_count, c_function_capacity;
    Scope *scope; /* of values, here */
    Step *step;   /* NULL outside of steps */
    Body *body;
    Block *block;         /* of statements, here */
    uint32_t *draws;      /* how many there are so far, in the step or fn that writes them */
    struct Drawn *drawn;  /* those of the step, the latest first: check_random.c */
    const When *when;     /* around this */
    Scope closed;         /* names of branches that are closed */
    Body outside;         /* of what stands in no step and no fn */
    Instance *instance;   /* NULL outside of fns */
    const StepCall *call; /* NULL outside of inlined steps */
    uint32_t level;       /* of the recursion */
    uint32_t indexing;    /* above 0 inside x[...]: an axis name is its own coordinate */
    Typed *running;       /* of the scan whose expression this is, or NULL */
    uint32_t scanning;    /* how many scans are around this */
    Instance **buckets;
    size_t instance_count, bucket_count;
    bool exhausted; /* there are too many instances: that is reported once */
    Typed error;
};

/* As diagnose(), with notes that say how the fn around it was called. */
bool complain(Checker *c, ErrorCode code, Range range, ...);

/* convert.c */
typedef enum Accept {
    ACCEPT_BOOL = 1,
    ACCEPT_INT = 2,
    ACCEPT_FLOAT = 4,
    ACCEPT_NUMBER = ACCEPT_INT | ACCEPT_FLOAT,
    ACCEPT_ANY = ACCEPT_BOOL | ACCEPT_NUMBER,
    ACCEPT_OPEN = 8 /* an `if` of constants may stay untyped: its consumer decides */
} Accept;
Typed *typed_new(Checker *c, TypedKind kind, int type, AxisSet axes, Range range);
Typed *typed_constant(Checker *c, int type, uint64_t bits, Range range);
/* An operation on operands of the right types; computed here when they are constants. */
Typed *typed_op(Checker *c, Op op, int type, Typed *a, Typed *b, Typed *d, uint64_t payload,
                Range range);
Typed *typed_cast(Checker *c, Typed *a, int type); /* an explicit conversion to a compute type */
/* A written conversion to any type: to a storage type the one rounding, without the storing. */
Typed *typed_convert(Checker *c, Typed *a, Type type);
bool is_error(const Typed *a);
bool is_constant(const Typed *a);
bool is_untyped(const Typed *a);
Typed *settle(Checker *c, Typed *a);
char type_class(int type); /* 'F' 'S' 'U' 'B', of untyped constants too */
const char *type_name(int type);
const char *describe(Checker *c, const Typed *a);    /* "f32[b, k]" */
const char *describe_axes(Checker *c, AxisSet axes); /* "[b, k]" */
/* Brings the operands of `what` to one type, by LANGUAGE.md's rules, and gives it; TYPE_NONE after
 * an error, which is at `at`, or at the operand where at.file is 0. */
int unify(Checker *c, Typed **operands, size_t count, Accept accept, Range at, const char *what);
/* The conversions that need not be written: of an argument to a compute type, or of a store to a
 * type of arrays. `target` is what messages call it. */
Typed *convert_argument(Checker *c, Typed *a, Type type, const char *target);
Typed *convert_store(Checker *c, Typed *a, Type storage, const char *target);

/* check_expression.c */
Typed *check_expression(Checker *c, const Node *node);
Typed *check_binary(Checker *c, TokenKind token, Typed *a, Typed *b, Range at, Range range);
Typed *check_power(Checker *c, Typed *a, Typed *b, Range at, Range range);
Typed *check_const(Checker *c, Symbol *symbol);
Typed *read_symbol(Checker *c, Symbol *symbol, Range range);
Typed *unknown_name(Checker *c, const Name *name, Range range);

/* check_call.c */
CheckCall check_number, check_float;
Typed *check_call(Checker *c, const Node *node);
Typed *unknown_function(Checker *c, const Node *node);
/* A call of the file's function on these values, which may be errors. */
Typed *call_fn_on(Checker *c, const Node *node, const Item *fn, Typed **arguments);
/* The arguments of a call, checked; true when they are as many as wanted and right. */
bool check_list(Checker *c, const Node *node, const char *name, size_t least, size_t most,
                Typed **arguments);
void builtins_open(Checker *c);
const Builtin *find_builtin(Checker *c,
                            const Name *name); /* NULL where a user's function hides it */
/* The arguments, checked; false after an error in or about them. */
bool check_arguments(Checker *c, const Node *node, const Builtin *builtin, Typed **arguments);
bool check_f64(Checker *c, const Builtin *builtin, int type, Range range);
void check_fn_alone(Checker *c, const Item *fn); /* names only, where nothing calls it */

/* check_axes.c */
AxisSet with_parents(const Checker *c, AxisSet axes);
AxisSet with_blocks(const Checker *c, AxisSet axes);    /* q and k for the n of `as (q, k = 256)` */
AxisSet without_blocks(const Checker *c, AxisSet axes); /* n for its q and k, if both are there */
AxisSet list_axis(const Checker *c, AxisSet axes); /* on which one of the set hangs; 0: on none */
AxisSet all_axes(const Checker *c);
const char *describe_listed(Checker *c, AxisSet axes); /* "[t, n]", the axes as they are */
/* True after an error: the axes are those of two lists. */
bool refuse_two_lists(Checker *c, AxisSet axes, Range range, const char *what, bool is_value);
bool check_axes(Checker *c, const Item *item); /* false after an error */
void check_axes_used(Checker *c);
bool parameter_axes(Checker *c, const Entry *parameter, AxisSet *declared);
/* Adds an axis to a list as written; false after an error: it is there already. */
bool add_listed(Checker *c, uint32_t axis, Range range, AxisSet *listed);
/* False after an error: `axis` is listed and what it hangs on is not. */
bool require_parents(Checker *c, AxisSet listed, uint32_t axis, Range range);
Symbol *find_axis(Checker *c, const Node *node, const char *function); /* NULL after an error */
Typed *size_of_axis(Checker *c, uint32_t axis, Range range);
Typed *index_of_axis(Checker *c, uint32_t axis, Range range);
CheckCall check_size, check_index;

/* check_reduce.c */
CheckCall check_reduce, check_extremum, check_mean, check_norm, check_count;

/* check_index.c */
Typed *check_indexing(Checker *c, const Node *node); /* x[b, target] */

/* check_scan.c */
CheckCall check_scan, check_cumsum;
Typed *read_running(Checker *c, const Symbol *symbol, Range range);
/* True after an error: `a` varies with the running value of a scan, which `what` cannot take. */
bool refuse_running(Checker *c, const Typed *a, const char *what);

/* check_grad.c */
CheckCall check_grad;
Typed *check_prime(Checker *c, const Node *node); /* f'(x) */
/* The gradient of `value` by `target`, with the upstream gradient `from` or NULL. */
Typed *gradient(Checker *c, Typed *value, Typed *target, Typed *from, Range range);
/* `let a, b = grad(e, x, y)`: `count` values; false after an error. */
bool check_gradients(Checker *c, const Node *node, size_t count, Typed **results);

/* check_step_call.c: the body of a step as part of the one that calls it. `results`: what the
 * `out`s that are not given have at its end. False after an error. */
bool check_step_call(Checker *c, const Node *node, Symbol *symbol, size_t count, Typed **results);
/* The same where every axis and every `in` has its name here already; `scope` is the callee's,
 * whose `out`s become locals. */
void check_derived(Checker *c, const Node *node, const Item *item, Scope *scope);

/* import_c.c: fills the unit of a C header. */
#define C_HEADERS "/lockstep/include" /* where Lockstep's own C headers seem to be */
void import_c_read(Checker *c, Unit *unit, Range import);
/* check_c_call.c */
Typed *check_c_call(Checker *c, const Node *node, Symbol *symbol);

/* check_backward.c: step name = backward other. prepare: its axes and parameters, as if written;
 * false after an error. */
bool prepare_backward(Checker *c, Item *item);
void check_backward_body(Checker *c, const Item *item);

/* check_random.c */
CheckCall check_draw, check_bernoulli, check_shuffle, check_stochastic;
AxisSet draw_axes(const Checker *c); /* of a draw that names none */
/* The draw in a value's expression that varies over some of `axes`: "uniform"; NULL: none. */
const char *drawn_over(const Typed *a, AxisSet axes);

/* check_when.c */
void check_when(Checker *c, const Statement *s);
/* False after an error: a condition around this has axes that the parameter lacks. */
bool check_conditions(Checker *c, uint32_t number, Range target);
/* Of an `out` that is not assigned on every path: where it is. */
void note_condition(Checker *c, const Assigned *assigned);

/* check.c */
void add_statement(Checker *c, Checked statement);
void check_step(Checker *c, Item *item); /* once; nothing where it is being checked */
void check_body(Checker *c, const Item *item);
void check_statements(Checker *c, const Statement *statements);
/* Stores to a parameter what is converted already. */
void assign(Checker *c, Symbol *parameter, Typed *value, Range range);
/* Binds a name from here on; `range` is that of the statement. */
void bind_let(Checker *c, const Entry *entry, Typed *value, Range range);
void declare_item(Checker *c, Unit *unit, Item *item);
Typed *check_constant(Checker *c, const Node *node); /* one that is known at compile time */
Let *check_let(Checker *c, const Entry *entry, Typed *value);
bool declare(Checker *c, Scope *scope, const Name *name, Range range, SymbolKind kind,
             Symbol **symbol);

#endif
