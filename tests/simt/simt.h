/* simt.h: a small GPU in software. It compiles generated CUDA or HIP source for the host, as it is,
 * or what NVRTC made of it (PTX, see ptx/), and runs a kernel thread by thread, so that its results
 * can be compared with the CPU's bit for bit. AMD's machine code it runs wave by wave (amd/).
 *
 * Every thread of a block is a fiber that runs until it waits. Blocks, groups and lanes take turns
 * in an order that follows from the seed, and shared memory starts as rubbish, so what only works
 * by luck of scheduling fails for some seed. Blocks run one after another, those of a cooperative
 * launch side by side. A thread that waits for one that will never come ends the launch with a
 * message. One launch at a time in a process. */
#ifndef SIMT_H
#define SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SimtDialect { SIMT_CUDA, SIMT_HIP, SIMT_PTX, SIMT_AMD } SimtDialect;

typedef struct SimtModule SimtModule;

/* Compiles the text; `kernels` are the names of its entry points, each taking one structure by
 * value (PTX and code objects for AMD say themselves which they are). NULL after a failure, with
 * the reason in `message`. */
SimtModule *simt_open(const char *source, size_t size, SimtDialect dialect,
                      const char *const *kernels, size_t kernel_count, char *message,
                      size_t message_size);
void simt_close(SimtModule *module);
/* The bytes of a kernel's argument structure; 0 when the module has no such kernel. */
size_t simt_argument_size(const SimtModule *module, const char *kernel);

/* Whether a thread sees what another has stored at once, or not before something orders the two
 * (weak.h); SIMT_ONLY_WEAK: and accesses that nothing orders are not refused, so that the bits of
 * the result tell. For text that is watched (SIMT_WATCH). */
typedef enum SimtMemory { SIMT_AT_ONCE, SIMT_WEAK, SIMT_ONLY_WEAK } SimtMemory;

typedef struct SimtLaunch {
    const char *kernel;
    const void *arguments;    /* the argument structure: 8-byte words */
    uint32_t blocks, threads; /* of the grid, of a block */
    uint32_t wave;            /* 32, or 64 for HIP */
    uint64_t seed;            /* of the order of turns and of the rubbish in shared memory */
    /* NULL, or says what is wrong with an access to device memory, or NULL */
    const char *(*touch)(const void *address, size_t bytes, bool writes);
    bool cooperative; /* all blocks take turns */
    SimtMemory memory;
    struct Explorer *explorer; /* of simt_explore; else NULL */
} SimtLaunch;

/* False when the kernel cannot go on, with the reason in `message`. */
bool simt_launch(SimtModule *module, const SimtLaunch *launch, char *message, size_t message_size);

/* Every run of a launch: all orders in which threads touch device memory, and with weak memory all
 * that each read may see. A part that leads to where another has been is left out: the state of a
 * run is what each thread has read, where it is, and all that has been stored. */
typedef struct SimtTrial {
    void (*begin)(void *data);          /* memory as it is ahead of the launch */
    bool (*is_right)(const void *data); /* what a run has left there */
    void *data;
    uint64_t states_max; /* more of them are a failure */
} SimtTrial;
typedef struct SimtExplored {
    uint64_t states, runs, finished; /* runs: launches; finished: those that met no earlier state */
} SimtExplored;
/* False when one of them goes wrong, with the reason in `message`, or where that is not known:
 * there are too many states, or no memory for them; or it is no watched text, or memory is not
 * weak. */
bool simt_explore(SimtModule *module, const SimtLaunch *launch, const SimtTrial *trial,
                  SimtExplored *explored, char *message, size_t message_size);

/* Open, launch, close. */
bool simt_run(const char *source, size_t size, SimtDialect dialect, const SimtLaunch *launch,
              char *message, size_t message_size);

#endif
