/* random.h: between random_expressions.c, random_hazards.c and random_programs.c. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { NAMES_MAX = 512, AXES_MAX = 9, DEPTH = 4, SETS = 3 };

enum { NASTY = 1024, GIVEN_SIZE = 48 }; /* names to a program, and how long they are */
/* of both, in programs that were not asked to have so many statements */
enum { SHORT_NAMES = 64, SHORT_NASTY = 128 };

typedef enum Kind { F32, F64, I32, I64, U32, U64, BOOL, KINDS } Kind;
enum { IN, INOUT, OUT, LET };
typedef struct Name {
    const char *text;
    Kind kind;
    unsigned axes, type; /* type: of a parameter, in `storage` */
    unsigned placed;     /* axes of the loops around this, which `axes` lacks */
    unsigned role;
    bool readable, assigned;
} Name;

typedef struct Generator {
    uint64_t state;
    FILE *out;
    const char *axis[AXES_MAX];
    int64_t fixed[AXES_MAX];       /* -1: open */
    const char *formula[AXES_MAX]; /* "1 + ", before the name of the axis before it; or NULL */
    unsigned axis_count, all;
    unsigned list, ragged; /* the axis that counts tensors; those that depend on it, or none */
    const char *whole;     /* of axes in blocks, `whole as (block, block + 1 = length)`, or NULL */
    unsigned block;
    int64_t length;
    bool split; /* write [q, k] for both */
    Name names[NAMES_MAX];
    unsigned name_count;
    char given[NASTY][GIVEN_SIZE];
    unsigned given_count;
    unsigned operations;        /* left to be written in this statement */
    unsigned scans, scan_names; /* around this; so far in the step */
    bool own;                   /* the file has functions of its own */
    bool floats;                /* inputs and outputs of a float type, no inout */
    bool calls;                 /* a later step of the file calls this one */
    bool late;                  /* behind assignments of its own */
    bool dead_branch;           /* out must_hold: the gradient of a branch never taken is none */
    bool layered;               /* like a layer: reductions of arrays, and what is made of them */
    bool hazards;               /* most statements read what others store */
    bool loops, looped;         /* there are `for`s; there has been one */
    unsigned reverse;           /* the axes that a loop goes over from their ends */
    unsigned depth;             /* of loops around this */
    unsigned short_axes;        /* plain axes, of few elements, that loops go over */
    Name callee[NAMES_MAX];     /* parameters of the file's first step, if another calls it */
    char callee_name[16];
    unsigned callee_count;
    bool small;          /* quick to compile and to run: short, most lengths small */
    unsigned statements; /* of a step; 0: a few, as they are drawn */
} Generator;

/* An expression that was written: the axes it has; whether it is a constant and so without type. */
typedef struct Made {
    unsigned axes;
    bool constant;
} Made;

unsigned below(Generator *g, unsigned limit);
unsigned most_names(const Generator *g);
bool chance(Generator *g, unsigned percent);
unsigned blocks(const Generator *g);                 /* the two axes of blocks, or none */
unsigned closure(const Generator *g, unsigned axes); /* with those that others depend on */
unsigned random_axes(Generator *g, unsigned among);
const char *new_name(Generator *g); /* that nobody has; NULL at the end of the list */
void write_axes(Generator *g, unsigned axes);
/* random_loops.c: the directives of a program, and its step. */
void write_loops(FILE *out, uint64_t state);
Made write_value(Generator *g, Kind kind, unsigned allowed, unsigned depth);
/* A name of the kind, one that is cast to it, a coordinate or a length. Never a constant: every
 * step has a rank-0 parameter. */
Made write_leaf(Generator *g, Kind kind, unsigned allowed);
Made write_draw(Generator *g, Kind kind, unsigned allowed);
Made write_index(Generator *g, Kind kind, unsigned axis); /* a coordinate */

/* random_hazards.c: statements that read what the step stores, before and behind it. */
void write_hazard(Generator *g);

typedef struct StorageType {
    const char *name;
    Kind kind;
} StorageType;
enum { STORAGE = 17, COMPUTE = 9 }; /* the first are compute types */
extern const StorageType storage[STORAGE];
extern const char *const kind_names[KINDS];

#endif
