/* emulated_test.c: the emulated vendor library by itself: memory, launches, a replayed graph, and
 * what it must notice: a kernel that leaves its memory, foreign code, memory freed twice. */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime.h"
#include "gpu.h"

static GpuCalls gpu;
static unsigned long checks_passed, checks_failed;
static void check(bool passed, const char *what) {
    if (passed)
        checks_passed++;
    else if (++checks_failed)
        printf("failed: %s\n", what);
}

/* Adds 1 to `count` words; with `past` also to what lies that many words behind them. */
static const char text[] = "// emulated\n"
                           "#define LS_KERNEL extern \"C\" __global__ void\n"
                           "struct Arguments { unsigned *words; long long count, past; };\n"
                           "LS_KERNEL increment(const Arguments a) {\n"
                           "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "    if (i < a.count) a.words[i] += 1;\n"
                           "    if (i == 0 && a.past) a.words[a.count + a.past] += 1;\n"
                           "}\n";

typedef struct Arguments {
    void *words;
    long long count, past;
} Arguments;

static bool load_calls(void) {
    void *library = dlopen(EMULATED_CUDA_PATH, RTLD_NOW);
    if (!library) return false;
#define FIND(verb, name)                           \
    do {                                           \
        void *symbol = dlsym(library, name);       \
        if (!symbol) return false;                 \
        memcpy(&gpu.verb, &symbol, sizeof symbol); \
    } while (0);
#define BOTH(result, verb, cuda, hip, parameters, arguments) FIND(verb, #cuda)
#define CUDA(result, verb, cuda, parameters, arguments) FIND(verb, #cuda)
#define HIP(result, verb, hip, parameters, arguments)
#include "gpu.def"
    return true;
}

static int launch(void *function, void *stream, Arguments arguments) {
    void *parameters[] = {&arguments};
    return gpu.launch(function, 2, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static void test_work(void *function, void *stream) {
    enum { COUNT = 40 };
    unsigned words[COUNT], *device = NULL;
    void *graph = NULL, *executable = NULL, *memory = NULL;
    check(gpu.memory_allocate(&memory, sizeof words) == 0, "allocation");
    device = memory;
    check(device[0] != 0, "new memory is clean");
    check(gpu.fill_32(memory, 5, COUNT, stream) == 0, "fill");
    check(launch(function, stream, (Arguments){memory, COUNT, 0}) == 0, "launch");
    check(gpu.capture_begin(stream, GPU_CAPTURE_RELAXED) == 0, "capture");
    check(launch(function, stream, (Arguments){memory, COUNT, 0}) == 0, "captured launch");
    check(gpu.capture_end(stream, &graph) == 0, "end of capture");
    check(gpu.graph_instantiate(&executable, graph, 0) == 0, "graph");
    check(gpu.stream_synchronize(stream) == 0, "synchronise");
    check(device[0] == 6, "a captured launch has run");
    for (int i = 0; i < 3; i++) check(gpu.graph_launch(executable, stream) == 0, "replay");
    check(gpu.copy_out(words, memory, sizeof words, stream) == 0, "copy");
    check(words[0] == 0xdbdbdbdb, "a copy is done before anybody waits");
    check(gpu.stream_synchronize(stream) == 0, "synchronise");
    for (int i = 0; i < COUNT; i++) check(words[i] == 9, "the words after four launches");
    check(gpu.graph_release(executable) == 0 && gpu.graph_destroy(graph) == 0,
          "release of a graph");
    check(gpu.memory_free(memory) == 0, "free");
    check(gpu.memory_free(memory) != 0, "memory freed twice");
}

/* In a child, since it may die: a store `past` words behind an array of `count`, which is done,
 * refused, or the end of the process. */
enum { DONE, REFUSED, DIES };
static void test_access(void *function, void *stream, long long count, long long past, int what) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        void *memory = NULL;
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        if (gpu.memory_allocate(&memory, (size_t)count * 4)) _exit(2);
        if (launch(function, stream, (Arguments){memory, count, past})) _exit(2);
        _exit(gpu.stream_synchronize(stream) ? 1 : 0);
    }
    int status = 0;
    check(child > 0 && waitpid(child, &status, 0) == child, "a child process");
    if (what == DIES)
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a store behind an array");
    else
        check(WIFEXITED(status) && WEXITSTATUS(status) == what,
              what ? "a store ahead of an array" : "a store within an array");
}

int main(void) {
    void *stream = NULL, *module = NULL, *function = NULL;
    if (!load_calls()) {
        printf("cannot load " EMULATED_CUDA_PATH ": %s\n", dlerror());
        return 1;
    }
    check(gpu.stream_create(&stream, 0) == 0, "stream");
    check(gpu.module_load(&module, text) == 0, "module");
    if (module && gpu.module_function(&function, module, "increment") == 0) {
        test_work(function, stream);
        test_access(function, stream, 64, 0, DONE);
        test_access(function, stream, 64, 1, DIES);
        test_access(function, stream, 64, 1000, DIES);
        test_access(function, stream, 64, -65, REFUSED);
    } else {
        check(false, "kernel");
    }
    check(freopen("/dev/null", "w", stderr) != NULL, "stderr");
    check(gpu.module_function(&function, module, "absent") != 0, "a kernel that is not there");
    check(gpu.module_unload(module) == 0, "release of a module");
    check(gpu.module_load(&module, "\177ELF") != 0, "foreign code");
    check(gpu.stream_destroy(stream) == 0, "release of a stream");
    printf("%lu passed, %lu failed\n", checks_passed, checks_failed);
    return checks_failed != 0;
}
