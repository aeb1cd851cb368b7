/* schedule.h: a plan's kernels as nests. */
#ifndef LOCKSTEP_SCHEDULE_H
#define LOCKSTEP_SCHEDULE_H

/* plain.c: the plain nest of a kernel of a way: its phases as loops over their axes, each reduction
 * a tree, nothing tiled. Arrays are called as the plan calls them: the parameters, then the
 * temporaries. Bound besides are the lengths of axes: a size for each plain one, and for one that
 * hangs on a list's a table with an element a tensor; and of draws the first tensor and element. */
/* What is done with a strip of rows: its number, the first row of the part at hand, the part's
 * number, how many of its rows belong to a lane, and who does it. */
typedef enum StripGiven {
    STRIP_NUMBER,
    STRIP_FIRST,
    STRIP_PART,
    STRIP_SPAN,
    STRIP_OWNER,
    STRIP_GIVEN
} StripGiven;
typedef struct PlainNest {
    Nest *nest;
    const SymbolId *arrays;  /* by array of the plan; 0: not touched */
    const SymbolId *lengths; /* by axis: a size or a table; 0: fixed, or it follows */
    SymbolId first[2];       /* sizes; 0: not used */
    const SymbolId *strides; /* by array and LS_AXES_MAX axes: sizes; NULL: arrays are dense */
    /* Of a list's items: a table of tensors, one of items of theirs, and how many there are. */
    SymbolId items[2], item_count;
    /* Of a map, where a thread takes the items of its share as one: a table of the first item of
     * each share, and behind the last one of how many items there are; how many shares. */
    SymbolId shares, share_count;
    AxisSet item_axes;    /* whose elements of a tensor they are */
    AxisSet item_rows;    /* each of which has its own */
    AxisSet item_columns; /* of which so many have one together; 0: there are none */
    uint32_t item_chunk;
    bool item_least;      /* one at least */
    uint32_t item_length; /* elements of an item; 0: 1024 */
    Index elements;       /* of a map: how many, of a list at most */
    Index slots;          /* items of all tensors, for each of which global memory has room */
    SymbolId given;       /* a size: the items that a thread takes at a time; 0: not used */
    SymbolId finished;    /* an array of rows: a store to it says that a row is done; 0: none */
    SymbolId *held;       /* by array of the plan: the copy of a lane's rows; NULL, or 0: none */
    SymbolId
        strip[STRIP_GIVEN]; /* of a strip's columns: sizes that the caller gives; 0: no strip */
    SymbolId *scratch;      /* arrays of the step's that are none of the plan's: see strip_values */
    size_t scratch_count;
    bool *per_thread;   /* by such an array: a thread, or block, has its own part of it */
    const Index *along; /* of rows in registers: the lengths of what is walked along */
    size_t along_count; /* one, none of which is more than along_most elements where it runs */
    uint32_t along_most;
} PlainNest;
/* NULL, with the reason in *problem, where the kernel has no such form yet. With `strided`
 * parameters lie in memory as their strides say, which are bound too. */
PlainNest *schedule_plain(const Plan *plan, const Kernel *kernel, bool strided, Arena *arena,
                          const char **problem);

/* map.c: the schedule of a phase that is a map: its grid loop goes over items of 1024 elements. */
typedef struct MapNumbers {
    uint32_t lanes; /* that work on an item: 1, or 32, of vectors */
    bool strided;
} MapNumbers;
PlainNest *schedule_map(const Plan *plan, uint32_t phase, const MapNumbers *numbers, Arena *arena,
                        const char **problem);

/* walked.c: of axes of a phase those that are walked as one, in their order; gives how many sets of
 * them there are, LS_AXES_MAX at most. `chained`: the phase runs row by row with others. */
size_t schedule_units(const Plan *plan, uint32_t phase, AxisSet axes, bool strided, bool chained,
                      AxisSet *units);

/* phase.c: the nest of a phase that is printed for a target; with `finished` what follows its rows
 * part by part is told of each. */
typedef struct PhaseNumbers {
    bool strided, finished;
    const Kernel *chain; /* that runs the phase with others row by row; NULL: none */
    Portion portion;
    const bool *held; /* by array of the plan: of its rows there are copies; NULL: of none */
} PhaseNumbers;
const Kernel *schedule_chain(const Plan *plan, uint32_t phase); /* of the first way with one */
PlainNest *schedule_phase(const Plan *plan, uint32_t phase, const Target *target,
                          const PhaseNumbers *numbers, Arena *arena, const char **problem);

/* The nest of a kernel that has rows of the target's class in registers, without its tail. */
PlainNest *schedule_kernel(const Plan *plan, const Kernel *kernel, const Target *target,
                           const RowClass *rows, Arena *arena, const char **problem);

/* pack.c: loads of arrays that are `held`, whose index goes from row to row by the length, from
 * copies of a lane's 8 rows; schedule_pack finds the row's place among them, schedule_pack_at is
 * given it and adds what it needs at *end. */
typedef struct Pack {
    const Plan *plan;
    PlainNest *plain;
    const bool *held; /* by array of the plan; NULL: none */
    SymbolId row;
    Index length, gap; /* from row to row, and from copy to copy */
} Pack;
void schedule_pack(Pack *pack, NestNode **body);
void schedule_pack_at(Pack *pack, NestNode *body, Index lane_row, NestNode ***end);

/* join.c: the first loop of a body, in conditions too; the loop that stands alone in a loop but for
 * values, or NULL; and those that stand so in each other, before `end` unless that is 0, as one,
 * as far as their lengths let them: gives the innermost that is left. Without `divide` two join
 * where every index goes on from row to row. */
NestNode *schedule_first_loop(NestNode *body);
NestNode *schedule_next_loop(const NestNode *loop);
NestNode *schedule_join(Nest *nest, NestNode *loop, SymbolId end, bool divide);

/* trees.c: the trees of a body along the tiles of the first loop in it, whose values go to memory
 * of a worker's unless there is one tile at most; and whether a tree of it is not made of pairs. */
const char *schedule_trees(Nest *nest, NestNode **body, const TileNumbers *numbers);
bool schedule_is_halved(const NestNode *body);

/* vectors.c: whether one thread takes the loop along a row by vectors of the language, also where
 * it stores, and whether
 * what it pushes to a tree may be such. */
bool schedule_is_wide(const Nest *nest, const NestNode *loop, bool stores);
bool schedule_is_wide_tree(const NestNode *tree);

/* streams.c: marks the stores of one thread that go past the caches; gives how many. */
size_t schedule_streams(const Plan *plan, const PlainNest *plain, NestNode *body);

/* list.c: of a nest whose grid loop goes over a list's tensors, and in it a serial loop over items
 * of a tensor: one grid loop over the entries of the runtime's table of items. */
void schedule_table(PlainNest *plain, NestNode *tensors, NestNode *items);

/* scan.c: the schedule of a phase of scans. */
typedef struct ScanNumbers {
    uint32_t warps, lanes, width;
    uint32_t columns;    /* of one thread: what it walks down side by side */
    bool strided, table; /* table: a list's items come from the runtime's */
} ScanNumbers;
PlainNest *schedule_scan(const Plan *plan, uint32_t phase, const ScanNumbers *numbers, Arena *arena,
                         const char **problem);

/* scalar.c: the schedule of a phase of values on their own. */
PlainNest *schedule_scalar(const Plan *plan, uint32_t phase, uint32_t lanes, bool strided,
                           Arena *arena, const char **problem);

/* combine.c: the schedule of a phase over rows, each of many tiles of 1024. columns.c: that of one
 * that reduces down columns, for lanes: a column each. */
typedef struct ItemNumbers {
    uint32_t warps, lanes, width; /* a tile a warp; of rows, lanes times width divide 128 */
    int64_t load_bytes;           /* that a thread loads before it uses them; 0: as they come */
    AxisSet columns;              /* the last outer axes, that lanes lie along; 0: the last one */
    uint32_t chunk;               /* columns that one thread takes side by side */
    bool strided;
    bool finished;    /* what comes behind each row, or strip of columns, is told when it is done */
    int64_t near_row; /* the most elements of a row that stays near for all phases of it */
    const Kernel *chain; /* that runs the phase with others row by row; NULL: none */
    Portion portion;
    const bool *held; /* by array of the plan; NULL: none */
} ItemNumbers;
PlainNest *schedule_combine(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                            Arena *arena, const char **problem);
PlainNest *schedule_columns(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                            Arena *arena, const char **problem);

/* ahead.c: what one thread of a chain prefetches; NULL: nothing. Ahead of the work on `count`
 * elements of a row from `begin` on: as much of the next tile, or as the last to read an array of
 * the rows that come next. */
typedef struct RowsAhead {
    const Plan *plan;
    uint32_t phase;
    PlainNest *plain;
    const Kernel *chain;
    int64_t near_row;
    Index rows, most, groups; /* how many, their elements, items of a row */
} RowsAhead;
bool schedule_has_ahead(const RowsAhead *ahead, bool last);
NestNode *schedule_ahead(const RowsAhead *ahead, bool last, Index row, Index begin, Index count);

/* reduced_columns.c: the schedule of a phase that goes down columns, for one thread, which takes a
 * chunk of them side by side. */
PlainNest *schedule_reduced_columns(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                                    Arena *arena, const char **problem);

/* rows.c: the schedule of phases on the same rows: of one tile at most, a warp each; or of as many
 * tiles as a block has warps. */
typedef struct RowNumbers {
    uint32_t warps, lanes, width;
    uint32_t rows;     /* 1, 2, 4 or 8, of 128 elements, that hold one; 0: a block takes one */
    uint32_t tiles;    /* then: of 1024 elements, that hold one; more than warps: in turns */
    int64_t registers; /* of 32 bits, of a thread, for what several phases load */
    bool first;        /* all loads of a tile ahead of their uses */
    bool strided;
} RowNumbers;
PlainNest *schedule_rows(const Plan *plan, const Kernel *kernel, const RowNumbers *numbers,
                         Arena *arena, const char **problem);

/* ---- what plain.c and places.c share ---- */

typedef struct PlainBuilder {
    const Plan *plan;
    const Function *f;
    Nest *nest;
    Arena *arena;
    PlainNest *plain;
    SymbolId *arrays, *lengths, *strides;
    NestNode **end; /* where the next node goes */
    const char *problem;

    Index coordinate[LS_AXES_MAX], length[LS_AXES_MAX];
    Index flat[LS_AXES_MAX];      /* of an axis of blocks: where a gather is along all of it */
    SymbolId tensor[LS_AXES_MAX]; /* of an axis that a list counts: its coordinate as one symbol */
    bool open[LS_AXES_MAX], measured[LS_AXES_MAX], has_flat[LS_AXES_MAX];
    SymbolId inside; /* where coordinates are those of a list: that they are in range; else 0 */

    /* the phase at hand */
    const Phase *phase;
    ValueId **values; /* by phase and value: what the nest calls it */
    ValueId *value_of;
    SymbolId *tree_of, *state_of; /* by value: of a reduction, of a RUNNING */
} PlainBuilder;

typedef struct PlainPlace {
    NestNode **end;
    bool open[LS_AXES_MAX], measured[LS_AXES_MAX];
} PlainPlace;

typedef struct PlainElsewhere { /* what a list of indices puts aside */
    Index coordinate[LS_AXES_MAX], length[LS_AXES_MAX], flat[LS_AXES_MAX];
    SymbolId tensor[LS_AXES_MAX];
    bool measured[LS_AXES_MAX], has_flat[LS_AXES_MAX];
} PlainElsewhere;

/* A node where the next one goes. */
NestNode *plain_add(PlainBuilder *b, NestNode node);
Index plain_number(PlainBuilder *b, int64_t n);
/* The kernel has no plain nest: the first reason counts. */
void plain_refuse(PlainBuilder *b, const char *what);
ValueId plain_let(PlainBuilder *b, const char *name, ValueId value, Range range);
/* The value as a symbol of indices: a LET where it is no name. */
SymbolId plain_symbol_of(PlainBuilder *b, ValueId value, const char *name);
/* How many elements the axis has at the coordinates that are open; and whether all that this
 * depends on is open. */
Index plain_measure(PlainBuilder *b, uint32_t axis);
bool plain_can_measure(const PlainBuilder *b, uint32_t axis);
/* Goes on behind what is added from now on. */
PlainPlace plain_enter(const PlainBuilder *b);
void plain_leave(PlainBuilder *b, PlainPlace place);
/* Loops over the axes; the first a grid loop. What is added from now on is in them. */
void plain_open_axes(PlainBuilder *b, AxisSet axes, bool grid);
void plain_open_once(PlainBuilder *b, LoopKind kind); /* a loop of one iteration */
int plain_whole_at(const Function *f, AxisSet axes, uint32_t axis);
bool plain_is_rest_of(const Function *f, AxisSet axes, uint32_t axis);
Index plain_flat_coordinate(PlainBuilder *b, uint32_t whole);
/* The flat position over the axes, and how many there are, blocks as what they divide. */
Index plain_position(PlainBuilder *b, AxisSet axes, Index *count);
/* Fills the node's array, list and subscript with the element at the coordinates. */
void plain_place_node(PlainBuilder *b, uint32_t array, NestNode *node);
/* The coordinates, to come back to. */
PlainElsewhere plain_put_aside(const PlainBuilder *b);
void plain_come_back(PlainBuilder *b, const PlainElsewhere *own);
ValueId plain_and_of(PlainBuilder *b, ValueId x, ValueId y);
/* From now on the coordinates are those of the list; gives whether all are in range. */
ValueId plain_go_elsewhere(PlainBuilder *b, ValueId list);
void plain_measure_all(PlainBuilder *b);

/* ---- what combine.c and columns.c share: items.c ---- */

typedef struct ItemBuilder {
    const Plan *plan;
    const Phase *phase;
    const ItemNumbers *numbers;
    PlainNest *plain;
    Nest *nest;
    Arena *arena;
    NestNode *tensors; /* of a list: the loop over them; else NULL */
    NestNode **row;    /* where the loop over rows stands, or that over strips of columns */
    NestNode *along;   /* in it: the loop over its tiles, or over groups of one for each warp */
    Index most;        /* elements of a row */
    bool varies;       /* it may have fewer */
    int64_t length;    /* then: of which so many belong together */
    bool single;       /* a row is one tile at most */
    bool pairs;        /* what tiles leave is combined as it is, 1024 of them at a time */
    bool strips;       /* of columns, of which there are so many, in so many chunks */
    Index columns, chunks;
    SymbolId slot;        /* stands for the item's number among all */
    bool divided;         /* of one thread: a loop went by the rows of its elements */
    SymbolId first, stop; /* of one thread: the items of its share */
    NestNode *few;        /* then, where rows are short: what is done with all of its rows */
    int64_t few_most;     /* of as many elements at most */
    Index tiles;          /* of a row */
    NestNode *globals, **globals_end;
    const char *problem;
} ItemBuilder;

/* The phase's plain nest; false, with the reason in *problem: it has none. */
bool items_begin(ItemBuilder *b, const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                 Arena *arena, const char **problem);
bool items_refuse(ItemBuilder *b, const char *problem); /* the first reason counts */
/* The greater or lesser of an index and a number: derived where it is of sizes, else a LET. */
Index items_bounded(ItemBuilder *b, NestNode ***end, Op op, Index x, int64_t bound,
                    const char *name);
size_t items_count_loops(const Function *f, AxisSet axes);
/* From what is walked in a row to the most of any, by what its body binds ahead: blocks may be
 * shorter where they end; false: rows differ otherwise. */
bool items_find_most(ItemBuilder *b, const NestNode *row, const NestNode *walk);
NestNode *items_find_along(ItemBuilder *b);
NestNode **items_find_around(NestNode **body, SymbolId inner); /* the loop that it stands in */
/* At the end of a row's body, or a strip's: that it is done. */
void items_finished(ItemBuilder *b, NestNode **body, Index row);
/* alone.c: a row's tiles for one thread, which are reduced or not, in the loop over all elements
 * of a row. short_rows.c: rows of up to 512 elements, as many as fill a tile side by side. */
bool items_alone(ItemBuilder *b, NestNode *loop);
bool items_ahead(ItemBuilder *b, RowsAhead *ahead); /* what a chain prefetches; false: nothing */
void items_short(ItemBuilder *b);
/* A tile's loop over rows: as many side by side as so many bytes of loads allow, loads first. */
void items_jam(ItemBuilder *b, NestNode *loop, int64_t most);
int64_t items_work(const Nest *nest, const NestNode *body); /* of all its values, by ops.def */
/* The loops over rows and over a row's tiles as one over items. */
void items_build(ItemBuilder *b);
PlainNest *items_end(ItemBuilder *b, const char **problem);

/* Of rows of blocks, any of which may be short: the items of the longest, each of whole blocks as
 * long as that is less than a tile. */
Index items_most_groups(ItemBuilder *b, NestNode ***end);

/* ---- what schedules of columns share: columns.c ---- */

/* The phase's plain nest with one loop over columns, along the last axis that is not walked or two
 * that blocks make of one, and one over other outer coordinates, or NULL; false, with the reason in
 * *problem: it has no such. */
bool columns_begin(ItemBuilder *items, const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                   Arena *arena, NestNode **outers, NestNode **loop, const char **problem);

/* ---- phases down columns: column_nodes.c, column_tile.c ---- */

/* A tree that is made of pairs of its leaves, down each column. */
typedef struct ColumnTree {
    SymbolId source; /* what is pushed to in the nodes of elements */
    const char *name;
    Op op;
    Type type;
    bool last, sum;               /* of the last pass; of no leaves it is 0 */
    SymbolId total, part, folded; /* of the tile, of all tiles; while it is folded */
} ColumnTree;

/* One of the plain nest, as that or two of ours. */
typedef struct ColumnReduction {
    SymbolId tree;
    Op op;
    Type type;
    size_t first;
    bool two;
} ColumnReduction;

typedef struct ColumnTile {
    ItemBuilder *items;
    Nest *nest;
    Arena *arena;
    NestNode *outers;               /* the loop over other outer coordinates; NULL: none */
    NestNode *columns, *walk;       /* the loops over columns and down them */
    NestNode *before, **before_end; /* what is the same for all columns of these, ahead of them */
    NestNode *ahead;                /* what a column has ahead of its rows */
    NestNode *row_nodes, *column_nodes; /* of a row, and of each column of it */
    ColumnTree *trees;
    size_t tree_count;
    ColumnReduction *reductions;
    size_t reduction_count;
    int64_t chunk;                           /* columns side by side */
    Index rows;                              /* of a column */
    Index first_column, width, first, count; /* of the tile: columns, rows */
} ColumnTile;
/* Finds the parts of the tile's phase; needs its loops over columns and outer coordinates. */
bool column_take(ColumnTile *b);
/* The tile's values, which the trees' totals have then, and what is stored of its elements, for one
 * thread. */
void column_tile(ColumnTile *b, NestNode ***end);
/* The nodes at column `c` of the chunk, behind what it has ahead of its rows, with `stores` what is
 * stored there too. */
NestNode *column_nodes(ColumnTile *b, NestNode *nodes, Index c, bool stores);
/* A loop with the source of the one over rows; one over the columns of the chunk, which are a
 * lane's each where there are lanes. */
void column_loop(ColumnTile *b, NestNode ***end, LoopKind kind, SymbolId name, Index extent,
                 NestNode *body);
void column_across(ColumnTile *b, NestNode ***end, SymbolId c, NestNode *body);
/* Memory for a value of each tree, of each column. */
void column_open_totals(ColumnTile *b, NestNode ***end);

/* What is done with elements at a time: trees that are made of pairs have the last pass alone, of
 * others the first tree has one of its own. */
typedef struct ColumnPass {
    ColumnTile *b;
    bool last;
    NestNode *ahead, *column_nodes;
    SymbolId *kept; /* values of rows that columns use */
    size_t kept_count;
    bool places; /* and the row's number */
    /* of eight rows at a time */
    Index step;      /* lanes that make eight */
    SymbolId offset; /* of the eight rows from the first on */
    Index e;         /* the number of the eight */
    SymbolId live;   /* which of the eight are there, 0: all */
    SymbolId *rooms; /* of each, and of the row's number */
} ColumnPass;
ColumnPass column_pass(ColumnTile *b, bool last);
bool column_is_of_pass(const ColumnPass *p, size_t tree);
void column_find_kept(ColumnPass *p);
/* column_vectors.c: the pass by vectors of neighbouring columns, whose trees are then as many
 * leaves long as the tile has rows; false: it has no such form, and nothing has changed. */
bool column_by_vectors(ColumnTile *b, ColumnPass *p, NestNode ***end);
bool column_is_short(const ColumnPass *p); /* what is done with an element may stand there often */
NestNode *column_at(ColumnTile *b, NestNode *ahead, NestNode *nodes, Index c);
/* From now on what is pushed goes to the folds, at `c` where they lie side by side. */
void column_retarget(ColumnPass *p, NestNode *body, const SymbolId *folds, const Index *c,
                     Index leaf);
/* A row by its columns: its number in the tile, as a leaf of the folds its own. */
NestNode *column_row(ColumnPass *p, const SymbolId *folds, Index in_tile, Index leaf);
SymbolId column_fold(ColumnTile *b, NestNode ***end, const ColumnTree *tree, const char *what,
                     int64_t leaves, bool beside);

/* ---- columns of strips of rows: strip_columns.c ---- */

/* What strips of rows leave in arrays of the step's: for each tree. */
typedef struct StripValues {
    SymbolId *octets; /* by tree: [strips, columns]: of a tile 16 strips */
    Index wide;       /* columns, of all outer coordinates */
} StripValues;
StripValues strip_values(ColumnTile *b, PlainNest *plain);
/* The tile's values from its strips', which the trees' totals have then; `own`: the chunk's first
 * column in all. */
void strip_octets(ColumnTile *b, const StripValues *values, Index tile, Index own, NestNode ***end);
PlainNest *schedule_strip(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                          Arena *arena, const char **problem);

#endif
