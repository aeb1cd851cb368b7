/* exec.h: the parts of the execution test runner.
 *
 * A test is a Program: a .step text with directives in its comments, from programs/ or made by
 * matrix.c. Every step of it runs in the interpreter and on the device, over every size, layout,
 * fill and thread count asked for, and every byte of every array must be the same. */
#ifndef EXEC_H
#define EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/lockstep.h>

enum { AXES = 32, CONTEXTS = 3, NAME_SIZE = 48, LENGTHS = 24 };

typedef struct Program {
    char name[NAME_SIZE];
    char *text;
    bool whole;  /* from a file of programs/, not from the matrix */
    bool single; /* large arrays go to one context, not to all */
} Program;

typedef struct Programs {
    Program *list;
    size_t count, capacity;
} Programs;

typedef enum Fill { FILL_NORMAL, FILL_SPECIAL, FILL_MINUS, FILL_ZEROS, FILL_COUNT } Fill;

/* ---- directives.c: what a text's comments ask for ----
 *   # sizes: b=256 k=64; b=0 k=3      one run for each set; axes that a step lacks are ignored
 *   # sizes: t=300 n=5+0+1030          of an axis that depends on t the lengths, repeated as needed
 *   # shard: 3 1024                    the numbers of the first tensor and element of its draws
 *   # large: yes                       its large arrays are for quick runs too
 *   # launches: 3                     the step runs three times, the last time as a captured graph
 *   # fill: minus zeros               which inputs, of normal, special, minus and zeros (default:
 *                                    the first two)
 *   # value: lr=0.01                  a rank-0 input under the normal fill
 *   # positive: v                     no minus signs in v under the normal fill */
typedef struct SizeSet {
    size_t count;
    struct {
        char name[NAME_SIZE];
        int64_t sizes[LENGTHS];
        size_t count;
    } axis[AXES];
} SizeSet;

/* The lengths of an image's axes: one of each, of an axis that depends on another one per tensor.
 * Of axes in blocks the whole has them. */
typedef struct Sizes {
    const ls_image *image;
    int64_t *of[AXES];
} Sizes;

typedef struct Directives {
    SizeSet sets[32];
    size_t set_count;
    int launches;
    int64_t shard[2];
    bool fill[FILL_COUNT];
    bool large;
    struct {
        char name[NAME_SIZE];
        double value;
    } values[16];
    size_t value_count;
    char positive[16][NAME_SIZE];
    size_t positive_count;
} Directives;
bool directives_read(const char *text, Directives *directives); /* false after a message */
/* The sizes of the axes of the step; false when the set does not name one of them. */
bool sizes_open(Sizes *sizes, const SizeSet *set, const ls_image *image);
void sizes_close(Sizes *sizes);
/* The length of an axis in the tensor, as arrays have it: of the rest of blocks a whole block. */
int64_t sizes_length(const Sizes *sizes, uint32_t axis, int64_t tensor);
/* 1 + the axis that counts the tensors of the parameter, or 0 */
uint32_t sizes_list(const ls_image *image, const ls_image_parameter *parameter);
bool directives_value(const Directives *directives, const char *name, double *value);
bool directives_positive(const Directives *directives, const char *name);

/* ---- matrix.c: a program for every type and broadcast shape, with every operation in it ---- */
void matrix_add(Programs *programs);
void programs_add(Programs *programs, const char *name, char *text, bool whole); /* takes text */

enum { RANDOM_PROGRAMS = 16 }; /* in the suite: ../fuzz/random_program.h */

/* ---- fill.c: inputs, a function of the seed alone ---- */
extern const char *const fill_names[FILL_COUNT];
uint64_t random_bits(uint64_t *state);
void fill_array(Fill fill, ls_type type, bool positive, uint64_t *state, void *data, size_t count);
/* What a branch that is not taken leaves alone keeps the NaN it had, what a store writes has ours:
 * inputs that are written have ours from the start. */
void canonical_nans(ls_type type, void *data, size_t count);
void store_number(ls_type type, double value, void *element);
size_t type_size(ls_type type);
const char *array_type_name(ls_type type);

/* ---- arrays.c: arrays on the host and where their elements lie on the device ---- */
typedef struct Tensor { /* of a list */
    int64_t shape[AXES];
    size_t begin, count; /* elements of the dense array */
    size_t place;        /* bytes into the placement */
} Tensor;
typedef struct Array {
    const ls_image_parameter *parameter;
    Tensor *tensors; /* of a list; else NULL */
    size_t tensor_count;
    bool list;
    int64_t shape[AXES], strides[AXES]; /* strides of the placement, in elements */
    size_t count, element;              /* elements, bytes of one */
    uint8_t *input, *expected;          /* dense, in memory order */
    size_t first, bytes;                /* the placement: offset of element 0, and all bytes */
    uint8_t *image, *result;            /* the placement's bytes as expected and as found */
    void *device;
} Array;
typedef enum Layout { LAYOUT_DENSE, LAYOUT_PITCHED, LAYOUT_STRIDED, LAYOUT_COUNT } Layout;
void array_open(Array *array, const Sizes *sizes, uint32_t parameter);
void array_place(Array *array, Layout layout, uint64_t *state);
void array_scatter(const Array *array, const uint8_t *dense, uint8_t *placed);
void array_gather(const Array *array, const uint8_t *placed, uint8_t *dense);
void array_close(Array *array);

/* ---- runner ---- */
/* In the suite a toolchain compiles at most so many steps of a program, from one on that its name
 * chooses: every step runs as text on an emulated GPU. */
enum { STEPS_MOST = 3 };
extern const ls_compile_options exec_options; /* targets.c: where programs import from */
enum { PARTS = 64 };
typedef struct Oracle { /* what the interpreter runs of a step with `for`; sequence NULL: it has
                           none */
    const struct Sequence *sequence;
    const struct Function *parts[PARTS], *planned[PARTS]; /* as they run, and as they are planned */
    const struct Function *source[PARTS];                 /* as they are written */
    struct NestsMade *nests_made[PARTS];
} Oracle;
typedef struct Runner {
    Oracle oracle;
    const char *device;
    uint64_t seed;
    bool verbose, quick; /* quick: no array of more than 64,000 elements */
    bool together;       /* the texts of a program are compiled together: together.c */
    /* The texts of 15 programs of 16 are compiled together, and a refusal is a failure; on a GPU
     * each size has one fill, and sizes come again until every variant has run; a toolchain
     * compiles STEPS_MOST steps. */
    bool suite;
    bool sample; /* one fill as well, STEPS_MOST steps, and each size once */
    bool nests;  /* run the plan's nests on the host instead of kernels on a device */
    struct NestsMade *nests_made;
    size_t scheduled, unscheduled;   /* phases, of nests */
    size_t rows, not_rows, ran_rows; /* kernels of rows in registers; runs */
    size_t turn;                     /* of nests, which of the schedules run */
    size_t large;                    /* of nests, sizes of the step at which not all do */
    const struct Function *planned;  /* the step at hand as it is planned, for that */
    ls_context *contexts[CONTEXTS];
    const char *threads[CONTEXTS];
    size_t context_count;
    size_t runs, mismatches;
    struct {
        char name[64];
        size_t runs;
    } variants[16];
    size_t variant_count;
} Runner;
void *must_allocate(size_t bytes); /* zeroed; ends the process when memory is out */
bool runner_check(Runner *runner, ls_context *context, ls_status status, const char *what);
void runner_count_variant(Runner *runner, ls_step *step);

/* run.c. run_loaded: what is compiled for the interpreter is loaded in every context already. */
bool run_loaded(Runner *runner, const Program *program, const Directives *directives,
                ls_compilation *compilation, ls_program *const *loaded);
/* together.c: code for the texts of a program that is loaded on a CPU or an emulated GPU, made
 * together; what cannot be is compiled on its own when it is first run. Closed behind the program.
 */
typedef struct Together Together;
Together *together_open(const Runner *runner, const Program *program, ls_compilation *compilation,
                        ls_program *const *loaded);
/* How many texts a loaded program has. */
size_t together_texts(ls_compilation *compilation, ls_program *program);
size_t together_refused(const Together *together); /* batches that did not compile; NULL: none */
void together_close(Together *together);
bool run_training(Runner *runner, bool print_hash); /* training.c */
/* `thorough`: every variant, not one of each step; in the suite that for the first target alone. */
bool compile_program(Runner *runner, const Program *program, const char *targets,
                     bool thorough); /* targets.c */
/* compare.c: one array after a launch; says where the first differences are. */
bool compare_array(const Array *arrays, size_t count, size_t which, const ls_image *image,
                   const char *situation);

#endif
