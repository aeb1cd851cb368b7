/* simt_exec.c: the execution tests on emulated GPUs: exec_runner with the emulated vendor
 * libraries.
 *
 *   simt_exec --list                names of tests: PROGRAM@MACHINE
 *   simt_exec --list-all            names of every program on every machine
 *   simt_exec --only NAME [WORD]    runs one of them; on the first three and in weak memory of the
 *                                   same exec_runner is given the word, --suite or --together; on
 *                                   machine code --sample for --suite
 *
 * In the suite each program runs on one of the first three, in turn; the third has weak memory. On
 * PTX, which is what NVRTC makes of the text, and on machine code for AMD, which clang makes of it,
 * a sample does. tests/exec/all.py runs them all. Status 77, skipped, where there is no NVRTC, or
 * no clang or disassembler. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/amd.h"
#include "ptx/compiler.h"

enum { NAME_SIZE = 256 };

static const struct Machine {
    const char *name, *device, *driver, *compiler, *library, *architecture, *memory;
} machines[] = {
    {"emulated-cuda", "cuda", "LOCKSTEP_CUDA", "LOCKSTEP_NVRTC", EMULATED_CUDA_PATH, "", "off"},
    {"emulated-wave64", "hip", "LOCKSTEP_HIP", "LOCKSTEP_HIPRTC", EMULATED_HIP_PATH, "gfx90a",
     "off"},
    {"emulated-wave32", "hip", "LOCKSTEP_HIP", "LOCKSTEP_HIPRTC", EMULATED_HIP_PATH, "gfx1030",
     "on"},
    {"emulated-ptx", "cuda", "LOCKSTEP_CUDA", "LOCKSTEP_NVRTC", EMULATED_PTX_PATH, "", "off"},
    /* the compiler is the product's own */
    {"emulated-gfx942", "hip", "LOCKSTEP_HIP", NULL, EMULATED_AMD_PATH, "gfx942", "off"},
    {"emulated-gfx1151", "hip", "LOCKSTEP_HIP", NULL, EMULATED_AMD_PATH, "gfx1151", "off"},
    /* with weak memory: see weak.h */
    {"weak-cuda", "cuda", "LOCKSTEP_CUDA", "LOCKSTEP_NVRTC", EMULATED_CUDA_PATH, "", "on"},
    {"weak-wave64", "hip", "LOCKSTEP_HIP", "LOCKSTEP_HIPRTC", EMULATED_HIP_PATH, "gfx90a", "on"},
    {"weak-ptx", "cuda", "LOCKSTEP_CUDA", "LOCKSTEP_NVRTC", EMULATED_PTX_PATH, "", "on"},
    {"weak-gfx942", "hip", "LOCKSTEP_HIP", NULL, EMULATED_AMD_PATH, "gfx942", "on"},
    {"weak-gfx1151", "hip", "LOCKSTEP_HIP", NULL, EMULATED_AMD_PATH, "gfx1151", "on"},
};
enum {
    PTX = 3,
    GFX942,
    GFX1151,
    WEAK_CUDA,
    WEAK_PTX = WEAK_CUDA + 2,
    WEAK_GFX942,
    WEAK_GFX1151,
    MACHINES
};
_Static_assert(sizeof machines / sizeof machines[0] == MACHINES, "a machine lacks its number");

/* Of so many programs the one of this rest runs on it; 0: none. */
static const struct Sample {
    size_t every, rest;
} samples[MACHINES] = {
    {3, 0}, {3, 1}, {3, 2}, [PTX] = {16, 0}, [GFX942] = {24, 1}, [GFX1151] = {24, 21}};

/* Beside them: where clang-19 overwrites values without the option for LLVM 18 in options.def. */
static const char beside[] = "list_reductions"; /* on GFX1151 */

/* These run for longer than they compile; the others are faster as they are. */
static const char *const long_runs[] = {"prologue", "strips", "deep", "training-linreg"};

/* The thousand steps of the first are linreg's, and the million elements of the other those of
 * other trees, which are watched; these would take minutes. */
static bool is_unwatched(const char *program) {
    return strcmp(program, "training-linreg") == 0 || strcmp(program, "deep") == 0;
}

static bool runs_on(const char *program, size_t number, size_t machine, bool all) {
    const struct Sample *sample = &samples[machine];
    if (all)
        return machine < WEAK_CUDA || !is_unwatched(program); /* who is not sees no weak memory */
    return (sample->every && number % sample->every == sample->rest) ||
           (machine == GFX1151 && strcmp(program, beside) == 0);
}

static int list(bool all) {
    char name[NAME_SIZE];
    size_t number = 0;
    FILE *names = popen("'" EXEC_RUNNER "' --list", "r");
    if (!names) {
        perror("simt_exec: cannot run " EXEC_RUNNER);
        return 1;
    }
    while (fscanf(names, "%255s", name) == 1) {
        if (strchr(name, '@')) continue; /* compiles for a toolchain */
        for (size_t i = 0; i < MACHINES; i++)
            if (runs_on(name, number, i, all)) printf("%s@%s\n", name, machines[i].name);
        number++;
    }
    return pclose(names) != 0;
}

static bool is_ptx(size_t machine) {
    return machine == PTX || machine == WEAK_PTX;
}

/* Whether what compiles for the machine is here; or says why not. */
static bool can_compile(size_t machine) {
    char reason[256];
    const char *nvrtc = getenv("LOCKSTEP_NVRTC");
    if (is_ptx(machine)) {
        if (nvrtc) setenv("EMULATED_NVRTC", nvrtc, 1);
        if (!ptx_can_compile()) puts("left out: there is no NVRTC");
        return ptx_can_compile();
    }
    const bool amd = !machines[machine].compiler; /* the compiler is the product's own */
    if (!amd || amd_has_tools(reason, sizeof reason)) return true;
    printf("left out: %s\n", reason);
    return false;
}

static int run(const char *test, const char *word) {
    char name[NAME_SIZE];
    const char *at = strchr(test, '@');
    for (size_t i = 0; at && i < MACHINES; i++) {
        const struct Machine *machine = &machines[i];
        if (strcmp(at + 1, machine->name) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(at - test), test);
        if (!can_compile(i)) return 77; /* skipped */
        setenv(machine->driver, machine->library, 1);
        if (machine->compiler) setenv(machine->compiler, machine->library, 1);
        setenv("SIMT_ARCHITECTURE", machine->architecture, 1);
        setenv("SIMT_WEAK", machine->memory, 1);
        setenv("LOCKSTEP_CACHE", "off", 1);
        setenv("STAND_IN_BALANCE", "on", 1);
        if (is_unwatched(name)) setenv("SIMT_WATCH", "off", 1);
        for (size_t k = 0; k < sizeof long_runs / sizeof long_runs[0]; k++)
            if (strcmp(name, long_runs[k]) == 0) setenv("SIMT_OPTIMISE", "on", 1);
        const bool text = machine->compiler && !is_ptx(i); /* the machine's code */
        const char *sample = word && strcmp(word, "--suite") == 0 ? "--sample" : NULL;
        execl(EXEC_RUNNER, EXEC_RUNNER, "--device", machine->device, "--quick", "--only", name,
              text ? word : sample, (char *)NULL);
        perror("simt_exec: cannot run " EXEC_RUNNER);
        return 1;
    }
    fprintf(stderr, "simt_exec: no test %s\n", test);
    return 1;
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "--list") == 0) return list(false);
    if (count == 2 && strcmp(words[1], "--list-all") == 0) return list(true);
    if ((count == 3 || count == 4) && strcmp(words[1], "--only") == 0)
        return run(words[2], count == 4 ? words[3] : NULL);
    fputs("usage: simt_exec --list | --list-all | --only NAME [--suite | --together]\n", stderr);
    return 2;
}
