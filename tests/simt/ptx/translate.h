/* translate.h: PTX as C++ for the emulator, on top of instructions.h: what NVRTC made of a text is
 * run, not the text. Registers are local variables of their bits, labels and branches are the
 * language's, every instruction is a call of the function that has its name. */
#ifndef PTX_TRANSLATE_H
#define PTX_TRANSLATE_H

#include <stdbool.h>
#include <stdio.h>

/* False when the text has what is not known, with it and its line in `message`. An instruction
 * that instructions.h does not have is found by the C++ compiler. */
bool ptx_translate(const char *text, FILE *out, char *message, size_t message_size);

#endif
