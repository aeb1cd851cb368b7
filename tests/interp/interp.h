/* interp.h: the oracle. Runs the IR as LANGUAGE and NUMERICS define it, value by value, and nothing
 * else.
 *
 * It shares with the compiler the IR and the device functions of templates/math.h for the
 * transcendental functions; everything else is written here a second time, in another way. */
#ifndef INTERP_H
#define INTERP_H

#include <string.h>

#include "base/base.h"
#include "ir/ir.h"

/* compiler/api.c: the IR of a step at a stage; NULL when the source has errors. */
const Function *compilation_function(ls_compilation *c, size_t step, Stage stage);

/* Of a step with `for`: its parts; and the IR of one of them. NULL: the step has no `for`. */
const Sequence *compilation_sequence(ls_compilation *c, size_t step);
const Function *compilation_part(ls_compilation *c, size_t step, size_t part, Stage stage);

/* Runs a derived function (simplified, gathered or not). sizes[a] are the lengths of axis a: one,
 * or of a ragged axis one for each coordinate of its parent; the axes of blocks have theirs from
 * their whole. data[i] is parameter i's array, dense, in its storage type, of a list an array of
 * pointers, one for each tensor; over the axes of blocks it has room for whole blocks. Written
 * parameters are written in place. An out that nobody wants may be NULL. `first` has the numbers of
 * the first tensor and element of draws; NULL: 0 and 0. false: out of memory, or an operation that
 * derive should have removed; nothing is then written. */
bool interpret(const Function *f, const int64_t *const *sizes, void *const *data,
               const int64_t first[2]);
/* sequence.c: a step with `for`, part by part and iteration by iteration: each part on copies of
 * its views of the arrays, which are copied back when it has run. `parts` are its functions. */
bool interpret_sequence(const Sequence *sequence, const Function *const *parts,
                        const int64_t *const *sizes, void *const *data, const int64_t first[2]);
/* One run of a part as the interpreter had it, for another who runs it: on `data`, which is as
 * interpret() takes it, and which sequence_reset puts back to what the part was given;
 * sequence_differs says which parameter is not what the interpreter left, or -1. */
typedef struct PartRun {
    uint32_t number;
    const int64_t *const *sizes; /* coordinates included */
    void *const *data;
    struct Run *run;
    void **given, **expected;
} PartRun;
void sequence_reset(const PartRun *part);
int sequence_differs(const PartRun *part);
typedef bool SequenceWatch(void *user, const PartRun *part); /* false: it ends there */
/* The same, and `watch` sees the runs of each part at the first two and the last coordinates. */
bool interpret_watched(const Sequence *sequence, const Function *const *parts,
                       const int64_t *const *sizes, void *const *data, const int64_t first[2],
                       SequenceWatch *watch, void *user);
/* The same where all axes are plain: their lengths. */
bool interpret_plain(const Function *f, const int64_t *sizes, void *const *data);

/* calls.c: the C functions of a program, by number, as the host's compiler makes them of the header
 * itself. NULL: no compiler, or no memory. Of one program at a time. */
typedef void (*CallFunction)(const uint64_t *x, uint64_t *result);
const CallFunction *calls_of(const Function *f);

/* reduce.c: x holds the n elements in order and may be overwritten. */
uint64_t number_reduce(Op op, Type type, uint64_t *x, int64_t n);

/* draws.c: random numbers and exact sums. */
uint64_t draw_key(uint64_t seed, uint64_t step, uint64_t tensor, uint64_t ordinal);
uint32_t draw_bits(uint64_t key, uint64_t index);
float draw_normal(uint64_t key, uint64_t index);
int64_t draw_place(int64_t i, int64_t n, uint64_t key); /* shuffle */
uint64_t fixed_shift(double most, int64_t count);
uint64_t to_fixed(double d, int64_t shift);
uint64_t from_fixed(Type type, int64_t q, int64_t shift);

/* An element, of 8 bytes at most: a call of memcpy for each takes longer than the rest. */
static inline void element_copy(void *to, const void *from, size_t size) {
    switch (size) {
    case 1: memcpy(to, from, 1); return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    default: memcpy(to, from, 8);
    }
}

/* number.c: one element. An element is the bits of its compute type, zero-extended. */
uint64_t number_apply(Op op, Type result, const Type operands[3], uint64_t payload,
                      const uint64_t x[3]);
uint64_t number_load(Type storage, const void *array, int64_t index);
void number_store(Type storage, void *array, int64_t index, uint64_t value);
double number_to_double(Type type, uint64_t bits);
uint64_t number_from_double(Type type, double value);

/* format.c: narrow floats. A format holds sign, exponent and `precision - 1` stored bits. */
double format_round(Type storage,
                    double value); /* to nearest even; saturating for the 8-bit ones */
double format_round_stochastic(Type storage, double value, uint32_t bits);
uint32_t format_encode(Type storage, double value); /* of a value that is rounded */
double format_decode(Type storage, uint32_t bits);

#endif
