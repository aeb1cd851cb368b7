/* editor.c: the public functions of lockstep/index.h. */
#include <locale.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"

#include <string.h>

typedef struct Question {
    size_t definition;
    bool bounds;
    uint32_t file, offset;
    const ls_index *index;
    ls_place at;
    ls_description description;
} Question;

/* Runs a question to its end or to where memory runs out. */
static ls_status ask(ls_compilation *c, void (*question)(Compiler *compiler, Question *q),
                     Question *q) {
    if (!c || !c->compiler.checker) return LS_ERROR_ARGUMENT;
    locale_t before = c->locale ? uselocale(c->locale) : (locale_t)0;
    ls_status status = LS_OK;
    if (setjmp(c->compiler.unwind))
        status = c->compiler.failure;
    else
        question(&c->compiler, q);
    if (before) uselocale(before);
    return status;
}

static void ask_index(Compiler *compiler, Question *q) {
    q->index = index_tables(compiler);
}

static void ask_description(Compiler *compiler, Question *q) {
    index_describe(compiler, q->definition, q->bounds, &q->description);
}

static void ask_value(Compiler *compiler, Question *q) {
    index_value_at(compiler, q->file, q->offset, &q->at, &q->description);
}

ls_status ls_compilation_index(ls_compilation *c, const ls_index **index) {
    Question q = {0};
    const ls_status status = ask(c, ask_index, &q);
    *index = status == LS_OK ? q.index : NULL;
    return status;
}

ls_status ls_compilation_describe(ls_compilation *c, size_t definition, int bounds,
                                  ls_description *description) {
    Question q = {.definition = definition, .bounds = bounds != 0};
    const ls_status status = ask(c, ask_description, &q);
    *description = q.description;
    return status;
}

ls_status ls_compilation_value_at(ls_compilation *c, uint32_t file, uint32_t offset, ls_place *at,
                                  ls_description *description) {
    Question q = {.file = file, .offset = offset};
    const ls_status status = ask(c, ask_value, &q);
    *at = q.at;
    *description = q.description;
    return status;
}

const char *ls_library_file(size_t number, const char **text, size_t *size) {
    for (size_t i = 0; i < embedded_file_count; i++) {
        const EmbeddedFile *file = &embedded_files[i];
        if (strncmp(file->path, "std/", 4) != 0 || !strstr(file->path, ".step")) continue;
        if (number-- > 0) continue;
        if (text) *text = file->text;
        if (size) *size = file->size;
        return file->path;
    }
    return NULL;
}
