/* emulated_compiler.h: what emulated_code.c gives the driver that loads the code of
 * emulated_compiler.c. */
#ifndef EMULATED_COMPILER_H
#define EMULATED_COMPILER_H

#include <stdbool.h>
#include <stddef.h>

#include "simt.h"

/* What the source, given back as the code, begins with. */
#define EMULATED_MAGIC "// emulated\n"

/* Whether the text is code of this compiler. */
bool emulated_code_is(const char *text);
/* Compiles such code for the host; NULL after a failure, with the reason in `message`. Loads of one
 * text may share what comes; emulated_code_close takes each of them, and NULL. */
SimtModule *emulated_code_open(const char *text, char *message, size_t size);
void emulated_code_close(SimtModule *compiled);

#endif
