/* compile.h: the state behind ls_compilation, and the pipeline that fills it. */
#ifndef LOCKSTEP_COMPILE_H
#define LOCKSTEP_COMPILE_H

/* A step's forms, as far as somebody requested them. Of one with `for`, the functions are of its
 * axes and parameters alone, and each part is a step of its own behind those of the file. */
typedef struct StepState {
    Function *lowered, *derived, *simplified;
    Sequence *sequence; /* of one with `for` */
    size_t first_part;  /* the number of its first part */
    Plan *plan;
    Made *made;      /* by target */
    const Sum *sums; /* of one made by compile_summed: of which step, and its sums */
    size_t sum_count, sum_of;
    bool late; /* a step of the library that nobody asked for yet */
} StepState;

/* A step on parts, whose stages are steps of their own behind those of the file. */
typedef struct ShardedStep {
    size_t number, first_stage;
    uint32_t parameter;
    int axis; /* or -1 */
    bool within;
    const Sharding *sharding;
    struct ShardedStep *next;
} ShardedStep;

typedef struct Output {
    void *data;
    struct Output *next;
} Output;

struct ls_compilation {
    Compiler compiler;
    ls_compile_options options;
    Module *module;
    StepState *steps; /* behind those of the file, parts of those with `for`, and sums */
    size_t step_count, state_count, state_capacity;
    ShardedStep *sharded;
    locale_t locale;        /* C */
    Output *outputs;        /* what emit gave, freed at the end */
    Background *background; /* makes code for known lengths */
    char message[4096];     /* the last failure that is not a diagnostic */
};

/* compile.c: the passes in their order. Each unwinds where it cannot go on. */
void compile_step(ls_compilation *c, size_t step); /* to the IR that is planned */
/* The number of the step whose parameters are sums: behind the file's own. */
size_t compile_summed(ls_compilation *c, size_t step, const Sum *sums, size_t count);
/* The step's stages on parts that are cut as the tensors of a parameter are. */
const ShardedStep *compile_sharded(ls_compilation *c, size_t number, const char *parameter,
                                   const char *axis, bool within);
const Plan *compile_plan(ls_compilation *c, size_t step);
/* Whether kernels can be made of the step in every dialect: what is in the way is a diagnostic at
 * the step. Needs no toolchain. */
void compile_check(ls_compilation *c, size_t step);
Made *compile_image(ls_compilation *c, size_t step, const char *target);

/* Code of a variant of such an image in which these lengths (by axis; 0: none) are constants, or
 * what leads to it, as `when` says; NULL: the cache has none. LS_ERROR_UNSUPPORTED: the variant has
 * as many as it may. */
ls_status compile_known(ls_compilation *c, Made *made, uint32_t variant, const int64_t *lengths,
                        ls_known_when when, KnownCode **found);

/* The same for a file that is built ahead of time, which kernels for the CPU go into as C. */
AheadImage compile_ahead(ls_compilation *c, size_t step, const char *target, ls_image_layout last,
                         Text *shared);

#endif
