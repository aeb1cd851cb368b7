/* clang.h: libclang as import_c*.c see it: own declarations of the few things used, and the table
 * of functions that clang.c fills from whichever libclang is installed. Kinds have the same numbers
 * in all versions from 14 to 19. Include compiler.h, front.h and front.h first. */
#ifndef CLANG_H
#define CLANG_H

typedef void *CXIndex;
typedef void *CXUnit;
typedef struct CXString {
    const void *data;
    unsigned flags;
} CXString;
typedef struct CXCursor {
    int kind, data;
    const void *pointers[3];
} CXCursor;
typedef struct CXType {
    int kind;
    void *pointers[2];
} CXType;
typedef struct CXSourceLocation {
    const void *pointers[2];
    unsigned data;
} CXSourceLocation;
typedef struct CXSourceRange {
    const void *pointers[2];
    unsigned begin, end;
} CXSourceRange;
struct CXUnsavedFile {
    const char *path, *text;
    unsigned long size;
};
typedef int (*CXVisitor)(CXCursor cursor, CXCursor parent, void *data);
typedef void (*CXInclusion)(void *file, CXSourceLocation *from, unsigned count, void *data);

enum { VISIT_BREAK, VISIT_CONTINUE };
enum { SEVERITY_WARNING = 2, SEVERITY_ERROR = 3 };
enum { STORAGE_NONE = 1, STORAGE_STATIC = 3, STORAGE_AUTO = 6, STORAGE_REGISTER = 7 };
enum { UNIT_DETAILED_PREPROCESSING = 1 };
enum { EVALUATED_INTEGER = 1, EVALUATED_FLOAT = 2 };

typedef enum CursorKind {
    CURSOR_STRUCT = 2,
    CURSOR_UNION = 3,
    CURSOR_ENUM = 5,
    CURSOR_FIELD = 6,
    CURSOR_ENUM_CONSTANT = 7,
    CURSOR_FUNCTION = 8,
    CURSOR_VARIABLE = 9,
    CURSOR_PARAMETER = 10,
    CURSOR_TYPEDEF = 20,
    CURSOR_TYPE_REFERENCE = 43,
    CURSOR_UNEXPOSED_EXPRESSION = 100,
    CURSOR_REFERENCE = 101,
    CURSOR_MEMBER = 102,
    CURSOR_CALL = 103,
    CURSOR_INTEGER = 106,
    CURSOR_FLOAT = 107,
    CURSOR_CHARACTER = 110,
    CURSOR_PARENTHESES = 111,
    CURSOR_UNARY = 112,
    CURSOR_SUBSCRIPT = 113,
    CURSOR_BINARY = 114,
    CURSOR_COMPOUND_ASSIGNMENT = 115,
    CURSOR_CONDITIONAL = 116,
    CURSOR_CAST = 117,
    CURSOR_COMPOUND_LITERAL = 118,
    CURSOR_LIST = 119, /* {1, 2} */
    CURSOR_SIZEOF = 136,
    CURSOR_LABEL = 201,
    CURSOR_COMPOUND = 202,
    CURSOR_CASE = 203,
    CURSOR_DEFAULT = 204,
    CURSOR_IF = 205,
    CURSOR_SWITCH = 206,
    CURSOR_WHILE = 207,
    CURSOR_DO = 208,
    CURSOR_FOR = 209,
    CURSOR_GOTO = 210,
    CURSOR_INDIRECT_GOTO = 211,
    CURSOR_CONTINUE = 212,
    CURSOR_BREAK = 213,
    CURSOR_RETURN = 214,
    CURSOR_ASM = 215,
    CURSOR_MS_ASM = 229,
    CURSOR_NULL = 230,
    CURSOR_DECLARATION = 231,
    CURSOR_MACRO = 501
} CursorKind;

typedef enum CKind { /* of types */
                     C_VOID = 2,
                     C_BOOL = 3,
                     C_CHAR_U = 4,
                     C_UCHAR = 5,
                     C_USHORT = 8,
                     C_UINT = 9,
                     C_ULONG = 10,
                     C_ULONGLONG = 11,
                     C_CHAR_S = 13,
                     C_SCHAR = 14,
                     C_SHORT = 16,
                     C_INT = 17,
                     C_LONG = 18,
                     C_LONGLONG = 19,
                     C_FLOAT = 21,
                     C_DOUBLE = 22,
                     C_POINTER = 101,
                     C_RECORD = 105,
                     C_ENUM = 106,
                     C_ARRAY = 112
} CKind;

typedef struct Clang {
#define X(result, name, parameters) result(*name) parameters;
#include "clang.def"
#undef X
} Clang;

/* A header while it is read. Kept by the Compiler, so that it is let go of however the compilation
 * ends; `children` are those of the last cursor that was visited. */
typedef struct ClangUnit {
    Clang clang;
    const char *library; /* its file; NULL: not known */
    CXIndex index;
    CXUnit unit;
    CXCursor *children;
    size_t child_count, child_capacity;
    void **files;
    size_t file_count, file_capacity;
    struct CRecord *records; /* that functions use, in the compiler's arena */
    Range *unset; /* where a local is read that may never have been set, in the compiler's arena */
    size_t unset_count, unset_capacity;
    bool out_of_memory;
} ClangUnit;

/* clang.c. NULL when a libclang was found, else why not. */
const char *clang_load(Compiler *compiler, ClangUnit *u);
CXCursor *clang_children(Checker *c, ClangUnit *u, CXCursor cursor, size_t *count);
/* Tells the compiler which files the unit was read from. */
void clang_list_files(Checker *c, ClangUnit *u);
const char *clang_text(Checker *c, ClangUnit *u, CXString string); /* lets go of the string */
Range clang_range(Checker *c, ClangUnit *u, CXCursor cursor);
Range clang_place(Checker *c, ClangUnit *u, CXSourceLocation location);

/* ---- what the parts of `import c` that look at a function share: the walk over clang's tree
 * (import_c_function.c), structs and unions (import_c_record.c), the text (import_c_text.c) ---- */

enum { C_DEPTH_MAX = 400, C_CALLS_MAX = 64, PROBLEMS_MAX = 16 };
enum { C_ARRAY_BYTES_MAX = 4096 };    /* of a local array: each thread has its own */
enum { C_LOCAL_BYTES_MAX = 1 << 16 }; /* of all locals of a function */

/* What a name of the function's text becomes. */
typedef struct Word {
    const char *name, *text;
    struct Word *next;
} Word;

/* A struct or union of the header: what functions that use it call, and the words of its text. */
typedef struct CRecord {
    CXCursor definition;
    int number; /* among the functions */
    const char *name;
    const Word *words;
    struct CRecord *next;
} CRecord;

/* A local array, struct or union of the function: its bytes among those of all. */
typedef struct CLocal {
    CXCursor variable;
    size_t begin, bytes;
    struct CLocal *next;
} CLocal;

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
    CLocal *locals;
    size_t local_bytes;
    const char **parameter_types,
        *result_type;  /* of structs and unions; NULL: numbers have their own */
    const char *inner; /* why steps cannot call it, though other functions can; NULL: they can */
    double operations; /* about how many it takes, so far */
    uint32_t depth;
    bool too_deep;
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
/* What an array is of, without its axes, whose lengths are added as `[2][3]`; of another type the
 * type itself. */
CXType c_element_type(Walk *w, CXType type, Text *lengths);
bool c_add_word(Walk *w, CXCursor at, const char *name, const char *text);
bool c_keep_call(Walk *w, int number);

/* import_c_record.c: whether it is a struct or union by value, of numbers, arrays and such, which
 * then has a definition among the functions that the walk's own calls; and its name there. */
const char *c_record(Walk *w, CXCursor at, CXType type);
bool c_is_record(Walk *w, CXType type);

/* import_c_unset.c: whether no element or member of a local is read before it is set. */
bool c_check_elements(Walk *w, CXCursor body);

/* import_c_text.c: a function's definition, NULL after a problem. */
const char *c_definition(Walk *w, const CFunction *function, const char *const *names);
const char *c_type(Type type);

/* import_c_function.c: whether a function's definition can be part of a kernel, and its text there.
 */
CSymbol *c_function(Checker *c, ClangUnit *u, CXCursor cursor);

#endif
