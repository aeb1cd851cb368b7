/* sources.c: the text of every variant of every step of some programs, one file each.
 *
 *     sources FOLDER TARGET FILE...
 *
 * A file is called as the program, the step and the variant's number, and ends as its dialect says:
 * norms.layer_norm_forward.0.hip. What two variants or steps have word for word is written once. */
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Output {
    const char *folder, *target, *ending, *program;
    size_t name_size; /* of the program's name, the last part of its path without .step */
} Output;

static void name_program(Output *output, const char *path) {
    const char *slash = strrchr(path, '/');
    output->program = slash ? slash + 1 : path;
    output->name_size = strcspn(output->program, ".");
}

static bool write_text(const Output *output, const char *step, size_t number, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%.*s.%s.%zu.%s", output->folder, (int)output->name_size,
             output->program, step, number, output->ending);
    FILE *file = fopen(path, "w");
    if (!file) return false;
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/* `first`: of the numbers of its texts, as the parts of a step with `for` have its name. */
static bool write_step(const Output *output, const ls_image *image, size_t first) {
    enum { VARIANTS = 100 };
    for (size_t v = 0; v < image->variant_count && !image->part_count; v++) {
        bool known = false;
        for (size_t before = 0; before < v; before++)
            known |= strcmp(image->variants[before].source, image->variants[v].source) == 0;
        if (!known && !write_text(output, image->step, first + v, image->variants[v].source))
            return false;
    }
    for (size_t p = 0; p < image->part_count; p++)
        if (!write_step(output, image->parts[p].image, first + (p + 1) * VARIANTS)) return false;
    return true;
}

static bool write_file(Output *output, const char *path) {
    ls_compilation *compilation = NULL;
    name_program(output, path);
    bool made = ls_compile_file(path, NULL, &compilation) == LS_OK, written = true;
    const size_t steps = made ? ls_compilation_own_step_count(compilation) : 0;
    for (size_t s = 0; made && written && s < steps; s++) {
        const ls_image *image = NULL;
        made = ls_compilation_image(compilation, s, output->target, &image) == LS_OK;
        if (made) written = write_step(output, image, 0);
    }
    if (!made)
        fprintf(stderr, "%s: %s\n", path,
                compilation ? ls_compilation_message(compilation) : "out of memory");
    if (!written) fprintf(stderr, "cannot write into %s\n", output->folder);
    ls_compilation_destroy(compilation);
    return made && written;
}

int main(int count, char **words) {
    if (count < 4) {
        fprintf(stderr, "usage: sources FOLDER TARGET FILE...\n");
        return 2;
    }
    const Target *dialect = target_for(words[2]);
    if (!dialect) {
        fprintf(stderr, "sources: there is no target %s\n", words[2]);
        return 2;
    }
    Output output = {.folder = words[1],
                     .target = words[2],
                     .ending = strchr(dialect->prelude, '.') + 1}; /* as its prelude's */
    for (int i = 3; i < count; i++)
        if (!write_file(&output, words[i])) return 1;
    return 0;
}
