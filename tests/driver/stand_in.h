/* stand_in.h: a driver library that is none: what tests see of it.
 *
 * stand_in.c builds as a shared library with the symbols of libcuda or libamdhip64. Device memory
 * is host memory, every object is counted, and any call can be made to fail. It shows that
 * driver_gpu.c calls what it should, checks what it calls and gives back what it took, and nothing
 * about GPUs. */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime.h"
#include "gpu.h"

/* What is made and must be given back. A new kind of thing is a row: every test balances it. */
#define STAND_IN_OBJECTS(X) \
    X(contexts)             \
    X(streams)              \
    X(allocations)          \
    X(pinned)               \
    X(modules)              \
    X(events)               \
    X(recordings)           \
    X(graphs)

typedef struct StandIn {
    /* What the test sets. */
    long fail_at;      /* the call, counted from 1, that fails; 0: none */
    int fail_with;     /* the error it gives */
    GpuVerb fail_verb; /* this call fails, always; 0: none */
    int fail_for_good; /* the error that every call gives from now on; 0: none */
    int version, devices;
    size_t memory;             /* bytes that can be allocated in all */
    int cooperative, together; /* whether blocks can wait, and how many a multiprocessor holds */
    int integrated, pageable;  /* the device reads page-locked memory, and all of the host's */
    int refuses_together;      /* the error that cooperative launches give; 0: none */
    int unrecorded;            /* cooperative launches run at once where a stream is captured */
    int capability;            /* of a CUDA device: 90 */
    int pinned_fails;          /* there is no page-locked memory */
    int unready;               /* no event is done when somebody asks */
    int timeless;              /* no time passes between events */
    uint64_t seed;             /* when queued work runs: see late.h */
    int updates;               /* whether what was instantiated takes new parameters */
    void (*hook)(const char *kernel, const uint64_t *words, unsigned grid, unsigned block);
    /* What it saw. */
    long calls;
    GpuVerb failed; /* the call that failed */
    const char *failed_name;
    unsigned char called[VERB_COUNT];
#define X(objects) long objects; /* alive */
    STAND_IN_OBJECTS(X)
#undef X
    size_t allocated; /* bytes of `allocations` */
    long strays;      /* things given up while their device was not current */
    long launches, launches_together, graph_launches, copies_in;
    long node_sets, instantiations;
    int capture_mode;
    long forbidden; /* calls that ended a capture whose mode does not allow them */
    unsigned stream_flags;
    long untimed;                                                /* events made without times */
    long copies_beside, copies_within, stream_waits, host_waits; /* beside: on streams for copies */
    long faults;                                                 /* of ours, that late.c saw */
} StandIn;

/* Code that says itself what its kernels do. Any other code begins with "stand-in code", and its
 * kernels are the hook's. */
#define STAND_IN_CODE "stand-in code that runs"
typedef struct StandInCode StandInCode;
struct StandInCode {
    char magic[sizeof STAND_IN_CODE];
    size_t words; /* of an argument block */
    void (*run)(const StandInCode *code, const char *kernel, const uint64_t *words);
    const ls_image *image; /* for `run` */
    const ls_image_variant *variant;
};

/* The exported functions besides the driver's own: its state; and the end of all that is queued,
 * which runs, or is forgotten. */
typedef StandIn *StandInFunction(void);
typedef void StandInFinish(bool run);

/* Contexts of CUDA are characters of an array: the primary ones of so many devices, then for each a
 * context that only a test makes current. */
enum { STAND_IN_DEVICES = 8 };
enum { STAND_IN_ERROR = 999 }; /* named STAND_IN_FAILED */

/* Calls that give something up do so even when they report an error, as drivers do, and nobody can
 * do anything about it. */
static inline bool stand_in_gives_up(GpuVerb verb) {
    switch (verb) {
    case VERB_context_release:
    case VERB_stream_destroy:
    case VERB_memory_free:
    case VERB_pinned_free:
    case VERB_module_unload:
    case VERB_capture_mode:
    case VERB_event_destroy:
    case VERB_graph_release:
    case VERB_graph_destroy: return true;
    default: return false;
    }
}

#endif
