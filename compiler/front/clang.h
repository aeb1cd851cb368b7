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
    CXIndex index;
    CXUnit unit;
    CXCursor *children;
    size_t child_count, child_capacity;
    void **files;
    size_t file_count, file_capacity;
    Range *unset; /* where a local is read that may never have been set, in the compiler's arena */
    size_t unset_count, unset_capacity;
    bool out_of_memory;
} ClangUnit;

/* clang.c. NULL when a libclang was found, else why not. */
const char *clang_load(Compiler *compiler, Clang *clang);
CXCursor *clang_children(Checker *c, ClangUnit *u, CXCursor cursor, size_t *count);
/* Tells the compiler which files the unit was read from. */
void clang_list_files(Checker *c, ClangUnit *u);
const char *clang_text(Checker *c, ClangUnit *u, CXString string); /* lets go of the string */
Range clang_range(Checker *c, ClangUnit *u, CXCursor cursor);
Range clang_place(Checker *c, ClangUnit *u, CXSourceLocation location);

/* import_c_function.c: whether a function's definition can be part of a kernel, and its text there.
 */
CSymbol *c_function(Checker *c, ClangUnit *u, CXCursor cursor);

#endif
