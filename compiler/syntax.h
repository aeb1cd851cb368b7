/* syntax.h: what lex.c, parse.c, check*.c, lower.c and format.c share.
 *
 * First the tokens and the tree as written (whole language, names unresolved), then the checked
 * program: typed values that lower.c turns into IR one for one. Everything lies in the compiler's
 * arena. */
#ifndef SYNTAX_H
#define SYNTAX_H

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
    STATEMENT_CALL,
    STATEMENT_RETURN,
    STATEMENT_ERROR
} StatementKind;
typedef struct Statement Statement;
struct Statement {
    uint8_t kind;
    uint8_t token;   /* the assignment operator */
    Range range, at; /* at: the operator, or the keyword */
    Entry *targets;  /* of LET: the names; else the parameter that is assigned, if one is seen */
    Node *value;     /* the right side; the condition; the call */
    Statement *body, *otherwise, *next;
};

typedef enum ItemKind { ITEM_IMPORT, ITEM_CONST, ITEM_FN, ITEM_STEP, ITEM_BACKWARD } ItemKind;
typedef struct Item Item;
typedef struct Unit Unit; /* check.h */
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
    AxisSet drawn_over;
    Typed **arguments;
    Typed *result;
    Body body;
    Range call; /* the first */
    Instance *caller, *chain;
    uint64_t hash;
};

typedef struct Block Block;

/* One statement of a checked step: a let, an assignment of a value already converted, or a `when`,
 * whose condition is the value. */
typedef struct Checked {
    Let *let;
    uint32_t parameter;
    Typed *value;
    Block *branches; /* of a when: where the condition holds, and where it does not */
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
    uint32_t last; /* how many typed values there were at the last assignment */
} Assigned;

typedef struct Step {
    const char *name;
    Range range;
    ls_math math;
    Axis *axes;
    size_t axis_count;
    Parameter *parameters; /* behind those of the step, locals: `out`s of steps it calls */
    size_t parameter_count, local_count, parameter_capacity;
    bool faulty; /* it calls one in which errors were found */
    Block block;
    Body body;
    Assigned *assigned; /* by parameter */
} Step;

struct Module {
    Step **steps; /* those that the file has or imports by their own names; its own come first */
    size_t step_count, step_capacity, own_count;
    const CFunction *c_functions;
    size_t c_function_count;
};

#endif
