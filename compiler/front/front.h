/* front.h: the text of a program to a checked tree, and that to the value IR.
 *
 * First what the other rooms call; then what the front end's files share: tokens and the tree as
 * written (the whole language, names unresolved), the parser's state, and the checked program,
 * whose typed values lower/ turns into the IR one for one. Everything lies in the compiler's
 * arena. */
#ifndef LOCKSTEP_FRONT_H
#define LOCKSTEP_FRONT_H

/* ---- for the other rooms ---- */

/* import_c.c: lets go of libclang where a compilation ended while a header was read. */
void import_c_close(Compiler *compiler);

/* check.c: a checked file; NULL after diagnostics. Imported steps of the library are checked when
 * they are called or asked for. */
typedef struct Module Module;
Module *module_read(Compiler *compiler, const char *path, const char *text, size_t size);
size_t module_step_count(const Module *module);
size_t module_own_count(const Module *module); /* the first: those of the file itself */
const char *module_step_name(const Module *module, size_t step);
bool module_step_is_library(const Module *module, size_t step);
/* Checks it where that has not been done; false after diagnostics. */
bool module_need_step(Module *module, size_t step);

/* index.c: what lockstep/index.h tells; NULL: the compilation keeps none. */
const ls_index *index_tables(Compiler *compiler);
void index_describe(Compiler *compiler, size_t definition, bool bounds,
                    ls_description *description);
void index_value_at(Compiler *compiler, uint32_t file, uint32_t offset, ls_place *at,
                    ls_description *description);

/* format.c: the one layout. NULL after diagnostics. */
char *format_source(Compiler *compiler, const char *path, const char *text, size_t size);

/* ---- names ---- */

/* Interned: equal names are one pointer. */
typedef struct Name {
    const char *text;
    size_t size;
    uint8_t token; /* NAME, TYPE or the reserved word */
    Type type;     /* of a TYPE */
    struct Name *chain;
} Name;
typedef struct Names {
    Compiler *compiler;
    Name **buckets;
    size_t count, bucket_count;
    uint8_t punctuation[256]; /* by first character: the first such token; 0: none */
} Names;
void names_open(Names *names, Compiler *compiler); /* with the reserved words */
const Name *name_intern(Names *names, const char *text, size_t size);

/* ---- lex.c: text to tokens ---- */

typedef enum TokenKind {
#define X(id, spelling, class) TOKEN_##id,
#include "tokens.def"
#undef X
    TOKEN_COUNT
} TokenKind;
typedef struct TokenInfo {
    const char *spelling;
    char class;
} TokenInfo;
extern const TokenInfo token_info[TOKEN_COUNT];

typedef struct Token {
    uint8_t kind;
    bool newline;   /* the first on its line */
    bool statement; /* set by the parser: begins an item or a statement, or closes a block */
    bool list;      /* set by the parser: opens a list whose lines format.c keeps apart */
    uint32_t begin, end;
    const Name *name; /* NAME, TYPE and reserved words */
    uint64_t bits;    /* INTEGER: i64; FLOAT: f64 */
} Token;
typedef struct Comment {
    uint32_t begin, end;
    uint32_t before; /* the token it stands before */
} Comment;
typedef struct Tokens {
    uint32_t file;
    Token *list; /* the last is END */
    size_t count, capacity;
    Comment *comments;
    size_t comment_count, comment_capacity;
} Tokens;
Tokens lex(Names *names, uint32_t file);

/* ---- parse.c: tokens to a tree ---- */

typedef enum NodeKind {
    NODE_ERROR, /* reported already */
    NODE_INTEGER,
    NODE_FLOAT,
    NODE_BOOL,
    NODE_NAME,
    NODE_UNARY,  /* token, first */
    NODE_BINARY, /* token, first and its next */
    NODE_IF,     /* condition, then, else */
    NODE_CALL,   /* name, brackets, first... */
    NODE_INDEX,  /* name, first... */
    NODE_PRIME,  /* f'(x): name, first... */
    NODE_NAMED   /* name = first, as an argument */
} NodeKind;

typedef struct Node Node;
struct Node {
    uint8_t kind;
    uint8_t token;  /* of UNARY, BINARY: the operator; of NAME, CALL: what the name's token is */
    uint16_t depth; /* of the tree below */
    bool has_brackets;
    Range range;                  /* the whole expression */
    Range at;                     /* the operator or the name */
    const Name *name, *qualifier; /* qualifier: of `s.gelu` */
    uint64_t bits;
    Node *first, *next; /* operands; the next operand of the same parent */
    Node *brackets;     /* what stands in f[...] */
};
/* A name that is introduced or listed, with all that may be said about it there. */
typedef struct Entry Entry;
struct Entry {
    const Name *name;
    Range range; /* of the name */
    Entry *next;
    /* axis: */
    Node *size;         /* k = size */
    Range ragged;       /* `of t` */
    Range blocked;      /* `as (...)` */
    const Name *parent; /* t, at parent_range */
    Range parent_range;
    Entry *blocks; /* q, and k with its size */
    /* parameter: */
    ls_role role;
    const Name *type; /* NULL: none written */
    Range type_range;
    Entry *axes;
    bool has_axes;
    Node *initial;
};
typedef enum StatementKind {
    STATEMENT_LET,
    STATEMENT_ASSIGN,
    STATEMENT_WHEN,
    STATEMENT_FOR,
    STATEMENT_CALL,
    STATEMENT_RETURN,
    STATEMENT_ERROR
} StatementKind;
typedef struct Statement Statement;
struct Statement {
    uint8_t kind;
    uint8_t token;   /* the assignment operator */
    bool reverse;    /* of FOR */
    Range range, at; /* at: the operator, or the keyword */
    Entry *targets;  /* of LET: the names; of FOR: the axis; else the parameter that is assigned, if
                        one is seen */
    Node *value;     /* the right side; the condition; the call */
    Statement *body, *otherwise, *next;
};
typedef enum ItemKind { ITEM_IMPORT, ITEM_CONST, ITEM_FN, ITEM_STEP, ITEM_BACKWARD } ItemKind;
typedef struct Item Item;
typedef struct Unit Unit; /* a file, below */
struct Item {
    uint8_t kind;
    bool damaged;  /* its head had errors: names it uses may be missing */
    bool is_block; /* fn with { } */
    bool is_c;     /* import c */
    ls_math math;
    Range range, at;  /* at: the name */
    const Name *name; /* of an import: `as` which */
    Entry *axes, *parameters;
    size_t axis_count, parameter_count;
    Unit *unit; /* the file it is read in: its names are found there */
    struct Step *checked;
    uint8_t state; /* of a step: ITEM_NEW, ITEM_ACTIVE, ITEM_CHECKED */
    bool faulty;   /* errors were found in it */
    Range path;    /* of an import: in its quotes */
    Unit *brought; /* of an import: the file; NULL: it was not read */
    Node *step;    /* of backward: the step, as a NAME */
    Item *forward; /* its item, once it is checked */
    Entry *targets;
    bool has_targets;
    Node *value; /* of a const, of a fn without a block */
    Statement *body;
    Range end; /* the closing brace */
    Item *next;
};

enum { ITEM_NEW, ITEM_ACTIVE, ITEM_CHECKED };

typedef struct Syntax {
    Tokens tokens;
    Item *items;
} Syntax;
Syntax parse(Names *names, uint32_t file);
/* "name=expression", a -D of the command line, as a const item; NULL after diagnostics. */
Item *parse_define(Names *names, uint32_t file);

/* ---- check.c: a checked program ---- */

/* The types of constants that have not met an operand yet: held as i64 and f64. */
enum { TYPE_INTEGER = TYPE_COUNT + 1, TYPE_FLOAT };

typedef enum TypedKind {
    TYPED_ERROR,     /* reported already: silences what uses it */
    TYPED_CONSTANT,  /* payload: the bits in its type */
    TYPED_PARAMETER, /* payload: its number; the value it has at this point of the step */
    TYPED_LET,       /* let */
    TYPED_ARGUMENT,  /* payload: its number, in an instance of a fn */
    TYPED_OP,        /* op, args, payload */
    TYPED_POWER,     /* args[0] to the integer power (int64_t)payload */
    TYPED_CALL       /* instance, arguments */
} TypedKind;

typedef struct Let Let;
typedef struct Instance Instance;
typedef struct Typed {
    uint8_t kind, op;
    uint8_t type;    /* a compute type, or TYPE_INTEGER, TYPE_FLOAT */
    uint8_t storage; /* a narrow integer type that holds it, or TYPE_NONE */
    bool running;    /* varies with the running value of a scan around it */
    AxisSet axes;
    uint32_t id; /* dense within its body */
    Range range;
    uint64_t payload;
    struct Typed *args[3];
    Let *let;
    Instance *instance;
    struct Typed **arguments;
} Typed;
/* What a step or an instance counts: its typed values and lets, and how deep they nest. */
typedef struct Body {
    uint32_t typed_count, let_count;
    uint32_t level, deepest;
    uint32_t draw_count;
} Body;

struct Let {
    const Name *name;
    Range range;
    Typed *value;
    uint32_t number; /* within its body */
    bool is_target;  /* of a grad: lowered to a MARK */
};
/* A fn for one set of argument types, axes and constants. */
struct Instance {
    const Item *fn;
    const void *step;     /* the axes are of this step; NULL where no argument has any */
    const void *drawn_in; /* where it draws: the step, and the axes of draws that name none */
    AxisSet drawn_over, places;
    Typed **arguments;
    Typed *result;
    Body body;
    Range call; /* the first */
    Instance *caller, *chain;
    uint64_t hash;
};

typedef struct Block Block;

/* One statement of a checked step: a let, an assignment of a value already converted, a `when`,
 * whose condition is the value, or a `for`. */
typedef struct Checked {
    Let *let;
    uint32_t parameter;
    Typed *value;
    Block *branches; /* of a when: where the condition holds, and where it does not */
    Block *body;     /* of a for, over `axis` */
    uint32_t axis;
    bool reverse;
    bool loops; /* of a when: there is a for in it */
    Range range;
} Checked;

struct Block {
    Checked *statements;
    size_t count, capacity;
};

/* Whether a parameter was assigned: where first, if at all, and whether on every path. */
typedef struct Assigned {
    Range range; /* file 0: not yet */
    bool surely;
    bool in_loop;         /* a `for` assigns it, which may have no iteration */
    uint32_t first, last; /* how many typed values there were at the first and last assignment */
} Assigned;

typedef struct Step {
    const char *name;
    Range range;
    ls_math math;
    Axis *axes;
    size_t axis_count;
    Parameter *parameters; /* behind those of the step, locals: `out`s of steps it calls */
    size_t parameter_count, local_count, parameter_capacity;
    bool faulty;    /* it calls one in which errors were found */
    AxisSet looped; /* the axes that a `for` goes over */
    Range loop;     /* the first `for`; file 0: none */
    Block block;
    Body body;
    Assigned *assigned; /* by parameter */
} Step;

struct Module {
    Item **steps; /* those that the file has or imports by their own names; its own come first */
    size_t step_count, step_capacity, own_count;
    struct Checker *checker;
};

/* ---- parse.c and parse_expression.c: the parser ---- */

/* What bounds the parser's recursion (brackets, blocks, prefix operators), and that of later passes
 * (the depth of an expression's tree, chains of operators too). */
enum { PARSE_DEPTH_MAX = 500, TREE_DEPTH_MAX = 500 };

typedef struct Parser {
    Compiler *compiler;
    Names *names;
    Tokens tokens;
    uint32_t at, begin; /* the next token; the first of this statement */
    size_t brackets;    /* open ( and [: newlines mean nothing inside */
    size_t level;
    bool panic;   /* an error was reported: silent until the next statement */
    bool damaged; /* the item's head had an error that was stepped over */
} Parser;

TokenKind parser_kind(const Parser *p); /* LINE_END where a newline ends the statement */
const Token *parser_next(Parser *p);
bool parser_take(Parser *p, TokenKind kind);
bool parser_expect(Parser *p, TokenKind kind, const char *expected);
bool parser_close(Parser *p, TokenKind kind, Range open);
bool parser_error(Parser *p, const char *expected); /* true: it was reported, notes may follow */
void parser_too_deep(Parser *p, Range range);
bool parser_is_word(const Parser *p, uint32_t token, const char *word);
bool parser_begins_item(const Parser *p, uint32_t token);
Range token_range(const Parser *p, const Token *token);
Range range_since(const Parser *p, uint32_t first_token);
/* parse_expression.c */
Node *parse_expression(Parser *p);                   /* never NULL */
Node *parse_member(Parser *p, const char *expected); /* name or s.name */
Node *parse_error_node(Parser *p);
/* habits.c: a help for a statement from token `start` to an error, or for what begins no item,
 * where one of the errors since there were `before` lacks it. */
void parser_suggest(Parser *p, uint32_t start, size_t before);
void parser_suggest_item(Parser *p, uint32_t start);

/* ---- the checker's files ----
 *
 * check.c has items and statements, check_axes.c axes, their sizes and indices, check_expression.c
 * names and operators, check_call.c functions, check_reduce.c reductions, check_index.c x[b, i],
 * check_for.c `for` and what reads at its place, check_scan.c scan and cumsum, check_grad.c
 * derivatives, check_backward.c those of whole steps, check_step_call.c steps in steps,
 * check_when.c `when`, check_random.c draws, module.c imports, import_c*.c and check_c_call.c C
 * functions, convert.c types and constants, scope.c names. */

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
    uint8_t min, max;
    Op op;
    const char *form, *what;
};

/* A function of a C header: importable, or why not. */
typedef struct CSymbol {
    const Name *name;
    Range range, place;  /* place: of the problem */
    const char *problem; /* NULL: none */
    struct CProblem {    /* those behind the first, in the order of the text */
        Range place;
        const char *text;
    } * more;
    size_t more_count, more_capacity;
    const char *inner; /* why steps cannot call it, though other functions of C can; NULL: none */
    int number;        /* in c_functions */
    bool active, partners; /* being looked at; its derivatives are found */
    struct Scope *scope;   /* of its header's functions */
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
/* Of the names in `scope` and its parents of a kind in `kinds` (bits), the one likely meant. */
const char *scope_suggest(const Scope *scope, const Name *name, unsigned kinds);
/* habits.c: for a word that other languages have: a help, or what it is here; NULL: nothing. */
typedef enum Habit {
    HABIT_ITEM,
    HABIT_STATEMENT,
    HABIT_END,
    HABIT_MODULE,
    HABIT_CALL,
    HABIT_SPELLING,
    HABIT_TYPE
} Habit;
const char *habit(Habit where, const Name *word);
const char *other_spelling(Checker *c, const Name *name); /* "f32(x)" for `float(x)` */

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
const char *library_defining(Checker *c, const Name *name);
/* Says that the file imported as `qualifier` has no `name`. */
void unknown_member(Checker *c, const Name *qualifier, const Name *name, Range range);

/* ---- the checker ---- */
typedef struct When When;
struct When {
    const Typed *condition;
    size_t known; /* how many parameters and locals there are outside of it */
    const When *outer;
};

/* A `for` whose body this is. */
typedef struct For {
    uint32_t axis;
    bool reverse;
    const When *when; /* around it */
    const struct For *outer;
} For;

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
    Block *block;        /* of statements, here */
    uint32_t *draws;     /* how many there are so far, in the step or fn that writes them */
    struct Drawn *drawn; /* those of the step, the latest first: check_random.c */
    const When *when;    /* around this */
    const For *loop;     /* likewise */
    AxisSet places;      /* the axes of the loops around this, of which values have one place */
    struct Reading *readings; /* check_for.c */
    Scope closed;             /* names of branches that are closed */
    Body outside;             /* of what stands in no step and no fn */
    Instance *instance;       /* NULL outside of fns */
    const StepCall *call;     /* NULL outside of inlined steps */
    uint32_t level;           /* of the recursion */
    uint32_t indexing;        /* above 0 inside x[...]: an axis name is its own coordinate */
    Typed *running;           /* of the scan whose expression this is, or NULL */
    uint32_t scanning;        /* how many scans are around this */
    Instance **buckets;
    size_t instance_count, bucket_count;
    bool exhausted; /* there are too many instances: that is reported once */
    Typed error;
    struct Index *index; /* what is kept for lockstep/index.h; NULL: nothing */
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
/* Brings the operands of `what` to one type, by the rules of examples/language, and gives it;
 * TYPE_NONE after an error, which is at `at`, or at the operand where at.file is 0. */
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
bool check_list(Checker *c, const Node *node, const char *name, size_t min, size_t max,
                Typed **arguments);
void builtins_open(Checker *c);
const Builtin *builtin_at(size_t number); /* NULL behind the last */
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
/* False after an error: `axis` is listed and what it depends on is not. */
bool require_parents(Checker *c, AxisSet listed, uint32_t axis, Range range);
Symbol *find_axis(Checker *c, const Node *node, const char *function); /* NULL after an error */
Typed *size_of_axis(Checker *c, uint32_t axis, Range range);
Typed *index_of_axis(Checker *c, uint32_t axis, Range range);
CheckCall check_size, check_index;
/* check_reduce.c */
CheckCall check_reduce, check_extremum, check_mean, check_norm, check_count;
/* check_index.c */
Typed *check_indexing(Checker *c, const Node *node); /* x[b, target] */
/* `source` over `axes` at these coordinates, by axis; NULL for its own. */
Typed *gather_at(Checker *c, Typed *source, AxisSet axes, Typed **at, Range range);
/* check_for.c */
bool check_for(Checker *c, const Statement *s); /* false after an error in its head */
/* Whether a coordinate is index(axis) and a constant, *offset, in a loop over the axis. */
bool place_offset(const Typed *a, uint32_t axis, int64_t *offset);
/* What brackets in a `for` read: all of a parameter or a `let`, with the axes that have a place. */
Typed *read_unplaced(Checker *c, Symbol *symbol, Range range);
/* x[t - 1, k] in a `for` over t: as gather_at, of what read_unplaced gave. */
Typed *gather_in_loop(Checker *c, Symbol *symbol, Typed *source, AxisSet axes, Typed **at,
                      Range range);
/* True after an error: `what` goes over an axis that has one place here. */
bool refuse_place(Checker *c, const Symbol *axis, Range range, const char *what);
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
/* index.c: what is kept of a value that stands in the source. Nothing without an index, and in a
 * step that is checked as part of another one. */
void index_open(Checker *c);
void index_value(Checker *c, Range range, const Typed *value);
/* bound.c: the error of a value in words; NULL: not known. */
const char *typed_bound(Checker *c, const Typed *value, ls_math math);
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
/* The same in a scope of their own, that of a branch or a loop, to *block. */
void check_inner(Checker *c, const Statement *statements, Block *block);
Assigned *copy_assigned(Checker *c);
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
