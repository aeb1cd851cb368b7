/* emit.h: what the emitter's files share: image.c (the module and the image), phase.c (a
 * phase), kernel.c and segment_epilogue.c (which phases a
 * launch runs), items.c (how its work is cut),
 * axes.c and address.c (its axes, and where its elements are), access.c
 * (streams), reduce.c, gather.c (what it makes), value.c (expressions,
 * loads, stores), names.c (the names of it all). */
#ifndef LOCKSTEP_EMIT_H
#define LOCKSTEP_EMIT_H

/* ---- for the other rooms ---- */

/* image.c: a plan as source text and as the tables of an image: a variant for each layout, and
 * where there are several phases one for each way to run them; of the layouts up to the last one
 * wanted. With `shared`, two texts, those of the variants have names of their own and no prelude,
 * so that they can stand in one file: before them come the prelude, the library that all of it
 * uses, shared[0] (a line for each macro) and shared[1] (imported C functions). NULL where no
 * kernel can be made of the plan, with what is wrong with it in *problem. */
const ls_image *emit_step(const Plan *plan, const Target *target, const char *target_name,
                          ls_image_layout last, Text *shared, const char **problem);
/* As many words as the arguments of a kernel of the plan take at most: up to LS_ARGUMENTS_MAX the
 * step can be built. */
size_t emit_words_bound(const Plan *plan);
/* Elements that all phases visit, up to which the way is one. */
uint64_t emit_work_limit(const Plan *plan, const Target *target, const Way *way);

/* names.c: identifiers of generated text. Its words and suffixes are what no user's name becomes,
 * for tests that call things so: NULL after the last one. */
const char *names_word(size_t number);
const char *names_suffix(size_t number);
/* Of a step, what the names of its kernels begin with; and a step's and a member's name in the
 * headers of steps built ahead of time. Different names stay different. */
const char *names_label(Arena *arena, const char *step);
const char *names_c_step(Arena *arena, const char *step);
const char *names_c_member(Arena *arena, const char *name);

/* ---- what the emitter's files share ---- */

/* Axes of a phase that are walked as one: adjacent in every array the phase touches. */
typedef struct Group {
    AxisSet axes;
    const char *name; /* its coordinate's variable */
    const char *size; /* its length, an expression */
    const char *most; /* the same with whole blocks where `size` is of one that may be short */
} Group;

typedef struct NameTable {
    struct NameEntry { /* open addressing */
        const char *name;
        unsigned next; /* NAME_2 and so on are taken below this number */
    } * table;
    size_t capacity, count;
} NameTable;

/* Device memory of the step: what image.h lists, with its C type. */
typedef struct Field {
    ls_image_temporary temporary;
    const char *type;
} Field;

/* The items of a list's phases: what image.h lists, by name. */
typedef struct Table {
    const char *name;
    ls_image_table table;
} Table;

typedef struct Emitter {
    const Plan *plan;
    const Function *f;
    Compiler *compiler;
    Arena *arena;
    const Target *target;
    ls_image_layout layout;
    bool calls;                /* the phase at hand calls costly functions: emit_find_calls */
    Text called;               /* of the variant: a line for each that is called */
    int64_t block_bytes;       /* of memory of its block that the next entry point has */
    bool (*kinds)[TYPE_COUNT]; /* by operation: reductions that nests use */
    Text *shared;              /* ahead of time: what the texts of one file share; else NULL */
    const char *label;         /* what the names at file scope are made of: names_label */
    const char *prefix;      /* of the phases' names: none, or the label where texts share a file */
    const char *arguments;   /* the argument structure's name */
    const char **size_name;  /* by axis */
    const char **field_name; /* by array: in the argument structure */
    const char **stride_name; /* by array and axis: in it too, where the layout has strides */
    Field *fields;            /* the plan's temporaries, then those of the phases */
    size_t field_count, field_capacity;
    bool *touched; /* by phase and array: whether its text uses the pointer */
    Table *tables;
    size_t table_count, table_capacity;

    /* the phase being emitted */
    const Phase *phase;
    uint32_t number;
    Portion portion;
    ls_image_extent items; /* its items of work */
    NameTable names;
    Group outer[LS_AXES_MAX], inner[LS_AXES_MAX];
    size_t outer_count, inner_count; /* of a column phase, the last outer group is the columns */
    int list;                        /* a ragged phase: the axis that counts tensors; else -1 */
    Group tensor;                    /* that axis, which is of no other group */
    const char *table;               /* its items in the argument structure */
    bool eights;                     /* whether any phase of the variant has vectors of 8 */
    uint32_t last_line;      /* of the source: that of the last comment, 0 before the first */
    const Kernel **followed; /* by phase: the kernel whose followers come after its rows, or NULL */
    const Kernel *chained;  /* the phase runs row by row, its strips those of the kernel's others */
    const Kernel *strips;   /* of the way at hand, or NULL */
    bool holds[TYPE_COUNT]; /* by type: whether its rows or tiles are copied */
    const char **held_name; /* by array: the field of its held rows, or NULL */
} Emitter;

/* names.c: the only place that makes an identifier of generated text. Its beginning says which
 * forms there are: what is not made here (x_leaf of the stem x, loop variables of kernels) is of
 * a form that no user's name keeps. */
void names_begin(
    Emitter *e); /* of a function, or of the argument structure: nothing is taken yet */
/* Of a function that is printed from a nest: all its names come from names_nest and names_made. */
void names_begin_nest(Emitter *e);
const char *names_nest(Emitter *e, const char *name);
const char *names_user(Emitter *e, const char *name); /* for what the source calls so */
const char *names_array(Emitter *e, uint32_t array);  /* a parameter, or a temporary */
const char *names_made(Emitter *e, const char *wish); /* of a reserved form */
/* The user's name, or where that is NULL a made one, as a stem of which others are made,
 * STEM_SUFFIX, which become taken too. */
const char *names_stem(Emitter *e, const char *user, const char *made, const char *const *suffixes);
bool names_is_plain(const char *user);   /* it is of no reserved form */
bool names_has_prefix(const char *user); /* it is of one that gets n_ */

/* value.c */
/* Text of somebody else's within a comment, which it cannot end. */
void emit_quote(Text *out, const char *begin, const char *end);
const char *emit_type(Type type); /* a value's C type: bool is int */
const char *emit_constant(Emitter *e, Type type, uint64_t bits);
const char *emit_bare(Emitter *e, const char *text); /* without brackets around all of it */

/* An operation of a function on texts of its operands, and whether that has an operator of C. */
const char *emit_operation(Emitter *e, const Function *f, const Value *value, const char **arg);
/* Whether the values of a phase use more costly functions than the target inlines. */
void emit_find_calls(Emitter *e, const Function *values);
bool emit_is_infix(const Emitter *e, const Value *value);
/* Quotes the source line a statement comes from, when it is another than the last. */
void emit_quote_line(Emitter *e, Text *out, Range range);

/* axes.c */
bool emit_is_rest(const Emitter *e, uint32_t axis);  /* whether it is a k, within blocks */
bool emit_is_split(const Emitter *e, uint32_t axis); /* a k that is walked block by block */
int emit_list_of(const Emitter *e, uint32_t axis);   /* the axis of tensors it hangs on, or -1 */
bool emit_is_list(const Emitter *e, uint32_t array);
bool emit_in_loop_columns(const Emitter *e);
const char *emit_size(Emitter *e, uint32_t axis); /* its length */

/* c_functions.c: imported C functions */
void emit_c_functions(Emitter *e, Text *out); /* those that the step needs */

/* reduce.c */
/* What the names of the functions of a reduction of pairs end in, which the text then has. */
const char *emit_use_kind(Emitter *e, Op op, Type type);
void emit_reduction_library(Emitter *e, Text *out); /* LS_REDUCTION for every kind the plan uses */

void emit_open_axes(Emitter *e); /* the groups of a phase */
const char *emit_product(Emitter *e, const Group *groups, size_t count);
/* Whether another phase stores to it, so that it is not constant while the kernel runs. */
bool emit_changes(const Emitter *e, uint32_t array);

/* phase.c */
typedef struct PhaseText {
    const char *name;
    ls_image_extent items;
    uint64_t item_cost;
    const char *item_count; /* the items as an expression over `a` */
    const char *row_items;  /* of SHAPE_ROWS, those of one row */
    const char *finish;     /* its function that makes something of all strips; NULL: has none */
    const char *inner;      /* the elements that each outer coordinate goes over */
    /* The same as strips of tiles each: rows, or chunks of columns. */
    const char *strips, *tiles;
    ls_image_extent strip_items, strip_tiles;
    const char *table;          /* a list's items in the argument structure; NULL: is none */
    bool tail;                  /* has something to do when all are done */
    bool streams;               /* may store past the caches; in a chain its kernel ends that */
    size_t fields, field_count; /* of e->fields, those that it alone uses */
} PhaseText;
PhaseText emit_phase(Emitter *e, uint32_t number, Portion portion, Text *out);

/* hints.c: what stands before a loop over columns, and over elements */
const char *emit_apart(const Emitter *e);
const char *emit_interleaved(const Emitter *e);

/* pack.c: the rows that a strip's phases read again and again */
void emit_find_held(Emitter *e, const Way *way);         /* of a variant: after the plan's fields */
const char *emit_held(const Emitter *e, uint32_t array); /* its field in this phase, or NULL */
const bool *emit_held_arrays(const Emitter *e);          /* by array; NULL: none */
bool emit_holds(const Emitter *e, Type type);            /* whether copies are of that type */
bool emit_may_hold(const Emitter *e, uint32_t array);
void emit_note_held(Emitter *e, Type type); /* copies of it are made somewhere in the variant */
void emit_held_library(Emitter *e, Text *out);
void emit_open_held(Emitter *e, Text *out, const char *columns);
void emit_hold(Emitter *e, Text *out, const char *columns);
void emit_ask_held(Emitter *e, Text *out, uint32_t first, uint32_t end, const char *columns);

/* row_panels.c */
const Kernel *emit_strips_of(const Way *way); /* its kernel of strips */
PhaseText emit_portions(Emitter *e, const Way *way, uint32_t number, Text *out);
enum { STRIP_CONDITIONS = 3 };
uint32_t emit_strip_conditions(Emitter *e, const Way *way, ls_image_condition *conditions);
/* Fills what is special about the kernel into its row, whose name and shape stand there. */
void emit_strip_kernel(Emitter *e, Text *out, const Kernel *kernel, const char *sizes,
                       const PhaseText *phases, ls_image_kernel *row);

/* kernel.c */
/* The head of an entry point, with the lengths of axes where its text wants them; `wide`: a block
 * has a multiprocessor to itself. */
void emit_entry(Emitter *e, Text *out, const char *name, uint32_t threads, bool wide,
                const char *sizes);
/* A kernel's text, and its row in the image. */
ls_image_kernel emit_kernel(Emitter *e, Text *out, const Kernel *kernel, const char *suffix,
                            const PhaseText *phases);

/* segment_epilogue.c: what runs part by part behind the phases of a kernel. */
/* Its functions, once the phases that follow have theirs. */
void emit_followers(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases);
/* Whether parts follow the phase's rows or columns; and the call at the end of one: of a list's
 * tensor, or of the outer coordinate. */
bool emit_is_followed(const Emitter *e);
const char *emit_followed(Emitter *e, const char *row);
/* The loop over parts in which nobody finishes anything. */
void emit_empty_parts(Emitter *e, Text *out, const Kernel *kernel);

/* row_fusion.c: the text of a kernel that is a chain of phases, and then a tail. */
void emit_chain(Emitter *e, Text *out, const char *name, const Kernel *kernel,
                const PhaseText *phases, const char *sizes, const char *prologue, const char *tail);
/* What a worker needs of an array that is near. */
ls_image_extent emit_near_bytes(Emitter *e, uint32_t array);

/* alias.c: gives temporaries that are never needed at once the same number. */
void emit_share_temporaries(Emitter *e, const Way *way, const PhaseText *phases);

/* items.c */
bool emit_walks_columns(const Emitter *e); /* the last outer group is columns of an item */
/* The numbers that say how an item's number splits, and how many items there are, over those. */
void emit_find_items(Emitter *e, PhaseText *text);
const char *emit_add_field(Emitter *e, const char *wish, const char *type, ls_image_extent bytes,
                           bool zeroed);

/* Of loop.h and schedule.h, which the files that print nests include and others need not. */
typedef struct PlainNest PlainNest;
typedef struct Nest Nest;
typedef struct NestNode NestNode;
typedef struct Index Index;
typedef uint32_t SymbolId;

/* nest_print.c: a nest as a function of that name, `comment` before it, of a phase or (not NULL) of
 * all phases of a kernel but its prologue and tail; gives whether it stores past the caches. */
bool emit_nest(Emitter *e, const PlainNest *plain, const Kernel *kernel, const char *name,
               const char *comment, Text *out);

/* kernel.c: what every block makes for itself ahead of a kernel's phases, with the lengths of axes
 * where they are not there yet: from then on `a` is its own copy of the arguments; and the phases
 * of its tail, by whichever block comes last. */
const char *emit_prologue(Emitter *e, const Kernel *kernel, const PhaseText *phases, bool sizes);
void emit_call_tail(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases);

/* row_kernel.c: variants of a way whose rows are of the class: by kernel of the way the nest it is
 * printed from, or NULL; all of that NULL: no kernel has one. Of no class (NULL) none has. */
const PlainNest *const *emit_row_nests(Emitter *e, const Way *way, const RowClass *rows);
/* At most two for each phase; gives how many. */
size_t emit_row_conditions(Emitter *e, const Way *way, const PlainNest *const *nests,
                           const RowClass *rows, ls_image_condition *conditions);
ls_image_kernel emit_row_kernel(Emitter *e, Text *phases, Text *kernels, const Kernel *kernel,
                                const PlainNest *nest, const RowClass *rows, const char *suffix,
                                const PhaseText *made);

/* ---- what nest_print.c, nest_value.c and nest_access.c share ---- */

typedef struct StoredPacket { /* what a vector's stores go to first, or a block of a run's */
    const NestNode *store;
    const char *name;
    const char *row; /* of a block of several rows: where this one's begins, NULL: of one */
} StoredPacket;

enum { LEAVES_MOST = 32 };
typedef struct NestPrinter {
    Emitter *e;
    Arena *arena; /* closed behind it */
    const PlainNest *plain;
    Nest *nest;
    Text *out;
    const char **spelled; /* by symbol; NULL: not yet */
    const char **packet;  /* by symbol of a load: the vector that has it, or NULL */
    const char **near; /* by symbol of a load: the vector that has it where NAME_whole, or NULL */
    size_t capacity;   /* of what is by symbol */
    ValueId *inside;   /* by symbol of a LET: its value, where that stands inside its user */
    uint32_t *uses;    /* by symbol */
    bool *is_scratch;  /* by symbol of an array: it is none of the plan's */
    const NestNode **own_body, **user_body, *body; /* by symbol: that defines it, that uses it */
    bool *is_index;                                /* by symbol: it stands in an index */
    bool *is_bound;                                /* by symbol: it stands in a loop's extent */
    bool *ahead;             /* by symbol of a LET: it is made ahead of its loop */
    const NestNode **allocs; /* by symbol of an ALLOC: it */
    const NestNode **trees;  /* by symbol of a FOLD: it */
    bool *own_trees;         /* by symbol of a FOLD: each lane has one */
    uint8_t *loops;          /* by symbol of a loop: 1 + its kind */
    ValueId *value_of;       /* by symbol of a LET: its value */
    bool *is_counter;        /* by symbol of an ALLOC: what items arrive at */
    uint32_t *private;       /* by symbol of an ALLOC: its dims that warps and lanes index */
    StoredPacket *stored;
    size_t stored_count, stored_capacity;
    const char *lane, *warp;
    bool in_warp, in_lane;         /* of such a loop */
    const Kernel *kernel;          /* that the nest is of; NULL: of a phase */
    bool guarded;                  /* inside of a test that an out is there */
    bool whole;                    /* no vector at hand lies across its limit or off its boundary */
    SymbolId tensor;               /* of a list: the one that pointers stand for */
    SymbolId vector, run, columns; /* the innermost loops at hand */
    bool streams, streams_off;
    bool *wide;         /* by symbol: a vector of the language, of elements side by side */
    const char **pitch; /* by symbol of a TREE: of several, what says how far apart they begin */
    /* Of loops over vectors, whose trees those by symbol are: the functions that they are, as text
     * that stands before this one's. */
    bool *by_vectors;
    Text before;
    const char *label, *leaf_fields[LEAVES_MOST], *leaf_bodies[LEAVES_MOST];
    size_t leaf_count, opened_leaves;
    const char *rows_name, *pending, *pending_end; /* of rows side by side; what is called then */
    /* Folds at hand are of a tile that is done again where this says that a value is not plain. */
    const char *odd;
} NestPrinter;

/* nest_print.c: that an amount is more than 0. */
const char *print_amount(NestPrinter *p, Index amount);

/* nest_value.c */
void print_count_uses(NestPrinter *p);
const char *print_symbol(NestPrinter *p, SymbolId symbol);
const char *print_index(NestPrinter *p, Index index);
const char *print_bracketed(const NestPrinter *p, const char *text); /* unless it is one word */
const char *print_value(NestPrinter *p, ValueId id);
bool print_is_wide(const NestPrinter *p, ValueId id);   /* something in it is a vector */
const char *print_quotient(NestPrinter *p, ValueId id); /* of integers that are not negative */
void print_let(NestPrinter *p, const NestNode *let);

/* nest_global.c: memory of all blocks, of which each item has its part, and what is done by the
 * last that comes to a counter in it; and what is combined there, by every lane alike. */
void print_global(NestPrinter *p, const NestNode *alloc);
bool print_is_tile(const NestPrinter *p, Index count); /* the lesser of something and a tile */
const char *print_global_at(NestPrinter *p, const NestNode *node); /* where its element is */
void print_last(NestPrinter *p, const NestNode *arrive);
const char *print_combined(NestPrinter *p, const NestNode *combine, const char *kind);

/* nest_tree.c */
void print_fold(NestPrinter *p, const NestNode *fold);
bool print_is_quick(const NestNode *fold); /* the greatest or least of numbers */
void print_tree(NestPrinter *p, const NestNode *tree);
void print_padding(NestPrinter *p, const NestNode *loop, const NestNode *body);
void print_pushed(NestPrinter *p, const NestNode *loop, const NestNode *body);
/* Of one thread: whether the loop goes over columns whose folds lie side by side, and pushes to
 * them; and ahead of such a loop what those that it combines come to. */
void print_combined_ahead(NestPrinter *p, const NestNode *loop);
void print_push(NestPrinter *p, const NestNode *push);
void print_combine(NestPrinter *p, const NestNode *node);

/* nest_leaves.c: whether the loop goes over vectors of a row for one thread, and what it is then;
 * of rows side by side, memory for what each has, ahead of the loop over them. */
bool print_is_leaves(const NestPrinter *p, const NestNode *loop);
void print_leaves(NestPrinter *p, const NestNode *loop);
/* The same of rows down columns: the loop over a row's vectors; NULL: it is none. */
const NestNode *print_down(const NestPrinter *p, const NestNode *loop);
void print_open_leaves(NestPrinter *p, const NestNode *rows);

/* nest_near.c: ahead of the vector loop. */
void print_near(NestPrinter *p, const NestNode *loop, const NestNode *load);

/* nest_access.c */
uint32_t print_array_of(const NestPrinter *p, SymbolId symbol);
void print_open_vector(NestPrinter *p, const NestNode *loop);
void print_close_vector(NestPrinter *p, const NestNode *loop);
void print_add_packet(NestPrinter *p, const NestNode *store, const char *name);
const char *print_packet_of(const NestPrinter *p, const NestNode *store);
/* Ahead of the loop, the random numbers of its `count` iterations. */
void print_draws(NestPrinter *p, const NestNode *loop, const char *count);
void print_open_streams(NestPrinter *p, const NestNode *loop);
void print_close_streams(NestPrinter *p, const NestNode *loop, const char *count);
/* The same of a loop over columns whose rows are written out in it. */
void print_open_row_streams(NestPrinter *p, const NestNode *loop);
void print_close_row_streams(NestPrinter *p, const NestNode *loop, const char *count);
/* Where the node takes part, or "". */
const char *print_condition(NestPrinter *p, const NestNode *node);
/* Of an unrolled loop that only loads vectors: under what they are all whole; NULL: it is not one,
 * or they may not be. */
const char *print_whole_if(NestPrinter *p, const NestNode *loop);
void print_alloc(NestPrinter *p, const NestNode *node);
void print_load(NestPrinter *p, const NestNode *node);
void print_store(NestPrinter *p, const NestNode *node);

/* wrap.c */
const char *emit_wrap(Emitter *e, const char *text); /* without lines too long to read */
bool emit_is_short(const char *expression);          /* it may stand inside another */

#endif
