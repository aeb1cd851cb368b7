/* machine.h: what a kernel compiled for the emulator (device.h) and the emulator (launch.c) share.
 * The kernel's library holds the one SimtMachine; launch.c finds it by name and fills it. */
#ifndef MACHINE_H
#define MACHINE_H

/* How far an atomic or a fence reaches: the numbers of HIP's __HIP_MEMORY_SCOPE_*. Orders are the
 * compiler's __ATOMIC_*. */
enum { SIMT_THREAD = 1, SIMT_WAVE, SIMT_BLOCK, SIMT_DEVICE, SIMT_SYSTEM };

typedef struct SimtIndex {
    unsigned x, y, z;
} SimtIndex;

typedef struct SimtMachine {
    SimtIndex thread, block; /* of the thread that runs: set at every turn */
    SimtIndex threads, blocks;
    unsigned wave;
    /* Waits of the running thread. `place` is where it waits: all who meet must wait at one place.
     */
    void (*barrier)(const void *place);
    void (*group_sync)(const void *place);
    void (*pause)(
        const void *place); /* lets others run: it looks for what one of them will write */
    /* The same where the wait orders no memory: fences around it must, that reach so far. */
    void (*bare_wait)(const void *place, int scope);
    /* Leaves `value` to the group and takes what lane `lane` of the group left. */
    unsigned long long (*exchange)(unsigned long long value, unsigned lane, const void *place);
    void (*fail)(const char *why); /* does not return */
    /* What the running thread does to memory that others see too, before it does it. */
    void (*access)(const void *address, unsigned long bytes, int writes);
    /* A volatile read: of a counter an atomic look, of anything else a read like others. */
    void (*look)(const void *address, unsigned long bytes);
    void (*atomic)(const void *counter, unsigned long bytes, int adds, int order, int scope);
    void (*fence)(int order, int scope);
    unsigned char *shared_begin, *shared_end; /* all shared memory of the text */
    int watched;                              /* 1: `access` is called, as clang can */
    /* 1: a fence waits for the stores of its own wave, and for no other's that a barrier of the
     * block has ordered before it: see ls_barrier_release. */
    int fences_alone;
} SimtMachine;

#endif
