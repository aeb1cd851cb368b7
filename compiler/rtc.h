/* rtc.h: the runtime compilers behind one interface: source text and a target in, image bytes and a
 * log out. GPU toolchains run in a helper process (see rtc_process.c), so a crash or a hang of
 * theirs is an error here; the host compiler is a process of its own. */
#ifndef RTC_H
#define RTC_H

typedef enum RtcForm {
    RTC_IMAGE,   /* what the driver loads: cubin for sm_NN, PTX for compute_NN, code object for
                    gfxNNN, a shared object for cpu */
    RTC_ASSEMBLY /* for people and tests: PTX for CUDA, disassembly-like text for the others */
} RtcForm;

typedef struct RtcOutput {
    void *data;  /* malloc'ed, with a zero after its last byte; rtc_output_free */
    size_t size; /* PTX as an image counts its final zero, assembly does not */
    char *log; /* malloc'ed, never NULL after a call; the toolchain's words, or why it could not run
                */
    double milliseconds; /* spent in the toolchain */
} RtcOutput;

/* One row per toolchain. `prefix` decides: "sm_" and "compute_" NVRTC, "gfx" hipRTC, "cpu" the
 * host. */
typedef struct Rtc {
    const char *name; /* "nvrtc", "hiprtc", "host" */
    ls_status (*compile)(const char *source, size_t size, const char *label, const char *target,
                         RtcForm form, ls_math math, RtcOutput *output);
    /* What becomes part of the cache key: which files the toolchain is (path, size, time of
     * change), its options, and for the host the CPU. Cheap: loads and runs nothing. False: the
     * reason it is missing. */
    bool (*describe)(char *text, size_t size);
    /* Its name and version for people, by loading or running it. False: why that failed. */
    bool (*version)(char *text, size_t size);
} Rtc;
const Rtc *rtc_for_target(const char *target); /* NULL: no such target */
const Rtc *rtc_named(const char *name);
void rtc_output_free(RtcOutput *output);

/* code.c: runs the toolchain for a step, or says in `message` why it could not. Threads may do so
 * at once. */
ls_status code_make(const Rtc *rtc, const char *source, const char *step, const char *target,
                    RtcForm form, ls_math math, RtcOutput *output, char *message, size_t size);

/* Every target the product promises, NULL-terminated: the suite compiles every kernel for each. */
extern const char *const rtc_cuda_targets[];
extern const char *const rtc_hip_targets[];
/* Whether the target is none of those; `tried` receives the list of its toolchain. */
bool rtc_untried_target(const char *target, char *tried, size_t size);

/* What the toolchain made of a kernel, read from the image (ELF notes of a cubin, metadata of a
 * code object) or, for its accesses to device memory, from its instructions. -1 where unknown. */
enum { RTC_WIDTHS = 5 };
typedef struct RtcKernelStats {
    int registers, spill_bytes, widest_access;
    int accesses[RTC_WIDTHS]; /* loads and stores of 1, 2, 4, 8 and 16 bytes (12 count as 8) */
} RtcKernelStats;
bool rtc_inspect(const char *target, const void *image, size_t size, const char *kernel,
                 RtcKernelStats *stats);
/* The same for several kernels, which a disassembler reads at once; false if one is not there. */
bool rtc_inspect_all(const char *target, const void *image, size_t size, const char *const *kernels,
                     size_t count, RtcKernelStats *stats);

/* sha256.c */
typedef struct Sha256 {
    uint32_t state[8];
    uint64_t size; /* bytes added so far */
    uint8_t block[64];
} Sha256;
Sha256 sha256_open(void);
void sha256_add(Sha256 *hash, const void *bytes, size_t size);
void sha256_close(Sha256 *hash, uint8_t digest[32]);

/* rtc_output.c: all of `size` bytes to an open file; false with errno set. */
bool rtc_write(int file, const void *data, size_t size);

/* cache.c. The key of an image: a hash of everything it is a function of, Lockstep's own version
 * and numeric version included. `toolchain_version` is Rtc.describe's text; `options` is whatever
 * else the caller compiles with (the grade of the mathematics, the form). */
typedef struct CacheKey {
    char text[65]; /* hexadecimal, zero-terminated */
} CacheKey;
CacheKey cache_key(const char *source, size_t size, const char *target, const char *options,
                   const char *toolchain_version);
/* The directory's name; false: there is none that can be used. */
bool cache_folder(char *path, size_t size);
/* *data is malloc'ed, with a zero after its last byte. False: not there, or not to be trusted. */
bool cache_load(const CacheKey *key, void **data, size_t *size);
void cache_store(const CacheKey *key, const void *data, size_t size); /* best effort */
/* Removes the oldest entries until at most `limit` bytes are left; cache_store does so now and
 * then. */
void cache_trim(uint64_t limit);
/* Small text files beside the entries, whose names begin with "tuned-": loaded whole into `size`
 * bytes; stored (NULL: removed), with the reason where that fails; all those whose names begin with
 * `begin`, one after the other. */
bool cache_record_load(const char *name, char *text, size_t size);
bool cache_record_store(const char *name, const char *text, char *reason, size_t size);
void cache_record_each(const char *begin, char *text, size_t size,
                       void (*visit)(void *user, const char *text), void *user);

#endif
