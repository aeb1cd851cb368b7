/* compilation.h: the state behind ls_compilation, shared by compile.c and explain.c. */
#ifndef COMPILATION_H
#define COMPILATION_H

/* Code of one variant, malloc'ed. */
typedef struct Code {
    void *data; /* NULL: nobody asked for it yet */
    size_t size;
    bool from_cache; /* what it is said to be from */
    bool fresh;      /* nobody was told yet */
    bool asked;      /* by a request for several */
} Code;

/* The image of a step for one target, and its code as far as somebody asked for it. */
typedef struct Made {
    ls_image *image;
    ls_image_tuning *tunings; /* its own, malloc'ed; NULL: none */
    ls_math math;
    Code *code; /* by variant */
    struct Made *next;
} Made;

typedef struct StepState {
    Function *lowered, *derived, *simplified;
    Plan *plan;
    Made *made;
} StepState;

typedef struct Output {
    void *data;
    struct Output *next;
} Output;

struct ls_compilation {
    Compiler compiler;
    ls_compile_options options;
    Module *module;
    StepState *steps;
    size_t step_count;
    locale_t locale;    /* C */
    Output *outputs;    /* what emit gave, freed at the end */
    char message[4096]; /* the last failure that is not a diagnostic */
};

/* compile.c: the image of a step, made when first asked for; unwinds when it cannot be. */
const ls_image *compilation_image(ls_compilation *c, size_t step, const char *target);

/* Runs a task to its end or to where a pass unwinds. */
ls_status compilation_run(ls_compilation *c, ls_status (*task)(ls_compilation *c, void *job),
                          void *job);

/* The image of this compilation that `image` is, or NULL. */
Made *compilation_made(ls_compilation *c, const ls_image *image);

/* code.c */
/* Makes several at once, each once, as many side by side as there are processors; `done`, which may
 * be NULL, is called by the calling thread. What could not be made is not there afterwards. */
void code_make_all(ls_compilation *c, const ls_code_request *requests, size_t count,
                   void (*done)(void *user, size_t done), void *user);

/* ahead.c: the C file, and the header that belongs to it; unwinds when it cannot be made. */
const char *ahead_text(ls_compilation *c, const ls_ahead_options *options, const char **header);

/* explain.c */
const char *explain_step(ls_compilation *c, size_t step, const ls_explain_options *options);

#endif
