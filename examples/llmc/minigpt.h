/* minigpt.h: the example's table of contents. Each heading below is a file.
 *
 * A GPT-2 trainer in plain C with buffers of its own: one for all parameters, as large ones for
 * their gradients and moments, one for everything a pass makes. A pass is a list of calls, written
 * down once: matrix products, and the steps of gpt2.step, whose argument structures are those that
 * `lockstep build` writes into gpt2.h. A step is a function of plain.c, or is taken from Lockstep.
 */
#ifndef MINIGPT_H
#define MINIGPT_H

#include "../common/common.h"
#include "gpt2.h"

/* The steps, by number; matrix products are calls, too. */
enum {
#define STEP(name) STEP_##name,
#include "steps.def"
#undef STEP
    STEPS,
    PRODUCT = STEPS,
    KINDS
};

/* options.c */
typedef struct Options {
    const char *text, *blas, *take;
    long layers, channels, heads, context, batch, classes, steps, report, seed;
    double rate, decay;
    long plain, fast, load, compare, check;
    bool taken[STEPS]; /* from Lockstep */
} Options;
/* What main returns when it is not 0. */
enum { FAILED = 1 }; /* or WRONG_ARGUMENTS */
/* Gives 0 to go on, -1 after --help, else the exit status. */
int options_read(Options *options, int count, char **arguments);
const char *step_name(int number);

/* data.c: a text as numbers of characters, and windows drawn from it. */
typedef struct Text {
    uint8_t *tokens;
    size_t size;
    int classes; /* different ones */
} Text;
bool text_read(const char *path, Text *text);
void text_close(Text *text);
float uniform(uint64_t *seed); /* in [0, 1) */
/* `batch` windows of `context` tokens, and for each token the next. */
void text_draw(const Text *text, uint64_t *seed, long batch, long context, int32_t *token,
               int32_t *target);

/* products.c: C = A B or C += A B, row-major, by OpenBLAS or loops. */
typedef struct Matrix { /* the first of outer x inner matrices */
    float *data;
    int64_t stride, outer_step, inner_step; /* elements to the next row and matrix */
    bool turned;                            /* its transpose takes part */
} Matrix;
typedef struct Product {
    Matrix c, a, b;
    int64_t rows, columns, depth; /* of c, and how many terms a sum has */
    int64_t outer, inner;
    bool add;
} Product;
bool products_open(const char *library);
const char *products_name(void);
void product_run(const Product *product);

/* pass.c: lists of calls. */
typedef struct Call {
    int kind;
    union {
#define STEP(name) struct name##_args name;
#include "steps.def"
#undef STEP
        Product product;
    } with;
    int64_t pitch; /* of classify: elements from one row of logits to the next */
    ls_step *step; /* Lockstep's, bound to these arguments; NULL: plain C */
} Call;
typedef void Plain(const Call *call);
typedef struct Pass {
    Call *calls;
    size_t count, capacity;
    Plain *const *plain; /* what is not taken, by kind */
    ls_context *context; /* of what is taken */
    bool failed;         /* for want of memory */
} Pass;
Call *pass_add(Pass *pass, int kind);
/* Adds a call of the named step with the arguments that follow. */
#define CALL(pass, name, ...) \
    (pass_add((pass), STEP_##name)->with.name = (struct name##_args){__VA_ARGS__})
typedef struct Steps Steps; /* Lockstep's */
/* Binds the calls of the steps that are taken. */
bool pass_bind(Pass *pass, Steps *steps, const Options *options);
/* Adds the seconds of each kind of call to seconds[KINDS]. */
bool pass_run(const Pass *pass, double *seconds);
void pass_close(Pass *pass);
double now(void);

/* plain.c, plain_fast.c: the arithmetic of gpt2.step as a C programmer would write it. */
extern Plain *const plain_steps[STEPS], *const fast_steps[STEPS];

/* ahead.c, loaded.c: the two ways to have a step of Lockstep's that is bound to a call. */
struct Steps {
    ls_context *context; /* the CPU */
    ls_program *program; /* gpt2.step, compiled at run time; NULL: what was built in is used */
};
bool steps_open(Steps *steps, const Options *options);
void steps_close(Steps *steps);
bool steps_check(const Steps *steps, ls_status status, const char *what);
bool ahead_bind(Steps *steps, Call *call);
bool loaded_bind(Steps *steps, Call *call);

/* model.c: the parameters in one buffer, and what a training step does with them. */
enum { /* in the order in which they lie there, which is that of GPT-2's checkpoints in C */
       CLASSES,
       PLACES,
       NORM_1_GAIN,
       NORM_1_SHIFT,
       QKV,
       QKV_BIAS,
       PROJECT,
       PROJECT_BIAS,
       NORM_2_GAIN,
       NORM_2_SHIFT,
       UP,
       UP_BIAS,
       DOWN,
       DOWN_BIAS,
       NORM_GAIN,
       NORM_SHIFT,
       TENSORS
};
typedef struct Layer {
    float *x, *y1, *mean1, *rstd1, *qkv, *weight, *mixed, *h, *y2, *mean2, *rstd2, *up, *hidden;
} Layer;
typedef struct Model {
    const Options *options;
    int64_t classes, padded, rows, channels; /* padded: classes in memory */
    int64_t sizes[TENSORS], parameters;
    float *values, *gradients, *first, *second; /* `parameters` elements each */
    float *of_value[TENSORS], *of_gradient[TENSORS], *of_first[TENSORS], *of_second[TENSORS];
    float decay[TENSORS];
    int32_t count; /* steps taken */
    int32_t *token, *target;
    float *work; /* what a pass makes */
    size_t work_size;
    Layer *layers;
    float loss;
    Pass forward, backward, update;
} Model;
const char *tensor_name(int tensor);
bool model_open(Model *model, const Options *options, int classes);
void model_close(Model *model);

/* compare.c: the forms side by side, and the gradients against finite differences. */
typedef struct Trainer {
    Model model;
    Steps steps;
    Options options;
    uint64_t seed; /* of the windows */
} Trainer;
bool trainer_open(Trainer *trainer, const Options *options, const Text *text);
void trainer_close(Trainer *trainer);
/* Draws windows, computes the loss and the gradients; */
bool trainer_gradients(Trainer *trainer, const Text *text, double *seconds);
/* and after them the parameters. */
bool trainer_update(Trainer *trainer, double *seconds);
bool compare(const Options *options, const Text *text);
bool check(const Options *options, const Text *text);

#endif
