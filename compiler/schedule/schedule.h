/* schedule.h: a plan's kernels as nests. */
#ifndef LOCKSTEP_SCHEDULE_H
#define LOCKSTEP_SCHEDULE_H

/* plain.c: the plain nest of a kernel of a way: its phases as loops over their axes, each reduction
 * a tree, nothing tiled. Arrays are called as the plan calls them: the parameters, then the
 * temporaries. Bound besides are the lengths of axes: a size for each plain one, and for one that
 * hangs on a list's a table with an element a tensor; and of draws the first tensor and element. */
typedef struct PlainNest {
    Nest *nest;
    const SymbolId *arrays;  /* by array of the plan; 0: not touched */
    const SymbolId *lengths; /* by axis: a size or a table; 0: fixed, or it follows */
    SymbolId first[2];       /* sizes; 0: not used */
} PlainNest;
/* NULL, with the reason in *problem, where the kernel has no such form yet. */
PlainNest *schedule_plain(const Plan *plan, const Kernel *kernel, Arena *arena,
                          const char **problem);

/* ---- what plain.c and places.c share ---- */

typedef struct PlainBuilder {
    const Plan *plan;
    const Function *f;
    Nest *nest;
    Arena *arena;
    PlainNest *plain;
    SymbolId *arrays, *lengths;
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

#endif
