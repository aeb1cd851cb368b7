/* nest_tool.c: nests as text.
 *
 *   nest_tool print FILE               reads each nest of the file and prints it
 *   nest_tool check FILE               and says which rule it breaks, or that it breaks none
 *   nest_tool mutate FILE SEED COUNT   reads broken versions of each
 *   nest_tool pass FILE [n=N,m=M] PASS...   runs passes on each, and says whether the nest still
 *                                      gives the same bits: see passes.c
 *   nest_tool built                    prints and checks one that is built in C
 *
 * A line that begins with `nest ` begins the next nest. Exit status 1: a nest has errors or breaks
 * a rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "loop/loop.h"

#include "nest_tool.h"

enum { FILE_SIZE = 1 << 20 };

static char *read_file(const char *path) {
    char *text = calloc(1, FILE_SIZE);
    FILE *in = fopen(path, "rb");
    if (!text || !in) return free(text), NULL;
    fread(text, 1, FILE_SIZE - 1, in);
    fclose(in);
    return text;
}

static int report(Compiler *compiler) {
    Text out = text_open(&compiler->arena);
    diagnostics_render(compiler, &out, false);
    fputs(out.data, stderr);
    return 1;
}

/* `line` lines stand before the nest: its messages count them. */
static char **passes; /* the words behind FILE */
static int pass_count;

static int run(Compiler *compiler, const char *word, const char *path, const char *text,
               size_t size, size_t line) {
    Text source = text_open(&compiler->arena), out = text_open(&compiler->arena);
    for (; line; line--) text_puts(&source, "\n");
    text_add(&source, text, size);
    const uint32_t file = source_add(compiler, path, source.data, source.size);
    Nest *nest = nest_read(compiler, &compiler->arena, file);
    if (!nest) return report(compiler);
    if (strcmp(word, "pass") == 0) return run_passes(nest, passes, pass_count);
    if (strcmp(word, "print") == 0) {
        nest_print(nest, &out);
        fputs(out.data, stdout);
        return 0;
    }
    const char *problem = nest_problem(nest);
    printf("%s%s\n", problem ? problem : nest->name, problem ? "" : ": legal");
    return problem != NULL;
}

static int run_alone(const char *word, const char *path, const char *text, size_t size,
                     size_t line) {
    static Compiler compiler; /* static: its value is needed after longjmp */
    compiler = (Compiler){0};
    arena_open(&compiler.arena, &compiler);
    int status = 1;
    if (setjmp(compiler.unwind) == 0)
        status = text ? run(&compiler, word, path, text, size, line) : built(&compiler);
    else
        fprintf(stderr, "nest_tool: %s\n", compiler.failure_message);
    arena_close(&compiler.arena);
    return status;
}

static int run_each(const char *word, const char *path, const char *text) {
    int status = *text ? 0 : run_alone(word, path, text, 0, 0);
    size_t line = 0;
    for (const char *begin = text, *end; *begin; begin = end) {
        const size_t before = line;
        bool found = false;
        for (end = begin; *end && !(found && strncmp(end, "nest ", 5) == 0); line++) {
            found = found || strncmp(end, "nest ", 5) == 0;
            end += strcspn(end, "\n");
            end += *end == '\n';
        }
        status |= run_alone(word, path, begin, (size_t)(end - begin), before);
    }
    return status;
}

int main(int count, char **words) {
    char *text = count >= 3 ? read_file(words[2]) : NULL;
    int status = 2;
    if (text && count == 3 && (strcmp(words[1], "print") == 0 || strcmp(words[1], "check") == 0))
        status = run_each(words[1], words[2], text);
    else if (text && count == 5 && strcmp(words[1], "mutate") == 0)
        status = mutate(words[2], text, strtoull(words[3], NULL, 10), atoi(words[4]));
    else if (count == 2 && strcmp(words[1], "built") == 0)
        status = run_alone(words[1], NULL, NULL, 0, 0);
    else if (text && count > 3 && strcmp(words[1], "pass") == 0) {
        passes = words + 3;
        pass_count = count - 3;
        status = run_each(words[1], words[2], text);
    } else
        fputs("nest_tool print FILE | check FILE | mutate FILE SEED COUNT | built\n", stderr);
    free(text);
    return status;
}
