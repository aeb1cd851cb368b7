/* ranges.c: a range around each launch for a profiler, named "adamw.step:12 adamw".
 *
 * Profilers attach to a process, once, before it does anything: so this is looked for once in a
 * process, and what is found is the one thing here that outlives every context. NVTX 3 has no
 * library: the profiler's own is loaded from NVTX_INJECTION64_PATH and writes the addresses of its
 * functions into tables we show it. Without a profiler, and without LOCKSTEP_RANGES, nothing is
 * loaded and launches do not come here. */
#include "runtime.h"
#include "nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- NVTX 3 ---- */

static NvtxFunction *nvtx_core[NVTX_FUNCTIONS], *nvtx_core2[NVTX_FUNCTIONS];
static NvtxFunction **nvtx_tables[2][NVTX_FUNCTIONS + 1];

static int nvtx_module(int module, NvtxFunction ****table, unsigned *count) {
    if (module != NVTX_MODULE_CORE && module != NVTX_MODULE_CORE2) return 0;
    NvtxFunction ***rows = nvtx_tables[module == NVTX_MODULE_CORE2];
    for (size_t i = 1; i < NVTX_FUNCTIONS; i++)
        rows[i] = module == NVTX_MODULE_CORE ? &nvtx_core[i] : &nvtx_core2[i];
    if (table) *table = rows;
    if (count) *count = NVTX_FUNCTIONS;
    return 1;
}

static void nvtx_set_version(uint32_t version) {
    (void)version;
}

static const void *nvtx_table(uint32_t number) {
    static const NvtxCallbacks callbacks = {sizeof callbacks, nvtx_module};
    static const NvtxVersion version = {sizeof version, NVTX_OUR_VERSION, 0, nvtx_set_version};
    if (number == NVTX_TABLE_CALLBACKS) return &callbacks;
    return number == NVTX_TABLE_VERSION ? &version : NULL;
}

static bool open_injection(Ranges *ranges) {
    const char *path = host_environment_foreign("NVTX_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    void *address = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    NvtxInitialise *initialise;
    if (!address) return false;
    memcpy(&initialise, &address, sizeof address);
    if (!initialise(nvtx_table)) return false;
    memcpy(&ranges->push, &nvtx_core[NVTX_RANGE_PUSH], sizeof ranges->push);
    memcpy(&ranges->pop, &nvtx_core[NVTX_RANGE_POP], sizeof ranges->pop);
    ranges->library = "NVTX_INJECTION64_PATH";
    return ranges->push && ranges->pop;
}

/* ---- libraries with the functions under their names ---- */

static const struct {
    const char *kind, *library, *push, *pop;
} libraries[] = {
    {"nvtx", "libnvToolsExt.so.1", "nvtxRangePushA", "nvtxRangePop"},
    {"roctx", "librocprofiler-sdk-roctx.so.1", "roctxRangePushA", "roctxRangePop"},
    {"roctx", "librocprofiler-sdk-roctx.so.0", "roctxRangePushA", "roctxRangePop"},
    {"roctx", "libroctx64.so.4", "roctxRangePushA", "roctxRangePop"},
    {"roctx", "libroctx64.so", "roctxRangePushA", "roctxRangePop"},
};

static bool open_library(const char *kind, Ranges *ranges) {
    for (size_t i = 0; i < COUNT(libraries); i++) {
        if (kind && strcmp(kind, libraries[i].kind) != 0) continue;
        void *library = dlopen(libraries[i].library, RTLD_LAZY | RTLD_LOCAL);
        if (!library) continue;
        void *push = dlsym(library, libraries[i].push), *pop = dlsym(library, libraries[i].pop);
        if (push && pop) {
            memcpy(&ranges->push, &push, sizeof push);
            memcpy(&ranges->pop, &pop, sizeof pop);
            ranges->library = libraries[i].library;
            return true;
        }
        dlclose(library);
    }
    return false;
}

/* ---- which ---- */

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static Ranges found;
static bool usable;

static bool is_set(const char *variable) {
    const char *value = host_environment_foreign(variable);
    return value && *value;
}

static void look(void) {
    static const char *const attached[] = {"HSA_TOOLS_LIB", "ROCP_TOOL_LIB", "ROCP_TOOL_LIBRARIES"};
    const char *wish = host_environment(VARIABLE_LOCKSTEP_RANGES);
    bool asked = wish && *wish, roc = false;
    if (asked && strcmp(wish, "off") == 0) return;
    for (size_t i = 0; i < COUNT(attached); i++) roc |= is_set(attached[i]);
    if (asked && strcmp(wish, "nvtx") != 0 && strcmp(wish, "roctx") != 0 && strcmp(wish, "on") != 0)
        log_write(LOG_INFO, "LOCKSTEP_RANGES is `%.32s`; it takes on, off, nvtx or roctx", wish);
    const char *kind = asked && strcmp(wish, "on") != 0 ? wish : NULL;
    if (!kind || strcmp(kind, "nvtx") == 0) usable = open_injection(&found);
    if (!usable && asked) usable = open_library(kind, &found);
    if (!usable && roc) usable = open_library("roctx", &found);
    if (usable)
        log_write(LOG_INFO, "ranges go to %s", found.library);
    else if (asked)
        log_write(LOG_INFO,
                  "no ranges, though LOCKSTEP_RANGES asks for them: neither NVTX_INJECTION64_PATH "
                  "nor libnvToolsExt.so.1 nor libroctx64.so could be loaded");
}

const Ranges *ranges_find(void) {
    pthread_once(&looked, look);
    return usable ? &found : NULL;
}

char *ranges_name(const ls_image *image) {
    if (!ranges_find()) return NULL;
    const char *path = image->source_file ? image->source_file : "";
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const size_t size = strlen(file) + strlen(image->step) + 16;
    char *name = malloc(size);
    if (name && *file)
        snprintf(name, size, "%s:%u %s", file, image->line, image->step);
    else if (name)
        snprintf(name, size, "%s", image->step);
    return name;
}
