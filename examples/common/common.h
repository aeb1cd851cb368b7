/* common.h: what the example programs share: options from a table, and sgemm.
 *
 * A program defines `program_name`, which its messages begin with. All functions are for one
 * thread. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { WRONG_ARGUMENTS = 2 }; /* exit status */

extern const char program_name[];

/* Prints "PROGRAM: MESSAGE" and a newline to stderr; gives false. */
bool fail(const char *format, ...) PRINTF_LIKE(1, 2);

/* ---- options.c ---- */

/* What a field holds: TEXT const char *, WHOLE and FLAG long (a flag has no value: 1), REAL double.
 */
typedef enum OptionKind { TEXT, WHOLE, REAL, FLAG } OptionKind;

typedef struct OptionRow {
    const char *name, *argument, *meaning;
    OptionKind kind;
    size_t at;           /* of the field, in bytes from the start of the program's options */
    double least, most;  /* of numbers */
    const char *initial; /* NULL: none; the field is 0 */
} OptionRow;

typedef struct OptionTable {
    const char *about; /* what the program does, for --help: the line behind its name */
    const OptionRow *rows;
    size_t count; /* at most 64 */
    /* Takes a value that the row's kind cannot have, such as `auto`; false: it is none. May be
     * NULL. */
    bool (*take)(void *options, const OptionRow *row, const char *text);
    void (*print_more)(void); /* the end of --help; may be NULL */
} OptionTable;

/* Reads the command line into `options`, which holds zeros: defaults first. Bit i of *given
 * (unless NULL) becomes 1 where the command line has option i with a value that the row can have.
 * Returns 0, -1 after --help, or WRONG_ARGUMENTS after a message. Texts are those of the arguments
 * and stay theirs. */
int options_parse(const OptionTable *table, void *options, int count, char **arguments,
                  uint64_t *given);

/* Writes a value into its field; false with a message when the row cannot have it. */
bool option_set(const OptionRow *row, void *options, const char *text);

/* ---- sgemm.c ---- */

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 }; /* of cblas.h */

typedef void (*Sgemm)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

enum { SGEMM_NAME = 128 };

/* cblas_sgemm of the library, told to use one thread; NULL: OpenBLAS if it is found; "none", or
 * nothing found: loops for row-major matrices with alpha 1 and beta 0 or 1. The library stays
 * loaded. False with a message when `library` has none. */
bool sgemm_open(const char *library, Sgemm *sgemm, char name[SGEMM_NAME]);

#endif
