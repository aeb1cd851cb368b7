/* lower.h: a checked step to the value IR.
 *
 * lower.c has values and statements, parts.c what the parts of a step with `for` know of each
 * other. */
#ifndef LOCKSTEP_LOWER_H
#define LOCKSTEP_LOWER_H

/* ---- for the other rooms ---- */

/* NULL after diagnostics. Of a step with `for` the parts, in *sequence; the function has no values
 * then. */
Function *lower_step(Compiler *compiler, const Module *module, size_t step, Sequence **sequence);

/* ---- what the two files share ---- */

/* The values of one body: a step's, or a fn's for certain arguments. */
typedef struct Frame {
    ValueId *values, *lets; /* by id and number; 0: not lowered yet */
    const ValueId *arguments;
    uint32_t draws; /* in the step, before this */
} Frame;

typedef struct Inlined {
    const Instance *instance;
    const ValueId *arguments;
    uint32_t draws;
    ValueId result;
    struct Inlined *chain;
} Inlined;

typedef struct Last { /* assignment: its number, from 1 on */
    Range range;
    size_t order;
} Last;

/* A value of a part: a let's; or the condition of a `when` with a `for` in it. */
typedef struct Home {
    uint32_t part; /* 1 + its number; 0: none */
    ValueId value;
} Home;
typedef struct Branch {
    Home home;
    bool negated; /* of its else */
    Range range;
    const struct Branch *outer;
} Branch;

/* A value that other parts read, and the array that it is in. */
typedef struct Carried {
    Home home;
    uint32_t array;
} Carried;

typedef struct Lowering {
    Compiler *compiler;
    Arena *arena;
    Function *f;
    ValueId *current;       /* by parameter; 0: not touched yet */
    size_t parameter_count; /* locals included */
    ValueId mask;           /* the conditions around this that vary by element; 0: none */
    Last *last;             /* by parameter */
    size_t assignments;
    bool too_large;
    Inlined **buckets;
    size_t inlined_count, bucket_count;
    /* of a step with `for`: */
    Sequence *sequence; /* NULL: it has none */
    const Step *step;
    Frame *frame;         /* the step's own */
    AxisSet places;       /* the axes of the loops around this */
    uint32_t part;        /* the number of the part that is open */
    uint32_t loop;        /* 1 + the innermost loop around this; 0: none */
    bool *held;           /* by parameter: an earlier part assigns it */
    uint32_t *locals;     /* by parameter, of locals: 1 + the array that parts hand it on in */
    Home *homes;          /* by let */
    ValueId **current_of; /* by part: what `current` and `last` were at its end */
    Last **last_of;
    size_t part_capacity;
    const Branch *branch; /* the `when`s with a `for` in them around this */
    Carried *carried;
    size_t carried_count, carried_capacity;
} Lowering;

/* parts.c */

/* The sequence of a step with `for`, without parts. NULL after an error. */
Sequence *sequence_open(Lowering *l, Function *step);
/* What the `when`s around this that have a `for` in them let through; 0: there are none. */
ValueId part_mask(Lowering *l);
/* Ends the open part, if there is one, and begins another. */
void part_open(Lowering *l);
/* Ends the last part; parts without stores are dropped. */
void sequence_close(Lowering *l);
/* The parameter's value in memory where this part begins: the slice at the place. */
ValueId part_state(Lowering *l, uint32_t number);
bool part_has_state(const Lowering *l, uint32_t number);
/* Of lists, which have no slices, `current` is all of it: the slice of that, and all of it with
 * `value` as the slice. Other values come back as they are. */
ValueId part_slice(Lowering *l, uint32_t number, ValueId all);
ValueId part_with_slice(Lowering *l, uint32_t number, ValueId all, ValueId value);
/* What an earlier part computed: its slice at the place, or all of it. */
ValueId part_carry(Lowering *l, Home home, const char *name, Range range, bool whole);
/* x[t - 1, k] in a loop over t. `elsewhere`: the list leads to another place in any case. */
ValueId part_gather(Lowering *l, const Typed *source, ValueId list, bool elsewhere);
/* The coordinate along an axis of the loops around this, and a flat index over `axes`. */
ValueId part_place(Lowering *l, uint32_t axis);
ValueId part_position(Lowering *l, AxisSet axes);
/* Reports a gradient that would go through an earlier part. */
void part_check_gradient(Lowering *l, ValueId value, ValueId target, Range range);

#endif
