/* compile.c: generated text to a library in this process, through the host's C++ compiler. */
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/amd.h"
#include "ptx/translate.h"
#include "simt_parts.h"

extern char **environ;

enum { PATH_SIZE = 512 };

/* clang first: it keeps every wait of the text a single place in the code. */
static const char *const compilers[] = {"clang", "g++", "c++"};

/* What stands between a kernel's qualifiers and its name: LS_THREADS(256), or nothing. Its bounds
 * are read off by the dialect's own macros, given another __launch_bounds__. */
static void write_bound(FILE *file, const char *source, size_t size, const char *kernel) {
    static const char opening[] = "LS_KERNEL ";
    const char *end = source + size, *from = NULL, *to = NULL;
    char call[PATH_SIZE];
    snprintf(call, sizeof call, "%s(", kernel);
    for (const char *at = source;
         (at = memmem(at, (size_t)(end - at), call, strlen(call))) != NULL && !from; at++) {
        if (at == source || (at[-1] != ' ' && at[-1] != '\n')) continue;
        for (to = at, from = at; from > source && from[-1] != '\n' && from[-1] != ';';) from--;
        if (from == at && from > source) /* the name has a line of its own */
            for (from--; from > source && from[-1] != '\n';) from--;
        if (strncmp(from, opening, sizeof opening - 1) != 0) from = NULL;
    }
    fprintf(file, "extern \"C\" const unsigned simt_bound_%s = 0", kernel);
    if (from) {
        from += sizeof opening - 1;
        fprintf(file, " + 0 %.*s", (int)(to - from), from);
    }
    fprintf(file, ";\n");
}

static bool is_watched(void) {
    const char *watch = getenv("SIMT_WATCH");
    return !(watch && strcmp(watch, "off") == 0);
}

static bool write_ptx(const char *path, const char *text, char *message, size_t message_size) {
    FILE *file = fopen(path, "w");
    if (!file) {
        snprintf(message, message_size, "cannot write %s", path);
        return false;
    }
    fprintf(file,
            "#define SIMT_PTX 1\n#define SIMT_PTX_WATCHED %d\n#include \"%s/device.h\"\n"
            "#include \"%s/ptx/instructions.h\"\n#line 1 \"ptx\"\n",
            is_watched(), SIMT_FOLDER, SIMT_FOLDER);
    bool good = ptx_translate(text, file, message, message_size);
    if (fclose(file) == 0 || !good) return good;
    snprintf(message, message_size, "cannot write %s", path);
    return false;
}

static bool write_text(const char *path, const char *source, size_t size, SimtDialect dialect,
                       const char *const *kernels, size_t kernel_count) {
    FILE *file = fopen(path, "w");
    if (!file) return false;
    fprintf(file, "#define %s 1\n#include \"%s/device.h\"\n#line 1 \"kernel\"\n",
            dialect == SIMT_CUDA ? "SIMT_CUDA" : "SIMT_HIP", SIMT_FOLDER);
    fwrite(source, 1, size, file);
    fputc('\n', file);
    for (size_t i = 0; i < kernel_count; i++)
        fprintf(
            file,
            "extern \"C\" void simt_enter_%s(const void *arguments) { simt_call(%s, arguments); }\n"
            "extern \"C\" const unsigned long simt_size_%s = simt_size(%s);\n",
            kernels[i], kernels[i], kernels[i], kernels[i]);
    fputs("#undef __launch_bounds__\n#define __launch_bounds__(threads, ...) +threads\n", file);
    for (size_t i = 0; i < kernel_count; i++) write_bound(file, source, size, kernels[i]);
    bool good = !ferror(file);
    return fclose(file) == 0 && good;
}

/* For most kernels compiling takes longer than running, so nothing is optimised but what LS_FN
 * inlines, unless SIMT_OPTIMISE is on.
 * Runs one compiler: 0 and the library, its exit status, or -1 when there is no such compiler. */
static int run_compiler(const char *compiler, const char *text, const char *library,
                        const char *log, SimtDialect dialect) {
    const char *variable = getenv("SIMT_OPTIMISE");
    const bool ptx = dialect == SIMT_PTX; /* its small functions are the instructions */
    const bool optimises = ptx || (variable && strcmp(variable, "on") == 0);
    /* others would link their own watcher; of PTX the instructions watch */
    const bool watches = strcmp(compiler, "clang") == 0 && is_watched() && !ptx;
    char *const words[] = {(char *)compiler,
                           "-x",
                           "c++",
                           "-std=c++17",
                           optimises ? "-O1" : "-O0",
                           "-march=native",
                           "-ffp-contract=off",
                           "-fno-math-errno",
                           "-fno-trapping-math",
                           "-fno-strict-aliasing",
                           "-fno-exceptions",
                           "-fno-rtti",
                           "-fno-threadsafe-statics",
                           "-fstack-clash-protection", /* a full stack ends at its guard */
                           "-w",
                           "-fPIC",
                           "-shared",
                           "-o",
                           (char *)library,
                           (char *)text,
                           watches ? "-fsanitize=thread" : NULL,
                           "-mllvm",
                           "-tsan-distinguish-volatile=1",
                           "-mllvm",
                           "-tsan-instrument-read-before-write=1",
                           "-mllvm",
                           "-tsan-instrument-func-entry-exit=0",
                           NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (compiled_load(text, words, library)) return 0;
    if (posix_spawn_file_actions_init(&actions) != 0) return -1;
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawnp(&child, compiler, &actions, NULL, words, environ) == 0 &&
        waitpid(child, &status, 0) == child)
        status = WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
    posix_spawn_file_actions_destroy(&actions);
    if (status == 0) compiled_store(text, words, library);
    return status;
}

static void read_log(const char *path, char *message, size_t message_size) {
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(message, 1, message_size - 1, file) : 0;
    message[size] = 0;
    if (file) fclose(file);
}

static bool compile(const char *text, const char *library, const char *log, SimtDialect dialect,
                    char *message, size_t message_size) {
    for (size_t i = 0; i < sizeof compilers / sizeof compilers[0]; i++) {
        int status = run_compiler(compilers[i], text, library, log, dialect);
        if (status == 0) return true;
        if (status < 0) continue;
        read_log(log, message, message_size);
        return false;
    }
    snprintf(message, message_size, "the emulator needs a C++ compiler: clang or g++");
    return false;
}

static SimtModule *load(const char *path, char *message, size_t message_size) {
    SimtModule *module = calloc(1, sizeof *module);
    if (!module) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    module->machine = module->library ? dlsym(module->library, "simt_machine") : NULL;
    if (!module->machine) {
        const char *reason = dlerror();
        snprintf(message, message_size, "cannot load the compiled text: %s", reason ? reason : "");
        simt_close(module);
        return NULL;
    }
    return module;
}

static SimtModule *open_amd(const void *code, size_t size, char *message, size_t message_size) {
    SimtModule *module = calloc(1, sizeof *module);
    if (!module) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    module->amd = amd_open(code, size, message, message_size);
    if (module->amd) return module;
    free(module);
    return NULL;
}

SimtModule *simt_open(const char *source, size_t size, SimtDialect dialect,
                      const char *const *kernels, size_t kernel_count, char *message,
                      size_t message_size) {
    const char *parent = getenv("TMPDIR");
    char folder[PATH_SIZE], text[PATH_SIZE + 16], library[PATH_SIZE + 16], log[PATH_SIZE + 16];
    SimtModule *module = NULL;
    if (dialect == SIMT_AMD) return open_amd(source, size, message, message_size);
    snprintf(folder, sizeof folder, "%s/simt-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder)) {
        snprintf(message, message_size, "cannot make a folder %s", folder);
        return NULL;
    }
    snprintf(text, sizeof text, "%s/kernel.cpp", folder);
    snprintf(library, sizeof library, "%s/kernel.so", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    bool written = dialect == SIMT_PTX
                       ? write_ptx(text, source, message, message_size)
                       : write_text(text, source, size, dialect, kernels, kernel_count);
    if (!written && dialect != SIMT_PTX) snprintf(message, message_size, "cannot write %s", text);
    if (written && compile(text, library, log, dialect, message, message_size))
        module = load(library, message, message_size);
    if (!getenv("SIMT_KEEP")) {
        unlink(text);
        unlink(library);
        unlink(log);
        rmdir(folder);
    }
    return module;
}

static void *find_symbol(const SimtModule *module, const char *prefix, const char *kernel) {
    char name[PATH_SIZE];
    snprintf(name, sizeof name, "%s%s", prefix, kernel);
    return dlsym(module->library, name);
}

size_t simt_argument_size(const SimtModule *module, const char *kernel) {
    if (module->amd) return amd_argument_size(module->amd, kernel);
    const unsigned long *size = find_symbol(module, "simt_size_", kernel);
    return size ? *size : 0;
}

uint32_t simt_bound(const SimtModule *module, const char *kernel) {
    enum { WITHOUT = 1024 };
    const unsigned *bound = find_symbol(module, "simt_bound_", kernel);
    return bound && *bound ? *bound : WITHOUT;
}

SimtEntry simt_entry(const SimtModule *module, const char *kernel) {
    SimtEntry entry = NULL;
    void *symbol = find_symbol(module, "simt_enter_", kernel);
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

void simt_close(SimtModule *module) {
    if (!module) return;
    if (module->library) dlclose(module->library);
    amd_close(module->amd);
    free(module);
}

bool simt_run(const char *source, size_t size, SimtDialect dialect, const SimtLaunch *launch,
              char *message, size_t message_size) {
    SimtModule *module =
        simt_open(source, size, dialect, &launch->kernel, 1, message, message_size);
    bool good = module && simt_launch(module, launch, message, message_size);
    simt_close(module);
    return good;
}
