/* emulated_compiler.h: what emulated_compiler.c gives the driver that loads its code. */
#ifndef EMULATED_COMPILER_H
#define EMULATED_COMPILER_H

#include <stdbool.h>
#include <stddef.h>

#include "simt.h"

/* Whether the text is code of this compiler. */
bool emulated_code_is(const char *text);
/* Compiles such code for the host; NULL after a failure, with the reason in `message`. Loads of one
 * text may share what comes; emulated_code_close takes each of them, and NULL. */
SimtModule *emulated_code_open(const char *text, char *message, size_t size);
void emulated_code_close(SimtModule *compiled);

#endif
