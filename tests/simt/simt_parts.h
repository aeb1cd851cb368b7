/* simt_parts.h: between compile.c, compiled.c and launch.c. */
#ifndef SIMT_PARTS_H
#define SIMT_PARTS_H

#include "machine.h"
#include "simt.h"

struct SimtModule {
    void *library;
    SimtMachine *machine;
    struct AmdModule *amd; /* of SIMT_AMD, and then nothing else */
};

/* The entry point of a kernel: call(arguments). NULL when the module has none of that name. */
typedef void (*SimtEntry)(const void *arguments);
SimtEntry simt_entry(const SimtModule *module, const char *kernel);
/* The most threads that a block of the kernel may have, by its __launch_bounds__. */
uint32_t simt_bound(const SimtModule *module, const char *kernel);

/* compiled.c: what the command line made of the text before, at the library's path; false: it is
 * not there. And keeps what it made now. */
bool compiled_load(const char *text, char *const *words, const char *library);
void compiled_store(const char *text, char *const *words, const char *library);

#endif
