/* stand_in_tool.c: a profiler that is none: what it is told of ranges goes to the file RANGES_FILE.
 * It is the library that NVTX 3 injects, and ROCm's of ranges. TOOL_REFUSES makes the first say no.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvtx.h"

static int depth;

static void say(const char *what, const char *name) {
    const char *path = getenv("RANGES_FILE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%d %s %s\n", depth, what, name);
    fclose(file);
}

static int push(const char *name) {
    say("push", name);
    return depth++;
}

static int pop(void) {
    depth--;
    say("pop", "");
    return depth;
}

static void put(NvtxFunction ***table, int number, const void *address) {
    memcpy(table[number], address, sizeof(NvtxFunction *));
}

NvtxInitialise InitializeInjectionNvtx2;
int InitializeInjectionNvtx2(const void *(*table)(uint32_t number)) {
    int (*own_push)(const char *) = push, (*own_pop)(void) = pop;
    const NvtxCallbacks *callbacks = table(NVTX_TABLE_CALLBACKS);
    const NvtxVersion *version = table(NVTX_TABLE_VERSION);
    NvtxFunction ***functions = NULL;
    unsigned count = 0;
    if (getenv("TOOL_REFUSES") || table(99) || callbacks->size < sizeof *callbacks) return 0;
    version->set(3);
    if (callbacks->module(2, &functions, &count)) return 0; /* CUDA's names: none here */
    if (!callbacks->module(NVTX_MODULE_CORE2, &functions, &count) || count != NVTX_FUNCTIONS)
        return 0;
    if (!callbacks->module(NVTX_MODULE_CORE, &functions, &count) || count != NVTX_FUNCTIONS)
        return 0;
    for (unsigned i = 0; i < count; i++) /* a place for each of its functions, which begin at 1 */
        if ((i == 0) != !functions[i]) return 0;
    put(functions, NVTX_RANGE_PUSH, &own_push);
    put(functions, NVTX_RANGE_POP, &own_pop);
    say("nvtx", "");
    return 1;
}

int roctxRangePushA(const char *name), roctxRangePop(void);
int roctxRangePushA(const char *name) {
    return push(name);
}
int roctxRangePop(void) {
    return pop();
}
