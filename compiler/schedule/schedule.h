/* schedule.h: a plan's kernels as nests. */
#ifndef LOCKSTEP_SCHEDULE_H
#define LOCKSTEP_SCHEDULE_H

/* plain.c: the plain nest of a kernel: its phases as loops over their axes, each reduction a tree,
 * nothing tiled. Arrays have the plan's names: the parameters, then the temporaries. Other bindings
 * are the lengths of axes (a size for each plain axis; for an axis whose length differs by tensor a
 * table with an element for each tensor) and, for random numbers, the first tensor and element. */
/* The sizes that the caller of a row panel's function gives: the panel's number, the number of the
 * block or thread, the first row of the part at hand and for how many leaves of the tree the part
 * stands. A block gets the part's number as well, a thread what ls_part of memory_cpu.h has: how
 * many of the rows exist, how far the row of a leaf is from the first one for each bit of the
 * leaf's number in the part, the number modulo 8 of its first leaf, the level of the tree that the
 * part makes, how many levels it completes, and how many leaves of the panel are left behind it. */
typedef enum PanelGiven {
    PANEL_NUMBER,
    PANEL_OWNER,
    PANEL_FIRST,
    PANEL_SPAN,
    PANEL_PART,
    PANEL_ROWS,
    PANEL_STEP_0,
    PANEL_STEP_1,
    PANEL_STEP_2,
    PANEL_LEVEL,
    PANEL_CARRY,
    PANEL_LEFT,
    PANEL_GIVEN
} PanelGiven;
typedef struct PlainNest {
    Nest *nest;
    const SymbolId *arrays; /* by array of the plan: its symbol; 0: not touched */
    const SymbolId
        *lengths;      /* by axis: a size or a table; 0: a constant, or it follows from others */
    SymbolId first[2]; /* sizes: the first tensor and element of random numbers; 0: not used */
    const SymbolId
        *strides; /* by array and axis (LS_AXES_MAX each): sizes; NULL: arrays are dense */
    /* Of the items of a list: a table of their tensors, a table of their numbers within the tensor,
     * and how many there are. */
    SymbolId items[2], item_count;
    /* Where a thread takes a range of items at once: a table of the first item of each thread's
     * range, with the number of all items at its end; and the number of ranges. */
    SymbolId partitions, partition_count;
    AxisSet item_axes;    /* the axes whose elements an item covers, within a tensor */
    AxisSet item_rows;    /* the axes of which each coordinate has items of its own */
    AxisSet item_columns; /* the axes of which item_chunk coordinates share an item; 0: there are
                             none */
    uint32_t item_chunk;
    bool item_min;  /* there is at least one item, also where there is no element */
    Index elements; /* of a map: the number of elements; of a list the largest of a tensor */
    Index slots; /* the number of items of all tensors, each of which has a slot in global memory */
    SymbolId given;    /* a size: how many items a thread takes at a time; 0: not used */
    SymbolId finished; /* an array over rows: a store to it means that the row is done; 0: none */
    SymbolId
        panel[PANEL_GIVEN]; /* of a row panel: the sizes that the caller gives; 0: it is none */
    SymbolId *scratch;      /* arrays of the step that the plan does not have: see panel_values */
    size_t scratch_count;
    bool *per_thread;   /* by such an array: each thread, or block, has its own part of it */
    const Index *along; /* of rows in registers: the lengths of the rows */
    size_t
        along_count; /* how many there are; none is more than along_max where the kernel is used */
    uint32_t along_max;
    bool team;            /* a team of a block's warps takes a row of it: see schedule_team */
    uint32_t panel_chunk; /* of row panels: how many columns a warp, or a thread, takes at once */
    /* Of a phase that runs all iterations of a `for`; else NULL: the sizes that say how many, by
     * loop; by parameter and axis (LS_AXES_MAX each) a size, how many elements, or how many times
     * 16 bytes, are from one slice to the next; by symbol the arrays that are in registers. */
    SymbolId *iterations, *steps;
    bool *promoted;
} PlainNest;
/* NULL, with the reason in *problem, where the kernel has no such form. Where arrays are not
 * contiguous the parameters have strides, which are bound too. */
PlainNest *schedule_plain(const Plan *plan, const Kernel *kernel, ls_image_layout layout,
                          Arena *arena, const char **problem);

/* A block of so many warps has few registers for each thread, and most of its tiles are whole. */
enum { MANY_WARPS = 16 };

/* map.c: the schedule of a phase that is a map: its grid loop goes over items of so many elements
 * as schedule_map_item says. */
typedef struct MapNumbers {
    uint32_t lanes; /* the lanes that work on an item: 1, or 32 with vectors */
    ls_image_layout layout;
    bool over_time; /* all iterations of a `for`: see schedule_over_time */
} MapNumbers;
uint32_t schedule_map_item(const Plan *plan, uint32_t phase, uint32_t lanes, bool over_time);
PlainNest *schedule_map(const Plan *plan, uint32_t phase, const MapNumbers *numbers, Arena *arena,
                        const char **problem);

/* over_time.c: a lane runs all iterations of a `for`, those of the function's `iteration`, for the
 * elements that it has at once. NULL, or why not. */
const char *schedule_over_time(const Plan *plan, PlainNest *plain, ls_image_layout layout);

/* collapse.c: the axes of a phase that one loop can cover (loop coalescing), in sets, in their
 * order; gives how many sets there are, at most LS_AXES_MAX. `fused`: the phase is part of a row
 * fusion. */
size_t schedule_units(const Plan *plan, uint32_t phase, AxisSet axes, ls_image_layout layout,
                      bool fused, AxisSet *units);

/* phase.c: the nest of a phase for a target. With `finished` it reports each row that is done, for
 * a segment epilogue. */
typedef struct PhaseNumbers {
    ls_image_layout layout;
    bool over_time; /* a map that runs all iterations of a `for` */
    bool finished;
    const Kernel *row_fusion; /* the row fusion that the phase is in; NULL: none */
    Portion portion;
    uint32_t panel_lanes; /* of a portion of row panels: the lanes of the tree that a panel has */
} PhaseNumbers;
const Kernel *schedule_row_fusion(
    const Plan *plan,
    uint32_t phase); /* the row fusion, of the first grouping that has one, with the phase */
PlainNest *schedule_phase(const Plan *plan, uint32_t phase, const Target *target,
                          const PhaseNumbers *numbers, Arena *arena, const char **problem);

/* The nest of a kernel that keeps rows of the target's class in registers, without its last-block
 * epilogue. */
PlainNest *schedule_kernel(const Plan *plan, const Kernel *kernel, const Target *target,
                           const RowClass *rows, Arena *arena, const char **problem);

/* The nest of phases on the same rows for row panels on a GPU: a row is taken by a team, as many of
 * the block's warps as it has tiles, and all teams of the block wait for each other. The caller
 * gives a warp's number in its team, and that of the team's first warp. */
PlainNest *schedule_team(const Plan *plan, const Kernel *phases, const Target *target, Arena *arena,
                         const char **problem);

/* join.c: the first loop of a body, also within conditions; the only loop in a loop, besides
 * values, or NULL; and a perfect nest of loops coalesced as far as possible, up to the loop `end`
 * unless that is 0, of which the innermost is given. Without `divide` two loops are coalesced only
 * where every index is contiguous from row to row. */
NestNode *schedule_first_loop(NestNode *body);
NestNode *schedule_next_loop(const NestNode *loop);
NestNode *schedule_join(Nest *nest, NestNode *loop, SymbolId end, bool divide);

/* trees.c: places the trees of a body along the tiles of its first loop; the tiles' values go to
 * worker scratch unless there is at most one tile. schedule_is_halved: whether a tree of the body
 * is not combined pair by pair. */
const char *schedule_trees(Nest *nest, NestNode **body, const TileNumbers *numbers);
bool schedule_is_halved(const NestNode *body);

/* vectors.c: whether one thread takes the loop along a row by vectors of the language, also where
 * it stores, and whether what it pushes to a tree may be such: sums and products, with `any_order`
 * minima and maxima too. */
bool schedule_is_vectorizable(const Nest *nest, const NestNode *loop, bool stores);
bool schedule_is_vector_tree(const NestNode *tree, bool any_order);
/* Gives the accesses of vectors that are whole a limit behind them, which says where they begin. */
void schedule_limit_vectors(Nest *nest, NestNode *body, const NestNode *vector);

/* non_temporal.c: marks the stores of a CPU thread that become non-temporal; gives how many. */
size_t schedule_non_temporal(const Plan *plan, const PlainNest *plain, NestNode *body);

/* list.c: turns a grid loop over the tensors of a list, with a serial loop over the items of a
 * tensor in it, into one grid loop over the runtime's table of items. */
void schedule_table(PlainNest *plain, NestNode *tensors, NestNode *items);

/* scan.c: the schedule of a phase of scans. */
typedef struct ScanNumbers {
    uint32_t lanes, width;
    uint32_t columns; /* of one thread: how many neighbouring columns it takes at once */
    ls_image_layout layout;
    bool table; /* the items of a list come from the runtime's table */
} ScanNumbers;
PlainNest *schedule_scan(const Plan *plan, uint32_t phase, const ScanNumbers *numbers, Arena *arena,
                         const char **problem);

/* scalar.c: the schedule of a phase of values on their own. */
PlainNest *schedule_scalar(const Plan *plan, uint32_t phase, uint32_t lanes, ls_image_layout layout,
                           Arena *arena, const char **problem);

/* combine.c: the schedule of a phase over rows of many tiles of 1024 elements. columns.c: that of a
 * phase that reduces down columns on a GPU, a column a lane. */
typedef struct ItemNumbers {
    uint32_t warps;        /* 1: a warp takes a tile; of columns COLUMN_WARPS: a block does */
    uint32_t lanes, width; /* of rows, lanes times width divide 128 */
    int64_t load_bytes; /* the bytes that a thread loads before it uses them; 0: each load is used
                           at once */
    AxisSet columns;    /* the outer axes that lanes are along; 0: the last one */
    uint32_t chunk;     /* how many neighbouring columns a thread takes at once */
    ls_image_layout layout;
    bool finished; /* it reports each row, or chunk of columns, that is done, for a segment epilogue
                    */
    int64_t scratch_row; /* the largest number of elements of a row that stays in the first caches
                            for all phases */
    const Kernel *row_fusion; /* the row fusion that the phase is in; NULL: none */
    Portion portion;
    uint32_t panel_lanes; /* of a portion of row panels: the lanes of the tree that a panel has */
} ItemNumbers;
PlainNest *schedule_combine(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                            Arena *arena, const char **problem);
PlainNest *schedule_columns(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                            Arena *arena, const char **problem);

/* prefetch.c: the prefetches of a thread in a row fusion; NULL: none. Ahead of the work on `count`
 * elements of a row from `begin` on they fetch as many of the next tile; or, in the last phase to
 * read an array, of the rows that come next. */
typedef struct RowPrefetch {
    const Plan *plan;
    uint32_t phase;
    PlainNest *plain;
    const Kernel *row_fusion;
    int64_t scratch_row;
    Index rows, max, groups; /* how many rows, their elements, the items of a row */
} RowPrefetch;
bool schedule_has_prefetch(const RowPrefetch *ahead, bool last);
NestNode *schedule_prefetch(const RowPrefetch *ahead, bool last, Index row, Index begin,
                            Index count);

/* reduced_columns.c: the schedule of a phase that reduces down columns on a CPU, where a thread
 * takes a chunk of neighbouring columns at once. */
PlainNest *schedule_reduced_columns(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                                    Arena *arena, const char **problem);

/* rows.c: the schedule of phases on the same rows: of one tile at most, a warp each; or of as many
 * tiles as a block has warps. */
typedef struct RowNumbers {
    uint32_t warps, lanes, width;
    uint32_t
        rows; /* how many rows of 128 elements a row takes: 1, 2, 4 or 8; 0: a block takes a row */
    uint32_t tiles;    /* then: how many tiles of 1024 elements a row takes; where that is more than
                          the warps, they take several in turn */
    int64_t registers; /* 32-bit registers of a thread for elements that several phases load */
    bool first;        /* all loads of a tile stand ahead of their uses, */
    int64_t load_bytes; /* or those of as many rows of a tile as are so many bytes of a thread; 0:
                           each where its use is */
    ls_image_layout layout;
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
    ls_image_layout layout;
    NestNode **end; /* where the next node goes */
    const char *problem;

    Index coordinate[LS_AXES_MAX], length[LS_AXES_MAX];
    Index flat[LS_AXES_MAX]; /* of an axis of blocks: the position of a gather that is along all of
                                it */
    SymbolId tensor[LS_AXES_MAX]; /* of an axis whose length differs by tensor: its coordinate as
                                     one symbol */
    bool open[LS_AXES_MAX], measured[LS_AXES_MAX], has_flat[LS_AXES_MAX];
    SymbolId inside; /* where the coordinates come from a list of indices: whether they are in
                        range; else 0 */

    /* the phase at hand */
    const Phase *phase;
    ValueId **values; /* by phase and value: the nest's value for it */
    ValueId *value_of;
    SymbolId *tree_of, *state_of; /* by value: of a reduction, of a RUNNING */
} PlainBuilder;

typedef struct PlainPlace {
    NestNode **end;
    bool open[LS_AXES_MAX], measured[LS_AXES_MAX];
} PlainPlace;

typedef struct PlainElsewhere { /* the coordinates that are saved while those of a list of indices
                                   are used */
    Index coordinate[LS_AXES_MAX], length[LS_AXES_MAX], flat[LS_AXES_MAX];
    SymbolId tensor[LS_AXES_MAX];
    bool measured[LS_AXES_MAX], has_flat[LS_AXES_MAX];
} PlainElsewhere;

/* Adds a node where the next one goes. */
NestNode *plain_add(PlainBuilder *b, NestNode node);
Index plain_number(PlainBuilder *b, int64_t n);
/* Notes that the kernel has no plain nest, and why; the first reason counts. */
void plain_refuse(PlainBuilder *b, const char *what);
ValueId plain_let(PlainBuilder *b, const char *name, ValueId value, Range range);
/* The value as a symbol that an index can use: a LET where it is no name yet. */
SymbolId plain_symbol_of(PlainBuilder *b, ValueId value, const char *name);
/* The length of the axis at the coordinates whose loops are open; and whether the loops that it
 * depends on are open. */
Index plain_measure(PlainBuilder *b, uint32_t axis);
bool plain_can_measure(const PlainBuilder *b, uint32_t axis);
/* Remembers the insertion point; plain_leave returns to behind what was added since. */
PlainPlace plain_enter(const PlainBuilder *b);
void plain_leave(PlainBuilder *b, PlainPlace place);
/* Opens loops over the axes, with `grid` the first one a grid loop; nodes are added inside of them
 * from now on. */
void plain_open_axes(PlainBuilder *b, AxisSet axes, bool grid);
void plain_open_once(PlainBuilder *b, LoopKind kind); /* a loop of one iteration */
int plain_whole_at(const Function *f, AxisSet axes, uint32_t axis);
bool plain_is_rest_of(const Function *f, AxisSet axes, uint32_t axis);
Index plain_flat_coordinate(PlainBuilder *b, uint32_t whole);
/* The flat position over the axes, and the number of positions; an axis of blocks counts as the
 * axis that they divide. */
Index plain_position(PlainBuilder *b, AxisSet axes, Index *count);
/* Fills in the node's array, list and subscript for the element at the coordinates. */
void plain_place_node(PlainBuilder *b, uint32_t array, NestNode *node);
/* Saves the coordinates; plain_come_back restores them. */
PlainElsewhere plain_put_aside(const PlainBuilder *b);
void plain_come_back(PlainBuilder *b, const PlainElsewhere *own);
ValueId plain_and_of(PlainBuilder *b, ValueId x, ValueId y);
/* Replaces the coordinates by those of the list of indices; gives the value that says whether all
 * are in range. */
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
    NestNode *tensors; /* the loop over the tensors of a list; NULL: it is no list */
    NestNode **row;    /* points to the loop over rows, or over chunks of columns */
    NestNode *along;   /* in it: the loop over the row's tiles */
    Index max;         /* elements of a row */
    bool varies;       /* a row may have fewer */
    int64_t length;    /* then: how many elements belong to one block of the row */
    bool single;       /* a row is at most one tile */
    bool pairs;        /* the tiles' partial results are combined as they are, 1024 at a time */
    bool chunked; /* the items are chunks of columns; `columns` and `chunks` say how many there are
                   */
    Index columns, chunks;
    SymbolId slot;   /* stands for the number of the item among those of all rows and tensors */
    bool divided;    /* of one thread: a loop over elements was divided into one over rows and one
                        within a row */
    bool by_vectors; /* of one thread: the elements of a tile go by vectors */
    bool ranged;     /* a thread or warp takes a range of items, not one after the other in turn */
    SymbolId first, stop; /* then: that range */
    SymbolId entry;       /* of a list whose entries are taken by ranges: the entry at hand */
    NestNode *few;   /* then: the nodes that process all of its rows at once where rows are short */
    int64_t few_max; /* of as many elements at most */
    Index tiles;     /* of a row */
    NestNode *globals, **globals_end;
    const char *problem;
} ItemBuilder;

/* The phase's plain nest; false, with the reason in *problem: it has none. */
bool items_begin(ItemBuilder *b, const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                 Arena *arena, const char **problem);
bool items_refuse(ItemBuilder *b, const char *problem); /* the first reason counts */
/* The maximum or minimum of an index and a number: a derived size where the index has sizes alone,
 * else a LET. */
Index items_bounded(ItemBuilder *b, NestNode ***end, Op op, Index x, int64_t bound,
                    const char *name);
size_t items_count_loops(const Function *f, AxisSet axes);
/* Memory with an element for each item, in front of the nest; where the last of so many at a
 * counter goes on. */
SymbolId items_global(ItemBuilder *b, const char *name, Type type);
NestNode **items_arrive(ItemBuilder *b, NestNode ***end, const char *counters, Index at, Index of,
                        ValueId by);
/* partition.c: ranges of items. Whether the items are one thread's; whether a thread, or a warp,
 * takes a range of items; a grid loop over these ranges with what is done for the items of one; and
 * the loop over a list's entries as one over ranges of them. */
bool items_is_alone(const ItemBuilder *b);
bool items_take_ranges(ItemBuilder *b);
NestNode *items_partition(ItemBuilder *b, NestNode *work, Index all);
void items_partition_table(ItemBuilder *b);
/* Where an item arrives at a counter, as one of so many items that begin at the slot `from`: in a
 * range of items the last of those behind which the range or the items end, which arrives for all
 * of them. Gives where it arrives, and how many it arrives for; 0: for itself. */
NestNode **items_range_ends(ItemBuilder *b, NestNode ***end, Index from, Index of, ValueId *by);
/* The same with the arrival at the counter `at` of "arrived": where the last one goes on. */
NestNode **items_arrive_once(ItemBuilder *b, NestNode ***end, Index at, Index from, Index of);
/* one_tile.c: what follows a row by whoever comes last, or where the row is one item by that item
 * alone, without memory of all blocks; `tile` is where the nodes of a tile stand. False: the nest
 * has no such form and is as it was. */
bool items_one_tile(ItemBuilder *b, NestNode **tile, NestNode *rest, NestNode ***end, Index group,
                    Index groups, bool flat);
/* Loop versioning: a tile whose row has no more than 256 elements from there on takes two rows of
 * 128 instead of eight. */
void items_short_rows(ItemBuilder *b);
/* Finds b->most, the largest length of any row, from the length that the row's loop has: the last
 * block of a row may be shorter. False: rows differ for another reason. */
bool items_find_max(ItemBuilder *b, const NestNode *row, const NestNode *traversal);
NestNode *items_find_along(ItemBuilder *b);
NestNode **items_find_around(NestNode **body, SymbolId inner); /* points to the loop around it */
/* Adds, at the end of the body of a row or a chunk, the store that says that it is done. */
void items_finished(ItemBuilder *b, NestNode **body, Index row);
/* row_tiles.c: what one thread does for its range of items, which are `groups` to a row: row by
 * row, of which several tiles go side by side. NULL: the nest has no such form and is as it was.
 * items_before: what stands ahead of a row's tiles is done where a part of them is, of which the
 * first is `group`; it is stored once. */
NestNode *items_row_tiles(ItemBuilder *b, Index groups);
void items_before(ItemBuilder *b, NestNode *body, NestNode ***end, Index group);
/* thread_rows.c: turns the loop over all elements of a row into one over its tiles, for one thread.
 * small_rows.c: rows of up to 1024 elements by vectors, sixteen at once, or of up to 512 as many at
 * once as fill a tile of worker scratch (small-row SIMD). */
bool items_alone(ItemBuilder *b, NestNode *loop);
/* The loop over elements of a row from `begin` on, in the body, by vectors; with `prefetch` each
 * prefetches as many elements of the next tile and of the rows that come next. */
void items_vectorize(ItemBuilder *b, NestNode **body, SymbolId loop, Index row, Index begin,
                     bool prefetch);
bool items_prefetch(ItemBuilder *b,
                    RowPrefetch *ahead); /* fills in what a row fusion prefetches; false: nothing */
void items_small_rows(ItemBuilder *b);
/* The loop in the body over elements that are not reduced: one-hot tests peeled, non-temporal
 * stores where they pay. */
void items_elements(ItemBuilder *b, NestNode **body, SymbolId loop);
/* rows_ahead.c: short rows of which nothing is reduced: what is some work ahead of the elements,
 * for a batch of rows at once. */
void items_rows_ahead(ItemBuilder *b);
/* Where there is one item, whoever takes it does what stands ahead of the loop over items: another
 * one would read what the item's stores overwrite. False: it is not so. */
bool items_sink(Nest *nest);
/* Unrolls a tile's loop over rows so far that the loads of an iteration have at most so many bytes,
 * in memory, or with `held` in registers; loads first. */
void schedule_jam(Nest *nest, NestNode *loop, int64_t max, bool held);
int64_t items_work(const Nest *nest,
                   const NestNode *body); /* the operations of all values in the body, by ops.def */
/* Coalesces the loops over rows and over a row's tiles into one over items. */
void items_build(ItemBuilder *b);
PlainNest *items_end(ItemBuilder *b, const char **problem);

/* Of rows that consist of blocks, the last of which may be short: the number of items of the
 * longest row, where an item has whole blocks up to a tile. */
Index items_max_groups(ItemBuilder *b, NestNode ***end);

/* ---- what schedules of columns share: columns.c ---- */

/* The phase's plain nest with one loop over columns, along the last outer axis or along the two
 * axes of blocks, and one over the other outer coordinates, or NULL. False, with the reason in
 * *problem, where it has none. */
bool columns_begin(ItemBuilder *items, const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                   Arena *arena, NestNode **outers, NestNode **loop, const char **problem);

/* ---- phases down columns: column_nodes.c, column_tile.c ---- */

/* A tree down each column that combines its leaves in pairs. */
typedef struct ColumnTree {
    SymbolId source; /* the tree that the nodes of elements push to */
    const char *name;
    Op op;
    Type type;
    bool last, sum; /* last: it belongs to the last pass; sum: without leaves it is 0 */
    SymbolId total, part,
        folded; /* its values: of all tiles, of the tile, and while a fold is combined */
} ColumnTree;

/* A tree of the plain nest, which becomes one or two ColumnTrees. */
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
    NestNode *columns, *traversal;  /* the loop over columns, and the loop over rows in it */
    NestNode *before, **before_end; /* nodes that are the same for all columns, ahead of the loop */
    NestNode *ahead;                /* the nodes of a column ahead of its rows */
    NestNode *row_nodes, *column_nodes; /* the nodes of a row, and of each column of a row */
    ColumnTree *trees;
    size_t tree_count;
    ColumnReduction *reductions;
    size_t reduction_count;
    int64_t chunk;                           /* how many neighbouring columns are taken at once */
    Index rows;                              /* of a column */
    Index first_column, width, first, count; /* the tile's range of columns and of rows */
} ColumnTile;
/* Divides the nodes of the phase into those parts; needs the loops over columns and outer
 * coordinates. */
bool column_take(ColumnTile *b);
/* Adds the nodes of a tile for one thread: its trees' values, in `total`, and the stores of its
 * elements. */
void column_tile(ColumnTile *b, NestNode ***end);
/* A copy of the nodes for column `c` of the chunk, behind the nodes that the column has ahead of
 * its rows; with `stores` also those that store. */
NestNode *column_nodes(ColumnTile *b, NestNode *nodes, Index c, bool stores);
/* column_loop: adds a loop with the source range of the one over rows. column_across: adds a loop
 * over the columns of the chunk, a column a lane where there are lanes. */
void column_loop(ColumnTile *b, NestNode ***end, LoopKind kind, SymbolId name, Index extent,
                 NestNode *body);
void column_across(ColumnTile *b, NestNode ***end, SymbolId c, NestNode *body);
/* block_columns.c: the same for a block of 16 warps, the totals for its first warp, which goes on
 * at *first_warp; the bytes of shared memory that this takes. */
enum { COLUMN_WARPS = 16 };
void column_block(ColumnTile *b, NestNode ***end, NestNode ***first_warp);
int64_t column_block_bytes(const ColumnTile *b);
/* The bytes of loads that a thread issues together: twice the budget of what is the column's own;
 * what all lanes load alike, of the row, counts for registers alone. */
int64_t column_block_loads(const ColumnTile *b, int64_t load_bytes);
/* Adds the memory for the value of each tree and column. */
void column_open_totals(ColumnTile *b, NestNode ***end);

/* A pass over the elements. Reductions that are one tree have the last pass alone; those that are
 * two trees have a pass of their own for the first. */
typedef struct ColumnPass {
    ColumnTile *b;
    bool last;
    NestNode *ahead, *column_nodes;
    SymbolId *row_values; /* values of a row that its columns use */
    size_t row_value_count;
    bool places; /* columns use the row's number, too */
    /* of a pass over eight rows at a time */
    Index step;      /* how many lanes make up the eight rows */
    SymbolId offset; /* by row of the eight: its offset from the first */
    Index e;         /* the number of the group of eight rows */
    SymbolId live;   /* by row of the eight: whether it exists; 0: all do */
    SymbolId *rooms; /* by such value, and last of the row's number: its value for each of the eight
                        rows */
} ColumnPass;
ColumnPass column_pass(ColumnTile *b, bool last);
bool column_is_of_pass(const ColumnPass *p, size_t tree);
void column_find_row_values(ColumnPass *p);
/* column_vectors.c: the pass by vectors of neighbouring columns, whose trees are then as many
 * leaves long as the tile has rows; false: it has no such form, and nothing has changed. */
bool column_by_vectors(ColumnTile *b, ColumnPass *p, NestNode ***end);
/* Whether one thread has the elements of one tensor's arrays where they are neighbours in memory.
 */
bool column_is_plain(const ColumnTile *b);
/* column_jam.c: the pass by vectors of rows, where the columns are few; false: likewise. */
bool column_by_rows(ColumnTile *b, ColumnPass *p, NestNode ***end);
bool column_is_repeatable(const ColumnPass *p);               /* nothing that is stored is read */
bool column_draws(const ColumnTile *b, const NestNode *body); /* or calls functions of C */
/* The tree's value of all rows. */
ValueId column_total(ColumnTile *b, const ColumnTree *tree, ValueId value);
bool column_is_short(
    const ColumnPass *p); /* the nodes of an element are few enough to be repeated */
NestNode *column_at(ColumnTile *b, NestNode *ahead, NestNode *nodes, Index c);
/* Redirects the pushes of the body to the folds, at `c` where each column has a fold. */
void column_retarget(ColumnPass *p, NestNode *body, const SymbolId *folds, const Index *c,
                     Index leaf);
/* The nodes of one row of the tile, by its columns, each pushing to its fold the leaf of that
 * number. */
NestNode *column_row(ColumnPass *p, const SymbolId *folds, Index in_tile, Index leaf);
SymbolId column_fold(ColumnTile *b, NestNode ***end, const ColumnTree *tree, const char *what,
                     int64_t leaves, bool adjacent);

/* ---- phases down columns by row panels: panel_columns.c ---- */

/* The arrays of the step in which row panels leave the partial value of each tree. */
typedef struct PanelValues {
    SymbolId *partials; /* by tree: [panels, columns]; a tile has 128 / panel_lanes panels */
    Index columns;      /* the number of columns of all outer coordinates */
} PanelValues;
PanelValues panel_values(ColumnTile *b, PlainNest *plain);
/* Combines the partial values of the tile's panels into the trees' totals; `own`: the number of the
 * chunk's first column among all. */
void panel_partials(ColumnTile *b, const PanelValues *values, Index tile, Index own,
                    NestNode ***end);
/* What builds the nest of a part of a row panel. */
typedef struct PanelBuilder {
    ColumnTile tile;
    Nest *nest;
    Arena *arena;
    PanelValues values;
    SymbolId *levels;         /* by tree: [owner, LEVELS, columns] */
    ColumnPass all;           /* whose kept values the rooms hold */
    Index given[PANEL_GIVEN]; /* sizes */
    Index rows;               /* of the part */
    Index level, carry, left; /* the level of a part; how many it completes; 0: it is the last */
    Index at;                 /* the chunk's first column, in all */
    SymbolId row_of;          /* of a thread: the number of each row of the part */
    bool vectors;             /* a lane takes a vector of columns: see panel_vectors.c */
    SymbolId piece;           /* the loop over chunks of columns */
} PanelBuilder;
/* The nodes for a column of the part's row `row`; *kept: what they have of the row. */
NestNode *panel_nodes_of_row(PanelBuilder *s, const ColumnPass *p, Index row, NestNode **kept);
/* Where the level's value of the chunk's column lies. */
Index panel_level_at(PanelBuilder *s, Index level, Index column);
PlainNest *schedule_panel(const Plan *plan, uint32_t phase, const ItemNumbers *numbers,
                          Arena *arena, const char **problem);

/* panel_vectors.c: the same where each lane takes a vector of neighbouring columns. Finds whether
 * the phase can, and makes the chunk larger then. */
void panel_find_vectors(PanelBuilder *s);
void panel_by_vectors(PanelBuilder *s, NestNode ***end);

#endif
