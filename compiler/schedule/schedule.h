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

#endif
