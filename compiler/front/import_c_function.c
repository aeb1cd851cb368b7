/* import_c_function.c: whether a C function can be part of a kernel, and its text there.
 *
 * The walk over clang's tree allows what is listed here and nothing else: arithmetic on numbers,
 * local variables and arrays, structs and unions by value, constants of the header, control flow
 * without jumps, and calls of functions of the same kind. It goes on behind what it refuses, so
 * that all of that is told at once. A constant becomes a local of the functions that use it. */
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "front/clang.h"

/* ---- types ---- */

static const struct {
    CKind kind;
    Type type;
} compute_types[] = {{C_BOOL, TYPE_BOOL},     {C_INT, TYPE_I32},      {C_UINT, TYPE_U32},
                     {C_LONG, TYPE_I64},      {C_LONGLONG, TYPE_I64}, {C_ULONG, TYPE_U64},
                     {C_ULONGLONG, TYPE_U64}, {C_FLOAT, TYPE_F32},    {C_DOUBLE, TYPE_F64}};

Type c_compute_type(Walk *w, CXType type) {
    int kind = w->u->clang.clang_getCanonicalType(type).kind;
    for (size_t i = 0; i < COUNT(compute_types); i++)
        if ((int)compute_types[i].kind == kind) return compute_types[i].type;
    return TYPE_NONE;
}

/* Numbers of any width, for what stays inside the function. */
bool c_is_number(Walk *w, CXType type) {
    int kind = w->u->clang.clang_getCanonicalType(type).kind;
    return c_compute_type(w, type) != TYPE_NONE || kind == C_CHAR_U || kind == C_UCHAR ||
           kind == C_USHORT || kind == C_CHAR_S || kind == C_SCHAR || kind == C_SHORT;
}

CXType c_element_type(Walk *w, CXType type, Text *lengths) {
    const Clang *clang = &w->u->clang;
    for (;;) {
        const CXType array = clang->clang_getCanonicalType(type);
        if (array.kind != C_ARRAY) return type;
        if (lengths) text_printf(lengths, "[%lld]", clang->clang_getNumElements(array));
        type = clang->clang_getArrayElementType(array);
    }
}

/* ---- problems ---- */

/* The first one is the function's, up to PROBLEMS_MAX others stand behind it. Always false. */
bool c_problem_at(Walk *w, Range place, const char *reason) {
    CSymbol *s = w->symbol;
    if (!s->problem) {
        s->problem = reason;
        s->place = place;
        return false;
    }
    bool known = strcmp(s->problem, reason) == 0 && s->place.begin == place.begin;
    for (size_t i = 0; i < s->more_count; i++)
        known |= strcmp(s->more[i].text, reason) == 0 && s->more[i].place.begin == place.begin;
    if (known || s->more_count == PROBLEMS_MAX) return false;
    s->more = arena_grow(w->c->arena, s->more, s->more_count, &s->more_capacity, sizeof *s->more);
    s->more[s->more_count++] = (struct CProblem){place, reason};
    return false;
}

bool c_problem(Walk *w, CXCursor cursor, const char *reason) {
    const bool whole = cursor.kind == CURSOR_FUNCTION;
    return c_problem_at(w, whole ? w->symbol->range : clang_range(w->c, w->u, cursor), reason);
}

static const char *type_text(Walk *w, CXCursor cursor) {
    return clang_text(w->c, w->u,
                      w->u->clang.clang_getTypeSpelling(w->u->clang.clang_getCursorType(cursor)));
}

const char *c_spelling(Walk *w, CXCursor cursor) {
    return clang_text(w->c, w->u, w->u->clang.clang_getCursorSpelling(cursor));
}

/* "a pointer, `float *`" for the type of something. */
const char *c_describe_type(Walk *w, CXCursor cursor) {
    int kind = w->u->clang.clang_getCanonicalType(w->u->clang.clang_getCursorType(cursor)).kind;
    const char *what = kind == C_POINTER  ? "a pointer"
                       : kind == C_ARRAY  ? "an array"
                       : kind == C_RECORD ? "a struct or union"
                       : kind == C_ENUM   ? "an enum"
                                          : "of a type that is no number of steps";
    return arena_printf(w->c->arena, "%s, `%s`", what, type_text(w, cursor));
}

/* ---- words ---- */

bool c_add_word(Walk *w, CXCursor at, const char *name, const char *text) {
    for (const Word *word = w->words; word; word = word->next) {
        if (strcmp(word->name, name) != 0) continue;
        return strcmp(word->text, text) == 0 ||
               c_problem(w, at, arena_printf(w->c->arena, "`%s` means two things in it", name));
    }
    Word *word = arena_alloc(w->c->arena, sizeof *word);
    *word = (Word){name, text, w->words};
    w->words = word;
    return true;
}

static bool add_local(Walk *w, CXCursor cursor) {
    const char *name = c_spelling(w, cursor);
    return c_add_word(w, cursor, name, arena_printf(w->c->arena, "c_%s", name));
}

/* ---- calls ---- */

/* math.h's functions have the names of the device functions. */
static bool is_device_function(Walk *w, CXCursor function) {
    void *file = NULL;
    unsigned line, column, offset;
    const char *name = c_spelling(w, function);
    w->u->clang.clang_getExpansionLocation(w->u->clang.clang_getCursorLocation(function), &file,
                                           &line, &column, &offset);
    if (!file || strncmp(name, "ls_", 3) != 0) return false;
    const char *path = clang_text(w->c, w->u, w->u->clang.clang_getFileName(file));
    return strncmp(path, C_HEADERS, strlen(C_HEADERS)) == 0;
}

bool c_keep_call(Walk *w, int number) {
    for (size_t i = 0; i < w->call_count; i++)
        if (w->calls[i] == number) return true;
    w->calls =
        arena_grow(w->c->arena, w->calls, w->call_count, &w->call_capacity, sizeof *w->calls);
    w->calls[w->call_count++] = number;
    return true;
}

static bool walk(Walk *w, CXCursor cursor);

/* A number, struct or union that lies in a local: the local itself, or an element or a member. */
static bool is_place(Walk *w, CXCursor cursor) {
    const bool reference = cursor.kind == CURSOR_REFERENCE;
    const CXType type = w->u->clang.clang_getCursorType(cursor);
    if (!c_is_number(w, type) && !c_is_record(w, type)) return false;
    if (!reference) return cursor.kind == CURSOR_SUBSCRIPT || cursor.kind == CURSOR_MEMBER;
    const int kind = w->u->clang.clang_getCursorReferenced(cursor).kind;
    return kind == CURSOR_VARIABLE || kind == CURSOR_PARAMETER;
}

/* `&x` of a local number or of an element of a local array: what memcpy's pointers may be. */
static bool walk_place(Walk *w, CXCursor cursor) {
    size_t count;
    CXCursor *inner = clang_children(w->c, w->u, cursor, &count);
    while (count == 1 && cursor.kind != CURSOR_UNARY && cursor.kind != CURSOR_REFERENCE &&
           cursor.kind != CURSOR_SUBSCRIPT && cursor.kind != CURSOR_MEMBER) {
        cursor = inner[0];
        inner = clang_children(w->c, w->u, cursor, &count);
    }
    if (cursor.kind != CURSOR_UNARY || count != 1 || !is_place(w, inner[0]))
        return c_problem(w, cursor, "it copies memory that is no local's");
    return walk(w, inner[0]);
}

static bool walk_copy(Walk *w, CXCursor call) {
    size_t count;
    CXCursor *parts = clang_children(w->c, w->u, call, &count);
    if (count != 4) return c_problem(w, call, "it calls memcpy with other arguments");
    bool good = c_add_word(w, call, "ls_memcpy", "ls_memcpy");
    for (size_t i = 1; i < 3; i++) good = walk_place(w, parts[i]) && good;
    return walk(w, parts[3]) && good;
}

/* Of `ls_exp_f32` those of `exp`; of what is no operation of the language, a few. */
static double device_operations(const char *name) {
    enum { FEW = 3 };
    const char *word = name + strlen("ls_"), *end = strrchr(name, '_');
    for (int op = 0; end > word && op < OP_COUNT; op++)
        if (strlen(op_info[op].name) == (size_t)(end - word) &&
            strncmp(op_info[op].name, word, (size_t)(end - word)) == 0)
            return op_info[op].cost;
    return FEW;
}

static bool walk_call(Walk *w, CXCursor call, CXCursor callee) {
    const char *name = c_spelling(w, callee);
    if (callee.kind != CURSOR_FUNCTION)
        return callee.kind != CURSOR_PARAMETER && c_problem(w, call, "it calls through a pointer");
    if (is_device_function(w, callee)) {
        w->operations += device_operations(name);
        return c_add_word(w, call, name, name);
    }
    if (w->u->clang.clang_Cursor_isVariadic(callee))
        return c_problem(w, call, arena_printf(w->c->arena, "it calls the variadic `%s`", name));
    CXCursor definition = w->u->clang.clang_getCursorDefinition(callee);
    if (definition.kind != CURSOR_FUNCTION)
        return c_problem(w, call,
                         arena_printf(w->c->arena,
                                      "it calls `%s`, which has no definition in the header",
                                      name));
    const CSymbol *other = c_function(w->c, w->u, definition);
    if (other->active) return c_problem(w, call, "it calls itself, which kernels cannot");
    if (other->problem)
        return c_problem_at(w, other->place,
                            arena_printf(w->c->arena, "it calls `%s`: %s", name, other->problem));
    const char *text = w->c->c_functions[other->number].name;
    w->operations += w->c->c_functions[other->number].operations;
    return c_keep_call(w, other->number) &&
           c_add_word(w, call, name, arena_printf(w->c->arena, "ls_c_%s", text));
}

/* ---- the walk ---- */

static bool walk_children(Walk *w, CXCursor cursor, size_t first) {
    size_t count;
    CXCursor *children = clang_children(w->c, w->u, cursor, &count);
    bool good = true;
    if (++w->depth > C_DEPTH_MAX) {
        good = c_problem(w, cursor, "it is nested too deeply");
        w->too_deep = true;
    }
    for (size_t i = first; i < count && w->depth <= C_DEPTH_MAX; i++)
        good = walk(w, children[i]) && good;
    w->depth--;
    return good;
}

/* C++ has no designators of arrays: what has one is an expression with more than one part. */
static bool walk_list(Walk *w, CXCursor list) {
    size_t count, inner;
    const CXCursor *parts = clang_children(w->c, w->u, list, &count);
    for (size_t i = 0; i < count; i++) {
        clang_children(w->c, w->u, parts[i], &inner);
        if (parts[i].kind == CURSOR_UNEXPOSED_EXPRESSION && inner > 1)
            return c_problem(w, parts[i], "its array, struct or union has designators");
    }
    return walk_children(w, list, 0);
}

/* An array of numbers, structs or unions, of any number of axes; gives how large it is in bytes. */
bool c_is_array(Walk *w, CXType type, long long *bytes) {
    const Clang *clang = &w->u->clang;
    const CXType element = c_element_type(w, type, NULL);
    *bytes = clang->clang_Type_getSizeOf(type);
    return clang->clang_getCanonicalType(type).kind == C_ARRAY &&
           (c_is_number(w, element) || c_is_record(w, element));
}

/* Whether it is of a type that kernels can hold, whose words are known then. Without a problem
 * where it is not. */
static bool can_hold(Walk *w, CXCursor at, CXType type) {
    const CXType element = c_element_type(w, type, NULL);
    return c_is_number(w, element) || (c_is_record(w, element) && c_record(w, at, element));
}

/* Whether it can only be read: the type, or that of an array's elements. */
static bool is_read_only(Walk *w, CXType type) {
    const Clang *clang = &w->u->clang;
    const CXType whole = clang->clang_getCanonicalType(type); /* its qualifiers are outside */
    const CXType element = clang->clang_getCanonicalType(c_element_type(w, type, NULL));
    return clang->clang_isConstQualifiedType(whole) || clang->clang_isConstQualifiedType(element);
}

/* A `static const` number or table of the header, which becomes a local of the function. */
static bool walk_constant(Walk *w, CXCursor cursor, CXCursor to, const char *name) {
    const Clang *clang = &w->u->clang;
    CXType type = clang->clang_getCursorType(to);
    long long bytes;
    size_t count;
    CXCursor definition = clang->clang_getCursorDefinition(to);
    if (!is_read_only(w, type))
        return c_problem(w, cursor, arena_printf(w->c->arena, "it uses the global `%s`", name));
    if (!c_is_number(w, type) && !c_is_record(w, type) && !c_is_array(w, type, &bytes))
        return c_problem(w, cursor,
                         arena_printf(w->c->arena, "it uses the global `%s`, which is %s", name,
                                      c_describe_type(w, to)));
    if (!can_hold(w, cursor, type)) return false;
    clang_children(w->c, w->u, definition, &count);
    if (definition.kind != CURSOR_VARIABLE || count == 0)
        return c_problem(
            w, cursor,
            arena_printf(w->c->arena, "it uses the global `%s`, which has no value there", name));
    for (size_t i = 0; i < w->constant_count; i++)
        if (clang->clang_equalCursors(w->constants[i], definition)) return true;
    const bool good = c_add_word(w, cursor, name, arena_printf(w->c->arena, "cg_%s", name)) &&
                      walk_children(w, definition, 0);
    w->constants = arena_grow(w->c->arena, w->constants, w->constant_count, &w->constant_capacity,
                              sizeof *w->constants); /* behind what it uses */
    w->constants[w->constant_count++] = definition;
    return good;
}

static bool walk_reference(Walk *w, CXCursor cursor) {
    CXCursor to = w->u->clang.clang_getCursorReferenced(cursor);
    const char *name = c_spelling(w, cursor);
    if (to.kind == CURSOR_PARAMETER) return true;
    if (to.kind == CURSOR_ENUM_CONSTANT) {
        long long value = w->u->clang.clang_getEnumConstantDeclValue(to);
        return c_add_word(w, cursor, name,
                          arena_printf(w->c->arena,
                                       value < INT32_MIN || value > INT32_MAX ? "(%lldll)"
                                       : value == INT32_MIN                   ? "(%lld - 1)"
                                                                              : "(%lld)",
                                       value == INT32_MIN ? value + 1 : value));
    }
    if (to.kind != CURSOR_VARIABLE)
        return c_problem(w, cursor,
                         arena_printf(w->c->arena, "it takes the address of `%s`", name));
    CXCursor parent = w->u->clang.clang_getCursorSemanticParent(to);
    if (parent.kind != CURSOR_FUNCTION) return walk_constant(w, cursor, to, name);
    return true; /* a static one was refused where it is declared */
}

/* Whether it is part of a parameter or a local that was refused where it is declared. */
static bool is_of_refused(Walk *w, CXCursor cursor) {
    size_t count = 1;
    while (cursor.kind != CURSOR_REFERENCE && count > 0) {
        CXCursor *inner = clang_children(w->c, w->u, cursor, &count);
        if (count > 0) cursor = inner[0];
    }
    if (cursor.kind != CURSOR_REFERENCE) return false;
    CXCursor to = w->u->clang.clang_getCursorReferenced(cursor);
    CXType type = w->u->clang.clang_getCursorType(to);
    long long bytes;
    if (c_is_number(w, type) || c_is_record(w, type) || c_is_array(w, type, &bytes)) return false;
    return to.kind == CURSOR_PARAMETER ||
           (to.kind == CURSOR_VARIABLE &&
            w->u->clang.clang_getCursorSemanticParent(to).kind == CURSOR_FUNCTION);
}

/* `base.member`: its base is a local, a constant, an element, a member or what a call gives. */
static bool walk_member(Walk *w, CXCursor cursor) {
    size_t count;
    CXCursor *parts = clang_children(w->c, w->u, cursor, &count);
    if (count == 0) return c_problem(w, cursor, "it contains what kernels cannot take over");
    if (!c_is_record(w, w->u->clang.clang_getCursorType(parts[0])))
        return !is_of_refused(w, parts[0]) && c_problem(w, cursor, "it reads through a pointer");
    return walk(w, parts[0]);
}

/* What stands before a [: a local array or a table of the header, or one of its rows. */
static bool walk_array(Walk *w, CXCursor cursor) {
    size_t count;
    for (;;) {
        CXCursor *inner = clang_children(w->c, w->u, cursor, &count);
        if ((cursor.kind != CURSOR_UNEXPOSED_EXPRESSION && cursor.kind != CURSOR_PARENTHESES) ||
            count != 1)
            break;
        cursor = inner[0];
    }
    CXType type = w->u->clang.clang_getCursorType(cursor);
    long long bytes;
    if (!c_is_array(w, type, &bytes))
        return !is_of_refused(w, cursor) &&
               c_problem(w, cursor, "it reads through a pointer or an array");
    if (cursor.kind == CURSOR_REFERENCE) return walk_reference(w, cursor);
    if (cursor.kind == CURSOR_MEMBER) return walk_member(w, cursor);
    if (cursor.kind != CURSOR_SUBSCRIPT)
        return c_problem(w, cursor, "it reads through a pointer or an array");
    CXCursor *parts = clang_children(w->c, w->u, cursor, &count);
    bool good = count == 2 && walk_array(w, parts[0]);
    return count == 2 && walk(w, parts[1]) && good;
}

static bool walk_subscript(Walk *w, CXCursor cursor) {
    size_t count;
    CXCursor *parts = clang_children(w->c, w->u, cursor, &count);
    if (count != 2) return c_problem(w, cursor, "it reads through a pointer or an array");
    const bool good = walk_array(w, parts[0]);
    return walk(w, parts[1]) && good;
}

/* Gives the local bytes whose being set is followed. */
static bool keep_bytes(Walk *w, CXCursor variable, size_t bytes) {
    if (w->local_bytes + bytes > C_LOCAL_BYTES_MAX)
        return c_problem(w, variable,
                         arena_printf(w->c->arena, "its locals have more than %d bytes together",
                                      C_LOCAL_BYTES_MAX));
    CLocal *local = arena_alloc(w->c->arena, sizeof *local);
    *local = (CLocal){variable, w->local_bytes, bytes, w->locals};
    w->locals = local;
    w->local_bytes += bytes;
    return true;
}

static bool walk_variable(Walk *w, CXCursor variable) {
    if (variable.kind != CURSOR_VARIABLE)
        return c_problem(w, variable, "it declares something else than variables");
    const int storage = w->u->clang.clang_Cursor_getStorageClass(variable);
    const char *name = c_spelling(w, variable);
    CXType type = w->u->clang.clang_getCursorType(variable);
    long long bytes = 0;
    const bool table = storage == STORAGE_STATIC && is_read_only(w, type);
    if (table) c_add_word(w, variable, "static", "");
    if (storage != STORAGE_NONE && storage != STORAGE_AUTO && storage != STORAGE_REGISTER && !table)
        return c_problem(w, variable,
                         arena_printf(w->c->arena, "its variable `%s` is not local", name));
    if (!c_is_number(w, type) && !c_is_record(w, type) && !c_is_array(w, type, &bytes))
        return c_problem(w, variable,
                         arena_printf(w->c->arena, "its variable `%s` is %s", name,
                                      c_describe_type(w, variable)));
    if (c_is_record(w, type)) bytes = w->u->clang.clang_Type_getSizeOf(type);
    if (bytes > C_ARRAY_BYTES_MAX)
        return c_problem(
            w, variable,
            arena_printf(w->c->arena,
                         "its variable `%s` has %lld bytes, and each thread of a kernel "
                         "would have one: at most %d",
                         name, bytes, C_ARRAY_BYTES_MAX));
    if (bytes && !table && !keep_bytes(w, variable, (size_t)bytes)) return false;
    return can_hold(w, variable, type) && add_local(w, variable) && walk_children(w, variable, 0);
}

static bool walk_declaration(Walk *w, CXCursor cursor) {
    size_t count;
    CXCursor *children = clang_children(w->c, w->u, cursor, &count);
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        const bool record = children[i].kind == CURSOR_STRUCT || children[i].kind == CURSOR_UNION;
        const CXType type = w->u->clang.clang_getCursorType(children[i]);
        good = (record ? c_record(w, children[i], type) != NULL : walk_variable(w, children[i])) &&
               good;
    }
    return good;
}

/* A typedef in a cast or a declaration: the type behind it. */
static bool walk_type(Walk *w, CXCursor cursor) {
    CXCursor to = w->u->clang.clang_getCursorReferenced(cursor);
    if (to.kind == CURSOR_STRUCT || to.kind == CURSOR_UNION)
        return c_record(w, cursor, w->u->clang.clang_getCursorType(to)) != NULL;
    if (to.kind != CURSOR_TYPEDEF) return true; /* what has the type is looked at itself */
    CXType type =
        w->u->clang.clang_getCanonicalType(w->u->clang.clang_getTypedefDeclUnderlyingType(to));
    if (type.kind == C_RECORD)
        return c_record(w, cursor, w->u->clang.clang_getCursorType(to)) != NULL;
    const char *text = type.kind == C_BOOL
                           ? "LS_C_BOOL"
                           : clang_text(w->c, w->u, w->u->clang.clang_getTypeSpelling(type));
    return c_add_word(w, cursor, c_spelling(w, to), text);
}

static bool walk_expression(Walk *w, CXCursor cursor) {
    CXType type = w->u->clang.clang_getCursorType(cursor);
    if (!c_is_number(w, type) && !c_is_record(w, type) &&
        w->u->clang.clang_getCanonicalType(type).kind != C_VOID)
        return !is_of_refused(w, cursor) &&
               c_problem(w, cursor,
                         arena_printf(w->c->arena, "it has a value that is %s",
                                      c_describe_type(w, cursor)));
    if (cursor.kind == CURSOR_REFERENCE) return walk_reference(w, cursor);
    if (cursor.kind == CURSOR_SUBSCRIPT) return walk_subscript(w, cursor);
    if (cursor.kind == CURSOR_MEMBER) return walk_member(w, cursor);
    if (cursor.kind == CURSOR_CALL) {
        CXCursor called = w->u->clang.clang_getCursorReferenced(cursor);
        if (is_device_function(w, called) && strcmp(c_spelling(w, called), "ls_memcpy") == 0)
            return walk_copy(w, cursor);
        const bool good = walk_call(w, cursor, w->u->clang.clang_getCursorReferenced(cursor));
        return walk_children(w, cursor, 1) && good;
    }
    return walk_children(w, cursor, 0);
}

/* What the body takes in an iteration it takes in each. */
static bool walk_loop(Walk *w, CXCursor cursor) {
    enum { LOOP_TURNS = 8 }; /* how often a loop goes round is not known */
    const double before = w->operations;
    w->operations = 0;
    const bool good = walk_children(w, cursor, 0);
    w->operations = before + LOOP_TURNS * w->operations;
    return good;
}

static bool walk(Walk *w, CXCursor cursor) {
    switch (cursor.kind) {
    case CURSOR_TYPE_REFERENCE: return walk_type(w, cursor);
    case CURSOR_STRUCT:
    case CURSOR_UNION: return c_record(w, cursor, w->u->clang.clang_getCursorType(cursor)) != NULL;
    case CURSOR_DECLARATION: return walk_declaration(w, cursor);
    case CURSOR_COMPOUND:
    case CURSOR_CASE:
    case CURSOR_DEFAULT:
    case CURSOR_IF:
    case CURSOR_SWITCH:
    case CURSOR_CONTINUE:
    case CURSOR_BREAK:
    case CURSOR_RETURN:
    case CURSOR_NULL: return walk_children(w, cursor, 0);
    case CURSOR_WHILE:
    case CURSOR_DO:
    case CURSOR_FOR: return walk_loop(w, cursor);
    case CURSOR_UNARY:
    case CURSOR_BINARY:
    case CURSOR_COMPOUND_ASSIGNMENT:
    case CURSOR_CONDITIONAL:
    case CURSOR_CAST:
    case CURSOR_SUBSCRIPT: w->operations++; return walk_expression(w, cursor);
    case CURSOR_UNEXPOSED_EXPRESSION:
    case CURSOR_REFERENCE:
    case CURSOR_CALL:
    case CURSOR_INTEGER:
    case CURSOR_FLOAT:
    case CURSOR_CHARACTER:
    case CURSOR_PARENTHESES:
    case CURSOR_MEMBER:
    case CURSOR_SIZEOF: return walk_expression(w, cursor);
    case CURSOR_LIST: return walk_list(w, cursor);
    case CURSOR_COMPOUND_LITERAL:
        return c_problem(w, cursor,
                         "it has a compound literal, which C++ lacks: give it to a local first");
    case CURSOR_ASM:
    case CURSOR_MS_ASM: return c_problem(w, cursor, "it contains `asm`");
    case CURSOR_LABEL: return walk_children(w, cursor, 0); /* of no use without a goto */
    case CURSOR_GOTO:
    case CURSOR_INDIRECT_GOTO: return c_problem(w, cursor, "it jumps with `goto`");
    default:
        return !is_of_refused(w, cursor) &&
               c_problem(w, cursor, "it contains what kernels cannot take over");
    }
}

/* ---- one function ---- */

static bool read_signature(Walk *w, CFunction *function, const char ***names) {
    int count = w->u->clang.clang_Cursor_getNumArguments(w->function);
    if (w->u->clang.clang_Cursor_isVariadic(w->function))
        return c_problem(w, w->function, "it is variadic");
    const CXType result = w->u->clang.clang_getCursorResultType(w->function);
    function->result = c_compute_type(w, result);
    if (c_is_record(w, result)) {
        w->result_type = c_record(w, w->function, result);
        w->inner = "its result is a struct or union, which steps do not have";
        if (!w->result_type) return false;
    } else if (function->result == TYPE_NONE)
        return c_problem(
            w, w->function,
            "its result is not float, double, int, unsigned, a 64-bit integer or bool");
    if (count < 0) return c_problem(w, w->function, "its parameters are not declared");
    function->parameter_count = (size_t)count;
    function->parameters = arena_alloc(w->c->arena, (size_t)count * sizeof *function->parameters);
    function->derivatives = arena_alloc(w->c->arena, (size_t)count * sizeof *function->derivatives);
    *names = arena_alloc(w->c->arena, (size_t)count * sizeof **names);
    w->parameter_types = arena_alloc(w->c->arena, (size_t)count * sizeof *w->parameter_types);
    bool good = true;
    for (int i = 0; i < count; i++) {
        CXCursor parameter = w->u->clang.clang_Cursor_getArgument(w->function, (unsigned)i);
        Type type = c_compute_type(w, w->u->clang.clang_getCursorType(parameter));
        function->parameters[i] = type;
        function->derivatives[i] = -1;
        (*names)[i] = *c_spelling(w, parameter) ? c_spelling(w, parameter)
                                                : arena_printf(w->c->arena, "%d", i);
        if (c_is_record(w, w->u->clang.clang_getCursorType(parameter))) {
            w->parameter_types[i] =
                c_record(w, parameter, w->u->clang.clang_getCursorType(parameter));
            w->inner = "it takes a struct or union, which steps do not have";
            good = w->parameter_types[i] && add_local(w, parameter) && good;
        } else if (type == TYPE_NONE)
            good = c_problem(w, parameter,
                             arena_printf(w->c->arena, "its parameter `%s` is %s", (*names)[i],
                                          c_describe_type(w, parameter)));
        else if (*c_spelling(w, parameter))
            good = add_local(w, parameter) && good;
    }
    if (w->inner && !w->result_type) w->result_type = c_type(function->result);
    if (w->inner) function->result = TYPE_NONE;
    return good;
}

/* A name of its own in kernels; an equal function of another header is the same one. */
static int add_function(Checker *c, CFunction function, Walk *w, const char *const *names) {
    const char *name = function.name;
    for (unsigned k = 2;; k++) {
        const char *text = function.source = c_definition(w, &function, names);
        if (!text) return -1;
        bool taken = false;
        for (size_t i = 0; i < c->c_function_count; i++) {
            if (strcmp(c->c_functions[i].name, function.name) != 0) continue;
            if (strcmp(c->c_functions[i].source, text) == 0) return (int)i;
            taken = true;
        }
        if (!taken) break;
        function.name = arena_printf(c->arena, "%s_%u", name, k);
    }
    c->c_functions = arena_grow(c->arena, c->c_functions, c->c_function_count,
                                &c->c_function_capacity, sizeof *c->c_functions);
    c->c_functions[c->c_function_count] = function;
    return (int)c->c_function_count++;
}

/* What clang has seen while it read the function. */
static bool check_unset(Walk *w) {
    const Range body = clang_range(w->c, w->u, w->function);
    bool good = true;
    for (size_t i = 0; i < w->u->unset_count; i++) {
        const Range at = w->u->unset[i];
        if (at.file != body.file || at.begin < body.begin || at.begin >= body.end) continue;
        good = c_problem_at(w, at, "it reads a local that may not have been set");
    }
    return good;
}

CSymbol *c_function(Checker *c, ClangUnit *u, CXCursor cursor) {
    enum { OPERATIONS_MAX = 1 << 30 }; /* loops in each other */
    const char *text = clang_text(c, u, u->clang.clang_getCursorSpelling(cursor));
    const Name *name = name_intern(c->names, text, strlen(text));
    Symbol *known = scope_find_here(&c->c_unit->functions, name);
    if (known) return known->c;
    Range range = clang_place(c, u, u->clang.clang_getCursorLocation(cursor));
    range.end = range.begin + (uint32_t)strlen(text);
    Symbol *symbol = scope_add(&c->c_unit->functions, name, range, SYMBOL_C);
    CSymbol *s = symbol->c = arena_alloc(c->arena, sizeof *s);
    *s = (CSymbol){.name = name,
                   .range = range,
                   .place = range,
                   .number = -1,
                   .active = true,
                   .scope = &c->c_unit->functions};
    Walk w = {.c = c, .u = u, .symbol = s, .function = cursor};
    CFunction function = {.name = name->text};
    const char **names = NULL;
    if (u->clang.clang_getCursorDefinition(cursor).kind != CURSOR_FUNCTION) {
        s->problem = "it has no definition in the header";
    } else {
        w.function = cursor = u->clang.clang_getCursorDefinition(cursor);
        size_t count;
        bool good = read_signature(&w, &function, &names);
        CXCursor *children = clang_children(c, u, cursor, &count);
        for (size_t i = 0; i < count; i++)
            if (children[i].kind == CURSOR_COMPOUND) {
                good = walk(&w, children[i]) && good;
                good = (w.too_deep || c_check_elements(&w, children[i])) && good;
            }
        good = check_unset(&w) && good;
        if (!good && !s->problem)
            c_problem(&w, cursor, "it contains what kernels cannot take over");
        function.calls = w.calls;
        function.call_count = w.call_count;
        function.operations =
            w.operations < OPERATIONS_MAX ? 1 + (uint32_t)w.operations : OPERATIONS_MAX;
        if (good) s->number = add_function(c, function, &w, names);
        s->inner = w.inner;
    }
    s->active = false;
    return s;
}
