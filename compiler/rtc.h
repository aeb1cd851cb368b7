/* rtc.h: the runtime compilers behind one interface: source text and a target in, image bytes and a log
 * out. GPU toolchains run in a helper process (see rtc_process.c), so a crash or a hang of theirs is an
 * error here; the host compiler is a process of its own. */
#ifndef RTC_H
#define RTC_H

#include "compiler.h"

typedef enum RtcForm {
    RTC_IMAGE,   /* what the driver loads: cubin for sm_NN, PTX for compute_NN, code object for gfxNNN,
                    a shared object for cpu */
    RTC_ASSEMBLY /* for people and tests: PTX for CUDA, disassembly-like text for the others */
} RtcForm;

typedef struct RtcOutput {
    void *data; /* malloc'ed; rtc_output_free */
    size_t size;
    char *log;  /* malloc'ed, never NULL after a call; the toolchain's words, or why it could not run */
    double milliseconds; /* spent in the toolchain */
} RtcOutput;

/* One row per toolchain. `prefix` decides: "sm_" and "compute_" NVRTC, "gfx" hipRTC, "cpu" the host. */
typedef struct Rtc {
    const char *name; /* "nvrtc", "hiprtc", "host" */
    ls_status (*compile)(const char *source, size_t size, const char *label, const char *target,
                         RtcForm form, ls_math math, RtcOutput *output);
    /* Version text that becomes part of the cache key, or the reason it is missing (returns false). */
    bool (*describe)(char *text, size_t size);
} Rtc;
const Rtc *rtc_for_target(const char *target); /* NULL: no such target */
const Rtc *rtc_named(const char *name);
void rtc_output_free(RtcOutput *output);

/* Every target the product promises, NULL-terminated: the suite compiles every kernel for each. */
extern const char *const rtc_cuda_targets[];
extern const char *const rtc_hip_targets[];

/* What the toolchain made of a kernel, read from the image (ELF notes of a cubin, metadata of a code
 * object) or, for widest_access, from its text. -1 where unknown. */
typedef struct RtcKernelStats {
    int registers, spill_bytes, widest_access;
} RtcKernelStats;
bool rtc_inspect(const char *target, const void *image, size_t size, const char *kernel,
                 RtcKernelStats *stats);

/* cache.c. The key of an image: a hash of everything it is a function of. */
typedef struct CacheKey {
    char text[65]; /* hexadecimal, zero-terminated */
} CacheKey;
CacheKey cache_key(const char *source, size_t size, const char *target, const char *options,
                   const char *toolchain_version);
bool cache_load(const CacheKey *key, void **data, size_t *size); /* malloc'ed */
void cache_store(const CacheKey *key, const void *data, size_t size); /* best effort */

#endif
