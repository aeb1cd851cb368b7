/* simt_parts.h: between compile.c and launch.c. */
#ifndef SIMT_PARTS_H
#define SIMT_PARTS_H

#include "machine.h"
#include "simt.h"

struct SimtModule {
    void *library;
    SimtMachine *machine;
};

/* The entry point of a kernel: call(arguments). NULL when the module has none of that name. */
typedef void (*SimtEntry)(const void *arguments);
SimtEntry simt_entry(const SimtModule *module, const char *kernel);

#endif
