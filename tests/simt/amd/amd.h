/* amd.h: AMD's machine code, run: see wave.h for how. */
#ifndef AMD_H
#define AMD_H

#include <stdbool.h>
#include <stddef.h>

#include "simt.h"

typedef struct AmdModule AmdModule;

/* object.c: of a code object, or of a listing alone ("; listing gfx942" its first line), whose only
 * kernel is `text`. NULL with the reason in `message`. */
AmdModule *amd_open(const void *code, size_t size, char *message, size_t message_size);
void amd_close(AmdModule *module);
/* The bytes of a kernel's argument structure; 0: there is no such kernel. */
size_t amd_argument_size(const AmdModule *module, const char *kernel);
/* The bytes of a code object in memory; 0: it is none. */
size_t amd_object_size(const void *code);
/* Whether a compiler and a disassembler are here. */
bool amd_has_tools(char *reason, size_t size);

/* run.c */
bool amd_launch(AmdModule *module, const SimtLaunch *launch, char *message, size_t size);

#endif
