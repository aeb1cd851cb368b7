/* clang.c: finds libclang and takes strings, places and children from it. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "ir/ir.h"
#include "front/front.h"
#include "front/clang.h"

enum { OLDEST = 14, NEWEST = 19 };

static const char *const spellings[] = {"libclang-%d.so.%d", "libclang-%d.so.1", "libclang-%d.so",
                                        "/usr/lib/llvm-%d/lib/libclang.so.1", "libclang.so.%d"};

static void *open_library(Compiler *compiler) {
    const char *wish = environment_value(VARIABLE_LOCKSTEP_LIBCLANG);
    if (wish && *wish) return dlopen(wish, RTLD_NOW | RTLD_LOCAL);
    for (int version = NEWEST; version >= OLDEST; version--) {
        for (size_t i = 0; i < COUNT(spellings); i++) {
            Text name = text_open(&compiler->arena);
            for (const char *s = spellings[i]; *s; s += *s == '%' ? 2 : 1) {
                if (*s == '%')
                    text_printf(&name, "%d", version);
                else
                    text_add(&name, s, 1);
            }
            void *library = dlopen(name.data, RTLD_NOW | RTLD_LOCAL);
            if (library) return library;
        }
    }
    return NULL;
}

/* The file that a function is from, by a path that another process can take from any folder. */
static const char *file_of_function(Compiler *compiler, const void *function) {
    Dl_info from;
    if (dladdr(function, &from) == 0 || !from.dli_fname || !*from.dli_fname) return NULL;
    char *real = realpath(from.dli_fname, NULL);
    const char *path = arena_printf(&compiler->arena, "%s", real ? real : from.dli_fname);
    free(real);
    return path;
}

const char *clang_load(Compiler *compiler, ClangUnit *u) {
    void *library = open_library(compiler);
    if (!library) {
        const char *wish = environment_value(VARIABLE_LOCKSTEP_LIBCLANG), *reason = dlerror();
        return wish && *wish ? arena_printf(&compiler->arena, "LOCKSTEP_LIBCLANG: %s",
                                            reason ? reason : "it cannot be loaded")
                             : "none was found";
    }
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define X(result, name, parameters) {#name, offsetof(Clang, name)},
#include "clang.def"
#undef X
    };
    for (size_t i = 0; i < COUNT(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return arena_printf(&compiler->arena, "the one found has no %s", functions[i].name);
        memcpy((char *)&u->clang + functions[i].offset, &function, sizeof function);
        u->library = file_of_function(compiler, function);
    }
    return NULL; /* never closed: libclang keeps threads and tables of its own */
}

/* No unwinding through libclang: a lack of memory is told afterwards. */
static int keep_child(CXCursor cursor, CXCursor parent, void *data) {
    ClangUnit *u = data;
    (void)parent;
    if (u->child_count == u->child_capacity) {
        size_t capacity = u->child_capacity ? 2 * u->child_capacity : 64;
        CXCursor *larger = realloc(u->children, capacity * sizeof *larger);
        if (!larger) {
            u->out_of_memory = true;
            return VISIT_BREAK;
        }
        u->children = larger;
        u->child_capacity = capacity;
    }
    u->children[u->child_count++] = cursor;
    return VISIT_CONTINUE;
}

CXCursor *clang_children(Checker *c, ClangUnit *u, CXCursor cursor, size_t *count) {
    u->child_count = 0;
    u->clang.clang_visitChildren(cursor, keep_child, u);
    if (u->out_of_memory)
        compiler_fail(c->compiler, LS_ERROR_MEMORY, "out of memory while a C header was read");
    CXCursor *list = arena_alloc(c->arena, u->child_count * sizeof *list);
    if (u->child_count) memcpy(list, u->children, u->child_count * sizeof *list);
    *count = u->child_count;
    return list;
}

const char *clang_text(Checker *c, ClangUnit *u, CXString string) {
    const char *text = u->clang.clang_getCString(string);
    char *copy = arena_copy(c->arena, text ? text : "", text ? strlen(text) : 0);
    u->clang.clang_disposeString(string);
    return copy;
}

/* The file among the compiler's sources, with its text for the carets; 0: none. */
static uint32_t file_of(Checker *c, ClangUnit *u, void *file) {
    if (!file) return 0;
    const char *path = clang_text(c, u, u->clang.clang_getFileName(file));
    for (size_t i = 1; i < c->compiler->source_count; i++)
        if (strcmp(c->compiler->sources[i].path, path) == 0) return (uint32_t)i;
    size_t size = 0;
    const char *text = u->clang.clang_getFileContents(u->unit, file, &size);
    return text && size <= FILE_MAX ? source_add(c->compiler, path, text, size) : 0;
}

Range clang_place(Checker *c, ClangUnit *u, CXSourceLocation location) {
    void *file = NULL;
    unsigned line, column, offset = 0;
    u->clang.clang_getExpansionLocation(location, &file, &line, &column, &offset);
    uint32_t number = file_of(c, u, file);
    return (Range){number, offset, offset};
}

Range clang_range(Checker *c, ClangUnit *u, CXCursor cursor) {
    CXSourceRange extent = u->clang.clang_getCursorExtent(cursor);
    Range begin = clang_place(c, u, u->clang.clang_getRangeStart(extent));
    Range end = clang_place(c, u, u->clang.clang_getRangeEnd(extent));
    if (begin.file == end.file && end.end > begin.begin) begin.end = end.end;
    return begin;
}

/* As with children, no unwinding through libclang. */
static void keep_inclusion(void *file, CXSourceLocation *from, unsigned count, void *data) {
    ClangUnit *u = data;
    (void)from, (void)count;
    if (u->file_count == u->file_capacity) {
        size_t capacity = u->file_capacity ? 2 * u->file_capacity : 16;
        void **larger = realloc(u->files, capacity * sizeof *larger);
        if (!larger) {
            u->out_of_memory = true;
            return;
        }
        u->files = larger;
        u->file_capacity = capacity;
    }
    u->files[u->file_count++] = file;
}

void clang_list_files(Checker *c, ClangUnit *u) {
    u->file_count = 0;
    u->clang.clang_getInclusions(u->unit, keep_inclusion, u);
    if (u->out_of_memory)
        compiler_fail(c->compiler, LS_ERROR_MEMORY, "out of memory while a C header was read");
    for (size_t i = 0; i < u->file_count; i++) {
        const char *path = clang_text(c, u, u->clang.clang_getFileName(u->files[i]));
        const bool own = strncmp(path, C_HEADERS, strlen(C_HEADERS)) == 0;
        if (!own && access(path, F_OK) == 0) file_was_read(c->compiler, path);
    }
}
