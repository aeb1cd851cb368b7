/* charlm.h: the example's table of contents. Each heading below is a file.
 *
 * Everything that trains lives in device memory. A Tape is the list of what one pass does, launches
 * of charlm.step's steps and matrix products in turn; a training step is a graph made of such
 * passes. The first failure is printed, sets Machine.failed, and makes what follows do nothing, so
 * that the model can be written down without a check after every line. */
#ifndef CHARLM_H
#define CHARLM_H

#include "../common/common.h"

#include <lockstep/lockstep.h>

#include <stdio.h>

/* options.c */
typedef struct Options {
    const char *text, *type, *checkpoint;
    long layers, channels, heads, context, batch, micro, slots, steps, warm, seed;
    double rate, last, decay, clip, dropout, first_scale;
    /* these may change between a checkpoint and its resumption */
    const char *device, *blas, *comm, *save, *resume, *curve, *trace, *prompt;
    long stop, report, evaluate, every, sample, ranks, buckets, hash, utilisation, offload, memory;
    long automatic; /* --batch auto: `micro` is the most */
    double temperature, seconds;
    uint64_t given; /* bit i: the command line has option i */
} Options;
/* What main returns when it is not 0. */
enum { WRONG_INPUT = 1, DEVICE_FAILED = 3 }; /* or WRONG_ARGUMENTS */
/* Gives 0 to go on, -1 after --help, else the exit status. */
int options_read(Options *options, int count, char **arguments);
/* The options that a checkpoint keeps, by name and as text: false behind the last. */
bool options_kept(const Options *options, size_t index, const char **name, char *text, size_t size);
/* One that checkpoints hold only where it is not as usual, since older ones lack it; *usual: how it
 * is then. */
bool options_is_new(size_t index, const char **usual);
/* Takes one from a checkpoint; false when the command line asked for another value. */
bool options_take(Options *options, size_t index, const char *text);
/* What must hold between options; prints what does not. */
bool options_agree(const Options *options);
/* What --ranks or a launcher make of --slots, and what must hold between them. */
bool options_divide(Options *options, int ranks, bool launched);

/* data.c: the text, as numbers of characters. */
typedef struct Text {
    uint8_t *letters;      /* each character's place in `alphabet` */
    size_t size, training; /* the first `training` are trained on, the others validate */
    unsigned char alphabet[256];
    int count;      /* of different characters */
    double entropy; /* nats per character, when each is guessed by its frequency alone */
    uint64_t hash;
} Text;
bool text_read(const char *path, Text *text);
/* Gives false where `string` has a character that the text lacks. */
bool text_encode(const Text *text, const char *string, uint8_t *letters);
void text_close(Text *text);

/* products.c: matrix products in the stream's order. products_gpu.c: with cuBLAS and rocBLAS. */
typedef struct Products Products;
typedef struct Matrix { /* row-major; of a batch the first of outer x inner matrices */
    void *data;
    ls_type type;                   /* LS_F32, LS_BF16 or LS_F16 */
    bool turned;                    /* its transpose takes part */
    int64_t rows, columns, stride;  /* as stored */
    int64_t outer_step, inner_step; /* elements from one matrix to the next */
} Matrix;
typedef struct Product {
    Matrix c, a, b; /* c = a b, or c += a b; the sums are f32 */
    bool add;
    int64_t outer, inner; /* how many; 1 and 1 for a single one */
    Products *products;
    ls_host_work work[3]; /* on the CPU */
    void *pointers[3];    /* on a GPU, of a batch: arrays of pointers there, or NULL */
} Product;
/* `library`: one to load instead of those known, "none" for loops of our own, or NULL. */
bool products_open(ls_context *context, const char *library, Products **products);
void products_close(Products *products);
const char *products_name(const Products *products);
bool product_prepare(Products *products, Product *product);
/* Queues it; a graph that is being captured records it. The product must stay where it is. */
bool product_run(Product *product);
void product_close(Product *product);

typedef struct GpuProducts GpuProducts;
bool gpu_products_open(ls_context *context, const char *library, GpuProducts **products);
void gpu_products_close(GpuProducts *products);
const char *gpu_products_name(const GpuProducts *products);
bool gpu_product_run(GpuProducts *products, const Product *product);

/* ranks.c: the processes that train together. */
typedef struct Ranks {
    int rank, size, local; /* local: among those of this machine */
    bool launched;         /* by torchrun, mpirun or srun; else they are our children */
    ls_comm_id id;
} Ranks;
/* 1 rank where neither --ranks nor a launcher says more; false with a message. */
bool ranks_find(const Options *options, Ranks *ranks);
/* Runs `work` in each of the ranks' processes that are to be started, else in this one; gives the
 * exit status, of several the first that is not 0. */
int ranks_run(Ranks *ranks, int (*work)(const Ranks *ranks, void *what), void *what);

/* tape.c: device memory, and lists of launches and products. */
typedef struct Machine {
    ls_context *context;
    ls_comm *comm;                /* of one rank, too */
    ls_program *training, *plain; /* with dropout and without */
    Products *products;
    void **memory; /* what machine_array gave */
    size_t memory_count, memory_capacity;
    size_t bytes; /* of it */
    bool counts;  /* machine_array only adds to `bytes`, and tapes stay empty */
    bool graphs;  /* the driver's hold the products too */
    bool failed;
    bool tells;      /* on a terminal: of the steps that are compiled */
    size_t prepared; /* steps */
} Machine;
bool machine_open(Machine *machine, const Options *options, const Ranks *ranks);
void machine_close(Machine *machine);
/* Ends the line on the terminal that says which step is compiled. */
void machine_told(Machine *machine);
/* Says what went wrong, for a status that is not LS_OK; gives whether it is. */
bool machine_check(Machine *machine, ls_status status, const char *what);
/* After a call that failed on all ranks: rank 0 says it, or each of them that the ranks are no
 * longer together. False. */
bool machine_all_failed(Machine *machine, ls_status status, const char *what);

typedef struct Array {
    void *data;   /* NULL: not given */
    bool on_host; /* in memory of the host, for array_read and array_write only */
    ls_type type;
    uint32_t rank;
    int64_t shape[4];
} Array;
/* Zeros; `rank` lengths follow. */
Array machine_array(Machine *machine, ls_type type, uint32_t rank, const int64_t *shape);
#define ARRAY(machine, type, ...)                                                      \
    machine_array((machine), (type), sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t), \
                  (int64_t[]){__VA_ARGS__})
/* The same memory with other axes. */
Array array_as(Array array, uint32_t rank, const int64_t *shape);
#define AS(array, ...) \
    array_as((array), sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t), (int64_t[]){__VA_ARGS__})
int64_t array_size(Array array);
void array_write(Machine *machine, Array array, const void *values);
void array_read(Machine *machine, Array array, void *values);

/* Elements of an array, as one of rank 1. */
Array array_slice(Array array, int64_t first, int64_t count);

typedef struct Argument { /* an array, a list of `count` arrays, the sum of lists, or a number */
    const char *name;
    Array array;
    const Array *list;
    const Array *const *parts; /* the lists of a sum */
    size_t count, part_count;
    double number;
} Argument;
#define BIND(name_, array_) \
    { .name = (name_), .array = (array_) }
#define VALUE(name_, number_) \
    { .name = (name_), .number = (number_) }
#define LIST(name_, list_, count_) \
    { .name = (name_), .list = (list_), .count = (count_) }

#define SUM(name_, parts_, part_count_, count_) \
    { .name = (name_), .parts = (parts_), .part_count = (part_count_), .count = (count_) }

/* What goes between the ranks: by rank the arrays of a part. */
typedef struct Lot {
    Array *arrays;
    size_t count;
} Lot;
typedef struct Transfer Transfer;
typedef struct Operation { /* one of the three */
    ls_step *step;
    Product *product;
    Transfer *transfer;
} Operation;
typedef struct Tape {
    Operation *operations;
    size_t count, capacity;
} Tape;
/* Appends a launch of the named step, bound to the arguments; gives the step, for its values. */
ls_step *tape_step(Machine *machine, ls_program *program, Tape *tape, const char *name,
                   const Argument *arguments, size_t count);
#define STEP(machine, program, tape, name, ...)                                \
    tape_step((machine), (program), (tape), (name), (Argument[]){__VA_ARGS__}, \
              COUNT(((Argument[]){__VA_ARGS__})))
/* The same of a step on this rank's part of its lists. */
ls_step *tape_step_on_parts(Machine *machine, ls_program *program, Tape *tape, const char *name,
                            const Argument *arguments, size_t count,
                            const ls_partition_parts *parts);
void tape_product(Machine *machine, Tape *tape, Product product);
/* send[r] goes to rank r, receive[r] comes from it. `send` NULL: receive[r] is rank r's own, for
 * all others. */
void tape_transfer(Machine *machine, Tape *tape, const Lot *send, const Lot *receive);
/* The first begins, and goes on beside what comes behind it; the last waits for what was begun. */
void tape_begin_transfer(Machine *machine, Tape *tape, const Lot *send, const Lot *receive);
void tape_wait(Machine *machine, Tape *tape);
bool tape_run(Machine *machine, const Tape *tape);
void tape_close(Tape *tape);

/* model.c: the parameters, and the passes over them. */
typedef struct State { /* rank-0 values on the device, one cell each */
    Array draws, count, scale, good, skipped, rate, norm;
    Array parts;          /* micro-batches of a step, with --batch auto */
    Array total, batches; /* of the losses since they were last looked at */
} State;
typedef struct Parameters {
    size_t count;
    Array *values, *first, *second, *gradients; /* weights and their two moments, f32 */
    Array *working;                             /* what the products read; = values for f32 */
    char (*names)[32];
    float *decay, *spread, *middle; /* one per parameter */
} Parameters;
typedef struct Slots Slots;
typedef struct Offload Offload;
typedef struct Model {
    Machine *machine;
    const Options *options;
    const Text *text;
    ls_type type; /* of activations */
    int64_t letters, hidden;
    Slots *slots;       /* with --slots, else NULL */
    Offload *offload;   /* with --offload where the device has memory of its own, else NULL */
    bool whole_moments; /* this rank has memory for all moments; else `first`, `second` lack data */
    Parameters parameters;
    State state;
    Array training_text, validation_text;
} Model;
typedef struct Ready {  /* in a tape, where the gradients of parameters are whole */
    size_t at;          /* operations */
    size_t first, last; /* parameters: from the first to before the last */
} Ready;
typedef struct Pass { /* over a batch of windows */
    int64_t batch;
    Array text, start;            /* where the windows lie */
    Array logits, total, batches; /* the sum of the losses, and of how many */
    Tape tape;
    ls_step *windows; /* of validation */
    Ready *ready;     /* of a slot */
    size_t ready_count;
} Pass;
bool model_open(Model *model, Machine *machine, const Options *options, const Text *text);
/* One value for each of some parameters, on the device. */
Array model_numbers(Model *model, const float *values, size_t count);
void model_close(Model *model);
/* Draws the weights. */
void model_initialise(Model *model);
/* Makes the working copies, after weights were read. */
void model_refresh(Model *model);
int64_t model_size(const Model *model); /* parameters in all */
typedef enum PassKind { PASS_TRAINING, PASS_SLOT, PASS_VALIDATION, PASS_SAMPLING } PassKind;
typedef struct PassInput {
    Array text, start;      /* of sampling, and where the host fetches windows; else their own */
    const Array *gradients; /* of a slot: where they are added, */
    Array total, letters;   /* and the loss and how many characters it is of */
} PassInput;
void pass_open(Model *model, PassKind kind, PassInput input, Pass *pass);
void pass_close(Pass *pass);
/* The last launch of a training step. */
void model_update(Model *model, Tape *tape);
/* Its three parts: the norm and the rate; some tensors, whose moments and counter of steps are
 * given; and the next loss scale. */
void model_measure(Model *model, Tape *tape);
void model_update_tensors(Model *model, Tape *tape, size_t first, size_t count, const Array *m,
                          const Array *v, Array counter);
void model_rescale(Model *model, Tape *tape);
/* The same in launches of its own for the norm, the loss scale and each tensor, which has a counter
 * of steps. */
void model_update_apart(Model *model, Array counters, Tape *tape);

/* accumulate.c: with --micro 0, how many micro-batches a batch is divided into; sets micro and
 * batch, which are the model's own options. */
bool accumulate(Model *model, Options *options);

/* slots.c: a batch in slots, which the ranks share out, and the exchange between them. The states
 * of the optimizer are divided, too: each rank updates a part of all parameters (ZeRO-1). */
typedef struct Routine Routine;
bool slots_open(Model *model);
/* After the weights are there, or the checkpoint is read. */
void slots_begin(Model *model);
/* Everything of a training step, in its order. */
void slots_fill(Model *model, Routine *routine);
/* All moments to rank 0, which has memory for them where --hash wants them. */
void slots_gather_moments(Model *model);
/* Of a parameter the elements that this rank updates, from `begin` on; none: a length of 0. */
typedef enum SlotsPart { SLOTS_VALUES, SLOTS_FIRST, SLOTS_SECOND } SlotsPart;
void slots_piece(const Model *model, SlotsPart part, size_t parameter, Array *piece,
                 int64_t *begin);
void slots_describe(const Model *model);
void slots_close(Slots *slots);
/* Whether rank 0 says yes. */
bool slots_agree(Model *model, bool yes);

/* routine.c: tapes one after the other, as a graph where there are such. */
struct Routine {
    ls_graph *graph;
    const Tape **tapes;
    size_t count, capacity;
};
void routine_add(Machine *machine, Routine *routine, const Tape *tape);
void routine_open(Machine *machine, Routine *routine); /* after all were added */
bool routine_run(Machine *machine, const Routine *routine, int64_t repeats);
void routine_close(Routine *routine);

/* offload.c: the moments in memory of the host, which come to the device part by part while it
 * works, and go back. */
bool offload_open(Model *model);
/* After the weights are there, or the checkpoint is read. */
void offload_begin(Model *model);
/* Adds what comes before the update of the parts; */
void offload_fill(Model *model, Routine *routine);
/* runs that and them: a training step. */
bool offload_step(Model *model, const Routine *routine);
void offload_wait(Model *model); /* until the moments lie on the host */
void offload_describe(const Model *model);
void offload_close(Offload *offload);

/* noise.c: --batch auto. */
enum { NOISE_LEAST = 2, NOISE_MOST = 32 }; /* micro-batches of a step; the most without --micro */
typedef struct Noise {
    long micro; /* of a step from here on */
    Array square, signal, noise, seen, variance, scale;
    Tape first, last;
    Routine begin, more, end; /* the first micro-batch, each other, the update */
} Noise;
void noise_open(Model *model, const Pass *training, const Tape *update, Noise *noise);
bool noise_step(Machine *machine, const Noise *noise);
/* Looks at the noise so far, and says so where that changes how many there are. */
void noise_choose(Model *model, Noise *noise);
void noise_close(Noise *noise);

/* history.c: the losses so far, and their picture. */
typedef struct Point {
    double step, training, validation; /* validation NaN: not measured there */
} Point;
typedef struct History {
    Point *points;
    size_t count, capacity;
} History;
bool history_add(History *history, Point point);
void history_close(History *history);
/* `title` and `note` stand above and below; `entropy` is the dashed line. */
bool curve_write(const char *path, const History *history, double entropy, const char *title,
                 const char *note);

/* checkpoint.c */
typedef struct Checkpoint {
    int64_t step; /* training steps done */
    History history;
} Checkpoint;
/* All ranks; the same answer on all. */
bool checkpoint_write(const char *path, Model *model, const Checkpoint *checkpoint);
/* A hash of everything that it would hold. */
bool checkpoint_hash(Model *model, const Checkpoint *checkpoint, uint64_t *hash);
/* Takes over the options that the checkpoint keeps. */
bool checkpoint_options(const char *path, Options *options);
bool checkpoint_read(const char *path, Model *model, Checkpoint *checkpoint);
/* Writes a file that is there whole or not at all: beside the target, on the disk, then renamed. */
bool file_replace(const char *path, bool (*write)(FILE *file, void *what), void *what);
/* Whether that can begin; prints why not. To know before hours of training. */
bool file_possible(const char *path);

/* utilisation.c: how much of the device's time training uses, before and after what keeps the host
 * out of its way is turned on piece by piece. */
bool utilisation(Model *model);

/* train.c: the loop, validation and samples. */
bool train(Model *model, Checkpoint *checkpoint);
bool sample(Model *model);

#endif
