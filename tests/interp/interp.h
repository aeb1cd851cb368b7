/* interp.h: the oracle. Runs the IR as LANGUAGE and NUMERICS define it, value by value, and nothing
 * else.
 *
 * It shares with the compiler the IR and the device functions of templates/math.h for the
 * transcendental functions; everything else is written here a second time, in another way. */
#ifndef INTERP_H
#define INTERP_H

#include "compiler.h"

/* Runs a derived function (simplified or not). `sizes` has a length for each axis. data[i] is
 * parameter i's array, dense, in its storage type; written parameters are written in place. An out
 * that nobody wants may be NULL. false: out of memory, or an operation that derive should have
 * removed; nothing is then written. */
bool interpret(const Function *f, const int64_t *sizes, void *const *data);

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
uint32_t format_encode(Type storage, double value); /* of a value that is rounded */
double format_decode(Type storage, uint32_t bits);

#endif
