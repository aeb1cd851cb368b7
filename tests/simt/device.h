/* device.h: the names that NVRTC and hipRTC know without a header and our preludes use, for the
 * host compiler, on top of machine.h. Stands before a generated CUDA or HIP text; C++17, no
 * headers. */
#include "machine.h"

#if defined(SIMT_PTX)
#define SIMT_WATCHED SIMT_PTX_WATCHED
#elif defined(__SANITIZE_THREAD__)
#define SIMT_WATCHED 1
#elif defined(__has_feature)
#define SIMT_WATCHED __has_feature(thread_sanitizer)
#else
#define SIMT_WATCHED 0
#endif
#if defined(SIMT_HIP)
#define SIMT_FENCES_ALONE 1
#else
#define SIMT_FENCES_ALONE 0
#endif

/* Shared memory is static: launch.c puts a block's own there before its turn. Its section, whose
 * ends the linker names, is never empty. */
extern "C" {
extern unsigned char __start_simt_shared[], __stop_simt_shared[];
__attribute__((section("simt_shared"), used)) unsigned char simt_shared_start[16];
SimtMachine simt_machine = {{},
                            {},
                            {},
                            {},
                            0,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            __start_simt_shared,
                            __stop_simt_shared,
                            SIMT_WATCHED,
                            SIMT_FENCES_ALONE};
}

#define __device__
#define __global__ __attribute__((used))
#define __shared__ static __attribute__((section("simt_shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

/* clang's instrumentation for data races calls these before every access to memory whose address is
 * known elsewhere; what this file does itself is left out. */
#define SIMT_OURS __attribute__((no_sanitize("thread")))
extern "C" {
#define SIMT_ACCESS(name, bytes, writes)             \
    SIMT_OURS void name(void *address) {             \
        simt_machine.access(address, bytes, writes); \
    }
#define SIMT_ACCESSES(bytes)                                    \
    SIMT_ACCESS(__tsan_read##bytes, bytes, 0)                   \
    SIMT_ACCESS(__tsan_write##bytes, bytes, 1)                  \
    SIMT_ACCESS(__tsan_unaligned_read##bytes, bytes, 0)         \
    SIMT_ACCESS(__tsan_unaligned_write##bytes, bytes, 1)        \
    SIMT_ACCESS(__tsan_volatile_write##bytes, bytes, 1)         \
    SIMT_OURS void __tsan_volatile_read##bytes(void *address) { \
        simt_machine.look(address, bytes);                      \
    }
SIMT_ACCESSES(1)
SIMT_ACCESSES(2)
SIMT_ACCESSES(4)
SIMT_ACCESSES(8)
SIMT_ACCESSES(16)
SIMT_OURS void __tsan_init() {}
SIMT_OURS void __tsan_func_entry(void *) {}
SIMT_OURS void __tsan_func_exit() {}
/* Copies of structures become calls, which here come to these. */
enum { SIMT_COPIED = 64 };
__attribute__((visibility("hidden"))) SIMT_OURS void *memcpy(void *to, const void *from,
                                                             unsigned long bytes) {
    typedef unsigned long __attribute__((may_alias, aligned(1))) Word;
    for (unsigned long at = 0, part; at < bytes; at += part) {
        unsigned char held[SIMT_COPIED]; /* what is read may be other than what is there */
        unsigned long i = 0;
        part = bytes - at < SIMT_COPIED ? bytes - at : SIMT_COPIED;
        if (simt_machine.access) simt_machine.access((const char *)from + at, part, 0);
        for (; i + sizeof(Word) <= part; i += sizeof(Word))
            *(Word *)(held + i) = *(const Word *)((const char *)from + at + i);
        for (; i < part; i++) held[i] = ((const unsigned char *)from)[at + i];
        if (simt_machine.access) simt_machine.access((char *)to + at, part, 1);
        for (i = 0; i + sizeof(Word) <= part; i += sizeof(Word))
            *(Word *)((char *)to + at + i) = *(const Word *)(held + i);
        for (; i < part; i++) ((unsigned char *)to)[at + i] = held[i];
    }
    return to;
}
__attribute__((visibility("hidden"))) SIMT_OURS void *memset(void *to, int value,
                                                             unsigned long bytes) {
    if (simt_machine.access) simt_machine.access(to, bytes, 1);
    for (unsigned long i = 0; i < bytes; i++) ((unsigned char *)to)[i] = (unsigned char)value;
    return to;
}
}

/* One copy in the code of every wait in the text, so that its address says which wait it is. */
#if defined(__clang__)
#define SIMT_WAIT static __attribute__((noinline, nomerge))
#else
#define SIMT_WAIT static __attribute__((noinline, noclone))
#endif
#define SIMT_PLACE __builtin_return_address(0)

SIMT_OURS SIMT_WAIT void simt_barrier() {
    simt_machine.barrier(SIMT_PLACE);
}
SIMT_OURS SIMT_WAIT void simt_group_sync() {
    simt_machine.group_sync(SIMT_PLACE);
}
SIMT_OURS SIMT_WAIT void simt_bare_wait(int scope) {
    simt_machine.bare_wait(SIMT_PLACE, scope);
}
SIMT_OURS SIMT_WAIT void simt_pause() {
    simt_machine.pause(SIMT_PLACE);
}
SIMT_OURS SIMT_WAIT unsigned long long simt_exchange(unsigned long long value, unsigned lane) {
    return simt_machine.exchange(value, lane, SIMT_PLACE);
}

template <class T> SIMT_OURS static T simt_exchange_value(T value, unsigned lane) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = simt_exchange(bits, lane);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T> SIMT_OURS static T simt_atomic_add(T *counter, T value, int order, int scope) {
    simt_machine.atomic(counter, sizeof(T), 1, order, scope);
    T before = *counter;
    *counter = before + value;
    return before;
}
template <class T> SIMT_OURS static T simt_atomic_min(T *least, T value, int order, int scope) {
    simt_machine.atomic(least, sizeof(T), 1, order, scope);
    T before = *least;
    *least = value < before ? value : before;
    return before;
}
template <class T> SIMT_OURS static T simt_atomic_load(const T *counter, int order, int scope) {
    simt_machine.atomic(counter, sizeof(T), 0, order, scope);
    return *const_cast<const volatile T *>(counter);
}

#if defined(SIMT_CUDA)

#define threadIdx (simt_machine.thread)
#define blockIdx (simt_machine.block)
#define blockDim (simt_machine.threads)
#define gridDim (simt_machine.blocks)

static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __uint_as_float(unsigned bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
static inline long long __double_as_longlong(double x) {
    long long bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline double __longlong_as_double(long long bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
static inline float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}
static inline float __fsqrt_rn(float x) {
    return __builtin_sqrtf(x);
}
static inline double __dsqrt_rn(double x) {
    return __builtin_sqrt(x);
}

template <class T> static T __shfl_xor_sync(unsigned members, T value, int mask) {
    if (members != 0xffffffffu || mask < 0 || mask > 31)
        simt_machine.fail("a shuffle must name all 32 lanes and a mask below 32");
    return simt_exchange_value(value, (simt_machine.thread.x & 31u) ^ (unsigned)mask);
}
#define __syncthreads() simt_barrier()
#define __syncwarp() simt_group_sync()
static inline void __threadfence() {
    simt_machine.fence(__ATOMIC_SEQ_CST, SIMT_DEVICE);
}
static inline void __threadfence_block() {
    simt_machine.fence(__ATOMIC_SEQ_CST, SIMT_BLOCK);
}
#define __nanosleep(time) simt_pause()
template <class T> static T atomicAdd(T *counter, T value) {
    return simt_atomic_add(counter, value, __ATOMIC_RELAXED, SIMT_DEVICE);
}
template <class T> static T atomicMin(T *least, T value) {
    return simt_atomic_min(least, value, __ATOMIC_RELAXED, SIMT_DEVICE);
}
template <class T> static T atomicAdd_block(T *counter, T value) {
    return simt_atomic_add(counter, value, __ATOMIC_RELAXED, SIMT_BLOCK);
}

#elif defined(SIMT_HIP)

#define __builtin_amdgcn_workitem_id_x() (simt_machine.thread.x)
#define __builtin_amdgcn_workgroup_id_x() (simt_machine.block.x)
#define __builtin_amdgcn_workgroup_size_x() (simt_machine.threads.x)
#define __builtin_amdgcn_grid_size_x() (simt_machine.threads.x * simt_machine.blocks.x)
/* "agent", "workgroup", "wavefront", "singlethread"; "" is the system. */
static constexpr int simt_scope(const char *name) {
    return name[0] == 'a'                     ? SIMT_DEVICE
           : name[0] == 'w' && name[1] == 'o' ? SIMT_BLOCK
           : name[0] == 'w'                   ? SIMT_WAVE
           : name[0]                          ? SIMT_THREAD
                                              : SIMT_SYSTEM;
}
template <int order, int scope> SIMT_OURS static void simt_fence() {
    simt_machine.fence(order, scope);
}
#define __builtin_amdgcn_fence(order, scope) simt_fence<order, simt_scope(scope)>()
/* These order no memory. */
#define __builtin_amdgcn_s_barrier() simt_bare_wait(SIMT_BLOCK)
#define __builtin_amdgcn_wave_barrier() simt_bare_wait(SIMT_WAVE)
#define __builtin_amdgcn_s_sleep(time) simt_pause()

/* The last instruction of a division has its operands, and is the division here. */
#define __builtin_amdgcn_div_scalef(a, b, numerator, scaled) \
    (*(scaled) = false, (numerator) ? (a) : (b))
#define __builtin_amdgcn_div_scale(a, b, numerator, scaled) \
    (*(scaled) = false, (numerator) ? (a) : (b))
#define __builtin_amdgcn_rcpf(d) (1.0f / (d))
#define __builtin_amdgcn_rcp(d) (1.0 / (d))
#define __builtin_amdgcn_div_fmasf(r, y, q, scaled) ((void)(scaled), (r) * (y) + (q))
#define __builtin_amdgcn_div_fmas(r, y, q, scaled) ((void)(scaled), (r) * (y) + (q))
#define __builtin_amdgcn_div_fixupf(q, b, a) ((void)(q), (a) / (b))
#define __builtin_amdgcn_div_fixup(q, b, a) ((void)(q), (a) / (b))

/* Reads the register of another lane of the wave; the address counts bytes, modulo the wave. Lanes
 * meet in groups of 32, since the two of a wave64 may be at different places, so no other may be
 * read. */
static inline int __builtin_simt_ds_bpermute(int address, int value) {
    unsigned wanted = ((unsigned)address >> 2) & (simt_machine.wave - 1u);
    unsigned own = simt_machine.thread.x & (simt_machine.wave - 1u);
    if ((wanted ^ own) > 31u) simt_machine.fail("a lane reads a lane of another group of 32");
    return simt_exchange_value(value, wanted & 31u);
}
#define __builtin_amdgcn_ds_bpermute(address, value) __builtin_simt_ds_bpermute(address, value)

#undef __HIP_MEMORY_SCOPE_SINGLETHREAD
#undef __HIP_MEMORY_SCOPE_WAVEFRONT
#undef __HIP_MEMORY_SCOPE_WORKGROUP
#undef __HIP_MEMORY_SCOPE_AGENT
#undef __HIP_MEMORY_SCOPE_SYSTEM
#define __HIP_MEMORY_SCOPE_SINGLETHREAD SIMT_THREAD
#define __HIP_MEMORY_SCOPE_WAVEFRONT SIMT_WAVE
#define __HIP_MEMORY_SCOPE_WORKGROUP SIMT_BLOCK
#define __HIP_MEMORY_SCOPE_AGENT SIMT_DEVICE
#define __HIP_MEMORY_SCOPE_SYSTEM SIMT_SYSTEM
#define __hip_atomic_load(counter, order, scope) simt_atomic_load(counter, order, scope)
#define __hip_atomic_fetch_add(counter, value, order, scope) \
    simt_atomic_add(counter, value, order, scope)
#define __hip_atomic_fetch_min(least, value, order, scope) \
    simt_atomic_min(least, value, order, scope)

#endif

/* For what compile.c writes behind the text: the size of a kernel's argument, and its call. */
template <class Arguments> constexpr unsigned long simt_size(void (*)(Arguments)) {
    return sizeof(Arguments);
}
template <class Arguments>
SIMT_OURS static void simt_call(void (*kernel)(Arguments), const void *words) {
    kernel(*static_cast<const Arguments *>(words));
}
