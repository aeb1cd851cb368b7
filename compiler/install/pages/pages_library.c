/* pages_library.c: the names of the standard library, of the files that the compiler carries. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* Those of one file: its own, or, of one that only imports, all. */
static void print_steps(FILE *out, const char *file, const char *between, const char **before) {
    ls_compilation *compilation = NULL;
    if (ls_compile_file(file, NULL, &compilation) == LS_OK) {
        size_t count = ls_compilation_own_step_count(compilation);
        if (!count) count = ls_compilation_step_count(compilation);
        for (size_t i = 0; i < count; i++) {
            fprintf(out, "%s%s:%s", *before, file, ls_compilation_step_name(compilation, i));
            *before = between;
        }
    }
    ls_compilation_destroy(compilation);
}

void library_print(FILE *out, bool steps, const char *between);
void library_print(FILE *out, bool steps, const char *between) {
    const char *before = "";
    for (size_t i = 0; i < embedded_file_count; i++) {
        const char *path = embedded_files[i].path, *end = strstr(path, ".step");
        if (strncmp(path, "std/", 4) != 0 || !end || strchr(path + 4, '/')) continue;
        char file[100];
        snprintf(file, sizeof file, "%.*s", (int)(end - path), path);
        if (steps) {
            print_steps(out, file, between, &before);
        } else {
            fprintf(out, "%s%s", before, file);
            before = between;
        }
    }
}
