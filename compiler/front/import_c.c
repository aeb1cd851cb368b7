/* import_c.c: `import c "ops.h"`: a C header as a file of functions and constants.
 *
 * libclang reads the header once, with Lockstep's own math.h, stdint.h and the like before the
 * system's. Each function is judged then (import_c_function.c); one that cannot be imported is an
 * error where a step calls it. Macros that are numbers are found by asking clang for their values
 * in a text that includes the header. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "front/clang.h"

/* ---- what clang is given ---- */

typedef struct Inputs {
    struct CXUnsavedFile *files;
    size_t count, capacity;
    Range import;
    const char **arguments;
    size_t argument_count, argument_capacity;
} Inputs;

static void add_file(Checker *c, Inputs *in, const char *path, const char *text, size_t size) {
    in->files = arena_grow(c->arena, in->files, in->count, &in->capacity, sizeof *in->files);
    in->files[in->count++] = (struct CXUnsavedFile){path, text, (unsigned long)size};
}

static void add_argument(Checker *c, Inputs *in, const char *argument) {
    in->arguments = arena_grow(c->arena, in->arguments, in->argument_count, &in->argument_capacity,
                               sizeof *in->arguments);
    in->arguments[in->argument_count++] = argument;
}

static Inputs collect_inputs(Checker *c, const Unit *unit) {
    static const char *const words[] = {
        "-x",
        "c",
        "-std=gnu11",
        "-Wno-everything",
        "-Wuninitialized",
        "-Wsometimes-uninitialized",
        "-ferror-limit=0",
        "-isystem",
        C_HEADERS,
        "-Wno-implicit-function-declaration", /* told where such a function is called */
    };
    const ls_compile_options *options = c->compiler->options;
    Inputs in = {0};
    for (size_t i = 0; i < COUNT(words); i++) add_argument(c, &in, words[i]);
    for (size_t i = 0; options && i < options->import_path_count; i++) {
        add_argument(c, &in, "-I");
        add_argument(c, &in, options->import_paths[i]);
    }
    for (size_t i = 0; i < embedded_file_count; i++)
        if (strncmp(embedded_files[i].path, "c/", 2) == 0)
            add_file(c, &in, arena_printf(c->arena, "%s/%s", C_HEADERS, embedded_files[i].path + 2),
                     embedded_files[i].text, embedded_files[i].size);
    for (size_t i = 0; options && i < options->source_count; i++)
        if (strcmp(options->sources[i].name, unit->path) != 0)
            add_file(c, &in, options->sources[i].name, options->sources[i].text,
                     options->sources[i].size);
    const Source *source = &c->compiler->sources[unit->file];
    add_file(c, &in, unit->path, source->text, source->size);
    return in;
}

/* In another process first: a header may take for ever. */
static const char *try_c(Checker *c, const ClangUnit *u, const char *path, const Inputs *in) {
    if (!c->compiler->try_header || !u->library) return NULL;
    HeaderFile *files = arena_alloc(c->arena, in->count * sizeof *files);
    for (size_t i = 0; i < in->count; i++)
        files[i] = (HeaderFile){in->files[i].path, in->files[i].text, in->files[i].size};
    const CHeader header = {.library = u->library,
                            .path = path,
                            .arguments = in->arguments,
                            .files = files,
                            .argument_count = in->argument_count,
                            .file_count = in->count};
    return c->compiler->try_header(c->compiler, &header);
}

/* False after a diagnostic. */
static bool parse_c(Checker *c, ClangUnit *u, const char *path, const Inputs *in) {
    if (u->unit) u->clang.clang_disposeTranslationUnit(u->unit);
    u->unit = NULL;
    const char *reason = try_c(c, u, path, in);
    if (!reason) {
        int failed = u->clang.clang_parseTranslationUnit2(
            u->index, path, in->arguments, (int)in->argument_count, in->files, (unsigned)in->count,
            UNIT_DETAILED_PREPROCESSING, &u->unit);
        if (!failed && u->unit) return true;
        reason = arena_printf(c->arena, "libclang gave up on it (its error %d)", failed);
    }
    complain(c, ERROR_C_READ, in->import, c->c_unit->path, reason);
    return false;
}

/* The place where a variable is read that has no value, or not on every path. */
static void keep_unset(Checker *c, ClangUnit *u, Range at) {
    u->unset = arena_grow(c->arena, u->unset, u->unset_count, &u->unset_capacity, sizeof *u->unset);
    u->unset[u->unset_count++] = at;
}

/* A header may turn other warnings on. */
static bool is_about_unset(Checker *c, ClangUnit *u, void *diagnostic) {
    const CXString option = u->clang.clang_getDiagnosticOption(diagnostic, NULL);
    return strstr(clang_text(c, u, option), "uninitialized") != NULL;
}

/* clang's own errors, at their places. Its warnings are about what is not set: see collect_inputs.
 */
static bool report_errors(Checker *c, ClangUnit *u, Range import) {
    bool good = true;
    unsigned count = u->clang.clang_getNumDiagnostics(u->unit);
    for (unsigned i = 0; i < count; i++) {
        void *diagnostic = u->clang.clang_getDiagnostic(u->unit, i);
        const int severity = u->clang.clang_getDiagnosticSeverity(diagnostic);
        const Range at = clang_place(c, u, u->clang.clang_getDiagnosticLocation(diagnostic));
        if (severity == SEVERITY_WARNING && is_about_unset(c, u, diagnostic)) keep_unset(c, u, at);
        if (severity >= SEVERITY_ERROR) {
            const char *text = clang_text(c, u, u->clang.clang_getDiagnosticSpelling(diagnostic));
            if (complain(c, ERROR_C_SYNTAX, at.file ? at : import, text))
                diagnose_note(c->compiler, import, "the header is imported here");
            good = false;
        }
        u->clang.clang_disposeDiagnostic(diagnostic);
    }
    return good;
}

/* ---- what the header has ---- */

static bool is_own(ClangUnit *u, CXCursor cursor) {
    CXSourceLocation location = u->clang.clang_getCursorLocation(cursor);
    void *file = NULL;
    unsigned line, column, offset;
    u->clang.clang_getExpansionLocation(location, &file, &line, &column, &offset);
    return file && !u->clang.clang_Location_isInSystemHeader(location);
}

static void add_constant(Checker *c, Unit *unit, const char *text, Range range, int type,
                         uint64_t bits) {
    const Name *name = name_intern(c->names, text, strlen(text));
    if (scope_find_here(&unit->constants, name)) return;
    range.end = range.begin + (uint32_t)strlen(text);
    Symbol *symbol = scope_add(&unit->constants, name, range, SYMBOL_CONST);
    symbol->value = typed_constant(c, type, bits, range);
    symbol->state = CONST_DONE;
}

static void add_enumerators(Checker *c, ClangUnit *u, Unit *unit, CXCursor cursor) {
    size_t count;
    CXCursor *children = clang_children(c, u, cursor, &count);
    for (size_t i = 0; i < count; i++) {
        if (children[i].kind != CURSOR_ENUM_CONSTANT) continue;
        const char *name = clang_text(c, u, u->clang.clang_getCursorSpelling(children[i]));
        Range at = clang_place(c, u, u->clang.clang_getCursorLocation(children[i]));
        add_constant(c, unit, name, at, TYPE_INTEGER,
                     (uint64_t)u->clang.clang_getEnumConstantDeclValue(children[i]));
    }
}

typedef struct Macro {
    const char *name;
    Range at;
} Macro;

/* The value of a variable that a macro was given to, or of the header's own, when it is a number.
 */
static void add_macro(Checker *c, ClangUnit *u, Unit *unit, CXCursor variable, const Macro *macro) {
    void *result = u->clang.clang_Cursor_Evaluate(variable);
    if (!result) return;
    int kind = u->clang.clang_EvalResult_getKind(result);
    long long integer = u->clang.clang_EvalResult_getAsLongLong(result);
    bool wraps = integer < 0 && u->clang.clang_EvalResult_isUnsignedInt(result);
    double real = u->clang.clang_EvalResult_getAsDouble(result);
    uint64_t bits;
    u->clang.clang_EvalResult_dispose(result);
    memcpy(&bits, &real, sizeof bits);
    if (kind == EVALUATED_INTEGER && !wraps)
        add_constant(c, unit, macro->name, macro->at, TYPE_INTEGER, (uint64_t)integer);
    if (kind == EVALUATED_FLOAT) add_constant(c, unit, macro->name, macro->at, TYPE_FLOAT, bits);
}

/* `static const float rate = 0.5f;` is a constant of steps, too. */
static void add_variable(Checker *c, ClangUnit *u, Unit *unit, CXCursor cursor) {
    const CXType type = u->clang.clang_getCanonicalType(u->clang.clang_getCursorType(cursor));
    const Macro own = {clang_text(c, u, u->clang.clang_getCursorSpelling(cursor)),
                       clang_place(c, u, u->clang.clang_getCursorLocation(cursor))};
    if (type.kind != C_ARRAY && u->clang.clang_isConstQualifiedType(type))
        add_macro(c, u, unit, cursor, &own);
}

static void add_macros(Checker *c, ClangUnit *u, Unit *unit, Inputs *in, const Macro *macros,
                       size_t count) {
    static const char stem[] = "lockstep_macro_";
    const char *slash = strrchr(unit->path, '/');
    const char *path = arena_printf(c->arena, "%.*slockstep_macros.c",
                                    slash ? (int)(slash + 1 - unit->path) : 0, unit->path);
    Text text = text_open(c->arena);
    text_printf(&text, "#include \"%s\"\n", slash ? slash + 1 : unit->path);
    for (size_t i = 0; i < count; i++)
        text_printf(&text, "__auto_type %s%zu = (%s);\n", stem, i, macros[i].name);
    add_file(c, in, path, text.data, text.size);
    if (!parse_c(c, u, path, in)) return; /* most of its errors are macros that are no numbers */
    size_t children;
    CXCursor top = u->clang.clang_getTranslationUnitCursor(u->unit);
    CXCursor *list = clang_children(c, u, top, &children);
    for (size_t i = 0; i < children; i++) {
        if (list[i].kind != CURSOR_VARIABLE) continue;
        const char *name = clang_text(c, u, u->clang.clang_getCursorSpelling(list[i]));
        if (strncmp(name, stem, sizeof stem - 1) != 0) continue;
        size_t number = strtoul(name + sizeof stem - 1, NULL, 10);
        if (number < count) add_macro(c, u, unit, list[i], &macros[number]);
    }
}

static void read_header(Checker *c, ClangUnit *u, Unit *unit, Range import) {
    Inputs in = collect_inputs(c, unit);
    in.import = import;
    u->index = u->clang.clang_createIndex(0, 0);
    if (!u->index) compiler_fail(c->compiler, LS_ERROR_MEMORY, "libclang cannot begin to read");
    unit->incomplete = !parse_c(c, u, unit->path, &in);
    if (unit->incomplete) return;
    clang_list_files(c, u);
    unit->incomplete = !report_errors(c, u, import);
    if (unit->incomplete) return;
    Macro *macros = NULL;
    size_t macro_count = 0, macro_capacity = 0, count;
    CXCursor top = u->clang.clang_getTranslationUnitCursor(u->unit);
    CXCursor *list = clang_children(c, u, top, &count);
    for (size_t i = 0; i < count; i++) {
        CXCursor cursor = list[i];
        bool wanted = cursor.kind == CURSOR_FUNCTION || cursor.kind == CURSOR_ENUM ||
                      cursor.kind == CURSOR_MACRO || cursor.kind == CURSOR_VARIABLE;
        if (!wanted || !is_own(u, cursor)) continue;
        if (cursor.kind == CURSOR_FUNCTION) {
            c_function(c, u, cursor);
        } else if (cursor.kind == CURSOR_ENUM) {
            add_enumerators(c, u, unit, cursor);
        } else if (cursor.kind == CURSOR_VARIABLE) {
            add_variable(c, u, unit, cursor);
        } else if (!u->clang.clang_Cursor_isMacroFunctionLike(cursor) &&
                   !u->clang.clang_Cursor_isMacroBuiltin(cursor)) {
            macros = arena_grow(c->arena, macros, macro_count, &macro_capacity, sizeof *macros);
            macros[macro_count++] =
                (Macro){clang_text(c, u, u->clang.clang_getCursorSpelling(cursor)),
                        clang_place(c, u, u->clang.clang_getCursorLocation(cursor))};
        }
    }
    if (macro_count) add_macros(c, u, unit, &in, macros, macro_count);
}

void import_c_close(Compiler *compiler) {
    ClangUnit *u = compiler->clang;
    if (!u) return;
    if (u->unit) u->clang.clang_disposeTranslationUnit(u->unit);
    if (u->index) u->clang.clang_disposeIndex(u->index);
    free(u->children);
    free(u->files);
    free(u);
    compiler->clang = NULL;
}

void import_c_read(Checker *c, Unit *unit, Range import) {
    Compiler *compiler = c->compiler;
    ClangUnit *u = compiler->clang = calloc(1, sizeof *u);
    if (!u) compiler_fail(compiler, LS_ERROR_MEMORY, "out of memory for a C header");
    const char *reason = clang_load(compiler, u);
    if (reason) {
        unit->incomplete = true;
        if (complain(c, ERROR_C_LIBRARY, import, reason))
            diagnose_help(compiler,
                          "install it (Debian and Ubuntu: libclang1-14 or newer), or name "
                          "the library in LOCKSTEP_LIBCLANG");
    } else {
        Unit *outer = c->c_unit;
        c->c_unit = unit;
        read_header(c, u, unit, import);
        c->c_unit = outer;
    }
    import_c_close(compiler);
}
