/* emit.h: a plan as source text, and the tables of an image. image.c makes the module and the
 * image, variants.c says which variants it has; phase.c makes a function for each phase; kernel.c,
 * row_fusion.c, row_panels.c, row_kernel.c and segment_epilogue.c the entry points that call them,
 * iterations.c those that run a loop over time, whose states promote.c keeps in shared memory;
 * nest_*.c print nests; items.c counts the items of a phase and axes.c names its axes; names.c
 * makes every identifier. */
#ifndef LOCKSTEP_EMIT_H
#define LOCKSTEP_EMIT_H

/* ---- for the other rooms ---- */

/* image.c: a plan as source text and as the tables of an image: a variant for each layout up to the
 * last one wanted, and in it one for each grouping of the phases into kernels. With `shared`, two
 * texts, those of the variants have names of their own and no prelude, so that they can stand in
 * one file: before them come the prelude, the library that all of it uses, shared[0] (a line for
 * each macro) and shared[1] (imported C functions). NULL where no kernel can be made of the plan,
 * with what is wrong with it in *problem. */
const ls_image *emit_step(const Plan *plan, const Target *target, const char *target_name,
                          ls_image_layout last, Text *shared, const char **problem);
/* The same image for contiguous arrays without texts, up to the first variant that suits the user:
 * the variants behind it are left out. */
typedef bool EmitSuits(const void *user, const ls_image_variant *variant);
const ls_image *emit_tables(const Plan *plan, const Target *target, const char *target_name,
                            EmitSuits *suits, const void *user, const char **problem);
/* The text of variant `variant` of that image for axes of known lengths (by axis; 0: as the
 * arguments say), which are constants of it; all else is as in the variant. */
const char *emit_known(const Plan *plan, const Target *target, uint32_t variant,
                       const int64_t *lengths);
/* sequence.c: the image of a step with `for`, of the images of its parts for the target. */
const ls_image *emit_sequence(const Sequence *sequence, const ls_image *const *parts,
                              const char *target_name, ls_image_layout last);
/* A bound of the words that the arguments of a kernel of the plan take; where it is above
 * LS_ARGUMENTS_MAX the step cannot be built. */
size_t emit_words_bound(const Plan *plan);
/* The number of elements, of all phases together, up to which the grouping is used. */
uint64_t emit_work_limit(const Plan *plan, const Target *target, const Grouping *grouping);

/* promote.c: whether the variant keeps states and temporaries in shared memory; iterations.c:
 * whether its lanes run all iterations of their elements. */
bool emit_has_promoted(const ls_image_variant *variant);
bool emit_has_lanes(const ls_image_variant *variant);

/* names.c: identifiers of generated text. The words and suffixes that it reserves, for tests that
 * give a program such names; NULL after the last one. */
const char *names_word(size_t number);
const char *names_suffix(size_t number);
/* names_label: the prefix of the names of a step's kernels. names_c_step, names_c_member: the names
 * of a step and of a parameter in the header of a step built ahead of time. Different names stay
 * different. */
const char *names_label(Arena *arena, const char *step);
const char *names_c_step(Arena *arena, const char *step);
const char *names_c_member(Arena *arena, const char *name);

/* ---- what the emitter's files share ---- */

/* image.c: an image of the function's axes and parameters, without variants. */
ls_image *emit_head(const Function *f, const char *target_name);

/* Axes of a phase that one loop covers (loop coalescing): they are adjacent in every array that the
 * phase touches. */
typedef struct Group {
    AxisSet axes;
    const char *name; /* its coordinate's variable */
    const char *size; /* the text of its length, an expression */
    const char *max;  /* the same with whole blocks where `size` is of one that may be short */
} Group;

typedef struct NameTable {
    struct NameEntry { /* open addressing */
        const char *name;
        unsigned next; /* NAME_2 and so on are taken below this number */
    } * table;
    size_t capacity, count;
} NameTable;

/* A piece of the step's device memory, as image.h lists it, with its C type. */
typedef struct Field {
    ls_image_temporary temporary;
    const char *type;
} Field;

/* A structure or a function of a step that is built ahead of time: fold.c. */
typedef struct Folded {
    const char *name;
    const char *text; /* with "@" for its name */
} Folded;

/* A table of the items of phases over a list of tensors, as image.h lists it, with its name. */
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
    bool (*kinds)[TYPE_COUNT]; /* by operation and type: whether a nest uses the reduction */
    Text *shared;   /* of steps built ahead of time: the text that all of a file share; else NULL */
    Folded *folded; /* with `shared`: the definitions of the variants so far */
    size_t folded_count, folded_capacity;
    const char *label;  /* the prefix of names at file scope: names_label */
    const char *prefix; /* the prefix of the phases' names: none, or the label where several texts
                           share a file */
    const char *arguments;  /* the argument structure's name */
    const char **size_name; /* by axis */
    const int64_t *known;   /* by axis: its length, 0 where the arguments give it; or NULL */
    uint32_t known_variant; /* with `known`: the only variant whose text is wanted */
    EmitSuits *suits;       /* emit_tables; or NULL */
    const void *suits_user;
    bool found;               /* the last variant that is wanted; those behind it are left out */
    const char **field_name;  /* by array: in the argument structure */
    const char **stride_name; /* by array and axis: by array and axis: its stride in the argument
                                 structure, where the layout has strides */
    bool iterates;            /* the kernel runs all iterations of a `for` (Function.iteration) */
    const char **iterations_name; /* in the argument structure, by loop: how many, */
    const char *waiting_name;     /* the counter that blocks wait by in between */
    const char **step_name;       /* by parameter and axis the bytes from one slice to the next */
    bool strips;                  /* each block does so for strips of its own (ir/strips.c) */
    const char **strip_name;      /* by parameter: the bytes from one coordinate to the next */
    bool lanes;                   /* a lane does all iterations of its elements */
    bool promotes;        /* one block does all iterations, or those of a strip: promote.c */
    const bool *promoted; /* by array: whether it is in shared memory for them; NULL: none is */
    uint64_t room;        /* the bytes that each of these has there */
    uint8_t *carried;     /* of the variant, as ls_image_variant has it; NULL: none is */
    Field *fields; /* the plan's temporaries, then the partial results and counters of the phases */
    size_t field_count, field_capacity;
    bool *touched; /* by phase and array: whether the phase's text uses the pointer */
    Table *tables;
    size_t table_count, table_capacity;

    /* the phase being emitted */
    const Phase *phase;
    uint32_t number;
    Portion portion;
    ls_image_extent items; /* how many items of work the phase has */
    NameTable names;
    Group outer[LS_AXES_MAX], inner[LS_AXES_MAX];
    size_t outer_count, inner_count; /* of a column phase, the last outer group is the columns */
    int list;                 /* of a phase over a list: the axis that counts tensors; else -1 */
    Group tensor;             /* the group of that axis, which is in no other */
    const char *table;        /* the table of its items in the argument structure */
    bool eights;              /* whether any phase of the variant has vectors of 8 */
    bool many;                /* whether the kernel at hand has LS_THREADS_MANY */
    bool vectors[TYPE_COUNT]; /* by storage type: whether vectors of it are accessed */
    uint32_t last_line;       /* the source line that was quoted last; 0 before the first */
    const Kernel **followed;  /* by phase: the kernel whose segment epilogue runs after the phase's
                                 rows, or NULL */
    const Kernel *fused;      /* the row fusion that the phase is in, or NULL */
    uint32_t panel_lanes;     /* how many lanes of the tree a panel of it has */
} Emitter;

/* names.c: the only place that makes an identifier of generated text. Its head lists the reserved
 * forms: names that are written out in the emitter's text (x_leaf of the stem x, loop variables of
 * kernels) have a form that no user's name keeps. */
void names_begin(Emitter *e); /* begins a function, or the argument structure: no name is taken */
/* Of a function that is printed from a nest: all its names come from names_nest and names_made. */
void names_begin_nest(Emitter *e);
const char *names_nest(Emitter *e, const char *name);
const char *names_user(Emitter *e, const char *name); /* a name from the source */
const char *names_array(Emitter *e, uint32_t array);  /* the name of a parameter or a temporary */
const char *names_made(Emitter *e, const char *wish); /* a name of a reserved form */
/* The user's name, or where that is NULL a reserved one, as a stem: the names STEM_SUFFIX are taken
 * with it. */
const char *names_stem(Emitter *e, const char *user, const char *made, const char *const *suffixes);
bool names_is_plain(const char *user);   /* whether the name has no reserved form */
bool names_has_prefix(const char *user); /* whether it has a form that is prefixed with n_ */

/* value.c */
/* The user's text within a comment, changed so that it cannot end the comment. */
void emit_quote(Text *out, const char *begin, const char *end);
const char *emit_type(Type type); /* a value's C type: bool is int */
const char *emit_constant(Emitter *e, Type type, uint64_t bits);
const char *emit_bare(Emitter *e, const char *text); /* without an outermost pair of brackets */

/* The text of an operation on texts of its operands; and whether it is an operator of C. */
const char *emit_operation(Emitter *e, const Function *f, const Value *value, const char **arg);
/* Whether the values of a phase use more costly functions than the target inlines. */
void emit_find_calls(Emitter *e, const Function *values);
bool emit_is_infix(const Emitter *e, const Value *value);
/* Quotes the source line a statement comes from, when it is another than the last. */
void emit_quote_line(Emitter *e, Text *out, Range range);

/* axes.c */
bool emit_is_rest(
    const Emitter *e,
    uint32_t axis); /* whether the axis counts elements within blocks (the k of n = q * k) */
bool emit_is_split(const Emitter *e,
                   uint32_t axis); /* such an axis of a phase that goes block by block */
int emit_list_of(
    const Emitter *e,
    uint32_t axis); /* the axis of tensors that the text of its length depends on, or -1 */
bool emit_is_list(const Emitter *e, uint32_t array);
bool emit_in_loop_columns(const Emitter *e);
const char *emit_size(Emitter *e, uint32_t axis); /* the text of its length */
/* Where a function's variable of that name has its length from: the arguments, or a constant. */
const char *emit_given_size(Emitter *e, uint32_t axis);

/* c_functions.c: imported C functions */
void emit_c_functions(Emitter *e, Text *out); /* those that the step needs */

/* reduce.c */
/* The suffix of the names of a reduction's functions, and notes that the text needs them. */
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
    const char *row_items;  /* of SHAPE_ROWS: the items of one row */
    const char *finish; /* its function that combines the partial values of all row panels; NULL: it
                           has none */
    const char *inner;  /* the number of inner elements of each outer coordinate */
    /* The same for a row fusion: how many panels (rows, or chunks of columns), and how many tiles
     * each has. */
    const char *panels, *tiles;
    ls_image_extent panel_items, panel_tiles;
    const char *table; /* the table of a list's items in the argument structure; NULL: none */
    bool blocks;       /* its items are blocks', not warps' */
    bool ranged;       /* on a GPU: a warp takes a contiguous range of its items */
    bool last_block;   /* it has a last-block epilogue of its own */
    bool non_temporal; /* it may use non-temporal stores; in a row fusion the kernel fences them */
    uint32_t panel_chunk;       /* of row panels down columns: the columns of a warp, or a thread */
    size_t fields, field_count; /* the range of e->fields that this phase alone uses */
} PhaseText;
PhaseText emit_phase(Emitter *e, uint32_t number, Portion portion, Text *out);

/* row_panels.c */
const Kernel *emit_panels_of(const Grouping *grouping); /* the grouping's kernel of row panels */
PhaseText emit_portions(Emitter *e, const Grouping *grouping, uint32_t number, Text *out);
enum { PANEL_CONDITIONS = 4 };
/* On a GPU: whether the phases of row panels along rows have a nest for teams of warps. */
bool emit_has_teams(Emitter *e, const Grouping *grouping);
uint32_t emit_panel_conditions(Emitter *e, const Grouping *grouping,
                               ls_image_condition *conditions);
/* Prints the kernel and completes its row of the image, which has its name and shape already. */
void emit_panel_kernel(Emitter *e, Text *out, const Kernel *kernel, const char *sizes,
                       const PhaseText *phases, ls_image_kernel *row);

/* image.c: with `rows` the variant for such rows, unless no kernel has them: *variant stays without
 * a name. False: with the problem in *problem. */
bool emit_variant(Emitter *e, const ls_image_variant *first, ls_image_variant *variant,
                  ls_image_layout layout, Grouping grouping, const RowClass *rows,
                  const char **problem);
/* variants.c: the variants for each layout up to the last one; NULL where there can be none. */
ls_image_variant *emit_variants(Emitter *e, ls_image_layout last, uint32_t *count,
                                const char **problem);

/* kernel.c */
/* The head of an entry point, with the lengths of axes that its text uses. `alone`: a block has a
 * multiprocessor to itself. */
void emit_entry(Emitter *e, Text *out, const char *name, uint32_t threads, bool alone,
                const char *sizes);
/* A kernel's text, and its row in the image. */
ls_image_kernel emit_kernel(Emitter *e, Text *out, const Kernel *kernel, const char *suffix,
                            const PhaseText *phases);

/* segment_epilogue.c: the phases of a kernel that run for each segment (a tensor of a list, say)
 * when its rows or columns are done. */
/* Prints their functions; needs the functions of the phases. */
void emit_segment_epilogue(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases);
/* Whether the phase has a segment epilogue behind it; and the call at the end of one of its rows or
 * columns. */
bool emit_is_followed(const Emitter *e);
const char *emit_followed(Emitter *e, const char *row);
/* The loop over empty segments, whose epilogue no row or column starts. */
void emit_empty_parts(Emitter *e, Text *out, const Kernel *kernel);

/* row_fusion.c: the text of a kernel that is a row fusion, with its last-block epilogue. */
void emit_row_fusion(Emitter *e, Text *out, const char *name, const Kernel *kernel,
                     const PhaseText *phases, const char *sizes, const char *pre_reductions,
                     const char *last_block);
/* The bytes that a thread needs for an array in worker scratch. */
ls_image_extent emit_scratch_bytes(Emitter *e, uint32_t array);

/* alias.c: gives temporaries that are never needed at once the same number. */
void emit_alias_temporaries(Emitter *e, const Grouping *grouping, const PhaseText *phases);

/* items.c */
bool emit_takes_columns(
    const Emitter *e); /* whether an item covers several columns, which are the last outer group */
/* Fills in how many items the phase has, and how an item's number is divided into coordinates. */
void emit_find_items(Emitter *e, PhaseText *text);
const char *emit_add_field(Emitter *e, const char *wish, const char *type, ls_image_extent bytes,
                           bool zeroed);

/* Types of loop.h and schedule.h, for files that do not include these. */
typedef struct PlainNest PlainNest;
typedef struct Nest Nest;
typedef struct NestNode NestNode;
typedef struct Index Index;
typedef uint32_t SymbolId;

/* hints.c: the pragma before a loop over columns, and before one over elements; whether a compiler
 * has to be told that arrays of a loop with that body are apart */
bool emit_has_many_pairs(const Emitter *e, const NestNode *body);
/* Whether memory or a fold of that name is declared in the body. */
bool emit_declares(const NestNode *body, SymbolId name);
/* Whether the loop takes what trees and folds that are declared outside of it come to. */
bool emit_takes_others(const NestNode *loop);
bool emit_takes_gathered(const Emitter *e, const Nest *nest, const NestNode *loop);
const char *emit_independent(const Emitter *e);
const char *emit_interleaved(const Emitter *e, const NestNode *body);

/* nest_print.c: a nest as a function of that name, `comment` before it, of one phase or, where
 * `kernel` is not NULL, of all phases of a kernel but its pre-reductions and its last-block
 * epilogue. Gives whether it uses non-temporal stores. */
bool emit_nest(Emitter *e, const PlainNest *plain, const Kernel *kernel, const char *name,
               const char *comment, Text *out);

/* iterations.c: a kernel that runs all iterations of a `for`: the names, and the words that its
 * arguments have for that, listed in `out` where it is not NULL; the text of an entry point around
 * the calls of an iteration, or of one that goes strip by strip; of such a one the items, and the
 * row of strips. */
void emit_name_iterations(Emitter *e);
uint32_t emit_iteration_words(const Emitter *e, Text *out);
const char *emit_iterations(Emitter *e, const char *sizes, const char *calls);
const char *emit_strips(Emitter *e, const char *sizes, const Kernel *kernel,
                        const PhaseText *phases);
bool emit_is_elementwise(
    const Plan *plan); /* whether a lane can do all iterations of its elements */
const char *emit_one_block(Emitter *e, const char *sizes, const Kernel *kernel,
                           const PhaseText *phases); /* which no other waits for */
void emit_strip_items(Emitter *e, ls_image_kernel *row);
const ls_image_strips *emit_strip_row(Emitter *e);

/* iterations.c: notes that all iterations carry the array in a register, or in shared memory. */
void emit_add_carried(Emitter *e, uint32_t array);
/* promote.c: the arrays that are in shared memory for all iterations; false: there are none. Needs
 * the text of all phases. Then their declarations, with which temporaries lie there; the copies of
 * states around the iterations; and what the lengths must be for that. */
bool emit_find_promoted(Emitter *e);
bool emit_is_promoted(const Emitter *e, size_t array);
void emit_declare_promoted(Emitter *e, Text *out);
void emit_copy_states_in(Emitter *e, Text *out);
void emit_copy_states_out(Emitter *e, Text *out);
uint32_t emit_promotion_conditions(const Emitter *e, ls_image_condition *conditions);

/* kernel.c: whether the blocks of a kernel, of all phases or not, wait for each other. */
bool emit_waits(const Emitter *e, bool all);
/* kernel.c: gives the block a part of its own of a temporary, in its copy of the arguments. */
void emit_own_field(Emitter *e, Text *out, const char *copy, Field *field);
/* kernel.c: the pre-reductions that every block computes redundantly ahead of a kernel's phases,
 * with the lengths of axes where they are not there yet (from then on `a` is the block's own copy
 * of the arguments); and the phases of the last-block epilogue. */
const char *emit_pre_reductions(Emitter *e, const Kernel *kernel, const PhaseText *phases,
                                bool sizes);
/* Runs the phase by one block alone. */
void emit_run_alone(Text *out, const PhaseText *phase);
void emit_call_last_block(Emitter *e, Text *out, const Kernel *kernel, const PhaseText *phases);

/* row_kernel.c: variants of a grouping for rows of a class of lengths. By kernel of the grouping:
 * the nest that it is printed from, or NULL; the result is NULL where no kernel has one, and
 * without a class. */
const PlainNest *const *emit_row_nests(Emitter *e, const Grouping *grouping, const RowClass *rows);
/* Fills in the conditions on row lengths, at most two for each phase; gives how many. */
size_t emit_row_conditions(Emitter *e, const Grouping *grouping, const PlainNest *const *nests,
                           const RowClass *rows, ls_image_condition *conditions);
ls_image_kernel emit_row_kernel(Emitter *e, Text *phases, Text *kernels, const Kernel *kernel,
                                const PlainNest *nest, const RowClass *rows, const char *suffix,
                                const PhaseText *made);

/* ---- what nest_print.c, nest_value.c and nest_access.c share ---- */

typedef struct StoredPacket { /* a buffer that the stores of a vector, or of a block of a run, go to
                                 first */
    const NestNode *store;
    const char *name;
    const char *row; /* of a block of several rows: where this row begins; NULL: it has one row */
} StoredPacket;

/* What the function of a row's leaves uses of what lies outside (nest_leaves.c). */
typedef struct Captured Captured;

enum { LEAVES_MAX = 32 };
typedef struct NestPrinter {
    Emitter *e;
    Arena *arena; /* closed behind it */
    const PlainNest *plain;
    Nest *nest;
    Text *out;
    const char **spelled;   /* by symbol; NULL: not yet */
    const char **packet;    /* by symbol of a load: the vector that has it, or NULL */
    const char **adjacent;  /* by symbol of a load: the vector that it is read from where NAME_whole
                               is true, or NULL */
    bool *same_row;         /* by symbol of a LET: the same for all elements of such a vector */
    const char *one_row_if; /* the test of the vector at hand that all of them are; NULL: none */
    bool one_row;           /* all vectors that are read so are whole */
    size_t capacity;        /* length of the arrays by symbol */
    ValueId *inside;        /* by symbol of a LET: its value, where that stands inside its user */
    uint32_t *uses;         /* by symbol */
    bool *is_scratch;       /* by symbol of an array: it is no array of the plan */
    /* by symbol: the last STORE of just that; what is printed where it is stored, and the text of
     * it unless it is a LET */
    const NestNode **store, **moved;
    const char **moved_text;
    const NestNode **own_body, **user_body,
        *body;      /* by symbol: the body that defines it, and the only one that uses it */
    bool *is_index; /* by symbol: it stands in an index */
    bool *is_bound; /* by symbol: it stands in a loop's extent */
    bool *ahead;    /* by symbol of a LET: it is computed ahead of its loop */
    const NestNode **allocs; /* by symbol of an ALLOC: it */
    const NestNode **trees;  /* by symbol of a FOLD: it */
    bool *own_trees;         /* by symbol of a FOLD: each lane has one */
    uint8_t *loops;          /* by symbol of a loop: 1 + its kind */
    ValueId *value_of;       /* by symbol of a LET: its value */
    bool *is_counter;        /* by symbol of an ALLOC: it is a counter that items arrive at */
    uint32_t
        *private; /* by symbol of an ALLOC: how many of its dims are indexed by warps and lanes */
    StoredPacket *stored;
    size_t stored_count, stored_capacity;
    const char *lane, *warp;
    bool in_warp, in_lane;       /* of such a loop */
    const Kernel *kernel;        /* that the nest is of; NULL: of a phase */
    bool guarded;                /* inside of a test that an out is there */
    bool whole;                  /* every vector at hand is aligned and within its limit */
    const NestNode *vector_loop; /* the one at hand, or the last one */
    bool whole_vectors; /* every vector with a limit is aligned, and ahead of it or beyond it */
    bool *multiples;  /* by symbol: sizes that are tested to be multiples of the vector; or NULL */
    bool one_version; /* of the two bodies of a version the second one alone is printed */
    SymbolId tensor;  /* of a list: the tensor that the pointers are of */
    SymbolId vector, run, columns; /* the innermost loops at hand */
    bool non_temporal, non_temporal_off;
    bool *is_vector; /* by symbol: it is a vector of the C compiler, of neighbouring elements */
    const char *
        *pitch; /* by symbol of several TREEs: the text of the distance between their beginnings */
    /* Of loops over vectors, whose trees those by symbol are: the functions that they are, as text
     * that stands before this one's. */
    bool *by_vectors;
    Text before;
    const char *label, *leaf_fields[LEAVES_MAX], *leaf_bodies[LEAVES_MAX];
    size_t leaf_count;
    /* Of rows side by side: the loop over them at hand, what the function of their leaves uses, the
     * arrays of what each row has, and the call for all, up to their count and behind it. */
    const NestNode *batch;
    const Captured *batch_captured;
    size_t batch_count;
    Text batch_arrays;
    const char *batch_call, *batch_call_end;
    /* Of folds of a tile that is computed again where some value is not finite: the flag that says
     * so; else NULL. */
    const char *odd;
} NestPrinter;

/* nest_print.c: that an amount is more than 0. */
const char *print_amount(NestPrinter *p, Index amount);

/* nest_value.c */
void print_count_uses(NestPrinter *p);
const char *print_symbol(NestPrinter *p, SymbolId symbol);
const char *print_index(NestPrinter *p, Index index);
const char *print_bracketed(const NestPrinter *p,
                            const char *text); /* in brackets, unless it is one word */
const char *print_value(NestPrinter *p, ValueId id);
bool print_is_vector(const NestPrinter *p,
                     ValueId id); /* whether a part of it is a vector of the C compiler */
const char *print_quotient(NestPrinter *p, ValueId id); /* of integers that are not negative */
bool print_is_unnamed(const char *name); /* of a value: the source has no name for it */
void print_let(NestPrinter *p, const NestNode *let);

/* nest_global.c: global memory in which each item stores its partial result, the counters by which
 * the last item to arrive is found, and the combination of partial results, which every lane of a
 * warp does alike. */
void print_global(NestPrinter *p, const NestNode *alloc);
bool print_is_tile(const NestPrinter *p, Index count); /* it is a minimum of something and a tile */
const char *print_global_at(NestPrinter *p, const NestNode *node); /* the text of its address */
const char *print_range(NestPrinter *p, bool end);
void print_last(NestPrinter *p, const NestNode *arrive);
void print_barrier(NestPrinter *p, const NestNode *node);
void print_prefetch(NestPrinter *p, const NestNode *node);
const char *print_combined(NestPrinter *p, const NestNode *combine, const char *kind);

/* nest_tree.c */
const char *print_own_lane(NestPrinter *p, const NestNode *loop); /* its index, in text */
void print_fold(NestPrinter *p, const NestNode *fold);
bool print_is_quick(const NestNode *fold); /* it is a min or max of numbers */
void print_tree(NestPrinter *p, const NestNode *tree);
void print_padding(NestPrinter *p, const NestNode *loop, const NestNode *body);
void print_pushed(NestPrinter *p, const NestNode *loop, const NestNode *body);
/* Of one thread: ahead of a loop over columns, the values of the folds that it combines, which lie
 * side by side. */
void print_combined_ahead(NestPrinter *p, const NestNode *loop);
void print_push(NestPrinter *p, const NestNode *push);
void print_combine(NestPrinter *p, const NestNode *node);

/* iterations.c: spells how many iterations a lane runs, and the distances of slices, if it does. */
void print_iterations(NestPrinter *p);

/* nest_leaves.c: whether the loop goes over vectors of a row for one thread, and what it is then;
 * whether it goes over rows side by side that have such a loop. */
bool print_is_leaves(const NestPrinter *p, const NestNode *loop);
void print_leaves(NestPrinter *p, const NestNode *loop);
/* The same of rows down columns: the loop over a row's vectors; NULL: it is none. */
const NestNode *print_down(const NestPrinter *p, const NestNode *loop);
bool print_is_batch(const NestPrinter *p, const NestNode *rows);

/* nest_access.c: whether a body defines the symbol. */
bool print_defines(const NestNode *body, SymbolId symbol);
/* Whether the index has what the loop's body binds; the index at the loop's first iteration. */
bool print_varies(const NestNode *loop, Index index);
Index print_first_of(NestPrinter *p, const NestNode *loop, Index at);
/* nest_print.c: the nodes of a body, one after the other. */
void print_body(NestPrinter *p, const NestNode *body);

/* nest_adjacent.c: a load of adjacent elements, ahead of the vector loop. */
void print_adjacent(NestPrinter *p, const NestNode *loop, const NestNode *load);
/* Behind these: the test that all of them are whole, for a loop that is printed for where it holds
 * and again for where it does not; NULL: it is not to be unswitched. */
const char *print_one_row(NestPrinter *p, const NestNode *loop);
/* A LET with its value at the vector's first element. */
const NestNode *print_first_in_row(NestPrinter *p, const NestNode *let);
/* The end of the test's branch, and the other one, element by element; the vectors' stores. */
void print_other_rows(NestPrinter *p, const NestNode *loop);

/* Of a vector loop: its elements, the word for them in names of types and functions, and in those
 * of accesses under a limit, which a test may have found to be all of the vectors or none. */
uint32_t print_width(const NestNode *loop);
const char *print_span(const NestNode *loop);
const char *print_limited(const NestNode *loop, bool whole);

/* nest_whole.c: under what vectors that the node accesses lie on their boundary, and, of eight
 * elements, under what halves of them do. */
const char *print_aligned(NestPrinter *p, const NestNode *loop, const NestNode *node);
/* Whether each row of a GPU's kernel is loaded once, to registers. */
bool print_is_kept(const Nest *nest, const PlainNest *plain);
/* Opens a test that all vectors of a row are whole, false: there is none; its other branch. Of an
 * element of a vector: where that is whole, the limit of its first one. */
bool print_open_whole(NestPrinter *p, const NestNode *body);
void print_else_whole(NestPrinter *p);
void print_close_whole(NestPrinter *p);
Index print_limit(NestPrinter *p, Index limit);

/* nest_draws.c: ahead of the loop, the random numbers of its `count` iterations. */
void print_draws(NestPrinter *p, const NestNode *loop, const char *count);
/* nest_access.c: under what the index is a multiple of so many at the vector loop's first element,
 * NULL: that cannot be known; whether the node accesses a vector as one. */
const char *print_multiples(NestPrinter *p, const NestNode *loop, uint32_t width, Index index);
bool print_is_packet(NestPrinter *p, const NestNode *loop, const NestNode *node);
uint32_t print_array_of(const NestPrinter *p, SymbolId symbol);
void print_open_vector(NestPrinter *p, const NestNode *loop);
void print_close_vector(NestPrinter *p, const NestNode *loop);
void print_add_packet(NestPrinter *p, const NestNode *store, const char *name);
const char *print_packet_of(const NestPrinter *p, const NestNode *store);
void print_open_non_temporal(NestPrinter *p, const NestNode *loop);
void print_close_non_temporal(NestPrinter *p, const NestNode *loop, const char *count);
/* The same of a loop over columns whose rows are written out in it. */
void print_open_row_non_temporal(NestPrinter *p, const NestNode *loop);
void print_close_row_non_temporal(NestPrinter *p, const NestNode *loop, const char *count);
/* Where the node takes part, or "". */
const char *print_condition(NestPrinter *p, const NestNode *node);
/* Of an unrolled loop that only loads vectors: under what they are all whole; NULL: it is not one,
 * or they may not be. */
const char *print_whole_if(NestPrinter *p, const NestNode *loop);
void print_alloc(NestPrinter *p, const NestNode *node);
/* Whether a store behind the node is all that uses its value, and every thread does it unless the
 * node is a LET: then its text may stand there. print_move: it does. */
bool print_is_only_stored(const NestPrinter *p, const NestNode *node);
void print_move(NestPrinter *p, const NestNode *node, const char *text);
/* Whether all that is done with the array is a load ahead of all loops. */
bool print_is_loaded_once(const NestPrinter *p, SymbolId array);
void print_load(NestPrinter *p, const NestNode *node);
void print_store(NestPrinter *p, const NestNode *node);

/* fold.c: the definitions at file scope of a variant, then its kernels, without the definitions
 * that an earlier variant has. */
const char *emit_fold(Emitter *e, const char *definitions, const char *kernels);

/* wrap.c */
const char *emit_wrap(Emitter *e, const char *text); /* without lines too long to read */
bool emit_is_short(const char *expression);          /* it may stand inside another */

#endif
