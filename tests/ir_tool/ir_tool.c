/* ir_tool.c: one pass, alone, on IR text.
 *
 *   ir_tool [--check STAGE | --pass NAME]... FILE
 *
 * Reads FILE, does what the options say in order and prints the result. A pass is followed by the
 * check of its stage. Exit status 1: the text has errors or a check failed, and stderr says which.
 */
#include "base/base.h"
#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Function *split(Function *f) {
    ValueId first;
    return (Function *)(uintptr_t)split_reductions(f, false, &first);
}

static Function *split_floats(Function *f) {
    ValueId first;
    return (Function *)(uintptr_t)split_reductions(f, true, &first);
}

typedef struct Pass {
    const char *name;
    Function *(*run)(Function *f); /* NULL: only the check */
    Stage stage;
} Pass;
static const Pass passes[] = {{"lowered", NULL, STAGE_LOWERED},
                              {"derived", NULL, STAGE_DERIVED},
                              {"simplified", NULL, STAGE_SIMPLIFIED},
                              {"gathered", NULL, STAGE_GATHERED},
                              {"derive", derive, STAGE_DERIVED},
                              {"simplify", simplify, STAGE_SIMPLIFIED},
                              {"find_touched", find_touched, STAGE_SIMPLIFIED},
                              {"compact", compact, STAGE_SIMPLIFIED},
                              {"gather", gather, STAGE_GATHERED},
                              {"split", split, STAGE_SIMPLIFIED},
                              {"split_floats", split_floats, STAGE_SIMPLIFIED}};

static const Pass *find_pass(const char *name) {
    for (size_t i = 0; i < COUNT(passes); i++)
        if (strcmp(passes[i].name, name) == 0) return &passes[i];
    return NULL;
}

static char *read_file(Compiler *compiler, const char *path, size_t *size) {
    FILE *in = fopen(path, "rb");
    char *text = arena_alloc(&compiler->arena, 1 << 20);
    if (!in) return NULL;
    *size = fread(text, 1, (1 << 20) - 1, in);
    return fclose(in) == 0 ? text : NULL;
}

static int run(Compiler *compiler, int count, char **words) {
    size_t size;
    const char *text = read_file(compiler, words[count - 1], &size);
    if (!text) {
        fprintf(stderr, "ir_tool: cannot read %s\n", words[count - 1]);
        return 2;
    }
    Text out = text_open(&compiler->arena);
    uint32_t source = source_add(compiler, words[count - 1], text, size);
    Function *f = ir_read(compiler, &compiler->arena, source);
    if (!f) {
        diagnostics_render(compiler, &out, false);
        fputs(out.data, stderr);
        return 1;
    }
    for (int i = 1; i + 2 < count; i += 2) {
        const Pass *pass = find_pass(words[i + 1]);
        if (!pass || (strcmp(words[i], "--pass") != 0 && strcmp(words[i], "--check") != 0)) {
            fprintf(stderr, "ir_tool: %s %s: no such pass or stage\n", words[i], words[i + 1]);
            return 2;
        }
        if (pass->run) f = pass->run(f);
        if (!f) break;
        ir_check(f, pass->stage);
    }
    if (f)
        ir_print(f, &out);
    else
        diagnostics_render(compiler, &out, false);
    fputs(out.data, f ? stdout : stderr);
    return !f;
}

int main(int count, char **words) {
    if (count < 2 || count % 2 != 0) {
        fputs("ir_tool [--check STAGE | --pass NAME]... FILE\n", stderr);
        return 2;
    }
    static Compiler compiler; /* static: its value is needed after longjmp */
    arena_open(&compiler.arena, &compiler);
    int status = 1;
    if (setjmp(compiler.unwind) == 0)
        status = run(&compiler, count, words);
    else
        fprintf(stderr, "ir_tool: %s\n", compiler.failure_message);
    arena_close(&compiler.arena);
    return status;
}
