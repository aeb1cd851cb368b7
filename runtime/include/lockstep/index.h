/* lockstep/index.h: what the text of a program says, place by place, for editors and other tools.
 *
 * Of a compilation with `index` set in its options, also one with errors: every name that is
 * introduced, every place that mentions one, and the type of every expression that was understood.
 * Tables and strings belong to the compilation and live until ls_compilation_destroy. */
#ifndef LOCKSTEP_INDEX_H
#define LOCKSTEP_INDEX_H

#include <lockstep/compiler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a file; file 0 is no place. */
typedef struct ls_place {
    uint32_t file, begin, end;
} ls_place;

typedef struct ls_index_file {
    const char *path; /* as messages call it; of the standard library "std/norms.step" */
    const char *text;
    size_t size;
    int library, header; /* of the standard library; a C header */
} ls_index_file;

typedef enum ls_name_kind {
    LS_NAME_BUILTIN, /* a function of the language, which has no place */
    LS_NAME_FILE,    /* a file, mentioned by the path of an import */
    LS_NAME_CONST,
    LS_NAME_FN,
    LS_NAME_STEP,
    LS_NAME_IMPORT, /* the name behind `as` */
    LS_NAME_C,      /* a function or constant of a C header */
    LS_NAME_AXIS,
    LS_NAME_PARAMETER, /* of a step */
    LS_NAME_ARGUMENT,  /* of a fn */
    LS_NAME_LET,
    LS_NAME_RUNNING /* the running value of a scan */
} ls_name_kind;

typedef struct ls_definition {
    ls_name_kind kind;
    const char *name;
    ls_place at;     /* the name, where it is introduced */
    ls_place whole;  /* its item, statement or parameter */
    ls_place scope;  /* where it can be said without a qualifier, in its own file */
    uint32_t within; /* the step or fn that it is a part of; UINT32_MAX: none */
} ls_definition;

typedef struct ls_mention {
    ls_place at;
    uint32_t definition;
} ls_mention;

typedef struct ls_index {
    const ls_index_file *files; /* by number; 0 is none, 1 the program's own */
    size_t file_count;
    const ls_definition *definitions; /* the language's own functions first, then by place */
    size_t definition_count;
    const ls_mention *mentions; /* by place; where a name is introduced, too */
    size_t mention_count;
} ls_index;

/* LS_ERROR_ARGUMENT of a compilation without `index`. */
ls_status ls_compilation_index(ls_compilation *compilation, const ls_index **index);

/* What can be said about a name or an expression; each may be NULL. */
typedef struct ls_description {
    const char *declaration; /* as written, on one line: "inout p: f32[t, n]" */
    const char *comment;     /* the comment lines above it, or the comment behind it */
    const char *type;        /* "f32[b, k]"; of what has several, by call: NULL */
    const char *shape;       /* the lengths of its axes: "b x 64" */
    const char *value;       /* of a constant: "0.9" */
    const char *bound;       /* the error of the value: "at most 1.5 * 2^-24 of the value" */
} ls_description;
/* With `bounds` 0 without the bound, which takes the longest to find. */
ls_status ls_compilation_describe(ls_compilation *compilation, size_t definition, int bounds,
                                  ls_description *description);
/* The smallest expression around an offset of a file; at->file is 0 where there is none. */
ls_status ls_compilation_value_at(ls_compilation *compilation, uint32_t file, uint32_t offset,
                                  ls_place *at, ls_description *description);

/* The files of the standard library, by number: "std/norms.step"; NULL behind the last. `text` and
 * `size` may be NULL. */
const char *ls_library_file(size_t number, const char **text, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
