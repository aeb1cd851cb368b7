/* derive.h: adjoints that know where they count; between derive.c and adjoint.c. */
#ifndef DERIVE_H
#define DERIVE_H

/* The `if`s between the derived value and an adjoint, outermost first at the end of `outer`: the
 * adjoint counts where each test comes out as `holds` says. NULL: everywhere. */
typedef struct Condition Condition;
struct Condition {
    const Condition *outer;
    ValueId test;
    bool holds;
    uint32_t depth;
};

/* A value that is the adjoint where `where` holds. Elsewhere the adjoint is 0, which the value is
 * only within `within`, `where` or one outside of it; beyond that it is anything, NaN too. So what
 * is multiplied by slopes needs no `if` on the way: it is masked once, where it is added up. */
typedef struct Adjoint {
    ValueId value; /* 0: nothing */
    const Condition *where, *within;
} Adjoint;

/* adjoint.c */
/* What passes through the branch that is taken where the test comes out as `holds` says. */
Adjoint adjoint_branch(Function *f, Adjoint d, ValueId test, bool holds);
/* c, which is made of d and slopes. */
Adjoint adjoint_times(const Function *f, Adjoint d, ValueId c);
/* value, which was made of a and b, so counts where both do. */
Adjoint adjoint_both(Function *f, Adjoint a, Adjoint b, ValueId value);
Adjoint adjoint_add(Function *f, Adjoint a, Adjoint b);
ValueId adjoint_masked(Function *f, Adjoint d); /* 0 where it does not count */
/* The same adjoint without the innermost tests, down to the outermost over one of the axes, as the
 * value is 0 where they fail. *rest: whether they hold; 0 where there is none. */
Adjoint adjoint_split(Function *f, Adjoint d, AxisSet axes, ValueId *rest);
/* a, which was made of what adjoint_split gave, and counts where `rest` (0: everywhere) holds. */
Adjoint adjoint_rejoin(Function *f, Adjoint a, ValueId value, ValueId rest);
ValueId adjoint_counts(Function *f, Adjoint d);      /* whether it counts; 0: everywhere */
bool value_is_finite(const Function *f, ValueId id); /* whatever a step is given */

#endif
