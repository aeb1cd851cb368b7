/* nest_tool.h: the files of nest_tool. */
#ifndef NEST_TOOL_H
#define NEST_TOOL_H

/* mutate.c: reads `count` broken versions of each nest and checks those that can be read. Gives the
 * exit status: 1 where the compiler's own invariants broke, or what was read did not print and read
 * back as it was. */
int mutate(const char *path, const char *text, uint64_t seed, int count);

/* built.c: builds a nest, prints and checks it; then breaks it, which is a bug() to the checker. */
int built(Compiler *compiler);

/* passes.c: runs the nest, passes on it, and after each the nest again on the same data. Prints
 * what came out of the last and gives the exit status: 1 where a pass refused, broke a rule or a
 * bit. */
int run_passes(Nest *nest, char **words, int count);

#endif
