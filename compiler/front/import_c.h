/* import_c.h: what the parts of `import c` that look at a function share: the walk over clang's
 * tree (import_c_function.c), the structs and unions of the header (import_c_record.c) and the text
 * in the words of kernels (import_c_text.c). Include clang.h first. */
#ifndef IMPORT_C_H
#define IMPORT_C_H

enum { C_DEPTH_MAX = 400, C_CALLS_MAX = 64, PROBLEMS_MAX = 16 };
enum { C_ARRAY_BYTES_MAX = 4096 }; /* of a local array: each thread has its own */

/* What a name of the function's text becomes. */
typedef struct Word {
    const char *name, *text;
    struct Word *next;
} Word;

typedef struct Walk {
    Checker *c;
    ClangUnit *u;
    CSymbol *symbol;
    CXCursor function;
    Word *words;
    int *calls; /* the numbers of the functions it calls */
    size_t call_count, call_capacity;
    CXCursor *constants; /* of the header, that it uses */
    size_t constant_count, constant_capacity;
    const char **parameter_types,
        *result_type;  /* of structs and unions; NULL: numbers have their own */
    const char *inner; /* why steps cannot call it, though other functions can; NULL: they can */
    uint32_t depth;
} Walk;

/* import_c_function.c. Problems are the function's; the functions that tell one give false. Types:
 * numbers that steps have; numbers of any width; and arrays of numbers, or of structs, with their
 * bytes. */
bool c_problem_at(Walk *w, Range place, const char *reason);
bool c_problem(Walk *w, CXCursor cursor, const char *reason);
const char *c_spelling(Walk *w, CXCursor cursor);
const char *c_describe_type(Walk *w, CXCursor cursor);
Type c_compute_type(Walk *w, CXType type);
bool c_is_number(Walk *w, CXType type);
bool c_is_array(Walk *w, CXType type, long long *bytes);
bool c_add_word(Walk *w, CXCursor at, const char *name, const char *text);
bool c_keep_call(Walk *w, int number);

/* import_c_record.c: whether it is a struct or union by value, of numbers, arrays and such, which
 * then has a definition among the functions that the walk's own calls; and its name there. */
const char *c_record(Walk *w, CXCursor at, CXType type);
bool c_is_record(Walk *w, CXType type);

/* import_c_text.c: a function's definition, NULL after a problem. */
const char *c_definition(Walk *w, const CFunction *function, const char *const *names);
const char *c_type(Type type);

#endif
