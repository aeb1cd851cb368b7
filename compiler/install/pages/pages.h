/* pages.h: what the files of the tool `pages` share. Include files.h and command.h first. */
#ifndef PAGES_H
#define PAGES_H

#include <stdio.h>

/* What stands in the place of @name@; `command` is the page's, NULL in those of the whole. */
typedef struct Substitution {
    const char *name;
    void (*fill)(FILE *out, const Command *command);
} Substitution;

/* Both end with a substitution without a name. */
extern const Substitution man_substitutions[];   /* pages_man.c */
extern const Substitution shell_substitutions[]; /* pages_shells.c */

/* pages_library.c: the standard library's files, "std/optim", and their steps, "std/optim:adamw",
 * with `between` them. */
void library_print(FILE *out, bool steps, const char *between);

#endif
