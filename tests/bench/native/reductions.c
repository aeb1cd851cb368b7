/* reductions.c: one number of a whole f32 array, by vectors the compiler keeps in registers. */
#include "native.h"

#include <omp.h>

typedef float Floats __attribute__((vector_size(LINE), aligned(4)));
typedef uint32_t Words __attribute__((vector_size(LINE), aligned(4)));
enum { LANES = LINE / 4, ACROSS = 4, FAR = 4096 }; /* FAR: bytes ahead */

/* `each` takes `value`, a vector, into part[k]; `one` takes the rest's elements into `total`. */
#define REDUCTION(name, Vector, scalar, each, one, finish)                                            \
    void name(Work *work);                                                                            \
    void name(Work *work) {                                                                           \
        double total = 0;                                                                             \
        PRAGMA(omp parallel num_threads(work->threads) if (work->threads > 1) reduction(+ : total)) { \
            const Share share = share_of(work->n, 1024, (size_t)omp_get_thread_num(),                 \
                                         (size_t)omp_get_num_threads());                              \
            const scalar *const x = work->at[0];                                                      \
            Vector part[ACROSS] = {{0}, {0}, {0}, {0}};                                               \
            size_t i = share.from;                                                                    \
            for (; i + ACROSS * LANES <= share.to; i += ACROSS * LANES)                               \
                for (size_t k = 0; k < ACROSS; k++) {                                                 \
                    __builtin_prefetch((const char *)(x + i + k * LANES) + FAR, 0, 3);                \
                    const Vector value = *(const Vector *)(x + i + k * LANES);                        \
                    each;                                                                             \
                }                                                                                     \
            for (; i < share.to; i++) {                                                               \
                const scalar value = x[i];                                                            \
                total += one;                                                                         \
            }                                                                                         \
            for (size_t k = 0; k < ACROSS; k++)                                                       \
                for (size_t j = 0; j < LANES; j++) total += (double)part[k][j];                       \
        }                                                                                             \
        work->result = finish;                                                                        \
    }

REDUCTION(native_sum_f32, Floats, float, part[k] += value, (double)value, total)
REDUCTION(native_norm_f32, Floats, float, part[k] += value * value, (double)(value *value),
          sqrt(total))
/* A comparison gives all ones: as counts they only grow below zero, and 0 alone means none. */
REDUCTION(native_any_nan_f32, Words, uint32_t,
          part[k] |= (Words)((value & 0x7fffffff) > 0x7f800000), (value & 0x7fffffff) > 0x7f800000,
          total > 0)
