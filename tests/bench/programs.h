/* programs.h: programs of any number of statements, by shape, for what is measured by their size.
 */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <stddef.h>

/* A growing text; ends the process when memory is out. */
typedef struct ProgramText {
    char *text;
    size_t size, capacity;
} ProgramText;
void program_put(ProgramText *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void program_read(ProgramText *program,
                  const char *path); /* a file; its end when it cannot be read */
void program_free(ProgramText *program);

typedef struct ProgramShape {
    const char *name;
    void (*write)(ProgramText *program, int statements);
    size_t step; /* that is meant: the number of it in the text */
    int most; /* statements: more are refused, for the arguments that a kernel takes or as a whole
               */
} ProgramShape;
/* The shapes of the front end and those of plans. */
extern const ProgramShape front_shapes[], plan_shapes[];
extern const size_t front_shape_count, plan_shape_count;

double process_milliseconds(void); /* of processor time */

#endif
